/* lockstep summary: the layers of a model. */
#include "commands.h"
#include "models.h"

static int run_summary(const cli_args *a)
{
    cli_model    m;
    lk_strategy *here = lk_default_strategy();
    int          code = cli_model_find(a->word[0], here, &m);
    if (!code) code = cli_model_make_for(&m, here, LK_SHAPE(28, 28, 1), 10);
    if (code) return code;
    cli_model_warn(&m);
    return lk_model_summary(m.model) == LK_OK ? CLI_FINE : cli_fail_library(CLI_DATA);
}

const cli_command cli_summary = {
    .name = "summary",
    .words = "MODEL",
    .least = 1,
    .most = 1,
    .help = "the layers of a model, their shapes and parameters",
    .more =
        "MODEL is basic, fashion or mlp (as they are for digits), a .keras file, a folder of --save, or a JSON file of Keras.\n",
    .options = (const cli_option[]){OPT_COUNT},
    .run = run_summary,
};
