/* Keras' files written and read again, and damaged ones. */
#include "check.h"
#include "core/names.h"
#include "folder.h"
#include "format/durable.h"
#include "format/h5.h"
#include "format/json.h"
#include "format/zip.h"
#include "keras/weights.h"
#include "model/compiled.h"
#include <lockstep.h>
#include <stdio.h>
#include <string.h>

static const char *folder;

static const char *path_of(const char *name) { return folder_file(folder, name); }

/* A model with what files have to know: statistics, dropout, a layer that stays as it is, an optimiser with slots. */
static lk_model *trained(void)
{
    lk_model *m = lk_sequential_named("mine", lk_dense(4, .activation = LK_RELU, .input_shape = LK_SHAPE(3)),
                                      lk_batch_normalization(), lk_dropout(0.25), lk_dense(4, .trainable = LK_OFF), lk_dense(2));
    lk_model_compile(m, .optimizer = lk_adam(.learning_rate = 0.01, .amsgrad = LK_ON), .loss = lk_mean_squared_error(),
                     .metrics = LK_METRICS(lk_mean_absolute_error_metric(.name = "off")),
                     .weighted_metrics = LK_METRICS(lk_accuracy()), .steps_per_execution = 2);
    lk_model_fit(m, .x = lk_random_normal(LK_SHAPE(16, 3), .stream = "x"), .y = lk_random_normal(LK_SHAPE(16, 2), .stream = "y"),
                 .batch_size = 8, .epochs = 2, .verbose = LK_SILENT);
    if (lk_failed()) fail_msg("%s", lk_error());
    return m;
}

static void same_values(lk_variables a, lk_variables b)
{
    assert_int_equal(a.count, b.count);
    LK_STEP {
        for (int i = 0; i < a.count; i++) {
            const lk_tensor *x = lk_read(a.item[i]), *y = lk_read(b.item[i]);
            assert_int_equal(lk_size(x), lk_size(y));
            assert_memory_equal(lk_data(x), lk_data(y), (size_t)lk_size(x) * lk_dtype_bytes(lk_tensor_dtype(x)));
        }
    }
}

static lk_tensor *some_rows(void) { return lk_random_normal(LK_SHAPE(5, 3), .stream = "rows"); }

static void same_outputs(lk_model *a, lk_model *b)
{
    LK_STEP {
        const lk_tensor *x = lk_model_call(a, some_rows()), *y = lk_model_call(b, some_rows());
        assert_memory_equal(lk_data(x), lk_data(y), (size_t)lk_size(x) * sizeof(float));
    }
}

/* ---- there and back ---- */

TEST(a_model_comes_back_as_it_was)
{
    LK_POOL {
        lk_model *m = trained();
        assert_int_equal(lk_model_save(m, path_of("model.keras")), LK_OK);
        lk_model *again = lk_model_load(path_of("model.keras"));
        if (!again) fail_msg("%s", lk_error());
        assert_string_equal(lk_model_to_json(again), lk_model_to_json(m));
        same_values(lk_model_variables(again), lk_model_variables(m)); /* with the count of training calls */
        same_values(lk_optimizer_variables(lk_model_optimizer(again)), lk_optimizer_variables(lk_model_optimizer(m)));
        assert_int_equal(lk_optimizer_iterations(lk_model_optimizer(again)), 4);
        same_outputs(m, again);
        assert_int_equal(again->compiled->metrics, 2);
        assert_true(again->compiled->weighted[1] && !again->compiled->weighted[0]);
        assert_int_equal(again->compiled->steps_per_execution, 2);
        assert_false(lk_failed());
    }
}

TEST(several_outputs)
{
    LK_POOL {
        lk_node  *x = lk_input(LK_SHAPE(3));
        lk_model *m =
            lk_functional(LK_NODES(x), LK_NODES(lk_apply(lk_dense(2, .name = "a"), x), lk_apply(lk_dense(4, .name = "b"), x)));
        lk_model_compile(
            m, .optimizer = lk_sgd(), .losses = LK_LOSSES(NULL, lk_mean_squared_error()), .loss_weights = LK_NUMBERS(1, 0.5),
            .metrics = LK_METRICS(lk_accuracy(.output = 1), lk_mean_absolute_error_metric(.output = 1), lk_accuracy()));
        assert_int_equal(lk_model_save(m, path_of("outputs.keras")), LK_OK);
        lk_model *again = lk_model_load(path_of("outputs.keras"));
        if (!again) fail_msg("%s", lk_error());
        assert_string_equal(lk_model_to_json(again), lk_model_to_json(m));
        assert_null(again->compiled->loss[0]);
        assert_int_equal(again->compiled->metrics, 3);
        assert_non_null(strstr(lk_model_to_json(again), "\"loss\": [null, {"));
        assert_non_null(strstr(lk_model_to_json(again), "\"metrics\": [[\"accuracy\"], [\"accuracy\", {"));
    }
}

