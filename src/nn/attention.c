/* Attention, plain and with several heads. The results of the projections are multiplied head by head without a transpose
 * (kernel/matrix.h). */
#include "core/rounding.h"
#include "op/gradient.h"
#include "op/op.h"
#include "op/product.h"
#include <lockstep/nn.h>
#include <lockstep/strategy.h>
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

/* Each head of [n, steps, heads, d] as often as needed to be `heads` heads. */
static lk_tensor *repeated(lk_tensor *x, int64_t heads)
{
    const lk_shape *s = &x->shape;
    if (s->dim[2] == heads || heads % s->dim[2]) return x;
    const int64_t each = heads / s->dim[2];
    return lk_reshape(lk_tile(lk_expand_dims(x, 3), LK_AXES(1, 1, 1, each, 1)), LK_SHAPE(s->dim[0], s->dim[1], heads, s->dim[3]));
}

/* [1, query, value]: step i sees steps 0 to i. */
static lk_tensor *causal(int64_t query, int64_t value)
{
    return lk_greater_equal(lk_reshape(lk_range(query, LK_I32), LK_SHAPE(1, query, 1)),
                            lk_reshape(lk_range(value, LK_I32), LK_SHAPE(1, 1, value)));
}

/* [1, query, value]: steps less than `reach` apart. */
static lk_tensor *window(int64_t query, int64_t value, int64_t reach)
{
    lk_tensor *apart = lk_sub(lk_reshape(lk_range(query, LK_I32), LK_SHAPE(1, query, 1)),
                              lk_reshape(lk_range(value, LK_I32), LK_SHAPE(1, 1, value)));
    return lk_less(lk_abs(apart), lk_fill((lk_shape){0}, LK_I32, (double)reach));
}

static lk_tensor *both(lk_tensor *a, lk_tensor *b) { return a && b ? lk_logical_and(a, b) : a ? a : b; }

/* For all heads; NULL: a step may attend to all others. */
static lk_tensor *mask_of(const lk_attention_args *a)
{
    const int64_t query = a->query->shape.dim[1], value = a->value->shape.dim[1];
    lk_tensor    *mask = a->mask;
    if (a->use_causal_mask == LK_ON) mask = both(mask, causal(query, value));
    if (a->sliding_window > 0) mask = both(mask, window(query, value, a->sliding_window));
    return mask ? lk_expand_dims(mask, 1) : NULL;
}

static bool operands_there(const lk_attention_args *a)
{
    if (!a->query || !a->value || !a->query_kernel || !a->key_kernel || !a->value_kernel || !a->output_kernel)
        lki_fail(LK_EINVAL, "lk_nn_multi_head_attention: query, value and the four kernels are required");
    return !lki_bad(a->query) && !lki_bad(a->value) && !lki_bad(a->output_kernel);
}

/* The results of the heads, [n, steps, heads, d], joined: times [heads, d, out], plus a bias. */
static lk_tensor *join(const lk_attention_args *a, lk_tensor *mixed)
{
    const lk_shape *o = &a->output_kernel->shape, *m = &mixed->shape;
    char            text[LKI_SHAPE_TEXT];
    if (o->rank != 3 || o->dim[0] != m->dim[2] || o->dim[1] != m->dim[3])
        return lki_refuse(LK_ESHAPE, "lk_nn_multi_head_attention: the output kernel is %s; it should be [%lld, %lld, out]",
                          lki_shape_text(o, text), (long long)m->dim[2], (long long)m->dim[3]);
    const int64_t width = lki_size_mul(m->dim[2], m->dim[3]);
    return lk_nn_dense(lk_reshape(mixed, LK_SHAPE(m->dim[0], m->dim[1], width)),
                       lk_reshape(a->output_kernel, LK_SHAPE(width, o->dim[2])), a->output_bias, LK_LINEAR);
}

lk_tensor *lk_nn_multi_head_attention_kw(lk_attention_args a)
{
    LKI_NEAREST;
    if (!operands_there(&a)) return &lki_poison;
    lk_tensor *q = project(a.query, a.query_kernel, a.query_bias);
    lk_tensor *k = project(a.key ? a.key : a.value, a.key_kernel, a.key_bias);
    lk_tensor *v = project(a.value, a.value_kernel, a.value_bias);
    if (lki_bad(q) || lki_bad(k) || lki_bad(v)) return &lki_poison;
    k = repeated(k, q->shape.dim[2]);
    v = repeated(v, q->shape.dim[2]);
    lk_tensor *mask = mask_of(&a), *scores = scores_of(q, k, mask, true);
    if (mask && a.zero_masked == LK_ON && !lki_bad(scores)) scores = lk_where(mask, scores, lki_like(scores, 0));
    lk_tensor *weights = scores;
    if (a.dropout != 0) weights = lk_nn_dropout(weights, a.dropout, .stream = a.stream, .iteration = a.iteration);
    lk_tensor *mixed = lki_matmul_heads(weights, false, v, false, 2 | 4);
    if (a.gate_kernel) mixed = lk_mul(mixed, lk_sigmoid(project(a.query, a.gate_kernel, a.gate_bias)));
    if (lki_bad(mixed)) return &lki_poison;
    lk_tensor *y = join(&a, mixed);
    return a.return_attention_scores == LK_ON && !lki_bad(y) ? lk_nest(LK_TUPLE(y, scores)) : y;
}
