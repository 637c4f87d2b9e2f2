/* What every other header needs: visibility, keyword arguments and the types of options, lists.
 *
 * Keyword arguments: what is written is what happens, zero included; an option that is not written has its documented default.
 *
 *     lk_optimizer *o = lk_adam(.learning_rate = 0.01, .beta_1 = 0);
 *     lk_layer     *l = lk_conv2d(64, 3, .strides = 2, .use_bias = false);
 *     lk_tensor    *s = lk_reduce_sum(x, .axis = 0);
 *
 * How it works: lk_adam() is a macro that fills a struct, lk_adam_args, and passes its own text along with it. Options are plain
 * numbers there; C fills those that are not written with zero. Where a member is zero, lki_kw() looks whether its name (or its
 * position) stands in the text, and if so puts a mark into it, the "zero that was given" of its type (LK_OFF, LK_NUMBER(0),
 * LK_AXIS(0), LK_AXES(0), LK_INTEGER(0)). In C++ the options are classes of the same layout, whose constructors do that:
 * lk::conv2d(64, 3, {.use_bias = false}).
 *
 * Without the macro (another language that calls lk_adam_kw() with a struct of its own) there is no text: zero is the default then,
 * and the marks say zero. A shape is LK_SHAPE(4): a plain number in its place is reported. */
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

/* The zero that was given, of every type: its least value, and of doubles the least above zero. "Not given", in so many words. */
#define LKI_ZERO INT_MIN
#define LKI_ZERO_64 INT64_MIN
#define LKI_ZERO_REAL 0x1p-1074
#define LKI_NOT_GIVEN (INT_MIN + 1)

#ifndef __cplusplus

/* Yes or no: true and false, 1 and 0, LK_ON and LK_OFF; any number but 0 is yes. LK_DEFAULT is the documented default. */
typedef enum lk_switch { LK_OFF = LKI_ZERO, LK_DEFAULT = LKI_NOT_GIVEN, LK_ON = 1 } lk_switch;

typedef double  lk_number;  /* 0.5, 0 */
typedef int64_t lk_integer; /* 3, 0 */
typedef int64_t lk_axis;    /* 0, -1; LK_NO_AXIS */
typedef int64_t lk_axes;    /* an axis or a size, 1; or several, at most LK_MAX_RANK: LK_AXES(1, 2) */

#else

extern "C" LK_API int64_t lk_axes_from(int count, const int64_t *value);

/* The same for C++: what is made from a value was given, what is made from nothing was not. */
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

/* The arguments of a keyword macro, with marks where zero was written. `type` names the struct. Returns `args`. */
LK_API void *lki_kw(void *args, const char *type);

/* A list of axes from an array: an lk_axes. */
LK_API int64_t lk_axes_from(int count, const int64_t *value);

/* The list `axes`, or the mark of {0} where it is 0 and `text`, what stands in the call, is a plain number. */
LK_API int64_t lki_axes_given(int64_t axes, const char *text);

LK_END

/* `__extension__` is for the text alone: calls inside calls can make it longer than what C99 promises. */
#ifdef LKI_NO_TEXT /* inside the library: zero is the default, and the marks say zero */
#define LKI_KW(T, ...) ((T){.kw_ = 0, __VA_ARGS__})
#else
#define LKI_KW(T, ...) (__extension__(*(T *)lki_kw(&(T){.kw_ = #__VA_ARGS__, __VA_ARGS__}, #T)))
#endif
#define LKI_KW_PART(T, ...)                                                                                                        \
    (__extension__(T){.kw_ = #__VA_ARGS__, __VA_ARGS__}) /* of a list: the call that takes it sets the marks */
#define LKI_N(T, ...) (sizeof((T[]){__VA_ARGS__}) / sizeof(T))
#define LKI_LIST(T, ...)                                                                                                           \
    (int)LKI_N(T, 0, __VA_ARGS__) - 1, (const T[]) { 0, __VA_ARGS__ } /* items at [1..n] */

/* Options that say zero by themselves: for structs that are filled by hand, where there is no text. */
#define LK_NUMBER(x) (__extension__((double)(x) ?: LKI_ZERO_REAL))
#define LK_INTEGER(i) (__extension__((int64_t)(i) ?: LKI_ZERO_64))
#define LK_AXIS(i) (__extension__((int)(i) ?: LKI_ZERO))
#define LK_NO_AXIS LKI_NOT_GIVEN
#define LK_AXES(...) lk_axes_of(LKI_LIST(int64_t, __VA_ARGS__))

#define LKI_PASTE_(a, b) a##b
#define LKI_PASTE(a, b) LKI_PASTE_(a, b)
#define LKI_ID(name) LKI_PASTE(name, __LINE__)

#endif
