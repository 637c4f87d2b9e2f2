/* The same from C++20 (lockstep.hpp): options as people write them, compared with marks in a struct and with calls that leave them
 * out. */
#include <cstdio>
#include <cstring>
#include <lockstep.hpp>

static int forms, wrong;

static void report(int line, const char *what)
{
    wrong++;
    std::printf("forms.cpp:%d: %s%s%s\n", line, what, lk_failed() ? ": " : "", lk_failed() ? lk_error() : "");
    lk_clear_error();
}

static const char *config_of(lk_layer *l)
{
    lk_model *m = lk::sequential({l});
    return m ? lk_model_to_json(m) : nullptr;
}

static void layer(int line, lk_layer *natural, const char *says, lk_layer *without)
{
    const char *a = config_of(natural), *c = config_of(without);
    forms++;
    if (!a || !c) report(line, "cannot be made");
    else if (!std::strstr(a, says)) report(line, a);
    else if (!std::strcmp(a, c)) report(line, "is the default");
}
#define LAYER(natural, says, without) layer(__LINE__, natural, says, without)

static bool same(lk_tensor *a, lk_tensor *b)
{
    return lk_size(a) == lk_size(b) && lk_rank(a) == lk_rank(b) &&
           !std::memcmp(lk_data(a), lk_data(b), static_cast<size_t>(lk_size(a)) * lk_dtype_bytes(lk_tensor_dtype(a)));
}

static void tensor(int line, lk_tensor *natural, lk_tensor *should, lk_tensor *without)
{
    forms++;
    if (lk_poisoned(natural) || lk_poisoned(should) || lk_poisoned(without)) report(line, "cannot be computed");
    else if (!same(natural, should)) report(line, "gives something else");
    else if (same(natural, without)) report(line, "is the default");
}
#define TENSOR(natural, should, without) tensor(__LINE__, natural, should, without)

static lk_tensor *trained(lk_optimizer *o)
{
    lk_variable *v = lk::variable(lk::tensor(lk::shape(2), {1, -2}));
    for (int i = 0; o && i < 3; i++) {
        lk_tape           *tape = lk::tape_begin();
        lk_tensor         *loss = lk::reduce_sum(lk_mul(lk_square(lk_read(v)), lk_scalar(i + 1)));
        lk_variable *const one_based[] = {nullptr, v};
        lk_optimizer_apply(o, lk_tape_gradient(tape, loss, lk_variables_of(1, one_based)));
    }
    return o ? lk_read(v) : nullptr;
}

static void layers()
{
    const int  none = 0;
    const bool no = false;
    LAYER(lk::dense(8, {.use_bias = false}), "\"use_bias\": false", lk::dense(8));
    LAYER(lk::dense(8, {.use_bias = 0}), "\"use_bias\": false", lk::dense(8));
    LAYER(lk::dense(8, {.use_bias = none}), "\"use_bias\": false", lk::dense(8));
    LAYER(lk::dense(8, {.use_bias = no}), "\"use_bias\": false", lk::dense(8));
    LAYER(lk::dense(8, {.use_bias = LK_OFF}), "\"use_bias\": false", lk::dense(8));
    LAYER(lk::dense(8, {.use_bias = LK_DEFAULT, .trainable = false}), "\"use_bias\": true", lk::dense(8));
    LAYER(lk::dense(8, {.trainable = 0}), "\"trainable\": false", lk::dense(8));
    LAYER(lk::lstm(4, {.return_sequences = true}), "\"return_sequences\": true", lk::lstm(4));
    LAYER(lk::lstm(4, {.return_sequences = 2}), "\"return_sequences\": true", lk::lstm(4));
    LAYER(lk::batch_normalization({.momentum = 0.5}), "\"momentum\": 0.5", lk::batch_normalization());
    LAYER(lk::batch_normalization({.momentum = 0}), "\"momentum\": 0.0", lk::batch_normalization());
    LAYER(lk::batch_normalization({.momentum = lk::number(0)}), "\"momentum\": 0.0", lk::batch_normalization());
    LAYER(lk::batch_normalization({.epsilon = 1e-5, .center = false}), "\"center\": false", lk::batch_normalization());
    LAYER(lk::leaky_relu_layer({.negative_slope = 0}), "\"negative_slope\": 0.0", lk::leaky_relu_layer());
    LAYER(lk::leaky_relu_layer({.negative_slope = 0.1}), "\"negative_slope\": 0.1", lk::leaky_relu_layer());
    LAYER(lk::dropout(0.5, {.seed = 0}), "\"seed\": 0", lk::dropout(0.5));
    LAYER(lk::conv2d(4, 3, {.strides = 2}), "\"strides\": [2, 2]", lk::conv2d(4, 3));
    LAYER(lk::conv2d(4, 3, {.strides = {2, 1}}), "\"strides\": [2, 1]", lk::conv2d(4, 3));
    LAYER(lk::conv2d(4, 3, {.strides = lk::axes({2, 1})}), "\"strides\": [2, 1]", lk::conv2d(4, 3));
    LAYER(lk::max_pooling2d({.pool_size = 3}), "\"pool_size\": [3, 3]", lk::max_pooling2d());
    LAYER(lk::zero_padding2d({.border = 0}), "[[0, 0], [0, 0]]", lk::zero_padding2d());
    LAYER(lk::zero_padding2d({.border = {5000, 0, 5000, 70000}}), "70000", lk::zero_padding2d());
    LAYER(lk::softmax_layer({.axis = 1}), "\"axis\": 1", lk::softmax_layer());
    LAYER(lk::group_normalization({.groups = 4}), "\"groups\": 4", lk::group_normalization());
    LAYER(lk::multi_head_attention(2, 4, {.value_dim = 3}), "\"value_dim\": 3", lk::multi_head_attention(2, 4));
}

