/* Launches and graphs of simulated cards (runtime.h). */
#include "device/sim/runtime.h"
#include "device/cuda/launch.h"
#include "device/gpu/backend.h"
#include <algorithm>
#include <map>
#include <mutex>
#include <string.h>
#include <vector>

namespace
{

enum {
    MOST_SHARED = 227 << 10,
    UNASKED_SHARED = 48 << 10,
    MOST_THREADS = 1024,
    MOST_DEEP = 64,
    MOST_ACROSS = 65535,
    MOST_ARGUMENTS = 32764
};

/* ---- kernels ---- */

struct known {
    lki_gpu::kernel_info kernel;
    size_t               shared; /* dynamic shared memory that it is allowed */
};

std::mutex                    lock;
std::map<const void *, known> kernels;

/* Bytes of shared memory that a block may have. */
size_t most_shared()
{
    const char *text = getenv("LOCKSTEP_SIM_SHARED");
    return text && *text ? (size_t)strtoull(text, nullptr, 10) : (size_t)MOST_SHARED;
}

known find(const void *function)
{
    std::lock_guard<std::mutex> held(lock);
    const auto                  at = kernels.find(function);
    return at == kernels.end() ? known{} : at->second;
}

size_t argument_bytes(const lki_gpu::kernel_info &k)
{
    size_t bytes = 0;
    for (int i = 0; i < k.count; i++)
        bytes += k.bytes[i];
    return bytes;
}

cudaError_t check(const cudaKernelNodeParams &p)
{
    const known    k = find(p.func);
    const dim3     g = p.gridDim, b = p.blockDim;
    const uint64_t threads = (uint64_t)b.x * b.y * b.z;
    if (!k.kernel.function || argument_bytes(k.kernel) > MOST_ARGUMENTS || p.sharedMemBytes > k.shared)
        return cudaErrorInvalidValue;
    const bool fits = threads && threads <= MOST_THREADS && b.z <= MOST_DEEP && g.x && g.y && g.z && g.x <= INT32_MAX &&
                      g.y <= MOST_ACROSS && g.z <= MOST_ACROSS;
    return fits ? cudaSuccess : cudaErrorInvalidConfiguration;
}

/* ---- work ---- */

/* A kernel with its arguments. */
struct work {
    cudaKernelNodeParams params;
    std::vector<char>    room;
    std::vector<void *>  value;

    work(const cudaKernelNodeParams &p) : params(p)
    {
        const lki_gpu::kernel_info k = find(p.func).kernel;
        std::vector<size_t>        at;
        size_t                     bytes = 0;
        for (int i = 0; i < k.count; i++) {
            at.push_back(bytes);
            bytes += (k.bytes[i] + 15) / 16 * 16;
        }
        room.resize(bytes);
        for (int i = 0; i < k.count; i++) {
            memcpy(room.data() + at[(size_t)i], p.kernelParams[i], k.bytes[i]);
            value.push_back(room.data() + at[(size_t)i]);
        }
    }
    work(work &&) = default;
    work &operator=(work &&) = default;
    work(const work &other) : work(other.with_own_values()) {}

    cudaKernelNodeParams with_own_values() const
    {
        cudaKernelNodeParams p = params;
        p.kernelParams = const_cast<void **>(value.data());
        return p;
    }

    void run() const
    {
        const lki_gpu::kernel_info k = find(params.func).kernel;
        lki_sim::run(params.gridDim, params.blockDim, k.flat, [&]() { k.run(k.function, value.data()); });
    }
};

uint64_t random_word()
{
    static thread_local uint64_t turn = 1;
    turn = turn * 6364136223846793005u + 1442695040888963407u;
    return turn >> 33;
}

} // namespace

/* ---- objects ---- */

struct lki_sim_node {
    work                         what;
    std::vector<cudaGraphNode_t> after;
    size_t                       number; /* its index in the graph */
};

struct lki_sim_graph {
    std::vector<cudaGraphNode_t> nodes;
};

struct lki_sim_stream {
    cudaGraph_t                    captures; /* nullptr: it is not capturing */
    std::vector<cudaGraphNode_t>   last;
    std::vector<cudaGraphEdgeData> edges;
};

struct lki_sim_exec {
    cudaGraph_t                      of;
    std::vector<work>                work_of; /* by node; deleted nodes included */
    std::vector<std::vector<size_t>> next;    /* by node: the nodes that come after it */
    std::vector<int>                 waits;   /* by node: how many nodes it waits for */
};

/* ---- calls ---- */

void lki_sim::know(const lki_gpu::kernel_info &k)
{
    std::lock_guard<std::mutex> held(lock);
    known                      &own = kernels[k.function];
    if (own.kernel.function) return;
    own.kernel = k;
    own.shared = std::max(own.shared, (size_t)UNASKED_SHARED);
}

const char *cudaGetErrorString(cudaError_t e)
{
    switch ((int)e) {
    case ENOMEM: return "out of memory";
    case EDEADLK: return "threads of a block wait for each other for ever: a barrier or shuffle not all of them reach";
    case EFAULT: return "a kernel wrote where it must not, because it was asked to (LOCKSTEP_SIM_KERNEL)";
    case EINVAL: return "invalid argument";
    case EDOM: return "a launch of more blocks or threads than there can be";
    case ENOEXEC: return "a graph cannot be changed like this";
    case ECANCELED: return "a capture was ended by an error";
    default: return "unknown error";
    }
}

cudaError_t cudaGetLastError() { return cudaSuccess; }

cudaError_t cudaGetDeviceCount(int *count)
{
    *count = LKI_GPU_MOST_CARDS;
    return cudaSuccess;
}

namespace
{
thread_local int current;
}

