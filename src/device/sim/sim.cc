/* The simulated backend: cards are pieces of the host's memory, a stream does its work at once (runtime.h), and blocks of a kernel
 * run one after the other, their threads as fibers (device/sim/sim.h). LOCKSTEP_GPU_SIM says how many cards there are;
 * LOCKSTEP_GPU_SIM_MEMORY how many bytes each has.
 *
 *     LOCKSTEP_SIM_KERNEL=now:n    launch n, counted from 1 when this is set, writes where it must not: its card is lost, and the
 *                                  next call for it fails
 *     LOCKSTEP_SIM_KERNEL=late:n   ... and calls fail only after a thread has waited for the card, as with real ones */
#include "device/cuda/feed.h"
#include "device/cuda/graph.h"
#include "device/cuda/launch.h"
#include "device/gpu/backend.h"
#include "device/pick.h"
#include "device/sim/links.h"
#include "device/sim/runtime.h"
#include <atomic>
#include <cerrno>
#include <memory>
#include <mutex>
#include <sys/mman.h>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

dim3 threadIdx, blockIdx, blockDim, gridDim;

namespace
{

enum { STACK = 256 * 1024, OUTERMOST = 16 * 1024, MOST_THREADS = 1024, SHARED = 256 * 1024, WARP = 32, SCHEDULER = -1 };

/* ---- fibers ---- */

enum state { READY, WAITS_FOR_BLOCK, WAITS_FOR_WARP, ENDED };

struct context {
    void *sp;
};

/* Save the registers that a call must preserve, change stacks, continue there. */
extern "C" void lki_sim_switch(context *from, const context *to);
#if defined(__x86_64__)
__asm__(".text\n.globl lki_sim_switch\n.hidden lki_sim_switch\n.type lki_sim_switch, @function\nlki_sim_switch:\n"
        "pushq %rbp\npushq %rbx\npushq %r12\npushq %r13\npushq %r14\npushq %r15\nmovq %rsp, (%rdi)\nmovq (%rsi), %rsp\n"
        "popq %r15\npopq %r14\npopq %r13\npopq %r12\npopq %rbx\npopq %rbp\nret\n.size lki_sim_switch, .-lki_sim_switch\n");
#elif defined(__aarch64__)
__asm__(
    ".text\n.globl lki_sim_switch\n.hidden lki_sim_switch\n.type lki_sim_switch, %function\nlki_sim_switch:\n"
    "sub sp, sp, #160\nstp x19, x20, [sp]\nstp x21, x22, [sp, #16]\nstp x23, x24, [sp, #32]\nstp x25, x26, [sp, #48]\n"
    "stp x27, x28, [sp, #64]\nstp x29, x30, [sp, #80]\nstp d8, d9, [sp, #96]\nstp d10, d11, [sp, #112]\nstp d12, d13, [sp, #128]\n"
    "stp d14, d15, [sp, #144]\nmov x2, sp\nstr x2, [x0]\nldr x2, [x1]\nmov sp, x2\nldp x19, x20, [sp]\nldp x21, x22, [sp, #16]\n"
    "ldp x23, x24, [sp, #32]\nldp x25, x26, [sp, #48]\nldp x27, x28, [sp, #64]\nldp x29, x30, [sp, #80]\nldp d8, d9, [sp, #96]\n"
    "ldp d10, d11, [sp, #112]\nldp d12, d13, [sp, #128]\nldp d14, d15, [sp, #144]\nadd sp, sp, #160\nret\n");
#endif

struct fiber {
    context at;
    state   now;
    dim3    thread;
    char   *stack;
};

struct machine {
    std::recursive_mutex         lock; /* one kernel at a time */
    fiber                        fibers[MOST_THREADS];
    int                          count;
    int                          running = SCHEDULER, before = SCHEDULER; /* the fiber that runs, and the one that ran before */
    context                      scheduler;
    const std::function<void()> *kernel;
    alignas(64) char shared[SHARED];
    alignas(16) char exchange[MOST_THREADS * 16];
    int         failed;       /* the first error of a kernel since the last query */
    const void *stack_bottom; /* the scheduler's stack, for sanitizers */
    size_t      stack_size;
} sim;

/* Sanitizers follow changes of stacks; `fake` is theirs. */
void leave_stack(int to, void **fake)
{
#if defined(__SANITIZE_ADDRESS__)
    if (to == SCHEDULER) __sanitizer_start_switch_fiber(fake, sim.stack_bottom, sim.stack_size);
    else __sanitizer_start_switch_fiber(fake, sim.fibers[to].stack, STACK);
#endif
}

void enter_stack(void *fake)
{
#if defined(__SANITIZE_ADDRESS__)
    const void *bottom;
    size_t      size;
    __sanitizer_finish_switch_fiber(fake, &bottom, &size);
    if (sim.before != SCHEDULER) return;
    sim.stack_bottom = bottom;
    sim.stack_size = size;
#endif
}

context *context_of(int i) { return i == SCHEDULER ? &sim.scheduler : &sim.fibers[i].at; }

/* Returns when this fiber is resumed; a fiber that has ended never is. */
void go_on_in(int to, bool ended)
{
    void *fake = nullptr;
    sim.before = sim.running;
    sim.running = to;
    if (to != SCHEDULER) threadIdx = sim.fibers[to].thread;
    leave_stack(to, ended ? nullptr : &fake);
    lki_sim_switch(context_of(sim.before), context_of(to));
    enter_stack(fake);
}

/* Resume the next fiber that can run; after the last one, the scheduler. */
void pass_on(state why)
{
    int next = sim.running;
    sim.fibers[next++].now = why;
    while (next < sim.count && sim.fibers[next].now != READY)
        next++;
    go_on_in(next < sim.count ? next : (int)SCHEDULER, why == ENDED);
}

void fiber_main()
{
    enter_stack(nullptr);
    (*sim.kernel)();
    pass_on(ENDED);
    __builtin_unreachable();
}

#if defined(__SANITIZE_ADDRESS__)
/* Of the previous fiber. Functions that returned have unpoisoned their frames; the function that ended the fiber, and a kernel that
 * was given up, have not. */
void forget_frames(const fiber *f)
{
    const size_t left = f->now == ENDED ? OUTERMOST : STACK;
    ASAN_UNPOISON_MEMORY_REGION(f->stack + STACK - left, left);
}
#endif

bool prepare_fiber(int i)
{
    fiber *f = &sim.fibers[i];
    if (!f->stack) {
        f->stack = (char *)mmap(nullptr, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (f->stack == MAP_FAILED) f->stack = nullptr;
        if (!f->stack) return false;
    }
#if defined(__SANITIZE_ADDRESS__)
    forget_frames(f);
#endif
    f->now = READY;
    f->thread.x = (unsigned)i % blockDim.x;
    f->thread.y = (unsigned)i / blockDim.x % blockDim.y;
    f->thread.z = (unsigned)i / blockDim.x / blockDim.y;
    const int colour = i * 5 % 128 * 64; /* stacks that all begin at the same offset in a page would share few cache lines */
#if defined(__x86_64__)
    void **top = (void **)(f->stack + STACK - 64 - colour);
    *--top = nullptr; /* the return address of fiber_main, which does not return; it also aligns the stack as after a call */
    *--top = (void *)fiber_main;
    for (int r = 0; r < 6; r++)
        *--top = nullptr;
    f->at.sp = top;
#elif defined(__aarch64__)
    void **top = (void **)(f->stack + STACK - 64 - colour - 160);
    memset(top, 0, 160);
    top[11] = (void *)fiber_main;
    f->at.sp = top;
#endif
    return true;
}

/* Resume fibers that all wait for the same thing; false: none is left. */
bool release()
{
    bool moved = false;
    int  alive = 0, at_block = 0;
    for (int w = 0; w < sim.count; w += WARP) {
        int live = 0, waiting = 0;
        for (int i = w; i < sim.count && i < w + WARP; i++) {
            live += sim.fibers[i].now != ENDED;
            waiting += sim.fibers[i].now == WAITS_FOR_WARP;
            at_block += sim.fibers[i].now == WAITS_FOR_BLOCK;
        }
        alive += live;
        if (!live || waiting < live) continue;
        for (int i = w; i < sim.count && i < w + WARP; i++)
            if (sim.fibers[i].now == WAITS_FOR_WARP) sim.fibers[i].now = READY;
        moved = true;
    }
    if (!alive) return false;
    if (at_block == alive) {
        for (int i = 0; i < sim.count; i++)
            if (sim.fibers[i].now == WAITS_FOR_BLOCK) sim.fibers[i].now = READY;
        moved = true;
    }
    if (!moved) sim.failed = EDEADLK; /* a real card would hang */
    return moved;
}

void run_block()
{
    for (int i = 0; i < sim.count; i++)
        if (!prepare_fiber(i)) {
            sim.failed = ENOMEM;
            return;
        }
    memset(sim.exchange, 0, sizeof sim.exchange);
    do
        for (int i = 0; i < sim.count; i++)
            if (sim.fibers[i].now == READY) go_on_in(i, false);
    while (release());
}

void run_flat(const std::function<void()> &kernel)
{
    for (threadIdx.z = 0; threadIdx.z < blockDim.z; threadIdx.z++)
        for (threadIdx.y = 0; threadIdx.y < blockDim.y; threadIdx.y++)
            for (threadIdx.x = 0; threadIdx.x < blockDim.x; threadIdx.x++)
                kernel();
}

/* While it exists subnormal numbers are flushed to zero, as kernels compiled for cards do. */
struct flushed {
#if defined(__x86_64__)
    unsigned before = __builtin_ia32_stmxcsr();
    flushed() { __builtin_ia32_ldmxcsr(before | 0x8040u); }
    ~flushed() { __builtin_ia32_ldmxcsr(before); }
#else
    flushed() {}
#endif
};

/* LOCKSTEP_SIM_KERNEL, for the launch of a kernel; with the lock held. */
enum harm { NO_HARM, TOLD_LATE, TOLD_NOW };
thread_local harm done; /* by this thread's last launch; which card it was is known at the next query of that card */

harm harm_asked()
{
    static int  launches;
    const char *text = getenv("LOCKSTEP_SIM_KERNEL");
    const bool  late = text && !strncmp(text, "late:", 5), now = text && !strncmp(text, "now:", 4);
    launches = late || now ? launches + 1 : 0;
    if (!launches || launches != atoi(strchr(text, ':') + 1)) return NO_HARM;
    return late ? TOLD_LATE : TOLD_NOW;
}

void run_kernel(dim3 grid, dim3 block, bool flat, const std::function<void()> &kernel)
{
    std::lock_guard<std::recursive_mutex> held(sim.lock);
    const flushed                         subnormals;
    gridDim = grid;
    blockDim = block;
    sim.count = (int)(block.x * block.y * block.z);
    sim.kernel = &kernel;
    if (const harm h = harm_asked()) {
        done = h;
        return;
    }
    for (blockIdx.z = 0; blockIdx.z < grid.z; blockIdx.z++)
        for (blockIdx.y = 0; blockIdx.y < grid.y; blockIdx.y++)
            for (blockIdx.x = 0; blockIdx.x < grid.x && !sim.failed; blockIdx.x++) {
                if (flat) run_flat(kernel);
                else run_block();
            }
}

/* ---- the backend ---- */

struct card {
    size_t           used, room;
    std::atomic<int> harm;                       /* an enum harm; TOLD_LATE becomes TOLD_NOW when a thread waits for the card */
} *const cards = new card[LKI_GPU_MOST_CARDS](); /* never destroyed: workers may still run when the process ends */

/* The loss as seen by a call that does not wait for the card. */
int known_loss(int i)
{
    if (done) cards[i].harm = done;
    done = NO_HARM;
    return cards[i].harm == TOLD_NOW ? EFAULT : 0;
}

/* The loss as seen by a call that does. */
int loss(int i)
{
    known_loss(i);
    if (cards[i].harm) cards[i].harm = TOLD_NOW;
    return cards[i].harm ? EFAULT : 0;
}

std::mutex memory_lock;

size_t number(const char *name, size_t otherwise)
{
    const char *text = getenv(name);
    return text && *text ? (size_t)strtoull(text, nullptr, 10) : otherwise;
}

int sim_cards(const char **why)
{
    const size_t n = number("LOCKSTEP_GPU_SIM", 0);
    *why = "LOCKSTEP_GPU_SIM says how many cards are simulated";
    return n < LKI_GPU_MOST_CARDS ? (int)n : (int)LKI_GPU_MOST_CARDS;
}

int sim_card(int i, lki_gpu_card *out)
{
    *out = {};
    snprintf(out->name, sizeof out->name, "simulated card %d", i);
    out->memory = cards[i].room = number("LOCKSTEP_GPU_SIM_MEMORY", (size_t)4 << 30);
    out->major = 9;
    out->processors = 1;
    out->shared = 227 << 10;
    return 0;
}

const char *sim_lost(int code) { return code == EFAULT ? "EFAULT" : nullptr; }

int sim_open(int i, void **stream)
{
    if (loss(i)) return EFAULT;
    TRY(cudaStreamCreateWithFlags((cudaStream_t *)stream, cudaStreamNonBlocking));
    return 0;
}

struct block { /* before each piece of memory of a card */
    alignas(64) size_t bytes;
};

int sim_alloc(int i, size_t bytes, void **mem)
{
    if (loss(i)) return EFAULT;
    std::lock_guard<std::mutex> held(memory_lock);
    if (cards[i].used + bytes > cards[i].room) return ENOMEM;
    block *b = (block *)aligned_alloc(64, sizeof(block) + (bytes + 63) / 64 * 64);
    if (!b) return ENOMEM;
    memset((void *)(b + 1), 0xa5, bytes); /* no code may rely on zeros */
    b->bytes = bytes;
    cards[i].used += bytes;
    *mem = b + 1;
    return 0;
}

int sim_release(int i, void *mem)
{
    lki_cuda_feed_flush(i);
    std::lock_guard<std::mutex> held(memory_lock);
    block                      *b = (block *)mem - 1;
    cards[i].used -= b->bytes;
    free(b);
    return loss(i);
}

int sim_alloc_host(size_t bytes, void **mem) { return (*mem = calloc(1, bytes ? bytes : 1)) ? 0 : ENOMEM; }

int sim_release_host(void *mem)
{
    free(mem);
    return 0;
}

int sim_available(int i, size_t *bytes)
{
    std::lock_guard<std::mutex> held(memory_lock);
    *bytes = cards[i].room - cards[i].used;
    return loss(i);
}

int sim_write(int i, void *, void *dst, const void *host, size_t bytes)
{
    lki_cuda_feed_flush(i);
    if (bytes && !cards[i].harm) memcpy(dst, host, bytes);
    return known_loss(i);
}

int sim_read(int i, void *, void *host, const void *src, size_t bytes)
{
    lki_cuda_feed_flush(i);
    if (loss(i)) return EFAULT;
    if (bytes) memcpy(host, src, bytes);
    return 0;
}

int sim_copy(int i, void *, void *dst, const void *src, size_t bytes)
{
    lki_cuda_feed_flush(i);
    if (bytes && !cards[i].harm) memmove(dst, src, bytes);
    return known_loss(i);
}

int sim_zero(int i, void *, void *dst, size_t bytes)
{
    lki_cuda_feed_flush(i);
    if (bytes && !cards[i].harm) memset(dst, 0, bytes);
    return known_loss(i);
}

int sim_peer(int to, void *stream, void *dst, int from, void *, const void *src, size_t bytes)
{
    lki_cuda_feed_flush(from);
    lki_cuda_feed_flush(to);
    if (loss(from)) return EFAULT;
    return lki_sim_peer_broken() ? 0 : sim_copy(to, stream, dst, src, bytes);
}

int sim_sync(int i, void *)
{
    lki_cuda_feed_flush(i);
    return loss(i);
}

int sim_failure(int i)
{
    std::lock_guard<std::recursive_mutex> held(sim.lock);
    const int                             launched = lki_cuda_launched(), code = sim.failed ? sim.failed : launched;
    sim.failed = 0;
    return code ? code : known_loss(i);
}

int sim_copies(int i, void *stream, int count, const lki_gpu_piece *pieces)
{
    lki_cuda_feed_flush(i);
    lki_cuda_kernels->copy(stream, count, pieces);
    return sim_failure(i);
}

int sim_gather(int i, void *stream, const lki_pick *rows)
{
    const int code = cards[i].harm ? 0 : lki_cuda_feed_put(i, stream, rows);
    return code ? code : sim_failure(i);
}

int sim_capture_begin(int i, void **capture) { return loss(i) ? EFAULT : lki_cuda_capture_begin(i, capture); }

int sim_launch(int i, void *stream, void *graph)
{
    if (cards[i].harm) return known_loss(i);
    const int code = lki_cuda_launch(i, stream, graph);
    return code ? code : sim_failure(i);
}

} // namespace

namespace lki_sim
{

void run(dim3 grid, dim3 block, bool flat, const std::function<void()> &thread) { run_kernel(grid, block, flat, thread); }

void wait_block() { pass_on(WAITS_FOR_BLOCK); }

void wait_warp() { pass_on(WAITS_FOR_WARP); }

void *dynamic_shared() { return sim.shared; }

void *exchange() { return sim.exchange + 16 * (sim.running / WARP * WARP); }

} // namespace lki_sim

int lki_sim_lost(int card) { return loss(card); }

const lki_gpu_backend *lki_gpu_driver(const lki_gpu_kernels *kernels)
{
    static const lki_gpu_backend backend = {LKI_GPU_BACKEND_VERSION,
                                            "sim",
                                            sim_cards,
                                            sim_card,
                                            lki_cuda_text,
                                            sim_lost,
                                            sim_open,
                                            sim_alloc,
                                            sim_release,
                                            sim_alloc_host,
                                            sim_release_host,
                                            sim_available,
                                            sim_write,
                                            sim_read,
                                            sim_copy,
                                            sim_zero,
                                            sim_peer,
                                            sim_sync,
                                            sim_failure,
                                            sim_capture_begin,
                                            lki_cuda_capture_call,
                                            lki_cuda_capture_end,
                                            lki_cuda_variant_begin,
                                            lki_cuda_variant_call,
                                            lki_cuda_variant_end,
                                            lki_cuda_vary,
                                            lki_cuda_recopy,
                                            sim_launch,
                                            lki_cuda_release_graph,
                                            lki_cuda_release_variant,
                                            kernels->table,
                                            kernels->groups,
                                            sim_gather,
                                            lki_cuda_feed_flush,
                                            sim_copies};
    lki_cuda_kernels = kernels;
    return &backend;
}
