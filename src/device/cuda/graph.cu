/* Graphs are captured on one stream. They are launched as captured, or with other arguments of some kernels.
 *
 * Invariants
 *  1. Every launch of a capture is also recorded here, under its call and its index in the call, with its node and all its
 *     arguments. Nothing is read back from a graph, and nodes are not identified by their order in it, which CUDA does not
 *     guarantee.
 *  2. A variant records some calls again, with other addresses; nothing is launched. Each call must make the same launches as
 *     before and may differ in arguments only; otherwise the variant is an error.
 *  3. Arguments are set in the instantiated graph. Earlier launches keep theirs, and no thread waits.
 *  4. A graph can have two instances: one as it was captured, and one that is fed, which begins with a gather that all other nodes
 *     come after (feed.h). Each instance has the arguments of its own last launch. */
#include "device/cuda/feed.h"
#include "device/cuda/graph.h"
#include "device/cuda/physical.h"
#include <algorithm>
#include <string.h>
#include <vector>

namespace
{

/* ---- launches that are kept ---- */

struct kept {
    lki_gpu::kernel_launch launch;
    std::vector<char>      room; /* memory for its arguments */
    std::vector<void *>    value;

    explicit kept(const lki_gpu::kernel_launch &l) : launch(l), room(0), value((size_t)l.what.count)
    {
        size_t bytes = 0;
        for (int i = 0; i < l.what.count; i++)
            bytes += l.what.bytes[i];
        room.resize(bytes);
        char *at = room.data();
        for (int i = 0; i < l.what.count; i++) {
            memcpy(at, l.value[i], l.what.bytes[i]);
            value[(size_t)i] = at;
            at += l.what.bytes[i];
        }
    }
    kept(kept &&) = default;
    kept(const kept &) = delete;

    cudaKernelNodeParams params() const
    {
        cudaKernelNodeParams p = {};
        p.func = (void *)(uintptr_t)launch.what.function;
        p.gridDim = launch.grid;
        p.blockDim = launch.block;
        p.sharedMemBytes = (unsigned)launch.shared;
        p.kernelParams = const_cast<void **>(value.data());
        return p;
    }

    /* Equal in everything except arguments. */
    bool is_like(const lki_gpu::kernel_launch &l) const
    {
        const lki_gpu::kernel_launch &o = launch;
        return o.what.function == l.what.function && o.grid.x == l.grid.x && o.grid.y == l.grid.y && o.grid.z == l.grid.z &&
               o.block.x == l.block.x && o.block.y == l.block.y && o.block.z == l.block.z && o.shared == l.shared;
    }
};

struct node {
    cudaGraphNode_t handle;
    kept            as;
};

struct change {
    const node *of;
    kept        to;
};

/* ---- graphs ---- */

/* One stream captures everything. Before each call the stream is set to the nodes that the call's work comes after; after the call
 * the nodes its work ended in are recorded, for later calls that come after it. A call that launches nothing ends in the nodes it
 * came after. */
struct ending {
    std::vector<cudaGraphNode_t>   node;
    std::vector<cudaGraphEdgeData> edge; /* of an edge that begins at that node */
};

typedef std::vector<std::vector<node>> calls; /* the launches of each call, in order */

struct capture {
    cudaStream_t        stream;
    std::vector<ending> ends; /* by call */
    calls               made;
};

struct runnable {
    cudaGraphExec_t       run;   /* nullptr: there is none */
    const struct variant *now;   /* the variant whose arguments it has; nullptr: those it was captured with */
    bool                  mixed; /* a failure left it with arguments of two variants: it is not used again */
};

/* A capture that became a graph, and the instances that are launched. */
struct captured {
    cudaGraph_t           plan;
    calls                 made;
    runnable              alone, fed;
    cudaGraphNode_t       feeder; /* the first node of `fed` */
    bool                  unfed;  /* it cannot have a fed instance */
    const struct variant *wanted; /* for the next launch */
    std::vector<change>   copies; /* from recopy(); empty: as it was captured */
};

struct variant {
    const captured     *of;
    int                 call; /* the call that is being recorded again; -1: none */
    size_t              next; /* the index of its next launch */
    bool                all;  /* also apply launches whose arguments are those of the capture */
    int                 code; /* the first error */
    std::vector<change> changes;
};

/* The capture or variant that records launches on this stream. */
struct noting {
    void    *stream;
    capture *first;
    variant *again; /* then `stream` is its address, and nothing is launched */
};
thread_local noting now;

} // namespace

/* ---- noting ---- */

int lki_cuda_noted(void *stream, const lki_gpu::kernel_launch &l)
{
    cudaStreamCaptureStatus status;
    const cudaGraphNode_t  *last = nullptr;
    size_t                  count = 0;
    if (!now.first || stream != now.stream) return 0;
    TRY_OF(cudaStreamGetCaptureInfo(now.first->stream, &status, nullptr, nullptr, &last, nullptr, &count), l.what.name);
    if (status != cudaStreamCaptureStatusActive || count != 1)
        return lki_cuda_refuse(cudaErrorStreamCaptureInvalidated, "a capture has no node of its last launch");
    now.first->made.back().push_back(node{last[0], kept(l)});
    return 0;
}

