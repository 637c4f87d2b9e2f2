/* Grouped convolutions: channel q of the result reads only the channels of its group. One thread per element of the result; cells
 * outside the image are left out of a sum, not added as zeros.
 *
 * Orders (fma chains from +0): the result over kh, kw, channel; the data gradient over output row, output column, out channel, as
 * on the CPU.
 *
 * The weight gradient has a different order here, which gives the card more parallel work: one chain per image, over output row,
 * output column; the images of a lane are added up from +0, ascending; then the tree over lanes. */
#include "kernel/gpu/window/image_parts.h"

using namespace lki_gpu;

namespace
{

template <typename I> struct grouped_sizes {
    window_axis    h, w;
    image_sizes<I> sizes;                         /* of the array the threads run over */
    I              IH, IW, C, OH, OW, Q, in, out; /* in, out: channels of a group */
    division<I>    by_in, by_out;

    __device__ I x_at(I image, int row, int column, I c) const { return ((image * IH + (I)row) * IW + (I)column) * C + c; }
    __device__ I y_at(I image, int row, int column, I q) const { return ((image * OH + (I)row) * OW + (I)column) * Q + q; }
    __device__ I w_at(int kh, int kw, I c, I q) const { return ((I)(kh * w.size + kw) * in + c) * Q + q; }
};

template <typename I>
grouped_sizes<I> grouped_of(const lki_args *a, const lki_view *x, const lki_view *w, const lki_view *y, const lki_view *over)
{
    const lki_window *win = &a->attr->window;
    const int64_t    *i = &x->shape->dim[x->shape->rank - 3], *o = &y->shape->dim[y->shape->rank - 3], in = w->shape->dim[2],
                  out = o[2] / (i[2] / in);
    return {axis_of_window(win, 0, x->shape, y->shape, win->dilation[0]),
            axis_of_window(win, 1, x->shape, y->shape, win->dilation[1]),
            sizes_of_image<I>(over->shape),
            (I)i[0],
            (I)i[1],
            (I)i[2],
            (I)o[0],
            (I)o[1],
            (I)o[2],
            (I)in,
            (I)out,
            division<I>(in),
            division<I>(out)};
}

/* ---- result ---- */

template <typename T, typename I> struct forward {
    grouped_sizes<I> v;
    const T         *x, *w;
    T               *y;

    __device__ void operator()(int64_t i) const
    {
        const image_place<I> p = v.sizes((I)i);
        const int            ih = v.h.first(p.row), iw = v.w.first(p.column), h1 = v.h.to(p.row), w0 = v.w.from(p.column),
                  w1 = v.w.to(p.column);
        const I q = (I)p.channel, c = v.by_out(q) * v.in;
        T       sum = 0;
        for (int kh = v.h.from(p.row); kh < h1; kh++)
            for (int kw = w0; kw < w1; kw++) {
                const T *from = x + v.x_at(p.image, ih + kh * v.h.dilation, iw + kw * v.w.dilation, c),
                        *tap = w + v.w_at(kh, kw, 0, q);
                for (I j = 0; j < v.in; j++, tap += v.Q)
                    sum = fused(from[j], *tap, sum);
            }
        y[i] = sum;
    }
};

/* ---- data gradient ---- */

template <typename T, typename I> struct back_x {
    grouped_sizes<I> v;
    const T         *dy, *w;
    T               *dx;

    __device__ void operator()(int64_t i) const
    {
        const image_place<I> p = v.sizes((I)i);
        const int            h1 = v.h.high(p.row), w0 = v.w.low(p.column), w1 = v.w.high(p.column);
        const I              group = v.by_in((I)p.channel), c = (I)p.channel - group * v.in, q = group * v.out;
        T                    sum = 0;
        for (int oh = v.h.low(p.row); oh < h1; oh++)
            for (int ow = w0; ow < w1; ow++) {
                const int kh = v.h.tap(oh, p.row), kw = v.w.tap(ow, p.column);
                if (kh < 0 || kw < 0) continue;
                const T *d = dy + v.y_at(p.image, oh, ow, q), *tap = w + v.w_at(kh, kw, c, q);
                for (I j = 0; j < v.out; j++)
                    sum = fused(d[j], tap[j], sum);
            }
        dx[i] = sum;
    }
};

/* ---- weight gradient ---- */

/* One image of one weight, into `parts` [images, kh, kw, in, q]. */
template <typename T, typename I> struct image_chain {
    grouped_sizes<I> v; /* sizes: taps in rows and columns, in * q */
    division<I>      by_q;
    const T         *x, *dy;
    T               *parts;

    __device__ void operator()(int64_t i) const
    {
        const image_place<I> p = v.sizes((I)i); /* row, column: the tap */
        const int            h0 = first_output(v.h, p.row), h1 = last_output(v.h, p.row), w0 = first_output(v.w, p.column),
                  w1 = last_output(v.w, p.column);
        const int iw = w0 * v.w.stride - v.w.pad + p.column * v.w.dilation;
        const I   j = by_q((I)p.channel), q = (I)p.channel - j * v.Q, c = v.by_out(q) * v.in + j, step = (I)v.w.stride * v.C;
        T         sum = 0;
        for (int oh = h0; oh < h1; oh++) {
            const int ih = oh * v.h.stride - v.h.pad + p.row * v.h.dilation;
            const T  *from = x + v.x_at(p.image, ih, iw, c), *d = dy + v.y_at(p.image, oh, w0, q);
            LKI_UNROLLED_BY(4)
            for (int ow = w0; ow < w1; ow++, from += step, d += v.Q)
                sum = fused(*from, *d, sum);
        }
        parts[i] = sum;
    }
};

/* ---- slots ---- */

template <typename T, typename I> struct slots {
    static void grouped(const lki_args *a)
    {
        const grouped_sizes<I> v = grouped_of<I>(a, &a->src[0], &a->src[1], &a->dst[0], &a->dst[0]);
        cover(a, size_of(&a->dst[0]), forward<T, I>{v, (const T *)a->src[0].data, (const T *)a->src[1].data, (T *)a->dst[0].data});
    }
    static void grouped_grad_x(const lki_args *a)
    {
        const grouped_sizes<I> v = grouped_of<I>(a, &a->dst[0], &a->src[1], &a->src[0], &a->dst[0]);
        cover(a, size_of(&a->dst[0]), back_x<T, I>{v, (const T *)a->src[0].data, (const T *)a->src[1].data, (T *)a->dst[0].data});
    }
    static void grouped_grad_w(const lki_args *a)
    {
        grouped_sizes<I> v = grouped_of<I>(a, &a->src[0], &a->dst[0], &a->src[1], &a->src[0]);
        const int64_t    weights = size_of(&a->dst[0]), images = images_of(a->src[0].shape);
        v.sizes = {division<I>(v.h.size), division<I>(v.w.size), division<I>((int64_t)(v.in * v.Q))};
        cover(
            a, images * weights,
            image_chain<T, I>{v, division<I>((int64_t)v.Q), (const T *)a->src[0].data, (const T *)a->src[1].data, (T *)a->scratch});
        cover(a, weights, image_sum<T>{(const T *)a->scratch, (T *)a->dst[0].data, weights, lanes_of(a, images)});
    }
};

template <typename T> void register_type(lki_kernels *k, lk_dtype t)
{
    using near = slots<T, uint32_t>;
    using far = slots<T, uint64_t>;
    set(k, LKI_K_grouped, t, either<near::grouped, far::grouped, false>);
    set(k, LKI_K_grouped_grad_x, t, either<near::grouped_grad_x, far::grouped_grad_x, false>);
    set(k, LKI_K_grouped_grad_w, t, either<near::grouped_grad_w, far::grouped_grad_w, true>, parts_scratch);
}

} // namespace

void lki_gpu::register_grouped(lki_kernels *k)
{
    register_type<float>(k, LK_F32);
    register_type<double>(k, LK_F64);
}
