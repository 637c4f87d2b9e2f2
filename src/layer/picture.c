/* Pictures changed at random (picture.h): numbers drawn for each row, pixels gathered from anywhere, and colours. */
#include "layer/picture.h"
#include "op/gradient.h"
#include <math.h>

/* ---- rows and options ---- */

lk_status lki_picture_same(const lk_layer *l, lk_data_format format, const lk_shape *in, lk_shape *out)
{
    lk_shape row;
    LKI_TRY(lki_row_along(l, 2, format, in, &row));
    *out = *in;
    return LK_OK;
}

bool lki_range_of(const char *call, const char *name, lk_number high, lk_number low, lki_limits limits, lki_range *out)
{
    const double a = lki_number(high), b = lki_number(low), least = limits.least, most = limits.most;
    const bool   pair = lki_number_given(low);
    if (!lki_number_given(high)) return lki_fail(LK_EINVAL, "%s: %s is missing", call, name), false;
    *out = pair ? (lki_range){fmin(a, b), fmax(a, b)} : (lki_range){limits.each ? -fabs(a) : fmax(-fabs(a), least), fabs(a)};
    const bool fits = !pair         ? a >= least && a <= most
                      : limits.each ? out->low >= least && out->high <= most
                                    : out->low <= most && out->high >= least;
    if (!fits && pair)
        lki_fail(LK_EINVAL, "%s: %s is from %g to %g; it must be from %g to %g", call, name, out->low, out->high, least, most);
    else if (!fits) lki_fail(LK_EINVAL, "%s: %s is %g; it must be from %g to %g", call, name, a, least, most);
    return fits;
}

void lki_range_keep(lki_range span, lk_number *high, lk_number *low)
{
    *high = LK_NUMBER(span.high);
    *low = LK_NUMBER(span.low);
}

bool lki_values_of(const char *call, lk_number *max, lk_number *min)
{
    const lki_range all = {lki_number_or(*min, 0), lki_number_or(*max, 255)};
    if (!(all.low < all.high))
        return lki_fail(LK_EINVAL, "%s: pixels from %g to %g; min_value must be less than max_value", call, all.low, all.high),
               false;
    lki_range_keep(all, max, min);
    return true;
}

/* ---- drawing ---- */

lk_tensor *lki_row_draw(const lk_layer *l, const lki_pass *pass, lk_tensor *x, lk_shape row, int call)
{
    return lk_random_uniform(row, .rows_of = x, .stream = lki_layer_stream(l), .iteration = pass->iteration, .call = call);
}

lk_tensor *lki_row_draw_from(const lk_layer *l, const lki_pass *pass, lk_tensor *x, lk_shape row, int call, lki_range span)
{
    lk_tensor *u = lki_row_draw(l, pass, x, row, call);
    return lk_add(lk_mul(u, lk_scalar(span.high - span.low)), lk_scalar(span.low));
}

lk_tensor *lki_row_draw_whether(const lk_layer *l, const lki_pass *pass, lk_tensor *x, int call, lki_range chance)
{
    lk_tensor *p = lki_row_draw_from(l, pass, x, LK_SHAPE(1, 1, 1), call, chance);
    return lk_less(lki_row_draw(l, pass, x, LK_SHAPE(1, 1, 1), call + 1), p);
}

/* ---- pixels of each row's own ---- */

/* x [n, height, width, channels]; the pixels at (y, x), i32 [n, count] each: [n, count, channels]. */
lk_tensor *lki_pixels_at(lk_tensor *x, lk_tensor *row, lk_tensor *column)
{
    const int64_t *dim = x->shape.dim;
    lk_tensor     *flat = lk_reshape(x, LK_SHAPE(dim[0], lki_size_mul(dim[1], dim[2]), dim[3]));
    lk_tensor     *ids = lk_add(lk_mul(row, lk_fill((lk_shape){0}, LK_I32, (double)dim[2])), column);
    return lki_apply2(LKI_OP_row_gather, NULL, flat, ids);
}

