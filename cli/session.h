/* What a command that computes sets up first: threads, lanes, seed, devices, and where the library's words go. */
#ifndef LOCKSTEP_CLI_SESSION_H
#define LOCKSTEP_CLI_SESSION_H

#include "options.h"
#include <lockstep.h>

/* The strategy over the devices that were asked for. CLI_USAGE for devices there are not, and so on, with the message printed. */
int cli_session(const cli_args *args, lk_strategy **strategy);

/* What the library logs, in the words of the command. */
void cli_log_to_stderr(void);

/* From now on keep warnings with this word in them; until this, which gives them as one text. NULL: there were none. Lives until
 * the next time. */
void        cli_hold_warnings(const char *word);
const char *cli_held_warnings(void);

/* What the library shows goes to standard error, which leaves standard output to the JSON object. */
void cli_output_to_stderr(void);

/* A copy that lives as long as the process. */
char *cli_keep_text(const char *text);

/* "a,b,c" as a list; how many. The texts live as long as the process. */
enum { CLI_MOST_NAMES = 256 };
int cli_split(const char *text, const char *one_based[CLI_MOST_NAMES + 1]);

#endif
