/* Sources in files: TFRecords, lines of text, records of a fixed length. An element is a record's bytes.
 *
 * Invariants
 *  1. At most one file is open, and one more for elements that are read again.
 *  2. `at` is where the next record begins, in unpacked bytes: this is what a saved iterator stores.
 *  3. A record of a plain file is identified by a number, file << 40 | offset, and can be read again; one of a packed file is saved
 *     by value. */
#include "core/memory.h"
#include "data/data.h"
#include "data/save.h"
#include "format/tfrecord.h"
#include <string.h>

typedef enum record_kind { TFRECORD, LINE, FIXED } record_kind;

typedef struct files_node {
    lk_dataset  base;
    record_kind kind;
    int         count;
    char      **path;
    lk_switch   gzip;
    int64_t     record, header, footer; /* FIXED: bytes */
} files_node;

typedef struct reader { /* of one file */
    lki_stream *stream; /* NULL: none is open */
    int         file;
    uint64_t    at;
    lki_bytes   tail; /* FIXED: the last bytes read, which may be the footer */
} reader;

typedef struct files_state {
    reader    main, again;
    int       file; /* the next to open, when none is */
    lki_bytes record;
} files_state;

/* ---- one file ---- */

static void reader_close(reader *r)
{
    lki_stream_close(r->stream);
    lki_bytes_free(&r->tail);
    *r = (reader){0};
}

/* Continue at a record. The footer's bytes are read ahead, because only the end of the file shows which they are. */
static lk_status reader_seek(const files_node *n, reader *r, uint64_t at)
{
    size_t got;
    LKI_TRY(lki_stream_seek(r->stream, at));
    r->at = at;
    r->tail.size = 0;
    if (!n->footer) return LK_OK;
    LKI_TRY(lki_stream_append(r->stream, &r->tail, (size_t)n->footer, &got));
    if (got == (size_t)n->footer) return LK_OK;
    return lki_fail(LK_EFORMAT, "%s: ends within the footer of %lld bytes", n->path[r->file], (long long)n->footer);
}

static lk_status reader_open(const files_node *n, reader *r, int file)
{
    reader_close(r);
    r->file = file;
    LKI_TRY(lki_stream_open(n->path[file], n->gzip, &r->stream));
    return n->kind == FIXED ? reader_seek(n, r, (uint64_t)n->header) : LK_OK;
}

static lk_status read_fixed(const files_node *n, reader *r, lki_bytes *out, bool *end)
{
    size_t got;
    out->size = 0;
    if (!out->data && !(out->data = lki_alloc((size_t)(n->record + n->footer)))) return LK_ENOMEM;
    memcpy(out->data, r->tail.data ? r->tail.data : out->data, r->tail.size);
    LKI_TRY(lki_stream_read(r->stream, out->data + n->footer, (size_t)n->record, &got));
    *end = got == 0;
    if (*end) return LK_OK;
    if (got < (size_t)n->record)
        return lki_fail(LK_EFORMAT, "%s: %zu bytes are left over after the record at byte %llu; records have %lld",
                        n->path[r->file], got, (unsigned long long)r->at, (long long)n->record);
    if (n->footer) memcpy(r->tail.data, out->data + n->record, (size_t)n->footer);
    out->size = (size_t)n->record;
    return LK_OK;
}

static lk_status read_record(const files_node *n, reader *r, lki_bytes *out, bool *end)
{
    LKI_TRY(n->kind == TFRECORD ? lki_tfrecord_read(r->stream, out, end)
            : n->kind == LINE   ? lki_stream_line(r->stream, out, end)
                                : read_fixed(n, r, out, end));
    r->at = lki_stream_position(r->stream) - r->tail.size;
    return LK_OK;
}

/* ---- elements ---- */

enum { OFFSET_BITS = 40, MOST_FILES = 1 << 22 };

static lk_status element_of(const files_node *n, const reader *r, uint64_t at, const lki_bytes *record, lki_element *out)
{
    lk_shape  shape = {1, {(int64_t)record->size}};
    lki_block step LKI_FREED_BY(lki_step_leave) = lki_step_enter();
    if (!step.owner) return LK_ENOMEM;
    lk_tensor *t = lki_tensor_new(LK_U8, &shape);
    if (!lki_bad(t) && record->size) memcpy(t->data, record->data, record->size);
    *out = lki_element_alone(lki_bad(t) ? NULL : lki_rowset_plain(LKI_ALONE, 1, &t));
    if (!out->set) return LK_ENOMEM;
    if (!lki_stream_packed(r->stream) && at >> OFFSET_BITS == 0) {
        out->set->home = &n->base;
        out->set->first = (int64_t)((uint64_t)r->file << OFFSET_BITS | at);
    }
    return LK_OK;
}

