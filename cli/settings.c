/* Settings of runs (settings.h). */
#include "settings.h"
#include "files.h"
#include "paths.h"
#include "report.h"
#include <inttypes.h>
#include <lockstep.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    cli_option  option; /* OPT_COUNT: the model */
} settings[] = {{"model", OPT_COUNT},
                {"data", OPT_DATA},
                {"rows", OPT_ROWS},
                {"batch", OPT_BATCH},
                {"seed", OPT_SEED},
                {"lanes", OPT_LANES},
                {"precision", OPT_PRECISION},
                {"validation", OPT_VALIDATION},
                {"validation-split", OPT_VALIDATION_SPLIT},
                {"label", OPT_LABEL},
                {"no-header", OPT_NO_HEADER},
                {"text-labels", OPT_TEXT_LABELS},
                {"delimiter", OPT_DELIMITER},
                {"features", OPT_FEATURES},
                {"image-size", OPT_IMAGE_SIZE},
                {"scale", OPT_SCALE}};
enum { SETTINGS = sizeof settings / sizeof *settings };
static const char FLAG_GIVEN[] = "given";

static const char *in_digits(uint64_t number)
{
    static char text[24];
    snprintf(text, sizeof text, "%" PRIu64, number);
    return text;
}

/* "": not given. What also comes from the environment is asked for where it ends up; lives until the next call. */
static const char *value_of(const cli_args *a, int i)
{
    const cli_option o = settings[i].option;
    if (o == OPT_COUNT) return a->word[0];
    if (o == OPT_LANES) return in_digits((uint64_t)lk_lanes());
    if (o == OPT_SEED) return in_digits(lk_random_seed());
    if (o == OPT_DATA && !a->given[o]) return "digits";
    if (o == OPT_NO_HEADER || o == OPT_TEXT_LABELS) return a->given[o] ? FLAG_GIVEN : "";
    return a->text[o] ? a->text[o] : "";
}

/* Whatever ends the process, the settings are whole or not there. */
int cli_settings_keep(const cli_args *a, const char *folder, int64_t learnt)
{
    char         path[CLI_MOST_PATH];
    cli_new_file f;
    cli_json     j;
    int          why = cli_new_file_begin(cli_path_in(folder, "run.json", path), &f);
    if (why) return cli_fail(CLI_FAILED, "%s: %s", f.beside, strerror(why));
    cli_json_begin(&j, f.to);
    for (int i = 0; i < SETTINGS; i++)
        if (*value_of(a, i)) cli_json_text(&j, settings[i].name, value_of(a, i));
    cli_json_whole(&j, "learnt", learnt);
    cli_json_end(&j);
    why = cli_new_file_end(&f);
    return why ? cli_fail(CLI_FAILED, "%s: %s", path, strerror(why)) : CLI_FINE;
}

/* The value behind "name": as cli_json_text() writes it, without its escapes; "" where there is none. */
static void find_value(const char *json, const char *name, char *out, size_t room)
{
    char   key[64];
    size_t used = 0;
    snprintf(key, sizeof key, "\"%s\": \"", name);
    const char *at = strstr(json, key);
    for (at = at ? at + strlen(key) : ""; *at && *at != '"' && used + 1 < room; at++) {
        unsigned code;
        if (*at == '\\' && sscanf(at, "\\u%4x", &code) == 1) out[used++] = (char)code, at += 5;
        else out[used++] = *at == '\\' && at[1] ? *++at : *at;
    }
    out[used] = 0;
}

static char *read_text(const char *path)
{
    char  *text = NULL;
    size_t room = 0;
    FILE  *file = cli_open_to_read(path);
    if (!file) return NULL;
    if (getdelim(&text, &room, 0, file) < 0) free(text), text = NULL;
    fclose(file);
    return text;
}

static void shown(int i, const char *value, char *out, size_t room)
{
    const char *dashes = settings[i].option == OPT_COUNT ? "" : "--";
    if (!strcmp(value, FLAG_GIVEN)) snprintf(out, room, "%s%s", dashes, settings[i].name);
    else if (*value) snprintf(out, room, "%s%s %s", dashes, settings[i].name, value);
    else snprintf(out, room, "no %s%s", dashes, settings[i].name);
}

int cli_settings_agree(const cli_args *a, const char *folder, int64_t *learnt)
{
    char  path[CLI_MOST_PATH], kept[CLI_MOST_PATH], texts[2][CLI_MOST_PATH + 64];
    char *json = read_text(cli_path_in(folder, "run.json", path));
    int   code = CLI_FINE;
    *learnt = -1;
    if (!json) return CLI_FINE;
    for (int i = 0; i < SETTINGS && !code; i++) {
        find_value(json, settings[i].name, kept, sizeof kept);
        if (!strcmp(kept, value_of(a, i))) continue;
        shown(i, value_of(a, i), texts[0], sizeof texts[0]);
        shown(i, kept, texts[1], sizeof texts[1]);
        code = cli_fail(CLI_USAGE, "%s: %s: %s was begun with %s, and goes on only with that", a->command->name, texts[0], folder,
                        texts[1]);
    }
    const char *steps = strstr(json, "\"learnt\": ");
    if (steps) *learnt = strtoll(steps + strlen("\"learnt\": "), NULL, 10);
    free(json);
    return code;
}
