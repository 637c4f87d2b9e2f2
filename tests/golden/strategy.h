/* strategy/strategy.json: what MirroredStrategy does, table by table. An entry is a case. If an entry `differs`, it is compared
 * with the specification instead, by the function of that table; an error of TensorFlow must be an error here, of its kind. A table
 * that this program does not know fails, and so does a missing one. */
#ifndef LK_TESTS_GOLDEN_STRATEGY_H
#define LK_TESTS_GOLDEN_STRATEGY_H

#include "golden.h"
#include <lockstep/dataset.h>
#include <lockstep/strategy.h>

enum { MOST_REPLICAS = 8, MOST_VALUES = 4096 };

typedef struct scenario {
    test_case   *c;
    lk_strategy *strategy;
    int          replicas;
    json_t      *result; /* NULL: an error is wanted, or `differs` says something else */
    bool         differs;
} scenario;

#define REPLICA_FN(name) static lk_tuple name(lk_tuple in __attribute__((unused)), void *user __attribute__((unused)))

static int my_id(void) { return lk_replica_id_in_sync_group(lk_get_replica_context()); }

/* ---- json and tensors ---- */

static void add_numbers(json_t *value, double *out, int *count)
{
    json_t *item;
    size_t  i;
    if (!json_is_array(value)) {
        if (*count < MOST_VALUES) out[(*count)++] = json_number_value(value);
        return;
    }
    json_array_foreach(value, i, item) add_numbers(item, out, count);
}

static lk_shape shape_in(json_t *value)
{
    lk_shape shape = {0};
    for (; json_is_array(value) && shape.rank < LK_MAX_RANK; value = json_array_get(value, 0))
        shape.dim[shape.rank++] = (int64_t)json_array_size(value);
    return shape;
}

static lk_tensor *tensor_in(json_t *value, json_t *shape, lk_dtype dtype)
{
    static double number[MOST_VALUES];
    int           count = 0;
    lk_shape      like = shape_in(value);
    for (size_t i = 0; shape && i < json_array_size(shape); i++)
        like.dim[i] = json_integer_value(json_array_get(shape, i));
    if (shape) like.rank = (int)json_array_size(shape);
    add_numbers(value, number, &count);
    return lk_cast(lk_tensor_from(like, LK_F64, number), dtype);
}

static lk_dtype dtype_in(scenario *e)
{
    static const lk_dtype types[] = {LK_F32, LK_I32, LK_I64};
    return types[WORD(e->c, "dtype", "float32", "int32", "int64")];
}

static lk_tensor *picked(const lk_value_context *context, void *user)
{
    return ((lk_tensor **)user)[context->replica_id_in_sync_group];
}

/* One tensor per replica out of a list. */
static lk_tensor *spread(scenario *e, json_t *values, json_t *shapes, lk_dtype dtype)
{
    lk_tensor *item[MOST_REPLICAS];
    for (int r = 0; r < e->replicas; r++)
        item[r] = tensor_in(json_array_get(values, (size_t)r), json_array_get(shapes, (size_t)r), dtype);
    return lk_values_from_function(e->strategy, picked, item);
}

/* ---- comparing: relative 1e-5 ---- */

static void compare_number(test_case *c, const char *what, double ours, double right)
{
    if (isnan(ours) != isnan(right)) GIVE_UP(c, "%s: %g: should be %g", what, ours, right);
    measure(c, what, fabs(ours - right), 1e-6 + 1e-5 * fabs(right));
}

static void compare_nested(test_case *c, const char *what, const lk_tensor *t, json_t *right, int axis, int64_t *index)
{
    json_t *item;
    size_t  i;
    if (axis == lk_rank(t)) {
        if (!json_is_number(right)) GIVE_UP(c, "%s: rank %d is too low", what, lk_rank(t));
        compare_number(c, what, at(t, (*index)++), json_number_value(right));
        return;
    }
    if (!json_is_array(right) || (int64_t)json_array_size(right) != lk_tensor_shape(t).dim[axis]) {
        char     text[LKI_SHAPE_TEXT];
        lk_shape shape = lk_tensor_shape(t);
        GIVE_UP(c, "%s: shape %s does not fit", what, lki_shape_text(&shape, text));
    }
    json_array_foreach(right, i, item) compare_nested(c, what, t, item, axis + 1, index);
}

