/* AdaptiveMaxPooling and AdaptiveAveragePooling along 1 to 3 axes: as many results as output_size says, whatever the size of the
 * row. */
#include "layer/window.h"

typedef struct adaptive_pooling {
    lk_layer                 layer;
    lk_adaptive_pooling_args set; /* output_size has a value per axis */
} adaptive_pooling;

static lk_status output(const lk_layer *l, const lk_shape *in, lk_shape *out)
{
    const lk_adaptive_pooling_args *a = &((const adaptive_pooling *)l)->set;
    const lki_axes                  size = lki_axes_of(a->output_size);
    lk_shape                        row;
    LKI_TRY(lki_row_along(l, size.count, a->data_format, in, &row));
    for (int i = 0; i < size.count; i++) {
        if (row.dim[i] == 0) return lki_layer_refuse(l, in, "there is nothing to pool");
        row.dim[i] = size.value[i];
    }
    *out = lki_row_back(a->data_format, &row);
    return LK_OK;
}

static lk_tensor *pooled(lk_layer *l, lk_tensor *x, lk_tensor *(*fn)(lk_tensor *x, lk_axes output_size))
{
    const lk_adaptive_pooling_args *a = &((const adaptive_pooling *)l)->set;
    return lki_channels_back(a->data_format, fn(lki_channels_last(a->data_format, x), a->output_size));
}

static lk_tensor *call_max(lk_layer *l, lk_tensor *x, const lki_pass *pass)
{
    (void)pass;
    return pooled(l, x, lk_nn_adaptive_max_pool);
}

static lk_tensor *call_average(lk_layer *l, lk_tensor *x, const lki_pass *pass)
{
    (void)pass;
    return pooled(l, x, lk_nn_adaptive_avg_pool);
}

/* Keras' classes have these options alone. */
#define FIELDS(width_)                                                                                                             \
    {                                                                                                                              \
        LKI_LAYER_FIELDS(lk_adaptive_pooling_args),                                                                                \
            LKI_FIELD(AXES, lk_adaptive_pooling_args, output_size, .width = width_, .required = true),                             \
            LKI_DATA_FORMAT_FIELD(lk_adaptive_pooling_args)                                                                        \
    }
static const lki_field FIELDS_1D[] = FIELDS(1), FIELDS_2D[] = FIELDS(2), FIELDS_3D[] = FIELDS(3);

static lk_layer *adaptive_new(const char *call_name, int axes, const lki_layer_kind *kind, lk_adaptive_pooling_args a)
{
    lki_axes size = {.count = axes};
    if (!lki_axes_of(a.output_size).count) return lki_fail(LK_EINVAL, "%s: output_size is missing", call_name), NULL;
    if (!lki_per_axis(call_name, "output_size", axes, a.output_size, NULL, 1, size.value) ||
        !lki_data_format_fits(call_name, a.data_format))
        return NULL;
    a.output_size = lki_axes_list(&size);
    return lki_layer_new(call_name, kind, &a);
}

#define KIND(title, axes, class_, fields, call_)                                                                                   \
    static void         *make_##title(const void *args) { return lk_##title##_kw(*(const lk_adaptive_pooling_args *)args); }       \
    const lki_layer_kind lki_##title##_kind = {                                                                                    \
        .name = #title,                                                                                                            \
        .class = {.name = class_, .module = "keras.layers", LKI_ARGS(lk_adaptive_pooling_args, fields), .make = make_##title},     \
        .bytes = sizeof(adaptive_pooling),                                                                                         \
        .set = offsetof(adaptive_pooling, set),                                                                                    \
        .output = output,                                                                                                          \
        .call = call_};                                                                                                            \
    lk_layer *lk_##title##_kw(lk_adaptive_pooling_args a) { return adaptive_new("lk_" #title, axes, &lki_##title##_kind, a); }
KIND(adaptive_max_pooling1d, 1, "AdaptiveMaxPooling1D", FIELDS_1D, call_max)
KIND(adaptive_max_pooling2d, 2, "AdaptiveMaxPooling2D", FIELDS_2D, call_max)
KIND(adaptive_max_pooling3d, 3, "AdaptiveMaxPooling3D", FIELDS_3D, call_max)
KIND(adaptive_average_pooling1d, 1, "AdaptiveAveragePooling1D", FIELDS_1D, call_average)
KIND(adaptive_average_pooling2d, 2, "AdaptiveAveragePooling2D", FIELDS_2D, call_average)
KIND(adaptive_average_pooling3d, 3, "AdaptiveAveragePooling3D", FIELDS_3D, call_average)
