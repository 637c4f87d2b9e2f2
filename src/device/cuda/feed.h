/* Gathers that wait for what follows them on their card. Before a captured graph it is cheaper to be its first node than a launch
 * of its own: from a kernel into a graph the card takes some microseconds, from node to node it does not.
 *
 * Invariants
 * 1. A card has at most one gather that waits. It is done before anything that was given to the stream after it: whoever gives it
 *    work has it launched first, or makes it a part of a graph, and nobody else gives work meanwhile.
 * 2. It waits with all it needs, numbers of rows included, until it was launched: where that fails everybody who comes is told
 *    so. */
#ifndef LKI_DEVICE_CUDA_FEED_H
#define LKI_DEVICE_CUDA_FEED_H

#include "device/cuda/call.h"
#include "device/cuda/launch.h"
#include "device/gpu/backend.h"
#include "device/gpu/rows.h"
#include <mutex>

/* The kernels this driver is linked with, set before anything else is done (lki_gpu_driver). */
extern const lki_gpu_kernels *lki_cuda_kernels;

/* A launch by its description. */
typedef struct lki_cuda_gather {
    lki_gpu::kernel_info what;
    dim3                 grid, block;
    alignas(16) char argument[4096];
} lki_cuda_gather;

/* What a graph node is made of; `argument` is room for one address, and must last as long as it is used. */
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

int lki_cuda_feed_put(int card, void *stream, const lki_gpu_rows *rows); /* now, or to wait */
int lki_cuda_feed_flush(int card);                                       /* none waits any more */

/* The gather that waits, if one does, is its holder's to launch. */
struct lki_cuda_feed_held {
    explicit lki_cuda_feed_held(int card);
    void launched(); /* it waits no more */

    lki_cuda_gather *gather; /* nullptr: none waits */

  private:
    int                         card;
    std::lock_guard<std::mutex> lock;
};

#endif
