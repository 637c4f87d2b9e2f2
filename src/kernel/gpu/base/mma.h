/* Products of small tiles on tensor cores. Each function that is written in the card's instructions has a plain twin for the
 * simulator.
 *
 * The unit is an octet: eight k. A warp multiplies 16*MT rows by 8*NT columns of it. How factors are rounded (kernel.h,
 * lki_precision):
 *
 *     F32           x = big + small; big is x rounded to TF32 (10 bits after the point), small is the rest, of which the tensor
 *                   core reads the first 11 bits: together 22 to 24 bits. The octet's sum is small*big, then big*small, then
 *                   big*big, from 0. It is added to the sum so far by a plain addition, because sums inside a tensor core are
 *                   truncated, not rounded, and a long chain of them would drift towards zero.
 *     TF32, BF16    one product per octet, summed inside the tensor core.
 *     CAREFUL       like F32, for factors that are not finite: for these big is 0 and small the factor. So inf * x is inf, 0 * inf
 *                   is NaN, and only inf * inf, which should be inf, is NaN. F32 gives NaN if a factor is not finite or within 1
 *                   part in 4096 of overflow; a kernel that finds a NaN computes the sum again with CAREFUL (tile_block.h). */
#ifndef LKI_KERNEL_GPU_BASE_MMA_H
#define LKI_KERNEL_GPU_BASE_MMA_H

#include "kernel/gpu/base/copies.h"

#ifdef LKI_SIM
#define LKI_UNROLL
#define LKI_ROLLED
#define LKI_FIXED const
#else
#define LKI_UNROLL _Pragma("unroll")
#define LKI_ROLLED _Pragma("unroll 1")
#define LKI_FIXED const __grid_constant__ /* an argument that is read in place, not copied by each thread */
#endif

namespace lki_gpu
{

enum { OCTET = 8, PRECISION_CAREFUL = LKI_PRECISIONS };

/* To the nearest number with 10 bits after the point, halves away from zero. For factors that are not finite, or would become
 * infinite, the result is undefined: see split(). */
__device__ inline float rounded(float x) { return __uint_as_float((__float_as_uint(x) + 0x1000u) & 0xffffe000u); }

/* Tensor cores read the upper 19 bits of a TF32 factor: x truncated to 10 bits after the point. So x is increased first, by 0.34 to
 * 0.69 of the last of these bits, on average by half of it. That takes one instruction, and does not change numbers of 10 bits,
 * infinities and NaN (an addition of integers could turn the bits of a NaN into a number). */
__device__ inline float tf32(float x) { return x * 0x1.0016p0f; }

template <int P> __device__ inline void split(float x, float *big, float *small)
{
    *big = P == PRECISION_CAREFUL && !(fabsf(x) < 0x1.ffep127f) ? 0 : rounded(x);
    *small = x - *big;
}

#ifdef LKI_SIM

static inline float first_bits(float x) { return __uint_as_float(__float_as_uint(x) & 0xffffe000u); }

static inline float bf16(float x)
{
    const unsigned u = __float_as_uint(x);
    if (!(fabsf(x) < INFINITY)) return x;
    return __uint_as_float((u + 0x7fffu + (u >> 16 & 1)) & 0xffff0000u);
}

/* To f32, truncated. */
static inline float cut_off(double x)
{
    const float f = (float)x;
    return fabsf(f) < INFINITY && fabs((double)f) > fabs(x) ? __uint_as_float(__float_as_uint(f) - 1) : f;
}

struct octet_numbers {
    double big[OCTET], small[OCTET];
};

template <int P, class S> static inline void octet_of(octet_numbers *o, const S &s)
{
    for (int k = 0; k < OCTET; k++) {
        const float x = s(k);
        float       big = P == LKI_PRECISION_BF16 ? bf16(x) : tf32(x), small = 0;
        if (P == LKI_PRECISION_F32 || P == PRECISION_CAREFUL) split<P>(x, &big, &small);
        o->big[k] = first_bits(big);
        o->small[k] = first_bits(small);
    }
}

static inline float products(float sum, const double *a, const double *b)
{
    double s = sum;
    for (int k = 0; k < OCTET; k++)
        s += a[k] * b[k];
    return cut_off(s);
}

/* acc += a * b over an octet. a(i, h, k) returns the factor of this thread's row of the 16 rows i: row lane/4, with h = 1 the
 * eighth after it; b(column, k) that of any column of the warp. Of each 16x8 results a thread has those in its rows, columns
 * 2*(lane%4) and the next: acc[][][0..3] row by row. */
template <int P, int MT, int NT, class A, class B> static inline void multiply_own(const A &a, const B &b, float (*acc)[NT][4])
{
    const int     lane = (int)(threadIdx.x % 32);
    octet_numbers x, y[NT * 2];
    for (int j = 0; j < NT * 2; j++)
        octet_of<P>(&y[j], [&](int k) { return b(j / 2 * 8 + lane % 4 * 2 + j % 2, k); });
    for (int i = 0; i < MT * 2; i++) {
        octet_of<P>(&x, [&](int k) { return a(i / 2, i % 2, k); });
        for (int j = 0; j < NT * 2; j++) {
            float *sum = &acc[i / 2][j / 2][i % 2 * 2 + j % 2];
            if (P == LKI_PRECISION_F32 || P == PRECISION_CAREFUL) {
                const float small = products(products(0, x.small, y[j].big), x.big, y[j].small);
                *sum = *sum + products(small, x.big, y[j].big);
            } else *sum = products(*sum, x.big, y[j].big);
        }
    }
}

#else

__device__ inline void mma_tf32(float *d, const float *a, const float *b)
{
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(__float_as_uint(a[0])), "r"(__float_as_uint(a[1])), "r"(__float_as_uint(a[2])), "r"(__float_as_uint(a[3])),
          "r"(__float_as_uint(b[0])), "r"(__float_as_uint(b[1])));
}

