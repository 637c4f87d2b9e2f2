/* reduce_sum, reduce_max, reduce_min, argmax, argmin and sum_squares for f32.
 *
 * Sums keep the order of ref/reduce.c: one vector element per accumulator of a FOLD, or per output element of a CHAIN. An addition
 * takes four cycles, so four independent sums (blocks, rows, columns or lanes) run side by side. */
#include "kernel/axes.h"
#include "kernel/cpu/vec.h"
#include "kernel/fold.h"
#include "kernel/register.h"

#include <math.h>

/* ---- FOLD -------------------------------------------------------------------------------------------------------------------- */

static inline vec plain_step(vec acc, vec x) { return vec_add(acc, x); }
static inline vec square_step(vec acc, vec x) { return vec_fma(x, x, acc); }

/* A partial group is padded with zeros, which change no accumulator. */
#define FOLD(name)                                                                                                                 \
    static inline float name##_block(const float *x, int64_t n)                                                                    \
    {                                                                                                                              \
        vec     acc = vec_zero();                                                                                                  \
        int64_t i = 0;                                                                                                             \
        for (; i + VEC <= n; i += VEC)                                                                                             \
            acc = name##_step(acc, vec_load(x + i));                                                                               \
        if (i < n) acc = name##_step(acc, vec_load_part(x + i, n - i));                                                            \
        return vec_fold_add(acc);                                                                                                  \
    }                                                                                                                              \
                                                                                                                                   \
    /* Four blocks of n elements, `apart` from each other. */                                                                      \
    static void name##_blocks(const float *x, int64_t apart, int64_t n, float sum[4])                                              \
    {                                                                                                                              \
        const float *x1 = x + apart, *x2 = x1 + apart, *x3 = x2 + apart;                                                           \
        vec          a0 = vec_zero(), a1 = vec_zero(), a2 = vec_zero(), a3 = vec_zero();                                           \
        int64_t      i = 0;                                                                                                        \
        for (; i + VEC <= n; i += VEC) {                                                                                           \
            a0 = name##_step(a0, vec_load(x + i)), a1 = name##_step(a1, vec_load(x1 + i));                                         \
            a2 = name##_step(a2, vec_load(x2 + i)), a3 = name##_step(a3, vec_load(x3 + i));                                        \
        }                                                                                                                          \
        if (i < n) {                                                                                                               \
            a0 = name##_step(a0, vec_load_part(x + i, n - i)), a1 = name##_step(a1, vec_load_part(x1 + i, n - i));                 \
            a2 = name##_step(a2, vec_load_part(x2 + i, n - i)), a3 = name##_step(a3, vec_load_part(x3 + i, n - i));                \
        }                                                                                                                          \
        sum[0] = vec_fold_add(a0), sum[1] = vec_fold_add(a1), sum[2] = vec_fold_add(a2), sum[3] = vec_fold_add(a3);                \
    }                                                                                                                              \
                                                                                                                                   \
    static float name##_fold(const float *x, int64_t n)                                                                            \
    {                                                                                                                              \
        if (n <= LKI_FOLD_BLOCK) return name##_block(x, n);                                                                        \
        lki_fold_f32 tree = {0};                                                                                                   \
        int64_t      i = 0;                                                                                                        \
        for (; i + 4 * LKI_FOLD_BLOCK <= n; i += 4 * LKI_FOLD_BLOCK) {                                                             \
            float sum[4];                                                                                                          \
            name##_blocks(x + i, LKI_FOLD_BLOCK, LKI_FOLD_BLOCK, sum);                                                             \
            for (int b = 0; b < 4; b++)                                                                                            \
                lki_fold_f32_push(&tree, sum[b]);                                                                                  \
        }                                                                                                                          \
        for (; i < n; i += LKI_FOLD_BLOCK)                                                                                         \
            lki_fold_f32_push(&tree, name##_block(x + i, lki_min(n - i, LKI_FOLD_BLOCK)));                                         \
        return lki_fold_f32_end(&tree);                                                                                            \
    }

FOLD(plain)
FOLD(square)

static void f32_sum_squares(const lki_args *a)
{
    if (a->lo < a->hi) *(float *)a->dst[0].data = square_fold((const float *)a->src[0].data, lki_shape_size(a->src[0].shape));
}

static void fold_rows(const float *x, int64_t rows, int64_t n, float *dst)
{
    int64_t r = 0;
    if (n <= LKI_FOLD_BLOCK)
        for (; r + 4 <= rows; r += 4)
            plain_blocks(x + r * n, n, n, dst + r);
    for (; r < rows; r++)
        dst[r] = plain_fold(x + r * n, n);
}

/* ---- CHAIN and LANES --------------------------------------------------------------------------------------------------------- */

enum {
    COLUMNS = 4 * VEC,
    DEPTH = 16, /* open sums of the tree over lanes: one more than its height */
};

/* sum[j] = x[j] + x[j + inner] + ..., k from..to, for `width` neighbouring columns. */
static void chain_columns(const float *x, int64_t inner, int64_t width, int64_t from, int64_t to, float sum[COLUMNS])
{
    if (width == COLUMNS) {
        vec a0 = vec_zero(), a1 = vec_zero(), a2 = vec_zero(), a3 = vec_zero();
        for (const float *p = x + from * inner; from < to; from++, p += inner) {
            a0 = vec_add(a0, vec_load(p)), a1 = vec_add(a1, vec_load(p + VEC));
            a2 = vec_add(a2, vec_load(p + 2 * VEC)), a3 = vec_add(a3, vec_load(p + 3 * VEC));
        }
        vec_store(sum, a0), vec_store(sum + VEC, a1), vec_store(sum + 2 * VEC, a2), vec_store(sum + 3 * VEC, a3);
        return;
    }
    int64_t j = 0;
    for (; j + 2 * VEC <= width; j += 2 * VEC) {
        vec a0 = vec_zero(), a1 = vec_zero();
        for (int64_t k = from; k < to; k++) {
            const float *p = x + k * inner + j;
            a0 = vec_add(a0, vec_load(p)), a1 = vec_add(a1, vec_load(p + VEC));
        }
        vec_store(sum + j, a0), vec_store(sum + j + VEC, a1);
    }
    for (; j < width; j += VEC) {
        vec     acc = vec_zero();
        int64_t n = lki_min(VEC, width - j);
        if (n == VEC)
            for (int64_t k = from; k < to; k++)
                acc = vec_add(acc, vec_load(x + k * inner + j));
        else
            for (int64_t k = from; k < to; k++)
                acc = vec_add(acc, vec_load_part(x + k * inner + j, n));
        vec_store(sum + j, acc);
    }
}

/* The same with 0 for x where y is not > 0. */
static void chain_columns_relu(const float *x, const float *y, int64_t inner, int64_t width, int64_t from, int64_t to,
                               float sum[COLUMNS])
{
    int64_t j = 0;
    for (; j + 2 * VEC <= width; j += 2 * VEC) {
        vec a0 = vec_zero(), a1 = vec_zero();
        for (int64_t k = from; k < to; k++) {
            const float *p = x + k * inner + j, *q = y + k * inner + j;
            a0 = vec_add(a0, vec_keep(vec_lt(vec_zero(), vec_load(q)), vec_load(p)));
            a1 = vec_add(a1, vec_keep(vec_lt(vec_zero(), vec_load(q + VEC)), vec_load(p + VEC)));
        }
        vec_store(sum + j, a0), vec_store(sum + j + VEC, a1);
    }
    for (; j < width; j += VEC) {
        vec     acc = vec_zero();
        int64_t n = lki_min(VEC, width - j);
        for (int64_t k = from; k < to; k++)
            acc = vec_add(acc,
                          vec_keep(vec_lt(vec_zero(), vec_load_part(y + k * inner + j, n)), vec_load_part(x + k * inner + j, n)));
        vec_store(sum + j, acc);
    }
}

static void add_columns(float *sum, const float *other)
{
    for (int j = 0; j < COLUMNS; j += VEC)
        vec_store(sum + j, vec_add(vec_load(sum + j), vec_load(other + j)));
}

/* Columns of [mid, inner], all lanes: a chain each, combined as soon as both sides of a node of the tree are complete. */
static void lanes_columns(const float *x, const float *y, int64_t inner, int64_t columns, const lki_lanes *lanes, int64_t entry,
                          float *dst)
{
    float sum[DEPTH][COLUMNS] = {{0}};
    for (int64_t j = 0; j < columns; j += COLUMNS) {
        int64_t width = lki_min(COLUMNS, columns - j);
        int     open = 0;
        for (int s = 0; s < lanes->count; s++) {
            const int64_t from = lanes->bound[s] * entry, to = lanes->bound[s + 1] * entry;
            if (y) chain_columns_relu(x + j, y + j, inner, width, from, to, sum[open++]);
            else chain_columns(x + j, inner, width, from, to, sum[open++]);
            for (int n = s; n & 1; n >>= 1, open--)
                add_columns(sum[open - 2], sum[open - 1]);
        }
        for (int64_t c = 0; c < width; c += VEC)
            vec_store_part(dst + j + c, vec_load(sum[0] + c), lki_min(VEC, width - c));
    }
}

/* inner = 1: one chain per lane, four lanes side by side. */
static float lanes_chain(const float *x, const lki_lanes *lanes, int64_t entry)
{
    lki_fold_f32 tree = {0};
    for (int s = 0; s < lanes->count; s += 4) {
        int          group = (int)lki_min(4, lanes->count - s);
        const float *p[4], *end[4];
        float        sum[4] = {0};
        int64_t      n = INT64_MAX, i = 0;
        for (int l = 0; l < group; l++) {
            p[l] = x + lanes->bound[s + l] * entry;
            end[l] = x + lanes->bound[s + l + 1] * entry;
            n = lki_min(n, end[l] - p[l]);
        }
        if (group == 4) {
            float a0 = 0, a1 = 0, a2 = 0, a3 = 0;
            for (; i < n; i++)
                a0 += p[0][i], a1 += p[1][i], a2 += p[2][i], a3 += p[3][i];
            sum[0] = a0, sum[1] = a1, sum[2] = a2, sum[3] = a3;
        }
        for (int l = 0; l < group; l++) {
            for (const float *q = p[l] + i; q < end[l]; q++)
                sum[l] += *q;
            lki_fold_f32_push(&tree, sum[l]);
        }
    }
    return lki_fold_f32_end(&tree);
}

/* Output elements lo..hi in stretches that are in one [mid, inner] block: first column, count. */
#define EACH_STRETCH(...)                                                                                                          \
    for (int64_t o = a->lo, columns; o < a->hi; o += columns) {                                                                    \
        const float *x = (const float *)a->src[0].data + lki_column(e, o);                                                         \
        columns = lki_min(a->hi - o, e.inner - o % e.inner);                                                                       \
        __VA_ARGS__                                                                                                                \
    }

static void f32_reduce_sum(const lki_args *a)
{
    lki_extent       e = lki_reduced(a);
    float           *dst = (float *)a->dst[0].data;
    int64_t          entry = 1, whole[2] = {0, e.mid};
    const lki_lanes *lanes = lki_reduced_lanes(a, &entry), one = {1, whole};
    if (a->lo >= a->hi) return;
    if (e.inner > 1) {
        const float *y = a->attr->epilogue.relu ? a->src[1].data : NULL;
        EACH_STRETCH(
            lanes_columns(x, y ? y + lki_column(e, o) : NULL, e.inner, columns, lanes ? lanes : &one, lanes ? entry : 1, dst + o);)
    } else if (lanes) dst[0] = lanes_chain((const float *)a->src[0].data, lanes, entry);
    else fold_rows((const float *)a->src[0].data + a->lo * e.mid, a->hi - a->lo, e.mid, dst + a->lo);
}

/* ---- extremes ---------------------------------------------------------------------------------------------------------------- */

/* A NaN is kept; + 0 turns -0 into +0, so that the result does not depend on the order. */
#define EXTREME(slot, pick, fold, start)                                                                                           \
    static inline vec slot##_step(vec best, vec x) { return vec_select(vec_nan(x), x, pick(x, best)); }                            \
                                                                                                                                   \
    static float slot##_row(const float *x, int64_t n)                                                                             \
    {                                                                                                                              \
        vec     b0 = vec_set(start), b1 = b0;                                                                                      \
        int64_t i = 0;                                                                                                             \
        for (; i + 2 * VEC <= n; i += 2 * VEC)                                                                                     \
            b0 = slot##_step(b0, vec_load(x + i)), b1 = slot##_step(b1, vec_load(x + i + VEC));                                    \
        for (; i < n; i += VEC) {                                                                                                  \
            int64_t part = lki_min(VEC, n - i);                                                                                    \
            b0 = slot##_step(b0, vec_select(vec_first(part), vec_load_part(x + i, part), vec_set(start)));                         \
        }                                                                                                                          \
        b0 = slot##_step(b0, b1);                                                                                                  \
        return vec_any(vec_nan(b0)) ? NAN : fold(b0) + 0.0f;                                                                       \
    }                                                                                                                              \
                                                                                                                                   \
    static void slot##_columns(const float *x, int64_t mid, int64_t inner, int64_t columns, float *dst)                            \
    {                                                                                                                              \
        int64_t j = 0;                                                                                                             \
        for (; j + 2 * VEC <= columns; j += 2 * VEC) {                                                                             \
            vec b0 = vec_set(start), b1 = b0;                                                                                      \
            for (int64_t k = 0; k < mid; k++) {                                                                                    \
                b0 = slot##_step(b0, vec_load(x + k * inner + j));                                                                 \
                b1 = slot##_step(b1, vec_load(x + k * inner + j + VEC));                                                           \
            }                                                                                                                      \
            vec_store(dst + j, vec_add(b0, vec_zero())), vec_store(dst + j + VEC, vec_add(b1, vec_zero()));                        \
        }                                                                                                                          \
        for (; j < columns; j += VEC) {                                                                                            \
            vec     best = vec_set(start);                                                                                         \
            int64_t n = lki_min(VEC, columns - j);                                                                                 \
            for (int64_t k = 0; k < mid; k++)                                                                                      \
                best = slot##_step(best, vec_load_part(x + k * inner + j, n));                                                     \
            vec_store_part(dst + j, vec_add(best, vec_zero()), n);                                                                 \
        }                                                                                                                          \
    }                                                                                                                              \
                                                                                                                                   \
    static void f32_##slot(const lki_args *a)                                                                                      \
    {                                                                                                                              \
        lki_extent e = lki_reduced(a);                                                                                             \
        float     *dst = (float *)a->dst[0].data;                                                                                  \
        if (e.inner > 1) EACH_STRETCH(slot##_columns(x, e.mid, e.inner, columns, dst + o);)                                        \
        else                                                                                                                       \
            for (int64_t o = a->lo; o < a->hi; o++)                                                                                \
                dst[o] = slot##_row((const float *)a->src[0].data + o * e.mid, e.mid);                                             \
    }

EXTREME(reduce_max, vec_max, vec_fold_max, -INFINITY)
EXTREME(reduce_min, vec_min, vec_fold_min, INFINITY)

/* ---- where the extremes are -------------------------------------------------------------------------------------------------- */

enum { SEARCHED = 4096 }; /* elements that stay in L1 between finding their extreme and finding its index */

/* The first element equal to `wanted`, which exists; if that is NaN, the first NaN. */
static int64_t first_place(const float *x, int64_t n, float wanted)
{
    vec     w = vec_set(wanted);
    int64_t i = 0;
    for (; i + VEC <= n; i += VEC) {
        vec v = vec_load(x + i);
        if (vec_any(wanted != wanted ? vec_nan(v) : vec_eq(v, w))) break;
    }
    while (i < n - 1 && !(x[i] == wanted || (wanted != wanted && x[i] != x[i])))
        i++;
    return i;
}

/* Block by block, so that a long row is read from memory once; among equal blocks the first. */
#define PLACE_IN_ROW(slot, extreme, beats)                                                                                         \
    static int64_t slot##_row(const float *x, int64_t n)                                                                           \
    {                                                                                                                              \
        if (n == 0) return 0;                                                                                                      \
        int64_t from = 0;                                                                                                          \
        float   best = extreme(x, lki_min(n, SEARCHED));                                                                           \
        for (int64_t i = SEARCHED; i < n && best == best; i += SEARCHED) {                                                         \
            float v = extreme(x + i, lki_min(n - i, SEARCHED));                                                                    \
            if (v beats best || v != v) best = v, from = i;                                                                        \
        }                                                                                                                          \
        return from + first_place(x + from, lki_min(n - from, SEARCHED), best);                                                    \
    }

/* Sixteen columns side by side: the best of each and its index, four bytes that are only moved. Once NaN, always NaN. */
#define PLACE_IN_COLUMNS(slot, beats)                                                                                              \
    static void slot##_columns(const float *x, int64_t mid, int64_t inner, int64_t columns, int64_t *dst)                          \
    {                                                                                                                              \
        for (int64_t j = 0, n; j < columns; j += n) {                                                                              \
            n = lki_min(VEC, columns - j);                                                                                         \
            vec   best = mid ? vec_load_part(x + j, n) : vec_zero(), at = vec_zero();                                              \
            float place[VEC];                                                                                                      \
            for (int64_t k = 1; k < mid; k++) {                                                                                    \
                vec   v = vec_load_part(x + k * inner + j, n), here = vint_float_bits(vint_set((int32_t)k));                       \
                vmask done = vec_nan(best), take = beats(v, best);                                                                 \
                at = vec_select(done, at, vec_select(take, here, at));                                                             \
                best = vec_select(done, best, vec_select(take, v, best));                                                          \
            }                                                                                                                      \
            vec_store(place, at);                                                                                                  \
            for (int64_t c = 0; c < n; c++) {                                                                                      \
                uint32_t k;                                                                                                        \
                memcpy(&k, &place[c], sizeof k);                                                                                   \
                dst[j + c] = k;                                                                                                    \
            }                                                                                                                      \
        }                                                                                                                          \
    }

/* Larger, or smaller, or NaN against a number. */
static inline vmask above(vec v, vec best) { return vec_not_le(v, best); }
static inline vmask below(vec v, vec best) { return vec_not_le(best, v); }

#define PLACE(slot)                                                                                                                \
    static void f32_##slot(const lki_args *a)                                                                                      \
    {                                                                                                                              \
        lki_extent e = lki_reduced(a);                                                                                             \
        int64_t   *dst = (int64_t *)a->dst[0].data;                                                                                \
        if (e.inner > 1) EACH_STRETCH(slot##_columns(x, e.mid, e.inner, columns, dst + o);)                                        \
        else                                                                                                                       \
            for (int64_t o = a->lo; o < a->hi; o++)                                                                                \
                dst[o] = slot##_row((const float *)a->src[0].data + o * e.mid, e.mid);                                             \
    }

PLACE_IN_ROW(argmax, reduce_max_row, >)
PLACE_IN_ROW(argmin, reduce_min_row, <)
PLACE_IN_COLUMNS(argmax, above)
PLACE_IN_COLUMNS(argmin, below)
PLACE(argmax)
PLACE(argmin)

#define SET(name) lki_kernel_set(k, LKI_K_##name, LK_F32, f32_##name, NULL, VARIANT)

void ISA(lki_register_reduce)(lki_kernels *k)
{
    SET(reduce_sum);
    SET(reduce_max);
    SET(reduce_min);
    SET(argmax);
    SET(argmin);
    SET(sum_squares);
}
