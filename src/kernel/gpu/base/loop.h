/* The inner loop of products by tiles (tile_block.h): operands are copied through shared memory to the registers of tensor cores.
 *
 * A step is STEP of k. In shared memory it is in groups of 16 k (k_group.h), each ROWS * GROUP floats, arranged so that a thread
 * reads four at once and a warp has no bank conflicts:
 *
 *     along k      row after row, 16 k each; in every other group row r is stored at row r ^ 1
 *     along rows   k after k, ROWS each; quad q of line k is stored at quad q ^ 2*(k/4%4)
 *
 * factors::row() says which rows of a warp's tile a thread has: neighbouring rows if the operand is along rows, because it reads
 * those at once. lay_down() writes results accordingly. */
#ifndef LKI_KERNEL_GPU_BASE_LOOP_H
#define LKI_KERNEL_GPU_BASE_LOOP_H

#include "kernel/gpu/base/k_group.h"

namespace lki_gpu
{

/* A value that the compiler should keep in a register, and not compute again at every use. */
__device__ inline int kept(int n)
{
#ifndef LKI_SIM
    asm volatile("" : "+r"(n));
#endif
    return n;
}
__device__ inline const float *kept(const float *p)
{
#ifndef LKI_SIM
    asm volatile("" : "+l"(p));
#endif
    return p;
}

/* BM x BN results by warps of WM x WN each; STAGES steps of k are in shared memory; RESIDENT blocks should fit on a
 * multiprocessor. */
template <int BM_, int BN_, int STEP_, int WM_, int WN_, int STAGES_, int RESIDENT_> struct tile {
    enum { BM = BM_, BN = BN_, STEP = STEP_, WM = WM_, WN = WN_, STAGES = STAGES_, RESIDENT = RESIDENT_ };
    enum { MT = WM / 16, NT = WN / 8, THREADS = BM / WM * (BN / WN) * 32, PITCH = BN + 8 /* of results in shared memory */ };
    typedef float sums[MT][NT][4]; /* of a thread; mma.h says where they are in a warp's tile */

    __device__ static int warp_row() { return (int)threadIdx.x / 32 / (BN / WN) * WM; }
    __device__ static int warp_column() { return (int)threadIdx.x / 32 % (BN / WN) * WN; }
};

template <class Tile, class F> __device__ inline void each_sum(F f)
{
    LKI_UNROLL
    for (int i = 0; i < Tile::MT; i++) {
        LKI_UNROLL
        for (int j = 0; j < Tile::NT; j++) {
            LKI_UNROLL
            for (int h = 0; h < 4; h++)
                f(i, j, h);
        }
    }
}

template <class Tile> __device__ inline void clear(typename Tile::sums &s)
{
    each_sum<Tile>([&](int i, int j, int h) { s[i][j][h] = 0; });
}

template <class Tile> __device__ inline bool has_nan(const typename Tile::sums &s)
{
    bool found = false;
    each_sum<Tile>([&](int i, int j, int h) { found = found || isnan(s[i][j][h]); });
    return found;
}

/* ---- to shared memory -------------------------------------------------------------------------------------------------------- */

template <class S, class = void> struct copies {
    enum { value = 0 };
};
template <class S> struct copies<S, decltype((void)S::COPIES)> {
    enum { value = 1 };
};

/* The copy of one operand to shared memory: a thread has EACH quads of a step, PASS lines apart. */
template <class Source, class Tile, int ROWS> struct staged {
    enum {
        QUADS = ROWS * Tile::STEP / 4,
        EACH = QUADS / Tile::THREADS,
        LINE = Source::ALONG_K ? Tile::STEP / 4 : ROWS / 4, /* quads that are consecutive in memory */
        PASS = Tile::THREADS / LINE,
        FLOATS = ROWS * Tile::STEP
    };
    static_assert(Tile::THREADS % LINE == 0 && QUADS % Tile::THREADS == 0, "a thread's quads lie in one column of the tile");
    static_assert(Tile::STEP % GROUP == 0 && ROWS % 32 == 0 && PASS % 4 == 0,
                  "whole groups, lines of all banks, and quads that move alike");

    __device__ static int line() { return (int)threadIdx.x / LINE; } /* a row, or a k, of the first */
    __device__ static int quad() { return (int)threadIdx.x % LINE; }
    __device__ static int first_place()
    {
        if (Source::ALONG_K) return quad() / 4 * (ROWS * GROUP) + (line() ^ quad() / 4 % 2) * GROUP + quad() % 4 * 4;
        return line() * ROWS + (quad() ^ line() / 4 % 4 * 2) * 4;
    }
    __device__ static int place(int first, int i)
    {
        if (Source::ALONG_K) return first + i * (PASS * GROUP);
        return (first ^ i * (PASS / 4) % 4 * 8) + i * (PASS * ROWS);
    }
};

template <class Source, class Tile, int ROWS, bool = copies<Source>::value> struct stage;

template <class Source, class Tile, int ROWS> struct stage<Source, Tile, ROWS, true> : staged<Source, Tile, ROWS> {
    typedef staged<Source, Tile, ROWS> s;
    enum { KEPT = Source::ALONG_K ? (int)s::EACH : 1 };
    const float *from[KEPT];  /* where a thread's quads would be at k = 0 */
    int          first, some; /* place in shared memory; for a quad along rows, the number of rows that exist */

    __device__ stage(const Source &source, int64_t row) : first(kept(s::first_place())), some(4)
    {
        LKI_UNROLL
        for (int i = 0; i < KEPT; i++)
            from[i] = kept(Source::ALONG_K ? source.start(row + s::line() + i * s::PASS, s::quad() * 4)
                                           : source.start(row + s::quad() * 4, s::line()));
        if constexpr (!Source::ALONG_K) some = source.there(row + s::quad() * 4);
    }
    __device__ const float *at(const Source &source, int k, int i) const
    {
        if constexpr (Source::ALONG_K) return from[i] + k;
        else return from[0] + source.offset(k + i * s::PASS);
    }
    /* Steps of which only some k exist, or whose quads are not aligned. */
    __device__ void fetch_some(const Source &source, int k, int end, bool four, float *to) const
    {
        LKI_UNROLL
        for (int i = 0; i < s::EACH; i++) {
            const int left = end - k - (Source::ALONG_K ? s::quad() * 4 : s::line() + i * s::PASS), count = Source::ALONG_K ? left
                                                                                                            : left > 0      ? some
                                                                                                                            : 0;
            float    *p = to + s::place(first, i);
            if (four) copy_four(p, at(source, k, i), count < 0 ? 0 : count < 4 ? 4 * count : 16);
            else
                for (int j = 0; j < 4; j++)
                    copy_one(p + j, at(source, k, i) + j, j < count ? 4 : 0);
        }
    }
    __device__ void fetch(const Source &source, int k, int end, float *to) const
    {
        const bool four = source.by_four(k);
        if (!four || k + Tile::STEP > end) return fetch_some(source, k, end, four, to);
        LKI_UNROLL
        for (int i = 0; i < s::EACH; i++)
            copy_four(to + s::place(first, i), at(source, k, i));
    }
    __device__ void land(float *) const {}
};

template <class Source, class Tile, int ROWS> struct stage<Source, Tile, ROWS, false> : staged<Source, Tile, ROWS> {
    typedef staged<Source, Tile, ROWS> s;
    enum { KEPT = Source::ALONG_K ? (int)s::EACH : 1 };
    typename Source::row row[KEPT];
    float                held[s::EACH][4]; /* from fetch() to land() */

    __device__ stage(const Source &source, int64_t first)
    {
        LKI_UNROLL
        for (int i = 0; i < KEPT; i++)
            row[i] = source.at(first + (Source::ALONG_K ? s::line() + i * s::PASS : s::quad() * 4));
    }
    __device__ void fetch(const Source &source, int k, int end, float *)
    {
        LKI_UNROLL
        for (int i = 0; i < s::EACH; i++)
            source.load(row[Source::ALONG_K ? i : 0], k + (Source::ALONG_K ? s::quad() * 4 : s::line() + i * s::PASS), end, 0.0f,
                        held[i]);
    }
    __device__ void land(float *to) const
    {
        LKI_UNROLL
        for (int i = 0; i < s::EACH; i++)
            *(float4 *)(to + s::place(s::first_place(), i)) = make_float4(held[i][0], held[i][1], held[i][2], held[i][3]);
    }
};

/* ---- to registers ------------------------------------------------------------------------------------------------------------ */

/* COUNT rows of a group for each thread of a warp, from the warp's row `first` on. */
template <bool ALONG_K, int ROWS, int COUNT> struct factors {
    enum {
        TOGETHER = ALONG_K     ? 1
                   : COUNT < 4 ? COUNT
                               : 4,
        AT_ONCE = ALONG_K ? 2 : TOGETHER /* rows per call of load(), at least */
    };
    const float *group, *mine;
    int          first;

    /* Where this thread's factors begin in a group. */
    __device__ static int own(int first)
    {
        const int r = (int)threadIdx.x % 32 / 4, c = (int)threadIdx.x % 4;
        if (ALONG_K) return (first + r) * GROUP + 4 * c;
        return 4 * c * ROWS + ((first + TOGETHER * r) / 4 ^ (2 * c)) * 4 + TOGETHER * r % 4;
    }
    /* Group n of the step that begins at `step`. */
    __device__ factors(const float *step, int n, int own, int first_)
        : group(step + n * (ROWS * GROUP)), mine(group + (ALONG_K && n % 2 ? own ^ GROUP : own)), first(first_ ^ (ALONG_K && n % 2))
    {
    }
    /* The nth row, in the warp's tile, of a thread that has row r of an mma: of threads lane / 4. */
    __device__ static int row(int n, int r) { return n / TOGETHER * (8 * TOGETHER) + TOGETHER * r + n % TOGETHER; }

    /* Rows n ... n+N-1 of this thread, k from 4 * (lane%4) to the third after it. */
    template <int N> __device__ void load(int n, float (*v)[4]) const
    {
        LKI_UNROLL
        for (int i = 0; i < (ALONG_K ? N : 4 * (N / TOGETHER)); i++) {
            if (ALONG_K) {
                const float4 x = *(const float4 *)(mine + (n + i) * (8 * GROUP));
                v[i][0] = x.x, v[i][1] = x.y, v[i][2] = x.z, v[i][3] = x.w;
            } else if (TOGETHER == 4) {
                const float4 x = *(const float4 *)(mine + i % 4 * ROWS + (n / 4 + i / 4) * 32);
                v[i / 4 * 4][i % 4] = x.x, v[i / 4 * 4 + 1][i % 4] = x.y, v[i / 4 * 4 + 2][i % 4] = x.z,
                                 v[i / 4 * 4 + 3][i % 4] = x.w;
            } else {
                const float2 x = *(const float2 *)(mine + i * ROWS);
                v[0][i] = x.x, v[1][i] = x.y;
            }
        }
    }
    /* Any row of the warp's tile, any k of the group. */
    __device__ float at(int r, int k) const
    {
        const int quad = (first + r) / 4;
        return ALONG_K ? group[(first ^ r) * GROUP + k] : group[k * ROWS + (quad ^ (k / 4 * 2)) * 4 + r % 4];
    }
};

/* ---- both operands ----------------------------------------------------------------------------------------------------------- */

/* The ring of stages that steps pass through, and the multiplication of the oldest. Every thread of the block takes part. */
template <class Tile, bool LEFT_ALONG_K, bool RIGHT_ALONG_K> struct ring {
    typedef factors<LEFT_ALONG_K, Tile::BM, 2 * Tile::MT> left_factors;
    typedef factors<RIGHT_ALONG_K, Tile::BN, Tile::NT>    right_factors;
    enum { LEFT = Tile::BM * Tile::STEP, EACH = LEFT + Tile::BN * Tile::STEP, AHEAD = Tile::STAGES - 1 };
    enum { LOOP = EACH * Tile::STAGES, OUT = Tile::BM * Tile::PITCH, FLOATS = (int)LOOP > (int)OUT ? (int)LOOP : (int)OUT };

    float *room;
    int    in, out;             /* the step to load next, and the oldest */
    int    own_left, own_right; /* offsets of this thread's factors */

    __device__ explicit ring(float *room_)
        : room(room_), in(0), out(0), own_left(kept(left_factors::own(Tile::warp_row()))),
          own_right(kept(right_factors::own(Tile::warp_column())))
    {
    }

    __device__ static int after(int p) { return p == AHEAD * EACH ? 0 : p + EACH; }
    __device__ void       wait() const
    {
        copies_wait<AHEAD - 1>();
        __syncthreads();
    }
    template <int P> __device__ void take(typename Tile::sums &acc, bool some)
    {
        const float *left = room + out, *right = left + LEFT;
#ifndef LKI_SIM
#pragma unroll P == PRECISION_CAREFUL ? 1 : Tile::STEP / GROUP
#endif
        for (int n = 0; n < (some ? Tile::STEP / GROUP : 0); n++)
            multiply_group<P, Tile::MT, Tile::NT>(left_factors(left, n, own_left, Tile::warp_row()),
                                                  right_factors(right, n, own_right, Tile::warp_column()), acc);
        out = after(out);
    }

    /* Write a thread's sums to their places in a tile of results, row by row. The ring is no longer needed. */
    __device__ void lay_down(const typename Tile::sums &sum) const
    {
        const int lane = threadIdx.x % 32;
        LKI_UNROLL
        for (int q = 0; q < Tile::MT * 4; q++) { /* row, and which of a pair of columns */
            const int i = q / 4, h = q / 2 % 2, e = q % 2, o = 2 * h + e;
            float    *line = room + (Tile::warp_row() + left_factors::row(2 * i + h, lane / 4)) * Tile::PITCH + Tile::warp_column();
            float    *p = line + right_factors::row(0, lane % 4 * 2 + e);
            LKI_UNROLL
            for (int j = 0; j < Tile::NT; j += right_factors::TOGETHER) {
                if constexpr ((int)right_factors::TOGETHER == 4)
                    *(float4 *)(p + 8 * j) = make_float4(sum[i][j][o], sum[i][j + 1][o], sum[i][j + 2][o], sum[i][j + 3][o]);
                else if constexpr ((int)right_factors::TOGETHER == 2)
                    *(float2 *)(p + 8 * j) = make_float2(sum[i][j][o], sum[i][j + 1][o]);
                else if (!e) *(float2 *)(p + 8 * j) = make_float2(sum[i][j][o], sum[i][j][o + 1]);
            }
        }
    }
};

/* put() loads the next step, take() multiplies the oldest. */
template <class Tile, class A, class B> struct pipeline : ring<Tile, A::ALONG_K, B::ALONG_K> {
    typedef stage<A, Tile, Tile::BM>           lefts;
    typedef stage<B, Tile, Tile::BN>           rights;
    typedef ring<Tile, A::ALONG_K, B::ALONG_K> own;
    using own::in;
    using own::room;

    const A &a;
    const B &b;
    lefts    as;
    rights   bs;

    __device__ pipeline(const A &a_, const B &b_, int64_t m, int64_t n, float *room_)
        : own(room_), a(a_), b(b_), as(a_, m), bs(b_, n)
    {
    }

    /* Step k of a part that ends at `end`; empty if k >= end. Sources that cannot copy asynchronously are stored by land(). */
    __device__ void put(int k, int end)
    {
        if (k < end) {
            as.fetch(a, k, end, room + in);
            bs.fetch(b, k, end, room + in + own::LEFT);
        }
        copies_end();
    }
    __device__ void land(bool some)
    {
        if (some) {
            as.land(room + in);
            bs.land(room + in + own::LEFT);
        }
        in = own::after(in);
    }
    __device__ void rewind() { in = own::out = 0; }
};

} // namespace lki_gpu

#endif
