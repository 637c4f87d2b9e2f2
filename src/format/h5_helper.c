/* Starting the helper program and communicating with it (h5_helper.h).
 *
 * Invariants
 *  1. The helper has one end of a socket as its input and output, no error output, and inherits no other descriptor.
 *  2. Sending and receiving alternate as poll() allows, so that neither side can wait for the other; no signal is raised if the
 *     helper is gone (MSG_NOSIGNAL), and no signal handler of the process is changed.
 *  3. However it ends, the helper is killed and waited for before the call returns. */
#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE 1 /* closefrom */
#endif
#include "format/h5_helper.h"
#include "core/beside.h"
#include "core/memory.h"
#include "core/open.h"
#include "format/h5.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifndef LKI_H5_INSTALLED
#define LKI_H5_INSTALLED "" /* set by the build; a helper from the build folder is found beside the library */
#endif

extern char **environ;

enum { USUAL_DEADLINE = 120000, PIECE = 1 << 16, GRACE = 1000 };

static int deadline_ms, patience_s;

void lki_h5_set_deadline(int milliseconds) { __atomic_store_n(&deadline_ms, milliseconds, __ATOMIC_RELAXED); }

void lki_h5_set_patience(int seconds) { __atomic_store_n(&patience_s, seconds, __ATOMIC_RELAXED); }
int  lki_h5_patience(void) { return __atomic_load_n(&patience_s, __ATOMIC_RELAXED); }

/* A second more for every MiB that is sent. */
static int64_t usual_deadline(const lki_feed *feed) { return USUAL_DEADLINE + 1000 * (int64_t)(feed->size >> 20); }

/* ---- where it is ------------------------------------------------------------------------------------------------------------- */

static bool usable(const char *path) { return *path && access(path, X_OK) == 0; }

const char *lki_h5_helper(void)
{
    static _Thread_local char path[LKI_LONGEST_PATH];
    const char               *chosen = getenv("LOCKSTEP_H5");
    if (chosen && *chosen) return usable(chosen) ? chosen : NULL;
    if (lki_find_beside("lockstep-h5", X_OK, path)) return path;
    return usable(LKI_H5_INSTALLED) ? LKI_H5_INSTALLED : NULL;
}

static lk_status missing(const char *name)
{
    const char *chosen = getenv("LOCKSTEP_H5");
    if (chosen && *chosen)
        return lki_fail(LK_EUNSUPPORTED, "%s: an HDF5 file, and the helper program LOCKSTEP_H5=%s is not there or cannot be run",
                        name, chosen);
    return lki_fail(LK_EUNSUPPORTED,
                    "%s: an HDF5 file, and the helper program lockstep-h5 was not found: install libhdf5-dev and rebuild, or set "
                    "LOCKSTEP_H5 to "
                    "its path",
                    name);
}

/* ---- starting and ending it -------------------------------------------------------------------------------------------------- */

typedef struct helper {
    pid_t process;
    int   socket;
} helper;

static int set_descriptors(posix_spawn_file_actions_t *a, int socket)
{
    int failed = posix_spawn_file_actions_adddup2(a, socket, STDIN_FILENO);
    if (!failed) failed = posix_spawn_file_actions_adddup2(a, socket, STDOUT_FILENO);
    if (!failed) failed = posix_spawn_file_actions_addopen(a, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 34)
    if (!failed) failed = posix_spawn_file_actions_addclosefrom_np(a, STDERR_FILENO + 1);
#endif
    return failed; /* without closefrom the helper closes the others itself, before anything else */
}

/* No signal is blocked in it, whatever this thread blocks. */
static int set_signals(posix_spawnattr_t *attributes)
{
    sigset_t none;
    sigemptyset(&none);
    const int failed = posix_spawnattr_setsigmask(attributes, &none);
    return failed ? failed : posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETSIGMASK);
}

