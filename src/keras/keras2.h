/* Models as Keras 2 wrote them (keras2.c). */
#ifndef LKI_KERAS_KERAS2_H
#define LKI_KERAS_KERAS2_H

#include "keras/model_config.h"

/* True for a model that Keras 2 wrote. */
bool lki_is_keras2(const lki_json *v);

/* The same model as Keras 3 writes it, to be freed with lki_json_free(). What Keras 3 lacks is dropped where it has no effect; else
 * it stays, and the reader names it. */
lk_status lki_keras2_convert(const char *file, const lki_json *v, const lki_json **out);

/* The same for what a model was compiled with. */
bool      lki_is_keras2_compiled(const lki_json *v);
lk_status lki_keras2_convert_compiled(const char *file, const lki_json *v, const lki_json **out);

#endif
