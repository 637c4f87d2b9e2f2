/* What the tests of products and pools share: a case (one call of one slot), data for it, and the check that every vectorised
 * kernel gives the bits of the reference, for the whole range and for parts of it, and writes nothing outside of range and scratch.
 * Data is plain or wild: with zeros of both signs, tiny, infinite and NaN. All NaN count as equal. */
#ifndef LK_TESTS_OP_CASES_H
#define LK_TESTS_OP_CASES_H

#include "check.h"
#include "core/thread.h"
#include "kernel/register.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_LANES = 16, GUARD = 64 };

/* ---- cases ------------------------------------------------------------------------------------------------------------------- */

typedef struct cas {
    lki_slot slot;
    lk_dtype dtype;
    int      nsrc, ndst, lanes; /* lanes 0: none */
    lk_shape src[4], dst[2];
    lk_dtype second; /* of cells */
    int64_t  unit;   /* lo and hi are multiples of this */
    int64_t  bound[MAX_LANES + 1];
    int64_t  columns[2]; /* of a matmul; both 0: all */
    lki_attr attr;
    void    *data[4]; /* of src */
} cas;

static lki_kernels table[LKI_ISA_COUNT];
static uint64_t    seed = 88172645463325252u;

static uint64_t random_word(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed;
}

static inline int64_t random_below(int64_t n) { return (int64_t)(random_word() >> 11) % n; }
static inline int64_t pick(const int64_t *from, int64_t n) { return from[random_below(n)]; }
#define PICK(...) pick((const int64_t[]){__VA_ARGS__}, (int64_t)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)))

static inline double random_number(int wild)
{
    const double x = (double)(int64_t)(random_word() >> 11) / 0x1p52 - 1;
    if (!wild) return x;
    const int64_t kind = random_below(200);
    return kind < 40   ? 0
           : kind < 60 ? -0.0
           : kind < 80 ? x * 1e-30
           : kind < 82 ? INFINITY
           : kind < 84 ? -INFINITY
           : kind < 85 ? NAN
                       : x;
}

static inline int64_t size_of(const lk_shape *s)
{
    int64_t n = 1;
    for (int i = 0; i < s->rank; i++)
        n *= s->dim[i];
    return n;
}

static inline size_t bytes_of(lk_dtype t) { return t == LK_F64 ? 8 : t == LK_U8 ? 1 : 4; }

static inline double get(lk_dtype t, const void *p, int64_t i)
{
    return t == LK_F64   ? ((const double *)p)[i]
           : t == LK_F32 ? (double)((const float *)p)[i]
           : t == LK_U8  ? ((const uint8_t *)p)[i]
                         : ((const int32_t *)p)[i];
}

static inline void *numbers(lk_dtype t, const lk_shape *s, int wild)
{
    const int64_t n = size_of(s);
    void         *p = malloc((size_t)n * bytes_of(t) + 1);
    for (int64_t i = 0; i < n; i++) {
        if (t == LK_F64) ((double *)p)[i] = random_number(wild);
        else ((float *)p)[i] = (float)random_number(wild);
    }
    return p;
}

static inline void fill_sources(cas *c, int wild)
{
    for (int i = 0; i < c->nsrc; i++)
        c->data[i] = numbers(c->dtype, &c->src[i], wild);
}

/* Pictures on a blank ground: zeros of both signs, but for a rectangle somewhere; now and then nothing at all. */
static inline void blank_ground(const lk_shape *x, float *p)
{
    const int64_t H = x->dim[1], W = x->dim[2], C = x->dim[3];
    for (int64_t image = 0; image < x->dim[0]; image++) {
        const int64_t top = random_below(H + 1), left = random_below(W + 1), high = random_below(H), wide = random_below(W);
        for (int64_t i = 0; i < H * W * C; i++, p++)
            if (i / C / W < top || i / C / W > top + high || i / C % W < left || i / C % W > left + wide) *p = i % 5 ? 0.0f : -0.0f;
    }
}

