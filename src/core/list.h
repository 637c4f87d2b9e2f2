/* Lists of objects as arguments: LK_LAYERS(...), LK_METRICS(...). They live in the current pool and hold what is in them. */
#ifndef LKI_CORE_LIST_H
#define LKI_CORE_LIST_H

#include "core/object.h"

/* A copy of items 1..count; NULL in it stays NULL. NULL without memory. */
void *lki_list_of(const char *call, int count, const void *one_based);

/* True if `count` items can be read at `items`; else LK_EINVAL in the name of `call`. */
bool lki_list_given(const char *call, int count, const void *items);

#endif
