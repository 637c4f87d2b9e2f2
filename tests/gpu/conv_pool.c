/* Gradients of convolutions through a max pool on a GPU, entry by entry (kernel/gpu/conv/conv_pool.h): in the orders that
 * conv_pool_w.cu and conv_pool_x.cu define, computed here again in plain loops, and near the reference's. Those for weights also in
 * TF32, on tensor cores (patch_pool_w.cu, fragment_w.cu): with integers, which rounding does not change and whose sums are the same
 * in any order. */
#include "slots.h"

enum { STRANDS = 2, UNIT = 4, WORKERS = 8, PARTS = 32, IMAGES = 32, WEIGHTS = 9 * 32 * 64 };

typedef struct shape {
    int64_t images, IH, IW, C, O, pad, more; /* more: cells after the image beyond pad */
} shape;

static const shape shapes[] = {
    {3, 13, 13, 32, 64, 0, 0}, {2, 8, 8, 32, 32, 1, 0}, {2, 6, 10, 16, 8, 0, 0},   {2, 9, 7, 36, 40, 1, 1},
    {1, 6, 6, 64, 24, 2, 0},   {5, 4, 4, 20, 8, 0, 0},  {1, 16, 18, 16, 16, 0, 0}, {40, 4, 5, 16, 16, 1, 0},
    {0, 6, 6, 32, 32, 0, 0},   {2, 3, 3, 32, 8, 0, 0},  {300, 4, 4, 16, 8, 0, 0},
};
enum { SHAPES = sizeof shapes / sizeof shapes[0] };

static lk_shape image_of(const shape *s) { return (lk_shape){4, {s->images, s->IH, s->IW, s->C}}; }
static lk_shape weights_of(const shape *s) { return (lk_shape){4, {3, 3, s->C, s->O}}; }
static lk_shape pooled_of(const shape *s)
{
    const int64_t more = 2 * s->pad + s->more - 2;
    return (lk_shape){4, {s->images, (s->IH + more) / 2, (s->IW + more) / 2, s->O}};
}

/* What a case's entries are, wherever they lie among its sources. */
typedef struct entries {
    const float   *d, *y;
    const uint8_t *cell;
    int64_t        PH, PW;
} entries;

static bool live(const entries *e, int64_t at) { return e->d[at] != 0 && (!e->y || e->y[at] > 0); }

static float *numbers_of(const slot_case *c, const lk_shape *s)
{
    return c->precision == LKI_PRECISION_F32 ? slot_numbers(LK_F32, s, false) : slot_integers(LK_F32, s, -4, 5);
}

static entries pooled_sources(slot_case *c, const shape *s)
{
    const lk_shape p = pooled_of(s);
    float         *d = numbers_of(c, &p);
    uint8_t       *cell = slot_integers(LK_U8, &p, 0, 4);
    for (int64_t i = 0; i < lki_shape_size(&p); i++)
        if (slot_below(3) == 0) d[i] = 0;
    slot_source(c, LK_F32, p, d);
    slot_source(c, LK_U8, p, cell);
    return (entries){d, NULL, cell, p.dim[1], p.dim[2]};
}

static slot_case case_of(lki_slot slot, const shape *s, int relu)
{
    slot_case c = {.slot = slot, .dtype = LK_F32};
    c.attr.window = (lki_window){{3, 3}, {1, 1}, {1, 1}, {s->pad, s->pad}};
    c.attr.epilogue.relu = relu;
    return c;
}

/* mine: of each result. */
static void compare_on_gpu(slot_case *c, float *const *mine)
{
    void *gpu[2];
    for (int i = 0; i < c->ndst; i++)
        gpu[i] = slot_start(c, i);
    slot_on_gpu(c, gpu);
    for (int i = 0; i < c->ndst; i++) {
        void *wanted = slot_start(c, i);
        memcpy(wanted, mine[i], (size_t)lki_shape_size(&c->dst[i]) * sizeof **mine);
        slot_compare(c, i, wanted, gpu[i]);
        free(gpu[i]);
        free(wanted);
    }
}

/* The same where cells say what relu cut off, and y does not. */
static void compare_marked(slot_case *c, float *const *mine)
{
    uint8_t      *cell = c->src_data[c->slot == LKI_K_conv2d_pool_grad_x ? 1 : 2];
    float        *y = c->src_data[3];
    const int64_t n = lki_shape_size(&c->src[3]);
    float        *kept = memcpy(malloc((size_t)n * sizeof *y + 1), y, (size_t)n * sizeof *y);
    for (int64_t i = 0; i < n; i++)
        cell[i] |= y[i] > 0 ? 0 : LKI_CELL_DEAD, y[i] = 1;
    c->attr.epilogue.marks = 1;
    compare_on_gpu(c, mine);
    c->attr.epilogue.marks = 0;
    for (int64_t i = 0; i < n; i++)
        cell[i] &= 3;
    memcpy(y, kept, (size_t)n * sizeof *y);
    free(kept);
}