/* The files of this worker. */
static int first_file(const lki_cursor *c) { return c->pipeline->workers ? c->pipeline->worker : 0; }
static int next_file(const lki_cursor *c, int file) { return file + (c->pipeline->workers ? c->pipeline->workers : 1); }

static lk_status files_begin(lki_cursor *c)
{
    ((files_state *)c->state)->file = first_file(c);
    return LK_OK;
}

static void files_stop(lki_cursor *c)
{
    files_state *st = c->state;
    reader_close(&st->main);
    reader_close(&st->again);
    lki_bytes_free(&st->record);
}

static lk_status files_next(lki_cursor *c, int64_t want, lki_element *out, int64_t *got)
{
    const files_node *n = (const files_node *)c->dataset;
    files_state      *st = c->state;
    while (*got < want) {
        bool end;
        if (!st->main.stream && st->file >= n->count) break;
        if (!st->main.stream) LKI_TRY(reader_open(n, &st->main, st->file));
        const uint64_t at = st->main.at;
        LKI_TRY(read_record(n, &st->main, &st->record, &end));
        if (end) {
            st->file = next_file(c, st->main.file);
            reader_close(&st->main);
            continue;
        }
        LKI_TRY(element_of(n, &st->main, at, &st->record, &out[*got]));
        ++*got;
    }
    return LK_OK;
}

static void files_save(lki_cursor *c, lki_saver *s)
{
    const files_state *st = c->state;
    lki_save_number(s, st->main.stream != NULL);
    lki_save_number(s, (uint64_t)(st->main.stream ? st->main.file : st->file));
    if (st->main.stream) lki_save_number(s, st->main.at);
}

static lk_status files_restore(lki_cursor *c, lki_loader *l)
{
    const files_node *n = (const files_node *)c->dataset;
    files_state      *st = c->state;
    uint64_t          open, file, at;
    LKI_TRY(lki_load_at_most(l, 1, &open));
    LKI_TRY(lki_load_at_most(l, (uint64_t)n->count + (open ? 0 : (uint64_t)MOST_FILES), &file));
    st->file = (int)file;
    if (!open) return LK_OK;
    LKI_TRY(lki_load_number(l, &at));
    if (file >= (uint64_t)n->count)
        return lki_fail(LK_EFORMAT, "lk_iterator_restore: file %llu of %d", (unsigned long long)file, n->count);
    LKI_TRY(reader_open(n, &st->main, (int)file));
    return reader_seek(n, &st->main, at);
}

static lk_status files_again(lki_cursor *c, int64_t number, lki_element *out)
{
    const files_node *n = (const files_node *)c->dataset;
    reader           *r = &((files_state *)c->state)->again;
    const int64_t     file = number >> OFFSET_BITS;
    const uint64_t    at = (uint64_t)number & (((uint64_t)1 << OFFSET_BITS) - 1);
    lki_bytes         record LKI_FREED_BY(lki_bytes_free) = {0};
    bool              end = false;
    if (file < 0 || file >= n->count)
        return lki_fail(LK_EFORMAT, "lk_iterator_restore: file %lld of %d", (long long)file, n->count);
    if (!r->stream || r->file != file) LKI_TRY(reader_open(n, r, (int)file));
    LKI_TRY(reader_seek(n, r, at));
    LKI_TRY(read_record(n, r, &record, &end));
    if (end) return lki_fail(LK_EFORMAT, "%s: has no record at byte %llu any more", n->path[file], (unsigned long long)at);
    return element_of(n, r, at, &record, out);
}

static int64_t files_cardinality(const lk_dataset *d)
{
    (void)d;
    return LK_UNKNOWN;
}

static lk_status files_spec(lk_dataset *d, lk_element_spec *out)
{
    const files_node *n = (const files_node *)d;
    *out = (lk_element_spec){.count = 1, .dtype = {LK_U8}, .shape = {{1, {n->kind == FIXED ? n->record : -1}}}};
    return LK_OK;
}

static void files_destroy(lk_dataset *d)
{
    files_node *n = (files_node *)d;
    for (int i = 0; n->path && i < n->count; i++)
        lki_release(n->path[i]);
    lki_release(n->path);
}

#define FILES_OPS(call)                                                                                                            \
    {                                                                                                                              \
        .name = call, .state_bytes = sizeof(files_state), .begin = files_begin, .next = files_next, .stop = files_stop,            \
        .save = files_save, .restore = files_restore, .again = files_again, .cardinality = files_cardinality, .spec = files_spec,  \
        .destroy = files_destroy                                                                                                   \
    }
