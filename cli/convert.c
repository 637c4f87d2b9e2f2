/* lockstep convert: models and weights from one format to another. */
#include "commands.h"
#include <lockstep.h>
#include <stdio.h>

static int run_convert(const cli_args *a)
{
    const char *from = a->word[0], *to = a->word[1];
    if (lk_convert(from, to, .model = a->text[OPT_MODEL]) != LK_OK)
        return cli_fail_library(lk_error_code() == LK_EINVAL ? CLI_USAGE : CLI_DATA);
    printf("%s: written from %s\n", to, from);
    return CLI_FINE;
}

const cli_command cli_convert = {
    .name = "convert",
    .words = "FROM TO",
    .least = 2,
    .most = 2,
    .help = "models and weights from one format to another",
    .more = "FROM is a file of any of these, known by its contents, or a folder of checkpoints; TO is known by its end:\n"
            "  .keras        a whole model            .h5           a whole model, as before Keras 3\n"
            "  .weights.h5   weights, as Keras 3      .safetensors  .npz  arrays by names\n"
            "  .ckpt, none   TensorFlow's checkpoint\n"
            "Without a model, neither in FROM nor by --model, arrays keep the names they have.\n",
    .options = CLI_OPTIONS(OPT_MODEL),
    .run = run_convert,
};
