/* Gradient rules, one short function per rule named in ops.inc, in the order of that list. Every rule is written with ops, so
 * gradients can be recorded, traced and differentiated again.
 *
 * In a rule: X(i) operand i, Y(i) result i, DY(i) the gradient of result i; GIVE(i, expr) sets the gradient of operand i; expr is
 * computed only if that gradient is requested. */
#include "op/gradient.h"
#include "core/dtype.h"
#include "op/origin.h"
#include "op/pooled.h"
#include "op/product.h"
#include "op/replica.h"
#include "op/user.h"
#include <lockstep/grad.h>
#include <lockstep/ops.h>

#define RULE(name) static void grad_##name(lki_backward *b)
#define X(i) (b->src[i])
#define Y(i) (b->dst[i])
#define DY(i) (b->dy[i])
#define GIVE(i, expr)                                                                                                              \
    do {                                                                                                                           \
        if (b->need[i]) b->dx[i] = (expr);                                                                                         \
    } while (0)
#define NUMBER(value) lki_like(DY(0), value)

static lk_tensor *add(lk_tensor *a, lk_tensor *b) { return lk_add(a, b); }
static lk_tensor *sub(lk_tensor *a, lk_tensor *b) { return lk_sub(a, b); }
static lk_tensor *mul(lk_tensor *a, lk_tensor *b) { return lk_mul(a, b); }
static lk_tensor *divide(lk_tensor *a, lk_tensor *b) { return lk_div(a, b); }
/* A batch of one row has the same leading size as an operand without rows, so shapes cannot distinguish them; still reduce over
 * rows, because other replicas may have more. */
static lk_tensor *to(lk_tensor *t, const lk_tensor *like)
{
    if (lki_sums_pixels(t, &like->shape)) t = t->pooled->d; /* the pooled gradient: the numbers of t without its zeros */
    bool one = !lki_bad(t) && t->rows.kind == LKI_ROWS && like->rows.kind != LKI_ROWS && t->shape.rank &&
               t->shape.rank == like->shape.rank && t->shape.dim[0] == 1 && like->shape.dim[0] == 1;
    return lki_reduce_to(one ? lk_reduce_sum(t, .axis = LK_AXES(0), .keepdims = LK_ON) : t, &like->shape);
}

static lk_tensor *like(lk_tensor *t, lk_tensor *shape_of) { return lki_apply2(LKI_OP_broadcast_like, NULL, t, shape_of); }
static lk_tensor *mask(lk_tensor *condition, lk_tensor *t) { return lk_where(condition, t, lki_like(t, 0)); }

/* ---- element-wise ---- */

RULE(neg) { GIVE(0, lk_neg(DY(0))); }
RULE(abs) { GIVE(0, mul(DY(0), lk_sign(X(0)))); }
RULE(exp) { GIVE(0, mul(DY(0), Y(0))); }
RULE(expm1) { GIVE(0, mul(DY(0), add(Y(0), NUMBER(1)))); }
RULE(log) { GIVE(0, divide(DY(0), X(0))); }
RULE(log1p) { GIVE(0, divide(DY(0), add(X(0), NUMBER(1)))); }
RULE(sqrt) { GIVE(0, divide(mul(DY(0), NUMBER(0.5)), Y(0))); }
RULE(rsqrt) { GIVE(0, mul(mul(DY(0), NUMBER(-0.5)), mul(Y(0), lk_square(Y(0))))); }
RULE(square) { GIVE(0, mul(DY(0), mul(X(0), NUMBER(2)))); }
RULE(reciprocal) { GIVE(0, lk_neg(mul(DY(0), lk_square(Y(0))))); }
RULE(sin) { GIVE(0, mul(DY(0), lk_cos(X(0)))); }
RULE(cos) { GIVE(0, lk_neg(mul(DY(0), lk_sin(X(0))))); }
RULE(tanh) { GIVE(0, lki_apply2(LKI_OP_tanh_grad, NULL, DY(0), Y(0))); }
RULE(sigmoid) { GIVE(0, lki_apply2(LKI_OP_sigmoid_grad, NULL, DY(0), Y(0))); }
RULE(erf) { GIVE(0, mul(DY(0), mul(NUMBER(1.12837916709551257390), lk_exp(lk_neg(lk_square(X(0))))))); }
RULE(softplus) { GIVE(0, mul(DY(0), lk_sigmoid(X(0)))); }
/* If x was max pooled, only the cells that won have a gradient, and there y equals the pooled y: so relu's gradient is applied to
 * the pooled gradient first. */
