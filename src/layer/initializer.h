/* Initialisers from the inside: a class, its options, and a function. */
#ifndef LKI_LAYER_INITIALIZER_H
#define LKI_LAYER_INITIALIZER_H

#include "core/field.h"
#include <lockstep/layer.h>

struct lk_initializer {
    lki_object object;
    const lki_class *class; /* NULL: from code of one's own */
    lk_initializer_args set;
    lk_initializer_fn   fn; /* of one's own; else NULL */
    void               *user;
};

extern const lki_class lki_initializer_classes[]; /* ends with an empty one */

#endif
