/* Gradients through max pools without expanding them (op/pooled.h): op by op and compiled give the same bits on any number of
 * threads; numbers are those of the plain way, by differences and by graphs in which the pooled gradient cannot be used; a compiled
 * step computes no gradient of a whole image if no op reads one, and computes the gradients of weights and bias together. */
#include "check.h"
#include <lockstep.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { ROWS = 5, MOST = 8 };

/* With hide, the pooled value passes an op whose gradient rule makes a new tensor: nothing is known of the pool after it. */
typedef struct form {
    bool hide, second;
} form;

typedef lk_tensor *graph_fn(const form *f, lk_tensor *x, lk_tensor *w, lk_tensor *b);

static lk_tensor *seen(const form *f, lk_tensor *t) { return f->hide ? lk_identity(t) : t; }

/* ---- graphs: x [n, 9, 8, 3], w [3, 3, 3, 5], b [5] ---- */

static lk_tensor *conv(lk_tensor *x, lk_tensor *w, lk_tensor *b) { return lk_nn_conv2d(x, w, b, .padding = LK_SAME); }

static lk_tensor *usual(const form *f, lk_tensor *x, lk_tensor *w, lk_tensor *b)
{
    return lk_nn_max_pool2d(seen(f, lk_relu(conv(x, w, b))));
}

static lk_tensor *two_layers(const form *f, lk_tensor *x, lk_tensor *w, lk_tensor *b)
{
    lk_tensor *y = usual(f, x, w, b);
    lk_tensor *narrow = lk_slice(y, LK_AXES(0, 0, 0, 1), LK_AXES(lk_dim(y, 0), lk_dim(y, 1), lk_dim(y, 2), 3));
    return usual(f, narrow, w, b);
}

static lk_tensor *without_relu(const form *f, lk_tensor *x, lk_tensor *w, lk_tensor *b)
{
    return lk_nn_max_pool2d(seen(f, conv(x, w, b)));
}

static lk_tensor *relu_behind(const form *f, lk_tensor *x, lk_tensor *w, lk_tensor *b) { return lk_relu(without_relu(f, x, w, b)); }

static lk_tensor *relu_between(const form *f, lk_tensor *x, lk_tensor *w, lk_tensor *b) /* not what is pooled */
{
    return lk_nn_max_pool2d(seen(f, lk_add(lk_relu(lk_nn_conv2d(x, w)), b)));
}

static lk_tensor *relu_twice(const form *f, lk_tensor *x, lk_tensor *w, lk_tensor *b)
{
    lk_tensor *y = lk_sub(lk_relu(conv(x, w, b)), lk_mul(b, b));
    return lk_nn_max_pool2d(seen(f, lk_relu(lk_relu(y))));
}

static lk_tensor *another_reader(const form *f, lk_tensor *x, lk_tensor *w, lk_tensor *b) /* its gradient fills the zeros */
{
    lk_tensor *y = lk_relu(conv(x, w, b));
    return lk_add(lk_nn_max_pool2d(seen(f, y)), lk_reduce_mean(lk_square(y)));
}

static lk_tensor *pooled_twice(const form *f, lk_tensor *x, lk_tensor *w, lk_tensor *b)
{
    lk_tensor *y = lk_relu(conv(x, w, b));
    return lk_add(lk_nn_max_pool2d(seen(f, y)), lk_mul(lk_nn_max_pool2d(seen(f, lk_neg(y))), b));
}

static lk_tensor *windows_of_three(const form *f, lk_tensor *x, lk_tensor *w, lk_tensor *b)
{
    return lk_nn_max_pool2d(seen(f, lk_relu(conv(x, w, b))), .size = LK_AXES(3));
}

static lk_tensor *overlapping(const form *f, lk_tensor *x, lk_tensor *w, lk_tensor *b)
{
    return lk_nn_max_pool2d(seen(f, lk_relu(conv(x, w, b))), .size = LK_AXES(2), .strides = LK_AXES(1));
}

