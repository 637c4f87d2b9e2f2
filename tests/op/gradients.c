/* Gradients by central differences in f64: of every op with a gradient rule, of every layer and loss, of gradients; with inputs
 * that are rows of a batch; and without any rows, where the gradient of every weight is exactly zero.
 *
 * Ops that programs.h does not reach, because only gradient rules use them, have separate cases here. A recorder lists the ops that
 * the cases used; the last test requires all of ops.inc. */
#include "check.h"
#include "op/gradient.h"
#include "op/infer.h"
#include "op/product.h"
#include "op/programs.h"
#include "op/record.h"
#include <math.h>
#include <stdio.h>

#if defined(__SANITIZE_THREAD__)
static const int64_t marked_rows[] = {2};
enum { EVERY = 20 };
#elif defined(__SANITIZE_ADDRESS__)
static const int64_t marked_rows[] = {3};
enum { EVERY = 4 };
#else
static const int64_t marked_rows[] = {1, 5, 8, 13};
enum { EVERY = 1 }; /* one program in this many, beyond first derivatives */
#endif

/* ---- which ops were seen, with an operand that depends on the inputs ---- */

enum { MOST_IDS = 1 << 16 };
static bool     seen[LKI_OP_COUNT];
static uint64_t tracked[MOST_IDS];
static int      tracked_count;

static bool is_tracked(uint64_t id)
{
    for (int i = tracked_count - 1; i >= 0; i--)
        if (tracked[i] == id) return true;
    return false;
}

static void track(const lk_tensor *t)
{
    if (tracked_count < MOST_IDS) tracked[tracked_count++] = t->id;
}

static void note_op(lki_recorder *self, const lki_infer *f, lk_tensor *const *dst)
{
    bool depends = false;
    (void)self;
    for (int i = 0; i < f->nsrc; i++)
        depends = depends || (lki_is_float(f->src[i]->dtype) && is_tracked(f->src[i]->id));
    if (!depends) return;
    seen[f->op] = true;
    for (int i = 0; i < f->ndst; i++)
        track(dst[i]);
}

static void note_read(lki_recorder *self, lk_variable *v, lk_tensor *value) { (void)self, (void)v, (void)value; }

static void note_ops(lk_fn fn, lk_tuple in, void *user)
{
    lki_recorder r = {.op = note_op, .read = note_read};
    tracked_count = 0;
    for (int i = 0; i < in.count; i++)
        if (lk_tensor_dtype(in.item[i]) == LK_F64) track(in.item[i]);
    lki_recorder_push(&r);
    LK_STEP
        fn(in, user);
    lki_recorder_remove(&r);
}

static int check(const char *name, lk_fn fn, lk_tuple in, void *user, double tolerance)
{
    lk_gradient_check worst;
    note_ops(fn, in, user);
    lk_status status = lk_check_gradient(fn, in, user, 0, tolerance, &worst);
    if (status != LK_OK) print_error("%s: %s\n", name, lk_error());
    lk_clear_error();
    return status != LK_OK;
}

/* ---- programs ---- */

static int check_programs(int64_t rows, bool mark, int64_t global, int every)
{
    int bad = 0;
    for (int i = 0; i < LKI_COUNT(programs); i += every)
        if (programs[i].flags & G)
            LK_POOL
                bad +=
                    check(programs[i].name, programs[i].fn, program_inputs(&programs[i], LK_F64, rows, mark, global, 0), NULL, 0);
    return bad;
}

TEST(first_derivatives) { assert_int_equal(check_programs(3, false, 0, 1), 0); }

TEST(first_derivatives_of_rows)
{
    for (int i = 0; i < LKI_COUNT(marked_rows); i++)
        assert_int_equal(check_programs(marked_rows[i], true, 0, EVERY), 0);
}

TEST(first_derivatives_of_a_short_batch) { assert_int_equal(check_programs(2, true, 13, EVERY), 0); }

