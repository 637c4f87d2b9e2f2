/* MNIST and Fashion-MNIST from their IDX files, which are downloaded if they are missing and downloads are allowed. The arrays are
 * read when the dataset is made, and all rows share them. Scaled images are computed from the bytes when they are gathered into a
 * batch: this moves a quarter of the memory that scaled ones would. */
#include "core/log.h"
#include "core/open.h"
#include "data/data.h"
#include "data/fetch.h"
#include "format/idx.h"
#include "format/stream.h"
#include <lockstep/ops.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

enum { MOST_PATH = 4096, SIDE = 28, MIRRORS = 2 };

typedef enum idx_file { TRAIN_IMAGES, TRAIN_LABELS, TEST_IMAGES, TEST_LABELS, FILES } idx_file;

static const char *const NAME[FILES] = {"train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte",
                                        "t10k-labels-idx1-ubyte"};

/* The digests are of the unpacked files: mirrors may have packed them differently. */
typedef struct data_set {
    const char *call, *folder;
    const char *mirror[MIRRORS];
    const char *sha256[FILES];
} data_set;

static const data_set MNIST = {
    "lk_mnist",
    "mnist",
    {"https://storage.googleapis.com/cvdf-datasets/mnist/", "https://ossci-datasets.s3.amazonaws.com/mnist/"},
    {"ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
     "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
     "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
     "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2"}};

static const data_set FASHION = {
    "lk_fashion_mnist",
    "fashion-mnist",
    {"https://storage.googleapis.com/tensorflow/tf-keras-datasets/", "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/"},
    {"c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
     "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
     "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
     "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34"}};

/* ---- where ---- */

typedef struct place {
    char path[MOST_PATH]; /* the folder above mnist/ and fashion-mnist/ */
    bool named;           /* named by the caller or LOCKSTEP_DATA: a missing file is an error; else the user's cache */
} place;

static lk_status find_place(const char *call, const char *asked, place *out)
{
    const char *data = getenv("LOCKSTEP_DATA"), *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int         length;
    out->named = true;
    if (asked && *asked) length = snprintf(out->path, MOST_PATH, "%s", asked);
    else if (data && *data) length = snprintf(out->path, MOST_PATH, "%s", data);
    else {
        out->named = false;
        if (cache && *cache) length = snprintf(out->path, MOST_PATH, "%s/lockstep", cache);
        else if (home && *home) length = snprintf(out->path, MOST_PATH, "%s/.cache/lockstep", home);
        else
            return lki_fail(LK_ENOTFOUND,
                            "%s: no cache folder is known: neither XDG_CACHE_HOME nor HOME is set; name the folder that has the "
                            "data with .folder or LOCKSTEP_DATA",
                            call);
    }
    return length < MOST_PATH ? LK_OK : lki_fail(LK_EINVAL, "%s: the name of the folder is too long", call);
}

static bool is_there(const data_set *set, const place *at, idx_file file, char *path)
{
    static const char *const ends[] = {"", ".gz"};
    for (int i = 0; i < LKI_COUNT(ends); i++)
        if (snprintf(path, MOST_PATH, "%s/%s/%s%s", at->path, set->folder, NAME[file], ends[i]) < MOST_PATH &&
            access(path, R_OK) == 0)
            return true;
    return false;
}

/* ---- fetching ---- */

#define ADVICE ", or name the folder that has it with .folder or LOCKSTEP_DATA"

/* LOCKSTEP_MIRROR first: BASE/mnist/FILE.gz. */
static lk_status fetch(const data_set *set, idx_file file, const char *path)
{
    enum { MOST_URL = 1024, MOST_BYTES = 64 << 20 };
    char        url[1 + MIRRORS][MOST_URL];
    const char *item[1 + MIRRORS], *own = getenv("LOCKSTEP_MIRROR");
    int         count = 0;
    if (own && *own) {
        const char *slash = own[strlen(own) - 1] == '/' ? "" : "/";
        if (snprintf(url[0], MOST_URL, "%s%s%s/%s.gz", own, slash, set->folder, NAME[file]) >= MOST_URL)
            return lki_fail(LK_EINVAL, "%s: LOCKSTEP_MIRROR is too long", set->call);
        count = 1;
    }
    for (int i = 0; i < MIRRORS; i++)
        snprintf(url[count++], MOST_URL, "%s%s.gz", set->mirror[i], NAME[file]);
    for (int i = 0; i < count; i++)
        item[i] = url[i];
    return lki_fetch(&(lki_fetching){.call = set->call, .unpacked = true, .advice = ADVICE},
                     &(lk_fetch_args){.urls = {count, item}, .sha256 = set->sha256[file], .path = path, .most_bytes = MOST_BYTES});
}

