/* The same from C++20: names in a namespace, arguments by name, guards that close by themselves, errors as exceptions. */
#include <cstdio>
#include <lockstep.hpp>

static lk_model *residual_network()
{
    lk_node *x = lk::input(lk::shape(4));
    lk_node *h = lk::apply(lk::dense(4, {.activation = LK_RELU}), x);
    return lk::functional({x}, {lk::apply(lk::dense(1), lk::apply(lk::add_layer(), x, h))});
}

static lk_dataset *rows()
{
    lk_random_args a{};
    a.shape = lk::shape(256, 4);
    lk_tensor     *x = lk_random_normal_kw(a);
    lk_reduce_args sum{};
    sum.x = x;
    sum.axis = lk::axes({1});
    sum.keepdims = LK_ON;
    return lk::batch(lk::shuffle(lk_dataset_from_tensor_slices(lk::tuple({x, lk_reduce_sum_kw(sum)})), 256), 32);
}

int main()
{
    try {
        lk_strategy *strategy = lk::mirrored_strategy({.cpu_devices = 2});
        lk_model    *model = nullptr;
        {
            lk::scope here(strategy);
            model = residual_network();
        }
        lk::compile(model, {.optimizer = lk::adam({.learning_rate = 0.01}), .loss = lk::mean_squared_error()});
        lk_history *history = lk::fit(model, rows(), {.epochs = 20, .verbose = LK_SILENT});
        lk::check();
        int batches = 0;
        for (lk_tuple batch : lk::each(rows()))
            batches += batch.count > 0;
        std::printf("Loss after 20 epochs: %.4f; %d batches\n", lk_history_value(history, "loss", 19), batches);
        lk::dense(-1);
        lk::check();
    } catch (const lk::error &e) {
        std::printf("%s\n", e.what());
        return e.code == LK_EINVAL ? 0 : 1;
    }
    return 1; /* the last layer should have been refused */
}
