/* Reading: everything in a file, from the root on, as items.
 *
 * Invariants
 *  1. An object is listed under each of its names. A link from a group to itself or to one that contains it is not followed, so
 *     cycles end; the objects inside have another name already. For any number of links, there are at most LKI_H5P_MOST_ITEMS
 *     items, and at most as many bytes of values as the answer may have.
 *  2. Nothing outside the file is followed: external links, data in other files and virtual datasets are refused, before libhdf5
 *     would try to open something.
 *  3. A size in the file is compared with what the answer may have before a buffer of that size is allocated.
 *  4. A number has the bits of the file, or reading fails. */
#include "helper.h"
#include <stdlib.h>
#include <string.h>

typedef struct walk {
    hid_t          follow; /* how links are opened */
    hid_t          half;
    uint64_t       limit;
    int64_t        items;
    const uint8_t *image; /* the file */
    size_t         size;
    hid_t          texts;      /* how they are read: with a limit on their bytes */
    uint64_t       text_bytes; /* of the dataset that is read now, */
    const char    *text_name;  /* which is this one */
} walk;

typedef struct place {
    walk               *w;
    const struct place *above; /* NULL for the root */
    const char         *path;  /* "" for the root */
    int                 depth;
    haddr_t             address; /* of the object */
} place;

/* ---- names ------------------------------------------------------------------------------------------------------------------- */

static char *join(const char *path, char between, const char *name)
{
    const size_t a = strlen(path), b = strlen(name);
    if (a + b + 1 > LKI_H5P_MOST_NAME)
        refuse(LKI_H5P_REFUSED, "a name of %zu bytes: at most %d are read", a + b + 1, LKI_H5P_MOST_NAME);
    char *text = allocate(a + b + 2);
    memcpy(text, path, a);
    text[a] = between;
    const size_t skip = between == '/' && !a; /* nothing before the first part of a path */
    memcpy(text + a + 1 - skip, name, b + 1);
    return text;
}

static void count_item(walk *w)
{
    if (++w->items > LKI_H5P_MOST_ITEMS)
        refuse(LKI_H5P_REFUSED, "more than %d groups, datasets and attributes", LKI_H5P_MOST_ITEMS);
}

/* ---- values of datasets and attributes --------------------------------------------------------------------------------------- */

typedef struct values {
    walk    *w;
    hid_t    id, type, space;
    uint64_t count;
    item     i;
} values;

static void get(const values *v, hid_t memory, void *to)
{
    const herr_t status =
        v->i.kind == LKI_H5P_ATTRIBUTE ? H5Aread(v->id, memory, to) : H5Dread(v->id, memory, H5S_ALL, H5S_ALL, v->w->texts, to);
    if (status < 0) refuse(LKI_H5P_REFUSED, "%s: its values cannot be read: %s", v->i.name, reason());
}

static void get_shape(values *v)
{
    const H5S_class_t class = H5Sget_simple_extent_type(v->space);
    v->i.rank = class == H5S_NULL ? 1 : H5Sget_simple_extent_ndims(v->space);
    if (class == H5S_NO_CLASS || v->i.rank < 0) refuse(LKI_H5P_REFUSED, "%s: its shape cannot be read: %s", v->i.name, reason());
    if (v->i.rank > LKI_H5P_MOST_AXES) refuse(LKI_H5P_UNSUPPORTED, "%s: %d axes", v->i.name, v->i.rank);
    if (class == H5S_SIMPLE && H5Sget_simple_extent_dims(v->space, v->i.dim, NULL) < 0)
        refuse(LKI_H5P_REFUSED, "%s: its shape cannot be read: %s", v->i.name, reason());
    v->count = 1; /* a null space is an axis of size zero */
    for (int a = 0; a < v->i.rank; a++)
        if (!lki_count_try_mul(v->count, (uint64_t)v->i.dim[a], &v->count))
            refuse(LKI_H5P_REFUSED, "%s: its product of sizes is too large", v->i.name);
}

