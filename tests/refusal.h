/* How an error is checked: the expression is evaluated, and the thread's error has this code and contains these words. */
#ifndef LK_TESTS_REFUSAL_H
#define LK_TESTS_REFUSAL_H

#include "check.h"
#include <string.h>

#define REFUSED(code, expression, ...)                                                                                             \
    do {                                                                                                                           \
        (void)(expression);                                                                                                        \
        refused(code, (const char *const[]){__VA_ARGS__, NULL}, __LINE__);                                                         \
    } while (0)

static inline void refused(lk_status code, const char *const *words, int at)
{
    if (lk_error_code() != code)
        fail_msg("line %d: %s \"%s\", not %s", at, lk_status_name(lk_error_code()), lk_error(), lk_status_name(code));
    for (; *words; words++)
        if (!strstr(lk_error(), *words)) fail_msg("line %d: \"%s\" does not say \"%s\"", at, lk_error(), *words);
    lk_clear_error();
}

#endif
