/* Checkpoint managers (manager.c): what tests need. */
#ifndef LKI_MODEL_MANAGER_H
#define LKI_MODEL_MANAGER_H

/* Seconds since 1970; tests replace it with their own clock. */
extern double (*lki_manager_clock)(void);

#endif
