/* NumPy's files as tensors and rows, and back: every type and shape, names, files that NumPy wrote, missing files. */
#include "core/dtype.h"
#include "folder.h"
#include "saved.h"

static const char *folder;

static lk_tensor *some(lk_dtype dtype, lk_shape shape)
{
    lk_tensor *t = lk_zeros(shape, dtype);
    for (int64_t i = 0; i < lk_size(t); i++)
        lki_element_set(dtype, t->data, i, (double)(dtype == LK_BOOL ? i % 2 : i + 1));
    return t;
}

static int same(lk_tensor *a, lk_tensor *b)
{
    const lk_shape x = lk_tensor_shape(a), y = lk_tensor_shape(b);
    return !lk_poisoned(a) && !lk_poisoned(b) && lk_tensor_dtype(a) == lk_tensor_dtype(b) && lki_shape_equal(&x, &y) &&
           memcmp(lk_data(a), lk_data(b), (size_t)lk_size(a) * lk_dtype_bytes(lk_tensor_dtype(a))) == 0;
}

TEST(there_and_back)
{
    const lk_shape shapes[] = {LK_SHAPE(), LK_SHAPE(5), LK_SHAPE(2, 3), LK_SHAPE(2, 0, 3), LK_SHAPE(1, 2, 3, 4)};
    for (int dtype = 0; dtype < LK_DTYPE_COUNT; dtype++)
        LK_POOL {
            lk_tensor  *t[LKI_COUNT(shapes)];
            const char *names[] = {"scalar", "one", "two/with a folder", "none", "four"}, *npy = folder_file(folder, "x.npy"),
                       *npz = folder_file(folder, "x.npz");
            for (int i = 0; i < LKI_COUNT(shapes); i++) {
                t[i] = some((lk_dtype)dtype, shapes[i]);
                assert_int_equal(lk_npy_write(npy, t[i]), LK_OK);
                assert_true(same(lk_npy_read(npy), t[i]));
            }
            assert_int_equal(lk_npz_write(npz, (lk_names){LKI_COUNT(shapes), names}, lk_tuple_from(LKI_COUNT(shapes), t)), LK_OK);
            good();
            lk_names found = lk_npz_names(npz);
            assert_int_equal(found.count, LKI_COUNT(shapes));
            for (int i = 0; i < found.count; i++) {
                assert_string_equal(found.item[i], names[i]);
                assert_true(same(lk_npz_read(npz, names[i]), t[i]));
            }
            good();
            assert_int_equal(folder_leftovers(folder), 0);
        }
}

TEST(the_only_one)
{
    LK_POOL {
        const char *npz = folder_file(folder, "only.npz");
        lk_tensor  *x = some(LK_F32, LK_SHAPE(2, 2));
        assert_int_equal(lk_npz_write(npz, LK_NAMES("x"), LK_TUPLE(x)), LK_OK);
        assert_true(same(lk_npz_read(npz, NULL), x));
        assert_int_equal(lk_npz_write(npz, LK_NAMES("x", "y"), LK_TUPLE(x, x)), LK_OK);
        assert_true(lk_poisoned(lk_npz_read(npz, NULL)));
        failed_with(LK_EINVAL, "only.npz has 2 arrays, so one must be named: \"x\", \"y\"");
        assert_true(lk_poisoned(lk_npz_read(npz, "z")));
        failed_with(LK_ENOTFOUND, "only.npz has no array \"z\"; it has \"x\", \"y\"");
        assert_int_equal(lk_npz_write(npz, (lk_names){0}, LK_TUPLE()), LK_OK);
        assert_int_equal(lk_npz_names(npz).count, 0);
        good();
        assert_true(lk_poisoned(lk_npz_read(npz, NULL)));
        failed_with(LK_EINVAL, "has 0 arrays, so one must be named: none");
    }
}

