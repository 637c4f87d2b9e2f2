/* How errors are checked.
 *
 *     BEGIN
 *     BAD(LK_ESHAPE, lk_add(a, b), "add of [2] f32, [3] f32", "broadcast");     poisoned, this code, a message with these words
 *     END */
#ifndef LK_TESTS_MISTAKES_H
#define LK_TESTS_MISTAKES_H

#include "check.h"
#include <lockstep.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* The error of this thread has this code and a message of one line that holds all words, the last of which is NULL. It is
 * cleared. */
static inline bool mistake_told(const char *what, lk_status code, const char *const *words)
{
    const char *text = lk_error();
    bool        good = lk_error_code() == code && *text && !strchr(text, '\n') && strlen(text) < 1000;
    while (good && *words && strstr(text, *words))
        words++;
    good = good && !*words;
    if (!good)
        print_error("%s\n    %s \"%s\"\n    wanted %s, with \"%s\"\n", what, lk_status_name(lk_error_code()), text,
                    lk_status_name(code), *words ? *words : "");
    lk_clear_error();
    return good;
}

/* Poison stays poison, quietly, and the first cause stays the cause; then the thread works again. */
static inline int mistake_made(const char *what, lk_tensor *t, lk_status code, const char *const *words)
{
    char first[1024];
    snprintf(first, sizeof first, "%s", lk_error());
    bool good =
        lk_poisoned(t) && lk_poisoned(lk_add(t, lk_scalar(1))) && lk_poisoned(lk_reduce_sum(lk_matmul(t, t))) && lk_data(t) == NULL;
    if (!good) print_error("%s\n    is not poisoned\n", what);
    if (strcmp(first, lk_error()) != 0) {
        print_error("%s\n    \"%s\" became \"%s\"\n", what, first, lk_error());
        good = false;
    }
    good = mistake_told(what, code, words) && good;
    if (lk_item(lk_add(lk_scalar(1), lk_scalar(2))) != 3 || lk_failed()) good = false;
    lk_clear_error();
    return !good;
}

#define told(code, ...) mistake_told(__func__, code, (const char *const[]){__VA_ARGS__, NULL})
#define BEGIN                                                                                                                      \
    int bad_ = 0;                                                                                                                  \
    LK_POOL {
#define BAD(code, expression, ...) bad_ += mistake_made(#expression, expression, code, (const char *const[]){__VA_ARGS__, NULL})
#define END                                                                                                                        \
    }                                                                                                                              \
    assert_int_equal(bad_, 0);

#endif
