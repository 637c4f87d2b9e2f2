/* What wrapping layers need from LSTM, GRU and SimpleRNN. */
#ifndef LKI_LAYER_RECURRENT_H
#define LKI_LAYER_RECURRENT_H

#include "layer/layer.h"

/* Its arguments; NULL: it is another kind of layer. */
const lk_recurrent_args *lki_recurrent_args(const lk_layer *l);

/* A layer with the same arguments and this name that runs in the other direction. NULL and an error. */
lk_layer *lki_recurrent_reversed(const lk_layer *l, const char *name);

/* ---- cells ---- */

/* Sequences for a cell: [n, steps, features], what of them counts (NULL: all), and the state before (NULL: zeros). */
typedef struct lki_sequences {
    lk_tensor *x, *mask, *const *state;
    lk_switch go_backwards, return_sequences, zero_output_for_mask;
} lki_sequences;

/* How many tensors the state of a cell has, [units] each; 0: it is not a cell. */
int     lki_cell_states(const lk_layer *cell);
int64_t lki_cell_units(const lk_layer *cell);

/* Runs a built cell over all steps: a nest of the output and the last state. */
lk_tensor *lki_cell_run(const lk_layer *cell, const lki_sequences *s, const lki_pass *pass);

/* If it returns all steps, outputs of masked ones are 0 from now on; else they are not. */
void lki_recurrent_zero_masked(lk_layer *l);

#endif
