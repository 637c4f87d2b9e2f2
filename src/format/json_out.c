/* Writing JSON (json.h), in the form of Python's json.dumps: ASCII only, reals as repr() writes them.
 *
 * The separator before a value depends on what was written last: a comma after a value, nothing after a key, a new line (when
 * pretty) after a bracket. Reals are written digit by digit, so that the locale's decimal point is not used. */
#include "core/memory.h"
#include "core/number.h"
#include "core/rounding.h"
#include "format/json.h"
#include "format/utf8.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- text that grows --------------------------------------------------------------------------------------------------------- */

static bool make_room(lki_json_out *o, size_t more)
{
    if (o->failed) return false;
    if (o->room - o->size > more) return true;
    const size_t room = o->room * 2 + more + 128;
    char        *text = lki_realloc(o->text, room);
    o->failed = !text;
    if (!text) return false;
    o->text = text;
    o->room = room;
    return true;
}

static void put(lki_json_out *o, const char *text, size_t size)
{
    if (!make_room(o, size)) return;
    memcpy(o->text + o->size, text, size);
    o->size += size;
    o->text[o->size] = 0;
}

static void put_text(lki_json_out *o, const char *text) { put(o, text, strlen(text)); }

static void put_line(lki_json_out *o)
{
    put(o, "\n", 1);
    for (int i = 0; i < o->depth; i++)
        put(o, "  ", 2);
}

static char last(const lki_json_out *o) { return o->size ? o->text[o->size - 1] : 0; }

static void begin(lki_json_out *o)
{
    const bool behind_key = !o->comma && last(o) == ' ';
    if (o->comma) put_text(o, o->pretty ? "," : ", ");
    if (o->pretty && o->depth && !behind_key) put_line(o);
    o->comma = true;
}

/* ---- values ------------------------------------------------------------------------------------------------------------------ */

void lki_json_open(lki_json_out *o, char bracket)
{
    begin(o);
    put(o, &bracket, 1);
    o->depth++;
    o->comma = false;
}

void lki_json_close(lki_json_out *o, char bracket)
{
    const bool object = bracket == '{' || bracket == '}', empty = !o->comma;
    o->depth--;
    if (o->pretty && !empty) put_line(o);
    put_text(o, object ? "}" : "]");
    o->comma = true;
}

/* The character at p, as \uXXXX or as two of them; bytes that are not a character become U+FFFD. Returns the bytes used. */
static int put_escaped(lki_json_out *o, const char *p)
{
    const int      size = lki_utf8_length(p, strnlen(p, 4));
    const uint32_t c = size ? lki_utf8_get(p, size) : 0xfffd;
    char           text[16];
    if (c < 0x10000) snprintf(text, sizeof text, "\\u%04x", (unsigned)c);
    else snprintf(text, sizeof text, "\\u%04x\\u%04x", (unsigned)(0xd7c0 + (c >> 10)), (unsigned)(0xdc00 + (c & 0x3ff)));
    put_text(o, text);
    return size ? size : 1;
}

static int put_short_escape(lki_json_out *o, char c)
{
    static const char meaning[] = "\"\\\b\f\n\r\t", name[] = "\"\\bfnrt";
    const char       *found = strchr(meaning, c);
    if (!found) return 0;
    put(o, (char[]){'\\', name[found - meaning]}, 2);
    return 1;
}

static void put_string(lki_json_out *o, const char *text)
{
    put(o, "\"", 1);
    while (*text) {
        size_t plain = 0;
        while (text[plain] >= ' ' && text[plain] < 127 && text[plain] != '"' && text[plain] != '\\')
            plain++;
        put(o, text, plain);
        text += plain;
        if (*text && put_short_escape(o, *text)) text++;
        else if (*text) text += put_escaped(o, text);
    }
    put(o, "\"", 1);
}

void lki_json_key(lki_json_out *o, const char *key)
{
    begin(o);
    put_string(o, key);
    put(o, ": ", 2);
    o->comma = false;
}

void lki_json_literal(lki_json_out *o, const char *json)
{
    begin(o);
    put_text(o, json);
}

void lki_json_text(lki_json_out *o, const char *utf8)
{
    begin(o);
    if (utf8) put_string(o, utf8);
    else put_text(o, "null");
}

