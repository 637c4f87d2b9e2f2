/* Links between CUDA cards: by NCCL, by copies from card to card, or by copies through the host.
 *
 * Invariants
 *  1. NCCL is never linked: its library, LOCKSTEP_NCCL or libnccl.so.2, is opened at the first use. The declarations used here are
 *     repeated from its header, for version 2.17 and later.
 *  2. Communicators do not block: after each group their state is polled until the work is on the streams, or until a deadline.
 *     After any error all ranks are aborted together.
 *  3. The card that receives bytes copies them, after an event that says that the source is written. A stream continues only after
 *     all cards have copied what it sent.
 *  4. What is begun beside the cards' work is on separate streams of the links, which wait for the cards' streams first; the cards'
 *     streams wait for them after the next exchange. Through the host nothing runs beside: there is one staging area for all bytes
 *     of an exchange. */
#include "device/cuda/physical.h"
#include "device/gpu/links.h"
#include <chrono>
#include <cuda_runtime.h>
#include <dlfcn.h>
#include <mutex>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <thread>
#include <vector>

namespace
{

/* ---- NCCL's header ---- */

extern "C" {
typedef struct ncclComm *ncclComm_t;
struct ncclUniqueId {
    char internal[128];
};
typedef int ncclResult_t; /* an enum there: 0 success, 7 in progress */
enum { NCCL_SUCCESS = 0, NCCL_IN_PROGRESS = 7, NCCL_UNDEFINED = INT32_MIN, NCCL_VERSION_NEEDED = 21700 };
struct ncclConfig_t { /* of 2.17: later libraries read its size and version */
    size_t       size;
    unsigned int magic, version;
    int          blocking, cgaClusterSize, minCTAs, maxCTAs;
    const char  *netName;
};
typedef int ncclDataType_t, ncclRedOp_t; /* enums there */
enum { NCCL_UINT8 = 1, NCCL_FLOAT32 = 7, NCCL_FLOAT64 = 8, NCCL_SUM = 0 };
}

struct nccl {
    char why[LKI_LINKS_WHY]; /* "NCCL 2.27.3", or why there is none */
    bool found;
    ncclResult_t (*GetVersion)(int *);
    ncclResult_t (*GetUniqueId)(ncclUniqueId *);
    ncclResult_t (*CommInitRankConfig)(ncclComm_t *, int, ncclUniqueId, int, ncclConfig_t *);
    ncclResult_t (*CommAbort)(ncclComm_t);
    ncclResult_t (*CommGetAsyncError)(ncclComm_t, ncclResult_t *);
    const char *(*GetErrorString)(ncclResult_t);
    const char *(*GetLastError)(ncclComm_t);
    ncclResult_t (*GroupStart)(void);
    ncclResult_t (*GroupEnd)(void);
    ncclResult_t (*AllGather)(const void *, void *, size_t, ncclDataType_t, ncclComm_t, cudaStream_t);
    ncclResult_t (*AllReduce)(const void *, void *, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t, cudaStream_t);
    ncclResult_t (*Send)(const void *, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t);
    ncclResult_t (*Recv)(void *, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t);
} library;

void find_library()
{
    nccl       *n = &library;
    const char *chosen = getenv("LOCKSTEP_NCCL"), *name = chosen && *chosen ? chosen : "libnccl.so.2";
    int         version = 0;
    void       *object = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!object) {
        snprintf(n->why, sizeof n->why, "%.80s was not found (LOCKSTEP_NCCL names its file)", name);
        return;
    }
    const struct {
        const char *name;
        void       *into;
    } functions[] = {
        {"ncclGetVersion", &n->GetVersion},
        {"ncclGetUniqueId", &n->GetUniqueId},
        {"ncclCommInitRankConfig", &n->CommInitRankConfig},
        {"ncclCommAbort", &n->CommAbort},
        {"ncclCommGetAsyncError", &n->CommGetAsyncError},
        {"ncclGetErrorString", &n->GetErrorString},
        {"ncclGetLastError", &n->GetLastError},
        {"ncclGroupStart", &n->GroupStart},
        {"ncclGroupEnd", &n->GroupEnd},
        {"ncclAllGather", &n->AllGather},
        {"ncclAllReduce", &n->AllReduce},
        {"ncclSend", &n->Send},
        {"ncclRecv", &n->Recv},
    };
    for (const auto &f : functions) {
        void *fn = dlsym(object, f.name);
        if (!fn) {
            snprintf(n->why, sizeof n->why, "%.80s has no %s: a version before 2.17", name, f.name);
            return;
        }
        memcpy(f.into, &fn, sizeof fn);
    }
    if (n->GetVersion(&version) != NCCL_SUCCESS || version < NCCL_VERSION_NEEDED) {
        snprintf(n->why, sizeof n->why, "%.80s is version %d.%d; 2.17 or later is needed", name, version / 10000,
                 version / 100 % 100);
        return;
    }
    n->found = true;
    snprintf(n->why, sizeof n->why, "NCCL %d.%d.%d", version / 10000, version / 100 % 100, version % 100);
}

