/* safetensors files.
 *
 *   offset  size  meaning
 *        0     8  n, the length of the header, little endian: at most 100,000,000 and what the file has
 *        8     n  header: a JSON object, padded with spaces:
 *                 {"__metadata__": {"format": "pt"},
 *                  "dense/kernel": {"dtype": "F32", "shape": [3, 4], "data_offsets": [0, 48]}, ...}
 *      8+n        the elements, row by row, little endian; offsets count from here
 *
 * Invariants
 * 1. The arrays fill the rest of the file: none overlaps another, nothing lies between them, before or after them.
 * 2. An array has as many bytes as its shape and type say; no product or sum wraps.
 * 3. No name comes twice, at any level of the header. */
#include "format/safetensors.h"
#include "core/memory.h"
#include "core/shape.h"
#include "format/json.h"
#include "format/utf8.h"
#include <stdlib.h>
#include <string.h>

enum { PREFIX = 8, MOST_HEADER = 100000000, ALIGNMENT = 8 };
#define METADATA "__metadata__"

/* How a type of the file is converted. */
typedef struct element {
    const char  *name;
    int          bytes;
    lk_dtype     dtype;
    lki_widening how;
} element;

static const element ELEMENTS[] = {
    {"F64", 8, LK_F64, LKI_AS_IS},    {"F32", 4, LK_F32, LKI_AS_IS},    {"F16", 2, LK_F16, LKI_AS_IS},
    {"BF16", 2, LK_BF16, LKI_AS_IS},  {"I64", 8, LK_I64, LKI_AS_IS},    {"I32", 4, LK_I32, LKI_AS_IS},
    {"U8", 1, LK_U8, LKI_AS_IS},      {"BOOL", 1, LK_BOOL, LKI_TRUTH},  {"I16", 2, LK_I32, LKI_SIGNED},
    {"I8", 1, LK_I32, LKI_SIGNED},    {"U16", 2, LK_I32, LKI_UNSIGNED}, {"U32", 4, LK_I64, LKI_UNSIGNED},
    {"U64", 8, LK_I64, LKI_UNSIGNED},
};

/* ---- the header -------------------------------------------------------------------------------------------------------------- */

typedef struct place {
    const char    *name;
    const element *element;
    lki_array      array; /* without elements */
    uint64_t       begin, end;
} place;

typedef struct header {
    const char     *file;
    const lki_json *root;
    const uint8_t  *data;
    uint64_t        size; /* of the data */
    int             count;
    place          *place;
} header;

static lk_status bad(const header *h, const char *name, const char *what)
{
    return lki_fail(LK_EFORMAT, "%s: \"%.200s\": %s", h->file, name, what);
}

static lk_status read_type(const header *h, const lki_json *v, place *p)
{
    const lki_json *type = lki_json_get(v, "dtype");
    if (!type || type->type != LKI_JSON_STRING) return bad(h, p->name, "it has no \"dtype\"");
    for (int i = 0; i < LKI_COUNT(ELEMENTS); i++)
        if (strcmp(type->text, ELEMENTS[i].name) == 0) p->element = &ELEMENTS[i];
    if (p->element) return LK_OK;
    return lki_fail(LK_EUNSUPPORTED,
                    "%s: \"%.200s\" has elements of type \"%.40s\"; F64, F32, F16, BF16, I64, I32, I16, I8, U64, U32, U16, U8 and "
                    "BOOL can be read",
                    h->file, p->name, type->text);
}

static bool is_size(const lki_json *v) { return v->type == LKI_JSON_NUMBER && v->whole && v->integer >= 0; }

static lk_status read_shape(const header *h, const lki_json *v, place *p)
{
    const lki_json *shape = lki_json_get(v, "shape");
    uint64_t        dim[LK_MAX_RANK];
    if (!shape || shape->type != LKI_JSON_ARRAY) return bad(h, p->name, "it has no \"shape\"");
    if (shape->count > LK_MAX_RANK)
        return lki_fail(LK_EUNSUPPORTED, "%s: \"%.200s\" has %d axes: at most %d are supported", h->file, p->name, shape->count,
                        LK_MAX_RANK);
    for (int i = 0; i < shape->count; i++) {
        if (!is_size(&shape->item[i])) return bad(h, p->name, "its \"shape\" should have sizes, 0 and more");
        dim[i] = (uint64_t)shape->item[i].integer;
    }
    return lki_array_begin(h->file, p->element->dtype, shape->count, dim, &p->array);
}

