/* Element-wise functions: the primitive ones by their line in ops.inc, the others composed of those. */
#include "op/gradient.h"
#include <lockstep/grad.h>
#include <lockstep/ops.h>

#define UNARY(name)                                                                                                                \
    lk_tensor *lk_##name(lk_tensor *x) { return lki_apply1(LKI_OP_##name, NULL, x); }
#define BINARY(name)                                                                                                               \
    lk_tensor *lk_##name(lk_tensor *a, lk_tensor *b) { return lki_apply2(LKI_OP_##name, NULL, a, b); }

UNARY(neg)
UNARY(abs)
UNARY(sign)
UNARY(exp)
UNARY(expm1)
UNARY(log)
UNARY(log1p)
UNARY(sqrt)
UNARY(rsqrt)
UNARY(square)
UNARY(reciprocal)
UNARY(sin)
UNARY(cos)
UNARY(tanh)
UNARY(sigmoid)
UNARY(erf)
UNARY(floor)
UNARY(ceil)
UNARY(round)
UNARY(is_finite)
UNARY(logical_not)
UNARY(relu)
UNARY(softplus)
UNARY(stop_gradient)
UNARY(identity)
BINARY(add)
BINARY(sub)
BINARY(mul)
BINARY(div)
BINARY(floordiv)
BINARY(mod)
BINARY(pow)
BINARY(maximum)
BINARY(minimum)
BINARY(equal)
BINARY(not_equal)
BINARY(less)
BINARY(less_equal)
BINARY(greater)
BINARY(greater_equal)
BINARY(logical_and)
BINARY(logical_or)

lk_tensor *lki_like(const lk_tensor *x, double value) { return lki_bad(x) ? &lki_poison : lk_fill((lk_shape){0}, x->dtype, value); }

lk_tensor *lk_squared_difference(lk_tensor *a, lk_tensor *b) { return lk_square(lk_sub(a, b)); }

lk_tensor *lk_clip(lk_tensor *x, double low, double high)
{
    if (!(low <= high)) return lki_fail(LK_EINVAL, "lk_clip: low %g must not be above high %g", low, high), &lki_poison;
    return lki_apply1(LKI_OP_clip, &(lki_attr){.num = {low, high}}, x);
}

lk_tensor *lk_cast(lk_tensor *x, lk_dtype to)
{
    if (!lki_bad(x) && (unsigned)to >= LK_DTYPE_COUNT)
        return lki_fail(LK_EDTYPE, "lk_cast: %d is not an element type", (int)to), &lki_poison;
    if (!lki_bad(x) && x->dtype == to) return lk_identity(x);
    return lki_apply1(LKI_OP_cast, &(lki_attr){.dtype = to}, x);
}

lk_tensor *lk_where(lk_tensor *condition, lk_tensor *a, lk_tensor *b) { return lki_apply3(LKI_OP_where, NULL, a, b, condition); }

lk_tensor *lk_add_n(lk_tuple terms)
{
    if (terms.count < 1) return lki_fail(LK_EINVAL, "lk_add_n: there is nothing to add"), &lki_poison;
    lk_tensor *sum = lki_usable("lk_add_n", "the first term", terms.item[0]) ? terms.item[0] : &lki_poison;
    for (int i = 1; i < terms.count; i++)
        sum = lk_add(sum, terms.item[i]);
    return sum;
}

/* ---- activations ---- */

/* If the operands are equal, the gradient goes to the first: it is 0 at 6, as in TensorFlow. */
lk_tensor *lk_relu6(lk_tensor *x) { return lk_minimum(lki_like(x, 6), lk_relu(x)); }

lk_tensor *lk_leaky_relu(lk_tensor *x, double alpha) { return lki_apply1(LKI_OP_leaky_relu, &(lki_attr){.num = {.a = alpha}}, x); }

/* Each branch only sees values of its side, so that an overflow in the other cannot turn a gradient into NaN; 0 belongs to the
 * positive side. */