const nccl *nccl_here()
{
    static std::once_flag once;
    std::call_once(once, find_library);
    return &library;
}

/* ---- links ---- */

struct staging { /* pinned memory of the host; all bytes of an exchange pass through it */
    char  *mem;
    size_t bytes;
};

struct links {
    lki_gpu_way               way;
    std::vector<int>          card;          /* CUDA's numbers: in tests some may be equal */
    std::vector<cudaStream_t> stream, own;   /* own: for work beside the cards' work; made at first use */
    std::vector<cudaEvent_t>  ready, done;   /* by card: its source is written; it has copied what it receives */
    std::vector<cudaEvent_t>  turn;          /* by card: recorded on the stream that others wait for, between the cards' streams and
                                              * `own` */
    bool                      begun = false; /* there is work on `own` that the cards' streams do not wait for yet */
    std::vector<ncclComm_t>   comm;
    staging                   host = {};
    double                    seconds;
    int                       failed = 0; /* a result of NCCL */

    int count() const { return (int)card.size(); }
};

typedef std::chrono::steady_clock clock;

/* Distinguishes codes of NCCL from those of CUDA. */
enum { OF_NCCL = 1 << 20 };

/* Poll until no communicator is working on the host any more: then its work is on its stream. */
int settle(links *l)
{
    const clock::time_point until = clock::now() + std::chrono::microseconds((int64_t)(l->seconds * 1e6));
    for (;;) {
        bool busy = false;
        for (size_t i = 0; i < l->comm.size(); i++) {
            ncclComm_t   c = __atomic_load_n(&l->comm[i], __ATOMIC_ACQUIRE); /* written by a thread of NCCL while it starts */
            ncclResult_t state = NCCL_IN_PROGRESS;
            ncclResult_t asked = c ? library.CommGetAsyncError(c, &state) : NCCL_SUCCESS;
            if (asked != NCCL_SUCCESS) state = asked;
            if (state != NCCL_SUCCESS && state != NCCL_IN_PROGRESS) return OF_NCCL | (l->failed = state);
            busy = busy || state == NCCL_IN_PROGRESS;
        }
        if (!busy) return 0;
        if (clock::now() > until) return OF_NCCL | (l->failed = NCCL_IN_PROGRESS);
        std::this_thread::yield();
    }
}

/* The result of a call on communicators that do not block. */
int fine(links *l, ncclResult_t result)
{
    if (result == NCCL_SUCCESS || result == NCCL_IN_PROGRESS) return 0;
    return OF_NCCL | (l->failed = result);
}

void abort_all(links *l)
{
    for (ncclComm_t c : l->comm)
        if (c) library.CommAbort(c);
    l->comm.clear();
}

