/* Where data sets are looked for. */
#ifndef LOCKSTEP_CLI_PLACES_H
#define LOCKSTEP_CLI_PLACES_H

#include <stdbool.h>

enum { CLI_PLACE_TEXT = 4096 };

/* The folder of data set `name`, in `text`; false: its files are not all there. */
bool cli_place_of(const char *name, char text[CLI_PLACE_TEXT]);

#endif
