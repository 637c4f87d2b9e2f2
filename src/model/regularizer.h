/* Regularisers from the inside. */
#ifndef LKI_MODEL_REGULARIZER_H
#define LKI_MODEL_REGULARIZER_H

#include "core/object.h"
#include <lockstep/model.h>

struct lk_regularizer {
    lki_object object;
    double     l1, l2;
};

/* The penalty of each entry of the leading axis by itself, [rows]: what an activity regulariser sums over the batch. */
lk_tensor *lki_regularizer_rows(const lk_regularizer *r, lk_tensor *x);

/* Is it one, or not given? An error naming `call` and `what` otherwise. */
bool lki_regularizer_fits(const char *call, const char *what, const lk_regularizer *r);

#endif