int open_nccl(links *l, char *why)
{
    const nccl  *n = nccl_here();
    ncclUniqueId id;
    int          code;
    if (!n->found) {
        snprintf(why, LKI_LINKS_WHY, "%.190s", n->why);
        return OF_NCCL;
    }
    for (int i = 1; i < l->count(); i++)
        if (l->card[i] == l->card[0]) {
            snprintf(why, LKI_LINKS_WHY, "several of the cards are one");
            return OF_NCCL;
        }
    l->comm.assign(l->card.size(), nullptr); /* does not move after this */
    code = fine(l, n->GetUniqueId(&id));
    if (!code) code = fine(l, n->GroupStart());
    for (int i = 0; i < l->count() && !code; i++) {
        ncclConfig_t config = {sizeof config,  0xcafebeef,     NCCL_VERSION_NEEDED, 0 /* blocking */,
                               NCCL_UNDEFINED, NCCL_UNDEFINED, NCCL_UNDEFINED,      nullptr};
        code = lki_cuda_note(cudaSetDevice(l->card[i]), "cudaSetDevice", nullptr);
        if (!code) code = fine(l, n->CommInitRankConfig(&l->comm[(size_t)i], l->count(), id, i, &config));
    }
    const int ended = fine(l, n->GroupEnd());
    if (!code) code = ended;
    if (!code) code = settle(l);
    if (code)
        snprintf(why, LKI_LINKS_WHY, "%.30s could not connect the cards: %.120s", n->why,
                 !(code & OF_NCCL)               ? lki_cuda_text(code)
                 : l->failed == NCCL_IN_PROGRESS ? "it did not come to an end in time"
                                                 : n->GetErrorString(l->failed));
    if (code) abort_all(l);
    return code;
}

int open_peer(links *l, char *why)
{
    for (int to : l->card)
        for (int from : l->card) {
            int can = 0;
            if (to == from) continue;
            TRY(cudaDeviceCanAccessPeer(&can, to, from));
            if (!can) {
                snprintf(why, LKI_LINKS_WHY, "card %d cannot reach the memory of card %d", to, from);
                return (int)cudaErrorPeerAccessUnsupported;
            }
            TRY(cudaSetDevice(to));
            const cudaError_t e = cudaDeviceEnablePeerAccess(from, 0);
            if (e == cudaErrorPeerAccessAlreadyEnabled) cudaGetLastError();
            else if (e != cudaSuccess) return lki_cuda_note(e, "cudaDeviceEnablePeerAccess", nullptr);
        }
    return 0;
}

int make_events(links *l)
{
    for (int i = 0; i < l->count(); i++) {
        cudaEvent_t ready, done;
        TRY(cudaSetDevice(l->card[i]));
        TRY(cudaEventCreateWithFlags(&ready, cudaEventDisableTiming));
        l->ready.push_back(ready);
        TRY(cudaEventCreateWithFlags(&done, cudaEventDisableTiming));
        l->done.push_back(done);
    }
    return 0;
}

