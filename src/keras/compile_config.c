/* The compile arguments of a model, as Keras' JSON (model_config.h).
 *
 *     {"optimizer": {...}, "loss": ..., "loss_weights": ..., "metrics": ..., "weighted_metrics": ..., "run_eagerly": false,
 *      "steps_per_execution": 1, "jit_compile": false}
 *
 * Losses, weights and metrics are one for all outputs, a list with an entry per output, or an object by the names of outputs;
 * metrics are again lists of these.
 *
 * A part that lockstep does not have is left out with a warning, and kept unchanged for files that are written later; all others
 * are read. Without the optimiser or a loss, training fails (fit/engine.c). */
#include "core/log.h"
#include "core/memory.h"
#include "core/names.h"
#include "keras/keras2.h"
#include "model/compiled.h"
#include "model/metric.h"
#include <stdio.h>
#include <string.h>

/* ---- by output ---- */

static bool is_by_name(const lki_json *v) { return v->type == LKI_JSON_OBJECT && !lki_json_get(v, "class_name"); }

/* True if the name is this key, or a path that begins with it: outputs in objects of objects are named "head/mask". */
static bool leads_to(const char *key, const char *name)
{
    const size_t n = strlen(key);
    return !strncmp(key, name, n) && (!name[n] || name[n] == '/');
}

static const lki_json *entry_of(const lki_json *v, const char *name)
{
    const lki_json *whole = lki_json_get(v, name);
    for (int i = 0; !whole && v && v->type == LKI_JSON_OBJECT && i < v->count; i++)
        if (leads_to(v->item[i].key, name)) return entry_of(&v->item[i], name + strlen(v->item[i].key) + 1);
    return whole;
}

static lk_status check_names(const lki_reading *r, const lk_model *m, const lki_json *v)
{
    char list[400] = "", quoted[200];
    for (int i = 0; i < m->outputs; i++) {
        lki_text_print(quoted, sizeof quoted, "\"%s\"", lki_model_output_name(m, i));
        lki_names_add(list, sizeof list, quoted);
    }
    for (int k = 0; k < v->count; k++) {
        bool known = false;
        for (int i = 0; i < m->outputs; i++)
            known = known || leads_to(v->item[k].key, lki_model_output_name(m, i));
        if (!known)
            return lki_read_fail(r, LK_EFORMAT, "\"%s\" names an output \"%s\"; there are %s", v->key, v->item[k].key, list);
    }
    return LK_OK;
}

/* The entry of the config for output i; NULL: none. */
static lk_status of_output(const lki_reading *r, const lk_model *m, const lki_json *v, int i, const lki_json **out)
{
    *out = NULL;
    if (!v || v->type == LKI_JSON_NULL) return LK_OK;
    if (is_by_name(v)) {
        LKI_TRY(check_names(r, m, v));
        *out = entry_of(v, lki_model_output_name(m, i));
    } else if (v->type == LKI_JSON_ARRAY) {
        if (v->count != m->outputs)
            return lki_read_fail(r, LK_EFORMAT, "\"%s\" has %d entries for %d output%s", v->key, v->count, m->outputs,
                                 m->outputs == 1 ? "" : "s");
        *out = &v->item[i];
    } else *out = v;
    if (*out && (*out)->type == LKI_JSON_NULL) *out = NULL;
    return LK_OK;
}

/* The number of axes of output i, including the batch; 0: unknown. */
static int output_rank(lk_model *m, int i)
{
    lk_shape *shape LKI_RELEASED = m->shaped && m->form != LKI_OWN_MODEL ? lki_alloc_array(m->values, sizeof *shape) : NULL;
    lk_shape  row[LKI_MOST_INPUTS];
    int       rank = 0;
    for (int k = 0; k < m->inputs; k++)
        row[k] = m->input[k].row;
    if (shape && lki_flow_shapes(m, row, shape, false) == LK_OK) rank = shape[m->output[i]].rank + 1;
    return rank;
}

/* ---- reading ---- */

typedef struct found {
    lk_model     *model;
    lk_optimizer *optimizer;
    lk_loss     **loss;
    double       *weight;
    bool          weights;
    int           metrics, room;
    lk_metric   **metric;
    bool         *weighted;
    int           steps;
    bool          eager;
    int           lost_count, lost_room;
    lki_lost     *lost;
} found;

static char *json_of(const lki_json *v)
{
    lki_json_out o LKI_FREED_BY(lki_json_out_free) = {0};
    lki_json_copy(&o, v);
    return o.text ? lki_strdup(o.text) : NULL;
}

