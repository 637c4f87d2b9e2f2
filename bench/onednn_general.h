/* Single primitives of oneDNN 2 for bench/general.c: a problem becomes a list of calls in which nothing is reordered. */
#ifndef LK_BENCH_ONEDNN_GENERAL_H
#define LK_BENCH_ONEDNN_GENERAL_H

#include "timing.h"
#include <dlfcn.h>
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

typedef enum dnn_kind { DNN_CONVOLUTION, DNN_MAX_POOL, DNN_AVG_POOL, DNN_RELU, DNN_ADD } dnn_kind;

typedef struct dnn_problem {
    dnn_kind kind;
    int      backward, weights, depthwise;
    int64_t  batch, size, in, out, k, stride, pad, outputs;
} dnn_problem;

enum { DNN_MOST_MEMORIES = 12, DNN_MOST_CALLS = 4 };

/* count 0: oneDNN has no such primitive */
typedef struct dnn_work {
    int              count, memories;
    dnnl_primitive_t primitive[DNN_MOST_CALLS];
    int              args[DNN_MOST_CALLS];
    dnnl_exec_arg_t  arg[DNN_MOST_CALLS][8];
    dnnl_memory_t    memory[DNN_MOST_MEMORIES];
} dnn_work;

static dnnl_engine_t dnn_engine;
static dnnl_stream_t dnn_stream;

static inline void dnn_open(void)
{
    void (*set)(int) = NULL;
    *(void **)&set = dlsym(RTLD_DEFAULT, "omp_set_num_threads");
    if (set) set(1);
    DNN(dnnl_engine_create(&dnn_engine, dnnl_cpu, 0));
    DNN(dnnl_stream_create(&dnn_stream, dnn_engine, dnnl_stream_default_flags));
}

static inline dnnl_memory_desc_t dnn_desc(int rank, const int64_t *dims, dnnl_format_tag_t tag)
{
    dnnl_memory_desc_t d;
    DNN(dnnl_memory_desc_init_by_tag(&d, rank, dims, dnnl_f32, tag));
    return d;
}

static inline dnnl_memory_t dnn_memory(dnn_work *w, const dnnl_memory_desc_t *d)
{
    dnnl_memory_t m;
    void         *p;
    DNN(dnnl_memory_create(&m, d, dnn_engine, DNNL_MEMORY_ALLOCATE));
    DNN(dnnl_memory_get_data_handle(m, &p));
    memset(p, 0, dnnl_memory_desc_get_size(d));
    if (d->data_type == dnnl_f32)
        for (size_t i = 0; i < dnnl_memory_desc_get_size(d) / sizeof(float); i++)
            ((float *)p)[i] = (float)((i * 2654435761u >> 8 & 0xffff)) / 65536.0f - 0.5f;
    return w->memory[w->memories++] = m;
}

static inline dnnl_memory_t dnn_asked(dnn_work *w, dnnl_primitive_desc_t p, dnnl_query_t what)
{
    return dnn_memory(w, dnnl_primitive_desc_query_md(p, what, 0));
}

#define DNN_ADD_CALL(w, pd, ...)                                                                                                   \
    dnn_add_call(w, pd, (const dnnl_exec_arg_t[]){__VA_ARGS__},                                                                    \
                 (int)(sizeof((dnnl_exec_arg_t[]){__VA_ARGS__}) / sizeof(dnnl_exec_arg_t)))

static inline void dnn_add_call(dnn_work *w, dnnl_primitive_desc_t p, const dnnl_exec_arg_t *arg, int count)
{
    memcpy(w->arg[w->count], arg, (size_t)count * sizeof *arg);
    w->args[w->count] = count;
    DNN(dnnl_primitive_create(&w->primitive[w->count++], p));
}

static inline dnnl_primitive_desc_t dnn_describe(const void *op, dnnl_primitive_desc_t hint)
{
    dnnl_primitive_desc_t p = NULL;
    return dnnl_primitive_desc_create(&p, op, NULL, dnn_engine, hint) == dnnl_success ? p : NULL;
}

/* Cells after the image that the last window covers. */
static inline int64_t dnn_behind(const dnn_problem *p) { return (p->outputs - 1) * p->stride + p->k - p->size - p->pad; }