/* The gradient of a program, as a function: its gradients are second derivatives. */
static lk_tuple gradient_of(lk_tuple in, void *user)
{
    const program *p = user;
    lk_tape       *tape = lk_tape_begin();
    lk_tensor     *target[8], *given[8];
    int            targets = 0, count = 0;
    for (int i = 0; i < in.count; i++)
        if (lk_tensor_dtype(in.item[i]) == LK_F64) lk_tape_watch(tape, in.item[i]);
    lk_tuple out = p->fn(in, NULL);
    for (int i = 0; i < out.count; i++)
        if (lk_tensor_dtype(out.item[i]) == LK_F64) target[targets++] = lk_mul(out.item[i], lk_add(out.item[i], K(0.5)));
    lk_tuple d = lk_tape_gradient_of_all(tape, lk_tuple_from(targets, target), in, (lk_tuple){0});
    for (int i = 0; i < d.count; i++)
        if (d.item[i]) given[count++] = d.item[i];
    return lk_tuple_from(count, given);
}

static int check_second(int64_t rows, bool mark)
{
    int bad = 0;
    for (int i = 0; i < LKI_COUNT(programs); i += EVERY)
        if (programs[i].flags & G)
            LK_POOL
                bad += check(programs[i].name, gradient_of, program_inputs(&programs[i], LK_F64, rows, mark, 0, 0),
                             (void *)&programs[i], 1e-5);
    return bad;
}

TEST(second_derivatives) { assert_int_equal(check_second(2, false), 0); }
TEST(second_derivatives_of_rows) { assert_int_equal(check_second(3, true), 0); }

/* ---- third derivatives of layer norm, whose gradients are ops of their own ---- */

static lk_tuple norm_first(lk_tuple in, void *user)
{
    lk_tape *tape = lk_tape_begin();
    (void)user;
    for (int i = 0; i < in.count; i++)
        lk_tape_watch(tape, in.item[i]);
    lk_tensor *y = lk_nn_layer_norm(in.item[0], in.item[1], in.item[2]);
    return lk_tape_gradient_of(tape, lk_reduce_sum(lk_mul(y, lk_square(y))), LK_TUPLE(in.item[0], in.item[1]), NULL);
}

/* Of the gradient for x, or for gamma: `which` points to 0 or 1. */
static lk_tuple norm_second(lk_tuple in, void *which)
{
    lk_tape *tape = lk_tape_begin();
    for (int i = 0; i < in.count; i++)
        lk_tape_watch(tape, in.item[i]);
    lk_tensor *g = norm_first(in, NULL).item[*(const int *)which];
    return lk_tape_gradient_of(tape, lk_reduce_sum(lk_mul(g, lk_square(g))), LK_TUPLE(in.item[0], in.item[1]), NULL);
}

TEST(third_derivatives_of_layer_norm)
{
    lk_gradient_check largest;
    for (int which = 0; which < 2; which++)
        LK_POOL {
            lk_tensor *in[3];
            for (int i = 0; i < 3; i++)
                in[i] = lk_cast(lk_random_uniform(i ? LK_SHAPE(5) : LK_SHAPE(3, 5), .call = 1 + i), LK_F64);
            if (lk_check_gradient(norm_second, lk_tuple_from(3, in), &which, 1e-6, 1e-4, &largest) != LK_OK)
                print_error("of the gradient for %s: %s\n", which ? "gamma" : "x", lk_error());
            assert_false(lk_failed());
        }
}

/* ---- ops that only gradients use, and forms no program has ---- */

static lk_tensor *windowed(lki_op op, lk_shape shape, lki_window w, lk_tensor *a, lk_tensor *b)
{
    lki_attr attr = {.shape = shape, .window = w};
    return b ? lki_apply2(op, &attr, a, b) : lki_apply1(op, &attr, a);
}

static lk_tensor *windowed3(lki_op op, lk_shape shape, lki_window w, lk_tensor *a, lk_tensor *b, lk_tensor *c)
{
    return lki_apply3(op, &(lki_attr){.shape = shape, .window = w}, a, b, c);
}

