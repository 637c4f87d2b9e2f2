/* One call of one slot on the CPU's reference and on a GPU, compared: the same bits or, if the slot has another order on GPUs,
 * numbers within a tolerance. NaN counts as NaN. Memory around operands and results is guarded. The GPU is a simulated one unless
 * LOCKSTEP_TEST_GPU=cuda. */
#ifndef LK_TESTS_GPU_SLOTS_H
#define LK_TESTS_GPU_SLOTS_H

#include "check.h"
#include "core/dtype.h"
#include "core/thread.h"
#include "device/gpu/gpu.h"
#include "kernel/kernel.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 12, SLOT_GUARD = 64, SLOT_LANES = 64 };

typedef struct slot_case {
    lki_slot      slot;
    lk_dtype      dtype; /* row of the table */
    int           nsrc, ndst;
    lk_shape      src[MOST], dst[MOST];
    lk_dtype      src_type[MOST], dst_type[MOST];
    void         *src_data[MOST]; /* on the host; made by slot_numbers() or its like, freed by slot_check() */
    void         *dst_data[MOST]; /* what an in-place slot finds; NULL: bytes 0xa5 */
    lki_attr      attr;
    int           lanes; /* 0: none */
    int64_t       bound[SLOT_LANES + 1];
    int64_t       longest; /* lane of the whole batch; 0: of those here */
    int64_t       first;
    lki_precision precision;
    double        tolerance; /* relative to the largest of the result; 0: the same bits */
} slot_case;

/* ---- data ---- */

static uint64_t slot_seed = 88172645463325252u;

static inline uint64_t slot_word(void)
{
    slot_seed ^= slot_seed << 13;
    slot_seed ^= slot_seed >> 7;
    slot_seed ^= slot_seed << 17;
    return slot_seed;
}

static inline int64_t slot_below(int64_t n) { return n > 0 ? (int64_t)(slot_word() >> 11) % n : 0; }

static inline double slot_number(bool wild)
{
    const double  x = (double)(int64_t)(slot_word() >> 11) / 0x1p52 - 1;
    const int64_t kind = wild ? slot_below(200) : 199;
    return kind < 20   ? 0
           : kind < 30 ? -0.0
           : kind < 40 ? x * 1e-30
           : kind < 42 ? INFINITY
           : kind < 44 ? -INFINITY
           : kind < 46 ? NAN
           : kind < 60 ? x * 100
                       : x;
}

static inline void *slot_room(lk_dtype t, const lk_shape *s)
{
    return calloc(1, (size_t)lki_shape_size(s) * lk_dtype_bytes(t) + SLOT_GUARD);
}

/* Random numbers: floats in [-1, 1] or wild ones, integers in [-50, 50], u8 in [0, 255], bool 0 or 1. */
static inline void *slot_numbers(lk_dtype t, const lk_shape *s, bool wild)
{
    void *p = slot_room(t, s);
    for (int64_t i = 0; i < lki_shape_size(s); i++)
        lki_element_set(t, p, i,
                        t == LK_BOOL    ? (double)slot_below(2)
                        : t == LK_U8    ? (double)slot_below(256)
                        : lki_is_int(t) ? (double)(slot_below(101) - 50)
                                        : slot_number(wild));
    return p;
}

/* Integers from low up to high - 1. */
static inline void *slot_integers(lk_dtype t, const lk_shape *s, int64_t low, int64_t high)
{
    void *p = slot_room(t, s);
    for (int64_t i = 0; i < lki_shape_size(s); i++)
        lki_element_set(t, p, i, (double)(low + slot_below(high - low)));
    return p;
}

static inline void slot_source(slot_case *c, lk_dtype t, lk_shape s, void *data)
{
    c->src[c->nsrc] = s;
    c->src_type[c->nsrc] = t;
    c->src_data[c->nsrc++] = data;
}

static inline void slot_result(slot_case *c, lk_dtype t, lk_shape s, void *data)
{
    c->dst[c->ndst] = s;
    c->dst_type[c->ndst] = t;
    c->dst_data[c->ndst++] = data;
}

/* Some empty, some large; together all `entries`. */
static inline void slot_lanes(slot_case *c, int count, int64_t entries)
{
    c->lanes = count;
    c->bound[0] = 0;
    for (int s = 1; s <= count; s++)
        c->bound[s] = s == count ? entries : lki_min(entries, c->bound[s - 1] + slot_below(2 * entries / count + 2));
}

/* ---- running ---- */

static inline lki_device *slot_gpu(void)
{
    const char *kind = getenv("LOCKSTEP_TEST_GPU");
    if (!kind || strcmp(kind, "cuda")) setenv("LOCKSTEP_GPU_SIM", "1", 0);
    lki_device *d = lki_device_gpu_at(0);
    if (!d) fprintf(stderr, "%s\n", lki_gpu_why());
    assert_non_null(d);
    return d;
}

