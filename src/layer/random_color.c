/* Layers that change the colours of pictures at random while training: brightness, contrast, saturation and the like; and
 * AutoContrast, which does so always, and not at random. */
#include "layer/picture.h"
#include <math.h>

typedef struct color {
    lk_layer             layer;
    lk_random_color_args set; /* with all numbers */
} color;

/* A change to draw for: whose random numbers, which ones, and the options. */
typedef struct change {
    const lk_layer *layer;
    const lki_pass *pass;
    int             call; /* the first of its draws */
    lki_range       factor, values;
} change;

typedef lk_tensor *change_fn(const change *c, lk_tensor *x);

static lk_tensor *drawn(const change *c, lk_tensor *x, lki_range span)
{
    return lki_row_draw_from(c->layer, c->pass, x, LK_SHAPE(1, 1, 1), c->call, span);
}

static lk_tensor *within_values(const change *c, lk_tensor *x) { return lk_clip(x, c->values.low, c->values.high); }

/* Numbers of one range as those of another. */
static lk_tensor *as_of(lk_tensor *x, lki_range from, lki_range to)
{
    if (from.low == to.low && from.high == to.high) return x;
    lk_tensor *part = lk_div(lk_sub(x, lk_scalar(from.low)), lk_scalar(from.high - from.low));
    return lk_add(lk_mul(part, lk_scalar(to.high - to.low)), lk_scalar(to.low));
}

static const lki_range UNIT = {0, 1}, BYTE = {0, 255};

/* ---- the changes ---- */

static lk_tensor *brightness(const change *c, lk_tensor *x)
{
    return within_values(c, lk_add(x, lk_mul(drawn(c, x, c->factor), lk_scalar(c->values.high - c->values.low))));
}

static lk_tensor *contrast(const change *c, lk_tensor *x)
{
    lk_tensor *mean = lk_reduce_mean(lk_reduce_mean(x, LK_AXES(1), .keepdims = LK_ON), LK_AXES(2), .keepdims = LK_ON);
    lk_tensor *factor = drawn(c, x, (lki_range){1 - c->factor.low, 1 + c->factor.high});
    return within_values(c, lk_add(lk_mul(lk_sub(x, mean), factor), mean));
}

static lk_tensor *color_degeneration(const change *c, lk_tensor *x)
{
    return within_values(c, lk_add(x, lk_mul(drawn(c, x, c->factor), lk_sub(lki_gray(x), x))));
}

/* Keras limits saturations, which are from 0 to 1, to the range of values. */
static lk_tensor *saturation(const change *c, lk_tensor *x)
{
    lk_tensor *factor = drawn(c, x, c->factor);
    lki_hsv    hsv = lki_hsv_of(x);
    factor = lk_div(factor, lk_add(lk_sub(lk_scalar(1), factor), lk_scalar(1e-7)));
    hsv.saturation = within_values(c, lk_mul(hsv.saturation, factor));
    return lki_rgb_of(hsv);
}

static lk_tensor *hue(const change *c, lk_tensor *x)
{
    lk_tensor *factor = lk_mul(drawn(c, x, c->factor), lk_scalar(0.5)), *one = lk_scalar(1);
    lk_tensor *u = lki_row_draw(c->layer, c->pass, x, LK_SHAPE(1, 1, 1), c->call + 1);
    lki_hsv    hsv = lki_hsv_of(as_of(x, c->values, UNIT));
    lk_tensor *h = lk_add(hsv.hue, lk_where(lk_greater(u, lk_scalar(0.5)), lk_neg(factor), factor));
    h = lk_where(lk_greater(h, one), lk_sub(h, one), h);
    hsv.hue = lk_where(lk_less(h, lk_scalar(0)), lk_add(h, one), h);
    return as_of(lk_clip(lki_rgb_of(hsv), 0, 1), UNIT, c->values);
}

static lk_tensor *invert(const change *c, lk_tensor *x)
{
    lk_tensor *changes = lki_row_draw_whether(c->layer, c->pass, x, c->call, c->factor);
    return lk_where(changes, lk_sub(lk_scalar(c->values.high), x), x);
}

