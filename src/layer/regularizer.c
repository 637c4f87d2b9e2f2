/* Regularisers: l1 * sum |x| + l2 * sum x^2. */
#include "layer/regularizer.h"
#include "op/gradient.h"
#include <math.h>

static bool is_strength(const char *call, const char *name, double c)
{
    if (c >= 0 && isfinite(c)) return true;
    lki_fail(LK_EINVAL, "%s: %s is %g; it must be a number of at least 0", call, name, c);
    return false;
}

static lk_regularizer *regularizer_new(const char *call, const lki_class *class, double l1, double l2)
{
    if (!is_strength(call, "l1", l1) || !is_strength(call, "l2", l2)) return NULL;
    lk_regularizer *r = lki_object_new(sizeof *r, LKI_KIND_REGULARIZER, LKI_LIVES_IN_POOL, NULL);
    if (!r) return NULL;
    r->class = class;
    r->set = (lki_regularizer_args){l1, l2};
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

static const lki_field L1_FIELD[] = {LKI_FIELD(REAL, lki_regularizer_args, l1)};
static const lki_field L2_FIELD[] = {LKI_FIELD(REAL, lki_regularizer_args, l2)};
static const lki_field BOTH[] = {LKI_FIELD(REAL, lki_regularizer_args, l1), LKI_FIELD(REAL, lki_regularizer_args, l2)};

enum { L1, L2, L1_L2 };
const lki_class lki_regularizer_classes[] = {
    [L1] = {"L1", "keras.regularizers", LKI_ARGS(lki_regularizer_args, L1_FIELD), make_l1},
    [L2] = {"L2", "keras.regularizers", LKI_ARGS(lki_regularizer_args, L2_FIELD), make_l2},
    [L1_L2] = {"L1L2", "keras.regularizers", LKI_ARGS(lki_regularizer_args, BOTH), make_both},
    {0},
};

lk_regularizer *lk_l1(double c) { return regularizer_new("lk_l1", &lki_regularizer_classes[L1], c, 0); }
lk_regularizer *lk_l2(double c) { return regularizer_new("lk_l2", &lki_regularizer_classes[L2], 0, c); }
lk_regularizer *lk_l1_l2(double l1, double l2) { return regularizer_new("lk_l1_l2", &lki_regularizer_classes[L1_L2], l1, l2); }

static lk_tensor *plus(lk_tensor *a, lk_tensor *b) { return a && b ? lk_add(a, b) : a ? a : b; }

lk_tensor *lk_regularizer_call(const lk_regularizer *r, lk_tensor *x)
{
    if (!r) return lki_refuse(LK_EINVAL, "lk_regularizer_call: the regulariser is NULL");
    if (!lki_is_kind(r, LKI_KIND_REGULARIZER)) return lki_refuse(LK_EINVAL, "lk_regularizer_call: not a regulariser");
    if (!lki_usable("lk_regularizer_call", "x", x)) return &lki_poison;
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
    lk_tensor *sum =
        plus(r->set.l1 > 0 ? row_sums(lk_abs(x), r->set.l1) : NULL, r->set.l2 > 0 ? row_sums(lk_square(x), r->set.l2) : NULL);
    return sum ? sum : row_sums(x, 0);
}
