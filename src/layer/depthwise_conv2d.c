/* DepthwiseConv2D: each channel is convolved separately, with depth_multiplier kernels; activation(all of them side by side +
 * bias). */
#include "layer/window.h"

enum { KERNEL, BIAS };

typedef struct depthwise {
    lk_layer          layer;
    lk_depthwise_args set; /* the size is in kernel_shape */
} depthwise;

static lk_status output(const lk_layer *l, const lk_shape *in, lk_shape *out)
{
    const lk_depthwise_args *a = &((const depthwise *)l)->set;
    lki_window               w;
    LKI_TRY(lki_layer_channels(l, 2, in, l->count ? l->weight[KERNEL].variable->shape.dim[2] : -1));
    if (!lki_window_along("lk_depthwise_conv2d", 2, &w, a->kernel_shape, a->strides, a->dilation)) return LK_EINVAL;
    return lki_layer_window(l, &w, in, a->padding, lki_size_mul(in->dim[2], a->depth_multiplier), out);
}

static lk_status build(lk_layer *l, const lk_shape *in)
{
    const lk_depthwise_args *a = &((const depthwise *)l)->set;
    const lki_axes           size = lki_axes_of(a->kernel_shape);
    lki_weight               kernel = LKI_WEIGHT(a, depthwise, lki_first_glorot_uniform);
    kernel.name = "kernel";
    LKI_TRY(lki_layer_weight(l, kernel, LK_SHAPE(size.value[0], size.value[1], in->dim[2], a->depth_multiplier)));
    if (a->use_bias == LK_OFF) return LK_OK;
    return lki_layer_weight(l, LKI_WEIGHT(a, bias, lki_first_zeros), LK_SHAPE(lki_size_mul(in->dim[2], a->depth_multiplier)));
}

static lk_tensor *call(lk_layer *l, lk_tensor *x, const lki_pass *pass)
{
    const lk_depthwise_args *a = &((const depthwise *)l)->set;
    (void)pass;
    return lk_nn_depthwise_conv2d(x, lki_layer_read(l, KERNEL), l->count > BIAS ? lki_layer_read(l, BIAS) : NULL,
                                  .strides = a->strides, .padding = a->padding, .dilation = a->dilation,
                                  .activation = a->activation);
}

static void *make(const void *args) { return lk_depthwise_conv2d_kw(*(const lk_depthwise_args *)args); }

static const lki_field FIELDS[] = {
    LKI_LAYER_FIELDS(lk_depthwise_args),
    LKI_FIELD(INTEGER, lk_depthwise_args, depth_multiplier, .standard = 1),
    LKI_FIELD_AS("kernel_size", AXES, lk_depthwise_args, kernel_shape, .width = 2, .required = true),
    LKI_FIELD(AXES, lk_depthwise_args, strides, .width = 2, .standard = 1),
    LKI_PADDING_FIELD(lk_depthwise_args),
    LKI_CHANNELS_LAST,
    LKI_FIELD_AS("dilation_rate", AXES, lk_depthwise_args, dilation, .width = 2, .standard = 1),
    LKI_ACTIVATION_FIELD(lk_depthwise_args, activation, LK_LINEAR),
    LKI_FIELD(SWITCH, lk_depthwise_args, use_bias, .standard = 1),
    LKI_INITIALIZER_FIELD(lk_depthwise_args, depthwise_initializer, "GlorotUniform"),
    LKI_INITIALIZER_FIELD(lk_depthwise_args, bias_initializer, "Zeros"),
    LKI_REGULARIZER_FIELD(lk_depthwise_args, depthwise_regularizer),
    LKI_REGULARIZER_FIELD(lk_depthwise_args, bias_regularizer),
    LKI_REGULARIZER_FIELD(lk_depthwise_args, activity_regularizer),
    LKI_CONSTRAINT_FIELD(lk_depthwise_args, depthwise_constraint),
    LKI_CONSTRAINT_FIELD(lk_depthwise_args, bias_constraint),
};

const lki_layer_kind lki_depthwise_conv2d_kind = {.name = "depthwise_conv2d",
                                                  LKI_LAYER_OF(depthwise, lk_depthwise_args, "DepthwiseConv2D", FIELDS),
                                                  .output = output,
                                                  .build = build,
                                                  .call = call};

lk_layer *lk_depthwise_conv2d_kw(lk_depthwise_args a)
{
    const char *call_name = "lk_depthwise_conv2d";
    lki_window  w;
    if (!lki_depth_fits(call_name, &a.depth_multiplier) || !lki_kernel_size(call_name, 2, &a.kernel_size, &a.kernel_shape) ||
        !lki_window_along(call_name, 2, &w, a.kernel_shape, a.strides, a.dilation) ||
        !lki_padding_fits(call_name, a.padding, false) || !lki_activation_fits(call_name, a.activation))
        return NULL;
    return lki_layer_new(call_name, &lki_depthwise_conv2d_kind, &a);
}