static inline void free_sources(cas *c)
{
    for (int i = 0; i < c->nsrc; i++)
        free(c->data[i]);
}

static inline void random_lanes(cas *c, int count, int64_t rows)
{
    c->lanes = count;
    c->bound[0] = 0;
    for (int s = 1; s <= count; s++)
        c->bound[s] = s == count ? rows : lki_min(rows, c->bound[s - 1] + random_below(2 * rows / count + 2));
}

/* ---- running a kernel -------------------------------------------------------------------------------------------------------- */

typedef struct result {
    void *dst[2];
} result;

/* Of a result: a second one is cells, but for the gradient of a bias. */
static inline lk_dtype dtype_of(const cas *c, int i) { return i && c->slot != LKI_K_conv2d_pool_grad_w ? c->second : c->dtype; }

/* Which operand is the cells of a pool; -1: none. */
static inline int cells_at(lki_slot slot)
{
    if (slot == LKI_K_conv2d_pool_grad_w) return 2;
    return slot == LKI_K_max_pool_grad || slot == LKI_K_max_pool_pick || slot == LKI_K_conv2d_pool_grad_x ? 1 : -1;
}

/* Runs [lo, hi) with guarded outputs and scratch. */
static inline void run_range(const lki_kernels *k, const cas *c, result *r, int64_t lo, int64_t hi)
{
    lki_view        src[4], dst[2];
    const lki_lanes lanes = {c->lanes, c->bound};
    for (int i = 0; i < c->nsrc; i++)
        src[i] = (lki_view){c->data[i], &c->src[i], i == cells_at(c->slot) ? c->second : c->dtype};
    for (int i = 0; i < c->ndst; i++)
        dst[i] = (lki_view){r->dst[i], &c->dst[i], dtype_of(c, i)};
    lki_args     a = {.src = src,
                      .dst = dst,
                      .nsrc = c->nsrc,
                      .ndst = c->ndst,
                      .attr = &c->attr,
                      .lanes = c->lanes ? &lanes : NULL,
                      .lo = lo,
                      .hi = hi,
                      .columns = {c->columns[0], c->columns[1]}};
    const size_t bytes = k->scratch[c->slot][c->dtype] ? k->scratch[c->slot][c->dtype](&a) : 0;
    uint8_t     *scratch = aligned_alloc(64, (bytes + GUARD + 63) / 64 * 64);
    memset(scratch, 0xff, bytes + GUARD); /* NaN, should anyone read it */
    a.scratch = bytes ? scratch : NULL;
    k->fn[c->slot][c->dtype](&a);
    for (int i = 0; i < GUARD; i++)
        assert_int_equal(scratch[bytes + (size_t)i], 0xff);
    free(scratch);
}

static inline result results_for(const cas *c)
{
    result r = {{0}};
    for (int i = 0; i < c->ndst; i++) {
        const size_t bytes = (size_t)size_of(&c->dst[i]) * bytes_of(dtype_of(c, i)) + GUARD;
        r.dst[i] = malloc(bytes);
        memset(r.dst[i], 0xa5, bytes);
    }
    return r;
}

static inline void free_result(result r)
{
    free(r.dst[0]);
    free(r.dst[1]);
}

static inline result run_all(const lki_kernels *k, const cas *c)
{
    result r = results_for(c);
    run_range(k, c, &r, 0, size_of(&c->dst[0]));
    return r;
}

