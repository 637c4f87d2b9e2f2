/* Files written beside, synced and renamed (durable.h). */
#include "format/durable.h"
#include "core/memory.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CHUNK = 1 << 30 }; /* one write takes at most 2 GiB */

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

lk_status lki_durable_begin(const char *path, lki_durable *d)
{
    *d = LKI_DURABLE_NONE;
    d->path = lki_strdup(path);
    d->beside = lki_path_join(path, strlen(path), ".tmp");
    if (!d->path || !d->beside) return lki_durable_abandon(d), LK_ENOMEM;
    d->descriptor = open(d->beside, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (d->descriptor >= 0) return LK_OK;
    failed(path, "write");
    lki_durable_abandon(d);
    return LK_EIO;
}

lk_status lki_durable_write(lki_durable *d, const void *data, size_t size)
{
    const uint8_t *p = data;
    d->size += size;
    while (size) {
        const ssize_t n = write(d->descriptor, p, size < CHUNK ? size : CHUNK);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return failed(d->path, "write");
        p += n;
        size -= (size_t)n;
    }
    return LK_OK;
}

lk_status lki_durable_sync(lki_durable *d)
{
    const int synced = fsync(d->descriptor) == 0 ? 0 : errno, closed = close(d->descriptor) == 0 ? 0 : errno;
    d->descriptor = -1;
    if (!synced && !closed) return LK_OK;
    errno = synced ? synced : closed;
    return failed(d->path, "write");
}

lk_status lki_durable_publish(lki_durable *d)
{
    if (rename(d->beside, d->path) != 0) return failed(d->path, "rename a file to");
    lki_release(d->beside);
    d->beside = NULL;
    return LK_OK;
}

void lki_durable_abandon(lki_durable *d)
{
    if (d->descriptor >= 0) close(d->descriptor);
    if (d->beside && d->path) unlink(d->beside);
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

lk_status lki_folder_make(const char *file)
{
    char *folder = lki_path_join(file, lki_folder_length(file), "");
    if (!folder) return LK_ENOMEM;
    lk_status status = LK_OK;
    for (char *p = folder; *p && status == LK_OK; p++) { /* every part of the path that ends here */
        const char next = p[1];
        if (*p == '/' || (next != '/' && next != 0)) continue;
        p[1] = 0;
        if (mkdir(folder, 0777) != 0 && !is_folder(folder)) status = failed(folder, "make a folder of");
        p[1] = next;
    }
    lki_release(folder);
    return status;
}

/* Some file systems cannot sync a folder (EINVAL): their renames are as lasting as they can be. */
lk_status lki_folder_sync(const char *file)
{
    const size_t length = lki_folder_length(file);
    char        *folder = lki_path_join(length ? file : ".", length ? length : 1, "");
    if (!folder) return LK_ENOMEM;
    const int  descriptor = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const bool good = descriptor >= 0 && (fsync(descriptor) == 0 || errno == EINVAL);
    lk_status  status = good ? LK_OK : failed(folder, "sync");
    if (descriptor >= 0) close(descriptor);
    lki_release(folder);
    return status;
}
