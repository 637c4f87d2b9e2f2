/* Grouped convolution and its gradients. Result channel q of group g reads only the channels of that group.
 *
 * Every result is one chain of additions in a fixed order. Cells outside the image are left out.
 *
 *     forward           kh, kw, channel of the group
 *     data gradient     output row, output column, out channel of the group; so the taps come in descending order (window.h)
 *     weight gradient   image, output row, output column; a chain for each lane of images, and the tree adds up the lanes
 *
 * There are two ways. Groups of 4 or 8 channels that fill vectors: a vector holds neighbouring result channels of several groups,
 * and each step multiplies it with one channel of each of these groups, which a permutation takes from a vector of source channels.
 * All others: tiles (products.h), group by group, some rows of an image at a time, so that its channels stay in the cache.
 *
 * Weights are packed in blocks, [block, place of the tap (window.h), source channel of the group, result channel of the block]. A
 * block is a vector of result channels, or the part of a group that a tile computes. */
#include "kernel/cpu/products.h"
#include "kernel/cpu/simd.h"
#include "kernel/cpu/transpose.h"
#include "kernel/cpu/window.h"
#include <assert.h>

/* PIXELS: results whose chains run together. BAND: rows of an image that are computed for all groups before the next ones. MOST:
 * channels of a group that are taken by permutations. TAPS: taps whose weight gradients are summed together. */
enum { PIXELS = WIDTH == 16 ? 8 : 4, BAND = 8, MOST = 8, TAPS = 3 };

#define ALWAYS static inline __attribute__((always_inline))

typedef struct grouped {
    int          backward;
    lki_axis     axis[2];
    int64_t      images, SH, SW, SC, DH, DW, DC; /* height, width, channels of the source (S) and the result (D) */
    int64_t      in, out;                        /* channels of a group: of the source, of the result */
    const float *src, *b;
    float       *dst;
} grouped;

/* True if vectors of result channels hold whole groups of as many channels as their sources have. */
static bool spreads(const grouped *v)
{
    return v->in == v->out && (v->in == 4 || v->in == 8) && v->in < WIDTH && v->DC % WIDTH == 0;
}

static int64_t size_of_block(const grouped *v) { return spreads(v) ? WIDTH : lki_min(COLS, v->out); }
static int64_t blocks_of(const grouped *v) { return spreads(v) ? v->DC / WIDTH : v->DC / v->out * lki_ceil_div(v->out, COLS); }
static int64_t steps_of(const grouped *v) { return v->axis[0].size * v->axis[1].size * v->in; }

static bool next_run(const grouped *v, int axis, lki_window_run *r)
{
    return v->backward ? lki_window_run_backward(&v->axis[axis], r)
                       : lki_window_run_forward(&v->axis[axis], r, axis ? v->DW : v->DH);
}

/* ---- weights ---- */

/* The first result channel of a block, and how many it has. */
static int64_t block_at(const grouped *v, int64_t block, int64_t *count)
{
    const int64_t size = size_of_block(v), each = lki_ceil_div(v->out, COLS);
    *count = spreads(v) ? WIDTH : lki_min(size, v->out - block % each * COLS);
    return spreads(v) ? block * WIDTH : block / each * v->out + block % each * COLS;
}

/* One tap of a block. The matrices of a backward tap are transposed. */
static void pack_tap(const grouped *v, const float *w, int64_t t, int64_t first, int64_t count, float *to)
{
    const int64_t size = size_of_block(v);
    for (int64_t i = 0; i < v->in && !v->backward; i++)
        memcpy(to + i * size, w + (t * v->in + i) * v->DC + first, (size_t)count * sizeof *to);
    for (int64_t d = 0; d < count && v->backward; d += v->out) { /* group by group, or a part of one */
        const float *from = w + (t * v->out + (first + d) % v->out) * v->SC + (first + d) / v->out * v->in;
        lki_transpose(from, v->SC, lki_min(count, v->out), v->in, to + d, size);
    }
}

