/* Graphs are captured by one stream; they are launched as they are, or with other arguments of some kernels.
 *
 * Invariants
 * 1. Arguments are set in the instantiated graph: launches before keep theirs, and nobody waits.
 * 2. A variant is a second capture of the same calls: the same nodes, in the order they were made, with the same functions, on other addresses. It keeps those kernels whose arguments
 *    differ; where anything else does, there is no variant.
 * 3. Of a graph there may be two that run: as it was captured, and fed, with a gather that all others come after (cuda_feed.h). Each has the arguments of its own last launch. */
#include "kernel/gpu/cuda_feed.h"
#include "kernel/gpu/cuda_graph.h"
#include "kernel/gpu/gpu.h"
#include "kernel/gpu/physical.h"
#include <algorithm>
#include <string.h>
#include <vector>

namespace
{

/* One stream captures everything; before each call it is told what the call's work comes after, and behind it what that work ended in is noted: the nodes later calls
 * come after. A call that launches nothing ends in what it came after. */
struct ending {
    std::vector<cudaGraphNode_t>   node;
    std::vector<cudaGraphEdgeData> edge; /* of one that begins there */
};

struct runnable {
    cudaGraphExec_t       run;   /* nullptr: there is none */
    const struct variant *now;   /* whose arguments it has; nullptr: its own */
    bool                  mixed; /* a failure left it with arguments of both: it is of no use any more */
};

/* Work of a capture that became a graph, and what it is launched as. */
struct captured {
    cudaGraph_t                  plan;
    std::vector<cudaGraphNode_t> nodes, last; /* in the order they were made; by call: the node it ended in */
    runnable                     alone, fed;
    cudaGraphNode_t              feeder; /* the first node of `fed` */
    bool                         unfed;  /* it cannot be fed */
    const struct variant        *wanted; /* by the next launch */
    int                          copier; /* the call that copies */
    cudaKernelNodeParams         copies; /* its kernel; without a function: nobody asked yet */
    std::vector<lki_gpu_piece>   pieces; /* these; none: as it was captured */
};

struct change {
    cudaGraphNode_t      node; /* of the captured graph */
    cudaKernelNodeParams from, to;
};

struct variant {
    cudaGraph_t         plan; /* the arguments lie there */
    std::vector<change> changes;
};

struct capture {
    cudaStream_t        stream;
    std::vector<ending> calls;
};

int note_ending(capture *c)
{
    cudaStreamCaptureStatus  status;
    const cudaGraphNode_t   *node = nullptr;
    const cudaGraphEdgeData *edge = nullptr;
    size_t                   count = 0;
    if (c->calls.empty()) return 0;
    TRY(cudaStreamGetCaptureInfo(c->stream, &status, nullptr, nullptr, &node, &edge, &count));
    if (status != cudaStreamCaptureStatusActive) return cudaErrorStreamCaptureInvalidated;
    ending *e = &c->calls.back();
    e->node.assign(node, node + count);
    e->edge.assign(count, cudaGraphEdgeData{});
    if (edge) e->edge.assign(edge, edge + count);
    return 0;
}

} // namespace

int lki_cuda_capture_begin(int card, void **out)
{
    cudaStream_t s;
    TRY(cudaSetDevice(lki_cuda_physical(card)));
    TRY(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    const cudaError_t e = cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal);
    if (e != cudaSuccess) cudaStreamDestroy(s);
    TRY(e);
    *out = new capture{s, {}};
    return 0;
}

int lki_cuda_capture_call(int card, void *noted, int count, const int *after, void **stream)
{
    capture *c = (capture *)noted;
    ending   all;
    TRY(cudaSetDevice(lki_cuda_physical(card)));
    const int code = note_ending(c);
    if (code) return code;
    for (int i = 0; i < count; i++) {
        const ending *e = &c->calls[after[i]];
        for (size_t k = 0; k < e->node.size(); k++) {
            if (std::find(all.node.begin(), all.node.end(), e->node[k]) != all.node.end()) continue;
            all.node.push_back(e->node[k]);
            all.edge.push_back(e->edge[k]);
        }
    }
    TRY(cudaStreamUpdateCaptureDependencies(c->stream, all.node.data(), all.edge.data(), all.node.size(),
                                            cudaStreamSetCaptureDependencies));
    c->calls.emplace_back();
    *stream = c->stream;
    return 0;
}