static bool has_digest(const char *path, const char *sha256)
{
    char             hex[LKI_DIGEST_TEXT];
    lki_error_record unreadable;
    if (lki_file_digest(path, true, hex) == LK_OK) return strcasecmp(hex, sha256) == 0;
    lki_error_take(&unreadable);
    return false;
}

/* A damaged plain file is replaced by a packed one, and removed: a plain file would be found first. */
static lk_status replace_damaged(const data_set *set, idx_file file, char *path)
{
    char         plain[MOST_PATH];
    const size_t length = strlen(path);
    if (length > 3 && !strcmp(path + length - 3, ".gz")) return fetch(set, file, path);
    if (has_digest(path, set->sha256[file])) return LK_OK;
    lki_warn("%s: %s exists but its SHA-256 is wrong; it should be %s", set->call, path, set->sha256[file]);
    memcpy(plain, path, length + 1);
    if (snprintf(path, MOST_PATH, "%s.gz", plain) >= MOST_PATH)
        return lki_fail(LK_EINVAL, "%s: the name of the folder is too long", set->call);
    LKI_TRY(fetch(set, file, path));
    unlink(plain);
    return LK_OK;
}

static lk_status find_file(const data_set *set, const place *at, const lk_mnist_args *a, idx_file file, char *path)
{
    const bool fetches = !at->named && a->download != LK_OFF;
    if (is_there(set, at, file, path)) return fetches && a->verify == LK_ON ? replace_damaged(set, file, path) : LK_OK;
    if (fetches) return fetch(set, file, path); /* the path is that of the last attempt, .gz */
    return lki_fail(
        LK_ENOTFOUND,
        "%s: neither %s nor %s.gz is in %s/%s; put the IDX files of the data set there (train-images-idx3-ubyte, "
        "train-labels-idx1-ubyte, t10k-images-idx3-ubyte, "
        "t10k-labels-idx1-ubyte, each plain or compressed by gzip), or name another folder with .folder or LOCKSTEP_DATA",
        set->call, NAME[file], NAME[file], at->path, set->folder);
}

/* ---- reading ---- */

static lk_status check_array(const char *path, bool images, const lki_array *a)
{
    char            text[LKI_SHAPE_TEXT];
    const lk_shape *s = &a->shape;
    if (a->dtype == LK_U8 && (images ? s->rank == 3 && s->dim[1] == SIDE && s->dim[2] == SIDE : s->rank == 1)) return LK_OK;
    return lki_fail(LK_EFORMAT, "%s: %s %s; it should be u8 %s", path, lk_dtype_name(a->dtype), lki_shape_text(s, text),
                    images ? "[n, 28, 28]" : "[n]");
}

/* Directly into a tensor of this step: images [n, 28, 28, 1] or labels [n], u8. */
static lk_status read_tensor(const data_set *set, const place *at, const lk_mnist_args *a, idx_file file, lk_tensor **out)
{
    char       path[MOST_PATH];
    const bool images = file == TRAIN_IMAGES || file == TEST_IMAGES;
    lki_idx   *idx;
    lki_array  what;
    LKI_TRY(find_file(set, at, a, file, path));
    LKI_TRY(lki_idx_open(path, &idx, &what));
    lk_status status = check_array(path, images, &what);
    if (status == LK_OK) {
        const lk_shape shape = images ? LK_SHAPE(what.shape.dim[0], SIDE, SIDE, 1) : what.shape;
        *out = lki_tensor_new(LK_U8, &shape);
        status = lki_bad(*out) ? LK_ENOMEM : lki_idx_elements(idx, (*out)->data);
    }
    lki_idx_close(idx);
    return status;
}

static lk_status read_pair(const data_set *set, const lk_mnist_args *a, lk_tensor **images, lk_tensor **labels)
{
    place      at;
    const bool test = a->split == LK_TEST;
    LKI_TRY(find_place(set->call, a->folder, &at));
    LKI_TRY(read_tensor(set, &at, a, test ? TEST_IMAGES : TRAIN_IMAGES, images));
    LKI_TRY(read_tensor(set, &at, a, test ? TEST_LABELS : TRAIN_LABELS, labels));
    if ((*images)->shape.dim[0] == (*labels)->shape.dim[0]) return LK_OK;
    return lki_fail(LK_EFORMAT, "%s: %s/%s has %lld images but %lld labels", set->call, at.path, set->folder,
                    (long long)(*images)->shape.dim[0], (long long)(*labels)->shape.dim[0]);
}

static lk_tuple scale(lk_tuple row, void *user)
{
    (void)user;
    return LK_TUPLE(lk_div(lk_cast(row.item[0], LK_F32), lk_scalar(255)), row.item[1]);
}

