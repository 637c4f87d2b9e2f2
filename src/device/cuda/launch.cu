/* Launches (launch.h): within the limits of the card, or with a message that names the kernel and the limit.
 *
 * Invariant: the shared memory that a kernel was allowed is never reduced. A graph can contain launches of one kernel with
 * different sizes of shared memory. When arguments of such a launch are set, CUDA compares the size it was captured with to what
 * the kernel is allowed at that time. */
#include "device/cuda/graph.h"
#include "device/cuda/launch.h"
#include "device/cuda/physical.h"
#include <map>
#include <mutex>

namespace
{

enum { UNASKED_SHARED = 48 << 10, MOST_ARGUMENTS = 4096, MOST_ARGUMENTS_SINCE_VOLTA = 32764 };

/* The limits of a card; they never change. */
struct card_limits {
    size_t threads, shared, arguments, grid[3], block[3];
};

size_t ask(cudaDeviceAttr what, int device)
{
    int value = 0;
    return cudaDeviceGetAttribute(&value, what, device) == cudaSuccess ? (size_t)value : (cudaGetLastError(), (size_t)0);
}

card_limits limits_of(int device)
{
    card_limits l = {
        ask(cudaDevAttrMaxThreadsPerBlock, device),
        ask(cudaDevAttrMaxSharedMemoryPerBlockOptin, device),
        ask(cudaDevAttrComputeCapabilityMajor, device) >= 7 ? (size_t)MOST_ARGUMENTS_SINCE_VOLTA : (size_t)MOST_ARGUMENTS,
        {ask(cudaDevAttrMaxGridDimX, device), ask(cudaDevAttrMaxGridDimY, device), ask(cudaDevAttrMaxGridDimZ, device)},
        {ask(cudaDevAttrMaxBlockDimX, device), ask(cudaDevAttrMaxBlockDimY, device), ask(cudaDevAttrMaxBlockDimZ, device)}};
    return l;
}

/* Of this thread's current card. */
const card_limits &limits_here(int *device)
{
    static std::mutex  lock;
    static card_limits known[LKI_GPU_MOST_CARDS];
    if (cudaGetDevice(device) != cudaSuccess || *device < 0 || *device >= LKI_GPU_MOST_CARDS) *device = 0;
    std::lock_guard<std::mutex> held(lock);
    if (!known[*device].threads) known[*device] = limits_of(*device);
    return known[*device];
}

size_t argument_bytes(const lki_gpu::kernel_info &k)
{
    size_t bytes = 0;
    for (int i = 0; i < k.count; i++)
        bytes += k.bytes[i];
    return bytes;
}

int check(const lki_gpu::kernel_launch &l)
{
    int                device;
    const card_limits &most = limits_here(&device);
    const struct {
        const char *what;
        size_t      is, least, most;
    } limits[] = {{"threads in a block", (size_t)l.block.x * l.block.y * l.block.z, 1, most.threads},
                  {"threads along x", l.block.x, 1, most.block[0]},
                  {"threads along y", l.block.y, 1, most.block[1]},
                  {"threads along z", l.block.z, 1, most.block[2]},
                  {"blocks along x", l.grid.x, 1, most.grid[0]},
                  {"blocks along y", l.grid.y, 1, most.grid[1]},
                  {"blocks along z", l.grid.z, 1, most.grid[2]},
                  {"bytes of arguments", argument_bytes(l.what), 1, most.arguments},
                  {"bytes of shared memory", l.shared, 0, most.shared}};
    for (const auto &x : limits) {
        char text[200];
        if (!most.threads) break; /* the card does not answer: the launch will report why */
        if (x.is >= x.least && x.is <= x.most) continue;
        snprintf(text, sizeof text, "the kernel %.*s cannot have %zu %s: the card allows %zu to %zu", LKI_CUDA_NAME(l.what.name),
                 x.is, x.what, x.least, x.most);
        return lki_cuda_refuse(cudaErrorInvalidConfiguration, text);
    }
    return 0;
}

int launch(void *stream, const lki_gpu::kernel_launch &l)
{
    const int code = check(l);
    if (code) return code;
    TRY_OF(cudaLaunchKernel(l.what.function, l.grid, l.block, l.value, l.shared, (cudaStream_t)stream), l.what.name);
    return lki_cuda_noted(stream, l);
}

} // namespace

bool lki_gpu::give_shared(const void *function, const char *name, size_t bytes)
{
    static std::mutex          &lock = *new std::mutex; /* never destroyed: workers may still run when the process ends */
    static auto                &given = *new std::map<std::pair<int, const void *>, size_t>;
    int                         device;
    const size_t                most = limits_here(&device).shared;
    std::lock_guard<std::mutex> held(lock);
    size_t                     *own = &given[{device, function}];
    if (most && bytes > most) return false;
    if (bytes <= UNASKED_SHARED || bytes <= *own) return true;
    if (lki_cuda_note(cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes),
                      "cudaFuncSetAttribute", name))
        return false;
    *own = bytes;
    return true;
}

void lki_gpu::submit(void *stream, const kernel_launch &l)
{
#ifdef LKI_SIM
    lki_sim::know(l.what);
#endif
    if (lki_cuda_noted_again(stream, l)) return;
    const int code = launch(stream, l);
    if (code) lki_cuda_last.launch = code;
}
