/* What losses, metrics and batch statistics share: weights of the right shape, and the number of rows of the whole batch. */
#ifndef LKI_NN_LOSS_H
#define LKI_NN_LOSS_H

#include "op/tensor.h"
#include <lockstep/nn.h>

/* ---- the list of losses ---- */

#define LKI_LOSS_ID(name) LKI_LOSS_##name,
typedef enum lki_loss_id { LK_LOSS_LIST(LKI_LOSS_ID) LKI_LOSS_COUNT } lki_loss_id;
#undef LKI_LOSS_ID

typedef struct lki_loss_kind {
    const char *name;
    lk_tensor *(*values)(lk_loss_args args); /* lk_nn_<name> */
    unsigned takes;                          /* which options: bits of loss.c */
} lki_loss_kind;

extern const lki_loss_kind lki_losses[LKI_LOSS_COUNT];

/* An error naming `call` for options that this loss does not have, or that are out of range. */
bool lki_loss_options_fit(const char *call, lki_loss_id loss, const lk_loss_args *a);

/* a / b, and 0 where b is 0. */
lk_tensor *lki_quotient(lk_tensor *a, lk_tensor *b);

/* Labels and predictions are there and fit the options; else an error. */
bool lki_loss_operands(lki_loss_id loss, const lk_loss_args *a);

lk_tensor *lki_loss_labels(const lk_loss_args *a);                        /* converted to the predictions' type */
lk_tensor *lki_loss_clipped(lk_tensor *p);                                /* probabilities away from 0 and 1 */
lk_tensor *lki_loss_smoothed(lk_tensor *labels, double s, double target); /* labels * (1 - s) + s * target */

/* Moves the axis of the classes of labels and predictions to the end; false and an error if it is the axis of the rows, or several
 * axes. */
bool lki_loss_axis_last(const char *call, lk_loss_args *a);

/* Each value is that of the whole batch: of dice and tversky over the rows. A sum over the rows would count it once for each. */
bool lki_loss_mixes_rows(lki_loss_id loss, lk_axes axis);

/* ---- weights and rows ---- */

/* Weights of this type with this number of axes: one extra axis of size 1 is removed, missing ones are appended. */
lk_tensor *lki_weights_of(lk_tensor *weights, lk_dtype dtype, int rank);
lk_tensor *lki_weights_for(lk_tensor *weights, const lk_tensor *values); /* with the type and number of axes of the values */

/* Weights broadcast to one per value. */
lk_tensor *lki_weights_spread(lk_tensor *weights, lk_tensor *values);

/* Entries of t's leading axis on all replicas together; -1: only the replicas know, and lki_count_everywhere() asks them. */
int64_t lki_batch_entries(const lk_tensor *t);

/* The sum of every replica's `here`, as a scalar of the type of `like`. All replicas take part. */
lk_tensor *lki_count_everywhere(const lk_tensor *like, double here);

#endif
