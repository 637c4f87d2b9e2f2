/* From one format to another (files.h).
 *
 *     from --has a model, or one is given--> model with weights --> lk_model_save, lk_model_save_weights
 *          \--else--> named arrays --> safetensors, npz, checkpoint, HDF5
 *
 * A file is written completely or not at all, whatever happens to the one that is read. */
#include "core/error.h"
#include "core/log.h"
#include "core/memory.h"
#include "core/rounding.h"
#include "dist/strategy.h"
#include "format/json.h"
#include "format/safetensors.h"
#include "keras/file.h"
#include "op/record.h"
#include <lockstep/files.h>
#include <string.h>

/* ---- does it contain a model? ---- */

static lk_status h5_has_model(const char *path, bool *out)
{
    lki_h5 file LKI_FREED_BY(lki_h5_free) = {0};
    LKI_TRY(lki_h5_read_file(path, &file));
    *out = lki_h5_find(&file, "@model_config") != NULL;
    return LK_OK;
}

static lk_status has_model(const char *path, lki_format format, bool *out)
{
    *out = format == LKI_FORMAT_KERAS;
    return format == LKI_FORMAT_HDF5 ? h5_has_model(path, out) : LK_OK;
}

/* ---- with a model ---- */

/* A JSON file begins with a brace; files of the other kinds do not. */
static bool is_json(const char *path)
{
    lki_bytes bytes LKI_FREED_BY(lki_bytes_free) = {0};
    if (lki_format_of_file(path) != LKI_FORMAT_UNKNOWN || lki_file_read(path, &bytes) != LK_OK) return false;
    size_t i = 0;
    while (i < bytes.size && strchr(" \t\r\n", bytes.data[i]))
        i++;
    return i < bytes.size && bytes.data[i] == '{';
}

static lk_model *model_of(const char *path)
{
    const bool failed = lk_failed();
    const bool json = is_json(path);
    if (!failed) lk_clear_error();
    return json ? lk_model_from_json_file(path) : lk_model_load(path);
}

static lk_status save(lk_model *m, const char *to)
{
    const lki_format format = lki_format_of_name(to);
    return format == LKI_FORMAT_KERAS || format == LKI_FORMAT_LEGACY_H5 ? lk_model_save(m, to) : lk_model_save_weights(m, to);
}

static lk_status convert_model(const lk_convert_args *a)
{
    lk_status status = LK_OK;
    LK_POOL {
        lk_model *m = model_of(a->model ? a->model : a->from);
        status = m ? LK_OK : lk_failed() ? lk_error_code() : LK_ENOMEM;
        if (status == LK_OK && a->model) status = lk_model_load_weights(m, a->from);
        if (status == LK_OK) status = save(m, a->to);
    }
    return status;
}

/* ---- without one ---- */

static lk_status read_latest(const char *folder, lki_arrays *out)
{
    lki_checkpoints c LKI_FREED_BY(lki_checkpoints_free) = {0};
    LKI_TRY(lki_checkpoints_list(folder, &c));
    return lki_bundle_read_all(c.latest, out);
}

static lk_status read_checkpoint(const char *path, lki_arrays *out)
{
    char *prefix LKI_RELEASED = lki_checkpoint_prefix(path);
    return prefix ? lki_bundle_read_all(prefix, out) : LK_ENOMEM;
}

static lk_status read_unknown(const char *path, lki_arrays *out)
{
    lki_bytes bytes LKI_FREED_BY(lki_bytes_free) = {0};
    (void)out;
    LKI_TRY(lki_file_read(path, &bytes)); /* the file may not exist */
    return lki_fail(LK_EFORMAT, "%s: it is none of .keras, HDF5, safetensors, npz or a checkpoint", path);
}

static lk_status write_checkpoint(const char *path, const lki_arrays *a)
{
    char *prefix LKI_RELEASED = lki_checkpoint_prefix(path);
    return prefix ? lki_bundle_write_all(prefix, a) : LK_ENOMEM;
}

static const struct {
    lk_status (*read)(const char *path, lki_arrays *out);
    lk_status (*write)(const char *path, const lki_arrays *a);
} PLAIN[] = {
    [LKI_FORMAT_UNKNOWN] = {read_unknown, NULL},
    [LKI_FORMAT_KERAS] = {NULL, NULL}, /* it has a model */
    [LKI_FORMAT_WEIGHTS_H5] = {NULL, lki_h5_write_all},
    [LKI_FORMAT_LEGACY_H5] = {NULL, lki_h5_write_all},
    [LKI_FORMAT_SAFETENSORS] = {lki_safetensors_read, lki_safetensors_write},
    [LKI_FORMAT_NPZ] = {lki_npz_read_all, lki_npz_write_all},
    [LKI_FORMAT_CHECKPOINT] = {read_checkpoint, write_checkpoint},
    [LKI_FORMAT_HDF5] = {lki_h5_read_all, NULL},
    [LKI_FORMAT_FOLDER] = {read_latest, NULL},
};

static void tell_what_is_left(const lk_convert_args *a, const lki_arrays *arrays)
{
    if (arrays->left)
        lki_warn("%s: %d items that are not arrays (texts, attributes, the object graph) are not in %s; with .model, a file with "
                 "the architecture, it can be restored by Keras and TensorFlow",
                 a->from, arrays->left, a->to);
    if (arrays->notes && lki_format_of_name(a->to) != LKI_FORMAT_SAFETENSORS)
        lki_warn("%s: its %d texts about the file are not in %s, which cannot store them", a->from, arrays->notes, a->to);
}

static lk_status convert_arrays(const lk_convert_args *a, lki_format from)
{
    lki_arrays arrays LKI_FREED_BY(lki_arrays_free) = {0};
    LKI_TRY(PLAIN[from].read(a->from, &arrays));
    LKI_TRY(PLAIN[lki_format_of_name(a->to)].write(a->to, &arrays));
    tell_what_is_left(a, &arrays);
    return LK_OK;
}

/* ---- both ---- */

static lk_status check(const lk_convert_args *a)
{
    if (!a->from || !*a->from) return lki_fail(LK_EINVAL, "lk_convert: .from is %s", a->from ? "empty" : "NULL");
    if (!a->to || !*a->to) return lki_fail(LK_EINVAL, "lk_convert: .to is %s", a->to ? "empty" : "NULL");
    if (lki_replica_current() || lki_tracer_current())
        return lki_fail(LK_EUNSUPPORTED, "lk_convert: called inside lk_run() or a function that is being traced");
    if (lki_format_of_name(a->to) != LKI_FORMAT_UNKNOWN) return LK_OK;
    return lki_fail(
        LK_EINVAL,
        "lk_convert: \"%s\" should end in .keras, .weights.h5, .h5, .safetensors, .npz or .ckpt, which selects the format", a->to);
}

lk_status lk_convert_kw(lk_convert_args a)
{
    LKI_NEAREST;
    LKI_SCOPE_ERRORS;
    bool model = false;
    LKI_TRY(check(&a));
    const lki_format from = lki_format_of_file(a.from);
    if (a.model || from == LKI_FORMAT_KERAS) return convert_model(&a);
    LKI_TRY(has_model(a.from, from, &model));
    if (model) return convert_model(&a);
    if (lki_format_of_name(a.to) == LKI_FORMAT_KERAS) {
        if (from == LKI_FORMAT_UNKNOWN) return read_unknown(a.from, NULL);
        return lki_fail(
            LK_EINVAL,
            "lk_convert: %s has weights, but no architecture, which %s needs; give it with .model, a .keras or Keras JSON file",
            a.from, a.to);
    }
    return convert_arrays(&a, from);
}
