/* Constraints: applied to a weight after each update. Norms are taken over `axis`, 0 by default: the inputs of each unit of a dense
 * layer. The formulas, with their small number in the divisor, are Keras'. */
#include "layer/constraint.h"
#include "core/error.h"
#include "core/rounding.h"
#include "op/gradient.h"
#include <math.h>

#define EPSILON 1e-7

typedef lk_constraint_args args;

enum { MAX_NORM, MIN_MAX_NORM, NON_NEG, UNIT_NORM };

/* ---- the classes ---- */

static void *make_max_norm(const void *a) { return lk_max_norm_kw(*(const args *)a); }
static void *make_min_max_norm(const void *a) { return lk_min_max_norm_kw(*(const args *)a); }
static void *make_non_neg(const void *a) { return (void)a, lk_non_neg(); }
static void *make_unit_norm(const void *a) { return lk_unit_norm_kw(*(const args *)a); }

#define AXIS LKI_FIELD(AXES, args, axis) /* never empty: the constructors fill it in */
static const lki_field MAX_NORM_FIELDS[] = {LKI_FIELD(NUMBER, args, max_value, .standard = 2), AXIS};
static const lki_field MIN_MAX_NORM_FIELDS[] = {LKI_FIELD(REAL, args, min_value), LKI_FIELD(NUMBER, args, max_value, .standard = 1),
                                                LKI_FIELD(NUMBER, args, rate, .standard = 1), AXIS};
static const lki_field UNIT_NORM_FIELDS[] = {AXIS};

const lki_class lki_constraint_classes[] = {
    [MAX_NORM] = {"MaxNorm", "keras.constraints", LKI_ARGS(args, MAX_NORM_FIELDS), make_max_norm},
    [MIN_MAX_NORM] = {"MinMaxNorm", "keras.constraints", LKI_ARGS(args, MIN_MAX_NORM_FIELDS), make_min_max_norm},
    [NON_NEG] = {"NonNeg", "keras.constraints", .bytes = sizeof(args), .make = make_non_neg},
    [UNIT_NORM] = {"UnitNorm", "keras.constraints", LKI_ARGS(args, UNIT_NORM_FIELDS), make_unit_norm},
    {0},
};

/* ---- making one ---- */

static bool refuse(const char *call, const char *name, double value, const char *right)
{
    lki_fail(LK_EINVAL, "%s: %s is %g; it must be %s", call, name, value, right);
    return false;
}

static bool has_options(const char *call, const lki_class *class, const args *a)
{
    const char *odd = lki_number_given(a->max_value) && !lki_field_find(class, "max_value") ? "max_value"
                      : a->min_value != 0 && !lki_field_find(class, "min_value")            ? "min_value"
                      : lki_number_given(a->rate) && !lki_field_find(class, "rate")         ? "rate"
                                                                                            : NULL;
    if (odd) lki_fail(LK_EINVAL, "%s: %s is given, but %s has no such option", call, odd, class->name);
    return !odd;
}

static bool numbers_fit(const char *call, const args *a, double most)
{
    double max = lki_number_or(a->max_value, most);
    if (!(max >= 0)) return refuse(call, "max_value", max, "at least 0");
    if (!(a->min_value >= 0)) return refuse(call, "min_value", a->min_value, "at least 0");
    if (a->min_value > max) return lki_fail(LK_EINVAL, "%s: min_value %g is above max_value %g", call, a->min_value, max), false;
    if (!(lki_number(a->rate) >= 0 && lki_number(a->rate) <= 1)) return refuse(call, "rate", lki_number(a->rate), "from 0 to 1");
    return lki_axes_of(a->axis).count >= 0; /* LK_AXES reported it */
}

static lk_constraint *constraint_new(const char *call, int which, args a)
{
    const lki_class *class = &lki_constraint_classes[which];
    if (!has_options(call, class, &a) || !numbers_fit(call, &a, which == MAX_NORM ? 2 : 1)) return NULL;
    lk_constraint *c = lki_object_new(sizeof *c, LKI_KIND_CONSTRAINT, LKI_LIVES_IN_POOL, NULL);
    if (!c) return NULL;
    if (!lki_axes_of(a.axis).count) a.axis = LK_AXES(0);
    c->class = class;
    c->set = a;
    if (lki_axes_hold(&c->set.axis) == LK_OK) return c;
    lk_free(c);
    return NULL;
}

