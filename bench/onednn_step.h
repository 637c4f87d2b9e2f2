/* A training step written directly on oneDNN 2's C interface, for bench/step.c to compare with: forward, loss, gradients, Adam of
 * the two models of tests/step/models.h.
 *
 * What a careful user of oneDNN would write:
 *  - weights and images in the layouts the primitives choose (format_tag any), reorders only where two of them disagree; or, where
 *    that is faster, images by rows (NHWC), and layouts and algorithms named by hand: the choices below are tried on this machine,
 *    one after another, and the faster way is kept;
 *  - relu inside convolution and inner product, and on the way back applied to the pooled gradient, which is four times smaller;
 *  - Adam in one pass over gradient, moments and weights, vectorised and spread over oneDNN's own OpenMP threads;
 *  - subnormals flushed on every thread.
 * The primitives are created once; a step replays a list of calls.
 *
 *     onednn_set_threads(2);
 *     onednn_net *net = onednn_net_best(&(onednn_model){convolutions, batch, l2, weights}, images, labels);
 *     double loss = onednn_net_step(net, images, labels); */
#ifndef LK_BENCH_ONEDNN_STEP_H
#define LK_BENCH_ONEDNN_STEP_H

#include "core/thread.h"
#include "timing.h"
#include <dlfcn.h>
#include <math.h>
#include <oneapi/dnnl/dnnl.h>
#include <stdint.h>

#define DNN(call)                                                                                                                  \
    do {                                                                                                                           \
        const dnnl_status_t status_ = (call);                                                                                      \
        if (status_ != dnnl_success) {                                                                                             \
            fprintf(stderr, "oneDNN: %s: status %d\n", #call, (int)status_);                                                       \
            exit(1);                                                                                                               \
        }                                                                                                                          \
    } while (0)

enum { MOST_CALLS = 64, MOST_MEMORIES = 128, MOST_LAYERS = 4, MOST_WEIGHTS = 2 * MOST_LAYERS, CLASSES = 10, WIDE = 16 };

/* What can be chosen: the first way named, or the second. */
enum choice {
    FIRST_ALGORITHM,   /* of the first convolution: direct, or what oneDNN takes by itself (often Winograd) */
    FORWARD_ALGORITHM, /* of the second one, likewise; */
    DATA_ALGORITHM,    /* of its gradient for the images, */
    WEIGHTS_ALGORITHM, /* and for the weights */
    IMAGES,            /* layout: any, NHWC */
    DENSE_SRC,         /* layout: any, what the pool gives */
    DENSE_WEIGHTS,     /* layout on the way back: any, what the forward pass has */
    CHOICES
};

typedef struct onednn_model {
    int                 convolutions;
    int64_t             batch;
    double              l2;
    const float *const *weights; /* kernel, bias, ... as lockstep stores them */
} onednn_model;

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
    int                   convolution, relu;
    mem                   src, dst, pooled, workspace;
    dnnl_primitive_desc_t forward, pool; /* hints for the backward primitives */
    weight               *kernel, *bias;
} layer;

typedef struct onednn_net {
    dnnl_engine_t         engine;
    dnnl_stream_t         stream;
    int                   way[CHOICES];
    call                  calls[MOST_CALLS];
    int                   count, loss_at; /* calls before loss_at are the forward pass */
    mem                   memories[MOST_MEMORIES];
    dnnl_primitive_desc_t descs[MOST_MEMORIES];
    int                   nmemories, ndescs;
    layer                 layers[MOST_LAYERS];
    weight                weights[MOST_WEIGHTS];
    int                   nlayers, nweights;
    mem                   images, logits, dlogits;
    int64_t               batch, iteration;
    double                squares[256]; /* l2 * w * w per thread */
    float                 rate;
    int                   hits;
} onednn_net;

/* ---- threads ---------------------------------------------------------------------------------------------------------------- */

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
    if (!omp.set || !omp.me || !omp.run || threads > 256) return 0;
    omp.threads = threads;
    omp.set(threads);
    in_parallel(flush_subnormals, NULL);
    return 1;
}

/* ---- memory and calls ------------------------------------------------------------------------------------------------------- */

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
    n->memories[n->nmemories++] = m;
    memset(data_of(m), 0, dnnl_memory_desc_get_size(d));
    return m;
}

static const desc *asked(dnnl_primitive_desc_t p, dnnl_query_t what) { return dnnl_primitive_desc_query_md(p, what, 0); }

