/* Layers as functions: dense, convolutions, pooling, embedding, dropout. */
#include "op/gradient.h"
#include "op/product.h"
#include <lockstep/nn.h>

static lk_tensor *refuse(lk_status code, const char *message)
{
    lki_fail(code, "%s", message);
    return &lki_poison;
}

/* ---- activations ---- */

static lk_tensor *linear(lk_tensor *x) { return x; }
static lk_tensor *gelu(lk_tensor *x) { return lk_gelu(x, LK_OFF); }
static lk_tensor *gelu_tanh(lk_tensor *x) { return lk_gelu(x, LK_ON); }
static lk_tensor *elu(lk_tensor *x) { return lk_elu(x, 1); }
static lk_tensor *leaky_relu(lk_tensor *x) { return lk_leaky_relu(x, 0.2); }
static lk_tensor *softmax(lk_tensor *x) { return lk_softmax(x); }
static lk_tensor *log_softmax(lk_tensor *x) { return lk_log_softmax(x); }

lk_tensor *lk_activate(lk_tensor *x, lk_activation activation)
{
    static lk_tensor *(*const functions[LK_ACTIVATION_COUNT])(lk_tensor *) = {
        [LK_LINEAR] = linear,          [LK_RELU] = lk_relu,         [LK_RELU6] = lk_relu6,       [LK_GELU] = gelu,
        [LK_GELU_TANH] = gelu_tanh,    [LK_SIGMOID] = lk_sigmoid,   [LK_TANH] = lk_tanh,         [LK_SOFTPLUS] = lk_softplus,
        [LK_SOFTSIGN] = lk_softsign,   [LK_ELU] = elu,              [LK_SELU] = lk_selu,         [LK_LEAKY_RELU] = leaky_relu,
        [LK_SWISH] = lk_swish,         [LK_HARD_SIGMOID] = lk_hard_sigmoid, [LK_MISH] = lk_mish, [LK_EXPONENTIAL] = lk_exp,
        [LK_SOFTMAX] = softmax,        [LK_LOG_SOFTMAX] = log_softmax,
    };
    if ((unsigned)activation >= LK_ACTIVATION_COUNT) return refuse(LK_EINVAL, "lk_activate: there is no such activation");
    return lki_bad(x) ? &lki_poison : functions[activation](x);
}

static lk_tensor *finish(lk_tensor *y, lk_tensor *bias, lk_activation activation)
{
    return lk_activate(bias ? lk_add(y, bias) : y, activation);
}

/* ---- dense ---- */

lk_tensor *lk_nn_dense(lk_tensor *x, lk_tensor *kernel, lk_tensor *bias, lk_activation activation)
{
    if (lki_bad(x) || lki_bad(kernel)) return &lki_poison;
    if (x->shape.rank <= 2) return finish(lk_matmul(x, kernel), bias, activation);
    if (kernel->shape.rank != 2) return refuse(LK_ESHAPE, "lk_nn_dense: the kernel must be [in, out]");
    lk_shape   wide = x->shape;
    lk_tensor *y = lk_matmul(lk_reshape(x, LK_SHAPE(-1, x->shape.dim[x->shape.rank - 1])), kernel);
    wide.dim[wide.rank - 1] = kernel->shape.dim[1];
    return finish(lk_reshape(y, wide), bias, activation);
}

/* ---- convolutions ---- */

static bool conv_operands(const char *call, const lk_conv_args *a)
{
    if (!a->x || !a->kernel) lki_fail(LK_EINVAL, "%s: %s is missing", call, a->x ? "kernel" : "x");
    if (lki_bad(a->x) || lki_bad(a->kernel)) return false;
    if (a->x->shape.rank == 4 && a->kernel->shape.rank == 4) return true;
    char x[LKI_SHAPE_TEXT], k[LKI_SHAPE_TEXT];
    lki_fail(LK_ESHAPE, "%s: x %s and kernel %s must have rank 4: [n, height, width, channels] and [height, width, in, out]", call,
             lki_shape_text(&a->x->shape, x), lki_shape_text(&a->kernel->shape, k));
    return false;
}