TEST(rows)
{
    LK_POOL {
        const char *npz = folder_file(folder, "rows.npz");
        lk_tensor  *x = some(LK_F32, LK_SHAPE(3, 2)), *y = some(LK_I64, LK_SHAPE(3)), *few = some(LK_F32, LK_SHAPE(2));
        assert_int_equal(lk_npz_write(npz, LK_NAMES("y_test", "x_train", "y_train", "x_test", "few"), LK_TUPLE(y, x, y, few, few)),
                         LK_OK);
        lk_dataset *d = lk_npz_dataset(npz);
        GIVES(d, 1, 2, 3, 4, 5, 6);
        lk_element_spec s = lk_dataset_element_spec(d);
        assert_true(s.count == 2 && s.dtype[0] == LK_F32 && s.shape[0].rank == 1 && s.dtype[1] == LK_I64 && s.shape[1].rank == 0);
        GIVES(lk_npz_dataset(npz, .names = LK_NAMES("y_train", "x_train", "y_test")), 1, 2, 3);
        GIVES(lk_npz_dataset(npz, .names = LK_NAMES("few"), .split = LK_TEST), 1, 2);
        REFUSED(lk_npz_dataset(npz, .split = LK_TEST), LK_ESHAPE, "tensor 1, [3], has 3 slices, tensor 0 has 2");
        REFUSED(lk_npz_dataset(npz, .names = LK_NAMES("x")), LK_ENOTFOUND,
                "rows.npz has no array \"x\"; it has \"y_test\", \"x_train\"");
        assert_int_equal(lk_npz_write(npz, LK_NAMES("y", "x"), LK_TUPLE(y, x)), LK_OK);
        GIVES(lk_npz_dataset(npz), 1, 2, 3, 4, 5, 6);
        REFUSED(lk_npz_dataset(npz, .split = LK_TEST), LK_ENOTFOUND,
                "has no x_test and y_test; it has \"y\", \"x\"; say which are meant with .names");
        assert_int_equal(lk_npz_write(npz, LK_NAMES("x"), LK_TUPLE(x)), LK_OK);
        REFUSED(lk_npz_dataset(npz), LK_ENOTFOUND, "has no x_train and y_train, and no x and y; it has \"x\"");
        REFUSED(lk_npz_dataset(npz, .split = (lk_split_of)2), LK_EINVAL, ".split = 2");
        REFUSED(lk_npz_dataset(), LK_EINVAL, "the name of the file is missing");
        REFUSED(lk_npz_dataset("/no/such/file.npz"), LK_ENOTFOUND, "/no/such/file.npz");
        lk_tensor *scalar = lk_scalar(1);
        assert_int_equal(lk_npz_write(npz, LK_NAMES("x", "y"), LK_TUPLE(scalar, scalar)), LK_OK);
        REFUSED(lk_npz_dataset(npz), LK_ESHAPE, "tensor 0 is a scalar and has no slices");
    }
}

TEST(mistakes)
{
    LK_POOL {
        const char *path = folder_file(folder, "mistake.npz");
        lk_tensor  *x = lk_scalar(1), *none = NULL;
        assert_int_equal(lk_npz_write(path, LK_NAMES("a"), LK_TUPLE(x, x)), LK_EINVAL);
        failed_with(LK_EINVAL, "lk_npz_write: 1 names for 2 tensors");
        assert_int_equal(lk_npz_write(path, LK_NAMES("a", "a"), LK_TUPLE(x, x)), LK_EINVAL);
        failed_with(LK_EINVAL, "names 0 and 1 are both \"a\"");
        assert_int_equal(lk_npz_write(path, LK_NAMES(""), LK_TUPLE(x)), LK_EINVAL);
        failed_with(LK_EINVAL, "name 0 is empty");
        assert_int_equal(lk_npy_write(path, none), LK_EINVAL);
        failed_with(LK_EINVAL, "lk_npy_write: a tensor is NULL");
        assert_int_equal(lk_npy_write(path, lk_reshape(x, LK_SHAPE(2))), LK_ESHAPE);
        lk_clear_error();
        assert_int_equal(lk_npy_write(NULL, x), LK_EINVAL);
        failed_with(LK_EINVAL, "the name of the file is missing");
        assert_int_equal(lk_npy_write("/no/such/folder/x.npy", x), LK_EIO);
        failed_with(LK_EIO, "/no/such/folder/x.npy");
        assert_int_equal(lk_npz_write("/no/such/folder/x.npz", LK_NAMES("a"), LK_TUPLE(x)), LK_EIO);
        failed_with(LK_EIO, "/no/such/folder/x.npz");
        assert_false(file_exists(path));
        assert_true(lk_poisoned(lk_npy_read("/no/such/file.npy")));
        failed_with(LK_ENOTFOUND, "/no/such/file.npy");
        write_file(path, "not a zip file", 14);
        assert_int_equal(lk_npz_names(path).count, 0);
        failed_with(LK_EFORMAT, "not a zip file");
        assert_true(lk_poisoned(lk_npy_read(path)));
        failed_with(LK_EFORMAT, "not an npy file");
    }
}

