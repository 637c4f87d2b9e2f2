/* Slots on a GPU, for kernel/run.c. */
#ifndef LKI_KERNEL_GPU_RUN_H
#define LKI_KERNEL_GPU_RUN_H

#include "kernel/run.h"

bool      lki_gpu_can(lki_device *d, lki_slot slot, lk_dtype type, int lanes);
lk_status lki_gpu_run(lki_device *d, lki_slot_call *c);

#endif