/* Its gradients with the statistics of x, as the rule of layer_norm has them. */
static lk_tensor *norm_grad(lk_tensor *dy, lk_tensor *x, lk_tensor *gamma)
{
    lk_tensor *out[3], *one = NULL, *ones = lk_ones(LK_SHAPE(lk_dim(x, -1)), lk_tensor_dtype(x));
    lki_apply(LKI_OP_layer_norm, &(lki_attr){.num = {.a = 0.1}}, 3, (lk_tensor *const[]){x, ones, ones}, out);
    return gamma ? lki_apply(LKI_OP_layer_norm_grad_x, NULL, 5, (lk_tensor *const[]){dy, x, gamma, out[1], out[2]}, &one)
                 : lki_apply(LKI_OP_layer_norm_grad_gamma, NULL, 4, (lk_tensor *const[]){dy, x, out[1], out[2]}, &one);
}

static lk_tensor *cell_of(lk_tensor *x, lk_shape y, lki_window w) /* which cell of each window is the largest */
{
    lk_tensor *out[2];
    lki_attr   attr = {.shape = y, .window = w};
    lki_apply(LKI_OP_max_pool, &attr, 1, &x, out);
    return out[1];
}

#define APPLY1(op, x, ...) lki_apply1(LKI_OP_##op, &(lki_attr){__VA_ARGS__}, x)
#define APPLY2(op, x, y, ...) lki_apply2(LKI_OP_##op, &(lki_attr){__VA_ARGS__}, x, y)
#define WINDOW(...) ((lki_window){__VA_ARGS__})
#define CASES(PROGRAM)                                                                                                             \
    PROGRAM(raw_copy, G, "x[N,3]", APPLY1(copy, a, .dtype = LK_F32))                                                               \
    PROGRAM(raw_broadcast_like, G, "x[N,1] w[3] x[N,3]", APPLY2(broadcast_like, a, c, .dtype = LK_F32),                            \
            APPLY2(broadcast_like, b, c, .dtype = LK_F32))                                                                         \
    PROGRAM(raw_relu_grad, G, "x[N,3] x[N,3]", APPLY2(relu_grad, a, b, .dtype = LK_F32))                                           \
    PROGRAM(raw_leaky_relu_grad, G, "x[N,3] x[N,3]", APPLY2(leaky_relu_grad, a, b, .num = {.a = 0.3}))                             \
    PROGRAM(raw_sigmoid_grad, G, "x[N,3] x[N,3]", APPLY2(sigmoid_grad, a, b, .dtype = LK_F32))                                     \
    PROGRAM(raw_tanh_grad, G, "x[N,3] x[N,3]", APPLY2(tanh_grad, a, b, .dtype = LK_F32))                                           \
    PROGRAM(raw_sum_squares, G, "w[3,4] w[] w[1]", APPLY1(sum_squares, a, .dtype = LK_F32),                                        \
            APPLY1(sum_squares, b, .dtype = LK_F32), APPLY1(sum_squares, c, .dtype = LK_F32))                                      \
    PROGRAM(raw_unslice, G, "x[N,3]", APPLY1(unslice, a, .shape = {2, {lk_dim(a, 0), 8}}, .slice = {{0, 7}, {1, -3}}))             \
    PROGRAM(raw_pad_grad, G, "w[3,7] w[3,7]",                                                                                      \
            APPLY1(pad_grad, a, .shape = {2, {3, 3}}, .pad = {.before = {0, 2}, .mode = LKI_PAD_REFLECT}),                         \
            APPLY1(pad_grad, b, .shape = {2, {3, 3}}, .pad = {.before = {0, 3}, .mode = LKI_PAD_SYMMETRIC}))                       \
    PROGRAM(raw_gather_grad, G, "x[N,2] i[N]4 w[3,4] j[4]2", APPLY2(gather_grad, a, b, .shape = {2, {4, 2}}),                      \
            APPLY2(gather_grad, c, d, .shape = {2, {3, 2}}, .scan = {.axis = 1}))                                                  \
    PROGRAM(raw_row_gather, G, "x[N,4,2] i[N,3]4 x[N,5] w[2,4,3] j[2,2]4", APPLY2(row_gather, a, b, .dtype = LK_F32),              \
            APPLY2(row_gather, c, b, .dtype = LK_F32), APPLY2(row_gather, d, e, .dtype = LK_F32))                                  \
    PROGRAM(raw_row_gather_grad, G, "x[N,3,2] i[N,3]4", APPLY2(row_gather_grad, a, b, .shape = {3, {lk_dim(a, 0), 4, 2}}))         \
    PROGRAM(raw_sparse_xent_grad, G, "x[N,4] i[N]4 x[N]", lki_apply3(LKI_OP_sparse_xent_grad, NULL, a, b, c),                      \
            lki_apply3(LKI_OP_sparse_xent_grad, &(lki_attr){.xent = {1, 2}}, a, b, c))                                             \
    PROGRAM(raw_conv2d_grad_x, G, "x[N,2,3,2] w[3,2,1,2]",                                                                         \
            windowed(LKI_OP_conv2d_grad_x, LK_SHAPE(lk_dim(a, 0), 5, 5, 1), WINDOW({3, 2}, {2, 2}, {1, 1}, {1, 0}), a, b))         \
    PROGRAM(raw_conv2d_grad_w, G, "x[N,5,5,1] x[N,2,3,2]",                                                                         \
            windowed(LKI_OP_conv2d_grad_w, LK_SHAPE(3, 2, 1, 2), WINDOW({3, 2}, {2, 2}, {1, 1}, {1, 0}), a, b))                    \
    PROGRAM(raw_conv2d_pool_grad_x, G, "x[N,2,1,2] w[3,2,1,2] x[N,5,3,2]",                                                         \
            windowed3(LKI_OP_conv2d_pool_grad_x, LK_SHAPE(lk_dim(a, 0), 6, 5, 1), WINDOW({3, 2}, {1, 2}, {1, 1}, {1, 0}), a,       \
                      cell_of(lk_stop_gradient(c), lk_tensor_shape(a), WINDOW({2, 2}, {2, 2}, {1, 1}, {0, 0})), b))                \
    PROGRAM(raw_conv2d_pool_grad_w, G, "x[N,6,5,1] x[N,2,1,2] x[N,5,3,2]",                                                         \
            windowed3(LKI_OP_conv2d_pool_grad_w, LK_SHAPE(3, 2, 1, 2), WINDOW({3, 2}, {1, 2}, {1, 1}, {1, 0}), a, b,               \
                      cell_of(lk_stop_gradient(c), lk_tensor_shape(b), WINDOW({2, 2}, {2, 2}, {1, 1}, {0, 0}))))                   \
    PROGRAM(raw_depthwise_grad_x, G, "x[N,3,3,4] w[3,2,2,2]",                                                                      \
            windowed(LKI_OP_depthwise_grad_x, LK_SHAPE(lk_dim(a, 0), 5, 5, 2), WINDOW({3, 2}, {1, 1}, {1, 2}, {0, 0}), a, b))      \
    PROGRAM(raw_depthwise_grad_w, G, "x[N,5,5,2] x[N,3,3,4]",                                                                      \
            windowed(LKI_OP_depthwise_grad_w, LK_SHAPE(3, 2, 2, 2), WINDOW({3, 2}, {1, 1}, {1, 2}, {0, 0}), a, b))                 \
    PROGRAM(raw_grouped_grad_x, G, "x[N,3,3,4] w[3,2,2,4]",                                                                        \
            windowed(LKI_OP_grouped_grad_x, LK_SHAPE(lk_dim(a, 0), 5, 5, 4), WINDOW({3, 2}, {1, 1}, {1, 2}, {0, 0}), a, b))        \
    PROGRAM(raw_grouped_grad_w, G, "x[N,5,5,4] x[N,3,3,4]",                                                                        \
            windowed(LKI_OP_grouped_grad_w, LK_SHAPE(3, 2, 2, 4), WINDOW({3, 2}, {1, 1}, {1, 2}, {0, 0}), a, b))                   \
    PROGRAM(raw_max_pool_grad, G, "x[N,2,3,2] x[N,5,6,2]",                                                                         \
            windowed(LKI_OP_max_pool_grad, lk_tensor_shape(b), WINDOW({3, 2}, {2, 2}, {1, 1}, {0, 0}), a,                          \
                     lk_stop_gradient(cell_of(lk_stop_gradient(b), lk_tensor_shape(a), WINDOW({3, 2}, {2, 2}, {1, 1}, {0, 0})))))  \
    PROGRAM(raw_max_pool_pick, G, "x[N,5,6,2] x[N,5,6,2]",                                                                         \
            windowed(LKI_OP_max_pool_pick, (lk_shape){0}, WINDOW({3, 2}, {2, 2}, {1, 1}, {0, 0}), a,                               \
                     cell_of(lk_stop_gradient(b), LK_SHAPE(lk_dim(a, 0), 2, 3, 2), WINDOW({3, 2}, {2, 2}, {1, 1}, {0, 0}))))       \
    PROGRAM(raw_avg_pool_grad, G, "x[N,3,3,2]",                                                                                    \
            windowed(LKI_OP_avg_pool_grad, LK_SHAPE(lk_dim(a, 0), 5, 6, 2), WINDOW({3, 2}, {2, 2}, {1, 1}, {1, 0}), a, NULL))      \
    /* over the replicas, of which there is one: tests/model/replicas.c and tests/dist have several */                             \
    PROGRAM(raw_share, G, "w[3,4]", APPLY2(share, a, lk_cast(K(1), LK_F64), .dtype = LK_F32))                                      \
    PROGRAM(raw_all_reduce, G, "w[3,4] x[N,2]", APPLY1(all_reduce, a, .dtype = LK_F32), APPLY1(all_reduce, b, .num = {.a = 1}))    \
    PROGRAM(raw_softmax_grad, G, "x[N,2,4] x[N,2,4]", lki_apply2(LKI_OP_softmax_grad, NULL, a, b))                                 \
    PROGRAM(raw_layer_norm_grad, G, "x[N,2,4] x[N,2,4] w[4]", norm_grad(a, b, c), norm_grad(a, b, NULL))                           \
    PROGRAM(raw_matmul_heads, G, "x[N,3,2,4] x[N,5,2,4] x[N,2,3,5]", lki_matmul_heads(a, false, b, true, 3),                       \
            lki_matmul_heads(c, false, b, false, 2 | 4), lki_matmul_heads(b, true, c, true, 1 | 4))                                \
    PROGRAM(raw_all_gather, G, "w[3,4]", APPLY1(all_gather, a, .shape = {2, {3, 4}}, .slice = {{0, 0}, {1, 1}}))                   \
    PROGRAM(raw_combined, G, "w[3,4]", APPLY2(combined, lk_stop_gradient(a), a, .dtype = LK_F32))                                  \
    PROGRAM(raw_replicated, G, "w[3,4]", APPLY1(replicated, a, .dtype = LK_F32))                                                   \
    /* shapes of one, many operands, products that are thin, powers of negative numbers */                                         \
    PROGRAM(size_one, G, "w[1] w[1,1] w[]", lk_mul(a, b), lk_add(b, c), lk_matmul(b, b), lk_softmax(b), lk_reduce_sum(b),          \
            lk_reduce_max(a), lk_cumsum(a))                                                                                        \
    PROGRAM(thin_products, G, "w[1,5] w[5,1] w[7,1]", lk_matmul(a, b), lk_matmul(b, a), lk_matmul(c, a), lk_matmul(c, c, LK_ON))   \
    PROGRAM(power_of_negative, G, "w[5]-2:-0.2", lk_pow(a, lk_cast(K(3), LK_F64)), lk_pow(a, lk_fill(LK_SHAPE(5), LK_F64, 2)))     \
    PROGRAM(broadcast_both, G, "w[2,1,3] w[5,1]1:2", lk_add(a, b), lk_mul(a, b), lk_div(a, b), lk_maximum(a, b), lk_sub(b, a))     \
    PROGRAM(product_of_zeros, G, "w[2,3]",                                                                                         \
            lk_reduce_prod(lk_mul(a, lk_cast(lk_tensor_of(LK_SHAPE(2, 3), 0, 1, 1, 1, 1, 1), LK_F64)), LK_AXES(1)))                \
    PROGRAM(used_twice, G, "x[N,3]", lk_mul(a, a), lk_add(a, lk_add(a, a)), lk_matmul(a, a, LK_ON), lk_concat(LK_TUPLE(a, a), 1))

