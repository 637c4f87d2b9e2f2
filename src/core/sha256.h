/* SHA-256 (FIPS 180-4), for digests of weights and of files. */
#ifndef LKI_CORE_SHA256_H
#define LKI_CORE_SHA256_H

#include "core/base.h"

typedef struct lki_sha256 {
    uint32_t state[8];
    uint64_t bytes;
    uint8_t  block[64];
} lki_sha256;

void lki_sha256_begin(lki_sha256 *s);
void lki_sha256_add(lki_sha256 *s, const void *data, size_t bytes);
void lki_sha256_end(lki_sha256 *s, uint8_t digest[32]);

#endif
