/* Placing rooms: first fit, the largest first. */
#include "plan/rooms.h"
#include <stdlib.h>

static int larger_first(const void *a, const void *b)
{
    const lki_room *x = a, *y = b;
    return x->bytes != y->bytes ? (x->bytes < y->bytes) - (x->bytes > y->bytes) : (x->value > y->value) - (x->value < y->value);
}

static bool meet(const lki_room *a, const lki_room *b, const void *user)
{
    (void)user;
    return a->segment == b->segment && a->from <= b->to && b->from <= a->to;
}

static size_t end_of(const lki_room *r) { return lki_bytes_add(r->at, r->bytes); }

/* The lowest place where a room meets none placed before it that lives at the same time. */
static void place(lki_room *rooms, int i, lki_together_fn *together, const void *user)
{
    size_t at = 0;
    for (bool moved = true; moved;) {
        moved = false;
        for (int j = 0; j < i; j++)
            if (at < end_of(&rooms[j]) && rooms[j].at < lki_bytes_add(at, rooms[i].bytes) && together(&rooms[i], &rooms[j], user)) {
                at = end_of(&rooms[j]);
                moved = true;
            }
    }
    rooms[i].at = at;
}

size_t lki_rooms_place(lki_room *rooms, int count, lki_together_fn *together, const void *user)
{
    size_t end = 0;
    for (int i = 0; i < count; i++)
        rooms[i].bytes = lki_bytes_round_up(rooms[i].bytes, (size_t)2 * LKI_CACHE_LINE);
    qsort(rooms, (size_t)count, sizeof *rooms, larger_first);
    for (int i = 0; i < count; i++) {
        place(rooms, i, together ? together : meet, user);
        end = end_of(&rooms[i]) > end ? end_of(&rooms[i]) : end;
    }
    return end;
}
