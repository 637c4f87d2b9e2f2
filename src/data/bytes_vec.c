/* A function of bytes, sixteen at a time. The build compiles this file once for each instruction set, as it does kernels. */
#include "data/bytes.h"
#include "kernel/cpu/vec.h"

/* Its numbers, in registers: the compiler must assume that dst overlaps the struct they come from. */
typedef struct numbers {
    vec scale, shift, divisor;
} numbers;

static inline vec product(const numbers *f, vec b) { return vec_add(vec_mul(b, f->scale), f->shift); }

/* A product with the reciprocal, corrected by the remainder: three operations instead of a division, which takes as long as ten. */
static inline vec quotient(const numbers *f, vec b)
{
    const vec first = vec_mul(b, f->scale), left = vec_nfma(f->divisor, first, b);
    return vec_add(vec_fma(left, f->scale, first), f->shift);
}

#define ALONG(form)                                                                                                                \
    do {                                                                                                                           \
        const numbers in = {vec_set(f->scale), vec_set(f->shift), vec_set(f->divisor)};                                            \
        int64_t       i = 0;                                                                                                       \
        for (; i + VEC <= n; i += VEC)                                                                                             \
            vec_store(dst + i, form(&in, vec_load_bytes(src + i)));                                                                \
        if (i < n) {                                                                                                               \
            uint8_t last[VEC] = {0};                                                                                               \
            memcpy(last, src + i, (size_t)(n - i));                                                                                \
            vec_store_part(dst + i, form(&in, vec_load_bytes(last)), n - i);                                                       \
        }                                                                                                                          \
    } while (0)

void ISA(lki_bytes)(const lki_byte_map *f, int64_t n, const uint8_t *src, float *dst)
{
    if (f->form == LKI_BYTES_QUOTIENT) ALONG(quotient);
    else if (f->form == LKI_BYTES_PRODUCT) ALONG(product);
    else
        for (int64_t i = 0; i < n; i++)
            dst[i] = f->table[src[i]];
}
