/* Zip archives: found from their end, read from the central directory, each member checked by its CRC-32. All little endian.
 *
 *   end record (last 22 bytes + comment)      central header, one per member          local header, before the data
 *   offset size                               offset size                             offset size
 *        0    4  50 4b 05 06                       0    4  50 4b 01 02                     0    4  50 4b 03 04
 *        8    2  members on this disk              8    2  flags (bit 0: encrypted)       26    2  length of the name
 *       10    2  members                          10    2  method                         28    2  length of the extra part
 *       12    4  bytes of the directory           16    4  CRC-32                         30       name, extra part, data
 *       16    4  offset of the directory          20    4  packed size
 *       20    2  length of the comment            24    4  size                        64-bit locator, before the end record
 *                                                 28    2  length of the name               0    4  50 4b 06 07
 *   64-bit end record                             30    2  length of the extra part         8    8  offset of the 64-bit end record
 *        0    4  50 4b 06 06                      32    2  length of the comment
 *       32    8  members                          42    4  offset of the local header  extra part: id (2), length (2), contents
 *       40    8  bytes of the directory           46       name, extra part, comment   id 1: size, packed, offset (8 each),
 *       48    8  offset of the directory                                               only those that are ffffffff above
 *
 * Invariants
 * 1. Every read goes through at(), which refuses ranges outside the file.
 * 2. Members have names of their own, and share no packed bytes: together they unpack to at most what deflate can make of the
 *    file. */
#include "format/zip.h"
#include "core/memory.h"
#include "core/open.h"
#include "format/crc32.h"
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WINDOW = 1 << 17 }; /* read ahead, of a directory */
enum { END_SIZE = 22, LOCATOR_SIZE = 20, END64_SIZE = 56, CENTRAL_SIZE = 46, LOCAL_SIZE = 30, MAX_COMMENT = 65535 };

/* Some bytes of the archive, valid until the next call; NULL: it does not have them, or they cannot be read. */
static const uint8_t *at(lki_zip *z, uint64_t offset, uint64_t size)
{
    if (offset > z->size || size > z->size - offset) return NULL;
    if (offset >= z->window_at && offset - z->window_at + size <= z->window.size) return z->window.data + (offset - z->window_at);
    const uint64_t ahead = z->size - offset < WINDOW ? z->size - offset : WINDOW;
    const size_t   bytes = (size_t)(size > ahead ? size : ahead);
    lki_bytes_free(&z->window);
    z->window = (lki_bytes){lki_alloc(bytes), bytes};
    z->window_at = offset;
    if (z->window.data && lki_file_read_at(z->path, z->descriptor, offset, z->window.data, bytes) == LK_OK) return z->window.data;
    lki_bytes_free(&z->window);
    return NULL;
}

static lk_status cut_off(const lki_zip *z, const char *what, uint64_t offset)
{
    if (offset <= z->size && !z->window.data && lk_failed()) return lk_error_code(); /* the bytes exist, but could not be read */
    return lki_fail(LK_EFORMAT, "%s: %s at offset %llu does not fit into the %llu bytes of the file", z->path, what,
                    (unsigned long long)offset, (unsigned long long)z->size);
}

/* ---- the directory ----------------------------------------------------------------------------------------------------------- */

typedef struct directory {
    uint64_t members, size, offset;
} directory;

/* The last bytes of the archive, which contain the end record; *where is its offset. NULL: there is none. */
static const uint8_t *find_end(lki_zip *z, uint64_t *where)
{
    const uint64_t most = END_SIZE + MAX_COMMENT + LOCATOR_SIZE, tail = z->size < most ? z->size : most;
    const uint8_t *p = at(z, z->size - tail, tail);
    for (uint64_t back = END_SIZE; p && back <= tail && back <= END_SIZE + MAX_COMMENT; back++) {
        const uint8_t *end = p + tail - back;
        *where = z->size - back;
        if (lki_get_le(end, 4) == 0x06054b50 && lki_get_le(end + 20, 2) == back - END_SIZE) return end;
    }
    return NULL;
}