static lk_tensor *elu_from_zero(lk_tensor *x, double alpha)
{
    lk_tensor *zero = lki_like(x, 0);
    return lk_add(lk_maximum(x, zero), lk_mul(lki_like(x, alpha), lk_expm1(lk_minimum(zero, x))));
}

/* As in Keras, 0 belongs to the negative side if alpha is not 1. */
lk_tensor *lk_elu(lk_tensor *x, double alpha)
{
    if (alpha == 1) return elu_from_zero(x, 1);
    lk_tensor *zero = lki_like(x, 0);
    return lk_where(lk_greater(x, zero), x, lk_mul(lki_like(x, alpha), lk_expm1(lk_minimum(x, zero))));
}

lk_tensor *lk_selu(lk_tensor *x) { return lk_mul(lki_like(x, 1.05070098735548049342), elu_from_zero(x, 1.67326324235437728482)); }

lk_tensor *lk_softsign(lk_tensor *x) { return lk_div(x, lk_add(lki_like(x, 1), lk_abs(x))); }

lk_tensor *lk_swish(lk_tensor *x) { return lk_mul(x, lk_sigmoid(x)); }

lk_tensor *lk_mish(lk_tensor *x) { return lk_mul(x, lk_tanh(lk_softplus(x))); }

lk_tensor *lk_hard_sigmoid(lk_tensor *x) { return lk_clip(lk_add(lk_mul(x, lki_like(x, 1.0 / 6)), lki_like(x, 0.5)), 0, 1); }

lk_tensor *lk_gelu(lk_tensor *x, lk_switch approximate)
{
    lk_tensor *half = lk_mul(lki_like(x, 0.5), x), *one = lki_like(x, 1);
    if (approximate != LK_ON) return lk_mul(half, lk_add(one, lk_erf(lk_mul(x, lki_like(x, 0.70710678118654752440)))));
    lk_tensor *cube = lk_mul(lki_like(x, 0.044715), lk_mul(x, lk_square(x)));
    return lk_mul(half, lk_add(one, lk_tanh(lk_mul(lki_like(x, 0.79788456080286535588), lk_add(x, cube)))));
}

lk_tensor *lk_celu(lk_tensor *x, double alpha)
{
    if (alpha == 0) return lki_refuse(LK_EINVAL, "lk_celu: alpha is 0, and x is divided by it");
    lk_tensor *zero = lki_like(x, 0), *a = lki_like(x, alpha);
    return lk_add(lk_maximum(x, zero), lk_mul(a, lk_expm1(lk_div(lk_minimum(x, zero), a))));
}

lk_tensor *lk_squareplus(lk_tensor *x, double b)
{
    return lk_mul(lk_add(x, lk_sqrt(lk_add(lk_square(x), lki_like(x, b)))), lki_like(x, 0.5));
}

lk_tensor *lk_threshold(lk_tensor *x, double threshold, double value)
{
    return lk_where(lk_greater(x, lki_like(x, threshold)), x, lki_like(x, value));
}

lk_tensor *lk_hard_shrink(lk_tensor *x, double threshold)
{
    return lk_where(lk_greater(lk_abs(x), lki_like(x, threshold)), x, lki_like(x, 0));
}

lk_tensor *lk_soft_shrink(lk_tensor *x, double threshold)
{
    lk_tensor *t = lki_like(x, threshold), *less = lki_like(x, -threshold), *zero = lki_like(x, 0);
    return lk_where(lk_greater(x, t), lk_sub(x, t), lk_where(lk_less(x, less), lk_add(x, t), zero));
}

lk_tensor *lk_hard_silu(lk_tensor *x) { return lk_mul(x, lk_hard_sigmoid(x)); }

lk_tensor *lk_hard_tanh(lk_tensor *x) { return lk_clip(x, -1, 1); }

lk_tensor *lk_tanh_shrink(lk_tensor *x) { return lk_sub(x, lk_tanh(x)); }

lk_tensor *lk_log_sigmoid(lk_tensor *x) { return lk_neg(lk_softplus(lk_neg(x))); }