static void pack(grouped *v, const float *w, float *room)
{
    const int64_t KW = v->axis[1].size, taps = v->axis[0].size * KW, tap = v->in * size_of_block(v);
    for (int64_t block = 0; block < blocks_of(v); block++) {
        int64_t       count;
        const int64_t first = block_at(v, block, &count);
        for (int64_t t = 0; t < taps; t++) {
            const int64_t back = lki_tap_place(&v->axis[0], t / KW) * KW + lki_tap_place(&v->axis[1], t % KW);
            pack_tap(v, w, t, first, count, room + (block * taps + (v->backward ? back : t)) * tap);
        }
    }
    v->b = room;
}

/* ---- forward and data gradient ---- */

/* Some rows of one image: results of a row run and a column run. */
typedef struct band {
    const lki_window_run *rows, *cols;
    int64_t               image, y, end; /* rows y <= i < end of the row run */
} band;

static const float *source_at(const grouped *v, const band *a, int64_t y, int64_t x)
{
    return v->src +
           ((a->image * v->SH + a->rows->from + y * a->rows->from_step) * v->SW + a->cols->from + x * a->cols->from_step) * v->SC;
}

static float *result_at(const grouped *v, const band *a, int64_t y, int64_t x)
{
    return v->dst + ((a->image * v->DH + a->rows->at + y * a->rows->step) * v->DW + a->cols->at + x * a->cols->step) * v->DC;
}

/* P results of a vector of channels: reads at x, and `right` floats further for each result. IN: channels of a group. */
ALWAYS void spread(const grouped *v, const band *a, const float *x, const float *b, float *y, int64_t right, int64_t apart,
                   const vi *index, const int P, const int IN)
{
    vf c[PIXELS], s[PIXELS];
#pragma GCC unroll 8
    for (int p = 0; p < P; p++)
        c[p] = vf_zero();
    for (int64_t kh = 0; kh < a->rows->taps; kh++)
        for (int64_t kw = 0; kw < a->cols->taps; kw++) {
            const float *from = x + (kh * a->rows->tap_step * v->SW + kw * a->cols->tap_step) * v->SC;
            const float *w = b + (kh * v->axis[1].size + kw) * IN * WIDTH;
#pragma GCC unroll 8
            for (int p = 0; p < P; p++)
                s[p] = vf_load(from + p * right);
#pragma GCC unroll 8
            for (int i = 0; i < IN; i++) {
                const vf f = vf_load(w + i * WIDTH);
#pragma GCC unroll 8
                for (int p = 0; p < P; p++)
                    c[p] = vf_fma(vf_permute(s[p], index[i]), f, c[p]);
            }
        }
#pragma GCC unroll 8
    for (int p = 0; p < P; p++)
        vf_store(y + p * apart, c[p]);
}

/* Index i takes channel i of each group. */
static void indices_of(int64_t in, vi *index)
{
    for (int64_t i = 0; i < in; i++) {
        int32_t from[WIDTH];
        for (int64_t d = 0; d < WIDTH; d++)
            from[d] = (int32_t)(d / in * in + i);
        index[i] = vi_load(from);
    }
}

ALWAYS void spread_band(const grouped *v, const band *a, int64_t n, const float *b, const vi *index, const int IN)
{
    const int64_t right = a->cols->from_step * v->SC, apart = a->cols->step * v->DC, W = a->cols->count;
    for (int64_t y = a->y; y < a->end; y++) {
        int64_t x = 0;
        for (; x < W && W >= PIXELS; x += PIXELS) { /* the last results may be written twice */
            x = lki_min(x, W - PIXELS);
            spread(v, a, source_at(v, a, y, x) + n, b, result_at(v, a, y, x) + n, right, apart, index, PIXELS, IN);
        }
        for (; x < W; x++)
            spread(v, a, source_at(v, a, y, x) + n, b, result_at(v, a, y, x) + n, right, apart, index, 1, IN);
    }
}

