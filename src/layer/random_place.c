/* RandomRotation, RandomZoom, RandomTranslation, RandomShear and RandomPerspective: pictures whose pixels move, at random while
 * training. Every pixel of the new picture comes from a place of the old one. */
#include "layer/picture.h"
#include <string.h>

#define TURN 6.28318530717958647692

static lk_tensor *draw_one(const lk_layer *l, const lki_pass *pass, lk_tensor *x, int call, lki_range span)
{
    return lki_row_draw_from(l, pass, x, LK_SHAPE(1), call, span);
}

/* x or y of every pixel of x's pictures, f32 [1, pixels]. */
static lk_tensor *across(const lk_tensor *x) { return lki_every_pixel(x->shape.dim[1], x->shape.dim[2], LK_F32, false); }
static lk_tensor *down(const lk_tensor *x) { return lki_every_pixel(x->shape.dim[1], x->shape.dim[2], LK_F32, true); }

/* Places that a kind computes, for pictures with at least one pixel. */
typedef lki_places places_fn(const lk_layer *l, const lki_pass *pass, lk_tensor *x);

static lk_tensor *moved(lk_layer *l, lk_tensor *x, const lki_pass *pass, lk_data_format format, places_fn *places, lki_warp how)
{
    if (!pass->training || lki_bad(x) || !lki_shape_size_from(&x->shape, 1)) return x;
    x = lki_channels_last(format, x);
    return lki_bad(x) ? x : lki_channels_back(format, lki_warped(x, places(l, pass, x), how));
}

#define WARP_OF(a) ((lki_warp){(a)->interpolation, (a)->fill_mode, (a)->fill_value})

/* ---- rotation ---- */

typedef struct rotation {
    lk_layer                layer;
    lk_random_rotation_args set; /* with low */
} rotation;

static lki_places turned(const lk_layer *l, const lki_pass *pass, lk_tensor *x)
{
    const lk_random_rotation_args *a = &((const rotation *)l)->set;
    const double low = lki_number(a->low), cy = (double)(x->shape.dim[1] - 1) / 2, cx = (double)(x->shape.dim[2] - 1) / 2;
    lk_tensor   *u = lki_row_draw(l, pass, x, LK_SHAPE(1), 0);
    lk_tensor   *angle = lk_add(lk_mul(u, lk_scalar((lki_number(a->factor) - low) * TURN)), lk_scalar(low * TURN));
    lk_tensor   *dy = lk_sub(down(x), lk_scalar(cy)), *dx = lk_sub(across(x), lk_scalar(cx));
    lk_tensor   *cosine = lk_cos(angle), *sine = lk_sin(angle);
    lk_tensor   *column = lk_add(lk_sub(lk_mul(cosine, dx), lk_mul(sine, dy)), lk_scalar(cx));
    lk_tensor   *row = lk_add(lk_add(lk_mul(sine, dx), lk_mul(cosine, dy)), lk_scalar(cy));
    return (lki_places){row, column};
}

static lk_tensor *call_rotation(lk_layer *l, lk_tensor *x, const lki_pass *pass)
{
    const lk_random_rotation_args *a = &((const rotation *)l)->set;
    if (lki_number(a->low) == 0 && lki_number(a->factor) == 0) return x;
    return moved(l, x, pass, a->data_format, turned, WARP_OF(a));
}

static lk_status output_rotation(const lk_layer *l, const lk_shape *in, lk_shape *out)
{
    return lki_picture_same(l, ((const rotation *)l)->set.data_format, in, out);
}

static void *make_rotation(const void *args) { return lk_random_rotation_kw(*(const lk_random_rotation_args *)args); }

static const lki_field ROTATION_FIELDS[] = {
    LKI_LAYER_FIELDS(lk_random_rotation_args),
    LKI_DATA_FORMAT_FIELD(lk_random_rotation_args),
    LKI_FIELD(RANGE, lk_random_rotation_args, factor, .required = true),
    LKI_FILL_FIELD(lk_random_rotation_args),
    LKI_WARP_FIELDS(lk_random_rotation_args),
    LKI_FIELD(NUMBER, lk_random_rotation_args, seed, .none = true),
};

