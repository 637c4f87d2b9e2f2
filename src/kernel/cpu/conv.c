/* conv2d and conv2d_grad_x with tiles (products.h): results are pixels x channels, and a chain runs over taps and source channels.
 *
 * Order of summation: one chain per result. Forward: kh, kw, in, all ascending. Data gradient: output row, output column, out
 * channel; that is a convolution of dy with the taps in descending order (window.h) and their matrices transposed, so both are one
 * routine here. Cells outside the image are left out by giving each run of pixels its own taps, not by adding zeros.
 *
 * Shapes that are WINOGRAD (winograd.h) have another definition and are computed in winograd.inc.
 *
 * There are three ways: a tile of any pixels of a run, also from different rows and images; thin.inc for 3x3 taps on one source
 * channel; with a fused pool, pixels in the order of the windows if all pixels have the same taps, else through one image in
 * scratch. */
#include "kernel/cpu/products.h"
#include "kernel/cpu/simd.h"
#include "kernel/cpu/transpose.h"
#include "kernel/cpu/window.h"
#include <assert.h>

enum { POOL_CHUNK = 24 }; /* pixels pooled together: whole tiles and whole windows */

typedef struct conv {
    int          backward;
    lki_axis     axis[2];
    int64_t      images, SH, SW, SC; /* the source: x, or dy */
    int64_t      DH, DW, N;          /* the result, before pooling */
    const float *src;
    float       *dst;
    uint8_t     *cell;           /* with dst pooled; else NULL */
    const float *b;              /* weights: panel of COLS columns, place of the tap, source channel, column */
    int64_t      b_row, b_panel; /* distance of rows and of panels */
    const float *bias;
    int          relu;
} conv;

static bool next_run(const conv *v, int axis, lki_window_run *r)
{
    return v->backward ? lki_window_run_backward(&v->axis[axis], r)
                       : lki_window_run_forward(&v->axis[axis], r, axis ? v->DW : v->DH);
}

/* ---- pixels of a run --------------------------------------------------------------------------------------------------------- */

typedef struct pixels {
    int64_t n, y, x; /* image, row of the run, column of the run */
} pixels;

static inline void next_pixel(pixels *p, const lki_window_run *rows, const lki_window_run *cols)
{
    if (++p->x < cols->count) return;
    p->x = 0;
    if (++p->y < rows->count) return;
    p->y = 0;
    p->n++;
}

static inline const float *source_at(const conv *v, const lki_window_run *rows, const lki_window_run *cols, int64_t n, int64_t y,
                                     int64_t x)
{
    return v->src + ((n * v->SH + rows->from + y * rows->from_step) * v->SW + cols->from + x * cols->from_step) * v->SC;
}

/* The part of a tile that all pixels of a run share. */
static lki_tile tile_of(const conv *v, const lki_window_run *rows, const lki_window_run *cols, int64_t n)
{
    const int64_t panel = n / COLS, taps = v->axis[1].size;
    lki_tile      t = {
             .b = v->b + panel * v->b_panel + (rows->tap * taps + cols->tap) * v->SC * v->b_row,
             .cols = (int)lki_min(COLS, v->N - n),
             .count = {v->SC, cols->taps, rows->taps},
             .astep = {1, cols->tap_step * v->SC, rows->tap_step * v->SW * v->SC},
             .bstep = {v->b_row, v->SC * v->b_row, taps * v->SC * v->b_row},
             .bias = v->bias ? v->bias + n : NULL,
             .relu = v->relu,
    };
    if (cols->tap_step == 1) { /* adjacent taps: one long row of the source */
        t.count[0] *= t.count[1];
        t.count[1] = 1;
    }
    return t;
}

static void run_of_tiles(const conv *v, const lki_window_run *rows, const lki_window_run *cols, int64_t n)
{
    lki_tile      t = tile_of(v, rows, cols, n);
    const int64_t total = v->images * rows->count * cols->count, pieces = lki_even_pieces(total, rows_for(t.cols));
    pixels        at = {0};
    for (int64_t p = 0, done = 0; p < pieces; p++) {
        const int64_t end = lki_even_begin(total, pieces, p + 1), count = end - done;
        for (int64_t i = 0; i < count; i++) {
            t.a[i] = source_at(v, rows, cols, at.n, at.y, at.x);
            t.c[i] = v->dst + ((at.n * v->DH + rows->at + at.y * rows->step) * v->DW + cols->at + at.x * cols->step) * v->N + n;
            next_pixel(&at, rows, cols);
        }
        ISA(lki_tile)((int)count, &t);
        done = end;
    }
}

