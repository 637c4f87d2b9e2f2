/* Why a data set is missing. */
#ifndef LOCKSTEP_CLI_PLACES_H
#define LOCKSTEP_CLI_PLACES_H

#include "paths.h"

enum { CLI_WHY_TEXT = CLI_MOST_PATH + 256 };

/* After lk_mnist_find() failed: the reason and what to do: "not in FOLDER; `lockstep data fetch mnist` gets it". Valid until the
 * next call; the error is cleared. */
const char *cli_why_missing(const char *name, const char *folder);

#endif