static inline size_t slot_bytes(lk_dtype t, const lk_shape *s)
{
    return (size_t)lki_shape_size(s) * lk_dtype_bytes(t) + SLOT_GUARD;
}

static inline void *slot_start(const slot_case *c, int i)
{
    const size_t bytes = slot_bytes(c->dst_type[i], &c->dst[i]);
    uint8_t     *p = malloc(bytes);
    memset(p, 0xa5, bytes);
    if (c->dst_data[i]) memcpy(p, c->dst_data[i], bytes - SLOT_GUARD);
    return p;
}

static inline lki_args slot_args(const slot_case *c, lki_view *src, lki_view *dst, lki_lanes *lanes)
{
    *lanes = (lki_lanes){c->lanes, c->bound};
    return (lki_args){.src = src,
                      .dst = dst,
                      .nsrc = c->nsrc,
                      .ndst = c->ndst,
                      .attr = &c->attr,
                      .lanes = c->lanes ? lanes : NULL,
                      .longest = c->longest,
                      .lo = 0,
                      .hi = lki_shape_size(&c->dst[0]),
                      .first = c->first};
}

static inline int slot_on_cpu(const slot_case *c, void **out)
{
    static lki_kernels reference;
    static bool        filled;
    lki_view           src[MOST], dst[MOST];
    lki_lanes          lanes;
    int                fault = 0;
    if (!filled) lki_kernels_ref(&reference);
    filled = true;
    for (int i = 0; i < c->nsrc; i++)
        src[i] = (lki_view){c->src_data[i], &c->src[i], c->src_type[i]};
    for (int i = 0; i < c->ndst; i++)
        dst[i] = (lki_view){out[i], &c->dst[i], c->dst_type[i]};
    lki_args        a = slot_args(c, src, dst, &lanes);
    lki_scratch_fn *needs = reference.scratch[c->slot][c->dtype];
    a.fault = &fault;
    a.scratch = needs && needs(&a) ? aligned_alloc(64, (needs(&a) + 63) / 64 * 64) : NULL;
    assert_non_null(reference.fn[c->slot][c->dtype]);
    unsigned before = lki_fp_enter();
    reference.fn[c->slot][c->dtype](&a);
    lki_fp_leave(before);
    free(a.scratch);
    return fault;
}

static inline int slot_on_gpu(const slot_case *c, void **out)
{
    lki_device         *d = slot_gpu();
    const lki_gpu_line *l = lki_gpu_line_of(d);
    lki_view            src[MOST], dst[MOST];
    lki_lanes           lanes;
    int                 fault = 0;
    assert_non_null(l);
    for (int i = 0; i < c->nsrc; i++) {
        src[i] = (lki_view){d->ops->alloc(d, slot_bytes(c->src_type[i], &c->src[i])), &c->src[i], c->src_type[i]};
        d->ops->write(d, src[i].data, c->src_data[i], slot_bytes(c->src_type[i], &c->src[i]));
    }
    for (int i = 0; i < c->ndst; i++) {
        dst[i] = (lki_view){d->ops->alloc(d, slot_bytes(c->dst_type[i], &c->dst[i])), &c->dst[i], c->dst_type[i]};
        d->ops->write(d, dst[i].data, out[i], slot_bytes(c->dst_type[i], &c->dst[i]));
    }
    int       *stop = d->ops->alloc(d, sizeof *stop);
    lki_launch call = {.stream = l->stream, .stop = stop, .fault = 1, .precision = c->precision};
    lki_args   a = slot_args(c, src, dst, &lanes);
    d->ops->write(d, stop, &fault, sizeof fault);
    a.gpu = &call;
    if (!l->kernels->fn[c->slot][c->dtype])
        fail_msg("the GPU has no kernel for %s %s", lki_slot_name(c->slot), lk_dtype_name(c->dtype));
    lki_scratch_fn *needs = l->kernels->scratch[c->slot][c->dtype];
    const size_t    bytes = needs ? needs(&a) : 0;
    a.scratch = bytes ? d->ops->alloc(d, bytes) : NULL;
    l->kernels->fn[c->slot][c->dtype](&a);
    assert_int_equal(lki_gpu_check(d, "launch", l->backend->failure(l->card)), LK_OK);
    for (int i = 0; i < c->ndst; i++) {
        assert_int_equal(d->ops->read(d, out[i], dst[i].data, slot_bytes(c->dst_type[i], &c->dst[i])), LK_OK);
        d->ops->release(d, dst[i].data, slot_bytes(c->dst_type[i], &c->dst[i]));
    }
    for (int i = 0; i < c->nsrc; i++)
        d->ops->release(d, src[i].data, slot_bytes(c->src_type[i], &c->src[i]));
    if (bytes) d->ops->release(d, a.scratch, bytes);
    assert_int_equal(d->ops->read(d, &fault, stop, sizeof fault), LK_OK);
    d->ops->release(d, stop, sizeof *stop);
    return fault;
}

