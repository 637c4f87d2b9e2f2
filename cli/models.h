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
    const char *text;  /* as typed */
    lk_model   *model; /* NULL: built in, and not made yet */
    int         built_in;
    int         inputs, outputs;
    lk_shape    row; /* of its first input, if known; sizes that are not fixed are -1 */
    bool        has_row;
    bool        rescales;   /* it has a Rescaling layer: values of pictures stay as they are */
    const char *uncompiled; /* why it is not compiled as its file says; NULL: it is, or the file does not say */
} cli_model;

/* Find the model; one in a file is loaded, under the strategy. CLI_USAGE for an unknown name, CLI_DATA for files. */
int cli_model_find(const char *text, lk_strategy *strategy, cli_model *out);

/* Make a built-in model, for rows and labels of this data. */
int cli_model_make(cli_model *m, lk_strategy *strategy, cli_source *data);

/* The same for rows of this shape and this number of outputs. */
int cli_model_make_for(cli_model *m, lk_strategy *strategy, lk_shape row, int64_t outputs);

/* Warn if it is not compiled as its file says; from then on it counts as one whose file does not say. */
void cli_model_warn(cli_model *m);

/* Compile by the options. A model that is compiled already keeps its optimiser, its losses and its metrics, unless options name
 * others. If the compile arguments in the file could not be used, it is CLI_DATA until the options give them. */
int cli_model_compile(cli_model *m, const cli_args *args, cli_source *data);

/* The same, ignoring what the model was compiled with. */
int cli_model_compile_anew(cli_model *m, const cli_args *args, cli_source *data);

/* Checks that the labels of rows for evaluation are valid for its losses. */
int cli_model_labels_fit(const cli_model *m, cli_source *data);

/* The shape of each output for a row, from running the model on a row of zeros. */
enum { CLI_MOST_TENSORS = 8 }; /* of a row: inputs and labels */
int cli_model_probe(cli_model *m, cli_source *data, lk_shape out[CLI_MOST_TENSORS]);

/* How many numbers the model outputs per row: [.., n]; 0: unknown. */
int64_t cli_model_outputs(cli_model *m, cli_source *data);

#endif
