/* Conv1DTranspose, Conv2DTranspose and Conv3DTranspose: the data gradient of a convolution, applied to rows: each cell is spread
 * over a window, activation(sum + bias). */
#include "layer/window.h"

enum { KERNEL, BIAS };

typedef struct conv_transpose {
    lk_layer           layer;
    lk_conv_layer_args set; /* the size is in kernel_shape */
} conv_transpose;

/* NULL: not given. */
static const int64_t *padding_of(const lk_conv_layer_args *a, int axes, int64_t *more)
{
    const lki_axes given = lki_axes_of(a->output_padding);
    for (int i = 0; i < axes; i++)
        more[i] = given.value[given.count == 1 ? 0 : i];
    return given.count ? more : NULL;
}

static lk_status output(const lk_layer *l, const lk_shape *in, lk_shape *out)
{
    const lk_conv_layer_args *a = &((const conv_transpose *)l)->set;
    lki_slide                 s = lki_kernel_slide(a->kernel_shape, a->strides, a->dilation);
    int64_t                   more[LKI_SLIDE_AXES];
    lk_shape                  row, x = {.rank = s.axes + 2, .dim = {1}};
    LKI_TRY(lki_row_along(l, s.axes, a->data_format, in, &row));
    LKI_TRY(lki_layer_channels(l, in, &row, l->count ? l->weight[KERNEL].variable->shape.dim[s.axes + 1] : -1));
    for (int i = 0; i < s.axes; i++) {
        x.dim[1 + i] = lki_max(row.dim[i], 1);
        if (!row.dim[i]) return lki_layer_refuse(l, in, "a row without cells cannot be spread");
    }
    const lk_shape y = lki_slide_input(&s, &x, a->padding, padding_of(a, s.axes, more), a->filters);
    for (int i = 0; i < s.axes; i++) {
        if (y.dim[1 + i] < 1)
            return lki_layer_refuse(l, in, "output_padding %lld leaves out a cell with LK_SAME and a kernel of even size; use 1",
                                    (long long)more[i]);
        row.dim[i] = row.dim[i] < 0 ? -1 : y.dim[1 + i];
    }
    row.dim[s.axes] = a->filters;
    *out = lki_row_back(a->data_format, &row);
    return LK_OK;
}

static lk_status build(lk_layer *l, const lk_shape *in)
{
    const lk_conv_layer_args *a = &((const conv_transpose *)l)->set;
    const lk_shape            row = lki_row_last(a->data_format, in);
    return lki_conv_build(l, a, a->filters, row.dim[row.rank - 1]);
}

static lk_tensor *call(lk_layer *l, lk_tensor *x, const lki_pass *pass)
{
    static lk_tensor *(*const FN[])(lk_conv_args) = {NULL, lk_nn_conv1d_transpose_kw, lk_nn_conv2d_transpose_kw,
                                                     lk_nn_conv3d_transpose_kw};
    const lk_conv_layer_args *a = &((const conv_transpose *)l)->set;
    lk_activation             after;
    (void)pass;
    lk_tensor *y = FN[lki_kernel_axes(a->kernel_shape)]((lk_conv_args){
        .x = lki_channels_last(a->data_format, x),
        .kernel = lki_layer_read(l, KERNEL),
        .bias = l->count > BIAS ? lki_layer_read(l, BIAS) : NULL,
        .strides = a->strides,
        .padding = a->padding,
        .dilation = a->dilation,
        .output_padding = a->output_padding,
        .activation = lki_activation_before(a->data_format, a->activation, &after),
    });
    return lk_activate(lki_channels_back(a->data_format, y), after);
}

#define FIELDS(width_)                                                                                                             \
    {                                                                                                                              \
        LKI_LAYER_FIELDS(lk_conv_layer_args), LKI_FIELD(INT, lk_conv_layer_args, filters, .required = true),                       \
            LKI_FIELD_AS("kernel_size", AXES, lk_conv_layer_args, kernel_shape, .width = width_, .required = true),                \
            LKI_FIELD(AXES, lk_conv_layer_args, strides, .width = width_, .standard = 1), LKI_PADDING_FIELD(lk_conv_layer_args),   \
            LKI_FIELD(AXES, lk_conv_layer_args, output_padding, .width = width_), LKI_DATA_FORMAT_FIELD(lk_conv_layer_args),       \
            LKI_FIELD_AS("dilation_rate", AXES, lk_conv_layer_args, dilation, .width = width_, .standard = 1),                     \
            LKI_ACTIVATION_FIELD(lk_conv_layer_args, activation, LK_LINEAR), LKI_KERNEL_AND_BIAS_FIELDS(lk_conv_layer_args)        \
    }

static bool output_padding_fits(const char *call_name, int axes, const lk_conv_layer_args *a)
{
    static const int64_t zeros[LKI_SLIDE_AXES] = {0};
    const lki_slide      s = lki_kernel_slide(a->kernel_shape, a->strides, a->dilation);
    int64_t              more[LKI_SLIDE_AXES];
    if (!lki_per_axis(call_name, "output_padding", axes, a->output_padding, zeros, 0, more)) return false;
    for (int i = 0; i < axes; i++)
        if (more[i] >= s.stride[i])
            return lki_fail(LK_EINVAL, "%s: output_padding is %lld; it must be less than the stride, %lld", call_name,
                            (long long)more[i], (long long)s.stride[i]),
                   false;
    return true;
}

static lk_layer *conv_transpose_new(const char *call_name, int axes, const lki_layer_kind *kind, lk_conv_layer_args a)
{
    if (lki_integer_given(a.groups)) return lki_fail(LK_EINVAL, "%s: groups is given, but it has none", call_name), NULL;
    if (!lki_conv_fits(call_name, axes, &a) || !lki_padding_fits(call_name, a.padding, false)) return NULL;
    return output_padding_fits(call_name, axes, &a) ? lki_layer_new(call_name, kind, &a) : NULL;
}

#define KIND(title, axes, class_)                                                                                                  \
    static const lki_field title##_fields[] = FIELDS(axes);                                                                        \
    static void           *make_##title(const void *args) { return lk_##title##_kw(*(const lk_conv_layer_args *)args); }           \
    const lki_layer_kind   lki_##title##_kind = {                                                                                  \
          .name = #title,                                                                                                          \
          .class = {class_, "keras.layers", LKI_ARGS(lk_conv_layer_args, title##_fields), make_##title},                           \
          .bytes = sizeof(conv_transpose),                                                                                         \
          .set = offsetof(conv_transpose, set),                                                                                    \
          .output = output,                                                                                                        \
          .build = build,                                                                                                          \
          .call = call};                                                                                                           \
    lk_layer *lk_##title##_kw(lk_conv_layer_args a) { return conv_transpose_new("lk_" #title, axes, &lki_##title##_kind, a); }
KIND(conv1d_transpose, 1, "Conv1DTranspose")
KIND(conv2d_transpose, 2, "Conv2DTranspose")
KIND(conv3d_transpose, 3, "Conv3DTranspose")
