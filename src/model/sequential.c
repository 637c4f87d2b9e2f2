/* Sequential: layers one after the other. */
#include "core/dtype.h"
#include "core/memory.h"
#include "model/model.h"
#include "model/regularizer.h"
#include <stdio.h>
#include <string.h>

#define NAME "sequential"

static void destroy(void *object)
{
    lk_model *m = object;
    lki_model_free_added(m);
    for (int i = 0; i < m->count; i++) {
        lki_layer_leave(m->layer[i]);
        lki_drop(m->layer[i]);
    }
    lki_release(m->layer);
    lki_waiters_free(&m->waiting);
    lki_drop(m->calls);
    lki_drop(m->strategy);
}

/* ---- names by position ---- */

/* "dense" for the first layer of its kind without a name of its own, then "dense_1", ... */
static char *name_of(lk_layer *const *layer, int at)
{
    char        text[64];
    const char *kind = layer[at]->kind->name;
    int         before = 0;
    if (layer[at]->named) return lki_strdup(layer[at]->name);
    for (int i = 0; i < at; i++)
        before += layer[i]->kind == layer[at]->kind && !layer[i]->named;
    snprintf(text, sizeof text, before ? "%s_%d" : "%s", kind, before);
    return lki_strdup(text);
}

static char *path_of(const char *name)
{
    size_t bytes = sizeof NAME "/" + strlen(name);
    char  *path = lki_alloc(bytes);
    if (path) snprintf(path, bytes, NAME "/%s", name);
    return path;
}

typedef struct place {
    char *name, *path;
} place;

static bool names_differ(int count, const place *p)
{
    for (int i = 0; i < count; i++)
        for (int k = 0; k < i; k++)
            if (!strcmp(p[i].name, p[k].name)) {
                lki_fail(LK_EINVAL, "lk_sequential: layers %d and %d are both named \"%s\"; names must differ", k, i, p[i].name);
                return false;
            }
    return true;
}

/* All layers get their names, or none does. */
static bool place_layers(int count, lk_layer *const *layer)
{
    place *p = lki_zalloc((size_t)count * sizeof *p);
    bool   good = p != NULL;
    for (int i = 0; i < count && good; i++)
        good = (p[i].name = name_of(layer, i)) && (p[i].path = path_of(p[i].name));
    good = good && names_differ(count, p);
    for (int i = 0; p && i < count; i++) {
        if (good) {
            lki_release(layer[i]->name);
            layer[i]->name = p[i].name;
            layer[i]->path = p[i].path;
            layer[i]->placed = true;
            continue;
        }
        lki_release(p[i].name);
        lki_release(p[i].path);
    }
    lki_release(p);
    return good;
}

/* ---- making one ---- */

static bool layers_fit(int count, lk_layer *const *layer)
{
    if (count < 1) return lki_fail(LK_EINVAL, "lk_sequential: there are no layers"), false;
    for (int i = 0; i < count; i++) {
        if (!layer[i]) return lk_failed() ? false : (lki_fail(LK_EINVAL, "lk_sequential: layer %d is NULL", i), false);
        if (!lki_is_kind(layer[i], LKI_KIND_LAYER))
            return lki_fail(LK_EINVAL, "lk_sequential: argument %d is not a layer", i), false;
        if (layer[i]->placed)
            return lki_fail(LK_EINVAL, "lk_sequential: layer %d, \"%s\", is in a model already", i, layer[i]->name), false;
        for (int k = 0; k < i; k++)
            if (layer[k] == layer[i]) return lki_fail(LK_EINVAL, "lk_sequential: layers %d and %d are the same one", k, i), false;
    }
    return true;
}

lk_model *lk_sequential_of(int count, lk_layer *const *one_based)
{
    lk_layer *const *layer = one_based + 1;
    lk_strategy     *here = lki_context_now().strategy;
    if (!layers_fit(count, layer)) return NULL;
    lk_model *m = lki_object_new(sizeof *m, LKI_KIND_MODEL, LKI_LIVES_IN_POOL, destroy);
    if (!m) return NULL;
    m->name = NAME;
    m->strategy = here && here->kind != LKI_STRATEGY_DEFAULT ? lki_retain(here) : NULL;
    m->layer = lki_alloc((size_t)count * sizeof *m->layer);
    if (!m->layer || !place_layers(count, layer)) goto failed;
    for (; m->count < count; m->count++)
        m->layer[m->count] = lki_retain(layer[m->count]);
    if (!layer[0]->input_shape.rank || lki_model_make(m, &layer[0]->input_shape) == LK_OK) return m;
failed:
    lk_free(m);
    return NULL;
}

/* ---- calling ---- */