static void tiles_of_band(const grouped *v, const band *a, int64_t block, const float *b)
{
    int64_t       count, done = 0;
    const int64_t first = block_at(v, block, &count), size = size_of_block(v), W = a->cols->count, total = (a->end - a->y) * W;
    const int64_t from = first / v->out * v->in, pieces = lki_even_pieces(total, rows_for(count));
    lki_tile      t = {.b = b,
                       .cols = (int)count,
                       .count = {v->in, a->cols->taps, a->rows->taps},
                       .astep = {1, a->cols->tap_step * v->SC, a->rows->tap_step * v->SW * v->SC},
                       .bstep = {size, v->in * size, v->axis[1].size * v->in * size}};
    for (int64_t p = 0; p < pieces; p++) {
        const int64_t end = lki_even_begin(total, pieces, p + 1);
        for (int64_t i = 0; i < end - done; i++) {
            t.a[i] = source_at(v, a, a->y + (done + i) / W, (done + i) % W) + from;
            t.c[i] = result_at(v, a, a->y + (done + i) / W, (done + i) % W) + first;
        }
        ISA(lki_tile)((int)(end - done), &t);
        done = end;
    }
}

static void band_of_blocks(const grouped *v, const band *a, const vi *index)
{
    const int64_t taps = v->axis[0].size * v->axis[1].size, size = size_of_block(v);
    const int64_t skipped = (a->rows->tap * v->axis[1].size + a->cols->tap) * v->in * size;
    for (int64_t block = 0; block < blocks_of(v); block++) {
        const float *b = v->b + block * taps * v->in * size + skipped;
        if (!spreads(v)) tiles_of_band(v, a, block, b);
        else if (v->in == 4) spread_band(v, a, block * WIDTH, b, index, 4);
        else spread_band(v, a, block * WIDTH, b, index, 8);
    }
}

static void convolve(const grouped *v)
{
    vi index[MOST];
    if (spreads(v)) indices_of(v->in, index);
    for (lki_window_run rows = {0}; next_run(v, 0, &rows);)
        for (int64_t n = 0; n < v->images; n++)
            for (int64_t y = 0; y < rows.count; y += BAND)
                for (lki_window_run cols = {0}; next_run(v, 1, &cols);)
                    band_of_blocks(v, &(band){&rows, &cols, n, y, lki_min(y + BAND, rows.count)}, index);
}

/* ---- weight gradient ---- */

typedef struct weights {
    lki_axis     axis[2];
    int64_t      images, H, W, C, OH, OW, Q; /* x, dy */
    int64_t      in, out;                    /* channels of a group */
    const float *x, *dy;
    float       *dw;
    lki_lanes    lanes; /* count 0: none */
} weights;

static bool spreads_weights(const weights *v)
{
    return v->in == v->out && (v->in == 4 || v->in == 8) && v->in < WIDTH && v->Q % WIDTH == 0;
}

/* The sums of up to TAPS taps of one row of the window, for a vector of result channels. */
typedef struct row_of_taps {
    int64_t kh, kw, n;
    int64_t first, last;          /* output columns that all of them read inside the image */
    int64_t from[TAPS], to[TAPS]; /* those of each */
} row_of_taps;

ALWAYS void add_pixel(const weights *v, const float *x, const float *dy, unsigned take, const vi *index, vf *c, const int P,
                      const int IN)
{
    const vf      d = vf_load(dy);
    const int64_t step = v->axis[1].dilation * v->C;
#pragma GCC unroll 3
    for (int p = 0; p < P; p++) {
        if (!(take >> p & 1)) continue;
        const vf s = vf_load(x + p * step);
#pragma GCC unroll 8
        for (int i = 0; i < IN; i++)
            c[p * IN + i] = vf_fma(vf_permute(s, index[i]), d, c[p * IN + i]);
    }
}

