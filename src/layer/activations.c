/* Activations as layers: Activation, ReLU, LeakyReLU, ELU, Softmax. Rows keep their shape, except under glu. */
#include "layer/axes.h"
#include "op/gradient.h"

/* ---- Activation ---- */

typedef struct activation {
    lk_layer                 layer;
    lk_activation_layer_args set;
} activation;

static lk_status output_activation(const lk_layer *l, const lk_shape *in, lk_shape *out)
{
    *out = *in;
    if (((const activation *)l)->set.activation != LK_GLU) return LK_OK;
    const int64_t width = in->rank ? in->dim[in->rank - 1] : 1;
    if (width >= 0 && width % 2) return lki_layer_refuse(l, in, "glu needs an even size of the last axis, to cut it in two halves");
    if (width >= 0) out->dim[out->rank - 1] = width / 2;
    return LK_OK;
}

static lk_tensor *call_activation(lk_layer *l, lk_tensor *x, const lki_pass *pass)
{
    (void)pass;
    return lk_activate(x, ((const activation *)l)->set.activation);
}

static void *make_activation(const void *args) { return lk_activation_layer_kw(*(const lk_activation_layer_args *)args); }

static const lki_field ACTIVATION_FIELDS[] = {LKI_LAYER_FIELDS(lk_activation_layer_args),
                                              LKI_ACTIVATION_FIELD(lk_activation_layer_args, activation, LK_LINEAR)};

#define KIND(title, T, A, class_, fields, ...)                                                                                     \
    const lki_layer_kind lki_##title##_kind = {                                                                                    \
        .class = {.name = class_, .module = "keras.layers", LKI_ARGS(A, fields), .make = make_##title},                            \
        .bytes = sizeof(T),                                                                                                        \
        .set = offsetof(T, set),                                                                                                   \
        .mask = lki_mask_passes,                                                                                                   \
        .call = call_##title,                                                                                                      \
        __VA_ARGS__}
KIND(activation, activation, lk_activation_layer_args, "Activation", ACTIVATION_FIELDS, .name = "activation",
     .output = output_activation);

lk_layer *lk_activation_layer_kw(lk_activation_layer_args a)
{
    if (a.activation == LK_ACTIVATION_DEFAULT) return lki_fail(LK_EINVAL, "lk_activation_layer: the activation is missing"), NULL;
    if (a.activation != LK_GLU && !lki_activation_fits("lk_activation_layer", a.activation)) return NULL;
    return lki_layer_new("lk_activation_layer", &lki_activation_kind, &a);
}

/* ---- ReLU ---- */

typedef struct relu {
    lk_layer           layer;
    lk_relu_layer_args set;
} relu;

/* x from the threshold on, at most max_value; below the threshold, negative_slope * (x - threshold). */
static lk_tensor *call_relu(lk_layer *l, lk_tensor *x, const lki_pass *pass)
{
    const lk_relu_layer_args *a = &((const relu *)l)->set;
    (void)pass;
    if (lki_bad(x)) return x;
    if (a->negative_slope != 0 && !lki_number_given(a->max_value) && a->threshold == 0) return lk_leaky_relu(x, a->negative_slope);
    lk_tensor *y = a->threshold != 0 ? lk_where(lk_greater(x, lki_like(x, a->threshold)), x, lki_like(x, 0)) : lk_relu(x);
    if (lki_number_given(a->max_value)) y = lk_clip(y, 0, lki_number(a->max_value));
    if (a->negative_slope == 0) return y;
    lk_tensor *below = lk_relu(lk_sub(lki_like(x, a->threshold), x));
    return lk_sub(y, lk_mul(below, lki_like(x, a->negative_slope)));
}

static void *make_relu(const void *args) { return lk_relu_layer_kw(*(const lk_relu_layer_args *)args); }

static const lki_field RELU_FIELDS[] = {
    LKI_LAYER_FIELDS(lk_relu_layer_args),
    LKI_FIELD(NUMBER, lk_relu_layer_args, max_value, .none = true),
    LKI_FIELD(REAL, lk_relu_layer_args, negative_slope),
    LKI_FIELD(REAL, lk_relu_layer_args, threshold),
};
KIND(relu, relu, lk_relu_layer_args, "ReLU", RELU_FIELDS, .name = "re_lu");

static bool not_negative(const char *call, const char *name, double value)
{
    if (value >= 0) return true;
    lki_fail(LK_EINVAL, "%s: %s is %g; it must be at least 0", call, name, value);
    return false;
}

lk_layer *lk_relu_layer_kw(lk_relu_layer_args a)
{
    if (!not_negative("lk_relu_layer", "max_value", lki_number(a.max_value)) ||
        !not_negative("lk_relu_layer", "negative_slope", a.negative_slope) ||
        !not_negative("lk_relu_layer", "threshold", a.threshold))
        return NULL;
    return lki_layer_new("lk_relu_layer", &lki_relu_kind, &a);
}

/* ---- LeakyReLU ---- */

typedef struct leaky_relu {
    lk_layer                 layer;
    lk_leaky_relu_layer_args set;
} leaky_relu;

