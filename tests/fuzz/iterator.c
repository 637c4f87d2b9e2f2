/* The position of an iterator, as bytes. Unless the first byte is odd, their checksum is corrected first. */
#include "format/crc32c.h"
#include "fuzz/target.h"

static lk_dataset *pipeline(void)
{
    return lk_dataset_batch(lk_dataset_shuffle(lk_dataset_concatenate(lk_dataset_range(7), lk_dataset_range(5)), 4), 3);
}

TARGET(8 * MIB, 1024)
{
    const bool   sealed = !(fuzz_number(&data, &size, 1) & 1);
    lk_iterator *it = lk_iterator_of(pipeline());
    lk_tuple     e;
    uint8_t     *copy = malloc(size + !size);
    if (!copy || !it) return;
    if (size) memcpy(copy, data, size);
    const uint32_t crc = size > 12 ? lki_crc32c_mask(lki_crc32c(0, data + 12, size - 12)) : 0;
    if (sealed && size > 12) memcpy(copy + 8, &crc, 4);
    if (lk_iterator_restore(it, copy, size) == LK_OK)
        for (int i = 0; i < 16 && lk_next(it, &e); i++) {}
    free(copy);
}
