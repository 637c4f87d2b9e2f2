/* Reductions whose result does not depend on the order: largest, smallest, any, all, where the largest is, and the k largest. The
 * operand is [outer, mid, inner] (axes.h).
 *
 * A column is divided into segments if there are too few columns to keep a card busy; the best of each segment is written to
 * scratch, [segments][outer * inner], and a second kernel finds the best of those. With inner = 1 a warp walks a segment, else a
 * thread does. An operation is a struct:
 *
 *     item                        what is compared
 *     item none() const           of no elements
 *     item of(at, k) const        element at, the k-th of its column
 *     item best(item, item) const
 *     item swap(item, by) const   the item of the warp's thread at the distance
 *     void put(o, item) const */
#include "kernel/axes.h"
#include "kernel/gpu/base/fold.h"
#include "kernel/gpu/reduce/pick.h"

using namespace lki_gpu;

namespace
{

enum { PICK_BLOCK = 128, WARP = 32, BUSY_WARPS = 1056, BUSY_THREADS = 32768, WARP_SEGMENT = 1024, THREAD_SEGMENT = 64 };

/* ---- operations ---- */

template <typename T, bool MAX> struct extreme {
    typedef T       item;
    const T        *x;
    T              *dst;
    T               start;
    __device__ T    none() const { return start; }
    __device__ T    of(int64_t at, int64_t) const { return x[at]; }
    __device__ T    best(T a, T b) const { return is_nan(a) ? a : is_nan(b) || (MAX ? b > a : b < a) ? b : a; }
    __device__ T    swap(T a, int by) const { return __shfl_xor_sync((unsigned)FULL_WARP, a, by); }
    __device__ void put(int64_t o, T a) const { dst[o] = a + 0; } /* a zero becomes +0 */
};

template <bool ANY> struct truth {
    typedef int     item;
    const uint8_t  *x;
    uint8_t        *dst;
    __device__ int  none() const { return !ANY; }
    __device__ int  of(int64_t at, int64_t) const { return x[at] != 0; }
    __device__ int  best(int a, int b) const { return ANY ? a | b : a & b; }
    __device__ int  swap(int a, int by) const { return __shfl_xor_sync((unsigned)FULL_WARP, a, by); }
    __device__ void put(int64_t o, int a) const { dst[o] = (uint8_t)a; }
};

template <typename T, bool MAX> struct place_of {
    typedef placed<T> item;
    const T          *x;
    int64_t          *dst;
    __device__ item   none() const { return {0, -1}; }
    __device__ item   of(int64_t at, int64_t k) const { return {x[at], k}; }
    __device__ item   best(item a, item b) const { return ahead<T, MAX>(b, a) ? b : a; }
    __device__ item   swap(item a, int by) const { return swapped(a, by); }
    __device__ void   put(int64_t o, item a) const { dst[o] = a.place < 0 ? 0 : a.place; }
};

/* ---- the walk ---- */

/* How a column is divided, from shapes alone. */
struct cut {
    lki_extent e;
    int64_t    segments, each;
};

cut cut_of(const lki_args *a)
{
    cut           c = {lki_reduced(a), 1, 0};
    const int64_t results = lki_max(1, c.e.outer * c.e.inner), shortest = c.e.inner == 1 ? WARP_SEGMENT : THREAD_SEGMENT;
    const int64_t wanted = lki_ceil_div(c.e.inner == 1 ? BUSY_WARPS : BUSY_THREADS, results);
    c.segments = lki_max(1, lki_min(wanted, c.e.mid / shortest));
    c.each = lki_ceil_div(c.e.mid, c.segments);
    return c;
}

template <typename OP>
__device__ inline void keep(const OP &op, const cut &c, typename OP::item *found, int64_t segment, int64_t o,
                            const typename OP::item &best)
{
    if (c.segments == 1) op.put(o, best);
    else found[segment * (c.e.outer * c.e.inner) + o] = best;
}

/* Warp i: segment i % segments of row i / segments. */
template <typename OP> __global__ void __launch_bounds__(PICK_BLOCK) pick_rows(OP op, cut c, typename OP::item *found)
{
    const int64_t i = blockIdx.x * (int64_t)(PICK_BLOCK / WARP) + threadIdx.x / WARP, o = i / c.segments, segment = i % c.segments;
    if (o >= c.e.outer) return; /* the whole warp */
    const int64_t     to = least(c.e.mid, (segment + 1) * c.each);
    typename OP::item best = op.none();
    LKI_UNROLL(8)
    for (int64_t k = segment * c.each + threadIdx.x % WARP; k < to; k += WARP)
        best = op.best(best, op.of(o * c.e.mid + k, k));
    for (int by = WARP / 2; by; by /= 2)
        best = op.best(best, op.swap(best, by));
    if (threadIdx.x % WARP == 0) keep(op, c, found, segment, o, best);
}

/* Grid: blocks of results, segments. */
template <typename OP> __global__ void pick_columns(OP op, cut c, typename OP::item *found)
{
    const int64_t o = blockIdx.x * (int64_t)blockDim.x + threadIdx.x, segment = blockIdx.y;
    if (o >= c.e.outer * c.e.inner) return;
    const int64_t     first = o / c.e.inner * c.e.mid * c.e.inner + o % c.e.inner, to = least(c.e.mid, (segment + 1) * c.each);
    typename OP::item best = op.none();
    LKI_UNROLL(8)
    for (int64_t k = segment * c.each; k < to; k++)
        best = op.best(best, op.of(first + k * c.e.inner, k));
    keep(op, c, found, segment, o, best);
}

template <typename OP> __global__ void pick_last(OP op, cut c, const typename OP::item *found)
{
    const int64_t o = blockIdx.x * (int64_t)blockDim.x + threadIdx.x, results = c.e.outer * c.e.inner;
    if (o >= results) return;
    typename OP::item best = op.none();
    LKI_UNROLL(8)
    for (int64_t s = 0; s < c.segments; s++)
        best = op.best(best, found[s * results + o]);
    op.put(o, best);
}

template <typename OP> size_t pick_scratch(const lki_args *a)
{
    const cut c = cut_of(a);
    return c.segments > 1 ? (size_t)(c.segments * c.e.outer * c.e.inner) * sizeof(typename OP::item) : 0;
}

template <typename OP> void pick(const lki_args *a, const OP &op)
{
    typedef typename OP::item item;
    const cut                 c = cut_of(a);
    const int64_t             results = c.e.outer * c.e.inner;
    item                     *found = (item *)a->scratch;
    if (results <= 0) return;
    const dim3 flat((unsigned)lki_ceil_div(results, PICK_BLOCK));
    if (c.e.inner == 1)
        LKI_LAUNCH((pick_rows<OP>), dim3((unsigned)lki_ceil_div(results * c.segments, PICK_BLOCK / WARP)), dim3(PICK_BLOCK), 0, a,
                   op, c, found);
    else LKI_LAUNCH_FLAT((pick_columns<OP>), dim3(flat.x, (unsigned)c.segments), dim3(PICK_BLOCK), a, op, c, found);
    if (c.segments > 1) LKI_LAUNCH_FLAT((pick_last<OP>), flat, dim3(PICK_BLOCK), a, op, c, (const item *)found);
}

/* ---- the k largest: a warp per row finds the next after the last, k times ---- */

template <typename T>
__global__ void __launch_bounds__(PICK_BLOCK) top(const T *x, T *values, int32_t *places, int64_t rows, int64_t n, int64_t count)
{
    const int64_t row = blockIdx.x * (int64_t)(PICK_BLOCK / WARP) + threadIdx.x / WARP;
    if (row >= rows) return; /* the whole warp */
    placed<T> last = {0, -1};
    for (int64_t i = 0; i < count; i++) {
        placed<T> best = {0, -1};
        LKI_UNROLL(4)
        for (int64_t k = threadIdx.x % WARP; k < n; k += WARP) {
            const placed<T> v = {x[row * n + k], k};
            if ((last.place < 0 || ahead<T, true>(last, v)) && ahead<T, true>(v, best)) best = v;
        }
        for (int by = WARP / 2; by; by /= 2) {
            const placed<T> other = swapped(best, by);
            if (ahead<T, true>(other, best)) best = other;
        }
        last = best;
        if (threadIdx.x % WARP != 0) continue;
        values[row * count + i] = best.value;
        places[row * count + i] = (int32_t)best.place;
    }
}

template <typename T> void top_k(const lki_args *a)
{
    const lk_shape *s = a->src[0].shape;
    const int64_t   n = s->dim[s->rank - 1], k = a->attr->top.k, rows = k > 0 ? a->hi / k : 0;
    if (rows <= 0) return;
    LKI_LAUNCH((top<T>), dim3((unsigned)lki_ceil_div(rows, PICK_BLOCK / WARP)), dim3(PICK_BLOCK), 0, a, (const T *)a->src[0].data,
               (T *)a->dst[0].data, (int32_t *)a->dst[1].data, rows, n, k);
}

/* ---- the table ---- */

template <typename T> struct limits;
template <> struct limits<float> {
    static float low() { return -INFINITY; }
    static float high() { return INFINITY; }
};
template <> struct limits<double> {
    static double low() { return -INFINITY; }
    static double high() { return INFINITY; }
};
template <> struct limits<int32_t> {
    static int32_t low() { return INT32_MIN; }
    static int32_t high() { return INT32_MAX; }
};
template <> struct limits<int64_t> {
    static int64_t low() { return INT64_MIN; }
    static int64_t high() { return INT64_MAX; }
};

template <typename T, bool MAX> void reduce_extreme(const lki_args *a)
{
    pick(a, extreme<T, MAX>{(const T *)a->src[0].data, (T *)a->dst[0].data, MAX ? limits<T>::low() : limits<T>::high()});
}

template <bool ANY> void reduce_truth(const lki_args *a)
{
    pick(a, truth<ANY>{(const uint8_t *)a->src[0].data, (uint8_t *)a->dst[0].data});
}

template <typename T, bool MAX> void reduce_place(const lki_args *a)
{
    pick(a, place_of<T, MAX>{(const T *)a->src[0].data, (int64_t *)a->dst[0].data});
}

template <typename T> void set_all(lki_kernels *k, lk_dtype t)
{
    set(k, LKI_K_reduce_max, t, reduce_extreme<T, true>, pick_scratch<extreme<T, true>>);
    set(k, LKI_K_reduce_min, t, reduce_extreme<T, false>, pick_scratch<extreme<T, false>>);
    set(k, LKI_K_argmax, t, reduce_place<T, true>, pick_scratch<place_of<T, true>>);
    set(k, LKI_K_argmin, t, reduce_place<T, false>, pick_scratch<place_of<T, false>>);
    set(k, LKI_K_top_k, t, top_k<T>);
}

} // namespace

namespace lki_gpu
{
void register_pick(lki_kernels *k);
}

void lki_gpu::register_pick(lki_kernels *k)
{
    set_all<float>(k, LK_F32);
    set_all<double>(k, LK_F64);
    set_all<int32_t>(k, LK_I32);
    set_all<int64_t>(k, LK_I64);
    set(k, LKI_K_reduce_any, LK_BOOL, reduce_truth<true>, pick_scratch<truth<true>>);
    set(k, LKI_K_reduce_all, LK_BOOL, reduce_truth<false>, pick_scratch<truth<false>>);
}
