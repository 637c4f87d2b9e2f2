/* CRC-32C: the polynomial 0x1edc6f41, bits reversed, start and end inverted. One instruction takes eight bytes where there is
 * SSE 4.2; elsewhere eight tables do, table k telling what a byte does to the checksum after k more bytes. */
#include "format/crc32c.h"
#include <pthread.h>
#include <string.h>

enum { WORD = 8 };

static const uint32_t reversed = 0x82f63b78;
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

uint32_t lki_crc32c_table(uint32_t seed, const void *data, size_t size)
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

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) static uint32_t with_instruction(uint32_t seed, const uint8_t *p, size_t size)
{
    uint64_t crc = ~seed;
    for (; size >= WORD; p += WORD, size -= WORD) {
        uint64_t word;
        memcpy(&word, p, WORD);
        crc = __builtin_ia32_crc32di(crc, word);
    }
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
