/* Writes the first files of each corpus, small and valid, with the library's writers: `seeds tests/fuzz/corpus`.
 * tests/fuzz/corpus.py adds those that the library does not write. */
#include "core/memory.h"
#include "folder.h"
#include "format/bundle.h"
#include "format/h5.h"
#include "format/h5_helper.h"
#include "format/h5_protocol.h"
#include "format/object_graph.h"
#include "format/png.h"
#include "format/tfrecord.h"
#include "format/zip.h"
#include <lockstep.h>

static const char *corpus;

static const char *place(const char *target, const char *name)
{
    char folder[256];
    snprintf(folder, sizeof folder, "%s/%s", corpus, target);
    mkdir(folder, 0777);
    return folder_file(folder, name);
}

/* A seed of several pieces, one after the other. */
static void seed(const char *target, const char *name, int count, const lki_bytes *piece)
{
    if (lki_file_write(place(target, name), count, piece) != LK_OK) fprintf(stderr, "%s\n", lk_error());
}

static lki_bytes text(const char *t) { return (lki_bytes){(uint8_t *)(uintptr_t)t, strlen(t)}; }

static lki_bytes byte(int x)
{
    static uint8_t bytes[256];
    bytes[x] = (uint8_t)x;
    return (lki_bytes){&bytes[x], 1};
}

/* The two bytes in front of a part. */
static lki_bytes length(size_t size)
{
    static uint8_t bytes[64][2];
    static int     next;
    uint8_t       *p = bytes[next++ % 64];
    p[0] = (uint8_t)(size >> 8);
    p[1] = (uint8_t)size;
    return (lki_bytes){p, 2};
}

static lki_bytes whole(const char *path)
{
    lki_bytes b = {0};
    if (lki_file_read(path, &b) != LK_OK) fprintf(stderr, "%s\n", lk_error());
    return b;
}

/* ---- arrays ---- */

static void arrays(void)
{
    static const lk_dtype types[] = {LK_F32, LK_I64, LK_BOOL};
    lk_tensor            *item[3];
    for (int i = 0; i < 3; i++) {
        char name[32];
        snprintf(name, sizeof name, "%s.npy", lk_dtype_name(types[i]));
        item[i] = lk_cast(lk_random_uniform(i ? LK_SHAPE(3) : LK_SHAPE(2, 3), .high = LK_NUMBER(9)), types[i]);
        lk_npy_write(place("npy", name), item[i]);
    }
    lk_npz_write(place("zip", "arrays.npz"), LK_NAMES("a", "b", "c"), lk_tuple_from(3, item));
    lk_npz_write(place("zip", "one.npz"), LK_NAMES("x"), LK_TUPLE(item[1]));
}

static void pictures(void)
{
    for (int channels = 1; channels <= 4; channels += channels == 1 ? 2 : 1) {
        uint8_t   pixel[5 * 4 * 4];
        lki_bytes file;
        char      name[32];
        for (size_t i = 0; i < sizeof pixel; i++)
            pixel[i] = (uint8_t)(i * 7);
        snprintf(name, sizeof name, "%d.png", channels);
        if (lki_png_encode(5, 4, channels, pixel, &file) != LK_OK) continue;
        seed("png", name, 2, (lki_bytes[]){byte(2 * channels), file});
        lki_bytes_free(&file);
    }
}

/* ---- checkpoints ---- */

static lk_model *small_model(void)
{
    lk_model *m = lk_sequential(lk_conv2d(2, 3, .activation = LK_RELU, .input_shape = LK_SHAPE(4, 4, 1)), lk_batch_normalization(),
                                lk_flatten(), lk_dense(2, .kernel_regularizer = lk_l2(0.01)));
    lk_model_compile(m, .loss = lk_mean_squared_error(), .optimizer = lk_adam(),
                     .metrics = LK_METRICS(lk_mean_absolute_error_metric()));
    return m;
}

