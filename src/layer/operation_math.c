/* Element-wise operations: arithmetic, comparisons, logic, and what is composed of them (operands.h). */
#include "core/dtype.h"
#include "layer/operands.h"
#include <lockstep/grad.h>
#include <math.h>

#define LN2 0.69314718055994530942
#define PI 3.14159265358979323846

static lk_tensor *times(lk_tensor *x, double n) { return lk_mul(x, lki_like(x, n)); }
static lk_tensor *plus(lk_tensor *x, double n) { return lk_add(x, lki_like(x, n)); }
static lk_tensor *one_less(lk_tensor *x) { return lk_sub(lki_like(x, 1), x); }
static lk_tensor *is_below(lk_tensor *x, double n) { return lk_less(x, lki_like(x, n)); }
static lk_tensor *is_above(lk_tensor *x, double n) { return lk_greater(x, lki_like(x, n)); }
static lk_tensor *choose(lk_tensor *condition, lk_tensor *x, double a, lk_tensor *b)
{
    return lk_where(condition, lki_like(x, a), b);
}

/* ---- of one tensor ---- */

#define AS_IT_IS(name, expression)                                                                                                 \
    OPERATION(name)                                                                                                                \
    {                                                                                                                              \
        lk_tensor *x = lki_arg_tensor(c, "x");                                                                                     \
        return lki_bad(x) ? x : (expression);                                                                                      \
    }
#define OF_FLOATS(name, expression)                                                                                                \
    OPERATION(name)                                                                                                                \
    {                                                                                                                              \
        lk_tensor *x = lki_arg_float(c, "x");                                                                                      \
        return lki_bad(x) ? x : (expression);                                                                                      \
    }
AS_IT_IS(absolute, x->dtype == LK_BOOL ? x : lk_abs(x))
AS_IT_IS(negative, lk_neg(x))
AS_IT_IS(square, lk_square(x->dtype == LK_BOOL ? lk_cast(x, LK_I32) : x))
AS_IT_IS(sign, lk_sign(x))
AS_IT_IS(copy, lk_identity(x))
AS_IT_IS(imaginary, lk_sub(x, x))
OF_FLOATS(fabs, lk_abs(x))
OF_FLOATS(angle, choose(is_below(x, 0), x, PI, lki_like(x, 0)))
OF_FLOATS(ceil, lk_ceil(x))
OF_FLOATS(floor, lk_floor(x))
OF_FLOATS(trunc, lk_mul(lk_sign(x), lk_floor(lk_abs(x))))
OF_FLOATS(sqrt, lk_sqrt(x))
OF_FLOATS(rsqrt, lk_rsqrt(x))
OF_FLOATS(exp, lk_exp(x))
OF_FLOATS(exp2, lk_exp(times(x, LN2)))
OF_FLOATS(expm1, lk_expm1(x))
OF_FLOATS(log, lk_log(x))
OF_FLOATS(log1p, lk_log1p(x))
OF_FLOATS(log2, times(lk_log(x), 1 / LN2))
OF_FLOATS(log10, times(lk_log(x), 0.43429448190325182765))
OF_FLOATS(reciprocal, lk_reciprocal(x))
OF_FLOATS(deg2rad, times(x, PI / 180))
OF_FLOATS(rad2deg, times(x, 180 / PI))
OF_FLOATS(erf, lk_erf(x))
OF_FLOATS(erfc, one_less(lk_erf(x)))
OF_FLOATS(sin, lk_sin(x))
OF_FLOATS(cos, lk_cos(x))
OF_FLOATS(tan, lk_div(lk_sin(x), lk_cos(x)))
OF_FLOATS(tanh, lk_tanh(x))
OF_FLOATS(sinh, times(lk_sub(lk_expm1(x), lk_expm1(lk_neg(x))), 0.5))
OF_FLOATS(cosh, times(lk_add(lk_exp(x), lk_exp(lk_neg(x))), 0.5))
OF_FLOATS(cbrt, lk_mul(lk_sign(x), lk_pow(lk_abs(x), lki_like(x, 1.0 / 3))))
AS_IT_IS(is_nan, lk_not_equal(x, x))
OF_FLOATS(is_finite, lk_is_finite(x))
OF_FLOATS(is_inf, lk_equal(lk_abs(x), lki_like(x, INFINITY)))
OF_FLOATS(is_pos_inf, lk_equal(x, lki_like(x, INFINITY)))
OF_FLOATS(is_neg_inf, lk_equal(x, lki_like(x, -INFINITY)))
AS_IT_IS(is_real, lk_logical_or(lk_equal(x, x), lk_not_equal(x, x)))
OF_FLOATS(sign_bit, lk_logical_or(is_below(x, 0), is_below(lk_reciprocal(x), 0)))

