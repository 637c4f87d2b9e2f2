/* Protocol buffers on the wire (wire.h).
 *
 *   varint   7 bits per byte, the lowest first; the top bit says that more follow; at most 10 bytes
 *   field    varint  field number << 3 | type
 *            then    type 0: a varint        1: 8 bytes, little endian
 *                    type 2: a varint n and n bytes      5: 4 bytes, little endian      (3 and 4, groups: gone since 2008) */
#include "format/wire.h"
#include "core/memory.h"
#include "format/file.h"
#include <string.h>

enum { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 };

static bool spoil(lki_wire *w)
{
    w->bad = true;
    w->p = w->end;
    return false;
}

bool lki_wire_varint(lki_wire *w, uint64_t *out)
{
    uint64_t x = 0;
    for (int shift = 0; shift < 64; shift += 7) {
        if (w->p == w->end) return spoil(w);
        const uint64_t byte = *w->p++;
        if (shift == 63 && byte > 1) return spoil(w);
        x |= (byte & 127) << shift;
        if (byte < 128) return *out = x, true;
    }
    return spoil(w);
}

static bool take(lki_wire *w, uint64_t size, const uint8_t **out)
{
    if (size > lki_wire_left(w)) return spoil(w);
    *out = w->p;
    w->p += size;
    return true;
}

bool lki_wire_next(lki_wire *w, lki_wire_field *f)
{
    uint64_t       tag;
    const uint8_t *p;
    if (w->p == w->end || !lki_wire_varint(w, &tag)) return false;
    *f = (lki_wire_field){.number = (uint32_t)(tag >> 3)};
    if (tag >> 3 == 0 || tag >> 3 > 0x1fffffff) return spoil(w);
    switch (tag & 7) {
    case VARINT: return lki_wire_varint(w, &f->value);
    case FIXED64:
    case FIXED32: {
        const int bytes = (tag & 7) == FIXED64 ? 8 : 4;
        if (!take(w, (uint64_t)bytes, &p)) return false;
        f->value = lki_get_le(p, bytes);
        return true;
    }
    case BYTES:
        if (!lki_wire_varint(w, &f->value) || !take(w, f->value, &p)) return false;
        f->bytes = lki_wire_of(p, (size_t)f->value);
        f->is_bytes = true;
        return true;
    default: return spoil(w);
    }
}

/* ---- writing ---------------------------------------------------------------------------------------------------------------- */

void lki_sink_free(lki_sink *s)
{
    lki_release(s->data);
    *s = (lki_sink){0};
}

static bool make_room(lki_sink *s, size_t more)
{
    if (s->failed) return false;
    if (more <= s->room - s->size) return true;
    const size_t wanted = s->size + more, doubled = s->room * 2 + 256;
    uint8_t     *data = wanted < s->size ? NULL : lki_realloc(s->data, wanted > doubled ? wanted : doubled);
    s->failed = !data;
    if (!data) return false;
    s->data = data;
    s->room = wanted > doubled ? wanted : doubled;
    return true;
}

void lki_sink_bytes(lki_sink *s, const void *data, size_t size)
{
    if (!size || !make_room(s, size)) return;
    memcpy(s->data + s->size, data, size);
    s->size += size;
}

void lki_sink_varint(lki_sink *s, uint64_t x)
{
    uint8_t byte[10];
    int     n = 0;
    for (; x >= 128; x >>= 7)
        byte[n++] = (uint8_t)(x | 128);
    byte[n++] = (uint8_t)x;
    lki_sink_bytes(s, byte, (size_t)n);
}

void lki_sink_fixed(lki_sink *s, uint64_t x, int bytes)
{
    uint8_t byte[8];
    for (int i = 0; i < bytes; i++)
        byte[i] = (uint8_t)(x >> 8 * i);
    lki_sink_bytes(s, byte, (size_t)bytes);
}

void lki_sink_number(lki_sink *s, uint32_t field, uint64_t x)
{
    if (!x) return;
    lki_sink_varint(s, field << 3 | VARINT);
    lki_sink_varint(s, x);
}

void lki_sink_fixed32(lki_sink *s, uint32_t field, uint32_t x)
{
    if (!x) return;
    lki_sink_varint(s, field << 3 | FIXED32);
    lki_sink_fixed(s, x, 4);
}

void lki_sink_field(lki_sink *s, uint32_t field, const void *data, size_t size)
{
    lki_sink_varint(s, field << 3 | BYTES);
    lki_sink_varint(s, size);
    lki_sink_bytes(s, data, size);
}

void lki_sink_text(lki_sink *s, uint32_t field, const char *text)
{
    if (*text) lki_sink_field(s, field, text, strlen(text));
}

void lki_sink_message(lki_sink *s, uint32_t field, const lki_sink *message)
{
    s->failed = s->failed || message->failed;
    lki_sink_field(s, field, message->data, message->size);
}