static unsigned taps_at(const row_of_taps *t, int64_t ow, int P)
{
    unsigned take = 0;
    for (int p = 0; p < P; p++)
        take |= (unsigned)(ow >= t->from[p] && ow < t->to[p]) << p;
    return take;
}

/* Adds up the images from <= i < to. */
ALWAYS void sum_images(const weights *v, const row_of_taps *t, int64_t from, int64_t to, const vi *index, vf *c, const int P,
                       const int IN)
{
    const lki_axis *h = &v->axis[0], *w = &v->axis[1];
    const int64_t   top = lki_first_out(h, t->kh), bottom = lki_last_out(h, t->kh), step = w->stride * v->C;
    for (int64_t image = from; image < to; image++)
        for (int64_t oh = top; oh < bottom; oh++) {
            const int64_t ih = oh * h->stride - h->pad + t->kh * h->dilation;
            const float  *x = v->x + ((image * v->H + ih) * v->W + t->kw * w->dilation - w->pad) * v->C + t->n;
            const float  *dy = v->dy + (image * v->OH + oh) * v->OW * v->Q + t->n;
            int64_t       ow = 0;
            for (; ow < t->first; ow++)
                add_pixel(v, x + ow * step, dy + ow * v->Q, taps_at(t, ow, P), index, c, P, IN);
            for (; ow < t->last; ow++)
                add_pixel(v, x + ow * step, dy + ow * v->Q, (1u << P) - 1, index, c, P, IN);
            for (; ow < v->OW; ow++)
                add_pixel(v, x + ow * step, dy + ow * v->Q, taps_at(t, ow, P), index, c, P, IN);
        }
}

/* All lanes and the tree; the sums go to dw. */
ALWAYS void sum_lanes(const weights *v, const row_of_taps *t, const vi *index, const int P, const int IN)
{
    _Alignas(64) float open[LKI_LANE_DEPTH + 1][TAPS * MOST * WIDTH];
    const int          lanes = v->lanes.count ? v->lanes.count : 1;
    int                depth = 0;
    for (int lane = 0; lane < lanes; lane++) {
        vf c[TAPS * MOST];
#pragma GCC unroll 24
        for (int i = 0; i < P * IN; i++)
            c[i] = vf_zero();
        sum_images(v, t, v->lanes.count ? v->lanes.bound[lane] : 0, v->lanes.count ? v->lanes.bound[lane + 1] : v->images, index, c,
                   P, IN);
        for (int below = lane; below & 1; below >>= 1) {
            depth--;
#pragma GCC unroll 24
            for (int i = 0; i < P * IN; i++)
                c[i] = vf_add(vf_load(open[depth] + i * WIDTH), c[i]);
        }
#pragma GCC unroll 24
        for (int i = 0; i < P * IN; i++)
            vf_store(open[depth] + i * WIDTH, c[i]);
        depth++;
    }
    for (int i = 0; i < P * IN; i++)
        memcpy(v->dw + (((t->kh * v->axis[1].size + t->kw) * IN + i) * v->Q + t->n), open[0] + i * WIDTH, sizeof(vf));
}

#define SUM_FN(P, IN)                                                                                                              \
    static void sum_##P##_##IN(const weights *v, const row_of_taps *t, const vi *index) { sum_lanes(v, t, index, P, IN); }
SUM_FN(1, 4)
SUM_FN(2, 4)
SUM_FN(3, 4)
SUM_FN(1, 8)
SUM_FN(2, 8)
SUM_FN(3, 8)

