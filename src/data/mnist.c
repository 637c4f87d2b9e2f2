/* MNIST and Fashion-MNIST from their IDX files. The arrays are read when the dataset is made, and shared by all its rows; scaled
 * images are computed from the bytes when they are gathered into a batch, which moves a quarter of the memory that scaled ones
 * would. */
#include "core/memory.h"
#include "data/data.h"
#include "format/idx.h"
#include <lockstep/ops.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_PATH = 4096, SIDE = 28 };

/* ---- where ---- */

/* The folder above mnist/ and fashion-mnist/; false when its name is too long. */
static bool data_folder(const char *asked, char *out)
{
    const char *data = getenv("LOCKSTEP_DATA"), *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int         length;
    if (asked && *asked) length = snprintf(out, MOST_PATH, "%s", asked);
    else if (data && *data) length = snprintf(out, MOST_PATH, "%s", data);
    else if (cache && *cache) length = snprintf(out, MOST_PATH, "%s/lockstep", cache);
    else length = snprintf(out, MOST_PATH, "%s/.cache/lockstep", home && *home ? home : ".");
    return length < MOST_PATH;
}

static lk_status find_file(const char *call, const char *folder, const char *set, const char *name, char *path)
{
    static const char *const ends[] = {"", ".gz"};
    for (int i = 0; i < LKI_COUNT(ends); i++)
        if (snprintf(path, MOST_PATH, "%s/%s/%s%s", folder, set, name, ends[i]) < MOST_PATH && access(path, R_OK) == 0)
            return LK_OK;
    return lki_fail(LK_ENOTFOUND,
                    "%s: neither %s nor %s.gz is in %s/%s; put the IDX files of the data set there (train-images-idx3-ubyte, "
                    "train-labels-idx1-ubyte, t10k-images-idx3-ubyte, "
                    "t10k-labels-idx1-ubyte, each plain or packed by gzip), or name another folder with .folder or LOCKSTEP_DATA",
                    call, name, name, folder, set);
}

/* ---- reading ---- */

static lk_status read_array(const char *call, const char *folder, const char *set, const char *name, int rank, lki_array *out)
{
    char path[MOST_PATH], text[LKI_SHAPE_TEXT];
    LKI_TRY(find_file(call, folder, set, name, path));
    LKI_TRY(lki_idx_read(path, out));
    const bool images = rank == 3 && out->shape.rank == 3 && out->shape.dim[1] == SIDE && out->shape.dim[2] == SIDE;
    if (out->dtype == LK_U8 && (images || (rank == 1 && out->shape.rank == 1))) return LK_OK;
    lki_fail(LK_EFORMAT, "%s: %s %s; it should be u8 %s", path, lk_dtype_name(out->dtype), lki_shape_text(&out->shape, text),
             rank == 3 ? "[n, 28, 28]" : "[n]");
    lki_array_free(out);
    return LK_EFORMAT;
}

static lk_status read_pair(const char *call, const char *folder, const char *set, bool test, lki_array *images, lki_array *labels)
{
    LKI_TRY(read_array(call, folder, set, test ? "t10k-images-idx3-ubyte" : "train-images-idx3-ubyte", 3, images));
    LKI_TRY(read_array(call, folder, set, test ? "t10k-labels-idx1-ubyte" : "train-labels-idx1-ubyte", 1, labels));
    if (images->shape.dim[0] == labels->shape.dim[0]) return LK_OK;
    return lki_fail(LK_EFORMAT, "%s: %s/%s has %lld images but %lld labels", call, folder, set, (long long)images->shape.dim[0],
                    (long long)labels->shape.dim[0]);
}

static lk_tuple scale(lk_tuple row, void *user)
{
    (void)user;
    return LK_TUPLE(lk_div(lk_cast(row.item[0], LK_F32), lk_scalar(255)), row.item[1]);
}

static lk_dataset *rows_of(const lki_array *images, const lki_array *labels, bool scaled)
{
    lk_shape shape = images->shape;
    if (scaled) shape = LK_SHAPE(shape.dim[0], SIDE, SIDE, 1);
    lk_tensor *x = lk_tensor_from(shape, LK_U8, images->data),
              *y = lk_cast(lk_tensor_from(labels->shape, LK_U8, labels->data), LK_I64);
    lk_dataset *rows = lki_bad(x) || lki_bad(y) ? NULL : lk_dataset_from_tensor_slices(LK_TUPLE(x, y));
    lk_dataset *d = rows && scaled ? lk_dataset_map(rows, scale) : rows;
    if (rows && d != rows) lk_free(rows); /* the map, if there is one, holds it */
    return d;
}

static lk_dataset *load(const char *call, const char *set, const lk_mnist_args *a)
{
    char        folder[MOST_PATH];
    lki_array   images = {0}, labels = {0};
    lk_dataset *d = NULL;
    if ((unsigned)a->split > LK_TEST)
        return lki_fail(LK_EINVAL, "%s: .split = %d; it must be LK_TRAIN or LK_TEST", call, (int)a->split), NULL;
    if (!data_folder(a->folder, folder)) return lki_fail(LK_EINVAL, "%s: the name of the folder is too long", call), NULL;
    if (read_pair(call, folder, set, a->split == LK_TEST, &images, &labels) == LK_OK)
        LK_STEP
            d = rows_of(&images, &labels, a->scaled == LK_ON);
    lki_array_free(&images);
    lki_array_free(&labels);
    return d;
}

lk_dataset *lk_mnist_kw(lk_mnist_args a) { return load("lk_mnist", "mnist", &a); }
lk_dataset *lk_fashion_mnist_kw(lk_mnist_args a) { return load("lk_fashion_mnist", "fashion-mnist", &a); }
