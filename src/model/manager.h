/* Checkpoint managers (manager.c): what tests need to know. */
#ifndef LKI_MODEL_MANAGER_H
#define LKI_MODEL_MANAGER_H

/* Seconds since 1970; tests put a clock of their own in its place. */
extern double (*lki_manager_clock)(void);

#endif