static void spread_weights(const weights *v)
{
    typedef void         sum_fn(const weights *v, const row_of_taps *t, const vi *index);
    static sum_fn *const FN[2][TAPS] = {{sum_1_4, sum_2_4, sum_3_4}, {sum_1_8, sum_2_8, sum_3_8}};
    const int64_t        KW = v->axis[1].size;
    vi                   index[MOST];
    indices_of(v->in, index);
    for (int64_t n = 0; n < v->Q; n += WIDTH)
        for (int64_t kh = 0; kh < v->axis[0].size; kh++)
            for (int64_t kw = 0; kw < KW; kw += TAPS) {
                const int   taps = (int)lki_min(TAPS, KW - kw);
                row_of_taps t = {.kh = kh, .kw = kw, .n = n, .last = v->OW};
                for (int p = 0; p < taps; p++) {
                    t.from[p] = lki_first_out(&v->axis[1], kw + p);
                    t.to[p] = lki_last_out(&v->axis[1], kw + p);
                    t.first = lki_max(t.first, t.from[p]);
                    t.last = lki_min(t.last, t.to[p]);
                }
                t.last = lki_max(t.first, t.last);
                FN[v->in == 8][taps - 1](v, &t, index);
            }
}

/* Weights (tap, channel of the group) from r0 on of some result channels of a group, from n on: as weight_tile() of
 * conv_grad_w.inc. */
static void weight_tile(const weights *v, int64_t r0, int64_t rows, int64_t n, int64_t cols)
{
    const int64_t a1 = v->axis[0].stride * v->W * v->C, a0 = v->axis[1].stride * v->C, group = n / v->out * v->in;
    lki_tile      t = {.b = v->dy + n,
                       .count = {v->OW, v->OH, v->images},
                       .astep = {a0, a1, v->H * v->W * v->C},
                       .bstep = {v->Q, v->OW * v->Q, v->OH * v->OW * v->Q},
                       .cols = (int)cols,
                       .lanes = v->lanes.count,
                       .bound = v->lanes.bound};
    lki_ragged    g = {0};
    int           equal = 1;
    for (int64_t r = 0; r < rows; r++) {
        const int64_t tap = (r0 + r) / v->in, k[2] = {tap % v->axis[1].size, tap / v->axis[1].size};
        for (int level = 0; level < 2; level++) {
            g.first[r][level] = lki_first_out(&v->axis[1 - level], k[level]);
            g.last[r][level] = lki_max(g.first[r][level], lki_last_out(&v->axis[1 - level], k[level]));
            equal &= g.first[r][level] == g.first[0][level] && g.last[r][level] == g.last[0][level];
        }
        t.c[r] = v->dw + (r0 + r) * v->Q + n;
    }
    const int64_t skip1 = equal ? g.first[0][1] : 0, skip0 = equal ? g.first[0][0] : 0;
    for (int64_t r = 0; r < rows; r++) {
        const int64_t tap = (r0 + r) / v->in, kh = tap / v->axis[1].size, kw = tap % v->axis[1].size;
        const int64_t ih = kh * v->axis[0].dilation - v->axis[0].pad, iw = kw * v->axis[1].dilation - v->axis[1].pad;
        t.a[r] = v->x + (ih * v->W + iw) * v->C + group + (r0 + r) % v->in + skip1 * a1 + skip0 * a0;
    }
    if (!equal) {
        ISA(lki_tile_ragged)((int)rows, &t, &g);
        return;
    }
    t.b += skip1 * t.bstep[1] + skip0 * t.bstep[0];
    t.count[0] = g.last[0][0] - g.first[0][0];
    t.count[1] = g.last[0][1] - g.first[0][1];
    ISA(lki_tile)((int)rows, &t);
}

static void tiles_of_weights(const weights *v)
{
    const int64_t all = v->axis[0].size * v->axis[1].size * v->in;
    for (int64_t n = 0; n < v->Q;) {
        const int64_t cols = lki_min(COLS, v->out - n % v->out);
        for (int64_t r = 0; r < all;) { /* tap by tap if a tap fills half a tile */
            const int64_t end = v->in >= ROWS / 2 ? lki_min(all, (r / v->in + 1) * v->in) : all;
            const int64_t pieces = lki_even_pieces(end - r, rows_for(cols));
            for (int64_t p = 0; p < pieces; p++) {
                const int64_t from = lki_even_begin(end - r, pieces, p), to = lki_even_begin(end - r, pieces, p + 1);
                weight_tile(v, r + from, to - from, n, cols);
            }
            r = end;
        }
        n += cols;
    }
}

