/* optim/: steps of every optimiser, at once and as a compiled function; tables of the schedules. */
#ifndef LK_TESTS_GOLDEN_OPTIM_H
#define LK_TESTS_GOLDEN_OPTIM_H

#include "golden.h"

/* ---- from Keras' names and options ------------------------------------------------------------------------------------------- */

static lk_decay_args decay_args(test_case *c)
{
    attribute(c, "name");
    return (lk_decay_args){.initial_learning_rate = real(c, "initial_learning_rate"),
                           .decay_steps = has(c, "first_decay_steps") ? real(c, "first_decay_steps") : real(c, "decay_steps"),
                           .decay_rate = real(c, "decay_rate"),
                           .staircase = on_off(c, "staircase"),
                           .end_learning_rate = number(c, "end_learning_rate"),
                           .power = number(c, "power"),
                           .cycle = on_off(c, "cycle"),
                           .alpha = real(c, "alpha"),
                           .warmup_target = number(c, "warmup_target"),
                           .warmup_steps = real(c, "warmup_steps"),
                           .t_mul = number(c, "t_mul"),
                           .m_mul = number(c, "m_mul")};
}

static lk_schedule *exponential(test_case *c) { return lk_exponential_decay_kw(decay_args(c)); }
static lk_schedule *inverse_time(test_case *c) { return lk_inverse_time_decay_kw(decay_args(c)); }
static lk_schedule *polynomial(test_case *c) { return lk_polynomial_decay_kw(decay_args(c)); }
static lk_schedule *cosine(test_case *c) { return lk_cosine_decay_kw(decay_args(c)); }
static lk_schedule *cosine_restarts(test_case *c) { return lk_cosine_decay_restarts_kw(decay_args(c)); }

static lk_schedule *piecewise(test_case *c)
{
    json_t   *boundaries = attribute(c, "boundaries"), *values = attribute(c, "values");
    double    b[16] = {0}, v[16] = {0};
    const int count = (int)json_array_size(boundaries);
    for (int i = 0; i < count && i < 16; i++)
        b[i] = json_number_value(json_array_get(boundaries, (size_t)i));
    for (int i = 0; i <= count && i < 16; i++)
        v[i] = json_number_value(json_array_get(values, (size_t)i));
    return lk_piecewise_constant_decay(count, b, v);
}

static const struct {
    const char *name;
    lk_schedule *(*make)(test_case *c);
} SCHEDULES[] = {{"ExponentialDecay", exponential},        {"InverseTimeDecay", inverse_time},
                 {"PolynomialDecay", polynomial},          {"CosineDecay", cosine},
                 {"CosineDecayRestarts", cosine_restarts}, {"PiecewiseConstantDecay", piecewise}};

/* The schedule of the case; its options are looked at like those of the optimiser. */
static lk_schedule *make_schedule(test_case *c, json_t *spec)
{
    const char  *name = json_string_value(json_object_get(spec, "name"));
    json_t      *own = c->attributes;
    lk_schedule *s = NULL;
    c->attributes = json_object_get(spec, "options");
    for (int i = 0; name && i < LKI_COUNT(SCHEDULES); i++)
        if (strcmp(SCHEDULES[i].name, name) == 0) s = SCHEDULES[i].make(c);
    if (!s) miss(c, "schedule %s: %s", name ? name : "(none)", lk_failed() ? lk_error() : "not known here");
    check_asked(c, "schedule");
    c->attributes = own;
    return s;
}

#define COMMON(c, s)                                                                                                               \
    .learning_rate = number(c, "learning_rate"), .schedule = s, .weight_decay = number(c, "weight_decay"),                         \
    .clipnorm = real(c, "clipnorm"), .global_clipnorm = real(c, "global_clipnorm"), .clipvalue = real(c, "clipvalue"),             \
    .use_ema = on_off(c, "use_ema"), .ema_momentum = number(c, "ema_momentum"),                                                    \
    .ema_overwrite_frequency = whole(c, "ema_overwrite_frequency"), .loss_scale_factor = real(c, "loss_scale_factor"),             \
    .gradient_accumulation_steps = integer(c, "gradient_accumulation_steps")

static lk_optimizer *make_sgd(test_case *c, lk_schedule *s)
{
    return lk_sgd_kw((lk_sgd_args){COMMON(c, s), .momentum = real(c, "momentum"), .nesterov = on_off(c, "nesterov")});
}

static lk_adam_args adam_args(test_case *c, lk_schedule *s)
{
    return (lk_adam_args){COMMON(c, s), .beta_1 = number(c, "beta_1"), .beta_2 = number(c, "beta_2"),
                          .epsilon = number(c, "epsilon"), .amsgrad = on_off(c, "amsgrad")};
}

