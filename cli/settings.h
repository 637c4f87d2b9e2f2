/* The settings that decide which numbers a run computes, kept as DIR/run.json beside what --resume goes on with:
 *
 *     {"model": "basic", "data": "digits", "batch": "64", "lanes": "8", "seed": "7", "learnt": 0}
 *
 * as they were typed; what was not given is not in it. How long a run is, and on how many devices and threads, changes no bits and is
 * not kept. */
#ifndef LOCKSTEP_CLI_SETTINGS_H
#define LOCKSTEP_CLI_SETTINGS_H

#include "options.h"

/* Write them. `learnt`: how many steps the optimiser had done before the run began. */
int cli_settings_keep(const cli_args *args, const char *folder, int64_t learnt);

/* CLI_USAGE for settings other than those that were kept. *learnt -1: none were. */
int cli_settings_agree(const cli_args *args, const char *folder, int64_t *learnt);

#endif
