/* Small calls as instructions of one kernel, which a single thread block executes one after the other.
 *
 * A call becomes one instruction, or a few (concat: one per part). Independent instructions run at the same time, on different
 * threads: each has its own first thread. An instruction that reads results of earlier ones, or writes what they read, waits for
 * them. group.cu writes instructions, group_small.cu executes them.
 *
 * Invariants
 *  1. Instructions use the same definitions as the kernels of single calls (expressions.inc, element.h, rows.h, fold.h), so bits
 *     are the same.
 *  2. A program fits in 4 KB, the size that every version of CUDA allows for an argument. */
#ifndef LKI_KERNEL_GPU_GROUP_GROUP_SMALL_H
#define LKI_KERNEL_GPU_GROUP_GROUP_SMALL_H

#include "kernel/gpu/base/gpu.h"

namespace lki_gpu
{

enum {
    SMALL_THREADS = 1024,  /* of a block, at most; a power of two */
    SMALL_ELEMENTS = 4096, /* results of a call: indices are exact up to here (small_axes) */
    SMALL_AXES = 3,
    SMALL_MOST = 36,  /* instructions */
    SMALL_POOL = 272, /* numbers of 16 bits: bounds of lanes, schedules */

    /* Beyond these a separate launch is as fast. */
    SMALL_ROWS = 128,     /* of softmax, cross-entropy, FOLD */
    SMALL_ROW = 512,      /* elements of such a row of FOLD */
    SMALL_CLASSES = 64,   /* ... of the others */
    SMALL_SUMMED = 16384, /* elements of a sum's operand */
    SMALL_CHAIN = 32,     /* rows of a lane */
    SMALL_CHAINS = 2048   /* pairs of lanes, of all results */
};

typedef enum small_kind {
    SMALL_EACH, /* element-wise slots of numbers, comparisons, logic */
    SMALL_CAST,
    SMALL_WHERE,
    SMALL_MOVE,
    SMALL_FILL,
    SMALL_RANGE,
    SMALL_TEAM, /* a half warp per row: softmax and its like, cross-entropy, FOLD, argmax */
    SMALL_CHAIN_SUM,
    SMALL_LANE_SUM, /* of each lane separately, added to what is stored */
    SMALL_SCHEDULE,
    SMALL_INCREMENT
} small_kind;

struct small_call {
    uint8_t  kind, slot, type, to; /* type: of src[0], and of the call; to: of dst[0] */
    uint8_t  axes;                 /* of dst, neighbours merged; at least 1 */
    uint8_t  operands;
    uint8_t  waits;               /* waits for all instructions before it */
    uint8_t  stops;               /* does nothing after a fault */
    uint16_t count;               /* elements of dst; rows; results of sums */
    uint16_t first;               /* the thread of its first element */
    uint16_t dim[SMALL_AXES - 1]; /* sizes of axes 1 and 2, and factors that replace divisions by them */
    uint32_t factor[SMALL_AXES - 1];
    void    *dst;
    union {
        struct {
            const void *src[3];
            union {
                double num[2];
                int    fault; /* the code of a call that checks indices */
            };
            int16_t step[3][SMALL_AXES]; /* of each operand along each axis, in elements */
        } each;                          /* also cast and where */
        struct {
            const void *src;
            int32_t     from[SMALL_AXES], to[SMALL_AXES];
        } move;
        uint64_t fill;
        struct {
            const void *src[3];
            int         fault;
            int64_t     ignored;
            uint16_t    n; /* elements of a row */
            uint8_t     ignores, labels;
        } team;
        struct {
            const void *x, *y; /* y: where it is not > 0, 0 is summed; may be NULL */
            uint32_t    mid, inner;
            uint16_t    lanes, bound; /* bound: index in the pool of the lanes + 1 bounds, if each is 0 */
            int32_t     each, before; /* lane s begins at row each * s - before, or where mid begins or ends */
        } sum;                        /* both kinds */
        struct {
            const int64_t *t;
            int32_t        form, count;
            uint16_t       numbers; /* index in the pool */
        } schedule;
    };
};

struct small_program {
    const int *stop;
    int        count, pooled;
    small_call at[SMALL_MOST];
    alignas(8) uint16_t pool[SMALL_POOL];
};

static_assert(sizeof(small_call) == 96 && sizeof(small_program) <= 4080 && LKI_SLOT_COUNT <= 256, "an argument");

/* Execute it, on the stream of this call; threads: a power of two, at most SMALL_THREADS, and at least a warp. */
void start_small(const lki_args *a, const small_program &p, int threads);

} // namespace lki_gpu

#endif
