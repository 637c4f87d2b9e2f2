/* Softmax and cross-entropy along the last axis for f32.
 *
 * A row is processed in three passes: its largest element m, then e = exp(x - m) and FOLD(e), then the results. Rows of at most
 * sixteen elements, the common classifier, are processed sixteen at a time, with a class of all of them in one register; the
 * remaining rows are in one register each. dst may be the logits. */
#include "kernel/cpu/transpose.h"
#include "kernel/cpu/vec.h"
#include "kernel/cpu/vec_math.h"
#include "kernel/fold.h"
#include "kernel/index.h"
#include "kernel/register.h"

/* ---- the parts of a row ------------------------------------------------------------------------------------------------------ */

static inline vec load_or_lowest(const float *x, int64_t n)
{
    return vec_select(vec_first(n), vec_load_part(x, n), vec_set(-INFINITY));
}

/* vec_max(x, m) skips NaN; a row with a NaN gets NaN through its sum. */
static float largest(const float *x, int64_t n)
{
    vec     m0 = vec_set(-INFINITY), m1 = m0;
    int64_t i = 0;
    for (; i + 2 * VEC <= n; i += 2 * VEC)
        m0 = vec_max(vec_load(x + i), m0), m1 = vec_max(vec_load(x + i + VEC), m1);
    for (; i + VEC <= n; i += VEC)
        m0 = vec_max(vec_load(x + i), m0);
    if (i < n) m1 = vec_max(load_or_lowest(x + i, n - i), m1);
    return vec_fold_max(vec_max(m0, m1));
}

static inline vec exp_part(const float *x, int64_t n, vec m)
{
    return vec_keep(vec_first(n), vec_exp(vec_sub(vec_load_part(x, n), m)));
}

/* FOLD of exp(x - m) over at most one block; the exponentials are kept in e unless that is NULL. */
static inline float sum_exp_block(const float *x, int64_t n, vec m, float *e)
{
    vec     acc = vec_zero();
    int64_t i = 0;
    for (; i + VEC <= n; i += VEC) {
        vec v = vec_exp(vec_sub(vec_load(x + i), m));
        acc = vec_add(acc, v);
        if (e) vec_store(e + i, v);
    }
    if (i < n) {
        vec v = exp_part(x + i, n - i, m);
        acc = vec_add(acc, v);
        if (e) vec_store_part(e + i, v, n - i);
    }
    return vec_fold_add(acc);
}

static float sum_exp(const float *x, int64_t n, float largest_x, float *e)
{
    vec m = vec_set(largest_x);
    if (n <= LKI_FOLD_BLOCK) return sum_exp_block(x, n, m, e);
    lki_fold_f32 tree = {0};
    for (int64_t i = 0; i < n; i += LKI_FOLD_BLOCK)
        lki_fold_f32_push(&tree, sum_exp_block(x + i, lki_min(n - i, LKI_FOLD_BLOCK), m, e ? e + i : NULL));
    return lki_fold_f32_end(&tree);
}

/* y[j] = expression of v = x[j], for a row of n. */
#define EACH_OF_ROW(y, x, n, expression)                                                                                           \
    do {                                                                                                                           \
        int64_t j_ = 0, n_ = n;                                                                                                    \
        for (; j_ + VEC <= n_; j_ += VEC) {                                                                                        \
            vec v = vec_load((x) + j_);                                                                                            \
            vec_store((y) + j_, expression);                                                                                       \
        }                                                                                                                          \
        if (j_ < n_) {                                                                                                             \
            vec v = vec_load_part((x) + j_, n_ - j_);                                                                              \
            vec_store_part((y) + j_, expression, n_ - j_);                                                                         \
        }                                                                                                                          \
    } while (0)

/* A row of at most sixteen elements in one register: its largest, exponentials and their FOLD. */
static inline vec exp_short(const float *x, int64_t n, float *m, float *sum)
{
    vec v = load_or_lowest(x, n);
    *m = vec_fold_max(v);
    vec e = vec_keep(vec_first(n), vec_exp(vec_sub(v, vec_set(*m))));
    *sum = vec_fold_add(e);
    return e;
}

