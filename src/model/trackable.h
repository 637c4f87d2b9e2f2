/* The objects of a checkpoint as they are now, in the form that TensorFlow and Keras use: a graph of names that ends in variables.
 *
 *     checkpoint   its objects, by name; save_counter once it has counted
 *     model        sequential: _functional / _operations / 0 (the input), 1, 2, ...: its layers; functional: _operations / 0,
 *                  1, ...: its layers, inputs included; custom: its layers by their names. Compiled: optimizer
 *     layer        _kernel, bias, gamma, ...; cell / kernel; _query_dense / _kernel; forward_layer; a nested model like a model
 *     optimiser    _variables / 0.., _trainable_variables / 0.., _iterations, _learning_rate, _momentums / 0.., ...
 *     metric       total, count
 *
 * Invariants
 *  1. Nodes are numbered breadth first, so the first path to a node is a shortest one: it is the node's key.
 *  2. An object is one node, however many names it has.
 *  3. Nothing is retained: a graph is valid as long as its objects do not change. */
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
    bool          counted; /* it was saved or restored, so the counter is part of it */
    char         *path;    /* of the last save */
};

typedef enum lki_tracked_kind {
    LKI_TRACKED_CHECKPOINT,
    LKI_TRACKED_MODEL,
    LKI_TRACKED_FUNCTIONAL, /* of a model */
    LKI_TRACKED_OPERATIONS, /* of a model */
    LKI_TRACKED_INPUT,      /* of a model; empty */
    LKI_TRACKED_LAYER,
    LKI_TRACKED_PART, /* of a layer: the object that holds its index-th weight, and others */
    LKI_TRACKED_OPTIMIZER,
    LKI_TRACKED_GROUP, /* the index-th list of an optimiser */
    LKI_TRACKED_METRIC,
    LKI_TRACKED_VARIABLE,
} lki_tracked_kind;

typedef struct lki_tracked {
    lki_tracked_kind kind;
    void            *object;
    int              index;
    const char      *path;     /* "model/_functional/_operations/1/bias", from the root object */
    lk_variable     *variable; /* of a variable: itself; else NULL */
    bool             inside;   /* a model that is a layer of another: it is built with that one */
    bool             lanes;    /* a variable with an entry per lane; its value is their sum */
    lk_variable     *exact;    /* a variable that only lockstep keeps: a model's count of calls, a variable with its lanes; or
                                * NULL */
} lki_tracked;

typedef struct lki_trackables {
    lki_object_graph graph; /* node[i] describes its i-th node */
    int              room;
    lki_tracked     *node;
} lki_trackables;

/* For a variable with an entry per lane: the shape of an entry. */
static inline lk_shape lki_entry_shape(const lk_variable *v)
{
    lk_shape entry = {v->shape.rank ? v->shape.rank - 1 : 0, {0}};
    for (int i = 0; i < entry.rank; i++)
        entry.dim[i] = v->shape.dim[i + 1];
    return entry;
}

/* The kind of a program's object; -1 if it cannot be in a checkpoint. */
int lki_tracked_kind_of(const void *object);

/* The graph below an object. */
lk_status lki_trackables_of(void *object, lki_trackables *out);
void      lki_trackables_free(lki_trackables *t);

/* The key for a value that only lockstep keeps for node n: no graph names it, so other programs ignore it. */
enum { LKI_EXACT_KEY = 48 };
const char *lki_exact_key(int node, char text[LKI_EXACT_KEY]);

/* LK_OK if a checkpoint may be written or read here. Not inside run and not while a function is traced: LK_EUNSUPPORTED. */
lk_status lki_checkpoint_allowed(const char *call, const lk_checkpoint *c);

/* Save as lk_checkpoint_save() does, under the next number, or the given one (-1: the next), and then call `publish`; if that
 * fails, the counting is undone. */
typedef lk_status lki_publish_fn(void *arg, const char *path);
const char *lki_checkpoint_save(const char *call, lk_checkpoint *c, const char *prefix, int64_t number, lki_publish_fn *publish,
                                void *arg);

/* Variables are read and assigned outside of all scopes, runs, tapes and traced functions. */
typedef struct lki_outside {
    lki_context context;
    lki_tracer *tracer;
} lki_outside;
lki_outside lki_step_outside(void);
void        lki_step_back(const lki_outside *before);

#endif