static void compare_json(test_case *c, const char *what, lk_tensor *t, json_t *right)
{
    int64_t index = 0;
    if (!sound(c, what)) return;
    if (!t || lk_poisoned(t) || !right) GIVE_UP(c, "%s: no value", what);
    compare_nested(c, what, t, right, 0, &index);
}

/* A list with one element per replica. A value that is the same object everywhere stands for all of them. */
static void compare_each(scenario *e, const char *what, lk_tuple each, json_t *right)
{
    if (!sound(e->c, what)) return;
    if (each.count != (int)json_array_size(right))
        GIVE_UP(e->c, "%s: %d values: should be %d", what, each.count, (int)json_array_size(right));
    for (int r = 0; r < each.count; r++)
        compare_json(e->c, what, each.item[r], json_array_get(right, (size_t)r));
}

static void compare_replicas(scenario *e, const char *what, lk_tensor *t, json_t *right)
{
    if (t && sound(e->c, what)) compare_each(e, what, lk_local_results(e->strategy, t), right);
    else miss(e->c, "%s: no value", what);
}

static void compare_components(scenario *e, lk_variable *v, json_t *right)
{
    if (v && sound(e->c, "variable")) compare_each(e, "components", lk_local_variables(e->strategy, v), right);
    else miss(e->c, "no variable");
}

static bool is_value_error(lk_status s) { return s == LK_EINVAL || s == LK_ESHAPE || s == LK_EDTYPE; }

/* What was done must have failed, as a wrong value or, for TensorFlow's RuntimeError, as something that is not allowed there. */
static void compare_error(scenario *e)
{
    const char *kind = json_string_value(attribute(e->c, "error"));
    lk_status   status = lk_error_code();
    bool        state = kind && !strcmp(kind, "RuntimeError");
    if (!(state ? status == LK_ESTATE : is_value_error(status)))
        miss(e->c, "%s \"%s\": should fail as %s does", lk_status_name(status), lk_error(), kind ? kind : "a wrong value");
    if (strlen(lk_error()) < 20 && !e->c->why[0]) miss(e->c, "\"%s\" says too little", lk_error());
    lk_clear_error();
}

/* ---- datasets ---- */

static lk_dataset *rows_of_range(int64_t rows) { return lk_dataset_range(0, .stop = LK_NUMBER((double)rows), .dtype = LK_I64); }

static void compare_steps(scenario *e, lk_dataset *d, json_t *right)
{
    lk_iterator *it = lk_iterator_of(d);
    lk_tuple     batch;
    size_t       step = 0;
    if (!sound(e->c, "iterator")) return;
    for (; lk_next(it, &batch) && step < json_array_size(right) && !e->c->why[0]; step++)
        compare_replicas(e, "rows", batch.item[0], json_array_get(right, step));
    if (sound(e->c, "steps") && step != json_array_size(right))
        miss(e->c, "%d steps: should be %d", (int)step, (int)json_array_size(right));
    if (sound(e->c, "end") && lk_next(it, &batch)) miss(e->c, "more steps than there should be");
    lk_free(it);
}

