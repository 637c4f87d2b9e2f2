/* Ownership and lifetimes: pools, steps, references, early frees. */
#include "core/object.h"
#include "check.h"
#include <pthread.h>
#include <string.h>

typedef struct thing {
    lki_object    object;
    int           number;
    struct thing *holds; /* a reference */
} thing;

static int gone[64], gone_count; /* numbers of destroyed things, in order */

static void destroy_thing(void *object)
{
    thing *t = object;
    if (gone_count < LKI_COUNT(gone)) gone[gone_count] = t->number;
    gone_count++;
    lki_drop(t->holds);
}

static thing *thing_new(int number, lki_life life, thing *holds)
{
    thing *t = lki_object_new(sizeof *t, LKI_KIND_OTHER, life, destroy_thing);
    if (!t) return NULL;
    t->number = number;
    t->holds = lki_retain(holds);
    return t;
}

static int forget(void **state)
{
    (void)state;
    gone_count = 0;
    return 0;
}

static void assert_gone(int count, const int *numbers)
{
    assert_int_equal(gone_count, count);
    for (int i = 0; i < count; i++)
        assert_int_equal(gone[i], numbers[i]);
}
#define GONE(...) assert_gone(LKI_COUNT(((int[]){__VA_ARGS__})), (int[]){__VA_ARGS__})
#define NONE_GONE() assert_int_equal(gone_count, 0)

TEST(a_pool_lets_go_in_reverse_order)
{
    LK_POOL {
        for (int i = 1; i <= 4; i++)
            thing_new(i, LKI_LIVES_IN_POOL, NULL);
        NONE_GONE();
    }
    GONE(4, 3, 2, 1);
}

TEST(a_step_takes_what_lives_in_steps)
{
    LK_POOL {
        LK_STEP {
            thing_new(1, LKI_LIVES_IN_STEP, NULL);
            thing_new(2, LKI_LIVES_IN_POOL, NULL);
            LK_POOL {
                thing_new(3, LKI_LIVES_IN_STEP, NULL);
            }
            NONE_GONE();
        }
        GONE(3, 1);
    }
    GONE(3, 1, 2);
}

TEST(without_a_step_the_pool_takes_it)
{
    LK_POOL {
        thing_new(1, LKI_LIVES_IN_STEP, NULL);
    }
    GONE(1);
}

TEST(without_a_pool_the_library_takes_it)
{
    thing *t = thing_new(1, LKI_LIVES_IN_POOL, NULL);
    LK_POOL {}
    NONE_GONE();
    lk_free(t);
    GONE(1);
}

TEST(keeping_moves_from_step_to_pool)
{
    LK_POOL {
        thing *t = NULL;
        LK_STEP {
            t = thing_new(1, LKI_LIVES_IN_STEP, NULL);
            thing_new(2, LKI_LIVES_IN_STEP, NULL);
            lki_object_keep(t);
            lki_object_keep(t);
            lki_object_keep(NULL);
        }
        GONE(2);
        lki_object_keep(t); /* in a pool already */
    }
    GONE(2, 1);
}

TEST(references_outlive_owners)
{
    thing *t = NULL;
    LK_POOL {
        t = lki_retain(thing_new(1, LKI_LIVES_IN_POOL, NULL));
    }
    NONE_GONE();
    lk_free(t);         /* it has no owner any more */
    lki_object_keep(t); /* nor does this find an owner */
    NONE_GONE();
    lki_drop(t);
    GONE(1);
}

TEST(an_object_keeps_what_it_was_built_from)
{
    LK_POOL {
        thing *inner = thing_new(1, LKI_LIVES_IN_POOL, NULL);
        thing *outer = thing_new(2, LKI_LIVES_IN_POOL, inner);
        lk_free(inner);
        NONE_GONE();
        lk_free(outer);
        GONE(2, 1);
    }
    GONE(2, 1);
}

TEST(what_a_step_made_can_be_freed_early)
{
    LK_STEP {
        thing *t[3];
        for (int i = 0; i < 3; i++)
            t[i] = thing_new(i, LKI_LIVES_IN_STEP, NULL);
        lk_free(t[1]);
        GONE(1);
        lk_free(t[0]);
        GONE(1, 0);
    }
    GONE(1, 0, 2);
}

TEST(by_reference_only)
{
    LK_POOL {
        thing *t = thing_new(1, LKI_LIVES_BY_REFERENCE, NULL);
        lk_free(t); /* not an owner's to let go */
        NONE_GONE();
        lki_drop(t);
        GONE(1);
    }
}

TEST(static_objects_are_not_counted)
{
    static thing forever;
    forever.object.kind = LKI_KIND_OTHER;
    for (int i = 0; i < 3; i++) {
        lki_drop(&forever);
        lk_free(&forever);
        lki_object_keep(&forever);
    }
    assert_ptr_equal(lki_retain(&forever), &forever);
    assert_int_equal(forever.object.refs, 0);
    assert_true(lki_is_kind(&forever, LKI_KIND_OTHER));
    assert_false(lk_failed());
}

TEST(nothing_is_harmless)
{
    lk_free(NULL);
    lki_drop(NULL);
    assert_null(lki_retain(NULL));
    assert_false(lki_is_kind(NULL, LKI_KIND_TENSOR));
}

TEST(foreign_memory_is_refused)
{
    char memory[256];
    memset(memory, 'x', sizeof memory);
    lk_free(memory);
    assert_int_equal(lk_error_code(), LK_EINVAL);
    assert_false(lki_is_kind(memory, LKI_KIND_TENSOR));
    lk_clear_error();
}

