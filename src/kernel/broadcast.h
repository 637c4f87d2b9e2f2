/* One walk for everything that reads its operands through strides: broadcasting, transposing, slicing.
 *
 * A walk visits the elements of a dense array (`dense`) in flat order and, beside it, up to three operands whose strides may be
 * anything, 0 for a broadcast axis. Axes of size one are dropped and neighbouring axes with matching steps are merged, so that the
 * innermost axis is as long as possible; a `run` function then handles one stretch of it:
 *
 *     run(args, n, dense, src, step)      for i < n: dense[i] with src[k][i * step[k]]
 *
 * Invariants
 *  1. For operands of broadcasting, step is 0 or 1.
 *  2. Every element lo <= i < hi is visited once; how the range is divided into runs never changes a result. */
#ifndef LKI_KERNEL_BROADCAST_H
#define LKI_KERNEL_BROADCAST_H

#include "kernel/kernel.h"

enum { LKI_WALK_OPERANDS = 3 };

typedef void lki_walk_fn(const lki_args *a, int64_t n, char *dense, const char *const *src, const int64_t *step);

typedef struct lki_walk {
    int         rank;
    int64_t     dim[LK_MAX_RANK];
    char       *dense;
    size_t      dense_bytes; /* of one element */
    int         nsrc;
    const char *src[LKI_WALK_OPERANDS];
    size_t      src_bytes[LKI_WALK_OPERANDS];
    int64_t     stride[LKI_WALK_OPERANDS][LK_MAX_RANK]; /* in elements */
} lki_walk;

/* dst[0] is dense, src[0..nsrc-1] are broadcast to it; visits a->lo..a->hi. */
void lki_broadcast(const lki_args *a, int nsrc, lki_walk_fn *run);

/* Strides of an array stored row by row. */
void lki_dense_strides(const lk_shape *shape, int64_t stride[LK_MAX_RANK]);

/* Visit lo..hi of a walk that has been filled in; this collapses it. */
void lki_walk_run(lki_walk *w, const lki_args *a, int64_t lo, int64_t hi, lki_walk_fn *run);

#endif
