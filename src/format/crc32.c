/* CRC-32: the polynomial 0x04c11db7, bits reversed, start and end inverted. Table k tells what a byte does to the checksum after k more
 * bytes, so that eight bytes are taken at a time. */
#include "format/crc32.h"
#include <pthread.h>

enum { WORD = 8 };

static const uint32_t reversed = 0xedb88320;
static uint32_t       table[WORD][256];
static pthread_once_t made = PTHREAD_ONCE_INIT;

static void make_tables(void)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t crc = i;
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? reversed : 0);
        table[0][i] = crc;
    }
    for (int k = 1; k < WORD; k++)
        for (int i = 0; i < 256; i++)
            table[k][i] = table[k - 1][i] >> 8 ^ table[0][table[k - 1][i] & 255];
}

uint32_t lki_crc32(uint32_t seed, const void *data, size_t size)
{
    const uint8_t *p = data;
    uint32_t       crc = ~seed;
    pthread_once(&made, make_tables);
    for (; size >= WORD; p += WORD, size -= WORD) {
        const uint32_t low = crc ^ ((uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24);
        crc = table[7][low & 255] ^ table[6][low >> 8 & 255] ^ table[5][low >> 16 & 255] ^ table[4][low >> 24] ^ table[3][p[4]] ^
              table[2][p[5]] ^ table[1][p[6]] ^ table[0][p[7]];
    }
    for (; size; size--)
        crc = crc >> 8 ^ table[0][(crc ^ *p++) & 255];
    return ~crc;
}
