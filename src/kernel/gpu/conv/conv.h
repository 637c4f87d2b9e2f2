/* Convolutions as matrix products whose left or right matrix is not materialised: sources (tile.h) that read images through a
 * window. Images are [height, width, channels]; for output (oh, ow), tap (kh, kw) of the window is at cell (oh*stride - pad +
 * kh*dilation, ow*stride - pad + kw*dilation).
 *
 *     slot            rows of the result          columns        k
 *     conv2d          image, oh, ow               out channel    kh, kw, in channel
 *     conv2d_grad_x   image, ih, iw               in channel     kh, kw from the last to the first, out channel: output row and
 *                                                                column ascending
 *     conv2d_grad_w   kh, kw, in channel          out channel    image, oh, ow
 *
 * If a 2x2 max pool follows, the outputs of conv2d, and the k of its weight gradient, are ordered window by window: image, window
 * row, window column, cell. So a thread has the four outputs of a window, and entries of the gradient are read in the order of
 * their windows. Outputs that belong to no window are left out. */
#ifndef LKI_KERNEL_GPU_CONV_CONV_H
#define LKI_KERNEL_GPU_CONV_CONV_H

#include "kernel/gpu/base/tile.h"

namespace lki_gpu
{

void register_conv_grad(lki_kernels *k); /* conv_grad.cu: f32 gradients, and those through a max pool */
void register_conv_f64(lki_kernels *k);  /* conv_f64.cu */

struct conv {
    int64_t images;
    int     IH, IW, C; /* x */
    int     KH, KW, O; /* w is [KH, KW, C, O] */
    int     OH, OW;    /* outputs that are computed; with a pool, those in windows */
    int     stride[2], dilation[2], pad[2];
    bool    pooled; /* outputs are ordered by windows */
    divisor by_C, by_KW, by_O, by_OW, by_outputs, by_stride[2];

    __host__ __device__ int taps() const { return KH * KW; }
    __host__ __device__ int outputs() const { return OH * OW; }

    /* Output p of an image, in order. */
    __device__ void output(int p, int *oh, int *ow) const
    {
        const int q = pooled ? p / 4 : p, row = by_OW(q); /* by_OW: windows in a row, with a pool */
        *oh = pooled ? 2 * row + p / 2 % 2 : row;
        *ow = pooled ? 2 * (q - row * (OW / 2)) + p % 2 : q - row * OW;
    }
    __device__ bool inside(int h, int w) const { return (unsigned)h < (unsigned)IH && (unsigned)w < (unsigned)IW; }
};

static inline conv conv_of(const lki_args *g, const lk_shape *x, const lk_shape *w, const lk_shape *y, bool pooled)
{
    const int64_t    *i = &x->dim[x->rank - 3], *o = &y->dim[y->rank - 3];
    const lki_window *win = &g->attr->window;
    const int         cells = pooled ? 2 : 1;
    conv              v = {};
    v.images = 1;
    for (int d = 0; d < x->rank - 3; d++)
        v.images *= x->dim[d];
    v.IH = (int)i[0], v.IW = (int)i[1], v.C = (int)i[2];
    v.KH = (int)w->dim[0], v.KW = (int)w->dim[1], v.O = (int)w->dim[3];
    v.OH = cells * (int)o[0], v.OW = cells * (int)o[1];
    for (int d = 0; d < 2; d++) {
        v.stride[d] = (int)win->stride[d];
        v.dilation[d] = (int)win->dilation[d];
        v.pad[d] = (int)win->pad[d];
        v.by_stride[d] = divisor_of(win->stride[d]);
    }
    v.pooled = pooled;
    v.by_C = divisor_of(v.C);
    v.by_KW = divisor_of(v.KW);
    v.by_O = divisor_of(v.O);
    v.by_OW = divisor_of(o[1]);
    v.by_outputs = divisor_of(v.outputs());
    return v;
}

/* The larger one; NaN if one of them is NaN. */
__device__ inline float larger_of(float a, float b)
{
#ifdef LKI_SIM
    return isnan(a) || isnan(b) ? NAN : fmaxf(a, b);
#else
    float larger;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(larger) : "f"(a), "f"(b));
    return larger;
#endif
}