static lk_tensor *hanging_over(const form *f, lk_tensor *x, lk_tensor *w, lk_tensor *b)
{
    return lk_nn_max_pool2d(seen(f, lk_relu(conv(x, w, b))), .padding = LK_SAME);
}

static lk_tensor *strides(const form *f, lk_tensor *x, lk_tensor *w, lk_tensor *b)
{
    return lk_nn_max_pool2d(seen(f, lk_nn_conv2d(x, w, b, .strides = LK_AXES(2), .padding = LK_SAME, .activation = LK_RELU)));
}

static const struct {
    const char *name;
    graph_fn   *fn;
} graphs[] = {
#define GRAPH(fn)                                                                                                                  \
    {                                                                                                                              \
#fn, fn                                                                                                                    \
    }
    GRAPH(usual),       GRAPH(two_layers),     GRAPH(without_relu), GRAPH(relu_behind),      GRAPH(relu_between), GRAPH(relu_twice),
    GRAPH(overlapping), GRAPH(another_reader), GRAPH(pooled_twice), GRAPH(windows_of_three), GRAPH(hanging_over), GRAPH(strides),
};

/* ---- gradients of them ---- */

typedef struct job {
    graph_fn *graph;
    form      form;
} job;

static lk_tensor *loss_of(const job *j, lk_tuple in)
{
    return lk_reduce_sum(lk_square(j->graph(&j->form, in.item[0], in.item[1], in.item[2])));
}

static lk_tuple gradients(lk_tuple in, void *user)
{
    const job *j = user;
    lk_tape   *tape = lk_tape_begin();
    for (int i = 0; i < in.count; i++)
        lk_tape_watch(tape, in.item[i]);
    return lk_tape_gradient_of(tape, loss_of(j, in), in, NULL);
}

static lk_tuple second_gradients(lk_tuple in, void *user)
{
    lk_tape *tape = lk_tape_begin();
    for (int i = 0; i < in.count; i++)
        lk_tape_watch(tape, in.item[i]);
    lk_tuple   d = gradients(in, user);
    lk_tensor *sum = lk_add(lk_reduce_sum(lk_square(d.item[0])), lk_reduce_sum(lk_square(d.item[1])));
    return lk_tape_gradient_of(tape, lk_add(sum, lk_reduce_sum(lk_square(d.item[2]))), in, NULL);
}

static lk_tensor *noise(lk_shape shape, int call)
{
    return lk_random_uniform(shape, .call = call, .low = -1, .high = LK_NUMBER(1));
}

static lk_tuple inputs(lk_dtype type)
{
    lk_tensor *x = lk_cast(noise(LK_SHAPE(ROWS, 9, 8, 3), 1), type);
    return LK_TUPLE(lk_rows(x, 0), lk_cast(noise(LK_SHAPE(3, 3, 3, 5), 2), type), lk_cast(noise(LK_SHAPE(5), 3), type));
}

static void same_bits(const char *name, int threads, lk_tuple a, lk_tuple b)
{
    assert_int_equal(a.count, b.count);
    for (int i = 0; i < a.count; i++)
        if (memcmp(lk_data(a.item[i]), lk_data(b.item[i]), (size_t)lk_size(a.item[i]) * 4) != 0)
            fail_msg("%s, threads %d: item %d differs", name, threads, i);
}

static void check_compiled(lk_fn fn, const char *name, job *j)
{
    LK_POOL {
        lk_tuple in = inputs(LK_F32), eager = fn(in, j);
        for (int threads = 1; threads <= 3; threads++) {
            lk_set_threads(threads);
            same_bits(name, threads, eager, lk_call(lk_function_of(fn, j), in));
        }
        lk_set_threads(0);
        assert_false(lk_failed());
    }
}

TEST(eager_equals_compiled)
{
    for (int i = 0; i < LKI_COUNT(graphs); i++)
        for (int order = 1; order <= 2; order++)
            check_compiled(order == 1 ? gradients : second_gradients, graphs[i].name, &(job){graphs[i].fn, {0}});
}