static void bundle_seed(const char *name, const char *prefix)
{
    char path[2][600];
    snprintf(path[0], sizeof path[0], "%s.index", prefix);
    snprintf(path[1], sizeof path[1], "%s.data-00000-of-00001", prefix);
    lki_bytes index = whole(path[0]), data = whole(path[1]), entries = {0};
    lki_table table;
    lki_sink  parts = {0};
    seed("bundle", name, 4, (lki_bytes[]){byte(1), length(index.size), index, data});
    if (lki_table_parse("index", index.data, index.size, &table) == LK_OK) {
        for (int i = 0; i < table.count && i < 32; i++) {
            const lki_table_entry *e = &table.entry[i];
            lki_sink_bytes(&parts, length(e->key_size).data, 2);
            lki_sink_bytes(&parts, e->key, e->key_size);
            lki_sink_bytes(&parts, length(e->size).data, 2);
            lki_sink_bytes(&parts, e->value, e->size);
        }
        entries = (lki_bytes){parts.data, parts.size};
        char made[64];
        snprintf(made, sizeof made, "%s-entries", name);
        seed("bundle", made, 4, (lki_bytes[]){byte(0), length(entries.size), entries, data});
        lki_table_free(&table);
    }
    lki_bundle b;
    lki_bytes  graph;
    if (lki_bundle_open(prefix, &b) == LK_OK) {
        const int at = lki_bundle_find(&b, "_CHECKPOINTABLE_OBJECT_GRAPH");
        if (at >= 0 && lki_bundle_read_text(&b, at, &graph) == LK_OK) {
            seed("object_graph", name, 1, &graph);
            lki_bytes_free(&graph);
        }
        lki_bundle_close(&b);
    }
    lki_sink_free(&parts);
    lki_bytes_free(&index);
    lki_bytes_free(&data);
}

static void checkpoints(const char *folder)
{
    lk_variable   *v = lk_variable_of(lk_zeros(LK_SHAPE(2, 2), LK_F32), .name = "v");
    lk_checkpoint *c = lk_checkpoint_of({"v", v});
    const char    *prefix = lk_checkpoint_save(c, folder_file(folder, "one"));
    if (prefix) bundle_seed("one", prefix);
    lki_bytes state = whole(folder_file(folder, "checkpoint"));
    seed("object_graph", "checkpoint", 1, &state);
    lki_bytes_free(&state);
    lk_checkpoint *all = lk_checkpoint_of({"model", small_model()});
    prefix = lk_checkpoint_save(all, folder_file(folder, "model"));
    if (prefix) bundle_seed("model", prefix);
}

/* ---- Keras ---- */

/* What the helper says is in a file. */
static lki_bytes answer_to(const lki_bytes *file)
{
    lki_sink       request = {0};
    lki_bytes      answer = {lki_alloc(1 << 21), 0};
    lki_bytes_feed f = lki_feed_of_bytes(file->data, file->size);
    lki_h5_talk   *talk = NULL;
    lki_sink_fixed(&request, LKI_H5P_MAGIC, 8);
    lki_sink_fixed(&request, LKI_H5P_READ, 8);
    lki_sink_fixed(&request, file->size, 8);
    lki_sink_fixed(&request, 1 << 20, 8);
    if (answer.data && lki_h5_ask("seed.h5", "reading", &(lki_bytes){request.data, request.size}, &f.feed, 1 << 21, &talk) == LK_OK)
        lki_h5_hear(talk, answer.data, 1 << 21, &answer.size);
    lki_h5_close(talk);
    lki_sink_free(&request);
    return answer;
}

static lki_bytes archive_with(const lki_bytes *config, const lki_bytes *weights)
{
    lki_zip_out *z;
    lki_bytes    out = {0};
    if (lki_zip_out_new(&z) != LK_OK) return out;
    lki_zip_out_add(z, "config.json", config->data, config->size);
    lki_zip_out_add(z, "model.weights.h5", weights->data, weights->size);
    lki_zip_out_finish(z, &out);
    return out;
}

