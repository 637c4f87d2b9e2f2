/* Hostile files: the known classes of attacks on readers of such formats, against every reader they apply to. Each file is refused
 * soon, with an error that says what is wrong, without memory beyond what the file could contain, and nothing is leaked.
 *
 *     WRAPS    a product of sizes that wraps, or is far beyond the file       DEEP     nesting without end
 *     OUTSIDE  an offset that points out of the file                          TWICE    one key, two values
 *     BEYOND   a length of a header or record that the file has not           BOMB     a few bytes that claim to unpack to many
 *     ESCAPE   a name that leads out of its folder, a link to another file
 *
 * tests/fuzz feeds the same readers with random files; tests/unit has more of each format. */
#include "check.h"
#include "fault/hostile_files.h"
#include "folder.h"
#include "format/h5.h"
#include "format/h5_helper.h"
#include "format/idx.h"
#include "format/image.h"
#include "format/safetensors.h"
#include "source_folder.h"
#include <lockstep.h>
#include <time.h>

static const char *folder;

/* ---- readers, as a user calls them where there is a call --------------------------------------------------------------------- */

static void read_idx(const char *path, const file *f)
{
    lki_array a;
    (void)f;
    if (lki_idx_read(path, &a) == LK_OK) lki_array_free(&a);
}

static void read_npy(const char *path, const file *f) { (void)lk_npy_read(path), (void)f; }
static void read_npz(const char *path, const file *f) { (void)lk_npz_read(path, NULL), (void)f; }

static void read_safetensors(const char *path, const file *f)
{
    lki_arrays a;
    (void)f;
    if (lki_safetensors_read(path, &a) == LK_OK) lki_arrays_free(&a);
}

static void read_keras(const char *path, const file *f) { (void)lk_model_load(path), (void)f; }
static void read_json(const char *path, const file *f) { (void)lk_model_from_json_file(path), (void)f; }

static void read_all(lk_dataset *d)
{
    if (d)
        LK_FOR_EACH(e, d) {}
}

static void read_tfrecord(const char *path, const file *f) { read_all(lk_tfrecord_dataset(LK_FILES(path))), (void)f; }
static void read_csv(const char *path, const file *f) { read_all(lk_csv_dataset(LK_FILES(path), .label = "label")), (void)f; }
static void read_numbers(const char *path, const file *f) { read_all(lk_csv_dataset(LK_FILES(path))), (void)f; }

static void read_bundle(const char *path, const file *f)
{
    char       prefix[512];
    lki_bundle b;
    lki_array  a;
    (void)f;
    snprintf(prefix, sizeof prefix, "%.*s", (int)(strlen(path) - strlen(".index")), path);
    const char *data = folder_file(folder, "a.data-00000-of-00001");
    assert_int_equal(lki_file_write(data, 1, &(lki_bytes){(uint8_t[]){1, 2, 3, 4}, 4}), LK_OK);
    if (lki_bundle_open(prefix, &b) == LK_OK) {
        for (int i = 0; i < b.count; i++)
            if (lki_bundle_read(&b, i, &a) == LK_OK) lki_array_free(&a);
        lki_bundle_close(&b);
    }
}

static void read_h5(const char *path, const file *f)
{
    lki_h5 h5;
    (void)path;
    if (!lki_h5_helper()) lki_fail(LK_EUNSUPPORTED, "no helper");
    else if (lki_h5_read("a.h5", f->data, f->size, &h5) == LK_OK) lki_h5_free(&h5);
}

static void read_picture(const char *path, const file *f)
{
    lki_image i;
    (void)path;
    if (lki_image_decode("a.png", f->data, f->size, 3, &i) == LK_OK) lki_image_free(&i);
}

/* ---- all of them ------------------------------------------------------------------------------------------------------------- */

typedef struct hostile {
    const char *class;
    void (*read)(const char *path, const file *f);
    const char *name;
    file (*make)(void);
    lk_status   code;
    const char *says;
} hostile;

