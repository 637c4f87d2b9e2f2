/* Convolutions and their gradients on a GPU against the reference. f64: the same bits. f32 uses tensor cores, in another order:
 * numbers close to the reference. */
#include "slots.h"

typedef struct shape {
    int64_t images, IH, IW, C, KH, KW, O, stride, dilation, pad, more; /* more: cells after the image beyond pad */
} shape;

static const lk_dtype types[] = {LK_F32, LK_F64};

static lki_window window_of(const shape *s)
{
    return (lki_window){{s->KH, s->KW}, {s->stride, s->stride}, {s->dilation, s->dilation}, {s->pad, s->pad}};
}

static int64_t output(const shape *s, int64_t cells, int64_t taps)
{
    return (cells + 2 * s->pad + s->more - (taps - 1) * s->dilation - 1) / s->stride + 1;
}

static lk_shape image_of(const shape *s) { return (lk_shape){4, {s->images, s->IH, s->IW, s->C}}; }
static lk_shape weights_of(const shape *s) { return (lk_shape){4, {s->KH, s->KW, s->C, s->O}}; }
static lk_shape outputs_of(const shape *s, int64_t cells)
{
    return (lk_shape){4, {s->images, output(s, s->IH, s->KH) / cells, output(s, s->IW, s->KW) / cells, s->O}};
}

static lki_precision precision;
static const double  near[LKI_PRECISIONS] = {1e-5, 4e-3, 3e-2}; /* factors rounded: close in their way */

static slot_case case_of(lki_slot slot, lk_dtype t, const shape *s)
{
    slot_case c = {.slot = slot, .dtype = t, .precision = precision, .tolerance = t == LK_F32 ? near[precision] : 0};
    c.attr.window = window_of(s);
    return c;
}

static const shape shapes[] = {
    {2, 5, 5, 1, 3, 3, 4, 1, 1, 0, 0},     {3, 7, 6, 3, 3, 3, 5, 1, 1, 1, 0},   {2, 9, 11, 4, 3, 2, 8, 2, 1, 1, 1},
    {1, 8, 8, 2, 2, 2, 3, 2, 1, 0, 0},     {2, 10, 10, 5, 3, 3, 6, 1, 2, 2, 0}, {2, 11, 9, 4, 3, 3, 4, 3, 2, 2, 1},
    {1, 4, 4, 1, 1, 1, 1, 1, 1, 0, 0},     {2, 6, 6, 8, 1, 1, 12, 1, 1, 0, 0},  {0, 5, 5, 2, 3, 3, 4, 1, 1, 0, 0},
    {1, 5, 5, 2, 3, 3, 0, 1, 1, 0, 0},     {1, 5, 5, 0, 3, 3, 2, 1, 1, 0, 0},   {4, 3, 3, 7, 3, 3, 33, 1, 1, 0, 0},
    {2, 12, 12, 16, 3, 3, 16, 1, 1, 1, 0}, {9, 14, 14, 1, 5, 5, 6, 1, 1, 0, 0}, {1, 12, 13, 6, 7, 5, 9, 4, 1, 3, 2},
    {3, 4, 4, 65, 3, 3, 40, 1, 1, 1, 0},   {11, 8, 8, 4, 3, 3, 20, 1, 1, 1, 0}, {11, 8, 8, 12, 3, 3, 20, 1, 1, 1, 0},
    {7, 8, 8, 40, 3, 3, 50, 1, 1, 1, 0}, /* parts of several images */
};
enum { SHAPES = sizeof shapes / sizeof shapes[0] };

/* Larger ones, for the larger tiles. */
static const shape large[] = {
    {8, 28, 28, 1, 3, 3, 32, 1, 1, 0, 0}, {12, 18, 18, 8, 3, 3, 64, 1, 1, 1, 0}, {40, 20, 20, 3, 2, 2, 140, 1, 1, 0, 0}};

