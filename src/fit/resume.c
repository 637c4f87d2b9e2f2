/* The state of a fit as bytes (resume.h).
 *
 *   field  meaning
 *    1..3  epoch, steps of it that are done, whether it has begun
 *    4, 5  steps done in all; replicas it was saved with
 *       6  the random seed
 *    7, 8 whether training had finished; whether the warning of a loss that is not finite was given
 *       9  steps of an epoch + 2, so that unknown is 0
 *      10  the iterator, as of lk_iterator_save()
 *  11, 12 how often each shuffle of the training data and of the validation data has begun, inputs first
 *      13  rows of the epoch so far, and its losses times rows
 *      14 a metric: name, classes, and its sums with all their lanes; one field per metric 15 a callback: name of its kind and its
 *      state; one field per callback that has a state 16 an epoch of the history: its number, names and values; one field per
 *      epoch
 *
 * 10 is missing before the first epoch begins, 13 and 14 between epochs. */
#include "fit/resume.h"
#include "core/log.h"
#include "core/memory.h"
#include "core/runtime.h"
#include "core/shape.h"
#include "data/data.h"
#include "fit/history.h"
#include "format/crc32c.h"
#include "model/metric.h"
#include "op/op.h"
#include <stdio.h>
#include <string.h>

enum { HEADER = 12 };
static const char MAGIC[8] = {'L', 'K', 'R', 'E', 'S', 'U', 'M', '1'};

enum {
    EPOCH = 1,
    BATCH,
    WITHIN,
    STEPS,
    REPLICAS,
    SEED,
    OVER,
    TOLD_NAN,
    EPOCH_STEPS,
    ITERATOR,
    TRAIN_COUNTS,
    VALIDATION_COUNTS,
    LOSSES,
    METRIC,
    CALLBACK,
    HISTORY
};

/* ---- saving ------------------------------------------------------------------------------------------------------------------ */

static void put_part(lki_sink *message, uint32_t field, lki_sink *part)
{
    lki_sink_message(message, field, part);
    lki_sink_free(part);
}

static void put_place(const lki_fit_run *r, lki_sink *s)
{
    lki_sink_number(s, EPOCH, (uint64_t)r->place.epoch);
    lki_sink_number(s, BATCH, (uint64_t)r->place.batch);
    lki_sink_number(s, WITHIN, r->place.within);
    lki_sink_number(s, STEPS, (uint64_t)(r->before + r->now.event.step));
    lki_sink_number(s, REPLICAS, (uint64_t)lk_num_replicas_in_sync(r->engine->strategy));
    lki_sink_number(s, SEED, lk_random_seed());
    lki_sink_number(s, OVER, r->over);
    lki_sink_number(s, TOLD_NAN, r->told_nan);
    lki_sink_number(s, EPOCH_STEPS, (uint64_t)(r->train.steps + 2));
}

static lk_status put_iterator(const lki_fit_run *r, lki_sink *s)
{
    void  *bytes = NULL;
    size_t size = 0;
    if (!r->iterator) return LK_OK;
    LKI_TRY(lk_iterator_save(r->iterator, &bytes, &size));
    lki_sink_field(s, ITERATOR, bytes, size);
    lk_free_bytes(bytes);
    return LK_OK;
}

static void add_counts(const lk_dataset *d, lki_sink *s)
{
    for (int i = 0; i < d->inputs; i++)
        add_counts(d->input[i], s);
    if (d->ops->counts) lki_state_put(s, (int64_t)__atomic_load_n(&d->iterations, __ATOMIC_RELAXED));
}

static void put_counts(const lk_dataset *d, uint32_t field, lki_sink *s)
{
    lki_sink part = {0};
    if (d) add_counts(d, &part);
    put_part(s, field, &part);
}

static void put_losses(lki_engine *e, lki_sink *s)
{
    lki_sink part = {0};
    if (lki_count_settle(e) != LK_OK) part.failed = true;
    lki_state_put_real(&part, e->rows);
    for (int i = 0; i < e->losses; i++)
        lki_state_put_real(&part, e->sum[i]);
    put_part(s, LOSSES, &part);
}

/* The sums are variables with an entry per lane, in memory that all replicas share. */
static void put_metric(lk_metric *m, lki_sink *s)
{
    const lk_variables v = lk_metric_variables(m);
    const char        *name = lk_metric_name(m);
    lki_sink           part = {0};
    lki_state_put_bytes(&part, name, strlen(name));
    lki_state_put(&part, m->classes);
    lki_state_put(&part, v.count);
    for (int i = 0; i < v.count && !part.failed; i++) {
        const void *values = lki_variable_values(v.item[i]);
        if (values) lki_state_put_values(&part, v.item[i]->dtype, &v.item[i]->shape, values);
        else part.failed = true;
    }
    put_part(s, METRIC, &part);
}

