/* Tensors, variables, and how long things live.
 *
 *     lk_tensor *x = lk_tensor_of(LK_SHAPE(2, 3), 1, 2, 3, 4, 5, 6);
 *     lk_print(lk_add(x, lk_scalar(1)));
 *
 * Three lifetimes. An object lives in the current pool (the library's, or the innermost LK_POOL { } of this thread) and goes with
 * it or with an early lk_free(); it keeps alive what it was built from. What a step (LK_STEP { }) creates goes when the step
 * ends, unless lk_keep() moves it to the pool. What you pass in is borrowed until the call returns.
 *
 * A tensor is a value: nothing changes it. Its elements are stored row by row, without gaps. */
#ifndef LOCKSTEP_TENSOR_H
#define LOCKSTEP_TENSOR_H

#include "error.h"

LK_BEGIN

typedef struct lk_tensor   lk_tensor;
typedef struct lk_variable lk_variable;

/* name, C type that stores one element, bytes, text */
#define LK_DTYPE_LIST(X)                                                                                                           \
    X(LK_F32, float, 4, "f32")                                                                                                     \
    X(LK_F64, double, 8, "f64")                                                                                                    \
    X(LK_F16, uint16_t, 2, "f16")                                                                                                  \
    X(LK_BF16, uint16_t, 2, "bf16")                                                                                                \
    X(LK_I32, int32_t, 4, "i32")                                                                                                   \
    X(LK_I64, int64_t, 8, "i64")                                                                                                   \
    X(LK_U8, uint8_t, 1, "u8")                                                                                                     \
    X(LK_BOOL, uint8_t, 1, "bool")

#define LKI_DTYPE_ENUM(name, type, bytes, text) name,
typedef enum lk_dtype { LK_DTYPE_LIST(LKI_DTYPE_ENUM) LK_DTYPE_COUNT } lk_dtype;
#undef LKI_DTYPE_ENUM

LK_API const char *lk_dtype_name(lk_dtype dtype);
LK_API size_t      lk_dtype_bytes(lk_dtype dtype);

typedef struct lk_shape {
    int     rank; /* 0 for a scalar, at most LK_MAX_RANK */
    int64_t dim[LK_MAX_RANK];
} lk_shape;

/* LK_SHAPE(28, 28, 1); LK_SHAPE() is a scalar's. More than LK_MAX_RANK sizes, or a negative one, make a shape every call
 * refuses. */
#define LK_SHAPE(...) lk_shape_of(LKI_LIST(int64_t, __VA_ARGS__))
LK_API lk_shape lk_shape_of(int count, const int64_t *one_based);
LK_API int64_t  lk_axes_of(int count, const int64_t *one_based); /* an lk_axes */

/* ---- making tensors ------------------------------------------------------------------------------------------------------- */

/* From values in the order of storage; fewer values than elements repeat the last one: lk_tensor_of(LK_SHAPE(1, 1), 1). */
#define lk_tensor_of(shape, ...) lk_tensor_of_values(shape, LKI_LIST(double, __VA_ARGS__))
LK_API lk_tensor *lk_tensor_of_values(lk_shape shape, int count, const double *one_based); /* LK_F32 */

/* A copy of `data`, stored row by row. */
LK_API lk_tensor *lk_tensor_from(lk_shape shape, lk_dtype dtype, const void *data);

/* A copy of memory with gaps: strides are counted in elements and may be negative or zero. */
LK_API lk_tensor *lk_tensor_from_strided(lk_shape shape, lk_dtype dtype, const void *data, const int64_t *strides);

/* A plain number: LK_F32, shape []. Where it meets another type it takes that one (its value stays rounded to f32: lk_fill() for
 * more). */
LK_API lk_tensor *lk_scalar(double value);
LK_API lk_tensor *lk_zeros(lk_shape shape, lk_dtype dtype);
LK_API lk_tensor *lk_ones(lk_shape shape, lk_dtype dtype);
LK_API lk_tensor *lk_fill(lk_shape shape, lk_dtype dtype, double value);
LK_API lk_tensor *lk_range(int64_t count, lk_dtype dtype); /* 0, 1, ... count-1 */

/* ---- looking at them ------------------------------------------------------------------------------------------------------ */

