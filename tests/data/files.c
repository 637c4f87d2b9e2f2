/* Records in files: TFRecords, lines, records of a fixed length, plain and packed; files that TensorFlow wrote; malformed files. */
#include "format/crc32.h"
#include "format/deflate.h"
#include "format/npy.h"
#include "format/stream.h"
#include "json.h"
#include "pipes.h"
#include <dlfcn.h>

static lk_tensor *bytes_of(const char *text) { return lk_tensor_from(LK_SHAPE((int64_t)strlen(text)), LK_U8, text); }

static int is_text(const lk_tensor *t, const char *text)
{
    return lk_tensor_dtype(t) == LK_U8 && lk_size(t) == (int64_t)strlen(text) && memcmp(lk_data(t), text, strlen(text)) == 0;
}

static void texts_are(lk_dataset *d, int count, const char *const *one_based)
{
    int n = 0;
    LK_FOR_EACH(e, d) {
        n++;
        assert_true(n <= count);
        if (!is_text(e.item[0], one_based[n])) print_error("record %d is not \"%s\"\n", n, one_based[n]);
        assert_true(is_text(e.item[0], one_based[n]));
    }
    good();
    assert_int_equal(n, count);
}
#define TEXTS(d, ...) texts_are(d, (int)LKI_N(const char *, "", __VA_ARGS__) - 1, (const char *const[]){"", __VA_ARGS__})

static void fails(lk_dataset *d, lk_status code, const char *words)
{
    lk_tuple     e;
    lk_iterator *it = lk_iterator_of(d);
    while (lk_next(it, &e)) {}
    failed_with(code, words);
    lk_free(it);
}

/* gzip by zlib's own hand, which is there when reading is; false: it is not. */
static int pack(const char *from, const char *to)
{
    void *z = dlopen("libz.so.1", RTLD_NOW);
    if (!z) return 0;
    void *(*open)(const char *, const char *);
    int (*write)(void *, const void *, unsigned), (*close)(void *);
    *(void **)&open = dlsym(z, "gzopen");
    *(void **)&write = dlsym(z, "gzwrite");
    *(void **)&close = dlsym(z, "gzclose");
    FILE *in = fopen(from, "rb");
    void *out = open(to, "ab"); /* another part after what is there */
    char  buffer[3000];
    for (size_t n; (n = fread(buffer, 1, sizeof buffer, in)) > 0;)
        assert_int_equal(write(out, buffer, (unsigned)n), n);
    fclose(in);
    close(out);
    return 1;
}

TEST(tfrecords)
{
    LK_POOL {
        char one[256], two[256], empty[256], packed[256];
        snprintf(one, 256, "%s", temporary("one.tfr"));
        snprintf(two, 256, "%s", temporary("two.tfr"));
        snprintf(empty, 256, "%s", temporary("empty.tfr"));
        snprintf(packed, 256, "%s", temporary("packed.gz"));
        assert_int_equal(lk_tfrecord_write(one, LK_TUPLE(bytes_of("first"), bytes_of(""), bytes_of("third"))), LK_OK);
        assert_int_equal(lk_tfrecord_write(two, LK_TUPLE(bytes_of("fourth"))), LK_OK);
        assert_int_equal(lk_tfrecord_write(empty, LK_TUPLE()), LK_OK);
        TEXTS(lk_tfrecord_dataset(LK_FILES(one, empty, two)), "first", "", "third", "fourth");
        NOTHING(lk_tfrecord_dataset(LK_FILES(empty)));
        if (pack(one, packed) && pack(two, packed)) { /* two parts in one file */
            TEXTS(lk_tfrecord_dataset(LK_FILES(packed)), "first", "", "third", "fourth");
            TEXTS(lk_tfrecord_dataset(LK_FILES(packed), .gzip = LK_ON), "first", "", "third", "fourth");
            fails(lk_tfrecord_dataset(LK_FILES(packed), .gzip = LK_OFF), LK_EFORMAT, "the checksum of a record's length is wrong");
        }
        fails(lk_tfrecord_dataset(LK_FILES(one), .gzip = LK_ON), LK_EFORMAT, "not compressed by gzip");
        fails(lk_tfrecord_dataset(LK_FILES(one, "/no/such/file")), LK_ENOTFOUND, "/no/such/file");
        REFUSED(lk_tfrecord_dataset(), LK_EINVAL, "0 files");
        REFUSED(lk_tfrecord_dataset(LK_FILES(one), .record_bytes = 3), LK_EINVAL, "lk_fixed_length_record_dataset()");
        assert_int_equal(lk_tfrecord_write(one, LK_TUPLE(lk_scalar(1))), LK_EDTYPE);
        failed_with(LK_EDTYPE, "record 0 is f32");
        assert_int_equal(lk_tfrecord_write("/no/such/folder/file", LK_TUPLE()), LK_EIO);
        failed_with(LK_EIO, "/no/such/folder/file");
        assert_int_equal(lk_dataset_element_spec(lk_tfrecord_dataset(LK_FILES(one))).shape[0].dim[0], -1);
    }
}

