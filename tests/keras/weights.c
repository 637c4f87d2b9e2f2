/* Weights in every format, and from each to each: values, the optimiser's state and names are exactly the same afterwards; and
 * weights that do not fit. */
#include "keras/weights.h"
#include "check.h"
#include "folder.h"
#include "format/safetensors.h"
#include "keras/file.h"
#include "model/compiled.h"
#include <lockstep.h>

static char        folder[64];
static const char *path_of(const char *name) { return folder_file(folder, name); }

static void compile_and_train(lk_model *m, lk_tensor *x, lk_tensor *y)
{
    lk_model_compile(m, .optimizer = lk_adam(.learning_rate = 0.01), .loss = lk_mean_squared_error());
    lk_model_fit(m, .x = x, .y = y, .batch_size = 8, .epochs = 2, .verbose = LK_SILENT);
    if (lk_failed()) fail_msg("%s", lk_error());
}

static lk_model *plain(void)
{
    lk_model *m = lk_sequential_named("mine", lk_dense(4, .activation = LK_RELU, .input_shape = LK_SHAPE(3)),
                                      lk_batch_normalization(), lk_dropout(0.25), lk_dense(4, .trainable = LK_OFF), lk_dense(2));
    compile_and_train(m, lk_random_normal(LK_SHAPE(16, 3), .stream = "x"), lk_random_normal(LK_SHAPE(16, 2), .stream = "y"));
    return m;
}

/* Two layers of one name, in two models inside. */
static lk_model *nested(void)
{
    lk_node  *x = lk_input(LK_SHAPE(3)), *i = lk_input(LK_SHAPE(3));
    lk_model *row = lk_sequential_named("row", lk_dense(3, .name = "d", .input_shape = LK_SHAPE(3)));
    lk_model *graph = lk_functional(LK_NODES(i), LK_NODES(lk_apply(lk_dense(3, .name = "d"), i)), .name = "graph");
    lk_model *m = lk_functional(LK_NODES(x),
                                LK_NODES(lk_apply(lk_dense(2), lk_apply(lk_model_layer(graph), lk_apply(lk_model_layer(row), x)))));
    compile_and_train(m, lk_random_normal(LK_SHAPE(16, 3), .stream = "x"), lk_random_normal(LK_SHAPE(16, 2), .stream = "y"));
    return m;
}

