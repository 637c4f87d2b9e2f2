/* CUDA's words for the host's compiler: kernels of kernel/gpu run on the CPU, block after block, so that they can be tested,
 * debugged and sanitised on machines without a card. Threads of a block are fibers on one host thread; a barrier or a shuffle
 * switches to the next fiber. Not for speed.
 *
 * Invariants
 *  1. One kernel runs at a time in the process (a lock), so `__shared__` variables, and those that say which thread of the kernel
 *     runs, can be static.
 *  2. A fiber runs until it waits for its block, waits for its warp, or ends. When all live fibers of a block (warp) wait, they are
 *     resumed. When no fiber can be resumed, the kernel is wrong: a card would hang, and the backend returns an error.
 *  3. Launches, limits and graphs are those of CUDA (runtime.h). */
#ifndef LKI_DEVICE_SIM_SIM_H
#define LKI_DEVICE_SIM_SIM_H

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <utility>

#define __global__ static
#define __device__
#define __host__
#define __constant__ static const
#define __forceinline__ inline
#define __noinline__
#define __shared__ static
#define __launch_bounds__(...)
#define __align__(n) alignas(n)

struct dim3 {
    unsigned x, y, z;
    dim3(int64_t x_ = 1, int64_t y_ = 1, int64_t z_ = 1) : x((unsigned)x_), y((unsigned)y_), z((unsigned)z_) {}
};
/* clang-format off */
struct float2 { float x, y; };
struct alignas(16) float4 { float x, y, z, w; };
struct alignas(16) uint4 { unsigned x, y, z, w; };
struct uint2 { unsigned x, y; };
/* clang-format on */
static inline float2 make_float2(float x, float y) { return {x, y}; }
static inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }

extern dim3 threadIdx, blockIdx, blockDim, gridDim;
enum { warpSize = 32 };

namespace lki_sim
{
void  run(dim3 grid, dim3 block, bool flat, const std::function<void()> &thread); /* runs a kernel to its end */
void  wait_block();
void  wait_warp();
void *dynamic_shared();
void *exchange(); /* 16 bytes for each thread of this one's warp */
} // namespace lki_sim

static inline void __syncthreads() { lki_sim::wait_block(); }
static inline void __syncwarp(unsigned = ~0u) { lki_sim::wait_warp(); }
static inline void __threadfence() {}

static inline unsigned lki_sim_lane() { return (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) % warpSize; }

template <typename T> static inline T lki_sim_shuffle(T value, unsigned from)
{
    static_assert(sizeof(T) <= 16, "too large to shuffle");
    char *slots = (char *)lki_sim::exchange();
    memcpy(slots + 16 * lki_sim_lane(), &value, sizeof value);
    lki_sim::wait_warp();
    T other;
    memcpy(&other, slots + 16 * (from % warpSize), sizeof other);
    lki_sim::wait_warp();
    return other;
}

/* `width` as in CUDA: a power of two; the warp is divided into parts of `width` lanes. */
template <typename T> static inline T __shfl_sync(unsigned, T value, int from, int width = 32)
{
    const unsigned lane = lki_sim_lane();
    return lki_sim_shuffle(value, (lane & ~(unsigned)(width - 1)) + ((unsigned)from & (unsigned)(width - 1)));
}
template <typename T> static inline T __shfl_xor_sync(unsigned, T value, int mask, int width = 32)
{
    (void)width;
    return lki_sim_shuffle(value, lki_sim_lane() ^ (unsigned)mask);
}
template <typename T> static inline T __shfl_down_sync(unsigned, T value, int by, int width = 32)
{
    const unsigned lane = lki_sim_lane(), to = lane % (unsigned)width + (unsigned)by;
    return lki_sim_shuffle(value, to < (unsigned)width ? lane + (unsigned)by : lane);
}
template <typename T> static inline T __shfl_up_sync(unsigned, T value, int by, int width = 32)
{
    const unsigned lane = lki_sim_lane();
    return lki_sim_shuffle(value, lane % (unsigned)width >= (unsigned)by ? lane - (unsigned)by : lane);
}
static inline unsigned __ballot_sync(unsigned, int predicate)
{
    int *slots = (int *)lki_sim::exchange();
    slots[4 * lki_sim_lane()] = predicate != 0;
    lki_sim::wait_warp();
    unsigned bits = 0;
    for (unsigned i = 0; i < warpSize; i++)
        bits |= slots[4 * i] ? 1u << i : 0; /* lanes that do not exist: their slots are zero */
    lki_sim::wait_warp();
    slots[4 * lki_sim_lane()] = 0;
    lki_sim::wait_warp();
    return bits;
}
static inline int __any_sync(unsigned m, int p) { return __ballot_sync(m, p) != 0; }

/* clang-format off */
template <typename T> static inline T __ldg(const T *p) { return *p; }
static inline int      __popc(unsigned x) { return __builtin_popcount(x); }
static inline int      __ffs(int x) { return __builtin_ffs(x); }
static inline int      __clz(int x) { return x ? __builtin_clz((unsigned)x) : 32; }
static inline unsigned __float_as_uint(float x) { unsigned i; memcpy(&i, &x, 4); return i; }
static inline int      __float_as_int(float x) { int i; memcpy(&i, &x, 4); return i; }
static inline float    __uint_as_float(unsigned i) { float x; memcpy(&x, &i, 4); return x; }
static inline float    __int_as_float(int i) { float x; memcpy(&x, &i, 4); return x; }
static inline float    __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
static inline unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)(((uint64_t)a * b) >> 32); }
template <typename T> static inline T atomicAdd(T *p, T x) { T old = *p; *p = old + x; return old; }
template <typename T> static inline T atomicMax(T *p, T x) { T old = *p; if (x > old) *p = x; return old; }
template <typename T> static inline T atomicOr(T *p, T x) { T old = *p; *p = old | x; return old; }
template <typename T> static inline T atomicExch(T *p, T x) { T old = *p; *p = x; return old; }
/* clang-format on */

/* Is `predicate` true for any thread of the block? */
static inline int __syncthreads_or(int predicate)
{
    static int found;
    lki_sim::wait_block();
    found = 0;
    lki_sim::wait_block();
    if (predicate) found = 1;
    lki_sim::wait_block();
    const int any = found;
    lki_sim::wait_block();
    return any;
}

#endif