/* Every byte changed, every length cut: told. */
TEST(damaged_tfrecords)
{
    LK_POOL {
        const char   *path = temporary("damaged.tfr");
        unsigned char bytes[128];
        assert_int_equal(lk_tfrecord_write(path, LK_TUPLE(bytes_of("some record"), bytes_of("another"))), LK_OK);
        FILE        *f = fopen(path, "rb");
        const size_t size = fread(bytes, 1, sizeof bytes, f);
        fclose(f);
        assert_int_equal(size, 2 * 16 + 11 + 7);
        for (size_t i = 0; i < size; i++) {
            bytes[i] ^= 0x10;
            write_file(path, bytes, size);
            bytes[i] ^= 0x10;
            fails(lk_tfrecord_dataset(LK_FILES(path)), LK_EFORMAT, "damaged.tfr");
        }
        for (size_t i = 1; i < size; i++) {
            write_file(path, bytes, i);
            if (i == 27) TEXTS(lk_tfrecord_dataset(LK_FILES(path)), "some record"); /* cut between two records */
            else fails(lk_tfrecord_dataset(LK_FILES(path)), LK_EFORMAT, "is cut off");
        }
        /* A length that lies, with the right checksum, asks for no memory. */
        const unsigned char huge[] = {0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0};
        memcpy(bytes, huge, 12);
        write_file(path, bytes, size);
        fails(lk_tfrecord_dataset(LK_FILES(path)), LK_EFORMAT, "checksum of a record's length");
    }
}

TEST(lines)
{
    LK_POOL {
        const char *path = temporary("lines.txt");
        const char  text[] = "first\nsecond\r\n\n\rfour\r\r\nlast";
        write_file(path, text, sizeof text - 1);
        TEXTS(lk_text_line_dataset(LK_FILES(path)), "first", "second", "", "\rfour\r", "last");
        write_file(path, "a\n", 2);
        TEXTS(lk_text_line_dataset(LK_FILES(path)), "a");
        write_file(path, "", 0);
        NOTHING(lk_text_line_dataset(LK_FILES(path)));
        char *longer = malloc(200001); /* a line longer than any buffer */
        memset(longer, 'x', 200000);
        longer[100000] = '\n';
        longer[200000] = 0;
        write_file(path, longer, 200000);
        longer[100000] = 0;
        TEXTS(lk_text_line_dataset(LK_FILES(path)), longer, longer + 100001);
        free(longer);
        fails(lk_text_line_dataset(LK_FILES("/tmp")), LK_EIO, "/tmp");
    }
}

/* A small packed file that is one line of 300 MiB: read until that is known, without copying it for every piece. */
TEST(a_line_without_end)
{
    enum { PARTS = 300, PART = 1 << 20 };
    lki_bytes packed;
    uint8_t  *zeros = calloc(1, PART), tail[8];
    assert_int_equal(lki_deflate(LKI_FRAME_NONE, zeros, PART, &packed), LK_OK);
    const uint64_t end = (uint64_t)PART << 32 | lki_crc32(0, zeros, PART);
    for (int i = 0; i < 8; i++)
        tail[i] = (uint8_t)(end >> 8 * i);
    free(zeros);
    LK_POOL {
        const char *path = temporary("line.gz");
        FILE       *f = fopen(path, "wb");
        for (int i = 0; i < PARTS; i++) {
            fwrite("\x1f\x8b\x08\0\0\0\0\0\0\3", 1, 10, f);
            fwrite(packed.data, 1, packed.size, f);
            fwrite(tail, 1, 8, f);
        }
        fclose(f);
        fails(lk_text_line_dataset(LK_FILES(path)), LK_EFORMAT, "line.gz: a line of more than 256 MiB");
        remove(path);
    }
    lki_bytes_free(&packed);
}

