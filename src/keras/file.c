/* Keras' files: a .keras file is a zip archive of config.json (model_config.h), metadata.json and model.weights.h5 (weights.h); a
 * .h5 file from before Keras 3 is one HDF5 file, with the config in its attributes. Weights alone are in those and in safetensors,
 * npz and checkpoints. The first bytes of a file determine its format; the ending of its name determines the format to write. */
#include "keras/file.h"
#include "core/log.h"
#include "core/memory.h"
#include "core/open.h"
#include "core/rounding.h"
#include "format/durable.h"
#include "format/safetensors.h"
#include "format/zip.h"
#include "keras/model_config.h"
#include "keras/weights.h"
#include "model/compiled.h"
#include "op/record.h"
#include <lockstep/checkpoint.h>
#include <lockstep/keras.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { STORED = 0, MOST_CONFIG = 256 << 20 };

/* ---- what is allowed ---- */

static bool usable(const char *call, const char *path)
{
    if (!path || !*path) lki_fail(LK_EINVAL, "%s: the path is %s", call, path ? "empty" : "NULL");
    else if (lki_replica_current())
        lki_fail(LK_EUNSUPPORTED, "%s: called inside lk_run(); a file is of all replicas: call it between steps", call);
    else if (lki_tracer_current())
        lki_fail(LK_EUNSUPPORTED, "%s: called inside a function that is being traced; call it between calls of the function", call);
    else return true;
    return false;
}

static bool ends_in(const char *path, const char *end)
{
    const size_t a = strlen(path), b = strlen(end);
    return a >= b && !strcmp(path + a - b, end);
}

static lk_status saveable(const char *call, lk_model *m, const char *path)
{
    return !lki_is_model(call, m) || !usable(call, path) ? lk_error_code() : LK_OK;
}

/* ---- saving ---- */

static lk_status pack_weights(const char *path, lk_model *m, lki_bytes *out)
{
    lki_h5 file LKI_FREED_BY(lki_h5_free) = {0};
    LKI_TRY(lki_weights_write(path, m, &file));
    return lki_h5_write(path, &file, out);
}

static void write_metadata(lki_json_out *o)
{
    char         text[32];
    const time_t now = time(NULL);
    struct tm    parts;
    strftime(text, sizeof text, "%Y-%m-%d@%H:%M:%S", localtime_r(&now, &parts));
    lki_json_open(o, '{');
    lki_json_key(o, "keras_version");
    lki_json_text(o, LKI_KERAS_VERSION);
    lki_json_key(o, "date_saved");
    lki_json_text(o, text);
    lki_json_close(o, '}');
}

static lk_status add_json(lki_zip_out *zip, const char *name, lki_json_out *o)
{
    const lk_status status = o->failed ? LK_ENOMEM : lki_zip_out_add(zip, name, o->text, o->size);
    lki_json_out_free(o);
    return status;
}

static lk_status pack(const char *path, lk_model *m, lki_zip_out *zip)
{
    lki_json_out metadata = {0}, config LKI_FREED_BY(lki_json_out_free) = {0};
    lki_bytes    weights LKI_FREED_BY(lki_bytes_free) = {0};
    write_metadata(&metadata);
    LKI_TRY(add_json(zip, "metadata.json", &metadata));
    LKI_TRY(lki_model_write(path, &config, m));
    LKI_TRY(add_json(zip, "config.json", &config));
    LKI_TRY(pack_weights(path, m, &weights));
    return lki_zip_out_add(zip, "model.weights.h5", weights.data, weights.size);
}

static lk_status save_keras(const char *path, lk_model *m)
{
    lki_zip_out *zip;
    lki_bytes    bytes LKI_FREED_BY(lki_bytes_free) = {0};
    LKI_TRY(lki_zip_out_new(&zip));
    const lk_status status = pack(path, m, zip);
    if (status != LK_OK) return lki_zip_out_free(zip), status;
    LKI_TRY(lki_zip_out_finish(zip, &bytes));
    return lki_durable_file(path, bytes.data, bytes.size);
}

