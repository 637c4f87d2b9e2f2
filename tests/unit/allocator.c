/* The allocator of the user: all memory comes from it and returns to it. A separate program, since it must be set first. */
#include "check.h"
#include <lockstep.h>
#include <stdlib.h>
#include <string.h>

typedef struct heap {
    int64_t blocks, bytes; /* atomic */
    bool    empty, crooked;
} heap;

static void *take(size_t bytes, size_t alignment, void *user)
{
    heap *h = user;
    if (h->empty) return NULL;
    char *mem = aligned_alloc(alignment, (bytes + 2 * alignment - 1) / alignment * alignment);
    __atomic_add_fetch(&h->blocks, 1, __ATOMIC_RELAXED);
    __atomic_add_fetch(&h->bytes, (int64_t)bytes, __ATOMIC_RELAXED);
    return h->crooked ? mem + 8 : mem;
}

static void give(void *memory, size_t bytes, void *user)
{
    heap *h = user;
    __atomic_sub_fetch(&h->blocks, 1, __ATOMIC_RELAXED);
    __atomic_sub_fetch(&h->bytes, (int64_t)bytes, __ATOMIC_RELAXED);
    free((char *)memory - (h->crooked ? 8 : 0));
}

static heap h;

TEST(half_an_allocator_is_refused)
{
    assert_int_equal(lk_set_allocator(.allocate = take), LK_EINVAL);
    assert_int_equal(lk_set_allocator(.release = give), LK_EINVAL);
    lk_clear_error();
}

TEST(all_memory_comes_from_it)
{
    assert_int_equal(lk_set_allocator(.allocate = take, .release = give, .user = &h), LK_OK);
    LK_POOL {
        lk_tensor *large = lk_ones(LK_SHAPE(3 << 20), LK_F32); /* more than a huge page */
        assert_true(h.bytes >= 12 << 20);
        assert_true((uintptr_t)lk_data(large) % 64 == 0);
        assert_true(lk_item(lk_reduce_sum(large)) == 3 << 20);
        assert_int_equal(lk_set_allocator(.allocate = take, .release = give), LK_ESTATE);
        assert_non_null(strstr(lk_error(), "lk_set_allocator"));
        lk_clear_error();
    }
    assert_false(lk_failed());
}

TEST(without_memory_it_is_an_error)
{
    lk_memory_trim();
    for (int i = 0; i < 2; i++) {
        *(i ? &h.crooked : &h.empty) = true;
        LK_POOL
            assert_true(lk_poisoned(lk_ones(LK_SHAPE(3 << 20), LK_F32)));
        h.empty = h.crooked = false;
        assert_int_equal(lk_error_code(), LK_ENOMEM);
        lk_clear_error();
    }
}

TEST(all_of_it_goes_back)
{
    assert_int_equal(lk_shutdown(), LK_OK);
    assert_true(h.bytes < 1 << 20); /* what the library keeps as long as the process lives */
    assert_true(h.blocks < 200);
}

TESTS(cmocka_unit_test(half_an_allocator_is_refused), cmocka_unit_test(all_memory_comes_from_it),
      cmocka_unit_test(without_memory_it_is_an_error), cmocka_unit_test(all_of_it_goes_back))
