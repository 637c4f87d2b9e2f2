/* Writing: a file in memory, made of items, in the forms that h5py uses, so that Keras can read it.
 *
 *     numbers   stored in one piece, little endian; bool as an enumeration of one byte, FALSE and TRUE
 *     text      of variable length, UTF-8
 *     texts     of fixed length, that of the longest, padded with zeros; of variable length if that would not fit an attribute
 *
 * No times are stored: equal items give equal bytes. Missing groups on the path of a name are created. */
#include "helper.h"
#include <stdlib.h>
#include <string.h>

enum { MOST_ATTRIBUTE = 60000 }; /* libhdf5 keeps an attribute below 64 KiB */

typedef struct writer {
    hid_t file;
    hid_t make_links, make_attribute, make_set; /* properties */
    hid_t half, boolean, text;
    hid_t numbers[LKI_H5P_BOOL + 1]; /* file types, by lki_h5p_values */
} writer;

static const size_t element_bytes[] = {[LKI_H5P_F16] = 2, [LKI_H5P_F32] = 4, [LKI_H5P_F64] = 8, [LKI_H5P_I32] = 4,
                                       [LKI_H5P_I64] = 8, [LKI_H5P_U8] = 1,  [LKI_H5P_BOOL] = 1};

static void start(writer *w)
{
    w->make_links = H5Pcreate(H5P_LINK_CREATE);
    H5Pset_create_intermediate_group(w->make_links, 1);
    H5Pset_char_encoding(w->make_links, H5T_CSET_UTF8);
    w->make_attribute = H5Pcreate(H5P_ATTRIBUTE_CREATE);
    H5Pset_char_encoding(w->make_attribute, H5T_CSET_UTF8);
    w->make_set = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_obj_track_times(w->make_set, 0);
    w->half = half_type();
    w->boolean = H5Tenum_create(H5T_STD_I8LE);
    H5Tenum_insert(w->boolean, "FALSE", &(int8_t){0});
    H5Tenum_insert(w->boolean, "TRUE", &(int8_t){1});
    w->text = H5Tcopy(H5T_C_S1);
    H5Tset_size(w->text, H5T_VARIABLE);
    H5Tset_cset(w->text, H5T_CSET_UTF8);
    w->numbers[LKI_H5P_F16] = w->half;
    w->numbers[LKI_H5P_F32] = H5T_IEEE_F32LE;
    w->numbers[LKI_H5P_F64] = H5T_IEEE_F64LE;
    w->numbers[LKI_H5P_I32] = H5T_STD_I32LE;
    w->numbers[LKI_H5P_I64] = H5T_STD_I64LE;
    w->numbers[LKI_H5P_U8] = H5T_STD_U8LE;
    w->numbers[LKI_H5P_BOOL] = w->boolean;
}

/* ---- items ------------------------------------------------------------------------------------------------------------------- */

typedef struct source {
    const uint8_t *p, *end;
} source;

static const uint8_t *take(source *s, uint64_t size)
{
    const uint8_t *p = s->p;
    if (size > (uint64_t)(s->end - s->p)) refuse(LKI_H5P_REFUSED, "the request is cut off");
    s->p += size;
    return p;
}

static uint64_t number(source *s, int bytes)
{
    const uint8_t *p = take(s, (uint64_t)bytes);
    uint64_t       x = 0;
    for (int i = bytes; i-- > 0;)
        x = x << 8 | p[i];
    return x;
}

static void check_size(const item *i)
{
    uint64_t bytes = i->kind == LKI_H5P_GROUP ? 0 : element_bytes[i->values];
    for (int a = 0; a < i->rank; a++)
        if (!lki_count_try_mul(bytes, (uint64_t)i->dim[a], &bytes)) bytes = UINT64_MAX;
    if (bytes != i->size) refuse(LKI_H5P_REFUSED, "%s: %llu bytes of values", i->name, (unsigned long long)i->size);
}

/* The name is a copy that ends in 0. */
static item next_item(source *s, const uint8_t **values)
{
    item i = {.kind = (uint8_t)number(s, 1), .values = (uint8_t)number(s, 1), .rank = (int)number(s, 1)};
    number(s, 1);
    i.name_size = (size_t)number(s, 4);
    i.texts = (uint32_t)number(s, 4);
    number(s, 4);
    i.size = number(s, 8);
    if (i.kind < LKI_H5P_GROUP || i.kind > LKI_H5P_ATTRIBUTE || i.values > LKI_H5P_TEXTS || i.rank > LKI_H5P_MOST_AXES)
        refuse(LKI_H5P_REFUSED, "the request has an item of an unknown kind");
    for (int a = 0; a < i.rank; a++)
        i.dim[a] = number(s, 8);
    char *name = allocate(i.name_size + 1);
    memcpy(name, take(s, i.name_size), i.name_size);
    name[i.name_size] = 0;
    i.name = name;
    *values = take(s, i.size);
    if (i.values < LKI_H5P_TEXT) check_size(&i);
    return i;
}

/* ---- places of values ---- */

/* The object at a path; missing groups are created. */
static hid_t open_or_make(writer *w, const char *path)
{
    const char *name = *path ? path : "/";
    hid_t       id = H5Oopen(w->file, name, H5P_DEFAULT);
    if (id < 0) id = H5Gcreate2(w->file, name, w->make_links, H5P_DEFAULT, H5P_DEFAULT);
    if (id < 0) refuse(LKI_H5P_REFUSED, "%s: cannot be made: %s", name, reason());
    return id;
}

