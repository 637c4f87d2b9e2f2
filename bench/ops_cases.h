/* One call per line of ops.inc for bench/ops.c: which operands, of which shapes, at a given size.
 *
 * A recipe is found by the op's name, otherwise by the name of its shape rule; ops that share a rule share a recipe, and a new op
 * with a known rule is measured without a line here. Where the size can be chosen, operands and results together have about
 * `bytes`; products have one size of their own. */
#ifndef LK_BENCH_OPS_CASES_H
#define LK_BENCH_OPS_CASES_H

#include "kernel/kernel.h"
#include "kernel/update.h"
#include "op/op.h"
#include <string.h>

enum { MOST_VIEWS = 6, LANES = 8 };

typedef enum unit {
    BYTES, /* GB/s of what is read and written */
    FLOP,  /* GFLOP/s, two per multiply-add of the definition */
    CALLS, /* one number: nanoseconds of a call */
} unit;

typedef struct job {
    lki_slot slot;
    int      nsrc, ndst, lanes;
    int      in_place; /* dst are read too */
    int      aliased;  /* src[0] is dst[0] */
    int      unread;   /* src[0] is there for its shape only */
    lk_shape src[MOST_VIEWS], dst[MOST_VIEWS];
    lk_dtype src_type[MOST_VIEWS], dst_type[MOST_VIEWS];
    int64_t  below;    /* integer operands are drawn from 0 to below - 1 */
    int      positive; /* floats of src are from 0.5 to 1.5, else from -1 to 1 */
    double   flop;
    double   bytes; /* 0: all of src and dst */
    unit     unit;
    lki_attr attr;
} job;

typedef void recipe_fn(job *j, int64_t bytes);

static inline void src(job *j, lk_dtype type, lk_shape shape)
{
    j->src[j->nsrc] = shape;
    j->src_type[j->nsrc++] = type;
}

static inline void dst(job *j, lk_dtype type, lk_shape shape)
{
    j->dst[j->ndst] = shape;
    j->dst_type[j->ndst++] = type;
}

/* ---- element-wise ----------------------------------------------------------------------------------------------------------- */

static inline lk_dtype float_or_bool(const job *j)
{
    return j->slot == LKI_K_logical_not || j->slot == LKI_K_logical_and || j->slot == LKI_K_logical_or ||
                   j->slot == LKI_K_reduce_any || j->slot == LKI_K_reduce_all
               ? LK_BOOL
               : LK_F32;
}

/* n operands of one type, a result of another, all of one shape. */
static inline void alike(job *j, int64_t bytes, int n, lk_dtype from, lk_dtype to)
{
    const lk_shape s = LK_SHAPE(bytes / (int64_t)((size_t)n * lk_dtype_bytes(from) + lk_dtype_bytes(to)));
    for (int i = 0; i < n; i++)
        src(j, from, s);
    dst(j, to, s);
    j->attr.num.a = j->slot == LKI_K_clip ? -0.5 : 0.2;
    j->attr.num.b = 0.5;
}

static void one(job *j, int64_t bytes) { alike(j, bytes, 1, float_or_bool(j), float_or_bool(j)); }
static void two(job *j, int64_t bytes) { alike(j, bytes, 2, float_or_bool(j), float_or_bool(j)); }
static void one_test(job *j, int64_t bytes) { alike(j, bytes, 1, LK_F32, LK_BOOL); }
static void two_test(job *j, int64_t bytes) { alike(j, bytes, 2, LK_F32, LK_BOOL); }
static void cast(job *j, int64_t bytes) { alike(j, bytes, 1, LK_U8, LK_F32), j->below = 256; }

static void positive_one(job *j, int64_t bytes) { one(j, bytes), j->positive = 1; }
static void positive_two(job *j, int64_t bytes) { two(j, bytes), j->positive = 1; }

static void add_bias(job *j, int64_t bytes)
{
    const lk_shape s = LK_SHAPE(bytes / 8 / 64, 64);
    src(j, LK_F32, s);
    src(j, LK_F32, LK_SHAPE(64));
    dst(j, LK_F32, s);
}

