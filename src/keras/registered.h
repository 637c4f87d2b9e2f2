/* Layers that a program provides for classes of Keras files that are Python code (registered.c). */
#ifndef LKI_KERAS_REGISTERED_H
#define LKI_KERAS_REGISTERED_H

#include "keras/model_read.h"

/* The layer of an entry of the list of layers, if a function is registered for it; *found is false if there is none. NULL and an
 * error if the function failed. */
lk_layer *lki_registered_read(const lki_reading *r, const lki_json *v, bool *found);

/* For messages: what to register for this entry, "My>Sampling" or "Lambda:scale". */
void lki_registered_name(const lki_json *v, char *text, size_t bytes);

#endif
