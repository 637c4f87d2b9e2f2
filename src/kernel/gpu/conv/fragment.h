/* Products whose factors stay in registers: 3x3 convolutions that a 2x2 max pool follows, with precisions that round factors
 * (fragment_conv.cu, fragment_x.cu; fragment_w.cu has its own right factors).
 *
 * A fragment is what a lane has of a group of 16 k (k_group.h): four k from 4 * (lane%4) on, of rows lane/4 and lane/4 + 8, or of
 * column lane/4 of each mma. Left factors are loaded from memory to registers, once for all their products: rows are squares of 2x2
 * cells, or windows of the pool, so a factor is multiplied with up to four taps. Right factors are weights. They stay in shared
 * memory while a block runs, those of a group and tap together: [mma of 8 columns][lane][4] or, for warpgroups, [octet][half of its
 * k][mma][column][4]. Both are rounded when they are loaded or, if weights are copied asynchronously (fragment_x.cu), when they are
 * read.
 *
 * Cards with compute capability 9.0 multiply TF32 by warpgroups: four warps with 64 rows submit products to tensor cores, which
 * read weights from shared memory themselves, and wait for them later (LKI_WARPGROUPS; these files are compiled for sm_90a). Other
 * cards multiply warp by warp. So do all cards if there are few rows: then the time is that of dependent products, 25 cycles each
 * by a warp and about 50 by four. The sums are equal: CUDA does not guarantee it, but tests/gpu/conv.c (test_few_rows) compares
 * them on a card.
 *
 * A warp has 16 rows and NT mma of columns. The columns that a lane has results of, 2*(lane%4) and the next of each mma, are quads
 * of channels: channel_of(). */
#ifndef LKI_KERNEL_GPU_CONV_FRAGMENT_H
#define LKI_KERNEL_GPU_CONV_FRAGMENT_H

#include "kernel/gpu/base/octet.h"
#include "kernel/gpu/conv/conv.h"

