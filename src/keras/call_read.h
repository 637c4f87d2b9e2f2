/* Calls of layers in Keras files: the inbound nodes of functional models (call_read.c).
 *
 *     {"args": [tensor, [tensor, 2.0]], "kwargs": {"key": tensor, "mask": null}}
 *     tensor: {"class_name": "__keras_tensor__", "config": {"shape", "dtype", "keras_history": ["dense", 0, 0]}} */
#ifndef LKI_KERAS_CALL_READ_H
#define LKI_KERAS_CALL_READ_H

#include "keras/model_read.h"
#include "layer/call_form.h"

/* The tensors of a call, by the inputs they are. */
typedef struct lki_call_read {
    int             count;
    const lki_json *tensor[LKI_MOST_INPUTS]; /* NULL: an argument that is left out */
    int             positional;
    lki_call_form  *form; /* a reference; NULL: one tensor by position */
} lki_call_read;

/* Read one node of a layer; NULL: of an operation, whose tensors are numbered in the order in which Keras visits them. On failure
 * nothing is held. */
lk_status lki_call_read_node(const lki_reading *r, lk_layer *l, const lki_json *inbound, lki_call_read *out);

/* True for a tensor as written above. */
bool lki_is_keras_tensor(const lki_json *v);

#endif
