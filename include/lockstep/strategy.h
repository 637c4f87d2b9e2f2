/* Strategies: one program, many devices.
 *
 *     lk_strategy *s = lk_mirrored_strategy(.cpu_devices = 2);
 *     LK_SCOPE(s) model = ...;                                    variables made here are mirrored
 *     lk_tuple losses = lk_run(s, train_step, batch);             once per replica, at the same time, each on its rows
 *     lk_tensor *loss = lk_reduce(s, LK_SUM, losses.item[0]);     one value again
 *
 * A replica is one copy of the program on one device. lk_run() returns per-replica values: a per-replica value is one lk_tensor
 * that holds one tensor per replica. It can be passed to run, reduce, gather and lk_local_results; using it as an operand of an op
 * is an error.
 *
 * Code runs in one of three contexts. Inside LK_SCOPE, and in the function of lk_merge_call, it acts for all replicas
 * (cross-replica context). Inside the function given to lk_run it is one replica (replica context). Elsewhere it is the only
 * replica (default replica context).
 *
 * Calls that all replicas must make together are lk_all_reduce, lk_all_gather, lk_merge_call, lk_optimizer_apply, assignments to
 * mirrored variables and the creation of variables. If the replicas do not make the same calls in the same order, they all get an
 * error that names the replicas; none waits for ever. */
#ifndef LOCKSTEP_STRATEGY_H
#define LOCKSTEP_STRATEGY_H

#include "grad.h"
#include "runtime.h"
#include "tensor.h"

LK_BEGIN

typedef struct lk_strategy         lk_strategy;
typedef struct lk_replica_context  lk_replica_context;
typedef struct lk_cross_device_ops lk_cross_device_ops;

/* ---- lists of names ---------------------------------------------------------------------------------------------------------- */

typedef struct lk_names {
    int                count;
    const char *const *item;
} lk_names;

LK_API lk_names lk_names_of(int count, const char *const *one_based);
#define LKI_NAMES(...) lk_names_of((int)LKI_N(const char *, 0, __VA_ARGS__) - 1, (const char *const[]){0, __VA_ARGS__})
#define LK_DEVICES(...) LKI_NAMES(__VA_ARGS__)
#define LK_FILES(...) LKI_NAMES(__VA_ARGS__)

/* ---- making one -------------------------------------------------------------------------------------------------------------- */

/* The devices of this process: "/job:localhost/replica:0/task:0/device:CPU:0", ... */
LK_API lk_names lk_list_devices(void);

/* One line about GPUs: which were found and whether NCCL was found, or why there are none.
 * Owner   the thread, until its next call. */
LK_API const char *lk_gpu_note(void);

/* Describes a GPU: "NVIDIA H200, 143771 MiB, 132 multiprocessors, compute capability 9.0"; "" for a CPU device and for a device
 * that does not exist.
 * Owner   the thread, until its next call. */
LK_API const char *lk_gpu_words(const char *device);

/* Set the number of logical CPU devices, as LOCKSTEP_CPU_DEVICES does. Only before the first strategy uses one. */
LK_API lk_status lk_set_cpu_devices(int count);

typedef enum lk_order {
    LK_ORDERED = 0, /* sums are computed per lane and added along one tree: the same bits on any number of devices */
    LK_FREE,        /* as few lanes as the devices and cores need: results depend on how many there are */
} lk_order;

typedef enum lk_communication { LK_COMMUNICATION_AUTO = 0, LK_COMMUNICATION_RING, LK_COMMUNICATION_NCCL } lk_communication;

typedef struct lk_communication_options {
    int64_t          bytes_per_pack;  /* default 0: all values in one pack; else a pack is sent once it has this many bytes */
    double           timeout_seconds; /* default 0: no limit; when a replica dies, the others are still released */
    lk_communication implementation;
} lk_communication_options;

