/* Rows of numbers in files of comma-separated values (RFC 4180), plain or packed by gzip.
 *
 *     file --stream--> reader: bytes, with their line and column --> record: the fields of one line --> table: numbers and labels
 *
 * Invariants
 *  1. Of a file only one record is in memory as text, and it is bounded: MOST_TEXT bytes, MOST_FIELDS fields.
 *  2. A number is rounded once, from its decimal digits to f32, whatever the locale of the process is.
 *  3. Every error message begins with FILE:LINE:COLUMN, the position of the first character of the field it is about. */
#include "core/memory.h"
#include "core/rounding.h"
#include "data/data.h"
#include "data/words.h"
#include "dist/device.h"
#include "format/stream.h"
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { BUFFER = 64 << 10, MOST_TEXT = 16 << 20, MOST_FIELDS = 1 << 20, MOST_FILES = 1 << 22, SHOWN = 80 };
static const char *const CALL = "lk_csv_dataset";

/* ---- bytes ---- */

typedef struct reader {
    const char *path;
    lki_stream *stream;
    lk_status   status; /* the first failure */
    size_t      at, filled;
    int64_t     line, column; /* of the next byte, from 1 */
    char        delimiter;
    uint8_t     buffer[BUFFER];
} reader;

enum { END = -1 };

/* The next byte without consuming it; END at the file's end, and after a failure. */
static int look(reader *r)
{
    if (r->at < r->filled) return r->buffer[r->at];
    r->at = r->filled = 0;
    if (r->status == LK_OK) r->status = lki_stream_read(r->stream, r->buffer, BUFFER, &r->filled);
    return r->status == LK_OK && r->filled ? r->buffer[0] : END;
}

static void take(reader *r)
{
    if (r->buffer[r->at++] == '\n') {
        r->line++;
        r->column = 1;
    } else r->column++;
}

static bool is_blank(const reader *r, int c) { return (c == ' ' || c == '\t') && c != r->delimiter; }

static void skip_blanks(reader *r)
{
    while (is_blank(r, look(r)))
        take(r);
}

/* The byte after the next one; this may move the bytes in the buffer. */
static int look_further(reader *r)
{
    if (r->at + 1 == r->filled) {
        size_t more = 0;
        r->buffer[0] = r->buffer[r->at];
        r->at = 0;
        if (r->status == LK_OK) r->status = lki_stream_read(r->stream, r->buffer + 1, BUFFER - 1, &more);
        r->filled = 1 + more;
    }
    return r->at + 1 < r->filled ? r->buffer[r->at + 1] : END;
}

/* "\n", "\r\n", or a "\r" that ends the file. */
static bool at_line_end(reader *r)
{
    const int c = look(r), after = c == '\r' ? look_further(r) : 0;
    return c == '\n' || (c == '\r' && (after == '\n' || after == END));
}

static bool take_line_end(reader *r)
{
    if (!at_line_end(r)) return false;
    if (look(r) == '\r') take(r);
    if (look(r) == '\n') take(r);
    return true;
}

static lk_status reader_open(reader *r, const char *path, char delimiter)
{
    static const uint8_t mark[] = {0xef, 0xbb, 0xbf}; /* of UTF-8, as some programs begin a file */
    r->path = path;
    r->delimiter = delimiter;
    r->status = LK_OK;
    r->at = r->filled = 0;
    r->line = r->column = 1;
    LKI_TRY(lki_stream_open(path, LK_DEFAULT, &r->stream));
    look(r);
    if (r->filled >= sizeof mark && memcmp(r->buffer, mark, sizeof mark) == 0) r->at = sizeof mark;
    return r->status;
}

/* ---- records ---- */

typedef struct field {
    size_t  at; /* in the record's text, ended by a zero */
    int64_t line, column;
} field;

typedef struct record {
    char  *text;
    size_t size, room;
    field *field;
    int    count, capacity;
} record;

static void record_free(record *r)
{
    lki_release(r->text);
    lki_release(r->field);
}

static const char *text_of(const record *r, int i) { return r->text + r->field[i].at; }

static lk_status complain(const reader *r, int64_t line, int64_t column, const char *what)
{
    return lki_fail(LK_EFORMAT, "%s: %s:%lld:%lld: %s", CALL, r->path, (long long)line, (long long)column, what);
}

static lk_status add_char(reader *r, record *out, char c)
{
    if (!c) return complain(r, r->line, r->column, "a zero byte; it should be text, UTF-8 or ASCII");
    if (out->size + 2 > MOST_TEXT) return complain(r, r->line, r->column, "a line of more than 16 MiB; is a quote not closed?");
    if (out->size + 2 > out->room) {
        const size_t room = out->room ? 2 * out->room : 256;
        char        *text = lki_realloc(out->text, room);
        if (!text) return LK_ENOMEM;
        out->text = text;
        out->room = room;
    }
    out->text[out->size++] = c;
    return LK_OK;
}

