/* Maps against a plain list: what was put last for a key is found, through all growth. */
#include "core/map.h"
#include "check.h"
#include "core/error.h"

enum { KEYS = 3000 };

static uint64_t key_of(int i) { return 1 + (uint64_t)i * (i % 3 ? 64 : 0x100000001); } /* addresses have equal low bits */

TEST(what_was_put_is_found)
{
    lki_map m = {0};
    assert_null(lki_map_find(&m, 1));
    for (int i = 0; i < KEYS; i++) {
        assert_null(lki_map_find(&m, key_of(i)));
        assert_true(lki_map_put(&m, key_of(i), i));
        assert_true(lki_map_put(&m, key_of(i / 2), -i));
    }
    for (int i = 0; i < KEYS; i++) {
        const int *found = lki_map_find(&m, key_of(i)), last = 2 * i + 1 < KEYS ? -(2 * i + 1) : i;
        assert_non_null(found);
        assert_int_equal(*found, last);
    }
    assert_null(lki_map_find(&m, key_of(KEYS)));
    lki_map_clear(&m);
    assert_null(lki_map_find(&m, 1));
}

static int put_many(void)
{
    lki_map m = {0};
    bool    good = true;
    for (int i = 0; i < 200 && good; i++)
        good = lki_map_put(&m, key_of(i), i);
    for (int i = 0; i < m.used; i++)
        good = good && *lki_map_find(&m, key_of(i)) == i;
    lki_map_clear(&m);
    if (!good) lki_fail(LK_ENOMEM, "no memory");
    return good;
}

TEST(without_memory_it_stays_as_it_is) { assert_true(check_every_allocation(put_many) > 2); }

TESTS(cmocka_unit_test(what_was_put_is_found), cmocka_unit_test(without_memory_it_stays_as_it_is))
