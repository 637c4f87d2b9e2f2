/* Layers as functions: dense, convolutions, pooling, embedding, dropout. */
#include "core/rounding.h"
#include "op/gradient.h"
#include "op/product.h"
#include <lockstep/nn.h>

/* ---- activations ---- */

static lk_tensor *linear(lk_tensor *x) { return x; }
static lk_tensor *gelu(lk_tensor *x) { return lk_gelu(x, LK_OFF); }
static lk_tensor *gelu_tanh(lk_tensor *x) { return lk_gelu(x, LK_ON); }
static lk_tensor *elu(lk_tensor *x) { return lk_elu(x, 1); }
static lk_tensor *leaky_relu(lk_tensor *x) { return lk_leaky_relu(x, 0.2); }
static lk_tensor *softmax(lk_tensor *x) { return lk_softmax(x); }
static lk_tensor *celu(lk_tensor *x) { return lk_celu(x, 1); }
static lk_tensor *glu(lk_tensor *x) { return lk_glu(x, -1); }
static lk_tensor *hard_shrink(lk_tensor *x) { return lk_hard_shrink(x, 0.5); }
static lk_tensor *soft_shrink(lk_tensor *x) { return lk_soft_shrink(x, 0.5); }
static lk_tensor *sparsemax(lk_tensor *x) { return lk_sparsemax(x, -1); }
static lk_tensor *squareplus(lk_tensor *x) { return lk_squareplus(x, 4); }

/* Cross-entropies can use its operand, which is stored with the result. */
static lk_tensor *sigmoid(lk_tensor *x)
{
    lk_tensor *y = lk_sigmoid(x);
    if (lki_bad(y) || y->logits) return y;
    y->logits = lki_retain(x);
    y->of_sigmoid = true;
    return y;
}
static lk_tensor *log_softmax(lk_tensor *x) { return lk_log_softmax(x); }

lk_tensor *lk_activate(lk_tensor *x, lk_activation activation)
{
    static lk_tensor *(*const functions[LK_ACTIVATION_COUNT])(lk_tensor *) = {
        [LK_ACTIVATION_DEFAULT] = linear,
        [LK_LINEAR] = linear,
        [LK_RELU] = lk_relu,
        [LK_RELU6] = lk_relu6,
        [LK_GELU] = gelu,
        [LK_GELU_TANH] = gelu_tanh,
        [LK_SIGMOID] = sigmoid,
        [LK_TANH] = lk_tanh,
        [LK_SOFTPLUS] = lk_softplus,
        [LK_SOFTSIGN] = lk_softsign,
        [LK_ELU] = elu,
        [LK_SELU] = lk_selu,
        [LK_LEAKY_RELU] = leaky_relu,
        [LK_SWISH] = lk_swish,
        [LK_HARD_SIGMOID] = lk_hard_sigmoid,
        [LK_MISH] = lk_mish,
        [LK_EXPONENTIAL] = lk_exp,
        [LK_SOFTMAX] = softmax,
        [LK_LOG_SOFTMAX] = log_softmax,
        [LK_CELU] = celu,
        [LK_GLU] = glu,
        [LK_HARD_SHRINK] = hard_shrink,
        [LK_HARD_SILU] = lk_hard_silu,
        [LK_HARD_TANH] = lk_hard_tanh,
        [LK_LOG_SIGMOID] = lk_log_sigmoid,
        [LK_SOFT_SHRINK] = soft_shrink,
        [LK_SPARSE_PLUS] = lk_sparse_plus,
        [LK_SPARSE_SIGMOID] = lk_sparse_sigmoid,
        [LK_SPARSEMAX] = sparsemax,
        [LK_SQUAREPLUS] = squareplus,
        [LK_TANH_SHRINK] = lk_tanh_shrink,
    };
    if ((unsigned)activation >= LK_ACTIVATION_COUNT)
        return lki_refuse(LK_EINVAL, "lk_activate: there is no activation %d", (int)activation);
    return lki_usable("lk_activate", "x", x) ? functions[activation](x) : &lki_poison;
}

/* True if it has one value per output of `shape`, or is poisoned and was reported before. */
static bool is_bias_of(const lk_tensor *bias, const lk_shape *shape)
{
    char    text[LKI_SHAPE_TEXT], of[LKI_SHAPE_TEXT];
    int64_t outputs = shape->rank ? shape->dim[shape->rank - 1] : -1;
    if (outputs < 0 || lki_bad(bias) || (bias->shape.rank == 1 && bias->shape.dim[0] == outputs)) return true;
    lki_fail(LK_ESHAPE, "a bias of %s cannot be added to %s; it should be [%lld], one value per output",
             lki_shape_text(&bias->shape, text), lki_shape_text(shape, of), (long long)outputs);
    return false;
}

