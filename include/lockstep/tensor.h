/* Tensors, variables, and lifetimes.
 *
 *     lk_tensor *x = lk_tensor_of(LK_SHAPE(2, 3), 1, 2, 3, 4, 5, 6);
 *     lk_print(lk_add(x, lk_scalar(1)));
 *
 * There are three lifetimes. An object belongs to the current pool: the innermost LK_POOL { } of this thread, or else the
 * library's. It is freed with that pool, or earlier by lk_free(), and keeps alive what it was built from. Tensors created in a step
 * (LK_STEP { }) are freed when the step ends, unless lk_keep() moves them to the pool. What you pass to a call is borrowed until
 * the call returns.
 *
 * A tensor never changes after it was made. Its elements are stored row by row, without gaps. */
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

/* LK_SHAPE(28, 28, 1); LK_SHAPE() is the shape of a scalar. With more than LK_MAX_RANK sizes, or a negative one, the shape is
 * invalid, and every call that receives it fails. */
#define LK_SHAPE(...) lk_shape_of(LKI_LIST(int64_t, __VA_ARGS__))
LK_API lk_shape lk_shape_of(int count, const int64_t *one_based);
LK_API int64_t  lk_axes_of(int count, const int64_t *one_based); /* an lk_axes */

/* ---- making tensors -------------------------------------------------------------------------------------------------------- */

/* From values in the order of storage; fewer values than elements repeat the last one: lk_tensor_of(LK_SHAPE(1, 1), 1). */
#define lk_tensor_of(shape, ...) lk_tensor_of_values(shape, LKI_LIST(double, __VA_ARGS__))
LK_API lk_tensor *lk_tensor_of_values(lk_shape shape, int count, const double *one_based); /* LK_F32 */

/* A copy of `data`, stored row by row. */
LK_API lk_tensor *lk_tensor_from(lk_shape shape, lk_dtype dtype, const void *data);

/* A copy of memory with gaps: strides are counted in elements and may be negative or zero. */
LK_API lk_tensor *lk_tensor_from_strided(lk_shape shape, lk_dtype dtype, const void *data, const int64_t *strides);

/* A number: LK_F32, shape []. In an op with an operand of another type it is converted to that type. Its value is rounded to f32;
 * use lk_fill() for more precision. */
LK_API lk_tensor *lk_scalar(double value);
LK_API lk_tensor *lk_zeros(lk_shape shape, lk_dtype dtype);
LK_API lk_tensor *lk_ones(lk_shape shape, lk_dtype dtype);
LK_API lk_tensor *lk_fill(lk_shape shape, lk_dtype dtype, double value);
LK_API lk_tensor *lk_range(int64_t count, lk_dtype dtype); /* 0, 1, ... count-1 */

/* ---- reading tensors ------------------------------------------------------------------------------------------------------- */

LK_API lk_shape lk_tensor_shape(const lk_tensor *t);
LK_API lk_dtype lk_tensor_dtype(const lk_tensor *t);
LK_API int      lk_rank(const lk_tensor *t);
LK_API int64_t  lk_dim(const lk_tensor *t, int axis); /* axis may be negative; -1 and an error when out of range */
LK_API int64_t  lk_size(const lk_tensor *t);

/* True for a poisoned tensor: the result of a failed op. */
LK_API int lk_poisoned(const lk_tensor *t);

/* The elements, row by row. NULL and an error for a poisoned tensor, and for one without a value yet, inside a function being
 * traced.
 * Owner   the tensor. */
LK_API const void *lk_data(const lk_tensor *t);

/* The value of a tensor of one element, as a double; NaN and an error otherwise. */
LK_API double lk_item(const lk_tensor *t);

/* Print the tensor, such as "[[1, 2], [3, 4]]", and a newline through the output hook. Long tensors are shortened. */
LK_API lk_status lk_print(const lk_tensor *t);

/* ---- lists of tensors ------------------------------------------------------------------------------------------------------ */

/* A tuple lives as long as its tensors. At least 8 items can always be read; those from `count` on are poisoned. */
typedef struct lk_tuple {
    int         count;
    lk_tensor **item;
} lk_tuple;

#define LK_TUPLE(...) lk_tuple_of((int)LKI_N(lk_tensor *, 0, __VA_ARGS__) - 1, (lk_tensor *const[]){0, __VA_ARGS__})
LK_API lk_tuple lk_tuple_of(int count, lk_tensor *const *one_based);
LK_API lk_tuple lk_tuple_from(int count, lk_tensor *const *items); /* from an array */

