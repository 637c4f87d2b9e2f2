/* Weights of models in HDF5 files (weights.h): a list of variables and their places, which are then all read or all written. */
#include "keras/weights.h"
#include "core/dtype.h"
#include "core/log.h"
#include "core/memory.h"
#include "core/names.h"
#include "format/durable.h"
#include "keras/model_config.h"
#include "layer/operation.h"
#include "model/compiled.h"
#include "model/trackable.h"
#include "nn/optimizer.h"
#include <assert.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- names ---- */

static char *joined(const char *a, const char *b) { return lki_path_join(a, strlen(a), b); }

/* ---- what is where ---- */

typedef struct place {
    char        *path;
    lk_variable *variable; /* NULL: a group, whose "name" is: */
    const char  *name;
} place;

typedef struct places {
    int    count, room;
    place *item;
} places;

static void places_free(places *p)
{
    for (int i = 0; i < p->count; i++)
        lki_release(p->item[i].path);
    lki_release(p->item);
}

/* Takes over the path. */
static lk_status add(places *p, char *path, lk_variable *v, const char *name)
{
    if (path && lki_grow((void **)&p->item, &p->room, p->count + 1, sizeof *p->item)) {
        p->item[p->count++] = (place){path, v, name};
        return LK_OK;
    }
    lki_release(path);
    return LK_ENOMEM;
}

static lk_status add_weights(places *p, const lk_layer *l, const char *folder)
{
    const lki_weight *borrowed = l->kind->borrowed ? l->kind->borrowed(l) : NULL;
    if (borrowed) LKI_TRY(add(p, joined(folder, "vars/0"), borrowed->variable, NULL));
    for (int i = 0; i < l->count; i++) {
        char text[32];
        snprintf(text, sizeof text, "vars/%d", i);
        const char *own = l->weight[i].place ? l->weight[i].place : l->kind->place ? l->kind->place[i] : text;
        LKI_TRY(add(p, joined(folder, own), l->weight[i].variable, NULL));
    }
    return LK_OK;
}

static lk_status add_model(places *p, lk_model *m, const char *folder);

/* `folder` ends in a slash. */
static lk_status add_layer(places *p, lk_layer *l, const char *folder)
{
    lk_model *inside = lki_model_inside(l);
    if (inside) return add_model(p, inside, folder);
    LKI_TRY(add(p, joined(folder, "vars"), NULL, l->name));
    LKI_TRY(add_weights(p, l, folder));
    for (int i = 0; i < l->inner_count; i++) {
        assert(l->kind->inner_place || l->kind->inner_list);
        char *within LKI_RELEASED = lki_layer_inner_place(l, i);
        char *inner LKI_RELEASED = within ? lki_text_new("%s%s/", folder, within) : NULL;
        LKI_TRY(inner ? add_layer(p, l->inner[i], inner) : LK_ENOMEM);
    }
    return LK_OK;
}

static const char *class_of(const lk_layer *l)
{
    const lk_model *inside = lki_model_inside(l);
    if (inside) return inside->form == LKI_SEQUENTIAL ? "Sequential" : "Functional";
    if (l->entry_class) return l->entry_class;
    return l->kind->class.name && !l->kind->class.make ? l->kind->class.name : l->kind->name; /* of Keras: by its class in Python */
}

/* Keras does not count operations among the layers. */
static lk_status add_numbered(places *p, const lk_model *m, int at, const char *folder)
{
    if (lki_is_operation_layer(m->layer[at])) return LK_OK;
    char name[128], number[16] = "";
    int  before = 0;
    for (int i = 0; i < at; i++)
        before += !lki_is_operation_layer(m->layer[i]) && !strcmp(class_of(m->layer[i]), class_of(m->layer[at]));
    if (before) snprintf(number, sizeof number, "_%d", before);
    lki_snake_case(class_of(m->layer[at]), name, sizeof name);
    char *path LKI_RELEASED = lki_text_new("%slayers/%s%s/", folder, name, number);
    return path ? add_layer(p, m->layer[at], path) : LK_ENOMEM;
}

