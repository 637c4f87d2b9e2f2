/* lockstep plot: curves of a history file. */
#include "commands.h"
#include "paths.h"
#include <errno.h>
#include <lockstep.h>
#include <string.h>
#include <unistd.h>

static int run_plot(const cli_args *a)
{
    const char *from = a->word[0], *to = a->word[1];
    if (!cli_ends_in(to, ".svg") && !cli_ends_in(to, ".png"))
        return cli_fail(CLI_USAGE, "plot: %s: it should end in .svg or .png", to);
    if (access(from, R_OK) != 0) return cli_fail(CLI_DATA, "%s: %s", from, strerror(errno));
    lk_history *h = lk_history_read(from);
    return h && lk_history_plot(h, to) == LK_OK ? CLI_FINE : cli_fail_library(CLI_DATA);
}

const cli_command cli_plot = {
    .name = "plot",
    .words = "HISTORY.csv OUT.svg|OUT.png",
    .least = 2,
    .most = 2,
    .help = "draw the curves of a history.csv",
    .options = (const cli_option[]){OPT_COUNT},
    .run = run_plot,
};