/* ---- sources ----------------------------------------------------------------------------------------------------------------- */

/* x: row (image, output), k (tap, in channel) */
struct windows {
    enum { ALONG_K = 1 };
    const float *data;
    conv         v;
    bool         wide; /* C is a multiple of 4, and x aligned */

    struct row {
        const float *image; /* NULL: outside */
        int          h, w;  /* of the first tap */
    };
    __device__ row at(int64_t r) const
    {
        const int64_t image = r / v.outputs();
        int           oh, ow;
        if (image >= v.images) return row{nullptr, 0, 0};
        v.output((int)(r - image * v.outputs()), &oh, &ow);
        return row{data + image * ((int64_t)v.IH * v.IW * v.C), oh * v.stride[0] - v.pad[0], ow * v.stride[1] - v.pad[1]};
    }
    __device__ const float *cell(const row &r, int k) const /* NULL: outside the image */
    {
        const int tap = v.by_C(k), kh = v.by_KW(tap), h = r.h + kh * v.dilation[0], w = r.w + (tap - kh * v.KW) * v.dilation[1];
        return r.image && v.inside(h, w) ? r.image + ((h * v.IW + w) * v.C + (k - tap * v.C)) : nullptr;
    }
    __device__ void load(const row &r, int k, int end, float outside, float *q) const
    {
        if (wide) {
            const float *p = k < end ? cell(r, k) : nullptr;
            if (p) load_quad(p, q);
            else fill_quad(outside, q);
            return;
        }
        LKI_UNROLL
        for (int j = 0; j < 4; j++) {
            const float *p = k + j < end ? cell(r, k + j) : nullptr;
            q[j] = p ? *p : outside;
        }
    }
};

/* x: row (tap, in channel), k (image, output) */
struct cells {
    enum { ALONG_K = 0 };
    const float *data;
    conv         v;
    bool         wide; /* C is a multiple of 4, and x aligned */

    typedef int             row;
    __device__ row          at(int64_t r) const { return (int)r; }
    __device__ const float *cell(int r, const float *image, int h, int w) const
    {
        const int tap = v.by_C(r), kh = v.by_KW(tap);
        if (tap >= v.taps()) return nullptr;
        h += kh * v.dilation[0];
        w += (tap - kh * v.KW) * v.dilation[1];
        return v.inside(h, w) ? image + ((h * v.IW + w) * v.C + (r - tap * v.C)) : nullptr;
    }
    __device__ void load(int r, int k, int end, float outside, float *q) const
    {
        if (k >= end) return fill_quad(outside, q);
        const int    n = v.by_outputs(k);
        const float *image = data + n * ((int64_t)v.IH * v.IW * v.C);
        int          h, w;
        v.output(k - n * v.outputs(), &h, &w);
        h = h * v.stride[0] - v.pad[0];
        w = w * v.stride[1] - v.pad[1];
        if (wide) {
            const float *p = cell(r, image, h, w);
            if (p) load_quad(p, q);
            else fill_quad(0, q);
            return;
        }
        LKI_UNROLL
        for (int j = 0; j < 4; j++) {
            const float *p = cell(r + j, image, h, w);
            q[j] = p ? *p : 0;
        }
    }
};

/* The gradient of the outputs: of all outputs, or with a max pool only of the one that was largest in its window (it won). An entry
 * whose cell is marked (LKI_CELL_DEAD) has no gradient. */
struct pool_entries {
    const uint8_t *cell;
    const float   *y; /* with relu, unless cells are marked; else NULL */
    int            O;

    /* d, if entry e won in cell `at` of its window and is not marked */
    __device__ float operator()(const float *d, int64_t e, int at) const { return cell[e] == at && (!y || y[e] > 0) ? d[e] : 0; }
};

