/* Weight gradients of depthwise and grouped convolutions: parts, one of each image, and their sums. */
#ifndef LKI_KERNEL_GPU_WINDOW_IMAGE_PARTS_H
#define LKI_KERNEL_GPU_WINDOW_IMAGE_PARTS_H

#include "kernel/gpu/window/window.h"

namespace lki_gpu
{

/* Outputs from..to-1: their tap k is inside. */
__device__ static inline int first_output(const window_axis &a, int k)
{
    const int outside = a.pad - k * a.dilation;
    return outside <= 0 ? 0 : (int)a.by_stride((uint32_t)(outside + a.stride - 1));
}

__device__ static inline int last_output(const window_axis &a, int k)
{
    const int inside = a.in - 1 + a.pad - k * a.dilation;
    return inside < 0 ? 0 : least(a.out, (int)a.by_stride((uint32_t)inside) + 1);
}

template <typename T> struct image_sum {
    const T *parts;
    T       *dw;
    int64_t  weights;
    lanes    lane;

    __device__ void operator()(int64_t i) const
    {
        lane_tree<T> tree;
        T            total = 0;
        for (int s = 0; s < lane.count; s++) {
            T sum = 0;
            for (int64_t n = lane.bound[s]; n < lane.bound[s + 1]; n++)
                sum = sum + parts[n * weights + i];
            total = tree.push(s, sum);
        }
        dw[i] = total;
    }
};

static inline int64_t images_of(const lk_shape *x)
{
    int64_t n = 1;
    for (int d = 0; d < x->rank - 3; d++)
        n *= x->dim[d];
    return n;
}

/* Parts of all images, for the weight gradient. */
static inline size_t parts_scratch(const lki_args *a)
{
    return (size_t)(images_of(a->src[0].shape) * size_of(&a->dst[0]) * bytes_of(a->dst[0].dtype));
}

/* `parts`: scratch is indexed too. */
template <lki_kernel *narrow, lki_kernel *wide, bool parts> static void either(const lki_args *a)
{
    const bool small = fits32(size_of(&a->dst[0])) && fits32(size_of(&a->src[0])) && fits32(size_of(&a->src[1]));
    if (small && (!parts || fits32((int64_t)parts_scratch(a)))) narrow(a);
    else wide(a);
}

} // namespace lki_gpu

#endif
