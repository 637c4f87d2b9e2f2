/* The folder of a run, as --save names it:
 *
 *     DIR/model.keras      the model, when training has ended or was stopped; DIR/ckpt without the helper that writes HDF5
 *     DIR/history.csv      a line per epoch, as it ends; DIR/history.svg its curves
 *     DIR/run.json         the options of the run (settings.h)
 *     DIR/backup/          the newest two backups of --save-every, for --resume */
#ifndef LOCKSTEP_CLI_FOLDER_H
#define LOCKSTEP_CLI_FOLDER_H

#include "options.h"
#include "paths.h"
#include "sources.h"
#include <lockstep.h>
#include <stdio.h>

typedef struct cli_folder {
    char    path[CLI_MOST_PATH]; /* "": nothing is saved */
    int     lock;                /* holds the folder for this process until it ends; -1: the file system has no locks */
    bool    asked;               /* by --save; else it is made when training is interrupted */
    bool    resumes;             /* there is a run to resume */
    int64_t learnt;              /* steps the optimiser had done when the run began */
    int64_t steps;               /* back up training every n steps; 0: */
    double  seconds;             /* every n seconds */
    char    backup[CLI_MOST_PATH + 16], history[CLI_MOST_PATH + 16];
} cli_folder;

/* By --save and --resume. A run is resumed with the settings it was started with, else CLI_USAGE. A folder in use by another run:
 * CLI_DATA. */
int cli_folder_open(const cli_args *args, cli_folder *out);

/* Called when training is about to start or resume, with the number of steps that the optimiser has done; everything else is open.
 * Only now is an existing run that is not resumed deleted, and without --save the folder gets its name, after the model. */
int cli_folder_begin(cli_folder *f, const cli_args *args, const cli_source *const data[2], int64_t learnt);

/* Of all epochs, also those before it was resumed; NULL: no epoch was finished. */
lk_history *cli_folder_history(const cli_folder *f);

/* The callback that writes backups: as --save-every says if the folder was asked for, and on an interruption in any case. */
lk_callback *cli_folder_backup(const cli_folder *f);

/* Write the model and the curves. CLI_FAILED if the model cannot be written, or if the folder was removed since training began. */
int cli_folder_save(cli_folder *f, const cli_args *args, const cli_source *const data[2], lk_model *m, lk_history *trained);

/* "saved in DIR: model.keras, history.csv, ..." */
void cli_folder_tell_saved(const cli_folder *f, FILE *to);

/* Remove the backups that were made in case of an interruption. */
void cli_folder_forget(const cli_folder *f);

/* "lockstep train basic --save DIR --resume" on standard error, after `text`. */
void cli_folder_tell_resume(const cli_folder *f, const cli_args *args);

#endif
