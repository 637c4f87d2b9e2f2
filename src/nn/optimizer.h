/* Optimisers and schedules from the inside. */
#ifndef LKI_NN_OPTIMIZER_H
#define LKI_NN_OPTIMIZER_H

#include "core/object.h"
#include "core/waiting.h"
#include "kernel/update.h"
#include "nn/optimizer_classes.h"

struct lk_schedule {
    lki_object object;
    lki_attr   attr; /* schedule */
    const lki_class *class;
    lki_schedule_args args; /* it was made with, held */
};

/* The class of an optimiser and, unless `args` is NULL, a copy of what it would be made with now: its rate may have been set anew. */
const lki_class *lki_optimizer_class(const lk_optimizer *o, void *args);

/* The variables of an optimiser under the names Keras keeps them by: "_iterations" is one, "_momentums" a list. */
typedef struct lki_optimizer_group {
    const char         *name;
    bool                single;
    int                 count;
    lk_variable *const *item;
} lki_optimizer_group;

enum { LKI_OPTIMIZER_GROUPS = 10 };
int lki_optimizer_groups(const lk_optimizer *o, lki_optimizer_group out[LKI_OPTIMIZER_GROUPS]);

/* Who waits for its slots; NULL when they have been made. */
lki_waiters *lki_optimizer_waiters(lk_optimizer *o);

#endif
