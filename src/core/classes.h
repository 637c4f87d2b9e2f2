/* Classes of sizes for lists of freed blocks: four for each power of two, so that at most a quarter of a block is wasted.
 *
 *     in units:  1 2 3 4 | 5 6 7 8 | 10 12 14 16 | 20 24 28 32 | ... */
#ifndef LKI_CORE_CLASSES_H
#define LKI_CORE_CLASSES_H

#include <stddef.h>

/* The class of blocks of `units`, 1 or more; *holds is the size of its blocks. */
static inline int lki_class_of(size_t units, size_t *holds)
{
    if (units <= 4) return *holds = units, (int)units - 1;
    const int    power = 63 - __builtin_clzll((unsigned long long)units - 1);        /* 2^power < units <= 2^(power + 1) */
    const size_t step = (size_t)1 << (power - 2), steps = (units + step - 1) / step; /* 5 to 8 */
    *holds = steps * step;
    return 4 * (power - 1) + (int)steps - 5;
}

#endif
