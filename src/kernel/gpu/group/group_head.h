/* The end of a classifier as one launch (group_rows.h): a dense layer whose product is in scratch in pieces, logits, cross-entropy,
 * and back to the gradient of the dense layer.
 *
 *     warps 0 to n / 32 - 1   a thread per element of the dense layer: adds its pieces, and in the end computes the element's
 *                             gradient
 *     the last warp           in between, a lane per class: the logit, its part of the loss, its gradient
 *     others                  help to load weights
 *
 * Each row is processed by one block, most of it by one warp, so latency, not throughput, decides: there are no table lookups, code
 * is short, blocks wait twice, and results that nothing waits for are written last. Bits are those of the separate calls. */
#ifndef LKI_KERNEL_GPU_GROUP_GROUP_HEAD_H
#define LKI_KERNEL_GPU_GROUP_GROUP_HEAD_H

#include "kernel/gpu/base/copies.h"
#include "kernel/gpu/base/index.h"
#include "kernel/gpu/reduce/rows.h"

namespace lki_gpu
{

enum { HEAD_THREADS = 160, HEAD_WIDTH = 256, HEAD_CLASSES = LKI_FOLD_WIDTH, HEAD_PIECES = 32, HEAD_STEP = 16 };

struct row_head {
    const float       *pieces; /* `count` of them, of rows * n floats; `run`, 4 or 8, are added before runs are */
    int                count, apart, run;
    const float       *weights; /* [n][classes] */
    int                n, classes;
    division<uint32_t> by_classes;
    bool               relu, masks;       /* masks: no gradient if relu returned 0 */
    const float       *bias, *logit_bias; /* or NULL */
    const float       *scale;             /* for the gradient: one number per row */
    labels             label_of;
    int               *stop, fault[2]; /* of the loss, and of its gradient */
    float             *hidden, *logits, *loss, *d_logits, *d_hidden;

    /* In shared memory: the row of the dense layer, the logits' gradient, and weights by classes. The pitch is a multiple of 8 plus
     * 4: so quads of different classes are in different banks. */
    __host__ __device__ int pitch() const { return n + 4; }
    int                     threads() const { return n + 32 < HEAD_THREADS ? (int)HEAD_THREADS : n + 32; }
    size_t                  bytes() const { return (size_t)(n + HEAD_CLASSES + classes * pitch()) * sizeof(float); }
};

static inline bool head_fits(int64_t n, int64_t pieces, int64_t run, int64_t classes)
{
    return pieces <= HEAD_PIECES && (run == 4 || run == 8) && n % 32 == 0 && n <= HEAD_WIDTH && classes <= HEAD_CLASSES;
}

struct head_pieces { /* of one element, all loaded at the same time */
    float v[HEAD_PIECES];