typedef struct lk_strategy_args {
    const char  *kw_;
    lk_names     devices;          /* default: all GPUs, else all CPU devices; the order gives the replica ids */
    int          cpu_devices;      /* instead of devices: CPU:0 .. CPU:n-1, created if missing. Default 0: not used */
    int          logical_gpus;     /* logical GPUs per card; only before one is used. Default 0: LOCKSTEP_LOGICAL_GPUS, else 1 */
    size_t       gpu_memory_limit; /* bytes each of the strategy's GPUs may use; default 0: all */
    lk_precision precision;        /* of the strategy's GPUs, for functions compiled from now on */
    lk_cross_device_ops     *cross_device_ops; /* default: lk_collective_all_reduce() */
    lk_order                 order;
    int                      lanes; /* default 0: lk_lanes(); a power of two, at least the number of replicas */
    lk_communication_options communication;
} lk_strategy_args;
#define lk_mirrored_strategy(...) lk_mirrored_strategy_kw(LKI_KW(lk_strategy_args, __VA_ARGS__))
LK_API lk_strategy *lk_mirrored_strategy_kw(lk_strategy_args args);

/* Everything on one device; values are never wrapped. */
LK_API lk_strategy *lk_one_device_strategy(const char *device);

/* The strategy that is current where no other one is. */
LK_API lk_strategy *lk_default_strategy(void);

LK_API int lk_num_replicas_in_sync(const lk_strategy *s); /* 1 for NULL */

/* ---- scope and contexts ------------------------------------------------------------------------------------------------------ */

LK_API lki_block lki_scope_enter(lk_strategy *s);
LK_API void      lki_scope_leave(lki_block *);

/* LK_SCOPE(strategy) { ... }: variables created inside belong to the strategy. */
#define LK_SCOPE(s) LKI_BLOCK(LKI_ID(lki_scope_), lki_scope_leave, lki_scope_enter(s))

/* The same without a block. Each begin needs its end; scopes end in the reverse order. */
LK_API lk_status lk_scope_begin(lk_strategy *s);
LK_API lk_status lk_scope_end(lk_strategy *s);

/* Make a strategy current for this thread without a scope; NULL for none. An error inside a scope. */
LK_API lk_status lk_set_strategy(lk_strategy *s);

LK_API lk_strategy        *lk_get_strategy(void); /* outside a scope: the default one */
LK_API int                 lk_has_strategy(void);
LK_API int                 lk_in_cross_replica_context(void);
LK_API lk_replica_context *lk_get_replica_context(void); /* NULL in cross-replica context */

/* ---- run --------------------------------------------------------------------------------------------------------------------- */

typedef struct lk_run_args {
    const char  *kw_;
    lk_strategy *strategy; /* required */
    lk_fn        fn;       /* required */
    lk_tuple     args;     /* of a per-replica value, replica r gets element r; other values go to all replicas */
    void        *user;
} lk_run_args;

/* Call fn once per replica, all at the same time. The results are per-replica values; with one replica, or where all replicas
 * returned the very same tensor, plain tensors. An error on any replica makes lk_run() fail with that error; the other replicas are
 * released, and the strategy can be used again. fn must return. If it ends its thread (pthread_exit), lk_run() fails; on replica 0,
 * which runs on the thread that called lk_run(), the error is logged instead. */
#define lk_run(...) lk_run_kw(LKI_KW(lk_run_args, __VA_ARGS__))
LK_API lk_tuple lk_run_kw(lk_run_args args);
#define lk_experimental_run_v2(...) lk_run_kw(LKI_KW(lk_run_args, __VA_ARGS__))

/* ---- values of all replicas -------------------------------------------------------------------------------------------------- */

typedef enum lk_reduce_op { LK_SUM = 1, LK_MEAN = 2 } lk_reduce_op;
LK_API lk_reduce_op lk_reduce_op_named(const char *name); /* "sum", "MEAN", in upper or lower case; 0 and an error otherwise */