/* ---- saving as before Keras 3 ---- */

static lk_status add_json_text(lki_h5 *file, const char *attribute, lki_json_out *o)
{
    const lk_status status = o->failed ? LK_ENOMEM : lki_h5_add_text(file, attribute, o->text);
    lki_json_out_free(o);
    return status;
}

/* The compile arguments, in which the optimiser had another name. */
static lk_status add_training_config(const char *path, lk_model *m, lki_h5 *file)
{
    lki_json_out      o LKI_FREED_BY(lki_json_out_free) = {0}, old LKI_FREED_BY(lki_json_out_free) = {0};
    const lki_json   *config = NULL;
    const lki_reading r = {.file = path};
    lk_status         status = lki_compile_write(&r, &o, m);
    if (status == LK_OK && o.failed) status = LK_ENOMEM;
    if (status == LK_OK) status = lki_json_parse(path, o.text, o.size, &config);
    lki_json_open(&old, '{');
    for (int i = 0; status == LK_OK && i < config->count; i++) {
        lki_json_key(&old, strcmp(config->item[i].key, "optimizer") ? config->item[i].key : "optimizer_config");
        lki_json_copy(&old, &config->item[i]);
    }
    lki_json_close(&old, '}');
    lki_json_free(config);
    return status == LK_OK ? add_json_text(file, "@training_config", &old) : status;
}

static lk_status add_model_config(const char *path, lk_model *m, lki_h5 *file)
{
    lki_json_out o LKI_FREED_BY(lki_json_out_free) = {0};
    LKI_TRY(lki_model_write(path, &o, m));
    return add_json_text(file, "@model_config", &o);
}

static lk_status write_h5(const char *path, lki_h5 *file)
{
    lki_bytes bytes LKI_FREED_BY(lki_bytes_free) = {0};
    LKI_TRY(lki_h5_write(path, file, &bytes));
    return lki_durable_file(path, bytes.data, bytes.size);
}

static lk_status save_legacy(const char *path, lk_model *m)
{
    lki_h5    file LKI_FREED_BY(lki_h5_free) = {0};
    lk_status status = add_model_config(path, m, &file);
    if (status == LK_OK) status = lki_h5_add_text(&file, "@backend", "tensorflow");
    if (status == LK_OK) status = lki_h5_add_text(&file, "@keras_version", LKI_KERAS_VERSION);
    const bool compiled = lki_is_compiled(m) || lki_lost_part(m, LKI_KIND_OPTIMIZER, -1);
    if (status == LK_OK && compiled) status = add_training_config(path, m, &file);
    if (status == LK_OK) status = lki_legacy_weights_write(path, m, "model_weights/", &file);
    if (status == LK_OK) status = write_h5(path, &file);
    return status;
}

/* ---- saving weights alone ---- */

static lk_status save_weights_h5(const char *path, lk_model *m)
{
    lki_h5 file LKI_FREED_BY(lki_h5_free) = {0};
    LKI_TRY(lki_weights_write(path, m, &file));
    return write_h5(path, &file);
}

static lk_status save_weights_legacy(const char *path, lk_model *m)
{
    lki_h5 file LKI_FREED_BY(lki_h5_free) = {0};
    LKI_TRY(lki_legacy_weights_write(path, m, "", &file));
    return write_h5(path, &file);
}

static lk_status save_named(const char *path, lk_model *m, lk_status (*write)(const char *, const lki_arrays *))
{
    lki_arrays a LKI_FREED_BY(lki_arrays_free) = {0};
    LKI_TRY(lki_named_write(path, m, &a));
    return write(path, &a);
}

static lk_status save_safetensors(const char *path, lk_model *m) { return save_named(path, m, lki_safetensors_write); }
static lk_status save_npz(const char *path, lk_model *m) { return save_named(path, m, lki_npz_write_all); }

