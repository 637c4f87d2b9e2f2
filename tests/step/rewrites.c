/* Ops that become one node of the graph: compiled steps give the results of op by op. */
#include "check.h"
#include <lockstep.h>
#include <string.h>

enum { ROWS = 16, STEPS = 5, IN = 6, OUT = 4 };

typedef struct weights {
    lk_tensor *kernel, *bias;
} weights;

/* Steps of a sequence are folded into rows before the product and taken apart before the relu. */
static lk_tuple dense_of_steps(lk_tuple in, void *user)
{
    const weights *w = user;
    lk_tensor     *flat = lk_reshape(in.item[0], LK_SHAPE(-1, IN));
    lk_tensor     *sum = lk_add(lk_matmul(flat, w->kernel), w->bias);
    return LK_TUPLE(lk_relu(lk_reshape(sum, LK_SHAPE(-1, STEPS, OUT))));
}

/* The relu and what follows it read all entries of an image as one row. */
static lk_tuple flat_convolution(lk_tuple in, void *user)
{
    const weights *w = user;
    lk_tensor     *image = lk_reshape(in.item[0], LK_SHAPE(ROWS, STEPS, IN, 1));
    lk_tensor     *y = lk_nn_conv2d(image, lk_reshape(w->kernel, LK_SHAPE(3, 2, 1, OUT)), w->bias);
    return LK_TUPLE(lk_add(lk_relu(lk_reshape(y, LK_SHAPE(ROWS, -1))), lk_scalar(1)));
}

static void compare(lk_fn fn, int threads)
{
    lk_set_threads(threads);
    LK_POOL {
        weights    w = {lk_random_uniform(LK_SHAPE(IN, OUT), .low = LK_NUMBER(-1), .stream = "kernel"),
                        lk_random_uniform(LK_SHAPE(OUT), .low = LK_NUMBER(-1), .stream = "bias")};
        lk_tensor *x = lk_rows(lk_random_uniform(LK_SHAPE(ROWS, STEPS, IN), .stream = "x"), ROWS);
        lk_tensor *single = fn(LK_TUPLE(x), &w).item[0], *compiled = lk_call(lk_function_of(fn, &w), LK_TUPLE(x)).item[0];
        assert_false(lk_failed());
        assert_int_equal(lk_size(single), lk_size(compiled));
        assert_memory_equal(lk_data(single), lk_data(compiled), (size_t)lk_size(single) * sizeof(float));
    }
    lk_set_threads(0);
}

TEST(relu_after_a_product_under_another_shape)
{
    for (int threads = 1; threads <= 3; threads++)
        compare(dense_of_steps, threads);
}

TEST(relu_after_a_convolution_under_another_shape)
{
    for (int threads = 1; threads <= 3; threads++)
        compare(flat_convolution, threads);
}

/* ---- moves there and back ---- */

/* Two layers with channels first, as they move them: the first back and the second there again. */
static lk_tuple channels_first(lk_tuple in, void *user)
{
    (void)user;
    lk_tensor *x = lk_transpose(lk_reshape(in.item[0], LK_SHAPE(ROWS, 2, 3, STEPS)), LK_AXES(0, 2, 3, 1));
    lk_tensor *y = lk_transpose(lk_nn_max_pool2d(x, 2, 1), LK_AXES(0, 3, 1, 2));
    lk_tensor *z = lk_nn_avg_pool2d(lk_transpose(y, LK_AXES(0, 2, 3, 1)), 2, 1);
    return LK_TUPLE(lk_transpose(z, LK_AXES(0, 3, 1, 2)), lk_reduce_sum(y));
}

/* Back to another order: both moves stay. */
static lk_tuple another_order(lk_tuple in, void *user)
{
    (void)user;
    lk_tensor *x = lk_transpose(lk_square(lk_reshape(in.item[0], LK_SHAPE(ROWS, 2, 3, STEPS))), LK_AXES(0, 2, 3, 1));
    return LK_TUPLE(lk_exp(lk_transpose(x, LK_AXES(0, 2, 3, 1))));
}

static lk_function_info info_of(lk_fn fn)
{
    lk_function_info info = {0};
    LK_POOL {
        lk_function *f = lk_function_of(fn, NULL);
        lk_call(f, LK_TUPLE(lk_rows(lk_ones(LK_SHAPE(ROWS, STEPS, IN), LK_F32), ROWS)));
        info = lk_function_inspect(f);
    }
    assert_false(lk_failed());
    return info;
}

TEST(moves_there_and_back)
{
    for (int threads = 1; threads <= 3; threads++) {
        compare(channels_first, threads);
        compare(another_order, threads);
    }
    assert_int_equal(info_of(channels_first).fused, 1);
    assert_int_equal(info_of(another_order).fused, 0);
}

TESTS(cmocka_unit_test(relu_after_a_product_under_another_shape), cmocka_unit_test(relu_after_a_convolution_under_another_shape),
      cmocka_unit_test(moves_there_and_back))
