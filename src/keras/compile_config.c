/* What a model was compiled with, as Keras' JSON (model_config.h).
 *
 *     {"optimizer": {...}, "loss": ..., "loss_weights": ..., "metrics": ..., "weighted_metrics": ..., "run_eagerly": false,
 *      "steps_per_execution": 1, "jit_compile": false}
 *
 * Losses, weights and metrics are one for all outputs, a list with an entry per output, or an object by the names of outputs;
 * metrics are lists again. */
#include "core/log.h"
#include "core/memory.h"
#include "keras/model_config.h"
#include "model/compiled.h"
#include "model/metric.h"
#include <stdio.h>
#include <string.h>

/* ---- by output ---- */

static bool is_by_name(const lki_json *v) { return v->type == LKI_JSON_OBJECT && !lki_json_get(v, "class_name"); }

static lk_status check_names(const lki_reading *r, const lk_model *m, const lki_json *v)
{
    char   list[400] = "";
    size_t used = 0;
    for (int i = 0; i < m->outputs && used < sizeof list; i++)
        used += (size_t)snprintf(list + used, sizeof list - used, "%s\"%s\"", i ? ", " : "", lki_model_output_name(m, i));
    for (int k = 0; k < v->count; k++) {
        bool known = false;
        for (int i = 0; i < m->outputs; i++)
            known = known || !strcmp(v->item[k].key, lki_model_output_name(m, i));
        if (!known)
            return lki_read_fail(r, LK_EFORMAT, "\"%s\" names an output \"%s\"; there are %s", v->key, v->item[k].key, list);
    }
    return LK_OK;
}

/* What an entry of the config says about output i; NULL: nothing. */
static lk_status of_output(const lki_reading *r, const lk_model *m, const lki_json *v, int i, const lki_json **out)
{
    *out = NULL;
    if (!v || v->type == LKI_JSON_NULL) return LK_OK;
    if (is_by_name(v)) {
        LKI_TRY(check_names(r, m, v));
        *out = lki_json_get(v, lki_model_output_name(m, i));
    } else if (v->type == LKI_JSON_ARRAY) {
        if (v->count != m->outputs)
            return lki_read_fail(r, LK_EFORMAT, "\"%s\" has %d entries for %d output%s", v->key, v->count, m->outputs,
                                 m->outputs == 1 ? "" : "s");
        *out = &v->item[i];
    } else *out = v;
    if (*out && (*out)->type == LKI_JSON_NULL) *out = NULL;
    return LK_OK;
}

/* ---- reading ---- */

typedef struct found {
    lk_optimizer *optimizer;
    lk_loss     **loss;
    double       *weight;
    bool          weights;
    int           metrics, room;
    lk_metric   **metric;
    bool         *weighted;
    int           steps;
    bool          eager;
} found;

static lk_status status_of(const void *object) { return object ? LK_OK : lk_failed() ? lk_error_code() : LK_ENOMEM; }

static lk_status read_losses(const lki_reading *r, const lk_model *m, const lki_json *config, found *c)
{
    const lki_json *losses = lki_json_get(config, "loss"), *weights = lki_json_get(config, "loss_weights"), *v, *before = NULL;
    c->weights = weights && weights->type != LKI_JSON_NULL;
    for (int i = 0; i < m->outputs; i++) {
        LKI_TRY(of_output(r, m, losses, i, &v));
        if (v && v == before) c->loss[i] = c->loss[i - 1]; /* one for all outputs */
        else if (v) LKI_TRY(status_of(c->loss[i] = lki_object_read(r, LKI_KIND_LOSS, "loss", v)));
        before = v;
        LKI_TRY(of_output(r, m, weights, i, &v));
        if (v && v->type != LKI_JSON_NUMBER)
            return lki_read_fail(r, LK_EFORMAT, "a loss weight is %s; it should be a number", lki_json_kind(v));
        c->weight[i] = v ? v->number : 1;
    }
    return LK_OK;
}

/* The same metric for another output. */
static lk_metric *moved(lk_metric *of, int output)
{
    lk_metric_args a = of->set;
    if (!output) return of;
    a.output = output;
    lk_metric *m = of->class->make ? of->class->make(&a) : NULL;
    if (!m && !lk_failed()) lki_fail(LK_EUNSUPPORTED, "metric \"%s\" cannot be for another output than the first", of->set.name);
    lk_free(of);
    return m;
}

static lk_status read_metric(const lki_reading *r, const lk_model *m, const lki_json *v, int output, bool weighted, found *c)
{
    if (!lki_grow((void **)&c->metric, &c->room, c->metrics + 1, sizeof *c->metric)) return LK_ENOMEM;
    bool *grown = lki_realloc_array(c->weighted, c->room, sizeof *grown);
    if (!grown) return LK_ENOMEM;
    c->weighted = grown;
    lk_metric *one = lki_object_read(r, LKI_KIND_METRIC, weighted ? "weighted_metrics" : "metrics", v);
    if (one) one = moved(one, output);
    if (!one) return lk_failed() ? lk_error_code() : LK_ENOMEM;
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
        return lki_read_fail(r, LK_EFORMAT, "\"steps_per_execution\" should be a whole number of at least 1");
    c->steps = (int)steps->integer;
    return LK_OK;
}