static lk_tensor *finish(lk_tensor *y, lk_tensor *bias, lk_activation activation)
{
    if (!lki_bad(y) && !is_bias_of(bias, &y->shape)) return &lki_poison;
    return lk_activate(bias ? lk_add(y, bias) : y, activation);
}

/* ---- dense ---- */

lk_tensor *lk_nn_dense(lk_tensor *x, lk_tensor *kernel, lk_tensor *bias, lk_activation activation)
{
    char text[2][LKI_SHAPE_TEXT];
    if (!lki_usable("lk_nn_dense", "x", x) || !lki_usable("lk_nn_dense", "the kernel", kernel)) return &lki_poison;
    if (x->shape.rank <= 2) return finish(lk_matmul(x, kernel), bias, activation);
    if (kernel->shape.rank != 2)
        return lki_refuse(LK_ESHAPE, "lk_nn_dense: x %s and kernel %s: the kernel must be [in, out]",
                          lki_shape_text(&x->shape, text[0]), lki_shape_text(&kernel->shape, text[1]));
    lk_shape wide = x->shape;
    wide.dim[wide.rank - 1] = kernel->shape.dim[1];
    if (!is_bias_of(bias, &wide)) return &lki_poison;
    /* The bias, and most activations, directly follow the product, so that a compiled step can fuse them. A reshape in between
     * would hide the logits that a probability was computed from. */
    const bool remembers = activation == LK_SIGMOID || activation == LK_SOFTMAX;
    lk_tensor *y = lk_matmul(lk_reshape(x, LK_SHAPE(-1, x->shape.dim[x->shape.rank - 1])), kernel);
    y = lk_reshape(finish(y, bias, remembers ? LK_LINEAR : activation), wide);
    return remembers ? lk_activate(y, activation) : y;
}

/* ---- convolutions ---- */

static bool conv_operands(const char *call, const lk_conv_args *a)
{
    if (!a->x || !a->kernel) lki_fail(LK_EINVAL, "%s: %s is missing", call, a->x ? "kernel" : "x");
    if (lki_bad(a->x) || lki_bad(a->kernel)) return false;
    if (a->x->shape.rank == 4 && a->kernel->shape.rank == 4) return true;
    char x[LKI_SHAPE_TEXT], k[LKI_SHAPE_TEXT];
    return lki_fail(LK_ESHAPE, "%s: x %s and kernel %s must have rank 4: [n, height, width, channels] and [height, width, in, out]",
                    call, lki_shape_text(&a->x->shape, x), lki_shape_text(&a->kernel->shape, k)),
           false;
}

static bool no_pointwise(const char *call, const lk_conv_args *a)
{
    if (a->pointwise) lki_fail(LK_EINVAL, "%s: pointwise is for lk_nn_separable_conv2d", call);
    return !a->pointwise;
}

static lk_tensor *convolve(const char *call, lki_op op, const lk_conv_args *a, bool causal_allowed)
{
    lki_window w;
    if (!conv_operands(call, a) || !lki_window_of(call, &w, a->kernel->shape.dim, a->strides, a->dilation)) return &lki_poison;
    if (!lki_padding_fits(call, a->padding, causal_allowed)) return &lki_poison;
    const lk_shape *k = &a->kernel->shape;
    int64_t         channels = op == LKI_OP_depthwise ? lki_size_mul(k->dim[2], k->dim[3]) : k->dim[3];
    lk_shape        y = lki_window_output(&w, &a->x->shape, a->padding, channels);
    return lki_conv2d(op, &w, y, a->x, a->kernel);
}

lk_tensor *lk_nn_conv2d_kw(lk_conv_args a)
{
    if (!no_pointwise("lk_nn_conv2d", &a)) return &lki_poison;
    return finish(convolve("lk_nn_conv2d", LKI_OP_conv2d, &a, false), a.bias, a.activation);
}

lk_tensor *lk_nn_depthwise_conv2d_kw(lk_conv_args a)
{
    if (!no_pointwise("lk_nn_depthwise_conv2d", &a)) return &lki_poison;
    return finish(convolve("lk_nn_depthwise_conv2d", LKI_OP_depthwise, &a, false), a.bias, a.activation);
}

