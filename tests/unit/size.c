/* The arithmetic of sizes: exact if the result fits, else the largest value. */
#include "core/size.h"
#include "check.h"

static const int64_t MOST = INT64_MAX;

TEST(products_and_sums_saturate)
{
    assert_int_equal(lki_size_mul(6, 7), 42);
    assert_int_equal(lki_size_mul((int64_t)1 << 31, (int64_t)1 << 31), (int64_t)1 << 62);
    assert_int_equal(lki_size_mul((int64_t)1 << 32, (int64_t)1 << 31), MOST);
    assert_int_equal(lki_size_mul(MOST, MOST), MOST);
    assert_int_equal(lki_size_mul(MOST, 0), 0);
    assert_int_equal(lki_size_add(MOST - 1, 1), MOST);
    assert_int_equal(lki_size_add(MOST, MOST), MOST);
    assert_int_equal(lki_size_product((const int64_t[]){3, 4, 5}, 3), 60);
    assert_int_equal(lki_size_product((const int64_t[]){MOST, 2, 0}, 3), 0);
    assert_int_equal(lki_size_product(NULL, 0), 1);
}

TEST(what_does_not_fit_is_told)
{
    int64_t  x = 0;
    uint64_t n = 0;
    assert_true(lki_size_try_mul(-3, 5, &x) && x == -15);
    assert_true(lki_size_try_add(MOST, -1, &x) && x == MOST - 1);
    assert_true(lki_count_try_mul((uint64_t)1 << 32, (uint64_t)1 << 31, &n) && n == (uint64_t)1 << 63);
    assert_false(lki_size_try_mul(MOST, -2, &x));
    assert_false(lki_size_try_add(MOST, 1, &x));
    assert_false(lki_count_try_mul((uint64_t)1 << 32, (uint64_t)1 << 32, &n));
}

TEST(what_is_not_known_stays_so)
{
    assert_int_equal(lki_size_mul_known(-1, 7), -1);
    assert_int_equal(lki_size_mul_known(MOST, -1), -1);
    assert_int_equal(lki_size_mul_known(MOST, 2), MOST);
    assert_int_equal(lki_size_add_known(-1, -1), -1);
    assert_int_equal(lki_size_add_known(2, 3), 5);
}

TEST(rounding_up_does_not_wrap)
{
    assert_int_equal(lki_ceil_div(0, 4), 0);
    assert_int_equal(lki_ceil_div(9, 4), 3);
    assert_int_equal(lki_ceil_div(8, 4), 2);
    assert_int_equal(lki_ceil_div(MOST, 2), (int64_t)1 << 62);
    assert_int_equal(lki_ceil_div(MOST, MOST), 1);
    assert_int_equal(lki_round_up(9, 4), 12);
    assert_int_equal(lki_round_up(MOST, 64), MOST);
}

TEST(bytes_saturate)
{
    assert_true(lki_bytes_of(3, 8) == 24);
    assert_true(lki_bytes_of(-1, 1) == SIZE_MAX);
    assert_true(lki_bytes_of((int64_t)1 << 62, 4) == SIZE_MAX);
    assert_true(lki_bytes_add(SIZE_MAX - 1, 1) == SIZE_MAX);
    assert_true(lki_bytes_add(SIZE_MAX, SIZE_MAX) == SIZE_MAX);
    assert_true(lki_bytes_round_up(1, 64) == 64);
    assert_true(lki_bytes_round_up(128, 64) == 128);
    assert_true(lki_bytes_round_up(SIZE_MAX - 2, 64) == SIZE_MAX);
}

TESTS(cmocka_unit_test(products_and_sums_saturate), cmocka_unit_test(what_does_not_fit_is_told),
      cmocka_unit_test(what_is_not_known_stays_so), cmocka_unit_test(rounding_up_does_not_wrap), cmocka_unit_test(bytes_saturate))
