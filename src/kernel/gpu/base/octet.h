/* Products of octets whose factors are in registers (mma.h says how they are rounded): the sums of one product can be factors of
 * the next without rearrangement. For precisions that round factors.
 *
 * Of the left factor a thread has rows lane/4 and the eighth after it, of the right factor column lane/4; of both, k = lane%4 and
 * the fourth after it. Of the sums it has the same rows, columns 2*(lane%4) and the next, row by row. So a thread has the same rows
 * of sums as of left factors, and two columns of its sums can be the two k of a left factor. */
#ifndef LKI_KERNEL_GPU_BASE_OCTET_H
#define LKI_KERNEL_GPU_BASE_OCTET_H

#include "kernel/gpu/base/mma.h"

namespace lki_gpu
{

#ifdef LKI_SIM

template <int P> static inline float as_factor(float x) { return x; } /* products round their factors here */

/* The values of all threads of the warp. */
template <int N> struct warp_numbers {
    float of[32][N];

    explicit warp_numbers(const float *mine)
    {
        char *slots = (char *)lki_sim::exchange();
        memcpy(slots + 16 * lki_sim_lane(), mine, sizeof of[0]);
        __syncwarp();
        for (int i = 0; i < 32; i++)
            memcpy(of[i], slots + 16 * i, sizeof of[0]);
        __syncwarp();
    }
};

template <int P> struct octet_left {
    octet_numbers x[2]; /* by row */

    explicit octet_left(const float (*v)[2])
    {
        const warp_numbers<4> all(v[0]);
        for (int h = 0; h < 2; h++)
            octet_of<P>(&x[h], [&](int k) { return all.of[lki_sim_lane() / 4 * 4 + k % 4][2 * h + k / 4]; });
    }
};

template <int P> struct octet_right {
    octet_numbers y[2]; /* by column */

    octet_right() {}
    explicit octet_right(const float *v)
    {
        const warp_numbers<2> all(v);
        for (int j = 0; j < 2; j++)
            octet_of<P>(&y[j], [&](int k) { return all.of[(lki_sim_lane() % 4 * 2 + j) * 4 + k % 4][k / 4]; });
    }
};

template <int P> static inline void add_octet(const octet_left<P> &a, const octet_right<P> &b, float *sum)
{
    for (int i = 0; i < 4; i++)
        sum[i] = products(sum[i], a.x[i / 2].big, b.y[i % 2].big);
}

#else

/* Rounded as far as is possible with the value still a float. */
template <int P> __device__ inline float as_factor(float x) { return P == LKI_PRECISION_TF32 ? tf32(x) : x; }

/* Convert factors, [row][k] and [k]. */
template <int P> struct octet_left {
    float    x[4];
    unsigned pair[2];

    __device__ explicit octet_left(const float (*v)[2])
    {
        LKI_UNROLL
        for (int i = 0; i < 4; i++) {
            if (P == LKI_PRECISION_TF32) x[i] = v[i % 2][i / 2];
            else if (i < 2) pair[i] = bf16_pair(v[i][0], v[i][1]);
        }
    }
};

template <int P> struct octet_right {
    float    y[2];
    unsigned pair;

    __device__ octet_right() {}
    __device__ explicit octet_right(const float *v)
    {
        if (P == LKI_PRECISION_TF32) y[0] = v[0], y[1] = v[1];
        else pair = bf16_pair(v[0], v[1]);
    }
};

template <int P> __device__ inline void add_octet(const octet_left<P> &a, const octet_right<P> &b, float *sum)
{
    if (P == LKI_PRECISION_TF32) mma_tf32(sum, a.x, b.y);
    else mma_bf16(sum, a.pair, b.pair);
}

#endif

} // namespace lki_gpu

#endif
