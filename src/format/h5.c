/* HDF5 files (h5.h): their items, and how they are sent to the helper and back (h5_protocol.h).
 *
 * Invariants
 *  1. Items are sorted by name and no two of a kind have the same; a name with an '@' is an attribute's.
 *  2. The helper's answer is checked like a file: the helper may have read a hostile one. */
#include "format/h5.h"
#include "core/memory.h"
#include "core/open.h"
#include "core/shape.h"
#include "format/durable.h"
#include "format/h5_helper.h"
#include "format/h5_protocol.h"
#include "format/utf8.h"
#include "format/wire.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- items ------------------------------------------------------------------------------------------------------------------- */

static void free_item(lki_h5_item *i)
{
    for (int t = 0; t < i->texts; t++)
        lki_release(i->text[t]);
    lki_release(i->text);
    lki_release(i->name);
    lki_array_free(&i->array);
}

void lki_h5_free(lki_h5 *file)
{
    for (int i = 0; i < file->count; i++)
        free_item(&file->item[i]);
    lki_release(file->item);
    *file = (lki_h5){0};
}

/* The index of a name, or where it would be inserted. */
static int place_of(const lki_h5 *file, const char *name, bool *found)
{
    int low = 0, high = file->count;
    while (low < high) {
        const int middle = low + (high - low) / 2;
        if (strcmp(file->item[middle].name, name) < 0) low = middle + 1;
        else high = middle;
    }
    *found = low < file->count && strcmp(file->item[low].name, name) == 0;
    return low;
}

const lki_h5_item *lki_h5_find(const lki_h5 *file, const char *name)
{
    bool      found;
    const int i = place_of(file, name, &found);
    return found ? &file->item[i] : NULL;
}

/* True if it consists of nonempty parts separated by slashes. */
static bool is_path(const char *name, size_t size)
{
    bool part = false;
    for (size_t i = 0; i < size; i++) {
        if (name[i] == '/' && !part) return false;
        part = name[i] != '/';
    }
    return part;
}

static lk_status check_name(const char *name, bool attribute)
{
    const char  *at = strrchr(name, '@');
    const size_t size = strlen(name), path = at ? (size_t)(at - name) : size;
    const bool   good = lki_utf8_valid(name, size) && size < LKI_H5P_MOST_NAME && (attribute || !at) &&
                      (path ? is_path(name, path) : at != NULL) && (!at || at[1]);
    if (good && (!attribute || at)) return LK_OK;
    return lki_fail(LK_EINVAL, "HDF5: \"%s\" is not a valid name of %s: should be %s", name,
                    attribute ? "an attribute" : "a group or dataset",
                    attribute ? "PATH@NAME" : "a path such as layers/dense/vars/0, without a leading slash");
}

/* Takes over the item, also on failure; its name is a copy of `name`. */
static lk_status add(lki_h5 *file, const char *name, lki_h5_item *i)
{
    bool      found;
    const int at = place_of(file, name, &found);
    lk_status status = LK_OK;
    if (found) status = lki_fail(LK_EINVAL, "HDF5: \"%s\" is there already", name);
    else if (!(i->name = lki_strdup(name)) || !lki_grow((void **)&file->item, &file->room, file->count + 1, sizeof *i))
        status = LK_ENOMEM;
    if (status != LK_OK) return free_item(i), status;
    memmove(file->item + at + 1, file->item + at, (size_t)(file->count - at) * sizeof *i);
    file->item[at] = *i;
    file->count++;
    return LK_OK;
}

lk_status lki_h5_add_group(lki_h5 *file, const char *name)
{
    LKI_TRY(check_name(name, false));
    return add(file, name, &(lki_h5_item){.kind = LKI_H5_GROUP});
}

static int values_of(lk_dtype dtype);

