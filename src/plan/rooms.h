/* Pieces of memory that are needed for a while, and where they lie so that no two that live together overlap: the one planner of
 * memory, for blocks of a CPU plan and of a card. */
#ifndef LKI_PLAN_ROOMS_H
#define LKI_PLAN_ROOMS_H

#include "core/base.h"

typedef struct lki_room {
    int    value;    /* whose it is */
    int    segment;  /* rooms of different segments never live together, and are placed in the same bytes; -1 is a segment too */
    int    from, to; /* when: both are part of it */
    size_t bytes, at;
} lki_room;

/* May these two not share bytes? */
typedef bool lki_together_fn(const lki_room *a, const lki_room *b, const void *user);

/* The larger the earlier; each at the lowest place where it meets none of those that live together with it. NULL: those of one
 * segment whose times meet do. Bytes become multiples of two cache lines. Returns where the last one ends. */
size_t lki_rooms_place(lki_room *rooms, int count, lki_together_fn *together, const void *user);

#endif