int make_own_streams(links *l)
{
    for (int i = (int)l->own.size(); i < l->count(); i++) {
        cudaStream_t stream;
        cudaEvent_t  turn;
        TRY(cudaSetDevice(l->card[i]));
        if ((int)l->turn.size() == i) {
            TRY(cudaEventCreateWithFlags(&turn, cudaEventDisableTiming));
            l->turn.push_back(turn);
        }
        TRY(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
        l->own.push_back(stream);
    }
    return 0;
}

typedef std::vector<cudaStream_t> streams; /* by card: the stream to use */

/* Work that is put on `these` streams next waits for what is on `those` now. */
int follow(links *l, const streams &these, const streams &those)
{
    for (int i = 0; i < l->count(); i++) {
        TRY(cudaSetDevice(l->card[i]));
        TRY(cudaEventRecord(l->turn[i], those[i]));
        TRY(cudaStreamWaitEvent(these[i], l->turn[i], 0));
    }
    return 0;
}

void links_close(void *opaque, int abort)
{
    links *l = (links *)opaque;
    if (!abort)
        for (int i = 0; i < l->count(); i++) /* all work is done */
            if (cudaSetDevice(l->card[i]) == cudaSuccess) {
                cudaStreamSynchronize(l->stream[i]);
                if (i < (int)l->own.size()) cudaStreamSynchronize(l->own[i]);
            }
    abort_all(l);                               /* work on a stream cannot be cut short; ncclCommDestroy would wait for all ranks */
    if (l->begun) follow(l, l->stream, l->own); /* copies that are still running */
    for (cudaStream_t s : l->own)
        cudaStreamDestroy(s);
    for (cudaEvent_t e : l->turn)
        cudaEventDestroy(e);
    for (cudaEvent_t e : l->ready)
        cudaEventDestroy(e);
    for (cudaEvent_t e : l->done)
        cudaEventDestroy(e);
    if (l->host.mem) cudaFreeHost(l->host.mem);
    cudaGetLastError();
    delete l;
}

int links_open(lki_gpu_way way, int count, const int *cards, void *const *stream, double seconds, void **out,
               char why[LKI_LINKS_WHY])
{
    links *l = new links;
    l->way = way;
    l->seconds = seconds;
    why[0] = 0;
    for (int i = 0; i < count; i++) {
        l->card.push_back(lki_cuda_physical(cards[i]));
        l->stream.push_back((cudaStream_t)stream[i]);
    }
    int code = way == LKI_WAY_NCCL ? open_nccl(l, why) : make_events(l);
    if (!code && way == LKI_WAY_PEER) code = open_peer(l, why);
    if (!code) {
        *out = l;
        return 0;
    }
    if (!why[0]) snprintf(why, LKI_LINKS_WHY, "%.190s", lki_cuda_text(code));
    links_close(l, 1);
    return code;
}

/* ---- copies ---- */

/* Card `i` waits for events of all cards. */
int wait_for_all(links *l, const streams &on, int i, const std::vector<cudaEvent_t> &events)
{
    TRY(cudaSetDevice(l->card[i]));
    for (int k = 0; k < l->count(); k++)
        if (k != i) TRY(cudaStreamWaitEvent(on[i], events[k], 0));
    return 0;
}

/* Record `events` on all cards; each card then waits for those of the others. */
int meet(links *l, const streams &on, const std::vector<cudaEvent_t> &events)
{
    for (int i = 0; i < l->count(); i++) {
        TRY(cudaSetDevice(l->card[i]));
        TRY(cudaEventRecord(events[i], on[i]));
    }
    for (int i = 0; i < l->count(); i++) {
        const int code = wait_for_all(l, on, i, events);
        if (code) return code;
    }
    return 0;
}

/* Card `to` copies `bytes` from card `from`: directly, or from the host's memory at `at`, where that card put them. */
int pull(links *l, const streams &on, int to, void *dst, int from, const void *src, size_t at, size_t bytes)
{
    TRY(cudaSetDevice(l->card[to]));
    if (dst == src) return 0;
    const bool here = to == from || (l->way == LKI_WAY_PEER && l->card[to] == l->card[from]);
    if (here) TRY(cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDeviceToDevice, on[to]));
    else if (l->way == LKI_WAY_PEER) TRY(cudaMemcpyPeerAsync(dst, l->card[to], src, l->card[from], bytes, on[to]));
    else TRY(cudaMemcpyAsync(dst, l->host.mem + at, bytes, cudaMemcpyHostToDevice, on[to]));
    return 0;
}

/* What a card sends, and how much of it each card receives, from byte `card` * step on. */
struct share {
    size_t given, step;
};

share share_of(const links *l, const lki_gpu_transfer *t)
{
    return t->kind == LKI_SEND_SWAP ? share{t->bytes * l->card.size(), t->bytes} : share{t->bytes, 0};
}