/* Memory for all elements, `bytes` each. */
static void *room_for(const values *v, size_t bytes)
{
    if (v->count > v->w->limit / bytes)
        refuse(LKI_H5P_REFUSED, "%s: %llu elements of %zu bytes: too much for the size of the file", v->i.name,
               (unsigned long long)v->count, bytes);
    return allocate_array(v->count, bytes);
}

static void put_numbers(values *v, lki_h5p_values kind, const void *data, size_t bytes)
{
    v->i.values = (uint8_t)kind;
    v->i.size = lki_bytes_of((int64_t)v->count, bytes);
    put_item(&v->i);
    put(data, (size_t)v->i.size);
}

/* The address of a dataset's elements in the file, if they are stored in the requested form, one after the other; else NULL. */
static const void *in_place(const values *v, hid_t memory, size_t bytes)
{
    if (v->i.kind != LKI_H5P_DATASET || v->count > v->w->limit / bytes || H5Tequal(v->type, memory) <= 0) return NULL;
    const hid_t how = H5Dget_create_plist(v->id);
    const bool  plain = how >= 0 && H5Pget_layout(how) == H5D_CONTIGUOUS;
    if (how >= 0) H5Pclose(how);
    const haddr_t  at = plain ? H5Dget_offset(v->id) : HADDR_UNDEF;
    const uint64_t size = v->count * bytes;
    if (at == HADDR_UNDEF || at > v->w->size || size > v->w->size - at || H5Dget_storage_size(v->id) != size) return NULL;
    return v->w->image + at;
}

static void read_numbers(values *v, lki_h5p_values kind, hid_t memory, size_t bytes)
{
    const void *there = in_place(v, memory, bytes);
    if (there) {
        put_numbers(v, kind, there, bytes);
        return;
    }
    void *data = room_for(v, bytes);
    if (v->count) get(v, memory, data);
    put_numbers(v, kind, data, bytes);
    free(data);
}

/* ---- numbers ----------------------------------------------------------------------------------------------------------------- */

static bool is_half(const values *v)
{
    const hid_t turned = H5Tcopy(v->type);
    const bool  half = H5Tget_size(turned) == 2 && H5Tset_order(turned, H5T_ORDER_LE) >= 0 && H5Tequal(turned, v->w->half) > 0;
    H5Tclose(turned);
    return half;
}

/* More digits or a wider range than a double has: long double, decimal formats. */
static void refuse_wide_floats(const values *v)
{
    size_t sign, exponent, exponent_bits, mantissa, mantissa_bits;
    if (H5Tget_fields(v->type, &sign, &exponent, &exponent_bits, &mantissa, &mantissa_bits) < 0)
        refuse(LKI_H5P_REFUSED, "%s: its type cannot be read: %s", v->i.name, reason());
    if (mantissa_bits > 52 || exponent_bits > 11)
        refuse(LKI_H5P_UNSUPPORTED, "%s: numbers of %zu bits, as long double has, which float64 would round: save them as float64",
               v->i.name, H5Tget_precision(v->type));
}

static void refuse_wide_integers(const values *v)
{
    if (H5Tget_size(v->type) > 8)
        refuse(LKI_H5P_UNSUPPORTED, "%s: integers of %zu bytes: at most 8 are read", v->i.name, H5Tget_size(v->type));
}

static void read_floats(values *v)
{
    refuse_wide_floats(v);
    if (is_half(v)) read_numbers(v, LKI_H5P_F16, v->w->half, 2);
    else if (H5Tget_size(v->type) <= 4) read_numbers(v, LKI_H5P_F32, H5T_NATIVE_FLOAT, 4);
    else read_numbers(v, LKI_H5P_F64, H5T_NATIVE_DOUBLE, 8);
}

/* Numbers of 64 bits without sign: those that do not fit are refused; libhdf5 would change them. */
static void read_unsigned(values *v)
{
    uint64_t *data = room_for(v, 8);
    if (v->count) get(v, H5T_NATIVE_UINT64, data);
    for (uint64_t i = 0; i < v->count; i++)
        if (data[i] > INT64_MAX)
            refuse(LKI_H5P_UNSUPPORTED, "%s: has the number %llu: does not fit i64", v->i.name, (unsigned long long)data[i]);
    put_numbers(v, LKI_H5P_I64, data, 8);
    free(data);
}

