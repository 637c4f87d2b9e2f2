/* The internals of datasets: nodes, cursors, elements.
 *
 *     lk_dataset (a node, immutable)      lki_cursor (a place in one iteration)         lki_element (16 bytes)
 *     batch ---> shuffle ---> slices      batch ---> shuffle ---> slices                row 4711 of a set of rows
 *
 * An iterator opens a tree of cursors, one per node. A caller of lki_cursor_next() asks for n elements; the cursor asks its inputs
 * for exactly what it needs for them. So rows move through the pipeline in blocks, as references; their bytes are copied once, by
 * batch.
 *
 * Invariants
 *  1. A node never changes after it was made, except counters and what a cache holds. It keeps references to its inputs.
 *  2. An element is a row of a set of rows, or (LKI_ALONE) a set that is one element. A set is reference-counted; the holder of an
 *     element holds a reference.
 *  3. A set is PLAIN (tensors), MAPPED (rows of another set, with a function that is applied when they are needed), JOINED (the
 *     tensors of several elements, side by side) or MADE (rows that the set's home makes from their numbers when they are needed).
 *     The kind of a set never changes a value.
 *  4. A cursor is used by one thread at a time. Cursors below a prefetch belong to its thread while that runs.
 *  5. Nothing is read before the first lki_cursor_next(). A cursor that failed or ended is not called again.
 *  6. Tensors in sets have no owner: they are made inside a step of the working thread and held by reference. The consumer gets
 *     views in its own step.
 *  7. The state of a cursor can be written to a file: rows of sources by their number, others by value (save.h). */
#ifndef LKI_DATA_H
#define LKI_DATA_H

#include "core/crew.h"
#include "dist/strategy.h"
#include "op/tensor.h"
#include <lockstep/dataset.h>

enum { LKI_MOST_COLUMNS = 64 }; /* tensors of an element */

typedef struct lki_cursor   lki_cursor;
typedef struct lki_vector   lki_vector;
typedef struct lki_rowset   lki_rowset;
typedef struct lki_pipeline lki_pipeline;
typedef struct lki_saver    lki_saver;
typedef struct lki_loader   lki_loader;
typedef struct lki_byte_map lki_byte_map;

/* ---- elements (rowset.c) ---- */

#define LKI_ALONE ((int64_t)-1)

typedef struct lki_element {
    lki_rowset *set; /* a reference */
    int64_t     row; /* LKI_ALONE: the set is the element */
} lki_element;

typedef enum lki_set_kind { LKI_SET_PLAIN, LKI_SET_MAPPED, LKI_SET_JOINED, LKI_SET_MADE } lki_set_kind;

/* Type and shape of one tensor of an element. */
typedef struct lki_column {
    lk_dtype dtype;
    lk_shape shape;
    bool     is_batch; /* its leading axis is marked as rows of a global batch */
} lki_column;

struct lki_rowset {
    int64_t      refs; /* atomic */
    lki_set_kind kind;
    int64_t      rows;  /* LKI_ALONE: it is one element */
    int          count; /* tensors of an element */
    const lk_dataset
                *home; /* can make the rows again: a source makes element first + row, a map applies itself; not a reference; or
                        * NULL */
    int64_t      first;
    int64_t      tag;    /* passed on with the element: distribute.c */
    lki_rowset  *of;     /* MAPPED: a reference; row i is function(of's row i) */
    lki_vector  *vector; /* a reference */
    int          parts;  /* JOINED: with rows, row i joins row i of each part's set; ALONE joins the parts */
    lki_element *part;
    bool         stays;              /* its owner reads the rows repeatedly: a card may keep a copy (resident.h) */
    struct lki_residence *residence; /* those copies; or NULL */
    lki_turn              turn;      /* to make copies, and rows that are missing there */
    const lki_column     *column;    /* MADE: the types and shapes of its rows; those of its home, whose make() makes the rows */
    lk_tensor            *item[];    /* PLAIN: references; with rows, the leading axis is the rows */
};

lki_rowset *lki_rowset_plain(int64_t rows, int count, lk_tensor *const *items); /* NULL without memory; the set takes references */
lki_rowset *lki_rowset_mapped(const lk_dataset *map, lki_rowset *of, lki_vector *v);
lki_rowset *lki_rowset_joined(int64_t rows, int parts, const lki_element *part);
lki_rowset *lki_rowset_made(const lk_dataset *home, int64_t rows, int count, const lki_column *column);
lki_rowset *lki_rowset_retain(lki_rowset *s, int64_t times);
void        lki_rowset_drop(lki_rowset *s, int64_t times); /* NULL is ignored */

