/* A member whose copying stands still: the others wait for it, so that they may free their buffers afterwards, but hold no lock
 * meanwhile (core/lock.h). Its copying stands because it writes to a page that may be written only when the test says so. If the
 * test itself has to wait for that copying, nothing continues, and an alarm ends the program. */
#include "sides.h"
#include <signal.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { TOO_LONG = 30 /* seconds */ };

static char  *page;
static size_t page_bytes;
static bool   stands, may_go; /* atomic */

static void moment(void) { nanosleep(&(struct timespec){.tv_nsec = 1000 * 1000}, NULL); }

static void wait_for(const bool *flag)
{
    while (!__atomic_load_n(flag, __ATOMIC_ACQUIRE))
        moment();
}

static void stand(int signal_number, siginfo_t *info, void *context)
{
    (void)signal_number, (void)context;
    if ((char *)info->si_addr < page || (char *)info->si_addr >= page + page_bytes) _exit(3);
    __atomic_store_n(&stands, true, __ATOMIC_RELEASE);
    wait_for(&may_go);
    mprotect(page, page_bytes, PROT_READ | PROT_WRITE);
}

static void make_page(void)
{
    page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    page = mmap(NULL, page_bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(page != MAP_FAILED);
}

static void opens(one_side *s)
{
    s->comm = open_side(s);
    WANT(s, s->comm != NULL);
}

/* ---- threads ---- */

typedef struct task {
    one_side *side;
    void (*body)(struct task *);
    char         src[4], all[12];
    const void  *from;
    void        *to;
    lki_transfer t;
    lk_status    status;
    bool         returned; /* atomic */
    pthread_t    id;
} task;

static void *task_main(void *arg)
{
    task *t = arg;
    t->body(t);
    lk_clear_error();
    __atomic_store_n(&t->returned, true, __ATOMIC_RELEASE);
    return NULL;
}

static void start(task *t, void body(task *))
{
    t->body = body;
    assert_int_equal(pthread_create(&t->id, NULL, task_main, t), 0);
}

static void post(task *t)
{
    t->from = t->src;
    if (!t->to) t->to = t->all;
    t->t = (lki_transfer){.kind = LKI_CARRY_GATHER, .bytes = sizeof t->src, .src = &t->from, .dst = &t->to};
    t->status = lki_comm_exchange(t->side->comm, 1, &t->t, true);
}

static void wait_for_others(task *t) { t->status = lki_comm_wait(t->side->comm); }
static void give_up(task *t) { lki_comm_abort(t->side->comm); }

/* ---- the test ---- */

TEST(members_wait_for_a_copy_without_a_lock)
{
    static const int one_each[] = {1, 1, 1, 0};
    struct sigaction before[2], action = {.sa_sigaction = stand, .sa_flags = SA_SIGINFO};
    one_side         s[3];
    task             t[3] = {{.side = &s[0]}, {.side = &s[1]}, {.side = &s[2]}};
    alarm(TOO_LONG);
    make_page();
    sigaction(SIGSEGV, &action, &before[0]);
    sigaction(SIGBUS, &action, &before[1]);
    make_sides(s, one_each, (one_side){.body = opens});
    run_sides(3, s);

    t[1].to = page;
    post(&t[0]);
    post(&t[2]);
    start(&t[1], post);
    wait_for(&stands);
    start(&t[0], wait_for_others);
    start(&t[2], give_up);
    for (int i = 0; i < 100; i++)
        moment();
    lki_comm_gave(s[0].comm);
    lki_comm_gave(s[2].comm);
    assert_false(__atomic_load_n(&t[0].returned, __ATOMIC_ACQUIRE)); /* member 1 reads their buffers */
    assert_false(__atomic_load_n(&t[2].returned, __ATOMIC_ACQUIRE));
    __atomic_store_n(&may_go, true, __ATOMIC_RELEASE);

    for (int i = 0; i < 3; i++)
        pthread_join(t[i].id, NULL);
    for (int i = 0; i < 3; i++) {
        assert_int_not_equal(lki_comm_exchange(s[i].comm, 1, &t[i].t, true), LK_OK);
        lk_clear_error();
        lki_comm_drop(s[i].comm);
    }
    sigaction(SIGSEGV, &before[0], NULL);
    sigaction(SIGBUS, &before[1], NULL);
    munmap(page, page_bytes);
    alarm(0);
}

TESTS(cmocka_unit_test(members_wait_for_a_copy_without_a_lock))
