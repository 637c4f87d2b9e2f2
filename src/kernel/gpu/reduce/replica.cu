/* Operations of several replicas: sums in the order of the lane tree, agreement; and updates of variables selected by ids or by
 * lanes.
 *
 * Invariants
 *  1. The pointers of all replicas are arguments of the launch, at most SOURCES of them; replica_sum with more takes several
 *     launches, and its open sums wait in scratch.
 *  2. Updates in place do nothing once their step met an index out of range (`stop`). scatter checks all ids first: if one is out
 *     of range nothing changes. */
#include "kernel/gpu/base/each.h"
#include "kernel/gpu/base/element.h"
#include "kernel/ref/types.h"
#include <utility>

namespace
{

using lki_gpu::pack;

#ifdef LKI_SIM
enum { SOURCES = 5 }; /* so that tests reach several launches */
#else
enum { SOURCES = 256 };
#endif
enum { DEEP = 24, SHALLOW = 5 }; /* open sums of replica_sum: the most, and as many as fit in registers */

template <typename T> struct wrap {
    typedef T type;
};
template <> struct wrap<i32> {
    typedef u32 type;
};
template <> struct wrap<i64> {
    typedef u64 type;
};

template <int Most> struct pointers {
    const void *at[Most];
};

template <int N> bool packed(const lki_args *a, int sources, size_t bytes)
{
    uintptr_t bits = (uintptr_t)a->dst[0].data;
    for (int i = 0; i < sources; i++)
        bits |= (uintptr_t)a->src[i].data;
    return bits % (N * bytes) == 0 && a->hi % N == 0;
}

static unsigned blocks_for(int64_t threads)
{
    return (unsigned)lki_min(lki_ceil_div(threads, lki_gpu::MAP_BLOCK), lki_gpu::MAP_BLOCKS);
}

/* ---- sums over the replicas ---- */

__device__ inline bool siblings(const i32 *left, const i32 *right)
{
    return left[0] >= 0 && left[1] == right[1] && left[1] > 0 && left[0] % (2 * left[1]) == 0 && right[0] == left[0] + left[1];
}

/* How many sums are closed after each source of this launch: the same for all elements. */
struct plan {
    u8  merges[SOURCES];
    int before, most; /* open sums before the first source; the most at a time */
};

__device__ void make_plan(plan *p, const i32 *table, int first, int count)
{
    i32 open[DEEP][2];
    int depth = 0;
    p->before = p->most = 0;
    for (int i = 0; i < first + count; i++) {
        int merges = 0;
        if (i == first) p->before = depth;
        open[depth][0] = table[2 * i];
        open[depth][1] = table[2 * i + 1];
        depth++;
        if (depth > p->most) p->most = depth;
        for (; depth > 1 && (siblings(open[depth - 2], open[depth - 1]) || depth == DEEP); merges++, depth--)
            open[depth - 2][1] = siblings(open[depth - 2], open[depth - 1]) ? 2 * open[depth - 2][1] : 0;
        if (i >= first) p->merges[i - first] = (u8)merges;
    }
}

struct sum_call {
    const i32 *table;
    void      *dst, *open; /* open: [DEEP][n], sums from launch to launch */
    int64_t    n;
    int        first, count;
    bool       last;
};

/* Open sums of one thread. A shallow stack is only indexed by constants, so that it stays in registers. */
template <typename T, int N, int Depth> struct open_sums {
    pack<T, N> at[Depth];

    __device__ pack<T, N> get(int i) const
    {
        if constexpr (Depth > SHALLOW) {
            return at[i];
        } else {
            pack<T, N> x = at[0];
            for (int j = 1; j < Depth; j++)
                if (i == j) x = at[j];
            return x;
        }
    }
    __device__ void put(int i, const pack<T, N> &x)
    {
        if constexpr (Depth > SHALLOW) at[i] = x;
        else
            for (int j = 0; j < Depth; j++)
                if (i == j) at[j] = x;
    }
};

template <typename T, int N> __device__ inline void add_to(pack<T, N> *right, const pack<T, N> &left)
{
    typedef typename wrap<T>::type W;
    for (int j = 0; j < N; j++)
        right->at[j] = (T)((W)left.at[j] + (W)right->at[j]);
}

/* The newest sum is in `top`; `depth` counts those below it. */
template <typename T, int N, int Depth>
__device__ inline void sum_at(const sum_call &c, const pointers<SOURCES> &src, const plan &p, int64_t i)
{
    open_sums<T, N, Depth> open;
    pack<T, N>             top = {};
    int                    depth = p.before;
    for (int d = 0; d < p.before; d++)
        open.put(d, *(const pack<T, N> *)(const void *)((const T *)c.open + d * c.n + i));
    for (int s = 0; s < c.count; s++) {
        top = *(const pack<T, N> *)(const void *)((const T *)src.at[s] + i);
        for (int m = 0; m < p.merges[s]; m++)
            add_to(&top, open.get(--depth));
        if (s + 1 < c.count || !c.last) open.put(depth++, top);
    }
    if (c.last) {
        while (depth > 0)
            add_to(&top, open.get(--depth));
        *(pack<T, N> *)(void *)((T *)c.dst + i) = top;
    } else {
        for (int d = 0; d < depth; d++)
            *(pack<T, N> *)(void *)((T *)c.open + d * c.n + i) = open.get(d);
    }
}

template <typename T, int N> __global__ void __launch_bounds__(256, 4) sum_kernel(sum_call c, pointers<SOURCES> src)
{
    __shared__ plan p;
    if (threadIdx.x == 0) make_plan(&p, c.table, c.first, c.count);
    __syncthreads();
    const bool shallow = p.most <= SHALLOW;
    for (int64_t i = N * (blockIdx.x * (int64_t)blockDim.x + threadIdx.x); i < c.n; i += N * (int64_t)gridDim.x * blockDim.x)
        if (shallow) sum_at<T, N, SHALLOW>(c, src, p, i);
        else sum_at<T, N, DEEP>(c, src, p, i);
}

size_t sum_scratch(const lki_args *a)
{
    const size_t bytes = a->dst[0].dtype == LK_F64 || a->dst[0].dtype == LK_I64 ? 8 : 4;
    return a->nsrc - 1 > SOURCES ? DEEP * (size_t)lki_gpu::size_of(&a->dst[0]) * bytes : 0;
}

template <typename T> void replica_sum(const lki_args *a)
{
    constexpr int wide = 16 / sizeof(T);
    const int     total = a->nsrc - 1;
    const bool    packs = packed<wide>(a, total, sizeof(T));
    const dim3    blocks(blocks_for(packs ? a->hi / wide : a->hi)), block(lki_gpu::MAP_BLOCK);
    for (int first = 0; first < total && a->hi; first += SOURCES) {
        pointers<SOURCES> src = {};
        sum_call          c = {(const i32 *)a->src[total].data,      a->dst[0].data, a->scratch, a->hi, first,
                               (int)lki_min(SOURCES, total - first), false};
        c.last = first + c.count == total;
        for (int i = 0; i < c.count; i++)
            src.at[i] = a->src[first + i].data;
        if (packs) LKI_LAUNCH((sum_kernel<T, wide>), blocks, block, 0, a, c, src);
        else LKI_LAUNCH((sum_kernel<T, 1>), blocks, block, 0, a, c, src);
    }
}

/* ---- agreement ---- */

enum { REPLICAS = 256 }; /* as many devices as there can be */

__device__ inline bool same_bits(f32 x, f32 y) { return __float_as_uint(x) == __float_as_uint(y); }
__device__ inline bool same_bits(f64 x, f64 y)
{
    u64 p, q;
    memcpy(&p, &x, sizeof p);
    memcpy(&q, &y, sizeof q);
    return p == q;
}

template <typename T, int N>
__global__ void __launch_bounds__(256) agree_kernel(pointers<REPLICAS> src, int count, T *dst, int64_t n, T equal, T differ)
{
    for (int64_t i = N * (blockIdx.x * (int64_t)blockDim.x + threadIdx.x); i < n; i += N * (int64_t)gridDim.x * blockDim.x) {
        const pack<T, N> first = *(const pack<T, N> *)(const void *)((const T *)src.at[0] + i);
        pack<T, N>       sum = first;
        unsigned         differs = 0; /* a bit for each of N */
        for (int r = 1; r < count; r++) {
            const pack<T, N> x = *(const pack<T, N> *)(const void *)((const T *)src.at[r] + i);
            for (int j = 0; j < N; j++) {
                differs |= same_bits(x.at[j], first.at[j]) ? 0 : 1u << j;
                sum.at[j] = sum.at[j] + x.at[j];
            }
        }
        for (int j = 0; j < N; j++)
            sum.at[j] = differs >> j & 1 ? differ * sum.at[j] : equal * first.at[j];
        *(pack<T, N> *)(void *)(dst + i) = sum;
    }
}

template <typename T> void agree(const lki_args *a)
{
    constexpr int      wide = 16 / sizeof(T);
    const bool         packs = packed<wide>(a, a->nsrc, sizeof(T));
    const dim3         blocks(blocks_for(packs ? a->hi / wide : a->hi)), block(lki_gpu::MAP_BLOCK);
    const T            equal = (T)a->attr->num.a, differ = (T)a->attr->num.b;
    T                 *dst = (T *)a->dst[0].data;
    pointers<REPLICAS> src = {};
    if (!a->hi) return;
    for (int i = 0; i < a->nsrc && i < REPLICAS; i++)
        src.at[i] = a->src[i].data;
    if (packs) LKI_LAUNCH_FLAT((agree_kernel<T, wide>), blocks, block, a, src, a->nsrc, dst, a->hi, equal, differ);
    else LKI_LAUNCH_FLAT((agree_kernel<T, 1>), blocks, block, a, src, a->nsrc, dst, a->hi, equal, differ);
}

/* ---- entries selected by ids ---- */

enum { ADD, SUB, MUL, DIV, MIN, MAX, UPDATE };
enum { SCATTER_THREADS = 1 << 16, SCATTER_PARTS = 1 << 10 };

template <typename T> struct scatter_call {
    T             *dst;
    const T       *rows;
    lki_gpu::ids   ids;
    int64_t        entries, entry, count; /* dst is [entries, entry]; count ids */
    int64_t        parts;                 /* a power of two: part p has the entries e with e mod parts = p */
    int            operation;
    int           *bad; /* scratch: set by an invalid id or divisor */
    const int     *stop;
    lki_gpu::fault fail;
};

/* One block: checks that every id, and every divisor of an integer, is valid. */
template <typename T> __global__ void __launch_bounds__(256) scatter_check(scatter_call<T> c)
{
    __shared__ int bad;
    if (lki_gpu::stopped(c.stop)) return;
    if (threadIdx.x == 0) bad = 0;
    __syncthreads();
    for (int64_t i = threadIdx.x; i < c.count; i += blockDim.x)
        if (c.ids[i] < 0 || c.ids[i] >= c.entries) bad = 1;
    if (std::is_integral<T>::value && c.operation == DIV)
        for (int64_t i = threadIdx.x; i < c.count * c.entry; i += blockDim.x)
            if (c.rows[i] == 0) bad = 1;
    __syncthreads();
    if (threadIdx.x != 0) return;
    *c.bad = bad;
    if (bad) c.fail();
}

/* Integers are cut towards zero; the most negative one divided by -1 wraps. */
__device__ inline f32 divide(f32 x, f32 y) { return x / y; }
__device__ inline f64 divide(f64 x, f64 y) { return x / y; }
__device__ inline i32 divide(i32 x, i32 y) { return y == -1 ? (i32)(0 - (u32)x) : x / y; }
__device__ inline i64 divide(i64 x, i64 y) { return y == -1 ? (i64)(0 - (u64)x) : x / y; }

template <typename T> __device__ inline T scattered(T to, T x, int operation)
{
    typedef typename wrap<T>::type W;
    switch (operation) {
    case ADD: return (T)((W)to + (W)x);
    case SUB: return (T)((W)to - (W)x);
    case MUL: return (T)((W)to * (W)x);
    case DIV: return divide(to, x);
    case MIN: return x < to || x != x ? x : to; /* NaN wins, as in minimum and maximum */
    case MAX: return x > to || x != x ? x : to;
    default: return x;
    }
}

/* A thread owns one column of one part of the entries and walks over all ids, so rows of equal ids are added one after the
 * other. */
template <typename T> __global__ void __launch_bounds__(256) scatter_kernel(scatter_call<T> c)
{
    if (lki_gpu::stopped(c.stop) || *c.bad) return;
    for (int64_t t = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; t < c.entry * c.parts; t += (int64_t)gridDim.x * blockDim.x) {
        const int64_t part = t / c.entry, column = t % c.entry;
        for (int64_t i = 0; i < c.count; i++) {
            const int64_t id = c.ids[i];
            if ((id & (c.parts - 1)) != part) continue;
            T *to = c.dst + id * c.entry + column;
            *to = scattered(*to, c.rows[i * c.entry + column], c.operation);
        }
    }
}

size_t scatter_scratch(const lki_args *) { return sizeof(int); }

template <typename T> void scatter(const lki_args *a)
{
    const lk_shape *s = a->dst[0].shape;
    scatter_call<T> c = {(T *)a->dst[0].data,
                         (const T *)a->src[0].data,
                         lki_gpu::ids_of(&a->src[1]),
                         s->dim[0],
                         1,
                         lki_gpu::size_of(&a->src[1]),
                         1,
                         (int)a->attr->num.a,
                         (int *)a->scratch,
                         a->gpu->stop,
                         lki_gpu::fault_of(a)};
    for (int d = 1; d < s->rank; d++)
        c.entry *= s->dim[d];
    if (c.count == 0) return;
    while (c.parts < SCATTER_PARTS && 2 * c.parts <= c.entries && 2 * c.parts * c.entry <= SCATTER_THREADS)
        c.parts *= 2;
    LKI_LAUNCH((scatter_check<T>), dim3(1), dim3(lki_gpu::MAP_BLOCK), 0, a, c);
    if (c.entry) LKI_LAUNCH_FLAT((scatter_kernel<T>), dim3(blocks_for(c.entry * c.parts)), dim3(lki_gpu::MAP_BLOCK), a, c);
}

/* ---- sums that stay per lane ---- */

struct lane_call {
    f64           *dst; /* of the first of these lanes */
    const void    *src;
    int64_t        entry;
    const int     *stop;
    lki_gpu::lanes lanes;
};

template <lk_dtype D> __global__ void __launch_bounds__(256) lane_kernel(lane_call c)
{
    typedef lki_gpu::element<D> element;
    if (lki_gpu::stopped(c.stop)) return;
    for (int64_t t = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; t < c.lanes.count * c.entry;
         t += (int64_t)gridDim.x * blockDim.x) {
        const int64_t                 lane = t / c.entry, from = c.lanes.bound[lane], to = c.lanes.bound[lane + 1];
        const typename element::type *x = (const typename element::type *)c.src + t % c.entry;
        f64                           sum = 0;
        for (int64_t i = from; i < to; i++)
            sum += lki_gpu::wide(element::value(x[i * c.entry]));
        if (from < to) c.dst[t] += sum;
    }
}

template <lk_dtype D> void lane_add(const lki_args *a)
{
    const lk_shape *s = a->dst[0].shape;
    lane_call       c = {(f64 *)a->dst[0].data, a->src[0].data, 1, a->gpu->stop, {}};
    for (int d = 1; d < s->rank; d++)
        c.entry *= s->dim[d];
    if (c.entry == 0) return;
    if (!a->lanes) c.dst += (int64_t)a->attr->num.a * c.entry;
    for (int first = 0, count = a->lanes ? a->lanes->count : 1; first < count;
         first += lki_gpu::MOST_LANES, c.dst += lki_gpu::MOST_LANES * c.entry) {
        c.lanes.count = (int)lki_min(lki_gpu::MOST_LANES, count - first);
        c.lanes.bound[1] = a->src[0].shape->dim[0];
        for (int l = 0; a->lanes && l <= c.lanes.count; l++)
            c.lanes.bound[l] = a->lanes->bound[first + l];
        LKI_LAUNCH_FLAT((lane_kernel<D>), dim3(blocks_for(c.lanes.count * c.entry)), dim3(lki_gpu::MAP_BLOCK), a, c);
    }
}

template <int... D> void set_lane_add(lki_kernels *k, std::integer_sequence<int, D...>)
{
    (lki_gpu::set(k, LKI_K_lane_add, (lk_dtype)D, lane_add<(lk_dtype)D>), ...);
}

} // namespace

void lki_gpu::register_replica(lki_kernels *k)
{
#define SET_F(slot, scratch)                                                                                                       \
    set(k, LKI_K_##slot, LK_F32, slot<f32>, scratch);                                                                              \
    set(k, LKI_K_##slot, LK_F64, slot<f64>, scratch);
#define SET_N(slot, scratch)                                                                                                       \
    SET_F(slot, scratch)                                                                                                           \
    set(k, LKI_K_##slot, LK_I32, slot<i32>, scratch);                                                                              \
    set(k, LKI_K_##slot, LK_I64, slot<i64>, scratch);
    SET_N(replica_sum, sum_scratch)
    SET_F(agree, nullptr)
    SET_N(scatter, scatter_scratch)
    set_lane_add(k, std::make_integer_sequence<int, LK_DTYPE_COUNT>());
}
