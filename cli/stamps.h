/* Checks whether data files are still those that a run was started with.
 *
 *     digest   SHA-256 of all bytes of the files; for a folder of pictures of names and sizes, so that not all pictures are read
 *     stamp    SHA-256 of sizes and times of the last change: if it is unchanged, the files need not be read again */
#ifndef LOCKSTEP_CLI_STAMPS_H
#define LOCKSTEP_CLI_STAMPS_H

#include "sources.h"

typedef struct cli_stamps {
    char stamp[65], digest[65];
} cli_stamps;

/* With the digest, or the stamp alone. False: it is data by name, was not opened, or cannot be read. */
bool cli_stamps_of(const cli_source *s, bool with_digest, cli_stamps *out);

#endif
