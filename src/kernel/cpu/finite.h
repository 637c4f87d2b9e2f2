/* Tests whether all floats of an array are finite. Kernels that leave out terms with a factor of zero call this first, because they
 * may do that only if the other factor is finite. */
#ifndef LKI_KERNEL_CPU_FINITE_H
#define LKI_KERNEL_CPU_FINITE_H

#include "kernel/cpu/simd.h"

/* Infinity and NaN times zero are NaN, and a sum with a NaN is NaN. There are four sums, because each addition waits for the
 * previous one of the same sum. */
static inline int all_finite(const float *p, int64_t n)
{
    vf      a = vf_zero(), b = a, c = a, d = a;
    int64_t i = 0;
    for (; i + 4 * WIDTH <= n; i += 4 * WIDTH) {
        a = vf_fma(vf_load(p + i), vf_zero(), a);
        b = vf_fma(vf_load(p + i + WIDTH), vf_zero(), b);
        c = vf_fma(vf_load(p + i + 2 * WIDTH), vf_zero(), c);
        d = vf_fma(vf_load(p + i + 3 * WIDTH), vf_zero(), d);
    }
    for (; i < n; i += WIDTH)
        a = vf_fma(vf_load_some(p + i, vm_first(n - i)), vf_zero(), a);
    return !vf_is_any_nan(vf_add(vf_add(a, b), vf_add(c, d)));
}

#endif
