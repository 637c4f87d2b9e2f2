/* Exchanges of carriers that only send and receive: each transfer is a message from every member to every other one.
 *
 *     gather    member i sends its src to all, and receives that of member k as part k of its dst
 *     swap      member i sends piece k of its src to member k, and receives a piece of each
 *
 * All members go through the transfers in the same order, so between two of them the n-th message sent is the n-th received. */
#include "comm/inside.h"

typedef struct exchange {
    const lki_carrier      *by;
    void                   *side;
    const lki_carrier_args *is;
} exchange;

/* What member `to` gets from member first + i, and where member first + i puts what it gets from member `from`. */
static const void *piece_for(const lki_transfer *t, int i, int to)
{
    return (const char *)t->src[i] + (t->kind == LKI_CARRY_SWAP ? t->bytes * (size_t)to : 0);
}

static void *place_of(const lki_transfer *t, int i, int from) { return (char *)t->dst[i] + t->bytes * (size_t)from; }

static lk_status keep_own(const exchange *x, const lki_transfer *t, int i)
{
    lki_device *d = x->is->device[i];
    const int   self = x->is->first + i;
    const void *src = piece_for(t, i, self);
    void       *dst = place_of(t, i, self);
    return src == dst ? LK_OK : d->ops->copy(d, dst, src, t->bytes);
}

static lk_status send_from(const exchange *x, const lki_transfer *t, int i)
{
    const int from = x->is->first + i;
    for (int to = 0; to < x->is->members; to++)
        if (to != from) LKI_TRY(x->by->send(x->side, from, to, piece_for(t, i, to), t->bytes));
    return keep_own(x, t, i);
}

static lk_status receive_for(const exchange *x, const lki_transfer *t, int i)
{
    const int to = x->is->first + i;
    for (int from = 0; from < x->is->members; from++)
        if (from != to) LKI_TRY(x->by->receive(x->side, to, from, place_of(t, i, from), t->bytes));
    return LK_OK;
}

lk_status lki_messages_post(const lki_carrier *c, void *side, const lki_carrier_args *a, int count, const lki_transfer *transfers)
{
    const exchange x = {c, side, a};
    for (const lki_transfer *t = transfers; t < transfers + count; t++) {
        if (t->kind == LKI_CARRY_SUM) return LK_EUNSUPPORTED;
        for (int i = 0; i < a->here && t->bytes; i++)
            LKI_TRY(send_from(&x, t, i));
        for (int i = 0; i < a->here && t->bytes; i++)
            LKI_TRY(receive_for(&x, t, i));
    }
    return LK_OK;
}
