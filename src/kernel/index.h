/* Operands that are indices or labels, and the fault they can cause. */
#ifndef LKI_KERNEL_INDEX_H
#define LKI_KERNEL_INDEX_H

#include "kernel/kernel.h"

/* Other threads may report the same fault at the same time. */
static inline void lki_set_fault(const lki_args *a)
{
    if (a->fault) __atomic_store_n(a->fault, 1, __ATOMIC_RELAXED);
}

/* Element i of an index operand: i32, i64 or u8. */
static inline int64_t lki_index(const lki_view *ids, int64_t i)
{
    switch (ids->dtype) {
    case LK_I64: return ((const int64_t *)ids->data)[i];
    case LK_I32: return ((const int32_t *)ids->data)[i];
    default: return ((const uint8_t *)ids->data)[i];
    }
}

/* For labels that are not a class. */
enum { LKI_LABEL_IGNORED = -1, LKI_LABEL_OUT_OF_RANGE = -2 };

/* The class of a row of a cross-entropy (src[1]), or one of these; a label out of range is reported as a fault. */
static inline int64_t lki_label(const lki_args *a, int64_t row, int64_t classes)
{
    int64_t label = lki_index(&a->src[1], row);
    if (a->attr->xent.ignore && label == a->attr->xent.ignore_class) return LKI_LABEL_IGNORED;
    if (label >= 0 && label < classes) return label;
    lki_set_fault(a);
    return LKI_LABEL_OUT_OF_RANGE;
}

static inline int64_t lki_last_axis(const lki_view *v) { return v->shape->rank ? v->shape->dim[v->shape->rank - 1] : 1; }

#endif
