/* Groups: the members that compute a step together, and the carrier that connects them.
 *
 * Invariants
 * 1. A group belongs to an owner, which is a strategy. A second request with equal arguments returns the same group. A group is
 *    closed when its owner is gone and no plan uses it.
 * 2. Carriers are tried in the order of the table in comm.c. A carrier is used only after a self-test has shown that bytes arrive.
 *    If one that was tried first could not be used, a line of the log names the carrier that is used and says why not the other.
 *    Otherwise the log names the carrier only with LOCKSTEP_VERBOSE=plan.
 * 3. A wait ends when the exchange is done, when a member failed or left, or when the deadline, if there is one, has passed. After
 *    a failure the group is given up: all waiting members are released, and every later call fails with the same cause. */
#ifndef LKI_COMM_COMM_H
#define LKI_COMM_COMM_H

#include "comm/carrier.h"

typedef struct lki_comm lki_comm;

typedef struct lki_comm_args {
    const void        *owner;
    int                members, first, here; /* as in lki_carrier_args */
    lki_device *const *device;               /* of each member of this process */
    const void        *meeting;              /* as in lki_carrier_args */
    double             seconds;              /* the deadline of each wait; 0: there is none */
    bool               no_nccl;              /* the user asked for another carrier */
} lki_comm_args;

/* Opens a group, or finds one with equal arguments. The caller gets a reference. NULL and an error. */
lki_comm *lki_comm_open(const lki_comm_args *args);
void      lki_comm_drop(lki_comm *g); /* NULL is ignored */

/* Drops the owner's references to its groups. Called when the owner is freed. */
void lki_comms_forget(const void *owner);

/* Carries several transfers as one exchange. Work that is submitted to the members' devices after this has returned can read the
 * received bytes. If `beside` is set, that holds only after the next exchange without `beside`; until that exchange has been made,
 * `transfers` and its lists of addresses must not change. */
lk_status lki_comm_exchange(lki_comm *g, int count, const lki_transfer *transfers, bool beside);

/* lki_comm_gave() counts a piece of work that the members do together. lki_comm_wait() waits for all exchanges and all such
 * work. */
lk_status lki_comm_wait(lki_comm *g);
void      lki_comm_gave(lki_comm *g);

/* Gives the group up because a member of this process failed. Then the other members fail too, with this thread's error as
 * cause. */
void lki_comm_abort(lki_comm *g);

bool        lki_comm_sums(const lki_comm *g);  /* true if transfers may be LKI_CARRY_SUM */
const char *lki_comm_words(const lki_comm *g); /* the carrier in words, as "NCCL" */

/* Returns the group's bond: a device that waits for work waits for the bond of the group that did this work (device/gpu/gpu.h). */
const lki_bond *lki_comm_token(const lki_comm *g);

#endif
