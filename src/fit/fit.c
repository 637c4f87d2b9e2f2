/* fit: epochs of steps, validation between them, callbacks at each event.
 *
 *     BEGIN --train_begin--> EPOCH --steps, validation, epoch_end--> EPOCH ... --train_end--> END
 *                              \___ stopped by a callback, a signal, the data, an error ___/
 *
 * Whatever ends training, train_end is called, the history is returned, and the iterator of an epoch that stopped early is
 * released.
 *
 * After each step and each epoch, when all callbacks have handled it, training is at rest and may be saved (resume.h). A resumed
 * run begins in the middle of BEGIN -> EPOCH -> steps, with the saved counts, iterator and callbacks. */
#include "core/log.h"
#include "core/memory.h"
#include "core/rounding.h"
#include "core/runtime.h"
#include "data/data.h"
#include "fit/history.h"
#include "fit/resume.h"
#include "model/loss.h"
#include "op/op.h"
#include <math.h>
#include <stdio.h>

typedef struct fit {
    lki_fit_run        run; /* the first member, because callbacks that save get a pointer to it */
    const lk_fit_args *args;
    lki_logs           logs;   /* of the epoch that ends */
    lk_iterator       *early;  /* of the next epoch, a reference; NULL: not made yet */
    bool               again;  /* this epoch continues the iterator of the previous one */
    bool               ended;  /* there is no more data */
    bool               cut;    /* training stopped within the epoch, */
    bool               held;   /* so that it can be resumed later */
    double             looked; /* when the logs of a batch were last made */
    double             began;
} fit;

/* ---- errors name the place ---- */

/* Adds epoch and step to the error. For a label out of range also its row: in the arrays, or, if the batch is at hand, in the order
 * of this epoch. */
static lk_status where(fit *f, const char *what, int64_t step, lk_tuple batch)
{
    lki_error_record cause;
    if (batch.count || f->args->y) lki_explain_labels(f->run.engine, batch, f->args->y);
    lki_error_take(&cause);
    return lki_fail(cause.code, "lk_model_fit: epoch %d, %s %lld: %s", f->run.now.event.epoch + 1, what, (long long)step,
                    cause.text);
}

/* Adds the step to the error: this one or, if losses were pending, an earlier one. */
static lk_status counting(fit *f, int64_t step, lk_tuple batch)
{
    const int64_t failed = f->run.engine->failed_step;
    return failed && failed != step ? where(f, "step", failed, (lk_tuple){0}) : where(f, "step", step, batch);
}

/* ---- one step ---- */

static lk_status begin_anew(fit *f);

/* Data that ended exactly with the previous epoch begins again; data that ends within an epoch does not. */
static lk_status next_batch(fit *f, lk_tuple *batch, bool *got)
{
    double before = lki_seconds();
    *got = lk_next(f->run.iterator, batch) != 0;
    if (!*got && !lk_failed() && f->again && f->run.now.event.batch == 0) {
        LKI_TRY(begin_anew(f));
        *got = lk_next(f->run.iterator, batch) != 0;
    }
    f->run.now.times.input += lki_seconds() - before;
    return lk_failed() ? where(f, "the input of step", f->run.now.event.batch + 1, (lk_tuple){0}) : LK_OK;
}

static int traces_of(const lki_engine *e)
{
    const lk_function *f = e->step[LKI_FIT_TRAIN].function;
    return f ? lk_function_inspect(f).traces : 0;
}

static lk_status train_on(fit *f, lk_tuple batch)
{
    double      before = lki_seconds();
    lki_engine *e = f->run.engine;
    int         traces = traces_of(e);
    int64_t     rows = lki_batch_rows(batch);
    lk_tuple    losses;
    int64_t     step = f->run.now.event.batch + 1;
    if (lki_engine_step(e, LKI_FIT_TRAIN, batch, &losses) != LK_OK) return where(f, "step", step, batch);
    if (lki_count_losses(e, losses, rows, step) != LK_OK) return counting(f, step, batch);
    double took = lki_seconds() - before;
    bool   traced = traces_of(e) != traces;
    *(traced ? &f->run.now.times.compile : &f->run.now.times.step) += took;
    f->run.now.times.rows += rows;
    f->run.now.times.steps++;
    f->run.now.event.step++;
    f->run.now.rows = (int64_t)e->rows;
    return LK_OK;
}