lk_status lki_h5_add_array(lki_h5 *file, const char *name, lk_dtype dtype, const lk_shape *shape, const void *data)
{
    const bool attribute = strchr(name, '@') != NULL;
    LKI_TRY(check_name(name, attribute));
    if (!values_of(dtype))
        return lki_fail(LK_EDTYPE, "HDF5: \"%s\" is %s, which HDF5 files do not have: cast it", name, lk_dtype_name(dtype));
    if (!lki_shape_valid(shape)) return lki_fail(LK_ESHAPE, "HDF5: the shape of \"%s\" is not valid", name);
    lki_h5_item i = {.kind = attribute ? LKI_H5_ATTRIBUTE : LKI_H5_DATASET, .type = LKI_H5_ARRAY, .array = {dtype, *shape, NULL}};
    LKI_TRY(lki_array_alloc(&i.array));
    const size_t bytes = lki_bytes_of(lki_shape_size(shape), lk_dtype_bytes(dtype));
    if (bytes) memcpy(i.array.data, data, bytes);
    return add(file, name, &i);
}

static lk_status add_texts(lki_h5 *file, const char *name, lki_h5_type type, int count, const char *const *utf8)
{
    lki_h5_item i = {.kind = LKI_H5_ATTRIBUTE, .type = type};
    LKI_TRY(check_name(name, true));
    for (int t = 0; t < count; t++)
        if (!lki_utf8_valid(utf8[t], strlen(utf8[t]))) return lki_fail(LK_EINVAL, "HDF5: text %d of \"%s\" is not UTF-8", t, name);
    i.text = lki_zalloc_array((size_t)count + 1, sizeof *i.text);
    if (!i.text) return LK_ENOMEM;
    for (; i.texts < count; i.texts++) {
        i.text[i.texts] = lki_strdup(utf8[i.texts]);
        if (!i.text[i.texts]) return free_item(&i), LK_ENOMEM;
    }
    return add(file, name, &i);
}

lk_status lki_h5_add_text(lki_h5 *file, const char *name, const char *utf8) { return add_texts(file, name, LKI_H5_TEXT, 1, &utf8); }

lk_status lki_h5_add_texts(lki_h5 *file, const char *name, int count, const char *const *utf8)
{
    return add_texts(file, name, LKI_H5_TEXTS, count, utf8);
}

/* ---- kinds of values --------------------------------------------------------------------------------------------------------- */

static const struct {
    lki_h5p_values values;
    lk_dtype       dtype;
} numbers[] = {{LKI_H5P_F16, LK_F16}, {LKI_H5P_F32, LK_F32}, {LKI_H5P_F64, LK_F64},  {LKI_H5P_I32, LK_I32},
               {LKI_H5P_I64, LK_I64}, {LKI_H5P_U8, LK_U8},   {LKI_H5P_BOOL, LK_BOOL}};

static int values_of(lk_dtype dtype)
{
    for (int i = 0; i < LKI_COUNT(numbers); i++)
        if (numbers[i].dtype == dtype) return (int)numbers[i].values;
    return 0;
}

static bool dtype_of(uint64_t values, lk_dtype *out)
{
    for (int i = 0; i < LKI_COUNT(numbers); i++)
        if (numbers[i].values == values) return *out = numbers[i].dtype, true;
    return false;
}

/* ---- an answer --------------------------------------------------------------------------------------------------------------- */

/* A frame of an answer while it is received; every byte is read by hear(). */
typedef struct source {
    const char  *name;
    lki_h5_talk *talk;
    uint64_t     limit;   /* bytes a frame may have */
    uint64_t     left;    /* of its payload */
    bool         writing; /* from a helper that writes a file: messages do not blame a file */
} source;

/* If the helper ended abnormally, that is the better error message. */
static lk_status malformed(const source *s)
{
    LKI_TRY(lki_h5_end(s->talk));
    if (s->writing)
        return lki_fail(LK_EIO, "%s: the HDF5 helper returned no valid answer while writing it: is it this version's?", s->name);
    return lki_fail(LK_EFORMAT, "%s: the HDF5 helper returned no valid answer: the file is damaged or hostile", s->name);
}

static lk_status hear(source *s, void *to, uint64_t size)
{
    size_t got = 0;
    if (size > s->left) return malformed(s);
    LKI_TRY(lki_h5_hear(s->talk, to, (size_t)size, &got));
    s->left -= got;
    return got == size ? LK_OK : malformed(s);
}

/* The next frame: its kind; its payload is not read yet. */
static lk_status next_frame(source *s, uint64_t *what)
{
    uint8_t head[LKI_H5P_FRAME];
    s->left = sizeof head;
    LKI_TRY(hear(s, head, sizeof head));
    *what = lki_get_le(head, 4);
    s->left = lki_get_le(head + 8, 8);
    return s->left <= s->limit ? LK_OK : malformed(s);
}

