/* Files that are there as a whole or not at all, whatever happens while they are written.
 *
 *     lki_durable_begin --write--> WRITING --sync--> SYNCED --publish--> VISIBLE, under its name
 *                                      \______ error, or lki_durable_abandon ____> REMOVED
 *
 * The bytes go to NAME.<process>.<number>.tmp beside it, a file of this writer alone, so that several may write one NAME at a time:
 * the last to publish wins, and readers see one or the other as a whole. It is locked (flock) until it is published. What a crash
 * leaves behind is nobody's any more, and the next writer of NAME removes it: a lock is let go by the system however a process
 * ends, and is known where numbers of processes are not, as in other containers. Where a file system has no locks, leftovers stay.
 * Errors are LK_EIO and name the file and the system's reason. */
#ifndef LKI_FORMAT_DURABLE_H
#define LKI_FORMAT_DURABLE_H

#include "format/file.h"

typedef struct lki_durable {
    char    *path, *beside;
    int      descriptor;    /* holds the lock; -1 when closed */
    uint64_t size, started; /* written; given to the disk */
} lki_durable;

#define LKI_DURABLE_NONE ((lki_durable){.descriptor = -1})

lk_status lki_durable_begin(const char *path, lki_durable *d);
lk_status lki_durable_write(lki_durable *d, const void *data, size_t size);
lk_status lki_durable_sync(lki_durable *d);    /* on the disk; nothing can be written any more */
lk_status lki_durable_publish(lki_durable *d); /* in place of what had its name */
void      lki_durable_abandon(lki_durable *d); /* what was not published is removed; frees */

/* Publish under another name, if nobody has that: *taken says so, and nothing has happened then. The lock is held until
 * `abandon`. */
lk_status lki_durable_publish_new(lki_durable *d, const char *path, bool *taken);

/* Remove a file that no writer holds, if `unneeded` says so, which is asked while nobody else can remove it or take it. */
void lki_remove_unheld(const char *path, bool (*unneeded)(const void *arg), const void *arg);

/* Remove the files beside that crashes left in a folder, of names that begin with `begin`. */
void lki_durable_clean(const char *folder, const char *begin);

/* All of it for a small file: written, synced, published, the folder synced. */
lk_status lki_durable_file(const char *path, const void *data, size_t size);

/* The folder a file is in: make it and those above it, to last; make renames in it last; the same where it is no error if that
 * cannot be done. */
lk_status lki_folder_make(const char *file);
lk_status lki_folder_sync(const char *file);
void      lki_folder_try_sync(const char *file);

/* The length of the folder part of a path, without its last slash; 0: none, the current one. "/a" has "/". */
size_t lki_folder_length(const char *path);

/* The first `length` characters of `a`, then `b`; from lki_alloc. */
char *lki_path_join(const char *a, size_t length, const char *b);

#endif
