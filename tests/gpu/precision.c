/* TF32 and BF16, with the bounds that training needs: gradients of products and convolutions, by weights and by data, within 2e-2
 * of their largest entry of those that f32 gives on the CPU; and the loss of each step of a training within 2e-2. The setting must
 * also have an effect: some entry must differ by more than f32 explains. tests/golden compares whole trainings with
 * TensorFlow's. */
#include "small.h"

static const double BOUND = 2e-2, MORE_THAN_F32 = 2e-5;

enum { X, W, BIAS, OPERANDS };

typedef struct form {
    const char *name;
    lk_shape    x, w;
    bool        conv, bias, relu, pool, same;
    bool        large; /* too large for simulated cards */
} form;

#define ROWS_OF(...)                                                                                                               \
    {                                                                                                                              \
        .rank = LKI_N(int64_t, __VA_ARGS__), .dim = { __VA_ARGS__ }                                                                \
    }
static const form FORMS[] = {
    {"matmul", ROWS_OF(40, 96), ROWS_OF(96, 56), .bias = false},
    {"dense", ROWS_OF(64, 200), ROWS_OF(200, 64), .bias = true, .relu = true},
    {"conv2d of few channels", ROWS_OF(8, 12, 12, 1), ROWS_OF(3, 3, 1, 32), .conv = true, .bias = true},
    {"conv2d", ROWS_OF(8, 10, 10, 16), ROWS_OF(3, 3, 16, 32), .conv = true, .bias = true, .relu = true},
    {"conv2d, padded", ROWS_OF(4, 9, 9, 32), ROWS_OF(5, 5, 32, 24), .conv = true, .same = true},
    {"conv2d of few channels with pool", ROWS_OF(8, 14, 14, 1), ROWS_OF(3, 3, 1, 32), .conv = true, .bias = true, .relu = true,
     .pool = true},
    {"conv2d with pool", ROWS_OF(8, 14, 14, 16), ROWS_OF(3, 3, 16, 32), .conv = true, .bias = true, .relu = true, .pool = true},
    {"conv2d with pool that leaves outputs out", ROWS_OF(3, 13, 15, 32), ROWS_OF(3, 3, 32, 64), .conv = true, .bias = true,
     .relu = true, .pool = true},
    {"conv2d with pool, padded", ROWS_OF(2, 9, 10, 36), ROWS_OF(3, 3, 36, 40), .conv = true, .pool = true, .same = true},
    {"conv2d with pool of many rows", ROWS_OF(4400, 7, 6, 16), ROWS_OF(3, 3, 16, 40), .conv = true, .bias = true, .relu = true,
     .pool = true, .large = true},
};

/* Where a pool chooses, or a relu cuts, rounding must not change which: rows and columns of data stand out by turns, and the middle
 * of a window weighs most. */
static lk_tensor *data_of(const form *f)
{
    lk_tensor    *noise = lk_random_normal(f->x, .stream = "x");
    const int64_t N = f->x.dim[0], H = f->x.dim[1], Wd = f->x.dim[2], C = f->x.dim[3];
    if (!f->pool) return noise;
    float *peaks = calloc((size_t)(N * H * Wd * C), sizeof *peaks);
    for (int64_t i = 0; i < N * H * Wd; i++)
        for (int64_t c = 0; c < C; c++)
            peaks[i * C + c] = i / Wd % H % 2 && i % Wd % 2 ? 8.0f : 0.0f; /* odd: under the middle of an even output's window */
    lk_tensor *t = lk_add(lk_mul(noise, lk_scalar(0.3)), lk_tensor_from(f->x, LK_F32, peaks));
    free(peaks);
    return t;
}

static lk_tensor *weights_of(const form *f)
{
    lk_tensor *noise = lk_mul(lk_random_normal(f->w, .stream = "w"), lk_scalar(0.2));
    if (!f->pool) return noise;
    const int64_t C = f->w.dim[2], F = f->w.dim[3];
    float        *middle = calloc((size_t)(9 * C * F), sizeof *middle);
    for (int64_t i = 0; i < C * F; i++)
        middle[4 * C * F + i] = 1.0f;
    lk_tensor *t = lk_add(lk_mul(noise, lk_scalar(0.2)), lk_tensor_from(f->w, LK_F32, middle));
    free(middle);
    return t;
}