static lk_optimizer *make_adam(test_case *c, lk_schedule *s) { return lk_adam_kw(adam_args(c, s)); }
static lk_optimizer *make_adamw(test_case *c, lk_schedule *s) { return lk_adamw_kw(adam_args(c, s)); }
static lk_optimizer *make_adamax(test_case *c, lk_schedule *s) { return lk_adamax_kw(adam_args(c, s)); }
static lk_optimizer *make_nadam(test_case *c, lk_schedule *s) { return lk_nadam_kw(adam_args(c, s)); }
static lk_optimizer *make_lion(test_case *c, lk_schedule *s) { return lk_lion_kw(adam_args(c, s)); }
static lk_optimizer *make_lamb(test_case *c, lk_schedule *s) { return lk_lamb_kw(adam_args(c, s)); }

static lk_optimizer *make_rmsprop(test_case *c, lk_schedule *s)
{
    return lk_rmsprop_kw((lk_rmsprop_args){COMMON(c, s), .rho = number(c, "rho"), .momentum = real(c, "momentum"),
                                           .epsilon = number(c, "epsilon"), .centered = on_off(c, "centered")});
}

static lk_optimizer *make_adagrad(test_case *c, lk_schedule *s)
{
    return lk_adagrad_kw((lk_adagrad_args){COMMON(c, s), .initial_accumulator_value = number(c, "initial_accumulator_value"),
                                           .epsilon = number(c, "epsilon")});
}

static lk_optimizer *make_adadelta(test_case *c, lk_schedule *s)
{
    return lk_adadelta_kw((lk_adadelta_args){COMMON(c, s), .rho = number(c, "rho"), .epsilon = number(c, "epsilon")});
}

static lk_optimizer *make_ftrl(test_case *c, lk_schedule *s)
{
    return lk_ftrl_kw((lk_ftrl_args){COMMON(c, s), .learning_rate_power = number(c, "learning_rate_power"),
                                     .initial_accumulator_value = number(c, "initial_accumulator_value"),
                                     .l1_regularization_strength = real(c, "l1_regularization_strength"),
                                     .l2_regularization_strength = real(c, "l2_regularization_strength"),
                                     .l2_shrinkage_regularization_strength = real(c, "l2_shrinkage_regularization_strength"),
                                     .beta = real(c, "beta")});
}

static lk_optimizer *make_adafactor(test_case *c, lk_schedule *s)
{
    return lk_adafactor_kw((lk_adafactor_args){COMMON(c, s), .beta_2_decay = number(c, "beta_2_decay"),
                                               .epsilon_1 = number(c, "epsilon_1"), .epsilon_2 = number(c, "epsilon_2"),
                                               .clip_threshold = number(c, "clip_threshold"),
                                               .relative_step = on_off(c, "relative_step")});
}

static lk_optimizer *make_schedule_free(test_case *c, lk_schedule *s)
{
    return lk_schedule_free_adamw_kw((lk_schedule_free_adamw_args){COMMON(c, s), .beta_1 = number(c, "beta_1"),
                                                                   .beta_2 = number(c, "beta_2"), .epsilon = number(c, "epsilon"),
                                                                   .warmup_steps = integer(c, "warmup_steps")});
}

/* null where None means something else than the default. */
static lk_number number_or_none(test_case *c, const char *key)
{
    return json_is_null(json_object_get(c->attributes, key)) ? (attribute(c, key), LK_NUMBER(0)) : number(c, key);
}

static lk_optimizer *make_muon(test_case *c, lk_schedule *s)
{
    lk_muon_args a = {COMMON(c, s),
                      .adam_beta_1 = number(c, "adam_beta_1"),
                      .adam_beta_2 = number(c, "adam_beta_2"),
                      .adam_weight_decay = number_or_none(c, "adam_weight_decay"),
                      .adam_lr_ratio = number(c, "adam_lr_ratio"),
                      .exclude_embeddings = on_off(c, "exclude_embeddings"),
                      .momentum = number(c, "momentum"),
                      .ns_steps = integer(c, "ns_steps"),
                      .nesterov = on_off(c, "nesterov"),
                      .rms_rate = number_or_none(c, "rms_rate")};
    json_t      *layers = attribute(c, "exclude_layers");
    if (json_array_size(layers) > 1) miss(c, "several exclude_layers are not known here");
    a.exclude_layers = json_string_value(json_array_get(layers, 0));
    return lk_muon_kw(a);
}