static void read_integers(values *v)
{
    const size_t bytes = H5Tget_size(v->type);
    const bool   sign = H5Tget_sign(v->type) == H5T_SGN_2;
    refuse_wide_integers(v);
    if (bytes == 4 && sign) read_numbers(v, LKI_H5P_I32, H5T_NATIVE_INT32, 4);
    else if (bytes == 1 && !sign) read_numbers(v, LKI_H5P_U8, H5T_NATIVE_UINT8, 1);
    else if (bytes >= 8 && !sign) read_unsigned(v);
    else read_numbers(v, LKI_H5P_I64, H5T_NATIVE_INT64, 8);
}

static bool has_member(hid_t type, const char *name, int8_t wanted)
{
    int8_t value = -1;
    return H5Tenum_valueof(type, name, &value) >= 0 && value == wanted;
}

/* h5py's bool: one byte that is FALSE (0) or TRUE (1). Other enumerations are integers. */
static void read_enumeration(values *v)
{
    const bool boolean = H5Tget_size(v->type) == 1 && H5Tget_nmembers(v->type) == 2 && has_member(v->type, "FALSE", 0) &&
                         has_member(v->type, "TRUE", 1);
    refuse_wide_integers(v);
    if (!boolean) {
        read_numbers(v, LKI_H5P_I64, H5T_NATIVE_INT64, 8);
        return;
    }
    uint8_t *data = room_for(v, 1);
    if (v->count) get(v, v->type, data);
    for (uint64_t i = 0; i < v->count; i++)
        data[i] = data[i] != 0;
    put_numbers(v, LKI_H5P_BOOL, data, 1);
    free(data);
}

/* ---- texts ------------------------------------------------------------------------------------------------------------------- */

typedef struct text {
    const char *p;
    size_t      size;
} text;

static void put_texts(values *v, const text *t)
{
    v->i.values = H5Sget_simple_extent_type(v->space) == H5S_SCALAR ? LKI_H5P_TEXT : LKI_H5P_TEXTS;
    v->i.texts = (uint32_t)v->count;
    v->i.size = 0;
    for (uint64_t i = 0; i < v->count; i++) {
        if (t[i].size > UINT32_MAX) refuse(LKI_H5P_UNSUPPORTED, "%s: a text of %zu bytes", v->i.name, t[i].size);
        v->i.size += 4 + t[i].size;
    }
    put_item(&v->i);
    for (uint64_t i = 0; i < v->count; i++) {
        const uint32_t size = (uint32_t)t[i].size;
        put((uint8_t[]){(uint8_t)size, (uint8_t)(size >> 8), (uint8_t)(size >> 16), (uint8_t)(size >> 24)}, 4);
        put(t[i].p, size);
    }
}

static text fixed_text(const char *p, size_t bytes, H5T_str_t padding)
{
    size_t size = strnlen(p, bytes);
    while (padding == H5T_STR_SPACEPAD && size && p[size - 1] == ' ')
        size--;
    return (text){p, size};
}

static void read_fixed_texts(values *v, text *t)
{
    const size_t    bytes = H5Tget_size(v->type);
    const H5T_str_t padding = H5Tget_strpad(v->type);
    char           *data = room_for(v, bytes ? bytes : 1);
    if (v->count) get(v, v->type, data);
    for (uint64_t i = 0; i < v->count; i++)
        t[i] = fixed_text(data + i * bytes, bytes, padding);
    put_texts(v, t);
    free(data);
}

/* Many texts of a dataset can be one in the file, so their bytes are counted while they are read. */
static void *allocate_text(size_t bytes, void *user)
{
    walk *w = user;
    if (bytes > w->limit - w->text_bytes)
        refuse(LKI_H5P_REFUSED, "%s: texts of more than %llu bytes: too much for the size of the file", w->text_name,
               (unsigned long long)w->limit);
    w->text_bytes += bytes;
    return allocate(bytes);
}

