/* Matrix products on a GPU against the reference: the same bits, but for long f32 chains, whose order is the GPU's own (kernel/gpu/matmul.cu) and is computed here again. */
#include "slots.h"

enum { LONG = 1024, PART = 256 };

typedef struct form {
    int  ta, tb, heads, bias, relu, lanes;
    bool wild;
} form;

static lk_shape operand(const lk_shape *leading, int64_t rows, int64_t columns, bool turned, bool heads)
{
    lk_shape s = *leading;
    s.dim[s.rank] = turned ? columns : rows;
    s.dim[s.rank + 1] = turned ? rows : columns;
    s.rank += 2;
    if (heads) {
        const int64_t h = s.dim[1];
        s.dim[1] = s.dim[2];
        s.dim[2] = h;
    }
    return s;
}

static slot_case product(lk_dtype t, const form *f, const lk_shape *la, const lk_shape *lb, const lk_shape *lc, int64_t M,
                         int64_t N, int64_t K)
{
    slot_case      c = {.slot = LKI_K_matmul, .dtype = t};
    const lk_shape a = operand(la, M, K, f->ta, f->heads & 1), b = operand(lb, K, N, f->tb, f->heads & 2), bias = {1, {N}};
    c.attr.matmul.ta = f->ta;
    c.attr.matmul.tb = f->tb;
    c.attr.matmul.heads = f->heads;
    c.attr.epilogue.bias = f->bias;
    c.attr.epilogue.relu = f->relu;
    slot_source(&c, t, a, slot_numbers(t, &a, f->wild));
    slot_source(&c, t, b, slot_numbers(t, &b, f->wild));
    if (f->bias) slot_source(&c, t, bias, slot_numbers(t, &bias, f->wild));
    slot_result(&c, t, operand(lc, M, N, false, f->heads & 4), NULL);
    if (f->lanes) slot_lanes(&c, f->lanes, K);
    return c;
}

static void check(lk_dtype t, const form *f, const lk_shape *la, const lk_shape *lb, const lk_shape *lc, int64_t M, int64_t N,
                  int64_t K)
{
    slot_case c = product(t, f, la, lb, lc, M, N, K);
    slot_check(&c);
}

static void check_plain(lk_dtype t, const form *f, int64_t M, int64_t N, int64_t K)
{
    const lk_shape none = {0, {0}};
    check(t, f, &none, &none, &none, M, N, K);
}

static const lk_dtype types[] = {LK_F32, LK_F64};