static void put_callback(const lk_callback *c, lki_sink *s)
{
    lki_sink part = {0}, state LKI_FREED_BY(lki_sink_free) = {0};
    if (!c->kind->save) return;
    c->kind->save(c, &state);
    lki_state_put_bytes(&part, c->kind->name, strlen(c->kind->name));
    part.failed = part.failed || state.failed;
    lki_state_put_bytes(&part, state.data, state.size);
    put_part(s, CALLBACK, &part);
}

static void put_epoch(const lk_history *h, int i, lki_sink *s)
{
    lki_sink part = {0};
    lki_state_put(&part, h->epoch[i]);
    for (int n = 0; n < h->values[i]; n++) {
        lki_state_put_bytes(&part, h->name[n], strlen(h->name[n]));
        lki_state_put_real(&part, h->value[i][n]);
    }
    put_part(s, HISTORY, &part);
}

static lk_status put_all(const lki_fit_run *r, lki_sink *s)
{
    const lki_compiled *c = r->engine->compiled;
    put_place(r, s);
    LKI_TRY(put_iterator(r, s));
    put_counts(r->train.dataset, TRAIN_COUNTS, s);
    put_counts(r->validation.dataset, VALIDATION_COUNTS, s);
    if (r->place.within) put_losses(r->engine, s);
    LK_STEP
        for (int i = 0; r->place.within && i < c->metrics; i++)
            put_metric(c->metric[i], s);
    for (int i = 0; i < r->callbacks.count; i++)
        put_callback(r->callbacks.item[i], s);
    for (int i = 0; i < r->history->epochs; i++)
        put_epoch(r->history, i, s);
    return lk_failed() ? lk_error_code() : s->failed ? LK_ENOMEM : LK_OK;
}

lk_status lki_resume_save(const lki_fit_run *r, lki_sink *out)
{
    const size_t at = out->size;
    lki_sink_bytes(out, MAGIC, sizeof MAGIC);
    lki_sink_fixed(out, 0, 4);
    LKI_TRY(put_all(r, out));
    const uint32_t sum = lki_crc32c_mask(lki_crc32c(0, out->data + at + HEADER, out->size - at - HEADER));
    for (int i = 0; i < 4; i++)
        out->data[at + 8 + (size_t)i] = (uint8_t)(sum >> 8 * i);
    return LK_OK;
}

/* ---- reading it -------------------------------------------------------------------------------------------------------------- */

static lk_status damaged(const char *from, const char *what)
{
    return lki_fail(LK_EFORMAT, "%s: its record of where training was %s", from, what);
}

static void read_number(lki_resume *r, const lki_wire_field *f)
{
    switch (f->number) {
    case EPOCH: r->place.epoch = f->value < INT32_MAX ? (int)f->value : -1; break;
    case BATCH: r->place.batch = f->value <= INT64_MAX ? (int64_t)f->value : -1; break;
    case WITHIN: r->place.within = f->value != 0; break;
    case STEPS: r->steps = f->value <= INT64_MAX / 2 ? (int64_t)f->value : -1; break;
    case REPLICAS: r->replicas = f->value <= INT32_MAX ? (int64_t)f->value : -1; break;
    case SEED: r->seed = f->value; break;
    case OVER: r->over = f->value != 0; break;
    default: break;
    }
}

lk_status lki_resume_open(const char *from, lki_bytes *bytes, lki_resume *out)
{
    lki_wire_field f;
    lki_resume     r = {0};
    if (bytes->size < HEADER || memcmp(bytes->data, MAGIC, sizeof MAGIC) != 0)
        return damaged(from, "is not one this version can read");
    if (lki_crc32c_mask(lki_crc32c(0, bytes->data + HEADER, bytes->size - HEADER)) != lki_get_le(bytes->data + 8, 4))
        return damaged(from, "is damaged: its checksum is wrong");
    r.message = lki_wire_of(bytes->data + HEADER, bytes->size - HEADER);
    lki_wire w = r.message;
    while (lki_wire_next(&w, &f))
        read_number(&r, &f);
    if (w.bad || r.place.epoch < 0 || r.place.batch < 0 || r.steps < 0 || r.replicas < 0) return damaged(from, "is damaged");
    if (!(r.from = lki_strdup(from))) return LK_ENOMEM;
    r.bytes = *bytes;
    *bytes = (lki_bytes){0};
    *out = r;
    return LK_OK;
}

