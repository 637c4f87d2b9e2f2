/* operations FOLDER NAME...: our half of comparing operations with Keras; operations.py runs it.
 *
 * For every name FOLDER/NAME.keras is loaded, and written back as NAME.back.keras. NAME.before.0.npy is what it predicts for the
 * rows NAME.x.0.npy, NAME.x.1.npy, ..., and NAME.after.0.npy the same after one step of training with the labels NAME.y.0.npy. */
#include "format/npy.h"
#include <lockstep.h>
#include <stdio.h>
#include <unistd.h>

enum { MOST = 8 };

static const char *path_of(const char *folder, const char *name, const char *what, int i)
{
    static char path[1024];
    if (i < 0) snprintf(path, sizeof path, "%s/%s.%s", folder, name, what);
    else snprintf(path, sizeof path, "%s/%s.%s.%d.npy", folder, name, what, i);
    return path;
}

static lk_tensor *arrays(const char *folder, const char *name, const char *what)
{
    lk_tensor *item[MOST + 1] = {0};
    int        count = 0;
    for (; count < MOST && access(path_of(folder, name, what, count), F_OK) == 0; count++) {
        lki_array a;
        if (lki_npy_read(path_of(folder, name, what, count), &a) != LK_OK) return NULL;
        item[count + 1] = lk_tensor_from(a.shape, a.dtype, a.data);
        lki_array_free(&a);
    }
    return count > 1 ? lk_nest(lk_tuple_of(count, item)) : item[1];
}

static void predict(lk_model *m, lk_tensor *x, const char *path)
{
    lk_tensor *y = lk_model_predict(m, .x = x, .verbose = LK_SILENT);
    if (lk_failed()) return;
    lki_array a = {lk_tensor_dtype(y), lk_tensor_shape(y), (void *)lk_data(y)};
    lki_npy_write(path, &a);
}

static void compare(const char *folder, const char *name)
{
    lk_model  *m = lk_model_load(path_of(folder, name, "keras", -1));
    lk_tensor *x = arrays(folder, name, "x"), *y = arrays(folder, name, "y");
    if (!m || !x || !y) return;
    lk_model_save(m, path_of(folder, name, "back.keras", -1));
    predict(m, x, path_of(folder, name, "before", 0));
    lk_model_fit(m, .x = x, .y = y, .batch_size = (int)lk_dim(y, 0), .shuffle = LK_OFF, .verbose = LK_SILENT);
    predict(m, x, path_of(folder, name, "after", 0));
}

int main(int argc, char **argv)
{
    int failed = 0;
    if (argc < 3) {
        printf("not run: it is half of a comparison with Keras; make interop does both\n0 passed, 0 failed\n");
        return 0;
    }
    for (int i = 2; i < argc; i++) {
        LK_POOL
            compare(argv[1], argv[i]);
        if (lk_failed()) printf("FAILED %s: %s\n", argv[i], lk_error()), failed++;
        lk_clear_error();
    }
    printf("%d passed, %d failed\n", argc - 2 - failed, failed);
    return failed != 0;
}
