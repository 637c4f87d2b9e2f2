/* The general paths beside oneDNN on the same shapes, one thread: depthwise, strided, 1x1, 5x5 and 7x7 convolutions in their three
 * directions, pools, element-wise passes and batch normalisation; and rows per second of a batch-norm CNN's training step.
 *
 *     general [part of a name]        kernels; GFLOP/s or GB/s of ours (AVX2, AVX-512), oneDNN's, ours / oneDNN's, AVX2 / AVX-512
 *     general --step [rows] [threads] a step of the CNN of `network_step` below
 *
 * FLOP are counted dense, two per multiply-add of the definition; GB/s count each byte read or written once. oneDNN may choose the
 * layout of weights, and of images the better one of its own choice and NHWC; what is reordered beforehand is not timed. All of
 * them take turns, the best of several rounds counts. */
#include "kernel/kernel.h"
#include "timing.h"
#include <lockstep.h>

#if defined(LK_HAVE_ONEDNN)
#include <oneapi/dnnl/dnnl_version.h>
#if DNNL_VERSION_MAJOR == 2
#include "onednn_general.h"
#define WITH_ONEDNN 1
#endif
#endif

enum { LANES = 8, ROUNDS = 5 };

static const double SLICE = 0.02; /* seconds of one measurement */

/* ---- cases ------------------------------------------------------------------------------------------------------------------- */

typedef struct bench {
    const char *name;
    lki_slot    slot;
    int64_t     batch, size, in, out, k, stride, pad; /* out: channels of the result; depthwise: the multiplier */
} bench;

