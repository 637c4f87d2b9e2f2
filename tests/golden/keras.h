/* files/: models and weights that Keras wrote: NAME.keras, NAME.weights.h5 and NAME.h5 with NAME_values.npz and .json, json/, and
 * model.json of each run of train/.
 *
 * Weights must equal theirs bit for bit, predictions within 1e-5, and a model's JSON must have everything that Keras' has. */
#ifndef LK_TESTS_GOLDEN_KERAS_H
#define LK_TESTS_GOLDEN_KERAS_H

#include "format/h5.h"
#include "format/idx.h"
#include "golden.h"
#include <dirent.h>
#include <lockstep/keras.h>
#include <unistd.h>

/* ---- values ---- */

static void compare_weights(test_case *c, lk_model *m, json_t *weights)
{
    const lk_variables v = lk_model_weights(m);
    if (v.count != (int)json_array_size(weights)) GIVE_UP(c, "%d weights: should be %d", v.count, (int)json_array_size(weights));
    for (int i = 0; i < v.count; i++) {
        const char *key = json_string_value(json_object_get(json_array_get(weights, (size_t)i), "key"));
        compare(c, key, lk_read(v.item[i]), stored(c, key), 0, true);
    }
}

/* What is in the archive, or the first rows of the data set it names. */
static lk_tensor *rows_predicted(test_case *c)
{
    enum { ROWS = 8, PIXELS = 28 * 28 };
    const char *data = getenv("LOCKSTEP_DATA");
    char        path[MAX_PATH];
    float       pixel[ROWS * PIXELS];
    lki_array   images;
    if (lki_zip_find(&c->zip, "x.npy") >= 0) return stored(c, "x");
    if (!data) return NULL;
    snprintf(path, sizeof path, "%s/fashion-mnist/t10k-images-idx3-ubyte.gz", data);
    if (lki_idx_read(path, &images) != LK_OK) return sound(c, "the data"), NULL;
    for (int i = 0; i < ROWS * PIXELS; i++)
        pixel[i] = (float)((const uint8_t *)images.data)[i] / 255;
    lki_array_free(&images);
    return lk_tensor_from(LK_SHAPE(ROWS, 28, 28, 1), LK_F32, pixel);
}

static void compare_predictions(test_case *c, lk_model *m)
{
    lk_tensor *x = rows_predicted(c), *right = stored(c, "predict");
    if (!x || !right || !sound(c, "rows")) return;
    const lk_tensor *y = lk_model_call(m, x);
    if (!sound(c, "predictions")) return;
    for (int64_t i = 0; i < lk_size(right); i++)
        measure(c, "predictions", fabs(at(y, i) - at(right, i)), golden.rounded ? ROUNDED : 1e-5);
}

/* The state of the optimiser a model was saved with. */
static void compare_optimizer(test_case *c, lk_model *m, json_t *values)
{
    json_t       *state = json_object_get(values, "optimizer"), *iterations = json_object_get(values, "iterations");
    lk_optimizer *o = lk_model_optimizer(m);
    if (!state) return;
    if (!o) GIVE_UP(c, "the model is not compiled");
    const lk_variables v = lk_optimizer_variables(o);
    if (v.count != (int)json_array_size(state))
        GIVE_UP(c, "%d variables of the optimiser: should be %d", v.count, (int)json_array_size(state));
    for (int i = 0; i < v.count; i++) {
        const lk_shape shape = lk_variable_shape(v.item[i]);
        const json_t  *right = json_object_get(json_array_get(state, (size_t)i), "shape");
        if (shape.rank != (int)json_array_size(right)) GIVE_UP(c, "variable %d of the optimiser has another shape", i);
        for (int k = 0; k < shape.rank; k++)
            if (shape.dim[k] != json_integer_value(json_array_get(right, (size_t)k)))
                GIVE_UP(c, "variable %d of the optimiser has another shape", i);
    }
    if (lk_optimizer_iterations(o) != json_integer_value(iterations))
        miss(c, "%lld iterations: should be %lld", (long long)lk_optimizer_iterations(o),
             (long long)json_integer_value(iterations));
}

/* ---- files ---- */

static void check_file(test_case *c, const char *name, const char *end, json_t *values)
{
    char      path[MAX_PATH];
    lk_model *m = NULL;
    snprintf(path, sizeof path, "%s/files/%s%s", golden.folder, name, end);
    if (!case_arrays(c, path_of("files", name, "_values.npz"))) return;
    if (strcmp(end, ".weights.h5") == 0) {
        m = lk_model_from_json_file(path_of("files/json", name, ".json"));
        if (m) lk_model_load_weights(m, path);
    } else m = lk_model_load(path);
    if (!m || !sound(c, "reading")) return;
    compare_weights(c, m, json_object_get(values, "weights"));
    if (strcmp(end, ".weights.h5") != 0) compare_optimizer(c, m, values);
    compare_predictions(c, m);
}

