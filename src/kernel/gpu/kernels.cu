/* The table of a GPU's kernels. */
#include "kernel/gpu/gpu.h"

namespace
{

lki_kernels table;

bool fill()
{
    using namespace lki_gpu;
    static void (*const families[])(lki_kernels *) = {register_elementwise, register_random, register_replica, register_update,
                                                      register_reduce,      register_rows,   register_norm,    register_move,
                                                      register_gather,      register_matmul, register_conv,    register_dense_pool,
                                                      register_depthwise,   register_pool};
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
