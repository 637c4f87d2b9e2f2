/* Section 18 of the specification as one table: for each number the test that makes the error and checks its code and the words of
 * its message (what was called, where, the offending value, what to do instead); or why there is none here. The other files of this
 * folder make the same errors in more ways. */
#include "dist/replicas.h"
#include <unistd.h>

static lk_strategy *two, *other; /* mirrored ones of two replicas, made for each row */

REPLICA_FN(nothing) { return LK_TUPLE(); }

REPLICA_FN(pass_on) { return in; }

#define UNTIL_HERE EXPECT(!lk_failed())

/* ---- 1 to 6: strategies and scopes ---- */

static void devices(void)
{
    REFUSED(LK_EINVAL, lk_mirrored_strategy(.devices = LK_DEVICES("CPU:0", "/cpu:0")), "lk_mirrored_strategy", "duplicates",
            "/job:localhost/replica:0/task:0/device:CPU:0");
    REFUSED(LK_EINVAL, lk_mirrored_strategy(.devices = LK_DEVICES("CPU:0", "CPU:900")), "lk_mirrored_strategy", "no device",
            "CPU:900", "there are CPU:0", ".cpu_devices");
    REFUSED(LK_EINVAL, lk_mirrored_strategy(.devices = LK_DEVICES("CPU:0", "/job:w/task:0/cpu:0")), "local and remote", "mixed");
    REFUSED(LK_EINVAL, lk_mirrored_strategy(.devices = LK_DEVICES("/job:w/cpu:0")), "/job:w/cpu:0", "no task number", "task:0");
    REFUSED(LK_EINVAL, lk_mirrored_strategy(.devices = LK_DEVICES("/job:w/task:0/cpu:0", "/job:w/task:1/cpu:0")),
            "more than one worker", "multi-worker");
    REFUSED(LK_EINVAL, lk_mirrored_strategy(.devices = LK_DEVICES("C", "P", "U")), "\"C\"", "not a device", "\"CPU:0\"");
}

REPLICA_FN(scope_in_replica)
{
    EXPECT(lk_scope_begin(two) == LK_ESTATE);
    EXPECT_TOLD(LK_ESTATE, "LK_SCOPE", "replica context", "outside lk_run()", "lk_merge_call()");
    return LK_TUPLE();
}

static void scopes(void)
{
    LK_SCOPE(two) {
        REFUSED(LK_ESTATE, lk_scope_begin(other), "LK_SCOPE(MirroredStrategy", "inside the scope of MirroredStrategy", "mixed",
                "leave the first one");
        REFUSED(LK_ESTATE, lk_scope_begin(lk_default_strategy()), "default strategy", "must not be nested");
        REFUSED(LK_ESTATE, lk_set_strategy(other), "lk_set_strategy", "inside the scope of MirroredStrategy", "leave it first");
    }
    lk_run(two, scope_in_replica);
}

static void order_of_scopes(void)
{
    REFUSED(LK_ESTATE, lk_scope_end(two), "lk_scope_end(MirroredStrategy", "no scope is open");
    LK_SCOPE(two) {
        REFUSED(LK_ESTATE, lk_scope_end(other), "lk_scope_end(MirroredStrategy", "innermost open scope is that of MirroredStrategy",
                "reverse order");
    }
}

static lk_dataset *no_dataset(const lk_input_context *c, void *user)
{
    (void)c, (void)user;
    return NULL;
}

REPLICA_FN(cross_calls)
{
    lk_tensor *x = lk_scalar(1);
#define HERE(expression, name)                                                                                                     \
    (void)(expression);                                                                                                            \
    EXPECT_TOLD(LK_ESTATE, name, "in replica context", my_id() ? "replica 1 of" : "replica 0 of", "outside lk_run()",              \
                "lk_merge_call()")
    HERE(lk_run(two, nothing), "lk_run");
    HERE(lk_reduce(two, LK_SUM, x), "lk_reduce");
    HERE(lk_gather_values(two, x), "lk_gather_values");
    HERE(lk_distribute_dataset(two, user), "lk_distribute_dataset");
    HERE(lk_distribute_datasets_from_function(two, no_dataset), "lk_distribute_datasets_from_function");
    HERE(lk_extended_worker_devices(two), "lk_extended_worker_devices");
    HERE(lk_extended_reduce_to(two, LK_SUM, x, LK_TO(.device = "CPU:0")), "lk_extended_reduce_to");
    return LK_TUPLE();
}

