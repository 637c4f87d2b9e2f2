/* Pieces of memory that are needed for a while, and where they lie so that no two that live together overlap. */
#ifndef LKI_PLAN_ROOMS_H
#define LKI_PLAN_ROOMS_H

#include "core/base.h"

typedef struct lki_room {
    int    value;    /* whose it is */
    int    segment;  /* spans of different segments never live together, and are placed in the same bytes; -1 is a segment too */
    int    from, to; /* when: both are part of it */
    size_t bytes, at;
} lki_room;

/* The larger the earlier; each at the lowest place that is free while it lives. Bytes become multiples of two cache lines. */
void lki_rooms_place(lki_room *spans, int count);

/* The same where another rule says which two live together. */
typedef bool lki_together_fn(const lki_room *a, const lki_room *b, const void *user);
void         lki_rooms_place_where(lki_room *spans, int count, lki_together_fn *together, const void *user);

#endif