/* ---- JSON ---- */

/* As Python has it: true is 1. */
static bool same_number(const json_t *a, const json_t *b)
{
    const bool numbers = (json_is_number(a) || json_is_boolean(a)) && (json_is_number(b) || json_is_boolean(b));
    return numbers && json_number_value(a) + json_is_true(a) == json_number_value(b) + json_is_true(b);
}

/* Everything Keras says must be said, and in the same words. */
static void compare_config(test_case *c, const char *path, const json_t *ours, json_t *theirs)
{
    const char *key;
    json_t     *value;
    char        below[600];
    if (json_is_object(theirs)) {
        json_object_foreach(theirs, key, value)
        {
            snprintf(below, sizeof below, "%.400s/%.100s", path, key);
            const bool unset = strstr(path, "/kwargs") && (json_is_null(value) || json_is_false(value)),
                       named = strcmp(key, "name") == 0 && json_object_get(theirs, "batch_shape");
            if (strcmp(key, "build_config") == 0 || unset || named) continue;
            if (!json_object_get(ours, key)) GIVE_UP(c, "%s is missing", below);
            compare_config(c, below, json_object_get(ours, key), value);
        }
        return;
    }
    if (json_is_array(theirs) && json_array_size(theirs) != json_array_size(ours)) GIVE_UP(c, "%s has another length", path);
    for (size_t i = 0; i < json_array_size(theirs); i++) {
        snprintf(below, sizeof below, "%.400s/%d", path, (int)i);
        compare_config(c, below, json_array_get(ours, i), json_array_get(theirs, i));
    }
    if (!json_is_array(theirs) && !json_equal(ours, theirs) && !same_number(ours, theirs)) miss(c, "%s is something else", path);
}

static void check_json(test_case *c, const char *path)
{
    json_error_t error;
    lk_model    *m = lk_model_from_json_file(path);
    const char  *text = m ? lk_model_to_json(m) : NULL;
    json_t      *ours = text ? json_loads(text, 0, &error) : NULL, *theirs = load_json(path);
    if (sound(c, "reading") && ours && theirs) compare_config(c, "", ours, theirs);
    else miss(c, "no JSON");
    json_decref(ours);
    json_decref(theirs);
}

/* ---- all of it ---- */

static void run_keras_files(const char *name)
{
    static const char *const ENDS[] = {".keras", ".weights.h5", ".h5"};
    json_t                  *values = load_json(path_of("files", name, "_values.json"));
    for (int i = 0; i < LKI_COUNT(ENDS) && values; i++) {
        test_case c;
        char      full[256];
        snprintf(full, sizeof full, "%s%s", name, ENDS[i]);
        if (access(path_of("files", full, ""), F_OK) != 0 || !case_begin(&c, "files", full, NULL)) continue;
        LK_POOL
            check_file(&c, name, ENDS[i], values);
        case_end(&c);
    }
    json_decref(values);
}

static void run_json(const char *part, const char *name)
{
    test_case c;
    char      full[600], path[MAX_PATH];
    snprintf(full, sizeof full, "%s/%s", part, name);
    snprintf(path, sizeof path, "%s/%s/%s", golden.folder, strcmp(part, "json") == 0 ? "files/json" : part, name);
    if (access(path, F_OK) != 0 || !case_begin(&c, "files", full, NULL)) return;
    LK_POOL
        check_json(&c, path);
    case_end(&c);
}

static int is_json(const struct dirent *d)
{
    const char *dot = strrchr(d->d_name, '.');
    return dot && strcmp(dot, ".json") == 0;
}

static int is_run(const struct dirent *d) { return d->d_name[0] != '.'; }

static void run_all_json(const char *part, const char *folder, int (*is_one)(const struct dirent *), const char *file)
{
    struct dirent **list = NULL;
    char            name[300];
    const int       count = scandir(path_of(folder, "", ""), &list, is_one, alphasort);
    for (int i = 0; i < count; i++) {
        snprintf(name, sizeof name, "%s%s", list[i]->d_name, file);
        run_json(part, name);
        free(list[i]);
    }
    free(list);
}

static void run_keras(void)
{
    run_all_json("json", "files/json", is_json, "");
    if (!lki_h5_helper()) printf("files: HDF5 not run: there is no lockstep-h5\n");
    else run_keras_files("branches"), run_keras_files("fashion");
}

/* The model of every training run. */
static void run_models(void) { run_all_json("train", "train", is_run, "/model.json"); }

#endif
