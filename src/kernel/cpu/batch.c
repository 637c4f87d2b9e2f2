/* Batch normalisation for f32.
 *
 * Operands are rows of channels. A vector has sixteen channels of a row. It processes a block of rows that stays in the first-level
 * cache; then the next sixteen channels of the same block follow. So every operand is read from memory once and in order.
 *
 * Sums have the order of ref/batch.inc: one accumulator in double per channel, lane after lane, and the lane sums up the tree. */
#include "kernel/batch.h"
#include "kernel/cpu/vec.h"
#include "kernel/register.h"

#define ALWAYS static inline __attribute__((always_inline))

enum { BLOCK = 2048, LANE_DEPTH = 11 }; /* floats of an operand in a block; open sums of up to 1024 lanes */

typedef struct operands {
    const float *x, *dy, *center;
    const float *pair;  /* scale and shift: of the result, or of the operand of the relu in between */
    const float *scale; /* batch_grad_x: the factor of dy; `back` then is the pair of x */
    const float *back;
    float       *dst;
    int64_t      C;
} operands;

ALWAYS vec part(const float *p, int64_t n, const int FULL) { return FULL ? vec_load(p) : vec_load_part(p, n); }

ALWAYS void put(float *p, vec a, int64_t n, const int FULL)
{
    if (FULL) vec_store(p, a);
    else vec_store_part(p, a, n);
}

/* Sixteen channels from c on (or n, if fewer), rows from <= r < to: fn for each kind of group. */
#define EACH_GROUP(o, from, to, ...)                                                                                               \
    for (int64_t block = lki_max(1, BLOCK / lki_max(1, (o)->C)), r = (from), end; r < (to); r = end) {                             \
        end = lki_min(r + block, (to));                                                                                            \
        for (int64_t c = 0; c < (o)->C; c += VEC) {                                                                                \
            const int64_t n = (o)->C - c;                                                                                          \
            __VA_ARGS__                                                                                                            \
        }                                                                                                                          \
    }

/* ---- sums -------------------------------------------------------------------------------------------------------------------- */

ALWAYS void sum_group(const operands *o, int64_t from, int64_t to, int64_t c, int64_t n, double *first, double *second,
                      const int FULL, const int GRAD, const int RELU)
{
    wide      s = wide_load(first + c), q = wide_load(second + c);
    const vec center = GRAD ? part(o->center + c, n, FULL) : vec_zero();
    const vec scale = RELU ? part(o->pair + c, n, FULL) : vec_zero(), shift = RELU ? part(o->pair + o->C + c, n, FULL) : vec_zero();
    for (int64_t r = from; r < to; r++) {
        const vec x = part(o->x + r * o->C + c, n, FULL);
        if (!GRAD) {
            const wide v = wide_of(x);
            s = wide_add(s, v);
            q = wide_fma(v, v, q);
            continue;
        }
        const vec away = vec_sub(x, center);
        vec       dy = part(o->dy + r * o->C + c, n, FULL);
        if (RELU) dy = vec_keep(vec_lt(vec_zero(), vec_fma(away, scale, shift)), dy);
        const wide d = wide_of(dy);
        s = wide_fma(d, wide_of(away), s);
        q = wide_add(q, d);
    }
    wide_store(first + c, s);
    wide_store(second + c, q);
}

ALWAYS void sum_rows(const operands *o, int64_t from, int64_t to, double *first, double *second, const int GRAD, const int RELU)
{
    EACH_GROUP(o, from, to, {
        if (n >= VEC) sum_group(o, r, end, c, n, first, second, 1, GRAD, RELU);
        else sum_group(o, r, end, c, n, first, second, 0, GRAD, RELU);
    })
}

static void plain_sums(const operands *o, int64_t from, int64_t to, double *s, double *q) { sum_rows(o, from, to, s, q, 0, 0); }
static void grad_sums(const operands *o, int64_t from, int64_t to, double *s, double *q) { sum_rows(o, from, to, s, q, 1, 0); }
static void relu_sums(const operands *o, int64_t from, int64_t to, double *s, double *q) { sum_rows(o, from, to, s, q, 1, 1); }

typedef void sums_fn(const operands *o, int64_t from, int64_t to, double *first, double *second);

static int64_t padded(const lki_args *a) { return lki_round_up(lki_channels(a->src[0].shape), VEC); }

/* The current sums, and those of complete subtrees. */
static size_t sums_scratch(const lki_args *a) { return (size_t)(2 * padded(a) * (LANE_DEPTH + 1)) * sizeof(double); }

static void sum_lanes(const lki_args *a, const operands *o, sums_fn *fn)
{
    const lk_shape *shape = a->src[0].shape;
    const int64_t   P = padded(a), entry = lki_channel_rows_per_entry(shape), all[2] = {0, shape->dim[0]};
    const lki_lanes one = {1, all}, *lanes = a->lanes ? a->lanes : &one;
    double         *acc = a->scratch, *dst = a->dst[0].data;
    for (int lane = 0; lane < lanes->count; lane++) {
        memset(acc, 0, (size_t)(2 * P) * sizeof *acc);
        fn(o, lanes->bound[lane] * entry, lanes->bound[lane + 1] * entry, acc, acc + P);
        for (int k = lane; k & 1; k >>= 1, acc -= 2 * P) /* a complete subtree is before this one */
            for (int64_t i = 0; i < 2 * P; i++)
                acc[i - 2 * P] = acc[i - 2 * P] + acc[i];
        acc += 2 * P;
    }
    acc = a->scratch;
    const double rows = (double)((lanes->bound[lanes->count] - lanes->bound[0]) * entry);
    for (int64_t i = a->lo; i < a->hi; i++)
        dst[i] = i < o->C ? acc[i] : i < 2 * o->C ? acc[P + i - o->C] : rows;
}