/* Of -0 in front of the gradient's sign nothing is seen: each branch is a function of its own side only. */
static lk_tensor *on_both_sides(lk_tensor *x, lk_tensor *(*positive)(lk_tensor *x))
{
    lk_tensor *zero = lki_like(x, 0);
    return lk_where(lk_less(x, zero), lk_neg(positive(lk_maximum(lk_neg(x), zero))), positive(lk_maximum(x, zero)));
}

static lk_tensor *arcsinh(lk_tensor *x)
{
    lk_tensor *square = lk_square(x);
    return lk_log1p(lk_add(x, lk_div(square, plus(lk_sqrt(plus(square, 1)), 1))));
}
static lk_tensor *arctanh(lk_tensor *x) { return times(lk_log1p(lk_div(times(x, 2), one_less(x))), 0.5); }
static lk_tensor *arccosh(lk_tensor *x)
{
    lk_tensor *t = plus(x, -1);
    return lk_log1p(lk_add(t, lk_sqrt(lk_add(times(t, 2), lk_square(t)))));
}

/* From 0.41 on, and from 2.41 on, by the angles that are left to 45 and 90 degrees; the polynomial is that of the Cephes library,
 * for f32. */
static lk_tensor *arctan(lk_tensor *x)
{
    lk_tensor *a = lk_abs(x), *s = lk_sign(x), *far = is_above(a, 2.414213562373095), *middle = is_above(a, 0.4142135623730950);
    lk_tensor *top = lk_where(far, lk_neg(s), lk_where(middle, lk_sub(x, s), x));
    lk_tensor *r = lk_div(top, lk_where(far, a, lk_where(middle, plus(a, 1), lki_like(x, 1))));
    lk_tensor *z = lk_square(r), *p = times(z, 8.05374449538e-2);
    p = lk_mul(plus(p, -1.38776856032e-1), z);
    p = lk_mul(plus(p, 1.99777106478e-1), z);
    p = lk_mul(plus(p, -3.33329491539e-1), z);
    lk_tensor *from = choose(far, x, PI / 2, choose(middle, x, PI / 4, lki_like(x, 0)));
    return lk_add(lk_mul(s, from), lk_add(lk_mul(p, r), r));
}

/* Giles' approximation for f32: two polynomials in w = -log(1 - x^2), for w below 5 and above. */
static lk_tensor *erfinv(lk_tensor *x)
{
    static const double NEAR[] = {2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087,
                                  -0.00125372503, -0.00417768164, 0.246640727,    1.50140941},
                        FAR[] = {-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773,
                                 -0.0076224613,   0.00943887047,  1.00167406,    2.83297682};
    lk_tensor *w = lk_neg(lk_log1p(lk_neg(lk_square(x)))), *near = is_below(w, 5);
    lk_tensor *a = plus(w, -2.5), *b = plus(lk_sqrt(lk_maximum(w, lki_like(w, 5))), -3), *p = lki_like(x, NEAR[0]),
              *q = lki_like(x, FAR[0]);
    for (int i = 1; i < LKI_COUNT(NEAR); i++) {
        p = plus(lk_mul(p, a), NEAR[i]);
        q = plus(lk_mul(q, b), FAR[i]);
    }
    return lk_mul(lk_where(near, p, q), x);
}

static lk_tensor *arcsin(lk_tensor *x)
{
    lk_tensor *root = lk_sqrt(lk_mul(one_less(x), plus(x, 1)));
    return times(arctan(lk_div(x, plus(root, 1))), 2);
}

OF_FLOATS(arcsinh, on_both_sides(x, arcsinh))
OF_FLOATS(arctanh, on_both_sides(x, arctanh))
OF_FLOATS(arccosh, arccosh(x))
OF_FLOATS(arctan, arctan(x))
OF_FLOATS(erfinv, erfinv(x))
OF_FLOATS(arcsin, arcsin(x))
OF_FLOATS(arccos, lk_sub(lki_like(x, PI / 2), arcsin(x)))

static lk_tensor *sinc(lk_tensor *x)
{
    lk_tensor *zero = lk_equal(x, lki_like(x, 0)), *t = choose(zero, x, 1, times(x, PI));
    return choose(zero, x, 1, lk_div(lk_sin(t), t));
}
OF_FLOATS(sinc, sinc(x))

