/* How fast the products of dense, attention and recurrent layers are, on one thread: GFLOP/s of each instruction set, beside
 * oneDNN.
 *
 *     gemm [--quick] [part of a name]
 *
 * Shapes are those of training steps: a multilayer perceptron 784-1024-1024-10, a transformer encoder (64 steps of 128, four heads
 * of 32, feed-forward 256) on lanes of 8 rows, the dense layer of the basic model, an LSTM of 128 units over 32 steps.
 *
 * A weight gradient is summed up the tree of 8 lanes, which oneDNN does not do: it runs one sum over all rows. "pieces of n" is the
 * same product made n rows of the result at a time, as a step does when the optimiser takes each piece while it is in cache. oneDNN
 * has its matmul primitive on the layouts as they are and its sgemm, and the faster of the two counts. Its LSTM keeps weights in
 * the layouts it likes best, made before the clock runs; lockstep's is a compiled function of forward pass and gradients from plain
 * weights.
 *
 * Calls of all sides take turns, so that what disturbs the machine disturbs all; the best of several rounds counts. */
#include "core/cpu.h"
#include "core/thread.h"
#include "kernel/kernel.h"
#include "kernel/register.h"
#include "timing.h"
#include <dlfcn.h>
#include <lockstep.h>

#if defined(LK_HAVE_ONEDNN)
#include <oneapi/dnnl/dnnl_version.h>
#if DNNL_VERSION_MAJOR == 2
#include <oneapi/dnnl/dnnl.h>
#define WITH_ONEDNN 1
#endif
#endif

/* ---- cases ----------------------------------------------------------------------------------------------------------------- */

typedef struct gemm {
    const char *name;
    int64_t     batch[2]; /* leading axes; 0: none */
    int64_t     M, N, K;
    int         ta, tb, lanes;
    int64_t     piece;  /* rows of the result per call; 0: all */
    int         copies; /* of the second operand, taken in turn, so that it comes from outer caches; 0: one */
} gemm;