static bool at_field_end(reader *r)
{
    const int c = look(r);
    return c == END || c == (unsigned char)r->delimiter || at_line_end(r);
}

/* Between quotes all characters are part of the field, line ends too; a quote is written twice. */
static lk_status read_quoted(reader *r, record *out, const field *f)
{
    take(r);
    for (;; take(r)) {
        const int c = look(r);
        if (c == END && r->status != LK_OK) return r->status;
        if (c == END) return complain(r, f->line, f->column, "this quote is not closed");
        if (c == '"') {
            take(r);
            if (look(r) != '"') break;
        }
        LKI_TRY(add_char(r, out, (char)c));
    }
    skip_blanks(r);
    return at_field_end(r) ? LK_OK : complain(r, r->line, r->column, "text after a closing quote; a quote inside is written twice");
}

static lk_status read_bare(reader *r, record *out, const field *f)
{
    for (; !at_field_end(r); take(r)) {
        if (look(r) == '"') return complain(r, r->line, r->column, "a quote inside a field that does not begin with one");
        LKI_TRY(add_char(r, out, (char)look(r)));
    }
    while (out->size > f->at && is_blank(r, (unsigned char)out->text[out->size - 1]))
        out->size--;
    return r->status;
}

static lk_status read_field(reader *r, record *out)
{
    if (out->count == MOST_FIELDS) return complain(r, r->line, r->column, "more than 2^20 fields in a line");
    if (!lki_grow((void **)&out->field, &out->capacity, out->count + 1, sizeof *out->field)) return LK_ENOMEM;
    skip_blanks(r);
    field *f = &out->field[out->count++];
    *f = (field){out->size, r->line, r->column};
    LKI_TRY(look(r) == '"' ? read_quoted(r, out, f) : read_bare(r, out, f));
    if (out->size == out->room) LKI_TRY(add_char(r, out, ' ')); /* room for the zero */
    else out->size++;
    out->text[out->size - 1] = 0;
    return LK_OK;
}

/* The next line that is not blank; *end: there is none. */
static lk_status read_record(reader *r, record *out, bool *end)
{
    out->size = 0;
    out->count = 0;
    do
        skip_blanks(r);
    while (take_line_end(r));
    *end = look(r) == END;
    while (!*end) {
        LKI_TRY(read_field(r, out));
        if (look(r) != (unsigned char)r->delimiter) break;
        take(r);
    }
    take_line_end(r);
    return r->status;
}

/* ---- which columns ---- */

typedef struct layout {
    int    fields; /* of every line; 0: no line was seen */
    char **name;   /* NULL: without header */
    int   *pick;   /* the columns that become numbers */
    int    picks;
    int    label; /* -1: none */
} layout;

static void layout_free(layout *l)
{
    for (int i = 0; l->name && i < l->fields; i++)
        lki_release(l->name[i]);
    lki_release(l->name);
    lki_release(l->pick);
}

/* "age", or #3 where there is no header; in `out`, which it returns. */
static const char *column_text(const layout *l, int i, char out[SHOWN])
{
    if (l->name) snprintf(out, SHOWN, "\"%.*s\"", SHOWN - 4, l->name[i]);
    else snprintf(out, SHOWN, "#%d", i);
    return out;
}

static const char *columns_text(const layout *l, char *out, size_t room)
{
    char one[SHOWN];
    out[0] = 0;
    for (int i = 0; i < l->fields && strlen(out) + SHOWN < room; i++)
        snprintf(out + strlen(out), room - strlen(out), "%s%s", i ? ", " : "", column_text(l, i, one));
    return out;
}

/* A column by its name, else by its number: "#0" is the first, "#-1" the last. */
static lk_status find_column(const char *path, const layout *l, const char *what, const char *asked, int *out)
{
    char names[512];
    *out = -1;
    for (int i = 0; l->name && i < l->fields; i++) {
        if (strcmp(l->name[i], asked) != 0) continue;
        if (*out >= 0)
            return lki_fail(LK_EINVAL, "%s: %s \"%s\": %s has two columns of that name; name it by number, \"#%d\" or \"#%d\"",
                            CALL, what, asked, path, *out, i);
        *out = i;
    }
    if (*out >= 0) return LK_OK;
    char *end = NULL;
    long  number = asked[0] == '#' ? strtol(asked + 1, &end, 10) : 0;
    if (end && end > asked + 1 && !*end && number >= -l->fields && number < l->fields) {
        *out = (int)(number < 0 ? number + l->fields : number);
        return LK_OK;
    }
    return lki_fail(LK_ENOTFOUND, "%s: %s \"%s\": %s has no such column; it has %s", CALL, what, asked, path,
                    columns_text(l, names, sizeof names));
}

