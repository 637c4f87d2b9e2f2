/* Named arrays (arrays.h): the list, and npz, checkpoints and HDF5 files as such lists. */
#include "format/arrays.h"
#include "core/memory.h"
#include "core/shape.h"
#include "format/npy.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the list ---------------------------------------------------------------------------------------------------------------- */

void lki_arrays_free(lki_arrays *a)
{
    for (int i = 0; i < a->count; i++) {
        lki_release(a->item[i].name);
        lki_array_free(&a->item[i].array);
    }
    for (int i = 0; i < a->notes; i++) {
        lki_release(a->note[i].key);
        lki_release(a->note[i].value);
    }
    lki_release(a->item);
    lki_release(a->note);
    *a = (lki_arrays){0};
}

uint64_t lki_array_bytes(const lki_array *a) { return lki_bytes_of(lki_shape_size(&a->shape), lk_dtype_bytes(a->dtype)); }

lk_status lki_arrays_add(lki_arrays *a, const char *name, lki_array *array)
{
    char *own = lki_strdup(name);
    if (own && lki_grow((void **)&a->item, &a->room, a->count + 1, sizeof *a->item)) {
        a->item[a->count++] = (lki_named){.name = own, .array = *array};
        *array = (lki_array){0};
        return LK_OK;
    }
    lki_release(own);
    lki_array_free(array);
    return LK_ENOMEM;
}

lk_status lki_arrays_copy(lki_arrays *a, const char *name, lk_dtype dtype, const lk_shape *shape, const void *data)
{
    lki_array array = {.dtype = dtype, .shape = *shape};
    LKI_TRY(lki_array_alloc(&array));
    const size_t bytes = (size_t)lki_array_bytes(&array);
    if (bytes) memcpy(array.data, data, bytes);
    return lki_arrays_add(a, name, &array);
}

lk_status lki_arrays_note(lki_arrays *a, const char *key, const char *value)
{
    lki_note n = {lki_strdup(key), lki_strdup(value)};
    if (n.key && n.value && lki_grow((void **)&a->note, &a->note_room, a->notes + 1, sizeof *a->note)) {
        a->note[a->notes++] = n;
        return LK_OK;
    }
    lki_release(n.key);
    lki_release(n.value);
    return LK_ENOMEM;
}

static int by_name(const void *a, const void *b) { return strcmp(((const lki_named *)a)->name, ((const lki_named *)b)->name); }

lk_status lki_arrays_close(const char *file, lki_arrays *a)
{
    if (a->count) qsort(a->item, (size_t)a->count, sizeof *a->item, by_name);
    for (int i = 1; i < a->count; i++)
        if (strcmp(a->item[i - 1].name, a->item[i].name) == 0)
            return lki_fail(LK_EFORMAT, "%s: two arrays are called \"%.200s\"", file, a->item[i].name);
    return LK_OK;
}

const lki_named *lki_arrays_find(const lki_arrays *a, const char *name)
{
    const lki_named wanted = {.name = (char *)(uintptr_t)name};
    return a->count ? bsearch(&wanted, a->item, (size_t)a->count, sizeof *a->item, by_name) : NULL;
}

/* The end of a reader: the list in order, or nothing. */
static lk_status finished(const char *file, lk_status status, lki_arrays *out)
{
    if (status == LK_OK) status = lki_arrays_close(file, out);
    if (status != LK_OK) lki_arrays_free(out);
    return status;
}

/* ---- npz --------------------------------------------------------------------------------------------------------------------- */

/* The length of its name without ".npy"; 0: it is not an array. */
static size_t array_name(const char *member)
{
    const size_t n = strlen(member);
    return n > 4 && strcmp(member + n - 4, ".npy") == 0 ? n - 4 : 0;
}

static lk_status read_member(const lki_zip *z, int i, size_t length, lki_arrays *out)
{
    char     *name LKI_RELEASED = lki_path_join(z->member[i].name, length, "");
    char      file[512];
    lki_bytes bytes LKI_FREED_BY(lki_bytes_free) = {0};
    lki_array array = {0};
    LKI_TRY(name ? lki_zip_read(z, i, &bytes) : LK_ENOMEM);
    snprintf(file, sizeof file, "%s(%s)", z->path, z->member[i].name);
    LKI_TRY(lki_npy_parse(file, bytes.data, bytes.size, &array));
    return lki_arrays_add(out, name, &array);
}

