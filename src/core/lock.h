/* Mutexes, and their state after a threaded program forks.
 *
 * Invariants
 *  1. Every mutex of the library is an lki_mutex and is in one list.
 *  2. A brief mutex (LKI_MUTEX) guards data that all threads share. fork() takes all brief ones first, so that this data is
 *     consistent in the child, and both processes release them afterwards. No thread holds one while a function of the user runs,
 *     or while the library waits for a device or another thread.
 *  3. The others, those of objects (lki_mutex_init) and those that are held for the whole of some work (LKI_TURN), are free in the
 *     child. The child must not use what another thread was working on during the fork.
 *  4. If one mutex is taken while another is held, the one of the later folder of src/ is taken first. */
#ifndef LKI_CORE_LOCK_H
#define LKI_CORE_LOCK_H

#include "core/base.h"
#include <pthread.h>

typedef struct lki_mutex {
    pthread_mutex_t   lock;
    bool              brief;
    struct lki_mutex *previous, *next;
} lki_mutex;

/* A mutex of a file, `static lki_mutex name`. */
#define LKI_MUTEX(name) LKI_MUTEX_OF(name, true)
#define LKI_TURN(name) LKI_MUTEX_OF(name, false)
#define LKI_MUTEX_OF(name, is_brief)                                                                                               \
    static lki_mutex                         name = {.lock = PTHREAD_MUTEX_INITIALIZER, .brief = is_brief};                        \
    __attribute__((constructor)) static void name##_joins(void) { lki_mutex_join(&name); }                                         \
    _Static_assert(sizeof name, "so that it ends in a semicolon")

void lki_mutex_join(lki_mutex *m); /* adds it to the list */

/* A mutex of an object. */
void lki_mutex_init(lki_mutex *m);
void lki_mutex_destroy(lki_mutex *m);

void lki_mutex_take(lki_mutex *m);
void lki_mutex_give(lki_mutex *m);

/* A number that is different in a forked child. It identifies what threads of the parent were part of. */
unsigned lki_process(void);

/* A condition, used with a mutex of an object. Threads that wait, signal or tell all hold the mutex. In a child no thread waits for
 * it: those of the parent do not exist there, and the system's condition, which still counts them, is replaced. */
typedef struct lki_condition {
    pthread_cond_t cond;
    unsigned       process;
} lki_condition;

void lki_condition_init(lki_condition *c);
void lki_condition_destroy(lki_condition *c);
void lki_condition_wait(lki_condition *c, lki_mutex *m);
void lki_condition_signal(lki_condition *c); /* wakes one waiting thread */
void lki_condition_tell_all(lki_condition *c);

#endif