static void compare_sizes(scenario *e, lk_dataset *d, json_t *right)
{
    lk_iterator *it = lk_iterator_of(d);
    lk_tuple     batch;
    size_t       step = 0;
    if (!sound(e->c, "iterator")) return;
    for (; lk_next(it, &batch) && !e->c->why[0]; step++) {
        lk_tuple each = lk_local_results(e->strategy, batch.item[0]);
        json_t  *sizes = json_array_get(right, step);
        if (each.count != (int)json_array_size(sizes)) GIVE_UP(e->c, "fill: step %d is one too many", (int)step);
        for (int r = 0; r < each.count; r++)
            if (lk_size(each.item[r]) != json_integer_value(json_array_get(sizes, (size_t)r)))
                miss(e->c, "fill: %d rows on replica %d in step %d", (int)lk_size(each.item[r]), r, (int)step);
    }
    if (sound(e->c, "fill") && step != json_array_size(right)) miss(e->c, "fill: %d steps", (int)step);
    lk_free(it);
}

static lk_dataset *batched(scenario *e, const char *size)
{
    return lk_dataset_batch(rows_of_range(whole(e->c, "rows")), whole(e->c, size),
                            .drop_remainder = on_off(e->c, "drop_remainder"));
}

/* Both rules are there, whatever the default is. */
static void table_split(scenario *e)
{
    static const lk_split_rule rules[] = {LK_SPLIT_EVEN, LK_SPLIT_STREAM};
    lk_dataset                *d = batched(e, "global_batch");
    if (whole(e->c, "repeats") > 1) d = lk_dataset_repeat(d, whole(e->c, "repeats"));
    compare_steps(e, lk_distribute_dataset(e->strategy, d, rules[WORD(e->c, "rule", "E", "F")]),
                  json_object_get(e->c->json, "result"));
    compare_sizes(e, lk_distribute_dataset(e->strategy, d, LK_SPLIT_FILL), attribute(e->c, "fill_sizes"));
}

static lk_dataset *own_pipeline(const lk_input_context *context, void *user)
{
    (void)context;
    return batched(user, "per_replica_batch");
}

static void table_split_from_function(scenario *e)
{
    compare_steps(e, lk_distribute_datasets_from_function(e->strategy, own_pipeline, e), e->result);
}

/* ---- values ---- */

static lk_reduce_op op_in(scenario *e) { return lk_reduce_op_named(json_string_value(attribute(e->c, "op"))); }

static lk_tensor *reduced(scenario *e, lk_tensor *value)
{
    return has(e->c, "axis") ? lk_reduce(e->strategy, op_in(e), value, .axes = axes(e->c, "axis"))
                             : lk_reduce(e->strategy, op_in(e), value);
}

static void table_reduce(scenario *e)
{
    lk_tensor *value = spread(e, attribute(e->c, "values"), attribute(e->c, "shapes"), dtype_in(e));
    compare_json(e->c, "result", reduced(e, value), e->result);
}

static void table_gather(scenario *e)
{
    lk_tensor *value = spread(e, attribute(e->c, "values"), attribute(e->c, "shapes"), dtype_in(e));
    compare_json(e->c, "result", lk_gather_values(e->strategy, value, LK_AXIS(whole(e->c, "axis"))), e->result);
}

/* A bare 0, on which TensorFlow crashes, gives 0. */
static void table_reduce_plain(scenario *e)
{
    json_t    *value = attribute(e->c, "value");
    lk_tensor *out = reduced(e, tensor_in(value, NULL, LK_F32));
    if (json_is_number(value)) {
        attribute(e->c, "error");
        compare_json(e->c, "zero", out, value);
    } else if (e->result) compare_json(e->c, "result", out, e->result);
    else compare_error(e);
}

static void table_local_results(scenario *e)
{
    static const double numbers[] = {3, 2, 1, 5};
    lk_tensor          *item[MOST_REPLICAS], *value = NULL;
    for (int r = 0; r < e->replicas; r++)
        item[r] = lk_scalar(numbers[r]);
    switch (WORD(e->c, "of", "per-replica value", "plain tensor [1, 2]", "number 7")) {
    case 0: value = lk_values_from_function(e->strategy, picked, item); break;
    case 1: value = lk_tensor_of(LK_SHAPE(2), 1, 2); break;
    default: value = lk_scalar(7); break;
    }
    compare_replicas(e, "result", value, e->result);
}

