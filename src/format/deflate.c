/* Packing (deflate.h): one block with the fixed code of RFC 1951, or stored blocks where that is shorter.
 *
 *   fixed code of literals and lengths                 distance: 5 bits, then extra bits
 *     0..143     8 bits from 00110000                  zlib frame: 78 01, the blocks, Adler-32 (big endian)
 *     144..255   9 bits from 110010000                 stored block: 1 byte (last?), length, ~length (2 each), bytes
 *     256..279   7 bits from 0000000
 *     280..287   8 bits from 11000000
 *
 * Matches are found through chains of places with the same three bytes, the nearest first; a chain is followed for a while, not to
 * its end. The result depends on the bytes alone. */
#include "format/deflate.h"
#include "core/memory.h"
#include <string.h>

enum {
    WINDOW = 32768,
    SHORTEST = 3,
    LONGEST = 258,
    HASH_BITS = 15,
    CHAIN = 64,
    STORED_MOST = 65535,
    STORED_HEADER = 5,
    END_OF_BLOCK = 256,
    FIRST_LENGTH = 257
};

typedef struct packer {
    const uint8_t *data;
    size_t         size;
    uint8_t       *to;   /* allocated for the worst case */
    uint64_t       bits; /* not written yet, the first lowest */
    int            count;
    int64_t       *head;   /* by hash: the last place, or -1 */
    int64_t       *before; /* by place modulo WINDOW: the place before it with the same hash */
} packer;

typedef struct match {
    int     length; /* 0: none */
    int64_t distance;
} match;

/* ---- bits -------------------------------------------------------------------------------------------------------------------- */

static void put_bits(packer *p, uint32_t value, int count)
{
    p->bits |= (uint64_t)value << p->count;
    p->count += count;
    for (; p->count >= 8; p->count -= 8, p->bits >>= 8)
        *p->to++ = (uint8_t)p->bits;
}

static void put_last_bits(packer *p)
{
    if (p->count) put_bits(p, 0, 8 - p->count);
}

/* Codes are sent with their highest bit first, everything else lowest first. */
static void put_code(packer *p, uint32_t code, int count)
{
    uint32_t turned = 0;
    for (int i = 0; i < count; i++)
        turned |= (code >> i & 1) << (count - 1 - i);
    put_bits(p, turned, count);
}

static void put_symbol(packer *p, uint32_t symbol)
{
    if (symbol < 144) put_code(p, 0x30 + symbol, 8);
    else if (symbol < 256) put_code(p, 0x190 + symbol - 144, 9);
    else if (symbol < 280) put_code(p, symbol - 256, 7);
    else put_code(p, 0xc0 + symbol - 280, 8);
}

/* Lengths and distances are divided into classes that double in width every `step` classes; a value is its class and extra bits. */
static void class_of(uint32_t value, int step_bits, uint32_t *class, int *extra_bits, uint32_t *extra)
{
    const int top = value < 2u << step_bits ? step_bits : 31 - __builtin_clz(value);
    *extra_bits = top - step_bits;
    *class = ((uint32_t)*extra_bits << step_bits) + (value >> *extra_bits);
    *extra = value & ((1u << *extra_bits) - 1);
}

static void put_match(packer *p, match m)
{
    uint32_t class = 28, extra = 0; /* the longest has a class of its own */
    int extra_bits = 0;
    if (m.length < LONGEST) class_of((uint32_t)(m.length - SHORTEST), 2, &class, &extra_bits, &extra);
    put_symbol(p, FIRST_LENGTH + class);
    put_bits(p, extra, extra_bits);
    class_of((uint32_t)(m.distance - 1), 1, &class, &extra_bits, &extra);
    put_code(p, class, 5);
    put_bits(p, extra, extra_bits);
}

/* ---- matches ----------------------------------------------------------------------------------------------------------------- */

static uint32_t hash_of(const uint8_t *c)
{
    return ((uint32_t)c[0] << 16 | (uint32_t)c[1] << 8 | c[2]) * 0x9e3779b1u >> (32 - HASH_BITS);
}

