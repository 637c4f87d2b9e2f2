/* Data by name and from files (sources.h). */
#include "sources.h"
#include "core/size.h"
#include "paths.h"
#include "readers.h"
#include "words.h"
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- small things ---- */

const char *cli_shape_text(lk_shape s, char text[CLI_SHAPE_TEXT])
{
    int used = snprintf(text, CLI_SHAPE_TEXT, "[");
    for (int i = 0; i < s.rank && used < CLI_SHAPE_TEXT; i++)
        used +=
            snprintf(text + used, (size_t)(CLI_SHAPE_TEXT - used), s.dim[i] < 0 ? "%s?" : "%s%" PRId64, i ? ", " : "", s.dim[i]);
    if (used < CLI_SHAPE_TEXT) snprintf(text + used, (size_t)(CLI_SHAPE_TEXT - used), "]");
    return text;
}

int64_t cli_shape_size(lk_shape s)
{
    int64_t size = 1;
    bool    known = true;
    for (int i = 0; i < s.rank; i++) {
        known = known && s.dim[i] >= 0;
        if (s.dim[i] >= 0) size = lki_size_mul(size, s.dim[i]);
    }
    return known ? size : -1;
}

int64_t cli_shape_width(lk_shape s) { return s.rank > 0 ? s.dim[s.rank - 1] : 1; }

/* ---- by name ---- */

const char *const cli_data_names[] = {"digits", "mnist", "fashion-mnist", NULL};

static int open_digits(const cli_opening *o, cli_source *s)
{
    (void)o;
    s->train = lk_digits(.split = LK_TRAIN);
    s->test = lk_digits(.split = LK_TEST);
    return s->train && s->test ? CLI_FINE : cli_fail_library(CLI_DATA);
}

/* Downloaded files can be downloaded again; a folder that LOCKSTEP_DATA names belongs to the user. */
static int unreadable(const char *name)
{
    const char *own = getenv("LOCKSTEP_DATA");
    if (lk_error_code() != LK_EFORMAT || (own && *own)) return cli_fail_library(CLI_DATA);
    cli_fail(CLI_DATA, "%s; `lockstep data fetch %s` downloads it again", cli_in_words(lk_error()), name);
    lk_clear_error();
    return CLI_DATA;
}

static int open_mnist(const cli_opening *o, cli_source *s)
{
    s->train = lk_mnist(.split = LK_TRAIN, .verify = o->wants.verified ? LK_ON : LK_OFF);
    s->test = s->train ? lk_mnist(.split = LK_TEST, .verify = o->wants.verified ? LK_ON : LK_OFF) : NULL;
    return s->test ? CLI_FINE : unreadable("mnist");
}

static int open_fashion_mnist(const cli_opening *o, cli_source *s)
{
    s->train = lk_fashion_mnist(.split = LK_TRAIN, .verify = o->wants.verified ? LK_ON : LK_OFF);
    s->test = s->train ? lk_fashion_mnist(.split = LK_TEST, .verify = o->wants.verified ? LK_ON : LK_OFF) : NULL;
    return s->test ? CLI_FINE : unreadable("fashion-mnist");
}

/* ---- which kind it is ---- */

typedef int (*open_fn)(const cli_opening *o, cli_source *s);

static const struct {
    const char *name;
    open_fn     open;
    bool        pictures;
    int64_t     classes;
} named[] = {{"digits", open_digits, true, 10}, {"mnist", open_mnist, true, 10}, {"fashion-mnist", open_fashion_mnist, true, 10}};

static const struct {
    const char *end, *kind;
    open_fn     open;
} files[] = {{".csv", "CSV", cli_open_csv},
             {".tsv", "CSV", cli_open_csv},
             {".npz", "NPZ", cli_open_npz},
             {".npy", "NPY", cli_open_npy},
             {".tfrecord", "TFRecord", cli_open_tfrecord},
             {".tfrecords", "TFRecord", cli_open_tfrecord},
             {"idx1-ubyte", "IDX", cli_open_idx},
             {"idx3-ubyte", "IDX", cli_open_idx}};

static const struct {
    bool (*is)(const char *folder);
    const char *kind;
    open_fn     open;
    bool        pictures;
} folders[] = {{cli_is_idx_folder, "IDX", cli_open_idx_folder, true}, {cli_is_picture_folder, "pictures", cli_open_pictures, true}};