CASES(PROGRAM_FUNCTION)

static const program cases[] = {CASES(PROGRAM_LINE)};

static int check_cases(int64_t rows, bool mark)
{
    int bad = 0;
    for (int i = 0; i < LKI_COUNT(cases); i++)
        LK_POOL
            bad += check(cases[i].name, cases[i].fn, program_inputs(&cases[i], LK_F64, rows, mark, 0, 0), NULL, 0);
    return bad;
}

TEST(ops_of_gradients)
{
    assert_int_equal(check_cases(3, false), 0);
    assert_int_equal(check_cases(5, true), 0);
}

/* ---- no rows ---- */

static bool all_zero(const lk_tensor *t)
{
    for (int64_t i = 0; i < lk_size(t); i++)
        if (((const float *)lk_data(t))[i] != 0) return false; /* NaN differs from 0 too */
    return true;
}

/* Inputs that are rows get a weight added to each row, so that the gradient of every program reaches weights. */
static lk_tuple gradients_of_weights(lk_tuple in, void *user)
{
    const program *p = user;
    lk_tensor     *item[8], *weight[16], *target[8];
    int            weights = 0, targets = 0, i = 0;
    lk_tape       *tape = lk_tape_begin();
    for (const char *text = p->inputs; *text; i++) {
        lk_tensor *t = item[i] = in.item[i];
        if (*text == 'x') {
            lk_shape row = {.rank = lk_rank(t) - 1};
            for (int d = 0; d < row.rank; d++)
                row.dim[d] = lk_dim(t, d + 1);
            weight[weights] = lk_zeros(row, LK_F32);
            lk_tape_watch(tape, weight[weights]);
            item[i] = lk_add(t, weight[weights++]);
        } else if (*text == 'w' && p->flags & L) {
            lk_tape_watch(tape, t);
            weight[weights++] = t;
        }
        text += strcspn(text, " ");
        text += *text == ' ';
    }
    lk_tuple out = p->fn(lk_tuple_from(in.count, item), NULL);
    for (int k = 0; k < out.count; k++)
        if (lk_tensor_dtype(out.item[k]) == LK_F32) target[targets++] = out.item[k];
    lk_tuple   d = lk_tape_gradient_of_all(tape, lk_tuple_from(targets, target), lk_tuple_from(weights, weight), (lk_tuple){0});
    lk_tensor *given[16];
    int        count = 0;
    for (int k = 0; k < d.count; k++)
        if (d.item[k]) given[count++] = d.item[k];
    return lk_tuple_from(count, given);
}

