/* RandomFlip, RandomRotation and RandomCrop: random changes to pictures while training. Rows are [height, width, channels].
 *
 * The change of a row depends on the seed, the layer's place, the model's training call and the global row, so every division of a
 * batch over replicas makes the same pictures. Rotated and cropped pictures are gathered pixel by pixel: a picture is [pixels,
 * channels] then, and each row has its own list of pixels. */
#include "core/memory.h"
#include "layer/layer.h"
#include "op/gradient.h"
#include <math.h>

#define TURN 6.28318530717958647692

/* A number in [0, 1) per row; `row` has axes of size 1. */
static lk_tensor *draw(const lk_layer *l, const lki_pass *pass, lk_tensor *x, lk_shape row, int call)
{
    return lk_random_uniform(row, .rows_of = x, .stream = lki_layer_stream(l), .iteration = pass->iteration, .call = call);
}

static lk_status same_pictures(const lk_layer *l, const lk_shape *in, lk_shape *out)
{
    if (in->rank != 3) return lki_layer_refuse(l, in, "a row should be [height, width, channels]");
    *out = *in;
    return LK_OK;
}

/* ---- flip ---- */

typedef struct flip {
    lk_layer            layer;
    lk_random_flip_args set;
} flip;

enum { VERTICAL = 1, HORIZONTAL = 2 }; /* axes of a batch */

static lk_tensor *flipped(const lk_layer *l, const lki_pass *pass, lk_tensor *x, int axis)
{
    lk_tensor *heads = lk_less(draw(l, pass, x, LK_SHAPE(1, 1, 1), axis), lk_scalar(0.5));
    return lk_where(heads, lk_reverse(x, LK_AXES(axis)), x);
}

static lk_tensor *call_flip(lk_layer *l, lk_tensor *x, const lki_pass *pass)
{
    const lk_flip mode = ((const flip *)l)->set.mode;
    if (!pass->training || lki_bad(x)) return x;
    if (mode != LK_FLIP_VERTICAL) x = flipped(l, pass, x, HORIZONTAL);
    return mode != LK_FLIP_HORIZONTAL ? flipped(l, pass, x, VERTICAL) : x;
}

static void *make_flip(const void *args) { return lk_random_flip_kw(*(const lk_random_flip_args *)args); }

static const char *const FLIPS[] = {
    [LK_FLIP_BOTH] = "horizontal_and_vertical", [LK_FLIP_HORIZONTAL] = "horizontal", [LK_FLIP_VERTICAL] = "vertical"};

static const lki_field FLIP_FIELDS[] = {
    LKI_LAYER_FIELDS(lk_random_flip_args),
    LKI_CHANNELS_LAST,
    LKI_FIELD(NUMBER, lk_random_flip_args, seed, .none = true),
    LKI_FIELD(WORD, lk_random_flip_args, mode, .words = FLIPS, .word_count = LKI_COUNT(FLIPS)),
};

const lki_layer_kind lki_random_flip_kind = {
    .name = "random_flip",
    .class = {"RandomFlip", "keras.layers", LKI_ARGS(lk_random_flip_args, FLIP_FIELDS), make_flip},
    .bytes = sizeof(flip),
    .set = offsetof(flip, set),
    .draws = true,
    .output = same_pictures,
    .call = call_flip};

lk_layer *lk_random_flip_kw(lk_random_flip_args a)
{
    if ((unsigned)a.mode >= LKI_COUNT(FLIPS)) return lki_fail(LK_EINVAL, "lk_random_flip: there is no mode %d", (int)a.mode), NULL;
    return lki_layer_new("lk_random_flip", &lki_random_flip_kind, &a);
}

/* ---- pixels of each row's own ---- */

/* x [n, height, width, channels]; the pixels at (y, x), i32 [n, count] each: [n, count, channels]. */
static lk_tensor *pixels_at(lk_tensor *x, lk_tensor *row, lk_tensor *column)
{
    const int64_t *dim = x->shape.dim;
    lk_tensor     *flat = lk_reshape(x, LK_SHAPE(dim[0], lki_size_mul(dim[1], dim[2]), dim[3]));
    lk_tensor     *ids = lk_add(lk_mul(row, lk_fill((lk_shape){0}, LK_I32, (double)dim[2])), column);
    return lki_apply2(LKI_OP_row_gather, NULL, flat, ids);
}

