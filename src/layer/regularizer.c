/* Regularisers: l1 * sum |x| + l2 * sum x^2; and those for rows or columns of a matrix that should be perpendicular. */
#include "layer/regularizer.h"
#include "core/option.h"
#include "core/rounding.h"
#include "op/gradient.h"
#include <math.h>

static bool is_strength(const char *call, const char *name, double c)
{
    if (c >= 0 && isfinite(c)) return true;
    lki_fail(LK_EINVAL, "%s: %s is %g; it must be a number of at least 0", call, name, c);
    return false;
}

static lk_regularizer *regularizer_new(const char *call, const lki_class *class, lki_regularizer_args a)
{
    if (!is_strength(call, "l1", a.l1) || !is_strength(call, "l2", a.l2) || !is_strength(call, "the factor", lki_number(a.factor)))
        return NULL;
    lk_regularizer *r = lki_object_new(sizeof *r, LKI_KIND_REGULARIZER, LKI_LIVES_IN_POOL, NULL);
    if (!r) return NULL;
    r->class = class;
    r->set = a;
    return r;
}

/* ---- the classes ---- */

static void *make_l1(const void *args) { return lk_l1(((const lki_regularizer_args *)args)->l1); }
static void *make_l2(const void *args) { return lk_l2(((const lki_regularizer_args *)args)->l2); }
static void *make_both(const void *args)
{
    const lki_regularizer_args *a = args;
    return lk_l1_l2(a->l1, a->l2);
}

static void *make_orthogonal(const void *args);

static const char *const MODES[] = {[LKI_ORTHOGONAL_ROWS] = "rows", [LKI_ORTHOGONAL_COLUMNS] = "columns"};
static const lki_field   ORTHOGONAL[] = {LKI_FIELD(NUMBER, lki_regularizer_args, factor, .standard = 0.01),
                                         LKI_FIELD(WORD, lki_regularizer_args, mode, .words = MODES, .word_count = 2)};
static const lki_field   L1_FIELD[] = {LKI_FIELD(REAL, lki_regularizer_args, l1)};
static const lki_field   L2_FIELD[] = {LKI_FIELD(REAL, lki_regularizer_args, l2)};
static const lki_field   BOTH[] = {LKI_FIELD(REAL, lki_regularizer_args, l1), LKI_FIELD(REAL, lki_regularizer_args, l2)};

enum { L1, L2, L1_L2, PERPENDICULAR };
const lki_class lki_regularizer_classes[] = {
    [L1] = {"L1", "keras.regularizers", LKI_ARGS(lki_regularizer_args, L1_FIELD), make_l1},
    [L2] = {"L2", "keras.regularizers", LKI_ARGS(lki_regularizer_args, L2_FIELD), make_l2},
    [L1_L2] = {"L1L2", "keras.regularizers", LKI_ARGS(lki_regularizer_args, BOTH), make_both},
    [PERPENDICULAR] = {"OrthogonalRegularizer", "keras.regularizers", LKI_ARGS(lki_regularizer_args, ORTHOGONAL), make_orthogonal},
    {0},
};

lk_regularizer *lk_l1(double c) { return regularizer_new("lk_l1", &lki_regularizer_classes[L1], (lki_regularizer_args){.l1 = c}); }
lk_regularizer *lk_l2(double c) { return regularizer_new("lk_l2", &lki_regularizer_classes[L2], (lki_regularizer_args){.l2 = c}); }
lk_regularizer *lk_l1_l2(double l1, double l2)
{
    return regularizer_new("lk_l1_l2", &lki_regularizer_classes[L1_L2], (lki_regularizer_args){.l1 = l1, .l2 = l2});
}

static lk_regularizer *orthogonal(const char *call, double factor, lki_orthogonal_mode mode)
{
    const lki_regularizer_args a = {.factor = LK_NUMBER(factor), .mode = mode};
    return regularizer_new(call, &lki_regularizer_classes[PERPENDICULAR], a);
}