static void check_near(lk_fn fn, const char *name, graph_fn *graph)
{
    LK_POOL {
        lk_tuple in = inputs(LK_F64), through = fn(in, &(job){graph, {0}}), hidden = fn(in, &(job){graph, {.hide = true}});
        for (int i = 0; i < through.count; i++)
            for (int64_t k = 0; k < lk_size(through.item[i]); k++) {
                double a = ((const double *)lk_data(through.item[i]))[k], b = ((const double *)lk_data(hidden.item[i]))[k];
                if (!(fabs(a - b) <= 1e-12 * (1 + fabs(b)))) fail_msg("%s: item %d, element %d: %g and %g", name, i, (int)k, a, b);
            }
        assert_false(lk_failed());
    }
}

TEST(numbers_are_those_of_the_plain_way)
{
    for (int i = 0; i < LKI_COUNT(graphs); i++) {
        check_near(gradients, graphs[i].name, graphs[i].fn);
        check_near(second_gradients, graphs[i].name, graphs[i].fn);
    }
}

static lk_tuple loss(lk_tuple in, void *user) { return LK_TUPLE(loss_of(user, in)); }

TEST(numerical_gradients)
{
    for (int i = 0; i < LKI_COUNT(graphs); i++)
        LK_POOL {
            lk_status status = lk_check_gradient(loss, inputs(LK_F64), &(job){graphs[i].fn, {0}}, 1e-6, 1e-5, NULL);
            if (status != LK_OK) fail_msg("%s: %s", graphs[i].name, lk_error());
        }
}

/* ---- what is remembered ---- */

/* The gradient of what was pooled, handed to another tape: another relu must not take it for its own. */
static lk_tuple handed_on(lk_tuple in, void *user)
{
    (void)user;
    lk_tensor *x = in.item[0], *w = in.item[1], *b = in.item[2];
    lk_tape   *first = lk_tape_begin();
    lk_tensor *y = lk_relu(conv(x, w, b));
    lk_tape_watch(first, y);
    lk_tensor *d = lk_tape_gradient_of(first, lk_reduce_sum(lk_square(lk_nn_max_pool2d(y))), LK_TUPLE(y), NULL).item[0];
    lk_tape   *other = lk_tape_begin();
    lk_tape_watch(other, w);
    lk_tensor *z = lk_relu(conv(lk_neg(x), w, b));
    return LK_TUPLE(d, lk_tape_gradient_of(other, z, LK_TUPLE(w), d).item[0]);
}

static lk_tuple by_hand(lk_tuple in, void *user)
{
    (void)user;
    lk_tensor *x = in.item[0], *w = in.item[1], *b = in.item[2], *d = in.item[3];
    lk_tape   *tape = lk_tape_begin();
    lk_tape_watch(tape, w);
    lk_tensor *z = lk_relu(conv(lk_neg(x), w, b));
    return LK_TUPLE(d, lk_tape_gradient_of(tape, z, LK_TUPLE(w), d).item[0]);
}

TEST(a_gradient_that_leaves_a_tape_is_like_any_other)
{
    check_compiled(handed_on, "handed_on", NULL);
    LK_POOL {
        lk_tuple in = inputs(LK_F32), out = handed_on(in, NULL);
        lk_tuple again = LK_TUPLE(in.item[0], in.item[1], in.item[2],
                                  lk_rows(lk_tensor_from(lk_tensor_shape(out.item[0]), LK_F32, lk_data(out.item[0])), 0));
        same_bits("by hand", 0, out, by_hand(again, NULL));
        same_bits("by hand, compiled", 1, out, lk_call(lk_function_of(by_hand, NULL), again));
    }
    assert_false(lk_failed());
}

static int unpools, live_products, sums;

static void listen(const char *message, void *user)
{
    (void)user;
    if (!strstr(message, "plan:")) return;
    unpools += strstr(message, "max_pool_grad") != NULL;
    live_products += strstr(message, "conv2d_pool_grad") && !strstr(message, "combine");
    sums += strstr(message, "reduce_sum partial") && strstr(message, "[5]");
}

