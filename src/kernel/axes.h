/* An array seen as [outer, mid, inner] around the axes first..last, which become mid. An empty range of axes has mid = 1. */
#ifndef LKI_KERNEL_AXES_H
#define LKI_KERNEL_AXES_H

#include "kernel/kernel.h"

typedef struct lki_extent {
    int64_t outer, mid, inner;
} lki_extent;

static inline lki_extent lki_extent_of(const lk_shape *shape, int first, int last)
{
    lki_extent e = {1, 1, 1};
    for (int i = 0; i < shape->rank; i++) {
        if (i < first) e.outer *= shape->dim[i];
        else if (i <= last) e.mid *= shape->dim[i];
        else e.inner *= shape->dim[i];
    }
    return e;
}

/* The reduced axes of a reduction's operand. */
static inline lki_extent lki_reduced(const lki_args *a)
{
    return lki_extent_of(a->src[0].shape, a->attr->reduce.first, a->attr->reduce.last);
}

/* Index of the first element of the column for output element o; the elements are e.inner apart. */
static inline int64_t lki_column(lki_extent e, int64_t o) { return o / e.inner * e.mid * e.inner + o % e.inner; }

/* The lanes of a reduction over rows, or NULL; *entry is how many elements of mid one bound counts. */
static inline const lki_lanes *lki_reduced_lanes(const lki_args *a, int64_t *entry)
{
    if (!a->lanes || a->attr->reduce.first != 0 || a->attr->reduce.last < 0) return NULL;
    *entry = lki_extent_of(a->src[0].shape, 1, a->attr->reduce.last).mid;
    return a->lanes;
}

#endif
