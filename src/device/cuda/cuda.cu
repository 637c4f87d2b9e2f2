/* CUDA cards as a backend. The CUDA runtime is linked in. It loads the driver library at the first call, so this object can also be
 * opened on machines without CUDA. */
#include "device/cuda/feed.h"
#include "device/cuda/graph.h"
#include "device/cuda/physical.h"
#include "device/gpu/backend.h"
#include "device/pick.h"
#include <mutex>
#include <stdio.h>
#include <string.h>

/* A deferred gather is launched first. */
#define FLUSH(card)                                                                                                                \
    do {                                                                                                                           \
        const int code_ = lki_cuda_feed_flush(card);                                                                               \
        if (code_) return code_;                                                                                                   \
    } while (0)

namespace
{

int cuda_cards(const char **why)
{
    int               n = 0;
    const cudaError_t e = cudaGetDeviceCount(&n);
    *why = e == cudaSuccess ? "the driver knows no card" : cudaGetErrorString(e);
    if (e != cudaSuccess) cudaGetLastError();
    n = e == cudaSuccess ? lki_cuda_cards(n) : 0;
    return n < LKI_GPU_MOST_CARDS ? n : LKI_GPU_MOST_CARDS;
}

int cuda_card(int i, lki_gpu_card *out)
{
    cudaDeviceProp p;
    TRY(cudaGetDeviceProperties(&p, lki_cuda_physical(i)));
    memset(out, 0, sizeof *out);
    snprintf(out->name, sizeof out->name, "%.63s", p.name);
    out->memory = p.totalGlobalMem;
    out->major = p.major;
    out->minor = p.minor;
    out->processors = p.multiProcessorCount;
    out->shared = (int)p.sharedMemPerBlockOptin;
    return 0;
}

/* After these errors the CUDA context is unusable. */
const char *cuda_lost(int code)
{
    switch ((cudaError_t)code) {
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure:
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorExternalDevice:
    case cudaErrorContextIsDestroyed: return cudaGetErrorName((cudaError_t)code);
    default: return nullptr;
    }
}

int cuda_open(int card, void **stream)
{
    cudaStream_t s;
    TRY(cudaSetDevice(lki_cuda_physical(card)));
    TRY(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    *stream = s;
    return 0;
}

int cuda_alloc(int card, size_t bytes, void **mem)
{
    TRY(cudaSetDevice(lki_cuda_physical(card)));
    TRY(cudaMalloc(mem, bytes));
    return 0;
}

int cuda_release(int card, void *mem)
{
    lki_cuda_feed_flush(card); /* memory of a lost card is released as well */
    TRY(cudaSetDevice(lki_cuda_physical(card)));
    TRY(cudaFree(mem));
    return 0;
}

int cuda_alloc_host(size_t bytes, void **mem)
{
    TRY(cudaHostAlloc(mem, bytes ? bytes : 1, cudaHostAllocPortable | cudaHostAllocMapped));
    memset(*mem, 0, bytes ? bytes : 1);
    return 0;
}

int cuda_release_host(void *mem)
{
    TRY(cudaFreeHost(mem));
    return 0;
}

int cuda_available(int card, size_t *bytes)
{
    size_t total = 0;
    TRY(cudaSetDevice(lki_cuda_physical(card)));
    TRY(cudaMemGetInfo(bytes, &total));
    return 0;
}

/* What the host writes goes through a ring of pinned pieces: the host waits for the card only when the whole ring is in use. */
enum { PIECES = 8, PIECE = 2 << 20 };

struct ring {
    std::mutex  lock;
    char       *piece[PIECES]; /* nullptr: not made yet */
    cudaEvent_t sent[PIECES];
    int         next;
} rings[LKI_GPU_MOST_CARDS];

/* The next piece, after the copy that used it before has arrived. */
int next_piece(ring *r, int *out)
{
    const int i = r->next;
    if (!r->piece[i]) {
        TRY(cudaEventCreateWithFlags(&r->sent[i], cudaEventDisableTiming));
        TRY(cudaHostAlloc((void **)&r->piece[i], PIECE, cudaHostAllocPortable));
    } else TRY(cudaEventSynchronize(r->sent[i]));
    r->next = (i + 1) % PIECES;
    *out = i;
    return 0;
}

int cuda_write(int card, void *stream, void *dst, const void *host, size_t bytes)
{
    FLUSH(card);
    ring                       *r = &rings[card];
    std::lock_guard<std::mutex> held(r->lock);
    TRY(cudaSetDevice(lki_cuda_physical(card)));
    for (size_t at = 0; at < bytes; at += PIECE) {
        const size_t n = bytes - at < PIECE ? bytes - at : PIECE;
        int          i, code = next_piece(r, &i);
        if (code) return code;
        memcpy(r->piece[i], (const char *)host + at, n);
        TRY(cudaMemcpyAsync((char *)dst + at, r->piece[i], n, cudaMemcpyHostToDevice, (cudaStream_t)stream));
        TRY(cudaEventRecord(r->sent[i], (cudaStream_t)stream));
    }
    return 0;
}

int cuda_read(int card, void *stream, void *host, const void *src, size_t bytes)
{
    FLUSH(card);
    TRY(cudaSetDevice(lki_cuda_physical(card)));
    if (bytes) TRY(cudaMemcpyAsync(host, src, bytes, cudaMemcpyDeviceToHost, (cudaStream_t)stream));
    TRY(cudaStreamSynchronize((cudaStream_t)stream));
    return 0;
}

int cuda_copy(int card, void *stream, void *dst, const void *src, size_t bytes)
{
    if (!bytes) return 0;
    FLUSH(card);
    TRY(cudaSetDevice(lki_cuda_physical(card)));
    TRY(cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDeviceToDevice, (cudaStream_t)stream));
    return 0;
}

int cuda_zero(int card, void *stream, void *dst, size_t bytes)
{
    if (!bytes) return 0;
    FLUSH(card);
    TRY(cudaSetDevice(lki_cuda_physical(card)));
    TRY(cudaMemsetAsync(dst, 0, bytes, (cudaStream_t)stream));
    return 0;
}

int copy_after(int to, void *stream, void *dst, int from, void *from_stream, const void *src, size_t bytes, cudaEvent_t ready)
{
    TRY(cudaEventRecord(ready, (cudaStream_t)from_stream));
    TRY(cudaSetDevice(lki_cuda_physical(to)));
    TRY(cudaStreamWaitEvent((cudaStream_t)stream, ready, 0));
    TRY(cudaMemcpyPeerAsync(dst, lki_cuda_physical(to), src, lki_cuda_physical(from), bytes, (cudaStream_t)stream));
    return 0;
}

int cuda_peer(int to, void *stream, void *dst, int from, void *from_stream, const void *src, size_t bytes)
{
    cudaEvent_t ready;
    if (!bytes) return 0;
    FLUSH(from);
    FLUSH(to);
    TRY(cudaSetDevice(lki_cuda_physical(from)));
    TRY(cudaEventCreateWithFlags(&ready, cudaEventDisableTiming));
    const int code = copy_after(to, stream, dst, from, from_stream, src, bytes, ready);
    cudaEventDestroy(ready);
    if (code) return code;
    /* once this returns, the stream of the source may overwrite or free it */
    TRY(cudaStreamSynchronize((cudaStream_t)stream));
    return 0;
}

int cuda_sync(int card, void *stream)
{
    const int code = lki_cuda_feed_flush(card);
    TRY(cudaSetDevice(lki_cuda_physical(card)));
    TRY(cudaStreamSynchronize((cudaStream_t)stream));
    return code;
}

int cuda_failure(int card)
{
    TRY(cudaSetDevice(lki_cuda_physical(card)));
    return lki_cuda_launched();
}

int cuda_copies(int card, void *stream, int count, const lki_gpu_piece *pieces)
{
    FLUSH(card);
    TRY(cudaSetDevice(lki_cuda_physical(card)));
    lki_cuda_kernels->copy(stream, count, pieces);
    return lki_cuda_launched();
}

} // namespace