/* Training resumes from the file as it would have without it. */
TEST(training_goes_on)
{
    LK_POOL {
        lk_model *m = trained();
        lk_model_save(m, path_of("half.keras"));
        lk_model  *again = lk_model_load(path_of("half.keras"));
        lk_tensor *x = lk_random_normal(LK_SHAPE(16, 3), .stream = "more"),
                  *y = lk_random_normal(LK_SHAPE(16, 2), .stream = "labels");
        for (int i = 0; i < 2; i++)
            lk_model_fit(i ? again : m, .x = x, .y = y, .batch_size = 8, .epochs = 2, .verbose = LK_SILENT, .shuffle = LK_OFF);
        if (lk_failed()) fail_msg("%s", lk_error());
        same_values(lk_model_variables(again), lk_model_variables(m));
    }
}

TEST(inside_a_scope_it_is_mirrored)
{
    LK_POOL {
        lk_model *m = trained(), *again = NULL;
        lk_model_save(m, path_of("model.keras"));
        LK_SCOPE(lk_mirrored_strategy(.cpu_devices = 2)) {
            again = lk_model_load(path_of("model.keras"));
        }
        if (!again) fail_msg("%s", lk_error());
        assert_non_null(again->strategy);
        same_values(lk_model_weights(again), lk_model_weights(m));
        lk_model_fit(again, .x = lk_random_normal(LK_SHAPE(16, 3), .stream = "x"),
                     .y = lk_random_normal(LK_SHAPE(16, 2), .stream = "y"), .batch_size = 8, .verbose = LK_SILENT);
        assert_int_equal(lk_optimizer_iterations(lk_model_optimizer(again)), 6);
        assert_int_equal(lk_model_save(again, path_of("again.keras")), LK_OK);
        same_values(lk_model_weights(lk_model_load(path_of("again.keras"))), lk_model_weights(again));
        assert_false(lk_failed());
    }
}

TEST(weights_alone)
{
    LK_POOL {
        lk_model *m = trained(), *fresh = lk_model_from_json(lk_model_to_json(m));
        assert_int_equal(lk_model_save_weights(m, path_of("w.weights.h5")), LK_OK);
        assert_int_equal(lk_model_load_weights(fresh, path_of("w.weights.h5")), LK_OK);
        same_values(lk_model_weights(fresh), lk_model_weights(m));
        lk_model *from_keras = lk_model_from_json(lk_model_to_json(m));
        lk_model_save(m, path_of("model.keras"));
        assert_int_equal(lk_model_load_weights(from_keras, path_of("model.keras")), LK_OK);
        same_values(lk_model_weights(from_keras), lk_model_weights(m));
        assert_false(lk_failed());
    }
}

/* The layout is Keras': what is where, and under which names. */
TEST(the_layout)
{
    static const char *const THERE[] = {"layers/dense/vars/0", "layers/dense/vars@name", "layers/batch_normalization/vars/3",
                                        "layers/dropout/vars", "layers/dense_1/vars/1",  "layers/dense_2/vars/0",
                                        "optimizer/vars/0",    "optimizer/vars/19",      "optimizer/vars@name",
                                        "vars@name",           "lockstep/calls"};
    LK_POOL {
        lki_bytes bytes;
        lki_h5    file;
        lk_model_save_weights(trained(), path_of("w.weights.h5"));
        assert_int_equal(lki_file_read(path_of("w.weights.h5"), &bytes), LK_OK);
        assert_int_equal(lki_h5_read("w.weights.h5", bytes.data, bytes.size, &file), LK_OK);
        for (int i = 0; i < LKI_COUNT(THERE); i++)
            if (!lki_h5_find(&file, THERE[i])) fail_msg("there is no %s", THERE[i]);
        assert_string_equal(lki_h5_find(&file, "layers/dense_1/vars@name")->text[0], "dense_1");
        assert_string_equal(lki_h5_find(&file, "optimizer/vars@name")->text[0], "adam");
        assert_null(lki_h5_find(&file, "optimizer/vars/20"));
        lki_h5_free(&file);
        lki_bytes_free(&bytes);
    }
}

TEST(the_archive)
{
    LK_POOL {
        lki_zip zip;
        lk_model_save(trained(), path_of("model.keras"));
        assert_int_equal(lki_zip_open(path_of("model.keras"), &zip), LK_OK);
        assert_int_equal(zip.count, 3);
        lki_bytes metadata;
        assert_int_equal(lki_zip_read(&zip, lki_zip_find(&zip, "metadata.json"), &metadata), LK_OK);
        const lki_json *v = NULL;
        assert_int_equal(lki_json_parse("metadata", (const char *)metadata.data, metadata.size, &v), LK_OK);
        assert_string_equal(lki_json_get(v, "keras_version")->text, "3.15.1");
        assert_int_equal(strlen(lki_json_get(v, "date_saved")->text), strlen("2026-11-15@03:30:34"));
        lki_json_free(v);
        lki_bytes_free(&metadata);
        lki_zip_close(&zip);
    }
}