static inline lki_element lki_element_alone(lki_rowset *s) { return (lki_element){s, LKI_ALONE}; }
static inline lki_element lki_element_retain(lki_element e) { return (lki_element){lki_rowset_retain(e.set, 1), e.row}; }

void lki_elements_drop(int64_t count, lki_element *e); /* and set them to empty */

typedef struct lki_elements { /* a queue */
    lki_element *item;        /* from `at` on, `count` of them */
    int64_t      at, count, room;
} lki_elements;

lk_status lki_elements_reserve(lki_elements *q, int64_t more); /* room for `more` after the last */
lk_status lki_elements_push(lki_elements *q, lki_element e);   /* takes over the element's reference */
void      lki_elements_clear(lki_elements *q);

lki_column lki_element_column(const lki_element *e, int i);
bool       lki_elements_alike(const lki_element *a, const lki_element *b); /* as many tensors, same types and shapes */

/* Its tensors as new ones in this thread's step, sharing the elements' memory where they can. */
lk_status lki_element_tensors(const lki_element *e, lk_tensor **out);

/* An element made of the caller's tensors; `call` is the call that passed them. Checks that they are plain values. */
lk_status lki_element_of_tuple(const char *call, lk_tuple t, lki_element *out);
lk_status lki_check_tuple(const char *call, lk_tuple t);

/* Call a function with an element's tensors, in a step of its own. Its status, or that of an error it has reported. */
typedef lk_status lki_element_fn(lk_tuple tensors, void *context);
lk_status         lki_element_call(const lki_element *e, lki_element_fn *fn, void *context);

/* n elements as one PLAIN set of n rows: bytes are copied unless the rows are neighbours already. LK_ESHAPE, in the name of `call`,
 * if types or shapes differ. */
lk_status lki_stack(const char *call, int64_t n, const lki_element *e, lki_rowset **out);

/* The same element as a separate PLAIN set, without copying. A batch keeps the information about its rows. */
lk_status lki_element_plain(const lki_element *e, lki_element *out);
bool      lki_has_batch(const lki_element *e);

/* Settle: values that are still to be computed are computed now. */
bool      lki_is_settled(const lki_rowset *s);
lk_status lki_elements_settle(const char *call, int64_t n, lki_element *e);

/* ---- functions over many rows at once (vector.c) ---- */

/* Trace fn on an element's tensors. NULL, without an error, if it cannot be run over many rows at once. */
lki_vector *lki_vector_of(lk_fn fn, void *user, int count, lk_tensor *const *example);
lki_vector *lki_vector_retain(lki_vector *v);
void        lki_vector_drop(lki_vector *v);
int         lki_vector_count(const lki_vector *v); /* of results */
lki_column  lki_vector_column(const lki_vector *v, int i);

/* Direct: every result is a tensor of the element, possibly reshaped, or a function of each byte of one, as f32 (bytes.h). Then
 * these functions return the tensor that result i is made of, and that function; NULL: none. */
bool lki_vector_is_direct(const lki_vector *v);
int  lki_vector_source(const lki_vector *v, int i, const lki_byte_map **bytes);

/* True if fn, traced now, would give the same vector. */
bool lki_vector_still(const lki_vector *v, lk_fn fn, void *user, int count, lk_tensor *const *example);

/* `in` has `rows` rows; so do the results, which are references. */
lk_status lki_vector_run(const lki_vector *v, int64_t rows, lk_tensor *const *in, lk_tensor **out);

/* ---- nodes (dataset.c) ---- */

typedef struct lki_dataset_ops {
    const char *name;        /* of the call that makes it */
    size_t      state_bytes; /* of each cursor */
    bool        counts;      /* iterations differ: the node counts them */
    bool        transparent; /* returns its input's elements unchanged: a saved iterator does not contain it */
    bool        passes;      /* returns its input's elements, or views of them, without reading their values */
    bool        stacks;      /* makes its elements with lki_stack_for() */

    lk_status (*begin)(lki_cursor *c); /* optional: before the first element of a turn; without it the inputs begin the same turn */
    lk_status (*next)(lki_cursor *c, int64_t want, lki_element *out,
                      int64_t *got);           /* *got < want: it ended. On failure *got elements are dropped by the caller */
    void (*stop)(lki_cursor *c);               /* optional: release what is held, end threads; the state is then as before begin */
    void (*save)(lki_cursor *c, lki_saver *s); /* optional */
    lk_status (*restore)(lki_cursor *c,
                         lki_loader *l); /* with save; the inputs are restored first. On failure stop() releases what exists */
    lk_status (*hold)(lki_cursor   *c,
                      lki_elements *ahead); /* transparent ones, optional: leave the input, append what was read ahead */
    lk_status (*again)(lki_cursor *c, int64_t number,
                       lki_element *out); /* optional: element `number`, for sets whose home this is */
    bool (*still)(lki_cursor *c);         /* optional: would an early read give the same now? NULL: none is early */
    bool (*has)(const lki_cursor  *c,
                const lki_element *e); /* optional, if cursors of one node differ: whether again() would return this element */
    lk_status (*remake)(lki_cursor *c, const lki_element *from, lki_element *out); /* optional: a map's element from its input's */
    lk_status (*make)(const lk_dataset *d, int64_t n, const lki_element *e,
                      lk_tensor *const *out); /* of homes of MADE sets: row e[i].row becomes row i of `out`. Called on any thread */

    int64_t (*cardinality)(const lk_dataset *d);            /* optional; without it: that of the first input */
    lk_status (*spec)(lk_dataset *d, lk_element_spec *out); /* optional; without it the first element is read */
    void (*destroy)(lk_dataset *d);                         /* optional */
} lki_dataset_ops;