static const gemm GEMMS[] = {
    {"mlp forward 8 x 784 x 1024", {0}, 8, 1024, 784, 0, 0, 0, 0, 0},
    {"mlp forward 64 x 784 x 1024", {0}, 64, 1024, 784, 0, 0, 0, 0, 0},
    {"mlp forward 128 x 784 x 1024", {0}, 128, 1024, 784, 0, 0, 0, 0, 0},
    {"mlp forward 1024 x 784 x 1024", {0}, 1024, 1024, 784, 0, 0, 0, 0, 0},
    {"mlp forward 8 x 1024 x 1024", {0}, 8, 1024, 1024, 0, 0, 0, 0, 0},
    {"mlp forward 32 x 1024 x 1024", {0}, 32, 1024, 1024, 0, 0, 0, 0, 0},
    {"mlp forward 64 x 1024 x 1024", {0}, 64, 1024, 1024, 0, 0, 0, 0, 0},
    {"mlp forward 128 x 1024 x 1024", {0}, 128, 1024, 1024, 0, 0, 0, 0, 0},
    {"mlp forward 1024 x 1024 x 1024", {0}, 1024, 1024, 1024, 0, 0, 0, 0, 0},
    {"  b not in cache", {0}, 32, 1024, 1024, 0, 0, 0, 0, 5},
    {"  b not in cache, 64 rows", {0}, 64, 1024, 1024, 0, 0, 0, 0, 5},
    {"mlp last 64 x 1024 x 10", {0}, 64, 10, 1024, 0, 0, 0, 0, 0},
    {"mlp grad x 8 x 1024 x 1024", {0}, 8, 1024, 1024, 0, 1, 0, 0, 0},
    {"mlp grad x 32 x 1024 x 1024", {0}, 32, 1024, 1024, 0, 1, 0, 0, 0},
    {"  b not in cache ", {0}, 32, 1024, 1024, 0, 1, 0, 0, 5},
    {"  b not in cache, 64 rows ", {0}, 64, 1024, 1024, 0, 1, 0, 0, 5},
    {"mlp grad x 64 x 1024 x 1024", {0}, 64, 1024, 1024, 0, 1, 0, 0, 0},
    {"mlp grad x 128 x 1024 x 1024", {0}, 128, 1024, 1024, 0, 1, 0, 0, 0},
    {"mlp grad x 1024 x 1024 x 1024", {0}, 1024, 1024, 1024, 0, 1, 0, 0, 0},
    {"mlp grad x 64 x 10 x 1024", {0}, 64, 1024, 10, 0, 1, 0, 0, 0},
    {"mlp grad w 784 x 1024 of 64, 8 lanes", {0}, 784, 1024, 64, 1, 0, 8, 0, 0},
    {"mlp grad w 1024 x 1024 of 64, 8 lanes", {0}, 1024, 1024, 64, 1, 0, 8, 0, 0},
    {"  in pieces of 4", {0}, 1024, 1024, 64, 1, 0, 8, 4, 0},
    {"  in pieces of 32", {0}, 1024, 1024, 64, 1, 0, 8, 32, 0},
    {"  in pieces of 128", {0}, 1024, 1024, 64, 1, 0, 8, 128, 0},
    {"mlp grad w 784 x 1024 of 1024, 8 lanes", {0}, 784, 1024, 1024, 1, 0, 8, 0, 0},
    {"mlp grad w 1024 x 1024 of 1024, 8 lanes", {0}, 1024, 1024, 1024, 1, 0, 8, 0, 0},
    {"  in pieces of 4 ", {0}, 1024, 1024, 1024, 1, 0, 8, 4, 0},
    {"  in pieces of 32 ", {0}, 1024, 1024, 1024, 1, 0, 8, 32, 0},
    {"  in pieces of 128 ", {0}, 1024, 1024, 1024, 1, 0, 8, 128, 0},
    {"mlp grad w 1024 x 10 of 64, 8 lanes", {0}, 1024, 10, 64, 1, 0, 8, 0, 0},
    {"attention q.kT [8, 4, 64x32 . 32x64]", {8, 4}, 64, 64, 32, 0, 1, 0, 0, 0},
    {"attention s.v [8, 4, 64x64 . 64x32]", {8, 4}, 64, 32, 64, 0, 0, 0, 0, 0},
    {"attention grad s [8, 4, 64x32 . 32x64]", {8, 4}, 64, 64, 32, 0, 1, 0, 0, 0},
    {"attention grad v [8, 4, (64x64)T . 64x32]", {8, 4}, 64, 32, 64, 1, 0, 0, 0, 0},
    {"attention grad q [8, 4, 64x64 . 64x32]", {8, 4}, 64, 32, 64, 0, 0, 0, 0, 0},
    {"attention [32, 64x32 . 32x64]", {32, 0}, 64, 64, 32, 0, 0, 0, 0, 0},
    {"attention [32, 64x64 . 64x32]", {32, 0}, 64, 32, 64, 0, 0, 0, 0, 0},
    {"projection 512 x 128 x 128", {0}, 512, 128, 128, 0, 0, 0, 0, 0},
    {"projection grad x 512 x 128 x 128", {0}, 512, 128, 128, 0, 1, 0, 0, 0},
    {"projection grad w 128 x 128 of 512, 1 lane", {0}, 128, 128, 512, 1, 0, 1, 0, 0},
    {"projection grad w 128 x 128 of 4096, 8 lanes", {0}, 128, 128, 4096, 1, 0, 8, 0, 0},
    {"feed-forward 512 x 128 x 256", {0}, 512, 256, 128, 0, 0, 0, 0, 0},
    {"feed-forward 512 x 256 x 128", {0}, 512, 128, 256, 0, 0, 0, 0, 0},
    {"feed-forward grad x 512 x 256 x 128", {0}, 512, 128, 256, 0, 1, 0, 0, 0},
    {"feed-forward grad x 512 x 128 x 256", {0}, 512, 256, 128, 0, 1, 0, 0, 0},
    {"feed-forward grad w 128 x 256 of 512, 1 lane", {0}, 128, 256, 512, 1, 0, 1, 0, 0},
    {"feed-forward grad w 128 x 256 of 4096, 8 lanes", {0}, 128, 256, 4096, 1, 0, 8, 0, 0},
    {"basic dense 8 x 5408 x 64", {0}, 8, 64, 5408, 0, 0, 0, 0, 0},
    {"basic dense 32 x 5408 x 64", {0}, 32, 64, 5408, 0, 0, 0, 0, 0},
    {"basic dense grad x 8 x 64 x 5408", {0}, 8, 5408, 64, 0, 1, 0, 0, 0},
    {"basic dense grad x 32 x 64 x 5408", {0}, 32, 5408, 64, 0, 1, 0, 0, 0},
    {"basic dense grad w 5408 x 64 of 64, 8 lanes", {0}, 5408, 64, 64, 1, 0, 8, 0, 0},
    {"lstm cell 8 x 128 x 512", {0}, 8, 512, 128, 0, 0, 0, 0, 0},
    {"lstm cell 64 x 128 x 512", {0}, 64, 512, 128, 0, 0, 0, 0, 0},
    {"lstm cell grad h 8 x 512 x 128", {0}, 8, 128, 512, 0, 1, 0, 0, 0},
    {"lstm cell grad h 64 x 512 x 128", {0}, 64, 128, 512, 0, 1, 0, 0, 0},
};

