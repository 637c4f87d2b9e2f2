/* The kernels of GPUs as a table, and the backend that a driver makes of them (device/gpu/backend.h). */
#include "kernel/gpu/base/gpu.h"

namespace
{

lki_kernels table;

bool fill()
{
    using namespace lki_gpu;
    static void (*const families[])(lki_kernels *) = {register_elementwise, register_random,  register_replica, register_update,
                                                      register_reduce,      register_rows,    register_norm,    register_move,
                                                      register_gather,      register_matmul,  register_conv,    register_dense_pool,
                                                      register_depthwise,   register_grouped, register_pool};
    for (auto family : families)
        family(&table);
    return true;
}

} // namespace

const lki_kernels *lki_gpu::kernels()
{
    static const bool filled = fill();
    (void)filled;
    return &table;
}

extern "C" __attribute__((visibility("default"))) const lki_gpu_backend *lki_gpu_backend_of(void);

const lki_gpu_backend *lki_gpu_backend_of(void)
{
    static const lki_gpu_kernels all = {lki_gpu::kernels, lki_gpu::grouping, lki_gpu::copy_pieces, lki_gpu::gather_rows,
                                        lki_gpu::describe_gather};
    return lki_gpu_driver(&all);
}