lk_constraint *lk_max_norm_kw(lk_constraint_args a) { return constraint_new("lk_max_norm", MAX_NORM, a); }
lk_constraint *lk_min_max_norm_kw(lk_constraint_args a) { return constraint_new("lk_min_max_norm", MIN_MAX_NORM, a); }
lk_constraint *lk_unit_norm_kw(lk_constraint_args a) { return constraint_new("lk_unit_norm", UNIT_NORM, a); }
lk_constraint *lk_non_neg(void) { return constraint_new("lk_non_neg", NON_NEG, (args){0}); }

/* ---- calling one ---- */

static lk_tensor *times(lk_tensor *x, double c) { return c == 1 ? x : lk_mul(x, lki_like(x, c)); }

/* w * (desired / (epsilon + norms)) */
static lk_tensor *with_norms(lk_tensor *w, lk_tensor *norms, lk_tensor *desired)
{
    return lk_mul(w, lk_div(desired, lk_add(norms, lki_like(norms, EPSILON))));
}

static lk_tensor *max_norm(const args *a, lk_tensor *w, lk_tensor *norms)
{
    return with_norms(w, norms, lk_clip(norms, 0, lki_number_or(a->max_value, 2)));
}

static lk_tensor *min_max_norm(const args *a, lk_tensor *w, lk_tensor *norms)
{
    double     rate = lki_number_or(a->rate, 1);
    lk_tensor *desired = times(lk_clip(norms, a->min_value, lki_number_or(a->max_value, 1)), rate);
    return with_norms(w, norms, rate == 1 ? desired : lk_add(desired, times(norms, 1 - rate)));
}

static lk_tensor *non_neg(const args *a, lk_tensor *w, lk_tensor *norms)
{
    (void)a, (void)norms;
    return lk_maximum(w, lki_like(w, 0));
}

static lk_tensor *unit_norm(const args *a, lk_tensor *w, lk_tensor *norms)
{
    (void)a;
    return lk_div(w, lk_add(norms, lki_like(norms, EPSILON)));
}

static bool axes_fit(const lk_constraint *c, const lk_tensor *w)
{
    const lki_axes axis = lki_axes_of(c->set.axis);
    char           text[LKI_SHAPE_TEXT];
    for (int i = 0; i < axis.count; i++) {
        if (lki_axis_normal(axis.value[i], w->shape.rank) >= 0) continue;
        lki_fail(LK_EINVAL, "lk_constraint_call: %s: axis %lld is outside the weight, which is %s", c->class->name,
                 (long long)axis.value[i], lki_shape_text(&w->shape, text));
        return false;
    }
    return true;
}

lk_tensor *lk_constraint_call(const lk_constraint *c, lk_tensor *w)
{
    LKI_NEAREST;
    static lk_tensor *(*const become[])(const args *, lk_tensor *, lk_tensor *) = {
        [MAX_NORM] = max_norm, [MIN_MAX_NORM] = min_max_norm, [NON_NEG] = non_neg, [UNIT_NORM] = unit_norm};
    if (!lki_is_kind(c, LKI_KIND_CONSTRAINT))
        return lki_refuse(LK_EINVAL, "lk_constraint_call: %s", c ? "not a constraint" : "the constraint is NULL");
    if (!lki_usable("lk_constraint_call", "the weight", w)) return &lki_poison;
    const int  which = (int)(c->class - lki_constraint_classes);
    lk_tensor *norms = NULL;
    if (which != NON_NEG) {
        if (!axes_fit(c, w)) return &lki_poison;
        norms = lk_sqrt(lk_reduce_sum(lk_square(w), .axis = c->set.axis, .keepdims = LK_ON));
    }
    return become[which](&c->set, w, norms);
}