static lk_model *sequences(void)
{
    lk_node  *x = lk_input(LK_SHAPE(5, 4));
    lk_node  *y = lk_apply(lk_bidirectional(lk_lstm(2, .return_sequences = LK_ON)), x);
    lk_model *m = lk_functional(LK_NODES(x), LK_NODES(lk_apply(lk_dense(2), lk_apply(lk_gru(3), y))));
    compile_and_train(m, lk_random_normal(LK_SHAPE(16, 5, 4), .stream = "x"), lk_random_normal(LK_SHAPE(16, 2), .stream = "y"));
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

static void same_models(lk_model *a, lk_model *b, bool state)
{
    same_values(lk_model_weights(a), lk_model_weights(b));
    if (state) same_values(lk_optimizer_variables(lk_model_optimizer(a)), lk_optimizer_variables(lk_model_optimizer(b)));
}

/* The same model, not trained. */
static lk_model *fresh_of(lk_model *m, bool compiled)
{
    lk_model *f = lk_model_from_json(lk_model_to_json(m));
    if (!f) fail_msg("%s", lk_error());
    if (compiled && lk_model_compile(f, .optimizer = lk_adam(.learning_rate = 0.01), .loss = lk_mean_squared_error()) != LK_OK)
        fail_msg("%s", lk_error());
    return f;
}

static bool has_h5(void) { return lki_h5_helper() != NULL; }

static const struct {
    const char *name;
    bool        h5, state;
} FORMATS[] = {{"w.safetensors", false, true}, {"w.npz", false, true}, {"w.ckpt", false, true}, {"w", false, true},
               {"w.weights.h5", true, true},   {"w.h5", true, false},  {"w.keras", true, true}, {"w.ckpt-12", false, true}};

static void through_all(lk_model *(*make)(void))
{
    for (int i = 0; i < LKI_COUNT(FORMATS); i++) {
        if (FORMATS[i].h5 && !has_h5()) continue;
        LK_POOL {
            lk_model   *m = make(), *compiled = fresh_of(m, true), *bare = fresh_of(m, false);
            const char *path = path_of(FORMATS[i].name);
            if (lk_model_save_weights(m, path) != LK_OK) fail_msg("%s: %s", FORMATS[i].name, lk_error());
            if (lk_model_load_weights(compiled, path) != LK_OK) fail_msg("%s: %s", FORMATS[i].name, lk_error());
            if (lk_model_load_weights(bare, path) != LK_OK) fail_msg("%s: %s", FORMATS[i].name, lk_error());
            same_models(m, compiled, FORMATS[i].state);
            same_models(m, bare, false);
            assert_false(lk_failed());
        }
    }
}

TEST(a_row_of_layers) { through_all(plain); }
TEST(models_inside) { through_all(nested); }
TEST(recurrent_layers) { through_all(sequences); }

/* ---- names ---- */

static void has_names(lk_model *m, int count, const char *const *name)
{
    lki_arrays a;
    assert_int_equal(lki_named_write("test", m, &a), LK_OK);
    for (int i = 0; i < count; i++)
        if (!lki_arrays_find(&a, name[i])) fail_msg("there is no %s", name[i]);
    lki_arrays_free(&a);
}

TEST(names_are_those_of_keras)
{
    static const char *const PLAIN[] = {
        "dense/kernel",   "dense/bias",         "batch_normalization/moving_variance", "dense_2/kernel",
        "adam/iteration", "adam/learning_rate", "adam/dense_kernel_momentum",          "lockstep/calls"};
    static const char *const NESTED[] = {"row/d/kernel", "graph/d/kernel", "dense/kernel", "adam/d_kernel_momentum",
                                         "adam/d_kernel_momentum_1"};
    static const char *const SEQUENCES[] = {"bidirectional/forward_lstm/lstm_cell/kernel",
                                            "bidirectional/backward_lstm/lstm_cell/recurrent_kernel", "gru/gru_cell/bias",
                                            "dense/kernel"};
    LK_POOL {
        has_names(plain(), LKI_COUNT(PLAIN), PLAIN);
        has_names(nested(), LKI_COUNT(NESTED), NESTED);
        has_names(sequences(), LKI_COUNT(SEQUENCES), SEQUENCES);
    }
}

/* With the name of the model in front, as Keras has it before a model is saved; and without those of models inside. */
static void reads_renamed(lk_model *m, const char *before, const char *without)
{
    lki_arrays a, b = {0};
    lk_model  *again = fresh_of(m, false);
    assert_int_equal(lki_named_write("test", m, &a), LK_OK);
    for (int i = 0; i < a.count; i++) {
        char        name[256];
        const char *own = a.item[i].name;
        if (!strncmp(own, "adam/", 5) || !strcmp(own, "lockstep/calls")) continue;
        if (without && !strncmp(own, without, strlen(without))) own += strlen(without);
        snprintf(name, sizeof name, "%s%s", before, own);
        assert_int_equal(lki_arrays_copy(&b, name, a.item[i].array.dtype, &a.item[i].array.shape, a.item[i].array.data), LK_OK);
    }
    assert_int_equal(lki_arrays_close("test", &b), LK_OK);
    if (lki_named_read("test", again, &b) != LK_OK) fail_msg("%s", lk_error());
    same_models(m, again, false);
    lki_arrays_free(&a);
    lki_arrays_free(&b);
}

TEST(other_names_of_keras)
{
    LK_POOL {
        reads_renamed(plain(), "mine/", NULL);
        reads_renamed(nested(), "", "row/");
        assert_false(lk_failed());
    }
}

/* ---- what does not fit ---- */

static void says(lk_status code, const char *text)
{
    assert_int_equal(lk_error_code(), code);
    if (!strstr(lk_error(), text)) fail_msg("\"%s\", not \"%s\"", lk_error(), text);
    lk_clear_error();
}

TEST(what_does_not_fit)
{
    LK_POOL {
        lk_model                *m = lk_sequential(lk_dense(4, .input_shape = LK_SHAPE(3)), lk_dense(2));
        lk_model                *wide = lk_sequential(lk_dense(5, .input_shape = LK_SHAPE(3)), lk_dense(2));
        lk_model                *more = lk_sequential(lk_dense(4, .input_shape = LK_SHAPE(3)), lk_dense(2), lk_dense(2));
        lk_model                *less = lk_sequential(lk_dense(4, .input_shape = LK_SHAPE(3)));
        static const char *const ENDS[] = {"n.safetensors", "n.npz", "n.ckpt"};
        for (int i = 0; i < 3; i++) {
            const char     *path = path_of(ENDS[i]);
            const lk_digest wide_before = lk_model_digest(wide), more_before = lk_model_digest(more);
            assert_int_equal(lk_model_save_weights(m, path), LK_OK);
            lk_model_load_weights(wide, path);
            says(LK_ESHAPE, "is [3, 4]; \"dense/kernel\" of the model is [3, 5]");
            lk_model_load_weights(more, path);
            says(LK_EFORMAT,
                 i < 2 ? "there is no \"dense_2/kernel\", which should be a weight" : "there is no value of \"dense_2/kernel\"");
            const lk_digest wide_after = lk_model_digest(wide), more_after = lk_model_digest(more);
            assert_memory_equal(&wide_before, &wide_after, sizeof wide_before); /* nothing was assigned */
            assert_memory_equal(&more_before, &more_after, sizeof more_before);
            if (i == 2) continue;
            lk_model_load_weights(less, path);
            says(LK_EFORMAT, "\"dense_1/bias\" is for a layer or weight that the model does not have");
        }
        lk_model_save_weights(m, path_of("w.txt"));
        says(LK_EINVAL, "should end in .weights.h5, .h5, .safetensors, .npz, .ckpt or .keras");
        lk_model_load_weights(m, path_of("none.safetensors"));
        says(LK_ENOTFOUND, "none.safetensors: No such file");
        mkdir(path_of("hollow"), 0777);
        lk_model_load_weights(m, path_of("hollow"));
        says(LK_ENOTFOUND, "a folder without a checkpoint in it");
    }
}

/* ---- from each to each ---- */

TEST(from_each_to_each)
{
    if (!has_h5()) skip();
    LK_POOL {
        lk_model *m = plain();
        assert_int_equal(lk_model_save(m, path_of("m.keras")), LK_OK);
        for (int i = 0; i < LKI_COUNT(FORMATS); i++)
            for (int k = 0; k < LKI_COUNT(FORMATS); k++)
                LK_POOL {
                    char from[512], to[512];
                    snprintf(from, sizeof from, "%s/from-%s", folder, FORMATS[i].name);
                    snprintf(to, sizeof to, "%s/to-%s", folder, FORMATS[k].name);
                    if (lk_convert(path_of("m.keras"), from) != LK_OK || lk_convert(from, to, .model = path_of("m.keras")) != LK_OK)
                        fail_msg("%s to %s: %s", FORMATS[i].name, FORMATS[k].name, lk_error());
                    lk_model *again = fresh_of(m, true);
                    if (lk_model_load_weights(again, to) != LK_OK) fail_msg("%s: %s", to, lk_error());
                    same_models(m, again, true);
                }
    }
}

/* ---- TensorFlow's and Keras' own files ---- */

static void same_as_golden(lk_model *m, const char *golden, const char *name)
{
    char               path[512], key[24];
    lki_arrays         values;
    const lk_variables w = lk_model_weights(m);
    snprintf(path, sizeof path, "%s/files/%s_values.npz", golden, name);
    assert_int_equal(lki_npz_read_all(path, &values), LK_OK);
    LK_STEP {
        for (int i = 0; i < w.count; i++) {
            snprintf(key, sizeof key, "w%03d", i);
            const lki_named *n = lki_arrays_find(&values, key);
            const lk_tensor *t = lk_read(w.item[i]);
            assert_non_null(n);
            assert_int_equal(lki_array_bytes(&n->array), (uint64_t)lk_size(t) * 4);
            assert_memory_equal(n->array.data, lk_data(t), (size_t)lk_size(t) * 4);
        }
    }
    lki_arrays_free(&values);
}

TEST(golden)
{
    static const char *const FILES[] = {"fashion.keras", "fashion.weights.h5", "fashion.h5", "checkpoint/ckpt-1", "checkpoint"};
    static const char *const ENDS[] = {"g.safetensors", "g.npz", "g.ckpt", "g.weights.h5", "g.h5", "g.keras"};
    const char              *golden = getenv("LOCKSTEP_GOLDEN");
    if (!golden || !has_h5()) skip();
    char model[512], from[512];
    snprintf(model, sizeof model, "%s/files/fashion.keras", golden);
    for (int i = 0; i < LKI_COUNT(FILES); i++)
        for (int k = 0; k < LKI_COUNT(ENDS); k++)
            LK_POOL {
                snprintf(from, sizeof from, "%s/files/%s", golden, FILES[i]);
                if (lk_convert(from, path_of(ENDS[k]), .model = model) != LK_OK)
                    fail_msg("%s to %s: %s", from, ENDS[k], lk_error());
                lk_model *m = lk_model_load(model);
                for (int w = 0; w < lk_model_weights(m).count; w++)
                    LK_STEP
                        lk_assign(lk_model_weights(m).item[w],
                                  lk_sub(lk_read(lk_model_weights(m).item[w]), lk_read(lk_model_weights(m).item[w])));
                if (lk_model_load_weights(m, path_of(ENDS[k])) != LK_OK) fail_msg("%s: %s", ENDS[k], lk_error());
                same_as_golden(m, golden, "fashion");
                assert_int_equal(lk_optimizer_iterations(lk_model_optimizer(m)), 5);
            }
    LK_POOL {
        snprintf(model, sizeof model, "%s/files/branches.keras", golden);
        for (int k = 0; k < LKI_COUNT(ENDS); k++) {
            assert_int_equal(lk_convert(model, path_of(ENDS[k])), LK_OK);
            lk_model *m = fresh_of(lk_model_load(model), false);
            if (lk_model_load_weights(m, path_of(ENDS[k])) != LK_OK) fail_msg("%s: %s", ENDS[k], lk_error());
            same_as_golden(m, golden, "branches");
        }
    }
}

/* ---- memory ends ---- */

static lk_model *small;
static int       save_and_load(void)
{
    bool good = true;
    for (int i = 0; i < 3 && good; i++)
        good = lk_model_save_weights(small, path_of(FORMATS[i].name)) == LK_OK &&
               lk_model_load_weights(small, path_of(FORMATS[i].name)) == LK_OK;
    return good;
}

TEST(every_allocation_fails_once)
{
    LK_POOL {
        small = lk_sequential(lk_dense(2, .input_shape = LK_SHAPE(3)));
        assert_true(save_and_load());
        assert_true(check_every_allocation(save_and_load) > 50);
    }
}

int main(int argc, char **argv)
{
    (void)argc, (void)argv;
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_row_of_layers),
                                       cmocka_unit_test(models_inside),
                                       cmocka_unit_test(recurrent_layers),
                                       cmocka_unit_test(names_are_those_of_keras),
                                       cmocka_unit_test(other_names_of_keras),
                                       cmocka_unit_test(what_does_not_fit),
                                       cmocka_unit_test(from_each_to_each),
                                       cmocka_unit_test(golden),
                                       cmocka_unit_test(every_allocation_fails_once)};
    snprintf(folder, sizeof folder, "%s", folder_new());
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    folder_remove(folder);
    return failed;
}
