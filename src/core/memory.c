/* Blocks, free lists and arenas; see memory.h for the invariants.
 *
 *     small block (aligned_alloc)                  block of 2 MiB and more (mmap)
 *     | header, 64 bytes | contents ...            | ... header | contents, from a multiple of 2 MiB ...
 *
 * Freed blocks of up to 64 MiB are kept (freelist.h); the header is part of the list. */
#include "core/memory.h"
#include "core/error.h"
#include "core/freelist.h"
#include "core/lock.h"
#include <lockstep/runtime.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__)
#define WATCHED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define WATCHED 1
#endif
#endif

/* Under AddressSanitizer a block in a free list must not be accessed, like a freed one. */
#ifdef WATCHED
#include <sanitizer/asan_interface.h>
#define FORBID(mem, bytes) ASAN_POISON_MEMORY_REGION(mem, bytes)
#define ALLOW(mem, bytes) ASAN_UNPOISON_MEMORY_REGION(mem, bytes)
#else
#define FORBID(mem, bytes) ((void)(mem), (void)(bytes))
#define ALLOW(mem, bytes) ((void)(mem), (void)(bytes))
#endif

#define UNIT LKI_SIZE_UNIT
#define HUGE_PAGE ((size_t)2 << 20)
#define LARGEST_CLASS ((size_t)64 << 20)
#define LARGEST_REQUEST ((size_t)PTRDIFF_MAX / 2)

typedef struct header {
    lki_free_block block;
    size_t         bytes;   /* as requested */
    void          *base;    /* the system's block, and its size */
    size_t         mapped;  /* 0: from aligned_alloc */
    lki_account   *account; /* the account it is charged to; NULL: none */
} header;

_Static_assert(sizeof(header) <= 64, "the header takes one unit");

LKI_MUTEX(heap_lock);

static struct {
    lki_free_lists    kept;
    int64_t           in_use, requests;
    int64_t           fail_from, fail_to; /* requests that fail; 0: none */
    int64_t           blocks;             /* blocks of the system, in use or in a list. Atomic */
    lk_allocator_args allocator;          /* the user's; set only while there are no blocks */
} heap;

struct lki_account {
    int64_t limit, used; /* atomic */
    int64_t refs;        /* atomic: one for each block, and one for the owner */
};

static _Thread_local lki_account *selected;

static header *header_of(void *mem) { return (header *)((char *)mem - UNIT); }
static void   *contents_of(header *h) { return (char *)h + UNIT; }

size_t lki_memory_limit_cached(void)
{
    static size_t limit; /* equal for all threads, so a race is harmless */
    size_t        known = __atomic_load_n(&limit, __ATOMIC_RELAXED);
    if (known) return known;
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    known = pages > 0 && page > 0 ? (size_t)pages / 4 * (size_t)page : (size_t)1 << 30;
    __atomic_store_n(&limit, known, __ATOMIC_RELAXED);
    return known;
}

/* ---- from and to the system ------------------------------------------------------------------------------------------------ */

static header *system_small(size_t capacity)
{
    header *h = aligned_alloc(UNIT, UNIT + capacity);
    if (h) *h = (header){.block.size = capacity, .base = h};
    return h;
}

static header *system_huge(size_t capacity)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t length = (capacity + page - 1) / page * page + HUGE_PAGE + page;
    char  *base = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED) return NULL;
    char *mem = (char *)(((uintptr_t)base + page + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE);
    char *first = mem - page; /* the page that contains the header */
    char *last = mem + (capacity + page - 1) / page * page;
    if (first > base) munmap(base, (size_t)(first - base));
    if (last < base + length) munmap(last, (size_t)(base + length - last));
#ifdef MADV_HUGEPAGE
    madvise(mem, (size_t)(last - mem), MADV_HUGEPAGE);
#endif
    header *h = header_of(mem);
    *h = (header){.block.size = capacity, .base = first, .mapped = (size_t)(last - first)};
    return h;
}

/* Memory with a smaller alignment than requested cannot be used. */
static header *users_block(size_t capacity)
{
    const lk_allocator_args *u = &heap.allocator;
    header                  *h = u->allocate(UNIT + capacity, UNIT, u->user);
    if (!h) return NULL;
    if ((uintptr_t)h % UNIT) return u->release(h, UNIT + capacity, u->user), NULL;
    *h = (header){.block.size = capacity, .base = h};
    return h;
}

static header *system_take(size_t capacity)
{
    header *h = heap.allocator.allocate ? users_block(capacity)
                : capacity < HUGE_PAGE  ? system_small(capacity)
                                        : system_huge(capacity);
    if (h) __atomic_fetch_add(&heap.blocks, 1, __ATOMIC_RELAXED);
    return h;
}