RULE(relu)
{
    const lki_pooled *p = lki_pooled_of(DY(0), Y(0));
    GIVE(0, p ? lki_unpool(&p->window, &DY(0)->shape, lki_apply2(LKI_OP_relu_grad, NULL, p->d, p->y), p->cell, NULL, NULL)
              : lki_apply2(LKI_OP_relu_grad, NULL, DY(0), Y(0)));
}

RULE(leaky_relu) { GIVE(0, lki_apply2(LKI_OP_leaky_relu_grad, b->attr, DY(0), X(0))); }
RULE(identity) { GIVE(0, lk_identity(DY(0))); }

RULE(clip)
{
    lk_tensor *inside = lk_logical_and(lk_greater_equal(X(0), NUMBER(b->attr->num.a)), lk_less_equal(X(0), NUMBER(b->attr->num.b)));
    GIVE(0, mask(inside, DY(0)));
}

RULE(cast)
{
    if (lki_is_float(X(0)->dtype) && lki_is_float(Y(0)->dtype)) GIVE(0, lk_cast(DY(0), X(0)->dtype));
}

RULE(add)
{
    GIVE(0, to(DY(0), X(0)));
    GIVE(1, to(DY(0), X(1)));
}

RULE(sub)
{
    GIVE(0, to(DY(0), X(0)));
    GIVE(1, lk_neg(to(DY(0), X(1))));
}

RULE(mul)
{
    GIVE(0, to(mul(DY(0), X(1)), X(0)));
    GIVE(1, to(mul(DY(0), X(0)), X(1)));
}

RULE(div)
{
    GIVE(0, to(divide(DY(0), X(1)), X(0)));
    GIVE(1, lk_neg(to(divide(mul(DY(0), Y(0)), X(1)), X(1))));
}

RULE(mod) /* a - floor(a / b) * b */
{
    GIVE(0, to(DY(0), X(0)));
    GIVE(1, lk_neg(to(mul(DY(0), lk_floordiv(X(0), X(1))), X(1))));
}

RULE(pow)
{
    GIVE(0, to(mul(DY(0), mul(X(1), lk_pow(X(0), sub(X(1), NUMBER(1))))), X(0)));
    if (b->need[1]) { /* if the base is not positive, the logarithm counts as 0, as in TensorFlow */
        lk_tensor *positive = lk_greater(X(0), NUMBER(0));
        lk_tensor *log = lk_where(positive, lk_log(lk_where(positive, X(0), NUMBER(1))), NUMBER(0));
        b->dx[1] = to(mul(DY(0), mul(Y(0), log)), X(1));
    }
}

static void larger(lki_backward *b, lk_tensor *first)
{
    GIVE(0, to(mask(first, DY(0)), X(0)));
    GIVE(1, to(mask(lk_logical_not(first), DY(0)), X(1)));
}

RULE(maximum) { larger(b, lk_greater_equal(X(0), X(1))); }
RULE(minimum) { larger(b, lk_less_equal(X(0), X(1))); }

RULE(relu_grad) { GIVE(0, lki_apply2(LKI_OP_relu_grad, NULL, DY(0), X(1))); }
RULE(leaky_relu_grad) { GIVE(0, lki_apply2(LKI_OP_leaky_relu_grad, b->attr, DY(0), X(1))); }

