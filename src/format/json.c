/* Reading JSON (json.h): recursive descent, at most 64 levels deep.
 *
 * Values of lists that are still open are on one stack; when a list closes, its values move to the arena of the document, side by
 * side. The document begins with its root, so the root is the handle of all of it. Numbers are read without the locale's decimal
 * point: "-12.5e3" is passed to strtod as "-125e2". */
#include "format/json.h"
#include "core/memory.h"
#include "core/rounding.h"
#include "format/utf8.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_DEPTH = 64,
    MAX_DIGITS = 800, /* distinguishing a double from its neighbours takes at most 767 digits */
    MAX_EXPONENT = 100000
};

typedef struct document {
    lki_json  root;
    lki_arena arena;
} document;

typedef struct parser {
    const char *name, *text, *end, *p;
    document   *document;
    lki_json   *waiting;
    int         count, room, depth;
} parser;

/* ---- refusals ---------------------------------------------------------------------------------------------------------------- */

typedef struct place {
    int64_t line, column;
} place;

static place place_of(const parser *p, const char *where)
{
    place here = {1, 1};
    for (const char *c = p->text; c < where; c++) {
        if (*c == '\n') here = (place){here.line + 1, 1};
        else here.column += ((unsigned char)*c & 0xc0) != 0x80; /* a character of several bytes counts once */
    }
    return here;
}

static lk_status refuse(const parser *p, const char *where, const char *what)
{
    const place here = place_of(p, where);
    return lki_fail(LK_EFORMAT, "%s: line %lld, column %lld: %s", p->name, (long long)here.line, (long long)here.column, what);
}

static lk_status expected(const parser *p, const char *what)
{
    char found[160];
    if (p->p == p->end) snprintf(found, sizeof found, "expected %s, but the text ends", what);
    else if (*p->p > ' ' && *p->p < 127) snprintf(found, sizeof found, "expected %s, found '%c'", what, *p->p);
    else snprintf(found, sizeof found, "expected %s, found byte 0x%02x", what, (unsigned char)*p->p);
    return refuse(p, p->p, found);
}

/* ---- characters -------------------------------------------------------------------------------------------------------------- */

static void skip_space(parser *p)
{
    while (p->p < p->end && (*p->p == ' ' || *p->p == '\n' || *p->p == '\r' || *p->p == '\t'))
        p->p++;
}

static char peek(const parser *p) { return p->p < p->end ? *p->p : 0; }

static bool take(parser *p, char c)
{
    if (p->p == p->end || *p->p != c) return false;
    p->p++;
    return true;
}

static bool take_word(parser *p, const char *word)
{
    const size_t size = strlen(word);
    if ((size_t)(p->end - p->p) < size || memcmp(p->p, word, size) != 0) return false;
    p->p += size;
    return true;
}

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

/* ---- strings ----------------------------------------------------------------------------------------------------------------- */

static lk_status read_hex(parser *p, uint32_t *out)
{
    *out = 0;
    for (int i = 0; i < 4; i++) {
        const char        c = peek(p);
        static const char digits[] = "0123456789abcdef0123456789ABCDEF";
        const char       *found = c ? strchr(digits, c) : NULL;
        if (!found) return expected(p, "four hexadecimal digits after \\u");
        *out = *out << 4 | (uint32_t)((found - digits) & 15);
        p->p++;
    }
    return LK_OK;
}

/* After "\u": one unit, or the two of a character beyond U+FFFF. */
static lk_status read_unicode(parser *p, char **to)
{
    const char *start = p->p - 2;
    uint32_t    c, low = 0;
    LKI_TRY(read_hex(p, &c));
    if (c == 0) return refuse(p, start, "a string with a zero character (\\u0000) is not supported");
    if (c >= 0xd800 && c < 0xdc00) {
        if (take_word(p, "\\u")) LKI_TRY(read_hex(p, &low));
        if (low < 0xdc00 || low > 0xdfff) return refuse(p, start, "half of a surrogate pair: the other half should follow");
        c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
    } else if (c >= 0xdc00 && c < 0xe000) return refuse(p, start, "the second half of a surrogate pair without the first");
    *to += lki_utf8_put(c, *to);
    return LK_OK;
}