static void check(slot_case *c, float *const *mine)
{
    compare_on_gpu(c, mine);
    if (c->attr.epilogue.relu) compare_marked(c, mine);
    c->ndst = 1; /* the reference has no second result */
    c->attr.epilogue.bias = 0;
    c->tolerance = 1e-5;
    slot_check(c);
}

/* ---- for x ---- */

/* Cell (h, w) of window p: one chain over the out channels from <= o < to. */
static float seen(const entries *e, const shape *s, const float *w, int64_t n, int64_t p, int64_t h, int64_t v, int64_t c,
                  int64_t from, int64_t to)
{
    float acc = 0;
    for (int64_t o = from; o < to; o++) {
        const int64_t at = (n * e->PH * e->PW + p) * s->O + o, kh = h - e->cell[at] / 2, kw = v - e->cell[at] % 2;
        if (live(e, at) && kh >= 0 && kh < 3 && kw >= 0 && kw < 3)
            acc = fmaf(w[((kh * 3 + kw) * s->C + c) * s->O + o], e->d[at], acc);
    }
    return acc;
}

static void x_in_order(const entries *e, const shape *s, const float *w, float *dx)
{
    const int64_t each = lki_ceil_div(s->O / 8, STRANDS) * 8, units = lki_ceil_div(e->PH * e->PW, UNIT),
                  turns = lki_ceil_div(units, WORKERS);
    for (int64_t i = 0; i < s->images * s->IH * s->IW * s->C; i++) {
        const int64_t c = i % s->C, column = i / s->C % s->IW + s->pad, row = i / s->C / s->IW % s->IH + s->pad,
                      n = i / s->C / s->IW / s->IH;
        float sum[STRANDS] = {0};
        for (int strand = 0; strand < STRANDS; strand++)
            for (int64_t step = 0; step < 4 * turns; step++) /* turns, and their colours */
                for (int64_t p = 0; p < e->PH * e->PW; p++) {
                    const int64_t h = row - 2 * (p / e->PW), v = column - 2 * (p % e->PW);
                    const int64_t colour = p / e->PW % 2 * 2 + p % e->PW % 2, turn = p / UNIT / lki_ceil_div(units, turns);
                    if (h < 0 || h > 3 || v < 0 || v > 3 || turn * 4 + colour != step) continue;
                    sum[strand] = sum[strand] +
                                  seen(e, s, w, n, p, h, v, c, lki_min(s->O, strand * each), lki_min(s->O, (strand + 1) * each));
                }
        dx[i] = sum[0] + sum[1];
    }
}

static void check_x(const shape *s, int relu)
{
    slot_case      c = case_of(LKI_K_conv2d_pool_grad_x, s, relu);
    const lk_shape x = image_of(s), w = weights_of(s), p = pooled_of(s);
    entries        e = pooled_sources(&c, s);
    float         *weights = slot_numbers(LK_F32, &w, false), *mine = slot_room(LK_F32, &x);
    slot_source(&c, LK_F32, w, weights);
    if (relu) slot_source(&c, LK_F32, p, slot_numbers(LK_F32, &p, true));
    if (relu) e.y = c.src_data[3];
    slot_result(&c, LK_F32, x, NULL);
    x_in_order(&e, s, weights, mine);
    check(&c, &mine);
    free(mine);
}

TEST(test_x)
{
    for (int i = 0; i < SHAPES; i++)
        check_x(&shapes[i], i % 2);
    check_x(&shapes[0], 1);
}

/* ---- for the weights ---- */

static float tree(float *sum, int64_t count)
{
    for (int64_t step = 1; step < count; step *= 2)
        for (int64_t i = 0; i + step < count; i += 2 * step)
            sum[i] = sum[i] + sum[i + step];
    return count ? sum[0] : 0;
}

/* weight[0] is -1: for the bias. */
static float part_of(const entries *e, const shape *s, const float *x, const int64_t *weight, int64_t from, int64_t to)
{
    float sum[STRANDS] = {0};
    for (int64_t n = from; n < to; n++)
        for (int64_t p = 0; p < e->PH * e->PW; p++) {
            const int64_t at = (n * e->PH * e->PW + p) * s->O + weight[3];
            const int64_t h = 2 * (p / e->PW) + e->cell[at] / 2 + weight[0] - s->pad,
                          v = 2 * (p % e->PW) + e->cell[at] % 2 + weight[1] - s->pad;
            if (live(e, at) && weight[0] < 0) sum[p % STRANDS] = sum[p % STRANDS] + e->d[at];
            else if (live(e, at) && h >= 0 && h < s->IH && v >= 0 && v < s->IW)
                sum[p % STRANDS] = fmaf(x[((n * s->IH + h) * s->IW + v) * s->C + weight[2]], e->d[at], sum[p % STRANDS]);
        }
    return tree(sum, STRANDS);
}

