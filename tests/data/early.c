/* Iterations whose first element is made before they begin (data.h): the results are the same, and if something changed meanwhile
 * the early element is discarded. */
#include "core/memory.h"
#include "data/data.h"
#include "pipes.h"

enum { ROWS = 40, BATCH = 8 };

typedef struct factor {
    double by;
    int    looked; /* times it was called with values */
} factor;

static lk_tuple times(lk_tuple row, void *user)
{
    const factor *f = user;
    return LK_TUPLE(lk_mul(row.item[0], lk_scalar(f->by)), row.item[1]);
}

/* Not a function that can be run over many rows at once. */
static lk_tuple times_each(lk_tuple row, void *user)
{
    factor *f = user;
    if (!lk_data(row.item[0])) return LK_TUPLE(row.item[0], row.item[1]);
    f->looked++;
    return times(row, user);
}

static lk_dataset *batches(lk_fn fn, factor *f)
{
    return lk_dataset_batch(lk_dataset_prefetch(lk_dataset_shuffle(lk_dataset_map(rows_of(ROWS), fn, f), ROWS), 2), BATCH);
}

/* What an early iterator that has begun gives, and a check that it is iteration `number` of the same pipeline elsewhere. */
static void is_iteration(lk_iterator *it, factor *f, int number)
{
    lk_dataset *like = batches(times, f);
    trail      *got = calloc(1, sizeof *got), *wanted = NULL;
    for (int i = 0; i <= number; i++) {
        free(wanted);
        wanted = walk(like);
    }
    trail_rest(got, it, -1);
    assert_true(got->elements == ROWS / BATCH && same_trail(got, wanted));
    free(got);
    free(wanted);
    good();
}

TEST(it_is_the_iteration_that_comes_next)
{
    factor f = {2, 0};
    LK_POOL {
        lk_dataset *d = batches(times, &f);
        for (int number = 0; number < 3; number++) {
            lk_iterator *it = lki_iterator_early(d);
            assert_non_null(it);
            assert_true(lki_iterator_begin(it));
            is_iteration(it, &f, number);
            lki_drop(it);
        }
        is_iteration(lk_iterator_of(d), &f, 3);
    }
}

TEST(one_that_does_not_begin_is_not_counted)
{
    factor f = {2, 0};
    LK_POOL {
        lk_dataset *d = batches(times, &f);
        for (int i = 0; i < 3; i++)
            lki_drop(lki_iterator_early(d));
        is_iteration(lk_iterator_of(d), &f, 0);
        lk_iterator *early = lki_iterator_early(d);
        is_iteration(lk_iterator_of(d), &f, 1); /* another iteration took its number */
        assert_false(lki_iterator_begin(early));
        lki_drop(early);
        is_iteration(lk_iterator_of(d), &f, 2);
    }
}

TEST(what_changed_is_noticed)
{
    factor         f = {2, 0};
    const uint64_t seed = lk_random_seed();
    LK_POOL {
        lk_dataset  *d = batches(times, &f);
        lk_iterator *early = lki_iterator_early(d);
        f.by = 3;
        assert_false(lki_iterator_begin(early));
        lki_drop(early);
        early = lki_iterator_early(d);
        lk_set_random_seed(seed + 1);
        assert_false(lki_iterator_begin(early));
        lki_drop(early);
        lk_set_random_seed(seed);
        early = lki_iterator_early(d);
        assert_true(lki_iterator_begin(early));
        is_iteration(early, &f, 0);
        lki_drop(early);
    }
}

TEST(functions_are_not_called_for_elements)
{
    factor   f = {2, 0};
    counting numbers = {.end = 20};
    LK_POOL {
        assert_null(lki_iterator_early(batches(times_each, &f)));
        assert_int_equal(f.looked, 0);
        assert_null(lki_iterator_early(lk_dataset_batch(lk_dataset_from_generator(count_up, &numbers), 4)));
        assert_int_equal(numbers.calls, 0);
    }
    good();
}

TEST(what_was_made_is_saved)
{
    factor f = {2, 0};
    LK_POOL {
        void        *bytes;
        size_t       size;
        lk_dataset  *d = batches(times, &f);
        lk_iterator *early = lki_iterator_early(d), *other = lk_iterator_of(batches(times, &f));
        assert_true(lki_iterator_begin(early));
        assert_int_equal(lk_iterator_save(early, &bytes, &size), LK_OK);
        assert_int_equal(lk_iterator_restore(other, bytes, size), LK_OK);
        lk_free_bytes(bytes);
        is_iteration(other, &f, 0);
        is_iteration(early, &f, 0);
        lki_drop(early);
    }
}

TESTS(cmocka_unit_test(it_is_the_iteration_that_comes_next), cmocka_unit_test(one_that_does_not_begin_is_not_counted),
      cmocka_unit_test(what_changed_is_noticed), cmocka_unit_test(functions_are_not_called_for_elements),
      cmocka_unit_test(what_was_made_is_saved))
