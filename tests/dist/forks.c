/* A threaded program that forks at any moment: threads train, make tensors and log while the test forks. Each child makes tensors,
 * runs an op, trains a step on a team and on two replicas, and ends. None may hang: a child that inherits a taken lock exceeds its
 * deadline. There are 200 forks; make soak does 1000 (LOCKSTEP_TEST_FORKS).
 *
 * The runtimes of AddressSanitizer and ThreadSanitizer have locks of their own, for example around malloc's free lists, that fork()
 * does not know (before GCC 15 and LLVM 18). If another thread allocates during the fork, a child that allocates or starts a thread
 * may wait for such a lock for ever. So under sanitizers children of busy threads only take the library's locks, and the others are
 * forked while all threads sleep. */
#include "check.h"
#include "core/thread.h"
#include <ctype.h>
#include <dirent.h>
#include <lockstep.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED true
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED true
#endif
#endif
#ifndef SANITIZED
#define SANITIZED false
#endif

enum { BATCHES = 4, USUAL = 200, DEADLINE = 60, ROWS = 16, IN = 8, OUT = 4 };

static int stop; /* atomic */

static void quiet(const char *text, void *user) { (void)text, (void)user; }

static bool stopped(void) { return __atomic_load_n(&stop, __ATOMIC_RELAXED); }

/* ---- what threads do meanwhile --------------------------------------------------------------------------------------------- */

static lk_tuple step(lk_tuple in, void *user)
{
    lk_variable *w = user;
    lk_tape     *tape = lk_tape_begin();
    lk_tensor   *now = lk_read(w), *loss = lk_reduce_mean(lk_square(lk_matmul(in.item[0], now)));
    lk_assign_sub(w, lk_mul(lk_tape_gradient_of(tape, loss, LK_TUPLE(now), NULL).item[0], lk_scalar(0.01)));
    return LK_TUPLE(loss);
}

static lk_tensor *batch(int i) { return lk_rows(lk_random_normal(LK_SHAPE(ROWS, IN), .stream = "x", .call = i), 0); }

static void *train(void *threads)
{
    lk_runtime *r = lk_runtime_of(.threads = (int)(intptr_t)threads, .log = quiet);
    LK_WITH_RUNTIME(r)
    for (int round = 0; !stopped(); round++)
        LK_POOL {
            lk_variable *w = lk_variable_of(lk_ones(LK_SHAPE(IN, OUT), LK_F32));
            lk_function *f = lk_function_of(step, w);
            for (int i = 0; i < 20 && !stopped(); i++)
                LK_STEP
                    lk_call(f, LK_TUPLE(batch(i)));
        }
    lk_free(r);
    return NULL;
}

static void *use_ops(void *arg)
{
    (void)arg;
    while (!stopped())
        LK_STEP {
            lk_tensor *x = lk_add(lk_ones(LK_SHAPE(50, 50), LK_F32), lk_scalar(1));
            lk_item(lk_reduce_sum(lk_matmul(x, lk_transpose(x, LK_AXES(1, 0)))));
        }
    return NULL;
}

static lk_tuple doubled(lk_tuple in, void *user)
{
    (void)user;
    return LK_TUPLE(lk_add(in.item[0], in.item[0]));
}

static void *read_data(void *arg)
{
    (void)arg;
    lk_runtime *r = lk_runtime_of(.log = quiet);
    LK_WITH_RUNTIME(r)
    while (!stopped())
        LK_POOL {
            lk_dataset *d = lk_dataset_map(lk_dataset_range(40, .dtype = LK_F32), doubled, .parallel = 2);
            LK_FOR_EACH(e, lk_dataset_prefetch(lk_dataset_shuffle(lk_dataset_batch(d, 4), 10), 2)) {}
            lk_strategy *s = lk_mirrored_strategy(.cpu_devices = 2);
            lk_run(s, doubled, LK_TUPLE(lk_scalar(2)));
        }
    lk_free(r);
    return NULL;
}

/* ---- what a child does ----------------------------------------------------------------------------------------------------- */

static int use_everything(void)
{
    int good = 0;
    lk_set_log(quiet, NULL);
    LK_POOL {
        lk_tensor *x = lk_ones(LK_SHAPE(ROWS, IN), LK_F32);
        good = lk_item(lk_reduce_sum(lk_add(x, x))) == 2 * ROWS * IN;
        lk_variable *w = lk_variable_of(lk_ones(LK_SHAPE(IN, OUT), LK_F32));
        lk_set_threads(2);
        good = good && !lk_poisoned(lk_call(lk_function_of(step, w), LK_TUPLE(batch(0))).item[0]);
        lk_run(lk_mirrored_strategy(.cpu_devices = 2), doubled, LK_TUPLE(x));
        lk_dataset *d = lk_dataset_map(lk_dataset_range(8, .dtype = LK_F32), doubled, .parallel = 2);
        LK_FOR_EACH(e, lk_dataset_prefetch(d, 2))
            good = good && lk_item(e.item[0]) >= 0;
    }
    return good && !lk_failed() ? 0 : 1;
}

static int use_locks(void)
{
    lk_set_log(quiet, NULL);
    return lki_memory_requests() > 0 && lki_memory_cached() >= 0 ? 0 : 1;
}