/* 0 0 0 1 1 1 ... and 0 1 2 0 1 2 ...: the row or column of each pixel of a picture, [1, height * width]. */
static lk_tensor *every(int64_t height, int64_t width, lk_dtype dtype, bool rows)
{
    lk_tensor *pixel = lk_range(lki_size_mul(height, width), LK_I32), *wide = lk_fill((lk_shape){0}, LK_I32, (double)width);
    return lk_cast(lk_expand_dims(rows ? lk_floordiv(pixel, wide) : lk_mod(pixel, wide), 0), dtype);
}

/* ---- rotation ---- */

typedef struct rotation_arguments {
    lk_random_rotation_args ask;
    lk_tensor              *range; /* [low, high], as in a file */
} rotation_arguments;

typedef struct rotation {
    lk_layer           layer;
    rotation_arguments set;
    double             low, high; /* in turns */
} rotation;

/* The coordinate to use for one outside of `size` pixels, as in TensorFlow's ImageProjectiveTransform; coordinates inside do not
 * change. */
typedef lk_tensor *fill_fn(lk_tensor *at, double size);

static lk_tensor *nowhere(lk_tensor *at, double size)
{
    (void)size;
    return at;
}

static lk_tensor *nearest(lk_tensor *at, double size) { return lk_clip(at, 0, size - 1); }

static lk_tensor *reflected(lk_tensor *at, double size) /* d c b a | a b c d | d c b a */
{
    lk_tensor *around = lk_mod(at, lk_scalar(2 * size));
    return nearest(lk_where(lk_less(around, lk_scalar(size)), around, lk_sub(lk_scalar(2 * size - 1), around)), size);
}

static lk_tensor *wrapped(lk_tensor *at, double size) /* a b c d | a b c d | a b c d */
{
    lk_tensor *rounds = lk_floor(lk_div(lk_abs(at), lk_scalar(fmax(1, size - 1))));
    lk_tensor *from_below = lk_add(at, lk_mul(lk_add(rounds, lk_scalar(1)), lk_scalar(size)));
    lk_tensor *from_above = lk_sub(at, lk_mul(rounds, lk_scalar(size)));
    lk_tensor *inside = lk_where(lk_greater(at, lk_scalar(size - 1)), from_above, at);
    return nearest(lk_where(lk_less(at, lk_scalar(0)), from_below, inside), size);
}

static const char *const FILLS[] = {
    [LK_FILL_REFLECT] = "reflect", [LK_FILL_CONSTANT] = "constant", [LK_FILL_WRAP] = "wrap", [LK_FILL_NEAREST] = "nearest"};
static fill_fn *const FILL[] = {
    [LK_FILL_REFLECT] = reflected, [LK_FILL_CONSTANT] = nowhere, [LK_FILL_WRAP] = wrapped, [LK_FILL_NEAREST] = nearest};

typedef struct places { /* f32 [n, pixels] each */
    lk_tensor *row, *column;
} places;

/* The source coordinates of each pixel of the rotated picture. */
static places turned(lk_tensor *angle, const lk_shape *x, fill_fn *fill)
{
    const double cy = (double)(x->dim[1] - 1) / 2, cx = (double)(x->dim[2] - 1) / 2;
    lk_tensor   *dy = lk_sub(every(x->dim[1], x->dim[2], LK_F32, true), lk_scalar(cy));
    lk_tensor   *dx = lk_sub(every(x->dim[1], x->dim[2], LK_F32, false), lk_scalar(cx));
    lk_tensor   *cosine = lk_cos(angle), *sine = lk_sin(angle);
    lk_tensor   *column = lk_add(lk_sub(lk_mul(cosine, dx), lk_mul(sine, dy)), lk_scalar(cx));
    lk_tensor   *row = lk_add(lk_add(lk_mul(sine, dx), lk_mul(cosine, dy)), lk_scalar(cy));
    return (places){fill(row, (double)x->dim[1]), fill(column, (double)x->dim[2])};
}

