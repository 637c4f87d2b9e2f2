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
 * 2. Members have names of their own, and share no packed bytes: together they unpack to at most what deflate can make of the file. */
#include "format/zip.h"
#include "core/memory.h"
#include "format/crc32.h"
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { END_SIZE = 22, LOCATOR_SIZE = 20, END64_SIZE = 56, CENTRAL_SIZE = 46, LOCAL_SIZE = 30, MAX_COMMENT = 65535 };

static const uint8_t *at(const lki_zip *z, uint64_t offset, uint64_t size)
{
    if (offset > z->bytes.size || size > z->bytes.size - offset) return NULL;
    return z->bytes.data + offset;
}

static lk_status cut_off(const lki_zip *z, const char *what, uint64_t offset)
{
    return lki_fail(LK_EFORMAT, "%s: %s at offset %llu does not fit into the %zu bytes of the file", z->path, what,
                    (unsigned long long)offset, z->bytes.size);
}

/* ---- the directory ----------------------------------------------------------------------------------------------------------- */

typedef struct directory {
    uint64_t members, size, offset;
} directory;

static const uint8_t *find_end(const lki_zip *z)
{
    const size_t n = z->bytes.size;
    for (size_t back = END_SIZE; back <= n && back <= END_SIZE + MAX_COMMENT; back++) {
        const uint8_t *p = z->bytes.data + n - back;
        if (lki_get_le(p, 4) == 0x06054b50 && lki_get_le(p + 20, 2) == back - END_SIZE) return p;
    }
    return NULL;
}

static lk_status find_directory(const lki_zip *z, directory *d)
{
    const uint8_t *end = find_end(z);
    if (!end) return lki_fail(LK_EFORMAT, "%s: no end record in the last bytes: not a zip file, or cut off", z->path);
    *d = (directory){lki_get_le(end + 10, 2), lki_get_le(end + 12, 4), lki_get_le(end + 16, 4)};
    const size_t where = (size_t)(end - z->bytes.data);
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

/* Bytes used by the member's entry; 0 and an error when it is malformed. */
static uint64_t read_member(const lki_zip *z, uint64_t offset, lki_zip_member *m)
{
    const uint8_t *p = at(z, offset, CENTRAL_SIZE);
    if (!p) return cut_off(z, "directory entry", offset), 0;
    if (lki_get_le(p, 4) != 0x02014b50)
        return lki_fail(LK_EFORMAT, "%s: no directory entry at offset %llu", z->path, (unsigned long long)offset), 0;
    const size_t name = (size_t)lki_get_le(p + 28, 2), extra = (size_t)lki_get_le(p + 30, 2),
                 comment = (size_t)lki_get_le(p + 32, 2);
    const uint64_t all = CENTRAL_SIZE + name + extra + comment;
    if (!at(z, offset, all)) return cut_off(z, "directory entry", offset), 0;
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
    if (!at(z, d.offset, d.size)) return cut_off(z, "directory", d.offset);
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
    const char **name = lki_alloc_array(z->count, sizeof *name);
    lk_status    status = name ? LK_OK : LK_ENOMEM;
    for (int i = 0; i < z->count && name; i++)
        name[i] = z->member[i].name;
    if (name && z->count) qsort(name, (size_t)z->count, sizeof *name, by_name);
    for (int i = 1; i < z->count && status == LK_OK; i++)
        if (strcmp(name[i - 1], name[i]) == 0)
            status = lki_fail(LK_EFORMAT, "%s: two members are called \"%.200s\"", z->path, name[i]);
    lki_release(name);
    return status;
}

/* One that claims more than the whole file is refused when it is read. */
static lk_status refuse_overlap(const lki_zip *z)
{
    uint64_t sum = 0;
    for (int i = 0; i < z->count; i++)
        if (z->member[i].packed <= z->bytes.size) sum += LOCAL_SIZE + z->member[i].packed;
    if (sum <= z->bytes.size) return LK_OK;
    return lki_fail(LK_EFORMAT, "%s: its %d members claim %llu bytes, and the file has %zu: they overlap", z->path, z->count,
                    (unsigned long long)sum, z->bytes.size);
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
    *out = (lki_zip){0};
    LKI_TRY(lki_file_read(path, &out->bytes));
    return begin(path, out);
}

lk_status lki_zip_parse(const char *name, const void *bytes, size_t size, lki_zip *out)
{
    *out = (lki_zip){.bytes = {lki_alloc(size), size}};
    if (!out->bytes.data) return *out = (lki_zip){0}, LK_ENOMEM;
    if (size) memcpy(out->bytes.data, bytes, size);
    return begin(name, out);
}

void lki_zip_close(lki_zip *z)
{
    for (int i = 0; i < z->count; i++)
        lki_release(z->member[i].name);
    lki_release(z->member);
    lki_release(z->path);
    lki_bytes_free(&z->bytes);
    *z = (lki_zip){0};
}

int lki_zip_find(const lki_zip *z, const char *name)
{
    for (int i = z->count; i-- > 0;)
        if (strcmp(z->member[i].name, name) == 0) return i;
    return -1;
}

/* ---- members ----------------------------------------------------------------------------------------------------------------- */

static lk_status unpack_member(const char *file, const lki_zip_member *m, const uint8_t *data, lki_bytes *out)
{
    if (m->method == 8) return lki_unpack(file, LKI_DEFLATE, data, (size_t)m->packed, (size_t)m->size, out);
    if (m->method != 0)
        return lki_fail(LK_EUNSUPPORTED, "%s: compression method %d: 0 (stored) and 8 (deflate) are supported", file, m->method);
    if (m->packed != m->size)
        return lki_fail(LK_EFORMAT, "%s: stored as %llu bytes: should be %llu", file, (unsigned long long)m->packed,
                        (unsigned long long)m->size);
    *out = (lki_bytes){lki_alloc((size_t)m->size), (size_t)m->size};
    if (!out->data) return *out = (lki_bytes){0}, LK_ENOMEM;
    if (m->size) memcpy(out->data, data, out->size);
    return LK_OK;
}

lk_status lki_zip_read(const lki_zip *z, int member, lki_bytes *out)
{
    *out = (lki_bytes){0};
    if (member < 0 || member >= z->count) return lki_fail(LK_ENOTFOUND, "%s: no member %d of %d", z->path, member, z->count);
    const lki_zip_member *m = &z->member[member];
    char                  file[512];
    snprintf(file, sizeof file, "%s(%s)", z->path, m->name);
    if (m->flags & 1) return lki_fail(LK_EUNSUPPORTED, "%s: encrypted", file);
    const uint8_t *p = at(z, m->offset, LOCAL_SIZE);
    if (!p || lki_get_le(p, 4) != 0x04034b50)
        return lki_fail(LK_EFORMAT, "%s: no member at offset %llu", file, (unsigned long long)m->offset);
    const uint64_t start = m->offset + LOCAL_SIZE + lki_get_le(p + 26, 2) + lki_get_le(p + 28, 2);
    const uint8_t *data = at(z, start, m->packed);
    if (!data) return cut_off(z, m->name, start);
    LKI_TRY(unpack_member(file, m, data, out));
    const uint32_t crc = lki_crc32(0, out->data, out->size);
    if (crc == m->crc) return LK_OK;
    lki_bytes_free(out);
    return lki_fail(LK_EFORMAT, "%s: CRC-32 is %08x: should be %08x", file, (unsigned)crc, (unsigned)m->crc);
}