TEST(names_of_classes_in_files)
{
    static const char *const NAMES[][2] = {{"Dense", "dense"},
                                           {"Conv2D", "conv2d"},
                                           {"Conv2DTranspose", "conv2d_transpose"},
                                           {"ReLU", "re_lu"},
                                           {"LeakyReLU", "leaky_re_lu"},
                                           {"LSTM", "lstm"},
                                           {"SimpleRNN", "simple_rnn"},
                                           {"MaxPooling1D", "max_pooling1d"},
                                           {"GlobalAveragePooling2D", "global_average_pooling2d"},
                                           {"InputLayer", "input_layer"},
                                           {"UpSampling2D", "up_sampling2d"}};
    char                     text[64];
    for (int i = 0; i < LKI_COUNT(NAMES); i++)
        assert_string_equal(lki_snake_case(NAMES[i][0], text, sizeof text), NAMES[i][1]);
}

/* ---- files of before Keras 3 ---- */

static void legacy(lki_h5 *f, const char *root, lk_model *m, bool with_names)
{
    char               name[128];
    static const char *names[] = {"dense", "dense_1"}, *kernel_and_bias[2] = {"m/kernel:0", "m/bias:0"};
    snprintf(name, sizeof name, "%s@layer_names", root);
    lki_h5_add_texts(f, name, 2, names);
    for (int l = 0; l < 2 && with_names; l++) {
        snprintf(name, sizeof name, "%s%s%s@weight_names", root, *root ? "/" : "", names[l]);
        lki_h5_add_texts(f, name, 2, kernel_and_bias);
        for (int i = 0; i < 2; i++) {
            const lk_tensor *t = lk_read(lk_model_weights(m).item[2 * l + i]);
            const lk_shape   shape = lk_tensor_shape(t);
            snprintf(name, sizeof name, "%s%s%s/%s", root, *root ? "/" : "", names[l], kernel_and_bias[i]);
            lki_h5_add_array(f, name, LK_F32, &shape, lk_data(t));
        }
    }
}

static void put_h5(const char *name, lki_h5 *f)
{
    lki_bytes bytes = {0};
    if (lki_h5_write(name, f, &bytes) != LK_OK) fail_msg("%s", lk_error());
    assert_int_equal(lki_durable_file(path_of(name), bytes.data, bytes.size), LK_OK);
    lki_bytes_free(&bytes);
    lki_h5_free(f);
}

static lk_model *two_layers(void) { return lk_sequential(lk_dense(4, .input_shape = LK_SHAPE(3)), lk_relu_layer(), lk_dense(2)); }

TEST(old_files)
{
    LK_POOL {
        lk_model *m = two_layers();
        for (int whole = 0; whole < 2; whole++) {
            lki_h5    f = {0};
            lk_model *fresh = lk_sequential_named("other", lk_dense(4, .input_shape = LK_SHAPE(3)), lk_relu_layer(), lk_dense(2));
            legacy(&f, whole ? "model_weights" : "", m, true);
            if (whole) lki_h5_add_text(&f, "@model_config", lk_model_to_json(m));
            put_h5("old.h5", &f);
            if (lk_model_load_weights(fresh, path_of("old.h5")) != LK_OK) fail_msg("%s", lk_error());
            same_values(lk_model_weights(fresh), lk_model_weights(m));
            if (whole) same_values(lk_model_weights(lk_model_load(path_of("old.h5"))), lk_model_weights(m));
        }
        assert_false(lk_failed());
    }
}

/* ---- what is refused ---- */

static void says(lk_status code, const char *words)
{
    if (!lk_failed()) fail_msg("should be refused");
    if (!strstr(lk_error(), words)) fail_msg("\"%s\" is not in: %s", words, lk_error());
    if (lk_error_code() != code)
        fail_msg("%s instead of %s: %s", lk_status_name(lk_error_code()), lk_status_name(code), lk_error());
    lk_clear_error();
}

TEST(old_files_that_do_not_fit)
{
    LK_POOL {
        lki_h5    f = {0};
        lk_model *m = two_layers();
        legacy(&f, "", m, false);
        put_h5("old.h5", &f);
        lk_model_load_weights(m, path_of("old.h5"));
        says(LK_EFORMAT, "old.h5: there are no weights for layer \"dense\"");
        assert_null(lk_model_load(path_of("old.h5")));
        says(LK_EFORMAT, "old.h5: it has weights, but no model; lk_model_load_weights() puts them into one");
        legacy(&f, "", m, true);
        put_h5("old.h5", &f);
        lk_model_load_weights(lk_sequential(lk_dense(4, .input_shape = LK_SHAPE(3))), path_of("old.h5"));
        says(LK_EFORMAT, "old.h5: \"dense_1\" is for a layer that the model does not have");
        lk_model_load_weights(lk_sequential(lk_dense(4, .input_shape = LK_SHAPE(3), .use_bias = LK_OFF)), path_of("old.h5"));
        says(LK_EFORMAT, "old.h5: \"dense\" has 2 weights; layer \"dense\" has 1");
    }
}