TEST(records_of_a_fixed_length)
{
    LK_POOL {
        const char *path = temporary("fixed.bin"), *packed = temporary("fixed.gz");
        write_file(path, "HHabcdefghiFFF", 14);
        lk_dataset *d = lk_fixed_length_record_dataset(LK_FILES(path), .record_bytes = 3, .header_bytes = 2, .footer_bytes = 3);
        TEXTS(d, "abc", "def", "ghi");
        if (pack(path, packed))
            TEXTS(lk_fixed_length_record_dataset(LK_FILES(packed), .record_bytes = 3, .header_bytes = 2, .footer_bytes = 3), "abc",
                  "def", "ghi");
        TEXTS(lk_fixed_length_record_dataset(LK_FILES(path), .record_bytes = 7), "HHabcde", "fghiFFF");
        fails(lk_fixed_length_record_dataset(LK_FILES(path), .record_bytes = 4), LK_EFORMAT, "2 bytes are left over");
        fails(lk_fixed_length_record_dataset(LK_FILES(path), .record_bytes = 4, .header_bytes = 14, .footer_bytes = 1), LK_EFORMAT,
              "within the footer");
        fails(lk_fixed_length_record_dataset(LK_FILES(path), .record_bytes = 4, .header_bytes = 15), LK_EFORMAT,
              "ends before byte 15");
        assert_int_equal(lk_dataset_element_spec(d).shape[0].dim[0], 3);
        REFUSED(lk_fixed_length_record_dataset(LK_FILES(path)), LK_EINVAL, "records of 0 bytes");
        REFUSED(lk_fixed_length_record_dataset(LK_FILES(path), .record_bytes = 4, .header_bytes = -1), LK_EINVAL, "a header of -1");
    }
}

/* ---- saving in the middle of files ---- */

static lk_dataset *source(int kind, const char *a, const char *b)
{
    switch (kind) {
    case 0: return lk_tfrecord_dataset(LK_FILES(a, b));
    case 1: return lk_text_line_dataset(LK_FILES(a, b));
    default: return lk_fixed_length_record_dataset(LK_FILES(a, b), .record_bytes = 2, .header_bytes = 1, .footer_bytes = 1);
    }
}

static void write_source(int kind, const char *path, int first)
{
    char       text[64];
    lk_tensor *record[5];
    for (int i = 0; i < 5; i++) {
        snprintf(text, sizeof text, "record %d", first + i);
        record[i] = bytes_of(text);
    }
    if (kind == 0) assert_int_equal(lk_tfrecord_write(path, lk_tuple_from(5, record)), LK_OK);
    else {
        snprintf(text, sizeof text, kind == 1 ? "a%d\nbb%d\r\nccc\n\nlast" : "H%d1%d2%d3%d4F", first, first, first, first);
        write_file(path, text, strlen(text));
    }
}

TEST(saved_at_every_place)
{
    for (int packed = 0; packed < 2; packed++)
        for (int kind = 0; kind < 3; kind++)
            LK_POOL {
                char path[4][256];
                for (int i = 0; i < 4; i++) {
                    char name[64];
                    snprintf(name, sizeof name, "save%d%d%d", packed, kind, i);
                    snprintf(path[i], sizeof path[i], "%s", temporary(name));
                    if (i < 2) write_source(kind, path[i], 1 + i);
                    else if (packed && !pack(path[i - 2], path[i])) return;
                }
                const char *a = path[2 * packed], *b = path[2 * packed + 1];
                for (int shuffled = 0; shuffled < 2; shuffled++)
                    for (int skip = 0; skip < 12; skip++) {
                        void        *bytes;
                        size_t       size;
                        lk_tuple     e;
                        trail       *want = calloc(1, sizeof *want), *got = calloc(1, sizeof *got);
                        lk_dataset  *d = source(kind, a, b), *again = source(kind, a, b);
                        lk_iterator *x = lk_iterator_of(shuffled ? lk_dataset_shuffle(d, 4) : d),
                                    *y = lk_iterator_of(shuffled ? lk_dataset_shuffle(again, 4) : again);
                        for (int i = 0; i < skip; i++)
                            if (!lk_next(x, &e)) break;
                        assert_int_equal(lk_iterator_save(x, &bytes, &size), LK_OK);
                        assert_int_equal(lk_iterator_restore(y, bytes, size), LK_OK);
                        trail_rest(want, x, -1);
                        trail_rest(got, y, -1);
                        good();
                        assert_true(same_trail(want, got));
                        lk_free_bytes(bytes);
                        free(want);
                        free(got);
                    }
            }
}

