/* The result of fit: the values of every epoch, and where the time went. */
#ifndef LKI_FIT_HISTORY_H
#define LKI_FIT_HISTORY_H

#include "core/object.h"
#include <lockstep/fit.h>

struct lk_history {
    lki_object   object;
    int          names, name_room;
    char       **name;
    int          epochs, epoch_room;
    int         *epoch;  /* its number */
    double     **value;  /* value[i][n]: of name n in epoch i; row i has as many values as there were names in that epoch */
    int         *values; /* length of row i */
    int          value_room, values_room;
    lk_fit_times times;
};

lk_history *lki_history_new(void);

/* Add an epoch. */
lk_status lki_history_add(lk_history *h, int epoch, const lk_logs *logs);

#endif