static lk_tensor *within(lk_tensor *at, int64_t size)
{
    return lk_logical_and(lk_greater_equal(at, lk_scalar(0)), lk_less_equal(at, lk_scalar((double)(size - 1))));
}

/* The pixels at integer coordinates, [n, pixels, channels]; outside the picture `fill`, or if that is NULL the nearest pixel. */
static lk_tensor *pixels_or(lk_tensor *x, places at, const double *fill)
{
    const int64_t height = x->shape.dim[1], width = x->shape.dim[2];
    lk_tensor    *row = lk_clip(at.row, 0, (double)(height - 1)), *column = lk_clip(at.column, 0, (double)(width - 1));
    lk_tensor    *pixels = pixels_at(x, lk_cast(row, LK_I32), lk_cast(column, LK_I32));
    if (!fill) return pixels;
    lk_tensor *inside = lk_logical_and(within(at.row, height), within(at.column, width));
    return lk_where(lk_expand_dims(inside, -1), pixels, lk_scalar(*fill));
}

/* Halves away from zero. */
static lk_tensor *rounded(lk_tensor *at) { return lk_mul(lk_sign(at), lk_floor(lk_add(lk_abs(at), lk_scalar(0.5)))); }

static lk_tensor *nearest_pixels(lk_tensor *x, places at, const double *fill)
{
    return pixels_or(x, (places){rounded(at.row), rounded(at.column)}, fill);
}

/* a * (1 - share) + b * share */
static lk_tensor *between(lk_tensor *a, lk_tensor *b, lk_tensor *share)
{
    return lk_add(lk_mul(a, lk_sub(lk_scalar(1), share)), lk_mul(b, share));
}

static lk_tensor *bilinear_pixels(lk_tensor *x, places at, const double *fill)
{
    lk_tensor *top = lk_floor(at.row), *left = lk_floor(at.column), *down = lk_add(top, lk_scalar(1)),
              *right = lk_add(left, lk_scalar(1));
    lk_tensor *share_y = lk_expand_dims(lk_sub(at.row, top), -1), *share_x = lk_expand_dims(lk_sub(at.column, left), -1);
    lk_tensor *above = between(pixels_or(x, (places){top, left}, fill), pixels_or(x, (places){top, right}, fill), share_x);
    lk_tensor *below = between(pixels_or(x, (places){down, left}, fill), pixels_or(x, (places){down, right}, fill), share_x);
    return between(above, below, share_y);
}

static lk_tensor *call_rotation(lk_layer *l, lk_tensor *x, const lki_pass *pass)
{
    const rotation                *r = (const rotation *)l;
    const lk_random_rotation_args *a = &r->set.ask;
    if (!pass->training || lki_bad(x) || (r->low == 0 && r->high == 0) || !lki_shape_size_from(&x->shape, 1)) return x;
    lk_tensor *angle =
        lk_add(lk_mul(draw(l, pass, x, LK_SHAPE(1), 0), lk_scalar((r->high - r->low) * TURN)), lk_scalar(r->low * TURN));
    places     from = turned(angle, &x->shape, FILL[a->fill_mode]);
    lk_tensor *y = (a->interpolation == LK_NEAREST ? nearest_pixels : bilinear_pixels)(
        x, from, a->fill_mode == LK_FILL_CONSTANT ? &a->fill_value : NULL);
    return lki_bad(y) ? y : lk_reshape(y, x->shape);
}

static void *make_rotation(const void *args);

static const char *const INTERPOLATIONS[] = {[LK_NEAREST] = "nearest", [LK_BILINEAR] = "bilinear"};

static const lki_field ROTATION_FIELDS[] = {
    LKI_LAYER_FIELDS(lk_random_rotation_args), /* the arguments begin with these */
    LKI_CHANNELS_LAST,
    LKI_FIELD_AS("factor", ARRAY, rotation_arguments, range, .required = true, .dtype = LK_F64),
    LKI_FIELD(WORD, lk_random_rotation_args, fill_mode, .words = FILLS, .word_count = LKI_COUNT(FILLS)),
    LKI_FIELD(REAL, lk_random_rotation_args, fill_value),
    LKI_FIELD(WORD, lk_random_rotation_args, interpolation, .words = INTERPOLATIONS, .word_count = LKI_COUNT(INTERPOLATIONS),
              .standard = LK_BILINEAR),
    LKI_FIELD(NUMBER, lk_random_rotation_args, seed, .none = true),
};