void lki_json_bool(lki_json_out *o, bool value) { lki_json_literal(o, value ? "true" : "false"); }
void lki_json_null(lki_json_out *o) { lki_json_literal(o, "null"); }

void lki_json_int(lki_json_out *o, int64_t value)
{
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)value);
    lki_json_literal(o, text);
}

/* ---- reals ------------------------------------------------------------------------------------------------------------------- */

typedef struct decimal {
    char digit[20]; /* the value is 0.digits * 10^point */
    int  count, point;
} decimal;

static decimal rounded(double value, int digits)
{
    LKI_NEAREST;
    char    text[40];
    decimal d = {.count = 0};
    lki_format(text, sizeof text, "%.*e", digits - 1, value);
    for (const char *c = text; *c != 'e'; c++)
        if (*c >= '0' && *c <= '9') d.digit[d.count++] = *c;
    d.point = atoi(strchr(text, 'e') + 1) + 1;
    return d;
}

static bool reads_as(const decimal *d, double value)
{
    LKI_NEAREST;
    char text[40];
    snprintf(text, sizeof text, "%.*se%d", d->count, d->digit, d->point - d->count);
    return strtod(text, NULL) == value;
}

/* The next larger number with as many digits; false if a digit would have to be carried. */
static bool step_up(decimal *d)
{
    char *last_digit = &d->digit[d->count - 1];
    return *last_digit < '9' ? ++*last_digit, true : false;
}

/* The fewest digits that read back as the same number. Above a power of two doubles are wider apart than below: there the next
 * larger decimal may read back although the nearest one does not. */
static decimal shortest(double value)
{
    for (int digits = 1; digits < 17; digits++) {
        decimal d = rounded(value, digits);
        if (reads_as(&d, value) || (step_up(&d) && reads_as(&d, value))) return d;
    }
    return rounded(value, 17);
}

/* As repr() in Python: plain from 1e-4 up to 1e16, with an exponent outside. */
static void real_text(double value, char *text, size_t size)
{
    const decimal d = shortest(__builtin_fabs(value));
    const char   *sign = __builtin_signbit(value) ? "-" : "", zeros[] = "0000000000000000";
    if (d.point <= -4 || d.point > 16)
        snprintf(text, size, "%s%c%s%.*se%+03d", sign, d.digit[0], d.count > 1 ? "." : "", d.count - 1, d.digit + 1, d.point - 1);
    else if (d.point <= 0) snprintf(text, size, "%s0.%.*s%.*s", sign, -d.point, zeros, d.count, d.digit);
    else if (d.point >= d.count) snprintf(text, size, "%s%.*s%.*s.0", sign, d.count, d.digit, d.point - d.count, zeros);
    else snprintf(text, size, "%s%.*s.%.*s", sign, d.point, d.digit, d.count - d.point, d.digit + d.point);
}

void lki_json_real(lki_json_out *o, double value)
{
    char text[48];
    if (__builtin_isfinite(value)) real_text(value, text, sizeof text);
    const char *special = __builtin_isnan(value) ? "NaN" : value < 0 ? "-Infinity" : "Infinity";
    lki_json_literal(o, __builtin_isfinite(value) ? text : special);
}

/* ---- trees ------------------------------------------------------------------------------------------------------------------- */

static void copy_items(lki_json_out *o, const lki_json *list)
{
    const char bracket = list->type == LKI_JSON_OBJECT ? '{' : '[';
    lki_json_open(o, bracket);
    for (int i = 0; i < list->count; i++) {
        if (bracket == '{') lki_json_key(o, list->item[i].key);
        lki_json_copy(o, &list->item[i]);
    }
    lki_json_close(o, bracket);
}

void lki_json_copy(lki_json_out *o, const lki_json *value)
{
    switch (value->type) {
    case LKI_JSON_NULL: lki_json_null(o); break;
    case LKI_JSON_BOOL: lki_json_bool(o, value->boolean); break;
    case LKI_JSON_NUMBER: value->whole ? lki_json_int(o, value->integer) : lki_json_real(o, value->number); break;
    case LKI_JSON_STRING: lki_json_text(o, value->text); break;
    case LKI_JSON_ARRAY:
    case LKI_JSON_OBJECT: copy_items(o, value); break;
    }
}

void lki_json_out_free(lki_json_out *o)
{
    lki_release(o->text);
    *o = (lki_json_out){0};
}
