/* Faults of the system (shim.h). */
#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE 1
#endif
#include "shim.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

enum { MOST_DESCRIPTORS = 1024, MOST_PATH = 512, MOST_FILES = 64, MOST_CHANGES = 64 };

int     __real_open(const char *path, int flags, ...);
int     __real_openat(int folder, const char *path, int flags, ...);
DIR    *__real_opendir(const char *path);
int     __real_closedir(DIR *d);
int     __real_close(int d);
ssize_t __real_read(int d, void *to, size_t size);
ssize_t __real_pread(int d, void *to, size_t size, off_t at);
ssize_t __real_write(int d, const void *from, size_t size);
ssize_t __real_pwrite(int d, const void *from, size_t size, off_t at);
int     __real_fsync(int d);
int     __real_fdatasync(int d);
int     __real_ftruncate(int d, off_t size);
int     __real_flock(int d, int how);
int     __real_rename(const char *from, const char *to);
int     __real_unlink(const char *path);
int     __real_unlinkat(int folder, const char *path, int flags);
int     __real_mkdir(const char *path, mode_t mode);
int     __real_rmdir(const char *path);
int     __real_socketpair(int domain, int type, int protocol, int pair[2]);
ssize_t __real_send(int d, const void *from, size_t size, int flags);
ssize_t __real_recv(int d, void *to, size_t size, int flags);
int     __real_poll(struct pollfd *p, nfds_t count, int timeout);
int     __real_posix_spawn(pid_t *process, const char *path, const posix_spawn_file_actions_t *actions,
                           const posix_spawnattr_t *attributes, char *const argv[], char *const envp[]);

typedef struct written { /* a file and whether all of it is on the disk */
    char path[MOST_PATH];
    bool unsynced;
} written;

typedef struct change {                                    /* of the folder, and how to undo it */
    char from[MOST_PATH], to[MOST_PATH], saved[MOST_PATH]; /* from empty: a removal of `to`; saved empty: there was no `to` */
} change;

static struct {
    pthread_mutex_t lock;
    bool            armed, happened;
    int             calls;
    shim_fault      fault;
    char            folder[MOST_PATH], undo[MOST_PATH], where[MOST_PATH + 64];
    char            path[MOST_DESCRIPTORS][MOST_PATH]; /* of descriptors of the folder; empty: another's */
    written         file[MOST_FILES];
    change          change[MOST_CHANGES];
    int             files, changes;
} shim = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- what is counted --------------------------------------------------------------------------------------------------------- */

static bool below(const char *path)
{
    const size_t n = strlen(shim.folder);
    return shim.armed && path && !strncmp(path, shim.folder, n) && (path[n] == '/' || !path[n]);
}

static const char *path_of(int d) { return d >= 0 && d < MOST_DESCRIPTORS ? shim.path[d] : ""; }

static void note_descriptor(int d, const char *folder, const char *path)
{
    if (d >= 0 && d < MOST_DESCRIPTORS && path)
        snprintf(shim.path[d], MOST_PATH, "%.250s%s%.250s", folder, *folder ? "/" : "", path);
}

static void forget_descriptor(int d)
{
    if (d >= 0 && d < MOST_DESCRIPTORS) shim.path[d][0] = 0;
}

/* ---- power cuts -------------------------------------------------------------------------------------------------------------- */

static void mark(const char *path, bool unsynced)
{
    int i = 0;
    while (i < shim.files && strcmp(shim.file[i].path, path))
        i++;
    if (i == shim.files && shim.files < MOST_FILES) snprintf(shim.file[shim.files++].path, MOST_PATH, "%s", path);
    if (i < MOST_FILES) shim.file[i].unsynced = unsynced;
}

static bool is_folder(const char *path)
{
    struct stat s;
    return stat(path, &s) == 0 && S_ISDIR(s.st_mode);
}

/* Keep what is at `to`, which is about to go. */
static void note_change(const char *from, const char *to)
{
    if (shim.fault.action != SHIM_POWER_CUT || shim.changes == MOST_CHANGES) return;
    change *c = &shim.change[shim.changes];
    snprintf(c->from, MOST_PATH, "%s", from);
    snprintf(c->to, MOST_PATH, "%s", to);
    snprintf(c->saved, MOST_PATH, "%.400s/%d", shim.undo, shim.changes++);
    __real_unlink(c->saved);
    if (link(to, c->saved) != 0) c->saved[0] = 0;
}

