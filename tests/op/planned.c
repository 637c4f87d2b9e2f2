/* Hand-written graphs that are difficult to plan: each runs op by op and compiled, for several numbers of threads, and must give
 * the same bits. Each test names its subject; graphs.c looks for the same at random. */
#include "check.h"
#include <lockstep.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 12, CALLS = 3 };

typedef struct state {
    lk_variable *v[4];
    lk_tensor   *held;
    lk_function *f;
} state;

typedef void     make_fn(state *s);
typedef lk_tuple in_fn(int call);

static lk_tensor *noise(lk_shape shape, int call)
{
    return lk_random_uniform(shape, .stream = "planned", .call = call, .low = -1, .high = LK_NUMBER(1));
}

typedef struct outcome {
    int    count;
    size_t bytes[CALLS * MOST + 4];
    char  *data[CALLS * MOST + 4];
} outcome;

static void keep(outcome *o, const lk_tensor *t)
{
    if (lk_poisoned(t)) return;
    o->bytes[o->count] = (size_t)lk_size(t) * lk_dtype_bytes(lk_tensor_dtype(t));
    o->data[o->count] = malloc(o->bytes[o->count] + 1);
    memcpy(o->data[o->count], lk_data(t), o->bytes[o->count]);
    o->count++;
}

static void forget(outcome *o)
{
    for (int i = 0; i < o->count; i++)
        free(o->data[i]);
}

/* threads 0: op by op */
static outcome run(lk_fn fn, make_fn *make, in_fn *in, int threads)
{
    outcome o = {0};
    LK_POOL {
        state s = {0};
        if (make) make(&s);
        if (threads) lk_set_threads(threads);
        lk_function *f = lk_function_of(fn, &s);
        for (int i = 0; i < CALLS && !lk_failed(); i++) {
            lk_tuple args = in ? in(i) : LK_TUPLE(noise(LK_SHAPE(3), i)), out = threads ? lk_call(f, args) : fn(args, &s);
            for (int k = 0; k < out.count; k++)
                keep(&o, out.item[k]);
        }
        for (int i = 0; i < 4 && s.v[i]; i++)
            keep(&o, lk_read(s.v[i]));
        lk_set_threads(0);
    }
    return o;
}

static void no_error(int threads)
{
    if (lk_failed()) print_error("threads %d: %s\n", threads, lk_error());
    bool failed = lk_failed();
    lk_clear_error();
    assert_false(failed);
}

static void check(lk_fn fn, make_fn *make, in_fn *in)
{
    static const int threads[] = {1, 2, 3, 8};
    outcome          eager = run(fn, make, in, 0);
    no_error(0);
    for (int t = 0; t < LKI_COUNT(threads); t++) {
        outcome o = run(fn, make, in, threads[t]);
        no_error(threads[t]);
        assert_int_equal(o.count, eager.count);
        for (int i = 0; i < o.count; i++) {
            assert_int_equal(o.bytes[i], eager.bytes[i]);
            if (memcmp(o.data[i], eager.data[i], o.bytes[i]) != 0) fail_msg("threads %d: item %d differs", threads[t], i);
        }
        forget(&o);
    }
    forget(&eager);
}

/* ---- results that are not made by an op ---- */

static lk_tuple gives_back(lk_tuple in, void *user)
{
    state     *s = user;
    lk_tensor *x = in.item[0], *constant = lk_fill(LK_SHAPE(2), LK_F32, 7);
    return LK_TUPLE(x, lk_identity(x), lk_reshape(x, LK_SHAPE(-1)), lk_rows(x, 0), constant, lk_reshape(constant, LK_SHAPE(2, 1)),
                    lk_read(s->v[0]), lk_reshape(lk_read(s->v[0]), LK_SHAPE(5, 4)), x, s->held, lk_stop_gradient(s->held));
}

static void one_variable(state *s)
{
    s->v[0] = lk_variable_of(noise(LK_SHAPE(4, 5), 9));
    s->held = noise(LK_SHAPE(6), 10);
}