static int zeros_without_rows(const program *p, bool compiled, bool mark)
{
    int bad = 0;
    LK_POOL {
        lk_tuple in = program_inputs(p, LK_F32, 0, mark, mark ? 16 : 0, 0);
        lk_tuple d = compiled ? lk_call(lk_function_of(gradients_of_weights, (void *)p), in) : gradients_of_weights(in, (void *)p);
        bad = lk_failed() || (p->flags & L && d.count == 0);
        for (int i = 0; i < d.count && !bad; i++)
            bad = !all_zero(d.item[i]);
        if (bad)
            print_error("%s%s without rows: %s\n", p->name, compiled ? " compiled" : "",
                        lk_failed() ? lk_error() : "a gradient is not zero");
        lk_clear_error();
    }
    return bad;
}

TEST(without_rows_gradients_are_zero)
{
    int bad = 0;
    for (int i = 0; i < LKI_COUNT(programs); i++)
        if (programs[i].flags & G && !(programs[i].flags & R))
            for (int form = 0; form < 4; form++)
                bad += zeros_without_rows(&programs[i], form & 1, form & 2);
    assert_int_equal(bad, 0);
}

/* ---- memory with gaps ---- */

static bool same_values(const lk_tensor *a, const lk_tensor *b)
{
    return lk_size(a) == lk_size(b) && memcmp(lk_data(a), lk_data(b), (size_t)lk_size(a) * lk_dtype_bytes(lk_tensor_dtype(a))) == 0;
}