typedef struct lstm {
    const char *name;
    int64_t     rows, steps, in, units;
} lstm;

static const lstm LSTMS[] = {
    {"lstm layer 8 rows, 32 steps of 64, 128 units", 8, 32, 64, 128},
    {"lstm layer 64 rows, 32 steps of 64, 128 units", 64, 32, 64, 128},
    {"lstm layer 64 rows, 32 steps of 128, 128 units", 64, 32, 128, 128},
};

enum { AVX2, AVX512, ONEDNN, SGEMM, SIDES };

/* ---- our side -------------------------------------------------------------------------------------------------------------- */

static float *numbers(int64_t n)
{
    float *p = pages((size_t)n * sizeof *p);
    for (int64_t i = 0; i < n; i++)
        p[i] = (float)((i * 2654435761u >> 8 & 0xffff) - 32768) / 32768.0f;
    return p;
}

static int64_t batches(const gemm *g) { return (g->batch[0] ? g->batch[0] : 1) * (g->batch[1] ? g->batch[1] : 1); }

static lk_shape matrix(const gemm *g, int64_t rows, int64_t columns)
{
    lk_shape s = {0};
    for (int i = 0; i < 2 && g->batch[i]; i++)
        s.dim[s.rank++] = g->batch[i];
    s.dim[s.rank++] = rows;
    s.dim[s.rank++] = columns;
    return s;
}

/* Copies of the second operand. */
typedef struct turns {
    float  *first;
    int64_t size;
    int     count, at;
} turns;

static turns turns_of(const gemm *g, float *first)
{
    return (turns){first, batches(g) * g->K * g->N, g->copies ? g->copies : 1, 0};
}

static float *next_turn(turns *t)
{
    t->at = t->at + 1 < t->count ? t->at + 1 : 0;
    return t->first + t->at * t->size;
}

typedef struct ours {
    lki_kernel *fn;
    lki_args    args;
    int64_t     piece, size;
    turns       turn;
    lk_shape    a, b, c;
    lki_view    view[3];
    lki_attr    attr;
    lki_lanes   lanes;
    int64_t     bound[65];
} ours;

static void ours_run(void *arg)
{
    ours *o = arg;
    o->view[1].data = next_turn(&o->turn);
    for (o->args.lo = 0; o->args.lo < o->size; o->args.lo = o->args.hi) {
        o->args.hi = lki_min(o->args.lo + o->piece, o->size);
        o->fn(&o->args);
    }
}