typedef enum lki_batching { LKI_NOT_BATCHED, LKI_BATCHED, LKI_MAYBE_BATCHED } lki_batching;

struct lk_dataset { /* the first member of every node */
    lki_object             object;
    const lki_dataset_ops *ops;
    int                    inputs;
    lk_dataset           **input; /* references */
    uint64_t               print; /* of its parameters: a saved iterator can be restored in pipelines with the same print */
    lki_batching           batching;
    int64_t                global;      /* rows of a full batch; 0: unknown */
    bool                   exact;       /* all batches are full */
    uint64_t               iterations;  /* atomic; of nodes that count iterations: begun so far */
    bool                   distributed; /* no further operations are allowed */
    lk_names               classes;     /* a reference: the names of its label classes; mostly none */
};

/* A new node of `bytes`, with its inputs and the members that follow from the first input filled in. NULL without memory. */
void *lki_dataset_new(const lki_dataset_ops *ops, size_t bytes, int inputs, lk_dataset *const *input);

bool lki_is_dataset(const void *object);

/* True if `call` can use this as an input. NULL and distributed datasets are reported as errors. */
bool lki_dataset_usable(const char *call, const lk_dataset *d);

uint64_t lki_mix(uint64_t a, uint64_t b);

/* ---- sources that are the rows of one set (source.c) ---- */

typedef struct lki_rows_node { /* the first member of their nodes */
    lk_dataset  base;
    lki_rowset *set; /* a reference; ALONE: one element */
} lki_rows_node;

typedef struct lki_source_state { /* a cursor of any source in memory is a number: the element that comes next */
    int64_t next;
} lki_source_state;

lk_status lki_rows_next(lki_cursor *c, int64_t want, lki_element *out, int64_t *got);
lk_status lki_rows_again(lki_cursor *c, int64_t number, lki_element *out);
lk_status lki_rows_spec(lk_dataset *d, lk_element_spec *out);
int64_t   lki_rows_cardinality(const lk_dataset *d);
void      lki_rows_destroy(lk_dataset *d);
void      lki_source_save(lki_cursor *c, lki_saver *s);
lk_status lki_source_restore(lki_cursor *c, lki_loader *l);

#define LKI_ROWS_OPS(call)                                                                                                         \
    .name = call, .state_bytes = sizeof(lki_source_state), .next = lki_rows_next, .save = lki_source_save,                         \
    .restore = lki_source_restore, .again = lki_rows_again, .cardinality = lki_rows_cardinality, .spec = lki_rows_spec

/* Pictures as bytes (u8) and labels, to f32 divided by 255; drops `bytes`, which may be NULL. */
lk_dataset *lki_scaled_pictures(lk_dataset *bytes);

/* ---- cursors (cursor.c) ---- */

/* What the cursors of one iterator share. */
struct lki_pipeline {
    uint64_t     seed;
    int          lanes;
    bool         looking; /* only to look at an element: nothing is shuffled, cached or counted */
    bool         early;   /* the iteration has not begun: it is not counted, and functions are not called for single elements */
    int          workers, worker;           /* file sources read files worker, worker + workers, ... */
    int          hint_workers, hint_worker; /* shards marked with LK_SHARD_HINTED */
    int          shuffles;                  /* numbered so far */
    lki_device  *device;                    /* the card on which the consumer computes; NULL: the host */
    unsigned     threads_of;                /* atomic: one more than the number of the process with its threads; 0: it has none */
    int          count, capacity;
    lki_cursor **cursor; /* by position: inputs first. Cursors that interleave opens later are not in it */
};