/* Which k are in a register's two halves does not matter, as long as both operands agree: here those of TF32's registers. */
__device__ inline void mma_bf16(float *d, const unsigned *a, unsigned b)
{
    asm("mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(b));
}

__device__ inline unsigned bf16_pair(float low, float high)
{
    unsigned u;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(u) : "f"(high), "f"(low));
    return u;
}

template <int P, int NT, class B> struct right_factors {
    float    big[NT][2], small[NT][2];
    unsigned pair[NT];

    __device__ right_factors(const B &b, int r, int c)
    {
        LKI_UNROLL
        for (int j = 0; j < NT; j++) {
            const float x = b(8 * j + r, c), y = b(8 * j + r, c + 4);
            if (P == LKI_PRECISION_BF16) pair[j] = bf16_pair(x, y);
            else if (P == LKI_PRECISION_TF32) big[j][0] = tf32(x), big[j][1] = tf32(y);
            else split<P>(x, &big[j][0], &small[j][0]), split<P>(y, &big[j][1], &small[j][1]);
        }
    }
};

template <int P, int MT, int NT, class A, class B> __device__ inline void multiply_own(const A &a, const B &b, float (*acc)[NT][4])
{
    const int                     lane = threadIdx.x % 32, r = lane / 4, c = lane % 4;
    const right_factors<P, NT, B> y(b, r, c);
    LKI_UNROLL
    for (int i = 0; i < MT; i++) {
        float x[4], big[4], small[4];
        LKI_UNROLL
        for (int h = 0; h < 4; h++)
            x[h] = a(i, h % 2, c + h / 2 * 4);
        if (P == LKI_PRECISION_BF16) {
            const unsigned pair[2] = {bf16_pair(x[0], x[2]), bf16_pair(x[1], x[3])};
            LKI_UNROLL
            for (int j = 0; j < NT; j++)
                mma_bf16(acc[i][j], pair, y.pair[j]);
        } else if (P == LKI_PRECISION_TF32) {
            LKI_UNROLL
            for (int h = 0; h < 4; h++)
                big[h] = tf32(x[h]);
            LKI_UNROLL
            for (int j = 0; j < NT; j++)
                mma_tf32(acc[i][j], big, y.big[j]);
        } else {
            float t[NT][4];
            LKI_UNROLL
            for (int h = 0; h < 4; h++)
                split<P>(x[h], &big[h], &small[h]);
            LKI_UNROLL
            for (int j = 0; j < NT;
                 j++) { /* consecutive products are for different columns, so that none waits for the one before it */
                t[j][0] = t[j][1] = t[j][2] = t[j][3] = 0;
                mma_tf32(t[j], small, y.big[j]);
            }
            LKI_UNROLL
            for (int j = 0; j < NT; j++)
                mma_tf32(t[j], big, y.small[j]);
            LKI_UNROLL
            for (int j = 0; j < NT; j++)
                mma_tf32(t[j], big, y.big[j]);
            LKI_UNROLL
            for (int j = 0; j < NT; j++) {
                LKI_UNROLL
                for (int h = 0; h < 4; h++)
                    acc[i][j][h] = acc[i][j][h] + t[j][h];
            }
        }
    }
}