static void models(const char *folder)
{
    lk_model   *m = small_model();
    const char *json = lk_model_to_json(m), *weights = folder_file(folder, "a.weights.h5");
    lk_model   *dense = lk_sequential(lk_dense(1, .input_shape = LK_SHAPE(2)));
    seed("keras_json", "convolution", 1, (lki_bytes[]){text(json)});
    seed("json", "convolution", 1, (lki_bytes[]){text(json)});
    lk_model_compile(dense, .loss = lk_mean_squared_error(), .optimizer = lk_sgd());
    lk_model_save_weights(dense, weights);
    lki_bytes h5 = whole(weights), metadata = text("{\"keras_version\": \"3.0.0\"}"), config = text(lk_model_to_json(dense));
    lki_bytes answer = answer_to(&h5), archive = archive_with(&config, &answer);
    seed("keras_json", "dense", 1, &config);
    seed("keras", "archive", 2, (lki_bytes[]){byte(1), archive});
    seed("keras", "parts", 6, (lki_bytes[]){byte(0), length(metadata.size), metadata, length(config.size), config, answer});
    seed("keras", "weights", 3, (lki_bytes[]){byte(1), text("\x89HDF\r\n\x1a\n"), answer});
    seed("h5_answer", "weights", 1, &answer);
    seed("h5", "weights", 1, &h5);
    lki_bytes_free(&archive);
    lki_bytes_free(&answer);
    lki_bytes_free(&h5);
    lk_model *words =
        lk_sequential(lk_embedding(5, 2, .input_shape = LK_SHAPE(3)), lk_lstm(2), lk_dense(1, .activation = LK_SIGMOID));
    seed("keras_json", "words", 1, (lki_bytes[]){text(lk_model_to_json(words))});
}

/* ---- data ---- */

static void records(const char *folder)
{
    static const uint8_t example[] =
        "\x0a\x2f\x0a\x10\x0a\x05label\x12\x07\x1a\x05\x0a\x03\x01\x02\x03\x0a\x1b\x0a\x05image\x12\x12\x0a\x10\x0a\x04"
        "abcd\x0a\x08"
        "abcdefgh";
    const lki_bytes record[] = {{(uint8_t *)(uintptr_t)example, sizeof example - 1}, text("second"), {NULL, 0}};
    const char     *path = folder_file(folder, "a.tfrecord");
    lki_tfrecord_write(path, 3, record);
    lki_bytes file = whole(path);
    seed("tfrecord", "examples", 2, (lki_bytes[]){byte(0), file});
    seed("tfrecord", "as_it_is", 2, (lki_bytes[]){byte(1), file});
    lki_bytes_free(&file);
}

static void tables(void)
{
    seed("csv", "header", 1, (lki_bytes[]){text("a,b,label\n1,2.5,0\n-3e2,\"4\",1\n,nan,2\n")});
    seed("csv", "quotes", 1, (lki_bytes[]){text("1;\"x \"\"y\"\"\";cat\r\n2;;dog\r\n")});
    seed("csv", "log", 1, (lki_bytes[]){text("epoch,loss,accuracy\n0,0.5,0.25\n1,0.25,0.5\n")});
    seed("json", "kinds", 1,
         (lki_bytes[]){text("{\"a\": [1, -2.5e3, true, null, \"\\u00e4\\ud83d\\ude00\\n\"], \"b\": {\"c\": {}}, \"d\": NaN}")});
}

static void iterators(const char *folder)
{
    lk_dataset  *d = lk_dataset_batch(lk_dataset_shuffle(lk_dataset_concatenate(lk_dataset_range(7), lk_dataset_range(5)), 4), 3);
    lk_iterator *it = lk_iterator_of(d);
    lk_tuple     e;
    void        *bytes = NULL;
    size_t       size = 0;
    if (lk_next(it, &e) && lk_iterator_save(it, &bytes, &size) == LK_OK)
        seed("iterator", "shuffle", 2, (lki_bytes[]){byte(0), {bytes, size}});
    lk_free_bytes(bytes);
    const char *path = folder_file(folder, "cache");
    LK_FOR_EACH(x, lk_dataset_cache(lk_dataset_range(5), .file = path)) {}
    lki_bytes file = whole(path);
    seed("cache", "range", 2, (lki_bytes[]){byte(0), file});
    lki_bytes_free(&file);
}

int main(int argc, char **argv)
{
    if (argc != 2) return fprintf(stderr, "usage: seeds FOLDER\n"), 2;
    corpus = argv[1];
    mkdir(corpus, 0777);
    char folder[64];
    snprintf(folder, sizeof folder, "%s", folder_new());
    LK_POOL {
        arrays();
        pictures();
        tables();
        records(folder);
        checkpoints(folder);
        models(folder);
        iterators(folder);
    }
    folder_remove(folder);
    if (lk_failed()) return fprintf(stderr, "%s\n", lk_error()), 1;
    return 0;
}
