/* The files of backups in their folder: DIR/backup-<n>.index and DIR/backup-<n>.data-00000-of-00001, n counting up. Nothing else in
 * the folder is touched. */
#ifndef LKI_FIT_BACKUP_FILES_H
#define LKI_FIT_BACKUP_FILES_H

#include "core/error.h"

/* "DIR/backup-<n>", from lki_alloc. */
char *lki_backup_prefix(const char *folder, int64_t number);

/* List the backups that have an index, the newest first. Unfinished files of processes that have ended are removed. A missing
 * folder has no backups. */
typedef struct lki_backup_list {
    int      count, room;
    int64_t *number; /* from lki_alloc */
} lki_backup_list;
lk_status lki_backup_list_of(const char *folder, lki_backup_list *out);

/* Lock a folder for this run, until it is unlocked or the process ends. A missing folder is made with `make`; without it, *lock is
 * -1. LK_ESTATE: another run held the lock for two seconds. If the file system has no locks, the folder counts as locked. */
lk_status lki_backup_lock(const char *folder, bool make, int *lock);
void      lki_backup_unlock(int *lock); /* and set it to -1 */

/* Best effort: files that cannot be removed stay. */
void lki_backup_remove(const char *folder, int64_t number);
void lki_backup_prune(const char *folder, int64_t keep, int64_t and_keep); /* remove all but these two */
void lki_backup_remove_folder(const char *folder);                         /* if it is empty */

#endif