static void ours_make(ours *o, const lki_kernels *k, const gemm *g, float *const data[3])
{
    *o = (ours){.fn = k->fn[LKI_K_matmul][LK_F32],
                .size = batches(g) * g->M * g->N,
                .piece = g->piece * g->N,
                .turn = turns_of(g, data[1])};
    if (!o->piece) o->piece = o->size;
    o->a = g->ta ? matrix(g, g->K, g->M) : matrix(g, g->M, g->K);
    o->b = g->tb ? matrix(g, g->N, g->K) : matrix(g, g->K, g->N);
    o->c = matrix(g, g->M, g->N);
    o->view[0] = (lki_view){data[0], &o->a, LK_F32};
    o->view[1] = (lki_view){data[1], &o->b, LK_F32};
    o->view[2] = (lki_view){data[2], &o->c, LK_F32};
    o->attr.matmul.ta = g->ta;
    o->attr.matmul.tb = g->tb;
    for (int s = 0; s <= g->lanes; s++)
        o->bound[s] = g->lanes ? lki_ceil_div(s * g->K, g->lanes) : 0;
    o->lanes = (lki_lanes){g->lanes, o->bound};
    o->args = (lki_args){
        .src = o->view, .dst = o->view + 2, .nsrc = 2, .ndst = 1, .attr = &o->attr, .lanes = g->lanes ? &o->lanes : NULL};
    o->args.hi = o->size;
    const size_t bytes = k->scratch[LKI_K_matmul][LK_F32] ? k->scratch[LKI_K_matmul][LK_F32](&o->args) : 0;
    o->args.scratch = bytes ? pages(bytes) : NULL;
}

/* ---- oneDNN ---------------------------------------------------------------------------------------------------------------- */

#if defined(WITH_ONEDNN)