/* NULL where there is no such primitive. */
static dnnl_primitive_desc_t try_describe(onednn_net *n, const void *op, const_dnnl_primitive_attr_t attr,
                                          const_dnnl_primitive_desc_t hint)
{
    dnnl_primitive_desc_t p = NULL;
    if (dnnl_primitive_desc_create(&p, op, attr, n->engine, hint) != dnnl_success) return NULL;
    return n->descs[n->ndescs++] = p;
}

static dnnl_primitive_desc_t describe(onednn_net *n, const void *op, const_dnnl_primitive_attr_t attr,
                                      const_dnnl_primitive_desc_t hint)
{
    dnnl_primitive_desc_t p = try_describe(n, op, attr, hint);
    if (p) return p;
    fprintf(stderr, "oneDNN: a primitive is not supported\n");
    exit(1);
}

#define ADD(net, pd, ...)                                                                                                          \
    add_call(net, pd, (const dnnl_exec_arg_t[]){__VA_ARGS__},                                                                      \
             (int)(sizeof((dnnl_exec_arg_t[]){__VA_ARGS__}) / sizeof(dnnl_exec_arg_t)))

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
    n->descs[n->ndescs++] = p;
    ADD(n, p, {DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to});
    return to;
}

static void run(onednn_net *n, int from, int to)
{
    for (int i = from; i < to; i++)
        DNN(dnnl_primitive_execute(n->calls[i].primitive, n->stream, n->calls[i].count, n->calls[i].arg));
    DNN(dnnl_stream_wait(n->stream));
}

/* ---- forward ---------------------------------------------------------------------------------------------------------------- */

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
    DNN(dnnl_primitive_destroy(reorder));
    DNN(dnnl_primitive_desc_destroy(p));
    DNN(dnnl_memory_destroy(given));
    return w;
}

static const dnnl_dims_t ONES = {1, 1}, NONE = {0, 0}, TWOS = {2, 2};

static dnnl_alg_kind_t algorithm(const onednn_net *n, const layer *l, enum choice which)
{
    return n->way[l == n->layers ? FIRST_ALGORITHM : which] ? dnnl_convolution_auto : dnnl_convolution_direct;
}

static desc images_of(const onednn_net *n, int64_t channels, int64_t height, int64_t width)
{
    return desc_of(4, (dnnl_dims_t){n->batch, channels, height, width}, n->way[IMAGES] ? dnnl_nhwc : dnnl_format_tag_any);
}

/* 3x3 convolution, bias, relu, 2x2 max pool. */
static mem convolution(onednn_net *n, mem x, int64_t out, const float *const *values, double l2)
{
    layer                  *l = &n->layers[n->nlayers++];
    const desc              have = desc_in(x);
    const int64_t           in = have.dims[1], height = have.dims[2] - 2, width = have.dims[3] - 2;
    const desc              src = images_of(n, in, height + 2, width + 2), dst = images_of(n, out, height, width);
    const desc              half = images_of(n, out, height / 2, width / 2), b = desc_of(1, (dnnl_dims_t){out}, dnnl_x);
    const desc              w = desc_of(4, (dnnl_dims_t){out, in, 3, 3}, dnnl_format_tag_any);
    const dnnl_alg_kind_t   how = algorithm(n, l, FORWARD_ALGORITHM);
    dnnl_primitive_attr_t   relu = with_relu();
    dnnl_convolution_desc_t op;
    DNN(dnnl_convolution_forward_desc_init(&op, dnnl_forward_training, how, &src, &w, &b, &dst, ONES, NONE, NONE));
    dnnl_primitive_desc_t p = l->forward = describe(n, &op, relu, NULL);
    DNN(dnnl_primitive_attr_destroy(relu));
    l->convolution = l->relu = 1;
    l->kernel = new_weight(n, asked(p, dnnl_query_weights_md), values[0], dnnl_hwio, l2);
    l->bias = new_weight(n, &b, values[1], dnnl_x, 0);
    l->src = arranged(n, x, asked(p, dnnl_query_src_md));
    l->dst = memory_of(n, asked(p, dnnl_query_dst_md));
    ADD(n, p, {DNNL_ARG_SRC, l->src}, {DNNL_ARG_WEIGHTS, l->kernel->value}, {DNNL_ARG_BIAS, l->bias->value},
        {DNNL_ARG_DST, l->dst});

    dnnl_pooling_desc_t pool;
    DNN(dnnl_pooling_forward_desc_init(&pool, dnnl_forward_training, dnnl_pooling_max, asked(p, dnnl_query_dst_md), &half, TWOS,
                                       TWOS, NONE, NONE));
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
    dnnl_primitive_attr_t     attr = relu ? with_relu() : NULL;
    dnnl_inner_product_desc_t op;
    dnnl_primitive_desc_t     p = NULL;
    for (int given = n->way[DENSE_SRC]; !p && given >= 0; given--) {
        DNN(dnnl_inner_product_forward_desc_init(&op, dnnl_forward_training, given ? &src : &any, &w, &b, &dst));
        p = l->forward = given ? try_describe(n, &op, attr, NULL) : describe(n, &op, attr, NULL);
    }
    if (attr) DNN(dnnl_primitive_attr_destroy(attr));
    l->relu = relu;
    l->kernel = new_weight(n, asked(p, dnnl_query_weights_md), values[0], src.ndims == 4 ? dnnl_hwio : dnnl_io, l2);
    l->bias = new_weight(n, &b, values[1], dnnl_x, 0);
    l->src = arranged(n, x, asked(p, dnnl_query_src_md));
    l->dst = memory_of(n, &dst);
    ADD(n, p, {DNNL_ARG_SRC, l->src}, {DNNL_ARG_WEIGHTS, l->kernel->value}, {DNNL_ARG_BIAS, l->bias->value},
        {DNNL_ARG_DST, l->dst});
    return l->dst;
}

