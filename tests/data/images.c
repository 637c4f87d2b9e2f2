/* Pictures: one file, and folders of them: classes, order, sizes, fractions, threads, and damaged files. */
#include "data/data.h"
#include "folder.h"
#include "saved.h"
#include <dlfcn.h>

static const char *folder;

static const char *in(const char *name) { return folder_file(folder, name); }

/* A picture of one colour. */
static lk_tensor *plain(int64_t height, int64_t width, int channels, int red)
{
    lk_tensor *t = lk_zeros(LK_SHAPE(height, width, channels), LK_U8);
    for (int64_t i = 0; i < lk_size(t); i++)
        ((uint8_t *)t->data)[i] = (uint8_t)(red + i % channels);
    return t;
}

static void put(const char *name, int red)
{
    LK_POOL
        assert_int_equal(lk_image_write(in(name), plain(3, 2, 3, red)), LK_OK);
}

/* By the library's own hand, which is there when reading is; false: it is not. */
static int put_jpeg(const char *name, int grey)
{
    void *library = dlopen("libturbojpeg.so.0", RTLD_NOW);
    void *(*init)(void);
    int (*compress)(void *, const unsigned char *, int, int, int, int, unsigned char **, unsigned long *, int, int, int);
    int (*destroy)(void *);
    void (*release)(unsigned char *);
    unsigned char pixels[64], *jpeg = NULL;
    unsigned long size = 0;
    if (!library) return 0;
    *(void **)&init = dlsym(library, "tjInitCompress");
    *(void **)&compress = dlsym(library, "tjCompress2");
    *(void **)&destroy = dlsym(library, "tjDestroy");
    *(void **)&release = dlsym(library, "tjFree");
    memset(pixels, grey, sizeof pixels);
    void *handle = init();
    assert_int_equal(compress(handle, pixels, 8, 0, 8, 6, &jpeg, &size, 3, 100, 0), 0); /* grey */
    write_file(in(name), jpeg, size);
    release(jpeg);
    destroy(handle);
    return 1;
}

/* cats: three, dogs: two; an empty class; files that are none of it. */
static void make_zoo(void)
{
    static const char *const folders[] = {"zoo", "zoo/dogs", "zoo/cats", "zoo/ants", "zoo/.git", "zoo/cats/kittens"};
    for (int i = 0; i < LKI_COUNT(folders); i++)
        mkdir(in(folders[i]), 0777);
    put("zoo/dogs/b.png", 40);
    put("zoo/dogs/a.PNG", 30);
    put("zoo/cats/9.png", 20);
    put("zoo/cats/10.png", 10);
    put("zoo/cats/x.jpg", 25); /* what it is, its first bytes tell */
    write_file(in("zoo/cats/notes.txt"), "cats", 4);
    write_file(in("zoo/cats/.hidden.png"), "", 0);
    write_file(in("zoo/README"), "", 0);
}

static lk_dataset *zoo(void) { return lk_image_folder(in("zoo"), 6, 4, .parallel = 2); }

static void silence(const char *text, void *user) { (void)text, (void)user; }

/* Pictures may be replaced between two epochs. */
TEST(files_are_not_read_before_their_time)
{
    make_zoo();
    LK_POOL
        assert_null(lki_iterator_early(lk_dataset_batch(zoo(), 2)));
    good();
}

