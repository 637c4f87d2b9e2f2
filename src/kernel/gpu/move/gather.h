/* What the two files of gather share. */
#ifndef LKI_KERNEL_GPU_MOVE_GATHER_H
#define LKI_KERNEL_GPU_MOVE_GATHER_H

#include "kernel/gpu/base/index.h"

namespace lki_gpu
{

/* gather_grad.cu: a part of register_gather. */
void register_gather_grad(lki_kernels *k);

} // namespace lki_gpu

#endif
