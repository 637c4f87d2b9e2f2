/* GaussianNoise and GaussianDropout: while training, normal numbers are added to the elements, or multiplied by them. They are
 * drawn as in dropout.c. */
#include "core/rounding.h"
#include "layer/axes.h"
#include "op/gradient.h"
#include <math.h>

static lk_tensor *normal(const lk_layer *l, const lki_pass *pass, lk_tensor *x, double mean, double deviation)
{
    return lk_random_normal(lki_row_of(x), .low = mean, .high = LK_NUMBER(deviation), .stream = lki_layer_stream(l),
                            .iteration = pass->iteration, .rows_of = x);
}

/* ---- GaussianNoise ---- */

typedef struct noise {
    lk_layer               layer;
    lk_gaussian_noise_args set;
} noise;

static lk_tensor *call_noise(lk_layer *l, lk_tensor *x, const lki_pass *pass)
{
    const double deviation = ((const noise *)l)->set.stddev;
    if (!pass->training || deviation <= 0 || lki_bad(x)) return x;
    return lk_add(x, normal(l, pass, x, 0, deviation));
}

static void *make_noise(const void *args) { return lk_gaussian_noise_kw(*(const lk_gaussian_noise_args *)args); }

static const lki_field NOISE_FIELDS[] = {
    LKI_LAYER_FIELDS(lk_gaussian_noise_args),
    LKI_FIELD(REAL, lk_gaussian_noise_args, stddev, .required = true),
    LKI_FIELD(NUMBER, lk_gaussian_noise_args, seed, .none = true),
};

const lki_layer_kind lki_gaussian_noise_kind = {
    .name = "gaussian_noise",
    .class = {"GaussianNoise", "keras.layers", LKI_ARGS(lk_gaussian_noise_args, NOISE_FIELDS), make_noise},
    .bytes = sizeof(noise),
    .set = offsetof(noise, set),
    .draws = true,
    .mask = lki_mask_passes,
    .call = call_noise};

lk_layer *lk_gaussian_noise_kw(lk_gaussian_noise_args a)
{
    if (!(a.stddev >= 0 && a.stddev <= 1))
        return lki_fail(LK_EINVAL, "lk_gaussian_noise: stddev is %g; it must be from 0 to 1", a.stddev), NULL;
    return lki_layer_new("lk_gaussian_noise", &lki_gaussian_noise_kind, &a);
}

/* ---- GaussianDropout ---- */

typedef struct dropout {
    lk_layer              layer;
    lk_dropout_layer_args set;
} dropout;

/* Numbers with mean 1 and the variance that dropout of this rate has. */
static lk_tensor *call_dropout(lk_layer *l, lk_tensor *x, const lki_pass *pass)
{
    LKI_NEAREST;
    const double rate = ((const dropout *)l)->set.rate;
    if (!pass->training || rate <= 0 || lki_bad(x)) return x;
    return lk_mul(x, normal(l, pass, x, 1, sqrt(rate / (1 - rate))));
}

static void *make_dropout(const void *args) { return lk_gaussian_dropout_kw(*(const lk_dropout_layer_args *)args); }

static const lki_field DROPOUT_FIELDS[] = {
    LKI_LAYER_FIELDS(lk_dropout_layer_args),
    LKI_FIELD(REAL, lk_dropout_layer_args, rate, .required = true),
    LKI_FIELD(NUMBER, lk_dropout_layer_args, seed, .none = true),
};

const lki_layer_kind lki_gaussian_dropout_kind = {
    .name = "gaussian_dropout",
    .class = {"GaussianDropout", "keras.layers", LKI_ARGS(lk_dropout_layer_args, DROPOUT_FIELDS), make_dropout},
    .bytes = sizeof(dropout),
    .set = offsetof(dropout, set),
    .draws = true,
    .mask = lki_mask_passes,
    .call = call_dropout};

lk_layer *lk_gaussian_dropout_kw(lk_dropout_layer_args a)
{
    if (!(a.rate >= 0 && a.rate < 1))
        return lki_fail(LK_EINVAL, "lk_gaussian_dropout: the rate is %g; it must be at least 0 and below 1", a.rate), NULL;
    if (a.noise_shape.rank)
        return lki_fail(LK_EINVAL, "lk_gaussian_dropout: noise_shape is given, but GaussianDropout has no such option"), NULL;
    return lki_layer_new("lk_gaussian_dropout", &lki_gaussian_dropout_kind, &a);
}