TEST(weights_that_do_not_fit)
{
    LK_POOL {
        lk_model_save_weights(two_layers(), path_of("two.weights.h5"));
        lk_model *wide = lk_sequential(lk_dense(5, .input_shape = LK_SHAPE(3)), lk_dense(2)),
                 *more = lk_sequential(lk_dense(4, .input_shape = LK_SHAPE(3)), lk_dense(2), lk_dense(2)),
                 *fewer = lk_sequential(lk_dense(4, .input_shape = LK_SHAPE(3)));
        lk_digest before = lk_model_digest(more);
        lk_model_load_weights(wide, path_of("two.weights.h5"));
        says(LK_ESHAPE, "two.weights.h5: \"layers/dense/vars/0\" is [3, 4]; \"dense/kernel\" of the model is [3, 5]");
        lk_model_load_weights(more, path_of("two.weights.h5"));
        says(LK_EFORMAT, "two.weights.h5: there is no \"layers/dense_2/vars/0\", which should be the value of \"dense_2/kernel\"");
        lk_digest after = lk_model_digest(more);
        assert_memory_equal(&before, &after, sizeof before); /* the first two layers would have fitted */
        lk_model_load_weights(fewer, path_of("two.weights.h5"));
        says(LK_EFORMAT, "two.weights.h5: \"layers/dense_1/vars/0\" is for a layer or weight that the model does not have");
        lk_model_load_weights(lk_sequential(lk_dense(2)), path_of("two.weights.h5"));
        says(LK_ESTATE, "has no weights yet; build it first with lk_model_build()");
    }
}

/* A state that does not fit is reported, and the optimiser starts again, as in Keras. */
TEST(the_state_of_another_optimiser)
{
    LK_POOL {
        lk_model *m = trained();
        lk_model_save_weights(m, path_of("w.weights.h5"));
        lk_model_compile(m, .optimizer = lk_sgd(.momentum = 0.5), .loss = lk_mean_squared_error());
        assert_int_equal(lk_model_load_weights(m, path_of("w.weights.h5")), LK_OK);
        assert_int_equal(lk_optimizer_iterations(lk_model_optimizer(m)), 0);
        assert_false(lk_failed());
    }
}

TEST(arguments_are_checked)
{
    LK_POOL {
        lk_model *m = two_layers();
        lk_model_save(m, path_of("model.npz"));
        says(LK_EINVAL, "model.npz\" should end in \".keras\", the ending of Keras files");
        lk_model_save_weights(m, path_of("model.txt"));
        says(LK_EINVAL, "model.txt\" should end in .weights.h5");
        lk_model_save(NULL, "x.keras");
        says(LK_EINVAL, "lk_model_save: the model is NULL");
        lk_model_save(m, NULL);
        says(LK_EINVAL, "lk_model_save: the path is NULL");
        lk_model_load("");
        says(LK_EINVAL, "lk_model_load: the path is empty");
        lk_model_load_weights(NULL, "x");
        says(LK_EINVAL, "lk_model_load_weights: the model is NULL");
        lk_model_load(path_of("nowhere.keras"));
        says(LK_ENOTFOUND, "nowhere.keras");
        lk_model_save(m, path_of("no/such/folder/model.keras"));
        says(LK_EIO, "no/such/folder/model.keras");
        lk_model_save(lk_sequential(lk_dense(3)), path_of("model.keras"));
        says(LK_ESTATE, "has no weights yet");
        lk_model_load_weights(m, path_of("."));
        assert_true(lk_failed());
        lk_clear_error();
    }
}

/* ---- damage ---- */

static lki_bytes whole;

static void put(const void *data, size_t size) { assert_int_equal(lki_durable_file(path_of("bad.keras"), data, size), LK_OK); }

/* An archive of these members, NULL: without. */
static void archive(const char *config, const void *weights, size_t size)
{
    lki_zip_out *z;
    lki_bytes    bytes = {0};
    lki_zip_out_new(&z);
    if (config) lki_zip_out_add(z, "config.json", config, strlen(config));
    if (weights) lki_zip_out_add(z, "model.weights.h5", weights, size);
    assert_int_equal(lki_zip_out_finish(z, &bytes), LK_OK);
    put(bytes.data, bytes.size);
    lki_bytes_free(&bytes);
}

