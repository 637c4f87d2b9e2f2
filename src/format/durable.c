/* Writing files under a temporary name, syncing and renaming them (durable.h). */
#define _GNU_SOURCE /* sync_file_range */
#include "format/durable.h"
#include "core/memory.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CHUNK = 32 << 20, AHEAD = 32 << 20, TRIES = 100 }; /* one write accepts at most 2 GiB on any system */

static lk_status failed(const char *path, const char *what)
{
    return lki_fail(LK_EIO, "%s: cannot %s it: %s", path, what, strerror(errno));
}

char *lki_path_join(const char *a, size_t length, const char *b)
{
    const size_t n = strlen(b);
    char        *text = lki_alloc(length + n + 1);
    if (!text) return NULL;
    memcpy(text, a, length);
    memcpy(text + length, b, n + 1);
    return text;
}

/* ---- files beside it --------------------------------------------------------------------------------------------------------- */

/* The length of NAME in NAME.<digits>.<digits>.tmp; 0 for other names. */
static size_t beside_of(const char *candidate)
{
    size_t n = strlen(candidate);
    if (n < 4 || strcmp(candidate + (n -= 4), ".tmp") != 0) return 0;
    for (int part = 0; part < 2; part++) {
        const size_t end = n;
        while (n && candidate[n - 1] >= '0' && candidate[n - 1] <= '9')
            n--;
        if (n == end || n == 0 || candidate[--n] != '.') return 0;
    }
    return n;
}

static bool is_beside(const char *candidate, const char *name, size_t length)
{
    return beside_of(candidate) == length && strncmp(candidate, name, length) == 0;
}

/* True if the name in the folder still belongs to the open file. */
static bool is_named(int descriptor, int folder, const char *name)
{
    struct stat a, b;
    return fstat(descriptor, &a) == 0 && fstatat(folder, name, &b, AT_SYMLINK_NOFOLLOW) == 0 && a.st_dev == b.st_dev &&
           a.st_ino == b.st_ino;
}

/* A file that can be locked has no writer any more. A process that has made one but not locked it yet notices the removal
 * (make_locked). */
static void remove_leftover(int folder, const char *name)
{
    const int descriptor = lki_openat(folder, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK);
    if (descriptor < 0) return;
    if (flock(descriptor, LOCK_EX | LOCK_NB) == 0 && is_named(descriptor, folder, name)) unlinkat(folder, name, 0);
    close(descriptor);
}

/* Never an error: if a folder cannot be read, its files stay. */
static void remove_leftovers(const char *path)
{
    const size_t length = lki_folder_length(path);
    const char  *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    char        *folder LKI_RELEASED = lki_path_join(length ? path : ".", length ? length : 1, "");
    DIR         *d = folder ? opendir(folder) : NULL;
    for (const struct dirent *e; d && (e = readdir(d));)
        if (is_beside(e->d_name, name, strlen(name))) remove_leftover(dirfd(d), e->d_name);
    if (d) closedir(d);
}

void lki_remove_unheld(const char *path, bool (*unneeded)(const void *arg), const void *arg)
{
    const int descriptor = lki_open(path, O_RDWR | O_NOFOLLOW | O_NONBLOCK);
    if (descriptor < 0) return;
    if (flock(descriptor, LOCK_EX | LOCK_NB) == 0 && is_named(descriptor, AT_FDCWD, path) && unneeded(arg)) unlink(path);
    close(descriptor);
}

void lki_durable_clean(const char *folder, const char *begin)
{
    const size_t n = strlen(begin);
    DIR         *d = opendir(folder);
    for (const struct dirent *e; d && (e = readdir(d));)
        if (beside_of(e->d_name) >= n && strncmp(e->d_name, begin, n) == 0 && beside_of(e->d_name))
            remove_leftover(dirfd(d), e->d_name);
    if (d) closedir(d);
}

/* A new file, locked; its descriptor, or -1 and errno. EAGAIN: another process has removed it as a leftover in the meantime. */
static int make_locked(const char *path)
{
    const int descriptor = lki_open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW);
    if (descriptor < 0) return -1;
    const bool locked = flock(descriptor, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK; /* or the file system has no locks */
    if (locked && is_named(descriptor, AT_FDCWD, path)) return descriptor;
    close(descriptor);
    unlink(path);
    errno = EAGAIN;
    return -1;
}

static lk_status make_beside(lki_durable *d)
{
    static unsigned number;
    for (int tries = 0; tries < TRIES; tries++) {
        char end[64];
        snprintf(end, sizeof end, ".%ld.%u.tmp", (long)getpid(), __atomic_fetch_add(&number, 1, __ATOMIC_RELAXED));
        lki_release(d->beside);
        d->beside = lki_path_join(d->path, strlen(d->path), end);
        if (!d->beside) return LK_ENOMEM;
        d->descriptor = make_locked(d->beside);
        if (d->descriptor >= 0) return LK_OK;
        if (errno != EEXIST && errno != EAGAIN) break;
    }
    failed(d->path, "write");
    lki_release(d->beside); /* not ours: nothing to remove */
    d->beside = NULL;
    return LK_EIO;
}

/* ---- one file ---------------------------------------------------------------------------------------------------------------- */