static lk_status read_escape(parser *p, char **to)
{
    static const char name[] = "\"\\/bfnrt", meaning[] = "\"\\/\b\f\n\r\t";
    p->p++;
    if (take(p, 'u')) return read_unicode(p, to);
    const char *found = peek(p) ? strchr(name, *p->p) : NULL;
    if (!found) return expected(p, "one of \" \\ / b f n r t u after a backslash");
    *(*to)++ = meaning[found - name];
    p->p++;
    return LK_OK;
}

/* The end of the string that continues at `from`: its quote, or the end of the text. */
static const char *string_end(const parser *p, const char *from)
{
    const char *c = from;
    for (; c < p->end && *c != '"'; c++)
        if (*c == '\\' && c + 1 < p->end) c++;
    return c;
}

static lk_status read_plain(parser *p, char **to)
{
    const int size = lki_utf8_length(p->p, (size_t)(p->end - p->p));
    if ((unsigned char)*p->p < ' ') return refuse(p, p->p, "a control character in a string: should be written as \\u00..");
    if (!size) return refuse(p, p->p, "bytes that are not UTF-8");
    memcpy(*to, p->p, (size_t)size);
    *to += size;
    p->p += size;
    return LK_OK;
}

/* No escape is shorter than its character, so a string needs no more memory than its text. */
static lk_status read_string(parser *p, const char **out)
{
    if (!take(p, '"')) return expected(p, "a string");
    const char *last = string_end(p, p->p);
    if (last == p->end) return refuse(p, p->p - 1, "a string that does not end");
    char *to = lki_arena_alloc(&p->document->arena, (size_t)(last - p->p) + 1);
    if (!to) return LK_ENOMEM;
    *out = to;
    while (p->p < last)
        LKI_TRY(*p->p == '\\' ? read_escape(p, &to) : read_plain(p, &to));
    p->p = last + 1;
    return LK_OK;
}

/* ---- numbers ----------------------------------------------------------------------------------------------------------------- */

typedef struct decimal {
    char    digit[1 + MAX_DIGITS + 1 + 24]; /* sign, digits, one for all that were dropped, exponent */
    int     size;
    int64_t exponent;
    bool    dropped; /* some of the digits beyond MAX_DIGITS were not zero */
    bool    whole;
} decimal;

static void add_digit(decimal *d, char c, bool fraction)
{
    if (c == '0' && d->size == 1) d->exponent -= fraction; /* before all other digits */
    else if (d->size < MAX_DIGITS) {
        d->digit[d->size++] = c;
        d->exponent -= fraction;
    } else {
        d->dropped |= c != '0';
        d->exponent += !fraction;
    }
}

static lk_status read_digits(parser *p, decimal *d, bool fraction)
{
    if (!is_digit(peek(p))) return expected(p, "a digit");
    while (is_digit(peek(p)))
        add_digit(d, *p->p++, fraction);
    return LK_OK;
}

static lk_status read_exponent(parser *p, decimal *d)
{
    const bool minus = peek(p) == '-';
    int64_t    exponent = 0;
    if (minus || peek(p) == '+') p->p++;
    if (!is_digit(peek(p))) return expected(p, "a digit of the exponent");
    while (is_digit(peek(p))) {
        exponent = exponent * 10 + (*p->p++ - '0');
        if (exponent > INT64_MAX / 100) exponent = INT64_MAX / 100; /* out of range, whatever the digits are */
    }
    d->exponent += minus ? -exponent : exponent;
    return LK_OK;
}

