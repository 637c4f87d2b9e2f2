/* IDX files, all big endian.
 *
 *   offset  size  meaning
 *        0     2  zero
 *        2     1  type: 08 u8, 09 int8, 0b int16, 0c int32, 0d float, 0e double
 *        3     1  axes, n
 *        4    4n  their sizes
 *     4+4n        the elements, row by row, to the end of the file
 *
 * A gzip file begins with 1f 8b and holds one of these. */
#include "format/idx.h"
#include "core/shape.h"
#include <string.h>

typedef struct element {
    lk_dtype dtype;
    int      bytes;
    bool     widen; /* a shorter signed integer */
} element;

static const element ELEMENTS[256] = {
    [0x08] = {LK_U8, 1, false},  [0x09] = {LK_I32, 1, true},  [0x0b] = {LK_I32, 2, true},
    [0x0c] = {LK_I32, 4, false}, [0x0d] = {LK_F32, 4, false}, [0x0e] = {LK_F64, 8, false},
};

static void read_elements(const element *e, const uint8_t *src, int64_t count, lki_array *a)
{
    const size_t size = lk_dtype_bytes(a->dtype);
    if (e->bytes == 1 && !e->widen) {
        if (count) memcpy(a->data, src, (size_t)count);
        return;
    }
    for (int64_t i = 0; i < count; i++, src += e->bytes) {
        uint64_t x = lki_get_be(src, e->bytes);
        if (e->widen && x >> (8 * e->bytes - 1)) x |= UINT64_MAX << (8 * e->bytes);
        memcpy((uint8_t *)a->data + (size_t)i * size, &x, size); /* the low bytes: this machine is little endian */
    }
}

static lk_status parse(const char *name, const uint8_t *p, size_t size, lki_array *out)
{
    if (size < 4 || p[0] || p[1])
        return lki_fail(LK_EFORMAT, "%s: does not begin with two zero bytes and a type: not an IDX file", name);
    const element *e = &ELEMENTS[p[2]];
    const int      rank = p[3];
    if (!e->bytes) return lki_fail(LK_EFORMAT, "%s: type %02x at offset 2: 08, 09, 0b, 0c, 0d and 0e are known", name, p[2]);
    if (rank > LK_MAX_RANK) return lki_fail(LK_EUNSUPPORTED, "%s: %d axes: at most %d are supported", name, rank, LK_MAX_RANK);
    const size_t start = 4 + 4 * (size_t)rank;
    if (size < start) return lki_fail(LK_EFORMAT, "%s: %zu bytes: the sizes of %d axes need %zu", name, size, rank, start);
    uint64_t dim[LK_MAX_RANK];
    for (int i = 0; i < rank; i++)
        dim[i] = lki_get_be(p + 4 + 4 * i, 4);
    LKI_TRY(lki_array_begin(name, e->dtype, rank, dim, out));
    const uint64_t count = (uint64_t)lki_shape_size(&out->shape), have = size - start;
    char           text[LKI_SHAPE_TEXT];
    if (count > have / (uint64_t)e->bytes || count * (uint64_t)e->bytes != have)
        return lki_fail(LK_EFORMAT, "%s: %llu bytes after the header: shape %s of %d-byte elements has %llu elements", name,
                        (unsigned long long)have, lki_shape_text(&out->shape, text), e->bytes, (unsigned long long)count);
    LKI_TRY(lki_array_alloc(out));
    read_elements(e, p + start, (int64_t)count, out);
    return LK_OK;
}

lk_status lki_idx_parse(const char *name, const void *bytes, size_t size, lki_array *out)
{
    const uint8_t *p = bytes;
    lki_bytes      plain = {0};
    *out = (lki_array){0};
    if (size >= 2 && p[0] == 0x1f && p[1] == 0x8b) {
        LKI_TRY(lki_unpack(name, LKI_GZIP, p, size, LKI_SIZE_UNKNOWN, &plain));
        p = plain.data;
        size = plain.size;
    }
    const lk_status status = parse(name, p, size, out);
    lki_bytes_free(&plain);
    if (status != LK_OK) lki_array_free(out);
    return status;
}

lk_status lki_idx_read(const char *path, lki_array *out)
{
    lki_bytes bytes;
    *out = (lki_array){0};
    LKI_TRY(lki_file_read(path, &bytes));
    const lk_status status = lki_idx_parse(path, bytes.data, bytes.size, out);
    lki_bytes_free(&bytes);
    return status;
}
