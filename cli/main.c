/* lockstep: the command. It finds the subcommand, reads its options and calls it; everything else is in a file per subcommand. */
#include "commands.h"
#include "files.h"
#include "report.h"
#include "session.h"
#include <lockstep.h>
#include <stdio.h>
#include <string.h>

static const cli_command *const commands[] = {&cli_train,   &cli_evaluate, &cli_predict, &cli_summary, &cli_convert, &cli_inspect,
                                              &cli_devices, &cli_data,     &cli_plot,    &cli_bench,   &cli_doctor};
enum { COMMANDS = sizeof commands / sizeof *commands };

static void print_usage(FILE *to)
{
    fputs("lockstep COMMAND [options]: train neural networks on many devices at once\n\n", to);
    for (int i = 0; i < COMMANDS; i++)
        fprintf(to, "  %-10s %s\n", commands[i]->name, commands[i]->help);
    fputs("  help       of a command: lockstep help train\n\n"
          "lockstep train basic        trains a small network on drawn digits, with no file and no network\n"
          "lockstep --version          prints the version\n",
          to);
}

static const cli_command *find_command(const char *name)
{
    for (int i = 0; i < COMMANDS; i++)
        if (!strcmp(commands[i]->name, name)) return commands[i];
    return NULL;
}

static int unknown_command(const char *name)
{
    const char *known[COMMANDS];
    for (int i = 0; i < COMMANDS; i++)
        known[i] = commands[i]->name;
    const char *near = cli_nearest(name, COMMANDS, known);
    if (near) return cli_fail(CLI_USAGE, "there is no command %s; is `lockstep %s` meant?", name, near);
    return cli_fail(CLI_USAGE, "there is no command %s; `lockstep --help` lists them", name);
}

static int help(const char *name)
{
    const cli_command *command = name ? find_command(name) : NULL;
    if (name && !command) return unknown_command(name);
    if (command) cli_print_help(command);
    else print_usage(stdout);
    return CLI_FINE;
}

static int run(const cli_command *command, int argc, char **argv)
{
    cli_args args;
    bool     wants_help;
    cli_log_to_stderr();
    const int code = cli_parse(command, argc, argv, &args, &wants_help);
    if (code) return code;
    return wants_help ? help(command->name) : command->run(&args);
}

/* Printed text may not have arrived: a full disk is noticed when the rest is written. */
static int finish(int code)
{
    if (fflush(stdout) == 0 && !ferror(stdout)) return code;
    return code ? code : cli_fail(CLI_DATA, "standard output could not be written");
}

int main(int argc, char **argv)
{
    cli_open_standard();
    cli_clock_start();
    if (argc < 2) return print_usage(stderr), CLI_USAGE;
    const char *name = argv[1];
    if (!strcmp(name, "--version")) {
        printf("lockstep %s\n", lk_version());
        return finish(CLI_FINE);
    }
    if (!strcmp(name, "help") || !strcmp(name, "--help") || !strcmp(name, "-h")) return finish(help(argc > 2 ? argv[2] : NULL));
    const cli_command *command = find_command(name);
    return command ? finish(run(command, argc, argv)) : unknown_command(name);
}