/* ---- the fused pool ---------------------------------------------------------------------------------------------------------- */

/* The largest of the four results of a window, and which it is. With relu only the first needs it: others are chosen only if
 * larger, and so larger than 0. `careful`: there may be NaN. */
static inline __attribute__((always_inline)) vf largest(vf a, vf b, vf c, vf d, int relu, int careful, vb *which)
{
    vf best = relu ? vf_relu(a) : a;
    vm wins;
    *which = vb_all(0);
#define CONTEST(x, k)                                                                                                              \
    wins = careful ? vm_wins(x, best) : vm_above(x, best);                                                                         \
    best = vf_select(wins, x, best);                                                                                               \
    *which = vb_select(wins, k, *which);
    CONTEST(b, 1)
    CONTEST(c, 2)
    CONTEST(d, 3)
#undef CONTEST
    return best;
}

/* The largest of four rows of `cols` results, and which it is; rows are `row` floats apart. */
static void pool_window(const float *first, const float *second, int64_t row, int cols, float *y, uint8_t *cell)
{
    for (int c = 0; c < cols; c += WIDTH) {
        const int n = cols - c < WIDTH ? cols - c : WIDTH;
        const vm  some = vm_first(n);
        const vf  x[4] = {vf_load_some(first + c, some), vf_load_some(first + row + c, some), vf_load_some(second + c, some),
                          vf_load_some(second + row + c, some)};
        vf        best = x[0];
        vi        which = vi_all(0);
        for (int i = 1; i < 4; i++) {
            const vm wins = vm_wins(x[i], best);
            best = vf_select(wins, x[i], best);
            which = vi_select(wins, vi_all(i), which);
        }
        if (n == WIDTH) vf_store(y + c, best);
        else vf_store_some(y + c, some, best);
        vi_to_bytes(cell + c, which, n);
    }
}

/* If all pixels have the same taps: tiles of pixels in the order of the windows, four each, into a buffer that stays in L1. */
static void pool_tiles(const conv *v, const lki_window_run *rows, const lki_window_run *cols, int64_t n)
{
    _Alignas(64) float chunk[POOL_CHUNK * COLS];
    lki_tile           t = tile_of(v, rows, cols, n);
    const int64_t      PH = v->DH / 2, PW = v->DW / 2, total = v->images * PH * PW;

    for (int64_t w = 0; w < total; w += POOL_CHUNK / 4) {
        const int64_t windows = lki_min(POOL_CHUNK / 4, total - w), pieces = lki_even_pieces(4 * windows, rows_for(t.cols));
        for (int64_t p = 0; p < pieces; p++) {
            const int64_t begin = lki_even_begin(4 * windows, pieces, p),
                          count = lki_even_begin(4 * windows, pieces, p + 1) - begin;
            for (int64_t i = 0; i < count; i++) {
                const int64_t at = w + (begin + i) / 4, q = (begin + i) % 4;
                t.a[i] = source_at(v, rows, cols, at / (PH * PW), at / PW % PH * 2 + q / 2, at % PW * 2 + q % 2);
                t.c[i] = chunk + (begin + i) * COLS;
            }
            ISA(lki_tile)((int)count, &t);
        }
        for (int64_t i = 0; i < windows; i++)
            pool_window(chunk + 4 * i * COLS, chunk + (4 * i + 2) * COLS, COLS, t.cols, v->dst + (w + i) * v->N + n,
                        v->cell + (w + i) * v->N + n);
    }
}

/* ---- all of it --------------------------------------------------------------------------------------------------------------- */

#include "kernel/cpu/thin.inc"
#include "kernel/cpu/winograd.inc"

static void convolve(const conv *v)
{
    for (int64_t n = 0; n < v->N; n += COLS)
        for (lki_window_run rows = {0}; next_run(v, 0, &rows);)
            for (lki_window_run cols = {0}; next_run(v, 1, &cols);) {
                if (is_thin(v, &rows, &cols) && cols.count >= THIN_PIXELS) thin(v, &rows, &cols, n);
                else run_of_tiles(v, &rows, &cols, n);
            }
}