static lk_status read_offsets(const header *h, const lki_json *v, place *p)
{
    const lki_json *at = lki_json_get(v, "data_offsets");
    char            shape[LKI_SHAPE_TEXT];
    if (!at || at->type != LKI_JSON_ARRAY || at->count != 2 || !is_size(&at->item[0]) || !is_size(&at->item[1]))
        return bad(h, p->name, "it should have \"data_offsets\": [begin, end]");
    p->begin = (uint64_t)at->item[0].integer;
    p->end = (uint64_t)at->item[1].integer;
    if (p->begin > p->end || p->end > h->size)
        return lki_fail(LK_EFORMAT, "%s: \"%.200s\" is at offsets %llu to %llu; there are %llu bytes after the header", h->file,
                        p->name, (unsigned long long)p->begin, (unsigned long long)p->end, (unsigned long long)h->size);
    const uint64_t count = (uint64_t)lki_shape_size(&p->array.shape), bytes = count * (uint64_t)p->element->bytes;
    if (p->end - p->begin == bytes) return LK_OK; /* no wrap: lki_array_begin allows no shape of more than 2^63 bytes */
    return lki_fail(LK_EFORMAT, "%s: \"%.200s\" has %llu bytes; shape %s of %s has %llu", h->file, p->name,
                    (unsigned long long)(p->end - p->begin), lki_shape_text(&p->array.shape, shape), p->element->name,
                    (unsigned long long)bytes);
}

static lk_status read_place(const header *h, const lki_json *v, place *p)
{
    *p = (place){.name = v->key};
    if (v->type != LKI_JSON_OBJECT) return bad(h, v->key, "it should be {\"dtype\", \"shape\", \"data_offsets\"}");
    LKI_TRY(read_type(h, v, p));
    LKI_TRY(read_shape(h, v, p));
    return read_offsets(h, v, p);
}

static int by_offset(const void *a, const void *b)
{
    const place *x = a, *y = b;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    return x->end < y->end ? -1 : x->end > y->end;
}

static lk_status check_places(header *h)
{
    uint64_t at = 0;
    if (h->count) qsort(h->place, (size_t)h->count, sizeof *h->place, by_offset);
    for (int i = 0; i < h->count; at = h->place[i++].end)
        if (h->place[i].begin != at)
            return lki_fail(LK_EFORMAT, "%s: \"%.200s\" begins at offset %llu; what is before it ends at %llu: %s", h->file,
                            h->place[i].name, (unsigned long long)h->place[i].begin, (unsigned long long)at,
                            h->place[i].begin < at ? "they overlap" : "there is a hole");
    if (at == h->size) return LK_OK;
    return lki_fail(LK_EFORMAT, "%s: the last array ends at offset %llu; there are %llu bytes after the header", h->file,
                    (unsigned long long)at, (unsigned long long)h->size);
}

static lk_status read_notes(const header *h, const lki_json *v, lki_arrays *out)
{
    if (v->type != LKI_JSON_OBJECT) return bad(h, METADATA, "it should be an object");
    for (int i = 0; i < v->count; i++) {
        if (v->item[i].type != LKI_JSON_STRING) return bad(h, METADATA, "its values should be texts");
        LKI_TRY(lki_arrays_note(out, v->item[i].key, v->item[i].text));
    }
    return LK_OK;
}

static lk_status read_header(header *h, lki_arrays *out)
{
    if (h->root->type != LKI_JSON_OBJECT) return lki_fail(LK_EFORMAT, "%s: the header is not an object", h->file);
    h->place = lki_alloc_array((size_t)h->root->count + 1, sizeof *h->place);
    if (!h->place) return LK_ENOMEM;
    for (int i = 0; i < h->root->count; i++) {
        const lki_json *v = &h->root->item[i];
        if (strcmp(v->key, METADATA) == 0) LKI_TRY(read_notes(h, v, out));
        else LKI_TRY(read_place(h, v, &h->place[h->count++]));
    }
    return check_places(h);
}

/* ---- the elements ------------------------------------------------------------------------------------------------------------ */

