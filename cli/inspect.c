/* lockstep inspect: what is inside a file, or in the folder of a run. */
#include "commands.h"
#include "paths.h"
#include "report.h"
#include "settings.h"
#include <dirent.h>
#include <lockstep.h>
#include <stdio.h>
#include <string.h>

static int inspect(const char *path, bool json)
{
    const char *text = lk_inspect(path, .json = json ? LK_ON : LK_OFF);
    if (!text) return cli_fail_library(CLI_DATA);
    fputs(text, stdout);
    return CLI_FINE;
}

/* ---- runs ---- */

/* What a run consists of, besides its settings. */
static const struct {
    const char *name, *file, *sign; /* sign: the file that is there, where file is a folder or no whole name */
} parts[] = {{"model", "model.keras", "model.keras"}, {"checkpoint", "ckpt", "ckpt.index"}, {"backup", "backup", "backup"}};

static bool has_index(const char *folder)
{
    DIR *d = opendir(folder);
    bool found = false;
    for (const struct dirent *e; d && !found && (e = readdir(d));)
        found = cli_ends_in(e->d_name, ".index");
    if (d) closedir(d);
    return found;
}

static bool there(const char *folder, int i)
{
    char path[CLI_MOST_PATH];
    cli_path_in(folder, parts[i].sign, path);
    return cli_is_folder(path) ? has_index(path) : cli_is_file(path);
}

/* As text, what is told begins with the path; as JSON, one object with an object for each part. */
static int inspect_run(const char *folder, bool json)
{
    int code = CLI_FINE;
    if (json) {
        cli_json j;
        cli_json_begin(&j, stdout);
        cli_json_text(&j, "file", folder);
        cli_json_text(&j, "kind", "a run of lockstep train");
        fputs(", \"settings\": ", stdout);
        cli_settings_print_json(folder, stdout);
    } else {
        printf("%s: a run of lockstep train\n\n", folder);
        cli_settings_print(folder, stdout);
    }
    for (size_t i = 0; i < sizeof parts / sizeof *parts && !code; i++) {
        char path[CLI_MOST_PATH];
        if (!there(folder, (int)i)) continue;
        if (json) printf(", \"%s\": ", parts[i].name);
        else printf("\n");
        code = inspect(cli_path_in(folder, parts[i].file, path), json);
    }
    if (json) putchar('}');
    return code;
}

static int run_inspect(const cli_args *a)
{
    const bool  json = a->given[OPT_JSON];
    const char *path = a->word[0], *run = cli_is_folder(path) ? cli_run_of(path) : NULL;
    if (!run && cli_is_file(path) && (cli_ends_in(path, ".csv") || cli_ends_in(path, ".tsv")))
        return cli_fail(CLI_DATA, "%s: rows of data; `lockstep data inspect %s` tells what is in them", path, path);
    const int code = run ? inspect_run(run, json) : inspect(path, json);
    if (json && !code) putchar('\n');
    return code;
}

const cli_command cli_inspect = {
    .name = "inspect",
    .words = "FILE",
    .least = 1,
    .most = 1,
    .help = "what is inside a file of models, weights or data",
    .more =
        "FILE is a .keras, HDF5, safetensors, npz, npy, TFRecord, event, IDX, PNG, JPEG or JSON file, a checkpoint or a folder of\n"
        "them, or a folder of --save; it is known by its contents. All of it is read, and checksums are verified.\n"
        "`lockstep data inspect` looks into rows of data, CSV too.\n",
    .options = CLI_OPTIONS(OPT_JSON),
    .run = run_inspect,
};
