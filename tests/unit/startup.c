/* Small and instant: a program that makes a tensor and adds takes a few milliseconds and little memory. */
#include "check.h"
#include <lockstep.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

enum { TRIES = 20 };

static double milliseconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

TEST(a_small_program_starts_at_once)
{
    char  *argv[] = {"startup", "child", NULL};
    double shortest = 1e9;
    long   kilobytes = 0;
    for (int i = 0; i < TRIES; i++) {
        struct rusage usage;
        int           status = -1;
        pid_t         child;
        double        begin = milliseconds();
        assert_int_equal(posix_spawn(&child, "/proc/self/exe", NULL, NULL, argv, environ), 0);
        assert_int_equal(wait4(child, &status, 0, &usage), child);
        double took = milliseconds() - begin;
        shortest = took < shortest ? took : shortest;
        kilobytes = usage.ru_maxrss;
        assert_int_equal(status, 0);
    }
    print_message("%.2f ms, %ld KiB\n", shortest, kilobytes);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    assert_true(shortest < 5);
    assert_true(kilobytes < 10 * 1024);
#endif
}

int main(int argc, char **argv)
{
    (void)argv;
    if (argc > 1) return lk_item(lk_add(lk_scalar(1), lk_scalar(2))) != 3;
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_small_program_starts_at_once)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