static void where(job *j, int64_t bytes)
{
    alike(j, bytes - bytes / 13, 2, LK_F32, LK_F32);
    src(j, LK_BOOL, j->dst[0]);
}

/* ---- reductions and rows ---------------------------------------------------------------------------------------------------- */

static void reduce_last(job *j, int64_t bytes)
{
    const lk_dtype t = float_or_bool(j);
    const int64_t  rows = bytes / (int64_t)lk_dtype_bytes(t) / 1024;
    src(j, t, LK_SHAPE(rows, 1024));
    dst(j, j->slot == LKI_K_argmax || j->slot == LKI_K_argmin ? LK_I64 : t, LK_SHAPE(rows));
    j->attr.reduce.first = j->attr.reduce.last = 1;
}

static void reduce_rows(job *j, int64_t bytes)
{
    src(j, LK_F32, LK_SHAPE(bytes / 4 / 64, 64));
    dst(j, LK_F32, LK_SHAPE(64));
    j->lanes = LANES;
}

static void total(job *j, int64_t bytes)
{
    src(j, LK_F32, LK_SHAPE(bytes / 4));
    dst(j, LK_F32, LK_SHAPE());
}

static void cumsum(job *j, int64_t bytes)
{
    const lk_shape s = LK_SHAPE(bytes / 8 / 1024, 1024);
    src(j, LK_F32, s);
    dst(j, LK_F32, s);
    j->attr.scan.axis = 1;
}

static void top_k(job *j, int64_t bytes)
{
    const int64_t rows = bytes / 4 / 1024;
    src(j, LK_F32, LK_SHAPE(rows, 1024));
    dst(j, LK_F32, LK_SHAPE(rows, 5));
    dst(j, LK_I32, LK_SHAPE(rows, 5));
    j->attr.top.k = 5;
}

static void rows_128(job *j, int64_t bytes)
{
    const lk_shape s = LK_SHAPE(bytes / 8 / 128, 128);
    src(j, LK_F32, s);
    dst(j, LK_F32, s);
}

static void xent(job *j, int64_t bytes)
{
    const int64_t rows = bytes / 48;
    src(j, LK_F32, LK_SHAPE(rows, 10));
    src(j, LK_I32, LK_SHAPE(rows));
    dst(j, LK_F32, LK_SHAPE(rows));
    j->below = 10;
}

static void xent_grad(job *j, int64_t bytes)
{
    const int64_t rows = bytes / 88;
    src(j, LK_F32, LK_SHAPE(rows, 10));
    src(j, LK_I32, LK_SHAPE(rows));
    src(j, LK_F32, LK_SHAPE(rows));
    dst(j, LK_F32, LK_SHAPE(rows, 10));
    j->below = 10;
}

/* ---- moves ------------------------------------------------------------------------------------------------------------------ */

static void expand(job *j, int64_t bytes)
{
    src(j, LK_F32, LK_SHAPE(64));
    dst(j, LK_F32, LK_SHAPE(bytes / 4 / 64, 64));
}

static void transpose(job *j, int64_t bytes)
{
    const int64_t n = bytes / 8 / 64;
    src(j, LK_F32, LK_SHAPE(n, 64));
    dst(j, LK_F32, LK_SHAPE(64, n));
    j->attr.perm.axis[0] = 1;
}

/* Columns 32 to 95 of 128, out or back among zeros. */
static void columns(job *j, int64_t bytes)
{
    const int64_t n = bytes / 4 / (j->slot == LKI_K_unslice ? 192 : 128);
    src(j, LK_F32, LK_SHAPE(n, j->slot == LKI_K_unslice ? 64 : 128));
    dst(j, LK_F32, LK_SHAPE(n, j->slot == LKI_K_unslice ? 128 : 64));
    if (j->slot == LKI_K_slice) j->bytes = (double)(n * 128 * 4); /* half of src is not read */
    j->attr.slice.begin[1] = 32;
    j->attr.slice.stride[0] = j->attr.slice.stride[1] = 1;
}

