/* The command line of every subcommand: one list of options, one parser, one help.
 *
 *     lockstep train basic --epochs 3 --batch=64        words: "basic"; options: epochs, batch
 *
 * An option is a line of CLI_OPTION_LIST; a command lists the options it has. An option that was not given has the text of its
 * default, which is parsed and checked like typed text. */
#ifndef LOCKSTEP_CLI_OPTIONS_H
#define LOCKSTEP_CLI_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

/* The exit status of the process. */
enum { CLI_FINE = 0, CLI_USAGE = 2, CLI_DATA = 3, CLI_FAILED = 4 };

/* id, name, kind, name of its value, default, least, most, help.
 *
 * FLAG has no value; TEXT any; WHOLE and NUMBER are from least to most, NUMBER without least itself. */
#define CLI_OPTION_LIST(X)                                                                                                         \
    X(DATA, "data", TEXT, "D", NULL, 0, 0, "digits, mnist, fashion-mnist, or files and folders (lockstep data --help)")            \
    X(VALIDATION, "validation", TEXT, "D", NULL, 0, 0, "evaluate on this after every epoch, instead of the test part of the data") \
    X(VALIDATION_SPLIT, "validation-split", NUMBER, "X", NULL, 0, 0.999,                                                           \
      "evaluate on this fraction of the rows, and do not train on it")                                                             \
    X(EPOCHS, "epochs", WHOLE, "E", "3", 1, 1e6, "how many times to train on all rows")                                            \
    X(STEPS, "steps", WHOLE, "S", NULL, 1, 1e12, "number of steps in all")                                                         \
    X(BATCH, "batch", WHOLE, "G", "64", 1, 1e7, "rows of a step, over all replicas")                                               \
    X(ROWS, "rows", WHOLE, "N", NULL, 1, 1e12, "use only the first N rows")                                                        \
    X(REPLICAS, "replicas", WHOLE, "N", NULL, 1, 1024, "use N logical CPU devices")                                                \
    X(DEVICES, "devices", TEXT, "LIST", NULL, 0, 0, "use these, such as CPU:0,CPU:1; default: all of the machine")                 \
    X(PRECISION, "precision", TEXT, "P", NULL, 0, 0, "how GPUs multiply: f32, tf32 or bf16. Changes bits")                         \
    X(LANES, "lanes", WHOLE, "V", NULL, 1, 1024, "lanes into which a batch is split: a power of two. Changes bits")                \
    X(THREADS, "threads", WHOLE, "T", NULL, 0, 1024, "cores to use; 0: all. Changes no bits")                                      \
    X(OPTIMIZER, "optimizer", TEXT, "NAME", NULL, 0, 0, "adam, sgd, rmsprop, adamw, ...; default adam, or the model's own")        \
    X(LEARNING_RATE, "learning-rate", NUMBER, "X", NULL, 0, 1e300, "default: the optimiser's own")                                 \
    X(LOSS, "loss", TEXT, "NAME", NULL, 0, 0, "default: the model's own, else by its output and the labels")                       \
    X(METRICS, "metrics", TEXT, "LIST", NULL, 0, 0, "such as accuracy,auc; default accuracy or mean absolute error")               \
    X(SEED, "seed", WHOLE, "S", NULL, 0, 9007199254740992., "seed of weights, order and dropout")                                  \
    X(SAVE, "save", TEXT, "DIR", NULL, 0, 0, "save model.keras, history.csv, history.svg and backups there")                       \
    X(SAVE_EVERY, "save-every", TEXT, "N|Ns", "5s", 0, 0, "with --save: back up training every N steps, or N seconds")             \
    X(RESUME, "resume", FLAG, NULL, NULL, 0, 0, "resume the run that --save DIR saved, on any number of replicas")                 \
    X(TENSORBOARD, "tensorboard", TEXT, "DIR", NULL, 0, 0, "write event files for TensorBoard")                                    \
    X(PLOT, "plot", TEXT, "FILE", NULL, 0, 0, "draw the curves into FILE.svg or FILE.png")                                         \
    X(OUT, "out", TEXT, "FILE", NULL, 0, 0, "write to FILE.npy, .npz or .csv; without it, lines to standard output")               \
    X(MODEL, "model", TEXT, "FILE", NULL, 0, 0, "the architecture: a .keras, .h5 or Keras JSON file")                              \
    X(JSON, "json", FLAG, NULL, NULL, 0, 0, "standard output is one JSON object, on the last line")                                \
    X(VERBOSE, "verbose", WHOLE, "0|1|2", "1", 0, 2, "nothing, progress, or a line per epoch")                                     \
    X(LABEL, "label", TEXT, "COLUMN", NULL, 0, 0,                                                                                  \
      "CSV: the label: a name, #0, #-1; default: label, class, target, y, or the last")                                            \
    X(NO_HEADER, "no-header", FLAG, NULL, NULL, 0, 0, "CSV: the first line has no names")                                          \
    X(TEXT_LABELS, "text-labels", FLAG, NULL, NULL, 0, 0, "CSV: labels are text")                                                  \
    X(DELIMITER, "delimiter", TEXT, "C", NULL, 0, 0, "CSV: separator of fields; \\t: a tab; default a comma")                      \
    X(FEATURES, "features", TEXT, "LIST", NULL, 0, 0, "TFRecord: its features, the label last: image:u8:28x28,label:i64")          \
    X(IMAGE_SIZE, "image-size", TEXT, "HxW", NULL, 0, 0, "folders of pictures: resize them to this; HxWx1: grey")                  \
    X(SCALE, "scale", NUMBER, "X", NULL, 0, 1e300, "divide the model's input by X; default 255 for pictures, else 1")