TEST(a_folder)
{
    LK_POOL {
        static const struct {
            int red, label;
        } want[] = {
            {10, 1}, {20, 1}, {25, 1}, {30, 2}, {40, 2}}; /* names by their bytes: "10" before "9", "a.PNG" before "b.png" */
        log_text[0] = 0;
        lk_set_log(keep_log, NULL);
        lk_dataset *d = zoo();
        lk_set_log(silence, NULL);
        good();
        assert_non_null(strstr(log_text, "lk_image_folder: 3 files in "));
        assert_non_null(strstr(log_text, "/zoo are not .png, .jpg or .jpeg and are skipped; the first is "));
        assert_non_null(strstr(log_text, "zoo/README\n")); /* sorted by bytes */
        lk_names names = lk_class_names(lk_dataset_batch(d, 2));
        assert_int_equal(names.count, 3);
        assert_string_equal(names.item[0], "ants");
        assert_string_equal(names.item[1], "cats");
        assert_string_equal(names.item[2], "dogs");
        lk_element_spec s = lk_dataset_element_spec(d);
        assert_true(s.count == 2 && s.dtype[0] == LK_F32 && s.shape[0].rank == 3 && s.shape[0].dim[0] == 6 &&
                    s.shape[0].dim[1] == 4 && s.shape[0].dim[2] == 3 && s.dtype[1] == LK_I64 && s.shape[1].rank == 0);
        assert_int_equal(lk_dataset_cardinality(d), LKI_COUNT(want));
        int n = 0;
        LK_FOR_EACH(e, d) {
            for (int i = 0; i < 6 * 4 * 3; i++)
                assert_true(((const float *)lk_data(e.item[0]))[i] == (float)(want[n].red + i % 3));
            assert_true(lk_item(e.item[1]) == want[n++].label);
        }
        good();
        assert_int_equal(n, LKI_COUNT(want));
        LK_FOR_EACH(e, lk_dataset_batch(lk_image_folder(in("zoo"), 1, 1, .channels = 1), 5)) { /* grey */
            assert_int_equal(lk_dim(e.item[0], 3), 1);
            for (int i = 0; i < 5; i++)
                assert_true(((const float *)lk_data(e.item[0]))[i] == (float)(want[i].red + 1));
        }
        good();
    }
}

/* Any number of threads, any order: a picture and its label stay together. */
TEST(in_any_pipeline)
{
    LK_POOL
        for (int threads = 1; threads < 9; threads *= 2) {
            lk_dataset *d = lk_image_folder(in("zoo"), 2, 2, .parallel = threads);
            for (int k = 0; k < 3; k++) {
                int         rows = 0, sum = 0;
                lk_dataset *shuffled = lk_dataset_shuffle(d, 100);
                if (k == 1) shuffled = lk_dataset_cache(shuffled);
                if (k == 2) shuffled = lk_dataset_prefetch(shuffled, 2);
                LK_FOR_EACH(e, lk_dataset_batch(lk_dataset_repeat(shuffled, 2), 4))
                    for (int64_t i = 0; i < lk_dim(e.item[0], 0); i++, rows++) {
                        const float   red = ((const float *)lk_data(e.item[0]))[i * 12];
                        const int64_t label = ((const int64_t *)lk_data(e.item[1]))[i];
                        assert_int_equal(label, red < 30 ? 1 : 2);
                        sum += (int)red;
                    }
                good();
                assert_int_equal(rows, 10);
                assert_int_equal(sum, 2 * (10 + 20 + 25 + 30 + 40));
            }
        }
}

TEST(shares)
{
    LK_POOL {
        mkdir(in("many"), 0777);
        mkdir(in("many/a"), 0777);
        for (int i = 0; i < 20; i++) {
            char name[32];
            snprintf(name, sizeof name, "many/a/%02d.png", i);
            put(name, i);
        }
        int previous[20] = {0}, differ = 0;
        for (int seed = 0; seed < 3; seed++) {
            int       seen[20] = {0}, test[20] = {0}, count[2] = {0};
            double    last = -1;
            lk_number number = seed ? LK_NUMBER(seed + 1) : (lk_number){0};
            for (int split = 0; split < 2; split++, last = -1)
                LK_FOR_EACH(
                    e, lk_image_folder(in("many"), 1, 1, .validation_split = 0.25, .split = (lk_split_of)split, .seed = number)) {
                    const float red = *(const float *)lk_data(e.item[0]);
                    assert_true(red > last); /* the order stays */
                    last = red;
                    seen[(int)red]++;
                    test[(int)red] += split;
                    count[split]++;
                }
            good();
            assert_int_equal(count[0], 15);
            assert_int_equal(count[1], 5);
            for (int i = 0; i < 20; i++) {
                assert_int_equal(seen[i], 1);
                differ += seed && previous[i] != test[i];
                previous[i] = test[i];
            }
        }
        assert_true(differ > 0);
        REFUSED(lk_image_folder(in("many"), 1, 1, .validation_split = 0.01), LK_EINVAL, "leaves one of the two parts empty");
        REFUSED(lk_image_folder(in("many"), 1, 1, .validation_split = 1), LK_EINVAL, ".validation_split = 1;");
        REFUSED(lk_image_folder(in("many"), 1, 1, .split = LK_TEST), LK_EINVAL, ".validation_split = 0;");
    }
}

