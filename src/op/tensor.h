/* Tensors and variables from the inside.
 *
 * Invariants
 * 1. A tensor's elements never change after its op has run. It owns a reference to the buffer they are in; a reshape shares it.
 * 2. A traced tensor (graph != NULL) has no data: it names a value of the graph being recorded on this thread.
 * 3. All failed ops return the one tensor lki_poison.
 * 4. A variable's storage never moves, so plans may point into it. lk_read() hands out a tensor on that storage; before the storage is
 *    written, tensors somebody still holds move to a copy (readers move away, the storage stays).
 * 5. `rows` says what the leading axis means (design: rows, a sum over rows, or uniform); lane rules of ops.inc carry it along. */
#ifndef LKI_OP_TENSOR_H
#define LKI_OP_TENSOR_H

#include "core/object.h"
#include "core/shape.h"
#include "device/device.h"

typedef enum lki_row_kind {
    LKI_UNIFORM, /* made of variables and constants only: the same on every replica */
    LKI_ROWS,    /* the leading axis is rows of the global batch */
    LKI_ROW_SUM, /* a sum over rows: replicas hold parts of it */
    LKI_LOCAL,   /* track was lost: repeatable, but only for a given split over replicas */
} lki_row_kind;

#define LKI_MOST_ROWS ((int64_t)1 << 40) /* of a batch, so that rows * lanes can be counted */

typedef struct lki_rows {
    lki_row_kind kind;
    int          lanes;   /* V */
    int64_t      per_row; /* entries of the leading axis per row */
    int64_t      global;  /* rows of the whole batch, G */
    int64_t      first;   /* global index of the first row here */
    int64_t      rows;    /* rows here */
} lki_rows;

struct lk_tensor {
    lki_object   object;
    lk_dtype     dtype;
    lk_shape     shape;
    lki_rows     rows;
    lki_buffer  *buffer;
    void        *data;
    uint64_t     id;    /* unique in the process; what tapes remember */
    void        *graph; /* while traced: the graph, and which value of it */
    int          value;
    bool         weak;                   /* a plain number: takes the type of what it meets */
    lk_tensor   *slice_rows, *slice_ids; /* a gradient made of rows: row i was added to entry ids[i]; references, mostly NULL */
    lk_variable *variable; /* its elements are this variable's storage (not a reference), and its neighbours among such readers */
    lk_tensor   *reader_previous, *reader_next;
};

struct lk_variable {
    lki_object  object;
    lk_dtype    dtype;
    lk_shape    shape;
    char       *name;
    bool        trainable;
    lki_buffer *buffer;
    lk_tensor  *readers; /* tensors on the storage, handed out by lk_read() and still held by somebody */
};

extern lk_tensor lki_poison;

/* What a call given a poisoned tensor returns: the first cause, or LK_EINVAL when that was cleared. */
lk_status lki_poisoned_status(const char *call);

static inline bool lki_bad(const lk_tensor *t) { return !t || t == &lki_poison; }

/* A tensor with room for its elements, contents undefined; lki_poison when there is none. */
lk_tensor *lki_tensor_new(lk_dtype dtype, const lk_shape *shape);

/* Another tensor on the same elements, with another shape. */
lk_tensor *lki_tensor_view(lk_tensor *t, const lk_shape *shape);

/* A variable made at once, also while a function is traced, every element `fill`. */
lk_variable *lki_variable_new(const char *name, const lk_shape *shape, lk_dtype dtype, double fill, bool trainable);

/* The storage, about to be written: whoever still reads the old value moves to a copy first. NULL when there is no memory for that. */
void *lki_variable_storage(lk_variable *v);

/* Memory of its own for a tensor on a variable's storage, so that its data stays where it is from now on. */
lk_status lki_tensor_detach(lk_tensor *t);

/* A tensor that has no data: value `value` of `graph`. */
lk_tensor *lki_tensor_traced(lk_dtype dtype, const lk_shape *shape, const lki_rows *rows, void *graph, int value);

/* A tuple of `count` tensors; NULL items stay NULL ("none"). */
lk_tuple lki_tuple_new(int count, lk_tensor *const *items);

#endif