namespace lki_gpu
{

enum { FRAGMENT_TAPS = 9, FRAGMENT_ROWS = 64 /* of four warps */, FRAGMENT = 8 * GROUP /* floats of an mma's columns */ };
enum { FRAGMENT_WIDE = 4 };               /* NT if there are many rows; else NT is smaller, which changes no sum */
enum { FRAGMENT_MOST_BYTES = 150 << 10 }; /* of weights in shared memory */

/* The channel, of 8 * NT, for column `column` of an mma. A thread's columns of two mma are a quad, and neighbouring threads have
 * neighbouring quads: so whole sectors of memory are written. */
template <int NT> __host__ __device__ inline int channel_of(int mma, int column)
{
    return NT > 1 ? mma / 2 * 16 + column / 2 * 4 + mma % 2 * 2 + column % 2 : column;
}

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#define LKI_WARPGROUPS(P, NT) ((P) == LKI_PRECISION_TF32 && (NT) == FRAGMENT_WIDE)
#else
#define LKI_WARPGROUPS(P, NT) false
#endif

#ifdef LKI_SIM

template <int P> struct left_fragment {
    octet_numbers x[2][2]; /* row, octet */

    left_fragment() {}
    explicit left_fragment(const float (*v)[4])
    {
        for (int h = 0; h < 2; h++) {
            float all[GROUP];
            for (int k = 0; k < GROUP; k++)
                all[k] = __shfl_sync(~0u, v[h][k % 4], (int)(threadIdx.x % 32 / 4 * 4) + k / 4);
            for (int o = 0; o < 2; o++)
                octet_of<P>(&x[h][o], [&](int k) { return all[k / 2 * 4 + 2 * o + k % 2]; });
        }
    }
};

template <int P, int NT> struct right_fragments {
    const float *all;

    explicit right_fragments(const float *mine) : all(mine - threadIdx.x % 32 * 4) {}
};

template <int P, int NT> static inline right_fragments<P, NT> rounded_fragments(const float *mine)
{
    return right_fragments<P, NT>(mine);
}

template <int P> static inline void              products_begin() {}
template <int P> static inline void              products_end() {}
template <int P, int PENDING> static inline void products_wait() {}
template <int P> static inline void              products_read(left_fragment<P> *, int) {}

template <int P, int NT>
static inline void multiply_fragments(const left_fragment<P> &a, const right_fragments<P, NT> &b, float (*acc)[4])
{
    for (int j = 0; j < NT * 2; j++) {
        const float  *column = b.all + j / 2 * FRAGMENT + (threadIdx.x % 4 * 2 + j % 2) * GROUP;
        octet_numbers y;
        for (int o = 0; o < 2; o++) {
            octet_of<P>(&y, [&](int k) { return column[k / 2 * 4 + 2 * o + k % 2]; });
            for (int h = 0; h < 2; h++) {
                float *sum = &acc[j / 2][2 * h + j % 2];
                *sum = products(*sum, a.x[h][o].big, y.big);
            }
        }
    }
}

#else

template <int P> struct left_fragment {
    float    octet[2][4];
    unsigned pair[4];

    __device__ left_fragment() {}
    __device__ explicit left_fragment(const float (*v)[4])
    {
        LKI_UNROLL
        for (int i = 0; i < 8; i++) {
            const int h = i / 4, k = i % 4;
            if (P == LKI_PRECISION_TF32) octet[k / 2][k % 2 * 2 + h] = v[h][k];
            else if (k % 2) pair[k / 2 * 2 + h] = bf16_pair(v[h][k - 1], v[h][k]);
        }
    }
};

/* Products of warpgroups are submitted between begin and end, in groups; they are done when at most PENDING such groups are still
 * waited for. Until then no code changes their factors or reads their sums. products_read(): keeps these factors alive until this
 * point, after waiting. */
template <int P> __device__ inline void products_begin()
{
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    if (LKI_WARPGROUPS(P, FRAGMENT_WIDE)) asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#endif
}
template <int P> __device__ inline void products_end()
{
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    if (LKI_WARPGROUPS(P, FRAGMENT_WIDE)) asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
#endif
}
template <int P, int PENDING> __device__ inline void products_wait()
{
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    if (LKI_WARPGROUPS(P, FRAGMENT_WIDE)) asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
#endif
}
template <int P> __device__ inline void products_read(left_fragment<P> *a, int count)
{
    LKI_UNROLL
    for (int i = 0; i < count * 8 && LKI_WARPGROUPS(P, FRAGMENT_WIDE); i++)
        asm volatile("" : "+f"(a[i / 8].octet[i / 4 % 2][i % 4]));
}

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
/* The descriptor of weights in shared memory: begin, distance to the other half of k, and distance to the next columns, in units of
 * 16 bytes. */
template <int NT> __device__ inline uint64_t weights_at(const float *p)
{
    const unsigned at = (unsigned)__cvta_generic_to_shared(p) >> 4;
    return at | (uint64_t)(NT * 8) << 16 | (uint64_t)8 << 32;
}
template <int NT> __device__ inline void multiply_octet_of_four(float (*d)[4], const float *a, uint64_t b)
{
    static_assert(NT == 12 || NT == FRAGMENT_WIDE, "as many columns as are written here");
#define LKI_A "r"(__float_as_uint(a[0])), "r"(__float_as_uint(a[1])), "r"(__float_as_uint(a[2])), "r"(__float_as_uint(a[3])), "l"(b)
#define LKI_D(i) "+f"(d[i][0]), "+f"(d[i][1]), "+f"(d[i][2]), "+f"(d[i][3])
    if constexpr (NT == 12)
        asm volatile(
            "{ .reg .pred add; setp.eq.u32 add, 0, 0;\n"
            "wgmma.mma_async.sync.aligned.m64n96k8.f32.tf32.tf32 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, "
            "%13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, "
            "%35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47}, "
            "{%48, %49, %50, %51}, %52, add, 1, 1; }"
            : LKI_D(0), LKI_D(1), LKI_D(2), LKI_D(3), LKI_D(4), LKI_D(5), LKI_D(6), LKI_D(7), LKI_D(8), LKI_D(9), LKI_D(10),
              LKI_D(11)
            : LKI_A);
    else
        asm volatile("{ .reg .pred add; setp.eq.u32 add, 0, 0;\n"
                     "wgmma.mma_async.sync.aligned.m64n32k8.f32.tf32.tf32 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, "
                     "%13, %14, %15}, "
                     "{%16, %17, %18, %19}, %20, add, 1, 1; }"
                     : LKI_D(0), LKI_D(1), LKI_D(2), LKI_D(3)
                     : LKI_A);
#undef LKI_A
#undef LKI_D
}
#endif

template <int P, int NT> struct right_fragments {
    float    v[NT][4];
    unsigned pair[NT][2];
    uint64_t where;

    __device__ explicit right_fragments(const float *mine)
    {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
        if (LKI_WARPGROUPS(P, NT)) where = weights_at<NT>(mine);
#endif
        LKI_UNROLL
        for (int j = 0; j < NT && !LKI_WARPGROUPS(P, NT); j++) {
            load_quad(mine + j * FRAGMENT, v[j]);
            if (P == LKI_PRECISION_BF16) pair[j][0] = bf16_pair(v[j][0], v[j][1]), pair[j][1] = bf16_pair(v[j][2], v[j][3]);
        }
    }
};

/* Of weights that are stored as copied, not rounded. */
template <int P, int NT> __device__ inline right_fragments<P, NT> rounded_fragments(const float *mine)
{
    right_fragments<P, NT> b(mine);
    LKI_UNROLL
    for (int i = 0; i < NT * 4; i++)
        b.v[i / 4][i % 4] = as_factor<P>(b.v[i / 4][i % 4]);
    return b;
}

/* acc += a * b over a group. */
template <int P, int NT>
__device__ inline void multiply_fragments(const left_fragment<P> &a, const right_fragments<P, NT> &b, float (*acc)[4])
{
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    if constexpr (LKI_WARPGROUPS(P, NT)) {
        multiply_octet_of_four<NT>(acc, a.octet[0], b.where);
        multiply_octet_of_four<NT>(acc, a.octet[1], b.where + NT * FRAGMENT / 8); /* its second half */
    }
#endif
    LKI_UNROLL
    for (int q = 0; q < (P == LKI_PRECISION_TF32 ? 2 : 1) * NT && !LKI_WARPGROUPS(P, NT); q++) {
        if (P == LKI_PRECISION_TF32) mma_tf32(acc[q % NT], a.octet[q / NT], b.v[q % NT] + q / NT * 2);
        else mma_bf16_group(acc[q], a.pair, b.pair[q]);
    }
}

#endif

/* How work is divided. A set is NT mma of columns; a block has the weights of some sets, blocks side by side those of others. A
 * unit is what four warps do at a time: a tile of rows and a set. Units of a tile are consecutive. */
struct fragment_plan {
    int      rows, groups, sets; /* of columns that a block has */
    unsigned tiles, columns;     /* of rows; blocks side by side */
    divisor  by_groups, by_sets; /* quads of k, and of columns */

