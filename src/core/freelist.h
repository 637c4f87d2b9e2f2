/* Lists of freed blocks by size class, for the memory of the host (memory.c) and of cards (device/gpu/gpu.c). There are four
 * classes for each power of two. A block of more than 4 units is less than 25 % larger than what was asked for, or than the
 * smallest class if less was asked for. A smaller block is at most 63 bytes larger.
 *
 *     in units of 64 bytes:  1 2 3 4 | 5 6 7 8 | 10 12 14 16 | 20 24 28 32 | ...
 *
 * Invariants
 *  1. The owner of the lists has a lock for them, and chooses the smallest and the largest class, and how many bytes are kept.
 *  2. Lists are copied under the lock and emptied without it: returning blocks to the system, or to a card, takes long. */
#ifndef LKI_CORE_FREELIST_H
#define LKI_CORE_FREELIST_H

#include "core/base.h"

#define LKI_SIZE_UNIT ((size_t)64)
enum { LKI_SIZE_CLASSES = 160, LKI_NO_CLASS = -1 };

typedef struct lki_free_block { /* at the beginning of a block, or of a struct that describes a block */
    struct lki_free_block *next;
    size_t                 size; /* bytes of the block */
    int                    size_class;
} lki_free_block;

typedef struct lki_free_lists {
    lki_free_block *first[LKI_SIZE_CLASSES];
    int64_t         bytes; /* in all lists */
} lki_free_lists;

/* Returns the description of a block for `bytes`: its size and class. It is in no list. If `bytes` is more than `largest`, the
 * block has no class, and lists do not keep it. */
static inline lki_free_block lki_free_block_for(size_t bytes, size_t smallest, size_t largest)
{
    const size_t want = bytes < smallest ? smallest : bytes, units = want / LKI_SIZE_UNIT + (want % LKI_SIZE_UNIT > 0);
    if (want > largest) return (lki_free_block){NULL, units * LKI_SIZE_UNIT, LKI_NO_CLASS};
    if (units <= 4) return (lki_free_block){NULL, units * LKI_SIZE_UNIT, (int)units - 1};
    const int    power = 63 - __builtin_clzll((unsigned long long)units - 1);        /* 2^power < units <= 2^(power + 1) */
    const size_t step = (size_t)1 << (power - 2), steps = (units + step - 1) / step; /* 5 to 8 */
    return (lki_free_block){NULL, steps * step * LKI_SIZE_UNIT, 4 * (power - 1) + (int)steps - 5};
}

/* Takes a block from the list of this class. NULL: the list is empty. */
static inline lki_free_block *lki_free_lists_take(lki_free_lists *l, int size_class)
{
    lki_free_block *b = size_class == LKI_NO_CLASS ? NULL : l->first[size_class];
    if (!b) return NULL;
    l->first[size_class] = b->next;
    l->bytes -= (int64_t)b->size;
    return b;
}

/* Puts a block into its list. false, and nothing is changed: it has no class, or the lists would have more than `most` bytes. */
static inline bool lki_free_lists_put(lki_free_lists *l, lki_free_block *b, size_t most)
{
    if (b->size_class == LKI_NO_CLASS || b->size > most || (size_t)l->bytes > most - b->size) return false;
    b->next = l->first[b->size_class];
    l->first[b->size_class] = b;
    l->bytes += (int64_t)b->size;
    return true;
}

/* Calls release(block, user) for each block of the lists. */
static inline void lki_free_lists_empty(const lki_free_lists *l, void (*release)(lki_free_block *, void *), void *user)
{
    for (int i = 0; i < LKI_SIZE_CLASSES; i++)
        for (lki_free_block *b = l->first[i], *next; b; b = next) {
            next = b->next;
            release(b, user);
        }
}

#endif