static lk_tuple rows_in(int call) { return LK_TUPLE(lk_rows(noise(LK_SHAPE(8, 3), call), 0)); }

TEST(inputs_constants_and_variables_as_results) { check(gives_back, one_variable, rows_in); }

static lk_tuple nothing(lk_tuple in, void *user)
{
    (void)in;
    lk_assign_add(((state *)user)->v[0], lk_ones(LK_SHAPE(4, 5), LK_F32));
    return LK_TUPLE();
}

static lk_tuple no_inputs(int call)
{
    (void)call;
    return LK_TUPLE();
}

TEST(no_inputs_and_no_results) { check(nothing, one_variable, no_inputs); }

static lk_tuple twice(lk_tuple in, void *user)
{
    (void)user;
    lk_tape *tape = lk_tape_begin();
    lk_tape_watch(tape, in.item[0]);
    lk_tensor *y = lk_mul(in.item[0], lk_square(in.item[1])), *d = lk_tape_gradient_of(tape, y, LK_TUPLE(in.item[0]), NULL).item[0];
    return LK_TUPLE(y, d, y);
}

static lk_tuple the_same_twice(int call)
{
    lk_tensor *x = noise(LK_SHAPE(4), call);
    return LK_TUPLE(x, x, noise(LK_SHAPE(2), call)); /* the third is not used */
}

static lk_tuple now_and_then_the_same(int call)
{
    lk_tensor *x = noise(LK_SHAPE(4), call);
    return LK_TUPLE(x, call == 1 ? x : noise(LK_SHAPE(4), call + 5));
}

TEST(one_tensor_as_two_inputs)
{
    check(twice, NULL, the_same_twice);
    check(twice, NULL, now_and_then_the_same);
}

static lk_tuple adds_number(lk_tuple in, void *user)
{
    (void)user;
    return LK_TUPLE(lk_add(in.item[0], in.item[1]), lk_mul(in.item[1], in.item[0]));
}

static lk_tuple number_in(int call) { return LK_TUPLE(lk_ones(LK_SHAPE(3), call == 1 ? LK_F64 : LK_I32), lk_scalar(call + 2)); }
static lk_tuple typed_number_in(int call)
{
    return LK_TUPLE(lk_ones(LK_SHAPE(3), LK_F32), call == 1 ? lk_scalar(2) : lk_fill(LK_SHAPE(), LK_F32, 3));
}

TEST(a_plain_number_as_input_takes_the_type_it_meets)
{
    check(adds_number, NULL, number_in);
    check(adds_number, NULL, typed_number_in);
}

/* ---- variables ---- */

/* What was read before the call is a constant of the graph; the variable's storage is not. */
static void reader_held(state *s)
{
    s->v[0] = lk_variable_of(noise(LK_SHAPE(6), 3));
    s->held = lk_read(s->v[0]);
}

static lk_tuple uses_held(lk_tuple in, void *user)
{
    state *s = user;
    lk_assign_add(s->v[0], lk_broadcast_to(lk_reduce_sum(in.item[0]), LK_SHAPE(6)));
    return LK_TUPLE(lk_add(s->held, lk_reduce_sum(in.item[0])), s->held, lk_reshape(s->held, LK_SHAPE(2, 3)), lk_read(s->v[0]));
}

TEST(a_value_read_outside_is_captured_not_the_variable) { check(uses_held, reader_held, NULL); }

static void square_variables(state *s)
{
    s->v[0] = lk_variable_of(lk_mul(noise(LK_SHAPE(128, 128), 1), lk_scalar(0.1)));
    s->v[1] = lk_variable_of(lk_mul(noise(LK_SHAPE(128, 128), 2), lk_scalar(0.1)));
}

