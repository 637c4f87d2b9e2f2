/* Weights of models as named arrays (weights.h): a list of names and variables, which are then all read or all assigned. */
#include "core/log.h"
#include "core/memory.h"
#include "core/names.h"
#include "core/shape.h"
#include "format/durable.h"
#include "format/object_graph.h"
#include "keras/model_config.h"
#include "keras/weights.h"
#include "model/compiled.h"
#include "model/trackable.h"
#include "nn/optimizer.h"
#include <stdio.h>
#include <string.h>

/* ---- names ---- */

typedef struct entry {
    char        *name; /* with the names of enclosing models; as it is written */
    char        *bare; /* without them */
    lk_variable *variable;
} entry;

typedef struct entries {
    int    count, room;
    entry *item;
} entries;

static void entries_free(entries *e)
{
    for (int i = 0; i < e->count; i++) {
        lki_release(e->item[i].name);
        lki_release(e->item[i].bare);
    }
    lki_release(e->item);
    *e = (entries){0};
}

static char *joined(const char *a, const char *b) { return lki_path_join(a, strlen(a), b); }

/* "a/" and "b" to "a/b/". */
static char *folder(const char *a, const char *b) { return lki_text_new("%s%s/", a, b); }

static bool is_taken(const entries *e, const char *name)
{
    for (int i = 0; i < e->count; i++)
        if (strcmp(e->item[i].name, name) == 0) return true;
    return false;
}

/* From lki_alloc, the same name or a new one; NULL: no memory. */
static char *unique(const entries *e, char *name)
{
    char *tried = name ? joined(name, "") : NULL;
    for (int n = 1; tried && is_taken(e, tried); n++) {
        char number[16];
        snprintf(number, sizeof number, "_%d", n);
        lki_release(tried);
        tried = joined(name, number);
    }
    lki_release(name);
    return tried;
}

/* Takes over both texts. */
static lk_status add(entries *e, char *name, char *bare, lk_variable *v)
{
    name = unique(e, name);
    if (name && bare && lki_grow((void **)&e->item, &e->room, e->count + 1, sizeof *e->item)) {
        e->item[e->count++] = (entry){name, bare, v};
        return LK_OK;
    }
    lki_release(name);
    lki_release(bare);
    return LK_ENOMEM;
}

static lk_status add_model(entries *e, lk_model *m, const char *path, const char *bare);

/* The name of the cell that Keras has inside the layer. */
static const char *cell_of(const lk_layer *l)
{
    static const struct {
        const char *class, *cell;
    } CELLS[] = {{"LSTM", "lstm_cell/"}, {"GRU", "gru_cell/"}, {"SimpleRNN", "simple_rnn_cell/"}};
    for (int i = 0; l->kind->class.name && i < LKI_COUNT(CELLS); i++)
        if (strcmp(l->kind->class.name, CELLS[i].class) == 0) return CELLS[i].cell;
    return "";
}

static lk_status add_weights(entries *e, lk_layer *l, const char *path, const char *bare)
{
    char *own LKI_RELEASED = joined(path, cell_of(l)), *own_bare LKI_RELEASED = joined(bare, cell_of(l));
    if (!own || !own_bare) return LK_ENOMEM;
    for (int i = 0; i < l->count; i++)
        LKI_TRY(add(e, joined(own, l->weight[i].name), joined(own_bare, l->weight[i].name), l->weight[i].variable));
    return LK_OK;
}

/* `path` and `bare` are the parts before its name. */
static lk_status add_layer(entries *e, lk_layer *l, const char *path, const char *bare)
{
    lk_model *inside = lki_model_inside(l);
    char     *own LKI_RELEASED = folder(path, l->name), *own_bare LKI_RELEASED = inside ? joined(bare, "") : folder(bare, l->name);
    if (!own || !own_bare) return LK_ENOMEM;
    if (inside) return add_model(e, inside, own, own_bare);
    LKI_TRY(add_weights(e, l, own, own_bare));
    for (int i = 0; i < l->inner_count; i++)
        LKI_TRY(add_layer(e, l->inner[i], own, own_bare));
    return LK_OK;
}

static lk_status add_model(entries *e, lk_model *m, const char *path, const char *bare)
{
    for (int i = 0; i < m->count; i++)
        LKI_TRY(add_layer(e, m->layer[i], path, bare));
    return LK_OK;
}