static void free_text(void *p, void *user)
{
    (void)user;
    free(p);
}

static void read_free_texts(values *v, text *t)
{
    const hid_t memory = H5Tget_native_type(v->type, H5T_DIR_DEFAULT);
    char      **data = room_for(v, sizeof *data);
    v->w->text_bytes = 0;
    v->w->text_name = v->i.name;
    if (v->count) get(v, memory, data);
    for (uint64_t i = 0; i < v->count; i++)
        t[i] = data[i] ? (text){data[i], strlen(data[i])} : (text){"", 0};
    put_texts(v, t);
    if (v->count) H5Dvlen_reclaim(memory, v->space, v->i.kind == LKI_H5P_ATTRIBUTE ? H5P_DEFAULT : v->w->texts, data);
    free(data);
    H5Tclose(memory);
}

static void read_texts(values *v)
{
    if (v->count > UINT32_MAX) refuse(LKI_H5P_REFUSED, "%s: %llu texts", v->i.name, (unsigned long long)v->count);
    text *t = room_for(v, sizeof *t);
    if (H5Tis_variable_str(v->type) > 0) read_free_texts(v, t);
    else read_fixed_texts(v, t);
    free(t);
}

/* ---- bfloat16 ---------------------------------------------------------------------------------------------------------------- */

/* True if an attribute says that the two bytes without a type are bfloat16, as Keras writes them. */
static bool says_bfloat16(const values *v)
{
    static const char word[] = "bfloat16";
    char              said[sizeof word] = "", *free_later = NULL;
    if (v->i.kind == LKI_H5P_ATTRIBUTE || H5Aexists(v->id, "dtype") <= 0) return false;
    const hid_t attribute = H5Aopen(v->id, "dtype", H5P_DEFAULT), type = H5Aget_type(attribute), space = H5Aget_space(attribute);
    const bool  one = H5Tget_class(type) == H5T_STRING && H5Sget_simple_extent_npoints(space) == 1;
    const bool  variable = one && H5Tis_variable_str(type) > 0;
    if (variable && H5Aread(attribute, type, &free_later) >= 0 && free_later) strncpy(said, free_later, sizeof said - 1);
    if (one && !variable && H5Tget_size(type) < sizeof said) H5Aread(attribute, type, said);
    if (free_later) H5free_memory(free_later);
    H5Sclose(space);
    H5Tclose(type);
    H5Aclose(attribute);
    return strcmp(said, word) == 0;
}

/* As f32, of which they are the upper half. */
static void read_opaque(values *v)
{
    if (H5Tget_size(v->type) != 2 || !says_bfloat16(v))
        refuse(LKI_H5P_UNSUPPORTED, "%s: values of %zu bytes without a type: save them as float32", v->i.name,
               H5Tget_size(v->type));
    uint8_t  *half = room_for(v, 2);
    uint32_t *data = room_for(v, 4);
    if (v->count) get(v, v->type, half);
    for (uint64_t i = 0; i < v->count; i++)
        data[i] = (uint32_t)half[2 * i] << 16 | (uint32_t)half[2 * i + 1] << 24;
    put_numbers(v, LKI_H5P_F32, data, 4);
    free(half);
    free(data);
}

/* ---- one dataset or attribute ------------------------------------------------------------------------------------------------ */

