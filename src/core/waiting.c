/* Objects that wait until another object is built (waiting.h). */
#include "core/waiting.h"
#include "core/memory.h"

lk_status lki_waiters_add(lki_waiters *w, lki_waiting *one)
{
    if (!lki_grow((void **)&w->item, &w->room, w->count + 1, sizeof *w->item)) return LK_ENOMEM;
    w->item[w->count++] = one;
    return LK_OK;
}

lk_status lki_waiters_tell(lki_waiters *w, void *object)
{
    for (int i = 0; i < w->count; i++)
        LKI_TRY(w->item[i]->built(w->item[i], object));
    lki_waiters_free(w);
    return LK_OK;
}

void lki_waiters_remove_last(lki_waiters *w)
{
    lki_drop(w->item[--w->count]);
    if (!w->count) lki_waiters_free(w);
}

void lki_waiters_free(lki_waiters *w)
{
    for (int i = 0; i < w->count; i++)
        lki_drop(w->item[i]);
    lki_release(w->item);
    *w = (lki_waiters){0};
}