static lk_status add_model(places *p, lk_model *m, const char *folder)
{
    LKI_TRY(add(p, joined(folder, "vars"), NULL, m->name));
    for (int i = 0; i < m->count; i++)
        LKI_TRY(add_numbered(p, m, i, folder));
    return LK_OK;
}

static lk_status add_state(places *p, lk_optimizer *o, const char *folder)
{
    const lk_variables v = lk_optimizer_variables(o);
    LKI_TRY(add(p, joined(folder, "vars"), NULL, o->name));
    for (int i = 0; i < v.count; i++) {
        char text[24];
        snprintf(text, sizeof text, "vars/%d", i);
        LKI_TRY(add(p, joined(folder, text), v.item[i], NULL));
    }
    return LK_OK;
}

/* Keras stores the optimiser inside another one with it, and again by itself. */
static lk_status add_optimizer(places *p, lk_optimizer *o)
{
    LKI_TRY(add_state(p, o, "optimizer/"));
    return o->scale ? add_state(p, o->inner[0], "optimizer/inner_optimizer/") : LK_OK;
}

/* ---- writing ---- */

lk_status lki_weight_put(lk_variable *v, const char *path, lki_h5 *file)
{
    lk_status status = LK_OK;
    LK_STEP {
        const lk_tensor *t = lk_read(v);
        status = lki_bad(t) ? lki_poisoned_status("lk_model_save") : LK_OK;
        if (status == LK_OK) status = lki_h5_add_array(file, path, t->dtype, &t->shape, lk_data(t));
    }
    return status;
}

lk_status lki_weight_take(lk_variable *v, const char *name, lki_arrays *out)
{
    lk_status status = LK_OK;
    LK_STEP {
        const lk_tensor *t = lk_read(v);
        status = lki_bad(t) ? lki_poisoned_status("lk_model_save_weights") : LK_OK;
        if (status == LK_OK) status = lki_arrays_copy(out, name, t->dtype, &t->shape, lk_data(t));
    }
    return status;
}

static lk_status write_group(lki_h5 *file, const place *p)
{
    char *attribute LKI_RELEASED = joined(p->path, "@name");
    if (!attribute) return LK_ENOMEM;
    LKI_TRY(lki_h5_add_group(file, p->path));
    return lki_h5_add_text(file, attribute, p->name);
}

static lk_status write_places(lki_h5 *file, const places *p)
{
    const lki_outside before = lki_step_outside();
    lk_status         status = LK_OK;
    for (int i = 0; i < p->count && status == LK_OK; i++)
        status = p->item[i].variable ? lki_weight_put(p->item[i].variable, p->item[i].path, file) : write_group(file, &p->item[i]);
    lki_step_back(&before);
    return status;
}

static lk_status list_all(places *p, lk_model *m)
{
    LKI_TRY(add_model(p, m, ""));
    if (m->calls) LKI_TRY(add(p, lki_strdup("lockstep/calls"), m->calls, NULL));
    return lki_is_compiled(m) ? add_optimizer(p, m->compiled->optimizer) : LK_OK;
}

lk_status lki_weights_built(const char *name, const lk_model *m)
{
    if (lki_model_built(m)) return LK_OK;
    return lki_fail(LK_ESTATE, "%s: model \"%s\" has no weights yet; build it first with lk_model_build()", name, m->name);
}

lk_status lki_weights_write(const char *name, lk_model *m, lki_h5 *file)
{
    places p = {0};
    LKI_TRY(lki_weights_built(name, m));
    lk_status status = list_all(&p, m);
    if (status == LK_OK) status = write_places(file, &p);
    places_free(&p);
    return status;
}

