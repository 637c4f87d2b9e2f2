/* Folders of runs (folder.h). */
#include "folder.h"
#include "files.h"
#include "settings.h"
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_FOLDER = CLI_MOST_PATH - 256 }; /* shorter than a path, so that names of files can be appended */

/* ---- files ---- */

static void join(const char *folder, const char *name, char *out, size_t room) { snprintf(out, room, "%s/%s", folder, name); }

static int make_folder(const char *path)
{
    const int why = cli_make_folder(path);
    return why ? cli_fail(CLI_DATA, "--save %s: %s", path, strerror(why)) : CLI_FINE;
}

/* backup-12.index, backup-12.data-00000-of-00001, and either with .4711.3.tmp after it while it is written. */
static bool is_backup_file(const char *name)
{
    int  end = 0;
    long number;
    if (sscanf(name, "backup-%ld.index%n", &number, &end) != 1 || !end) {
        end = 0;
        if (sscanf(name, "backup-%ld.data-%*5d-of-%*5d%n", &number, &end) != 1 || !end) return false;
    }
    if (number < 1 || !name[end]) return number > 0;
    const char *rest = name + end;
    end = 0;
    sscanf(rest, ".%*u.%*u.tmp%n", &end);
    return end && !rest[end];
}

static void remove_backups(const char *folder)
{
    DIR *d = opendir(folder);
    for (const struct dirent *e; d && (e = readdir(d));)
        if (is_backup_file(e->d_name)) unlinkat(dirfd(d), e->d_name, 0);
    if (d) closedir(d);
}

static bool is_empty(const char *folder)
{
    DIR *d = opendir(folder);
    int  names = 0;
    while (d && readdir(d))
        names++;
    if (d) closedir(d);
    return names == 2; /* . and .. */
}

/* True if there is a backup to resume from. Reading it later checks whether it is complete. */
static bool has_backup(const char *folder)
{
    DIR *d = opendir(folder);
    bool found = false;
    for (const struct dirent *e; d && !found && (e = readdir(d));)
        found = is_backup_file(e->d_name) && cli_ends_in(e->d_name, ".index");
    if (d) closedir(d);
    return found;
}

/* ---- opening ---- */

/* Reserve an empty folder of this name for this run: a new one, or one left by a killed run. If none can be made, no other process
 * can use that name either. */
static bool reserve(const char *path, int *lock)
{
    if (mkdir(path, 0777) != 0 && errno != EEXIST) return true;
    if (!is_empty(path)) return false;
    *lock = cli_lock_folder(path, false);
    if (*lock != CLI_TAKEN && is_empty(path)) return true;
    if (*lock >= 0) close(*lock);
    return false;
}

/* The folder's name for a run without --save: models/net.keras and basic become net-run and basic-run, or net-run-2. */
static void take_free_name(const char *model, char out[CLI_MOST_PATH], int *lock)
{
    const char *slash = strrchr(model, '/'), *name = slash && slash[1] ? slash + 1 : model;
    const int   length = (int)strcspn(name, "./");
    snprintf(out, CLI_MOST_PATH, "%.*s-run", length, name);
    for (int i = 2; !reserve(out, lock) && i < 10000; i++)
        snprintf(out, CLI_MOST_PATH, "%.*s-run-%d", length, name, i);
}

static void name_files(cli_folder *f)
{
    join(f->path, "backup", f->backup, sizeof f->backup);
    join(f->path, "history.csv", f->history, sizeof f->history);
}

/* "100": steps, "2.5s": seconds. */
static int read_every(const cli_args *a, cli_folder *out)
{
    const char  *text = a->text[OPT_SAVE_EVERY];
    char        *end = NULL;
    const double number = text && isdigit((unsigned char)*text) ? strtod(text, &end) : 0;
    const bool   seconds = end && !strcmp(end, "s"), steps = end && !*end && number == floor(number);
    if (!(number > 0 && number <= 1e12) || (!seconds && !steps) || strpbrk(text, "xX"))
        return cli_fail(CLI_USAGE, "%s: --save-every %s: it should be a number of steps, as 100, or of seconds, as 5s",
                        a->command->name, text ? text : "");
    out->steps = steps ? (int64_t)number : 0;
    out->seconds = seconds ? number : 0;
    return CLI_FINE;
}

