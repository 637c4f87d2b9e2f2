/* CRC-32, as in zip archives and PNG images. */
#ifndef LKI_FORMAT_CRC32_H
#define LKI_FORMAT_CRC32_H

#include "core/base.h"

/* Of these bytes; or of bytes whose checksum is `seed` followed by these. Begin with 0. */
uint32_t lki_crc32(uint32_t seed, const void *data, size_t size);

#endif