static void check_child(pid_t child)
{
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFSIGNALED(status))
        fail_msg("a child ended with signal %d%s", WTERMSIG(status), WTERMSIG(status) == SIGALRM ? ": it hung" : "");
    assert_int_equal(WEXITSTATUS(status), 0);
}

static int forks(void)
{
    const char *text = getenv("LOCKSTEP_TEST_FORKS");
    return text ? atoi(text) : USUAL;
}

static void fork_often(int count)
{
    for (int i = 0; i < count; i++) {
        const pid_t child = fork();
        if (child == 0) {
            for (int s = 1; s < 16; s++)
                signal(s, SIG_DFL);
            alarm(DEADLINE);
            _exit(SANITIZED ? use_locks() : use_everything());
        }
        assert_true(child > 0);
        check_child(child);
    }
}

TEST(children_of_a_busy_program_never_hang)
{
    lk_ones(LK_SHAPE(1), LK_F32);
    for (int b = 0; b < BATCHES; b++) {
        pthread_t t[4];
        __atomic_store_n(&stop, 0, __ATOMIC_RELAXED);
        pthread_create(&t[0], NULL, train, (void *)1);
        pthread_create(&t[1], NULL, train, (void *)2);
        pthread_create(&t[2], NULL, use_ops, NULL);
        pthread_create(&t[3], NULL, read_data, NULL);
        fork_often(forks() / BATCHES);
        __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
        for (int i = 0; i < 4; i++)
            pthread_join(t[i], NULL);
    }
    assert_false(lk_failed());
}

/* ---- what a child inherits ------------------------------------------------------------------------------------------------- */

/* Its state is the letter after its name, which is in brackets. */
static bool sleeps(const char *thread)
{
    char path[300], text[400] = "";
    snprintf(path, sizeof path, "/proc/self/task/%s/stat", thread);
    FILE *f = fopen(path, "r");
    if (!f) return true; /* it has ended */
    text[fread(text, 1, sizeof text - 1, f)] = 0;
    fclose(f);
    const char *name_ends = strrchr(text, ')');
    return !name_ends || name_ends[2] == 'S';
}

static bool others_sleep(void)
{
    DIR *threads = opendir("/proc/self/task");
    int  awake = 0;
    for (struct dirent *d; threads && (d = readdir(threads));)
        awake += isdigit((unsigned char)d->d_name[0]) && !sleeps(d->d_name);
    if (threads) closedir(threads);
    return awake <= 1; /* this one */
}

static int child_of(int (*fn)(void *), void *arg)
{
    while (SANITIZED && !others_sleep())
        sched_yield();
    const pid_t child = fork();
    int         status = 0;
    if (child == 0) {
        for (int s = 1; s < 16; s++)
            signal(s, SIG_DFL);
        alarm(DEADLINE);
        _exit(fn(arg));
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int read_on(void *iterator)
{
    lk_tuple e;
    void    *bytes;
    size_t   size;
    int      told = !lk_next(iterator, &e) && lk_error_code() == LK_ESTATE;
    told += lk_iterator_save(iterator, &bytes, &size) == LK_ESTATE;
    told += lk_iterator_restore(iterator, "", 0) == LK_ESTATE;
    lk_free(iterator);
    return told == 3 ? 0 : 1;
}

static void fork_after(lk_dataset *d, int count)
{
    lk_tuple     e;
    lk_iterator *it = lk_iterator_of(d);
    for (int i = 0; i < count; i++)
        assert_true(lk_next(it, &e));
    assert_int_equal(child_of(read_on, it), 0);
    assert_true(lk_next(it, &e));
    lk_free(it);
}

TEST(threads_of_the_parent_are_an_error_and_no_hang)
{
    LK_POOL {
        lk_dataset *numbers = lk_dataset_range(40, .dtype = LK_F32), *mapped = lk_dataset_map(numbers, doubled, .parallel = 2);
        for (int count = 1; count < 40; count++) {
            fork_after(mapped, count);
            fork_after(lk_dataset_prefetch(numbers, 4), count);
            fork_after(lk_dataset_prefetch(mapped, 4), count);
        }
    }
    assert_false(lk_failed());
}

typedef struct own {
    lk_function *f;
    lk_variable *w;
} own;

static int go_on_training(void *arg)
{
    const own *o = arg;
    LK_STEP
        lk_call(o->f, LK_TUPLE(batch(1)));
    return lk_failed() ? 1 : 0;
}

TEST(a_child_goes_on_with_what_is_at_rest)
{
    lk_runtime *r = lk_runtime_of(.threads = 3);
    LK_POOL
        LK_WITH_RUNTIME(r)
        {
            own o = {.w = lk_variable_of(lk_ones(LK_SHAPE(IN, OUT), LK_F32))};
            o.f = lk_function_of(step, o.w);
            LK_STEP
                lk_call(o.f, LK_TUPLE(batch(0)));
            assert_int_equal(child_of(go_on_training, &o), 0);
            LK_STEP
                lk_call(o.f, LK_TUPLE(batch(1)));
        }
    lk_free(r);
    assert_false(lk_failed());
}

TESTS(cmocka_unit_test(threads_of_the_parent_are_an_error_and_no_hang), cmocka_unit_test(a_child_goes_on_with_what_is_at_rest),
      cmocka_unit_test(children_of_a_busy_program_never_hang))
