/* Operations of neural networks: softmax and its relatives, pools, convolutions, norms, attention, cross-entropies (operands.h). */
#include "core/dtype.h"
#include "layer/operands.h"
#include <math.h>
#include <string.h>

static lk_tensor *times(lk_tensor *x, double n) { return lk_mul(x, lki_like(x, n)); }
static lk_tensor *plus(lk_tensor *x, double n) { return lk_add(x, lki_like(x, n)); }

/* ---- along an axis ---- */

OPERATION(softmax)
{
    lk_tensor *x = lki_arg_float(c, "x");
    lki_axes   axes = {1, {-1}};
    if (lki_arg(c, "axis") ? !lki_arg_axes(c, "axis", x, &axes) : lki_bad(x)) return &lki_poison;
    if (axes.count == 1) return lk_softmax(x, .axis = LK_AXIS((int)axes.value[0]));
    return lk_exp(lk_sub(x, lk_reduce_logsumexp(x, .axis = lki_axes_list(&axes), .keepdims = LK_ON)));
}

OPERATION(log_softmax)
{
    lk_tensor *x = lki_arg_float(c, "x");
    const int  at = lki_arg_axis(c, "axis", x, -1);
    return at < 0 ? &lki_poison : lk_log_softmax(x, .axis = LK_AXIS(at));
}

static lk_tensor *swapped(lk_tensor *x, int a, int b)
{
    lki_axes order = {.count = lki_bad(x) ? 0 : x->shape.rank};
    for (int i = 0; i < order.count; i++)
        order.value[i] = i == a ? b : i == b ? a : i;
    return a == b ? x : (lk_transpose)(x, lki_axes_list(&order));
}

/* The threshold as Keras 3.15 computes it. */
static lk_tensor *sparsemax(lk_tensor *x)
{
    const int     last = x->shape.rank - 1;
    const int64_t n = x->shape.dim[last];
    lk_tuple      sorted = lk_top_k(x, n);
    if (!sorted.count || lki_bad(sorted.item[0])) return &lki_poison;
    lk_tensor *s = sorted.item[0], *sums = lk_cumsum(s, .axis = LK_AXIS(last)),
              *place = lk_add(lk_range(n, LK_F32), lk_fill((lk_shape){0}, LK_F32, 1));
    lk_tensor *support = lk_greater(lk_sub(s, lk_div(plus(sums, -1), place)), lki_like(s, 0));
    lk_tensor *k = lk_reduce_sum(lk_cast(support, LK_F32), .axis = LK_AXES(last), .keepdims = LK_ON);
    lk_tensor *all = lk_reduce_sum(lk_where(support, sums, lki_like(s, 0)), .axis = LK_AXES(last), .keepdims = LK_ON);
    return lk_maximum(lk_sub(x, lk_div(plus(all, -1), k)), lki_like(x, 0));
}

OPERATION(sparsemax)
{
    lk_tensor *x = lki_arg_float(c, "x");
    const int  at = lki_arg_axis(c, "axis", x, -1);
    return at < 0 ? &lki_poison : swapped(sparsemax(swapped(x, at, x->shape.rank - 1)), at, x->shape.rank - 1);
}

OPERATION(glu)
{
    lk_tensor *x = lki_arg_float(c, "x");
    const int  at = lki_arg_axis(c, "axis", x, -1);
    if (at < 0) return &lki_poison;
    const int64_t half = x->shape.dim[at] / 2;
    if (x->shape.dim[at] % 2) return lki_arg_refuse(c, "axis %d has an odd number of entries", at);
    lk_tuple two = lk_split(x, LK_AXES(half, half), at);
    return two.count == 2 ? lk_mul(two.item[0], lk_sigmoid(two.item[1])) : &lki_poison;
}

/* ---- windows ---- */

