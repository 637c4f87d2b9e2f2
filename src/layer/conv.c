/* Conv1D and Conv2D: activation(convolution of x with the kernel + bias), along steps or over images, NHWC. In one dimension
 * LK_CAUSAL pads in front, so that no step sees later ones. */
#include "layer/window.h"

enum { KERNEL, BIAS };

typedef struct conv {
    lk_layer           layer;
    lk_conv_layer_args set; /* the size is in kernel_shape */
} conv;

static int axes_of(const lk_layer *l) { return l->kind == &lki_conv1d_kind ? 1 : 2; }

static lk_status output(const lk_layer *l, const lk_shape *in, lk_shape *out)
{
    const lk_conv_layer_args *a = &((const conv *)l)->set;
    const int                 axes = axes_of(l);
    lki_window                w;
    LKI_TRY(lki_layer_channels(l, axes, in, l->count ? l->weight[KERNEL].variable->shape.dim[axes] : -1));
    if (!lki_window_along(axes == 1 ? "lk_conv1d" : "lk_conv2d", axes, &w, a->kernel_shape, a->strides, a->dilation))
        return LK_EINVAL;
    return lki_layer_window(l, &w, in, a->padding, a->filters, out);
}

static lk_status build(lk_layer *l, const lk_shape *in)
{
    const lk_conv_layer_args *a = &((const conv *)l)->set;
    const lki_axes            size = lki_axes_of(a->kernel_shape);
    return lki_conv_build(l, a,
                          axes_of(l) == 1 ? LK_SHAPE(size.value[0], in->dim[1], a->filters)
                                          : LK_SHAPE(size.value[0], size.value[1], in->dim[2], a->filters));
}

static lk_tensor *call(lk_layer *l, lk_tensor *x, const lki_pass *pass)
{
    const lk_conv_layer_args *a = &((const conv *)l)->set;
    (void)pass;
    const lk_conv_args of = {
        .x = x,
        .kernel = lki_layer_read(l, KERNEL),
        .bias = l->count > BIAS ? lki_layer_read(l, BIAS) : NULL,
        .strides = a->strides,
        .padding = a->padding,
        .dilation = a->dilation,
        .activation = a->activation,
    };
    return axes_of(l) == 1 ? lk_nn_conv1d_kw(of) : lk_nn_conv2d_kw(of);
}

#define FIELDS(width_)                                                                                                             \
    {                                                                                                                              \
        LKI_LAYER_FIELDS(lk_conv_layer_args), LKI_FIELD(INT, lk_conv_layer_args, filters, .required = true),                       \
            LKI_FIELD_AS("kernel_size", AXES, lk_conv_layer_args, kernel_shape, .width = width_, .required = true),                \
            LKI_FIELD(AXES, lk_conv_layer_args, strides, .width = width_, .standard = 1), LKI_PADDING_FIELD(lk_conv_layer_args),   \
            LKI_CHANNELS_LAST, LKI_FIELD_AS("dilation_rate", AXES, lk_conv_layer_args, dilation, .width = width_, .standard = 1),  \
            LKI_FIXED("groups", "1"), LKI_ACTIVATION_FIELD(lk_conv_layer_args, activation, LK_LINEAR),                             \
            LKI_KERNEL_AND_BIAS_FIELDS(lk_conv_layer_args)                                                                         \
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
    lk_layer *lk_##title##_kw(lk_conv_layer_args a)                                                                                \
    {                                                                                                                              \
        return lki_conv_fits("lk_" #title, axes, &a) ? lki_layer_new("lk_" #title, &lki_##title##_kind, &a) : NULL;                \
    }
KIND(conv1d, 1, "Conv1D")
KIND(conv2d, 2, "Conv2D")
