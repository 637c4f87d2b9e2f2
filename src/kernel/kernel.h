/* Kernels: arithmetic on raw memory. One table per device, one function per slot and element type, one argument struct for all.
 *
 * Contract of every kernel
 *  1. Single-threaded, never allocates, never fails, keeps no state. The caller provides temporary space (scratch).
 *  2. All arrays are stored row by row without gaps. Zero-size arrays are fine; a sum over nothing is +0.
 *  3. It writes exactly the elements lo <= i < hi of dst[0] (flat index), and the same leading entries of further dst. Splitting
 *     the range over calls never changes a bit of the result. Slots say which multiples lo and hi must have (kernels.inc).
 *  4. The order of every floating-point sum is part of the slot's definition, in one of the forms below. All CPU kernels of a slot,
 *     plain or vectorised, give the same bits: the reference loop is the definition, and the tests compare for equality. A GPU
 *     kernel may define another order; the head of its file states it.
 *
 * Orders of summation
 *  CHAIN   acc = +0; for k ascending: acc = fma(a[k], b[k], acc)   (for plain sums: acc = acc + a[k]).
 *          One chain per output element, in the order of k the slot states. Vector code keeps one accumulator lane per output
 *          element, so blocking, tiling and vector width never change bits.
 *  LANES   a sum over rows: with `lanes` given, one CHAIN per lane over the entries bound[s] <= i < bound[s+1], then the lane sums
 *          up a binary tree: (0,1) (2,3) ..., then pairs of those. An empty lane counts as +0. Without `lanes`: one CHAIN.
 *  FOLD    a sum along contiguous memory: blocks of 4096 elements; in a block element j goes to accumulator j mod 16 (each from
 *          +0), and the accumulators fold 16 to 8 to 4 to 2 to 1 by acc[i] += acc[i + half]; block sums are combined pairwise by a
 *          tree that splits n blocks at the largest power of two below n (fold.h).
 *
 *  WINOGRAD   f32 convolutions with 3x3 windows whose shapes winograd.h names, all three directions, by tiles of 2x2 results from
 *          4x4 cells; cells outside the image, and results outside theirs, count as +0. Each transform goes along the height, then
 *          along the width, with these sums (a, b, c, d from top to bottom or left to right):
 *              cells to points      a - c, b + c, c - b, d - b     results to points    a, a + b, a - b, b
 *              weights to points    a, ((a + c) + b) / 2, ((a + c) - b) / 2, c
 *              points to results    (a + b) + c, (b - c) + d       points to weights    a + h, (b - c) / 2, h + d, h = (b + c) / 2
 *          conv2d: per point a CHAIN over the in channels of cells * weights; points to results, and the epilogue. Its data
 *          gradient is the same with dy as the image, taps turned by 180 degrees, in and out exchanged, padding 2 - pad. Its weight
 *          gradient: per point a CHAIN over images, tile rows, tile columns of cells * results; points to weights at the end of
 *          each lane; then the tree. An infinity or a number near overflow may result in NaN, only in results whose window
 *          contains it.
 *
 * Adding a zero product changes a chain only if an underflow left it at -0. A kernel that skips zeros must handle that case, and
 * factors that are not finite. */
#ifndef LKI_KERNEL_H
#define LKI_KERNEL_H

#include "core/cpu.h"
#include "core/dtype.h"
#include "core/precision.h"
#include "core/shape.h"

/* The version of all definitions together, including those of kernel/gpu. Checkpoints store it, and a resume under another number
 * warns that bits may differ. Raise it by one in any change, for any device, after which a slot may give other bits for the same
 * operands: another order of a sum, other sizes of tiles, groups or parts of a sum, another formula or rounding, another rule for
 * which of two definitions runs. Do not raise it for changes that keep bits: speed, layouts, a new slot. docs/bits.md lists what
 * each number changed. */
enum { LKI_KERNEL_VERSION = 7 };

