/* RandomCrop: a window of a picture, at random while training; otherwise the middle. */
#include "layer/picture.h"
#include "layer/resize.h"

typedef struct crop_arguments {
    lk_random_crop_args ask;
    lk_switch crop_middle; /* outside training: crop the middle, as layers made in C do; else resize the whole picture, as in
                            * Keras */
} crop_arguments;

typedef struct crop {
    lk_layer       layer;
    crop_arguments set;
} crop;

static lk_status output(const lk_layer *l, const lk_shape *in, lk_shape *out)
{
    const lk_random_crop_args *a = &((const crop *)l)->set.ask;
    lk_shape                   row;
    LKI_TRY(lki_row_along(l, 2, a->data_format, in, &row));
    if (row.dim[0] == 0 || row.dim[1] == 0) return lki_layer_refuse(l, in, "a picture should have at least one pixel");
    row.dim[0] = a->height;
    row.dim[1] = a->width;
    *out = lki_row_back(a->data_format, &row);
    return LK_OK;
}

/* Where a window of `size` begins within `whole` pixels, for each row: i32 [n, 1]. */
static lk_tensor *window_start(const lk_layer *l, const lki_pass *pass, lk_tensor *x, int64_t whole, int64_t size, int call)
{
    const double last = (double)(whole - size);
    lk_tensor   *u = lki_row_draw(l, pass, x, LK_SHAPE(1), call);
    return lk_cast(lk_minimum(lk_floor(lk_mul(u, lk_scalar(last + 1))), lk_scalar(last)), LK_I32);
}

static lk_tensor *random_window(const lk_layer *l, const lki_pass *pass, lk_tensor *x, int64_t height, int64_t width)
{
    lk_tensor *top = window_start(l, pass, x, x->shape.dim[1], height, 0),
              *left = window_start(l, pass, x, x->shape.dim[2], width, 1);
    lk_tensor *row = lk_add(lki_every_pixel(height, width, LK_I32, true), top),
              *column = lk_add(lki_every_pixel(height, width, LK_I32, false), left);
    return lk_reshape(lki_pixels_at(x, row, column), LK_SHAPE(x->shape.dim[0], height, width, x->shape.dim[3]));
}

static lk_tensor *cropped(const lk_layer *l, const lki_pass *pass, lk_tensor *x)
{
    const crop_arguments *a = &((const crop *)l)->set;
    const int64_t         height = a->ask.height, width = a->ask.width;
    const bool            fits = x->shape.dim[1] >= height && x->shape.dim[2] >= width;
    if (pass->training && fits) return random_window(l, pass, x, height, width);
    return fits && a->crop_middle == LK_ON ? lki_middle(x, height, width) : lki_middle_resized(x, height, width);
}

static lk_tensor *call_crop(lk_layer *l, lk_tensor *x, const lki_pass *pass)
{
    const lk_data_format format = ((const crop *)l)->set.ask.data_format;
    x = lki_channels_last(format, x);
    return lki_bad(x) ? x : lki_channels_back(format, cropped(l, pass, x));
}

static void *make_crop(const void *args);

static const lki_field CROP_FIELDS[] = {
    LKI_LAYER_FIELDS(lk_random_crop_args),
    LKI_DATA_FORMAT_FIELD(lk_random_crop_args),
    LKI_FIELD(INT, lk_random_crop_args, height, .required = true),
    LKI_FIELD(INT, lk_random_crop_args, width, .required = true),
    LKI_FIELD(NUMBER, lk_random_crop_args, seed, .none = true),
    LKI_FIELD(SWITCH, crop_arguments, crop_middle, .ours = true),
};

const lki_layer_kind lki_random_crop_kind = {
    .name = "random_crop",
    .class = {"RandomCrop", "keras.layers", LKI_ARGS(crop_arguments, CROP_FIELDS), make_crop},
    .bytes = sizeof(crop),
    .set = offsetof(crop, set),
    .draws = true,
    .output = output,
    .call = call_crop};

/* From a file's config. */
static void *make_crop(const void *args)
{
    const lk_random_crop_args a = ((const crop_arguments *)args)->ask;
    if (a.height < 1 || a.width < 1)
        return lki_fail(LK_EINVAL, "lk_random_crop: height is %lld and width %lld; they must be at least 1", (long long)a.height,
                        (long long)a.width),
               NULL;
    if (!lki_data_format_fits("lk_random_crop", a.data_format)) return NULL;
    return lki_layer_new("lk_random_crop", &lki_random_crop_kind, args);
}

lk_layer *lk_random_crop_kw(lk_random_crop_args a) { return make_crop(&(crop_arguments){a, LK_ON}); }