static lk_status read_decimal(parser *p, decimal *d)
{
    *d = (decimal){.whole = true};
    d->digit[d->size++] = take(p, '-') ? '-' : '+';
    if (take(p, '0')) {
        add_digit(d, '0', false);
        if (is_digit(peek(p))) return refuse(p, p->p - 1, "a number with a zero in front");
    } else LKI_TRY(read_digits(p, d, false));
    if (take(p, '.')) {
        d->whole = false;
        LKI_TRY(read_digits(p, d, true));
    }
    if (take(p, 'e') || take(p, 'E')) {
        d->whole = false;
        LKI_TRY(read_exponent(p, d));
    }
    return LK_OK;
}

static bool fits_integer(const decimal *d, int64_t *out)
{
    uint64_t       x = 0;
    const bool     minus = d->digit[0] == '-';
    const uint64_t most = (uint64_t)INT64_MAX + minus;
    if (!d->whole || d->exponent) return false;
    for (int i = 1; i < d->size; i++) {
        const uint64_t digit = (uint64_t)(d->digit[i] - '0');
        if (x > (most - digit) / 10) return false;
        x = x * 10 + digit;
    }
    *out = minus ? (int64_t)(0 - x) : (int64_t)x;
    return true;
}

static double to_double(decimal *d)
{
    LKI_NEAREST;
    if (d->size == 1) d->digit[d->size++] = '0';
    if (d->dropped) {
        d->digit[d->size++] = '1';
        d->exponent--;
    }
    const int64_t exponent = lki_max(-MAX_EXPONENT, lki_min(MAX_EXPONENT, d->exponent));
    snprintf(d->digit + d->size, sizeof d->digit - (size_t)d->size, "e%d", (int)exponent);
    return strtod(d->digit, NULL);
}

static bool read_special(parser *p, lki_json *out)
{
    static const struct {
        const char *word;
        double      value;
    } special[] = {{"NaN", __builtin_nan("")}, {"Infinity", __builtin_inf()}, {"-Infinity", -__builtin_inf()}};
    for (int i = 0; i < LKI_COUNT(special); i++)
        if (take_word(p, special[i].word)) return out->number = special[i].value, true;
    return false;
}

static lk_status read_number(parser *p, lki_json *out)
{
    const char *start = p->p;
    decimal     d;
    out->type = LKI_JSON_NUMBER;
    if (read_special(p, out)) return LK_OK;
    LKI_TRY(read_decimal(p, &d));
    out->whole = fits_integer(&d, &out->integer);
    out->number = to_double(&d);
    if (__builtin_isinf(out->number)) return refuse(p, start, "a number beyond the range of a double (about 1.8e308)");
    return LK_OK;
}

/* ---- arrays and objects ------------------------------------------------------------------------------------------------------ */

static lk_status read_value(parser *p, lki_json *out);

static lk_status read_item(parser *p, bool object)
{
    lki_json v = {0};
    if (object) {
        const char *key = NULL;
        if (peek(p) != '"') return expected(p, "a key in quotes");
        LKI_TRY(read_string(p, &key));
        skip_space(p);
        if (!take(p, ':')) return expected(p, "':' after the key");
        v.key = key;
    }
    skip_space(p);
    LKI_TRY(read_value(p, &v));
    skip_space(p);
    if (!lki_grow((void **)&p->waiting, &p->room, p->count + 1, sizeof v)) return LK_ENOMEM;
    p->waiting[p->count++] = v;
    return LK_OK;
}

static lk_status close_list(parser *p, int first, lki_json *out)
{
    const size_t bytes = (size_t)(p->count - first) * sizeof(lki_json);
    out->count = p->count - first;
    p->count = first;
    if (!bytes) return LK_OK;
    lki_json *item = lki_arena_alloc(&p->document->arena, bytes);
    if (!item) return LK_ENOMEM;
    memcpy(item, p->waiting + first, bytes);
    out->item = item;
    return LK_OK;
}