void lki_resume_free(lki_resume *r)
{
    lki_bytes_free(&r->bytes);
    lki_release(r->from);
    *r = (lki_resume){0};
}

/* ---- resuming ------------------------------------------------------------------------------------------------------- */

static lk_status begin_iterator(lki_fit_run *r)
{
    LK_POOL
        r->iterator = lki_retain(lk_iterator_of(r->train.dataset));
    return r->iterator ? LK_OK : lk_failed() ? lk_error_code() : LK_ENOMEM;
}

/* Between epochs a different dataset is accepted; within an epoch it is not. */
static lk_status load_iterator(lki_fit_run *r, lki_wire *w)
{
    lki_error_record why;
    LKI_TRY(begin_iterator(r));
    if (lk_iterator_restore(r->iterator, w->p, lki_wire_left(w)) == LK_OK) return LK_OK;
    lki_error_take(&why);
    if (r->place.within || why.code != LK_EINVAL)
        return lki_fail(why.code, "%s: it cannot resume with this data in the middle of an epoch: %s", r->resume.from, why.text);
    lki_warn("%s was saved with another dataset (%s); the next epoch begins with the current one", r->resume.from, why.text);
    lki_drop(r->iterator);
    r->iterator = NULL;
    return LK_OK;
}

static void set_counts(lk_dataset *d, lki_wire *w)
{
    for (int i = 0; i < d->inputs; i++)
        set_counts(d->input[i], w);
    if (d->ops->counts && lki_wire_left(w) >= 8) __atomic_store_n(&d->iterations, (uint64_t)lki_state_get(w), __ATOMIC_RELAXED);
}

static lk_status load_train_counts(lki_fit_run *r, lki_wire *w)
{
    if (r->iterator) set_counts(r->train.dataset, w);
    return LK_OK;
}

static lk_status load_validation_counts(lki_fit_run *r, lki_wire *w)
{
    if (r->validation.dataset) set_counts(r->validation.dataset, w);
    return LK_OK;
}

static lk_status other_metrics(const lki_fit_run *r)
{
    return lki_fail(
        LK_EINVAL,
        "%s: saved in the middle of an epoch with other losses or metrics; compile the model as it was then, or remove it "
        "to start again",
        r->resume.from);
}

static lk_status load_losses(lki_fit_run *r, lki_wire *w)
{
    lki_engine *e = r->engine;
    LKI_TRY(lki_count_settle(e));
    if (lki_wire_left(w) != 8 * (size_t)(e->losses + 1)) return other_metrics(r);
    e->rows = lki_state_get_real(w);
    for (int i = 0; i < e->losses; i++)
        e->sum[i] = lki_state_get_real(w);
    return LK_OK;
}

static lk_status load_sum(lki_fit_run *r, lk_variable *v, lki_wire *w)
{
    lk_tensor *t = lki_state_get_tensor(w);
    if (!t) return lk_failed() ? lk_error_code() : damaged(r->resume.from, "is damaged: a metric is not one");
    if (t->dtype != v->dtype || !lki_shape_equal(&t->shape, &v->shape)) return other_metrics(r);
    return lk_assign(v, t);
}

static lk_status load_metric_values(lki_fit_run *r, lk_metric *m, lki_wire *w)
{
    const int64_t classes = lki_state_get_within(w, 0, INT32_MAX), count = lki_state_get_within(w, 0, LKI_MOST_SUMS);
    lk_status     status = LK_OK;
    if (w->bad) return damaged(r->resume.from, "is damaged: a metric is not one");
    if (count) LKI_TRY(lki_metric_build(m, &(lk_shape){2, {1, lki_max(1, classes)}}));
    LK_STEP {
        const lk_variables v = lk_metric_variables(m);
        if (v.count != count) status = other_metrics(r);
        for (int i = 0; i < count && status == LK_OK; i++)
            status = load_sum(r, v.item[i], w);
    }
    return status;
}

static bool same_text(const lki_wire *w, const char *text)
{
    return lki_wire_left(w) == strlen(text) && memcmp(w->p, text, strlen(text)) == 0;
}

static lk_status load_metric(lki_fit_run *r, lki_wire *w, int at)
{
    const lki_compiled *c = r->engine->compiled;
    const lki_wire      name = lki_state_get_bytes(w);
    if (at >= c->metrics || !same_text(&name, lk_metric_name(c->metric[at]))) return other_metrics(r);
    return load_metric_values(r, c->metric[at], w);
}

