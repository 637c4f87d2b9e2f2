/* What all models share: constructors, names, calls, and their variables. */
#include "model/model.h"
#include "core/dtype.h"
#include "core/list.h"
#include "core/memory.h"
#include <stdio.h>
#include <string.h>

/* ---- life ---- */

static void destroy(void *object)
{
    lk_model *m = object;
    if (m->compiled) m->forget_compiled(m->compiled);
    lki_model_free_added(m);
    for (int i = 0; i < m->count; i++) {
        lki_layer_leave(m->layer[i]);
        lki_drop(m->layer[i]);
    }
    for (int i = 0; i < m->uses; i++) {
        lki_release(m->use[i].in);
        lki_drop(m->use[i].form);
    }
    for (int i = 0; m->key && i < m->outputs; i++)
        lki_release(m->key[i]);
    lki_release(m->key);
    lki_release(m->structure[0]);
    lki_release(m->structure[1]);
    lki_release(m->use);
    lki_release(m->layer);
    lki_release(m->input);
    lki_release(m->output);
    lki_release(m->name);
    lki_waiters_free(&m->waiting);
    lki_drop(m->calls);
    lki_drop(m->strategy);
}

lk_model *lki_model_new(const char *name, lki_model_form form)
{
    lk_strategy *here = lki_context_now().strategy;
    lk_model    *m = lki_object_new(sizeof *m, LKI_KIND_MODEL, LKI_LIVES_IN_POOL, destroy);
    if (!m) return NULL;
    m->form = form;
    m->strategy = here && here->kind != LKI_STRATEGY_DEFAULT ? lki_retain(here) : NULL;
    if ((m->name = lki_strdup(name))) return m;
    lk_free(m);
    return NULL;
}

bool lki_is_model(const char *call, const lk_model *m)
{
    if (lki_is_kind(m, LKI_KIND_MODEL)) return true;
    return lki_fail(LK_EINVAL, "%s: %s", call, m ? "not a model" : "the model is NULL"), false;
}

lk_status lki_model_flow(lk_model *m, int inputs, int uses, int outputs)
{
    m->input = lki_zalloc_array(inputs, sizeof *m->input);
    m->use = lki_zalloc_array(uses + 1, sizeof *m->use);
    m->output = lki_zalloc_array(outputs, sizeof *m->output);
    if (!m->input || !m->use || !m->output) return LK_ENOMEM;
    m->inputs = m->values = inputs;
    m->outputs = outputs;
    return LK_OK;
}

lk_status lki_model_use(lk_model *m, const lki_use *use)
{
    lki_use *u = &m->use[m->uses];
    int     *in = lki_alloc_array(use->count, sizeof *in);
    if (!in) return LK_ENOMEM;
    memcpy(in, use->in, (size_t)use->count * sizeof *in);
    *u = *use;
    u->in = in;
    lki_retain(u->form);
    u->first = m->values;
    u->results = lki_layer_outputs(u->layer);
    m->values += u->results;
    m->uses++;
    return LK_OK;
}

const lki_use *lki_use_of(const lk_model *m, int value)
{
    int low = 0, high = m->uses;
    while (low < high) {
        const int middle = (low + high) / 2;
        if (value < m->use[middle].first + m->use[middle].results) high = middle;
        else low = middle + 1;
    }
    return value < m->inputs || low == m->uses ? NULL : &m->use[low];
}

/* ---- names by position ---- */

/* "dense" for the first layer of its kind without a name of its own, then "dense_1", ... */
static void name_of(lk_layer *const *layer, int at, char *text, size_t bytes)
{
    int before = 0;
    for (int i = 0; i < at && !layer[at]->named; i++)
        before += !layer[i]->named && !strcmp(layer[i]->kind->name, layer[at]->kind->name);
    if (layer[at]->named) snprintf(text, bytes, "%s", layer[at]->name);
    else snprintf(text, bytes, before ? "%s_%d" : "%s", layer[at]->kind->name, before);
}

