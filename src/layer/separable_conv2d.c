/* SeparableConv2D: each channel is convolved separately, then the channels of each cell are mixed by the pointwise kernel;
 * activation(that + bias). */
#include "layer/window.h"

enum { DEPTHWISE, POINTWISE, BIAS };

typedef struct separable {
    lk_layer          layer;
    lk_separable_args set; /* the size is in kernel_shape */
} separable;

static lk_status output(const lk_layer *l, const lk_shape *in, lk_shape *out)
{
    const lk_separable_args *a = &((const separable *)l)->set;
    lki_window               w;
    LKI_TRY(lki_layer_channels(l, 2, in, l->count ? l->weight[DEPTHWISE].variable->shape.dim[2] : -1));
    if (!lki_window_along("lk_separable_conv2d", 2, &w, a->kernel_shape, a->strides, a->dilation)) return LK_EINVAL;
    return lki_layer_window(l, &w, in, a->padding, a->filters, out);
}

static lk_status build(lk_layer *l, const lk_shape *in)
{
    const lk_separable_args *a = &((const separable *)l)->set;
    const lki_axes           size = lki_axes_of(a->kernel_shape);
    lki_weight               depthwise = LKI_WEIGHT(a, depthwise, lki_first_glorot_uniform);
    lki_weight               pointwise = LKI_WEIGHT(a, pointwise, lki_first_glorot_uniform);
    depthwise.name = "depthwise_kernel";
    pointwise.name = "pointwise_kernel";
    LKI_TRY(lki_layer_weight(l, depthwise, LK_SHAPE(size.value[0], size.value[1], in->dim[2], a->depth_multiplier)));
    LKI_TRY(lki_layer_weight(l, pointwise, LK_SHAPE(1, 1, lki_size_mul(in->dim[2], a->depth_multiplier), a->filters)));
    if (a->use_bias == LK_OFF) return LK_OK;
    return lki_layer_weight(l, LKI_WEIGHT(a, bias, lki_first_zeros), LK_SHAPE(a->filters));
}

static lk_tensor *call(lk_layer *l, lk_tensor *x, const lki_pass *pass)
{
    const lk_separable_args *a = &((const separable *)l)->set;
    (void)pass;
    return lk_nn_separable_conv2d(x, lki_layer_read(l, DEPTHWISE), l->count > BIAS ? lki_layer_read(l, BIAS) : NULL,
                                  .pointwise = lki_layer_read(l, POINTWISE), .strides = a->strides, .padding = a->padding,
                                  .dilation = a->dilation, .activation = a->activation);
}

static void *make(const void *args) { return lk_separable_conv2d_kw(*(const lk_separable_args *)args); }

static const lki_field FIELDS[] = {
    LKI_LAYER_FIELDS(lk_separable_args),
    LKI_FIELD(INTEGER, lk_separable_args, depth_multiplier, .standard = 1),
    LKI_FIELD(INT, lk_separable_args, filters, .required = true),
    LKI_FIELD_AS("kernel_size", AXES, lk_separable_args, kernel_shape, .width = 2, .required = true),
    LKI_FIELD(AXES, lk_separable_args, strides, .width = 2, .standard = 1),
    LKI_PADDING_FIELD(lk_separable_args),
    LKI_CHANNELS_LAST,
    LKI_FIELD_AS("dilation_rate", AXES, lk_separable_args, dilation, .width = 2, .standard = 1),
    LKI_ACTIVATION_FIELD(lk_separable_args, activation, LK_LINEAR),
    LKI_FIELD(SWITCH, lk_separable_args, use_bias, .standard = 1),
    LKI_INITIALIZER_FIELD(lk_separable_args, depthwise_initializer, "GlorotUniform"),
    LKI_INITIALIZER_FIELD(lk_separable_args, pointwise_initializer, "GlorotUniform"),
    LKI_INITIALIZER_FIELD(lk_separable_args, bias_initializer, "Zeros"),
    LKI_REGULARIZER_FIELD(lk_separable_args, depthwise_regularizer),
    LKI_REGULARIZER_FIELD(lk_separable_args, pointwise_regularizer),
    LKI_REGULARIZER_FIELD(lk_separable_args, bias_regularizer),
    LKI_REGULARIZER_FIELD(lk_separable_args, activity_regularizer),
    LKI_CONSTRAINT_FIELD(lk_separable_args, depthwise_constraint),
    LKI_CONSTRAINT_FIELD(lk_separable_args, pointwise_constraint),
    LKI_CONSTRAINT_FIELD(lk_separable_args, bias_constraint),
};

const lki_layer_kind lki_separable_conv2d_kind = {.name = "separable_conv2d",
                                                  LKI_LAYER_OF(separable, lk_separable_args, "SeparableConv2D", FIELDS),
                                                  .output = output,
                                                  .build = build,
                                                  .call = call};

lk_layer *lk_separable_conv2d_kw(lk_separable_args a)
{
    const char *call_name = "lk_separable_conv2d";
    lki_window  w;
    if (a.filters < 1)
        return lki_fail(LK_EINVAL, "%s: filters is %lld; it must be at least 1", call_name, (long long)a.filters), NULL;
    if (!lki_depth_fits(call_name, &a.depth_multiplier) || !lki_kernel_size(call_name, 2, &a.kernel_size, &a.kernel_shape) ||
        !lki_window_along(call_name, 2, &w, a.kernel_shape, a.strides, a.dilation) ||
        !lki_padding_fits(call_name, a.padding, false) || !lki_activation_fits(call_name, a.activation))
        return NULL;
    return lki_layer_new(call_name, &lki_separable_conv2d_kind, &a);
}
