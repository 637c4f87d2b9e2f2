/* Keras' files: a .keras file is a zip archive of config.json (model_config.h), metadata.json and model.weights.h5 (weights.h); a
 * .h5 file of before Keras 3 is one HDF5 file, with the config in its attributes. Which one it is, is told by its first bytes. */
#include "core/memory.h"
#include "format/durable.h"
#include "format/zip.h"
#include "keras/model_config.h"
#include "keras/weights.h"
#include "op/record.h"
#include <lockstep/keras.h>
#include <string.h>
#include <time.h>

#define KERAS_VERSION "3.15.1"

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

static lk_status saveable(const char *call, lk_model *m, const char *path, const char *end)
{
    if (!lki_is_model(call, m) || !usable(call, path)) return lk_error_code();
    if (ends_in(path, end)) return LK_OK;
    return lki_fail(LK_EINVAL, "%s: the path \"%s\" should end in \"%s\", by which Keras knows such files", call, path, end);
}

/* ---- saving ---- */

static lk_status pack_weights(const char *path, lk_model *m, lki_bytes *out)
{
    lki_h5    file = {0};
    lk_status status = lki_weights_write(path, m, &file);
    if (status == LK_OK) status = lki_h5_write(path, &file, out);
    lki_h5_free(&file);
    return status;
}

static void write_metadata(lki_json_out *o)
{
    char         text[32];
    const time_t now = time(NULL);
    struct tm    parts;
    strftime(text, sizeof text, "%Y-%m-%d@%H:%M:%S", localtime_r(&now, &parts));
    lki_json_open(o, '{');
    lki_json_key(o, "keras_version");
    lki_json_text(o, KERAS_VERSION);
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
    lki_json_out metadata = {0}, config = {0};
    lki_bytes    weights = {0};
    write_metadata(&metadata);
    lk_status status = add_json(zip, "metadata.json", &metadata);
    if (status == LK_OK) status = lki_model_write(path, &config, m);
    if (status == LK_OK) status = add_json(zip, "config.json", &config);
    if (status == LK_OK) status = pack_weights(path, m, &weights);
    if (status == LK_OK) status = lki_zip_out_add(zip, "model.weights.h5", weights.data, weights.size);
    lki_json_out_free(&config);
    lki_bytes_free(&weights);
    return status;
}

lk_status lk_model_save(lk_model *m, const char *path)
{
    lki_zip_out *zip;
    lki_bytes    bytes = {0};
    LKI_TRY(saveable("lk_model_save", m, path, ".keras"));
    LKI_TRY(lki_zip_out_new(&zip));
    lk_status status = pack(path, m, zip);
    if (status == LK_OK) status = lki_zip_out_finish(zip, &bytes);
    else lki_zip_out_free(zip);
    if (status == LK_OK) status = lki_durable_file(path, bytes.data, bytes.size);
    lki_bytes_free(&bytes);
    return status;
}

lk_status lk_model_save_weights(lk_model *m, const char *path)
{
    lki_bytes bytes = {0};
    LKI_TRY(saveable("lk_model_save_weights", m, path, ".weights.h5"));
    lk_status status = pack_weights(path, m, &bytes);
    if (status == LK_OK) status = lki_durable_file(path, bytes.data, bytes.size);
    lki_bytes_free(&bytes);
    return status;
}

/* ---- opening ---- */

/* What a file holds. */
typedef struct contents {
    const lki_json *config;
    const lki_json *training; /* of old files; else part of the config */
    lk_model       *model;    /* of the config; whoever takes it sets NULL */
    lki_h5          weights;
} contents;

static void contents_free(contents *c)
{
    lki_json_free(c->config);
    lki_json_free(c->training);
    lk_free(c->model);
    lki_h5_free(&c->weights);
}

/* Packed weights may be larger than the archive, but a small one that claims gigabytes lies. */
static uint64_t most_weights(const lki_zip *zip)
{
    return zip->bytes.size > UINT64_MAX / 32 ? UINT64_MAX : (uint64_t)zip->bytes.size * 16 + ((uint64_t)256 << 20);
}

/* One of at most `most` bytes, which is looked at before anything is unpacked. */
static lk_status read_member(const lki_zip *zip, const char *name, uint64_t most, lki_bytes *out)
{
    const int member = lki_zip_find(zip, name);
    if (member < 0)
        return lki_fail(LK_EFORMAT, "%s: there is no %s in it; a .keras file has config.json and model.weights.h5", zip->path,
                        name);
    const lki_zip_member *m = &zip->member[member];
    if (m->size > most && m->method != STORED)
        return lki_fail(LK_EFORMAT, "%s: %s unpacks to %llu bytes; in an archive of %zu it may have %llu", zip->path, name,
                        (unsigned long long)m->size, zip->bytes.size, (unsigned long long)most);
    return lki_zip_read(zip, member, out);
}

static lk_status make_model(const char *path, contents *c)
{
    c->model = lki_model_read(path, c->config);
    return c->model ? LK_OK : lk_failed() ? lk_error_code() : LK_ENOMEM;
}