/* Pinned memory of the host for all bytes that are sent. */
int make_room(links *l, size_t bytes)
{
    if (l->host.bytes >= bytes) return 0;
    for (int i = 0; i < l->count(); i++) {
        TRY(cudaSetDevice(l->card[i]));
        TRY(cudaStreamSynchronize(l->stream[i]));
    }
    if (l->host.mem) TRY(cudaFreeHost(l->host.mem));
    l->host = {};
    TRY(cudaHostAlloc((void **)&l->host.mem, bytes, cudaHostAllocPortable));
    l->host.bytes = bytes;
    return 0;
}

/* Through the host: all cards copy their bytes to the staging area, transfer by transfer, card by card. Its former content has been
 * read, because all cards have waited for each other since. */
int leave(links *l, int count, const lki_gpu_transfer *transfers)
{
    size_t total = 0, at = 0;
    for (int k = 0; k < count; k++)
        total += share_of(l, &transfers[k]).given * l->card.size();
    const int code = make_room(l, total);
    if (code) return code;
    for (int k = 0; k < count; k++)
        for (int i = 0; i < l->count(); i++) {
            const size_t bytes = share_of(l, &transfers[k]).given;
            TRY(cudaSetDevice(l->card[i]));
            if (bytes) TRY(cudaMemcpyAsync(l->host.mem + at, transfers[k].src[i], bytes, cudaMemcpyDeviceToHost, l->stream[i]));
            at += bytes;
        }
    return 0;
}

/* Each card copies what it receives in one transfer, which begins at byte `at` of the host's memory. */
int take(links *l, const streams &on, const lki_gpu_transfer *t, size_t at)
{
    const share s = share_of(l, t);
    int         code = t->kind == LKI_SEND_SUM ? (int)cudaErrorNotSupported : 0;
    for (int to = 0; to < l->count() && t->bytes && !code; to++)
        for (int k = 0; k < l->count() && !code; k++) {
            const int    from = (to + k) % l->count(); /* so that not all cards read from the same card at once */
            const size_t skip = s.step * (size_t)to;
            code = pull(l, on, to, (char *)t->dst[to] + t->bytes * (size_t)from, from, (const char *)t->src[from] + skip,
                        at + s.given * (size_t)from + skip, t->bytes);
        }
    return code;
}

int copy_all(links *l, const streams &on, int count, const lki_gpu_transfer *transfers)
{
    int    code = l->way == LKI_WAY_HOST ? leave(l, count, transfers) : 0;
    size_t at = 0;
    if (!code) code = meet(l, on, l->ready);
    for (int k = 0; k < count && !code; k++) {
        code = take(l, on, &transfers[k], at);
        at += share_of(l, &transfers[k]).given * l->card.size();
    }
    return code ? code : meet(l, on, l->done);
}

/* ---- by NCCL ---- */

/* The calls of rank i for one transfer, within a group. */
int give(links *l, const streams &on, int i, const lki_gpu_transfer *t)
{
    ncclComm_t         comm = l->comm[(size_t)i];
    const cudaStream_t stream = on[(size_t)i];
    const bool         wide = t->number == LKI_NUMBER_F64;
    if (!t->bytes) return 0;
    if (t->kind == LKI_SEND_GATHER) return fine(l, library.AllGather(t->src[i], t->dst[i], t->bytes, NCCL_UINT8, comm, stream));
    if (t->kind == LKI_SEND_SUM)
        return fine(l, library.AllReduce(t->src[i], t->dst[i], t->bytes / (wide ? 8 : 4), wide ? NCCL_FLOAT64 : NCCL_FLOAT32,
                                         NCCL_SUM, comm, stream));
    int code = 0;
    for (int k = 0; k < l->count() && !code; k++) {
        const size_t at = t->bytes * (size_t)k;
        code = fine(l, library.Send((const char *)t->src[i] + at, t->bytes, NCCL_UINT8, k, comm, stream));
        if (!code) code = fine(l, library.Recv((char *)t->dst[i] + at, t->bytes, NCCL_UINT8, k, comm, stream));
    }
    return code;
}

