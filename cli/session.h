/* What a command that computes sets up first: threads, lanes, seed, devices, and the destination of the library's messages. */
#ifndef LOCKSTEP_CLI_SESSION_H
#define LOCKSTEP_CLI_SESSION_H

#include "options.h"
#include <lockstep.h>

/* The strategy over the devices that the options name. CLI_USAGE for missing devices and the like, with the message printed. */
int cli_session(const cli_args *args, lk_strategy **strategy);

/* Print what the library logs on standard error, in the command's words. */
void cli_log_to_stderr(void);

/* From now on hold back warnings with this word; cli_held_warnings() ends this and returns them as one text. NULL: there were none.
 * Valid until the next time. */
void        cli_hold_warnings(const char *word);
const char *cli_held_warnings(void);

/* The library's output goes to standard error, so that standard output has only the JSON object. */
void cli_output_to_stderr(void);

/* A copy that is never freed. */
char *cli_keep_text(const char *text);

/* "a,b,c" as a list; returns how many. The texts are never freed. */
enum { CLI_MOST_NAMES = 256 };
int cli_split(const char *text, const char *one_based[CLI_MOST_NAMES + 1]);

#endif
