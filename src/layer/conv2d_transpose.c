/* Conv2DTranspose: the data gradient of a convolution, applied to images: each cell is spread over a window, activation(sum +
 * bias). */
#include "layer/window.h"

enum { KERNEL, BIAS };

typedef struct conv2d_transpose {
    lk_layer           layer;
    lk_conv_layer_args set; /* the size is in kernel_shape */
} conv2d_transpose;

static lk_status output(const lk_layer *l, const lk_shape *in, lk_shape *out)
{
    const lk_conv_layer_args *a = &((const conv2d_transpose *)l)->set;
    lki_window                w;
    LKI_TRY(lki_layer_channels(l, 2, in, l->count ? l->weight[KERNEL].variable->shape.dim[3] : -1));
    if (!lki_window_along("lk_conv2d_transpose", 2, &w, a->kernel_shape, a->strides, a->dilation)) return LK_EINVAL;
    lk_shape image = LK_SHAPE(1, lki_max(in->dim[0], 1), lki_max(in->dim[1], 1), in->dim[2]);
    lk_shape y = lki_window_input(&w, &image, a->padding, a->filters);
    *out = (lk_shape){.rank = 3, .dim = {in->dim[0] < 0 ? -1 : y.dim[1], in->dim[1] < 0 ? -1 : y.dim[2], a->filters}};
    return in->dim[0] && in->dim[1] ? LK_OK : lki_layer_refuse(l, in, "an image without cells cannot be spread");
}

static lk_status build(lk_layer *l, const lk_shape *in)
{
    const lk_conv_layer_args *a = &((const conv2d_transpose *)l)->set;
    const lki_axes            size = lki_axes_of(a->kernel_shape);
    return lki_conv_build(l, a, LK_SHAPE(size.value[0], size.value[1], a->filters, in->dim[2]));
}

static lk_tensor *call(lk_layer *l, lk_tensor *x, const lki_pass *pass)
{
    const lk_conv_layer_args *a = &((const conv2d_transpose *)l)->set;
    (void)pass;
    return lk_nn_conv2d_transpose(x, lki_layer_read(l, KERNEL), l->count > BIAS ? lki_layer_read(l, BIAS) : NULL,
                                  .strides = a->strides, .padding = a->padding, .activation = a->activation);
}

static void *make(const void *args) { return lk_conv2d_transpose_kw(*(const lk_conv_layer_args *)args); }

static const lki_field FIELDS[] = {
    LKI_LAYER_FIELDS(lk_conv_layer_args),
    LKI_FIELD(INT, lk_conv_layer_args, filters, .required = true),
    LKI_FIELD_AS("kernel_size", AXES, lk_conv_layer_args, kernel_shape, .width = 2, .required = true),
    LKI_FIELD(AXES, lk_conv_layer_args, strides, .width = 2, .standard = 1),
    LKI_PADDING_FIELD(lk_conv_layer_args),
    LKI_FIXED("output_padding", "null"),
    LKI_CHANNELS_LAST,
    LKI_FIXED("dilation_rate", "[1, 1]"),
    LKI_ACTIVATION_FIELD(lk_conv_layer_args, activation, LK_LINEAR),
    LKI_KERNEL_AND_BIAS_FIELDS(lk_conv_layer_args),
};

const lki_layer_kind lki_conv2d_transpose_kind = {.name = "conv2d_transpose",
                                                  LKI_LAYER_OF(conv2d_transpose, lk_conv_layer_args, "Conv2DTranspose", FIELDS),
                                                  .output = output,
                                                  .build = build,
                                                  .call = call};

lk_layer *lk_conv2d_transpose_kw(lk_conv_layer_args a)
{
    if (lki_axes_of(a.dilation).count) return lki_fail(LK_EINVAL, "lk_conv2d_transpose: dilation is given, but it has none"), NULL;
    return lki_conv_fits("lk_conv2d_transpose", 2, &a) ? lki_layer_new("lk_conv2d_transpose", &lki_conv2d_transpose_kind, &a)
                                                       : NULL;
}
