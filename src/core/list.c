/* Lists of objects as arguments (list.h). */
#include "core/list.h"
#include "core/error.h"

typedef struct list {
    lki_object object;
    int        count;
    void      *item[];
} list;

static void destroy(void *object)
{
    list *l = object;
    for (int i = 0; i < l->count; i++)
        lki_drop(l->item[i]);
}

bool lki_list_given(const char *call, int count, const void *items)
{
    if (count >= 0 && (items || !count)) return true;
    lki_fail(LK_EINVAL, "%s: %d things from %s; it should be a list, and how many are in it", call, count,
             items ? "a list" : "NULL");
    return false;
}

void *lki_list_of(const char *call, int count, const void *one_based)
{
    if (!lki_list_given(call, count, one_based)) return NULL;
    void *const *item = (void *const *)one_based + 1;
    list *l = lki_object_new(sizeof *l + (size_t)(count + 1) * sizeof l->item[0], LKI_KIND_OTHER, LKI_LIVES_IN_POOL, destroy);
    if (!l) return NULL;
    for (; l->count < count; l->count++)
        l->item[l->count] = lki_retain(item[l->count]);
    return l->item;
}
