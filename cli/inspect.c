/* lockstep inspect: the contents of a file, or of a run's folder. */
#include "commands.h"
#include "paths.h"
#include "report.h"
#include "session.h"
#include "settings.h"
#include <dirent.h>
#include <lockstep.h>
#include <stdio.h>
#include <string.h>

/* NULL, after printing the message. */
static const char *inside(const char *path, bool json)
{
    const char *text = lk_inspect(path, .json = json ? LK_ON : LK_OFF);
    if (!text) cli_fail_library(CLI_DATA);
    return text;
}

/* ---- runs ---- */

/* The parts of a run, besides its settings. */
static const struct {
    const char *name, *file, *sign; /* sign: the file to look for, if `file` is a folder or only the begin of a name */
} parts[] = {{"model", "model.keras", "model.keras"}, {"checkpoint", "ckpt", "ckpt.index"}, {"backup", "backup", "backup"}};
enum { PARTS = sizeof parts / sizeof *parts };

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

/* The text of each part, in the order of the list; NULL: there is none. All are read before anything is printed. */
static int read_parts(const char *folder, bool json, const char *text[PARTS])
{
    for (int i = 0; i < PARTS; i++) {
        char path[CLI_MOST_PATH];
        text[i] = NULL;
        if (!there(folder, i)) continue;
        if (!(text[i] = inside(cli_path_in(folder, parts[i].file, path), json))) return CLI_DATA;
        text[i] = cli_keep_text(text[i]);
    }
    return CLI_FINE;
}

static void print_run(const char *folder, const char *const text[PARTS])
{
    printf("%s: a run of lockstep train\n\n", folder);
    cli_settings_print(folder, stdout);
    for (int i = 0; i < PARTS; i++)
        if (text[i]) printf("\n%s", text[i]);
}

/* One object, with an object for each part. */
static void print_run_json(const char *folder, const char *const text[PARTS])
{
    cli_json j;
    cli_json_begin(&j, stdout);
    cli_json_text(&j, "file", folder);
    cli_json_text(&j, "kind", "a run of lockstep train");
    fputs(", \"settings\": ", stdout);
    cli_settings_print_json(folder, stdout);
    for (int i = 0; i < PARTS; i++)
        if (text[i]) printf(", \"%s\": %s", parts[i].name, text[i]);
    cli_json_end(&j);
}

static int inspect_run(const char *folder, bool json)
{
    const char *text[PARTS];
    const int   code = read_parts(folder, json, text);
    if (!code) (json ? print_run_json : print_run)(folder, text);
    return code;
}

static int run_inspect(const cli_args *a)
{
    const bool  json = a->given[OPT_JSON];
    const char *path = a->word[0], *run = cli_is_folder(path) ? cli_run_of(path) : NULL;
    if (run) return inspect_run(run, json);
    if (cli_is_file(path) && (cli_ends_in(path, ".csv") || cli_ends_in(path, ".tsv")))
        return cli_fail(CLI_DATA, "%s: rows of data; `lockstep data inspect %s` describes them", path, path);
    const char *text = inside(path, json);
    if (text) printf(json ? "%s\n" : "%s", text);
    return text ? CLI_FINE : CLI_DATA;
}

const cli_command cli_inspect = {
    .name = "inspect",
    .words = "FILE",
    .least = 1,
    .most = 1,
    .help = "describe the contents of a file",
    .more =
        "FILE is a .keras, HDF5, safetensors, npz, npy, TFRecord, event, IDX, PNG, JPEG or JSON file, a checkpoint or a folder of\n"
        "them, or a folder of --save; its format is detected. The whole file is read, and checksums are verified.\n"
        "`lockstep data inspect` describes rows of data, CSV too.\n",
    .options = CLI_OPTIONS(OPT_JSON),
    .run = run_inspect,
};
