/* Opening files (open.h). */
#include "core/open.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int lki_above_standard(int descriptor)
{
    if (descriptor < 0 || descriptor > STDERR_FILENO) return descriptor;
    const int other = fcntl(descriptor, F_DUPFD_CLOEXEC, STDERR_FILENO + 1), cause = errno;
    close(descriptor);
    errno = cause;
    return other;
}

int lki_openat(int folder, const char *path, int flags)
{
    int descriptor;
    do
        descriptor = openat(folder, path, flags | O_CLOEXEC, 0666);
    while (descriptor < 0 && errno == EINTR);
    return lki_above_standard(descriptor);
}

int lki_open(const char *path, int flags)
{
    int descriptor;
    do
        descriptor = open(path, flags | O_CLOEXEC, 0666);
    while (descriptor < 0 && errno == EINTR);
    return lki_above_standard(descriptor);
}

static lk_status failed(const char *path)
{
    return lki_fail(errno == ENOENT ? LK_ENOTFOUND : LK_EIO, "%s: %s", path, strerror(errno));
}

lk_status lki_open_regular(const char *path, int *out, uint64_t *size)
{
    struct stat s;
    *out = -1;
    const int descriptor = lki_open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
    if (descriptor < 0) return failed(path);
    lk_status status = fstat(descriptor, &s) != 0 ? failed(path) : LK_OK;
    if (status == LK_OK && !S_ISREG(s.st_mode)) status = lki_fail(LK_EIO, "%s: not a regular file", path);
    if (status != LK_OK) {
        close(descriptor);
        return status;
    }
    if (size) *size = (uint64_t)s.st_size;
    *out = descriptor;
    return LK_OK;
}

lk_status lki_fopen_regular(const char *path, FILE **out)
{
    int descriptor;
    *out = NULL;
    LKI_TRY(lki_open_regular(path, &descriptor, NULL));
    *out = fdopen(descriptor, "rb");
    if (*out) return LK_OK;
    const lk_status status = failed(path);
    close(descriptor);
    return status;
}
