/* The options of a run, saved as DIR/run.json beside the backups for --resume:
 *
 *     {"model": "basic", "data": "digits", "batch": "64", "lanes": "8", "seed": "7", "optimizer": "", ..., "learnt": 0}
 *
 * as they were typed, with the stamps of the data files (stamps.h). Options that determine the results but were not given are
 * absent or empty. The length of a run may change when it is resumed; it is saved as the default for then. The number of devices
 * and threads changes no bits and is not saved.
 *
 * A command that names a run need not repeat saved options: "taking" fills in those that were not typed. */
#ifndef LOCKSTEP_CLI_SETTINGS_H
#define LOCKSTEP_CLI_SETTINGS_H

#include "options.h"
#include "sources.h"
#include <stdio.h>

/* The run's folder if `path` is one, or a model.keras in one; NULL: none. Never freed. */
const char *cli_run_of(const char *path);

/* Write them. `learnt`: how many steps the optimiser had done before the run began; data[1] may be unopened. */
int cli_settings_keep(const cli_args *args, const char *folder, int64_t learnt, const cli_source *const data[2]);

/* CLI_USAGE for settings that differ from the saved ones. *learnt -1: none were saved. */
int cli_settings_agree(const cli_args *args, const char *folder, int64_t *learnt);

/* CLI_DATA if data files have changed since the run began. */
int cli_settings_data_agree(const char *folder, const cli_source *const data[2]);

/* `train --save DIR --resume` and `train DIR --resume`: the model, DIR and all settings, for those that were not typed. */
int cli_settings_take(cli_args *args);

/* For a model of a run that is trained again, evaluated or used to predict: the data with all options about it; with --data, only
 * the options about how rows become inputs of the model. For evaluation, the rows with which the run was evaluated. */
int cli_settings_take_data(cli_args *args, bool to_measure);

/* CLI_DATA if there is neither a run nor --data, and drawn digits do not fit the model. NULL: any rows fit. */
int cli_settings_data_known(const cli_args *args, const lk_shape *row);

/* Print which data is used if it was not typed: that of the run, or drawn digits. */
void cli_settings_tell_data(const cli_args *args);

/* "  --batch 64" and so on, a line each; as members of an object. */
void cli_settings_print(const char *folder, FILE *to);
void cli_settings_print_json(const char *folder, FILE *to);

#endif