/* ---- slots ---- */

static grouped grouped_of(const lki_args *g, int backward)
{
    const int64_t *s = &g->src[0].shape->dim[g->src[0].shape->rank - 3], *d = &g->dst[0].shape->dim[g->dst[0].shape->rank - 3];
    const int64_t *w = g->src[1].shape->dim, groups = (backward ? d[2] : s[2]) / w[2];
    grouped        v = {.backward = backward, .SH = s[0], .SW = s[1], .SC = s[2], .DH = d[0], .DW = d[1], .DC = d[2]};
    v.in = s[2] / groups;
    v.out = d[2] / groups;
    for (int i = 0; i < 2; i++)
        v.axis[i] = lki_axis_of(&g->attr->window, i, backward ? d[i] : s[i], backward ? s[i] : d[i]);
    return v;
}

static size_t scratch_of(const grouped *v)
{
    return v->DC ? (size_t)(blocks_of(v) * size_of_block(v) * steps_of(v)) * sizeof(float) : 0;
}

static size_t grouped_scratch(const lki_args *g)
{
    const grouped v = grouped_of(g, 0);
    return scratch_of(&v);
}

static size_t grouped_grad_x_scratch(const lki_args *g)
{
    const grouped v = grouped_of(g, 1);
    return scratch_of(&v);
}

static void run_grouped(const lki_args *g, int backward)
{
    if (g->lo >= g->hi) return;
    grouped       v = grouped_of(g, backward);
    const int64_t image = v.DH * v.DW * v.DC;
    v.images = (g->hi - g->lo) / image;
    v.src = (const float *)g->src[0].data + g->lo / image * (v.SH * v.SW * v.SC);
    v.dst = (float *)g->dst[0].data + g->lo;
    pack(&v, g->src[1].data, g->scratch);
    convolve(&v);
}

static void f32_grouped(const lki_args *g) { run_grouped(g, 0); }
static void f32_grouped_grad_x(const lki_args *g) { run_grouped(g, 1); }

static void f32_grouped_grad_w(const lki_args *g)
{
    const lk_shape *x = g->src[0].shape, *dy = g->src[1].shape, *w = g->dst[0].shape;
    const int64_t  *i = &x->dim[x->rank - 3], *o = &dy->dim[dy->rank - 3];
    weights         v = {.images = 1, .H = i[0], .W = i[1], .C = i[2], .OH = o[0], .OW = o[1], .Q = o[2], .in = w->dim[2]};
    if (g->lo >= g->hi) return;
    v.out = o[2] / (i[2] / v.in);
    for (int d = 0; d < x->rank - 3; d++)
        v.images *= x->dim[d];
    for (int d = 0; d < 2; d++)
        v.axis[d] = lki_axis_of(&g->attr->window, d, i[d], o[d]);
    v.x = g->src[0].data;
    v.dy = g->src[1].data;
    v.dw = g->dst[0].data;
    if (g->lanes) v.lanes = *g->lanes;
    assert(v.lanes.count <= LKI_MAX_LANES);
    if (spreads_weights(&v)) spread_weights(&v);
    else tiles_of_weights(&v);
}

void ISA(lki_register_grouped)(lki_kernels *k)
{
    lki_kernel_set(k, LKI_K_grouped, LK_F32, f32_grouped, grouped_scratch, VARIANT);
    lki_kernel_set(k, LKI_K_grouped_grad_x, LK_F32, f32_grouped_grad_x, grouped_grad_x_scratch, VARIANT);
    lki_kernel_set(k, LKI_K_grouped_grad_w, LK_F32, f32_grouped_grad_w, NULL, VARIANT);
}
