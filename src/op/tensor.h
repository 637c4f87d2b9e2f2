/* The internals of tensors and variables.
 *
 * Invariants
 *  1. A tensor's elements never change after its op has run. It holds a reference to the buffer they are in; a reshape shares it.
 *  2. A traced tensor (graph != NULL) has no data: it stands for a value of the graph being recorded on this thread.
 *  3. All failed ops return the one tensor lki_poison.
 *  4. A variable's storage never moves, so plans may point into it. lk_read() returns a tensor on that storage; before the storage
 *     is written, tensors that are still referenced move to a copy (the readers move, the storage stays).
 *  5. `rows` says what the leading axis means (rows, a sum over rows, or uniform); lane rules of ops.inc compute it for results.
 *  6. A tensor with `replicas` or `nest` stands for others and has no elements: it may be passed on and taken apart. Ops can use it
 *     only if it is mirrored.
 *  7. `origin` says how a value of one replica was computed from sums over its rows (origin.h). It never changes the tensor's own
 *     elements.
 *  8. A tensor may be pending: its device is still computing it. Ops and plans of that device use it as it is; reading its elements
 *     waits for the work, and returns the error that the work met.
 *  9. `pooled` exists only while a tape walks back, on the tensor that a gradient rule made: ops make tensors without it. */
#ifndef LKI_OP_TENSOR_H
#define LKI_OP_TENSOR_H

#include "core/lock.h"
#include "core/object.h"
#include "core/shape.h"
#include "device/device.h"

typedef enum lki_row_kind {
    LKI_UNIFORM, /* computed from variables and constants only: the same on every replica */
    LKI_ROWS,    /* the leading axis is rows of the global batch */
    LKI_ROW_SUM, /* a sum over rows: replicas hold parts of it */
    LKI_MIXED,   /* a sum over rows plus a uniform value, or a replica's share of a uniform value: see `origin` */
    LKI_LOCAL,   /* not tracked: reproducible, but only for the same division over replicas */
} lki_row_kind;

#define LKI_MOST_ROWS ((int64_t)1 << 40) /* of a batch, so that rows * lanes can be counted */

typedef struct lki_rows {
    lki_row_kind kind;
    bool         own;     /* this replica has a separate batch, not some lanes of a global one */
    int          lanes;   /* V */
    int64_t      per_row; /* entries of the leading axis per row */
    int64_t      global;  /* rows of the whole batch, G */
    int64_t      first;   /* global index of the first row here */
    int64_t      rows;    /* rows here */
    int64_t      total;   /* rows of the batch on all replicas together: B; less than G for a short one */
} lki_rows;

static inline bool lki_rows_equal(const lki_rows *a, const lki_rows *b)
{
    return a->kind == b->kind && a->own == b->own && a->lanes == b->lanes && a->per_row == b->per_row && a->global == b->global &&
           a->first == b->first && a->rows == b->rows && a->total == b->total;
}

/* One tensor per replica. */
typedef struct lki_replicas {
    int        count;
    bool       mirrored; /* known to be equal */
    void      *strategy; /* its owner; only compared, not a reference */
    lk_tensor *whole;    /* a reference: all rows in one tensor, the items being neighbouring row ranges of it; or NULL */
    lk_tensor *item[];   /* references */
} lki_replicas;

