/* compile: checks the optimiser, losses and metrics against the model. */
#include "core/list.h"
#include "core/memory.h"
#include "core/rounding.h"
#include "fit/engine.h"
#include "model/metric.h"
#include <math.h>

/* ---- lists ---- */

lk_metrics lk_metrics_of(int count, lk_metric *const *one_based)
{
    void *item = lki_list_of("lk_metrics_of", count, one_based);
    return (lk_metrics){item ? count : 0, item};
}

lk_losses lk_losses_of(int count, lk_loss *const *one_based)
{
    void *item = lki_list_of("lk_losses_of", count, one_based);
    return (lk_losses){item ? count : 0, item};
}

typedef struct numbers {
    lki_object object;
    double     item[];
} numbers;

lk_numbers lk_numbers_of(int count, const double *one_based)
{
    if (!lki_list_given("lk_numbers_of", count, one_based)) return (lk_numbers){0};
    numbers *n = lki_object_new(sizeof *n + (size_t)(count + 1) * sizeof(double), LKI_KIND_OTHER, LKI_LIVES_IN_POOL, NULL);
    for (int i = 0; n && i < count; i++)
        n->item[i] = one_based[i + 1];
    return (lk_numbers){n ? count : 0, n ? n->item : NULL};
}

/* ---- checks ---- */

static lk_status given(const char *what, const void *object, lki_kind kind)
{
    if (lki_is_kind(object, kind)) return LK_OK;
    return lki_fail(LK_EINVAL, "lk_model_compile: %s is %s", what, object ? "something else" : "NULL");
}

/* After an error, an option that is NULL may be an object that could not be made, rather than one the caller left out. */
static lk_status parts_made(const lk_compile_args *a)
{
    const char *type = "lk_compile_args";
    if (!a->optimizer && lki_option_written(a, type, "optimizer")) return given("the optimiser", NULL, LKI_KIND_OPTIMIZER);
    return !a->loss && lki_option_written(a, type, "loss") ? given("the loss", NULL, LKI_KIND_LOSS) : LK_OK;
}

static lk_status losses_fit(const lk_compile_args *a)
{
    const int outputs = a->model->outputs;
    if (a->loss && a->losses.count)
        return lki_fail(LK_EINVAL, "lk_model_compile: give loss, or losses for several outputs, not both");
    if (a->loss) LKI_TRY(given("the loss", a->loss, LKI_KIND_LOSS));
    if (a->losses.count && a->losses.count != outputs)
        return lki_fail(LK_EINVAL, "lk_model_compile: %d losses for the %d output%s of model \"%s\"; NULL says an output has none",
                        a->losses.count, outputs, outputs == 1 ? "" : "s", a->model->name);
    for (int i = 0; i < a->losses.count; i++)
        if (a->losses.item[i]) LKI_TRY(given("a loss", a->losses.item[i], LKI_KIND_LOSS));
    if (a->loss_weights.count && a->loss_weights.count != outputs)
        return lki_fail(LK_EINVAL, "lk_model_compile: %d loss_weights for the %d output%s of model \"%s\"", a->loss_weights.count,
                        outputs, outputs == 1 ? "" : "s", a->model->name);
    return LK_OK;
}

static lk_status metrics_fit(const lk_compile_args *a, const lk_metrics *list)
{
    for (int i = 0; i < list->count; i++) {
        LKI_TRY(given("a metric", list->item[i], LKI_KIND_METRIC));
        if (!lki_metric_takes_labels(list->item[i]))
            return lki_fail(LK_EINVAL,
                            "lk_model_compile: metric \"%s\" is of values, not of labels and predictions; count them in a callback "
                            "or a loop of your own",
                            lk_metric_name(list->item[i]));
        int output = lki_metric_output(list->item[i]);
        if (output < 0 || output >= a->model->outputs)
            return lki_fail(LK_EINVAL, "lk_model_compile: metric \"%s\" is for output %d; model \"%s\" has %d",
                            lk_metric_name(list->item[i]), output, a->model->name, a->model->outputs);
    }
    return LK_OK;
}

