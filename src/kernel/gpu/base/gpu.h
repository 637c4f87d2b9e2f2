/* What every kernel for GPUs uses: launches, maps over elements, lanes and faults by value. The files are CUDA C++ that the host's
 * compiler can read too (device/sim/sim.h): no <<<>>>, no inline PTX outside of functions that have a plain twin.
 *
 * Rules of these kernels
 *  1. Sums are those that kernel.h defines, and tests compare with the reference exactly, unless the slot's text in this folder
 *     defines another order. No contraction (-fmad=false): a fused multiply-add is written fmaf(). No float atomics.
 *  2. A launcher has the signature of a CPU kernel. It reads shapes and attributes on the host and passes numbers and pointers by
 *     value; data pointers are the card's, and the launcher never reads through them. Zero-size work launches nothing.
 *  3. Which kernel and which tiles run depends only on shapes, types and attributes, never on the card. So the bits do not depend
 *     on the card. */
#ifndef LKI_KERNEL_GPU_BASE_GPU_H
#define LKI_KERNEL_GPU_BASE_GPU_H

#include "device/cuda/launch.h"
#include "device/gpu/backend.h"
#include "kernel/group.h"
#include "kernel/kernel.h"
#include <math.h>

/* The plain scalar functions of the reference, on the card too. */
#pragma push_macro("inline")
#define inline __host__ __device__ inline
#include "kernel/ref/math.h"
#pragma pop_macro("inline")