LK_API lk_shape lk_tensor_shape(const lk_tensor *t);
LK_API lk_dtype lk_tensor_dtype(const lk_tensor *t);
LK_API int      lk_rank(const lk_tensor *t);
LK_API int64_t  lk_dim(const lk_tensor *t, int axis); /* axis may be negative; -1 and an error when out of range */
LK_API int64_t  lk_size(const lk_tensor *t);

/* True for a poisoned tensor, one that stands for a failed op. */
LK_API int lk_poisoned(const lk_tensor *t);

/* The elements, row by row. NULL (and an error) for a poisoned tensor and for one that has no value yet, because it belongs to a
 * function being traced.  Owner  the tensor. */
LK_API const void *lk_data(const lk_tensor *t);

/* The value of a tensor of one element, as a double; NaN and an error otherwise. */
LK_API double lk_item(const lk_tensor *t);

/* "[[1, 2], [3, 4]]" through the output hook, a newline after it. Long tensors are shortened. */
LK_API lk_status lk_print(const lk_tensor *t);

/* ---- lists of tensors ------------------------------------------------------------------------------------------------------ */

/* Lives as long as its tensors. At least 8 items can be read; those past `count` are poisoned. */
typedef struct lk_tuple {
    int         count;
    lk_tensor **item;
} lk_tuple;

#define LK_TUPLE(...) lk_tuple_of((int)LKI_N(lk_tensor *, 0, __VA_ARGS__) - 1, (lk_tensor *const[]){0, __VA_ARGS__})
LK_API lk_tuple lk_tuple_of(int count, lk_tensor *const *one_based);
LK_API lk_tuple lk_tuple_from(int count, lk_tensor *const *items); /* from an array */

/* ---- rows and lanes -------------------------------------------------------------------------------------------------------- */

/* Say that the leading axis of `t` counts the rows of a global batch of `global_batch` rows (0: as many as `t` has).
 * Sums over rows then run lane by lane and up one fixed tree, so that they do not depend on how many cores or replicas share
 * the work. docs/bits.md says what that promises. */
LK_API lk_tensor *lk_rows(lk_tensor *t, int64_t global_batch);
LK_API lk_tuple   lk_rows_all(lk_tuple batch, int64_t global_batch); /* every tensor of a batch */

/* How many lanes a global batch is cut into: a power of two from 1 to 1024, default 8. Part of what the bits depend on. */
LK_API lk_status lk_set_lanes(int lanes);
LK_API int       lk_lanes(void);

/* How many cores run the lanes of a compiled step; 0: all this process may use. Never changes a result. */
LK_API lk_status lk_set_threads(int threads);
LK_API int       lk_threads(void);

/* Use no instruction set beyond this one: "reference", "avx2" or "avx512". Only before the first op; never changes a result. */
LK_API lk_status lk_set_isa(const char *name);

/* Where all random numbers of this process come from. Default 20240229. */
LK_API void     lk_set_random_seed(uint64_t seed);
LK_API uint64_t lk_random_seed(void);

/* ---- variables ------------------------------------------------------------------------------------------------------------- */

/* When the copies of a variable under a strategy are made equal, and what becomes of what the replicas assign. */
typedef enum lk_synchronization { LK_SYNC_AUTO = 0, LK_SYNC_ON_WRITE, LK_SYNC_ON_READ, LK_SYNC_NONE } lk_synchronization;
typedef enum lk_aggregation {
    LK_AGGREGATION_NONE = 0,
    LK_AGGREGATION_SUM,
    LK_AGGREGATION_MEAN,
    LK_AGGREGATION_ONLY_FIRST_REPLICA
} lk_aggregation;

typedef struct lk_variable_args {
    const char        *kw_;
    lk_tensor         *initial;         /* required: the first value; fixes shape and type */
    const char        *name;            /* default "Variable" */
    lk_switch          trainable;       /* default LK_ON; LK_SYNC_ON_READ: LK_OFF, and nothing else */
    lk_synchronization synchronization; /* default LK_SYNC_ON_WRITE: mirrored. LK_SYNC_NONE is an error */
    lk_aggregation     aggregation;     /* of what replicas assign (mirrored) or hold (on read); default none */
} lk_variable_args;

/* A value that can be assigned. */
#define lk_variable_of(...) lk_variable_kw(LKI_KW(lk_variable_args, __VA_ARGS__))
LK_API lk_variable *lk_variable_kw(lk_variable_args args);

/* Its value now; a later assignment does not change it. Read under a tape, a trainable variable is watched. */
LK_API lk_tensor *lk_read(lk_variable *v);