static void check_forward(const shape *s, lk_dtype t, int bits)
{
    const int      pool = bits >> 2 & 1;
    slot_case      c = case_of(LKI_K_conv2d, t, s);
    const lk_shape x = image_of(s), w = weights_of(s), y = outputs_of(s, pool ? 2 : 1), bias = {1, {s->O}};
    const bool     wild = s->pad == 0 && s->more == 0;
    c.attr.epilogue = (lki_epilogue){.bias = bits & 1, .relu = bits >> 1 & 1, .pool = pool};
    slot_source(&c, t, x, slot_numbers(t, &x, wild));
    slot_source(&c, t, w, slot_numbers(t, &w, false));
    if (bits & 1) slot_source(&c, t, bias, slot_numbers(t, &bias, false));
    slot_result(&c, t, y, NULL);
    if (pool) slot_result(&c, LK_U8, y, NULL);
    slot_check(&c);
}

TEST(test_conv2d)
{
    for (int i = 0; i < SHAPES; i++)
        for (int bits = 0; bits < 8; bits++)
            for (int t = 0; t < 2; t++)
                check_forward(&shapes[i], types[t], bits);
    for (size_t i = 0; i < sizeof large / sizeof large[0]; i++)
        check_forward(&large[i], LK_F32, 3 + 4 * (i < 2));
}

static void check_grad_x(const shape *s, lk_dtype t)
{
    slot_case      c = case_of(LKI_K_conv2d_grad_x, t, s);
    const lk_shape x = image_of(s), w = weights_of(s), y = outputs_of(s, 1);
    slot_source(&c, t, y, slot_numbers(t, &y, false));
    slot_source(&c, t, w, slot_numbers(t, &w, false));
    slot_result(&c, t, x, NULL);
    slot_check(&c);
}

TEST(test_grad_x)
{
    for (int i = 0; i < SHAPES; i++)
        for (int t = 0; t < 2; t++)
            check_grad_x(&shapes[i], types[t]);
    for (size_t i = 0; i < sizeof large / sizeof large[0]; i++)
        check_grad_x(&large[i], LK_F32);
}

/* ---- gradients through a pool ---- */

/* A gradient of which much is zero, the winners' cells, and pooled results, some of them not > 0. */
static void pooled_sources(slot_case *c, lk_dtype t, const lk_shape *p)
{
    void *d = slot_numbers(t, p, false);
    for (int64_t i = 0; i < lki_shape_size(p); i++)
        if (slot_below(3) == 0) lki_element_set(t, d, i, 0);
    slot_source(c, t, *p, d);
    slot_source(c, LK_U8, *p, slot_integers(LK_U8, p, 0, 4));
}

static void check_pool_grad_x(const shape *s, lk_dtype t, int relu)
{
    slot_case      c = case_of(LKI_K_conv2d_pool_grad_x, t, s);
    const lk_shape x = image_of(s), w = weights_of(s), p = outputs_of(s, 2);
    c.attr.epilogue.relu = relu;
    pooled_sources(&c, t, &p);
    slot_source(&c, t, w, slot_numbers(t, &w, false));
    if (relu) slot_source(&c, t, p, slot_numbers(t, &p, true));
    slot_result(&c, t, x, NULL);
    slot_check(&c);
}

TEST(test_pool_grad_x)
{
    for (int i = 0; i < SHAPES; i++)
        for (int t = 0; t < 2; t++)
            for (int relu = 0; relu < 2; relu++)
                check_pool_grad_x(&shapes[i], types[t], relu);
    for (size_t i = 0; i < 2; i++)
        check_pool_grad_x(&large[i], LK_F32, 1);
}

/* ---- weights ---- */

/* The second result of a gradient through a pool: that of the bias. */
static void check_bias(slot_case c, int64_t O)
{
    const float *d = c.src_data[1], *y = c.attr.epilogue.relu ? c.src_data[3] : NULL;
    void        *gpu[2];
    float       *sums = calloc((size_t)(O + 1), SLOT_GUARD);
    c.attr.epilogue.bias = 1;
    slot_result(&c, LK_F32, (lk_shape){1, {O}}, NULL);
    for (int i = 0; i < 2; i++)
        gpu[i] = slot_start(&c, i);
    slot_on_gpu(&c, gpu);
    for (int64_t o = 0; o < O; o++) {
        double sum = 0;
        for (int64_t i = o; i < lki_shape_size(&c.src[1]); i += O)
            sum += y && !(y[i] > 0) ? 0 : d[i];
        sums[o] = (float)sum;
    }
    memset(sums + O, 0xa5, SLOT_GUARD);
    c.tolerance = 1e-5;
    slot_compare(&c, 1, sums, gpu[1]);
    free(sums);
    free(gpu[0]);
    free(gpu[1]);
}