/* The number of directions of pictures or sequences; 0 and an error. */
static int directions(const lki_operands *c, const lk_tensor *x)
{
    const int n = lki_bad(x) ? 0 : x->shape.rank - 2;
    if (strcmp(lki_arg_word(c, "data_format", "channels_last"), "channels_last")) {
        lki_arg_refuse(c, "data_format is \"%s\"; only \"channels_last\" is supported", lki_arg_word(c, "data_format", ""));
        return 0;
    }
    if (n == 1 || n == 2 || lki_bad(x)) return n;
    lki_arg_refuse(c, "it has %d axes; it should be sequences or pictures", lk_rank(x));
    return 0;
}

static int padding_of(const lki_operands *c)
{
    const char *word = lki_arg_word(c, "padding", "valid");
    if (!strcmp(word, "valid")) return LK_VALID;
    if (!strcmp(word, "same")) return LK_SAME;
    lki_arg_refuse(c, "padding is \"%s\"; known are valid and same", word);
    return -1;
}

static lk_tensor *pooled(const lki_operands *c, lk_tensor *(*sequences)(lk_pool_args), lk_tensor *(*pictures)(lk_pool_args))
{
    lk_tensor *x = lki_arg_float(c, "inputs");
    const int  n = directions(c, x), padding = n ? padding_of(c) : -1;
    lki_axes   size, strides;
    if (padding < 0 || !lki_arg_list(c, "pool_size", &size) || !lki_arg_list(c, "strides", &strides)) return &lki_poison;
    lk_pool_args a = {.x = x, .size = lki_axes_list(&size), .padding = (lk_padding)padding};
    if (strides.count) a.strides = lki_axes_list(&strides);
    return n == 1 ? sequences(a) : pictures(a);
}
OPERATION(max_pool) { return pooled(c, lk_nn_max_pool1d_kw, lk_nn_max_pool2d_kw); }
OPERATION(average_pool) { return pooled(c, lk_nn_avg_pool1d_kw, lk_nn_avg_pool2d_kw); }

static lk_tensor *adapted(const lki_operands *c, lk_tensor *(*pool)(lk_tensor *, lk_axes))
{
    lk_tensor *x = lki_arg_float(c, "inputs");
    const int  n = lki_bad(x) ? 0 : x->shape.rank - 2;
    lki_axes   size;
    if (strcmp(lki_arg_word(c, "data_format", "channels_last"), "channels_last"))
        return lki_arg_refuse(c, "only data_format \"channels_last\" is supported");
    if (lki_bad(x) || !lki_arg_list(c, "output_size", &size)) return &lki_poison;
    for (const bool one = size.count == 1; one && size.count < n; size.count++)
        size.value[size.count] = size.value[0];
    return pool(x, lki_axes_list(&size));
}
OPERATION(adaptive_max_pool) { return adapted(c, lk_nn_adaptive_max_pool); }
OPERATION(adaptive_average_pool) { return adapted(c, lk_nn_adaptive_avg_pool); }

/* A kernel is a constant: one of each row would be another computation. */
static bool is_constant(const lki_operands *c, const char *name)
{
    const lki_json *v = lki_arg(c, name);
    if (v && lki_call_form_tensor(v) < 0) return true;
    lki_arg_refuse(c, "%s should be a constant", name);
    return false;
}

static lk_tensor *with_height(lk_tensor *x) { return lk_expand_dims(x, lk_rank(x) == 3 ? 1 : 0); }