static int spawn(const char *path, int socket, pid_t *process)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t          attributes;
    char                      *argv[] = {(char *)(uintptr_t) "lockstep-h5", NULL};
    int                        failed = posix_spawn_file_actions_init(&actions);
    if (failed) return failed;
    failed = posix_spawnattr_init(&attributes);
    if (!failed) {
        failed = set_descriptors(&actions, socket);
        if (!failed) failed = set_signals(&attributes);
        if (!failed) failed = posix_spawn(process, path, &actions, &attributes, argv, environ);
        posix_spawnattr_destroy(&attributes);
    }
    posix_spawn_file_actions_destroy(&actions);
    return failed;
}

static lk_status start(const char *name, const char *path, helper *h)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
        return lki_fail(LK_EIO, "%s: cannot start the helper %s: %s", name, path, strerror(errno));
    for (int i = 0; i < 2; i++)
        pair[i] = lki_above_standard(pair[i]);
    const int failed = pair[0] < 0 || pair[1] < 0 ? EMFILE : spawn(path, pair[1], &h->process);
    if (pair[1] >= 0) close(pair[1]);
    h->socket = pair[0];
    if (!failed) return LK_OK;
    if (pair[0] >= 0) close(pair[0]);
    return lki_fail(LK_EUNSUPPORTED, "%s: cannot start the helper %s: %s", name, path, strerror(failed));
}

/* True if it ended by itself, soon. */
static bool ends_soon(const helper *h, int *status)
{
    for (int turns = 0; turns < GRACE; turns++) {
        const pid_t who = waitpid(h->process, status, WNOHANG);
        if (who == h->process) return true;
        if (who < 0 && errno != EINTR) return *status = -1, true;
        poll(NULL, 0, 1);
    }
    return false;
}

/* Its exit status, or -1 if other code has waited for the process. `unwanted`: kill it first. */
static int finish(helper *h, bool unwanted)
{
    int status = -1;
    close(h->socket);
    if (!unwanted && ends_soon(h, &status)) return status;
    kill(h->process, SIGKILL); /* still our child: its exit status has not been read */
    while (waitpid(h->process, &status, 0) < 0)
        if (errno != EINTR) return -1;
    return status;
}

/* ---- talking to it ----------------------------------------------------------------------------------------------------------- */

struct lki_h5_talk {
    const char    *name, *doing, *path;
    helper         helper;
    lki_feed      *feed;
    const uint8_t *piece; /* the rest of the piece that is being sent */
    size_t         piece_size, limit, heard;
    int64_t        deadline;
    bool           sent, ended, gone; /* all was sent, the answer ended, the helper was waited for */
    size_t         ahead_at, ahead_size;
    uint8_t        ahead[PIECE]; /* received, not asked for yet */
};