static void speaking_for_all(void) { lk_run(two, cross_calls, .user = lk_dataset_batch(lk_dataset_range(8), 4)); }

static void another_strategy(void)
{
    lk_variable *v = MADE(two, lk_scalar(1), "v");
    LK_SCOPE(other) {
        REFUSED(LK_ESTATE, lk_run(two, nothing), "lk_run", "of MirroredStrategy", "inside the scope of MirroredStrategy",
                "leave that scope");
        REFUSED(LK_ESTATE, lk_reduce(two, LK_MEAN, lk_scalar(1)), "lk_reduce", "inside the scope of MirroredStrategy");
        REFUSED(LK_ESTATE, lk_distribute_dataset(two, lk_dataset_batch(lk_dataset_range(8), 4)), "lk_distribute_dataset",
                "inside the scope of");
        REFUSED(LK_ESTATE, lk_read(v), "lk_read", "\"v\"", "another strategy", "use it in the scope it was made in");
        REFUSED(LK_ESTATE, lk_assign(v, lk_scalar(1)), "lk_assign", "\"v\"", "another strategy");
    }
}

static void without_a_scope(void)
{
    lk_variable *v = MADE(two, lk_scalar(1), "v");
    LK_COLOCATE(two, v) {
        EXPECT(false);
    }
    EXPECT_TOLD(LK_ESTATE, "LK_COLOCATE", "needs the scope of MirroredStrategy", "LK_SCOPE()");
}

/* ---- 8 to 12: run ---- */

REPLICA_FN(other_lengths) { return my_id() ? LK_TUPLE(mine(0), mine(1)) : LK_TUPLE(mine(0)); }

REPLICA_FN(other_structures) { return LK_TUPLE(my_id() ? lk_nest(LK_TUPLE(mine(0))) : mine(0)); }

static void structures(void)
{
    REFUSED(LK_EINVAL, lk_run(two, other_lengths), "lk_run", "replica 0 returned 1 values", "replica 1 returned 2",
            "same structure");
    REFUSED(LK_EINVAL, lk_run(two, other_structures), "lk_run", "replica 1 returned a tuple", "replica 0 returned a tensor",
            "same structure");
}

REPLICA_FN(one_reduces)
{
    if (my_id()) lk_all_reduce(lk_get_replica_context(), LK_SUM, mine(0));
    return LK_TUPLE();
}

REPLICA_FN(other_orders)
{
    lk_replica_context *c = lk_get_replica_context();
    return LK_TUPLE(my_id() ? lk_all_reduce(c, LK_SUM, VECTOR(1)) : lk_all_gather(c, VECTOR(1), 0));
}

static void synchronisation(void)
{
    REFUSED(LK_ESTATE, lk_run(two, one_reduces), "lk_run", "replica 0 returned", "replica 1 waits in lk_all_reduce",
            "all must take part, in the same order");
    REFUSED(LK_ESTATE, lk_run(two, other_orders), "lk_run", "replica 0 waits in lk_all_gather", "replica 1 waits in lk_all_reduce");
}

MERGE_FN(merged) { return in; }

typedef enum branch { BOTH, ONE } branch;

REPLICA_FN(merge_in_branch)
{
    if (*(branch *)user == BOTH || my_id()) return lk_merge_call(lk_get_replica_context(), merged, LK_TUPLE(mine(1)), NULL);
    return LK_TUPLE(mine(1));
}

static lk_tuple run_merges(lk_tuple in, void *user) { return lk_run(two, merge_in_branch, in, user); }

static void merges_in_branches(void)
{
    branch both = BOTH, one = ONE;
    PER_REPLICA(two, lk_run(two, merge_in_branch, .user = &both).item[0], 1, 2); /* allowed when all replicas take it */
    REFUSED(LK_ESTATE, lk_run(two, merge_in_branch, .user = &one), "replica 0 returned", "replica 1 waits in lk_merge_call");
    PER_REPLICA(two, lk_call(lk_function_of(run_merges, &both), LK_TUPLE()).item[0], 1, 2); /* also in a compiled function */
    REFUSED(LK_ESTATE, lk_call(lk_function_of(run_merges, &one), LK_TUPLE()), "replica 0 returned",
            "replica 1 waits in lk_merge_call");
}

