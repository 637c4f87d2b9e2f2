/* Models made of layers: sequential, functional (a graph of layers), or defined by a custom function.
 *
 *     lk_model  *model = lk_sequential(lk_flatten(), lk_dense(64, .activation = LK_RELU), lk_dense(10));
 *     lk_tensor *logits = lk_model_call(model, images, .training = LK_ON);
 *
 *     lk_node  *x = lk_input(LK_SHAPE(32)), *h = lk_apply(lk_dense(32, .activation = LK_RELU), x);
 *     lk_model *residual = lk_functional(LK_NODES(x), LK_NODES(lk_apply(lk_add_layer(), x, h)));
 *
 * A model creates its variables immediately if it knows the shape of a row, else at its first call, which may be inside lk_run() or
 * in a function being traced. They belong to the strategy that was current when the model was made. Names and initial values depend
 * on the position in the model, never on the order in which layers were made: two models of the same layers start with the same
 * weights. */
#ifndef LOCKSTEP_MODEL_H
#define LOCKSTEP_MODEL_H

#include "dataset.h"
#include "layer.h"
#include "loss.h"
#include "metric.h"
#include "optimizer.h"
#include "strategy.h"

LK_BEGIN

typedef struct lk_model lk_model;

/* ---- sequential -------------------------------------------------------------------------------------------------------------- */

#define lk_sequential(...) lk_sequential_of(NULL, (int)LKI_N(lk_layer *, 0, __VA_ARGS__) - 1, (lk_layer *const[]){0, __VA_ARGS__})
#define lk_sequential_named(name, ...)                                                                                             \
    lk_sequential_of(name, (int)LKI_N(lk_layer *, 0, __VA_ARGS__) - 1, (lk_layer *const[]){0, __VA_ARGS__})
LK_API lk_model *lk_sequential_of(const char *name, int count, lk_layer *const *one_based); /* name NULL: "sequential" */

/* ---- functional -------------------------------------------------------------------------------------------------------------- */

/* The result of a layer in a functional model that is being defined. */
typedef struct lk_node lk_node;

/* lk_input(LK_SHAPE(28, 28, 1)), lk_input(LK_SHAPE(-1), .dtype = LK_I32) */
#define lk_input(...) lk_input_kw(LKI_KW(lk_input_args, __VA_ARGS__))
LK_API lk_node *lk_input_kw(lk_input_args args);

/* lk_apply(layer, x), lk_apply(lk_add_layer(), a, b). A layer that is applied more than once shares its weights. NULL and an error
 * where shapes do not fit. */
#define lk_apply(layer, ...) lk_apply_to(layer, (int)LKI_N(lk_node *, 0, __VA_ARGS__) - 1, (lk_node *const[]){0, __VA_ARGS__})
LK_API lk_node *lk_apply_to(lk_layer *l, int count, lk_node *const *one_based);
LK_API lk_shape lk_node_shape(const lk_node *n); /* of a row */

/* The i-th result of the use that `n` is a result of. A layer with several results, such as an LSTM with return_state or a model
 * with several outputs, has several; lk_apply() returns the first. */
LK_API lk_node *lk_node_result(lk_node *n, int i);

/* lk_apply_with(layer, LK_ARGUMENT("query", q), LK_ARGUMENT("value", v)): tensors by the names that Keras' call has for them, in
 * any order. Several of one name are a list, such as the initial_state of an LSTM. */
typedef struct lk_argument {
    const char *name;
    lk_node    *node;
} lk_argument;
#define LK_ARGUMENT(name, node) ((lk_argument){name, node})
#define lk_apply_with(layer, ...)                                                                                                  \
    lk_apply_arguments(layer, (int)LKI_N(lk_argument, {0}, __VA_ARGS__) - 1, (const lk_argument[]){{0}, __VA_ARGS__})
LK_API lk_node *lk_apply_arguments(lk_layer *l, int count, const lk_argument *one_based);

typedef struct lk_nodes {
    int       count;
    lk_node **item;
} lk_nodes;
#define LK_NODES(...) lk_nodes_of((int)LKI_N(lk_node *, 0, __VA_ARGS__) - 1, (lk_node *const[]){0, __VA_ARGS__})
LK_API lk_nodes lk_nodes_of(int count, lk_node *const *one_based);

typedef struct lk_functional_args {
    const char *kw_;
    lk_nodes    inputs, outputs; /* required */
    const char *name;            /* default "functional" */
} lk_functional_args;
#define lk_functional(...) lk_functional_kw(LKI_KW(lk_functional_args, __VA_ARGS__))
LK_API lk_model *lk_functional_kw(lk_functional_args args);

