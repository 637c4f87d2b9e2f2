/* The internals of losses: the arguments of an object, and its values before weights and reduction. */
#ifndef LKI_MODEL_LOSS_H
#define LKI_MODEL_LOSS_H

#include "core/field.h"
#include "nn/loss.h"
#include <lockstep/loss.h>

struct lk_loss {
    lki_object object;
    const lki_class *class; /* for Keras files; its name is NULL for custom functions */
    lki_loss_id         id;
    lk_loss_object_args set; /* held; the name is always set */
    lk_loss_fn          fn;  /* custom functions; else NULL */
    void               *user;
};

extern const lki_class lki_loss_classes[LKI_LOSS_COUNT]; /* by lki_loss_id */

/* An object with a copy of `set`, whose name is given. NULL and an error naming `call`. */
lk_loss *lki_loss_new(const char *call, const lki_class *c, const lk_loss_object_args *set);

/* Values per element, before weights and reduction. Errors name the loss. */
lk_tensor *lki_loss_values(const lk_loss *l, lk_tensor *labels, lk_tensor *predictions);

/* The options of its function, without labels and predictions. */
lk_loss_args lki_loss_options(const lk_loss_object_args *a);

/* AUTO is resolved to SUM_OVER_BATCH_SIZE. So is a sum of values that are all that of the whole batch, unless they are weighted. */
lk_reduction lki_loss_reduction(const lk_loss *l, bool weighted);

/* Which of the values count, as bool; NULL: all of them. A loss with an ignore_class leaves those rows out of its means, and circle
 * those without a loss, as in Keras. */
lk_tensor *lki_loss_mask(const lk_loss *l, lk_tensor *labels, lk_tensor *values);

/* Which of the values count, of those that a mask (NULL: none) lets through; NULL: all. */
lk_tensor *lki_loss_counts(const lk_loss *l, lk_tensor *labels, lk_tensor *values, lk_tensor *mask);

/* [n] and [n, 1] mean the same rows: if only one of the two has a last axis of size 1, it is added to the other if that is a
 * vector, else removed. */
void lki_bring_together(lk_tensor **a, lk_tensor **b);

/* LK_OK if all labels are 0 to classes - 1; else LK_EINVAL and an error that names the first row with another one, counting rows
 * from `first_row`. The labels must have values, not be traced. */
lk_status lki_labels_check(const char *call, lk_tensor *labels, int64_t classes, int64_t first_row);

/* The same for the labels of this loss: any are valid if labels are not classes, and its ignore_class is valid too. */
lk_status lki_loss_labels_check(const char *call, const lk_loss *l, lk_tensor *labels, int64_t classes, int64_t first_row);

#endif