static lk_tensor *convolve(const char *call, lki_op op, const lk_conv_args *a, bool causal_allowed)
{
    lki_window w;
    if (!conv_operands(call, a) || !lki_window_of(call, &w, a->kernel->shape.dim, &a->strides, &a->dilation)) return &lki_poison;
    if (a->padding == LK_CAUSAL && !causal_allowed) return refuse(LK_EINVAL, "LK_CAUSAL padding is for one dimension; use LK_SAME or LK_VALID");
    const lk_shape *k = &a->kernel->shape;
    int64_t         channels = op == LKI_OP_depthwise ? k->dim[2] * k->dim[3] : k->dim[3];
    lk_shape        y = lki_window_output(&w, &a->x->shape, a->padding, channels);
    return lki_conv2d(op, &w, y, a->x, a->kernel);
}

lk_tensor *lk_nn_conv2d_kw(lk_conv_args a)
{
    return finish(convolve("lk_nn_conv2d", LKI_OP_conv2d, &a, false), a.bias, a.activation);
}

lk_tensor *lk_nn_depthwise_conv2d_kw(lk_conv_args a)
{
    return finish(convolve("lk_nn_depthwise_conv2d", LKI_OP_depthwise, &a, false), a.bias, a.activation);
}

lk_tensor *lk_nn_separable_conv2d_kw(lk_conv_args a)
{
    lk_conv_args point = {.x = convolve("lk_nn_separable_conv2d", LKI_OP_depthwise, &a, false), .kernel = a.pointwise};
    return finish(convolve("lk_nn_separable_conv2d", LKI_OP_conv2d, &point, false), a.bias, a.activation);
}

/* A row of cells is an image of height 1. */
lk_tensor *lk_nn_conv1d_kw(lk_conv_args a)
{
    if (!a.x || !a.kernel) lki_fail(LK_EINVAL, "lk_nn_conv1d: %s is missing", a.x ? "kernel" : "x");
    if (lki_bad(a.x) || lki_bad(a.kernel)) return &lki_poison;
    if (a.x->shape.rank != 3 || a.kernel->shape.rank != 3) return refuse(LK_ESHAPE, "lk_nn_conv1d: x must be [n, steps, in], the kernel [size, in, out]");
    lk_conv_args flat = a;
    flat.x = lk_expand_dims(a.x, 1);
    flat.kernel = lk_expand_dims(a.kernel, 0);
    flat.strides = a.strides.count ? LK_AXES(1, a.strides.value[0]) : a.strides;
    flat.dilation = a.dilation.count ? LK_AXES(1, a.dilation.value[0]) : a.dilation;
    return finish(lk_squeeze(convolve("lk_nn_conv1d", LKI_OP_conv2d, &flat, true), LK_AXES(1)), a.bias, a.activation);
}

/* The gradient of a convolution for its input: kernel [height, width, out, in]. */
lk_tensor *lk_nn_conv2d_transpose_kw(lk_conv_args a)
{
    lki_window w;
    if (!conv_operands("lk_nn_conv2d_transpose", &a) || !lki_window_of("lk_nn_conv2d_transpose", &w, a.kernel->shape.dim, &a.strides, &a.dilation)) return &lki_poison;
    lk_shape y = lki_window_input(&w, &a.x->shape, a.padding, a.kernel->shape.dim[2]);
    return finish(lki_conv2d(LKI_OP_conv2d_grad_x, &w, y, a.x, a.kernel), a.bias, a.activation);
}

/* ---- pooling ---- */

