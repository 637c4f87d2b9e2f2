/* Sums whose parts are joined by the last of the blocks that make them (kernel/gpu/last.h): the bits of a join by a kernel of its own, again and again, in captured graphs too; where it
 * is worth it; and no two calls of a step have the same tickets. */
#include "op/tensor.h"
#include "slots.h"
#include "step/card_inside.h"
#include "step/plan.h"
#include <lockstep.h>

enum { TIMES = 3, SPOILT = 1 << 30 };

/* inside: one launch does it all. A call whose tickets say that its last block is far away ends without a result then, and with one otherwise. */
static void check(slot_case *c, bool inside)
{
    void *apart[MOST], *out[MOST], *untouched[MOST];
    for (int i = 0; i < c->ndst; i++)
        apart[i] = slot_start(c, i), untouched[i] = slot_start(c, i);
    c->apart = true;
    slot_on_gpu(c, apart);
    c->apart = false;
    for (int turn = 0; turn <= TIMES; turn++) {
        c->tickets = turn == TIMES ? SPOILT : 0;
        for (int i = 0; i < c->ndst; i++)
            out[i] = slot_start(c, i);
        slot_on_gpu(c, out);
        for (int i = 0; i < c->ndst; i++) {
            const size_t bytes = slot_bytes(c->dst_type[i], &c->dst[i]);
            if (memcmp(out[i], turn == TIMES && inside ? untouched[i] : apart[i], bytes))
                fail_msg("%s %s, result %d, lanes %d: %s", lki_slot_name(c->slot), lk_dtype_name(c->dtype), i, c->lanes,
                         turn < TIMES ? "other bits than those of two launches"
                         : inside     ? "it is not one launch"
                                      : "it is one launch");
            free(out[i]);
        }
    }
    for (int i = 0; i < c->ndst; i++)
        free(apart[i]), free(untouched[i]);
    for (int i = 0; i < c->nsrc; i++)
        free(c->src_data[i]);
}

/* ---- products ---- */

typedef struct product {
    int64_t       entries, M, N, K;
    int           ta, tb, bias, mask, lanes;
    lki_precision precision;
    bool          inside;
} product;

static void check_product(const product *p)
{
    slot_case      c = {.slot = LKI_K_matmul, .dtype = LK_F32, .precision = p->precision};
    const lk_shape a = {3, {p->entries, p->ta ? p->K : p->M, p->ta ? p->M : p->K}},
                   b = {3, {p->entries, p->tb ? p->N : p->K, p->tb ? p->K : p->N}};
    const lk_shape bias = {1, {p->N}}, out = {3, {p->entries, p->M, p->N}};
    c.attr.matmul.ta = p->ta;
    c.attr.matmul.tb = p->tb;
    c.attr.matmul.mask = p->mask;
    c.attr.epilogue.bias = c.attr.epilogue.relu = p->bias;
    slot_source(&c, LK_F32, a, slot_numbers(LK_F32, &a, false));
    slot_source(&c, LK_F32, b, slot_numbers(LK_F32, &b, false));
    if (p->bias) slot_source(&c, LK_F32, bias, slot_numbers(LK_F32, &bias, false));
    if (p->mask) slot_source(&c, LK_F32, out, slot_numbers(LK_F32, &out, true));
    slot_result(&c, LK_F32, out, NULL);
    if (p->lanes) slot_lanes(&c, p->lanes, p->K);
    check(&c, p->inside);
}

TEST(test_products)
{
    static const product products[] = {
        {1, 64, 64, 5408, 0, 0, 1, 0, 0, LKI_PRECISION_F32, true},   /* a layer of 64 rows */
        {1, 64, 64, 1600, 0, 0, 1, 0, 0, LKI_PRECISION_TF32, true},  /* one that is smaller */
        {1, 64, 256, 1024, 0, 0, 1, 0, 0, LKI_PRECISION_F32, true},  /* larger tiles */
        {1, 33, 70, 2100, 0, 1, 0, 1, 0, LKI_PRECISION_F32, true},   /* a mask; columns that are no quads; rows left over */
        {3, 40, 44, 1300, 1, 0, 1, 0, 0, LKI_PRECISION_BF16, true},  /* several entries */
        {1, 64, 96, 700, 1, 0, 0, 0, 8, LKI_PRECISION_F32, true},    /* lanes, some empty */
        {1, 30, 31, 900, 1, 1, 0, 0, 64, LKI_PRECISION_F32, true},   /* most lanes empty */
        {1, 64, 10, 6000, 1, 0, 0, 0, 4, LKI_PRECISION_F32, true},   /* several pieces to a lane */
        {400, 32, 32, 270, 0, 0, 0, 0, 0, LKI_PRECISION_F32, false}, /* enough tiles without */
    };
    for (size_t i = 0; i < sizeof products / sizeof *products; i++)
        check_product(&products[i]);
}