static inline void slot_compare(const slot_case *c, int i, const void *cpu, const void *gpu)
{
    const lk_dtype t = c->dst_type[i];
    const size_t   each = lk_dtype_bytes(t);
    const int64_t  n = lki_shape_size(&c->dst[i]);
    double         largest = 0;
    for (int64_t k = 0; k < n; k++)
        if (isfinite(lki_element_get(t, cpu, k))) largest = fmax(largest, fabs(lki_element_get(t, cpu, k)));
    for (int64_t k = 0; k < n; k++) {
        const double x = lki_element_get(t, cpu, k), y = lki_element_get(t, gpu, k);
        const bool   same =
            !memcmp((const char *)cpu + (size_t)k * each, (const char *)gpu + (size_t)k * each, each) || (isnan(x) && isnan(y));
        const bool tiny =
            t == LK_F64 && fabs(x) < 0x1p-1022 && fabs(y) < 0x1p-1022; /* cards keep subnormal doubles, the CPU flushes them */
        if (same || tiny || (c->tolerance > 0 && (x == y || fabs(x - y) <= c->tolerance * largest))) continue;
        fprintf(stderr, "%s %s, result %d, element %lld of %lld: CPU %.9g, GPU %.9g; lanes %d\n", lki_slot_name(c->slot),
                lk_dtype_name(c->dtype), i, (long long)k, (long long)n, x, y, c->lanes);
        for (int s = 0; s < c->nsrc + c->ndst; s++) {
            char text[LKI_SHAPE_TEXT];
            fprintf(stderr, "  %s %s\n", s < c->nsrc ? "src" : "dst",
                    lki_shape_text(s < c->nsrc ? &c->src[s] : &c->dst[s - c->nsrc], text));
        }
        fail();
    }
    if (memcmp((const char *)cpu + (size_t)n * each, (const char *)gpu + (size_t)n * each, SLOT_GUARD))
        fail_msg("%s wrote behind its result", lki_slot_name(c->slot));
}

static inline void slot_check(slot_case *c)
{
    void *cpu[MOST], *gpu[MOST];
    for (int i = 0; i < c->ndst; i++) {
        cpu[i] = slot_start(c, i);
        gpu[i] = slot_start(c, i);
    }
    const int faults = slot_on_cpu(c, cpu), found = slot_on_gpu(c, gpu);
    for (int i = 0; i < c->ndst; i++)
        slot_compare(c, i, cpu[i], gpu[i]);
    if (faults != found) fail_msg("%s: fault %d on the CPU, %d on the GPU", lki_slot_name(c->slot), faults, found);
    for (int i = 0; i < c->ndst; i++) {
        free(cpu[i]);
        free(gpu[i]);
        free(c->dst_data[i]);
    }
    for (int i = 0; i < c->nsrc; i++)
        free(c->src_data[i]);
}

/* ---- several cards ---- */

/* Cards that have half of the lanes each have the halves of a sum: its bits do not depend on how many cards there are. The first
 * `cut` operands have `entries`, which lanes are of. */
static inline void slot_check_shares(slot_case *whole, int cut, int64_t entries)
{
    void *sum[3][2] = {{NULL}};
    slot_lanes(whole, 4, entries);
    for (int l = 0; l < 4; l++)
        whole->longest = lki_max(whole->longest, whole->bound[l + 1] - whole->bound[l]);
    for (int i = 0; i < 3; i++) { /* all lanes, the first two, the last two */
        const int64_t *bound = &whole->bound[i == 2 ? 2 : 0];
        slot_case      c = *whole;
        c.lanes = i ? 2 : 4;
        for (int l = 0; l <= c.lanes; l++)
            c.bound[l] = bound[l] - bound[0];
        for (int k = 0; k < cut; k++) {
            const size_t each = (size_t)(lki_shape_size(&c.src[k]) / entries) * lk_dtype_bytes(c.src_type[k]);
            c.src_data[k] = (char *)c.src_data[k] + (size_t)bound[0] * each;
            c.src[k].dim[0] = c.bound[c.lanes];
        }
        for (int d = 0; d < c.ndst; d++)
            sum[i][d] = slot_start(&c, d);
        slot_on_gpu(&c, sum[i]);
    }
    for (int d = 0; d < whole->ndst; d++) {
        const float *all = sum[0][d], *first = sum[1][d], *second = sum[2][d];
        for (int64_t k = 0; k < lki_shape_size(&whole->dst[d]); k++)
            assert_true(all[k] == first[k] + second[k]);
    }
    for (int i = 0; i < 6; i++)
        free(sum[i / 2][i % 2]);
    for (int k = 0; k < whole->nsrc; k++)
        free(whole->src_data[k]);
}

#endif
