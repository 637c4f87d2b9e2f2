/* Weights of models in HDF5 files, as Keras lays them out.
 *
 *     layers/dense/vars/0            by the class of the layer, counted: dense, dense_1, ... in the order of model.layers
 *     layers/gru/cell/vars/0         kinds of layers say where theirs are
 *     layers/functional/layers/...   a model inside
 *     optimizer/vars/0               its variables, in their order
 *     lockstep/calls                 ours alone: how many training calls there were, which dropout draws by; Keras passes it over
 *
 * Every "vars" has an attribute "name", the name of its layer. Before Keras 3 a layer was found by its own name:
 *
 *     [model_weights/]@layer_names   [model_weights/]dense_4@weight_names   [model_weights/]dense_4/fashion/dense_4/kernel
 *
 * Invariants
 * 1. All values are looked at before the first one is assigned: one that is missing, or does not fit, and nothing is changed.
 * 2. A file may not have weights of layers the model has not. */
#ifndef LKI_KERAS_WEIGHTS_H
#define LKI_KERAS_WEIGHTS_H

#include "format/h5.h"
#include "model/model.h"

/* Weights, and the state of the optimiser of a model that is compiled. `name` is what messages call the file. */
lk_status lki_weights_write(const char *name, lk_model *m, lki_h5 *file);
lk_status lki_weights_read(const char *name, lk_model *m, const lki_h5 *file);

/* "Conv2DTranspose" to "conv2d_transpose", as Keras does it. */
const char *lki_snake_case(const char *class_name, char *text, size_t bytes);

#endif