static lk_tensor *pool2d(const char *call, lki_op op, lk_pool_args a)
{
    lki_window w;
    if (!a.x) lki_fail(LK_EINVAL, "%s: x is missing", call);
    if (lki_bad(a.x) || !lki_pool_window(call, &w, &a.size, &a.strides)) return &lki_poison;
    if (a.x->shape.rank != 4) return refuse(LK_ESHAPE, "pooling takes [n, height, width, channels]");
    lk_shape y = lki_window_output(&w, &a.x->shape, a.padding, a.x->shape.dim[3]);
    if (y.dim[1] < 1 || y.dim[2] < 1) return refuse(LK_ESHAPE, "pooling: the window is larger than the image");
    return lki_pool(op, &w, y, a.x);
}

static lk_tensor *pool1d(const char *call, lki_op op, lk_pool_args a)
{
    if (!a.x) lki_fail(LK_EINVAL, "%s: x is missing", call);
    if (lki_bad(a.x)) return &lki_poison;
    if (a.x->shape.rank != 3) return refuse(LK_ESHAPE, "one-dimensional pooling takes [n, steps, channels]");
    a.x = lk_expand_dims(a.x, 1);
    a.size = LK_AXES(1, a.size.count ? a.size.value[0] : 2);
    a.strides = LK_AXES(1, a.strides.count ? a.strides.value[0] : a.size.value[1]);
    return lk_squeeze(pool2d(call, op, a), LK_AXES(1));
}

lk_tensor *lk_nn_max_pool2d_kw(lk_pool_args a) { return pool2d("lk_nn_max_pool2d", LKI_OP_max_pool, a); }
lk_tensor *lk_nn_avg_pool2d_kw(lk_pool_args a) { return pool2d("lk_nn_avg_pool2d", LKI_OP_avg_pool, a); }
lk_tensor *lk_nn_max_pool1d_kw(lk_pool_args a) { return pool1d("lk_nn_max_pool1d", LKI_OP_max_pool, a); }
lk_tensor *lk_nn_avg_pool1d_kw(lk_pool_args a) { return pool1d("lk_nn_avg_pool1d", LKI_OP_avg_pool, a); }

/* All axes between the rows and the channels. */
static lk_axes middle(const lk_tensor *x)
{
    lk_axes axes = {0};
    for (int i = 1; i < x->shape.rank - 1; i++) axes.value[axes.count++] = i;
    return axes;
}

lk_tensor *lk_nn_global_max_pool(lk_tensor *x)
{
    if (lki_bad(x)) return &lki_poison;
    return x->shape.rank < 3 ? refuse(LK_ESHAPE, "global pooling takes [n, ..., channels]") : lk_reduce_max(x, .axis = middle(x));
}

lk_tensor *lk_nn_global_avg_pool(lk_tensor *x)
{
    if (lki_bad(x)) return &lki_poison;
    return x->shape.rank < 3 ? refuse(LK_ESHAPE, "global pooling takes [n, ..., channels]") : lk_reduce_mean(x, .axis = middle(x));
}

/* ---- the rest ---- */

lk_tensor *lk_nn_embedding(lk_tensor *ids, lk_tensor *table)
{
    return lk_gather(table, ids, 0);
}

lk_tensor *lk_nn_dropout_kw(lk_dropout_args a)
{
    if (!a.x) lki_fail(LK_EINVAL, "lk_nn_dropout: x is missing");
    if (lki_bad(a.x)) return &lki_poison;
    if (!(a.rate >= 0 && a.rate < 1)) return refuse(LK_EINVAL, "lk_nn_dropout: the rate must be at least 0 and below 1");
    if (a.x->shape.rank < 1) return refuse(LK_ESHAPE, "lk_nn_dropout: x needs a leading axis");
    lk_shape row = {.rank = a.x->shape.rank - 1};
    for (int i = 0; i < row.rank; i++) row.dim[i] = a.x->shape.dim[i + 1];
    lk_tensor *draw = lk_random_uniform(row, .stream = a.stream, .iteration = a.iteration, .call = a.call, .rows_of = a.x);
    lk_tensor *kept = lk_greater_equal(draw, lki_like(draw, a.rate));
    return lk_where(kept, lk_mul(a.x, lki_like(a.x, 1 / (1 - a.rate))), lki_like(a.x, 0));
}
