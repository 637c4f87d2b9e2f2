/* A function of one byte, as f32: what a map computes from pictures that are stored as bytes, such as "as a float, divided by 255".
 *
 * Invariants
 *  1. The table of its 256 values is the definition. It is computed by the ops of the map (vector.c), so a batch made from it has
 *     the bits of one that was computed op by op.
 *  2. A formula replaces the table only if it gives exactly all 256 values, which is tested when the function is made. So neither
 *     the formula nor the instruction set changes a value. */
#ifndef LKI_DATA_BYTES_H
#define LKI_DATA_BYTES_H

#include "data/data.h"

enum { LKI_BYTE_VALUES = 256 };

typedef enum lki_bytes_form {
    LKI_BYTES_LOOKUP,   /* table[b] */
    LKI_BYTES_PRODUCT,  /* b * scale + shift, each rounded */
    LKI_BYTES_QUOTIENT, /* b / divisor + shift, each rounded; scale is 1 / divisor */
} lki_bytes_form;

/* dst[i] = f(src[i]); in the floating-point environment of kernels. */
typedef void lki_bytes_fn(const lki_byte_map *f, int64_t n, const uint8_t *src, float *dst);

struct lki_byte_map {
    float          table[LKI_BYTE_VALUES];
    lki_bytes_form form;
    float          scale, divisor, shift;
    bool           plain; /* plain scalar arithmetic also gives exactly these values, as on a card */
    lki_bytes_fn  *apply;
    lki_buffer    *values; /* the table, for cards; a reference, or NULL where `plain` */
};

/* Choose how it is computed; `table` is filled in. */
void lki_bytes_choose(lki_byte_map *f);

lki_bytes_fn lki_bytes_avx2, lki_bytes_avx512; /* bytes_vec.c */

#endif
