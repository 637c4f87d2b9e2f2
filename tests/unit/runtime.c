/* Runtimes: their options, which one is selected, their memory, their hooks, the caller's own threads, and the end of the library.
 * Two of them at the same time: tests/dist/runtimes.c. */
#define _GNU_SOURCE 1 /* sched_getcpu */
#include "core/runtime.h"
#include "check.h"
#include "core/log.h"
#include "refusal.h"
#include <dirent.h>
#include <lockstep.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- settings -------------------------------------------------------------------------------------------------------------- */

TEST(settings_are_those_of_the_one_selected)
{
    lk_runtime *outer = lk_runtime_of(.lanes = 16, .seed = 5, .threads = 3, .precision = LK_PRECISION_TF32);
    lk_runtime *inner = NULL;
    assert_non_null(outer);
    LK_WITH_RUNTIME(outer)
    {
        assert_ptr_equal(lk_runtime_current(), outer);
        inner = lk_runtime_of(.seed = 0); /* the rest is as in the one it is made under */
        LK_WITH_RUNTIME(inner)
        {
            assert_int_equal(lk_lanes(), 16);
            assert_true(lk_random_seed() == 0);
            assert_int_equal(lk_threads(), lki_cores());
            assert_int_equal(lk_current_precision(), LK_PRECISION_TF32);
            LK_WITH_RUNTIME(lk_runtime_default()) assert_int_equal(lk_lanes(), 8);
            lk_set_lanes(4);
            lk_set_random_seed(9);
            lk_set_precision(LK_PRECISION_BF16);
        }
        assert_int_equal(lk_lanes(), 16);
        assert_true(lk_random_seed() == 5);
        assert_int_equal(lk_threads(), 3);
        assert_int_equal(lk_current_precision(), LK_PRECISION_TF32);
    }
    assert_ptr_equal(lk_runtime_current(), lk_runtime_default());
    assert_int_equal(lk_lanes(), 8);
    assert_true(lk_random_seed() == 20240229);
    assert_int_equal(lk_current_precision(), LK_PRECISION_F32);
    lk_free(inner);
    lk_free(outer);
    assert_false(lk_failed());
}

static int leaves_early(lk_runtime *r)
{
    LK_WITH_RUNTIME(r) return lk_lanes();
    return 0;
}

TEST(a_block_ends_however_it_is_left)
{
    lk_runtime *r = lk_runtime_of(.lanes = 32);
    assert_int_equal(leaves_early(r), 32);
    assert_int_equal(lk_lanes(), 8);
    LK_WITH_RUNTIME(r) break;
    assert_int_equal(lk_lanes(), 8);
    lk_free(r);
}

TEST(one_that_is_freed_lives_as_long_as_it_is_selected)
{
    lk_runtime *r = lk_runtime_of(.lanes = 32, .threads = 2);
    LK_WITH_RUNTIME(r)
    {
        lk_free(r);
        assert_int_equal(lk_lanes(), 32);
        assert_int_equal(lk_threads(), 2);
    }
    LK_POOL {
        r = lk_runtime_of(.lanes = 64);
        LK_WITH_RUNTIME(r) assert_int_equal(lk_lanes(), 64);
    }
    assert_false(lk_failed());
}

TEST(what_makes_no_sense_is_refused)
{
    REFUSED(LK_EINVAL, lk_runtime_of(.lanes = 3), "lk_runtime_of", "power of two");
    REFUSED(LK_EINVAL, lk_runtime_of(.threads = -1), "lk_runtime_of");
    REFUSED(LK_EINVAL, lk_runtime_of(.precision = (lk_precision)7), "lk_runtime_of", "LK_PRECISION_TF32");
    REFUSED(LK_EINVAL, lk_runtime_of(.memory_limit = -5), "memory_limit");
    REFUSED(LK_EINVAL, lk_runtime_of(.memory_limit = 0), "memory_limit");
    static const char *const wrong[] = {"", ",", "a", "1-", "3-1", "0,,1", "0 1", "-1", "0;1"};
    for (int i = 0; i < LKI_COUNT(wrong); i++)
        REFUSED(LK_EINVAL, lk_runtime_of(.cores = wrong[i]), ".cores", "0-3,8");
    REFUSED(LK_EINVAL, lk_runtime_of(.cores = "1023"), "may use none");
    int ran = 0;
    LK_WITH_RUNTIME(NULL) ran = 1;
    LK_WITH_RUNTIME((lk_runtime *)lk_scalar(1)) ran = 1;
    assert_int_equal(ran, 0);
    assert_int_equal(lk_error_code(), LK_EINVAL);
    lk_clear_error();
    lk_set_precision((lk_precision)9);
    assert_int_equal(lk_error_code(), LK_EINVAL);
    lk_clear_error();
}

