/* Whole files, arrays and compressed bytes (file.h). zlib is opened by name at first need, so that building needs no compression
 * library and a program that reads plain files needs none either. */
#include "format/file.h"
#include "core/memory.h"
#include "core/shape.h"
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

void lki_bytes_free(lki_bytes *b)
{
    lki_release(b->data);
    *b = (lki_bytes){0};
}

static lk_status read_open(const char *path, FILE *f, lki_bytes *out)
{
    struct stat s;
    if (fstat(fileno(f), &s) != 0) return lki_fail(LK_EIO, "%s: %s", path, strerror(errno));
    if (!S_ISREG(s.st_mode)) return lki_fail(LK_EIO, "%s: not a regular file", path);
    out->size = (size_t)s.st_size;
    out->data = lki_alloc(out->size);
    if (!out->data) return LK_ENOMEM;
    const size_t got = fread(out->data, 1, out->size, f);
    if (got != out->size) return lki_fail(LK_EIO, "%s: %zu bytes read of %zu", path, got, out->size);
    return LK_OK;
}

lk_status lki_file_read(const char *path, lki_bytes *out)
{
    *out = (lki_bytes){0};
    FILE *f = fopen(path, "rbe");
    if (!f) return lki_fail(errno == ENOENT ? LK_ENOTFOUND : LK_EIO, "%s: %s", path, strerror(errno));
    const lk_status status = read_open(path, f, out);
    fclose(f);
    if (status != LK_OK) lki_bytes_free(out);
    return status;
}

lk_status lki_file_write(const char *path, int parts, const lki_bytes *part)
{
    FILE *f = fopen(path, "wbe");
    if (!f) return lki_fail(LK_EIO, "%s: %s", path, strerror(errno));
    bool good = true;
    for (int i = 0; i < parts && good; i++)
        good = !part[i].size || fwrite(part[i].data, 1, part[i].size, f) == part[i].size;
    if (fclose(f) == 0 && good) return LK_OK;
    const int cause = errno;
    remove(path);
    return lki_fail(LK_EIO, "%s: %s", path, strerror(cause));
}

/* ---- arrays ------------------------------------------------------------------------------------------------------------------ */

lk_status lki_array_begin(const char *file, lk_dtype dtype, int rank, const uint64_t *dim, lki_array *out)
{
    *out = (lki_array){.dtype = dtype};
    if (rank < 0 || rank > LK_MAX_RANK)
        return lki_fail(LK_EFORMAT, "%s: an array of %d axes: at most %d are supported", file, rank, LK_MAX_RANK);
    out->shape.rank = rank;
    for (int i = 0; i < rank; i++) {
        if (dim[i] > INT64_MAX)
            return lki_fail(LK_EFORMAT, "%s: axis %d has size %llu: too large", file, i, (unsigned long long)dim[i]);
        out->shape.dim[i] = (int64_t)dim[i];
    }
    if (!lki_shape_valid(&out->shape)) {
        char text[LKI_SHAPE_TEXT];
        return lki_fail(LK_EFORMAT, "%s: shape %s: its product of sizes is too large", file, lki_shape_text(&out->shape, text));
    }
    return LK_OK;
}

lk_status lki_array_alloc(lki_array *a)
{
    a->data = lki_alloc((size_t)lki_shape_size(&a->shape) * lk_dtype_bytes(a->dtype));
    return a->data ? LK_OK : LK_ENOMEM;
}

void lki_array_free(lki_array *a)
{
    lki_release(a->data);
    *a = (lki_array){0};
}

/* ---- zlib, by the binary interface it has kept since version 1.2 ------------------------------------------------------------- */

typedef struct zlib_stream {
    const unsigned char *next_in;
    unsigned             avail_in;
    unsigned long        total_in;
    unsigned char       *next_out;
    unsigned             avail_out;
    unsigned long        total_out;
    const char          *msg;
    void                *state;
    void *(*zalloc)(void *, unsigned, unsigned);
    void (*zfree)(void *, void *);
    void         *opaque;
    int           data_type;
    unsigned long adler, reserved;
} zlib_stream;

enum { Z_DONE = 1, Z_FINE = 0, Z_NO_PROGRESS = -5, Z_PLAIN_FLUSH = 0 };

typedef struct zlib {
    int (*init)(zlib_stream *, int window_bits, const char *version, int stream_size);
    int (*inflate)(zlib_stream *, int flush);
    int (*end)(zlib_stream *);
} zlib;

static void *symbol(void *library, const char *name) { return library ? dlsym(library, name) : NULL; }

