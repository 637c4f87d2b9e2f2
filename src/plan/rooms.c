/* Placing spans: first fit, the largest first. */
#include "plan/rooms.h"
#include <stdlib.h>

static int larger_first(const void *a, const void *b)
{
    const lki_room *x = a, *y = b;
    return x->bytes != y->bytes ? (x->bytes < y->bytes) - (x->bytes > y->bytes) : (x->value > y->value) - (x->value < y->value);
}

static bool live_together(const lki_room *a, const lki_room *b, const void *user)
{
    (void)user;
    return a->segment == b->segment && a->from <= b->to && b->from <= a->to;
}

static size_t end_of(const lki_room *r) { return lki_bytes_add(r->at, r->bytes); }

/* The lowest place where a span meets no span placed before it that lives at the same time. */
static void place(lki_room *spans, int i, lki_together_fn *together, const void *user)
{
    size_t at = 0;
    for (bool moved = true; moved;) {
        moved = false;
        for (int j = 0; j < i; j++)
            if (at < end_of(&spans[j]) && spans[j].at < lki_bytes_add(at, spans[i].bytes) && together(&spans[i], &spans[j], user)) {
                at = end_of(&spans[j]);
                moved = true;
            }
    }
    spans[i].at = at;
}

void lki_rooms_place_where(lki_room *spans, int count, lki_together_fn *together, const void *user)
{
    for (int i = 0; i < count; i++)
        spans[i].bytes = lki_bytes_round_up(spans[i].bytes, (size_t)2 * LKI_CACHE_LINE);
    qsort(spans, (size_t)count, sizeof *spans, larger_first);
    for (int i = 0; i < count; i++)
        place(spans, i, together, user);
}

void lki_rooms_place(lki_room *spans, int count) { lki_rooms_place_where(spans, count, live_together, NULL); }