/* All ranks, all transfers, as one group. */
int send_all(links *l, const streams &on, int count, const lki_gpu_transfer *transfers)
{
    int code = fine(l, library.GroupStart());
    for (int k = 0; k < count && !code; k++)
        for (int i = 0; i < l->count() && !code; i++) {
            code = lki_cuda_note(cudaSetDevice(l->card[i]), "cudaSetDevice", nullptr);
            if (!code) code = give(l, on, i, &transfers[k]);
        }
    const int ended = fine(l, library.GroupEnd());
    if (!code) code = ended;
    return code ? code : settle(l);
}

int exchange_on(links *l, const streams &on, int count, const lki_gpu_transfer *transfers)
{
    return l->way == LKI_WAY_NCCL ? send_all(l, on, count, transfers) : copy_all(l, on, count, transfers);
}

int links_exchange(void *opaque, int count, const lki_gpu_transfer *transfers)
{
    links *l = (links *)opaque;
    int    code = exchange_on(l, l->stream, count, transfers);
    if (!code && l->begun) code = follow(l, l->stream, l->own);
    if (!code) l->begun = false;
    return code;
}

int links_begin(void *opaque, int count, const lki_gpu_transfer *transfers)
{
    links *l = (links *)opaque;
    if (l->way == LKI_WAY_HOST) return exchange_on(l, l->stream, count, transfers);
    int code = make_own_streams(l);
    if (!code) code = follow(l, l->own, l->stream);
    if (!code) l->begun = true;
    return code ? code : exchange_on(l, l->own, count, transfers);
}

int links_check(void *opaque, char why[LKI_LINKS_WHY])
{
    links *l = (links *)opaque;
    for (size_t i = 0; i < l->comm.size() && !l->failed; i++) {
        ncclResult_t       state = NCCL_SUCCESS;
        const ncclResult_t asked = library.CommGetAsyncError(l->comm[i], &state);
        if (asked != NCCL_SUCCESS) state = asked;
        if (state != NCCL_SUCCESS && state != NCCL_IN_PROGRESS) l->failed = state;
    }
    if (!l->failed) return 0;
    const char *last = library.GetLastError(l->comm.empty() ? nullptr : l->comm[0]);
    snprintf(why, LKI_LINKS_WHY, "%s%s%s",
             l->failed == NCCL_IN_PROGRESS ? "work was not put on the cards in time" : library.GetErrorString(l->failed),
             last && *last ? ": " : "", last ? last : "");
    return OF_NCCL | l->failed;
}

int links_idle(void *opaque, int i)
{
    links      *l = (links *)opaque;
    cudaError_t e = cudaSetDevice(l->card[i]);
    if (e == cudaSuccess) e = cudaStreamQuery(l->stream[i]);
    if (e == cudaSuccess && i < (int)l->own.size()) e = cudaStreamQuery(l->own[i]);
    if (e == cudaSuccess) return 1;
    return e == cudaErrorNotReady ? (cudaGetLastError(), 0) : -lki_cuda_note(e, "cudaStreamQuery", nullptr);
}

const char *links_nccl(int *found)
{
    const nccl *n = nccl_here();
    *found = n->found;
    return n->why;
}

const char *links_text(int code)
{
    if (!(code & OF_NCCL)) return lki_cuda_text(code);
    return library.found ? library.GetErrorString(code & ~OF_NCCL) : library.why;
}

} // namespace

extern "C" __attribute__((visibility("default"))) const lki_gpu_links *lki_gpu_links_of(void);

const lki_gpu_links *lki_gpu_links_of(void)
{
    static const lki_gpu_links links = {links_open, links_exchange, links_begin, links_check,
                                        links_idle, links_close,    links_text,  links_nccl};
    return &links;
}
