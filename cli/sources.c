/* Data by name and from files (sources.h). */
#include "sources.h"
#include "session.h"
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_PATH = 4096 };

/* What opening needs to know: the files, how many, and what was asked for. */
typedef struct opening {
    const cli_args *args;
    cli_wants       wants;
    int             count;
    const char     *one_based[CLI_MOST_NAMES + 1];
} opening;

static const char *first(const opening *o) { return o->one_based[1]; }

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

static bool ends_in(const char *text, const char *end)
{
    const size_t n = strlen(text), k = strlen(end);
    return n >= k && !strcasecmp(text + n - k, end);
}

static bool is_folder(const char *path)
{
    struct stat s;
    return stat(path, &s) == 0 && S_ISDIR(s.st_mode);
}

static bool is_file(const char *path)
{
    struct stat s;
    return stat(path, &s) == 0 && !S_ISDIR(s.st_mode);
}

static const char *path_in(const char *folder, const char *name, char path[MOST_PATH])
{
    snprintf(path, MOST_PATH, "%s/%s", folder, name);
    return path;
}

static int opened(const cli_source *s) { return s->train ? CLI_FINE : cli_fail_library(CLI_DATA); }

static int64_t size_of(lk_shape s)
{
    int64_t size = 1;
    for (int i = 0; i < s.rank; i++)
        size *= s.dim[i];
    return size;
}

/* ---- by name ---- */

const char *const cli_data_names[] = {"digits", "mnist", "fashion-mnist", NULL};

static int open_digits(const opening *o, cli_source *s)
{
    (void)o;
    s->train = lk_digits(.split = LK_TRAIN);
    s->test = lk_digits(.split = LK_TEST);
    return opened(s);
}

static int open_mnist(const opening *o, cli_source *s)
{
    (void)o;
    s->train = lk_mnist(.split = LK_TRAIN);
    s->test = s->train ? lk_mnist(.split = LK_TEST) : NULL;
    return s->test ? CLI_FINE : cli_fail_library(CLI_DATA);
}

static int open_fashion_mnist(const opening *o, cli_source *s)
{
    (void)o;
    s->train = lk_fashion_mnist(.split = LK_TRAIN);
    s->test = s->train ? lk_fashion_mnist(.split = LK_TEST) : NULL;
    return s->test ? CLI_FINE : cli_fail_library(CLI_DATA);
}

/* ---- CSV ---- */

static lk_dataset *read_csv(const opening *o, const char *label)
{
    const cli_args *a = o->args;
    const char     *delimiter = a->text[OPT_DELIMITER];
    const bool      tabs = delimiter ? !strcmp(delimiter, "\\t") : ends_in(first(o), ".tsv") || ends_in(first(o), ".tsv.gz");
    return lk_csv_dataset(.files = lk_names_of(o->count, o->one_based), .header = a->given[OPT_NO_HEADER] ? LK_OFF : LK_ON,
                          .delimiter = tabs        ? '\t'
                                       : delimiter ? delimiter[0]
                                                   : ',',
                          .label = label, .text_labels = a->given[OPT_TEXT_LABELS] ? LK_ON : LK_OFF);
}

/* As many columns as the model takes numbers: none of them is a label. */
static lk_dataset *read_unlabelled(const opening *o)
{
    if (!o->wants.unlabelled || !o->wants.row) return NULL;
    lk_dataset *d = read_csv(o, NULL);
    if (!d) return NULL;
    const lk_element_spec spec = lk_dataset_element_spec(d);
    return size_of(spec.shape[0]) == size_of(*o->wants.row) ? d : NULL;
}

static int open_csv(const opening *o, cli_source *s)
{
    static const char *const usual[] = {"label", "class", "target", "y"};
    const char              *delimiter = o->args->text[OPT_DELIMITER];
    if (delimiter && strlen(delimiter) != 1 && strcmp(delimiter, "\\t"))
        return cli_fail(CLI_USAGE, "%s: --delimiter %s: it should be one character, or \\t", o->args->command->name, delimiter);
    if (o->args->given[OPT_LABEL]) {
        s->train = read_csv(o, o->args->text[OPT_LABEL]);
        return opened(s);
    }
    for (size_t i = 0; i < sizeof usual / sizeof *usual && !o->args->given[OPT_NO_HEADER]; i++) {
        s->train = read_csv(o, usual[i]);
        if (s->train || lk_error_code() != LK_ENOTFOUND) return opened(s);
        lk_clear_error();
    }
    s->train = read_unlabelled(o);
    if (!s->train && !lk_failed()) s->train = read_csv(o, "#-1");
    return opened(s);
}