static void renamed(const char *from, const char *to)
{
    for (int i = 0; i < shim.files; i++)
        if (!strcmp(shim.file[i].path, to)) shim.file[i].path[0] = 0;
    for (int i = 0; i < shim.files; i++)
        if (!strcmp(shim.file[i].path, from)) snprintf(shim.file[i].path, MOST_PATH, "%s", to);
    for (int d = 0; d < MOST_DESCRIPTORS; d++)
        if (!strcmp(shim.path[d], from)) snprintf(shim.path[d], MOST_PATH, "%s", to);
}

static void synced(const char *path)
{
    if (is_folder(path)) shim.changes = 0; /* one folder at a time is enough here */
    else mark(path, false);
}

static void cut_power(void)
{
    for (int i = 0; i < shim.files; i++)
        if (shim.file[i].unsynced && shim.file[i].path[0] && truncate(shim.file[i].path, 0) != 0) shim.file[i].unsynced = false;
    while (shim.changes > shim.fault.kept) {
        const change *c = &shim.change[--shim.changes];
        if (c->from[0] && __real_rename(c->to, c->from) != 0) continue;
        if (c->saved[0] && link(c->saved, c->to) != 0) continue;
    }
}

/* ---- the fault --------------------------------------------------------------------------------------------------------------- */

static void die(void)
{
    kill(getpid(), SIGKILL);
    for (;;)
        pause();
}

typedef struct call {
    const char *name;
    bool        needs_room, has_size;
    bool        mine; /* counted */
    bool        after;
} call;

static bool fails_here(const call *c)
{
    if (shim.fault.action != SHIM_FAIL || shim.calls < shim.fault.at) return false;
    if (shim.calls == shim.fault.at) return true;
    return shim.fault.lasting && (shim.fault.error != ENOSPC || c->needs_room);
}

/* Count the call; true: it fails, errno is set. *size is halved for a short one. Takes the lock, which end() gives back. */
static bool begin(call *c, const char *path, size_t *size)
{
    pthread_mutex_lock(&shim.lock);
    c->mine = shim.armed && (!path || below(path));
    if (!c->mine) return false;
    shim.calls++;
    const bool here = shim.calls == shim.fault.at, fails = fails_here(c);
    if (here || (fails && !shim.happened)) snprintf(shim.where, sizeof shim.where, "%s %s", c->name, path ? path : "");
    if (fails) {
        shim.happened = true;
        errno = shim.fault.error;
        return true;
    }
    if (!here) return false;
    if (shim.fault.action == SHIM_SHORT && c->has_size && *size > 1) {
        shim.happened = true;
        *size /= 2;
    }
    if (shim.fault.action == SHIM_SHORT && !shim.happened) shim.fault.at++; /* the next one that can be */
    if (shim.fault.action == SHIM_DIE_BEFORE) die();
    c->after = shim.fault.action == SHIM_DIE_AFTER || shim.fault.action == SHIM_POWER_CUT;
    return false;
}

static void end(const call *c)
{
    if (c->after) {
        if (shim.fault.action == SHIM_POWER_CUT) cut_power();
        die();
    }
    const int kept = errno;
    pthread_mutex_unlock(&shim.lock);
    errno = kept;
}

/* A call that has a path or a descriptor, and gives an int or a size. */
#define CALL(path, size_, result, failed, real, ...)                                                                               \
    size_t     size_of_it = size_;                                                                                                 \
    call       c = {.name = __VA_ARGS__};                                                                                          \
    const bool bad = begin(&c, path, &size_of_it);                                                                                 \
    result = bad ? (failed) : (real);                                                                                              \
    (void)size_of_it

/* ---- calls ------------------------------------------------------------------------------------------------------------------- */