cudaError_t cudaGetDevice(int *card)
{
    *card = current;
    return cudaSuccess;
}

cudaError_t cudaSetDevice(int card)
{
    current = card;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr what, int)
{
    const int values[] = {MOST_THREADS, MOST_THREADS, MOST_THREADS,       MOST_DEEP, INT32_MAX,
                          MOST_ACROSS,  MOST_ACROSS,  (int)most_shared(), 9};
    *value = values[what];
    return cudaSuccess;
}

cudaError_t cudaFuncSetAttribute(const void *function, cudaFuncAttribute, int value)
{
    std::lock_guard<std::mutex> held(lock);
    if (value < 0 || (size_t)value > most_shared()) return cudaErrorInvalidValue;
    kernels[function].shared = (size_t)value;
    return cudaSuccess;
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *about, const void *function)
{
    *about = {};
    return find(function).kernel.function ? cudaSuccess : cudaErrorInvalidValue;
}

cudaError_t cudaLaunchKernel(const void *function, dim3 grid, dim3 block, void **value, size_t shared, cudaStream_t stream)
{
    const cudaKernelNodeParams p = {(void *)(uintptr_t)function, grid, block, (unsigned)shared, value, nullptr};
    const cudaError_t          e = check(p);
    if (e != cudaSuccess) return e;
    if (!stream->captures) {
        work(p).run();
        return cudaSuccess;
    }
    cudaGraphNode_t node;
    cudaGraphAddKernelNode(&node, stream->captures, stream->last.data(), stream->last.size(), &p);
    stream->last = {node};
    stream->edges.assign(1, {});
    return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned)
{
    *stream = new lki_sim_stream{};
    return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    delete stream;
    return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, int)
{
    stream->captures = new lki_sim_graph{};
    return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph)
{
    *graph = stream->captures;
    *stream = {};
    return cudaSuccess;
}

cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus *status, void *, cudaGraph_t *graph,
                                     const cudaGraphNode_t **nodes, const cudaGraphEdgeData **edges, size_t *count)
{
    *status = stream->captures ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
    if (graph) *graph = stream->captures;
    if (nodes) *nodes = stream->last.data();
    if (edges) *edges = stream->edges.data();
    if (count) *count = stream->last.size();
    return cudaSuccess;
}

cudaError_t cudaStreamUpdateCaptureDependencies(cudaStream_t stream, cudaGraphNode_t *nodes, const cudaGraphEdgeData *edges,
                                                size_t count, unsigned)
{
    stream->last.assign(nodes, nodes + count);
    stream->edges.assign(edges, edges + count);
    return cudaSuccess;
}

cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *after, size_t count,
                                   const cudaKernelNodeParams *params)
{
    const cudaError_t e = check(*params);
    if (e != cudaSuccess) return e;
    *node = new lki_sim_node{work(*params), {after, after + count}, graph->nodes.size()};
    graph->nodes.push_back(*node);
    return cudaSuccess;
}

cudaError_t cudaGraphAddDependencies(cudaGraph_t, const cudaGraphNode_t *from, const cudaGraphNode_t *to, const cudaGraphEdgeData *,
                                     size_t count)
{
    for (size_t i = 0; i < count; i++)
        to[i]->after.push_back(from[i]);
    return cudaSuccess;
}

namespace
{

/* As many as there is room for, or how many there are; in any order. */
cudaError_t list(std::vector<cudaGraphNode_t> all, cudaGraphNode_t *nodes, size_t *count)
{
    for (size_t i = all.size(); i > 1; i--)
        std::swap(all[i - 1], all[random_word() % i]);
    if (nodes) std::copy_n(all.begin(), *count = std::min(*count, all.size()), nodes);
    else *count = all.size();
    return cudaSuccess;
}

} // namespace

cudaError_t cudaGraphGetRootNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *count)
{
    std::vector<cudaGraphNode_t> roots;
    for (cudaGraphNode_t n : graph->nodes)
        if (n->after.empty()) roots.push_back(n);
    return list(roots, nodes, count);
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long)
{
    lki_sim_exec *x = new lki_sim_exec{graph, {}, {}, {}};
    x->next.resize(graph->nodes.size());
    for (cudaGraphNode_t n : graph->nodes) {
        x->work_of.push_back(n->what);
        x->waits.push_back((int)n->after.size());
        for (cudaGraphNode_t before : n->after)
            x->next[before->number].push_back(n->number);
    }
    *exec = x;
    return cudaSuccess;
}

cudaError_t cudaGraphExecKernelNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node, const cudaKernelNodeParams *params)
{
    const std::vector<cudaGraphNode_t> &nodes = exec->of->nodes;
    const cudaError_t                   e = check(*params);
    if (e != cudaSuccess) return e;
    if (node->number >= exec->work_of.size() || nodes[node->number] != node) return cudaErrorInvalidValue;
    exec->work_of[node->number] = work(*params);
    return cudaSuccess;
}

/* Run any of the nodes that are ready: code that relies on more order than it declared gets different bits. */
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t)
{
    std::vector<int>    waits = exec->waits;
    std::vector<size_t> ready;
    for (size_t i = 0; i < waits.size(); i++)
        if (!waits[i]) ready.push_back(i);
    while (!ready.empty()) {
        std::swap(ready[random_word() % ready.size()], ready.back());
        const size_t now = ready.back();
        ready.pop_back();
        exec->work_of[now].run();
        for (size_t i : exec->next[now])
            if (!--waits[i]) ready.push_back(i);
    }
    return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec)
{
    delete exec;
    return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    for (cudaGraphNode_t n : graph->nodes)
        delete n;
    delete graph;
    return cudaSuccess;
}
