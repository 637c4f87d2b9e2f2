/* The file of a cache. Unless the first byte is odd, its checksums are corrected first. */
#include "format/crc32c.h"
#include "format/file.h"
#include "fuzz/target.h"

enum { MAGIC = 8, BLOCK = 20, FOOTER = 28 };

static void put_crc(uint8_t *to, const uint8_t *from, size_t size)
{
    const uint32_t crc = lki_crc32c_mask(lki_crc32c(0, from, size));
    memcpy(to, &crc, 4);
}

static void seal(uint8_t *data, size_t size)
{
    if (size < MAGIC + FOOTER) return;
    const size_t end = size - FOOTER;
    for (size_t at = MAGIC; end - at >= BLOCK;) {
        const uint64_t length = lki_get_le(data + at, 8);
        if (length > end - at - BLOCK) break;
        put_crc(data + at + 12, data + at + BLOCK, (size_t)length);
        put_crc(data + at + 16, data + at, 16);
        at += BLOCK + (size_t)length;
    }
    put_crc(data + end + 16, data + end, 16);
}

TARGET(8 * MIB, 1024)
{
    const bool sealed = !(fuzz_number(&data, &size, 1) & 1);
    uint8_t   *copy = malloc(size + !size);
    if (!copy) return;
    if (size) memcpy(copy, data, size);
    if (sealed) seal(copy, size);
    const char *path = fuzz_file("cache", copy, size);
    free(copy);
    lk_dataset *d = lk_dataset_cache(lk_dataset_range(5), .file = path);
    int         count = 0;
    if (d)
        LK_FOR_EACH(x, d)
            if (++count == 16) break;
    remove(path);
}