/* ---- cores ----------------------------------------------------------------------------------------------------------------- */

#ifdef __linux__
static void note_core(void *arg, int t) { ((int *)arg)[t] = sched_getcpu(); }

TEST(a_team_stays_on_its_cores)
{
    const lki_core_set all = lki_process_cores();
    int                last = LKI_MOST_UNITS - 1, seen[3] = {0};
    char               text[16];
    while (last && !lki_core_in(&all, last))
        last--;
    snprintf(text, sizeof text, "%d", last);
    lk_runtime *r = lk_runtime_of(.cores = text);
    LK_WITH_RUNTIME(r)
    {
        assert_int_equal(lk_threads(), 1);
        lki_team_run(3, note_core, seen);
    }
    assert_int_equal(seen[1], last);
    assert_int_equal(seen[2], last);
    lk_free(r);
    assert_false(lk_failed());
}
#else
TEST(a_team_stays_on_its_cores) { skip(); }
#endif

/* ---- threads of the library ------------------------------------------------------------------------------------------------ */

static lk_tuple see(lk_tuple in, void *user)
{
    (void)in;
    __atomic_add_fetch((int *)user, lk_lanes() == 16 && lk_random_seed() == 77, __ATOMIC_RELAXED);
    return (lk_tuple){0};
}

static lk_tuple add_seed(lk_tuple in, void *user)
{
    (void)user;
    return LK_TUPLE(lk_add(in.item[0], lk_scalar((double)lk_random_seed())));
}

static void quiet(const char *text, void *user) { (void)text, (void)user; }

TEST(replicas_and_pipelines_inherit_it)
{
    lk_runtime *r = lk_runtime_of(.lanes = 16, .seed = 77, .log = quiet);
    int         right = 0;
    double      sum = 0;
    LK_POOL
        LK_WITH_RUNTIME(r)
        {
            lk_strategy *s = lk_mirrored_strategy(.cpu_devices = 3);
            lk_run(s, see, LK_TUPLE(), &right);
            lk_dataset *d = lk_dataset_prefetch(lk_dataset_map(lk_dataset_range(5, .dtype = LK_F32), add_seed, .parallel = 2), 2);
            lk_tuple    e;
            for (lk_iterator *it = lk_iterator_of(d); lk_next(it, &e);)
                sum += lk_item(e.item[0]);
        }
    assert_int_equal(right, 3);
    assert_true(sum == 5 * 77 + 10);
    lk_free(r);
    assert_false(lk_failed());
}

/* ---- hooks ----------------------------------------------------------------------------------------------------------------- */

typedef struct page {
    char text[200];
} page;

static void write_down(const char *text, void *user)
{
    page        *p = user;
    const size_t used = strlen(p->text);
    snprintf(p->text + used, sizeof p->text - used, "%s", text);
}

TEST(text_goes_to_its_hooks)
{
    page        mine = {0}, other = {0}, set = {0};
    lk_runtime *r = lk_runtime_of(.output = write_down, .log = write_down, .user = &mine);
    lk_set_log(write_down, &other);
    LK_WITH_RUNTIME(r)
    {
        lk_print(lk_scalar(7));
        assert_string_equal(mine.text, "7\n");
        lki_warn("inside");
        lk_set_log(write_down, &set);
        lki_warn("set");
    }
    lki_warn("outside");
    assert_non_null(strstr(mine.text, "inside"));
    assert_non_null(strstr(set.text, "set"));
    assert_non_null(strstr(other.text, "outside"));
    lk_set_log(NULL, NULL);
    lk_free(r);
}

/* ---- the caller's own threads ---------------------------------------------------------------------------------------------- */

