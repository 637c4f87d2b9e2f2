/* Why a data set is missing (places.h). */
#include "places.h"
#include "words.h"
#include <lockstep.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *cli_why_missing(const char *name, const char *folder)
{
    static char text[CLI_WHY_TEXT];
    const char *own = getenv("LOCKSTEP_DATA");
    const bool  named = own && *own, missing = lk_error_code() == LK_ENOTFOUND && *folder;
    if (missing) snprintf(text, sizeof text, named ? "not in %s, the folder of LOCKSTEP_DATA" : "not in %s", folder);
    else snprintf(text, sizeof text, "%s", cli_in_words(lk_error()));
    const size_t used = strlen(text);
    if (!named && *folder)
        snprintf(text + used, sizeof text - used, "; `lockstep data fetch %s` downloads it", name); /* into the cache */
    lk_clear_error();
    return text;
}