int __wrap_open(const char *path, int flags, ...)
{
    va_list list;
    va_start(list, flags);
    const mode_t mode = flags & O_CREAT ? va_arg(list, mode_t) : 0;
    va_end(list);
    CALL(path, 0, const int d, -1, __real_open(path, flags, mode), "open", .needs_room = flags & O_CREAT);
    if (c.mine) note_descriptor(d, "", path);
    end(&c);
    return d;
}

int __wrap_openat(int folder, const char *path, int flags, ...)
{
    va_list list;
    va_start(list, flags);
    const mode_t mode = flags & O_CREAT ? va_arg(list, mode_t) : 0;
    va_end(list);
    CALL(path_of(folder), 0, const int d, -1, __real_openat(folder, path, flags, mode), "openat", .needs_room = flags & O_CREAT);
    if (c.mine) note_descriptor(d, path_of(folder), path);
    end(&c);
    return d;
}

DIR *__wrap_opendir(const char *path)
{
    CALL(path, 0, DIR * d, NULL, __real_opendir(path), "opendir");
    if (c.mine && d) note_descriptor(dirfd(d), "", path);
    end(&c);
    return d;
}

int __wrap_closedir(DIR *d)
{
    pthread_mutex_lock(&shim.lock);
    forget_descriptor(dirfd(d));
    pthread_mutex_unlock(&shim.lock);
    return __real_closedir(d);
}

/* A close that fails has closed all the same, as in Linux. */
int __wrap_close(int d)
{
    size_t     none = 0;
    call       c = {.name = "close"};
    const bool bad = begin(&c, path_of(d), &none);
    const int  cause = errno, result = __real_close(d);
    forget_descriptor(d);
    if (bad) errno = cause;
    end(&c);
    return bad ? -1 : result;
}

ssize_t __wrap_read(int d, void *to, size_t size)
{
    CALL(path_of(d), size, const ssize_t n, -1, __real_read(d, to, size_of_it), "read", .has_size = true);
    end(&c);
    return n;
}

ssize_t __wrap_pread(int d, void *to, size_t size, off_t at)
{
    CALL(path_of(d), size, const ssize_t n, -1, __real_pread(d, to, size_of_it, at), "pread", .has_size = true);
    end(&c);
    return n;
}

ssize_t __wrap_write(int d, const void *from, size_t size)
{
    CALL(path_of(d), size, const ssize_t n, -1, __real_write(d, from, size_of_it), "write", .has_size = true, .needs_room = true);
    if (c.mine && n > 0) mark(path_of(d), true);
    end(&c);
    return n;
}

ssize_t __wrap_pwrite(int d, const void *from, size_t size, off_t at)
{
    CALL(path_of(d), size, const ssize_t n, -1, __real_pwrite(d, from, size_of_it, at), "pwrite", .has_size = true,
         .needs_room = true);
    if (c.mine && n > 0) mark(path_of(d), true);
    end(&c);
    return n;
}

int __wrap_fsync(int d)
{
    CALL(path_of(d), 0, const int result, -1, __real_fsync(d), "fsync", .needs_room = true);
    if (c.mine && result == 0) synced(path_of(d));
    end(&c);
    return result;
}

int __wrap_fdatasync(int d)
{
    CALL(path_of(d), 0, const int result, -1, __real_fdatasync(d), "fdatasync", .needs_room = true);
    if (c.mine && result == 0) synced(path_of(d));
    end(&c);
    return result;
}

int __wrap_ftruncate(int d, off_t size)
{
    CALL(path_of(d), 0, const int result, -1, __real_ftruncate(d, size), "ftruncate", .needs_room = true);
    end(&c);
    return result;
}

int __wrap_flock(int d, int how)
{
    CALL(path_of(d), 0, const int result, -1, __real_flock(d, how), "flock");
    end(&c);
    return result;
}

int __wrap_rename(const char *from, const char *to)
{
    size_t     none = 0;
    call       c = {.name = "rename", .needs_room = true};
    const bool bad = begin(&c, to, &none);
    if (c.mine && !bad) note_change(from, to);
    const int result = bad ? -1 : __real_rename(from, to);
    if (c.mine && result == 0) renamed(from, to);
    end(&c);
    return result;
}

