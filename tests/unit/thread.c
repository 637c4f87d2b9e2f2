/* The barrier under stress (more threads than cores, sleeps at bad moments), teams of several sizes, fork, the floating-point
 * environment. A lost wake-up causes a hang, which the alarm turns into a failure. */
#include "check.h"
#include "core/crew.h"
#include <float.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 16 };

static int limit_time(void **state)
{
    (void)state;
    alarm(60);
    return 0;
}

/* ---- barrier --------------------------------------------------------------------------------------------------------------- */

typedef struct meeting {
    lki_barrier barrier;
    int         rounds;
    int         naps;        /* every n-th round one thread is late, so that the others fall asleep; 0: never */
    int         at[MOST];    /* round each thread is in; plain ints, ordered by the barrier alone */
    int         differences; /* atomic */
} meeting;

static void nap(long nanoseconds) { nanosleep(&(struct timespec){0, nanoseconds}, NULL); }

static void meet(void *arg, int thread)
{
    meeting *m = arg;
    for (int round = 1; round <= m->rounds; round++) {
        if (m->naps && (round + thread) % m->naps == 0) nap(round % 3 * 1000);
        m->at[thread] = round;
        lki_barrier_wait(&m->barrier);
        for (unsigned i = 0; i < m->barrier.size; i++)
            if (m->at[i] != round) __atomic_fetch_add(&m->differences, 1, __ATOMIC_RELAXED);
        lki_barrier_wait(&m->barrier);
    }
}

static void check_meeting(int threads, int rounds, int naps)
{
    meeting m = {.rounds = rounds, .naps = naps};
    lki_barrier_init(&m.barrier, threads);
    assert_int_equal(lki_team_run(threads, meet, &m), LK_OK);
    assert_int_equal(m.differences, 0);
    for (int i = 0; i < threads; i++)
        assert_int_equal(m.at[i], rounds);
}

TEST(two_threads_meet) { check_meeting(2, 20000, 0); }
TEST(one_thread_meets_itself) { check_meeting(1, 1000, 0); }

TEST(more_threads_than_cores_meet)
{
    check_meeting(3, 2000, 0);
    check_meeting(8, 500, 0);
    check_meeting(MOST, 200, 0);
}

TEST(late_comers_find_the_sleepers_woken)
{
    check_meeting(2, 3000, 3);
    check_meeting(5, 500, 7);
}

/* Every patience from none to 64 pauses puts the decision to sleep at another distance from the arrival of the last one. */
TEST(no_wake_up_is_lost)
{
    for (int threads = 2; threads <= 4; threads += 2)
        for (unsigned spins = 0; spins < 64; spins++) {
            meeting m = {.rounds = 150};
            lki_barrier_init(&m.barrier, threads);
            m.barrier.spins = spins;
            lki_team_run(threads, meet, &m);
            assert_int_equal(m.differences, 0);
        }
}

/* ---- teams ----------------------------------------------------------------------------------------------------------------- */

typedef struct roll {
    int       called[MOST];
    pthread_t who[MOST];
} roll;

static void call(void *arg, int thread)
{
    roll *r = arg;
    r->called[thread]++;
    r->who[thread] = pthread_self();
}

static void check_roll(int threads)
{
    roll r = {0};
    for (int run = 1; run <= 50; run++) {
        lki_team_run(threads, call, &r);
        for (int i = 0; i < MOST; i++)
            assert_int_equal(r.called[i], i < threads ? run : 0);
    }
    assert_true(pthread_equal(r.who[0], pthread_self()));
    for (int i = 1; i < threads; i++)
        for (int k = 0; k < i; k++)
            assert_false(pthread_equal(r.who[i], r.who[k]));
}

TEST(teams_of_several_sizes)
{
    for (int i = 0; i < 3; i++) {
        check_roll(5);
        check_roll(2);
        check_roll(1);
    }
}

TEST(impossible_teams_are_refused)
{
    roll r = {0};
    assert_int_equal(lki_team_run(0, call, &r), LK_EINVAL);
    assert_int_equal(lki_team_run(1 << 20, call, &r), LK_EINVAL);
    assert_int_equal(r.called[0], 0);
    lk_clear_error();
}

static void count_runs(void *arg, int thread)
{
    int *counter = arg; /* not atomic: runs take turns, and only thread 0 counts */
    if (thread == 0) ++*counter;
}

static int total;