    template <int NT> __host__ __device__ int    set_floats() const { return groups * (FRAGMENT_TAPS * NT * FRAGMENT); }
    template <int NT> __host__ __device__ size_t bytes() const { return (size_t)sets * set_floats<NT>() * sizeof(float); }
};

template <int NT> struct fragment_unit {
    unsigned tile;
    int      set;

    __device__                 fragment_unit(const fragment_plan &p, unsigned n) : tile(n / p.sets), set((int)(n % p.sets)) {}
    __device__ static unsigned begin(const fragment_plan &p) /* the same in all lanes, and the compiler knows it */
    {
        return blockIdx.x / p.columns * (blockDim.x / 128) + __shfl_sync(~0u, threadIdx.x / 128, 0);
    }
    __device__ static unsigned step(const fragment_plan &p) { return gridDim.x / p.columns * (blockDim.x / 128); }
    __device__ static unsigned end(const fragment_plan &p) { return p.tiles * p.sets; }

    /* The thread's two rows, and the jth of its 2 * NT channels. */
    __device__ int row(int h) const
    {
        return (int)tile * FRAGMENT_ROWS + (int)threadIdx.x % 128 / 32 * 16 + 8 * h + (int)threadIdx.x % 32 / 4;
    }
    __device__ int channel(const fragment_plan &p, int j) const
    {
        return (int)(blockIdx.x % p.columns * p.sets + set) * (8 * NT) + channel_of<NT>(j / 2, (int)threadIdx.x % 4 * 2 + j % 2);
    }
    /* Where the weights of its first group and tap begin: those of this lane, or for warpgroups all. */
    template <int P> __device__ const float *weights(const fragment_plan &p, const float *all) const
    {
        return all + (set * p.set_floats<NT>() + (LKI_WARPGROUPS(P, NT) ? 0 : (int)threadIdx.x % 32 * 4));
    }
};

/* Weights [tap][a][b]; the caller decides which of the two is summed over. */
struct fragment_weights {
    const float *data;
    int          A, B; /* B is a multiple of 4 */
    bool         wide; /* data is aligned */

    __device__ void load(int tap, int a, int b, float *four) const
    {
        const float *p = data + ((int64_t)(tap * A + a) * B + b);
        if (a >= A || b >= B) fill_quad(0, four);
        else if (wide) load_quad(p, four);
        else
            for (int j = 0; j < 4; j++)
                four[j] = p[j];
    }
};

/* The index of weight (k, n) among those of its group, tap and set. */
template <int P, int NT> __device__ inline int weight_place(int k, int n)
{
    const int mma = NT > 1 ? n / 16 * 2 + n % 4 / 2 : 0, column = NT > 1 ? n % 16 / 4 * 2 + n % 2 : n;
    return LKI_WARPGROUPS(P, NT) ? (k % 4 * (8 * NT) + mma * 8 + column) * 4 + k / 4 : mma * FRAGMENT + column * GROUP + k;
}

/* Makes this thread's writes to shared memory visible to tensor cores after the next barrier: they read it through another path. */
__device__ inline void show_tensor_cores()
{
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

/* From here on a warpgroup's threads have at most COUNT registers, so that others can have more. All warpgroups of a block call one
 * or the other. */
template <int COUNT> __device__ inline void fewer_registers()
{
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(COUNT));
#endif
}
template <int COUNT> __device__ inline void more_registers()
{
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(COUNT));
#endif
}

