/* Conv2D: activation(convolution of x with the kernel + bias), NHWC. */
#include "model/layer.h"
#include "op/product.h"

enum { KERNEL, BIAS };

typedef struct conv2d {
    lk_layer      layer;
    int64_t       filters, size[2];
    lk_axes       strides, dilation;
    lk_padding    padding;
    lk_activation activation;
    bool          biased;
} conv2d;

static lk_status output(const lk_layer *l, const lk_shape *in, lk_shape *out)
{
    const conv2d *c = (const conv2d *)l;
    lki_window    w;
    if (in->rank != 3) return lki_layer_refuse(l, in, "a row should be [height, width, channels]");
    if (l->count && in->dim[2] != l->weight[KERNEL].variable->shape.dim[2])
        return lki_layer_refuse(l, in, "there should be %lld channels, what its kernel was made for",
                                (long long)l->weight[KERNEL].variable->shape.dim[2]);
    if (!lki_window_of("lk_conv2d", &w, c->size, &c->strides, &c->dilation)) return LK_EINVAL;
    lk_shape image = LK_SHAPE(1, in->dim[0], in->dim[1], in->dim[2]), y = lki_window_output(&w, &image, c->padding, c->filters);
    if (y.dim[1] < 1 || y.dim[2] < 1)
        return lki_layer_refuse(l, in, "a kernel of %lld x %lld does not fit; use LK_SAME or a smaller one", (long long)c->size[0],
                                (long long)c->size[1]);
    *out = LK_SHAPE(y.dim[1], y.dim[2], y.dim[3]);
    return LK_OK;
}

static lk_status build(lk_layer *l, const lk_shape *in)
{
    const conv2d *c = (const conv2d *)l;
    LKI_TRY(lki_layer_weight(l, (lki_weight){.name = "kernel", .initializer = lk_glorot_uniform},
                             LK_SHAPE(c->size[0], c->size[1], in->dim[2], c->filters)));
    return c->biased ? lki_layer_weight(l, (lki_weight){.name = "bias", .initializer = lki_initial_zeros}, LK_SHAPE(c->filters))
                     : LK_OK;
}

static lk_tensor *call(lk_layer *l, lk_tensor *x, const lki_pass *pass)
{
    const conv2d *c = (const conv2d *)l;
    (void)pass;
    return lk_nn_conv2d(x, lki_layer_read(l, KERNEL), c->biased ? lki_layer_read(l, BIAS) : NULL, .strides = c->strides,
                        .padding = c->padding, .dilation = c->dilation, .activation = c->activation);
}

static const lki_layer_kind CONV2D = {.name = "conv2d", .output = output, .build = build, .call = call};

/* The one of kernel_size and kernel_shape that was given, as height and width. */
static bool kernel_size(const lk_conv2d_args *a, int64_t *size)
{
    if ((a->kernel_size != 0) == (a->kernel_shape.count != 0))
        return lki_fail(LK_EINVAL, "lk_conv2d: give kernel_size or kernel_shape, %s", a->kernel_size ? "not both" : "one of them"),
               false;
    if (a->kernel_shape.count && a->kernel_shape.count != 2)
        return lki_fail(LK_EINVAL, "lk_conv2d: kernel_shape has %d sizes; it must have two, height and width",
                        a->kernel_shape.count),
               false;
    size[0] = a->kernel_size ? a->kernel_size : a->kernel_shape.value[0];
    size[1] = a->kernel_size ? a->kernel_size : a->kernel_shape.value[1];
    if (size[0] < 1 || size[1] < 1)
        return lki_fail(LK_EINVAL, "lk_conv2d: a kernel of %lld x %lld; sizes must be at least 1", (long long)size[0],
                        (long long)size[1]),
               false;
    return true;
}

lk_layer *lk_conv2d_kw(lk_conv2d_args a)
{
    int64_t    size[2];
    lki_window w;
    if (a.filters < 1) return lki_fail(LK_EINVAL, "lk_conv2d: filters is %lld; it must be at least 1", (long long)a.filters), NULL;
    if (!kernel_size(&a, size) || !lki_window_of("lk_conv2d", &w, size, &a.strides, &a.dilation) ||
        !lki_padding_fits("lk_conv2d", a.padding, false) || !lki_activation_fits("lk_conv2d", a.activation))
        return NULL;
    lki_layer_common common = {a.name, a.input_shape, a.activity_regularizer, a.kernel_regularizer, a.bias_regularizer};
    conv2d          *c = lki_layer_new("lk_conv2d", sizeof *c, &CONV2D, common);
    if (!c) return NULL;
    c->filters = a.filters;
    c->size[0] = size[0];
    c->size[1] = size[1];
    c->strides = a.strides;
    c->dilation = a.dilation;
    c->padding = a.padding;
    c->activation = a.activation;
    c->biased = a.use_bias != LK_OFF;
    return &c->layer;
}