static lk_status find_directory(lki_zip *z, directory *d)
{
    uint64_t       where;
    const uint8_t *end = find_end(z, &where);
    if (!end && z->size && !z->window.data) return lk_error_code();
    if (!end) return lki_fail(LK_EFORMAT, "%s: no end record in the last bytes: not a zip file, or cut off", z->path);
    *d = (directory){lki_get_le(end + 10, 2), lki_get_le(end + 12, 4), lki_get_le(end + 16, 4)};
    if (where < LOCATOR_SIZE || lki_get_le(end - LOCATOR_SIZE, 4) != 0x07064b50) return LK_OK;
    const uint64_t offset = lki_get_le(end - LOCATOR_SIZE + 8, 8);
    const uint8_t *big = at(z, offset, END64_SIZE);
    if (!big || lki_get_le(big, 4) != 0x06064b50) return cut_off(z, "64-bit end record", offset);
    *d = (directory){lki_get_le(big + 32, 8), lki_get_le(big + 40, 8), lki_get_le(big + 48, 8)};
    return LK_OK;
}

/* Sizes that did not fit into 32 bits. */
static bool read_wide(lki_zip_member *m, const uint8_t *extra, size_t size)
{
    uint64_t *field[] = {&m->size, &m->packed, &m->offset};
    while (size >= 4) {
        const size_t id = (size_t)lki_get_le(extra, 2), length = (size_t)lki_get_le(extra + 2, 2);
        if (length > size - 4) return false;
        if (id == 1) {
            size_t used = 0;
            for (int i = 0; i < 3; i++) {
                if (*field[i] != UINT32_MAX) continue;
                if (used + 8 > length) return false;
                *field[i] = lki_get_le(extra + 4 + used, 8);
                used += 8;
            }
            return true;
        }
        extra += 4 + length;
        size -= 4 + length;
    }
    return true;
}

/* Bytes of the member's entry; 0 and an error if it is malformed. */
static uint64_t read_member(lki_zip *z, uint64_t offset, lki_zip_member *m)
{
    const uint8_t *p = at(z, offset, CENTRAL_SIZE);
    if (!p) return cut_off(z, "directory entry", offset), 0;
    if (lki_get_le(p, 4) != 0x02014b50)
        return lki_fail(LK_EFORMAT, "%s: no directory entry at offset %llu", z->path, (unsigned long long)offset), 0;
    const size_t name = (size_t)lki_get_le(p + 28, 2), extra = (size_t)lki_get_le(p + 30, 2),
                 comment = (size_t)lki_get_le(p + 32, 2);
    const uint64_t all = CENTRAL_SIZE + name + extra + comment;
    if (!(p = at(z, offset, all))) return cut_off(z, "directory entry", offset), 0;
    *m = (lki_zip_member){.flags = (int)lki_get_le(p + 8, 2),
                          .method = (int)lki_get_le(p + 10, 2),
                          .crc = (uint32_t)lki_get_le(p + 16, 4),
                          .packed = lki_get_le(p + 20, 4),
                          .size = lki_get_le(p + 24, 4),
                          .offset = lki_get_le(p + 42, 4)};
    if (!read_wide(m, p + CENTRAL_SIZE + name, extra))
        return lki_fail(LK_EFORMAT, "%s: extra part of the directory entry at offset %llu is malformed", z->path,
                        (unsigned long long)offset),
               0;
    if (memchr(p + CENTRAL_SIZE, 0, name))
        return lki_fail(LK_EFORMAT, "%s: the name in the directory entry at offset %llu has a zero byte", z->path,
                        (unsigned long long)offset),
               0;
    m->name = lki_alloc(name + 1);
    if (!m->name) return 0;
    memcpy(m->name, p + CENTRAL_SIZE, name);
    m->name[name] = 0;
    return all;
}

static lk_status read_directory(lki_zip *z)
{
    directory d = {0};
    LKI_TRY(find_directory(z, &d));
    if (d.offset > z->size || d.size > z->size - d.offset) return cut_off(z, "directory", d.offset);
    if (d.members > d.size / CENTRAL_SIZE || d.members > INT_MAX)
        return lki_fail(LK_EFORMAT, "%s: %llu members in a directory of %llu bytes", z->path, (unsigned long long)d.members,
                        (unsigned long long)d.size);
    z->member = lki_zalloc_array(d.members, sizeof *z->member);
    if (!z->member) return LK_ENOMEM;
    uint64_t offset = d.offset;
    for (uint64_t i = 0; i < d.members; i++) {
        const uint64_t used = read_member(z, offset, &z->member[i]);
        if (!used) return lk_error_code();
        z->count++;
        offset += used;
        if (offset > d.offset + d.size) return cut_off(z, "directory entry", offset - used);
    }
    return LK_OK;
}