RULE(sigmoid_grad)
{
    GIVE(0, lki_apply2(LKI_OP_sigmoid_grad, NULL, DY(0), X(1)));
    GIVE(1, mul(mul(DY(0), X(0)), sub(NUMBER(1), mul(X(1), NUMBER(2)))));
}

RULE(tanh_grad)
{
    GIVE(0, lki_apply2(LKI_OP_tanh_grad, NULL, DY(0), X(1)));
    GIVE(1, mul(mul(DY(0), X(0)), mul(X(1), NUMBER(-2))));
}

RULE(where)
{
    GIVE(0, to(mask(X(2), DY(0)), X(0)));
    GIVE(1, to(mask(lk_logical_not(X(2)), DY(0)), X(1)));
}

/* ---- reductions ---- */

/* A result of a reduction, with the reduced axes restored as axes of size 1. */
static lk_tensor *kept(lki_backward *b, lk_tensor *t)
{
    lk_shape s = X(0)
    ->shape;
    for (int i = b->attr->reduce.first; i <= b->attr->reduce.last; i++)
        s.dim[i] = 1;
    return lk_reshape(t, s);
}

RULE(reduce_sum) { GIVE(0, like(kept(b, DY(0)), X(0))); }

RULE(reduce_max)
{
    lk_tensor *hit = lk_cast(lk_equal(X(0), kept(b, Y(0))), X(0)->dtype);
    lk_tensor *hits = lki_apply1(LKI_OP_reduce_sum, b->attr, hit);
    GIVE(0, mul(hit, kept(b, divide(DY(0), hits))));
}

RULE(reduce_prod) /* the product of the other elements: correct if some are zero */
{
    lk_tensor *zero = lk_equal(X(0), NUMBER(0)), *one = NUMBER(1);
    lk_tensor *rest = lk_where(zero, one, X(0));
    lk_tensor *zeros = kept(b, lki_apply1(LKI_OP_reduce_sum, b->attr, lk_cast(zero, X(0)->dtype)));
    lk_tensor *product = kept(b, lki_apply1(LKI_OP_reduce_prod, b->attr, rest));
    lk_tensor *no_zero = mask(lk_equal(zeros, NUMBER(0)), product), *one_zero = mask(lk_equal(zeros, one), product);
    GIVE(0, mul(kept(b, DY(0)), lk_where(zero, one_zero, divide(no_zero, rest))));
}

RULE(sum_squares) { GIVE(0, mul(X(0), mul(DY(0), NUMBER(2)))); }

RULE(cumsum)
{
    lki_attr back = *b->attr;
    back.scan.reverse = !back.scan.reverse;
    GIVE(0, lki_apply1(LKI_OP_cumsum, &back, DY(0)));
}

RULE(top_k)
{
    int last = X(0)
    ->shape.rank - 1;
    lk_tensor *where = lk_one_hot(Y(1), X(0)->shape.dim[last], .dtype = X(0)->dtype); /* [..., k, n] */
    GIVE(0, lk_reduce_sum(mul(where, lk_expand_dims(DY(0), -1)), .axis = LK_AXES(last)));
}

/* ---- the last axis ---- */

static lk_tensor *row_sum(lk_tensor *t) { return lk_reduce_sum(t, .axis = LK_AXES(-1), .keepdims = LK_ON); }

RULE(softmax) { GIVE(0, lki_apply2(LKI_OP_softmax_grad, NULL, DY(0), Y(0))); }

RULE(softmax_grad) /* of (dy, y) */
{
    GIVE(0, lki_apply2(LKI_OP_softmax_grad, NULL, DY(0), X(1)));
    GIVE(1, sub(mul(DY(0), sub(X(0), row_sum(mul(X(0), X(1))))), mul(X(0), row_sum(mul(DY(0), X(1))))));
}

