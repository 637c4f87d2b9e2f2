/* Inspecting files of arrays (inspect.h). */
#include "files/inspect.h"
#include "format/idx.h"
#include "format/npy.h"
#include "format/safetensors.h"
#include <string.h>

static lk_status tell_arrays(const char *path, const char *kind, lk_status (*read)(const char *, lki_arrays *), lki_report *r)
{
    lki_arrays a LKI_FREED_BY(lki_arrays_free) = {0};
    LKI_TRY(read(path, &a));
    lki_report_kind(r, kind);
    lki_report_arrays(r, &a);
    return LK_OK;
}

lk_status lki_inspect_safetensors(const char *path, lki_report *r)
{
    return tell_arrays(path, "safetensors", lki_safetensors_read, r);
}
lk_status lki_inspect_npz(const char *path, lki_report *r) { return tell_arrays(path, "npz", lki_npz_read_all, r); }

static void tell_array(const char *kind, const lki_array *a, lki_report *r)
{
    lki_report_kind(r, kind);
    lki_report_table(r, "arrays");
    lki_report_array(r, "array", lk_dtype_name(a->dtype), &a->shape, (int64_t)lki_array_bytes(a));
}

lk_status lki_inspect_npy(const char *path, lki_report *r)
{
    lki_array a LKI_FREED_BY(lki_array_free) = {0};
    LKI_TRY(lki_npy_read(path, &a));
    tell_array("npy", &a, r);
    return LK_OK;
}

lk_status lki_inspect_idx(const char *path, lki_report *r)
{
    lki_array a LKI_FREED_BY(lki_array_free) = {0};
    LKI_TRY(lki_idx_read(path, &a));
    tell_array("IDX", &a, r);
    return LK_OK;
}

/* ---- HDF5 ---- */

static const char *text_at(const lki_h5 *file, const char *name)
{
    const lki_h5_item *item = lki_h5_find(file, name);
    return item && item->type == LKI_H5_TEXT && item->texts == 1 ? item->text[0] : NULL;
}

static lk_status tell_model(const char *path, const char *config, const char *training, lki_report *r)
{
    const lki_json *c = NULL, *t = NULL;
    LKI_TRY(lki_json_parse(path, config, strlen(config), &c));
    const lk_status status = training ? lki_json_parse(path, training, strlen(training), &t) : LK_OK;
    if (status == LK_OK) lki_inspect_config(c, t, r);
    lki_json_free(c);
    lki_json_free(t);
    return status;
}

lk_status lki_inspect_h5_items(const char *path, const lki_h5 *file, lki_report *r)
{
    const char *config = text_at(file, "@model_config");
    int         left = 0;
    lki_report_text(r, "keras_version", text_at(file, "@keras_version"));
    if (config) LKI_TRY(tell_model(path, config, text_at(file, "@training_config"), r));
    lki_report_table(r, "arrays");
    for (int i = 0; i < file->count; i++) {
        const lki_h5_item *item = &file->item[i];
        if (item->kind == LKI_H5_DATASET && item->type == LKI_H5_ARRAY)
            lki_report_array(r, item->name, lk_dtype_name(item->array.dtype), &item->array.shape,
                             (int64_t)lki_array_bytes(&item->array));
        else left += item->kind != LKI_H5_GROUP;
    }
    lki_report_sort(r);
    if (left) lki_report_whole(r, "attributes", left);
    return LK_OK;
}

static const char *kind_of(const lki_h5 *file)
{
    if (lki_h5_find(file, "@model_config")) return "HDF5: a model as before Keras 3";
    if (lki_h5_find(file, "@layer_names")) return "HDF5: weights as before Keras 3";
    return lki_h5_find(file, "layers") ? "HDF5: weights of Keras 3" : "HDF5";
}

lk_status lki_inspect_h5(const char *path, lki_report *r)
{
    lki_h5 file LKI_FREED_BY(lki_h5_free) = {0};
    LKI_TRY(lki_h5_read_file(path, &file));
    lki_report_kind(r, kind_of(&file));
    return lki_inspect_h5_items(path, &file, r);
}
