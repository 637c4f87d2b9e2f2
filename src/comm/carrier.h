/* Carriers: how bytes travel between the members of a group. A carrier is a table of functions. Only src/comm calls it; other
 * folders call comm.h.
 *
 * A group has n members, numbered from 0. A side is the part of a group that one process has: the members first .. first + here - 1
 * and their buffers. One process may have all members (the cards of a machine), or only some (one of several machines). In tests a
 * thread takes the place of a process.
 *
 *     local    members of one process, each run by a separate thread; buffers in memory of the host
 *     nccl     cards of one process, by NCCL
 *     peer     cards of one process, by copies from card to card
 *     host     cards of one process, by copies through memory of the host
 *
 * Contract
 * 1. An exchange is a list of transfers that are posted together. All members post the same exchanges in the same order, with the
 *    same kinds and sizes. A carrier that notices a difference reports which member differs.
 * 2. post(), send() and receive() return without waiting for another member. The caller must not change the buffers or the list
 *    until done() returns 1.
 * 3. If the carrier is `ordered`, an exchange runs on the devices of the members, after the work submitted to them before it and
 *    before the work submitted after it, and the host does not wait. If it is not, the host waits until done() returns 1.
 * 4. When a side is closed or aborted, no other side waits for it any longer: post() of every other side then fails with the cause,
 *    and so does done(), unless everything that was posted had already been completed. When done() of a side has failed, or its
 *    abort() has returned, no other side reads or writes this side's buffers. abort() and close() may wait for that. Besides them
 *    only open() waits. No function waits for ever.
 * 5. One thread at a time uses a side. Different threads may use different sides at the same time.
 * 6. A carrier without post() has send() and receive(), and comm.c makes exchanges of messages. Messages between two members arrive
 *    in the order in which they were sent. */
#ifndef LKI_COMM_CARRIER_H
#define LKI_COMM_CARRIER_H

#include "core/thread.h"
#include "device/device.h"
#include <lockstep/tensor.h>

enum { LKI_MOST_MEMBERS = 64, LKI_CARRIER_WHY = 512 };

/* Kinds of transfers. In the lists src and dst, entry i is the address of member first + i. No transfer writes bytes that another
 * transfer of the same exchange reads or writes.
 *
 *     GATHER   dst of every member = src of member 0 | src of member 1 | ..., `bytes` of each. The src of a member may already lie
 *              in its dst, at the place where it belongs
 *     SWAP     dst of member i = piece i of member 0's src | piece i of member 1's src | ...; every src has n pieces of `bytes`
 *     SUM      dst of every member = the sum of all src, numbers of `bytes` in total. The carrier chooses the order of summation.
 *              dst may be src. Only with LK_FREE, and only if the carrier `sums` */
typedef enum lki_transfer_kind { LKI_CARRY_GATHER, LKI_CARRY_SWAP, LKI_CARRY_SUM } lki_transfer_kind;

typedef struct lki_transfer {
    lki_transfer_kind  kind;
    lk_dtype           dtype; /* SUM: LK_F32 or LK_F64 */
    size_t             bytes;
    const void *const *src;
    void *const       *dst;
} lki_transfer;

/* Kinds of memory that buffers may lie in, as bits. */
enum { LKI_CARRIES_HOST = 1, LKI_CARRIES_CARDS = 2 };

typedef struct lki_carrier_args {
    int                members, first, here; /* of `members`, this side has the members first .. first + here - 1 */
    lki_device *const *device;               /* of each member of this side */
    const void        *meeting;              /* sides of one group have the same address; NULL: this side has all members */
    double             seconds;              /* the deadline of opening and of each wait; 0: there is none */
} lki_carrier_args;

/* A bell: threads that wait for a carrier sleep until it rings. */
typedef struct lki_bell {
    unsigned rings, sleepers; /* atomic */
} lki_bell;

static inline void lki_bell_ring(lki_bell *b)
{
    __atomic_add_fetch(&b->rings, 1, __ATOMIC_SEQ_CST);
    lki_wake(&b->rings, &b->sleepers);
}

typedef struct lki_carrier {
    const char *name;    /* "local" */
    const char *words;   /* its name in messages: "copies between them" */
    unsigned    memory;  /* the kinds of memory it supports: LKI_CARRIES_... */
    bool        apart;   /* it connects several sides */
    bool        ordered; /* contract 3 */
    bool        sums;    /* it supports LKI_CARRY_SUM */

    /* Opens a side. LK_OK, or a code and in `why` the reason why this carrier cannot be used; no error is recorded. */
    lk_status (*open)(const lki_carrier_args *o, void **side, char why[LKI_CARRIER_WHY]);

    /* Posts an exchange. `beside`, for ordered carriers: the devices wait for it only before the next exchange without `beside`. */
    lk_status (*post)(void *side, int count, const lki_transfer *transfers, bool beside);

    /* Send or receive one message from member `from` to member `to`. The member that sends, or receives, is one of this side. */
    lk_status (*send)(void *side, int from, int to, const void *src, size_t bytes);
    lk_status (*receive)(void *side, int to, int from, void *dst, size_t bytes);

    /* Returns 1 if everything that was posted, sent and received is done, and 0 if not. Below 0: it failed, and check() says why.
     * *late: one bit for each member that is still waited for. The caller sets all bits when a wait begins, and passes the same
     * word to every further call of this wait. */
    int (*done)(void *side, uint64_t *late);

    /* Optional: returns a bell that rings when the result of done() may have changed. Without it a waiting thread polls done(). */
    lki_bell *(*bell)(void *side);

    /* LK_OK, or the code of a failure of any side, and in `why` its description. */
    lk_status (*check)(void *side, char why[LKI_CARRIER_WHY]);

    /* Aborts: after this, all sides fail with this code and this description. */
    void (*abort)(void *side, lk_status code, const char *why);

    void (*close)(void *side);
} lki_carrier;

extern const lki_carrier lki_local_carrier, lki_nccl_carrier, lki_peer_carrier, lki_host_carrier;

/* For tests: sets a carrier that is tried before all others, or none (NULL). Returns the one that was set before. */
const lki_carrier *lki_carrier_first(const lki_carrier *c);

#endif
