/* Dropout, AlphaDropout and SpatialDropout: while training, a fraction of the elements (or of the channels) is dropped. Which ones
 * depends on the seed, the layer's place, the model's training call and the global row, so every division of a batch over replicas
 * drops the same ones. */
#include "core/rounding.h"
#include "layer/axes.h"
#include "op/gradient.h"
#include <math.h>

typedef struct dropout {
    lk_layer              layer;
    lk_dropout_layer_args set;
} dropout;

#define ALPHA 1.6732632423543772
#define SCALE 1.0507009873554805

/* ---- what is drawn ---- */

/* The shape of the draws for x: 1 where one draw is for the whole axis. The batch may be 1, or else is that of x. */
static lk_shape drawn(const lk_dropout_layer_args *a, const lk_tensor *x)
{
    lk_shape s = x->shape;
    for (int i = 0; i < a->noise_shape.rank; i++)
        if (a->noise_shape.dim[i] >= 0) s.dim[i] = a->noise_shape.dim[i];
    return s;
}

/* True where an element is kept. A draw per row depends on the global row; one for all rows is the same on every replica. */
static lk_tensor *kept(const lk_layer *l, const lki_pass *pass, lk_tensor *x, lk_shape noise, double rate)
{
    const bool one = noise.dim[0] == 1 && x->shape.dim[0] != 1;
    lk_shape   row = {.rank = noise.rank - 1};
    for (int i = 0; i < row.rank; i++)
        row.dim[i] = noise.dim[i + 1];
    lk_tensor *draw = lk_random_uniform(one ? noise : row, .stream = lki_layer_stream(l), .iteration = pass->iteration,
                                        .rows_of = one ? NULL : x);
    return lk_greater_equal(draw, lki_like(draw, rate));
}

static lk_tensor *dropped(const lk_layer *l, const lki_pass *pass, lk_tensor *x, lk_shape noise, double rate)
{
    lk_tensor *scaled = lk_mul(x, lki_like(x, 1 / (1 - rate)));
    return lk_where(kept(l, pass, x, noise, rate), scaled, lki_like(x, 0));
}

static bool is_idle(const lk_layer *l, const lki_pass *pass, const lk_tensor *x)
{
    return !pass->training || ((const dropout *)l)->set.rate <= 0 || lki_bad(x);
}

/* ---- Dropout and AlphaDropout ---- */

static lk_status output(const lk_layer *l, const lk_shape *in, lk_shape *out)
{
    const lk_shape *noise = &((const dropout *)l)->set.noise_shape;
    char            text[LKI_SHAPE_TEXT];
    *out = *in;
    bool fits = !noise->rank || noise->rank == in->rank + 1;
    for (int i = 1; i < noise->rank && fits; i++)
        fits = noise->dim[i] == -1 || noise->dim[i] == 1 || in->dim[i - 1] < 0 || noise->dim[i] == in->dim[i - 1];
    if (fits) return LK_OK;
    return lki_layer_refuse(l, in, "noise_shape %s; it needs an entry for the batch and for each axis: its size, 1 or -1",
                            lki_shape_text(noise, text));
}

static lk_tensor *call_dropout(lk_layer *l, lk_tensor *x, const lki_pass *pass)
{
    const lk_dropout_layer_args *a = &((const dropout *)l)->set;
    return is_idle(l, pass, x) ? x : dropped(l, pass, x, drawn(a, x), a->rate);
}

/* Dropped elements get the value that SELU has far below 0; then mean and variance are made those of the input. */
static lk_tensor *call_alpha_dropout(lk_layer *l, lk_tensor *x, const lki_pass *pass)
{
    LKI_NEAREST;
    const lk_dropout_layer_args *a = &((const dropout *)l)->set;
    const double                 low = -ALPHA * SCALE, scale = 1 / sqrt((1 - a->rate) * (1 + a->rate * low * low));
    if (is_idle(l, pass, x)) return x;
    lk_tensor *y = lk_where(kept(l, pass, x, drawn(a, x), a->rate), x, lki_like(x, low));
    return lk_add(lk_mul(y, lki_like(x, scale)), lki_like(x, -scale * low * a->rate));
}

static bool noise_fits(const char *call, const lk_shape *noise)
{
    char text[LKI_SHAPE_TEXT];
    bool fits = !noise->rank || noise->dim[0] == -1 || noise->dim[0] == 1;
    for (int i = 1; i < noise->rank && fits; i++)
        fits = noise->dim[i] == -1 || noise->dim[i] >= 1;
    if (fits) return true;
    lki_fail(LK_EINVAL,
             "%s: noise_shape is %s; its first entry is the batch, -1 or 1 (null or 1 in a file), the others are sizes or -1", call,
             lki_shape_text(noise, text));
    return false;
}

