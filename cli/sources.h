/* The rows that a word on the command line stands for.
 *
 *     digits, mnist, fashion-mnist       rows to train with and others to test
 *     FILE.csv[.gz], FILE.tsv[.gz]       --label, --no-header, --text-labels, --delimiter
 *     FILE.npz, X.npy,Y.npy              x_train, y_train, x_test, y_test; or x, y
 *     FILE.tfrecord[.gz]                 --features
 *     FOLDER                             with a folder of pictures per class, below train/ and test/ or not; or with IDX files
 *
 * Several files of one kind are separated by commas. */
#ifndef LOCKSTEP_CLI_SOURCES_H
#define LOCKSTEP_CLI_SOURCES_H

#include "options.h"
#include <lockstep.h>

/* How the first tensor of a row is changed for a model. */
typedef struct cli_fitting {
    lk_shape shape;
    bool     reshapes;
    double   scale; /* divided by it; 0: the values stay as they are */
} cli_fitting;

/* It must not move: datasets refer to `fitting`. */
typedef struct cli_source {
    const char *text;         /* as it was typed */
    const char *kind;         /* "CSV", ... */
    lk_dataset *train, *test; /* rows (x.., y..), in order; test NULL: there is none */
    lk_dataset *as_read;      /* train before it was fitted to a model; NULL: it was not */
    bool        pictures;     /* values from 0 to 255 */
    int64_t     classes;      /* 0: not known */
    cli_fitting fitting;
} cli_source;

typedef struct cli_wants {
    const lk_shape *row;        /* the shape of the model's input; NULL: not known yet */
    bool            unlabelled; /* labels may be missing */
    bool            verified;   /* files that were downloaded before are checked, and downloaded again if damaged */
    bool            any_value;  /* values may be missing, or infinite */
} cli_wants;

/* Opens, and mostly reads, the files. CLI_DATA, with the message printed, if they are missing or wrong. */
int cli_source_open(const cli_args *args, const char *text, cli_wants wants, cli_source *out);

/* CLI_USAGE for an option about files of a kind that neither has, by their names: nothing is read. other NULL: there is none. */
int cli_sources_use(const cli_args *args, const char *data, const char *other);

/* Fit rows to a model: its input shape, if the sizes agree, and its range of values. */
int cli_source_fit(cli_source *s, const cli_args *args, const lk_shape *row, bool rescales);

/* The types and shapes of a row. */
int cli_source_spec(cli_source *s, lk_element_spec *out);

/* True if this is an error message about a record, which does not name its file. */
bool cli_lacks_file(const cli_source *s, const char *text);

/* How many outputs a model needs for it: as many as there are classes, or numbers in a label. */
int cli_source_outputs(cli_source *s, int64_t *out);

/* Use the last rows, a fraction of them, as its test part. For folders of pictures that was done when they were opened. */
int cli_source_split(cli_source *s, double share);

/* Rows for evaluation: the test part, else all. */
lk_dataset *cli_source_measured(const cli_source *s);

/* Calls fn with the label of each row, in order, until it returns false. A label is the last tensor of a row, one number. */
typedef bool (*cli_label_fn)(int64_t row, double label, void *user);
void cli_source_each_label(lk_dataset *rows, cli_label_fn fn, void *user);

/* The first row whose label is not one of 0..classes-1; -1: there is none. */
int64_t cli_source_bad_label(lk_dataset *rows, int64_t classes, double *label);

/* The kind of the labels for training: tensor `at` of a row, of any size. All rows are read, unless the data knows its number of
 * classes. */
typedef struct cli_labels {
    int64_t rows;    /* that were read; 0: none, the number of classes is known */
    bool    binary;  /* all are 0 or 1 */
    bool    shares;  /* all are from 0 to 1 */
    bool    one_hot; /* along the last axis one is 1 and the others are 0 */
    int64_t row;     /* if not all are 0 or 1: the first row with another label, from 0, */
    double  label;   /* and that label */
} cli_labels;
int cli_source_labels(cli_source *s, int at, cli_labels *out);

/* The number of elements: 0 if a size is 0, INT64_MAX if it overflows, and negative if a size is unknown. */
int64_t cli_shape_size(lk_shape s);
int64_t cli_shape_width(lk_shape s); /* of the last axis; 1 where there is none */

/* "[28, 28, 1]" in `text`, which it returns. */
enum { CLI_SHAPE_TEXT = 128 };
const char *cli_shape_text(lk_shape s, char text[CLI_SHAPE_TEXT]);

/* Names of data sets, for help and completion; NULL ends them. */
extern const char *const cli_data_names[];
bool                     cli_is_named(const char *text); /* it is one of these names, and not a file */

/* Of an IDX file; NULL, and the message is printed. */
lk_tensor *cli_idx_read(const char *path);

/* The features of a record of tf.train.Example, in the form of --features: "image:u8:784,label:i64". False: it is not such a
 * record. */
bool cli_example_features(const uint8_t *record, int64_t size, char *text, size_t room);

#endif