/* 0 0 0 1 1 1 ... and 0 1 2 0 1 2 ...: the row or column of each pixel of a picture, [1, height * width]. */
lk_tensor *lki_every_pixel(int64_t height, int64_t width, lk_dtype dtype, bool rows)
{
    lk_tensor *pixel = lk_range(lki_size_mul(height, width), LK_I32), *wide = lk_fill((lk_shape){0}, LK_I32, (double)width);
    return lk_cast(lk_expand_dims(rows ? lk_floordiv(pixel, wide) : lk_mod(pixel, wide), 0), dtype);
}

/* ---- pixels from anywhere ---- */

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

const char *const lki_fill_words[LK_FILL_COUNT] = {
    [LK_FILL_REFLECT] = "reflect", [LK_FILL_CONSTANT] = "constant", [LK_FILL_WRAP] = "wrap", [LK_FILL_NEAREST] = "nearest"};
static fill_fn *const FILL[] = {
    [LK_FILL_REFLECT] = reflected, [LK_FILL_CONSTANT] = nowhere, [LK_FILL_WRAP] = wrapped, [LK_FILL_NEAREST] = nearest};

const char *const lki_warp_words[LK_BILINEAR + 1] = {[LK_NEAREST] = "nearest", [LK_BILINEAR] = "bilinear"};

bool lki_warp_fits(const char *call, lk_fill_mode mode, lk_interpolation interpolation)
{
    if ((unsigned)mode >= LK_FILL_COUNT) return lki_fail(LK_EINVAL, "%s: there is no fill_mode %d", call, (int)mode), false;
    if ((unsigned)interpolation > LK_BILINEAR)
        return lki_fail(LK_EINVAL, "%s: interpolation %d is not possible; use LK_NEAREST or LK_BILINEAR", call, (int)interpolation),
               false;
    return true;
}

static lk_tensor *within(lk_tensor *at, int64_t size)
{
    return lk_logical_and(lk_greater_equal(at, lk_scalar(0)), lk_less_equal(at, lk_scalar((double)(size - 1))));
}

/* The pixels at integer coordinates, [n, pixels, channels]; outside the picture `fill`, or if that is NULL the nearest pixel. */
static lk_tensor *pixels_or(lk_tensor *x, lki_places at, const double *fill)
{
    const int64_t height = x->shape.dim[1], width = x->shape.dim[2];
    lk_tensor    *row = lk_clip(at.row, 0, (double)(height - 1)), *column = lk_clip(at.column, 0, (double)(width - 1));
    lk_tensor    *pixels = lki_pixels_at(x, lk_cast(row, LK_I32), lk_cast(column, LK_I32));
    if (!fill) return pixels;
    lk_tensor *inside = lk_logical_and(within(at.row, height), within(at.column, width));
    return lk_where(lk_expand_dims(inside, -1), pixels, lk_scalar(*fill));
}

/* Halves away from zero. */
static lk_tensor *rounded(lk_tensor *at) { return lk_mul(lk_sign(at), lk_floor(lk_add(lk_abs(at), lk_scalar(0.5)))); }

static lk_tensor *nearest_pixels(lk_tensor *x, lki_places at, const double *fill)
{
    return pixels_or(x, (lki_places){rounded(at.row), rounded(at.column)}, fill);
}

/* a * (1 - share) + b * share */
static lk_tensor *between(lk_tensor *a, lk_tensor *b, lk_tensor *share)
{
    return lk_add(lk_mul(a, lk_sub(lk_scalar(1), share)), lk_mul(b, share));
}

static lk_tensor *bilinear_pixels(lk_tensor *x, lki_places at, const double *fill)
{
    lk_tensor *top = lk_floor(at.row), *left = lk_floor(at.column), *down = lk_add(top, lk_scalar(1)),
              *right = lk_add(left, lk_scalar(1));
    lk_tensor *share_y = lk_expand_dims(lk_sub(at.row, top), -1), *share_x = lk_expand_dims(lk_sub(at.column, left), -1);
    lk_tensor *above = between(pixels_or(x, (lki_places){top, left}, fill), pixels_or(x, (lki_places){top, right}, fill), share_x);
    lk_tensor *below =
        between(pixels_or(x, (lki_places){down, left}, fill), pixels_or(x, (lki_places){down, right}, fill), share_x);
    return between(above, below, share_y);
}

