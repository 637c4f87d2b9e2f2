/* Names of files. */
#ifndef LOCKSTEP_CLI_PATHS_H
#define LOCKSTEP_CLI_PATHS_H

#include <stdbool.h>

enum { CLI_MOST_PATH = 4096 };

/* Ignores case. */
bool cli_ends_in(const char *text, const char *end);

bool cli_is_folder(const char *path);
bool cli_is_file(const char *path);

/* 0 if a file of this name could be written, else an errno. */
int cli_why_not_written(const char *path);

/* "folder/name" in `path`, which it returns. */
const char *cli_path_in(const char *folder, const char *name, char path[CLI_MOST_PATH]);

#endif
