/* Copies of several pieces of memory by one launch (device/gpu/backend.h): inputs and results of a step are often a few small
 * arrays, and a separate copy of each would cost as much as a launch. One thread per 16 bytes, or fewer bytes if addresses or sizes
 * require it. */
#include "kernel/gpu/base/gpu.h"

using namespace lki_gpu;

namespace
{

enum { BLOCK = 256, BLOCKS = 132 * 8 };

struct pieces_argument {
    lki_gpu_piece piece[LKI_GPU_MOST_PIECES];
};

template <typename T> __device__ inline void copy_as(const lki_gpu_piece &p, int64_t from, int64_t step)
{
    const int64_t count = (int64_t)(p.bytes / sizeof(T)), left = (int64_t)(p.bytes % sizeof(T));
    for (int64_t i = from; i < count; i += step)
        ((T *)p.dst)[i] = ((const T *)p.src)[i];
    if (from < left) ((char *)p.dst)[count * (int64_t)sizeof(T) + from] = ((const char *)p.src)[count * (int64_t)sizeof(T) + from];
}

__global__ void copy_kernel(const pieces_argument all)
{
    const lki_gpu_piece p = all.piece[blockIdx.y];
    const int64_t       from = blockIdx.x * (int64_t)blockDim.x + threadIdx.x, step = (int64_t)gridDim.x * blockDim.x;
    const uintptr_t     odd = (uintptr_t)p.dst | (uintptr_t)p.src;
    if (odd % 16 == 0) copy_as<uint4>(p, from, step);
    else if (odd % 4 == 0) copy_as<uint32_t>(p, from, step);
    else copy_as<uint8_t>(p, from, step);
}

void copy(const lki_args *a, int count, const lki_gpu_piece *piece)
{
    pieces_argument all = {};
    int64_t         most = 0;
    for (int i = 0; i < count; i++) {
        all.piece[i] = piece[i];
        most = lki_max(most, (int64_t)piece[i].bytes);
    }
    if (!most) return;
    const int64_t blocks = lki_min(lki_ceil_div(most, 16 * BLOCK), BLOCKS);
    LKI_LAUNCH_FLAT(copy_kernel, dim3((unsigned)blocks, (unsigned)count), dim3(BLOCK), a, all);
}

} // namespace

void lki_gpu::copy_pieces(void *stream, int count, const lki_gpu_piece *piece)
{
    lki_launch call = {};
    lki_args   a = {};
    call.stream = stream;
    a.gpu = &call;
    copy(&a, count, piece);
}