/* ---- backward --------------------------------------------------------------------------------------------------------------- */

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

/* Of the weights (or of the data) of a layer: the layouts that were asked for, or any where those have no primitive. */
static dnnl_primitive_desc_t describe_back(onednn_net *n, const layer *l, int data, const desc *dy)
{
    const desc have = desc_in(l->src), src = l->convolution && n->way[IMAGES] ? have : any_of(&have), db = desc_in(l->bias->value);
    const desc dst = l->convolution && n->way[IMAGES] ? *dy : any_of(dy), kernel = desc_in(l->kernel->value), any = any_of(&kernel);
    const dnnl_alg_kind_t     how = algorithm(n, l, data ? DATA_ALGORITHM : WEIGHTS_ALGORITHM);
    dnnl_convolution_desc_t   conv;
    dnnl_inner_product_desc_t inner;
    if (l->convolution && data) DNN(dnnl_convolution_backward_data_desc_init(&conv, how, &src, &any, &dst, ONES, NONE, NONE));
    if (l->convolution && !data)
        DNN(dnnl_convolution_backward_weights_desc_init(&conv, how, &src, &any, &db, &dst, ONES, NONE, NONE));
    if (l->convolution) return describe(n, &conv, NULL, l->forward);
    for (int given = n->way[DENSE_WEIGHTS]; given >= 0; given--) {
        const desc *w = given ? &kernel : &any, *x = given ? &have : &src;
        if (data) DNN(dnnl_inner_product_backward_data_desc_init(&inner, x, w, &dst));
        else DNN(dnnl_inner_product_backward_weights_desc_init(&inner, x, w, &db, &dst));
        dnnl_primitive_desc_t p = try_describe(n, &inner, NULL, l->forward);
        if (p) return p;
    }
    return describe(n, &inner, NULL, l->forward);
}

/* Gradients of kernel and bias; the former ends up in the kernel's own layout. */
static void weights_back(onednn_net *n, const layer *l, mem dy)
{
    const desc            kernel = desc_in(l->kernel->value), given = desc_in(dy);
    dnnl_primitive_desc_t p = describe_back(n, l, 0, &given);
    const desc           *made = asked(p, dnnl_query_diff_weights_md);
    const mem x = arranged(n, l->src, asked(p, dnnl_query_src_md)), g = arranged(n, dy, asked(p, dnnl_query_diff_dst_md));
    const mem to = dnnl_memory_desc_equal(made, &kernel) ? l->kernel->gradient : memory_of(n, made);
    ADD(n, p, {DNNL_ARG_SRC, x}, {DNNL_ARG_DIFF_DST, g}, {DNNL_ARG_DIFF_WEIGHTS, to}, {DNNL_ARG_DIFF_BIAS, l->bias->gradient});
    if (to != l->kernel->gradient) l->kernel->gradient = arranged(n, to, &kernel);
}