/* Every other channel is far below zero. */
static lk_tensor *bias_of(const form *f)
{
    const int64_t count = f->w.dim[f->w.rank - 1];
    float         b[64];
    for (int64_t i = 0; i < count; i++)
        b[i] = f->pool ? 4.0f : !f->relu ? (float)i / 8 : i % 2 ? 20.0f : -20.0f;
    return lk_tensor_from(LK_SHAPE(count), LK_F32, b);
}

static lk_tensor *forward(const form *f, lk_tensor *const *in)
{
    lk_tensor *bias = f->bias ? in[BIAS] : NULL;
    lk_tensor *y = f->conv ? lk_nn_conv2d(in[X], in[W], .bias = bias, .padding = f->same ? LK_SAME : LK_VALID,
                                          .activation = f->relu ? LK_RELU : LK_LINEAR)
                           : lk_nn_dense(in[X], in[W], bias, f->relu ? LK_RELU : LK_LINEAR);
    return f->pool ? lk_nn_max_pool2d(y) : y;
}

/* rows, weights, bias to their gradients of a sum that weighs each output differently. */
static lk_tuple gradients(lk_tuple in, void *user)
{
    const form *f = user;
    lk_tape    *tape = lk_tape_begin();
    for (int i = 0; i < OPERANDS; i++)
        lk_tape_watch(tape, in.item[i]);
    lk_tensor *y = forward(f, in.item), *dy = lk_random_normal(lk_tensor_shape(y), .stream = "dy");
    lk_tensor *loss = lk_reduce_sum(lk_mul(y, dy));
    return lk_tape_gradient_of_all(tape, LK_TUPLE(loss), f->bias ? in : LK_TUPLE(in.item[X], in.item[W]), LK_TUPLE());
}

static double largest(const float *a, int64_t n)
{
    double most = 0;
    for (int64_t i = 0; i < n; i++)
        most = fmax(most, fabs((double)a[i]));
    return most;
}

/* The largest difference, in parts of the largest entry. */
static double difference(lk_tensor *ours, lk_tensor *right)
{
    const int64_t n = lk_size(right);
    const float  *a = lk_data(ours), *b = lk_data(right);
    double        most = 0;
    NEED(a && b && lk_size(ours) == n);
    for (int64_t i = 0; i < n; i++)
        most = isnan(a[i]) ? INFINITY : fmax(most, fabs((double)a[i] - (double)b[i]));
    return most / largest(b, n);
}

static void compare_gradients(const form *f, lk_strategy *gpu)
{
    static const char *const names[] = {"data", "weights", "bias"};
    lk_tuple                 in = LK_TUPLE(data_of(f), weights_of(f), bias_of(f));
    lk_tuple                 right = gradients(in, (void *)f), ours = {0}, compiled = {0};
    double                   most = 0;
    LK_SCOPE(gpu) {
        ours = gradients(in, (void *)f);
        compiled = lk_call(lk_function_of(gradients, (void *)f), in);
    }
    SOUND();
    for (int i = 0; i < right.count; i++) {
        const double e = fmax(difference(ours.item[i], right.item[i]), difference(compiled.item[i], right.item[i]));
        most = fmax(most, e);
        if (!(e <= BOUND)) fprintf(stderr, "%s: the gradient by %s is off by %g of its largest entry\n", f->name, names[i], e);
        NEED(e <= BOUND);
    }
    if (most < MORE_THAN_F32)
        fprintf(stderr, "%s: no gradient is off by more than %g: was the precision ignored?\n", f->name, most);
    NEED(most >= MORE_THAN_F32);
}

static void check_gradients(const void *arg, outcome *out)
{
    lk_strategy *gpu = lk_mirrored_strategy(.devices = LK_DEVICES("GPU:0"), .precision = *(const lk_precision *)arg);
    (void)out;
    for (int i = 0; i < LKI_COUNT(FORMS); i++)
        if (!FORMS[i].large || !simulated())
            LK_STEP
                compare_gradients(&FORMS[i], gpu);
}

