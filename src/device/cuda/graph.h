/* Captured graphs, as specified in backend.h, of CUDA cards and of simulated ones (device/sim/runtime.h). */
#ifndef LKI_DEVICE_CUDA_GRAPH_H
#define LKI_DEVICE_CUDA_GRAPH_H

#include "device/gpu/backend.h"

int lki_cuda_capture_begin(int card, void **capture);
int lki_cuda_capture_call(int card, void *capture, int count, const int *after, void **stream);
int lki_cuda_capture_end(int card, void *capture, void **graph);
int lki_cuda_variant_begin(int card, void *graph, void **variant);
int lki_cuda_variant_call(int card, void *variant, int call, void **stream);
int lki_cuda_variant_end(int card, void *variant);
int lki_cuda_vary(int card, void *graph, void *variant);
int lki_cuda_recopy(int card, void *graph, int call, int count, const lki_gpu_piece *pieces);
int lki_cuda_launch(int card, void *stream, void *graph);
int lki_cuda_release_graph(void *graph);
int lki_cuda_release_variant(void *variant);

/* For launch.cu, before and after each launch: true if a variant only records it; else, after the launch, record it if this thread
 * is capturing. */
namespace lki_gpu
{
struct kernel_launch;
}
bool lki_cuda_noted_again(void *stream, const lki_gpu::kernel_launch &l);
int  lki_cuda_noted(void *stream, const lki_gpu::kernel_launch &l);

#endif
