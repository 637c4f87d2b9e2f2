/* Windows over images [height, width, channels] for kernels with one thread per element, channels fastest: sizes by value, the
 * position of an element, and which outputs read a cell. */
#ifndef LKI_KERNEL_GPU_WINDOW_WINDOW_H
#define LKI_KERNEL_GPU_WINDOW_WINDOW_H

#include "kernel/gpu/base/index.h"

namespace lki_gpu
{

/* One axis: output o reads the cells o*stride - pad + k*dilation, k < size, that are inside. */
struct window_axis {
    int                in, out, size, stride, pad, dilation;
    division<uint32_t> by_stride, by_dilation;

    __device__ int first(int o) const { return o * stride - pad; }

    /* Taps from..to-1 of output o are inside. */
    __device__ int from(int o) const
    {
        const int outside = -first(o);
        return outside <= 0 ? 0 : (int)by_dilation((uint32_t)(outside + dilation - 1));
    }
    __device__ int to(int o) const
    {
        const int inside = in - first(o);
        return inside <= 0 ? 0 : least(size, (int)by_dilation((uint32_t)(inside + dilation - 1)));
    }

    /* Outputs low..high-1 may read cell i: with dilation 1 all of them do. */
    __device__ int low(int i) const
    {
        const int before = i + pad - (size - 1) * dilation;
        return before <= 0 ? 0 : (int)by_stride((uint32_t)(before + stride - 1));
    }
    __device__ int high(int i) const
    {
        const int way = i + pad;
        return way < 0 ? 0 : least(out, (int)by_stride((uint32_t)way) + 1);
    }

    /* Which tap of an output low <= o < high reads cell i; -1: none. */
    __device__ int tap(int o, int i) const
    {
        const int way = i - first(o), k = (int)by_dilation((uint32_t)way);
        return k * dilation == way ? k : -1;
    }
};

/* The position of element i in an array of images. */
template <typename I> struct image_place {
    I   image;
    int row, column, channel;
};

/* Sizes of an array of images, for converting indices to positions: I as in index.h. */
template <typename I> struct image_sizes {
    division<I> rows, columns, channels;

    __device__ image_place<I> operator()(I i) const
    {
        image_place<I> p;
        p.channel = (int)split(i, channels);
        p.column = (int)split(i, columns);
        p.row = (int)split(i, rows);
        p.image = i;
        return p;
    }
};

template <typename I> static inline image_sizes<I> sizes_of_image(const lk_shape *s)
{
    const int64_t *dim = &s->dim[s->rank - 3];
    return {division<I>(dim[0]), division<I>(dim[1]), division<I>(dim[2])};
}

/* x is what the window reads, y its result, or their gradients. Pooling passes dilation 1, whatever the attribute says. */
static inline window_axis axis_of_window(const lki_window *w, int axis, const lk_shape *x, const lk_shape *y, int64_t dilation)
{
    const int64_t in = x->dim[x->rank - 3 + axis], out = y->dim[y->rank - 3 + axis];
    return {(int)in,
            (int)out,
            (int)w->size[axis],
            (int)w->stride[axis],
            (int)w->pad[axis],
            (int)dilation,
            division<uint32_t>(w->stride[axis]),
            division<uint32_t>(dilation)};
}

} // namespace lki_gpu

#endif