int cli_folder_open(const cli_args *a, cli_folder *out)
{
    *out = (cli_folder){.asked = a->given[OPT_SAVE], .lock = -1};
    if (read_every(a, out)) return CLI_USAGE;
    for (int i = 0; i < 2 && !out->asked; i++)
        if (a->given[i ? OPT_SAVE_EVERY : OPT_RESUME])
            return cli_fail(CLI_USAGE, "%s: %s; give both", a->command->name,
                            i ? "--save-every N sets how often --save DIR backs up training"
                              : "--resume resumes the run that --save DIR saved");
    if (out->asked && strlen(a->text[OPT_SAVE]) > MOST_FOLDER)
        return cli_fail(CLI_DATA, "--save %.40s...: %s", a->text[OPT_SAVE], strerror(ENAMETOOLONG));
    if (!out->asked) return CLI_FINE;
    snprintf(out->path, sizeof out->path, "%s", a->text[OPT_SAVE]);
    name_files(out);
    const int code = make_folder(out->path);
    if (code) return code;
    if ((out->lock = cli_lock_folder(out->path, true)) == CLI_TAKEN)
        return cli_fail(CLI_DATA, "--save %s: another run saves there; give this one another folder", out->path);
    out->resumes = a->given[OPT_RESUME] && has_backup(out->backup);
    if (a->given[OPT_RESUME] && !out->resumes)
        cli_fail(0, "%s: there is no run to resume; training starts from the beginning", out->path);
    return out->resumes ? cli_settings_agree(a, out->path, &out->learnt) : CLI_FINE;
}

int cli_folder_begin(cli_folder *f, const cli_args *a, const cli_source *const data[2], int64_t learnt)
{
    const int code = f->resumes ? cli_settings_data_agree(f->path, data) : CLI_FINE;
    if (code) return code;
    if (!f->asked) {
        take_free_name(a->word[0], f->path, &f->lock);
        name_files(f);
    } else if (!f->resumes) remove_backups(f->backup);
    if (!f->resumes || f->learnt < 0) f->learnt = learnt;                        /* or a folder from before settings were saved */
    return f->asked ? cli_settings_keep(a, f->path, f->learnt, data) : CLI_FINE; /* for a resumed run: its new length */
}

lk_callback *cli_folder_backup(const cli_folder *f)
{
    return lk_backup_and_restore(f->backup, .save_freq = f->asked ? f->steps : INT64_MAX, .save_seconds = f->asked ? f->seconds : 0,
                                 .delete_checkpoint = f->asked ? LK_OFF : LK_ON);
}

/* ---- saving ---- */

static int save_checkpoint(const cli_folder *f, lk_model *m, const char *why)
{
    char prefix[CLI_MOST_PATH + 16];
    join(f->path, "ckpt", prefix, sizeof prefix);
    lk_checkpoint *c = lk_checkpoint_of({"model", m}, {"optimizer", lk_model_optimizer(m)});
    if (!c || !lk_checkpoint_write(c, prefix)) return cli_fail_library(CLI_FAILED);
    cli_fail(0, "%s: a TensorFlow checkpoint instead of model.keras: %s", prefix, why);
    return CLI_FINE;
}

static int save_model(const cli_folder *f, lk_model *m)
{
    char path[CLI_MOST_PATH + 16], why[1024];
    join(f->path, "model.keras", path, sizeof path);
    if (lk_model_save(m, path) == LK_OK) return CLI_FINE;
    if (lk_error_code() != LK_EUNSUPPORTED) return cli_fail_library(CLI_FAILED);
    snprintf(why, sizeof why, "%s", lk_error());
    lk_clear_error();
    return save_checkpoint(f, m, why);
}

/* If training ends within its first epoch, the history is empty or has only the line of names. */
static bool has_epochs(const char *path)
{
    char  line[256];
    bool  some = false;
    FILE *file = cli_open_to_read(path);
    while (file && !some && fgets(line, sizeof line, file))
        some = isdigit((unsigned char)line[0]);
    if (file) fclose(file);
    return some;
}