static void *run_many(void *threads)
{
    for (int i = 0; i < 500; i++)
        lki_team_run((int)(intptr_t)threads, count_runs, &total);
    return NULL;
}

TEST(runs_take_turns)
{
    pthread_t callers[3];
    total = 0;
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&callers[i], NULL, run_many, (void *)2), 0);
    for (int i = 0; i < 3; i++)
        pthread_join(callers[i], NULL);
    assert_int_equal(total, 1500);
}

static void note_cores(void *arg, int thread) { ((int *)arg)[thread] = lki_cores(); }

TEST(all_threads_see_the_same_cores)
{
    int cores[3] = {0};
    lki_team_run(2, note_cores, cores);
    lki_team_run(3, note_cores, cores);
    assert_true(lki_cores() >= 1);
    for (int i = 0; i < 3; i++)
        assert_int_equal(cores[i], lki_cores());
}

#ifdef __linux__
static void note_signals(void *arg, int thread)
{
    sigset_t blocked;
    pthread_sigmask(SIG_SETMASK, NULL, &blocked);
    ((int *)arg)[thread] = sigismember(&blocked, SIGINT);
}

TEST(workers_leave_signals_to_the_program)
{
    int blocked[3] = {0};
    lki_team_run(3, note_signals, blocked);
    assert_int_equal(blocked[0], 0);
    assert_int_equal(blocked[1] & blocked[2], 1);
}
#else
TEST(workers_leave_signals_to_the_program) { skip(); }
#endif

/* ---- fork ------------------------------------------------------------------------------------------------------------------ */