static void system_give(lki_free_block *b, void *user)
{
    header *h = (header *)b;
    (void)user;
    ALLOW(contents_of(h), h->block.size);
    __atomic_fetch_sub(&heap.blocks, 1, __ATOMIC_RELAXED);
    if (heap.allocator.allocate) heap.allocator.release(h->base, UNIT + h->block.size, heap.allocator.user);
    else if (h->mapped) munmap(h->base, h->mapped);
    else free(h->base);
}

lk_status lk_set_allocator_kw(lk_allocator_args a)
{
    if (!a.allocate != !a.release)
        return lki_fail(LK_EINVAL, "lk_set_allocator: .allocate and .release come together, or neither does");
    if (__atomic_load_n(&heap.blocks, __ATOMIC_RELAXED))
        return lki_fail(LK_ESTATE, "lk_set_allocator: the library holds memory already (%lld blocks); call it first of all",
                        (long long)heap.blocks);
    heap.allocator = a;
    return LK_OK;
}

/* ---- accounts -------------------------------------------------------------------------------------------------------------- */

lki_account *lki_account_new(int64_t limit)
{
    lki_account *a = lki_alloc(sizeof *a);
    if (a) *a = (lki_account){.limit = limit, .refs = 1};
    return a;
}

void lki_account_drop(lki_account *a)
{
    if (a && __atomic_sub_fetch(&a->refs, 1, __ATOMIC_ACQ_REL) == 0) lki_release(a);
}

void lki_account_select(lki_account *a) { selected = a; }

static bool charge(lki_account *a, size_t capacity)
{
    if (__atomic_add_fetch(&a->used, (int64_t)capacity, __ATOMIC_RELAXED) <= a->limit) {
        __atomic_fetch_add(&a->refs, 1, __ATOMIC_RELAXED);
        return true;
    }
    __atomic_fetch_sub(&a->used, (int64_t)capacity, __ATOMIC_RELAXED);
    return false;
}

static void credit(lki_account *a, size_t capacity)
{
    if (!a) return;
    __atomic_fetch_sub(&a->used, (int64_t)capacity, __ATOMIC_RELAXED);
    lki_account_drop(a);
}

/* ---- requests -------------------------------------------------------------------------------------------------------------- */

/* True if a test wants this request to fail. The caller holds the lock. */
static bool fails(int64_t request) { return heap.fail_from && request >= heap.fail_from && request <= heap.fail_to; }

static bool request_fails(void) { return fails(++heap.requests); }

/* A block from the lists or, if they have none, from the system; if that fails, once more after emptying the lists. */
static header *find_block(size_t bytes, bool *fresh)
{
    const lki_free_block block = lki_free_block_for(bytes, UNIT, LARGEST_CLASS);
    lki_mutex_take(&heap_lock);
    bool    refused = request_fails() || (selected && !charge(selected, block.size));
    header *h = refused ? NULL : (header *)lki_free_lists_take(&heap.kept, block.size_class);
    lki_mutex_give(&heap_lock);
    *fresh = !h;
    if (refused) return NULL;
    if (!h) h = system_take(block.size);
    if (!h) {
        lki_memory_trim();
        h = system_take(block.size);
    }
    if (!h) return credit(selected, block.size), NULL;
    h->block = block;
    h->account = selected;
    return h;
}

static void *out_of_memory(size_t bytes)
{
    const lki_account *a = selected;
    if (a && __atomic_load_n(&a->used, __ATOMIC_RELAXED) + (int64_t)lki_min((int64_t)bytes, INT64_MAX / 2) > a->limit)
        lki_fail(LK_ENOMEM, "out of memory: no %zu bytes left: the limit of this runtime is %lld and %lld are in use", bytes,
                 (long long)a->limit, (long long)a->used);
    lki_fail(LK_ENOMEM, "out of memory: no %zu bytes left beside the %lld in use", bytes, (long long)lki_memory_in_use());
    return NULL;
}

static void set_bytes(header *h, size_t before, size_t bytes)
{
    h->bytes = bytes;
    __atomic_fetch_add(&heap.in_use, (int64_t)bytes - (int64_t)before, __ATOMIC_RELAXED);
    ALLOW(contents_of(h), bytes);
    FORBID((char *)contents_of(h) + bytes, h->block.size - bytes);
}

static void *take(size_t bytes, bool zeroed)
{
    bool    fresh = false;
    header *h = bytes <= LARGEST_REQUEST ? find_block(bytes, &fresh) : NULL;
    if (!h) return out_of_memory(bytes);
    set_bytes(h, 0, bytes);
    if (zeroed && !(fresh && h->mapped)) memset(contents_of(h), 0, bytes);
    return contents_of(h);
}

void *lki_alloc(size_t bytes) { return take(bytes, false); }
void *lki_zalloc(size_t bytes) { return take(bytes, true); }