/* Layer normalisation. With h = (x - mean) * r, which is the result before gamma and beta, and n elements in a row,
 *
 *     P(v) = r * (v - sum(v) / n - h * sum(v * h) / n)
 *
 * is the derivative of h with respect to x and, being symmetric, also maps gradients back. Mean and r are results only because
 * these ops need them: how they depend on x is included in the gradients for x. */
static lk_tensor *norm_back(lk_tensor *v, lk_tensor *x, lk_tensor *gamma, lk_tensor *mean, lk_tensor *r)
{
    lk_tensor *out = NULL;
    return lki_apply(LKI_OP_layer_norm_grad_x, NULL, 5, (lk_tensor *const[]){v, x, gamma, mean, r}, &out);
}

static lk_tensor *norm_ones(const lk_tensor *x) { return lk_ones(LK_SHAPE(x->shape.dim[x->shape.rank - 1]), x->dtype); }

static lk_tensor *row_mean(lk_tensor *x)
{
    return divide(row_sum(x), lki_like(x, (double)lki_max(1, x->shape.dim[x->shape.rank - 1])));
}

/* h and r as functions of x, so that their own gradients are right; the epsilon is chosen so that r equals the recorded one. */
static lk_tensor *normalized(lk_tensor *x, lk_tensor *recorded, lk_tensor **r)
{
    lk_tensor *centered = sub(x, row_mean(x)), *variance = row_mean(lk_square(centered));
    lk_tensor *inverse = lk_reciprocal(lk_square(lk_expand_dims(recorded, -1)));
    *r = lk_rsqrt(add(variance, lk_stop_gradient(sub(inverse, variance))));
    return mul(centered, *r);
}

RULE(layer_norm)
{
    lk_tensor *out = NULL;
    GIVE(0, norm_back(DY(0), X(0), X(1), Y(1), Y(2)));
    GIVE(1, lki_apply(
                LKI_OP_layer_norm_grad_gamma, NULL, 4,
                (lk_tensor *const[]) {
                    DY(0), X(0)
                    , Y(1), Y(2)
                },
                &out));
    GIVE(2, to(DY(0), X(2)));
}

RULE(layer_norm_grad_x) /* of (dy, x, gamma, mean, r): P(dy * gamma) */
{
    lk_tensor *v = DY(0), *x = X(1)
    , *mean = X(3)
    , *r = X(4);
    if (b->need[0] || b->need[2]) {
        lk_tensor *back = norm_back(v, x, norm_ones(x), mean, r);
        GIVE(0, mul(back, X(2)));
        GIVE(2, to(mul(back, X(0)), X(2)));
    }
    if (b->need[1]) { /* through h, and through the factor r */
        lk_tensor *wide, *g = mul(X(0), X(2)), *h = normalized(x, r, &wide);
        lk_tensor *share = divide(wide, NUMBER((double)lki_max(1, x->shape.dim[x->shape.rank - 1])));
        lk_tensor *through = lk_neg(mul(share, add(mul(row_sum(mul(g, h)), v), mul(row_sum(mul(v, h)), g))));
        b->dx[1] = sub(norm_back(through, x, norm_ones(x), mean, r), mul(mul(row_sum(mul(v, Y(0))), share), h));
    }
}

RULE(layer_norm_grad_gamma) /* of (dy, x, mean, r): sum of dy * h over the rows */
{
    lk_tensor *wide;
    GIVE(0, mul(normalized(X(1), X(3), &wide), DY(0)));
    GIVE(1, norm_back(X(0), X(1), DY(0), X(2), X(3)));
}

RULE(log_softmax) { GIVE(0, sub(DY(0), mul(lk_exp(Y(0)), row_sum(DY(0))))); }

RULE(sparse_xent) { GIVE(0, lki_apply3(LKI_OP_sparse_xent_grad, b->attr, X(0), X(1), DY(0))); }

RULE(user) { lki_user_gradient(b); }