static hid_t make_attribute(writer *w, const item *i, hid_t type, hid_t space)
{
    char *path = strdup(i->name), *at = path ? strrchr(path, '@') : NULL;
    if (!at) refuse(LKI_H5P_REFUSED, "%s: the name of an attribute is PATH@NAME", i->name);
    *at = 0;
    const hid_t object = open_or_make(w, path), id = H5Acreate2(object, at + 1, type, space, w->make_attribute, H5P_DEFAULT);
    H5Oclose(object);
    free(path);
    return id;
}

static void write_values(writer *w, const item *i, hid_t type, hid_t space, const void *values)
{
    const bool  attribute = i->kind == LKI_H5P_ATTRIBUTE;
    const hid_t id = attribute ? make_attribute(w, i, type, space)
                               : H5Dcreate2(w->file, i->name, type, space, w->make_links, w->make_set, H5P_DEFAULT);
    if (id < 0) refuse(LKI_H5P_REFUSED, "%s: cannot be made: %s", i->name, reason());
    if ((attribute ? H5Awrite(id, type, values) : H5Dwrite(id, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values)) < 0)
        refuse(LKI_H5P_REFUSED, "%s: cannot be written: %s", i->name, reason());
    if (attribute) H5Aclose(id);
    else H5Dclose(id);
    H5Sclose(space);
}

static void write_numbers(writer *w, const item *i, const uint8_t *values)
{
    const hid_t space = i->rank ? H5Screate_simple(i->rank, i->dim, NULL) : H5Screate(H5S_SCALAR);
    if (space < 0) refuse(LKI_H5P_REFUSED, "%s: a shape HDF5 does not take: %s", i->name, reason());
    write_values(w, i, w->numbers[i->values], space, values);
}

/* ---- texts ------------------------------------------------------------------------------------------------------------------- */

/* Copies that end in 0; *longest: bytes of the longest one. */
static char **copy_texts(const item *i, const uint8_t *values, size_t *longest)
{
    source s = {values, values + i->size};
    char **text = allocate_array(i->texts, sizeof *text);
    *longest = 0;
    for (uint32_t t = 0; t < i->texts; t++) {
        const size_t size = (size_t)number(&s, 4);
        text[t] = allocate(size + 1);
        memcpy(text[t], take(&s, size), size);
        text[t][size] = 0;
        if (size > *longest) *longest = size;
    }
    return text;
}

static void write_fixed_texts(writer *w, const item *i, char **text, size_t longest, hid_t space)
{
    const size_t bytes = longest ? longest : 1;
    const hid_t  type = H5Tcopy(H5T_C_S1);
    char        *all = allocate_array(i->texts, bytes);
    H5Tset_size(type, bytes);
    H5Tset_strpad(type, H5T_STR_NULLPAD);
    memset(all, 0, lki_bytes_of(i->texts, bytes));
    for (uint32_t t = 0; t < i->texts; t++)
        memcpy(all + t * bytes, text[t], strlen(text[t]));
    write_values(w, i, type, space, all);
    H5Tclose(type);
    free(all);
}

static void write_texts(writer *w, const item *i, const uint8_t *values)
{
    size_t     longest;
    char     **text = copy_texts(i, values, &longest);
    const bool one = i->values == LKI_H5P_TEXT;
    if (one && i->texts != 1) refuse(LKI_H5P_REFUSED, "%s: %u texts: should be one", i->name, (unsigned)i->texts);
    const hid_t space = one ? H5Screate(H5S_SCALAR) : H5Screate_simple(1, &(hsize_t){i->texts}, NULL);
    if (one || lki_bytes_of(i->texts, longest) > MOST_ATTRIBUTE) write_values(w, i, w->text, space, text);
    else write_fixed_texts(w, i, text, longest, space);
    for (uint32_t t = 0; t < i->texts; t++)
        free(text[t]);
    free(text);
}

/* ---- the file ---------------------------------------------------------------------------------------------------------------- */

static void write_item(writer *w, const item *i, const uint8_t *values)
{
    if (i->kind == LKI_H5P_GROUP) H5Oclose(open_or_make(w, i->name));
    else if (i->values >= LKI_H5P_TEXT) write_texts(w, i, values);
    else if (i->values) write_numbers(w, i, values);
    else refuse(LKI_H5P_REFUSED, "%s: no values", i->name);
}

static void send_image(hid_t file)
{
    const ssize_t size = H5Fflush(file, H5F_SCOPE_GLOBAL) < 0 ? -1 : H5Fget_file_image(file, NULL, 0);
    if (size < 0) refuse(LKI_H5P_REFUSED, "the file cannot be finished: %s", reason());
    void *image = allocate((size_t)size);
    if (H5Fget_file_image(file, image, (size_t)size) != size) refuse(LKI_H5P_REFUSED, "the file cannot be finished: %s", reason());
    put_frame(LKI_H5P_FILE, (uint64_t)size);
    put(image, (size_t)size);
    free(image);
}

void write_file(const uint8_t *items, size_t size)
{
    writer      w = {0};
    source      s = {items, items + size};
    const hid_t access = H5Pcreate(H5P_FILE_ACCESS);
    start(&w);
    H5Pset_fapl_core(access, 1 << 20, 0);
    w.file = H5Fcreate("image", H5F_ACC_TRUNC, H5P_DEFAULT, access);
    if (w.file < 0) refuse(LKI_H5P_NO_MEMORY, "no file can be made in memory: %s", reason());
    while (s.p < s.end) {
        const uint8_t *values;
        const item     i = next_item(&s, &values);
        write_item(&w, &i, values);
        free((char *)(uintptr_t)i.name);
    }
    send_image(w.file);
}
