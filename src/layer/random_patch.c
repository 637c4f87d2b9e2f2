/* RandomErasing and RandomGaussianBlur: a part of a picture replaced, or all of it smoothed, at random while training. */
#include "layer/picture.h"
#include "op/product.h"

static lki_range span_of(lk_number high, lk_number low) { return (lki_range){lki_number(low), lki_number(high)}; }

/* The chance of a change, from 0 to 1 by default. */
static bool chance_of(const char *call, lk_number *factor, lk_number *low)
{
    lki_range chance;
    if (!lki_number_given(*factor)) *factor = LK_NUMBER(1);
    if (!lki_range_of(call, "factor", *factor, *low, (lki_limits){0, 1, false}, &chance)) return false;
    lki_range_keep(chance, factor, low);
    return true;
}

/* ---- erasing ---- */

typedef struct erasing_arguments {
    lk_random_erasing_args ask;  /* with all numbers but for those to fill with */
    lk_tensor             *fill; /* these, as in a file; NULL: noise */
} erasing_arguments;

typedef struct erasing {
    lk_layer          layer;
    erasing_arguments set;
} erasing;

static lk_status output_erasing(const lk_layer *l, const lk_shape *in, lk_shape *out)
{
    const erasing_arguments *a = &((const erasing *)l)->set;
    LKI_TRY(lki_picture_same(l, a->ask.data_format, in, out));
    const int64_t channels = lki_row_last(a->ask.data_format, in).dim[2], numbers = a->fill ? lk_size(a->fill) : 1;
    if (numbers != 1 && channels >= 0 && numbers != channels)
        return lki_layer_refuse(l, in, "a picture should have a channel for each of the %lld numbers to fill with",
                                (long long)numbers);
    return LK_OK;
}

/* Whether each of `size` rows or columns is in the rectangle, [rows, size]; its side is a part of them. */
static lk_tensor *covered(lk_tensor *part, lk_tensor *start, int64_t size)
{
    lk_tensor *whole = lk_scalar((double)size), *at = lk_expand_dims(lk_cast(lk_range(size, LK_I32), LK_F32), 0);
    lk_tensor *side = lk_mul(part, whole), *from = lk_mul(start, lk_sub(whole, side));
    return lk_logical_and(lk_greater_equal(at, from), lk_less(at, lk_add(from, side)));
}

/* Which pixels are erased, [rows, height, width, 1]. */
static lk_tensor *rectangle(const lk_layer *l, const lki_pass *pass, lk_tensor *x)
{
    const lk_random_erasing_args *a = &((const erasing *)l)->set.ask;
    const int64_t                 n = x->shape.dim[0], height = x->shape.dim[1], width = x->shape.dim[2];
    const lki_range               scale = span_of(a->scale, a->scale_low);
    lk_tensor                    *wide = lk_sqrt(lki_row_draw_from(l, pass, x, LK_SHAPE(1), 2, scale)),
              *left = lki_row_draw(l, pass, x, LK_SHAPE(1), 4);
    lk_tensor *high = lk_sqrt(lki_row_draw_from(l, pass, x, LK_SHAPE(1), 3, scale)),
              *top = lki_row_draw(l, pass, x, LK_SHAPE(1), 5);
    return lk_logical_and(lk_reshape(covered(high, top, height), LK_SHAPE(n, height, 1, 1)),
                          lk_reshape(covered(wide, left, width), LK_SHAPE(n, 1, width, 1)));
}

static lk_tensor *filling(const lk_layer *l, const lki_pass *pass, lk_tensor *x)
{
    const erasing_arguments *a = &((const erasing *)l)->set;
    const lki_range          values = span_of(a->ask.max_value, a->ask.min_value);
    const int64_t           *dim = x->shape.dim;
    if (a->fill) return lk_clip(lk_cast(a->fill, LK_F32), values.low, values.high);
    lk_tensor *noise = lk_random_normal(LK_SHAPE(dim[1], dim[2], dim[3]), .rows_of = x, .stream = lki_layer_stream(l),
                                        .iteration = pass->iteration, .call = 6);
    return lk_clip(lk_mul(noise, lk_scalar(values.high)), values.low, values.high);
}

static lk_tensor *call_erasing(lk_layer *l, lk_tensor *x, const lki_pass *pass)
{
    const lk_random_erasing_args *a = &((const erasing *)l)->set.ask;
    if (!pass->training || lki_bad(x) || !lki_shape_size_from(&x->shape, 1)) return x;
    x = lki_channels_last(a->data_format, x);
    lk_tensor *changes = lki_row_draw_whether(l, pass, x, 0, span_of(a->factor, a->low));
    lk_tensor *erased = lk_logical_and(rectangle(l, pass, x), changes);
    return lki_channels_back(a->data_format, lk_where(erased, filling(l, pass, x), x));
}

