/* Finding files that are installed beside the library. */
#define _GNU_SOURCE 1 /* dladdr */
#include "core/beside.h"
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FOLDERS = 3 };

/* The file this code was loaded from, with links resolved: the shared library, or the program if the library is linked into it. */
static bool own_file(char *file)
{
    Dl_info    here, program;
    const bool known =
        dladdr((const void *)(uintptr_t)&lki_find_beside, &here) && dladdr((const void *)(uintptr_t)getauxval(AT_PHDR), &program);
    const bool shared = known && here.dli_fbase != program.dli_fbase;
    return realpath(shared ? here.dli_fname : "/proc/self/exe", file) != NULL;
}

/* A program is trusted if it belongs to the owner of the library, to root or to the user of this process; others, in /tmp for
 * example, are not. */
static bool trusted(const char *path, int mode, uid_t owner)
{
    struct stat s;
    return access(path, mode) == 0 && stat(path, &s) == 0 && (s.st_uid == owner || s.st_uid == 0 || s.st_uid == geteuid());
}

bool lki_find_beside(const char *name, int mode, char path[LKI_LONGEST_PATH])
{
    struct stat s;
    char        file[PATH_MAX];
    bool        found = false;
    const bool  there = own_file(file) && stat(file, &s) == 0;
    for (int up = 0; there && up < FOLDERS && !found; up++) {
        char *slash = strrchr(file, '/');
        if (!slash) break;
        *slash = 0;
        found = snprintf(path, LKI_LONGEST_PATH, "%s/libexec/lockstep/%s", file, name) < LKI_LONGEST_PATH &&
                trusted(path, mode, s.st_uid);
    }
    return found;
}
