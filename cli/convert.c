/* lockstep convert: convert models and weights between formats. */
#include "commands.h"
#include "paths.h"
#include <lockstep.h>
#include <stdio.h>
#include <string.h>

static int run_convert(const cli_args *a)
{
    const char *from = a->word[0], *to = a->word[1];
    char        model[CLI_MOST_PATH];
    if (strlen(from) < CLI_MOST_PATH - 16 && cli_is_folder(from) && cli_is_file(cli_path_in(from, "model.keras", model)))
        from = model;
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
    .help = "convert models and weights between formats",
    .more = "FROM is a file of any of these formats, detected by its contents, a folder of --save (its model.keras),\n"
            "or a folder of checkpoints. The ending of TO selects its format:\n"
            "  .keras        a whole model            .h5           a whole model, as before Keras 3\n"
            "  .weights.h5   weights, as Keras 3      .safetensors  .npz  named arrays\n"
            "  .ckpt, none   TensorFlow's checkpoint\n"
            "Without a model in FROM or by --model, arrays keep their names.\n",
    .options = CLI_OPTIONS(OPT_MODEL),
    .run = run_convert,
};
