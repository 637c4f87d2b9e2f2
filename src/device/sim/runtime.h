/* The calls of CUDA's runtime that launches and graphs need, for simulated cards: the code that captures, changes and launches
 * graphs (device/cuda/graph.cu) is the same for both. Codes are those of errno.h.
 *
 * Where this is stricter than a card
 *  1. A launch, a node that is added and arguments that are set must keep within all limits: threads, blocks, bytes of arguments,
 *     and dynamic shared memory within what the kernel was last allowed (cudaFuncSetAttribute), as CUDA documents it.
 *  2. Where CUDA guarantees no order, of nodes that run or that are listed, the order is different each time.
 *  3. Nodes keep the arguments they were given, and only those; a node must belong to the graph that was instantiated. */
#ifndef LKI_DEVICE_SIM_RUNTIME_H
#define LKI_DEVICE_SIM_RUNTIME_H

#include "device/sim/sim.h"
#include <cerrno>

enum cudaError_t {
    cudaSuccess = 0,
    cudaErrorMemoryAllocation = ENOMEM,
    cudaErrorInvalidValue = EINVAL,
    cudaErrorInvalidConfiguration = EDOM,
    cudaErrorGraphExecUpdateFailure = ENOEXEC,
    cudaErrorStreamCaptureInvalidated = ECANCELED
};

typedef struct lki_sim_stream *cudaStream_t;
typedef struct lki_sim_node   *cudaGraphNode_t;
typedef struct lki_sim_graph  *cudaGraph_t;
typedef struct lki_sim_exec   *cudaGraphExec_t;

struct cudaGraphEdgeData {
    int none;
};
struct cudaKernelNodeParams {
    void    *func;
    dim3     gridDim, blockDim;
    unsigned sharedMemBytes;
    void   **kernelParams, **extra;
};
struct cudaFuncAttributes {
    size_t sharedSizeBytes;
};

enum { cudaStreamNonBlocking, cudaStreamCaptureModeThreadLocal, cudaStreamSetCaptureDependencies };
enum cudaStreamCaptureStatus { cudaStreamCaptureStatusNone, cudaStreamCaptureStatusActive };
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize };

enum cudaDeviceAttr {
    cudaDevAttrMaxThreadsPerBlock,
    cudaDevAttrMaxBlockDimX,
    cudaDevAttrMaxBlockDimY,
    cudaDevAttrMaxBlockDimZ,
    cudaDevAttrMaxGridDimX,
    cudaDevAttrMaxGridDimY,
    cudaDevAttrMaxGridDimZ,
    cudaDevAttrMaxSharedMemoryPerBlockOptin,
    cudaDevAttrComputeCapabilityMajor
};

const char *cudaGetErrorString(cudaError_t e);
cudaError_t cudaGetLastError();
cudaError_t cudaGetDeviceCount(int *count);
cudaError_t cudaGetDevice(int *card);
cudaError_t cudaSetDevice(int card);
cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr what, int card);

cudaError_t cudaFuncSetAttribute(const void *function, cudaFuncAttribute what, int value);
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *about, const void *function);
cudaError_t cudaLaunchKernel(const void *function, dim3 grid, dim3 block, void **value, size_t shared, cudaStream_t stream);

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, int mode);
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph);
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus *status, void *id, cudaGraph_t *graph,
                                     const cudaGraphNode_t **nodes, const cudaGraphEdgeData **edges, size_t *count);
cudaError_t cudaStreamUpdateCaptureDependencies(cudaStream_t stream, cudaGraphNode_t *nodes, const cudaGraphEdgeData *edges,
                                                size_t count, unsigned flags);

cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *after, size_t count,
                                   const cudaKernelNodeParams *params);
cudaError_t cudaGraphAddDependencies(cudaGraph_t graph, const cudaGraphNode_t *from, const cudaGraphNode_t *to,
                                     const cudaGraphEdgeData *edges, size_t count);
cudaError_t cudaGraphGetRootNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *count);
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long flags);
cudaError_t cudaGraphExecKernelNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node, const cudaKernelNodeParams *params);
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec);
cudaError_t cudaGraphDestroy(cudaGraph_t graph);

namespace lki_gpu
{
struct kernel_info;
}
namespace lki_sim
{
void know(const lki_gpu::kernel_info &k); /* before anything else is done with it */
} // namespace lki_sim

#endif