static lk_status place(const char *model, int count, lk_layer *const *layer, int at)
{
    char name[256], path[512];
    name_of(layer, at, name, sizeof name);
    snprintf(path, sizeof path, "%s/%s", model, name);
    for (int k = 0; k < at; k++)
        if (!strcmp(name, layer[k]->name))
            return lki_fail(LK_EINVAL, "model \"%s\": layers %d and %d of %d are both named \"%s\"; names must differ", model, k,
                            at, count, name);
    return lki_layer_place(layer[at], name, path);
}

static lk_status layer_fits(const char *call, int at, lk_layer *const *layer)
{
    if (!layer[at]) return lk_failed() ? lk_error_code() : lki_fail(LK_EINVAL, "%s: layer %d is NULL", call, at);
    if (!lki_is_kind(layer[at], LKI_KIND_LAYER)) return lki_fail(LK_EINVAL, "%s: argument %d is not a layer", call, at);
    if (layer[at]->placed)
        return lki_fail(LK_EINVAL, "%s: layer %d, \"%s\", is in a model already", call, at, lki_layer_title(layer[at]));
    for (int k = 0; k < at; k++)
        if (layer[k] == layer[at]) return lki_fail(LK_EINVAL, "%s: layers %d and %d are the same one", call, k, at);
    if (layer[at]->named && strlen(layer[at]->name) > 200)
        return lki_fail(LK_EINVAL, "%s: the name of layer %d has more than 200 characters", call, at);
    return LK_OK;
}

lk_status lki_model_take(const char *call, lk_model *m, int count, lk_layer *const *layer)
{
    for (int i = 0; i < count; i++)
        LKI_TRY(layer_fits(call, i, layer));
    m->layer = lki_alloc_array(count + 1, sizeof *m->layer);
    if (!m->layer) return LK_ENOMEM;
    lk_status status = LK_OK;
    int       placed = 0;
    while (placed < count && (status = place(m->name, count, layer, placed)) == LK_OK)
        placed++;
    if (status != LK_OK) {
        for (int i = 0; i <= placed && i < count; i++)
            lki_layer_leave(layer[i]);
        return status;
    }
    for (; m->count < count; m->count++)
        m->layer[m->count] = lki_retain(layer[m->count]);
    return LK_OK;
}

/* ---- calling ---- */

/* Rows of another size than the weights were made for are allowed if all layers accept them; otherwise the layer that does not
 * reports it. */
static lk_status rows_fit(lk_model *m, const lk_shape *row)
{
    bool same = true;
    for (int i = 0; i < m->inputs; i++)
        same = same && lki_shape_equal(&row[i], &m->input[i].row);
    if (same || m->form == LKI_OWN_MODEL) return LK_OK;
    lk_shape *shape LKI_RELEASED = lki_alloc_array(m->values, sizeof *shape);
    return shape ? lki_flow_shapes(m, row, shape, false) : LK_ENOMEM;
}

static lk_status input_fits(const lk_model *m, int i, const lk_tensor *x, lk_shape *row)
{
    char text[LKI_SHAPE_TEXT], want[LKI_SHAPE_TEXT];
    if (lki_stands_for(x)) return lki_fail(LK_EINVAL, "lk_model_call: x is %s", lki_why_not_plain(x));
    if (x->shape.rank < 1) return lki_fail(LK_ESHAPE, "lk_model_call: x is a scalar; it should be rows");
    *row = (lk_shape){.rank = x->shape.rank - 1};
    for (int k = 0; k < row->rank; k++)
        row->dim[k] = x->shape.dim[k + 1];
    const lk_shape *known = &m->input[i].row;
    bool            fits = m->form != LKI_FUNCTIONAL || known->rank == row->rank;
    for (int k = 0; fits && m->form == LKI_FUNCTIONAL && k < row->rank; k++)
        fits = known->dim[k] < 0 || known->dim[k] == row->dim[k];
    if (!fits)
        return lki_fail(LK_ESHAPE, "lk_model_call: rows of %s for input \"%s\" of model \"%s\", which takes %s",
                        lki_shape_text(row, text), m->input[i].layer->name, m->name, lki_shape_text(known, want));
    return LK_OK;
}