/* A row the weights were not made for may still do, where no layer minds its size; otherwise the layer that minds says so. */
static lk_status row_fits(const lk_model *m, const lk_shape *row)
{
    lk_shape shape = *row;
    if (lki_shape_equal(row, &m->input)) return LK_OK;
    for (int i = 0; i < m->count; i++) {
        lk_shape in = shape;
        LKI_TRY(m->layer[i]->kind->output(m->layer[i], &in, &shape));
    }
    return LK_OK;
}

static lk_status get_ready(lk_model *m, const lk_tensor *x)
{
    lk_shape row = {.rank = x->shape.rank - 1};
    if (x->shape.rank < 1) return lki_fail(LK_ESHAPE, "lk_model_call: x is a scalar; it should be rows");
    for (int i = 0; i < row.rank; i++)
        row.dim[i] = x->shape.dim[i + 1];
    return lki_model_built(m) ? row_fits(m, &row) : lki_model_make(m, &row);
}

static lk_tensor *call_layer(lk_model *m, lk_layer *l, lk_tensor *x, const lki_pass *pass)
{
    lk_tensor *y = l->kind->call(l, x, pass);
    if (lki_bad(y) || !l->activity) return y;
    return lk_model_add_loss(m, lki_regularizer_rows(l->activity, y)) == LK_OK ? y : &lki_poison;
}

lk_tensor *lk_model_call_kw(lk_model_call_args a)
{
    lk_model *m = a.model;
    if (!lki_is_kind(m, LKI_KIND_MODEL)) return lki_refuse(LK_EINVAL, "lk_model_call: %s", m ? "not a model" : "the model is NULL");
    if (!lki_usable("lk_model_call", "x", a.x)) return &lki_poison;
    if (lki_stands_for(a.x)) return lki_refuse(LK_EINVAL, "lk_model_call: x is %s", lki_why_not_plain(a.x));
    if (get_ready(m, a.x) != LK_OK) return &lki_poison;
    lk_tensor *x = lki_is_float(a.x->dtype) && a.x->dtype != LK_F32 ? lk_cast(a.x, LK_F32) : a.x; /* the type of the weights */
    lki_pass   pass = {.training = a.training == LK_ON};
    bool       counts = pass.training && m->calls;
    if (counts) pass.iteration = lk_read(m->calls);
    lki_model_clear_added(m);
    for (int i = 0; i < m->count && !lki_bad(x); i++)
        x = call_layer(m, m->layer[i], x, &pass);
    if (counts && !lki_bad(x) && lk_assign_add(m->calls, lk_fill((lk_shape){0}, LK_I64, 1)) != LK_OK) return &lki_poison;
    return x;
}

/* ---- its variables ---- */

typedef bool wanted(const lk_variable *v);

static bool any(const lk_variable *v) { return v != NULL; }
static bool trainable(const lk_variable *v) { return v->trainable; }
static bool still(const lk_variable *v) { return !v->trainable; }

/* Append the weights that are wanted, layer by layer; returns how many there are then. */
static int append(const lk_model *m, wanted *want, lk_variable **to, int count)
{
    for (int i = 0; i < m->count; i++)
        for (int k = 0; k < m->layer[i]->count; k++)
            if (want(m->layer[i]->weight[k].variable)) to[count++] = m->layer[i]->weight[k].variable;
    return count;
}

static lk_variables list(const char *call, const lk_model *m, wanted *first, wanted *second, bool calls)
{
    if (!lki_is_kind(m, LKI_KIND_MODEL)) return lki_fail(LK_EINVAL, "%s: not a model", call), (lk_variables){0};
    if (!lki_model_built(m)) return (lk_variables){0};
    lk_variable **item = lki_alloc((size_t)(m->count * LKI_MOST_WEIGHTS + 1) * sizeof *item);
    if (!item) return (lk_variables){0};
    int count = append(m, first, item, 0);
    if (second) count = append(m, second, item, count);
    if (calls && m->calls) item[count++] = m->calls;
    lk_variables out = lk_variables_from(count, item);
    lki_release(item);
    return out;
}

lk_variables lk_model_variables(lk_model *m) { return list("lk_model_variables", m, trainable, still, true); }
lk_variables lk_model_trainable_variables(lk_model *m) { return list("lk_model_trainable_variables", m, trainable, NULL, false); }
lk_variables lk_model_weights(lk_model *m) { return list("lk_model_weights", m, any, NULL, false); }

int64_t lk_model_count_params(lk_model *m)
{
    lk_variables w = list("lk_model_count_params", m, any, NULL, false);
    int64_t      count = 0;
    for (int i = 0; i < w.count; i++)
        count += lki_shape_size(&w.item[i]->shape);
    return count;
}

lk_digest lk_model_digest(lk_model *m) { return lk_variables_digest(list("lk_model_digest", m, any, NULL, false)); }