TEST(jpeg)
{
    LK_POOL {
        mkdir(in("photos"), 0777);
        mkdir(in("photos/grey"), 0777);
        put("photos/grey/a.png", 99);
        if (!put_jpeg("photos/grey/b.jpeg", 120)) {
            printf("libturbojpeg.so.0 is not installed (Debian: libturbojpeg0): no JPEG file is read\n");
            break;
        }
        int n = 0;
        LK_FOR_EACH(e, lk_image_folder(in("photos"), 2, 2))
            if (n++) assert_true(*(const float *)lk_data(e.item[0]) == 120);
        good();
        assert_int_equal(n, 2);
        lk_tensor *t = lk_image_read(in("photos/grey/b.jpeg"), 0);
        good();
        assert_true(lk_dim(t, 0) == 8 && lk_dim(t, 1) == 8 && lk_dim(t, 2) == 1 && *(const uint8_t *)lk_data(t) == 120);
    }
}

static void fails(lk_dataset *d, lk_status code, const char *words)
{
    lk_tuple     e;
    lk_iterator *it = lk_iterator_of(d);
    while (lk_next(it, &e)) {}
    failed_with(code, words);
    lk_free(it);
}

TEST(what_is_broken)
{
    LK_POOL {
        mkdir(in("broken"), 0777);
        mkdir(in("broken/a"), 0777);
        for (int i = 0; i < 12; i++) {
            char name[32];
            snprintf(name, sizeof name, "broken/a/%02d.png", i);
            put(name, i);
        }
        write_file(in("broken/a/05.png"), "not a picture", 13);
        write_file(in("broken/a/07.png"), "\x89PNG\r\n\x1a\n", 8);
        for (int threads = 1; threads < 17; threads *= 4) {
            lk_dataset *d = lk_image_folder(in("broken"), 2, 2, .parallel = threads);
            for (int again = 0; again < 5; again++) /* the first of them, whichever thread is faster */
                fails(lk_dataset_batch(d, 12), LK_EFORMAT, "broken/a/05.png: neither a PNG nor a JPEG image");
            fails(lk_dataset_skip(d, 6), LK_EFORMAT, "broken/a/07.png");
        }
        lk_dataset *d = lk_image_folder(in("broken"), 2, 2);
        remove(in("broken/a/00.png"));
        fails(d, LK_ENOTFOUND, "broken/a/00.png");
        REFUSED(lk_image_folder(in("nowhere"), 2, 2), LK_ENOTFOUND, "nowhere: No such file or directory");
        mkdir(in("hollow"), 0777);
        REFUSED(lk_image_folder(in("hollow"), 2, 2), LK_ENOTFOUND, "no pictures in ");
        mkdir(in("hollow/class"), 0777);
        write_file(in("hollow/class/a.gif"), "GIF89a", 6);
        REFUSED(lk_image_folder(in("hollow"), 2, 2), LK_ENOTFOUND, "/hollow/<class>/<name>.png, .jpg or .jpeg");
        REFUSED(lk_image_folder(in("zoo/README"), 2, 2), LK_EIO, "README: Not a directory");
    }
}

TEST(mistakes)
{
    LK_POOL {
        REFUSED(lk_image_folder(), LK_EINVAL, "lk_image_folder: no .folder");
        REFUSED(lk_image_folder(in("zoo")), LK_EINVAL, ".height = 0, .width = 0; pictures are resized to it");
        REFUSED(lk_image_folder(in("zoo"), 2, 1 << 20), LK_EINVAL, ".width = 1048576");
        REFUSED(lk_image_folder(in("zoo"), 2, 2, .channels = 2), LK_EINVAL, ".channels = 2; it must be 1 (grey) or 3 (colour)");
        REFUSED(lk_image_folder(in("zoo"), 2, 2, .parallel = -1), LK_EINVAL, ".parallel = -1; it must be 1 to 256");
        REFUSED(lk_image_folder(in("zoo"), 2, 2, .split = (lk_split_of)9), LK_EINVAL, ".split = 9");
        REFUSED(lk_image_folder(in("zoo"), 2, 2, .seed = LK_NUMBER(0.5)), LK_EINVAL, ".seed = 0.5");
    }
}

