/* How kernels are tested: operands that end at a protected page, extreme values, and one comparison for all slots.
 *
 * check_slot() runs the reference over the whole range, then every variant this machine has over the whole range and over the range
 * divided into pieces: every result must have the same bits (any NaN equals any NaN), and nothing outside a piece may be
 * written. */
#ifndef LK_TESTS_OP_KERNELS_H
#define LK_TESTS_OP_KERNELS_H

#include "check.h"
#include "core/thread.h"
#include "kernel/kernel.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- memory ------------------------------------------------------------------------------------------------------------------ */

enum { MOST_BLOCKS = 64 };

static struct {
    void    *map[MOST_BLOCKS];
    size_t   bytes[MOST_BLOCKS];
    lk_shape shape[MOST_BLOCKS];
    int      count;
} blocks;

/* Memory whose last byte is the last of a page before one that cannot be read. */
static inline void *guarded(size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), whole = (bytes + page - 1) / page * page;
    char  *map = (char *)mmap(NULL, whole + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(map != MAP_FAILED && blocks.count < MOST_BLOCKS);
    assert_int_equal(mprotect(map + whole, page, PROT_NONE), 0);
    blocks.map[blocks.count] = map;
    blocks.bytes[blocks.count++] = whole + page;
    return map + whole - bytes;
}

static inline void forget_all(void)
{
    while (blocks.count) {
        blocks.count--;
        munmap(blocks.map[blocks.count], blocks.bytes[blocks.count]);
    }
}

static inline lki_view operand(lk_dtype dtype, lk_shape shape)
{
    lki_view v = {.dtype = dtype};
    v.data = guarded((size_t)lki_shape_size(&shape) * lk_dtype_bytes(dtype));
    blocks.shape[blocks.count - 1] = shape;
    v.shape = &blocks.shape[blocks.count - 1];
    return v;
}

static inline int64_t size_of(const lki_view *v) { return lki_shape_size(v->shape); }

/* ---- values ------------------------------------------------------------------------------------------------------------------ */

static uint64_t random_state = 1;

static inline uint32_t random_word(void)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(random_state >> 33);
}

static inline double random_unit(void) { return random_word() / 2147483648.0; }

static const double specials[] = {0.0,   -0.0,   INFINITY, -INFINITY, NAN,  1,   -1,  3e38,     -3e38,
                                  1e-37, -1e-37, 88.7,     -87.3,     1e10, 0.5, 2.5, 16777216, -1e-5};

typedef enum values {
    TAME,    /* -2 to 2; integers -9 to 9 */
    WILD,    /* all magnitudes of normal numbers, and one in eight a special value */
    ANY_BITS /* for moves */
} values;

static inline double random_double(values kind)
{
    double tame = random_unit() * 4 - 2;
    if (kind == TAME) return tame;
    switch (random_word() % 8) {
    case 0: return specials[random_word() % LKI_COUNT(specials)];
    case 1: return ldexp(tame < 0 ? tame - 1 : tame + 1, (int)(random_word() % 250) - 125);
    default: return tame * 8;
    }
}

static inline void fill_values(const lki_view *v, values kind)
{
    size_t bytes = lk_dtype_bytes(v->dtype);
    for (int64_t i = 0; i < size_of(v); i++) {
        uint64_t bits = (uint64_t)random_word() << 33 ^ (uint64_t)random_word() << 16 ^ random_word();
        if (v->dtype == LK_BOOL) ((uint8_t *)v->data)[i] = bits & 1;
        else if (kind == ANY_BITS || (!lki_is_float(v->dtype) && kind == WILD && bits % 4 == 0))
            memcpy((char *)v->data + (size_t)i * bytes, &bits, bytes);
        else if (lki_is_float(v->dtype)) lki_element_set(v->dtype, v->data, i, random_double(kind));
        else lki_element_set(v->dtype, v->data, i, (double)(random_word() % 19) - (v->dtype == LK_U8 ? 0 : 9));
    }
}

static inline lki_view random_operand(lk_dtype dtype, lk_shape shape, values kind)
{
    lki_view v = operand(dtype, shape);
    fill_values(&v, kind);
    return v;
}

/* ---- comparison -------------------------------------------------------------------------------------------------------------- */

static inline bool is_nan(lk_dtype dtype, const void *data, int64_t i)
{
    return lki_is_float(dtype) && isnan(lki_element_get(dtype, data, i));
}

/* The first element in which the bits differ, or -1. */
static inline int64_t first_difference(lk_dtype dtype, const void *a, const void *b, int64_t n)
{
    size_t bytes = lk_dtype_bytes(dtype);
    if (memcmp(a, b, (size_t)n * bytes) == 0) return -1;
    for (int64_t i = 0; i < n; i++) {
        bool same = memcmp((const char *)a + (size_t)i * bytes, (const char *)b + (size_t)i * bytes, bytes) == 0;
        if (!same && !(is_nan(dtype, a, i) && is_nan(dtype, b, i))) return i;
    }
    return -1;
}

static inline void check_bits(lk_dtype dtype, const void *got, const void *want, int64_t n, const char *what)
{
    int64_t i = first_difference(dtype, got, want, n);
    if (i < 0) return;
    print_error("%s, element %lld of %lld: got %.17g (%a), want %.17g (%a)\n", what, (long long)i, (long long)n,
                lki_element_get(dtype, got, i), lki_element_get(dtype, got, i), lki_element_get(dtype, want, i),
                lki_element_get(dtype, want, i));
    fail();
}

