/* Keras' files: models made in Python train here, and go back.
 *
 *     lk_model *m = lk_model_load("model.keras");          config, weights, and what it was compiled with
 *     lk_model_fit(m, data, .epochs = 2);
 *     lk_model_save(m, "model.keras");
 *
 * Layers, options or versions that are not known are LK_EUNSUPPORTED, and named. */
#ifndef LOCKSTEP_KERAS_H
#define LOCKSTEP_KERAS_H

#include "fit.h"

LK_BEGIN

/* Layers, initialisers, ... as model.to_json() writes them. NULL and an error for a model with code of one's own in it.
 * Owner   the current pool. */
LK_API const char *lk_model_to_json(lk_model *m);

/* A model, not compiled, its weights at their first values. `json` is the text. */
LK_API lk_model *lk_model_from_json(const char *json);
LK_API lk_model *lk_model_from_json_file(const char *path);

/* A .keras file: config.json, metadata.json, model.weights.h5, optimiser and compile settings too. It appears as a whole or not at
 * all. Also a .h5 file with a model in it, as before Keras 3. Where it was compiled with something there is not here, there is a
 * warning: a metric is left out; without its loss or optimiser the model predicts, and training it is LK_ESTATE until it is
 * compiled anew. Written again, the file has them still. */
LK_API lk_status lk_model_save(lk_model *m, const char *path);
LK_API lk_model *lk_model_load(const char *path);

/* Weights, and the optimiser's state where the model is compiled. Written is what the end of the path says:
 *
 *     .weights.h5     as Keras 3 writes them                  .h5      as before Keras 3, without the optimiser
 *     .safetensors    by the paths of variables               .npz     the same, for numpy
 *     .ckpt, or none  TensorFlow's checkpoint: tf.train.Checkpoint(model=...) reads it
 *     .keras          the whole model
 *
 * Read is what a file is, whatever it is called; of a folder the latest checkpoint. Shapes must fit; nothing is assigned otherwise.
 * A state that is another optimiser's is left out, with a warning. */
LK_API lk_status lk_model_save_weights(lk_model *m, const char *path);
LK_API lk_status lk_model_load_weights(lk_model *m, const char *path);

LK_END

#endif
