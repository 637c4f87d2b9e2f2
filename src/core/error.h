/* The sticky error of a thread: the first cause, kept until it is cleared.
 *
 * Invariants
 *  1. The first failure wins. Later ones, which are mostly its consequences, are dropped.
 *  2. Recording an error never allocates, so that LK_ENOMEM can always be reported.
 *  3. A message is one line: which call, on what, what was wrong, what would have been right. */
#ifndef LKI_CORE_ERROR_H
#define LKI_CORE_ERROR_H

#include "core/base.h"
#include <lockstep/error.h>

enum { LKI_ERROR_TEXT = 1024 };

/* Record a failure and return `code`, so that a function can end in `return lki_fail(LK_ESHAPE, "...", ...)`. */
lk_status lki_fail(lk_status code, const char *format, ...) LKI_PRINTF(2, 3);

/* Set the words before each message of this thread: "replica 3 on CPU:1: ". NULL removes them. */
void lki_error_context(const char *text);

/* Move the error of one thread to another: `take` on the first thread, which clears it there, `put` on the other. */
typedef struct lki_error_record {
    lk_status code;
    char      text[LKI_ERROR_TEXT];
} lki_error_record;

void lki_error_take(lki_error_record *out);
void lki_error_put(const lki_error_record *in);

/* A public call works on errors of its own. Its function begins with
 *
 *     LKI_SCOPE_ERRORS;
 *
 * An error that the thread had before is put aside until the function returns, and is the thread's first cause again afterwards. So
 * lk_failed() during the call means a failure of this call. A call that replicas make together has no such scope: an error that a
 * replica had before must release the others (dist/run.c). */
typedef struct lki_error_scope {
    lki_error_record before; /* its text is set only if it has a code */
    lk_status        outer;  /* the result of lki_error_aside() */
} lki_error_scope;

void lki_error_scope_enter(lki_error_scope *s);
void lki_error_scope_leave(lki_error_scope *s);

/* The code of the error that the scope put aside; LK_OK: there was none. A poisoned tensor may be its consequence. */
lk_status lki_error_aside(void);

#define LKI_SCOPE_ERRORS                                                                                                           \
    __attribute__((cleanup(lki_error_scope_leave))) lki_error_scope error_scope_;                                                  \
    lki_error_scope_enter(&error_scope_)

#endif
