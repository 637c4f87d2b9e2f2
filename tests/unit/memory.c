/* Alignment, free lists, failure on demand, growing arrays, arenas. */
#include "check.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

static uintptr_t misalignment(const void *mem, size_t alignment) { return (uintptr_t)mem % alignment; }

TEST(blocks_are_aligned)
{
    for (size_t bytes = 0; bytes < 3 * MIB; bytes = bytes * 5 / 4 + 1) {
        char *mem = lki_alloc(bytes);
        assert_non_null(mem);
        assert_int_equal(misalignment(mem, 64), 0);
        if (bytes >= 2 * MIB) assert_int_equal(misalignment(mem, 2 * MIB), 0);
        memset(mem, 0xa5, bytes);
        lki_release(mem);
    }
}

TEST(large_blocks_are_whole)
{
    const size_t sizes[] = {2 * MIB, 2 * MIB + 1, 64 * MIB, 64 * MIB + 1, 200 * MIB};
    for (int i = 0; i < LKI_COUNT(sizes); i++) {
        char *mem = lki_zalloc(sizes[i]);
        assert_non_null(mem);
        assert_int_equal(misalignment(mem, 2 * MIB), 0);
        assert_int_equal(mem[0] | mem[sizes[i] / 2] | mem[sizes[i] - 1], 0);
        mem[0] = mem[sizes[i] - 1] = 1;
        lki_release(mem);
    }
    lki_memory_trim();
}

TEST(zeroed_blocks_are_zero_after_use)
{
    const size_t sizes[] = {1, 100, 5000, 3 * MIB};
    for (int i = 0; i < LKI_COUNT(sizes); i++) {
        char *mem = lki_alloc(sizes[i]);
        memset(mem, 0xff, sizes[i]);
        lki_release(mem);
        mem = lki_zalloc(sizes[i]);
        for (size_t k = 0; k < sizes[i]; k++)
            assert_int_equal(mem[k], 0);
        lki_release(mem);
    }
}

TEST(released_blocks_serve_again)
{
    const size_t sizes[] = {0, 1, 64, 65, 257, 1000, 4097, 100 * KIB, 3 * MIB, 64 * MIB};
    for (int i = 0; i < LKI_COUNT(sizes); i++) {
        void *first = lki_alloc(sizes[i]);
        lki_release(first);
        void *second = lki_alloc(sizes[i]);
        assert_ptr_equal(first, second);
        lki_release(second);
    }
    assert_true(lki_memory_cached() >= (int64_t)(64 * MIB));
    lki_memory_trim();
    assert_int_equal(lki_memory_cached(), 0);
}

/* At most a quarter is lost to rounding from 256 bytes on. */
TEST(classes_waste_little)
{
    lki_memory_trim();
    for (size_t bytes = 256; bytes <= 64 * MIB; bytes += bytes / 7) {
        lki_release(lki_alloc(bytes));
        assert_true(lki_memory_cached() >= (int64_t)bytes);
        assert_true(lki_memory_cached() <= (int64_t)(bytes + bytes / 4 + 64));
        lki_memory_trim();
    }
}

TEST(the_largest_blocks_are_not_kept)
{
    lki_memory_trim();
    lki_release(lki_alloc(64 * MIB + 1));
    assert_int_equal(lki_memory_cached(), 0);
    assert_true(lki_memory_limit_cached() >= 16 * MIB);
}

TEST(impossible_requests_fail_with_a_message)
{
    assert_null(lki_alloc(SIZE_MAX));
    assert_int_equal(lk_error_code(), LK_ENOMEM);
    assert_non_null(strstr(lk_error(), "18446744073709551615 bytes"));
    lk_clear_error();
    assert_null(lki_zalloc(SIZE_MAX / 2));
    assert_null(lki_alloc((size_t)1 << 60));
    lki_arena a = {0};
    assert_null(lki_arena_alloc(&a, SIZE_MAX));
    assert_int_equal(lk_error_code(), LK_ENOMEM);
    lk_clear_error();
}

TEST(use_is_counted)
{
    int64_t before = lki_memory_in_use(), requests = lki_memory_requests();
    void   *mem = lki_alloc(1000);
    assert_int_equal(lki_memory_in_use(), before + 1000);
    mem = lki_realloc(mem, 5000);
    assert_int_equal(lki_memory_in_use(), before + 5000);
    assert_int_equal(lki_memory_requests(), requests + 2);
    lki_release(mem);
    assert_int_equal(lki_memory_in_use(), before);
    lki_release(NULL);
}

TEST(realloc_keeps_contents)
{
    unsigned char *mem = lki_realloc(NULL, 10);
    memset(mem, 7, 10);
    for (size_t bytes = 11; bytes < 5 * MIB; bytes *= 3) {
        mem = lki_realloc(mem, bytes);
        assert_non_null(mem);
        for (int i = 0; i < 10; i++)
            assert_int_equal(mem[i], 7);
        mem[bytes - 1] = 1;
    }
    mem = lki_realloc(mem, 5);
    assert_int_equal(mem[4], 7);
    lki_memory_fail_after(1);
    assert_null(lki_realloc(mem, 10 * MIB));
    assert_null(lki_realloc(mem, 4));
    lki_memory_fail_after(0);
    assert_int_equal(mem[4], 7);
    lk_clear_error();
    lki_release(mem);
}

