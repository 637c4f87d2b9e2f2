/* Layer normalisation and its gradients for f32.
 *
 * A row is read from the first-level cache, three times forward (mean, deviation, result) and twice backward; both sums of the
 * gradient are computed together. The sum over rows for gamma keeps the chains of GAMMA_COLUMNS columns in registers, row after
 * row. Orders of summation as in ref/layer_norm.inc; the unused part of a vector is zero, and zeros change no accumulator. */
#include "kernel/cpu/vec.h"
#include "kernel/fold.h"
#include "kernel/index.h"
#include "kernel/register.h"
#include <math.h>

/* Elements from i on of a row: a whole vector, or the n - i that are left. */
static inline vec take(const float *x, int64_t i, int64_t n)
{
    return i + VEC <= n ? vec_load(x + i) : vec_load_part(x + i, n - i);
}

static inline void put(float *y, int64_t i, int64_t n, vec v)
{
    if (i + VEC <= n) vec_store(y + i, v);
    else vec_store_part(y + i, v, n - i);
}

/* The same, with zeros for missing elements. */
static inline vec kept(vec v, int64_t i, int64_t n) { return i + VEC <= n ? v : vec_keep(vec_first(n - i), v); }

static inline float sum_block(const float *x, int64_t n)
{
    vec acc = vec_zero();
    for (int64_t i = 0; i < n; i += VEC)
        acc = vec_add(acc, take(x, i, n));
    return vec_fold_add(acc);
}

static inline float squares_block(const float *x, int64_t n, vec mean)
{
    vec acc = vec_zero();
    for (int64_t i = 0; i < n; i += VEC) {
        const vec c = kept(vec_sub(take(x, i, n), mean), i, n);
        acc = vec_fma(c, c, acc);
    }
    return vec_fold_add(acc);
}

static float sum_row(const float *x, int64_t n)
{
    if (n <= LKI_FOLD_BLOCK) return sum_block(x, n);
    lki_fold_f32 tree = {0};
    for (int64_t i = 0; i < n; i += LKI_FOLD_BLOCK)
        lki_fold_f32_push(&tree, sum_block(x + i, lki_min(n - i, LKI_FOLD_BLOCK)));
    return lki_fold_f32_end(&tree);
}

static float squares_row(const float *x, int64_t n, vec mean)
{
    if (n <= LKI_FOLD_BLOCK) return squares_block(x, n, mean);
    lki_fold_f32 tree = {0};
    for (int64_t i = 0; i < n; i += LKI_FOLD_BLOCK)
        lki_fold_f32_push(&tree, squares_block(x + i, lki_min(n - i, LKI_FOLD_BLOCK), mean));
    return lki_fold_f32_end(&tree);
}

static void layer_norm_of_nothing(const lki_args *a) /* as in ref/layer_norm.inc */
{
    float *means = a->dst[1].data, *scales = a->dst[2].data;
    for (int64_t i = 0; i < lki_shape_size(a->dst[1].shape); i++)
        means[i] = 0, scales[i] = 1.0f / sqrtf((float)a->attr->num.a);
}

static void f32_layer_norm(const lki_args *a)
{
    const int64_t n = lki_last_axis(&a->src[0]);
    const float  *gamma = a->src[1].data, *beta = a->src[2].data, epsilon = (float)a->attr->num.a;
    float        *means = a->dst[1].data, *scales = a->dst[2].data;
    if (n == 0) layer_norm_of_nothing(a);
    for (int64_t i = a->lo; i < a->hi; i += n) {
        const float *x = (const float *)a->src[0].data + i;
        float       *y = (float *)a->dst[0].data + i;
        const float  mean = sum_row(x, n) / (float)n;
        const vec    m = vec_set(mean);
        const float  scale = 1.0f / sqrtf(squares_row(x, n, m) / (float)n + epsilon);
        const vec    r = vec_set(scale);
        for (int64_t j = 0; j < n; j += VEC)
            put(y, j, n, vec_add(vec_mul(vec_mul(vec_sub(take(x, j, n), m), r), take(gamma, j, n)), take(beta, j, n)));
        means[i / n] = mean;
        scales[i / n] = scale;
    }
}

/* FOLD(g) and FOLD(g * h) over at most one block, g = dy * gamma, h = (x - mean) * r. */
static inline void grad_block(const float *dy, const float *x, const float *gamma, int64_t n, vec m, vec r, float *sum,
                              float *product)
{
    vec s = vec_zero(), p = vec_zero();
    for (int64_t i = 0; i < n; i += VEC) {
        const vec g = vec_mul(take(dy, i, n), take(gamma, i, n)), h = vec_mul(vec_sub(take(x, i, n), m), r);
        s = vec_add(s, g);
        p = vec_fma(g, kept(h, i, n), p);
    }
    *sum = vec_fold_add(s);
    *product = vec_fold_add(p);
}

static void grad_sums(const float *dy, const float *x, const float *gamma, int64_t n, vec m, vec r, float *sum, float *product)
{
    lki_fold_f32 sums = {0}, products = {0};
    if (n <= LKI_FOLD_BLOCK) {
        grad_block(dy, x, gamma, n, m, r, sum, product);
        return;
    }
    for (int64_t i = 0; i < n; i += LKI_FOLD_BLOCK) {
        grad_block(dy + i, x + i, gamma + i, lki_min(n - i, LKI_FOLD_BLOCK), m, r, sum, product);
        lki_fold_f32_push(&sums, *sum);
        lki_fold_f32_push(&products, *product);
    }
    *sum = lki_fold_f32_end(&sums);
    *product = lki_fold_f32_end(&products);
}

