/* Text that grows; see text.h. */
#include "fit/text.h"
#include "core/memory.h"
#include "core/number.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static bool make_room(lki_text *t, int more)
{
    t->failed = t->failed || more < 0 || !lki_grow((void **)&t->data, &t->room, t->size + more + 1, 1);
    return !t->failed;
}

void lki_text_add(lki_text *t, const char *data, int size)
{
    if (!make_room(t, size)) return;
    memcpy(t->data + t->size, data, (size_t)size);
    t->size += size;
    t->data[t->size] = 0;
}

void lki_text_put(lki_text *t, const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    const int more = lki_vformat(NULL, 0, format, args);
    if (make_room(t, more)) t->size += lki_vformat(t->data + t->size, (size_t)more + 1, format, again);
    va_end(again);
    va_end(args);
}

void lki_text_free(lki_text *t)
{
    lki_release(t->data);
    *t = (lki_text){0};
}