typedef struct pool {
    int  runs, pieces; /* atomic */
    bool drops_one;
    void (*piece)(void *, int);
    void *data;
} pool;

typedef struct errand {
    pool *p;
    int   i;
} errand;

static void *run_piece(void *arg)
{
    const errand *e = arg;
    __atomic_add_fetch(&e->p->pieces, 1, __ATOMIC_RELAXED);
    e->p->piece(e->p->data, e->i);
    return NULL;
}

static void run_pieces(void (*piece)(void *data, int i), void *data, int count, void *user)
{
    pool     *p = user;
    pthread_t thread[8];
    errand    e[8];
    p->piece = piece;
    p->data = data;
    p->runs++;
    for (int i = 0; i < count - p->drops_one; i++) {
        e[i] = (errand){p, i};
        pthread_create(&thread[i], NULL, run_piece, &e[i]);
    }
    for (int i = 0; i < count - p->drops_one; i++)
        pthread_join(thread[i], NULL);
}

static lk_tuple one_step(lk_tuple in, void *user)
{
    lk_variable *w = user;
    lk_tape     *tape = lk_tape_begin();
    lk_tensor   *now = lk_read(w);
    lk_tensor   *loss = lk_reduce_mean(lk_square(lk_sub(lk_matmul(in.item[0], now), in.item[1])));
    lk_assign_sub(w, lk_mul(lk_tape_gradient_of(tape, loss, LK_TUPLE(now), NULL).item[0], lk_scalar(0.1)));
    return LK_TUPLE(loss);
}

static lk_digest train(int steps)
{
    lk_digest d = {0};
    LK_POOL {
        lk_variable *w = lk_variable_of(lk_random_normal(LK_SHAPE(64, 32), .stream = "w"));
        lk_function *f = lk_function_of(one_step, w);
        for (int i = 0; i < steps; i++)
            LK_STEP
                lk_call(f, LK_TUPLE(lk_rows(lk_random_normal(LK_SHAPE(48, 64), .stream = "x", .call = i), 0),
                                    lk_rows(lk_random_normal(LK_SHAPE(48, 32), .stream = "y", .call = i), 0)));
        d = lk_variables_digest(LK_VARIABLES(w));
    }
    return d;
}

TEST(the_callers_threads_compute_the_same)
{
    const lk_digest right = train(5);
    pool            p = {0};
    lk_runtime     *r = lk_runtime_of(.run = run_pieces, .user = &p, .threads = 3);
    LK_WITH_RUNTIME(r) assert_true(lk_digest_equal(train(5), right));
    assert_true(p.runs >= 5);
    assert_int_equal(p.pieces, 3 * p.runs);
    assert_false(lk_failed());
    REFUSED(LK_EINVAL, lk_runtime_of(.run = run_pieces, .user = &p), ".threads");
    lk_free(r);
}

static void nothing(void *arg, int t) { (void)arg, (void)t; }

TEST(a_pool_that_drops_pieces_is_found_out)
{
    pool        p = {.drops_one = true};
    lk_runtime *r = lk_runtime_of(.run = run_pieces, .user = &p, .threads = 2);
    LK_WITH_RUNTIME(r) assert_int_equal(lki_team_run(2, nothing, NULL), LK_ESTATE);
    assert_non_null(strstr(lk_error(), "1 of 2 pieces"));
    lk_clear_error();
    lk_free(r);
}

/* ---- memory ---------------------------------------------------------------------------------------------------------------- */

TEST(a_limit_is_for_what_is_made_under_it)
{
    lk_runtime *small = lk_runtime_of(.memory_limit = 1 << 20), *other = lk_runtime_of(.memory_limit = 64 << 20);
    lk_tensor  *kept = NULL;
    LK_WITH_RUNTIME(small)
    {
        LK_POOL {
            assert_false(lk_poisoned(lk_ones(LK_SHAPE(100000), LK_F32)));
            assert_true(lk_poisoned(lk_ones(LK_SHAPE(200000), LK_F32)));
            assert_int_equal(lk_error_code(), LK_ENOMEM);
            assert_non_null(strstr(lk_error(), "limit"));
            lk_clear_error();
            LK_WITH_RUNTIME(other) assert_false(lk_poisoned(lk_ones(LK_SHAPE(200000), LK_F32)));
            LK_WITH_RUNTIME(lk_runtime_default()) assert_false(lk_poisoned(lk_ones(LK_SHAPE(200000), LK_F32)));
        }
        for (int i = 0; i < 20; i++) /* what is let go can be had again */
            LK_POOL
                assert_false(lk_poisoned(lk_ones(LK_SHAPE(200000), LK_F32)));
        kept = lk_ones(LK_SHAPE(1000), LK_F32);
    }
    lk_free(small);
    assert_true(lk_item(lk_reduce_sum(kept)) == 1000); /* it outlives its runtime, and so does the account */
    lk_free(kept);
    lk_free(other);
    assert_false(lk_failed());
}