namespace
{

int nodes_of(cudaGraph_t plan, std::vector<cudaGraphNode_t> *out)
{
    size_t count = 0;
    TRY(cudaGraphGetNodes(plan, nullptr, &count));
    out->resize(count);
    TRY(cudaGraphGetNodes(plan, out->data(), &count));
    return 0;
}

int end_capture(capture *c, cudaGraph_t *plan)
{
    const cudaError_t e = cudaStreamEndCapture(c->stream, plan);
    cudaStreamDestroy(c->stream);
    delete c;
    TRY(e);
    return 0;
}

/* 1: arguments differ, 0: they do not, -1: these are different kernels. */
int compare(const cudaKernelNodeParams &a, const cudaKernelNodeParams &b)
{
    size_t offset, bytes;
    if (a.func != b.func || memcmp(&a.gridDim, &b.gridDim, sizeof a.gridDim) ||
        memcmp(&a.blockDim, &b.blockDim, sizeof a.blockDim) || a.sharedMemBytes != b.sharedMemBytes || !a.kernelParams ||
        !b.kernelParams)
        return -1;
    size_t i = 0;
    for (; cudaFuncGetParamInfo(a.func, i, &offset, &bytes) == cudaSuccess; i++)
        if (memcmp(a.kernelParams[i], b.kernelParams[i], bytes)) return cudaGetLastError(), 1;
    return cudaGetLastError(), i ? 0 : -1; /* the error is that of the argument behind the last; each of our kernels has one */
}

/* What is no kernel reads and writes scratch alone, or there is no variant. */
int find_changes(const captured *g, variant *v)
{
    std::vector<cudaGraphNode_t> nodes;
    const int                    code = nodes_of(v->plan, &nodes);
    if (code) return code;
    if (nodes.size() != g->nodes.size()) return cudaErrorGraphExecUpdateFailure;
    for (size_t i = 0; i < nodes.size(); i++) {
        cudaGraphNodeType    a, b;
        cudaKernelNodeParams from, to;
        TRY(cudaGraphNodeGetType(g->nodes[i], &a));
        TRY(cudaGraphNodeGetType(nodes[i], &b));
        if (a != b || (a != cudaGraphNodeTypeKernel && a != cudaGraphNodeTypeMemset)) return cudaErrorGraphExecUpdateFailure;
        if (a != cudaGraphNodeTypeKernel) continue;
        TRY(cudaGraphKernelNodeGetParams(g->nodes[i], &from));
        TRY(cudaGraphKernelNodeGetParams(nodes[i], &to));
        const int differ = compare(from, to);
        if (differ < 0) return cudaErrorGraphExecUpdateFailure;
        if (differ) v->changes.push_back(change{g->nodes[i], from, to});
    }
    return 0;
}

bool changes(const variant *v, cudaGraphNode_t node)
{
    for (size_t i = 0; v && i < v->changes.size(); i++)
        if (v->changes[i].node == node) return true;
    return false;
}

} // namespace

int lki_cuda_capture_end(int card, void *noted, void **out)
{
    capture  *c = (capture *)noted;
    captured *g = new captured{};
    cudaSetDevice(lki_cuda_physical(card));
    int code = note_ending(c);
    for (const ending &e : c->calls)
        g->last.push_back(e.node.size() == 1 ? e.node[0] : nullptr);
    const int ended = end_capture(c, &g->plan);
    if (!code) code = ended;
    if (!code) code = nodes_of(g->plan, &g->nodes);
    if (!code) code = (int)cudaGraphInstantiate(&g->alone.run, g->plan, 0);
    if (!code) *out = g;
    else {
        cudaGetLastError();
        lki_cuda_release_graph(g);
    }
    return code;
}

int lki_cuda_capture_variant(int card, void *noted, void *graph, void **out)
{
    variant *v = new variant{};
    cudaSetDevice(lki_cuda_physical(card));
    int code = end_capture((capture *)noted, &v->plan);
    if (!code) code = find_changes((const captured *)graph, v);
    if (!code && v->changes.empty()) code = cudaErrorGraphExecUpdateFailure; /* addresses differ, and nobody reads them? */
    if (code) lki_cuda_release_variant(v);
    else *out = v;
    return code;
}

int lki_cuda_vary(int, void *graph, void *variant_)
{
    ((captured *)graph)->wanted = (const variant *)variant_;
    return 0;
}

int lki_cuda_recopy(int, void *graph, int call, int count, const lki_gpu_piece *pieces)
{
    captured *g = (captured *)graph;
    if (!g->last[(size_t)call]) return cudaErrorInvalidValue;
    if (g->copier != call) g->copies = cudaKernelNodeParams{};
    g->copier = call;
    g->pieces.assign(pieces, pieces + count);
    return 0;
}