/* ---- rows do not know how many there are ---- */

/* Outputs, and the gradient by data of a sum over them. */
static lk_tuple outputs(lk_tuple in, void *user)
{
    lk_tape *tape = lk_tape_begin();
    lk_tape_watch(tape, in.item[X]);
    lk_tensor *y = forward(user, in.item), *loss = lk_reduce_sum(lk_mul(y, y));
    return LK_TUPLE(y, lk_tape_gradient_of_all(tape, LK_TUPLE(loss), LK_TUPLE(in.item[X]), LK_TUPLE()).item[0]);
}

/* The first rows of a large batch and a batch of those alone: by other units of a kernel, and with the same bits. */
static void check_rows(const void *arg, outcome *out)
{
    enum { MANY = 4400, FEW = 40, EACH = 7 * 6 * 16 };
    lk_strategy *gpu = lk_mirrored_strategy(.devices = LK_DEVICES("GPU:0"), .precision = *(const lk_precision *)arg);
    const form   f = {"conv2d with pool", ROWS_OF(MANY, 7, 6, 16), ROWS_OF(3, 3, 16, 40), .conv = true, .bias = true, .relu = true,
                      .pool = true};
    float       *x = malloc(MANY * EACH * sizeof *x);
    (void)out;
    for (int64_t i = 0; i < MANY * EACH; i++)
        x[i] = (float)((i * 2654435761u >> 7) % 1021) / 512 - 1;
    lk_tensor *w = weights_of(&f), *bias = bias_of(&f);
    lk_tuple   got[2] = {0};
    LK_SCOPE(gpu)
        for (int i = 0; i < 2; i++)
            got[i] = lk_call(lk_function_of(outputs, (void *)&f),
                             LK_TUPLE(lk_tensor_from(LK_SHAPE(i ? FEW : MANY, 7, 6, 16), LK_F32, x), w, bias));
    SOUND();
    for (int i = 0; i < 2; i++)
        NEED(!memcmp(lk_data(got[0].item[i]), lk_data(got[1].item[i]), (size_t)lk_size(got[1].item[i]) * sizeof(float)));
    free(x);
}

TEST(rows_in_tf32)
{
    if (!simulated()) CHILD(check_rows, &(lk_precision){LK_PRECISION_TF32}, NULL, .cards = 1);
}

TEST(gradients_in_tf32) { CHILD(check_gradients, &(lk_precision){LK_PRECISION_TF32}, NULL, .cards = 1); }
TEST(gradients_in_bf16) { CHILD(check_gradients, &(lk_precision){LK_PRECISION_BF16}, NULL, .cards = 1); }

/* ---- the loss of each step ---- */

static void losses(const void *arg, outcome *out)
{
    lk_strategy *s = lk_mirrored_strategy(.devices = LK_DEVICES("GPU:0"), .precision = *(const lk_precision *)arg);
    small_loop(s, false, out);
}

static void compare_losses(lk_precision p)
{
    outcome right = {0}, ours = {0};
    bool    same = true;
    CHILD(losses, &(lk_precision){LK_PRECISION_F32}, &right, .cards = 1);
    if (!CHILD(losses, &p, &ours, .cards = 1)) skip();
    assert_true(right.count > 6 && right.count == ours.count);
    for (int i = 0; i < right.count - 1; i++) { /* the last is an accuracy */
        same = same && ours.value[i] == right.value[i];
        if (!(fabs(ours.value[i] / right.value[i] - 1) <= BOUND))
            fail_msg("the loss of step %d is %.6g, not %.6g", i, ours.value[i], right.value[i]);
    }
    assert_false(same);
}

TEST(losses_in_tf32) { compare_losses(LK_PRECISION_TF32); }
TEST(losses_in_bf16) { compare_losses(LK_PRECISION_BF16); }

TESTS(cmocka_unit_test(rows_in_tf32), cmocka_unit_test(gradients_in_tf32), cmocka_unit_test(gradients_in_bf16),
      cmocka_unit_test(losses_in_tf32), cmocka_unit_test(losses_in_bf16))
