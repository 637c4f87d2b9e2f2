/* Groups: the members that compute a step together, and the carrier that connects them.
 *
 * Invariants
 * 1. A group belongs to an owner, a strategy. A second request with equal arguments gets the same group. It is closed when the
 *    owner is gone and no plan uses it.
 * 2. Carriers are tried in the order of the table in comm.c. One is used only after a self-test has shown that bytes arrive; one
 *    line of the log (LOCKSTEP_VERBOSE=plan) says why others were not used.
 * 3. Every wait ends: when the exchange is done, when a member failed or left, or when the deadline has passed. After a failure the
 *    group is given up: all its members are released, and every later call fails with the same cause. */
#ifndef LKI_COMM_COMM_H
#define LKI_COMM_COMM_H

#include "comm/carrier.h"

typedef struct lki_comm lki_comm;

typedef struct lki_comm_args {
    const void        *owner;
    int                members, first, here;
    lki_device *const *device;  /* of the members here */
    const void        *meeting; /* of lki_carrier_args */
    double             seconds; /* the deadline of a wait; 0: none */
    bool               no_nccl; /* the user asked for another carrier */
} lki_comm_args;

/* A reference; NULL and an error. */
lki_comm *lki_comm_open(const lki_comm_args *args);
void      lki_comm_drop(lki_comm *g); /* NULL is ignored */
void      lki_comms_forget(const void *owner);

/* Carry several transfers as one exchange. When this returns, the results are there for work that is given to the members' devices
 * from now on; with `beside` only after the next exchange without it, and until then the transfers must stay as they are. */
lk_status lki_comm_exchange(lki_comm *g, int count, const lki_transfer *transfers, bool beside);

/* Wait until all exchanges, and the work that came with them (lki_comm_gave), are done. */
lk_status lki_comm_wait(lki_comm *g);

/* Give the group up because a member here failed: the other members fail with this error of the thread as their cause. */
void lki_comm_abort(lki_comm *g);

bool        lki_comm_sums(const lki_comm *g);  /* can LKI_SUM be among the transfers? */
const char *lki_comm_words(const lki_comm *g); /* "NCCL" */

/* A pointer by which devices compare groups: work that members did together has one (device/gpu/gpu.h). */
const void *lki_comm_token(const lki_comm *g);

#endif
