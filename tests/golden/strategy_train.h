/* The tables of strategy.json that train: losses, optimisers, batch normalisation, fit, evaluate and
 * predict; and all tables in one list. */
#ifndef LK_TESTS_GOLDEN_STRATEGY_TRAIN_H
#define LK_TESTS_GOLDEN_STRATEGY_TRAIN_H

#include "strategy.h"
#include <lockstep/fit.h>

/* ---- losses ---- */

REPLICA_FN(average_in_replica)
{
    lk_average_args *a = user, own = *a;
    own.per_example_loss = in.item[0];
    return LK_TUPLE(lk_compute_average_loss_kw(own));
}

static void table_compute_average_loss(scenario *e)
{
    json_t         *weights = attribute(e->c, "sample_weight");
    lk_average_args a = {.sample_weight = weights ? tensor_in(weights, NULL, LK_F32) : NULL,
                         .batch_size = number(e->c, "global_batch_size")};
    compare_replicas(
        e, "result",
        lk_run(e->strategy, average_in_replica, LK_TUPLE(spread(e, attribute(e->c, "values"), NULL, LK_F32)), &a).item[0],
        e->result);
}

REPLICA_FN(scale_in_replica) { return LK_TUPLE(lk_mul(lk_scale_regularization_loss(in.item[0]), lk_scalar(1))); }

static void table_scale_regularization_loss(scenario *e)
{
    lk_tensor *x = tensor_in(attribute(e->c, "value"), NULL, LK_F32);
    compare_replicas(e, "result", lk_run(e->strategy, scale_in_replica, LK_TUPLE(x)).item[0], e->result);
}

REPLICA_FN(loss_in_replica)
{
    lk_tensor *x = lk_tensor_of(LK_SHAPE(2, 1), 2 * my_id() + 1, 2 * my_id() + 2);
    return LK_TUPLE(lk_loss_call(user, lk_zeros(LK_SHAPE(2, 1), LK_F32), x));
}

static void table_loss_reduction(scenario *e)
{
    static const lk_reduction all[] = {LK_REDUCTION_SUM, LK_REDUCTION_SUM_OVER_BATCH_SIZE, LK_REDUCTION_NONE};
    WORD(e->c, "loss", "MeanSquaredError of 0 and 2r+1, 2r+2");
    lk_loss   *loss = lk_mean_squared_error(.reduction = all[WORD(e->c, "reduction", "sum", "sum_over_batch_size", "none")]);
    lk_tensor *out = lk_run(e->strategy, loss_in_replica, .user = loss).item[0];
    if (e->differs) compare_error(e); /* not in a custom loop */
    else compare_replicas(e, "result", out, e->result);
}

/* ---- optimisers ---- */

enum { SGD_MOMENTUM, SGD, ADAM, CLIPNORM, CLIPVALUE };

static lk_optimizer *optimizer_in(int which)
{
    switch (which) {
    case SGD_MOMENTUM: return lk_sgd(.learning_rate = 0.5, .momentum = 0.06);
    case SGD: return lk_sgd(.learning_rate = 1);
    case ADAM: return lk_adam(.learning_rate = 0.1);
    case CLIPNORM: return lk_sgd(.learning_rate = 1, .clipnorm = 1);
    default: return lk_sgd(.learning_rate = 1, .clipvalue = 1.5);
    }
}

REPLICA_FN(apply_in_replica)
{
    lk_optimizer_apply_gradients(((void **)user)[0], LK_TUPLE(in.item[0]), LK_VARIABLES(((void **)user)[1]));
    return LK_TUPLE();
}

/* Clipping acts on the sum: w - clipped(sum of g). */
static void compare_clipped(scenario *e, lk_variable *v, int which)
{
    double  sum[4] = {0}, norm = 0;
    json_t *gradients = attribute(e->c, "gradients"), *start = attribute(e->c, "start");
    for (size_t r = 0; r < json_array_size(gradients); r++)
        for (size_t i = 0; i < 4; i++)
            sum[i] += json_number_value(json_array_get(json_array_get(gradients, r), i));
    for (int i = 0; i < 4; i++)
        norm += sum[i] * sum[i];
    norm = sqrt(norm);
    lk_tuple each = lk_local_variables(e->strategy, v);
    for (int r = 0; r < each.count && sound(e->c, "apply"); r++)
        for (int i = 0; i < 4; i++) {
            double step = which == CLIPNORM ? sum[i] / fmax(1, norm) : fmax(-1.5, fmin(1.5, sum[i]));
            compare_number(e->c, "component", at(each.item[r], i), json_number_value(json_array_get(start, (size_t)i)) - step);
        }
}

