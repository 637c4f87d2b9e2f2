/* The files of backups in their folder: DIR/backup-<n>.index and DIR/backup-<n>.data-00000-of-00001, n counting up. Nothing else in
 * the folder is touched. */
#ifndef LKI_FIT_BACKUP_FILES_H
#define LKI_FIT_BACKUP_FILES_H

#include "core/error.h"

/* "DIR/backup-<n>", from lki_alloc. */
char *lki_backup_prefix(const char *folder, int64_t number);

/* Those that have an index, the newest first; what was begun and not finished, by a process that is no more, is removed. A folder
 * that is not there has none. */
typedef struct lki_backup_list {
    int      count, room;
    int64_t *number; /* from lki_alloc */
} lki_backup_list;
lk_status lki_backup_list_of(const char *folder, lki_backup_list *out);

/* Lock a folder for this run, until it is unlocked or the process ends. One that is not there is made, or, without `make`, not
 * locked: -1. LK_ESTATE: another run has it, and for two seconds. Where a file system has no locks, it counts as locked. */
lk_status lki_backup_lock(const char *folder, bool make, int *lock);
void      lki_backup_unlock(int *lock); /* and -1 */

/* At best: what cannot be removed stays. */
void lki_backup_remove(const char *folder, int64_t number);
void lki_backup_prune(const char *folder, int64_t keep, int64_t and_keep); /* all but these two */
void lki_backup_remove_folder(const char *folder);                         /* where nothing is left in it */

#endif
