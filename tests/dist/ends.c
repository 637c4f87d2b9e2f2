/* A replica's function that ends its thread instead of returning: the others are released, the error of lk_run() names the replica,
 * and nothing is leaked. */
#include "check.h"
#define NEEDS(condition)                                                                                                           \
    do {                                                                                                                           \
        if (!(condition)) fail_msg("line %d: not so: %s %s", __LINE__, #condition, lk_error());                                    \
    } while (0)
#include "core/memory.h"
#include "dist/ends.h"
#include <dirent.h>

static void every_ending(bool traced)
{
    static const int counts[] = {2, 3, 8};
    for (int k = 0; k < 3; k++)
        LK_POOL {
            lk_strategy *s = lk_mirrored_strategy(.cpu_devices = counts[k]);
            for (int at = 0; at < PLACES; at++)
                for (int how = 0; how < MANNERS; how++)
                    for (int r = 0; r < counts[k]; r += k == 2 ? 7 : 1) {
                        ending e = {.strategy = s, .replica = r, .at = (place)at, .how = (manner)how, .traced = traced};
                        if (at == IN_MERGE && r > 0) continue; /* merge functions run on replica 0's thread */
#if defined(__SANITIZE_ADDRESS__)
                        if (traced && r == 0) continue; /* what it traced is the caller's, and is never freed */
#endif
                        end_one(&e);
                    }
        }
}

TEST(whoever_ends_wherever) { every_ending(false); }
TEST(while_traced) { every_ending(true); }

/* Several at once: each is one that could be named. */
static lk_tuple all_end(lk_tuple in, void *user)
{
    (void)in, (void)user;
    if (lk_replica_id_in_sync_group(lk_get_replica_context()) > 0) pthread_exit(NULL);
    return LK_TUPLE();
}

TEST(all_but_one_end)
{
    LK_POOL {
        lk_strategy *s = lk_mirrored_strategy(.cpu_devices = 4);
        lk_run(s, all_end, LK_TUPLE());
        assert_int_equal(lk_error_code(), LK_ESTATE);
        assert_non_null(strstr(lk_error(), "ended its thread"));
        lk_clear_error();
        ending_after((ending){.strategy = s});
    }
}

/* Replicas are not cancelled: a run ends as if it was not requested, workers serve the next one, and the caller's thread ends after
 * it. */
static lk_tuple cancelled(lk_tuple in, void *user)
{
    (void)in, (void)user;
    lk_replica_context *c = lk_get_replica_context();
    pthread_cancel(pthread_self());
    pthread_testcancel();
    lk_tensor *sum = lk_all_reduce(c, LK_SUM, lk_fill(LK_SHAPE(2), LK_F32, 1 + lk_replica_id_in_sync_group(c)));
    pthread_testcancel();
    return LK_TUPLE(sum);
}

/* The sanitizer does not notice that a cancelled thread's frames are gone; a thread that exits reports it itself. */
#if defined(__SANITIZE_ADDRESS__)
void __asan_handle_no_return(void);
#define TELL_SANITIZER() __asan_handle_no_return()
#else
#define TELL_SANITIZER() ((void)0)
#endif

static void *run_cancelled(void *user)
{
    LK_POOL {
        lk_strategy *s = lk_mirrored_strategy(.cpu_devices = 3);
        lk_tuple     sums = lk_local_results(s, lk_run(s, cancelled, LK_TUPLE()).item[0]);
        *(float *)user = lk_failed() ? -1 : *(const float *)lk_data(sums.item[1]);
    }
    TELL_SANITIZER();
    pthread_testcancel();
    return user;
}

TEST(replicas_are_not_cancelled)
{
    pthread_t thread;
    float     sum = 0;
    void     *result = NULL;
    assert_int_equal(pthread_create(&thread, NULL, run_cancelled, &sum), 0);
    assert_int_equal(pthread_join(thread, &result), 0);
    assert_true(sum == 6 && result == PTHREAD_CANCELED);
    LK_POOL {
        ending_after((ending){.strategy = lk_mirrored_strategy(.cpu_devices = 3)});
    }
}

enum { LEFT_WITHIN = 10 }; /* seconds */

static int threads_here(void)
{
    DIR *tasks = opendir("/proc/self/task");
    int  count = 0;
    while (tasks && readdir(tasks))
        count++;
    if (tasks) closedir(tasks);
    return count;
}

/* Threads that have ended leave the list a moment later, on a busy machine several of them together. */
static bool threads_become(int most)
{
    const double begin = ending_seconds();
    while (threads_here() > most && ending_seconds() - begin < LEFT_WITHIN)
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    return threads_here() <= most;
}

/* Neither memory nor threads become more. */
TEST(nothing_is_left)
{
    LK_POOL {
        ending  e = {.strategy = lk_mirrored_strategy(.cpu_devices = 3), .replica = 1, .at = IN_BLOCKS};
        int64_t memory = 0;
        int     threads = 0; /* of one run that ended no thread */
        ending_after(e);
        threads = threads_here();
        end_one(&e);
        for (int i = 0; i < 40; i++) {
            e.replica = 1 + i % 2;
            e.at = (place[]){AT_ONCE, BETWEEN, IN_BLOCKS, AT_LAST}[i / 2 % 4];
            end_one(&e);
            if (i == 7) memory = lki_memory_in_use();
        }
        assert_int_equal(lki_memory_in_use(), memory);
        assert_true(threads_become(threads));
    }
}

TESTS(cmocka_unit_test(whoever_ends_wherever), cmocka_unit_test(while_traced), cmocka_unit_test(all_but_one_end),
      cmocka_unit_test(replicas_are_not_cancelled), cmocka_unit_test(nothing_is_left))
