/* Pieces of memory that are needed for some time, placed so that no two that live together overlap. The one planner of memory, for
 * blocks of CPU plans and of cards. */
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

/* Larger rooms are placed first, each at the lowest place where it overlaps none that lives together with it. Without a function
 * (NULL), rooms of one segment live together if their times overlap. Bytes become multiples of two cache lines. Returns the end of
 * the last one. */
size_t lki_rooms_place(lki_room *rooms, int count, lki_together_fn *together, const void *user);

#endif