/* clang-format off */
#define THREE(name, kind, ...)                                                                                                     \
    {name, LKI_K_##kind, __VA_ARGS__}, {name " grad x", LKI_K_##kind##_grad_x, __VA_ARGS__},                                       \
    {name " grad w", LKI_K_##kind##_grad_w, __VA_ARGS__}
static const bench CASES[] = {
    THREE("depthwise 32x32x32 3x3",       depthwise, 8, 32, 32, 1, 3, 1, 1),
    THREE("depthwise 16x16x128 3x3",      depthwise, 8, 16, 128, 1, 3, 1, 1),
    THREE("depthwise 32x32x32 3x3 /2",    depthwise, 8, 32, 32, 1, 3, 2, 1),
    THREE("depthwise 16x16x128 5x5",      depthwise, 8, 16, 128, 1, 5, 1, 2),
    THREE("16x16x64 1x1 128",             conv2d, 8, 16, 64, 128, 1, 1, 0),
    THREE("32x32x32 1x1 64",              conv2d, 8, 32, 32, 64, 1, 1, 0),
    THREE("28x28x1 5x5 32",               conv2d, 8, 28, 1, 32, 5, 1, 2),
    THREE("12x12x32 5x5 64",              conv2d, 8, 12, 32, 64, 5, 1, 0),
    THREE("64x64x3 7x7 /2 64",            conv2d, 8, 64, 3, 64, 7, 2, 3),
    THREE("16x16x64 3x3 /2 128",          conv2d, 8, 16, 64, 128, 3, 2, 1),
    {"max_pool 32x32x32 2x2",             LKI_K_max_pool, 8, 32, 32, 0, 2, 2, 0},
    {"max_pool 32x32x32 2x2 grad",        LKI_K_max_pool_grad, 8, 32, 32, 0, 2, 2, 0},
    {"max_pool 32x32x64 3x3 /2",          LKI_K_max_pool, 8, 32, 64, 0, 3, 2, 1},
    {"max_pool 32x32x64 3x3 /2 grad",     LKI_K_max_pool_grad, 8, 32, 64, 0, 3, 2, 1},
    {"avg_pool 32x32x32 2x2",             LKI_K_avg_pool, 8, 32, 32, 0, 2, 2, 0},
    {"avg_pool 32x32x32 2x2 grad",        LKI_K_avg_pool_grad, 8, 32, 32, 0, 2, 2, 0},
    {"avg_pool 32x32x64 3x3 /2",          LKI_K_avg_pool, 8, 32, 64, 0, 3, 2, 1},
    {"avg_pool 32x32x64 3x3 /2 grad",     LKI_K_avg_pool_grad, 8, 32, 64, 0, 3, 2, 1},
    {"avg_pool 8x8x256 global",           LKI_K_avg_pool, 8, 8, 256, 0, 8, 8, 0},
    {"relu 16x16x64",                     LKI_K_relu, 8, 16, 64, 64, 0, 0, 0},
    {"relu 16x16x64 grad",                LKI_K_relu_grad, 8, 16, 64, 64, 0, 0, 0},
    {"add 16x16x64",                      LKI_K_add, 8, 16, 64, 64, 0, 0, 0},
    {"relu 64x32x32x32",                  LKI_K_relu, 64, 32, 32, 32, 0, 0, 0},
    {"add 64x32x32x32",                   LKI_K_add, 64, 32, 32, 32, 0, 0, 0},
};
/* clang-format on */

typedef enum family { DEPTHWISE, CONVOLUTION, POOL, MAP } family;

static family family_of(lki_slot s)
{
    if (s == LKI_K_depthwise || s == LKI_K_depthwise_grad_x || s == LKI_K_depthwise_grad_w) return DEPTHWISE;
    if (s == LKI_K_conv2d || s == LKI_K_conv2d_grad_x || s == LKI_K_conv2d_grad_w) return CONVOLUTION;
    return s == LKI_K_relu || s == LKI_K_relu_grad || s == LKI_K_add ? MAP : POOL;
}

static int is_grad_x(lki_slot s) { return s == LKI_K_depthwise_grad_x || s == LKI_K_conv2d_grad_x; }
static int is_grad_w(lki_slot s) { return s == LKI_K_depthwise_grad_w || s == LKI_K_conv2d_grad_w; }
static int is_pool_grad(lki_slot s) { return s == LKI_K_max_pool_grad || s == LKI_K_avg_pool_grad; }

static int64_t outputs(const bench *b) { return b->stride ? (b->size + 2 * b->pad - b->k) / b->stride + 1 : b->size; }

/* ---- ours -------------------------------------------------------------------------------------------------------------------- */

typedef struct ours {
    lki_kernel *fn;
    lki_args    args;
    lki_attr    attr;
    lk_shape    shape[4]; /* src, src, dst, dst */
    lki_view    view[4];
    int64_t     bound[LANES + 1];
    lki_lanes   lanes;
    double      work; /* FLOP or bytes */
    int         bytes;
} ours;

static lk_shape shape4(int64_t a, int64_t b, int64_t c, int64_t d) { return (lk_shape){4, {a, b, c, d}}; }

static void shapes_of(const bench *b, ours *o)
{
    const int64_t  p = outputs(b);
    const family   f = family_of(b->slot);
    const lk_shape x = shape4(b->batch, b->size, b->size, b->in), w = shape4(b->k, b->k, b->in, b->out);
    const lk_shape y = shape4(b->batch, p, p, f == DEPTHWISE ? b->in * b->out : f == CONVOLUTION ? b->out : b->in);
    const int      products = f == DEPTHWISE || f == CONVOLUTION, back = is_grad_x(b->slot) || is_pool_grad(b->slot);
    o->shape[0] = back ? y : x;
    o->shape[1] = f == MAP ? x : is_grad_w(b->slot) || !products ? y : w;
    o->shape[2] = is_grad_w(b->slot) ? w : back ? x : y;
    o->shape[3] = y;
    o->args.nsrc = products || b->slot == LKI_K_max_pool_grad || b->slot == LKI_K_add || b->slot == LKI_K_relu_grad ? 2 : 1;
    o->args.ndst = b->slot == LKI_K_max_pool ? 2 : 1;
    o->bytes = !products;
    const double elements = (double)lki_shape_size(&x), results = (double)lki_shape_size(&y);
    const int    cells = b->slot == LKI_K_max_pool || b->slot == LKI_K_max_pool_grad;
    if (products) o->work = 2 * results * (double)(b->k * b->k * (f == DEPTHWISE ? 1 : b->in));
    else if (f == MAP) o->work = 4 * elements * (1 + o->args.nsrc);
    else o->work = 4 * elements + (cells ? 5 : 4) * results;
}

static void *numbers(const lk_shape *s, lk_dtype type)
{
    const int64_t n = lki_shape_size(s);
    float        *p = pages((size_t)n * sizeof *p + 64);
    for (int64_t i = 0; i < n; i++)
        if (type == LK_U8) ((uint8_t *)p)[i] = (uint8_t)(i % 4);
        else p[i] = (float)((i * 2654435761u >> 8 & 0xffff) - 32768) / 32768.0f;
    return p;
}

static void prepare(const bench *b, const lki_kernels *k, ours *o)
{
    memset(o, 0, sizeof *o);
    shapes_of(b, o);
    o->attr.window = (lki_window){{b->k, b->k}, {b->stride, b->stride}, {1, 1}, {b->pad, b->pad}};
    for (int i = 0; i < 4; i++) {
        const lk_dtype type = (i == 1 && b->slot == LKI_K_max_pool_grad) || i == 3 ? LK_U8 : LK_F32;
        o->view[i] = (lki_view){numbers(&o->shape[i], type), &o->shape[i], type};
    }
    for (int s = 0; s <= LANES; s++)
        o->bound[s] = lki_ceil_div(s * b->batch, LANES);
    o->lanes = (lki_lanes){LANES, o->bound};
    o->args.src = o->view;
    o->args.dst = o->view + 2;
    o->args.attr = &o->attr;
    o->args.lanes = is_grad_w(b->slot) ? &o->lanes : NULL;
    o->args.hi = lki_shape_size(&o->shape[2]);
    const size_t bytes = k->scratch[b->slot][LK_F32] ? k->scratch[b->slot][LK_F32](&o->args) : 0;
    o->args.scratch = bytes ? pages(bytes) : NULL;
    o->fn = k->fn[b->slot][LK_F32];
}

static void call_ours(void *arg)
{
    ours *o = arg;
    o->fn(&o->args);
}

static void finish(ours *o)
{
    for (int i = 0; i < 4; i++)
        free(o->view[i].data);
    free(o->args.scratch);
}

/* ---- one line ---------------------------------------------------------------------------------------------------------------- */

static double best(double a, double b) { return a == 0 || b < a ? b : a; }

static void print_rates(const char *name, const char *unit, double work, const double *seconds)
{
    printf("%-34s %7s", name, unit);
    for (int i = 0; i < 3; i++)
        if (seconds[i] > 0) printf(" %8.1f", work / seconds[i] / 1e9);
        else printf(" %8s", "-");
    if (seconds[2] > 0) printf(" %7.2f", seconds[2] / seconds[1]);
    else printf(" %7s", "-");
    printf(" %6.2f\n", seconds[1] / seconds[0]);
    fflush(stdout);
}

static void measure(const bench *b, const lki_kernels *table)
{
    ours   o[2];
    double seconds[3] = {0};
    for (int i = 0; i < 2; i++)
        prepare(b, &table[i], &o[i]);
#if defined(WITH_ONEDNN)
    const dnn_problem p = {.backward = is_grad_x(b->slot) || is_pool_grad(b->slot) || b->slot == LKI_K_relu_grad,
                           .weights = is_grad_w(b->slot),
                           .depthwise = family_of(b->slot) == DEPTHWISE,
                           .kind = family_of(b->slot) != POOL && family_of(b->slot) != MAP       ? DNN_CONVOLUTION
                                   : b->slot == LKI_K_max_pool || b->slot == LKI_K_max_pool_grad ? DNN_MAX_POOL
                                   : family_of(b->slot) == POOL                                  ? DNN_AVG_POOL
                                   : b->slot == LKI_K_add                                        ? DNN_ADD
                                                                                                 : DNN_RELU,
                           .batch = b->batch,
                           .size = b->size,
                           .in = b->in,
                           .out = b->out,
                           .k = b->k,
                           .stride = b->stride,
                           .pad = b->pad,
                           .outputs = outputs(b)};
    dnn_work          d[2] = {dnn_make(&p, 0), dnn_make(&p, 1)};
#endif
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < 2; i++)
            seconds[i] = best(seconds[i], seconds_of(call_ours, &o[i], SLICE));
#if defined(WITH_ONEDNN)
        for (int i = 0; i < 2; i++)
            if (d[i].count) seconds[2] = best(seconds[2], seconds_of(dnn_run, &d[i], SLICE));
#endif
    }
    print_rates(b->name, o[0].bytes ? "GB/s" : "GFLOP/s", o[0].work, seconds);
    for (int i = 0; i < 2; i++)
        finish(&o[i]);
#if defined(WITH_ONEDNN)
    for (int i = 0; i < 2; i++)
        dnn_free(&d[i]);
#endif
}