static void read_values(walk *w, lki_h5p_kind kind, hid_t id, const char *name)
{
    static const struct {
        H5T_class_t class;
        void (*read)(values *);
    } classes[] = {{H5T_FLOAT, read_floats},
                   {H5T_INTEGER, read_integers},
                   {H5T_ENUM, read_enumeration},
                   {H5T_STRING, read_texts},
                   {H5T_OPAQUE, read_opaque}};
    values v = {.w = w, .id = id, .i = {.kind = (uint8_t)kind, .name = name, .name_size = strlen(name)}};
    v.type = kind == LKI_H5P_ATTRIBUTE ? H5Aget_type(id) : H5Dget_type(id);
    v.space = kind == LKI_H5P_ATTRIBUTE ? H5Aget_space(id) : H5Dget_space(id);
    if (v.type < 0 || v.space < 0) refuse(LKI_H5P_REFUSED, "%s: its type or shape cannot be read: %s", name, reason());
    count_item(w);
    get_shape(&v);
    const H5T_class_t class = H5Tget_class(v.type);
    bool known = false;
    for (size_t i = 0; i < sizeof classes / sizeof classes[0] && !known; i++) {
        known = classes[i].class == class;
        if (known) classes[i].read(&v);
    }
    if (!known) refuse(LKI_H5P_UNSUPPORTED, "%s: values that are neither numbers nor texts (HDF5 type class %d)", name, (int)class);
    H5Sclose(v.space);
    H5Tclose(v.type);
}

static herr_t visit_attribute(hid_t object, const char *name, const H5A_info_t *info, void *user)
{
    const place *here = user;
    char        *path = join(here->path, '@', name);
    const hid_t  id = H5Aopen(object, name, H5P_DEFAULT);
    (void)info;
    if (id < 0) refuse(LKI_H5P_REFUSED, "%s: cannot be opened: %s", path, reason());
    read_values(here->w, LKI_H5P_ATTRIBUTE, id, path);
    H5Aclose(id);
    free(path);
    return 0;
}

static void read_attributes(place *here, hid_t object)
{
    hsize_t at = 0;
    if (H5Aiterate2(object, H5_INDEX_NAME, H5_ITER_INC, &at, visit_attribute, here) < 0)
        refuse(LKI_H5P_REFUSED, "%s: its attributes cannot be read: %s", *here->path ? here->path : "/", reason());
}

/* ---- groups and links -------------------------------------------------------------------------------------------------------- */

static void refuse_elsewhere(hid_t set, const char *path)
{
    const hid_t how = H5Dget_create_plist(set);
    if (how < 0) refuse(LKI_H5P_REFUSED, "%s: how it is stored cannot be read: %s", path, reason());
    if (H5Pget_external_count(how) != 0) refuse(LKI_H5P_REFUSED, "%s: its data is in another file, which is not followed", path);
#if H5_VERSION_GE(1, 10, 0)
    if (H5Pget_layout(how) == H5D_VIRTUAL)
        refuse(LKI_H5P_REFUSED, "%s: a virtual dataset, made of other files, which are not followed", path);
#endif
    H5Pclose(how);
}

static void read_group(place *here, hid_t group);

static void read_object(place *here, hid_t object)
{
    switch (H5Iget_type(object)) {
    case H5I_GROUP: read_group(here, object); break;
    case H5I_DATASET:
        refuse_elsewhere(object, here->path);
        read_values(here->w, LKI_H5P_DATASET, object, here->path);
        read_attributes(here, object);
        break;
    default: refuse(LKI_H5P_UNSUPPORTED, "%s: neither a group nor a dataset", here->path);
    }
}

static bool leads_back(const place *here)
{
    for (const place *p = here->above; p; p = p->above)
        if (p->address == here->address) return true;
    return false;
}

static void follow(place *here, hid_t group, const char *name)
{
    H5O_info_t  info;
    const hid_t object = H5Oopen(group, name, here->w->follow);
    if (object < 0) refuse(LKI_H5P_REFUSED, "%s: cannot be opened: %s", here->path, reason());
    if (H5Oget_info(object, &info) < 0) refuse(LKI_H5P_REFUSED, "%s: damaged: %s", here->path, reason());
    here->address = info.addr;
    if (!leads_back(here)) read_object(here, object);
    H5Oclose(object);
}

