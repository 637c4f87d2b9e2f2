/* Models as Keras' JSON: what model.to_json() gives and config.json of a .keras file holds.
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

/* A model, not compiled, of the object `v`. `file` is what messages call it. NULL and an error. */
lk_model *lki_model_read(const char *file, const lki_json *v);

/* What "compile_config" says, with an optimiser, losses and metrics of its own. Nothing is done where it is missing, null or
 * empty; a part that names what there is not here is lost, with a warning (model/compiled.h). */
lk_status lki_compile_read(const char *file, lk_model *m, const lki_json *config);

/* The whole object. `file` is what messages call it. LK_EUNSUPPORTED for what Keras has not. */
lk_status lki_model_write(const char *file, lki_json_out *o, lk_model *m);
lk_status lki_compile_write(const lki_reading *r, lki_json_out *o, const lk_model *m); /* the value of "compile_config" */

/* Was it compiled? One that only predicted has steps, but nothing it is trained with. */
bool lki_is_compiled(const lk_model *m);

/* Is it a class of models? */
bool lki_is_model_class(const char *class_name);

/* A type as Keras names it; NULL and -1: it has no such name. */
const char *lki_keras_dtype(lk_dtype dtype);
int         lki_dtype_of_keras(const char *name);

#endif