/* Upper bits of numbers from 0 to 255. */
static lk_tensor *posterization(const change *c, lk_tensor *x)
{
    const double low = c->factor.low, last = c->factor.high > low ? c->factor.high - 1 : low;
    lk_tensor   *bits = lk_clip(lk_floor(drawn(c, x, c->factor)), low, last);
    lk_tensor   *steps = lk_tensor_of(LK_SHAPE(9), 256, 128, 64, 32, 16, 8, 4, 2, 1);
    lk_tensor   *step = lk_gather(steps, lk_cast(bits, LK_I32), 0);
    lk_tensor   *whole = lk_floor(lk_clip(as_of(x, c->values, BYTE), 0, 255));
    return as_of(lk_mul(lk_floor(lk_div(whole, step)), step), BYTE, c->values);
}

static lk_tensor *sharpness(const change *c, lk_tensor *x)
{
    const double a = 1.0 / 13, b = 5.0 / 13;
    lk_tensor   *kernel = lk_tensor_of(LK_SHAPE(3, 3, 1, 1), a, a, a, a, b, a, a, a, a);
    if (lki_bad(x)) return x;
    kernel = lk_broadcast_to(kernel, LK_SHAPE(3, 3, x->shape.dim[3], 1));
    lk_tensor *smooth = lk_nn_depthwise_conv2d(x, kernel, .padding = LK_SAME);
    lk_tensor *factor = lk_mul(drawn(c, x, c->factor), lk_scalar(2));
    return within_values(c, lk_add(x, lk_mul(lk_sub(lk_scalar(1), factor), lk_sub(smooth, x))));
}

/* ---- one factor ---- */

typedef struct recipe {
    const char *call;
    change_fn  *change;
    lki_limits  limits;
    int         channels; /* 3: red, green and blue; 1: these, or gray; 0: any */
} recipe;

static const recipe BRIGHTNESS = {"lk_random_brightness", brightness, {-1, 1, false}, 0},
                    CONTRAST = {"lk_random_contrast", contrast, {0, 1, false}, 0},
                    DEGENERATION = {"lk_random_color_degeneration", color_degeneration, {-1, 1, false}, 1},
                    SATURATION = {"lk_random_saturation", saturation, {-1, 1, false}, 3},
                    HUE = {"lk_random_hue", hue, {0, 1, false}, 3}, INVERT = {"lk_random_invert", invert, {0, 1, false}, 0},
                    POSTERIZATION = {"lk_random_posterization", posterization, {1, 8, false}, 0},
                    SHARPNESS = {"lk_random_sharpness", sharpness, {0, 1, false}, 0};

static lk_status same_colors(const lk_layer *l, lk_data_format format, int channels, const lk_shape *in, lk_shape *out)
{
    LKI_TRY(lki_picture_same(l, format, in, out));
    const int64_t has = lki_row_last(format, in).dim[2];
    if (channels && has != 3 && has != channels)
        return lki_layer_refuse(l, in, "a picture should have %s", channels == 3 ? "3 channels" : "1 or 3 channels");
    return LK_OK;
}

static lk_tensor *changed(const recipe *r, lk_layer *l, lk_tensor *x, const lki_pass *pass)
{
    const lk_random_color_args *a = &((const color *)l)->set;
    const change                c = {.layer = l,
                                     .pass = pass,
                                     .factor = {lki_number(a->low), lki_number(a->factor)},
                                     .values = {lki_number(a->min_value), lki_number(a->max_value)}};
    if (!pass->training || lki_bad(x) || !lki_shape_size_from(&x->shape, 1)) return x;
    return lki_channels_back(a->data_format, r->change(&c, lki_channels_last(a->data_format, x)));
}

