/* What ops, tapes and variables need from the replica that a thread runs. dist/ fills in these tables of functions, so that the
 * folders below it can call dist/ without including it.
 *
 * Invariants
 *  1. A thread is in replica context (lki_replica_current() != NULL), or it is not; dist/context.c has the details.
 *  2. In replica context every assignment, and the creation of a variable, calls the replica's functions: the replica may have to
 *     meet the others. With one replica the functions are NULL and everything is as without a strategy. */
#ifndef LKI_OP_REPLICA_H
#define LKI_OP_REPLICA_H

#include "op/op.h"

/* How sums are exchanged between the members of its strategy: the cards of this process, or several processes (comm/comm.h). */
typedef struct lki_sending {
    bool        free_order; /* in any order, so that the carrier may sum */
    bool        no_nccl;
    double      seconds; /* the longest wait for a member; 0: no deadline */
    int64_t     pack;    /* bytes after which a pack is full and is sent; 0: all are sent as one */
    int         members; /* of several processes; 0: this process has all of them */
    int         first;   /* member of this process, if `members` is not 0 */
    const void *meeting; /* of lki_carrier_args, if `members` is not 0 */
} lki_sending;

typedef struct lki_replica lki_replica;
struct lki_replica {
    int         id, count; /* this one, of how many */
    void       *strategy;
    lki_sending sending;
    lk_tensor *(*all_reduce)(lki_replica *self, bool mean, lk_tensor *x);
    lk_tensor *(*all_gather)(lki_replica *self, int axis, lk_tensor *x);
    lk_tensor *(*read)(lki_replica *self, lk_variable *v); /* of variables with `spread` */
    lk_status (*update)(lki_replica *self, lki_op op, const lki_attr *attr, int nsrc, lk_tensor *const *src,
                        lk_variable *v); /* assign*, scatter */
    lk_variable *(*create)(lki_replica *self, const lk_variable_args *args);
};

lki_replica *lki_replica_current(void);
void         lki_replica_set(lki_replica *r); /* NULL: the thread runs none any more */

/* N of the replica context this thread is in; 1 outside. */
int lki_replica_count(void);

/* How a strategy owns a variable. Mirrored: the storage is the variable's own, shared by all CPU replicas. On read: one component
 * per replica. */
typedef struct lki_spread lki_spread;
struct lki_spread {
    void              *strategy; /* a reference is held */
    lk_synchronization synchronization;
    lk_aggregation     aggregation;
    int                count;
    lk_variable      **component; /* on read: references; mirrored: NULL */
    lk_variable       *container; /* of a component: the variable it is part of, not a reference */
    int                index;
    bool per_lane; /* one entry per lane, each written by the replica that owns the lane (metrics): no meeting needed */
    lk_tensor *(*read)(lk_variable *v); /* outside replica context */
    lk_status (*update)(lki_op op, const lki_attr *attr, int nsrc, lk_tensor *const *src, lk_variable *v);
    void (*destroy)(lki_spread *self);
};

/* Called when a variable is made outside replica context: attaches a spread, or returns an error. NULL: no scope on this thread. */
typedef lk_status  lki_variable_hook(lk_variable *v, const lk_variable_args *args);
void               lki_variable_hook_set(lki_variable_hook *hook);
lki_variable_hook *lki_variable_hook_current(void);

/* The strategy whose scope, run or update this thread is in; NULL: none. Reading or writing a variable of another one is an
 * error. */
void *lki_strategy_current(void);
void  lki_strategy_set(void *strategy);

/* True if this thread may use the variable, which may be NULL. LK_ESTATE and an error if it belongs to another strategy than that
 * of this scope. */
bool lki_belongs_here(const char *call, const lk_variable *v);

/* Make a variable here and now, without calling the replica; the hook is called. */
lk_variable *lki_variable_make(const lk_variable_args *args);

/* Read and write the variable's own storage, for any owner. A plain number is converted to the variable's type when it is
 * written. */
lk_tensor *lki_variable_read(lk_variable *v);
lk_status  lki_variable_update(lki_op op, const lki_attr *attr, int nsrc, lk_tensor *const *src, lk_variable *v);
lk_tensor *lki_number_for(const lk_variable *v, lk_tensor *x); /* such a number in that type; other values unchanged */

#endif