static void table_apply_gradients(scenario *e)
{
    int which =
        WORD(e->c, "optimizer", "SGD 0.5 momentum 0.06", "SGD 1.0", "Adam 0.1", "SGD 1.0 clipnorm 1", "SGD 1.0 clipvalue 1.5");
    lk_variable  *v = NULL;
    lk_optimizer *o = NULL;
    LK_SCOPE(e->strategy) {
        v = lk_variable_of(tensor_in(attribute(e->c, "start"), NULL, LK_F32));
        o = optimizer_in(which);
    }
    lk_run(e->strategy, apply_in_replica, LK_TUPLE(spread(e, attribute(e->c, "gradients"), NULL, LK_F32)), (void *[]){o, v});
    if (!sound(e->c, "apply")) return;
    if (e->differs) compare_clipped(e, v, which);
    else compare_components(e, v, json_object_get(e->result, "components"));
    if (lk_optimizer_iterations(o) != 1) miss(e->c, "iterations: should be 1");
}

/* ---- batch normalisation ---- */

REPLICA_FN(normalize_in_replica) { return LK_TUPLE(lk_model_call(user, in.item[0], .training = LK_ON)); }

static void compare_read(scenario *e, lk_variable *v, json_t *each, json_t *read)
{
    double  mean = 0;
    json_t *right = read;
    for (int r = 0; r < e->replicas; r++)
        mean += json_number_value(json_array_get(json_array_get(each, (size_t)r), 0)) / e->replicas;
    if (e->differs) right = json_pack("[f]", mean); /* sync on read: the mean of what the replicas have */
    compare_json(e->c, "read", lk_read(v), right);
    if (e->differs) json_decref(right);
}

static void table_batch_norm(scenario *e)
{
    lk_model *model = NULL;
    json_t   *values = attribute(e->c, "values"), *result = json_object_get(e->c->json, "result");
    LK_SCOPE(e->strategy) {
        model = lk_sequential(lk_batch_normalization(.momentum = LK_NUMBER(real(e->c, "momentum")),
                                                     .synchronized = on_off(e->c, "synchronized"), .input_shape = LK_SHAPE(1)));
        lk_model_build(model, LK_SHAPE(1));
    }
    lk_tensor *item[MOST_REPLICAS];
    for (int r = 0; r < e->replicas; r++)
        item[r] = lk_reshape(tensor_in(json_array_get(values, (size_t)r), NULL, LK_F32), LK_SHAPE(2, 1));
    lk_tensor *y =
        lk_run(e->strategy, normalize_in_replica, LK_TUPLE(lk_values_from_function(e->strategy, picked, item)), model).item[0];
    lk_variables v = lk_model_weights(model); /* gamma, beta, moving mean, moving variance */
    if (!sound(e->c, "model") || v.count != 4) GIVE_UP(e->c, "%d weights", v.count);
    compare_replicas(e, "y", y, json_object_get(result, "y"));
    compare_components(e, v.item[2], json_object_get(result, "moving_mean"));
    compare_components(e, v.item[3], json_object_get(result, "moving_variance"));
    compare_read(e, v.item[2], json_object_get(result, "moving_mean"), json_array_get(json_object_get(result, "read"), 0));
    compare_read(e, v.item[3], json_object_get(result, "moving_variance"), json_array_get(json_object_get(result, "read"), 1));
}

/* ---- fit, evaluate, predict: Dense(1) without bias, weight 1, rows 1..n, target 0, mse, SGD 0.001 ---- */

typedef struct keras {
    scenario *e;
    lk_model *model;
    double    loss, mae; /* as fit or evaluate reported them */
} keras;

/* With the denominator and the split of TensorFlow's fit. */
static keras keras_new(scenario *e, double l2)
{
    keras k = {.e = e};
    LK_SCOPE(e->strategy) {
        k.model = lk_sequential(
            lk_dense(1, .use_bias = LK_OFF, .kernel_regularizer = l2 != 0 ? lk_l2(l2) : NULL, .input_shape = LK_SHAPE(1)));
    }
    lk_model_set_weights(k.model, LK_TUPLE(lk_ones(LK_SHAPE(1, 1), LK_F32)));
    lk_model_compile(k.model, .loss = lk_mean_squared_error(), .optimizer = lk_sgd(.learning_rate = 0.001),
                     .metrics = LK_METRICS(lk_mean_absolute_error_metric(.name = "mae")), .denominator = LK_PER_REPLICA);
    return k;
}

/* Rule E, as TensorFlow splits what is in memory. */
static lk_dataset *keras_data(scenario *e)
{
    lk_tensor *x = lk_reshape(lk_add(lk_range(whole(e->c, "rows"), LK_F32), lk_scalar(1)), LK_SHAPE(-1, 1));
    return lk_distribute_dataset(
        e->strategy,
        lk_dataset_batch(lk_dataset_from_tensor_slices(LK_TUPLE(x, lk_zeros(LK_SHAPE(whole(e->c, "rows"), 1), LK_F32))),
                         whole(e->c, "global_batch")),
        LK_SPLIT_EVEN);
}

