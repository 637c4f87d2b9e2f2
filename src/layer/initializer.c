/* Initialisers: the first values of weights.
 *
 * One table per class lists the names of its options in Keras, one line the function that uses them; classes that only differ in
 * numbers (Glorot, He, Lecun) share a function. A seed replaces the weight's name, so weights with the same shape and seed begin
 * equal, as in Keras. */
#include "layer/initializer.h"
#include "core/error.h"
#include "core/names.h"
#include "core/number.h"
#include "core/shape.h"
#include "nn/initializer.h"
#include "op/op.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

typedef lk_initializer_args args;

#define ENUM(name, class) INIT_##name,
enum { LK_INITIALIZER_LIST(ENUM) INIT_COUNT };
#undef ENUM

/* ---- the classes ---- */

static const char *const MODES[] = {[LK_FAN_IN] = "fan_in", [LK_FAN_OUT] = "fan_out", [LK_FAN_AVG] = "fan_avg"};
static const char *const DISTRIBUTIONS[] = {
    [LK_TRUNCATED_NORMAL] = "truncated_normal", [LK_UNTRUNCATED_NORMAL] = "untruncated_normal", [LK_UNIFORM] = "uniform"};

#define VALUE LKI_FIELD(REAL, args, value)
#define GAIN LKI_FIELD(NUMBER, args, gain, .standard = 1)
#define SEED LKI_FIELD(NUMBER, args, seed, .none = true)
#define NORMAL LKI_FIELD(REAL, args, mean), LKI_FIELD(NUMBER, args, stddev, .standard = 0.05)
#define UNIFORM LKI_FIELD(NUMBER, args, minval, .standard = -0.05), LKI_FIELD(NUMBER, args, maxval, .standard = 0.05)
#define SCALING                                                                                                                    \
    LKI_FIELD(NUMBER, args, scale, .standard = 1), LKI_FIELD(WORD, args, mode, .words = MODES, .word_count = LKI_COUNT(MODES)),    \
        LKI_FIELD(WORD, args, distribution, .words = DISTRIBUTIONS, .word_count = LKI_COUNT(DISTRIBUTIONS))
#define FANS LKI_FIXED("input_axes", "null"), LKI_FIXED("output_axes", "null")

static const lki_field EVERY_OPTION[] = {VALUE, NORMAL, UNIFORM, SCALING, GAIN, SEED};
static const lki_field CONSTANT_FIELDS[] = {VALUE};
static const lki_field IDENTITY_FIELDS[] = {GAIN};
static const lki_field NORMAL_FIELDS[] = {NORMAL, SEED};
static const lki_field UNIFORM_FIELDS[] = {UNIFORM, SEED};
static const lki_field SCALING_FIELDS[] = {SCALING, SEED, FANS};
static const lki_field SCALED_FIELDS[] = {SEED, FANS};
static const lki_field ORTHOGONAL_FIELDS[] = {GAIN, SEED};

#define MAKE(name, class)                                                                                                          \
    static void *make_##name(const void *a) { return lk_init_##name##_kw(*(const args *)a); }
LK_INITIALIZER_LIST(MAKE)
#undef MAKE

#define CLASS(name, class, ...) [INIT_##name] = {class, "keras.initializers", __VA_ARGS__, .make = make_##name}
#define NO_FIELDS .bytes = sizeof(args)
#define FIELDS(list) LKI_ARGS(args, list)
const lki_class lki_initializer_classes[INIT_COUNT + 1] = {
    CLASS(zeros, "Zeros", NO_FIELDS),
    CLASS(ones, "Ones", NO_FIELDS),
    CLASS(constant, "Constant", FIELDS(CONSTANT_FIELDS)),
    CLASS(identity, "Identity", FIELDS(IDENTITY_FIELDS)),
    CLASS(random_normal, "RandomNormal", FIELDS(NORMAL_FIELDS)),
    CLASS(random_uniform, "RandomUniform", FIELDS(UNIFORM_FIELDS)),
    CLASS(truncated_normal, "TruncatedNormal", FIELDS(NORMAL_FIELDS)),
    CLASS(variance_scaling, "VarianceScaling", FIELDS(SCALING_FIELDS)),
    CLASS(glorot_uniform, "GlorotUniform", FIELDS(SCALED_FIELDS)),
    CLASS(glorot_normal, "GlorotNormal", FIELDS(SCALED_FIELDS)),
    CLASS(he_uniform, "HeUniform", FIELDS(SCALED_FIELDS)),
    CLASS(he_normal, "HeNormal", FIELDS(SCALED_FIELDS)),
    CLASS(lecun_uniform, "LecunUniform", FIELDS(SCALED_FIELDS)),
    CLASS(lecun_normal, "LecunNormal", FIELDS(SCALED_FIELDS)),
    CLASS(orthogonal, "Orthogonal", FIELDS(ORTHOGONAL_FIELDS)),
};

/* ---- fillings ---- */

typedef struct recipe recipe;
struct recipe {
    lki_filling (*fill)(const recipe *r, const args *a, lk_shape shape, const char *stream);
    double          scale; /* of classes with fixed numbers */
    lk_fan_mode     mode;
    lk_distribution distribution;
    int             least, most; /* number of axes of a weight; most 0: any */
    const char     *axes;        /* the same in words, for messages */
};