static void f32_batch_sums(const lki_args *a)
{
    const operands o = {.x = a->src[0].data, .C = lki_channels(a->src[0].shape)};
    if (a->lo < a->hi) sum_lanes(a, &o, plain_sums);
}

static void f32_batch_grad_sums(const lki_args *a)
{
    const bool     relu = lki_has_relu(a);
    const operands o = {.dy = a->src[0].data,
                        .x = a->src[1].data,
                        .center = a->src[2].data,
                        .pair = relu ? a->src[3].data : NULL,
                        .C = lki_channels(a->src[0].shape)};
    if (a->lo < a->hi) sum_lanes(a, &o, relu ? relu_sums : grad_sums);
}

/* ---- element by element ------------------------------------------------------------------------------------------------------ */

ALWAYS void apply_group(const operands *o, int64_t from, int64_t to, int64_t c, int64_t n, const int FULL, const int RELU)
{
    const vec center = part(o->center + c, n, FULL), scale = part(o->pair + c, n, FULL), shift = part(o->pair + o->C + c, n, FULL);
    for (int64_t r = from; r < to; r++) {
        const vec y = vec_fma(vec_sub(part(o->x + r * o->C + c, n, FULL), center), scale, shift);
        put(o->dst + r * o->C + c, RELU ? vec_max(vec_zero(), y) : y, n, FULL);
    }
}

ALWAYS void apply_rows(const operands *o, int64_t from, int64_t to, const int RELU)
{
    EACH_GROUP(o, from, to, {
        if (n >= VEC) apply_group(o, r, end, c, n, 1, RELU);
        else apply_group(o, r, end, c, n, 0, RELU);
    })
}

static void f32_batch_apply(const lki_args *a)
{
    const operands o = {.x = a->src[0].data,
                        .center = a->src[1].data,
                        .pair = a->src[2].data,
                        .dst = a->dst[0].data,
                        .C = lki_channels(a->src[0].shape)};
    if (a->lo >= a->hi) return;
    if (lki_has_relu(a)) apply_rows(&o, a->lo / o.C, a->hi / o.C, 1);
    else apply_rows(&o, a->lo / o.C, a->hi / o.C, 0);
}

ALWAYS void grad_x_group(const operands *o, int64_t from, int64_t to, int64_t c, int64_t n, const int FULL, const int RELU)
{
    const vec center = part(o->center + c, n, FULL), direct = part(o->scale + c, n, FULL);
    const vec b0 = part(o->back + c, n, FULL), b1 = part(o->back + o->C + c, n, FULL);
    const vec scale = RELU ? part(o->pair + c, n, FULL) : vec_zero(), shift = RELU ? part(o->pair + o->C + c, n, FULL) : vec_zero();
    for (int64_t r = from; r < to; r++) {
        const vec away = vec_sub(part(o->x + r * o->C + c, n, FULL), center);
        vec       dy = part(o->dy + r * o->C + c, n, FULL);
        if (RELU) dy = vec_keep(vec_lt(vec_zero(), vec_fma(away, scale, shift)), dy);
        put(o->dst + r * o->C + c, vec_add(vec_mul(dy, direct), vec_fma(away, b0, b1)), n, FULL);
    }
}

ALWAYS void grad_x_rows(const operands *o, int64_t from, int64_t to, const int RELU)
{
    EACH_GROUP(o, from, to, {
        if (n >= VEC) grad_x_group(o, r, end, c, n, 1, RELU);
        else grad_x_group(o, r, end, c, n, 0, RELU);
    })
}

static void f32_batch_grad_x(const lki_args *a)
{
    const operands o = {.dy = a->src[0].data,
                        .scale = a->src[1].data,
                        .x = a->src[2].data,
                        .center = a->src[3].data,
                        .back = a->src[4].data,
                        .pair = lki_has_relu(a) ? a->src[5].data : NULL,
                        .dst = a->dst[0].data,
                        .C = lki_channels(a->src[0].shape)};
    if (a->lo >= a->hi) return;
    if (o.pair) grad_x_rows(&o, a->lo / o.C, a->hi / o.C, 1);
    else grad_x_rows(&o, a->lo / o.C, a->hi / o.C, 0);
}

void ISA(lki_register_batch)(lki_kernels *k)
{
    lki_kernel_set(k, LKI_K_batch_sums, LK_F32, f32_batch_sums, sums_scratch, VARIANT);
    lki_kernel_set(k, LKI_K_batch_grad_sums, LK_F32, f32_batch_grad_sums, sums_scratch, VARIANT);
    lki_kernel_set(k, LKI_K_batch_apply, LK_F32, f32_batch_apply, NULL, VARIANT);
    lki_kernel_set(k, LKI_K_batch_grad_x, LK_F32, f32_batch_grad_x, NULL, VARIANT);
}