bool lki_cuda_noted_again(void *stream, const lki_gpu::kernel_launch &l)
{
    variant *v = now.again;
    if (!v || stream != now.stream) return false;
    const std::vector<node> &made = v->of->made[(size_t)v->call];
    if (v->next == made.size() || !made[v->next].as.is_like(l)) {
        if (!v->code)
            v->code = lki_cuda_refuse(cudaErrorGraphExecUpdateFailure, "a call launches other kernels on other addresses");
        return true;
    }
    const node *of = &made[v->next++];
    change      c = {of, kept(l)};
    if (v->all || c.to.room != of->as.room) v->changes.push_back(std::move(c));
    return true;
}

namespace
{

int note_ending(capture *c)
{
    cudaStreamCaptureStatus  status;
    const cudaGraphNode_t   *node = nullptr;
    const cudaGraphEdgeData *edge = nullptr;
    size_t                   count = 0;
    if (c->ends.empty()) return 0;
    TRY(cudaStreamGetCaptureInfo(c->stream, &status, nullptr, nullptr, &node, &edge, &count));
    if (status != cudaStreamCaptureStatusActive) return lki_cuda_refuse(cudaErrorStreamCaptureInvalidated, "a capture");
    ending *e = &c->ends.back();
    e->node.assign(node, node + count);
    e->edge.assign(count, cudaGraphEdgeData{});
    if (edge) e->edge.assign(edge, edge + count);
    return 0;
}

void note_again(variant *v, int call)
{
    v->call = call;
    v->next = 0;
    now = noting{v, nullptr, v};
}

/* The call that was recorded again has made all its launches. */
int end_again(variant *v)
{
    now = noting{};
    if (!v->code && v->call >= 0 && v->next != v->of->made[(size_t)v->call].size())
        v->code = lki_cuda_refuse(cudaErrorGraphExecUpdateFailure, "a call launches fewer kernels on other addresses");
    v->call = -1;
    return v->code;
}

} // namespace

/* ---- capturing ---- */

