/* Pooling, vectors over channels.
 *
 * Order of summation: an average adds cells by kh, then kw; a gradient adds outputs by row, then column; ascending, from +0. Cells
 * outside the image and outputs that chose another cell are left out, not added as zeros. Every vector of channels visits a
 * window's cells (or a pixel's windows) in that order, so the vector width never changes bits.
 *
 * Windows are visited in the order of the output. If a pixel belongs to several of them, its sum is gathered by the pixel, in that
 * order. */
#include "kernel/cpu/products.h"
#include "kernel/cpu/simd.h"
#include <math.h>

typedef struct axis {
    int64_t in, out, size, stride, pad;
} axis;

typedef struct pool {
    axis            h, w;
    int64_t         first, images, C;
    const lki_view *cell; /* NULL: not requested */
} pool;

static axis axis_of(const lki_window *w, int i, const int64_t *in, const int64_t *out)
{
    return (axis){in[i], out[i], w->size[i], w->stride[i], w->pad[i]};
}

/* x is the shape of the images, y that of the pooled array; the range lo .. hi consists of whole images of dst. */
static pool pool_of(const lki_args *g, const lk_shape *x, const lk_shape *y, const lki_view *cell)
{
    const int64_t *in = &x->dim[x->rank - 3], *out = &y->dim[y->rank - 3], *d = &g->dst[0].shape->dim[g->dst[0].shape->rank - 3];
    const int64_t  image = lki_max(1, d[0] * d[1] * d[2]);
    return (pool){axis_of(&g->attr->window, 0, in, out),
                  axis_of(&g->attr->window, 1, in, out),
                  g->lo / image,
                  (g->hi - g->lo) / image,
                  in[2],
                  cell};
}

/* The cells of the window at output o that are inside the image: from <= k < to; `at` is the place of cell 0, which may be
 * outside. */
typedef struct span {
    int64_t at, from, to;
} span;

static span span_of(const axis *a, int64_t o)
{
    const int64_t at = o * a->stride - a->pad;
    return (span){at, lki_max(0, -at), lki_max(lki_max(0, -at), lki_min(a->size, a->in - at))};
}

static vi cells_at(const lki_view *cell, int64_t i, int64_t n)
{
    return cell->dtype == LK_U8 ? vi_of_bytes((const uint8_t *)cell->data + i, lki_min(n, WIDTH))
                                : vi_load_some((const int32_t *)cell->data + i, vm_first(n));
}

static inline vm cells_are(const lki_view *cell, int64_t i, int64_t n, int32_t k)
{
    return cell->dtype == LK_U8 && n >= WIDTH ? vm_of_bytes_equal((const uint8_t *)cell->data + i, k)
                                              : vi_equal(cells_at(cell, i, n), vi_all(k));
}

static void set_cells(const lki_view *cell, int64_t i, int64_t n, vi x)
{
    if (cell->dtype == LK_U8) vi_to_bytes((uint8_t *)cell->data + i, x, lki_min(n, WIDTH));
    else vi_store_some((int32_t *)cell->data + i, vm_first(n), x);
}

static inline vf load(const float *p, int64_t n) { return n >= WIDTH ? vf_load(p) : vf_load_some(p, vm_first(n)); }

static inline void store(float *p, vf x, int64_t n)
{
    if (n >= WIDTH) vf_store(p, x);
    else vf_store_some(p, vm_first(n), x);
}

/* ---- windows ----------------------------------------------------------------------------------------------------------------- */

typedef struct window {
    span    h, w;
    int64_t pixel; /* in x: the place of cell (0, 0), counted over all images */
    int64_t i;     /* in y: the first channel */
} window;

/* K: the window has K x K cells, all of them inside; 0: any window. Known sizes are unrolled. */
typedef void window_fn(const pool *v, const window *win, const float *src, float *dst, const int K);

#define ALWAYS static inline __attribute__((always_inline))

/* Calls fn for each window of row r, counted over all images. */
ALWAYS void row_of_windows(const pool *v, int64_t r, const float *src, float *dst, window_fn *fn)
{
    const int64_t square = v->h.size == v->w.size ? v->h.size : 0;
    window        win = {.h = span_of(&v->h, r % v->h.out)};
    const bool    tall = win.h.to - win.h.from == v->h.size;
    for (int64_t ow = 0; ow < v->w.out; ow++) {
        win.w = span_of(&v->w, ow);
        win.pixel = (r / v->h.out * v->h.in + win.h.at) * v->w.in + win.w.at;
        win.i = (r * v->w.out + ow) * v->C;
        const int64_t whole = tall && win.w.to - win.w.from == v->w.size ? square : 0;
        if (whole == 2) fn(v, &win, src, dst, 2);
        else if (whole == 3) fn(v, &win, src, dst, 3);
        else fn(v, &win, src, dst, 0);
    }
}