static void bad(lk_status code, const char *words)
{
    LK_POOL {
        assert_null(lk_model_load(path_of("bad.keras")));
    }
    says(code, words);
}

TEST(damaged_archives)
{
    LK_POOL {
        lk_model   *m = two_layers();
        const char *config = lk_model_to_json(m);
        lki_bytes   weights;
        lk_model_save_weights(m, path_of("w.weights.h5"));
        assert_int_equal(lki_file_read(path_of("w.weights.h5"), &weights), LK_OK);
        archive(config, weights.data, weights.size);
        assert_non_null(lk_model_load(path_of("bad.keras")));

        put("", 0);
        bad(LK_EFORMAT, "bad.keras: it is neither a .keras file (a zip archive) nor an HDF5 file");
        put("PK\3\4", 4);
        bad(LK_EFORMAT, "bad.keras");
        archive(NULL, weights.data, weights.size);
        bad(LK_EFORMAT, "bad.keras: there is no config.json in it; a .keras file has config.json and model.weights.h5");
        archive(config, NULL, 0);
        bad(LK_EFORMAT, "bad.keras: there is no model.weights.h5 in it");
        archive("{", weights.data, weights.size);
        bad(LK_EFORMAT, "bad.keras");
        archive(config, weights.data, weights.size / 2);
        bad(LK_EFORMAT, "bad.keras");
        archive(config, "nonsense", 8);
        bad(LK_EFORMAT, "bad.keras");
        lk_model *more = lk_sequential(lk_dense(4, .input_shape = LK_SHAPE(3)), lk_dense(2), lk_dense(2));
        archive(lk_model_to_json(more), weights.data, weights.size);
        bad(LK_EFORMAT, "bad.keras: there is no \"layers/dense_2/vars/0\"");
        lki_bytes_free(&weights);
    }
}

/* Wherever the file ends too early, it is refused, not believed. */
TEST(files_that_end_too_early)
{
    LK_POOL {
        lk_model_save(two_layers(), path_of("good.keras"));
        assert_int_equal(lki_file_read(path_of("good.keras"), &whole), LK_OK);
        for (size_t size = 0; size < whole.size; size += 1 + whole.size / 20) {
            put(whole.data, size);
            bad(LK_EFORMAT, "bad.keras");
        }
        lki_bytes_free(&whole);
    }
}

#define COMPILED(with)                                                                                                             \
    "{\"module\": \"keras\", \"class_name\": \"Sequential\", \"config\": {\"name\": \"m\", \"layers\": " LAYERS                    \
    "}, \"compile_config\": " with "}"
#define LAYERS                                                                                                                     \
    "[{\"class_name\": \"InputLayer\", \"config\": {\"batch_shape\": [null, 3]}}, "                                                \
    "{\"class_name\": \"Dense\", \"config\": {\"units\": 2, \"name\": \"out\"}}]"

static char warning[2048];
static int  warnings;

static void note_warning(const char *text, void *user)
{
    (void)user;
    warnings++;
    snprintf(warning, sizeof warning, "%s", text);
}

/* What cannot be read leaves a model that predicts, and a warning. */
static void not_compiled(const lki_bytes *weights, const char *config, const char *words)
{
    archive(config, weights->data, weights->size);
    lk_set_log(note_warning, NULL);
    LK_POOL {
        lk_model *m = lk_model_load(path_of("bad.keras"));
        if (!m) fail_msg("%s", lk_error());
        assert_null(m->compiled);
        assert_false(lk_failed());
    }
    lk_set_log(NULL, NULL);
    if (!strstr(warning, words) || !strstr(warning, "the model can predict")) fail_msg("\"%s\" is not in: %s", words, warning);
}

static void compiled(const lki_bytes *weights, const char *config, const char *words)
{
    archive(config, weights->data, weights->size);
    LK_POOL {
        lk_model *m = lk_model_load(path_of("bad.keras"));
        if (!m) fail_msg("%s", lk_error());
        if (words) assert_non_null(strstr(lk_model_to_json(m), words));
        else assert_null(m->compiled);
    }
}