static bool stopping(const fit *f)
{
    return __atomic_load_n(&f->run.engine->model->stop, __ATOMIC_ACQUIRE) ||
           (f->args->stop_after_steps > 0 && f->run.now.event.step >= f->args->stop_after_steps);
}

/* Warn once that the loss is not finite, if no callback ends training because of it. */
static void tell_nan(fit *f)
{
    const lki_engine *e = f->run.engine;
    if (!e->nan_step || f->run.told_nan || stopping(f)) return;
    f->run.told_nan = true;
    lki_warn("the loss is %s from epoch %d, step %lld on; lk_terminate_on_nan() would end training there",
             isnan(e->nan) ? "NaN" : "infinite", f->run.now.event.epoch + 1, (long long)e->nan_step);
}

/* True if a signal or a caller stopped training, so that it may be resumed. False if a callback ended it because there is nothing
 * more to gain. If the epoch was cut short, a callback's decision at its end is ignored: the callback will see the whole epoch
 * later. */
static bool interrupted(const fit *f)
{
    return f->held || (stopping(f) && __atomic_load_n(&f->run.engine->model->stop, __ATOMIC_ACQUIRE) != LKI_STOP_DONE);
}

static lk_status tell(fit *f, lki_hook hook)
{
    double    before = lki_seconds();
    lk_status status = lki_callbacks_tell(&f->run.callbacks, hook, &f->run.now);
    f->run.now.times.callbacks += lki_seconds() - before;
    f->run.now.times.total = lki_seconds() - f->began;
    return status;
}

/* ---- one epoch ---- */

/* Run steps_per_execution steps, or fewer if the data or the epoch ends. A resumed epoch has executions that begin at the same
 * steps. */
static lk_status execute(fit *f, int64_t limit)
{
    lk_event     *e = &f->run.now.event;
    const int64_t together = f->run.engine->compiled->steps_per_execution, first = e->batch;
    do {
        lk_tuple batch;
        bool     got;
        LKI_TRY(next_batch(f, &batch, &got));
        if (!got) {
            f->ended = true;
            return LK_OK;
        }
        if (e->batch == first) LKI_TRY(tell(f, LKI_HOOK_train_batch_begin));
        LKI_TRY(train_on(f, batch));
        e->batch++;
    } while (e->batch % together && e->batch < limit && !stopping(f));
    return LK_OK;
}

/* Training is at rest: callbacks that save its state do so now. */
static void rest(fit *f, lki_fit_place at, lki_rest why)
{
    const double before = lki_seconds();
    f->run.place = at;
    for (int i = 0; i < f->run.callbacks.count; i++) {
        lk_callback *c = f->run.callbacks.item[i];
        if (c->kind->rest) c->kind->rest(c, &f->run, why);
    }
    f->run.now.times.callbacks += lki_seconds() - before;
}

static lki_fit_place place_within(const fit *f) { return (lki_fit_place){f->run.now.event.epoch, f->run.now.event.batch, true}; }

static lk_status batches(fit *f)
{
    lk_event     *e = &f->run.now.event;
    const int64_t limit = f->args->steps_per_epoch > 0 ? f->args->steps_per_epoch : INT64_MAX;
    f->ended = false;
    while (e->batch < limit && !f->ended && !stopping(f)) {
        const int64_t before = e->step;
        LKI_TRY(execute(f, limit));
        if (e->step == before) continue; /* no data */
        if (lki_callbacks_look(f->run.engine, &f->run.callbacks, LKI_HOOK_train_batch_end, &f->looked))
            e->logs = lki_count_logs(f->run.engine, false);
        if (lk_failed()) return counting(f, e->batch, (lk_tuple){0});
        e->batch--; /* the last step of the execution */
        const lk_status status = tell(f, LKI_HOOK_train_batch_end);
        e->batch++;
        LKI_TRY(status);
        tell_nan(f);
        rest(f, place_within(f), LKI_REST_STEP);
    }
    return LK_OK;
}

static void forget_early(fit *f)
{
    lki_drop(f->early);
    f->early = NULL;
}