static lk_status widen(const header *h, const place *p, const uint8_t *src, lki_array *a)
{
    const int     bytes = p->element->bytes;
    const int64_t count = lki_shape_size(&a->shape);
    for (int64_t i = 0; i < count; i++) {
        const uint64_t x = lki_get_le(src + i * bytes, bytes);
        if (!lki_array_put(a, i, x, p->element->how, bytes))
            return lki_fail(LK_EFORMAT, "%s: element %lld of \"%.200s\" is %llu: too large for i64", h->file, (long long)i, p->name,
                            (unsigned long long)x);
    }
    return LK_OK;
}

static lk_status read_elements(const header *h, lki_arrays *out)
{
    for (int i = 0; i < h->count; i++) {
        place         *p = &h->place[i];
        const uint8_t *src = h->data + p->begin;
        LKI_TRY(lki_array_alloc(&p->array));
        lk_status status = LK_OK;
        if (p->element->how != LKI_AS_IS) status = widen(h, p, src, &p->array);
        else if (p->end > p->begin) memcpy(p->array.data, src, (size_t)(p->end - p->begin));
        if (status != LK_OK) lki_array_free(&p->array);
        LKI_TRY(status);
        LKI_TRY(lki_arrays_add(out, p->name, &p->array));
        if (p->element->how == LKI_AS_IS || p->element->how == LKI_TRUTH) continue;
        out->item[out->count - 1].stored = p->element->name;
        out->item[out->count - 1].stored_bytes = p->element->bytes;
    }
    return lki_arrays_close(h->file, out);
}

/* ---- whole files ------------------------------------------------------------------------------------------------------------- */

bool lki_safetensors_begins(const uint8_t *first, uint64_t size)
{
    if (size < PREFIX + 2) return false;
    const uint64_t n = lki_get_le(first, PREFIX);
    return n >= 2 && n <= MOST_HEADER && n <= size - PREFIX && first[PREFIX] == '{';
}

static lk_status parse(const char *name, const uint8_t *bytes, size_t size, lki_arrays *out)
{
    header h = {.file = name};
    if (size < PREFIX)
        return lki_fail(LK_EFORMAT, "%s: %zu bytes: a safetensors file begins with 8 that tell the length of its header", name,
                        size);
    const uint64_t n = lki_get_le(bytes, PREFIX);
    if (n > MOST_HEADER || n > size - PREFIX)
        return lki_fail(LK_EFORMAT, "%s: a header of %llu bytes at offset 8: the file has %zu, and a header at most %d", name,
                        (unsigned long long)n, size, MOST_HEADER);
    const char *text = (const char *)bytes + PREFIX;
    if (!n || *text != '{') return lki_fail(LK_EFORMAT, "%s: the header at offset 8 does not begin with '{'", name);
    LKI_TRY(lki_json_parse(name, text, (size_t)n, &h.root));
    h.data = bytes + PREFIX + n;
    h.size = size - PREFIX - n;
    lk_status status = read_header(&h, out);
    if (status == LK_OK) status = read_elements(&h, out);
    lki_release(h.place);
    lki_json_free(h.root);
    return status;
}

lk_status lki_safetensors_parse(const char *name, const void *bytes, size_t size, lki_arrays *out)
{
    *out = (lki_arrays){0};
    const lk_status status = parse(name, bytes, size, out);
    if (status != LK_OK) lki_arrays_free(out);
    return status;
}

lk_status lki_safetensors_read(const char *path, lki_arrays *out)
{
    lki_bytes bytes LKI_FREED_BY(lki_bytes_free) = {0};
    *out = (lki_arrays){0};
    LKI_TRY(lki_file_read(path, &bytes));
    return lki_safetensors_parse(path, bytes.data, bytes.size, out);
}

/* ---- writing ----------------------------------------------------------------------------------------------------------------- */

static int by_size_and_name(const void *a, const void *b)
{
    const lki_named *x = *(const lki_named *const *)a, *y = *(const lki_named *const *)b;
    const size_t     m = lk_dtype_bytes(x->array.dtype), n = lk_dtype_bytes(y->array.dtype);
    return m != n ? (m > n ? -1 : 1) : strcmp(x->name, y->name);
}