/* After the frame that marks the end nothing may follow. */
static lk_status check_done(source *s)
{
    uint8_t more;
    size_t  got = 0;
    if (s->left) return malformed(s);
    LKI_TRY(lki_h5_hear(s->talk, &more, 1, &got));
    return got ? malformed(s) : lki_h5_end(s->talk);
}

/* A frame that ends the answer early. */
static lk_status read_refusal(source *s, uint64_t what, bool reading)
{
    static const lk_status code[] = {[LKI_H5P_UNSUPPORTED] = LK_EUNSUPPORTED, [LKI_H5P_NO_MEMORY] = LK_ENOMEM};
    char                   text[1000];
    const size_t           size = s->left < sizeof text - 1 ? (size_t)s->left : sizeof text - 1;
    if (what < LKI_H5P_REFUSED || what > LKI_H5P_NO_MEMORY || !size) return malformed(s);
    LKI_TRY(hear(s, text, size));
    LKI_TRY(lki_h5_end(s->talk));
    for (size_t i = 0; i < size; i++)
        if ((uint8_t)text[i] < ' ' || text[i] == 127) text[i] = '?'; /* names in a file may contain any bytes */
    text[size] = 0;
    return lki_fail(what == LKI_H5P_REFUSED ? (reading ? LK_EFORMAT : LK_EINVAL) : code[what], "%s: %s", s->name, text);
}

/* `size` bytes and a zero. */
static lk_status read_string(source *s, size_t size, char **out)
{
    if (size > s->left) return malformed(s);
    *out = lki_alloc(size + 1);
    if (!*out) return LK_ENOMEM;
    (*out)[size] = 0;
    return hear(s, *out, size);
}

static lk_status read_text(source *s, char **out)
{
    uint8_t head[4];
    LKI_TRY(hear(s, head, sizeof head));
    return read_string(s, (size_t)lki_get_le(head, 4), out);
}

static lk_status read_texts(source *s, uint64_t count, lki_h5_item *i)
{
    if (count > s->left / 4 || (i->type == LKI_H5_TEXT && count != 1)) return malformed(s);
    i->text = lki_zalloc_array((size_t)count + 1, sizeof *i->text);
    if (!i->text) return LK_ENOMEM;
    for (uint64_t t = 0; t < count; t++) {
        i->texts++;
        LKI_TRY(read_text(s, &i->text[t]));
        if (!lki_utf8_valid(i->text[t], strlen(i->text[t])))
            return lki_fail(LK_EFORMAT, "%s: a text of %s is not UTF-8", s->name, i->name);
    }
    return s->left ? malformed(s) : LK_OK;
}

static lk_status read_array(source *s, lk_dtype dtype, int rank, const uint64_t *dim, lki_h5_item *i)
{
    LKI_TRY(lki_array_begin(s->name, dtype, rank, dim, &i->array));
    const uint64_t bytes = lki_bytes_of(lki_shape_size(&i->array.shape), lk_dtype_bytes(dtype));
    if (bytes != s->left) return malformed(s);
    LKI_TRY(lki_array_alloc(&i->array));
    return hear(s, i->array.data, bytes);
}

static lk_status read_values(source *s, uint64_t values, uint64_t texts, int rank, const uint64_t *dim, lki_h5_item *i)
{
    lk_dtype dtype;
    if (i->kind == LKI_H5_GROUP) return s->left ? malformed(s) : LK_OK;
    if (dtype_of(values, &dtype)) return read_array(s, dtype, rank, dim, i);
    if (values != LKI_H5P_TEXT && values != LKI_H5P_TEXTS) return malformed(s);
    i->type = values == LKI_H5P_TEXT ? LKI_H5_TEXT : LKI_H5_TEXTS;
    return read_texts(s, texts, i);
}

