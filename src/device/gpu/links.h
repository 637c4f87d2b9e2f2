/* How a backend carries bytes between several cards: links over a list of them, in one of three ways.
 *
 * Contract, in addition to that of backend.h
 *  1. Work is put on the streams of the cards, after what is on them already; the host waits for no card. Work submitted to these
 *     streams later may write what was read, and read what was written.
 *  2. open() fails with a reason in words if a way is not available. The library has to test that a way really carries bytes
 *     (comm/comm.h).
 *  3. Links that failed, or that the library gives up, are closed with `abort`: work that still waits on a card for another card
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

/* What is sent, by card of the list. No transfer of an exchange writes where another one reads or writes. */
typedef enum lki_gpu_sending {
    LKI_SEND_GATHER, /* dst of every card = src of card 0 | src of card 1 | ..., `bytes` of each. A src may be at its place in the
                      * dst of its own card */
    LKI_SEND_SWAP,   /* dst of card i = piece i of card 0's src | piece i of card 1's src | ...; pieces of `bytes`, as many as there
                    * are cards */
    LKI_SEND_SUM, /* dst of every card = the sum of all src, `bytes` of numbers, in any order; only LKI_WAY_NCCL. dst may be src */
} lki_gpu_sending;

typedef struct lki_gpu_transfer {
    lki_gpu_sending    kind;
    lki_gpu_number     number; /* SUM */
    size_t             bytes;
    const void *const *src;
    void *const       *dst;
} lki_gpu_transfer;

typedef struct lki_gpu_links {
    /* Links between `count` different cards with these streams; may take up to `seconds`. 0, or a code and why not. */
    int (*open)(lki_gpu_way way, int count, const int *cards, void *const *stream, double seconds, void **links,
                char why[LKI_LINKS_WHY]);

    /* Several transfers as one: the cards' later work runs after it. */
    int (*exchange)(void *links, int count, const lki_gpu_transfer *transfers);

    /* The same beside the cards' next work: it reads what they have written so far, and is complete after the next exchange. The
     * transfers must exist until then. */
    int (*begin)(void *links, int count, const lki_gpu_transfer *transfers);

    /* 0, or a code and in words what failed since. */
    int (*check)(void *links, char why[LKI_LINKS_WHY]);

    /* 1: all work submitted to card i of the list is done; 0: not yet; below 0: a code, negative. */
    int (*idle)(void *links, int i);

    void (*close)(void *links, int abort);

    const char *(*text)(int code); /* of a code that one of these returned */

    /* "NCCL 2.27.3", or why there is none; valid until the next call. Uses no card. */
    const char *(*nccl)(int *found);
} lki_gpu_links;

/* The symbol a backend exports beside its other one. */
#define LKI_GPU_LINKS_SYMBOL "lki_gpu_links_of"
typedef const lki_gpu_links *lki_gpu_links_fn(void);

#endif
