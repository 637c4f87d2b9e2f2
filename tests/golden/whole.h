/* models/: whole models that Keras saved compiled, with their weights, in models/GROUP/CASE/: predictions before and after
 * training, the loss of each step, and the weights at the end. With one and with three replicas. */
#ifndef LK_TESTS_GOLDEN_WHOLE_H
#define LK_TESTS_GOLDEN_WHOLE_H

#include "golden.h"
#include "model/model.h"
#include <dirent.h>
#include <lockstep/fit.h>
#include <lockstep/keras.h>
#include <lockstep/strategy.h>
#include <unistd.h>

typedef struct whole_model {
    test_case *c;
    char       folder[MAX_PATH];
    lki_zip    results, weights;
    lk_model  *model;
    int        steps, inputs, count; /* of what a step takes: inputs, targets, weights of rows */
    lk_tensor *data[16];             /* their first axis is the step */
} whole_model;

static const char *file_of(const whole_model *w, const char *name)
{
    static _Thread_local char path[MAX_PATH + 64];
    snprintf(path, sizeof path, "%s/%s", w->folder, name);
    return path;
}

/* Entry `step` of the first axis. */
static lk_tensor *at_step(lk_tensor *t, int step)
{
    lk_shape shape = lk_tensor_shape(t);
    int64_t  begin[LK_MAX_RANK] = {step}, size[LK_MAX_RANK] = {1};
    for (int i = 1; i < shape.rank; i++)
        size[i] = -1;
    return lk_squeeze(lk_slice(t, lk_axes_from(shape.rank, begin), lk_axes_from(shape.rank, size)), LK_AXES(0));
}

/* The last batch may be short: "rows" says how many rows each has. */
static lk_tensor *first_rows(const whole_model *w, lk_tensor *t, int step)
{
    json_t  *rows = json_array_get(json_object_get(w->c->json, "rows"), (size_t)step);
    lk_shape shape = lk_tensor_shape(t);
    int64_t  begin[LK_MAX_RANK] = {0}, size[LK_MAX_RANK] = {json_integer_value(rows)};
    for (int i = 1; i < shape.rank; i++)
        size[i] = -1;
    return rows ? lk_slice(t, lk_axes_from(shape.rank, begin), lk_axes_from(shape.rank, size)) : t;
}

static lk_tuple batch_at(const whole_model *w, int step, int count)
{
    lk_tensor *item[16];
    for (int i = 0; i < count; i++)
        item[i] = first_rows(w, at_step(w->data[i], step), step);
    return tuple_of(count, item);
}

static void within_bound(test_case *c, const char *what, const lk_tensor *ours, const lk_tensor *theirs, double bound)
{
    if (!ours || !theirs || !sound(c, what)) GIVE_UP(c, "%s: no value", what);
    if (lk_size(ours) != lk_size(theirs))
        GIVE_UP(c, "%s: %lld elements: should be %lld", what, (long long)lk_size(ours), (long long)lk_size(theirs));
    for (int64_t i = 0; i < lk_size(theirs); i++)
        measure(c, what, fabs(at(ours, i) - at(theirs, i)), golden.rounded ? ROUNDED * (1 + largest(theirs)) : bound);
}

/* ---- results: before_output0, after_output1, ... ---- */

static void compare_outputs(whole_model *w, const char *when)
{
    json_t    *results = json_object_get(w->c->json, "results"), *one;
    size_t     i;
    lk_tuple   in = batch_at(w, 0, w->inputs);
    lk_tensor *y = lk_model_call(w->model, in.count == 1 ? in.item[0] : lk_nest(in));
    if (!sound(w->c, "predictions")) return;
    json_array_foreach(results, i, one)
    {
        const char *name = json_string_value(json_object_get(one, "array"));
        int         output;
        char        pattern[64];
        snprintf(pattern, sizeof pattern, "%s_output%%d", when);
        if (!name || sscanf(name, pattern, &output) != 1) continue;
        const lk_tuple all = w->model->outputs > 1 ? lk_nested(y) : LK_TUPLE(y);
        if (output >= all.count) GIVE_UP(w->c, "%s: there are %d outputs", name, all.count);
        within_bound(w->c, name, all.item[output], tensor_of(w->c, &w->results, name),
                     json_number_value(json_object_get(one, "bound")));
    }
}