const lki_layer_kind lki_random_rotation_kind = {
    .name = "random_rotation",
    .class = {"RandomRotation", "keras.layers", LKI_ARGS(lk_random_rotation_args, ROTATION_FIELDS), make_rotation},
    .bytes = sizeof(rotation),
    .set = offsetof(rotation, set),
    .draws = true,
    .output = output_rotation,
    .call = call_rotation};

lk_layer *lk_random_rotation_kw(lk_random_rotation_args a)
{
    static const char CALL[] = "lk_random_rotation";
    lki_range         span;
    if (!lki_range_of(CALL, "factor", a.factor, a.low, (lki_limits){-1, 1, true}, &span)) return NULL;
    if (!lki_warp_fits(CALL, a.fill_mode, a.interpolation) || !lki_data_format_fits(CALL, a.data_format)) return NULL;
    lki_range_keep(span, &a.factor, &a.low);
    return lki_layer_new(CALL, &lki_random_rotation_kind, &a);
}

/* ---- zoom and translation ---- */

typedef struct mover {
    lk_layer            layer;
    lk_random_move_args set;
    lki_range           height, width;
} mover;

/* The place on a side of this size, from the middle. */
static lk_tensor *zoomed_side(lk_tensor *at, int64_t size, lk_tensor *zoom)
{
    return lk_add(lk_mul(zoom, at), lk_mul(lk_scalar((double)(size - 1) / 2), lk_sub(lk_scalar(1), zoom)));
}

static lki_places zoomed(const lk_layer *l, const lki_pass *pass, lk_tensor *x)
{
    const mover *m = (const mover *)l;
    lk_tensor   *high = draw_one(l, pass, x, 0, (lki_range){1 + m->height.low, 1 + m->height.high}), *wide = high;
    if (lki_number_given(m->set.width_factor)) wide = draw_one(l, pass, x, 1, (lki_range){1 + m->width.low, 1 + m->width.high});
    return (lki_places){zoomed_side(down(x), x->shape.dim[1], high), zoomed_side(across(x), x->shape.dim[2], wide)};
}

static lki_places shifted(const lk_layer *l, const lki_pass *pass, lk_tensor *x)
{
    const mover *m = (const mover *)l;
    lk_tensor   *dy = lk_mul(draw_one(l, pass, x, 0, m->height), lk_scalar((double)x->shape.dim[1]));
    lk_tensor   *dx = lk_mul(draw_one(l, pass, x, 1, m->width), lk_scalar((double)x->shape.dim[2]));
    return (lki_places){lk_sub(down(x), dy), lk_sub(across(x), dx)};
}

static lk_status output_mover(const lk_layer *l, const lk_shape *in, lk_shape *out)
{
    return lki_picture_same(l, ((const mover *)l)->set.data_format, in, out);
}

static lk_tensor *call_zoom(lk_layer *l, lk_tensor *x, const lki_pass *pass)
{
    const lk_random_move_args *a = &((const mover *)l)->set;
    return moved(l, x, pass, a->data_format, zoomed, WARP_OF(a));
}

static lk_tensor *call_translation(lk_layer *l, lk_tensor *x, const lki_pass *pass)
{
    const lk_random_move_args *a = &((const mover *)l)->set;
    return moved(l, x, pass, a->data_format, shifted, WARP_OF(a));
}