/* Each image into scratch, then its windows. */
static void convolve_pool_image(const conv *v, float *image)
{
    const int64_t PH = v->DH / 2, PW = v->DW / 2;
    for (int64_t n = 0; n < v->images; n++) {
        conv one = *v;
        one.images = 1;
        one.src += n * v->SH * v->SW * v->SC;
        one.dst = image;
        convolve(&one);
        for (int64_t i = 0; i < PH * PW; i++) {
            const float *first = image + (i / PW * 2 * v->DW + i % PW * 2) * v->N;
            pool_window(first, first + v->DW * v->N, v->N, (int)v->N, v->dst + (n * PH * PW + i) * v->N,
                        v->cell + (n * PH * PW + i) * v->N);
        }
    }
}

static void convolve_pool(const conv *v, float *image)
{
    lki_window_run rows = {0}, cols = {0};
    if (!next_run(v, 0, &rows) || !next_run(v, 1, &cols)) return;
    if (rows.count < v->DH || cols.count < v->DW) {
        convolve_pool_image(v, image);
        return;
    }
    if (is_thin(v, &rows, &cols)) {
        thin_pooled(v, &rows, &cols);
        return;
    }
    for (int64_t n = 0; n < v->N; n += COLS)
        pool_tiles(v, &rows, &cols, n);
}

/* ---- slots ------------------------------------------------------------------------------------------------------------------- */

static int64_t images_of(const lk_shape *s)
{
    int64_t images = 1;
    for (int d = 0; d < s->rank - 3; d++)
        images *= s->dim[d];
    return images;
}

/* Sizes of the forward convolution; pixels of the result that a fused pool leaves out are not counted. */
static conv forward_of(const lki_args *g)
{
    const int64_t *x = &g->src[0].shape->dim[g->src[0].shape->rank - 3], *y = &g->dst[0].shape->dim[g->dst[0].shape->rank - 3];
    const int      pool = g->attr->epilogue.pool ? 2 : 1;
    conv           v = {.SH = x[0], .SW = x[1], .SC = x[2], .DH = y[0] * pool, .DW = y[1] * pool, .N = y[2]};
    v.axis[0] = lki_axis_of(&g->attr->window, 0, v.SH, v.DH);
    v.axis[1] = lki_axis_of(&g->attr->window, 1, v.SW, v.DW);
    return v;
}

static bool is_winograd(const conv *v, const lki_args *g)
{
    return lki_is_winograd(&g->attr->window, v->backward ? g->dst[0].shape : g->src[0].shape, g->src[1].shape);
}

/* One vector of columns fills half a tile; the AVX2 kernel has shorter vectors, so all of its work is useful, and its scratch
 * fits. */
static bool is_narrow_winograd(const conv *v, const lki_args *g) { return v->N <= WIDTH && is_winograd(v, g); }

static int64_t weight_rows(const conv *v) { return v->axis[0].size * v->axis[1].size * v->SC; }

/* Unpacked, the rows of a panel are N floats apart; if that is far, they compete for a few cache sets. */
static int packs(const conv *v) { return v->N > 2 * COLS; }

static size_t forward_scratch(const lki_args *g)
{
    const conv v = forward_of(g);
    if (is_winograd(&v, g)) return (size_t)winograd_of(&v).total * sizeof(float);
    const int64_t weights = packs(&v) ? weight_rows(&v) * lki_round_up(v.N, COLS) : 0;
    const int64_t image = g->attr->epilogue.pool ? v.DH * v.DW * v.N : 0;
    return (size_t)(weights + image) * sizeof(float);
}

static void pack_weights(conv *v, const float *w, float *room)
{
    const int64_t rows = weight_rows(v);
    v->b = room;
    v->b_row = COLS;
    v->b_panel = rows * COLS;
    for (int64_t n = 0; n < v->N; n += COLS) {
        const size_t bytes = (size_t)lki_min(COLS, v->N - n) * sizeof(float);
        for (int64_t r = 0; r < rows; r++)
            memcpy(room + (n * rows + r * COLS), w + r * v->N + n, bytes);
    }
}