struct lki_cursor {
    lk_dataset   *dataset; /* the node; the code that opened the tree holds the root's */
    lki_pipeline *pipeline;
    int           position;  /* -1: not in the list */
    uint64_t      place;     /* distinguishes random orders by the place in the pipeline */
    uint64_t      iteration; /* of nodes that count */
    uint64_t      turn;      /* which repetition */
    lki_device   *device;    /* the card that its elements are made for; NULL: the host, or a cursor on the host reads them first */
    bool          begun, ended;
    lki_elements  pending; /* returned first: from a restored iterator */
    int           inputs;
    lki_cursor  **input;
    void         *state; /* zeroed at first */
};

/* Opening a tree of cursors: the pipeline's, or one that interleave opens for one element of its input. */
typedef struct lki_opening {
    const lki_cursor *parent; /* interleave's; NULL: the pipeline's own */
    uint64_t          place;
    int              *shuffles;
} lki_opening;

lk_status lki_cursor_open(lki_pipeline *p, lk_dataset *d, const lki_opening *o, lki_cursor **out);
void      lki_cursor_close(lki_cursor *c); /* NULL is ignored */
lk_status lki_cursor_begin(lki_cursor *c, uint64_t turn);
lk_status lki_cursor_begin_inputs(lki_cursor *c, uint64_t turn);
lk_status lki_cursor_next(lki_cursor *c, int64_t want, lki_element *out, int64_t *got);
void      lki_cursor_stop(lki_cursor *c); /* and its inputs */
bool      lki_cursor_same(lki_cursor *c); /* `still` of nodes that depend only on their input, the seed and the iteration */

lk_status lki_pipeline_open(lki_pipeline *p, lk_dataset *root, lki_cursor **out);
void      lki_pipeline_close(lki_pipeline *p, lki_cursor *root);

/* Start a thread of a pipeline. After a fork() the threads do not exist in the child, and what they were working on may be in any
 * state: there a pipeline that ever had threads is neither used nor closed. LK_ESTATE and an error that begins with `call`. */
lk_status lki_cursor_start(lki_cursor *c, void *(*fn)(void *), void *arg, lki_thread *out);
bool      lki_pipeline_is_here(const lki_pipeline *p);
lk_status lki_pipeline_check(const char *call, const lki_pipeline *p);

/* ---- from one folder to another ---- */

/* The strategy that a dataset was distributed over; NULL: none. */
lk_strategy *lki_dataset_strategy(const lk_dataset *d);

/* A prefetch node, for datasets over replicas. `alone`: the thread is started only if elements turn out to be expensive. */
lk_dataset *lki_prefetch_node(lk_dataset *d, int elements, bool alone);

/* A map whose function gets a reference-counted object as `user`, which the map keeps. */
lk_dataset *lki_map_with(lk_dataset *d, lk_fn fn, void *object, int parallel);

/* Batches only where all of the first `count` inputs are batches, of one size. */
void lki_agree_on_batches(lk_dataset *d, int count);

/* A number in [0, 1) that depends on these only. */
double lki_chance(uint64_t key, uint64_t counter, uint64_t number);

/* The seed that was given, or the pipeline's; false and an error if it is not an integer from 0 to 2^53. */
bool     lki_seed_fits(const char *call, lk_number seed);
uint64_t lki_seed_of(const lki_cursor *c, lk_number given, const char *stream);

/* start, start + 1, ... without end, i64. */
lk_dataset *lki_counter_node(int64_t start);

/* The number of files of the smallest source of files below. 0: there is none. */
int lki_fewest_files(const lk_dataset *d);

/* True if a shard marked with LK_SHARD_HINTED is below. */
bool lki_has_hint(const lk_dataset *d);

/* Sets how workers share the data of a distributed dataset, and the consumer's card, before the pipeline's cursors are opened. */
void lki_pipeline_share(lki_pipeline *p, const lk_dataset *root);

/* An iterator of an iteration that has not begun yet, whose first element is already computed. The caller gets a reference, and
 * calls lki_iterator_begin() when the iteration begins. NULL without an error if this is not possible; then use lk_iterator_of().
 * The results are always those of lk_iterator_of(): iterations are counted when they begin, in order, and if a seed, a count or a
 * function of a map has changed by then, the element is discarded. */
lk_iterator *lki_iterator_early(lk_dataset *d);
bool         lki_iterator_begin(lk_iterator *it); /* false: drop it, and use another */

/* The tuple that a consumer gets for an element of a distributed dataset; for others, the element's tensors. */
lk_tuple lki_deliver(lk_dataset *d, const lki_element *e);

/* A view, in this thread's step, of a tensor that was made elsewhere; per-replica tensors and nests are rebuilt from views. */
lk_tensor *lki_hand_over(lk_tensor *t);

/* Fill `rows` up to `size` from the cursor's input (batch.c); memory is allocated as rows arrive. Fewer at the input's end. */
lk_status lki_read_rows(lki_cursor *c, int64_t size, lki_elements *rows);

#endif
