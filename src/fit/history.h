/* What fit gives back: the values of every epoch, and where the time went. */
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
    double     **value;  /* value[i][n]: of name n in epoch i; rows are as long as there were names then */
    int         *values; /* how many of them */
    int          value_room, values_room;
    lk_fit_times times;
};

lk_history *lki_history_new(void);

/* One more epoch. */
lk_status lki_history_add(lk_history *h, int epoch, const lk_logs *logs);

#endif