static lk_status read_all(const lki_reading *r, const lk_model *m, const lki_json *config, found *c)
{
    const lki_json *optimizer = lki_json_get(config, "optimizer"), *old = lki_json_get(config, "optimizer_config");
    if (!optimizer) optimizer = old; /* as files before Keras 3 call it */
    c->loss = lki_zalloc_array(m->outputs, sizeof *c->loss);
    c->weight = lki_zalloc_array(m->outputs, sizeof *c->weight);
    if (!c->loss || !c->weight) return LK_ENOMEM;
    c->optimizer = optimizer && optimizer->type != LKI_JSON_NULL ? lki_object_read(r, LKI_KIND_OPTIMIZER, "optimizer", optimizer)
                                                                 : lk_rmsprop();
    LKI_TRY(status_of(c->optimizer));
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
}

static lk_status compile_by(const lki_reading *r, lk_model *m, const lki_json *config)
{
    found     c = {0};
    lk_status status = read_all(r, m, config, &c);
    if (status == LK_OK)
        status = lki_model_compile(m, &(lki_compile_request){.optimizer = c.optimizer,
                                                             .loss = c.loss,
                                                             .loss_weight = c.weights ? c.weight : NULL,
                                                             .metrics = c.metrics,
                                                             .metric = c.metric,
                                                             .weighted = c.weighted,
                                                             .steps_per_execution = c.steps,
                                                             .run_eagerly = c.eager});
    found_free(m, &c);
    return status;
}

/* Settings that name what there is not here are told and left out: the model itself is good. */
lk_status lki_compile_read(const char *file, lk_model *m, const lki_json *config)
{
    const lki_reading r = {.file = file, .place = "compile_config"};
    lki_error_record  before, mine;
    if (!config || config->type == LKI_JSON_NULL) return LK_OK;
    if (config->type != LKI_JSON_OBJECT)
        return lki_read_fail(&r, LK_EFORMAT, "it is %s; it should be an object", lki_json_kind(config));
    if (!config->count) return LK_OK;
    lki_error_take(&before);
    const lk_status status = compile_by(&r, m, config);
    lki_error_take(&mine);
    lki_error_put(&before);
    if (status == LK_EUNSUPPORTED) return lki_warn("%s; the model is not compiled", mine.text), LK_OK;
    lki_error_put(&mine);
    return status;
}

/* ---- writing ---- */

/* One that serves all outputs is written once. */
static bool one_for_all(const lki_compiled *c)
{
    for (int i = 1; i < c->outputs; i++)
        if (c->loss[i] != c->loss[0]) return false;
    return true;
}

static lk_status write_losses(lki_json_out *o, const lki_compiled *c)
{
    const int count = one_for_all(c) ? 1 : c->outputs;
    lki_json_key(o, "loss");
    if (count > 1) lki_json_open(o, '[');
    for (int i = 0; i < count; i++) {
        if (c->loss[i]) LKI_TRY(lki_object_write(o, LKI_KIND_LOSS, c->loss[i]));
        else lki_json_null(o);
    }
    if (count > 1) lki_json_close(o, ']');
    lki_json_key(o, "loss_weights");
    if (!c->weights_given) return lki_json_null(o), LK_OK;
    lki_json_open(o, '[');
    for (int i = 0; i < c->outputs; i++)
        lki_json_real(o, c->loss_weight[i]);
    lki_json_close(o, ']');
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
    lki_json_close(o, ']');
    return LK_OK;
}

static lk_status write_metrics(lki_json_out *o, const lki_compiled *c, const char *key, bool weighted)
{
    bool any = false;
    for (int i = 0; i < c->metrics; i++)
        any = any || c->weighted[i] == weighted;
    lki_json_key(o, key);
    if (!any) return lki_json_null(o), LK_OK;
    if (c->outputs == 1) return write_metrics_of(o, c, 0, weighted);
    lki_json_open(o, '[');
    for (int i = 0; i < c->outputs; i++)
        LKI_TRY(write_metrics_of(o, c, i, weighted));
    lki_json_close(o, ']');
    return LK_OK;
}

static lk_status write_all(lki_json_out *o, const lki_compiled *c)
{
    lki_json_open(o, '{');
    lki_json_key(o, "optimizer");
    LKI_TRY(lki_object_write(o, LKI_KIND_OPTIMIZER, c->optimizer));
    LKI_TRY(write_losses(o, c));
    LKI_TRY(write_metrics(o, c, "metrics", false));
    LKI_TRY(write_metrics(o, c, "weighted_metrics", true));
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
    if (!lki_is_compiled(m)) return lki_json_literal(o, "{}"), LK_OK;
    lk_status status = write_all(o, m->compiled);
    if (status != LK_OK) lki_read_blame(&at, before);
    return status;
}