static void computed()
{
    lk_tensor *x = lk::tensor(lk::shape(2, 3), {1, 2, 3, 4, 5, 60});
    TENSOR(lk::reduce_sum(x, {.axis = 0}), lk::tensor(lk::shape(3), {5, 7, 63}), lk::reduce_sum(x));
    TENSOR(lk::reduce_sum(x, {.axis = 1}), lk::tensor(lk::shape(2), {6, 69}), lk::reduce_sum(x));
    TENSOR(lk::reduce_sum(x, {.axis = {0, 1}, .keepdims = true}), lk::tensor(lk::shape(1, 1), {75}), lk::reduce_sum(x));
    TENSOR(lk::reduce_max(x, {.axis = -1}), lk::tensor(lk::shape(2), {3, 60}), lk::reduce_max(x));
    TENSOR(lk::softmax(x, {.axis = 0}), lk::softmax(x, {.axis = lk::axis(0)}), lk::softmax(x));
    TENSOR(lk::cumsum(x, {.axis = 1, .exclusive = true}), lk::tensor(lk::shape(2, 3), {0, 1, 3, 0, 4, 9}), lk::cumsum(x));
    TENSOR(lk::matmul(x, x, {.transpose_b = true}), lk::tensor(lk::shape(2, 2), {14, 194, 194, 3641}), x);
    TENSOR(lk_reverse(x, 0), lk::tensor(lk::shape(2, 3), {4, 5, 60, 1, 2, 3}), x);
    TENSOR(lk_squeeze(lk::tensor(lk::shape(1, 3, 1), {1, 2, 3}), 0), lk::tensor(lk::shape(3, 1), {1, 2, 3}), x);
    TENSOR(lk_slice(x, {0, 1}, {2, 2}), lk::tensor(lk::shape(2, 2), {2, 3, 5, 60}), x);
    TENSOR(lk::compute_average_loss(lk::tensor(lk::shape(2), {1, 2}), {.global_batch_size = 0}), lk_scalar(0),
           lk::compute_average_loss(lk::tensor(lk::shape(2), {1, 2})));
    TENSOR(trained(lk::sgd({.learning_rate = 0})), lk::tensor(lk::shape(2), {1, -2}), trained(lk::sgd()));
    TENSOR(trained(lk::adam({.beta_1 = 0})), trained(lk::adam({.beta_1 = lk::number(0)})), trained(lk::adam()));
    TENSOR(trained(lk::adamw({.learning_rate = 0.1, .weight_decay = 0})), trained(lk::adam({.learning_rate = 0.1})),
           trained(lk::adamw({.learning_rate = 0.1})));
    lk_tensor *label = lk::tensor(lk::shape(1, 1), {0}), *guess = lk::tensor(lk::shape(1, 1), {10});
    TENSOR(lk::loss_call(lk::huber({.delta = 2}), label, guess), lk_scalar(18), lk::loss_call(lk::huber(), label, guess));
}

static void fits()
{
    lk_tensor *x = lk_ones(lk::shape(8, 4), LK_F32), *y = lk_ones(lk::shape(8, 1), LK_F32);
    lk_model  *m = lk::sequential({lk::dense(1, {.input_shape = lk::shape(4)})});
    lk::compile(m, {.optimizer = lk::sgd(), .loss = lk::mean_squared_error()});
    const lk_digest before = lk_model_digest(m);
    forms += 2;
    if (!lk::fit(m, x, y, {.epochs = 0, .verbose = 0}) || !lk_digest_equal(before, lk_model_digest(m)))
        report(__LINE__, "epochs = 0");
    if (!lk::fit(m, x, y, {.batch_size = 4, .verbose = 0}) || lk_digest_equal(before, lk_model_digest(m)))
        report(__LINE__, "one epoch");
}

int main()
{
    lk::pool here;
    layers();
    computed();
    fits();
    std::printf("%d forms, %d wrong\n", forms, wrong);
    return wrong != 0;
}
