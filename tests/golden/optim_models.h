/* models/optim/: a folder for each case, with case.json, the weights before (initial.npz) and after every step (after.npz), the
 * gradients of each step (data.npz), and the state after the last one (state.npz). Every array has its own bound. */
#ifndef LK_TESTS_GOLDEN_OPTIM_MODELS_H
#define LK_TESTS_GOLDEN_OPTIM_MODELS_H

#include "optim.h"
#include <dirent.h>

/* Optimisers of other libraries that differ from those of Keras, and schedules that Keras does not have. */
static bool is_foreign(const char *name)
{
    return !strcmp(name, "tf_models_lamb") || !strncmp(name, "schedule_polynomial_warmup", 26);
}

static const char *stored_as(json_t *list, size_t i)
{
    return json_string_value(json_object_get(json_array_get(list, i), "array"));
}

static double allowed(json_t *list, size_t i) { return json_number_value(json_object_get(json_array_get(list, i), "bound")); }

static void within(test_case *c, const char *what, lk_tensor *ours, lk_tensor *right, double bound)
{
    if (!sound(c, what)) return;
    if (lk_size(ours) != lk_size(right))
        GIVE_UP(c, "%s has %lld elements, not %lld", what, (long long)lk_size(ours), (long long)lk_size(right));
    double most = 0;
    for (int64_t i = 0; i < lk_size(ours); i++) {
        const double a = at(ours, i), b = at(right, i);
        if (!is_lost(c, what, a, b)) most = fmax(most, fabs(a - b));
    }
    measure(c, what, most, bound);
}

/* ---- making the optimiser ---- */

static lk_optimizer *make_inner(test_case *c, json_t *spec)
{
    const scope   outer = scope_begin(c, json_object_get(spec, "options"));
    lk_optimizer *o = make_optimizer(c, json_string_value(json_object_get(spec, "class")), NULL);
    scope_end(c, outer, "inner optimiser");
    return o;
}

/* "Adam(0.01)" */
static lk_optimizer *make_called(test_case *c, const char *call)
{
    char   name[32] = "";
    double rate = 0;
    if (sscanf(call, "%31[A-Za-z](%lf)", name, &rate) != 2) miss(c, "%s: not known here", call);
    return lk_optimizer_named(name, rate);
}

static lk_optimizer *make_multi(test_case *c, json_t *list)
{
    const char   *pattern[8], *key;
    lk_optimizer *one[8], *other = NULL;
    json_t       *value;
    int           n = 0;
    json_object_foreach(list, key, value)
    {
        lk_optimizer *o = make_called(c, json_string_value(value));
        if (!strcmp(key, "default")) other = o;
        else if (n < 8) pattern[n] = key, one[n++] = o;
    }
    return lk_multi_optimizer(other, n, pattern, one);
}

static lk_optimizer *make_wrapper(test_case *c, json_t *spec, const char *class)
{
    lk_number  scale = number(c, "initial_scale");
    lk_integer growth = integer(c, "dynamic_growth_steps");
    if (!strcmp(class, "MultiOptimizer")) return make_multi(c, json_object_get(spec, "optimizers"));
    return lk_loss_scale_optimizer(make_inner(c, json_object_get(spec, "inner")), scale, growth);
}

/* AdamWeightDecay of tensorflow/models is AdamW with a clipped norm. */
static lk_optimizer *make_adam_weight_decay(test_case *c)
{
    return lk_adamw(.learning_rate = number(c, "learning_rate"), .weight_decay = number(c, "weight_decay_rate"),
                    .beta_1 = number(c, "beta_1"), .beta_2 = number(c, "beta_2"), .epsilon = number(c, "epsilon"),
                    .global_clipnorm = real(c, "gradient_clip_norm"));
}

static lk_schedule *make_case_schedule(test_case *c, json_t *spec)
{
    if (!spec) return NULL;
    const char *class = json_string_value(json_object_get(spec, "class"));
    lk_schedule *s = NULL;
    const scope  outer = scope_begin(c, spec);
    attribute(c, "class");
    for (int i = 0; class && i < LKI_COUNT(SCHEDULES); i++)
        if (strcmp(SCHEDULES[i].name, class) == 0) s = SCHEDULES[i].make(c);
    if (!s) miss(c, "schedule %s is not known here", class ? class : "without a class");
    scope_end(c, outer, "schedule");
    return s;
}

static void join(char *text, size_t room, json_t *names)
{
    json_t *name;
    size_t  i;
    text[0] = 0;
    json_array_foreach(names, i, name)
        snprintf(text + strlen(text), room - strlen(text), "%s%s", *text ? "|" : "", json_string_value(name));
}

