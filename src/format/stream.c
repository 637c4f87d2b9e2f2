/* Streams (stream.h).
 *
 *     file --fread--> packed[] --inflate--> buffer[at .. filled) --> the reader          plain files skip the middle,
 *                                                                                        large pieces the buffer
 *
 * Invariant: `position` is the unpacked position of buffer[at]. */
#include "format/stream.h"
#include "core/memory.h"
#include "core/open.h"
#include "format/inflate.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { BUFFER = 64 << 10, FIRST_PIECE = 1 << 20, MOST_LINE = 256 << 20 };

struct lki_stream {
    char          *path;
    FILE          *file;
    bool           packed;
    lki_inflater   z;
    bool           between; /* one packed part ended; another may follow */
    uint64_t       position;
    size_t         at, filled;
    const uint8_t *in; /* what inflate has not consumed yet, in packed_bytes[] */
    size_t         in_size;
    uint8_t        buffer[BUFFER], packed_bytes[BUFFER];
};

static lk_status system_error(const lki_stream *s) { return lki_fail(LK_EIO, "%s: %s", s->path, strerror(errno)); }

/* ---- opening ----------------------------------------------------------------------------------------------------------------- */

static lk_status look_at_beginning(lki_stream *s, lk_switch gzip)
{
    uint8_t      magic[2] = {0};
    const size_t got = fread(magic, 1, sizeof magic, s->file);
    if (got < sizeof magic && ferror(s->file)) return system_error(s);
    const bool looks_packed = got == sizeof magic && magic[0] == 0x1f && magic[1] == 0x8b;
    if (gzip == LK_ON && got && !looks_packed)
        return lki_fail(LK_EFORMAT, "%s: does not begin with 1f 8b, so it is not compressed by gzip", s->path);
    s->packed = gzip != LK_OFF && looks_packed;
    if (fseeko(s->file, 0, SEEK_SET) != 0) return system_error(s);
    return s->packed ? lki_inflate_begin(&s->z, s->path, LKI_GZIP) : LK_OK;
}

lk_status lki_stream_open(const char *path, lk_switch gzip, lki_stream **out)
{
    *out = NULL;
    lki_stream *s = lki_zalloc(sizeof *s);
    if (!s) return LK_ENOMEM;
    s->path = lki_strdup(path);
    lk_status status = s->path ? LK_OK : LK_ENOMEM;
    if (status == LK_OK) status = lki_fopen_regular(path, &s->file);
    if (status == LK_OK) status = look_at_beginning(s, gzip);
    if (status == LK_OK) *out = s;
    else lki_stream_close(s);
    return status;
}

void lki_stream_close(lki_stream *s)
{
    if (!s) return;
    if (s->file) fclose(s->file);
    lki_inflate_end(&s->z);
    lki_release(s->path);
    lki_release(s);
}

/* ---- filling the buffer ------------------------------------------------------------------------------------------------------ */

static lk_status give_plain(lki_stream *s, uint8_t *to, size_t room, size_t *gave)
{
    *gave = fread(to, 1, room, s->file);
    return *gave < room && ferror(s->file) ? system_error(s) : LK_OK;
}

static lk_status more_packed_bytes(lki_stream *s)
{
    if (s->in_size) return LK_OK;
    s->in = s->packed_bytes;
    s->in_size = fread(s->packed_bytes, 1, BUFFER, s->file);
    return s->in_size < BUFFER && ferror(s->file) ? system_error(s) : LK_OK;
}

static lk_status give_packed(lki_stream *s, uint8_t *to, size_t room, size_t *gave)
{
    size_t space = room;
    while (space == room) {
        LKI_TRY(more_packed_bytes(s));
        if (s->between && !s->in_size) break;
        if (s->between) lki_inflate_again(&s->z);
        s->between = false;
        switch (lki_inflate_some(&s->z, &s->in, &s->in_size, &to, &space)) {
        case LKI_INFLATE_MORE: break;
        case LKI_INFLATE_DONE: s->between = true; break;
        case LKI_INFLATE_STUCK: return lki_fail(LK_EFORMAT, "%s: compressed data is cut off", s->path);
        case LKI_INFLATE_DAMAGED:
            return lki_fail(LK_EFORMAT, "%s: compressed data is damaged after unpacked byte %llu: %s", s->path,
                            (unsigned long long)s->position, lki_inflate_why(&s->z));
        }
    }
    *gave = room - space;
    return LK_OK;
}

/* Reads some of the next bytes from the file; none: it ended. */
static lk_status give(lki_stream *s, uint8_t *to, size_t room, size_t *gave)
{
    return s->packed ? give_packed(s, to, room, gave) : give_plain(s, to, room, gave);
}

/* If the buffer is empty after this, the file ended. */
static lk_status fill(lki_stream *s)
{
    if (s->at < s->filled) return LK_OK;
    s->at = s->filled = 0;
    return give(s, s->buffer, BUFFER, &s->filled);
}

static void take(lki_stream *s, size_t size)
{
    s->at += size;
    s->position += size;
}

