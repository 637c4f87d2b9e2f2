/* The kernels of batch normalisation: every variant has the reference's bits, for odd numbers of channels, divided ranges, lanes
 * and extreme values; and batch normalisation followed by relu gives the same bits op by op and compiled, where it is fused. */
#include "kernels.h"
#include <lockstep.h>

static void check_kernels(lk_dtype t, lk_shape shape, int lanes, values kind)
{
    const int64_t C = shape.dim[shape.rank - 1];
    int64_t       bound[65];
    for (int s = 0; s <= lanes; s++)
        bound[s] = (s * shape.dim[0] + lanes - 1) / (lanes ? lanes : 1);
    lki_lanes lane = {lanes, bound};
    lki_view  x = random_operand(t, shape, kind), dy = random_operand(t, shape, kind), y = operand(t, shape);
    lki_view  center = random_operand(t, LK_SHAPE(C), TAME), scale = random_operand(t, LK_SHAPE(C), TAME);
    lki_view  pair = random_operand(t, LK_SHAPE(2, C), TAME), back = random_operand(t, LK_SHAPE(2, C), TAME);
    lki_view  sums = operand(LK_F64, LK_SHAPE(3, C)), two = operand(LK_F64, LK_SHAPE(2, C));
    for (int relu = 0; relu < 2; relu++) {
        lki_attr attr = {.epilogue = {.relu = relu}};
        lki_view forward[3] = {x, center, pair}, reduce[4] = {dy, x, center, pair}, data[6] = {dy, scale, x, center, back, pair};
        lki_args a = {.src = &x, .dst = &sums, .nsrc = 1, .ndst = 1, .attr = &attr, .lanes = lanes ? &lane : NULL};
        check_slot(LKI_K_batch_sums, &a, 1);
        a.src = reduce, a.nsrc = 3 + relu, a.dst = &two;
        check_slot(LKI_K_batch_grad_sums, &a, 1);
        a = (lki_args){.src = forward, .dst = &y, .nsrc = 3, .ndst = 1, .attr = &attr};
        check_slot(LKI_K_batch_apply, &a, C ? C : 1);
        a.src = data, a.nsrc = 5 + relu;
        check_slot(LKI_K_batch_grad_x, &a, C ? C : 1);
    }
    forget_all();
}

static void variants_agree(void **state)
{
    static const int64_t  channels[] = {1, 3, 8, 15, 16, 17, 32, 33, 64, 100, 129, 3000};
    static const int      lanes[] = {0, 1, 2, 8, 64};
    static const lk_dtype types[] = {LK_F32, LK_F64};
    (void)state;
    for (int i = 0; i < LKI_COUNT(channels); i++)
        for (int l = 0; l < LKI_COUNT(lanes); l++)
            for (int t = 0; t < 2; t++) {
                const values kind = (i + l) % 2 ? TAME : WILD;
                check_kernels(types[t], LK_SHAPE(5 + 8 * (l == 3), 3, channels[i]), lanes[l], kind);
                check_kernels(types[t], LK_SHAPE(9, channels[i]), lanes[l], kind);
            }
    check_kernels(LK_F32, LK_SHAPE(0, 3, 7), 8, TAME);
    check_kernels(LK_F32, LK_SHAPE(4, 0, 7), 0, TAME);
    check_kernels(LK_F32, LK_SHAPE(4, 3, 0), 8, TAME);
    check_kernels(LK_F32, LK_SHAPE(4, 700, 32), 2, WILD); /* more than a block of rows */
}

/* ---- fused ---- */

typedef struct layer {
    lk_variable *gamma, *beta, *mean, *variance;
    int          times; /* how often the gradient after the relu is used */
} layer;

static lk_tuple through(lk_tuple in, void *user)
{
    layer     *l = user;
    lk_tape   *tape = lk_tape_begin();
    lk_tensor *x = in.item[0], *gamma = lk_read(l->gamma), *beta = lk_read(l->beta);
    lk_tape_watch(tape, x);
    lk_tuple   y = lk_nn_batch_norm(x, gamma, beta, .moving_mean = lk_read(l->mean), .moving_variance = lk_read(l->variance),
                                    .training = LK_ON);
    lk_tensor *out = lk_relu(y.item[0]);
    if (l->times > 1) out = lk_add(out, y.item[0]);
    lk_tuple g = lk_tape_gradient_of(tape, out, LK_TUPLE(x, gamma, beta), in.item[1]);
    return LK_TUPLE(out, y.item[1], y.item[2], g.item[0], g.item[1], g.item[2]);
}

