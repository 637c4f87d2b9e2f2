/* A replica's function that ends its thread instead of returning: the others are released, lk_run() tells who it was, and nothing is left behind. */
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

static int threads_here(void)
{
    DIR *tasks = opendir("/proc/self/task");
    int  count = 0;
    while (tasks && readdir(tasks))
        count++;
    if (tasks) closedir(tasks);
    return count;
}

/* Neither memory nor threads become more. */
TEST(nothing_is_left)
{
    LK_POOL {
        ending  e = {.strategy = lk_mirrored_strategy(.cpu_devices = 3), .replica = 1, .at = IN_BLOCKS};
        int64_t memory = 0;
        int     threads = 0;
        end_one(&e);
        for (int i = 0; i < 40; i++) {
            e.replica = 1 + i % 2;
            e.at = (place[]){AT_ONCE, BETWEEN, IN_BLOCKS, AT_LAST}[i / 2 % 4];
            end_one(&e);
            if (i == 7) memory = lki_memory_in_use(), threads = threads_here();
        }
        assert_int_equal(lki_memory_in_use(), memory);
        assert_true(threads_here() <= threads + 1); /* one may be on its way out */
    }
}

TESTS(cmocka_unit_test(whoever_ends_wherever), cmocka_unit_test(while_traced), cmocka_unit_test(all_but_one_end),
      cmocka_unit_test(nothing_is_left))
