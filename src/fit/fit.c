/* fit: epochs of steps, validation between them, callbacks around all of it.
 *
 *     BEGIN --train_begin--> EPOCH --steps, validation, epoch_end--> EPOCH ... --train_end--> END
 *                              \___ stopped by a callback, a signal, the data, an error ___/
 *
 * Whatever ends training, train_end is told, the history is given, and the iterator of an epoch that stopped early is let go. */
#include "core/log.h"
#include "core/memory.h"
#include "fit/engine.h"
#include "fit/history.h"
#include "model/loss.h"
#include "op/op.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct fit {
    const lk_fit_args *args;
    lki_engine        *engine;
    lki_fit_data       train, validation; /* validation.dataset NULL: none */
    lki_callback_list  callbacks;
    lki_happening      now;
    lki_logs           logs; /* of the epoch that ends */
    lk_history        *history;
    lk_iterator       *iterator; /* a reference; NULL: the next epoch begins a new one */
    int64_t            done;     /* steps of the epoch that were done before, by the run that is restored */
    bool               goes_on;  /* the iterator is that of the epoch before */
    bool               ended;    /* there is no more data */
    int64_t            nan_step; /* the first whose loss was no finite number, from 1 */
    double             nan;
    bool               told_nan;
    double             began;
} fit;

/* ---- errors say where they happened ---- */

/* Of labels that are out of range, which row it is: of the arrays, or in the order of this epoch. */
static lk_status where(fit *f, const char *what, lk_tuple batch)
{
    lki_error_record cause;
    if (batch.count) lki_explain_labels(f->engine, batch, f->args->y);
    lki_error_take(&cause);
    return lki_fail(cause.code, "lk_model_fit: epoch %d, %s %lld: %s", f->now.event.epoch + 1, what,
                    (long long)f->now.event.batch + 1, cause.text);
}

/* ---- one step ---- */

static lk_status begin_anew(fit *f);

/* Data that ended with the epoch before begins anew; data that ends within one does not. */
static lk_status next_batch(fit *f, lk_tuple *batch, bool *got)
{
    double before = lki_seconds();
    *got = lk_next(f->iterator, batch) != 0;
    if (!*got && !lk_failed() && f->goes_on && f->now.event.batch == 0) {
        LKI_TRY(begin_anew(f));
        *got = lk_next(f->iterator, batch) != 0;
    }
    f->now.times.input += lki_seconds() - before;
    return lk_failed() ? where(f, "the input of step", (lk_tuple){0}) : LK_OK;
}

static void note_nan(fit *f, double loss)
{
    if (isfinite(loss) || f->nan_step) return;
    f->nan_step = f->now.event.batch + 1;
    f->nan = loss;
}

static int traces_of(const lki_engine *e)
{
    const lk_function *f = e->step[LKI_FIT_TRAIN].function;
    return f ? lk_function_inspect(f).traces : 0;
}

static lk_status train_on(fit *f, lk_tuple batch)
{
    double      loss[LKI_MOST_INPUTS + 1], before = lki_seconds();
    lki_engine *e = f->engine;
    int         traces = traces_of(e);
    if (lki_engine_step(e, LKI_FIT_TRAIN, batch, loss, NULL) != LK_OK) return where(f, "step", batch);
    double  took = lki_seconds() - before;
    int64_t rows = lki_batch_rows(batch);
    bool    traced = traces_of(e) != traces;
    *(traced ? &f->now.times.compile : &f->now.times.step) += took;
    lki_count_losses(e, loss, rows);
    note_nan(f, loss[0]);
    f->now.times.rows += rows;
    f->now.times.steps++;
    f->now.event.step++;
    f->now.rows = (int64_t)e->rows;
    return LK_OK;
}

static bool stopping(const fit *f)
{
    return __atomic_load_n(&f->engine->model->stop, __ATOMIC_ACQUIRE) ||
           (f->args->stop_after_steps > 0 && f->now.event.step >= f->args->stop_after_steps);
}

