/* UpSampling1D, UpSampling2D and UpSampling3D: each cell becomes several, equal or interpolated. */
#include "layer/channels.h"
#include "layer/resize.h"
#include "op/product.h"

enum { LARGEST = 65536 };

/* Along one axis. */
static lk_tensor *repeated(lk_tensor *x, int axis, int64_t times)
{
    if (lki_bad(x) || times == 1) return x;
    lk_shape      y = x->shape;
    const int64_t before = lki_size_product(y.dim, axis + 1), after = lki_shape_size_from(&y, axis + 1);
    y.dim[axis] = lki_size_mul(y.dim[axis], times);
    lk_tensor *apart = lk_reshape(x, LK_SHAPE(before, 1, after));
    return lk_reshape(lk_broadcast_to(apart, LK_SHAPE(before, times, after)), y);
}

/* ---- steps ---- */

typedef struct up_sampling1d {
    lk_layer              layer;
    lk_up_sampling1d_args set;
} up_sampling1d;

static lk_tensor *call_steps(lk_layer *l, lk_tensor *x, const lki_pass *pass)
{
    (void)pass;
    return repeated(x, 1, lki_integer_or(((const up_sampling1d *)l)->set.size, 2));
}

static lk_status output_steps(const lk_layer *l, const lk_shape *in, lk_shape *out)
{
    LKI_TRY(lki_row_along(l, 1, LK_CHANNELS_LAST, in, out));
    out->dim[0] = lki_size_mul_known(in->dim[0], lki_integer_or(((const up_sampling1d *)l)->set.size, 2));
    return LK_OK;
}

static void *make_steps(const void *args) { return lk_up_sampling1d_kw(*(const lk_up_sampling1d_args *)args); }

static const lki_field FIELDS_1D[] = {LKI_LAYER_FIELDS(lk_up_sampling1d_args),
                                      LKI_FIELD(INTEGER, lk_up_sampling1d_args, size, .standard = 2)};

const lki_layer_kind lki_up_sampling1d_kind = {
    .name = "up_sampling1d",
    .class = {"UpSampling1D", "keras.layers", LKI_ARGS(lk_up_sampling1d_args, FIELDS_1D), make_steps},
    .bytes = sizeof(up_sampling1d),
    .set = offsetof(up_sampling1d, set),
    .output = output_steps,
    .call = call_steps};

lk_layer *lk_up_sampling1d_kw(lk_up_sampling1d_args a)
{
    const int64_t size = lki_integer_or(a.size, 2);
    if (size < 1 || size > LARGEST) return lki_fail(LK_EINVAL, "lk_up_sampling1d: the size must be from 1 to %d", LARGEST), NULL;
    return lki_layer_new("lk_up_sampling1d", &lki_up_sampling1d_kind, &a);
}

/* ---- images and volumes ---- */

typedef struct up_sampling {
    lk_layer            layer;
    lk_up_sampling_args set; /* size has a value for each axis */
} up_sampling;

static lk_status output(const lk_layer *l, const lk_shape *in, lk_shape *out)
{
    const lk_up_sampling_args *a = &((const up_sampling *)l)->set;
    const lki_axes             size = lki_axes_of(a->size);
    lk_shape                   row;
    LKI_TRY(lki_row_along(l, size.count, a->data_format, in, &row));
    for (int i = 0; i < size.count; i++)
        row.dim[i] = lki_size_mul_known(row.dim[i], size.value[i]);
    *out = lki_row_back(a->data_format, &row);
    return LK_OK;
}

static lk_tensor *call(lk_layer *l, lk_tensor *x, const lki_pass *pass)
{
    const lk_up_sampling_args *a = &((const up_sampling *)l)->set;
    const lki_axes             size = lki_axes_of(a->size);
    (void)pass;
    x = lki_channels_last(a->data_format, x);
    for (int i = size.count; i >= 1 && !lki_bad(x); i--)
        x = a->interpolation > LK_NEAREST
                ? lki_resize(x, i, lki_size_mul(x->shape.dim[i], size.value[i - 1]), a->interpolation, false)
                : repeated(x, i, size.value[i - 1]);
    return lki_channels_back(a->data_format, x);
}

/* Only UpSampling2D interpolates. */
#define SIZE(width_)                                                                                                               \
    LKI_LAYER_FIELDS(lk_up_sampling_args), LKI_FIELD(AXES, lk_up_sampling_args, size, .width = width_, .standard = 2)
static const lki_field FIELDS_2D[] = {
    SIZE(2),
    LKI_DATA_FORMAT_FIELD(lk_up_sampling_args),
    LKI_FIELD(WORD, lk_up_sampling_args, interpolation, .words = lki_interpolation_words, .word_count = LK_INTERPOLATION_COUNT,
              .standard = LK_NEAREST),
};
static const lki_field FIELDS_3D[] = {SIZE(3), LKI_DATA_FORMAT_FIELD(lk_up_sampling_args)};

static lk_layer *up_sampling_new(const char *call_name, int axes, const lki_layer_kind *kind, lk_up_sampling_args a)
{
    static const int64_t twos[] = {2, 2, 2};
    lki_axes             size = {.count = axes};
    if (!lki_per_axis(call_name, "size", axes, a.size, twos, 1, size.value)) return NULL;
    for (int i = 0; i < axes; i++)
        if (size.value[i] > LARGEST) return lki_fail(LK_EINVAL, "%s: a size must be from 1 to %d", call_name, LARGEST), NULL;
    if (!lki_interpolation_fits(call_name, a.interpolation) || !lki_data_format_fits(call_name, a.data_format)) return NULL;
    if (a.interpolation == LK_AREA)
        return lki_fail(LK_EINVAL, "%s: LK_AREA does not make pictures larger; use LK_BILINEAR", call_name), NULL;
    if (axes != 2 && a.interpolation > LK_NEAREST)
        return lki_fail(LK_EINVAL, "%s: only images are interpolated; use LK_NEAREST", call_name), NULL;
    a.size = lki_axes_list(&size);
    return lki_layer_new(call_name, kind, &a);
}

#define KIND(title, axes, class_, fields)                                                                                          \
    static void         *make_##title(const void *args) { return lk_##title##_kw(*(const lk_up_sampling_args *)args); }            \
    const lki_layer_kind lki_##title##_kind = {                                                                                    \
        .name = #title,                                                                                                            \
        .class = {.name = class_, .module = "keras.layers", LKI_ARGS(lk_up_sampling_args, fields), .make = make_##title},          \
        .bytes = sizeof(up_sampling),                                                                                              \
        .set = offsetof(up_sampling, set),                                                                                         \
        .output = output,                                                                                                          \
        .call = call};                                                                                                             \
    lk_layer *lk_##title##_kw(lk_up_sampling_args a) { return up_sampling_new("lk_" #title, axes, &lki_##title##_kind, a); }
KIND(up_sampling2d, 2, "UpSampling2D", FIELDS_2D)
KIND(up_sampling3d, 3, "UpSampling3D", FIELDS_3D)
