/* Faults of the system, for tests: the n-th system call that concerns a folder fails, is cut short, or is the last one of the
 * process.
 *
 * Programs that cmake/Programs.cmake names are linked with -Wl,--wrap for the calls in shim.c, so that what the library calls comes
 * here first. Counted are calls whose path, or whose descriptor's path, lies in the armed folder, on whatever thread, and those
 * that talk to the HDF5 helper.
 *
 *     fails        once, or from then on: every one; the error is the caller's choice
 *     is short     a read or write gives half of what was asked for
 *     dies         the process is killed (SIGKILL) before or after it
 *     power cut    killed after it, and what was not synced is lost: contents of files that were written since their last fsync
 *                  are gone, and of the renames and removals since the folder's last fsync only the first few happened */
#ifndef LK_TESTS_FAULT_SHIM_H
#define LK_TESTS_FAULT_SHIM_H

#include <stdbool.h>

typedef enum shim_action { SHIM_COUNT, SHIM_FAIL, SHIM_SHORT, SHIM_DIE_BEFORE, SHIM_DIE_AFTER, SHIM_POWER_CUT } shim_action;

typedef struct shim_fault {
    shim_action action;
    int         at;      /* which call, from 1 */
    int         error;   /* of SHIM_FAIL */
    bool        lasting; /* of SHIM_FAIL: all calls from `at` on that may fail so (ENOSPC: those that need room) */
    int         kept;    /* of SHIM_POWER_CUT: this many renames and removals happened */
} shim_fault;

/* From now on. The folder must not be below another one that matters. */
void shim_arm(const char *folder, shim_fault fault);

/* How many calls were counted. */
int shim_disarm(void);

/* Whether the fault happened; and to which call, as in "rename DIR/file". */
bool        shim_happened(void);
const char *shim_where(void);

/* Whether that call is one that should be made again when a signal interrupts it. */
bool shim_made_again(void);

/* Descriptors that are open in this process. */
int shim_descriptors(void);

#endif
