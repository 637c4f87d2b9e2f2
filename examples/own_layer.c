/* A custom layer: radial basis functions. Each of its units responds to the points around its centre; centres and widths are
 * learnt. In training, noise is added to the centres. Twelve units separate two rings, which no straight line can separate. */
#include <lockstep.h>
#include <stdio.h>

enum { POINTS = 512, UNITS = 12 };

/* ---- the layer: which weights, what comes out, and how ---- */

static lk_status build(lk_layer *l, int inputs, const lk_shape *in, void *user)
{
    (void)inputs, (void)user;
    lk_initializer *spread = lk_init_random_uniform(.minval = LK_NUMBER(-2), .maxval = LK_NUMBER(2));
    lk_status       status = lk_layer_add_weight(l, "centre", LK_SHAPE(UNITS, in[0].dim[0]), .initializer = spread);
    if (status != LK_OK) return status;
    return lk_layer_add_weight(l, "width", LK_SHAPE(UNITS), .initializer = lk_init_ones(), .constraint = lk_non_neg());
}

static lk_status output(const lk_layer *l, int inputs, const lk_shape *in, lk_shape *out, void *user)
{
    (void)l, (void)inputs, (void)in, (void)user;
    *out = LK_SHAPE(UNITS); /* of one row */
    return LK_OK;
}

/* exp(-width * |x - centre|^2). Ops are recorded as anywhere else: the gradient comes by itself. */
static lk_tensor *call(lk_layer *l, lk_tuple in, const lk_layer_pass *pass, void *user)
{
    const double *trembling = user;
    lk_tensor    *away = lk_sub(lk_expand_dims(in.item[0], 1), lk_layer_weight(l, "centre")); /* [n, units, 2] */
    if (pass->training)
        away = lk_add(away, lk_random_normal(LK_SHAPE(UNITS, 2), .rows_of = in.item[0], .stream = pass->stream,
                                             .iteration = pass->iteration, .high = LK_NUMBER(*trembling)));
    lk_tensor *squared = lk_reduce_sum(lk_square(away), .axis = LK_AXES(2));
    return lk_exp(lk_neg(lk_mul(squared, lk_layer_weight(l, "width"))));
}

/* ---- two rings ---- */

static void rings(lk_tensor **x, lk_tensor **y)
{
    lk_tensor *angle = lk_random_uniform(LK_SHAPE(POINTS, 1), .stream = "angle", .high = LK_NUMBER(6.2831853));
    lk_tensor *noise = lk_random_normal(LK_SHAPE(POINTS, 1), .stream = "noise", .high = LK_NUMBER(0.1));
    *y = lk_cast(lk_less(lk_random_uniform(LK_SHAPE(POINTS, 1), .stream = "ring"), lk_scalar(0.5)), LK_F32);
    lk_tensor *radius = lk_add(lk_add(*y, lk_scalar(0.7)), noise);
    *x = lk_mul(radius, lk_concat(LK_TUPLE(lk_cos(angle), lk_sin(angle)), 1));
}

int main(void)
{
    static double trembling = 0.05;
    lk_tensor    *x, *y;
    rings(&x, &y);

    lk_layer *radial = lk_layer_of(call, build, output, &trembling, .kind = "radial", .draws = LK_ON);
    lk_model *model = lk_sequential(radial, lk_dense(1));
    lk_model_compile(model, lk_adam(.learning_rate = 0.05), lk_binary_crossentropy(.from_logits = LK_ON),
                     .metrics = LK_METRICS(lk_binary_accuracy(.threshold = LK_NUMBER(0))));
    lk_model_fit(model, .x = x, .y = y, .batch_size = 64, .epochs = 20, .verbose = LK_SILENT);
    lk_model_summary(model);

    lk_logs result = lk_model_evaluate(model, .x = x, .y = y, .verbose = LK_SILENT);
    double  right = lk_logs_get(&result, "binary_accuracy");
    printf("%d units classify %.1f %% of %d points correctly; the first has its centre at ", UNITS, 100 * right, POINTS);
    lk_print(lk_slice(lk_layer_weight(radial, "centre"), LK_AXES(0, 0), LK_AXES(1, 2)));

    if (lk_failed()) fprintf(stderr, "%s\n", lk_error());
    return lk_failed() || !(right > 0.97);
}