static lk_layer *mover_new(const char *call, const lki_layer_kind *kind, lk_random_move_args a)
{
    const bool       zoom = kind == &lki_random_zoom_kind;
    const lki_limits limits = {-1, 1, true};
    lki_range        height, width = {0};
    if (!lki_range_of(call, "height_factor", a.height_factor, a.height_low, limits, &height)) return NULL;
    if ((!zoom || lki_number_given(a.width_factor)) &&
        !lki_range_of(call, "width_factor", a.width_factor, a.width_low, limits, &width))
        return NULL;
    if (zoom && (lki_number(a.height_factor) <= -1 || lki_number(a.width_factor) <= -1 || lki_number(a.height_low) <= -1 ||
                 lki_number(a.width_low) <= -1))
        return lki_fail(LK_EINVAL, "%s: a factor is -1, which would make a picture infinitely large; it must be larger", call),
               NULL;
    if (!lki_warp_fits(call, a.fill_mode, a.interpolation) || !lki_data_format_fits(call, a.data_format)) return NULL;
    mover *m = lki_layer_new(call, kind, &a);
    if (!m) return NULL;
    m->height = height;
    m->width = width;
    return &m->layer;
}

#define MOVE_FIELDS(width_)                                                                                                        \
    {                                                                                                                              \
        LKI_LAYER_FIELDS(lk_random_move_args), LKI_DATA_FORMAT_FIELD(lk_random_move_args),                                         \
            LKI_FIELD(RANGE, lk_random_move_args, height_factor, .required = true),                                                \
            LKI_FIELD(RANGE, lk_random_move_args, width_factor, width_), LKI_FILL_FIELD(lk_random_move_args),                      \
            LKI_WARP_FIELDS(lk_random_move_args), LKI_FIELD(NUMBER, lk_random_move_args, seed, .none = true),                      \
    }
static const lki_field ZOOM_FIELDS[] = MOVE_FIELDS(.none = true);
static const lki_field TRANSLATION_FIELDS[] = MOVE_FIELDS(.required = true);

