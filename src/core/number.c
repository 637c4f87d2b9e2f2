/* Numbers as text (number.h). */
#include "core/number.h"
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>

/* Made once and kept. If there is no memory, 0: the locale does not change. */
static locale_t plain_locale(void)
{
    static locale_t kept;
    locale_t        plain = __atomic_load_n(&kept, __ATOMIC_ACQUIRE), none = (locale_t)0;
    if (plain != none) return plain;
    plain = newlocale(LC_ALL_MASK, "C", none);
    if (plain == none || __atomic_compare_exchange_n(&kept, &none, plain, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) return plain;
    freelocale(plain); /* another thread was first */
    return none;
}

int lki_vformat(char *text, size_t bytes, const char *format, va_list args)
{
    const locale_t plain = plain_locale(), before = plain != (locale_t)0 ? uselocale(plain) : plain;
    const int      size = vsnprintf(text, bytes, format, args);
    if (plain != (locale_t)0) uselocale(before);
    return size;
}

int lki_format(char *text, size_t bytes, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const int size = lki_vformat(text, bytes, format, args);
    va_end(args);
    return size;
}

double lki_number_of(const char *text, char **end)
{
    const locale_t plain = plain_locale(), before = plain != (locale_t)0 ? uselocale(plain) : plain;
    const double   value = strtod(text, end);
    if (plain != (locale_t)0) uselocale(before);
    return value;
}