/* ---- several workers ---- */

TEST(workers_share_files)
{
    LK_POOL {
        const char *name[4];
        char        path[4][256], text[32];
        for (int i = 0; i < 4; i++) {
            snprintf(text, sizeof text, "shard%d", i);
            snprintf(path[i], sizeof path[i], "%s", temporary(text));
            name[i] = path[i];
            snprintf(text, sizeof text, "%d\n%d\n", 2 * i, 2 * i + 1);
            write_file(path[i], text, strlen(text));
        }
        lk_set_log(keep_log, NULL);
        lk_strategy *s = lk_mirrored_strategy(.cpu_devices = 2);
        lk_set_log(NULL, NULL);
        lk_dataset *d = lk_dataset_batch(lk_text_line_dataset((lk_names){4, name}), 4);
        int         seen[8] = {0};
        for (int w = 0; w < 2; w++)
            for (int automatic = 0; automatic < 2; automatic++)
                LK_FOR_EACH(e, lk_distribute_dataset(s, d, .auto_shard = automatic ? LK_SHARD_AUTO : LK_SHARD_FILE, .workers = 2,
                                                     .worker = w))
                    for (int r = 0; r < 2; r++)
                        for (int64_t i = 0; i < lk_dim(e.item[0]->replicas->item[r], 0); i++) {
                            const int row = ((const uint8_t *)lk_data(e.item[0]->replicas->item[r]))[i] - '0';
                            assert_int_equal(row / 2 % 2, w); /* files whose number mod 2 is the worker's */
                            seen[row]++;
                        }
        good();
        for (int i = 0; i < 8; i++)
            assert_int_equal(seen[i], 2);
    }
}

/* ---- examples ---- */

static lk_tuple parse(lk_tuple e, void *user)
{
    (void)user;
    return LK_TUPLE(lk_reshape(lk_example_feature(e.item[0], "image"), LK_SHAPE(28, 28)),
                    lk_reshape(lk_example_feature(e.item[0], "label"), LK_SHAPE()), lk_example_feature(e.item[0], "weight"));
}

TEST(golden_rows)
{
    const char *folder = folder_or_skip("LOCKSTEP_GOLDEN"), *names[] = {"rows.tfrecord", "rows.tfrecord.gz"};
    LK_POOL {
        char      path[1024];
        lki_zip   zip;
        lki_array image, label, weight;
        snprintf(path, sizeof path, "%s/files/rows_values.npz", folder);
        assert_int_equal(lki_zip_open(path, &zip), LK_OK);
        assert_int_equal(lki_npz_read(&zip, "image", &image), LK_OK);
        assert_int_equal(lki_npz_read(&zip, "label", &label), LK_OK);
        assert_int_equal(lki_npz_read(&zip, "weight", &weight), LK_OK);
        for (int k = 0; k < 4; k++) {
            snprintf(path, sizeof path, "%s/files/%s", folder, names[k % 2]);
            int row = 0;
            LK_FOR_EACH(e, lk_dataset_batch(lk_dataset_map(lk_tfrecord_dataset(LK_FILES(path)), parse, .parallel = k / 2 * 3), 7)) {
                const int64_t n = lk_dim(e.item[0], 0);
                assert_memory_equal(lk_data(e.item[0]), (const uint8_t *)image.data + 784 * row, 784 * n);
                assert_memory_equal(lk_data(e.item[1]), (const int64_t *)label.data + row, 8 * n);
                assert_memory_equal(lk_data(e.item[2]), (const float *)weight.data + 3 * row, 12 * n);
                row += (int)n;
            }
            good();
            assert_int_equal(row, 64);
        }
        lki_array_free(&image);
        lki_array_free(&label);
        lki_array_free(&weight);
        lki_zip_close(&zip);
    }
}

#define RECORD(...) lk_tensor_from(LK_SHAPE(sizeof((uint8_t[]){__VA_ARGS__})), LK_U8, (const uint8_t[]){__VA_ARGS__})