RULE(sparse_xent_grad) /* of dy * (softmax(x) - one_hot(label)) */
{
    lk_tensor *g = DY(0), *dy = lk_expand_dims(X(2), -1), *p = lki_apply1(LKI_OP_softmax, NULL, X(0));
    if (b->attr->xent.ignore) {
        lk_tensor *live = lk_not_equal(lk_cast(X(1), LK_I64), lk_fill((lk_shape){0}, LK_I64, (double)b->attr->xent.ignore_class));
        g = mask(lk_expand_dims(live, -1), g);
    }
    lk_tensor *weighted = mul(g, p);
    GIVE(0, mul(dy, sub(weighted, mul(p, row_sum(weighted)))));
    if (b->need[2]) {
        lk_tensor *hot = lk_one_hot(X(1), X(0)->shape.dim[X(0)->shape.rank - 1], .dtype = p->dtype);
        b->dx[2] = lk_reduce_sum(mul(g, sub(p, hot)), .axis = LK_AXES(-1));
    }
}

/* ---- batch normalisation: a pair is [2, channels] ---- */

static lk_tensor *pair_of(lk_tensor *first, lk_tensor *second) { return lk_stack(LK_TUPLE(first, second), 0); }

static lk_tensor *of_pair(lk_tensor *pair, int i) { return lk_unstack(pair, 0).item[i]; }

static lk_tensor *batch_apply(lk_tensor *x, lk_tensor *center, lk_tensor *pair)
{
    return lki_apply3(LKI_OP_batch_apply, NULL, x, center, pair);
}

/* dy * (x - center) and dy, summed. */
static lk_tensor *batch_grad_sums(lk_tensor *dy, lk_tensor *x, lk_tensor *center)
{
    return lk_cast(lki_apply3(LKI_OP_batch_grad_sums, NULL, dy, x, center), x->dtype);
}

/* mean = sum(x) / n, variance = sum((x - mean)^2) / n: the gradient is d mean / n + (x - mean) * (2 / n) * d variance. */
RULE(batch_moments)
{
    lk_tensor *each = divide(DY(0), X(2));
    GIVE(1, batch_apply(X(1), of_pair(Y(0), 0), pair_of(mul(of_pair(each, 1), NUMBER(2)), of_pair(each, 0))));
}

RULE(batch_apply)
{
    GIVE(0, mul(DY(0), of_pair(X(2), 0)));
    GIVE(1, lk_neg(mul(of_pair(batch_grad_sums(DY(0), X(0), X(1)), 1), of_pair(X(2), 0))));
    GIVE(2, batch_grad_sums(DY(0), X(0), X(1)));
}

RULE(batch_grad_sums)
{
    lk_tensor *d = lk_cast(DY(0), X(1)->dtype);
    GIVE(0, batch_apply(X(1), X(2), d));
    GIVE(1, mul(X(0), of_pair(d, 0)));
    GIVE(2, lk_neg(mul(of_pair(lk_cast(Y(0), d->dtype), 1), of_pair(d, 0))));
}

/* ---- moves ---- */

RULE(reshape) { GIVE(0, lk_reshape(DY(0), X(0)->shape)); }
RULE(broadcast) { GIVE(0, to(DY(0), X(0))); }
RULE(broadcast_like) { GIVE(0, to(DY(0), X(0))); }

RULE(transpose)
{
    lki_axes back = {.count = X(0)->shape.rank };
    for (int i = 0; i < back.count; i++)
        back.value[b->attr->perm.axis[i]] = i;
    GIVE(0, lk_transpose(DY(0), lki_axes_list(&back)));
}

static lk_tensor *reshaped(lki_backward *b, lki_op op, lk_tensor *t)
{
    lki_attr attr = *b->attr;
    attr.shape = X(0)
    ->shape;
    return lki_apply1(op, &attr, t);
}

RULE(slice) { GIVE(0, reshaped(b, LKI_OP_unslice, DY(0))); }
RULE(unslice) { GIVE(0, reshaped(b, LKI_OP_slice, DY(0))); }
RULE(pad_grad) { GIVE(0, reshaped(b, LKI_OP_pad, DY(0))); }

