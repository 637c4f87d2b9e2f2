/* conv2d and its gradients of f64, plain and through a 2x2 max pool: the reference's loops, a thread per element of the result. For
 * checks, not for speed; the same bits as the reference. */
#include "kernel/gpu/conv/conv.h"

namespace
{

using namespace lki_gpu;

/* ---- conv2d ---- */

struct forward {
    const double *x, *w, *bias;
    double       *y;
    uint8_t      *cell; /* with a pool, else NULL */
    conv          v;
    int           relu;

    __device__ double output(const double *image, int oh, int ow, int o) const
    {
        double acc = 0;
        for (int t = 0; t < v.taps(); t++) {
            const int h = oh * v.stride[0] - v.pad[0] + t / v.KW * v.dilation[0],
                      i = ow * v.stride[1] - v.pad[1] + t % v.KW * v.dilation[1];
            if (!v.inside(h, i)) continue;
            for (int c = 0; c < v.C; c++)
                acc = fma(image[((int64_t)h * v.IW + i) * v.C + c], w[((int64_t)t * v.C + c) * v.O + o], acc);
        }
        if (bias) acc = acc + bias[o];
        return relu && acc < 0 ? 0 : acc;
    }
    __device__ void operator()(int64_t i) const
    {
        const int cells = cell ? 2 : 1, H = v.OH / cells, W = v.OW / cells, o = (int)(i % v.O), ow = (int)(i / v.O % W),
                  oh = (int)(i / v.O / W % H);
        const double *image = x + i / v.O / W / H * ((int64_t)v.IH * v.IW * v.C);
        double        best = 0;
        int           place = 0;
        for (int k = 0; k < cells * cells; k++) {
            const double p = output(image, cells * oh + k / 2, cells * ow + k % 2, o);
            if (k && !(p > best || (isnan(p) && !isnan(best)))) continue;
            best = p;
            place = k;
        }
        y[i] = best;
        if (cell) cell[i] = (uint8_t)place;
    }
};

void conv2d(const lki_args *g)
{
    const bool pool = g->attr->epilogue.pool;
    map(g, size_of(&g->dst[0]),
        forward{(const double *)g->src[0].data, (const double *)g->src[1].data,
                g->attr->epilogue.bias ? (const double *)g->src[2].data : nullptr, (double *)g->dst[0].data,
                pool ? (uint8_t *)g->dst[1].data : nullptr, conv_of(g, g->src[0].shape, g->src[1].shape, g->dst[0].shape, pool),
                g->attr->epilogue.relu});
}

/* ---- for x ---- */

struct gradient {
    const double  *d;
    const uint8_t *cell; /* of a pool, else NULL */
    const double  *y;    /* with relu, else NULL */

    __device__ bool counts(int64_t e, int at) const { return !cell || (cell[e] == at && (!y || y[e] > 0) && d[e] != 0); }
};

gradient gradient_of(const lki_args *g, int d, bool pooled)
{
    return gradient{(const double *)g->src[d].data, pooled ? (const uint8_t *)g->src[d + 1].data : nullptr,
                    pooled && g->attr->epilogue.relu ? (const double *)g->src[3].data : nullptr};
}

struct backward_x {
    gradient      dy;
    const double *w;
    double       *dx;
    conv          v;

    __device__ void operator()(int64_t i) const
    {
        const int     c = (int)(i % v.C), iw = (int)(i / v.C % v.IW), ih = (int)(i / v.C / v.IW % v.IH);
        const int64_t image = i / v.C / v.IW / v.IH;
        double        acc = 0;
        for (int tap = v.taps() - 1; tap >= 0; tap--) {
            const int h = ih + v.pad[0] - tap / v.KW * v.dilation[0], l = iw + v.pad[1] - tap % v.KW * v.dilation[1],
                      oh = h / v.stride[0], ow = l / v.stride[1];
            if (h < 0 || l < 0 || h % v.stride[0] || l % v.stride[1] || oh >= v.OH || ow >= v.OW) continue;
            const int64_t at = dy.cell ? (image * (v.OH / 2) + oh / 2) * (v.OW / 2) + ow / 2 : (image * v.OH + oh) * v.OW + ow;
            for (int o = 0; o < v.O; o++)
                if (dy.counts(at * v.O + o, oh % 2 * 2 + ow % 2))
                    acc = fma(dy.d[at * v.O + o], w[((int64_t)tap * v.C + c) * v.O + o], acc);
        }
        dx[i] = acc;
    }
};

void run_grad_x(const lki_args *g, bool pooled)
{
    const lki_view *w = &g->src[pooled ? 2 : 1];
    map(g, size_of(&g->dst[0]),
        backward_x{gradient_of(g, 0, pooled), (const double *)w->data, (double *)g->dst[0].data,
                   conv_of(g, g->dst[0].shape, w->shape, g->src[0].shape, pooled)});
}

void grad_x(const lki_args *g) { run_grad_x(g, false); }
void pool_grad_x(const lki_args *g) { run_grad_x(g, true); }

/* ---- for w ---- */

struct backward_w {
    const double *x;
    gradient      dy;
    double       *dw;
    conv          v;
    lanes         l;

    __device__ double images(int tap, int c, int o, int64_t from, int64_t to) const
    {
        double acc = 0;
        for (int64_t n = from; n < to; n++)
            for (int p = 0; p < v.outputs(); p++) {
                int oh, ow;
                v.output(p, &oh, &ow);
                const int64_t e = (v.pooled ? (n * v.outputs() + p) / 4 : n * v.outputs() + p) * v.O + o;
                const int     h = oh * v.stride[0] - v.pad[0] + tap / v.KW * v.dilation[0],
                          w = ow * v.stride[1] - v.pad[1] + tap % v.KW * v.dilation[1];
                if (v.inside(h, w) && dy.counts(e, p % 4)) acc = fma(x[((n * v.IH + h) * v.IW + w) * v.C + c], dy.d[e], acc);
            }
        return acc;
    }
    __device__ void operator()(int64_t i) const
    {
        const int64_t row = i / v.O;
        double        open[7], sum = 0;
        for (int s = 0; s < l.count; s++) {
            sum = images((int)(row / v.C), (int)(row % v.C), (int)(i % v.O), l.bound[s], l.bound[s + 1]);
            climb<7>(open, sum, s);
        }
        dw[i] = sum;
    }
};

void run_grad_w(const lki_args *g, bool pooled)
{
    const conv v = conv_of(g, g->src[0].shape, g->dst[0].shape, g->src[1].shape, pooled);
    map(g, size_of(&g->dst[0]),
        backward_w{(const double *)g->src[0].data, gradient_of(g, 1, pooled), (double *)g->dst[0].data, v, lanes_of(g, v.images)});
}

void grad_w(const lki_args *g) { run_grad_w(g, false); }
void pool_grad_w(const lki_args *g) { run_grad_w(g, true); }

} // namespace

void lki_gpu::register_conv_f64(lki_kernels *k)
{
    set(k, LKI_K_conv2d, LK_F64, conv2d);
    set(k, LKI_K_conv2d_grad_x, LK_F64, grad_x);
    set(k, LKI_K_conv2d_grad_w, LK_F64, grad_w);
    set(k, LKI_K_conv2d_pool_grad_x, LK_F64, pool_grad_x);
    set(k, LKI_K_conv2d_pool_grad_w, LK_F64, pool_grad_w);
}
