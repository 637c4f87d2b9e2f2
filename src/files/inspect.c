/* Describing the contents of a file (files.h): detect its kind from the contents, and call the reader of that kind.
 *
 * Invariants
 *  1. The name decides only if the contents are of no known kind; the reader of the name's kind then reports what is wrong.
 *  2. The whole file is read, so a description means that everything in it is valid. */
#include "files/inspect.h"
#include "core/error.h"
#include "core/object.h"
#include "core/rounding.h"
#include "format/crc32c.h"
#include "format/safetensors.h"
#include "format/stream.h"
#include "keras/file.h"
#include <errno.h>
#include <fcntl.h>
#include <lockstep/files.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FIRST = 64 };

/* What the kind is detected from: the first bytes, unpacked if need be, and the last eight. */
typedef struct look {
    const char *path;
    uint64_t    size;
    size_t      got;
    uint8_t     first[FIRST], last[8];
    bool        packed;
} look;

static bool begins(const look *l, const char *magic, size_t size) { return l->got >= size && !memcmp(l->first, magic, size); }

static bool ends_in(const char *text, const char *end)
{
    const size_t a = strlen(text), b = strlen(end);
    return a >= b && !strcmp(text + a - b, end);
}

/* ---- kinds by their contents ---- */

static bool is_zip(const look *l) { return !l->packed && begins(l, "PK", 2); }
static bool is_hdf5(const look *l) { return !l->packed && begins(l, "\x89HDF\r\n\x1a\n", 8); }
static bool is_npy(const look *l) { return !l->packed && begins(l, "\x93NUMPY", 6); }
static bool is_png(const look *l) { return !l->packed && begins(l, "\x89PNG", 4); }
static bool is_jpeg(const look *l) { return !l->packed && begins(l, "\xff\xd8\xff", 3); }
static bool is_safetensors(const look *l) { return !l->packed && l->got >= 9 && lki_safetensors_begins(l->first, l->size); }
static bool is_table(const look *l)
{
    return !l->packed && l->size >= 48 && !memcmp(l->last, "\x57\xfb\x80\x8b\x24\x75\x47\xdb", 8);
}
static bool is_data(const look *l)
{
    return !l->packed && strstr(l->path, ".data-") && lki_format_of_file(l->path) == LKI_FORMAT_UNKNOWN;
}

static bool is_idx(const look *l)
{
    const uint8_t type = l->got >= 4 ? l->first[2] : 0, axes = l->got >= 4 ? l->first[3] : 0;
    return l->got >= 8 && !l->first[0] && !l->first[1] && type >= 8 && type <= 14 && type != 10 && axes && axes <= LK_MAX_RANK;
}

static bool is_record(const look *l)
{
    return l->got >= 12 && lki_crc32c_mask(lki_crc32c(0, l->first, 8)) == lki_get_le(l->first + 8, 4);
}

static bool is_events(const look *l)
{
    for (size_t i = 12; is_record(l) && !l->packed && i + 12 <= l->got; i++)
        if (!memcmp(l->first + i, "brain.Event:", 12)) return true;
    return false;
}

static bool is_json(const look *l)
{
    size_t i = 0;
    while (i < l->got && strchr(" \t\r\n", l->first[i]) && l->first[i])
        i++;
    return !l->packed && i < l->got && l->first[i] == '{';
}

static bool is_state(const look *l) { return !l->packed && begins(l, "model_checkpoint_path:", 22); }

static lk_status inspect_zip(const char *path, lki_report *r)
{
    return lki_format_of_file(path) == LKI_FORMAT_NPZ ? lki_inspect_npz(path, r) : lki_inspect_keras(path, r);
}

/* The file `checkpoint` of a folder. */
static lk_status inspect_state(const char *path, lki_report *r)
{
    const size_t n = lki_folder_length(path);
    char        *folder LKI_RELEASED = n ? lki_path_join(path, n, "") : lki_path_join(".", 1, "");
    return folder ? lki_inspect_folder(folder, r) : LK_ENOMEM;
}

static const struct {
    bool (*is)(const look *l);
    lki_inspect_fn *inspect;
} KINDS[] = {
    {is_zip, inspect_zip},
    {is_hdf5, lki_inspect_h5},
    {is_npy, lki_inspect_npy},
    {is_png, lki_inspect_picture},
    {is_jpeg, lki_inspect_picture},
    {is_safetensors, lki_inspect_safetensors},
    {is_table, lki_inspect_checkpoint},
    {is_events, lki_inspect_events},
    {is_record, lki_inspect_tfrecord},
    {is_idx, lki_inspect_idx},
    {is_json, lki_inspect_json},
    {is_state, inspect_state},
    {is_data, lki_inspect_checkpoint},
};

