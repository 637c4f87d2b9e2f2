/* Losses as objects: made by constructors, by Keras' names or from custom functions; and their names in Keras files. */
#include "core/names.h"
#include "model/loss.h"
#include <stdio.h>
#include <string.h>

/* ---- what Keras' files call them ---- */

enum { MEAN_WORD = LK_REDUCTION_MEAN_WITH_SAMPLE_WEIGHT + 1 }; /* a second word for SUM_OVER_BATCH_SIZE */

static const char *const REDUCTIONS[] = {[LK_REDUCTION_NONE] = "none",
                                         [LK_REDUCTION_SUM] = "sum",
                                         [LK_REDUCTION_SUM_OVER_BATCH_SIZE] = "sum_over_batch_size",
                                         [LK_REDUCTION_MEAN_WITH_SAMPLE_WEIGHT] = "mean_with_sample_weight",
                                         [MEAN_WORD] = "mean"};

#define ARGS lk_loss_object_args
#define EVERY_LOSS                                                                                                                 \
    LKI_FIELD(NAME, ARGS, name), LKI_FIELD(WORD, ARGS, reduction, .words = REDUCTIONS, .word_count = LKI_COUNT(REDUCTIONS),        \
                                           .standard = LK_REDUCTION_SUM_OVER_BATCH_SIZE)

#define AXIS LKI_FIELD(AXIS, ARGS, axis, .standard = -1)
#define NUMBER(member, standard_) LKI_FIELD(NUMBER, ARGS, member, .standard = standard_)

static const lki_field PLAIN[] = {EVERY_LOSS};
static const lki_field SPARSE[] = {EVERY_LOSS, LKI_FIELD(SWITCH, ARGS, from_logits),
                                   LKI_FIELD(NUMBER, ARGS, ignore_class, .none = true), LKI_FIXED("axis", "-1")};
static const lki_field SMOOTHED[] = {EVERY_LOSS, LKI_FIELD(SWITCH, ARGS, from_logits), LKI_FIELD(REAL, ARGS, label_smoothing),
                                     AXIS};
static const lki_field HUBER[] = {EVERY_LOSS, NUMBER(delta, 1)};
static const lki_field FOCAL[] = {
    EVERY_LOSS,      LKI_FIELD(SWITCH, ARGS, from_logits), LKI_FIELD(REAL, ARGS, label_smoothing), AXIS, NUMBER(alpha, 0.25),
    NUMBER(gamma, 2)};
static const lki_field BINARY_FOCAL[] = {EVERY_LOSS,
                                         LKI_FIELD(SWITCH, ARGS, from_logits),
                                         LKI_FIELD(REAL, ARGS, label_smoothing),
                                         AXIS,
                                         LKI_FIELD(SWITCH, ARGS, apply_class_balancing),
                                         NUMBER(alpha, 0.25),
                                         NUMBER(gamma, 2)};
static const lki_field GENERALIZED[] = {EVERY_LOSS, NUMBER(q, 0.5)};
static const lki_field DICE[] = {EVERY_LOSS, LKI_FIELD(AXES, ARGS, axis)};
static const lki_field TVERSKY[] = {EVERY_LOSS, NUMBER(alpha, 0.5), NUMBER(beta, 0.5), LKI_FIELD(AXES, ARGS, axis)};
static const lki_field CIRCLE[] = {EVERY_LOSS, NUMBER(gamma, 80), NUMBER(margin, 0.4),
                                   LKI_FIELD(SWITCH, ARGS, remove_diagonal, .standard = 1)};

#define MAKE(loss)                                                                                                                 \
    static void *make_##loss(const void *args)                                                                                     \
    {                                                                                                                              \
        lk_loss_object_args a = *(const lk_loss_object_args *)args;                                                                \
        if ((int)a.reduction == MEAN_WORD) a.reduction = LK_REDUCTION_MEAN;                                                        \
        return lk_##loss##_kw(a);                                                                                                  \
    }
LK_LOSS_LIST(MAKE)