static lk_replica_context *kept;

REPLICA_FN(keep_first)
{
    if (!my_id()) kept = lk_get_replica_context();
    return LK_TUPLE();
}

REPLICA_FN(use_first)
{
    if (!my_id()) return LK_TUPLE();
    EXPECT(lk_poisoned(lk_all_reduce(kept, LK_SUM, lk_scalar(1))));
    EXPECT_TOLD(LK_ESTATE, "lk_all_reduce", "of replica 0, but this is replica 1", "lk_get_replica_context()");
    return LK_TUPLE();
}

REPLICA_FN(use_of_another_strategy)
{
    EXPECT(lk_replica_id_in_sync_group(kept) == -1);
    EXPECT_TOLD(LK_ESTATE, "lk_replica_id_in_sync_group", "another strategy, MirroredStrategy",
                "this is a replica of MirroredStrategy");
    return LK_TUPLE();
}

static void contexts(void)
{
    lk_run(two, keep_first);
    REFUSED(LK_ESTATE, lk_all_reduce(kept, LK_SUM, lk_scalar(1)), "lk_all_reduce", "context of replica 0 of MirroredStrategy",
            "outside lk_run()", "lk_get_replica_context()");
    lk_run(two, use_first);
    lk_run(other, use_of_another_strategy);
}

static void per_replica_as_tensor(void)
{
    lk_tensor *x = SPREAD(two, lk_scalar(1), lk_scalar(2));
    REFUSED(LK_EINVAL, lk_add(x, lk_scalar(1)), "add", "operand 1", "per-replica value", "lk_run()", "lk_reduce()",
            "lk_gather_values()", "lk_local_results()");
    REFUSED(LK_EINVAL, lk_item(x), "per-replica value", "lk_reduce()");
}

/* ---- 13 to 17: variables ---- */

REPLICA_FN(other_names)
{
    lk_variable_of(lk_scalar(1), .name = my_id() ? "bias" : "kernel");
    return LK_TUPLE();
}

static void making_variables(void)
{
    REFUSED(LK_EINVAL, MADE(two, lk_scalar(1), "v", .synchronization = LK_SYNC_NONE), "lk_variable_of \"v\"", "LK_SYNC_NONE",
            "LK_SYNC_ON_WRITE or LK_SYNC_ON_READ");
    REFUSED(LK_EINVAL, MADE(two, VECTOR_OF(LK_I32, 1), "v", .aggregation = MEAN), "lk_variable_of \"v\"",
            "LK_AGGREGATION_MEAN of i32", "float");
    REFUSED(LK_EINVAL, MADE(two, lk_scalar(1), "v", .aggregation = (lk_aggregation)8), "lk_variable_of \"v\"", "aggregation 8",
            "no such choice");
    REFUSED(LK_EINVAL, lk_run(two, other_names), "lk_variable_of", "mismatching name on device CPU:1", "\"kernel\"", "\"bias\"",
            "same order");
}

REPLICA_FN(assign_own)
{
    lk_assign(user, lk_cast(mine(1), lk_variable_dtype(user)));
    return LK_TUPLE();
}

REPLICA_FN(assign_given)
{
    lk_assign(user, in.item[0]);
    return LK_TUPLE();
}

static void assigning(void)
{
    REFUSED(LK_EINVAL, lk_run(two, assign_own, .user = MADE(two, lk_scalar(1), "v")), "assign of \"v\"", "different values",
            "LK_AGGREGATION_NONE", ".aggregation = LK_AGGREGATION_SUM", "LK_SYNC_ON_READ");
    REFUSED(LK_EINVAL, lk_run(two, assign_given, LK_TUPLE(lk_scalar(5)), MADE(two, lk_scalar(1), "v", .aggregation = SUM)),
            "assign of \"v\"", "LK_AGGREGATION_SUM", "2 replicas", "cannot be summed", "in each replica");
    lk_tensor *ints = SPREAD(two, lk_fill(LK_SHAPE(), LK_I32, 1), lk_fill(LK_SHAPE(), LK_I32, 2));
    REFUSED(LK_EINVAL, lk_run(two, assign_given, LK_TUPLE(ints), MADE(two, lk_scalar(1), "v", .aggregation = MEAN)),
            "assign of \"v\"", "LK_AGGREGATION_MEAN of i32", "float");
    REFUSED(LK_EINVAL, lk_assign(MADE(two, lk_scalar(1), "v"), SPREAD(two, lk_scalar(1), lk_scalar(2))), "lk_assign to \"v\"",
            "per-replica value", "lk_reduce()");
}

