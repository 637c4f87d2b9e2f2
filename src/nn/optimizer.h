/* The internals of optimisers and schedules. */
#ifndef LKI_NN_OPTIMIZER_H
#define LKI_NN_OPTIMIZER_H

#include "core/object.h"
#include "core/waiting.h"
#include "kernel/update.h"
#include "nn/optimizer_classes.h"
#include "op/op.h"

struct lk_schedule {
    lki_object object;
    lki_attr   attr; /* schedule */
    const lki_class *class;
    lki_schedule_args args; /* its arguments, held */
};

enum { LKI_OPTIMIZER_SLOTS = 3 };

typedef struct lki_gradient {
    lk_tensor *value;
    lk_tensor *squares; /* NULL: those of `value` */
    int        index;   /* of the variable */
} lki_gradient;

typedef lk_status lki_optimizer_step(lk_optimizer *o, const lki_gradient *g, lk_tensor *rate, lk_tensor *t);

typedef enum lki_squaring { LKI_NO_SQUARES, LKI_SQUARES, LKI_SIZES } lki_squaring; /* LKI_SIZES: |g| replaces g*g */

typedef struct lki_algorithm {
    const char         *name;
    double              rate;
    lki_op              op;
    lki_optimizer_step *step;
    lki_squaring        squares;
    struct {
        const char *name;
        int         group;
        const char *list; /* Keras' name for the list of them, in checkpoints */
    } slot[LKI_OPTIMIZER_SLOTS];
} lki_algorithm;

typedef struct lki_optimizer_common {
    LKI_OPTIMIZER_COMMON;
} lki_optimizer_common;

struct lk_optimizer {
    lki_object           object;
    const lki_algorithm *kind;
    const lki_class *class;    /* NULL until it has a description */
    lki_optimizer_args   args; /* its arguments, held */
    lki_optimizer_common set;
    lki_attr             attr;    /* update */
    unsigned             slots;   /* bit i: slot i of the algorithm is in use */
    double               initial; /* of slot 0 */
    bool                 nadam, warned;
    char                *name;
    lk_variable         *iteration, *rate, *product;
    int                  count; /* variables; 0 before the first apply */
    lk_variable        **variable, **average, **accumulator, **slot[LKI_OPTIMIZER_SLOTS];
    lk_variable        **state; /* all of it, in Keras' order */
    int                  states, room;
    lki_waiters          waiting; /* for the slots */
};

/* The class of an optimiser and, unless `args` is NULL, a copy of the arguments that would make it now: its rate may have been set
 * again. */
const lki_class *lki_optimizer_class(const lk_optimizer *o, void *args);

/* The variables of an optimiser with the names under which Keras stores them: "_iterations" is one, "_momentums" a list. */
typedef struct lki_optimizer_group {
    const char         *name;
    bool                single;
    int                 count;
    lk_variable *const *item;
} lki_optimizer_group;

enum { LKI_OPTIMIZER_GROUPS = 10 };
int lki_optimizer_groups(const lk_optimizer *o, lki_optimizer_group out[LKI_OPTIMIZER_GROUPS]);

/* The objects that wait for its slots; NULL if the slots exist. */
lki_waiters *lki_optimizer_waiters(lk_optimizer *o);

/* If it was made outside the scope of a strategy of GPUs and is not used yet, its state so far (iteration and rate) is created
 * again on the strategy's devices, so that steps need not copy it between host and card. */
struct lk_strategy;
lk_status lki_optimizer_adopt(lk_optimizer *o, struct lk_strategy *s);

#endif
