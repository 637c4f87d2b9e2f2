/* Gradients of gather: the rows of dy that were read from one entry of x are summed, in the order of ids.
 *
 * Positions of ids are sorted by entry first (radix sort, stable, integers only), so that those of one entry are neighbours, in
 * order. Then dst is zeroed, and one thread per column of each entry that occurs walks its positions. The work grows with ids and
 * with dst, not with their product. Separate ids per row are ids into the entries of all rows.
 *
 * The sort, four bits at a time: a tile is EACH positions of THREADS threads, thread after thread; a tile's positions with one
 * digit stay together, in order.
 *
 *     count     one block per tile: how many of each digit
 *     start     one block: where the first of each digit and tile goes; digits first, then tiles
 *     place     one block per tile: moves positions there. A single tile needs no count and start: all digits in one launch
 *
 * Positions outside of the lanes, and ids out of range (a fault), are not summed: they are sorted after all entries. */
#include "kernel/axes.h"
#include "kernel/gpu/move/gather.h"

using namespace lki_gpu;

namespace
{

enum { THREADS = 256, DIGITS = 16, BITS = 4, EACH = 8, TILE = THREADS * EACH };

/* ---- the entry of a position ---- */

struct names {
    ids     id;
    fault   bad;
    int64_t count;    /* positions */
    int64_t each;     /* of one row, with separate ids per row; else 0 */
    int64_t entries;  /* that an id may select */
    int64_t all;      /* entries of all rows */
    int64_t from, to; /* positions of the lanes */