OPERATION(round)
{
    lk_tensor    *x = lki_arg_tensor(c, "x");
    const int64_t decimals = lki_arg_whole(c, "decimals", 0);
    if (lki_bad(x) || !lki_is_float(x->dtype)) return x;
    const double scale = pow(10, (double)decimals);
    return decimals ? times(lk_round(times(x, scale)), 1 / scale) : lk_round(x);
}

OPERATION(nan_to_num)
{
    lk_tensor   *x = lki_arg_float(c, "x");
    const double most = 3.4028234663852886e38, nan = lki_arg_number(c, "nan", 0), above = lki_arg_number(c, "posinf", most),
                 below = lki_arg_number(c, "neginf", -most);
    if (lki_bad(x)) return x;
    x = choose(lk_not_equal(x, x), x, nan, x);
    x = choose(lk_equal(x, lki_like(x, INFINITY)), x, above, x);
    return choose(lk_equal(x, lki_like(x, -INFINITY)), x, below, x);
}

/* ---- of two ---- */

#define OF_TWO(name, floats, expression)                                                                                           \
    OPERATION(name)                                                                                                                \
    {                                                                                                                              \
        lk_tensor *two[2];                                                                                                         \
        if (!lki_arg_pair(c, "x1", "x2", floats, two)) return &lki_poison;                                                         \
        lk_tensor *a = two[0], *b = two[1];                                                                                        \
        return expression;                                                                                                         \
    }
static lk_tensor *number_of(lk_tensor *x) { return x->dtype == LK_BOOL ? lk_cast(x, LK_I32) : x; }

OF_TWO(add, false, a->dtype == LK_BOOL ? lk_logical_or(a, b) : lk_add(a, b))
OF_TWO(subtract, false, lk_sub(a, b))
OF_TWO(multiply, false, a->dtype == LK_BOOL ? lk_logical_and(a, b) : lk_mul(a, b))
OF_TWO(divide, true, lk_div(a, b))
OF_TWO(floor_divide, false, lk_floordiv(number_of(a), number_of(b)))
OF_TWO(mod, false, lk_mod(number_of(a), number_of(b)))
OF_TWO(power, false, lk_pow(number_of(a), number_of(b)))
OF_TWO(maximum, false, lk_maximum(number_of(a), number_of(b)))
OF_TWO(minimum, false, lk_minimum(number_of(a), number_of(b)))
OF_TWO(fmax, true, lk_where(lk_not_equal(a, a), b, lk_where(lk_not_equal(b, b), a, lk_maximum(a, b))))
OF_TWO(fmin, true, lk_where(lk_not_equal(a, a), b, lk_where(lk_not_equal(b, b), a, lk_minimum(a, b))))
OF_TWO(equal, false, lk_equal(a, b))
OF_TWO(not_equal, false, lk_not_equal(a, b))
OF_TWO(less, false, lk_less(number_of(a), number_of(b)))
OF_TWO(less_equal, false, lk_less_equal(number_of(a), number_of(b)))
OF_TWO(greater, false, lk_greater(number_of(a), number_of(b)))
OF_TWO(greater_equal, false, lk_greater_equal(number_of(a), number_of(b)))
OF_TWO(logical_and, false, lk_logical_and(lki_to_truth(a), lki_to_truth(b)))
OF_TWO(logical_or, false, lk_logical_or(lki_to_truth(a), lki_to_truth(b)))
OF_TWO(logical_xor, false, lk_not_equal(lki_to_truth(a), lki_to_truth(b)))
OF_TWO(logaddexp, true, lk_add(a, lk_softplus(lk_sub(b, a))))
OF_TWO(logaddexp2, true, lk_add(a, times(lk_softplus(times(lk_sub(b, a), LN2)), 1 / LN2)))
OF_TWO(hypot, true, lk_sqrt(lk_add(lk_square(a), lk_square(b))))
OF_TWO(ldexp, true, lk_mul(a, lk_exp(times(b, LN2))))
OF_TWO(heaviside, true, lk_where(is_below(a, 0), lki_like(a, 0), choose(is_above(a, 0), a, 1, b)))

static lk_tensor *fmod_of(lk_tensor *a, lk_tensor *b)
{
    lk_tensor *q = lk_div(a, b);
    return lk_sub(a, lk_mul(lk_mul(lk_sign(q), lk_floor(lk_abs(q))), b));
}

static lk_tensor *divide_no_nan(lk_tensor *a, lk_tensor *b)
{
    lk_tensor *zero = lk_equal(b, lki_like(b, 0));
    return choose(zero, b, 0, lk_div(a, choose(zero, b, 1, b)));
}

