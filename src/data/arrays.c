/* Arrays of NumPy's files as tensors and as datasets of rows, and back. */
#include "core/memory.h"
#include "core/names.h"
#include "data/data.h"
#include "dist/device.h"
#include "format/durable.h"
#include "format/npy.h"
#include "op/op.h"
#include <stdio.h>
#include <string.h>

enum { NAMES_SHOWN = 512 };

static bool has_path(const char *call, const char *path)
{
    if (path && *path) return true;
    return lki_fail(LK_EINVAL, "%s: the name of the file is missing", call), false;
}

/* ---- names ---- */

/* The length of a member's name without ".npy"; 0: it is not an array. */
static size_t array_name(const lki_zip_member *m)
{
    const size_t n = strlen(m->name);
    return n > 4 && strcmp(m->name + n - 4, ".npy") == 0 ? n - 4 : 0;
}

static int array_count(const lki_zip *z)
{
    int count = 0;
    for (int i = 0; i < z->count; i++)
        count += array_name(&z->member[i]) > 0;
    return count;
}

/* "x", "y": for messages. */
static const char *names_text(const lki_zip *z, char out[NAMES_SHOWN])
{
    char quoted[NAMES_SHOWN];
    out[0] = 0;
    for (int i = 0; i < z->count; i++) {
        const size_t n = array_name(&z->member[i]);
        if (n) lki_text_print(quoted, sizeof quoted, "\"%.*s\"", (int)n, z->member[i].name);
        if (n) lki_names_add(out, NAMES_SHOWN, quoted);
    }
    return *out ? out : "none";
}

static bool has_array(const lki_zip *z, const char *name)
{
    for (int i = 0; i < z->count; i++) {
        const size_t n = array_name(&z->member[i]);
        if (n && n == strlen(name) && memcmp(z->member[i].name, name, n) == 0) return true;
    }
    return false;
}

static lk_names names_of(const lki_zip *z)
{
    lk_names     names = {0};
    const char **item LKI_RELEASED = lki_zalloc_array(z->count + 1, sizeof *item);
    int          count = 0;
    bool         good = item;
    for (int i = 0; i < z->count && good; i++) {
        const size_t n = array_name(&z->member[i]);
        if (n) good = (item[count++] = lki_path_join(z->member[i].name, n, "")) != NULL;
    }
    if (good) names = lki_names_new(count, item, LKI_LIVES_IN_POOL);
    for (int i = 0; item && i < count; i++)
        lki_release((char *)item[i]);
    return names.count >= 0 ? names : (lk_names){0};
}

lk_names lk_npz_names(const char *path)
{
    LKI_SCOPE_ERRORS;
    lki_zip z;
    if (!has_path("lk_npz_names", path) || lki_zip_open(path, &z) != LK_OK) return (lk_names){0};
    lk_names names = names_of(&z);
    lki_zip_close(&z);
    return names;
}

/* ---- reading ---- */

static lk_tensor *tensor_of(lki_array *a)
{
    lk_tensor *t = lk_tensor_from(a->shape, a->dtype, a->data);
    lki_array_free(a);
    return t;
}

lk_tensor *lk_npy_read(const char *path)
{
    LKI_SCOPE_ERRORS;
    lki_array a;
    if (!has_path("lk_npy_read", path) || lki_npy_read(path, &a) != LK_OK) return &lki_poison;
    return tensor_of(&a);
}

static lk_tensor *read_member(const char *call, const lki_zip *z, const char *name)
{
    char      names[NAMES_SHOWN];
    lki_array a;
    if (!has_array(z, name))
        return lki_refuse(LK_ENOTFOUND, "%s: %s has no array \"%s\"; it has %s", call, z->path, name, names_text(z, names));
    return lki_npz_read(z, name, &a) == LK_OK ? tensor_of(&a) : &lki_poison;
}

static lk_tensor *read_only_one(const char *call, const lki_zip *z)
{
    char names[NAMES_SHOWN];
    int  i = 0;
    if (array_count(z) != 1)
        return lki_refuse(LK_EINVAL, "%s: %s has %d arrays, so one must be named: %s", call, z->path, array_count(z),
                          names_text(z, names));
    while (!array_name(&z->member[i]))
        i++;
    char *name LKI_RELEASED = lki_path_join(z->member[i].name, array_name(&z->member[i]), "");
    return name ? read_member(call, z, name) : &lki_poison;
}

lk_tensor *lk_npz_read(const char *path, const char *name)
{
    LKI_SCOPE_ERRORS;
    lki_zip z;
    if (!has_path("lk_npz_read", path) || lki_zip_open(path, &z) != LK_OK) return &lki_poison;
    lk_tensor *t = name ? read_member("lk_npz_read", &z, name) : read_only_one("lk_npz_read", &z);
    lki_zip_close(&z);
    return t;
}

/* ---- writing ---- */

/* A tensor as an array that borrows its elements. */
static lk_status array_of(const char *call, lk_tensor *tensor, lki_array *out)
{
    lk_tensor *t = lki_plain(tensor);
    if (!t) return lki_fail(LK_EINVAL, "%s: a tensor is NULL", call);
    if (lki_bad(t)) return lki_poisoned_status(call);
    if (lki_stands_for(t)) return lki_fail(LK_EINVAL, "%s: a tensor is %s", call, lki_why_not_plain(t));
    const void *data = lk_data(t);
    if (!data) return lk_error_code();
    *out = (lki_array){t->dtype, t->shape, (void *)data};
    return LK_OK;
}

