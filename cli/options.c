/* Reading a command line by the list in options.h. */
#include "options.h"
#include "session.h"
#include "words.h"
#include <ctype.h>
#include <errno.h>
#include <lockstep.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum kind { FLAG, TEXT, WHOLE, NUMBER } kind;

#define LINE(id, name, kind, value, usual, least, most, help) {name, kind, value, usual, least, most, help},
static const struct {
    const char *name;
    kind        kind;
    const char *value, *usual;
    double      least, most;
    const char *help;
} option[OPT_COUNT] = {CLI_OPTION_LIST(LINE)};

/* ---- messages ---- */

int cli_fail(int code, const char *format, ...)
{
    va_list args;
    fflush(stdout);
    fputs("lockstep: ", stderr);
    va_start(args, format);
    if (vfprintf(stderr, format, args) <= 0) fputs("failed without a message; is there enough memory?", stderr);
    va_end(args);
    fputc('\n', stderr);
    return code;
}

int cli_fail_library(int code)
{
    cli_fail(code, "%s", cli_in_words(lk_error()));
    lk_clear_error();
    return code;
}

/* ---- words that are nearly right ---- */

static int least_of(int a, int b, int c)
{
    const int ab = a < b ? a : b;
    return ab < c ? ab : c;
}

/* The number of letters that are missing, extra or wrong. */
static int distance(const char *a, const char *b)
{
    enum { MOST = 64 };
    int before[MOST + 1], row[MOST + 1];
    int length = (int)strlen(b);
    if (length > MOST || strlen(a) > MOST) return MOST;
    for (int j = 0; j <= length; j++)
        before[j] = j;
    for (int i = 1; a[i - 1]; i++) {
        row[0] = i;
        for (int j = 1; j <= length; j++)
            row[j] = least_of(before[j] + 1, row[j - 1] + 1, before[j - 1] + (a[i - 1] != b[j - 1]));
        memcpy(before, row, sizeof row);
    }
    return before[length];
}

const char *cli_nearest(const char *text, int count, const char *const *known)
{
    const char *best = NULL;
    int         near = (int)strlen(text) / 3 + 2; /* further away it would be a guess */
    for (int i = 0; i < count; i++) {
        const bool begins = strlen(text) > 1 && !strncmp(known[i], text, strlen(text));
        const int  d = begins ? 1 : distance(text, known[i]);
        if (d >= near) continue;
        near = d;
        best = known[i];
    }
    return best;
}

/* ---- values ---- */

int cli_sizes(const char *text, int most, int64_t *out)
{
    int count = 0;
    while (count < most && isdigit((unsigned char)*text)) {
        char *end;
        errno = 0;
        const long long size = strtoll(text, &end, 10);
        if (errno || size < 1) return 0;
        out[count++] = size;
        if (!*end) return count;
        if (*end != 'x') return 0;
        text = end + 1;
    }
    return 0;
}

static void range_text(int id, char *text, size_t bytes)
{
    const double least = option[id].least, most = option[id].most;
    if (option[id].kind == WHOLE) snprintf(text, bytes, "an integer from %.0f to %.0f", least, most);
    else if (most > 1e9) snprintf(text, bytes, "a number above %g", least);
    else snprintf(text, bytes, "a number above %g and up to %g", least, most);
}

static bool in_range(int id, double value)
{
    if (!(value <= option[id].most)) return false;
    if (option[id].kind == WHOLE) return value >= option[id].least && value == floor(value);
    return value > option[id].least;
}

static int set_value(cli_args *a, int id, const char *text)
{
    a->text[id] = text;
    if (option[id].kind != WHOLE && option[id].kind != NUMBER) return CLI_FINE;
    char range[96], *end = NULL;
    bool plain = isdigit((unsigned char)*text) || *text == '.';
    a->number[id] = plain ? strtod(text, &end) : 0;
    if (plain && !*end && !strpbrk(text, "xX") && in_range(id, a->number[id])) return CLI_FINE;
    range_text(id, range, sizeof range);
    return cli_fail(CLI_USAGE, "%s: --%s %s: it should be %s", a->command->name, option[id].name, text, range);
}

int cli_take(cli_args *a, cli_option id, const char *text)
{
    a->given[id] = a->taken[id] = true;
    return set_value(a, id, cli_keep_text(text));
}

/* ---- options ---- */

static bool takes(const cli_command *c, int id)
{
    for (const cli_option *o = c->options; *o != OPT_COUNT; o++)
        if ((int)*o == id) return true;
    return false;
}

/* The option of this command whose name is the `length` first characters; -1: none. */
static int find_option(const cli_command *c, const char *name, size_t length)
{
    for (int id = 0; id < OPT_COUNT; id++)
        if (takes(c, id) && strlen(option[id].name) == length && !strncmp(option[id].name, name, length)) return id;
    return -1;
}