static int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* A helper that stops reading may still have sent an error: only its own end ends the communication. */
static lk_status send_some(lki_h5_talk *t)
{
    while (!t->sent) {
        if (!t->piece_size) LKI_TRY(t->feed->next(t->feed, &t->piece, &t->piece_size));
        if (!t->piece_size) break;
        const ssize_t n = send(t->helper.socket, t->piece, t->piece_size, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return LK_OK;
        if (n < 0) break;
        t->piece += n;
        t->piece_size -= (size_t)n;
    }
    t->sent = true;
    shutdown(t->helper.socket, SHUT_WR);
    return LK_OK;
}

/* What has arrived, at most `size` bytes. */
static lk_status receive_some(lki_h5_talk *t, void *to, size_t size, size_t *got)
{
    const ssize_t n = recv(t->helper.socket, to, size, MSG_DONTWAIT);
    if (n < 0 && (errno == EINTR || errno == EAGAIN || errno == EWOULDBLOCK)) return LK_OK;
    if (n <= 0) return t->ended = true, LK_OK;
    *got = (size_t)n;
    if (*got > t->limit - t->heard)
        return lki_fail(LK_EFORMAT, "%s: the HDF5 helper answers with more than %zu bytes while %s it", t->name, t->limit,
                        t->doing);
    t->heard += *got;
    return LK_OK;
}

static lk_status turn(lki_h5_talk *t, void *to, size_t size, size_t *got)
{
    const int64_t left = t->deadline - now_ms();
    struct pollfd p = {.fd = t->helper.socket, .events = (short)(POLLIN | (t->sent ? 0 : POLLOUT))};
    const int     ready = left > 0 ? poll(&p, 1, (int)lki_min(left, (int64_t)INT32_MAX)) : 0;
    *got = 0;
    if (ready == 0) return lki_fail(LK_EDEADLINE, "%s: the HDF5 helper did not end in time while %s it", t->name, t->doing);
    if (ready < 0) return errno == EINTR ? LK_OK : lki_fail(LK_EIO, "%s: poll: %s", t->name, strerror(errno));
    if (p.revents & POLLOUT) LKI_TRY(send_some(t));
    return p.revents & (POLLIN | POLLHUP | POLLERR) ? receive_some(t, to, size, got) : LK_OK;
}

/* Large values are received directly into their place; small ones are copied from the buffer. */
lk_status lki_h5_hear(lki_h5_talk *t, void *to, size_t size, size_t *got)
{
    for (*got = 0; *got < size;) {
        size_t       now = t->ahead_size;
        const size_t want = size - *got;
        if (now > want) now = want;
        if (now) memcpy((uint8_t *)to + *got, t->ahead + t->ahead_at, now);
        t->ahead_at += now;
        t->ahead_size -= now;
        if (!now && t->ended) return LK_OK;
        if (!now && want >= PIECE) LKI_TRY(turn(t, (uint8_t *)to + *got, want, &now));
        else if (!now) {
            t->ahead_at = 0;
            LKI_TRY(turn(t, t->ahead, PIECE, &t->ahead_size));
        }
        *got += now;
    }
    return LK_OK;
}

static lk_status judge(const lki_h5_talk *t, int status)
{
    if (status == -1 || (WIFEXITED(status) && WEXITSTATUS(status) == 0)) return LK_OK;
    if (WIFEXITED(status))
        return lki_fail(LK_EIO, "%s: the HDF5 helper %s ended with status %d while %s it", t->name, t->path, WEXITSTATUS(status),
                        t->doing);
    const bool reading = strcmp(t->doing, "reading") == 0;
    return lki_fail(reading ? LK_EFORMAT : LK_EIO, "%s: the HDF5 helper ended by signal %d (%s) while %s it%s", t->name,
                    WTERMSIG(status), strsignal(WTERMSIG(status)), t->doing, reading ? ": the file is damaged or hostile" : "");
}

lk_status lki_h5_end(lki_h5_talk *t)
{
    if (t->gone) return LK_OK;
    for (t->ahead_size = 0; !t->ended; t->ahead_size = 0)
        LKI_TRY(turn(t, t->ahead, PIECE, &t->ahead_size));
    t->gone = true;
    return judge(t, finish(&t->helper, false));
}

void lki_h5_close(lki_h5_talk *t)
{
    if (t && !t->gone) finish(&t->helper, true);
    lki_release(t);
}

lk_status lki_h5_ask(const char *name, const char *doing, const lki_bytes *head, lki_feed *feed, size_t limit, lki_h5_talk **out)
{
    const char *path = lki_h5_helper();
    const int   most = __atomic_load_n(&deadline_ms, __ATOMIC_RELAXED);
    *out = NULL;
    if (!path) return missing(name);
    lki_h5_talk *t = lki_alloc(sizeof *t);
    if (!t) return LK_ENOMEM;
    *t = (lki_h5_talk){.name = name, .doing = doing, .path = path, .feed = feed, .limit = limit};
    t->piece = head->data;
    t->piece_size = head->size;
    t->deadline = now_ms() + (most ? most : usual_deadline(feed));
    const lk_status status = start(name, path, &t->helper);
    if (status != LK_OK) return lki_release(t), status;
    *out = t;
    return LK_OK;
}
