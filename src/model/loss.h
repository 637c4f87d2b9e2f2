/* Losses from the inside: what an object was made with, and its values before weights and reduction. */
#ifndef LKI_MODEL_LOSS_H
#define LKI_MODEL_LOSS_H

#include "core/field.h"
#include "nn/loss.h"
#include <lockstep/loss.h>

struct lk_loss {
    lki_object object;
    const lki_class *class; /* what a Keras file says about it; its name is NULL for custom functions */
    lki_loss_id         id;
    lk_loss_object_args set; /* held; the name is always there */
    lk_loss_fn          fn;  /* custom functions; else NULL */
    void               *user;
};

extern const lki_class lki_loss_classes[LKI_LOSS_COUNT]; /* by lki_loss_id */

/* An object with a copy of `set`, whose name is given. NULL and an error naming `call`. */
lk_loss *lki_loss_new(const char *call, const lki_class *c, const lk_loss_object_args *set);

/* Values per element, before weights and reduction. Errors say which loss it is. */
lk_tensor *lki_loss_values(const lk_loss *l, lk_tensor *labels, lk_tensor *predictions);

/* AUTO is resolved to SUM_OVER_BATCH_SIZE. */
lk_reduction lki_loss_reduction(const lk_loss *l);

/* Which of the values count, as bool; NULL: all of them. A loss with an ignore_class leaves those rows out of its means, as Keras
 * does. */
lk_tensor *lki_loss_mask(const lk_loss *l, lk_tensor *labels, const lk_tensor *values);

/* [n] and [n, 1] mean the same rows: a last axis of size 1 that only one of the two has is added to a vector, else taken away. */
void lki_bring_together(lk_tensor **a, lk_tensor **b);

/* Are all labels 0 to classes - 1? LK_EINVAL and an error that names the first row with another one, its rows counted from
 * `first_row`. The labels must be there, not traced. */
lk_status lki_labels_check(const char *call, lk_tensor *labels, int64_t classes, int64_t first_row);

/* The same for what this loss takes: anything where labels are not classes, and its ignore_class. */
lk_status lki_loss_labels_check(const char *call, const lk_loss *l, lk_tensor *labels, int64_t classes, int64_t first_row);

#endif