#define CLI_OPTION_ID(id, ...) OPT_##id,
typedef enum cli_option { CLI_OPTION_LIST(CLI_OPTION_ID) OPT_COUNT } cli_option;
#undef CLI_OPTION_ID

/* Options of several commands. */
#define CLI_DATA_OPTIONS OPT_LABEL, OPT_NO_HEADER, OPT_TEXT_LABELS, OPT_DELIMITER, OPT_FEATURES, OPT_IMAGE_SIZE, OPT_SCALE
#define CLI_DEVICE_OPTIONS OPT_REPLICAS, OPT_DEVICES, OPT_PRECISION, OPT_LANES, OPT_THREADS
#define CLI_OPTIONS(...) ((const cli_option[]){__VA_ARGS__, OPT_COUNT})

enum { CLI_MOST_WORDS = 4 };
typedef struct cli_args {
    int                       words;
    const char               *word[CLI_MOST_WORDS];
    bool                      given[OPT_COUNT]; /* typed, or taken from a run; false: the default */
    bool                      taken[OPT_COUNT]; /* taken from a run, not typed */
    const char               *text[OPT_COUNT];  /* NULL: not given, and without a default */
    double                    number[OPT_COUNT];
    int                       argc; /* argv of the process, for `resume with: ...` */
    char *const              *argv;
    const struct cli_command *command;
} cli_args;

typedef struct cli_command {
    const char       *name;
    const char       *words; /* "MODEL": the words before the options, for the help */
    int               least, most;
    const char       *help;    /* one line */
    const char       *more;    /* below the options; or NULL */
    const cli_option *options; /* OPT_COUNT ends them */
    int (*run)(const cli_args *args);
} cli_command;

/* Read argv[2] and on; CLI_FINE, or CLI_USAGE with the message printed. *help: --help was given, and nothing else was parsed. */
int cli_parse(const cli_command *command, int argc, char *const *argv, cli_args *out, bool *help);

/* Set an option as if it had been typed, but marked as taken from a run. The text is copied. CLI_USAGE, with the message printed,
 * for a value that is out of range. */
int cli_take(cli_args *args, cli_option option, const char *text);

/* Print the error for missing words. */
int cli_wrong_form(const cli_command *command);

/* The help of a command, on standard output. */
void cli_print_help(const cli_command *command);

/* Print "lockstep: ..." as one line on standard error, and return `code`. */
int cli_fail(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The same with the library's error, in the command's words (words.h); clears the library's error. */
int cli_fail_library(int code);

/* The known word most similar to `text`; NULL: none is similar. */
const char *cli_nearest(const char *text, int count, const char *const *known);

/* "28x28x1" as numbers, at most `most` of them; 0: the text does not have this form. */
int cli_sizes(const char *text, int most, int64_t *out);

#endif