/* Make the first batch of the next epoch while the last steps of this one are pending: otherwise the device would wait for it. */
static void make_early(fit *f)
{
    const lk_event *e = &f->run.now.event;
    const bool      comes = f->ended && f->args->steps_per_epoch <= 0 && e->epoch + 1 < e->epochs && !stopping(f);
    const double    before = lki_seconds();
    if (comes && f->run.engine->pending_count) f->early = lki_iterator_early(f->run.train.dataset);
    f->run.now.times.input += lki_seconds() - before;
}

/* Begin a new iterator, in its own pool, so that the previous one is freed here. */
static lk_status begin_anew(fit *f)
{
    lki_drop(f->run.iterator);
    f->run.iterator = NULL;
    if (f->early && lki_iterator_begin(f->early)) f->run.iterator = lki_retain(f->early);
    forget_early(f);
    if (!f->run.iterator)
        LK_POOL
            f->run.iterator = lki_retain(lk_iterator_of(f->run.train.dataset));
    f->again = false;
    return f->run.iterator ? LK_OK : lk_failed() ? lk_error_code() : LK_ENOMEM;
}

static lk_status begin_data(fit *f)
{
    f->again = f->run.iterator && f->args->steps_per_epoch > 0;
    return f->again ? LK_OK : begin_anew(f);
}

/* Warn that the data ended before the requested steps, which ends training. */
static void tell_ran_out(fit *f)
{
    if (!f->ended || f->args->steps_per_epoch <= 0) return;
    lki_warn("the input ran out of data after %lld of %lld steps of epoch %d; training stops. lk_dataset_repeat() makes it last",
             (long long)f->run.now.event.batch, (long long)f->args->steps_per_epoch, f->run.now.event.epoch + 1);
    lk_model_stop_training(f->run.engine->model);
}

static lk_status keep_logs(fit *f, const lk_logs *logs, const char *prefix)
{
    char name[512];
    for (int i = 0; i < logs->count; i++) {
        snprintf(name, sizeof name, "%s%s", prefix, logs->name[i]);
        LKI_TRY(lki_logs_set(&f->logs, name, logs->value[i]));
    }
    return LK_OK;
}

static lk_status validate(fit *f)
{
    const int64_t every = lki_integer_or(f->args->validation_freq, 1);
    if (!f->run.validation.dataset || (f->run.now.event.epoch + 1) % every || f->cut) return LK_OK;
    double        before = lki_seconds();
    lki_happening within = f->run.now;
    LKI_TRY(lki_evaluate(f->run.engine, &f->run.validation, f->args->validation_steps, &f->run.callbacks, &within));
    f->run.now.times.validation += lki_seconds() - before;
    return keep_logs(f, &f->run.engine->evaluated, "val_");
}

static lk_status end_epoch(fit *f)
{
    f->run.now.stopped = interrupted(f);
    f->run.now.event.logs = f->logs.logs;
    f->run.now.more = &f->logs;
    f->run.now.times.total = lki_seconds() - f->began;
    lk_status status = tell(f, LKI_HOOK_epoch_end);
    f->run.now.more = NULL;
    LKI_TRY(status);
    f->run.history->times = f->run.now.times;
    return lki_history_add(f->run.history, f->run.now.event.epoch, &f->logs.logs);
}

/* A resumed epoch already has its counts, its iterator and its place. */
static lk_status begin_epoch(fit *f)
{
    lki_happening *h = &f->run.now;
    const bool     within = f->run.place.within;
    f->cut = false;
    if (!within) LKI_TRY(lki_count_reset(f->run.engine));
    h->rows = (int64_t)f->run.engine->rows;
    h->event.logs = within ? lki_count_logs(f->run.engine, false) : (lk_logs){0};
    h->event.batch = within ? f->run.place.batch : 0;
    h->event.batches = f->args->steps_per_epoch > 0 ? f->args->steps_per_epoch : f->run.train.steps;
    h->goes_on = within;
    const lk_status status = tell(f, LKI_HOOK_epoch_begin);
    h->goes_on = false;
    f->run.place = (lki_fit_place){h->event.epoch, h->event.batch, within};
    LKI_TRY(status);
    if (!within) return begin_data(f);
    f->again = f->args->steps_per_epoch > 0; /* the iterator may be that of the previous epoch, and at its end */
    return LK_OK;
}

/* An epoch that is cut short is saved before callbacks get an epoch_end that is not the real one. */
static void cut_short(fit *f)
{
    f->cut = stopping(f);
    f->held = f->cut && interrupted(f);
    if (f->held) rest(f, place_within(f), LKI_REST_STOP);
}

