/* Cache files (cachefile.h). Numbers are little endian, checksums are masked CRC-32C.
 *
 *   offset  size  meaning                                   WRITING (NAME.<process>-<n>.tmp) --sync, rename--> NAME
 *        0     8  "LKCACHE2"                                       \____ ended early, or an error ____> REMOVED
 *        8        blocks:  8  size n of the payload
 *                          4  rows; 0: one element
 *                          4  checksum of the payload
 *                          4  checksum of the 16 bytes before: a block may be skipped without a look at its payload
 *                          n  payload: an element as save.c writes values, its tensors holding all rows
 *       -28    8  elements in all
 *       -20    8  where this footer begins
 *       -12    4  checksum of the 16 bytes before
 *        -8    8  "LKCACHEF" */
#include "data/cachefile.h"
#include "core/log.h"
#include "core/memory.h"
#include "core/names.h"
#include "data/save.h"
#include "format/crc32c.h"
#include "format/durable.h"
#include "format/stream.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { MAGIC = 8, BLOCK_HEADER = 20, FOOTER = 28 };
static const char HEAD[] = "LKCACHE2", TAIL[] = "LKCACHEF";

/* ---- writing ---- */

struct lki_cache_writer {
    char       *path;
    lki_durable file; /* with a unique name: several processes may write the same cache */
    int64_t     elements;
};

static void put_le(uint8_t *to, uint64_t x, int bytes)
{
    for (int i = 0; i < bytes; i++)
        to[i] = (uint8_t)(x >> (8 * i));
}

static uint32_t checksum(const void *data, size_t size) { return lki_crc32c_mask(lki_crc32c(0, data, size)); }

static lk_status begin_beside(lki_cache_writer *w)
{
    static int number;
    char *name LKI_RELEASED = lki_text_new("%s.%ld-%d", w->path, (long)getpid(), __atomic_add_fetch(&number, 1, __ATOMIC_RELAXED));
    if (!name) return LK_ENOMEM;
    LKI_TRY(lki_folder_make(w->path));
    LKI_TRY(lki_durable_begin(name, &w->file));
    return lki_durable_write(&w->file, HEAD, MAGIC);
}

lk_status lki_cache_writer_open(const char *path, lki_cache_writer **out)
{
    *out = NULL;
    lki_cache_writer *w = lki_zalloc(sizeof *w);
    if (!w) return LK_ENOMEM;
    w->file = LKI_DURABLE_NONE;
    w->path = lki_strdup(path);
    lk_status status = w->path ? begin_beside(w) : LK_ENOMEM;
    if (status == LK_OK) *out = w;
    else lki_cache_writer_close(w);
    return status;
}

lk_status lki_cache_write(lki_cache_writer *w, const lki_rowset *set)
{
    uint8_t   header[BLOCK_HEADER];
    lki_sink  sink LKI_FREED_BY(lki_sink_free) = {0};
    lk_status status = LK_OK;
    lki_save_value(&sink, &(lki_element){(lki_rowset *)set, LKI_ALONE}, &status);
    if (status == LK_OK && sink.failed) status = LK_ENOMEM;
    put_le(header, sink.size, 8);
    put_le(header + 8, set->rows > 0 ? (uint64_t)set->rows : 0, 4);
    put_le(header + 12, status == LK_OK ? checksum(sink.data, sink.size) : 0, 4);
    put_le(header + 16, checksum(header, 16), 4);
    if (status == LK_OK) status = lki_durable_write(&w->file, header, sizeof header);
    if (status == LK_OK) status = lki_durable_write(&w->file, sink.data, sink.size);
    w->elements += set->rows > 0 ? set->rows : 1;
    return status;
}

lk_status lki_cache_publish(lki_cache_writer *w)
{
    uint8_t footer[FOOTER];
    put_le(footer, (uint64_t)w->elements, 8);
    put_le(footer + 8, w->file.size, 8);
    put_le(footer + 16, checksum(footer, 16), 4);
    memcpy(footer + 20, TAIL, MAGIC);
    LKI_TRY(lki_durable_write(&w->file, footer, sizeof footer));
    LKI_TRY(lki_durable_sync(&w->file));
    LKI_TRY(lki_durable_publish(&w->file));
    if (rename(w->file.path, w->path) == 0) return LK_OK;
    const int cause = errno;
    remove(w->file.path);
    return lki_fail(LK_EIO, "%s: cannot rename %s to it: %s", w->path, w->file.path, strerror(cause));
}

void lki_cache_writer_close(lki_cache_writer *w)
{
    if (!w) return;
    lki_durable_abandon(&w->file);
    lki_release(w->path);
    lki_release(w);
}

/* ---- reading ---- */

struct lki_cache_reader {
    lki_stream *file;
    int64_t     elements;
    uint64_t    end; /* of the blocks */
    lki_bytes   payload;
};

typedef struct block_header {
    uint64_t size;
    int64_t  rows;
    uint32_t crc;
} block_header;

static lk_status read_exactly(lki_stream *s, void *to, size_t size, bool *whole)
{
    size_t got;
    LKI_TRY(lki_stream_read(s, to, size, &got));
    *whole = got == size;
    return LK_OK;
}

/* How many bytes the file has. */
static lk_status file_size(const char *path, uint64_t *size)
{
    int descriptor;
    LKI_TRY(lki_open_regular(path, &descriptor, size));
    close(descriptor);
    return LK_OK;
}

