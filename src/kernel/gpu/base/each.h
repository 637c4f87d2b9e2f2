/* dst[i] = f(a[i], b[i], c[i]) with up to three operands broadcast to dst: the one kernel for all element-wise slots.
 *
 *     struct f32_add : lki_gpu::each_call { __device__ float operator()(float x, float y) const { return x + y; } };
 *     lki_gpu::each<float, f32_add, float, float>(a);
 *
 * Invariants
 *  1. Axes of size one are dropped and neighbours that all operands step over alike are merged, so along the last axis an operand
 *     is dense (step 1) or constant (step 0): dense operands and scalars need no division at all, [C] against [..., C] one per
 *     pack.
 *  2. A thread handles a pack of 16 bytes of the widest type if pointers and the last axis allow it, else single elements. Pointers
 *     may be at any multiple of their element's size.
 *  3. Index arithmetic is 32 bits wide: more than EACH_MOST elements are divided along the first axis, and each part is a launch.
 *  4. A thread reads its elements before it writes them: dst may be a dense operand.
 *  5. Cards flush subnormal floats, not doubles; here doubles are flushed explicitly, as in the reference. */
#ifndef LKI_KERNEL_GPU_BASE_EACH_H
#define LKI_KERNEL_GPU_BASE_EACH_H

#include "kernel/gpu/base/gpu.h"
#include <type_traits>

namespace lki_gpu
{

#ifdef LKI_SIM
enum { EACH_MOST = 1 << 16 }; /* so that tests reach the division */
#else
enum { EACH_MOST = 1 << 30 };
#endif
enum { EACH_OPERANDS = 3, EACH_PACK_BYTES = 16, EACH_PACK = 4 };

/* What an expression may use besides its operands; every functor begins with it. */
struct each_call {
    double     a, b; /* attr num */
    fault      fail;
    const int *stop; /* for calls that write a variable: it is not written after a fault */
};

/* Floor of n / divisor, for n < 2^31, by a multiplication. */
struct divider {
    uint32_t divisor, factor, shift;