static lk_status epoch(fit *f)
{
    LKI_TRY(begin_epoch(f));
    LKI_TRY(batches(f));
    if (f->run.now.event.batch == 0 && f->ended)
        return lki_fail(LK_EINVAL, "lk_model_fit: epoch %d: the dataset is empty", f->run.now.event.epoch + 1);
    tell_ran_out(f);
    make_early(f);
    if (f->ended) f->run.train.steps = f->run.now.event.batches = f->run.now.event.batch; /* the number of steps is known now */
    cut_short(f);
    lki_logs_clear(&f->logs);
    if (lki_count_settle(f->run.engine) != LK_OK) return counting(f, f->run.now.event.batch, (lk_tuple){0});
    lk_logs seen = lki_count_logs(f->run.engine, false);
    tell_nan(f);
    if (lk_failed()) return lk_error_code();
    LKI_TRY(keep_logs(f, &seen, ""));
    LKI_TRY(validate(f));
    LKI_TRY(end_epoch(f));
    f->run.over = stopping(f) && !interrupted(f);
    if (!f->cut) rest(f, (lki_fit_place){f->run.now.event.epoch + 1, 0, false}, LKI_REST_EPOCH);
    return LK_OK;
}

/* ---- all epochs ---- */

/* A callback that keeps backups may find one to resume from. Then all callbacks begin and load their saved states. */
static lk_status begin(fit *f)
{
    lki_fit_run *r = &f->run;
    for (int i = 0; i < r->callbacks.count; i++) {
        lk_callback *c = r->callbacks.item[i];
        if (c->kind->restore) LKI_TRY(c->kind->restore(c, r));
    }
    r->now.resumed = r->resume.bytes.data != NULL;
    r->place = r->now.resumed ? r->resume.place : (lki_fit_place){.epoch = f->args->initial_epoch};
    r->now.event.epoch = r->place.epoch;
    r->now.event.batch = r->place.batch;
    LKI_TRY(tell(f, LKI_HOOK_train_begin));
    LKI_TRY(lki_resume_apply(r));
    if (r->resume.over) lki_model_done_training(r->engine->model);
    return LK_OK;
}

static lk_status epochs(fit *f)
{
    lk_event *e = &f->run.now.event;
    LKI_TRY(begin(f));
    for (e->epoch = f->run.place.epoch; e->epoch < e->epochs && !stopping(f); e->epoch++)
        LKI_TRY(epoch(f));
    f->run.over = stopping(f) && !interrupted(f);
    if (!f->held) rest(f, f->run.place, interrupted(f) ? LKI_REST_STOP : LKI_REST_END);
    return LK_OK;
}

/* train_end is called whatever happened; an error of training stays the first cause. */
static void train(fit *f)
{
    f->began = lki_seconds();
    f->run.now.failed = epochs(f) != LK_OK || lk_failed();
    forget_early(f);
    f->run.now.stopped = interrupted(f);
    lki_callbacks_end(&f->run.callbacks, LKI_HOOK_train_end, &f->run.now, f->run.now.failed ? lk_error_code() : LK_OK);
    if (!lk_failed())
        lk_optimizer_finalize(f->run.engine->compiled->optimizer); /* averages, if it keeps any, replace the weights */
    f->run.now.times.total = lki_seconds() - f->began;
    f->run.history->times = f->run.now.times;
}

/* ---- options ---- */

static lk_status numbers_fit(const lk_fit_args *a)
{
    const struct {
        const char *name;
        int64_t     value, least, most;
    } checks[] = {{"epochs", lki_integer_or(a->epochs, 1), 0, INT32_MAX},
                  {"initial_epoch", a->initial_epoch, 0, INT32_MAX},
                  {"steps_per_epoch", a->steps_per_epoch, 0, INT64_MAX},
                  {"stop_after_steps", a->stop_after_steps, 0, INT64_MAX},
                  {"validation_steps", a->validation_steps, 0, INT64_MAX},
                  {"validation_freq", lki_integer_or(a->validation_freq, 1), 1, INT64_MAX},
                  {"batch_size", lki_integer_or(a->batch_size, 1), 1, INT64_MAX},
                  {"validation_batch_size", a->validation_batch_size, 0, INT64_MAX}};
    for (int i = 0; i < LKI_COUNT(checks); i++)
        if (checks[i].value < checks[i].least || checks[i].value > checks[i].most)
            return lki_fail(LK_EINVAL, "lk_model_fit: %s is %lld; it must be at least %lld", checks[i].name,
                            (long long)checks[i].value, (long long)checks[i].least);
    if (!(a->validation_split >= 0 && a->validation_split < 1))
        return lki_fail(LK_EINVAL, "lk_model_fit: validation_split is %g; it must be at least 0 and below 1", a->validation_split);
    int verbose;
    return lki_verbose_of(a->verbose, &verbose);
}

