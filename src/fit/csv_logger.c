/* CSVLogger: a line per epoch, in a file that spreadsheets and pandas read.
 *
 *     epoch,accuracy,loss,val_accuracy,val_loss
 *     0,0.9368,0.2154,0.9751,0.0776
 *
 * Columns are the logs of the first epoch in alphabetical order. Where that one has no val_ logs, there is a val_ column for each, so that
 * validation that comes later has its place; what is missing in an epoch is NA. Lines end in "\r\n", as Python's csv module ends them, and
 * are on the disk when their epoch is over. A run that goes on from a backup cuts off the lines of epochs that are done again. */
#include "core/memory.h"
#include "fit/callback.h"
#include "fit/text.h"
#include "format/durable.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct csv_logger {
    lk_callback base;
    char       *path;
    char        separator;
    bool        append;
    int         file;   /* -1: closed */
    bool        header; /* is still to be written */
    bool        stale;  /* what is in the file belongs to a run that may go on; unless its state is loaded, it is removed */
    lki_logs    columns;
} csv_logger;

/* ---- a line ------------------------------------------------------------------------------------------------------------------ */

/* In quotes where it has the separator, a quote or a line end in it; quotes are doubled. */
static void put_cell(lki_text *l, char separator, const char *text)
{
    const char special[] = {separator, '"', '\r', '\n', 0}, between[] = {separator, 0};
    const bool quoted = strpbrk(text, special) != NULL;
    lki_text_put(l, "%s%s", l->size ? between : "", quoted ? "\"" : "");
    for (; quoted && *text; text++)
        lki_text_put(l, *text == '"' ? "\"%c" : "%c", *text);
    lki_text_put(l, "%s", quoted ? "\"" : text);
}

static lk_status write_line(const csv_logger *c, lki_text *l)
{
    lk_status status = LK_OK;
    lki_text_put(l, "\r\n");
    if (l->failed) status = LK_ENOMEM;
    for (int done = 0; done < l->size && status == LK_OK;) {
        const ssize_t n = write(c->file, l->data + done, (size_t)(l->size - done));
        if (n > 0) done += (int)n;
        else if (n < 0 && errno != EINTR) status = lki_fail(LK_EIO, "CSVLogger: %s: %s", c->path, strerror(errno));
    }
    lki_text_free(l);
    return status;
}

/* ---- columns ----------------------------------------------------------------------------------------------------------------- */