/* Section 5 has scatter updates "not supported"; the others are wrong values. */
static void on_read(void)
{
    lk_variable *none = ON_READ(two, NONE, lk_scalar(0), "none"), *sum = ON_READ(two, SUM, VECTOR(0, 0), "sum");
    REFUSED(LK_EINVAL, lk_read(none), "lk_read", "\"none\"", "no aggregation", "make it with .aggregation");
    REFUSED(LK_EINVAL, lk_assign_add(sum, VECTOR(1, 1)), "assign_add", "\"sum\"", "LK_AGGREGATION_SUM", "assign the sum");
    REFUSED(LK_EINVAL, lk_assign_sub(sum, VECTOR(1, 1)), "assign_sub", "\"sum\"", "LK_AGGREGATION_SUM", "assign the sum");
    REFUSED(LK_EINVAL, lk_scatter_add(sum, VECTOR_OF(LK_I64, 0), VECTOR(1)), "scatter", "\"sum\"", "does not support scatter");
}

REPLICA_FN(scatter_in_replica)
{
    scatterer *scatter = *(scatterer **)user;
    scatter(((void **)user)[1], VECTOR_OF(LK_I64, 0), VECTOR(1));
    return LK_TUPLE();
}

static void scattering(void)
{
    for (int which = 4; which < 7; which++)
        for (int how = 1; how < 3; how++) {
            struct {
                scatterer   *scatter;
                lk_variable *v;
            } k = {SCATTER[which], MADE(two, VECTOR(1, 2), "v", .aggregation = ALL[how])};
            REFUSED(LK_EUNSUPPORTED, lk_run(two, scatter_in_replica, .user = &k), "scatter min, max or update of \"v\"",
                    how == 1 ? "LK_AGGREGATION_SUM" : "LK_AGGREGATION_MEAN", "LK_AGGREGATION_NONE or _ONLY_FIRST_REPLICA");
        }
}

static void handles(void)
{
    REFUSED(LK_EINVAL, lk_variable_data(MADE(two, lk_scalar(1), "v")), "lk_variable_data", "\"v\"", "MirroredStrategy", "lk_run()",
            "lk_extended_update()", "lk_read()");
}

/* ---- 19 and 20: values ---- */

static void reducing(void)
{
    lk_tensor *x = SPREAD(two, VECTOR(1, 2), VECTOR(3, 4)), *same = lk_cross_broadcast(two, NULL, lk_scalar(1), LK_TO(.value = x));
    REFUSED(LK_EINVAL, lk_reduce(two, lk_reduce_op_named("max"), x), "\"max\"", "\"sum\" or \"mean\"");
    REFUSED(LK_EINVAL, lk_reduce(two, (lk_reduce_op)3, x), "lk_reduce", "no reduction 3", "LK_SUM or LK_MEAN");
    REFUSED(LK_EINVAL, lk_reduce(two, LK_SUM, x, LK_AXIS(3)), "lk_reduce", "axis 3", "rank 1");
    REFUSED(LK_ESHAPE, lk_reduce(two, LK_SUM, SPREAD(two, VECTOR(1), VECTOR(1, 2))), "lk_reduce", "replica 0 has [1]",
            "replica 1 [2]", "along an axis");
    REFUSED(LK_EINVAL, lk_reduce(two, LK_SUM, lk_scalar(1)), "lk_reduce", "plain value", "2 replicas", "use LK_MEAN");
    REFUSED(LK_EINVAL, lk_reduce(two, LK_SUM, same), "lk_reduce", "mirrored value", "use LK_MEAN");
}

REPLICA_FN(gather_rows)
{
    lk_tape   *tape = lk_tape_begin();
    lk_tensor *loss = lk_reduce_sum(lk_nn_embedding(VECTOR_OF(LK_I64, 1), lk_read(user)));
    return LK_TUPLE(lk_all_gather(lk_get_replica_context(), lk_grads_item(lk_tape_gradient(tape, loss, LK_VARIABLES(user)), 0), 0));
}

