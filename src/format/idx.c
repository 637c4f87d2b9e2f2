/* IDX files, all big endian.
 *
 *   offset  size  meaning
 *        0     2  zero
 *        2     1  type: 08 u8, 09 int8, 0b int16, 0c int32, 0d float, 0e double
 *        3     1  axes, n
 *        4    4n  their sizes
 *     4+4n        the elements, row by row, to the end of the file
 *
 * A gzip file begins with 1f 8b and holds one of these. Elements are unpacked straight to where they are wanted, so reading takes
 * no memory but theirs; a header that lies about them is found out by the size of the file before that is asked for. */
#include "format/idx.h"
#include "core/memory.h"
#include "core/shape.h"
#include "format/stream.h"
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

typedef struct element {
    lk_dtype dtype;
    int      bytes;
    bool     widen; /* a shorter signed integer */
} element;

static const element ELEMENTS[256] = {
    [0x08] = {LK_U8, 1, false},  [0x09] = {LK_I32, 1, true},  [0x0b] = {LK_I32, 2, true},
    [0x0c] = {LK_I32, 4, false}, [0x0d] = {LK_F32, 4, false}, [0x0e] = {LK_F64, 8, false},
};

struct lki_idx {
    lki_stream    *stream;
    const element *element;
    lki_array      what; /* without elements */
};

/* ---- the header ---- */

static lk_status wrong_size(const lki_idx *f, const char *how, uint64_t have)
{
    char text[LKI_SHAPE_TEXT];
    return lki_fail(LK_EFORMAT, "%s: %s%llu bytes after the header: shape %s of %d-byte elements has %lld elements",
                    lki_stream_path(f->stream), how, (unsigned long long)have, lki_shape_text(&f->what.shape, text),
                    f->element->bytes, (long long)lki_shape_size(&f->what.shape));
}

/* A plain file must have the size that its header says; a packed one is possible if deflate, which unpacks one byte to at most
 * 1032, can give that much. */
static lk_status check_size(const lki_idx *f)
{
    enum { DEFLATE_MAKES = 1032 };
    struct stat    s;
    const char    *path = lki_stream_path(f->stream);
    const bool     packed = lki_stream_packed(f->stream);
    const uint64_t count = (uint64_t)lki_shape_size(&f->what.shape), bytes = (uint64_t)f->element->bytes;
    if (stat(path, &s) != 0) return lki_fail(LK_EIO, "%s: %s", path, strerror(errno));
    const uint64_t size = (uint64_t)s.st_size, have = packed ? size * DEFLATE_MAKES : size - lki_stream_position(f->stream);
    if (count > have / bytes || (!packed && count * bytes != have)) return wrong_size(f, packed ? "at most " : "", have);
    return LK_OK;
}

static lk_status read_header(lki_idx *f)
{
    const char *name = lki_stream_path(f->stream);
    uint8_t     head[4], size[4 * LK_MAX_RANK];
    uint64_t    dim[LK_MAX_RANK];
    size_t      got;
    LKI_TRY(lki_stream_read(f->stream, head, sizeof head, &got));
    if (got < sizeof head || head[0] || head[1])
        return lki_fail(LK_EFORMAT, "%s: does not begin with two zero bytes and a type: not an IDX file", name);
    const int rank = head[3];
    f->element = &ELEMENTS[head[2]];
    if (!f->element->bytes)
        return lki_fail(LK_EFORMAT, "%s: type %02x at offset 2: 08, 09, 0b, 0c, 0d and 0e are known", name, head[2]);
    if (rank > LK_MAX_RANK) return lki_fail(LK_EUNSUPPORTED, "%s: %d axes: at most %d are supported", name, rank, LK_MAX_RANK);
    LKI_TRY(lki_stream_read(f->stream, size, 4 * (size_t)rank, &got));
    if (got < 4 * (size_t)rank)
        return lki_fail(LK_EFORMAT, "%s: %zu bytes: the sizes of %d axes need %d", name, 4 + got, rank, 4 + 4 * rank);
    for (int i = 0; i < rank; i++)
        dim[i] = lki_get_be(size + 4 * i, 4);
    LKI_TRY(lki_array_begin(name, f->element->dtype, rank, dim, &f->what));
    return check_size(f);
}

lk_status lki_idx_open(const char *path, lki_idx **out, lki_array *what)
{
    lki_idx *f = lki_zalloc(sizeof *f);
    *out = NULL;
    *what = (lki_array){0};
    if (!f) return LK_ENOMEM;
    lk_status status = lki_stream_open(path, LK_DEFAULT, &f->stream);
    if (status == LK_OK) status = read_header(f);
    if (status != LK_OK) return lki_idx_close(f), status;
    *out = f;
    *what = f->what;
    return LK_OK;
}

void lki_idx_close(lki_idx *f)
{
    if (f) lki_stream_close(f->stream);
    lki_release(f);
}

/* ---- elements ---- */

/* From `src`, which may be the last bytes of `dst`: an element is not overwritten before it is read. */
static void turn_round(const element *e, int64_t count, const uint8_t *src, uint8_t *dst)
{
    const size_t size = lk_dtype_bytes(e->dtype);
    for (int64_t i = 0; i < count; i++, src += e->bytes, dst += size) {
        uint64_t x = lki_get_be(src, e->bytes);
        if (e->widen && x >> (8 * e->bytes - 1)) x |= UINT64_MAX << (8 * e->bytes);
        memcpy(dst, &x, size); /* the low bytes: this machine is little endian */
    }
}

/* One byte more is read: it must not exist, and a packed file is not checked before its end. */
lk_status lki_idx_elements(lki_idx *f, void *dst)
{
    const int64_t count = lki_shape_size(&f->what.shape);
    const size_t  stored = (size_t)count * (size_t)f->element->bytes, room = (size_t)count * lk_dtype_bytes(f->what.dtype);
    uint8_t      *src = (uint8_t *)dst + (room - stored), behind;
    size_t        got, more;
    LKI_TRY(lki_stream_read(f->stream, src, stored, &got));
    if (got < stored) return wrong_size(f, "only ", got);
    LKI_TRY(lki_stream_read(f->stream, &behind, 1, &more));
    if (more) return wrong_size(f, "more than ", stored);
    if (f->element->bytes > 1 || f->element->widen) turn_round(f->element, count, src, dst);
    return LK_OK;
}

lk_status lki_idx_read(const char *path, lki_array *out)
{
    lki_idx *f;
    LKI_TRY(lki_idx_open(path, &f, out));
    lk_status status = lki_array_alloc(out);
    if (status == LK_OK) status = lki_idx_elements(f, out->data);
    lki_idx_close(f);
    if (status != LK_OK) lki_array_free(out);
    return status;
}