#define FILL(name)                                                                                                                 \
    static lki_filling name(const recipe *r __attribute__((unused)), const args *a __attribute__((unused)), lk_shape shape,        \
                            const char *stream)

FILL(fill_zeros) { return lki_filling_of(LKI_FILL_CONSTANT, shape, stream, 0, 0); }
FILL(fill_ones) { return lki_filling_of(LKI_FILL_CONSTANT, shape, stream, 1, 0); }
FILL(fill_constant) { return lki_filling_of(LKI_FILL_CONSTANT, shape, stream, a->value, 0); }
FILL(fill_identity) { return lki_filling_of(LKI_FILL_IDENTITY, shape, stream, lki_number_or(a->gain, 1), 0); }
FILL(fill_normal) { return lki_filling_of(LKI_FILL_NORMAL, shape, stream, a->mean, lki_number_or(a->stddev, 0.05)); }
FILL(fill_truncated) { return lki_filling_of(LKI_FILL_TRUNCATED, shape, stream, a->mean, lki_number_or(a->stddev, 0.05)); }
FILL(fill_scaling) { return lki_variance_scaling(shape, stream, lki_number_or(a->scale, 1), a->mode, a->distribution); }
FILL(fill_scaled) { return lki_variance_scaling(shape, stream, r->scale, r->mode, r->distribution); }
FILL(fill_orthogonal) { return lki_filling_of(LKI_FILL_ORTHOGONAL, shape, stream, lki_number_or(a->gain, 1), 0); }

FILL(fill_uniform)
{
    return lki_filling_of(LKI_FILL_UNIFORM, shape, stream, lki_number_or(a->minval, -0.05), lki_number_or(a->maxval, 0.05));
}

static const recipe RECIPES[INIT_COUNT] = {
    [INIT_zeros] = {.fill = fill_zeros},
    [INIT_ones] = {.fill = fill_ones},
    [INIT_constant] = {.fill = fill_constant},
    [INIT_identity] = {.fill = fill_identity, .least = 2, .most = 2, .axes = "be a matrix"},
    [INIT_random_normal] = {.fill = fill_normal},
    [INIT_random_uniform] = {.fill = fill_uniform},
    [INIT_truncated_normal] = {.fill = fill_truncated},
    [INIT_variance_scaling] = {.fill = fill_scaling},
    [INIT_glorot_uniform] = {fill_scaled, 1, LK_FAN_AVG, LK_UNIFORM, 0, 0, NULL},
    [INIT_glorot_normal] = {fill_scaled, 1, LK_FAN_AVG, LK_TRUNCATED_NORMAL, 0, 0, NULL},
    [INIT_he_uniform] = {fill_scaled, 2, LK_FAN_IN, LK_UNIFORM, 0, 0, NULL},
    [INIT_he_normal] = {fill_scaled, 2, LK_FAN_IN, LK_TRUNCATED_NORMAL, 0, 0, NULL},
    [INIT_lecun_uniform] = {fill_scaled, 1, LK_FAN_IN, LK_UNIFORM, 0, 0, NULL},
    [INIT_lecun_normal] = {fill_scaled, 1, LK_FAN_IN, LK_TRUNCATED_NORMAL, 0, 0, NULL},
    [INIT_orthogonal] = {.fill = fill_orthogonal, .least = 2, .axes = "have at least two axes"},
};

/* ---- making one ---- */

static bool is_given(const lki_field *f, const args *a)
{
    const char *member = (const char *)a + f->offset;
    if (f->type == LKI_FIELD_REAL) return *(const double *)member != 0;
    if (f->type == LKI_FIELD_NUMBER) return lki_number_given(*(const lk_number *)member);
    return *(const int *)member != 0;
}

static bool has_options(const char *call, const lki_class *class, const args *a)
{
    for (int i = 0; i < LKI_COUNT(EVERY_OPTION); i++) {
        const lki_field *f = &EVERY_OPTION[i];
        if (!is_given(f, a) || lki_field_find(class, f->name)) continue;
        lki_fail(LK_EINVAL, "%s: %s is given, but %s has no such option", call, f->name, class->name);
        return false;
    }
    return true;
}

static bool refuse(const char *call, const char *name, double value, const char *right)
{
    lki_fail(LK_EINVAL, "%s: %s is %g; it must be %s", call, name, value, right);
    return false;
}