/* ---- sums over rows ---- */

static void check_sum(lk_dtype t, lk_shape s, int axis, int lanes, bool relu, bool inside)
{
    slot_case c = {.slot = LKI_K_reduce_sum, .dtype = t};
    lk_shape  out = {0};
    for (int i = 0; i < s.rank; i++)
        if (i != axis) out.dim[out.rank++] = s.dim[i];
    c.attr.reduce.first = c.attr.reduce.last = axis;
    c.attr.epilogue.relu = relu;
    for (int i = 0; i <= relu; i++)
        slot_source(&c, t, s, slot_numbers(t, &s, i > 0));
    slot_result(&c, t, out, NULL);
    if (lanes) slot_lanes(&c, lanes, s.dim[0]);
    check(&c, inside);
}

TEST(test_sums)
{
    static const lk_dtype types[] = {LK_F32, LK_F64, LK_I32, LK_I64};
    check_sum(LK_F32, (lk_shape){2, {10816, 32}}, 0, 8, true, true); /* a bias of a convolution, 64 images */
    check_sum(LK_F32, (lk_shape){2, {8192, 64}}, 0, 8, false, true);
    check_sum(LK_F32, (lk_shape){2, {5000, 10}}, 0, 8, false, true);
    check_sum(LK_F32, (lk_shape){2, {9000, 1}}, 0, 64, false, true);
    check_sum(LK_F32, (lk_shape){3, {3, 5000, 37}}, 1, 0, false, true);
    check_sum(LK_F32, (lk_shape){2, {40000, 4}}, 0, 1, false, false); /* many parts */
    check_sum(LK_F32, (lk_shape){2, {6000, 40}}, 0, 64, false, false);
    for (int t = 0; t < 4; t++)
        check_sum(types[t], (lk_shape){2, {7000, 9}}, 0, 4, false, true);
}

TEST(test_folds)
{
    static const int64_t  sizes[] = {4097, 70001};
    static const lk_dtype types[] = {LK_F32, LK_F64};
    for (int t = 0; t < 2; t++)
        for (int i = 0; i < 2; i++) {
            slot_case      c = {.slot = LKI_K_sum_squares, .dtype = types[t]};
            const lk_shape s = {1, {sizes[i]}}, one = {0, {0}};
            slot_source(&c, types[t], s, slot_numbers(types[t], &s, false));
            slot_result(&c, types[t], one, NULL);
            check(&c, true);
        }
    check_sum(LK_F32, (lk_shape){2, {5, 9000}}, 1, 0, false, true);
    check_sum(LK_F32, (lk_shape){2, {1025, 4097}}, 1, 0, false, false); /* more rows than tickets */
}

/* ---- weights of a convolution ---- */

static void check_weights(int64_t images, int64_t size, int64_t O, int lanes, bool inside)
{
    slot_case      c = {.slot = LKI_K_conv2d_grad_w, .dtype = LK_F32};
    const lk_shape x = {4, {images, size, size, 1}}, dy = {4, {images, size - 2, size - 2, O}}, w = {4, {3, 3, 1, O}};
    c.attr.window = (lki_window){{3, 3}, {1, 1}, {1, 1}, {0, 0}};
    slot_source(&c, LK_F32, x, slot_numbers(LK_F32, &x, false));
    slot_source(&c, LK_F32, dy, slot_numbers(LK_F32, &dy, false));
    slot_result(&c, LK_F32, w, NULL);
    if (lanes) slot_lanes(&c, lanes, images);
    check(&c, inside);
}

TEST(test_weights)
{
    check_weights(24, 14, 32, 8, true);
    check_weights(19, 6, 33, 4, true);  /* results that are no quads, two blocks to a part */
    check_weights(1, 5, 8, 0, true);    /* one part */
    check_weights(3, 6, 8, 64, true);   /* lanes without images */
    check_weights(300, 4, 70, 0, true); /* many parts */
    check_weights(5, 5, 128, 2, false); /* many results */
    check_weights(0, 6, 8, 4, false);   /* none */
}

/* ---- steps ---- */

enum { ROWS = 64, INNER = 1300, COLUMNS = 40, REPLAYS = 8 };

