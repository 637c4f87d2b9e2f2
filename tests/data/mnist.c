/* MNIST and Fashion-MNIST: small files made here, the real ones if LOCKSTEP_DATA has them. */
#include "pipes.h"
#include <sys/stat.h>

static void write_idx(const char *folder, const char *name, int rows, int side, int first)
{
    char          path[512];
    unsigned char bytes[16 + 4 * 28 * 28] = {0, 0, 8, (unsigned char)(side ? 3 : 1), 0, 0, 0, (unsigned char)rows,
                                             0, 0, 0, (unsigned char)side,           0, 0, 0, (unsigned char)side};
    const int     header = side ? 16 : 8, size = side ? rows * side * side : rows;
    for (int i = 0; i < size; i++)
        bytes[header + i] = (unsigned char)(first + i);
    snprintf(path, sizeof path, "%s/%s", folder, name);
    write_file(path, bytes, (size_t)(header + size));
}

static const char *made_folder(int images, int labels, int side)
{
    static char top[256];
    char        folder[512];
    snprintf(top, sizeof top, "%s", temporary("data"));
    mkdir(top, 0777);
    for (int i = 0; i < 2; i++) {
        snprintf(folder, sizeof folder, "%s/%s", top, i ? "fashion-mnist" : "mnist");
        mkdir(folder, 0777);
        write_idx(folder, "train-images-idx3-ubyte", images, side, i);
        write_idx(folder, "train-labels-idx1-ubyte", labels, 0, 5 + i);
        write_idx(folder, "t10k-images-idx3-ubyte", 1, side, 9);
        write_idx(folder, "t10k-labels-idx1-ubyte", 1, 0, 9);
    }
    return top;
}

TEST(images_and_labels)
{
    LK_POOL {
        const char *folder = made_folder(4, 4, 28);
        lk_dataset *d = lk_mnist(.folder = folder), *scaled = lk_fashion_mnist(.folder = folder, .scaled = LK_ON);
        assert_int_equal(lk_dataset_cardinality(d), 4);
        assert_int_equal(lk_dataset_cardinality(lk_mnist(.folder = folder, .split = LK_TEST)), 1);
        lk_element_spec s = lk_dataset_element_spec(d), t = lk_dataset_element_spec(scaled);
        assert_true(s.count == 2 && s.dtype[0] == LK_U8 && s.shape[0].rank == 3 && s.dtype[1] == LK_I64 && s.shape[1].rank == 0);
        assert_true(t.count == 2 && t.dtype[0] == LK_F32 && t.shape[0].rank == 3 && t.shape[0].dim[2] == 1 && t.dtype[1] == LK_I64);
        int row = 0;
        LK_FOR_EACH(e, scaled) {
            lk_tensor *bytes = lk_zeros(LK_SHAPE(28, 28, 1), LK_U8);
            for (int i = 0; i < 784; i++)
                ((uint8_t *)bytes->data)[i] = (uint8_t)(1 + 784 * row + i);
            lk_tensor *want = lk_div(lk_cast(bytes, LK_F32), lk_scalar(255));
            assert_memory_equal(lk_data(want), lk_data(e.item[0]), 784 * sizeof(float));
            assert_true(lk_item(e.item[1]) == 6 + row++);
        }
        good();
        assert_int_equal(row, 4);
    }
}

TEST(where_it_looks)
{
    LK_POOL {
        char        before[256] = "";
        const char *data = getenv("LOCKSTEP_DATA"), *folder = made_folder(4, 4, 28);
        if (data) snprintf(before, sizeof before, "%s", data);
        setenv("LOCKSTEP_OFFLINE", "1", 1); /* tests/data/fetch.c fetches them */
        REFUSED(lk_mnist(.folder = "/no/such/folder"), LK_ENOTFOUND,
                "neither train-images-idx3-ubyte nor train-images-idx3-ubyte.gz is in /no/such/folder/mnist");
        setenv("LOCKSTEP_DATA", "/no/such/data", 1);
        REFUSED(lk_fashion_mnist(.split = LK_TEST), LK_ENOTFOUND, "/no/such/data/fashion-mnist");
        unsetenv("LOCKSTEP_DATA");
        setenv("XDG_CACHE_HOME", "/no/such/cache", 1);
        REFUSED(lk_mnist(), LK_ENOTFOUND, "put it at /no/such/cache/lockstep/mnist/train-images-idx3-ubyte.gz by hand");
        REFUSED(lk_mnist(.download = LK_OFF), LK_ENOTFOUND, "train-images-idx3-ubyte.gz is in /no/such/cache/lockstep/mnist;");
        unsetenv("XDG_CACHE_HOME");
        setenv("HOME", "/no/such/home", 1);
        REFUSED(lk_mnist(), LK_ENOTFOUND, "/no/such/home/.cache/lockstep/mnist");
        unsetenv("HOME");
        REFUSED(lk_mnist(), LK_ENOTFOUND, "no cache folder is known: neither XDG_CACHE_HOME nor HOME is set");
        unsetenv("LOCKSTEP_OFFLINE");
        setenv("LOCKSTEP_DATA", folder, 1);
        assert_int_equal(lk_dataset_cardinality(lk_mnist()), 4);
        if (*before) setenv("LOCKSTEP_DATA", before, 1);
        else unsetenv("LOCKSTEP_DATA");
        REFUSED(lk_mnist(.folder = folder, .split = (lk_split_of)5), LK_EINVAL, ".split = 5");
    }
}

