/* Instructions of small calls, executed by one thread block (group_small.h).
 *
 * Invariants
 *  1. Later instructions read results back through plain loads of global memory, after a barrier of the block.
 *  2. All threads of a warp execute an instruction's shuffles, or none: work is assigned to whole warps.
 *  3. Code that takes many registers or is long is in separate functions, without a copy for each type and operand.
 *  4. There are four kernels (small_set). A kernel's code is fetched while it runs, in the worst case from the card's memory, and a
 *     jump to code that is not loaded costs as much as a load from memory. Most programs of training steps need a twentieth of the
 *     whole code, or a tenth: there are kernels of these parts alone, made of the same functions and expressions, so bits are the
 *     same. */
#include "kernel/gpu/base/arithmetic.h"
#include "kernel/gpu/base/each.h"
#include "kernel/gpu/base/element.h"
#include "kernel/gpu/group/group_small.h"
#include "kernel/gpu/reduce/pick.h"
#include "kernel/gpu/reduce/rows.h"
#include "kernel/gpu/update/schedule.h"

#ifdef LKI_SIM
#define LKI_APART
#else
#define LKI_APART __noinline__
#endif

namespace
{

using namespace lki_gpu;

/* ---- sets of instructions ---- */

typedef enum small_set {
    PLAIN_SET,  /* of f32 sums over rows, and the element-wise slots of is_plain(); moves and fills of four bytes; increments */
    ROWS_SET,   /* and rows of f32: FOLD, cross-entropy */
    COUNTS_SET, /* ... and what metrics count with: argmax of f32, comparisons of f32, i64 and bytes, sums of lanes */
    WHOLE_SET
} small_set;

__host__ __device__ constexpr bool is_plain(int slot)
{
    return slot == LKI_K_add || slot == LKI_K_sub || slot == LKI_K_mul || slot == LKI_K_div || slot == LKI_K_square ||
           slot == LKI_K_relu || slot == LKI_K_relu_grad;
}

/* ---- element-wise slots, for one element (or two) ---- */

/* clang-format off */
#define NUMBER a
#define MAP_F(name, single, twice) case LKI_K_##name: return (f32)(single);
#define MAP_N(name, single, twice, integer) case LKI_K_##name: return (f32)(single);
#define ZIP_F(name, single, twice) case LKI_K_##name: return (f32)(single);
#define ZIP_N(name, expression) case LKI_K_##name: return (f32)(expression);
/* clang-format on */

LKI_APART __device__ f32 number(int slot, f32 x, f32 y, double a, double b, fault)
{
    typedef f32_wrap W;
    switch (slot) {
#include "kernel/expressions.inc"
    case LKI_K_clip: return clipped(x, limit_of(a, x), limit_of(b, x));
    case LKI_K_mod: return with_sign_of(fmodf(x, y), y, 0x1p-126f);
    }
    return x;
}

/* clang-format off */
#undef MAP_F
#undef MAP_N
#undef ZIP_F
#undef ZIP_N
#define PLAIN(name, value) case LKI_K_##name: if (is_plain(LKI_K_##name)) return (f32)(value); break;
#define MAP_F(name, single, twice) PLAIN(name, single)
#define MAP_N(name, single, twice, integer) PLAIN(name, single)
#define ZIP_F(name, single, twice) PLAIN(name, single)
#define ZIP_N(name, expression) PLAIN(name, expression)
/* clang-format on */

__device__ inline f32 plain_number(int slot, f32 x, f32 y)
{
    typedef f32_wrap W;
    const double     a = 0; /* no plain slot has a number */
    switch (slot) {
#include "kernel/expressions.inc"
    }
    return x;
}

/* clang-format off */
#undef PLAIN
#undef MAP_F
#undef MAP_N
#undef ZIP_F
#undef ZIP_N
#define MAP_F(name, single, twice) case LKI_K_##name: return (f64)(twice);
#define MAP_N(name, single, twice, integer) case LKI_K_##name: return (f64)(twice);
#define ZIP_F(name, single, twice) case LKI_K_##name: return (f64)(twice);
#define ZIP_N(name, expression) case LKI_K_##name: return (f64)(expression);
/* clang-format on */

LKI_APART __device__ f64 number(int slot, f64 x, f64 y, double a, double b, fault)
{
    typedef f64_wrap W;
    switch (slot) {
#include "kernel/expressions.inc"
    case LKI_K_clip: return clipped(x, limit_of(a, x), limit_of(b, x));
    case LKI_K_mod: return with_sign_of(fmod(x, y), y, 0x1p-1022);
    }
    return x;
}

/* clang-format off */
#undef MAP_F
#undef MAP_N
#undef ZIP_F
#undef ZIP_N
#define MAP_F(name, single, twice)
#define MAP_N(name, single, twice, integer) case LKI_K_##name: return (T)(integer);
#define ZIP_F(name, single, twice)
#define ZIP_N(name, expression) case LKI_K_##name: return (T)(expression);
/* clang-format on */

template <typename T, typename W> __device__ inline T integer(int slot, T x, T y, double a, double b, const fault &fail)
{
    switch (slot) {
#include "kernel/expressions.inc"
    case LKI_K_clip: return clipped(x, limit_of(a, x), limit_of(b, x));
    case LKI_K_floordiv: return floor_div<T, W>(x, y, fail);
    case LKI_K_mod: return floor_mod(x, y, fail);
    }
    return x;
}

LKI_APART __device__ i32 number(int slot, i32 x, i32 y, double a, double b, fault fail)
{
    return integer<i32, u32>(slot, x, y, a, b, fail);
}
LKI_APART __device__ i64 number(int slot, i64 x, i64 y, double a, double b, fault fail)
{
    return integer<i64, u64>(slot, x, y, a, b, fail);
}
__device__ inline u8 number(int, u8 x, u8, double, double, fault) { return x; } /* for bytes there are only comparisons and logic */

__device__ inline bool                       finite(f32 x) { return isfinite(x) != 0; }
__device__ inline bool                       finite(f64 x) { return isfinite(x) != 0; }
template <typename T> __device__ inline bool finite(T) { return true; }

template <typename T> __device__ inline bool truth(int slot, T x, T y)
{
    switch (slot) {
    case LKI_K_equal: return x == y;
    case LKI_K_not_equal: return x != y;
    case LKI_K_less: return x < y;
    case LKI_K_less_equal: return x <= y;
    case LKI_K_greater: return x > y;
    case LKI_K_greater_equal: return x >= y;
    case LKI_K_logical_and: return x && y;
    case LKI_K_logical_or: return x || y;
    case LKI_K_logical_not: return !x;
    }
    return finite(x);
}

__device__ inline f32 squared(f32 x, f32 acc) { return fmaf(x, x, acc); }
__device__ inline f64 squared(f64 x, f64 acc) { return fma(x, x, acc); }
__device__ inline u32 squared(u32 x, u32 acc) { return x * x + acc; }
__device__ inline u64 squared(u64 x, u64 acc) { return x * x + acc; }

/* ---- where elements are ---- */

/* Indices of element i of dst along its axes; exact below SMALL_ELEMENTS. */
struct small_axes {
    uint32_t at[SMALL_AXES];

