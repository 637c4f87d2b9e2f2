/* Matrix products on a GPU against the reference. f64: the same bits. f32 uses tensor cores, in another order
 * (kernel/gpu/product/matmul.cu): numbers close to the reference, with at most the error of a chain in f32, or as the precision
 * says; and the division of the work never changes bits. */
#include "slots.h"

enum { PART = 256, RUN = 4, ROWS = 512 };

/* How far from the largest result: below what one wrong product would do to it. */
static const double near[LKI_PRECISIONS] = {2e-6, 4e-3, 3e-2};

typedef struct form {
    int           ta, tb, heads, bias, relu, lanes;
    bool          wild; /* in a, among them what is not finite; b then has zeros too */
    lki_precision precision;
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

static void *some_zeros(lk_dtype t, const lk_shape *s, bool wild)
{
    void *p = slot_numbers(t, s, false);
    for (int64_t i = 0; i < lki_shape_size(s) && wild; i++)
        if (slot_below(10) == 0) lki_element_set(t, p, i, 0);
    return p;
}

static slot_case product(lk_dtype t, const form *f, const lk_shape *la, const lk_shape *lb, const lk_shape *lc, int64_t M,
                         int64_t N, int64_t K)
{
    slot_case      c = {.slot = LKI_K_matmul, .dtype = t, .precision = f->precision};
    const lk_shape a = operand(la, M, K, f->ta, f->heads & 1), b = operand(lb, K, N, f->tb, f->heads & 2), bias = {1, {N}};
    c.attr.matmul.ta = f->ta;
    c.attr.matmul.tb = f->tb;
    c.attr.matmul.heads = f->heads;
    c.attr.epilogue.bias = f->bias;
    c.attr.epilogue.relu = f->relu;
    if (t == LK_F32) c.tolerance = near[f->precision] + 2e-6 * sqrt((double)K); /* the reference is a chain */
    slot_source(&c, t, a, slot_numbers(t, &a, f->wild));
    slot_source(&c, t, b, some_zeros(t, &b, f->wild));
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

static const lk_shape none = {0, {0}};

static void check_plain(lk_dtype t, const form *f, int64_t M, int64_t N, int64_t K) { check(t, f, &none, &none, &none, M, N, K); }

static const lk_dtype types[] = {LK_F32, LK_F64};

/* Odd sizes around the tiles, all transpositions, epilogues and precisions. */
TEST(test_sizes)
{
    static const int64_t sizes[][3] = {{1, 1, 1},    {3, 5, 7},    {32, 32, 32},  {33, 31, 17}, {64, 64, 64}, {65, 10, 100},
                                       {7, 130, 9},  {129, 33, 8}, {130, 132, 4}, {0, 5, 3},    {5, 0, 3},    {5, 3, 0},
                                       {2, 2, 1000}, {31, 4, 40},  {32, 64, 64},  {64, 32, 96}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (int bits = 0; bits < 16; bits++)
            for (int t = 0; t < 4; t++) {
                const form f = {bits & 1, bits >> 1 & 1, 0, bits >> 2 & 1, bits >> 3 & 1, 0, i % 2, t == 3 ? 0 : (lki_precision)t};
                if ((t == 1 || t == 2) && bits % 4 != bits / 4) continue;
                check_plain(types[t == 3], &f, sizes[i][0], sizes[i][1], sizes[i][2]);
            }
}

/* Many tiles of each form: results large enough that the larger tiles are chosen. */
TEST(test_tiles)
{
    static const int64_t sizes[][3] = {{1780, 948, 20}, {699, 811, 5}, {700, 812, 20}, {26000, 30, 20}, {520, 300, 20}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (int bits = 0; bits < 4; bits++)
            for (int p = 0; p < (i == 3 ? 1 : LKI_PRECISIONS); p++) {
                const form f = {bits & 1, bits >> 1, 0, 1, 1, 0, false, (lki_precision)p};
                if ((p && (p != 1 + bits % 2 || (i == 0 && bits % 3))) || (i == 3 && bits % 3))
                    continue; /* not all forms in all precisions */
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
                    const form f = {
                        1, tb, 0, 0, 0, lanes, lanes == 4 && sizes[i][0] < 64, lanes == 8 ? (int)i % LKI_PRECISIONS : 0};
                    if (sizes[i][0] > 500 && (tb || (lanes != 8 && lanes != 32))) continue;
                    if (sizes[i][2] > 500 && lanes != 1 && lanes != 4 && lanes != 64) continue;
                    check_plain(types[t], &f, sizes[i][0], sizes[i][1], sizes[i][2]);
                }
}

/* All rows in one lane: the others have no piece, and are still part of the tree. */
TEST(test_one_lane)
{
    for (int which = 0; which < 4; which++) {
        const form f = {.ta = 1, .lanes = 4};
        slot_case  c = product(LK_F32, &f, &none, &none, &none, 40, 36, 300);
        for (int s = 0; s <= 4; s++)
            c.bound[s] = s <= which ? 0 : 300;
        slot_check(&c);
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
            const form f = {bits & 1, bits >> 1 & 1, 0, bits >> 2 & 1, 1, 0, true, 0};
            check(types[bits % 2], &f, &axes[i].a, &axes[i].b, &axes[i].c, 5, 6, 7);
            check(types[(bits + 1) % 2], &f, &axes[i].a, &axes[i].b, &axes[i].c, 36, 8, 12);
        }
    for (int heads = 0; heads < 8; heads++)
        for (int bits = 0; bits < 4; bits++)
            for (int t = 0; t < 2; t++) {
                const lk_shape l = {2, {2, 3}};
                const form     f = {bits & 1, bits >> 1, heads, 0, 0, 0, false, 0};
                check(types[t], &f, &l, &l, &l, 10, 12, 8);
                check(types[t], &f, &l, &l, &l, 9, 5, 7);
            }
}

/* relu's gradient after a product: 0 where the mask is not above 0. */
TEST(test_mask)
{
    static const int64_t sizes[][3] = {{5, 7, 9}, {70, 64, 32}, {33, 12, 1300}, {130, 68, 16}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (int heads = 0; heads < 2; heads++)
            for (int t = 0; t < 2; t++) {
                const lk_shape l = {2, {2, 3}};
                const form     f = {0, 1, heads * 4, 0, 0, 0, false, 0};
                slot_case      c = product(types[t], &f, heads ? &l : &none, heads ? &l : &none, heads ? &l : &none, sizes[i][0],
                                           sizes[i][1], sizes[i][2]);
                c.attr.matmul.mask = 1;
                slot_source(&c, types[t], c.dst[0], slot_numbers(types[t], &c.dst[0], true));
                slot_check(&c);
            }
}

/* What is multiplied and added after a product, after its bias; whole tiles among them. */
TEST(test_scale_and_plus)
{
    static const int64_t sizes[][3] = {{5, 7, 9}, {64, 64, 96}, {33, 12, 1300}, {128, 32, 64}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (int what = 0; what < 16; what++)
            for (int t = 0; t < 2; t++) {
                const int      heads = what & 1, bias = what >> 1 & 1;
                const lk_shape l = {2, {2, 3}}, one = {0};
                const form     f = {0, 1, heads * 4, bias, 0, 0, false, 0};
                slot_case      c = product(types[t], &f, heads ? &l : &none, heads ? &l : &none, heads ? &l : &none, sizes[i][0],
                                           sizes[i][1], sizes[i][2]);
                c.attr.matmul.scale = what >> 2 & 1;
                c.attr.matmul.plus = what >> 3 & 1;
                if (c.attr.matmul.scale) slot_source(&c, types[t], one, slot_numbers(types[t], &one, true));
                if (c.attr.matmul.plus) slot_source(&c, types[t], c.dst[0], slot_numbers(types[t], &c.dst[0], true));
                slot_check(&c);
            }
}

/* ---- how close ---- */

/* |x - truth| / |truth| over all elements. */
static double distance(const float *x, const double *truth, int64_t n)
{
    double far = 0, all = 0;
    for (int64_t i = 0; i < n; i++) {
        far += (x[i] - truth[i]) * (x[i] - truth[i]);
        all += truth[i] * truth[i];
    }
    return sqrt(far / all);
}

static void check_accuracy(int64_t K, lki_precision precision, bool positive)
{
    enum { M = 16, N = 24 };
    const form f = {.precision = precision};
    slot_case  c = product(LK_F32, &f, &none, &none, &none, M, N, K);
    float     *a = c.src_data[0], *b = c.src_data[1], *gpu = slot_start(&c, 0), chain[M * N];
    double     truth[M * N];
    void      *out = gpu;
    for (int64_t i = 0; i < M * K && positive; i++)
        a[i] = fabsf(a[i]);
    for (int64_t i = 0; i < N * K && positive; i++)
        b[i] = fabsf(b[i]);
    for (int i = 0; i < M * N; i++) {
        chain[i] = 0, truth[i] = 0;
        for (int64_t k = 0; k < K; k++) {
            truth[i] += (double)a[i / N * K + k] * b[k * N + i % N];
            chain[i] = fmaf(a[i / N * K + k], b[k * N + i % N], chain[i]);
        }
    }
    slot_on_gpu(&c, &out);
    const double mine = distance(gpu, truth, M * N), fair = distance(chain, truth, M * N);
    const double most = precision == LKI_PRECISION_TF32 ? 2e-3 : precision == LKI_PRECISION_BF16 ? 2e-2 : fair;
    if (getenv("LOCKSTEP_TEST_PRINT"))
        printf("K %lld precision %d: GPU %.3g, a chain %.3g\n", (long long)K, (int)precision, mine, fair);
    if (!(mine <= most)) fail_msg("K %lld, precision %d: GPU %.3g, a chain %.3g", (long long)K, (int)precision, mine, fair);
    if (precision != LKI_PRECISION_F32 && mine < 1e-5) fail_msg("precision %d is not used", (int)precision);
    free(a);
    free(b);
    free(gpu);
}

TEST(test_accuracy)
{
    for (int positive = 0; positive < 2; positive++)
        for (int64_t K = 64; K <= 8192; K *= 2)
            check_accuracy(K, LKI_PRECISION_F32, positive);
    for (int64_t K = 64; K <= 8192; K *= 8)
        for (int p = LKI_PRECISION_TF32; p <= LKI_PRECISION_BF16; p++)
            check_accuracy(K, (lki_precision)p, false);
}

/* ---- long sums, and who computes them ---- */

TEST(test_long)
{
    static const int64_t sizes[][3] = {{1, 1, PART + 1}, {5, 7, PART * RUN + 1}, {64, 64, 1300},     {64, 64, 2049},
                                       {33, 10, 5408},   {3, 2, 1535},           {32, 64, PART + 96}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (int bits = 0; bits < 4; bits++) {
            const form f = {bits & 1, bits >> 1, 0, 1, bits & 1, 0, false, 0};
            check_plain(LK_F32, &f, sizes[i][0], sizes[i][1], sizes[i][2]);
        }
}

/* Many matrices: a block has all parts of a tile, and all runs. */
TEST(test_long_alone)
{
    const form     f = {.precision = LKI_PRECISION_F32}, fast = {.precision = LKI_PRECISION_BF16};
    const lk_shape some = {1, {140}}, more = {1, {400}};
    check(LK_F32, &f, &some, &some, &some, 32, 32, PART + 8);
    check(LK_F32, &fast, &more, &more, &more, 20, 24, PART * RUN + 8);
}

/* The first rows of a product with many rows, and those of one with few: other tiles, other blocks, the same bits. */
static void check_rows_alone(int64_t M, int64_t few, int64_t N, int64_t K, lki_precision precision)
{
    const form f = {.precision = precision};
    slot_case  c = product(LK_F32, &f, &none, &none, &none, M, N, K);
    void      *all = slot_start(&c, 0), *one = slot_start(&c, 0);
    slot_on_gpu(&c, &all);
    c.src[0].dim[0] = c.dst[0].dim[0] = few;
    slot_on_gpu(&c, &one);
    assert_memory_equal(all, one, (size_t)(few * N) * sizeof(float));
    free(all);
    free(one);
    free(c.src_data[0]);
    free(c.src_data[1]);
}

TEST(test_rows_alone)
{
    for (int p = 0; p < LKI_PRECISIONS; p++) {
        check_rows_alone(8450, 3, 40, PART + 4, (lki_precision)p); /* a block has both parts, or one */
        check_rows_alone(8450, 3, 64, PART, (lki_precision)p);
        check_rows_alone(9000, 70, 40, 30, (lki_precision)p);
        check_rows_alone(200, 5, 70, 2100, (lki_precision)p);
        check_rows_alone(128, 5, 64, 96, (lki_precision)p); /* tiles are whole, or not */
        check_rows_alone(64, 5, 64, 2 * PART + 64, (lki_precision)p);
    }
}

/* Columns of a sum over rows likewise: all lanes by one block, or each by others. */
static void check_columns_alone(int64_t M, int64_t N, int64_t K, bool even, lki_precision p)
{
    enum { FEW = 8 };
    const form f = {.ta = 1, .lanes = 8, .precision = p};
    slot_case  c = product(LK_F32, &f, &none, &none, &none, M, N, K);
    float     *a = c.src_data[0];
    void      *all = slot_start(&c, 0), *one = slot_start(&c, 0);
    for (int s = 1; s < c.lanes && even; s++)
        c.bound[s] = s * K / c.lanes;
    slot_on_gpu(&c, &all);
    for (int64_t k = 0; k < K; k++)
        memmove(a + k * FEW, a + k * M, FEW * sizeof *a);
    c.src[0].dim[1] = c.dst[0].dim[0] = FEW;
    slot_on_gpu(&c, &one);
    assert_memory_equal(all, one, (size_t)(FEW * N) * sizeof(float));
    free(all);
    free(one);
    free(c.src_data[0]);
    free(c.src_data[1]);
}

TEST(test_columns_alone)
{
    for (int p = 0; p < LKI_PRECISIONS; p++) {
        check_columns_alone(1100, 70, 700, false, (lki_precision)p);
        check_columns_alone(64, 64, 8 * 64, true, (lki_precision)p); /* tiles are whole, or not */
    }
}

TESTS(cmocka_unit_test(test_sizes), cmocka_unit_test(test_tiles), cmocka_unit_test(test_lanes), cmocka_unit_test(test_one_lane),
      cmocka_unit_test(test_leading), cmocka_unit_test(test_mask), cmocka_unit_test(test_scale_and_plus),
      cmocka_unit_test(test_accuracy), cmocka_unit_test(test_long), cmocka_unit_test(test_long_alone),
      cmocka_unit_test(test_rows_alone), cmocka_unit_test(test_columns_alone))
