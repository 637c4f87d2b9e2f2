/* Tensors and variables from the inside.
 *
 * Invariants
 * 1. A tensor's elements never change after its op has run. It owns a reference to the buffer they are in; a reshape shares it.
 * 2. A traced tensor (graph != NULL) has no data: it names a value of the graph being recorded on this thread.
 * 3. All failed ops return the one tensor lki_poison.
 * 4. A variable's storage never moves, so plans may point into it. lk_read() hands out a tensor on that storage; before the storage
 *    is written, tensors somebody still holds move to a copy (readers move away, the storage stays).
 * 5. `rows` says what the leading axis means (design: rows, a sum over rows, or uniform); lane rules of ops.inc carry it along.
 * 6. A tensor with `replicas` or `nest` stands for others and has no elements: it may be passed on and taken apart; computed with
 *    only when it is mirrored.
 * 7. `origin` tells how a value of one replica was made of sums over its rows (origin.h). It never changes the tensor's own
 *    elements.
 * 8. `pooled` is there while a tape walks back, on the tensor a gradient rule made and on no other: ops make tensors without it. */
#ifndef LKI_OP_TENSOR_H
#define LKI_OP_TENSOR_H

#include "core/object.h"
#include "core/shape.h"
#include "device/device.h"

typedef enum lki_row_kind {
    LKI_UNIFORM, /* made of variables and constants only: the same on every replica */
    LKI_ROWS,    /* the leading axis is rows of the global batch */
    LKI_ROW_SUM, /* a sum over rows: replicas hold parts of it */
    LKI_MIXED,   /* a sum over rows plus something uniform, or a replica's share of something uniform: `origin` tells how */
    LKI_LOCAL,   /* track was lost: repeatable, but only for a given split over replicas */
} lki_row_kind;

#define LKI_MOST_ROWS ((int64_t)1 << 40) /* of a batch, so that rows * lanes can be counted */

typedef struct lki_rows {
    lki_row_kind kind;
    bool         own;     /* what this replica has is a batch of its own, not some lanes of one */
    int          lanes;   /* V */
    int64_t      per_row; /* entries of the leading axis per row */
    int64_t      global;  /* rows of the whole batch, G */
    int64_t      first;   /* global index of the first row here */
    int64_t      rows;    /* rows here */
    int64_t      total;   /* rows of the batch that all replicas have together: B; less than G for a short one */
} lki_rows;

/* One tensor per replica. */
typedef struct lki_replicas {
    int        count;
    bool       mirrored; /* known to be equal */
    void      *strategy; /* whose; to compare with, not a reference */
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
    uint64_t      id;    /* unique in the process; what tapes remember */
    void         *graph; /* while traced: the graph, and which value of it */
    int           value;
    bool          weak;                   /* a plain number: takes the type of what it meets */
    lk_tensor    *slice_rows, *slice_ids; /* a gradient made of rows: row i was added to entry ids[i]; references, mostly NULL */
    lki_replicas *replicas;               /* a per-replica or mirrored value */
    lk_tuple     *nest;                   /* a tuple as one value; its items are references */
    struct lki_origin *origin;            /* how a replica's value was made (origin.h); mostly NULL */
    struct lki_pooled *pooled;            /* what a gradient was unpooled from by a max pool (pooled.h); mostly NULL */
    lk_tensor
        *logits;     /* what it is the softmax (over the last axis) or sigmoid of, for cross-entropies; a reference, mostly NULL */
    bool of_sigmoid; /* logits: by a sigmoid */
    lk_variable *variable; /* its elements are this variable's storage (not a reference), and its neighbours among such readers */
    lk_tensor   *reader_previous, *reader_next;
};

/* A first value that is made when somebody asks for it, and never where another comes before that. What decides it follows: `bytes`
 * in all. */
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
    lki_buffer        *buffer;     /* while the variable waits, without memory */
    lki_later         *later;      /* how its first value is made; NULL: it came with one */
    bool               waits;      /* for its first value; atomic */
    lk_tensor         *readers;    /* tensors on the storage, handed out by lk_read() and still held by somebody */
    struct lki_spread *spread;     /* how a strategy owns it (replica.h); NULL: an ordinary variable */
    void              *constraint; /* a reference, with what becomes of a value by it after each update; NULL: none */
    lk_tensor *(*constrain)(const void *constraint, lk_tensor *value);
};

extern lk_tensor lki_poison;

/* What a call given a poisoned tensor returns: the first cause, or LK_EINVAL when that was cleared. */
lk_status lki_poisoned_status(const char *call);

static inline bool lki_bad(const lk_tensor *t) { return !t || t == &lki_poison; }

/* `size` elements of one value. */
void lki_repeat(lk_dtype dtype, void *elements, int64_t size, double value);