static lk_tensor *call_leaky_relu(lk_layer *l, lk_tensor *x, const lki_pass *pass)
{
    (void)pass;
    return lk_leaky_relu(x, lki_number_or(((const leaky_relu *)l)->set.negative_slope, 0.3));
}

static void *make_leaky_relu(const void *args) { return lk_leaky_relu_layer_kw(*(const lk_leaky_relu_layer_args *)args); }

static const lki_field LEAKY_RELU_FIELDS[] = {LKI_LAYER_FIELDS(lk_leaky_relu_layer_args),
                                              LKI_FIELD(NUMBER, lk_leaky_relu_layer_args, negative_slope, .standard = 0.3)};
KIND(leaky_relu, leaky_relu, lk_leaky_relu_layer_args, "LeakyReLU", LEAKY_RELU_FIELDS, .name = "leaky_re_lu");

lk_layer *lk_leaky_relu_layer_kw(lk_leaky_relu_layer_args a)
{
    if (!not_negative("lk_leaky_relu_layer", "negative_slope", lki_number(a.negative_slope))) return NULL;
    return lki_layer_new("lk_leaky_relu_layer", &lki_leaky_relu_kind, &a);
}

/* ---- ELU ---- */

typedef struct elu {
    lk_layer          layer;
    lk_elu_layer_args set;
} elu;

static lk_tensor *call_elu(lk_layer *l, lk_tensor *x, const lki_pass *pass)
{
    (void)pass;
    return lk_elu(x, lki_number_or(((const elu *)l)->set.alpha, 1));
}

static void *make_elu(const void *args) { return lk_elu_layer_kw(*(const lk_elu_layer_args *)args); }

/* Keras does not write alpha to files. */
static const lki_field ELU_FIELDS[] = {LKI_LAYER_FIELDS(lk_elu_layer_args),
                                       LKI_FIELD(NUMBER, lk_elu_layer_args, alpha, .standard = 1)};
KIND(elu, elu, lk_elu_layer_args, "ELU", ELU_FIELDS, .name = "elu");

lk_layer *lk_elu_layer_kw(lk_elu_layer_args a) { return lki_layer_new("lk_elu_layer", &lki_elu_kind, &a); }

/* ---- Softmax ---- */

typedef struct softmax {
    lk_layer              layer;
    lk_softmax_layer_args set; /* axis is never empty */
} softmax;

bool lki_softmax_is_last(const lk_layer *l, int rank)
{
    const lki_axes axis = lki_axes_of(((const softmax *)l)->set.axis);
    return axis.count == 1 && lki_axis_normal(axis.value[0], rank + 1) == rank;
}

static lk_status output_softmax(const lk_layer *l, const lk_shape *in, lk_shape *out)
{
    const lki_axes axis = lki_axes_of(((const softmax *)l)->set.axis);
    lki_axes       axes;
    *out = *in;
    return lki_row_axes(l, in, "axis", &axis, &axes);
}

static lk_tensor *softmax_of(lk_tensor *x, lk_axes list)
{
    const lki_axes axis = lki_axes_of(list);
    if (axis.count == 1) return lk_softmax(x, .axis = LK_AXIS((int)axis.value[0]));
    return lk_exp(lk_sub(x, lk_reduce_logsumexp(x, .axis = list, .keepdims = LK_ON)));
}

static const char *const SOFTMAX_ARGUMENTS[] = {"inputs", "mask", NULL};

/* Entries where the mask, which is broadcast from the last axis on, is false get 0. */
static lk_tensor *call_softmax(lk_layer *l, lk_tensor *x, const lki_pass *pass)
{
    const lk_axes axis = ((const softmax *)l)->set.axis;
    lk_tensor    *mask = lki_mask_given(pass, 1);
    if (lki_bad(x) || !mask) return softmax_of(x, axis);
    x = lk_where(mask, x, lki_like(x, x->dtype == LK_F16 ? -3e4 : -1e9));
    return lk_where(mask, softmax_of(x, axis), lki_like(x, 0));
}

static void *make_softmax(const void *args) { return lk_softmax_layer_kw(*(const lk_softmax_layer_args *)args); }

static const lki_field SOFTMAX_FIELDS[] = {LKI_LAYER_FIELDS(lk_softmax_layer_args),
                                           LKI_FIELD(AXES, lk_softmax_layer_args, axis, .alone = true)};
KIND(softmax, softmax, lk_softmax_layer_args, "Softmax", SOFTMAX_FIELDS, .name = "softmax", .fewest = 1, .most = 2,
     .arguments = SOFTMAX_ARGUMENTS, .output = output_softmax);

lk_layer *lk_softmax_layer_kw(lk_softmax_layer_args a)
{
    const lki_axes axis = lki_axes_of(a.axis);
    if (axis.count < 0) return NULL; /* LK_AXES reported it */
    if (!axis.count) a.axis = -1;
    for (int i = 0; i < axis.count; i++)
        if (axis.value[i] == 0 || axis.value[i] == LKI_ZERO) /* LK_AXIS(0) */
            return lki_fail(LK_EINVAL, "lk_softmax_layer: axis 0 is the batch; rows are normalised one by one"), NULL;
    return lki_layer_new("lk_softmax_layer", &lki_softmax_kind, &a);
}