static void check_grad_w(const shape *s, lk_dtype t, int lanes, bool pooled, int relu)
{
    slot_case      c = case_of(pooled ? LKI_K_conv2d_pool_grad_w : LKI_K_conv2d_grad_w, t, s);
    const lk_shape x = image_of(s), w = weights_of(s), y = outputs_of(s, pooled ? 2 : 1);
    c.attr.epilogue.relu = relu;
    slot_source(&c, t, x, slot_numbers(t, &x, false));
    if (pooled) pooled_sources(&c, t, &y);
    else slot_source(&c, t, y, slot_numbers(t, &y, false));
    if (relu) slot_source(&c, t, y, slot_numbers(t, &y, true));
    slot_result(&c, t, w, NULL);
    if (lanes) slot_lanes(&c, lanes, s->images);
    if (pooled && t == LK_F32 && s->O > 1) check_bias(c, s->O);
    slot_check(&c);
}

static void check_lanes(bool pooled, int relu)
{
    static const int lanes[] = {0, 1, 4, 16};
    for (int i = 0; i < SHAPES; i++)
        for (int t = 0; t < 2; t++)
            for (int l = 0; l < 4; l++)
                check_grad_w(&shapes[i], types[t], lanes[l], pooled, relu);
    check_grad_w(&large[0], LK_F32, 2, pooled, relu);
    check_grad_w(&large[1], LK_F32, 8, pooled, relu);
}

TEST(test_grad_w) { check_lanes(false, 0); }
TEST(test_pool_grad_w) { check_lanes(true, 0); }
TEST(test_pool_grad_w_relu) { check_lanes(true, 1); }

/* As many weights as give one block all lanes of a tile. */
TEST(test_many_weights)
{
    const shape s = {4, 3, 3, 130, 3, 3, 520, 1, 1, 1, 0};
    check_grad_w(&s, LK_F32, 4, false, 0);
    check_grad_w(&s, LK_F32, 2, true, 1);
}

/* The same kernels, with factors rounded. */
TEST(test_precisions)
{
    for (int p = LKI_PRECISION_TF32; p < LKI_PRECISIONS; p++)
        for (int i = 0; i < SHAPES; i++) {
            precision = (lki_precision)p;
            check_forward(&shapes[i], LK_F32, 0);
            check_grad_x(&shapes[i], LK_F32);
            check_grad_w(&shapes[i], LK_F32, 4, false, 0);
        }
    precision = LKI_PRECISION_F32;
}

/* ---- by patches (kernel/gpu/conv/patch.h) ---- */

/* As many results as give large tiles: weights that stay and blocks that go from tile to tile, weights tap by tap over several
 * chunks of channels, narrow results. Two cells are infinite: a block must find that after its first tile too. */
TEST(test_large_tiles)
{
    LONG_TEST();
    static const shape many[] = {
        {34, 31, 32, 8, 2, 2, 40, 1, 1, 1, 0}, {17, 31, 31, 48, 2, 2, 36, 1, 1, 1, 0}, {17, 31, 31, 24, 2, 2, 20, 1, 1, 1, 0}};
    for (size_t i = 0; i < sizeof many / sizeof many[0]; i++) {
        check_forward(&many[i], LK_F32, 3 + 4 * (i == 0));
        check_grad_x(&many[i], LK_F32);
    }
    const shape   *s = &many[0];
    slot_case      c = case_of(LKI_K_conv2d, LK_F32, s);
    const lk_shape x = image_of(s), w = weights_of(s), y = outputs_of(s, 1);
    float         *cells = slot_numbers(LK_F32, &x, false);
    cells[7] = cells[lki_shape_size(&x) - 9] = INFINITY;
    slot_source(&c, LK_F32, x, cells);
    slot_source(&c, LK_F32, w, slot_numbers(LK_F32, &w, false));
    slot_result(&c, LK_F32, y, NULL);
    slot_check(&c);
}