/* The product needs all of the variable that its result replaces piece by piece. */
static lk_tuple product_into_itself(lk_tuple in, void *user)
{
    state *s = user;
    (void)in;
    lk_assign(s->v[0], lk_matmul(lk_read(s->v[0]), lk_read(s->v[0])));
    lk_assign(s->v[1], lk_tanh(lk_matmul(lk_read(s->v[1]), lk_read(s->v[1]), .transpose_a = LK_ON)));
    lk_assign_add(s->v[1], lk_matmul(lk_read(s->v[0]), lk_read(s->v[1])));
    return LK_TUPLE();
}

TEST(a_product_assigned_to_its_own_operand) { check(product_into_itself, square_variables, NULL); }

static lk_tuple transposed_into_itself(lk_tuple in, void *user)
{
    state *s = user;
    (void)in;
    lk_assign(s->v[0], lk_transpose(lk_read(s->v[0]), (lk_axes){0}));
    lk_assign_add(s->v[1], lk_reverse(lk_read(s->v[1]), LK_AXES(0)));
    lk_assign_sub(s->v[1], lk_mul(lk_reduce_mean(lk_read(s->v[1]), .axis = LK_AXES(0)), lk_ones(LK_SHAPE(128, 1), LK_F32)));
    return LK_TUPLE(lk_reduce_sum(lk_read(s->v[0])));
}

TEST(a_move_assigned_to_its_own_operand) { check(transposed_into_itself, square_variables, NULL); }

static lk_tuple swaps(lk_tuple in, void *user)
{
    state     *s = user;
    lk_tensor *a = lk_read(s->v[0]), *b = lk_read(s->v[1]);
    (void)in;
    lk_assign(s->v[0], b);
    lk_assign(s->v[1], a);
    lk_assign_add(s->v[1], a);
    lk_assign_add(s->v[1], lk_read(s->v[1]));
    return LK_TUPLE(a, lk_read(s->v[1]), b);
}

TEST(variables_change_places) { check(swaps, square_variables, NULL); }

static void dense_variables(state *s)
{
    s->v[0] = lk_variable_of(noise(LK_SHAPE(3, 4), 1));
    s->v[1] = lk_variable_of(noise(LK_SHAPE(4), 2));
}

/* Product and bias could become one kernel, if it were not for what is written between them. */
static lk_tuple written_between_product_and_bias(lk_tuple in, void *user)
{
    state     *s = user;
    lk_tensor *y = lk_matmul(in.item[0], lk_read(s->v[0]));
    lk_assign(s->v[0], lk_mul(lk_read(s->v[0]), lk_scalar(0.5)));
    lk_assign(s->v[1], lk_reduce_sum(lk_read(s->v[0]), .axis = LK_AXES(0)));
    return LK_TUPLE(lk_relu(lk_add(y, lk_read(s->v[1]))));
}

TEST(a_bias_newer_than_the_weights) { check(written_between_product_and_bias, dense_variables, rows_in); }

static lk_tuple rows_of_other_lanes(int call)
{
    lk_set_lanes(4);
    lk_tuple t = rows_in(call);
    lk_set_lanes(8);
    return t;
}

static lk_tuple dense_then_update(lk_tuple in, void *user)
{
    state     *s = user;
    lk_tape   *tape = lk_tape_begin();
    lk_tensor *y = lk_nn_dense(in.item[0], lk_read(s->v[0]), lk_read(s->v[1]), LK_RELU);
    lk_grads  *g = lk_tape_gradient(tape, lk_compute_average_loss(lk_square(y)), LK_VARIABLES(s->v[0], s->v[1]));
    for (int i = 0; i < 2; i++)
        lk_assign_sub(s->v[i], lk_grads_item(g, i));
    return LK_TUPLE(y, lk_matmul(in.item[0], lk_slice(in.item[0], LK_AXES(0, 0), LK_AXES(-1, 0)), .transpose_a = LK_ON));
}

TEST(rows_marked_for_other_lanes_than_the_call_s)
{
    check(written_between_product_and_bias, dense_variables, rows_of_other_lanes);
    check(dense_then_update, dense_variables, rows_of_other_lanes);
}