/* The same with numbers only: what the specification says where TensorFlow fails. */
typedef struct numbers {
    double loss, mae, weight;
} numbers;

static numbers keras_by_hand(scenario *e, double l2, bool trains)
{
    const int rows = whole(e->c, "rows"), batch = whole(e->c, "global_batch"), n = e->replicas;
    numbers   out = {.weight = 1};
    for (int from = 0; from < rows; from += batch) {
        const int    b = (int)lki_min(batch, rows - from), each = (b + n - 1) / n;
        const double w = out.weight;
        double       gradient = 2 * l2 * w;
        for (int i = 0; i < b; i++) {
            const double x = from + i + 1;
            const int    here = (int)lki_min(each, b - i / each * each); /* rows of the replica this one is on */
            out.loss += w * w * x * x + l2 * w * w;
            out.mae += fabs(w * x);
            gradient += 2 * w * x * x / (n * here);
        }
        if (trains) out.weight = w - 0.001 * gradient;
    }
    out.loss /= rows;
    out.mae /= rows;
    return out;
}

static void compare_keras(keras *k, numbers right)
{
    compare_number(k->e->c, "loss", k->loss, right.loss);
    compare_number(k->e->c, "mae", k->mae, right.mae);
    lk_tuple each = lk_local_variables(k->e->strategy, lk_model_weights(k->model).item[0]);
    for (int r = 0; r < each.count && sound(k->e->c, "weight"); r++)
        compare_number(k->e->c, "weight", at(each.item[r], 0), right.weight);
    sound(k->e->c, "results");
}

static void table_fit(scenario *e)
{
    const double l2 = real(e->c, "l2");
    numbers      right = keras_by_hand(e, l2, true);
    keras        k = keras_new(e, l2);
    lk_history  *h = lk_model_fit(k.model, keras_data(e), .verbose = LK_SILENT);
    attribute(e->c, "error");
    if (!sound(e->c, "fit")) return;
    k.loss = lk_history_value(h, "loss", 0);
    k.mae = lk_history_value(h, "mae", 0);
    if (e->result) {
        numbers theirs = {json_number_value(json_array_get(json_object_get(e->result, "loss"), 0)),
                          json_number_value(json_array_get(json_object_get(e->result, "mae"), 0)),
                          json_number_value(json_object_get(e->result, "weight"))};
        compare_number(e->c, "the loop by hand", right.weight, theirs.weight); /* so that it may speak where TensorFlow cannot */
        right = theirs;
    }
    compare_keras(&k, right);
}

static void table_evaluate(scenario *e)
{
    const double l2 = real(e->c, "l2");
    numbers      right = keras_by_hand(e, l2, false);
    keras        k = keras_new(e, l2);
    lk_logs      logs = lk_model_evaluate(k.model, keras_data(e), .verbose = LK_SILENT);
    attribute(e->c, "error");
    if (!sound(e->c, "evaluate")) return;
    k.loss = lk_logs_get(&logs, "loss");
    k.mae = lk_logs_get(&logs, "mae");
    if (e->result)
        right = (numbers){json_number_value(json_array_get(e->result, 0)), json_number_value(json_array_get(e->result, 1)), 1};
    compare_keras(&k, right);
}

static void table_predict(scenario *e)
{
    keras      k = keras_new(e, 0);
    lk_tensor *y = lk_model_predict(k.model, keras_data(e), .verbose = LK_SILENT);
    if (!sound(e->c, "predict")) return;
    for (int64_t i = 0; i < lk_size(y); i++)
        compare_number(e->c, "row", at(y, i), json_number_value(json_array_get(e->result, (size_t)i)));
    if (lk_size(y) != (int64_t)json_array_size(e->result))
        miss(e->c, "%d rows: should be %d", (int)lk_size(y), (int)json_array_size(e->result));
}

/* ---- mistakes ---- */

enum { REDUCE_IN_RUN, RUN_IN_RUN, ARGS, UNKNOWN_OP, AXIS, GATHER_SCALARS, SCALAR_LOSS, NEGATIVE_BATCH, FLOAT_BATCH, ARITHMETIC };

REPLICA_FN(nothing) { return LK_TUPLE(); }