static void count_in_plan(graph_fn *graph, bool hide)
{
    unpools = live_products = sums = 0;
    lk_set_log(listen, NULL);
    lk_set_verbose("plan");
    LK_POOL
        lk_call(lk_function_of(gradients, &(job){graph, {.hide = hide}}), inputs(LK_F32));
    lk_set_verbose("");
    lk_set_log(NULL, NULL);
    assert_false(lk_failed());
}

TEST(no_gradient_of_a_whole_image_is_made)
{
    count_in_plan(two_layers, false);
    assert_int_equal(unpools, 0);
    assert_int_equal(live_products, 4);
    count_in_plan(two_layers, true);
    assert_int_equal(unpools, 2);
    assert_int_equal(live_products, 0);
    count_in_plan(another_reader, false);
    assert_int_equal(unpools, 1);
    assert_int_equal(live_products, 0);
}

TEST(one_kernel_sums_for_weights_and_bias)
{
    static graph_fn *const both[] = {usual, without_relu, relu_behind, strides};
    for (int i = 0; i < LKI_COUNT(both); i++) {
        count_in_plan(both[i], false);
        assert_int_equal(sums, 0);
    }
    count_in_plan(usual, true);
    assert_int_equal(sums, 1);
}

/* Any number of lanes and threads, with rows and lanes left over, and a bias of one channel, which is summed by itself. */
TEST(both_sums_go_up_the_tree)
{
    static const int lanes[] = {1, 2, 8, 16}, threads[] = {1, 2, 3, 8}, rows[] = {1, 5, 16, 37}, channels[] = {1, 2, 32};
    for (int v = 0; v < LKI_COUNT(lanes); v++)
        for (int r = 0; r < LKI_COUNT(rows); r++)
            for (int c = 0; c < LKI_COUNT(channels); c++)
                LK_POOL {
                    lk_set_lanes(lanes[v]);
                    job      j = {r % 2 ? usual : without_relu, {0}};
                    lk_tuple in = LK_TUPLE(lk_rows(noise(LK_SHAPE(rows[r], 9, 8, 3), 1), 0),
                                           noise(LK_SHAPE(3, 3, 3, channels[c]), 2), noise(LK_SHAPE(channels[c]), 3));
                    lk_tuple eager = gradients(in, &j);
                    for (int t = 0; t < LKI_COUNT(threads); t++) {
                        lk_set_threads(threads[t]);
                        same_bits("lanes", threads[t], eager, lk_call(lk_function_of(gradients, &j), in));
                    }
                    lk_set_threads(0);
                    lk_set_lanes(8);
                    assert_false(lk_failed());
                }
}

TEST(no_channels_but_a_bias)
{
    LK_POOL {
        job      j = {usual, {0}};
        lk_tuple in =
            LK_TUPLE(lk_rows(noise(LK_SHAPE(5, 9, 8, 0), 1), 0), noise(LK_SHAPE(3, 3, 0, 4), 2), lk_ones(LK_SHAPE(4), LK_F32));
        same_bits("no channels", 0, gradients(in, &j), lk_call(lk_function_of(gradients, &j), in));
        assert_false(lk_failed());
    }
}

static int attempt(void)
{
    int good = 0;
    LK_POOL {
        lk_tuple out = gradients(inputs(LK_F32), &(job){two_layers, {0}});
        good = out.count == 3 && !lk_poisoned(out.item[0]) && !lk_poisoned(out.item[1]) && !lk_poisoned(out.item[2]);
    }
    return good;
}

TEST(every_allocation_may_fail)
{
    attempt();
    assert_true(check_every_allocation(attempt) > 20);
}

TESTS(cmocka_unit_test(eager_equals_compiled), cmocka_unit_test(numbers_are_those_of_the_plain_way),
      cmocka_unit_test(numerical_gradients), cmocka_unit_test(a_gradient_that_leaves_a_tape_is_like_any_other),
      cmocka_unit_test(no_gradient_of_a_whole_image_is_made), cmocka_unit_test(one_kernel_sums_for_weights_and_bias),
      cmocka_unit_test(both_sums_go_up_the_tree), cmocka_unit_test(no_channels_but_a_bias),
      cmocka_unit_test(every_allocation_may_fail))
