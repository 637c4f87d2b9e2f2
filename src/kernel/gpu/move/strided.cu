/* Strided moves. First the walk is made as short as possible: axes of one entry are dropped, neighbours with matching steps on both
 * sides are merged, and if the last axis is dense on both sides, elements are moved as units of up to 16 bytes. Then one of two
 * kernels runs:
 *
 *     carry     one thread per unit, along dst
 *     squares   if dst's last axis has a large step in src and another axis is dense there: through shared memory, so that reads
 *               and writes are both contiguous
 *
 * Bits are moved unchanged. */
#include "kernel/gpu/base/index.h"
#include "kernel/gpu/move/strided.h"

using namespace lki_gpu;

namespace
{

/* ---- the shortest walk ---- */

bool alike(const strided &s, int outer, int inner)
{
    return s.from[outer] == s.from[inner] * s.dim[inner] && s.to[outer] == s.to[inner] * s.dim[inner];
}

void collapse(strided &s)
{
    int rank = 0;
    for (int d = 0; d < s.rank; d++) {
        if (s.dim[d] == 1) continue;
        const bool merged = rank > 0 && alike(s, rank - 1, d); /* entries from `rank` on are not read again before d */
        if (merged) rank--;
        const int64_t dim = merged ? s.dim[rank] * s.dim[d] : s.dim[d];
        s.from[rank] = s.from[d];
        s.to[rank] = s.to[d];
        s.dim[rank++] = dim;
    }
    if (rank == 0) {
        s.from[0] = s.to[0] = s.dim[0] = 1;
        rank = 1;
    }
    s.rank = rank;
}

void widen(strided &s)
{
    const int last = s.rank - 1;
    if (s.from[last] != 1 || s.to[last] != 1) return;
    int64_t common = s.dim[last]; /* a common factor of all numbers divides this one too */
    for (int d = 0; d < last; d++)
        common |= s.from[d] | s.to[d];
    const int units = together(s.bytes, common, s.src, s.dst);
    s.dim[last] /= units;
    for (int d = 0; d < last; d++) {
        s.from[d] /= units;
        s.to[d] /= units;
    }
    s.bytes *= units;
}

int64_t size_of_walk(const strided &s)
{
    int64_t n = 1;
    for (int d = 0; d < s.rank; d++)
        n *= s.dim[d];
    return n;
}

bool narrow(const strided &s)
{
    int64_t from = 0, to = 0;
    for (int d = 0; d < s.rank; d++) {
        from += (s.dim[d] - 1) * (s.from[d] < 0 ? -s.from[d] : s.from[d]);
        to += (s.dim[d] - 1) * (s.to[d] < 0 ? -s.to[d] : s.to[d]);
    }
    return fits32(from) && fits32(to) && fits32(size_of_walk(s));
}

/* ---- one thread per unit ---- */

template <typename I> struct offset_of;
template <> struct offset_of<uint32_t> {
    using type = int32_t;
};
template <> struct offset_of<uint64_t> {
    using type = int64_t;
};

template <typename I> struct place { /* modulo 2^32 or 2^64: steps may be negative */
    I from, to;
};

template <typename I> struct walk {
    int         rank;
    division<I> dim[LK_MAX_RANK];
    I           from[LK_MAX_RANK], to[LK_MAX_RANK];

    __device__ place<I> operator()(I i) const
    {
        place<I> at = {0, 0};
        for (int d = rank - 1; d > 0; d--) {
            const I k = split(i, dim[d]);
            at.from += k * from[d];
            at.to += k * to[d];
        }
        if (rank > 0) {
            at.from += i * from[0];
            at.to += i * to[0];
        }
        return at;
    }
};

template <typename I> void add_axis(walk<I> &w, const strided &s, int d)
{
    w.dim[w.rank] = division<I>(s.dim[d]);
    w.from[w.rank] = (I)s.from[d];
    w.to[w.rank++] = (I)s.to[d];
}

template <typename T, typename I> struct carry {
    const T *x;
    T       *y;
    walk<I>  w;

    __device__ void operator()(int64_t i) const
    {
        using offset = typename offset_of<I>::type;
        const place<I> at = w((I)i);
        y[(offset)at.to] = x[(offset)at.from];
    }
};

template <typename T, typename I> void run_carry(const lki_args *a, const strided &s)
{
    carry<T, I> f = {(const T *)s.src, (T *)s.dst, {}};
    for (int d = 0; d < s.rank; d++)
        add_axis(f.w, s, d);
    cover(a, size_of_walk(s), f);
}

/* ---- squares through shared memory ---- */

enum { SIDE = 32, ROWS = 8, LEAST = 8 }; /* axes shorter than LEAST would leave most of a square empty */

template <typename I> struct squares {
    walk<I> others;        /* all axes except the two; their places are bases */
    int64_t along, across; /* sizes: of the axis that is dense in src, and of the one that is dense in dst */
    int64_t from, to;      /* steps: of `across` in src, of `along` in dst */
    int64_t columns, rows; /* squares along and across */
};

template <typename T, typename I> __global__ void square_kernel(const T *x, T *y, squares<I> g)
{
    __shared__ T tile[SIDE][SIDE + 1];
    using offset = typename offset_of<I>::type;
    const int64_t  block = blockIdx.x, rest = block / g.columns;
    const int64_t  p0 = block % g.columns * SIDE, q0 = rest % g.rows * SIDE;
    const place<I> at = g.others((I)(rest / g.rows));
    x += (offset)at.from;
    y += (offset)at.to;
    for (int j = threadIdx.y; j < SIDE; j += ROWS)
        if (p0 + threadIdx.x < g.along && q0 + j < g.across) tile[j][threadIdx.x] = x[(q0 + j) * g.from + p0 + threadIdx.x];
    __syncthreads();
    for (int j = threadIdx.y; j < SIDE; j += ROWS)
        if (p0 + j < g.along && q0 + threadIdx.x < g.across) y[(p0 + j) * g.to + q0 + threadIdx.x] = tile[threadIdx.x][j];
}

/* The axis that is dense in src, if squares should be used; else -1. */
int dense_in_src(const strided &s)
{
    const int last = s.rank - 1;
    if (s.to[last] != 1 || s.from[last] == 1 || s.from[last] == 0 || s.dim[last] < LEAST) return -1;
    for (int d = 0; d < last; d++)
        if (s.from[d] == 1 && s.dim[d] >= LEAST) return d;
    return -1;
}

template <typename T, typename I> void run_squares(const lki_args *a, const strided &s, int p)
{
    const int  last = s.rank - 1;
    squares<I> g = {
        {}, s.dim[p], s.dim[last], s.from[last], s.to[p], lki_ceil_div(s.dim[p], SIDE), lki_ceil_div(s.dim[last], SIDE)};
    int64_t blocks = g.columns * g.rows;
    for (int d = 0; d < last; d++)
        if (d != p) {
            add_axis(g.others, s, d);
            blocks *= s.dim[d];
        }
    (void)a;
    LKI_LAUNCH((square_kernel<T, I>), dim3((unsigned)blocks), dim3(SIDE, ROWS), 0, a, (const T *)s.src, (T *)s.dst, g);
}

/* ---- which ---- */

template <typename T, typename I> void run(const lki_args *a, const strided &s)
{
    const int p = dense_in_src(s);
    if (p >= 0) run_squares<T, I>(a, s, p);
    else run_carry<T, I>(a, s);
}

template <typename I> void run_sized(const lki_args *a, const strided &s)
{
    static void (*const by_size[])(const lki_args *, const strided &) = {run<uint8_t, I>, run<uint16_t, I>, run<uint32_t, I>,
                                                                         run<uint64_t, I>, run_carry<uint4, I>};
    by_size[size_row(s.bytes)](a, s);
}

} // namespace

void lki_gpu::move_strided(const lki_args *a, strided s)
{
    if (size_of_walk(s) == 0) return;
    collapse(s);
    widen(s);
    if (narrow(s)) run_sized<uint32_t>(a, s);
    else run_sized<uint64_t>(a, s);
}