static lk_status choices_fit(const lk_fit_args *a)
{
    const bool validation = a->validation_data || a->validation_x;
    if (a->class_weight.count && a->sample_weight)
        return lki_fail(LK_EINVAL, "lk_model_fit: class_weight and sample_weight together; give one");
    if (a->data && a->class_weight.count)
        return lki_fail(
            LK_EINVAL,
            "lk_model_fit: class_weight goes with arrays; a dataset brings its weights as the last tensor of its elements");
    if (a->data && a->validation_split > 0)
        return lki_fail(LK_EINVAL, "lk_model_fit: validation_split cuts arrays; for a dataset give validation_data");
    if (!a->validation_x && (a->validation_y || a->validation_sample_weight))
        return lki_fail(LK_EINVAL, "lk_model_fit: %s is given without validation_x",
                        a->validation_y ? "validation_y" : "validation_sample_weight");
    for (int i = 0; i < a->class_weight.count; i++)
        if (!(a->class_weight.item[i] >= 0 && isfinite(a->class_weight.item[i])))
            return lki_fail(LK_EINVAL, "lk_model_fit: the weight of class %d is %g; it must be a number of at least 0", i,
                            a->class_weight.item[i]);
    if (validation && a->validation_split > 0)
        return lki_fail(LK_EINVAL, "lk_model_fit: validation_data and validation_split together; give one");
    for (int i = 0; i < a->callbacks.count; i++)
        if (!lki_is_kind(a->callbacks.item[i], LKI_KIND_CALLBACK))
            return lk_failed() ? lk_error_code()
                               : lki_fail(LK_EINVAL, "lk_model_fit: callback %d is %s", i,
                                          a->callbacks.item[i] ? "something else" : "NULL");
    return LK_OK;
}

/* ---- getting ready ---- */

static lk_variable *class_weight_variable(const lki_engine *e, lk_tensor *t)
{
    lk_variable *v = NULL;
    if (e->strategy->kind == LKI_STRATEGY_DEFAULT) v = lk_variable_of(t, .name = "class_weight", .trainable = LK_OFF);
    else
        LK_SCOPE(e->strategy)
            v = lk_variable_of(t, .name = "class_weight", .trainable = LK_OFF);
    return lki_retain(v);
}

static lk_tensor *floats(const lk_numbers *n)
{
    float *value LKI_RELEASED = lki_alloc_array(n->count, sizeof *value);
    for (int i = 0; value && i < n->count; i++)
        value[i] = (float)n->item[i];
    return value ? lk_tensor_from(LK_SHAPE(n->count), LK_F32, value) : &lki_poison;
}

static lk_status enough_classes(lki_engine *e, const lk_numbers *w)
{
    int64_t classes = e->model->shaped ? lki_model_classes(e->model) : 0;
    if (classes <= 1 || w->count >= classes) return LK_OK;
    return lki_fail(LK_EINVAL, "lk_model_fit: class_weight has %d numbers; model \"%s\" tells %lld classes apart", w->count,
                    e->model->name, (long long)classes);
}

/* Class weights hold for one fit only: the next fit traces its step again without them. */
static void forget_class_weights(lki_engine *e)
{
    if (!e->class_weight) return;
    lki_drop(e->step[LKI_FIT_TRAIN].function);
    lki_drop(e->class_weight);
    e->step[LKI_FIT_TRAIN].function = NULL;
    e->class_weight = NULL;
}