lk_status lki_weights_each(lk_model *m, lki_weight_fn *fn, void *arg)
{
    places    p = {0};
    lk_status status = add_model(&p, m, "");
    for (int i = 0; i < p.count && status == LK_OK; i++)
        if (p.item[i].variable) status = fn(arg, p.item[i].path, p.item[i].variable);
    places_free(&p);
    return status;
}

/* ---- reading: values and where they go ---- */

typedef struct values {
    const char       *name; /* of the file */
    lki_h5           *file;
    bool             *used; /* item i is used */
    int               count, room;
    lki_weight_value *item;
} values;

static lk_status want(values *v, const lki_h5_item *item, lk_variable *variable)
{
    if (!lki_grow((void **)&v->item, &v->room, v->count + 1, sizeof *v->item)) return LK_ENOMEM;
    v->item[v->count++] = (lki_weight_value){&v->file->item[item - v->file->item].array, variable};
    v->used[item - v->file->item] = true;
    return LK_OK;
}

lk_status lki_weight_fits(const char *file, const char *key, const lki_array *array, const lk_variable *v)
{
    char there[LKI_SHAPE_TEXT], here[LKI_SHAPE_TEXT];
    if (!lki_shape_equal(&array->shape, &v->shape))
        return lki_fail(LK_ESHAPE, "%s: \"%s\" is %s; \"%s\" of the model is %s", file, key, lki_shape_text(&array->shape, there),
                        v->name, lki_shape_text(&v->shape, here));
    if (lki_is_float(array->dtype) != lki_is_float(v->dtype))
        return lki_fail(LK_EDTYPE, "%s: \"%s\" is %s; \"%s\" of the model is %s", file, key, lk_dtype_name(array->dtype), v->name,
                        lk_dtype_name(v->dtype));
    return LK_OK;
}

static lk_status fits(const values *v, const lki_h5_item *item, const lk_variable *variable)
{
    if (item->kind != LKI_H5_DATASET || item->type != LKI_H5_ARRAY)
        return lki_fail(LK_EFORMAT, "%s: \"%s\" is not an array of numbers", v->name, item->name);
    return lki_weight_fits(v->name, item->name, &item->array, variable);
}

/* Keras 2 has "_query_dense" where Keras 3 has "query_dense". */
static const lki_h5_item *find_value(const values *v, const char *path)
{
    const lki_h5_item *item = lki_h5_find(v->file, path);
    const char        *part = strstr(path, "_dense/");
    while (part > path && part[-1] != '/')
        part--;
    char *old LKI_RELEASED = !item && part ? lki_text_new("%.*s_%s", (int)(part - path), path, part) : NULL;
    return old ? lki_h5_find(v->file, old) : item;
}

static lk_status want_path(values *v, const char *path, lk_variable *variable)
{
    const lki_h5_item *item = find_value(v, path);
    if (!item)
        return lki_fail(LK_EFORMAT, "%s: there is no \"%s\", which should be the value of \"%s\"", v->name, path, variable->name);
    LKI_TRY(fits(v, item, variable));
    return want(v, item, variable);
}

static lk_tensor *tensor_of(const lki_array *a, lk_dtype dtype)
{
    if (a->dtype == dtype) return lk_tensor_from(a->shape, dtype, a->data);
    lk_tensor *t = lki_tensor_new(dtype, &a->shape);
    for (int64_t i = 0, size = lki_bad(t) ? 0 : lki_shape_size(&a->shape); i < size; i++)
        lki_element_set(dtype, t->data, i, lki_element_get(a->dtype, a->data, i));
    return t;
}

static lk_status copy_one(const lki_weight_value *v)
{
    lk_status status = LK_OK;
    LK_STEP {
        lk_tensor *t = tensor_of(v->array, v->variable->dtype);
        status = lki_bad(t) ? LK_ENOMEM : lk_assign(v->variable, t);
    }
    return status;
}

