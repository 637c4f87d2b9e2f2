/* Depthwise convolution and its gradients. Channels are independent, so a vector holds neighbouring channels and nothing is summed
 * over channels, except over the results of one source channel in the data gradient.
 *
 * Every result is one chain of additions in a fixed order. Cells outside the image are left out.
 *
 *     forward           kh, kw
 *     data gradient     output row, output column, multiplier; so the taps come in descending order (window.h)
 *     weight gradient   image, output row, output column; a chain for each lane of images, and the tree adds up the lanes
 *
 * With a channel multiplier m > 1, the result channels c*m .. c*m+m-1 are computed from source channel c. The forward kernel
 * expands a vector of source channels with a permutation. The data gradient gathers every m-th channel of dy. Its weights are
 * packed as [place of the tap (window.h), multiplier, channel]. */
#include "kernel/cpu/products.h"
#include "kernel/cpu/simd.h"
#include "kernel/cpu/window.h"
#include <assert.h>

/* How a vector of source channels is loaded for a vector of result channels: SAME, the same channels; SPREAD, each channel m times
 * (forward); STRIDED, every m-th channel (data gradient). */
enum { SAME, SPREAD, STRIDED };

/* PIXELS: neighbours of a row that some_pixels() computes together. WINDOW: the most neighbours of a row that a window function
 * computes together; in rows of fewer results it computes PIXELS. TAPS: taps whose weight gradients are summed together. */
enum { PIXELS = 4, WINDOW = 8, TAPS = 9 };

enum { GROUP = 128 }; /* channels whose weight gradients are summed together if the window is 3x3 */

#define ALWAYS static inline __attribute__((always_inline))

typedef struct depthwise {
    int          backward;
    lki_axis     axis[2];
    int64_t      images, SH, SW, SC, DH, DW, DC; /* height, width, channels of the source (S) and the result (D) */
    int64_t      M;                              /* the channel multiplier */
    const float *src, *w;                        /* weights [place, multiplier (backward only), DC] */
    float       *dst;
} depthwise;

/* A vector of source channels begins at channel n/m. Returns, for each of the result channels n, n+1, ..., the index of its source
 * channel in that vector. */
static vi spread_of(int64_t n, int64_t m)
{
    int32_t index[WIDTH];
    for (int i = 0; i < WIDTH; i++)
        index[i] = (int32_t)((n + i) / m - n / m);
    return vi_load(index);
}

static vi strided_of(int64_t m)
{
    int32_t index[WIDTH];
    for (int i = 0; i < WIDTH; i++)
        index[i] = (int32_t)(i * m);
    return vi_load(index);
}

ALWAYS vf source_of(const float *p, vm some, vi index, const int KIND)
{
    return KIND == SAME     ? vf_load_some(p, some)
           : KIND == SPREAD ? vf_permute(vf_load_some(p, some), index)
                            : vf_gather(p, index, some);
}

ALWAYS void store_of(float *p, vf x, int64_t left, vm some)
{
    if (left >= WIDTH) vf_store(p, x);
    else vf_store_some(p, some, x);
}

/* ---- forward and data gradient ----------------------------------------------------------------------------------------------- */

/* Computes the channels n, n+1, ... of P results. The first result reads its sources at x and is written to y. Each further result
 * reads `right` floats after the previous one, and is written `apart` floats after it. */
ALWAYS void some_pixels(const depthwise *v, const lki_window_run *rows, const lki_window_run *cols, const float *x, const float *w,
                        float *y, int64_t right, int64_t apart, int64_t n, vm from, vi index, const int P, const int KIND)
{
    const int64_t again = KIND == STRIDED ? v->M : 1, left = v->DC - n;
    const vm      some = vm_first(left);
    vf            c0 = vf_zero(), c1 = c0, c2 = c0, c3 = c0;
    for (int64_t kh = 0; kh < rows->taps; kh++)
        for (int64_t kw = 0; kw < cols->taps; kw++) {
            const float *f = x + (kh * rows->tap_step * v->SW + kw * cols->tap_step) * v->SC;
            const float *u = w + (kh * v->axis[1].size + kw) * again * v->DC;
            for (int64_t j = 0; j < again; j++) {
                const vf b = vf_load_some(u + j * v->DC, some);
                c0 = vf_fma(source_of(f + j, from, index, KIND), b, c0);
                if (P == 1) continue;
                c1 = vf_fma(source_of(f + j + right, from, index, KIND), b, c1);
                c2 = vf_fma(source_of(f + j + 2 * right, from, index, KIND), b, c2);
                c3 = vf_fma(source_of(f + j + 3 * right, from, index, KIND), b, c3);
            }
        }
    store_of(y, c0, left, some);
    if (P == 1) return;
    store_of(y + apart, c1, left, some);
    store_of(y + 2 * apart, c2, left, some);
    store_of(y + 3 * apart, c3, left, some);
}

