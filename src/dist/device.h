/* Names of devices, and finding the devices that they name. */
#ifndef LKI_DIST_DEVICE_H
#define LKI_DIST_DEVICE_H

#include "core/object.h"
#include "device/device.h"
#include <lockstep/strategy.h>

typedef struct lki_device_name {
    char job[64], type[4], full[160];
    int  replica, task, index;
    bool has_task;
} lki_device_name;

bool lki_device_name_parse(const char *text, lki_device_name *out);

/* Returns the number of devices of a strategy that names none: all GPUs or, if there are no GPUs, all CPU devices. */
int lki_devices_default(void);

/* Parses the name of a device that must exist. LK_EINVAL and an error: there is no such device. */
lk_status lki_device_find(const char *call, const char *text, lki_device_name *out);

/* Finds the devices of a strategy, in the order of `asked`; if that is empty, all devices. The caller gets a reference to the
 * canonical names (lki_names_drop) and the list of devices (lki_release). */
lk_status lki_devices_resolve(const char *call, lk_names asked, lk_names *canonical, lki_device ***devices);

lk_names lki_names_new(int count, const char *const *items, lki_life life);
void     lki_names_drop(lk_names names);

#endif