/* By names, and by arrays of variables; tensorflow/models has a list of names only. */
static void exclude(optim_run *r, json_t *spec)
{
    json_t      *excluded = json_object_get(spec, "exclude_from_weight_decay"), *one;
    char         names[256];
    lk_variable *list[MAX_VARIABLES + 1];
    int          n = 0;
    size_t       i;
    if (!excluded) return;
    join(names, sizeof names, json_is_array(excluded) ? excluded : json_object_get(excluded, "var_names"));
    json_array_foreach(json_object_get(excluded, "var_list"), i, one) list[++n] = r->variable[atoi(json_string_value(one) + 1) + 1];
    lk_optimizer_exclude_from_weight_decay(r->optimizer, lk_variables_of(n, list), *names ? names : NULL);
}

static bool begin_model_run(optim_run *r, const char *folder)
{
    test_case *c = r->c;
    json_t    *spec = json_object_get(c->json, "optimizer"), *weights = json_object_get(c->json, "weights");
    lki_zip    initial = {0};
    const char *class = json_string_value(json_object_get(spec, "class"));
    lk_schedule *s = make_case_schedule(c, json_object_get(spec, "schedule"));
    if (json_object_get(spec, "inner") || json_object_get(spec, "optimizers")) r->optimizer = make_wrapper(c, spec, class);
    else r->optimizer = !strcmp(class, "AdamWeightDecay") ? make_adam_weight_decay(c) : make_optimizer(c, class, s);
    if (lki_zip_open(path_of(folder, "initial", ".npz"), &initial) != LK_OK) return sound(c, "arrays"), false;
    for (size_t i = 0; i < json_array_size(weights) && r->variables < MAX_VARIABLES; i++) {
        const char *name = json_string_value(json_object_get(json_array_get(weights, i), "name"));
        r->variable[++r->variables] = lk_variable_of(tensor_of(c, &initial, stored_as(weights, i)), .name = name);
    }
    lki_zip_close(&initial);
    if (r->optimizer) exclude(r, spec);
    return sound(c, "beginning") && r->optimizer;
}

static bool read_gradients(optim_run *r, const char *folder)
{
    test_case *c = r->c;
    lki_zip    data = {0};
    if (lki_zip_open(path_of(folder, "data", ".npz"), &data) != LK_OK) return sound(c, "arrays");
    r->sparse = json_object_get(json_object_get(c->json, "data"), "rows") != NULL;
    for (int v = 0; v < r->variables && !r->sparse; v++) {
        char name[16];
        snprintf(name, sizeof name, "g%03d", v);
        r->gradient[v] = tensor_of(c, &data, name);
    }
    if (r->sparse) r->gradient[0] = tensor_of(c, &data, "rows"), r->ids = tensor_of(c, &data, "ids");
    lki_zip_close(&data);
    return sound(c, "gradients");
}

/* ---- running it ---- */

/* Gradients are those of a loss that was multiplied by the scale. */
static lk_tuple scaled_inputs(const optim_run *r, int64_t step)
{
    lk_tensor *in[MAX_VARIABLES + 1], *scale = lk_optimizer_scale_loss(r->optimizer, lk_scalar(1));
    lk_tuple   plain = step_inputs(r, step);
    for (int i = 0; i < plain.count; i++)
        in[i] = i < r->variables ? lk_mul(plain.item[i], scale) : plain.item[i];
    return tuple_of(plain.count, in);
}

/* The legacy Adam of tf_keras adds the rows of an entry first: it gets the whole gradient. */
static void add_rows_first(optim_run *r)
{
    const lk_shape w = lk_tensor_shape(lk_read(r->variable[1]));
    const int64_t  steps = lk_dim(r->ids, 0), rows = lk_dim(r->ids, 1), width = w.dim[1];
    float         *dense = calloc((size_t)(steps * w.dim[0] * width), sizeof *dense);
    for (int64_t i = 0; dense && i < steps * rows; i++)
        for (int64_t k = 0; k < width; k++)
            dense[(i / rows * w.dim[0] + (int64_t)at(r->ids, i)) * width + k] += (float)at(r->gradient[0], i * width + k);
    r->gradient[0] = lk_tensor_from(LK_SHAPE(steps, w.dim[0], width), LK_F32, dense);
    r->sparse = false;
    free(dense);
}

static void check_after(const optim_run *r, const lki_zip *after, int64_t step)
{
    json_t *weights = json_object_get(r->c->json, "weights");
    for (int v = 0; v < r->variables; v++) {
        char what[96];
        snprintf(what, sizeof what, "%s after step %lld", lk_variable_name(r->variable[v + 1]), (long long)step);
        lk_tensor *right = tensor_of(r->c, after, stored_as(weights, (size_t)v));
        if (right) within(r->c, what, lk_read(r->variable[v + 1]), part_of(right, step), allowed(weights, (size_t)v));
    }
}