static lk_status save_checkpoint(const char *path, lk_model *m)
{
    lk_status status = lki_weights_built(path, m);
    char     *prefix LKI_RELEASED = status == LK_OK ? lki_checkpoint_prefix(path) : NULL;
    if (!prefix) return status != LK_OK ? status : LK_ENOMEM;
    LK_POOL {
        lk_checkpoint *c = lk_checkpoint_of({"model", m});
        if (!c || !lk_checkpoint_write(c, prefix)) status = lk_failed() ? lk_error_code() : LK_ENOMEM;
    }
    return status;
}

/* ---- which one ---- */

static lk_status unknown_end(const char *call, const char *path)
{
    return lki_fail(
        LK_EINVAL,
        "%s: the path \"%s\" should end in .weights.h5, .h5, .safetensors, .npz, .ckpt or .keras, by which the format is "
        "known",
        call, path);
}

lk_status lk_model_save(lk_model *m, const char *path)
{
    LKI_NEAREST;
    LKI_SCOPE_ERRORS;
    LKI_TRY(saveable("lk_model_save", m, path));
    if (ends_in(path, ".keras")) return save_keras(path, m);
    if (lki_format_of_name(path) == LKI_FORMAT_LEGACY_H5) return save_legacy(path, m);
    return lki_fail(LK_EINVAL, "lk_model_save: the path \"%s\" should end in \".keras\", the ending of Keras files", path);
}

lk_status lk_model_save_weights(lk_model *m, const char *path)
{
    LKI_NEAREST;
    LKI_SCOPE_ERRORS;
    static lk_status (*const SAVE[])(const char *, lk_model *) = {
        [LKI_FORMAT_UNKNOWN] = NULL,
        [LKI_FORMAT_KERAS] = save_keras,
        [LKI_FORMAT_WEIGHTS_H5] = save_weights_h5,
        [LKI_FORMAT_LEGACY_H5] = save_weights_legacy,
        [LKI_FORMAT_SAFETENSORS] = save_safetensors,
        [LKI_FORMAT_NPZ] = save_npz,
        [LKI_FORMAT_CHECKPOINT] = save_checkpoint,
    };
    LKI_TRY(saveable("lk_model_save_weights", m, path));
    const lki_format format = lki_format_of_name(path);
    return SAVE[format] ? SAVE[format](path, m) : unknown_end("lk_model_save_weights", path);
}

/* ---- opening ---- */

/* The contents of a file. */
typedef struct contents {
    const lki_json *config;
    const lki_json *training; /* in old files; else part of the config */
    lk_model       *model;    /* from the config; code that takes it over sets NULL */
    lki_h5          weights;
} contents;

static void contents_free(contents *c)
{
    lki_json_free(c->config);
    lki_json_free(c->training);
    lk_free(c->model);
    lki_h5_free(&c->weights);
}

/* Packed weights may be larger than the archive, but a small archive that claims gigabytes is damaged. */
static uint64_t most_weights(const lki_zip *zip)
{
    return zip->size > UINT64_MAX / 32 ? UINT64_MAX : zip->size * 16 + ((uint64_t)256 << 20);
}

/* A member of at most `most` bytes; the size is checked before anything is unpacked. */
static lk_status find_member(const lki_zip *zip, const char *name, uint64_t most, int *member)
{
    *member = lki_zip_find(zip, name);
    if (*member < 0)
        return lki_fail(LK_EFORMAT, "%s: there is no %s in it; a .keras file has config.json and model.weights.h5", zip->path,
                        name);
    const lki_zip_member *m = &zip->member[*member];
    if (m->size > most && m->method != STORED)
        return lki_fail(LK_EFORMAT, "%s: %s unpacks to %llu bytes; in an archive of %llu it may have %llu", zip->path, name,
                        (unsigned long long)m->size, (unsigned long long)zip->size, (unsigned long long)most);
    return LK_OK;
}

static lk_status make_model(const char *path, contents *c)
{
    lki_policies_tell(path, c->config);
    c->model = lki_model_read(path, c->config);
    return c->model ? LK_OK : lk_failed() ? lk_error_code() : LK_ENOMEM;
}