static int by_text(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

static lk_status refuse_twins(const parser *p, const char *start, const lki_json *object)
{
    if (object->count < 2) return LK_OK;
    const char **key LKI_RELEASED = lki_alloc_array(object->count, sizeof *key);
    if (!key) return LK_ENOMEM;
    for (int i = 0; i < object->count; i++)
        key[i] = object->item[i].key;
    qsort(key, (size_t)object->count, sizeof *key, by_text);
    for (int i = 1; i < object->count; i++) {
        if (strcmp(key[i - 1], key[i]) != 0) continue;
        char what[160];
        snprintf(what, sizeof what, "the object that begins here has the key \"%.100s\" twice", key[i]);
        LKI_TRY(refuse(p, start, what));
    }
    return LK_OK;
}

static lk_status read_list(parser *p, lki_json *out)
{
    const char *start = p->p;
    const bool  object = *p->p++ == '{';
    const char  close = object ? '}' : ']';
    const int   first = p->count;
    out->type = object ? LKI_JSON_OBJECT : LKI_JSON_ARRAY;
    if (p->depth == MAX_DEPTH) return refuse(p, start, "more than 64 levels of brackets");
    p->depth++;
    skip_space(p);
    if (peek(p) != close) LKI_TRY(read_item(p, object));
    while (take(p, ',')) {
        skip_space(p);
        LKI_TRY(read_item(p, object));
    }
    if (!take(p, close)) return expected(p, object ? "',' or '}'" : "',' or ']'");
    p->depth--;
    LKI_TRY(close_list(p, first, out));
    return object ? refuse_twins(p, start, out) : LK_OK;
}

/* ---- values ------------------------------------------------------------------------------------------------------------------ */

static bool read_word(parser *p, lki_json *out)
{
    static const struct {
        const char   *word;
        lki_json_type type;
        bool          boolean;
    } words[] = {{"null", LKI_JSON_NULL, false}, {"true", LKI_JSON_BOOL, true}, {"false", LKI_JSON_BOOL, false}};
    for (int i = 0; i < LKI_COUNT(words); i++) {
        if (!take_word(p, words[i].word)) continue;
        out->type = words[i].type;
        out->boolean = words[i].boolean;
        return true;
    }
    return false;
}

static lk_status read_value(parser *p, lki_json *out)
{
    const char c = peek(p);
    if (c == '{' || c == '[') return read_list(p, out);
    if (c == '"') {
        out->type = LKI_JSON_STRING;
        return read_string(p, &out->text);
    }
    if (c == '-' || c == 'N' || c == 'I' || is_digit(c)) return read_number(p, out);
    return read_word(p, out) ? LK_OK : expected(p, "a value");
}

static lk_status read_document(parser *p)
{
    skip_space(p);
    LKI_TRY(read_value(p, &p->document->root));
    skip_space(p);
    return p->p == p->end ? LK_OK : expected(p, "the end of the text");
}

lk_status lki_json_parse(const char *name, const char *text, size_t size, const lki_json **out)
{
    parser p = {.name = name, .text = text, .end = text + size, .p = text};
    *out = NULL;
    p.document = lki_zalloc(sizeof *p.document);
    if (!p.document) return LK_ENOMEM;
    const lk_status status = read_document(&p);
    lki_release(p.waiting);
    if (status == LK_OK) *out = &p.document->root;
    else lki_json_free(&p.document->root);
    return status;
}

void lki_json_free(const lki_json *root)
{
    document *d = (document *)(uintptr_t)root; /* its first member; it is const only for readers */
    if (!d) return;
    lki_arena_clear(&d->arena);
    lki_release(d);
}

/* ---- looking at it ----------------------------------------------------------------------------------------------------------- */

const lki_json *lki_json_get(const lki_json *object, const char *key)
{
    if (!object || object->type != LKI_JSON_OBJECT) return NULL;
    for (int i = 0; i < object->count; i++)
        if (strcmp(object->item[i].key, key) == 0) return &object->item[i];
    return NULL;
}

const char *lki_json_kind(const lki_json *v)
{
    static const char *const kind[] = {"null", "a boolean", "a number", "a string", "an array", "an object"};
    return v ? kind[v->type] : "nothing";
}
