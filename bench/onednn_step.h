/* A training step written directly on oneDNN 2's C interface, for bench/step.c to compare with: forward, loss, gradients, Adam of the
 * two models of tests/step/models.h.
 *
 * What a careful user of oneDNN would write:
 *  - weights and images in the layouts the primitives choose (format_tag any), reorders only where two of them disagree;
 *  - relu inside convolution and inner product, and on the way back applied to the pooled gradient, which is four times smaller;
 *  - Adam in one pass over gradient, moments and weights, vectorised and spread over oneDNN's own OpenMP threads;
 *  - subnormals flushed on every thread.
 * The primitives are created once; a step replays a list of calls.
 *
 *     onednn_set_threads(2);
 *     onednn_net *net = onednn_net_new(convolutions, batch, l2, weights);      kernel, bias, ... as lockstep stores them
 *     double loss = onednn_net_step(net, images, labels); */
#ifndef LK_BENCH_ONEDNN_STEP_H
#define LK_BENCH_ONEDNN_STEP_H

#include "core/thread.h"
#include <dlfcn.h>
#include <math.h>
#include <oneapi/dnnl/dnnl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DNN(call)                                                                                                                  \
    do {                                                                                                                           \
        const dnnl_status_t status_ = (call);                                                                                      \
        if (status_ != dnnl_success) {                                                                                             \
            fprintf(stderr, "oneDNN: %s: status %d\n", #call, (int)status_);                                                       \
            exit(1);                                                                                                               \
        }                                                                                                                          \
    } while (0)

enum { MOST_CALLS = 64, MOST_LAYERS = 4, MOST_WEIGHTS = 2 * MOST_LAYERS, CLASSES = 10, WIDE = 16 };

typedef dnnl_memory_t      mem;
typedef dnnl_memory_desc_t desc;

typedef struct call {
    dnnl_primitive_t primitive;
    int              count;
    dnnl_exec_arg_t  arg[6];
} call;

typedef struct weight {
    mem    value;    /* in the layout of the forward primitive */
    mem    gradient; /* in the same layout */
    float *m, *v;
    size_t size; /* with what blocked layouts add; that part stays zero */
    float  l2;
} weight;

/* What the way back needs to know about a layer. */
typedef struct layer {
    int                         convolution, relu;
    mem                         src, dst, pooled, workspace;
    dnnl_primitive_desc_t       forward, pool; /* hints for the backward primitives */
    weight                     *kernel, *bias;
} layer;

typedef struct onednn_net {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    call          calls[MOST_CALLS];
    int           count, loss_at; /* calls before loss_at are the forward pass */
    layer         layers[MOST_LAYERS];
    int           nlayers, nweights;
    weight        weights[MOST_WEIGHTS];
    mem           images, logits, dlogits;
    int64_t       batch, iteration;
    double        squares[256]; /* l2 * w * w per thread */
    float         rate;
    int           hits;
} onednn_net;

/* ---- threads ----------------------------------------------------------------------------------------------------------------------- */

/* oneDNN's OpenMP threads, found at run time because this program is not compiled for OpenMP itself. */
static struct {
    void (*set)(int);
    int (*me)(void);
    void (*run)(void (*fn)(void *), void *arg, unsigned threads, unsigned flags);
    int threads;
} omp;

static void flush_subnormals(void *arg) { (void)arg, lki_fp_enter(); }

static void in_parallel(void (*fn)(void *), void *arg)
{
    if (omp.run) omp.run(fn, arg, (unsigned)omp.threads, 0);
    else fn(arg);
}

/* 0 when this oneDNN does not use an OpenMP whose threads can be set (libgomp). */
static int onednn_set_threads(int threads)
{
    *(void **)&omp.set = dlsym(RTLD_DEFAULT, "omp_set_num_threads");
    *(void **)&omp.me = dlsym(RTLD_DEFAULT, "omp_get_thread_num");
    *(void **)&omp.run = dlsym(RTLD_DEFAULT, "GOMP_parallel");
    if (!omp.set || !omp.me || !omp.run) return 0;
    omp.threads = threads;
    omp.set(threads);
    in_parallel(flush_subnormals, NULL);
    return 1;
}

/* ---- memory and calls -------------------------------------------------------------------------------------------------------------- */

static desc desc_of(int rank, const int64_t *dims, dnnl_format_tag_t tag)
{
    desc d;
    DNN(dnnl_memory_desc_init_by_tag(&d, rank, dims, dnnl_f32, tag));
    return d;
}

static desc any_of(const desc *like) { return desc_of(like->ndims, like->dims, dnnl_format_tag_any); }

static desc desc_in(mem m)
{
    const desc *d;
    DNN(dnnl_memory_get_memory_desc(m, &d));
    return *d;
}

static void *data_of(mem m)
{
    void *p;
    DNN(dnnl_memory_get_data_handle(m, &p));
    return p;
}

static mem memory_of(onednn_net *n, const desc *d)
{
    mem m;
    DNN(dnnl_memory_create(&m, d, n->engine, DNNL_MEMORY_ALLOCATE));
    memset(data_of(m), 0, dnnl_memory_desc_get_size(d));
    return m;
}

static const desc *asked(dnnl_primitive_desc_t p, dnnl_query_t what) { return dnnl_primitive_desc_query_md(p, what, 0); }

static dnnl_primitive_desc_t describe(onednn_net *n, const void *op, const_dnnl_primitive_attr_t attr, const_dnnl_primitive_desc_t hint)
{
    dnnl_primitive_desc_t p;
    DNN(dnnl_primitive_desc_create(&p, op, attr, n->engine, hint));
    return p;
}

#define ADD(net, pd, ...)                                                                                                          \
    add_call(net, pd, (const dnnl_exec_arg_t[]){__VA_ARGS__}, (int)(sizeof((dnnl_exec_arg_t[]){__VA_ARGS__}) / sizeof(dnnl_exec_arg_t)))

static void add_call(onednn_net *n, dnnl_primitive_desc_t p, const dnnl_exec_arg_t *arg, int count)
{
    call *c = &n->calls[n->count++];
    c->count = count;
    memcpy(c->arg, arg, (size_t)count * sizeof *arg);
    DNN(dnnl_primitive_create(&c->primitive, p));
}

/* The same values in the layout `want`: the memory itself when it has it, otherwise another one and a reorder on the list. */
static mem arranged(onednn_net *n, mem from, const desc *want)
{
    const desc have = desc_in(from);
    if (dnnl_memory_desc_equal(&have, want)) return from;
    mem                   to = memory_of(n, want);
    dnnl_primitive_desc_t p;
    DNN(dnnl_reorder_primitive_desc_create(&p, &have, n->engine, want, n->engine, NULL));
    ADD(n, p, {DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to});
    return to;
}

static void run(onednn_net *n, int from, int to)
{
    for (int i = from; i < to; i++)
        DNN(dnnl_primitive_execute(n->calls[i].primitive, n->stream, n->calls[i].count, n->calls[i].arg));
    DNN(dnnl_stream_wait(n->stream));
}

/* ---- forward ------------------------------------------------------------------------------------------------------------------------- */

static dnnl_primitive_attr_t with_relu(void)
{
    dnnl_post_ops_t       ops;
    dnnl_primitive_attr_t attr;
    DNN(dnnl_post_ops_create(&ops));
    DNN(dnnl_post_ops_append_eltwise(ops, 1, dnnl_eltwise_relu, 0, 0));
    DNN(dnnl_primitive_attr_create(&attr));
    DNN(dnnl_primitive_attr_set_post_ops(attr, ops));
    DNN(dnnl_post_ops_destroy(ops));
    return attr;
}

/* A weight in layout `want`, with the values lockstep's have. */
static weight *new_weight(onednn_net *n, const desc *want, const float *values, dnnl_format_tag_t tag, double l2)
{
    weight    *w = &n->weights[n->nweights++];
    const desc plain = desc_of(want->ndims, want->dims, tag);
    mem        given;
    DNN(dnnl_memory_create(&given, &plain, n->engine, (void *)(uintptr_t)values));
    w->value = memory_of(n, want);
    w->gradient = memory_of(n, want);
    w->size = dnnl_memory_desc_get_size(want) / sizeof(float);
    w->l2 = (float)l2;
    w->m = aligned_alloc(64, (w->size * sizeof(float) + 63) / 64 * 64);
    w->v = aligned_alloc(64, (w->size * sizeof(float) + 63) / 64 * 64);
    memset(w->m, 0, w->size * sizeof(float));
    memset(w->v, 0, w->size * sizeof(float));
    dnnl_primitive_desc_t p;
    dnnl_primitive_t      reorder;
    DNN(dnnl_reorder_primitive_desc_create(&p, &plain, n->engine, want, n->engine, NULL));
    DNN(dnnl_primitive_create(&reorder, p));
    DNN(dnnl_primitive_execute(reorder, n->stream, 2, (dnnl_exec_arg_t[]){{DNNL_ARG_FROM, given}, {DNNL_ARG_TO, w->value}}));
    DNN(dnnl_stream_wait(n->stream));
    return w;
}

static const dnnl_dims_t ONES = {1, 1}, NONE = {0, 0}, TWOS = {2, 2};

/* 3x3 convolution, bias, relu, 2x2 max pool. */
static mem convolution(onednn_net *n, mem x, int64_t out, const float *const *values, double l2)
{
    layer                 *l = &n->layers[n->nlayers++];
    const desc             have = desc_in(x), src = any_of(&have);
    const int64_t         *d = have.dims;
    const desc             w = desc_of(4, (dnnl_dims_t){out, d[1], 3, 3}, dnnl_format_tag_any), b = desc_of(1, (dnnl_dims_t){out}, dnnl_x);
    const desc             dst = desc_of(4, (dnnl_dims_t){d[0], out, d[2] - 2, d[3] - 2}, dnnl_format_tag_any);
    const desc             half = desc_of(4, (dnnl_dims_t){d[0], out, (d[2] - 2) / 2, (d[3] - 2) / 2}, dnnl_format_tag_any);
    dnnl_convolution_desc_t op;
    DNN(dnnl_convolution_forward_desc_init(&op, dnnl_forward_training, dnnl_convolution_auto, &src, &w, &b, &dst, ONES, NONE, NONE));
    dnnl_primitive_desc_t p = l->forward = describe(n, &op, with_relu(), NULL);
    l->convolution = l->relu = 1;
    l->kernel = new_weight(n, asked(p, dnnl_query_weights_md), values[0], dnnl_hwio, l2);
    l->bias = new_weight(n, &b, values[1], dnnl_x, 0);
    l->src = arranged(n, x, asked(p, dnnl_query_src_md));
    l->dst = memory_of(n, asked(p, dnnl_query_dst_md));
    ADD(n, p, {DNNL_ARG_SRC, l->src}, {DNNL_ARG_WEIGHTS, l->kernel->value}, {DNNL_ARG_BIAS, l->bias->value}, {DNNL_ARG_DST, l->dst});

    dnnl_pooling_desc_t pool;
    DNN(dnnl_pooling_forward_desc_init(&pool, dnnl_forward_training, dnnl_pooling_max, asked(p, dnnl_query_dst_md), &half, TWOS, TWOS,
                                       NONE, NONE));
    p = l->pool = describe(n, &pool, NULL, NULL);
    l->pooled = memory_of(n, asked(p, dnnl_query_dst_md));
    l->workspace = memory_of(n, asked(p, dnnl_query_workspace_md));
    ADD(n, p, {DNNL_ARG_SRC, l->dst}, {DNNL_ARG_DST, l->pooled}, {DNNL_ARG_WORKSPACE, l->workspace});
    return l->pooled;
}

/* Inner product of whole images or rows, bias, relu where asked. */
static mem dense(onednn_net *n, mem x, int64_t out, int relu, const float *const *values, double l2)
{
    layer                    *l = &n->layers[n->nlayers++];
    const desc                src = desc_in(x), b = desc_of(1, (dnnl_dims_t){out}, dnnl_x);
    dnnl_dims_t               wide = {out, src.dims[1], src.dims[2], src.dims[3]};
    const desc                w = desc_of(src.ndims, wide, dnnl_format_tag_any);
    const desc                dst = desc_of(2, (dnnl_dims_t){src.dims[0], out}, dnnl_nc), any = any_of(&src);
    dnnl_inner_product_desc_t op;
    DNN(dnnl_inner_product_forward_desc_init(&op, dnnl_forward_training, &any, &w, &b, &dst));
    dnnl_primitive_desc_t p = l->forward = describe(n, &op, relu ? with_relu() : NULL, NULL);
    l->relu = relu;
    l->kernel = new_weight(n, asked(p, dnnl_query_weights_md), values[0], src.ndims == 4 ? dnnl_hwio : dnnl_io, l2);
    l->bias = new_weight(n, &b, values[1], dnnl_x, 0);
    l->src = arranged(n, x, asked(p, dnnl_query_src_md));
    l->dst = memory_of(n, &dst);
    ADD(n, p, {DNNL_ARG_SRC, l->src}, {DNNL_ARG_WEIGHTS, l->kernel->value}, {DNNL_ARG_BIAS, l->bias->value}, {DNNL_ARG_DST, l->dst});
    return l->dst;
}

/* ---- backward ------------------------------------------------------------------------------------------------------------------------ */

/* dy where y > 0, in place; dy first gets y's layout. */
static mem relu_back(onednn_net *n, mem dy, mem y)
{
    const desc          d = desc_in(y);
    dnnl_eltwise_desc_t op;
    dy = arranged(n, dy, &d);
    DNN(dnnl_eltwise_forward_desc_init(&op, dnnl_forward_training, dnnl_eltwise_relu_use_dst_for_bwd, &d, 0, 0));
    dnnl_primitive_desc_t hint = describe(n, &op, NULL, NULL);
    DNN(dnnl_eltwise_backward_desc_init(&op, dnnl_eltwise_relu_use_dst_for_bwd, &d, &d, 0, 0));
    ADD(n, describe(n, &op, NULL, hint), {DNNL_ARG_DST, y}, {DNNL_ARG_DIFF_DST, dy}, {DNNL_ARG_DIFF_SRC, dy});
    return dy;
}

static mem pool_back(onednn_net *n, const layer *l, mem dy)
{
    const desc          dst = desc_in(l->pooled), src = desc_in(l->dst);
    dnnl_pooling_desc_t op;
    mem                 dx = memory_of(n, &src);
    DNN(dnnl_pooling_backward_desc_init(&op, dnnl_pooling_max, &src, &dst, TWOS, TWOS, NONE, NONE));
    ADD(n, describe(n, &op, NULL, l->pool), {DNNL_ARG_DIFF_DST, dy}, {DNNL_ARG_WORKSPACE, l->workspace}, {DNNL_ARG_DIFF_SRC, dx});
    return dx;
}

/* Gradients of kernel and bias; the former ends up in the kernel's own layout. */
static void weights_back(onednn_net *n, const layer *l, mem dy)
{
    const desc                have = desc_in(l->src), src = any_of(&have), kernel = desc_in(l->kernel->value), dw = any_of(&kernel);
    const desc                db = desc_in(l->bias->value), given = desc_in(dy), dst = any_of(&given);
    dnnl_convolution_desc_t   conv;
    dnnl_inner_product_desc_t inner;
    if (l->convolution)
        DNN(dnnl_convolution_backward_weights_desc_init(&conv, dnnl_convolution_auto, &src, &dw, &db, &dst, ONES, NONE, NONE));
    else DNN(dnnl_inner_product_backward_weights_desc_init(&inner, &src, &dw, &db, &dst));
    dnnl_primitive_desc_t p = describe(n, l->convolution ? (void *)&conv : (void *)&inner, NULL, l->forward);
    const desc           *made = asked(p, dnnl_query_diff_weights_md);
    const mem             x = arranged(n, l->src, asked(p, dnnl_query_src_md)), g = arranged(n, dy, asked(p, dnnl_query_diff_dst_md));
    const mem             to = dnnl_memory_desc_equal(made, &kernel) ? l->kernel->gradient : memory_of(n, made);
    ADD(n, p, {DNNL_ARG_SRC, x}, {DNNL_ARG_DIFF_DST, g}, {DNNL_ARG_DIFF_WEIGHTS, to}, {DNNL_ARG_DIFF_BIAS, l->bias->gradient});
    if (to != l->kernel->gradient) l->kernel->gradient = arranged(n, to, &kernel);
}

static mem data_back(onednn_net *n, const layer *l, mem dy)
{
    const desc                have = desc_in(l->src), src = any_of(&have), kernel = desc_in(l->kernel->value), w = any_of(&kernel);
    const desc                given = desc_in(dy), dst = any_of(&given);
    dnnl_convolution_desc_t   conv;
    dnnl_inner_product_desc_t inner;
    if (l->convolution)
        DNN(dnnl_convolution_backward_data_desc_init(&conv, dnnl_convolution_auto, &src, &w, &dst, ONES, NONE, NONE));
    else DNN(dnnl_inner_product_backward_data_desc_init(&inner, &src, &w, &dst));
    dnnl_primitive_desc_t p = describe(n, l->convolution ? (void *)&conv : (void *)&inner, NULL, l->forward);
    const mem             dx = memory_of(n, asked(p, dnnl_query_diff_src_md)), g = arranged(n, dy, asked(p, dnnl_query_diff_dst_md));
    const mem             kernel_there = arranged(n, l->kernel->value, asked(p, dnnl_query_weights_md));
    ADD(n, p, {DNNL_ARG_DIFF_DST, g}, {DNNL_ARG_WEIGHTS, kernel_there}, {DNNL_ARG_DIFF_SRC, dx});
    return dx;
}

static void backward(onednn_net *n, mem dy)
{
    for (int i = n->nlayers - 1; i >= 0; i--) {
        const layer *l = &n->layers[i];
        if (l->relu) dy = relu_back(n, dy, l->convolution ? l->pooled : l->dst);
        if (l->convolution) dy = pool_back(n, l, dy);
        weights_back(n, l, dy);
        if (i) dy = data_back(n, l, dy);
    }
}

/* ---- loss and Adam ------------------------------------------------------------------------------------------------------------------- */

/* The mean over the rows of softmax cross-entropy; its gradient goes to dlogits, and rows classified correctly are counted. */
static double cross_entropy(onednn_net *n, const int32_t *labels)
{
    const float *x = data_of(n->logits);
    float       *dx = data_of(n->dlogits), each = 1 / (float)n->batch;
    double       loss = 0;
    n->hits = 0;
    for (int64_t r = 0; r < n->batch; r++, x += CLASSES, dx += CLASSES) {
        float sum = 0;
        int   top = 0;
        for (int c = 1; c < CLASSES; c++)
            top = x[c] > x[top] ? c : top;
        for (int c = 0; c < CLASSES; c++)
            sum += dx[c] = expf(x[c] - x[top]);
        for (int c = 0; c < CLASSES; c++)
            dx[c] = each * (dx[c] / sum - (c == labels[r] ? 1.0f : 0.0f));
        loss += (double)(logf(sum) - (x[labels[r]] - x[top]));
        n->hits += top == labels[r];
    }
    return loss / (double)n->batch;
}

typedef struct slice {
    float       *w, *m, *v;
    const float *g;
    size_t       count;
    float        rate, l2;
} slice;

static inline __attribute__((always_inline)) double adam(const slice *s)
{
    float        sum[WIDE] = {0};
    const size_t whole = s->count / WIDE * WIDE;
    const float  rate = s->rate, l2 = s->l2;
    for (size_t i = 0; i < s->count; i += WIDE) {
        float *restrict w = s->w + i, *restrict m = s->m + i, *restrict v = s->v + i;
        const float *restrict g = s->g + i;
        const int most = i < whole ? WIDE : (int)(s->count - whole);
#define STEP                                                                                                                       \
    const float dy = g[j] + 2 * l2 * w[j];                                                                                         \
    sum[j] += w[j] * w[j];                                                                                                         \
    m[j] += (dy - m[j]) * 0.1f;                                                                                                    \
    v[j] += (dy * dy - v[j]) * 0.001f;                                                                                             \
    w[j] -= m[j] * rate / (__builtin_sqrtf(v[j]) + 1e-7f);
        if (most == WIDE)
            for (int j = 0; j < WIDE; j++) {
                STEP
            }
        else
            for (int j = 0; j < most; j++) {
                STEP
            }
#undef STEP
    }
    double all = 0;
    for (int j = 0; j < WIDE; j++)
        all += (double)sum[j];
    return all * (double)l2;
}

#if defined(__x86_64__)
__attribute__((target("avx512f,fma"))) static double adam_avx512(const slice *s) { return adam(s); }
__attribute__((target("avx2,fma"))) static double adam_avx2(const slice *s) { return adam(s); }
#endif
static double adam_plain(const slice *s) { return adam(s); }

/* This thread's share of every weight. */
static void update_share(void *arg)
{
    onednn_net  *n = arg;
    const size_t me = omp.me ? (size_t)omp.me() : 0, all = omp.run ? (size_t)omp.threads : 1;
    double (*fn)(const slice *) = adam_plain;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f")) fn = adam_avx512;
    else if (__builtin_cpu_supports("avx2")) fn = adam_avx2;
#endif
    double squares = 0;
    for (int i = 0; i < n->nweights; i++) {
        const weight *w = &n->weights[i];
        const size_t  blocks = (w->size + WIDE - 1) / WIDE, from = blocks * me / all * WIDE, to = blocks * (me + 1) / all * WIDE;
        const size_t  end = to < w->size ? to : w->size;
        if (from >= end) continue;
        squares += fn(&(slice){(float *)data_of(w->value) + from, w->m + from, w->v + from, (float *)data_of(w->gradient) + from,
                               end - from, n->rate, w->l2});
    }
    n->squares[me] = squares;
}

/* ---- the net ------------------------------------------------------------------------------------------------------------------------- */

static onednn_net *onednn_net_new(int convolutions, int64_t batch, double l2, const float *const *values)
{
    onednn_net *n = calloc(1, sizeof *n);
    if (!n) exit(1);
    const desc src = desc_of(4, (dnnl_dims_t){batch, 1, 28, 28}, dnnl_nhwc);
    const desc logits = desc_of(2, (dnnl_dims_t){batch, CLASSES}, dnnl_nc);
    int        i = 0;
    n->batch = batch;
    DNN(dnnl_engine_create(&n->engine, dnnl_cpu, 0));
    DNN(dnnl_stream_create(&n->stream, n->engine, dnnl_stream_default_flags));
    mem x = n->images = memory_of(n, &src);
    for (; i < convolutions; i++)
        x = convolution(n, x, i ? 64 : 32, values + 2 * i, l2);
    x = dense(n, x, 64, 1, values + 2 * i, l2);
    n->logits = dense(n, x, CLASSES, 0, values + 2 * i + 2, l2);
    n->dlogits = memory_of(n, &logits);
    n->loss_at = n->count;
    backward(n, n->dlogits);
    return n;
}

/* Forward, loss, gradients, Adam with Keras' defaults. The loss is that before the update, regularisation included. */
static double onednn_net_step(onednn_net *n, const float *images, const int32_t *labels)
{
    DNN(dnnl_memory_set_data_handle(n->images, (void *)(uintptr_t)images));
    run(n, 0, n->loss_at);
    double loss = cross_entropy(n, labels);
    run(n, n->loss_at, n->count);
    const double t = (double)++n->iteration;
    n->rate = (float)(0.001 * sqrt(1 - pow(0.999, t)) / (1 - pow(0.9, t)));
    in_parallel(update_share, n);
    for (int i = 0; i < (omp.run ? omp.threads : 1); i++)
        loss += n->squares[i];
    return loss;
}

#endif