static inline void describe(const cas *c, const char *what, int64_t at)
{
    fprintf(stderr, "%s, element %lld, lanes %d, epilogue %d%d%d\n", what, (long long)at, c->lanes, c->attr.epilogue.bias,
            c->attr.epilogue.relu, c->attr.epilogue.pool);
    for (int i = 0; i < c->nsrc + c->ndst; i++) {
        const lk_shape *s = i < c->nsrc ? &c->src[i] : &c->dst[i - c->nsrc];
        fprintf(stderr, i < c->nsrc ? "  src" : "  dst");
        for (int d = 0; d < s->rank; d++)
            fprintf(stderr, " %lld", (long long)s->dim[d]);
    }
    const lki_window *w = &c->attr.window;
    fprintf(stderr, "\n  slot %d, stride %lld %lld, dilation %lld %lld, pad %lld %lld (or ta, tb)\n", (int)c->slot,
            (long long)w->stride[0], (long long)w->stride[1], (long long)w->dilation[0], (long long)w->dilation[1],
            (long long)w->pad[0], (long long)w->pad[1]);
}

static inline void same_bits(const cas *c, const char *what, result a, result b)
{
    for (int d = 0; d < c->ndst; d++) {
        const size_t  each = bytes_of(dtype_of(c, d));
        const int64_t n = size_of(&c->dst[d]);
        for (int64_t i = 0; i < n; i++) {
            if (!memcmp((char *)a.dst[d] + (size_t)i * each, (char *)b.dst[d] + (size_t)i * each, each)) continue;
            if (isnan(get(dtype_of(c, d), a.dst[d], i)) && isnan(get(dtype_of(c, d), b.dst[d], i))) continue;
            describe(c, what, i);
            fprintf(stderr, "  %.9g and %.9g\n", get(dtype_of(c, d), a.dst[d], i), get(dtype_of(c, d), b.dst[d], i));
            fail();
        }
        assert_memory_equal((char *)a.dst[d] + (size_t)n * each, (char *)b.dst[d] + (size_t)n * each, GUARD); /* untouched */
    }
}

/* The middle of three parts alone, then the outer two: what is outside the range stays as it was. */
static inline result run_parts(const lki_kernels *k, const cas *c)
{
    const int64_t n = size_of(&c->dst[0]), units = c->unit ? n / c->unit : 0;
    int64_t       p = random_below(units + 1) * c->unit, q = random_below(units + 1) * c->unit;
    if (p > q) {
        const int64_t swap = p;
        p = q;
        q = swap;
    }
    result r = results_for(c);
    run_range(k, c, &r, p, q);
    const size_t each = bytes_of(c->dtype);
    for (int64_t i = 0; i < n * (int64_t)each; i++)
        if (i < p * (int64_t)each || i >= q * (int64_t)each) assert_int_equal(((uint8_t *)r.dst[0])[i], 0xa5);
    run_range(k, c, &r, 0, p);
    run_range(k, c, &r, q, n);
    return r;
}

static inline void check(cas *c)
{
    const lki_isa  isa = lki_cpu_isa_machine();
    const int      flush = random_below(2) > 0; /* subnormals, as the library's threads do */
    const unsigned before = flush ? lki_fp_enter() : 0;
    const result   truth = run_all(&table[0], c);
    for (lki_isa i = LKI_ISA_REFERENCE; i <= isa; i++) {
        const result whole = run_all(&table[i], c), parts = run_parts(&table[i], c);
        same_bits(c, lki_isa_name(i), truth, whole);
        same_bits(c, "split range", truth, parts);
        free_result(whole);
        free_result(parts);
    }
    if (flush) lki_fp_leave(before);
    free_result(truth);
}

/* ---- images and windows ------------------------------------------------------------------------------------------------------ */

typedef struct layer {
    int64_t    batch, H, W, C, O, OH, OW;
    lki_window win;
    int        deep;   /* depthwise: O is the multiplier */
    int64_t    groups; /* grouped: C and O are those of a group; 0: not grouped */
} layer;

static inline int64_t outputs(int64_t in, int64_t k, int64_t stride, int64_t dilation, int64_t before, int64_t after)
{
    return lki_max(0, (in + before + after - (k - 1) * dilation - 1 + stride) / stride);
}