static int unknown_option(const cli_command *c, const char *name, size_t length)
{
    const char *known[OPT_COUNT + 1];
    char        text[64];
    int         count = 0;
    for (const cli_option *o = c->options; *o != OPT_COUNT; o++)
        known[count++] = option[*o].name;
    known[count++] = "help";
    snprintf(text, sizeof text, "%.*s", (int)length, name);
    const char *near = cli_nearest(text, count, known);
    if (near) return cli_fail(CLI_USAGE, "%s: there is no option --%s; is --%s meant?", c->name, text, near);
    return cli_fail(CLI_USAGE, "%s: there is no option --%s; `lockstep %s --help` lists them", c->name, text, c->name);
}

/* Read an option that begins with --; *at is moved if its value is a separate argument. */
static int read_option(cli_args *a, int argc, char *const *argv, int *at)
{
    const char  *name = argv[*at] + 2, *equals = strchr(name, '=');
    const size_t length = equals ? (size_t)(equals - name) : strlen(name);
    const int    id = find_option(a->command, name, length);
    if (id < 0) return unknown_option(a->command, name, length);
    if (a->given[id]) return cli_fail(CLI_USAGE, "%s: --%s is given twice", a->command->name, option[id].name);
    a->given[id] = true;
    if (option[id].kind == FLAG) {
        if (equals) return cli_fail(CLI_USAGE, "%s: --%s takes no value", a->command->name, option[id].name);
        a->text[id] = "";
        return CLI_FINE;
    }
    const char *value = equals ? equals + 1 : *at + 1 < argc ? argv[++*at] : NULL;
    if (!value || !*value || (!equals && !strncmp(value, "--", 2)))
        return cli_fail(CLI_USAGE, "%s: --%s wants a value: --%s %s", a->command->name, option[id].name, option[id].name,
                        option[id].value);
    return set_value(a, id, value);
}

static int read_word(cli_args *a, const char *text)
{
    if (a->words >= a->command->most)
        return cli_fail(CLI_USAGE, "%s: \"%s\" is one word too many; the form is: lockstep %s%s%s [options]", a->command->name,
                        text, a->command->name, *a->command->words ? " " : "", a->command->words);
    a->word[a->words++] = text;
    return CLI_FINE;
}

static int use_defaults(cli_args *a)
{
    for (int id = 0; id < OPT_COUNT; id++)
        if (!a->given[id] && option[id].usual && takes(a->command, id)) {
            const int code = set_value(a, id, option[id].usual);
            if (code) return code;
        }
    return CLI_FINE;
}

static bool wants_help(int argc, char *const *argv)
{
    for (int i = 2; i < argc && strcmp(argv[i], "--"); i++)
        if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) return true;
    return false;
}

int cli_wrong_form(const cli_command *c)
{
    return cli_fail(CLI_USAGE, "%s: the form is: lockstep %s %s [options]; `lockstep %s --help` tells more", c->name, c->name,
                    c->words, c->name);
}

int cli_parse(const cli_command *command, int argc, char *const *argv, cli_args *out, bool *help)
{
    *out = (cli_args){.argc = argc, .argv = argv, .command = command};
    *help = wants_help(argc, argv);
    bool options = true;
    for (int i = 2; i < argc && !*help; i++) {
        int code = CLI_FINE;
        if (options && !strcmp(argv[i], "--")) options = false;
        else if (options && !strncmp(argv[i], "--", 2)) code = read_option(out, argc, argv, &i);
        else if (options && argv[i][0] == '-' && argv[i][1])
            code =
                cli_fail(CLI_USAGE, "%s: there is no option %s; options begin with two dashes, as --help", command->name, argv[i]);
        else code = read_word(out, argv[i]);
        if (code) return code;
    }
    if (!*help && out->words < command->least) return cli_wrong_form(command);
    return *help ? CLI_FINE : use_defaults(out);
}

/* ---- help ---- */

static void print_option(const char *name, const char *value, const char *help, const char *usual)
{
    enum { COLUMN = 25 };
    char text[64];
    snprintf(text, sizeof text, "  --%s%s%s", name, value ? " " : "", value ? value : "");
    printf("%-*s %s", COLUMN, text, help);
    printf(usual ? "; default %s\n" : "\n", usual);
}

void cli_print_help(const cli_command *c)
{
    printf("lockstep %s%s%s [options]: %s\n\n", c->name, *c->words ? " " : "", c->words, c->help);
    for (const cli_option *o = c->options; *o != OPT_COUNT; o++)
        print_option(option[*o].name, option[*o].value, option[*o].help, option[*o].usual);
    print_option("help", NULL, "this", NULL);
    if (c->more) printf("\n%s", c->more);
    printf("\nMore: man lockstep-%s\n", c->name);
}