static lk_status pick_columns(const char *path, const lk_csv_args *a, layout *l)
{
    l->label = -1;
    if (a->label) LKI_TRY(find_column(path, l, ".label", a->label, &l->label));
    l->pick = lki_alloc_array(a->columns.count ? a->columns.count : l->fields, sizeof *l->pick);
    if (!l->pick) return LK_ENOMEM;
    for (int i = 0; i < a->columns.count; i++)
        LKI_TRY(find_column(path, l, ".columns", a->columns.item[i], &l->pick[l->picks++]));
    for (int i = 0; !a->columns.count && i < l->fields; i++)
        if (i != l->label) l->pick[l->picks++] = i;
    return l->picks ? LK_OK : lki_fail(LK_EINVAL, "%s: %s has no column but the label", CALL, path);
}

static lk_status note_names(const record *r, layout *l)
{
    l->name = lki_zalloc_array(r->count, sizeof *l->name);
    for (int i = 0; l->name && i < r->count; i++)
        if (!(l->name[i] = lki_strdup(text_of(r, i)))) return LK_ENOMEM;
    return l->name ? LK_OK : LK_ENOMEM;
}

/* The first line of the first file determines the layout of all others. */
static lk_status begin_layout(const reader *f, const lk_csv_args *a, const record *r, layout *l)
{
    l->fields = r->count;
    if (a->header != LK_OFF) LKI_TRY(note_names(r, l));
    return pick_columns(f->path, a, l);
}

static lk_status check_names(const reader *f, const record *r, const layout *l)
{
    char names[512];
    bool same = r->count == l->fields;
    for (int i = 0; same && i < l->fields; i++)
        same = strcmp(text_of(r, i), l->name[i]) == 0;
    if (same) return LK_OK;
    return lki_fail(LK_EFORMAT, "%s: %s:1: names other columns than the first file, which has %s", CALL, f->path,
                    columns_text(l, names, sizeof names));
}

/* ---- numbers ---- */

typedef enum verdict { FINE, NO_NUMBER, TOO_LARGE, NOT_FINITE } verdict;

static const char *skip_digits(const char *p)
{
    while (*p >= '0' && *p <= '9')
        p++;
    return p;
}

/* Decimal, as programs write it: no hexadecimal digits, nothing after. */
static bool is_decimal(const char *text)
{
    const char *p = text + (*text == '+' || *text == '-'), *digits = p;
    if (strcasecmp(p, "nan") == 0 || strcasecmp(p, "inf") == 0 || strcasecmp(p, "infinity") == 0) return true;
    p = skip_digits(p);
    bool some = p > digits;
    if (*p == '.') {
        digits = ++p;
        p = skip_digits(p);
        some = some || p > digits;
    }
    if (some && (*p == 'e' || *p == 'E')) {
        p += 1 + (p[1] == '+' || p[1] == '-');
        digits = p;
        p = skip_digits(p);
        some = p > digits;
    }
    return some && !*p;
}

static verdict read_f32(const char *text, float *out)
{
    int whole = 0, digits = 0;
    for (; digits < 8 && text[digits] >= '0' && text[digits] <= '9'; digits++)
        whole = 10 * whole + (text[digits] - '0');
    *out = (float)whole;
    if (digits && digits < 8 && !text[digits]) return FINE; /* below 2^24: exact */
    *out = NAN;
    if (!*text) return FINE;
    if (!is_decimal(text)) return NO_NUMBER;
    *out = strtof(text, NULL);
    const bool named = strpbrk(text, "nN") != NULL; /* nan, inf */
    return isinf(*out) && !named ? TOO_LARGE : FINE;
}

/* Whole: written without a point, or with nothing after it, and exact in 64 bits. */
static bool read_i64(const char *text, int64_t *out)
{
    const char  *digits = text + (*text == '+' || *text == '-'), *end = skip_digits(digits);
    const double value = strtod(text, NULL);
    if (end > digits && !*end && value > -0x1p63 && value < 0x1p63) return *out = strtoll(text, NULL, 10), true;
    if (!(fabs(value) <= 0x1p53 && value == floor(value))) return false;
    *out = (int64_t)value;
    return true;
}

/* ---- the table ---- */

