/* SeparableConv1D and SeparableConv2D: each channel is convolved separately, then the channels of each cell are mixed by the
 * pointwise kernel; activation(that + bias). */
#include "layer/window.h"

enum { DEPTHWISE, POINTWISE, BIAS };

typedef struct separable {
    lk_layer          layer;
    lk_separable_args set; /* the size is in kernel_shape */
} separable;

static lk_status output(const lk_layer *l, const lk_shape *in, lk_shape *out)
{
    const lk_separable_args *a = &((const separable *)l)->set;
    lki_slide                s = lki_kernel_slide(a->kernel_shape, a->strides, a->dilation);
    lk_shape                 row;
    LKI_TRY(lki_row_along(l, s.axes, a->data_format, in, &row));
    LKI_TRY(lki_layer_channels(l, in, &row, l->count ? l->weight[DEPTHWISE].variable->shape.dim[s.axes] : -1));
    return lki_layer_window(l, &s, in, &row, a->padding, a->filters, a->data_format, out);
}

static lk_status build(lk_layer *l, const lk_shape *in)
{
    const lk_separable_args *a = &((const separable *)l)->set;
    const lk_shape           row = lki_row_last(a->data_format, in);
    const int64_t            channels = row.dim[row.rank - 1];
    const lk_axes            one = row.rank == 2 ? LK_AXES(1) : LK_AXES(1, 1);
    lki_weight               depthwise = LKI_WEIGHT(a, depthwise, lki_first_glorot_uniform);
    lki_weight               pointwise = LKI_WEIGHT(a, pointwise, lki_first_glorot_uniform);
    depthwise.name = "depthwise_kernel";
    pointwise.name = "pointwise_kernel";
    LKI_TRY(lki_layer_weight(l, depthwise, lki_kernel_of(a->kernel_shape, channels, a->depth_multiplier)));
    LKI_TRY(lki_layer_weight(l, pointwise, lki_kernel_of(one, lki_size_mul(channels, a->depth_multiplier), a->filters)));
    if (a->use_bias == LK_OFF) return LK_OK;
    return lki_layer_weight(l, LKI_WEIGHT(a, bias, lki_first_zeros), LK_SHAPE(a->filters));
}

static lk_tensor *call(lk_layer *l, lk_tensor *x, const lki_pass *pass)
{
    const lk_separable_args *a = &((const separable *)l)->set;
    lk_activation            after;
    (void)pass;
    const lk_conv_args of = {
        .x = lki_channels_last(a->data_format, x),
        .kernel = lki_layer_read(l, DEPTHWISE),
        .pointwise = lki_layer_read(l, POINTWISE),
        .bias = l->count > BIAS ? lki_layer_read(l, BIAS) : NULL,
        .strides = a->strides,
        .padding = a->padding,
        .dilation = a->dilation,
        .activation = lki_activation_before(a->data_format, a->activation, &after),
    };
    lk_tensor *y = lki_kernel_axes(a->kernel_shape) == 1 ? lk_nn_separable_conv1d_kw(of) : lk_nn_separable_conv2d_kw(of);
    return lk_activate(lki_channels_back(a->data_format, y), after);
}

#define FIELDS(width_)                                                                                                             \
    {                                                                                                                              \
        LKI_LAYER_FIELDS(lk_separable_args), LKI_FIELD(INTEGER, lk_separable_args, depth_multiplier, .standard = 1),               \
            LKI_FIELD(INT, lk_separable_args, filters, .required = true),                                                          \
            LKI_FIELD_AS("kernel_size", AXES, lk_separable_args, kernel_shape, .width = width_, .required = true),                 \
            LKI_FIELD(AXES, lk_separable_args, strides, .width = width_, .standard = 1), LKI_PADDING_FIELD(lk_separable_args),     \
            LKI_DATA_FORMAT_FIELD(lk_separable_args),                                                                              \
            LKI_FIELD_AS("dilation_rate", AXES, lk_separable_args, dilation, .width = width_, .standard = 1),                      \
            LKI_ACTIVATION_FIELD(lk_separable_args, activation, LK_LINEAR),                                                        \
            LKI_FIELD(SWITCH, lk_separable_args, use_bias, .standard = 1),                                                         \
            LKI_INITIALIZER_FIELD(lk_separable_args, depthwise_initializer, "GlorotUniform"),                                      \
            LKI_INITIALIZER_FIELD(lk_separable_args, pointwise_initializer, "GlorotUniform"),                                      \
            LKI_INITIALIZER_FIELD(lk_separable_args, bias_initializer, "Zeros"),                                                   \
            LKI_REGULARIZER_FIELD(lk_separable_args, depthwise_regularizer),                                                       \
            LKI_REGULARIZER_FIELD(lk_separable_args, pointwise_regularizer),                                                       \
            LKI_REGULARIZER_FIELD(lk_separable_args, bias_regularizer),                                                            \
            LKI_REGULARIZER_FIELD(lk_separable_args, activity_regularizer),                                                        \
            LKI_CONSTRAINT_FIELD(lk_separable_args, depthwise_constraint),                                                         \
            LKI_CONSTRAINT_FIELD(lk_separable_args, pointwise_constraint),                                                         \
            LKI_CONSTRAINT_FIELD(lk_separable_args, bias_constraint)                                                               \
    }

static lk_layer *separable_new(const char *call_name, int axes, const lki_layer_kind *kind, lk_separable_args a)
{
    lki_slide s;
    if (a.filters < 1)
        return lki_fail(LK_EINVAL, "%s: filters is %lld; it must be at least 1", call_name, (long long)a.filters), NULL;
    if (!lki_depth_fits(call_name, &a.depth_multiplier) || !lki_kernel_size(call_name, axes, &a.kernel_size, &a.kernel_shape) ||
        !lki_slide_of(call_name, &s, axes, lki_axes_of(a.kernel_shape).value, a.strides, a.dilation) ||
        !lki_padding_fits(call_name, a.padding, false) || !lki_data_format_fits(call_name, a.data_format) ||
        !lki_activation_fits(call_name, a.activation))
        return NULL;
    return lki_layer_new(call_name, kind, &a);
}

#define KIND(title, axes, class_)                                                                                                  \
    static const lki_field title##_fields[] = FIELDS(axes);                                                                        \
    static void           *make_##title(const void *args) { return lk_##title##_kw(*(const lk_separable_args *)args); }            \
    const lki_layer_kind   lki_##title##_kind = {                                                                                  \
          .name = #title,                                                                                                          \
          .class = {class_, "keras.layers", LKI_ARGS(lk_separable_args, title##_fields), make_##title},                            \
          .bytes = sizeof(separable),                                                                                              \
          .set = offsetof(separable, set),                                                                                         \
          .output = output,                                                                                                        \
          .build = build,                                                                                                          \
          .call = call};                                                                                                           \
    lk_layer *lk_##title##_kw(lk_separable_args a) { return separable_new("lk_" #title, axes, &lki_##title##_kind, a); }
KIND(separable_conv1d, 1, "SeparableConv1D")
KIND(separable_conv2d, 2, "SeparableConv2D")