/* Convolution and pooling, [height, width] each. Zero padding; a window may extend beyond the image on any side. */
typedef struct lki_window {
    int64_t size[2]; /* of the window (kernel) */
    int64_t stride[2];
    int64_t dilation[2]; /* 1 for pooling */
    int64_t pad[2];      /* cells before the image; those after it follow from the sizes */
} lki_window;

/* What happens to a sum before it is stored, in this order: + bias[last axis], relu, 2x2 max pool. */
typedef struct lki_epilogue {
    int32_t bias; /* src[2] is [channels]; conv2d_pool_grad_w, dense_pool_grad_w: dst[1] is its gradient */
    int32_t relu;
    int32_t pool; /* conv2d only: dst[0] is the pooled value, dst[1] (u8) the cell it came from, as in max_pool */
    /* On a GPU, conv2d with relu and pool, and its gradients through them: LKI_CELL_DEAD is added to cells whose pooled value is
     * not > 0. */
    int32_t marks;
} lki_epilogue;

enum { LKI_CELL_DEAD = 4 };

enum { LKI_PAD_CONSTANT, LKI_PAD_REFLECT, LKI_PAD_SYMMETRIC };

/* Attributes of an op; each slot says which member it reads. Filled from zeroed memory, compared with memcmp. */
typedef struct lki_attr {
    lki_epilogue epilogue; /* matmul, conv2d; zero: none */
    lk_shape     shape;    /* of the result, for ops whose operands do not determine it; kernels use dst[0].shape instead */
    lk_dtype     dtype;    /* of the result, in the same way */
    union {
        struct {
            double a, b;
        } num; /* clip: low, high; leaky_relu: alpha; one_hot: on, off; fill: value */
        struct {
            int32_t ta, tb;
            int32_t heads; /* bits 0 a, 1 b, 2 dst: [n, rows, heads, columns] in memory (matrix.h) */
            /* On a GPU only. mask, without an epilogue: src[2] has the elements and rows of the result; the result is 0 where it is
             * not above 0: relu's gradient. scale, without relu or a mask: the next operand has one element, by which the result is
             * multiplied, after the bias. plus, without relu or a mask: the last operand has the elements and rows of the result,
             * and is added to it at the end. */
            int32_t mask, scale, plus;
        } matmul;
        lki_window window;
        struct {
            int32_t first, last; /* the consecutive axes first..last are reduced */
        } reduce;
        struct {
            int32_t axis, exclusive, reverse;
        } scan; /* cumsum; axis alone: concat, gather, gather_grad */
        struct {
            int64_t k;
        } top;
        struct {
            int32_t axis[LK_MAX_RANK]; /* dst axis i is src axis axis[i] */
        } perm;
        struct {
            int64_t begin[LK_MAX_RANK], stride[LK_MAX_RANK]; /* strides may be negative */
        } slice;
        struct {
            int64_t before[LK_MAX_RANK];
            int32_t mode;
            double  value;
        } pad;
        struct {
            int32_t ignore;
            int64_t ignore_class;
        } xent;
        struct {
            uint64_t key;
            uint64_t call;
            double   low, high; /* uniform: [low, high); normal: mean, deviation; dropout_mask: rate in low */
        } random;
        struct {
            int32_t flags;
            int32_t every; /* update only when (t + 1) % every == 0; 0 or 1: always */
            double  p[12]; /* hyper-parameters, in the order the slot states */
        } update;
        struct {
            void (*run)(const void *args, void *op); /* args: the lki_args of the call */
            void *op;
        } user;
        struct {
            int32_t form; /* lki_schedule_form */
            int32_t count;
            double  p[20];
        } schedule;
    };
} lki_attr;

typedef struct lki_view {
    void           *data;
    const lk_shape *shape;
    lk_dtype        dtype;
} lki_view;

typedef struct lki_lanes {
    int            count; /* a power of two */
    const int64_t *bound; /* count + 1 entries of the summed leading axis */
} lki_lanes;

/* Results of a sum over rows that were left in parts: of result i of dst[0], then of dst[1], part p is data[p * results + i]. All
 * of them are added up one binary tree. With more parts, or results, each call adds them up itself. */