static herr_t visit_link(hid_t group, const char *name, const H5L_info_t *info, void *user)
{
    const place *above = user;
    char        *path = join(above->path, '/', name);
    place        here = {.w = above->w, .above = above, .path = path, .depth = above->depth + 1};
    if (here.depth > LKI_H5P_MOST_DEPTH)
        refuse(LKI_H5P_REFUSED, "%.200s...: more than %d groups inside each other", path, LKI_H5P_MOST_DEPTH);
    if (info->type != H5L_TYPE_HARD && info->type != H5L_TYPE_SOFT)
        refuse(LKI_H5P_REFUSED, "%s: a link to another file, which is not followed", path);
    follow(&here, group, name);
    free(path);
    return 0;
}

static void read_group(place *here, hid_t group)
{
    if (*here->path) {
        count_item(here->w);
        put_item(&(item){.kind = LKI_H5P_GROUP, .name = here->path, .name_size = strlen(here->path)});
    }
    read_attributes(here, group);
    if (H5Literate(group, H5_INDEX_NAME, H5_ITER_INC, NULL, visit_link, here) < 0)
        refuse(LKI_H5P_REFUSED, "%s: its members cannot be read: %s", *here->path ? here->path : "/", reason());
}

/* ---- the file ---------------------------------------------------------------------------------------------------------------- */

/* A soft link may lead to an external one. */
static herr_t not_followed(const char *from, const char *path, const char *file, const char *object, unsigned *flags, hid_t access,
                           void *user)
{
    (void)from, (void)path, (void)file, (void)object, (void)flags, (void)access, (void)user;
    return -1;
}

/* libhdf5 copies a file in memory twice unless these functions provide the copies: here every copy is the one image. */
static void *same_image(size_t size, H5FD_file_image_op_t op, void *image) { return (void)size, (void)op, image; }
static void *same_copy(void *to, const void *from, size_t size, H5FD_file_image_op_t op, void *image)
{
    (void)image, (void)op;
    if (to != from) memmove(to, from, size);
    return to;
}
static void *no_more(void *mem, size_t size, H5FD_file_image_op_t op, void *image)
{
    return (void)mem, (void)size, (void)op, (void)image, NULL;
}
static herr_t stays(void *mem, H5FD_file_image_op_t op, void *image) { return (void)mem, (void)op, (void)image, 0; }
static void  *same_user(void *image) { return image; }
static herr_t user_stays(void *image) { return (void)image, 0; }

static hid_t open_image(void *bytes, size_t size)
{
    H5FD_file_image_callbacks_t how = {same_image, same_copy, no_more, stays, same_user, user_stays, bytes};
    const hid_t                 access = H5Pcreate(H5P_FILE_ACCESS);
    if (H5Pset_fapl_core(access, 1 << 16, 0) < 0 || H5Pset_file_image_callbacks(access, &how) < 0 ||
        H5Pset_file_image(access, bytes, size) < 0)
        refuse(LKI_H5P_NO_MEMORY, "no memory for %zu bytes: %s", size, reason());
    const hid_t file = H5Fopen("image", H5F_ACC_RDONLY, access);
    if (file < 0) refuse(LKI_H5P_REFUSED, "not an HDF5 file, or damaged: %s", reason());
    H5Pclose(access);
    return file;
}

void read_file(void *bytes, size_t size, uint64_t limit)
{
    if (!size) refuse(LKI_H5P_REFUSED, "not an HDF5 file: empty");
    const hid_t file = open_image(bytes, size), root = H5Gopen2(file, "/", H5P_DEFAULT);
    walk        w = {.half = half_type(),
                     .limit = limit,
                     .image = bytes,
                     .size = size,
                     .follow = H5Pcreate(H5P_LINK_ACCESS),
                     .texts = H5Pcreate(H5P_DATASET_XFER)};
    H5O_info_t  info;
    H5Pset_elink_cb(w.follow, not_followed, NULL);
    H5Pset_vlen_mem_manager(w.texts, allocate_text, &w, free_text, &w);
    if (root < 0 || H5Oget_info(root, &info) < 0) refuse(LKI_H5P_REFUSED, "its root group cannot be read: %s", reason());
    read_group(&(place){.w = &w, .path = "", .address = info.addr}, root);
}
