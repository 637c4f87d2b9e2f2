/* Turns, the list of mutexes and the one handler of fork(); see lock.h for the rules.
 *
 * The thread that forks tries to take the brief mutexes one after the other. If another thread holds one, it releases those it has
 * and tries again a little later. So other threads may take them in any order without a deadlock. */
#include "core/lock.h"
#include "core/thread.h"
#include <sched.h>

static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER; /* held for a moment, and by fork() */
static lki_mutex      *list;
static unsigned        process;

unsigned lki_process(void) { return __atomic_load_n(&process, __ATOMIC_RELAXED); }

/* ---- mutexes --------------------------------------------------------------------------------------------------------------- */

void lki_mutex_join(lki_mutex *m)
{
    pthread_mutex_lock(&list_lock);
    m->previous = NULL;
    m->next = list;
    if (list) list->previous = m;
    list = m;
    pthread_mutex_unlock(&list_lock);
}

void lki_mutex_init(lki_mutex *m)
{
    *m = (lki_mutex){.lock = PTHREAD_MUTEX_INITIALIZER};
    lki_mutex_join(m);
}

void lki_mutex_destroy(lki_mutex *m)
{
    pthread_mutex_lock(&list_lock);
    if (m->next) m->next->previous = m->previous;
    if (m->previous) m->previous->next = m->next;
    else list = m->next;
    pthread_mutex_unlock(&list_lock);
    pthread_mutex_destroy(&m->lock);
}

lki_mutex *lki_mutex_take(lki_mutex *m)
{
    pthread_mutex_lock(&m->lock);
    return m;
}

void lki_mutex_give(lki_mutex *m) { pthread_mutex_unlock(&m->lock); }
void lki_held_give(lki_mutex **m) { lki_mutex_give(*m); }

/* ---- turns ----------------------------------------------------------------------------------------------------------------- */

void lki_turn_take(lki_turn *t)
{
    const unsigned own = lki_process() + 1;
    unsigned       now = 0;
    while (!__atomic_compare_exchange_n(&t->process, &now, own, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
        if (now != own) continue; /* no thread has it, or a thread of the parent had it during the fork */
        lki_wait_while(&t->process, own, &t->sleepers, 0, 0);
        now = 0;
    }
}

void lki_turn_give(lki_turn *t)
{
    __atomic_store_n(&t->process, 0, __ATOMIC_SEQ_CST);
    lki_wake(&t->process, &t->sleepers);
}

/* ---- conditions ------------------------------------------------------------------------------------------------------------ */

void lki_condition_init(lki_condition *c)
{
    c->process = lki_process();
    pthread_cond_init(&c->cond, NULL);
}

void lki_condition_destroy(lki_condition *c)
{
    if (c->process == lki_process()) pthread_cond_destroy(&c->cond);
}

/* With glibc, waking the threads of a condition waits until all that were woken earlier have left. Those of the parent never do. */
static pthread_cond_t *of_this_process(lki_condition *c)
{
    if (c->process != lki_process()) lki_condition_init(c);
    return &c->cond;
}

void lki_condition_wait(lki_condition *c, lki_mutex *m) { pthread_cond_wait(of_this_process(c), &m->lock); }
void lki_condition_signal(lki_condition *c) { pthread_cond_signal(of_this_process(c)); }
void lki_condition_tell_all(lki_condition *c) { pthread_cond_broadcast(of_this_process(c)); }

/* ---- fork ------------------------------------------------------------------------------------------------------------------ */

/* Release those before `end`. */
static void give_brief(const lki_mutex *end)
{
    for (lki_mutex *m = list; m != end; m = m->next)
        if (m->brief) pthread_mutex_unlock(&m->lock);
}

/* With the list's lock held: returns the first mutex that another thread holds, or NULL if this thread now holds all of them. */
static lki_mutex *try_brief(void)
{
    lki_mutex *m = list;
    while (m && (!m->brief || pthread_mutex_trylock(&m->lock) == 0))
        m = m->next;
    if (m) give_brief(m);
    return m;
}

static void before_fork(void)
{
    pthread_mutex_lock(&list_lock);
    while (try_brief()) {
        pthread_mutex_unlock(&list_lock);
        sched_yield();
        pthread_mutex_lock(&list_lock);
    }
}

static void in_parent(void)
{
    give_brief(NULL);
    pthread_mutex_unlock(&list_lock);
}

static void in_child(void)
{
    static const pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;
    __atomic_fetch_add(&process, 1, __ATOMIC_RELAXED);
    for (lki_mutex *m = list; m; m = m->next)
        if (!m->brief) m->lock = fresh;
    in_parent();
}

__attribute__((constructor)) static void watch_fork(void) { pthread_atfork(before_fork, in_parent, in_child); }