REPLICA_FN(gather_scalars) { return LK_TUPLE(lk_all_gather(lk_get_replica_context(), mine(0), 0)); }

static void gathering(void)
{
    REFUSED(LK_EINVAL, lk_gather_values(two, SPREAD(two, lk_scalar(1), lk_scalar(2))), "lk_gather_values", "replica 0 has a scalar",
            "lk_reshape");
    REFUSED(LK_EINVAL, lk_gather_values(two, SPREAD(two, lk_ones(LK_SHAPE(1, 2), LK_F32), lk_ones(LK_SHAPE(1, 3), LK_F32))),
            "lk_gather_values", "replica 0 has [1, 2]", "replica 1 [1, 3]", "along axis 0 only");
    REFUSED(LK_EINVAL, lk_run(two, gather_scalars), "lk_all_gather", "replica 0 has a scalar", "lk_reshape");
    REFUSED(LK_EUNSUPPORTED, lk_run(two, gather_rows, .user = MADE(two, lk_ones(LK_SHAPE(3, 2), LK_F32))), "lk_all_gather",
            "replica 0", "made of rows", "cannot be gathered");
}

/* ---- 21 to 27: datasets ---- */

static void first_element(lk_dataset *d)
{
    LK_FOR_EACH(batch, d) {
        EXPECT(batch.count > 0);
        break;
    }
}

static void unbatched(void)
{
    REFUSED(LK_EINVAL, lk_distribute_dataset(two, lk_dataset_range(8)), "lk_distribute_dataset", "not batched", "2 replicas",
            "call lk_dataset_batch first");
    REFUSED(LK_EINVAL, first_element(lk_distribute_dataset(two, lk_dataset_from_tensors(LK_TUPLE(lk_scalar(1))))),
            "lk_distribute_dataset", "batch");
}

static int uneven(int64_t index, lk_tuple *element, void *user)
{
    (void)user;
    if (index) return 0;
    *element = LK_TUPLE(lk_ones(LK_SHAPE(4, 1), LK_F32), lk_ones(LK_SHAPE(3, 1), LK_F32));
    return 1;
}

static void uneven_components(void)
{
    lk_dataset *d = lk_distribute_dataset(two, lk_dataset_from_generator(uneven, NULL));
    UNTIL_HERE;
    REFUSED(LK_EINVAL, first_element(d), "lk_distribute_dataset", "tensor 1", "has 3 rows", "has 4", "same batch size");
}

static void batch_sizes(void)
{
    lk_input_context c = {1, 0, 2};
    REFUSED(LK_EINVAL, lk_per_replica_batch_size(&c, 7), "lk_per_replica_batch_size", "7", "2 replicas", "multiple of 2");
}

static void workers(void)
{
    lk_input_context c = {3, 0, 4};
    REFUSED(LK_EINVAL, lk_per_replica_batch_size(&c, 12), "lk_per_replica_batch_size", "4 replicas", "3 input pipelines");
}

static lk_dataset *some_dataset(const lk_input_context *c, void *user)
{
    (void)c, (void)user;
    return lk_dataset_batch(lk_dataset_range(8), 2);
}

static void input_per_replica(void)
{
    lk_dataset *d = lk_dataset_batch(lk_dataset_range(8), 4);
    REFUSED(LK_EUNSUPPORTED, lk_distribute_dataset(two, d, .replication = LK_PER_REPLICA_INPUT), "lk_distribute_dataset",
            "LK_PER_REPLICA_INPUT", "lk_distribute_datasets_from_function()");
    REFUSED(
        LK_EUNSUPPORTED,
        lk_distribute_datasets_from_function(lk_one_device_strategy("CPU:0"), some_dataset, .replication = LK_PER_REPLICA_INPUT),
        "lk_distribute_datasets_from_function", "LK_PER_REPLICA_INPUT", "OneDeviceStrategy", "mirrored strategy");
    REFUSED(LK_EINVAL, lk_distribute_datasets_from_function(two, some_dataset, .place_on_device = LK_ON),
            "lk_distribute_datasets_from_function", ".place_on_device", "LK_PER_REPLICA_INPUT");
}