RULE(pad)
{
    if (b->attr->pad.mode != LKI_PAD_CONSTANT) {
        GIVE(0, reshaped(b, LKI_OP_pad_grad, DY(0)));
        return;
    }
    lki_axes begin = {.count = X(0)->shape.rank }, size = {.count = X(0)->shape.rank };
    for (int i = 0; i < begin.count; i++) {
        begin.value[i] = b->attr->pad.before[i];
        size.value[i] = X(0)
        ->shape.dim[i];
    }
    GIVE(0, lki_slice(DY(0), &begin, &size));
}

RULE(concat)
{
    lki_axes begin = {.count = X(0)->shape.rank }, size = {.count = X(0)->shape.rank };
    for (int i = 0; i < b->nsrc; i++) {
        for (int d = 0; d < size.count; d++)
            size.value[d] = X(i)
        ->shape.dim[d];
        GIVE(i, lki_slice(DY(0), &begin, &size));
        begin.value[b->attr->scan.axis] += X(i)
        ->shape.dim[b->attr->scan.axis];
    }
}

RULE(unstack) { GIVE(0, lk_stack((lk_tuple){b->ndst, (lk_tensor **)b->dy}, b->attr->scan.axis)); }

RULE(gather)
{
    lki_attr attr = *b->attr;
    attr.shape = X(0)
    ->shape;
    GIVE(0, lki_apply2(LKI_OP_gather_grad, &attr, DY(0), X(1)));
    lk_tensor *g = b->dx[0];
    if (attr.scan.axis == 0 && !lki_bad(g)) { /* optimisers may ask which rows the gradient was made of */
        g->slice_rows = lki_retain(DY(0));
        g->slice_ids = lki_retain(X(1));
    }
}

/* [n, entries, rest...] of [n, ..., rest...], where the last `rest` axes stay. */
static lk_tensor *by_rows(lk_tensor *t, int rest)
{
    const int rank = t->shape.rank;
    lk_shape  shape = {.rank = 2 + rest, .dim = {t->shape.dim[0], 1}};
    for (int i = 1; i < rank - rest; i++)
        shape.dim[1] = lki_size_mul(shape.dim[1], t->shape.dim[i]);
    for (int i = 0; i < rest; i++)
        shape.dim[2 + i] = t->shape.dim[rank - rest + i];
    return lk_reshape(t, shape);
}

void lki_join_rows(lk_tensor *sum, lk_tensor *a, lk_tensor *b)
{
    if (lki_bad(sum) || lki_bad(a) || lki_bad(b) || !a->slice_rows || !b->slice_rows || sum->slice_rows) return;
    const int rest = sum->shape.rank - 1;
    if (!a->slice_ids->shape.rank || !b->slice_ids->shape.rank || a->slice_ids->shape.dim[0] != b->slice_ids->shape.dim[0] ||
        a->slice_ids->dtype != b->slice_ids->dtype)
        return;
    lk_tensor *rows = lk_concat(LK_TUPLE(by_rows(a->slice_rows, rest), by_rows(b->slice_rows, rest)), 1);
    lk_tensor *ids = lk_concat(LK_TUPLE(by_rows(a->slice_ids, 0), by_rows(b->slice_ids, 0)), 1);
    if (lki_bad(rows) || lki_bad(ids)) return;
    sum->slice_rows = lki_retain(rows);
    sum->slice_ids = lki_retain(ids);
}

RULE(gather_grad) { GIVE(0, lki_apply2(LKI_OP_gather, b->attr, DY(0), X(1))); }

RULE(row_gather)
{
    lki_attr attr = *b->attr;
    attr.shape = X(0)
    ->shape;
    GIVE(0, lki_apply2(LKI_OP_row_gather_grad, &attr, DY(0), X(1)));
}