/* Two products and two sums, none of which waits for another. */
static lk_tuple branches(lk_tuple in, void *user)
{
    (void)user;
    lk_tensor *x = in.item[0], *y = lk_reshape(in.item[1], LK_SHAPE(INNER, COLUMNS)),
              *turned = lk_reshape(x, LK_SHAPE(INNER, ROWS));
    return LK_TUPLE(lk_matmul(x, y), lk_matmul(lk_neg(x), y), lk_reduce_sum(turned, .axis = LK_AXES(0)),
                    lk_reduce_sum(y, .axis = LK_AXES(0)));
}

static lk_tuple numbers_of(int turn)
{
    const lk_shape a = {2, {ROWS, INNER}}, b = {2, {INNER, COLUMNS}};
    float         *x = slot_numbers(LK_F32, &a, false), *y = slot_numbers(LK_F32, &b, false);
    x[0] = (float)turn;
    lk_tuple in = LK_TUPLE(lk_tensor_from(LK_SHAPE(ROWS, INNER), LK_F32, x), lk_tensor_from(LK_SHAPE(INNER, COLUMNS), LK_F32, y));
    free(x);
    free(y);
    return in;
}

static void same_results(lk_tuple a, lk_tuple b)
{
    assert_int_equal(a.count, b.count);
    for (int i = 0; i < a.count; i++) {
        const void *x = lk_data(a.item[i]), *y = lk_data(b.item[i]);
        assert_true(x && y);
        assert_memory_equal(x, y, (size_t)lki_shape_size(&a.item[i]->shape) * sizeof(float));
    }
}

/* The first replay launches call by call, the second captures, the others launch a graph whose calls run in another order each time. */
TEST(test_replays)
{
    lki_device  *before = lki_device_current();
    lk_function *f = lk_function_of(branches, NULL);
    lki_device_set_current(slot_gpu());
    LK_POOL
        for (int turn = 0; turn < REPLAYS; turn++)
            LK_POOL {
                lk_tuple in = numbers_of(turn);
                same_results(lk_call(f, in), branches(in, NULL));
                assert_false(lk_failed());
            }
    lki_device_set_current(before);
}

/* Calls with scratch have tickets of their own, where nothing else ever lies. */
TEST(test_places)
{
    lki_device *before = lki_device_current();
    lki_line    line;
    lki_graph  *g = lki_graph_new();
    lki_device_set_current(slot_gpu());
    lki_line_begin(&line);
    LK_POOL {
        lk_tuple in = numbers_of(0);
        for (int i = 0; i < in.count; i++)
            assert_int_equal(lki_line_add(&line, in.item[i]), LK_OK);
        g->name = "branches";
        assert_int_equal(lki_graph_trace(g, branches, &line, in.count, NULL), LK_OK);
        lki_plan *p = lki_plan_new(g, 1);
        assert_true(p && p->card);
        const lki_card *c = p->card;
        const size_t    each = LKI_GPU_TICKETS * sizeof(unsigned);
        const char     *block = c->block->data;
        int             with = 0;
        for (int i = 0; i < c->count; i++) {
            const char *at = (const char *)c->calls[i].gpu.tickets;
            assert_int_equal(c->calls[i].args.scratch != NULL, at != NULL);
            if (!at) continue;
            with++;
            assert_true((uintptr_t)at % sizeof(unsigned) == 0 && at >= block && at + each <= block + c->block->bytes);
            for (int v = 0; v < p->graph->value_count; v++)
                if (c->at[v] != LKI_CARD_OUTSIDE) assert_true(block + c->at[v] + lki_value_bytes(&p->graph->values[v]) <= at);
            for (int k = 0; k < c->count; k++) {
                const lki_card_call *other = &c->calls[k];
                const size_t         bytes =
                    other->args.scratch ? c->line->kernels->scratch[other->node->slot][other->node->type](&other->args) : 0;
                if (bytes) assert_true((const char *)other->args.scratch + bytes <= at);
                if (k != i && other->gpu.tickets)
                    assert_true((const char *)other->gpu.tickets + each <= at || at + each <= (const char *)other->gpu.tickets);
            }
        }
        assert_true(with >= 4);
        lki_plan_free(p);
    }
    lki_line_end(&line);
    lki_device_set_current(before);
}

TESTS(cmocka_unit_test(test_products), cmocka_unit_test(test_sums), cmocka_unit_test(test_folds), cmocka_unit_test(test_weights),
      cmocka_unit_test(test_replays), cmocka_unit_test(test_places))