TEST(strided_memory_is_copied_in_order)
{
    float m[6][4];
    for (int i = 0; i < 24; i++)
        m[i / 4][i % 4] = (float)i * 0.37f - 3;
    LK_POOL {
        lk_tensor *x = lk_tensor_from(LK_SHAPE(6, 4), LK_F32, m);
        lk_tensor *turned = lk_tensor_from_strided(LK_SHAPE(4, 6), LK_F32, m, (int64_t[]){1, 4});
        lk_tensor *reversed = lk_tensor_from_strided(LK_SHAPE(6, 4), LK_F32, &m[5][3], (int64_t[]){-4, -1});
        lk_tensor *repeated = lk_tensor_from_strided(LK_SHAPE(3, 4), LK_F32, m[2], (int64_t[]){0, 1});
        lk_tensor *spread = lk_tensor_from_strided(LK_SHAPE(3, 2), LK_F32, m, (int64_t[]){8, 2});
        lk_tensor *row = lk_slice(x, LK_AXES(2, 0), LK_AXES(1, 4)),
                  *some = lk_strided_slice(x, LK_AXES(0, 0), LK_AXES(6, 4), LK_AXES(2, 2));
        assert_true(same_values(turned, lk_transpose(x, (lk_axes){0})));
        assert_true(same_values(reversed, lk_reverse(x, LK_AXES(0, 1))));
        assert_true(same_values(repeated, lk_broadcast_to(row, LK_SHAPE(3, 4))));
        assert_true(same_values(spread, some));
        assert_true(
            same_values(lk_matmul(turned, reversed), lk_matmul(lk_transpose(x, (lk_axes){0}), lk_reverse(x, LK_AXES(0, 1)))));
        assert_true(same_values(lk_softmax(repeated), lk_softmax(lk_tile(row, LK_AXES(3, 1)))));
        assert_true(same_values(lk_reduce_sum(turned, LK_AXES(1)), lk_reduce_sum(lk_transpose(x, (lk_axes){0}), LK_AXES(1))));
    }
    assert_false(lk_failed());
}

