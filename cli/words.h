/* What the library says, in the words of the command: who types commands knows options, not calls and their arguments. */
#ifndef LOCKSTEP_CLI_WORDS_H
#define LOCKSTEP_CLI_WORDS_H

/* Without the name of the call in front, and with options where the library names arguments. Lives until the next call. */
const char *cli_in_words(const char *text);

#endif
