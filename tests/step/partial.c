/* Sums over rows with an operand that is not rows itself, such as a gradient that was passed in: replicas whose lanes are not a
 * single subtree divide it like the rows it is combined with. Compiled and op by op, on numbers of replicas that divide the lanes
 * and others. */
#include "check.h"
#include "step/replicas.h"
#include <math.h>

typedef struct setting {
    lk_strategy *strategy;
    lk_variable *kernel, *bias, *dense;
    bool         apart; /* replica 0 does one op less, so that replicas are not planned as one device */
} setting;

static lk_tensor *own_way(const setting *s, lk_tensor *x)
{
    return s->apart && lk_replica_id_in_sync_group(lk_get_replica_context()) ? lk_mul(x, lk_scalar(1)) : x;
}

static lk_tuple pooled(lk_tuple in, void *user)
{
    setting   *s = user;
    lk_tensor *x = own_way(s, in.item[0]);
    lk_tape   *t = lk_tape_begin();
    lk_tensor *k = lk_read(s->kernel), *y = lk_nn_max_pool2d(lk_nn_conv2d(x, k));
    return lk_tape_gradient_of(t, y, LK_TUPLE(k), lk_ones(lk_tensor_shape(y), LK_F32));
}

static lk_tuple pooled_with_bias(lk_tuple in, void *user)
{
    setting   *s = user;
    lk_tensor *x = own_way(s, in.item[0]);
    lk_tape   *t = lk_tape_begin();
    lk_tensor *k = lk_read(s->kernel), *b = lk_read(s->bias);
    lk_tensor *y = lk_nn_max_pool2d(lk_nn_conv2d(x, k, b, .activation = LK_RELU));
    return lk_tape_gradient_of(t, lk_square(y), LK_TUPLE(k, b), NULL);
}

static lk_tuple flat(lk_tuple in, void *user)
{
    setting   *s = user;
    lk_tensor *x = lk_flatten_rows(own_way(s, in.item[0]));
    lk_tape   *t = lk_tape_begin();
    lk_tensor *w = lk_read(s->dense), *y = lk_matmul(x, w);
    return lk_tape_gradient_of(t, y, LK_TUPLE(w), lk_fill(lk_tensor_shape(y), LK_F32, 0.5));
}

static lk_tuple two_entries_per_row(lk_tuple in, void *user)
{
    setting   *s = user;
    lk_tensor *x = own_way(s, in.item[0]);
    x = lk_reshape(x, LK_SHAPE(2 * lk_dim(x, 0), 18));
    lk_tape   *t = lk_tape_begin();
    lk_tensor *w = lk_slice(lk_read(s->dense), LK_AXES(0, 0), LK_AXES(18, 2)), *y;
    lk_tape_watch(t, w);
    y = lk_matmul(x, w);
    return lk_tape_gradient_of(t, y, LK_TUPLE(w), lk_fill(lk_tensor_shape(y), LK_F32, 0.25));
}

static const lk_fn replicas[] = {pooled, pooled_with_bias, flat, two_entries_per_row};

typedef struct call {
    setting s;
    lk_fn   replica;
} call;

static lk_tuple step(lk_tuple in, void *user)
{
    call      *c = user;
    lk_tuple   part = lk_run(c->s.strategy, c->replica, in, &c->s);
    lk_tensor *sum[2];
    for (int i = 0; i < part.count; i++)
        sum[i] = lk_reduce(c->s.strategy, LK_SUM, part.item[i]);
    return lk_tuple_from(part.count, sum);
}

static void check_equal(const lk_tensor *a, const lk_tensor *b, const char *what, int count)
{
    if (lk_failed()) print_error("%d replicas, %s: %s\n", count, what, lk_error());
    assert_false(lk_failed());
    assert_true(lki_shape_equal(&a->shape, &b->shape));
    for (int64_t i = 0; i < lk_size(a); i++) {
        float x = ((const float *)lk_data(a))[i], y = ((const float *)lk_data(b))[i];
        if (fabsf(x - y) > 1e-4f * (1 + fabsf(x))) print_error("%d replicas, %s, %d: %g and %g\n", count, what, (int)i, x, y);
        assert_true(fabsf(x - y) <= 1e-4f * (1 + fabsf(x)));
    }
}

/* The sum over all replicas, op by op and compiled, against one replica's. */
static lk_tuple sum_of(lk_fn replica, int count, int64_t rows, bool apart, bool compiled)
{
    lk_strategy *strategy = lk_mirrored_strategy(.cpu_devices = count);
    call         c = {{.strategy = strategy, .apart = apart}, replica};
    LK_SCOPE(strategy) {
        c.s.kernel = lk_variable_of(lk_random_normal(LK_SHAPE(3, 3, 1, 2), .call = 1));
        c.s.bias = lk_variable_of(lk_random_normal(LK_SHAPE(2), .call = 4));
        c.s.dense = lk_variable_of(lk_random_normal(LK_SHAPE(36, 2), .call = 2));
    }
    lk_tuple in = LK_TUPLE(hand_out(strategy, lk_random_normal(LK_SHAPE(rows, 6, 6, 1), .call = 3), 16));
    return compiled ? lk_call(lk_function_of(step, &c), in) : step(in, &c);
}

TEST(an_operand_that_is_not_rows)
{
    static const int     counts[] = {2, 3, 5, 7, 8};
    static const int64_t sizes[] = {16, 13, 3};
    for (int f = 0; f < LKI_COUNT(replicas); f++)
        for (int i = 0; i < LKI_COUNT(counts); i++)
            for (int rows = 0; rows < LKI_COUNT(sizes); rows++)
                for (int form = 0; form < 4; form++)
                    LK_POOL {
                        lk_tuple one = sum_of(replicas[f], 1, sizes[rows], false, false);
                        lk_tuple many = sum_of(replicas[f], counts[i], sizes[rows], form & 1, form & 2);
                        for (int k = 0; k < one.count; k++)
                            check_equal(one.item[k], many.item[k], form & 2 ? "compiled" : "op by op", counts[i]);
                    }
}

TESTS(cmocka_unit_test(an_operand_that_is_not_rows))