TEST(requests_fail_on_demand)
{
    lki_memory_fail_after(2);
    void *first = lki_alloc(8);
    assert_non_null(first);
    assert_null(lki_alloc(8));
    assert_null(lki_zalloc(8));
    assert_null(lki_strdup("text"));
    assert_int_equal(lk_error_code(), LK_ENOMEM);
    lki_memory_fail_after(0);
    lk_clear_error();
    void *second = lki_alloc(8);
    assert_non_null(second);
    lki_release(first);
    lki_release(second);
}

TEST(text_is_copied)
{
    const char *text = "weights";
    char       *copy = lki_strdup(text);
    assert_string_equal(copy, text);
    assert_ptr_not_equal(copy, text);
    lki_release(copy);
}

static int grow_numbers(void)
{
    int *numbers = NULL, capacity = 0, count = 0;
    while (count < 5000 && lki_grow((void **)&numbers, &capacity, count + 1, sizeof *numbers)) {
        numbers[count] = count;
        count++;
    }
    assert_true(capacity >= count);
    for (int i = 0; i < count; i++)
        assert_int_equal(numbers[i], i);
    lki_release(numbers);
    return count == 5000;
}

TEST(arrays_grow) { assert_true(check_every_allocation(grow_numbers) >= 5); }

TEST(arrays_that_cannot_be)
{
    int64_t   before = lki_memory_in_use();
    lki_arena arena = {0};
    assert_null(lki_alloc_array((int64_t)1 << 62, 4)); /* a product of 0 bytes, if it wrapped */
    assert_null(lki_zalloc_array(((int64_t)1 << 62) + 16, 4));
    assert_null(lki_alloc_array(-1, 1));
    assert_null(lki_alloc_array(INT64_MAX, 1));
    assert_null(lki_realloc_array(NULL, INT64_MAX, 2));
    assert_null(lki_arena_array(&arena, (int64_t)1 << 61, 8));
    assert_int_equal(lk_error_code(), LK_ENOMEM);
    lk_clear_error();
    lki_release(lki_alloc_array(0, 8));
    assert_int_equal(lki_memory_in_use(), before);
}

TEST(arrays_do_not_overflow)
{
    void *items = NULL;
    int   capacity = 0;
    assert_false(lki_grow(&items, &capacity, 1 << 30, SIZE_MAX / 1000));
    assert_int_equal(capacity, 0);
    assert_null(items);
    assert_int_equal(lk_error_code(), LK_ENOMEM);
    lk_clear_error();
}

static int fill_arena(void)
{
    lki_arena a = {0};
    int       pieces = 0;
    for (; pieces < 3000; pieces++) {
        size_t bytes = (size_t)(pieces * 37 % 300) + (pieces % 1000 == 999 ? 100 * KIB : 0);
        char  *piece = lki_arena_alloc(&a, bytes);
        if (!piece) break;
        assert_int_equal(misalignment(piece, 16), 0);
        for (size_t i = 0; i < bytes; i++)
            assert_int_equal(piece[i], 0);
        memset(piece, 0xff, bytes);
    }
    lki_arena_clear(&a);
    assert_null(a.block);
    return pieces == 3000;
}

TEST(arenas_hand_out_zeroed_pieces) { assert_true(check_every_allocation(fill_arena) >= 5); }

enum { THREADS = 4, ROUNDS = 20000, HELD = 32 };

static void *churn(void *seed)
{
    unsigned char *held[HELD] = {0};
    size_t         size[HELD] = {0};
    unsigned       x = (unsigned)(uintptr_t)seed;
    uintptr_t      damaged = 0;
    for (int i = 0; i < ROUNDS; i++) {
        x = x * 1664525 + 1013904223;
        unsigned at = x >> 8 & (HELD - 1);
        if (held[at]) damaged |= held[at][0] != (unsigned char)at || held[at][size[at] - 1] != (unsigned char)at;
        lki_release(held[at]);
        size[at] = (x >> 16) % 3000 + 1;
        held[at] = lki_alloc(size[at]);
        held[at][0] = held[at][size[at] - 1] = (unsigned char)at;
        if (i % 5000 == 4999) lki_memory_trim();
    }
    for (int i = 0; i < HELD; i++)
        lki_release(held[i]);
    return (void *)damaged;
}

TEST(threads_share_the_lists)
{
    pthread_t thread[THREADS];
    int64_t   before = lki_memory_in_use();
    for (uintptr_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, churn, (void *)(i + 1)), 0);
    for (int i = 0; i < THREADS; i++) {
        void *damaged;
        pthread_join(thread[i], &damaged);
        assert_null(damaged);
    }
    assert_int_equal(lki_memory_in_use(), before);
}

TESTS(cmocka_unit_test(blocks_are_aligned), cmocka_unit_test(large_blocks_are_whole),
      cmocka_unit_test(zeroed_blocks_are_zero_after_use), cmocka_unit_test(released_blocks_serve_again),
      cmocka_unit_test(classes_waste_little), cmocka_unit_test(the_largest_blocks_are_not_kept),
      cmocka_unit_test(impossible_requests_fail_with_a_message), cmocka_unit_test(use_is_counted),
      cmocka_unit_test(realloc_keeps_contents), cmocka_unit_test(requests_fail_on_demand), cmocka_unit_test(text_is_copied),
      cmocka_unit_test(arrays_grow), cmocka_unit_test(arrays_that_cannot_be), cmocka_unit_test(arrays_do_not_overflow),
      cmocka_unit_test(arenas_hand_out_zeroed_pieces), cmocka_unit_test(threads_share_the_lists))
