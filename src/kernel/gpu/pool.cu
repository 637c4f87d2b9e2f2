/* Pooling: one thread per element of the result. A window at output (oh, ow) covers the cells (oh*stride - pad + kh, ow*stride -
 * pad + kw); those outside the image neither win nor count. Largest: the first of equal ones; NaN is larger than all, and the
 * first NaN stays.
 *
 * Sums run from +0: averages over kh, kw; the gradients over the windows that cover a cell, by output row, then column. */
#include "kernel/gpu/window.h"

using namespace lki_gpu;

namespace {

template <typename I> struct pool {
    window_axis    h, w;
    image_sizes<I> sizes; /* of the array the threads run over */
    I              IH, IW, OH, OW, C;

    __device__ I x_at(I image, int row, int column, int channel) const
    {
        return ((image * IH + (I)row) * IW + (I)column) * C + (I)channel;
    }
    __device__ I y_at(I image, int row, int column, int channel) const
    {
        return ((image * OH + (I)row) * OW + (I)column) * C + (I)channel;
    }
    __device__ int cells(int oh, int ow) const
    {
        const int rows = h.to(oh) - h.from(oh), columns = w.to(ow) - w.from(ow);
        return rows <= 0 || columns <= 0 ? 0 : rows * columns;
    }
};

template <typename I> pool<I> pool_of(const lki_args *a, const lki_view *x, const lki_view *y, const lki_view *over)
{
    const lki_window *win = &a->attr->window;
    const int64_t    *i = &x->shape->dim[x->shape->rank - 3], *o = &y->shape->dim[y->shape->rank - 3];
    return {axis_of_window(win, 0, x->shape, y->shape, 1),
            axis_of_window(win, 1, x->shape, y->shape, 1),
            sizes_of_image<I>(over->shape),
            (I)i[0],
            (I)i[1],
            (I)o[0],
            (I)o[1],
            (I)i[2]};
}

/* The cell each output names: u8, or i32 for large windows. */
struct cells {
    void           *data; /* NULL: not wanted */
    bool            wide;
    __device__ int  get(int64_t i) const { return wide ? ((const int32_t *)data)[i] : ((const uint8_t *)data)[i]; }
    __device__ void put(int64_t i, int k) const
    {
        if (wide) ((int32_t *)data)[i] = k;
        else ((uint8_t *)data)[i] = (uint8_t)k;
    }
};

cells cells_of(const lki_view *v) { return {v->data, v->dtype != LK_U8}; }

/* ---- largest ---- */

template <typename T, typename I> struct max_pooler {
    pool<I>  v;
    const T *x;
    T       *y;
    cells    cell;

    __device__ void operator()(int64_t i) const
    {
        const image_place<I> p = v.sizes((I)i);
        const int            ih = v.h.first(p.row), iw = v.w.first(p.column), h1 = v.h.to(p.row), w0 = v.w.from(p.column),
                  w1 = v.w.to(p.column);
        T   best = -(T)INFINITY;
        int won = -1;
        for (int kh = v.h.from(p.row); kh < h1; kh++)
            for (int kw = w0; kw < w1; kw++) {
                const T value = x[v.x_at(p.image, ih + kh, iw + kw, p.channel)];
                if (won < 0 || value > best || (value != value && best == best)) {
                    best = value;
                    won = kh * v.w.size + kw;
                }
            }
        y[i] = best;
        if (cell.data) cell.put(i, won < 0 ? 0 : won);
    }
};

template <typename T, typename I> struct max_picker {
    pool<I>  v;
    const T *x;
    T       *y;
    cells    cell;

    __device__ void operator()(int64_t i) const
    {
        const image_place<I> p = v.sizes((I)i);
        const int            k = cell.get(i), kh = k / v.w.size;
        const int            ih = v.h.first(p.row) + kh, iw = v.w.first(p.column) + (k - kh * v.w.size);
        const bool           inside = ih >= 0 && ih < v.h.in && iw >= 0 && iw < v.w.in;
        y[i] = inside ? x[v.x_at(p.image, ih, iw, p.channel)] : 0;
    }
};

template <typename T, typename I> struct max_adder {
    pool<I>  v;
    const T *dy;
    T       *dx;
    cells    cell;

    __device__ void operator()(int64_t i) const
    {
        const image_place<I> p = v.sizes((I)i);
        const int            h1 = v.h.high(p.row), w0 = v.w.low(p.column), w1 = v.w.high(p.column);
        T                    sum = 0;
        for (int oh = v.h.low(p.row); oh < h1; oh++)
            for (int ow = w0; ow < w1; ow++) {
                const I   at = v.y_at(p.image, oh, ow, p.channel);
                const int k = (p.row - v.h.first(oh)) * v.w.size + (p.column - v.w.first(ow));
                if (cell.get(at) == k) sum = sum + dy[at];
            }
        dx[i] = sum;
    }
};

/* ---- average ---- */

template <typename T, typename I> struct averager {
    pool<I>  v;
    const T *x;
    T       *y;

    __device__ void operator()(int64_t i) const
    {
        const image_place<I> p = v.sizes((I)i);
        const int            ih = v.h.first(p.row), iw = v.w.first(p.column), h1 = v.h.to(p.row), w0 = v.w.from(p.column),
                  w1 = v.w.to(p.column);
        const int count = v.cells(p.row, p.column);
        T         sum = 0;
        for (int kh = v.h.from(p.row); kh < h1; kh++)
            for (int kw = w0; kw < w1; kw++)
                sum = sum + x[v.x_at(p.image, ih + kh, iw + kw, p.channel)];
        y[i] = count ? sum / (T)count : 0;
    }
};

template <typename T, typename I> struct average_adder {
    pool<I>  v;
    const T *dy;
    T       *dx;

    __device__ void operator()(int64_t i) const
    {
        const image_place<I> p = v.sizes((I)i);
        const int            h1 = v.h.high(p.row), w0 = v.w.low(p.column), w1 = v.w.high(p.column);
        T                    sum = 0;
        for (int oh = v.h.low(p.row); oh < h1; oh++)
            for (int ow = w0; ow < w1; ow++)
                sum = sum + dy[v.y_at(p.image, oh, ow, p.channel)] / (T)v.cells(oh, ow);
        dx[i] = sum;
    }
};

/* ---- slots ---- */

template <typename T, typename I> struct slots {
    static void max_pool(const lki_args *a)
    {
        const cells c = a->ndst > 1 ? cells_of(&a->dst[1]) : cells{nullptr, false};
        cover(
            a, size_of(&a->dst[0]),
            max_pooler<T, I>{pool_of<I>(a, &a->src[0], &a->dst[0], &a->dst[0]), (const T *)a->src[0].data, (T *)a->dst[0].data, c});
    }
    static void max_pool_pick(const lki_args *a)
    {
        const pool<I> v = pool_of<I>(a, &a->src[0], &a->dst[0], &a->dst[0]);
        cover(a, size_of(&a->dst[0]), max_picker<T, I>{v, (const T *)a->src[0].data, (T *)a->dst[0].data, cells_of(&a->src[1])});
    }
    static void max_pool_grad(const lki_args *a)
    {
        const pool<I> v = pool_of<I>(a, &a->dst[0], &a->src[0], &a->dst[0]);
        cover(a, size_of(&a->dst[0]), max_adder<T, I>{v, (const T *)a->src[0].data, (T *)a->dst[0].data, cells_of(&a->src[1])});
    }
    static void avg_pool(const lki_args *a)
    {
        cover(a, size_of(&a->dst[0]),
              averager<T, I>{pool_of<I>(a, &a->src[0], &a->dst[0], &a->dst[0]), (const T *)a->src[0].data, (T *)a->dst[0].data});
    }
    static void avg_pool_grad(const lki_args *a)
    {
        cover(
            a, size_of(&a->dst[0]),
            average_adder<T, I>{pool_of<I>(a, &a->dst[0], &a->src[0], &a->dst[0]), (const T *)a->src[0].data, (T *)a->dst[0].data});
    }
};

template <lki_kernel *narrow, lki_kernel *wide> void either(const lki_args *a)
{
    if (fits32(size_of(&a->dst[0])) && fits32(size_of(&a->src[0]))) narrow(a);
    else wide(a);
}

template <typename T> void register_type(lki_kernels *k, lk_dtype t)
{
    using near = slots<T, uint32_t>;
    using far = slots<T, uint64_t>;
    set(k, LKI_K_max_pool, t, either<near::max_pool, far::max_pool>);
    set(k, LKI_K_max_pool_pick, t, either<near::max_pool_pick, far::max_pool_pick>);
    set(k, LKI_K_max_pool_grad, t, either<near::max_pool_grad, far::max_pool_grad>);
    set(k, LKI_K_avg_pool, t, either<near::avg_pool, far::avg_pool>);
    set(k, LKI_K_avg_pool_grad, t, either<near::avg_pool_grad, far::avg_pool_grad>);
}

} // namespace

void lki_gpu::register_pool(lki_kernels *k)
{
    register_type<float>(k, LK_F32);
    register_type<double>(k, LK_F64);
}