typedef struct inside { /* the columns from <= i < to of a row are inside the image; column 0 is the first one that is read */
    int64_t from, to;
} inside;

/* Computes P neighbours of a row. The columns that they read are numbered from 0. Columns i < from and i >= to are outside the
 * image and are left out. */
ALWAYS void one_window(const float *x, const float *w, float *y, int64_t C, int64_t Q, int64_t taps, int64_t down, int64_t under,
                       int64_t apart, int64_t from, int64_t to, const int P, const int KW, const int STEP)
{
    vf c[WINDOW];
#pragma GCC unroll 8
    for (int p = 0; p < P; p++)
        c[p] = vf_zero();
    for (int64_t kh = 0; kh < taps; kh++, x += down, w += under) {
        vf b[7];
#pragma GCC unroll 7
        for (int kw = 0; kw < KW; kw++)
            b[kw] = vf_load(w + kw * Q);
#pragma GCC unroll 24
        for (int i = 0; i < (P - 1) * STEP + KW; i++) {
            if ((i < KW - 1 && i < from) || (i > (P - 1) * STEP && i >= to)) continue;
            const vf a = vf_load(x + i * C);
#pragma GCC unroll 8
            for (int p = 0; p < P; p++)
                if (i >= p * STEP && i < p * STEP + KW) c[p] = vf_fma(a, b[i - p * STEP], c[p]);
        }
    }
#pragma GCC unroll 8
    for (int p = 0; p < P; p++)
        vf_store(y + p * apart, c[p]);
}

/* Computes one vector of channels of a row, P neighbours at a time. A row of the window has KW taps, which are adjacent in the
 * source. The taps of each result are still added in the order kh, kw. The last P results may overlap the previous ones, and are
 * then written twice with the same values. */
ALWAYS void row_of_windows(const depthwise *v, const lki_window_run *rows, const lki_window_run *cols, const float *x,
                           const float *w, float *y, inside in, const int P, const int KW, const int STEP)
{
    const int64_t C = v->SC, Q = v->DC, taps = rows->taps, apart = cols->step * Q, W = cols->count;
    const int64_t down = rows->tap_step * v->SW * C, under = v->axis[1].size * Q;
    for (int64_t i = 0; i < W; i += P) {
        i = lki_min(i, W - P);
        one_window(x + i * STEP * C, w, y + i * apart, C, Q, taps, down, under, apart, in.from - i * STEP, in.to - i * STEP, P, KW,
                   STEP);
    }
}
#define WINDOW_FN(P, KW, STEP)                                                                                                     \
    static void window_##P##_##KW##_##STEP(const depthwise *v, const lki_window_run *rows, const lki_window_run *cols,             \
                                           const float *x, const float *w, float *y, inside in)                                    \
    {                                                                                                                              \
        row_of_windows(v, rows, cols, x, w, y, in, P, KW, STEP);                                                                   \
    }
/* clang-format off */
#define EACH_WINDOW(X) X(1, 1) X(2, 1) X(3, 1) X(3, 2) X(4, 1) X(5, 1) X(5, 2) X(7, 1) X(7, 2)
/* clang-format on */
#define BOTH_FNS(KW, STEP) WINDOW_FN(8, KW, STEP) WINDOW_FN(4, KW, STEP)
EACH_WINDOW(BOTH_FNS)

typedef void window_fn(const depthwise *v, const lki_window_run *rows, const lki_window_run *cols, const float *x, const float *w,
                       float *y, inside in);