static inline void dnn_convolution(dnn_work *w, const dnn_problem *p, dnnl_format_tag_t tag)
{
    const int64_t            out = p->depthwise ? p->in * p->out : p->out, behind = dnn_behind(p);
    const dnnl_dims_t        s = {p->stride, p->stride}, pad = {p->pad, p->pad}, pad2 = {behind, behind};
    const dnnl_memory_desc_t x = dnn_desc(4, (dnnl_dims_t){p->batch, p->in, p->size, p->size}, tag),
                             y = dnn_desc(4, (dnnl_dims_t){p->batch, out, p->outputs, p->outputs}, tag);
    const dnnl_memory_desc_t k = p->depthwise ? dnn_desc(5, (dnnl_dims_t){p->in, p->out, 1, p->k, p->k}, dnnl_format_tag_any)
                                              : dnn_desc(4, (dnnl_dims_t){out, p->in, p->k, p->k}, dnnl_format_tag_any);
    dnnl_convolution_desc_t  op;
    DNN(dnnl_convolution_forward_desc_init(&op, dnnl_forward_training, dnnl_convolution_auto, &x, &k, NULL, &y, s, pad, pad2));
    dnnl_primitive_desc_t forward = dnn_describe(&op, NULL), d = forward;
    if (forward && p->backward) {
        DNN(dnnl_convolution_backward_data_desc_init(&op, dnnl_convolution_auto, &x, &k, &y, s, pad, pad2));
        if (!(d = dnn_describe(&op, forward))) return;
        DNN_ADD_CALL(w, d, {DNNL_ARG_DIFF_DST, dnn_asked(w, d, dnnl_query_diff_dst_md)},
                     {DNNL_ARG_WEIGHTS, dnn_asked(w, d, dnnl_query_weights_md)},
                     {DNNL_ARG_DIFF_SRC, dnn_asked(w, d, dnnl_query_diff_src_md)});
    } else if (forward && p->weights) {
        DNN(dnnl_convolution_backward_weights_desc_init(&op, dnnl_convolution_auto, &x, &k, NULL, &y, s, pad, pad2));
        if (!(d = dnn_describe(&op, forward))) return;
        DNN_ADD_CALL(w, d, {DNNL_ARG_SRC, dnn_asked(w, d, dnnl_query_src_md)},
                     {DNNL_ARG_DIFF_DST, dnn_asked(w, d, dnnl_query_diff_dst_md)},
                     {DNNL_ARG_DIFF_WEIGHTS, dnn_asked(w, d, dnnl_query_diff_weights_md)});
    } else if (forward)
        DNN_ADD_CALL(w, d, {DNNL_ARG_SRC, dnn_asked(w, d, dnnl_query_src_md)},
                     {DNNL_ARG_WEIGHTS, dnn_asked(w, d, dnnl_query_weights_md)},
                     {DNNL_ARG_DST, dnn_asked(w, d, dnnl_query_dst_md)});
}

static inline void dnn_pool(dnn_work *w, const dnn_problem *p, dnnl_format_tag_t tag)
{
    const dnnl_alg_kind_t    how = p->kind == DNN_MAX_POOL ? dnnl_pooling_max : dnnl_pooling_avg_exclude_padding;
    const int64_t            behind = dnn_behind(p);
    const dnnl_dims_t        s = {p->stride, p->stride}, k = {p->k, p->k}, pad = {p->pad, p->pad}, pad2 = {behind, behind};
    const dnnl_memory_desc_t x = dnn_desc(4, (dnnl_dims_t){p->batch, p->in, p->size, p->size}, tag),
                             y = dnn_desc(4, (dnnl_dims_t){p->batch, p->in, p->outputs, p->outputs}, tag);
    dnnl_pooling_desc_t op;
    DNN(dnnl_pooling_forward_desc_init(&op, dnnl_forward_training, how, &x, &y, s, k, pad, pad2));
    dnnl_primitive_desc_t     forward = dnn_describe(&op, NULL), d = forward;
    const dnnl_memory_desc_t *space = dnnl_primitive_desc_query_md(forward, dnnl_query_workspace_md, 0);
    dnnl_memory_t             workspace = space && dnnl_memory_desc_get_size(space) ? dnn_memory(w, space) : NULL;
    if (p->backward) {
        DNN(dnnl_pooling_backward_desc_init(&op, how, &x, &y, s, k, pad, pad2));
        if (!(d = dnn_describe(&op, forward))) return;
        DNN_ADD_CALL(w, d, {DNNL_ARG_DIFF_DST, dnn_asked(w, d, dnnl_query_diff_dst_md)},
                     {DNNL_ARG_DIFF_SRC, dnn_asked(w, d, dnnl_query_diff_src_md)}, {DNNL_ARG_WORKSPACE, workspace});
    } else
        DNN_ADD_CALL(w, d, {DNNL_ARG_SRC, dnn_asked(w, d, dnnl_query_src_md)}, {DNNL_ARG_DST, dnn_asked(w, d, dnnl_query_dst_md)},
                     {DNNL_ARG_WORKSPACE, workspace});
    if (!workspace) w->args[w->count - 1]--;
}