/* m and the logarithm of the sum. */
static inline float log_sum_exp(const float *x, int64_t n, float *m)
{
    float sum;
    if (n <= VEC) exp_short(x, n, m, &sum);
    else sum = sum_exp(x, n, *m = largest(x, n), NULL);
    return lki_log_f32(sum);
}

/* ---- sixteen short rows ------------------------------------------------------------------------------------------------------ */

/* A class of sixteen rows, then the next class of them. */
typedef struct turned {
    _Alignas(64) float of[VEC * VEC];
} turned;

/* The elements of n classes are read in eights, so the last row must not be the last of all: hi is the end of the range, and
 * another thread may be writing after it. */
static inline bool sixteen_rows(int64_t n, int64_t i, int64_t hi)
{
    return n <= VEC && i + (VEC - 1) * n + (n <= 8 ? 8 : 16) <= hi;
}

static inline void take_rows(const float *x, int64_t n, turned *t)
{
    int64_t j = 0;
    do
        for (int64_t r = 0; r < VEC; r += 8)
            lki_transpose_8x8(x + r * n + j, n, t->of + j * VEC + r, VEC);
    while ((j += 8) < n);
}

/* In halves, as it was stored: a processor waits if a load needs two stores that are not complete. */
static inline vec class_of(const turned *t, int64_t j)
{
    return vec_join(_mm256_load_ps(t->of + j * VEC), _mm256_load_ps(t->of + j * VEC + 8));
}

/* Eights per row: the excess that they write is in the next row, which is written later. */
static inline void put_rows(const turned *t, float *y, int64_t n)
{
    turned  back;
    int64_t taken = n <= 8 ? 8 : 16, r = 0;
    for (int64_t j = 0; j < taken; j += 8)
        for (r = 0; r < VEC; r += 8)
            lki_transpose_8x8(t->of + j * VEC + r, VEC, back.of + r * VEC + j, VEC);
    for (r = 0; r * n + taken <= VEC * n; r++) {
        _mm256_storeu_ps(y + r * n, _mm256_load_ps(back.of + r * VEC));
        if (n > 8) _mm256_storeu_ps(y + r * n + 8, _mm256_load_ps(back.of + r * VEC + 8));
    }
    for (; r < VEC; r++)
        vec_store_part(y + r * n, class_of(&back, r), n);
}

static inline void set_class(turned *t, int64_t j, vec x) { vec_store(t->of + j * VEC, x); }

static inline vec largest_of_rows(const turned *t, int64_t n)
{
    vec m = vec_set(-INFINITY);
    for (int64_t j = 0; j < n; j++)
        m = vec_max(class_of(t, j), m);
    return m;
}

/* e = exp(x - m) into `to`, and FOLD(e): missing classes would add +0 to sums that are never -0. */
static inline vec sum_exp_of_rows(const turned *t, int64_t n, vec m, turned *to)
{
    vec acc[VEC];
    for (int64_t j = 0; j < n; j++) {
        acc[j] = vec_exp(vec_sub(class_of(t, j), m));
        if (to) set_class(to, j, acc[j]);
    }
    for (int64_t half = VEC / 2; half; half /= 2)
        for (int64_t j = half; j < lki_min(n, 2 * half); j++)
            acc[j - half] = vec_add(acc[j - half], acc[j]);
    return acc[0];
}

static void softmax_rows(const float *x, float *y, int64_t n)
{
    turned t;
    take_rows(x, n, &t);
    vec sum = sum_exp_of_rows(&t, n, largest_of_rows(&t, n), &t);
    for (int64_t j = 0; j < n; j++)
        set_class(&t, j, vec_div(class_of(&t, j), sum));
    put_rows(&t, y, n);
}

static void log_softmax_rows(const float *x, float *y, int64_t n)
{
    turned t;
    take_rows(x, n, &t);
    vec m = largest_of_rows(&t, n), log_sum = vec_log(sum_exp_of_rows(&t, n, m, NULL));
    for (int64_t j = 0; j < n; j++)
        set_class(&t, j, vec_sub(vec_sub(class_of(&t, j), m), log_sum));
    put_rows(&t, y, n);
}

