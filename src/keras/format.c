/* The format of a file (file.h). */
#include "core/error.h"
#include "core/memory.h"
#include "format/durable.h"
#include "format/safetensors.h"
#include "format/zip.h"
#include "keras/file.h"
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool ends_in(const char *path, const char *end)
{
    const size_t a = strlen(path), b = strlen(end);
    return a >= b && !strcmp(path + a - b, end);
}

/* ---- by its name ---- */

static const struct {
    const char *end;
    lki_format  format;
} ENDS[] = {{".keras", LKI_FORMAT_KERAS},      {".weights.h5", LKI_FORMAT_WEIGHTS_H5},   {".h5", LKI_FORMAT_LEGACY_H5},
            {".hdf5", LKI_FORMAT_LEGACY_H5},   {".safetensors", LKI_FORMAT_SAFETENSORS}, {".npz", LKI_FORMAT_NPZ},
            {".index", LKI_FORMAT_CHECKPOINT}, {".ckpt", LKI_FORMAT_CHECKPOINT}};

/* A name without an ending, or that ends in a number, is that of a checkpoint. */
lki_format lki_format_of_name(const char *path)
{
    for (int i = 0; i < LKI_COUNT(ENDS); i++)
        if (ends_in(path, ENDS[i].end)) return ENDS[i].format;
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path, *dot = strrchr(name, '.');
    return *name && (!dot || strncmp(dot, ".ckpt-", 6) == 0) ? LKI_FORMAT_CHECKPOINT : LKI_FORMAT_UNKNOWN;
}

char *lki_checkpoint_prefix(const char *path) { return lki_path_join(path, strlen(path) - (ends_in(path, ".index") ? 6 : 0), ""); }

/* ---- detecting the format ---- */

/* An archive with a config, or of arrays. It is opened completely, because the directory of a zip file is at its end. */
static lki_format format_of_zip(const char *path)
{
    LKI_SCOPE_ERRORS;
    lki_zip    zip;
    lki_format format = LKI_FORMAT_KERAS;
    if (lki_zip_open(path, &zip) == LK_OK) {
        int arrays = 0;
        for (int i = 0; i < zip.count; i++)
            arrays += ends_in(zip.member[i].name, ".npy");
        if (lki_zip_find(&zip, "config.json") < 0 && (arrays || ends_in(path, ".npz"))) format = LKI_FORMAT_NPZ;
        lki_zip_close(&zip);
    } else if (ends_in(path, ".npz")) format = LKI_FORMAT_NPZ; /* damaged: its reader reports how */
    lk_clear_error();
    return format;
}

static bool is_checkpoint(const char *path)
{
    char *prefix LKI_RELEASED = lki_checkpoint_prefix(path);
    char *index LKI_RELEASED = prefix ? lki_path_join(prefix, strlen(prefix), ".index") : NULL;
    return index && access(index, F_OK) == 0;
}

lki_format lki_format_of_file(const char *path)
{
    uint8_t     first[9] = {0};
    struct stat s;
    if (stat(path, &s) != 0) return is_checkpoint(path) ? LKI_FORMAT_CHECKPOINT : LKI_FORMAT_UNKNOWN;
    if (S_ISDIR(s.st_mode)) return LKI_FORMAT_FOLDER;
    const int     descriptor = S_ISREG(s.st_mode) ? lki_open(path, O_RDONLY | O_NONBLOCK) : -1;
    const ssize_t got = descriptor >= 0 ? pread(descriptor, first, sizeof first, 0) : -1;
    if (descriptor >= 0) close(descriptor);
    if (got >= 2 && !memcmp(first, "PK", 2)) return format_of_zip(path);
    if (got >= 8 && !memcmp(first, "\x89HDF\r\n\x1a\n", 8)) return LKI_FORMAT_HDF5;
    if (got == sizeof first && lki_safetensors_begins(first, (uint64_t)s.st_size)) return LKI_FORMAT_SAFETENSORS;
    const lki_format named = lki_format_of_name(path); /* damaged: its reader reports how */
    if (named == LKI_FORMAT_CHECKPOINT) return is_checkpoint(path) ? named : LKI_FORMAT_UNKNOWN;
    return named == LKI_FORMAT_WEIGHTS_H5 || named == LKI_FORMAT_LEGACY_H5 ? LKI_FORMAT_HDF5 : named;
}