#endif

/* The right factors of an octet, b(column, k) as in multiply_own(), kept for many products: */
#ifdef LKI_SIM

template <int P, int NT> struct held_factors {
    octet_numbers y[NT * 2];

    template <class B> void hold(const B &b)
    {
        for (int j = 0; j < NT * 2; j++)
            octet_of<P>(&y[j], [&](int k) { return b(j / 2 * 8 + (int)(threadIdx.x % 4) * 2 + j % 2, k); });
    }
};

/* acc += a * b, or with FIRST acc = a * b. */
template <int P, bool FIRST, int MT, int NT, class A>
static inline void multiply_held(const A &a, const held_factors<P, NT> &b, float (*acc)[NT][4])
{
    octet_numbers x;
    for (int i = 0; i < MT * 2; i++) {
        octet_of<P>(&x, [&](int k) { return a(i / 2, i % 2, k); });
        for (int j = 0; j < NT * 2; j++) {
            float *sum = &acc[i / 2][j / 2][i % 2 * 2 + j % 2];
            if (FIRST) *sum = 0;
            if (P == LKI_PRECISION_F32) {
                const float small = products(products(0, x.small, b.y[j].big), x.big, b.y[j].small),
                            all = products(small, x.big, b.y[j].big);
                *sum = FIRST ? all : *sum + all;
            } else *sum = products(*sum, x.big, b.y[j].big);
        }
    }
}

#else

template <int P, int NT> struct held_factors {
    float    big[NT][2], small[NT][2];
    unsigned pair[NT];

    template <class B> __device__ void hold(const B &b)
    {
        const right_factors<P, NT, B> y(b, threadIdx.x % 32 / 4, threadIdx.x % 4);
        LKI_UNROLL
        for (int j = 0; j < NT; j++) {
            if (P == LKI_PRECISION_BF16) pair[j] = y.pair[j];
            LKI_UNROLL
            for (int h = 0; h < 2 && P != LKI_PRECISION_BF16; h++) {
                big[j][h] = y.big[j][h];
                if (P == LKI_PRECISION_F32) small[j][h] = y.small[j][h];
            }
        }
    }
};

template <int P, bool FIRST, int MT, int NT, class A>
__device__ inline void multiply_held(const A &a, const held_factors<P, NT> &b, float (*acc)[NT][4])
{
    const int c = threadIdx.x % 4;
    LKI_UNROLL
    for (int i = 0; i < MT; i++) {
        float x[4], big[4], small[4], t[NT][4];
        LKI_UNROLL
        for (int h = 0; h < 4; h++) {
            x[h] = a(i, h % 2, c + h / 2 * 4);
            if (P == LKI_PRECISION_F32) split<P>(x[h], &big[h], &small[h]);
            else big[h] = tf32(x[h]);
        }
        const unsigned pair[2] = {bf16_pair(x[0], x[2]), bf16_pair(x[1], x[3])};
        LKI_UNROLL
        for (int j = 0; j < NT; j++) {
            LKI_UNROLL
            for (int h = 0; h < 4; h++)
                t[j][h] = P == LKI_PRECISION_F32 || FIRST ? 0 : acc[i][j][h];
            if (P == LKI_PRECISION_F32) mma_tf32(t[j], small, b.big[j]);
        }
        LKI_UNROLL
        for (int j = 0; j < NT && P == LKI_PRECISION_F32; j++)
            mma_tf32(t[j], big, b.small[j]);
        LKI_UNROLL
        for (int j = 0; j < NT; j++) {
            if (P == LKI_PRECISION_BF16) mma_bf16(t[j], pair, b.pair[j]);
            else mma_tf32(t[j], big, b.big[j]);
        }
        LKI_UNROLL
        for (int j = 0; j < NT; j++) {
            LKI_UNROLL
            for (int h = 0; h < 4; h++)
                acc[i][j][h] = P == LKI_PRECISION_F32 && !FIRST ? acc[i][j][h] + t[j][h] : t[j][h];
        }
    }
}

#endif

/* The same with a(row, k) for any row of the warp. */
template <int P, int MT, int NT, class A, class B>
__device__ inline void multiply_octet(const A &a, const B &b, float (*acc)[NT][4])
{
    const int first = (int)(threadIdx.x % 32 / 4);
    multiply_own<P, MT, NT>([&](int i, int h, int k) { return a(16 * i + first + h * 8, k); }, b, acc);
}

} // namespace lki_gpu

#endif