    __device__ int64_t operator()(int64_t p) const
    {
        const int64_t e = id[p];
        if (p < from || p >= to || e < 0 || e >= entries) return all;
        return each ? p / each * entries + e : e;
    }
    __device__ void check(int64_t p) const
    {
        const int64_t e = id[p];
        if (p >= from && p < to && (e < 0 || e >= entries)) bad();
    }
};

/* ---- sort ---- */

struct tiles {
    int64_t count; /* blocks */
    int     passes;
};

tiles tiles_of(int64_t ids, int64_t all)
{
    tiles t = {lki_ceil_div(ids, TILE), 1};
    while (t.passes * BITS < 63 && all >> (t.passes * BITS))
        t.passes++;
    return t;
}

/* The sum of the numbers of the threads before this one; `room` has one place per thread. */
__device__ int64_t before_me(int64_t *room, int64_t mine)
{
    const int t = (int)threadIdx.x;
    room[t] = mine;
    __syncthreads();
    for (int step = 1; step < THREADS; step *= 2) {
        const int64_t more = t >= step ? room[t - step] : 0;
        __syncthreads();
        room[t] += more;
        __syncthreads();
    }
    const int64_t sum = room[t] - mine;
    __syncthreads();
    return sum;
}

__device__ int digit_of(const names &n, int64_t p, int pass) { return (int)(n(p) >> (pass * BITS) & (DIGITS - 1)); }

/* order NULL: positions are in their original order. */
__device__ int64_t position(const int64_t *order, int64_t i) { return order ? order[i] : i; }

__global__ void count_kernel(names n, tiles t, int pass, const int64_t *order, int64_t *counts)
{
    __shared__ int found[DIGITS];
    if (threadIdx.x < DIGITS) found[threadIdx.x] = 0;
    __syncthreads();
    const int64_t begin = blockIdx.x * (int64_t)TILE, end = least<int64_t>(n.count, begin + TILE);
    for (int64_t i = begin + threadIdx.x; i < end; i += THREADS) {
        const int64_t p = position(order, i);
        if (!order) n.check(p);
        atomicAdd(&found[digit_of(n, p, pass)], 1);
    }
    __syncthreads();
    if (threadIdx.x < DIGITS) counts[threadIdx.x * t.count + blockIdx.x] = found[threadIdx.x];
}

__global__ void start_kernel(int64_t count, int64_t *counts)
{
    __shared__ int64_t room[THREADS];
    const int64_t      share = (count + THREADS - 1) / THREADS, begin = least<int64_t>(count, threadIdx.x * share),
                  end = least<int64_t>(count, begin + share);
    int64_t mine = 0;
    for (int64_t i = begin; i < end; i++)
        mine += counts[i];
    int64_t at = before_me(room, mine);
    for (int64_t i = begin; i < end; i++) {
        const int64_t next = at + counts[i];
        counts[i] = at;
        at = next;
    }
}

/* One digit of one tile, into `sorted`. starts NULL: it is the only tile. */
__device__ void place_tile(const names &n, const tiles &t, int pass, const int64_t *order, int64_t *sorted, const int64_t *starts)
{
    __shared__ int64_t room[THREADS];
    __shared__ int     found[DIGITS * THREADS]; /* [digit][thread]: first how many; later how many are before them in the tile */
    __shared__ int     first[DIGITS];
    const int64_t      begin = least<int64_t>(n.count, (blockIdx.x * (int64_t)THREADS + threadIdx.x) * EACH),
                  end = least<int64_t>(n.count, begin + EACH);
    for (int d = 0; d < DIGITS; d++)
        found[d * THREADS + threadIdx.x] = 0;
    for (int64_t i = begin; i < end; i++) /* only this thread's places */
        found[digit_of(n, position(order, i), pass) * THREADS + threadIdx.x]++;
    __syncthreads();
    int *row = found + threadIdx.x * DIGITS, mine = 0; /* equally many places of the whole list, which is ordered by digit */
    for (int k = 0; k < DIGITS; k++)
        mine += row[k];
    int at = (int)before_me(room, mine);
    for (int k = 0; k < DIGITS; k++) {
        const int next = at + row[k];
        row[k] = at;
        at = next;
    }
    __syncthreads();
    if (threadIdx.x < DIGITS) first[threadIdx.x] = found[threadIdx.x * THREADS];
    __syncthreads();
    for (int64_t i = begin; i < end; i++) {
        const int64_t p = position(order, i);
        const int     d = digit_of(n, p, pass), local = found[d * THREADS + threadIdx.x]++;
        if (!order && !starts) n.check(p);
        sorted[starts ? starts[d * t.count + blockIdx.x] + (local - first[d]) : local] = p;
    }
    __syncthreads();
}

__global__ void place_kernel(names n, tiles t, int pass, const int64_t *order, int64_t *sorted, const int64_t *starts)
{
    place_tile(n, t, pass, order, sorted, starts);
}

/* All digits of the only tile; after an odd number of passes the order is in `odd`. */
__global__ void place_all_kernel(names n, tiles t, int64_t *even, int64_t *odd)
{
    for (int pass = 0; pass < t.passes; pass++)
        place_tile(n, t, pass, pass == 0 ? nullptr : pass % 2 ? odd : even, pass % 2 ? even : odd, nullptr);
}

/* Returns where the sorted positions are: in scratch. */
const int64_t *sort(const lki_args *a, const names &n)
{
    const tiles t = tiles_of(n.count, n.all);
    int64_t    *even = (int64_t *)a->scratch, *odd = even + n.count, *counts = odd + n.count;
    if (t.count == 1) LKI_LAUNCH(place_all_kernel, dim3(1), dim3(THREADS), 0, a, n, t, even, odd);
    for (int pass = 0; pass < t.passes && t.count > 1; pass++) {
        const int64_t *order = pass == 0 ? nullptr : pass % 2 ? odd : even;
        LKI_LAUNCH(count_kernel, dim3((unsigned)t.count), dim3(THREADS), 0, a, n, t, pass, order, counts);
        LKI_LAUNCH(start_kernel, dim3(1), dim3(THREADS), 0, a, DIGITS * t.count, counts);
        LKI_LAUNCH(place_kernel, dim3((unsigned)t.count), dim3(THREADS), 0, a, n, t, pass, order, pass % 2 ? even : odd,
                   (const int64_t *)counts);
    }
    return t.passes % 2 ? odd : even;
}

size_t sort_scratch(int64_t ids, int64_t all)
{
    const tiles t = tiles_of(ids, all);
    return (size_t)(2 * ids + (t.count > 1 ? DIGITS * t.count : 0)) * sizeof(int64_t);
}

/* ---- sums ---- */

template <typename T> struct zero {
    T              *y;
    __device__ void operator()(int64_t i) const { y[i] = 0; }
};

/* Lane sums up the tree; only lanes with rows are pushed, so a half without any is left out. */
template <typename T> struct sparse_tree {
    enum { LEVELS = 6 }; /* 64 lanes */
    T        waits[LEVELS];
    unsigned waiting;

    /* No more halves will come below `level`: add up the open sums there. */
    __device__ T close(T sum, int level)
    {
        LKI_UNROLLED
        for (int l = 0; l < LEVELS; l++)
            if (l < level && (waiting >> l & 1)) {
                sum = waits[l] + sum;
                waiting &= ~(1u << l);
            }
        return sum;
    }
    /* The sum of lanes up to `lane` is complete; the next lane with rows is `next`. */
    __device__ void push(int lane, int next, T sum)
    {
        const int level = 31 - __clz(lane ^ next); /* the level at which they meet in the tree */
        sum = close(sum, level);
        LKI_UNROLLED
        for (int l = 0; l < LEVELS; l++)
            if (l == level) waits[l] = sum;
        waiting |= 1u << level;
    }
};

template <typename T, typename I> struct adder {
    const T       *dy;
    T             *dx;
    const int64_t *order;
    names          n;
    division<I>    inner, count; /* columns; positions */
    int64_t        entry;        /* positions per entry that a bound counts */
    lanes          lane;

    __device__ int lane_of(int64_t p, int s) const
    {
        while (s + 1 < lane.count && p >= lane.bound[s + 1] * entry)
            s++;
        return s;
    }

    /* All positions of entry e from order[i] on, one column. */
    __device__ T sum_of(int64_t i, int64_t e, const T *column) const
    {
        enum { AHEAD = 8 };
        sparse_tree<T> tree;
        T              sum = 0, value[AHEAD];
        int64_t        p[AHEAD];
        int            s = lane_of(order[i], 0);
        tree.waiting = 0;
        for (bool more = true; more;) {
            LKI_UNROLLED
            for (int k = 0; k < AHEAD; k++) { /* loads are independent of sums */
                p[k] = i + k < n.count ? order[i + k] : -1;
                value[k] = p[k] >= 0 ? column[p[k] * (int64_t)inner.d] : 0;
                if (p[k] >= 0 && n(p[k]) != e) p[k] = -1;
            }
            LKI_UNROLLED
            for (int k = 0; k < AHEAD; k++) {
                more = more && p[k] >= 0;
                if (!more) continue;
                const int here = lane_of(p[k], s);
                if (here != s) {
                    tree.push(s, here, sum);
                    sum = 0;
                    s = here;
                }
                sum = sum + value[k];
            }
            i += AHEAD;
        }
        return tree.close(sum, sparse_tree<T>::LEVELS);
    }

    /* (outer index, sorted place, column): the thread at the first place of an entry sums all of them. */
    __device__ void operator()(int64_t k) const
    {
        I             outer = (I)k;
        const int64_t j = (int64_t)split(outer, inner), i = (int64_t)split(outer, count), e = n(order[i]),
                      columns = (int64_t)inner.d;
        if (e == n.all || (i > 0 && n(order[i - 1]) == e)) return;
        dx[((int64_t)outer * n.all + e) * columns + j] = sum_of(i, e, dy + (int64_t)outer * n.count * columns + j);
    }
};

template <typename T, typename I>
void add_rows(const lki_args *a, const int64_t *order, const names &n, int64_t work, int64_t inner, int64_t entry, const lanes &l)
{
    cover(
        a, work,
        adder<T, I>{(const T *)a->src[0].data, (T *)a->dst[0].data, order, n, division<I>(inner), division<I>(n.count), entry, l});
}

template <typename T> void sum_rows(const lki_args *a, const names &n, int64_t outer, int64_t inner, int64_t entry, const lanes &l)
{
    cover(a, size_of(&a->dst[0]), zero<T>{(T *)a->dst[0].data});
    if (n.count == 0) return;
    const int64_t *order = sort(a, n);
    const int64_t  work = outer * n.count * inner;
    if (fits32(work)) add_rows<T, uint32_t>(a, order, n, work, inner, entry, l);
    else add_rows<T, uint64_t>(a, order, n, work, inner, entry, l);
}

/* ---- slots ---- */

lki_extent grad_extent(const lki_args *a) { return lki_extent_of(a->dst[0].shape, a->attr->scan.axis, a->attr->scan.axis); }

size_t gather_grad_scratch(const lki_args *a) { return sort_scratch(size_of(&a->src[1]), grad_extent(a).mid); }

template <typename T> void gather_grad(const lki_args *a)
{
    const lki_extent e = grad_extent(a);
    const lk_shape  *shape = a->src[1].shape;
    const int64_t    ids = size_of(&a->src[1]);
    lanes            l = {1, {0, ids}};
    int64_t          entry = 1;
    if (a->lanes && a->attr->scan.axis == 0 && shape->rank > 0) {
        l = lanes_of(a, shape->dim[0]);
        entry = lki_extent_of(shape, 0, 0).inner;
    }
    sum_rows<T>(a, {ids_of(&a->src[1]), fault_of(a), ids, 0, e.mid, e.mid, l.bound[0] * entry, l.bound[l.count] * entry}, e.outer,
                e.inner, entry, l);
}

size_t row_gather_grad_scratch(const lki_args *a)
{
    return sort_scratch(size_of(&a->src[1]), a->dst[0].shape->dim[0] * a->dst[0].shape->dim[1]);
}

template <typename T> void row_gather_grad(const lki_args *a)
{
    const lki_extent x = lki_extent_of(a->dst[0].shape, 1, 1);
    const int64_t    ids = size_of(&a->src[1]);
    if (size_of(&a->dst[0]) == 0) return;
    sum_rows<T>(a, {ids_of(&a->src[1]), fault_of(a), ids, ids / x.outer, x.mid, x.outer * x.mid, 0, ids}, 1, x.inner, 1,
                {1, {0, ids}});
}

} // namespace

void lki_gpu::register_gather_grad(lki_kernels *k)
{
    set(k, LKI_K_gather_grad, LK_F32, gather_grad<float>, gather_grad_scratch);
    set(k, LKI_K_gather_grad, LK_F64, gather_grad<double>, gather_grad_scratch);
    set(k, LKI_K_row_gather_grad, LK_F32, row_gather_grad<float>, row_gather_grad_scratch);
    set(k, LKI_K_row_gather_grad, LK_F64, row_gather_grad<double>, row_gather_grad_scratch);
}
