/* Why fit, evaluate or predict failed, and whether the data or the program is at fault. */
#ifndef LOCKSTEP_CLI_FAILURE_H
#define LOCKSTEP_CLI_FAILURE_H

#include "models.h"
#include "sources.h"

/* Rows that were used, and their name for messages. */
typedef struct cli_used {
    lk_dataset *rows; /* NULL: none */
    const char *text;
} cli_used;

/* Print the line: CLI_DATA for rows that cannot be read or have labels the model has no class for, CLI_FAILED for anything else. */
int cli_explain_failure(cli_model *m, cli_source *data, int count, const cli_used *used);

#endif
