/* Mutexes that survive fork(); see lock.h for the rules. */
#include "core/lock.h"
#include <pthread.h>

#define INIT PTHREAD_MUTEX_INITIALIZER

static pthread_mutex_t locks[LKI_LOCK_COUNT] = {INIT, INIT, INIT, INIT};

void lki_lock_take(lki_lock lock) { pthread_mutex_lock(&locks[lock]); }
void lki_lock_give(lki_lock lock) { pthread_mutex_unlock(&locks[lock]); }

static void take_all(void)
{
    for (int i = 0; i < LKI_LOCK_COUNT; i++)
        pthread_mutex_lock(&locks[i]);
}

static void give_all(void)
{
    for (int i = LKI_LOCK_COUNT; i-- > 0;)
        pthread_mutex_unlock(&locks[i]);
}

__attribute__((constructor)) static void watch_fork(void) { pthread_atfork(take_all, give_all, give_all); }