/* Once, where no callback ends training because of it. */
static void tell_nan(fit *f)
{
    if (!f->nan_step || f->told_nan || stopping(f)) return;
    f->told_nan = true;
    lki_warn("the loss is %s from epoch %d, step %lld on; lk_terminate_on_nan() would end training there",
             isnan(f->nan) ? "NaN" : "infinite", f->now.event.epoch + 1, (long long)f->nan_step);
}

/* By a signal or a caller, so that it may go on later; not by a callback that says there is no more to gain. */
static bool interrupted(const fit *f)
{
    return stopping(f) && __atomic_load_n(&f->engine->model->stop, __ATOMIC_ACQUIRE) != LKI_STOP_DONE;
}

static lk_status tell(fit *f, lki_hook hook)
{
    double    before = lki_seconds();
    lk_status status = lki_callbacks_tell(&f->callbacks, hook, &f->now);
    f->now.times.callbacks += lki_seconds() - before;
    f->now.times.total = lki_seconds() - f->began;
    return status;
}

/* ---- one epoch ---- */

/* steps_per_execution steps, or fewer where the data or the epoch ends. */
static lk_status execute(fit *f, int64_t limit)
{
    for (int k = 0; k < f->engine->compiled->steps_per_execution && f->now.event.batch < limit; k++) {
        lk_tuple batch;
        bool     got;
        LKI_TRY(next_batch(f, &batch, &got));
        if (!got) {
            f->ended = true;
            return LK_OK;
        }
        if (f->done > 0) f->done--; /* restored from within this epoch: these rows were seen */
        else {
            if (k == 0) LKI_TRY(tell(f, LKI_HOOK_train_batch_begin));
            LKI_TRY(train_on(f, batch));
        }
        f->now.event.batch++;
        if (stopping(f)) break;
    }
    return LK_OK;
}

static lk_status batches(fit *f)
{
    int64_t limit = f->args->steps_per_epoch > 0 ? f->args->steps_per_epoch : INT64_MAX;
    f->ended = false;
    for (f->now.event.batch = 0; f->now.event.batch < limit && !f->ended && !stopping(f);) {
        int64_t before = f->now.event.step;
        LKI_TRY(execute(f, limit));
        if (f->now.event.step == before) continue; /* no data, or steps that were done before */
        f->now.event.logs = lki_count_logs(f->engine, false);
        f->now.event.batch--; /* the last one of the execution */
        lk_status status = tell(f, LKI_HOOK_train_batch_end);
        f->now.event.batch++;
        LKI_TRY(status);
        tell_nan(f);
    }
    return LK_OK;
}

/* In a pool of its own, so that the one before goes with this line. */
static lk_status begin_anew(fit *f)
{
    lki_drop(f->iterator);
    f->iterator = NULL;
    LK_POOL
        f->iterator = lki_retain(lk_iterator_of(f->train.dataset));
    f->goes_on = false;
    return f->iterator ? LK_OK : lk_failed() ? lk_error_code() : LK_ENOMEM;
}

static lk_status begin_data(fit *f)
{
    f->goes_on = f->iterator && f->args->steps_per_epoch > 0;
    return f->goes_on ? LK_OK : begin_anew(f);
}

/* A run that goes on where another one stopped: shuffles go on with the orders that are due. */
static lk_status skip_epochs(fit *f, int count)
{
    for (int i = 0; i < count && !f->args->steps_per_epoch; i++)
        LKI_TRY(begin_anew(f));
    return LK_OK;
}

/* Data that ends before the steps asked for ends training. */
static void tell_ran_out(fit *f)
{
    if (!f->ended || f->args->steps_per_epoch <= 0) return;
    lki_warn("the input ran out of data after %lld of %lld steps of epoch %d; training stops. lk_dataset_repeat() makes it last",
             (long long)f->now.event.batch, (long long)f->args->steps_per_epoch, f->now.event.epoch + 1);
    lk_model_stop_training(f->engine->model);
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
    const int every = f->args->validation_freq > 0 ? f->args->validation_freq : 1;
    if (!f->validation.dataset || (f->now.event.epoch + 1) % every || stopping(f)) return LK_OK;
    double        before = lki_seconds();
    lki_happening within = f->now;
    LKI_TRY(lki_evaluate(f->engine, &f->validation, f->args->validation_steps, &f->callbacks, &within));
    f->now.times.validation += lki_seconds() - before;
    return keep_logs(f, &f->engine->evaluated, "val_");
}

