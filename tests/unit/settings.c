/* Lanes, threads and seed: their defaults, their environment variables, the calls that do the same. The environment is read once,
 * so each variable is tested in a separate process: this program again, which then prints its settings. */
#include "check.h"
#include "core/thread.h"
#include <lockstep.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void tell_settings(void)
{
    lk_tensor *x = lk_random_uniform(LK_SHAPE(1));
    printf("%d %d %llu %.9g\n", lk_lanes(), lk_threads(), (unsigned long long)lk_random_seed(), lk_item(x));
}

typedef struct seen {
    int                lanes, threads;
    unsigned long long seed;
    double             draw;
    char               log[512]; /* what was warned about */
} seen;

static seen run_with(const char *variables)
{
    char    command[1024], self[256], line[512];
    seen    s = {0};
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    assert_true(n > 0);
    self[n] = 0;
    snprintf(command, sizeof command, "env -u LOCKSTEP_LANES -u LOCKSTEP_THREADS -u LOCKSTEP_SEED %s LOCKSTEP_TELL=1 '%s' 2>&1",
             variables, self);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    while (fgets(line, sizeof line, pipe))
        if (sscanf(line, "%d %d %llu %lg", &s.lanes, &s.threads, &s.seed, &s.draw) != 4)
            snprintf(s.log + strlen(s.log), sizeof s.log - strlen(s.log), "%s", line);
    assert_int_equal(pclose(pipe), 0);
    return s;
}

TEST(defaults)
{
    seen s = run_with("");
    assert_int_equal(s.lanes, 8);
    assert_int_equal(s.threads, lki_cores());
    assert_true(s.seed == 20240229);
    assert_string_equal(s.log, "");
}

TEST(from_the_environment)
{
    seen s = run_with("LOCKSTEP_LANES=32 LOCKSTEP_THREADS=3 LOCKSTEP_SEED=7");
    assert_int_equal(s.lanes, 32);
    assert_int_equal(s.threads, 3);
    assert_true(s.seed == 7);
    assert_string_equal(s.log, "");
    assert_int_equal(run_with("LOCKSTEP_LANES=1").lanes, 1);
    assert_int_equal(run_with("LOCKSTEP_LANES=1024").lanes, 1024);
    assert_int_equal(run_with("LOCKSTEP_THREADS=0").threads, lki_cores());
    assert_int_equal(run_with("LOCKSTEP_LANES=").lanes, 8);
}

TEST(seeds_of_64_bits)
{
    assert_true(run_with("LOCKSTEP_SEED=18446744073709551615").seed == UINT64_MAX);
    assert_true(run_with("LOCKSTEP_SEED=0").seed == 0);
    seen bad = run_with("LOCKSTEP_SEED=99999999999999999999999");
    assert_true(bad.seed == 20240229);
    assert_non_null(strstr(bad.log, "LOCKSTEP_SEED"));
}

static void refused(const char *variable, const char *value)
{
    char text[128];
    snprintf(text, sizeof text, "%s='%s'", variable, value);
    seen s = run_with(text);
    assert_int_equal(s.lanes, 8);
    assert_int_equal(s.threads, lki_cores());
    assert_true(s.seed == 20240229);
    if (!strstr(s.log, variable) || !strstr(s.log, "ignored")) fail_msg("%s: \"%s\"", text, s.log);
    assert_ptr_equal(strchr(s.log, '\n'), s.log + strlen(s.log) - 1); /* one line */
}

TEST(wrong_values_are_told_and_ignored)
{
    static const char *const lanes[] = {"0", "3", "-8", "2048", "eight", "8x", "99999999999999999999"}, *const threads[] = {
                                                                                                            "-1", "2000", "all",
                                                                                                            "1.5",
                                                                                                            "99999999999999999999"};
    for (int i = 0; i < LKI_COUNT(lanes); i++)
        refused("LOCKSTEP_LANES", lanes[i]);
    for (int i = 0; i < LKI_COUNT(threads); i++)
        refused("LOCKSTEP_THREADS", threads[i]);
    refused("LOCKSTEP_SEED", "abc");
    refused("LOCKSTEP_SEED", "-5");
    refused("LOCKSTEP_SEED", " ");
}

TEST(calls_do_the_same)
{
    assert_int_equal(lk_set_lanes(64), LK_OK);
    assert_int_equal(lk_lanes(), 64);
    assert_int_equal(lk_set_lanes(8), LK_OK);
    assert_int_equal(lk_set_threads(5), LK_OK);
    assert_int_equal(lk_threads(), 5);
    assert_int_equal(lk_set_threads(0), LK_OK);
    assert_int_equal(lk_threads(), lki_cores());
    lk_set_random_seed(7);
    assert_true(lk_random_seed() == 7);
    LK_POOL {
        seen s = run_with("LOCKSTEP_SEED=7");
        assert_true((float)s.draw == (float)lk_item(lk_random_uniform(LK_SHAPE(1))));
        lk_set_random_seed(20240229);
        assert_true((float)s.draw != (float)lk_item(lk_random_uniform(LK_SHAPE(1))));
    }
    assert_false(lk_failed());
}

TEST(calls_refuse_wrong_values_and_keep_the_old_ones)
{
    static const int lanes[] = {0, -1, 3, 2048, 12}, threads[] = {-1, 1025};
    for (int i = 0; i < LKI_COUNT(lanes); i++) {
        assert_int_equal(lk_set_lanes(lanes[i]), LK_EINVAL);
        assert_non_null(strstr(lk_error(), "power of two from 1 to 1024"));
        lk_clear_error();
    }
    for (int i = 0; i < LKI_COUNT(threads); i++) {
        assert_int_equal(lk_set_threads(threads[i]), LK_EINVAL);
        assert_non_null(strstr(lk_error(), "0 (all cores) to 1024"));
        lk_clear_error();
    }
    assert_int_equal(lk_lanes(), 8);
    assert_int_equal(lk_threads(), lki_cores());
}

int main(int argc, char **argv)
{
    (void)argc, (void)argv;
    if (getenv("LOCKSTEP_TELL")) {
        tell_settings();
        return 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults),          cmocka_unit_test(from_the_environment),
        cmocka_unit_test(seeds_of_64_bits),  cmocka_unit_test(wrong_values_are_told_and_ignored),
        cmocka_unit_test(calls_do_the_same), cmocka_unit_test(calls_refuse_wrong_values_and_keep_the_old_ones),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
