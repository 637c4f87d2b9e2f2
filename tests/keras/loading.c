/* Loading needs the memory of the weights and little more: values that are in the file are not drawn first, and no copy of the file
 * is kept. */
#include "core/memory.h"
#include "folder.h"
#include "format/h5.h"
#include "model/refused.h"
#include <lockstep.h>
#include <stdio.h>
#include <string.h>

static char folder[64];

static const char *path_of(const char *name) { return folder_file(folder, name); }

/* ---- the most memory the process had, in KiB ---- */

static long status_of(const char *what)
{
    char  line[200];
    long  kib = -1;
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof line, f))
        if (!strncmp(line, what, strlen(what))) sscanf(line + strlen(what), ": %ld", &kib);
    if (f) fclose(f);
    return kib;
}

/* From now on; false: the system cannot reset the count. */
static bool count_anew(void)
{
    FILE *f = fopen("/proc/self/clear_refs", "w");
    lki_memory_trim();
    const bool good = f && fputs("5", f) >= 0;
    if (f && fclose(f) != 0) return false;
    return good && status_of("VmHWM") > 0;
}

static bool is_sanitized(void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
    return true;
#endif
#endif
    return false;
}

enum { WIDTH = 1024, LAYERS = 4, WEIGHTS_KIB = LAYERS * WIDTH * WIDTH * 4 / 1024 };

static lk_model *wide(void)
{
    lk_layer *layer[LAYERS + 1] = {NULL};
    for (int i = 1; i <= LAYERS; i++)
        layer[i] = lk_dense(WIDTH, .input_shape = LK_SHAPE(WIDTH), .kernel_initializer = lk_init_he_normal(), .use_bias = LK_OFF);
    return lk_sequential_of(NULL, LAYERS, layer);
}

static void check_peak(const char *what, long before, double times)
{
    const long most = status_of("VmHWM") - before;
    if ((double)most > times * WEIGHTS_KIB) fail_msg("%s took %ld KiB for weights of %d", what, most, WEIGHTS_KIB);
}

TEST(weights_are_in_memory_once)
{
    static const char *const ends[] = {"m.keras", "m.h5", "m.weights.h5", "m.safetensors", "m.npz"};
    if (!lki_h5_helper() || is_sanitized() || !count_anew()) skip();
    lk_digest saved = {0};
    LK_POOL {
        lk_model *m = wide();
        saved = lk_variables_digest(lk_model_variables(m));
        for (int i = 0; i < 5; i++)
            assert_int_equal(i < 2 ? lk_model_save(m, path_of(ends[i])) : lk_model_save_weights(m, path_of(ends[i])), LK_OK);
    }
    for (int i = 0; i < 5; i++) {
        assert_true(count_anew());
        const long before = status_of("VmRSS");
        LK_POOL {
            lk_model *m = i < 2 ? lk_model_load(path_of(ends[i])) : wide();
            if (i >= 2) assert_int_equal(lk_model_load_weights(m, path_of(ends[i])), LK_OK);
            assert_non_null(m);
            check_peak(ends[i], before, i == 3 ? 2.2 : 1.5);
            assert_true(lk_digest_equal(lk_variables_digest(lk_model_variables(m)), saved));
        }
    }
}

/* With what the optimiser keeps, which is twice as much again. */
TEST(the_state_of_an_optimiser_too)
{
    if (!lki_h5_helper() || is_sanitized() || !count_anew()) skip();
    LK_POOL {
        lk_model     *m = wide();
        lk_optimizer *adam = lk_adam();
        assert_int_equal(lk_model_compile(m, .optimizer = adam, .loss = lk_mean_squared_error()), LK_OK);
        assert_int_equal(lk_optimizer_build(adam, lk_model_trainable_variables(m)), LK_OK);
        assert_int_equal(lk_model_save(m, path_of("c.keras")), LK_OK);
    }
    assert_true(count_anew());
    const long before = status_of("VmRSS");
    LK_POOL {
        assert_non_null(lk_model_load(path_of("c.keras")));
        check_peak("c.keras", before, 3 * 1.1);
    }
}

