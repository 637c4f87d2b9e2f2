/* Weights of models in files: HDF5 in Keras' layout, and formats that are lists of named arrays.
 *
 *     layers/dense/vars/0            by the class of the layer, numbered: dense, dense_1, ... in the order of model.layers
 *     layers/gru/cell/vars/0         as the kind of layer says
 *     layers/functional/layers/...   an inner model
 *     optimizer/vars/0               its variables, in their order
 *     lockstep/calls                 ours alone: the count of training calls, an input of dropout; Keras ignores it
 *
 * Every "vars" has an attribute "name", the name of its layer. Before Keras 3 a layer was found by its own name:
 *
 *     [model_weights/]@layer_names   [model_weights/]dense_4@weight_names   [model_weights/]dense_4/fashion/dense_4/kernel
 *
 * Invariants
 *  1. All values are checked before the first one is assigned: if one is missing or does not fit, nothing changes.
 *  2. It is an error if a file has weights of layers that the model does not have. */
#ifndef LKI_KERAS_WEIGHTS_H
#define LKI_KERAS_WEIGHTS_H

#include "format/arrays.h"
#include "format/h5.h"
#include "model/model.h"

/* Weights, and the state of the optimiser of a compiled model. `name` is the file's name in messages. */
lk_status lki_weights_write(const char *name, lk_model *m, lki_h5 *file);
lk_status lki_weights_read(const char *name, lk_model *m, lki_h5 *file); /* its arrays are taken over */

/* In the layout from before Keras 3; `root` is "" or "model_weights/". The state of an optimiser is in optimizer_weights/. */
lk_status lki_legacy_weights_write(const char *name, lk_model *m, const char *root, lki_h5 *file);

/* ---- by names: safetensors, npz, and checkpoints that were written by name (named.c) ----
 *
 *     dense/kernel                      the path Keras gives a variable of a model that it loaded: layer / weight
 *     tower/dense/kernel                of a model inside
 *     bidirectional/forward_lstm/lstm_cell/kernel
 *     adam/dense_kernel_momentum        what the optimiser keeps
 *     lockstep/calls                    as above
 *
 * A name that is there already gets "_1", "_2", ... Read are also names with that of the model in front, or without those of models
 * inside, as Keras may show them; paths of HDF5 files and keys of checkpoints. */
lk_status lki_named_write(const char *name, lk_model *m, lki_arrays *out);
lk_status lki_named_read(const char *name, lk_model *m, lki_arrays *a); /* takes over the arrays */

/* From a checkpoint with a graph of objects: the model that is its "model", or its root. Without a graph, by names.
 * (checkpoint.c) */
lk_status lki_checkpoint_weights_read(const char *prefix, lk_model *m);

/* ---- what these share ---- */

typedef struct lki_weight_value {
    lki_array   *array;
    lk_variable *variable;
} lki_weight_value;

/* LK_OK if `array`, which has the name `key` in the file, can be its value. LK_ESHAPE and LK_EDTYPE name both. */
lk_status lki_weight_fits(const char *file, const char *key, const lki_array *array, const lk_variable *v);

/* Elements become the storage of variables that have none yet; others are copied and then freed. So values are in memory once. */
lk_status lki_weights_assign(int count, const lki_weight_value *value);

/* A copy of its current value under this name; or into an HDF5 file. */
lk_status lki_weight_take(lk_variable *v, const char *name, lki_arrays *out);
lk_status lki_weight_put(lk_variable *v, const char *path, lki_h5 *file);

lk_status lki_weights_built(const char *name, const lk_model *m); /* LK_ESTATE: it has none yet */

/* The places of weights in a .weights.h5 file: calls `fn` for each, in Keras' order. */
typedef lk_status lki_weight_fn(void *arg, const char *path, lk_variable *v);
lk_status         lki_weights_each(lk_model *m, lki_weight_fn *fn, void *arg);

#endif