/* ---- rows and lanes -------------------------------------------------------------------------------------------------------- */

/* Declare that the leading axis of `t` counts the rows of a global batch of `global_batch` rows (0: the rows of `t`). Sums over
 * rows are then computed per lane, and the lanes' sums are added along one fixed tree. The result therefore does not depend on how
 * many cores or replicas share the work; docs/bits.md has the details. */
LK_API lk_tensor *lk_rows(lk_tensor *t, int64_t global_batch);
LK_API lk_tuple   lk_rows_all(lk_tuple batch, int64_t global_batch); /* every tensor of a batch */

/* Set the number of lanes a global batch is split into: a power of two from 1 to 1024, default 8. Results depend on it, in their
 * bits. */
LK_API lk_status lk_set_lanes(int lanes);
LK_API int       lk_lanes(void);

/* Set how many cores run the lanes of a compiled step; 0: all that this process may use. Never changes a result. */
LK_API lk_status lk_set_threads(int threads);
LK_API int       lk_threads(void);

/* Use no instruction set beyond this one: "reference", "avx2" or "avx512". Only before the first op; never changes a result. */
LK_API lk_status lk_set_isa(const char *name);

/* The seed of all random numbers of this process. Default 20240229. */
LK_API void     lk_set_random_seed(uint64_t seed);
LK_API uint64_t lk_random_seed(void);

/* ---- variables ------------------------------------------------------------------------------------------------------------- */

/* When the copies of a variable under a strategy are synchronised, and how values assigned by the replicas are combined. */
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
    lk_switch          trainable;       /* default LK_ON; with LK_SYNC_ON_READ it is LK_OFF and cannot be LK_ON */
    lk_synchronization synchronization; /* default LK_SYNC_ON_WRITE: mirrored. LK_SYNC_NONE is an error */
    lk_aggregation     aggregation;     /* how the values assigned by replicas (mirrored) or held by them (on read) combine; default
                                         * none */
} lk_variable_args;

/* A value that can be assigned. */
#define lk_variable_of(...) lk_variable_kw(LKI_KW(lk_variable_args, __VA_ARGS__))
LK_API lk_variable *lk_variable_kw(lk_variable_args args);

/* The current value, as a tensor that later assignments do not change. Reading a trainable variable while a tape records makes the
 * tape watch it. */
LK_API lk_tensor *lk_read(lk_variable *v);

LK_API lk_status lk_assign(lk_variable *v, lk_tensor *value);
LK_API lk_status lk_assign_add(lk_variable *v, lk_tensor *value);
LK_API lk_status lk_assign_sub(lk_variable *v, lk_tensor *value);

/* Update entries of the leading axis that ids select: v[ids[i]] op= rows[i], in order of i. */
LK_API lk_status lk_scatter_add(lk_variable *v, lk_tensor *ids, lk_tensor *rows);
LK_API lk_status lk_scatter_sub(lk_variable *v, lk_tensor *ids, lk_tensor *rows);
LK_API lk_status lk_scatter_mul(lk_variable *v, lk_tensor *ids, lk_tensor *rows);
LK_API lk_status lk_scatter_div(lk_variable *v, lk_tensor *ids, lk_tensor *rows);
LK_API lk_status lk_scatter_min(lk_variable *v, lk_tensor *ids, lk_tensor *rows);
LK_API lk_status lk_scatter_max(lk_variable *v, lk_tensor *ids, lk_tensor *rows);
LK_API lk_status lk_scatter_update(lk_variable *v, lk_tensor *ids, lk_tensor *rows);

/* The value of a sync-on-read variable over all replicas. In replica context all replicas must call this together. */
LK_API lk_tensor *lk_read_aggregated(lk_variable *v);

/* The storage of the component on this device. For a variable of a strategy, an error outside replica and update context.
 * Owner   the variable; valid until it is assigned. */
LK_API const void *lk_variable_data(lk_variable *v);

/* Print a mirrored variable as "MirroredVariable:{", a line " 0: <value>" per replica and "}"; any other as its value. */
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

/* Free one object before its pool is freed. NULL is ignored. */
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

/* LK_POOL { ... }: objects made inside are freed at its end. LK_STEP { ... }: tensors made inside are freed at its end. return,
 * break and goto also close the block; longjmp does not. break and continue leave the block itself, not a loop around it. */
#define LK_POOL LKI_BLOCK(LKI_ID(lki_pool_), lki_pool_leave, lki_pool_enter())
#define LK_STEP LKI_BLOCK(LKI_ID(lki_step_), lki_step_leave, lki_step_enter())

LK_END

#endif
