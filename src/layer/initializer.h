/* The internals of initialisers: a class, its options, and a function. */
#ifndef LKI_LAYER_INITIALIZER_H
#define LKI_LAYER_INITIALIZER_H

#include "core/field.h"
#include "nn/initializer.h"
#include <lockstep/layer.h>

struct lk_initializer {
    lki_object object;
    const lki_class *class; /* NULL: from custom functions */
    lk_initializer_args set;
    lk_initializer_fn   fn; /* custom; else NULL */
    void               *user;
};

/* The filling with these values; false and an error: the initialiser cannot make such a weight. Not for those from custom
 * functions. */
bool lki_initializer_filling(const lk_initializer *i, lk_shape shape, const char *stream, lki_filling *out);

extern const lki_class lki_initializer_classes[]; /* ends with an empty one */

#endif
