/* The part of the CUDA runtime that src/device/cuda/links.cu uses, with cards in the host's memory and all work done at once: so
 * the code that calls NCCL can run without CUDA and NCCL. */
#ifndef FAKE_CUDA_RUNTIME_H
#define FAKE_CUDA_RUNTIME_H

#include <stdlib.h>
#include <string.h>

enum cudaError_t {
    cudaSuccess = 0,
    cudaErrorPeerAccessUnsupported = 217,
    cudaErrorNotReady = 600,
    cudaErrorPeerAccessAlreadyEnabled = 704,
    cudaErrorNotSupported = 801
};
enum { cudaEventDisableTiming = 2, cudaHostAllocPortable = 1, cudaStreamNonBlocking = 1 };
enum { cudaMemcpyHostToDevice = 1, cudaMemcpyDeviceToHost = 2, cudaMemcpyDeviceToDevice = 3 };
typedef struct fake_stream *cudaStream_t;
typedef struct fake_event  *cudaEvent_t;

extern bool fake_has_no_peers;

inline cudaError_t cudaGetLastError() { return cudaSuccess; }
inline const char *cudaGetErrorString(cudaError_t) { return "an error of no card"; }
inline cudaError_t cudaGetDeviceCount(int *n) { return *n = 8, cudaSuccess; }
inline cudaError_t cudaSetDevice(int) { return cudaSuccess; }
extern int         fake_streams; /* that were made and not destroyed */
inline cudaError_t cudaStreamCreateWithFlags(cudaStream_t *s, int)
{
    return *s = (cudaStream_t)malloc(1), fake_streams++, cudaSuccess;
}
inline cudaError_t cudaStreamDestroy(cudaStream_t s) { return free(s), fake_streams--, cudaSuccess; }
inline cudaError_t cudaStreamQuery(cudaStream_t) { return cudaSuccess; }
inline cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }
inline cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, int) { return cudaSuccess; }
inline cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t) { return cudaSuccess; }
inline cudaError_t cudaEventCreateWithFlags(cudaEvent_t *e, int) { return *e = (cudaEvent_t)malloc(1), cudaSuccess; }
inline cudaError_t cudaEventDestroy(cudaEvent_t e) { return free(e), cudaSuccess; }
inline cudaError_t cudaHostAlloc(void **mem, size_t bytes, int) { return *mem = malloc(bytes), cudaSuccess; }
inline cudaError_t cudaFreeHost(void *mem) { return free(mem), cudaSuccess; }
inline cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t n, int, cudaStream_t)
{
    return memmove(dst, src, n), cudaSuccess;
}
inline cudaError_t cudaMemcpyPeerAsync(void *dst, int, const void *src, int, size_t n, cudaStream_t)
{
    return memmove(dst, src, n), cudaSuccess;
}
inline cudaError_t cudaDeviceCanAccessPeer(int *can, int, int) { return *can = !fake_has_no_peers, cudaSuccess; }
inline cudaError_t cudaDeviceEnablePeerAccess(int, int)
{
    static bool before;
    const bool  again = before;
    before = true;
    return again ? cudaErrorPeerAccessAlreadyEnabled : cudaSuccess;
}

#endif
