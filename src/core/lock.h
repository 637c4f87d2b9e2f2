/* The locks of the library that may be held at any moment, as one list, because fork() needs to know all of them.
 *
 * Invariants
 * 1. No code holds two of them at once, and none is held while a user's function runs.
 * 2. fork() takes all of them first and both processes let them go afterwards, so a child never finds one taken for ever. */
#ifndef LKI_CORE_LOCK_H
#define LKI_CORE_LOCK_H

typedef enum lki_lock { LKI_LOCK_LOG, LKI_LOCK_OBJECTS, LKI_LOCK_READERS, LKI_LOCK_MEMORY, LKI_LOCK_AXES, LKI_LOCK_COUNT } lki_lock;

void lki_lock_take(lki_lock lock);
void lki_lock_give(lki_lock lock);

#endif