static void *dropout_new(const char *call, const lki_layer_kind *kind, const lk_dropout_layer_args *a)
{
    if (!(a->rate >= 0 && a->rate < 1))
        return lki_fail(LK_EINVAL, "%s: the rate is %g; it must be at least 0 and below 1", call, a->rate), NULL;
    if (a->noise_shape.rank && !lki_field_find(&kind->class, "noise_shape"))
        return lki_fail(LK_EINVAL, "%s: noise_shape is given, but %s has no such option", call, kind->class.name), NULL;
    return noise_fits(call, &a->noise_shape) ? lki_layer_new(call, kind, a) : NULL;
}

static const lki_field FIELDS[] = {
    LKI_LAYER_FIELDS(lk_dropout_layer_args),
    LKI_FIELD(REAL, lk_dropout_layer_args, rate, .required = true),
    LKI_FIELD(NUMBER, lk_dropout_layer_args, seed, .none = true),
    LKI_FIELD(SHAPE, lk_dropout_layer_args, noise_shape, .none = true),
};

#define KIND(title, class_, fields, output_)                                                                                       \
    static void         *make_##title(const void *args) { return lk_##title##_kw(*(const lk_dropout_layer_args *)args); }          \
    const lki_layer_kind lki_##title##_kind = {                                                                                    \
        .name = #title,                                                                                                            \
        .class = {.name = class_, .module = "keras.layers", LKI_ARGS(lk_dropout_layer_args, fields), .make = make_##title},        \
        .bytes = sizeof(dropout),                                                                                                  \
        .set = offsetof(dropout, set),                                                                                             \
        .draws = true,                                                                                                             \
        .mask = lki_mask_passes,                                                                                                   \
        .output = output_,                                                                                                         \
        .call = call_##title};                                                                                                     \
    lk_layer *lk_##title##_kw(lk_dropout_layer_args a) { return dropout_new("lk_" #title, &lki_##title##_kind, &a); }

KIND(dropout, "Dropout", FIELDS, output)
KIND(alpha_dropout, "AlphaDropout", FIELDS, output)

/* ---- SpatialDropout: whole channels ---- */

static lk_status output_spatial(const lk_layer *l, const lk_shape *in, lk_shape *out, int axes)
{
    static const char *const ROWS[] = {NULL, "[steps, channels]", "[height, width, channels]", "[depth, height, width, channels]"};
    if (in->rank != axes + 1) return lki_layer_refuse(l, in, "a row should be %s", ROWS[axes]);
    *out = *in;
    return LK_OK;
}

static lk_tensor *call_spatial(lk_layer *l, lk_tensor *x, const lki_pass *pass)
{
    if (is_idle(l, pass, x)) return x;
    lk_shape noise = x->shape;
    for (int i = 1; i < noise.rank - 1; i++)
        noise.dim[i] = 1;
    return dropped(l, pass, x, noise, ((const dropout *)l)->set.rate);
}

/* Keras' classes are the only ones without `trainable`. */
#define SPATIAL                                                                                                                    \
    LKI_FIELD(NAME, lk_dropout_layer_args, name), LKI_FIELD_AS("", SHAPE, lk_dropout_layer_args, input_shape),                     \
        LKI_FIELD_AS("", SWITCH, lk_dropout_layer_args, trainable, .standard = 1),                                                 \
        LKI_FIELD(REAL, lk_dropout_layer_args, rate, .required = true),                                                            \
        LKI_FIELD(NUMBER, lk_dropout_layer_args, seed, .none = true)
static const lki_field STEPS_FIELDS[] = {SPATIAL};
static const lki_field CELLS_FIELDS[] = {SPATIAL, LKI_CHANNELS_LAST};

#define SPATIAL_KIND(axes, class, fields)                                                                                          \
    static lk_status output_##axes##d(const lk_layer *l, const lk_shape *in, lk_shape *out)                                        \
    {                                                                                                                              \
        return output_spatial(l, in, out, axes);                                                                                   \
    }                                                                                                                              \
    static lk_tensor *call_spatial_dropout##axes##d(lk_layer *l, lk_tensor *x, const lki_pass *pass)                               \
    {                                                                                                                              \
        return call_spatial(l, x, pass);                                                                                           \
    }                                                                                                                              \
    KIND(spatial_dropout##axes##d, class, fields, output_##axes##d)
SPATIAL_KIND(1, "SpatialDropout1D", STEPS_FIELDS)
SPATIAL_KIND(2, "SpatialDropout2D", CELLS_FIELDS)
SPATIAL_KIND(3, "SpatialDropout3D", CELLS_FIELDS)
