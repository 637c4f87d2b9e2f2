/* FOLD, the order of summation along contiguous memory (kernel.h), written once for all element types.
 *
 * A binary counter of block sums: pushing the n-th block merges equal-sized neighbours, so at most 52 partial sums are open. */
#ifndef LKI_KERNEL_FOLD_H
#define LKI_KERNEL_FOLD_H

#include <stdint.h>

enum { LKI_FOLD_BLOCK = 4096, LKI_FOLD_WIDTH = 16, LKI_FOLD_DEPTH = 52 };

#define LKI_DEFINE_FOLD(T, name)                                                                                                   \
    typedef struct lki_fold_##name {                                                                                               \
        uint64_t blocks;                                                                                                           \
        int      open;                                                                                                             \
        T        sum[LKI_FOLD_DEPTH];                                                                                              \
    } lki_fold_##name;                                                                                                             \
                                                                                                                                   \
    static inline void lki_fold_##name##_push(lki_fold_##name *f, T block_sum)                                                     \
    {                                                                                                                              \
        for (uint64_t n = f->blocks++; n & 1; n >>= 1)                                                                             \
            block_sum = f->sum[--f->open] + block_sum;                                                                             \
        f->sum[f->open++] = block_sum;                                                                                             \
    }                                                                                                                              \
                                                                                                                                   \
    static inline T lki_fold_##name##_end(lki_fold_##name *f)                                                                      \
    {                                                                                                                              \
        if (!f->open) return 0;                                                                                                    \
        T sum = f->sum[--f->open];                                                                                                 \
        while (f->open)                                                                                                            \
            sum = f->sum[--f->open] + sum;                                                                                         \
        return sum;                                                                                                                \
    }                                                                                                                              \
                                                                                                                                   \
    static inline T lki_fold_##name##_16(const T acc_in[LKI_FOLD_WIDTH])                                                           \
    {                                                                                                                              \
        T acc[LKI_FOLD_WIDTH];                                                                                                     \
        for (int i = 0; i < LKI_FOLD_WIDTH; i++)                                                                                   \
            acc[i] = acc_in[i];                                                                                                    \
        for (int half = LKI_FOLD_WIDTH / 2; half; half /= 2)                                                                       \
            for (int i = 0; i < half; i++)                                                                                         \
                acc[i] = acc[i] + acc[i + half];                                                                                   \
        return acc[0];                                                                                                             \
    }

LKI_DEFINE_FOLD(float, f32)
LKI_DEFINE_FOLD(double, f64)

#endif