/* `last`: this is the last use of the array. */
static lk_status assign_one(const lki_weight_value *v, bool last)
{
    lki_array *a = v->array;
    if (last && a->dtype == v->variable->dtype && lki_variable_adopt(v->variable, a->data)) return a->data = NULL, LK_OK;
    const lk_status status = copy_one(v);
    if (last && status == LK_OK) lki_array_free(a);
    return status;
}

static int by_address(const void *a, const void *b)
{
    const lki_array *x = *(lki_array *const *)a, *y = *(lki_array *const *)b;
    return (x > y) - (x < y);
}

/* True if two variables get the same array, which names in a file allow. */
static lk_status look_for_twins(int count, const lki_weight_value *value, bool *found)
{
    lki_array **array LKI_RELEASED = lki_alloc_array(count + 1, sizeof *array);
    if (!array) return LK_ENOMEM;
    for (int i = 0; i < count; i++)
        array[i] = value[i].array;
    if (count) qsort(array, (size_t)count, sizeof *array, by_address);
    *found = false;
    for (int i = 1; i < count; i++)
        *found = *found || array[i] == array[i - 1];
    return LK_OK;
}

lk_status lki_weights_assign(int count, const lki_weight_value *value)
{
    bool twins;
    LKI_TRY(look_for_twins(count, value, &twins));
    const lki_outside before = lki_step_outside();
    lk_status         status = LK_OK;
    for (int i = 0; i < count && status == LK_OK; i++)
        status = assign_one(&value[i], !twins);
    lki_step_back(&before);
    return status;
}

/* ---- as Keras 3 has them ---- */

/* Only Keras uses the state of its random numbers. */
static bool is_foreign(const char *name) { return strncmp(name, "layers/", 7) != 0 || strstr(name, "seed_generator") != NULL; }

static lk_status check_rest(const values *v)
{
    for (int i = 0; i < v->file->count; i++)
        if (v->file->item[i].kind == LKI_H5_DATASET && !v->used[i] && !is_foreign(v->file->item[i].name))
            return lki_fail(LK_EFORMAT, "%s: \"%s\" is for a layer or weight that the model does not have", v->name,
                            v->file->item[i].name);
    return LK_OK;
}

static lk_status want_layers(values *v, lk_model *m)
{
    places    p = {0};
    lk_status status = add_model(&p, m, "");
    for (int i = 0; i < p.count && status == LK_OK; i++)
        if (p.item[i].variable) status = want_path(v, p.item[i].path, p.item[i].variable);
    places_free(&p);
    const lki_h5_item *calls = m->calls ? lki_h5_find(v->file, "lockstep/calls") : NULL;
    if (status == LK_OK && calls && fits(v, calls, m->calls) == LK_OK) status = want(v, calls, m->calls);
    return status == LK_OK ? check_rest(v) : status;
}

/* ---- before Keras 3 ---- */

static const lki_h5_item *texts_at(const values *v, const char *group, const char *attribute)
{
    char              *path LKI_RELEASED = joined(group, attribute);
    const lki_h5_item *item = path ? lki_h5_find(v->file, path) : NULL;
    return item && item->kind == LKI_H5_ATTRIBUTE && item->type != LKI_H5_ARRAY ? item : NULL;
}

/* The weights of a layer in the order of old files: trainable ones first, then the others. */
static lk_status want_layer(values *v, lk_layer *l, const char *group, const lki_h5_item *names)
{
    const int count = lki_layer_weights(l);
    int       next = 0;
    if (names->texts != count)
        return lki_fail(LK_EFORMAT, "%s: \"%s\" has %d weights; layer \"%s\" has %d", v->name, group, names->texts, l->name, count);
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < count; i++) {
            lk_variable *variable = lki_layer_weight_at(l, i)->variable;
            if (variable->trainable != (pass == 0)) continue;
            char *path LKI_RELEASED = lki_text_new("%s/%s", group, names->text[next++]);
            LKI_TRY(path ? want_path(v, path, variable) : LK_ENOMEM);
        }
    return LK_OK;
}