struct lk_tensor {
    lki_object    object;
    lk_dtype      dtype;
    lk_shape      shape;
    lki_rows      rows;
    lki_buffer   *buffer;
    void         *data;
    uint64_t      id;    /* unique in the process; tapes identify tensors by it */
    void         *graph; /* while traced: the graph, and the number of its value */
    int           value;
    bool          weak;                   /* a plain number: converted to the type of the other operand */
    lk_tensor    *slice_rows, *slice_ids; /* a gradient made of rows: row i was added to entry ids[i]; references, mostly NULL */
    lki_replicas *replicas;               /* a per-replica or mirrored value */
    lk_tuple     *nest;                   /* a tuple as one value; its items are references */
    struct lki_origin *origin;            /* how a replica's value was computed (origin.h); mostly NULL */
    struct lki_pooled *pooled;            /* the pooled gradient that this gradient was computed from (pooled.h); mostly NULL */
    lk_tensor   *logits;     /* the operand of the softmax (over the last axis) or sigmoid that computed it, for cross-entropies; a
                      * reference, mostly NULL */
    bool         of_sigmoid; /* logits: by a sigmoid */
    lk_tensor   *mask;       /* bool: which steps of its rows count, for layers, losses and metrics; ops make tensors without one. A
                      * reference, mostly NULL */
    lk_variable *variable;   /* its elements are this variable's storage (not a reference), and its neighbours among such readers */
    lk_tensor   *reader_previous, *reader_next;
};

/* An initial value that is computed when it is first read, and never if another value is assigned before. Its parameters follow
 * this struct: `bytes` in all. */
typedef struct lki_later lki_later;
struct lki_later {
    lk_status (*make)(const lki_later *later, void *elements); /* all of them, in the host's memory */
    size_t bytes;
};

struct lk_variable {
    lki_object         object;
    lk_dtype           dtype;
    lk_shape           shape;
    char              *name;
    bool               trainable;
    lki_buffer        *buffer;     /* without memory while the variable waits */
    lki_later         *later;      /* how its initial value is computed; NULL: it was given */
    bool               waits;      /* for its first value; atomic */
    lk_tensor         *readers;    /* tensors on the storage, returned by lk_read() and still referenced */
    struct lki_spread *spread;     /* how a strategy owns it (replica.h); NULL: an ordinary variable */
    lki_turn           turn;       /* to update a copy of it on the host, and write that back (run.c) */
    void              *constraint; /* a reference to the constraint applied after each update; NULL: none */
    lk_tensor *(*constrain)(const void *constraint, lk_tensor *value);
};

extern lk_tensor lki_poison;

/* The status of a call with a poisoned tensor: the code of the first error, or LK_EINVAL if that was cleared. */
lk_status lki_poisoned_status(const char *call);

static inline bool lki_bad(const lk_tensor *t) { return !t || t == &lki_poison; }

/* The tensor with this mask; NULL: with none. It is `t` itself if that has it, or if `fresh` (no other code knows it yet); else
 * another tensor with the same elements. Poison if one of them is. */
lk_tensor *lki_masked(lk_tensor *t, lk_tensor *mask, bool fresh);

/* `size` elements with one value. */
void lki_repeat(lk_dtype dtype, void *elements, int64_t size, double value);

/* A tensor with room for its elements, contents undefined; lki_poison when there is none. Its memory can be written by the host:
 * the current device's memory if the host can write it, else the CPU's. */
lk_tensor *lki_tensor_new(lk_dtype dtype, const lk_shape *shape);

/* The same on a device. */
lk_tensor *lki_tensor_on(lki_device *device, lk_dtype dtype, const lk_shape *shape);

/* The address of a tensor's elements for a device, and for the host: in place, or a copy that exists as long as the tensor. NULL
 * and an error if it could not be made. Not for traced tensors. */
void       *lki_data_on(const lk_tensor *t, lki_device *device);
const void *lki_host_data(const lk_tensor *t);

/* True if it may be pending. Settling waits for the work that computes it, and returns the error it met; reading elements on the
 * host settles too. */
static inline bool lki_is_pending(const lk_tensor *t) { return t->buffer && lki_buffer_pending(t->buffer); }
lk_status          lki_settle(const lk_tensor *t);

/* Another tensor on the same elements, with another shape. */
lk_tensor *lki_tensor_view(lk_tensor *t, const lk_shape *shape);

/* A variable created immediately, also while a function is traced; every element is `fill` when it is first read. Under a strategy
 * its first replica's value is used. */