static void *make_erasing(const void *args);

static const lki_field ERASING_FIELDS[] = {
    LKI_LAYER_FIELDS(lk_random_erasing_args), /* the arguments begin with these */
    LKI_FIELD(RANGE, lk_random_erasing_args, factor),
    LKI_FIELD(RANGE, lk_random_erasing_args, scale),
    LKI_FIELD_AS("fill_value", ARRAY, erasing_arguments, fill, .dtype = LK_F64),
    LKI_FIELD_AS("value_range", RANGE, lk_random_erasing_args, max_value),
    LKI_DATA_FORMAT_FIELD(lk_random_erasing_args),
    LKI_FIELD(NUMBER, lk_random_erasing_args, seed, .none = true),
};

const lki_layer_kind lki_random_erasing_kind = {
    .name = "random_erasing",
    .class = {"RandomErasing", "keras.layers", LKI_ARGS(erasing_arguments, ERASING_FIELDS), make_erasing},
    .bytes = sizeof(erasing),
    .set = offsetof(erasing, set),
    .draws = true,
    .output = output_erasing,
    .call = call_erasing};

/* From a file's config, or with `fill` made of the options. */
static void *make_erasing(const void *args)
{
    static const char CALL[] = "lk_random_erasing";
    erasing_arguments all = *(const erasing_arguments *)args;
    lki_range         scale;
    if (!lki_number_given(all.ask.scale)) {
        all.ask.scale = LK_NUMBER(0.33);
        if (!lki_number_given(all.ask.scale_low)) all.ask.scale_low = LK_NUMBER(0.02);
    }
    if (!chance_of(CALL, &all.ask.factor, &all.ask.low)) return NULL;
    if (!lki_range_of(CALL, "scale", all.ask.scale, all.ask.scale_low, (lki_limits){0, 1, false}, &scale)) return NULL;
    if (scale.low < 0 || scale.high > 1)
        return lki_fail(LK_EINVAL, "%s: scale is from %g to %g; it must be from 0 to 1", CALL, scale.low, scale.high), NULL;
    if (all.fill && lk_rank(all.fill) > 1)
        return lki_fail(LK_EINVAL, "%s: fill_values should be a list of numbers, one for each channel", CALL), NULL;
    if (!lki_values_of(CALL, &all.ask.max_value, &all.ask.min_value) || !lki_data_format_fits(CALL, all.ask.data_format))
        return NULL;
    lki_range_keep(scale, &all.ask.scale, &all.ask.scale_low);
    return lki_layer_new(CALL, &lki_random_erasing_kind, &all);
}

lk_layer *lk_random_erasing_kw(lk_random_erasing_args a)
{
    erasing_arguments all = {a, a.fill_values};
    lk_tensor        *one = NULL;
    if (a.fill_values && lki_number_given(a.fill_value))
        return lki_fail(LK_EINVAL, "lk_random_erasing: both fill_value and fill_values are given"), NULL;
    if (lki_number_given(a.fill_value)) all.fill = one = lk_fill((lk_shape){0}, LK_F64, lki_number(a.fill_value));
    if (all.fill && lki_bad(all.fill)) return NULL;
    lk_layer *l = make_erasing(&all);
    if (one) lk_free(one);
    return l;
}

/* ---- blur ---- */

enum { LARGEST = 255 };

typedef struct blur {
    lk_layer                     layer;
    lk_random_gaussian_blur_args set; /* with all numbers, and two sizes */
} blur;

static lk_status output_blur(const lk_layer *l, const lk_shape *in, lk_shape *out)
{
    return lki_picture_same(l, ((const blur *)l)->set.data_format, in, out);
}

/* Weights of the neighbours of a pixel, which add up to 1, [rows, size]: normal, with a deviation for each row. */
static lk_tensor *weights_of(int64_t size, lk_tensor *sigma)
{
    lk_tensor *at = lk_sub(lk_cast(lk_range(size, LK_I32), LK_F32), lk_scalar((double)(size - 1) / 2));
    lk_tensor *bell = lk_exp(lk_mul(lk_scalar(-0.5), lk_square(lk_div(lk_expand_dims(at, 0), sigma))));
    return lk_div(bell, lk_reduce_sum(bell, LK_AXES(1), .keepdims = LK_ON));
}