static int by_name(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

static lk_status refuse_twins(const lki_zip *z)
{
    const char **name LKI_RELEASED = lki_alloc_array(z->count, sizeof *name);
    if (!name) return LK_ENOMEM;
    for (int i = 0; i < z->count; i++)
        name[i] = z->member[i].name;
    if (z->count) qsort(name, (size_t)z->count, sizeof *name, by_name);
    for (int i = 1; i < z->count; i++)
        if (strcmp(name[i - 1], name[i]) == 0)
            return lki_fail(LK_EFORMAT, "%s: two members are called \"%.200s\"", z->path, name[i]);
    return LK_OK;
}

/* A member that claims more than the whole file is an error when it is read. */
static lk_status refuse_overlap(const lki_zip *z)
{
    uint64_t sum = 0;
    for (int i = 0; i < z->count; i++)
        if (z->member[i].packed <= z->size) sum += LOCAL_SIZE + z->member[i].packed;
    if (sum <= z->size) return LK_OK;
    return lki_fail(LK_EFORMAT, "%s: its %d members claim %llu bytes, and the file has %llu: they overlap", z->path, z->count,
                    (unsigned long long)sum, (unsigned long long)z->size);
}

/* ---- opening and closing ----------------------------------------------------------------------------------------------------- */

static lk_status begin(const char *path, lki_zip *z)
{
    z->path = lki_strdup(path);
    lk_status status = z->path ? read_directory(z) : LK_ENOMEM;
    if (status == LK_OK) status = refuse_twins(z);
    if (status == LK_OK) status = refuse_overlap(z);
    if (status != LK_OK) lki_zip_close(z);
    return status;
}

lk_status lki_zip_open(const char *path, lki_zip *out)
{
    *out = (lki_zip){.descriptor = -1};
    LKI_TRY(lki_open_regular(path, &out->descriptor, &out->size));
    return begin(path, out);
}

lk_status lki_zip_parse(const char *name, const void *bytes, size_t size, lki_zip *out)
{
    *out = (lki_zip){.descriptor = -1, .size = size, .window = {lki_alloc(size), size}};
    if (!out->window.data) return *out = (lki_zip){.descriptor = -1}, LK_ENOMEM;
    if (size) memcpy(out->window.data, bytes, size);
    return begin(name, out);
}

void lki_zip_close(lki_zip *z)
{
    for (int i = 0; i < z->count; i++)
        lki_release(z->member[i].name);
    lki_release(z->member);
    lki_release(z->path);
    lki_bytes_free(&z->window);
    if (z->descriptor >= 0) close(z->descriptor);
    *z = (lki_zip){.descriptor = -1};
}

int lki_zip_find(const lki_zip *z, const char *name)
{
    for (int i = z->count; i-- > 0;)
        if (strcmp(z->member[i].name, name) == 0) return i;
    return -1;
}

/* ---- members ----------------------------------------------------------------------------------------------------------------- */

/* Copies bytes of the archive; the caller checked that they exist. */
static lk_status copy_of(const lki_zip *z, uint64_t offset, void *to, size_t size)
{
    if (z->descriptor >= 0) return lki_file_read_at(z->path, z->descriptor, offset, to, size);
    if (size) memcpy(to, z->window.data + offset, size);
    return LK_OK;
}

/* The offset of a member's packed bytes. */
static lk_status find_data(const lki_zip *z, const char *file, const lki_zip_member *m, uint64_t *start)
{
    if (m->flags & 1) return lki_fail(LK_EUNSUPPORTED, "%s: encrypted", file);
    uint8_t    p[LOCAL_SIZE] = {0};
    const bool inside = m->offset <= z->size && z->size - m->offset >= LOCAL_SIZE;
    if (inside) LKI_TRY(copy_of(z, m->offset, p, LOCAL_SIZE));
    if (lki_get_le(p, 4) != 0x04034b50)
        return lki_fail(LK_EFORMAT, "%s: no member at offset %llu", file, (unsigned long long)m->offset);
    *start = m->offset + LOCAL_SIZE + lki_get_le(p + 26, 2) + lki_get_le(p + 28, 2);
    if (*start > z->size || m->packed > z->size - *start) return cut_off(z, m->name, *start);
    if (m->method != 0 && m->method != 8)
        return lki_fail(LK_EUNSUPPORTED, "%s: compression method %d: 0 (stored) and 8 (deflate) are supported", file, m->method);
    if (m->method == 0 && m->packed != m->size)
        return lki_fail(LK_EFORMAT, "%s: stored as %llu bytes: should be %llu", file, (unsigned long long)m->packed,
                        (unsigned long long)m->size);
    return LK_OK;
}

static lk_status read_packed(const lki_zip *z, const lki_zip_member *m, uint64_t start, lki_bytes *out)
{
    *out = (lki_bytes){lki_alloc((size_t)m->packed), (size_t)m->packed};
    const lk_status status = out->data ? copy_of(z, start, out->data, out->size) : LK_ENOMEM;
    if (status != LK_OK) lki_bytes_free(out);
    return status;
}

static lk_status check_crc(const char *file, const lki_zip_member *m, uint32_t crc)
{
    if (crc == m->crc) return LK_OK;
    return lki_fail(LK_EFORMAT, "%s: CRC-32 is %08x: should be %08x", file, (unsigned)crc, (unsigned)m->crc);
}

static lk_status find_member(const lki_zip *z, int member, char *file, size_t bytes)
{
    if (member < 0 || member >= z->count) return lki_fail(LK_ENOTFOUND, "%s: no member %d of %d", z->path, member, z->count);
    snprintf(file, bytes, "%s(%s)", z->path, z->member[member].name);
    return LK_OK;
}

lk_status lki_zip_read(const lki_zip *z, int member, lki_bytes *out)
{
    char      file[512];
    uint64_t  start;
    lki_bytes packed;
    *out = (lki_bytes){0};
    LKI_TRY(find_member(z, member, file, sizeof file));
    const lki_zip_member *m = &z->member[member];
    LKI_TRY(find_data(z, file, m, &start));
    LKI_TRY(read_packed(z, m, start, m->method ? &packed : out));
    lk_status status = LK_OK;
    if (m->method) {
        status = lki_unpack(file, LKI_DEFLATE, packed.data, packed.size, (size_t)m->size, out);
        lki_bytes_free(&packed);
    }
    if (status == LK_OK) status = check_crc(file, m, lki_crc32(0, out->data, out->size));
    if (status != LK_OK) lki_bytes_free(out);
    return status;
}

/* ---- members piece by piece -------------------------------------------------------------------------------------------------- */

static lk_status next_of_member(lki_feed *feed, const uint8_t **piece, size_t *size)
{
    lki_zip_feed *f = (lki_zip_feed *)feed;
    LKI_TRY(f->file.feed.next(&f->file.feed, piece, size));
    f->crc = lki_crc32(f->crc, *piece, *size);
    return f->file.left ? LK_OK : check_crc(f->name, f->member, f->crc);
}

/* For bytes in memory, which are freed when the reader asks for more. */
static lk_status next_unpacked(lki_feed *feed, const uint8_t **piece, size_t *size)
{
    lki_zip_feed *f = (lki_zip_feed *)feed;
    if (f->left != f->bytes.size) lki_bytes_free(&f->bytes);
    *piece = f->bytes.data;
    *size = f->bytes.size;
    f->left = 0;
    return LK_OK;
}

lk_status lki_zip_feed_begin(lki_zip_feed *f, const lki_zip *z, int member)
{
    uint64_t start;
    *f = (lki_zip_feed){0};
    LKI_TRY(find_member(z, member, f->name, sizeof f->name));
    f->member = &z->member[member];
    f->feed = (lki_feed){f->member->size, next_of_member};
    LKI_TRY(find_data(z, f->name, f->member, &start));
    if (f->member->method == 0 && z->descriptor >= 0)
        return lki_file_feed_begin(&f->file, z->path, z->descriptor, start, f->member->size);
    f->feed.next = next_unpacked;
    f->left = f->member->size;
    return lki_zip_read(z, member, &f->bytes);
}

void lki_zip_feed_end(lki_zip_feed *f)
{
    lki_file_feed_end(&f->file);
    lki_bytes_free(&f->bytes);
}
