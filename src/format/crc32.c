/* The two checksums of 32 bits: CRC-32 (polynomial 0x04c11db7) and CRC-32C (0x1edc6f41), bits reversed, start and end inverted.
 *
 * Table k has the effect of a byte on the checksum after k more bytes, so that eight bytes are processed at a time. With SSE 4.2,
 * one instruction processes eight bytes for CRC-32C. Its latency is three cycles and one can start every cycle, so three
 * neighbouring blocks are processed at a time and combined: the checksum of a block followed by n more bytes is that of the block
 * followed by n zeros, which is linear and has tables, combined with that of the n bytes. */
#include "format/crc32.h"
#include "format/crc32c.h"
#include <pthread.h>
#include <string.h>

enum { WORD = 8 };

typedef struct tables {
    uint32_t of[WORD][256];
} tables;

static tables         plain, castagnoli;
static pthread_once_t made = PTHREAD_ONCE_INIT;

static void make(tables *t, uint32_t reversed)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t crc = i;
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? reversed : 0);
        t->of[0][i] = crc;
    }
    for (int k = 1; k < WORD; k++)
        for (int i = 0; i < 256; i++)
            t->of[k][i] = t->of[k - 1][i] >> 8 ^ t->of[0][t->of[k - 1][i] & 255];
}

static void make_both(void)
{
    make(&plain, 0xedb88320);
    make(&castagnoli, 0x82f63b78);
}

static uint32_t by_table(const tables *t, uint32_t seed, const uint8_t *p, size_t size)
{
    const uint32_t(*of)[256] = t->of;
    uint32_t crc = ~seed;
    pthread_once(&made, make_both);
    for (; size >= WORD; p += WORD, size -= WORD) {
        const uint32_t low = crc ^ ((uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24);
        crc = of[7][low & 255] ^ of[6][low >> 8 & 255] ^ of[5][low >> 16 & 255] ^ of[4][low >> 24] ^ of[3][p[4]] ^ of[2][p[5]] ^
              of[1][p[6]] ^ of[0][p[7]];
    }
    for (; size; size--)
        crc = crc >> 8 ^ of[0][(crc ^ *p++) & 255];
    return ~crc;
}

uint32_t lki_crc32(uint32_t seed, const void *data, size_t size) { return by_table(&plain, seed, data, size); }
uint32_t lki_crc32c_table(uint32_t seed, const void *data, size_t size) { return by_table(&castagnoli, seed, data, size); }

#if defined(__x86_64__)
enum { BLOCKS = 2 };
static const size_t BLOCK[BLOCKS] = {8192, 256}; /* bytes: the first for long data, the second for the rest of it */

/* [b][k][x]: the change of byte k of a checksum, with value x, by BLOCK[b] zero bytes after it. */
static uint32_t       zeros[BLOCKS][4][256];
static pthread_once_t zeros_made = PTHREAD_ONCE_INIT;

static void make_zeros(void)
{
    pthread_once(&made, make_both);
    for (int b = 0; b < BLOCKS; b++) {
        for (int bit = 0; bit < 32; bit++) {
            uint32_t crc = (uint32_t)1 << bit;
            for (size_t n = BLOCK[b]; n; n--)
                crc = crc >> 8 ^ castagnoli.of[0][crc & 255];
            zeros[b][bit / 8][1 << bit % 8] = crc;
        }
        for (int k = 0; k < 4; k++)
            for (int x = 1; x < 256; x++) /* the lowest bit, and the others */
                zeros[b][k][x] = zeros[b][k][x & -x] ^ zeros[b][k][x & (x - 1)];
    }
}

static uint64_t followed_by_zeros(int b, uint64_t crc)
{
    return zeros[b][0][crc & 255] ^ zeros[b][1][crc >> 8 & 255] ^ zeros[b][2][crc >> 16 & 255] ^ zeros[b][3][crc >> 24 & 255];
}

static uint64_t word_at(const uint8_t *p)
{
    uint64_t word;
    memcpy(&word, p, WORD);
    return word;
}

__attribute__((target("sse4.2"))) static uint64_t three_blocks(int b, uint64_t crc, const uint8_t *p)
{
    const size_t   block = BLOCK[b];
    const uint8_t *end = p + block;
    uint64_t       second = 0, third = 0;
    for (; p < end; p += WORD) {
        crc = __builtin_ia32_crc32di(crc, word_at(p));
        second = __builtin_ia32_crc32di(second, word_at(p + block));
        third = __builtin_ia32_crc32di(third, word_at(p + 2 * block));
    }
    return followed_by_zeros(b, followed_by_zeros(b, crc) ^ second) ^ third;
}

__attribute__((target("sse4.2"))) static uint32_t with_instruction(uint32_t seed, const uint8_t *p, size_t size)
{
    uint64_t crc = ~seed;
    if (size >= 3 * BLOCK[BLOCKS - 1]) pthread_once(&zeros_made, make_zeros);
    for (int b = 0; b < BLOCKS; b++)
        for (; size >= 3 * BLOCK[b]; p += 3 * BLOCK[b], size -= 3 * BLOCK[b])
            crc = three_blocks(b, crc, p);
    for (; size >= WORD; p += WORD, size -= WORD)
        crc = __builtin_ia32_crc32di(crc, word_at(p));
    for (; size; size--)
        crc = __builtin_ia32_crc32qi((uint32_t)crc, *p++);
    return ~(uint32_t)crc;
}

uint32_t lki_crc32c(uint32_t seed, const void *data, size_t size)
{
    return __builtin_cpu_supports("sse4.2") ? with_instruction(seed, data, size) : lki_crc32c_table(seed, data, size);
}
#else
uint32_t lki_crc32c(uint32_t seed, const void *data, size_t size) { return lki_crc32c_table(seed, data, size); }
#endif
