/* Philox4x32-10: random numbers as a pure function of a 64-bit key and a 128-bit counter, never of state or order.
 *
 * The caller decides what goes into the key and the counter (docs/bits.md): seed and stream name in the key; iteration, call,
 * global row and element in the counter. */
#ifndef LKI_CORE_RANDOM_H
#define LKI_CORE_RANDOM_H

#include "core/base.h"

typedef struct lki_philox {
    uint32_t word[4];
} lki_philox;

/* Ten rounds; equal to the reference vectors of the Random123 distribution. */
lki_philox lki_philox_block(uint64_t key, uint64_t counter_low, uint64_t counter_high);

/* A key for a named stream of a seed: FNV-1a of the name, mixed with the seed by one Philox block. */
uint64_t lki_stream_key(uint64_t seed, const char *name);

/* 24 bits to [0, 1), and two words to a pair of normals (Box-Muller in double, rounded once). */
static inline float lki_uniform_of(uint32_t word) { return (float)(word >> 8) * 0x1p-24f; }
void                lki_normal_pair(uint32_t a, uint32_t b, float out[2]);

#endif