typedef struct table {
    int64_t   rows, room;
    float    *x;           /* [rows, picks] */
    float    *label;       /* where some are not whole */
    int64_t  *whole_label; /* or numbers of words */
    bool      all_whole;
    lki_words words;
} table;

static void table_free(table *t)
{
    lki_words_free(&t->words);
    lki_release(t->x);
    lki_release(t->label);
    lki_release(t->whole_label);
}

static bool grow(void **mem, size_t bytes)
{
    void *more = lki_realloc(*mem, bytes);
    if (more) *mem = more;
    return more;
}

/* Wide rows begin with room for few, so that a file of one line takes no more memory than its numbers. */
static lk_status table_room(table *t, const layout *l)
{
    if (t->rows < t->room) return LK_OK;
    const int64_t room = lki_max(1 + 16384 / l->picks, t->room + t->room / 2 + 1);
    const size_t  n = (size_t)room;
    if (!grow((void **)&t->x, n * (size_t)l->picks * sizeof *t->x)) return LK_ENOMEM;
    if (l->label >= 0 && !grow((void **)&t->label, n * sizeof *t->label)) return LK_ENOMEM;
    if (l->label >= 0 && !grow((void **)&t->whole_label, n * sizeof *t->whole_label)) return LK_ENOMEM;
    t->room = room;
    return LK_OK;
}

/* ---- rows ---- */

static lk_status bad_field(const reader *f, const layout *l, const record *r, int i, const char *what)
{
    char column[SHOWN];
    return lki_fail(LK_EFORMAT, "%s: %s:%lld:%lld: column %s: \"%.*s\" %s", CALL, f->path, (long long)r->field[i].line,
                    (long long)r->field[i].column, column_text(l, i, column), SHOWN, text_of(r, i), what);
}

static lk_status add_number(const reader *f, const lk_csv_args *a, const layout *l, const record *r, int i, float *out)
{
    static const char *const why[] = {[NO_NUMBER] = "is not a number",
                                      [TOO_LARGE] = "is too large for f32",
                                      [NOT_FINITE] = "is missing or infinite; it should be a finite number"};
    verdict                  v = read_f32(text_of(r, i), out);
    if (v == FINE && a->finite == LK_ON && !isfinite(*out)) v = NOT_FINITE;
    return v == FINE ? LK_OK : bad_field(f, l, r, i, why[v]);
}

static lk_status add_label(const reader *f, const lk_csv_args *a, const layout *l, const record *r, table *t)
{
    const int   i = l->label;
    const char *text = text_of(r, i);
    if (!*text) return bad_field(f, l, r, i, "is not a label: it is empty");
    if (a->text_labels == LK_ON) return lki_words_number(&t->words, text, &t->whole_label[t->rows]);
    LKI_TRY(add_number(f, a, l, r, i, &t->label[t->rows]));
    if (t->all_whole) t->all_whole = read_i64(text, &t->whole_label[t->rows]);
    return LK_OK;
}

static lk_status add_row(const reader *f, const lk_csv_args *a, const layout *l, const record *r, table *t)
{
    if (r->count != l->fields)
        return lki_fail(LK_EFORMAT, "%s: %s:%lld: %d fields; the first line has %d", CALL, f->path, (long long)r->field[0].line,
                        r->count, l->fields);
    LKI_TRY(table_room(t, l));
    for (int k = 0; k < l->picks; k++)
        LKI_TRY(add_number(f, a, l, r, l->pick[k], &t->x[t->rows * l->picks + k]));
    if (l->label >= 0) LKI_TRY(add_label(f, a, l, r, t));
    t->rows++;
    return LK_OK;
}

static lk_status read_rows(reader *f, const lk_csv_args *a, layout *l, record *r, table *t)
{
    bool end, first = true;
    for (;; first = false) {
        LKI_TRY(read_record(f, r, &end));
        if (end && first && a->header != LK_OFF)
            return lki_fail(LK_EFORMAT,
                            "%s: %s: is empty; its first line should name the columns (.header = LK_OFF: there is none)", CALL,
                            f->path);
        if (end) return LK_OK;
        const bool names = first && a->header != LK_OFF;
        if (!l->fields) LKI_TRY(begin_layout(f, a, r, l));
        else if (names) LKI_TRY(check_names(f, r, l));
        if (!names) LKI_TRY(add_row(f, a, l, r, t));
    }
}