/* NULL: it is whole. */
static lk_status check_ends(lki_cache_reader *r, const char *path, const char **wrong)
{
    uint8_t  head[MAGIC], footer[FOOTER];
    uint64_t size = 0;
    bool     whole;
    *wrong = "it is too short";
    LKI_TRY(file_size(path, &size));
    if (size < MAGIC + FOOTER) return LK_OK;
    LKI_TRY(read_exactly(r->file, head, sizeof head, &whole));
    *wrong = "it does not begin with LKCACHE2";
    if (!whole || memcmp(head, HEAD, MAGIC) != 0) return LK_OK;
    LKI_TRY(lki_stream_seek(r->file, size - FOOTER));
    LKI_TRY(read_exactly(r->file, footer, sizeof footer, &whole));
    *wrong = "its end is missing";
    if (!whole || memcmp(footer + 20, TAIL, MAGIC) != 0) return LK_OK;
    *wrong = "the checksum of its end is wrong";
    if (lki_get_le(footer + 16, 4) != checksum(footer, 16) || lki_get_le(footer + 8, 8) != size - FOOTER) return LK_OK;
    *wrong = NULL;
    r->elements = (int64_t)(lki_get_le(footer, 8) & INT64_MAX);
    r->end = size - FOOTER;
    return lki_stream_seek(r->file, MAGIC);
}

lk_status lki_cache_reader_open(const char *path, lki_cache_reader **out)
{
    const char *wrong = NULL;
    *out = NULL;
    if (access(path, F_OK) != 0) return LK_OK;
    lki_cache_reader *r = lki_zalloc(sizeof *r);
    if (!r) return LK_ENOMEM;
    lk_status status = lki_stream_open(path, LK_OFF, &r->file);
    if (status == LK_OK) status = check_ends(r, path, &wrong);
    if (status == LK_OK && wrong) lki_warn("lk_dataset_cache: %s is damaged (%s) and is written again", path, wrong);
    if (status == LK_OK && !wrong) *out = r;
    else lki_cache_reader_close(r);
    return status;
}

int64_t lki_cache_elements(const lki_cache_reader *r) { return r->elements; }

static lk_status fail_block(const lki_cache_reader *r, const char *what)
{
    return lki_fail(LK_EFORMAT, "%s: %s before byte %llu: the cache is damaged; delete the file and it will be written again",
                    lki_stream_path(r->file), what, (unsigned long long)lki_stream_position(r->file));
}

static lk_status read_header(lki_cache_reader *r, block_header *h, bool *end)
{
    uint8_t bytes[BLOCK_HEADER];
    bool    whole;
    *end = lki_stream_position(r->file) >= r->end;
    if (*end) return LK_OK;
    LKI_TRY(read_exactly(r->file, bytes, sizeof bytes, &whole));
    if (whole && lki_get_le(bytes + 16, 4) != checksum(bytes, 16)) return fail_block(r, "the checksum of a block's size is wrong");
    *h = (block_header){lki_get_le(bytes, 8), (int64_t)lki_get_le(bytes + 8, 4), (uint32_t)lki_get_le(bytes + 12, 4)};
    if (!whole || lki_stream_position(r->file) > r->end || h->size > r->end - lki_stream_position(r->file))
        return fail_block(r, "a block extends past the end");
    return LK_OK;
}

/* Rows of the block must be rows of each of its tensors. */
static bool has_rows(const lki_rowset *set, int64_t rows)
{
    for (int i = 0; i < set->count; i++)
        if (set->item[i]->shape.rank < 1 || set->item[i]->shape.dim[0] != rows) return false;
    return true;
}

static lk_status read_payload(lki_cache_reader *r, const block_header *h, lki_rowset **out)
{
    size_t      got;
    lki_element e = {0};
    r->payload.size = 0;
    LKI_TRY(lki_stream_append(r->file, &r->payload, (size_t)h->size, &got));
    if (got < h->size) return fail_block(r, "a block is cut off");
    if (checksum(r->payload.data, r->payload.size) != h->crc) return fail_block(r, "the checksum of a block is wrong");
    lki_wire w = lki_wire_of(r->payload.data, r->payload.size);
    LKI_TRY(lki_load_value(&w, lki_stream_path(r->file), &e));
    if (h->rows && !has_rows(e.set, h->rows)) {
        lki_rowset_drop(e.set, 1);
        return fail_block(r, "a block does not have the rows that its header says");
    }
    if (h->rows) e.set->rows = h->rows;
    *out = e.set;
    return LK_OK;
}

lk_status lki_cache_read(lki_cache_reader *r, lki_rowset **out)
{
    block_header h;
    bool         end;
    *out = NULL;
    LKI_TRY(read_header(r, &h, &end));
    return end ? LK_OK : read_payload(r, &h, out);
}

lk_status lki_cache_seek(lki_cache_reader *r, int64_t element, int64_t *left)
{
    block_header h;
    bool         end;
    LKI_TRY(lki_stream_seek(r->file, MAGIC));
    for (*left = element; *left > 0; *left -= lki_max(1, h.rows)) {
        const uint64_t at = lki_stream_position(r->file);
        LKI_TRY(read_header(r, &h, &end));
        if (end) return LK_OK;
        if (lki_max(1, h.rows) > *left) return lki_stream_seek(r->file, at);
        LKI_TRY(lki_stream_seek(r->file, lki_stream_position(r->file) + h.size));
    }
    return LK_OK;
}

void lki_cache_reader_close(lki_cache_reader *r)
{
    if (!r) return;
    lki_stream_close(r->file);
    lki_bytes_free(&r->payload);
    lki_release(r);
}