static lk_status read_config(const char *path, const lki_bytes *text, contents *out)
{
    LKI_TRY(lki_json_parse(path, (const char *)text->data, text->size, &out->config));
    return make_model(path, out);
}

static lk_status read_zip_config(const char *path, const lki_zip *zip, contents *out)
{
    int       member;
    lki_bytes text LKI_FREED_BY(lki_bytes_free) = {0};
    LKI_TRY(find_member(zip, "config.json", MOST_CONFIG, &member));
    LKI_TRY(lki_zip_read(zip, member, &text));
    return read_config(path, &text, out);
}

static lk_status read_zip_weights(const char *path, const lki_zip *zip, contents *out)
{
    int          member;
    lki_zip_feed f LKI_FREED_BY(lki_zip_feed_end) = {0};
    LKI_TRY(find_member(zip, "model.weights.h5", most_weights(zip), &member));
    LKI_TRY(lki_zip_feed_begin(&f, zip, member));
    return lki_h5_read_feed(path, &f.feed, &out->weights);
}

/* The config first: if weights have another type, it tells which. */
static lk_status open_zip(const char *path, bool with_config, contents *out)
{
    lki_zip zip;
    LKI_TRY(lki_zip_open(path, &zip));
    lk_status status = with_config ? read_zip_config(path, &zip, out) : LK_OK;
    if (status == LK_OK) status = read_zip_weights(path, &zip, out);
    lki_zip_close(&zip);
    return status;
}

static lk_status read_attribute(const char *path, const lki_h5 *file, const char *name, const lki_json **out)
{
    const lki_h5_item *item = lki_h5_find(file, name);
    if (!item || item->type != LKI_H5_TEXT) return LK_OK;
    return lki_json_parse(path, item->text[0], strlen(item->text[0]), out);
}

static lk_status open_h5(const char *path, bool with_config, contents *out)
{
    LKI_TRY(lki_h5_read_file(path, &out->weights));
    if (!with_config) return LK_OK;
    LKI_TRY(read_attribute(path, &out->weights, "@model_config", &out->config));
    LKI_TRY(read_attribute(path, &out->weights, "@training_config", &out->training));
    if (!out->config)
        return lki_fail(LK_EFORMAT, "%s: it has weights, but no model; lk_model_load_weights() puts them into one", path);
    return make_model(path, out);
}

static lk_status open_file(const char *path, bool with_config, contents *out)
{
    uint8_t  first[8] = {0};
    int      descriptor;
    uint64_t size;
    LKI_TRY(lki_open_regular(path, &descriptor, &size));
    const lk_status status = lki_file_read_at(path, descriptor, 0, first, size < sizeof first ? (size_t)size : sizeof first);
    close(descriptor);
    LKI_TRY(status);
    if (!memcmp(first, "PK", 2)) return open_zip(path, with_config, out);
    if (!memcmp(first, "\x89HDF\r\n\x1a\n", 8)) return open_h5(path, with_config, out);
    return lki_fail(LK_EFORMAT, "%s: it is neither a .keras file (a zip archive) nor an HDF5 file", path);
}

/* ---- loading ---- */

/* The model can predict even if the training part of the file cannot be used. */
static lk_status compile_as_it_says(const char *path, lk_model *m, const lki_json *config)
{
    const lk_status status = lki_compile_read(path, m, config);
    if (status == LK_OK || status == LK_ENOMEM) return status;
    lki_warn("%s; the model can predict; compile it before training", lk_error());
    lk_clear_error();
    return LK_OK;
}

static lk_status fill(const char *path, lk_model *m, contents *c)
{
    LKI_TRY(compile_as_it_says(path, m, c->training ? c->training : lki_json_get(c->config, "compile_config")));
    return lki_model_built(m) ? lki_weights_read(path, m, &c->weights) : LK_OK;
}

