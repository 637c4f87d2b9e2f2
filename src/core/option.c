/* Options of public calls: marks where zero was written (lki_kw), and lists of axes in one number (option.h).
 *
 * A list of axes is
 *
 *     0                      not given (a list of none, made by LK_AXES(), has the payload NONE)
 *     a plain number         a list of that one; LKI_ZERO_64: of zero
 *     63..56  55..53  52..0  several
 *     LISTED  count-1 values each of them 53/count bits, the first lowest; count-1 = 0: the number of a kept list
 *
 * Lists whose values need more bits are kept in a ring of the last KEPT of them; reading one that was overwritten since is an
 * error. A list that an object keeps (lki_axes_hold) is copied to an array that only grows; equal lists are stored once. Typical
 * lists (axes, strides, windows) fit in the number and are not stored elsewhere. */
#include "core/option.h"
#include "core/error.h"
#include "core/lock.h"
#include "core/memory.h"
#include "core/shape.h"
#include <lockstep.h>
#include <stdio.h>

/* ---- parsing the text of a call ---------------------------------------------------------------------------------------------- */

/* One initialiser of a list: `.name = value` or `value`. Neither ends with a zero byte. */
typedef struct item {
    const char *name; /* NULL: by position */
    size_t      name_length;
    const char *value;
    size_t      value_length;
    bool        inside; /* names a part of the member, as .input_shape.rank */
} item;

static bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n'; }
static bool is_word(char c) { return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

static const char *skip_blanks(const char *s)
{
    while (is_blank(*s))
        s++;
    return s;
}

/* Returns the end of the literal that begins here. */
static const char *skip_quoted(const char *s)
{
    const char quote = *s++;
    while (*s && *s != quote)
        s += *s == '\\' && s[1] ? 2 : 1;
    return *s ? s + 1 : s;
}

/* R"x(...)x": returns its end. */
static const char *skip_raw(const char *s)
{
    char         end[24];
    const char  *open = strchr(s, '(');
    const size_t length = open ? (size_t)(open - s) : 0;
    if (!open || length > 17) return skip_quoted(s);
    snprintf(end, sizeof end, ")%.*s\"", (int)length - 1, s + 1);
    const char *close = strstr(open, end);
    return close ? close + strlen(end) : s + strlen(s);
}

/* A word, 1'000 or a literal with its prefix, L"a" and R"(a)": returns its end. */
static const char *skip_word(const char *s)
{
    const bool number = *s >= '0' && *s <= '9';
    char       last = 0;
    for (; is_word(*s) || (number && *s == '\'' && is_word(s[1])); s++)
        last = *s;
    return *s == '"' && last == 'R' ? skip_raw(s) : s;
}

/* Returns the comma that ends an initialiser, or the end. */
static const char *skip_value(const char *s)
{
    for (int depth = 0; *s && (depth || *s != ',');) {
        depth += *s == '(' || *s == '[' || *s == '{';
        depth -= *s == ')' || *s == ']' || *s == '}';
        s = is_word(*s) ? skip_word(s) : *s == '"' || *s == '\'' ? skip_quoted(s) : s + 1;
    }
    return s;
}

/* The next initialiser; false at the end of the text. */
static bool next_item(const char **text, item *it)
{
    const char *s = skip_blanks(*text);
    if (!*s) return false;
    *it = (item){0};
    if (*s == '.' && is_word(s[1]) && !(s[1] >= '0' && s[1] <= '9')) {
        it->name = ++s;
        while (is_word(*s))
            s++;
        it->name_length = (size_t)(s - it->name);
        s = skip_blanks(s);
        it->inside = *s == '.' || *s == '['; /* .input_shape.rank = 2 */
        while (*s && *s != '=' && *s != ',')
            s++;
        s = skip_blanks(*s == '=' ? s + 1 : s);
    }
    it->value = s;
    s = skip_value(s);
    it->value_length = (size_t)(s - it->value);
    *text = *s ? s + 1 : s;
    return true;
}

static bool contains(const item *it, const char *what)
{
    const size_t length = strlen(what);
    for (size_t i = 0; i + length <= it->value_length; i++)
        if (!memcmp(it->value + i, what, length)) return true;
    return false;
}

/* (lk_axes){0} and (lk_number){0} mean "not given". */
static bool is_literal(const item *it)
{
    static const char *const NOTHING[] = {"(lk_axes){0}", "(lk_axis){0}", "(lk_number){0}", "(lk_integer){0}", "(lk_switch){0}"};
    for (int i = 0; i < LKI_COUNT(NOTHING); i++)
        if (contains(it, NOTHING[i])) return true;
    return false;
}

static bool is_plain_number(const item *it)
{
    const char *s = it->value;
    while (*s == '(' || *s == '-' || *s == '+')
        s++;
    return *s >= '0' && *s <= '9';
}

/* {2, 6} sets the rank to 2: sizes need inner braces, {2, {6, 1}}. */
static bool is_flat_list(const item *it)
{
    return it->value_length && it->value[0] == '{' &&
           !contains(&(item){.value = it->value + 1, .value_length = it->value_length - 1}, "{") && !contains(it, ".");
}

static bool has_no_size(const lk_shape *s)
{
    for (int i = 0; i < s->rank && i < LK_MAX_RANK; i++)
        if (s->dim[i]) return false;
    return s->rank > 1;
}

/* ---- marks ------------------------------------------------------------------------------------------------------------------- */

static void mark_switch(int *member, bool literal)
{
    if (*member == 0 && !literal) *member = LK_OFF;
    else if (*member != 0 && *member != (int)LK_OFF && *member != (int)LK_DEFAULT) *member = LK_ON;
}

/* .input_shape = 4 and .input_shape = n set the rank and no size. */
static void mark_shape(lk_shape *shape, const item *it)
{
    if (it->inside || contains(it, "lk_shape")) return;
    if (is_plain_number(it) || is_flat_list(it) || has_no_size(shape)) shape->rank = LKI_SHAPE_NUMBER;
}

/* LK_DEFAULT and LK_OFF are valid for any option. */
static void mark_integer(int64_t *member, bool literal)
{
    if (*member == (int)LK_DEFAULT) *member = 0;
    else if ((!*member && !literal) || *member == (int)LK_OFF) *member = LKI_ZERO_64;
}

static void mark_number(lk_number *member, bool literal)
{
    if (*member == (int)LK_DEFAULT) *member = 0;
    else if (!(lki_number_bits(*member) << 1) ? !literal : *member == (int)LK_OFF) *member = LKI_ZERO_REAL; /* 0 and -0 */
}

static void mark(const lki_option *o, void *member, const item *it)
{
    const bool literal = is_literal(it);
    switch (o->type) {
    case LKI_OPTION_PLAIN: return;
    case LKI_OPTION_SWITCH: mark_switch(member, literal); return;
    case LKI_OPTION_SHAPE: mark_shape(member, it); return;
    case LKI_OPTION_NUMBER: mark_number(member, literal); return;
    case LKI_OPTION_AXIS:
        if (!literal && !*(lk_axis *)member) *(lk_axis *)member = LKI_ZERO;
        return;
    case LKI_OPTION_INTEGER:
    case LKI_OPTION_AXES: mark_integer(member, literal); return;
    }
}

static int position_of(const lki_options *all, const item *it)
{
    for (int i = 0; i < all->count; i++)
        if (!strncmp(all->option[i].name, it->name, it->name_length) && !all->option[i].name[it->name_length]) return i;
    return all->count;
}

void *lki_kw(void *args, const char *type)
{
    const lki_options *all = lki_options_find(type);
    const char        *text = *(const char **)args;
    item               it;
    for (int at = 0; all && text && next_item(&text, &it); at++) {
        if (it.name) at = position_of(all, &it);
        if (at < all->count) mark(&all->option[at], (char *)args + all->option[at].offset, &it);
    }
    return args;
}

bool lki_option_written(const void *args, const char *type, const char *name)
{
    const lki_options *all = lki_options_find(type);
    const char        *text = *(const char *const *)args;
    item               it;
    for (int at = 0; all && text && next_item(&text, &it); at++) {
        if (it.name) at = position_of(all, &it);
        if (at < all->count && !strcmp(all->option[at].name, name)) return true;
    }
    return false;
}

/* ---- the tables -------------------------------------------------------------------------------------------------------------- */

#define OPTION(T, kind, member) {#member, LKI_OPTION_##kind, offsetof(T, member)},
#define OPTIONS(T, list) static const lki_option T##_options[] = {list};
#include "options.inc"
#undef OPTIONS

const lki_options *lki_options_find(const char *type)
{
#define OPTIONS(T, list) {#T, T##_options, LKI_COUNT(T##_options)},
    static const lki_options ALL[] = {
#include "options.inc"
    };
    for (int low = 0, high = LKI_COUNT(ALL); low < high;) {
        const int middle = (low + high) / 2, order = strcmp(type, ALL[middle].type);
        if (!order) return &ALL[middle];
        if (order < 0) high = middle;
        else low = middle + 1;
    }
    return NULL;
}

/* ---- lists of axes ----------------------------------------------------------------------------------------------------------- */

enum { LISTED = 0x4C, COUNT_AT = 53, KEPT = 1 << 10 };

#define BAD INT64_C(0)
#define NONE ((INT64_C(1) << COUNT_AT) - 1)
#define HELD (INT64_C(1) << (COUNT_AT - 1)) /* + the index in the list that only grows */

LKI_MUTEX(axes_lock);

static lki_axes  ring[KEPT];
static lki_axes *held;
static int       held_count, held_room;
static int64_t   ring_made; /* number of lists ever kept; number n, counted from 1, is at n % KEPT */

static int64_t listed(int count_less_one, int64_t payload)
{
    return ((int64_t)LISTED << 56) | ((int64_t)count_less_one << COUNT_AT) | payload;
}

static bool is_listed(int64_t list) { return (uint64_t)list >> 56 == LISTED; }

static int64_t keep(const lki_axes *a)
{
    LKI_HOLD(&axes_lock);
    ring[++ring_made % KEPT] = *a;
    return listed(0, ring_made);
}

static lki_axes kept(int64_t number)
{
    lki_mutex_take(&axes_lock);
    const bool     holds = number >= HELD && number - HELD < held_count;
    const bool     there = holds || (number > 0 && number <= ring_made && number > ring_made - KEPT);
    const lki_axes a = holds ? held[number - HELD] : there ? ring[number % KEPT] : (lki_axes){.count = -1};
    lki_mutex_give(&axes_lock);
    if (!there && number != BAD)
        lki_fail(LK_EINVAL, "LK_AXES: a list of large numbers was made more than %d lists ago; make it again", KEPT);
    return a;
}

/* The index of a list in `held`; it is added if it is new. -1 without memory. */
static int64_t place_of(const lki_axes *a)
{
    int i = 0;
    while (i < held_count && memcmp(&held[i], a, sizeof *a) != 0)
        i++;
    if (i == held_count && !lki_grow((void **)&held, &held_room, held_count + 1, sizeof *held)) return -1;
    if (i == held_count) held[held_count++] = *a;
    return i;
}

lk_status lki_axes_hold(lk_axes *list)
{
    const lki_axes of = lki_axes_of(*list);
    lki_axes       a;
    memset(&a, 0, sizeof a); /* also the gap between members: they are compared by bytes */
    a.count = of.count;
    memcpy(a.value, of.value, sizeof a.value);
    if (!is_listed(*list) || ((*list >> COUNT_AT) & 7) || *list == listed(0, NONE) || of.count < 0) return LK_OK;
    LKI_HOLD(&axes_lock);
    const int64_t at = place_of(&a);
    if (at < 0) return LK_ENOMEM;
    *list = listed(0, HELD + at);
    return LK_OK;
}

/* The values in 53 bits, if they fit. */
static bool fit(const lki_axes *a, int64_t *payload)
{
    const int     bits = COUNT_AT / a->count;
    const int64_t most = ((int64_t)1 << (bits - 1)) - 1;
    *payload = 0;
    for (int i = 0; i < a->count; i++) {
        if (a->value[i] > most || a->value[i] < -most - 1) return false;
        *payload |= (a->value[i] & (((int64_t)1 << bits) - 1)) << (bits * i);
    }
    return true;
}

lk_axes lki_axes_list(const lki_axes *a)
{
    int64_t payload;
    if (a->count <= 0) return listed(0, a->count ? BAD : NONE);
    if (a->count == 1 && !is_listed(a->value[0]) && a->value[0] != LKI_ZERO_64) return a->value[0] ? a->value[0] : LKI_ZERO_64;
    if (a->count > 1 && fit(a, &payload)) return listed(a->count - 1, payload);
    return keep(a);
}

static lki_axes unpacked(int count, int64_t payload)
{
    const int bits = COUNT_AT / count, unused = 64 - bits;
    lki_axes  a = {.count = count};
    for (int i = 0; i < count; i++)
        a.value[i] = (int64_t)((uint64_t)payload >> (bits * i) << unused) >> unused;
    return a;
}

lki_axes lki_axes_of(lk_axes list)
{
    const int64_t payload = list & (((int64_t)1 << COUNT_AT) - 1);
    const int     count = (int)((list >> COUNT_AT) & 7) + 1;
    if (!list || list == listed(0, NONE)) return (lki_axes){0};
    if (!is_listed(list)) return (lki_axes){1, {list == LKI_ZERO_64 ? 0 : list}};
    return count > 1 ? unpacked(count, payload) : kept(payload);
}

int64_t lk_axes_from(int count, const int64_t *value)
{
    lki_axes a = {.count = count <= LK_MAX_RANK && (value || !count) ? count : -1};
    if (a.count < 0 && count > LK_MAX_RANK) lki_fail(LK_EINVAL, "LK_AXES: %d axes, at most %d are possible", count, LK_MAX_RANK);
    else if (a.count < 0) lki_fail(LK_EINVAL, "LK_AXES: %d axes, and no values", count);
    for (int i = 0; i < a.count; i++)
        a.value[i] = value[i];
    return lki_axes_list(&a);
}

int64_t lk_axes_of(int count, const int64_t *one_based) { return lk_axes_from(count, one_based ? one_based + 1 : NULL); }

int64_t lki_axes_given(int64_t axes, const char *text)
{
    const item it = {.value = text, .value_length = strlen(text)};
    return axes || is_literal(&it) ? axes : LKI_ZERO_64;
}
