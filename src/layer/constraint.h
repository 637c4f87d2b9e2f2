/* The internals of constraints. */
#ifndef LKI_LAYER_CONSTRAINT_H
#define LKI_LAYER_CONSTRAINT_H

#include "core/field.h"
#include <lockstep/layer.h>

struct lk_constraint {
    lki_object object;
    const lki_class *class;
    lk_constraint_args set;
};

extern const lki_class lki_constraint_classes[]; /* MaxNorm, MinMaxNorm, NonNeg, UnitNorm; ends with an empty one */

#endif
