/* All classes that a Keras file can name, by kind of object, and their other names in Keras (config.h). */
#include "keras/config.h"
#include "layer/constraint.h"
#include "layer/initializer.h"
#include "layer/layer.h"
#include "layer/regularizer.h"
#include "model/loss.h"
#include "model/metric.h"
#include "nn/optimizer.h"
#include <ctype.h>
#include <lockstep/fit.h>
#include <stdio.h>
#include <string.h>

/* ---- where classes and arguments are ---- */

enum { ENDS = -1 }; /* a list that ends with an empty one */

#define FAMILY(what, type, list, count, member)                                                                                    \
    static const lki_class *what##_at(int i)                                                                                       \
    {                                                                                                                              \
        return (count) < 0 ? (list[i].name ? &list[i] : NULL) : i < (count) ? &list[i] : NULL;                                     \
    }                                                                                                                              \
    static const lki_class *what##_of(const void *object, void *args)                                                              \
    {                                                                                                                              \
        const type *o = object;                                                                                                    \
        if (args) memcpy(args, &o->member, o->class->bytes);                                                                       \
        return o->class;                                                                                                           \
    }
FAMILY(initializer, lk_initializer, lki_initializer_classes, ENDS, set)
FAMILY(regularizer, lk_regularizer, lki_regularizer_classes, ENDS, set)
FAMILY(constraint, lk_constraint, lki_constraint_classes, ENDS, set)
FAMILY(schedule, lk_schedule, lki_schedule_classes, LKI_SCHEDULE_COUNT, args)
FAMILY(loss, lk_loss, lki_loss_classes, LKI_LOSS_COUNT, set)
FAMILY(metric, lk_metric, lki_metric_classes, LKI_METRIC_COUNT, set)

static const lki_class *layer_at(int i) { return lki_layer_kinds[i] ? &lki_layer_kinds[i]->class : NULL; }

/* Its name may come from its position, and `trainable` may have changed. */
static const lki_class *layer_of(const void *object, void *args)
{
    const lk_layer  *l = object;
    const lki_class *c = &l->kind->class;
    if (!args) return c;
    memcpy(args, (const char *)object + l->kind->set, c->bytes);
    *(const char **)((char *)args + c->field[LKI_LAYER_NAME].offset) = lki_layer_title(l);
    *(lk_switch *)((char *)args + c->field[LKI_LAYER_TRAINABLE].offset) = l->trainable ? LK_ON : LK_OFF;
    return c;
}

static const lki_class *optimizer_at(int i) { return i < LKI_OPTIMIZER_IDS ? &lki_optimizer_classes[i] : NULL; }
static const lki_class *optimizer_of(const void *object, void *args) { return lki_optimizer_class(object, args); }

/* ---- other names ---- */

static const lki_alias INITIALIZERS[] = {{"normal", "RandomNormal"},
                                         {"uniform", "RandomUniform"},
                                         {"zero", "Zeros"},
                                         {"one", "Ones"},
                                         {"OrthogonalInitializer", "Orthogonal"},
                                         {"IdentityInitializer", "Identity"},
                                         {0}};

static const lki_alias WORDS[] = {{"swish", "silu"}, {"hard_swish", "hard_silu"}, {0}};

static const struct {
    const char *name, *why;
} OURS[] = {{"gelu_tanh", "the activation gelu of Keras files is the exact one, LK_GELU"},
            {"ConfusionMatrix", "Keras has no such metric"}};

const char *lki_not_in_keras(const char *name)
{
    for (int i = 0; i < LKI_COUNT(OURS); i++)
        if (!strcmp(name, OURS[i].name)) return OURS[i].why;
    return NULL;
}

static const char *other_name(const lki_alias *list, const char *name)
{
    for (; list && list->name; list++)
        if (!strcmp(list->name, name)) return list->class;
    return name;
}

/* ---- families ---- */

static void *loss_named(const char *name) { return lk_loss_named(name); }
static void *metric_named(const char *name) { return lk_metric_named(name); }

static const lki_family FAMILIES[] = {
    {LKI_KIND_LAYER, "layer", "layer.h", layer_at, layer_of, NULL, NULL},
    {LKI_KIND_INITIALIZER, "initialiser", NULL, initializer_at, initializer_of, NULL, INITIALIZERS},
    {LKI_KIND_REGULARIZER, "regulariser", NULL, regularizer_at, regularizer_of, NULL, NULL},
    {LKI_KIND_CONSTRAINT, "constraint", NULL, constraint_at, constraint_of, NULL, NULL},
    {LKI_KIND_OPTIMIZER, "optimiser", NULL, optimizer_at, optimizer_of, NULL, NULL},
    {LKI_KIND_SCHEDULE, "schedule", NULL, schedule_at, schedule_of, NULL, NULL},
    {LKI_KIND_LOSS, "loss", NULL, loss_at, loss_of, loss_named, NULL},
    {LKI_KIND_METRIC, "metric", NULL, metric_at, metric_of, metric_named, NULL},
};

const lki_family *lki_family_of(lki_kind kind)
{
    for (int i = 0; i < LKI_COUNT(FAMILIES); i++)
        if (FAMILIES[i].kind == kind) return &FAMILIES[i];
    return NULL;
}

/* "GlorotUniform" and "glorot_uniform": equal except for case and underscores. */
static bool same_name(const char *a, const char *b)
{
    for (;; a++, b++) {
        a += *a == '_';
        b += *b == '_';
        if (tolower((unsigned char)*a) != tolower((unsigned char)*b)) return false;
        if (!*a) return true;
    }
}

const lki_class *lki_class_named(const lki_family *f, const char *name)
{
    const lki_class *c;
    name = other_name(f->alias, name);
    for (int i = 0; (c = f->at(i)); i++)
        if (c->name && same_name(c->name, name)) return c;
    return NULL;
}

static const char *class_name_at(const void *family, int i)
{
    const lki_class *c = ((const lki_family *)family)->at(i);
    return !c ? NULL : c->name && c->make ? c->name : "";
}

const char *lki_classes_known(const lki_family *f, const char *name, char text[LKI_KNOWN_TEXT])
{
    return lki_names_known(name, class_name_at, f, f->header, text);
}

int lki_word_named(const lki_field *f, const char *word)
{
    word = other_name(WORDS, word);
    for (int i = 0; i < f->word_count; i++)
        if (f->words[i] && !strcmp(f->words[i], word)) return i;
    return -1;
}

/* ---- by name ---- */

lk_optimizer *lk_optimizer_named(const char *name, double learning_rate)
{
    const lki_family  *f = lki_family_of(LKI_KIND_OPTIMIZER);
    const lki_class   *c = name ? lki_class_named(f, name) : NULL;
    lki_optimizer_args args = {0};
    char               known[LKI_KNOWN_TEXT];
    if (!c)
        return lki_fail(LK_EINVAL, "lk_optimizer_named: there is no optimiser \"%.64s\"%s", name ? name : "NULL",
                        lki_classes_known(f, name ? name : "", known)),
               NULL;
    if (!lki_field_find(c, "learning_rate"))
        return lki_fail(LK_EINVAL, "lk_optimizer_named: %s needs other optimisers; make it with its constructor", c->name), NULL;
    args.sgd.learning_rate = learning_rate; /* all with a rate begin with the same members */
    return c->make(&args);
}