static const shape pooled[] = {
    {9, 13, 13, 32, 3, 3, 64, 1, 1, 0, 0}, {3, 8, 8, 16, 3, 3, 24, 1, 1, 1, 0},    {2, 6, 10, 36, 3, 3, 40, 1, 1, 0, 0},
    {5, 9, 7, 20, 3, 3, 72, 1, 1, 1, 1},   {3, 6, 6, 64, 3, 3, 32, 1, 1, 2, 0},    {70, 4, 4, 16, 3, 3, 8, 1, 1, 0, 0},
    {2, 20, 22, 16, 3, 3, 16, 1, 1, 1, 0}, {110, 13, 13, 16, 3, 3, 8, 1, 1, 0, 0},
};
enum { POOLED = sizeof pooled / sizeof pooled[0] };

TEST(test_pool_precisions)
{
    LONG_TEST();
    for (int p = 0; p < LKI_PRECISIONS; p++)
        for (int i = 0; i < 2 * POOLED; i++) {
            const shape *s = &pooled[i / 2];
            precision = (lki_precision)p;
            check_pool_grad_x(s, LK_F32, i % 2);
            check_grad_w(s, LK_F32, i % 3 * 4, true, i % 2);
        }
    precision = LKI_PRECISION_F32;
}

/* As many tiles as make blocks go from one to the next: entries, and weights that do not fit to stay, are copied while the previous
 * tile is multiplied (patch_pool_x.cu). */
TEST(test_pool_many_tiles)
{
    const shape s = {140, 16, 16, 36, 2, 2, 96, 1, 1, 1, 0};
    precision = LKI_PRECISION_TF32;
    check_pool_grad_x(&s, LK_F32, 1);
    precision = LKI_PRECISION_F32;
}

/* Two entries are infinite: their tiles are computed again. */
TEST(test_pool_infinite)
{
    const shape    s = {34, 31, 32, 8, 2, 2, 40, 1, 1, 1, 0};
    slot_case      c = case_of(LKI_K_conv2d_pool_grad_x, LK_F32, &s);
    const lk_shape x = image_of(&s), w = weights_of(&s), p = outputs_of(&s, 2);
    pooled_sources(&c, LK_F32, &p);
    ((float *)c.src_data[0])[7] = ((float *)c.src_data[0])[lki_shape_size(&p) - 9] = INFINITY;
    slot_source(&c, LK_F32, w, slot_numbers(LK_F32, &w, false));
    slot_result(&c, LK_F32, x, NULL);
    slot_check(&c);
}

/* ---- by fragments (kernel/gpu/conv/fragment.h) ---- */

/* The first images of many, and these alone: by units that are wide, by those for few rows, and with the same bits. */
static void check_first_images(slot_case *c, int64_t first)
{
    const int64_t many = c->dst[0].dim[0];
    void         *got[2][2];
    for (int i = 0; i < 2; i++) {
        slot_case part = *c;
        for (int k = 0; k < part.nsrc; k++)
            if (i && part.src[k].dim[0] == many) part.src[k].dim[0] = first;
        for (int k = 0; k < part.ndst; k++) {
            if (i) part.dst[k].dim[0] = first;
            got[i][k] = slot_start(&part, k);
        }
        slot_on_gpu(&part, got[i]);
    }
    for (int k = 0; k < c->ndst; k++) {
        assert_memory_equal(got[0][k], got[1][k],
                            (size_t)(lki_shape_size(&c->dst[k]) / many * first) * lk_dtype_bytes(c->dst_type[k]));
        free(got[0][k]);
        free(got[1][k]);
    }
    for (int k = 0; k < c->nsrc; k++)
        free(c->src_data[k]);
}

/* Of all sizes, so that sums cancel and lose what is small. */
static void *numbers_of_all_sizes(const lk_shape *of)
{
    float *x = slot_numbers(LK_F32, of, false);
    for (int64_t i = 0; i < lki_shape_size(of); i++)
        x[i] = ldexpf(x[i], (int)(i * 7919 % 41) - 20);
    return x;
}

