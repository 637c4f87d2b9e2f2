/* Deferred gathers (feed.h). */
#include "device/cuda/feed.h"
#include "device/cuda/physical.h"
#include "device/gpu/backend.h"

namespace
{

struct feed {
    std::mutex      lock;
    bool            waits, loaded; /* loaded: the kernel is on the card */
    void           *stream;        /* of the card */
    lki_cuda_gather gather;
} feeds[LKI_GPU_MOST_CARDS];

/* With the lock held. */
int launch_waiting(feed *f)
{
    if (!f->waits) return 0;
    const int code = lki_cuda_gather_launch(f->stream, &f->gather);
    f->waits = code != 0;
    return code;
}

/* Load the kernel now, so that a failure is reported to the caller that asked for the gather. */
int load(feed *f, const lki_gpu::kernel_info &k)
{
    cudaFuncAttributes about;
    if (f->loaded) return 0;
#ifdef LKI_SIM
    lki_sim::know(k);
#endif
    TRY_OF(cudaFuncGetAttributes(&about, k.function), k.name);
    f->loaded = true;
    return 0;
}

} // namespace

const lki_gpu_kernels *lki_cuda_kernels;

int lki_cuda_gather_launch(void *stream, lki_cuda_gather *g)
{
    void *argument = g->argument;
    TRY_OF(cudaLaunchKernel(g->what.function, g->grid, g->block, &argument, 0, (cudaStream_t)stream), g->what.name);
    return 0;
}

int lki_cuda_feed_put(int card, void *stream, const lki_pick *rows)
{
    feed                       *f = &feeds[card];
    std::lock_guard<std::mutex> held(f->lock);
    TRY(cudaSetDevice(lki_cuda_physical(card)));
    int code = launch_waiting(f);
    if (code) return code;
    const bool small = lki_cuda_kernels->describe_gather(rows, &f->gather);
    if (small) code = load(f, f->gather.what);
    if (code) return code;
    f->stream = stream;
    f->waits = small;
    if (!small) lki_cuda_kernels->gather(stream, rows);
    return lki_cuda_launched();
}

int lki_cuda_feed_flush(int card)
{
    feed                       *f = &feeds[card];
    std::lock_guard<std::mutex> held(f->lock);
    TRY(cudaSetDevice(lki_cuda_physical(card))); /* in any case: the caller launches kernels on this card next */
    return launch_waiting(f);
}

lki_cuda_feed_held::lki_cuda_feed_held(int card_) : gather(nullptr), card(card_), lock(feeds[card_].lock)
{
    if (feeds[card].waits) gather = &feeds[card].gather;
}

void lki_cuda_feed_held::launched()
{
    feeds[card].waits = false;
    gather = nullptr;
}