/* `l` describes the part that could not be read, and `why` the reason. */
static lk_status lose(found *c, lki_lost l, const lki_json *v, const lki_error_record *why)
{
    if (!lki_grow((void **)&c->lost, &c->lost_room, c->lost_count + 1, sizeof *c->lost)) return LK_ENOMEM;
    l.json = json_of(v);
    l.why = lki_strdup(why->text);
    c->lost[c->lost_count++] = l;
    if (!l.json || !l.why) return LK_ENOMEM;
    lki_warn("%s; %s", l.why,
             l.kind == LKI_KIND_METRIC ? "this metric is left out" : "the model can predict; compile it before training");
    return LK_OK;
}

/* The object, or it is lost; an error if the file is damaged. */
static lk_status read_part(const lki_reading *r, const char *key, const lki_json *v, found *c, lki_lost l, void *object)
{
    lki_error_record before, mine;
    lki_reading      here = *r;
    lki_error_take(&before);
    if (l.kind != LKI_KIND_OPTIMIZER) here.rank = output_rank(c->model, l.output < 0 ? 0 : l.output);
    void *made = lki_object_read(&here, l.kind, key, v);
    lki_error_take(&mine);
    lki_error_put(&before);
    *(void **)object = made;
    if (made) return LK_OK;
    if (mine.code == LK_EUNSUPPORTED) return lose(c, l, v, &mine);
    lki_error_put(&mine);
    return mine.code == LK_OK ? LK_ENOMEM : mine.code;
}

static lk_status read_losses(const lki_reading *r, const lk_model *m, const lki_json *config, found *c)
{
    const lki_json *losses = lki_json_get(config, "loss"), *weights = lki_json_get(config, "loss_weights"), *v, *before = NULL;
    const bool      shared = losses && losses->type != LKI_JSON_ARRAY && !is_by_name(losses);
    c->weights = weights && weights->type != LKI_JSON_NULL;
    for (int i = 0; i < m->outputs; i++) {
        LKI_TRY(of_output(r, m, losses, i, &v));
        if (v && v == before) c->loss[i] = c->loss[i - 1]; /* one for all outputs */
        else if (v) LKI_TRY(read_part(r, "loss", v, c, (lki_lost){.kind = LKI_KIND_LOSS, .output = shared ? -1 : i}, &c->loss[i]));
        before = v;
        LKI_TRY(of_output(r, m, weights, i, &v));
        if (v && v->type != LKI_JSON_NUMBER)
            return lki_read_fail(r, LK_EFORMAT, "a loss weight is %s; it should be a number", lki_json_kind(v));
        c->weight[i] = v ? v->number : 1;
    }
    return LK_OK;
}

/* The same metric for another output. */
static lk_status move_to(lk_metric **of, int output)
{
    lk_metric_args a = (*of)->set;
    if (!output) return LK_OK;
    a.output = output;
    lk_metric *moved = (*of)->class->make(&a);
    lk_free(*of);
    *of = moved;
    return moved ? LK_OK : lk_failed() ? lk_error_code() : LK_ENOMEM;
}

static lk_status read_metric(const lki_reading *r, const lk_model *m, const lki_json *v, int output, bool weighted, found *c)
{
    lk_metric *one;
    if (!lki_grow((void **)&c->metric, &c->room, c->metrics + 1, sizeof *c->metric)) return LK_ENOMEM;
    bool *grown = lki_realloc_array(c->weighted, c->room, sizeof *grown);
    if (!grown) return LK_ENOMEM;
    c->weighted = grown;
    LKI_TRY(read_part(r, weighted ? "weighted_metrics" : "metrics", v, c,
                      (lki_lost){.kind = LKI_KIND_METRIC, .output = output, .weighted = weighted}, &one));
    if (!one) return LK_OK;
    LKI_TRY(move_to(&one, output));
    c->weighted[c->metrics] = weighted;
    c->metric[c->metrics++] = one;
    return lki_metric_adopt(one, m->strategy);
}

/* A metric, or lists of them, for one output. */
static lk_status read_metrics_of(const lki_reading *r, const lk_model *m, const lki_json *v, int output, bool weighted, found *c)
{
    if (v->type == LKI_JSON_NULL) return LK_OK;
    if (v->type != LKI_JSON_ARRAY) return read_metric(r, m, v, output, weighted, c);
    for (int i = 0; i < v->count; i++)
        LKI_TRY(read_metrics_of(r, m, &v->item[i], output, weighted, c));
    return LK_OK;
}

static lk_status read_metrics(const lki_reading *r, const lk_model *m, const lki_json *config, const char *key, bool weighted,
                              found *c)
{
    const lki_json *all = lki_json_get(config, key), *v;
    if (!all || all->type == LKI_JSON_NULL) return LK_OK;
    if (m->outputs == 1 && !is_by_name(all)) return read_metrics_of(r, m, all, 0, weighted, c);
    for (int i = 0; i < m->outputs; i++) {
        LKI_TRY(of_output(r, m, all, i, &v));
        if (v) LKI_TRY(read_metrics_of(r, m, v, i, weighted, c));
    }
    return LK_OK;
}

