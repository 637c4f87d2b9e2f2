/* What every other header needs: visibility, keyword arguments, the types of options, and lists.
 *
 * Keyword arguments: what is written is what happens, zero included; an option that is not written has its documented default.
 *
 *     lk_optimizer *o = lk_adam(.learning_rate = 0.01, .beta_1 = 0);
 *     lk_layer     *l = lk_conv2d(64, 3, .strides = 2, .use_bias = false);
 *     lk_tensor    *s = lk_reduce_sum(x, .axis = 0);
 *
 * How it works: lk_adam() is a macro that fills a struct, lk_adam_args, and also passes the text of its arguments. Options are
 * plain numbers in the struct; C sets those that are not written to zero. For each member that is zero, lki_kw() checks whether the
 * text contains its name (or a value at its position). If so, it replaces the zero with a mark for "zero was given", which has one
 * value per type (LK_OFF, LK_NUMBER(0), LK_AXIS(0), LK_AXES(0), LK_INTEGER(0)). In C++ the options are classes of the same layout,
 * whose constructors set the mark: lk::conv2d(64, 3, {.use_bias = false}).
 *
 * Without the macro there is no text (for example when another language fills the struct and calls lk_adam_kw()). There, zero means
 * the default, and the marks mean zero. A shape is written LK_SHAPE(4); a plain number instead of a shape is an error. */
#ifndef LOCKSTEP_BASE_H
#define LOCKSTEP_BASE_H

#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
#include <initializer_list>
#else
#include <stdbool.h>
#endif

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

/* ---- types of options -------------------------------------------------------------------------------------------------------- */

enum { LK_MAX_RANK = 8 };

/* The mark for "zero was given": the least value of each integer type; for doubles, the smallest positive value. LKI_NOT_GIVEN says
 * explicitly that an option was not given. */
#define LKI_ZERO INT_MIN
#define LKI_ZERO_64 INT64_MIN
#define LKI_ZERO_REAL 0x1p-1074
#define LKI_NOT_GIVEN (INT_MIN + 1)

#ifndef __cplusplus

/* On or off: true and false, 1 and 0, LK_ON and LK_OFF; any number except 0 is on. LK_DEFAULT selects the documented default. */
typedef enum lk_switch { LK_OFF = LKI_ZERO, LK_DEFAULT = LKI_NOT_GIVEN, LK_ON = 1 } lk_switch;

typedef double  lk_number;  /* 0.5, 0 */
typedef int64_t lk_integer; /* 3, 0 */
typedef int64_t lk_axis;    /* 0, -1; LK_NO_AXIS */
typedef int64_t lk_axes;    /* one axis or size, such as 1; or a list of at most LK_MAX_RANK: LK_AXES(1, 2) */

#else

extern "C" LK_API int64_t lk_axes_from(int count, const int64_t *value);

/* The same for C++: an option constructed from a value was given; a default-constructed one was not. */
enum lki_switch_value { LK_OFF = LKI_ZERO, LK_DEFAULT = LKI_NOT_GIVEN, LK_ON = 1 };
struct lk_switch {
    int value = 0;
    constexpr lk_switch() = default;
    constexpr lk_switch(lki_switch_value v) : value(v) {}
    template <class T> constexpr lk_switch(T on) : value(on ? LK_ON : LK_OFF) {}
};
struct lk_number {
    double value = 0;
    constexpr lk_number() = default;
    constexpr lk_number(double x) : value(x == 0 ? LKI_ZERO_REAL : x) {}
};
struct lk_integer {
    int64_t value = 0;
    constexpr lk_integer() = default;
    constexpr lk_integer(int64_t x) : value(x == 0 ? LKI_ZERO_64 : x) {}
};
struct lk_axis {
    int64_t value = 0;
    constexpr lk_axis() = default;
    constexpr lk_axis(int64_t axis) : value(axis == 0 ? LKI_ZERO : axis) {}
};
struct lk_axes {
    int64_t value = 0;
    constexpr lk_axes() = default;
    constexpr lk_axes(int64_t one) : value(one == 0 ? LKI_ZERO_64 : one) {}
    lk_axes(std::initializer_list<int64_t> list) : value(lk_axes_from(static_cast<int>(list.size()), list.begin())) {}
};

#endif

LK_BEGIN

/* "0.1.0" */
LK_API const char *lk_version(void);

/* Set the marks in the arguments of a keyword macro where zero was written. `type` names the struct. Returns `args`. */
LK_API void *lki_kw(void *args, const char *type);

/* Make an lk_axes from an array. */
LK_API int64_t lk_axes_from(int count, const int64_t *value);

/* Returns `axes`; where that is 0 and `text`, the argument as written in the call, is a plain number, the mark for the list {0}. */
LK_API int64_t lki_axes_given(int64_t axes, const char *text);

LK_END

/* `__extension__` is needed only for the text: nested calls can make it longer than the string literals that C99 guarantees. */
#ifdef LKI_NO_TEXT /* inside the library: zero means the default, and the marks mean zero */
#define LKI_KW(T, ...) ((T){.kw_ = 0, __VA_ARGS__})
#else
#define LKI_KW(T, ...) (__extension__(*(T *)lki_kw(&(T){.kw_ = #__VA_ARGS__, __VA_ARGS__}, #T)))
#endif
#define LKI_KW_PART(T, ...)                                                                                                        \
    (__extension__(T){.kw_ = #__VA_ARGS__, __VA_ARGS__}) /* an item of a list: the function that receives the list sets the marks */
#define LKI_N(T, ...) (sizeof((T[]){__VA_ARGS__}) / sizeof(T))
#define LKI_LIST(T, ...)                                                                                                           \
    (int)LKI_N(T, 0, __VA_ARGS__) - 1, (const T[]) { 0, __VA_ARGS__ } /* items at [1..n] */

/* Options that mean zero without a text: for structs that are filled by hand. */
#define LK_NUMBER(x) (__extension__((double)(x) ?: LKI_ZERO_REAL))
#define LK_INTEGER(i) (__extension__((int64_t)(i) ?: LKI_ZERO_64))
#define LK_AXIS(i) (__extension__((int)(i) ?: LKI_ZERO))
#define LK_NO_AXIS LKI_NOT_GIVEN
#define LK_AXES(...) lk_axes_of(LKI_LIST(int64_t, __VA_ARGS__))

#define LKI_PASTE_(a, b) a##b
#define LKI_PASTE(a, b) LKI_PASTE_(a, b)
#define LKI_ID(name) LKI_PASTE(name, __LINE__)

#endif