static const lki_dataset_ops kinds[] = {[TFRECORD] = FILES_OPS("lk_tfrecord_dataset"),
                                        [LINE] = FILES_OPS("lk_text_line_dataset"),
                                        [FIXED] = FILES_OPS("lk_fixed_length_record_dataset")};

/* ---- making ---- */

static lk_status check(const char *call, record_kind kind, const lk_files_args *a)
{
    if (a->files.count < 0) return lki_fail(LK_ENOMEM, "%s: no memory for the list of files", call);
    if (a->files.count == 0 || !a->files.item || a->files.count > MOST_FILES)
        return lki_fail(LK_EINVAL, "%s: %d files; give 1 to %d with .files = LK_FILES(...)", call, a->files.count, MOST_FILES);
    for (int i = 0; i < a->files.count; i++)
        if (!a->files.item[i]) return lki_fail(LK_EINVAL, "%s: file %d is NULL", call, i);
    if (kind != FIXED && (a->record_bytes || a->header_bytes || a->footer_bytes))
        return lki_fail(LK_EINVAL, "%s: .record_bytes, .header_bytes and .footer_bytes are for lk_fixed_length_record_dataset()",
                        call);
    if (kind == FIXED && (a->record_bytes < 1 || a->record_bytes > INT32_MAX || a->header_bytes < 0 || a->footer_bytes < 0 ||
                          a->footer_bytes > INT32_MAX))
        return lki_fail(
            LK_EINVAL,
            "%s: records of %lld bytes, a header of %lld, a footer of %lld; records must have 1 or more, the others 0 or more",
            call, (long long)a->record_bytes, (long long)a->header_bytes, (long long)a->footer_bytes);
    return LK_OK;
}

static lk_dataset *files_new(record_kind kind, const lk_files_args *a)
{
    LKI_SCOPE_ERRORS;
    const lki_dataset_ops *ops = &kinds[kind];
    if (check(ops->name, kind, a) != LK_OK) return NULL;
    files_node *n = lki_dataset_new(ops, sizeof *n, 0, NULL);
    if (!n) return NULL;
    n->kind = kind;
    n->gzip = a->gzip;
    n->record = a->record_bytes;
    n->header = a->header_bytes;
    n->footer = a->footer_bytes;
    n->path = lki_zalloc_array(a->files.count, sizeof *n->path);
    for (bool good = n->path; good && n->count < a->files.count; n->count++)
        good = (n->path[n->count] = lki_strdup(a->files.item[n->count])) != NULL;
    if (!n->path || !n->path[a->files.count - 1]) return lk_free(n), NULL;
    n->base.print = lki_mix(lki_mix((uint64_t)n->count, (uint64_t)n->record), lki_mix((uint64_t)n->header, (uint64_t)n->footer));
    return &n->base;
}

lk_dataset *lk_tfrecord_dataset_kw(lk_files_args a) { return files_new(TFRECORD, &a); }
lk_dataset *lk_text_line_dataset_kw(lk_files_args a) { return files_new(LINE, &a); }
lk_dataset *lk_fixed_length_record_dataset_kw(lk_files_args a) { return files_new(FIXED, &a); }

int lki_fewest_files(const lk_dataset *d)
{
    if (d->ops >= kinds && d->ops < kinds + LKI_COUNT(kinds)) return ((const files_node *)d)->count;
    int fewest = 0;
    for (int i = 0; i < d->inputs; i++) {
        const int files = lki_fewest_files(d->input[i]);
        if (files && (!fewest || files < fewest)) fewest = files;
    }
    return fewest;
}

/* ---- writing ---- */

lk_status lk_tfrecord_write(const char *path, lk_tuple records)
{
    LKI_SCOPE_ERRORS;
    const char *call = "lk_tfrecord_write";
    if (!path || !*path) return lki_fail(LK_EINVAL, "%s: the name of the file is missing", call);
    lki_bytes *bytes LKI_RELEASED = lki_alloc_array(records.count + 1, sizeof *bytes);
    if (!bytes) return LK_ENOMEM;
    for (int i = 0; i < records.count; i++) {
        const lk_tensor *t = records.item[i];
        const void      *data = lk_data(t);
        if (!data) return lk_failed() ? lk_error_code() : lki_poisoned_status(call);
        if (t->dtype != LK_U8)
            return lki_fail(LK_EDTYPE, "%s: record %d is %s; records are bytes, u8", call, i, lk_dtype_name(t->dtype));
        bytes[i] = (lki_bytes){(uint8_t *)data, (size_t)lki_shape_size(&t->shape)};
    }
    return lki_tfrecord_write(path, records.count, bytes);
}