TEST(features)
{
    LK_POOL {
        /* n: int64 5, then -1 and 7 packed; f: float 1.5, then 2 packed; s: a string; t: two; e: nothing */
        lk_tensor *numbers = RECORD(0x0a, 24, 0x0a, 22, 0x0a, 1, 'n', 0x12, 17, 0x1a, 15, 0x08, 5, 0x0a, 11, 0xff, 0xff, 0xff, 0xff,
                                    0xff, 0xff, 0xff, 0xff, 0xff, 1, 7);
        lk_tensor *n = lk_example_feature(numbers, "n");
        good();
        assert_true(lk_tensor_dtype(n) == LK_I64 && lk_size(n) == 3);
        const int64_t want[] = {5, -1, 7};
        assert_memory_equal(lk_data(n), want, sizeof want);

        lk_tensor *floats =
            RECORD(0x0a, 20, 0x0a, 18, 0x0a, 1, 'f', 0x12, 13, 0x12, 11, 0x0d, 0, 0, 0xc0, 0x3f, 0x0a, 4, 0, 0, 0, 0x40);
        lk_tensor *f = lk_example_feature(floats, "f");
        good();
        const float both[] = {1.5f, 2};
        assert_true(lk_tensor_dtype(f) == LK_F32 && lk_size(f) == 2);
        assert_memory_equal(lk_data(f), both, sizeof both);

        lk_tensor *strings = RECORD(0x0a, 34, 0x0a, 11, 0x0a, 1, 's', 0x12, 6, 0x0a, 4, 0x0a, 2, 'h', 'i', 0x0a, 12, 0x0a, 1, 't',
                                    0x12, 7, 0x0a, 5, 0x0a, 1, 'a', 0x0a, 0, 0x0a, 3, 0x0a, 1, 'e', 0x0a, 0);
        assert_true(is_text(lk_example_feature(strings, "s"), "hi"));
        good();
        assert_true(lk_poisoned(lk_example_feature(strings, "t")));
        failed_with(LK_EUNSUPPORTED, "\"t\" has 2 byte strings");
        assert_true(lk_poisoned(lk_example_feature(strings, "e")));
        failed_with(LK_ENOTFOUND, "\"e\" of the record is empty");
        assert_true(lk_poisoned(lk_example_feature(strings, "x")));
        failed_with(LK_ENOTFOUND, "no feature \"x\"");
        assert_true(lk_poisoned(lk_example_feature(lk_scalar(1), "x")));
        failed_with(LK_EDTYPE, "not f32");
        assert_true(lk_poisoned(lk_example_feature(NULL, "x")));
        failed_with(LK_EINVAL, "NULL");
        assert_true(lk_poisoned(lk_example_feature(strings, NULL)));
        failed_with(LK_EINVAL, "the name is NULL");
    }
}

/* Every byte of a record changed, every length cut: a value or an error. */
TEST(hostile_records)
{
    LK_POOL {
        const uint8_t good_one[] = {0x0a, 20, 0x0a, 18,   0x0a, 1,    'f', 0x12, 13, 0x12, 11,
                                    0x0d, 0,  0,    0xc0, 0x3f, 0x0a, 4,   0,    0,  0,    0x40};
        for (size_t cut = 0; cut <= sizeof good_one; cut++)
            for (int i = 0; i < (int)cut; i++)
                for (int bit = 0; bit < 8; bit++)
                    LK_STEP {
                        uint8_t *exact = malloc(cut + 1);
                        memcpy(exact, good_one, cut);
                        exact[i] ^= (uint8_t)(1 << bit);
                        lk_tensor *t = lk_example_feature(lk_tensor_from(LK_SHAPE((int64_t)cut), LK_U8, exact), "f");
                        assert_true(!lk_poisoned(t) || lk_failed());
                        lk_clear_error();
                        free(exact);
                    }
    }
}

TESTS(cmocka_unit_test(tfrecords), cmocka_unit_test(damaged_tfrecords), cmocka_unit_test(lines),
      cmocka_unit_test(a_line_without_end), cmocka_unit_test(records_of_a_fixed_length), cmocka_unit_test(saved_at_every_place),
      cmocka_unit_test(workers_share_files), cmocka_unit_test(golden_rows), cmocka_unit_test(features),
      cmocka_unit_test(hostile_records))