static void fused_or_not(void **state)
{
    (void)state;
    for (int threads = 1; threads <= 3; threads++)
        for (int times = 1; times <= 2; times++)
            LK_POOL {
                const lk_shape c = LK_SHAPE(33);
                layer          l = {lk_variable_of(lk_random_normal(c)), lk_variable_of(lk_random_normal(c, .call = 1)),
                                    lk_variable_of(lk_zeros(c, LK_F32)), lk_variable_of(lk_ones(c, LK_F32)), times};
                lk_tuple       in = lk_rows_all(LK_TUPLE(lk_add(lk_random_normal(LK_SHAPE(19, 5, 4, 33)), lk_scalar(3)),
                                                         lk_random_normal(LK_SHAPE(19, 5, 4, 33), .call = 2)),
                                                19);
                lk_set_threads(threads);
                lk_tuple one = through(in, &l), other = lk_call(lk_function_of(through, &l), in);
                assert_false(lk_failed());
                for (int i = 0; i < one.count; i++)
                    assert_memory_equal(lk_data(one.item[i]), lk_data(other.item[i]), (size_t)lk_size(one.item[i]) * sizeof(float));
            }
}

/* Numbers far from zero keep their variance: what sums of squares in f32 would lose. */
static void far_from_zero(void **state)
{
    (void)state;
    LK_POOL {
        const lk_shape c = LK_SHAPE(4);
        lk_tensor     *x = lk_add(lk_random_normal(LK_SHAPE(4096, 4)), lk_scalar(10000)), *zero = lk_zeros(c, LK_F32),
                  *one = lk_ones(c, LK_F32);
        lk_tuple y = lk_nn_batch_norm(x, .moving_mean = zero, .moving_variance = one, .training = LK_ON, .momentum = LK_NUMBER(0));
        lk_tensor   *m = lk_reduce_mean(x, .axis = LK_AXES(0)), *v = lk_reduce_mean(lk_square(lk_sub(x, m)), .axis = LK_AXES(0));
        const float *got = lk_data(y.item[2]), *want = lk_data(v);
        for (int i = 0; i < 4; i++)
            assert_true(fabsf(got[i] - want[i]) < 1e-3f * want[i]);
    }
    assert_false(lk_failed());
}

/* The same in f64, where squares do not fit the sum either. */
static void far_from_zero_in_f64(void **state)
{
    (void)state;
    LK_POOL {
        double far[8];
        for (int i = 0; i < 8; i++)
            far[i] = 1e9 + (i % 2 ? 1 : -1);
        lk_tensor *x = lk_rows(lk_tensor_from(LK_SHAPE(8, 1), LK_F64, far), 0);
        lk_tensor *mean = lk_zeros(LK_SHAPE(1), LK_F64), *variance = lk_ones(LK_SHAPE(1), LK_F64);
        lk_tuple   y =
            lk_nn_batch_norm(x, .moving_mean = mean, .moving_variance = variance, .training = LK_ON, .momentum = LK_NUMBER(0));
        assert_true(fabs(lk_item(lk_reduce_sum(y.item[2])) - 1) < 1e-6);
    }
    assert_false(lk_failed());
}

/* A product that must be made before its operand is written cannot join a normalisation that reads what was written. */
static lk_tuple written_between(lk_tuple in, void *user)
{
    lk_variable **v = user;
    lk_tensor    *before = lk_mul(in.item[0], lk_read(v[0]));
    lk_assign(v[0], lk_mul(lk_read(v[0]), lk_scalar(10)));
    lk_tuple norm = lk_nn_batch_norm(in.item[0], .gamma = lk_read(v[0]), .moving_mean = lk_read(v[1]),
                                     .moving_variance = lk_read(v[2]), .training = LK_ON);
    return LK_TUPLE(lk_add(before, norm.item[0]));
}

static void a_variable_written_between(void **state)
{
    (void)state;
    LK_POOL {
        const lk_shape c = LK_SHAPE(4);
        lk_variable   *v[3] = {lk_variable_of(lk_ones(c, LK_F32)), lk_variable_of(lk_zeros(c, LK_F32)),
                               lk_variable_of(lk_ones(c, LK_F32))};
        lk_tuple       in = LK_TUPLE(lk_rows(lk_random_uniform(LK_SHAPE(8, 4)), 0)), one = written_between(in, v);
        lk_assign(v[0], lk_ones(c, LK_F32));
        lk_tuple other = lk_call(lk_function_of(written_between, v), in);
        assert_false(lk_failed());
        assert_memory_equal(lk_data(one.item[0]), lk_data(other.item[0]), 32 * sizeof(float));
    }
}

int main(int argc, char **argv)
{
    (void)argc, (void)argv;
    const struct CMUnitTest tests[] = {cmocka_unit_test(variants_agree), cmocka_unit_test(fused_or_not),
                                       cmocka_unit_test(far_from_zero), cmocka_unit_test(far_from_zero_in_f64),
                                       cmocka_unit_test(a_variable_written_between)};
    return cmocka_run_group_tests(tests, make_tables, NULL);
}