static float lane_of(const entries *e, const shape *s, const float *x, const int64_t *weight, int64_t from, int64_t to)
{
    const int64_t weights = 9 * s->C * s->O, parts = lki_max(1, PARTS * WEIGHTS / lki_max(WEIGHTS, weights)),
                  most = IMAGES * lki_max(1, weights / WEIGHTS);
    const int64_t each = lki_max(1, lki_min(most, lki_ceil_div(to - from, parts)));
    float        *part = calloc((size_t)(to - from + 1), sizeof *part);
    int64_t       count = 0;
    for (int64_t n = from; n < to; n += each)
        part[count++] = part_of(e, s, x, weight, n, lki_min(to, n + each));
    const float sum = tree(part, count);
    free(part);
    return sum;
}

static void check_w(const shape *s, int lanes, int relu, lki_precision precision)
{
    slot_case      c = case_of(LKI_K_conv2d_pool_grad_w, s, relu);
    const lk_shape x = image_of(s), w = weights_of(s), p = pooled_of(s), b = {1, {s->O}};
    c.precision = precision;
    float *image = numbers_of(&c, &x), *mine[2] = {slot_room(LK_F32, &w), slot_room(LK_F32, &b)};
    slot_source(&c, LK_F32, x, image);
    entries e = pooled_sources(&c, s);
    if (relu) slot_source(&c, LK_F32, p, slot_numbers(LK_F32, &p, true));
    if (relu) e.y = c.src_data[3];
    slot_result(&c, LK_F32, w, NULL);
    slot_result(&c, LK_F32, b, NULL);
    c.attr.epilogue.bias = 1;
    if (lanes) slot_lanes(&c, lanes, s->images);
    const int64_t whole[2] = {0, s->images}, *bound = lanes ? c.bound : whole, weights = lki_shape_size(&w);
    for (int64_t i = 0; i < weights + s->O; i++) {
        const int64_t weight[4] = {i < weights ? i / s->O / s->C / 3 : -1, i / s->O / s->C % 3, i / s->O % s->C, i % s->O};
        float         sum[SLOT_LANES];
        for (int l = 0; l < lki_max(lanes, 1); l++)
            sum[l] = lane_of(&e, s, image, weight, bound[l], bound[l + 1]);
        mine[i >= weights][i < weights ? i : i - weights] = tree(sum, lki_max(lanes, 1));
    }
    check(&c, mine);
    free(mine[0]);
    free(mine[1]);
}

TEST(test_w)
{
    static const int lanes[] = {0, 4, 1, 64};
    for (int i = 0; i < SHAPES; i++)
        check_w(&shapes[i], lanes[i % 4], i % 2, LKI_PRECISION_F32);
    check_w(&shapes[0], 2, 1, LKI_PRECISION_F32);
    check_w(&(shape){2, 6, 6, 64, 48, 1, 0}, 2, 1, LKI_PRECISION_F32); /* weights of which fewer parts are made */
}

TEST(test_w_in_tf32)
{
    static const shape many[] = {
        {37, 13, 13, 32, 64, 0, 0}, /* lanes whose number of images is not a multiple of four; with y, pieces */
        {16, 5, 6, 36, 72, 1, 0},   /* blocks side by side that are not full */
        {90, 4, 4, 20, 40, 0, 0},   /* a single window */
        {17, 15, 9, 32, 64, 1, 0},  /* pieces of which the last is smaller */
        {150, 4, 6, 64, 48, 2, 1},
    };
    static const int lanes[] = {2, 0, 4, 1, 4};
    for (int i = 0; i < LKI_COUNT(many); i++)
        for (int relu = 0; relu < 2; relu++)
            check_w(&many[i], lanes[i], relu, LKI_PRECISION_TF32);
    for (int i = 0; i < SHAPES; i++)
        check_w(&shapes[i], i % 3, i % 2, LKI_PRECISION_TF32); /* few images */
}

/* A dead entry is left out: what it would have met need not be finite. */
TEST(test_dead_entries)
{
    const shape s = {2, 6, 6, 32, 16, 1, 0};
    for (int of_x = 0; of_x < 2; of_x++) {
        slot_case      c = case_of(of_x ? LKI_K_conv2d_pool_grad_x : LKI_K_conv2d_pool_grad_w, &s, 0);
        const lk_shape x = image_of(&s), w = weights_of(&s);
        void          *other = slot_numbers(LK_F32, of_x ? &w : &x, false);
        for (int64_t i = 0; i < lki_shape_size(of_x ? &w : &x); i += 7)
            ((float *)other)[i] = INFINITY;
        if (!of_x) slot_source(&c, LK_F32, x, other);
        const entries e = pooled_sources(&c, &s);
        memset((float *)e.d, 0, (size_t)(s.images * e.PH * e.PW * s.O) * sizeof(float));
        if (of_x) slot_source(&c, LK_F32, w, other);
        slot_result(&c, LK_F32, of_x ? x : w, NULL);
        slot_check(&c);
    }
}

TESTS(cmocka_unit_test(test_x), cmocka_unit_test(test_w), cmocka_unit_test(test_w_in_tf32), cmocka_unit_test(test_dead_entries))