static lk_tuple writes_twice_reads_between(lk_tuple in, void *user)
{
    state     *s = user;
    lk_tensor *x = in.item[0], *w0 = lk_read(s->v[0]);
    lk_tensor *y0 = lk_matmul(x, w0);
    lk_assign_add(s->v[0], lk_fill(LK_SHAPE(3, 4), LK_F32, 0.25));
    lk_tensor *w1 = lk_read(s->v[0]), *y1 = lk_matmul(x, w1);
    lk_assign(s->v[0], lk_sub(w0, lk_mul(w1, lk_scalar(0.5))));
    lk_assign_sub(s->v[0], w0);
    lk_tensor *y2 = lk_matmul(x, lk_read(s->v[0]));
    return LK_TUPLE(y0, y1, y2, lk_add(y0, y2), w0, w1, lk_reshape(w1, LK_SHAPE(-1)));
}

static void one_dense(state *s) { s->v[0] = lk_variable_of(noise(LK_SHAPE(3, 4), 1)); }

TEST(a_variable_written_twice_with_reads_between) { check(writes_twice_reads_between, one_dense, rows_in); }

/* ---- rows ---- */

/* The same elements as rows of other batches, so other lanes: what one lane wrote is read by another. */
static lk_tuple other_batches(lk_tuple in, void *user)
{
    (void)user;
    lk_tensor *y = lk_tanh(in.item[0]);                                     /* rows of 8 */
    lk_tensor *z = lk_sigmoid(lk_rows(y, 64)), *q = lk_rows(lk_exp(z), 13); /* the same as the first rows of 64, of 13 */
    return LK_TUPLE(lk_reduce_sum(z, .axis = LK_AXES(0)), lk_reduce_sum(q, .axis = LK_AXES(0)), lk_reduce_sum(lk_neg(q)),
                    lk_add(y, q));
}

TEST(the_same_elements_as_rows_of_several_batches) { check(other_batches, NULL, rows_in); }

/* Two rows of four entries each are not eight rows, although the leading axis is as long. */
static lk_tuple entries_and_rows(lk_tuple in, void *user)
{
    (void)user;
    lk_tensor *x = lk_exp(in.item[0]);                                                                /* [8, 3], 8 rows */
    lk_tensor *two = lk_reshape(lk_tanh(lk_rows(lk_reshape(x, LK_SHAPE(2, 12)), 0)), LK_SHAPE(8, 3)); /* 2 rows of 4 entries */
    lk_tensor *weights = lk_sigmoid(lk_reduce_sum(two, .axis = LK_AXES(1)));
    return LK_TUPLE(lk_add(x, two),
                    lk_nn_reduce_loss(lk_reduce_sum(x, .axis = LK_AXES(1)), weights, LK_REDUCTION_MEAN_WITH_SAMPLE_WEIGHT),
                    lk_matmul(x, two, .transpose_a = LK_ON), lk_concat(LK_TUPLE(x, two), 1));
}

TEST(entries_per_row) { check(entries_and_rows, NULL, rows_in); }

static lk_tuple no_rows_in(int call)
{
    (void)call;
    return LK_TUPLE(lk_rows(lk_zeros(LK_SHAPE(0, 6), LK_F32), 8));
}

static lk_tuple zero_rows_take_another_shape(lk_tuple in, void *user)
{
    (void)user;
    lk_tensor *x = lk_exp(in.item[0]), *y = lk_reduce_sum(lk_neg(lk_reshape(x, LK_SHAPE(5, 0))), .axis = LK_AXES(1));
    return LK_TUPLE(y, lk_add(y, lk_scalar(1)), lk_reduce_sum(x, .axis = LK_AXES(0)),
                    lk_reduce_max(lk_reshape(x, LK_SHAPE(7, 0, 3)), .axis = LK_AXES(1)));
}

TEST(no_rows_reshaped_to_some_entries) { check(zero_rows_take_another_shape, NULL, no_rows_in); }

static lk_tuple one_row_in(int call)
{
    return LK_TUPLE(lk_rows(noise(LK_SHAPE(1, 3), call), 0), lk_rows(noise(LK_SHAPE(8, 3), call + 7), 0));
}