/* By the function for pictures; sequences are pictures of height 1. */
static lk_tensor *convolved(const lki_operands *c, const char *kernel, const char *pointwise, lk_tensor *(*function)(lk_conv_args))
{
    lk_tensor *x = lki_arg_float(c, "inputs"), *w = is_constant(c, kernel) ? lki_arg_float(c, kernel) : &lki_poison;
    const int  n = lki_bad(w) ? 0 : directions(c, x), padding = n ? padding_of(c) : -1;
    lki_axes   strides, dilation;
    if (padding < 0 || !lki_arg_list(c, "strides", &strides) || !lki_arg_list(c, "dilation_rate", &dilation)) return &lki_poison;
    if (n == 1) {
        x = with_height(x);
        w = lk_expand_dims(w, 0);
        if (strides.count == 1) strides = (lki_axes){2, {1, strides.value[0]}};
        if (dilation.count == 1) dilation = (lki_axes){2, {1, dilation.value[0]}};
    }
    if (lki_bad(x) || lki_bad(w)) return &lki_poison;
    if (w->shape.rank != 4) return lki_arg_refuse(c, "%s and inputs do not have as many axes", kernel);
    lk_conv_args a = {.x = x, .kernel = w, .padding = (lk_padding)padding};
    if (strides.count) a.strides = lki_axes_list(&strides);
    if (dilation.count) a.dilation = lki_axes_list(&dilation);
    if (pointwise) {
        a.pointwise = is_constant(c, pointwise) ? lki_arg_float(c, pointwise) : &lki_poison;
        if (lki_bad(a.pointwise)) return &lki_poison;
        if (n == 1) a.pointwise = lk_expand_dims(a.pointwise, 0);
    }
    lk_tensor *y = function(a);
    return n == 1 && !lki_bad(y) ? (lk_squeeze)(y, LK_AXES(1)) : y;
}
OPERATION(conv) { return convolved(c, "kernel", NULL, lk_nn_conv2d_kw); }
OPERATION(depthwise_conv) { return convolved(c, "kernel", NULL, lk_nn_depthwise_conv2d_kw); }
OPERATION(separable_conv) { return convolved(c, "depthwise_kernel", "pointwise_kernel", lk_nn_separable_conv2d_kw); }
OPERATION(conv_transpose)
{
    if (lki_arg(c, "output_padding")) return lki_arg_refuse(c, "output_padding is given; only null is supported");
    return convolved(c, "kernel", NULL, lk_nn_conv2d_transpose_kw);
}

/* ---- norms ---- */

/* A vector for axis `at` of x, with axes of size 1 after it. */
static lk_tensor *along(lk_tensor *v, const lk_tensor *x, int at)
{
    lk_shape s = {.rank = x->shape.rank - at, .dim = {lki_bad(v) ? 0 : lk_size(v)}};
    for (int i = 1; i < s.rank; i++)
        s.dim[i] = 1;
    return lki_bad(v) || v->shape.rank != 1 ? v : lk_reshape(v, s);
}

OPERATION(batch_norm)
{
    static const char *const VECTORS[] = {"mean", "variance", "offset", "scale"};
    lk_tensor               *x = lki_arg_float(c, "x"), *v[4] = {NULL};
    const int                at = lki_arg_axis(c, "axis", x, -1);
    if (at < 0) return &lki_poison;
    for (int i = 0; i < 4; i++) {
        if (!lki_arg(c, VECTORS[i])) continue;
        if (!is_constant(c, VECTORS[i])) return &lki_poison;
        v[i] = along(lki_arg_float(c, VECTORS[i]), x, at);
    }
    if (lki_bad(v[0]) || lki_bad(v[1])) return lk_failed() ? &lki_poison : lki_arg_refuse(c, "mean or variance is missing");
    lk_tensor *inverse = lk_rsqrt(plus(v[1], lki_arg_number(c, "epsilon", 1e-3)));
    if (v[3]) inverse = lk_mul(inverse, v[3]);
    lk_tensor *shift = lk_neg(lk_mul(v[0], inverse));
    if (v[2]) shift = lk_add(shift, v[2]);
    return lk_add(lk_mul(x, inverse), shift);
}

static lk_tensor *factor(const lki_operands *c, const char *name, const lk_tensor *x, const lki_axes *axes)
{
    if (!lki_arg(c, name)) return NULL;
    lk_tensor *t = lki_arg_float(c, name);
    return axes->count == 1 ? along(t, x, (int)axes->value[0]) : t;
}