static int unknown_data(const char *text)
{
    if (cli_is_folder(text))
        return cli_fail(CLI_DATA, "%s: has neither folders of pictures, one per class, nor IDX files in it", text);
    if (cli_is_file(text))
        return cli_fail(
            CLI_DATA,
            "%s: unknown kind of file; known names end in .csv, .tsv, .tfrecord (also with .gz), .npz, .npy or -idx3-ubyte", text);
    const char *near = cli_nearest(text, 3, cli_data_names);
    if (strpbrk(text, "/.")) return cli_fail(CLI_DATA, "%s: %s", text, strerror(ENOENT));
    if (near) return cli_fail(CLI_DATA, "there is no data %s; is %s meant?", text, near);
    return cli_fail(CLI_DATA, "there is no data %s; it should be digits, mnist, fashion-mnist, or a file or folder", text);
}

static int files_there(const cli_opening *o)
{
    for (int i = 1; i <= o->count; i++)
        if (access(o->one_based[i], R_OK) != 0) return cli_fail(CLI_DATA, "%s: %s", o->one_based[i], strerror(errno));
    return CLI_FINE;
}

/* By the ending of its name, also before .gz; -1: none of these. */
static int file_kind(const char *path)
{
    char name[CLI_MOST_PATH];
    snprintf(name, sizeof name, "%s", path);
    if (cli_ends_in(name, ".gz")) name[strlen(name) - 3] = 0;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (cli_ends_in(name, files[i].end)) return (int)i;
    return -1;
}

static int open_files(const cli_opening *o, cli_source *s)
{
    const int kind = file_kind(o->one_based[1]), code = kind < 0 ? unknown_data(s->text) : files_there(o);
    if (code) return code;
    s->kind = files[kind].kind;
    return files[kind].open(o, s);
}

static int find_named(const char *text)
{
    for (size_t i = 0; i < sizeof named / sizeof *named; i++)
        if (!strcmp(text, named[i].name)) return (int)i;
    return -1;
}

bool cli_is_named(const char *text) { return find_named(text) >= 0; }

static int find_folder(const char *path)
{
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
        if (folders[i].is(path)) return (int)i;
    return -1;
}

static int open_named(const cli_opening *o, int i, cli_source *s)
{
    s->kind = named[i].name;
    s->pictures = named[i].pictures;
    s->classes = named[i].classes;
    return named[i].open(o, s);
}

static int open_folder(cli_opening *o, cli_source *s)
{
    const int i = find_folder(s->text);
    if (i < 0) return unknown_data(s->text);
    o->one_based[o->count = 1] = s->text;
    s->kind = folders[i].kind;
    s->pictures = folders[i].pictures;
    return folders[i].open(o, s);
}

static int open_any(cli_opening *o, cli_source *s)
{
    if (find_named(s->text) >= 0) return open_named(o, find_named(s->text), s);
    if (cli_is_folder(s->text)) return open_folder(o, s);
    if (cli_is_file(s->text)) o->one_based[o->count = 1] = s->text;
    else o->count = cli_split(s->text, o->one_based);
    return o->count ? open_files(o, s) : unknown_data(s->text);
}

/* The kind it will be opened as; NULL: none. */
static const char *kind_of(const char *text)
{
    const char *one_based[CLI_MOST_NAMES + 1] = {NULL, text};
    if (find_named(text) >= 0) return named[find_named(text)].name;
    if (cli_is_folder(text)) return find_folder(text) < 0 ? NULL : folders[find_folder(text)].kind;
    if (!cli_is_file(text) && !cli_split(text, one_based)) return NULL;
    return file_kind(one_based[1]) < 0 ? NULL : files[file_kind(one_based[1])].kind;
}

int cli_source_open(const cli_args *args, const char *text, cli_wants wants, cli_source *out)
{
    cli_opening o = {.args = args, .wants = wants};
    *out = (cli_source){.text = text};
    int code = open_any(&o, out);
    if (code || !args->given[OPT_ROWS]) return code;
    const int64_t rows = (int64_t)args->number[OPT_ROWS];
    out->train = lk_dataset_take(out->train, rows);
    if (out->test) out->test = lk_dataset_take(out->test, rows);
    return lk_failed() ? cli_fail_library(CLI_DATA) : CLI_FINE;
}

static const struct {
    cli_option  option;
    const char *name, *kind;
} uses[] = {
    {OPT_LABEL, "label", "CSV"},         {OPT_NO_HEADER, "no-header", "CSV"},    {OPT_TEXT_LABELS, "text-labels", "CSV"},
    {OPT_DELIMITER, "delimiter", "CSV"}, {OPT_FEATURES, "features", "TFRecord"}, {OPT_IMAGE_SIZE, "image-size", "pictures"}};