static const char *type_name(lk_dtype dtype)
{
    for (int i = 0; i < LKI_COUNT(ELEMENTS); i++)
        if (ELEMENTS[i].dtype == dtype && (ELEMENTS[i].how == LKI_AS_IS || ELEMENTS[i].how == LKI_TRUTH)) return ELEMENTS[i].name;
    return NULL;
}

static void write_notes(lki_json_out *o, const lki_arrays *a)
{
    if (!a->notes) return;
    lki_json_key(o, METADATA);
    lki_json_open(o, '{');
    for (int i = 0; i < a->notes; i++) {
        lki_json_key(o, a->note[i].key);
        lki_json_text(o, a->note[i].value);
    }
    lki_json_close(o, '}');
}

static void write_place(lki_json_out *o, const lki_named *n, uint64_t *at)
{
    const uint64_t end = *at + lki_array_bytes(&n->array);
    lki_json_key(o, n->name);
    lki_json_open(o, '{');
    lki_json_key(o, "dtype");
    lki_json_text(o, type_name(n->array.dtype));
    lki_json_key(o, "shape");
    lki_json_open(o, '[');
    for (int i = 0; i < n->array.shape.rank; i++)
        lki_json_int(o, n->array.shape.dim[i]);
    lki_json_close(o, ']');
    lki_json_key(o, "data_offsets");
    lki_json_open(o, '[');
    lki_json_int(o, (int64_t)*at);
    lki_json_int(o, (int64_t)end);
    lki_json_close(o, ']');
    lki_json_close(o, '}');
    *at = end;
}

static lk_status write_header(lki_durable *d, const lki_arrays *a, const lki_named *const *order)
{
    lki_json_out o LKI_FREED_BY(lki_json_out_free) = {0};
    uint64_t     at = 0;
    uint8_t      length[PREFIX];
    lki_json_open(&o, '{');
    write_notes(&o, a);
    for (int i = 0; i < a->count; i++)
        write_place(&o, order[i], &at);
    lki_json_close(&o, '}');
    const size_t n = (o.size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    if (o.failed) return LK_ENOMEM;
    if (n > MOST_HEADER)
        return lki_fail(LK_EUNSUPPORTED, "%s: a header of %zu bytes; a safetensors file has at most %d", d->path, n, MOST_HEADER);
    for (int i = 0; i < PREFIX; i++)
        length[i] = (uint8_t)((uint64_t)n >> 8 * i);
    LKI_TRY(lki_durable_write(d, length, PREFIX));
    LKI_TRY(lki_durable_write(d, o.text, o.size));
    return lki_durable_write(d, "       ", n - o.size);
}

static lk_status check_names(const char *path, const lki_arrays *a)
{
    for (int i = 0; i < a->count; i++) {
        const char *name = a->item[i].name;
        if (strcmp(name, METADATA) == 0)
            return lki_fail(LK_EINVAL, "%s: an array is called \"%s\", which in safetensors files are the texts about the file",
                            path, name);
        if (!lki_utf8_valid(name, strlen(name))) return lki_fail(LK_EINVAL, "%s: the name of array %d is not UTF-8", path, i);
    }
    return LK_OK;
}

static lk_status write_all(lki_durable *d, const lki_arrays *a, const lki_named *const *order)
{
    LKI_TRY(write_header(d, a, order));
    for (int i = 0; i < a->count; i++)
        LKI_TRY(lki_durable_write(d, order[i]->array.data, (size_t)lki_array_bytes(&order[i]->array)));
    LKI_TRY(lki_durable_sync(d));
    return lki_durable_publish(d);
}

lk_status lki_safetensors_write(const char *path, const lki_arrays *a)
{
    const lki_named **order LKI_RELEASED = lki_alloc_array((size_t)a->count + 1, sizeof *order);
    lki_durable       d = LKI_DURABLE_NONE;
    if (!order) return LK_ENOMEM;
    lk_status status = check_names(path, a);
    for (int i = 0; i < a->count; i++)
        order[i] = &a->item[i];
    if (a->count) qsort(order, (size_t)a->count, sizeof *order, by_size_and_name);
    if (status == LK_OK) status = lki_durable_begin(path, &d);
    if (status == LK_OK) {
        status = write_all(&d, a, order);
        lki_durable_abandon(&d);
    }
    return status == LK_OK ? lki_folder_sync(path) : status;
}
