/* Conv1D, Conv2D and Conv3D: activation(convolution of x with the kernel + bias), along steps, over images or volumes, in groups of
 * channels. In one dimension LK_CAUSAL pads in front, so that no step sees later ones. */
#include "layer/window.h"

enum { KERNEL, BIAS };

typedef struct conv {
    lk_layer           layer;
    lk_conv_layer_args set; /* the size is in kernel_shape */
} conv;

static int64_t groups_of(const lk_conv_layer_args *a) { return lki_integer_or(a->groups, 1); }

static lk_status output(const lk_layer *l, const lk_shape *in, lk_shape *out)
{
    const lk_conv_layer_args *a = &((const conv *)l)->set;
    lki_slide                 s = lki_kernel_slide(a->kernel_shape, a->strides, a->dilation);
    lk_shape                  row;
    LKI_TRY(lki_row_along(l, s.axes, a->data_format, in, &row));
    LKI_TRY(
        lki_layer_channels(l, in, &row, l->count ? lki_size_mul(l->weight[KERNEL].variable->shape.dim[s.axes], groups_of(a)) : -1));
    if (row.dim[s.axes] % groups_of(a))
        return lki_layer_refuse(l, in, "%lld channels cannot be divided into %lld groups", (long long)row.dim[s.axes],
                                (long long)groups_of(a));
    return lki_layer_window(l, &s, in, &row, a->padding, a->filters, a->data_format, out);
}

static lk_status build(lk_layer *l, const lk_shape *in)
{
    const lk_conv_layer_args *a = &((const conv *)l)->set;
    const lk_shape            row = lki_row_last(a->data_format, in);
    return lki_conv_build(l, a, row.dim[row.rank - 1] / groups_of(a), a->filters);
}

static lk_tensor *call(lk_layer *l, lk_tensor *x, const lki_pass *pass)
{
    static lk_tensor *(*const FN[])(lk_conv_args) = {NULL, lk_nn_conv1d_kw, lk_nn_conv2d_kw, lk_nn_conv3d_kw};
    const lk_conv_layer_args *a = &((const conv *)l)->set;
    lk_activation             after;
    (void)pass;
    lk_tensor *y = FN[lki_kernel_axes(a->kernel_shape)]((lk_conv_args){
        .x = lki_channels_last(a->data_format, x),
        .kernel = lki_layer_read(l, KERNEL),
        .bias = l->count > BIAS ? lki_layer_read(l, BIAS) : NULL,
        .strides = a->strides,
        .padding = a->padding,
        .dilation = a->dilation,
        .groups = a->groups,
        .activation = lki_activation_before(a->data_format, a->activation, &after),
    });
    return lk_activate(lki_channels_back(a->data_format, y), after);
}

#define FIELDS(width_)                                                                                                             \
    {                                                                                                                              \
        LKI_LAYER_FIELDS(lk_conv_layer_args), LKI_FIELD(INT, lk_conv_layer_args, filters, .required = true),                       \
            LKI_FIELD_AS("kernel_size", AXES, lk_conv_layer_args, kernel_shape, .width = width_, .required = true),                \
            LKI_FIELD(AXES, lk_conv_layer_args, strides, .width = width_, .standard = 1), LKI_PADDING_FIELD(lk_conv_layer_args),   \
            LKI_DATA_FORMAT_FIELD(lk_conv_layer_args),                                                                             \
            LKI_FIELD_AS("dilation_rate", AXES, lk_conv_layer_args, dilation, .width = width_, .standard = 1),                     \
            LKI_FIELD(INTEGER, lk_conv_layer_args, groups, .standard = 1),                                                         \
            LKI_ACTIVATION_FIELD(lk_conv_layer_args, activation, LK_LINEAR), LKI_KERNEL_AND_BIAS_FIELDS(lk_conv_layer_args)        \
    }

static lk_layer *conv_new(const char *call_name, int axes, const lki_layer_kind *kind, lk_conv_layer_args a)
{
    if (lki_axes_of(a.output_padding).count)
        return lki_fail(LK_EINVAL, "%s: output_padding is for transposed convolutions", call_name), NULL;
    return lki_conv_fits(call_name, axes, &a) ? lki_layer_new(call_name, kind, &a) : NULL;
}

#define KIND(title, axes, class_)                                                                                                  \
    static const lki_field title##_fields[] = FIELDS(axes);                                                                        \
    static void           *make_##title(const void *args) { return lk_##title##_kw(*(const lk_conv_layer_args *)args); }           \
    const lki_layer_kind   lki_##title##_kind = {                                                                                  \
          .name = #title,                                                                                                          \
          .class = {class_, "keras.layers", LKI_ARGS(lk_conv_layer_args, title##_fields), make_##title},                           \
          .bytes = sizeof(conv),                                                                                                   \
          .set = offsetof(conv, set),                                                                                              \
          .output = output,                                                                                                        \
          .build = build,                                                                                                          \
          .call = call};                                                                                                           \
    lk_layer *lk_##title##_kw(lk_conv_layer_args a) { return conv_new("lk_" #title, axes, &lki_##title##_kind, a); }
KIND(conv1d, 1, "Conv1D")
KIND(conv2d, 2, "Conv2D")
KIND(conv3d, 3, "Conv3D")
