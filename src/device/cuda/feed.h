/* Gathers that are deferred until the next work of their card. As the first node of a captured graph a gather is cheaper than as a
 * launch of its own: between a kernel and a graph the card needs some microseconds, between two nodes it does not.
 *
 * Invariants
 *  1. A card has at most one deferred gather. It runs before any work that was submitted after it: the thread that submits work to
 *     the card launches the gather first, or makes it part of a graph. Meanwhile no other thread submits work to the card.
 *  2. A deferred gather keeps all its arguments, including row numbers, until it is launched. A launch that fails is an error of
 *     the call that tried it, and the next call tries again. */
#ifndef LKI_DEVICE_CUDA_FEED_H
#define LKI_DEVICE_CUDA_FEED_H

#include "device/cuda/call.h"
#include "device/cuda/launch.h"
#include "device/gpu/backend.h"
#include "device/pick.h"
#include <mutex>

/* The kernels this driver is linked with, set before anything else is done (lki_gpu_driver). */
extern const lki_gpu_kernels *lki_cuda_kernels;

/* The arguments of a launch. */
typedef struct lki_cuda_gather {
    lki_gpu::kernel_info what;
    dim3                 grid, block;
    alignas(16) char argument[4096];
} lki_cuda_gather;

/* The parameters of a graph node for it. `argument` is room for one address, and must exist as long as they are used. */
static inline cudaKernelNodeParams lki_cuda_gather_node(lki_cuda_gather *g, void **argument)
{
    cudaKernelNodeParams p = {};
    *argument = g->argument;
    p.func = (void *)(uintptr_t)g->what.function;
    p.gridDim = g->grid;
    p.blockDim = g->block;
    p.kernelParams = argument;
    return p;
}

int lki_cuda_gather_launch(void *stream, lki_cuda_gather *g);

int lki_cuda_feed_put(int card, void *stream, const lki_pick *rows); /* launch it now, or defer it */
int lki_cuda_feed_flush(int card);                                   /* after this none is deferred */

/* Holds the card's deferred gather, if there is one, so that the holder can launch it. */
struct lki_cuda_feed_held {
    explicit lki_cuda_feed_held(int card);
    void launched(); /* the gather is no longer deferred */

    lki_cuda_gather *gather; /* nullptr: none is deferred */

  private:
    int                         card;
    std::lock_guard<std::mutex> lock;
};

#endif