void ISA(lki_f32_conv2d)(const lki_args *g)
{
    conv          v = forward_of(g);
    const int     pool = g->attr->epilogue.pool;
    const int64_t image = v.DH * v.DW * v.N / (pool ? 4 : 1);
    float        *room = g->scratch;
    if (g->lo >= g->hi) return;
    if (IS_NARROW(v.N) || is_narrow_winograd(&v, g)) {
        lki_f32_conv2d_avx2(g);
        return;
    }

    v.images = (g->hi - g->lo) / image;
    v.src = (const float *)g->src[0].data + g->lo / image * (v.SH * v.SW * v.SC);
    v.dst = (float *)g->dst[0].data + g->lo;
    v.bias = g->attr->epilogue.bias ? g->src[2].data : NULL;
    v.relu = g->attr->epilogue.relu;
    v.b = g->src[1].data;
    v.b_row = v.N;
    v.b_panel = COLS;
    if (pool) v.cell = (uint8_t *)g->dst[1].data + g->lo;
    if (!is_winograd(&v, g) && packs(&v)) {
        pack_weights(&v, v.b, room);
        room += weight_rows(&v) * lki_round_up(v.N, COLS);
    }
    if (is_winograd(&v, g)) convolve_winograd(&v, room);
    else if (pool) convolve_pool(&v, room);
    else convolve(&v);
}

static conv backward_of(const lki_args *g)
{
    const int64_t *dy = &g->src[0].shape->dim[g->src[0].shape->rank - 3], *x = &g->dst[0].shape->dim[g->dst[0].shape->rank - 3];
    conv           v = {.backward = 1, .SH = dy[0], .SW = dy[1], .SC = dy[2], .DH = x[0], .DW = x[1], .N = x[2]};
    v.axis[0] = lki_axis_of(&g->attr->window, 0, v.DH, v.SH);
    v.axis[1] = lki_axis_of(&g->attr->window, 1, v.DW, v.SW);
    return v;
}

static size_t backward_scratch(const lki_args *g)
{
    const conv v = backward_of(g);
    if (is_winograd(&v, g)) return (size_t)winograd_of(&v).total * sizeof(float);
    return (size_t)(weight_rows(&v) * lki_round_up(v.N, COLS)) * sizeof(float);
}

/* [tap, in, out] to panels of [place of the tap, out, in]. */
static void turn_weights(conv *v, const float *w, float *room)
{
    const int64_t KH = v->axis[0].size, KW = v->axis[1].size, rows = weight_rows(v);
    v->b = room;
    v->b_row = COLS;
    v->b_panel = rows * COLS;
    for (int64_t t = 0; t < KH * KW; t++) {
        const int64_t place = lki_tap_place(&v->axis[0], t / KW) * KW + lki_tap_place(&v->axis[1], t % KW);
        for (int64_t n = 0; n < v->N; n += COLS)
            lki_transpose(w + (t * v->N + n) * v->SC, v->SC, lki_min(COLS, v->N - n), v->SC, room + n * rows + place * v->SC * COLS,
                          COLS);
    }
}

void ISA(lki_f32_conv2d_grad_x)(const lki_args *g)
{
    conv          v = backward_of(g);
    const int64_t image = v.DH * v.DW * v.N;
    if (g->lo >= g->hi) return;
    if (IS_NARROW(v.N) || is_narrow_winograd(&v, g)) {
        lki_f32_conv2d_grad_x_avx2(g);
        return;
    }
    v.images = (g->hi - g->lo) / image;
    v.src = (const float *)g->src[0].data + g->lo / image * (v.SH * v.SW * v.SC);
    v.dst = (float *)g->dst[0].data + g->lo;
    if (is_winograd(&v, g)) {
        v.b = g->src[1].data;
        convolve_winograd(&v, g->scratch);
        return;
    }
    turn_weights(&v, g->src[1].data, g->scratch);
    convolve(&v);
}

#include "kernel/cpu/conv_grad_w.inc"

void ISA(lki_register_conv)(lki_kernels *k)
{
    lki_kernel_set(k, LKI_K_conv2d, LK_F32, ISA(lki_f32_conv2d), forward_scratch, VARIANT);
    lki_kernel_set(k, LKI_K_conv2d_grad_x, LK_F32, ISA(lki_f32_conv2d_grad_x), backward_scratch, VARIANT);
    lki_kernel_set(k, LKI_K_conv2d_grad_w, LK_F32, ISA(lki_f32_conv2d_grad_w), grad_w_scratch, VARIANT);
}
