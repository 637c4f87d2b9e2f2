/* A custom op: the "snake" activation, x + sin(a x)^2 / a, with one a per feature, in plain C.
 *
 * It declares that it works row by row, so it runs on many cores and replicas, inside compiled steps too, and the weights are the
 * same for any number of them. Its gradient is written with the library's ops. */
#include <lockstep.h>
#include <math.h>
#include <stdio.h>

static int64_t elements(const lk_shape *s)
{
    int64_t n = 1;
    for (int i = 0; i < s->rank; i++)
        n *= s->dim[i];
    return n;
}

static void snake(const lk_op_view *v, void *user)
{
    const float *x = v->in[0], *a = v->in[1];
    float       *y = v->out;
    int64_t      features = v->in_shape[1].dim[0], n = elements(&v->out_shape);
    (void)user;
    for (int64_t i = 0; i < n; i++) {
        float s = sinf(a[i % features] * x[i]);
        y[i] = x[i] + s * s / a[i % features];
    }
}

/* d/dx = 1 + sin(2 a x);  d/da = x sin(2 a x) / a - sin(a x)^2 / a^2, summed over the rows */
static lk_tuple snake_gradient(lk_tuple in, lk_tensor *y, lk_tensor *dy, void *user)
{
    lk_tensor *x = in.item[0], *a = in.item[1], *ax = lk_mul(x, a), *wave = lk_sin(lk_mul(ax, lk_scalar(2)));
    lk_tensor *da = lk_sub(lk_div(lk_mul(x, wave), a), lk_div(lk_square(lk_sin(ax)), lk_square(a)));
    (void)y, (void)user;
    return LK_TUPLE(lk_mul(dy, lk_add(wave, lk_scalar(1))), lk_reduce_sum(lk_mul(dy, da), .axis = LK_AXES(0)));
}

/* ---- a layer around it ---- */

static lk_op *op;

static lk_status build(lk_layer *l, int inputs, const lk_shape *in, void *user)
{
    (void)inputs, (void)user;
    return lk_layer_add_weight(l, "a", LK_SHAPE(in[0].dim[in[0].rank - 1]), .initializer = lk_init_constant(4));
}

static lk_tensor *call(lk_layer *l, lk_tuple in, const lk_layer_pass *pass, void *user)
{
    (void)pass, (void)user;
    return lk_op_call(op, in.item[0], lk_layer_weight(l, "a"));
}

static lk_model *network(void)
{
    return lk_sequential(lk_dense(16, .input_shape = LK_SHAPE(1)), lk_layer_of(call, build, .kind = "snake"), lk_dense(1));
}

/* ---- learn a wave ---- */

static lk_digest learn(int replicas, double *loss)
{
    lk_strategy *s = lk_mirrored_strategy(.cpu_devices = replicas);
    lk_model    *m = NULL;
    LK_SCOPE(s)
        m = network();
    lk_model_compile(m, .loss = lk_mean_squared_error(), .optimizer = lk_adam(.learning_rate = 0.01));
    lk_tensor  *x = lk_random_uniform(LK_SHAPE(512, 1), .low = -3, .high = LK_NUMBER(3));
    lk_tensor  *y = lk_add(x, lk_square(lk_sin(lk_mul(x, lk_scalar(1.5)))));
    lk_history *h = lk_model_fit(m, .x = x, .y = y, .batch_size = 64, .epochs = 200, .verbose = LK_SILENT);
    *loss = h && !lk_failed() ? lk_history_value(h, "loss", 199) : INFINITY;
    return lk_model_digest(m);
}

int main(void)
{
    double one, three;
    op = lk_op_of("snake", snake, .gradient = snake_gradient, .inputs = 2, .by_rows = LK_ON);
    lk_digest a = learn(1, &one), b = learn(3, &three);
    printf("Loss after 200 epochs: %.4f on one replica, %.4f on three\n", one, three);
    printf("The same weights: %s\n", lk_digest_equal(a, b) ? "yes" : "no");
    if (lk_failed()) fprintf(stderr, "%s\n", lk_error());
    return lk_failed() || !lk_digest_equal(a, b) || one > 0.05;
}