static lk_status read_item(source *s, lki_h5_item *i)
{
    static const lki_h5_kind kinds[] = {
        [LKI_H5P_GROUP] = LKI_H5_GROUP, [LKI_H5P_DATASET] = LKI_H5_DATASET, [LKI_H5P_ATTRIBUTE] = LKI_H5_ATTRIBUTE};
    uint8_t  head[LKI_H5P_ITEM_FIXED], dims[8 * LKI_H5P_MOST_AXES];
    uint64_t dim[LKI_H5P_MOST_AXES];
    LKI_TRY(hear(s, head, sizeof head));
    const size_t length = (size_t)lki_get_le(head + 4, 4);
    if (head[0] < LKI_H5P_GROUP || head[0] > LKI_H5P_ATTRIBUTE || head[2] > LKI_H5P_MOST_AXES || length > LKI_H5P_MOST_NAME)
        return malformed(s);
    LKI_TRY(hear(s, dims, 8 * (uint64_t)head[2]));
    for (int a = 0; a < head[2]; a++)
        dim[a] = lki_get_le(dims + 8 * a, 8);
    i->kind = kinds[head[0]];
    LKI_TRY(read_string(s, length, &i->name));
    if (lki_get_le(head + 16, 8) != s->left) return malformed(s);
    if (!lki_utf8_valid(i->name, length)) return lki_fail(LK_EFORMAT, "%s: a name in it is not UTF-8", s->name);
    return read_values(s, head[1], lki_get_le(head + 8, 4), head[2], dim, i);
}

static lk_status read_items(source *s, lki_h5 *out)
{
    for (;;) {
        uint64_t what;
        LKI_TRY(next_frame(s, &what));
        if (what == LKI_H5P_DONE) return check_done(s);
        if (what != LKI_H5P_ITEM) return read_refusal(s, what, true);
        if (out->count == LKI_H5P_MOST_ITEMS) return malformed(s);
        if (!lki_grow((void **)&out->item, &out->room, out->count + 1, sizeof *out->item)) return LK_ENOMEM;
        lki_h5_item *i = &out->item[out->count];
        *i = (lki_h5_item){0};
        out->count++; /* now part of `out`, so it is freed with it, complete or not */
        LKI_TRY(read_item(s, i));
    }
}

static int by_name(const void *a, const void *b)
{
    const lki_h5_item *x = a, *y = b;
    const int          order = strcmp(x->name, y->name);
    return order ? order : (int)x->kind - (int)y->kind;
}

static lk_status sort_items(const source *s, lki_h5 *out)
{
    if (out->count) qsort(out->item, (size_t)out->count, sizeof *out->item, by_name);
    for (int i = 1; i < out->count; i++)
        if (by_name(&out->item[i - 1], &out->item[i]) == 0) return malformed(s);
    return LK_OK;
}

/* ---- a request --------------------------------------------------------------------------------------------------------------- */

static void put_request(lki_sink *s, lki_h5p_mode mode, size_t size, size_t limit)
{
    lki_sink_fixed(s, LKI_H5P_MAGIC, 8);
    lki_sink_fixed(s, mode, 4);
    lki_sink_fixed(s, (uint64_t)lki_h5_patience(), 4);
    lki_sink_fixed(s, size, 8);
    lki_sink_fixed(s, limit, 8);
}

static uint64_t text_bytes(const lki_h5_item *i)
{
    uint64_t bytes = 0;
    for (int t = 0; t < i->texts; t++)
        bytes += 4 + strlen(i->text[t]);
    return bytes;
}

static void put_item(lki_sink *s, const lki_h5_item *i)
{
    static const lki_h5p_kind kinds[] = {
        [LKI_H5_GROUP] = LKI_H5P_GROUP, [LKI_H5_DATASET] = LKI_H5P_DATASET, [LKI_H5_ATTRIBUTE] = LKI_H5P_ATTRIBUTE};
    const bool      array = i->kind != LKI_H5_GROUP && i->type == LKI_H5_ARRAY;
    const lk_shape *shape = &i->array.shape;
    const size_t    bytes = array ? lki_bytes_of(lki_shape_size(shape), lk_dtype_bytes(i->array.dtype)) : (size_t)text_bytes(i);
    const int       values = array                     ? values_of(i->array.dtype)
                             : i->kind == LKI_H5_GROUP ? 0
                             : i->type == LKI_H5_TEXT  ? LKI_H5P_TEXT
                                                       : LKI_H5P_TEXTS;
    lki_sink_bytes(s, (uint8_t[]){(uint8_t)kinds[i->kind], (uint8_t)values, (uint8_t)(array ? shape->rank : 0), 0}, 4);
    lki_sink_fixed(s, strlen(i->name), 4);
    lki_sink_fixed(s, (uint64_t)i->texts, 4);
    lki_sink_fixed(s, 0, 4);
    lki_sink_fixed(s, bytes, 8);
    for (int a = 0; array && a < shape->rank; a++)
        lki_sink_fixed(s, (uint64_t)shape->dim[a], 8);
    lki_sink_bytes(s, i->name, strlen(i->name));
    if (array) lki_sink_bytes(s, i->array.data, bytes);
    for (int t = 0; t < i->texts; t++) {
        lki_sink_fixed(s, strlen(i->text[t]), 4);
        lki_sink_bytes(s, i->text[t], strlen(i->text[t]));
    }
}

