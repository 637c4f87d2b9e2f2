/* A launch of a kernel, with its arguments by value. A kernel file describes it (kernel/gpu/base/gpu.h, LKI_LAUNCH), and submit()
 * launches it, or records it in a graph (launch.cu). */
#ifndef LKI_DEVICE_CUDA_LAUNCH_H
#define LKI_DEVICE_CUDA_LAUNCH_H

#ifdef LKI_SIM
#include "device/sim/sim.h"
#else
#include <cuda_runtime.h>
#endif
#include <stddef.h>
#include <stdint.h>
#include <utility>

namespace lki_gpu
{

struct kernel_info {
    const void   *function;
    const char   *name;  /* as in the source */
    int           count; /* number of arguments, at least one */
    const size_t *bytes; /* of each argument */
#ifdef LKI_SIM
    void (*run)(const void *function, void *const *value); /* runs one thread of it */
    bool flat;                                             /* its threads do not wait for each other */
#endif
};

struct kernel_launch {
    kernel_info what;
    dim3        grid, block;
    size_t      shared;
    void      **value; /* address of each argument */
};

void submit(void *stream, const kernel_launch &l);

/* Before a launch with so much dynamic shared memory that CUDA requires a permission per kernel. false: the card has less, and
 * nothing was done. */
bool give_shared(const void *function, const char *name, size_t bytes);

#ifdef LKI_SIM
template <typename... P, size_t... I> static void run_with(void (*function)(P...), void *const *value, std::index_sequence<I...>)
{
    function(*(P *)value[I]...);
}

template <typename... P> static void run_thread(const void *function, void *const *value)
{
    run_with((void (*)(P...))(uintptr_t)function, value, std::index_sequence_for<P...>());
}
#endif

template <typename... P> static kernel_info kernel_of(const char *name, bool flat, void (*function)(P...))
{
    static const size_t bytes[] = {sizeof(P)...};
    kernel_info         k = {};
    k.function = (const void *)function;
    k.name = name;
    k.count = (int)sizeof...(P);
    k.bytes = bytes;
#ifdef LKI_SIM
    static_assert(((alignof(P) <= 16) && ...), "arguments are kept where 16 bytes are aligned");
    k.run = run_thread<P...>;
    k.flat = flat;
#else
    (void)flat;
#endif
    return k;
}

template <typename... P> static void submit_values(kernel_launch l, void *stream, P... value)
{
    void *values[] = {(void *)&value...};
    l.value = values;
    submit(stream, l);
}

template <typename... P, typename... A>
static void launch_kernel(const char *name, bool flat, void (*function)(P...), dim3 grid, dim3 block, size_t shared, void *stream,
                          const A &...a)
{
    submit_values<P...>(kernel_launch{kernel_of(name, flat, function), grid, block, shared, nullptr}, stream, a...);
}

} // namespace lki_gpu

#endif
