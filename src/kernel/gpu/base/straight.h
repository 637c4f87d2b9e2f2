/* Products by tiles that are all full: the loop of tile_block.h without its checks. For small sizes those take longer than the
 * products: where a step begins and ends, which part of it exists, which sums wait for which.
 *
 * Invariants
 *  1. A block has one part of the sum over k: `length` of them or, for the last part, the remaining ones; both are whole steps. Its
 *     tile is inside the result; quads are aligned (is_straight()).
 *  2. The order is that of tile_block.h, so the choice between the two never changes bits. A sum that is not finite is computed
 *     again, with care, as there. */
#ifndef LKI_KERNEL_GPU_BASE_STRAIGHT_H
#define LKI_KERNEL_GPU_BASE_STRAIGHT_H

#include "kernel/gpu/base/tile_block.h"

namespace lki_gpu
{

/* The copy of one operand to shared memory: from k on, one step per call. A line is a row along k, or a k along rows. */
template <class Source, class Tile, int ROWS> struct straight_stage : staged<Source, Tile, ROWS> {
    typedef staged<Source, Tile, ROWS> s;
    const float                       *from;
    int64_t                            apart, ahead; /* from a thread's quad to its next one, and to that of the next step */
    int                                first;

    __device__ straight_stage(const Source &x, int64_t row, int k) : first(kept(s::first_place()))
    {
        const int64_t line = (Source::ALONG_K ? row : k) + s::line(), along = (Source::ALONG_K ? k : row) + s::quad() * 4;
        from = x.data + (line * x.step + along);
        apart = s::PASS * x.step;
        ahead = Source::ALONG_K ? (int)Tile::STEP : Tile::STEP * x.step;
    }
    __device__ void fetch(float *to)
    {
        LKI_UNROLL
        for (int i = 0; i < s::EACH; i++)
            copy_four(to + s::place(first, i), from + i * apart);
        from += ahead;
    }
};

/* The sums of a tile over length k from k on, written to shared memory. False if one is not finite; then nothing was written. */
template <int P, class Tile, class A, class B>
__device__ inline bool lay_straight(const A &a, const B &b, int64_t m, int64_t n, int k, int length, float *room)
{
    typedef ring<Tile, A::ALONG_K, B::ALONG_K> line_of;
    straight_stage<A, Tile, Tile::BM>          as(a, m, k);
    straight_stage<B, Tile, Tile::BN>          bs(b, n, k);
    line_of                                    line(room);
    typename Tile::sums                        sum;
    int                                        left = length; /* k that are still to be loaded */
    const auto                                 bring = [&] {
        if (left > 0) {
            as.fetch(room + line.in);
            bs.fetch(room + line.in + line_of::LEFT);
        }
        copies_end();
        left -= Tile::STEP;
        line.in = line_of::after(line.in);
    };
    for (int i = 0; i < line_of::AHEAD; i++)
        bring();
    clear<Tile>(sum);
    for (int to = 0; to < length; to += Tile::STEP) {
        line.wait();
        bring();
        line.template take<P>(sum, true);
    }
    float mark = 0; /* NaN if one is not finite */
    if (P == LKI_PRECISION_F32) each_sum<Tile>([&](int i, int j, int h) { mark = fmaf(sum[i][j][h], 0, mark); });
    if (P != LKI_PRECISION_F32) __syncthreads();
    else if (__syncthreads_or(isnan(mark))) return false;
    line.lay_down(sum);
    return true;
}

template <int P, class A, class B, class Tile>
__global__ void __launch_bounds__(Tile::THREADS, Tile::RESIDENT)
    straight(LKI_FIXED A a, LKI_FIXED B b, to_matrix e, LKI_FIXED frame f, int length)
{
    LKI_DYNAMIC_SHARED(float, room);
    int64_t  m, n;
    unsigned z;
    f.here<Tile>(&m, &n, &z);
    const unsigned entry = f.entry_of(z);
    A              x = a;
    B              y = b;
    x.data += f.a(entry);
    y.data += f.b(entry);
    const int k = (int)(z - entry * f.split) * length, left = f.c.bound[f.c.lanes] * f.c.unit - k;
    if (!lay_straight<P, Tile>(x, y, m, n, k, left < length ? left : length, room)) lay_sums_with_care<Tile>(a, b, f, room);
    __syncthreads();
    enter(e, f.e(z));
    e.begin(m, n);
    enum { QUADS = Tile::BN / 4, EACH = Tile::BM * QUADS / Tile::THREADS };
    const int line = (int)threadIdx.x / QUADS, column = (int)threadIdx.x % QUADS * 4;
    float     mask[EACH][4]; /* all loads start before the first is waited for */
    LKI_UNROLL
    for (int i = 0; i < EACH; i++)
        e.fetch_mask(line + i * (Tile::THREADS / QUADS), column, mask[i]);
    LKI_UNROLL
    for (int i = 0; i < EACH; i++) {
        const int row = line + i * (Tile::THREADS / QUADS);
        float     v[4];
        load_quad(room + row * Tile::PITCH + column, v);
        e.put_quad(column, row * e.step + column, v, mask[i], true, true);
    }
}

/* The length of each piece, if pieces are consecutive from 0 on and all have equally many k, except the last: one part, of whole
 * steps. 0: they are not like that. */
static inline int64_t length_of_pieces(const cuts &c, int64_t step)
{
    const int64_t length = lki_min(c.each, c.bound[1] - c.bound[0]);
    for (int l = 0; l < c.lanes; l++) {
        const int64_t missing =
            (c.first[l + 1] - c.first[l]) * length - (c.bound[l + 1] - c.bound[l]); /* of the lane's last piece */
        if (c.bound[0] || missing < 0 || (missing && (l + 1 < c.lanes || missing >= length || missing * c.unit % step))) return 0;
    }
    return length * c.unit <= c.part && length * c.unit % step == 0 ? length * c.unit : 0;
}

/* The number of k of a block, or 0: use the loop of tile_block.h. */
template <class Tile, class A, class B> static int64_t is_straight(const A &a, const B &b, const to_matrix &e, const frame &f)
{
    const bool whole = e.M % Tile::BM == 0 && e.N % Tile::BN == 0, alone = f.split > 1 || f.c.count() == 1;
    return whole && alone && a.wide && b.wide && e.wide ? length_of_pieces(f.c, Tile::STEP) : 0;
}

} // namespace lki_gpu

#endif
