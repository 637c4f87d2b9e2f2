/* What every test program includes: cmocka, and a way to let each allocation of a piece of code fail once. */
#ifndef LK_TESTS_CHECK_H
#define LK_TESTS_CHECK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "core/memory.h"
#include <lockstep/error.h>

#define TEST(name) static void name(void **state_ __attribute__((unused)))
#define TESTS(...)                                                                                                                 \
    int main(int argc, char **argv)                                                                                                \
    {                                                                                                                              \
        (void)argc, (void)argv;                                                                                                    \
        const struct CMUnitTest tests[] = {__VA_ARGS__};                                                                           \
        return cmocka_run_group_tests(tests, NULL, NULL);                                                                          \
    }

/* First in a test that takes long with a sanitizer and runs without one in CI too: `make asan` skips it, `make test-all` does not
 * (cmake/Programs.cmake). */
#if defined(LK_SOME_TESTS)
#define LONG_TEST() skip()
#else
#define LONG_TEST() ((void)0)
#endif

/* The folder that this variable of the environment names, LOCKSTEP_GOLDEN or LOCKSTEP_DATA. Without it the test is skipped, so a
 * test calls this before it makes anything that it must free. */
static inline const char *folder_or_skip(const char *variable)
{
    const char *folder = getenv(variable);
    if (folder && *folder) return folder;
    print_message("%s is not set\n", variable);
    skip();
    return NULL;
}

/* Run `attempt` with its first allocation failing, then its second, and so on until it needs no more of them. `attempt` returns
 * whether it succeeded and cleans up after itself either way; a failure must be reported as LK_ENOMEM and leak no memory. */
static inline int check_every_allocation(int (*attempt)(void))
{
    for (int n = 1;; n++) {
        int64_t before = lki_memory_in_use();
        lk_clear_error();
        lki_memory_fail_after(n);
        int succeeded = attempt();
        lki_memory_fail_after(0);
        assert_int_equal(lki_memory_in_use(), before);
        if (succeeded && !lk_failed()) return n - 1;
        assert_int_equal(lk_error_code(), LK_ENOMEM);
        lk_clear_error();
        assert_true(n < 10000);
    }
}

#endif