static void refused_to_find(lk_status want, const char *words, const char *folder)
{
    char path[512];
    assert_int_equal(lk_mnist_find("mnist", path, sizeof path), want);
    if (!strstr(lk_error(), words)) fail_msg("\"%s\" is not in: %s", words, lk_error());
    assert_true(!strncmp(path, folder, strlen(folder)));
    lk_clear_error();
}

TEST(found_without_reading)
{
    LK_POOL {
        char        before[256] = "", path[512];
        const char *data = getenv("LOCKSTEP_DATA"), *folder = made_folder(4, 4, 28);
        if (data) snprintf(before, sizeof before, "%s", data);
        setenv("LOCKSTEP_DATA", folder, 1);
        assert_int_equal(lk_mnist_find("fashion-mnist", path, sizeof path), LK_OK);
        assert_string_equal(path + strlen(folder), "/fashion-mnist");
        assert_int_equal(lk_mnist_find("mnist", path, sizeof path), LK_OK);
        snprintf(path, sizeof path, "%s/mnist/train-labels-idx1-ubyte", folder);
        write_file(path, (const unsigned char[]){0, 0, 8, 1, 0, 0, 0, 4, 1, 2}, 10);
        refused_to_find(LK_EFORMAT, "train-labels-idx1-ubyte: damaged: it should have 12 bytes", folder);
        write_file(path, "", 0);
        refused_to_find(LK_EFORMAT, "train-labels-idx1-ubyte: damaged: it does not begin as an IDX file does", folder);
        remove(path);
        refused_to_find(LK_ENOTFOUND, "neither train-labels-idx1-ubyte nor", folder);
        assert_int_equal(lk_mnist_find("digits", path, sizeof path), LK_EINVAL);
        assert_string_equal(path, "");
        lk_clear_error();
        if (*before) setenv("LOCKSTEP_DATA", before, 1);
        else unsetenv("LOCKSTEP_DATA");
    }
}

TEST(files_that_do_not_fit)
{
    LK_POOL {
        REFUSED(lk_mnist(.folder = made_folder(4, 3, 28)), LK_EFORMAT, "4 images but 3 labels");
        REFUSED(lk_mnist(.folder = made_folder(4, 4, 27)), LK_EFORMAT, "it should be u8 [n, 28, 28]");
    }
}

TEST(the_real_ones)
{
    static const int    first[2][10] = {{5, 0, 4, 1, 9, 2, 1, 3, 1, 4}, {9, 0, 0, 3, 0, 2, 7, 2, 5, 5}};
    static const double mean[2] = {0.1307, 0.2860};
    folder_or_skip("LOCKSTEP_DATA"); /* the real data sets */
    for (int k = 0; k < 2; k++)
        LK_POOL {
            lk_dataset *d = k ? lk_fashion_mnist(.scaled = LK_ON) : lk_mnist(.scaled = LK_ON);
            double      sum = 0;
            int64_t     rows = 0;
            good();
            LK_FOR_EACH(e, lk_dataset_batch(d, 1000)) {
                sum += lk_item(lk_reduce_sum(e.item[0]));
                for (int64_t i = 0; i < 10 && !rows; i++)
                    assert_int_equal(((const int64_t *)lk_data(e.item[1]))[i], first[k][i]);
                rows += lk_dim(e.item[0], 0);
            }
            good();
            assert_int_equal(rows, 60000);
            assert_true(sum / 60000 / 784 > mean[k] - 0.0001 && sum / 60000 / 784 < mean[k] + 0.0001);
        }
}

TESTS(cmocka_unit_test(images_and_labels), cmocka_unit_test(where_it_looks), cmocka_unit_test(found_without_reading),
      cmocka_unit_test(files_that_do_not_fit), cmocka_unit_test(the_real_ones))