static bool zlib_open(zlib *z)
{
    void *library = dlopen("libz.so.1", RTLD_NOW | RTLD_LOCAL); /* stays open: handles of one library are one */
    void *fn[3] = {symbol(library, "inflateInit2_"), symbol(library, "inflate"), symbol(library, "inflateEnd")};
    _Static_assert(sizeof *z == sizeof fn, "three function pointers");
    memcpy(z, fn, sizeof fn); /* ISO C has no cast from object to function pointers */
    return fn[0] && fn[1] && fn[2];
}

/* Deflate makes at most 1032 bytes of one. */
static size_t most_of(size_t packed) { return packed > SIZE_MAX / 1032 - 64 ? SIZE_MAX / 2 : packed * 1032 + 64; }

typedef struct unpacking {
    const char    *file;
    const zlib    *z;
    zlib_stream    s;
    const uint8_t *packed;
    size_t         packed_size, fed, room, limit;
    lki_bytes     *out;
} unpacking;

static lk_status make_room(unpacking *u)
{
    if (u->out->size < u->room) return LK_OK;
    const size_t more = u->room < u->limit / 2 ? u->room * 2 : u->limit;
    if (more == u->room) return lki_fail(LK_EFORMAT, "%s: unpacks to more than %zu bytes", u->file, u->limit - 1);
    uint8_t *data = lki_realloc(u->out->data, more);
    if (!data) return LK_ENOMEM;
    u->out->data = data;
    u->room = more;
    return LK_OK;
}

static int unpack_some(unpacking *u)
{
    const size_t left = u->packed_size - u->fed, space = u->room - u->out->size;
    u->s.next_in = u->packed + u->fed;
    u->s.avail_in = left < UINT_MAX ? (unsigned)left : UINT_MAX;
    u->s.next_out = u->out->data + u->out->size;
    u->s.avail_out = space < UINT_MAX ? (unsigned)space : UINT_MAX;
    const unsigned in = u->s.avail_in, space_given = u->s.avail_out;
    const int      result = u->z->inflate(&u->s, Z_PLAIN_FLUSH);
    u->fed += in - u->s.avail_in;
    u->out->size += space_given - u->s.avail_out;
    return result == Z_FINE && in == u->s.avail_in && space_given == u->s.avail_out ? Z_NO_PROGRESS : result;
}

static lk_status unpack_all(unpacking *u, size_t size)
{
    int result = Z_FINE;
    while (result == Z_FINE) {
        LKI_TRY(make_room(u));
        result = unpack_some(u);
    }
    if (result != Z_DONE)
        return lki_fail(LK_EFORMAT, "%s: compressed data is %s after %zu of %zu bytes%s%s", u->file,
                        result == Z_NO_PROGRESS ? "cut off" : "damaged", u->fed, u->packed_size, u->s.msg ? ": " : "",
                        u->s.msg ? u->s.msg : "");
    if (size != LKI_SIZE_UNKNOWN && u->out->size != size)
        return lki_fail(LK_EFORMAT, "%s: unpacks to %zu bytes: should be %zu", u->file, u->out->size, size);
    if (u->fed != u->packed_size)
        return lki_fail(LK_EFORMAT, "%s: %zu bytes after the compressed data", u->file, u->packed_size - u->fed);
    return LK_OK;
}

lk_status lki_unpack(const char *file, lki_packing packing, const uint8_t *packed, size_t packed_size, size_t size, lki_bytes *out)
{
    zlib      z;
    unpacking u = {.file = file, .z = &z, .packed = packed, .packed_size = packed_size, .limit = most_of(packed_size), .out = out};
    *out = (lki_bytes){0};
    if (!zlib_open(&z))
        return lki_fail(LK_EUNSUPPORTED, "%s: compressed, and libz.so.1 (zlib) was not found: install it, or unpack the file",
                        file);
    if (size != LKI_SIZE_UNKNOWN && size > u.limit)
        return lki_fail(LK_EFORMAT, "%s: %zu bytes cannot unpack to %zu", file, packed_size, size);
    if (size != LKI_SIZE_UNKNOWN) u.limit = size + 1;
    u.room = size != LKI_SIZE_UNKNOWN ? size + 1 : (size_t)lki_min((int64_t)u.limit, (int64_t)packed_size * 4 + 64);
    out->data = lki_alloc(u.room);
    if (!out->data) return LK_ENOMEM;
    lk_status status = LK_ENOMEM;
    if (z.init(&u.s, packing == LKI_GZIP ? 15 + 16 : -15, "1.2.11", sizeof u.s) == Z_FINE) {
        status = unpack_all(&u, size);
        z.end(&u.s);
    } else {
        lki_fail(LK_ENOMEM, "%s: zlib would not start", file);
    }
    if (status != LK_OK) lki_bytes_free(out);
    return status;
}
