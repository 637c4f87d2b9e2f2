/* Inspecting models (inspect.h): the config as Keras wrote it, read as JSON and not made into layers, so that parts that lockstep
 * does not support are shown too. */
#include "files/inspect.h"
#include "format/zip.h"
#include "keras/config.h"
#include <stdio.h>
#include <string.h>

enum { MOST_CONFIG = 256 << 20, NOTE = 512, VALUE = 160 };

/* ---- parts of a config ---- */

static const char *text_in(const lki_json *v, const char *key)
{
    const lki_json *t = v ? lki_json_get(v, key) : NULL;
    return t && t->type == LKI_JSON_STRING ? t->text : NULL;
}

/* A name, or an object by its class: "relu", "Adam". */
static const char *show(const lki_json *v, char text[VALUE])
{
    const char *class = v->type == LKI_JSON_OBJECT ? text_in(v, "class_name") : NULL;
    if (v->type == LKI_JSON_STRING) snprintf(text, VALUE, "%s", v->text);
    else if (class) snprintf(text, VALUE, "%s", class);
    else lki_json_show(v, text, VALUE);
    return text;
}

static void append(char *text, size_t bytes, const char *key, const char *value)
{
    const size_t used = strlen(text);
    snprintf(text + used, bytes - used, "%s%s %s", used ? ", " : "", key, value);
}

/* A short note with the most important arguments of a layer. */
static void describe(const lki_json *config, char note[NOTE])
{
    static const char *const KEYS[] = {"batch_shape", "units",        "filters", "kernel_size", "pool_size",
                                       "strides",     "padding",      "rate",    "input_dim",   "output_dim",
                                       "num_heads",   "target_shape", "axis",    "activation"};
    *note = 0;
    for (int i = 0; i < LKI_COUNT(KEYS); i++) {
        char            text[VALUE];
        const lki_json *v = lki_json_get(config, KEYS[i]);
        if (v && v->type != LKI_JSON_NULL) append(note, NOTE, KEYS[i], show(v, text));
    }
}

static void tell_layers(const lki_json *layers, const char *before, lki_report *r, int depth)
{
    for (int i = 0; i < layers->count; i++) {
        const lki_json *l = &layers->item[i], *config = lki_json_get(l, "config");
        const lki_json *inside = config ? lki_json_get(config, "layers") : NULL;
        const char     *name = config ? text_in(config, "name") : NULL;
        char            note[NOTE] = "", full[NOTE];
        if (!name) name = text_in(l, "name");
        if (config) describe(config, note);
        snprintf(full, sizeof full, "%s%s", before, name ? name : "?");
        lki_report_line_add(r, full, text_in(l, "class_name"), *note ? note : NULL);
        if (!inside || inside->type != LKI_JSON_ARRAY || depth > 8) continue;
        const size_t used = strlen(full);
        snprintf(full + used, sizeof full - used, "/");
        tell_layers(inside, full, r, depth + 1);
    }
}

/* A name, an object, or a list or table of them. */
static void tell_list(lki_report *r, const char *key, const lki_json *v)
{
    char all[NOTE] = "", text[VALUE];
    if (!v || v->type == LKI_JSON_NULL) return;
    const bool several = v->type == LKI_JSON_ARRAY || (v->type == LKI_JSON_OBJECT && !text_in(v, "class_name"));
    for (int i = 0; several && i < v->count; i++) {
        const size_t used = strlen(all);
        snprintf(all + used, sizeof all - used, "%s%s", used ? ", " : "", show(&v->item[i], text));
    }
    lki_report_text(r, key, several ? all : show(v, text));
}

static void tell_compiled(const lki_json *c, lki_report *r)
{
    char            text[VALUE];
    const lki_json *optimizer = lki_json_get(c, "optimizer");
    if (!optimizer) optimizer = lki_json_get(c, "optimizer_config");
    if (optimizer) lki_report_text(r, "optimizer", show(optimizer, text));
    const lki_json *config = optimizer ? lki_json_get(optimizer, "config") : NULL;
    const lki_json *rate = config ? lki_json_get(config, "learning_rate") : NULL;
    if (rate && rate->type == LKI_JSON_NUMBER) lki_report_real(r, "learning_rate", rate->number);
    else if (rate) lki_report_text(r, "learning_rate", show(rate, text));
    tell_list(r, "loss", lki_json_get(c, "loss"));
    tell_list(r, "metrics", lki_json_get(c, "metrics"));
    tell_list(r, "weighted_metrics", lki_json_get(c, "weighted_metrics"));
}

