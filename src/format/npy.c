/* npy files.
 *
 *   offset  size  meaning
 *        0     6  93 4e 55 4d 50 59 ("\x93NUMPY")
 *        6     2  version: 1, 2 or 3, then 0
 *        8   2/4  length of the header, little endian: 2 bytes in version 1, else 4
 *    10/12        header: a Python dictionary as text, padded with spaces, a newline at the end:
 *                 {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
 *                 the elements, without gaps, to the end of the file */
#include "format/npy.h"
#include "core/memory.h"
#include "core/shape.h"
#include "format/durable.h"
#include <stdio.h>
#include <string.h>

enum { MAGIC_SIZE = 6, HEADER_LIMIT = 1 << 20 };

static const uint8_t MAGIC[MAGIC_SIZE] = {0x93, 'N', 'U', 'M', 'P', 'Y'};

/* How a type of the file is converted. */
typedef struct element {
    char         kind;
    int          bytes;
    lk_dtype     dtype;
    lki_widening how;
} element;

static const element ELEMENTS[] = {
    {'f', 4, LK_F32, LKI_AS_IS},    {'f', 8, LK_F64, LKI_AS_IS},  {'f', 2, LK_F16, LKI_AS_IS},    {'V', 2, LK_BF16, LKI_AS_IS},
    {'i', 4, LK_I32, LKI_AS_IS},    {'i', 8, LK_I64, LKI_AS_IS},  {'u', 1, LK_U8, LKI_AS_IS},     {'b', 1, LK_BOOL, LKI_TRUTH},
    {'i', 1, LK_I32, LKI_SIGNED},   {'i', 2, LK_I32, LKI_SIGNED}, {'u', 2, LK_I32, LKI_UNSIGNED}, {'u', 4, LK_I64, LKI_UNSIGNED},
    {'u', 8, LK_I64, LKI_UNSIGNED},
};

typedef struct header {
    const element *element;
    bool           big_endian, fortran;
    int            rank;
    uint64_t       dim[LK_MAX_RANK];
} header;

/* ---- the header's text ------------------------------------------------------------------------------------------------------- */

typedef struct text {
    const char *file;
    const char *begin, *p, *end;
} text;

static lk_status bad(const text *t, const char *expected)
{
    return lki_fail(LK_EFORMAT, "%s: header, character %d: %s expected", t->file, (int)(t->p - t->begin), expected);
}

static void skip_space(text *t)
{
    while (t->p < t->end && (*t->p == ' ' || *t->p == '\n' || *t->p == '\t' || *t->p == '\r'))
        t->p++;
}

/* Consume `word` if it is next. */
static bool take(text *t, const char *word)
{
    const size_t n = strlen(word);
    skip_space(t);
    if ((size_t)(t->end - t->p) < n || memcmp(t->p, word, n) != 0) return false;
    t->p += n;
    return true;
}

static lk_status take_string(text *t, char *out, size_t room)
{
    skip_space(t);
    const char quote = t->p < t->end ? *t->p : 0;
    if (quote != '\'' && quote != '"') return bad(t, "a string");
    const char *start = ++t->p;
    while (t->p < t->end && *t->p != quote)
        t->p++;
    if (t->p == t->end) return bad(t, "the end of a string");
    const size_t n = (size_t)(t->p++ - start);
    if (n >= room) return bad(t, "a shorter string");
    memcpy(out, start, n);
    out[n] = 0;
    return LK_OK;
}

static lk_status take_size(text *t, uint64_t *out)
{
    skip_space(t);
    uint64_t x = 0;
    if (t->p == t->end || *t->p < '0' || *t->p > '9') return bad(t, "a size");
    for (; t->p < t->end && *t->p >= '0' && *t->p <= '9'; t->p++) {
        if (x > (UINT64_MAX - 9) / 10) return bad(t, "a smaller size");
        x = x * 10 + (uint64_t)(*t->p - '0');
    }
    take(t, "L"); /* as Python 2 wrote them */
    *out = x;
    return LK_OK;
}

static lk_status take_descr(text *t, header *h)
{
    char name[32];
    skip_space(t);
    if (t->p < t->end && *t->p == '[')
        return lki_fail(LK_EUNSUPPORTED, "%s: an array of structures: only plain numbers can be read", t->file);
    LKI_TRY(take_string(t, name, sizeof name));
    const char *p = name;
    if (*p == '<' || *p == '>' || *p == '=' || *p == '|') h->big_endian = *p++ == '>';
    int bytes = 0;
    for (const char *d = p + (*p != 0); *d; d++)
        bytes = *d >= '0' && *d <= '9' && bytes < 1000 ? bytes * 10 + (*d - '0') : 10000;
    for (int i = 0; i < LKI_COUNT(ELEMENTS); i++)
        if (ELEMENTS[i].kind == *p && ELEMENTS[i].bytes == bytes) h->element = &ELEMENTS[i];
    if (h->element) return LK_OK;
    return lki_fail(LK_EUNSUPPORTED, "%s: elements of type '%s': floats, integers and booleans can be read", t->file, name);
}