static lk_status add_state(entries *e, lk_optimizer *o)
{
    const lk_variables v = lk_optimizer_variables(o);
    for (int i = 0; i < v.count; i++)
        LKI_TRY(add(e, lki_strdup(v.item[i]->name), lki_strdup(v.item[i]->name), v.item[i]));
    return LK_OK;
}

#define CALLS "lockstep/calls"

/* ---- writing ---- */

static lk_status take_all(const entries *e, lki_arrays *out)
{
    const lki_outside before = lki_step_outside();
    lk_status         status = LK_OK;
    for (int i = 0; i < e->count && status == LK_OK; i++)
        status = lki_weight_take(e->item[i].variable, e->item[i].name, out);
    lki_step_back(&before);
    return status;
}

lk_status lki_named_write(const char *name, lk_model *m, lki_arrays *out)
{
    entries e LKI_FREED_BY(entries_free) = {0};
    *out = (lki_arrays){0};
    LKI_TRY(lki_weights_built(name, m));
    lk_status status = add_model(&e, m, "", "");
    if (status == LK_OK && lki_is_compiled(m)) status = add_state(&e, m->compiled->optimizer);
    if (status == LK_OK && m->calls) status = add(&e, lki_strdup(CALLS), lki_strdup(CALLS), m->calls);
    if (status == LK_OK) status = take_all(&e, out);
    if (status == LK_OK) status = lki_arrays_close(name, out);
    if (status != LK_OK) lki_arrays_free(out);
    return status;
}

/* ---- reading ---- */

typedef struct reading {
    const char       *name; /* of the file */
    lk_model         *model;
    lki_arrays       *arrays;
    bool             *used; /* array i is used */
    int               count, room;
    lki_weight_value *value;
} reading;

static lk_status want(reading *r, const lki_named *n, lk_variable *v)
{
    if (!lki_grow((void **)&r->value, &r->room, r->count + 1, sizeof *r->value)) return LK_ENOMEM;
    r->value[r->count++] = (lki_weight_value){&r->arrays->item[n - r->arrays->item].array, v};
    r->used[n - r->arrays->item] = true;
    return LK_OK;
}

/* An unused array whose name is the three texts joined; NULL: there is none. */
static const lki_named *look_for(const reading *r, const char *a, const char *b, const char *c)
{
    char            *name LKI_RELEASED = lki_text_new("%s%s%s", a, b, c);
    const lki_named *n = name ? lki_arrays_find(r->arrays, name) : NULL;
    return n && !r->used[n - r->arrays->item] ? n : NULL;
}

/* By its name as lockstep writes it, or as Keras may name it. */
static const lki_named *find_by_name(const reading *r, const entry *e)
{
    char            *prefix LKI_RELEASED = folder("", r->model->name);
    const lki_named *n = look_for(r, e->name, "", "");
    if (!n && prefix) n = look_for(r, prefix, e->name, "");
    if (!n) n = look_for(r, e->bare, "", "");
    if (!n && prefix) n = look_for(r, prefix, e->bare, "");
    return n;
}

/* The paths of variables in HDF5 files and checkpoints: a conversion without a model keeps these names. */
typedef struct other_names {
    const reading   *r;
    lk_variable     *variable;
    const lki_named *found;
} other_names;

static lk_status is_h5_path(void *arg, const char *path, lk_variable *v)
{
    other_names *o = arg;
    if (v == o->variable && !o->found) o->found = look_for(o->r, path, "", "");
    return LK_OK;
}

static lk_status find_by_key(const reading *r, const lki_trackables *t, other_names *o)
{
    for (int i = 0; i < t->graph.count && !o->found; i++)
        if (t->node[i].variable == o->variable) {
            o->found = look_for(r, t->node[i].path, LKI_VARIABLE_KEY, "");
            if (!o->found) o->found = look_for(r, "model/", t->node[i].path, LKI_VARIABLE_KEY);
        }
    return LK_OK;
}

static lk_status find_elsewhere(const reading *r, const lki_trackables *t, lk_variable *v, const lki_named **out)
{
    other_names o = {.r = r, .variable = v};
    LKI_TRY(lki_weights_each(r->model, is_h5_path, &o));
    LKI_TRY(find_by_key(r, t, &o));
    *out = o.found;
    return LK_OK;
}

