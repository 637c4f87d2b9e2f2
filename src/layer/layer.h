/* The internals of layers: an object, a table per kind, its arguments, and its weights. One kind, one short file.
 *
 *     typedef struct dense { lk_layer layer; lk_dense_args set; } dense;              the layer and its arguments
 *     static const lki_field FIELDS[] = {LKI_LAYER_FIELDS(lk_dense_args), ...};       their names in Keras
 *     const lki_layer_kind lki_dense_kind = {.name = "dense", .class = {...}, ..., .output = output, .build = build, .call = call};
 *     lk_layer *lk_dense_kw(lk_dense_args a)                                          checks, then lki_layer_new(..., &a)
 *
 * and a line in kinds.inc, so that the kind is found for Keras files.
 *
 * Invariants
 *  1. A layer belongs to at most one model (or one wrapping layer), which gives it its name by position; names and first values of
 *     weights follow from that.
 *  2. Shapes here are those of one row, without the batch; -1 is a size that differs from call to call.
 *  3. A layer is built as a whole: it has all of its weights or none.
 *  4. Input shapes are a list that ends with a shape of rank -1; layers with one input read only the first. An argument that a call
 *     leaves out has rank LKI_ABSENT there, and is NULL among tensors.
 *  5. A layer with several results returns them as a nest; their number depends on its arguments only. */
#ifndef LKI_LAYER_LAYER_H
#define LKI_LAYER_LAYER_H

#include "core/field.h"
#include "core/shape.h"
#include "nn/initializer.h"
#include "op/op.h"
#include <lockstep/layer.h>

enum { LKI_MOST_WEIGHTS = 16, LKI_MOST_INPUTS = 64, LKI_MOST_OUTPUTS = 64, LKI_ABSENT = -2 };

/* What one call of a model passes to all of its layers. */
typedef struct lki_pass {
    bool       training;
    lk_tensor *iteration; /* the model's count of training calls, i64; NULL if no layer draws numbers */
    lk_tuple   in;        /* all inputs of this layer; item[0] is x; NULL: an argument that was left out */

    /* Adds terms to the loss: one value (or several) per row. NULL: they are dropped. */
    lk_status (*add)(void *to, lk_tensor *rows);
    void *to;

    struct lk_strategy *strategy; /* of the model: layers that are called by hand make their weights under it. NULL: none */
} lki_pass;

typedef struct lki_layer_kind {
    const char *name;    /* the name of layers without a given name, with a number from the second one on */
    lki_class class;     /* for Keras files; class.name NULL: it cannot be in one */
    size_t bytes;        /* of the struct that begins with the lk_layer */
    size_t set;          /* offset of the arguments in it */
    int    fewest, most; /* inputs: 0 and 0 mean exactly one; most -1: any number */
    bool   draws;        /* uses random numbers while training */
    bool   takes_ids;    /* input stays integers; other layers get it as f32 */
    bool   mixes_rows;   /* while training, the result for a row depends on the others */

    /* The tensors that a call takes, by Keras' names and in its order, ending with NULL: {"query", "value", "key"}. Input i is
     * argument i; the last argument may be a list and takes the remaining inputs. Bool tensors stay bool from the second on.
     * Optional: without it a call takes one tensor or a list of equal ones. */
    const char *const *arguments;

    /* The shape of a result row, or of each result; an error if the layer, or its existing weights, cannot process the row.
     * Optional: without it rows keep their shape. lki_layer_infer serves any kind without weights. */
    lk_status (*output)(const lk_layer *l, const lk_shape *in, lk_shape *out);
    int (*outputs)(const lk_layer *l); /* optional: how many results; without it one */

    /* The mask of result y, the i-th, computed from the inputs and their masks (in.item[0]->mask); NULL: it has none. Optional:
     * without it results have none. Where rows keep their steps: lki_mask_passes. */
    lk_tensor *(*mask)(const lk_layer *l, lk_tuple in, lk_tensor *y, int i);
    lk_status (*build)(lk_layer *l, const lk_shape *in); /* optional: make the weights, with lki_layer_weight() */
    lk_tensor *(*call)(lk_layer *l, lk_tensor *x, const lki_pass *pass);
    void (*destroy)(lk_layer *l); /* optional: frees what the struct holds besides its arguments */

    /* Where Keras keeps weight i in a file, relative to the layer; NULL: "vars/0", "vars/1", ... */
    const char *const *place;

    /* Optional: the weight of an inner layer that Keras stores with this one too, as its first; NULL: none. */
    struct lki_weight *(*borrowed)(const lk_layer *l);

    /* Where it keeps those of inner layer i, relative to this one: "forward_layer"; the rest of the path is the inner one's. */
    const char *const *inner_place;
    const char        *inner_list; /* or: inner layers are those of a list of this name, "cells" */
} lki_layer_kind;