/* ---- reading ----------------------------------------------------------------------------------------------------------------- */

static lk_status read_buffered(lki_stream *s, uint8_t *dst, size_t want, size_t *got)
{
    LKI_TRY(fill(s));
    const size_t have = s->filled - s->at;
    *got = want < have ? want : have;
    memcpy(dst, s->buffer + s->at, *got);
    take(s, *got);
    return LK_OK;
}

/* Large reads bypass the buffer. */
static lk_status read_past_buffer(lki_stream *s, uint8_t *dst, size_t want, size_t *got)
{
    LKI_TRY(give(s, dst, want, got));
    s->position += *got;
    return LK_OK;
}

lk_status lki_stream_read(lki_stream *s, void *dst, size_t want, size_t *got)
{
    size_t piece = 1;
    for (*got = 0; *got < want && piece; *got += piece) {
        const bool past = s->at == s->filled && want - *got >= BUFFER;
        LKI_TRY((past ? read_past_buffer : read_buffered)(s, (uint8_t *)dst + *got, want - *got, &piece));
    }
    return LK_OK;
}

lk_status lki_stream_append(lki_stream *s, lki_bytes *out, size_t size, size_t *got)
{
    size_t piece = size < FIRST_PIECE ? size : FIRST_PIECE, now;
    for (*got = 0; *got < size; piece = *got) { /* so the memory at most doubles each time */
        piece = piece < size - *got ? piece : size - *got;
        uint8_t *data = lki_realloc(out->data, out->size + piece);
        if (!data) return LK_ENOMEM;
        out->data = data;
        LKI_TRY(lki_stream_read(s, out->data + out->size, piece, &now));
        out->size += now;
        *got += now;
        if (now < piece) break;
    }
    return LK_OK;
}

/* Memory for a growing line is doubled each time, so that long ones are not copied for every piece. */
static lk_status grow_line(const lki_stream *s, lki_bytes *out, size_t more)
{
    size_t room = 64;
    if (out->size + more > MOST_LINE)
        return lki_fail(LK_EFORMAT, "%s: a line of more than %d MiB before byte %llu", s->path, MOST_LINE >> 20,
                        (unsigned long long)s->position);
    while (room < out->size + more)
        room *= 2;
    uint8_t *data = lki_realloc(out->data, room);
    if (!data) return LK_ENOMEM;
    out->data = data;
    return LK_OK;
}

lk_status lki_stream_line(lki_stream *s, lki_bytes *out, bool *end)
{
    out->size = 0;
    LKI_TRY(fill(s));
    *end = s->filled == 0;
    for (bool found = false; !found && s->filled;) {
        const uint8_t *from = s->buffer + s->at, *stop = memchr(from, '\n', s->filled - s->at);
        const size_t   piece = stop ? (size_t)(stop - from) : s->filled - s->at;
        LKI_TRY(grow_line(s, out, piece + 1));
        memcpy(out->data + out->size, from, piece);
        out->size += piece;
        found = stop != NULL;
        take(s, piece + found);
        if (found && out->size && out->data[out->size - 1] == '\r') out->size--;
        if (!found) LKI_TRY(fill(s));
    }
    return LK_OK;
}

/* ---- positions --------------------------------------------------------------------------------------------------------------- */

uint64_t    lki_stream_position(const lki_stream *s) { return s->position; }
bool        lki_stream_packed(const lki_stream *s) { return s->packed; }
const char *lki_stream_path(const lki_stream *s) { return s->path; }

static lk_status behind_the_end(const lki_stream *s, uint64_t position)
{
    return lki_fail(LK_EFORMAT, "%s: ends before byte %llu, where reading should continue; has it changed?", s->path,
                    (unsigned long long)position);
}

static lk_status rewind_packed(lki_stream *s)
{
    if (fseeko(s->file, 0, SEEK_SET) != 0) return system_error(s);
    lki_inflate_again(&s->z);
    s->between = false;
    s->in_size = s->at = s->filled = 0;
    s->position = 0;
    return LK_OK;
}

static lk_status seek_packed(lki_stream *s, uint64_t position)
{
    if (position < s->position) LKI_TRY(rewind_packed(s));
    while (s->position < position) {
        LKI_TRY(fill(s));
        const uint64_t have = s->filled - s->at, piece = position - s->position;
        if (!have) return behind_the_end(s, position);
        take(s, (size_t)(piece < have ? piece : have));
    }
    return LK_OK;
}

lk_status lki_stream_seek(lki_stream *s, uint64_t position)
{
    if (s->packed) return seek_packed(s, position);
    if (fseeko(s->file, 0, SEEK_END) != 0) return system_error(s);
    const off_t size = ftello(s->file);
    if (size < 0 || position > (uint64_t)size) return size < 0 ? system_error(s) : behind_the_end(s, position);
    if (fseeko(s->file, (off_t)position, SEEK_SET) != 0) return system_error(s);
    s->at = s->filled = 0;
    s->position = position;
    return LK_OK;
}
