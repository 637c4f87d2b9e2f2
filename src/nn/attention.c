/* Attention, plain and with several heads. The results of the projections are multiplied head by head without a transpose
 * (kernel/matrix.h). */
#include "core/rounding.h"
#include "op/gradient.h"
#include "op/op.h"
#include "op/product.h"
#include <lockstep/nn.h>
#include <math.h>

/* Very small but finite where the mask is false: if a row may attend to nothing, its weights are all equal. */
static lk_tensor *masked(lk_tensor *scores, lk_tensor *mask)
{
    if (lki_bad(scores)) return scores;
    double lowest = scores->dtype == LK_F16 ? -65504 : -3.4028234663852886e38;
    return lk_where(mask, scores, lki_like(scores, lowest / 2));
}

/* heads: query and key are [n, steps, heads, d], the scores [n, heads, steps, steps]. */
static lk_tensor *scores_of(lk_tensor *query, lk_tensor *key, lk_tensor *mask, bool heads)
{
    double     width = query->shape.rank ? (double)query->shape.dim[query->shape.rank - 1] : 1;
    lk_tensor *scores = lki_matmul_heads(lk_mul(query, lki_like(query, 1 / sqrt(width))), false, key, true, heads ? 3 : 0);
    return lk_softmax(mask ? masked(scores, mask) : scores);
}

lk_tensor *lk_nn_attention(lk_tensor *query, lk_tensor *key, lk_tensor *value, lk_tensor *mask)
{
    LKI_NEAREST;
    const char *call = "lk_nn_attention";
    if (!lki_usable(call, "query", query) || !lki_usable(call, "key", key) || !lki_usable(call, "value", value)) return &lki_poison;
    return lk_matmul(scores_of(query, key, mask, false), value);
}

/* ---- several heads ---- */

/* [n, steps, width] by [width, heads, d] (+ [heads, d]) to [n, steps, heads, d]. */
static lk_tensor *project(lk_tensor *x, lk_tensor *kernel, lk_tensor *bias)
{
    char text[2][LKI_SHAPE_TEXT];
    if (lki_bad(x) || lki_bad(kernel)) return &lki_poison;
    if (x->shape.rank != 3 || kernel->shape.rank != 3 || kernel->shape.dim[0] != x->shape.dim[2])
        return lki_refuse(
            LK_ESHAPE, "lk_nn_multi_head_attention: input %s and kernel %s should be [n, steps, width] and [width, heads, key_dim]",
            lki_shape_text(&x->shape, text[0]), lki_shape_text(&kernel->shape, text[1]));
    int64_t    heads = kernel->shape.dim[1], d = kernel->shape.dim[2];
    lk_tensor *flat_bias = bias ? lk_reshape(bias, LK_SHAPE(lki_size_mul(heads, d))) : NULL;
    lk_tensor *y = lk_nn_dense(x, lk_reshape(kernel, LK_SHAPE(kernel->shape.dim[0], lki_size_mul(heads, d))), flat_bias, LK_LINEAR);
    return lk_reshape(y, LK_SHAPE(x->shape.dim[0], x->shape.dim[1], heads, d));
}

/* [1, query, value]: step i sees steps 0 to i. */
static lk_tensor *causal(int64_t query, int64_t value)
{
    return lk_greater_equal(lk_reshape(lk_range(query, LK_I32), LK_SHAPE(1, query, 1)),
                            lk_reshape(lk_range(value, LK_I32), LK_SHAPE(1, 1, value)));
}

/* For all heads; NULL: a step may attend to all others. */
static lk_tensor *mask_of(const lk_attention_args *a)
{
    lk_tensor *mask = a->mask;
    if (a->use_causal_mask == LK_ON) {
        lk_tensor *before = causal(a->query->shape.dim[1], a->value->shape.dim[1]);
        mask = mask ? lk_logical_and(mask, before) : before;
    }
    return mask ? lk_expand_dims(mask, 1) : NULL;
}

lk_tensor *lk_nn_multi_head_attention_kw(lk_attention_args a)
{
    LKI_NEAREST;
    if (!a.query || !a.value || !a.query_kernel || !a.key_kernel || !a.value_kernel || !a.output_kernel)
        lki_fail(LK_EINVAL, "lk_nn_multi_head_attention: query, value and the four kernels are required");
    lk_tensor *q = project(a.query, a.query_kernel, a.query_bias);
    lk_tensor *k = project(a.key ? a.key : a.value, a.key_kernel, a.key_bias);
    lk_tensor *v = project(a.value, a.value_kernel, a.value_bias);
    if (lki_bad(q) || lki_bad(k) || lki_bad(v)) return &lki_poison;
    lk_tensor *scores = scores_of(q, k, mask_of(&a), true);
    if (a.dropout != 0) scores = lk_nn_dropout(scores, a.dropout, .stream = a.stream, .iteration = a.iteration);
    lk_tensor *mixed = lki_matmul_heads(scores, false, v, false, 2 | 4);
    if (lki_bad(mixed) || lki_bad(a.output_kernel)) return &lki_poison;
    int64_t         n = mixed->shape.dim[0], steps = mixed->shape.dim[1], heads = mixed->shape.dim[2], d = mixed->shape.dim[3];
    lk_tensor      *joined = lk_reshape(mixed, LK_SHAPE(n, steps, lki_size_mul(heads, d)));
    const lk_shape *o = &a.output_kernel->shape;
    char            text[LKI_SHAPE_TEXT];
    if (o->rank != 3 || o->dim[0] != heads || o->dim[1] != d)
        return lki_refuse(LK_ESHAPE, "lk_nn_multi_head_attention: the output kernel is %s; it should be [%lld, %lld, out]",
                          lki_shape_text(o, text), (long long)heads, (long long)d);
    return lk_nn_dense(joined, lk_reshape(a.output_kernel, LK_SHAPE(lki_size_mul(heads, d), o->dim[2])), a.output_bias, LK_LINEAR);
}
