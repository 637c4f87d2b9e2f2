/* Curves over epochs as a picture; independent of lk_history. */
#ifndef LKI_FIT_PLOT_H
#define LKI_FIT_PLOT_H

#include "fit/draw.h"

typedef struct lki_curves {
    int                names, epochs;
    const char *const *name;  /* "loss", "val_loss", ... */
    const int         *epoch; /* their numbers on the axis */
    const double      *value; /* [names][epochs]; a value that is not finite is missing */
} lki_curves;

/* One panel per quantity, together with its val_ curve. Release `d` with lki_drawing_free(), also after a failure. */
lk_status lki_plot_draw(const lki_curves *c, lki_drawing *d);

/* Round numbers from at or below `least` to at or above `most`, about `count` of them; `step` apart. */
typedef struct lki_ticks {
    double first, step;
    int    count;
} lki_ticks;

lki_ticks lki_ticks_of(double least, double most, int count);

#endif
