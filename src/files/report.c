/* Facts and tables, and their two forms (report.h). */
#include "files/report.h"
#include "core/number.h"
#include "core/shape.h"
#include "format/utf8.h"
#include "format/wire.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- putting in ---- */

void lki_report_free(lki_report *r)
{
    for (int i = 0; i < r->tables; i++)
        lki_release(r->table[i].line);
    lki_release(r->fact);
    lki_arena_clear(&r->memory);
    *r = (lki_report){0};
}

static char *copy(lki_report *r, const char *text)
{
    if (!text) return NULL;
    const size_t n = strlen(text);
    char        *own = lki_arena_alloc(&r->memory, n + 1);
    r->failed = r->failed || !own;
    return own ? memcpy(own, text, n) : NULL;
}

void lki_report_kind(lki_report *r, const char *kind) { r->kind = kind; }

static void add_fact(lki_report *r, const char *key, lki_fact f)
{
    f.key = copy(r, key);
    if (f.key && lki_grow((void **)&r->fact, &r->fact_room, r->facts + 1, sizeof *r->fact)) r->fact[r->facts++] = f;
    else r->failed = true;
}

void lki_report_text(lki_report *r, const char *key, const char *text)
{
    char *own = copy(r, text);
    if (own) add_fact(r, key, (lki_fact){.text = own});
}

void lki_report_whole(lki_report *r, const char *key, int64_t value)
{
    add_fact(r, key, (lki_fact){.whole = true, .integer = value, .real = (double)value});
}

void lki_report_real(lki_report *r, const char *key, double value) { add_fact(r, key, (lki_fact){.real = value}); }

void lki_report_table(lki_report *r, const char *what)
{
    if (r->tables < LKI_MOST_TABLES) r->table[r->tables++] = (lki_report_lines){.what = what};
}

lki_report_line *lki_report_line_add(lki_report *r, const char *name, const char *type, const char *note)
{
    static _Thread_local lki_report_line nowhere;
    if (!r->tables) lki_report_table(r, "lines");
    lki_report_lines *t = &r->table[r->tables - 1];
    lki_report_line   l = {.name = copy(r, name), .type = copy(r, type), .note = copy(r, note), .shape = {.rank = -1}, .bytes = -1};
    if (!l.name || !lki_grow((void **)&t->line, &t->room, t->count + 1, sizeof *t->line)) return r->failed = true, &nowhere;
    t->line[t->count] = l;
    return &t->line[t->count++];
}

void lki_report_array(lki_report *r, const char *name, const char *type, const lk_shape *shape, int64_t bytes)
{
    lki_report_line *l = lki_report_line_add(r, name, type, NULL);
    l->shape = *shape;
    l->bytes = bytes;
}

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

/* If both have a number, compare the numbers: without leading zeros the longer one is larger. */
static int by_numbers(const char *a, const char *b)
{
    a += strspn(a, "0");
    b += strspn(b, "0");
    const size_t x = strspn(a, "0123456789"), y = strspn(b, "0123456789");
    return x != y ? (x < y ? -1 : 1) : memcmp(a, b, x);
}

static int by_name(const void *left, const void *right)
{
    const char *const first = ((const lki_report_line *)left)->name, *const second = ((const lki_report_line *)right)->name;
    const char *a = first, *b = second;
    while (*a || *b) {
        const bool numbers = is_digit(*a) && is_digit(*b);
        const int  order = numbers ? by_numbers(a, b) : (unsigned char)*a - (unsigned char)*b;
        if (order) return order;
        a += numbers ? strspn(a, "0123456789") : 1;
        b += numbers ? strspn(b, "0123456789") : 1;
    }
    return strcmp(first, second);
}

void lki_report_sort(lki_report *r)
{
    lki_report_lines *t = &r->table[r->tables - 1];
    if (!r->failed && t->count) qsort(t->line, (size_t)t->count, sizeof *t->line, by_name);
}

void lki_report_arrays(lki_report *r, const lki_arrays *a)
{
    for (int i = 0; i < a->notes; i++)
        lki_report_text(r, a->note[i].key, a->note[i].value);
    lki_report_table(r, "arrays");
    for (int i = 0; i < a->count; i++) {
        const lki_named *n = &a->item[i];
        const int64_t    bytes =
            lki_size_mul(lki_shape_size(&n->array.shape), n->stored ? n->stored_bytes : (int64_t)lk_dtype_bytes(n->array.dtype));
        lki_report_array(r, n->name, n->stored ? n->stored : lk_dtype_name(n->array.dtype), &n->array.shape, bytes);
    }
    if (a->left) lki_report_whole(r, "other_things", a->left);
}