    __device__ uint32_t quotient(uint32_t n) const { return (__umulhi(n, factor) + n) >> shift; }
};

static inline divider divider_of(uint32_t divisor)
{
    uint32_t shift = 0;
    while (shift < 31 && (uint32_t)1 << shift < divisor)
        shift++;
    const uint64_t factor = (((uint64_t)1 << 32) * (((uint64_t)1 << shift) - divisor)) / divisor + 1;
    return divider{divisor, (uint32_t)factor, shift};
}

/* ---- the walk over dst and its operands, on the host ---- */

struct walk {
    int         rank, operands;
    int64_t     dim[LK_MAX_RANK], step[EACH_OPERANDS][LK_MAX_RANK]; /* steps in elements; 0 where broadcast */
    char       *dst;
    const char *src[EACH_OPERANDS];
};

static inline walk walk_of(const lki_args *a, int operands)
{
    walk            w = {};
    const lk_shape *to = a->dst[0].shape;
    w.rank = to->rank;
    w.operands = operands;
    w.dst = (char *)a->dst[0].data;
    for (int d = 0; d < to->rank; d++)
        w.dim[d] = to->dim[d];
    for (int k = 0; k < operands; k++) {
        const strides s = broadcast_strides(to, a->src[k].shape);
        w.src[k] = (const char *)a->src[k].data;
        for (int d = 0; d < to->rank; d++)
            w.step[k][d] = s.step[d];
    }
    return w;
}

static inline bool walk_merges(const walk *w, int outer, int inner)
{
    for (int k = 0; k < w->operands; k++)
        if (w->step[k][outer] != w->step[k][inner] * w->dim[inner]) return false;
    return true;
}

/* Reduces the walk to as few axes as possible, at least one. */
static inline void walk_collapse(walk *w)
{
    int rank = 0;
    for (int d = 0; d < w->rank; d++) {
        if (w->dim[d] == 1) continue;
        const bool    merged = rank && walk_merges(w, rank - 1, d);
        const int     to = merged ? rank - 1 : rank++;
        const int64_t outer = merged ? w->dim[to] : 1;
        w->dim[to] = outer * w->dim[d];
        for (int k = 0; k < w->operands; k++)
            w->step[k][to] = w->step[k][d];
    }
    if (rank == 0) {
        w->dim[rank++] = 1;
        for (int k = 0; k < w->operands; k++)
            w->step[k][0] = 0;
    }
    w->rank = rank;
}

static inline int64_t walk_size(const walk *w)
{
    int64_t n = 1;
    for (int d = 0; d < w->rank; d++)
        n *= w->dim[d];
    return n;
}

/* ---- the kernel ---- */

/* The type of an operand that does not exist. */
struct none {
};

template <typename T, int N> struct alignas(N * sizeof(T)) pack {
    T at[N];
};
template <int N> struct pack<none, N> {
};

struct places { /* a walk in the form the card uses */
    int         rank;
    uint32_t    count;
    divider     dim[LK_MAX_RANK];
    uint32_t    step[EACH_OPERANDS][LK_MAX_RANK];
    void       *dst;
    const void *src[EACH_OPERANDS];
};

template <typename T> __device__ inline T flush(T x) { return x; }
template <> __device__ inline double      flush(double x) { return fabs(x) < 0x1p-1022 ? copysign(0.0, x) : x; }

/* N elements from index `at` of operand k, fewer if dst ends earlier. */
template <int N, typename T> __device__ inline void each_load(const places &p, int k, uint32_t at, uint32_t left, pack<T, N> *out)
{
    if constexpr (!std::is_same<T, none>::value) {
        const T *src = (const T *)p.src[k] + at;
        if (!p.step[k][p.rank - 1]) {
            const T x = flush(*src);
            for (int j = 0; j < N; j++)
                out->at[j] = x;
        } else if (left >= N) {
            *out = *(const pack<T, N> *)(const void *)src;
            for (int j = 0; j < N; j++)
                out->at[j] = flush(out->at[j]);
        } else {
            for (int j = 0; j < N; j++)
                if ((uint32_t)j < left) out->at[j] = flush(src[j]);
        }
    }
}

template <typename D, typename F, typename A, typename B, typename C, int N>
__device__ inline D each_value(const F &f, const pack<A, N> &x, const pack<B, N> &y, const pack<C, N> &z, int j)
{
    if constexpr (std::is_same<B, none>::value) return flush(f(x.at[j]));
    else if constexpr (std::is_same<C, none>::value) return flush(f(x.at[j], y.at[j]));
    else return flush(f(x.at[j], y.at[j], z.at[j]));
}

template <int N, typename D, typename F, typename A, typename B, typename C>
__global__ void __launch_bounds__(256) each_kernel(places p, F f)
{
    if (stopped(f.stop)) return;
    for (uint32_t i = (blockIdx.x * blockDim.x + threadIdx.x) * N; i < p.count; i += gridDim.x * blockDim.x * N) {
        uint32_t at[EACH_OPERANDS] = {0, 0, 0}, rest = i;
        for (int d = p.rank - 1; d > 0; d--) {
            const uint32_t above = p.dim[d].quotient(rest), here = rest - above * p.dim[d].divisor;
            for (int k = 0; k < EACH_OPERANDS; k++)
                at[k] += here * p.step[k][d];
            rest = above;
        }
        for (int k = 0; k < EACH_OPERANDS; k++)
            at[k] += rest * p.step[k][0];

        const uint32_t left = p.count - i;
        pack<A, N>     x = {};
        pack<B, N>     y = {};
        pack<C, N>     z = {};
        each_load<N, A>(p, 0, at[0], left, &x);
        each_load<N, B>(p, 1, at[1], left, &y);
        each_load<N, C>(p, 2, at[2], left, &z);
        if (left >= N) {
            pack<D, N> out;
            for (int j = 0; j < N; j++)
                out.at[j] = each_value<D>(f, x, y, z, j);
            *(pack<D, N> *)(void *)((D *)p.dst + i) = out;
        } else {
            for (int j = 0; j < N; j++)
                if ((uint32_t)j < left) ((D *)p.dst)[i + (uint32_t)j] = each_value<D>(f, x, y, z, j);
        }
    }
}

/* ---- the launch ---- */

template <typename T> constexpr size_t each_bytes() { return std::is_same<T, none>::value ? 1 : sizeof(T); }

template <int N, typename D, typename F, typename A, typename B, typename C>
static void each_part(const lki_args *a, const walk &w, const F &f)
{
    places p = {};
    (void)a;
    p.rank = w.rank;
    p.count = (uint32_t)walk_size(&w);
    p.dst = w.dst;
    for (int d = 0; d < w.rank; d++)
        p.dim[d] = divider_of((uint32_t)w.dim[d]);
    for (int k = 0; k < w.operands; k++) {
        p.src[k] = w.src[k];
        for (int d = 0; d < w.rank; d++)
            p.step[k][d] = (uint32_t)w.step[k][d];
    }
    const int64_t blocks = lki_min(lki_ceil_div(p.count, (int64_t)N * MAP_BLOCK), MAP_BLOCKS);
    LKI_LAUNCH_FLAT((each_kernel<N, D, F, A, B, C>), dim3((unsigned)blocks), dim3(MAP_BLOCK), a, p, f);
}

/* True if packs of n can be read and written. Dense axes then consist of whole packs, except the end of an only axis. */
static inline bool each_packs(const walk *w, int n, size_t dst_bytes, const size_t *src_bytes)
{
    const int last = w->rank - 1;
    if ((last > 0 && w->dim[last] % n) || (uintptr_t)w->dst % ((size_t)n * dst_bytes)) return false;
    for (int k = 0; k < w->operands; k++)
        if (w->step[k][last] && (uintptr_t)w->src[k] % ((size_t)n * src_bytes[k])) return false;
    return true;
}

template <typename D, typename F, typename A, typename B, typename C> static void each_walk(const lki_args *a, walk w, const F &f)
{
    constexpr size_t ab = each_bytes<A>() > each_bytes<B>() ? each_bytes<A>() : each_bytes<B>();
    constexpr size_t dc = sizeof(D) > each_bytes<C>() ? sizeof(D) : each_bytes<C>();
    constexpr int    fit = (int)(EACH_PACK_BYTES / (ab > dc ? ab : dc)), wide = fit < EACH_PACK ? fit : EACH_PACK;
    const size_t     src_bytes[EACH_OPERANDS] = {each_bytes<A>(), each_bytes<B>(), each_bytes<C>()};
    const int64_t    size = walk_size(&w);
    if (size == 0) return;
    walk_collapse(&w);
    if (size > EACH_MOST) {
        const int64_t whole = w.dim[0], half = w.rank == 1 ? lki_round_up(whole / 2, EACH_PACK_BYTES) : whole / 2;
        w.dim[0] = half;
        each_walk<D, F, A, B, C>(a, w, f);
        w.dim[0] = whole - half;
        w.dst += half * (size / whole) * (int64_t)sizeof(D);
        for (int k = 0; k < w.operands; k++)
            w.src[k] += half * w.step[k][0] * (int64_t)src_bytes[k];
        each_walk<D, F, A, B, C>(a, w, f);
    } else if (each_packs(&w, wide, sizeof(D), src_bytes)) {
        each_part<wide, D, F, A, B, C>(a, w, f);
    } else {
        each_part<1, D, F, A, B, C>(a, w, f);
    }
}

/* D: type of dst; F: the functor, which begins with an each_call; A, B, C: types of the operands. */
template <typename D, typename F, typename A, typename B = none, typename C = none> static void each(const lki_args *a)
{
    F f = {};
    f.a = a->attr ? a->attr->num.a : 0;
    f.b = a->attr ? a->attr->num.b : 0;
    f.fail = fault_of(a);
    f.stop = a->gpu->fault ? nullptr : a->gpu->stop; /* a call that may fail writes no variable, and all of its result */
    each_walk<D, F, A, B, C>(a, walk_of(a, 1 + !std::is_same<B, none>::value + !std::is_same<C, none>::value), f);
}

/* Further files of register_elementwise(). */
void register_truth(lki_kernels *k); /* truth.cu: comparisons, logic, where */
void register_cast(lki_kernels *k);  /* cast.cu */

} // namespace lki_gpu

#endif
