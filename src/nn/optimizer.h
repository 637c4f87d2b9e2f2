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

/* The rate at an iteration, as a tensor. */
lk_tensor *lki_schedule_read(const lk_schedule *s, lk_tensor *iteration);

enum { LKI_OPTIMIZER_SLOTS = 3 };

typedef struct lki_gradient {
    lk_tensor *value;
    lk_tensor *squares; /* NULL: those of `value` */
    int        index;   /* of the variable */
} lki_gradient;

/* `t` is the iteration; below 0 if the step is left out. */
typedef lk_status lki_optimizer_step(lk_optimizer *o, const lki_gradient *g, lk_tensor *rate, lk_tensor *t);

typedef enum lki_squaring { LKI_NO_SQUARES, LKI_SQUARES, LKI_SIZES } lki_squaring; /* LKI_SIZES: |g| replaces g*g */

/* What an optimiser does that leaves the updates to others. */
typedef struct lki_optimizer_wrapper {
    lk_status (*build)(lk_optimizer *o);                                             /* the optimisers inside */
    lk_status (*step)(lk_optimizer *o, int n, lki_gradient *g, lk_tensor *go_ahead); /* as lki_optimizer_run() */
} lki_optimizer_wrapper;

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
    bool (*slots_of)(lk_optimizer *o, int index); /* makes the slots of a variable; NULL: those in use, as large as it is */
    const lki_optimizer_wrapper *wraps;           /* NULL: it updates variables itself */
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
    bool                *spared; /* per variable: without weight decay */
    char                *spare_names;
    int                  spare_count;
    lk_variable        **spare;  /* references */
    int                  inners; /* of a wrapper, from here on */
    lk_optimizer       **inner;
    char               **pattern;        /* NULL: any variable */
    int                 *route;          /* per variable: which inner one updates it */
    lk_variable         *scale, *streak; /* the loss scale, and how many steps it has been right */
    lk_variable        **state;          /* all of it, in Keras' order */
    int                  states, room;
    lki_waiters          waiting; /* for the slots */
};

/* ---- making one (optimizer.c, for optimizer_new.c and optimizer_wrap.c) ---- */

lk_optimizer *lki_optimizer_new(const lki_algorithm *kind, const lki_optimizer_common *set, unsigned slots);
lk_optimizer *lki_optimizer_described(lk_optimizer *o, lki_optimizer_id id, const void *args); /* keeps its arguments, for files */
lk_variable  *lki_optimizer_scalar(lk_optimizer *o, const char *name, lk_dtype dtype, double value); /* not part of the state yet */
lk_variable  *lki_optimizer_keep(lk_optimizer *o, lk_variable *v); /* append a new variable to the state; NULL stays NULL */
lk_variable  *lki_optimizer_slot(lk_optimizer *o, const lk_variable *v, const char *what, double fill);

/* ---- a step (optimizer_step.c) ---- */

lki_optimizer_step lki_plain_step, lki_nadam_step, lki_lamb_step;
lki_optimizer_step lki_adafactor_step, lki_muon_step, lki_schedule_free_step; /* optimizer_composed.c */
bool               lki_adafactor_slots(lk_optimizer *o, int index);
bool               lki_muon_slots(lk_optimizer *o, int index);
bool               lki_schedule_free_slots(lk_optimizer *o, int index);

/* One step from the gradients of n variables, summed over all rows. `go_ahead`, a bool, says whether there is a step at all; NULL:
 * there is. */
lk_status lki_optimizer_run(lk_optimizer *o, int n, lki_gradient *g, lk_tensor *go_ahead);

/* The place of a variable, which is often `guess`; -1: it has none. */
int lki_optimizer_index(const lk_optimizer *o, const lk_variable *v, int guess);

/* The attributes of an update of a variable: its weight decay may be left out. */
lki_attr lki_update_of(const lk_optimizer *o, int index);

/* g / scale; a gradient made of rows remains one. */
lk_tensor *lki_unscaled(lk_tensor *g, lk_tensor *scale);

/* The list of a wrapper's state is made again: that of the optimisers inside may have changed. */
lk_status lki_optimizer_list_state(lk_optimizer *o);

/* Whether a regular expression (POSIX, extended) matches somewhere in the text, or all of it. LK_EINVAL if it is not one. */
lk_status lki_pattern_matches(const char *call, const char *pattern, const char *text, bool whole, bool *matches);

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