TEST(trimming_tells_how_much_it_gave_back)
{
    lk_memory_trim();
    LK_POOL
        lk_ones(LK_SHAPE(1 << 20), LK_F32);
    assert_true(lki_memory_cached() >= 4 << 20);
    assert_true(lk_memory_trim() >= 4 << 20);
    assert_true(lki_memory_cached() == 0);
    assert_true(lk_memory_trim() == 0);
}

static int make_one(void)
{
    lk_runtime *r = lk_runtime_of(.memory_limit = 1 << 20);
    lk_free(r);
    return r != NULL;
}

TEST(no_memory_for_one_is_an_error) { assert_true(check_every_allocation(make_one) >= 2); }

/* ---- the end --------------------------------------------------------------------------------------------------------------- */

static int threads_here(void)
{
    int  count = 0;
    DIR *d = opendir("/proc/self/task");
    for (struct dirent *e; d && (e = readdir(d));)
        count += e->d_name[0] != '.';
    if (d) closedir(d);
    return count;
}

TEST(after_the_end_it_can_be_used_again)
{
    lk_digest before = {0};
    lk_set_threads(3);
    before = train(3);
    const int64_t at_rest = lki_memory_in_use();
    lk_tensor    *lost = lk_ones(LK_SHAPE(1 << 18), LK_F32);
    (void)lost;
    lk_set_log(quiet, NULL);
    lk_run(lk_mirrored_strategy(.cpu_devices = 2), see, LK_TUPLE(), &(int){0});
    assert_true(threads_here() >= 4 || threads_here() == 0);
    assert_int_equal(lk_shutdown(), LK_OK);
    assert_true(threads_here() <= 1);
    assert_true(lki_memory_cached() == 0);
    assert_true(lki_memory_in_use() < at_rest + (1 << 18));
    assert_true(lk_digest_equal(train(3), before));
    assert_int_equal(lk_shutdown(), LK_OK);
    assert_int_equal(lk_shutdown(), LK_OK);
    lk_set_threads(0);
    assert_false(lk_failed());
}

TEST(the_end_is_refused_inside)
{
    lk_runtime *r = lk_runtime_of();
    LK_POOL
        assert_int_equal(lk_shutdown(), LK_ESTATE);
    LK_STEP
        assert_int_equal(lk_shutdown(), LK_ESTATE);
    LK_WITH_RUNTIME(r) assert_int_equal(lk_shutdown(), LK_ESTATE);
    assert_int_equal(lk_error_code(), LK_ESTATE);
    lk_clear_error();
    lk_free(r);
}

TESTS(cmocka_unit_test(settings_are_those_of_the_one_selected), cmocka_unit_test(a_block_ends_however_it_is_left),
      cmocka_unit_test(one_that_is_freed_lives_as_long_as_it_is_selected), cmocka_unit_test(what_makes_no_sense_is_refused),
      cmocka_unit_test(a_team_stays_on_its_cores), cmocka_unit_test(replicas_and_pipelines_inherit_it),
      cmocka_unit_test(text_goes_to_its_hooks), cmocka_unit_test(the_callers_threads_compute_the_same),
      cmocka_unit_test(a_pool_that_drops_pieces_is_found_out), cmocka_unit_test(a_limit_is_for_what_is_made_under_it),
      cmocka_unit_test(trimming_tells_how_much_it_gave_back), cmocka_unit_test(no_memory_for_one_is_an_error),
      cmocka_unit_test(the_end_is_refused_inside), cmocka_unit_test(after_the_end_it_can_be_used_again))