static void xent_rows(const float *x, const int64_t *label, float *loss, int64_t n)
{
    turned t;
    float  at_label[VEC];
    take_rows(x, n, &t);
    for (int64_t r = 0; r < VEC; r++)
        at_label[r] = x[r * n + (label[r] < 0 ? 0 : label[r])];
    vec m = largest_of_rows(&t, n), log_sum = vec_log(sum_exp_of_rows(&t, n, m, NULL));
    vec_store(loss, vec_sub(log_sum, vec_sub(vec_load(at_label), m)));
}

/* A quotient is never -0, so subtracting 0 for classes that are not the label changes nothing. */
static void xent_grad_rows(const float *x, const int64_t *label, const float *dy, float *dx, int64_t n)
{
    turned t;
    float  labels[VEC];
    take_rows(x, n, &t);
    for (int64_t r = 0; r < VEC; r++)
        labels[r] = (float)label[r];
    vec sum = sum_exp_of_rows(&t, n, largest_of_rows(&t, n), &t), scale = vec_load(dy), chosen = vec_load(labels);
    for (int64_t j = 0; j < n; j++) {
        vec here = vec_keep(vec_eq(chosen, vec_set((float)j)), vec_set(1.0f));
        set_class(&t, j, vec_mul(scale, vec_sub(vec_div(class_of(&t, j), sum), here)));
    }
    put_rows(&t, dx, n);
}

/* ---- softmax ----------------------------------------------------------------------------------------------------------------- */

static void softmax_row(const float *x, float *y, int64_t n)
{
    float m, total;
    if (n <= VEC) {
        vec e = exp_short(x, n, &m, &total);
        vec_store_part(y, vec_div(e, vec_set(total)), n);
    } else {
        vec sum = vec_set(sum_exp(x, n, largest(x, n), y));
        EACH_OF_ROW(y, y, n, vec_div(v, sum));
    }
}

static void log_softmax_row(const float *x, float *y, int64_t n)
{
    float most;
    vec   log_sum = vec_set(log_sum_exp(x, n, &most)), m = vec_set(most);
    EACH_OF_ROW(y, x, n, vec_sub(vec_sub(v, m), log_sum));
}

#define SOFTMAX(name)                                                                                                              \
    static void f32_##name(const lki_args *a)                                                                                      \
    {                                                                                                                              \
        const float *x = (const float *)a->src[0].data;                                                                            \
        float       *y = (float *)a->dst[0].data;                                                                                  \
        int64_t      n = lki_last_axis(&a->src[0]), i = a->lo, hi = a->hi;                                                         \
        for (; i < hi && sixteen_rows(n, i, hi); i += VEC * n)                                                                     \
            name##_rows(x + i, y + i, n);                                                                                          \
        for (; i < hi; i += n)                                                                                                     \
            name##_row(x + i, y + i, n);                                                                                           \
    }

SOFTMAX(softmax)
SOFTMAX(log_softmax)

static inline float weighted_block(const float *dy, const float *y, int64_t n)
{
    vec     acc = vec_zero();
    int64_t i = 0;
    for (; i + VEC <= n; i += VEC)
        acc = vec_add(acc, vec_mul(vec_load(dy + i), vec_load(y + i)));
    if (i < n) acc = vec_add(acc, vec_mul(vec_load_part(dy + i, n - i), vec_load_part(y + i, n - i)));
    return vec_fold_add(acc);
}

static float weighted_sum(const float *dy, const float *y, int64_t n)
{
    if (n <= LKI_FOLD_BLOCK) return weighted_block(dy, y, n);
    lki_fold_f32 tree = {0};
    for (int64_t i = 0; i < n; i += LKI_FOLD_BLOCK)
        lki_fold_f32_push(&tree, weighted_block(dy + i, y + i, lki_min(n - i, LKI_FOLD_BLOCK)));
    return lki_fold_f32_end(&tree);
}

static inline vec softmax_back(vec dy, vec y, vec sum) { return vec_sub(vec_mul(dy, y), vec_mul(y, sum)); }