/* ---- NumPy ---- */

static bool has_name(lk_names names, const char *name)
{
    for (int i = 0; i < names.count; i++)
        if (!strcmp(names.item[i], name)) return true;
    return false;
}

static lk_dataset *npz_without_labels(const char *path, const char *name)
{
    return lk_npz_dataset(path, .names = lk_names_of(1, (const char *const[]){NULL, name}));
}

static int other_names(const char *path, lk_names names)
{
    char text[512] = "";
    for (int i = 0; i < names.count && strlen(text) + 64 < sizeof text; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%.48s", i ? ", " : "", names.item[i]);
    return cli_fail(CLI_DATA, "%s: has neither x_train and y_train nor x and y; it has %s", path, names.count ? text : "no arrays");
}

static int open_npz(const opening *o, cli_source *s)
{
    const lk_names names = lk_npz_names(first(o));
    if (lk_failed()) return cli_fail_library(CLI_DATA);
    const bool split = has_name(names, "x_test") && has_name(names, "y_test"), x = has_name(names, "x"), y = has_name(names, "y");
    if (!(x && (y || o->wants.unlabelled)) && !(has_name(names, "x_train") && has_name(names, "y_train")))
        return other_names(first(o), names);
    if (o->wants.unlabelled && x && !y) s->train = npz_without_labels(first(o), "x");
    else s->train = lk_npz_dataset(first(o));
    if (s->train && split) s->test = lk_npz_dataset(first(o), .split = LK_TEST);
    return lk_failed() ? cli_fail_library(CLI_DATA) : CLI_FINE;
}

static int open_npy(const opening *o, cli_source *s)
{
    if (o->count < 2 && !o->wants.unlabelled)
        return cli_fail(CLI_DATA, "%s: one array; labels come in a second file: X.npy,Y.npy", first(o));
    lk_tensor *item[CLI_MOST_NAMES];
    for (int i = 0; i < o->count; i++)
        item[i] = lk_npy_read(o->one_based[i + 1]);
    s->train = lk_failed() ? NULL : lk_dataset_from_tensor_slices(lk_tuple_from(o->count, item));
    return opened(s);
}

/* ---- IDX ---- */

/* Up to `count` bytes from the beginning; how many. */
static int first_bytes(const char *path, int count, uint8_t *out)
{
    int         got = 0;
    lk_dataset *bytes = lk_fixed_length_record_dataset(LK_FILES(path), .record_bytes = 1);
    LK_FOR_EACH(byte, bytes) {
        out[got++] = *(const uint8_t *)lk_data(byte.item[0]);
        if (got == count) break;
    }
    return got;
}

/* zero, zero, type (8: bytes), how many sizes; sizes, the most significant byte first; elements. */
static int idx_shape(const char *path, lk_shape *shape)
{
    uint8_t   head[4 + 4 * LK_MAX_RANK];
    const int got = first_bytes(path, sizeof head, head), rank = got > 3 ? head[3] : 0;
    if (lk_failed()) return cli_fail_library(CLI_DATA);
    if (got < 4 || head[0] || head[1] || head[2] != 8 || rank < 1 || rank > LK_MAX_RANK || got < 4 + 4 * rank)
        return cli_fail(CLI_DATA, "%s: no IDX file of bytes", path);
    *shape = (lk_shape){.rank = rank};
    for (int i = 0; i < rank; i++)
        shape->dim[i] = (int64_t)head[4 + 4 * i] << 24 | head[5 + 4 * i] << 16 | head[6 + 4 * i] << 8 | head[7 + 4 * i];
    return CLI_FINE;
}

static lk_tensor *read_elements(const char *path, lk_shape shape)
{
    lk_tuple    whole;
    lk_dataset *d =
        lk_fixed_length_record_dataset(LK_FILES(path), .record_bytes = size_of(shape), .header_bytes = 4 + 4 * shape.rank);
    lk_iterator *it = d ? lk_iterator_of(d) : NULL;
    if (!it || !lk_next(it, &whole)) return NULL;
    lk_tensor *t = lk_keep(lk_reshape(whole.item[0], shape));
    lk_free(it);
    return t;
}

lk_tensor *cli_idx_read(const char *path)
{
    lk_shape shape;
    if (idx_shape(path, &shape)) return NULL;
    if (size_of(shape) < 1) return cli_fail(CLI_DATA, "%s: has no elements", path), NULL;
    lk_tensor *t = read_elements(path, shape);
    if (t && !lk_poisoned(t)) return t;
    char       text[CLI_SHAPE_TEXT];
    const bool wrong_size = !lk_failed() || lk_error_code() == LK_EFORMAT;
    if (!wrong_size) return cli_fail_library(CLI_DATA), NULL;
    lk_clear_error();
    return cli_fail(CLI_DATA, "%s: cut off: its header says %s, and %" PRId64 " bytes should follow", path,
                    cli_shape_text(shape, text), size_of(shape)),
           NULL;
}

static lk_dataset *idx_rows(const char *images, const char *labels)
{
    lk_tensor *x = cli_idx_read(images), *y = x ? cli_idx_read(labels) : NULL;
    if (!y) return NULL;
    lk_dataset *d = lk_dataset_from_tensor_slices(LK_TUPLE(x, lk_cast(y, LK_I64)));
    if (!d) cli_fail_library(CLI_DATA);
    return d;
}

static bool find_idx(const char *folder, const char *name, char path[MOST_PATH])
{
    if (is_file(path_in(folder, name, path))) return true;
    const size_t n = strlen(path);
    snprintf(path + n, MOST_PATH - n, ".gz");
    return is_file(path);
}

static bool is_idx_folder(const char *folder)
{
    char path[MOST_PATH];
    return find_idx(folder, "train-images-idx3-ubyte", path);
}

static int open_idx_folder(const opening *o, cli_source *s)
{
    char images[MOST_PATH], labels[MOST_PATH];
    find_idx(first(o), "train-images-idx3-ubyte", images);
    find_idx(first(o), "train-labels-idx1-ubyte", labels);
    s->train = idx_rows(images, labels);
    if (!s->train) return CLI_DATA;
    if (!find_idx(first(o), "t10k-images-idx3-ubyte", images)) return CLI_FINE;
    find_idx(first(o), "t10k-labels-idx1-ubyte", labels);
    s->test = idx_rows(images, labels);
    return s->test ? CLI_FINE : CLI_DATA;
}

static int open_idx(const opening *o, cli_source *s)
{
    if (o->count == 2) s->train = idx_rows(o->one_based[1], o->one_based[2]);
    else if (o->count == 1 && o->wants.unlabelled) {
        lk_tensor *x = cli_idx_read(first(o));
        s->train = x ? lk_dataset_from_tensor_slices(LK_TUPLE(x)) : NULL;
    } else return cli_fail(CLI_DATA, "%s: labels come in a second file: IMAGES-idx3-ubyte,LABELS-idx1-ubyte", first(o));
    return s->train ? CLI_FINE : CLI_DATA;
}

/* ---- TFRecord ---- */

enum { MOST_FEATURES = 8 };

/* "image:u8:28x28" */
static bool read_feature(char *text, lk_feature *out)
{
    static const struct {
        const char *name;
        lk_dtype    dtype;
        int         picture;
    } types[] = {{"f32", LK_F32, 0}, {"i64", LK_I64, 0}, {"u8", LK_U8, 0}, {"picture", LK_U8, 1}};
    char *rest = text, *name = strsep(&rest, ":"), *type = strsep(&rest, ":"), *shape = strsep(&rest, ":");
    if (!type || rest || !*name) return false;
    *out = (lk_feature){.name = name};
    if (shape && !(out->shape.rank = cli_sizes(shape, LK_MAX_RANK, out->shape.dim))) return false;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (!strcmp(type, types[i].name)) {
            out->dtype = types[i].dtype;
            out->picture = types[i].picture;
            return true;
        }
    return false;
}

static int read_features(const opening *o, int *count, lk_feature one_based[MOST_FEATURES + 1])
{
    char *rest = cli_keep_text(o->args->text[OPT_FEATURES]); /* with the names of the features */
    for (char *one; (one = strsep(&rest, ","));) {
        char shown[128];
        snprintf(shown, sizeof shown, "%s", one);
        if (*count == MOST_FEATURES || !read_feature(one, &one_based[++*count]))
            return cli_fail(
                CLI_USAGE,
                "%s: --features %s: it should be NAME:TYPE:SIZES, up to %d of them, where TYPE is f32, i64, u8 or picture, as in "
                "image:u8:28x28,label:i64",
                o->args->command->name, shown, MOST_FEATURES);
    }
    return CLI_FINE;
}

/* Without --features: say what it could be. */
static int ask_for_features(const opening *o, lk_dataset *records)
{
    char         text[1024] = "";
    lk_tuple     record;
    lk_iterator *it = records ? lk_iterator_of(records) : NULL;
    if (it && lk_next(it, &record)) cli_example_features(lk_data(record.item[0]), lk_size(record.item[0]), text, sizeof text);
    if (lk_failed()) return cli_fail_library(CLI_DATA);
    if (!*text) return cli_fail(CLI_DATA, "%s: its records are no tf.train.Example", first(o));
    return cli_fail(CLI_USAGE, "%s: --features must say what is in it, the label last; the first record has %s", first(o), text);
}

static int open_tfrecord(const opening *o, cli_source *s)
{
    lk_feature  feature[MOST_FEATURES + 1];
    int         count = 0;
    lk_dataset *records = lk_tfrecord_dataset(lk_names_of(o->count, o->one_based));
    if (!o->args->given[OPT_FEATURES]) return ask_for_features(o, records);
    int code = read_features(o, &count, feature);
    if (code) return code;
    s->train = records ? lk_dataset_parse_example(records, lk_threads(), count, feature) : NULL;
    return opened(s);
}

/* ---- folders of pictures ---- */

static bool is_picture(const char *name) { return ends_in(name, ".png") || ends_in(name, ".jpg") || ends_in(name, ".jpeg"); }

/* The path of some picture in a folder or in one of its folders. */
static bool find_picture(const char *folder, int depth, char found[MOST_PATH])
{
    DIR *d = opendir(folder);
    bool got = false;
    for (const struct dirent *e; d && !got && (e = readdir(d));) {
        char path[MOST_PATH];
        if (e->d_name[0] == '.') continue;
        path_in(folder, e->d_name, path);
        if (is_folder(path)) got = depth > 0 && find_picture(path, depth - 1, found);
        else if ((got = is_picture(e->d_name))) memcpy(found, path, MOST_PATH);
    }
    if (d) closedir(d);
    return got;
}

static bool is_picture_folder(const char *folder)
{
    char path[MOST_PATH];
    return find_picture(folder, 2, path);
}

/* Height, width, channels: as asked for, as the model takes them, or as some picture has them. */
static int picture_size(const opening *o, int64_t size[3])
{
    enum { LARGE = 256 };
    char path[MOST_PATH];
    size[2] = 3;
    if (o->args->given[OPT_IMAGE_SIZE]) {
        const int count = cli_sizes(o->args->text[OPT_IMAGE_SIZE], 3, size);
        if (count == 2) size[2] = o->wants.row && o->wants.row->rank == 3 ? o->wants.row->dim[2] : 3;
        if (count >= 2 && (size[2] == 1 || size[2] == 3)) return CLI_FINE;
        return cli_fail(CLI_USAGE, "%s: --image-size %s: it should be like 96x128, 96x128x3 or, for grey, 96x128x1",
                        o->args->command->name, o->args->text[OPT_IMAGE_SIZE]);
    }
    if (o->wants.row && o->wants.row->rank == 3 && size_of(*o->wants.row) > 0) {
        memcpy(size, o->wants.row->dim, 3 * sizeof *size);
        return CLI_FINE;
    }
    find_picture(first(o), 2, path);
    lk_tensor *picture = lk_image_read(path, 0);
    if (lk_poisoned(picture)) return cli_fail_library(CLI_DATA);
    const lk_shape shape = lk_tensor_shape(picture);
    size[0] = shape.dim[0], size[1] = shape.dim[1], size[2] = shape.dim[2] == 1 ? 1 : 3;
    if (size[0] <= LARGE && size[1] <= LARGE) return CLI_FINE;
    return cli_fail(CLI_USAGE,
                    "%s: pictures of %" PRId64 "x%" PRId64 "; --image-size says to which size they are brought, as 96x128", path,
                    size[0], size[1]);
}

static lk_dataset *read_pictures(const opening *o, const char *folder, const int64_t size[3], lk_split_of split)
{
    const double share = o->args->number[OPT_VALIDATION_SPLIT];
    return lk_image_folder(folder, size[0], size[1], .channels = (int)size[2], .validation_split = share, .split = split);
}

static bool same_names(lk_names a, lk_names b)
{
    bool same = a.count == b.count;
    for (int i = 0; i < a.count && same; i++)
        same = !strcmp(a.item[i], b.item[i]);
    return same;
}

static int open_pictures(const opening *o, cli_source *s)
{
    static const char *const tests[] = {"test", "val", "valid", "validation"};
    char                     train[MOST_PATH], test[MOST_PATH] = "";
    int64_t                  size[3];
    int                      code = picture_size(o, size);
    if (code) return code;
    const bool parts = is_folder(path_in(first(o), "train", train));
    for (size_t i = 0; i < sizeof tests / sizeof *tests && parts; i++)
        if (is_folder(path_in(first(o), tests[i], test))) break;
    s->train = read_pictures(o, parts ? train : first(o), size, LK_TRAIN);
    if (!s->train) return cli_fail_library(CLI_DATA);
    const bool tested = parts && is_folder(test) && !o->args->given[OPT_VALIDATION_SPLIT];
    if (tested || o->args->given[OPT_VALIDATION_SPLIT])
        s->test = read_pictures(o, tested ? test : parts ? train : first(o), size, LK_TEST);
    if (lk_failed()) return cli_fail_library(CLI_DATA);
    if (tested && !same_names(lk_class_names(s->train), lk_class_names(s->test)))
        return cli_fail(CLI_DATA, "%s and %s have different classes", train, test);
    s->classes = lk_class_names(s->train).count;
    return CLI_FINE;
}

/* ---- which kind it is ---- */

typedef int (*open_fn)(const opening *o, cli_source *s);

static const struct {
    const char *name;
    open_fn     open;
    bool        pictures;
    int64_t     classes;
} named[] = {{"digits", open_digits, true, 10}, {"mnist", open_mnist, true, 10}, {"fashion-mnist", open_fashion_mnist, true, 10}};

static const struct {
    const char *end, *kind;
    open_fn     open;
} files[] = {{".csv", "CSV", open_csv},
             {".tsv", "CSV", open_csv},
             {".npz", "NPZ", open_npz},
             {".npy", "NPY", open_npy},
             {".tfrecord", "TFRecord", open_tfrecord},
             {".tfrecords", "TFRecord", open_tfrecord},
             {"idx1-ubyte", "IDX", open_idx},
             {"idx3-ubyte", "IDX", open_idx}};

static const struct {
    bool (*is)(const char *folder);
    const char *kind;
    open_fn     open;
    bool        pictures;
} folders[] = {{is_idx_folder, "IDX", open_idx_folder, true}, {is_picture_folder, "pictures", open_pictures, true}};

static int unknown_data(const char *text)
{
    if (is_folder(text)) return cli_fail(CLI_DATA, "%s: has neither folders of pictures, one per class, nor IDX files in it", text);
    if (is_file(text))
        return cli_fail(CLI_DATA,
                        "%s: not a kind of file that is known by its name: .csv, .tsv, .npz, .npy, .tfrecord, each also "
                        "with .gz but the arrays, or -idx3-ubyte",
                        text);
    const char *near = cli_nearest(text, 3, cli_data_names);
    if (strpbrk(text, "/.")) return cli_fail(CLI_DATA, "%s: %s", text, strerror(ENOENT));
    if (near) return cli_fail(CLI_DATA, "there is no data %s; is %s meant?", text, near);
    return cli_fail(CLI_DATA, "there is no data %s; it should be digits, mnist, fashion-mnist, or a file or folder", text);
}

static int files_there(const opening *o)
{
    for (int i = 1; i <= o->count; i++)
        if (access(o->one_based[i], R_OK) != 0) return cli_fail(CLI_DATA, "%s: %s", o->one_based[i], strerror(errno));
    return CLI_FINE;
}

static int open_files(const opening *o, cli_source *s)
{
    char name[MOST_PATH];
    snprintf(name, sizeof name, "%s", first(o));
    if (ends_in(name, ".gz")) name[strlen(name) - 3] = 0;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (ends_in(name, files[i].end)) {
            const int code = files_there(o);
            s->kind = files[i].kind;
            return code ? code : files[i].open(o, s);
        }
    return unknown_data(s->text);
}

static int open_any(opening *o, cli_source *s)
{
    for (size_t i = 0; i < sizeof named / sizeof *named; i++)
        if (!strcmp(s->text, named[i].name)) {
            s->kind = named[i].name;
            s->pictures = named[i].pictures;
            s->classes = named[i].classes;
            return named[i].open(o, s);
        }
    if (is_file(s->text)) o->one_based[o->count = 1] = s->text;
    else if (is_folder(s->text)) {
        o->one_based[o->count = 1] = s->text;
        for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
            if (folders[i].is(s->text)) {
                s->kind = folders[i].kind;
                s->pictures = folders[i].pictures;
                return folders[i].open(o, s);
            }
        return unknown_data(s->text);
    } else o->count = cli_split(s->text, o->one_based);
    return o->count ? open_files(o, s) : unknown_data(s->text);
}

int cli_source_open(const cli_args *args, const char *text, cli_wants wants, cli_source *out)
{
    opening o = {.args = args, .wants = wants};
    *out = (cli_source){.text = text};
    int code = open_any(&o, out);
    if (code || !args->given[OPT_ROWS]) return code;
    const int64_t rows = (int64_t)args->number[OPT_ROWS];
    out->train = lk_dataset_take(out->train, rows);
    if (out->test) out->test = lk_dataset_take(out->test, rows);
    return lk_failed() ? cli_fail_library(CLI_DATA) : CLI_FINE;
}

/* ---- what rows look like ---- */

int cli_source_spec(cli_source *s, lk_element_spec *out)
{
    *out = lk_dataset_element_spec(s->train);
    if (lk_failed()) return cli_fail_library(CLI_DATA);
    return out->count && lk_dataset_cardinality(s->train) ? CLI_FINE : cli_fail(CLI_DATA, "%s: has no rows", s->text);
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

/* Pictures have values up to 255 and rows of two axes or more; a model that divides by itself takes them as they are. */
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
        if (!all_known(*row) || !all_known(spec.shape[0]) || size_of(*row) != size_of(spec.shape[0]))
            return cli_fail(CLI_DATA, "%s: rows are %s; the model takes %s", s->text, cli_shape_text(spec.shape[0], texts[0]),
                            cli_shape_text(*row, texts[1]));
        f->reshapes = true;
        f->shape = *row;
    }
    if (f->scale <= 0 && !f->reshapes) return CLI_FINE;
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
    *out = size_of(spec.shape[last]);
    if (*out != 1 || spec.dtype[last] == LK_F32 || spec.dtype[last] == LK_F64) return CLI_FINE;
    range r = {.row = -1};
    cli_source_each_label(s->train, look_for_largest, &r);
    if (lk_failed()) return cli_fail_library(CLI_DATA);
    if (r.row >= 0) return cli_fail(CLI_DATA, "%s: row %" PRId64 ": label %g; labels count from 0", s->text, r.row, r.label);
    if (r.classes > MOST_CLASSES) return cli_fail(CLI_DATA, "%s: labels up to %.0f; are they classes?", s->text, r.classes - 1);
    *out = s->classes = (int64_t)r.classes;
    return CLI_FINE;
}