REPLICA_FN(next_in_replica)
{
    lk_tuple element;
    EXPECT(!lk_next(user, &element));
    EXPECT_TOLD(LK_EINVAL, "lk_next", "inside lk_run()", "outside",
                "argument"); /* the table says value; it is the place that is wrong */
    return LK_TUPLE();
}

static void iterating(void)
{
    lk_dataset *d = lk_distribute_dataset(two, lk_dataset_batch(lk_dataset_range(8), 4));
    lk_run(two, next_in_replica, .user = lk_iterator_of(d));
    REFUSED(LK_EINVAL, lk_dataset_batch(d, 2), "lk_dataset_batch", "distributed");
    REFUSED(LK_EINVAL, lk_dataset_repeat(d), "lk_dataset_repeat", "distributed");
}

static void too_few_files(void)
{
    char path[] = "/tmp/lockstep-misuse-XXXXXX";
    int  file = mkstemp(path);
    assert_true(file >= 0);
    lk_dataset *d = lk_dataset_batch(lk_text_line_dataset(LK_FILES(path)), 4);
    REFUSED(LK_EINVAL, lk_distribute_dataset(two, d, .workers = 2, .auto_shard = LK_SHARD_FILE), "lk_distribute_dataset",
            "1 files for 2 workers", "LK_SHARD_DATA or LK_SHARD_OFF");
    close(file);
    unlink(path);
}

/* ---- 28 to 31: losses and optimisers ---- */

REPLICA_FN(losses_in_replica)
{
    EXPECT(lk_poisoned(lk_compute_average_loss(mine(1))));
    EXPECT_TOLD(LK_ESHAPE, "lk_compute_average_loss", "scalar", "one value per example");
    EXPECT(lk_poisoned(lk_compute_average_loss(VECTOR(1), .global_batch_size = -2)));
    EXPECT_TOLD(LK_EINVAL, "lk_compute_average_loss", "global_batch_size is -2", "0 or more");
    EXPECT(lk_poisoned(lk_compute_average_loss(VECTOR(1), .batch_size = LK_NUMBER(2.5))));
    EXPECT_TOLD(LK_EINVAL, "lk_compute_average_loss", "2.5", "integer");
    return LK_TUPLE();
}

static void losses(void)
{
    lk_run(two, losses_in_replica);
    LK_SCOPE(two) {
        REFUSED(LK_ESTATE, lk_compute_average_loss(VECTOR(1)), "lk_compute_average_loss", "cross-replica context",
                "global_batch_size", "lk_run()");
        REFUSED(LK_ESTATE, lk_scale_regularization_loss(lk_scalar(1)), "lk_scale_regularization_loss", "cross-replica context",
                "lk_run()");
    }
}

REPLICA_FN(loss_objects_in_replica)
{
    for (int i = 0; i < 2; i++) {
        lk_loss *loss = lk_mean_squared_error(.reduction = i ? LK_REDUCTION_SUM_OVER_BATCH_SIZE : LK_REDUCTION_AUTO);
        EXPECT(lk_poisoned(lk_loss_call(loss, VECTOR(1), VECTOR(2))));
        EXPECT_TOLD(LK_EINVAL, i ? "SUM_OVER_BATCH_SIZE" : "AUTO", "LK_REDUCTION_NONE", "LK_REDUCTION_SUM",
                    "lk_compute_average_loss");
    }
    return LK_TUPLE();
}

static void loss_objects(void)
{
    lk_run(two, loss_objects_in_replica);
    REFUSED(LK_EINVAL, lk_mean_squared_error(.reduction = (lk_reduction)17), "17");
}

REPLICA_FN(apply_to)
{
    lk_variable **v = user;
    lk_optimizer_apply_gradients((lk_optimizer *)v[0], LK_TUPLE(v[2] ? mine(1) : NULL), LK_VARIABLES(v[1]));
    return LK_TUPLE();
}

static void optimizers(void)
{
    lk_variable  *v = MADE(two, lk_scalar(1), "v"), *unknown = MADE(two, lk_scalar(1), "unknown");
    lk_optimizer *o = lk_sgd(), *scheduled = lk_sgd(.schedule = lk_exponential_decay(0.1, 10, 0.5));
    REFUSED(LK_EINVAL, lk_run(two, apply_to, .user = (void *[]){o, v, NULL}), "sgd", "no gradients");
    lk_run(two, apply_to, .user = (void *[]){o, v, v});
    UNTIL_HERE;
    REFUSED(LK_EINVAL, lk_run(two, apply_to, .user = (void *[]){o, unknown, v}), "sgd", "unknown",
            "did not exist at the first apply", "another optimiser");
    REFUSED(LK_EINVAL, lk_sgd(.clipnorm = 1, .clipvalue = 1), "clip");
    REFUSED(LK_EINVAL, lk_optimizer_set_learning_rate(scheduled, 0.1), "sgd", "schedule",
            "cannot be set"); /* the table says value */
}