static int child_result(pid_t child)
{
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int run_in_child(int threads)
{
    roll r = {0};
    alarm(20);
    lki_team_run(threads, call, &r);
    for (int i = 0; i < threads; i++)
        if (r.called[i] != 1) return 1;
    return lk_failed() ? 2 : 0;
}

TEST(a_forked_child_makes_its_own_team)
{
    check_roll(3);
    pid_t child = fork();
    if (child == 0) _exit(run_in_child(3));
    assert_int_equal(child_result(child), 0);
    check_roll(3);
}

enum { BLOCK = 100, STARTS, GOES, STOPS };

/* Of the library only: a sanitizer's malloc has locks that fork() does not know. */
static void *keep_allocating(void *at)
{
    int *state = at;
    __atomic_store_n(state, GOES, __ATOMIC_RELEASE);
    while (__atomic_load_n(state, __ATOMIC_RELAXED) != STOPS)
        lki_release(lki_alloc(BLOCK));
    return NULL;
}

/* Two blocks in the library's list: none of the two threads asks the system for one. */
static void keep_two_blocks(void)
{
    void *a = lki_alloc(BLOCK), *b = lki_alloc(BLOCK);
    lki_release(a);
    lki_release(b);
}

TEST(locks_held_elsewhere_do_not_bind_a_child)
{
    int       state = STARTS;
    pthread_t busy;
    keep_two_blocks();
    assert_int_equal(pthread_create(&busy, NULL, keep_allocating, &state), 0);
    while (__atomic_load_n(&state, __ATOMIC_ACQUIRE) == STARTS)
        sched_yield();
    for (int i = 0; i < 50; i++) {
        pid_t child = fork();
        if (child == 0) {
            alarm(20);
            void *mem = lki_alloc(BLOCK);
            lki_release(mem);
            _exit(mem == NULL);
        }
        assert_int_equal(child_result(child), 0);
    }
    __atomic_store_n(&state, STOPS, __ATOMIC_RELAXED);
    pthread_join(busy, NULL);
}

enum { ROUNDS = 3 };

typedef struct post {
    lki_mutex     lock;
    lki_condition told;
    int           waits, round; /* how often a thread began to wait */
} post;

static void *wait_at(void *arg)
{
    post *p = arg;
    lki_mutex_take(&p->lock);
    for (int i = 0; i < ROUNDS; i++) {
        const int now = p->round;
        p->waits++;
        while (p->round == now)
            lki_condition_wait(&p->told, &p->lock);
    }
    lki_mutex_give(&p->lock);
    return NULL;
}

static void wait_until_waits(post *p, int wanted)
{
    for (int now = 0; now < wanted; sched_yield()) {
        lki_mutex_take(&p->lock);
        now = p->waits;
        lki_mutex_give(&p->lock);
    }
}

/* Wake the thread each time it waits, beginning with this one. */
static void wake_it(post *p, pthread_t thread, int waits)
{
    for (int i = 0; i < ROUNDS; i++) {
        wait_until_waits(p, waits + i);
        lki_mutex_take(&p->lock);
        p->round++;
        lki_condition_tell_all(&p->told);
        lki_mutex_give(&p->lock);
    }
    pthread_join(thread, NULL);
}

/* On a stack of the test: the system would give the thread the stack, and so the id, of the one that waits in the parent, and
 * ThreadSanitizer ends a program with two threads of one id. */
static int use_post(post *p)
{
    enum { STACK = 8 << 20 };
    static _Alignas(64) char stack[STACK];
    pthread_attr_t           attr;
    pthread_t                thread;
    alarm(20);
    pthread_attr_init(&attr);
    pthread_attr_setstack(&attr, stack, STACK);
    if (pthread_create(&thread, &attr, wait_at, p)) return 2;
    wake_it(p, thread, 2); /* the first wait is that of the parent's thread */
    lki_condition_destroy(&p->told);
    return p->waits == 1 + ROUNDS ? 0 : 1;
}

TEST(threads_that_wait_in_the_parent_do_not_bind_a_child)
{
    post      p = {0};
    pthread_t thread;
    lki_mutex_init(&p.lock);
    lki_condition_init(&p.told);
    pthread_create(&thread, NULL, wait_at, &p);
    wait_until_waits(&p, 1);
    pid_t child = fork();
    if (child == 0) _exit(use_post(&p));
    const int result = child_result(child);
    wake_it(&p, thread, 1);
    lki_condition_destroy(&p.told);
    lki_mutex_destroy(&p.lock);
    assert_int_equal(result, 0);
}

static void fork_inside(void *arg, int thread)
{
    if (thread == 0) *(pid_t *)arg = fork();
}

TEST(a_child_forked_inside_a_run_gets_out_of_it)
{
    pid_t child = -1;
    lki_team_run(2, fork_inside, &child);
    if (child == 0) _exit(run_in_child(2));
    assert_int_equal(child_result(child), 0);
}

/* ---- floating-point environment -------------------------------------------------------------------------------------------- */

#if defined(__SSE2__)
#include <xmmintrin.h>

static float half_of_smallest(void)
{
    volatile float x = FLT_MIN;
    return x * 0.5f;
}

static void note_halves(void *arg, int thread) { ((float *)arg)[thread] = half_of_smallest(); }

TEST(subnormals_are_flushed_on_all_threads)
{
    float half[3] = {1, 1, 1};
    assert_true(half_of_smallest() > 0);
    lki_team_run(3, note_halves, half);
    assert_true(half[0] == 0 && half[1] == 0 && half[2] == 0);
    assert_true(half_of_smallest() > 0);
    lki_team_run(1, note_halves, half);
    assert_true(half_of_smallest() > 0);
}

TEST(the_callers_environment_comes_back)
{
    unsigned mine = _mm_getcsr(), upward = (mine & ~0x6000u) | 0x4000u;
    _mm_setcsr(upward);
    unsigned outer = lki_fp_enter();
    assert_int_equal(_mm_getcsr() & 0xffc0, 0x9fc0);
    unsigned inner = lki_fp_enter();
    lki_fp_leave(inner);
    assert_int_equal(_mm_getcsr() & 0xffc0, 0x9fc0);
    lki_fp_leave(outer);
    assert_int_equal(_mm_getcsr(), upward);
    _mm_setcsr(mine);
}
#else
TEST(subnormals_are_flushed_on_all_threads) { skip(); }
TEST(the_callers_environment_comes_back) { skip(); }
#endif

#define TIMED(name) cmocka_unit_test_setup(name, limit_time)

TESTS(TIMED(all_threads_see_the_same_cores), TIMED(one_thread_meets_itself), TIMED(two_threads_meet),
      TIMED(more_threads_than_cores_meet), TIMED(late_comers_find_the_sleepers_woken), TIMED(no_wake_up_is_lost),
      TIMED(teams_of_several_sizes), TIMED(impossible_teams_are_refused), TIMED(runs_take_turns),
      TIMED(workers_leave_signals_to_the_program), TIMED(a_forked_child_makes_its_own_team),
      TIMED(locks_held_elsewhere_do_not_bind_a_child), TIMED(threads_that_wait_in_the_parent_do_not_bind_a_child),
      TIMED(a_child_forked_inside_a_run_gets_out_of_it), TIMED(subnormals_are_flushed_on_all_threads),
      TIMED(the_callers_environment_comes_back))
