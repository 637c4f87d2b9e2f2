/* CSVLogger: a line per epoch, in a file that spreadsheets and pandas read.
 *
 *     epoch,accuracy,loss,val_accuracy,val_loss
 *     0,0.9368,0.2154,0.9751,0.0776
 *
 * Columns are the logs of the first epoch in alphabetical order. If the first epoch has no val_ logs, each log gets a val_ column,
 * so that later validation has a column. A value that is missing in an epoch is NA. Lines end in "\r\n", as Python's csv module
 * ends them.
 *
 * Invariants
 * 1. `all` is what the file has, or should have, after its first `before` bytes. If bytes cannot be written, writing is tried again
 *    after every epoch and at the end. Training continues, and one warning is given.
 * 2. A backup holds `all`, and the file is synced when the backup is made. A run that resumes from it compares the file with `all`:
 *    lines of epochs that will be repeated are cut off, and a file that is damaged, too short or missing is written again. */
#include "core/log.h"
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
    bool        header; /* still has to be written */
    bool        stale;  /* the file belongs to a run that may be resumed; it is emptied unless the state of that run is loaded */
    bool        warned; /* a warning that the file is incomplete was given */
    lki_logs    columns;
    int64_t     before;          /* bytes of the file that this run did not write */
    lki_text    all;             /* what comes after them */
    int         written, synced; /* of `all` */
} csv_logger;

/* ---- a line ------------------------------------------------------------------------------------------------------------------ */

/* A cell that contains the separator, a quote or a line end is put in quotes; quotes in it are doubled. */
static void put_cell(lki_text *l, char separator, bool first, const char *text)
{
    const char special[] = {separator, '"', '\r', '\n', 0}, between[] = {separator, 0};
    const bool quoted = strpbrk(text, special) != NULL;
    lki_text_put(l, "%s%s", first ? "" : between, quoted ? "\"" : "");
    for (; quoted && *text; text++)
        lki_text_put(l, *text == '"' ? "\"%c" : "%c", *text);
    lki_text_put(l, "%s", quoted ? "\"" : text);
}

/* ---- the file ---------------------------------------------------------------------------------------------------------------- */

/* Opening a pipe without a reader would block: it is refused (ENXIO). Returns -1 and sets errno on failure. */
static int open_file(const char *path, bool empty)
{
    const int file = lki_open(path, O_WRONLY | O_CREAT | O_APPEND | O_NONBLOCK | (empty ? O_TRUNC : 0));
    if (file >= 0) fcntl(file, F_SETFL, O_APPEND);
    return file;
}

static bool is_regular(const csv_logger *c, struct stat *s) { return fstat(c->file, s) == 0 && S_ISREG(s->st_mode); }

/* The file was removed: make it again, with all of its lines. */
static void open_again(csv_logger *c)
{
    struct stat s;
    if (c->before || !is_regular(c, &s) || s.st_nlink || lki_folder_make(c->path) != LK_OK) return;
    const int file = open_file(c->path, true);
    if (file < 0) return;
    close(c->file);
    c->file = file;
    c->written = c->synced = 0;
}

/* Write the bytes that are not written yet. Returns 0 or an errno. */
static int push(csv_logger *c)
{
    open_again(c);
    while (c->written < c->all.size) {
        const ssize_t n = write(c->file, c->all.data + c->written, (size_t)(c->all.size - c->written));
        if (n >= 0) c->written += (int)n;
        else if (errno != EINTR) return errno;
    }
    return 0;
}

/* A failing log never ends training. */
static void warn_once(csv_logger *c, int cause)
{
    if (cause && !c->warned)
        lki_warn("CSVLogger: %s is incomplete: %s; training continues, and missing lines are tried again", c->path,
                 strerror(cause));
    c->warned = c->warned || cause;
}

