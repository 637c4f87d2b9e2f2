/* Running a slot at once on a device: the one entry for the kernels of all kinds of devices. */
#ifndef LKI_KERNEL_RUN_H
#define LKI_KERNEL_RUN_H

#include "device/device.h"
#include "kernel/kernel.h"

typedef struct lki_slot_call {
    lki_slot    slot;
    lk_dtype    type;
    const char *op;    /* for messages */
    lki_args   *args;  /* all but scratch, fault and gpu, which are filled in */
    bool        fault; /* set where it met an index out of range: then the call succeeded, and its results are of no use */
} lki_slot_call;

/* Has the device a kernel for it, with so many lanes (0: no sum over rows)? */
bool lki_slot_can(lki_device *d, lki_slot slot, lk_dtype type, int lanes);

/* Operands and results lie in the device's memory. Work of a device that works later may still be at it afterwards, unless the slot
 * checks indices. */
lk_status lki_slot_run(lki_device *d, lki_slot_call *c);

#endif
