/* PNG images. With an odd first byte as they are; otherwise the checksums of their chunks are corrected first. */
#include "format/png.h"
#include "format/crc32.h"
#include "fuzz/target.h"

static void seal(uint8_t *data, size_t size)
{
    for (size_t at = 8; at <= size && size - at >= 12;) {
        const uint64_t length = lki_get_be(data + at, 4);
        if (length > size - at - 12) return;
        const uint32_t crc = __builtin_bswap32(lki_crc32(0, data + at + 4, (size_t)length + 4));
        memcpy(data + at + 8 + length, &crc, 4);
        at += 12 + (size_t)length;
    }
}

static void decode(const uint8_t *data, size_t size, int channels)
{
    lki_image i;
    float     small[3 * 3 * 4];
    if (lki_image_decode("a.png", data, size, channels, &i) != LK_OK) return;
    lki_image_resize(&i, 3, 3, small);
    lki_image_free(&i);
}

TARGET(4 * MIB, 64 * 1032)
{
    static const int channels[] = {0, 1, 3, 4};
    const uint64_t   how = fuzz_number(&data, &size, 1);
    uint8_t         *copy = malloc(size + !size);
    if (!copy) return;
    if (size) memcpy(copy, data, size);
    if (!(how & 1)) seal(copy, size);
    decode(copy, size, channels[how >> 1 & 3]);
    free(copy);
}
