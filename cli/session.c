/* Settings of the process, from the options of the command. */
#include "session.h"
#include "words.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- words of the library ---- */

static void to_stderr(const char *text, void *user)
{
    (void)user;
    fputs(text, stderr);
}

void cli_output_to_stderr(void) { lk_set_output(to_stderr, NULL); }

/* Warnings with this word are held back. */
static struct {
    const char *word; /* NULL: none */
    char        text[2048];
} held;

static void print_warning(const char *text)
{
    const size_t used = strlen(held.text);
    if (!held.word || !strstr(text, held.word)) fprintf(stderr, "lockstep: warning: %s\n", text);
    else snprintf(held.text + used, sizeof held.text - used, "%s%s", used ? "; " : "", text);
}

void cli_hold_warnings(const char *word)
{
    held.word = word;
    held.text[0] = 0;
}

const char *cli_held_warnings(void)
{
    held.word = NULL;
    return held.text[0] ? held.text : NULL;
}

/* Warnings in the command's words; information for people at a terminal, and unchanged if LOCKSTEP_VERBOSE is set. */
static void log_line(const char *text, void *user)
{
    static const char warning[] = "WARNING:lockstep: ", information[] = "INFO:lockstep: ";
    (void)user;
    fflush(stdout);
    if (!strncmp(text, warning, strlen(warning))) print_warning(cli_in_words(text + strlen(warning)));
    else if (getenv("LOCKSTEP_VERBOSE")) fprintf(stderr, "%s\n", text);
    else if (isatty(STDERR_FILENO) && !strncmp(text, information, strlen(information)))
        fprintf(stderr, "%s\n", cli_in_words(text + strlen(information)));
}

void cli_log_to_stderr(void) { lk_set_log(log_line, NULL); }

static void log_nothing(const char *text, void *user)
{
    (void)text;
    (void)user;
}

/* ---- texts ---- */

typedef struct kept {
    struct kept *before;
    char         text[];
} kept;

char *cli_keep_text(const char *text)
{
    static kept *last;
    kept        *k = malloc(sizeof *k + strlen(text) + 1);
    if (!k) abort();
    k->before = last;
    last = k;
    return strcpy(k->text, text);
}

int cli_split(const char *text, const char *one_based[CLI_MOST_NAMES + 1])
{
    int   count = 0;
    char *rest = cli_keep_text(text);
    for (char *name; count < CLI_MOST_NAMES && (name = strsep(&rest, ","));)
        if (*name) one_based[++count] = name;
    return count;
}

/* ---- devices ---- */

static int precision_of(const cli_args *a, lk_precision *out)
{
    static const char *const names[] = {"f32", "tf32", "bf16"};
    *out = LK_PRECISION_DEFAULT;
    if (!a->given[OPT_PRECISION] && !(a->text[OPT_PRECISION] && *a->text[OPT_PRECISION])) return CLI_FINE;
    for (int i = 0; i < 3; i++)
        if (!strcmp(a->text[OPT_PRECISION], names[i])) return *out = (lk_precision)(LK_PRECISION_F32 + i), CLI_FINE;
    return cli_fail(CLI_USAGE, "%s: --precision %s: it must be f32, tf32 or bf16", a->command->name, a->text[OPT_PRECISION]);
}

/* The library logs which devices a strategy uses, and that none is a GPU. With --replicas the user knows. */
static lk_strategy *make_strategy(const cli_args *a, lk_precision precision)
{
    lk_strategy *s;
    lk_set_log(log_nothing, NULL);
    if (a->given[OPT_DEVICES]) {
        const char *name[CLI_MOST_NAMES + 1];
        const int   count = cli_split(a->text[OPT_DEVICES], name);
        s = lk_mirrored_strategy(.devices = lk_names_of(count, name), .precision = precision);
    } else s = lk_mirrored_strategy(.cpu_devices = (int)a->number[OPT_REPLICAS], .precision = precision);
    cli_log_to_stderr();
    return s;
}

int cli_session(const cli_args *a, lk_strategy **strategy)
{
    if (a->given[OPT_DEVICES] && a->given[OPT_REPLICAS])
        return cli_fail(CLI_USAGE, "%s: give --replicas or --devices, not both", a->command->name);
    if (a->given[OPT_DEVICES] && !a->text[OPT_DEVICES][strspn(a->text[OPT_DEVICES], ",")])
        return cli_fail(CLI_USAGE, "%s: --devices %s: names no device", a->command->name, a->text[OPT_DEVICES]);
    if (a->given[OPT_SEED]) lk_set_random_seed((uint64_t)a->number[OPT_SEED]);
    if (a->given[OPT_THREADS] && lk_set_threads((int)a->number[OPT_THREADS]) != LK_OK) return cli_fail_library(CLI_USAGE);
    if (a->given[OPT_LANES] && lk_set_lanes((int)a->number[OPT_LANES]) != LK_OK) return cli_fail_library(CLI_USAGE);
    if (a->number[OPT_REPLICAS] > lk_lanes())
        return cli_fail(CLI_USAGE,
                        "%s: --replicas %.0f: a batch is split into %d lanes, and every replica needs one; give --lanes too",
                        a->command->name, a->number[OPT_REPLICAS], lk_lanes());
    lk_precision precision;
    const int    code = precision_of(a, &precision);
    if (code != CLI_FINE) return code;
    *strategy = make_strategy(a, precision);
    return *strategy ? CLI_FINE : cli_fail_library(CLI_USAGE);
}