static lk_status get_ready(lk_model *m, lk_tuple in)
{
    lk_shape row[LKI_MOST_INPUTS];
    if (in.count != m->inputs)
        return lki_fail(LK_EINVAL, "lk_model_call: %d input%s for model \"%s\", which takes %d%s", in.count,
                        in.count == 1 ? "" : "s", m->name, m->inputs, m->inputs > 1 ? "; put them into an lk_nest()" : "");
    for (int i = 0; i < in.count; i++) {
        if (!lki_usable("lk_model_call", "x", in.item[i])) return lki_poisoned_status("lk_model_call");
        LKI_TRY(input_fits(m, i, in.item[i], &row[i]));
    }
    return lki_model_built(m) ? rows_fit(m, row) : lki_model_make(m, row);
}

static lk_tensor *as_input(const lki_model_input *input, lk_tensor *x)
{
    if (x->dtype == input->dtype || (input->as_is && !lki_is_float(x->dtype))) return x;
    return lki_masked(lk_cast(x, input->dtype), x->mask, true);
}

static lk_status add_rows(void *model, lk_tensor *rows) { return lk_model_add_loss(model, rows); }

static lk_tuple run(lk_model *m, lk_tuple in, const lki_pass *pass)
{
    if (!m->fn) return lki_flow_run(m, in, pass);
    const lki_pass *before = lki_pass_set(pass);
    lk_tuple        out = m->fn(m, in, pass->training, m->user);
    lki_pass_set(before);
    for (int i = 0; i < out.count && out.count == m->outputs; i++)
        if (!out.item[i] && !lk_failed())
            lki_fail(LK_EINVAL, "lk_model_call: the function of model \"%s\" returned NULL as output %d", m->name, i);
    if (out.count == m->outputs) return out;
    if (!lk_failed())
        lki_fail(LK_EINVAL, "lk_model_call: the function of model \"%s\" returned %d tensors; .outputs says %d", m->name, out.count,
                 m->outputs);
    return LK_TUPLE(&lki_poison);
}

lk_tensor *lk_model_call_kw(lk_model_call_args a)
{
    lk_model  *m = a.model;
    lk_tensor *cast[LKI_MOST_INPUTS];
    if (!lki_is_model("lk_model_call", m) || !lki_usable("lk_model_call", "x", a.x)) return &lki_poison;
    lk_tuple in = a.x->nest ? lk_nested(a.x) : (lk_tuple){1, &a.x};
    if (get_ready(m, in) != LK_OK) return &lki_poison;
    lki_pass pass = {.training = a.training == LK_ON, .add = add_rows, .to = m, .strategy = m->strategy};
    bool     counts = pass.training && m->calls;
    if (counts) pass.iteration = lk_read(m->calls);
    lki_model_clear_added(m);
    for (int i = 0; i < in.count; i++)
        cast[i] = as_input(&m->input[i], in.item[i]);
    lk_tuple out = run(m, (lk_tuple){in.count, cast}, &pass);
    for (int i = 0; i < out.count; i++)
        if (lki_bad(out.item[i])) return &lki_poison;
    if (counts && lk_assign_add(m->calls, lk_fill((lk_shape){0}, LK_I64, 1)) != LK_OK) return &lki_poison;
    return out.count == 1 ? out.item[0] : lk_nest(out);
}

/* ---- its variables ---- */

lki_weight **lki_model_weight_list(const lk_model *m, int *count)
{
    int all = 0;
    for (int i = 0; i < m->count; i++)
        all += lki_layer_weights(m->layer[i]);
    lki_weight **list = lki_alloc_array(all + 1, sizeof *list);
    *count = list ? 0 : -1;
    for (int i = 0; list && i < m->count; i++)
        for (int k = 0, weights = lki_layer_weights(m->layer[i]); k < weights; k++)
            list[(*count)++] = lki_layer_weight_at(m->layer[i], k);
    return list;
}

typedef bool wanted(const lk_variable *v);

static bool any(const lk_variable *v) { return v != NULL; }
static bool trainable(const lk_variable *v) { return v->trainable; }
static bool still(const lk_variable *v) { return !v->trainable; }

