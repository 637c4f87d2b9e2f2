/* Carriers: how bytes travel between the members of a group. A carrier is one table of functions; comm.h is what others call.
 *
 * A group has n members, numbered from 0. What one process has of it is a side: the members first .. first + here - 1, whose
 * buffers it may name. One process may hold all members (the cards of a machine), or one of them (a machine of several); in tests a
 * thread stands for a process.
 *
 *     local    members in one process, each driven by a thread of its own; buffers in memory of the host
 *     nccl     cards, by NCCL
 *     peer     cards of one process, by copies from card to card
 *     host     cards of one process, by copies through memory of the host
 *
 * Contract
 * 1. An exchange is a list of transfers that are posted together. All members post the same exchanges in the same order, with the
 *    same kinds and sizes; a carrier that notices a difference reports which member differs.
 * 2. post(), send() and receive() return without waiting for another member. Until done() says so, the buffers and the list stay as
 *    they are.
 * 3. `ordered`: a transfer runs on the devices of the members, after the work given to them before and before the work given
 *    later; the host does not wait. Of other carriers the host waits with done().
 * 4. A member that ends its side, or aborts, releases all others: post() of every other side fails from then on with the cause, and
 *    so does done(), unless all that was posted was complete before. When done() has failed, or abort() has returned, no other side
 *    reads or writes a buffer of this one. abort() and close() may wait for that. Of the others only open()
 *    waits. No function waits for ever.
 * 5. One side is used by one thread at a time. Different sides may be used by different threads at the same time.
 * 6. A carrier without post() has send() and receive(); comm.c makes exchanges of them. Between two members messages arrive in
 *    the order in which they were sent. */
#ifndef LKI_COMM_CARRIER_H
#define LKI_COMM_CARRIER_H

#include "core/thread.h"
#include "device/device.h"
#include <lockstep/tensor.h>

enum { LKI_MOST_MEMBERS = 64, LKI_CARRIER_WHY = 512 };

/* What is sent. In lists of addresses, [i] is that of member first + i. No two transfers of an exchange write what another reads or
 * writes.
 *
 *     GATHER   dst of every member = src of member 0 | src of member 1 | ..., `bytes` of each. A src may lie where it belongs in
 *              its own member's dst
 *     SWAP     dst of member i = piece i of member 0's src | piece i of member 1's src | ...; n pieces of `bytes` each
 *     SUM      dst of every member = the sum of all src, `bytes` of numbers, in an order that the carrier chooses; dst may be src.
 *              Only for LK_FREE, and only of carriers that `sum` */
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
    int                members, first, here;
    lki_device *const *device; /* of the members here */
    const void *meeting;       /* what the sides of a group in one process have in common, to compare; NULL: all members are here */
    double      seconds;       /* the deadline of opening, and of each wait; 0: none */
} lki_carrier_args;

/* What threads that wait for a carrier sleep on. */
typedef struct lki_bell {
    unsigned rings, sleepers; /* atomic */
} lki_bell;

static inline void lki_bell_ring(lki_bell *b)
{
    __atomic_add_fetch(&b->rings, 1, __ATOMIC_SEQ_CST);
    lki_wake(&b->rings, &b->sleepers);
}

typedef struct lki_carrier {
    const char *name;   /* "local" */
    const char *words;  /* in messages: "copies between them" */
    unsigned    memory; /* LKI_CARRIES_... */
    bool        apart;  /* it reaches members of other sides */
    bool        ordered, sums;

    /* LK_OK and a side, or a code and why this carrier cannot be had here; no error is recorded. */
    lk_status (*open)(const lki_carrier_args *o, void **side, char why[LKI_CARRIER_WHY]);

    /* An exchange. `beside`: of an ordered carrier, the devices do not wait for it before the next exchange that is not. */
    lk_status (*post)(void *side, int count, const lki_transfer *transfers, bool beside);

    /* One message of member `from` to member `to`; the one that sends, or receives, is here. */
    lk_status (*send)(void *side, int from, int to, const void *src, size_t bytes);
    lk_status (*receive)(void *side, int to, int from, void *dst, size_t bytes);

    /* Is all that was posted, sent and received done? 1: yes; 0: no; below 0: it failed, and check() says why. `late`: the members
     * that are waited for, as bits. All bits are set when a wait begins; then it is what the call before left. */
    int (*done)(void *side, uint64_t *late);

    /* Optional: a bell that rings when done() may answer differently. Without one a waiting thread asks again and again. */
    lki_bell *(*bell)(void *side);

    /* LK_OK, or the code and the words of what went wrong on any side. */
    lk_status (*check)(void *side, char why[LKI_CARRIER_WHY]);

    /* All sides fail from now on, with this code and these words. */
    void (*abort)(void *side, lk_status code, const char *why);

    void (*close)(void *side);
} lki_carrier;

extern const lki_carrier lki_local_carrier, lki_nccl_carrier, lki_peer_carrier, lki_host_carrier;

/* One that is tried before all others; NULL: none. Returns the one before. For tests. */
const lki_carrier *lki_carrier_first(const lki_carrier *c);

#endif
