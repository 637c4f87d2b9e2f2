/* Folding sixteen numbers into one, for both vector headers: acc[i] = acc[i] op acc[i + half] for half = 8, 4, 2, 1. */
#ifndef LKI_KERNEL_CPU_VEC_FOLD_H
#define LKI_KERNEL_CPU_VEC_FOLD_H

#define VEC_FOLD(name, op256, op128)                                                                                               \
    static inline float name(vec a)                                                                                                \
    {                                                                                                                              \
        __m256 eight = op256(vec_lower(a), vec_upper(a));                                                                          \
        __m128 four = op128(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));                                       \
        __m128 two = op128(four, _mm_movehl_ps(four, four));                                                                       \
        return _mm_cvtss_f32(op128(two, _mm_shuffle_ps(two, two, 1)));                                                             \
    }

VEC_FOLD(vec_fold_add, _mm256_add_ps, _mm_add_ps)
VEC_FOLD(vec_fold_max, _mm256_max_ps, _mm_max_ps)
VEC_FOLD(vec_fold_min, _mm256_min_ps, _mm_min_ps)

#undef VEC_FOLD

#endif
