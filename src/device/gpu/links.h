/* What a backend gives the library to carry bytes between several cards: links over a list of them, in one of three ways.
 *
 * Contract, beside that of backend.h
 *  1. Work goes to the streams of the cards, behind what was given to them before; nobody waits on the host for a card. What is
 *     read may be written, and what was written read, by work given to these streams afterwards.
 *  2. A way that cannot be had is refused by open() with a reason in words; that it really carries bytes is for the library to
 *     find out (comm/comm.h).
 *  3. Links that failed, or that the library gives up, are closed with `abort`: whatever still waits on a card for another one
 *     ends, so that every stream can be waited for again.
 *  4. One thread at a time. */
#ifndef LKI_DEVICE_GPU_LINKS_H
#define LKI_DEVICE_GPU_LINKS_H

#include <stddef.h>

enum { LKI_LINKS_WHY = 200 }; /* bytes of a reason */

typedef enum lki_gpu_way {
    LKI_WAY_NCCL, /* its library, found at run time */
    LKI_WAY_PEER, /* copies from card to card */
    LKI_WAY_HOST, /* copies through memory of the host */
    LKI_WAYS
} lki_gpu_way;

typedef enum lki_gpu_number { LKI_NUMBER_F32, LKI_NUMBER_F64 } lki_gpu_number;

/* What is sent, by card of the list; no two transfers of an exchange write where another reads or writes. */
typedef enum lki_gpu_sending {
    LKI_SEND_GATHER, /* dst of every card = src of card 0 | src of card 1 | ..., `bytes` of each. A src may lie where it belongs in
                      * its own card's dst */
    LKI_SEND_SWAP,   /* dst of card i = piece i of card 0's src | piece i of card 1's src | ...; pieces of `bytes`, as many as there
                    * are cards */
    LKI_SEND_SUM, /* dst of every card = the sum of all src, `bytes` of numbers, in any order; LKI_WAY_NCCL alone. dst may be src */
} lki_gpu_sending;

typedef struct lki_gpu_transfer {
    lki_gpu_sending    kind;
    lki_gpu_number     number; /* SUM */
    size_t             bytes;
    const void *const *src;
    void *const       *dst;
} lki_gpu_transfer;

typedef struct lki_gpu_links {
    /* Links between `count` different cards, whose streams these are; within so many seconds. 0, or a code and why not. */
    int (*open)(lki_gpu_way way, int count, const int *cards, void *const *stream, double seconds, void **links,
                char why[LKI_LINKS_WHY]);

    /* Several transfers, as one: cards go on when it is done. */
    int (*exchange)(void *links, int count, const lki_gpu_transfer *transfers);

    /* The same beside what cards do next: it reads what they have made so far, and is done when the next exchange is. The transfers
     * are there until then. */
    int (*begin)(void *links, int count, const lki_gpu_transfer *transfers);

    /* 0, or what went wrong in the meantime, in words too. */
    int (*check)(void *links, char why[LKI_LINKS_WHY]);

    /* Is all work given to card i (of the list) done? 1 yes, 0 no, below 0: a code, negative. */
    int (*idle)(void *links, int i);

    void (*close)(void *links, int abort);

    const char *(*text)(int code); /* what any of these returned, in words */

    /* "NCCL 2.27.3", or why there is none; good until asked again. Touches no card. */
    const char *(*nccl)(int *found);
} lki_gpu_links;

/* The symbol a backend exports beside its other one. */
#define LKI_GPU_LINKS_SYMBOL "lki_gpu_links_of"
typedef const lki_gpu_links *lki_gpu_links_fn(void);

#endif
