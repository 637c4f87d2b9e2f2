/* Names of files (paths.h). */
#include "paths.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

bool cli_ends_in(const char *text, const char *end)
{
    const size_t n = strlen(text), k = strlen(end);
    return n >= k && !strcasecmp(text + n - k, end);
}

bool cli_is_folder(const char *path)
{
    struct stat s;
    return stat(path, &s) == 0 && S_ISDIR(s.st_mode);
}

bool cli_is_file(const char *path)
{
    struct stat s;
    return stat(path, &s) == 0 && !S_ISDIR(s.st_mode);
}

int cli_why_not_written(const char *path)
{
    char        folder[CLI_MOST_PATH];
    const char *slash = strrchr(path, '/');
    if (cli_is_folder(path)) return EISDIR;
    if (access(path, F_OK) == 0) return access(path, W_OK) == 0 ? 0 : errno;
    const int length = slash ? (int)(slash - path) : 0;
    if (length >= CLI_MOST_PATH) return ENAMETOOLONG;
    snprintf(folder, sizeof folder, "%.*s", length, path);
    const char *where = !slash ? "." : *folder ? folder : "/";
    if (cli_is_file(where)) return ENOTDIR;
    return access(where, W_OK | X_OK) == 0 ? 0 : errno;
}

const char *cli_path_in(const char *folder, const char *name, char path[CLI_MOST_PATH])
{
    snprintf(path, CLI_MOST_PATH, "%s/%s", folder, name);
    return path;
}
