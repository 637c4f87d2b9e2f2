/* Where data sets are looked for: LOCKSTEP_DATA, else the user's cache folder, as lk_mnist() does. */
#include "places.h"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static bool is_there(const char *folder, const char *name)
{
    char path[CLI_PLACE_TEXT + 64];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    if (access(path, R_OK) == 0) return true;
    snprintf(path, sizeof path, "%s/%s.gz", folder, name);
    return access(path, R_OK) == 0;
}

bool cli_place_of(const char *name, char text[CLI_PLACE_TEXT])
{
    static const char *const files[] = {"train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte",
                                        "t10k-labels-idx1-ubyte"};
    const char              *data = getenv("LOCKSTEP_DATA"), *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (data && *data) snprintf(text, CLI_PLACE_TEXT, "%s/%s", data, name);
    else if (cache && *cache) snprintf(text, CLI_PLACE_TEXT, "%s/lockstep/%s", cache, name);
    else snprintf(text, CLI_PLACE_TEXT, "%s/.cache/lockstep/%s", home && *home ? home : ".", name);
    bool all = true;
    for (int i = 0; i < 4; i++)
        all = all && is_there(text, files[i]);
    return all;
}