static lk_variables list(const char *call, const lk_model *m, wanted *first, wanted *second, bool calls)
{
    int count, taken = 0;
    if (!lki_is_model(call, m) || !lki_model_built(m)) return (lk_variables){0};
    lki_weight  **weight LKI_RELEASED = lki_model_weight_list(m, &count);
    lk_variable **item LKI_RELEASED = weight ? lki_alloc_array(count + 1, sizeof *item) : NULL;
    if (!item) return (lk_variables){0};
    for (int i = 0; i < count; i++)
        if (first(weight[i]->variable)) item[taken++] = weight[i]->variable;
    for (int i = 0; second && i < count; i++)
        if (second(weight[i]->variable)) item[taken++] = weight[i]->variable;
    if (calls && m->calls) item[taken++] = m->calls;
    return lk_variables_from(taken, item);
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

static lk_status value_fits(const lk_model *m, int i, const lk_variable *v, const lk_tensor *value)
{
    char want[LKI_SHAPE_TEXT], given[LKI_SHAPE_TEXT];
    if (lki_bad(value))
        return value ? lki_poisoned_status("lk_model_set_weights")
                     : lki_fail(LK_EINVAL, "lk_model_set_weights: value %d is NULL", i);
    if (lki_shape_equal(&v->shape, &value->shape) && v->dtype == value->dtype) return LK_OK;
    return lki_fail(LK_ESHAPE, "lk_model_set_weights: model \"%s\": value %d, for \"%s\", is %s %s; it should be %s %s", m->name, i,
                    v->name, lki_shape_text(&value->shape, given), lk_dtype_name(value->dtype), lki_shape_text(&v->shape, want),
                    lk_dtype_name(v->dtype));
}

lk_status lk_model_set_weights(lk_model *m, lk_tuple values)
{
    LKI_SCOPE_ERRORS;
    if (!lki_is_model("lk_model_set_weights", m)) return LK_EINVAL;
    if (!lki_model_built(m))
        return lki_fail(LK_ESTATE, "lk_model_set_weights: model \"%s\" has no weights yet; build it first with lk_model_build()",
                        m->name);
    lk_variables v = lk_model_weights(m);
    if (v.count != values.count)
        return lki_fail(LK_EINVAL, "lk_model_set_weights: %d values for the %d weights of model \"%s\"", values.count, v.count,
                        m->name);
    for (int i = 0; i < v.count; i++)
        LKI_TRY(value_fits(m, i, v.item[i], values.item[i]));
    for (int i = 0; i < v.count; i++)
        LKI_TRY(lk_assign(v.item[i], values.item[i]));
    return LK_OK;
}

/* ---- its layers ---- */

const char *lk_model_name(const lk_model *m) { return lki_is_model("lk_model_name", m) ? m->name : ""; }

lk_layer *lk_model_layer_named(lk_model *m, const char *name)
{
    if (!lki_is_model("lk_model_layer_named", m)) return NULL;
    for (int i = 0; name && i < m->count; i++)
        if (!strcmp(m->layer[i]->name, name)) return m->layer[i];
    return lki_fail(LK_ENOTFOUND, "lk_model_layer_named: model \"%s\" has no layer \"%s\"", m->name, name ? name : "NULL"), NULL;
}

lk_status lk_model_set_trainable(lk_model *m, int on)
{
    if (!lki_is_model("lk_model_set_trainable", m)) return LK_EINVAL;
    for (int i = 0; i < m->count; i++)
        LKI_TRY(lk_layer_set_trainable(m->layer[i], on));
    return LK_OK;
}

lk_layers lk_model_layers(lk_model *m)
{
    if (!lki_is_model("lk_model_layers", m)) return (lk_layers){0};
    return (lk_layers){m->count, m->layer};
}

const char *lki_model_output_name(const lk_model *m, int i)
{
    static const char *const OWN[] = {"output", "output_1", "output_2", "output_3", "output_4", "output_5", "output_6", "output_7"};
    if (m->form == LKI_OWN_MODEL) return OWN[i < LKI_COUNT(OWN) ? i : LKI_COUNT(OWN) - 1];
    const lki_use *u = lki_use_of(m, m->output[i]);
    if (m->key && m->key[i]) return m->key[i];
    return u ? u->layer->name : m->input[m->output[i]].layer->name;
}
