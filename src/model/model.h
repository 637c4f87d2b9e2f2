/* The internals of models: layers, how values flow through them, the strategy they were made under, and what their last call added
 * to the losses.
 *
 *     MADE -- shapes known, lk_model_build(), first call --> BUILT: every layer has its weights
 *
 * Values are numbered: first the model's inputs, then the results of its uses of layers, in the order they run. A sequential model
 * is a chain of uses; a custom model has a function instead.
 *
 * Invariants
 *  1. The model is built once, as a whole; inside run all replicas meet for it and the variables are made once.
 *  2. Variables belong to the strategy that was current when the model was made; those of a model made under none, to the one it is
 *     built under.
 *  3. The terms that a call adds to the losses belong to the thread that called, so replicas do not see each other's.
 *  4. `layer` is in Keras' order (files name layers by position), `call` in the order of running. */
#ifndef LKI_MODEL_MODEL_H
#define LKI_MODEL_MODEL_H

#include "core/waiting.h"
#include "dist/strategy.h"
#include "layer/layer.h"
#include <lockstep/model.h>

typedef struct lki_added { /* the terms added by the last call on one thread; written by that thread only */
    const void       *thread;
    lk_tensor       **item;  /* references */
    bool             *share; /* item i is this replica's share of something over the whole batch */
    int               count, room, share_room;
    struct lki_added *next;
} lki_added;

typedef enum lki_model_form { LKI_SEQUENTIAL, LKI_FUNCTIONAL, LKI_OWN_MODEL } lki_model_form;

typedef struct lki_model_input {
    lk_shape  row;   /* -1: any size. Of a sequential model: once built */
    lk_dtype  dtype; /* rows are cast to it */
    bool      as_is; /* they are not: the first layer takes ids, or the model has a custom function */
    lk_layer *layer; /* of a functional model: its input layer; else NULL */
} lki_model_input;

typedef struct lki_use { /* one use of a layer; its results are values */
    lk_layer             *layer;
    int                   count;
    int                  *in;             /* values; LKI_ABSENT: an argument that is left out */
    int                   positional;     /* in a Keras file the first n are given by position, the others by name */
    int                   first, results; /* values */
    struct lki_call_form *form;           /* how a Keras file writes the call (layer/call_form.h), a reference; NULL: as above */
} lki_use;

struct lki_compiled;

struct lk_model {
    lki_object       object;
    lki_model_form   form;
    char            *name;
    lk_strategy     *strategy; /* a reference; NULL: made under none */
    int              count;
    lk_layer       **layer; /* references, placed */
    int              inputs;
    lki_model_input *input;
    int              values; /* inputs, and results of all uses */
    int              uses;
    lki_use         *use;
    int              outputs;
    int             *output;       /* values */
    char            *structure[2]; /* of inputs and outputs, as JSON with numbers in the places of tensors; NULL: one, or a list */
    char           **key;          /* of outputs that are entries of an object, for losses and metrics; NULL: by their layers */
    lk_model_fn      fn;           /* of a custom model; else NULL */
    void            *user;
    bool             shaped;       /* the shapes of the inputs are known */
    bool             built;        /* atomic */
    lk_variable     *calls;        /* the number of training calls, an input of dropout's random numbers; NULL if no layer draws. A
                              * reference */
    lki_added       *added;        /* atomic; grows only */
    lki_waiters      waiting;      /* for the variables */
    struct lki_compiled *compiled; /* what it is trained with (compiled.h); NULL: not compiled */
    void (*forget_compiled)(struct lki_compiled *);
    int         stop;        /* atomic: training should end after the current step; LKI_STOP_... */
    const void *user_thread; /* atomic: the thread that trains or evaluates it; NULL: none */
    int         uses_open;   /* nested calls of that thread */
};

enum {
    LKI_STOP_NOT,
    LKI_STOP_ASKED,
    LKI_STOP_DONE
}; /* asked: by a signal or a caller; done: a callback found no further improvement */

/* An address that is different on every thread. */
const void *lki_this_thread(void);

static inline bool lki_model_built(const lk_model *m) { return __atomic_load_n(&m->built, __ATOMIC_ACQUIRE); }

/* Without layers; uses the current strategy. NULL without memory. */
lk_model *lki_model_new(const char *name, lki_model_form form);

/* Add the model's layers, in Keras' order: named by position, all or none. `call` for messages. */
lk_status lki_model_take(const char *call, lk_model *m, int count, lk_layer *const *layer);

/* Room for the flow: inputs, uses, outputs. Then the uses, in the order they run: `use` with its own `in`, which is copied. */
lk_status lki_model_flow(lk_model *m, int inputs, int uses, int outputs);
lk_status lki_model_use(lk_model *m, const lki_use *use);

/* The use that a value is a result of; NULL: it is an input. */
const lki_use *lki_use_of(const lk_model *m, int value);

/* Make the variables now, in the current context, for rows of these shapes (as many as inputs; NULL: those it knows). */
lk_status lki_model_make(lk_model *m, const lk_shape *row);

/* The counter of training calls, for models with layers that draw; made with the weights. */
lk_status lki_model_count_calls(lk_model *m);

/* ---- values (flow.c) ---- */

/* Ask the layers for the shape of every value for rows of these shapes. With `build` layers make their weights, too. */
lk_status lki_flow_shapes(lk_model *m, const lk_shape *row, lk_shape *shape, bool build);

/* Run it: as many tensors as inputs, already cast; returns the outputs. */
lk_tuple lki_flow_run(lk_model *m, lk_tuple in, const lki_pass *pass);

/* ---- losses of a call (losses.c) ---- */

void lki_model_clear_added(lk_model *m); /* of this thread */
void lki_model_free_added(lk_model *m);  /* of all */

/* While set on this thread, terms that are added per row count over the rows of the whole batch: a share of the model's loss, not
 * to be divided again. */
void lki_model_exact_rows(bool exact);

/* The model's terms of the loss as one replica's share, summed: regularisation once over all replicas, added terms as they were
 * added. NULL: there are none. */
lk_tensor *lki_model_share_of_losses(lk_model *m);

/* The model that a layer wraps; NULL: it wraps none (model_layer.c). */
extern const lki_layer_kind lki_model_layer_kind;
lk_model                   *lki_model_inside(const lk_layer *l);

bool lki_is_model(const char *call, const lk_model *m);

/* All of a model's weights, layer by layer; from lki_alloc. NULL without memory. */
lki_weight **lki_model_weight_list(const lk_model *m, int *count);

/* The layer whose output is output i, for names: "dense_1". */
const char *lki_model_output_name(const lk_model *m, int i);

/* The activation that computes output i, seen through layers that do not change values: see lk_model_output_activation()
 * (output_activation.c). */
lk_status lki_model_output_activation(lk_model *m, int output, lk_activation *out);

#endif