lk_variable *lki_variable_new(const char *name, const lk_shape *shape, lk_dtype dtype, double fill, bool trainable);

/* A variable whose initial value is computed when it is first read, unless it is written before: args->initial is NULL. `later` is
 * copied. */
lk_variable *lki_variable_later(const lk_variable_args *args, const lk_shape *shape, lk_dtype dtype, const lki_later *later);

/* Call the first of these before reading the storage of a variable or pointing into it; the second before writing all of it.
 * LK_ENOMEM. */
lk_status lki_variable_settle(const lk_variable *v); /* make sure it has its value */
lk_status lki_variable_room(lk_variable *v);         /* make sure it has memory, with any contents */
void      lki_variable_renew(lk_variable *v);        /* after the second, if writing failed: the initial value is needed after
                                                      * all */

/* Make these elements, a block of lki_alloc(), its storage and value. False, and nothing changes, if it already has storage or
 * belongs to another device. */
bool lki_variable_adopt(lk_variable *v, void *elements);

/* The storage, for a write by the variable's device: tensors that still read the old value move to a copy first. NULL if there is
 * no memory for the copy. */
void *lki_variable_storage(lk_variable *v);

/* The lock of variables' lists of readers, and of their first values. */
void lki_readers_take(void);
void lki_readers_give(void);

/* Its elements for the host, until it is written next; NULL and an error on failure. The second writes all of them from the
 * host. */
const void *lki_variable_values(const lk_variable *v);
lk_status   lki_variable_fill(lk_variable *v, const void *host);

/* Separate memory for a tensor on a variable's storage, so that its data does not move from now on. */
lk_status lki_tensor_detach(lk_tensor *t);

/* The tensor or, if the host cannot read its memory, a new one with its value that the host can read; lki_poison if that could not
 * be made. */
lk_tensor *lki_tensor_for_host(lk_tensor *t);

/* A tensor that has no data: value `value` of `graph`. */
lk_tensor *lki_tensor_traced(lk_dtype dtype, const lk_shape *shape, const lki_rows *rows, void *graph, int value);

/* Print its value through the output hook, without a newline. */
void lki_print_value(const lk_tensor *t);

/* Rows `first` .. `first + rows - 1` of a tensor, with the same elements; `meaning` says what these rows mean. */
lk_tensor *lki_tensor_row_range(lk_tensor *t, int64_t first, int64_t rows, const lki_rows *meaning);

/* A per-replica value of `count` tensors (references are taken). `whole` may be NULL. Poisoned when an item is. */
lk_tensor *lki_per_replica(void *strategy, int count, lk_tensor *const *items, lk_tensor *whole, bool mirrored);

/* True if type, shape and every bit are equal; for values that are only traced, if they are the same value. */
bool lki_same_bits(const lk_tensor *a, const lk_tensor *b);

/* True if it stands for other tensors and has no elements of its own. */
static inline bool lki_stands_for(const lk_tensor *t) { return t->replicas || t->nest; }

/* The tensor, or for a mirrored value its first copy: a value that is equal on all replicas can be used as a plain tensor. NULL is
 * passed through. */
static inline lk_tensor *lki_plain(lk_tensor *t) { return t && t->replicas && t->replicas->mirrored ? t->replicas->item[0] : t; }

/* True if two tensors are the same value: the same elements in memory, or the same value of a graph. */
static inline bool lki_same_elements(const lk_tensor *a, const lk_tensor *b)
{
    if (a == b) return true;
    if (a->graph || b->graph) return a->graph == b->graph && a->value == b->value;
    return a->data && a->data == b->data && a->dtype == b->dtype && lki_shape_equal(&a->shape, &b->shape);
}

/* The message for such a tensor if a plain one is needed. */
const char *lki_why_not_plain(const lk_tensor *t);

/* A tuple of `count` tensors; NULL items stay NULL ("none"). */
lk_tuple lki_tuple_new(int count, lk_tensor *const *items);

#endif