static inline void dnn_map(dnn_work *w, const dnn_problem *p, dnnl_format_tag_t tag)
{
    const dnnl_memory_desc_t x = dnn_desc(4, (dnnl_dims_t){p->batch, p->in, p->size, p->size}, tag);
    dnnl_eltwise_desc_t      op;
    dnnl_binary_desc_t       two;
    if (p->kind == DNN_ADD) {
        DNN(dnnl_binary_desc_init(&two, dnnl_binary_add, &x, &x, &x));
        DNN_ADD_CALL(w, dnn_describe(&two, NULL), {DNNL_ARG_SRC_0, dnn_memory(w, &x)}, {DNNL_ARG_SRC_1, dnn_memory(w, &x)},
                     {DNNL_ARG_DST, dnn_memory(w, &x)});
        return;
    }
    DNN(dnnl_eltwise_forward_desc_init(&op, dnnl_forward_training, dnnl_eltwise_relu_use_dst_for_bwd, &x, 0, 0));
    dnnl_primitive_desc_t forward = dnn_describe(&op, NULL);
    if (p->backward) {
        DNN(dnnl_eltwise_backward_desc_init(&op, dnnl_eltwise_relu_use_dst_for_bwd, &x, &x, 0, 0));
        DNN_ADD_CALL(w, dnn_describe(&op, forward), {DNNL_ARG_DST, dnn_memory(w, &x)}, {DNNL_ARG_DIFF_DST, dnn_memory(w, &x)},
                     {DNNL_ARG_DIFF_SRC, dnn_memory(w, &x)});
    } else DNN_ADD_CALL(w, forward, {DNNL_ARG_SRC, dnn_memory(w, &x)}, {DNNL_ARG_DST, dnn_memory(w, &x)});
}

/* `plain`: NHWC, otherwise the layout oneDNN likes. */
static inline dnn_work dnn_make(const dnn_problem *p, int plain)
{
    dnn_work w = {0};
    if (p->kind == DNN_CONVOLUTION) dnn_convolution(&w, p, plain ? dnnl_nhwc : dnnl_format_tag_any);
    else if (p->kind == DNN_RELU || p->kind == DNN_ADD) dnn_map(&w, p, plain ? dnnl_nhwc : dnnl_nChw16c);
    else dnn_pool(&w, p, plain ? dnnl_nhwc : dnnl_nChw16c);
    return w;
}

/* Batch normalisation with relu while training, forward and backward. */
static inline dnn_work dnn_norm(const int64_t *nhwc, int plain)
{
    dnn_work                        w = {0};
    const unsigned                  flags = dnnl_use_scaleshift | dnnl_fuse_norm_relu;
    dnnl_batch_normalization_desc_t op;
    const dnnl_memory_desc_t x = dnn_desc(4, (dnnl_dims_t){nhwc[0], nhwc[3], nhwc[1], nhwc[2]}, plain ? dnnl_nhwc : dnnl_nChw16c);
    const dnnl_memory_desc_t channels = dnn_desc(1, (dnnl_dims_t){nhwc[3]}, dnnl_x);
    DNN(dnnl_batch_normalization_forward_desc_init(&op, dnnl_forward_training, &x, 1e-3f, flags));
    dnnl_primitive_desc_t f = dnn_describe(&op, NULL);
    const dnnl_memory_t   in = dnn_memory(&w, &x), dy = dnn_memory(&w, &x), mean = dnn_memory(&w, &channels);
    const dnnl_memory_t   variance = dnn_memory(&w, &channels), scale = dnn_asked(&w, f, dnnl_query_weights_md),
                        space = dnn_asked(&w, f, dnnl_query_workspace_md);
    DNN_ADD_CALL(&w, f, {DNNL_ARG_SRC, in}, {DNNL_ARG_DST, dnn_memory(&w, &x)}, {DNNL_ARG_MEAN, mean},
                 {DNNL_ARG_VARIANCE, variance}, {DNNL_ARG_SCALE_SHIFT, scale}, {DNNL_ARG_WORKSPACE, space});
    DNN(dnnl_batch_normalization_backward_desc_init(&op, dnnl_backward, &x, &x, 1e-3f, flags));
    dnnl_primitive_desc_t b = dnn_describe(&op, f);
    if (!b) return w.count = 0, w;
    DNN_ADD_CALL(&w, b, {DNNL_ARG_SRC, in}, {DNNL_ARG_DIFF_DST, dy}, {DNNL_ARG_DIFF_SRC, dnn_memory(&w, &x)}, {DNNL_ARG_MEAN, mean},
                 {DNNL_ARG_VARIANCE, variance}, {DNNL_ARG_SCALE_SHIFT, scale},
                 {DNNL_ARG_DIFF_SCALE_SHIFT, dnn_asked(&w, b, dnnl_query_diff_weights_md)}, {DNNL_ARG_WORKSPACE, space});
    return w;
}

static inline void dnn_run(void *arg)
{
    dnn_work *w = arg;
    for (int i = 0; i < w->count; i++)
        DNN(dnnl_primitive_execute(w->primitive[i], dnn_stream, w->args[i], w->arg[i]));
    DNN(dnnl_stream_wait(dnn_stream));
}

static inline void dnn_free(dnn_work *w)
{
    for (int i = 0; i < w->count; i++)
        dnnl_primitive_destroy(w->primitive[i]);
    for (int i = 0; i < w->memories; i++)
        dnnl_memory_destroy(w->memory[i]);
}

#endif
