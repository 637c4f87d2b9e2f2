/* Opening and writing files (files.h). */
#include "files.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* ---- opening ---- */

void cli_open_standard(void)
{
    for (int d = STDIN_FILENO; d <= STDERR_FILENO; d++)
        if (fcntl(d, F_GETFD) < 0 && open("/dev/null", O_RDWR) < 0) return; /* this is the lowest free descriptor */
}

FILE *cli_open_to_read(const char *path)
{
    struct stat s;
    const int   descriptor = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (descriptor < 0) return NULL;
    errno = EINVAL;
    FILE *file = fstat(descriptor, &s) == 0 && S_ISREG(s.st_mode) ? fdopen(descriptor, "r") : NULL;
    if (!file) close(descriptor);
    return file;
}

FILE *cli_open_to_write(const char *path) { return fopen(path, "we"); }

/* ---- writing ---- */

int cli_new_file_begin(const char *path, cli_new_file *f)
{
    snprintf(f->path, sizeof f->path, "%s", path);
    snprintf(f->beside, sizeof f->beside, "%s.tmp", path);
    unlink(f->beside); /* left by a killed process, or put there by another program: it is not written to */
    const int descriptor = open(f->beside, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    f->to = descriptor >= 0 ? fdopen(descriptor, "w") : NULL;
    if (f->to) return 0;
    const int why = errno;
    if (descriptor >= 0) close(descriptor);
    return why;
}

int cli_new_file_end(cli_new_file *f)
{
    int why = fflush(f->to) != 0 || ferror(f->to) || fsync(fileno(f->to)) != 0 ? errno : 0;
    if (fclose(f->to) != 0 && !why) why = errno;
    if (!why && rename(f->beside, f->path) != 0) why = errno;
    if (why) unlink(f->beside);
    else cli_sync_name(f->path);
    return why;
}

void cli_sync_name(const char *path)
{
    char  folder[CLI_MOST_PATH];
    char *end = folder + snprintf(folder, sizeof folder, "%s", path);
    if (end >= folder + sizeof folder) return;
    while (end > folder + 1 && end[-1] == '/')
        *--end = 0; /* for "run/" the parent folder is "." */
    char *slash = strrchr(folder, '/');
    if (!slash) strcpy(folder, ".");
    else slash[slash == folder] = 0;
    const int descriptor = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor < 0) return;
    fsync(descriptor);
    close(descriptor);
}

/* ---- folders ---- */

static int make_one(const char *path)
{
    const int why = mkdir(path, 0777) == 0 ? 0 : errno;
    if (!why) cli_sync_name(path);
    if (!why || cli_is_folder(path)) return 0;
    return why == EEXIST ? ENOTDIR : why;
}

int cli_make_folder(const char *path)
{
    char part[CLI_MOST_PATH];
    int  why = 0;
    snprintf(part, sizeof part, "%s", path);
    for (char *slash = strchr(part + 1, '/'); slash && !why; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        why = make_one(part);
        *slash = '/';
    }
    if (!why) why = make_one(path);
    return !why && access(path, W_OK | X_OK) != 0 ? errno : why;
}

static bool is_taken(int folder) { return flock(folder, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK; }

int cli_lock_folder(const char *path, bool wait)
{
    enum { TRIES = 200, PAUSE = 10 * 1000 * 1000 }; /* two seconds */
    const int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0) return -1;
    bool taken = is_taken(folder);
    for (int i = 0; taken && wait && i < TRIES; i++) {
        nanosleep(&(struct timespec){.tv_nsec = PAUSE}, NULL);
        taken = is_taken(folder);
    }
    if (!taken) return folder;
    close(folder);
    return CLI_TAKEN;
}
