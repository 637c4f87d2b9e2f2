/* Running a slot at once on a device: the one entry for the kernels of all kinds of devices. */
#ifndef LKI_KERNEL_RUN_H
#define LKI_KERNEL_RUN_H

#include "device/device.h"
#include "kernel/kernel.h"

typedef struct lki_slot_call {
    lki_slot    slot;
    lk_dtype    type;
    const char *op;    /* for messages */
    lki_args   *args;  /* everything except scratch, fault and gpu, which are filled in */
    bool        fault; /* set if it met an index out of range: then the call succeeded, and its results must not be used */
} lki_slot_call;

/* True if the device has a kernel for it, with `lanes` lanes (0: not a sum over rows). */
bool lki_slot_can(lki_device *d, lki_slot slot, lk_dtype type, int lanes);

/* Operands and results are in the device's memory. On a device that works later the work may not be done when this returns, unless
 * the slot checks indices. */
lk_status lki_slot_run(lki_device *d, lki_slot_call *c);

#endif