const lki_layer_kind lki_random_rotation_kind = {
    .name = "random_rotation",
    .class = {"RandomRotation", "keras.layers", LKI_ARGS(rotation_arguments, ROTATION_FIELDS), make_rotation},
    .bytes = sizeof(rotation),
    .set = offsetof(rotation, set),
    .draws = true,
    .output = same_pictures,
    .call = call_rotation};

static bool rotation_fits(const lk_random_rotation_args *a, double low)
{
    if (!(low >= -1 && a->factor <= 1 && low <= a->factor))
        return lki_fail(LK_EINVAL, "lk_random_rotation: from %g to %g of a turn; it must be from at least -1 up to at most 1", low,
                        a->factor),
               false;
    if ((unsigned)a->fill_mode >= LKI_COUNT(FILLS))
        return lki_fail(LK_EINVAL, "lk_random_rotation: there is no fill_mode %d", (int)a->fill_mode), false;
    if ((unsigned)a->interpolation >= LKI_COUNT(INTERPOLATIONS))
        return lki_fail(LK_EINVAL, "lk_random_rotation: there is no interpolation %d", (int)a->interpolation), false;
    return true;
}

lk_layer *lk_random_rotation_kw(lk_random_rotation_args a)
{
    const double range[2] = {lki_number_or(a.low, -a.factor), a.factor};
    if (!rotation_fits(&a, range[0])) return NULL;
    rotation_arguments all = {a, lk_tensor_from(LK_SHAPE(2), LK_F64, range)};
    if (lki_bad(all.range)) return NULL;
    rotation *r = lki_layer_new("lk_random_rotation", &lki_random_rotation_kind, &all);
    lk_free(all.range);
    if (!r) return NULL;
    r->low = range[0];
    r->high = range[1];
    return &r->layer;
}

/* A single number is used for both directions. */
static void *make_rotation(const void *args)
{
    lk_random_rotation_args a = ((const rotation_arguments *)args)->ask;
    lk_tensor              *range = lk_cast(((const rotation_arguments *)args)->range, LK_F64);
    const double           *from = lki_bad(range) ? NULL : lk_data(range);
    if (!from || (lk_size(range) != 2 && lk_rank(range) > 0))
        return lki_fail(LK_EINVAL, "lk_random_rotation: the factor should be a number, or two"), NULL;
    a.factor = lk_rank(range) ? from[1] : fabs(from[0]);
    a.low = LK_NUMBER(lk_rank(range) ? from[0] : -fabs(from[0]));
    return lk_random_rotation_kw(a);
}

/* ---- crop ---- */

typedef struct crop_arguments {
    lk_random_crop_args ask;
    lk_switch crop_middle; /* outside training: crop the middle, as layers made in C do; else resize the whole picture, as in
                            * Keras */
} crop_arguments;

typedef struct crop {
    lk_layer       layer;
    crop_arguments set;
} crop;

static lk_status output_crop(const lk_layer *l, const lk_shape *in, lk_shape *out)
{
    LKI_TRY(same_pictures(l, in, out));
    if (in->dim[0] == 0 || in->dim[1] == 0) return lki_layer_refuse(l, in, "a picture should have at least one pixel");
    out->dim[0] = ((const crop *)l)->set.ask.height;
    out->dim[1] = ((const crop *)l)->set.ask.width;
    return LK_OK;
}

/* Where a window of `size` begins within `whole` pixels, for each row: i32 [n, 1]. */
static lk_tensor *window_start(const lk_layer *l, const lki_pass *pass, lk_tensor *x, int64_t whole, int64_t size, int call)
{
    const double last = (double)(whole - size);
    lk_tensor   *u = draw(l, pass, x, LK_SHAPE(1), call);
    return lk_cast(lk_minimum(lk_floor(lk_mul(u, lk_scalar(last + 1))), lk_scalar(last)), LK_I32);
}

