/* The objects of a checkpoint as they are now, seen as TensorFlow and Keras see theirs: a graph of names that ends in variables.
 *
 *     checkpoint   its objects, by name; save_counter once it has counted
 *     model        in a row: _functional / _operations / 0 (the input), 1, 2, ...: its layers; functional: _operations / 0, 1, ...:
 *                  its layers, inputs among them; of one's own: its layers by their names. Compiled: optimizer
 *     layer        _kernel, bias, gamma, ...; cell / kernel; _query_dense / _kernel; forward_layer; a model is what a model is
 *     optimiser    _variables / 0.., _trainable_variables / 0.., _iterations, _learning_rate, _momentums / 0.., ...
 *     metric       total, count
 *
 * Invariants
 * 1. Nodes are numbered as they are met breadth first, so the path by which a node was met first is a shortest one: it is its key.
 * 2. An object is one node, however many names it has.
 * 3. Nothing is retained: a graph is good as long as its objects do not change. */
#ifndef LKI_MODEL_TRACKABLE_H
#define LKI_MODEL_TRACKABLE_H

#include "dist/strategy.h"
#include "format/object_graph.h"
#include "op/record.h"
#include <lockstep/checkpoint.h>

struct lk_checkpoint {
    lki_object    object;
    int           count;
    lk_trackable *item;    /* ascending by name; names from lki_alloc, objects are references */
    lk_variable  *counter; /* a reference: how often it was saved */
    bool          counted; /* it was saved or restored, so the counter belongs to it */
    char         *path;    /* of the last save */
};

typedef enum lki_tracked_kind {
    LKI_TRACKED_CHECKPOINT,
    LKI_TRACKED_MODEL,
    LKI_TRACKED_FUNCTIONAL, /* of a model */
    LKI_TRACKED_OPERATIONS, /* of a model */
    LKI_TRACKED_INPUT,      /* of a model; empty */
    LKI_TRACKED_LAYER,
    LKI_TRACKED_PART, /* of a layer: what holds its index-th weight, and others */
    LKI_TRACKED_OPTIMIZER,
    LKI_TRACKED_GROUP, /* the index-th list of an optimiser */
    LKI_TRACKED_METRIC,
    LKI_TRACKED_VARIABLE,
} lki_tracked_kind;

typedef struct lki_tracked {
    lki_tracked_kind kind;
    void            *object;
    int              index;
    const char      *path;     /* "model/_functional/_operations/1/bias", from the object the graph was made of */
    lk_variable     *variable; /* of a variable: itself; else NULL */
    bool             inside;   /* a model met as a layer of another: it is built with that one */
    bool             lanes;    /* a variable with an entry per lane; its value is their sum */
    lk_variable     *exact;    /* what only lockstep keeps: a model's count of calls, a variable with its lanes; or NULL */
} lki_tracked;

typedef struct lki_trackables {
    lki_object_graph graph; /* node[i] tells what its i-th node is */
    int              room;
    lki_tracked     *node;
} lki_trackables;

/* Of a variable with an entry per lane: that of an entry. */
static inline lk_shape lki_entry_shape(const lk_variable *v)
{
    lk_shape entry = {v->shape.rank ? v->shape.rank - 1 : 0, {0}};
    for (int i = 0; i < entry.rank; i++)
        entry.dim[i] = v->shape.dim[i + 1];
    return entry;
}

/* What an object a program has is here; -1 for one that cannot be in a checkpoint. */
int lki_tracked_kind_of(const void *object);

/* The graph below an object. */
lk_status lki_trackables_of(void *object, lki_trackables *out);
void      lki_trackables_free(lki_trackables *t);

/* What lockstep keeps of node n beside what TensorFlow looks for: a key no graph names, so others pass it over. */
enum { LKI_EXACT_KEY = 48 };
const char *lki_exact_key(int node, char text[LKI_EXACT_KEY]);

/* May a checkpoint be written or read here? Not inside run and not while a function is traced: LK_EUNSUPPORTED. */
lk_status lki_checkpoint_allowed(const char *call, const lk_checkpoint *c);

/* Save as lk_checkpoint_save() does, under the next number, or another one (-1: the next), and then call `publish`, whose error
 * undoes the counting. */
typedef lk_status lki_publish_fn(void *arg, const char *path);
const char *lki_checkpoint_save(const char *call, lk_checkpoint *c, const char *prefix, int64_t number, lki_publish_fn *publish,
                                void *arg);

/* Variables are read and assigned outside of everything: scopes, runs, tapes and traced functions. */
typedef struct lki_outside {
    lki_context context;
    lki_tracer *tracer;
} lki_outside;
lki_outside lki_step_outside(void);
void        lki_step_back(const lki_outside *before);

#endif
