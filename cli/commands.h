/* The subcommands, a file each. */
#ifndef LOCKSTEP_CLI_COMMANDS_H
#define LOCKSTEP_CLI_COMMANDS_H

#include "options.h"

extern const cli_command cli_train, cli_evaluate, cli_predict, cli_summary, cli_devices, cli_data, cli_plot, cli_bench, cli_doctor,
    cli_convert, cli_inspect;

#endif