int cli_sources_use(const cli_args *a, const char *data, const char *other)
{
    const char *kind = kind_of(data), *other_kind = other ? kind_of(other) : "";
    if (!kind || !other_kind) return CLI_FINE; /* opening it reports what is wrong */
    for (size_t i = 0; i < sizeof uses / sizeof *uses; i++) {
        const bool asked = a->given[uses[i].option] && !a->taken[uses[i].option];
        if (asked && strcmp(kind, uses[i].kind) && strcmp(other_kind, uses[i].kind))
            return cli_fail(CLI_USAGE, "%s: --%s is for %s; %s is %s", a->command->name, uses[i].name,
                            !strcmp(uses[i].kind, "pictures") ? "folders of pictures" : uses[i].kind, data,
                            cli_is_named(data) ? "a data set of its own" : kind);
    }
    return CLI_FINE;
}

/* ---- types and shapes of rows ---- */

bool cli_lacks_file(const cli_source *s, const char *text)
{
    return s->kind && !strcmp(s->kind, "TFRecord") && strstr(text, "feature \"");
}

/* The library's message, with the name of the data added if it is missing. */
static int unreadable_rows(const cli_source *s)
{
    if (!cli_lacks_file(s, lk_error())) return cli_fail_library(CLI_DATA);
    cli_fail(CLI_DATA, "%s: %s", s->text, cli_in_words(lk_error()));
    lk_clear_error();
    return CLI_DATA;
}

int cli_source_spec(cli_source *s, lk_element_spec *out)
{
    *out = lk_dataset_element_spec(s->train);
    if (lk_failed()) return unreadable_rows(s);
    return out->count && lk_dataset_cardinality(s->train) ? CLI_FINE : cli_fail(CLI_DATA, "%s: has no rows", s->text);
}

int cli_source_split(cli_source *s, double share)
{
    if (s->kind && !strcmp(s->kind, "pictures")) return CLI_FINE;
    const int64_t rows = lk_dataset_cardinality(s->train);
    if (rows < 2)
        return cli_fail(CLI_DATA, "%s: --validation-split needs data with a known number of rows; give --validation D", s->text);
    int64_t kept = (int64_t)((double)rows * (1 - share));
    kept = kept < 1 ? 1 : kept == rows ? rows - 1 : kept;
    s->test = lk_dataset_skip(s->train, kept);
    s->train = lk_dataset_take(s->train, kept);
    return lk_failed() ? cli_fail_library(CLI_DATA) : CLI_FINE;
}

lk_dataset *cli_source_measured(const cli_source *s) { return s->test ? s->test : s->train; }

/* ---- making them fit ---- */

static lk_tuple fit_row(lk_tuple row, void *user)
{
    const cli_fitting *f = user;
    lk_tensor         *item[8];
    for (int i = 0; i < row.count && i < 8; i++)
        item[i] = row.item[i];
    if (f->scale > 0) item[0] = lk_div(lk_cast(item[0], LK_F32), lk_scalar(f->scale));
    if (f->reshapes) item[0] = lk_reshape(item[0], f->shape);
    return lk_tuple_from(row.count, item);
}

static bool shapes_agree(lk_shape have, lk_shape want)
{
    bool agree = have.rank == want.rank;
    for (int i = 0; i < have.rank && agree; i++)
        agree = have.dim[i] == want.dim[i] || have.dim[i] < 0 || want.dim[i] < 0;
    return agree;
}

static bool all_known(lk_shape s)
{
    bool known = true;
    for (int i = 0; i < s.rank; i++)
        known = known && s.dim[i] >= 0;
    return known;
}

/* Pictures have values up to 255 and rows of two axes or more; a model that divides them itself gets them unchanged. */
static double scale_for(const cli_source *s, const cli_args *a, const lk_element_spec *spec, bool rescales)
{
    if (a->given[OPT_SCALE]) return a->number[OPT_SCALE] == 1 ? 0 : a->number[OPT_SCALE];
    const bool pictures = s->pictures || (spec->dtype[0] == LK_U8 && spec->shape[0].rank >= 2);
    return pictures && !rescales ? 255 : 0;
}

int cli_source_fit(cli_source *s, const cli_args *args, const lk_shape *row, bool rescales)
{
    lk_element_spec spec;
    char            texts[2][CLI_SHAPE_TEXT];
    int             code = cli_source_spec(s, &spec);
    if (code) return code;
    cli_fitting *f = &s->fitting;
    f->scale = scale_for(s, args, &spec, rescales);
    if (row && !shapes_agree(spec.shape[0], *row)) {
        if (!all_known(*row) || !all_known(spec.shape[0]) || cli_shape_size(*row) != cli_shape_size(spec.shape[0]))
            return cli_fail(CLI_DATA, "%s: rows are %s; the model takes %s", s->text, cli_shape_text(spec.shape[0], texts[0]),
                            cli_shape_text(*row, texts[1]));
        f->reshapes = true;
        f->shape = *row;
    }
    if (f->scale <= 0 && !f->reshapes) return CLI_FINE;
    s->as_read = s->train;
    s->train = lk_dataset_map(s->train, fit_row, f);
    if (s->test && s->train) s->test = lk_dataset_map(s->test, fit_row, f);
    return lk_failed() ? cli_fail_library(CLI_DATA) : CLI_FINE;
}