const lki_gpu_backend *lki_gpu_driver(const lki_gpu_kernels *kernels)
{
    static const lki_gpu_backend backend = {LKI_GPU_BACKEND_VERSION,
                                            "cuda",
                                            cuda_cards,
                                            cuda_card,
                                            lki_cuda_text,
                                            cuda_lost,
                                            cuda_open,
                                            cuda_alloc,
                                            cuda_release,
                                            cuda_alloc_host,
                                            cuda_release_host,
                                            cuda_available,
                                            cuda_write,
                                            cuda_read,
                                            cuda_copy,
                                            cuda_zero,
                                            cuda_peer,
                                            cuda_sync,
                                            cuda_failure,
                                            lki_cuda_capture_begin,
                                            lki_cuda_capture_call,
                                            lki_cuda_capture_end,
                                            lki_cuda_variant_begin,
                                            lki_cuda_variant_call,
                                            lki_cuda_variant_end,
                                            lki_cuda_vary,
                                            lki_cuda_recopy,
                                            lki_cuda_launch,
                                            lki_cuda_release_graph,
                                            lki_cuda_release_variant,
                                            kernels->table,
                                            kernels->groups,
                                            lki_cuda_feed_put,
                                            lki_cuda_feed_flush,
                                            cuda_copies};
    lki_cuda_kernels = kernels;
    return &backend;
}