/* Each pixel a sum of its neighbours along one axis, from the first to the last; outside of the picture they are 0. */
static lk_tensor *smoothed(lk_tensor *x, int axis, lk_tensor *weights)
{
    const int64_t size = lk_dim(weights, 1), half = size / 2, whole = x->shape.dim[axis];
    const lk_axes border = axis == 1 ? LK_AXES(0, half, 0, 0) : LK_AXES(0, 0, half, 0);
    lk_tensor    *wide = lk_pad(x, border, border), *sum = NULL;
    for (int64_t i = 0; i < size; i++) {
        lk_tensor *w = lk_reshape(lk_slice(weights, LK_AXES(0, i), LK_AXES(-1, 1)), LK_SHAPE(x->shape.dim[0], 1, 1, 1));
        lk_tensor *near = axis == 1 ? lk_slice(wide, LK_AXES(0, i, 0, 0), LK_AXES(-1, whole, -1, -1))
                                    : lk_slice(wide, LK_AXES(0, 0, i, 0), LK_AXES(-1, -1, whole, -1));
        lk_tensor *part = lk_mul(near, w);
        sum = sum ? lk_add(sum, part) : part;
    }
    return sum;
}

static lk_tensor *call_blur(lk_layer *l, lk_tensor *x, const lki_pass *pass)
{
    const lk_random_gaussian_blur_args *a = &((const blur *)l)->set;
    const lki_axes                      size = lki_axes_of(a->kernel_size);
    const lki_range                     sigma = {lki_number(a->sigma_low) + 1e-6, lki_number(a->sigma) + 1e-6};
    if (!pass->training || lki_bad(x) || !lki_shape_size_from(&x->shape, 1)) return x;
    x = lki_channels_last(a->data_format, x);
    lk_tensor *across = weights_of(size.value[1], lki_row_draw_from(l, pass, x, LK_SHAPE(1), 2, sigma));
    lk_tensor *down = weights_of(size.value[0], lki_row_draw_from(l, pass, x, LK_SHAPE(1), 3, sigma));
    lk_tensor *changes = lki_row_draw_whether(l, pass, x, 0, span_of(a->factor, a->low));
    lk_tensor *y = lki_bad(across) || lki_bad(down) || lki_bad(x) ? &lki_poison : smoothed(x, 1, down);
    if (!lki_bad(y)) y = lk_where(changes, smoothed(y, 2, across), x);
    return lki_channels_back(a->data_format, lk_clip(y, lki_number(a->min_value), lki_number(a->max_value)));
}

static void *make_blur(const void *args) { return lk_random_gaussian_blur_kw(*(const lk_random_gaussian_blur_args *)args); }

static const lki_field BLUR_FIELDS[] = {
    LKI_LAYER_FIELDS(lk_random_gaussian_blur_args),
    LKI_FIELD(RANGE, lk_random_gaussian_blur_args, factor),
    LKI_FIELD(AXES, lk_random_gaussian_blur_args, kernel_size, .width = 2, .standard = 3),
    LKI_FIELD(RANGE, lk_random_gaussian_blur_args, sigma),
    LKI_FIELD_AS("value_range", RANGE, lk_random_gaussian_blur_args, max_value),
    LKI_DATA_FORMAT_FIELD(lk_random_gaussian_blur_args),
    LKI_FIELD(NUMBER, lk_random_gaussian_blur_args, seed, .none = true),
};

const lki_layer_kind lki_random_gaussian_blur_kind = {
    .name = "random_gaussian_blur",
    .class = {"RandomGaussianBlur", "keras.layers", LKI_ARGS(lk_random_gaussian_blur_args, BLUR_FIELDS), make_blur},
    .bytes = sizeof(blur),
    .set = offsetof(blur, set),
    .draws = true,
    .output = output_blur,
    .call = call_blur};

lk_layer *lk_random_gaussian_blur_kw(lk_random_gaussian_blur_args a)
{
    static const char    CALL[] = "lk_random_gaussian_blur";
    static const int64_t THREES[] = {3, 3};
    lki_axes             size = {.count = 2};
    lki_range            sigma;
    if (!lki_number_given(a.sigma)) a.sigma = LK_NUMBER(1);
    if (!lki_per_axis(CALL, "kernel_size", 2, a.kernel_size, THREES, 1, size.value)) return NULL;
    for (int i = 0; i < 2; i++)
        if (size.value[i] % 2 == 0 || size.value[i] > LARGEST)
            return lki_fail(LK_EINVAL, "%s: kernel_size has %lld; it must be odd and at most %d", CALL, (long long)size.value[i],
                            LARGEST),
                   NULL;
    if (!chance_of(CALL, &a.factor, &a.low)) return NULL;
    if (!lki_range_of(CALL, "sigma", a.sigma, a.sigma_low, (lki_limits){0, 1, false}, &sigma)) return NULL;
    if (sigma.low < 0) return lki_fail(LK_EINVAL, "%s: sigma is from %g; it must be at least 0", CALL, sigma.low), NULL;
    if (!lki_values_of(CALL, &a.max_value, &a.min_value) || !lki_data_format_fits(CALL, a.data_format)) return NULL;
    a.kernel_size = lki_axes_list(&size);
    lki_range_keep(sigma, &a.sigma, &a.sigma_low);
    return lki_layer_new(CALL, &lki_random_gaussian_blur_kind, &a);
}