/* ---- sums ---- */

typedef struct sums {
    int64_t values, bytes;
    bool    has_values, has_bytes;
} sums;

static sums sums_of(const lki_report_lines *t)
{
    sums s = {0};
    for (int i = 0; i < t->count; i++) {
        const lki_report_line *l = &t->line[i];
        if (l->bytes >= 0) s.has_bytes = true, s.bytes += l->bytes;
        if (l->shape.rank >= 0 && !l->texts) s.has_values = true, s.values += lki_shape_size(&l->shape);
    }
    return s;
}

/* ---- for people ---- */

static void put(lki_sink *s, const char *text) { lki_sink_bytes(s, text, strlen(text)); }

/* The text, without characters that would move a cursor or are not UTF-8. */
static size_t put_clean(lki_sink *s, const char *text)
{
    const bool utf8 = lki_utf8_valid(text, strlen(text));
    size_t     shown = 0;
    for (; *text; text++) {
        const unsigned char c = (unsigned char)*text;
        const bool          plain = c >= ' ' && c != 127 && (c < 128 || utf8);
        lki_sink_bytes(s, plain ? text : "?", 1);
        shown += (c & 0xc0) != 0x80;
    }
    return shown;
}

/* Up to `width`, at least one. */
static void put_spaces(lki_sink *s, size_t shown, size_t width)
{
    do
        lki_sink_bytes(s, " ", 1);
    while (++shown < width);
}