/* NULL: there is no window function for these columns. */
static window_fn *window_for(const lki_window_run *cols)
{
#define KNOWN(KW, STEP) {KW, STEP, {window_4_##KW##_##STEP, window_8_##KW##_##STEP}},
    static const struct {
        int64_t    taps, step;
        window_fn *fn[2];
    } known[] = {EACH_WINDOW(KNOWN)};
    for (int i = 0; i < LKI_COUNT(known) && cols->count >= PIXELS && (cols->tap_step == 1 || cols->taps == 1); i++)
        if (known[i].taps == cols->taps && known[i].step == cols->from_step) return known[i].fn[cols->count >= WINDOW];
    return NULL;
}

typedef struct pixel { /* the first result of a row: where it reads and where it is written */
    const float *x;
    float       *y;
} pixel;

static pixel pixel_of(const depthwise *v, const lki_window_run *rows, const lki_window_run *cols, int64_t r)
{
    const int64_t image = r / rows->count, row = r % rows->count;
    return (pixel){v->src + ((image * v->SH + rows->from + row * rows->from_step) * v->SW + cols->from) * v->SC,
                   v->dst + ((image * v->DH + rows->at + row * rows->step) * v->DW + cols->at) * v->DC};
}

/* Computes the channels n, n+1, ... of row r of a run. If its rows have fewer than PIXELS columns, and PIXELS rows are left,
 * computes PIXELS rows, column by column. */
ALWAYS void run_of_pixels(const depthwise *v, const lki_window_run *rows, const lki_window_run *cols, int64_t r, int64_t n,
                          const int KIND)
{
    const int64_t first = KIND == SAME ? n : KIND == SPREAD ? n / v->M : n * v->M;
    const vm      from = vm_first(KIND == SPREAD ? v->SC - first : v->DC - n);
    const vi      index = KIND == SPREAD ? spread_of(n, v->M) : strided_of(v->M);
    const float  *w = v->w + (rows->tap * v->axis[1].size + cols->tap) * (KIND == STRIDED ? v->M : 1) * v->DC + n;
    const pixel   at = pixel_of(v, rows, cols, r);
    const float  *x = at.x + first;
    float        *y = at.y + n;
    const int64_t right = cols->from_step * v->SC, apart = cols->step * v->DC, W = cols->count;
    if (W < PIXELS) {
        const int64_t below = rows->from_step * v->SW * v->SC, under = rows->step * v->DW * v->DC;
        const int     four = r % rows->count + PIXELS <= rows->count;
        for (int64_t i = 0; i < W; i++)
            if (four) some_pixels(v, rows, cols, x + i * right, w, y + i * apart, below, under, n, from, index, PIXELS, KIND);
            else some_pixels(v, rows, cols, x + i * right, w, y + i * apart, below, under, n, from, index, 1, KIND);
        return;
    }
    window_fn *fn = KIND == SAME && v->DC - n >= WIDTH ? window_for(cols) : NULL;
    if (fn) fn(v, rows, cols, x, w, y, (inside){0, INT64_MAX / 2});
    else
        for (int64_t i = 0; i < W; i += PIXELS) { /* the last results may be written twice */
            i = lki_min(i, W - PIXELS);
            some_pixels(v, rows, cols, x + i * right, w, y + i * apart, right, apart, n, from, index, PIXELS, KIND);
        }
}

/* The first channel of a vector: the last vector may overlap the previous one, whose results are then written twice with the same
 * values. */
static int64_t vector_at(const depthwise *v, int64_t n) { return v->M == 1 && v->DC >= WIDTH ? lki_min(n, v->DC - WIDTH) : n; }

/* Computes a run row by row, so that memory is read and written in order. */
ALWAYS void run_of_rows(const depthwise *v, const lki_window_run *rows, const lki_window_run *cols, const int KIND)
{
    int64_t step;
    for (int64_t r = 0; r < v->images * rows->count; r += step) {
        step = cols->count < PIXELS && r % rows->count + PIXELS <= rows->count ? PIXELS : 1;
        for (int64_t n = 0; n < v->DC; n += WIDTH)
            run_of_pixels(v, rows, cols, r, vector_at(v, n), KIND);
    }
}