static void places(void)
{
    lk_variable *foreign = MADE(other, lk_scalar(1), "foreign"), *outside = lk_variable_of(lk_scalar(1), .name = "outside");
    LK_SCOPE(two) {
        LK_COLOCATE(two, foreign) {
            EXPECT(false);
        }
        EXPECT_TOLD(LK_EINVAL, "LK_COLOCATE", "\"foreign\"", "not made in the scope of MirroredStrategy",
                    "only variables of that strategy");
        LK_COLOCATE(two, outside) {
            EXPECT(false);
        }
        EXPECT_TOLD(LK_EINVAL, "LK_COLOCATE", "\"outside\"", "not made in the scope of MirroredStrategy");
    }
    REFUSED(LK_ESTATE, lk_run(two, apply_to, .user = (void *[]){lk_adam(), outside, outside}), "adam", "\"outside\"",
            "outside the scope of MirroredStrategy", "LK_SCOPE()");
    REFUSED(LK_ESTATE, lk_run(two, apply_to, .user = (void *[]){lk_adam(), foreign, foreign}), "adam", "\"foreign\"",
            "another strategy");
}

/* ---- 32, 33, 38: between devices ---- */

static void cross_device(void)
{
    lk_tensor *x = SPREAD(two, lk_scalar(1), lk_scalar(2));
    REFUSED(LK_EINVAL, lk_nccl_all_reduce(.num_packs = LK_NUMBER(-1)), "lk_nccl_all_reduce", "num_packs is -1",
            "0 (no packing) or more");
    REFUSED(LK_EINVAL, lk_cross_reduce(two, NULL, LK_SUM, x, LK_TO(.device = "elsewhere")), "lk_cross_reduce", "\"elsewhere\"",
            "not a device");
    REFUSED(LK_EINVAL, lk_cross_reduce(two, NULL, LK_SUM, x, LK_TO()), "lk_cross_reduce", "destination is empty",
            "LK_TO(.value = ...)");
    lk_destination to[] = {LK_TO(.device = "CPU:0"), LK_TO(.device = "CPU:0")};
    REFUSED(LK_EINVAL, lk_cross_batch_reduce(two, NULL, LK_SUM, LK_TUPLE(x, lk_scalar(1)), to), "lk_cross_batch_reduce",
            "1 of 2 values", "host and on the devices", "mixed");
}

REPLICA_FN(one_is_late)
{
    if (my_id()) sleep_for(0.05);
    return LK_TUPLE(lk_all_reduce(lk_get_replica_context(), LK_SUM, mine(1)));
}

static void communication(void)
{
    REFUSED(LK_EINVAL, lk_collective_all_reduce((lk_communication_options){.bytes_per_pack = -1}), "lk_collective_all_reduce",
            "bytes_per_pack is -1", "0 (one pack) or more");
    REFUSED(LK_EINVAL, lk_mirrored_strategy(.communication.implementation = (lk_communication)4), "lk_mirrored_strategy",
            "implementation 4", "LK_COMMUNICATION_AUTO");
    lk_strategy *hasty = lk_mirrored_strategy(.cpu_devices = 2, .communication.timeout_seconds = 0.01);
    REFUSED(LK_EDEADLINE, lk_run(hasty, one_is_late), "replica 0 of 2", "lk_all_reduce", "deadline of 0.01 seconds",
            "missing: replica 1");
}

REPLICA_FN(one_fails)
{
    if (my_id()) return LK_TUPLE(lk_add(VECTOR(1, 2), VECTOR(1, 2, 3)));
    EXPECT(lk_poisoned(lk_all_reduce(lk_get_replica_context(), LK_SUM, mine(1))));
    EXPECT(lk_error_code() == LK_ESHAPE &&
           strstr(lk_error(), "replica 1 of 2 on CPU:1")); /* the waiting one hears who failed, and of what */
    return LK_TUPLE();
}