RULE(row_gather_grad) { GIVE(0, lki_apply2(LKI_OP_row_gather, b->attr, DY(0), X(1))); }

/* ---- products ---- */

typedef struct factor { /* an operand of a product, transposed or not, by heads or not */
    lk_tensor *x;
    bool       turned, heads;
} factor;

static lk_tensor *product(factor a, factor b, bool heads)
{
    return lki_matmul_heads(a.x, a.turned, b.x, b.turned, a.heads | b.heads << 1 | heads << 2);
}

RULE(matmul) /* y = A B with A = a or a^T, B = b or b^T */
{
    const bool   ta = b->attr->matmul.ta, tb = b->attr->matmul.tb;
    const int    heads = b->attr->matmul.heads;
    const factor A = { X(0), !ta, heads & 1 }, B = { X(1), !tb, heads >> 1 & 1 }, D = {DY(0), false, heads >> 2 & 1};
    const factor At = { X(0), ta, A.heads }, Bt = { X(1), tb, B.heads }, Dt = {DY(0), true, D.heads};
    GIVE(0, to(ta ? product(Bt, Dt, A.heads) : product(D, B, A.heads), X(0)));
    GIVE(1, to(tb ? product(Dt, At, B.heads) : product(A, D, B.heads), X(1)));
}

static lk_tensor *windowed(lki_backward *b, lki_op op, const lk_tensor *result_like, lk_tensor *p, lk_tensor *q)
{
    lki_attr attr = *b->attr;
    attr.shape = result_like->shape;
    return q ? lki_apply2(op, &attr, p, q) : lki_apply1(op, &attr, p);
}