OPERATION(layer_norm)
{
    lk_tensor *x = lki_arg_float(c, "x");
    lki_axes   axes = {1, {lki_bad(x) ? 0 : x->shape.rank - 1}};
    if (lki_arg(c, "axis") ? !lki_arg_axes(c, "axis", x, &axes) : lki_bad(x)) return &lki_poison;
    const lk_reduce_args a = {.x = x, .axis = lki_axes_list(&axes), .keepdims = LK_ON};
    lk_tensor           *mean = lk_reduce_mean_kw(a), *inverse = lk_reduce_variance_kw(a);
    if (lki_bad(mean) || lki_bad(inverse)) return &lki_poison;
    inverse = lk_rsqrt(plus(inverse, lki_arg_number(c, "epsilon", 1e-7)));
    lk_tensor *gamma = factor(c, "gamma", x, &axes), *beta = factor(c, "beta", x, &axes);
    lk_tensor *y = lki_arg_switch(c, "rms_scaling", false) ? lk_mul(x, inverse) : lk_mul(lk_sub(x, mean), inverse);
    if (gamma) y = lk_mul(y, gamma);
    return beta && !lki_arg_switch(c, "rms_scaling", false) ? lk_add(y, beta) : y;
}

OPERATION(rms_norm)
{
    lk_tensor *x = lki_arg_float(c, "x");
    lki_axes   axes = {1, {lki_bad(x) ? 0 : x->shape.rank - 1}};
    if (lki_arg(c, "axis") ? !lki_arg_axes(c, "axis", x, &axes) : lki_bad(x)) return &lki_poison;
    lk_tensor *mean = lk_reduce_mean(lk_square(x), .axis = lki_axes_list(&axes), .keepdims = LK_ON);
    if (lki_bad(mean)) return mean;
    lk_tensor *y = lk_mul(x, lk_rsqrt(plus(mean, lki_arg_number(c, "epsilon", 1e-7))));
    return lki_arg(c, "scale") ? lk_mul(y, lki_arg_float(c, "scale")) : y;
}

/* ---- attention ---- */

/* [rows, steps, heads, width] to [rows, heads, steps, width] and back; heads of key and value may be shared by several. */
static lk_tensor *by_heads(lk_tensor *x, int64_t heads)
{
    if (lki_bad(x)) return x;
    const lk_shape s = x->shape;
    x = (lk_transpose)(x, LK_AXES(0, 2, 1, 3));
    if (s.dim[2] == heads || s.dim[2] < 1 || heads % s.dim[2]) return x;
    x = lk_broadcast_to(lk_expand_dims(x, 2), LK_SHAPE(s.dim[0], s.dim[2], heads / s.dim[2], s.dim[1], s.dim[3]));
    return lk_reshape(x, LK_SHAPE(s.dim[0], heads, s.dim[1], s.dim[3]));
}

OPERATION(dot_product_attention)
{
    lk_tensor *q = lki_arg_float(c, "query"), *k = lki_arg_float(c, "key"), *v = lki_arg_float(c, "value");
    if (lki_bad(q) || lki_bad(k) || lki_bad(v)) return &lki_poison;
    if (q->shape.rank != 4 || k->shape.rank != 4 || v->shape.rank != 4)
        return lki_arg_refuse(c, "query, key and value should be [rows, steps, heads, width]");
    if (lki_arg(c, "attn_logits_soft_cap")) return lki_arg_refuse(c, "attn_logits_soft_cap is given; only null is supported");
    const int64_t heads = q->shape.dim[2], steps = q->shape.dim[1], others = k->shape.dim[1];
    const double  scale = lki_arg_number(c, "scale", 1 / sqrt((double)k->shape.dim[3]));
    lk_tensor    *logits = times(lk_matmul(by_heads(q, heads), by_heads(k, heads), .transpose_b = LK_ON), scale);
    if (lki_arg(c, "bias")) logits = lk_add(logits, lki_arg_float(c, "bias"));
    if (lki_bad(logits)) return logits;
    lk_tensor *least = lki_like(logits, -0.7 * 3.4028234663852886e38);
    if (lki_arg(c, "mask")) logits = lk_where(lki_arg_truth(c, "mask"), logits, least);
    if (lki_arg_switch(c, "is_causal", false))
        logits = lk_where(lk_less_equal(lk_range(others, LK_I32), lk_reshape(lk_range(steps, LK_I32), LK_SHAPE(steps, 1))), logits,
                          least);
    return (lk_transpose)(lk_matmul(lk_softmax(logits), by_heads(v, heads)), LK_AXES(0, 2, 1, 3));
}

