/* All memory of the library comes from here.
 *
 * Invariants
 * 1. Every block is aligned to 64 bytes; blocks of 2 MiB and more are aligned to 2 MiB and offered to the kernel as huge pages.
 * 2. A failed request records LK_ENOMEM with the size that was asked for and returns NULL; nothing is lost.
 * 3. Released blocks of up to 64 MiB wait in free lists by size class (4 classes per power of two) and serve later requests, so
 *    that a loop that repeats itself stops asking the system. The lists hold at most lki_memory_limit_cached() bytes.
 * 4. A block is charged to the account its thread has selected, if it has one, until it is released. An account that would hold
 *    more than its limit refuses the request.
 * 5. Safe from any thread. */
#ifndef LKI_CORE_MEMORY_H
#define LKI_CORE_MEMORY_H

#include "core/base.h"

void *lki_alloc(size_t bytes);  /* contents undefined; 0 bytes give a valid block */
void *lki_zalloc(size_t bytes); /* zeroed */
void *lki_realloc(void *mem, size_t bytes);

/* Room for `count` things of `size` bytes; a product that does not fit, like a negative count, is refused as any request that is
 * too large. Requests never multiply by themselves: tests/house/sizes.sh sees to it. */
static inline void *lki_alloc_array(int64_t count, size_t size) { return lki_alloc(lki_bytes_of(count, size)); }
static inline void *lki_zalloc_array(int64_t count, size_t size) { return lki_zalloc(lki_bytes_of(count, size)); }
static inline void *lki_realloc_array(void *mem, int64_t count, size_t size) { return lki_realloc(mem, lki_bytes_of(count, size)); }

void  lki_release(void *mem); /* NULL is ignored */
char *lki_strdup(const char *text);

/* Make room for `want` items in a growing array; false (and LK_ENOMEM) when there is none. */
bool lki_grow(void **items, int *capacity, int want, size_t item_bytes);

/* Give what waits in the free lists back to the system; returns how many bytes. */
int64_t lki_memory_trim(void);

/* What a part of a program may hold. It lives until it is dropped and the last block charged to it is released. */
typedef struct lki_account lki_account;
lki_account               *lki_account_new(int64_t limit);
void                       lki_account_drop(lki_account *a);   /* NULL is ignored */
void                       lki_account_select(lki_account *a); /* of this thread, from here on; NULL: none */

/* Most bytes the free lists may hold: a quarter of the machine's memory. */
size_t  lki_memory_limit_cached(void);
int64_t lki_memory_cached(void); /* bytes they hold now */

/* For tests: let the n-th request from now on (1 is the next) fail, with all after it or alone; 0 ends that. Requests counted since
 * start. */
void    lki_memory_fail_after(int64_t request);
void    lki_memory_fail_at(int64_t request);
int64_t lki_memory_requests(void);
int64_t lki_memory_in_use(void); /* bytes handed out and not released */

/* An arena hands out pieces of blocks and takes them all back at once. Not shared between threads. */
typedef struct lki_arena {
    struct lki_arena_block *block;
} lki_arena;

void *lki_arena_alloc(lki_arena *a, size_t bytes); /* zeroed, 16-byte aligned */
void  lki_arena_clear(lki_arena *a);               /* releases everything */

static inline void *lki_arena_array(lki_arena *a, int64_t count, size_t size)
{
    return lki_arena_alloc(a, lki_bytes_of(count, size));
}

#endif