static bool next_run(const depthwise *v, int axis, lki_window_run *r)
{
    return v->backward ? lki_window_run_backward(&v->axis[axis], r)
                       : lki_window_run_forward(&v->axis[axis], r, axis ? v->DW : v->DH);
}

/* True if rows can be processed as a whole, including borders: the channels fill a vector, and there is a window function for the
 * width. */
static bool has_whole_rows(const depthwise *v, lki_window_run *cols)
{
    const lki_axis *a = &v->axis[1];
    const int64_t   lead = v->backward ? a->size - 1 - a->pad : a->pad, step = v->backward ? 1 : a->stride;
    *cols = (lki_window_run){.step = 1, .count = v->DW, .from = -lead, .from_step = step, .taps = a->size, .tap_step = 1};
    return v->M == 1 && v->DC >= WIDTH && a->dilation == 1 && (a->stride == 1 || !v->backward) && lead >= 0 && lead < a->size &&
           (v->DW - 1) * step - lead < v->SW && window_for(cols);
}

static void run_whole_rows(const depthwise *v, const lki_window_run *cols)
{
    window_fn *fn = window_for(cols);
    for (lki_window_run rows = {0}; next_run(v, 0, &rows);)
        for (int64_t r = 0; r < v->images * rows.count; r++) {
            const pixel at = pixel_of(v, &rows, cols, r);
            for (int64_t i = 0; i < v->DC; i += WIDTH) {
                const int64_t n = vector_at(v, i);
                fn(v, &rows, cols, at.x + n, v->w + rows.tap * v->axis[1].size * v->DC + n, at.y + n,
                   (inside){-cols->from, v->SW - cols->from});
            }
        }
}

static void run_depthwise(const depthwise *v)
{
    lki_window_run whole;
    if (has_whole_rows(v, &whole)) {
        run_whole_rows(v, &whole);
        return;
    }
    for (lki_window_run rows = {0}; next_run(v, 0, &rows);)
        for (lki_window_run cols = {0}; next_run(v, 1, &cols);) {
            if (v->M == 1) run_of_rows(v, &rows, &cols, SAME);
            else if (v->backward) run_of_rows(v, &rows, &cols, STRIDED);
            else run_of_rows(v, &rows, &cols, SPREAD);
        }
}

/* Operands of the kernel: src[0] is the source, src[1] the weights [kh, kw, c, m], dst[0] the result. */
static depthwise depthwise_of(const lki_args *g, int backward)
{
    const int64_t *s = &g->src[0].shape->dim[g->src[0].shape->rank - 3], *d = &g->dst[0].shape->dim[g->dst[0].shape->rank - 3];
    depthwise      v = {.backward = backward, .SH = s[0], .SW = s[1], .SC = s[2], .DH = d[0], .DW = d[1], .DC = d[2]};
    const int64_t  image = d[0] * d[1] * d[2], first = image ? g->lo / image : 0;
    v.M = g->src[1].shape->dim[3];
    for (int i = 0; i < 2; i++)
        v.axis[i] = lki_axis_of(&g->attr->window, i, backward ? d[i] : s[i], backward ? s[i] : d[i]);
    v.images = image ? (g->hi - g->lo) / image : 0;
    v.src = (const float *)g->src[0].data + first * (s[0] * s[1] * s[2]);
    v.dst = (float *)g->dst[0].data + g->lo;
    v.w = g->src[1].data;
    return v;
}

static void f32_depthwise(const lki_args *g)
{
    if (g->lo >= g->hi) return;
    const depthwise v = depthwise_of(g, 0);
    run_depthwise(&v);
}

static size_t depthwise_grad_x_scratch(const lki_args *g)
{
    const lk_shape *w = g->src[1].shape;
    return (size_t)(w->dim[0] * w->dim[1] * w->dim[2] * w->dim[3]) * sizeof(float);
}

static void f32_depthwise_grad_x(const lki_args *g)
{
    if (g->lo >= g->hi) return;
    depthwise     v = depthwise_of(g, 1);
    const int64_t KW = v.axis[1].size, taps = v.axis[0].size * KW;
    float        *room = g->scratch;
    for (int64_t t = 0; t < taps; t++) {
        const int64_t place = lki_tap_place(&v.axis[0], t / KW) * KW + lki_tap_place(&v.axis[1], t % KW);
        for (int64_t j = 0; j < v.M; j++)
            for (int64_t c = 0; c < v.DC; c++)
                room[(place * v.M + j) * v.DC + c] = v.w[(t * v.DC + c) * v.M + j];
    }
    v.w = room;
    run_depthwise(&v);
}