static const struct {
    const char *name;
    lk_optimizer *(*make)(test_case *c, lk_schedule *s);
} OPTIMIZERS[] = {{"SGD", make_sgd},
                  {"Adam", make_adam},
                  {"AdamW", make_adamw},
                  {"Adamax", make_adamax},
                  {"Nadam", make_nadam},
                  {"Lion", make_lion},
                  {"Lamb", make_lamb},
                  {"RMSprop", make_rmsprop},
                  {"Adagrad", make_adagrad},
                  {"Adadelta", make_adadelta},
                  {"Ftrl", make_ftrl},
                  {"Muon", make_muon},
                  {"Adafactor", make_adafactor},
                  {"ScheduleFreeAdamW", make_schedule_free}};

/* From c->attributes. */
static lk_optimizer *make_optimizer(test_case *c, const char *name, lk_schedule *s)
{
    for (int i = 0; name && i < LKI_COUNT(OPTIMIZERS); i++)
        if (strcmp(OPTIMIZERS[i].name, name) == 0) return OPTIMIZERS[i].make(c, s);
    miss(c, "optimizer %s is not known here", name ? name : "(none)");
    return NULL;
}

/* ---- a run ------------------------------------------------------------------------------------------------------------------- */

enum { MAX_VARIABLES = 9 };

typedef struct optim_run {
    test_case    *c;
    bool          sparse;
    lk_optimizer *optimizer;
    int           variables;
    lk_variable  *variable[MAX_VARIABLES + 1]; /* from 1 */
    lk_tensor    *gradient[MAX_VARIABLES];     /* [steps, ...] */
    lk_tensor    *ids;                         /* sparse: [steps, rows] */
} optim_run;

static lk_tensor *part_of(lk_tensor *t, int64_t i)
{
    int64_t  begin[LK_MAX_RANK] = {i}, size[LK_MAX_RANK] = {1};
    lk_shape shape = {.rank = lk_rank(t) - 1};
    for (int a = 1; a < lk_rank(t); a++)
        size[a] = shape.dim[a - 1] = lk_dim(t, a);
    return lk_reshape(lk_slice(t, lk_axes_from(lk_rank(t), begin), lk_axes_from(lk_rank(t), size)), shape);
}

static lk_variables variables_of(const optim_run *r) { return lk_variables_of(r->variables, r->variable); }

/* One step from the gradients; of rows, from the rows and where they belong, which is what the gradient of a gather is made of. */
static lk_tuple optim_step(lk_tuple in, void *user)
{
    optim_run *r = user;
    if (r->sparse) {
        lk_tape   *tape = lk_tape_begin();
        lk_tensor *sum = lk_reduce_sum(lk_mul(lk_gather(lk_read(r->variable[1]), in.item[1], 0), in.item[0]));
        lk_optimizer_apply(r->optimizer, lk_tape_gradient(tape, sum, variables_of(r)));
    } else {
        lk_optimizer_apply_gradients(r->optimizer, in, variables_of(r));
    }
    return LK_TUPLE(in.item[0]);
}

static bool optim_begin(optim_run *r, lk_schedule *s)
{
    test_case *c = r->c;
    r->sparse = json_is_true(json_object_get(c->json, "sparse"));
    r->optimizer = make_optimizer(c, json_string_value(json_object_get(c->json, "optimizer")), s);
    for (int i = 0; i < c->zip.count && r->variables < MAX_VARIABLES; i++) {
        char name[64], array[72];
        if (sscanf(c->zip.member[i].name, "w0_%60[^.].npy", name) != 1) continue;
        snprintf(array, sizeof array, "w0_%s", name);
        r->variable[++r->variables] = lk_variable_of(stored(c, array), .name = name);
    }
    for (int v = 0; v < r->variables; v++) {
        char name[64];
        snprintf(name, sizeof name, "grads_%s", lk_variable_name(r->variable[v + 1]));
        r->gradient[v] = stored(c, r->sparse ? "grad_rows" : name);
    }
    if (r->sparse) r->ids = stored(c, "grad_indices");
    return sound(c, "beginning") && r->optimizer && r->variables;
}

static lk_tuple step_inputs(const optim_run *r, int64_t step)
{
    lk_tensor *in[MAX_VARIABLES + 1];
    int        n = 0;
    for (; n < r->variables; n++)
        in[n] = part_of(r->gradient[n], step);
    if (r->sparse) in[n++] = part_of(r->ids, step);
    return tuple_of(n, in);
}

/* "adam_3/a_momentum" and "adam/a_momentum" name the same thing: Keras numbers the optimisers of a process. */
static bool same_name(const char *ours, const char *theirs)
{
    const char *slash = strchr(theirs, '/');
    size_t      n = slash ? (size_t)(slash - theirs) : strlen(theirs);
    const char *tail = theirs + n;
    size_t      digits = n;
    while (digits > 0 && theirs[digits - 1] >= '0' && theirs[digits - 1] <= '9')
        digits--;
    if (digits < n && digits > 0 && theirs[digits - 1] == '_') n = digits - 1;
    return strncmp(ours, theirs, n) == 0 && strcmp(ours + n, tail) == 0;
}