/* ---- both ways --------------------------------------------------------------------------------------------------------------- */

/* Packed files may contain more than their size, but a small one that claims gigabytes is damaged. */
static size_t most_of(size_t size) { return size > SIZE_MAX / 32 ? SIZE_MAX / 2 : size * 16 + ((size_t)256 << 20); }

lk_status lki_h5_read_feed(const char *name, lki_feed *file, lki_h5 *out)
{
    lki_sink     head LKI_FREED_BY(lki_sink_free) = {0};
    const size_t limit = most_of((size_t)file->size);
    source       s = {.name = name, .limit = limit};
    *out = (lki_h5){0};
    put_request(&head, LKI_H5P_READ, (size_t)file->size, limit);
    lk_status status =
        head.failed ? LK_ENOMEM : lki_h5_ask(name, "reading", &(lki_bytes){head.data, head.size}, file, limit + 4096, &s.talk);
    if (status == LK_OK) status = read_items(&s, out);
    if (status == LK_OK) status = sort_items(&s, out);
    if (status != LK_OK) lki_h5_free(out);
    lki_h5_close(s.talk);
    return status;
}

lk_status lki_h5_read(const char *name, const uint8_t *bytes, size_t size, lki_h5 *out)
{
    lki_bytes_feed f = lki_feed_of_bytes(bytes, size);
    return lki_h5_read_feed(name, &f.feed, out);
}

lk_status lki_h5_read_file(const char *path, lki_h5 *out)
{
    int           descriptor;
    uint64_t      size;
    lki_file_feed f;
    *out = (lki_h5){0};
    LKI_TRY(lki_open_regular(path, &descriptor, &size));
    lk_status status = lki_file_feed_begin(&f, path, descriptor, 0, size);
    if (status == LK_OK) status = lki_h5_read_feed(path, &f.feed, out);
    lki_file_feed_end(&f);
    close(descriptor);
    return status;
}

static lk_status read_image(source *s, lki_bytes *out)
{
    uint64_t what;
    LKI_TRY(next_frame(s, &what));
    if (what != LKI_H5P_FILE) return read_refusal(s, what, false);
    *out = (lki_bytes){lki_alloc((size_t)s->left), (size_t)s->left};
    if (!out->data) return LK_ENOMEM;
    LKI_TRY(hear(s, out->data, s->left));
    LKI_TRY(next_frame(s, &what));
    return what == LKI_H5P_DONE ? check_done(s) : read_refusal(s, what, false);
}

lk_status lki_h5_write(const char *name, const lki_h5 *file, lki_bytes *out)
{
    lki_sink head LKI_FREED_BY(lki_sink_free) = {0}, items LKI_FREED_BY(lki_sink_free) = {0};
    *out = (lki_bytes){0};
    for (int i = 0; i < file->count; i++)
        put_item(&items, &file->item[i]);
    const size_t   limit = most_of(items.size);
    lki_bytes_feed f = lki_feed_of_bytes(items.data, items.size);
    source         s = {.name = name, .limit = limit, .writing = true};
    put_request(&head, LKI_H5P_WRITE, items.size, limit);
    lk_status status = head.failed || items.failed
                           ? LK_ENOMEM
                           : lki_h5_ask(name, "writing", &(lki_bytes){head.data, head.size}, &f.feed, limit + 4096, &s.talk);
    if (status == LK_OK) status = read_image(&s, out);
    if (status != LK_OK) lki_bytes_free(out);
    lki_h5_close(s.talk);
    return status;
}