static bool numbers_fit(const char *call, const args *a)
{
    double low = lki_number_or(a->minval, -0.05), high = lki_number_or(a->maxval, 0.05), deviation = lki_number_or(a->stddev, 0.05),
           scale = lki_number_or(a->scale, 1), gain = lki_number_or(a->gain, 1);
    if (!isfinite(a->mean)) return refuse(call, "mean", a->mean, "a finite number");
    if (!(deviation >= 0) || isinf(deviation)) return refuse(call, "stddev", deviation, "a number of at least 0");
    if (!(scale > 0) || isinf(scale)) return refuse(call, "scale", scale, "a number above 0");
    if (!isfinite(gain)) return refuse(call, "gain", gain, "a finite number");
    if (lki_number_given(a->seed) && !isfinite(lki_number(a->seed)))
        return refuse(call, "seed", lki_number(a->seed), "a finite number");
    if (!isfinite(low) || !isfinite(high) || low > high)
        return lki_fail(LK_EINVAL, "%s: minval %g, maxval %g; they must be finite, the first not above the second", call, low,
                        high),
               false;
    if ((unsigned)a->mode > LK_FAN_AVG) return lki_fail(LK_EINVAL, "%s: there is no mode %d", call, (int)a->mode), false;
    if ((unsigned)a->distribution > LK_UNIFORM)
        return lki_fail(LK_EINVAL, "%s: there is no distribution %d", call, (int)a->distribution), false;
    return true;
}

static lk_initializer *initializer_new(const char *call, int which, const args *a)
{
    const lki_class *class = &lki_initializer_classes[which];
    if (!has_options(call, class, a) || !numbers_fit(call, a)) return NULL;
    lk_initializer *i = lki_object_new(sizeof *i, LKI_KIND_INITIALIZER, LKI_LIVES_IN_POOL, NULL);
    if (!i) return NULL;
    i->class = class;
    i->set = *a;
    return i;
}

#define CONSTRUCTOR(name, class)                                                                                                   \
    lk_initializer *lk_init_##name##_kw(lk_initializer_args a) { return initializer_new("lk_init_" #name, INIT_##name, &a); }
LK_INITIALIZER_LIST(CONSTRUCTOR)
#undef CONSTRUCTOR

#define NAME(name, class) [INIT_##name] = #name,
static const char *const NAMES[INIT_COUNT + 1] = {LK_INITIALIZER_LIST(NAME)}; /* ends with NULL */
#undef NAME

lk_initializer *lk_initializer_named(const char *name)
{
    char known[LKI_KNOWN_TEXT];
    for (int i = 0; i < INIT_COUNT; i++)
        if (name && !strcmp(name, NAMES[i])) return initializer_new("lk_initializer_named", i, &(args){0});
    return lki_fail(LK_EINVAL, "lk_initializer_named: there is no initialiser \"%.64s\"%s", name ? name : "NULL",
                    lki_names_known(name ? name : "", lki_name_in_list, NAMES, NULL, known)),
           NULL;
}

lk_initializer *lk_initializer_of(lk_initializer_fn fn, void *user)
{
    if (!fn) return lki_fail(LK_EINVAL, "lk_initializer_of: the function is NULL"), NULL;
    lk_initializer *i = lki_object_new(sizeof *i, LKI_KIND_INITIALIZER, LKI_LIVES_IN_POOL, NULL);
    if (!i) return NULL;
    i->fn = fn;
    i->user = user;
    return i;
}

/* ---- calling one ---- */

static lk_tensor *call_own(const lk_initializer *i, lk_shape shape, const char *stream)
{
    char       text[2][LKI_SHAPE_TEXT];
    lk_tensor *t = i->fn(shape, stream, i->user);
    if (!t) return lki_refuse(LK_EINVAL, "lk_initializer_call: the function for \"%s\" returned NULL", stream);
    if (lki_bad(t) || lki_shape_equal(&t->shape, &shape)) return t;
    return lki_refuse(LK_ESHAPE, "lk_initializer_call: the function for \"%s\" returned %s; the weight is %s", stream,
                      lki_shape_text(&t->shape, text[0]), lki_shape_text(&shape, text[1]));
}

bool lki_initializer_filling(const lk_initializer *i, lk_shape shape, const char *stream, lki_filling *out)
{
    char          text[LKI_SHAPE_TEXT], seed[32];
    const int     which = (int)(i->class - lki_initializer_classes);
    const recipe *r = &RECIPES[which];
    if (shape.rank < r->least || (r->most && shape.rank > r->most)) {
        lki_fail(LK_ESHAPE, "lk_init_%s: a weight of %s; it must %s", NAMES[which], lki_shape_text(&shape, text), r->axes);
        return false;
    }
    lki_format(seed, sizeof seed, "seed/%.17g", lki_number(i->set.seed));
    *out = r->fill(r, &i->set, shape, lki_number_given(i->set.seed) ? seed : stream);
    return true;
}

lk_tensor *lk_initializer_call(const lk_initializer *i, lk_shape shape, const char *stream)
{
    char        text[LKI_SHAPE_TEXT];
    lki_filling f;
    if (!lki_is_kind(i, LKI_KIND_INITIALIZER))
        return lki_refuse(LK_EINVAL, "lk_initializer_call: %s", i ? "not an initialiser" : "the initialiser is NULL");
    if (!lki_shape_valid(&shape))
        return lki_refuse(LK_ESHAPE, "lk_initializer_call: %s is not the shape of a weight", lki_shape_text(&shape, text));
    if (!stream) stream = "";
    if (i->fn) return call_own(i, shape, stream);
    return lki_initializer_filling(i, shape, stream, &f) ? lki_filling_tensor(&f) : &lki_poison;
}