lk_regularizer *lk_orthogonal_rows(double factor) { return orthogonal("lk_orthogonal_rows", factor, LKI_ORTHOGONAL_ROWS); }
lk_regularizer *lk_orthogonal_columns(double factor) { return orthogonal("lk_orthogonal_columns", factor, LKI_ORTHOGONAL_COLUMNS); }

static void *make_orthogonal(const void *args)
{
    const lki_regularizer_args *a = args;
    return orthogonal("lk_orthogonal_rows", lki_number_or(a->factor, 0.01), a->mode);
}

static bool is_orthogonal(const lk_regularizer *r) { return r->class == &lki_regularizer_classes[PERPENDICULAR]; }

/* The mean of the cosines' sizes between any two rows or columns, times the factor. */
static lk_tensor *between_pairs(const lk_regularizer *r, lk_tensor *x)
{
    LKI_NEAREST;
    char       text[LKI_SHAPE_TEXT];
    const bool rows = r->set.mode == LKI_ORTHOGONAL_ROWS;
    if (x->shape.rank != 2)
        return lki_refuse(LK_ESHAPE, "lk_regularizer_call: OrthogonalRegularizer: x is %s; it should be a matrix",
                          lki_shape_text(&x->shape, text));
    const double size = (double)x->shape.dim[rows ? 0 : 1], pairs = size * (size - 1) / 2;
    lk_tensor   *length = lk_rsqrt(lk_reduce_sum(lk_square(x), .axis = rows ? 1 : LK_AXES(0), .keepdims = LK_ON));
    lk_tensor   *unit = lk_mul(x, lk_minimum(length, lki_like(x, 1e7)));
    lk_tensor   *cosines = rows ? lk_matmul(unit, unit, .transpose_b = LK_ON) : lk_matmul(unit, unit, .transpose_a = LK_ON);
    lk_tensor *others = lk_one_hot(lk_range((int64_t)size, LK_I32), (int64_t)size, .on = LK_NUMBER(0), .off = 1, .dtype = x->dtype);
    lk_tensor *sum = lk_reduce_sum(lk_abs(lk_mul(cosines, others)));
    return lk_mul(sum, lki_like(x, pairs > 0 ? lki_number(r->set.factor) * 0.5 / pairs : 0));
}

static lk_tensor *plus(lk_tensor *a, lk_tensor *b) { return a && b ? lk_add(a, b) : a ? a : b; }

lk_tensor *lk_regularizer_call(const lk_regularizer *r, lk_tensor *x)
{
    if (!r) return lki_refuse(LK_EINVAL, "lk_regularizer_call: the regulariser is NULL");
    if (!lki_is_kind(r, LKI_KIND_REGULARIZER)) return lki_refuse(LK_EINVAL, "lk_regularizer_call: not a regulariser");
    if (!lki_usable("lk_regularizer_call", "x", x)) return &lki_poison;
    if (is_orthogonal(r)) return between_pairs(r, x);
    lk_tensor *sum = plus(r->set.l1 > 0 ? lk_nn_l1(x, r->set.l1) : NULL, r->set.l2 > 0 ? lk_nn_l2(x, r->set.l2) : NULL);
    return sum ? sum : lki_like(x, 0);
}

/* c * sum over everything after the leading axis. */
static lk_tensor *row_sums(lk_tensor *x, double c)
{
    lki_axes behind = {0};
    for (int i = 1; i < lk_rank(x); i++)
        behind.value[behind.count++] = i;
    return lk_mul(behind.count ? lk_reduce_sum(x, .axis = lki_axes_list(&behind)) : x, lki_like(x, c));
}

lk_tensor *lki_regularizer_rows(const lk_regularizer *r, lk_tensor *x)
{
    if (is_orthogonal(r))
        return lki_refuse(LK_EUNSUPPORTED,
                          "OrthogonalRegularizer compares rows, so it is for weights and not for the activity of a layer");
    lk_tensor *sum =
        plus(r->set.l1 > 0 ? row_sums(lk_abs(x), r->set.l1) : NULL, r->set.l2 > 0 ? row_sums(lk_square(x), r->set.l2) : NULL);
    return sum ? sum : row_sums(x, 0);
}