    /* Four at a time; after the last: -0, which changes nothing. */
    __device__ void read(const float *from, int apart, int count)
    {
        LKI_UNROLL(8)
        for (int i = 0; i < HEAD_PIECES && i < count; i += 4) {
            LKI_UNROLL(4)
            for (int j = i; j < i + 4; j++)
                v[j] = j < count ? from[j * apart] : -0.0f;
        }
    }
    __device__ float sum(int count, int length) const
    {
        float sum = 0, run = v[0];
        LKI_UNROLL(8)
        for (int i = 0; i < HEAD_PIECES && i < count; i += 4) {
            const bool begins = i % 8 == 0 || length == 4;
            if (i && begins) sum = sum + run;
            if (i) run = begins ? v[i] : run + v[i];
            run = ((run + v[i + 1]) + v[i + 2]) + v[i + 3];
        }
        return sum + run;
    }
};

/* Copy weights, reordered by classes. */
__device__ inline void bring_weights(const row_head &h, float *to)
{
    LKI_UNROLL(1)
    for (unsigned i = threadIdx.x; i < (unsigned)(h.n * h.classes); i += blockDim.x) {
        unsigned       k = i;
        const unsigned c = split(k, h.by_classes);
        copy_one(to + c * (unsigned)h.pitch() + k, h.weights + i, 4);
    }
    copies_end();
}

/* x times a class's weights: one chain. A step's operands are loaded while the previous ones are added. */
__device__ inline float logit_of(const float *x, const float *weights, int n)
{
    float4     a[2][HEAD_STEP / 4], b[2][HEAD_STEP / 4];
    float      sum = 0;
    const auto fetch = [&](int to, int k) {
        LKI_UNROLL(4)
        for (int i = 0; i < HEAD_STEP / 4; i++)
            a[to][i] = *(const float4 *)(const void *)(x + k + 4 * i),
            b[to][i] = *(const float4 *)(const void *)(weights + k + 4 * i);
    };
    const auto take = [&](int from) {
        LKI_UNROLL(4)
        for (int i = 0; i < HEAD_STEP / 4; i++) {
            sum = fmaf(a[from][i].x, b[from][i].x, sum);
            sum = fmaf(a[from][i].y, b[from][i].y, sum);
            sum = fmaf(a[from][i].z, b[from][i].z, sum);
            sum = fmaf(a[from][i].w, b[from][i].w, sum);
        }
    };
    fetch(0, 0);
    LKI_UNROLL(1)
    for (int k = 0; k < n; k += 2 * HEAD_STEP) {
        fetch(1, k + HEAD_STEP);
        take(0);
        fetch(0, k + 2 * HEAD_STEP < n ? k + 2 * HEAD_STEP : 0);
        take(1);
    }
    return sum;
}

/* The gradient of an element of the dense layer: that of the logits times its weights. After the last class: -0 times 0, which
 * changes nothing. */
__device__ inline float gradient_of(const row_head &h, const float *d, const float *w)
{
    float back = 0;
    LKI_UNROLL(4)
    for (int i = 0; i < HEAD_CLASSES && i < h.classes; i += 4) {
        const float4 by = *(const float4 *)(const void *)(d + i);
        back = fmaf(by.w, w[i + 3], fmaf(by.z, w[i + 2], fmaf(by.y, w[i + 1], fmaf(by.x, w[i], back))));
    }
    return back;
}

/* y: the logit of a thread's class; m and sum: the largest logit, and the sum over exp(logit - m). */
__device__ inline void put_loss(const row_head &h, int row, int64_t label, float y, float m, float sum)
{
    const float of_label = __shfl_sync((unsigned)FULL_WARP, y, label >= 0 ? (int)label : 0, HEAD_CLASSES);
    if (threadIdx.x % 32) return;
    if (label == LKI_LABEL_OUT_OF_RANGE) {
        fault{h.stop, h.fault[0]}();
        fault{h.stop, h.fault[1]}();
    }
    h.loss[row] = label >= 0 ? log_of(sum) - (of_label - m) : without_class<float>(label);
}

__global__ void __launch_bounds__(HEAD_WIDTH + 32) head_kernel(const LKI_CONSTANT row_head h)
{
    LKI_DYNAMIC_SHARED(float, room);
    float *const x = room, *const d = x + h.n, *const weights = d + HEAD_CLASSES;
    const int     t = (int)threadIdx.x, c = t % HEAD_CLASSES, row = (int)blockIdx.x;
    const bool    sums = t < h.n, classifies = t / 32 == (int)blockDim.x / 32 - 1, live = c < h.classes;
    const int64_t mine = (int64_t)row * h.n + t, classed = (int64_t)row * h.classes + c;
    head_pieces   pieces;
    float         plus = 0, scale = 0, y = 0, e = 0, m = 0, sum = 0;
    int64_t       label = 0;
    if (sums) {
        pieces.read(h.pieces + mine, h.apart, h.count);
        if (h.bias) plus = h.bias[t];
    } else if (classifies) {
        if (h.logit_bias && live) plus = h.logit_bias[c];
        scale = h.scale[row];
        label = h.label_of.of[row];
    }
    bring_weights(h, weights);
    if (sums) {
        y = pieces.sum(h.count, h.run);
        if (h.bias) y = y + plus;
        if (h.relu && y < 0) y = 0;
        x[t] = y;
    }
    copies_wait<0>();
    __syncthreads();
    float w[HEAD_CLASSES];
    if (sums) {
        h.hidden[mine] = y;
        LKI_UNROLL(16)
        for (int i = 0; i < HEAD_CLASSES; i++)
            w[i] = i < h.classes ? weights[i * h.pitch() + t] : 0;
    } else if (classifies) {
        y = logit_of(x, weights + (live ? c : 0) * h.pitch(), h.n);
        if (h.logit_bias) y = y + plus;
        m = largest_of(live && y > -INFINITY ? y : -INFINITY, HEAD_CLASSES);
        e = exp_of(y - m);
        sum = fold_block<float, 1>(c, 0, h.classes, [=](float acc, int64_t) { return acc + e; });
        sum = __shfl_sync((unsigned)FULL_WARP, sum, 0, HEAD_CLASSES);
        label = h.label_of.class_of(label);
        e = label >= 0 ? scale * (e / sum - (float)(c == label)) : without_class<float>(label);
        d[c] = live ? e : -0.0f;
    }
    __syncthreads();
    if (sums) {
        const float back = gradient_of(h, d, w);
        h.d_hidden[mine] = h.masks && !(y > 0) ? 0 : back;
    } else if (classifies) {
        if (t % 32 < h.classes) {
            h.logits[classed] = y;
            h.d_logits[classed] = e;
        }
        put_loss(h, row, label, y, m, sum);
    }
}

} // namespace lki_gpu

#endif