/* Copy a block's weights to shared memory; all threads wait. BY_K: b is summed over, else a. */
template <int P, int NT, bool BY_K> __device__ inline void lay_weights(const fragment_plan &p, const fragment_weights &w, float *to)
{
    const int      ns = p.sets * (8 * NT), first = (int)(blockIdx.x % p.columns) * ns, lines = BY_K ? ns : p.groups * GROUP;
    const divisor &by_quads = BY_K ? p.by_groups : p.by_sets;
    for (int i = (int)threadIdx.x; i < lines * (int)by_quads.by; i += (int)blockDim.x) {
        const int line = by_quads(i), q = (i - line * (int)by_quads.by) * 4;
        float     v[FRAGMENT_TAPS][4];
        LKI_UNROLL
        for (int tap = 0; tap < FRAGMENT_TAPS; tap++)
            w.load(tap, BY_K ? first + line : line, BY_K ? q : first + q, v[tap]);
        LKI_UNROLL
        for (int j = 0; j < 4; j++) {
            const int k = BY_K ? q + j : line, n = BY_K ? line : q + j;
            float    *place = to + (n / (8 * NT) * p.set_floats<NT>() + k / GROUP * (FRAGMENT_TAPS * NT * FRAGMENT) +
                                 weight_place<P, NT>(k % GROUP, n % (8 * NT)));
            LKI_UNROLL
            for (int tap = 0; tap < FRAGMENT_TAPS; tap++, place += NT * FRAGMENT) {
                if (!BY_K || LKI_WARPGROUPS(P, NT)) *place = as_factor<P>(v[tap][j]);
                else if (!j) /* the four lie side by side */
                    *(float4 *)place = make_float4(as_factor<P>(v[tap][0]), as_factor<P>(v[tap][1]), as_factor<P>(v[tap][2]),
                                                   as_factor<P>(v[tap][3]));
            }
        }
    }
    show_tensor_cores();
    __syncthreads();
}

/* false: weights do not fit. */
template <int NT> static bool fragment_plan_of(fragment_plan *p, int64_t rows, int64_t k, int64_t channels)
{
    const int64_t sets = lki_ceil_div(channels, 8 * NT);
    *p = fragment_plan{(int)rows, (int)lki_ceil_div(k, GROUP), 1, (unsigned)lki_ceil_div(rows, FRAGMENT_ROWS), 1, {}, {}};
    while (NT == FRAGMENT_WIDE && p->sets < sets && (p->sets + 1) * (int64_t)p->set_floats<NT>() * 4 <= FRAGMENT_MOST_BYTES)
        p->sets++;
    p->columns = (unsigned)lki_ceil_div(sets, p->sets);
    p->by_groups = divisor_of(p->groups * GROUP / 4), p->by_sets = divisor_of(p->sets * 8 * NT / 4);
    return rows <= INT32_MAX - FRAGMENT_ROWS && k <= 4096 && p->bytes<NT>() <= FRAGMENT_MOST_BYTES;
}

/* As many blocks as the multiprocessors can hold, a multiple of those side by side. */
template <int NT> static unsigned fragment_blocks(const fragment_plan &p, int warps)
{
    const int64_t most = lki_max(1, (NT == FRAGMENT_WIDE ? 1 : 2) * PROCESSORS / p.columns);
    return (unsigned)lki_min(lki_ceil_div((int64_t)p.tiles * p.sets, warps / 4), most) * p.columns;
}

/* True if there are enough rows for wide units. */
static inline bool is_for_wide_units(const fragment_plan &p) { return (int64_t)p.tiles * p.sets * p.columns >= PROCESSORS * 2; }

/* fragment_x.cu: the data gradient of conv2d through a pool. False: the shape is not supported, and nothing was done. */
bool fragment_pool_x(const lki_args *g, const conv &v, const lki_view *d, const lki_view *w, const pool_entries &entries);

/* fragment_w.cu: the gradient for its weights, and for its bias. */
bool fragment_pool_w(const lki_args *g, const conv &v, const pool_entries &entries);

/* fragment_conv.cu: conv2d with bias, relu and a pool. */
bool fragment_conv2d(const lki_args *g, const conv &v);

} // namespace lki_gpu

#endif