lk_tensor *lk_nn_separable_conv2d_kw(lk_conv_args a)
{
    if (!a.pointwise) return lki_refuse(LK_EINVAL, "lk_nn_separable_conv2d: the pointwise kernel is missing");
    lk_conv_args point = {.x = convolve("lk_nn_separable_conv2d", LKI_OP_depthwise, &a, false), .kernel = a.pointwise};
    return finish(convolve("lk_nn_separable_conv2d", LKI_OP_conv2d, &point, false), a.bias, a.activation);
}

static bool one_value(const char *call, const char *name, lk_axes list)
{
    const lki_axes given = lki_axes_of(list);
    if (given.count == 0 || given.count == 1) return true;
    lki_fail(LK_EINVAL, "%s: %s has %d values; in one dimension it is one", call, name, given.count);
    return false;
}

/* A row of cells is an image of height 1. */
static lk_axes along_width(lk_axes given)
{
    const lki_axes list = lki_axes_of(given);
    return list.count ? LK_AXES(1, list.value[0]) : given;
}

lk_tensor *lk_nn_conv1d_kw(lk_conv_args a)
{
    if (!no_pointwise("lk_nn_conv1d", &a)) return &lki_poison;
    if (!a.x || !a.kernel) lki_fail(LK_EINVAL, "lk_nn_conv1d: %s is missing", a.x ? "kernel" : "x");
    if (lki_bad(a.x) || lki_bad(a.kernel)) return &lki_poison;
    char x[LKI_SHAPE_TEXT], k[LKI_SHAPE_TEXT];
    if (a.x->shape.rank != 3 || a.kernel->shape.rank != 3)
        return lki_refuse(LK_ESHAPE, "lk_nn_conv1d: x %s and kernel %s must be [n, steps, in] and [size, in, out]",
                          lki_shape_text(&a.x->shape, x), lki_shape_text(&a.kernel->shape, k));
    if (!one_value("lk_nn_conv1d", "strides", a.strides) || !one_value("lk_nn_conv1d", "dilation", a.dilation)) return &lki_poison;
    lk_conv_args flat = a;
    flat.x = lk_expand_dims(a.x, 1);
    flat.kernel = lk_expand_dims(a.kernel, 0);
    flat.strides = along_width(a.strides);
    flat.dilation = along_width(a.dilation);
    return finish(lk_squeeze(convolve("lk_nn_conv1d", LKI_OP_conv2d, &flat, true), LK_AXES(1)), a.bias, a.activation);
}

/* The gradient of a convolution for its input: kernel [height, width, out, in]. */
lk_tensor *lk_nn_conv2d_transpose_kw(lk_conv_args a)
{
    if (!no_pointwise("lk_nn_conv2d_transpose", &a)) return &lki_poison;
    lki_window w;
    if (!conv_operands("lk_nn_conv2d_transpose", &a) ||
        !lki_window_of("lk_nn_conv2d_transpose", &w, a.kernel->shape.dim, a.strides, a.dilation))
        return &lki_poison;
    if (!lki_padding_fits("lk_nn_conv2d_transpose", a.padding, false)) return &lki_poison;
    lk_shape y = lki_window_input(&w, &a.x->shape, a.padding, a.kernel->shape.dim[2]);
    return finish(lki_conv2d(LKI_OP_conv2d_grad_x, &w, y, a.x, a.kernel), a.bias, a.activation);
}

/* ---- pooling ---- */

static lk_tensor *pool2d(const char *call, lki_op op, lk_pool_args a)
{
    lki_window w;
    if (!a.x) lki_fail(LK_EINVAL, "%s: x is missing", call);
    if (lki_bad(a.x) || !lki_pool_window(call, &w, a.size, a.strides) || !lki_padding_fits(call, a.padding, false))
        return &lki_poison;
    char text[LKI_SHAPE_TEXT];
    if (a.x->shape.rank != 4)
        return lki_refuse(LK_ESHAPE, "%s: x is %s; it should be [n, height, width, channels]", call,
                          lki_shape_text(&a.x->shape, text));
    lk_shape y = lki_window_output(&w, &a.x->shape, a.padding, a.x->shape.dim[3]);
    if (y.dim[1] < 1 || y.dim[2] < 1)
        return lki_refuse(LK_ESHAPE, "%s: a window of %lld x %lld does not fit into x %s; use LK_SAME or a smaller one", call,
                          (long long)w.size[0], (long long)w.size[1], lki_shape_text(&a.x->shape, text));
    return lki_pool(op, &w, y, a.x);
}

