/* The sticky error of a thread: the first cause, kept until it is cleared.
 *
 * Invariants
 * 1. The first failure wins; later ones, which are mostly its consequences, are dropped.
 * 2. Recording an error never allocates, so that LK_ENOMEM can always be told.
 * 3. A message is one line: what was called, on what, what was wrong, what would have been right. */
#ifndef LKI_CORE_ERROR_H
#define LKI_CORE_ERROR_H

#include "core/base.h"
#include <lockstep/error.h>

enum { LKI_ERROR_TEXT = 1024 };

/* Record a failure and return `code`, so that a function can end in `return lki_fail(LK_ESHAPE, "...", ...)`. */
lk_status lki_fail(lk_status code, const char *format, ...) LKI_PRINTF(2, 3);

/* Set words put before each message of this thread: "replica 3 on CPU:1: ". NULL removes. */
void lki_error_context(const char *text);

/* Hand the error of one thread to another: take it (clearing it here) and, over there, put it. */
typedef struct lki_error_record {
    lk_status code;
    char      text[LKI_ERROR_TEXT];
} lki_error_record;

void lki_error_take(lki_error_record *out);
void lki_error_put(const lki_error_record *in);

#endif
