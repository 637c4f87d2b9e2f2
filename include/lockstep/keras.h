/* Keras files: load models made in Python, train them, and save them for Python.
 *
 *     lk_model *m = lk_model_load("model.keras");          config, weights, and what it was compiled with
 *     lk_model_fit(m, data, .epochs = 2);
 *     lk_model_save(m, "model.keras");
 *
 * For an unknown layer, option or version the error is LK_EUNSUPPORTED and names it. */
#ifndef LOCKSTEP_KERAS_H
#define LOCKSTEP_KERAS_H

#include "fit.h"

LK_BEGIN

/* The architecture (layers, initialisers, ...) in the format of model.to_json(). NULL and an error for a model with custom
 * functions.
 * Owner   the current pool. */
LK_API const char *lk_model_to_json(lk_model *m);

/* A model, not compiled, with initial weights. `json` is the text. */
LK_API lk_model *lk_model_from_json(const char *json);
LK_API lk_model *lk_model_from_json_file(const char *path);

/* Layers of Keras files that are Python code. `make` gets the config of such a layer as JSON and returns a new layer that computes
 * the same, for example of lk_layer_of(); its weights are those of the file in the order in which it adds them. Writing the model
 * writes the class and the config as they were.
 *
 *     lk_register_layer("My>Sampling", make_sampling, NULL);      a class that was registered with a package; or "Sampling"
 *     lk_register_layer("Lambda:scale", make_scale, NULL);        the Lambda layer of this name; "Lambda": all others
 *
 * For the process, until it is registered again; NULL as `make` removes it. Classes that lockstep has cannot be replaced. */
typedef lk_layer *(*lk_layer_make_fn)(const char *config, void *user);
LK_API lk_status lk_register_layer(const char *name, lk_layer_make_fn make, void *user);

/* Save and load a .keras file (config.json, metadata.json, model.weights.h5), with optimiser and compile settings. It is renamed
 * into place when complete, so no partial file is seen. A .h5 file with a model, as before Keras 3, can be loaded too.
 *
 * If the model was compiled with a metric, loss or optimiser that lockstep does not have, there is a warning. A metric is left out.
 * Without its loss or optimiser the model can predict, but training is LK_ESTATE until it is compiled again. Saving the model
 * writes the unknown settings back. */
LK_API lk_status lk_model_save(lk_model *m, const char *path);
LK_API lk_model *lk_model_load(const char *path);

/* Save and load weights, and the optimiser's state if the model is compiled. The ending of the path selects the format to write:
 *
 *     .weights.h5     as Keras 3 writes them                  .h5      as before Keras 3, without the optimiser
 *     .safetensors    by the paths of variables               .npz     the same, for numpy
 *     .ckpt, or none  TensorFlow's checkpoint: tf.train.Checkpoint(model=...) reads it
 *     .keras          the whole model
 *
 * Loading detects the format from the contents; from a folder it loads the latest checkpoint. If any shape differs, nothing is
 * assigned. The state of a different optimiser is left out, with a warning. */
LK_API lk_status lk_model_save_weights(lk_model *m, const char *path);
LK_API lk_status lk_model_load_weights(lk_model *m, const char *path);

LK_END

#endif
