/* Convolutions and their gradients on a GPU against the reference. f64: the same bits. f32 goes by tensor cores, in an order of its own: numbers close to the reference. */
#include "slots.h"

typedef struct shape {
    int64_t images, IH, IW, C, KH, KW, O, stride, dilation, pad, more; /* more: cells behind the image beyond pad */
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

static slot_case case_of(lki_slot slot, lk_dtype t, const shape *s)
{
    slot_case c = {.slot = slot, .dtype = t, .tolerance = t == LK_F32 ? 1e-5 : 0};
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

/* So many weights that one block has all lanes of a tile. */
TEST(test_many_weights)
{
    const shape s = {4, 3, 3, 130, 3, 3, 520, 1, 1, 1, 0};
    check_grad_w(&s, LK_F32, 4, false, 0);
    check_grad_w(&s, LK_F32, 2, true, 1);
}

/* Factors rounded: close in their way, and the same kernels otherwise. */
TEST(test_precisions)
{
    static const double near[LKI_PRECISIONS] = {1e-5, 4e-3, 3e-2};
    for (int p = LKI_PRECISION_TF32; p < LKI_PRECISIONS; p++)
        for (int i = 0; i < SHAPES; i++) {
            const shape   *s = &shapes[i];
            const lk_shape x = image_of(s), w = weights_of(s), y = outputs_of(s, 1);
            slot_case      f = case_of(LKI_K_conv2d, LK_F32, s), g = case_of(LKI_K_conv2d_grad_w, LK_F32, s);
            f.precision = g.precision = (lki_precision)p;
            f.tolerance = g.tolerance = near[p];
            slot_source(&f, LK_F32, x, slot_numbers(LK_F32, &x, false));
            slot_source(&f, LK_F32, w, slot_numbers(LK_F32, &w, false));
            slot_result(&f, LK_F32, y, NULL);
            slot_check(&f);
            slot_source(&g, LK_F32, x, slot_numbers(LK_F32, &x, false));
            slot_source(&g, LK_F32, y, slot_numbers(LK_F32, &y, false));
            slot_result(&g, LK_F32, w, NULL);
            slot_lanes(&g, 4, s->images);
            slot_check(&g);
        }
}

TESTS(cmocka_unit_test(test_conv2d), cmocka_unit_test(test_grad_x), cmocka_unit_test(test_pool_grad_x),
      cmocka_unit_test(test_grad_w), cmocka_unit_test(test_pool_grad_w), cmocka_unit_test(test_pool_grad_w_relu),
      cmocka_unit_test(test_many_weights), cmocka_unit_test(test_precisions))