LK_API lk_status lk_assign(lk_variable *v, lk_tensor *value);
LK_API lk_status lk_assign_add(lk_variable *v, lk_tensor *value);
LK_API lk_status lk_assign_sub(lk_variable *v, lk_tensor *value);

/* Entries of the leading axis, picked by ids: v[ids[i]] op= rows[i], one after the other. */
LK_API lk_status lk_scatter_add(lk_variable *v, lk_tensor *ids, lk_tensor *rows);
LK_API lk_status lk_scatter_sub(lk_variable *v, lk_tensor *ids, lk_tensor *rows);
LK_API lk_status lk_scatter_mul(lk_variable *v, lk_tensor *ids, lk_tensor *rows);
LK_API lk_status lk_scatter_div(lk_variable *v, lk_tensor *ids, lk_tensor *rows);
LK_API lk_status lk_scatter_min(lk_variable *v, lk_tensor *ids, lk_tensor *rows);
LK_API lk_status lk_scatter_max(lk_variable *v, lk_tensor *ids, lk_tensor *rows);
LK_API lk_status lk_scatter_update(lk_variable *v, lk_tensor *ids, lk_tensor *rows);

/* The value over all replicas of a sync-on-read variable, in replica context too (where all replicas must ask). */
LK_API lk_tensor *lk_read_aggregated(lk_variable *v);

/* The storage of the component on this device; outside replica and update context an error for a variable of a strategy.
 * Owner   the variable; good until it is assigned. */
LK_API const void *lk_variable_data(lk_variable *v);

/* "MirroredVariable:{", a line "  0: <value>" per replica, "}"; a plain one: its value. */
LK_API lk_status          lk_print_variable(const lk_variable *v);
LK_API const char        *lk_variable_component_name(const lk_variable *v, int replica); /* "w", "w/replica_1", ... */
LK_API lk_synchronization lk_variable_synchronization(const lk_variable *v);
LK_API lk_aggregation     lk_variable_aggregation(const lk_variable *v);

LK_API const char *lk_variable_name(const lk_variable *v);
LK_API lk_shape    lk_variable_shape(const lk_variable *v);
LK_API lk_dtype    lk_variable_dtype(const lk_variable *v);
LK_API int         lk_variable_trainable(const lk_variable *v);

typedef struct lk_variables {
    int           count;
    lk_variable **item;
} lk_variables;

#define LK_VARIABLES(...) lk_variables_of((int)LKI_N(lk_variable *, 0, __VA_ARGS__) - 1, (lk_variable *const[]){0, __VA_ARGS__})
LK_API lk_variables lk_variables_of(int count, lk_variable *const *one_based);
LK_API lk_variables lk_variables_from(int count, lk_variable *const *items); /* from an array */

/* SHA-256 over name, type, shape and value of each: equal digests mean equal bits. */
typedef struct lk_digest {
    uint8_t byte[32];
} lk_digest;
LK_API lk_digest   lk_variables_digest(lk_variables v);
LK_API int         lk_digest_equal(lk_digest a, lk_digest b);
LK_API const char *lk_digest_text(lk_digest d, char text[65]); /* 64 hexadecimal digits; returns text */

/* ---- lifetimes ------------------------------------------------------------------------------------------------------------- */

/* Let one object go before its pool does. NULL is ignored. */
LK_API void lk_free(void *object);

/* Move a tensor from the step it was made in to the current pool. Returns it. */
LK_API lk_tensor *lk_keep(lk_tensor *t);

typedef struct lki_block {
    int   open;
    void *owner;
} lki_block;

LK_API lki_block lki_pool_enter(void);
LK_API void      lki_pool_leave(lki_block *);
LK_API lki_block lki_step_enter(void);
LK_API void      lki_step_leave(lki_block *);

#define LKI_BLOCK(id, leave, enter) for (lki_block id __attribute__((cleanup(leave))) = enter; id.open; id.open = 0)

/* LK_POOL { ... }: objects made inside go at the end. LK_STEP { ... }: tensors made inside go at the end. Leaving by return, break
 * or goto closes them too; longjmp does not. break and continue mean the block itself: they do not reach a loop around it. */
#define LK_POOL LKI_BLOCK(LKI_ID(lki_pool_), lki_pool_leave, lki_pool_enter())
#define LK_STEP LKI_BLOCK(LKI_ID(lki_step_), lki_step_leave, lki_step_enter())

LK_END

#endif