int lki_cuda_capture_begin(int card, void **out)
{
    cudaStream_t s;
    TRY(cudaSetDevice(lki_cuda_physical(card)));
    TRY(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    const int code = lki_cuda_note(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture", nullptr);
    if (code) cudaStreamDestroy(s);
    else *out = new capture{s, {}, {}};
    return code;
}

int lki_cuda_capture_call(int card, void *noted, int count, const int *after, void **stream)
{
    capture *c = (capture *)noted;
    ending   all;
    TRY(cudaSetDevice(lki_cuda_physical(card)));
    const int code = note_ending(c);
    if (code) return code;
    for (int i = 0; i < count; i++) {
        if (after[i] < 0 || (size_t)after[i] >= c->ends.size())
            return lki_cuda_refuse(cudaErrorInvalidValue, "a call that comes after one not yet captured");
        const ending *e = &c->ends[(size_t)after[i]];
        for (size_t k = 0; k < e->node.size(); k++) {
            if (std::find(all.node.begin(), all.node.end(), e->node[k]) != all.node.end()) continue;
            all.node.push_back(e->node[k]);
            all.edge.push_back(e->edge[k]);
        }
    }
    TRY(cudaStreamUpdateCaptureDependencies(c->stream, all.node.data(), all.edge.data(), all.node.size(),
                                            cudaStreamSetCaptureDependencies));
    c->ends.emplace_back();
    c->made.emplace_back();
    *stream = c->stream;
    now = noting{c->stream, c, nullptr};
    return 0;
}

int lki_cuda_capture_end(int card, void *noted, void **out)
{
    capture  *c = (capture *)noted;
    captured *g = new captured{};
    now = noting{};
    int code = lki_cuda_note(cudaSetDevice(lki_cuda_physical(card)), "cudaSetDevice", nullptr);
    if (!code) code = note_ending(c);
    g->made = std::move(c->made);
    const int ended = lki_cuda_note(cudaStreamEndCapture(c->stream, &g->plan), "cudaStreamEndCapture", nullptr);
    cudaStreamDestroy(c->stream);
    delete c;
    if (!code) code = ended;
    if (!code) code = lki_cuda_note(cudaGraphInstantiate(&g->alone.run, g->plan, 0), "cudaGraphInstantiate", nullptr);
    if (!code) *out = g;
    else lki_cuda_release_graph(g);
    return code;
}

int lki_cuda_variant_begin(int, void *graph, void **out)
{
    *out = new variant{(const captured *)graph, -1, 0, false, 0, {}};
    return 0;
}

int lki_cuda_variant_call(int card, void *variant_, int call, void **stream)
{
    variant *v = (variant *)variant_;
    TRY(cudaSetDevice(lki_cuda_physical(card)));
    const int code = end_again(v);
    if (code) return code;
    note_again(v, call);
    *stream = v;
    return 0;
}

int lki_cuda_variant_end(int, void *variant_) { return end_again((variant *)variant_); }

int lki_cuda_vary(int, void *graph, void *variant_)
{
    ((captured *)graph)->wanted = (const variant *)variant_;
    return 0;
}

int lki_cuda_recopy(int, void *graph, int call, int count, const lki_gpu_piece *pieces)
{
    captured *g = (captured *)graph;
    variant   v = {g, -1, 0, true, 0, std::move(g->copies)}; /* all: an earlier launch may have set others */
    v.changes.clear();
    note_again(&v, call);
    lki_cuda_kernels->copy(&v, count, pieces);
    const int code = end_again(&v);
    g->copies = std::move(v.changes);
    return code;
}

namespace
{

/* ---- launching ---- */

int set(const runnable *r, const node *n, const kept &to)
{
    const cudaKernelNodeParams p = to.params();
    TRY_OF(cudaGraphExecKernelNodeSetParams(r->run, n->handle, &p), to.launch.what.name);
    return 0;
}

bool changes(const variant *v, const node *n)
{
    for (size_t i = 0; v && i < v->changes.size(); i++)
        if (v->changes[i].of == n) return true;
    return false;
}

/* Set the arguments of the variant for the next launch. */
int change_variant(const captured *g, runnable *r)
{
    const variant *v = g->wanted;
    int            code = 0;
    if (r->mixed) return lki_cuda_refuse(cudaErrorGraphExecUpdateFailure, "the graph could not be changed before");
    if (r->now == v) return 0;
    for (size_t i = 0; r->now && i < r->now->changes.size() && !code; i++)
        if (!changes(v, r->now->changes[i].of)) code = set(r, r->now->changes[i].of, r->now->changes[i].of->as);
    for (size_t i = 0; v && i < v->changes.size() && !code; i++)
        code = set(r, v->changes[i].of, v->changes[i].to);
    r->mixed = code != 0;
    if (!code) r->now = v;
    return code;
}

int launch_as(captured *g, runnable *r, void *stream)
{
    int code = change_variant(g, r);
    for (size_t i = 0; i < g->copies.size() && !code; i++)
        code = set(r, g->copies[i].of, g->copies[i].to);
    if (code) return code;
    TRY(cudaGraphLaunch(r->run, (cudaStream_t)stream));
    return 0;
}

/* A second instance of the same graph, with a gather before all other nodes. The first instance is not affected by nodes that are
 * added to the graph. */
int make_fed(captured *g, lki_cuda_gather *gather)
{
    void                        *argument;
    const cudaKernelNodeParams   p = lki_cuda_gather_node(gather, &argument);
    size_t                       count = 0;
    std::vector<cudaGraphNode_t> roots, from;
    TRY(cudaGraphGetRootNodes(g->plan, nullptr, &count));
    roots.resize(count);
    TRY(cudaGraphGetRootNodes(g->plan, roots.data(), &count));
    TRY_OF(cudaGraphAddKernelNode(&g->feeder, g->plan, nullptr, 0, &p), gather->what.name);
    from.assign(count, g->feeder);
    TRY(cudaGraphAddDependencies(g->plan, from.data(), roots.data(), nullptr, count));
    TRY(cudaGraphInstantiate(&g->fed.run, g->plan, 0));
    return 0;
}

/* Returns true if the graph can begin with this gather. */
bool feed(captured *g, lki_cuda_gather *gather)
{
    void                      *argument;
    const cudaKernelNodeParams p = lki_cuda_gather_node(gather, &argument);
    if (!g->unfed && !g->fed.run) g->unfed = make_fed(g, gather) != 0;
    if (!g->unfed) g->unfed = cudaGraphExecKernelNodeSetParams(g->fed.run, g->feeder, &p) != cudaSuccess;
    if (g->unfed) cudaGetLastError();
    return !g->unfed;
}

/* Launch the graph with the gather as its first node or, where that is not possible, launch the gather alone first. */
int launch_fed(captured *g, lki_cuda_feed_held *held, void *stream)
{
    if (feed(g, held->gather) && !launch_as(g, &g->fed, stream)) return held->launched(), 0;
    g->unfed = true;
    const int code = lki_cuda_gather_launch(stream, held->gather);
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

/* ---- releasing ---- */

int lki_cuda_release_graph(void *graph)
{
    captured *g = (captured *)graph;
    int       code = 0, next;
    if (g->alone.run) code = lki_cuda_note(cudaGraphExecDestroy(g->alone.run), "cudaGraphExecDestroy", nullptr);
    if (g->fed.run && (next = lki_cuda_note(cudaGraphExecDestroy(g->fed.run), "cudaGraphExecDestroy", nullptr))) code = next;
    if (g->plan && (next = lki_cuda_note(cudaGraphDestroy(g->plan), "cudaGraphDestroy", nullptr))) code = next;
    delete g;
    return code;
}

int lki_cuda_release_variant(void *variant_)
{
    variant *v = (variant *)variant_;
    if (now.again == v) now = noting{};
    delete v;
    return 0;
}