static int remove_at(call *c, const char *path, int folder, const char *name, int flags)
{
    size_t     none = 0;
    const bool bad = begin(c, path, &none);
    if (c->mine && !bad) note_change("", path);
    const int result = bad ? -1 : __real_unlinkat(folder, name, flags);
    end(c);
    return result;
}

int __wrap_unlink(const char *path) { return remove_at(&(call){.name = "unlink"}, path, AT_FDCWD, path, 0); }

int __wrap_unlinkat(int folder, const char *name, int flags)
{
    char path[MOST_PATH];
    snprintf(path, sizeof path, "%.250s%s%.250s", path_of(folder), *path_of(folder) ? "/" : "", name);
    return remove_at(&(call){.name = "unlinkat"}, path, folder, name, flags);
}

int __wrap_mkdir(const char *path, mode_t mode)
{
    CALL(path, 0, const int result, -1, __real_mkdir(path, mode), "mkdir", .needs_room = true);
    end(&c);
    return result;
}

int __wrap_rmdir(const char *path)
{
    CALL(path, 0, const int result, -1, __real_rmdir(path), "rmdir");
    end(&c);
    return result;
}

/* ---- the helper -------------------------------------------------------------------------------------------------------------- */

int __wrap_socketpair(int domain, int type, int protocol, int pair[2])
{
    CALL(NULL, 0, const int result, -1, __real_socketpair(domain, type, protocol, pair), "socketpair");
    end(&c);
    return result;
}

ssize_t __wrap_send(int d, const void *from, size_t size, int flags)
{
    CALL(NULL, size, const ssize_t n, -1, __real_send(d, from, size_of_it, flags), "send", .has_size = true);
    end(&c);
    return n;
}

ssize_t __wrap_recv(int d, void *to, size_t size, int flags)
{
    CALL(NULL, size, const ssize_t n, -1, __real_recv(d, to, size_of_it, flags), "recv", .has_size = true);
    end(&c);
    return n;
}

int __wrap_poll(struct pollfd *p, nfds_t count, int timeout)
{
    if (!count) return __real_poll(p, count, timeout); /* sleeps */
    CALL(NULL, 0, const int result, -1, __real_poll(p, count, timeout), "poll");
    end(&c);
    return result;
}

/* Its error is its result. */
int __wrap_posix_spawn(pid_t *process, const char *path, const posix_spawn_file_actions_t *actions,
                       const posix_spawnattr_t *attributes, char *const argv[], char *const envp[])
{
    CALL(NULL, 0, const int result, errno, __real_posix_spawn(process, path, actions, attributes, argv, envp), "posix_spawn");
    end(&c);
    return result;
}

/* ---- for tests --------------------------------------------------------------------------------------------------------------- */

void shim_arm(const char *folder, shim_fault fault)
{
    pthread_mutex_lock(&shim.lock);
    snprintf(shim.folder, sizeof shim.folder, "%s", folder);
    snprintf(shim.undo, sizeof shim.undo, "%.400s.undo", folder);
    if (fault.action == SHIM_POWER_CUT) __real_mkdir(shim.undo, 0777);
    memset(shim.path, 0, sizeof shim.path);
    shim.fault = fault;
    shim.calls = shim.files = shim.changes = 0;
    shim.happened = false;
    shim.where[0] = 0;
    shim.armed = true;
    pthread_mutex_unlock(&shim.lock);
}

int shim_disarm(void)
{
    pthread_mutex_lock(&shim.lock);
    shim.armed = false;
    const int calls = shim.calls;
    pthread_mutex_unlock(&shim.lock);
    return calls;
}

bool        shim_happened(void) { return shim.happened; }
const char *shim_where(void) { return shim.where; }

bool shim_made_again(void)
{
    static const char *const names[] = {"open ",  "read ", "pread ", "write ", "pwrite ",
                                        "fsync ", "send ", "recv ",  "poll ",  "close "};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strncmp(shim.where, names[i], strlen(names[i]))) return true;
    return false;
}

int shim_descriptors(void)
{
    int  count = 0;
    DIR *d = __real_opendir("/proc/self/fd");
    for (const struct dirent *e; d && (e = readdir(d));)
        count++;
    if (d) __real_closedir(d);
    return count;
}