static lk_status push_or_warn(csv_logger *c)
{
    if (c->all.failed) return LK_ENOMEM;
    LKI_SCOPE_ERRORS;
    warn_once(c, push(c));
    lk_clear_error();
    return LK_OK;
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

static void put_header(csv_logger *c)
{
    put_cell(&c->all, c->separator, true, "epoch");
    for (int i = 0; i < c->columns.logs.count; i++)
        put_cell(&c->all, c->separator, false, c->columns.name[i]);
    lki_text_put(&c->all, "\r\n");
    c->header = false;
}

static bool has(const lk_logs *logs, const char *name)
{
    for (int i = 0; i < logs->count; i++)
        if (strcmp(logs->name[i], name) == 0) return true;
    return false;
}

/* ---- hooks ------------------------------------------------------------------------------------------------------------------- */

static void forget(csv_logger *c)
{
    lki_text_free(&c->all);
    c->written = c->synced = 0;
    c->before = 0;
}

/* A file that cannot be opened before training begins is an error, because nothing is lost yet. */
static lk_status begin(lk_callback *base, const lki_happening *h)
{
    csv_logger *c = (csv_logger *)base;
    struct stat s;
    lki_logs_clear(&c->columns);
    forget(c);
    if (c->file >= 0) close(c->file);
    LKI_TRY(lki_folder_make(c->path));
    c->stale = h->resumed && !c->append;
    c->warned = false;
    c->file = open_file(c->path, !c->append && !c->stale);
    if (c->file < 0)
        return lki_fail(LK_EIO, "CSVLogger: %s: %s", c->path, errno == ENXIO ? "a pipe without a reader" : strerror(errno));
    c->header = !is_regular(c, &s) || s.st_size == 0;
    if (c->append && !c->header) c->before = s.st_size;
    if (is_regular(c, &s)) lki_folder_try_sync(c->path);
    return LK_OK;
}

/* Cut the file to that length. A shorter file is not extended. */
static int cut_off(csv_logger *c, int64_t size)
{
    struct stat s;
    if (!is_regular(c, &s) || s.st_size <= size) return 0;
    return ftruncate(c->file, size) == 0 ? 0 : errno;
}

static void begin_anew(csv_logger *c)
{
    c->stale = false;
    c->header = true;
    forget(c);
    warn_once(c, cut_off(c, 0));
}

static lk_status epoch_end(lk_callback *base, const lki_happening *h)
{
    csv_logger   *c = (csv_logger *)base;
    const lk_logs logs = lki_logs_of(h);
    char          number[LKI_NUMBER_TEXT];
    if (c->stale) begin_anew(c);
    if (!c->columns.logs.count) LKI_TRY(choose_columns(c, &logs));
    if (c->header) put_header(c);
    snprintf(number, sizeof number, "%d", h->event.epoch);
    put_cell(&c->all, c->separator, true, number);
    for (int i = 0; i < c->columns.logs.count; i++) {
        const char *name = c->columns.name[i];
        put_cell(&c->all, c->separator, false, has(&logs, name) ? lki_number_text(lk_logs_get(&logs, name), number) : "NA");
    }
    lki_text_put(&c->all, "\r\n");
    return push_or_warn(c);
}

/* Sync only if bytes were written since the last sync: each call waits for the disk. */
static int sync_file(csv_logger *c)
{
    struct stat s;
    if (c->synced == c->written || !is_regular(c, &s)) return 0;
    if (lki_fsync(c->file) != 0) return errno;
    c->synced = c->written;
    return 0;
}

static lk_status end(lk_callback *base, const lki_happening *h)
{
    (void)h;
    csv_logger *c = (csv_logger *)base;
    if (c->file < 0) return LK_OK;
    const lk_status status = push_or_warn(c);
    warn_once(c, sync_file(c));
    warn_once(c, close(c->file) == 0 ? 0 : errno);
    c->file = -1;
    return status;
}

/* The lines of a backup must be on the disk when it is, so sync the file. If that fails, the backup still holds the lines. */
static void save(const lk_callback *base, lki_sink *s)
{
    const csv_logger *c = (const csv_logger *)base;
    if (c->file >= 0) sync_file((csv_logger *)(uintptr_t)c); /* changes only the note of what is synced */
    lki_state_put(s, c->before + c->all.size);
    lki_state_put(s, c->columns.logs.count);
    for (int i = 0; i < c->columns.logs.count; i++)
        lki_state_put_bytes(s, c->columns.name[i], strlen(c->columns.name[i]));
    lki_state_put_bytes(s, c->all.data, (size_t)c->all.size);
}

static lk_status load_column(csv_logger *c, const lki_wire *name)
{
    char text[256];
    snprintf(text, sizeof text, "%.*s", (int)lki_min(lki_wire_left(name), sizeof text - 1), (const char *)name->p);
    return lki_logs_set(&c->columns, text, 0);
}

/* Whether the file has what the backup says, whatever comes after it. */
static bool has_all(const csv_logger *c)
{
    lki_bytes file LKI_FREED_BY(lki_bytes_free) = {0};
    LKI_SCOPE_ERRORS;
    const bool   read = lki_file_read(c->path, &file) == LK_OK;
    const size_t size = (size_t)c->all.size, at = (size_t)c->before;
    const bool   same = read && file.size >= at && file.size - at >= size && (!size || !memcmp(file.data + at, c->all.data, size));
    lk_clear_error();
    return same;
}

static lk_status write_again(csv_logger *c)
{
    struct stat s;
    lki_warn("CSVLogger: %s has other lines than the backup, or fewer: it is written again from the backup", c->path);
    if (is_regular(c, &s)) c->before = lki_min(c->before, (int64_t)s.st_size);
    warn_once(c, cut_off(c, c->before));
    c->written = c->synced = 0;
    return push_or_warn(c);
}

/* Continue after the lines of the backup. */
static lk_status take_up(csv_logger *c, int64_t size, const lki_wire *text)
{
    struct stat s;
    forget(c);
    c->stale = false;
    c->before = size - (int64_t)lki_wire_left(text);
    if (lki_wire_left(text)) lki_text_add(&c->all, (const char *)text->p, (int)lki_wire_left(text));
    if (c->all.failed) return LK_ENOMEM;
    c->header = size == 0;
    c->written = c->all.size;
    if (!is_regular(c, &s)) return LK_OK;
    if (!has_all(c)) return write_again(c);
    warn_once(c, cut_off(c, size));
    return LK_OK;
}

static lk_status load(lk_callback *base, lki_wire *w)
{
    csv_logger   *c = (csv_logger *)base;
    const int64_t size = lki_state_get_within(w, 0, INT64_MAX), count = lki_state_get_within(w, 0, 4096);
    for (int64_t i = 0; i < count && !w->bad; i++) {
        const lki_wire name = lki_state_get_bytes(w);
        LKI_TRY(load_column(c, &name));
    }
    const lki_wire text = lki_wire_left(w) ? lki_state_get_bytes(w) : lki_wire_of(w->p, 0); /* none: an older backup */
    if (lki_wire_left(&text) > (size_t)lki_min(size, (int64_t)INT32_MAX)) w->bad = true;
    return w->bad || lki_wire_left(w) ? LK_OK : take_up(c, size, &text); /* the caller reports bad bytes */
}

static void destroy(lk_callback *base)
{
    csv_logger *c = (csv_logger *)base;
    if (c->file >= 0) close(c->file);
    lki_logs_free(&c->columns);
    lki_text_free(&c->all);
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