static inline layer layer_of(int64_t batch, int64_t H, int64_t W, int64_t C, int64_t O, lki_window win, int64_t after)
{
    layer l = {batch, H, W, C, O, 0, 0, win, 0, 0};
    l.OH = outputs(H, win.size[0], win.stride[0], win.dilation[0], win.pad[0], after);
    l.OW = outputs(W, win.size[1], win.stride[1], win.dilation[1], win.pad[1], after);
    return l;
}

static inline layer square(int64_t batch, int64_t size, int64_t C, int64_t O, int64_t k, int64_t stride, int64_t dilation,
                           int64_t pad)
{
    return layer_of(batch, size, size, C, O, (lki_window){{k, k}, {stride, stride}, {dilation, dilation}, {pad, pad}}, pad);
}

static inline int64_t image_channels(const layer *l) { return l->groups ? l->C * l->groups : l->C; }
static inline int64_t result_channels(const layer *l) { return l->groups ? l->O * l->groups : l->deep ? l->C * l->O : l->O; }

static inline double dot(const double *a, const double *b, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

/* The reference, in f64. */
static inline result run_f64(cas c, void *first, void *second)
{
    c.dtype = LK_F64;
    c.data[0] = first;
    c.data[1] = second;
    return run_all(&table[0], &c);
}

static inline cas pool_case(layer l, lki_slot slot)
{
    const lk_shape x = {4, {l.batch, l.H, l.W, l.C}}, y = {4, {l.batch, l.OH, l.OW, l.C}};
    const int      back = slot == LKI_K_max_pool_grad || slot == LKI_K_avg_pool_grad;
    cas            c = {.slot = slot, .dtype = LK_F32, .nsrc = 1, .ndst = 1};
    c.attr.window = l.win;
    c.second = l.win.size[0] * l.win.size[1] > 256 ? LK_I32 : LK_U8;
    c.src[0] = back ? y : x;
    c.dst[0] = back ? x : y;
    c.dst[1] = c.src[1] = y;
    c.unit = c.dst[0].dim[1] * c.dst[0].dim[2] * c.dst[0].dim[3];
    if (slot == LKI_K_max_pool) c.ndst = 2;
    return c;
}

static inline int fill_tables(void **state)
{
    (void)state;
    for (int i = 0; i < LKI_ISA_COUNT; i++)
        lki_register_products_ref(&table[i]);
#if defined(__x86_64__)
    lki_register_products_avx2(&table[LKI_ISA_AVX2]);
    lki_register_products_avx512(&table[LKI_ISA_AVX512]);
#endif
    return 0;
}

/* A weight gradient: one call with lanes is calls per lane, added up the tree. */
static inline void check_lane_tree(cas c, layer l)
{
    fill_sources(&c, 0);
    for (int count = 1; count <= 16; count *= 2) {
        random_lanes(&c, count, l.batch);
        const result  truth = run_all(&table[0], &c);
        const int64_t n = size_of(&c.dst[0]), x = l.H * l.W * l.C, y = l.OH * l.OW * l.O;
        result        lane[MAX_LANES];
        for (int s = 0; s < count; s++) {
            cas one = c;
            one.lanes = 0;
            one.src[0].dim[0] = one.src[1].dim[0] = c.bound[s + 1] - c.bound[s];
            one.data[0] = (float *)c.data[0] + c.bound[s] * x;
            one.data[1] = (float *)c.data[1] + c.bound[s] * y;
            lane[s] = run_all(&table[0], &one);
        }
        for (int step = 1; step < count; step *= 2)
            for (int s = 0; s < count; s += 2 * step)
                for (int64_t i = 0; i < n; i++)
                    ((float *)lane[s].dst[0])[i] += ((float *)lane[s + step].dst[0])[i];
        same_bits(&c, "tree of lanes", truth, lane[0]);
        for (int s = 0; s < count; s++)
            free_result(lane[s]);
        free_result(truth);
    }
    free_sources(&c);
}

#endif