/* The gradient at -1 and 1 is that of the outer pieces, as in TensorFlow. */
static lk_tensor *from_minus_one_to_one(lk_tensor *x, lk_tensor *between, lk_tensor *above)
{
    lk_tensor *one = lki_like(x, 1), *minus = lki_like(x, -1);
    return lk_where(lk_less_equal(x, minus), lki_like(x, 0), lk_where(lk_less(x, one), between, above));
}

lk_tensor *lk_sparse_plus(lk_tensor *x)
{
    return from_minus_one_to_one(x, lk_mul(lki_like(x, 0.25), lk_square(lk_add(x, lki_like(x, 1)))), x);
}

lk_tensor *lk_sparse_sigmoid(lk_tensor *x)
{
    lk_tensor *one = lki_like(x, 1);
    return from_minus_one_to_one(x, lk_mul(lki_like(x, 0.5), lk_add(x, one)), one);
}

/* ---- activations along an axis ---- */

/* The axis counted from the front; -1 and an error if x does not have it. */
static int axis_in(const char *call, const lk_tensor *x, int axis)
{
    char      text[LKI_SHAPE_TEXT];
    const int at = lki_axis_normal(axis, x->shape.rank);
    if (at < 0) lki_fail(LK_EINVAL, "%s: x is %s and has no axis %d", call, lki_shape_text(&x->shape, text), axis);
    return at;
}

lk_tensor *lk_glu(lk_tensor *x, int axis)
{
    char text[LKI_SHAPE_TEXT];
    if (!lki_usable("lk_glu", "x", x)) return &lki_poison;
    const int at = axis_in("lk_glu", x, axis);
    if (at < 0) return &lki_poison;
    const int64_t size = x->shape.dim[at];
    if (size % 2)
        return lki_refuse(LK_ESHAPE, "lk_glu: x is %s; the size of axis %d must be even, to be cut in two halves",
                          lki_shape_text(&x->shape, text), at);
    const lk_tuple half = lk_split(x, LK_AXES(size / 2, size / 2), at);
    return half.count == 2 ? lk_mul(half.item[0], lk_sigmoid(half.item[1])) : &lki_poison;
}

/* max(x - tau, 0), where tau is such that the sum is 1: it is found from the k largest values, for the largest k with
 * 1 + k * value k > sum of the k values. */
static lk_tensor *sparsemax(lk_tensor *x)
{
    const int64_t  size = x->shape.dim[x->shape.rank - 1];
    const lk_tuple sorted = lk_top_k(x, size);
    if (!sorted.count || lki_bad(sorted.item[0])) return &lki_poison;
    lk_tensor *z = sorted.item[0], *one = lki_like(x, 1), *zero = lki_like(x, 0);
    lk_tensor *sums = lk_cumsum(z, LK_AXIS(-1)), *rank = lk_add(lk_range(size, x->dtype), one);
    lk_tensor *support = lk_greater(lk_sub(z, lk_div(lk_sub(sums, one), rank)), zero);
    lk_tensor *k = lk_reduce_sum(lk_cast(support, x->dtype), .axis = -1, .keepdims = LK_ON);
    lk_tensor *sum = lk_reduce_sum(lk_where(support, sums, zero), .axis = -1, .keepdims = LK_ON);
    return lk_maximum(lk_sub(x, lk_div(lk_sub(sum, one), k)), zero);
}

lk_tensor *lk_sparsemax(lk_tensor *x, int axis)
{
    if (!lki_usable("lk_sparsemax", "x", x)) return &lki_poison;
    const int at = axis_in("lk_sparsemax", x, axis), last = x->shape.rank - 1;
    lki_axes  swapped = {.count = x->shape.rank};
    if (at < 0 || at == last) return at < 0 ? &lki_poison : sparsemax(x);
    for (int i = 0; i <= last; i++)
        swapped.value[i] = i == at ? last : i == last ? at : i;
    lk_tensor *turned = lk_transpose(x, lki_axes_list(&swapped));
    return lki_bad(turned) ? turned : lk_transpose(sparsemax(turned), lki_axes_list(&swapped));
}
