/* lockstep data: listing data sets, downloading them, and describing files. */
#include "commands.h"
#include "paths.h"
#include "places.h"
#include "report.h"
#include "sources.h"
#include <dirent.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* ---- list and fetch ---- */

static int list_data(void)
{
    char folder[CLI_MOST_PATH];
    printf("digits         60,000 rows and 10,000 for testing, drawn as they are needed: no file\n");
    for (const char *const *name = cli_data_names + 1; *name; name++)
        if (lk_mnist_find(*name, folder, sizeof folder) == LK_OK)
            printf("%-14s 60,000 rows and 10,000 for testing, in %s\n", *name, folder);
        else printf("%-14s 60,000 rows and 10,000 for testing, %s\n", *name, cli_why_missing(*name, folder));
    printf("Files and folders: .csv, .tsv, .npz, X.npy,Y.npy, .tfrecord, folders of pictures, IDX files. See lockstep-data(1).\n");
    return CLI_FINE;
}

static int fetch_data(const cli_args *a)
{
    cli_source s;
    char       folder[CLI_MOST_PATH];
    bool       known = false;
    for (const char *const *name = cli_data_names; *name; name++)
        known = known || !strcmp(*name, a->word[1]);
    if (!known)
        return cli_fail(CLI_USAGE, "data fetch: there is no data set %s; mnist and fashion-mnist can be fetched", a->word[1]);
    int code = cli_source_open(a, a->word[1], (cli_wants){.verified = true}, &s); /* downloads missing files */
    if (code) return code;
    if (!strcmp(a->word[1], "digits")) printf("digits are drawn as they are needed; there is nothing to fetch\n");
    else if (lk_mnist_find(a->word[1], folder, sizeof folder) == LK_OK) printf("%s is in %s\n", a->word[1], folder);
    return lk_failed() ? cli_fail_library(CLI_DATA) : CLI_FINE;
}

/* ---- inspect: classes ---- */

enum { MOST_CLASSES = 1000, SHOWN_CLASSES = 20, SHOWN_ROWS = 3, SHOWN_VALUES = 8 };

typedef struct counts {
    int64_t of[MOST_CLASSES], rows, classes;
    double  least, most;
    bool    whole;
} counts;

static bool count_label(int64_t row, double label, void *user)
{
    counts    *c = user;
    const bool class_like = label >= 0 && label < MOST_CLASSES && label == floor(label);
    c->rows = row + 1;
    c->least = row ? fmin(c->least, label) : label;
    c->most = row ? fmax(c->most, label) : label;
    c->whole = c->whole && class_like;
    if (!class_like) return true;
    c->of[(int)label]++;
    if ((int64_t)label >= c->classes) c->classes = (int64_t)label + 1;
    return true;
}

static void print_counts(const counts *c)
{
    if (!c->whole) {
        printf("labels     from %g to %g\n", c->least, c->most);
        return;
    }
    printf("classes   ");
    for (int64_t i = 0; i < c->classes && i < SHOWN_CLASSES; i++)
        printf("%s %" PRId64 ": %s", i ? "," : "", i, cli_with_commas(c->of[i]));
    printf(c->classes > SHOWN_CLASSES ? ", ... up to %" PRId64 "\n" : "\n", c->classes - 1);
}

static int64_t pictures_in(const char *folder, const char *class_name)
{
    char    path[2 * CLI_MOST_PATH];
    int64_t count = 0;
    snprintf(path, sizeof path, "%s/%s", folder, class_name);
    DIR *d = opendir(path);
    for (const struct dirent *e; d && (e = readdir(d));)
        count += strstr(e->d_name, ".png") || strstr(e->d_name, ".jp") || strstr(e->d_name, ".JP") || strstr(e->d_name, ".PNG");
    if (d) closedir(d);
    return count;
}

/* Pictures are counted by their names: reading them all would take long. */
static void print_folders(const cli_source *s)
{
    char           train[CLI_MOST_PATH];
    struct stat    st;
    const lk_names names = lk_class_names(s->train);
    snprintf(train, sizeof train, "%s/train", s->text);
    const char *folder = stat(train, &st) == 0 ? train : s->text;
    printf("classes   ");
    for (int i = 0; i < names.count && i < SHOWN_CLASSES; i++)
        printf("%s %s: %s", i ? "," : "", names.item[i], cli_with_commas(pictures_in(folder, names.item[i])));
    printf(names.count > SHOWN_CLASSES ? ", ... (%d)\n" : "\n", names.count);
}

/* ---- inspect: rows ---- */

static void print_values(lk_tensor *t)
{
    lk_tensor    *as = lk_cast(t, LK_F64);
    const double *value = lk_data(as);
    const int64_t size = lk_size(as);
    double        least = INFINITY, most = -INFINITY, sum = 0;
    for (int64_t i = 0; value && i < size; i++)
        least = fmin(least, value[i]), most = fmax(most, value[i]), sum += value[i];
    if (!value) return;
    if (size > SHOWN_VALUES) printf(" %g to %g, mean %.4g;", least, most, sum / (double)size);
    else
        for (int64_t i = 0; i < size; i++)
            printf(" %g", value[i]);
}

static void print_rows(lk_dataset *rows)
{
    int n = 0;
    LK_FOR_EACH(row, lk_dataset_take(rows, SHOWN_ROWS)) {
        printf("row %-6d", n++);
        for (int i = 0; i < row.count; i++) {
            if (i) printf(i == row.count - 1 ? "  label" : "  and");
            print_values(row.item[i]);
        }
        printf("\n");
    }
}

