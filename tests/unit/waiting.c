/* Objects that wait until another one is built: called in order, once, and dropped with it. */
#include "core/waiting.h"
#include "check.h"
#include "core/error.h"
#include "core/memory.h"

typedef struct one {
    lki_waiting waiting;
    int         number;
} one;

static int told[8], count, gone, refuse = -1;

static lk_status built(lki_waiting *self, void *object)
{
    const int number = ((one *)self)->number;
    assert_ptr_equal(object, told);
    if (number == refuse) return lki_fail(LK_ESHAPE, "%d does not like it", number);
    told[count++] = number;
    return LK_OK;
}

static void destroy(void *object)
{
    (void)object;
    gone++;
}

static lk_status add(lki_waiters *w, int number)
{
    one *o = lki_object_new(sizeof *o, LKI_KIND_OTHER, LKI_LIVES_BY_REFERENCE, destroy);
    if (!o) return LK_ENOMEM;
    o->waiting.built = built;
    o->number = number;
    const lk_status status = lki_waiters_add(w, &o->waiting);
    if (status != LK_OK) lki_drop(o);
    return status;
}

TEST(told_in_order_and_let_go)
{
    lki_waiters w = {0};
    count = gone = 0;
    for (int i = 0; i < 4; i++)
        assert_int_equal(add(&w, i), LK_OK);
    lki_waiters_remove_last(&w);
    assert_int_equal(gone, 1);
    refuse = 1;
    assert_int_equal(lki_waiters_tell(&w, told), LK_ESHAPE);
    assert_int_equal(count, 1);
    assert_int_equal(gone, 1); /* all stay */
    lk_clear_error();
    refuse = -1;
    count = 0;
    assert_int_equal(lki_waiters_tell(&w, told), LK_OK);
    assert_true(count == 3 && told[0] == 0 && told[1] == 1 && told[2] == 2);
    assert_int_equal(gone, 4);
    assert_int_equal(lki_waiters_tell(&w, told), LK_OK); /* none */
    assert_int_equal(count, 3);
}

TEST(gone_with_the_object)
{
    lki_waiters   w = {0};
    const int64_t before = lki_memory_in_use();
    count = gone = 0;
    add(&w, 0);
    add(&w, 1);
    lki_waiters_free(&w);
    assert_true(gone == 2 && count == 0);
    add(&w, 0);
    lki_waiters_remove_last(&w);
    assert_int_equal(lki_memory_in_use(), before);
}

static int some(void)
{
    lki_waiters w = {0};
    const int   good = add(&w, 0) == LK_OK && add(&w, 1) == LK_OK;
    lki_waiters_free(&w);
    return good;
}

TEST(without_memory) { assert_true(check_every_allocation(some) > 1); }

TESTS(cmocka_unit_test(told_in_order_and_let_go), cmocka_unit_test(gone_with_the_object), cmocka_unit_test(without_memory))