#define CLASS(loss, name_, FIELDS)                                                                                                 \
    [LKI_LOSS_##loss] = {.name = name_, .module = "keras.losses", LKI_ARGS(ARGS, FIELDS), .make = make_##loss}
const lki_class lki_loss_classes[LKI_LOSS_COUNT] = {
    CLASS(sparse_categorical_crossentropy, "SparseCategoricalCrossentropy", SPARSE),
    CLASS(categorical_crossentropy, "CategoricalCrossentropy", SMOOTHED),
    CLASS(binary_crossentropy, "BinaryCrossentropy", SMOOTHED),
    CLASS(mean_squared_error, "MeanSquaredError", PLAIN),
    CLASS(mean_absolute_error, "MeanAbsoluteError", PLAIN),
    CLASS(huber, "Huber", HUBER),
    CLASS(log_cosh, "LogCosh", PLAIN),
    CLASS(hinge, "Hinge", PLAIN),
    CLASS(kl_divergence, "KLDivergence", PLAIN),
    CLASS(mean_absolute_percentage_error, "MeanAbsolutePercentageError", PLAIN),
    CLASS(mean_squared_logarithmic_error, "MeanSquaredLogarithmicError", PLAIN),
    CLASS(cosine_similarity, "CosineSimilarity", PLAIN),
    CLASS(poisson, "Poisson", PLAIN),
    CLASS(squared_hinge, "SquaredHinge", PLAIN),
    CLASS(categorical_hinge, "CategoricalHinge", PLAIN),
    CLASS(binary_focal_crossentropy, "BinaryFocalCrossentropy", BINARY_FOCAL),
    CLASS(categorical_focal_crossentropy, "CategoricalFocalCrossentropy", FOCAL),
    CLASS(categorical_generalized_cross_entropy, "CategoricalGeneralizedCrossEntropy", GENERALIZED),
    CLASS(dice, "Dice", DICE),
    CLASS(tversky, "Tversky", TVERSKY),
    CLASS(circle, "Circle", CIRCLE),
    CLASS(ctc, "CTC", PLAIN),
};

/* ---- making one ---- */

static void destroy(void *object)
{
    lk_loss *l = object;
    if (l->class) lki_args_drop(l->class, &l->set);
}

static bool reduction_exists(const char *call, lk_reduction reduction)
{
    if ((unsigned)reduction <= LK_REDUCTION_MEAN_WITH_SAMPLE_WEIGHT) return true;
    lki_fail(LK_EINVAL, "%s: there is no reduction %d; it must be AUTO, NONE, SUM, SUM_OVER_BATCH_SIZE or MEAN_WITH_SAMPLE_WEIGHT",
             call, (int)reduction);
    return false;
}

lk_loss *lki_loss_new(const char *call, const lki_class *c, const lk_loss_object_args *set)
{
    if (!reduction_exists(call, set->reduction)) return NULL;
    lk_loss *l = lki_object_new(sizeof *l, LKI_KIND_LOSS, LKI_LIVES_IN_POOL, destroy);
    if (!l) return NULL;
    l->set = *set;
    if (lki_args_hold(call, c, &l->set) == LK_OK) {
        l->class = c;
        return l;
    }
    lk_free(l);
    return NULL;
}

static lk_loss *loss_new(const char *call, lki_loss_id id, lk_loss_object_args a)
{
    const lk_loss_args options = lki_loss_options(&a);
    if (!lki_loss_options_fit(call, id, &options)) return NULL;
    if (!a.name) a.name = lki_losses[id].name;
    lk_loss *l = lki_loss_new(call, &lki_loss_classes[id], &a);
    if (l) l->id = id;
    return l;
}

#define CONSTRUCTOR(loss)                                                                                                          \
    lk_loss *lk_##loss##_kw(lk_loss_object_args args) { return loss_new("lk_" #loss, LKI_LOSS_##loss, args); }
LK_LOSS_LIST(CONSTRUCTOR)

lk_loss *lk_loss_of_kw(lk_own_loss_args a)
{
    static const lki_class OWN = {LKI_ARGS(ARGS, PLAIN)};
    if (!a.fn) return lki_fail(LK_EINVAL, "lk_loss_of: the function is NULL"), NULL;
    lk_loss *l = lki_loss_new("lk_loss_of", &OWN, &(ARGS){.reduction = a.reduction, .name = a.name ? a.name : "own_loss"});
    if (l) l->fn = a.fn, l->user = a.user;
    return l;
}

/* ---- by name ---- */

static const struct {
    const char *lower, *upper;
    lki_loss_id loss;
} SHORT[] = {
    {"mse", "MSE", LKI_LOSS_mean_squared_error},
    {"mae", "MAE", LKI_LOSS_mean_absolute_error},
    {"mape", "MAPE", LKI_LOSS_mean_absolute_percentage_error},
    {"msle", "MSLE", LKI_LOSS_mean_squared_logarithmic_error},
    {"bce", "BCE", LKI_LOSS_binary_crossentropy},
    {"kld", "KLD", LKI_LOSS_kl_divergence},
};

static int find(const char *name)
{
    for (int i = 0; i < LKI_LOSS_COUNT; i++)
        if (!strcmp(name, lki_losses[i].name) || !strcmp(name, lki_loss_classes[i].name)) return i;
    for (int i = 0; i < LKI_COUNT(SHORT); i++)
        if (!strcmp(name, SHORT[i].lower) || !strcmp(name, SHORT[i].upper)) return (int)SHORT[i].loss;
    return -1;
}

static const char *name_at(const void *of, int i)
{
    (void)of;
    if (i < LKI_LOSS_COUNT) return lki_losses[i].name;
    return i < LKI_LOSS_COUNT + LKI_COUNT(SHORT) ? SHORT[i - LKI_LOSS_COUNT].lower : NULL;
}

/* An object of a class has the class's name; a function has the name that was asked for, as in Keras. */
lk_loss *lk_loss_named(const char *name)
{
    char      known[LKI_KNOWN_TEXT];
    const int id = name ? find(name) : -1;
    if (!name) return lki_fail(LK_EINVAL, "lk_loss_named: the name is NULL"), NULL;
    if (id < 0)
        return lki_fail(LK_EINVAL, "lk_loss_named: there is no loss \"%.64s\"%s", name,
                        lki_names_known(name, name_at, NULL, NULL, known)),
               NULL;
    const bool class = !strcmp(name, lki_loss_classes[id].name);
    return loss_new("lk_loss_named", (lki_loss_id)id, (ARGS){.name = class ? NULL : name});
}

const char *lk_loss_name(const lk_loss *l)
{
    if (lki_is_kind(l, LKI_KIND_LOSS)) return l->set.name;
    lki_fail(LK_EINVAL, "lk_loss_name: %s", l ? "not a loss" : "the loss is NULL");
    return "";
}