static void print_size(const char *what, const lk_dataset *d)
{
    const int64_t rows = lk_dataset_cardinality(d);
    if (rows >= 0) printf("%-10s %s\n", what, cli_with_commas(rows));
}

static void print_tensors(const lk_element_spec *spec)
{
    char text[CLI_SHAPE_TEXT], name[24];
    for (int i = 0; i < spec->count; i++) {
        snprintf(name, sizeof name, "input %d", i);
        printf("%-10s %s %s\n",
               i == 0 && spec->count <= 2 ? "input"
               : i == spec->count - 1     ? "label"
                                          : name,
               lk_dtype_name(spec->dtype[i]), cli_shape_text(spec->shape[i], text));
    }
}

/* ---- inspect ---- */

/* Records whose contents are not known yet. */
static int inspect_records(const char *path)
{
    char    features[1024] = "";
    int64_t records = 0, bytes = 0;
    LK_FOR_EACH(record, lk_tfrecord_dataset(LK_FILES(path))) {
        if (!records++) cli_example_features(lk_data(record.item[0]), lk_size(record.item[0]), features, sizeof features);
        bytes += lk_size(record.item[0]);
    }
    if (lk_failed()) return cli_fail_library(CLI_DATA);
    printf("%s: TFRecord\nrecords    %s, %s bytes\n", path, cli_with_commas(records), cli_with_commas(bytes));
    if (*features) printf("--features %s\n", features);
    return CLI_FINE;
}

/* Arrays with their names. */
static int inspect_arrays(const char *path)
{
    const lk_names names = lk_npz_names(path);
    if (!lk_failed()) printf("%s: NPZ\n", path);
    for (int i = 0; i < names.count && !lk_failed(); i++)
        LK_STEP {
            char       text[CLI_SHAPE_TEXT];
            lk_tensor *t = lk_npz_read(path, names.item[i]);
            if (!lk_poisoned(t))
                printf("%-10s %s %s\n", names.item[i], lk_dtype_name(lk_tensor_dtype(t)), cli_shape_text(lk_tensor_shape(t), text));
        }
    return lk_failed() ? cli_fail_library(CLI_DATA) : CLI_FINE;
}

static bool has_rows(const char *path)
{
    const lk_names names = lk_npz_names(path);
    for (int i = 0; i < names.count; i++)
        if (!strcmp(names.item[i], "x") || !strcmp(names.item[i], "x_train")) return true;
    return false;
}

/* Files that need a description of their contents. */
static bool is_tfrecord(const char *text) { return strstr(text, ".tfrecord") && !strchr(text, ','); }
static bool is_npz(const char *text) { return strlen(text) > 4 && !strcmp(text + strlen(text) - 4, ".npz"); }

static int inspect_data(const cli_args *a)
{
    static cli_source s;
    static counts     c = {.whole = true};
    lk_element_spec   spec;
    struct stat       st;
    const bool        there = stat(a->word[1], &st) == 0;
    if (there && is_tfrecord(a->word[1]) && !a->given[OPT_FEATURES]) return inspect_records(a->word[1]);
    if (there && is_npz(a->word[1]) && !has_rows(a->word[1])) return inspect_arrays(a->word[1]);
    int code = cli_sources_use(a, a->word[1], NULL);
    if (!code) code = cli_source_open(a, a->word[1], (cli_wants){.unlabelled = true, .any_value = true}, &s);
    if (!code) code = cli_source_spec(&s, &spec);
    if (code) return code;
    const bool pictures = !strcmp(s.kind, "pictures"), single = spec.count > 1 && spec.shape[spec.count - 1].rank == 0;
    if (!pictures && single) cli_source_each_label(s.train, count_label, &c);
    if (lk_failed()) return cli_fail_library(CLI_DATA);
    printf("%s: %s\n", s.text, s.kind);
    print_size("rows", s.train);
    if (s.test) print_size("to test", s.test);
    if (lk_dataset_cardinality(s.train) < 0 && c.rows) printf("rows       %s\n", cli_with_commas(c.rows));
    print_tensors(&spec);
    if (pictures) print_folders(&s);
    else if (c.rows) print_counts(&c);
    print_rows(s.train);
    return lk_failed() ? cli_fail_library(CLI_DATA) : CLI_FINE;
}

static int run_data(const cli_args *a)
{
    const char *what = a->word[0];
    if (!strcmp(what, "list") && a->words == 1) return list_data();
    if (!strcmp(what, "fetch") && a->words == 2) return fetch_data(a);
    if (!strcmp(what, "inspect") && a->words == 2) return inspect_data(a);
    return cli_fail(CLI_USAGE, "data: it should be `data list`, `data fetch NAME` or `data inspect D`");
}

const cli_command cli_data = {
    .name = "data",
    .words = "list|fetch NAME|inspect D",
    .least = 1,
    .most = 2,
    .help = "list, download and inspect data",
    .more = "D is one of\n"
            "  digits, mnist, fashion-mnist       with training and test rows\n"
            "  FILE.csv[.gz], FILE.tsv[.gz]       numbers, one column of them the label\n"
            "  FILE.npz                           x_train, y_train, x_test, y_test; or x, y\n"
            "  X.npy,Y.npy                        arrays of rows\n"
            "  FILE.tfrecord[.gz]                 records of tf.train.Example, described by --features\n"
            "  FOLDER                             CLASS/PICTURE.png, with or without train/ and test/ above; or IDX files\n"
            "Several files of one kind are separated by commas.\n",
    .options = CLI_OPTIONS(OPT_ROWS, CLI_DATA_OPTIONS),
    .run = run_data,
};
