/* Calls along rows as one launch: a block processes a row through all of them, one after the other. Intermediate results and
 * weights are in shared memory, so the latency of the card's memory counts once instead of once per call.
 *
 *     row_sum       ends a product whose pieces are in scratch (matmul.cu); the first call only
 *     row_product   one right matrix, thin (thin.h)
 *     row_xent      cross-entropy of f32 logits, row_xent_grad its gradient
 *
 * Bits are those of the separate calls. A program fits in 1 KB. Programs of a common form have a specialised kernel (group_head.h),
 * which takes less than half the time. */
#ifndef LKI_KERNEL_GPU_GROUP_GROUP_ROWS_H
#define LKI_KERNEL_GPU_GROUP_GROUP_ROWS_H

#include "kernel/gpu/base/gpu.h"

namespace lki_gpu
{

enum {
    ROW_CALLS = 6,
    ROW_MOST = 512,     /* rows: with more, blocks that have many rows of one call read weights less often */
    ROW_WIDTH = 1024,   /* results of a row */
    ROW_CLASSES = 128,  /* of cross-entropy */
    ROW_PARTS = 4096,   /* results times runs of pieces */
    ROW_ROOM = 11 << 10 /* floats of shared memory */
};

/* A product as needed here; filled in by matmul.cu. */
struct row_product {
    int64_t      rows;
    int          n, K;
    bool         in_pieces;   /* a sum over pieces: else thin, with dense operands */
    int          pieces, run; /* how many, of rows * n floats, `run` of which are added before runs are */
    int          by_k, by_n;  /* element (k, n) of the right matrix, of n * K floats */
    const float *left, *right, *bias, *mask, *scratch;
    float       *dst;
    bool         relu;
};

/* False: it is not such a product. Without data pointers: as far as shapes determine it. */
bool row_product_of(const lki_args *a, row_product *out);

/* The first launch of a product in pieces, which writes them to scratch. */
void start_pieces(const lki_args *a);

/* For kernel/group.h. */
lki_row_member row_member_of(lki_slot slot, lk_dtype type, const lki_args *a);
void           run_rows(int count, const lki_member *m);

} // namespace lki_gpu

#endif