static int by_name(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static lk_status choose_columns(csv_logger *c, const lk_logs *logs)
{
    bool validated = false;
    for (int i = 0; i < logs->count; i++) {
        LKI_TRY(lki_logs_set(&c->columns, logs->name[i], 0));
        validated = validated || strncmp(logs->name[i], "val_", 4) == 0;
    }
    const int count = c->columns.logs.count;
    if (count) qsort(c->columns.name, (size_t)count, sizeof *c->columns.name, by_name);
    for (int i = 0; i < count && !validated; i++) {
        char name[256];
        snprintf(name, sizeof name, "val_%s", c->columns.name[i]);
        LKI_TRY(lki_logs_set(&c->columns, name, 0));
    }
    return LK_OK;
}

static lk_status write_header(csv_logger *c)
{
    lki_text l = {0};
    put_cell(&l, c->separator, "epoch");
    for (int i = 0; i < c->columns.logs.count; i++)
        put_cell(&l, c->separator, c->columns.name[i]);
    c->header = false;
    return write_line(c, &l);
}

static bool has(const lk_logs *logs, const char *name)
{
    for (int i = 0; i < logs->count; i++)
        if (strcmp(logs->name[i], name) == 0) return true;
    return false;
}

/* ---- hooks ------------------------------------------------------------------------------------------------------------------- */

static lk_status begin(lk_callback *base, const lki_happening *h)
{
    csv_logger *c = (csv_logger *)base;
    struct stat s;
    lki_logs_clear(&c->columns);
    if (c->file >= 0) close(c->file);
    LKI_TRY(lki_folder_make(c->path));
    c->stale = h->resumed && !c->append;
    c->file = open(c->path, O_WRONLY | O_CREAT | O_CLOEXEC | O_APPEND | (c->append || c->stale ? 0 : O_TRUNC), 0666);
    if (c->file < 0) return lki_fail(LK_EIO, "CSVLogger: %s: %s", c->path, strerror(errno));
    c->header = fstat(c->file, &s) != 0 || s.st_size == 0;
    return LK_OK;
}

/* At most so long: a file that is shorter, or no file, stays what it is. */
static lk_status cut_off(csv_logger *c, int64_t size)
{
    struct stat s;
    if (fstat(c->file, &s) == 0 && (!S_ISREG(s.st_mode) || s.st_size <= size)) return LK_OK;
    return ftruncate(c->file, size) == 0 ? LK_OK : lki_fail(LK_EIO, "CSVLogger: %s: %s", c->path, strerror(errno));
}

static lk_status begin_anew(csv_logger *c)
{
    c->stale = false;
    c->header = true;
    return cut_off(c, 0);
}

static lk_status epoch_end(lk_callback *base, const lki_happening *h)
{
    csv_logger   *c = (csv_logger *)base;
    const lk_logs logs = lki_logs_of(h);
    lki_text      l = {0};
    char          number[LKI_NUMBER_TEXT];
    if (c->stale) LKI_TRY(begin_anew(c));
    if (!c->columns.logs.count) LKI_TRY(choose_columns(c, &logs));
    if (c->header) LKI_TRY(write_header(c));
    snprintf(number, sizeof number, "%d", h->event.epoch);
    put_cell(&l, c->separator, number);
    for (int i = 0; i < c->columns.logs.count; i++) {
        const char *name = c->columns.name[i];
        put_cell(&l, c->separator, has(&logs, name) ? lki_number_text(lk_logs_get(&logs, name), number) : "NA");
    }
    return write_line(c, &l);
}

static lk_status end(lk_callback *base, const lki_happening *h)
{
    (void)h;
    csv_logger *c = (csv_logger *)base;
    const int   failed = c->file >= 0 && close(c->file) != 0;
    c->file = -1;
    return failed ? lki_fail(LK_EIO, "CSVLogger: %s: %s", c->path, strerror(errno)) : LK_OK;
}

static void save(const lk_callback *base, lki_sink *s)
{
    const csv_logger *c = (const csv_logger *)base;
    const off_t       size = c->file >= 0 ? lseek(c->file, 0, SEEK_END) : -1;
    lki_state_put(s, size < 0 ? INT64_MAX : size);
    lki_state_put(s, c->columns.logs.count);
    for (int i = 0; i < c->columns.logs.count; i++)
        lki_state_put_bytes(s, c->columns.name[i], strlen(c->columns.name[i]));
}

static lk_status load_column(csv_logger *c, const lki_wire *name)
{
    char text[256];
    snprintf(text, sizeof text, "%.*s", (int)lki_min(lki_wire_left(name), sizeof text - 1), (const char *)name->p);
    return lki_logs_set(&c->columns, text, 0);
}

/* Of a file that is not there any more nothing is cut off: it begins anew. */
static lk_status load(lk_callback *base, lki_wire *w)
{
    csv_logger   *c = (csv_logger *)base;
    const int64_t size = lki_state_get_within(w, 0, INT64_MAX), count = lki_state_get_within(w, 0, 4096);
    for (int64_t i = 0; i < count && !w->bad; i++) {
        const lki_wire name = lki_state_get_bytes(w);
        LKI_TRY(load_column(c, &name));
    }
    if (w->bad || lki_wire_left(w)) return LK_OK; /* the caller tells */
    c->stale = false;
    if (!size) c->header = true;
    return cut_off(c, size);
}

static void destroy(lk_callback *base)
{
    csv_logger *c = (csv_logger *)base;
    if (c->file >= 0) close(c->file);
    lki_logs_free(&c->columns);
    lki_release(c->path);
}

static const lki_callback_kind CSV_LOGGER = {
    .name = "CSVLogger",
    .bytes = sizeof(csv_logger),
    .on = {[LKI_HOOK_train_begin] = begin, [LKI_HOOK_epoch_end] = epoch_end, [LKI_HOOK_train_end] = end},
    .destroy = destroy,
    .save = save,
    .load = load,
};

lk_callback *lk_csv_logger_kw(lk_csv_logger_args args)
{
    const char *separator = args.separator ? args.separator : ",";
    if (!args.filename || !*args.filename) {
        lki_fail(LK_EINVAL, "lk_csv_logger: filename is missing; say lk_csv_logger(\"training.csv\")");
        return NULL;
    }
    if (strlen(separator) != 1 || strchr("\"\r\n", *separator)) {
        lki_fail(LK_EINVAL, "lk_csv_logger: separator \"%s\"; it should be one character, such as \",\" or \"\\t\"", separator);
        return NULL;
    }
    csv_logger *c = lki_callback_new(&CSV_LOGGER);
    if (!c) return NULL;
    c->file = -1;
    c->separator = *separator;
    c->append = args.append == LK_ON;
    if ((c->path = lki_strdup(args.filename))) return &c->base;
    lk_free(c);
    return NULL;
}