typedef struct lk_reduce_values_args {
    const char  *kw_;
    lk_strategy *strategy; /* required */
    lk_reduce_op op;       /* required */
    lk_tensor   *value;    /* required */
    lk_axis      axis;     /* default none: reduce over the replicas only, element by element */
    lk_axes      axes;     /* instead of axis: several */
} lk_reduce_values_args;
#define lk_reduce(...) lk_reduce_kw(LKI_KW(lk_reduce_values_args, __VA_ARGS__))
LK_API lk_tensor *lk_reduce_kw(lk_reduce_values_args args);
LK_API lk_tensor *lk_reduce_variable(lk_strategy *s, lk_reduce_op op, lk_variable *v); /* v: sync-on-read */

typedef struct lk_gather_args {
    const char  *kw_;
    lk_strategy *strategy; /* required */
    lk_tensor   *value;    /* required */
    lk_axis      axis;     /* default 0 */
} lk_gather_args;
#define lk_gather_values(...) lk_gather_values_kw(LKI_KW(lk_gather_args, __VA_ARGS__))
LK_API lk_tensor *lk_gather_values_kw(lk_gather_args args); /* concatenated in replica order */

LK_API lk_tuple lk_local_results(lk_strategy *s, lk_tensor *value); /* one value per replica of this process; a plain value by
                                                                     * itself */
LK_API lk_tuple lk_local_variables(lk_strategy *s, lk_variable *v); /* the value of each component */

typedef struct lk_value_context {
    int replica_id_in_sync_group, num_replicas_in_sync;
} lk_value_context;
typedef lk_tensor *(*lk_value_fn)(const lk_value_context *context, void *user);
LK_API lk_tensor *lk_values_from_function(lk_strategy *s, lk_value_fn fn, void *user);

/* ---- nested tuples ----------------------------------------------------------------------------------------------------------- */

LK_API lk_tensor *lk_nest(lk_tuple items);          /* one lk_tensor that holds a tuple, so that tuples nest */
LK_API lk_tuple   lk_nested(const lk_tensor *nest); /* the tuple in a nest; an error for any other tensor */

/* ---- in replica context ------------------------------------------------------------------------------------------------------ */

LK_API int          lk_replica_id_in_sync_group(const lk_replica_context *c);
LK_API int          lk_context_num_replicas(const lk_replica_context *c);
LK_API lk_strategy *lk_context_strategy(const lk_replica_context *c);
LK_API const char  *lk_context_device(const lk_replica_context *c);

LK_API lk_tensor *lk_all_reduce(lk_replica_context *c, lk_reduce_op op, lk_tensor *value);
LK_API lk_tuple   lk_all_reduce_all(lk_replica_context *c, lk_reduce_op op, lk_tuple values, lk_communication_options options);
LK_API lk_tensor *lk_all_gather(lk_replica_context *c, lk_tensor *value, int axis);

/* All replicas wait while the fn of replica 0 runs once, in cross-replica context. Its args are per-replica values of all replicas'
 * args; each replica gets its part of the result. */
typedef lk_tuple (*lk_merge_fn)(lk_strategy *s, lk_tuple args, void *user);
LK_API lk_tuple lk_merge_call(lk_replica_context *c, lk_merge_fn fn, lk_tuple args, void *user);

/* One replica's share of a regularisation term: sum(x) / N, so that the sum over the N replicas contains the term exactly once. */
LK_API lk_tensor *lk_scale_regularization_loss(lk_tensor *x);

/* ---- cross-device operations ------------------------------------------------------------------------------------------------- */

typedef struct lk_one_device_args {
    const char *kw_;
    const char *reduce_to_device; /* default: the first destination */
} lk_one_device_args;
#define lk_reduction_to_one_device(...) lk_reduction_to_one_device_kw(LKI_KW(lk_one_device_args, __VA_ARGS__))
LK_API lk_cross_device_ops *lk_reduction_to_one_device_kw(lk_one_device_args args);