static lk_status read_files(const lk_csv_args *a, layout *l, table *t)
{
    record    r = {0};
    lk_status status = LK_OK;
    reader   *f LKI_RELEASED = lki_alloc(sizeof *f);
    if (!f) return LK_ENOMEM;
    for (int i = 0; i < a->files.count && status == LK_OK; i++) {
        f->stream = NULL;
        status = reader_open(f, a->files.item[i], a->delimiter ? a->delimiter : ',');
        if (status == LK_OK) status = read_rows(f, a, l, &r, t);
        lki_stream_close(f->stream);
    }
    record_free(&r);
    if (status == LK_OK && !l->fields) status = lki_fail(LK_EFORMAT, "%s: %s: it has no rows", CALL, a->files.item[0]);
    return status;
}

/* In the locale "C", where the decimal point is a point. */
static lk_status read_table(const lk_csv_args *a, layout *l, table *t)
{
    locale_t plain = newlocale(LC_NUMERIC_MASK, "C", (locale_t)0);
    if (plain == (locale_t)0) return lki_fail(LK_ENOMEM, "%s: no memory for a locale", CALL);
    locale_t        before = uselocale(plain);
    const lk_status status = read_files(a, l, t);
    uselocale(before);
    freelocale(plain);
    return status;
}

/* ---- the dataset ---- */

/* Words get numbers in alphabetical order, and become the classes of the dataset. */
static lk_status name_classes(table *t, lk_names *classes)
{
    const int    count = t->words.count;
    int64_t     *rank LKI_RELEASED = lki_alloc_array(count, sizeof *rank);
    const char **text LKI_RELEASED = lki_alloc_array(count, sizeof *text);
    if (rank && text) lki_words_sort(&t->words, text, rank);
    for (int64_t i = 0; rank && text && i < t->rows; i++)
        t->whole_label[i] = rank[t->whole_label[i]];
    *classes = rank && text ? lki_names_new(count, text, LKI_LIVES_BY_REFERENCE) : (lk_names){-1, NULL};
    return classes->count >= 0 ? LK_OK : LK_ENOMEM;
}

static lk_dataset *dataset_of(const layout *l, const table *t)
{
    lk_dataset *d = NULL;
    LK_STEP {
        lk_tensor *x = lk_tensor_from(LK_SHAPE(t->rows, l->picks), LK_F32, t->x ? t->x : (const float[1]){0}), *y = NULL;
        const bool whole = t->all_whole;
        if (l->label >= 0)
            y = lk_tensor_from(LK_SHAPE(t->rows), whole ? LK_I64 : LK_F32,
                               !t->room ? (const void *)(const int64_t[1]){0}
                               : whole  ? (const void *)t->whole_label
                                        : t->label);
        if (!lki_bad(x) && (l->label < 0 || !lki_bad(y)))
            d = lk_dataset_from_tensor_slices(lk_tuple_from(l->label >= 0 ? 2 : 1, (lk_tensor *const[]){x, y}));
    }
    return d;
}

static lk_status check(const lk_csv_args *a)
{
    if (a->files.count < 0 || a->columns.count < 0) return lki_fail(LK_ENOMEM, "%s: no memory for a list of names", CALL);
    if (a->files.count == 0 || !a->files.item || a->files.count > MOST_FILES)
        return lki_fail(LK_EINVAL, "%s: %d files; give 1 to %d with .files = LK_FILES(...)", CALL, a->files.count, MOST_FILES);
    for (int i = 0; i < a->files.count; i++)
        if (!a->files.item[i]) return lki_fail(LK_EINVAL, "%s: file %d is NULL", CALL, i);
    for (int i = 0; i < a->columns.count; i++)
        if (!a->columns.item[i]) return lki_fail(LK_EINVAL, "%s: column %d is NULL", CALL, i);
    if (a->delimiter && strchr("\"\r\n", a->delimiter))
        return lki_fail(LK_EINVAL, "%s: .delimiter is a quote or the end of a line; ',', ';' or '\\t' would do", CALL);
    if (a->text_labels == LK_ON && !a->label) return lki_fail(LK_EINVAL, "%s: .text_labels, but no .label says which column", CALL);
    return LK_OK;
}

lk_dataset *lk_csv_dataset_kw(lk_csv_args a)
{
    LKI_NEAREST;
    LKI_SCOPE_ERRORS;
    layout      l LKI_FREED_BY(layout_free) = {0};
    table       t LKI_FREED_BY(table_free) = {.all_whole = true};
    lk_names    classes = {0};
    lk_dataset *d = NULL;
    if (check(&a) != LK_OK) return NULL;
    lk_status status = read_table(&a, &l, &t);
    if (status == LK_OK && a.text_labels == LK_ON) status = name_classes(&t, &classes);
    if (status == LK_OK) d = dataset_of(&l, &t);
    if (d) d->classes = classes;
    else lki_names_drop(classes);
    return d;
}
