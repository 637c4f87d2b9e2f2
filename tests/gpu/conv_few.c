/* Convolutions with few weights per out channel on a GPU (kernel/gpu/conv/conv_few.h). Forward: near sums in f64 of factors that
 * are rounded as the precision says, near the reference for extreme numbers, and equal to it for very few weights. The gradient for
 * the weights and the bias: in the order that kernel/gpu/conv/conv_few_grad.cu defines, computed here again in plain loops, and
 * near the reference's. */
#include "slots.h"

enum { THREADS = 128, UNIT = 4, TURNS_POOLED = 8, TURNS = 4, IMAGES = 32, PARTS = 128 };

typedef struct shape {
    int64_t images, IH, IW, C, K, O, pad, more; /* more: cells after the image beyond pad */
} shape;

static lk_shape image_of(const shape *s) { return (lk_shape){4, {s->images, s->IH, s->IW, s->C}}; }
static lk_shape weights_of(const shape *s) { return (lk_shape){4, {s->K, s->K, s->C, s->O}}; }
static lk_shape outputs_of(const shape *s, int64_t cells)
{
    const int64_t more = 2 * s->pad + s->more - s->K + 1;
    return (lk_shape){4, {s->images, (s->IH + more) / cells, (s->IW + more) / cells, s->O}};
}

static slot_case case_of(lki_slot slot, const shape *s)
{
    slot_case c = {.slot = slot, .dtype = LK_F32};
    c.attr.window = (lki_window){{s->K, s->K}, {1, 1}, {1, 1}, {s->pad, s->pad}};
    return c;
}

static const shape shapes[] = {
    {2, 28, 28, 1, 3, 32, 0, 0}, {1, 32, 32, 3, 3, 32, 1, 0},
    {1, 28, 28, 1, 5, 32, 0, 0}, /* as networks have them */
    {2, 12, 11, 3, 3, 64, 0, 0}, {2, 9, 13, 1, 5, 16, 2, 0},
    {1, 7, 6, 1, 3, 96, 1, 1}, /* several groups of channels, or half of one */
    {4, 5, 5, 1, 3, 4, 0, 0},    {3, 7, 6, 3, 3, 5, 1, 0},
    {5, 9, 9, 1, 5, 6, 2, 1}, /* channels that are not a multiple of a quad */
    {2, 6, 7, 1, 3, 33, 1, 0},   {2, 3, 3, 1, 3, 8, 0, 0},
    {2, 2, 2, 3, 3, 8, 1, 0}, /* one window; one output */
    {0, 8, 8, 1, 3, 8, 0, 0},    {2, 8, 8, 3, 3, 0, 1, 0},
    {1, 8, 150, 3, 3, 32, 1, 0}, /* nothing; wide */
    {1, 70, 9, 1, 3, 8, 0, 0},   {1, 1, 1, 3, 3, 8, 1, 0},
    {37, 6, 6, 1, 3, 8, 0, 0}, /* tall; no window of a pool; many images */
};
enum { SHAPES = sizeof shapes / sizeof shapes[0] };

/* A factor as a precision rounds it: 10 or 7 bits after the point. */
static double seen(float x, lki_precision p)
{
    uint32_t u;
    if (p == LKI_PRECISION_TF32) x *= 0x1.0016p0f; /* tf32() of mma.h; bits after the tenth are truncated */
    memcpy(&u, &x, sizeof u);
    if (p == LKI_PRECISION_TF32) u &= 0xffffe000u;
    if (p == LKI_PRECISION_BF16) u = (u + 0x7fffu + (u >> 16 & 1)) & 0xffff0000u;
    memcpy(&x, &u, sizeof u);
    return x;
}

