/* DepthwiseConv1D and DepthwiseConv2D: each channel is convolved separately, with depth_multiplier kernels; activation(all of them
 * side by side + bias). */
#include "layer/window.h"

enum { KERNEL, BIAS };

typedef struct depthwise {
    lk_layer          layer;
    lk_depthwise_args set; /* the size is in kernel_shape */
} depthwise;

static lk_status output(const lk_layer *l, const lk_shape *in, lk_shape *out)
{
    const lk_depthwise_args *a = &((const depthwise *)l)->set;
    lki_slide                s = lki_kernel_slide(a->kernel_shape, a->strides, a->dilation);
    lk_shape                 row;
    LKI_TRY(lki_row_along(l, s.axes, a->data_format, in, &row));
    LKI_TRY(lki_layer_channels(l, in, &row, l->count ? l->weight[KERNEL].variable->shape.dim[s.axes] : -1));
    return lki_layer_window(l, &s, in, &row, a->padding, lki_size_mul(row.dim[s.axes], a->depth_multiplier), a->data_format, out);
}

static lk_status build(lk_layer *l, const lk_shape *in)
{
    const lk_depthwise_args *a = &((const depthwise *)l)->set;
    const lk_shape           row = lki_row_last(a->data_format, in);
    const int64_t            channels = row.dim[row.rank - 1];
    lki_weight               kernel = LKI_WEIGHT(a, depthwise, lki_first_glorot_uniform);
    kernel.name = "kernel";
    LKI_TRY(lki_layer_weight(l, kernel, lki_kernel_of(a->kernel_shape, channels, a->depth_multiplier)));
    if (a->use_bias == LK_OFF) return LK_OK;
    return lki_layer_weight(l, LKI_WEIGHT(a, bias, lki_first_zeros), LK_SHAPE(lki_size_mul(channels, a->depth_multiplier)));
}

static lk_tensor *call(lk_layer *l, lk_tensor *x, const lki_pass *pass)
{
    const lk_depthwise_args *a = &((const depthwise *)l)->set;
    lk_activation            after;
    (void)pass;
    const lk_conv_args of = {
        .x = lki_channels_last(a->data_format, x),
        .kernel = lki_layer_read(l, KERNEL),
        .bias = l->count > BIAS ? lki_layer_read(l, BIAS) : NULL,
        .strides = a->strides,
        .padding = a->padding,
        .dilation = a->dilation,
        .activation = lki_activation_before(a->data_format, a->activation, &after),
    };
    lk_tensor *y = lki_kernel_axes(a->kernel_shape) == 1 ? lk_nn_depthwise_conv1d_kw(of) : lk_nn_depthwise_conv2d_kw(of);
    return lk_activate(lki_channels_back(a->data_format, y), after);
}

#define FIELDS(width_)                                                                                                             \
    {                                                                                                                              \
        LKI_LAYER_FIELDS(lk_depthwise_args), LKI_FIELD(INTEGER, lk_depthwise_args, depth_multiplier, .standard = 1),               \
            LKI_FIELD_AS("kernel_size", AXES, lk_depthwise_args, kernel_shape, .width = width_, .required = true),                 \
            LKI_FIELD(AXES, lk_depthwise_args, strides, .width = width_, .standard = 1), LKI_PADDING_FIELD(lk_depthwise_args),     \
            LKI_DATA_FORMAT_FIELD(lk_depthwise_args),                                                                              \
            LKI_FIELD_AS("dilation_rate", AXES, lk_depthwise_args, dilation, .width = width_, .standard = 1),                      \
            LKI_ACTIVATION_FIELD(lk_depthwise_args, activation, LK_LINEAR),                                                        \
            LKI_FIELD(SWITCH, lk_depthwise_args, use_bias, .standard = 1),                                                         \
            LKI_INITIALIZER_FIELD(lk_depthwise_args, depthwise_initializer, "GlorotUniform"),                                      \
            LKI_INITIALIZER_FIELD(lk_depthwise_args, bias_initializer, "Zeros"),                                                   \
            LKI_REGULARIZER_FIELD(lk_depthwise_args, depthwise_regularizer),                                                       \
            LKI_REGULARIZER_FIELD(lk_depthwise_args, bias_regularizer),                                                            \
            LKI_REGULARIZER_FIELD(lk_depthwise_args, activity_regularizer),                                                        \
            LKI_CONSTRAINT_FIELD(lk_depthwise_args, depthwise_constraint),                                                         \
            LKI_CONSTRAINT_FIELD(lk_depthwise_args, bias_constraint)                                                               \
    }

static lk_layer *depthwise_new(const char *call_name, int axes, const lki_layer_kind *kind, lk_depthwise_args a)
{
    lki_slide s;
    if (!lki_depth_fits(call_name, &a.depth_multiplier) || !lki_kernel_size(call_name, axes, &a.kernel_size, &a.kernel_shape) ||
        !lki_slide_of(call_name, &s, axes, lki_axes_of(a.kernel_shape).value, a.strides, a.dilation) ||
        !lki_padding_fits(call_name, a.padding, false) || !lki_data_format_fits(call_name, a.data_format) ||
        !lki_activation_fits(call_name, a.activation))
        return NULL;
    return lki_layer_new(call_name, kind, &a);
}

#define KIND(title, axes, class_)                                                                                                  \
    static const lki_field title##_fields[] = FIELDS(axes);                                                                        \
    static void           *make_##title(const void *args) { return lk_##title##_kw(*(const lk_depthwise_args *)args); }            \
    const lki_layer_kind   lki_##title##_kind = {                                                                                  \
          .name = #title,                                                                                                          \
          .class = {class_, "keras.layers", LKI_ARGS(lk_depthwise_args, title##_fields), make_##title},                            \
          .bytes = sizeof(depthwise),                                                                                              \
          .set = offsetof(depthwise, set),                                                                                         \
          .output = output,                                                                                                        \
          .build = build,                                                                                                          \
          .call = call};                                                                                                           \
    lk_layer *lk_##title##_kw(lk_depthwise_args a) { return depthwise_new("lk_" #title, axes, &lki_##title##_kind, a); }
KIND(depthwise_conv1d, 1, "DepthwiseConv1D")
KIND(depthwise_conv2d, 2, "DepthwiseConv2D")