static lk_status end_epoch(fit *f)
{
    f->now.stopped = interrupted(f);
    f->now.event.logs = f->logs.logs;
    f->now.more = &f->logs;
    f->now.times.total = lki_seconds() - f->began;
    lk_status status = tell(f, LKI_HOOK_epoch_end);
    f->now.more = NULL;
    LKI_TRY(status);
    f->history->times = f->now.times;
    return lki_history_add(f->history, f->now.event.epoch, &f->logs.logs);
}

static lk_status epoch(fit *f)
{
    LKI_TRY(lki_count_reset(f->engine));
    f->now.rows = 0;
    f->now.event.logs = (lk_logs){0};
    f->now.event.batch = 0;
    f->now.event.batches = f->args->steps_per_epoch > 0 ? f->args->steps_per_epoch : f->train.steps;
    LKI_TRY(tell(f, LKI_HOOK_epoch_begin));
    LKI_TRY(begin_data(f));
    LKI_TRY(batches(f));
    if (f->now.event.batch == 0 && f->ended)
        return lki_fail(LK_EINVAL, "lk_model_fit: epoch %d: the dataset is empty", f->now.event.epoch + 1);
    tell_ran_out(f);
    if (f->ended) f->train.steps = f->now.event.batches = f->now.event.batch; /* now it is known */
    lki_logs_clear(&f->logs);
    lk_logs seen = lki_count_logs(f->engine, false);
    LKI_TRY(keep_logs(f, &seen, ""));
    LKI_TRY(validate(f));
    return end_epoch(f);
}

/* ---- all of them ---- */

static lk_status epochs(fit *f)
{
    int first = f->args->initial_epoch;
    f->now.epoch = &first;
    f->now.skip = &f->done;
    LKI_TRY(tell(f, LKI_HOOK_train_begin));
    f->now.epoch = NULL;
    f->now.skip = NULL;
    LKI_TRY(skip_epochs(f, first - f->args->initial_epoch));
    for (f->now.event.epoch = first; f->now.event.epoch < f->now.event.epochs && !stopping(f); f->now.event.epoch++)
        LKI_TRY(epoch(f));
    return LK_OK;
}

/* train_end comes whatever happened; an error of training stays the first cause. */
static void train(fit *f)
{
    f->began = lki_seconds();
    f->now.failed = epochs(f) != LK_OK || lk_failed();
    f->now.stopped = interrupted(f);
    lki_callbacks_end(&f->callbacks, LKI_HOOK_train_end, &f->now, f->now.failed ? lk_error_code() : LK_OK);
    if (!lk_failed()) lk_optimizer_finalize(f->engine->compiled->optimizer); /* averages, if it keeps any, replace the weights */
    f->now.times.total = lki_seconds() - f->began;
    f->history->times = f->now.times;
}

/* ---- what is asked for ---- */

static lk_status numbers_fit(const lk_fit_args *a)
{
    const struct {
        const char *name;
        double      value, least;
    } checks[] = {{"epochs", a->epochs, 0},
                  {"initial_epoch", a->initial_epoch, 0},
                  {"steps_per_epoch", (double)a->steps_per_epoch, 0},
                  {"stop_after_steps", (double)a->stop_after_steps, 0},
                  {"validation_steps", (double)a->validation_steps, 0},
                  {"validation_freq", a->validation_freq, 0},
                  {"batch_size", (double)a->batch_size, 0},
                  {"validation_batch_size", (double)a->validation_batch_size, 0}};
    for (int i = 0; i < LKI_COUNT(checks); i++)
        if (checks[i].value < checks[i].least)
            return lki_fail(LK_EINVAL, "lk_model_fit: %s is %g; it must be at least 1", checks[i].name, checks[i].value);
    if (!(a->validation_split >= 0 && a->validation_split < 1))
        return lki_fail(LK_EINVAL, "lk_model_fit: validation_split is %g; it must be at least 0 and below 1", a->validation_split);
    if (a->verbose < LK_SILENT || a->verbose > 2)
        return lki_fail(LK_EINVAL, "lk_model_fit: verbose is %d; it must be LK_SILENT, 1 or 2", a->verbose);
    return LK_OK;
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
    float *value = lki_alloc((size_t)n->count * sizeof *value);
    for (int i = 0; value && i < n->count; i++)
        value[i] = (float)n->item[i];
    lk_tensor *t = value ? lk_tensor_from(LK_SHAPE(n->count), LK_F32, value) : &lki_poison;
    lki_release(value);
    return t;
}

