/* The model that a word on the command line names, and how it is compiled (compile.c).
 *
 *     basic, fashion, mlp        built in: sized to fit the rows and labels of the data
 *     FILE.keras, DIR            with its weights and, if it has them, its optimiser and loss; DIR: saved by --save DIR
 *     FILE.json                  model.to_json() of Keras: weights have initial values */
#ifndef LOCKSTEP_CLI_MODELS_H
#define LOCKSTEP_CLI_MODELS_H

#include "options.h"
#include "sources.h"
#include <lockstep.h>

typedef struct cli_model {
    const char *text;  /* as it was typed */
    lk_model   *model; /* NULL: built in, and not made yet */
    int         built_in;
    int         inputs, outputs;
    lk_shape    row; /* of its first input, where it is known; sizes that are not fixed are -1 */
    bool        has_row;
    bool        rescales;   /* it has a Rescaling layer: pictures come as they are */
    const char *uncompiled; /* why it is not compiled as its file says; NULL: it is, or the file says nothing */
} cli_model;

/* Find the model; one of a file is loaded, under the strategy. CLI_USAGE for a name that means nothing, CLI_DATA for files. */
int cli_model_find(const char *text, lk_strategy *strategy, cli_model *out);

/* Make one that is built in, for rows and labels of this data. */
int cli_model_make(cli_model *m, lk_strategy *strategy, cli_source *data);

/* The same for rows of this shape and this number of outputs. */
int cli_model_make_for(cli_model *m, lk_strategy *strategy, lk_shape row, int64_t outputs);

/* Warn that it is not compiled as its file says, where that is so; then it counts as one whose file says nothing. */
void cli_model_warn(cli_model *m);

/* Compile by the options. One that is compiled already keeps its optimiser, its losses and its metrics, unless others are asked
 * for. A file that says how it was compiled, which could not be taken over, is CLI_DATA until the options say it. */
int cli_model_compile(cli_model *m, const cli_args *args, cli_source *data);

/* The same, whatever the model was compiled with. */
int cli_model_compile_anew(cli_model *m, const cli_args *args, cli_source *data);

/* Whether the labels of rows to measure with are such as its losses take. */
int cli_model_labels_fit(const cli_model *m, cli_source *data);

/* What it puts out for a row: a shape for each output, of a row of zeros that is tried. */
enum { CLI_MOST_TENSORS = 8 }; /* of a row: inputs and labels */
int cli_model_probe(cli_model *m, cli_source *data, lk_shape out[CLI_MOST_TENSORS]);

/* How many numbers the model puts out per row: [.., n]; 0: not known. */
int64_t cli_model_outputs(cli_model *m, cli_source *data);

#endif
