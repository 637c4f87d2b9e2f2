/* Operations of keras.ops in functional models: layers without weights whose results are computed from the arguments of their one
 * call, tensors and constants, and from the options they were made with.
 *
 *     LKI_OPERATION(numpy, Sum, "x", "axis keepdims", sum)       operations.inc: module, class, arguments, options, function
 *     static lk_tensor *sum(const lki_operands *c)               its function, in the file of its family (operands.h)
 *
 * They exist for Keras files only; in C a custom layer calls the ops themselves.
 *
 * Invariants
 *  1. The leading axis of a tensor is rows. An operation that would move it, or combine rows, is refused: by name where its shape
 *     would not show it, else by lki_layer_infer(), because its result has another number of rows.
 *  2. Config and call are kept as they came, and written back like that. */
#ifndef LKI_LAYER_OPERATION_H
#define LKI_LAYER_OPERATION_H

#include "layer/call_form.h"
#include "layer/layer.h"

typedef struct lki_operands lki_operands;
typedef lk_tensor          *lki_operation_fn(const lki_operands *c);

typedef struct lki_operation_line {
    const char       *module, *class; /* "numpy", "Sum" */
    const char       *arguments;      /* of its call, in Keras' order; "*operands": all of them */
    const char       *options;        /* of its constructor */
    bool              pairs;          /* it combines the elements of two tensors */
    lki_operation_fn *fn;
} lki_operation_line;

bool lki_is_operation_module(const char *module); /* "keras.src.ops.numpy" */
bool lki_is_operation_layer(const lk_layer *l);

/* The line of a class of such a module; NULL: there is none. */
const lki_operation_line *lki_operation_line_of(const char *module, const char *class_name);
const char               *lki_operation_class_at(const void *unused, int i); /* all class names, then NULL (core/names.h) */

/* A layer for it. `config` is copied. NULL and an error for options and arguments that the line does not have. */
lk_layer *lki_operation_new(const lki_operation_line *line, const char *name, const lki_json *config, lki_call_form *form);

/* What it was made with, for files. */
const lki_operation_line *lki_operation_line_in(const lk_layer *l);
const lki_json           *lki_operation_config(const lk_layer *l);

/* The activation that it is, for rows with this many axes; LK_ACTIVATION_DEFAULT: none. */
lk_activation lki_operation_activation(const lk_layer *l, int rank);

#endif
