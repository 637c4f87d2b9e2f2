/* A temporary folder for a test that writes files; it is removed with everything in it. */
#ifndef LK_TESTS_FOLDER_H
#define LK_TESTS_FOLDER_H

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Takes over the descriptor. */
static inline void folder_empty(int descriptor)
{
    DIR *d = fdopendir(descriptor);
    for (const struct dirent *e; d && (e = readdir(d));) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 || unlinkat(descriptor, e->d_name, 0) == 0) continue;
        const int inner = openat(descriptor, e->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (inner >= 0) folder_empty(inner);
        unlinkat(descriptor, e->d_name, AT_REMOVEDIR);
    }
    if (d) closedir(d);
}

static inline void folder_remove(const char *path)
{
    const int descriptor = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor >= 0) folder_empty(descriptor);
    rmdir(path);
}

/* Its path, until the next call. In memory where that is possible: files are synced often. */
static inline const char *folder_new(void)
{
    static char path[64];
    snprintf(path, sizeof path, "%s/lockstep-test-XXXXXX", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    return mkdtemp(path);
}

/* "FOLDER/NAME"; eight of them are good at a time. */
static inline const char *folder_file(const char *folder, const char *name)
{
    static char path[8][512];
    static int  next;
    char       *out = path[next++ % 8];
    snprintf(out, sizeof path[0], "%s/%s", folder, name);
    return out;
}

/* Files that were begun and never published are "*.tmp". */
static inline int folder_leftovers(const char *folder)
{
    DIR *d = opendir(folder);
    int  found = 0;
    for (const struct dirent *e; d && (e = readdir(d));)
        found += strlen(e->d_name) > 4 && strcmp(e->d_name + strlen(e->d_name) - 4, ".tmp") == 0;
    if (d) closedir(d);
    return found;
}

static inline int file_exists(const char *path) { return access(path, F_OK) == 0; }

static inline long file_size(const char *path)
{
    struct stat s;
    return stat(path, &s) == 0 ? (long)s.st_size : -1;
}

#endif