static lk_status enough_classes(lki_engine *e, const lk_numbers *w)
{
    int64_t classes = e->model->shaped ? lki_model_classes(e->model) : 0;
    if (classes <= 1 || w->count >= classes) return LK_OK;
    return lki_fail(LK_EINVAL, "lk_model_fit: class_weight has %d numbers; model \"%s\" tells %lld classes apart", w->count,
                    e->model->name, (long long)classes);
}

/* They are of this fit only: the step is traced with them, and without them again. */
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
                                .batch_size = a->batch_size,
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
                                .batch_size = a->validation_batch_size ? a->validation_batch_size : a->batch_size,
                                .step = LKI_FIT_TEST,
                                .limit = a->validation_steps,
                                .limit_name = "validation_steps",
                                .last = 1};
    if (a->validation_split > 0) {
        check.x = a->x, check.y = a->y, check.weight = a->sample_weight;
        check.first = 1 - a->validation_split;
    }
    if (check.dataset || check.x) LKI_TRY(lki_fit_data_of(f->engine, &check, &f->validation));
    LKI_TRY(lki_fit_data_of(f->engine, &train, &f->train));
    return set_class_weights(f->engine, &a->class_weight);
}

static lk_status prepare_callbacks(fit *f, lk_callback **item)
{
    const lk_fit_args *a = f->args;
    f->now.verbose = a->verbose == LK_SILENT ? 0 : a->verbose ? a->verbose : 1;
    f->callbacks.item = item;
    if (f->now.verbose && !(item[f->callbacks.count++] = lki_callback_new(&lki_progress_kind))) return LK_ENOMEM;
    for (int i = 0; i < a->callbacks.count; i++)
        item[f->callbacks.count++] = a->callbacks.item[i];
    return LK_OK;
}

static void warn_of_nothing_to_train(const lki_engine *e)
{
    if (lki_model_built(e->model) && !lk_model_trainable_variables(e->model).count)
        lki_warn("model \"%s\" has no weights that are trained", e->model->name);
}

static void run(fit *f)
{
    lk_callback **item = lki_alloc((size_t)(f->args->callbacks.count + 1) * sizeof *item);
    f->now.event.model = f->engine->model;
    f->now.event.epochs = f->args->epochs ? f->args->epochs : 1;
    f->now.initial_epoch = f->args->initial_epoch;
    __atomic_store_n(&f->engine->model->stop, LKI_STOP_NOT, __ATOMIC_RELEASE);
    if (item && prepare_data(f) == LK_OK && prepare_callbacks(f, item) == LK_OK) {
        LK_STEP
            warn_of_nothing_to_train(f->engine);
        train(f);
    }
    forget_class_weights(f->engine);
    lki_drop(f->iterator);
    lki_logs_free(&f->logs);
    lki_release(item);
}

lk_history *lk_model_fit_kw(lk_fit_args a)
{
    if (lk_failed() && !a.model) return NULL;
    if (numbers_fit(&a) != LK_OK || choices_fit(&a) != LK_OK) return NULL;
    lki_engine *e = lki_engine_of(a.model, (lki_engine_request){.call = "lk_model_fit", .needs_loss = true});
    if (!e) return NULL;
    fit f = {.args = &a, .engine = e, .history = lki_history_new(), .now.pool = lki_pool_current()};
    if (f.history)
        LK_POOL
            run(&f);
    lki_engine_done(e);
    return f.history;
}