TEST(what_a_model_was_compiled_with)
{
    lki_bytes w;
    LK_POOL {
        lk_model_save_weights(lk_sequential(lk_dense(2, .input_shape = LK_SHAPE(3))), path_of("w.weights.h5"));
    }
    assert_int_equal(lki_file_read(path_of("w.weights.h5"), &w), LK_OK);
    compiled(&w, COMPILED("{}"), NULL);
    compiled(&w, COMPILED("null"), NULL);
    compiled(&w, COMPILED("{\"optimizer\": \"adam\", \"loss\": \"mse\"}"), "\"class_name\": \"Adam\"");
    compiled(&w, COMPILED("{\"optimizer\": \"adam\", \"loss\": {\"out\": \"mse\"}, \"metrics\": {\"out\": [\"mae\"]}}"),
             "\"class_name\": \"MeanAbsoluteError\"");
    compiled(&w, COMPILED("{\"optimizer\": \"adam\", \"loss\": [\"mse\"], \"loss_weights\": {\"out\": 0.5}}"),
             "\"loss_weights\": [0.5]");
    compiled(&w, COMPILED("{\"optimizer\": \"adam\", \"metrics\": [[\"accuracy\"]]}"), "\"metrics\": [\"accuracy\"]");
    compiled(&w, COMPILED("{\"loss\": \"mse\"}"), "\"class_name\": \"RMSprop\"");
    not_compiled(&w, COMPILED("7"), "bad.keras: compile_config: it is a number; it should be an object");
    not_compiled(&w, COMPILED("{\"loss\": {\"other\": \"mse\"}}"), "\"loss\" names an output \"other\"; there are \"out\"");
    not_compiled(&w, COMPILED("{\"loss\": [\"mse\", \"mse\"]}"), "\"loss\" has 2 entries for 1 output");
    not_compiled(&w, COMPILED("{\"loss\": \"mse\", \"loss_weights\": [\"a\"]}"),
                 "a loss weight is a string; it should be a number");
    not_compiled(&w, COMPILED("{\"metrics\": [7]}"), "compile_config: metrics: it is a number");
    not_compiled(&w, COMPILED("{\"steps_per_execution\": 0}"), "\"steps_per_execution\" should be an integer of at least 1");
    lki_bytes_free(&w);
}

typedef struct partly {    /* a model that was compiled with something there is not here */
    const char *with;      /* its compile_config */
    const char *warning;   /* NULL: there is none */
    const char *evaluates; /* the error of evaluating it; NULL: that works */
    const char *trains;    /* of training it */
    const char *kept;      /* in the file that is written from it */
} partly;

static void tells(const char *words)
{
    char text[1024];
    snprintf(text, sizeof text, "%s", lk_error());
    lk_clear_error();
    if (words ? !strstr(text, words) : *text) fail_msg("\"%s\" is not in: %s", words ? words : "nothing", text);
}

static void compiled_partly(const lki_bytes *weights, const partly *p)
{
    char config[4096];
    snprintf(config, sizeof config, COMPILED("%s"), p->with);
    archive(config, weights->data, weights->size);
    warnings = 0;
    LK_POOL {
        lk_set_log(note_warning, NULL);
        lk_model *m = lk_model_load(path_of("bad.keras"));
        lk_set_log(NULL, NULL);
        if (!m) fail_msg("%s", lk_error());
        assert_int_equal(warnings, p->warning != NULL);
        if (p->warning && !strstr(warning, p->warning)) fail_msg("\"%s\" is not in: %s", p->warning, warning);
        lk_tensor *x = lk_ones(LK_SHAPE(4, 3), LK_F32), *y = lk_ones(LK_SHAPE(4, 2), LK_F32);
        lk_model_predict(m, .x = x, .verbose = LK_SILENT);
        tells(NULL);
        lk_model_evaluate(m, .x = x, .y = y, .verbose = LK_SILENT);
        tells(p->evaluates);
        lk_model_train_on_batch(m, LK_TUPLE(x, y));
        tells(p->trains);
        lk_model_fit(m, .x = x, .y = y, .verbose = LK_SILENT);
        tells(p->trains);
        if (p->kept && !strstr(lk_model_to_json(m), p->kept)) fail_msg("\"%s\" is not in: %s", p->kept, lk_model_to_json(m));
        lk_model_compile(m, .loss = lk_mean_squared_error(), .optimizer = lk_sgd());
        lk_model_train_on_batch(m, LK_TUPLE(x, y));
        tells(NULL);
    }
}

#define OF(module, class_name, config)                                                                                             \
    "{\"module\": \"keras." module "\", \"class_name\": \"" class_name "\", \"config\": {" config "}, \"registered_name\": null}"
#define WRAPPER OF("metrics", "MeanMetricWrapper", "\"fn\": \"mine\", \"name\": \"wrapper\", \"dtype\": \"float32\"")
#define PRECISION(thresholds) OF("metrics", "Precision", "\"thresholds\": " thresholds ", \"top_k\": null, \"class_id\": null")
#define CROSS(axis) OF("losses", "CategoricalCrossentropy", "\"from_logits\": true, \"label_smoothing\": 0.0, \"axis\": " axis)
#define PIECEWISE                                                                                                                  \
    OF("optimizers.schedules", "PiecewiseConstantDecay",                                                                           \
       "\"boundaries\": [1, 2, 3, 4, 5, 6, 7, 8, 9, 10], \"values\": [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]")