TEST(kinds_are_told_apart)
{
    LK_POOL {
        thing *t = thing_new(1, LKI_LIVES_IN_POOL, NULL);
        assert_true(lki_is_kind(t, LKI_KIND_OTHER));
        assert_false(lki_is_kind(t, LKI_KIND_TENSOR));
    }
}

static void leave_by_return(void)
{
    LK_POOL {
        LK_STEP {
            thing_new(1, LKI_LIVES_IN_POOL, NULL);
            thing_new(2, LKI_LIVES_IN_STEP, NULL);
            return;
        }
    }
}

TEST(leaving_early_closes_blocks)
{
    leave_by_return();
    GONE(2, 1);
    for (int i = 0; i < 2; i++)
        LK_STEP {
            thing_new(3, LKI_LIVES_IN_STEP, NULL);
            break;
        }
    GONE(2, 1, 3, 3);
}

static jmp_buf way_out;

static void jump_out_of_a_pool(void)
{
    LK_POOL {
        thing_new(2, LKI_LIVES_IN_POOL, NULL);
        longjmp(way_out, 1);
    }
}

TEST(what_a_longjmp_left_open_closes_with_the_block_outside)
{
    LK_POOL {
        thing_new(1, LKI_LIVES_IN_POOL, NULL);
        if (setjmp(way_out) == 0) jump_out_of_a_pool();
        NONE_GONE();
    }
    GONE(2, 1);
}

TEST(a_long_chain_needs_no_deep_stack)
{
    enum { LENGTH = 1000000 };
    thing *last = NULL;
    for (int i = 0; i < LENGTH; i++) {
        thing *t = thing_new(i, LKI_LIVES_BY_REFERENCE, last);
        assert_non_null(t);
        lki_drop(last);
        last = t;
    }
    NONE_GONE();
    lki_drop(last);
    assert_int_equal(gone_count, LENGTH);
}

TEST(a_repeated_step_stops_asking_the_system)
{
    int64_t cached = 0;
    for (int round = 0; round < 5; round++) {
        LK_STEP {
            for (int i = 0; i < 100; i++)
                thing_new(i, LKI_LIVES_IN_STEP, NULL);
        }
        if (round == 0) cached = lki_memory_cached();
        assert_int_equal(lki_memory_cached(), cached);
    }
}

static int build_and_leave(void)
{
    bool whole = true;
    LK_POOL {
        thing *inner = thing_new(1, LKI_LIVES_IN_POOL, NULL);
        LK_STEP {
            thing *t = thing_new(2, LKI_LIVES_IN_STEP, inner);
            whole = inner && t;
            if (t) lki_object_keep(t);
        }
    }
    return whole;
}

/* A block that could not be opened leaves its objects to the one outside, so the test opens one. */
TEST(every_allocation_fails_once)
{
    for (int n = 1; n <= 5; n++) {
        int64_t before = lki_memory_in_use();
        LK_POOL {
            lki_memory_fail_after(n);
            int whole = build_and_leave();
            lki_memory_fail_after(0);
            assert_int_equal(whole && !lk_failed(), n == 5);
            assert_int_equal(lk_error_code(), n == 5 ? LK_OK : LK_ENOMEM);
        }
        assert_int_equal(lki_memory_in_use(), before);
        lk_clear_error();
    }
}

enum { THREADS = 4, SHARED = 2000 };
static thing *shared[SHARED];
static int    destroyed; /* atomic */

static void count_destroyed(void *object)
{
    (void)object;
    __atomic_fetch_add(&destroyed, 1, __ATOMIC_RELAXED);
}

static void *free_from_elsewhere(void *arg)
{
    int part = (int)(intptr_t)arg;
    LK_POOL {
        for (int i = part; i < SHARED; i += THREADS) {
            lki_object_new(sizeof(thing), LKI_KIND_OTHER, LKI_LIVES_IN_POOL, count_destroyed);
            lk_free(shared[i]);
        }
    }
    return NULL;
}

TEST(threads_free_each_others_objects)
{
    pthread_t thread[THREADS];
    destroyed = 0;
    LK_POOL {
        for (int i = 0; i < SHARED; i++) {
            shared[i] = thing_new(i, LKI_LIVES_IN_POOL, NULL);
            shared[i]->object.destroy = count_destroyed;
        }
        for (intptr_t i = 0; i < THREADS; i++)
            assert_int_equal(pthread_create(&thread[i], NULL, free_from_elsewhere, (void *)i), 0);
        for (int i = 0; i < THREADS; i++)
            pthread_join(thread[i], NULL);
        assert_int_equal(destroyed, 2 * SHARED);
    }
    assert_int_equal(destroyed, 2 * SHARED);
}

#define FRESH(name) cmocka_unit_test_setup(name, forget)

TESTS(FRESH(a_pool_lets_go_in_reverse_order), FRESH(a_step_takes_what_lives_in_steps), FRESH(without_a_step_the_pool_takes_it),
      FRESH(without_a_pool_the_library_takes_it), FRESH(keeping_moves_from_step_to_pool), FRESH(references_outlive_owners),
      FRESH(an_object_keeps_what_it_was_built_from), FRESH(what_a_step_made_can_be_freed_early), FRESH(by_reference_only),
      FRESH(static_objects_are_not_counted), FRESH(nothing_is_harmless), FRESH(foreign_memory_is_refused),
      FRESH(kinds_are_told_apart), FRESH(leaving_early_closes_blocks),
      FRESH(what_a_longjmp_left_open_closes_with_the_block_outside), FRESH(a_long_chain_needs_no_deep_stack),
      FRESH(a_repeated_step_stops_asking_the_system), FRESH(every_allocation_fails_once), FRESH(threads_free_each_others_objects))
