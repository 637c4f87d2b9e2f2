/* Iterators: turns and the objects in them, threads, errors that stay with their iterator. */
#include "core/thread.h"
#include "data/gather.h"
#include "pipes.h"
#include <lockstep/grad.h>
#include <lockstep/step.h>
#include <pthread.h>

/* Memory stays the same from turn to turn: what is made in one goes with the next. */
TEST(a_turn_is_a_step)
{
    LK_POOL {
        int64_t used[4] = {0};
        int     i = 0;
        LK_FOR_EACH(e, lk_dataset_batch(rows_of(40), 10)) {
            for (int k = 0; k < 50; k++)
                lk_add(e.item[0], e.item[0]);
            used[i++] = lki_memory_in_use();
        }
        assert_true(i == 4 && used[1] == used[2] && used[2] == used[3]);
        lk_iterator *it = lk_iterator_of(lk_dataset_batch(rows_of(40), 10));
        lk_tuple     e;
        for (i = 0; lk_next(it, &e); i++) {
            for (int k = 0; k < 50; k++)
                lk_add(e.item[0], e.item[0]);
            used[i] = lki_memory_in_use();
        }
        assert_true(i == 4 && used[1] == used[2] && used[2] == used[3]);
    }
    good();
}

static int first_label(lk_dataset *d)
{
    LK_FOR_EACH(e, d)
        return (int)lk_item(e.item[1]);
    return -1;
}

TEST(leaving_early)
{
    const int64_t before = lki_memory_in_use();
    LK_POOL {
        lk_dataset *d = lk_dataset_prefetch(lk_dataset_shuffle(rows_of(40), 10), 2);
        int         turns = 0;
        assert_true(first_label(d) >= 0);
        LK_FOR_EACH(e, d) {
            if (++turns % 2) continue;
            lk_tensor *made = lk_add(e.item[0], e.item[0]);
            if (lk_size(made) && turns == 6) break;
        }
        assert_int_equal(turns, 6);
        LK_FOR_EACH(a, d) {
            LK_FOR_EACH(b, d) {
                lk_add(a.item[0], b.item[0]);
                break;
            }
            assert_true(lk_item(a.item[1]) >= 0); /* the inner loop took nothing of the outer turn */
            if (++turns == 9) goto out;
        }
    out:;
    }
    good();
    assert_int_equal(lki_memory_in_use(), before);
}

TEST(two_iterators_side_by_side)
{
    LK_POOL {
        lk_iterator *a = lk_iterator_of(rows_of(30)), *b = lk_iterator_of(rows_of(20));
        lk_tuple     x, y;
        int          n = 0;
        while (lk_next(a, &x) && lk_next(b, &y)) {
            lk_tensor *sum = lk_add(x.item[0], y.item[0]);
            assert_true(((const float *)lk_data(sum))[0] == (float)(20 * n++));
        }
        assert_int_equal(n, 20);
    }
    good();
}

/* A step around a turn ends it; the iterator continues. */
TEST(steps_around_turns)
{
    LK_POOL {
        lk_iterator *it = lk_iterator_of(rows_of(10));
        lk_tuple     e;
        for (int i = 0; i < 10; i++)
            LK_STEP {
                assert_true(lk_next(it, &e));
                assert_true(lk_item(e.item[1]) == i);
                LK_STEP
                    lk_add(e.item[0], e.item[0]);
            }
        assert_false(lk_next(it, &e));
        assert_true(lk_next(lk_iterator_of(rows_of(1)), &e));
        lk_tensor *kept = lk_keep(e.item[0]); /* now it is the pool's */
        assert_true(lk_next(it = lk_iterator_of(rows_of(1)), &e));
        lk_free(it);
        assert_true(((const float *)lk_data(kept))[1] == 1);
    }
    good();
}

/* ---- threads ---- */

static void *read_one(void *it)
{
    lk_tuple e;
    double   x = lk_next(it, &e) ? lk_item(e.item[1]) : -1;
    return (void *)(intptr_t)x;
}

/* A turn that is open when its thread ends goes with the thread. */
TEST(one_iterator_by_several_threads_in_turn)
{
    LK_POOL {
        lk_iterator *it = lk_iterator_of(rows_of(6));
        lk_tuple     e;
        int64_t      used[3];
        for (int i = 0; i < 6; i += 2) {
            pthread_t thread;
            void     *got;
            assert_true(lk_next(it, &e));
            assert_true(lk_item(e.item[1]) == i);
            assert_int_equal(pthread_create(&thread, NULL, read_one, it), 0);
            pthread_join(thread, &got);
            assert_int_equal((intptr_t)got, i + 1);
            used[i / 2] = lki_memory_in_use();
        }
        assert_true(used[1] == used[0] && used[2] == used[0]);
        assert_false(lk_next(it, &e));
    }
    good();
}

/* ---- errors ---- */

