/* Opening and writing files: all files of the command are opened here. The library has its own functions (src/core/open.h). */
#ifndef LOCKSTEP_CLI_FILES_H
#define LOCKSTEP_CLI_FILES_H

#include "paths.h"
#include <stdio.h>

/* Standard descriptors that are closed become /dev/null, before anything else is opened: otherwise printed text would be written to
 * a file that got one of their numbers. */
void cli_open_standard(void);

/* A regular file; other kinds are an error, and the call does not wait for them. NULL and errno. */
FILE *cli_open_to_read(const char *path);

/* Any kind of file that the user named, also a pipe or a device. NULL and errno. */
FILE *cli_open_to_write(const char *path);

/* A file that readers see complete or not at all: written as PATH.tmp (an older one is removed first), synced and renamed. Returns
 * 0, or errno; after an error no file is left. */
typedef struct cli_new_file {
    FILE *to;
    char  path[CLI_MOST_PATH], beside[CLI_MOST_PATH + 8];
} cli_new_file;
int cli_new_file_begin(const char *path, cli_new_file *f);
int cli_new_file_end(cli_new_file *f);

/* Make the name of a file or folder durable, ignoring errors: some folders cannot be synced. */
void cli_sync_name(const char *path);

/* Make a folder and its parents, with durable names. 0 or errno. */
int cli_make_folder(const char *path);

/* For this process alone: a descriptor that holds the lock until it is closed; CLI_TAKEN: another process has it; -1: the file
 * system has no locks. The lock of a killed process may outlive it for a moment, in a child that it was just starting: `wait`
 * retries for two seconds. */
enum { CLI_TAKEN = -2 };
int cli_lock_folder(const char *path, bool wait);

#endif