/* ---- batch normalisation ----------------------------------------------------------------------------------------------------- */

enum { NORM_CALLS = 4 };

/* What a compiled step calls for a batch normalisation followed by relu: sums, normalise; sums, data gradient. The few operations
 * per channel in between are left out. */
typedef struct norm {
    lki_kernel *fn[NORM_CALLS];
    lki_args    args[NORM_CALLS];
    lk_shape    shape[5]; /* x; channels; a pair; three sums */
    lki_view    src[NORM_CALLS][6], dst[NORM_CALLS];
    lki_attr    attr;
    int64_t     bound[LANES + 1];
    lki_lanes   lanes;
} norm;

static void call_norm(void *arg)
{
    norm *n = arg;
    for (int i = 0; i < NORM_CALLS; i++)
        n->fn[i](&n->args[i]);
}

static void add_norm_call(norm *n, const lki_kernels *k, int i, lki_slot slot, int nsrc, int64_t size)
{
    lki_args *a = &n->args[i];
    *a = (lki_args){.src = n->src[i], .dst = &n->dst[i], .nsrc = nsrc, .ndst = 1, .attr = &n->attr, .lanes = &n->lanes, .hi = size};
    const size_t bytes = k->scratch[slot][LK_F32] ? k->scratch[slot][LK_F32](a) : 0;
    a->scratch = bytes ? pages(bytes) : NULL;
    n->fn[i] = k->fn[slot][LK_F32];
}