/* Twice the arctangent of the half angle, which is y / (h + x) or (h - x) / y. */
static lk_tensor *arctan2(lk_tensor *y, lk_tensor *x)
{
    lk_tensor *h = lk_sqrt(lk_add(lk_square(y), lk_square(x))), *right = lk_greater_equal(x, lki_like(x, 0));
    lk_tensor *top = lk_where(right, y, lk_sub(h, x)), *under = lk_where(right, lk_add(h, x), y);
    lk_tensor *none = lk_equal(under, lki_like(x, 0));
    lk_tensor *angle = times(arctan(lk_div(choose(none, x, 0, top), choose(none, x, 1, under))), 2);
    return lk_where(none, choose(right, x, 0, lki_like(x, PI)), angle);
}

OF_TWO(fmod, true, fmod_of(a, b))
OF_TWO(divide_no_nan, true, divide_no_nan(a, b))
OF_TWO(arctan2, true, arctan2(a, b))

OPERATION(is_close)
{
    lk_tensor   *two[2];
    const double relative = lki_arg_number(c, "rtol", 1e-5), absolute = lki_arg_number(c, "atol", 1e-8);
    if (!lki_arg_pair(c, "x1", "x2", true, two)) return &lki_poison;
    lk_tensor *near = lk_less_equal(lk_abs(lk_sub(two[0], two[1])), plus(times(lk_abs(two[1]), relative), absolute));
    near = lk_logical_or(near, lk_equal(two[0], two[1]));
    if (!lki_arg_switch(c, "equal_nan", false)) return near;
    return lk_logical_or(near, lk_logical_and(lk_not_equal(two[0], two[0]), lk_not_equal(two[1], two[1])));
}

OPERATION(logical_not)
{
    lk_tensor *x = lki_arg_truth(c, "x");
    return lki_bad(x) ? x : lk_logical_not(x);
}

/* Each entry of x1 against all of x2, which is a constant. */
OPERATION(is_in)
{
    lk_tensor      *two[2];
    const lki_json *v = lki_arg(c, "x2");
    if (!lki_arg_pair(c, "x1", "x2", false, two)) return &lki_poison;
    if (!v || lki_call_form_tensor(v) >= 0) return lki_arg_refuse(c, "x2 should be a constant");
    lk_tensor *all = lk_reshape(two[1], LK_SHAPE(lk_size(two[1])));
    lk_tensor *any = lk_reduce_any(lk_equal(lk_expand_dims(two[0], lk_rank(two[0])), all), .axis = LK_AXES(lk_rank(two[0])));
    return lki_arg_switch(c, "invert", false) ? lk_logical_not(any) : any;
}

/* ---- choices ---- */

OPERATION(where)
{
    lk_tensor *condition = lki_arg_truth(c, "condition"), *two[2];
    if (lki_bad(condition) || !lki_arg_pair(c, "x1", "x2", false, two)) return &lki_poison;
    return lk_where(condition, two[0], two[1]);
}

/* The first condition that holds decides. */
OPERATION(select)
{
    lk_tuple   condition = lki_arg_tensors(c, "condlist"), choice = condition.count ? lki_arg_tensors(c, "choicelist") : condition;
    lk_tensor *y = choice.count ? lki_arg(c, "default") ? lki_arg_tensor(c, "default") : lki_like(choice.item[0], 0) : NULL;
    if (lki_bad(y)) return &lki_poison;
    if (condition.count != choice.count)
        return lki_arg_refuse(c, "%d conditions and %d choices; there should be as many", condition.count, choice.count);
    if (y->dtype != choice.item[0]->dtype) y = lk_cast(y, choice.item[0]->dtype);
    for (int i = condition.count; i-- > 0;)
        y = lk_where(lki_to_truth(condition.item[i]), choice.item[i], y);
    return y;
}

/* A bound that is a number or a tensor. */
static lk_tensor *bounded(const lki_operands *c, lk_tensor *x, const char *name, lk_tensor *(*by)(lk_tensor *, lk_tensor *))
{
    const lki_json *v = lki_arg(c, name);
    if (!v || lki_bad(x)) return x;
    return v->type == LKI_JSON_NUMBER ? by(x, lki_like(x, v->number)) : lki_arg_refuse(c, "%s should be a number", name);
}

OPERATION(clip) { return bounded(c, bounded(c, lki_arg_tensor(c, "x"), "x_min", lk_maximum), "x_max", lk_minimum); }

/* ---- types and constants ---- */