static lk_status take_shape(text *t, header *h)
{
    if (!take(t, "(")) return bad(t, "'('");
    while (!take(t, ")")) {
        if (h->rank == LK_MAX_RANK) return lki_fail(LK_EUNSUPPORTED, "%s: more than %d axes", t->file, LK_MAX_RANK);
        LKI_TRY(take_size(t, &h->dim[h->rank++]));
        if (!take(t, ",") && (t->p == t->end || *t->p != ')')) return bad(t, "',' or ')'");
    }
    return LK_OK;
}

static lk_status take_order(text *t, header *h)
{
    h->fortran = take(t, "True");
    return h->fortran || take(t, "False") ? LK_OK : bad(t, "True or False");
}

static lk_status read_header(text *t, header *h)
{
    static const struct {
        const char *key;
        lk_status (*take)(text *, header *);
    } keys[] = {{"descr", take_descr}, {"fortran_order", take_order}, {"shape", take_shape}};
    unsigned seen = 0;
    if (!take(t, "{")) return bad(t, "'{'");
    while (!take(t, "}")) {
        char key[32];
        int  k = 0;
        LKI_TRY(take_string(t, key, sizeof key));
        while (k < LKI_COUNT(keys) && strcmp(key, keys[k].key) != 0)
            k++;
        if (k == LKI_COUNT(keys) || seen >> k & 1) return bad(t, "one each of descr, fortran_order and shape before this");
        if (!take(t, ":")) return bad(t, "':'");
        LKI_TRY(keys[k].take(t, h));
        seen |= 1u << k;
        if (!take(t, ",") && (t->p == t->end || *t->p != '}')) return bad(t, "',' or '}'");
    }
    skip_space(t);
    if (seen != 7 || t->p != t->end) return bad(t, seen != 7 ? "descr, fortran_order and shape before this" : "the end");
    return LK_OK;
}

/* ---- the elements ------------------------------------------------------------------------------------------------------------ */

static lk_status store(const header *h, const char *file, lki_array *a, int64_t index, const uint8_t *src)
{
    const int      bytes = h->element->bytes;
    const uint64_t x = h->big_endian ? lki_get_be(src, bytes) : lki_get_le(src, bytes);
    if (!lki_array_put(a, index, x, h->element->how, bytes))
        return lki_fail(LK_EFORMAT, "%s: element %lld is %llu: too large for i64", file, (long long)index, (unsigned long long)x);
    return LK_OK;
}

static lk_status read_elements(const header *h, const char *file, const uint8_t *src, lki_array *a)
{
    const int64_t count = lki_shape_size(&a->shape), bytes = h->element->bytes;
    const bool    same_order = !h->fortran || a->shape.rank < 2;
    if (same_order && !h->big_endian && h->element->how == LKI_AS_IS) {
        if (count) memcpy(a->data, src, (size_t)(count * bytes));
        return LK_OK;
    }
    int64_t stride[LK_MAX_RANK], at[LK_MAX_RANK] = {0}, from = 0, step = 1;
    for (int i = 0; i < a->shape.rank; i++) {
        const int axis = same_order ? a->shape.rank - 1 - i : i;
        stride[axis] = step;
        step = lki_size_mul(step, a->shape.dim[axis]);
    }
    for (int64_t i = 0; i < count; i++) {
        LKI_TRY(store(h, file, a, i, src + from * bytes));
        for (int axis = a->shape.rank; axis-- > 0;) { /* the next element, row by row */
            from += stride[axis];
            if (++at[axis] < a->shape.dim[axis]) break;
            from -= stride[axis] * at[axis];
            at[axis] = 0;
        }
    }
    return LK_OK;
}

/* ---- whole files ------------------------------------------------------------------------------------------------------------- */

static lk_status find_header(const char *name, const uint8_t *p, size_t size, text *t)
{
    if (size < 10 || memcmp(p, MAGIC, MAGIC_SIZE) != 0)
        return lki_fail(LK_EFORMAT, "%s: does not begin with \\x93NUMPY: not an npy file", name);
    if (p[6] < 1 || p[6] > 3 || p[7] != 0)
        return lki_fail(LK_EFORMAT, "%s: version %d.%d: 1.0, 2.0 and 3.0 are known", name, p[6], p[7]);
    const size_t start = p[6] == 1 ? 10 : 12;
    const size_t length = start <= size ? (size_t)lki_get_le(p + 8, (int)start - 8) : 0;
    if (start > size || length > size - start || length > HEADER_LIMIT)
        return lki_fail(LK_EFORMAT, "%s: a header of %zu bytes at offset %zu does not fit into the %zu bytes of the file", name,
                        length, start, size);
    *t = (text){name, (const char *)p + start, (const char *)p + start, (const char *)p + start + length};
    return LK_OK;
}