static void remember(packer *p, size_t at)
{
    if (p->size - at < SHORTEST) return;
    const uint32_t hash = hash_of(p->data + at);
    p->before[at % WINDOW] = p->head[hash];
    p->head[hash] = (int64_t)at;
}

static int common(const uint8_t *a, const uint8_t *b, int most)
{
    int n = 0;
    while (n < most && a[n] == b[n])
        n++;
    return n;
}

static match longest(const packer *p, size_t at)
{
    match best = {0};
    if (p->size - at < SHORTEST) return best;
    const int most = (int)lki_min(LONGEST, (int64_t)(p->size - at));
    int64_t   place = p->head[hash_of(p->data + at)];
    for (int i = 0; i < CHAIN && place >= 0 && (int64_t)at - place <= WINDOW && best.length < most; i++) {
        const int length = common(p->data + place, p->data + at, most);
        if (length >= SHORTEST && length > best.length) best = (match){length, (int64_t)at - place};
        place = p->before[place % WINDOW]; /* only overwritten by positions that are out of its reach */
    }
    return best;
}

static void put_fixed(packer *p)
{
    put_bits(p, 1 | 1 << 1, 3); /* last block, fixed code */
    for (size_t at = 0; at < p->size;) {
        const match m = longest(p, at);
        if (m.length) put_match(p, m);
        else put_symbol(p, p->data[at]);
        for (size_t next = at + (size_t)(m.length ? m.length : 1); at < next; at++)
            remember(p, at);
    }
    put_symbol(p, END_OF_BLOCK);
    put_last_bits(p);
}

/* ---- stored ------------------------------------------------------------------------------------------------------------------ */

static size_t stored_size(size_t size) { return size + STORED_HEADER * (size / STORED_MOST + 1); }

static void put_stored(packer *p)
{
    size_t at = 0;
    do {
        const size_t size = (size_t)lki_min(STORED_MOST, (int64_t)(p->size - at));
        put_bits(p, at + size == p->size, 8); /* last?, stored, and bits up to the next byte */
        put_bits(p, (uint32_t)size, 16);
        put_bits(p, (uint32_t)~size & 0xffff, 16);
        if (size) memcpy(p->to, p->data + at, size);
        p->to += size;
        at += size;
    } while (at < p->size);
}

/* ---- all of it --------------------------------------------------------------------------------------------------------------- */

static uint32_t adler32(const uint8_t *data, size_t size)
{
    enum { PRIME = 65521, SAFE = 5552 }; /* this many bytes before a sum can exceed 32 bits */
    uint32_t a = 1, b = 0;
    for (size_t at = 0; at < size;) {
        const size_t stop = size - at < SAFE ? size : at + SAFE;
        for (; at < stop; at++) {
            a += data[at];
            b += a;
        }
        a %= PRIME;
        b %= PRIME;
    }
    return b << 16 | a;
}

static void pack(packer *p, lki_frame frame, lki_bytes *out)
{
    if (frame == LKI_FRAME_ZLIB) put_bits(p, 0x0178, 16);
    uint8_t *start = p->to;
    put_fixed(p);
    if ((size_t)(p->to - start) > stored_size(p->size)) {
        p->to = start;
        put_stored(p);
    }
    if (frame == LKI_FRAME_ZLIB) put_bits(p, __builtin_bswap32(adler32(p->data, p->size)), 32);
    out->size = (size_t)(p->to - out->data);
}

lk_status lki_deflate(lki_frame frame, const void *data, size_t size, lki_bytes *out)
{
    const size_t places = (1 << HASH_BITS) + WINDOW;
    *out = (lki_bytes){lki_alloc(size + size / 8 + stored_size(0) + 16), 0}; /* nine bits a byte at worst */
    int64_t *place LKI_RELEASED = out->data ? lki_alloc_array(places, sizeof *place) : NULL;
    if (!place) {
        lki_bytes_free(out);
        return LK_ENOMEM;
    }
    memset(place, 0xff, places * sizeof *place);
    packer p = {.data = data, .size = size, .to = out->data, .head = place, .before = place + (1 << HASH_BITS)};
    pack(&p, frame, out);
    return LK_OK;
}