static mem data_back(onednn_net *n, const layer *l, mem dy)
{
    const desc            given = desc_in(dy);
    dnnl_primitive_desc_t p = describe_back(n, l, 1, &given);
    const mem dx = memory_of(n, asked(p, dnnl_query_diff_src_md)), g = arranged(n, dy, asked(p, dnnl_query_diff_dst_md));
    const mem kernel = arranged(n, l->kernel->value, asked(p, dnnl_query_weights_md));
    ADD(n, p, {DNNL_ARG_DIFF_DST, g}, {DNNL_ARG_WEIGHTS, kernel}, {DNNL_ARG_DIFF_SRC, dx});
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

/* ---- loss and Adam ---------------------------------------------------------------------------------------------------------- */

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

#if defined(__clang__)
#define VECTORISED /* loops are, at -O2 */
#else
#define VECTORISED __attribute__((optimize("O3")))
#endif

#if defined(__x86_64__)
__attribute__((target("avx512f,fma"))) VECTORISED static double adam_avx512(const slice *s) { return adam(s); }
__attribute__((target("avx2,fma"))) VECTORISED static double    adam_avx2(const slice *s) { return adam(s); }
#endif
VECTORISED static double adam_plain(const slice *s) { return adam(s); }

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

/* ---- the net ---------------------------------------------------------------------------------------------------------------- */

static onednn_net *onednn_net_new(const onednn_model *m, const int *way)
{
    onednn_net *n = calloc(1, sizeof *n);
    if (!n) exit(1);
    const desc src = desc_of(4, (dnnl_dims_t){m->batch, 1, 28, 28}, dnnl_nhwc);
    const desc logits = desc_of(2, (dnnl_dims_t){m->batch, CLASSES}, dnnl_nc);
    int        i = 0;
    n->batch = m->batch;
    memcpy(n->way, way, sizeof n->way);
    DNN(dnnl_engine_create(&n->engine, dnnl_cpu, 0));
    DNN(dnnl_stream_create(&n->stream, n->engine, dnnl_stream_default_flags));
    mem x = n->images = memory_of(n, &src);
    for (; i < m->convolutions; i++)
        x = convolution(n, x, i ? 64 : 32, m->weights + 2 * i, m->l2);
    x = dense(n, x, 64, 1, m->weights + 2 * i, m->l2);
    n->logits = dense(n, x, CLASSES, 0, m->weights + 2 * i + 2, m->l2);
    n->dlogits = memory_of(n, &logits);
    n->loss_at = n->count;
    backward(n, n->dlogits);
    return n;
}

static void onednn_net_free(onednn_net *n)
{
    for (int i = 0; i < n->count; i++)
        DNN(dnnl_primitive_destroy(n->calls[i].primitive));
    for (int i = 0; i < n->ndescs; i++)
        DNN(dnnl_primitive_desc_destroy(n->descs[i]));
    for (int i = 0; i < n->nmemories; i++)
        DNN(dnnl_memory_destroy(n->memories[i]));
    for (int i = 0; i < n->nweights; i++) {
        free(n->weights[i].m);
        free(n->weights[i].v);
    }
    DNN(dnnl_stream_destroy(n->stream));
    DNN(dnnl_engine_destroy(n->engine));
    free(n);
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

static double onednn_seconds(const onednn_model *m, const int *way, const float *images, const int32_t *labels)
{
    onednn_net  *n = onednn_net_new(m, way);
    const double start = now();
    double       best = 1e9, before = start;
    for (int i = 0; i < 8 && (i < 3 || before < start + 0.2); i++) {
        onednn_net_step(n, images, labels);
        const double after = now(), each = after - before;
        best = each < best ? each : best;
        before = after;
    }
    onednn_net_free(n);
    return best;
}

/* Choice after choice, both ways are tried on this batch and the faster one stays. */
static onednn_net *onednn_net_best(const onednn_model *m, const float *images, const int32_t *labels)
{
    int    way[CHOICES] = {0};
    double best = onednn_seconds(m, way, images, labels);
    for (int c = 0; c < CHOICES; c++) {
        const int second = c == FORWARD_ALGORITHM || c == DATA_ALGORITHM || c == WEIGHTS_ALGORITHM;
        if (second && m->convolutions < 2) continue;
        way[c] = 1;
        const double each = onednn_seconds(m, way, images, labels);
        if (each < best) best = each;
        else way[c] = 0;
    }
    return onednn_net_new(m, way);
}

#endif