lk_tensor *lki_warped(lk_tensor *x, lki_places from, lki_warp how)
{
    const lki_places at = {FILL[how.mode](from.row, (double)x->shape.dim[1]), FILL[how.mode](from.column, (double)x->shape.dim[2])};
    const double    *value = how.mode == LK_FILL_CONSTANT ? &how.value : NULL;
    lk_tensor       *y = how.interpolation == LK_NEAREST ? nearest_pixels(x, at, value) : bilinear_pixels(x, at, value);
    return lki_bad(y) ? y : lk_reshape(y, x->shape);
}

/* ---- colours ---- */

static lk_tensor *channel(lk_tensor *x, int which) { return lk_slice(x, LK_AXES(0, 0, 0, which), LK_AXES(-1, -1, -1, 1)); }

lk_tensor *lki_gray(lk_tensor *x)
{
    if (lki_bad(x) || x->shape.dim[3] == 1) return x;
    lk_tensor *red = lk_mul(channel(x, 0), lk_scalar(0.2989)), *green = lk_mul(channel(x, 1), lk_scalar(0.587));
    return lk_add(lk_add(red, green), lk_mul(channel(x, 2), lk_scalar(0.114)));
}

/* Without colours the hue is 0, without light the saturation too; what is selected never divides by 0. */
lki_hsv lki_hsv_of(lk_tensor *x)
{
    lk_tensor *r = channel(x, 0), *g = channel(x, 1), *b = channel(x, 2), *none = lk_scalar(0), *one = lk_scalar(1);
    lk_tensor *most = lk_maximum(r, lk_maximum(g, b)), *range = lk_sub(most, lk_minimum(r, lk_minimum(g, b)));
    lk_tensor *lit = lk_greater(most, none), *coloured = lk_greater(range, none);
    lk_tensor *sixth = lk_div(lk_scalar(1.0 / 6), lk_where(coloured, range, one));
    lk_tensor *of_green = lk_add(lk_mul(sixth, lk_sub(b, r)), lk_scalar(2.0 / 6));
    lk_tensor *of_blue = lk_add(lk_mul(sixth, lk_sub(r, g)), lk_scalar(4.0 / 6));
    lk_tensor *h = lk_where(lk_equal(r, most), lk_mul(sixth, lk_sub(g, b)), lk_where(lk_equal(g, most), of_green, of_blue));
    h = lk_where(coloured, h, none);
    return (lki_hsv){lk_where(lk_less(h, none), lk_add(h, one), h), lk_where(lit, lk_div(range, lk_where(lit, most, one)), none),
                     most};
}

/* value * (1 - saturation + saturation * light) */
static lk_tensor *lighted(lki_hsv c, lk_tensor *light)
{
    lk_tensor *part = lk_add(lk_sub(lk_scalar(1), c.saturation), lk_mul(c.saturation, lk_clip(light, 0, 1)));
    return lk_mul(part, c.value);
}

lk_tensor *lki_rgb_of(lki_hsv c)
{
    lk_tensor *six = lk_mul(c.hue, lk_scalar(6));
    lk_tensor *red = lk_sub(lk_abs(lk_sub(six, lk_scalar(3))), lk_scalar(1));
    lk_tensor *green = lk_sub(lk_scalar(2), lk_abs(lk_sub(six, lk_scalar(2))));
    lk_tensor *blue = lk_sub(lk_scalar(2), lk_abs(lk_sub(six, lk_scalar(4))));
    return lk_concat(LK_TUPLE(lighted(c, red), lighted(c, green), lighted(c, blue)), 3);
}
