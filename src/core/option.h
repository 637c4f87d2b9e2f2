/* Options of public calls (lockstep/base.h): whether one was given, and its value.
 *
 * Invariants
 *  1. All bits zero is "not given". A zero that was given is a mark of its type (LKI_ZERO, LKI_ZERO_64, LKI_ZERO_REAL); lki_kw()
 *     sets it in C, a constructor in C++.
 *  2. Code that uses an option calls these functions and never reads the member itself, except for switches, where `== LK_ON` and
 *     `!= LK_OFF` are correct.
 *  3. A list of axes is one 64-bit number (option.c says how), so that a plain number is a list of one. The library works with it
 *     as an lki_axes. */
#ifndef LKI_CORE_OPTION_H
#define LKI_CORE_OPTION_H

#include "core/base.h"
#include <lockstep/error.h>
#include <string.h>

#ifndef __cplusplus /* in C++ options are classes, and nothing calls these functions */

/* Compared as bits: with denormals treated as zero, the mark would be equal to it. */
static inline uint64_t lki_number_bits(lk_number x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}
static inline bool   lki_number_given(lk_number x) { return lki_number_bits(x) != 0; }
static inline double lki_number_or(lk_number x, double standard)
{
    const uint64_t bits = lki_number_bits(x);
    return bits > 1 ? x : bits ? 0 : standard;
}

static inline double lki_number(lk_number x) { return lki_number_or(x, 0); }

static inline bool    lki_integer_given(lk_integer x) { return x != 0; }
static inline int64_t lki_integer_or(lk_integer x, int64_t standard) { return x == LKI_ZERO_64 ? 0 : x ? x : standard; }

static inline int64_t lki_integer(lk_integer x) { return lki_integer_or(x, 0); }

static inline bool lki_switch_given(lk_switch s) { return s != (lk_switch)0 && s != LK_DEFAULT; }

static inline bool lki_axis_given(lk_axis a) { return a != 0 && a != LK_NO_AXIS; }
static inline int  lki_axis_or(lk_axis a, int standard)
{
    if (a == LKI_ZERO) return 0;
    if (!lki_axis_given(a)) return standard;
    return a < INT_MIN || a > INT_MAX ? INT_MAX : (int)a; /* a list of several is not an axis: return one that no tensor has */
}

#endif

/* A list of axes or sizes; count -1: it could not be made (more than LK_MAX_RANK), which was reported. */
typedef struct lki_axes {
    int     count;
    int64_t value[LK_MAX_RANK];
} lki_axes;

lki_axes lki_axes_of(lk_axes list); /* empty if the option was not given */
lk_axes  lki_axes_list(const lki_axes *axes);

/* Makes the list one that an object can keep: it is never overwritten. LK_ENOMEM. */
lk_status lki_axes_hold(lk_axes *list);

/* An option's place in a struct of arguments. */
typedef enum lki_option_type {
    LKI_OPTION_PLAIN, /* a zero is not marked */
    LKI_OPTION_NUMBER,
    LKI_OPTION_INTEGER,
    LKI_OPTION_SWITCH,
    LKI_OPTION_AXIS,
    LKI_OPTION_AXES,
    LKI_OPTION_SHAPE, /* a plain number is an error */
} lki_option_type;

typedef struct lki_option {
    const char     *name;
    lki_option_type type;
    size_t          offset;
} lki_option;

typedef struct lki_options {
    const char       *type;   /* "lk_dense_args" */
    const lki_option *option; /* all members after kw_, in order */
    int               count;
} lki_options;

/* True if the text of these arguments names this option. False also if there is no text. */
bool lki_option_written(const void *args, const char *type, const char *name);

/* The argument of the keyword macros, by the name of the struct; NULL if there is no such struct. The build makes the tables from
 * the public headers (tools/options-table). */
const lki_options *lki_options_find(const char *type);

#endif