/* A frame of one cell around images of 14 x 14 x 16. */
static void frame(job *j, int64_t bytes)
{
    const int64_t  n = bytes / 4 / (14 * 14 * 16 + 16 * 16 * 16) + 1;
    const lk_shape inner = LK_SHAPE(n, 14, 14, 16), outer = LK_SHAPE(n, 16, 16, 16);
    src(j, LK_F32, j->slot == LKI_K_pad ? inner : outer);
    dst(j, LK_F32, j->slot == LKI_K_pad ? outer : inner);
    j->attr.pad.before[1] = j->attr.pad.before[2] = 1;
    j->attr.pad.mode = j->slot == LKI_K_pad ? LKI_PAD_CONSTANT : LKI_PAD_SYMMETRIC;
}

static void concat(job *j, int64_t bytes)
{
    const int64_t n = bytes / 8 / 128;
    src(j, LK_F32, LK_SHAPE(n, 64));
    src(j, LK_F32, LK_SHAPE(n, 64));
    dst(j, LK_F32, LK_SHAPE(n, 128));
    j->attr.scan.axis = 1;
}

static void unstack(job *j, int64_t bytes)
{
    const int64_t n = bytes / 8 / 256;
    src(j, LK_F32, LK_SHAPE(n, 4, 64));
    for (int i = 0; i < 4; i++)
        dst(j, LK_F32, LK_SHAPE(n, 64));
    j->attr.scan.axis = 1;
}

/* As many rows of 64 as the table has, picked or summed by id. */
static void gather(job *j, int64_t bytes)
{
    const int64_t n = bytes / 8 / 64;
    src(j, LK_F32, LK_SHAPE(n, 64));
    src(j, LK_I32, LK_SHAPE(n));
    dst(j, LK_F32, LK_SHAPE(n, 64));
    j->below = n;
}

static void one_hot(job *j, int64_t bytes)
{
    const int64_t n = bytes / 4 / 65;
    src(j, LK_I32, LK_SHAPE(n));
    dst(j, LK_F32, LK_SHAPE(n, 64));
    j->below = 64;
    j->attr.num.a = 1;
}

static void drawn(job *j, int64_t bytes)
{
    src(j, LK_I64, LK_SHAPE());
    dst(j, LK_F32, LK_SHAPE(bytes / 4));
    j->attr.random.key = 1;
    j->attr.random.high = 1;
}

/* ---- products and pools: sizes of their own --------------------------------------------------------------------------------- */

static void matmul(job *j, int64_t bytes)
{
    (void)bytes;
    const lk_shape s = LK_SHAPE(256, 256);
    src(j, LK_F32, s);
    src(j, LK_F32, s);
    dst(j, LK_F32, s);
    j->flop = 2.0 * 256 * 256 * 256;
    j->unit = FLOP;
}

static void window(job *j, int64_t size, int64_t stride, int64_t pad)
{
    j->attr.window = (lki_window){{size, size}, {stride, stride}, {1, 1}, {pad, pad}};
}

/* x, w, y of a 3x3 convolution of 8 images; forward (x, w) to y, grad_x (y, w) to x, grad_w (x, y) to w. */
static void images(job *j, lk_shape x, lk_shape w, lk_shape y, int to_x, int to_w)
{
    src(j, LK_F32, to_x ? y : x);
    src(j, LK_F32, to_w ? y : w);
    dst(j, LK_F32, to_x ? x : to_w ? w : y);
    j->lanes = to_w ? LANES : 0;
    j->unit = FLOP;
}

static void conv(job *j, int64_t bytes)
{
    (void)bytes;
    images(j, LK_SHAPE(8, 13, 13, 32), LK_SHAPE(3, 3, 32, 64), LK_SHAPE(8, 11, 11, 64), j->slot == LKI_K_conv2d_grad_x,
           j->slot == LKI_K_conv2d_grad_w);
    window(j, 3, 1, 0);
    j->flop = 2.0 * 8 * 11 * 11 * 64 * 3 * 3 * 32;
}

