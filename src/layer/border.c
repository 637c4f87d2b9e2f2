/* ZeroPadding and Cropping along 1 to 3 axes: cells added around a row, or taken away. */
#include "layer/channels.h"
#include "op/gradient.h"

typedef struct border {
    lk_layer       layer;
    lk_border_args set; /* border has two values for each axis: before and after its cells */
} border;

/* Sizes grow by `sign` times the border; -1 stays. */
static lk_status output_border(const lk_layer *l, const lk_shape *in, lk_shape *out, int sign)
{
    static const char *const SIZES[4][3] = {{""}, {"length"}, {"height", "width"}, {"depth", "height", "width"}};
    const lk_border_args    *a = &((const border *)l)->set;
    const lki_axes           sides = lki_axes_of(a->border);
    const int                axes = sides.count / 2;
    lk_shape                 row;
    LKI_TRY(lki_row_along(l, axes, a->data_format, in, &row));
    for (int i = 0; i < axes; i++) {
        const int64_t n = row.dim[i], before = sides.value[2 * i], after = sides.value[2 * i + 1];
        if (n < 0) continue;
        row.dim[i] = lki_size_add(n, sign * lki_size_add(before, after));
        if (row.dim[i] < 1)
            return lki_layer_refuse(l, in, "nothing is left of a %s of %lld without %lld and %lld", SIZES[axes][i], (long long)n,
                                    (long long)before, (long long)after);
    }
    *out = lki_row_back(a->data_format, &row);
    return LK_OK;
}

static lk_status output_padding(const lk_layer *l, const lk_shape *in, lk_shape *out) { return output_border(l, in, out, 1); }
static lk_status output_cropping(const lk_layer *l, const lk_shape *in, lk_shape *out) { return output_border(l, in, out, -1); }

/* The axis of a tensor that is the first with a border. */
static int first_axis(const lk_border_args *a) { return a->data_format == LK_CHANNELS_FIRST ? 2 : 1; }

static lk_tensor *call_padding(lk_layer *l, lk_tensor *x, const lki_pass *pass)
{
    const lk_border_args *a = &((const border *)l)->set;
    const lki_axes        sides = lki_axes_of(a->border);
    lki_axes              before = {0}, after = {0};
    (void)pass;
    if (lki_bad(x)) return x;
    before.count = after.count = x->shape.rank;
    for (int i = 0; i < sides.count / 2; i++) {
        before.value[first_axis(a) + i] = sides.value[2 * i];
        after.value[first_axis(a) + i] = sides.value[2 * i + 1];
    }
    return lk_pad(x, .before = lki_axes_list(&before), .after = lki_axes_list(&after));
}

static lk_tensor *call_cropping(lk_layer *l, lk_tensor *x, const lki_pass *pass)
{
    const lk_border_args *a = &((const border *)l)->set;
    const lki_axes        sides = lki_axes_of(a->border);
    lki_axes              begin = {0}, size = {0};
    (void)pass;
    if (lki_bad(x)) return x;
    begin.count = size.count = x->shape.rank;
    for (int i = 0; i < x->shape.rank; i++)
        size.value[i] = x->shape.dim[i];
    for (int i = 0; i < sides.count / 2; i++) {
        begin.value[first_axis(a) + i] = sides.value[2 * i];
        size.value[first_axis(a) + i] -= sides.value[2 * i] + sides.value[2 * i + 1];
    }
    return lki_slice(x, &begin, &size);
}

/* Keras' Cropping1D has no data_format. */
#define FIELDS(name_, width_, standard_, ...)                                                                                      \
    {                                                                                                                              \
        LKI_LAYER_FIELDS(lk_border_args),                                                                                          \
            LKI_FIELD_AS(name_, PAIRS, lk_border_args, border, .width = width_, .standard = standard_) __VA_ARGS__                 \
    }
#define FORMAT , LKI_DATA_FORMAT_FIELD(lk_border_args)
static const lki_field PADDING_1D[] = FIELDS("padding", 1, 1, FORMAT), PADDING_2D[] = FIELDS("padding", 2, 1, FORMAT),
                       PADDING_3D[] = FIELDS("padding", 3, 1, FORMAT), CROPPING_1D[] = FIELDS("cropping", 1, 1, ),
                       CROPPING_2D[] = FIELDS("cropping", 2, 0, FORMAT), CROPPING_3D[] = FIELDS("cropping", 3, 1, FORMAT);

/* One value for all sides, one for each axis (in one dimension one before and one after), or two for each axis. */
static bool sides_of(const char *call, int axes, lk_axes list, int64_t standard, lki_axes *sides)
{
    static const char *const COUNTS[] = {"", "one or two values", "one, two or four values", "one, three or six values"};
    const lki_axes           given = lki_axes_of(list);
    const int                count = given.count;
    bool                     good = count == 0 || count == 1 || count == axes || count == 2 * axes;
    *sides = (lki_axes){.count = 2 * axes};
    for (int i = 0; good && i < 2 * axes; i++) {
        sides->value[i] = count == 0 ? standard : given.value[count == 1 ? 0 : count == axes ? i / 2 : i];
        good = sides->value[i] >= 0 && sides->value[i] <= INT32_MAX;
    }
    if (!good) lki_fail(LK_EINVAL, "%s: the border must be %s of 0 or more, at most %d", call, COUNTS[axes], INT32_MAX);
    return good;
}

static lk_layer *border_new(const char *call, int axes, const lki_layer_kind *kind, lk_border_args a)
{
    const lki_field *border_field = &kind->class.field[LKI_LAYER_TRAINABLE + 1];
    lki_axes         sides;
    if (!sides_of(call, axes, a.border, (int64_t)border_field->standard, &sides) || !lki_data_format_fits(call, a.data_format))
        return NULL;
    if (a.data_format != LK_CHANNELS_LAST && kind == &lki_cropping1d_kind)
        return lki_fail(LK_EINVAL, "%s: data_format is given, but it has none", call), NULL;
    a.border = lki_axes_list(&sides);
    return lki_layer_new(call, kind, &a);
}

#define KIND(title, axes, class_, fields, output_, call_)                                                                          \
    static void         *make_##title(const void *args) { return lk_##title##_kw(*(const lk_border_args *)args); }                 \
    const lki_layer_kind lki_##title##_kind = {                                                                                    \
        .name = #title,                                                                                                            \
        .class = {.name = class_, .module = "keras.layers", LKI_ARGS(lk_border_args, fields), .make = make_##title},               \
        .bytes = sizeof(border),                                                                                                   \
        .set = offsetof(border, set),                                                                                              \
        .output = output_,                                                                                                         \
        .call = call_};                                                                                                            \
    lk_layer *lk_##title##_kw(lk_border_args a) { return border_new("lk_" #title, axes, &lki_##title##_kind, a); }
KIND(zero_padding1d, 1, "ZeroPadding1D", PADDING_1D, output_padding, call_padding)
KIND(zero_padding2d, 2, "ZeroPadding2D", PADDING_2D, output_padding, call_padding)
KIND(zero_padding3d, 3, "ZeroPadding3D", PADDING_3D, output_padding, call_padding)
KIND(cropping1d, 1, "Cropping1D", CROPPING_1D, output_cropping, call_cropping)
KIND(cropping2d, 2, "Cropping2D", CROPPING_2D, output_cropping, call_cropping)
KIND(cropping3d, 3, "Cropping3D", CROPPING_3D, output_cropping, call_cropping)