/* Files that are damaged at their beginning. */
static const struct {
    const char     *end;
    lki_inspect_fn *inspect;
} ENDS[] = {
    {".keras", lki_inspect_keras},      {".npz", lki_inspect_npz},           {".h5", lki_inspect_h5},
    {".hdf5", lki_inspect_h5},          {".npy", lki_inspect_npy},           {".png", lki_inspect_picture},
    {".jpg", lki_inspect_picture},      {".jpeg", lki_inspect_picture},      {".safetensors", lki_inspect_safetensors},
    {".index", lki_inspect_checkpoint}, {".tfrecord", lki_inspect_tfrecord}, {".tfrecord.gz", lki_inspect_tfrecord},
    {"-ubyte", lki_inspect_idx},        {"-ubyte.gz", lki_inspect_idx},      {".json", lki_inspect_json},
};

static lki_inspect_fn *kind_of(const look *l)
{
    const char *slash = strrchr(l->path, '/');
    for (int i = 0; i < LKI_COUNT(KINDS); i++)
        if (KINDS[i].is(l)) return KINDS[i].inspect;
    for (int i = 0; i < LKI_COUNT(ENDS); i++)
        if (ends_in(l->path, ENDS[i].end)) return ENDS[i].inspect;
    return strstr(slash ? slash : l->path, ".tfevents.") ? lki_inspect_events : NULL;
}

/* ---- looking ---- */

static lk_status look_at_file(const char *path, int descriptor, uint64_t size, look *l)
{
    const ssize_t got = pread(descriptor, l->first, sizeof l->first, 0);
    if (got < 0) return lki_fail(LK_EIO, "%s: %s", path, strerror(errno));
    l->got = (size_t)got;
    l->size = size;
    if (size >= 8 && pread(descriptor, l->last, 8, (off_t)(size - 8)) != 8) memset(l->last, 0, sizeof l->last);
    return LK_OK;
}

/* For a packed file the kind is that of its contents. */
static lk_status look_inside(look *l)
{
    lki_stream *s;
    if (!begins(l, "\x1f\x8b", 2)) return LK_OK;
    LKI_TRY(lki_stream_open(l->path, LK_ON, &s));
    const lk_status status = lki_stream_read(s, l->first, sizeof l->first, &l->got);
    lki_stream_close(s);
    l->packed = true;
    return status;
}

static lk_status look_at(const char *path, look *l)
{
    int      descriptor;
    uint64_t size;
    *l = (look){.path = path};
    LKI_TRY(lki_open_regular(path, &descriptor, &size));
    lk_status status = look_at_file(path, descriptor, size, l);
    close(descriptor);
    if (status == LK_OK && !l->size) status = lki_fail(LK_EFORMAT, "%s: it is empty", path);
    return status == LK_OK ? look_inside(l) : status;
}

static lk_status unknown(const look *l)
{
    char   text[FIRST] = "";
    size_t used = 0;
    for (size_t i = 0; i < l->got && i < 8; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, " %02x", l->first[i]);
    return lki_fail(LK_EFORMAT,
                    "%s: unknown kind of file: it %sbegins with%s; known are .keras, HDF5, safetensors, npz, npy, checkpoints, "
                    "TFRecord, event files, IDX, PNG, JPEG and JSON of Keras",
                    l->path, l->packed ? "is compressed by gzip and " : "", text);
}

static lk_status inspect(const char *path, lki_report *r)
{
    look l;
    switch (lki_format_of_file(path)) {
    case LKI_FORMAT_FOLDER: return lki_inspect_folder(path, r);
    case LKI_FORMAT_CHECKPOINT: return lki_inspect_checkpoint(path, r);
    default: break;
    }
    LKI_TRY(look_at(path, &l));
    lki_inspect_fn *kind = kind_of(&l);
    return kind ? kind(path, r) : unknown(&l);
}

/* ---- for callers ---- */

typedef struct text {
    lki_object object;
    char       text[];
} text;

static const char *in_pool(char *made)
{
    if (!made) return NULL;
    const size_t n = strlen(made) + 1;
    text        *t = lki_object_new(sizeof *t + n, LKI_KIND_OTHER, LKI_LIVES_IN_POOL, NULL);
    if (t) memcpy(t->text, made, n);
    lki_release(made);
    return t ? t->text : NULL;
}

const char *lk_inspect_kw(lk_inspect_args a)
{
    LKI_NEAREST;
    LKI_SCOPE_ERRORS;
    lki_report  r LKI_FREED_BY(lki_report_free) = {.kind = "?"};
    const char *out = NULL;
    if (!a.path || !*a.path) return lki_fail(LK_EINVAL, "lk_inspect: .path is %s", a.path ? "empty" : "NULL"), NULL;
    if (inspect(a.path, &r) == LK_OK)
        out = in_pool(a.json == LK_ON ? lki_report_for_programs(&r, a.path) : lki_report_for_people(&r, a.path));
    return out;
}