static void train_whole(whole_model *w)
{
    json_t *losses = json_object_get(w->c->json, "losses"), *bounds = json_object_get(w->c->json, "loss_bounds");
    for (int step = 0; step < w->steps && !w->c->why[0]; step++)
        LK_STEP {
            const lk_logs logs = lk_model_train_on_batch(w->model, batch_at(w, step, w->count));
            const double  right = json_number_value(json_array_get(losses, (size_t)step));
            if (!sound(w->c, "training")) break;
            char what[32];
            snprintf(what, sizeof what, "the loss of step %d", step);
            measure(w->c, what, fabs(lk_logs_get(&logs, "loss") - right),
                    golden.rounded ? ROUNDED * (1 + fabs(right)) : json_number_value(json_array_get(bounds, (size_t)step)));
        }
}

static void compare_final(whole_model *w)
{
    json_t            *weights = json_object_get(w->c->json, "weights");
    const lk_variables v = lk_model_weights(w->model);
    if (v.count != (int)json_array_size(weights)) GIVE_UP(w->c, "%d weights: should be %d", v.count, (int)json_array_size(weights));
    for (int i = 0; i < v.count && !golden.rounded; i++) {
        json_t     *one = json_array_get(weights, (size_t)i);
        const char *name = json_string_value(json_object_get(one, "array"));
        within_bound(w->c, json_string_value(json_object_get(one, "name")), lk_read(v.item[i]), tensor_of(w->c, &w->weights, name),
                     json_number_value(json_object_get(one, "bound")));
    }
}

/* ---- a case ---- */

static void read_data(whole_model *w)
{
    json_t     *data = json_object_get(w->c->json, "data"), *one;
    const char *key;
    json_object_foreach(data, key, one)
    {
        if (w->count == LKI_COUNT(w->data)) GIVE_UP(w->c, "too many arrays");
        w->data[w->count] = stored(w->c, key);
        if (!w->data[w->count++]) return;
    }
    w->inputs = w->model->inputs;
    if (w->count < w->inputs + w->model->outputs)
        miss(w->c, "%d arrays for %d inputs and %d outputs", w->count, w->inputs, w->model->outputs);
}

static void run_whole(whole_model *w)
{
    char path[MAX_PATH + 64];
    snprintf(path, sizeof path, "%s", file_of(w, "model.keras"));
    w->model = lk_model_load(path);
    if (!w->model || !sound(w->c, "reading the model")) return;
    if (!case_arrays(w->c, file_of(w, "data.npz"))) return;
    if (lki_zip_open(file_of(w, "results.npz"), &w->results) != LK_OK ||
        lki_zip_open(file_of(w, "final.npz"), &w->weights) != LK_OK) {
        sound(w->c, "arrays");
        return;
    }
    read_data(w);
    if (w->c->why[0]) return;
    w->steps = (int)json_integer_value(json_object_get(w->c->json, "steps"));
    compare_outputs(w, "before");
    train_whole(w);
    compare_final(w);
    compare_outputs(w, "after");
}

static void run_on(const char *group, const char *name, const char *folder, json_t *json, int replicas)
{
    test_case   c;
    char        full[300];
    whole_model w = {.c = &c};
    snprintf(full, sizeof full, "%s/%s%s", group, name, replicas > 1 ? " on 3" : "");
    if (!case_begin(&c, "models", full, json)) return;
    snprintf(w.folder, sizeof w.folder, "%s", folder);
    LK_POOL {
        if (replicas == 1) run_whole(&w);
        else
            LK_SCOPE(lk_mirrored_strategy(.cpu_devices = replicas))
                run_whole(&w);
    }
    if (w.results.path) lki_zip_close(&w.results);
    if (w.weights.path) lki_zip_close(&w.weights);
    case_end(&c);
}