TEST(one_picture)
{
    LK_POOL {
        const char *path = in("one.png");
        for (int channels = 1; channels < 5; channels++) {
            lk_tensor *t = plain(5, 7, channels, 100);
            if (channels == 2) {
                assert_int_equal(lk_image_write(path, t), LK_ESHAPE);
                failed_with(LK_ESHAPE,
                            "lk_image_write: u8 [5, 7, 2]; a picture is u8 or f32, [height, width] or [height, width, 1, 3 or 4]");
                continue;
            }
            assert_int_equal(lk_image_write(path, t), LK_OK);
            lk_tensor *back = lk_image_read(path, 0);
            good();
            assert_true(lk_dim(back, 0) == 5 && lk_dim(back, 1) == 7 && lk_dim(back, 2) == channels);
            assert_memory_equal(lk_data(back), lk_data(t), (size_t)lk_size(t));
        }
        lk_tensor *grey = lk_tensor_of(LK_SHAPE(2, 3), -5, 0.4, 0.5, 254.5, 255, 1e9);
        assert_int_equal(lk_image_write(path, grey), LK_OK);
        lk_tensor *back = lk_image_read(path, 1);
        assert_memory_equal(lk_data(back), "\x00\x00\x01\xff\xff\xff", 6);
        assert_int_equal(lk_dim(lk_image_read(path, 3), 2), 3);
        assert_true(lk_poisoned(lk_image_read(path, 2)));
        failed_with(LK_EINVAL, "lk_image_read: 2 channels");
        assert_true(lk_poisoned(lk_image_read("/no/such.png", 0)));
        failed_with(LK_ENOTFOUND, "/no/such.png");
        assert_true(lk_poisoned(lk_image_read(in("zoo/README"), 0)));
        failed_with(LK_EFORMAT, "zoo/README: neither");
        assert_int_equal(lk_image_write("/no/such/folder.png", grey), LK_EIO);
        failed_with(LK_EIO, "/no/such/folder.png");
        assert_int_equal(lk_image_write(path, lk_zeros(LK_SHAPE(0, 3), LK_U8)), LK_ESHAPE);
        failed_with(LK_ESHAPE, "u8 [0, 3]");
        assert_int_equal(lk_image_write(path, lk_zeros(LK_SHAPE(2, 3), LK_I64)), LK_ESHAPE);
        failed_with(LK_ESHAPE, "i64 [2, 3]");
        assert_int_equal(lk_image_write(path, NULL), LK_EINVAL);
        failed_with(LK_EINVAL, "the picture is NULL");
    }
}

static lk_dataset *shuffled_zoo(void) { return lk_dataset_shuffle(lk_dataset_repeat(zoo(), 2), 4); }

TEST(saved)
{
    goes_on_anywhere(zoo, 6);
    goes_on_anywhere(shuffled_zoo, 11);
    assert_true(goes_on_after(shuffled_zoo, 1) < 100); /* by reference */
}

static int reads_it_all(void)
{
    int rows = 0;
    LK_POOL {
        lk_dataset *d = zoo();
        if (d)
            LK_FOR_EACH(e, lk_dataset_batch(d, 3))
                rows += (int)lk_dim(e.item[0], 0);
    }
    return rows == 5 && !lk_failed();
}

TEST(every_allocation)
{
    assert_true(reads_it_all());
    assert_true(check_every_allocation(reads_it_all) > 10);
}

int main(int argc, char **argv)
{
    (void)argc, (void)argv;
    const struct CMUnitTest tests[] = {cmocka_unit_test(files_are_not_read_before_their_time),
                                       cmocka_unit_test(a_folder),
                                       cmocka_unit_test(in_any_pipeline),
                                       cmocka_unit_test(shares),
                                       cmocka_unit_test(jpeg),
                                       cmocka_unit_test(what_is_broken),
                                       cmocka_unit_test(mistakes),
                                       cmocka_unit_test(one_picture),
                                       cmocka_unit_test(saved),
                                       cmocka_unit_test(every_allocation)};
    char                    own[64];
    snprintf(own, sizeof own, "%s", folder_new());
    folder = own;
    lk_set_log(silence, NULL);
    make_zoo();
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    folder_remove(own);
    return failed;
}
