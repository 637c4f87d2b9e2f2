/* Mutexes and turns, and their state after a threaded program forks.
 *
 *     mutex    guards data. A thread holds it for as long as it reads or writes that data
 *     turn     lets one thread at a time do some work. The threads that need the result wait for all of that work
 *
 * Invariants
 *  1. Every mutex of the library is an lki_mutex and is in one list, except list_lock of lock.c, which guards this list. The
 *     backends of GPUs are shared objects that cannot use the list. Their mutexes (std::mutex) guard the state of one card or a
 *     table, and a call of the driver may wait for the card while one is held. Threads that use no GPU never take one. After a
 *     fork() a child must not use a GPU that its parent has opened: CUDA does not allow it, and another thread may have held such
 *     a mutex.
 *  2. No thread holds an lki_mutex while a function of the user runs, or while it waits for a device or another thread. If work
 *     includes such a wait, and only one thread at a time may do this work, it has a turn. Submitting work to a device is not a
 *     wait.
 *  3. A brief mutex (LKI_MUTEX) guards data that all threads share. fork() takes all brief mutexes before it forks, so that this
 *     data is consistent in the child, and both processes release them afterwards.
 *  4. The mutexes of objects (lki_mutex_init) and all turns are free in the child. The child must not use what another thread was
 *     working on during the fork.
 *  5. A thread that takes two mutexes takes first the one whose folder comes later in the order of the folders of src/. No thread
 *     takes a turn while it holds a mutex. */
#ifndef LKI_CORE_LOCK_H
#define LKI_CORE_LOCK_H

#include "core/base.h"
#include <pthread.h>

typedef struct lki_mutex {
    pthread_mutex_t   lock;
    bool              brief;
    struct lki_mutex *previous, *next;
} lki_mutex;

/* Defines a brief mutex of a file, `static lki_mutex name`. */
#define LKI_MUTEX(name)                                                                                                            \
    static lki_mutex                         name = {.lock = PTHREAD_MUTEX_INITIALIZER, .brief = true};                            \
    __attribute__((constructor)) static void name##_joins(void) { lki_mutex_join(&name); }                                         \
    _Static_assert(sizeof name, "so that it ends in a semicolon")

void lki_mutex_join(lki_mutex *m); /* adds it to the list */

/* For a mutex that is a member of an object. */
void lki_mutex_init(lki_mutex *m);
void lki_mutex_destroy(lki_mutex *m);

lki_mutex *lki_mutex_take(lki_mutex *m); /* returns m */
void       lki_mutex_give(lki_mutex *m);

/* Takes the mutex, and gives it at the end of the block. */
#define LKI_HOLD(m) __attribute__((cleanup(lki_held_give), unused)) lki_mutex *held_ = lki_mutex_take(m)
void lki_held_give(lki_mutex **m);

/* A turn. When it is zeroed, no thread has it. */
typedef struct lki_turn {
    unsigned process;  /* atomic: lki_process() + 1 of the process whose thread has the turn; 0: no thread has it */
    unsigned sleepers; /* atomic: threads that sleep until the turn is given */
} lki_turn;

void lki_turn_take(lki_turn *t);
void lki_turn_give(lki_turn *t);

/* Returns a number that is different in a forked child. If an object stores the number of another process, it was used by threads
 * that do not exist in this process. */
unsigned lki_process(void);

/* A condition, used with a mutex of an object. A thread that waits, signals or tells all must hold the mutex. Threads of the parent
 * that were waiting do not exist in a forked child. The system's condition still counts them, so the child replaces it. */
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