/* z_r = sum of (r + 1) * (1, 2, 3, ... over the elements of y) * y */
REPLICA_FN(with_gradient)
{
    scenario           *e = user;
    lk_replica_context *c = lk_get_replica_context();
    json_t             *op = json_object_get(e->c->json, "op"), *axis = json_object_get(e->c->json, "axis");
    lk_tensor          *x = lk_identity(in.item[0]);
    lk_tape            *tape = lk_tape_begin();
    lk_tape_watch(tape, x);
    lk_tensor *y =
        op ? lk_all_reduce(c, lk_reduce_op_named(json_string_value(op)), x) : lk_all_gather(c, x, (int)json_integer_value(axis));
    lk_tensor *weight = lk_reshape(lk_add(lk_range(lk_size(y), LK_F32), lk_scalar(1)), lk_tensor_shape(y));
    lk_tensor *z = lk_reduce_sum(lk_mul(lk_mul(weight, y), lk_scalar(my_id() + 1)));
    return LK_TUPLE(y, lk_tape_gradient_of(tape, z, LK_TUPLE(x), NULL).item[0]);
}

static void table_collective(scenario *e)
{
    lk_tuple out = lk_run(e->strategy, with_gradient, LK_TUPLE(spread(e, attribute(e->c, "values"), NULL, LK_F32)), e);
    attribute(e->c, "op");
    attribute(e->c, "axis");
    attribute(e->c, "gradient_of");
    compare_replicas(e, "y", out.item[0], json_object_get(e->result, "y"));
    compare_replicas(e, "dx", out.item[1], json_object_get(e->result, "dx"));
}

static lk_tuple sum_of_all(lk_strategy *s, lk_tuple args, void *user)
{
    (void)user;
    lk_tuple   each = lk_local_results(s, args.item[0]);
    lk_tensor *sum = each.item[0];
    for (int r = 1; r < each.count; r++)
        sum = lk_add(sum, each.item[r]);
    return LK_TUPLE(sum);
}

REPLICA_FN(merge_and_add)
{
    lk_tensor *v = lk_fill(LK_SHAPE(), LK_F32, 3 + my_id());
    return LK_TUPLE(lk_add(lk_merge_call(lk_get_replica_context(), sum_of_all, LK_TUPLE(v), NULL).item[0], v));
}

static void table_merge_call(scenario *e)
{
    WORD(e->c, "about", "v = 3 + id; merge sums the values, the replica adds its own");
    compare_replicas(e, "result", lk_run(e->strategy, merge_and_add).item[0], e->result);
}

/* ---- variables ---- */

typedef lk_status      assigner(lk_variable *v, lk_tensor *x);
static assigner *const ASSIGN[] = {lk_assign, lk_assign_add, lk_assign_sub};

typedef struct assignment {
    lk_variable *v;
    assigner    *assign;
    double       first; /* replica r brings first + r */
    lk_tensor   *same;  /* or all the same tensor */
} assignment;

static lk_aggregation aggregation_in(scenario *e)
{
    static const lk_aggregation all[] = {LK_AGGREGATION_NONE, LK_AGGREGATION_SUM, LK_AGGREGATION_MEAN,
                                         LK_AGGREGATION_ONLY_FIRST_REPLICA};
    return all[WORD(e->c, "aggregation", "NONE", "SUM", "MEAN", "ONLY_FIRST_REPLICA")];
}

static lk_variable *variable_in(scenario *e, lk_tensor *start, lk_synchronization synchronization)
{
    lk_variable *v = NULL;
    LK_SCOPE(e->strategy) {
        v = lk_variable_of(start, .aggregation = aggregation_in(e), .synchronization = synchronization);
    }
    return v;
}

REPLICA_FN(assign_in_replica)
{
    assignment *a = user;
    a->assign(a->v, a->same ? a->same : lk_fill(LK_SHAPE(), LK_F32, a->first + my_id()));
    return LK_TUPLE();
}

