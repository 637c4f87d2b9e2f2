/* Cards as the library numbers them, and as CUDA does: the same numbers, unless LOCKSTEP_CUDA_CARDS sets how many cards there are.
 * Then several of the library's cards are one CUDA card, each with its own stream and memory, so that code for several cards can be
 * tested on one. */
#ifndef LKI_DEVICE_CUDA_PHYSICAL_H
#define LKI_DEVICE_CUDA_PHYSICAL_H

#include "device/cuda/call.h"
#include <stdlib.h>

/* The number of cards for the library, if CUDA has `found`. */
static inline int lki_cuda_cards(int found)
{
    const char *text = getenv("LOCKSTEP_CUDA_CARDS");
    return found > 0 && text && *text ? atoi(text) : found;
}

/* CUDA's number of a card. */
static inline int lki_cuda_physical(int card)
{
    static int found; /* constant once it is known */
    int        n = __atomic_load_n(&found, __ATOMIC_RELAXED);
    if (!n && (cudaGetDeviceCount(&n) != cudaSuccess || n < 1)) return card;
    __atomic_store_n(&found, n, __ATOMIC_RELAXED);
    return card % n;
}

#endif