static lk_status arguments_fit(const lk_compile_args *a)
{
    if (!lki_is_model("lk_model_compile", a->model)) return LK_EINVAL;
    if (a->optimizer) LKI_TRY(given("the optimiser", a->optimizer, LKI_KIND_OPTIMIZER));
    const int64_t steps = lki_integer_or(a->steps_per_execution, 1);
    if (steps < 1 || steps > INT32_MAX)
        return lki_fail(LK_EINVAL, "lk_model_compile: steps_per_execution is %lld; it must be at least 1", (long long)steps);
    if ((unsigned)a->denominator > LK_EXACT)
        return lki_fail(LK_EINVAL, "lk_model_compile: there is no denominator %d; it must be LK_EXACT or LK_PER_REPLICA",
                        (int)a->denominator);
    if ((unsigned)a->split > LK_SPLIT_EVEN) return lki_fail(LK_EINVAL, "lk_model_compile: there is no split %d", (int)a->split);
    for (int i = 0; i < a->loss_weights.count; i++)
        if (!isfinite(a->loss_weights.item[i]))
            return lki_fail(LK_EINVAL, "lk_model_compile: loss weight %d is %g; it must be a finite number", i,
                            a->loss_weights.item[i]);
    LKI_TRY(losses_fit(a));
    LKI_TRY(metrics_fit(a, &a->metrics));
    return metrics_fit(a, &a->weighted_metrics);
}

/* ---- compiling ---- */

static lk_status compile_with(const lk_compile_args *a, lk_optimizer *o, lk_loss **loss, lk_metric **metric, bool *weighted)
{
    int plain = a->metrics.count, all = plain + a->weighted_metrics.count;
    for (int i = 0; i < a->model->outputs; i++)
        loss[i] = a->losses.count ? a->losses.item[i] : a->loss;
    for (int i = 0; i < all; i++) {
        weighted[i] = i >= plain;
        metric[i] = i < plain ? a->metrics.item[i] : a->weighted_metrics.item[i - plain];
        LKI_TRY(lki_metric_adopt(metric[i], a->model->strategy));
    }
    return lki_model_compile(a->model, &(lki_compile_request){.optimizer = o,
                                                              .loss = loss,
                                                              .loss_weight = a->loss_weights.count ? a->loss_weights.item : NULL,
                                                              .metrics = all,
                                                              .metric = metric,
                                                              .weighted = weighted,
                                                              .steps_per_execution = (int)lki_integer(a->steps_per_execution),
                                                              .run_eagerly = a->run_eagerly == LK_ON,
                                                              .denominator = a->denominator,
                                                              .split = a->split});
}

lk_status lk_model_compile_kw(lk_compile_args a)
{
    LKI_NEAREST;
    const bool failed = lk_failed();
    LKI_SCOPE_ERRORS;
    if (failed) LKI_TRY(parts_made(&a));
    LKI_TRY(arguments_fit(&a));
    int           metrics = a.metrics.count + a.weighted_metrics.count;
    lk_optimizer *o = a.optimizer ? a.optimizer : lk_rmsprop();
    lk_loss     **loss LKI_RELEASED = lki_alloc_array(a.model->outputs, sizeof *loss);
    lk_metric   **metric LKI_RELEASED = lki_alloc_array(metrics + 1, sizeof *metric);
    bool         *weighted LKI_RELEASED = lki_alloc_array(metrics + 1, sizeof *weighted);
    return o && loss && metric && weighted ? compile_with(&a, o, loss, metric, weighted)
           : lk_failed()                   ? lk_error_code()
                                           : LK_ENOMEM;
}

lk_optimizer *lk_model_optimizer(lk_model *m)
{
    return lki_is_model("lk_model_optimizer", m) && m->compiled ? m->compiled->optimizer : NULL;
}

lk_loss *lk_model_loss(lk_model *m, int output)
{
    if (!lki_is_model("lk_model_loss", m) || !m->compiled || output < 0 || output >= m->compiled->outputs) return NULL;
    return m->compiled->loss[output];
}

void lk_model_stop_training(lk_model *m)
{
    if (m)
        __atomic_store_n(&m->stop, LKI_STOP_ASKED,
                         __ATOMIC_RELEASE); /* no check that could print, because a signal handler may call this */
}

void lki_model_done_training(lk_model *m)
{
    int not_yet = LKI_STOP_NOT;
    __atomic_compare_exchange_n(&m->stop, &not_yet, LKI_STOP_DONE, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED);
}