/* For each window of the range, in the order of the output. */
ALWAYS void each_window(const pool *v, const float *src, float *dst, window_fn *fn)
{
    for (int64_t r = v->first * v->h.out; r < (v->first + v->images) * v->h.out; r++)
        row_of_windows(v, r, src, dst, fn);
}

/* Every cell of the window that is inside, in order: its number k = kh * width + kw, and the address of its channels from c on in
 * the image. */
#define EACH_CELL(...)                                                                                                             \
    for (int64_t kh = K ? 0 : win->h.from; kh < (K ? K : win->h.to); kh++)                                                         \
        for (int64_t kw = K ? 0 : win->w.from; kw < (K ? K : win->w.to); kw++) {                                                   \
            const int64_t k = kh * (K ? K : v->w.size) + kw, at = (win->pixel + kh * v->w.in + kw) * v->C + c;                     \
            (void)k;                                                                                                               \
            __VA_ARGS__                                                                                                            \
        }

/* Channels from c on, V vectors of them side by side, whose chains hide each other's latency. `left` is a constant except for the
 * last, partial vector. MOST: how many vectors fit in the registers. */
#define IN_GROUPS(MOST, ...)                                                                                                       \
    {                                                                                                                              \
        int64_t c = 0;                                                                                                             \
        IN_GROUP_OF(8, MOST, WIDTH, c + 8 * WIDTH <= v->C, __VA_ARGS__)                                                            \
        IN_GROUP_OF(4, MOST, WIDTH, c + 4 * WIDTH <= v->C, __VA_ARGS__)                                                            \
        IN_GROUP_OF(2, MOST, WIDTH, c + 2 * WIDTH <= v->C, __VA_ARGS__)                                                            \
        IN_GROUP_OF(1, MOST, WIDTH, c + WIDTH <= v->C, __VA_ARGS__)                                                                \
        IN_GROUP_OF(1, MOST, v->C - c, c < v->C, __VA_ARGS__)                                                                      \
    }
#define IN_GROUP_OF(COUNT, MOST, LEFT, WHILE, ...)                                                                                 \
    for (; COUNT <= MOST && (WHILE); c += COUNT * WIDTH) {                                                                         \
        enum { V = COUNT };                                                                                                        \
        const int64_t left = LEFT;                                                                                                 \
        __VA_ARGS__                                                                                                                \
    }
#define EACH(i) _Pragma("GCC unroll 8") for (int i = 0; i < V; i++)

enum { FEW = HAS_MANY_REGISTERS ? 1 : 2, MANY = HAS_MANY_REGISTERS ? 4 : 8 }; /* MOST for 2 or 3 values per vector; for 1 value */

/* Any values, any type of cells. */
ALWAYS void max_of_any(const pool *v, const window *win, const float *x, float *y, const int K)
{
    const int     any = K || (win->h.from < win->h.to && win->w.from < win->w.to);
    const int64_t first = K || !any ? 0 : win->h.from * v->w.size + win->w.from;
    const int64_t corner = K ? win->pixel : win->pixel + win->h.from * v->w.in + win->w.from;
    IN_GROUPS(1, {
        (void)V;
        vf best = any ? load(x + corner * v->C + c, left) : vf_all(-INFINITY);
        vi which = vi_all((int32_t)first);
        EACH_CELL({
            if (k == first) continue;
            const vf value = load(x + at, left);
            const vm wins = vm_wins(value, best);
            best = vf_select(wins, value, best);
            which = vi_select(wins, vi_all((int32_t)k), which);
        })
        store(y + win->i + c, best, left);
        if (v->cell) set_cells(v->cell, win->i + c, left, which);
    });
}

/* Arguments are passed by value, so that the caller can keep the members of v and win in registers. */
static __attribute__((noinline)) void max_with_nan(pool v, window win, const float *x, float *y) { max_of_any(&v, &win, x, y, 0); }