#define MOVER(title, class_, fields)                                                                                               \
    static void         *make_##title(const void *args) { return lk_random_##title##_kw(*(const lk_random_move_args *)args); }     \
    const lki_layer_kind lki_random_##title##_kind = {                                                                             \
        .name = "random_" #title,                                                                                                  \
        .class = {.name = class_, .module = "keras.layers", LKI_ARGS(lk_random_move_args, fields), .make = make_##title},          \
        .bytes = sizeof(mover),                                                                                                    \
        .set = offsetof(mover, set),                                                                                               \
        .draws = true,                                                                                                             \
        .output = output_mover,                                                                                                    \
        .call = call_##title};                                                                                                     \
    lk_layer *lk_random_##title##_kw(lk_random_move_args a)                                                                        \
    {                                                                                                                              \
        return mover_new("lk_random_" #title, &lki_random_##title##_kind, a);                                                      \
    }
MOVER(zoom, "RandomZoom", ZOOM_FIELDS)
MOVER(translation, "RandomTranslation", TRANSLATION_FIELDS)

/* ---- shear ---- */

typedef struct shear {
    lk_layer             layer;
    lk_random_shear_args set; /* a range that goes as far both ways is a single number, which is all that Keras reads */
    lki_range            x, y;
} shear;

static lki_places sheared(const lk_layer *l, const lki_pass *pass, lk_tensor *x)
{
    const shear *r = (const shear *)l;
    lk_tensor   *back = lk_greater(lki_row_draw(l, pass, x, LK_SHAPE(1), 0), lk_scalar(0.5));
    lk_tensor   *sign = lk_where(back, lk_scalar(-1), lk_scalar(1));
    lk_tensor   *y = lk_mul(draw_one(l, pass, x, 1, r->y), sign);
    lk_tensor   *along = lk_mul(draw_one(l, pass, x, 2, r->x), sign);
    return (lki_places){lk_add(lk_mul(y, across(x)), down(x)), lk_add(across(x), lk_mul(along, down(x)))};
}

static lk_status output_shear(const lk_layer *l, const lk_shape *in, lk_shape *out)
{
    return lki_picture_same(l, ((const shear *)l)->set.data_format, in, out);
}

static lk_tensor *call_shear(lk_layer *l, lk_tensor *x, const lki_pass *pass)
{
    const lk_random_shear_args *a = &((const shear *)l)->set;
    return moved(l, x, pass, a->data_format, sheared, WARP_OF(a));
}

static void *make_shear(const void *args) { return lk_random_shear_kw(*(const lk_random_shear_args *)args); }

static const lki_field SHEAR_FIELDS[] = {
    LKI_LAYER_FIELDS(lk_random_shear_args),
    LKI_DATA_FORMAT_FIELD(lk_random_shear_args),
    LKI_FIELD(RANGE, lk_random_shear_args, x_factor),
    LKI_FIELD(RANGE, lk_random_shear_args, y_factor),
    LKI_FILL_FIELD(lk_random_shear_args),
    LKI_WARP_FIELDS(lk_random_shear_args),
    LKI_FIELD(NUMBER, lk_random_shear_args, seed, .none = true),
};

const lki_layer_kind lki_random_shear_kind = {
    .name = "random_shear",
    .class = {"RandomShear", "keras.layers", LKI_ARGS(lk_random_shear_args, SHEAR_FIELDS), make_shear},
    .bytes = sizeof(shear),
    .set = offsetof(shear, set),
    .draws = true,
    .output = output_shear,
    .call = call_shear};

/* Default 0. */
static bool shear_span(const char *name, lk_number *high, lk_number *low, lki_range *out)
{
    if (!lki_number_given(*high)) *high = LK_NUMBER(0);
    if (!lki_range_of("lk_random_shear", name, *high, *low, (lki_limits){-1, 1, true}, out)) return false;
    if (out->low != -out->high) return true;
    *high = LK_NUMBER(out->high);
    memset(low, 0, sizeof *low);
    return true;
}

lk_layer *lk_random_shear_kw(lk_random_shear_args a)
{
    static const char CALL[] = "lk_random_shear";
    lki_range         x, y;
    if (!shear_span("x_factor", &a.x_factor, &a.x_low, &x) || !shear_span("y_factor", &a.y_factor, &a.y_low, &y)) return NULL;
    if (!lki_warp_fits(CALL, a.fill_mode, a.interpolation) || !lki_data_format_fits(CALL, a.data_format)) return NULL;
    shear *r = lki_layer_new(CALL, &lki_random_shear_kind, &a);
    if (!r) return NULL;
    r->x = x;
    r->y = y;
    return &r->layer;
}

/* ---- perspective ---- */

typedef struct perspective {
    lk_layer                   layer;
    lk_random_perspective_args set; /* with factor and low */
} perspective;

static lk_tensor *at_corner(lk_tensor *moves, int corner, double size)
{
    lk_tensor *one = lk_slice(moves, LK_AXES(0, corner), LK_AXES(-1, 1));
    return lk_mul(lk_scalar(size), lk_add(lk_scalar(1), one));
}

/* Corners are at (0, 0), (w, 0), (0, h) and (w, h), and go to (0, 0), (p, 0), (0, q) and (r, s): a coordinate moves by a part of
 * itself, so one that is 0 stays. The projection that leads back, x' = a x / k, y' = b y / k with k = c x + d y + 1, has
 * c = (s / q - 1) / r, d = (r / p - 1) / s, a = w (c + 1 / p) and b = h (d + 1 / q).
 * Places far outside are as good as near ones. */
static lki_places projected(const lk_layer *l, const lki_pass *pass, lk_tensor *x)
{
    const double part = lki_number_or(((const perspective *)l)->set.scale, 1) / 2;
    const double w = (double)(x->shape.dim[2] - 1), h = (double)(x->shape.dim[1] - 1);
    lk_tensor   *moves = lki_row_draw_from(l, pass, x, LK_SHAPE(4), 2, (lki_range){-part, part}), *one = lk_scalar(1);
    lk_tensor   *p = at_corner(moves, 0, w), *q = at_corner(moves, 1, h), *r = at_corner(moves, 2, w), *s = at_corner(moves, 3, h);
    lk_tensor   *c = lk_div(lk_sub(lk_div(s, q), one), r), *d = lk_div(lk_sub(lk_div(r, p), one), s);
    lk_tensor   *a = lk_mul(lk_scalar(w), lk_add(c, lk_reciprocal(p))), *b = lk_mul(lk_scalar(h), lk_add(d, lk_reciprocal(q)));
    lk_tensor   *k = lk_add(lk_add(lk_mul(c, across(x)), lk_mul(d, down(x))), one);
    lk_tensor   *nowhere = lk_equal(k, lk_scalar(0)), *outside = lk_scalar(-2);
    lk_tensor   *row = lk_div(lk_mul(b, down(x)), k), *column = lk_div(lk_mul(a, across(x)), k);
    return (lki_places){lk_clip(lk_where(nowhere, outside, row), -2, h + 2),
                        lk_clip(lk_where(nowhere, outside, column), -2, w + 2)};
}

static lk_status output_perspective(const lk_layer *l, const lk_shape *in, lk_shape *out)
{
    const lk_data_format format = ((const perspective *)l)->set.data_format;
    LKI_TRY(lki_picture_same(l, format, in, out));
    const lk_shape row = lki_row_last(format, in);
    return row.dim[0] == 1 || row.dim[1] == 1 ? lki_layer_refuse(l, in, "a picture should have at least two pixels each way")
                                              : LK_OK;
}

static lk_tensor *call_perspective(lk_layer *l, lk_tensor *x, const lki_pass *pass)
{
    const lk_random_perspective_args *a = &((const perspective *)l)->set;
    const lki_range                   chance = {lki_number(a->low), lki_number(a->factor)};
    if (!pass->training || lki_bad(x)) return x;
    lk_tensor *y = moved(l, x, pass, a->data_format, projected, (lki_warp){a->interpolation, LK_FILL_CONSTANT, a->fill_value});
    return lk_where(lki_row_draw_whether(l, pass, x, 0, chance), y, x);
}

static void *make_perspective(const void *args) { return lk_random_perspective_kw(*(const lk_random_perspective_args *)args); }

static const lki_field PERSPECTIVE_FIELDS[] = {
    LKI_LAYER_FIELDS(lk_random_perspective_args),         LKI_DATA_FORMAT_FIELD(lk_random_perspective_args),
    LKI_FIELD(RANGE, lk_random_perspective_args, factor), LKI_FIELD(NUMBER, lk_random_perspective_args, scale, .standard = 1),
    LKI_WARP_FIELDS(lk_random_perspective_args),          LKI_FIELD(NUMBER, lk_random_perspective_args, seed, .none = true),
};

const lki_layer_kind lki_random_perspective_kind = {
    .name = "random_perspective",
    .class = {"RandomPerspective", "keras.layers", LKI_ARGS(lk_random_perspective_args, PERSPECTIVE_FIELDS), make_perspective},
    .bytes = sizeof(perspective),
    .set = offsetof(perspective, set),
    .draws = true,
    .output = output_perspective,
    .call = call_perspective};

lk_layer *lk_random_perspective_kw(lk_random_perspective_args a)
{
    static const char CALL[] = "lk_random_perspective";
    const double      scale = lki_number_or(a.scale, 1);
    lki_range         chance;
    if (!lki_number_given(a.factor)) a.factor = LK_NUMBER(1);
    if (!lki_range_of(CALL, "factor", a.factor, a.low, (lki_limits){0, 1, false}, &chance)) return NULL;
    if (!(scale >= 0 && scale <= 1)) return lki_fail(LK_EINVAL, "%s: scale is %g; it must be from 0 to 1", CALL, scale), NULL;
    if (!lki_warp_fits(CALL, LK_FILL_CONSTANT, a.interpolation) || !lki_data_format_fits(CALL, a.data_format)) return NULL;
    lki_range_keep(chance, &a.factor, &a.low);
    return lki_layer_new(CALL, &lki_random_perspective_kind, &a);
}
