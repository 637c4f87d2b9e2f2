/* Opening and writing files: the one place of the command that does. The library has its own (src/core/open.h). */
#ifndef LOCKSTEP_CLI_FILES_H
#define LOCKSTEP_CLI_FILES_H

#include "paths.h"
#include <stdio.h>

/* Standard descriptors that are closed become /dev/null, before anything else is opened: a file that got one of their numbers
 * would have in it what is printed. */
void cli_open_standard(void);

/* A regular file; anything else is refused and not waited for. NULL and errno. */
FILE *cli_open_to_read(const char *path);

/* Whatever the user named, also a pipe or a device. NULL and errno. */
FILE *cli_open_to_write(const char *path);

/* A file that readers see complete or not at all: written as PATH.tmp, which is first removed, then synced and renamed. Returns 0,
 * or errno; after an error no file is left. */
typedef struct cli_new_file {
    FILE *to;
    char  path[CLI_MOST_PATH], beside[CLI_MOST_PATH + 8];
} cli_new_file;
int cli_new_file_begin(const char *path, cli_new_file *f);
int cli_new_file_end(cli_new_file *f);

/* Make the name of a file or folder last, at best: some folders cannot be synced. */
void cli_sync_name(const char *path);

/* Make a folder and those on the way to it; their names last. 0, or what errno says. */
int cli_make_folder(const char *path);

/* For this process alone: a descriptor that holds the lock until it is closed; CLI_TAKEN: another process has it; -1: there are no
 * locks here. A process that was killed may hold it a moment longer, in a child it was just starting: with `wait`, that is waited
 * for, two seconds at most. */
enum { CLI_TAKEN = -2 };
int cli_lock_folder(const char *path, bool wait);

#endif