static const hostile all[] = {
    {"WRAPS", read_idx, "a-ubyte", idx_wraps, LK_EFORMAT, "its product of sizes is too large"},
    {"WRAPS", read_idx, "a-ubyte", idx_wraps_to_zero, LK_EFORMAT, "its product of sizes is too large"},
    {"BEYOND", read_idx, "a-ubyte", idx_beyond, LK_EFORMAT, "0 bytes after the header: shape [1000]"},
    {"BEYOND", read_idx, "a-ubyte", idx_many_axes, LK_EUNSUPPORTED, "255 axes: at most 8"},
    {"BOMB", read_idx, "a-ubyte.gz", idx_bomb, LK_EFORMAT, "bytes after the header: shape [65536, 65536]"},
    {"WRAPS", read_npy, "a.npy", npy_wraps, LK_EFORMAT, "its product of sizes is too large"},
    {"WRAPS", read_npy, "a.npy", npy_wraps_in_bytes, LK_EFORMAT, "too large"},
    {"WRAPS", read_npy, "a.npy", npy_long_number, LK_EFORMAT, "a smaller size expected"},
    {"BEYOND", read_npy, "a.npy", npy_beyond, LK_EFORMAT, "a header of 65535 bytes at offset 10 does not fit"},
    {"BEYOND", read_npy, "a.npy", npy_far_beyond, LK_EFORMAT, "a header of 4294967280 bytes at offset 12 does not fit"},
    {"TWICE", read_npy, "a.npy", npy_twice, LK_EFORMAT, "one each of descr, fortran_order and shape"},
    {"ESCAPE", read_npy, "a.npy", npy_objects, LK_EUNSUPPORTED, "elements of type '|O'"},
    {"WRAPS", read_safetensors, "a.safetensors", safetensors_wraps, LK_EFORMAT, "its product of sizes is too large"},
    {"WRAPS", read_safetensors, "a.safetensors", safetensors_wraps_in_bytes, LK_EFORMAT, "too large"},
    {"WRAPS", read_safetensors, "a.safetensors", safetensors_negative, LK_EFORMAT, "\"shape\" should have sizes, 0 and more"},
    {"OUTSIDE", read_safetensors, "a.safetensors", safetensors_outside, LK_EFORMAT, "offsets 0 to 100; there are 8 bytes"},
    {"OUTSIDE", read_safetensors, "a.safetensors", safetensors_far_outside, LK_EFORMAT, "[begin, end]"},
    {"OUTSIDE", read_safetensors, "a.safetensors", safetensors_backwards, LK_EFORMAT, "offsets 8 to 4"},
    {"OUTSIDE", read_safetensors, "a.safetensors", safetensors_overlap, LK_EFORMAT, "they overlap"},
    {"OUTSIDE", read_safetensors, "a.safetensors", safetensors_hole, LK_EFORMAT, "there is a hole"},
    {"OUTSIDE", read_safetensors, "a.safetensors", safetensors_behind, LK_EFORMAT, "the last array ends at offset 4; there are 8"},
    {"BEYOND", read_safetensors, "a.safetensors", safetensors_beyond, LK_EFORMAT,
     "a header of 1048576 bytes at offset 8: the file has 10"},
    {"BEYOND", read_safetensors, "a.safetensors", safetensors_far_beyond, LK_EFORMAT, "a header of 18446744073709551615 bytes"},
    {"BEYOND", read_safetensors, "a.safetensors", safetensors_short, LK_EFORMAT, "3 bytes: a safetensors file begins with 8"},
    {"BEYOND", read_safetensors, "a.safetensors", safetensors_many_axes, LK_EUNSUPPORTED, "9 axes: at most 8"},
    {"TWICE", read_safetensors, "a.safetensors", safetensors_twice, LK_EFORMAT, "the key \"a\" twice"},
    {"TWICE", read_safetensors, "a.safetensors", safetensors_twice_in_metadata, LK_EFORMAT, "the key \"a\" twice"},
    {"DEEP", read_safetensors, "a.safetensors", safetensors_deep, LK_EFORMAT, "more than 64 levels of brackets"},
    {"ESCAPE", read_safetensors, "a.safetensors", safetensors_other_type, LK_EUNSUPPORTED, "elements of type \"F8_E4M3\""},
    {"OUTSIDE", read_npz, "a.npz", zip_outside, LK_EFORMAT, "no member at offset 4294967280"},
    {"OUTSIDE", read_npz, "a.npz", zip_directory_outside, LK_EFORMAT, "directory at offset 4042322160 does not fit"},
    {"BEYOND", read_npz, "a.npz", zip_beyond, LK_EFORMAT, "does not fit into the"},
    {"BEYOND", read_npz, "a.npz", zip_many_members, LK_EFORMAT, "65535 members in a directory of"},
    {"BOMB", read_npz, "a.npz", zip_bomb, LK_EFORMAT, "10 bytes cannot unpack to 4294967294"},
    {"BOMB", read_npz, "a.npz", zip_overlap, LK_EFORMAT, "they overlap"},
    {"TWICE", read_npz, "a.npz", zip_twice, LK_EFORMAT, "two members are called \"a.npy\""},
    {"ESCAPE", read_npz, "a.npz", zip_escape, LK_EFORMAT, "CRC-32"}, /* a name like any other */
    {"ESCAPE", read_keras, "a.keras", zip_two_names_in_one, LK_EFORMAT, "has a zero byte"},
    {"ESCAPE", read_keras, "a.keras", keras_escape, LK_EFORMAT, "there is no config.json in it"},
    {"BOMB", read_keras, "a.keras", keras_bomb, LK_EFORMAT, "config.json unpacks to 1073741824 bytes"},
    {"TWICE", read_keras, "a.keras", zip_twice, LK_EFORMAT, "two members are called"},
    {"WRAPS", read_tfrecord, "a.tfrecord", tfrecord_wraps, LK_EFORMAT, "the record at byte 0 is cut off"},
    {"BEYOND", read_tfrecord, "a.tfrecord", tfrecord_beyond, LK_EFORMAT, "the record at byte 0 is cut off"},
    {"BOMB", read_tfrecord, "a.tfrecord", tfrecord_bomb, LK_EFORMAT, "the record at byte 0 is cut off"},
    {"WRAPS", read_bundle, "a.index", bundle_wraps, LK_EFORMAT, "its product of sizes is too large"},
    {"WRAPS", read_bundle, "a.index", bundle_wraps_in_bytes, LK_EFORMAT, "too large"},
    {"WRAPS", read_bundle, "a.index", bundle_negative, LK_EFORMAT, "an axis of negative or unknown size"},
    {"OUTSIDE", read_bundle, "a.index", bundle_outside, LK_EFORMAT,
     "4 bytes at offset 18446744073709551612 do not fit into the 4 bytes"},
    {"OUTSIDE", read_bundle, "a.index", bundle_index_outside, LK_EFORMAT, "does not fit into the"},
    {"BEYOND", read_bundle, "a.index", bundle_beyond, LK_EFORMAT, "4398046511104 bytes at offset 0 do not fit into the 4 bytes"},
    {"BEYOND", read_bundle, "a.index", bundle_many_axes, LK_EFORMAT, "more than 8 axes"},
    {"ESCAPE", read_h5, "a.h5", h5_escape, LK_EFORMAT, "a link to another file, which is not followed"},
    {"ESCAPE", read_h5, "a.h5", h5_escape_by_soft_link, LK_EFORMAT, "cannot be opened"},
    {"ESCAPE", read_h5, "a.h5", h5_data_elsewhere, LK_EFORMAT, "its data is in another file, which is not followed"},
    {"ESCAPE", read_h5, "a.h5", h5_virtual, LK_EFORMAT, "a virtual dataset"},
    {"WRAPS", read_h5, "a.h5", h5_wraps, LK_EFORMAT, "too much for the size of the file"},
    {"BOMB", read_h5, "a.h5", h5_bomb, LK_EFORMAT, "too much for the size of the file"},
    {"BEYOND", read_h5, "a.h5", h5_beyond, LK_EFORMAT, "not an HDF5 file, or damaged"},
    {"OUTSIDE", read_h5, "a.h5", h5_outside, LK_EFORMAT, "a.h5"},
    {"WRAPS", read_picture, "a.png", png_wraps, LK_EFORMAT, "2147483647 x 2147483647 pixels"},
    {"BOMB", read_picture, "a.png", png_bomb, LK_EFORMAT, "10 bytes cannot unpack to 81009000"},
    {"BEYOND", read_picture, "a.png", png_beyond, LK_EFORMAT, "the chunk at offset 33 does not fit"},
    {"WRAPS", read_picture, "a.jpg", jpeg_wraps, LK_EFORMAT, "65500 x 65500 pixels"},
    {"BOMB", read_picture, "a.jpg", jpeg_bomb, LK_EFORMAT, "claims 9000 x 9000 pixels: too many for a JPEG file of 28 bytes"},
    {"DEEP", read_json, "a.json", deep_json, LK_EFORMAT, "more than 64 levels of brackets"},
    {"TWICE", read_json, "a.json", json_twice, LK_EFORMAT, "the key \"config\" twice"},
    {"WRAPS", read_json, "a.json", json_wraps, LK_EUNSUPPORTED, "4611686018427387904"},
    {"BEYOND", read_numbers, "a.csv", csv_open_quote, LK_EFORMAT, "a.csv:2:3: this quote is not closed"},
    {"WRAPS", read_numbers, "a.csv", csv_large_number, LK_EFORMAT, "1e999"},
    {"TWICE", read_csv, "a.csv", csv_twice, LK_EINVAL, "two columns of that name"},
};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int refused(const hostile *h, int i)
{
    file        f = h->make();
    const char *path = folder_file(folder, h->name);
    assert_int_equal(lki_file_write(path, 1, &(lki_bytes){f.data, f.size}), LK_OK);
    lk_clear_error();
    const double  begin = now();
    const int64_t before = lki_memory_in_use();
    LK_POOL
        h->read(path, &f);
    const bool good = lk_error_code() == h->code && strstr(lk_error(), h->says), soon = now() - begin < 5;
    const bool missing =
        lk_error_code() == LK_EUNSUPPORTED && (strstr(lk_error(), "libturbojpeg") || strstr(lk_error(), "no helper"));
    if (missing) print_message("%d, %s, %s: not tried: %s\n", i, h->class, h->name, lk_error());
    else if (!good)
        print_error("%d, %s, %s: %s \"%s\", not \"%s\"\n", i, h->class, h->name, lk_status_name(lk_error_code()), lk_error(),
                    h->says);
    if (!soon) print_error("%d, %s, %s: took %g s\n", i, h->class, h->name, now() - begin);
    if (lki_memory_in_use() != before)
        print_error("%d, %s, %s: %lld bytes are not given back\n", i, h->class, h->name, (long long)(lki_memory_in_use() - before));
    const int bad = (!good && !missing) || !soon || lki_memory_in_use() != before;
    lk_clear_error();
    remove(path);
    return bad;
}