/* Odd sizes around the tiles, all transpositions and epilogues. */
TEST(test_sizes)
{
    static const int64_t sizes[][3] = {{1, 1, 1},     {3, 5, 7},   {32, 32, 32}, {33, 31, 17},  {64, 64, 64},
                                       {65, 10, 100}, {7, 130, 9}, {129, 33, 8}, {130, 132, 4}, {0, 5, 3},
                                       {5, 0, 3},     {5, 3, 0},   {2, 2, 1000}, {31, 4, 40}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (int bits = 0; bits < 16; bits++)
            for (int t = 0; t < 2; t++) {
                const form f = {bits & 1, bits >> 1 & 1, 0, bits >> 2 & 1, bits >> 3 & 1, 0, i % 2};
                check_plain(types[t], &f, sizes[i][0], sizes[i][1], sizes[i][2]);
            }
}

/* Many tiles of each form: results large enough that the larger tiles are chosen. */
TEST(test_tiles)
{
    static const int64_t sizes[][3] = {{1400, 1530, 5}, {1401, 1531, 2}, {700, 810, 9}, {9000, 30, 10}, {520, 300, 12}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (int bits = 0; bits < 4; bits++) {
            const form f = {bits & 1, bits >> 1, 0, 1, 1, 0, false};
            if (i == 1 && bits % 3) continue;
            check_plain(LK_F32, &f, sizes[i][0], sizes[i][1], sizes[i][2]);
        }
}

/* Sums over rows: few and many rows per lane, empty lanes, few and many tiles, more than 16 lanes. */
TEST(test_lanes)
{
    static const int64_t sizes[][3] = {{5, 3, 20},     {40, 36, 64}, {37, 70, 900}, {1100, 64, 64},
                                       {700, 900, 30}, {64, 64, 0},  {3, 4, 2100}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (int lanes = 1; lanes <= 64; lanes *= 2)
            for (int tb = 0; tb < 2; tb++)
                for (int t = 0; t < (sizes[i][0] < 100 ? 2 : 1); t++) {
                    const form f = {1, tb, 0, 0, 0, lanes, lanes == 4 && sizes[i][0] < 64};
                    if (sizes[i][0] > 1000 && (tb || (lanes != 8 && lanes != 32))) continue;
                    check_plain(types[t], &f, sizes[i][0], sizes[i][1], sizes[i][2]);
                }
}

/* Leading axes that broadcast, and operands by heads. */
TEST(test_leading)
{
    static const struct {
        lk_shape a, b, c;
    } axes[] = {
        {{1, {3}}, {1, {3}}, {1, {3}}}, {{2, {2, 3}}, {0, {0}}, {2, {2, 3}}},    {{0, {0}}, {2, {2, 3}}, {2, {2, 3}}},
        {{1, {1}}, {1, {4}}, {1, {4}}}, {{2, {2, 1}}, {1, {3}}, {2, {2, 3}}},    {{3, {2, 1, 3}}, {3, {1, 4, 1}}, {3, {2, 4, 3}}},
        {{1, {0}}, {1, {0}}, {1, {0}}}, {{2, {2, 3}}, {2, {1, 1}}, {2, {2, 3}}}, {{1, {1}}, {2, {2, 3}}, {2, {2, 3}}},
    };
    for (size_t i = 0; i < sizeof axes / sizeof axes[0]; i++)
        for (int bits = 0; bits < 8; bits++) {
            const form f = {bits & 1, bits >> 1 & 1, 0, bits >> 2 & 1, 1, 0, true};
            check(types[bits % 2], &f, &axes[i].a, &axes[i].b, &axes[i].c, 5, 6, 7);
            check(types[(bits + 1) % 2], &f, &axes[i].a, &axes[i].b, &axes[i].c, 36, 8, 12);
        }
    for (int heads = 0; heads < 8; heads++)
        for (int bits = 0; bits < 4; bits++)
            for (int t = 0; t < 2; t++) {
                const lk_shape l = {2, {2, 3}};
                const form     f = {bits & 1, bits >> 1, heads, 0, 0, 0, false};
                check(types[t], &f, &l, &l, &l, 10, 12, 8);
                check(types[t], &f, &l, &l, &l, 9, 5, 7);
            }
}

/* ---- long chains ---- */

static void by_parts(const slot_case *c, const form *f, int64_t M, int64_t N, int64_t K, float *out)
{
    const float *a = c->src_data[0], *b = c->src_data[1], *bias = f->bias ? c->src_data[2] : NULL;
    for (int64_t i = 0; i < M * N; i++) {
        const int64_t m = i / N, n = i % N;
        float         sum = 0;
        for (int64_t from = 0; from < K; from += PART) {
            float chain = 0;
            for (int64_t k = from; k < lki_min(K, from + PART); k++)
                chain = fmaf(a[f->ta ? k * M + m : m * K + k], b[f->tb ? n * K + k : k * N + n], chain);
            sum = from ? sum + chain : chain;
        }
        if (bias) sum = sum + bias[n];
        out[i] = f->relu && sum < 0 ? 0 : sum;
    }
}

/* The GPU's own definition bit for bit, and the reference within what two orders of a sum may differ. */
static void check_long(const form *f, int64_t M, int64_t N, int64_t K)
{
    const lk_shape none = {0, {0}};
    slot_case      c = product(LK_F32, f, &none, &none, &none, M, N, K);
    void          *mine = slot_start(&c, 0), *gpu = slot_start(&c, 0);
    by_parts(&c, f, M, N, K, mine);
    slot_on_gpu(&c, &gpu);
    slot_compare(&c, 0, mine, gpu);
    free(mine);
    free(gpu);
    c.tolerance = 1e-6 * sqrt((double)K);
    slot_check(&c);
}

TEST(test_long)
{
    static const int64_t sizes[][3] = {{1, 1, LONG},   {5, 7, LONG + 1}, {64, 64, 1300},
                                       {33, 10, 5408}, {3, 2, 1535},     {8450, 3, 1030}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (int bits = 0; bits < (sizes[i][0] > 500 ? 2 : 4); bits++) {
            const form f = {bits & 1, bits >> 1, 0, 1, bits & 1, 0, false};
            check_long(&f, sizes[i][0], sizes[i][1], sizes[i][2]);
        }
}

/* How many rows there are does not show in any row. */
TEST(test_rows_alone)
{
    enum { M = 8450, N = 2, K = 1030 };
    const lk_shape none = {0, {0}};
    const form     f = {0};
    slot_case      c = product(LK_F32, &f, &none, &none, &none, M, N, K);
    void          *all = slot_start(&c, 0), *one = slot_start(&c, 0);
    slot_on_gpu(&c, &all);
    c.src[0].dim[0] = c.dst[0].dim[0] = 3;
    slot_on_gpu(&c, &one);
    assert_memory_equal(all, one, 3 * N * sizeof(float));
    free(all);
    free(one);
    free(c.src_data[0]);
    free(c.src_data[1]);
}

TESTS(cmocka_unit_test(test_sizes), cmocka_unit_test(test_tiles), cmocka_unit_test(test_lanes), cmocka_unit_test(test_leading),
      cmocka_unit_test(test_long), cmocka_unit_test(test_rows_alone))
