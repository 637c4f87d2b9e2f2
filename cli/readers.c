/* Files of rows: CSV, arrays of NumPy, IDX, TFRecord, folders of pictures (readers.h). */
#include "readers.h"
#include "paths.h"
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char *first(const cli_opening *o) { return o->one_based[1]; }
static int         opened(const cli_source *s) { return s->train ? CLI_FINE : cli_fail_library(CLI_DATA); }

/* ---- CSV ---- */

static lk_dataset *read_csv(const cli_opening *o, const char *label)
{
    const cli_args *a = o->args;
    const char     *delimiter = a->text[OPT_DELIMITER];
    const bool tabs = delimiter ? !strcmp(delimiter, "\\t") : cli_ends_in(first(o), ".tsv") || cli_ends_in(first(o), ".tsv.gz");
    return lk_csv_dataset(.files = lk_names_of(o->count, o->one_based), .header = a->given[OPT_NO_HEADER] ? LK_OFF : LK_ON,
                          .delimiter = tabs        ? '\t'
                                       : delimiter ? delimiter[0]
                                                   : ',',
                          .label = label, .text_labels = a->given[OPT_TEXT_LABELS] ? LK_ON : LK_OFF,
                          .finite = o->wants.any_value ? LK_OFF : LK_ON);
}

/* If there are as many columns as the model's input has numbers, none of them is a label. */
static lk_dataset *read_unlabelled(const cli_opening *o)
{
    if (!o->wants.unlabelled || !o->wants.row) return NULL;
    lk_dataset *d = read_csv(o, NULL);
    if (!d) return NULL;
    const lk_element_spec spec = lk_dataset_element_spec(d);
    return cli_shape_size(spec.shape[0]) == cli_shape_size(*o->wants.row) ? d : NULL;
}

int cli_open_csv(const cli_opening *o, cli_source *s)
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

int cli_open_npz(const cli_opening *o, cli_source *s)
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

int cli_open_npy(const cli_opening *o, cli_source *s)
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

/* Up to `count` bytes from the beginning; returns how many. */
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
        return cli_fail(CLI_DATA, "%s: not an IDX file of bytes", path);
    *shape = (lk_shape){.rank = rank};
    for (int i = 0; i < rank; i++)
        shape->dim[i] = (int64_t)head[4 + 4 * i] << 24 | head[5 + 4 * i] << 16 | head[6 + 4 * i] << 8 | head[7 + 4 * i];
    return CLI_FINE;
}

