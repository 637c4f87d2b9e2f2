/* Translates messages of the library into words of the command: its users know options, not calls and their arguments. */
#ifndef LOCKSTEP_CLI_WORDS_H
#define LOCKSTEP_CLI_WORDS_H

/* Without the name of the call in front, and with options for the library's arguments. Valid until the next call. */
const char *cli_in_words(const char *text);

#endif