/* One row broadcast to eight: every lane needs what one lane made. */
static lk_tuple one_row_to_many(lk_tuple in, void *user)
{
    (void)user;
    lk_tensor *one = lk_exp(in.item[0]), *many = lk_neg(in.item[1]);
    return LK_TUPLE(lk_add(one, many), lk_nn_reduce_loss(many, lk_tanh(one), LK_REDUCTION_MEAN_WITH_SAMPLE_WEIGHT),
                    lk_concat(LK_TUPLE(one, many), 0));
}

TEST(one_row_broadcast_to_many) { check(one_row_to_many, NULL, one_row_in); }

/* Statistics over rows feed rows again, twice; their gradients too. */
static lk_tuple norms(lk_tuple in, void *user)
{
    state     *s = user;
    lk_tape   *tape = lk_tape_begin(.persistent = LK_ON);
    lk_tensor *x = lk_matmul(in.item[0], lk_read(s->v[0])), *zero = lk_zeros(LK_SHAPE(4), LK_F32),
              *one = lk_ones(LK_SHAPE(4), LK_F32);
    for (int i = 0; i < 2; i++)
        x = lk_relu(
            lk_nn_batch_norm(x, .gamma = lk_read(s->v[1]), .moving_mean = zero, .moving_variance = one, .training = LK_ON).item[0]);
    lk_tensor *loss = lk_compute_average_loss(lk_reduce_sum(lk_square(x), .axis = LK_AXES(1)));
    lk_grads  *g = lk_tape_gradient(tape, loss, LK_VARIABLES(s->v[0], s->v[1]));
    lk_tensor *penalty = lk_add(lk_reduce_sum(lk_square(lk_grads_item(g, 0))), loss);
    lk_grads  *h = lk_tape_gradient(tape, penalty, LK_VARIABLES(s->v[0], s->v[1]));
    lk_tape_end(tape);
    return LK_TUPLE(x, loss, lk_grads_item(g, 0), lk_grads_item(g, 1), lk_grads_item(h, 0), lk_grads_item(h, 1));
}

TEST(sums_over_rows_that_feed_rows) { check(norms, dense_variables, rows_in); }

/* ---- functions ---- */

static lk_tuple inner(lk_tuple in, void *user)
{
    state *s = user;
    lk_assign_add(s->v[1], lk_reduce_mean(lk_matmul(in.item[0], lk_read(s->v[0])), .axis = LK_AXES(0)));
    return LK_TUPLE(lk_tanh(lk_add(lk_matmul(in.item[0], lk_read(s->v[0])), lk_read(s->v[1]))));
}

static lk_tuple calls_inner(lk_tuple in, void *user)
{
    state     *s = user;
    lk_tape   *tape = lk_tape_begin();
    lk_tensor *y = lk_call(s->f, in).item[0], *z = lk_call(s->f, LK_TUPLE(lk_slice(y, LK_AXES(0, 0), LK_AXES(-1, 3)))).item[0];
    lk_grads  *g = lk_tape_gradient(tape, lk_reduce_sum(z), LK_VARIABLES(s->v[0], s->v[1]));
    return LK_TUPLE(y, z, lk_grads_item(g, 0), lk_grads_item(g, 1));
}

static void with_inner(state *s)
{
    dense_variables(s);
    s->f = lk_function_of(inner, s);
}

TEST(functions_in_functions) { check(calls_inner, with_inner, rows_in); }

TEST(gradients_flow_through_a_call_under_a_tape)
{
    LK_POOL {
        state s = {0};
        with_inner(&s);
        lk_tuple in = rows_in(0);
        lk_call(s.f, in); /* it has a plan, and still is recorded */
        lk_tape   *tape = lk_tape_begin();
        lk_tensor *y = lk_call(s.f, in).item[0];
        lk_grads  *g = lk_tape_gradient(tape, y, LK_VARIABLES(s.v[0]));
        assert_non_null(lk_grads_item(g, 0));
        assert_int_equal(lk_dim(lk_grads_item(g, 0), 0), 3);
        lk_call(s.f, in);
    }
    assert_false(lk_failed());
}