static void f32_layer_norm_grad_x(const lki_args *a)
{
    const int64_t n = lki_last_axis(&a->src[0]);
    const float  *gamma = a->src[2].data, *means = a->src[3].data, *scales = a->src[4].data;
    for (int64_t i = a->lo; i < a->hi; i += n) {
        const float *dy = (const float *)a->src[0].data + i, *x = (const float *)a->src[1].data + i;
        float       *dx = (float *)a->dst[0].data + i, sum, product;
        const vec    m = vec_set(means[i / n]), r = vec_set(scales[i / n]);
        grad_sums(dy, x, gamma, n, m, r, &sum, &product);
        const vec s = vec_set(sum / (float)n), p = vec_set(product / (float)n);
        for (int64_t j = 0; j < n; j += VEC) {
            const vec g = vec_mul(take(dy, j, n), take(gamma, j, n)), h = vec_mul(vec_sub(take(x, j, n), m), r);
            put(dx, j, n, vec_mul(vec_sub(g, vec_fma(h, p, s)), r));
        }
    }
}

/* ---- the sum over rows ------------------------------------------------------------------------------------------------------- */

enum { GAMMA_VECTORS = 4, GAMMA_COLUMNS = GAMMA_VECTORS * VEC, GAMMA_LANES = 11 };

/* Chains of GAMMA_COLUMNS columns over the rows from <= row < to. */
static void gamma_wide(const float *dy, const float *x, const float *mean, const float *r, int64_t n, int64_t rows, float *sum)
{
    vec a0 = vec_zero(), a1 = vec_zero(), a2 = vec_zero(), a3 = vec_zero();
    for (int64_t row = 0; row < rows; row++, dy += n, x += n) {
        const vec m = vec_set(mean[row]), s = vec_set(r[row]);
        a0 = vec_fma(vec_load(dy), vec_mul(vec_sub(vec_load(x), m), s), a0);
        a1 = vec_fma(vec_load(dy + VEC), vec_mul(vec_sub(vec_load(x + VEC), m), s), a1);
        a2 = vec_fma(vec_load(dy + 2 * VEC), vec_mul(vec_sub(vec_load(x + 2 * VEC), m), s), a2);
        a3 = vec_fma(vec_load(dy + 3 * VEC), vec_mul(vec_sub(vec_load(x + 3 * VEC), m), s), a3);
    }
    vec_store(sum, a0), vec_store(sum + VEC, a1), vec_store(sum + 2 * VEC, a2), vec_store(sum + 3 * VEC, a3);
}

/* For at most one vector of columns. */
static void gamma_thin(const float *dy, const float *x, const float *mean, const float *r, int64_t n, int64_t rows, int64_t columns,
                       float *sum)
{
    vec acc = vec_zero();
    for (int64_t row = 0; row < rows; row++, dy += n, x += n)
        acc = vec_fma(take(dy, 0, columns), vec_mul(vec_sub(take(x, 0, columns), vec_set(mean[row])), vec_set(r[row])), acc);
    vec_store(sum, acc);
}

/* The columns j .. j + columns of one lane. */
static void gamma_lane(const lki_args *a, int64_t j, int64_t columns, int64_t n, int64_t from, int64_t to, float *sum)
{
    const float *dy = (const float *)a->src[0].data + from * n + j, *x = (const float *)a->src[1].data + from * n + j;
    const float *mean = (const float *)a->src[2].data + from, *r = (const float *)a->src[3].data + from;
    if (columns == GAMMA_COLUMNS) gamma_wide(dy, x, mean, r, n, to - from, sum);
    else
        for (int64_t k = 0; k < columns; k += VEC)
            gamma_thin(dy + k, x + k, mean, r, n, to - from, lki_min(VEC, columns - k), sum + k);
}

static void f32_layer_norm_grad_gamma(const lki_args *a)
{
    const lk_shape    *s = a->src[0].shape;
    const int64_t      n = lki_last_axis(&a->src[0]), rows = n ? lki_shape_size(s) / n : 0, each = s->dim[0] ? rows / s->dim[0] : 0;
    float             *dst = a->dst[0].data;
    _Alignas(64) float open[GAMMA_LANES][GAMMA_COLUMNS];
    for (int64_t j = a->lo; j < a->hi; j += GAMMA_COLUMNS) {
        const int64_t columns = lki_min(GAMMA_COLUMNS, a->hi - j);
        const int     lanes = a->lanes ? a->lanes->count : 1;
        int           top = 0;
        for (int lane = 0; lane < lanes; lane++, top++) {
            const int64_t from = a->lanes ? a->lanes->bound[lane] * each : 0,
                          to = a->lanes ? a->lanes->bound[lane + 1] * each : rows;
            gamma_lane(a, j, columns, n, from, to, open[top]);
            for (int below = lane; below & 1; below >>= 1, top--)
                for (int64_t k = 0; k < columns; k += VEC)
                    vec_store(open[top - 1] + k, vec_add(vec_load(open[top - 1] + k), vec_load(open[top] + k)));
        }
        memcpy(dst + j, open[0], (size_t)columns * sizeof *dst);
    }
}

#define SET(name) lki_kernel_set(k, LKI_K_##name, LK_F32, f32_##name, NULL, VARIANT)

void ISA(lki_register_layer_norm)(lki_kernels *k)
{
    SET(layer_norm);
    SET(layer_norm_grad_x);
    SET(layer_norm_grad_gamma);
}
