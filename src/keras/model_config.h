/* Models as Keras' JSON: the result of model.to_json(), and config.json of a .keras file.
 *
 *     {"module", "class_name": "Sequential", "config": {"name", "layers": [...], "build_input_shape"}, "compile_config": {...}}
 *     {"module", "class_name": "Functional", "config": {"name", "layers": [{..., "name", "inbound_nodes": [...]}, ...],
 *                                                       "input_layers", "output_layers"}, "compile_config": {...}}
 *
 * A use of a layer is an inbound node; its inputs are named by ["layer", node, tensor]. */
#ifndef LKI_KERAS_MODEL_CONFIG_H
#define LKI_KERAS_MODEL_CONFIG_H

#include "keras/config.h"
#include "model/model.h"

/* A model, not compiled, from the object `v`. `file` is its name in messages. NULL and an error. */
lk_model *lki_model_read(const char *file, const lki_json *v);

/* Compile as "compile_config" says, with a new optimiser, losses and metrics. No effect if it is missing, null or empty; a part
 * that lockstep does not have is lost, with a warning (model/compiled.h). */
lk_status lki_compile_read(const char *file, lk_model *m, const lki_json *config);

/* The whole object. `file` is its name in messages. LK_EUNSUPPORTED for parts that Keras does not have. */
lk_status lki_model_write(const char *file, lki_json_out *o, lk_model *m);
lk_status lki_model_write_inside(lki_json_out *o, lk_model *m); /* a model in a wrapping layer, open for more keys */
lk_status lki_compile_write(const lki_reading *r, lki_json_out *o, const lk_model *m); /* the value of "compile_config" */

/* True if it was compiled. A model that only predicted has steps, but no optimiser or loss. */
bool lki_is_compiled(const lk_model *m);

/* True for a class of models. */
bool lki_is_model_class(const char *class_name);

#endif