REPLICA_FN(err_in_replica)
{
    lk_strategy *s = lk_get_strategy();
    lk_tensor   *one = lk_tensor_of(LK_SHAPE(1), 1);
    switch (*(int *)user) {
    case REDUCE_IN_RUN: return LK_TUPLE(lk_reduce(s, LK_SUM, lk_scalar(1)));
    case RUN_IN_RUN: return lk_run(s, nothing);
    case SCALAR_LOSS: return LK_TUPLE(lk_compute_average_loss(lk_scalar(1)));
    case NEGATIVE_BATCH: return LK_TUPLE(lk_compute_average_loss(one, .global_batch_size = -2));
    default: return LK_TUPLE(lk_compute_average_loss(one, .batch_size = LK_NUMBER(2.5)));
    }
}

static void table_error(scenario *e)
{
    int which =
        WORD(e->c, "about", "reduce from inside run", "run inside run", "run with args that are no tuple", "reduce with unknown op",
             "reduce axis out of range", "gather of scalars", "compute_average_loss of a scalar",
             "compute_average_loss, negative batch", "compute_average_loss, float batch", "arithmetic on a per-replica value");
    lk_tensor *item[MOST_REPLICAS];
    for (int r = 0; r < e->replicas; r++)
        item[r] = lk_fill(LK_SHAPE(), LK_F32, 1);
    lk_tensor *one = lk_values_from_function(e->strategy, picked, item);
    switch (which) {
    case ARGS: lk_run(e->strategy, nothing, {.count = 5}); break;
    case UNKNOWN_OP: lk_reduce(e->strategy, lk_reduce_op_named("MAX"), one); break;
    case AXIS: lk_reduce(e->strategy, LK_SUM, one, LK_AXIS(3)); break;
    case GATHER_SCALARS: lk_gather_values(e->strategy, one); break;
    case ARITHMETIC: lk_add(one, lk_scalar(1)); break;
    default: lk_run(e->strategy, err_in_replica, .user = &which); break;
    }
    compare_error(e);
}

/* ---- all of them ---- */

static const struct {
    const char *name;
    void (*check)(scenario *e);
} TABLES[] = {
    {"split", table_split},
    {"split_from_function", table_split_from_function},
    {"reduce", table_reduce},
    {"gather", table_gather},
    {"reduce_plain", table_reduce_plain},
    {"local_results", table_local_results},
    {"all_reduce", table_collective},
    {"all_gather", table_collective},
    {"merge_call", table_merge_call},
    {"assign", table_assign},
    {"scatter_add", table_scatter_add},
    {"sync_on_read", table_sync_on_read},
    {"outside_variable", table_outside_variable},
    {"compute_average_loss", table_compute_average_loss},
    {"scale_regularization_loss", table_scale_regularization_loss},
    {"loss_reduction", table_loss_reduction},
    {"apply_gradients", table_apply_gradients},
    {"batch_norm", table_batch_norm},
    {"fit", table_fit},
    {"evaluate", table_evaluate},
    {"predict", table_predict},
    {"error", table_error},
};

static void check_entry(test_case *c, void (*check)(scenario *e))
{
    scenario e = {.c = c, .replicas = whole(c, "replicas"), .result = attribute(c, "result"), .differs = has(c, "differs")};
    attribute(c, "message");
    if (e.replicas < 1 || e.replicas > MOST_REPLICAS) GIVE_UP(c, "%d replicas", e.replicas);
    if (!e.result && !json_object_get(c->json, "error")) GIVE_UP(c, "neither a result nor an error");
    LK_POOL {
        e.strategy = lk_mirrored_strategy(.cpu_devices = e.replicas);
        LK_STEP {
            if (sound(c, "strategy")) check(&e);
        }
    }
}

static void run_table(const char *table, json_t *list)
{
    void (*check)(scenario * e) = NULL;
    json_t *one;
    size_t  i;
    for (int k = 0; k < LKI_COUNT(TABLES); k++)
        if (!strcmp(TABLES[k].name, table)) check = TABLES[k].check;
    json_array_foreach(list, i, one)
    {
        char      name[96];
        test_case c;
        snprintf(name, sizeof name, "%s_%03d", table, (int)i);
        if (!case_begin(&c, "strategy", name, one)) continue;
        c.attributes = one;
        if (check) check_entry(&c, check);
        else miss(&c, "the table %s is not known here", table);
        case_end(&c);
    }
}

static void no_log(const char *text, void *user) { (void)text, (void)user; }

static void run_strategy(void)
{
    json_t     *tables = load_json(path_of("strategy", "strategy", ".json")), *list;
    const char *table;
    lk_set_log(no_log, NULL);
    json_object_foreach(tables, table, list) run_table(table, list);
    for (int k = 0; tables && k < LKI_COUNT(TABLES); k++) {
        test_case c;
        if (json_array_size(json_object_get(tables, TABLES[k].name)) || !case_begin(&c, "strategy", TABLES[k].name, NULL)) continue;
        miss(&c, "the table is not there");
        case_end(&c);
    }
    lk_set_log(NULL, NULL);
    json_decref(tables);
}

#endif
