/* The weights of a model at one moment, to be put back later. They are copied only when the model changes them. */
#ifndef LKI_FIT_WEIGHTS_H
#define LKI_FIT_WEIGHTS_H

#include "core/error.h"
#include "fit/state.h"
#include <lockstep/model.h>

typedef struct lki_weights {
    int         count;
    lk_tensor **item; /* references */
} lki_weights;

lk_status lki_weights_take(lki_weights *w, lk_model *m); /* replaces earlier ones */
lk_status lki_weights_give(const lki_weights *w, lk_model *m);
void      lki_weights_save(const lki_weights *w, lki_sink *s);
lk_status lki_weights_load(lki_weights *w, lki_wire *from); /* replaces earlier ones */
void      lki_weights_free(lki_weights *w);

#endif