static lk_status read_rest(const lki_reading *r, const lki_json *config, found *c)
{
    const lki_json *steps = lki_json_get(config, "steps_per_execution"), *eager = lki_json_get(config, "run_eagerly");
    c->eager = eager && eager->type == LKI_JSON_BOOL && eager->boolean;
    if (!steps || steps->type == LKI_JSON_NULL) return LK_OK;
    if (!steps->whole || steps->integer < 1 || steps->integer > INT32_MAX)
        return lki_read_fail(r, LK_EFORMAT, "\"steps_per_execution\" should be an integer of at least 1");
    c->steps = (int)steps->integer;
    return LK_OK;
}

static lk_status read_all(const lki_reading *r, const lk_model *m, const lki_json *config, found *c)
{
    const lki_json *optimizer = lki_json_get(config, "optimizer"), *old = lki_json_get(config, "optimizer_config");
    if (!optimizer) optimizer = old; /* its name in files before Keras 3 */
    c->loss = lki_zalloc_array(m->outputs, sizeof *c->loss);
    c->weight = lki_zalloc_array(m->outputs, sizeof *c->weight);
    if (!c->loss || !c->weight) return LK_ENOMEM;
    if (optimizer && optimizer->type != LKI_JSON_NULL)
        LKI_TRY(read_part(r, "optimizer", optimizer, c, (lki_lost){.kind = LKI_KIND_OPTIMIZER}, &c->optimizer));
    else if (!(c->optimizer = lk_rmsprop())) return lk_failed() ? lk_error_code() : LK_ENOMEM;
    LKI_TRY(read_losses(r, m, config, c));
    LKI_TRY(read_metrics(r, m, config, "metrics", false, c));
    LKI_TRY(read_metrics(r, m, config, "weighted_metrics", true, c));
    return read_rest(r, config, c);
}

static void found_free(const lk_model *m, found *c)
{
    for (int i = 0; c->loss && i < m->outputs; i++)
        if (!i || c->loss[i] != c->loss[i - 1]) lk_free(c->loss[i]);
    for (int i = 0; i < c->metrics; i++)
        lk_free(c->metric[i]);
    lk_free(c->optimizer);
    lki_release(c->loss);
    lki_release(c->weight);
    lki_release(c->metric);
    lki_release(c->weighted);
    lki_lost_free(c->lost_count, c->lost);
}

static lk_status compile_by(const lki_reading *r, lk_model *m, const lki_json *config)
{
    found     c = {.model = m};
    lk_status status = read_all(r, m, config, &c);
    if (status == LK_OK)
        status = lki_model_compile(m, &(lki_compile_request){.optimizer = c.optimizer,
                                                             .loss = c.loss,
                                                             .loss_weight = c.weights ? c.weight : NULL,
                                                             .metrics = c.metrics,
                                                             .metric = c.metric,
                                                             .weighted = c.weighted,
                                                             .steps_per_execution = c.steps,
                                                             .run_eagerly = c.eager,
                                                             .lost_count = c.lost_count,
                                                             .lost = c.lost});
    if (status == LK_OK) c.lost = NULL, c.lost_count = 0;
    found_free(m, &c);
    return status;
}

lk_status lki_compile_read(const char *file, lk_model *m, const lki_json *config)
{
    const lki_reading r = {.file = file, .place = "compile_config"};
    if (!config || config->type == LKI_JSON_NULL) return LK_OK;
    if (config->type != LKI_JSON_OBJECT)
        return lki_read_fail(&r, LK_EFORMAT, "it is %s; it should be an object", lki_json_kind(config));
    if (!lki_is_keras2_compiled(config)) return config->count ? compile_by(&r, m, config) : LK_OK;
    const lki_json *now = NULL;
    lk_status       status = lki_keras2_convert_compiled(file, config, &now);
    if (status == LK_OK) status = compile_by(&r, m, now);
    lki_json_free(now);
    return status;
}

/* ---- writing ---- */

/* Outputs that are entries of one object: losses and metrics are then entries too. */
static bool is_keyed(const lk_model *m)
{
    bool keyed = m->key != NULL;
    for (int i = 0; keyed && i < m->outputs; i++)
        keyed = m->key[i] && !strchr(m->key[i], '/');
    return keyed;
}

static void open_outputs(lki_json_out *o, const lk_model *m) { lki_json_open(o, is_keyed(m) ? '{' : '['); }
static void close_outputs(lki_json_out *o, const lk_model *m) { lki_json_close(o, is_keyed(m) ? '}' : ']'); }

static void next_output(lki_json_out *o, const lk_model *m, int i)
{
    if (is_keyed(m)) lki_json_key(o, m->key[i]);
}