static void failed_peers(void) { REFUSED(LK_ESHAPE, lk_run(two, one_fails), "replica 1 of 2 on CPU:1", "add of [2] f32, [3] f32"); }

/* ---- the table ---- */

static const struct row {
    int number;
    void (*check)(void);
    const char *why_not, *also;
} ROWS[] = {
    {1, devices, NULL, "dist/devices.c; a bare string instead of a list does not compile"},
    {2, scopes, NULL, "dist/context.c"},
    {3, order_of_scopes, NULL, "dist/context.c"},
    {4, speaking_for_all, NULL, "dist/run.c has every call"},
    {5, another_strategy, NULL, "dist/context.c"},
    {6, without_a_scope, NULL, "variables can be made anywhere: without a scope they are ordinary ones"},
    {7, NULL, "args is an lk_tuple: nothing else compiles; one without items is refused in dist/run.c", NULL},
    {8, structures, NULL, "dist/run.c"},
    {9, synchronisation, NULL, "dist/run.c, dist/hangs.c"},
    {10, merges_in_branches, NULL, "allowed here, as the row says"},
    {11, contexts, NULL, "dist/collectives.c"},
    {12, per_replica_as_tensor, NULL, "dist/values.c"},
    {13, making_variables, NULL, "dist/variables.c"},
    {14, assigning, NULL, "dist/variables.c"},
    {15, on_read, NULL, "dist/on_read.c"},
    {16, scattering, NULL, "dist/variables.c"},
    {17, handles, NULL, "dist/on_read.c"},
    {18, NULL, "objects are opaque: C cannot copy them", NULL},
    {19, reducing, NULL, "dist/values.c; an axis that is not a number does not compile"},
    {20, gathering, NULL, "dist/values.c, dist/collectives.c"},
    {21, unbatched, NULL, "tests/data"},
    {22, uneven_components, NULL, "tests/data"},
    {23, batch_sizes, NULL, "tests/data"},
    {24, workers, NULL, "tests/data"},
    {25, input_per_replica, NULL, "tests/data"},
    {26, iterating, NULL, "tests/data"},
    {27, too_few_files, NULL, "tests/data"},
    {28, losses, NULL, "tests/model"},
    {29, loss_objects, NULL, "tests/model"},
    {30, optimizers, NULL, "op/optimizer.c; a rate is a double: nothing else compiles"},
    {31, places, NULL, "dist/cross.c"},
    {32, cross_device, NULL, "dist/cross.c"},
    {33, communication, NULL, "dist/cross.c"},
    {34, NULL, "checkpoints: tests/model/checkpoint.c", NULL},
    {35, NULL, "checkpoints: tests/model/checkpoint.c", NULL},
    {36, NULL, "fit and evaluate are not there yet", NULL},
    {37, NULL, "clusters are not there yet", NULL},
    {38, failed_peers, NULL,
     "within one process the cause itself is told; LK_EPEER is for peers on other machines, which are not there yet"},
};

static void run_row(void **state)
{
    const struct row *row = *state;
    LK_POOL {
        two = mirrored(2);
        other = mirrored(2);
        if (row->check) row->check();
        else print_message("%d: %s\n", row->number, row->why_not);
        SOUND();
        PER_REPLICA(two, lk_run(two, pass_on, LK_TUPLE(SPREAD(two, lk_scalar(1), lk_scalar(2)))).item[0], 1,
                    2); /* usable after any of them */
        SOUND();
    }
}

TEST(the_table_is_complete)
{
    assert_int_equal(LKI_COUNT(ROWS), 38);
    for (int i = 0; i < 38; i++) {
        assert_int_equal(ROWS[i].number, i + 1);
        assert_true(!ROWS[i].check == (ROWS[i].why_not != NULL));
    }
}

int main(int argc, char **argv)
{
    (void)argc, (void)argv;
    static char       names[38][16];
    struct CMUnitTest tests[39] = {cmocka_unit_test(the_table_is_complete)};
    for (int i = 0; i < 38; i++) {
        snprintf(names[i], sizeof names[i], "row %d", ROWS[i].number);
        tests[1 + i] = (struct CMUnitTest){names[i], run_row, NULL, NULL, (void *)&ROWS[i]};
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
