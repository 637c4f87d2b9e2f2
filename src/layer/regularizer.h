/* The internals of regularisers. */
#ifndef LKI_LAYER_REGULARIZER_H
#define LKI_LAYER_REGULARIZER_H

#include "core/field.h"
#include <lockstep/layer.h>

typedef enum lki_orthogonal_mode { LKI_ORTHOGONAL_ROWS, LKI_ORTHOGONAL_COLUMNS } lki_orthogonal_mode;

typedef struct lki_regularizer_args {
    double              l1, l2;
    lk_number           factor; /* orthogonal */
    lki_orthogonal_mode mode;
} lki_regularizer_args;

struct lk_regularizer {
    lki_object object;
    const lki_class *class;
    lki_regularizer_args set;
};

extern const lki_class lki_regularizer_classes[]; /* ends with an empty one */

/* The penalty of each entry of the leading axis separately, [rows]: an activity regulariser sums it over the batch. */
lk_tensor *lki_regularizer_rows(const lk_regularizer *r, lk_tensor *x);

#endif