static void check_state_after(const optim_run *r, const lki_zip *state)
{
    json_t            *list = json_object_get(r->c->json, "state"), *weights = json_object_get(r->c->json, "weights");
    const lk_variables ours = lk_optimizer_variables(r->optimizer);
    int                count = 0;
    while (stored_as(list, (size_t)count) && stored_as(list, (size_t)count)[0] == 's')
        count++; /* then come the final weights */
    if (ours.count != count) GIVE_UP(r->c, "%d variables of state: should be %d", ours.count, count);
    for (int i = 0; i < ours.count; i++) {
        const char *name = json_string_value(json_object_get(json_array_get(list, (size_t)i), "name"));
        if (!same_name(lk_variable_name(ours.item[i]), name))
            GIVE_UP(r->c, "state %d is %s: should be %s", i, lk_variable_name(ours.item[i]), name);
        lk_tensor *right = tensor_of(r->c, state, stored_as(list, (size_t)i));
        if (right) within(r->c, name, lk_read(ours.item[i]), right, allowed(list, (size_t)i));
    }
    json_t *config = json_object_get(json_object_get(r->c->json, "optimizer"), "config");
    if (r->c->why[0] || !json_is_true(json_object_get(config, "use_ema"))) return;
    lk_optimizer_finalize(r->optimizer);
    for (int v = 0; v < r->variables; v++) {
        char name[16];
        snprintf(name, sizeof name, "final%03d", v);
        lk_tensor *right = tensor_of(r->c, state, name);
        if (right) within(r->c, name, lk_read(r->variable[v + 1]), right, allowed(weights, (size_t)v));
    }
}

static void check_model_steps(test_case *c, optim_run *eager, optim_run *compiled, const lki_zip *after)
{
    lk_function  *f = lk_function_of(optim_step, .user = compiled, .name = c->name);
    json_t       *rates = json_object_get(c->json, "rates");
    const int64_t steps = json_integer_value(json_object_get(c->json, "steps"));
    for (int64_t i = 0; i < steps && !c->why[0]; i++) {
        json_t *rate = json_array_get(rates, (size_t)i);
        if (rate && json_is_number(rate)) {
            const double ours = lk_optimizer_learning_rate(eager->optimizer), right = json_number_value(rate);
            measure(c, "the learning rate", fabs(ours - right), 1e-8 + 1e-6 * fabs(right));
        }
        lk_tuple in = scaled_inputs(eager, i);
        optim_step(in, eager);
        if (sound(c, "step")) check_after(eager, after, i);
        if (!c->why[0]) lk_call(f, in);
        if (!sound(c, "compiled step")) break;
        for (int v = 1; v <= eager->variables; v++)
            compare_bits(c, lk_variable_name(eager->variable[v]), lk_read(eager->variable[v]), lk_read(compiled->variable[v]));
    }
}

static void check_optim_model(test_case *c, const char *folder)
{
    json_t   *spec = json_object_get(c->json, "optimizer");
    optim_run eager = {.c = c}, compiled = {.c = c};
    lki_zip   after = {0}, state = {0};
    const char *class = json_string_value(json_object_get(spec, "class"));
    const bool legacy = !strncmp(c->name, "legacy", 6), keras = !legacy && strcmp(class, "AdamWeightDecay");
    c->attributes = json_object_get(spec, "options");
    if (!begin_model_run(&eager, folder) || !begin_model_run(&compiled, folder)) GIVE_UP(c, "the optimiser could not be made");
    if (!read_gradients(&eager, folder)) return;
    if (legacy) add_rows_first(&eager);
    compiled.sparse = eager.sparse;
    if (lki_zip_open(path_of(folder, "after", ".npz"), &after) == LK_OK) check_model_steps(c, &eager, &compiled, &after);
    lki_zip_close(&after);
    if (!c->why[0] && keras && lki_zip_open(path_of(folder, "state", ".npz"), &state) == LK_OK) check_state_after(&eager, &state);
    lki_zip_close(&state);
    sound(c, "arrays");
}

static int names_in_order(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static void run_optim_models(void)
{
    DIR           *folder = opendir(path_of("models/optim", "", ""));
    struct dirent *entry;
    char          *name[128];
    int            count = 0;
    while (folder && (entry = readdir(folder)) && count < 128)
        if (entry->d_name[0] != '.') name[count++] = strdup(entry->d_name);
    if (folder) closedir(folder);
    qsort(name, (size_t)count, sizeof *name, names_in_order);
    for (int i = 0; i < count; i++) {
        char      path[300];
        test_case c;
        snprintf(path, sizeof path, "models/optim/%s", name[i]);
        json_t *json = is_foreign(name[i]) ? NULL : load_json(path_of(path, "case", ".json"));
        if (!json) printf("models/optim %-28s not compared: not an optimiser of Keras\n", name[i]);
        if (json && case_begin(&c, "models/optim", name[i], json)) {
            LK_POOL {
                check_optim_model(&c, path);
            }
            case_end(&c);
        }
        json_decref(json);
        free(name[i]);
    }
}

#endif