static void run_group(const char *group)
{
    struct dirent **list = NULL;
    char            folder[MAX_PATH], path[MAX_PATH + 32], inside[64];
    snprintf(inside, sizeof inside, "models/%s", group);
    const int count = scandir(path_of(inside, "", ""), &list, NULL, alphasort);
    for (int i = 0; i < count; i++) {
        const char *name = list[i]->d_name;
        snprintf(folder, sizeof folder, "%s", path_of(inside, name, ""));
        snprintf(path, sizeof path, "%s/model.keras", folder);
        const bool is_saved = name[0] != '.' && access(path, F_OK) == 0;
        snprintf(path, sizeof path, "%s/case.json", folder);
        json_t *json = is_saved ? load_json(path) : NULL;
        for (int replicas = 1; json && replicas <= 3; replicas += 2)
            run_on(group, name, folder, json, replicas);
        json_decref(json);
        free(list[i]);
    }
    free(list);
}

/* ---- masks/loss: every reduction of two losses, with and without mask and weights, and the gradients ---- */

static void check_loss(test_case *c, json_t *one, const lki_zip *results)
{
    static const char *const REDUCTIONS[] = {[LK_REDUCTION_NONE] = "none",
                                             [LK_REDUCTION_SUM] = "sum",
                                             [LK_REDUCTION_SUM_OVER_BATCH_SIZE] = "sum_over_batch_size",
                                             [LK_REDUCTION_MEAN_WITH_SAMPLE_WEIGHT] = "mean_with_sample_weight"};
    const char              *name = json_string_value(json_object_get(one, "array")),
               *how = json_string_value(json_object_get(one, "reduction"));
    const char *weights = json_string_value(json_object_get(one, "weights"));
    const bool  sparse = !strcmp(json_string_value(json_object_get(one, "loss")), "SparseCategoricalCrossentropy");
    int         reduction = !strcmp(how, "mean") ? LK_REDUCTION_SUM_OVER_BATCH_SIZE : -1;
    char        gradient[200];
    for (int i = 0; i < LKI_COUNT(REDUCTIONS); i++)
        if (REDUCTIONS[i] && !strcmp(how, REDUCTIONS[i])) reduction = i;
    if (reduction < 0) GIVE_UP(c, "reduction %s is not known here", how);
    lk_variable *logits = lk_variable_of(stored(c, "logits"));
    lk_loss     *loss = sparse ? lk_sparse_categorical_crossentropy(.from_logits = true, .reduction = (lk_reduction)reduction)
                               : lk_mean_squared_error(.reduction = (lk_reduction)reduction);
    lk_tape     *tape = lk_tape_begin();
    lk_tensor   *y = lk_loss_call(loss, stored(c, sparse ? "classes" : "values"), lk_read(logits),
                                  .sample_weight = weights ? stored(c, weights) : NULL,
                                  .mask = json_is_true(json_object_get(one, "mask")) ? stored(c, "mask") : NULL);
    lk_tensor   *total = reduction == LK_REDUCTION_NONE ? lk_reduce_sum(y) : y;
    lk_grads    *g = lk_tape_gradient(tape, total, lk_variables_from(1, &logits));
    lk_tape_end(tape);
    snprintf(gradient, sizeof gradient, "d_%s", name);
    compare(c, name, y, tensor_of(c, results, name), 1e-6, false);
    compare(c, gradient, lk_grads_item(g, 0), tensor_of(c, results, gradient), 1e-7, false);
}

static void run_losses(void)
{
    char      folder[MAX_PATH];
    test_case c;
    lki_zip   results;
    snprintf(folder, sizeof folder, "%s", path_of("models/masks", "loss", ""));
    if (access(folder, F_OK) != 0 || !case_begin(&c, "models", "masks/loss", NULL)) return;
    json_t *json = load_json(path_of("models/masks/loss", "case", ".json")), *one;
    size_t  i;
    if (json && case_arrays(&c, path_of("models/masks/loss", "data", ".npz")) &&
        lki_zip_open(path_of("models/masks/loss", "results", ".npz"), &results) == LK_OK) {
        json_array_foreach(json_object_get(json, "losses"), i, one) LK_POOL check_loss(&c, one, &results);
        lki_zip_close(&results);
    }
    case_end(&c);
    json_decref(json);
}

static void run_wholes(void)
{
    run_group("masks");
    run_group("features");
    run_losses();
}

#endif
