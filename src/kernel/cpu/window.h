/* The borders of convolutions and pools, one axis at a time.
 *
 * Cells outside the image are left out of sums, so results near a border have shorter chains. Along one axis, neighbouring results
 * with the same set of taps form a run; a product of a row run and a column run is a set of results that one kind of tile computes,
 * and the inside of the image is one such set. The taps of a run are at equal distances in the source.
 *
 *     forward    result o, tap k, source o*stride - pad + k*dilation. Runs are neighbours.
 *     backward   result i (a cell of the image), source o (an output), tap k = (i + pad - o*stride) / dilation if that is whole; o
 *                ascends, so k descends. Results with the same i mod stride form runs; their taps are q = stride / gcd(stride,
 *                dilation) apart. Each tap has a place: grouped by k mod q, descending inside a group, so that the taps of a run
 *                are adjacent there too. */
#ifndef LKI_KERNEL_CPU_WINDOW_H
#define LKI_KERNEL_CPU_WINDOW_H

#include "kernel/kernel.h"

typedef struct lki_axis {
    int64_t in, out; /* cells of the image, outputs */
    int64_t size, stride, dilation, pad;
} lki_axis;

typedef struct lki_window_run {
    int64_t at, step, count; /* results at, at + step, ... */
    int64_t from, from_step; /* the source under the first tap, for the first result; more for each further result */
    int64_t tap, taps;       /* place of the first tap, number of taps */
    int64_t tap_step;        /* distance of taps in the source */
} lki_window_run;

static inline lki_axis lki_axis_of(const lki_window *w, int axis, int64_t in, int64_t out)
{
    return (lki_axis){in, out, w->size[axis], w->stride[axis], w->dilation[axis], w->pad[axis]};
}

static inline int64_t lki_ceil_div_signed(int64_t a, int64_t b) { return a > 0 ? (a + b - 1) / b : -(-a / b); }
static inline int64_t lki_clamp(int64_t x, int64_t low, int64_t high) { return lki_max(low, lki_min(x, high)); }

/* The first output for which tap k is inside the image, and the first after it for which it is not. */
static inline int64_t lki_first_out(const lki_axis *x, int64_t k)
{
    return lki_clamp(lki_ceil_div_signed(x->pad - k * x->dilation, x->stride), 0, x->out);
}
static inline int64_t lki_last_out(const lki_axis *x, int64_t k)
{
    return lki_clamp(lki_ceil_div_signed(x->in + x->pad - k * x->dilation, x->stride), 0, x->out);
}

/* The first tap inside the image for output o, and the first after it. */
static inline int64_t lki_first_tap(const lki_axis *x, int64_t o)
{
    return lki_clamp(lki_ceil_div_signed(x->pad - o * x->stride, x->dilation), 0, x->size);
}
static inline int64_t lki_last_tap(const lki_axis *x, int64_t o)
{
    return lki_clamp(lki_ceil_div_signed(x->in + x->pad - o * x->stride, x->dilation), 0, x->size);
}

/* The next run; start with a zeroed one. False if there are no more. `end` bounds the results. */
static inline bool lki_window_run_forward(const lki_axis *x, lki_window_run *r, int64_t end)
{
    const int64_t o = r->at + r->count;
    if (o >= end) return false;
    const int64_t k0 = lki_first_tap(x, o), k1 = lki_max(k0, lki_last_tap(x, o));
    *r = (lki_window_run){o, 1, 1, o * x->stride - x->pad + k0 * x->dilation, x->stride, k0, k1 - k0, x->dilation};
    while (o + r->count < end && lki_first_tap(x, o + r->count) == k0 && lki_max(k0, lki_last_tap(x, o + r->count)) == k1)
        r->count++;
    return true;
}

static inline int64_t lki_gcd(int64_t a, int64_t b)
{
    while (b) {
        const int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* The place of tap k. */
static inline int64_t lki_tap_place(const lki_axis *x, int64_t k)
{
    const int64_t q = x->stride / lki_gcd(x->stride, x->dilation);
    int64_t       place = 0;
    for (int64_t group = 0; group < k % q; group++)
        place += (x->size - group + q - 1) / q;
    return place + (x->size - 1 - k) / q;
}

/* The taps that read cell i: the first output and its tap; how many. */
static inline int64_t lki_reach(const lki_axis *x, int64_t i, int64_t *o, int64_t *k)
{
    const int64_t g = lki_gcd(x->stride, x->dilation), t = i + x->pad;
    const int64_t end = lki_min(x->out - 1, t / x->stride); /* t is not negative */
    *k = *o = 0;
    if (t % g) return 0;
    int64_t at = lki_max(0, lki_ceil_div_signed(t - (x->size - 1) * x->dilation, x->stride));
    while (at <= end && (t - at * x->stride) % x->dilation)
        at++;
    if (at > end) return 0;
    *o = at;
    *k = (t - at * x->stride) / x->dilation;
    return (end - at) / (x->dilation / g) + 1;
}

/* The next run over the cells of the image; start with a zeroed one. */
static inline bool lki_window_run_backward(const lki_axis *x, lki_window_run *r)
{
    int64_t i = 0;
    if (r->count && (i = r->at + r->count * x->stride) >= x->in) { /* the next phase */
        i = r->at % x->stride + 1;
        if (i >= x->stride) return false;
    }
    if (i >= x->in) return false;

    int64_t       o, k, o2, k2;
    const int64_t taps = lki_reach(x, i, &o, &k);
    *r = (lki_window_run){
        i, x->stride, 1, o, 1, taps ? lki_tap_place(x, k) : 0, taps, x->dilation / lki_gcd(x->stride, x->dilation)};
    for (i += x->stride; i < x->in && lki_reach(x, i, &o2, &k2) == taps; i += x->stride) {
        if (taps && (k2 != k || o2 != o + r->count)) break;
        r->count++;
    }
    return true;
}

#endif