/* ---- weight gradient --------------------------------------------------------------------------------------------------------- */

/* clang-format off */
#define EACH_ROW(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8)
/* clang-format on */
#define DECLARE_ROW(p) vf c##p = vf_zero();
#define ZERO_ROW(p) c##p = vf_zero();
#define STEP_ROW(p) c##p = vf_fma(source_of(a[p] + i, from, index, KIND), d, c##p);
#define SOME_ROW(p)                                                                                                                \
    if (take >> p & 1) STEP_ROW(p)
#define SOME_WHOLE_ROW(p)                                                                                                          \
    if (take >> p & 1) c##p = vf_fma(vf_load(a[p] + i), d, c##p);
#define TAKE_ROW(p) vf c##p = vf_load(acc + p * WIDTH);
#define GIVE_ROW(p) vf_store(acc + p * WIDTH, c##p);
#define MERGE_ROW(p) c##p = vf_add(vf_load(top + p * WIDTH), c##p);
#define PUSH_ROW(p) vf_store(top + p * WIDTH, c##p);

typedef struct group { /* TAPS taps; if the window has fewer left, the first one is repeated */
    const float *a[TAPS];
    int64_t      first[TAPS][2], last[TAPS][2]; /* outputs first <= o < last read the tap inside the image; [0] columns, [1] rows */
    unsigned     edge[2]; /* the taps that the first and the last output column read inside the image, as bits */
} group;

typedef struct deep_weights {
    lki_axis     axis[2];
    int64_t      images, H, W, C, OH, OW, Q, M;
    const float *x, *dy;
    float       *dw;
    lki_lanes    lanes;
} deep_weights;

static unsigned taps_at(const group *t, int level, int64_t o)
{
    unsigned bits = 0;
    for (int p = 0; p < TAPS; p++)
        bits |= (unsigned)(t->first[p][level] <= o && o < t->last[p][level]) << p;
    return bits;
}

/* Writes the sums of TAPS taps for the channels n, n+1, ... to out[tap][WIDTH]. */
ALWAYS void sum_taps(const deep_weights *v, const group *t, int64_t n, float *out, const int KIND)
{
    _Alignas(64) float  open[LKI_LANE_DEPTH][TAPS * WIDTH];
    float              *top = open[0];
    const int           lanes = v->lanes.count ? v->lanes.count : 1;
    const vm            some = vm_first(v->Q - n), from = KIND == SPREAD ? vm_first(v->C - n / v->M) : some;
    const vi            index = spread_of(n, v->M);
    const int64_t       step0 = v->axis[1].stride * v->C, step1 = v->axis[0].stride * v->W * v->C, step2 = v->H * v->W * v->C;
    const float *const *a = t->a;
    EACH_ROW(DECLARE_ROW)

    int64_t begin = 0, end = v->OW; /* the output columns for which all taps are inside the image */
    for (int p = 0; p < TAPS; p++) {
        begin = lki_max(begin, t->first[p][0]);
        end = lki_min(end, t->last[p][0]);
    }
    for (int lane = 0; lane < lanes; lane++) {
        EACH_ROW(ZERO_ROW)
        const int64_t stop = v->lanes.count ? v->lanes.bound[lane + 1] : v->images;
        for (int64_t image = v->lanes.count ? v->lanes.bound[lane] : 0; image < stop; image++)
            for (int64_t oh = 0; oh < v->OH; oh++) {
                const unsigned rows = taps_at(t, 1, oh), all = (1u << TAPS) - 1;
                const float   *dy = v->dy + (image * v->OH + oh) * v->OW * v->Q + n;
                for (int64_t ow = 0; ow < v->OW; ow++) {
                    int64_t i = image * step2 + oh * step1 + ow * step0;
                    if (rows == all && ow == begin && begin < end) {
                        for (; ow < end; ow++, i += step0) {
                            const vf d = vf_load_some(dy + ow * v->Q, some);
                            EACH_ROW(STEP_ROW)
                        }
                        ow--;
                        continue;
                    }
                    const unsigned take = rows & taps_at(t, 0, ow);
                    const vf       d = vf_load_some(dy + ow * v->Q, some);
                    EACH_ROW(SOME_ROW)
                }
            }
        for (int k = lane; lanes > 1 && k & 1; k >>= 1) {
            top -= TAPS * WIDTH;
            EACH_ROW(MERGE_ROW)
        }
        if (lane + 1 < lanes) {
            EACH_ROW(PUSH_ROW)
            top += TAPS * WIDTH;
        }
    }
    top = out;
    EACH_ROW(PUSH_ROW)
}