/* dy: row (image, cell of x), k (tap from the last, out channel) */
template <bool POOLED> struct outputs_over {
    enum { ALONG_K = 1 };
    const float *data;
    conv         v;
    bool         wide; /* O is a multiple of 4, and dy aligned */
    pool_entries entries;

    struct row {
        int64_t image; /* first entry of its dy; -1: outside */
        int     h, w;  /* cell, relative to where the first window begins */
    };
    __device__ row at(int64_t r) const
    {
        const int     area = v.IH * v.IW;
        const int64_t image = r / area;
        const int     p = (int)(r - image * area);
        if (image >= v.images) return row{-1, 0, 0};
        return row{image * (POOLED ? v.outputs() / 4 : v.outputs()) * v.O, p / v.IW + v.pad[0], p % v.IW + v.pad[1]};
    }
    /* The entry of (tap, out channel) k, and its cell in a window of the pool; -1: the tap belongs to no output. */
    __device__ int64_t entry(const row &r, int k, int *place) const
    {
        const int t = v.by_O(k), o = k - t * v.O, tap = v.taps() - 1 - t, kh = v.by_KW(tap), kw = tap - kh * v.KW;
        const int h = r.h - kh * v.dilation[0], w = r.w - kw * v.dilation[1];
        if (r.image < 0 || h < 0 || w < 0) return -1;
        const int oh = v.by_stride[0](h), ow = v.by_stride[1](w);
        if (oh * v.stride[0] != h || ow * v.stride[1] != w || oh >= v.OH || ow >= v.OW) return -1;
        *place = oh % 2 * 2 + ow % 2;
        return r.image + (POOLED ? (oh / 2 * (v.OW / 2) + ow / 2) : (oh * v.OW + ow)) * v.O + o;
    }
    __device__ void load(const row &r, int k, int end, float outside, float *q) const
    {
        int place;
        if (wide) {
            const int64_t e = k < end ? entry(r, k, &place) : -1;
            if (e < 0) return fill_quad(outside, q);
            load_quad(data + e, q);
            if (POOLED) keep(e, place, q);
            return;
        }
        LKI_UNROLL
        for (int j = 0; j < 4; j++) {
            const int64_t e = k + j < end ? entry(r, k + j, &place) : -1;
            q[j] = e < 0 ? outside : POOLED ? entries(data, e, place) : data[e];
        }
    }
    /* Of four entries from e on, keep those that won in cell `at`; e is a multiple of 4. */
    __device__ void keep(int64_t e, int at, float *q) const
    {
        float y[4] = {1, 1, 1, 1};
        if (entries.y) load_quad(entries.y + e, y);
        const unsigned four = *(const unsigned *)(entries.cell + e);
        for (int j = 0; j < 4; j++)
            if ((int)(four >> 8 * j & 255) != at || !(y[j] > 0)) q[j] = 0;
    }
};

/* w: row in channel, k (tap from the last, out channel) */
struct turned_weights {
    enum { ALONG_K = 1 };
    const float *data;
    conv         v;
    bool         wide; /* O is a multiple of 4, and w aligned */

    typedef int             row; /* -1: outside */
    __device__ row          at(int64_t r) const { return r < v.C ? (int)r : -1; }
    __device__ const float *weight(int c, int k) const
    {
        const int t = v.by_O(k);
        return data + (((v.taps() - 1 - t) * v.C + c) * (int64_t)v.O + (k - t * v.O));
    }
    __device__ void load(int c, int k, int end, float outside, float *q) const
    {
        if (wide && c >= 0 && k < end) return load_quad(weight(c, k), q);
        LKI_UNROLL
        for (int j = 0; j < 4; j++)
            q[j] = c >= 0 && k + j < end ? *weight(c, k + j) : outside;
    }
};

/* d of a pool: row out channel, k (image, window, cell) */
struct winners {
    enum { ALONG_K = 0 };
    const float *data;
    pool_entries entries;

    typedef int     row;
    __device__ row  at(int64_t r) const { return (int)r; }
    __device__ void load(int r, int k, int end, float outside, float *q) const
    {
        LKI_UNROLL
        for (int j = 0; j < 4; j++)
            q[j] = k < end && r + j < entries.O ? entries(data, k / 4 * (int64_t)entries.O + r + j, k % 4) : outside;
    }
};

} // namespace lki_gpu

#endif
