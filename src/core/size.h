/* The arithmetic of sizes: every size that a file or a caller can choose is multiplied, added and rounded up here, and nowhere
 * else.
 *
 * Nothing wraps. What does not fit saturates, at INT64_MAX for numbers of elements and at SIZE_MAX for numbers of bytes; both are
 * more than any shape or block may have, so the check that follows anyway (lki_shape_valid(), lki_row_valid(), lki_alloc()) refuses
 * them.
 *
 *     option of a layer       -LKI_MOST_OPTION .. LKI_MOST_OPTION      core/field.c checks all of them
 *     elements of one row     0 .. LKI_MOST_ELEMENTS, -1 counting as 1 layer/layer.c checks what a layer gives, and each weight
 *     elements of a tensor    0 .. INT64_MAX / 8                       lki_shape_valid()
 *
 * So a product of sizes of one tensor, or of one row, fits by itself; one that mixes two of them, or has an option in it, is made
 * here. */
#ifndef LKI_CORE_SIZE_H
#define LKI_CORE_SIZE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LKI_MOST_OPTION ((int64_t)INT32_MAX)
#define LKI_MOST_ELEMENTS ((int64_t)1 << 48) /* as many bytes are more than a process can address */

/* ---- elements; operands are 0 or more ---- */

static inline int64_t lki_size_mul(int64_t a, int64_t b)
{
    int64_t product;
    return __builtin_mul_overflow(a, b, &product) ? INT64_MAX : product;
}

static inline int64_t lki_size_add(int64_t a, int64_t b)
{
    int64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}

static inline int64_t lki_ceil_div(int64_t a, int64_t b) { return a / b + (a % b > 0); }
static inline int64_t lki_round_up(int64_t a, int64_t b) { return lki_size_mul(lki_ceil_div(a, b), b); }

/* For callers that must know whether a result fits, with operands of any sign: false if not, and then *out must not be used. */
static inline bool lki_size_try_mul(int64_t a, int64_t b, int64_t *out) { return !__builtin_mul_overflow(a, b, out); }
static inline bool lki_size_try_add(int64_t a, int64_t b, int64_t *out) { return !__builtin_add_overflow(a, b, out); }

/* The same for unsigned numbers, as in files. */
static inline bool lki_count_try_mul(uint64_t a, uint64_t b, uint64_t *out) { return !__builtin_mul_overflow(a, b, out); }

/* The product of `count` sizes. */
static inline int64_t lki_size_product(const int64_t *size, int count)
{
    int64_t product = 1;
    for (int i = 0; i < count; i++)
        product = lki_size_mul(product, size[i]);
    return product;
}

/* The same for sizes that may be -1, unknown: then the result is unknown too. */
static inline int64_t lki_size_mul_known(int64_t a, int64_t b) { return a < 0 || b < 0 ? -1 : lki_size_mul(a, b); }
static inline int64_t lki_size_add_known(int64_t a, int64_t b) { return a < 0 || b < 0 ? -1 : lki_size_add(a, b); }

/* ---- bytes ---- */

/* `count` elements of `size` bytes; a negative count gives SIZE_MAX. */
static inline size_t lki_bytes_of(int64_t count, size_t size)
{
    size_t bytes;
    return count < 0 || __builtin_mul_overflow((size_t)count, size, &bytes) ? SIZE_MAX : bytes;
}

static inline size_t lki_bytes_add(size_t a, size_t b) { return a > SIZE_MAX - b ? SIZE_MAX : a + b; }

static inline size_t lki_bytes_round_up(size_t bytes, size_t unit)
{
    size_t over = bytes % unit;
    return over ? lki_bytes_add(bytes, unit - over) : bytes;
}

#endif