/* One more cell at kh, kw, with V vectors. */
#define TAKE_CELL(kh, kw)                                                                                                          \
    {                                                                                                                              \
        const int64_t at = (win->pixel + (kh)*v->w.in + (kw)) * v->C + c;                                                          \
        EACH(i)                                                                                                                    \
        {                                                                                                                          \
            const vf value = load(x + at + i * WIDTH, left);                                                                       \
            if (CELL) which[i] = vb_select(vm_above(value, best[i]), (int)(kh)*width + (int)(kw), which[i]);                       \
            best[i] = vf_max(value, best[i]);                                                                                      \
            sum[i] = vf_add(sum[i], value);                                                                                        \
        }                                                                                                                          \
    }

/* A window without NaN: vf_max keeps the first of equal ones, also of zeros with different signs. A NaN makes the sum NaN, and so
 * do infinities of both signs; then the window is computed again. */
ALWAYS void max_of_ordered(const pool *v, const window *win, const float *x, float *y, const int K, const int CELL)
{
    uint8_t      *cell = CELL ? v->cell->data : NULL;
    const int     width = K ? K : (int)v->w.size, first = K ? 0 : (int)(win->h.from * v->w.size + win->w.from);
    const int64_t corner = (win->pixel + (K ? 0 : win->h.from * v->w.in + win->w.from)) * v->C;
    vf            all = vf_zero();
    if (!K && (win->h.from >= win->h.to || win->w.from >= win->w.to)) {
        max_with_nan(*v, *win, x, y);
        return;
    }
    IN_GROUPS(FEW, {
        vf best[V];
        vf sum[V];
        vb which[V];
        EACH(i) best[i] = sum[i] = load(x + corner + c + i * WIDTH, left), which[i] = vb_all(first);
        if (K) TAKE_CELL(0, 1)
        if (K == 3) TAKE_CELL(0, 2)
        if (K) TAKE_CELL(1, 0)
        if (K) TAKE_CELL(1, 1)
        if (K == 3) TAKE_CELL(1, 2)
        if (K == 3) TAKE_CELL(2, 0)
        if (K == 3) TAKE_CELL(2, 1)
        if (K == 3) TAKE_CELL(2, 2)
        for (int64_t kh = win->h.from; !K && kh < win->h.to; kh++)
            for (int64_t kw = win->w.from; kw < win->w.to; kw++)
                TAKE_CELL(kh, kw) /* the first one again, which changes nothing */
        EACH(i)
        {
            store(y + win->i + c + i * WIDTH, best[i], left);
            if (CELL) vb_store(cell + win->i + c + i * WIDTH, which[i], lki_min(left, WIDTH));
            all = vf_add(all, sum[i]);
        }
    });
    if (vf_is_any_nan(all)) max_with_nan(*v, *win, x, y);
}

ALWAYS void max_and_byte(const pool *v, const window *win, const float *x, float *y, const int K)
{
    max_of_ordered(v, win, x, y, K, 1);
}

ALWAYS void max_alone(const pool *v, const window *win, const float *x, float *y, const int K)
{
    max_of_ordered(v, win, x, y, K, 0);
}

ALWAYS void pick_of(const pool *v, const window *win, const float *x, float *y, const int K)
{
    IN_GROUPS(1, {
        (void)V;
        const vi named = cells_at(v->cell, win->i + c, left);
        vf       value = vf_zero();
        EACH_CELL({ value = vf_select(vi_equal(named, vi_all((int32_t)k)), load(x + at, left), value); })
        store(y + win->i + c, value, left);
    });
}

ALWAYS void average_of(const pool *v, const window *win, const float *x, float *y, const int K)
{
    const int64_t cells = K ? K * K : (win->h.to - win->h.from) * (win->w.to - win->w.from);
    const vf      many = vf_all((float)cells);
    IN_GROUPS(MANY, {
        vf sum[V];
        EACH(i) sum[i] = vf_zero();
        EACH_CELL({ EACH(i) sum[i] = vf_add(sum[i], load(x + at + i * WIDTH, left)); })
        EACH(i) store(y + win->i + c + i * WIDTH, cells ? vf_div(sum[i], many) : vf_zero(), left);
    });
}

/* No pixel belongs to two windows: the sum of the selected pixel is 0 + dy. */
ALWAYS void scatter_of(const pool *v, const window *win, const float *dy, float *dx, const int K)
{
    IN_GROUPS(1, {
        (void)V;
        const vi named = cells_at(v->cell, win->i + c, left);
        const vf sum = vf_add(vf_zero(), load(dy + win->i + c, left));
        EACH_CELL({ store(dx + at, vf_select(vi_equal(named, vi_all((int32_t)k)), sum, vf_zero()), left); })
    });
}