/* Output (h, w) of image n in f64, after bias and relu. The last weights, fewer than eight, are not rounded. */
static double output_of(const slot_case *c, const shape *s, int64_t n, int64_t h, int64_t w, int64_t o)
{
    const float  *x = c->src_data[0], *weights = c->src_data[1];
    const int64_t all = s->K * s->K * s->C;
    double        sum = 0;
    for (int64_t k = 0; k < all; k++) {
        const int64_t       row = h + k / s->C / s->K - s->pad, column = w + k / s->C % s->K - s->pad;
        const lki_precision p = k < all / 8 * 8 ? c->precision : LKI_PRECISION_F32;
        if (row < 0 || row >= s->IH || column < 0 || column >= s->IW) continue;
        sum += seen(x[((n * s->IH + row) * s->IW + column) * s->C + k % s->C], p) * seen(weights[k * s->O + o], p);
    }
    if (c->attr.epilogue.bias) sum += ((const float *)c->src_data[2])[o];
    return c->attr.epilogue.relu && sum < 0 ? 0 : sum;
}

/* Each result is one of its window's largest outputs, or the output itself. */
static void check_outputs(slot_case *c, const shape *s)
{
    const double  near = 3e-6 * sqrt((double)(s->K * s->K * s->C));
    const int64_t cells = c->ndst > 1 ? 4 : 1, each = c->ndst > 1 ? 2 : 1;
    void         *gpu[2] = {NULL, NULL}, *untouched[2] = {NULL, NULL};
    for (int i = 0; i < c->ndst; i++)
        gpu[i] = slot_start(c, i), untouched[i] = slot_start(c, i);
    slot_on_gpu(c, gpu);
    for (int64_t i = 0; i < lki_shape_size(&c->dst[0]); i++) {
        const int64_t o = i % s->O, W = c->dst[0].dim[2], H = c->dst[0].dim[1], w = i / s->O % W, h = i / s->O / W % H,
                      n = i / s->O / W / H;
        const double value = ((float *)gpu[0])[i];
        const int    place = cells > 1 ? ((uint8_t *)gpu[1])[i] : 0;
        double       y[4], best = -INFINITY;
        for (int64_t k = 0; k < cells; k++)
            best = fmax(best, y[k] = output_of(c, s, n, each * h + k / 2, each * w + k % 2, o));
        if (place < cells && fabs(value - best) <= near && fabs(y[place] - best) <= near) continue;
        fail_msg("precision %d, image %d, output (%d, %d), channel %d: %.9g of cell %d, not %.9g", (int)c->precision, (int)n,
                 (int)h, (int)w, (int)o, value, place, best);
    }
    for (int i = 0; i < c->ndst; i++) {
        const size_t size = (size_t)lki_shape_size(&c->dst[i]) * lk_dtype_bytes(c->dst_type[i]);
        assert_memory_equal((char *)gpu[i] + size, (char *)untouched[i] + size, SLOT_GUARD);
        free(gpu[i]);
        free(untouched[i]);
    }
}

/* bits: bias, relu, pool. */
static slot_case forward_case(const shape *s, int bits, lki_precision precision)
{
    const int      pool = bits >> 2 & 1;
    slot_case      c = case_of(LKI_K_conv2d, s);
    const lk_shape x = image_of(s), w = weights_of(s), y = outputs_of(s, pool ? 2 : 1), bias = {1, {s->O}};
    c.precision = precision;
    c.attr.epilogue = (lki_epilogue){.bias = bits & 1, .relu = bits >> 1 & 1, .pool = pool};
    slot_source(&c, LK_F32, x, slot_numbers(LK_F32, &x, false));
    slot_source(&c, LK_F32, w, slot_numbers(LK_F32, &w, false));
    if (bits & 1) slot_source(&c, LK_F32, bias, slot_numbers(LK_F32, &bias, false));
    slot_result(&c, LK_F32, y, NULL);
    if (pool) slot_result(&c, LK_U8, y, NULL);
    return c;
}

static void check_forward(const shape *s, int bits, lki_precision precision)
{
    slot_case c = forward_case(s, bits, precision);
    check_outputs(&c, s);
    for (int i = 0; i < c.nsrc; i++)
        free(c.src_data[i]);
}

TEST(test_conv2d)
{
    for (int i = 0; i < SHAPES; i++)
        for (int bits = 0; bits < 8; bits++)
            check_forward(&shapes[i], bits, LKI_PRECISION_F32);
}

