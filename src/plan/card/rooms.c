/* Placing pieces by the order of calls, or by their levels. */
#include "plan/card/rooms.h"

typedef struct lives {
    const lki_order   *order;
    const lki_tenants *tenants;
} lives;

/* Is `a` used for the last time before b is made? */
static bool ends_before(const lives *l, int a, int b)
{
    const lki_order   *o = l->order;
    const lki_tenants *t = l->tenants;
    return !t->kept[a] && t->maker[b] >= 0 &&
           lki_bits_within(lki_order_row(o, t->users, a), lki_order_row(o, o->before, t->maker[b]), o->words);
}

static bool live_together(const lki_room *a, const lki_room *b, const void *user)
{
    return !ends_before(user, a->value, b->value) && !ends_before(user, b->value, a->value);
}

static bool overlap(const lki_room *a, const lki_room *b) { return a->at < b->at + b->bytes && b->at < a->at + a->bytes; }

/* The maker of a piece waits for all users of earlier pieces at the same bytes. */
static void wait_for_users(lki_order *o, const lki_room *rooms, int count, const lki_tenants *t)
{
    for (int i = 0; i < count; i++)
        for (int k = 0; k < count; k++)
            if (rooms[k].to < rooms[i].from && overlap(&rooms[i], &rooms[k]))
                lki_bits_add(lki_order_row(o, o->needs, t->maker[rooms[i].value]), lki_order_row(o, t->users, rooms[k].value),
                             o->words);
    lki_order_close(o);
}

size_t lki_card_rooms_place(lki_order *o, lki_room *rooms, int count, const lki_tenants *t, size_t plenty)
{
    const lives  l = {o, t};
    const size_t wide = lki_rooms_place(rooms, count, live_together, &l);
    if (wide <= plenty) return wide;
    const size_t narrow = lki_rooms_place(rooms, count, NULL, NULL);
    if (narrow >= wide) return lki_rooms_place(rooms, count, live_together, &l);
    wait_for_users(o, rooms, count, t);
    return narrow;
}