TEST(hostile_files)
{
    int  bad = 0;
    char own[64];
    snprintf(own, sizeof own, "%s", folder_new());
    folder = own;
    file warm = idx_wraps(); /* what the library makes once for the process it makes now */
    assert_int_equal(lki_file_write(folder_file(folder, "warm.json"), 1, &(lki_bytes){warm.data, warm.size}), LK_OK);
    LK_POOL
        read_json(folder_file(folder, "warm.json"), &warm);
    for (int i = 0; i < LKI_COUNT(all); i++)
        bad += refused(&all[i], i);
    folder_remove(folder);
    assert_int_equal(bad, 0);
}

/* Members are read by name and never written anywhere: a name with dots in it is a name. */
TEST(names_that_lead_out_write_nothing)
{
    char own[64];
    snprintf(own, sizeof own, "%s", folder_new());
    folder = own;
    LK_POOL {
        file        f = zip_escape();
        const char *path = folder_file(folder, "a.npz");
        assert_int_equal(lki_file_write(path, 1, &(lki_bytes){f.data, f.size}), LK_OK);
        const lk_names names = lk_npz_names(path);
        assert_int_equal(names.count, 1);
        assert_string_equal(names.item[0], "../../../etc/passwd");
    }
    lk_clear_error();
    int  files = 0;
    DIR *d = opendir(folder);
    for (const struct dirent *e; d && (e = readdir(d));)
        files += e->d_name[0] != '.';
    closedir(d);
    assert_int_equal(files, 1);
    folder_remove(folder);
}

/* libhdf5 (1.10.8) goes round in circles in this one; another may not. Either way it is refused, and soon. */
TEST(a_file_without_end)
{
    lki_bytes f;
    lki_h5    h5;
    if (!lki_h5_helper()) skip();
    assert_int_equal(lki_file_read(LK_SOURCE_FOLDER "/tests/fuzz/corpus/h5/circles", &f), LK_OK);
    lki_h5_set_deadline(1000);
    const double    begin = now();
    const lk_status status = lki_h5_read("a.h5", f.data, f.size, &h5);
    lki_h5_set_deadline(0);
    assert_true(status == LK_EDEADLINE || status == LK_EFORMAT);
    assert_true(now() - begin < 5);
    lk_clear_error();
    lki_bytes_free(&f);
}

TESTS(cmocka_unit_test(hostile_files), cmocka_unit_test(a_file_without_end), cmocka_unit_test(names_that_lead_out_write_nothing))