static const partly PARTLY[] = {
    {"{\"optimizer\": \"speedy\", \"loss\": \"mse\"}",
     "bad.keras: compile_config: optimizer: there is no optimiser \"speedy\"; there are SGD,", NULL,
     "bad.keras: compile_config: optimizer: there is no optimiser \"speedy\"", "\"optimizer\": \"speedy\""},
    {"{\"optimizer\": " OF("optimizers", "MultiOptimizer", "\"learning_rate\": 0.5") ", \"loss\": \"mse\"}",
     "there is no optimiser \"MultiOptimizer\"", NULL, "MultiOptimizer",
     "\"MultiOptimizer\", \"config\": {\"learning_rate\": 0.5}"},
    {"{\"optimizer\": " OF("optimizers", "SGD", "\"learning_rate\": 0.0") ", \"loss\": \"mse\"}", NULL, NULL, NULL,
     "\"learning_rate\": 0.0"},
    {"{\"optimizer\": \"sgd\", \"loss\": \"my_loss\", \"metrics\": [\"mae\"]}",
     "compile_config: loss: lk_loss_named: there is no loss \"my_loss\"", "lk_model_evaluate: model \"m\" comes without its loss",
     "there is no loss \"my_loss\"", "\"loss\": \"my_loss\""},
    {"{\"optimizer\": \"sgd\", \"loss\": {\"module\": \"mine\", \"class_name\": \"Own\", \"config\": {}}}",
     "class \"Own\" of mine is a custom class", "\"Own\"", "\"Own\"", "\"class_name\": \"Own\""},
    {"{\"optimizer\": \"sgd\", \"loss\": \"mse\", \"metrics\": [\"my_metric\", \"mae\"]}",
     "compile_config: metrics: lk_metric_named: there is no metric \"my_metric\"", NULL, NULL, "\"my_metric\""},
    {"{\"optimizer\": \"sgd\", \"loss\": \"mse\", \"weighted_metrics\": [" WRAPPER "]}", "there is no metric \"MeanMetricWrapper\"",
     NULL, NULL, "\"weighted_metrics\": [" WRAPPER "]"},
    {"{\"optimizer\": \"sgd\", \"loss\": \"mse\", \"metrics\": [" PRECISION("[0.3, 0.6]") "]}", NULL, NULL, NULL,
     "\"thresholds\": [0.3, 0.6]"},
    {"{\"optimizer\": \"sgd\", \"loss\": \"mse\", \"metrics\": [" PRECISION("[0.3]") "]}", NULL, NULL, NULL, "\"thresholds\": 0.3"},
    {"{\"optimizer\": \"sgd\", \"loss\": " CROSS("1") "}", NULL, NULL, NULL, "\"axis\": 1"}, /* the last of two */
    {"{\"optimizer\": \"sgd\", \"loss\": " CROSS("2") "}", NULL, "axis is 2; predictions have 2 axes", "axis is 2", "\"axis\": 2"},
    {"{\"optimizer\": " OF("optimizers", "SGD", "\"loss_scale_factor\": 8.0") ", \"loss\": \"mse\"}", NULL, NULL, NULL,
     "\"loss_scale_factor\": 8.0"},
    {"{\"optimizer\": " OF("optimizers", "SGD", "\"learning_rate\": " PIECEWISE) ", \"loss\": \"mse\"}", NULL, NULL, NULL,
     "\"boundaries\": [1"},
};

/* Unknown parts are reported once, and all others exist. */
TEST(compiled_with_what_there_is_not)
{
    lki_bytes w;
    LK_POOL {
        lk_model_save_weights(lk_sequential(lk_dense(2, .input_shape = LK_SHAPE(3))), path_of("w.weights.h5"));
    }
    assert_int_equal(lki_file_read(path_of("w.weights.h5"), &w), LK_OK);
    for (int i = 0; i < (int)(sizeof PARTLY / sizeof *PARTLY); i++)
        compiled_partly(&w, &PARTLY[i]);
    lki_bytes_free(&w);
}

/* ---- what claims to be large ---- */

/* Say in the directory that a member of bad.keras is packed and has this size. */
static void claim(const char *name, uint32_t size)
{
    lki_bytes b;
    bool      done = false;
    assert_int_equal(lki_file_read(path_of("bad.keras"), &b), LK_OK);
    for (size_t i = 0; i + 46 + strlen(name) <= b.size; i++) {
        if (memcmp(b.data + i, "PK\1\2", 4) != 0 || memcmp(b.data + i + 46, name, strlen(name)) != 0) continue;
        b.data[i + 10] = 8;
        for (int k = 0; k < 4; k++)
            b.data[i + 24 + (size_t)k] = (uint8_t)(size >> 8 * k);
        done = true;
    }
    assert_true(done);
    put(b.data, b.size);
    lki_bytes_free(&b);
}