/* ---- running ----------------------------------------------------------------------------------------------------------------- */

static lki_kernels tables[LKI_ISA_COUNT];

static inline int make_tables(void **state)
{
    (void)state;
    for (int isa = 0; isa <= (int)lki_cpu_isa_machine(); isa++)
        lki_cpu_kernels(&tables[isa], (lki_isa)isa);
    for (int isa = (int)lki_cpu_isa_machine() + 1; isa < LKI_ISA_COUNT; isa++)
        print_message("this machine has no %s; not compared\n", lki_isa_name((lki_isa)isa));
    return 0;
}

/* What the slot is looked up by: the type of src[0], or of dst[0] for random numbers and where there is no src. */
static inline lk_dtype lookup_type(lki_slot slot, const lki_args *a)
{
    bool by_dst = a->nsrc == 0 || slot == LKI_K_random_uniform || slot == LKI_K_random_normal;
    return by_dst ? a->dst[0].dtype : a->src[0].dtype;
}

static inline void run_range(int isa, lki_slot slot, lki_args a, int64_t lo, int64_t hi)
{
    lk_dtype type = lookup_type(slot, &a);
    assert_non_null(tables[isa].fn[slot][type]);
    lki_scratch_fn *scratch = tables[isa].scratch[slot][type];
    a.lo = lo;
    a.hi = hi;
    a.scratch = scratch && scratch(&a) ? aligned_alloc(64, (scratch(&a) + 63) / 64 * 64) : NULL;
    unsigned before = lki_fp_enter();
    tables[isa].fn[slot][type](&a);
    lki_fp_leave(before);
    free(a.scratch);
}

static inline void *copy_of(const lki_view *v)
{
    size_t bytes = (size_t)size_of(v) * lk_dtype_bytes(v->dtype);
    return memcpy(malloc(bytes + 1), v->data, bytes);
}

/* The reference over all of dst[0]. */
static inline void run_reference(lki_slot slot, const lki_args *a) { run_range(0, slot, *a, 0, size_of(&a->dst[0])); }

/* One variant over lo..hi = pieces cut at random multiples of `unit`; each piece must leave the rest of dst[0] alone. */
static inline void run_in_pieces(int isa, lki_slot slot, const lki_args *a, int64_t unit)
{
    const lki_view *d = &a->dst[0];
    int64_t         n = size_of(d) / unit;
    size_t          bytes = lk_dtype_bytes(d->dtype);
    for (int64_t from = 0, to; from < n; from = to) {
        to = from + 1 + (int64_t)(random_word() % (uint32_t)lki_min(n, INT32_MAX));
        to = lki_min(to, n);
        unsigned char *edges[2] = {(unsigned char *)d->data + (size_t)(from * unit) * bytes,
                                   (unsigned char *)d->data + (size_t)(to * unit) * bytes};
        unsigned char  last = from ? edges[0][-1] : 0, next = to < n ? edges[1][0] : 0;
        run_range(isa, slot, *a, from * unit, to * unit);
        if (from) assert_int_equal(edges[0][-1], last);
        if (to < n) assert_int_equal(edges[1][0], next);
    }
}

/* lo and hi are cut at multiples of `unit`; 0: never. */
static inline void check_slot(lki_slot slot, const lki_args *a, int64_t unit)
{
    void *want[4] = {0};
    char  what[128];
    run_reference(slot, a);
    for (int d = 0; d < a->ndst; d++)
        want[d] = copy_of(&a->dst[d]);
    for (int isa = 0; isa <= (int)lki_cpu_isa_machine(); isa++)
        for (int cut = 0; cut <= (unit > 0); cut++) {
            for (int d = 0; d < a->ndst; d++)
                memset(a->dst[d].data, 0xa5, (size_t)size_of(&a->dst[d]) * lk_dtype_bytes(a->dst[d].dtype));
            if (cut) run_in_pieces(isa, slot, a, unit);
            else run_range(isa, slot, *a, 0, size_of(&a->dst[0]));
            snprintf(what, sizeof what, "%s %s with %s%s", lki_slot_name(slot), lk_dtype_name(lookup_type(slot, a)),
                     lki_isa_name((lki_isa)isa), cut ? ", in pieces" : "");
            for (int d = 0; d < a->ndst; d++)
                check_bits(a->dst[d].dtype, a->dst[d].data, want[d], size_of(&a->dst[d]), what);
        }
    for (int d = 0; d < a->ndst; d++)
        free(want[d]);
}

/* ---- places ------------------------------------------------------------------------------------------------------------------ */

/* Flat index to coordinates and back. */
static inline void place_of(const lk_shape *s, int64_t i, int64_t at[LK_MAX_RANK])
{
    for (int axis = s->rank - 1; axis >= 0; axis--) {
        at[axis] = i % s->dim[axis];
        i /= s->dim[axis];
    }
}

static inline int64_t index_of(const lk_shape *s, const int64_t at[LK_MAX_RANK])
{
    int64_t i = 0;
    for (int axis = 0; axis < s->rank; axis++)
        i = i * s->dim[axis] + at[axis];
    return i;
}

static inline void move_element(const lki_view *to, int64_t i, const lki_view *from, int64_t j)
{
    size_t bytes = lk_dtype_bytes(to->dtype);
    memcpy((char *)to->data + (size_t)i * bytes, (const char *)from->data + (size_t)j * bytes, bytes);
}

#endif