typedef struct lk_packs_args {
    const char *kw_;
    lk_number   num_packs; /* default 1; 0: no packing */
} lk_packs_args;
#define lk_hierarchical_copy_all_reduce(...) lk_hierarchical_copy_all_reduce_kw(LKI_KW(lk_packs_args, __VA_ARGS__))
#define lk_nccl_all_reduce(...) lk_nccl_all_reduce_kw(LKI_KW(lk_packs_args, __VA_ARGS__))
LK_API lk_cross_device_ops *lk_hierarchical_copy_all_reduce_kw(lk_packs_args args);
LK_API lk_cross_device_ops *lk_nccl_all_reduce_kw(lk_packs_args args);
LK_API lk_cross_device_ops *lk_collective_all_reduce(lk_communication_options options);

/* Where a result is placed: on the devices of a per-replica value or of a variable, or on a named one. */
typedef struct lk_destination {
    const char  *kw_;
    lk_tensor   *value;
    lk_variable *variable;
    const char  *device;
} lk_destination;
#define LK_TO(...) LKI_KW_PART(lk_destination, __VA_ARGS__)

LK_API lk_tensor *lk_cross_reduce(lk_strategy *s, lk_cross_device_ops *o, lk_reduce_op op, lk_tensor *value, lk_destination to);
LK_API lk_tuple   lk_cross_batch_reduce(lk_strategy *s, lk_cross_device_ops *o, lk_reduce_op op, lk_tuple values,
                                        const lk_destination *to);
LK_API lk_tensor *lk_cross_broadcast(lk_strategy *s, lk_cross_device_ops *o, lk_tensor *value, lk_destination to);
LK_API lk_tensor *lk_cross_gather(lk_strategy *s, lk_cross_device_ops *o, lk_tensor *value, lk_destination to, int axis);

/* How many packs this thread's last batch was sent in, and the bytes of each. */
typedef struct lk_pack_info {
    int     packs;
    int64_t bytes[16];
} lk_pack_info;
LK_API lk_pack_info lk_last_packs(void);

/* ---- extended: for authors of libraries -------------------------------------------------------------------------------------- */

LK_API lk_names   lk_extended_worker_devices(lk_strategy *s);
LK_API lk_names   lk_extended_parameter_devices(lk_strategy *s);
LK_API lk_names   lk_extended_non_slot_devices(lk_strategy *s, lk_variables v);
LK_API lk_tensor *lk_extended_reduce_to(lk_strategy *s, lk_reduce_op op, lk_tensor *value, lk_destination to);
LK_API lk_tuple   lk_extended_batch_reduce_to(lk_strategy *s, lk_reduce_op op, lk_tuple values, const lk_destination *to);
LK_API lk_tensor *lk_extended_broadcast_to(lk_strategy *s, lk_tensor *value, lk_destination to);

/* Call fn once per component of v, on its device, with the mirrored arguments' values there. The results are a mirrored value; with
 * group = LK_OFF, a tuple with one value per component. Also in replica context. */
typedef lk_tensor *(*lk_update_fn)(lk_variable *component, lk_tuple args, void *user);
LK_API lk_tuple  lk_extended_update(lk_strategy *s, lk_variable *v, lk_update_fn fn, lk_tuple args, void *user, lk_switch group);
LK_API lki_block lki_colocate_enter(lk_strategy *s, lk_variable *v);
LK_API void      lki_colocate_leave(lki_block *);
#define LK_COLOCATE(s, v) LKI_BLOCK(LKI_ID(lki_colocate_), lki_colocate_leave, lki_colocate_enter(s, v))
LK_API int          lk_extended_variable_created_in_scope(lk_strategy *s, const lk_variable *v);
LK_API lk_variable *lk_extended_value_container(lk_strategy *s, lk_variable *component);
LK_API lk_tensor   *lk_extended_read_var(lk_strategy *s, lk_variable *v);
LK_API lk_tuple     lk_extended_call_for_each_replica(lk_strategy *s, lk_fn fn, lk_tuple args, void *user);
LK_API int          lk_extended_should_checkpoint(const lk_strategy *s);
LK_API int          lk_extended_should_save_summary(const lk_strategy *s);

LK_END

#endif