void lki_inspect_config(const lki_json *config, const lki_json *training, lki_report *r)
{
    const lki_json *own = lki_json_get(config, "config");
    const lki_json *layers = own ? lki_json_get(own, "layers") : NULL;
    const lki_json *compiled = training ? training : lki_json_get(config, "compile_config");
    lki_report_text(r, "model", text_in(own, "name"));
    lki_report_text(r, "class", text_in(config, "class_name"));
    if (compiled && compiled->type == LKI_JSON_OBJECT && compiled->count) tell_compiled(compiled, r);
    if (!layers || layers->type != LKI_JSON_ARRAY) return;
    lki_report_table(r, "layers");
    tell_layers(layers, "", r, 0);
}

/* ---- a JSON file ---- */

lk_status lki_inspect_json(const char *path, lki_report *r)
{
    lki_bytes       bytes LKI_FREED_BY(lki_bytes_free) = {0};
    const lki_json *v = NULL;
    LKI_TRY(lki_file_read(path, &bytes));
    LKI_TRY(lki_json_parse(path, (const char *)bytes.data, bytes.size, &v));
    const bool model = text_in(v, "class_name") && lki_json_get(v, "config");
    lki_report_kind(r, model ? "JSON of a Keras model" : "JSON");
    if (model) lki_inspect_config(v, NULL, r);
    else lki_report_whole(r, "keys", v->count);
    lki_json_free(v);
    return LK_OK;
}

/* ---- a .keras file ---- */

static lk_status read_json(const lki_zip *zip, const char *name, const lki_json **out)
{
    lki_bytes text LKI_FREED_BY(lki_bytes_free) = {0};
    char      file[512];
    const int i = lki_zip_find(zip, name);
    *out = NULL;
    if (i < 0) return LK_OK;
    if (zip->member[i].size > MOST_CONFIG)
        return lki_fail(LK_EFORMAT, "%s: %s has %llu bytes: too many", zip->path, name, (unsigned long long)zip->member[i].size);
    LKI_TRY(lki_zip_read(zip, i, &text));
    snprintf(file, sizeof file, "%s(%s)", zip->path, name);
    return lki_json_parse(file, (const char *)text.data, text.size, out);
}

static lk_status tell_texts(const lki_zip *zip, lki_report *r)
{
    const lki_json *metadata = NULL, *config = NULL;
    LKI_TRY(read_json(zip, "metadata.json", &metadata));
    lk_status status = read_json(zip, "config.json", &config);
    if (status == LK_OK && !config)
        status = lki_fail(LK_EFORMAT,
                          "%s: a zip archive with neither a config.json, as .keras files have, nor arrays, as npz files have",
                          zip->path);
    if (status == LK_OK && metadata) {
        lki_report_text(r, "keras_version", text_in(metadata, "keras_version"));
        lki_report_text(r, "date_saved", text_in(metadata, "date_saved"));
    }
    if (status == LK_OK) lki_inspect_config(config, NULL, r);
    lki_json_free(metadata);
    lki_json_free(config);
    return status;
}

/* Without the helper: only whether they are undamaged. */
static lk_status check_weights(const lki_zip *zip, int i, lki_report *r)
{
    lki_bytes bytes LKI_FREED_BY(lki_bytes_free) = {0};
    LKI_TRY(lki_zip_read(zip, i, &bytes));
    lki_report_whole(r, "weights_bytes", (int64_t)zip->member[i].size);
    lki_report_text(r, "weights", "not read: the helper that reads HDF5 is not installed");
    return LK_OK;
}

static lk_status tell_weights(const lki_zip *zip, lki_report *r)
{
    const int    i = lki_zip_find(zip, "model.weights.h5");
    lki_zip_feed bytes LKI_FREED_BY(lki_zip_feed_end) = {0};
    lki_h5       file LKI_FREED_BY(lki_h5_free) = {0};
    if (i < 0) return lki_fail(LK_EFORMAT, "%s: there is no model.weights.h5 in it", zip->path);
    if (!lki_h5_helper()) return check_weights(zip, i, r);
    LKI_TRY(lki_zip_feed_begin(&bytes, zip, i));
    lki_report_whole(r, "weights_bytes", (int64_t)zip->member[i].size);
    LKI_TRY(lki_h5_read_feed(zip->path, &bytes.feed, &file));
    return lki_inspect_h5_items(zip->path, &file, r);
}

lk_status lki_inspect_keras(const char *path, lki_report *r)
{
    lki_zip zip;
    LKI_TRY(lki_zip_open(path, &zip));
    lki_report_kind(r, "Keras model");
    lk_status status = tell_texts(&zip, r);
    if (status == LK_OK) status = tell_weights(&zip, r);
    lki_zip_close(&zip);
    return status;
}