TEST(test_precisions)
{
    for (int i = 0; i < SHAPES; i++)
        for (int bits = 0; bits < 2; bits++) {
            check_forward(&shapes[i], i % 2 ? 7 * bits : 3 + 2 * bits, LKI_PRECISION_TF32);
            check_forward(&shapes[i], i % 2 ? 3 + 2 * bits : 7 * bits, LKI_PRECISION_BF16);
        }
}

/* Up to nine weights: the reference's numbers, and its choices in a pool. */
TEST(test_plain)
{
    for (int i = 0; i < SHAPES; i++)
        for (int bits = 0; bits < 8 && shapes[i].K * shapes[i].K * shapes[i].C <= 9; bits++) {
            slot_case c = forward_case(&shapes[i], bits, LKI_PRECISION_F32);
            c.tolerance = 1e-30; /* the sign of a zero may differ */
            slot_check(&c);
        }
}

/* Infinities, and numbers that are none. Without a pool: among numbers that are nearly equal another cell may win. Without padding:
 * outside the image zeros meet the weights here. */
TEST(test_wild)
{
    for (int i = 0; i < SHAPES; i++)
        for (int bits = 0; bits < 4; bits++) {
            const shape   *s = &shapes[i];
            slot_case      c = case_of(LKI_K_conv2d, s);
            const lk_shape x = image_of(s), w = weights_of(s), y = outputs_of(s, 1), bias = {1, {s->O}};
            if (s->pad || s->more) continue;
            c.attr.epilogue = (lki_epilogue){.bias = bits & 1, .relu = bits >> 1 & 1};
            slot_source(&c, LK_F32, x, slot_numbers(LK_F32, &x, true));
            slot_source(&c, LK_F32, w, slot_numbers(LK_F32, &w, true));
            if (bits & 1) slot_source(&c, LK_F32, bias, slot_numbers(LK_F32, &bias, true));
            slot_result(&c, LK_F32, y, NULL);
            c.tolerance = 1e-6;
            slot_check(&c);
        }
}

/* A window all of whose outputs are zeros, ones, infinities or not numbers, of both signs: which cell wins. */
TEST(test_pool_ties)
{
    static const float numbers[] = {0, -0.0f, 1, -1, INFINITY, -INFINITY, NAN};
    for (int bits = 0; bits < 8; bits++) {
        const shape    s = {49 * 49, 4, 4, 1, 3, 4, 0, 0};
        slot_case      c = case_of(LKI_K_conv2d, &s);
        const lk_shape x = image_of(&s), w = weights_of(&s), y = outputs_of(&s, 2), bias = {1, {s.O}};
        float         *image = slot_numbers(LK_F32, &x, false), *weights = slot_numbers(LK_F32, &w, false);
        for (int64_t i = 0; i < s.images; i++)
            for (int at = 0; at < 16; at++)
                image[16 * i + at] = at % 4 < 2 && at / 4 < 2 ? numbers[i / (at / 4 ? at % 4 ? 343 : 49 : at % 4 ? 7 : 1) % 7] : 0;
        for (int k = 0; k < 9 * 4; k++)
            weights[k] = k < 4 ? (k % 2 ? -1.0f : 1.0f) : 0;
        c.precision = bits & 4 ? LKI_PRECISION_TF32 : LKI_PRECISION_F32;
        c.tolerance = 1e-30; /* the sign of a zero may differ */
        c.attr.epilogue = (lki_epilogue){.bias = bits & 1, .relu = bits >> 1 & 1, .pool = 1};
        slot_source(&c, LK_F32, x, image);
        slot_source(&c, LK_F32, w, weights);
        if (bits & 1) slot_source(&c, LK_F32, bias, slot_numbers(LK_F32, &bias, false));
        slot_result(&c, LK_F32, y, NULL);
        slot_result(&c, LK_U8, y, NULL);
        slot_check(&c);
    }
}

/* ---- weights ---- */

typedef struct order { /* what the shapes of an image and the weights tell */
    int64_t H, W, across, strands, rows, bands;
    bool    pooled;
} order;

