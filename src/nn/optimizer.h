/* Optimisers and schedules from the inside. */
#ifndef LKI_NN_OPTIMIZER_H
#define LKI_NN_OPTIMIZER_H

#include "core/object.h"
#include "kernel/update.h"
#include <lockstep/optimizer.h>

struct lk_schedule {
    lki_object object;
    lki_attr   attr; /* schedule */
};

#endif