/* A tensor with room for its elements, contents undefined; lki_poison when there is none. In memory the host can write: the current
 * device's where that is such, else the CPU's. */
lk_tensor *lki_tensor_new(lk_dtype dtype, const lk_shape *shape);

/* The same on a device. */
lk_tensor *lki_tensor_on(lki_device *device, lk_dtype dtype, const lk_shape *shape);

/* Where a tensor's elements are for a device, and for the host: in place, or a copy that lives as long as the tensor. NULL and an
 * error: it could not be made. Not of traced ones. */
void       *lki_data_on(const lk_tensor *t, lki_device *device);
const void *lki_host_data(const lk_tensor *t);

/* Another tensor on the same elements, with another shape. */
lk_tensor *lki_tensor_view(lk_tensor *t, const lk_shape *shape);

/* A variable made at once, also while a function is traced, every element `fill` as soon as somebody looks; under a strategy its
 * first replica's value counts. */
lk_variable *lki_variable_new(const char *name, const lk_shape *shape, lk_dtype dtype, double fill, bool trainable);

/* One whose first value is made when it is read, unless it is written before: args->initial is NULL. `later` is copied. */
lk_variable *lki_variable_later(const lk_variable_args *args, const lk_shape *shape, lk_dtype dtype, const lki_later *later);

/* Whoever goes on to look at, or point into, the storage of a variable asks for the first of these; who is about to write all of
 * it, for the second. LK_ENOMEM. */
lk_status lki_variable_settle(const lk_variable *v); /* it has its value */
lk_status lki_variable_room(lk_variable *v);         /* it has memory, whatever is in it */
void      lki_variable_renew(lk_variable *v);        /* after the second, if nothing could be written: its first value after all */

/* Its value from now on are these elements, a block of lki_alloc() that becomes its storage. False: it has storage already, or that
 * of another device; nothing has happened. */
bool lki_variable_adopt(lk_variable *v, void *elements);

/* The storage, about to be written by the variable's own device: whoever still reads the old value moves to a copy first. NULL when
 * there is no memory for that. */
void *lki_variable_storage(lk_variable *v);

/* The lock of variables' lists of readers, and of their first values. */
void lki_readers_take(void);
void lki_readers_give(void);

/* Its elements for the host, until it is written next; NULL and an error: they could not be had. And all of them written by the
 * host. */
const void *lki_variable_values(const lk_variable *v);
lk_status   lki_variable_fill(lk_variable *v, const void *host);

/* Memory of its own for a tensor on a variable's storage, so that its data stays where it is from now on. */
lk_status lki_tensor_detach(lk_tensor *t);

/* The tensor, or, where the host cannot read its memory, a new one with its value that it can; lki_poison when that could not be
 * made. */
lk_tensor *lki_tensor_for_host(lk_tensor *t);

/* A tensor that has no data: value `value` of `graph`. */
lk_tensor *lki_tensor_traced(lk_dtype dtype, const lk_shape *shape, const lki_rows *rows, void *graph, int value);

/* Its value through the output hook, without a newline. */
void lki_print_value(const lk_tensor *t);

/* Rows `first` .. `first + rows - 1` of a tensor, on the same elements, `rows` meaning what `meaning` says. */
lk_tensor *lki_tensor_row_range(lk_tensor *t, int64_t first, int64_t rows, const lki_rows *meaning);

/* A per-replica value of `count` tensors (references are taken). `whole` may be NULL. Poisoned when an item is. */
lk_tensor *lki_per_replica(void *strategy, int count, lk_tensor *const *items, lk_tensor *whole, bool mirrored);

/* Equal in type, shape and every bit; false for values that are only traced, unless they are one. */
bool lki_same_bits(const lk_tensor *a, const lk_tensor *b);

/* Stands for other tensors: has no elements of its own. */
static inline bool lki_stands_for(const lk_tensor *t) { return t->replicas || t->nest; }

/* The tensor, or for a mirrored value its first copy: what is known to be the same everywhere can be used as a plain tensor. NULL
 * is passed through. */
static inline lk_tensor *lki_plain(lk_tensor *t) { return t && t->replicas && t->replicas->mirrored ? t->replicas->item[0] : t; }

/* One value under two names: the very same elements, or the same value of a graph. */
static inline bool lki_same_elements(const lk_tensor *a, const lk_tensor *b)
{
    if (a == b) return true;
    if (a->graph || b->graph) return a->graph == b->graph && a->value == b->value;
    return a->data && a->data == b->data && a->dtype == b->dtype && lki_shape_equal(&a->shape, &b->shape);
}

/* What to say when such a one is met where a plain tensor is needed. */
const char *lki_why_not_plain(const lk_tensor *t);

/* A tuple of `count` tensors; NULL items stay NULL ("none"). */
lk_tuple lki_tuple_new(int count, lk_tensor *const *items);

#endif