static void check_state(const optim_run *r)
{
    test_case         *c = r->c;
    json_t            *after = json_object_get(c->json, "state_after");
    const lk_variables state = lk_optimizer_variables(r->optimizer);
    if (state.count != (int)json_array_size(after))
        GIVE_UP(c, "%d variables of state: should be %d", state.count, (int)json_array_size(after));
    for (int i = 0; i < state.count; i++) {
        json_t     *entry = json_array_get(after, (size_t)i);
        const char *name = json_string_value(json_object_get(entry, "name"));
        if (!same_name(lk_variable_name(state.item[i]), name))
            GIVE_UP(c, "state %d is %s: should be %s", i, lk_variable_name(state.item[i]), name);
        compare(c, name, lk_read(state.item[i]), stored(c, json_string_value(json_object_get(entry, "array"))), 0, false);
    }
}

static void check_variables(const optim_run *r, const char *prefix, int64_t step)
{
    for (int v = 0; v < r->variables; v++) {
        char name[80], what[120];
        snprintf(name, sizeof name, "%s%s", prefix, lk_variable_name(r->variable[v + 1]));
        snprintf(what, sizeof what, "%s after step %lld", name, (long long)step);
        lk_tensor *right = stored(r->c, name);
        compare(r->c, what, lk_read(r->variable[v + 1]), step >= 0 ? part_of(right, step) : right, 0, false);
    }
}

static void check_table(test_case *c, const lk_schedule *s, json_t *table)
{
    json_t *value;
    size_t  i;
    double  most = 0;
    json_array_foreach(table, i, value) most = fmax(most, fabs(json_number_value(value)));
    json_array_foreach(table, i, value)
    {
        const double rate = lk_schedule_at(s, (int64_t)i);
        if (isnan(rate)) GIVE_UP(c, "rate %zu is not a number", i);
        measure(c, "the table of rates", fabs(rate - json_number_value(value)), 1e-6 + 1e-5 * most);
    }
}

static void check_optim(test_case *c)
{
    json_t      *spec = json_object_get(c->json, "schedule");
    lk_schedule *s = json_is_object(spec) ? make_schedule(c, spec) : NULL;
    optim_run    eager = {.c = c}, compiled = {.c = c};
    if (s) check_table(c, s, json_object_get(spec, "table"));
    if (c->why[0] || !optim_begin(&eager, s) || !optim_begin(&compiled, s)) GIVE_UP(c, "the optimiser could not be made");
    lk_function  *f = lk_function_of(optim_step, .user = &compiled, .name = c->name);
    lk_tensor    *rates = stored(c, "learning_rates");
    const int64_t steps = json_integer_value(json_object_get(c->json, "steps"));
    if (lk_dim(rates, 0) != steps) miss(c, "%lld learning rates for %lld steps", (long long)lk_dim(rates, 0), (long long)steps);
    for (int64_t i = 0; i < steps && !c->why[0]; i++) {
        measure(c, "the learning rate", fabs(lk_optimizer_learning_rate(eager.optimizer) - at(rates, i)),
                1e-6 + 1e-5 * largest(rates));
        optim_step(step_inputs(&eager, i), &eager);
        if (sound(c, "step")) check_variables(&eager, "w_", i);
        if (!c->why[0]) lk_call(f, step_inputs(&compiled, i));
        if (!sound(c, "compiled step")) break;
        for (int v = 1; v <= eager.variables; v++)
            compare_bits(c, lk_variable_name(eager.variable[v]), lk_read(eager.variable[v]), lk_read(compiled.variable[v]));
    }
    if (!c->why[0]) check_state(&eager);
    if (c->why[0] || on_off(c, "use_ema") != LK_ON) return;
    lk_optimizer_finalize(eager.optimizer);
    check_variables(&eager, "final_", -1);
}

static void run_optim(void)
{
    json_t *cases = load_json(path_of("optim", "cases", ".json")), *one;
    size_t  i;
    json_array_foreach(cases, i, one)
    {
        test_case   c;
        const char *name = json_string_value(json_object_get(one, "name"));
        if (!name || !case_begin(&c, "optim", name, one)) continue;
        c.attributes = json_object_get(one, "options");
        if (case_arrays(&c, path_of("optim", name, ".npz")))
            LK_POOL {
                check_optim(&c);
            }
        case_end(&c);
    }
    json_decref(cases);
}

#endif
