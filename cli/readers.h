/* Opening files of every kind, for sources.c, which detects the kind. */
#ifndef LOCKSTEP_CLI_READERS_H
#define LOCKSTEP_CLI_READERS_H

#include "session.h"
#include "sources.h"

/* The files and the options for them. */
typedef struct cli_opening {
    const cli_args *args;
    cli_wants       wants;
    int             count;
    const char     *one_based[CLI_MOST_NAMES + 1];
} cli_opening;

/* Fill in train and, if there is one, test. CLI_DATA or CLI_USAGE, with the message printed. */
int cli_open_csv(const cli_opening *o, cli_source *s);
int cli_open_npz(const cli_opening *o, cli_source *s);
int cli_open_npy(const cli_opening *o, cli_source *s);
int cli_open_idx(const cli_opening *o, cli_source *s);
int cli_open_tfrecord(const cli_opening *o, cli_source *s);
int cli_open_idx_folder(const cli_opening *o, cli_source *s);
int cli_open_pictures(const cli_opening *o, cli_source *s);

bool cli_is_idx_folder(const char *folder);
bool cli_is_picture_folder(const char *folder);

#endif