enum { LKI_ROW_PARTS = 256, LKI_ROW_PART_RESULTS = 32768 };
typedef struct lki_row_parts {
    const float *data;           /* NULL: the call computed its results itself */
    int          results, first; /* of all, of dst[0] */
    int          count;          /* of parts, a power of two */
} lki_row_parts;

/* What a call on a GPU needs besides its operands (device/gpu/backend.h). */
typedef struct lki_launch {
    void *stream;
    /* In the card's memory: 0, or the largest code of the calls that met an index out of range; then updates do nothing. NULL: this
     * call neither reads nor writes it. */
    int *stop;
    int  fault; /* the code of this call; 0: it checks no index */

    lki_precision precision;
    int           behind; /* updates: how much larger the step counter they read is than it should be */

    /* Sums over rows, f32: the call may leave its results in parts, and stores here where they are; no other call reads the
     * results, and scratch is kept. NULL: it may not. */
    lki_row_parts *leaves;
    /* Updates: the parts that an earlier call left, which are the gradient dst[taken] of that call. NULL: the gradient is
     * complete. */
    const lki_row_parts *takes;
    int                  taken;
} lki_launch;

typedef struct lki_args {
    const lki_view   *src;
    const lki_view   *dst;
    int               nsrc, ndst;
    const lki_attr   *attr;
    const lki_lanes  *lanes;      /* NULL outside sums over rows */
    int64_t           longest;    /* with lanes: entries of the longest lane of the whole batch, on whatever replica; 0: of those
                                   * here */
    int64_t           lo, hi;     /* which elements of dst[0] */
    int64_t           columns[2]; /* matmul: only the columns columns[0] <= n < columns[1] of its matrices; both 0: all */
    int64_t           first;      /* global index of entry 0 of dst[0]'s leading axis, for random numbers */
    void             *scratch;    /* of the size that the slot asks for, 64-byte aligned; NULL if 0 */
    int               past;       /* updates: other threads read dst[0] after this; bypass the caches when writing it */
    int              *fault;      /* set to 1 when an index operand is out of range; the element becomes NaN or 0 */
    const lki_launch *gpu;        /* on a GPU: where to launch; NULL on the CPU */
} lki_args;

typedef void lki_kernel(const lki_args *a);

/* Temporary space that a call needs, from shapes alone; `a` may have no data pointers. */
typedef size_t lki_scratch_fn(const lki_args *a);

#define LKI_SLOT(name, types, order, text) LKI_K_##name,
typedef enum lki_slot {
    LKI_K_none,
#include "kernel/kernels.inc"
    LKI_SLOT_COUNT
} lki_slot;
#undef LKI_SLOT

typedef struct lki_kernels {
    lki_kernel     *fn[LKI_SLOT_COUNT][LK_DTYPE_COUNT]; /* by the type of src[0] (of dst[0] where there is no src) */
    lki_scratch_fn *scratch[LKI_SLOT_COUNT][LK_DTYPE_COUNT];
    const char     *variant[LKI_SLOT_COUNT][LK_DTYPE_COUNT]; /* "ref", "avx2", ...: for LOCKSTEP_VERBOSE=dispatch */
} lki_kernels;

const char *lki_slot_name(lki_slot slot);

/* True if its kernels check indices or divisors. */
bool lki_slot_may_fault(lki_slot slot, lk_dtype dtype);

/* Fill a table: the reference first, then faster kernels for `isa`. */
void lki_cpu_kernels(lki_kernels *k, lki_isa isa);

/* The parts of it; each family registers its own slots. */
void lki_kernels_ref(lki_kernels *k);
void lki_kernels_avx2(lki_kernels *k);
void lki_kernels_avx512(lki_kernels *k);

/* The table for this machine, made once. */
const lki_kernels *lki_kernels_here(void);

static inline void lki_kernel_set(lki_kernels *k, lki_slot slot, lk_dtype dtype, lki_kernel *fn, lki_scratch_fn *scratch,
                                  const char *variant)
{
    k->fn[slot][dtype] = fn;
    k->scratch[slot][dtype] = scratch;
    k->variant[slot][dtype] = variant;
}

#endif