static lk_tensor *read_elements(const char *path, lk_shape shape)
{
    lk_tuple    whole;
    lk_dataset *d =
        lk_fixed_length_record_dataset(LK_FILES(path), .record_bytes = cli_shape_size(shape), .header_bytes = 4 + 4 * shape.rank);
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
    if (cli_shape_size(shape) < 1) return cli_fail(CLI_DATA, "%s: has no elements", path), NULL;
    lk_tensor *t = cli_shape_size(shape) < INT64_MAX ? read_elements(path, shape) : NULL; /* no file has that many */
    if (t && !lk_poisoned(t)) return t;
    char       text[CLI_SHAPE_TEXT];
    const bool wrong_size = !lk_failed() || lk_error_code() == LK_EFORMAT;
    if (!wrong_size) return cli_fail_library(CLI_DATA), NULL;
    lk_clear_error();
    return cli_fail(CLI_DATA, "%s: cut off: its header says %s, and %" PRId64 " bytes should follow", path,
                    cli_shape_text(shape, text), cli_shape_size(shape)),
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

static bool find_idx(const char *folder, const char *name, char path[CLI_MOST_PATH])
{
    if (cli_is_file(cli_path_in(folder, name, path))) return true;
    const size_t n = strlen(path);
    snprintf(path + n, CLI_MOST_PATH - n, ".gz");
    return cli_is_file(path);
}

bool cli_is_idx_folder(const char *folder)
{
    char path[CLI_MOST_PATH];
    return find_idx(folder, "train-images-idx3-ubyte", path);
}

int cli_open_idx_folder(const cli_opening *o, cli_source *s)
{
    char images[CLI_MOST_PATH], labels[CLI_MOST_PATH];
    find_idx(first(o), "train-images-idx3-ubyte", images);
    find_idx(first(o), "train-labels-idx1-ubyte", labels);
    s->train = idx_rows(images, labels);
    if (!s->train) return CLI_DATA;
    if (!find_idx(first(o), "t10k-images-idx3-ubyte", images)) return CLI_FINE;
    find_idx(first(o), "t10k-labels-idx1-ubyte", labels);
    s->test = idx_rows(images, labels);
    return s->test ? CLI_FINE : CLI_DATA;
}

int cli_open_idx(const cli_opening *o, cli_source *s)
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

static int read_features(const cli_opening *o, int *count, lk_feature one_based[MOST_FEATURES + 1])
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

/* Without --features: print what it could be. */
static int ask_for_features(const cli_opening *o, lk_dataset *records)
{
    char         text[1024] = "";
    lk_tuple     record;
    lk_iterator *it = records ? lk_iterator_of(records) : NULL;
    if (it && lk_next(it, &record)) cli_example_features(lk_data(record.item[0]), lk_size(record.item[0]), text, sizeof text);
    if (lk_failed()) return cli_fail_library(CLI_DATA);
    if (!*text) return cli_fail(CLI_DATA, "%s: its records are not tf.train.Example", first(o));
    return cli_fail(CLI_USAGE, "%s: name its features with --features, the label last; the first record has %s", first(o), text);
}

int cli_open_tfrecord(const cli_opening *o, cli_source *s)
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

static bool is_picture(const char *name)
{
    return cli_ends_in(name, ".png") || cli_ends_in(name, ".jpg") || cli_ends_in(name, ".jpeg");
}

/* The path of some picture in a folder or in one of its folders. */
static bool find_picture(const char *folder, int depth, char found[CLI_MOST_PATH])
{
    DIR *d = opendir(folder);
    bool got = false;
    for (const struct dirent *e; d && !got && (e = readdir(d));) {
        char path[CLI_MOST_PATH];
        if (e->d_name[0] == '.') continue;
        cli_path_in(folder, e->d_name, path);
        if (cli_is_folder(path)) got = depth > 0 && find_picture(path, depth - 1, found);
        else if ((got = is_picture(e->d_name))) memcpy(found, path, CLI_MOST_PATH);
    }
    if (d) closedir(d);
    return got;
}

bool cli_is_picture_folder(const char *folder)
{
    char path[CLI_MOST_PATH];
    return find_picture(folder, 2, path);
}

/* Height, width, channels: from the option, from the model's input, or from some picture. */
static int picture_size(const cli_opening *o, int64_t size[3])
{
    enum { LARGE = 256 };
    char path[CLI_MOST_PATH];
    size[2] = 3;
    if (o->args->given[OPT_IMAGE_SIZE]) {
        const int count = cli_sizes(o->args->text[OPT_IMAGE_SIZE], 3, size);
        if (count == 2) size[2] = o->wants.row && o->wants.row->rank == 3 ? o->wants.row->dim[2] : 3;
        if (count >= 2 && (size[2] == 1 || size[2] == 3)) return CLI_FINE;
        return cli_fail(CLI_USAGE, "%s: --image-size %s: it should be like 96x128, 96x128x3 or, for grey, 96x128x1",
                        o->args->command->name, o->args->text[OPT_IMAGE_SIZE]);
    }
    if (o->wants.row && o->wants.row->rank == 3 && cli_shape_size(*o->wants.row) > 0) {
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
                    "%s: pictures of %" PRId64 "x%" PRId64 "; give the size to resize them to with --image-size, such as 96x128",
                    path, size[0], size[1]);
}

static lk_dataset *read_pictures(const cli_opening *o, const char *folder, const int64_t size[3], lk_split_of split)
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

int cli_open_pictures(const cli_opening *o, cli_source *s)
{
    static const char *const tests[] = {"test", "val", "valid", "validation"};
    char                     train[CLI_MOST_PATH], test[CLI_MOST_PATH] = "";
    int64_t                  size[3];
    int                      code = picture_size(o, size);
    if (code) return code;
    const bool parts = cli_is_folder(cli_path_in(first(o), "train", train));
    for (size_t i = 0; i < sizeof tests / sizeof *tests && parts; i++)
        if (cli_is_folder(cli_path_in(first(o), tests[i], test))) break;
    s->train = read_pictures(o, parts ? train : first(o), size, LK_TRAIN);
    if (!s->train) return cli_fail_library(CLI_DATA);
    const bool tested = parts && cli_is_folder(test) && !o->args->given[OPT_VALIDATION_SPLIT];
    if (tested || o->args->given[OPT_VALIDATION_SPLIT])
        s->test = read_pictures(o, tested ? test : parts ? train : first(o), size, LK_TEST);
    if (lk_failed()) return cli_fail_library(CLI_DATA);
    if (tested && !same_names(lk_class_names(s->train), lk_class_names(s->test)))
        return cli_fail(CLI_DATA, "%s and %s have different classes", train, test);
    s->classes = lk_class_names(s->train).count;
    return CLI_FINE;
}