void *lki_realloc(void *mem, size_t bytes)
{
    if (!mem) return lki_alloc(bytes);
    header *h = header_of(mem);
    lki_mutex_take(&heap_lock);
    bool fits = bytes <= h->block.size && !fails(heap.requests + 1);
    if (fits) heap.requests++;
    lki_mutex_give(&heap_lock);
    if (fits) {
        set_bytes(h, h->bytes, bytes);
        return mem;
    }
    void *moved = lki_alloc(bytes);
    if (!moved) return NULL;
    memcpy(moved, mem, h->bytes < bytes ? h->bytes : bytes);
    lki_release(mem);
    return moved;
}

void lki_release(void *mem)
{
    if (!mem) return;
    header *h = header_of(mem);
    __atomic_fetch_sub(&heap.in_use, (int64_t)h->bytes, __ATOMIC_RELAXED);
    credit(h->account, h->block.size);
    FORBID(contents_of(h), h->block.size);
    lki_mutex_take(&heap_lock);
    bool kept = lki_free_lists_put(&heap.kept, &h->block, lki_memory_limit_cached());
    lki_mutex_give(&heap_lock);
    if (!kept) system_give(&h->block, NULL);
}

char *lki_strdup(const char *text)
{
    size_t bytes = strlen(text) + 1;
    char  *copy = lki_alloc(bytes);
    return copy ? memcpy(copy, text, bytes) : NULL;
}

bool lki_grow(void **items, int *capacity, int want, size_t item_bytes)
{
    if (want <= *capacity) return true;
    int64_t room = lki_max(want, lki_min(INT32_MAX, lki_max(8, 2 * (int64_t)*capacity)));
    void   *old;
    memcpy(&old, items, sizeof old); /* the caller's variable is a pointer of another type */
    void *grown = lki_realloc_array(old, room, item_bytes);
    if (!grown) return false;
    memcpy(items, &grown, sizeof grown);
    *capacity = (int)room;
    return true;
}

int64_t lki_memory_trim(void)
{
    lki_mutex_take(&heap_lock);
    const lki_free_lists all = heap.kept;
    heap.kept = (lki_free_lists){0};
    lki_mutex_give(&heap_lock);
    lki_free_lists_empty(&all, system_give, NULL);
    return all.bytes;
}

/* ---- for tests ------------------------------------------------------------------------------------------------------------- */

static void fail_between(int64_t first, int64_t last)
{
    LKI_HOLD(&heap_lock);
    heap.fail_from = first > 0 ? heap.requests + first : 0;
    heap.fail_to = last == INT64_MAX ? last : heap.requests + last;
}

void lki_memory_fail_after(int64_t request) { fail_between(request, INT64_MAX); }
void lki_memory_fail_at(int64_t request) { fail_between(request, request); }

static int64_t read_counter(const int64_t *counter)
{
    LKI_HOLD(&heap_lock);
    return *counter;
}

int64_t lki_memory_requests(void) { return read_counter(&heap.requests); }
int64_t lki_memory_cached(void) { return read_counter(&heap.kept.bytes); }
int64_t lki_memory_in_use(void) { return __atomic_load_n(&heap.in_use, __ATOMIC_RELAXED); }

/* ---- arenas ---------------------------------------------------------------------------------------------------------------- */

enum { ARENA_ALIGN = 16, ARENA_BLOCK = 32 << 10 };

typedef struct lki_arena_block {
    struct lki_arena_block *next;
    size_t                  used, capacity;
    size_t                  pad_;
} lki_arena_block;

_Static_assert(sizeof(lki_arena_block) % ARENA_ALIGN == 0, "pieces start aligned");

static lki_arena_block *arena_block(size_t bytes)
{
    size_t           capacity = bytes > ARENA_BLOCK ? bytes : ARENA_BLOCK;
    lki_arena_block *b = lki_alloc(sizeof *b + capacity);
    if (b) *b = (lki_arena_block){.capacity = capacity};
    return b;
}

void *lki_arena_alloc(lki_arena *a, size_t bytes)
{
    if (bytes > LARGEST_REQUEST) return out_of_memory(bytes);
    size_t           room = (bytes + ARENA_ALIGN - 1) / ARENA_ALIGN * ARENA_ALIGN;
    lki_arena_block *b = a->block;
    if (!b || b->capacity - b->used < room) {
        b = arena_block(room);
        if (!b) return NULL;
        b->next = a->block;
        a->block = b;
    }
    void *piece = (char *)(b + 1) + b->used;
    b->used += room;
    return memset(piece, 0, room);
}

void lki_arena_clear(lki_arena *a)
{
    while (a->block) {
        lki_arena_block *next = a->block->next;
        lki_release(a->block);
        a->block = next;
    }
}