    __device__ small_axes(const small_call &c, uint32_t i) : at{0, 0, 0}
    {
        if (c.axes > 2) {
            const uint32_t above = __umulhi(i, c.factor[1]);
            at[2] = i - above * c.dim[1];
            i = above;
        }
        if (c.axes > 1) {
            const uint32_t above = __umulhi(i, c.factor[0]);
            at[1] = i - above * c.dim[0];
            i = above;
        }
        at[0] = i;
    }
    template <typename I> __device__ int operator()(const I *step) const
    {
        return (int)at[0] * step[0] + (int)at[1] * step[1] + (int)at[2] * step[2];
    }
};

template <typename T> __device__ inline T operand(const small_call &c, const small_axes &i, int k)
{
    return flush(((const T *)c.each.src[k])[i(c.each.step[k])]);
}

/* ---- kinds of instructions: t is this thread, counted from the instruction's first, `threads` all of them ---- */

template <typename T> __device__ inline void do_each(const small_program &p, const small_call &c, int t, int threads)
{
    const bool checks =
        sizeof(T) >= 4 && (T)0.5 == 0; /* for integers two slots can report a fault; the others, and floats, use number() */
    const bool  tells = checks && (c.slot == LKI_K_floordiv || c.slot == LKI_K_mod);
    const fault fail = {(int *)p.stop, tells ? c.each.fault : 0};
    LKI_UNROLL(1)
    for (int i = t; i < c.count; i += threads) {
        const small_axes at(c, (uint32_t)i);
        const T          x = operand<T>(c, at, 0), y = c.operands > 1 ? operand<T>(c, at, 1) : (T)0;
        if (c.to == LK_BOOL) ((u8 *)c.dst)[i] = truth(c.slot, x, y);
        else ((T *)c.dst)[i] = flush(number(c.slot, x, y, c.each.num[0], c.each.num[1], fail));
    }
}

template <typename T> __device__ inline void do_truth(const small_call &c, int t, int threads)
{
    LKI_UNROLL(1)
    for (int i = t; i < c.count; i += threads) {
        const small_axes at(c, (uint32_t)i);
        ((u8 *)c.dst)[i] = truth(c.slot, operand<T>(c, at, 0), c.operands > 1 ? operand<T>(c, at, 1) : (T)0);
    }
}

__device__ inline void do_plain(const small_call &c, int t, int threads)
{
    LKI_UNROLL(1)
    for (int i = t; i < c.count; i += threads) {
        const small_axes at(c, (uint32_t)i);
        const f32        x = operand<f32>(c, at, 0), y = c.operands > 1 ? operand<f32>(c, at, 1) : 0;
        ((f32 *)c.dst)[i] = flush(plain_number(c.slot, x, y));
    }
}

__device__ inline void do_each_type(const small_program &p, const small_call &c, int t, int threads)
{
    switch (c.type) {
    case LK_F32: do_each<f32>(p, c, t, threads); break;
    case LK_F64: do_each<f64>(p, c, t, threads); break;
    case LK_I32: do_each<i32>(p, c, t, threads); break;
    case LK_I64: do_each<i64>(p, c, t, threads); break;
    default: do_each<u8>(p, c, t, threads);
    }
}

/* A value, exact, as an element of another type. */
template <typename V> __device__ inline void put(void *dst, int type, int i, V v)
{
    switch (type) {
    case LK_F32: ((f32 *)dst)[i] = element<LK_F32>::of(v); break;
    case LK_F64: ((f64 *)dst)[i] = flush(element<LK_F64>::of(v)); break;
    case LK_I32: ((i32 *)dst)[i] = element<LK_I32>::of(v); break;
    case LK_I64: ((i64 *)dst)[i] = element<LK_I64>::of(v); break;
    case LK_U8: ((u8 *)dst)[i] = element<LK_U8>::of(v); break;
    default: ((u8 *)dst)[i] = element<LK_BOOL>::of(v);
    }
}

__device__ inline void do_cast(const small_call &c, int t, int threads)
{
    const void *src = c.each.src[0];
    LKI_UNROLL(1)
    for (int i = t; i < c.count; i += threads)
        switch (c.type) {
        case LK_F32: put(c.dst, c.to, i, element<LK_F32>::value(((const f32 *)src)[i])); break;
        case LK_F64: put(c.dst, c.to, i, element<LK_F64>::value(flush(((const f64 *)src)[i]))); break;
        case LK_I32: put(c.dst, c.to, i, element<LK_I32>::value(((const i32 *)src)[i])); break;
        case LK_I64: put(c.dst, c.to, i, element<LK_I64>::value(((const i64 *)src)[i])); break;
        case LK_U8: put(c.dst, c.to, i, element<LK_U8>::value(((const u8 *)src)[i])); break;
        default: put(c.dst, c.to, i, element<LK_BOOL>::value(((const u8 *)src)[i]));
        }
}

template <typename T> __device__ inline void do_where(const small_call &c, int t, int threads)
{
    LKI_UNROLL(1)
    for (int i = t; i < c.count; i += threads) {
        const small_axes at(c, (uint32_t)i);
        ((T *)c.dst)[i] = operand<u8>(c, at, 2) ? operand<T>(c, at, 0) : operand<T>(c, at, 1);
    }
}

template <typename T> __device__ inline void do_move(const small_call &c, int t, int threads)
{
    LKI_UNROLL(1)
    for (int i = t; i < c.count; i += threads) {
        const small_axes at(c, (uint32_t)i);
        ((T *)c.dst)[at(c.move.to)] = ((const T *)c.move.src)[at(c.move.from)];
    }
}

template <typename T> __device__ inline void do_fill(const small_call &c, int t, int threads)
{
    LKI_UNROLL(1)
    for (int i = t; i < c.count; i += threads)
        ((T *)c.dst)[i] = (T)c.fill;
}

template <typename T> __device__ inline void do_range(const small_call &c, int t, int threads)
{
    LKI_UNROLL(1)
    for (int i = t; i < c.count; i += threads)
        ((T *)c.dst)[i] = (T)i;
}

/* Slots that only move bits: by the size of an element. */
template <typename T> __device__ inline void do_bits(const small_call &c, int t, int threads)
{
    if (c.kind == SMALL_WHERE) do_where<T>(c, t, threads);
    else if (c.kind == SMALL_MOVE) do_move<T>(c, t, threads);
    else do_fill<T>(c, t, threads);
}

__device__ inline void do_bits_type(const small_call &c, int t, int threads)
{
    switch (c.to) {
    case LK_F64:
    case LK_I64: do_bits<u64>(c, t, threads); break;
    case LK_F32:
    case LK_I32: do_bits<u32>(c, t, threads); break;
    case LK_U8:
    case LK_BOOL: do_bits<u8>(c, t, threads); break;
    default: do_bits<u16>(c, t, threads);
    }
}

__device__ inline void do_range_type(const small_call &c, int t, int threads)
{
    switch (c.to) {
    case LK_F32: do_range<f32>(c, t, threads); break;
    case LK_F64: do_range<f64>(c, t, threads); break;
    case LK_I32: do_range<i32>(c, t, threads); break;
    default: do_range<i64>(c, t, threads);
    }
}

/* ---- rows, a half warp each ---- */

__device__ inline int whole_warps(int threads) { return (threads + 31) & ~31; }

template <typename F> __device__ inline void over_teams(const small_call &c, int t, int threads, const F &f)
{
    const int all = whole_warps(c.count * LKI_FOLD_WIDTH);
    LKI_UNROLL(1)
    for (int i = t; i < all; i += threads) {
        const int  row = i / LKI_FOLD_WIDTH;
        const bool live = row < c.count;
        f(small_team{row, live ? c.team.n : 0, i % LKI_FOLD_WIDTH, live});
    }
}

template <typename T> __device__ inline void fold_team(const small_call &c, const small_team &team)
{
    const T   *row = (const T *)c.team.src[0] + team.row * c.team.n;
    const bool squares = c.slot == LKI_K_sum_squares;
    const T    sum =
        fold_block<T, 8>(team.t, 0, team.n, [=](T acc, int64_t j) { return squares ? squared(row[j], acc) : acc + row[j]; });
    if (team.leads()) ((T *)c.dst)[team.row] = sum;
}

template <typename T> __device__ inline void argmax_team(const small_call &c, const small_team &team)
{
    const T  *row = (const T *)c.team.src[0] + team.row * c.team.n;
    placed<T> best = {0, -1};
    LKI_UNROLL(1)
    for (int k = team.t; k < team.n; k += LKI_FOLD_WIDTH) {
        const placed<T> one = {row[k], k};
        if (ahead<T, true>(one, best)) best = one;
    }
    LKI_UNROLL(1)
    for (int by = LKI_FOLD_WIDTH / 2; by; by /= 2) {
        const placed<T> other = swapped(best, by);
        if (ahead<T, true>(other, best)) best = other;
    }
    if (team.leads()) ((i64 *)c.dst)[team.row] = best.place < 0 ? 0 : best.place;
}

template <typename T> __device__ inline void row_team(const small_program &p, const small_call &c, const small_team &team)
{
    const T      *x = (const T *)c.team.src[0], *y = (const T *)c.team.src[1], *z = (const T *)c.team.src[2];
    T            *dst = (T *)c.dst;
    const int64_t n = c.team.n;
    const labels  l = {{c.team.src[1], (lk_dtype)c.team.labels}, c.team.ignores != 0, c.team.ignored, n};
    const fault   tell = {(int *)p.stop, c.team.fault};
    switch (c.slot) {
    case LKI_K_softmax: softmax_row<T>{x, dst, n}(team); break;
    case LKI_K_log_softmax: log_softmax_row<T>{x, dst, n}(team); break;
    case LKI_K_softmax_grad: softmax_grad_row<T>{x, y, dst, n}(team); break;
    case LKI_K_sparse_xent: xent_row<T>{x, dst, n, l, tell}(team); break;
    case LKI_K_sparse_xent_grad: xent_grad_row<T>{x, z, dst, n, l, tell}(team); break;
    case LKI_K_argmax: argmax_team<T>(c, team); break;
    default: fold_team<T>(c, team);
    }
}

__device__ inline void plain_row(const small_program &p, const small_call &c, const small_team &team)
{
    const f32    *x = (const f32 *)c.team.src[0], *z = (const f32 *)c.team.src[2];
    f32          *dst = (f32 *)c.dst;
    const int64_t n = c.team.n;
    const labels  l = {{c.team.src[1], (lk_dtype)c.team.labels}, c.team.ignores != 0, c.team.ignored, n};
    const fault   tell = {(int *)p.stop, c.team.fault};
    if (c.slot == LKI_K_sparse_xent) xent_row<f32>{x, dst, n, l, tell}(team);
    else if (c.slot == LKI_K_sparse_xent_grad) xent_grad_row<f32>{x, z, dst, n, l, tell}(team);
    else fold_team<f32>(c, team);
}

__device__ inline void do_teams(const small_program &p, const small_call &c, int t, int threads)
{
    switch (c.type) {
    case LK_F32: over_teams(c, t, threads, [&](const small_team &team) { row_team<f32>(p, c, team); }); break;
    case LK_F64: over_teams(c, t, threads, [&](const small_team &team) { row_team<f64>(p, c, team); }); break;
    case LK_I32: over_teams(c, t, threads, [&](const small_team &team) { fold_team<u32>(c, team); }); break;
    default: over_teams(c, t, threads, [&](const small_team &team) { fold_team<u64>(c, team); });
    }
}

/* ---- sums over rows: two lanes a thread, the tree over lanes within a warp ---- */

/* Where lane s begins. Lanes are mostly regular; threads that read different words of the pool would wait for each other. */
__device__ inline int lane_begin(const small_program &p, const small_call &c, int s)
{
    if (!c.sum.each) return p.pool[c.sum.bound + s];
    const int row = c.sum.each * s - c.sum.before;
    return row < 0 ? 0 : row > (int)c.sum.mid ? (int)c.sum.mid : row;
}

/* Rows from..end-1 of a column, those before `to` in one chain, the others in a second: both chains, added up. Eight rows are
 * loaded at once. */
template <typename T> __device__ inline T two_chains(const small_call &c, int64_t column, int from, int to, int end)
{
    enum { AHEAD = 8 };
    const T *x = (const T *)c.sum.x + column, *y = c.sum.y ? (const T *)c.sum.y + column : nullptr;
    T        first = 0, acc = 0;
    LKI_UNROLL(1)
    for (int row = from; row < end; row += AHEAD) {
        T v[AHEAD], sign[AHEAD];
        LKI_UNROLL(8)
        for (int j = 0; j < AHEAD; j++) {
            v[j] = row + j < end ? x[(row + j) * c.sum.inner] : (T)0;
            sign[j] = y && row + j < end ? y[(row + j) * c.sum.inner] : (T)1;
        }
        LKI_UNROLL(8)
        for (int j = 0; j < AHEAD; j++) {
            if (row + j == to && to < end) first = acc, acc = 0;
            if (row + j < end) acc = acc + (sign[j] > 0 ? v[j] : (T)0);
        }
    }
    return to < end ? first + acc : acc + (T)0;
}

template <typename T> __device__ inline void do_chains(const small_program &p, const small_call &c, int t, int threads)
{
    const int lanes = c.sum.lanes, width = lanes > 1 ? lanes / 2 : 1;
    const int shift = __ffs(width) - 1, all = whole_warps(c.count * width); /* a power of two, as the tree needs it */
    LKI_UNROLL(1)
    for (int i = t; i < all; i += threads) {
        const int result = i >> shift, pair = i & (width - 1);
        T         sum = 0;
        if (result < c.count) {
            const uint32_t outer = c.count == c.sum.inner ? 0 : (uint32_t)result / c.sum.inner;
            const int64_t  column = (int64_t)outer * c.sum.mid * c.sum.inner + ((uint32_t)result - outer * c.sum.inner);
            const int      to = lane_begin(p, c, 2 * pair + 1), end = lanes > 1 ? lane_begin(p, c, 2 * pair + 2) : to;
            sum = two_chains<T>(c, column, lane_begin(p, c, 2 * pair), to, end);
        }
        LKI_UNROLL(1)
        for (int by = 1; by < width; by *= 2)
            sum = sum + __shfl_down_sync((unsigned)FULL_WARP, sum, by, width);
        if (pair == 0 && result < c.count) ((T *)c.dst)[result] = sum;
    }
}

__device__ inline void do_chains_type(const small_program &p, const small_call &c, int t, int threads)
{
    switch (c.type) {
    case LK_F32: do_chains<f32>(p, c, t, threads); break;
    case LK_F64: do_chains<f64>(p, c, t, threads); break;
    case LK_I32: do_chains<u32>(p, c, t, threads); break;
    default: do_chains<u64>(p, c, t, threads);
    }
}

/* A thread per lane and column. */
template <lk_dtype D> __device__ inline void do_lanes(const small_program &p, const small_call &c, int t, int threads)
{
    typedef element<D> from;
    LKI_UNROLL(1)
    for (int i = t; i < c.count; i += threads) {
        const int lane = (int)((uint32_t)i / c.sum.inner), begin = lane_begin(p, c, lane), end = lane_begin(p, c, lane + 1);
        const typename from::type *x = (const typename from::type *)c.sum.x + ((uint32_t)i - (uint32_t)lane * c.sum.inner);
        f64                        sum = 0;
        LKI_UNROLL(8)
        for (int row = begin; row < end; row++)
            sum += wide(from::value(x[(uint32_t)row * c.sum.inner]));
        if (begin < end) ((f64 *)c.dst)[i] += sum;
    }
}

__device__ inline void do_lanes_type(const small_program &p, const small_call &c, int t, int threads)
{
    if (c.type == LK_F32) do_lanes<LK_F32>(p, c, t, threads);
    else do_lanes<LK_BOOL>(p, c, t, threads);
}

/* ---- single numbers ---- */

LKI_APART __device__ double rate(int form, int count, const double *p, double t) { return lki_rate_of(form, count, p, t); }

__device__ inline void do_schedule(const small_program &p, const small_call &c)
{
    double numbers[SCHEDULE_NUMBERS];
    for (int i = 0; i < SCHEDULE_NUMBERS; i++)
        numbers[i] = ((const double *)(const void *)(p.pool + c.schedule.numbers))[i];
    *(f32 *)c.dst = (f32)rate(c.schedule.form, c.schedule.count, numbers, (double)*c.schedule.t);
}

__device__ inline void do_increment(const small_call &c, int t)
{
    if (t == 0) ++*(i64 *)c.dst;
}

/* ---- the program ---- */

/* One instruction of a set; t and threads as above. */
template <small_set SET> __device__ inline void do_call(const small_program &p, const small_call &c, int t, int threads)
{
    if (c.kind == SMALL_EACH) do_plain(c, t, threads);
    else if (c.kind == SMALL_CHAIN_SUM) do_chains<f32>(p, c, t, threads);
    else if (c.kind == SMALL_MOVE) do_move<u32>(c, t, threads);
    else if (c.kind == SMALL_FILL) do_fill<u32>(c, t, threads);
    else if (c.kind == SMALL_INCREMENT) do_increment(c, t);
    else if (SET == ROWS_SET && c.kind == SMALL_TEAM)
        over_teams(c, t, threads, [&](const small_team &team) { plain_row(p, c, team); });
}

template <> __device__ inline void do_call<COUNTS_SET>(const small_program &p, const small_call &c, int t, int threads)
{
    const bool compares = c.kind == SMALL_EACH && c.to == LK_BOOL;
    if (c.kind == SMALL_LANE_SUM) do_lanes_type(p, c, t, threads);
    else if (c.kind == SMALL_TEAM && c.slot == LKI_K_argmax)
        over_teams(c, t, threads, [&](const small_team &team) { argmax_team<f32>(c, team); });
    else if (compares && c.type == LK_F32) do_truth<f32>(c, t, threads);
    else if (compares && c.type == LK_I64) do_truth<i64>(c, t, threads);
    else if (compares) do_truth<u8>(c, t, threads);
    else do_call<ROWS_SET>(p, c, t, threads);
}

template <> __device__ inline void do_call<WHOLE_SET>(const small_program &p, const small_call &c, int t, int threads)
{
    switch (c.kind) {
    case SMALL_EACH: do_each_type(p, c, t, threads); break;
    case SMALL_CAST: do_cast(c, t, threads); break;
    case SMALL_RANGE: do_range_type(c, t, threads); break;
    case SMALL_TEAM: do_teams(p, c, t, threads); break;
    case SMALL_CHAIN_SUM: do_chains_type(p, c, t, threads); break;
    case SMALL_LANE_SUM: do_lanes_type(p, c, t, threads); break;
    case SMALL_SCHEDULE:
        if (t == 0) do_schedule(p, c);
        break;
    case SMALL_INCREMENT: do_increment(c, t); break;
    default: do_bits_type(c, t, threads);
    }
}

template <small_set SET> __global__ void __launch_bounds__(SMALL_THREADS, 1) small_kernel(const LKI_CONSTANT small_program p)
{
    const int threads = (int)blockDim.x;
    LKI_UNROLL(1)
    for (int k = 0; k < p.count; k++) {
        const small_call &c = p.at[k];
        if (c.waits) __syncthreads();
        if (c.stops && stopped(p.stop)) continue;
        do_call<SET>(p, c, (int)(threadIdx.x - c.first) & (threads - 1), threads);
    }
}

/* The smallest set that has an instruction. */
small_set set_of(const small_call &c)
{
    const bool single = c.type == LK_F32 && c.to == LK_F32;
    const bool row = c.slot == LKI_K_sparse_xent || c.slot == LKI_K_sparse_xent_grad || c.slot == LKI_K_reduce_sum ||
                     c.slot == LKI_K_sum_squares;
    switch (c.kind) {
    case SMALL_EACH:
        if (c.to == LK_BOOL) return c.type == LK_F64 || c.type == LK_I32 ? WHOLE_SET : COUNTS_SET;
        return single && is_plain(c.slot) ? PLAIN_SET : WHOLE_SET;
    case SMALL_CHAIN_SUM: return single ? PLAIN_SET : WHOLE_SET;
    case SMALL_LANE_SUM: return COUNTS_SET;
    case SMALL_INCREMENT: return PLAIN_SET;
    case SMALL_FILL:
    case SMALL_MOVE: return c.to == LK_F32 || c.to == LK_I32 ? PLAIN_SET : WHOLE_SET;
    case SMALL_TEAM:
        if (c.type == LK_F32 && c.slot == LKI_K_argmax) return COUNTS_SET;
        return single && row ? ROWS_SET : WHOLE_SET;
    }
    return WHOLE_SET;
}

} // namespace

void lki_gpu::start_small(const lki_args *a, const small_program &p, int threads)
{
    const dim3 block((unsigned)threads);
    small_set  set = PLAIN_SET;
    (void)a;
    for (int i = 0; i < p.count; i++)
        if (set_of(p.at[i]) > set) set = set_of(p.at[i]);
    if (set == PLAIN_SET) LKI_LAUNCH((small_kernel<PLAIN_SET>), dim3(1), block, 0, a, p);
    else if (set == ROWS_SET) LKI_LAUNCH((small_kernel<ROWS_SET>), dim3(1), block, 0, a, p);
    else if (set == COUNTS_SET) LKI_LAUNCH((small_kernel<COUNTS_SET>), dim3(1), block, 0, a, p);
    else LKI_LAUNCH((small_kernel<WHOLE_SET>), dim3(1), block, 0, a, p);
}
