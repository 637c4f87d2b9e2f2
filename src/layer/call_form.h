/* How a call of a layer is written in a Keras file: which tensors and constants it was given, by position and by name.
 *
 *     {"args": [{"tensor": 0, "dtype": "float32"}, 2.0], "kwargs": {"axis": -1}}       tensor 0 is input 0 of the use
 *
 * A file is written with the same words as it was read with, and operations (operation.h) compute from them. */
#ifndef LKI_LAYER_CALL_FORM_H
#define LKI_LAYER_CALL_FORM_H

#include "core/object.h"
#include "format/json.h"

typedef struct lki_call_form {
    lki_object      object;
    const lki_json *root, *args, *kwargs; /* args is an array, kwargs an object */
    char           *text;
} lki_call_form;

/* From the text of such an object; it lives by reference. NULL and an error. */
lki_call_form *lki_call_form_new(const char *text, size_t size);

/* The number of the tensor that `v` stands for; -1: it is a constant, or a list of values. */
int lki_call_form_tensor(const lki_json *v);

/* Calls `fn` for each tensor of a value, in the order in which Keras visits them: lists in their order, entries of objects in the
 * order of their keys. Stops with the first failure. */
typedef lk_status lki_call_form_fn(void *arg, const lki_json *tensor);
lk_status         lki_call_form_each(const lki_json *v, lki_call_form_fn *fn, void *arg);

/* The same for all tensors of a call: by position, then those with names. */
lk_status lki_call_form_all(const lki_call_form *f, lki_call_form_fn *fn, void *arg);

/* The i-th entry of an object in the order of keys. */
const lki_json *lki_json_by_key(const lki_json *object, int i);

#endif