/* The same convolution followed by a 2x2 pool, with a gradient in every window: one product of four is left. */
static void conv_pool(job *j, int64_t bytes)
{
    (void)bytes;
    const lk_shape x = LK_SHAPE(8, 13, 13, 32), w = LK_SHAPE(3, 3, 32, 64), d = LK_SHAPE(8, 5, 5, 64);
    const int      to_x = j->slot == LKI_K_conv2d_pool_grad_x;
    if (!to_x) src(j, LK_F32, x);
    src(j, LK_F32, d);
    src(j, LK_U8, d);
    if (to_x) src(j, LK_F32, w);
    dst(j, LK_F32, to_x ? x : w);
    j->below = 4;
    j->lanes = to_x ? 0 : LANES;
    j->unit = FLOP;
    window(j, 3, 1, 0);
    j->flop = 2.0 * 8 * 5 * 5 * 64 * 3 * 3 * 32;
}

static void depthwise(job *j, int64_t bytes)
{
    (void)bytes;
    images(j, LK_SHAPE(8, 28, 28, 64), LK_SHAPE(3, 3, 64, 1), LK_SHAPE(8, 28, 28, 64), j->slot == LKI_K_depthwise_grad_x,
           j->slot == LKI_K_depthwise_grad_w);
    window(j, 3, 1, 1);
    j->flop = 2.0 * 8 * 28 * 28 * 64 * 3 * 3;
}

/* 32 groups of 8 channels. */
static void grouped(job *j, int64_t bytes)
{
    (void)bytes;
    images(j, LK_SHAPE(8, 14, 14, 256), LK_SHAPE(3, 3, 8, 256), LK_SHAPE(8, 14, 14, 256), j->slot == LKI_K_grouped_grad_x,
           j->slot == LKI_K_grouped_grad_w);
    window(j, 3, 1, 1);
    j->flop = 2.0 * 8 * 14 * 14 * 256 * 3 * 3 * 8;
}

/* 2x2 windows of images of 8 x 8 x 32. */
static void pool(job *j, int64_t bytes)
{
    const int      cells = j->slot != LKI_K_avg_pool && j->slot != LKI_K_avg_pool_grad;
    const int64_t  n = bytes / 32 / (8 * 8 * 4 + 4 * 4 * (cells ? 5 : 4));
    const lk_shape x = LK_SHAPE(n, 8, 8, 32), y = LK_SHAPE(n, 4, 4, 32);
    const int      back = j->slot == LKI_K_max_pool_grad || j->slot == LKI_K_avg_pool_grad;
    src(j, LK_F32, back ? y : x);
    dst(j, LK_F32, back ? x : y);
    if (j->slot == LKI_K_max_pool_grad || j->slot == LKI_K_max_pool_pick) src(j, LK_U8, y);
    if (j->slot == LKI_K_max_pool) dst(j, LK_U8, y);
    j->below = 4;
    window(j, 2, 2, 0);
}

/* ---- over the replicas ------------------------------------------------------------------------------------------------------- */

enum { REPLICAS = 4 };

static void values_of_replicas(job *j, int64_t bytes)
{
    const lk_shape s = LK_SHAPE(bytes / 4 / (REPLICAS + 1));
    for (int r = 0; r < REPLICAS; r++)
        src(j, LK_F32, s);
    if (j->slot == LKI_K_replica_sum) src(j, LK_I32, LK_SHAPE(REPLICAS, 2)), j->below = 1; /* zeros: all stay open, as many sums */
    dst(j, LK_F32, s);
    j->attr.num.a = REPLICAS;
    j->attr.num.b = 1;
}

static void scatter(job *j, int64_t bytes)
{
    const int64_t rows = bytes / (3 * 64 * 4 + 8);
    src(j, LK_F32, LK_SHAPE(rows, 64));
    src(j, LK_I64, LK_SHAPE(rows));
    dst(j, LK_F32, LK_SHAPE(rows, 64));
    j->in_place = 1;
    j->below = rows;
}

static void lane_add(job *j, int64_t bytes)
{
    src(j, LK_F32, LK_SHAPE(bytes / 4));
    dst(j, LK_F64, LK_SHAPE(LANES));
    j->in_place = 1;
    j->lanes = LANES;
}

