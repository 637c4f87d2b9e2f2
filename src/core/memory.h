/* All memory of the library is allocated here.
 *
 * Invariants
 *  1. Every block is aligned to 64 bytes; blocks of 2 MiB and more are aligned to 2 MiB and offered to the kernel as huge pages.
 *  2. A failed request records LK_ENOMEM with the requested size and returns NULL; nothing is lost.
 *  3. Released blocks of up to 64 MiB are kept in free lists by size class (4 classes per power of two) and reused by later
 *     requests, so a loop that repeats itself stops asking the system for memory. The lists hold at most lki_memory_limit_cached()
 *     bytes.
 *  4. A block is charged to the account that its thread has selected, if any, until it is released. A request that would exceed the
 *     account's limit fails.
 *  5. Safe from any thread. */
#ifndef LKI_CORE_MEMORY_H
#define LKI_CORE_MEMORY_H

#include "core/base.h"
#include <string.h>

void *lki_alloc(size_t bytes);  /* contents undefined; for 0 bytes a valid block */
void *lki_zalloc(size_t bytes); /* zeroed */
void *lki_realloc(void *mem, size_t bytes);

/* Memory for `count` elements of `size` bytes. A product that overflows, or a negative count, fails like any request that is too
 * large. Callers never multiply sizes themselves; tests/house/sizes.sh checks that. */
static inline void *lki_alloc_array(int64_t count, size_t size) { return lki_alloc(lki_bytes_of(count, size)); }
static inline void *lki_zalloc_array(int64_t count, size_t size) { return lki_zalloc(lki_bytes_of(count, size)); }
static inline void *lki_realloc_array(void *mem, int64_t count, size_t size) { return lki_realloc(mem, lki_bytes_of(count, size)); }

void  lki_release(void *mem); /* NULL is ignored */
char *lki_strdup(const char *text);

/* char *path LKI_RELEASED = ...: the memory that the pointer has when its block ends is released then. */
#define LKI_RELEASED LKI_FREED_BY(lki_release_of)
static inline void lki_release_of(void *pointer)
{
    void *mem;
    memcpy(&mem, pointer, sizeof mem);
    lki_release(mem);
}

/* Make room for `want` items in a growing array; false and LK_ENOMEM if there is no memory. */
bool lki_grow(void **items, int *capacity, int want, size_t item_bytes);

/* Return the blocks in the free lists to the system; returns how many bytes. */
int64_t lki_memory_trim(void);

/* A limit for the memory of a part of a program. It exists until it is dropped and the last block charged to it is released. */
typedef struct lki_account lki_account;
lki_account               *lki_account_new(int64_t limit);
void                       lki_account_drop(lki_account *a);   /* NULL is ignored */
void                       lki_account_select(lki_account *a); /* for this thread, from now on; NULL: none */

/* Most bytes the free lists may hold: a quarter of the machine's memory. */
size_t  lki_memory_limit_cached(void);
int64_t lki_memory_cached(void); /* bytes they hold now */

/* For tests: the n-th request from now on (1 is the next) fails, with all after it or alone; 0 ends that. The counter counts
 * requests since the start. */
void    lki_memory_fail_after(int64_t request);
void    lki_memory_fail_at(int64_t request);
int64_t lki_memory_requests(void);
int64_t lki_memory_in_use(void); /* bytes handed out and not released */

/* An arena allocates pieces of larger blocks and releases them all at once. Not shared between threads. */
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