/* For 3x3 windows without a multiplier or dilation along the width, and whole vectors of channels. Each row of the window has a
 * pointer. If all three rows are inside the image, nine chains run side by side; otherwise three chains, one row after the
 * other. */
#define THREE_TAPS(r, p, q, s)                                                                                                     \
    c##p = vf_fma(vf_load(r), d, c##p), c##q = vf_fma(vf_load(r + C), d, c##q), c##s = vf_fma(vf_load(r + 2 * C), d, c##s);
#define INNER_COLUMNS(...)                                                                                                         \
    for (int64_t ow = begin; ow < end; ow++) {                                                                                     \
        const vf d = vf_load(dy + ow * v->Q);                                                                                      \
        __VA_ARGS__                                                                                                                \
    }

/* The same, but the sources of three columns are kept in registers, so that each is loaded once. The window has the columns p, q
 * and `fresh`, of which `fresh` is loaded now. */
#define LOAD_COLUMN(p) x0##p = vf_load(r0), x1##p = vf_load(r1), x2##p = vf_load(r2), r0 += C, r1 += C, r2 += C;
#define ROW_OF_TAPS(k, p, q, fresh, e, f, g)                                                                                       \
    c##e = vf_fma(x##k##p, d, c##e), c##f = vf_fma(x##k##q, d, c##f), c##g = vf_fma(x##k##fresh, d, c##g);
#define ROLL(ow, p, q, fresh)                                                                                                      \
    {                                                                                                                              \
        const vf d = vf_load(dy + (ow)*v->Q);                                                                                      \
        LOAD_COLUMN(fresh)                                                                                                         \
        ROW_OF_TAPS(0, p, q, fresh, 0, 1, 2)                                                                                       \
        ROW_OF_TAPS(1, p, q, fresh, 3, 4, 5)                                                                                       \
        ROW_OF_TAPS(2, p, q, fresh, 6, 7, 8)                                                                                       \
    }
#define ROLLING_COLUMNS()                                                                                                          \
    {                                                                                                                              \
        vf      x00, x01, x02 = vf_zero(), x10, x11, x12 = x02, x20, x21, x22 = x02;                                               \
        int64_t ow = begin;                                                                                                        \
        LOAD_COLUMN(0)                                                                                                             \
        LOAD_COLUMN(1)                                                                                                             \
        for (; ow + 3 <= end; ow += 3) {                                                                                           \
            ROLL(ow, 0, 1, 2)                                                                                                      \
            ROLL(ow + 1, 1, 2, 0)                                                                                                  \
            ROLL(ow + 2, 2, 0, 1)                                                                                                  \
        }                                                                                                                          \
        if (ow < end) ROLL(ow, 0, 1, 2)                                                                                            \
        if (ow + 1 < end) ROLL(ow + 1, 1, 2, 0)                                                                                    \
    }

static unsigned edge_taps(const group *t, int64_t width, int64_t ow)
{
    return ow == 0 ? t->edge[0] : ow == width - 1 ? t->edge[1] : taps_at(t, 0, ow);
}