static lk_status read_config(const char *path, const lki_bytes *text, contents *out)
{
    LKI_TRY(lki_json_parse(path, (const char *)text->data, text->size, &out->config));
    return make_model(path, out);
}

/* The config first: of weights of another type it says which. */
static lk_status open_zip(const char *path, const lki_bytes *bytes, bool with_config, contents *out)
{
    lki_zip   zip;
    lki_bytes member = {0};
    LKI_TRY(lki_zip_parse(path, bytes->data, bytes->size, &zip));
    lk_status status = with_config ? read_member(&zip, "config.json", MOST_CONFIG, &member) : LK_OK;
    if (status == LK_OK && with_config) status = read_config(path, &member, out);
    lki_bytes_free(&member);
    if (status == LK_OK) status = read_member(&zip, "model.weights.h5", most_weights(&zip), &member);
    if (status == LK_OK) status = lki_h5_read(path, member.data, member.size, &out->weights);
    lki_bytes_free(&member);
    lki_zip_close(&zip);
    return status;
}

static lk_status read_attribute(const char *path, const lki_h5 *file, const char *name, const lki_json **out)
{
    const lki_h5_item *item = lki_h5_find(file, name);
    if (!item || item->type != LKI_H5_TEXT) return LK_OK;
    return lki_json_parse(path, item->text[0], strlen(item->text[0]), out);
}

static lk_status open_h5(const char *path, const lki_bytes *bytes, bool with_config, contents *out)
{
    LKI_TRY(lki_h5_read(path, bytes->data, bytes->size, &out->weights));
    if (!with_config) return LK_OK;
    LKI_TRY(read_attribute(path, &out->weights, "@model_config", &out->config));
    LKI_TRY(read_attribute(path, &out->weights, "@training_config", &out->training));
    if (!out->config)
        return lki_fail(LK_EFORMAT, "%s: it has weights, but no model; lk_model_load_weights() puts them into one", path);
    return make_model(path, out);
}

static bool begins_with(const lki_bytes *b, const char *magic, size_t size)
{
    return b->size >= size && !memcmp(b->data, magic, size);
}

static lk_status open_bytes(const char *path, const lki_bytes *bytes, bool with_config, contents *out)
{
    if (begins_with(bytes, "PK", 2)) return open_zip(path, bytes, with_config, out);
    if (begins_with(bytes, "\x89HDF\r\n\x1a\n", 8)) return open_h5(path, bytes, with_config, out);
    return lki_fail(LK_EFORMAT, "%s: it is neither a .keras file (a zip archive) nor an HDF5 file", path);
}

static lk_status open_file(const char *path, bool with_config, contents *out)
{
    lki_bytes bytes;
    LKI_TRY(lki_file_read(path, &bytes));
    const lk_status status = open_bytes(path, &bytes, with_config, out);
    lki_bytes_free(&bytes);
    return status;
}

/* ---- loading ---- */

static lk_status fill(const char *path, lk_model *m, const contents *c)
{
    LKI_TRY(lki_compile_read(path, m, c->training ? c->training : lki_json_get(c->config, "compile_config")));
    return lki_model_built(m) ? lki_weights_read(path, m, &c->weights) : LK_OK;
}

lk_model *lk_model_load(const char *path)
{
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

lk_status lk_model_load_weights(lk_model *m, const char *path)
{
    contents c = {0};
    if (!lki_is_model("lk_model_load_weights", m) || !usable("lk_model_load_weights", path)) return lk_error_code();
    lk_status status = open_file(path, false, &c);
    if (status == LK_OK) status = lki_weights_read(path, m, &c.weights);
    contents_free(&c);
    return status;
}

/* ---- JSON ---- */

typedef struct text {
    lki_object object;
    char       text[];
} text;

const char *lk_model_to_json(lk_model *m)
{
    lki_json_out o = {0};
    text        *t = NULL;
    if (!lki_is_model("lk_model_to_json", m)) return NULL;
    if (lki_model_write("lk_model_to_json", &o, m) == LK_OK)
        t = lki_object_new(sizeof *t + o.size + 1, LKI_KIND_OTHER, LKI_LIVES_IN_POOL, NULL);
    if (t) memcpy(t->text, o.text, o.size + 1);
    lki_json_out_free(&o);
    return t ? t->text : NULL;
}

static lk_model *from_text(const char *name, const char *json, size_t size)
{
    const lki_json *root = NULL;
    lk_model       *m = NULL;
    if (lki_json_parse(name, json, size, &root) == LK_OK) m = lki_model_read(name, root);
    lki_json_free(root);
    return m;
}

lk_model *lk_model_from_json(const char *json)
{
    if (json) return from_text("lk_model_from_json", json, strlen(json));
    lki_fail(LK_EINVAL, "lk_model_from_json: the text is NULL");
    return NULL;
}

lk_model *lk_model_from_json_file(const char *path)
{
    lki_bytes bytes;
    if (!usable("lk_model_from_json_file", path) || lki_file_read(path, &bytes) != LK_OK) return NULL;
    lk_model *m = from_text(path, (const char *)bytes.data, bytes.size);
    lki_bytes_free(&bytes);
    return m;
}