TEST(strided_memory_of_every_type)
{
    LK_POOL
        for (int t = 0; t < LK_DTYPE_COUNT; t++) {
            lk_tensor *x = program_integers(LK_SHAPE(3, 2, 5), (lk_dtype)t, 2, t);
            lk_tensor *y = lk_tensor_from_strided(LK_SHAPE(5, 3, 2), (lk_dtype)t, lk_data(x), (int64_t[]){1, 10, 5});
            assert_true(same_values(y, lk_transpose(x, LK_AXES(2, 0, 1))));
            lk_tensor *empty = lk_tensor_from_strided(LK_SHAPE(0, 3), (lk_dtype)t, NULL, (int64_t[]){1, 1});
            assert_false(lk_poisoned(empty));
        }
    assert_false(lk_failed());
}

/* ---- all of ops.inc; runs last ---- */

TEST(every_op_with_a_gradient_has_a_case)
{
    int missing = 0;
    for (int op = 0; op < LKI_OP_COUNT; op++)
        if (lki_gradient_of((lki_op)op) && !seen[op]) {
            print_error("%s has a gradient and no case\n", lki_op_name((lki_op)op));
            missing++;
        }
    assert_int_equal(missing, 0);
}

TESTS(cmocka_unit_test(first_derivatives), cmocka_unit_test(first_derivatives_of_rows),
      cmocka_unit_test(first_derivatives_of_a_short_batch), cmocka_unit_test(second_derivatives),
      cmocka_unit_test(second_derivatives_of_rows), cmocka_unit_test(third_derivatives_of_layer_norm),
      cmocka_unit_test(ops_of_gradients), cmocka_unit_test(without_rows_gradients_are_zero),
      cmocka_unit_test(strided_memory_is_copied_in_order), cmocka_unit_test(strided_memory_of_every_type),
      cmocka_unit_test(every_op_with_a_gradient_has_a_case))
