/* What wrapping layers need from LSTM, GRU and SimpleRNN. */
#ifndef LKI_LAYER_RECURRENT_H
#define LKI_LAYER_RECURRENT_H

#include "layer/layer.h"

/* What it was made with; NULL: it is another kind of layer. */
const lk_recurrent_args *lki_recurrent_args(const lk_layer *l);

/* One like it, of this name, that runs the other way. NULL and an error. */
lk_layer *lki_recurrent_reversed(const lk_layer *l, const char *name);

#endif
