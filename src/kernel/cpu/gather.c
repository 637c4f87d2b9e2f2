/* gather_grad for f32.
 *
 * As in ref/gather.c the positions are sorted by id, and every entry is a sum of rows of dy, LANES or CHAIN: here 64 columns at a
 * time in registers. The rows of an entry may be anywhere in dy, so those of a later entry are prefetched. */
#include "kernel/axes.h"
#include "kernel/cpu/vec.h"
#include "kernel/index.h"
#include "kernel/register.h"

enum {
    COLUMNS = 4 * VEC,
    LATER = 12, /* positions */
    LINE = 16,  /* floats */
};

typedef struct rows {
    const float   *dy; /* [ids, inner] */
    int64_t        inner;
    const int64_t *bound; /* of lanes, in entries of the leading axis of ids; NULL: one chain */
    int64_t        entry; /* ids per such entry */
} rows;

/* sum = the rows order[0..count-1], `width` columns from x on. */
static void chain_rows(const float *x, int64_t inner, int64_t width, const int64_t *order, int64_t count, float sum[COLUMNS])
{
    if (width == COLUMNS) {
        vec a0 = vec_zero(), a1 = vec_zero(), a2 = vec_zero(), a3 = vec_zero();
        for (int64_t p = 0; p < count; p++) {
            const float *row = x + order[p] * inner;
            a0 = vec_add(a0, vec_load(row)), a1 = vec_add(a1, vec_load(row + VEC));
            a2 = vec_add(a2, vec_load(row + 2 * VEC)), a3 = vec_add(a3, vec_load(row + 3 * VEC));
        }
        vec_store(sum, a0), vec_store(sum + VEC, a1), vec_store(sum + 2 * VEC, a2), vec_store(sum + 3 * VEC, a3);
        return;
    }
    for (int64_t j = 0; j < width; j += VEC) {
        vec acc = vec_zero();
        for (int64_t p = 0; p < count; p++)
            acc = vec_add(acc, vec_load_part(x + order[p] * inner + j, lki_min(VEC, width - j)));
        vec_store(sum + j, acc);
    }
}

/* Over the lanes s..t. A half of the tree without rows counts as +0, and since no sum is ever -0, adding that would change
 * nothing. */
static void tree_rows(const rows *r, const float *x, int64_t width, const int64_t *order, int64_t count, int s, int t,
                      float sum[COLUMNS])
{
    if (t - s == 1 || count == 1) {
        chain_rows(x, r->inner, width, order, count, sum);
        return;
    }
    int     middle = (s + t) / 2;
    int64_t left = 0;
    while (left < count && order[left] < r->bound[middle] * r->entry)
        left++;
    if (left == count) {
        tree_rows(r, x, width, order, count, s, middle, sum);
    } else if (left == 0) {
        tree_rows(r, x, width, order, count, middle, t, sum);
    } else {
        float right[COLUMNS];
        tree_rows(r, x, width, order, left, s, middle, sum);
        tree_rows(r, x, width, order + left, count - left, middle, t, right);
        for (int64_t j = 0; j < width; j += VEC)
            vec_store(sum + j, vec_add(vec_load(sum + j), vec_load(right + j)));
    }
}

static void sum_entry(const rows *r, const int64_t *order, int64_t count, int lanes, float *dst)
{
    float sum[COLUMNS] = {0};
    for (int64_t column = 0; column < r->inner; column += COLUMNS) {
        int64_t width = lki_min(COLUMNS, r->inner - column);
        tree_rows(r, r->dy + column, width, order, count, 0, lanes, sum);
        for (int64_t j = 0; j < width; j += VEC)
            vec_store_part(dst + column + j, vec_load(sum + j), lki_min(VEC, width - j));
    }
}

/* Prefetches the rows order[from..to-1]; of a long row only the beginning, because the processor detects that reads continue. */
static inline void ask_for(const rows *r, const int64_t *order, int64_t from, int64_t to)
{
    for (int64_t p = from; p < to; p++)
        for (int64_t j = 0; j < lki_min(r->inner, COLUMNS); j += LINE)
            __builtin_prefetch(r->dy + order[p] * r->inner + j);
}

static void f32_gather_grad(const lki_args *a)
{
    int             axis = a->attr->scan.axis;
    lki_extent      e = lki_extent_of(a->dst[0].shape, axis, axis);
    const lk_shape *id_shape = a->src[1].shape;
    int64_t         ids = lki_shape_size(id_shape), *begin = (int64_t *)a->scratch, *order = begin + e.mid + 1;
    bool            by_lane = a->lanes && axis == 0 && id_shape->rank > 0;
    int             lanes = by_lane ? a->lanes->count : 1;
    rows r = {.inner = e.inner, .bound = by_lane ? a->lanes->bound : NULL, .entry = by_lane ? lki_shape_size_from(id_shape, 1) : 1};
    lki_sort_positions(a, e.mid, ids, begin, order);
    for (int64_t outer = 0; outer < e.outer; outer++) {
        float *dst = (float *)a->dst[0].data + outer * e.mid * e.inner;
        r.dy = (const float *)a->src[0].data + outer * ids * e.inner;
        for (int64_t i = 0, known = begin[e.mid]; i < e.mid; i++, dst += e.inner) {
            int64_t from = begin[i], to = begin[i + 1];
            ask_for(&r, order, lki_min(known, from + LATER), lki_min(known, to + LATER));
            if (from < to) sum_entry(&r, order + from, to - from, lanes, dst);
            else memset(dst, 0, (size_t)e.inner * sizeof *dst);
        }
    }
}

void ISA(lki_register_gather)(lki_kernels *k)
{
    lki_kernel_set(k, LKI_K_gather_grad, LK_F32, f32_gather_grad, lki_gather_grad_scratch, VARIANT);
}
