/* What wrapping layers need from LSTM, GRU and SimpleRNN. */
#ifndef LKI_LAYER_RECURRENT_H
#define LKI_LAYER_RECURRENT_H

#include "layer/layer.h"

/* Its arguments; NULL: it is another kind of layer. */
const lk_recurrent_args *lki_recurrent_args(const lk_layer *l);

/* A layer with the same arguments and this name that runs in the other direction. NULL and an error. */
lk_layer *lki_recurrent_reversed(const lk_layer *l, const char *name);

/* If it returns all steps, outputs of masked ones are 0 from now on; else they are not. */
void lki_recurrent_zero_masked(lk_layer *l);

#endif
