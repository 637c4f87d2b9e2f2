/* Convolutions and their gradients on a GPU against the reference: the same bits, but where the CPU's order is WINOGRAD, and for f32 weight gradients, whose order is the
 * GPU's own (kernel/gpu/conv_grad.cu) and is computed here again. */
#include "kernel/winograd.h"
#include "slots.h"

enum { SHORT = 256, SPREAD = 64 };

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
    slot_case      c = {.slot = slot, .dtype = t};
    const lk_shape x = image_of(s), w = weights_of(s);
    c.attr.window = window_of(s);
    if (t == LK_F32 && lki_is_winograd(&c.attr.window, &x, &w)) c.tolerance = 1e-5;
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
    const bool     wild = s->pad == 0 && s->more == 0 && !(c.tolerance > 0);
    c.attr.epilogue = (lki_epilogue){bits & 1, bits >> 1 & 1, pool};
    slot_source(&c, t, x, slot_numbers(t, &x, wild));
    slot_source(&c, t, w, slot_numbers(t, &w, wild));
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
    c.tolerance = 0;
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

/* The outputs of images from <= n < to, one chain; dy through a pool where there are cells. */
static float chain(const slot_case *c, const shape *s, int64_t tap, int64_t i, int64_t o, int64_t from, int64_t to)
{
    const bool     pooled = c->slot == LKI_K_conv2d_pool_grad_w;
    const float   *x = c->src_data[0], *d = c->src_data[1], *y = pooled && c->attr.epilogue.relu ? c->src_data[3] : NULL;
    const uint8_t *cell = pooled ? c->src_data[2] : NULL;
    const int64_t  H = c->src[1].dim[1], W = c->src[1].dim[2];
    float          acc = 0;
    for (int64_t e = from * H * W; e < to * H * W; e++) {
        const int64_t at = e * s->O + o, n = e / W / H, place = pooled ? cell[at] : 0, each = pooled ? 2 : 1;
        const int64_t h = (each * (e / W % H) + place / 2) * s->stride - s->pad + tap / s->KW * s->dilation;
        const int64_t w = (each * (e % W) + place % 2) * s->stride - s->pad + tap % s->KW * s->dilation;
        if (h < 0 || h >= s->IH || w < 0 || w >= s->IW || (y && !(y[at] > 0))) continue;
        acc = fmaf(x[((n * s->IH + h) * s->IW + w) * s->C + i], d[at], acc);
    }
    return acc;
}

static void by_parts(const slot_case *c, const shape *s, float *dw)
{
    const int64_t  positions = lki_max(c->src[1].dim[1] * c->src[1].dim[2] * (c->slot == LKI_K_conv2d_pool_grad_w ? 4 : 1), 1);
    const int64_t  each = lki_ceil_div(lki_max(SHORT, lki_shape_size(&c->dst[0]) / SPREAD), positions), whole[2] = {0, s->images};
    const int      lanes = c->lanes ? c->lanes : 1;
    const int64_t *bound = c->lanes ? c->bound : whole;
    for (int64_t i = 0; i < lki_shape_size(&c->dst[0]); i++) {
        float sum[SLOT_LANES] = {0};
        for (int l = 0; l < lanes; l++)
            for (int64_t n = bound[l]; n < bound[l + 1]; n += each) {
                const float part = chain(c, s, i / s->O / s->C, i / s->O % s->C, i % s->O, n, lki_min(n + each, bound[l + 1]));
                sum[l] = n > bound[l] ? sum[l] + part : part;
            }
        for (int step = 1; step < lanes; step *= 2)
            for (int l = 0; l < lanes; l += 2 * step)
                sum[l] = sum[l] + sum[l + step];
        dw[i] = sum[0];
    }
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
    if (t == LK_F32) {
        void *mine = slot_start(&c, 0), *gpu = slot_start(&c, 0);
        c.tolerance = 0;
        by_parts(&c, s, mine);
        slot_on_gpu(&c, &gpu);
        slot_compare(&c, 0, mine, gpu);
        free(mine);
        free(gpu);
        c.tolerance = 1e-5;
    }
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

TESTS(cmocka_unit_test(test_conv2d), cmocka_unit_test(test_grad_x), cmocka_unit_test(test_pool_grad_x),
      cmocka_unit_test(test_grad_w), cmocka_unit_test(test_pool_grad_w), cmocka_unit_test(test_pool_grad_w_relu),
      cmocka_unit_test(test_many_weights))