/* LAUNCH((kernel<float>), grid, block, bytes of dynamic shared memory, a, arguments...) */
#define LKI_LAUNCH(kernel, grid, block, shared, a, ...)                                                                            \
    lki_gpu::launch_kernel(#kernel, false, kernel, grid, block, shared, (a)->gpu->stream, __VA_ARGS__)
/* the same for a kernel whose threads never wait for each other: faster when simulated */
#define LKI_LAUNCH_FLAT(kernel, grid, block, a, ...)                                                                               \
    lki_gpu::launch_kernel(#kernel, true, kernel, grid, block, 0, (a)->gpu->stream, __VA_ARGS__)
/* Before a launch with more than 48 KiB of dynamic shared memory. */
#define LKI_GIVE_SHARED(kernel, bytes) lki_gpu::give_shared((const void *)(kernel), #kernel, bytes)
/* For sizes that not all cards have: false if not, and nothing was done. */
#define LKI_HAS_SHARED(kernel, bytes) LKI_GIVE_SHARED(kernel, bytes)

#ifdef LKI_SIM
#define LKI_DYNAMIC_SHARED(T, name) T *name = (T *)lki_sim::dynamic_shared()
#define LKI_ASK_SHARED(kernel, percent) ((void)(percent))
#else
/* How a multiprocessor should divide its memory: shared memory gets `percent` of the maximum, the cache the rest. A multiprocessor
 * has one division at a time: kernels that ask for different ones do not run side by side. */
#define LKI_ASK_SHARED(kernel, percent) cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout, percent)
#define LKI_DYNAMIC_SHARED(T, name)                                                                                                \
    extern __shared__ __align__(16) unsigned char lki_dynamic_shared[];                                                            \
    T                                            *name = (T *)lki_dynamic_shared
#endif

namespace lki_gpu
{

/* True if this update must be skipped. Read by the card; only updates, and kernels that check indices, have a `stop`. */
static __device__ inline bool stopped(const int *stop) { return stop && *(const volatile int *)stop; }

enum { MAP_BLOCK = 256, MAP_BLOCKS = 132 * 16 };

template <typename F> __global__ void map_kernel(const int *stop, int64_t n, F f)
{
    if (stopped(stop)) return;
    for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < n; i += (int64_t)gridDim.x * blockDim.x)
        f(i);
}

/* f(i) for 0 <= i < n, in no order: lki_gpu::map(a, n, [=] __device__(int64_t i) { y[i] = -x[i]; }); Does nothing after a fault, if
 * the call has a `stop`. */
template <typename F> static void map(const lki_args *a, int64_t n, F f)
{
    if (n <= 0) return;
    const int64_t blocks = lki_min(lki_ceil_div(n, MAP_BLOCK), MAP_BLOCKS);
    LKI_LAUNCH_FLAT((map_kernel<F>), dim3((unsigned)blocks), dim3(MAP_BLOCK), a, a->gpu->stop, n, f);
}

/* A shape by value, and flat indices of a tensor of this shape that is broadcast to a larger shape. */
struct strides { /* of a source along the axes of dst; 0 where it is broadcast */
    int     rank;
    int64_t dim[LK_MAX_RANK], step[LK_MAX_RANK];
    bool    dense; /* the source has dst's shape: indices are equal */

    __host__ __device__ int64_t operator()(int64_t i) const
    {
        if (dense) return i;
        int64_t at = 0;
        for (int d = rank - 1; d >= 0; d--) {
            at += i % dim[d] * step[d];
            i /= dim[d];
        }
        return at;
    }
};

static inline strides broadcast_strides(const lk_shape *dst, const lk_shape *src)
{
    strides s = {};
    int64_t step = 1;
    s.rank = dst->rank;
    s.dense = src->rank <= dst->rank;
    for (int d = dst->rank - 1; d >= 0; d--) {
        const int     at = d - (dst->rank - src->rank);
        const int64_t size = at >= 0 ? src->dim[at] : 1;
        s.dim[d] = dst->dim[d];
        s.step[d] = size == 1 ? 0 : step;
        if (size != dst->dim[d]) s.dense = false;
        step *= size;
    }
    return s;
}

/* Lanes of a sum over rows, by value. */
enum { MOST_LANES = 64 };
struct lanes {
    int     count; /* 1 if the call has none */
    int64_t bound[MOST_LANES + 1];
};

static inline lanes lanes_of(const lki_args *a, int64_t entries)
{
    lanes l = {};
    l.count = a->lanes ? a->lanes->count : 1;
    l.bound[1] = entries;
    for (int s = 0; a->lanes && s <= l.count; s++)
        l.bound[s] = a->lanes->bound[s];
    return l;
}

/* Entries of the longest lane of the whole batch, on whatever replica it is. */
static inline int64_t longest_of(const lki_args *a, int64_t entries)
{
    if (a->lanes && a->longest) return a->longest;
    const lanes l = lanes_of(a, entries);
    int64_t     longest = 0;
    for (int s = 0; s < l.count; s++)
        longest = lki_max(longest, l.bound[s + 1] - l.bound[s]);
    return longest;
}

/* Sums up the tree: sum[] of `count` lanes, a power of two; the total is in sum[0]. */
template <typename T> __host__ __device__ inline T tree(T *sum, int count)
{
    for (int step = 1; step < count; step *= 2)
        for (int s = 0; s < count; s += 2 * step)
            sum[s] = sum[s] + sum[s + step];
    return sum[0];
}

/* For an index out of range: the code of the call is written to the word `stop`. Later updates read the word, and do nothing if it
 * is set. Of several calls the largest code is kept, so the result does not depend on which was first. */
struct fault {
    int *stop, code;

    __device__ void operator()() const
    {
        if (stop) atomicMax(stop, code);
    }
};

static inline fault fault_of(const lki_args *a) { return fault{a->gpu->stop, a->gpu->fault}; }

/* Element i of an index operand: i32, i64 or u8. */
struct ids {
    const void *data;
    lk_dtype    dtype;

    __device__ int64_t operator[](int64_t i) const
    {
        return dtype == LK_I64   ? ((const int64_t *)data)[i]
               : dtype == LK_I32 ? ((const int32_t *)data)[i]
                                 : ((const uint8_t *)data)[i];
    }
};

static inline ids ids_of(const lki_view *v) { return ids{v->data, v->dtype}; }

static inline int64_t size_of(const lk_shape *s)
{
    int64_t n = 1;
    for (int i = 0; i < s->rank; i++)
        n *= s->dim[i];
    return n;
}

static inline int64_t size_of(const lki_view *v) { return size_of(v->shape); }

static inline void set(lki_kernels *k, lki_slot slot, lk_dtype dtype, lki_kernel *fn, lki_scratch_fn *scratch = nullptr)
{
    lki_kernel_set(k, slot, dtype, fn, scratch, "gpu");
}

/* The table of all kernels (kernels.cu), made once. */
const lki_kernels *kernels();

/* The families; each registers its own slots. */
void register_elementwise(lki_kernels *k); /* elementwise.cu: one and two operands, comparisons, where, cast */
void register_random(lki_kernels *k);      /* random.cu */
void register_replica(lki_kernels *k);     /* replica.cu: replica_sum, agree, scatter, lane_add */
void register_update(lki_kernels *k);      /* update.cu: optimisers, clip_by_norm, schedule, increment */
void register_reduce(lki_kernels *k);      /* reduce.cu: reductions, argmax, sum_squares, cumsum, top_k */
void register_rows(lki_kernels *k);        /* rows.cu: softmax and its like, cross-entropy */
void register_norm(lki_kernels *k);        /* norm.cu: batch and layer normalisation */
void register_move(lki_kernels *k);        /* move.cu: copy, fill, range, broadcast, transpose, slice, pad, concat, unstack */
void register_gather(lki_kernels *k);      /* gather.cu: gather, one_hot and their gradients */
void register_matmul(lki_kernels *k);      /* matmul.cu */
void register_conv(lki_kernels *k);        /* conv.cu: conv2d, its gradients, and those through a max pool */
void register_dense_pool(lki_kernels *k);  /* dense_pool_w.cu: a weight gradient through a pool and a dense layer */
void register_depthwise(lki_kernels *k);   /* depthwise.cu */
void register_grouped(lki_kernels *k);     /* grouped.cu */
void register_pool(lki_kernels *k);        /* pool.cu */

/* Of a kernel's argument that is a table: it stays in the memory of arguments, also if it is indexed by a variable. */
#ifdef LKI_SIM
#define LKI_CONSTANT
#else
#define LKI_CONSTANT __grid_constant__
#endif

/* Calls that run as one launch (group.cu). */
const lki_grouping *grouping();

/* For lki_gpu_kernels: several pieces of memory by one launch (move/pieces.cu); rows of tables (move/rows_in.cu). */
void copy_pieces(void *stream, int count, const lki_gpu_piece *piece);
void gather_rows(void *stream, const struct lki_pick *r);
bool describe_gather(const struct lki_pick *r, struct lki_cuda_gather *out);

} // namespace lki_gpu

#endif