TEST(members_that_claim_to_be_large)
{
    LK_POOL {
        lk_model   *m = two_layers();
        const char *config = lk_model_to_json(m);
        lki_bytes   w;
        lk_model_save_weights(m, path_of("w.weights.h5"));
        assert_int_equal(lki_file_read(path_of("w.weights.h5"), &w), LK_OK);
        archive(config, w.data, w.size);
        claim("config.json", 300u << 20);
        bad(LK_EFORMAT, "bad.keras: config.json unpacks to 314572800 bytes; in an archive of");
        archive(config, w.data, w.size);
        claim("config.json", 250u << 20);
        bad(LK_EFORMAT, " bytes cannot unpack to 262144000");
        archive(config, w.data, w.size);
        claim("model.weights.h5", 1u << 30);
        bad(LK_EFORMAT, "bad.keras: model.weights.h5 unpacks to 1073741824 bytes; in an archive of");
        lki_bytes_free(&w);
    }
}

/* ---- what it only predicted with ---- */

TEST(a_model_that_predicted_but_was_not_compiled)
{
    LK_POOL {
        lk_model *m = two_layers();
        assert_non_null(lk_model_predict(m, .x = some_rows(), .verbose = LK_SILENT));
        assert_int_equal(lk_model_save(m, path_of("predicted.keras")), LK_OK);
        assert_int_equal(lk_model_save_weights(m, path_of("predicted.weights.h5")), LK_OK);
        assert_int_equal(lk_model_load_weights(m, path_of("predicted.weights.h5")), LK_OK);
        assert_non_null(strstr(lk_model_to_json(m), "\"compile_config\": {}"));
        lk_model *again = lk_model_load(path_of("predicted.keras"));
        assert_non_null(again);
        assert_null(again->compiled);
        same_outputs(m, again);
        assert_false(lk_failed());
    }
}

/* Weights of another type are not read before the config says so. */
TEST(another_type_of_weights)
{
    LK_POOL {
        archive("{\"class_name\": \"Sequential\", \"config\": {\"name\": \"m\", \"layers\": [{\"class_name\": \"InputLayer\", "
                "\"config\": {\"batch_shape\": [null, 3]}}, {\"class_name\": \"Dense\", \"config\": {\"units\": 2, \"name\": "
                "\"out\", \"dtype\": \"float8\"}}]}}",
                "no HDF5", 7);
        bad(LK_EUNSUPPORTED, "bad.keras: layer \"out\" (Dense): option \"dtype\" is \"float8\"; supported are float32");
    }
}

/* ---- memory ---- */

static lk_model *kept;

static int save_it(void) { return lk_model_save(kept, path_of("kept.keras")) == LK_OK; }

static int load_it(void)
{
    int good = 0;
    LK_POOL {
        good = lk_model_load(path_of("kept.keras")) != NULL;
    }
    return good;
}

TEST(every_allocation_may_fail)
{
    LK_POOL {
        kept = lk_sequential(lk_dense(2, .input_shape = LK_SHAPE(3)));
        lk_optimizer *sgd = lk_sgd();
        lk_model_compile(kept, .optimizer = sgd, .loss = lk_mean_squared_error());
        lk_variables_digest(lk_model_variables(kept)); /* from here on both have their first values */
        lk_variables_digest(lk_optimizer_variables(sgd));
        assert_true(check_every_allocation(save_it) > 10);
        assert_true(check_every_allocation(load_it) > 10);
    }
}

static int make_folder(void **state)
{
    (void)state;
    return (folder = folder_new()) ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    folder_remove(folder);
    return 0;
}

int main(int argc, char **argv)
{
    (void)argc, (void)argv;
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_model_comes_back_as_it_was),
                                       cmocka_unit_test(several_outputs),
                                       cmocka_unit_test(training_goes_on),
                                       cmocka_unit_test(inside_a_scope_it_is_mirrored),
                                       cmocka_unit_test(weights_alone),
                                       cmocka_unit_test(the_layout),
                                       cmocka_unit_test(the_archive),
                                       cmocka_unit_test(names_of_classes_in_files),
                                       cmocka_unit_test(old_files),
                                       cmocka_unit_test(old_files_that_do_not_fit),
                                       cmocka_unit_test(weights_that_do_not_fit),
                                       cmocka_unit_test(the_state_of_another_optimiser),
                                       cmocka_unit_test(arguments_are_checked),
                                       cmocka_unit_test(damaged_archives),
                                       cmocka_unit_test(files_that_end_too_early),
                                       cmocka_unit_test(what_a_model_was_compiled_with),
                                       cmocka_unit_test(compiled_with_what_there_is_not),
                                       cmocka_unit_test(members_that_claim_to_be_large),
                                       cmocka_unit_test(a_model_that_predicted_but_was_not_compiled),
                                       cmocka_unit_test(another_type_of_weights),
                                       cmocka_unit_test(every_allocation_may_fail)};
    if (!lki_h5_helper()) return printf("not run: there is no lockstep-h5, the helper for HDF5 files\n"), 0;
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