/* ---- labels ---- */

void cli_source_each_label(lk_dataset *rows, cli_label_fn fn, void *user)
{
    enum { PIECE = 1024 };
    int64_t at = 0;
    bool    go_on = true;
    LK_FOR_EACH(piece, lk_dataset_batch(rows, PIECE)) {
        lk_tensor    *label = lk_cast(piece.item[piece.count - 1], LK_F64);
        const double *value = lk_data(label);
        for (int64_t i = 0; value && i < lk_size(label) && go_on; i++)
            go_on = fn(at++, value[i], user);
        if (!go_on || !value) break;
    }
}

typedef struct range {
    double  classes;
    int64_t row; /* the first outside; -1: none */
    double  label;
} range;

static bool look_for_bad(int64_t row, double label, void *user)
{
    range *r = user;
    if (label >= 0 && label < r->classes && label == floor(label)) return true;
    r->row = row;
    r->label = label;
    return false;
}

int64_t cli_source_bad_label(lk_dataset *rows, int64_t classes, double *label)
{
    range r = {.classes = (double)classes, .row = -1};
    cli_source_each_label(rows, look_for_bad, &r);
    *label = r.label;
    return r.row;
}

static bool look_for_largest(int64_t row, double label, void *user)
{
    range *r = user;
    r->classes = fmax(r->classes, label + 1);
    if (label >= 0) return true;
    r->row = row;
    r->label = label;
    return false;
}

int cli_source_outputs(cli_source *s, int64_t *out)
{
    enum { MOST_CLASSES = 1 << 20 };
    lk_element_spec spec;
    int             code = cli_source_spec(s, &spec);
    if (code) return code;
    *out = s->classes;
    if (*out) return CLI_FINE;
    const int last = spec.count - 1;
    if (last < 1) return cli_fail(CLI_DATA, "%s: has no labels to train with", s->text);
    *out = cli_shape_size(spec.shape[last]);
    if (*out != 1 || spec.dtype[last] == LK_F32 || spec.dtype[last] == LK_F64) return CLI_FINE;
    range r = {.row = -1};
    cli_source_each_label(s->train, look_for_largest, &r);
    if (lk_failed()) return unreadable_rows(s);
    if (r.row >= 0) return cli_fail(CLI_DATA, "%s: row %" PRId64 ": label %g; labels count from 0", s->text, r.row, r.label);
    if (r.classes > MOST_CLASSES) return cli_fail(CLI_DATA, "%s: labels up to %.0f; are they classes?", s->text, r.classes - 1);
    *out = s->classes = (int64_t)r.classes;
    return CLI_FINE;
}

static void look_at_row(cli_labels *l, const double *label, int64_t count, int64_t width)
{
    for (int64_t i = 0; i < count; i++) {
        const bool binary = label[i] == 0 || label[i] == 1;
        if (!binary && l->binary) l->row = l->rows, l->label = label[i];
        l->binary = l->binary && binary;
        l->shares = l->shares && label[i] >= 0 && label[i] <= 1;
    }
    for (int64_t from = 0; from < count && l->one_hot && width > 0; from += width) {
        double sum = 0;
        for (int64_t i = 0; i < width; i++)
            sum += label[from + i];
        l->one_hot = l->binary && sum == 1;
    }
    l->rows++;
}

/* Looks at labels until all answers are no. */
static void look_at_labels(lk_dataset *rows, int at, cli_labels *l)
{
    enum { PIECE = 1024 };
    LK_FOR_EACH(piece, lk_dataset_batch(rows, PIECE)) {
        lk_tensor    *all = lk_cast(piece.item[at], LK_F64);
        const double *value = lk_data(all);
        const int64_t count = value ? lk_dim(all, 0) : 0, each = count ? lk_size(all) / count : 0;
        const int64_t width = value && lk_rank(all) > 1 ? lk_dim(all, lk_rank(all) - 1) : 1;
        for (int64_t i = 0; i < count && l->shares; i++)
            look_at_row(l, value + i * each, each, width);
        if (!count || !l->shares) break;
    }
}

int cli_source_labels(cli_source *s, int at, cli_labels *out)
{
    *out = (cli_labels){.binary = true, .shares = true, .one_hot = true};
    if (s->classes) {
        out->binary = out->shares = s->classes <= 2;
        out->one_hot = false;
        out->label = (double)(s->classes - 1);
        return CLI_FINE;
    }
    look_at_labels(s->as_read ? s->as_read : s->train, at, out);
    return lk_failed() ? unreadable_rows(s) : CLI_FINE;
}
