/* Writing zip archives (zip.h): stored members, dated 1980-01-01, so that equal contents give equal bytes. The layout is the one
 * zip.c reads; what does not fit 32 bits goes to the 64-bit extension, and only then.
 *
 *   extra part of a local header        extra part of a directory entry       before the end record, where a count is too large
 *     id 1, 16: size, packed size         id 1, 8 * n: those of size, packed      64-bit end record, 64-bit locator
 *     id ALIGN, n: n zeros                size and offset that are ffffffff
 *
 * The zeros bring the data to a multiple of 64 bytes from the front of the archive. */
#include "core/memory.h"
#include "format/crc32.h"
#include "format/utf8.h"
#include "format/wire.h"
#include "format/zip.h"
#include <string.h>

enum {
    LOCAL_SIZE = 30,
    EXTRA_HEADER = 4,
    ALIGNMENT = 64,
    ID_WIDE = 1,
    ID_ALIGN = 0xd935, /* as in Android's zipalign */
    PLAIN = 20,        /* versions of the format needed to read it */
    WIDE = 45,
    UTF8_NAME = 1 << 11,
    FIRST_OF_1980 = 1 << 5 | 1,
    MADE_ON_UNIX = 3 << 8,
    MOST_NAME = 65535
};
#define REGULAR_FILE (0100644u << 16)
#define TOO_WIDE UINT32_MAX

struct lki_zip_out {
    lki_sink body, directory;
    uint64_t count;
};

typedef struct member {
    const char *name;
    size_t      length;
    uint64_t    size, offset;
    uint32_t    crc;
    bool        utf8;
} member;

static uint64_t narrow(uint64_t x) { return x < TOO_WIDE ? x : TOO_WIDE; }

/* The part that both headers share, from "version needed" to the length of the name. */
static void put_common(lki_sink *s, const member *m, bool wide)
{
    lki_sink_fixed(s, wide ? WIDE : PLAIN, 2);
    lki_sink_fixed(s, m->utf8 ? UTF8_NAME : 0, 2);
    lki_sink_fixed(s, 0, 2); /* stored */
    lki_sink_fixed(s, 0, 2); /* midnight */
    lki_sink_fixed(s, FIRST_OF_1980, 2);
    lki_sink_fixed(s, m->crc, 4);
    lki_sink_fixed(s, narrow(m->size), 4);
    lki_sink_fixed(s, narrow(m->size), 4);
    lki_sink_fixed(s, m->length, 2);
}

static void put_zeros(lki_sink *s, size_t count)
{
    static const uint8_t zeros[2 * ALIGNMENT];
    lki_sink_bytes(s, zeros, count);
}

/* Size of an extra part that begins at `at` and ends at a multiple of 64: 0, or enough for its header. */
static size_t padding(uint64_t at)
{
    const size_t gap = (size_t)((ALIGNMENT - at % ALIGNMENT) % ALIGNMENT);
    return gap && gap < EXTRA_HEADER ? gap + ALIGNMENT : gap;
}

static void put_local(lki_sink *s, const member *m)
{
    const bool   wide = m->size >= TOO_WIDE;
    const size_t sizes = wide ? EXTRA_HEADER + 16 : 0, gap = padding(m->offset + LOCAL_SIZE + m->length + sizes);
    lki_sink_fixed(s, 0x04034b50, 4);
    put_common(s, m, wide);
    lki_sink_fixed(s, sizes + gap, 2);
    lki_sink_bytes(s, m->name, m->length);
    if (wide) {
        lki_sink_fixed(s, ID_WIDE, 2);
        lki_sink_fixed(s, 16, 2);
        lki_sink_fixed(s, m->size, 8);
        lki_sink_fixed(s, m->size, 8);
    }
    if (!gap) return;
    lki_sink_fixed(s, ID_ALIGN, 2);
    lki_sink_fixed(s, gap - EXTRA_HEADER, 2);
    put_zeros(s, gap - EXTRA_HEADER);
}