static void put_format(lki_sink *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void put_format(lki_sink *s, const char *format, ...)
{
    char    text[256];
    va_list list;
    va_start(list, format);
    lki_vformat(text, sizeof text, format, list);
    va_end(list);
    put(s, text);
}

/* 180000 as "180,000". */
static void put_commas(lki_sink *s, int64_t n)
{
    char      digits[24];
    const int length = snprintf(digits, sizeof digits, "%lld", (long long)n);
    for (int i = 0; i < length; i++) {
        if (i && (length - i) % 3 == 0 && digits[i - 1] != '-') put(s, ",");
        lki_sink_bytes(s, &digits[i], 1);
    }
}

static size_t widest(size_t a, const char *text)
{
    const size_t n = text ? strlen(text) : 0;
    return n > a ? n : a;
}

enum { WIDEST_NAME = 72, WIDEST_TYPE = 24 };
static size_t at_most(size_t a, size_t b) { return a < b ? a : b; }

static void put_fact(lki_sink *s, const lki_fact *f, size_t width)
{
    put_spaces(s, put_clean(s, f->key), width + 2);
    if (f->text) put_clean(s, f->text);
    else if (f->whole) put_commas(s, f->integer);
    else put_format(s, "%.9g", f->real);
    put(s, "\n");
}

static void put_line(lki_sink *s, const lki_report_line *l, size_t name, size_t type)
{
    char shape[LKI_SHAPE_TEXT];
    put(s, "  ");
    put_spaces(s, put_clean(s, l->name), name + 2);
    if (type) put_spaces(s, put_clean(s, l->type ? l->type : ""), type + 1);
    if (l->shape.rank >= 0) put_format(s, " %s", lki_shape_text(&l->shape, shape));
    if (l->bytes >= 0) {
        put(s, l->shape.rank >= 0 ? ", " : " ");
        put_commas(s, l->bytes);
        put(s, l->bytes == 1 ? " byte" : " bytes");
    }
    if (l->note) put(s, l->bytes >= 0 || l->shape.rank >= 0 ? ", " : " "), put_clean(s, l->note);
    put(s, "\n");
}

static void put_table(lki_sink *s, const lki_report_lines *t)
{
    const sums total = sums_of(t);
    size_t     name = 0, type = 0;
    for (int i = 0; i < t->count; i++) {
        name = widest(name, t->line[i].name);
        type = widest(type, t->line[i].type);
    }
    put_format(s, "%s\n", t->what);
    for (int i = 0; i < t->count; i++)
        put_line(s, &t->line[i], at_most(name, WIDEST_NAME), at_most(type, WIDEST_TYPE));
    put(s, "  ");
    put_commas(s, t->count);
    put_format(s, " %.*s", (int)strlen(t->what) - (t->count == 1), t->what);
    if (total.has_values) put(s, ", "), put_commas(s, total.values), put(s, total.values == 1 ? " value" : " values");
    if (total.has_bytes) put(s, ", "), put_commas(s, total.bytes), put(s, total.bytes == 1 ? " byte" : " bytes");
    put(s, "\n");
}

static char *finished(const lki_report *r, lki_sink *s)
{
    lki_sink_bytes(s, "", 1);
    if (!s->failed && !r->failed) return (char *)s->data;
    lki_sink_free(s);
    return NULL;
}

char *lki_report_for_people(const lki_report *r, const char *file)
{
    lki_sink s = {0};
    size_t   width = 0;
    put_clean(&s, file);
    put_format(&s, ": %s\n", r->kind);
    for (int i = 0; i < r->facts; i++)
        width = widest(width, r->fact[i].key);
    for (int i = 0; i < r->facts; i++)
        put_fact(&s, &r->fact[i], at_most(width, 24));
    for (int i = 0; i < r->tables; i++)
        put_table(&s, &r->table[i]);
    return finished(r, &s);
}

/* ---- for programs ---- */

/* Keys of files may be equal to ours: those are put below "notes". */
static bool is_own_key(const lki_report *r, int at)
{
    static const char *const OWN[] = {"file", "kind", "total", "notes"};
    const char              *key = r->fact[at].key;
    for (int i = 0; i < LKI_COUNT(OWN); i++)
        if (strcmp(key, OWN[i]) == 0) return true;
    for (int i = 0; i < r->tables; i++)
        if (strcmp(key, r->table[i].what) == 0) return true;
    for (int i = 0; i < at; i++)
        if (strcmp(key, r->fact[i].key) == 0) return true;
    return false;
}

static void write_fact(lki_json_out *o, const lki_fact *f)
{
    lki_json_key(o, f->key);
    if (f->text) lki_json_text(o, f->text);
    else if (f->whole) lki_json_int(o, f->integer);
    else lki_json_real(o, f->real);
}

static void write_line(lki_json_out *o, const lki_report_line *l)
{
    lki_json_open(o, '{');
    lki_json_key(o, "name");
    lki_json_text(o, l->name);
    if (l->type) lki_json_key(o, "type"), lki_json_text(o, l->type);
    if (l->shape.rank >= 0) {
        lki_json_key(o, "shape");
        lki_json_open(o, '[');
        for (int i = 0; i < l->shape.rank; i++)
            lki_json_int(o, l->shape.dim[i]);
        lki_json_close(o, ']');
    }
    if (l->bytes >= 0) lki_json_key(o, "bytes"), lki_json_int(o, l->bytes);
    if (l->note) lki_json_key(o, "note"), lki_json_text(o, l->note);
    lki_json_close(o, '}');
}

static void write_table(lki_json_out *o, const lki_report_lines *t)
{
    lki_json_key(o, t->what);
    lki_json_open(o, '[');
    for (int i = 0; i < t->count; i++)
        write_line(o, &t->line[i]);
    lki_json_close(o, ']');
}

static void write_totals(lki_json_out *o, const lki_report *r)
{
    int64_t values = 0, bytes = 0;
    bool    any_values = false, any_bytes = false;
    lki_json_key(o, "total");
    lki_json_open(o, '{');
    for (int i = 0; i < r->tables; i++) {
        const sums s = sums_of(&r->table[i]);
        values += s.values;
        bytes += s.bytes;
        any_values = any_values || s.has_values;
        any_bytes = any_bytes || s.has_bytes;
        lki_json_key(o, r->table[i].what);
        lki_json_int(o, r->table[i].count);
    }
    if (any_values) lki_json_key(o, "values"), lki_json_int(o, values);
    if (any_bytes) lki_json_key(o, "bytes"), lki_json_int(o, bytes);
    lki_json_close(o, '}');
}

static void write_foreign(lki_json_out *o, const lki_report *r)
{
    int count = 0;
    for (int i = 0; i < r->facts; i++)
        count += is_own_key(r, i);
    if (!count) return;
    lki_json_key(o, "notes");
    lki_json_open(o, '[');
    for (int i = 0; i < r->facts; i++) {
        if (!is_own_key(r, i)) continue;
        lki_json_open(o, '{');
        write_fact(o, &r->fact[i]);
        lki_json_close(o, '}');
    }
    lki_json_close(o, ']');
}

char *lki_report_for_programs(const lki_report *r, const char *file)
{
    lki_json_out o = {0};
    lki_json_open(&o, '{');
    lki_json_key(&o, "file");
    lki_json_text(&o, file);
    lki_json_key(&o, "kind");
    lki_json_text(&o, r->kind);
    for (int i = 0; i < r->facts; i++)
        if (!is_own_key(r, i)) write_fact(&o, &r->fact[i]);
    write_foreign(&o, r);
    for (int i = 0; i < r->tables; i++)
        write_table(&o, &r->table[i]);
    if (r->tables) write_totals(&o, r);
    lki_json_close(&o, '}');
    if (!o.failed && !r->failed) return o.text;
    lki_json_out_free(&o);
    return NULL;
}
