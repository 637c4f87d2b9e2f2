/* What every other header needs: visibility, keyword arguments, switches, lists.
 *
 * Keyword arguments: a constructor takes one struct in which zero means "the documented default"; the macro of the same name
 * makes it look like a call with named arguments:
 *
 *     lk_optimizer *o = lk_adam(.learning_rate = 0.01, .clipnorm = 1);
 *
 * The member kw_ comes first, so that no argument, positional ones and named ones all compile without a warning. */
#ifndef LOCKSTEP_BASE_H
#define LOCKSTEP_BASE_H

#include <stddef.h>
#include <stdint.h>

#if defined(LK_STATIC)
#define LK_API
#else
#define LK_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
#define LK_BEGIN extern "C" {
#define LK_END }
#else
#define LK_BEGIN
#define LK_END
#endif

#define LK_VERSION_MAJOR 0
#define LK_VERSION_MINOR 1
#define LK_VERSION_PATCH 0

LK_BEGIN

/* A choice with a default: zero leaves it to the documentation of the argument. */
typedef enum lk_switch { LK_DEFAULT = 0, LK_ON = 1, LK_OFF = 2 } lk_switch;

/* An axis as a keyword argument, where zero is a real choice: LK_AXIS(0), LK_AXIS(-1); left out, it is the documented default. */
typedef struct lk_axis {
    char set;
    int  value;
} lk_axis;

/* A list of axes or sizes: LK_AXES(1, 2). An empty one, {0}, is the documented default (mostly: all of them). */
enum { LK_MAX_RANK = 8 };
typedef struct lk_axes {
    int     count;
    int64_t value[LK_MAX_RANK];
} lk_axes;

/* A number as a keyword argument where zero is a real choice: LK_NUMBER(0). */
typedef struct lk_number {
    char   set;
    double value;
} lk_number;

/* "0.1.0" */
LK_API const char *lk_version(void);

LK_END

#define LKI_KW(T, ...) ((T){.kw_ = 0, __VA_ARGS__})
#define LKI_N(T, ...) (sizeof((T[]){__VA_ARGS__}) / sizeof(T))
#define LKI_LIST(T, ...)                                                                                                           \
    (int)LKI_N(T, 0, __VA_ARGS__) - 1, (const T[]) { 0, __VA_ARGS__ } /* items at [1..n] */
#define LK_AXIS(i) ((lk_axis){1, (i)})
#define LK_NO_AXIS ((lk_axis){2, 0})
#define LK_AXES(...) lk_axes_of(LKI_LIST(int64_t, __VA_ARGS__))
#define LK_NUMBER(x) ((lk_number){1, (x)})

#define LKI_PASTE_(a, b) a##b
#define LKI_PASTE(a, b) LKI_PASTE_(a, b)
#define LKI_ID(name) LKI_PASTE(name, __LINE__)

#endif