static lk_tensor *as_dtype(const lki_operands *c, const char *x, const char *dtype)
{
    lk_tensor *t = lki_arg_tensor(c, x);
    const int  to = lki_bad(t) ? -1 : lki_arg_dtype(c, dtype, t->dtype);
    return to < 0 ? &lki_poison : (int)t->dtype == to ? t : to == LK_BOOL ? lki_to_truth(t) : lk_cast(t, (lk_dtype)to);
}

OPERATION(cast) { return as_dtype(c, "x", "dtype"); }

OPERATION(stop_gradient)
{
    lk_tensor *x = lki_arg_tensor(c, "variable");
    return lki_bad(x) ? x : lk_stop_gradient(x);
}

static lk_tensor *filled_like(const lki_operands *c, lk_tensor *value)
{
    lk_tensor *x = lki_arg_tensor(c, "x");
    const int  to = lki_bad(x) ? -1 : lki_arg_dtype(c, "dtype", x->dtype);
    if (to < 0 || lki_bad(value)) return &lki_poison;
    x = lki_to_float(x);
    return lk_cast(lk_add(lk_where(lk_equal(x, x), lki_like(x, 0), lki_like(x, 0)), lk_cast(value, x->dtype)), (lk_dtype)to);
}

OPERATION(zeros_like) { return filled_like(c, lk_fill((lk_shape){0}, LK_F32, 0)); }
OPERATION(ones_like) { return filled_like(c, lk_fill((lk_shape){0}, LK_F32, 1)); }
OPERATION(full_like) { return filled_like(c, lki_arg_tensor(c, "fill_value")); }

/* ---- activations ---- */

OF_FLOATS(relu, lk_relu(x))
OF_FLOATS(relu6, lk_relu6(x))
OF_FLOATS(sigmoid, lk_sigmoid(x))
OF_FLOATS(softplus, lk_softplus(x))
OF_FLOATS(softsign, lk_softsign(x))
OF_FLOATS(silu, lk_swish(x))
OF_FLOATS(log_sigmoid, lk_neg(lk_softplus(lk_neg(x))))
OF_FLOATS(hard_sigmoid, lk_hard_sigmoid(x))
OF_FLOATS(hard_silu, lk_mul(x, lk_hard_sigmoid(x)))
OF_FLOATS(hard_tanh, lk_clip(x, -1, 1))
OF_FLOATS(tanh_shrink, lk_sub(x, lk_tanh(x)))
OF_FLOATS(selu, lk_selu(x))
OF_FLOATS(elu, lk_elu(x, lki_arg_number(c, "alpha", 1)))
OF_FLOATS(gelu, lk_gelu(x, lki_arg_switch(c, "approximate", true) ? LK_ON : LK_OFF))
OF_FLOATS(leaky_relu, lk_leaky_relu(x, lki_arg_number(c, "negative_slope", 0.2)))

static lk_tensor *celu(lk_tensor *x, double alpha)
{
    lk_tensor *zero = lki_like(x, 0);
    return lk_add(lk_maximum(x, zero), times(lk_expm1(times(lk_minimum(zero, x), 1 / alpha)), alpha));
}

static lk_tensor *soft_shrink(lk_tensor *x, double t)
{
    return lk_where(is_above(x, t), plus(x, -t), choose(lk_greater_equal(x, lki_like(x, -t)), x, 0, plus(x, t)));
}

OF_FLOATS(celu, celu(x, lki_arg_number(c, "alpha", 1)))
OF_FLOATS(squareplus, times(lk_add(x, lk_sqrt(plus(lk_square(x), lki_arg_number(c, "b", 4)))), 0.5))
OF_FLOATS(hard_shrink, choose(lk_less_equal(lk_abs(x), lki_like(x, lki_arg_number(c, "threshold", 0.5))), x, 0, x))
OF_FLOATS(soft_shrink, soft_shrink(x, lki_arg_number(c, "threshold", 0.5)))
OF_FLOATS(threshold,
          lk_where(is_above(x, lki_arg_number(c, "threshold", 0)), x, lki_like(x, lki_arg_number(c, "default_value", 0))))
OF_FLOATS(sparse_plus,
          choose(lk_less_equal(x, lki_like(x, -1)), x, 0, lk_where(is_below(x, 1), times(lk_square(plus(x, 1)), 0.25), x)))
OF_FLOATS(sparse_sigmoid, choose(lk_less_equal(x, lki_like(x, -1)), x, 0,
                                 choose(lk_greater_equal(x, lki_like(x, 1)), x, 1, times(plus(x, 1), 0.5))))