/* ---- faults ---- */

typedef struct net {
    lk_variable  *w, *table;
    lk_optimizer *optimizer;
} net;

static lk_tuple trains(lk_tuple in, void *user)
{
    net       *n = user;
    lk_tape   *tape = lk_tape_begin();
    lk_tensor *x = lk_nn_dense(lk_nn_embedding(in.item[0], lk_read(n->table)), lk_read(n->w), NULL, LK_LINEAR);
    lk_tensor *loss = lk_compute_average_loss(lk_nn_sparse_categorical_crossentropy(in.item[1], x, .from_logits = LK_ON));
    lk_optimizer_apply(n->optimizer, lk_tape_gradient(tape, loss, LK_VARIABLES(n->w, n->table)));
    return LK_TUPLE(loss);
}

static lk_tensor *indices(int32_t first, int32_t step)
{
    int32_t id[16];
    for (int i = 0; i < 16; i++)
        id[i] = (first + i * step) % 5;
    if (step < 0) id[11] = 77;
    return lk_rows(lk_tensor_from(LK_SHAPE(16), LK_I32, id), 0);
}

/* Two good steps, and between them, when asked for, one with an id or a label out of range. */
static lk_digest two_steps(int threads, int bad)
{
    lk_digest d = {{0}};
    lk_set_threads(threads);
    LK_POOL {
        net          n = {lk_variable_of(noise(LK_SHAPE(100, 5), 1), .name = "w"),
                          lk_variable_of(noise(LK_SHAPE(6, 100), 2), .name = "table"), lk_adam()};
        lk_function *f = lk_function_of(trains, &n);
        lk_call(f, LK_TUPLE(indices(0, 1), indices(1, 2)));
        if (bad) {
            assert_true(lk_poisoned(
                lk_call(f, bad == 1 ? LK_TUPLE(indices(40, -1), indices(1, 2)) : LK_TUPLE(indices(0, 1), indices(40, -1)))
                    .item[0]));
            assert_int_equal(lk_error_code(), LK_EINVAL);
            assert_non_null(strstr(lk_error(), bad == 1 ? "id" : "label"));
            lk_clear_error();
        }
        lk_call(f, LK_TUPLE(indices(3, 1), indices(2, 2)));
        lk_variables slots = lk_optimizer_variables(n.optimizer);
        lk_variable *all[16] = {n.w, n.table};
        for (int i = 0; i < slots.count; i++)
            all[2 + i] = slots.item[i];
        d = lk_variables_digest(lk_variables_from(2 + slots.count, all));
    }
    lk_set_threads(0);
    no_error(threads);
    return d;
}

TEST(a_step_with_a_fault_updates_nothing)
{
    for (int threads = 1; threads <= 3; threads++)
        for (int bad = 1; bad <= 2; bad++) {
            lk_digest with = two_steps(threads, bad), without = two_steps(threads, 0);
            assert_memory_equal(with.byte, without.byte, sizeof with.byte);
        }
}

/* ---- on several threads ---- */

static void *calls_on_its_own(void *number)
{
    bool *good = number;
    LK_POOL {
        state s = {0};
        with_inner(&s);
        lk_tuple   in = rows_in(3);
        lk_tensor *first = lk_call(s.f, in).item[0];
        for (int i = 0; i < 20; i++)
            LK_STEP {
                lk_call(s.f, in);
                lk_reduce_sum(lk_matmul(in.item[0], lk_read(s.v[0])));
            }
        *good = !lk_failed() && !lk_poisoned(first);
    }
    return NULL;
}

TEST(callers_on_several_threads)
{
    pthread_t thread[3];
    bool      good[3] = {0};
    lk_set_threads(2);
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, calls_on_its_own, &good[i]), 0);
    for (int i = 0; i < 3; i++)
        pthread_join(thread[i], NULL);
    lk_set_threads(0);
    for (int i = 0; i < 3; i++)
        assert_true(good[i]);
}