static lk_tensor *pool1d(const char *call, lki_op op, lk_pool_args a)
{
    if (!a.x) lki_fail(LK_EINVAL, "%s: x is missing", call);
    if (lki_bad(a.x)) return &lki_poison;
    char text[LKI_SHAPE_TEXT];
    if (a.x->shape.rank != 3)
        return lki_refuse(LK_ESHAPE, "%s: x is %s; it should be [n, steps, channels]", call, lki_shape_text(&a.x->shape, text));
    if (!one_value(call, "size", a.size) || !one_value(call, "strides", a.strides)) return &lki_poison;
    a.x = lk_expand_dims(a.x, 1);
    if (!a.size) a.size = 2;
    a.strides = along_width(a.strides ? a.strides : a.size);
    a.size = along_width(a.size);
    return lk_squeeze(pool2d(call, op, a), LK_AXES(1));
}

lk_tensor *lk_nn_max_pool2d_kw(lk_pool_args a) { return pool2d("lk_nn_max_pool2d", LKI_OP_max_pool, a); }
lk_tensor *lk_nn_avg_pool2d_kw(lk_pool_args a) { return pool2d("lk_nn_avg_pool2d", LKI_OP_avg_pool, a); }
lk_tensor *lk_nn_max_pool1d_kw(lk_pool_args a) { return pool1d("lk_nn_max_pool1d", LKI_OP_max_pool, a); }
lk_tensor *lk_nn_avg_pool1d_kw(lk_pool_args a) { return pool1d("lk_nn_avg_pool1d", LKI_OP_avg_pool, a); }

/* All axes between the rows and the channels. */
static lk_axes middle(const lk_tensor *x)
{
    lki_axes axes = {0};
    for (int i = 1; i < x->shape.rank - 1; i++)
        axes.value[axes.count++] = i;
    return lki_axes_list(&axes);
}

static bool global_operand(const char *call, const lk_tensor *x)
{
    char text[LKI_SHAPE_TEXT];
    if (!lki_usable(call, "x", x)) return false;
    if (x->shape.rank < 3)
        lki_fail(LK_ESHAPE, "%s: x is %s; it should be [n, ..., channels], with something to pool between", call,
                 lki_shape_text(&x->shape, text));
    return x->shape.rank >= 3;
}

lk_tensor *lk_nn_global_max_pool(lk_tensor *x)
{
    return global_operand("lk_nn_global_max_pool", x) ? lk_reduce_max(x, .axis = middle(x)) : &lki_poison;
}

lk_tensor *lk_nn_global_avg_pool(lk_tensor *x)
{
    return global_operand("lk_nn_global_avg_pool", x) ? lk_reduce_mean(x, .axis = middle(x)) : &lki_poison;
}

/* ---- the rest ---- */

lk_tensor *lk_nn_embedding(lk_tensor *ids, lk_tensor *table)
{
    return lki_usable("lk_nn_embedding", "the table", table) ? lk_gather(table, ids, 0) : &lki_poison;
}

lk_tensor *lk_nn_dropout_kw(lk_dropout_args a)
{
    LKI_NEAREST;
    if (!a.x) lki_fail(LK_EINVAL, "lk_nn_dropout: x is missing");
    if (lki_bad(a.x)) return &lki_poison;
    if (!(a.rate >= 0 && a.rate < 1))
        return lki_refuse(LK_EINVAL, "lk_nn_dropout: the rate is %g; it must be at least 0 and below 1", a.rate);
    if (a.x->shape.rank < 1) return lki_refuse(LK_ESHAPE, "lk_nn_dropout: x needs a leading axis");
    lk_shape row = {.rank = a.x->shape.rank - 1};
    for (int i = 0; i < row.rank; i++)
        row.dim[i] = a.x->shape.dim[i + 1];
    lk_tensor *draw = lk_random_uniform(row, .stream = a.stream, .iteration = a.iteration, .call = a.call, .rows_of = a.x);
    lk_tensor *kept = lk_greater_equal(draw, lki_like(draw, a.rate));
    return lk_where(kept, lk_mul(a.x, lki_like(a.x, 1 / (1 - a.rate))), lki_like(a.x, 0));
}
