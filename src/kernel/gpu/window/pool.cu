/* Pooling: one thread per V neighbouring channels of the result, 16 bytes if sizes and addresses allow it. The window of output
 * (oh, ow) covers the cells (oh*stride - pad + kh, ow*stride - pad + kw); those outside the image are ignored. Largest: the first
 * of equal ones; NaN is larger than all numbers, and the first NaN is kept.
 *
 * Sums run from +0: averages over kh, kw; the gradients over the windows that cover a cell, by output row, then column. Windows as
 * large as their steps do not overlap: the gradient of their largest takes a thread per window, which writes all its cells. */
#include "kernel/gpu/base/bunch.h"
#include "kernel/gpu/window/window.h"

using namespace lki_gpu;

namespace
{

template <typename I> struct pool {
    window_axis    h, w;
    image_sizes<I> sizes; /* of the array the threads run over; channels counted in bunches */
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

/* Threads run over [..., rows, columns, channels / V]. */
template <int V, typename I> pool<I> pool_of(const lki_args *a, const lki_view *x, const lki_view *y, int64_t rows, int64_t columns)
{
    const lki_window *win = &a->attr->window;
    const int64_t    *i = &x->shape->dim[x->shape->rank - 3], *o = &y->shape->dim[y->shape->rank - 3];
    return {axis_of_window(win, 0, x->shape, y->shape, 1),
            axis_of_window(win, 1, x->shape, y->shape, 1),
            {division<I>(rows), division<I>(columns), division<I>(i[2] / V)},
            (I)i[0],
            (I)i[1],
            (I)o[0],
            (I)o[1],
            (I)i[2]};
}

/* ... those of x, or of y. */
template <int V, typename I> pool<I> pool_over(const lki_args *a, const lki_view *x, const lki_view *y, const lki_view *over)
{
    const int64_t *dim = &over->shape->dim[over->shape->rank - 3];
    return pool_of<V, I>(a, x, y, dim[0], dim[1]);
}

/* The cell that each output selects: u8, or i32 for large windows. */
struct cells {
    void                            *data; /* NULL: not wanted */
    bool                             wide;
    template <int V> __device__ void get(int64_t i, int *k) const
    {
        if (wide) {
            const bunch<int32_t, V> b = bunch_at<V>((const int32_t *)data + i);
            for (int j = 0; j < V; j++)
                k[j] = b.v[j];
        } else {
            const bunch<uint8_t, V> b = bunch_at<V>((const uint8_t *)data + i);
            for (int j = 0; j < V; j++)
                k[j] = b.v[j];
        }
    }
    template <int V> __device__ void put(int64_t i, const int *k) const
    {
        bunch<int32_t, V> large;
        bunch<uint8_t, V> small;
        for (int j = 0; j < V; j++) {
            large.v[j] = k[j];
            small.v[j] = (uint8_t)k[j];
        }
        if (wide) bunch_to<V>((int32_t *)data + i, large);
        else bunch_to<V>((uint8_t *)data + i, small);
    }
};

cells cells_of(const lki_view *v) { return {v->data, v->dtype != LK_U8}; }

/* ---- largest ---- */

template <typename T, int V> struct largest {
    bunch<T, V> best;
    int         won[V];

    __device__ largest()
    {
        for (int j = 0; j < V; j++) {
            best.v[j] = -(T)INFINITY;
            won[j] = -1;
        }
    }
    __device__ void see(const bunch<T, V> &x, int cell)
    {
        for (int j = 0; j < V; j++) {
            const T value = x.v[j];
            if (won[j] < 0 || value > best.v[j] || (value != value && best.v[j] == best.v[j])) {
                best.v[j] = value;
                won[j] = cell;
            }
        }
    }
};

/* INSIDE: no window extends beyond the image, and each has 2x2 cells. */
template <typename T, typename I, int V, bool INSIDE> struct max_pooler {
    pool<I>  v;
    const T *x;
    T       *y;
    cells    cell;

    __device__ void operator()(int64_t i) const
    {
        const image_place<I> p = v.sizes((I)i);
        const int            ih = v.h.first(p.row), iw = v.w.first(p.column), channel = p.channel * V;
        largest<T, V>        l;
        if (INSIDE) {
            const T          *from = x + v.x_at(p.image, ih, iw, channel);
            const I           down = v.IW * v.C;
            const bunch<T, V> b[4] = {bunch_at<V>(from), bunch_at<V>(from + v.C), bunch_at<V>(from + down),
                                      bunch_at<V>(from + down + v.C)};
            for (int k = 0; k < 4; k++)
                l.see(b[k], k);
        } else {
            const int h1 = v.h.to(p.row), w0 = v.w.from(p.column), w1 = v.w.to(p.column);
            for (int kh = v.h.from(p.row); kh < h1; kh++)
                for (int kw = w0; kw < w1; kw++)
                    l.see(bunch_at<V>(x + v.x_at(p.image, ih + kh, iw + kw, channel)), kh * v.w.size + kw);
            for (int j = 0; j < V; j++)
                l.won[j] = l.won[j] < 0 ? 0 : l.won[j];
        }
        bunch_to<V>(y + i * V, l.best);
        if (cell.data) cell.put<V>(i * V, l.won);
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
        int                  k;
        cell.get<1>(i, &k);
        const int  kh = k / v.w.size;
        const int  ih = v.h.first(p.row) + kh, iw = v.w.first(p.column) + (k - kh * v.w.size);
        const bool inside = ih >= 0 && ih < v.h.in && iw >= 0 && iw < v.w.in;
        y[i] = inside ? x[v.x_at(p.image, ih, iw, p.channel)] : 0;
    }
};

/* Any windows: a thread per cell. */
template <typename T, typename I, int V> struct max_adder {
    pool<I>  v;
    const T *dy;
    T       *dx;
    cells    cell;

    __device__ void operator()(int64_t i) const
    {
        const image_place<I> p = v.sizes((I)i);
        const int            h1 = v.h.high(p.row), w0 = v.w.low(p.column), w1 = v.w.high(p.column);
        bunch<T, V>          sum = {};
        for (int oh = v.h.low(p.row); oh < h1; oh++)
            for (int ow = w0; ow < w1; ow++) {
                const I           at = v.y_at(p.image, oh, ow, p.channel * V);
                const int         k = (p.row - v.h.first(oh)) * v.w.size + (p.column - v.w.first(ow));
                const bunch<T, V> d = bunch_at<V>(dy + at);
                int               won[V];
                cell.get<V>(at, won);
                for (int j = 0; j < V; j++)
                    if (won[j] == k) sum.v[j] = sum.v[j] + d.v[j];
            }
        bunch_to<V>(dx + i * V, sum);
    }
};

/* Windows that do not overlap: a thread per window, including windows after the last output, whose cells are 0. HALVES: 2x2. */
template <typename T, typename I, int V, bool HALVES> struct max_spreader {
    pool<I>  v;
    const T *dy;
    T       *dx;
    cells    cell;

    __device__ void operator()(int64_t i) const
    {
        const image_place<I> p = v.sizes((I)i);
        const int            ih = v.h.first(p.row), iw = v.w.first(p.column), channel = p.channel * V;
        const int            rows = HALVES ? 2 : v.h.size, columns = HALVES ? 2 : v.w.size;
        bunch<T, V>          d = {};
        int                  won[V];
        for (int j = 0; j < V; j++)
            won[j] = -1;
        if (p.row < v.h.out && p.column < v.w.out) {
            const I at = v.y_at(p.image, p.row, p.column, channel);
            d = bunch_at<V>(dy + at);
            cell.get<V>(at, won);
        }
        LKI_UNROLLED_BY(2)
        for (int kh = 0; kh < rows; kh++) {
            LKI_UNROLLED_BY(2)
            for (int kw = 0; kw < columns; kw++) {
                if (ih + kh < 0 || ih + kh >= v.h.in || iw + kw < 0 || iw + kw >= v.w.in) continue;
                bunch<T, V> sum;
                for (int j = 0; j < V; j++)
                    sum.v[j] = won[j] == kh * columns + kw ? (T)0 + d.v[j] : (T)0;
                bunch_to<V>(dx + v.x_at(p.image, ih + kh, iw + kw, channel), sum);
            }
        }
    }
};

/* ---- average ---- */

template <typename T, typename I, int V> struct averager {
    pool<I>  v;
    const T *x;
    T       *y;

    __device__ void operator()(int64_t i) const
    {
        const image_place<I> p = v.sizes((I)i);
        const int            ih = v.h.first(p.row), iw = v.w.first(p.column), h1 = v.h.to(p.row), w0 = v.w.from(p.column),
                  w1 = v.w.to(p.column);
        const int   count = v.cells(p.row, p.column);
        bunch<T, V> sum = {};
        for (int kh = v.h.from(p.row); kh < h1; kh++)
            for (int kw = w0; kw < w1; kw++) {
                const bunch<T, V> b = bunch_at<V>(x + v.x_at(p.image, ih + kh, iw + kw, p.channel * V));
                for (int j = 0; j < V; j++)
                    sum.v[j] = sum.v[j] + b.v[j];
            }
        for (int j = 0; j < V; j++)
            sum.v[j] = count ? sum.v[j] / (T)count : 0;
        bunch_to<V>(y + i * V, sum);
    }
};

template <typename T, typename I, int V> struct average_adder {
    pool<I>  v;
    const T *dy;
    T       *dx;

    __device__ void operator()(int64_t i) const
    {
        const image_place<I> p = v.sizes((I)i);
        const int            h1 = v.h.high(p.row), w0 = v.w.low(p.column), w1 = v.w.high(p.column);
        bunch<T, V>          sum = {};
        for (int oh = v.h.low(p.row); oh < h1; oh++)
            for (int ow = w0; ow < w1; ow++) {
                const bunch<T, V> d = bunch_at<V>(dy + v.y_at(p.image, oh, ow, p.channel * V));
                const T           count = (T)v.cells(oh, ow);
                for (int j = 0; j < V; j++)
                    sum.v[j] = sum.v[j] + d.v[j] / count;
            }
        bunch_to<V>(dx + i * V, sum);
    }
};

/* ---- slots ---- */

/* 2x2 windows, all inside the image. */
bool halves_inside(const lki_args *a, const lki_view *x, const lki_view *y)
{
    const lki_window *w = &a->attr->window;
    const int64_t    *i = &x->shape->dim[x->shape->rank - 3], *o = &y->shape->dim[y->shape->rank - 3];
    bool              inside = true;
    for (int d = 0; d < 2; d++)
        inside = inside && w->size[d] == 2 && w->pad[d] == 0 && (o[d] - 1) * w->stride[d] + 2 <= i[d];
    return inside;
}

/* Windows along an axis of `in` cells that begin before its end, if steps are as large as windows. */
int64_t windows_over(const lki_window *w, int axis, int64_t in) { return lki_ceil_div(in + w->pad[axis], w->stride[axis]); }

template <typename T, typename I, int V> struct slots {
    static void max_pool(const lki_args *a)
    {
        const lki_view *x = &a->src[0], *y = &a->dst[0];
        const cells     c = a->ndst > 1 ? cells_of(&a->dst[1]) : cells{nullptr, false};
        const pool<I>   v = pool_over<V, I>(a, x, y, y);
        const T        *from = (const T *)x->data;
        if (halves_inside(a, x, y)) cover(a, size_of(y) / V, max_pooler<T, I, V, true>{v, from, (T *)y->data, c});
        else cover(a, size_of(y) / V, max_pooler<T, I, V, false>{v, from, (T *)y->data, c});
    }
    static void max_pool_pick(const lki_args *a)
    {
        const pool<I> v = pool_over<1, I>(a, &a->src[0], &a->dst[0], &a->dst[0]);
        cover(a, size_of(&a->dst[0]), max_picker<T, I>{v, (const T *)a->src[0].data, (T *)a->dst[0].data, cells_of(&a->src[1])});
    }
    static void max_pool_grad(const lki_args *a)
    {
        const lki_window *w = &a->attr->window;
        const lki_view   *x = &a->dst[0], *y = &a->src[0];
        const T          *dy = (const T *)y->data;
        T                *dx = (T *)x->data;
        const cells       c = cells_of(&a->src[1]);
        const int64_t    *in = &x->shape->dim[x->shape->rank - 3], rows = windows_over(w, 0, in[0]),
                      columns = windows_over(w, 1, in[1]);
        const int64_t cells_each = in[0] * in[1] * in[2], images = cells_each ? size_of(x) / cells_each : 0;
        const int64_t n = images * rows * columns * (in[2] / V);
        if (w->size[0] != w->stride[0] || w->size[1] != w->stride[1] || (sizeof(I) == 4 && !fits32(n))) {
            cover(a, size_of(x) / V, max_adder<T, I, V>{pool_over<V, I>(a, x, y, x), dy, dx, c});
            return;
        }
        const pool<I> v = pool_of<V, I>(a, x, y, rows, columns);
        if (w->size[0] == 2 && w->size[1] == 2) cover(a, n, max_spreader<T, I, V, true>{v, dy, dx, c});
        else cover(a, n, max_spreader<T, I, V, false>{v, dy, dx, c});
    }
    static void avg_pool(const lki_args *a)
    {
        cover(a, size_of(&a->dst[0]) / V,
              averager<T, I, V>{pool_over<V, I>(a, &a->src[0], &a->dst[0], &a->dst[0]), (const T *)a->src[0].data,
                                (T *)a->dst[0].data});
    }
    static void avg_pool_grad(const lki_args *a)
    {
        cover(a, size_of(&a->dst[0]) / V,
              average_adder<T, I, V>{pool_over<V, I>(a, &a->dst[0], &a->src[0], &a->dst[0]), (const T *)a->src[0].data,
                                     (T *)a->dst[0].data});
    }
};

/* True if all operands and results can be read in bunches of V. A cell has at most as many bytes as an element. */
template <typename T, int V> bool in_bunches(const lki_args *a)
{
    const lk_shape *s = a->src[0].shape;
    bool            fit = s->dim[s->rank - 1] % V == 0;
    for (int i = 0; i < a->nsrc; i++)
        fit = fit && (uintptr_t)a->src[i].data % (V * (size_t)bytes_of(a->src[i].dtype)) == 0;
    for (int i = 0; i < a->ndst; i++)
        fit = fit && (uintptr_t)a->dst[i].data % (V * (size_t)bytes_of(a->dst[i].dtype)) == 0;
    return fit;
}

/* One of three, by sizes and addresses: all give the same bits. */
template <typename T, lki_kernel *bunched, lki_kernel *narrow, lki_kernel *wide> void fitting(const lki_args *a)
{
    if (!fits32(size_of(&a->dst[0])) || !fits32(size_of(&a->src[0]))) wide(a);
    else if (in_bunches<T, bunch_of<T>()>(a)) bunched(a);
    else narrow(a);
}

template <typename T> void register_type(lki_kernels *k, lk_dtype t)
{
    using four = slots<T, uint32_t, bunch_of<T>()>;
    using near = slots<T, uint32_t, 1>;
    using far = slots<T, uint64_t, 1>;
    set(k, LKI_K_max_pool, t, fitting<T, four::max_pool, near::max_pool, far::max_pool>);
    set(k, LKI_K_max_pool_pick, t, fitting<T, near::max_pool_pick, near::max_pool_pick, far::max_pool_pick>);
    set(k, LKI_K_max_pool_grad, t, fitting<T, four::max_pool_grad, near::max_pool_grad, far::max_pool_grad>);
    set(k, LKI_K_avg_pool, t, fitting<T, four::avg_pool, near::avg_pool, far::avg_pool>);
    set(k, LKI_K_avg_pool_grad, t, fitting<T, four::avg_pool_grad, near::avg_pool_grad, far::avg_pool_grad>);
}

} // namespace

void lki_gpu::register_pool(lki_kernels *k)
{
    register_type<float>(k, LK_F32);
    register_type<double>(k, LK_F64);
}
