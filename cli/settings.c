/* Settings of runs (settings.h). */
#include "settings.h"
#include "files.h"
#include "paths.h"
#include "report.h"
#include "session.h"
#include "stamps.h"
#include <inttypes.h>
#include <lockstep.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

typedef enum rule {
    SAME,   /* must be given again with the same value, or not at all */
    KNOWN,  /* the same, in records that have it; older records do not */
    LENGTH, /* length of the run: may change */
    FREE    /* may change */
} rule;

typedef enum about {
    OTHERS,  /* not about data */
    ROWS,    /* which rows */
    READING, /* how the files are read */
    INPUT    /* the model's input, for any files */
} about;

static const struct {
    const char *name;
    cli_option  option; /* OPT_COUNT: the model */
    rule        rule;
    about       about;
} settings[] = {{"model", OPT_COUNT, SAME, OTHERS},
                {"data", OPT_DATA, SAME, ROWS},
                {"rows", OPT_ROWS, SAME, ROWS},
                {"batch", OPT_BATCH, SAME, OTHERS},
                {"seed", OPT_SEED, SAME, OTHERS},
                {"lanes", OPT_LANES, SAME, OTHERS},
                {"precision", OPT_PRECISION, SAME, OTHERS},
                {"validation", OPT_VALIDATION, SAME, ROWS},
                {"validation-split", OPT_VALIDATION_SPLIT, SAME, ROWS},
                {"label", OPT_LABEL, SAME, READING},
                {"no-header", OPT_NO_HEADER, SAME, READING},
                {"text-labels", OPT_TEXT_LABELS, SAME, READING},
                {"delimiter", OPT_DELIMITER, SAME, READING},
                {"features", OPT_FEATURES, SAME, INPUT},
                {"image-size", OPT_IMAGE_SIZE, SAME, INPUT},
                {"scale", OPT_SCALE, SAME, INPUT},
                {"optimizer", OPT_OPTIMIZER, KNOWN, OTHERS},
                {"loss", OPT_LOSS, KNOWN, OTHERS},
                {"metrics", OPT_METRICS, KNOWN, OTHERS},
                {"learning-rate", OPT_LEARNING_RATE, FREE, OTHERS},
                {"epochs", OPT_EPOCHS, LENGTH, OTHERS},
                {"steps", OPT_STEPS, LENGTH, OTHERS}};
enum { SETTINGS = sizeof settings / sizeof *settings };
static const char FLAG_GIVEN[] = "given";

static const char *in_digits(uint64_t number)
{
    static char text[24];
    snprintf(text, sizeof text, "%" PRIu64, number);
    return text;
}

/* "": not given. A value that may also come from the environment is read from where it is used; valid until the next call. */
static const char *value_of(const cli_args *a, int i)
{
    const cli_option o = settings[i].option;
    if (o == OPT_COUNT) return a->word[0];
    if (o == OPT_LANES) return in_digits((uint64_t)lk_lanes());
    if (o == OPT_SEED) return in_digits(lk_random_seed());
    if (o == OPT_DATA && !a->given[o]) return "digits";
    if (o == OPT_EPOCHS && !a->given[o] && a->given[OPT_STEPS]) return ""; /* as many epochs as the steps need */
    if (o == OPT_NO_HEADER || o == OPT_TEXT_LABELS) return a->given[o] ? FLAG_GIVEN : "";
    return a->text[o] ? a->text[o] : "";
}

/* ---- reading ---- */

