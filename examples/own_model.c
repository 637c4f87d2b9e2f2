/* Models that are not sequential: a graph with a residual and two outputs, and a custom function over layers. */
#include <lockstep.h>
#include <math.h>
#include <stdio.h>

enum { ROWS = 512, FEATURES = 8 };

/* ---- as a graph ---- */

/* x + dense(relu(dense(x))): a block that learns what to add. */
static lk_node *residual(lk_node *x)
{
    lk_node *h = lk_apply(lk_dense(FEATURES, .activation = LK_RELU), x);
    return lk_apply(lk_add_layer(), x, lk_apply(lk_dense(FEATURES), h));
}

static lk_model *graph(void)
{
    lk_node *x = lk_input(LK_SHAPE(FEATURES), .name = "features");
    lk_node *h = residual(residual(x));
    return lk_functional(LK_NODES(x),
                         LK_NODES(lk_apply(lk_dense(1, .name = "sum"), h), lk_apply(lk_dense(FEATURES, .name = "largest"), h)),
                         .name = "two_heads");
}

/* ---- as a function ---- */

typedef struct gated {
    lk_layer *value, *gate, *out;
} gated;

/* Any op may stand between the layers, and any control flow of C. */
static lk_tuple gated_call(lk_model *m, lk_tuple in, int training, void *user)
{
    const gated *g = user;
    lk_tensor   *x = in.item[0];
    (void)m, (void)training;
    for (int turn = 0; turn < 2; turn++) /* the same layers twice */
        x = lk_mul(lk_layer_call(g->value, x), lk_layer_call(g->gate, x));
    return LK_TUPLE(lk_layer_call(g->out, x));
}

int main(void)
{
    lk_tensor *x = lk_random_normal(LK_SHAPE(ROWS, FEATURES));
    lk_tensor *sum = lk_reduce_sum(x, .axis = LK_AXES(1), .keepdims = LK_ON), *largest = lk_argmax(x, .axis = LK_AXIS(1));

    lk_model *two = graph();
    lk_model_summary(two);
    lk_model_compile(two, .losses = LK_LOSSES(lk_mean_squared_error(), lk_sparse_categorical_crossentropy(.from_logits = LK_ON)),
                     .optimizer = lk_adam(.learning_rate = 0.01), .metrics = LK_METRICS(lk_accuracy(.output = 1)));
    lk_history *h = lk_model_fit(two, .x = x, .y = lk_nest(LK_TUPLE(sum, largest)), .epochs = 40, .verbose = LK_SILENT);
    double error = h ? lk_history_value(h, "sum_loss", 39) : INFINITY, hits = h ? lk_history_value(h, "largest_accuracy", 39) : 0;
    printf("Two heads after 40 epochs: squared error %.3f, accuracy %.3f\n", error, hits);

    gated     g = {lk_dense(FEATURES), lk_dense(FEATURES, .activation = LK_SIGMOID), lk_dense(1)};
    lk_model *own = lk_model_of(gated_call, LK_LAYERS(g.value, g.gate, g.out), .user = &g, .name = "gated");
    lk_model_compile(own, .loss = lk_mean_squared_error(), .optimizer = lk_adam(.learning_rate = 0.01));
    h = lk_model_fit(own, .x = x, .y = sum, .epochs = 40, .verbose = LK_SILENT);
    double gated_error = h ? lk_history_value(h, "loss", 39) : INFINITY;
    printf("A custom model: squared error %.3f with %lld weights\n", gated_error, (long long)lk_model_count_params(own));

    if (lk_failed()) fprintf(stderr, "%s\n", lk_error());
    return lk_failed() || !(error < 0.5) || !(hits > 0.8) || !(gated_error < 1);
}