static void f32_softmax_grad(const lki_args *a)
{
    const int64_t n = lki_last_axis(&a->src[0]);
    for (int64_t i = a->lo; i < a->hi; i += n) {
        const float *dy = (const float *)a->src[0].data + i, *y = (const float *)a->src[1].data + i;
        float       *dx = (float *)a->dst[0].data + i;
        const vec    sum = vec_set(weighted_sum(dy, y, n));
        int64_t      j = 0;
        for (; j + VEC <= n; j += VEC)
            vec_store(dx + j, softmax_back(vec_load(dy + j), vec_load(y + j), sum));
        if (j < n) vec_store_part(dx + j, softmax_back(vec_load_part(dy + j, n - j), vec_load_part(y + j, n - j), sum), n - j);
    }
}

/* ---- cross-entropy ----------------------------------------------------------------------------------------------------------- */

/* The labels of `rows` rows; false if one of them is not a class. */
static bool labels_of(const lki_args *a, int64_t row, int64_t rows, int64_t n, int64_t label[VEC])
{
    bool all = true;
    for (int64_t r = 0; r < rows; r++) {
        label[r] = lki_label(a, row + r, n);
        all = all && label[r] >= 0;
    }
    return all;
}

static inline float without_class(int64_t label) { return label == LKI_LABEL_IGNORED ? 0.0f : NAN; }

static float xent_row(const float *x, int64_t n, int64_t label)
{
    float m, log_sum;
    if (label < 0) return without_class(label);
    log_sum = log_sum_exp(x, n, &m);
    return log_sum - (x[label] - m);
}

static void f32_sparse_xent(const lki_args *a)
{
    const float *x = (const float *)a->src[0].data;
    float       *loss = (float *)a->dst[0].data;
    int64_t      n = lki_last_axis(&a->src[0]), row = a->lo, hi = a->hi, label[VEC];
    for (; row < hi && sixteen_rows(n, row * n, hi * n); row += VEC) {
        bool all = labels_of(a, row, VEC, n, label);
        xent_rows(x + row * n, label, loss + row, n);
        for (int64_t r = 0; r < VEC && !all; r++)
            if (label[r] < 0) loss[row + r] = without_class(label[r]);
    }
    for (; row < hi; row++)
        loss[row] = xent_row(x + row * n, n, lki_label(a, row, n));
}

static void fill_row(float *dx, int64_t n, float value)
{
    for (int64_t j = 0; j < n; j++)
        dx[j] = value;
}

/* dy * (e / sum) for all classes, then the label's again with 1 subtracted. */
static void xent_grad_row(const float *x, float *dx, int64_t n, int64_t label, float dy)
{
    if (label < 0) {
        fill_row(dx, n, without_class(label));
        return;
    }
    float sum = sum_exp(x, n, largest(x, n), dx), at_label = dx[label];
    vec   scale = vec_set(dy), total = vec_set(sum);
    EACH_OF_ROW(dx, dx, n, vec_mul(scale, vec_div(v, total)));
    dx[label] = dy * (at_label / sum - 1.0f);
}

static void f32_sparse_xent_grad(const lki_args *a)
{
    const float *x = (const float *)a->src[0].data, *dy = (const float *)a->src[2].data;
    float       *dx = (float *)a->dst[0].data;
    int64_t      n = lki_last_axis(&a->src[0]), i = a->lo, hi = a->hi, label[VEC];
    for (; i < hi && sixteen_rows(n, i, hi); i += VEC * n) {
        bool all = labels_of(a, i / n, VEC, n, label);
        xent_grad_rows(x + i, label, dy + i / n, dx + i, n);
        for (int64_t r = 0; r < VEC && !all; r++)
            if (label[r] < 0) fill_row(dx + i + r * n, n, without_class(label[r]));
    }
    for (; i < hi; i += n)
        xent_grad_row(x + i, dx + i, n, lki_label(a, i / n, n), dy[i / n]);
}

#define SET(name) lki_kernel_set(k, LKI_K_##name, LK_F32, f32_##name, NULL, VARIANT)

void ISA(lki_register_rows)(lki_kernels *k)
{
    SET(softmax);
    SET(softmax_grad);
    SET(log_softmax);
    SET(sparse_xent);
    SET(sparse_xent_grad);
}