namespace
{

/* To the arguments of the variant that is wanted. */
int change_variant(const captured *g, runnable *r)
{
    const variant *v = g->wanted;
    if (r->mixed) return cudaErrorGraphExecUpdateFailure;
    if (r->now == v) return 0;
    r->mixed = true;
    for (size_t i = 0; r->now && i < r->now->changes.size(); i++)
        if (!changes(v, r->now->changes[i].node))
            TRY(cudaGraphExecKernelNodeSetParams(r->run, r->now->changes[i].node, &r->now->changes[i].from));
    for (size_t i = 0; v && i < v->changes.size(); i++)
        TRY(cudaGraphExecKernelNodeSetParams(r->run, v->changes[i].node, &v->changes[i].to));
    r->now = v;
    r->mixed = false;
    return 0;
}

int change_copies(captured *g, runnable *r)
{
    if (g->pieces.empty()) return 0;
    if (!g->copies.func) TRY(cudaGraphKernelNodeGetParams(g->last[(size_t)g->copier], &g->copies));
    lki_gpu::pieces_argument argument((int)g->pieces.size(), g->pieces.data());
    void                    *arguments[] = {&argument};
    cudaKernelNodeParams     k = g->copies;
    k.kernelParams = arguments;
    TRY(cudaGraphExecKernelNodeSetParams(r->run, g->last[(size_t)g->copier], &k));
    return 0;
}

/* The same graph once more, with a gather before everything. The one that runs alone does not notice what is added to its plan. */
int make_fed(captured *g, lki_cuda_gather *gather)
{
    void                        *argument;
    const cudaKernelNodeParams   node = lki_cuda_gather_node(gather, &argument);
    size_t                       count = 0;
    std::vector<cudaGraphNode_t> roots, from;
    TRY(cudaGraphGetRootNodes(g->plan, nullptr, &count));
    roots.resize(count);
    TRY(cudaGraphGetRootNodes(g->plan, roots.data(), &count));
    TRY(cudaGraphAddKernelNode(&g->feeder, g->plan, nullptr, 0, &node));
    from.assign(count, g->feeder);
    TRY(cudaGraphAddDependencies(g->plan, from.data(), roots.data(), nullptr, count));
    TRY(cudaGraphInstantiate(&g->fed.run, g->plan, 0));
    return 0;
}

/* Can the graph begin with this gather? */
bool feed(captured *g, lki_cuda_gather *gather)
{
    void                      *argument;
    const cudaKernelNodeParams node = lki_cuda_gather_node(gather, &argument);
    if (!g->unfed && !g->fed.run) g->unfed = make_fed(g, gather) != 0;
    if (!g->unfed) g->unfed = cudaGraphExecKernelNodeSetParams(g->fed.run, g->feeder, &node) != cudaSuccess;
    if (g->unfed) cudaGetLastError();
    return !g->unfed;
}

int launch_as(captured *g, runnable *r, void *stream)
{
    int code = change_variant(g, r);
    if (!code) code = change_copies(g, r);
    if (code) return code;
    TRY(cudaGraphLaunch(r->run, (cudaStream_t)stream));
    return 0;
}

/* The gather before everything, in the graph or, where that cannot be, by itself. */
int launch_fed(captured *g, lki_cuda_feed_held *held, void *stream)
{
    int code = feed(g, held->gather) ? launch_as(g, &g->fed, stream) : (int)cudaErrorGraphExecUpdateFailure;
    if (!code) return held->launched(), 0;
    g->unfed = true;
    code = lki_cuda_gather_launch(stream, held->gather);
    if (code) return code;
    held->launched();
    return launch_as(g, &g->alone, stream);
}

} // namespace

int lki_cuda_launch(int card, void *stream, void *graph)
{
    captured          *g = (captured *)graph;
    lki_cuda_feed_held held(card);
    TRY(cudaSetDevice(lki_cuda_physical(card)));
    return held.gather ? launch_fed(g, &held, stream) : launch_as(g, &g->alone, stream);
}

int lki_cuda_release_graph(void *graph)
{
    captured *g = (captured *)graph;
    if (g->alone.run) cudaGraphExecDestroy(g->alone.run);
    if (g->fed.run) cudaGraphExecDestroy(g->fed.run);
    if (g->plan) cudaGraphDestroy(g->plan);
    delete g;
    TRY(cudaGetLastError());
    return 0;
}

int lki_cuda_release_variant(void *variant_)
{
    variant *v = (variant *)variant_;
    if (v->plan) cudaGraphDestroy(v->plan);
    delete v;
    TRY(cudaGetLastError());
    return 0;
}