TEST(an_old_error_stays_the_first)
{
    LK_POOL {
        counting breaks = {.end = 9, .fail = 1};
        lk_reshape(lk_scalar(1), LK_SHAPE(7));
        lk_iterator *it = lk_iterator_of(lk_dataset_from_generator(count_up, &breaks));
        lk_tuple     e;
        assert_true(lk_next(it, &e)); /* reading works all the same */
        assert_false(lk_next(it, &e));
        failed_with(LK_ESHAPE, "[7]");
        assert_false(lk_next(it, &e));
        failed_with(LK_ESHAPE, "[2]");
    }
}

TEST(errors_of_a_prefetch_thread)
{
    LK_POOL {
        counting breaks = {.end = 20, .fail = 7};
        for (int ahead = 1; ahead < 12; ahead += 5) {
            lk_iterator *it =
                lk_iterator_of(lk_dataset_prefetch(lk_dataset_batch(lk_dataset_from_generator(count_up, &breaks), 2), ahead));
            lk_tuple e;
            for (int i = 0; i < 3; i++)
                assert_true(lk_next(it, &e));
            assert_false(lk_next(it, &e));
            failed_with(LK_ESHAPE, "reshape");
            assert_false(lk_next(it, &e));
            failed_with(LK_ESHAPE, "reshape");
        }
    }
}

/* No more is read than was asked for, and what was asked for ahead. */
TEST(prefetch_reads_so_far_ahead)
{
    LK_POOL {
        counting     many = {.end = 1000};
        lk_iterator *it = lk_iterator_of(lk_dataset_prefetch(lk_dataset_from_generator(count_up, &many), 4));
        lk_tuple     e;
        assert_int_equal(many.calls, 0);
        assert_true(lk_next(it, &e));
        for (int i = 0; i < 10000 && __atomic_load_n(&many.calls, __ATOMIC_RELAXED) < 5; i++)
            usleep(1000);
        usleep(20000);
        assert_int_equal(__atomic_load_n(&many.calls, __ATOMIC_RELAXED), 5);
        lk_free(it);
        REFUSED(lk_dataset_prefetch(rows_of(2), -1), LK_EINVAL, "-1 elements ahead");
        GIVES(lk_dataset_prefetch(lk_dataset_range(3), 0), 0, 1, 2);
    }
}

static int ahead_after(int elements, int wait)
{
    counting     many = {.end = 1000};
    lk_iterator *it = lk_iterator_of(lk_dataset_prefetch(lk_dataset_from_generator(count_up, &many), 4));
    lk_tuple     e;
    for (int i = 0; i < elements; i++) {
        assert_true(lk_next(it, &e));
        assert_true(lk_item(e.item[0]) == i);
        usleep((useconds_t)wait);
    }
    const int ahead = __atomic_load_n(&many.calls, __ATOMIC_RELAXED) - elements;
    lk_free(it);
    return ahead;
}

/* Elements that cost next to nothing beside what is done with them are made by the reader itself. */
TEST(prefetch_keeps_out_of_the_way)
{
    LK_POOL {
        int tries = 5; /* a busy machine may stop a thread at any time */
        while (ahead_after(60, 2000) != 0 && --tries) {}
        assert_true(tries > 0);
    }
    good();
}

/* ---- who makes elements ---- */

typedef struct makers {
    pthread_t reader;
    int       own, others; /* elements made by the reader, and by another thread */
    int       team;        /* the reader would gather with this many */
} makers;

static int note_maker(int64_t index, lk_tuple *element, void *user)
{
    makers    *m = user;
    const bool own = pthread_equal(pthread_self(), m->reader);
    __atomic_fetch_add(own ? &m->own : &m->others, 1, __ATOMIC_RELAXED);
    if (own) m->team = lki_gather_team();
    *element = LK_TUPLE(lk_tensor_of(LK_SHAPE(1), (double)index));
    return 1;
}

static void read_slowly(lk_iterator *it, int elements)
{
    lk_tuple e;
    for (int i = 0; i < elements; i++) {
        assert_true(lk_next(it, &e));
        usleep(1000);
    }
}

static int wait_long(int64_t index, lk_tuple *element, void *user)
{
    usleep(10000);
    return note_maker(index, element, user);
}

/* With a core to spare, and a reader that does nothing with them. Only a machine that stops the reader between calls for ten times
 * as long as 16 elements take, 1.6 seconds, could change that. */
TEST(what_takes_long_is_made_ahead)
{
    const int before = lk_threads();
    if (lki_cores() < 2) skip();
    lk_set_threads(1);
    LK_POOL {
        makers       m = {.reader = pthread_self()};
        lk_tuple     e;
        lk_iterator *it = lk_iterator_of(lk_dataset_prefetch(lk_dataset_from_generator(wait_long, &m), 4));
        for (int i = 0; i < 40; i++)
            assert_true(lk_next(it, &e));
        lk_free(it);
        assert_int_equal(m.own, 0);
        assert_true(m.others >= 40);
    }
    lk_set_threads(before);
    good();
}