/* The three directions of a convolution are each other's gradients. */
#define CONVOLUTION(forward)                                                                                                       \
    static void dense_##forward(lki_backward *b)                                                                                   \
    {                                                                                                                              \
        GIVE(0, windowed(b, LKI_OP_##forward##_grad_x, X(0), DY(0), X(1)));                                                        \
        GIVE(1, windowed(b, LKI_OP_##forward##_grad_w, X(1), X(0), DY(0)));                                                        \
    }                                                                                                                              \
    RULE(forward##_grad_x) /* of (dy, w) */                                                                                        \
    {                                                                                                                              \
        GIVE(0, windowed(b, LKI_OP_##forward, X(0), DY(0), X(1)));                                                                 \
        GIVE(1, windowed(b, LKI_OP_##forward##_grad_w, X(1), DY(0), X(0)));                                                        \
    }                                                                                                                              \
    RULE(forward##_grad_w) /* of (x, dy) */                                                                                        \
    {                                                                                                                              \
        GIVE(0, windowed(b, LKI_OP_##forward##_grad_x, X(0), X(1), DY(0)));                                                        \
        GIVE(1, windowed(b, LKI_OP_##forward, X(1), X(0), DY(0)));                                                                 \
    }
CONVOLUTION(conv2d)
CONVOLUTION(depthwise)
CONVOLUTION(grouped)

RULE(depthwise) { dense_depthwise(b); }
RULE(grouped) { dense_grouped(b); }

static lk_tensor *windowed3(lki_backward *b, lki_op op, const lk_tensor *result_like, lk_tensor *p, lk_tensor *q, lk_tensor *r)
{
    lki_attr attr = *b->attr;
    attr.shape = result_like->shape;
    return lki_apply3(op, &attr, p, q, r);
}

/* With a 2x2 max pool after it, the gradient is read at the cells that the pool selected, and never expanded. */
RULE(conv2d)
{
    const lki_pooled *p = lki_pooled_two_by_two(DY(0));
    if (!p) {
        dense_conv2d(b);
        return;
    }
    GIVE(0, windowed3(b, LKI_OP_conv2d_pool_grad_x, X(0), p->d, p->cell, X(1)));
    GIVE(1, windowed3(b, LKI_OP_conv2d_pool_grad_w, X(1), X(0), p->d, p->cell));
}

/* The gradient for the operand d: of the convolution of (x, w), the elements that `cell` selects. Rows and columns that
 * the pool left out are not computed. */
static lk_tensor *picked(lki_backward *b, lk_tensor *x, lk_tensor *w, lk_tensor *cell)
{
    lki_attr attr = *b->attr, pool = {.window = {{2, 2}, {2, 2}, {1, 1}, {0, 0}}};
    attr.shape = cell->shape;
    attr.shape.dim[1] = lki_size_mul(attr.shape.dim[1], 2);
    attr.shape.dim[2] = lki_size_mul(attr.shape.dim[2], 2);
    return lki_apply2(LKI_OP_max_pool_pick, &pool, lki_apply2(LKI_OP_conv2d, &attr, x, w), cell);
}

RULE(conv2d_pool_grad_x) /* of (d, cell, w) */
{
    GIVE(0, picked(b, DY(0), X(2), X(1)));
    GIVE(2, windowed3(b, LKI_OP_conv2d_pool_grad_w, X(2), DY(0), X(0), X(1)));
}

RULE(conv2d_pool_grad_w) /* of (x, d, cell) */
{
    GIVE(0, windowed3(b, LKI_OP_conv2d_pool_grad_x, X(0), X(1), X(2), DY(0)));
    GIVE(1, picked(b, X(0), DY(0), X(2)));
}

RULE(max_pool) { GIVE(0, lki_unpool(&b->attr->window, &X(0)->shape, DY(0), Y(1), Y(0), X(0))); }
RULE(max_pool_grad) { GIVE(0, windowed(b, LKI_OP_max_pool_pick, X(0), DY(0), X(1))); }
RULE(max_pool_pick) { GIVE(0, windowed(b, LKI_OP_max_pool_grad, X(0), DY(0), X(1))); }
RULE(avg_pool) { GIVE(0, windowed(b, LKI_OP_avg_pool_grad, X(0), DY(0), NULL)); }
RULE(avg_pool_grad) { GIVE(0, windowed(b, LKI_OP_avg_pool, X(0), DY(0), NULL)); }

/* ---- over the replicas ---- */

RULE(share) { GIVE(0, lki_share_of(DY(0), lki_replica_count())); }

RULE(all_reduce)
{
    lki_replica *r = lki_replica_current();
    GIVE(0, r && r->all_reduce ? r->all_reduce(r, b->attr->num.a != 0, DY(0)) : DY(0));
}

/* The sum of the gradients of all replicas, and the part of it for this replica's operand. */
RULE(all_gather)
{
    lki_replica *r = lki_replica_current();
    lk_tensor   *sum = r && r->all_reduce ? r->all_reduce(r, false, DY(0)) : DY(0);
    lki_attr     attr = *b->attr;
    attr.shape = X(0)
    ->shape;
    GIVE(0, lki_apply1(LKI_OP_slice, &attr, sum));
}

/* Between `combined` (a sum over the replicas) and `replicated`, values and gradients are the same on all replicas. So `combined`
 * passes its gradient on unchanged, and `replicated` adds up the gradients of all replicas. The replicas exchange nothing but
 * plain sums over rows, so the bits are those of one device (nn/norm.c). */
RULE(combined) { GIVE(1, lk_identity(DY(0))); }

RULE(replicated)
{
    lki_replica *r = lki_replica_current();
    GIVE(0, r && r->all_reduce ? r->all_reduce(r, false, DY(0)) : lk_identity(DY(0)));
}

/* ---- the table ---- */

#define grad_none NULL
static lki_gradient_fn *const rules[LKI_OP_COUNT] = {
#define LKI_OP(name, nsrc, ndst, shape, lane, grad, slot, text) grad_##grad,
#include "op/ops.inc"
#undef LKI_OP
};

lki_gradient_fn *lki_gradient_of(lki_op op) { return rules[op]; }
