/* The wire format of protocol buffers, and growing byte buffers: used for the messages in checkpoints, records and event files.
 *
 *     lki_wire_field f;
 *     while (lki_wire_next(&message, &f))
 *         if (f.number == 3) ...f.value or f.bytes...
 *     if (message.bad) ...malformed...
 *
 * Invariants
 *  1. A reader reads no byte outside its range; a field that does not fit ends the message with `bad` set, and remains the last
 *     one.
 *  2. A sink that ran out of memory ignores further writes and reports it (LK_ENOMEM, `failed`); the caller checks once, at the
 *     end. */
#ifndef LKI_FORMAT_WIRE_H
#define LKI_FORMAT_WIRE_H

#include "core/base.h"

typedef struct lki_wire {
    const uint8_t *p, *end;
    bool           bad;
} lki_wire;

typedef struct lki_wire_field {
    uint32_t number;
    uint64_t value; /* of a varint or a fixed number; for bytes their size */
    lki_wire bytes; /* of a string, bytes or a message; empty for numbers */
    bool     is_bytes;
} lki_wire_field;

/* No bytes may be NULL. */
static inline lki_wire lki_wire_of(const void *data, size_t size)
{
    const uint8_t *p = size ? (const uint8_t *)data : (const uint8_t *)"";
    return (lki_wire){p, p + size, false};
}
static inline size_t lki_wire_left(const lki_wire *w) { return (size_t)(w->end - w->p); }

bool lki_wire_varint(lki_wire *w, uint64_t *out);   /* false, and `bad` is set, if it is cut off or longer than 64 bits */
bool lki_wire_next(lki_wire *w, lki_wire_field *f); /* false at the end and if malformed */

/* ---- writing ---- */

typedef struct lki_sink {
    uint8_t *data; /* from lki_alloc */
    size_t   size, room;
    bool     failed;
} lki_sink;

void lki_sink_free(lki_sink *s);
void lki_sink_bytes(lki_sink *s, const void *data, size_t size);
void lki_sink_varint(lki_sink *s, uint64_t x);
void lki_sink_fixed(lki_sink *s, uint64_t x, int bytes); /* little endian */

/* Fields of a message. A number that is zero is left out, as in protocol buffers. */
void lki_sink_number(lki_sink *s, uint32_t field, uint64_t x);
void lki_sink_fixed32(lki_sink *s, uint32_t field, uint32_t x);
void lki_sink_field(lki_sink *s, uint32_t field, const void *data, size_t size);
void lki_sink_text(lki_sink *s, uint32_t field, const char *text);
void lki_sink_message(lki_sink *s, uint32_t field, const lki_sink *message);

#endif