/* The value of "name", in the form that cli_json_text() writes, without its escapes. False and "": there is none. */
static bool find_value(const char *json, const char *name, char *out, size_t room)
{
    char   key[64];
    size_t used = 0;
    snprintf(key, sizeof key, "\"%s\": \"", name);
    const char *found = strstr(json, key), *at = found ? found + strlen(key) : "";
    for (; *at && *at != '"' && used + 1 < room; at++) {
        unsigned   code;
        const bool number = at[0] == '\\' && at[1] == 'u' && strspn(at + 2, "0123456789abcdefABCDEF") >= 4;
        if (number && sscanf(at + 2, "%4x", &code) == 1) out[used++] = (char)code, at += 5;
        else out[used++] = *at == '\\' && at[1] ? *++at : *at;
    }
    out[used] = 0;
    return found != NULL;
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

/* All of run.json, to be freed; NULL: there is none. */
static char *read_record(const char *folder)
{
    char path[CLI_MOST_PATH];
    if (strlen(folder) + 16 > sizeof path) return NULL;
    return read_text(cli_path_in(folder, "run.json", path));
}

static const char *const stamp_names[2][2] = {{"data-stamp", "data-digest"}, {"validation-stamp", "validation-digest"}};

/* The stamps of data[which]; false: a record from before they were saved, or of data by name. */
static bool kept_stamps(const char *json, int which, cli_stamps *out)
{
    const bool stamp = find_value(json, stamp_names[which][0], out->stamp, sizeof out->stamp);
    return find_value(json, stamp_names[which][1], out->digest, sizeof out->digest) && stamp;
}

const char *cli_run_of(const char *path)
{
    static const char model[] = "/model.keras";
    char             *folder = cli_keep_text(path);
    if (!cli_is_folder(folder)) {
        if (!cli_ends_in(folder, model)) return strcmp(folder, model + 1) ? NULL : cli_run_of(".");
        folder[strlen(folder) - strlen(model)] = 0;
    }
    char *json = read_record(folder);
    free(json);
    return json ? folder : NULL;
}

/* ---- writing ---- */

/* If files were not changed since the previous record was written, its digest is used: they need not be read again. */
static bool find_stamps(const char *before, int which, const cli_source *data, cli_stamps *out)
{
    cli_stamps kept;
    if (!cli_stamps_of(data, false, out)) return false;
    const bool same = before && kept_stamps(before, which, &kept) && !strcmp(kept.stamp, out->stamp);
    if (same) *out = kept;
    return same || cli_stamps_of(data, true, out);
}

static void put_stamps(cli_json *j, const char *folder, const cli_source *const data[2])
{
    char *before = read_record(folder);
    for (int i = 0; i < 2; i++) {
        cli_stamps s;
        if (!find_stamps(before, i, data[i], &s)) continue;
        cli_json_text(j, stamp_names[i][0], s.stamp);
        cli_json_text(j, stamp_names[i][1], s.digest);
    }
    free(before);
}

/* The settings are written completely or not at all, however the process ends. */
int cli_settings_keep(const cli_args *a, const char *folder, int64_t learnt, const cli_source *const data[2])
{
    char         path[CLI_MOST_PATH];
    cli_new_file f;
    cli_json     j;
    int          why = cli_new_file_begin(cli_path_in(folder, "run.json", path), &f);
    if (why) return cli_fail(CLI_FAILED, "%s: %s", f.beside, strerror(why));
    cli_json_begin(&j, f.to);
    for (int i = 0; i < SETTINGS; i++)
        if (*value_of(a, i) || settings[i].rule == KNOWN) cli_json_text(&j, settings[i].name, value_of(a, i));
    put_stamps(&j, folder, data);
    cli_json_whole(&j, "learnt", learnt);
    cli_json_end(&j);
    why = cli_new_file_end(&f);
    return why ? cli_fail(CLI_FAILED, "%s: %s", path, strerror(why)) : CLI_FINE;
}

/* ---- settings that are typed again ---- */

static void shown(int i, const char *value, char *out, size_t room)
{
    const char *dashes = settings[i].option == OPT_COUNT ? "" : "--";
    if (!strcmp(value, FLAG_GIVEN)) snprintf(out, room, "%s%s", dashes, settings[i].name);
    else if (*value) snprintf(out, room, "%s%s %s", dashes, settings[i].name, value);
    else snprintf(out, room, "no %s%s", dashes, settings[i].name);
}

int cli_settings_agree(const cli_args *a, const char *folder, int64_t *learnt)
{
    char  kept[CLI_MOST_PATH], texts[2][CLI_MOST_PATH + 64];
    char *json = read_record(folder);
    int   code = CLI_FINE;
    *learnt = -1;
    if (!json) return CLI_FINE;
    for (int i = 0; i < SETTINGS && !code; i++) {
        const bool there = find_value(json, settings[i].name, kept, sizeof kept);
        const bool compared = settings[i].rule == SAME || (settings[i].rule == KNOWN && there);
        if (!compared || !strcmp(kept, value_of(a, i))) continue;
        shown(i, value_of(a, i), texts[0], sizeof texts[0]);
        shown(i, kept, texts[1], sizeof texts[1]);
        code = cli_fail(CLI_USAGE, "%s: %s: %s was started with %s, and can only be resumed with it", a->command->name, texts[0],
                        folder, texts[1]);
    }
    const char *steps = strstr(json, "\"learnt\": ");
    if (steps) *learnt = strtoll(steps + strlen("\"learnt\": "), NULL, 10);
    free(json);
    return code;
}

/* Files that were not changed are not read again. */
static bool same_data(const char *json, int which, const cli_source *data)
{
    cli_stamps kept, now;
    if (!kept_stamps(json, which, &kept)) return true;
    if (cli_stamps_of(data, false, &now) && !strcmp(kept.stamp, now.stamp)) return true;
    return cli_stamps_of(data, true, &now) && !strcmp(kept.digest, now.digest);
}

int cli_settings_data_agree(const char *folder, const cli_source *const data[2])
{
    char *json = read_record(folder);
    int   code = CLI_FINE;
    for (int i = 0; i < 2 && json && !code; i++)
        if (data[i]->text && !same_data(json, i, data[i]))
            code =
                cli_fail(CLI_DATA,
                         "%s: its values or their order have changed since %s was started, and a run can only be resumed with the "
                         "same data; if the change is intended, start a new run: without --resume, or with another --save DIR",
                         data[i]->text, folder);
    free(json);
    return code;
}

/* ---- settings that are not typed again ---- */

static bool wanted(const cli_args *a, int i)
{
    const bool length = a->given[OPT_EPOCHS] || a->given[OPT_STEPS];
    return settings[i].option != OPT_COUNT && !a->given[settings[i].option] && !(settings[i].rule == LENGTH && length);
}

static int take_one(cli_args *a, const char *json, int i)
{
    char value[CLI_MOST_PATH];
    find_value(json, settings[i].name, value, sizeof value);
    return *value && strcmp(value, value_of(a, i)) ? cli_take(a, settings[i].option, strcmp(value, FLAG_GIVEN) ? value : "")
                                                   : CLI_FINE;
}

static int take_all(cli_args *a, const char *json)
{
    bool take[SETTINGS];
    int  code = CLI_FINE;
    for (int i = 0; i < SETTINGS; i++)
        take[i] = wanted(a, i); /* decided before any is taken: epochs and steps depend on each other */
    for (int i = 0; i < SETTINGS && !code; i++)
        if (take[i]) code = take_one(a, json, i);
    return code;
}

static bool same_folder(const char *a, const char *b)
{
    struct stat x, y;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* The run to resume if no model was typed; NULL: none. */
static const char *run_to_resume(const cli_args *a)
{
    const char *save = a->given[OPT_SAVE] ? a->text[OPT_SAVE] : NULL, *word = a->words ? a->word[0] : NULL;
    if (!a->given[OPT_RESUME]) return NULL;
    if (!word || (save && same_folder(save, word))) return save;
    return !save && cli_is_folder(word) && cli_run_of(word) ? word : NULL;
}

int cli_settings_take(cli_args *a)
{
    char        model[CLI_MOST_PATH];
    const char *run = run_to_resume(a), *folder = run ? run : a->given[OPT_RESUME] ? a->text[OPT_SAVE] : NULL;
    if (!run && !a->words) return cli_wrong_form(a->command);
    char *json = folder ? read_record(folder) : NULL;
    if (!json && a->words) return CLI_FINE;
    if (!json)
        return cli_fail(CLI_USAGE, "%s: %s has no run.json to resume from; the form is: lockstep train MODEL --save %s",
                        a->command->name, folder, folder);
    find_value(json, "model", model, sizeof model);
    if (run) a->word[0] = cli_keep_text(model), a->words = 1;
    if (strcmp(model, a->word[0])) return free(json), CLI_FINE; /* another run: its settings do not apply to this one */
    int code = a->given[OPT_SAVE] ? CLI_FINE : cli_take(a, OPT_SAVE, folder);
    if (!code) code = take_all(a, json);
    free(json);
    return code;
}

static bool names(const char *json, const char *name, const char *text)
{
    char value[CLI_MOST_PATH];
    return find_value(json, name, value, sizeof value) && !strcmp(value, text);
}

/* All options about the data of the run. If the typed data is the same: how it is read. If it is other data: the model's input. */
static int take_for_data(cli_args *a, const char *json)
{
    const char *typed = a->given[OPT_DATA] ? a->text[OPT_DATA] : NULL;
    const bool  same = typed && (names(json, "data", typed) || names(json, "validation", typed));
    const about from = !typed ? ROWS : same ? READING : INPUT;
    int         code = CLI_FINE;
    for (int i = 0; i < SETTINGS && !code; i++)
        if (settings[i].about >= from && !a->given[settings[i].option]) code = take_one(a, json, i);
    return code;
}

/* Use the rows that were evaluated after every epoch. */
static void turn_to_measured(cli_args *a)
{
    if (!a->given[OPT_VALIDATION]) return;
    a->text[OPT_DATA] = a->text[OPT_VALIDATION];
    a->given[OPT_DATA] = a->taken[OPT_DATA] = true;
    a->given[OPT_VALIDATION] = a->given[OPT_VALIDATION_SPLIT] = false;
}

void cli_settings_tell_data(const cli_args *a)
{
    char        rows[64] = "", share[64] = "";
    const char *folder = cli_run_of(a->word[0]);
    if (a->given[OPT_DATA] && !a->taken[OPT_DATA]) return;
    if (a->text[OPT_VERBOSE] && a->number[OPT_VERBOSE] == 0) return;
    if (a->given[OPT_ROWS]) snprintf(rows, sizeof rows, "the first %s rows of ", a->text[OPT_ROWS]);
    if (a->given[OPT_VALIDATION_SPLIT]) snprintf(share, sizeof share, "the last %g of ", a->number[OPT_VALIDATION_SPLIT]);
    if (folder)
        cli_fail(0, "%s: using %s%s%s, from its run.json", folder, share, rows, a->text[OPT_DATA] ? a->text[OPT_DATA] : "digits");
    else cli_fail(0, "%s does not record its training data, and no --data is given: using drawn digits", a->word[0]);
}

int cli_settings_take_data(cli_args *a, bool to_measure)
{
    const char *folder = cli_run_of(a->word[0]);
    char       *json = folder ? read_record(folder) : NULL;
    int         code = json ? take_for_data(a, json) : CLI_FINE;
    free(json);
    if (to_measure && (!a->given[OPT_DATA] || a->taken[OPT_DATA])) turn_to_measured(a);
    return code;
}

int cli_settings_data_known(const cli_args *a, const lk_shape *row)
{
    char       text[CLI_SHAPE_TEXT];
    const bool known = a->given[OPT_DATA] || cli_run_of(a->word[0]) || !row;
    if (known || cli_shape_size(*row) < 0 || cli_shape_size(*row) == 28 * 28) return CLI_FINE;
    return cli_fail(CLI_DATA, "%s: %s takes rows of %s, and its data is not recorded; give --data D", a->command->name, a->word[0],
                    cli_shape_text(*row, text));
}

/* ---- printing ---- */

void cli_settings_print(const char *folder, FILE *to)
{
    char  value[CLI_MOST_PATH];
    char *json = read_record(folder);
    for (int i = 0; i < SETTINGS && json; i++)
        if (find_value(json, settings[i].name, value, sizeof value) && *value) fprintf(to, "%-17s %s\n", settings[i].name, value);
    free(json);
}

void cli_settings_print_json(const char *folder, FILE *to)
{
    char     value[CLI_MOST_PATH];
    char    *json = read_record(folder);
    cli_json j;
    cli_json_begin(&j, to);
    for (int i = 0; i < SETTINGS && json; i++)
        if (find_value(json, settings[i].name, value, sizeof value) && *value) cli_json_text(&j, settings[i].name, value);
    fputc('}', to);
    free(json);
}
