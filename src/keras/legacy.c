/* Weights in the layout from before Keras 3 (weights.h), for programs that read only that:
 *
 *     ROOT@layer_names, ROOT@backend, ROOT@keras_version
 *     ROOT dense@weight_names                 trainable ones first, then the others
 *     ROOT dense/dense/kernel
 *     optimizer_weights@weight_names, optimizer_weights/adam/iteration */
#include "core/memory.h"
#include "core/names.h"
#include "format/durable.h"
#include "keras/config.h"
#include "keras/model_config.h"
#include "keras/weights.h"
#include "model/compiled.h"
#include "model/trackable.h"
#include "nn/optimizer.h"
#include <stdio.h>
#include <string.h>

static char *joined(const char *a, const char *b) { return lki_path_join(a, strlen(a), b); }

static lk_status add_texts(lki_h5 *file, const char *group, const char *attribute, int count, const char *const *text)
{
    char *path LKI_RELEASED = joined(group, attribute);
    return path ? lki_h5_add_texts(file, path, count, text) : LK_ENOMEM;
}

static lk_status add_text(lki_h5 *file, const char *group, const char *attribute, const char *text)
{
    char *path LKI_RELEASED = joined(group, attribute);
    return path ? lki_h5_add_text(file, path, text) : LK_ENOMEM;
}

/* Names of a group's variables, as stored: a name that exists already gets a number. */
typedef struct names {
    int    count;
    char **item;
} names;

static lk_status names_new(int room, names *out)
{
    *out = (names){.item = lki_zalloc_array((size_t)room + 1, sizeof *out->item)};
    return out->item ? LK_OK : LK_ENOMEM;
}

static void names_free(names *n)
{
    for (int i = 0; i < n->count; i++)
        lki_release(n->item[i]);
    lki_release(n->item);
}

static bool is_taken(const names *n, const char *name)
{
    for (int i = 0; i < n->count; i++)
        if (strcmp(n->item[i], name) == 0) return true;
    return false;
}

static char *unique(const names *n, const char *name)
{
    char *tried = lki_strdup(name);
    for (int i = 1; tried && is_taken(n, tried); i++) {
        char number[16];
        snprintf(number, sizeof number, "_%d", i);
        lki_release(tried);
        tried = joined(name, number);
    }
    return tried;
}

static lk_status add_value(lki_h5 *file, const char *group, lk_variable *v, names *n)
{
    char *name = unique(n, v->name);
    if (!name) return LK_ENOMEM;
    n->item[n->count++] = name;
    char *path LKI_RELEASED = lki_text_new("%s/%s", group, name);
    return path ? lki_weight_put(v, path, file) : LK_ENOMEM;
}

static lk_status add_layer(lki_h5 *file, lk_layer *l, const char *root)
{
    const int count = lki_layer_weights(l);
    char     *group LKI_RELEASED = joined(root, l->name);
    names     n LKI_FREED_BY(names_free) = {0};
    LKI_TRY(group ? names_new(count, &n) : LK_ENOMEM);
    LKI_TRY(lki_h5_add_group(file, group));
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < count; i++) {
            lk_variable *v = lki_layer_weight_at(l, i)->variable;
            if (v->trainable == (pass == 0)) LKI_TRY(add_value(file, group, v, &n));
        }
    return count ? add_texts(file, group, "@weight_names", n.count, (const char *const *)n.item) : LK_OK;
}

static lk_status add_layers(lki_h5 *file, lk_model *m, const char *root, const char *top)
{
    const char **layers LKI_RELEASED = lki_alloc_array((size_t)m->count + 1, sizeof *layers);
    if (!layers) return LK_ENOMEM;
    for (int i = 0; i < m->count; i++) {
        layers[i] = m->layer[i]->name;
        LKI_TRY(add_layer(file, m->layer[i], root));
    }
    return add_texts(file, top, "@layer_names", m->count, layers);
}

static lk_status add_optimizer(lki_h5 *file, lk_optimizer *o)
{
    const lk_variables v = lk_optimizer_variables(o);
    names              n LKI_FREED_BY(names_free) = {0};
    LKI_TRY(names_new(v.count, &n));
    for (int i = 0; i < v.count; i++)
        LKI_TRY(add_value(file, "optimizer_weights", v.item[i], &n));
    return add_texts(file, "optimizer_weights", "@weight_names", n.count, (const char *const *)n.item);
}

lk_status lki_legacy_weights_write(const char *name, lk_model *m, const char *root, lki_h5 *file)
{
    LKI_TRY(lki_weights_built(name, m));
    const lki_outside before = lki_step_outside();
    const char       *top = *root ? "model_weights" : ""; /* the first group of `root` */
    lk_status         status = *root ? lki_h5_add_group(file, top) : LK_OK;
    if (status == LK_OK) status = add_layers(file, m, root, top);
    if (status == LK_OK) status = add_text(file, top, "@backend", "tensorflow");
    if (status == LK_OK) status = add_text(file, top, "@keras_version", LKI_KERAS_VERSION);
    if (status == LK_OK && *root && lki_is_compiled(m)) status = add_optimizer(file, m->compiled->optimizer);
    lki_step_back(&before);
    return status;
}