static lk_status parse(const char *name, const uint8_t *bytes, size_t size, lki_array *out)
{
    header h = {0};
    text   t;
    LKI_TRY(find_header(name, bytes, size, &t));
    LKI_TRY(read_header(&t, &h));
    LKI_TRY(lki_array_begin(name, h.element->dtype, h.rank, h.dim, out));
    const uint8_t *data = (const uint8_t *)t.end;
    const uint64_t have = (uint64_t)(bytes + size - data), count = (uint64_t)lki_shape_size(&out->shape);
    char           shape[LKI_SHAPE_TEXT];
    if (count > have / (uint64_t)h.element->bytes || count * (uint64_t)h.element->bytes != have)
        return lki_fail(LK_EFORMAT, "%s: %llu bytes after the header: shape %s of %d-byte elements has %llu elements", name,
                        (unsigned long long)have, lki_shape_text(&out->shape, shape), h.element->bytes, (unsigned long long)count);
    LKI_TRY(lki_array_alloc(out));
    return read_elements(&h, name, data, out);
}

lk_status lki_npy_parse(const char *name, const void *bytes, size_t size, lki_array *out)
{
    *out = (lki_array){0};
    const lk_status status = parse(name, bytes, size, out);
    if (status != LK_OK) lki_array_free(out);
    return status;
}

lk_status lki_npy_read(const char *path, lki_array *out)
{
    lki_bytes bytes LKI_FREED_BY(lki_bytes_free) = {0};
    *out = (lki_array){0};
    LKI_TRY(lki_file_read(path, &bytes));
    return lki_npy_parse(path, bytes.data, bytes.size, out);
}

lk_status lki_npz_read(const lki_zip *z, const char *name, lki_array *out)
{
    char      member[256], file[512];
    lki_bytes bytes LKI_FREED_BY(lki_bytes_free) = {0};
    *out = (lki_array){0};
    if ((size_t)snprintf(member, sizeof member, "%s.npy", name) >= sizeof member)
        return lki_fail(LK_ENOTFOUND, "%s: no array of so long a name", z->path);
    const int i = lki_zip_find(z, member);
    if (i < 0) return lki_fail(LK_ENOTFOUND, "%s: no array %s in it", z->path, name);
    snprintf(file, sizeof file, "%s(%s)", z->path, member);
    LKI_TRY(lki_zip_read(z, i, &bytes));
    return lki_npy_parse(file, bytes.data, bytes.size, out);
}

/* ---- writing ----------------------------------------------------------------------------------------------------------------- */

enum { HEAD_ROOM = 512 };

/* Writes the bytes before the elements; returns how many. */
static size_t write_header(const lki_array *a, char head[HEAD_ROOM])
{
    char  *dict = head + 10;
    size_t used = 0;
    memcpy(head, "\x93NUMPY\x01", 8);
    for (int i = 0; i < LKI_COUNT(ELEMENTS); i++)
        if (ELEMENTS[i].dtype == a->dtype && (ELEMENTS[i].how == LKI_AS_IS || ELEMENTS[i].how == LKI_TRUTH))
            used = (size_t)snprintf(dict, 100, "{'descr': '%c%c%d', 'fortran_order': False, 'shape': (",
                                    ELEMENTS[i].bytes > 1 ? '<' : '|', ELEMENTS[i].kind, ELEMENTS[i].bytes);
    for (int i = 0; i < a->shape.rank; i++)
        used +=
            (size_t)snprintf(dict + used, 32, "%s%lld%s", i ? ", " : "", (long long)a->shape.dim[i], a->shape.rank == 1 ? "," : "");
    used += (size_t)snprintf(dict + used, 8, "), }");
    const size_t all = (10 + used + 1 + 63) / 64 * 64; /* the elements begin at a multiple of 64 */
    memset(dict + used, ' ', all - 10 - used - 1);
    head[all - 1] = '\n';
    head[8] = (char)((all - 10) & 255);
    head[9] = (char)((all - 10) >> 8);
    return all;
}

static size_t size_of(const lki_array *a) { return lki_bytes_of(lki_shape_size(&a->shape), lk_dtype_bytes(a->dtype)); }

lk_status lki_npy_write(const char *path, const lki_array *a)
{
    char         head[HEAD_ROOM];
    const size_t start = write_header(a, head);
    lki_durable  d;
    LKI_TRY(lki_durable_begin(path, &d));
    lk_status status = lki_durable_write(&d, head, start);
    if (status == LK_OK) status = lki_durable_write(&d, a->data, size_of(a));
    if (status == LK_OK) status = lki_durable_sync(&d);
    if (status == LK_OK) status = lki_durable_publish(&d);
    lki_durable_abandon(&d);
    return status == LK_OK ? lki_folder_sync(path) : status;
}

lk_status lki_npy_encode(const lki_array *a, lki_bytes *out)
{
    char         head[HEAD_ROOM];
    const size_t start = write_header(a, head), size = size_of(a);
    *out = (lki_bytes){lki_alloc(start + size), start + size};
    if (!out->data) return *out = (lki_bytes){0}, LK_ENOMEM;
    memcpy(out->data, head, start);
    if (size) memcpy(out->data + start, a->data, size);
    return LK_OK;
}