/* Adds one row of outputs to the nine chains of the channels n, n+1, ... The chains are in acc before and after. */
static void add_row_of_nine(const deep_weights *v, const group *t, int64_t row, unsigned rows, int64_t n, float *acc)
{
    const int64_t       C = v->C, step0 = v->axis[1].stride * C, step1 = v->axis[0].stride * v->W * C, step2 = v->H * v->W * C;
    const int64_t       begin = t->first[0][0], end = t->last[2][0]; /* as in sum_taps() */
    const float *const *a = t->a;
    const int64_t       at = row / v->OH * step2 + row % v->OH * step1 + n;
    const unsigned      all = (1u << TAPS) - 1;
    const float        *dy = v->dy + row * v->OW * v->Q + n;
    EACH_ROW(TAKE_ROW)
    for (int64_t ow = 0; ow < lki_min(begin, v->OW); ow++) {
        const unsigned take = rows & edge_taps(t, v->OW, ow);
        const int64_t  i = at + ow * step0;
        const vf       d = vf_load(dy + ow * v->Q);
        EACH_ROW(SOME_WHOLE_ROW)
    }
    const float *r0 = a[0] + at + begin * step0, *r1 = a[3] + at + begin * step0, *r2 = a[6] + at + begin * step0;
    if (rows == all && v->axis[1].stride == 1 && HAS_MANY_REGISTERS && end - begin >= 3) ROLLING_COLUMNS()
    else if (rows == all)
        INNER_COLUMNS(THREE_TAPS(r0, 0, 1, 2) THREE_TAPS(r1, 3, 4, 5) THREE_TAPS(r2, 6, 7, 8) r0 += step0, r1 += step0,
                      r2 += step0;)
    else {
        if (rows & 1) INNER_COLUMNS(THREE_TAPS(r0, 0, 1, 2) r0 += step0;)
        if (rows & 8) INNER_COLUMNS(THREE_TAPS(r1, 3, 4, 5) r1 += step0;)
        if (rows & 64) INNER_COLUMNS(THREE_TAPS(r2, 6, 7, 8) r2 += step0;)
    }
    for (int64_t ow = lki_max(begin, end); ow < v->OW; ow++) {
        const unsigned take = rows & edge_taps(t, v->OW, ow);
        const int64_t  i = at + ow * step0;
        const vf       d = vf_load(dy + ow * v->Q);
        EACH_ROW(SOME_WHOLE_ROW)
    }
    EACH_ROW(GIVE_ROW)
}

/* Sums all nine taps for the channels n .. n + count - 1, which are whole vectors. For each row it computes all vectors before the
 * next row, so that images are read once and in order. The sums of lanes are added up the tree. The result is left in acc. */
static void sum_three_by_three(const deep_weights *v, const group *t, int64_t n, int64_t count, float *acc)
{
    const int     lanes = v->lanes.count ? v->lanes.count : 1;
    const int64_t size = TAPS * count;
    for (int lane = 0; lane < lanes; lane++) {
        const int64_t stop = v->lanes.count ? v->lanes.bound[lane + 1] : v->images;
        memset(acc, 0, (size_t)size * sizeof *acc);
        for (int64_t row = (v->lanes.count ? v->lanes.bound[lane] : 0) * v->OH; row < stop * v->OH; row++) {
            const unsigned rows = taps_at(t, 1, row % v->OH);
            for (int64_t i = 0; i < count; i += WIDTH)
                add_row_of_nine(v, t, row, rows, n + i, acc + i * TAPS);
        }
        for (int k = lane; k & 1; k >>= 1, acc -= size)
            for (int64_t i = 0; i < size; i += WIDTH)
                vf_store(acc - size + i, vf_add(vf_load(acc - size + i), vf_load(acc + i)));
        if (lane + 1 < lanes) acc += size;
    }
}

static group group_of(const deep_weights *v, int64_t tap, int64_t count, int64_t n)
{
    group t;
    for (int p = 0; p < TAPS; p++) {
        const int64_t at = tap + (p < count ? p : 0), k[2] = {at % v->axis[1].size, at / v->axis[1].size};
        for (int level = 0; level < 2; level++) {
            t.first[p][level] = lki_first_out(&v->axis[1 - level], k[level]);
            t.last[p][level] = lki_last_out(&v->axis[1 - level], k[level]);
        }
        const int64_t ih = k[1] * v->axis[0].dilation - v->axis[0].pad, iw = k[0] * v->axis[1].dilation - v->axis[1].pad;
        t.a[p] = v->x + (ih * v->W + iw) * v->C + n / v->M;
    }
    t.edge[0] = taps_at(&t, 0, 0);
    t.edge[1] = taps_at(&t, 0, v->OW - 1);
    return t;
}

