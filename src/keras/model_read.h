/* What the readers of models share. */
#ifndef LKI_KERAS_MODEL_READ_H
#define LKI_KERAS_MODEL_READ_H

#include "keras/model_config.h"
#include "layer/call_form.h"

/* More than any real model has; a wrong number in a file costs no more than this. */
enum { LKI_MOST_LAYERS = 10000, LKI_MOST_NODES = 20000 };

/* The string at a key; NULL: there is none. */
const char *lki_text_in(const lki_json *v, const char *key);

/* Names are printed, and are part of names of files and events: one with control characters is LK_EFORMAT. `v` may have a
 * "name". */
lk_status lki_name_check(const lki_reading *r, const lki_json *v);

/* The list at a key, which must exist and have at most `most` items. */
lk_status lki_list_in(const lki_reading *r, const lki_json *config, const char *key, int most, const lki_json **out);

/* 'layer "dense" (Dense)' */
lki_reading lki_place_of(const char *file, const char *name, const char *class_name);

/* One entry of the list of layers, not an InputLayer. `call` (or NULL) has the arguments of its call. NULL and an error. */
lk_layer *lki_layer_read_json(const char *file, const lki_json *v, const lki_json *call);

/* The same for an operation with the arguments of its calls. */
lk_layer *lki_operation_read(const lki_reading *r, const lki_json *v, lki_call_form *form);

bool      lki_is_input(const lki_json *v); /* true for an InputLayer */
lk_status lki_input_read(const char *file, const lki_json *v, lk_input_args *a);

lk_model *lki_functional_read(const char *file, const lki_json *config);

#endif
