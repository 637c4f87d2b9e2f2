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
lk_tensor *lk_elu(lk_tensor *x, double alpha)
{
    lk_tensor *zero = lki_like(x, 0);
    return lk_add(lk_maximum(x, zero), lk_mul(lki_like(x, alpha), lk_expm1(lk_minimum(zero, x))));
}

lk_tensor *lk_selu(lk_tensor *x) { return lk_mul(lki_like(x, 1.05070098735548049342), lk_elu(x, 1.67326324235437728482)); }

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
