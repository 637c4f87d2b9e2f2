/* Conv1D: activation(convolution of x with the kernel along the steps + bias). LK_CAUSAL pads in front, so that no step sees later
 * ones. */
#include "layer/window.h"

enum { KERNEL, BIAS };

typedef struct conv1d {
    lk_layer           layer;
    lk_conv_layer_args set; /* the size is in kernel_shape */
} conv1d;

static lk_status output(const lk_layer *l, const lk_shape *in, lk_shape *out)
{
    const lk_conv_layer_args *a = &((const conv1d *)l)->set;
    lki_window                w;
    LKI_TRY(lki_layer_channels(l, 1, in, l->count ? l->weight[KERNEL].variable->shape.dim[1] : -1));
    if (!lki_window_along("lk_conv1d", 1, &w, a->kernel_shape, a->strides, a->dilation)) return LK_EINVAL;
    return lki_layer_window(l, &w, in, a->padding, a->filters, out);
}

static lk_status build(lk_layer *l, const lk_shape *in)
{
    const lk_conv_layer_args *a = &((const conv1d *)l)->set;
    const int64_t             length = lki_axes_of(a->kernel_shape).value[0];
    LKI_TRY(lki_layer_weight(l, LKI_WEIGHT(a, kernel, lki_first_glorot_uniform), LK_SHAPE(length, in->dim[1], a->filters)));
    if (a->use_bias == LK_OFF) return LK_OK;
    return lki_layer_weight(l, LKI_WEIGHT(a, bias, lki_first_zeros), LK_SHAPE(a->filters));
}

static lk_tensor *call(lk_layer *l, lk_tensor *x, const lki_pass *pass)
{
    const lk_conv_layer_args *a = &((const conv1d *)l)->set;
    (void)pass;
    return lk_nn_conv1d(x, lki_layer_read(l, KERNEL), l->count > BIAS ? lki_layer_read(l, BIAS) : NULL, .strides = a->strides,
                        .padding = a->padding, .dilation = a->dilation, .activation = a->activation);
}

static void *make(const void *args) { return lk_conv1d_kw(*(const lk_conv_layer_args *)args); }

static const lki_field FIELDS[] = {
    LKI_LAYER_FIELDS(lk_conv_layer_args),
    LKI_FIELD(INT, lk_conv_layer_args, filters, .required = true),
    LKI_FIELD_AS("kernel_size", AXES, lk_conv_layer_args, kernel_shape, .width = 1, .required = true),
    LKI_FIELD(AXES, lk_conv_layer_args, strides, .width = 1, .standard = 1),
    LKI_PADDING_FIELD(lk_conv_layer_args),
    LKI_CHANNELS_LAST,
    LKI_FIELD_AS("dilation_rate", AXES, lk_conv_layer_args, dilation, .width = 1, .standard = 1),
    LKI_FIXED("groups", "1"),
    LKI_ACTIVATION_FIELD(lk_conv_layer_args, activation, LK_LINEAR),
    LKI_KERNEL_AND_BIAS_FIELDS(lk_conv_layer_args),
};

const lki_layer_kind lki_conv1d_kind = {
    .name = "conv1d", LKI_LAYER_OF(conv1d, lk_conv_layer_args, "Conv1D", FIELDS), .output = output, .build = build, .call = call};

lk_layer *lk_conv1d_kw(lk_conv_layer_args a)
{
    return lki_conv_fits("lk_conv1d", 1, &a) ? lki_layer_new("lk_conv1d", &lki_conv1d_kind, &a) : NULL;
}