lk_status lki_npz_read_all(const char *path, lki_arrays *out)
{
    lki_zip   z;
    lk_status status = LK_OK;
    *out = (lki_arrays){0};
    LKI_TRY(lki_zip_open(path, &z));
    for (int i = 0; i < z.count && status == LK_OK; i++) {
        const size_t length = array_name(z.member[i].name);
        if (length) status = read_member(&z, i, length, out);
        else out->left++;
    }
    lki_zip_close(&z);
    return finished(path, status, out);
}

static lk_status add_member(lki_zip_out *z, const lki_named *n)
{
    lki_bytes bytes LKI_FREED_BY(lki_bytes_free) = {0};
    char     *member LKI_RELEASED = lki_path_join(n->name, strlen(n->name), ".npy");
    LKI_TRY(member ? lki_npy_encode(&n->array, &bytes) : LK_ENOMEM);
    return lki_zip_out_add(z, member, bytes.data, bytes.size);
}

lk_status lki_npz_write_all(const char *path, const lki_arrays *a)
{
    lki_zip_out *z;
    lki_bytes    archive LKI_FREED_BY(lki_bytes_free) = {0};
    lk_status    status = LK_OK;
    LKI_TRY(lki_zip_out_new(&z));
    for (int i = 0; i < a->count && status == LK_OK; i++)
        status = add_member(z, &a->item[i]);
    if (status != LK_OK) return lki_zip_out_free(z), status;
    LKI_TRY(lki_zip_out_finish(z, &archive));
    return lki_durable_file(path, archive.data, archive.size);
}

/* ---- checkpoints ------------------------------------------------------------------------------------------------------------- */

/* Keys of values that only lockstep writes. */
static bool is_ours(const char *key) { return strncmp(key, ".LOCKSTEP/", 10) == 0; }

lk_status lki_bundle_read_all(const char *prefix, lki_arrays *out)
{
    lki_bundle b;
    lk_status  status = LK_OK;
    *out = (lki_arrays){0};
    LKI_TRY(lki_bundle_open(prefix, &b));
    for (int i = 0; i < b.count && status == LK_OK; i++) {
        lki_array array = {0};
        if (b.entry[i].type == LKI_BUNDLE_TEXT || is_ours(b.entry[i].key)) {
            out->left++;
            continue;
        }
        status = lki_bundle_read(&b, i, &array);
        if (status == LK_OK) status = lki_arrays_add(out, b.entry[i].key, &array);
    }
    lki_bundle_close(&b);
    return finished(prefix, status, out);
}

lk_status lki_bundle_write_all(const char *prefix, const lki_arrays *a)
{
    lki_bundle_writer w;
    LKI_TRY(lki_bundle_begin(prefix, &w));
    lk_status status = LK_OK;
    for (int i = 0; i < a->count && status == LK_OK; i++) {
        const lki_array *array = &a->item[i].array;
        status = lki_bundle_add(&w, a->item[i].name, array->dtype, &array->shape, array->data);
    }
    if (status == LK_OK) status = lki_bundle_commit(&w);
    lki_bundle_end(&w);
    return status;
}

/* ---- HDF5 -------------------------------------------------------------------------------------------------------------------- */

static lk_status arrays_of_h5(lki_h5 *file, lki_arrays *out)
{
    for (int i = 0; i < file->count; i++) {
        lki_h5_item *item = &file->item[i];
        if (item->kind == LKI_H5_DATASET && item->type == LKI_H5_ARRAY) LKI_TRY(lki_arrays_add(out, item->name, &item->array));
        else if (item->kind != LKI_H5_GROUP) out->left++;
    }
    return LK_OK;
}

lk_status lki_h5_read_all(const char *path, lki_arrays *out)
{
    lki_h5 file LKI_FREED_BY(lki_h5_free) = {0};
    *out = (lki_arrays){0};
    lk_status status = lki_h5_read_file(path, &file);
    if (status == LK_OK) status = arrays_of_h5(&file, out);
    return finished(path, status, out);
}

lk_status lki_h5_write_all(const char *path, const lki_arrays *a)
{
    lki_h5    file LKI_FREED_BY(lki_h5_free) = {0};
    lki_bytes bytes LKI_FREED_BY(lki_bytes_free) = {0};
    for (int i = 0; i < a->count; i++) {
        const lki_array *array = &a->item[i].array;
        LKI_TRY(lki_h5_add_array(&file, a->item[i].name, array->dtype, &array->shape, array->data));
    }
    LKI_TRY(lki_h5_write(path, &file, &bytes));
    return lki_durable_file(path, bytes.data, bytes.size);
}
