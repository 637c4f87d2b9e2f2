/* UTF-8, character by character. */
#ifndef LKI_FORMAT_UTF8_H
#define LKI_FORMAT_UTF8_H

#include "core/base.h"

/* Number of bytes of the character that begins at p, with at most `left` bytes available; 0: not UTF-8 (cut off, overlong, a
 * surrogate, beyond U+10FFFF). */
static inline int lki_utf8_length(const char *p, size_t left)
{
    const unsigned char *c = (const unsigned char *)p;
    const int size = !left ? 0 : c[0] < 0x80 ? 1 : c[0] < 0xc2 ? 0 : c[0] < 0xe0 ? 2 : c[0] < 0xf0 ? 3 : c[0] < 0xf5 ? 4 : 0;
    if ((size_t)size > left) return 0;
    for (int i = 1; i < size; i++)
        if ((c[i] & 0xc0) != 0x80) return 0;
    if (size > 2) {
        const unsigned first = (unsigned)c[0] << 8 | c[1]; /* overlong ones and surrogates are detected in the first two bytes */
        if (first < 0xe0a0 || (first >= 0xeda0 && first < 0xee00) || (first >= 0xf000 && first < 0xf090) || first > 0xf48f)
            return 0;
    }
    return size;
}

/* The character at p, of `size` bytes as returned by lki_utf8_length(). */
static inline uint32_t lki_utf8_get(const char *p, int size)
{
    static const unsigned char mask[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    uint32_t                   x = (unsigned char)p[0] & mask[size];
    for (int i = 1; i < size; i++)
        x = x << 6 | ((unsigned char)p[i] & 0x3f);
    return x;
}

/* Writes up to 4 bytes to `to`; returns how many. */
static inline int lki_utf8_put(uint32_t c, char *to)
{
    static const unsigned char lead[] = {0, 0, 0xc0, 0xe0, 0xf0};
    const int                  size = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (int i = size; i-- > 1; c >>= 6)
        to[i] = (char)(0x80 | (c & 0x3f));
    to[0] = (char)(lead[size] | c);
    return size;
}

/* True if all of it is UTF-8 without zeros. */
static inline bool lki_utf8_valid(const char *p, size_t size)
{
    for (int length; size; p += length, size -= (size_t)length) {
        length = lki_utf8_length(p, size);
        if (!length || !*p) return false;
    }
    return true;
}

#endif