/* ---- in place on variables -------------------------------------------------------------------------------------------------- */

static void assign(job *j, int64_t bytes)
{
    const lk_shape s = LK_SHAPE(bytes / 8);
    if (j->slot != LKI_K_copy) src(j, LK_F32, s), j->in_place = j->aliased = 1; /* v = v + x */
    src(j, LK_F32, s);
    dst(j, LK_F32, s);
}

/* How many variables, and which operands there are: 'g' as large as the variable, 'r' one float, 't' the iteration. */
typedef struct update_case {
    lki_slot    slot;
    int         variables;
    const char *operands;
    double      p[5];
} update_case;

static const update_case UPDATES[] = {
    {LKI_K_update_sgd, 2, "grt", {0.9}},
    {LKI_K_update_adam, 3, "grt", {0.9, 0.999, 1e-7}},
    {LKI_K_update_rmsprop, 2, "grt", {0.9, 0, 1e-7}},
    {LKI_K_update_adagrad, 2, "grt", {1e-7}},
    {LKI_K_update_adadelta, 3, "grt", {0.95, 1e-7}},
    {LKI_K_update_adamax, 3, "grt", {0.9, 0.999, 1e-7}},
    {LKI_K_update_nadam, 3, "grtr", {0.9, 0.999, 1e-7}},
    {LKI_K_update_ftrl, 3, "grt", {-0.5, 0.01, 0.02, 0.03, 0.1}},
    {LKI_K_update_lion, 2, "grt", {0.9, 0.99}},
    {LKI_K_update_decay, 1, "grt", {0}},
    {LKI_K_update_moments, 2, "grt", {0.9, 0.999}},
    {LKI_K_lamb_direction, 1, "ggt", {0.9, 0.999, 1e-7}},
    {LKI_K_update_lamb, 1, "grtrr", {0}},
    {LKI_K_update_ema, 1, "gt", {0.99}},
    {LKI_K_update_overwrite, 1, "gt", {1}},
    {LKI_K_update_accumulate, 1, "grt", {0}},
    {LKI_K_clip_by_norm, 1, "gr", {0.5}},
};

static void update(job *j, int64_t bytes)
{
    const update_case *u = NULL;
    for (int i = 0; i < LKI_COUNT(UPDATES); i++)
        if (UPDATES[i].slot == j->slot) u = &UPDATES[i];
    if (!u) return; /* an update no case is known for: nothing to call */
    const int fresh = u->slot == LKI_K_lamb_direction || u->slot == LKI_K_clip_by_norm || u->slot == LKI_K_update_overwrite;
    int       arrays = u->variables;
    for (const char *o = u->operands; *o; o++)
        arrays += *o == 'g';
    const lk_shape s = LK_SHAPE(bytes / 4 / arrays);
    for (const char *o = u->operands; *o; o++)
        src(j, *o == 't' ? LK_I64 : LK_F32, *o == 'g' ? s : LK_SHAPE());
    for (int i = 0; i < u->variables; i++)
        dst(j, LK_F32, s);
    j->in_place = !fresh;
    j->unread = u->slot == LKI_K_update_decay;
    j->positive = 1;
    j->attr.update.every = u->slot == LKI_K_update_accumulate ? 2 : 1;
    memcpy(j->attr.update.p, u->p, sizeof u->p);
    if (u->slot == LKI_K_update_decay) j->attr.update.p[LKI_UPDATE_DECAY] = 1e-6;
}

static void number(job *j, int64_t bytes)
{
    (void)bytes;
    const lk_dtype t = j->slot == LKI_K_nadam_product ? LK_F32 : LK_I64;
    if (j->slot == LKI_K_nadam_product) src(j, LK_F32, LK_SHAPE()), src(j, LK_F32, LK_SHAPE());
    if (j->slot != LKI_K_increment) src(j, LK_I64, LK_SHAPE());
    dst(j, j->slot == LKI_K_schedule ? LK_F32 : t, LK_SHAPE());
    j->positive = 1;
    j->unit = CALLS;
    if (j->slot == LKI_K_nadam_product) j->attr.update.p[0] = 0.9;
    if (j->slot == LKI_K_schedule) {
        j->attr.schedule.form = LKI_SCHEDULE_EXPONENTIAL;
        memcpy(j->attr.schedule.p, (const double[]){0.1, 100, 0.9}, 3 * sizeof(double));
    }
}

