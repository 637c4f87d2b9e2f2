/* Layers as functions: dense, pooling over all cells, embedding, dropout; and what ends a layer with weights. */
#include "core/rounding.h"
#include "nn/finish.h"
#include "op/gradient.h"

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

/* A reshape in between would hide the logits that a probability was computed from. */
lk_tensor *lki_finish(lk_tensor *y, const lk_shape *shape, lk_tensor *bias, lk_activation activation)
{
    if (lki_bad(y) || !is_bias_of(bias, shape)) return &lki_poison;
    if (bias) y = lk_add(y, bias);
    if (lki_bad(y) || lki_shape_equal(&y->shape, shape)) return lk_activate(y, activation);
    if (activation == LK_SIGMOID || activation == LK_SOFTMAX) return lk_activate(lk_reshape(y, *shape), activation);
    return lk_reshape(lk_activate(y, activation), *shape);
}

/* ---- dense ---- */

lk_tensor *lk_nn_dense(lk_tensor *x, lk_tensor *kernel, lk_tensor *bias, lk_activation activation)
{
    char text[2][LKI_SHAPE_TEXT];
    if (!lki_usable("lk_nn_dense", "x", x) || !lki_usable("lk_nn_dense", "the kernel", kernel)) return &lki_poison;
    if (x->shape.rank <= 2) {
        lk_tensor *y = lk_matmul(x, kernel);
        return lki_finish(y, lki_bad(y) ? &x->shape : &y->shape, bias, activation);
    }
    if (kernel->shape.rank != 2)
        return lki_refuse(LK_ESHAPE, "lk_nn_dense: x %s and kernel %s: the kernel must be [in, out]",
                          lki_shape_text(&x->shape, text[0]), lki_shape_text(&kernel->shape, text[1]));
    lk_shape wide = x->shape;
    wide.dim[wide.rank - 1] = kernel->shape.dim[1];
    if (!is_bias_of(bias, &wide)) return &lki_poison;
    return lki_finish(lk_matmul(lk_reshape(x, LK_SHAPE(-1, x->shape.dim[x->shape.rank - 1])), kernel), &wide, bias, activation);
}

/* ---- pooling over all cells ---- */

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