static lk_tensor *random_window(const lk_layer *l, const lki_pass *pass, lk_tensor *x, int64_t height, int64_t width)
{
    lk_tensor *top = window_start(l, pass, x, x->shape.dim[1], height, 0),
              *left = window_start(l, pass, x, x->shape.dim[2], width, 1);
    lk_tensor *row = lk_add(every(height, width, LK_I32, true), top), *column = lk_add(every(height, width, LK_I32, false), left);
    return lk_reshape(pixels_at(x, row, column), LK_SHAPE(x->shape.dim[0], height, width, x->shape.dim[3]));
}

/* Bilinear with aligned pixel centres, along axis 1 or 2 of a batch of pictures. */
static lk_tensor *resized(lk_tensor *x, int axis, int64_t size)
{
    const int64_t from = lk_dim(x, axis);
    if (lki_bad(x) || from == size) return x;
    int32_t   *id LKI_RELEASED = lki_alloc_array(size, 2 * sizeof *id);
    float     *share LKI_RELEASED = lki_alloc_array(size, sizeof *share);
    lk_tensor *y = &lki_poison;
    if (id && share) {
        for (int64_t i = 0; i < size; i++) {
            const float at = ((float)i + 0.5f) * ((float)from / (float)size) - 0.5f, below = floorf(at);
            id[i] = (int32_t)fmaxf(below, 0);
            id[size + i] = (int32_t)fminf(ceilf(at), (float)(from - 1));
            share[i] = at - below;
        }
        lk_tensor *s = lk_tensor_from(axis == 1 ? LK_SHAPE(size, 1, 1) : LK_SHAPE(size, 1), LK_F32, share);
        lk_tensor *a = lk_gather(x, lk_tensor_from(LK_SHAPE(size), LK_I32, id), axis);
        lk_tensor *b = lk_gather(x, lk_tensor_from(LK_SHAPE(size), LK_I32, id + size), axis);
        y = lk_add(a, lk_mul(lk_sub(b, a), s));
    }
    return y;
}

/* A window in the middle; if the difference is odd, one pixel less above and to the left. */
static lk_tensor *middle_window(lk_tensor *x, int64_t height, int64_t width)
{
    const int64_t *dim = x->shape.dim;
    return lk_slice(x, LK_AXES(0, (dim[1] - height) / 2, (dim[2] - width) / 2, 0), LK_AXES(-1, height, width, -1));
}

/* The largest window with these proportions, in the middle, resized to the requested size. */
static lk_tensor *middle_resized(lk_tensor *x, int64_t height, int64_t width)
{
    const int64_t *dim = x->shape.dim;
    const int64_t  h = lki_max(1, lki_min(dim[1], (int64_t)((double)lki_size_mul(dim[2], height) / (double)width)));
    const int64_t  w = lki_max(1, lki_min(dim[2], (int64_t)((double)lki_size_mul(dim[1], width) / (double)height)));
    return resized(resized(middle_window(x, h, w), 1, height), 2, width);
}

static lk_tensor *call_crop(lk_layer *l, lk_tensor *x, const lki_pass *pass)
{
    const crop_arguments *a = &((const crop *)l)->set;
    const int64_t         height = a->ask.height, width = a->ask.width;
    if (lki_bad(x)) return x;
    const bool fits = x->shape.dim[1] >= height && x->shape.dim[2] >= width;
    if (pass->training && fits) return random_window(l, pass, x, height, width);
    return fits && a->crop_middle == LK_ON ? middle_window(x, height, width) : middle_resized(x, height, width);
}

static void *make_crop(const void *args);

static const lki_field CROP_FIELDS[] = {
    LKI_LAYER_FIELDS(lk_random_crop_args),
    LKI_CHANNELS_LAST,
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
    .output = output_crop,
    .call = call_crop};

/* From a file's config. */
static void *make_crop(const void *args)
{
    const lk_random_crop_args a = ((const crop_arguments *)args)->ask;
    if (a.height < 1 || a.width < 1)
        return lki_fail(LK_EINVAL, "lk_random_crop: height is %lld and width %lld; they must be at least 1", (long long)a.height,
                        (long long)a.width),
               NULL;
    return lki_layer_new("lk_random_crop", &lki_random_crop_kind, args);
}

lk_layer *lk_random_crop_kw(lk_random_crop_args a) { return make_crop(&(crop_arguments){a, LK_ON}); }
