/* Device names as text, and the devices they name. */
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

/* The same for a device that must exist; else LK_EINVAL and an error. */
int       lki_devices_default(void); /* how many devices a strategy gets that names none: all GPUs, else all CPU devices */
lk_status lki_device_find(const char *call, const char *text, lki_device_name *out);

/* The devices of a strategy, in the order asked for (none: all): canonical names (one reference, lki_names_drop) and the devices
 * (lki_release). */
lk_status lki_devices_resolve(const char *call, lk_names asked, lk_names *canonical, lki_device ***devices);

lk_names lki_names_new(int count, const char *const *items, lki_life life);
void     lki_names_drop(lk_names names);

#endif
