/* Products of groups: sixteen k at a time on tensor cores (mma.h says how factors are rounded). A group is two octets: k of 4c and
 * 4c+1, and those of 4c+2 and 4c+3, so that a thread, which has column c of both, reads four neighbours.
 *
 *     F32           small*big, then big*small, of each octet, then big*big of each, from 0; and a plain addition to the sum so far.
 *                   The small products are first, so that a group loses little more than an octet when the tensor core truncates.
 *     TF32, BF16    summed inside the tensor core: octets one after the other, with BF16 whole groups. */
#ifndef LKI_KERNEL_GPU_BASE_K_GROUP_H
#define LKI_KERNEL_GPU_BASE_K_GROUP_H

#include "kernel/gpu/base/mma.h"

namespace lki_gpu
{

enum { GROUP = 16 };

#ifdef LKI_SIM

/* acc += a * b over a group. A thread has 2*MT rows, and NT columns for each of the two columns of an mma: a.row(n, lane/4) and
 * b.row(n, column) say which; a.at(row, k) and b.at(column, k) return factors. */
template <int P, int MT, int NT, class A, class B> static inline void multiply_group(const A &a, const B &b, float (*acc)[NT][4])
{
    const int     lane = (int)(threadIdx.x % 32);
    octet_numbers x[2], y[NT * 2][2];
    for (int q = 0; q < NT * 4; q++) {
        const int column = b.row(q / 4, lane % 4 * 2 + q / 2 % 2), o = q % 2;
        octet_of<P>(&y[q / 2][o], [&](int k) { return b.at(column, k / 2 * 4 + 2 * o + k % 2); });
    }
    for (int i = 0; i < MT * 2; i++) {
        const int row = a.row(i, lane / 4);
        for (int o = 0; o < 2; o++)
            octet_of<P>(&x[o], [&](int k) { return a.at(row, k / 2 * 4 + 2 * o + k % 2); });
        for (int j = 0; j < NT * 2; j++) {
            float *sum = &acc[i / 2][j / 2][i % 2 * 2 + j % 2], t = 0;
            if (P == LKI_PRECISION_F32 || P == PRECISION_CAREFUL) {
                for (int o = 0; o < 2; o++)
                    t = products(products(t, x[o].small, y[j][o].big), x[o].big, y[j][o].small);
                for (int o = 0; o < 2; o++)
                    t = products(t, x[o].big, y[j][o].big);
                *sum = *sum + t;
            } else
                for (int o = 0; o < 2; o++)
                    *sum = products(*sum, x[o].big, y[j][o].big);
        }
    }
}

#else

__device__ inline void mma_bf16_group(float *d, const unsigned *a, const unsigned *b)
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/* Factors of a group in the order of mma's registers: four k of each column, or of row lane/4 and the eighth row after it. */
template <int P, int NT> struct group_right {
    float    big[NT][2][2], small[NT][2][2]; /* by octet */
    unsigned pair[NT][2];

    __device__ explicit group_right(const float (*v)[4])
    {
        LKI_UNROLL
        for (int j = 0; j < NT; j++) {
            LKI_UNROLL
            for (int k = 0; k < 4; k++) {
                if (P == LKI_PRECISION_BF16) {
                    if (k % 2) pair[j][k / 2] = bf16_pair(v[j][k - 1], v[j][k]);
                } else if (P == LKI_PRECISION_TF32) big[j][k / 2][k % 2] = tf32(v[j][k]);
                else split<P>(v[j][k], &big[j][k / 2][k % 2], &small[j][k / 2][k % 2]);
            }
        }
    }
};

template <int P> struct group_left {
    float    big[2][4], small[2][4];
    unsigned pair[4];

    __device__ explicit group_left(const float (*v)[4])
    {
        LKI_UNROLL
        for (int h = 0; h < 2; h++) {
            LKI_UNROLL
            for (int k = 0; k < 4; k++) {
                if (P == LKI_PRECISION_BF16) {
                    if (k % 2) pair[k / 2 * 2 + h] = bf16_pair(v[h][k - 1], v[h][k]);
                } else if (P == LKI_PRECISION_TF32) big[k / 2][k % 2 * 2 + h] = tf32(v[h][k]);
                else split<P>(v[h][k], &big[k / 2][k % 2 * 2 + h], &small[k / 2][k % 2 * 2 + h]);
            }
        }
    }
};

/* One row of mma tiles. Consecutive products are for different columns, so that none waits for the one before it. */
template <int P, int NT> __device__ inline void multiply_row(const group_left<P> &x, const group_right<P, NT> &y, float (*acc)[4])
{
    if (P == LKI_PRECISION_BF16) {
        LKI_UNROLL
        for (int j = 0; j < NT; j++)
            mma_bf16_group(acc[j], x.pair, y.pair[j]);
    } else if (P == LKI_PRECISION_TF32) {
        LKI_UNROLL
        for (int q = 0; q < 2 * NT; q++)
            mma_tf32(acc[q % NT], x.big[q / NT], y.big[q % NT][q / NT]);
    } else {
        float t[NT][4];
        LKI_UNROLL
        for (int j = 0; j < NT; j++)
            t[j][0] = t[j][1] = t[j][2] = t[j][3] = 0;
        LKI_UNROLL
        for (int q = 0; q < 4 * NT; q++) {
            const int o = q / (2 * NT), j = q % NT;
            if (q / NT % 2) mma_tf32(t[j], x.big[o], y.small[j][o]);
            else mma_tf32(t[j], x.small[o], y.big[j][o]);
        }
        LKI_UNROLL
        for (int q = 0; q < 2 * NT; q++)
            mma_tf32(t[q % NT], x.big[q / NT], y.big[q % NT][q / NT]);
        LKI_UNROLL
        for (int j = 0; j < NT; j++) {
            LKI_UNROLL
            for (int h = 0; h < 4; h++)
                acc[j][h] = acc[j][h] + t[j][h];
        }
    }
}

template <int P, int MT, int NT, class A, class B>
__device__ inline void multiply_group(const A &a, const B &b, float (*acc)[NT][4])
{
    float v[NT][4];
    b.template load<NT>(0, v);
    const group_right<P, NT> y(v);
    LKI_UNROLL
    for (int i = 0; i < MT; i += A::AT_ONCE / 2) {
        float u[A::AT_ONCE][4];
        a.template load<A::AT_ONCE>(2 * i, u);
        LKI_UNROLL
        for (int h = 0; h < A::AT_ONCE / 2; h++)
            multiply_row<P, NT>(group_left<P>(u + 2 * h), y, acc[i + h]);
    }
}

#endif

} // namespace lki_gpu

#endif