lk_model *lk_model_load(const char *path)
{
    LKI_NEAREST;
    LKI_SCOPE_ERRORS;
    contents  c = {0};
    lk_model *m = NULL;
    if (!usable("lk_model_load", path)) return NULL;
    if (open_file(path, true, &c) == LK_OK && fill(path, c.model, &c) == LK_OK) {
        m = c.model;
        c.model = NULL;
    }
    contents_free(&c);
    return m;
}

/* ---- loading weights alone ---- */

static lk_status load_named(lk_model *m, const char *path, lk_status (*read)(const char *, lki_arrays *))
{
    lki_arrays a LKI_FREED_BY(lki_arrays_free) = {0};
    LKI_TRY(read(path, &a));
    return lki_named_read(path, m, &a);
}

static lk_status load_checkpoint(lk_model *m, const char *path)
{
    char *prefix LKI_RELEASED = lki_checkpoint_prefix(path);
    return prefix ? lki_checkpoint_weights_read(prefix, m) : LK_ENOMEM;
}

static lk_status load_contents(lk_model *m, const char *path)
{
    contents  c = {0};
    lk_status status = open_file(path, false, &c);
    if (status == LK_OK) status = lki_weights_read(path, m, &c.weights);
    contents_free(&c);
    return status;
}

static lk_status load_latest(lk_model *m, const char *folder)
{
    lki_checkpoints c LKI_FREED_BY(lki_checkpoints_free) = {0};
    LKI_TRY(lki_checkpoints_list(folder, &c));
    return lki_checkpoint_weights_read(c.latest, m);
}

lk_status lk_model_load_weights(lk_model *m, const char *path)
{
    LKI_NEAREST;
    LKI_SCOPE_ERRORS;
    LKI_TRY(saveable("lk_model_load_weights", m, path));
    switch (lki_format_of_file(path)) {
    case LKI_FORMAT_FOLDER: return load_latest(m, path);
    case LKI_FORMAT_CHECKPOINT: return load_checkpoint(m, path);
    case LKI_FORMAT_SAFETENSORS: return load_named(m, path, lki_safetensors_read);
    case LKI_FORMAT_NPZ: return load_named(m, path, lki_npz_read_all);
    default: return load_contents(m, path);
    }
}

/* ---- JSON ---- */

typedef struct text {
    lki_object object;
    char       text[];
} text;

const char *lk_model_to_json(lk_model *m)
{
    LKI_NEAREST;
    LKI_SCOPE_ERRORS;
    lki_json_out o LKI_FREED_BY(lki_json_out_free) = {0};
    text        *t = NULL;
    if (!lki_is_model("lk_model_to_json", m)) return NULL;
    if (lki_model_write("lk_model_to_json", &o, m) == LK_OK)
        t = lki_object_new(sizeof *t + o.size + 1, LKI_KIND_OTHER, LKI_LIVES_IN_POOL, NULL);
    if (t) memcpy(t->text, o.text, o.size + 1);
    return t ? t->text : NULL;
}

static lk_model *from_text(const char *name, const char *json, size_t size)
{
    const lki_json *root = NULL;
    lk_model       *m = NULL;
    if (lki_json_parse(name, json, size, &root) == LK_OK) {
        lki_policies_tell(name, root);
        m = lki_model_read(name, root);
    }
    lki_json_free(root);
    return m;
}

lk_model *lk_model_from_json(const char *json)
{
    LKI_NEAREST;
    LKI_SCOPE_ERRORS;
    if (json) return from_text("lk_model_from_json", json, strlen(json));
    return lki_fail(LK_EINVAL, "lk_model_from_json: the text is NULL"), NULL;
}

lk_model *lk_model_from_json_file(const char *path)
{
    LKI_NEAREST;
    LKI_SCOPE_ERRORS;
    lki_bytes bytes LKI_FREED_BY(lki_bytes_free) = {0};
    if (!usable("lk_model_from_json_file", path) || lki_file_read(path, &bytes) != LK_OK) return NULL;
    return from_text(path, (const char *)bytes.data, bytes.size);
}