/* One that is used for all outputs is written once. */
static bool one_for_all(const lki_compiled *c)
{
    for (int i = 1; i < c->outputs; i++)
        if (c->loss[i] != c->loss[0]) return false;
    for (int i = 0; i < c->lost_count; i++)
        if (c->lost[i].kind == LKI_KIND_LOSS && c->lost[i].output >= 0) return c->outputs == 1;
    return true;
}

static lk_status write_losses(lki_json_out *o, const lk_model *m)
{
    const lki_compiled *c = m->compiled;
    const int           count = one_for_all(c) ? 1 : c->outputs;
    lki_json_key(o, "loss");
    if (count > 1) open_outputs(o, m);
    for (int i = 0; i < count; i++) {
        if (count > 1) next_output(o, m, i);
        const lki_lost *lost = lki_lost_part(m, LKI_KIND_LOSS, i);
        if (c->loss[i]) LKI_TRY(lki_object_write(o, LKI_KIND_LOSS, c->loss[i]));
        else if (lost) lki_json_literal(o, lost->json);
        else lki_json_null(o);
    }
    if (count > 1) close_outputs(o, m);
    lki_json_key(o, "loss_weights");
    if (!c->weights_given) return lki_json_null(o), LK_OK;
    open_outputs(o, m);
    for (int i = 0; i < c->outputs; i++) {
        next_output(o, m, i);
        lki_json_real(o, c->loss_weight[i]);
    }
    close_outputs(o, m);
    return LK_OK;
}

static lk_status write_metrics_of(lki_json_out *o, const lki_compiled *c, int output, bool weighted)
{
    lki_json_open(o, '[');
    for (int i = 0; i < c->metrics; i++) {
        if (c->weighted[i] != weighted || lki_metric_output(c->metric[i]) != output) continue;
        const char *word = lki_metric_word(c->metric[i]);
        if (word) lki_json_text(o, word);
        else LKI_TRY(lki_object_write(o, LKI_KIND_METRIC, c->metric[i]));
    }
    for (int i = 0; i < c->lost_count; i++) {
        const lki_lost *l = &c->lost[i];
        if (l->kind == LKI_KIND_METRIC && l->weighted == weighted && l->output == output) lki_json_literal(o, l->json);
    }
    lki_json_close(o, ']');
    return LK_OK;
}

static lk_status write_metrics(lki_json_out *o, const lk_model *m, const char *key, bool weighted)
{
    const lki_compiled *c = m->compiled;
    bool                any = false;
    for (int i = 0; i < c->metrics; i++)
        any = any || c->weighted[i] == weighted;
    for (int i = 0; i < c->lost_count; i++)
        any = any || (c->lost[i].kind == LKI_KIND_METRIC && c->lost[i].weighted == weighted);
    lki_json_key(o, key);
    if (!any) return lki_json_null(o), LK_OK;
    if (c->outputs == 1) return write_metrics_of(o, c, 0, weighted);
    open_outputs(o, m);
    for (int i = 0; i < c->outputs; i++) {
        next_output(o, m, i);
        LKI_TRY(write_metrics_of(o, c, i, weighted));
    }
    close_outputs(o, m);
    return LK_OK;
}

static lk_status write_all(lki_json_out *o, const lk_model *m)
{
    const lki_compiled *c = m->compiled;
    const lki_lost     *lost = lki_lost_part(m, LKI_KIND_OPTIMIZER, -1);
    lki_json_open(o, '{');
    lki_json_key(o, "optimizer");
    if (lost) lki_json_literal(o, lost->json);
    else LKI_TRY(lki_object_write(o, LKI_KIND_OPTIMIZER, c->optimizer));
    LKI_TRY(write_losses(o, m));
    LKI_TRY(write_metrics(o, m, "metrics", false));
    LKI_TRY(write_metrics(o, m, "weighted_metrics", true));
    lki_json_key(o, "run_eagerly");
    lki_json_bool(o, c->run_eagerly);
    lki_json_key(o, "steps_per_execution");
    lki_json_int(o, c->steps_per_execution);
    lki_json_key(o, "jit_compile");
    lki_json_bool(o, false);
    lki_json_close(o, '}');
    return LK_OK;
}

bool lki_is_compiled(const lk_model *m) { return m->compiled && m->compiled->optimizer; }

lk_status lki_compile_write(const lki_reading *r, lki_json_out *o, const lk_model *m)
{
    lki_reading at = {.file = r->file, .place = "what the model is compiled with"};
    bool        before = lk_failed();
    if (!lki_is_compiled(m) && !lki_lost_part(m, LKI_KIND_OPTIMIZER, -1)) return lki_json_literal(o, "{}"), LK_OK;
    lk_status status = write_all(o, m);
    if (status != LK_OK) lki_read_blame(&at, before);
    return status;
}