static void put_entry(lki_sink *s, const member *m)
{
    const int fields = (m->size >= TOO_WIDE ? 2 : 0) + (m->offset >= TOO_WIDE);
    lki_sink_fixed(s, 0x02014b50, 4);
    lki_sink_fixed(s, MADE_ON_UNIX | (fields ? WIDE : PLAIN), 2);
    put_common(s, m, fields > 0);
    lki_sink_fixed(s, fields ? EXTRA_HEADER + 8 * (uint64_t)fields : 0, 2);
    lki_sink_fixed(s, 0, 6); /* no comment, first disk, not text */
    lki_sink_fixed(s, REGULAR_FILE, 4);
    lki_sink_fixed(s, narrow(m->offset), 4);
    lki_sink_bytes(s, m->name, m->length);
    if (!fields) return;
    lki_sink_fixed(s, ID_WIDE, 2);
    lki_sink_fixed(s, 8 * (uint64_t)fields, 2);
    if (m->size >= TOO_WIDE) {
        lki_sink_fixed(s, m->size, 8);
        lki_sink_fixed(s, m->size, 8);
    }
    if (m->offset >= TOO_WIDE) lki_sink_fixed(s, m->offset, 8);
}

lk_status lki_zip_out_new(lki_zip_out **out)
{
    *out = lki_zalloc(sizeof **out);
    return *out ? LK_OK : LK_ENOMEM;
}

lk_status lki_zip_out_add(lki_zip_out *z, const char *name, const void *data, size_t size)
{
    member m = {name, strlen(name), size, z->body.size, lki_crc32(0, data, size), false};
    if (!m.length || m.length > MOST_NAME)
        return lki_fail(LK_EINVAL, "zip: a member's name of %zu bytes: should have 1 to %d", m.length, MOST_NAME);
    if (!lki_utf8_valid(name, m.length)) return lki_fail(LK_EINVAL, "zip: a member's name is not UTF-8");
    for (size_t i = 0; i < m.length; i++)
        m.utf8 |= (unsigned char)name[i] > 127;
    put_local(&z->body, &m);
    lki_sink_bytes(&z->body, data, size);
    put_entry(&z->directory, &m);
    z->count++;
    return z->body.failed || z->directory.failed ? LK_ENOMEM : LK_OK;
}

static void put_wide_end(lki_sink *s, uint64_t count, uint64_t size, uint64_t start)
{
    const uint64_t here = s->size;
    lki_sink_fixed(s, 0x06064b50, 4);
    lki_sink_fixed(s, 44, 8); /* bytes that follow */
    lki_sink_fixed(s, MADE_ON_UNIX | WIDE, 2);
    lki_sink_fixed(s, WIDE, 2);
    lki_sink_fixed(s, 0, 8); /* disks */
    lki_sink_fixed(s, count, 8);
    lki_sink_fixed(s, count, 8);
    lki_sink_fixed(s, size, 8);
    lki_sink_fixed(s, start, 8);
    lki_sink_fixed(s, 0x07064b50, 4);
    lki_sink_fixed(s, 0, 4);
    lki_sink_fixed(s, here, 8);
    lki_sink_fixed(s, 1, 4);
}

static void put_end(lki_sink *s, uint64_t count, uint64_t size, uint64_t start)
{
    const uint64_t few = count < UINT16_MAX ? count : UINT16_MAX;
    if (few < count || size >= TOO_WIDE || start >= TOO_WIDE) put_wide_end(s, count, size, start);
    lki_sink_fixed(s, 0x06054b50, 4);
    lki_sink_fixed(s, 0, 4); /* disks */
    lki_sink_fixed(s, few, 2);
    lki_sink_fixed(s, few, 2);
    lki_sink_fixed(s, narrow(size), 4);
    lki_sink_fixed(s, narrow(start), 4);
    lki_sink_fixed(s, 0, 2); /* no comment */
}

lk_status lki_zip_out_finish(lki_zip_out *z, lki_bytes *archive)
{
    lki_sink      *body = &z->body;
    const uint64_t start = body->size;
    body->failed |= z->directory.failed;
    lki_sink_bytes(body, z->directory.data, z->directory.size);
    put_end(body, z->count, z->directory.size, start);
    const lk_status status = body->failed ? LK_ENOMEM : LK_OK;
    *archive = (lki_bytes){0};
    if (status == LK_OK) {
        *archive = (lki_bytes){body->data, body->size};
        *body = (lki_sink){0};
    }
    lki_zip_out_free(z);
    return status;
}

void lki_zip_out_free(lki_zip_out *z)
{
    if (!z) return;
    lki_sink_free(&z->body);
    lki_sink_free(&z->directory);
    lki_release(z);
}