static void prepare_norm(norm *n, const lki_kernels *k, lk_shape shape)
{
    const int64_t C = shape.dim[3], size = lki_shape_size(&shape);
    memset(n, 0, sizeof *n);
    n->shape[0] = shape, n->shape[1] = LK_SHAPE(C), n->shape[2] = LK_SHAPE(2, C), n->shape[3] = LK_SHAPE(3, C);
    n->attr.epilogue.relu = 1;
    for (int s = 0; s <= LANES; s++)
        n->bound[s] = lki_ceil_div(s * shape.dim[0], LANES);
    n->lanes = (lki_lanes){LANES, n->bound};
    lki_view v[6], sums = {pages((size_t)C * 24), &n->shape[3], LK_F64}, two = {pages((size_t)C * 16), &n->shape[2], LK_F64};
    for (int i = 0; i < 6; i++) { /* x, dy, center, scale, two pairs */
        const lk_shape *of = &n->shape[i < 2 ? 0 : i < 4 ? 1 : 2];
        v[i] = (lki_view){numbers(of, LK_F32), of, LK_F32};
    }
    lki_view y = {numbers(&shape, LK_F32), &n->shape[0], LK_F32}, dx = {numbers(&shape, LK_F32), &n->shape[0], LK_F32};
    memcpy(n->src[0], (lki_view[]){v[0]}, sizeof(lki_view));
    memcpy(n->src[1], (lki_view[]){v[0], v[2], v[4]}, 3 * sizeof(lki_view));
    memcpy(n->src[2], (lki_view[]){v[1], v[0], v[2], v[4]}, 4 * sizeof(lki_view));
    memcpy(n->src[3], (lki_view[]){v[1], v[3], v[0], v[2], v[5], v[4]}, 6 * sizeof(lki_view));
    n->dst[0] = sums, n->dst[1] = y, n->dst[2] = two, n->dst[3] = dx;
    add_norm_call(n, k, 0, LKI_K_batch_sums, 1, 3 * C);
    add_norm_call(n, k, 1, LKI_K_batch_apply, 3, size);
    add_norm_call(n, k, 2, LKI_K_batch_grad_sums, 4, 2 * C);
    add_norm_call(n, k, 3, LKI_K_batch_grad_x, 6, size);
}

static void measure_norm(const char *name, const lki_kernels *table, lk_shape shape)
{
    static norm n[2];
    double      seconds[3] = {0};
    for (int i = 0; i < 2; i++)
        prepare_norm(&n[i], &table[i], shape);
#if defined(WITH_ONEDNN)
    dnn_work d[2] = {dnn_norm(shape.dim, 0), dnn_norm(shape.dim, 1)};
#endif
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < 2; i++)
            seconds[i] = best(seconds[i], seconds_of(call_norm, &n[i], 4 * SLICE));
