/* Whole files, arrays and compressed bytes (file.h). */
#include "format/file.h"
#include "core/memory.h"
#include "core/shape.h"
#include "format/inflate.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { MOST_AT_ONCE = 1 << 30, PIECE = 1 << 18 }; /* one read returns at most 2 GiB */

void lki_bytes_free(lki_bytes *b)
{
    lki_release(b->data);
    *b = (lki_bytes){0};
}

static lk_status failed(const char *path) { return lki_fail(LK_EIO, "%s: %s", path, strerror(errno)); }

int lki_fsync(int descriptor)
{
    int result;
    do
        result = fsync(descriptor);
    while (result != 0 && errno == EINTR);
    return result;
}

lk_status lki_file_read_at(const char *path, int descriptor, uint64_t offset, void *to, size_t size)
{
    for (size_t got = 0; got < size;) {
        const size_t  want = size - got < MOST_AT_ONCE ? size - got : MOST_AT_ONCE;
        const ssize_t n = pread(descriptor, (uint8_t *)to + got, want, (off_t)(offset + got));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return failed(path);
        if (n == 0) return lki_fail(LK_EIO, "%s: %zu bytes read of %zu", path, got, size);
        got += (size_t)n;
    }
    return LK_OK;
}

lk_status lki_file_read(const char *path, lki_bytes *out)
{
    int      descriptor;
    uint64_t size;
    *out = (lki_bytes){0};
    LKI_TRY(lki_open_regular(path, &descriptor, &size));
    *out = (lki_bytes){lki_alloc((size_t)size), (size_t)size};
    const lk_status status = out->data ? lki_file_read_at(path, descriptor, 0, out->data, out->size) : LK_ENOMEM;
    close(descriptor);
    if (status != LK_OK) lki_bytes_free(out);
    return status;
}

/* ---- piece by piece ---------------------------------------------------------------------------------------------------------- */

static lk_status next_bytes(lki_feed *feed, const uint8_t **piece, size_t *size)
{
    lki_bytes_feed *f = (lki_bytes_feed *)feed;
    *piece = f->data;
    *size = f->data ? (size_t)feed->size : 0;
    f->data = NULL;
    return LK_OK;
}

lki_bytes_feed lki_feed_of_bytes(const void *data, size_t size) { return (lki_bytes_feed){{size, next_bytes}, size ? data : NULL}; }

static lk_status next_of_file(lki_feed *feed, const uint8_t **piece, size_t *size)
{
    lki_file_feed *f = (lki_file_feed *)feed;
    *piece = f->piece;
    *size = f->left < PIECE ? (size_t)f->left : PIECE;
    LKI_TRY(lki_file_read_at(f->path, f->descriptor, f->offset, f->piece, *size));
    f->offset += *size;
    f->left -= *size;
    return LK_OK;
}

lk_status lki_file_feed_begin(lki_file_feed *f, const char *path, int descriptor, uint64_t offset, uint64_t size)
{
    *f = (lki_file_feed){{size, next_of_file}, path, descriptor, offset, size, lki_alloc(PIECE)};
    return f->piece ? LK_OK : LK_ENOMEM;
}

void lki_file_feed_end(lki_file_feed *f)
{
    lki_release(f->piece);
    f->piece = NULL;
}

lk_status lki_file_write(const char *path, int parts, const lki_bytes *part)
{
    const int descriptor = lki_open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NONBLOCK);
    FILE     *f = descriptor >= 0 ? fdopen(descriptor, "wb") : NULL;
    if (!f && descriptor >= 0) close(descriptor);
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

bool lki_array_put(lki_array *a, int64_t index, uint64_t x, lki_widening how, int bytes)
{
    const size_t n = lk_dtype_bytes(a->dtype);
    if (how == LKI_TRUTH) x = x != 0;
    if (how == LKI_SIGNED && x >> (8 * bytes - 1)) x |= UINT64_MAX << 8 * bytes;
    if (how == LKI_UNSIGNED && x > INT64_MAX) return false;
    memcpy((uint8_t *)a->data + (size_t)index * n, &x, n); /* the low bytes: this machine is little endian */
    return true;
}

lk_status lki_array_alloc(lki_array *a)
{
    a->data = lki_alloc_array(lki_shape_size(&a->shape), lk_dtype_bytes(a->dtype));
    return a->data ? LK_OK : LK_ENOMEM;
}

void lki_array_free(lki_array *a)
{
    lki_release(a->data);
    *a = (lki_array){0};
}

/* ---- compressed bytes -------------------------------------------------------------------------------------------------------- */

/* Deflate unpacks one byte to at most 1032 bytes. */
static size_t most_of(size_t packed) { return packed > SIZE_MAX / 1032 - 64 ? SIZE_MAX / 2 : packed * 1032 + 64; }

typedef struct unpacking {
    const char    *file;
    lki_inflater   z;
    const uint8_t *packed; /* what is left of it */
    size_t         packed_size, left, room, limit;
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

static lki_inflating unpack_some(unpacking *u)
{
    uint8_t            *to = u->out->data + u->out->size;
    size_t              space = u->room - u->out->size;
    const lki_inflating result = lki_inflate_some(&u->z, &u->packed, &u->left, &to, &space);
    u->out->size = u->room - space;
    return result;
}

static lk_status unpack_all(unpacking *u, size_t size)
{
    lki_inflating result = LKI_INFLATE_MORE;
    while (result == LKI_INFLATE_MORE) {
        LKI_TRY(make_room(u));
        result = unpack_some(u);
    }
    const char *why = lki_inflate_why(&u->z);
    if (result != LKI_INFLATE_DONE)
        return lki_fail(LK_EFORMAT, "%s: compressed data is %s after %zu of %zu bytes%s%s", u->file,
                        result == LKI_INFLATE_STUCK ? "cut off" : "damaged", u->packed_size - u->left, u->packed_size,
                        *why ? ": " : "", why);
    if (size != LKI_SIZE_UNKNOWN && u->out->size != size)
        return lki_fail(LK_EFORMAT, "%s: unpacks to %zu bytes: should be %zu", u->file, u->out->size, size);
    if (u->left) return lki_fail(LK_EFORMAT, "%s: %zu bytes after the compressed data", u->file, u->left);
    return LK_OK;
}

lk_status lki_unpack(const char *file, lki_packing packing, const uint8_t *packed, size_t packed_size, size_t size, lki_bytes *out)
{
    unpacking u = {.file = file, .packed = packed, .packed_size = packed_size, .left = packed_size, .out = out};
    u.limit = most_of(packed_size);
    *out = (lki_bytes){0};
    LKI_TRY(lki_inflate_begin(&u.z, file, packing));
    lk_status status = LK_OK;
    if (size != LKI_SIZE_UNKNOWN && size > u.limit)
        status = lki_fail(LK_EFORMAT, "%s: %zu bytes cannot unpack to %zu", file, packed_size, size);
    if (size != LKI_SIZE_UNKNOWN) u.limit = size + 1;
    u.room = size != LKI_SIZE_UNKNOWN ? size + 1 : (size_t)lki_min((int64_t)u.limit, (int64_t)packed_size * 4 + 64);
    if (status == LK_OK) out->data = lki_alloc(u.room);
    if (status == LK_OK) status = out->data ? unpack_all(&u, size) : LK_ENOMEM;
    lki_inflate_end(&u.z);
    if (status != LK_OK) lki_bytes_free(out);
    return status;
}