#define LKI_LAYER_OF(T, A, CLASS, FIELDS_)                                                                                         \
    .class = {.name = CLASS, .module = "keras.layers", LKI_ARGS(A, FIELDS_), .make = make}, .bytes = sizeof(T),                    \
    .set = offsetof(T, set)

/* The first fields of every layer, in this order. */
#define LKI_LAYER_FIELDS(A)                                                                                                        \
    LKI_FIELD(NAME, A, name), LKI_FIELD_AS("", SHAPE, A, input_shape), LKI_FIELD(SWITCH, A, trainable, .standard = 1)
enum { LKI_LAYER_NAME, LKI_LAYER_INPUT_SHAPE, LKI_LAYER_TRAINABLE };

/* Fields that several kinds have. */
extern const char *const lki_activation_words[LK_ACTIVATION_COUNT];
extern const char *const lki_padding_words[3];
#define LKI_ACTIVATION_FIELD(A, member, standard_)                                                                                 \
    LKI_FIELD(WORD, A, member, .words = lki_activation_words, .word_count = LK_ACTIVATION_COUNT, .standard = standard_)
#define LKI_PADDING_FIELD(A) LKI_FIELD(WORD, A, padding, .words = lki_padding_words, .word_count = 3)
#define LKI_INITIALIZER_FIELD(A, member, standard_)                                                                                \
    LKI_FIELD(OBJECT, A, member, .kind = LKI_KIND_INITIALIZER, .standard_word = standard_)
#define LKI_REGULARIZER_FIELD(A, member) LKI_FIELD(OBJECT, A, member, .kind = LKI_KIND_REGULARIZER)
#define LKI_CONSTRAINT_FIELD(A, member) LKI_FIELD(OBJECT, A, member, .kind = LKI_KIND_CONSTRAINT)
#define LKI_KERNEL_AND_BIAS_FIELDS(A)                                                                                              \
    LKI_FIELD(SWITCH, A, use_bias, .standard = 1), LKI_INITIALIZER_FIELD(A, kernel_initializer, "GlorotUniform"),                  \
        LKI_INITIALIZER_FIELD(A, bias_initializer, "Zeros"), LKI_REGULARIZER_FIELD(A, kernel_regularizer),                         \
        LKI_REGULARIZER_FIELD(A, bias_regularizer), LKI_REGULARIZER_FIELD(A, activity_regularizer),                                \
        LKI_CONSTRAINT_FIELD(A, kernel_constraint), LKI_CONSTRAINT_FIELD(A, bias_constraint)
#define LKI_GAMMA_AND_BETA_FIELDS(A)                                                                                               \
    LKI_FIELD(NUMBER, A, epsilon, .standard = 0.001), LKI_FIELD(SWITCH, A, center, .standard = 1),                                 \
        LKI_FIELD(SWITCH, A, scale, .standard = 1), LKI_INITIALIZER_FIELD(A, beta_initializer, "Zeros"),                           \
        LKI_INITIALIZER_FIELD(A, gamma_initializer, "Ones"), LKI_REGULARIZER_FIELD(A, beta_regularizer),                           \
        LKI_REGULARIZER_FIELD(A, gamma_regularizer), LKI_CONSTRAINT_FIELD(A, beta_constraint),                                     \
        LKI_CONSTRAINT_FIELD(A, gamma_constraint)