TEST(what_numpy_wrote)
{
    const char *golden = folder_or_skip("LOCKSTEP_GOLDEN");
    LK_POOL {
        char plain[1024], packed[1024], rows[1024];
        snprintf(plain, sizeof plain, "%s/files/arrays.npz", golden);
        snprintf(packed, sizeof packed, "%s/files/arrays_compressed.npz", golden);
        snprintf(rows, sizeof rows, "%s/files/rows_values.npz", golden);
        lk_names a = lk_npz_names(plain), b = lk_npz_names(packed);
        good();
        assert_true(a.count > 0 && a.count == b.count);
        for (int i = 0; i < a.count; i++) {
            assert_string_equal(a.item[i], b.item[i]);
            assert_true(same(lk_npz_read(plain, a.item[i]), lk_npz_read(packed, a.item[i])));
        }
        assert_int_equal(lk_dataset_cardinality(lk_npz_dataset(rows, .names = LK_NAMES("image", "label", "weight"))), 64);
        good();
    }
}

static lk_dataset *shuffled(void)
{
    return lk_dataset_batch(lk_dataset_shuffle(lk_npz_dataset(folder_file(folder, "saved.npz")), 3), 2);
}

TEST(saved)
{
    LK_POOL
        assert_int_equal(lk_npz_write(folder_file(folder, "saved.npz"), LK_NAMES("x", "y"),
                                      LK_TUPLE(some(LK_F32, LK_SHAPE(7, 2)), some(LK_I64, LK_SHAPE(7)))),
                         LK_OK);
    goes_on_anywhere(shuffled, 5);
}

static int writes_and_reads(void)
{
    int rows = 0;
    LK_POOL {
        const char *npz = folder_file(folder, "fault.npz");
        lk_tensor  *x = lk_zeros(LK_SHAPE(2), LK_F32);
        lk_names    names = LK_NAMES("x", "y");
        if (!lk_failed() && lk_npz_write(npz, names, LK_TUPLE(x, x)) == LK_OK && lk_npz_names(npz).count == 2) {
            lk_dataset *d = lk_npz_dataset(npz);
            if (d) rows = (int)lk_dataset_cardinality(d);
        }
    }
    return rows == 2 && !lk_failed();
}

TEST(every_allocation)
{
    assert_true(writes_and_reads());
    assert_true(check_every_allocation(writes_and_reads) > 10);
}

int main(int argc, char **argv)
{
    (void)argc, (void)argv;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(there_and_back),  cmocka_unit_test(the_only_one),     cmocka_unit_test(rows),
        cmocka_unit_test(mistakes),        cmocka_unit_test(what_numpy_wrote), cmocka_unit_test(saved),
        cmocka_unit_test(every_allocation)};
    char own[64];
    snprintf(own, sizeof own, "%s", folder_new());
    folder = own;
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    folder_remove(own);
    return failed;
}
