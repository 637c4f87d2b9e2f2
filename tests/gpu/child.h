/* Tests in separate processes: the number of GPUs is fixed at its first query, so each part of a test that needs another number
 * runs in a child, which sets the environment before its first call of the library; its parent makes no such call. The child's
 * results are returned in an outcome.
 *
 *     static void two(const void *arg, outcome *out) { NEED(lk_list_devices().count == 3); }
 *     TEST(both_cards_are_there) { CHILD(two, NULL, NULL, .cards = 2); }
 *
 * Cards are simulated unless LOCKSTEP_TEST_GPU=cuda; then a part that needs more of them than there are is left out, and prints
 * that; with LOCKSTEP_TEST_CARDS=1 one card stands for as many as are needed. */
#ifndef LK_TESTS_GPU_CHILD_H
#define LK_TESTS_GPU_CHILD_H

#include "check.h"
#include "device/gpu/gpu.h"
#include "op/tensor.h"
#include <lockstep.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CHILD_LEFT_OUT = 77, MOST_VALUES = 256 };

/* The sanitizer guesses where variables of threads lie that a backend brings with it, guesses wrong with many threads, and then
 * ends the process when it looks for leaks. */
#if defined(__SANITIZE_ADDRESS__)
const char *__asan_default_options(void) __attribute__((visibility("default"), weak)); /* all programs of the folder are one */
const char *__asan_default_options(void) { return "intercept_tls_get_addr=0"; }
#endif

typedef struct outcome {
    lk_digest digest;
    int       count;
    double    value[MOST_VALUES];
} outcome;

typedef struct setting {
    int    cards, logical; /* default 1 each */
    size_t memory;         /* of a simulated card; default 4 GiB */
} setting;

typedef void child_fn(const void *arg, outcome *out);

static inline bool simulated(void)
{
    const char *kind = getenv("LOCKSTEP_TEST_GPU");
    return !kind || strcmp(kind, "cuda");
}

/* ---- in a child ---- */

static inline void child_need(bool good, const char *what, int line)
{
    if (good) return;
    fprintf(stderr, "line %d: %s%s%s\n", line, what, lk_failed() ? ": " : "", lk_failed() ? lk_error() : "");
    fflush(stderr);
    _exit(1);
}
#define NEED(condition) child_need(condition, #condition, __LINE__)
#define SOUND() child_need(!lk_failed(), "an error", __LINE__)

/* The thread's error has this code and these words; it is clean afterwards. */
static inline void child_told(lk_status code, const char *const *words, int line)
{
    bool good = lk_error_code() == code;
    for (int i = 0; words[i]; i++)
        good = good && strstr(lk_error(), words[i]);
    if (!good) {
        fprintf(stderr, "line %d: not told as it should be (%s", line, lk_status_name(code));
        for (int i = 0; words[i]; i++)
            fprintf(stderr, ", \"%s\"", words[i]);
        fprintf(stderr, "), but %s: %s\n", lk_status_name(lk_error_code()), lk_error());
        _exit(1);
    }
    lk_clear_error();
}
#define TOLD(code, ...) child_told(code, (const char *const[]){__VA_ARGS__, NULL}, __LINE__)

static inline void child_put(outcome *out, double value)
{
    NEED(out->count < MOST_VALUES);
    out->value[out->count++] = value;
}

static inline void child_silent(const char *text, void *user) { (void)text, (void)user; }

/* ---- in the parent ---- */

static inline void child_number(const char *name, size_t value)
{
    char text[32];
    snprintf(text, sizeof text, "%zu", value);
    if (value) setenv(name, text, 1);
    else unsetenv(name);
}

static inline void child_environment(const setting *s)
{
    const int cards = s->cards ? s->cards : 1;
    char      visible[256];
    size_t    used = 0;
    for (int i = 0; i < cards; i++)
        used += (size_t)snprintf(visible + used, sizeof visible - used, "%s%d", i ? "," : "", i);
    if (simulated()) child_number("LOCKSTEP_GPU_SIM", (size_t)cards);
    else if (getenv("LOCKSTEP_TEST_CARDS")) child_number("LOCKSTEP_CUDA_CARDS", (size_t)cards);
    else setenv("CUDA_VISIBLE_DEVICES", visible, 0);
    child_number("LOCKSTEP_LOGICAL_GPUS", (size_t)s->logical);
    child_number("LOCKSTEP_GPU_SIM_MEMORY", s->memory);
    unsetenv("LOCKSTEP_DEVICE");
}

/* cmocka's handlers would continue with the tests after this one, in the child as well. */
static inline void child_signals(void)
{
    static const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
    for (int i = 0; i < LKI_COUNT(signals); i++)
        signal(signals[i], SIG_DFL);
}

static inline int child_main(const setting *s, child_fn *fn, const void *arg, outcome *out)
{
    const int cards = s->cards ? s->cards : 1;
    child_signals();
    child_environment(s);
    if (lki_gpu_cards() < cards) {
        fprintf(stderr, "left out: it needs %d cards (%s)\n", cards, lki_gpu_why());
        return simulated() ? 1 : CHILD_LEFT_OUT;
    }
    lk_set_log(child_silent, NULL);
    LK_POOL
        LK_STEP
            fn(arg, out);
    if (lk_failed()) fprintf(stderr, "an error is left: %s\n", lk_error());
    return lk_failed() ? 1 : 0;
}

/* Whether it ran; it fails the test when the child did. */
static inline bool child_run(setting s, child_fn *fn, const void *arg, outcome *out, int line)
{
    outcome *shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int      status = 0;
    assert_true(shared != MAP_FAILED);
    fflush(NULL);
    pid_t pid = fork();
    if (!pid) exit(child_main(&s, fn, arg, shared));
    assert_true(pid > 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (out) *out = *shared;
    munmap(shared, sizeof *shared);
    if (WIFEXITED(status) && WEXITSTATUS(status) == CHILD_LEFT_OUT) return false;
    if (!WIFEXITED(status) || WEXITSTATUS(status))
        fail_msg("line %d: the process of this part ended with status %#x", line, (unsigned)status);
    return true;
}
#define CHILD(fn, arg, out, ...) child_run((setting){__VA_ARGS__}, fn, arg, out, __LINE__)

static inline void same_outcome(const outcome *a, const outcome *b, const char *what)
{
    char x[65], y[65];
    if (!lk_digest_equal(a->digest, b->digest))
        fail_msg("%s: digests differ: %s and %s", what, lk_digest_text(a->digest, x), lk_digest_text(b->digest, y));
    if (a->count != b->count) fail_msg("%s: %d and %d values", what, a->count, b->count);
    for (int i = 0; i < a->count; i++)
        if (memcmp(&a->value[i], &b->value[i], sizeof a->value[i]))
            fail_msg("%s: value %d is %.17g and %.17g", what, i, a->value[i], b->value[i]);
}

static inline void close_outcome(const outcome *a, const outcome *b, double tolerance, const char *what)
{
    if (a->count != b->count) fail_msg("%s: %d and %d values", what, a->count, b->count);
    for (int i = 0; i < a->count; i++)
        if (!(fabs(a->value[i] - b->value[i]) <= tolerance * fmax(1, fabs(a->value[i]))))
            fail_msg("%s: value %d is %.9g and %.9g", what, i, a->value[i], b->value[i]);
}

#endif