/* Spread over replicas, cheap elements never see a thread; asked for ahead, they do until it is known how cheap they are. */
TEST(the_next_iteration_knows_who_made_elements)
{
    LK_POOL {
        int tries = 5; /* a busy machine may stop a thread at any time */
        for (bool known = false; !known && tries; tries -= !known) {
            makers       m = {.reader = pthread_self()}, first;
            lk_dataset  *d = lk_dataset_batch(lk_dataset_from_generator(note_maker, &m), 1), *ahead = lk_dataset_prefetch(d, 2);
            lk_iterator *it = lk_iterator_of(lk_distribute_dataset(lk_mirrored_strategy(.cpu_devices = 1), d));
            read_slowly(it, 20);
            lk_free(it);
            known = m.own == 20 && m.others == 0;
            m.own = m.others = 0;
            read_slowly(it = lk_iterator_of(ahead), 40);
            lk_free(it);
            first = m;
            read_slowly(it = lk_iterator_of(ahead), 20);
            lk_free(it);
            assert_true(first.others > 0);
            known = known && m.others == first.others && m.own == first.own + 20;
        }
        assert_true(tries > 0);
    }
    good();
}

static int wait_a_while(int64_t index, lk_tuple *element, void *user)
{
    usleep(1000);
    return note_maker(index, element, user);
}

/* Where the team has every core, both ways are tried: what waits as long as its reader works is made ahead, and the time passes
 * once. */
TEST(waiting_is_done_ahead_even_without_a_core_to_spare)
{
    const int before = lk_threads();
    lk_set_threads(lki_cores());
    LK_POOL {
        int tries = 5; /* a busy machine may stop a thread at any time */
        for (bool ahead = false; !ahead && tries; tries -= !ahead) {
            makers       m = {.reader = pthread_self()};
            lk_dataset  *d = lk_dataset_batch(lk_dataset_from_generator(wait_a_while, &m), 1);
            lk_iterator *it = lk_iterator_of(lk_distribute_dataset(lk_mirrored_strategy(.cpu_devices = 1), d));
            read_slowly(it, 80);
            const int own = m.own;
            assert_true(own > 0);
            read_slowly(it, 40);
            ahead = m.own == own;
            lk_free(it);
        }
        assert_true(tries > 0);
    }
    lk_set_threads(before);
    good();
}

TEST(threads_may_change_while_elements_are_read)
{
    const int before = lk_threads();
    LK_POOL {
        makers       m = {.reader = pthread_self()};
        lk_dataset  *d = lk_dataset_batch(lk_dataset_from_generator(note_maker, &m), 1);
        lk_iterator *it = lk_iterator_of(lk_distribute_dataset(lk_mirrored_strategy(.cpu_devices = 1), d));
        for (int threads = 1; threads <= 3; threads++) {
            lk_set_threads(threads);
            m.own = m.team = 0;
            for (int tries = 0; !m.own && tries < 5; tries++) /* a busy machine may make a thread of it */
                read_slowly(it, 40);
            assert_int_equal(m.team, threads <= lki_cores() ? threads : 1);
        }
    }
    lk_set_threads(before);
    good();
}

/* A function of the pipeline may use a tape of its own, whether or not one of the reader records. */
static lk_tuple gradient(lk_tuple e, void *user)
{
    (void)user;
    lk_tape *tape = lk_tape_begin();
    lk_tape_watch(tape, e.item[0]);
    return LK_TUPLE(lk_tape_gradient_of(tape, lk_square(e.item[0]), LK_TUPLE(e.item[0]), NULL).item[0]);
}

TEST(tapes)
{
    LK_POOL
        for (int outer = 0; outer < 2; outer++) {
            lk_tape *tape = outer ? lk_tape_begin() : NULL;
            GIVES(lk_dataset_map(lk_dataset_range(3), gradient), 0, 2, 4);
            GIVES(lk_dataset_map(lk_dataset_from_tensors(LK_TUPLE(lk_tensor_of(LK_SHAPE(2), 1, 2))), gradient), 2, 4);
            if (tape) lk_tape_end(tape);
        }
}

static lk_tuple iterates(lk_tuple in, void *user)
{
    lk_tuple e;
    lk_next(user, &e);
    return in;
}

TEST(not_inside_a_traced_function)
{
    LK_POOL {
        lk_function *f = lk_function_of(iterates, lk_iterator_of(rows_of(2)));
        lk_call(f, LK_TUPLE(lk_scalar(1)));
        failed_with(LK_ESTATE, "lk_dataset_reduce()");
    }
}

TESTS(cmocka_unit_test(a_turn_is_a_step), cmocka_unit_test(leaving_early), cmocka_unit_test(two_iterators_side_by_side),
      cmocka_unit_test(steps_around_turns), cmocka_unit_test(one_iterator_by_several_threads_in_turn),
      cmocka_unit_test(an_old_error_stays_the_first), cmocka_unit_test(errors_of_a_prefetch_thread),
      cmocka_unit_test(prefetch_reads_so_far_ahead), cmocka_unit_test(prefetch_keeps_out_of_the_way),
      cmocka_unit_test(what_takes_long_is_made_ahead), cmocka_unit_test(the_next_iteration_knows_who_made_elements),
      cmocka_unit_test(waiting_is_done_ahead_even_without_a_core_to_spare),
      cmocka_unit_test(threads_may_change_while_elements_are_read), cmocka_unit_test(tapes),
      cmocka_unit_test(not_inside_a_traced_function))
