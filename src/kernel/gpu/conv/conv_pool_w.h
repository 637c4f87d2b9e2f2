/* What the gradients for weights through a 2x2 max pool share, entry by entry (conv_pool_w.cu) and on tensor cores
 * (patch_pool_w.cu, fragment_w.cu): operands, how images are divided into parts (lane_parts.h), the layout of a part in scratch
 * ([tap][in][out], then the bias if it is wanted), and how parts are added up. */
#ifndef LKI_KERNEL_GPU_CONV_CONV_POOL_W_H
#define LKI_KERNEL_GPU_CONV_CONV_POOL_W_H

#include "kernel/gpu/base/lane_parts.h"
#include "kernel/gpu/conv/conv_pool.h"

namespace lki_gpu
{

struct pool_weights {
    enum { PARTS = 32, IMAGES = 32, WEIGHTS = POOL_TAPS * 32 * 64, SHARED_MOST = 110 << 10 };

    const float  *x;
    pool_gradient d;
    float        *parts;
    int           IH, IW, C, O, PH, PW, pad[2];
    int           ins, outs; /* blocks side by side */
    int           each;      /* results of a part */
    bool          wide;      /* x is aligned */
    divisor       by_PW;

    __host__ __device__ int windows() const { return PH * PW; }

    /* Depends on shapes only. A block has `in` and `out` channels. */
    void shape(const conv &v, int in, int out)
    {
        IH = v.IH, IW = v.IW, C = v.C, O = v.O, PH = v.OH / 2, PW = v.OW / 2;
        pad[0] = v.pad[0], pad[1] = v.pad[1];
        ins = (int)lki_ceil_div(v.C, in), outs = (int)lki_ceil_div(v.O, out);
        by_PW = divisor_of(PW);
    }
    void take(const lki_args *g, const pool_entries &entries)
    {
        x = (const float *)g->src[0].data, wide = aligned(x);
        d = pool_gradient_of(g->src[1].data, entries);
        parts = (float *)g->scratch;
        each = POOL_TAPS * C * O + (g->attr->epilogue.bias ? O : 0);
    }
    unsigned blocks(const lane_parts &l) const { return (unsigned)(l.count() * ins * outs); }
};

/* Number of parts, so that their scratch is not much larger than that of WEIGHTS weights. */
static inline int64_t pool_parts(const conv &v)
{
    return lki_max(1, pool_weights::PARTS * pool_weights::WEIGHTS / lki_max(pool_weights::WEIGHTS, POOL_TAPS * (int64_t)v.C * v.O));
}
static inline int64_t pool_images(const conv &v)
{
    return pool_weights::IMAGES * lki_max(1, POOL_TAPS * (int64_t)v.C * v.O / pool_weights::WEIGHTS);
}
/* unit: images that stay together. */
static inline lane_parts pool_lane_parts(const lki_args *g, const conv &v, int64_t unit = 1)
{
    return lane_parts_of(lanes_of(g, v.images), 1, pool_parts(v), pool_images(v), unit);
}

static inline void join_pool_weights(const lki_args *g, const lane_parts &l, const pool_weights &f)
{
    const int weights = POOL_TAPS * f.C * f.O;
    launch_join(g, l, f.each, joined{(float *)g->dst[0].data, (float *)(f.each > weights ? g->dst[1].data : nullptr), weights});
}

} // namespace lki_gpu

#endif
