/* How calls report failure, and the two hooks through which the library prints.
 *
 * A call that can fail returns lk_status; a constructor returns NULL; an op returns a poisoned tensor, and every op that uses it
 * returns a poisoned tensor too. Each thread keeps its first error until lk_clear_error(), so a program can check once, after a
 * whole computation.
 *
 *     lk_tensor *y = lk_matmul(a, b);
 *     if (lk_failed())
 *         fprintf(stderr, "%s\n", lk_error());   matmul: a [7, 9] and b [8, 6]: ... */
#ifndef LOCKSTEP_ERROR_H
#define LOCKSTEP_ERROR_H

#include "base.h"

LK_BEGIN

/* code, value, what it says */
#define LK_STATUS_LIST(X)                                                                                                          \
    X(LK_OK, 0, "no error")                                                                                                        \
    X(LK_EINVAL, -1, "invalid value")                                                                                              \
    X(LK_ESHAPE, -2, "shapes do not fit")                                                                                          \
    X(LK_EDTYPE, -3, "data types do not fit")                                                                                      \
    X(LK_ESTATE, -4, "not allowed here")                                                                                           \
    X(LK_ENOMEM, -5, "out of memory")                                                                                              \
    X(LK_ENOTFOUND, -6, "not found")                                                                                               \
    X(LK_EIO, -7, "input or output failed")                                                                                        \
    X(LK_EFORMAT, -8, "malformed file")                                                                                            \
    X(LK_EUNSUPPORTED, -9, "not supported")                                                                                        \
    X(LK_EDEVICE, -10, "device error")                                                                                             \
    X(LK_EPEER, -11, "a peer failed")                                                                                              \
    X(LK_EDEADLINE, -12, "deadline passed")

#define LKI_STATUS_ENUM(name, value, text) name = value,
typedef enum lk_status { LK_STATUS_LIST(LKI_STATUS_ENUM) } lk_status;
#undef LKI_STATUS_ENUM

/* True when a call of this thread has failed since the last lk_clear_error(). */
LK_API int lk_failed(void);

/* The first error as one line: the op, its operands, shapes and device, and what would have been right. "" when nothing failed.
 * Owner   the thread, until its next lk_clear_error(). */
LK_API const char *lk_error(void);

/* The code of the first error; LK_OK when nothing failed. */
LK_API lk_status lk_error_code(void);
LK_API void      lk_clear_error(void);

/* "LK_ESHAPE" and "shapes do not fit". */
LK_API const char *lk_status_name(lk_status status);
LK_API const char *lk_status_text(lk_status status);

/* Called with text: for the log, one line without its newline; for output, the text exactly as it would be printed. */
typedef void (*lk_text_hook)(const char *text, void *user);

/* Set where lk_print() and progress are written; NULL: stdout. */
LK_API void lk_set_output(lk_text_hook hook, void *user);

/* Set where warnings and information are written; NULL: stderr, as "WARNING:lockstep: ...". */
LK_API void lk_set_log(lk_text_hook hook, void *user);

/* Log details on topics, separated by commas: "lanes,dispatch,plan,trace"; "" or NULL for none. */
LK_API lk_status lk_set_verbose(const char *topics);

LK_END

#endif