static void check_few_outputs(void)
{
    const shape    s = {528, 6, 6, 32, 3, 3, 256, 1, 1, 0, 0};
    slot_case      c = case_of(LKI_K_conv2d, LK_F32, &s);
    const lk_shape x = image_of(&s), w = weights_of(&s), y = outputs_of(&s, 2), bias = {1, {s.O}};
    c.attr.epilogue = (lki_epilogue){.bias = 1, .relu = 1, .pool = 1, .marks = 1};
    slot_source(&c, LK_F32, x, numbers_of_all_sizes(&x));
    slot_source(&c, LK_F32, w, numbers_of_all_sizes(&w));
    slot_source(&c, LK_F32, bias, slot_numbers(LK_F32, &bias, false));
    slot_result(&c, LK_F32, y, NULL);
    slot_result(&c, LK_U8, y, NULL);
    check_first_images(&c, 19);
}

static void check_few_cells(int relu)
{
    const shape    s = {240, 4, 4, 256, 3, 3, 24, 1, 1, 1, 0};
    slot_case      c = case_of(LKI_K_conv2d_pool_grad_x, LK_F32, &s);
    const lk_shape x = image_of(&s), w = weights_of(&s), p = outputs_of(&s, 2);
    c.attr.epilogue.relu = relu;
    pooled_sources(&c, LK_F32, &p);
    slot_source(&c, LK_F32, w, numbers_of_all_sizes(&w));
    if (relu) slot_source(&c, LK_F32, p, slot_numbers(LK_F32, &p, true));
    slot_result(&c, LK_F32, x, NULL);
    check_first_images(&c, 19);
}

TEST(test_few_rows)
{
    LONG_TEST();
    for (int p = LKI_PRECISION_TF32; p < LKI_PRECISIONS; p++) {
        precision = (lki_precision)p;
        check_few_outputs();
        check_few_cells(p == LKI_PRECISION_BF16);
    }
    precision = LKI_PRECISION_TF32;
    check_few_cells(true);
    precision = LKI_PRECISION_F32;
}

static void check_shares(const shape *s, bool through_pool)
{
    const lk_shape x = image_of(s), w = weights_of(s), y = outputs_of(s, through_pool ? 2 : 1);
    slot_case      whole = case_of(through_pool ? LKI_K_conv2d_pool_grad_w : LKI_K_conv2d_grad_w, LK_F32, s);
    slot_source(&whole, LK_F32, x, slot_numbers(LK_F32, &x, false));
    if (through_pool) pooled_sources(&whole, LK_F32, &y);
    else slot_source(&whole, LK_F32, y, slot_numbers(LK_F32, &y, false));
    slot_result(&whole, LK_F32, w, NULL);
    slot_check_shares(&whole, whole.nsrc, s->images);
}

TEST(test_shares)
{
    LONG_TEST();
    static const shape some[] = {{300, 4, 4, 8, 3, 3, 8, 1, 1, 1, 0},
                                 {300, 4, 4, 16, 3, 3, 8, 1, 1, 1, 0},
                                 {61, 6, 6, 32, 3, 3, 64, 1, 1, 1, 0}}; /* fragment_w.cu */
    for (int i = 0; i < 6 * LKI_PRECISIONS; i++) {
        precision = (lki_precision)(i / 6);
        check_shares(&some[i / 2 % 3], i % 2);
    }
    precision = LKI_PRECISION_F32;
}

TESTS(cmocka_unit_test(test_conv2d), cmocka_unit_test(test_grad_x), cmocka_unit_test(test_pool_grad_x),
      cmocka_unit_test(test_grad_w), cmocka_unit_test(test_pool_grad_w), cmocka_unit_test(test_pool_grad_w_relu),
      cmocka_unit_test(test_many_weights), cmocka_unit_test(test_precisions), cmocka_unit_test(test_large_tiles),
      cmocka_unit_test(test_pool_precisions), cmocka_unit_test(test_pool_many_tiles), cmocka_unit_test(test_pool_infinite),
      cmocka_unit_test(test_few_rows), cmocka_unit_test(test_shares))
