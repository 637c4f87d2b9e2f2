/* lockstep inspect: what is inside a file. */
#include "commands.h"
#include <lockstep.h>
#include <stdio.h>

static int run_inspect(const cli_args *a)
{
    const bool  json = a->given[OPT_JSON];
    const char *text = lk_inspect(a->word[0], .json = json ? LK_ON : LK_OFF);
    if (!text) return cli_fail_library(CLI_DATA);
    fputs(text, stdout);
    if (json) putchar('\n');
    return CLI_FINE;
}

const cli_command cli_inspect = {
    .name = "inspect",
    .words = "FILE",
    .least = 1,
    .most = 1,
    .help = "what is inside a file of models, weights or data",
    .more =
        "FILE is a .keras, HDF5, safetensors, npz, npy, TFRecord, event, IDX, PNG, JPEG or JSON file, a checkpoint or a folder of\n"
        "them; it is known by its contents. All of it is read, and checksums are verified.\n",
    .options = CLI_OPTIONS(OPT_JSON),
    .run = run_inspect,
};
