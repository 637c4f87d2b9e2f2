/* Resizing and CenterCrop: pictures of a fixed size. Rows are [height, width, channels], or [channels, height, width]. */
#include "layer/channels.h"
#include "layer/resize.h"

/* Rows of this size; an error if the row is not a picture with at least one pixel. */
static lk_status output_of(const lk_layer *l, lk_data_format format, int64_t height, int64_t width, const lk_shape *in,
                           lk_shape *out)
{
    lk_shape row;
    LKI_TRY(lki_row_along(l, 2, format, in, &row));
    if (row.dim[0] == 0 || row.dim[1] == 0) return lki_layer_refuse(l, in, "a picture should have at least one pixel");
    row.dim[0] = height;
    row.dim[1] = width;
    *out = lki_row_back(format, &row);
    return LK_OK;
}

static bool size_fits(const char *call, int64_t height, int64_t width)
{
    if (height >= 1 && width >= 1) return true;
    lki_fail(LK_EINVAL, "%s: height is %lld and width %lld; they must be at least 1", call, (long long)height, (long long)width);
    return false;
}

/* ---- resizing ---- */

typedef struct resizing {
    lk_layer         layer;
    lk_resizing_args set;
} resizing;

static lk_status output_resizing(const lk_layer *l, const lk_shape *in, lk_shape *out)
{
    const lk_resizing_args *a = &((const resizing *)l)->set;
    return output_of(l, a->data_format, a->height, a->width, in, out);
}

/* How long the other side of a picture is, with this side, in the proportions a : b; computed in float, as in Keras. */
static int64_t proportional(int64_t side, int64_t a, int64_t b) { return (int64_t)((float)lki_size_mul(side, a) / (float)b); }

static lk_tensor *cropped(const lk_resizing_args *a, lk_tensor *x)
{
    const int64_t height = x->shape.dim[1], width = x->shape.dim[2];
    return lki_middle(x, lki_max(1, lki_min(height, proportional(width, a->height, a->width))),
                      lki_max(1, lki_min(width, proportional(height, a->width, a->height))));
}

/* As many pixels on both sides. */
static lk_tensor *padded(const lk_resizing_args *a, lk_tensor *x)
{
    const int64_t height = x->shape.dim[1], width = x->shape.dim[2];
    const int64_t top = lki_max(0, proportional(width, a->height, a->width) - height) / 2;
    const int64_t left = lki_max(0, proportional(height, a->width, a->height) - width) / 2;
    return top || left ? lk_pad(x, LK_AXES(0, top, left, 0), LK_AXES(0, top, left, 0), .value = a->fill_value) : x;
}

static lk_tensor *call_resizing(lk_layer *l, lk_tensor *x, const lki_pass *pass)
{
    const lk_resizing_args *a = &((const resizing *)l)->set;
    const lk_interpolation  how = a->interpolation ? a->interpolation : LK_BILINEAR;
    (void)pass;
    x = lki_channels_last(a->data_format, x);
    if (lki_bad(x)) return x;
    if (a->crop_to_aspect_ratio == LK_ON) x = cropped(a, x);
    else if (a->pad_to_aspect_ratio == LK_ON) x = padded(a, x);
    x = lki_resize(x, 1, a->height, how, a->antialias == LK_ON);
    x = lki_resize(x, 2, a->width, how, a->antialias == LK_ON);
    return lki_channels_back(a->data_format, x);
}

static void *make_resizing(const void *args) { return lk_resizing_kw(*(const lk_resizing_args *)args); }

static const lki_field RESIZING_FIELDS[] = {
    LKI_LAYER_FIELDS(lk_resizing_args),
    LKI_FIELD(INT, lk_resizing_args, height, .required = true),
    LKI_FIELD(INT, lk_resizing_args, width, .required = true),
    LKI_FIELD(WORD, lk_resizing_args, interpolation, .words = lki_interpolation_words, .word_count = LK_INTERPOLATION_COUNT,
              .standard = LK_BILINEAR),
    LKI_FIELD(SWITCH, lk_resizing_args, crop_to_aspect_ratio),
    LKI_FIELD(SWITCH, lk_resizing_args, pad_to_aspect_ratio),
    LKI_FIXED("fill_mode", "\"constant\""),
    LKI_FIELD(REAL, lk_resizing_args, fill_value),
    LKI_FIELD(SWITCH, lk_resizing_args, antialias),
    LKI_DATA_FORMAT_FIELD(lk_resizing_args),
};

const lki_layer_kind lki_resizing_kind = {
    .name = "resizing",
    .class = {"Resizing", "keras.layers", LKI_ARGS(lk_resizing_args, RESIZING_FIELDS), make_resizing},
    .bytes = sizeof(resizing),
    .set = offsetof(resizing, set),
    .output = output_resizing,
    .call = call_resizing};

lk_layer *lk_resizing_kw(lk_resizing_args a)
{
    static const char CALL[] = "lk_resizing";
    if (!size_fits(CALL, a.height, a.width)) return NULL;
    if (!lki_interpolation_fits(CALL, a.interpolation) || !lki_data_format_fits(CALL, a.data_format)) return NULL;
    if (a.crop_to_aspect_ratio == LK_ON && a.pad_to_aspect_ratio == LK_ON)
        return lki_fail(LK_EINVAL,
                        "%s: a picture is cropped or padded, not both: choose one of crop_to_aspect_ratio and "
                        "pad_to_aspect_ratio",
                        CALL),
               NULL;
    return lki_layer_new(CALL, &lki_resizing_kind, &a);
}

/* ---- the middle ---- */

typedef struct center_crop {
    lk_layer            layer;
    lk_center_crop_args set;
} center_crop;

static lk_status output_center_crop(const lk_layer *l, const lk_shape *in, lk_shape *out)
{
    const lk_center_crop_args *a = &((const center_crop *)l)->set;
    return output_of(l, a->data_format, a->height, a->width, in, out);
}

static lk_tensor *call_center_crop(lk_layer *l, lk_tensor *x, const lki_pass *pass)
{
    const lk_center_crop_args *a = &((const center_crop *)l)->set;
    (void)pass;
    x = lki_channels_last(a->data_format, x);
    if (lki_bad(x)) return x;
    const bool fits = x->shape.dim[1] >= a->height && x->shape.dim[2] >= a->width;
    return lki_channels_back(a->data_format, (fits ? lki_middle : lki_middle_resized)(x, a->height, a->width));
}

static void *make_center_crop(const void *args) { return lk_center_crop_kw(*(const lk_center_crop_args *)args); }

static const lki_field CENTER_CROP_FIELDS[] = {
    LKI_LAYER_FIELDS(lk_center_crop_args),
    LKI_FIELD(INT, lk_center_crop_args, height, .required = true),
    LKI_FIELD(INT, lk_center_crop_args, width, .required = true),
    LKI_DATA_FORMAT_FIELD(lk_center_crop_args),
};

const lki_layer_kind lki_center_crop_kind = {
    .name = "center_crop",
    .class = {"CenterCrop", "keras.layers", LKI_ARGS(lk_center_crop_args, CENTER_CROP_FIELDS), make_center_crop},
    .bytes = sizeof(center_crop),
    .set = offsetof(center_crop, set),
    .output = output_center_crop,
    .call = call_center_crop};

lk_layer *lk_center_crop_kw(lk_center_crop_args a)
{
    if (!size_fits("lk_center_crop", a.height, a.width) || !lki_data_format_fits("lk_center_crop", a.data_format)) return NULL;
    return lki_layer_new("lk_center_crop", &lki_center_crop_kind, &a);
}
