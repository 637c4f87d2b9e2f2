/* Names of files (paths.h). */
#include "paths.h"
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

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

const char *cli_path_in(const char *folder, const char *name, char path[CLI_MOST_PATH])
{
    snprintf(path, CLI_MOST_PATH, "%s/%s", folder, name);
    return path;
}