#if defined(WITH_ONEDNN)
        for (int i = 0; i < 2; i++)
            if (d[i].count) seconds[2] = best(seconds[2], seconds_of(dnn_run, &d[i], 4 * SLICE));
#endif
    }
    print_rates(name, "GB/s", 4.0 * 8 * (double)lki_shape_size(&shape), seconds); /* x; x, y; dy, x; dy, x, dx */
}

/* ---- a training step --------------------------------------------------------------------------------------------------------- */

typedef struct network {
    lk_model     *model;
    lk_optimizer *optimizer;
    lk_function  *f;
    lk_tuple      in;
    int64_t       rows;
} network;

static lk_tuple network_step(lk_tuple in, void *user)
{
    network   *n = user;
    lk_tape   *tape = lk_tape_begin();
    lk_tensor *logits = lk_model_call(n->model, in.item[0], .training = LK_ON);
    lk_tensor *each = lk_nn_sparse_categorical_crossentropy(in.item[1], logits, .from_logits = LK_ON);
    lk_tensor *loss = lk_compute_average_loss(each, .global_batch_size = n->rows);
    lk_optimizer_apply(n->optimizer, lk_tape_gradient(tape, loss, lk_model_trainable_variables(n->model)));
    return LK_TUPLE(loss);
}

static lk_layer *conv_layer(int filters) { return lk_conv2d(filters, 3, .padding = LK_SAME); }

static void call_network(void *arg)
{
    network *n = arg;
    LK_STEP {
        lk_call(n->f, n->in);
    }
}

static int measure_step(int64_t rows, int threads)
{
    lk_set_threads(threads);
    LK_POOL {
        network n = {.rows = rows, .optimizer = lk_adam()};
        n.model = lk_sequential(conv_layer(32), lk_batch_normalization(), lk_relu_layer(), conv_layer(32), lk_batch_normalization(),
                                lk_relu_layer(), lk_max_pooling2d(), conv_layer(64), lk_batch_normalization(), lk_relu_layer(),
                                conv_layer(64), lk_batch_normalization(), lk_relu_layer(), lk_max_pooling2d(), lk_flatten(),
                                lk_dense(10));
        lk_tensor *images = lk_random_uniform(LK_SHAPE(rows, 32, 32, 3)),
                  *labels = lk_cast(lk_random_uniform(LK_SHAPE(rows), .call = 1, .high = LK_NUMBER(10)), LK_I32);
        n.in = lk_rows_all(LK_TUPLE(images, labels), rows);
        lk_model_build(n.model, LK_SHAPE(32, 32, 3));
        n.f = lk_function_of(network_step, &n);
        call_network(&n); /* traced and planned */
        const double s = seconds_of(call_network, &n, 8);
        printf("batch-norm CNN, %lld rows, %d threads: %.2f ms a step, %.0f rows/s\n", (long long)rows, threads, s * 1e3,
               (double)rows / s);
    }
    if (lk_failed()) fprintf(stderr, "%s\n", lk_error());
    return lk_failed();
}

int main(int argc, char **argv)
{
    static lki_kernels table[2];
    if (argc > 1 && strcmp(argv[1], "--step") == 0)
        return measure_step(argc > 2 ? atoi(argv[2]) : 64, argc > 3 ? atoi(argv[3]) : 1);
    lk_set_threads(1);
    lki_cpu_kernels(&table[0], LKI_ISA_AVX2);
    lki_cpu_kernels(&table[1], LKI_ISA_AVX512);
#if defined(WITH_ONEDNN)
    dnn_open();
#endif
    printf("%-34s %7s %8s %8s %8s %7s %6s\n", "one thread", "", "avx2", "avx512", "oneDNN", "ratio", "avx2/");
    for (int i = 0; i < LKI_COUNT(CASES); i++)
        if (argc < 2 || strstr(CASES[i].name, argv[1])) measure(&CASES[i], table);
    if (argc < 2 || strstr("batch norm", argv[1])) {
        measure_norm("batch norm, relu 64x32x32x32", table, shape4(64, 32, 32, 32));
        measure_norm("batch norm, relu 64x16x16x64", table, shape4(64, 16, 16, 64));
    }
    return lk_failed();
}