ALWAYS vf share_of(const window *win, const float *dy, int64_t c, int64_t left, const int K)
{
    const int64_t cells = K ? K * K : (win->h.to - win->h.from) * (win->w.to - win->w.from);
    return vf_div(load(dy + win->i + c, left), vf_all((float)cells));
}

ALWAYS void spread_share(const pool *v, const window *win, const float *dy, float *dx, const int K)
{
    IN_GROUPS(1, {
        (void)V;
        const vf share = vf_add(vf_zero(), share_of(win, dy, c, left, K));
        EACH_CELL({ store(dx + at, share, left); })
    });
}

/* ---- pixels that lie in several windows -------------------------------------------------------------------------------------- */

/* The outputs that read a cell along one axis: first, first + 1, ... (count of them); and the place of the cell in the first one's
 * window. */
typedef struct reach {
    int64_t first, count, place;
} reach;

/* Moves *r from cell i - 1 (for cell 0: from zeros) to cell i, which is read by the outputs o with at - size < o * stride <= at. */
static inline void next_reach(const axis *a, int64_t i, reach *r)
{
    const int64_t at = i + a->pad;
    int64_t       last = r->first + r->count;
    while (last < a->out && last * a->stride <= at)
        last++;
    while (r->first < last && r->first * a->stride <= at - a->size)
        r->first++;
    r->count = last - r->first;
    r->place = at - r->first * a->stride;
}

/* One pixel: the sum of dy, or of dy where the window selected this pixel, over its windows in the order of the output, from +0. H
 * x W windows, 0: any. */
ALWAYS void gather_pixel(const pool *v, const float *dy, float *dx, int64_t i, const reach *h, const reach *w, const int H,
                         const int W, const int NAMED)
{
    IN_GROUPS(MANY, {
        vf sum[V];
        EACH(j) sum[j] = vf_zero();
        for (int64_t oh = 0; oh < (H ? H : h->count); oh++)
            for (int64_t ow = 0; ow < (W ? W : w->count); ow++) {
                const int64_t at = i + (oh * v->w.out + ow) * v->C + c;
                const int64_t k = (h->place - oh * v->h.stride) * v->w.size + w->place - ow * v->w.stride;
                EACH(j)
                {
                    const vf more = load(dy + at + j * WIDTH, left);
                    if (NAMED) sum[j] = vf_add_where(cells_are(v->cell, at + j * WIDTH, left, (int32_t)k), sum[j], more);
                    else sum[j] = vf_add(sum[j], more);
                }
            }
        EACH(j) store(dx + c + j * WIDTH, sum[j], left);
    });
}

/* Image `image` of dx; dy (or shares) of this image begins at window `base`. */
ALWAYS void gather_image(const pool *v, int64_t image, int64_t base, const float *dy, float *dx, const int NAMED)
{
    reach h = {0};
    for (int64_t ih = 0; ih < v->h.in; ih++) {
        reach w = {0};
        next_reach(&v->h, ih, &h);
        for (int64_t iw = 0; iw < v->w.in; iw++) {
            next_reach(&v->w, iw, &w);
            const int64_t i = (base + h.first * v->w.out + w.first) * v->C;
            float        *to = dx + ((image * v->h.in + ih) * v->w.in + iw) * v->C;
            if (h.count == 1 && w.count == 1) gather_pixel(v, dy, to, i, &h, &w, 1, 1, NAMED);
            else if (h.count == 1 && w.count == 2) gather_pixel(v, dy, to, i, &h, &w, 1, 2, NAMED);
            else if (h.count == 2 && w.count == 1) gather_pixel(v, dy, to, i, &h, &w, 2, 1, NAMED);
            else if (h.count == 2 && w.count == 2) gather_pixel(v, dy, to, i, &h, &w, 2, 2, NAMED);
            else gather_pixel(v, dy, to, i, &h, &w, 0, 0, NAMED);
        }
    }
}

/* dy of one image, divided by the number of cells of each window that are inside the image. */
static void shares_of_image(const pool *v, int64_t image, const float *dy, float *share)
{
    for (int64_t oh = 0; oh < v->h.out; oh++)
        for (int64_t ow = 0; ow < v->w.out; ow++, share += v->C) {
            const span   h = span_of(&v->h, oh), w = span_of(&v->w, ow);
            const float *from = dy + ((image * v->h.out + oh) * v->w.out + ow) * v->C;
            const vf     cells = vf_all((float)((h.to - h.from) * (w.to - w.from)));
            IN_GROUPS(1, {
                (void)V;
                store(share + c, vf_div(load(from + c, left), cells), left);
            });
        }
}