static lk_status want_weights(reading *r, const entries *e)
{
    lki_trackables t LKI_FREED_BY(lki_trackables_free) = {0};
    LKI_TRY(lki_trackables_of(r->model, &t));
    for (int i = 0; i < e->count; i++) {
        lk_variable     *v = e->item[i].variable;
        const lki_named *n = find_by_name(r, &e->item[i]);
        if (!n) LKI_TRY(find_elsewhere(r, &t, v, &n));
        if (!n)
            return lki_fail(LK_EFORMAT, "%s: there is no \"%s\", which should be a weight of model \"%s\"", r->name,
                            e->item[i].name, r->model->name);
        LKI_TRY(lki_weight_fits(r->name, n->name, &n->array, v));
        LKI_TRY(want(r, n, v));
    }
    return LK_OK;
}

static int count_below(const reading *r, const char *prefix)
{
    int count = 0;
    for (int i = 0; i < r->arrays->count; i++)
        count += strncmp(r->arrays->item[i].name, prefix, strlen(prefix)) == 0 && !r->used[i];
    return count;
}

/* If the state is not that of this optimiser for these weights, it starts again, as with other files. */
static lk_status want_state(reading *r, const entries *weights)
{
    lk_optimizer *o = r->model->compiled->optimizer;
    entries       e LKI_FREED_BY(entries_free) = {0};
    char         *prefix LKI_RELEASED = folder("", o->name);
    if (!prefix) return LK_ENOMEM;
    const int count = count_below(r, prefix), before = r->count;
    if (!count) return LK_OK;
    lk_status status = LK_OK;
    if (count > lk_optimizer_variables(o).count) status = lk_optimizer_build(o, lk_model_trainable_variables(r->model));
    for (int i = 0; i < weights->count && status == LK_OK; i++) /* so that their names are used up */
        status = add(&e, lki_strdup(weights->item[i].name), lki_strdup(""), NULL);
    if (status == LK_OK) status = add_state(&e, o);
    int found = 0, wanted = 0;
    for (int i = weights->count; i < e.count && status == LK_OK; i++, wanted++) {
        const lki_named *n = look_for(r, e.item[i].name, "", "");
        if (!n || !lki_shape_equal(&n->array.shape, &e.item[i].variable->shape)) continue;
        found++;
        status = want(r, n, e.item[i].variable);
    }
    if (status != LK_OK || found == wanted) return status;
    r->count = before;
    lki_warn(
        "%s: the state of the optimiser has %d values, of which %d fit the model's, which has %d: the optimiser starts without it",
        r->name, count, found, wanted);
    return LK_OK;
}

/* The state of an optimiser, of random numbers or of a checkpoint: a model need not use it. */
static bool is_foreign(const reading *r, const char *name)
{
    const char *slash = strchr(name, '/');
    if (strstr(name, "seed_generator") || strstr(name, "optimizer/") == name || strstr(name, "optimizer_weights/") == name)
        return true;
    if (strncmp(name, "save_counter", 12) == 0 || strcmp(name, CALLS) == 0 || strstr(name, "/optimizer/")) return true;
    if (!slash) return false;
    char *iteration LKI_RELEASED = lki_path_join(name, (size_t)(slash - name), "/iteration");
    return iteration && lki_arrays_find(r->arrays, iteration);
}

static lk_status check_rest(const reading *r)
{
    for (int i = 0; i < r->arrays->count; i++)
        if (!r->used[i] && !is_foreign(r, r->arrays->item[i].name))
            return lki_fail(LK_EFORMAT, "%s: \"%s\" is for a layer or weight that the model does not have", r->name,
                            r->arrays->item[i].name);
    return LK_OK;
}

lk_status lki_named_read(const char *name, lk_model *m, lki_arrays *a)
{
    LKI_TRY(lki_weights_built(name, m));
    reading   r = {.name = name, .model = m, .arrays = a, .used = lki_zalloc((size_t)a->count + 1)};
    entries   e LKI_FREED_BY(entries_free) = {0};
    lk_status status = r.used ? add_model(&e, m, "", "") : LK_ENOMEM;
    if (status == LK_OK) status = want_weights(&r, &e);
    const lki_named *calls = m->calls ? lki_arrays_find(a, CALLS) : NULL;
    if (status == LK_OK && calls && lki_shape_equal(&calls->array.shape, &m->calls->shape)) status = want(&r, calls, m->calls);
    if (status == LK_OK && lki_is_compiled(m)) status = want_state(&r, &e);
    if (status == LK_OK) status = check_rest(&r);
    if (status == LK_OK) status = lki_weights_assign(r.count, r.value);
    lki_release(r.used);
    lki_release(r.value);
    return status;
}
