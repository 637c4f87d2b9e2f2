/* keras_files FOLDER CASE...: our half of an exchange of models with Keras; keras_files.py runs it.
 *
 * For every case FOLDER/CASE/theirs.keras is loaded, and written back as
 *     ours.keras, ours.weights.h5, ours.json     as it is
 *     ours.N.npy                                 what output N is for the rows x.0.npy, x.1.npy, ...
 *     old.N.npy                                  the same for theirs.h5, if it is there: the format of before Keras 3
 *     trained.keras, trained.N.npy               the same after two epochs on two replicas, where there are labels y.0.npy, ... */
#include "format/npy.h"
#include "model/model.h"
#include <lockstep.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST = 32 };

static const char *file_in(const char *folder, const char *name)
{
    static char path[1024];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static const char *numbered(const char *folder, const char *name, int i)
{
    static char path[1024];
    snprintf(path, sizeof path, "%s/%s.%d.npy", folder, name, i);
    return path;
}

/* The arrays NAME.0.npy, NAME.1.npy, ...: one as it is, several as a nest; NULL: there are none. */
static lk_tensor *arrays(const char *folder, const char *name)
{
    lk_tensor *item[MOST + 1] = {0};
    int        count = 0;
    for (; count < MOST && access(numbered(folder, name, count), F_OK) == 0; count++) {
        lki_array a;
        if (lki_npy_read(numbered(folder, name, count), &a) != LK_OK) return NULL;
        item[count + 1] = lk_tensor_from(a.shape, a.dtype, a.data);
        lki_array_free(&a);
    }
    return count > 1 ? lk_nest(lk_tuple_of(count, item)) : item[1];
}

static void write_outputs(const char *folder, const char *name, lk_model *m, lk_tensor *x)
{
    lk_tensor *y = lk_model_predict(m, .x = x, .verbose = LK_SILENT);
    lk_tuple   out = m->outputs > 1 ? lk_nested(y) : (lk_tuple){1, &y};
    for (int i = 0; i < out.count && !lk_failed(); i++) {
        lki_array a = {lk_tensor_dtype(out.item[i]), lk_tensor_shape(out.item[i]), (void *)lk_data(out.item[i])};
        lki_npy_write(numbered(folder, name, i), &a);
    }
}

static void write_text(const char *path, const char *text)
{
    FILE *f = text ? fopen(path, "w") : NULL;
    if (!f || fputs(text, f) < 0 || fclose(f) != 0) printf("FAILED to write %s\n", path);
}

static void bring_back(const char *folder)
{
    lk_model *m = lk_model_load(file_in(folder, "theirs.keras"));
    if (!m) return;
    lk_model_save(m, file_in(folder, "ours.keras"));
    lk_model_save_weights(m, file_in(folder, "ours.weights.h5"));
    write_text(file_in(folder, "ours.json"), lk_model_to_json(m));
    write_outputs(folder, "ours", m, arrays(folder, "x"));
}

static void read_old(const char *folder)
{
    lk_model *m = access(file_in(folder, "theirs.h5"), F_OK) == 0 ? lk_model_load(file_in(folder, "theirs.h5")) : NULL;
    if (m) write_outputs(folder, "old", m, arrays(folder, "x"));
}

static void train(const char *folder)
{
    lk_tensor *x = arrays(folder, "x"), *y = arrays(folder, "y");
    lk_model  *m = NULL;
    if (!y) return;
    LK_SCOPE(lk_mirrored_strategy(.cpu_devices = 2)) {
        m = lk_model_load(file_in(folder, "theirs.keras"));
    }
    if (!m || !lk_model_fit(m, .x = x, .y = y, .batch_size = 8, .epochs = 2, .verbose = LK_SILENT)) return;
    lk_model_save(m, file_in(folder, "trained.keras"));
    write_outputs(folder, "trained", m, x);
}

int main(int argc, char **argv)
{
    int failed = 0;
    if (argc < 3) {
        printf("not run: it is half of an exchange with Keras; make interop does both\n0 passed, 0 failed\n");
        return 0;
    }
    for (int i = 2; i < argc; i++) {
        char folder[512];
        snprintf(folder, sizeof folder, "%s/%s", argv[1], argv[i]);
        LK_POOL {
            bring_back(folder);
            if (!lk_failed()) read_old(folder);
            if (!lk_failed()) train(folder);
        }
        if (lk_failed()) printf("FAILED %s: %s\n", argv[i], lk_error()), failed++;
        lk_clear_error();
    }
    printf("%d passed, %d failed\n", argc - 2 - failed, failed);
    return failed != 0;
}