lk_status lki_durable_begin(const char *path, lki_durable *d)
{
    *d = LKI_DURABLE_NONE;
    d->path = lki_strdup(path);
    lk_status status = d->path ? LK_OK : LK_ENOMEM;
    if (status == LK_OK) remove_leftovers(path);
    if (status == LK_OK) status = make_beside(d);
    if (status != LK_OK) lki_durable_abandon(d);
    return status;
}

/* Start writing to disk early: less is left to wait for at the end. */
static void start_writing(lki_durable *d)
{
#if defined(__linux__)
    if (d->size - d->started < AHEAD) return;
    sync_file_range(d->descriptor, (off_t)d->started, (off_t)(d->size - d->started), SYNC_FILE_RANGE_WRITE);
    d->started = d->size;
#else
    (void)d;
#endif
}

lk_status lki_durable_write(lki_durable *d, const void *data, size_t size)
{
    const uint8_t *p = data;
    while (size) {
        const ssize_t n = write(d->descriptor, p, size < CHUNK ? size : CHUNK);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return failed(d->path, "write");
        p += n;
        size -= (size_t)n;
        d->size += (size_t)n;
        start_writing(d);
    }
    return LK_OK;
}

lk_status lki_durable_sync(lki_durable *d) { return lki_fsync(d->descriptor) == 0 ? LK_OK : failed(d->path, "write"); }

lk_status lki_durable_publish(lki_durable *d)
{
    if (rename(d->beside, d->path) != 0) return failed(d->path, "rename a file to");
    lki_release(d->beside);
    d->beside = NULL;
    close(d->descriptor); /* this releases the lock; the contents were synced before */
    d->descriptor = -1;
    return LK_OK;
}

/* The name is first taken by an empty file: making that fails for all but one process. */
lk_status lki_durable_publish_new(lki_durable *d, const char *path, bool *taken)
{
    char *copy LKI_RELEASED = lki_strdup(path);
    if (!copy) return LK_ENOMEM;
    const int held = make_locked(path);
    *taken = held < 0 && (errno == EEXIST || errno == EAGAIN);
    lk_status status = held < 0 && !*taken ? failed(path, "write") : LK_OK;
    if (held >= 0 && rename(d->beside, path) != 0) {
        status = failed(path, "rename a file to");
        unlink(path);
    }
    if (held >= 0) close(held);
    if (status == LK_OK && !*taken) {
        lki_release(d->path);
        lki_release(d->beside);
        d->path = copy;
        d->beside = copy = NULL;
    }
    return status;
}

void lki_durable_abandon(lki_durable *d)
{
    if (d->beside && d->path) unlink(d->beside);
    if (d->descriptor >= 0) close(d->descriptor);
    lki_release(d->beside);
    lki_release(d->path);
    *d = LKI_DURABLE_NONE;
}

lk_status lki_durable_file(const char *path, const void *data, size_t size)
{
    lki_durable d;
    LKI_TRY(lki_durable_begin(path, &d));
    lk_status status = lki_durable_write(&d, data, size);
    if (status == LK_OK) status = lki_durable_sync(&d);
    if (status == LK_OK) status = lki_durable_publish(&d);
    lki_durable_abandon(&d);
    return status == LK_OK ? lki_folder_sync(path) : status;
}

/* ---- folders ---------------------------------------------------------------------------------------------------------------- */

size_t lki_folder_length(const char *path)
{
    const char *slash = strrchr(path, '/');
    return !slash ? 0 : slash == path ? 1 : (size_t)(slash - path);
}

static bool is_folder(const char *path)
{
    struct stat s;
    return stat(path, &s) == 0 && S_ISDIR(s.st_mode);
}

/* Some file systems cannot sync a folder (EINVAL): their renames are as durable as they can be. 0, or errno. */
static int sync_folder_of(const char *file)
{
    const size_t length = lki_folder_length(file);
    char        *folder LKI_RELEASED = lki_path_join(length ? file : ".", length ? length : 1, "");
    if (!folder) return ENOMEM;
    const int descriptor = lki_open(folder, O_RDONLY | O_DIRECTORY);
    const int cause = descriptor >= 0 && (lki_fsync(descriptor) == 0 || errno == EINVAL) ? 0 : errno;
    if (descriptor >= 0) close(descriptor);
    return cause;
}

/* The folder was made: make its name durable in its parent folder. */
static bool make_one(const char *folder)
{
    if (mkdir(folder, 0777) != 0) return is_folder(folder);
    sync_folder_of(folder); /* errors are ignored: the parent folder may not be readable */
    return true;
}

lk_status lki_folder_make(const char *file)
{
    char *folder LKI_RELEASED = lki_path_join(file, lki_folder_length(file), "");
    if (!folder) return LK_ENOMEM;
    lk_status status = LK_OK;
    for (char *p = folder; *p && status == LK_OK; p++) { /* for every part of the path */
        const char next = p[1];
        if (*p == '/' || (next != '/' && next != 0)) continue;
        p[1] = 0;
        if (!make_one(folder)) status = failed(folder, "make a folder of");
        p[1] = next;
    }
    return status;
}

lk_status lki_folder_sync(const char *file)
{
    const size_t length = lki_folder_length(file);
    const int    cause = sync_folder_of(file);
    if (!cause) return LK_OK;
    if (cause == ENOMEM) return LK_ENOMEM;
    return lki_fail(LK_EIO, "%.*s: cannot sync it: %s", length ? (int)length : 1, length ? file : ".", strerror(cause));
}

void lki_folder_try_sync(const char *file) { sync_folder_of(file); }