static order order_of(const slot_case *c, const shape *s)
{
    order   o = {.H = c->src[1].dim[1], .W = c->src[1].dim[2], .pooled = c->slot == LKI_K_conv2d_pool_grad_w};
    int64_t quads = 1;
    while (4 * quads < s->O && quads < 8)
        quads *= 2;
    o.strands = THREADS / quads;
    o.across = o.pooled ? o.W : lki_ceil_div(o.W, UNIT);
    o.rows = lki_max(1, lki_ceil_div(o.H, lki_max(1, lki_ceil_div(o.H * o.across, (o.pooled ? TURNS_POOLED : TURNS) * o.strands))));
    o.bands = o.across ? lki_ceil_div(o.H, o.rows) : 0;
    return o;
}

/* Up the tree: pairs of neighbours, pairs of those; one without a neighbour moves up as it is. */
static float tree(float *sum, int64_t count)
{
    for (int64_t step = 1; step < count; step *= 2)
        for (int64_t i = 0; i + step < count; i += 2 * step)
            sum[i] = sum[i] + sum[i + step];
    return count ? sum[0] : 0;
}

/* One output of the gradient, or a window's winner. weight[0] is -1: for the bias. */
static float add(const slot_case *c, const shape *s, const order *o, const int64_t *weight, int64_t n, int64_t row, int64_t column,
                 float acc)
{
    const int64_t at = ((n * o->H + row) * o->W + column) * s->O + weight[3];
    const int     place = o->pooled ? ((const uint8_t *)c->src_data[2])[at] : 0, each = o->pooled ? 2 : 1;
    const int64_t h = each * row + place / 2 - s->pad + weight[0], w = each * column + place % 2 - s->pad + weight[1];
    if (o->pooled && c->attr.epilogue.relu && !(((const float *)c->src_data[3])[at] > 0)) return acc;
    if (weight[0] < 0) return acc + ((const float *)c->src_data[1])[at];
    if (h < 0 || h >= s->IH || w < 0 || w >= s->IW) return acc;
    return fmaf(((const float *)c->src_data[0])[((n * s->IH + h) * s->IW + w) * s->C + weight[2]],
                ((const float *)c->src_data[1])[at], acc);
}

static float part_of(const slot_case *c, const shape *s, const order *o, const int64_t *weight, int64_t from, int64_t to,
                     int64_t band)
{
    const int64_t top = band * o->rows, units = (lki_min(o->H, top + o->rows) - top) * o->across, wide = o->pooled ? 1 : UNIT;
    float         strand[THREADS] = {0};
    for (int64_t n = from; n < to; n++)
        for (int64_t u = 0; u < units; u++)
            for (int64_t i = 0; i < wide && u % o->across * wide + i < o->W; i++)
                strand[u % o->strands] =
                    add(c, s, o, weight, n, top + u / o->across, u % o->across * wide + i, strand[u % o->strands]);
    return tree(strand, o->strands);
}

static float lane_of(const slot_case *c, const shape *s, const order *o, const int64_t *weight, int64_t from, int64_t to)
{
    const int64_t sets = lki_max(1, PARTS / lki_max(1, o->bands)),
                  each = lki_max(1, lki_min(IMAGES, lki_ceil_div(to - from, sets)));
    float  *parts = calloc((size_t)((to - from + 1) * (o->bands + 1)), sizeof *parts);
    int64_t count = 0;
    for (int64_t n = from; n < to; n += each)
        for (int64_t band = 0; band < o->bands; band++)
            parts[count++] = part_of(c, s, o, weight, n, lki_min(to, n + each), band);
    const float sum = tree(parts, count);
    free(parts);
    return sum;
}