/* ---- which op is called how ------------------------------------------------------------------------------------------------- */

typedef struct recipe {
    const char *op;   /* by its name, */
    const char *rule; /* or by its shape rule */
    recipe_fn  *fn;
    const char *note;
} recipe;

static const recipe RECIPES[] = {
    {"log", 0, positive_one, ""},
    {"log1p", 0, positive_one, ""},
    {"sqrt", 0, positive_one, ""},
    {"rsqrt", 0, positive_one, ""},
    {"div", 0, positive_two, ""},
    {"floordiv", 0, positive_two, ""},
    {"mod", 0, positive_two, ""},
    {"pow", 0, positive_two, ""},
    {"add", 0, two, ""},
    {"add", 0, add_bias, ", + [64]"},
    {"cumsum", 0, cumsum, " 1024"},
    {"reduce_sum", 0, reduce_last, " 1024"},
    {"reduce_sum", 0, reduce_rows, ", rows, 8 lanes"},
    {"pad", 0, frame, ""},
    {"pad_grad", 0, frame, ""},
    {"gather_grad", 0, gather, ""},
    {"max_pool_grad", 0, pool, " 2x2"},
    {"avg_pool", 0, pool, " 2x2"},
    {"avg_pool_grad", 0, pool, " 2x2"},
    {"assign", 0, assign, ""},
    {"assign_add", 0, assign, ""},
    {"assign_sub", 0, assign, ""},
    {"lamb_direction", 0, update, ""},
    {0, "same", one, ""},
    {0, "test", one_test, ""},
    {0, "cast", cast, " u8 to f32"},
    {0, "broadcast", two, ""},
    {0, "compare", two_test, ""},
    {0, "where", where, ""},
    {0, "reduce", reduce_last, " 1024"},
    {0, "argument", reduce_last, " 1024"},
    {0, "total", total, ""},
    {0, "top_k", top_k, " 5 of 1024"},
    {0, "last", rows_128, " 128"},
    {0, "xent", xent, " 10"},
    {0, "xent_grad", xent_grad, " 10"},
    {0, "expand", expand, " [64]"},
    {0, "like", expand, " [64]"},
    {0, "transpose", transpose, " n x 64"},
    {0, "slice", columns, ""},
    {0, "unslice", columns, ""},
    {0, "concat", concat, ""},
    {0, "unstack", unstack, " into 4"},
    {0, "gather", gather, ""},
    {0, "one_hot", one_hot, " 64"},
    {0, "drawn", drawn, ""},
    {0, "matmul", matmul, " 256"},
    {0, "conv", conv, " 13x13x32, 64"},
    {0, "conv_x", conv, " 13x13x32, 64"},
    {0, "conv_w", conv, " 13x13x32, 64"},
    {0, "pool_x", conv_pool, " 13x13x32, 64"},
    {0, "pool_w", conv_pool, " 13x13x32, 64"},
    {0, "depth", depthwise, " 28x28x64"},
    {0, "depth_x", depthwise, " 28x28x64"},
    {0, "depth_w", depthwise, " 28x28x64"},
    {0, "group", grouped, " 14x14x256"},
    {0, "group_x", grouped, " 14x14x256"},
    {0, "group_w", grouped, " 14x14x256"},
    {0, "pool_cell", pool, " 2x2"},
    {0, "pick", pool, " 2x2"},
    {0, "update", update, ""},
    {0, "by_norm", update, ""},
    {0, "scalars", number, ""},
    {0, "schedule", number, ""},
    {0, "replicas", values_of_replicas, ", 4 replicas"},
    {0, "agree", values_of_replicas, ", 4 replicas"},
    {0, "scatter", scatter, " rows of 64"},
    {0, "lane_add", lane_add, ", 8 lanes"},
};

#endif
