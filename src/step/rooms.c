/* Placing spans: first fit, the largest first. */
#include "step/rooms.h"
#include <stdlib.h>

static int larger_first(const void *a, const void *b)
{
    const lki_room *x = a, *y = b;
    return x->bytes != y->bytes ? (x->bytes < y->bytes) - (x->bytes > y->bytes) : (x->value > y->value) - (x->value < y->value);
}

static bool live_together(const lki_room *a, const lki_room *b)
{
    return a->segment == b->segment && a->from <= b->to && b->from <= a->to;
}

/* The lowest place where a span meets no span placed before it that lives at the same time. */
static void place(lki_room *spans, int i)
{
    size_t at = 0;
    for (bool moved = true; moved;) {
        moved = false;
        for (int j = 0; j < i; j++)
            if (live_together(&spans[i], &spans[j]) && at < spans[j].at + spans[j].bytes && spans[j].at < at + spans[i].bytes) {
                at = spans[j].at + spans[j].bytes;
                moved = true;
            }
    }
    spans[i].at = at;
}

void lki_rooms_place(lki_room *spans, int count)
{
    for (int i = 0; i < count; i++)
        spans[i].bytes = (size_t)lki_round_up((int64_t)spans[i].bytes, 2 * LKI_CACHE_LINE);
    qsort(spans, (size_t)count, sizeof *spans, larger_first);
    for (int i = 0; i < count; i++)
        place(spans, i);
}