static void in_order(const slot_case *c, const shape *s, int result, float *out)
{
    const order   o = order_of(c, s);
    const int64_t whole[2] = {0, s->images}, *bound = c->lanes ? c->bound : whole;
    const int     lanes = c->lanes ? c->lanes : 1;
    for (int64_t i = 0; i < lki_shape_size(&c->dst[result]); i++) {
        const int64_t weight[4] = {result ? -1 : i / s->O / s->C / s->K, i / s->O / s->C % s->K, i / s->O % s->C, i % s->O};
        float         sum[SLOT_LANES];
        for (int l = 0; l < lanes; l++)
            sum[l] = lane_of(c, s, &o, weight, bound[l], bound[l + 1]);
        out[i] = tree(sum, lanes);
    }
}

/* A gradient of which much is zero, and the winners' cells. */
static void pooled_sources(slot_case *c, const lk_shape *p)
{
    float *d = slot_numbers(LK_F32, p, false);
    for (int64_t i = 0; i < lki_shape_size(p); i++)
        if (slot_below(3) == 0) d[i] = 0;
    slot_source(c, LK_F32, *p, d);
    slot_source(c, LK_U8, *p, slot_integers(LK_U8, p, 0, 4));
}

static void check_grad_w(const shape *s, int lanes, bool pooled, int relu)
{
    slot_case      c = case_of(pooled ? LKI_K_conv2d_pool_grad_w : LKI_K_conv2d_grad_w, s);
    const lk_shape x = image_of(s), w = weights_of(s), y = outputs_of(s, pooled ? 2 : 1);
    c.attr.epilogue.relu = relu;
    slot_source(&c, LK_F32, x, slot_numbers(LK_F32, &x, false));
    if (pooled) pooled_sources(&c, &y);
    else slot_source(&c, LK_F32, y, slot_numbers(LK_F32, &y, false));
    if (relu) slot_source(&c, LK_F32, y, slot_numbers(LK_F32, &y, true));
    slot_result(&c, LK_F32, w, NULL);
    if (pooled) slot_result(&c, LK_F32, (lk_shape){1, {s->O}}, NULL);
    c.attr.epilogue.bias = pooled;
    if (lanes) slot_lanes(&c, lanes, s->images);
    void *gpu[2];
    for (int i = 0; i < c.ndst; i++)
        gpu[i] = slot_start(&c, i);
    slot_on_gpu(&c, gpu);
    for (int i = 0; i < c.ndst; i++) {
        void *mine = slot_start(&c, i);
        in_order(&c, s, i, mine);
        slot_compare(&c, i, mine, gpu[i]);
        free(mine);
        free(gpu[i]);
    }
    c.ndst = 1; /* the reference has no second result */
    c.attr.epilogue.bias = 0;
    c.tolerance = 1e-5;
    slot_check(&c);
}

static void check_all(bool pooled, int relu)
{
    static const int lanes[2][2] = {{0, 4}, {1, 64}};
    for (int i = 0; i < SHAPES; i++)
        for (int l = 0; l < 2; l++)
            check_grad_w(&shapes[i], lanes[i % 2][l], pooled, relu);
}

TEST(test_grad_w) { check_all(false, 0); }
TEST(test_pool_grad_w) { check_all(true, 0); }
TEST(test_pool_grad_w_relu) { check_all(true, 1); }

/* As many images as give parts several, and lanes many parts. */
TEST(test_many_images)
{
    static const shape many[] = {
        {530, 4, 4, 1, 3, 8, 0, 0}, {130, 18, 36, 1, 3, 32, 0, 0}, {270, 4, 4, 3, 3, 32, 0, 0}, {8300, 4, 4, 1, 3, 8, 0, 0}};
    for (size_t i = 0; i < sizeof many / sizeof many[0]; i++) {
        if (i != 1) check_grad_w(&many[i], i ? 0 : 2, false, 0);
        if (i != 3) check_grad_w(&many[i], 0, true, 1);
    }
}

TESTS(cmocka_unit_test(test_conv2d), cmocka_unit_test(test_precisions), cmocka_unit_test(test_plain), cmocka_unit_test(test_wild),
      cmocka_unit_test(test_pool_ties), cmocka_unit_test(test_grad_w), cmocka_unit_test(test_pool_grad_w),
      cmocka_unit_test(test_pool_grad_w_relu), cmocka_unit_test(test_many_images))
