/* Files that readers see complete or not at all, whatever happens while they are written.
 *
 *     lki_durable_begin --write--> WRITING --sync--> SYNCED --publish--> VISIBLE, under its name
 *                                      \______ error, or lki_durable_abandon ____> REMOVED
 *
 * The bytes are written to NAME.<process>.<number>.tmp in the same folder. Each writer has its own such file, so several writers
 * may write one NAME at the same time: the last to publish replaces the others, and readers always see one complete file. The file
 * is locked (flock) until it is published. A file that a crash left is not locked, and the next writer of NAME removes it: the
 * system releases a lock however a process ends, also across containers, where process numbers are not known. On a file system
 * without locks, leftovers stay. Errors are LK_EIO and name the file and the system's reason. */
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
lk_status lki_durable_sync(lki_durable *d);    /* on the disk; no more writes are possible */
lk_status lki_durable_publish(lki_durable *d); /* replaces an existing file of that name */
void      lki_durable_abandon(lki_durable *d); /* frees it; a file that was not published is removed */

/* Publish under another name, unless a file of that name exists: then *taken is set and nothing has changed. The lock is held until
 * `abandon`. */
lk_status lki_durable_publish_new(lki_durable *d, const char *path, bool *taken);

/* Remove a file that no writer holds, if `unneeded` returns true; it is called while no other process can remove or lock the
 * file. */
void lki_remove_unheld(const char *path, bool (*unneeded)(const void *arg), const void *arg);

/* Remove temporary files that crashes left in a folder, for names that begin with `begin`. */
void lki_durable_clean(const char *folder, const char *begin);

/* All of it for a small file: written, synced, published, the folder synced. */
lk_status lki_durable_file(const char *path, const void *data, size_t size);

/* The folder of a file: make it and its parents, durably; make renames in it durable; the same, ignoring errors. */
lk_status lki_folder_make(const char *file);
lk_status lki_folder_sync(const char *file);
void      lki_folder_try_sync(const char *file);

/* The length of the folder part of a path, without its last slash; 0: none, the current folder. "/a" has "/". */
size_t lki_folder_length(const char *path);

/* The first `length` characters of `a`, then `b`; from lki_alloc. */
char *lki_path_join(const char *a, size_t length, const char *b);

#endif
