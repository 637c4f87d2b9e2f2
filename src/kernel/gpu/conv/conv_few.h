/* Convolutions with few weights per out channel, as in a network's first layer. Tiles would be mostly empty; the time is that of
 * reading and writing each number once.
 *
 *     conv_few.cu        conv2d, also with bias, relu or a 2x2 max pool; in f32, up to nine weights are summed as in the reference
 *     conv_few_grad.cu   the gradient for its weights, plain and through the pool; its order of sums is in that file
 *
 * The cells of an image that a block needs are in shared memory, a patch; cells outside the image are zeros there. A thread has
 * four out channels, a quad, so that results and gradients are read and written 16 bytes at a time; the quads of an output are in
 * consecutive threads of a warp. Windows are types, window<kh, kw, in channels>, with stride 1. */
#ifndef LKI_KERNEL_GPU_CONV_CONV_FEW_H
#define LKI_KERNEL_GPU_CONV_CONV_FEW_H

#include "kernel/gpu/conv/conv.h"

namespace lki_gpu
{

template <int KH_, int KW_, int C_> struct window {
    static constexpr int KH = KH_, KW = KW_, C = C_, ROW = KW * C, WEIGHTS = KH * ROW;
};

/* Windows with specialised kernels; in this order everywhere. */
#define LKI_FEW_WINDOWS(X)                                                                                                         \
    X(3, 3, 1)                                                                                                                     \
    X(3, 3, 3)                                                                                                                     \
    X(5, 5, 1)

enum { FEW_QUADS = 8, FEW_CHANNELS = 4 * FEW_QUADS }; /* of a block, at most */

/* ---- shared memory ---- */

/* n, hidden from the compiler, so that it does not rearrange the computation of addresses that use it. */
__device__ inline int hidden(int n)
{
#ifndef LKI_SIM
    asm("" : "+r"(n));
#endif
    return n;
}

/* x, computed here and not where it is used. */
__device__ inline float kept(float x)
{
#ifndef LKI_SIM
    asm volatile("" : "+f"(x));
#endif
    return x;
}

/* The cells of a patch: the columns from -pad on, and some rows, `pitch` floats each. */
struct patch {
    int IH, IW, C, pad[2];
    int rows, width, pitch; /* the most rows; floats of a row that are read; floats between rows */

    __host__ __device__ int size() const { return rows * pitch; }

    /* Start copying `count` rows, beginning with row `first` of the padded image (copies.h). Called by the whole block. */
    __device__ void bring(float *to, const float *image, int first, int count) const
    {
        const int lane = (int)threadIdx.x % 32, warps = (int)blockDim.x / 32, line = IW * C, before = pad[1] * C;
        for (int r = (int)threadIdx.x / 32; r < count; r += warps) {
            const int    h = first + r - pad[0];
            const bool   inside = (unsigned)h < (unsigned)IH;
            const float *from = image + (inside ? h : 0) * line;
            for (int j = lane; j < width; j += 32) {
                const bool there = inside && (unsigned)(j - before) < (unsigned)line;
                copy_one(to + r * pitch + j, there ? from + (j - before) : image, there ? 4 : 0);
            }
        }
    }
};

/* ---- quads ---- */

/* Four channels at p, of which `there` exist; WIDE: all four exist and are aligned. */
template <bool WIDE> __device__ inline void load_channels(const float *p, int there, float *v)
{
    if constexpr (WIDE) load_quad(p, v);
    else {
        LKI_UNROLL
        for (int j = 0; j < 4; j++)
            v[j] = j < there ? p[j] : 0;
    }
}

/* Bytes, packed into a word. */
template <bool WIDE> __device__ inline unsigned load_channels(const uint8_t *p, int there)
{
    unsigned four = 0;
    if constexpr (WIDE) four = *(const unsigned *)p;
    else {
        LKI_UNROLL
        for (int j = 0; j < 4; j++)
            if (j < there) four |= (unsigned)p[j] << 8 * j;
    }
    return four;
}

struct quads {
    int  channels, bits; /* a block has 2^bits quads of an output */
    bool wide;

    __host__ __device__ int width() const { return 4 << bits; } /* channels of a block */

    __device__ void store(float *p, int o, const float *v) const
    {
        if (wide) {
            if (o < channels) *(float4 *)p = make_float4(v[0], v[1], v[2], v[3]);
            return;
        }
        LKI_UNROLL
        for (int j = 0; j < 4; j++)
            if (o + j < channels) p[j] = v[j];
    }
    __device__ void store(uint8_t *p, int o, unsigned four) const
    {
        if (wide) {
            if (o < channels) *(unsigned *)p = four;
            return;
        }
        LKI_UNROLL
        for (int j = 0; j < 4; j++)
            if (o + j < channels) p[j] = (uint8_t)(four >> 8 * j);
    }
};

static inline quads quads_of(int channels, bool aligned)
{
    quads q = {channels, 0, channels % 4 == 0 && aligned};
    while (q.width() < channels && q.width() < FEW_CHANNELS)
        q.bits++;
    return q;
}

/* N floats from shared memory, at a multiple of ALIGNED floats. */
template <int N, int ALIGNED> __device__ inline void load_line(const float *p, float *v)
{
    constexpr int quads = ALIGNED % 4 == 0 ? N / 4 : 0, pairs = ALIGNED % 2 == 0 ? (N - 4 * quads) / 2 : 0;
    LKI_UNROLL
    for (int j = 0; j < quads; j++)
        load_quad(p + 4 * j, v + 4 * j);
    LKI_UNROLL
    for (int j = 4 * quads; j < 4 * quads + 2 * pairs; j += 2) {
        const float2 two = *(const float2 *)(p + j);
        v[j] = two.x, v[j + 1] = two.y;
    }
    LKI_UNROLL
    for (int j = 4 * quads + 2 * pairs; j < N; j++)
        v[j] = p[j];
}

/* ---- which convolutions ---- */

static inline int few_window_of(const conv &v) /* an index in LKI_FEW_WINDOWS, or -1 */
{
#define LKI_FEW_SIZES(kh, kw, c) {kh, kw, c},
    static const int sizes[][3] = {LKI_FEW_WINDOWS(LKI_FEW_SIZES)};
#undef LKI_FEW_SIZES
    const bool steps = v.stride[0] == 1 && v.stride[1] == 1 && v.dilation[0] == 1 && v.dilation[1] == 1;
    const bool small = (int64_t)v.IH * v.IW * v.C < INT32_MAX && (int64_t)v.OH * v.OW * v.O < INT32_MAX;
    for (int i = 0; steps && small && i < (int)(sizeof sizes / sizeof sizes[0]); i++)
        if (v.KH == sizes[i][0] && v.KW == sizes[i][1] && v.C == sizes[i][2]) return i;
    return -1;
}

bool few_conv2d(const lki_args *g, const conv &v); /* false: the shape is not supported, and nothing was done */

/* entries: which outputs won in the pool's windows; not used without a pool. */
bool   is_few_grad_w(const conv &v);
size_t few_grad_w_scratch(const conv &v, int lanes);
void   few_grad_w(const lki_args *g, const conv &v, const pool_entries &entries);

} // namespace lki_gpu

#endif
