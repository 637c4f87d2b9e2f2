/* Reads a history from a file that lk_csv_logger() wrote. The first line has names, the first of which is "epoch"; every further
 * line has the numbers of one epoch. */
#define _GNU_SOURCE /* strtod_l */
#include "core/memory.h"
#include "core/rounding.h"
#include "fit/history.h"
#include "format/stream.h"
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_COLUMNS = 256 };

typedef struct table {
    const char *path;
    int         line, columns;
    char       *name[MOST_COLUMNS]; /* pointers into a copy of `head` */
    char       *head;               /* the first line, with its separators */
    locale_t    numbers;            /* has a point as the decimal point */
} table;

/* Cuts a line at its separators. Returns the number of fields. */
static int cut(char *text, char separator, char **field)
{
    int count = 0;
    for (char *at = text; at && count < MOST_COLUMNS; count++) {
        field[count] = at;
        at = strchr(at, separator);
        if (at) *at++ = 0;
    }
    return count;
}

static lk_status not_a_history(const table *t, const char *why)
{
    return lki_fail(LK_EFORMAT,
                    "lk_history_read: %s, line %d: %s; the file must be as lk_csv_logger() writes it: a line with \"epoch\" and "
                    "the names of values, then lines with numbers",
                    t->path, t->line, why);
}

static char separator_of(const char *head)
{
    const char *end = strncmp(head, "epoch", 5) ? NULL : head + 5;
    return end && *end ? *end : ',';
}

static lk_status add_epoch(const table *t, char *text, lk_history *h)
{
    char       *field[MOST_COLUMNS], *end;
    double      value[MOST_COLUMNS];
    const char *name[MOST_COLUMNS];
    int         count = cut(text, separator_of(t->head), field), known = 0;
    if (count != t->columns) return not_a_history(t, "the number of fields differs from the number of names");
    for (int i = 0; i < count; i++) {
        bool   missing = !*field[i] || !strcmp(field[i], "NA");
        double v = missing ? NAN : strtod_l(field[i], &end, t->numbers);
        if (!missing && *end) return not_a_history(t, "a field is not a number");
        if (missing || i == 0) continue;
        name[known] = t->name[i];
        value[known++] = v;
    }
    double epoch = strtod_l(field[0], &end, t->numbers);
    if (*end || !(epoch >= 0 && epoch < 1e9)) return not_a_history(t, "the first field is not an epoch number");
    return lki_history_add(h, (int)epoch, &(lk_logs){known, name, value});
}

static lk_status next_line(table *t, lki_stream *s, lki_bytes *line, char **text)
{
    bool end;
    LKI_TRY(lki_stream_line(s, line, &end));
    *text = NULL;
    if (end) return LK_OK;
    t->line++;
    *text = lki_alloc(line->size + 1);
    if (!*text) return LK_ENOMEM;
    if (line->size) memcpy(*text, line->data, line->size);
    (*text)[line->size] = 0;
    return LK_OK;
}

static lk_status read_all(table *t, lki_stream *s, lk_history *h)
{
    lki_bytes line LKI_FREED_BY(lki_bytes_free) = {0};
    char     *text = NULL;
    lk_status status = next_line(t, s, &line, &t->head);
    if (status == LK_OK && (!t->head || strncmp(t->head, "epoch", 5))) {
        t->line = 1;
        status = not_a_history(t, "the line does not begin with \"epoch\"");
    }
    char  separator = t->head ? separator_of(t->head) : ',';
    char *copy LKI_RELEASED = status == LK_OK ? lki_strdup(t->head) : NULL;
    if (status == LK_OK && !copy) status = LK_ENOMEM;
    if (status == LK_OK) t->columns = cut(copy, separator, t->name);
    while (status == LK_OK && (status = next_line(t, s, &line, &text)) == LK_OK && text) {
        if (*text) status = add_epoch(t, text, h);
        lki_release(text);
    }
    lki_release(t->head);
    return status;
}

lk_history *lk_history_read(const char *path)
{
    LKI_NEAREST;
    LKI_SCOPE_ERRORS;
    table       t = {.path = path};
    lki_stream *s = NULL;
    if (!path) return lki_fail(LK_EINVAL, "lk_history_read: the path is NULL"), NULL;
    if (lki_stream_open(path, LK_DEFAULT, &s) != LK_OK) return NULL;
    lk_history *h = lki_history_new();
    t.numbers = newlocale(LC_NUMERIC_MASK, "C", (locale_t)0);
    lk_status status = !h || !t.numbers ? LK_ENOMEM : read_all(&t, s, h);
    if (t.numbers) freelocale(t.numbers);
    lki_stream_close(s);
    if (status == LK_OK) return h;
    lk_free(h);
    return NULL;
}