/* Of he_normal and its family, which once took 30 times as much. */
TEST(first_values_are_drawn_in_place)
{
    if (is_sanitized() || !count_anew()) skip();
    const long before = status_of("VmRSS");
    LK_POOL {
        lk_model *m = wide();
        lk_variables_digest(lk_model_variables(m));
        check_peak("drawing", before, 1.2);
    }
}

/* ---- two weights from one array ---- */

/* An old file may name one array for two weights: each gets a copy of its own. */
TEST(one_array_for_two_weights)
{
    if (!lki_h5_helper()) skip();
    static const float       values[] = {1, 2};
    static const char *const layers[] = {"a"}, *const weights[] = {"x", "x"};
    LK_POOL {
        lki_h5    f = {0};
        lki_bytes bytes;
        lk_model *m = lk_sequential(lk_layer_normalization(.input_shape = LK_SHAPE(2), .name = "a"));
        assert_int_equal(lki_h5_add_array(&f, "a/x", LK_F32, &(lk_shape){1, {2}}, values), LK_OK);
        assert_int_equal(lki_h5_add_texts(&f, "@layer_names", 1, layers), LK_OK);
        assert_int_equal(lki_h5_add_texts(&f, "a@weight_names", 2, weights), LK_OK);
        assert_int_equal(lki_h5_write("a.h5", &f, &bytes), LK_OK);
        assert_int_equal(lki_file_write(path_of("a.h5"), 1, &bytes), LK_OK);
        assert_int_equal(lk_model_load_weights(m, path_of("a.h5")), LK_OK);
        lk_variables v = lk_model_variables(m);
        assert_int_equal(lk_assign(v.item[0], lk_zeros(LK_SHAPE(2), LK_F32)), LK_OK);
        assert_memory_equal(lk_data(lk_read(v.item[1])), values, sizeof values);
        lki_bytes_free(&bytes);
        lki_h5_free(&f);
    }
}

/* ---- a file that cannot be read to its end ---- */

/* Nothing of the model is changed, whether it had its first values or not. */
TEST(a_damaged_file_changes_nothing)
{
    if (!lki_h5_helper()) skip();
    LK_POOL {
        lki_bytes bytes;
        lk_model *m = lk_sequential_named("m", lk_dense(64, .input_shape = LK_SHAPE(300), .name = "d")),
                 *read = lk_sequential_named("m", lk_dense(64, .input_shape = LK_SHAPE(300), .name = "d")),
                 *fresh = lk_sequential_named("m", lk_dense(64, .input_shape = LK_SHAPE(300), .name = "d"));
        lk_digest before = lk_variables_digest(lk_model_variables(read));
        assert_int_equal(lk_assign(lk_model_variables(m).item[0], lk_ones(LK_SHAPE(300, 64), LK_F32)), LK_OK);
        assert_int_equal(lk_model_save(m, path_of("d.keras")), LK_OK);
        assert_int_equal(lki_file_read(path_of("d.keras"), &bytes), LK_OK);
        bytes.data[bytes.size / 2] ^= 1;
        assert_int_equal(lki_file_write(path_of("d.keras"), 1, &bytes), LK_OK);
        REFUSED(LK_EFORMAT, lk_model_load_weights(read, path_of("d.keras")) != LK_OK, "model.weights.h5", "CRC-32");
        REFUSED(LK_EFORMAT, lk_model_load_weights(fresh, path_of("d.keras")) != LK_OK, "model.weights.h5", "CRC-32");
        assert_true(lk_digest_equal(lk_variables_digest(lk_model_variables(read)), before));
        assert_true(lk_digest_equal(lk_variables_digest(lk_model_variables(fresh)), before));
        lki_bytes_free(&bytes);
    }
}

static int make_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "%s", folder_new());
    return 0;
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
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_are_in_memory_once),      cmocka_unit_test(the_state_of_an_optimiser_too),
        cmocka_unit_test(first_values_are_drawn_in_place), cmocka_unit_test(one_array_for_two_weights),
        cmocka_unit_test(a_damaged_file_changes_nothing),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