lk_history *cli_folder_history(const cli_folder *f)
{
    lk_history *h = f->asked && has_epochs(f->history) ? lk_history_read(f->history) : NULL;
    if (!h) lk_clear_error();
    return h;
}

/* For all epochs, also those before a resume. An error is only a warning, because the model is saved. */
static void save_curves(const cli_folder *f, lk_history *trained)
{
    char        path[CLI_MOST_PATH + 16];
    lk_history *h = has_epochs(f->history) ? lk_history_read(f->history) : NULL;
    lk_clear_error();
    if (!h || lk_history_epochs(h) < lk_history_epochs(trained)) h = trained; /* the file is incomplete */
    if (!lk_history_epochs(h)) return;
    join(f->path, "history.svg", path, sizeof path);
    if (lk_history_plot(h, path) == LK_OK) return;
    cli_fail(0, "%s could not be drawn: %s", path, lk_error());
    lk_clear_error();
}

/* True if another folder now has the name of the locked one. */
static bool is_gone(const cli_folder *f)
{
    struct stat locked, named;
    if (f->lock < 0 || fstat(f->lock, &locked) != 0) return false;
    return stat(f->path, &named) != 0 || named.st_dev != locked.st_dev || named.st_ino != locked.st_ino;
}

/* Save the model anyway, unless another run uses the folder by now. */
static int make_again(cli_folder *f)
{
    const int code = make_folder(f->path);
    if (code) return CLI_FAILED;
    f->lock = cli_lock_folder(f->path, true);
    if (f->lock == CLI_TAKEN)
        return cli_fail(CLI_FAILED, "%s was removed during training, and another run now saves there: nothing was saved", f->path);
    return CLI_FINE;
}

int cli_folder_save(cli_folder *f, const cli_args *a, const cli_source *const data[2], lk_model *m, lk_history *trained)
{
    const bool gone = is_gone(f);
    int        code = gone ? make_again(f) : CLI_FINE;
    if (!code) code = save_model(f, m);
    if (!code && (!f->asked || gone)) code = cli_settings_keep(a, f->path, f->learnt, data);
    if (code) return code;
    cli_sync_name(f->path);
    save_curves(f, trained);
    if (!gone) return CLI_FINE;
    return cli_fail(
        CLI_FAILED,
        "%s was removed during training; the model was saved into a new folder of that name, and its other files are lost",
        f->path);
}

void cli_folder_tell_saved(const cli_folder *f, FILE *to)
{
    static const char *const names[] = {"model.keras", "ckpt.index", "history.csv", "history.svg", "run.json", "backup"};
    const char              *between = "";
    fprintf(to, "saved in %s: ", f->path);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[CLI_MOST_PATH + 16];
        join(f->path, names[i], path, sizeof path);
        if (access(path, F_OK) != 0) continue;
        fprintf(to, "%s%s", between, names[i]);
        between = ", ";
    }
    fprintf(to, "\n");
}

void cli_folder_forget(const cli_folder *f)
{
    remove_backups(f->backup);
    rmdir(f->backup);
    rmdir(f->path);
}

/* ---- how to resume ---- */

/* Quoted for a shell. */
static void put_word(const char *word)
{
    const bool plain = *word && !word[strspn(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=./,:+@%")];
    fputs(plain ? word : "'", stderr);
    for (; !plain && *word; word++)
        fputs(*word == '\'' ? "'\\''" : (char[]){*word, 0}, stderr);
    if (!plain) fputc('\'', stderr);
}

void cli_folder_tell_resume(const cli_folder *f, const cli_args *a)
{
    fputs("resume with: lockstep", stderr);
    for (int i = 1; i < a->argc; i++) {
        fputc(' ', stderr);
        put_word(a->argv[i]);
    }
    if (!f->asked) {
        fputs(" --save ", stderr);
        put_word(f->path);
    }
    fputs(a->given[OPT_RESUME] ? "\n" : " --resume\n", stderr);
}