/* ---- what must not get out ---- */

static lk_tensor *kept;

static lk_tuple keeps_inside(lk_tuple in, void *user)
{
    (void)user;
    kept = lk_keep(lk_exp(in.item[0]));
    return LK_TUPLE(kept);
}

static lk_tuple uses_kept(lk_tuple in, void *user)
{
    (void)user;
    return LK_TUPLE(lk_add(in.item[0], kept));
}

TEST(a_traced_tensor_is_refused_outside)
{
    LK_POOL {
        lk_tensor   *x = noise(LK_SHAPE(3), 0);
        lk_function *f = lk_function_of(keeps_inside);
        lk_call(f, LK_TUPLE(x));
        assert_false(lk_failed());
        assert_true(lk_poisoned(lk_neg(kept)));
        assert_int_equal(lk_error_code(), LK_ESTATE);
        lk_clear_error();
        lk_free(f); /* the next graph may lie where this one did */
        for (int i = 0; i < 3; i++) {
            assert_true(lk_poisoned(lk_call(lk_function_of(uses_kept), LK_TUPLE(x)).item[0]));
            assert_int_equal(lk_error_code(), LK_ESTATE);
            lk_clear_error();
        }
        lk_variable *v = lk_variable_of(x);
        assert_int_equal(lk_assign(v, kept), LK_ESTATE);
        lk_clear_error();
    }
}

static lk_tuple assigns_wrongly(lk_tuple in, void *user)
{
    lk_assign(((state *)user)->v[0], in.item[0]);
    return LK_TUPLE(lk_neg(in.item[0]));
}

TEST(a_mistake_while_tracing_is_found_although_another_was_made_before)
{
    LK_POOL {
        state s = {0};
        one_dense(&s);
        lk_function *f = lk_function_of(assigns_wrongly, &s);
        lk_matmul(NULL, NULL);
        char first[256];
        snprintf(first, sizeof first, "%s", lk_error());
        assert_true(lk_poisoned(lk_call(f, LK_TUPLE(noise(LK_SHAPE(3), 0))).item[0]));
        assert_string_equal(lk_error(), first);
        lk_clear_error();
        assert_true(lk_poisoned(lk_call(f, LK_TUPLE(noise(LK_SHAPE(3), 0))).item[0]));
        assert_int_equal(lk_error_code(), LK_ESHAPE);
        lk_clear_error();
    }
}

TESTS(cmocka_unit_test(inputs_constants_and_variables_as_results), cmocka_unit_test(no_inputs_and_no_results),
      cmocka_unit_test(one_tensor_as_two_inputs), cmocka_unit_test(a_plain_number_as_input_takes_the_type_it_meets),
      cmocka_unit_test(a_value_read_outside_is_captured_not_the_variable), cmocka_unit_test(a_product_assigned_to_its_own_operand),
      cmocka_unit_test(a_move_assigned_to_its_own_operand), cmocka_unit_test(variables_change_places),
      cmocka_unit_test(a_bias_newer_than_the_weights), cmocka_unit_test(rows_marked_for_other_lanes_than_the_call_s),
      cmocka_unit_test(a_variable_written_twice_with_reads_between), cmocka_unit_test(the_same_elements_as_rows_of_several_batches),
      cmocka_unit_test(entries_per_row), cmocka_unit_test(no_rows_reshaped_to_some_entries),
      cmocka_unit_test(one_row_broadcast_to_many), cmocka_unit_test(sums_over_rows_that_feed_rows),
      cmocka_unit_test(functions_in_functions), cmocka_unit_test(gradients_flow_through_a_call_under_a_tape),
      cmocka_unit_test(a_step_with_a_fault_updates_nothing), cmocka_unit_test(callers_on_several_threads),
      cmocka_unit_test(a_traced_tensor_is_refused_outside),
      cmocka_unit_test(a_mistake_while_tracing_is_found_although_another_was_made_before))