/* ---- cross-entropies ---- */

static lk_tensor *between(lk_tensor *x) { return lk_clip(x, 1e-7, 1 - 1e-7); }

OPERATION(binary_crossentropy)
{
    lk_tensor *t = lki_arg_float(c, "target"), *x = lki_arg_float(c, "output");
    if (lki_bad(t) || lki_bad(x)) return &lki_poison;
    if (lki_arg_switch(c, "from_logits", false)) return lk_sub(lk_softplus(x), lk_mul(x, t));
    x = between(x);
    lk_tensor *one = lki_like(x, 1);
    return lk_neg(lk_add(lk_mul(t, lk_log(x)), lk_mul(lk_sub(one, t), lk_log(lk_sub(one, x)))));
}

OPERATION(categorical_crossentropy)
{
    lk_tensor *t = lki_arg_float(c, "target"), *x = lki_arg_float(c, "output");
    const int  at = lki_bad(t) ? -1 : lki_arg_axis(c, "axis", x, -1);
    if (at < 0) return &lki_poison;
    if (lki_arg_switch(c, "from_logits", false)) x = lk_log_softmax(x, .axis = LK_AXIS(at));
    else x = lk_log(between(lk_div(x, lk_reduce_sum(x, .axis = LK_AXES(at), .keepdims = LK_ON))));
    return lk_neg(lk_reduce_sum(lk_mul(t, x), .axis = LK_AXES(at)));
}

OPERATION(sparse_categorical_crossentropy)
{
    lk_tensor *t = lki_arg_ids(c, "target"), *x = lki_arg_float(c, "output");
    const int  at = lki_bad(t) ? -1 : lki_arg_axis(c, "axis", x, -1);
    if (at < 0) return &lki_poison;
    if (at != x->shape.rank - 1) return lki_arg_refuse(c, "only the last axis is supported");
    if (t->shape.rank == x->shape.rank) t = (lk_squeeze)(t, LK_AXES(at));
    if (!lki_arg_switch(c, "from_logits", false)) x = lk_log(between(x));
    lk_tensor *picked = lk_mul(lk_one_hot(t, x->shape.dim[at]), lk_log_softmax(x));
    return lk_neg(lk_reduce_sum(picked, .axis = LK_AXES(at)));
}

/* True if fewer than k predictions are larger than that of the target. */
OPERATION(in_top_k)
{
    lk_tensor *t = lki_arg_ids(c, "targets"), *x = lki_arg_float(c, "predictions");
    if (lki_bad(t) || lki_bad(x)) return &lki_poison;
    if (x->shape.rank != 2) return lki_arg_refuse(c, "predictions should be [rows, classes]");
    lk_tensor *own = lk_reduce_sum(lk_mul(x, lk_one_hot(t, x->shape.dim[1])), .axis = LK_AXES(1), .keepdims = LK_ON);
    lk_tensor *larger = lk_reduce_sum(lk_cast(lk_greater(x, own), LK_I32), .axis = LK_AXES(1));
    return lki_bad(larger) ? larger : lk_less(larger, lki_like(larger, (double)lki_arg_whole(c, "k", 1)));
}

/* ---- pictures ---- */

OPERATION(rgb_to_grayscale)
{
    static const float SHARE[] = {0.2989f, 0.5870f, 0.1140f};
    lk_tensor         *x = lki_arg_float(c, "images");
    if (!directions(c, x)) return &lki_poison;
    if (x->shape.dim[x->shape.rank - 1] != 3) return lki_arg_refuse(c, "images should have 3 channels");
    lk_tensor *y = lk_mul(x, lk_cast(lk_tensor_from(LK_SHAPE(3), LK_F32, SHARE), x->dtype));
    return lk_reduce_sum(y, .axis = LK_AXES(x->shape.rank - 1), .keepdims = LK_ON);
}
