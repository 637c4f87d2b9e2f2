/* Gathers that wait (cuda_feed.h). */
#include "device/gpu/backend.h"
#include "kernel/gpu/cuda_feed.h"
#include "kernel/gpu/gpu.h"
#include "kernel/gpu/physical.h"
#include <mutex>

namespace
{

struct feed {
    std::mutex      lock;
    bool            waits;
    void           *stream; /* of the card */
    lki_cuda_gather gather;
} feeds[LKI_GPU_MOST_CARDS];

/* With the lock held. */
int launch_waiting(feed *f)
{
    if (!f->waits) return 0;
    f->waits = false;
    return lki_cuda_gather_launch(f->stream, &f->gather);
}

} // namespace

int lki_cuda_gather_launch(void *stream, lki_cuda_gather *g)
{
    void *argument = g->argument;
    TRY(cudaLaunchKernel(g->kernel, g->grid, g->block, &argument, 0, (cudaStream_t)stream));
    return 0;
}

int lki_cuda_feed_put(int card, void *stream, const lki_gpu_rows *rows)
{
    feed                       *f = &feeds[card];
    std::lock_guard<std::mutex> held(f->lock);
    TRY(cudaSetDevice(lki_cuda_physical(card)));
    const int code = launch_waiting(f);
    if (code) return code;
    f->stream = stream;
    f->waits = lki_gpu::describe_gather(rows, &f->gather);
    if (!f->waits) lki_gpu::gather_rows(stream, rows);
    TRY(cudaGetLastError());
    return 0;
}

bool lki_cuda_feed_take(int card, lki_cuda_gather *out)
{
    feed                       *f = &feeds[card];
    std::lock_guard<std::mutex> held(f->lock);
    const bool                  waits = f->waits;
    if (waits) *out = f->gather;
    f->waits = false;
    return waits;
}

int lki_cuda_feed_flush(int card)
{
    feed                       *f = &feeds[card];
    std::lock_guard<std::mutex> held(f->lock);
    if (!f->waits) return 0;
    TRY(cudaSetDevice(lki_cuda_physical(card)));
    return launch_waiting(f);
}
