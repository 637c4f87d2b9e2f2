/* The part of NCCL that src/device/cuda/links.cu uses, for ranks of one process whose memory is the host's. It is as strict as
 * NCCL: all ranks must make the same calls within a group, and no call may use a communicator whose state is "in progress".
 * FAKE_NCCL=refuse: communicators cannot be made; slow: they never get ready; fail:n: rank 1 fails in the n-th group. */
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

enum { SUCCESS = 0, INVALID_ARGUMENT = 4, INVALID_USAGE = 5, REMOTE_ERROR = 6, IN_PROGRESS = 7 };

struct ncclComm {
    int rank, count;
    int polls; /* so often it is still at work */
    int error;
};

struct unique_id {
    char bytes[128];
};

struct config {
    size_t      size;
    unsigned    magic, version;
    int         blocking, cluster, least, most;
    const char *net;
};

enum kind { GATHER, SUM, SEND, RECV };

struct call {
    kind        what;
    const void *src;
    void       *dst;
    size_t      bytes;
    int         type, peer;
    ncclComm   *comm;
};

static std::vector<call> calls; /* of the open group */
static int               groups, live, depth;

static bool asked(const char *word)
{
    const char *text = getenv("FAKE_NCCL");
    return text && !strncmp(text, word, strlen(word));
}

static void wrong(const char *what)
{
    fprintf(stderr, "NCCL is used wrongly: %s\n", what);
    abort();
}

static std::vector<call> of_rank(int rank)
{
    std::vector<call> own;
    for (const call &c : calls)
        if (c.comm->rank == rank) own.push_back(c);
    return own;
}

template <typename T> static void add(const std::vector<std::vector<call>> &by, size_t i)
{
    std::vector<T> sum(by[0][i].bytes / sizeof(T));
    for (const auto &own : by)
        for (size_t k = 0; k < sum.size(); k++)
            sum[k] += ((const T *)own[i].src)[k];
    for (const auto &own : by)
        memcpy(own[i].dst, sum.data(), sum.size() * sizeof(T));
}

/* The n-th message from one rank to another is the n-th one received. */
static void pass(const std::vector<std::vector<call>> &by, int from, int to)
{
    std::vector<call> sent, received;
    for (const call &c : by[(size_t)from])
        if (c.what == SEND && c.peer == to) sent.push_back(c);
    for (const call &c : by[(size_t)to])
        if (c.what == RECV && c.peer == from) received.push_back(c);
    if (sent.size() != received.size()) wrong("a message is sent and not received");
    for (size_t i = 0; i < sent.size(); i++) {
        if (sent[i].bytes != received[i].bytes) wrong("a message has two lengths");
        memmove(received[i].dst, sent[i].src, sent[i].bytes);
    }
}

static void do_all()
{
    std::vector<std::vector<call>> by;
    const int                      count = calls[0].comm->count;
    for (int r = 0; r < count; r++)
        by.push_back(of_rank(r));
    for (const auto &own : by)
        if (own.size() != by[0].size()) wrong("ranks give different calls");
    for (size_t i = 0; i < by[0].size(); i++) {
        if (by[0][i].what == SUM && by[0][i].type == 8) add<double>(by, i);
        else if (by[0][i].what == SUM) add<float>(by, i);
        for (int to = 0; to < count && by[0][i].what == GATHER; to++)
            for (int from = 0; from < count; from++)
                memmove((char *)by[(size_t)to][i].dst + (size_t)from * by[0][i].bytes, by[(size_t)from][i].src, by[0][i].bytes);
    }
    for (int to = 0; to < count; to++)
        for (int from = 0; from < count; from++)
            pass(by, from, to);
    groups++;
    for (const call &c : calls) {
        c.comm->polls = 3;
        if (asked("fail:") && groups == atoi(getenv("FAKE_NCCL") + 5) && c.comm->rank == 1) c.comm->error = REMOTE_ERROR;
    }
}

static int give(call c)
{
    if (!depth) wrong("a call outside a group");
    if (c.comm->polls) wrong("a call to a communicator that is at work");
    calls.push_back(c);
    return SUCCESS;
}

static size_t size_of(int type) { return type == 8 ? 8 : type == 7 ? 4 : 1; }

extern "C" {
int fake_nccl_live() { return live; }

int ncclGetVersion(int *version) { return *version = 22703, SUCCESS; }

int ncclGetUniqueId(unique_id *id) { return memset(id, 7, sizeof *id), SUCCESS; }

int ncclCommInitRankConfig(ncclComm **comm, int count, unique_id id, int rank, const config *c)
{
    if (c->size != sizeof *c || c->magic != 0xcafebeef || c->version < 21700 || id.bytes[127] != 7) return INVALID_ARGUMENT;
    if (c->blocking != 0 || c->cluster != INT_MIN || c->least != INT_MIN || c->most != INT_MIN || c->net) return INVALID_ARGUMENT;
    if (asked("refuse")) return INVALID_USAGE;
    *comm = new ncclComm{rank, count, asked("slow") ? INT_MAX : 5, SUCCESS};
    live++;
    return IN_PROGRESS;
}

int ncclCommAbort(ncclComm *comm)
{
    live--;
    delete comm;
    return SUCCESS;
}

int ncclCommGetAsyncError(ncclComm *comm, int *state)
{
    *state = comm->polls ? IN_PROGRESS : comm->error;
    if (comm->polls && comm->polls < INT_MAX) comm->polls--;
    return SUCCESS;
}

const char *ncclGetErrorString(int code)
{
    return code == REMOTE_ERROR ? "remote error" : code == INVALID_USAGE ? "invalid usage" : "an error";
}

const char *ncclGetLastError(ncclComm *) { return ""; }

int ncclGroupStart() { return depth++, SUCCESS; }

int ncclGroupEnd()
{
    if (--depth) return SUCCESS;
    if (!calls.empty()) do_all();
    calls.clear();
    return IN_PROGRESS;
}

int ncclAllGather(const void *src, void *dst, size_t count, int type, ncclComm *comm, void *)
{
    return give({GATHER, src, dst, count * size_of(type), type, 0, comm});
}

int ncclAllReduce(const void *src, void *dst, size_t count, int type, int operation, ncclComm *comm, void *)
{
    return operation ? INVALID_ARGUMENT : give({SUM, src, dst, count * size_of(type), type, 0, comm});
}

int ncclSend(const void *src, size_t count, int type, int peer, ncclComm *comm, void *)
{
    return give({SEND, src, nullptr, count * size_of(type), type, peer, comm});
}

int ncclRecv(void *dst, size_t count, int type, int peer, ncclComm *comm, void *)
{
    return give({RECV, nullptr, dst, count * size_of(type), type, peer, comm});
}
}