/* The next layer that has weights; -1: there is none. */
static int next_layer(const lk_model *m, int from)
{
    while (from < m->count && !lki_layer_weights(m->layer[from]))
        from++;
    return from < m->count ? from : -1;
}

static lk_status want_legacy(values *v, lk_model *m, const char *root, const lki_h5_item *layers)
{
    int at = 0;
    for (int i = 0; i < layers->texts; i++) {
        char              *group LKI_RELEASED = joined(root, layers->text[i]);
        const lki_h5_item *names = group ? texts_at(v, group, "@weight_names") : NULL;
        if (!group) return LK_ENOMEM;
        if (!names || !names->texts) continue;
        at = next_layer(m, at);
        LKI_TRY(at < 0 ? lki_fail(LK_EFORMAT, "%s: \"%s\" is for a layer that the model does not have", v->name, group)
                       : want_layer(v, m->layer[at++], group, names));
    }
    at = next_layer(m, at);
    return at < 0 ? LK_OK : lki_fail(LK_EFORMAT, "%s: there are no weights for layer \"%s\"", v->name, m->layer[at]->name);
}

static lk_status want_weights(values *v, lk_model *m)
{
    const lki_h5_item *whole = texts_at(v, "model_weights", "@layer_names"), *plain = texts_at(v, "", "@layer_names");
    if (whole) return want_legacy(v, m, "model_weights/", whole);
    return plain ? want_legacy(v, m, "", plain) : want_layers(v, m);
}

/* ---- the optimiser ---- */

/* The i-th value of its state in either layout; NULL: there is none. */
static const lki_h5_item *state_at(const values *v, int i)
{
    char               text[40];
    const lki_h5_item *names = texts_at(v, "optimizer_weights", "@weight_names");
    snprintf(text, sizeof text, "optimizer/vars/%d", i);
    if (!names) return lki_h5_find(v->file, text);
    char *path LKI_RELEASED = i < names->texts ? joined("optimizer_weights/", names->text[i]) : NULL;
    return path ? lki_h5_find(v->file, path) : NULL;
}

/* If the state is not that of this optimiser for these weights, it starts again, as in Keras. */
static lk_status want_state(values *v, lk_model *m)
{
    lk_optimizer *o = m->compiled->optimizer;
    lk_variables  state = lk_optimizer_variables(o);
    int           count = 0, before = v->count;
    while (state_at(v, count))
        count++;
    if (count > state.count) LKI_TRY(lk_optimizer_build(o, lk_model_trainable_variables(m)));
    state = lk_optimizer_variables(o);
    bool good = count == state.count;
    for (int i = 0; i < count && good; i++) {
        const lki_h5_item *item = state_at(v, i);
        good = item->kind == LKI_H5_DATASET && item->type == LKI_H5_ARRAY &&
               lki_shape_equal(&item->array.shape, &state.item[i]->shape);
        if (good) LKI_TRY(want(v, item, state.item[i]));
    }
    if (good || !count) return LK_OK;
    v->count = before;
    lki_warn(
        "%s: the state of the optimiser has %d values that do not fit the model's, which has %d: the optimiser starts without it",
        v->name, count, state.count);
    return LK_OK;
}

/* ---- all of it ---- */

lk_status lki_weights_read(const char *name, lk_model *m, lki_h5 *file)
{
    LKI_TRY(lki_weights_built(name, m));
    values    v = {.name = name, .file = file, .used = lki_zalloc((size_t)file->count + 1)};
    lk_status status = v.used ? want_weights(&v, m) : LK_ENOMEM;
    if (status == LK_OK && lki_is_compiled(m)) status = want_state(&v, m);
    if (status == LK_OK) status = lki_weights_assign(v.count, v.item);
    lki_release(v.used);
    lki_release(v.item);
    return status;
}