static lk_status set_class_weights(lki_engine *e, const lk_numbers *w)
{
    if (!w->count) return LK_OK;
    LKI_TRY(enough_classes(e, w));
    lki_drop(e->step[LKI_FIT_TRAIN].function);
    e->step[LKI_FIT_TRAIN].function = NULL;
    LK_STEP
        e->class_weight = class_weight_variable(e, floats(w));
    return e->class_weight ? LK_OK : lk_failed() ? lk_error_code() : LK_ENOMEM;
}

static lk_status prepare_data(fit *f)
{
    const lk_fit_args *a = f->args;
    const bool         arrays = !a->data;
    lki_data_request   train = {.call = "lk_model_fit",
                                .dataset = a->data,
                                .x = a->x,
                                .y = a->y,
                                .weight = a->sample_weight,
                                .batch_size = lki_integer_or(a->batch_size, LKI_BATCH_SIZE),
                                .step = LKI_FIT_TRAIN,
                                .limit = a->steps_per_epoch,
                                .limit_name = "steps_per_epoch",
                                .shuffle = arrays && a->shuffle != LK_OFF,
                                .last = 1 - a->validation_split};
    lki_data_request   check = {.call = "lk_model_fit (validation)",
                                .dataset = a->validation_data,
                                .x = a->validation_x,
                                .y = a->validation_y,
                                .weight = a->validation_sample_weight,
                                .batch_size = a->validation_batch_size ? a->validation_batch_size
                                                                       : lki_integer_or(a->batch_size, LKI_BATCH_SIZE),
                                .step = LKI_FIT_TEST,
                                .limit = a->validation_steps,
                                .limit_name = "validation_steps",
                                .last = 1};
    if (a->validation_split > 0) {
        check.x = a->x, check.y = a->y, check.weight = a->sample_weight;
        check.first = 1 - a->validation_split;
    }
    if (check.dataset || check.x) LKI_TRY(lki_fit_data_of(f->run.engine, &check, &f->run.validation));
    LKI_TRY(lki_fit_data_of(f->run.engine, &train, &f->run.train));
    return set_class_weights(f->run.engine, &a->class_weight);
}

static lk_status prepare_callbacks(fit *f, lk_callback **item)
{
    const lk_fit_args *a = f->args;
    LKI_TRY(lki_verbose_of(a->verbose, &f->run.now.verbose));
    f->run.callbacks.item = item;
    if (f->run.now.verbose && !(item[f->run.callbacks.count++] = lki_callback_new(&lki_progress_kind))) return LK_ENOMEM;
    for (int i = 0; i < a->callbacks.count; i++)
        item[f->run.callbacks.count++] = a->callbacks.item[i];
    return LK_OK;
}

static void warn_of_nothing_to_train(const lki_engine *e)
{
    if (lki_model_built(e->model) && !lk_model_trainable_variables(e->model).count)
        lki_warn("model \"%s\" has no weights that are trained", e->model->name);
}

static void run(fit *f)
{
    lk_callback **item LKI_RELEASED = lki_alloc_array(f->args->callbacks.count + 1, sizeof *item);
    f->run.now.event.model = f->run.engine->model;
    f->run.now.event.epochs = (int)lki_integer_or(f->args->epochs, 1);
    __atomic_store_n(&f->run.engine->model->stop, LKI_STOP_NOT, __ATOMIC_RELEASE);
    if (item && prepare_data(f) == LK_OK && prepare_callbacks(f, item) == LK_OK) {
        LK_STEP
            warn_of_nothing_to_train(f->run.engine);
        train(f);
    }
    forget_class_weights(f->run.engine);
    lki_resume_free(&f->run.resume);
    lki_drop(f->run.iterator);
    lki_logs_free(&f->logs);
}

lk_history *lk_model_fit_kw(lk_fit_args a)
{
    LKI_NEAREST;
    LKI_SCOPE_ERRORS;
    if (numbers_fit(&a) != LK_OK || choices_fit(&a) != LK_OK) return NULL;
    lki_engine *e = lki_engine_of(a.model, (lki_engine_request){.call = "lk_model_fit", .needs_loss = true, .trains = true});
    if (!e) return NULL;
    fit                f = {.args = &a, .run = {.engine = e, .history = lki_history_new(), .now.pool = lki_pool_current()}};
    const lki_own_seed seed = lki_seed_own();
    if (f.run.history)
        LK_POOL
            run(&f);
    lki_seed_set_own(seed);
    lki_engine_done(e);
    return f.run.history;
}