/* The read value is asked for inside the wanted error. */
static void compare_variable(scenario *e, lk_variable *v)
{
    lk_tensor *read = v ? lk_read(v) : NULL;
    if (!e->result) {
        compare_error(e);
        return;
    }
    compare_components(e, v, json_object_get(e->result, "components"));
    compare_json(e->c, "read", read, json_object_get(e->result, "read"));
}

static void table_assign(scenario *e)
{
    bool       in_replica = WORD(e->c, "context", "cross-replica", "replica"), constant = true;
    assignment a = {variable_in(e, lk_fill(LK_SHAPE(), LK_F32, real(e->c, "start")), LK_SYNC_AUTO),
                    ASSIGN[WORD(e->c, "method", "assign", "assign_add", "assign_sub")], 1, lk_fill(LK_SHAPE(), LK_F32, 5)};
    if (in_replica) constant = WORD(e->c, "value", "replica id + 1", "the constant 5.0");
    else if (real(e->c, "value") != 5) miss(e->c, "the value is not 5");
    if (!constant) a.same = NULL;
    if (in_replica) lk_run(e->strategy, assign_in_replica, .user = &a);
    else a.assign(a.v, a.same);
    if (e->differs) compare_error(e); /* unequal values without an aggregation */
    else compare_variable(e, a.v);
}

REPLICA_FN(scatter_in_replica)
{
    scenario *e = ((void **)user)[0];
    lk_scatter_add(((void **)user)[1],
                   lk_cast(lk_fill(LK_SHAPE(1), LK_F32, json_number_value(json_object_get(e->c->json, "index"))), LK_I64),
                   lk_fill(LK_SHAPE(1), LK_F32, json_number_value(json_object_get(e->c->json, "value"))));
    return LK_TUPLE();
}

static void table_scatter_add(scenario *e)
{
    lk_variable *v = variable_in(e, tensor_in(attribute(e->c, "start"), NULL, LK_F32), LK_SYNC_AUTO);
    attribute(e->c, "index");
    attribute(e->c, "value");
    lk_run(e->strategy, scatter_in_replica, .user = (void *[]){e, v});
    compare_components(e, v, json_object_get(e->result, "components"));
}

/* The remainder of an integer goes to the first components, so that they add up. */
static void compare_shares(scenario *e, lk_variable *v, int total)
{
    lk_tuple each = lk_local_variables(e->strategy, v);
    for (int r = 0; r < each.count; r++)
        compare_number(e->c, "share", at(each.item[r], 0), total / e->replicas + (r < total % e->replicas));
    compare_number(e->c, "read", at(lk_read(v), 0), total);
}

static void table_sync_on_read(scenario *e)
{
    int does =
        WORD(e->c, "does", "assign_add(5 + id) in the replicas, then read", "cross-replica assign", "cross-replica assign_add");
    lk_dtype     dtype = does ? dtype_in(e) : LK_F32;
    lk_variable *v = variable_in(e, lk_fill(LK_SHAPE(), dtype, 0), LK_SYNC_ON_READ);
    if (!does) lk_run(e->strategy, assign_in_replica, .user = &(assignment){v, lk_assign_add, 5, NULL});
    double value = does ? real(e->c, "value") : 0;
    if (does && v) ASSIGN[does - 1](v, lk_fill(LK_SHAPE(), dtype, value));
    if (e->differs) compare_shares(e, v, (int)value);
    else compare_variable(e, v);
}

static void table_outside_variable(scenario *e)
{
    lk_variable *v = lk_variable_of(lk_fill(LK_SHAPE(), LK_F32, real(e->c, "start")));
    WORD(e->c, "does", "assign_add(id + 1) from every replica");
    lk_run(e->strategy, assign_in_replica, .user = &(assignment){v, lk_assign_add, 1, NULL});
    compare_json(e->c, "result", lk_read(v), e->result);
}

#endif