#define DNN(call)                                                                                                                  \
    do {                                                                                                                           \
        const dnnl_status_t status_ = (call);                                                                                      \
        if (status_ != dnnl_success) {                                                                                             \
            fprintf(stderr, "oneDNN: %s: status %d\n", #call, (int)status_);                                                       \
            exit(1);                                                                                                               \
        }                                                                                                                          \
    } while (0)

enum { MOST_ARGUMENTS = 24 };

typedef struct primitive {
    dnnl_primitive_t what;
    int              count;
    dnnl_exec_arg_t  arg[MOST_ARGUMENTS];
} primitive;

typedef struct theirs {
    const gemm *g;
    float      *data[3];
    primitive   p[2];
    int         count;
    turns       b;
} theirs;

static dnnl_engine_t engine;
static dnnl_stream_t stream;

static int onednn_start(void)
{
    void (*set)(int) = NULL;
    *(void **)&set = dlsym(RTLD_DEFAULT, "omp_set_num_threads");
    if (set) set(1);
    DNN(dnnl_engine_create(&engine, dnnl_cpu, 0));
    DNN(dnnl_stream_create(&stream, engine, dnnl_stream_default_flags));
    return set != NULL;
}

/* [batch, rows, columns] of a matrix that lies transposed in memory or not. */
static dnnl_memory_desc_t matrix_desc(int64_t batch, int64_t rows, int64_t columns, int transposed)
{
    dnnl_memory_desc_t d;
    const dnnl_dims_t  dims = {batch, rows, columns}, strides = {rows * columns, transposed ? 1 : columns, transposed ? rows : 1};
    const int          skip = batch == 1;
    DNN(dnnl_memory_desc_init_by_strides(&d, 3 - skip, dims + skip, dnnl_f32, strides + skip));
    return d;
}

static dnnl_memory_t memory_of(const dnnl_memory_desc_t *d, void *data)
{
    dnnl_memory_t m;
    DNN(dnnl_memory_create(&m, d, engine, data));
    return m;
}

static void add_argument(primitive *p, int name, const dnnl_memory_desc_t *d, void *data)
{
    p->arg[p->count++] = (dnnl_exec_arg_t){name, memory_of(d, data)};
}

static void onednn_run(void *arg)
{
    theirs *t = arg;
    if (t->g) DNN(dnnl_memory_set_data_handle(t->p[0].arg[1].memory, next_turn(&t->b)));
    for (int i = 0; i < t->count; i++)
        DNN(dnnl_primitive_execute(t->p[i].what, stream, t->p[i].count, t->p[i].arg));
    DNN(dnnl_stream_wait(stream));
}

static void sgemm_run(void *arg)
{
    theirs     *t = arg;
    const gemm *g = t->g;
    float      *b = next_turn(&t->b);
    for (int64_t i = 0; i < batches(g); i++)
        dnnl_sgemm(g->ta ? 'T' : 'N', g->tb ? 'T' : 'N', g->M, g->N, g->K, 1.0f, t->data[0] + i * g->M * g->K, g->ta ? g->M : g->K,
                   b + i * g->K * g->N, g->tb ? g->K : g->N, 0.0f, t->data[2] + i * g->M * g->N, g->N);
}

static void onednn_make(theirs *t, const gemm *g, float *const data[3])
{
    dnnl_matmul_desc_t       d;
    dnnl_primitive_desc_t    pd;
    const dnnl_memory_desc_t a = matrix_desc(batches(g), g->M, g->K, g->ta), b = matrix_desc(batches(g), g->K, g->N, g->tb),
                             c = matrix_desc(batches(g), g->M, g->N, 0);
    *t = (theirs){.g = g, .count = 1, .b = turns_of(g, data[1])};
    memcpy(t->data, data, sizeof t->data);
    DNN(dnnl_matmul_desc_init(&d, &a, &b, NULL, &c));
    DNN(dnnl_primitive_desc_create(&pd, &d, NULL, engine, NULL));
    DNN(dnnl_primitive_create(&t->p[0].what, pd));
    DNN(dnnl_primitive_desc_destroy(pd));
    add_argument(&t->p[0], DNNL_ARG_SRC, &a, data[0]);
    add_argument(&t->p[0], DNNL_ARG_WEIGHTS, &b, data[1]);
    add_argument(&t->p[0], DNNL_ARG_DST, &c, data[2]);
}

static void onednn_end(theirs *t)
{
    for (int i = 0; i < t->count; i++) {
        for (int k = 0; k < t->p[i].count; k++)
            DNN(dnnl_memory_destroy(t->p[i].arg[k].memory));
        DNN(dnnl_primitive_destroy(t->p[i].what));
    }
}

/* ---- oneDNN's LSTM, forward and backward ---- */

enum { SRC, SRC_H, SRC_C, WEIGHTS, RECURRENT, BIAS, DST, DST_H, DST_C, LSTM_OPERANDS };

static const int LSTM_ARGUMENT[LSTM_OPERANDS][2] = {
    {DNNL_ARG_SRC_LAYER, DNNL_ARG_DIFF_SRC_LAYER},       {DNNL_ARG_SRC_ITER, DNNL_ARG_DIFF_SRC_ITER},
    {DNNL_ARG_SRC_ITER_C, DNNL_ARG_DIFF_SRC_ITER_C},     {DNNL_ARG_WEIGHTS_LAYER, DNNL_ARG_DIFF_WEIGHTS_LAYER},
    {DNNL_ARG_WEIGHTS_ITER, DNNL_ARG_DIFF_WEIGHTS_ITER}, {DNNL_ARG_BIAS, DNNL_ARG_DIFF_BIAS},
    {DNNL_ARG_DST_LAYER, DNNL_ARG_DIFF_DST_LAYER},       {DNNL_ARG_DST_ITER, DNNL_ARG_DIFF_DST_ITER},
    {DNNL_ARG_DST_ITER_C, DNNL_ARG_DIFF_DST_ITER_C},
};

static dnnl_memory_desc_t lstm_desc(int ndims, const int64_t *dims, dnnl_format_tag_t tag)
{
    dnnl_memory_desc_t d;
    DNN(dnnl_memory_desc_init_by_tag(&d, ndims, dims, dnnl_f32, tag));
    return d;
}

static void lstm_descs(const lstm *l, dnnl_memory_desc_t d[LSTM_OPERANDS])
{
    const int64_t x[] = {l->steps, l->rows, l->in}, y[] = {l->steps, l->rows, l->units}, h[] = {1, 1, l->rows, l->units},
                  w[] = {1, 1, l->in, 4, l->units}, u[] = {1, 1, l->units, 4, l->units}, b[] = {1, 1, 4, l->units};
    d[SRC] = lstm_desc(3, x, dnnl_tnc);
    d[DST] = lstm_desc(3, y, dnnl_tnc);
    d[SRC_H] = d[SRC_C] = d[DST_H] = d[DST_C] = lstm_desc(4, h, dnnl_ldnc);
    d[WEIGHTS] = lstm_desc(5, w, dnnl_format_tag_any);
    d[RECURRENT] = lstm_desc(5, u, dnnl_format_tag_any);
    d[BIAS] = lstm_desc(4, b, dnnl_ldgo);
}

static const dnnl_query_t LSTM_QUERY[LSTM_OPERANDS] = {
    [SRC] = dnnl_query_src_md,         [SRC_H] = dnnl_query_src_md,         [SRC_C] = dnnl_query_src_md,
    [WEIGHTS] = dnnl_query_weights_md, [RECURRENT] = dnnl_query_weights_md, [BIAS] = dnnl_query_weights_md,
    [DST] = dnnl_query_dst_md,         [DST_H] = dnnl_query_dst_md,         [DST_C] = dnnl_query_dst_md};
static const int LSTM_INDEX[LSTM_OPERANDS] = {0, 1, 2, 0, 1, 2, 0, 1, 2};

static void lstm_arguments(primitive *p, dnnl_primitive_desc_t pd, float *const data[LSTM_OPERANDS])
{
    for (int i = 0; i < LSTM_OPERANDS; i++)
        add_argument(p, LSTM_ARGUMENT[i][0], dnnl_primitive_desc_query_md(pd, LSTM_QUERY[i], LSTM_INDEX[i]), data[i]);
}

static void onednn_lstm_make(theirs *t, const lstm *l)
{
    static const dnnl_query_t diff[3] = {dnnl_query_diff_src_md, dnnl_query_diff_weights_md, dnnl_query_diff_dst_md};
    dnnl_memory_desc_t        d[LSTM_OPERANDS], e[LSTM_OPERANDS];
    dnnl_rnn_desc_t           forward, backward;
    dnnl_primitive_desc_t     pd[2];
    float                    *data[2][LSTM_OPERANDS];
    *t = (theirs){.count = 2};
    lstm_descs(l, d);
    memcpy(e, d, sizeof e);
    for (int i = 0; i < LSTM_OPERANDS; i++)
        for (int k = 0; k < 2; k++)
            data[k][i] = numbers(l->steps * l->rows * (l->in + l->units) + 4 * l->units * (l->in + l->units) * 2);
    DNN(dnnl_lstm_forward_desc_init(&forward, dnnl_forward_training, dnnl_unidirectional_left2right, &d[SRC], &d[SRC_H], &d[SRC_C],
                                    &d[WEIGHTS], &d[RECURRENT], &d[BIAS], &d[DST], &d[DST_H], &d[DST_C], 0));
    DNN(dnnl_primitive_desc_create(&pd[0], &forward, NULL, engine, NULL));
    DNN(dnnl_lstm_backward_desc_init(&backward, dnnl_backward, dnnl_unidirectional_left2right, &d[SRC], &d[SRC_H], &d[SRC_C],
                                     &d[WEIGHTS], &d[RECURRENT], &d[BIAS], &d[DST], &d[DST_H], &d[DST_C], &e[SRC], &e[SRC_H],
                                     &e[SRC_C], &e[WEIGHTS], &e[RECURRENT], &e[BIAS], &e[DST], &e[DST_H], &e[DST_C], 0));
    DNN(dnnl_primitive_desc_create(&pd[1], &backward, NULL, engine, pd[0]));
    const dnnl_memory_desc_t *work = dnnl_primitive_desc_query_md(pd[0], dnnl_query_workspace_md, 0);
    void                     *space = pages(dnnl_memory_desc_get_size(work));
    for (int k = 0; k < 2; k++) {
        DNN(dnnl_primitive_create(&t->p[k].what, pd[k]));
        lstm_arguments(&t->p[k], pd[k], data[0]);
        add_argument(&t->p[k], DNNL_ARG_WORKSPACE, work, space);
    }
    for (int i = 0; i < LSTM_OPERANDS; i++)
        add_argument(&t->p[1], LSTM_ARGUMENT[i][1], dnnl_primitive_desc_query_md(pd[1], diff[i / 3], LSTM_INDEX[i]), data[1][i]);
    for (int k = 0; k < 2; k++)
        DNN(dnnl_primitive_desc_destroy(pd[k]));
}

#endif

/* ---- our LSTM -------------------------------------------------------------------------------------------------------------- */

typedef struct our_lstm {
    lk_function *step;
    lk_tuple     in;
    lk_variable *weight[3];
} our_lstm;

/* All outputs with gradients of their own; gradients of the inputs and of all weights. */
static lk_tuple lstm_step(lk_tuple in, void *user)
{
    const our_lstm *o = user;
    lk_tape        *tape = lk_tape_begin();
    lk_tensor      *x = in.item[0], *w[3];
    lk_tape_watch(tape, x);
    for (int i = 0; i < 3; i++)
        w[i] = lk_read(o->weight[i]);
    lk_tensor *y = lk_nn_lstm(x, w[0], w[1], w[2], .return_sequences = LK_ON);
    return lk_tape_gradient_of(tape, y, LK_TUPLE(x, w[0], w[1], w[2]), in.item[1]);
}

static void our_lstm_run(void *arg)
{
    our_lstm *o = arg;
    LK_STEP {
        lk_call(o->step, o->in);
    }
}

static void our_lstm_make(our_lstm *o, const lstm *l)
{
    lk_tensor *x = lk_random_uniform(LK_SHAPE(l->rows, l->steps, l->in), .stream = "x"),
              *dy = lk_random_uniform(LK_SHAPE(l->rows, l->steps, l->units), .stream = "dy");
    o->weight[0] = lk_variable_of(lk_glorot_uniform(LK_SHAPE(l->in, 4 * l->units), "kernel"));
    o->weight[1] = lk_variable_of(lk_glorot_uniform(LK_SHAPE(l->units, 4 * l->units), "recurrent"));
    o->weight[2] = lk_variable_of(lk_zeros(LK_SHAPE(4 * l->units), LK_F32));
    o->step = lk_function_of(lstm_step, o);
    o->in = lk_tuple_of(2, (lk_tensor *const[]){NULL, lk_rows(x, l->rows), lk_rows(dy, l->rows)});
    our_lstm_run(o);
    if (lk_failed()) fprintf(stderr, "%s\n", lk_error()), exit(1);
}

/* ---- lines ----------------------------------------------------------------------------------------------------------------- */

typedef struct side {
    timed *fn;
    void  *arg;
    double seconds; /* the best */
} side;

static void measure(side *sides, int rounds)
{
    for (int round = 0; round < rounds; round++)
        for (int i = 0; i < SIDES; i++) {
            if (!sides[i].fn) continue;
            const double s = seconds_of(sides[i].fn, sides[i].arg, 0.012);
            if (!round || s < sides[i].seconds) sides[i].seconds = s;
        }
}

static double rate_of(const side *s, double flop) { return s->seconds > 0 ? flop / s->seconds / 1e9 : 0; }

static void tell(const char *name, const side *sides, double flop, double peak)
{
    const double here = rate_of(&sides[AVX512], flop), half = rate_of(&sides[AVX2], flop), matmul = rate_of(&sides[ONEDNN], flop),
                 sgemm = rate_of(&sides[SGEMM], flop), best = here > 0 ? here : half, other = matmul > sgemm ? matmul : sgemm;
    printf("%-48s %8.1f %8.1f %5.0f%%", name, half, here, 100 * best / peak);
    if (other > 0) printf(" %9.1f %7.2f", other, best / other);
    if (half > 0 && here > 0) printf(" %8.2f", half / here);
    printf("\n");
    fflush(stdout);
}

/* What one core can do: the largest square product, run for long enough. */
static double peak_of(const lki_kernels *k)
{
    const gemm   g = {"", {0}, 384, 512, 256, 0, 0, 0, 0, 0};
    float *const data[3] = {numbers(g.M * g.K), numbers(g.K * g.N), numbers(g.M * g.N)};
    ours         o;
    ours_make(&o, k, &g, data);
    return 2.0 * (double)(g.M * g.N * g.K) / seconds_of(ours_run, &o, 0.5) / 1e9;
}

static void line_of_gemm(const gemm *g, const lki_kernels tables[2], const int have[2], int onednn, int rounds, double peak)
{
    float *const data[3] = {numbers(batches(g) * g->M * g->K), numbers(lki_max(1, g->copies) * batches(g) * g->K * g->N),
                            numbers(batches(g) * g->M * g->N)};
    ours         o[2];
    side         sides[SIDES] = {0};
    for (int i = 0; i < 2; i++) {
        if (!have[i]) continue;
        ours_make(&o[i], &tables[i], g, data);
        sides[i] = (side){.fn = ours_run, .arg = &o[i]};
    }
#if defined(WITH_ONEDNN)
    theirs t;
    if (onednn) {
        onednn_make(&t, g, data);
        sides[ONEDNN] = (side){.fn = onednn_run, .arg = &t};
        sides[SGEMM] = (side){.fn = sgemm_run, .arg = &t};
    }
#endif
    measure(sides, rounds);
    tell(g->name, sides, 2.0 * (double)(batches(g) * g->M * g->N * g->K), peak);
#if defined(WITH_ONEDNN)
    if (onednn) onednn_end(&t);
#endif
    for (int i = 0; i < 2; i++)
        if (have[i]) free(o[i].args.scratch);
    for (int i = 0; i < 3; i++)
        free(data[i]);
    (void)onednn;
}

static void line_of_lstm(const lstm *l, int onednn, int rounds, double peak)
{
    our_lstm o;
    side     sides[SIDES] = {0};
    our_lstm_make(&o, l);
    sides[AVX512] = (side){.fn = our_lstm_run, .arg = &o};
#if defined(WITH_ONEDNN)
    theirs t;
    if (onednn) {
        onednn_lstm_make(&t, l);
        sides[ONEDNN] = (side){.fn = onednn_run, .arg = &t};
    }
#endif
    measure(sides, rounds);
    tell(l->name, sides, 3 * 2.0 * (double)(l->steps * l->rows * (l->in + l->units) * 4 * l->units), peak);
    (void)onednn;
}

int main(int argc, char **argv)
{
    static lki_kernels tables[2];
    const lki_isa      isa = lki_cpu_isa_machine();
    const int          have[2] = {isa >= LKI_ISA_AVX2, isa >= LKI_ISA_AVX512};
    int                rounds = 6, onednn = 0;
    const char        *only = NULL;
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--quick") == 0) rounds = 2;
        else only = argv[i];

    lki_fp_enter();
    lk_set_threads(1);
    lki_cpu_kernels(&tables[0], LKI_ISA_AVX2);
    lki_cpu_kernels(&tables[1], LKI_ISA_AVX512);
#if defined(WITH_ONEDNN)
    onednn = onednn_start();
#endif
    if (!have[0]) return puts("no AVX2 here: nothing to measure"), 0;
    const double peak = peak_of(&tables[have[1]]);
    printf("GFLOP/s on one thread; %.1f is a product whose operands stay in the second-level cache\n", peak);
    printf("%-48s %8s %8s %6s %9s %7s %8s\n", "", "avx2", "avx512", "top", "oneDNN", "ratio", "2 / 512");
    for (size_t i = 0; i < sizeof GEMMS / sizeof *GEMMS; i++)
        if (!only || strstr(GEMMS[i].name, only)) line_of_gemm(&GEMMS[i], tables, have, onednn, rounds, peak);
    for (size_t i = 0; i < sizeof LSTMS / sizeof *LSTMS; i++)
        if (!only || strstr(LSTMS[i].name, only)) line_of_lstm(&LSTMS[i], onednn, rounds, peak);
    return 0;
}