/* ---- slots ------------------------------------------------------------------------------------------------------------------- */

static __attribute__((noinline)) void each_max_of_any(pool v, const float *x, float *y) { each_window(&v, x, y, max_of_any); }

static void f32_max_pool(const lki_args *g)
{
    const pool v = pool_of(g, g->src[0].shape, g->dst[0].shape, g->ndst > 1 ? &g->dst[1] : NULL);
    const bool four = v.h.size == 2 && v.w.size == 2; /* then, if masks are cheap, max_of_any is faster than max_and_byte */
    if (!v.cell) each_window(&v, g->src[0].data, g->dst[0].data, max_alone);
    else if (v.cell->dtype != LK_U8 || (four && HAS_MANY_REGISTERS)) each_max_of_any(v, g->src[0].data, g->dst[0].data);
    else each_window(&v, g->src[0].data, g->dst[0].data, max_and_byte);
}

static void f32_max_pool_pick(const lki_args *g)
{
    const pool v = pool_of(g, g->src[0].shape, g->dst[0].shape, &g->src[1]);
    each_window(&v, g->src[0].data, g->dst[0].data, pick_of);
}

static bool windows_overlap(const pool *v) { return v->h.stride < v->h.size || v->w.stride < v->w.size; }

/* Every pixel lies in a window. */
static bool windows_cover(const pool *v)
{
    const bool h = v->h.stride == v->h.size && v->h.out * v->h.stride - v->h.pad >= v->h.in;
    return h && v->w.stride == v->w.size && v->w.out * v->w.stride - v->w.pad >= v->w.in;
}

static void clear(float *dx, int64_t lo, int64_t hi) { memset(dx + lo, 0, (size_t)(hi - lo) * sizeof *dx); }

static void f32_max_pool_grad(const lki_args *g)
{
    const pool v = pool_of(g, g->dst[0].shape, g->src[0].shape, &g->src[1]);
    float     *dx = g->dst[0].data;
    if (g->lo >= g->hi) return;
    if (windows_overlap(&v)) {
        for (int64_t image = v.first; image < v.first + v.images; image++)
            gather_image(&v, image, image * v.h.out * v.w.out, g->src[0].data, dx, 1);
        return;
    }
    if (!windows_cover(&v)) clear(dx, g->lo, g->hi);
    each_window(&v, g->src[0].data, dx, scatter_of);
}

static void f32_avg_pool(const lki_args *g)
{
    const pool v = pool_of(g, g->src[0].shape, g->dst[0].shape, NULL);
    each_window(&v, g->src[0].data, g->dst[0].data, average_of);
}

/* The shares of one image, if they are read more than once. */
static size_t avg_pool_grad_scratch(const lki_args *g)
{
    const pool v = pool_of(g, g->dst[0].shape, g->src[0].shape, NULL);
    return windows_overlap(&v) ? (size_t)(v.h.out * v.w.out * v.C) * sizeof(float) : 0;
}

static void f32_avg_pool_grad(const lki_args *g)
{
    const pool v = pool_of(g, g->dst[0].shape, g->src[0].shape, NULL);
    float     *dx = g->dst[0].data;
    if (g->lo >= g->hi) return;
    if (windows_overlap(&v)) {
        for (int64_t image = v.first; image < v.first + v.images; image++) {
            shares_of_image(&v, image, g->src[0].data, g->scratch);
            gather_image(&v, image, 0, g->scratch, dx, 0);
        }
        return;
    }
    if (!windows_cover(&v)) clear(dx, g->lo, g->hi);
    each_window(&v, g->src[0].data, dx, spread_share);
}

void ISA(lki_register_pool)(lki_kernels *k)
{
    lki_kernel_set(k, LKI_K_max_pool, LK_F32, f32_max_pool, NULL, VARIANT);
    lki_kernel_set(k, LKI_K_max_pool_grad, LK_F32, f32_max_pool_grad, NULL, VARIANT);
    lki_kernel_set(k, LKI_K_max_pool_pick, LK_F32, f32_max_pool_pick, NULL, VARIANT);
    lki_kernel_set(k, LKI_K_avg_pool, LK_F32, f32_avg_pool, NULL, VARIANT);
    lki_kernel_set(k, LKI_K_avg_pool_grad, LK_F32, f32_avg_pool_grad, avg_pool_grad_scratch, VARIANT);
}