lk_status lk_npy_write(const char *path, lk_tensor *t)
{
    LKI_SCOPE_ERRORS;
    lki_array a;
    if (!has_path("lk_npy_write", path)) return LK_EINVAL;
    LKI_TRY(array_of("lk_npy_write", t, &a));
    return lki_npy_write(path, &a);
}

static lk_status check_names(const char *call, lk_names names, int tensors)
{
    if (names.count < 0) return lki_fail(LK_ENOMEM, "%s: no memory for the list of names", call);
    if (names.count != tensors) return lki_fail(LK_EINVAL, "%s: %d names for %d tensors", call, names.count, tensors);
    for (int i = 0; i < names.count; i++) {
        if (!names.item[i] || !*names.item[i]) return lki_fail(LK_EINVAL, "%s: name %d is empty", call, i);
        for (int k = 0; k < i; k++)
            if (strcmp(names.item[i], names.item[k]) == 0)
                return lki_fail(LK_EINVAL, "%s: names %d and %d are both \"%s\"", call, k, i, names.item[i]);
    }
    return LK_OK;
}

static lk_status add_member(lki_zip_out *z, const char *name, lk_tensor *t)
{
    lki_array a;
    lki_bytes bytes LKI_FREED_BY(lki_bytes_free) = {0};
    LKI_TRY(array_of("lk_npz_write", t, &a));
    char *member LKI_RELEASED = lki_path_join(name, strlen(name), ".npy");
    if (!member) return LK_ENOMEM;
    LKI_TRY(lki_npy_encode(&a, &bytes));
    return lki_zip_out_add(z, member, bytes.data, bytes.size);
}

lk_status lk_npz_write(const char *path, lk_names names, lk_tuple tensors)
{
    LKI_SCOPE_ERRORS;
    lki_zip_out *z;
    lki_bytes    archive LKI_FREED_BY(lki_bytes_free) = {0};
    if (!has_path("lk_npz_write", path)) return LK_EINVAL;
    LKI_TRY(check_names("lk_npz_write", names, tensors.count));
    LKI_TRY(lki_zip_out_new(&z));
    lk_status status = LK_OK;
    for (int i = 0; i < names.count && status == LK_OK; i++)
        status = add_member(z, names.item[i], tensors.item[i]);
    if (status != LK_OK) return lki_zip_out_free(z), status;
    LKI_TRY(lki_zip_out_finish(z, &archive));
    return lki_durable_file(path, archive.data, archive.size);
}

/* ---- rows ---- */

/* x and y alone are for training: a file with one pair does not say which rows it holds. */
static lk_status default_names(const lki_zip *z, lk_split_of split, lk_names *out)
{
    static const char *const pair[][2] = {{"x_train", "y_train"}, {"x", "y"}, {"x_test", "y_test"}};
    char                     names[NAMES_SHOWN];
    for (int i = split == LK_TEST ? 2 : 0; i < (split == LK_TEST ? 3 : 2); i++)
        if (has_array(z, pair[i][0]) && has_array(z, pair[i][1])) return *out = (lk_names){2, pair[i]}, LK_OK;
    return lki_fail(LK_ENOTFOUND, "lk_npz_dataset: %s has no %s; it has %s; say which are meant with .names", z->path,
                    split == LK_TEST ? "x_test and y_test" : "x_train and y_train, and no x and y", names_text(z, names));
}

static lk_dataset *rows_of(const lki_zip *z, lk_names names)
{
    lk_tensor  *item[LKI_MOST_COLUMNS];
    lk_dataset *d = NULL;
    if (names.count > LKI_MOST_COLUMNS)
        return lki_fail(LK_EINVAL, "lk_npz_dataset: %d arrays; at most %d", names.count, LKI_MOST_COLUMNS), NULL;
    LK_STEP {
        bool good = true;
        for (int i = 0; i < names.count && good; i++) {
            item[i] = names.item[i] ? read_member("lk_npz_dataset", z, names.item[i])
                                    : lki_refuse(LK_EINVAL, "lk_npz_dataset: name %d is NULL", i);
            good = !lki_bad(item[i]);
        }
        if (good) d = lk_dataset_from_tensor_slices(lk_tuple_from(names.count, item));
    }
    return d;
}

lk_dataset *lk_npz_dataset_kw(lk_npz_args a)
{
    LKI_SCOPE_ERRORS;
    lki_zip     z;
    lk_dataset *d = NULL;
    if (!has_path("lk_npz_dataset", a.path)) return NULL;
    if ((unsigned)a.split > LK_TEST)
        return lki_fail(LK_EINVAL, "lk_npz_dataset: .split = %d; it must be LK_TRAIN or LK_TEST", (int)a.split), NULL;
    if (a.names.count < 0) return lki_fail(LK_ENOMEM, "lk_npz_dataset: no memory for the list of names"), NULL;
    if (lki_zip_open(a.path, &z) != LK_OK) return NULL;
    if (a.names.count || default_names(&z, a.split, &a.names) == LK_OK) d = rows_of(&z, a.names);
    lki_zip_close(&z);
    return d;
}