#define LKI_CHANNELS_LAST LKI_FIXED("data_format", "\"channels_last\"")

typedef lki_filling lki_first_value(lk_shape shape, const char *stream);

typedef struct lki_weight {
    const char           *name;        /* "kernel"; static, or valid as long as the layer exists */
    const lk_initializer *initializer; /* NULL: standard */
    lki_first_value      *standard;
    lk_shape              drawn_as;    /* if its first value is drawn in another shape with as many elements; rank 0: in its own */
    lk_regularizer       *regularizer; /* held by the arguments; NULL: none */
    lk_constraint        *constraint;  /* held by the arguments; NULL: none */
    lk_switch             trainable;   /* default LK_ON */
    lk_synchronization    synchronization;
    lk_aggregation        aggregation;
    const char           *place;    /* where Keras keeps it in a file, relative to the layer; NULL: as the kind says */
    lk_variable          *variable; /* a reference, once made */
} lki_weight;

/* A weight with the arguments <what>_initializer, <what>_regularizer and <what>_constraint. */
#define LKI_WEIGHT(args, what, first)                                                                                              \
    ((lki_weight){.name = #what,                                                                                                   \
                  .initializer = (args)->what##_initializer,                                                                       \
                  .standard = first,                                                                                               \
                  .regularizer = (args)->what##_regularizer,                                                                       \
                  .constraint = (args)->what##_constraint})

struct lk_layer {
    lki_object            object;
    const lki_layer_kind *kind;
    bool                  placed; /* in a model, or inside another layer */
    bool                  named;  /* by its constructor, not by position */
    bool                  built;  /* it has its weights, if any */
    bool                  trainable;
    bool                  draws; /* random numbers while training: as the kind, unless its options disable them */
    char           *name, *path; /* "dense_1" and "sequential/dense_1"; before it is placed, the name given or NULL, and NULL */
    lk_shape        input_shape; /* as given; rank 0: not given */
    lk_regularizer *activity;    /* for the layer's results; held by the arguments; NULL: none */
    char            seed[32];    /* "seed/7"; "": none given */
    const char     *policy;      /* the dtype policy that a Keras file gave it, static; NULL: float32. It only goes back to files */
    char           *entry, *entry_class; /* of a Keras file, made by lk_register_layer(): as JSON, and its class; mostly NULL */
    lk_variable    *calls; /* training calls by hand, outside of a model: an input of its random numbers. A reference; mostly
                            * NULL */
    int             count;
    lki_weight      weight[LKI_MOST_WEIGHTS];
    int             inner_count; /* inner layers, references: their weights come after its own */
    lk_layer      **inner;
};

/* Makes a layer with a copy of `args`, checked against the kind's fields and stored where the kind says. NULL and an error naming
 * `call`. */
void *lki_layer_new(const char *call, const lki_layer_kind *kind, const void *args);

/* Make `inner` an inner layer of `outer`, as wrapping kinds do: it is placed, and freed with the outer one. An error if it is
 * placed already. */
lk_status lki_layer_take(const char *call, lk_layer *outer, lk_layer *inner);

/* Where Keras keeps the weights of inner layer i in a file, relative to this one: "forward_layer", "cells/lstm_cell_1"; from
 * lki_alloc. */
char *lki_layer_inner_place(const lk_layer *l, int i);

/* Give it its name and path, and inner layers theirs. */
lk_status lki_layer_place(lk_layer *l, const char *name, const char *path);
void      lki_layer_leave(lk_layer *l); /* the model; without its weights */

/* "dense" or "dense_1": its name, or what it would be called. */
const char *lki_layer_title(const lk_layer *l);

/* How many results it has. */
int lki_layer_outputs(const lk_layer *l);

/* What becomes of these rows, checked against its input_shape and the number of inputs it takes; `in` ends with rank -1, `out` has
 * room for all results. */
lk_status lki_layer_output(const lk_layer *l, const lk_shape *in, lk_shape *out);

/* Make the weights, all of them or none; those inside too, which the kind's build function asks for. */
lk_status lki_layer_build(lk_layer *l, const lk_shape *in);
void      lki_layer_forget(lk_layer *l); /* let them go again */

/* Make one more weight. */
lk_status lki_layer_weight(lk_layer *l, lki_weight weight, lk_shape shape);

/* The same with the first value from `fn` instead of its initialiser, which fn may use. */
lk_status lki_layer_weight_by(lk_layer *l, lki_weight weight, lk_shape shape, lk_initializer_fn fn, void *user);

/* The value of its i-th weight now; recorders of this thread see the read. */
lk_tensor *lki_layer_read(const lk_layer *l, int i);

/* Apply a built layer to its inputs; wrapping kinds apply their inner layers with it too. Or only the layer's computation, without
 * masks of the results and its activity regulariser. */
lk_tensor *lki_layer_run(lk_layer *l, lk_tuple in, const lki_pass *pass);
lk_tensor *lki_layer_compute(lk_layer *l, lk_tuple in, const lki_pass *pass);

/* The pass of the model whose custom function runs on this thread, for lk_layer_call() in it; NULL: none. Setting it returns the
 * previous one. */
const lki_pass *lki_pass_current(void);
const lki_pass *lki_pass_set(const lki_pass *pass);

/* ---- masks (mask.c) ---- */

/* Rules: the first input's; those that the results have already; a step counts if it counts in one of the inputs, and there is a
 * mask if all inputs have one. */
lk_tensor *lki_mask_passes(const lk_layer *l, lk_tuple in, lk_tensor *y, int i);
lk_tensor *lki_mask_stays(const lk_layer *l, lk_tuple in, lk_tensor *y, int i);
lk_tensor *lki_mask_of_any(const lk_layer *l, lk_tuple in, lk_tensor *y, int i);

/* The mask of x, or of argument `given` if the call has that; as bool. NULL: there is none. */
lk_tensor *lki_mask_given(const lki_pass *pass, int given);

/* A mask with more axes of size 1 after its own, so that it has `rank` axes. */
lk_tensor *lki_mask_spread(lk_tensor *mask, int rank);

/* The rows of these tensors, which have a leading axis or are left out, as the list of shapes that is passed to layers; `row` has
 * one more entry. */
void lki_input_rows(lk_tuple in, lk_shape *row);

/* Its weights, then those of inner layers: how many, and the i-th. */
int         lki_layer_weights(const lk_layer *l);
lki_weight *lki_layer_weight_at(lk_layer *l, int i);

bool lki_layer_draws(const lk_layer *l);      /* it, or an inner layer */
bool lki_layer_mixes_rows(const lk_layer *l); /* it, or an inner layer, as it is trained now */

/* The shapes of the results, found by calling the layer on stand-ins without elements, f32 each; an `output` function. The layer's
 * call function must not depend on sizes that differ from call to call otherwise than its results do. */
lk_status lki_layer_infer(const lk_layer *l, const lk_shape *in, lk_shape *out);

/* How many results it has for these rows, found in the same way; 0 and an error if it refuses them. */
int lki_layer_count_results(const lk_layer *l, const lk_shape *in);

/* 'layer "dense": rows of [28, 28]: <what is wrong>' */
lk_status lki_layer_refuse(const lk_layer *l, const lk_shape *in, const char *format, ...) LKI_PRINTF(3, 4);

bool lki_activation_fits(const char *call, lk_activation activation);

/* The name of this layer's stream of random numbers: its seed if one was given, else its path. */
const char *lki_layer_stream(const lk_layer *l);

lki_first_value lki_first_zeros, lki_first_ones, lki_first_glorot_uniform, lki_first_orthogonal;

/* ---- all kinds there are ---- */

#define LKI_KIND_OF_LAYER(name) extern const lki_layer_kind lki_##name##_kind;
#include "layer/kinds.inc"
#undef LKI_KIND_OF_LAYER

extern const lki_layer_kind *const lki_layer_kinds[]; /* ends with NULL */

bool     lki_softmax_is_last(const lk_layer *softmax, int rank); /* it normalises along the last axis of rows with this number of
                                                                  * axes */
lk_dtype lki_input_dtype(const lk_layer *input);                 /* of a layer of the input kind */

#endif