#include "kernel/cpu/depthwise_rows.inc"

/* Returns the bytes for nine sums of each channel of a group, for the current lane and for each complete subtree that waits. */
static size_t depthwise_grad_w_scratch(const lki_args *g)
{
    const lk_shape *w = g->dst[0].shape;
    if (is_wide(&g->attr->window, w)) return wide_scratch(w);
    const bool nine = w->dim[0] == 3 && w->dim[1] == 3 && w->dim[3] == 1;
    return nine ? (size_t)(TAPS * lki_min(GROUP, lki_max(w->dim[2], WIDTH)) * (LKI_LANE_DEPTH + 1)) * sizeof(float) : 0;
}

static void f32_depthwise_grad_w(const lki_args *g)
{
    const lk_shape *x = g->src[0].shape, *dy = g->src[1].shape, *w = g->dst[0].shape;
    const int64_t  *i = &x->dim[x->rank - 3], *o = &dy->dim[dy->rank - 3];
    deep_weights    v = {.images = 1, .H = i[0], .W = i[1], .C = i[2], .OH = o[0], .OW = o[1], .Q = o[2], .M = w->dim[3]};
    for (int d = 0; d < x->rank - 3; d++)
        v.images *= x->dim[d];
    for (int d = 0; d < 2; d++)
        v.axis[d] = lki_axis_of(&g->attr->window, d, i[d], o[d]);
    v.x = g->src[0].data;
    v.dy = g->src[1].data;
    v.dw = g->dst[0].data;
    if (g->lanes) v.lanes = *g->lanes;
    assert(v.lanes.count <= LKI_MAX_LANES);
    if (g->lo >= g->hi) return;
    if (is_wide(&g->attr->window, w)) {
        wide_weights(&v, g->scratch);
        return;
    }

    _Alignas(64) float out[TAPS * WIDTH];
    const int64_t      taps = v.axis[0].size * v.axis[1].size;
    int64_t            begin = 0;
    if (v.M == 1 && v.axis[0].size == 3 && v.axis[1].size == 3 && v.axis[1].dilation == 1 && v.Q >= WIDTH)
        for (const int64_t whole = v.Q / WIDTH * WIDTH; begin < v.Q;) { /* the last vector may overlap the previous ones */
            const int64_t from = begin < whole ? begin : v.Q - WIDTH, count = begin < whole ? lki_min(GROUP, whole - begin) : WIDTH;
            const group   t = group_of(&v, 0, TAPS, 0);
            sum_three_by_three(&v, &t, from, count, g->scratch);
            for (int64_t j = 0; j < count / WIDTH * TAPS; j++) /* [vector, tap] to [tap, vector] */
                memcpy(v.dw + j % TAPS * v.Q + from + j / TAPS * WIDTH, (const float *)g->scratch + j * WIDTH, sizeof(vf));
            begin = begin < whole ? begin + count : v.Q;
        }
    for (int64_t n = begin; n < v.Q; n += WIDTH)
        for (int64_t tap = 0; tap < taps; tap += TAPS) {
            const int64_t count = lki_min(TAPS, taps - tap), left = lki_min(WIDTH, v.Q - n);
            const group   t = group_of(&v, tap, count, n);
            if (v.M == 1) sum_taps(&v, &t, n, out, SAME);
            else sum_taps(&v, &t, n, out, SPREAD);
            for (int64_t p = 0; p < count; p++)
                memcpy(v.dw + (tap + p) * v.Q + n, out + p * WIDTH, (size_t)left * sizeof(float));
        }
}

void ISA(lki_register_depthwise)(lki_kernels *k)
{
    lki_kernel_set(k, LKI_K_depthwise, LK_F32, f32_depthwise, NULL, VARIANT);
    lki_kernel_set(k, LKI_K_depthwise_grad_x, LK_F32, f32_depthwise_grad_x, depthwise_grad_x_scratch, VARIANT);
    lki_kernel_set(k, LKI_K_depthwise_grad_w, LK_F32, f32_depthwise_grad_w, depthwise_grad_w_scratch, VARIANT);
}