lk_dataset *lki_scaled_pictures(lk_dataset *bytes)
{
    lk_dataset *d = bytes ? lk_dataset_map(bytes, scale) : NULL;
    lk_free(bytes); /* the map, if there is one, holds it */
    return d;
}

static lk_dataset *rows_of(const data_set *set, const lk_mnist_args *a)
{
    lk_tensor *images, *labels;
    if (read_pair(set, a, &images, &labels) != LK_OK) return NULL;
    lk_tensor  *numbers = lk_cast(labels, LK_I64);
    lk_dataset *rows = lki_bad(numbers) ? NULL : lk_dataset_from_tensor_slices(LK_TUPLE(images, numbers));
    return a->scaled == LK_ON ? lki_scaled_pictures(rows) : rows;
}

static lk_dataset *load(const data_set *set, const lk_mnist_args *a)
{
    LKI_SCOPE_ERRORS;
    lk_dataset *d = NULL;
    if ((unsigned)a->split > LK_TEST)
        return lki_fail(LK_EINVAL, "%s: .split = %d; it must be LK_TRAIN or LK_TEST", set->call, (int)a->split), NULL;
    LK_STEP
        d = rows_of(set, a);
    return d;
}

lk_dataset *lk_mnist_kw(lk_mnist_args a) { return load(&MNIST, &a); }
lk_dataset *lk_fashion_mnist_kw(lk_mnist_args a) { return load(&FASHION, &a); }

/* ---- looking without reading ---- */

/* Sizes of the data after the header of an IDX file: as the header says, and as it is. A packed file ends with the size of its
 * contents, modulo 2^32. */
static lk_status sizes_of(const char *path, bool *packed, uint64_t *says, uint64_t *has)
{
    uint8_t     head[4 + 4 * 3] = {0}, tail[4] = {0};
    size_t      got = 0;
    lki_stream *s;
    LKI_TRY(lki_stream_open(path, LK_DEFAULT, &s));
    const lk_status status = lki_stream_read(s, head, sizeof head, &got);
    *packed = lki_stream_packed(s);
    lki_stream_close(s);
    LKI_TRY(status);
    const int rank = head[3];
    *says = *has = 0;
    if (got < 4 || rank < 1 || rank > 3 || got < (size_t)(4 + 4 * rank)) return LK_OK;
    *says = 1;
    for (const uint8_t *size = head + 4; size < head + 4 + 4 * rank; size += 4)
        *says *= (uint64_t)size[0] << 24 | (uint64_t)size[1] << 16 | (uint64_t)size[2] << 8 | size[3];
    *says += (uint64_t)(4 + 4 * rank);
    FILE *file;
    LKI_TRY(lki_fopen_regular(path, &file));
    if (*packed && fseek(file, -4, SEEK_END) == 0 && fread(tail, 1, 4, file) == 4)
        *has = (uint64_t)tail[3] << 24 | (uint64_t)tail[2] << 16 | (uint64_t)tail[1] << 8 | tail[0];
    else if (!*packed && fseek(file, 0, SEEK_END) == 0) *has = (uint64_t)ftell(file);
    fclose(file);
    return LK_OK;
}

static lk_status check_file(const data_set *set, const place *at, idx_file file)
{
    char     path[MOST_PATH];
    bool     packed;
    uint64_t says, has;
    LKI_TRY(find_file(set, at, &(lk_mnist_args){.download = LK_OFF}, file, path));
    LKI_TRY(sizes_of(path, &packed, &says, &has));
    if (says && says == has) return LK_OK;
    if (!says) return lki_fail(LK_EFORMAT, "%s: damaged: it does not begin as an IDX file does", path);
    return lki_fail(LK_EFORMAT, "%s: damaged: it should have %llu bytes%s", path, (unsigned long long)says,
                    packed ? " when it is unpacked" : "");
}

lk_status lk_mnist_find(const char *name, char *path, size_t bytes)
{
    static const data_set *const known[] = {&MNIST, &FASHION};
    const data_set              *set = NULL;
    place                        at;
    if (path && bytes) path[0] = 0;
    for (int i = 0; name && i < LKI_COUNT(known); i++)
        if (!strcmp(name, known[i]->folder)) set = known[i];
    if (!set || !path)
        return lki_fail(LK_EINVAL, "lk_mnist_find: \"%s\"; it must be \"mnist\" or \"fashion-mnist\"", name ? name : "");
    LKI_TRY(find_place(set->call, NULL, &at));
    if ((size_t)snprintf(path, bytes, "%s/%s", at.path, set->folder) >= bytes)
        return lki_fail(LK_EINVAL, "lk_mnist_find: the name of the folder has more than %zu bytes", bytes);
    for (idx_file file = 0; file < FILES; file++)
        LKI_TRY(check_file(set, &at, file));
    return LK_OK;
}
