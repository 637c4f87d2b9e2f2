/* Sums and products along axes, sums of squares, and running sums. The operand is [outer, mid, inner] (axes.h).
 *
 *     inner = 1, no lanes    FOLD: a half warp per row of few elements (fold.h). For long rows, or a few rows of hundreds, a thread
 *                            block folds a block of 4096, or 16 of them if there are very many; if a row has several, their sums
 *                            are written to scratch and a second kernel walks the tree.
 *     else                   sums: LANES, divided in the card's order if lanes have more than 64 rows (sums.h)
 *                            products: CHAIN (chain.h)
 *
 * Integers wrap, so their sums are those of unsigned numbers, in any order; the same kernels compute them. */
#include "kernel/gpu/base/sums.h"
#include "kernel/gpu/reduce/chain.h"
#include <type_traits>

using namespace lki_gpu;

namespace
{

enum {
    LONG_GROUP = 16,
    BUSY_BLOCKS = 264,
    FOLD_THREADS = 256,
    TREE_BLOCK = 256,
    TREE_MOST = 4096,
    HALF_WARP_ENOUGH = 256,
    FEW_ROWS = 1024
};

/* ---- FOLD ---- */

/* nothing: adding it changes no sum. */
struct plain {
    template <typename T> static __device__ T nothing() { return -(T)0; }
    template <typename T> static __device__ T add(T acc, T x) { return acc + x; }
};

struct squares {
    template <typename T> static __device__ T nothing() { return 0; } /* sums of squares from +0 are never -0 */
    static __device__ float                   add(float acc, float x) { return fmaf(x, x, acc); }
    static __device__ double                  add(double acc, double x) { return fma(x, x, acc); }
};

template <typename T, typename ADD> struct fold_row {
    const T                                 *x;
    T                                       *dst;
    int64_t                                  n;
    template <typename TEAM> __device__ void operator()(const TEAM &team) const
    {
        const T *row = x + team.row * n;
        const T  sum = team.template fold<T>([=](T acc, int64_t j) { return ADD::add(acc, row[j]); });
        if (team.leads()) dst[team.row] = sum;
    }
};

/* How many blocks of 4096 a thread block folds of a long row. From shapes alone, because the size of scratch depends on it. */
int group_of(int64_t rows, int64_t n)
{
    return rows * lki_ceil_div(n, LKI_FOLD_BLOCK) >= LONG_GROUP * BUSY_BLOCKS ? LONG_GROUP : 1;
}

int64_t groups_of(int64_t rows, int64_t n) { return lki_ceil_div(n, (int64_t)group_of(rows, n) * LKI_FOLD_BLOCK); }

/* A thread block: one block of one row, which all its threads copy to shared memory; 16 of them add it up. Sums to out[row * blocks
 * + block]. */
template <typename T, typename ADD>
__global__ void __launch_bounds__(FOLD_THREADS) fold_staged(const T *x, T *out, int64_t n, unsigned blocks)
{
    enum { EACH = LKI_FOLD_BLOCK / FOLD_THREADS };
    __shared__ T  piece[LKI_FOLD_BLOCK];
    const int     t = (int)threadIdx.x;
    const int64_t from = (int64_t)(blockIdx.x % blocks) * LKI_FOLD_BLOCK;
    const int     count = (int)least(LKI_FOLD_BLOCK, n - from);
    T             v[EACH], acc = 0;
    x += (int64_t)(blockIdx.x / blocks) * n + from + t;
    LKI_UNROLL(16)
    for (int i = 0; i < EACH; i++)
        v[i] = t + i * FOLD_THREADS < count ? x[i * FOLD_THREADS] : ADD::template nothing<T>();
    LKI_UNROLL(16)
    for (int i = 0; i < EACH; i++)
        piece[t + i * FOLD_THREADS] = v[i];
    __syncthreads();
    if (t >= 32) return;
    for (int begin = t % LKI_FOLD_WIDTH; begin < count; begin += 16 * LKI_FOLD_WIDTH) { /* the same in both halves of the warp */
        LKI_UNROLL(16)
        for (int i = 0; i < 16; i++)
            acc = ADD::add(acc, piece[begin + i * LKI_FOLD_WIDTH]);
    }
    for (int half = LKI_FOLD_WIDTH / 2; half; half /= 2)
        acc = acc + __shfl_down_sync((unsigned)FULL_WARP, acc, half, LKI_FOLD_WIDTH);
    if (t == 0) out[blockIdx.x] = acc;
}

/* A thread block: LONG_GROUP blocks of one row, a half warp each; sums to out[row * groups + group]. */
template <typename T, typename ADD>
__global__ void __launch_bounds__(LONG_GROUP *LKI_FOLD_WIDTH) fold_groups(const T *x, T *out, int64_t n, int64_t groups)
{
    __shared__ T  sum[LONG_GROUP];
    const int     half = (int)threadIdx.x / LKI_FOLD_WIDTH;
    const int64_t first = blockIdx.x % groups * LONG_GROUP, from = (first + half) * LKI_FOLD_BLOCK;
    const int64_t blocks = (n + LKI_FOLD_BLOCK - 1) / LKI_FOLD_BLOCK;
    const T      *row = x + blockIdx.x / groups * n;
    const T       mine = fold_block<T>((int)threadIdx.x % LKI_FOLD_WIDTH, from, least(n, from + LKI_FOLD_BLOCK),
                                 [=](T acc, int64_t j) { return ADD::add(acc, row[j]); });
    if (threadIdx.x % LKI_FOLD_WIDTH == 0) sum[half] = mine;
    __syncthreads();
    if (threadIdx.x == 0) out[blockIdx.x] = pairwise(sum, (int)least(LONG_GROUP, blocks - first));
}

/* The tree over n sums by the threads of a block, in place. */
template <typename T> __device__ inline void walk_tree(T *sum, int64_t n)
{
    for (int64_t step = 1; step < n; step *= 2) {
        for (int64_t s = 2 * step * threadIdx.x; s + step < n; s += 2 * step * TREE_BLOCK)
            sum[s] = sum[s] + sum[s + step];
        __syncthreads();
    }
}

/* A thread block walks the tree over the n sums of one row; in shared memory, if they fit. */
template <typename T> __global__ void __launch_bounds__(TREE_BLOCK) fold_tree(T *sums, T *dst, int64_t n)
{
    __shared__ T room[TREE_MOST];
    T           *sum = sums + blockIdx.x * n;
    if (n <= TREE_MOST) {
        LKI_UNROLL(4)
        for (int i = (int)threadIdx.x; i < n; i += TREE_BLOCK)
            room[i] = sum[i];
        __syncthreads();
        sum = room;
    }
    walk_tree(sum, n);
    if (threadIdx.x == 0) dst[blockIdx.x] = sum[0];
}

template <typename T> size_t fold_scratch(int64_t rows, int64_t n)
{
    const int64_t groups = n > LKI_FOLD_BLOCK ? groups_of(rows, n) : 1;
    return groups > 1 ? (size_t)(rows * groups) * sizeof(T) : 0;
}

template <typename T, typename ADD> void fold_rows(const lki_args *a, int64_t rows, int64_t n)
{
    const T *x = (const T *)a->src[0].data;
    T       *dst = (T *)a->dst[0].data;
    if (rows <= 0) return;
    if (n <= HALF_WARP_ENOUGH || (n <= LKI_FOLD_BLOCK && rows > FEW_ROWS)) {
        over_rows(a, rows, n, fold_row<T, ADD>{x, dst, n});
        return;
    }
    const int64_t groups = groups_of(rows, n);
    T            *out = groups > 1 ? (T *)a->scratch : dst;
    const dim3    grid((unsigned)(rows * groups));
    if (group_of(rows, n) == 1) LKI_LAUNCH((fold_staged<T, ADD>), grid, dim3(FOLD_THREADS), 0, a, x, out, n, (unsigned)groups);
    else LKI_LAUNCH((fold_groups<T, ADD>), grid, dim3(LONG_GROUP * LKI_FOLD_WIDTH), 0, a, x, out, n, groups);
    if (groups > 1) LKI_LAUNCH((fold_tree<T>), dim3((unsigned)rows), dim3(TREE_BLOCK), 0, a, out, dst, groups);
}

/* ---- chains ---- */

template <typename T> struct sum_rows {
    typedef T element;
    typedef T sum;
    enum { OPERANDS = 1 };
    template <int V> using values = bunch<T, V>;
    template <int V> struct fixed {
    };
    const T                    *x;
    T                          *dst;
    template <int V> __device__ fixed<V> fix(int64_t) const { return {}; }
    template <int V> __device__ bunch<T, V> load(int64_t at, int64_t) const { return bunch_at<V>(x + at); }
    template <int V> __device__ void        add(T *acc, const bunch<T, V> &v, fixed<V>) const
    {
        for (int j = 0; j < V; j++)
            acc[j] = acc[j] + v.v[j];
    }
    __device__ T    zero() const { return 0; }
    __device__ T    nothing() const { return -(T)0; }
    __device__ T    join(T a, T b) const { return a + b; }
    __device__ void put(int64_t o, T v) const { dst[o] = v; }
    uintptr_t       addresses() const { return (uintptr_t)x; }
};

/* An element counts as 0 where y is not > 0. */
template <typename T> struct relu_rows : sum_rows<T> {
    enum { OPERANDS = 2 };
    template <int V> struct values {
        bunch<T, V> x, y;
    };
    template <int V> using fixed = typename sum_rows<T>::template fixed<V>;
    const T                    *y;
    template <int V> __device__ values<V> load(int64_t at, int64_t) const
    {
        return {bunch_at<V>(this->x + at), bunch_at<V>(y + at)};
    }
    template <int V> __device__ void add(T *acc, const values<V> &v, fixed<V>) const
    {
        for (int j = 0; j < V; j++)
            acc[j] = acc[j] + (v.y.v[j] > 0 ? v.x.v[j] : (T)0);
    }
    uintptr_t addresses() const { return (uintptr_t)this->x | (uintptr_t)y; }
};

template <typename T> struct product_chain {
    typedef T       value;
    typedef T       sum;
    const T        *x;
    T              *dst;
    __device__ T    zero() const { return 1; }
    __device__ T    load(int64_t at) const { return x[at]; }
    __device__ void add(T &acc, T v) const { acc = acc * v; }
    __device__ void put(int64_t o, T v) const { dst[o] = v; }
};

row_sums summed_rows(const lki_args *a)
{
    int64_t    entry = 1;
    const bool by_lanes = lki_reduced_lanes(a, &entry) != NULL;
    return row_sums_of(a, lki_reduced(a), entry, by_lanes);
}

bool folds(const lki_args *a)
{
    int64_t entry = 1;
    return lki_reduced(a).inner == 1 && !lki_reduced_lanes(a, &entry);
}

template <typename T> size_t reduce_sum_scratch(const lki_args *a)
{
    const lki_extent e = lki_reduced(a);
    return folds(a) ? fold_scratch<T>(e.outer, e.mid) : sums_scratch<T>(summed_rows(a));
}

template <typename T> void reduce_sum(const lki_args *a)
{
    const lki_extent  e = lki_reduced(a);
    const sum_rows<T> op = {(const T *)a->src[0].data, (T *)a->dst[0].data};
    if (folds(a)) {
        fold_rows<T, plain>(a, e.outer, e.mid);
        return;
    }
    if constexpr (std::is_floating_point<T>::value)
        if (a->attr->epilogue.relu) {
            sums(a, relu_rows<T>{op, (const T *)a->src[1].data}, summed_rows(a));
            return;
        }
    sums(a, op, summed_rows(a));
}

template <typename T> void reduce_prod(const lki_args *a)
{
    chains(a, product_chain<T>{(const T *)a->src[0].data, (T *)a->dst[0].data}, lki_reduced(a));
}

template <typename T> size_t sum_squares_scratch(const lki_args *a) { return fold_scratch<T>(1, size_of(&a->src[0])); }

template <typename T> void sum_squares(const lki_args *a)
{
    if (a->hi > 0) fold_rows<T, squares>(a, 1, size_of(&a->src[0]));
}

/* ---- running sums. A column is one thread's chain; where columns are many or short it reads and writes them itself ---- */

enum { SCAN_BLOCK = 256, SCAN_PIECE = 2048, SCAN_COLUMNS_LOG = 5, SCAN_AHEAD = 8 };

struct scan_call {
    lki_extent                  e;
    bool                        exclusive, reverse;
    __host__ __device__ int64_t at(int64_t outer, int64_t k, int64_t column) const
    {
        return (outer * e.mid + (reverse ? e.mid - 1 - k : k)) * e.inner + column;
    }
};

template <typename T> __global__ void scan_direct(const T *x, T *dst, scan_call s)
{
    const int64_t o = blockIdx.x * (int64_t)blockDim.x + threadIdx.x, outer = o / s.e.inner, column = o % s.e.inner;
    T             acc = 0, v[SCAN_AHEAD];
    if (o >= s.e.outer * s.e.inner) return;
    for (int64_t begin = 0; begin < s.e.mid; begin += SCAN_AHEAD) {
        LKI_UNROLL(8)
        for (int i = 0; i < SCAN_AHEAD; i++)
            v[i] = begin + i < s.e.mid ? x[s.at(outer, begin + i, column)] : (T)0;
        LKI_UNROLL(8)
        for (int i = 0; i < SCAN_AHEAD; i++) {
            const T before = acc;
            acc = acc + v[i];
            if (begin + i < s.e.mid) dst[s.at(outer, begin + i, column)] = s.exclusive ? before : acc;
        }
    }
}

/* A thread block owns 1 << log columns: its threads copy a piece to shared memory and back; in between one thread per column
 * sums. */
template <typename T>
__global__ void __launch_bounds__(SCAN_BLOCK) scan_staged(const T *x, T *dst, scan_call s, int log, int64_t groups)
{
    __shared__ T  piece[SCAN_PIECE];
    const int     columns = 1 << log, rows = SCAN_PIECE >> log, mine = (int)threadIdx.x & (columns - 1);
    const int64_t column = blockIdx.x % groups * columns + mine, outer = blockIdx.x / groups;
    const bool    inside = column < s.e.inner;
    T             acc = 0;
    for (int64_t begin = 0; begin < s.e.mid; begin += rows) {
        const int count = inside ? (int)least(rows, s.e.mid - begin) : 0;
        LKI_UNROLL(8)
        for (int i = (int)threadIdx.x >> log; i < count; i += SCAN_BLOCK >> log)
            piece[(i << log) + mine] = x[s.at(outer, begin + i, column)];
        __syncthreads();
        for (int i = 0; i < count && (int)threadIdx.x < columns; i++) {
            const T before = acc;
            acc = acc + piece[(i << log) + mine];
            piece[(i << log) + mine] = s.exclusive ? before : acc;
        }
        __syncthreads();
        for (int i = (int)threadIdx.x >> log; i < count; i += SCAN_BLOCK >> log)
            dst[s.at(outer, begin + i, column)] = piece[(i << log) + mine];
        __syncthreads();
    }
}

template <typename T> void cumsum(const lki_args *a)
{
    const T        *x = (const T *)a->src[0].data;
    T              *dst = (T *)a->dst[0].data;
    const scan_call s = {lki_extent_of(a->src[0].shape, a->attr->scan.axis, a->attr->scan.axis), a->attr->scan.exclusive != 0,
                         a->attr->scan.reverse != 0};
    const int64_t   columns = s.e.outer * s.e.inner;
    int             log = 0;
    if (a->hi <= 0) return;
    if (s.e.mid <= CHAIN_SHORT || columns >= CHAIN_MANY) {
        LKI_LAUNCH_FLAT((scan_direct<T>), dim3((unsigned)lki_ceil_div(columns, 128)), dim3(128), a, x, dst, s);
        return;
    }
    while (log < SCAN_COLUMNS_LOG && s.e.inner > 1 << log)
        log++;
    const int64_t groups = lki_ceil_div(s.e.inner, 1 << log);
    LKI_LAUNCH((scan_staged<T>), dim3((unsigned)(groups * s.e.outer)), dim3(SCAN_BLOCK), 0, a, x, dst, s, log, groups);
}

template <typename T> void set_all(lki_kernels *k, lk_dtype t)
{
    set(k, LKI_K_reduce_sum, t, reduce_sum<T>, reduce_sum_scratch<T>);
    set(k, LKI_K_reduce_prod, t, reduce_prod<T>);
    set(k, LKI_K_cumsum, t, cumsum<T>);
}

} // namespace

namespace lki_gpu
{
void register_pick(lki_kernels *k); /* pick.cu: the reductions that select */
}

void lki_gpu::register_reduce(lki_kernels *k)
{
    set_all<float>(k, LK_F32);
    set_all<double>(k, LK_F64);
    set_all<uint32_t>(k, LK_I32);
    set_all<uint64_t>(k, LK_I64);
    set(k, LKI_K_sum_squares, LK_F32, sum_squares<float>, sum_squares_scratch<float>);
    set(k, LKI_K_sum_squares, LK_F64, sum_squares<double>, sum_squares_scratch<double>);
    register_pick(k);
}
