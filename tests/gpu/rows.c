/* Softmax and cross-entropy on a GPU against the reference: the same bits in f32; exp and log of f64 are the card's. */
#include "slots.h"

static const lk_dtype floats[] = {LK_F32, LK_F64};
static const double   tolerance[] = {0, 1e-14};

/* rows, classes: teams of half a warp, and of a block from 4097 on, with one group of 16 blocks or several. */
static const int64_t sizes[][2] = {{0, 10},   {1, 1},    {1, 10},    {5, 10},        {8, 16},           {9, 17},
                                   {64, 3},   {9, 64},   {9, 65},    {9, 128},       {9, 129},          {9, 255},
                                   {9, 256},  {9, 257},  {3, 100},   {33, 1000},     {2, 4095},         {3, 4096},
                                   {1, 4097}, {3, 5000}, {2, 70000}, {1, 66 * 4096}, {1, 35 * 4096 + 7}};
enum { SIZES = sizeof sizes / sizeof *sizes };

static void one_row_op(lki_slot slot, int operands, int t, const int64_t size[2], bool wild)
{
    const lk_shape s = {2, {size[0], size[1]}};
    slot_case      c = {.slot = slot, .dtype = floats[t], .tolerance = tolerance[t]};
    for (int i = 0; i < operands; i++)
        slot_source(&c, floats[t], s, slot_numbers(floats[t], &s, wild));
    slot_result(&c, floats[t], s, NULL);
    slot_check(&c);
}

static void over_sizes(lki_slot slot, int operands)
{
    for (int t = 0; t < 2; t++)
        for (int i = 0; i < SIZES; i++)
            for (int wild = 0; wild < 2; wild++)
                one_row_op(slot, operands, t, sizes[i], wild);
}

TEST(test_softmax) { over_sizes(LKI_K_softmax, 1); }
TEST(test_softmax_grad) { over_sizes(LKI_K_softmax_grad, 2); }
TEST(test_log_softmax) { over_sizes(LKI_K_log_softmax, 1); }

/* Rows of one kind each: NaN, -inf alone, +inf, numbers that overflow, equal ones, zeros of both signs. */
TEST(test_rows_of_edges)
{
    static const double kinds[][2] = {
        {NAN, 1},  {-INFINITY, -INFINITY}, {INFINITY, 0},  {INFINITY, INFINITY}, {3e38, -3e38}, {5, 5},
        {0, -0.0}, {-0.0, -0.0},           {-1e-40, 1e-40}};
    enum { KINDS = sizeof kinds / sizeof *kinds };
    static const lki_slot slots[] = {LKI_K_softmax, LKI_K_log_softmax};
    for (int n = 1; n < 40; n += 6)
        for (int k = 0; k < 2; k++) {
            const lk_shape s = {2, {KINDS, n}};
            slot_case      c = {.slot = slots[k], .dtype = LK_F32};
            float         *x = slot_room(LK_F32, &s);
            for (int i = 0; i < KINDS * n; i++)
                x[i] = (float)kinds[i / n][slot_below(2)];
            slot_source(&c, LK_F32, s, x);
            slot_result(&c, LK_F32, s, NULL);
            slot_check(&c);
        }
}

/* ---- cross-entropy ---- */

enum { GOOD, SOME_OUT, IGNORED, IGNORED_OUTSIDE, LABELS };

static slot_case cross_entropy(lki_slot slot, int t, const int64_t size[2], lk_dtype label, int kind, bool wild)
{
    const lk_shape s = {2, {size[0], size[1]}}, rows = {1, {size[0]}};
    slot_case      c = {.slot = slot, .dtype = floats[t], .tolerance = tolerance[t]};
    const int64_t  high = lki_max(1, label == LK_U8 ? lki_min(size[1], 256) : size[1]);
    const int64_t  low = kind == SOME_OUT && label != LK_U8 ? -3 : 0;
    slot_source(&c, floats[t], s, slot_numbers(floats[t], &s, wild));
    slot_source(&c, label, rows,
                slot_integers(label, &rows, low, kind == SOME_OUT ? lki_min(high + 3, label == LK_U8 ? 256 : high + 3) : high));
    if (slot == LKI_K_sparse_xent_grad) slot_source(&c, floats[t], rows, slot_numbers(floats[t], &rows, wild));
    slot_result(&c, floats[t], slot == LKI_K_sparse_xent_grad ? s : rows, NULL);
    c.attr.xent.ignore = kind >= IGNORED;
    c.attr.xent.ignore_class = kind == IGNORED_OUTSIDE ? -1 : 2;
    if (kind == IGNORED_OUTSIDE && label != LK_U8)
        for (int64_t i = 0; i < size[0]; i += 3)
            lki_element_set(label, c.src_data[1], i, -1);
    return c;
}

static void over_labels(lki_slot slot)
{
    static const lk_dtype types[] = {LK_I32, LK_I64, LK_U8};
    for (int t = 0; t < 2; t++)
        for (int i = 0; i < SIZES; i++)
            for (int label = 0; label < 3; label++)
                for (int kind = GOOD; kind < LABELS; kind++) {
                    if (sizes[i][0] * sizes[i][1] > 20000 && label + kind != 1) continue;
                    slot_case c = cross_entropy(slot, t, sizes[i], types[label], kind, kind % 2);
                    slot_check(&c);
                }
}

TEST(test_sparse_xent) { over_labels(LKI_K_sparse_xent); }
TEST(test_sparse_xent_grad) { over_labels(LKI_K_sparse_xent_grad); }

/* No classes at all: every label is out of range. */
TEST(test_no_classes)
{
    const int64_t size[2] = {5, 0};
    for (int kind = GOOD; kind < LABELS; kind++) {
        slot_case c = cross_entropy(LKI_K_sparse_xent, 0, size, LK_I32, kind, false),
                  g = cross_entropy(LKI_K_sparse_xent_grad, 0, size, LK_I32, kind, false);
        slot_check(&c);
        slot_check(&g);
    }
}

TESTS(cmocka_unit_test(test_softmax), cmocka_unit_test(test_softmax_grad), cmocka_unit_test(test_log_softmax),
      cmocka_unit_test(test_rows_of_edges), cmocka_unit_test(test_sparse_xent), cmocka_unit_test(test_sparse_xent_grad),
      cmocka_unit_test(test_no_classes))