/* Use a model as a layer of another model, to which it then belongs. */
LK_API lk_layer *lk_model_layer(lk_model *m);

/* ---- custom models ----------------------------------------------------------------------------------------------------------- */

/* Computes the outputs by lk_layer_call() and any ops. lk_model_fit() traces it, so what it does besides ops happens once per
 * signature. */
typedef lk_tuple (*lk_model_fn)(lk_model *m, lk_tuple in, int training, void *user);
typedef struct lk_own_model_args {
    const char *kw_;
    lk_model_fn fn;     /* required */
    lk_layers   layers; /* the layers it uses; default names follow this order */
    void       *user;
    const char *name;    /* default "own_model" */
    lk_integer  inputs;  /* default 1: how many tensors of an element are inputs */
    lk_integer  outputs; /* default 1 */
} lk_own_model_args;
#define lk_model_of(...) lk_model_of_kw(LKI_KW(lk_own_model_args, __VA_ARGS__))
LK_API lk_model *lk_model_of_kw(lk_own_model_args args);

/* ---- using a model ----------------------------------------------------------------------------------------------------------- */

typedef struct lk_model_call_args {
    const char *kw_;
    lk_model   *model;    /* required */
    lk_tensor  *x;        /* required: rows, cast to the type of the input; several: lk_nest() */
    lk_switch   training; /* default LK_OFF */
} lk_model_call_args;

/* The model's output; with several outputs a nest, whose tuple lk_nested() returns. */
#define lk_model_call(...) lk_model_call_kw(LKI_KW(lk_model_call_args, __VA_ARGS__))
LK_API lk_tensor *lk_model_call_kw(lk_model_call_args args);

/* Create the variables now, for rows of this shape (of the first input; models with several inputs know their shapes).
 * Order   inside lk_run() all replicas call this together, like a first lk_model_call(). */
LK_API lk_status lk_model_build(lk_model *m, lk_shape input_shape);

/* All lists are empty before the variables are created. */
LK_API lk_variables lk_model_variables(lk_model *m); /* trainable, then others, then the state of dropout, if any */
LK_API lk_variables lk_model_trainable_variables(lk_model *m);
LK_API lk_variables lk_model_weights(lk_model *m); /* layer by layer, in Keras' order; without the state of dropout */
LK_API int64_t      lk_model_count_params(lk_model *m);
LK_API lk_digest    lk_model_digest(lk_model *m); /* of the weights */
LK_API const char  *lk_model_name(const lk_model *m);
LK_API lk_layers    lk_model_layers(lk_model *m); /* in Keras' order */
LK_API lk_layer    *lk_model_layer_named(lk_model *m, const char *name);
LK_API lk_status    lk_model_set_trainable(lk_model *m, int trainable); /* all layers */

/* The activation that computes an output: after LK_SOFTMAX and LK_SIGMOID the values are probabilities, after LK_LINEAR they may be
 * logits. Final layers that keep values (such as Dropout and Reshape) are skipped, and nested models are searched.
 * LK_ACTIVATION_DEFAULT if unknown: before the shape of a row is known, and for custom models. */
LK_API lk_activation lk_model_output_activation(lk_model *m, int output);

/* Set all weights, in the order of lk_model_weights(). If any shape differs, nothing is assigned. */
LK_API lk_status lk_model_set_weights(lk_model *m, lk_tuple values);

/* Print the table that Keras prints, with layers, output shapes and parameters, through the output hook. */
LK_API lk_status lk_model_summary(lk_model *m);

/* Compute the mean and variance of a Normalization layer from the first tensor of each element of a dataset. To be called before
 * the layer's model is used. */
LK_API lk_status lk_normalization_adapt(lk_layer *l, lk_dataset *d);

/* The same for the boundaries of bins, and for a vocabulary, which is sorted by how often tokens occur. */
LK_API lk_status lk_discretization_adapt(lk_layer *l, lk_dataset *d);
LK_API lk_status lk_integer_lookup_adapt(lk_layer *l, lk_dataset *d);

/* Add a term to lk_model_losses(), until the next call of the model on this thread. The term is a scalar; or one or several values
 * per row, which are summed and divided by the number of rows on this replica. */
LK_API lk_status lk_model_add_loss(lk_model *m, lk_tensor *loss);

/* One term per regularised weight, from its current value; then the terms that activity regularisers and lk_model_add_loss() have
 * added since the last call of the model on this thread began. Empty when there are none. */
LK_API lk_tuple lk_model_losses(lk_model *m);

LK_END

#endif
