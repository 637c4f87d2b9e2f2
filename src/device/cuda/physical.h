/* Cards as the library counts them, and as CUDA does: the same, unless LOCKSTEP_CUDA_CARDS says that there be so many. Then several
 * of them are one card, each with a stream and memory of its own: what is made for several cards can be tested on one. */
#ifndef LKI_DEVICE_CUDA_PHYSICAL_H
#define LKI_DEVICE_CUDA_PHYSICAL_H

#include "device/cuda/call.h"
#include <stdlib.h>

/* How many there are, of `found` that CUDA knows. */
static inline int lki_cuda_cards(int found)
{
    const char *text = getenv("LOCKSTEP_CUDA_CARDS");
    return found > 0 && text && *text ? atoi(text) : found;
}

/* Which of CUDA's it is. */
static inline int lki_cuda_physical(int card)
{
    static int found; /* always the same once it is known */
    int        n = __atomic_load_n(&found, __ATOMIC_RELAXED);
    if (!n && (cudaGetDeviceCount(&n) != cudaSuccess || n < 1)) return card;
    __atomic_store_n(&found, n, __ATOMIC_RELAXED);
    return card % n;
}

#endif