static lk_layer *color_new(const recipe *r, const lki_layer_kind *kind, lk_random_color_args a)
{
    lki_range factor;
    if (r == &INVERT && !lki_number_given(a.factor)) a.factor = LK_NUMBER(1);
    if (!lki_range_of(r->call, "factor", a.factor, a.low, r->limits, &factor)) return NULL;
    if (r == &POSTERIZATION &&
        !(factor.low >= 1 && factor.high <= 8 && factor.low == floor(factor.low) && factor.high == floor(factor.high)))
        return lki_fail(LK_EINVAL, "%s: bits from %g to %g; they must be whole numbers from 1 to 8", r->call, factor.low,
                        factor.high),
               NULL;
    if (!lki_values_of(r->call, &a.max_value, &a.min_value) || !lki_data_format_fits(r->call, a.data_format)) return NULL;
    lki_range_keep(factor, &a.factor, &a.low);
    return lki_layer_new(r->call, kind, &a);
}

#define VALUE_AND_SEED_FIELDS(A)                                                                                                   \
    LKI_FIELD_AS("value_range", RANGE, A, max_value), LKI_DATA_FORMAT_FIELD(A), LKI_FIELD(NUMBER, A, seed, .none = true)

#define COLOR(title, class_, how, required_)                                                                                       \
    static lk_status output_##title(const lk_layer *l, const lk_shape *in, lk_shape *out)                                          \
    {                                                                                                                              \
        return same_colors(l, ((const color *)l)->set.data_format, (how).channels, in, out);                                       \
    }                                                                                                                              \
    static lk_tensor      *call_##title(lk_layer *l, lk_tensor *x, const lki_pass *pass) { return changed(&(how), l, x, pass); }   \
    static void           *make_##title(const void *args) { return lk_random_##title##_kw(*(const lk_random_color_args *)args); }  \
    static const lki_field FIELDS_##title[] = {LKI_LAYER_FIELDS(lk_random_color_args),                                             \
                                               LKI_FIELD(RANGE, lk_random_color_args, factor, .required = required_),              \
                                               VALUE_AND_SEED_FIELDS(lk_random_color_args)};                                       \
    const lki_layer_kind   lki_random_##title##_kind = {                                                                           \
          .name = "random_" #title,                                                                                                \
          .class = {class_, "keras.layers", LKI_ARGS(lk_random_color_args, FIELDS_##title), make_##title},                         \
          .bytes = sizeof(color),                                                                                                  \
          .set = offsetof(color, set),                                                                                             \
          .draws = true,                                                                                                           \
          .output = output_##title,                                                                                                \
          .call = call_##title};                                                                                                   \
    lk_layer *lk_random_##title##_kw(lk_random_color_args a) { return color_new(&(how), &lki_random_##title##_kind, a); }
COLOR(brightness, "RandomBrightness", BRIGHTNESS, true)
COLOR(contrast, "RandomContrast", CONTRAST, true)
COLOR(color_degeneration, "RandomColorDegeneration", DEGENERATION, true)
COLOR(saturation, "RandomSaturation", SATURATION, true)
COLOR(hue, "RandomHue", HUE, true)
COLOR(invert, "RandomInvert", INVERT, false)
COLOR(posterization, "RandomPosterization", POSTERIZATION, true)
COLOR(sharpness, "RandomSharpness", SHARPNESS, true)

/* ---- several factors ---- */

typedef struct jitter {
    lk_layer                    layer;
    lk_random_color_jitter_args set; /* factors as they were given */
} jitter;

/* The factors of the options, in the order of the changes. */
static const struct {
    const recipe *recipe;
    const char   *name;
    size_t        high; /* its place in the options; the lower end follows */
} PARTS[] = {{&BRIGHTNESS, "brightness_factor", offsetof(lk_random_color_jitter_args, brightness_factor)},
             {&CONTRAST, "contrast_factor", offsetof(lk_random_color_jitter_args, contrast_factor)},
             {&SATURATION, "saturation_factor", offsetof(lk_random_color_jitter_args, saturation_factor)},
             {&HUE, "hue_factor", offsetof(lk_random_color_jitter_args, hue_factor)}};

static const lk_number *part_of(const lk_random_color_jitter_args *a, int i)
{
    return (const lk_number *)((const char *)a + PARTS[i].high);
}

static lk_status output_jitter(const lk_layer *l, const lk_shape *in, lk_shape *out)
{
    const lk_random_color_jitter_args *a = &((const jitter *)l)->set;
    const bool                         colors = lki_number_given(a->saturation_factor) || lki_number_given(a->hue_factor);
    return same_colors(l, a->data_format, colors ? 3 : 0, in, out);
}

static lk_tensor *call_jitter(lk_layer *l, lk_tensor *x, const lki_pass *pass)
{
    const lk_random_color_jitter_args *a = &((const jitter *)l)->set;
    change c = {.layer = l, .pass = pass, .values = {lki_number(a->min_value), lki_number(a->max_value)}};
    if (!pass->training || lki_bad(x) || !lki_shape_size_from(&x->shape, 1)) return x;
    x = lki_channels_last(a->data_format, x);
    for (int i = 0; i < LKI_COUNT(PARTS); i++) {
        const lk_number *end = part_of(a, i);
        c.call = 2 * i;
        if (!lki_number_given(end[0])) continue;
        if (!lki_range_of("", PARTS[i].name, end[0], end[1], PARTS[i].recipe->limits, &c.factor)) return &lki_poison;
        x = PARTS[i].recipe->change(&c, x);
    }
    return lki_channels_back(a->data_format, x);
}

static void *make_jitter(const void *args) { return lk_random_color_jitter_kw(*(const lk_random_color_jitter_args *)args); }

static const lki_field JITTER_FIELDS[] = {
    LKI_LAYER_FIELDS(lk_random_color_jitter_args),
    LKI_FIELD(RANGE, lk_random_color_jitter_args, brightness_factor, .none = true),
    LKI_FIELD(RANGE, lk_random_color_jitter_args, contrast_factor, .none = true),
    LKI_FIELD(RANGE, lk_random_color_jitter_args, saturation_factor, .none = true),
    LKI_FIELD(RANGE, lk_random_color_jitter_args, hue_factor, .none = true),
    VALUE_AND_SEED_FIELDS(lk_random_color_jitter_args),
};

const lki_layer_kind lki_random_color_jitter_kind = {
    .name = "random_color_jitter",
    .class = {"RandomColorJitter", "keras.layers", LKI_ARGS(lk_random_color_jitter_args, JITTER_FIELDS), make_jitter},
    .bytes = sizeof(jitter),
    .set = offsetof(jitter, set),
    .draws = true,
    .output = output_jitter,
    .call = call_jitter};

lk_layer *lk_random_color_jitter_kw(lk_random_color_jitter_args a)
{
    static const char CALL[] = "lk_random_color_jitter";
    for (int i = 0; i < LKI_COUNT(PARTS); i++) {
        const lk_number *end = part_of(&a, i);
        lki_range        span;
        if (lki_number_given(end[0]) && !lki_range_of(CALL, PARTS[i].name, end[0], end[1], PARTS[i].recipe->limits, &span))
            return NULL;
    }
    if (!lki_values_of(CALL, &a.max_value, &a.min_value) || !lki_data_format_fits(CALL, a.data_format)) return NULL;
    return lki_layer_new(CALL, &lki_random_color_jitter_kind, &a);
}

/* ---- gray ---- */

typedef struct grayscale {
    lk_layer                 layer;
    lk_random_grayscale_args set;
} grayscale;

static lk_status output_grayscale(const lk_layer *l, const lk_shape *in, lk_shape *out)
{
    return same_colors(l, ((const grayscale *)l)->set.data_format, 1, in, out);
}

static lk_tensor *call_grayscale(lk_layer *l, lk_tensor *x, const lki_pass *pass)
{
    const lk_random_grayscale_args *a = &((const grayscale *)l)->set;
    const double                    chance = lki_number_or(a->factor, 0.5);
    if (!pass->training || lki_bad(x)) return x;
    x = lki_channels_last(a->data_format, x);
    lk_tensor *changes = lk_less(lki_row_draw(l, pass, x, LK_SHAPE(1, 1, 1), 0), lk_scalar(chance));
    return lki_channels_back(a->data_format, lk_where(changes, lki_gray(x), x));
}

static void *make_grayscale(const void *args) { return lk_random_grayscale_kw(*(const lk_random_grayscale_args *)args); }

static const lki_field GRAYSCALE_FIELDS[] = {
    LKI_LAYER_FIELDS(lk_random_grayscale_args),
    LKI_FIELD(NUMBER, lk_random_grayscale_args, factor, .standard = 0.5),
    LKI_DATA_FORMAT_FIELD(lk_random_grayscale_args),
    LKI_FIELD(NUMBER, lk_random_grayscale_args, seed, .none = true),
};

const lki_layer_kind lki_random_grayscale_kind = {
    .name = "random_grayscale",
    .class = {"RandomGrayscale", "keras.layers", LKI_ARGS(lk_random_grayscale_args, GRAYSCALE_FIELDS), make_grayscale},
    .bytes = sizeof(grayscale),
    .set = offsetof(grayscale, set),
    .draws = true,
    .output = output_grayscale,
    .call = call_grayscale};

lk_layer *lk_random_grayscale_kw(lk_random_grayscale_args a)
{
    const double chance = lki_number_or(a.factor, 0.5);
    if (!(chance >= 0 && chance <= 1))
        return lki_fail(LK_EINVAL, "lk_random_grayscale: factor is %g; it must be from 0 to 1", chance), NULL;
    if (!lki_data_format_fits("lk_random_grayscale", a.data_format)) return NULL;
    return lki_layer_new("lk_random_grayscale", &lki_random_grayscale_kind, &a);
}

/* ---- the negative of light pixels ---- */

typedef struct solarization {
    lk_layer             layer;
    lk_solarization_args set; /* with all numbers */
} solarization;

static lk_status output_solarization(const lk_layer *l, const lk_shape *in, lk_shape *out)
{
    return same_colors(l, ((const solarization *)l)->set.data_format, 0, in, out);
}

/* The range of numbers is from the lower end itself to 255 times the upper one: as in Keras. */
static lk_tensor *call_solarization(lk_layer *l, lk_tensor *x, const lki_pass *pass)
{
    const lk_solarization_args *a = &((const solarization *)l)->set;
    const lki_range             values = {lki_number(a->min_value), lki_number(a->max_value)};
    if (!pass->training || lki_bad(x)) return x;
    lk_tensor *added = lki_row_draw_from(l, pass, x, LK_SHAPE(1, 1, 1), 0,
                                         (lki_range){lki_number(a->addition_low), 255 * lki_number(a->addition_factor)});
    lk_tensor *threshold = lki_row_draw_from(l, pass, x, LK_SHAPE(1, 1, 1), 1,
                                             (lki_range){lki_number(a->threshold_low), 255 * lki_number(a->threshold_factor)});
    lk_tensor *y = lk_clip(lk_add(as_of(x, values, BYTE), added), 0, 255);
    return as_of(lk_where(lk_less(y, threshold), y, lk_sub(lk_scalar(255), y)), BYTE, values);
}

static void *make_solarization(const void *args) { return lk_solarization_kw(*(const lk_solarization_args *)args); }

static const lki_field SOLARIZATION_FIELDS[] = {
    LKI_LAYER_FIELDS(lk_solarization_args),
    LKI_FIELD(RANGE, lk_solarization_args, addition_factor),
    LKI_FIELD(RANGE, lk_solarization_args, threshold_factor),
    VALUE_AND_SEED_FIELDS(lk_solarization_args),
};

const lki_layer_kind lki_solarization_kind = {
    .name = "solarization",
    .class = {"Solarization", "keras.layers", LKI_ARGS(lk_solarization_args, SOLARIZATION_FIELDS), make_solarization},
    .bytes = sizeof(solarization),
    .set = offsetof(solarization, set),
    .draws = true,
    .output = output_solarization,
    .call = call_solarization};

lk_layer *lk_solarization_kw(lk_solarization_args a)
{
    static const char CALL[] = "lk_solarization";
    const lki_limits  limits = {0, 1, false};
    lki_range         addition, threshold;
    if (!lki_number_given(a.addition_factor)) a.addition_factor = LK_NUMBER(0);
    if (!lki_number_given(a.threshold_factor)) a.threshold_factor = LK_NUMBER(0);
    if (!lki_range_of(CALL, "addition_factor", a.addition_factor, a.addition_low, limits, &addition)) return NULL;
    if (!lki_range_of(CALL, "threshold_factor", a.threshold_factor, a.threshold_low, limits, &threshold)) return NULL;
    if (!lki_values_of(CALL, &a.max_value, &a.min_value) || !lki_data_format_fits(CALL, a.data_format)) return NULL;
    lki_range_keep(addition, &a.addition_factor, &a.addition_low);
    lki_range_keep(threshold, &a.threshold_factor, &a.threshold_low);
    return lki_layer_new(CALL, &lki_solarization_kind, &a);
}

/* ---- all of the range ---- */

typedef struct auto_contrast {
    lk_layer              layer;
    lk_auto_contrast_args set; /* with all numbers */
} auto_contrast;

static lk_status output_auto_contrast(const lk_layer *l, const lk_shape *in, lk_shape *out)
{
    return same_colors(l, ((const auto_contrast *)l)->set.data_format, 0, in, out);
}

/* The least and the largest number are those along axes 1 and 2 wherever the channels are: as in Keras. */
static lk_tensor *call_auto_contrast(lk_layer *l, lk_tensor *x, const lki_pass *pass)
{
    const lk_auto_contrast_args *a = &((const auto_contrast *)l)->set;
    const lki_range              values = {lki_number(a->min_value), lki_number(a->max_value)};
    (void)pass;
    if (lki_bad(x) || !lki_shape_size_from(&x->shape, 1)) return x;
    lk_tensor *y = as_of(x, values, BYTE);
    lk_tensor *low = lk_reduce_min(y, LK_AXES(1, 2), .keepdims = LK_ON), *high = lk_reduce_max(y, LK_AXES(1, 2), .keepdims = LK_ON);
    lk_tensor *range = lk_sub(high, low), *differs = lk_greater(range, lk_scalar(0));
    lk_tensor *scale = lk_div(lk_scalar(255), lk_where(differs, range, lk_scalar(1)));
    y = lk_clip(lk_add(lk_mul(y, scale), lk_mul(lk_neg(low), scale)), 0, 255);
    return lk_where(differs, as_of(y, BYTE, values), x);
}

static void *make_auto_contrast(const void *args) { return lk_auto_contrast_kw(*(const lk_auto_contrast_args *)args); }

static const lki_field AUTO_CONTRAST_FIELDS[] = {LKI_LAYER_FIELDS(lk_auto_contrast_args),
                                                 LKI_FIELD_AS("value_range", RANGE, lk_auto_contrast_args, max_value),
                                                 LKI_DATA_FORMAT_FIELD(lk_auto_contrast_args)};

const lki_layer_kind lki_auto_contrast_kind = {
    .name = "auto_contrast",
    .class = {"AutoContrast", "keras.layers", LKI_ARGS(lk_auto_contrast_args, AUTO_CONTRAST_FIELDS), make_auto_contrast},
    .bytes = sizeof(auto_contrast),
    .set = offsetof(auto_contrast, set),
    .output = output_auto_contrast,
    .call = call_auto_contrast};

lk_layer *lk_auto_contrast_kw(lk_auto_contrast_args a)
{
    static const char CALL[] = "lk_auto_contrast";
    if (!lki_values_of(CALL, &a.max_value, &a.min_value) || !lki_data_format_fits(CALL, a.data_format)) return NULL;
    return lki_layer_new(CALL, &lki_auto_contrast_kind, &a);
}
