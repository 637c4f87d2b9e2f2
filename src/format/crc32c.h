/* CRC-32C (Castagnoli), as in checkpoints, records and event files. */
#ifndef LKI_FORMAT_CRC32C_H
#define LKI_FORMAT_CRC32C_H

#include "core/base.h"

/* Of these bytes; or of bytes whose checksum is `seed` followed by these. Begin with 0. */
uint32_t lki_crc32c(uint32_t seed, const void *data, size_t size);
uint32_t lki_crc32c_table(uint32_t seed, const void *data, size_t size); /* the same without special instructions */

/* Stored masked, because a checksum of bytes that contain their own checksum detects little. */
static inline uint32_t lki_crc32c_mask(uint32_t crc) { return (crc >> 15 | crc << 17) + 0xa282ead8u; }

static inline uint32_t lki_crc32c_unmask(uint32_t masked)
{
    const uint32_t turned = masked - 0xa282ead8u;
    return turned >> 17 | turned << 15;
}

#endif