/* The n-th callback of a kind gets the n-th state of that kind; a callback that is new stays as it began. */
static lk_callback *callback_for(const lki_fit_run *r, const lki_wire *kind, int n)
{
    for (int i = 0; i < r->callbacks.count; i++) {
        lk_callback *c = r->callbacks.item[i];
        if (c->kind->load && same_text(kind, c->kind->name) && n-- == 0) return c;
    }
    return NULL;
}

/* The number of states of that kind before the one at `end`. */
static int states_before(const lki_fit_run *r, const lki_wire *kind, const uint8_t *end)
{
    lki_wire       w = r->resume.message;
    lki_wire_field f;
    int            count = 0;
    while (lki_wire_next(&w, &f) && f.bytes.p < end)
        if (f.number == CALLBACK && f.is_bytes) {
            const lki_wire name = lki_state_get_bytes(&f.bytes);
            count += lki_wire_left(&name) == lki_wire_left(kind) && memcmp(name.p, kind->p, lki_wire_left(kind)) == 0;
        }
    return count;
}

static lk_status load_callback(lki_fit_run *r, lki_wire *w)
{
    const uint8_t *begin = w->p;
    const lki_wire kind = lki_state_get_bytes(w);
    lki_wire       state = lki_state_get_bytes(w);
    lk_callback   *c = w->bad ? NULL : callback_for(r, &kind, states_before(r, &kind, begin));
    if (!c) return LK_OK;
    LKI_TRY(c->kind->load(c, &state));
    return lki_state_check(&state, c->kind->name);
}

static lk_status load_epoch(lki_fit_run *r, lki_wire *w)
{
    lki_logs  logs LKI_FREED_BY(lki_logs_free) = {0};
    lk_status status = LK_OK;
    const int epoch = (int)lki_state_get_within(w, 0, INT32_MAX - 1);
    while (lki_wire_left(w) && status == LK_OK) {
        char           text[512];
        const lki_wire name = lki_state_get_bytes(w);
        snprintf(text, sizeof text, "%.*s", (int)lki_min((int64_t)lki_wire_left(&name), sizeof text - 1), (const char *)name.p);
        const double value = lki_state_get_real(w);
        if (!w->bad) status = lki_logs_set(&logs, text, value);
    }
    if (status == LK_OK && !w->bad) status = lki_history_add(r->history, epoch, &logs.logs);
    return status;
}

static lk_status load_field(lki_fit_run *r, lki_wire_field *f, int *metrics)
{
    const lki_wire_field *n = f;
    switch (f->number) {
    case TOLD_NAN: r->told_nan = n->value != 0; return LK_OK;
    case EPOCH_STEPS:
        if (r->train.steps == LK_UNKNOWN && n->value <= INT64_MAX / 2) r->train.steps = (int64_t)n->value - 2;
        return LK_OK;
    case ITERATOR: return load_iterator(r, &f->bytes);
    case TRAIN_COUNTS: return load_train_counts(r, &f->bytes);
    case VALIDATION_COUNTS: return load_validation_counts(r, &f->bytes);
    case LOSSES: return load_losses(r, &f->bytes);
    case METRIC: return load_metric(r, &f->bytes, (*metrics)++);
    case CALLBACK: return load_callback(r, &f->bytes);
    case HISTORY: return load_epoch(r, &f->bytes);
    default: return LK_OK;
    }
}

/* This seed holds until fit ends (fit.c); the seed of the runtime does not change. */
static void use_seed(const lki_fit_run *r)
{
    const uint64_t here = lk_random_seed(), then = r->resume.seed;
    if (here == then) return;
    lki_warn("%s was made with random seed %llu; this training uses it instead of %llu", r->resume.from, (unsigned long long)then,
             (unsigned long long)here);
    lki_seed_set_own((lki_own_seed){true, then});
}

lk_status lki_resume_apply(lki_fit_run *r)
{
    lki_wire       w = r->resume.message;
    lki_wire_field f;
    int            metrics = 0;
    if (!r->resume.bytes.data) return LK_OK;
    use_seed(r);
    r->place = r->resume.place;
    r->before = r->resume.steps;
    if (r->place.within) LKI_TRY(lki_count_reset(r->engine));
    while (lki_wire_next(&w, &f))
        LKI_TRY(load_field(r, &f, &metrics));
    if (r->place.within && metrics != r->engine->compiled->metrics) return other_metrics(r);
    if (r->place.within && !r->iterator) return damaged(r->resume.from, "has no iterator");
    return LK_OK;
}
