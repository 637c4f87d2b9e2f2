/* Checkpoint files: written and read in every type, TensorFlow's own, and malformed files. */
#include "format/bundle.h"
#include "check.h"
#include "core/dtype.h"
#include "core/random.h"
#include "core/shape.h"
#include "folder.h"
#include "format/crc32c.h"
#include "format/npy.h"
#include "format/object_graph.h"
#include <pthread.h>

static const char *folder;

static int begin(void **state)
{
    (void)state;
    folder = folder_new();
    return folder ? 0 : -1;
}

static int end(void **state)
{
    (void)state;
    folder_remove(folder);
    return 0;
}

static void must_fail(const char *prefix, lk_status code, const char *words)
{
    lki_bundle    b;
    const int64_t before = lki_memory_in_use();
    assert_int_equal(lki_bundle_open(prefix, &b), code);
    assert_int_equal(lk_error_code(), code);
    if (!strstr(lk_error(), words)) fail_msg("%s: should say: %s", lk_error(), words);
    assert_int_equal(lki_memory_in_use(), before);
    lk_clear_error();
}

/* ---- there and back ---- */

static const lk_shape *shape_at(int i)
{
    static lk_shape s[5];
    s[0] = LK_SHAPE();
    s[1] = LK_SHAPE(24);
    s[2] = LK_SHAPE(2, 0, 3);
    s[3] = LK_SHAPE(2, 3, 4);
    s[4] = LK_SHAPE(1, 2, 1, 2, 1, 2, 1, 3);
    return &s[i];
}

static const char *key_of(int dtype, int shape)
{
    static char key[64];
    snprintf(key, sizeof key, "array/%s/%d", lk_dtype_name((lk_dtype)dtype), shape);
    return key;
}

static uint8_t data[8 * 24];

static void fill(bool truth)
{
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = truth ? i % 3 == 0 : (uint8_t)(37 * i + 11);
}

TEST(every_type_and_shape)
{
    const char       *prefix = folder_file(folder, "all/types");
    lki_bundle_writer w;
    lki_bundle        b;
    lki_array         a;
    assert_int_equal(lki_bundle_begin(prefix, &w), LK_OK);
    for (int dtype = LK_DTYPE_COUNT; dtype-- > 0;)
        for (int s = 0; s < 5; s++) {
            fill(dtype == LK_BOOL);
            assert_int_equal(lki_bundle_add(&w, key_of(dtype, s), (lk_dtype)dtype, shape_at(s), data), LK_OK);
        }
    assert_int_equal(lki_bundle_commit(&w), LK_OK);
    lki_bundle_end(&w);
    assert_int_equal(lki_bundle_open(prefix, &b), LK_OK);
    assert_int_equal(b.count, 5 * LK_DTYPE_COUNT);
    for (int dtype = 0; dtype < LK_DTYPE_COUNT; dtype++)
        for (int s = 0; s < 5; s++) {
            const int entry = lki_bundle_find(&b, key_of(dtype, s));
            fill(dtype == LK_BOOL);
            assert_true(entry >= 0);
            assert_true(lki_bundle_is(&b, entry, (lk_dtype)dtype, shape_at(s)));
            assert_int_equal(lki_bundle_read(&b, entry, &a), LK_OK);
            assert_int_equal(a.dtype, dtype);
            assert_true(lki_shape_equal(&a.shape, shape_at(s)));
            assert_memory_equal(a.data, data, (size_t)lki_shape_size(&a.shape) * lk_dtype_bytes(a.dtype));
            lki_array_free(&a);
        }
    assert_int_equal(lki_bundle_find(&b, "array"), -1);
    lki_bundle_close(&b);
}

TEST(texts)
{
    static const size_t sizes[] = {0, 1, 127, 128, 70000};
    const char         *prefix = folder_file(folder, "texts");
    char               *text = calloc(1, 70000), key[16];
    lki_bundle_writer   w;
    lki_bundle          b;
    lki_bytes           bytes;
    lki_array           a;
    for (int i = 0; i < 70000; i++)
        text[i] = (char)(i % 251);
    assert_int_equal(lki_bundle_begin(prefix, &w), LK_OK);
    for (int i = 0; i < LKI_COUNT(sizes); i++) {
        snprintf(key, sizeof key, "t%d", i);
        assert_int_equal(lki_bundle_add_text(&w, key, text, sizes[i]), LK_OK);
    }
    assert_int_equal(lki_bundle_commit(&w), LK_OK);
    lki_bundle_end(&w);
    assert_int_equal(lki_bundle_open(prefix, &b), LK_OK);
    for (int i = 0; i < LKI_COUNT(sizes); i++) {
        assert_int_equal(lki_bundle_read_text(&b, i, &bytes), LK_OK);
        assert_int_equal(bytes.size, sizes[i]);
        assert_memory_equal(bytes.data, text, sizes[i]);
        lki_bytes_free(&bytes);
    }
    assert_int_equal(lki_bundle_read(&b, 0, &a), LK_EDTYPE);
    assert_non_null(strstr(lk_error(), "\"t0\" is string"));
    lk_clear_error();
    lki_bundle_close(&b);
    free(text);
}

static char many[512];

static lk_status write_one(const char *prefix, float value)
{
    lki_bundle_writer w;
    LKI_TRY(lki_bundle_begin(prefix, &w));
    lk_status status = lki_bundle_add(&w, "x", LK_F32, &(lk_shape){0}, &value);
    if (status == LK_OK) status = lki_bundle_add_text(&w, "t", "text", 4);
    if (status == LK_OK) status = lki_bundle_commit(&w);
    lki_bundle_end(&w);
    return status;
}

static float read_one(const char *prefix)
{
    lki_bundle b;
    lki_array  a;
    float      x = -1;
    if (lki_bundle_open(prefix, &b) != LK_OK) return -1;
    const int entry = lki_bundle_find(&b, "x");
    if (entry >= 0 && lki_bundle_read(&b, entry, &a) == LK_OK) {
        x = *(float *)a.data;
        lki_array_free(&a);
    }
    lki_bundle_close(&b);
    return x;
}

TEST(an_older_one_is_replaced)
{
    const char *prefix = folder_file(folder, "one");
    lki_bundle  old;
    lki_array   a;
    assert_int_equal(write_one(prefix, 1), LK_OK);
    assert_int_equal(lki_bundle_open(prefix, &old), LK_OK);
    assert_int_equal(write_one(prefix, 2), LK_OK);
    assert_true(read_one(prefix) == 2);
    assert_int_equal(lki_bundle_read(&old, lki_bundle_find(&old, "x"), &a), LK_OK); /* what is open stays */
    assert_true(*(float *)a.data == 1);
    lki_array_free(&a);
    lki_bundle_close(&old);
    assert_int_equal(folder_leftovers(folder), 0);
}

/* Several write one name at a time while others read it: what is read is whole, and at the end there is one, and nothing else. */
enum { WRITERS = 3, TURNS = 40 };

static void *write_many(void *arg)
{
    bool *good = arg;
    for (int i = 0; i < TURNS; i++)
        *good = write_one(many, (float)i) == LK_OK && *good;
    return NULL;
}

static int data_files(const char *name)
{
    DIR *d = opendir(folder);
    int  count = 0;
    for (const struct dirent *e; d && (e = readdir(d));)
        count += strncmp(e->d_name, name, strlen(name)) == 0 && strstr(e->d_name, ".data-");
    if (d) closedir(d);
    return count;
}

TEST(writers_and_readers_at_a_time)
{
    pthread_t thread[WRITERS];
    bool      good[WRITERS];
    snprintf(many, sizeof many, "%s/many", folder);
    assert_int_equal(write_one(many, 1), LK_OK);
    for (int i = 0; i < WRITERS; i++) {
        good[i] = true;
        assert_int_equal(pthread_create(&thread[i], NULL, write_many, &good[i]), 0);
    }
    for (int i = 0; i < 4 * TURNS; i++)
        if (read_one(many) < 0) fail_msg("turn %d: %s", i, lk_error());
    for (int i = 0; i < WRITERS; i++) {
        pthread_join(thread[i], NULL);
        assert_true(good[i]);
    }
    assert_true(read_one(many) == TURNS - 1);
    assert_int_equal(write_one(many, 7), LK_OK);
    assert_int_equal(data_files("many."), 1);
    assert_int_equal(folder_leftovers(folder), 0);
}

/* What a crash leaves between the data and the index, and what is not that. */
TEST(what_crashes_left)
{
    static const char *const left[] = {"crash-1.data-00000-of-00001", "crash-1.data-00001-of-00002",
                                       "crash-2.data-00000-of-00001.1.2.tmp", "crash-2.index.3.4.tmp"};
    static const char *const others[] = {"crash.data", "crash-3.data-0-of-1", "crush-1.data-00000-of-00001",
                                         "crash-1.data-00000-of-00001.bak"};
    lki_bytes                bytes = {(uint8_t *)"half", 4};
    assert_int_equal(write_one(folder_file(folder, "crash-7"), 7), LK_OK);
    for (int i = 0; i < LKI_COUNT(left); i++)
        lki_file_write(folder_file(folder, left[i]), 1, &bytes);
    for (int i = 0; i < LKI_COUNT(others); i++)
        lki_file_write(folder_file(folder, others[i]), 1, &bytes);
    lki_bundle_clean(folder, "crash");
    for (int i = 0; i < LKI_COUNT(left); i++)
        assert_false(file_exists(folder_file(folder, left[i])));
    for (int i = 0; i < LKI_COUNT(others); i++)
        assert_true(file_exists(folder_file(folder, others[i])));
    assert_true(read_one(folder_file(folder, "crash-7")) == 7);
    assert_int_equal(lki_bundle_remove(folder_file(folder, "crash-7")), LK_OK);
    assert_int_equal(lki_bundle_remove(folder_file(folder, "crash-7")), LK_OK);
    assert_false(file_exists(folder_file(folder, "crash-7.data-00000-of-00001")));
    lki_bundle_clean("/no/such/folder", "crash");
    assert_false(lk_failed());
}

TEST(nothing_is_left_of_one_that_was_given_up)
{
    const char       *prefix = folder_file(folder, "given-up");
    lki_bundle_writer w;
    assert_int_equal(lki_bundle_begin(prefix, &w), LK_OK);
    assert_int_equal(lki_bundle_add(&w, "x", LK_F32, &(lk_shape){0}, &(float){1}), LK_OK);
    assert_int_equal(lki_bundle_add(&w, "x", LK_F32, &(lk_shape){0}, &(float){2}), LK_OK);
    assert_int_equal(lki_bundle_commit(&w), LK_EINVAL);
    assert_non_null(strstr(lk_error(), "two values for the key \"x\""));
    lk_clear_error();
    lki_bundle_end(&w);
    assert_int_equal(folder_leftovers(folder), 0);
    assert_false(file_exists(folder_file(folder, "given-up.data-00000-of-00001")));
    assert_false(file_exists(folder_file(folder, "given-up.index")));
}

/* ---- TensorFlow's ---- */

/* The key of each line of the list, in order. */
static bool next_key(FILE *list, char key[512])
{
    char line[1024];
    while (fgets(line, sizeof line, list))
        if (sscanf(line, "%*[^k]key\": \"%511[^\"]\"", key) == 1) return true;
    return false;
}

TEST(what_tensorflow_wrote)
{
    const char *golden = folder_or_skip("LOCKSTEP_GOLDEN");
    char        path[512], key[512], name[16];
    lki_bundle  b;
    lki_zip     values;
    int         i = 0;
    snprintf(path, sizeof path, "%s/files/checkpoint/ckpt-1", golden);
    assert_int_equal(lki_bundle_open(path, &b), LK_OK);
    snprintf(path, sizeof path, "%s/files/checkpoint_values.npz", golden);
    assert_int_equal(lki_zip_open(path, &values), LK_OK);
    snprintf(path, sizeof path, "%s/files/checkpoint_keys.json", golden);
    FILE *list = fopen(path, "r");
    assert_non_null(list);
    for (; next_key(list, key); i++) {
        lki_array ours = {0}, right;
        lki_bytes text = {0};
        assert_int_equal(lki_bundle_find(&b, key), i);
        snprintf(name, sizeof name, "v%03d", i);
        assert_int_equal(lki_npz_read(&values, name, &right), LK_OK);
        if (i == 0) { /* the graph of objects, as bytes */
            assert_int_equal(lki_bundle_read_text(&b, i, &text), LK_OK);
            assert_int_equal(text.size, right.shape.dim[0]);
            assert_memory_equal(text.data, right.data, text.size);
        } else {
            assert_int_equal(lki_bundle_read(&b, i, &ours), LK_OK);
            assert_int_equal(ours.dtype, right.dtype);
            assert_true(lki_shape_equal(&ours.shape, &right.shape));
            assert_memory_equal(ours.data, right.data, (size_t)lki_shape_size(&right.shape) * lk_dtype_bytes(right.dtype));
        }
        lki_bytes_free(&text);
        lki_array_free(&ours);
        lki_array_free(&right);
    }
    assert_int_equal(i, b.count);
    assert_true(i > 25);
    fclose(list);
    lki_zip_close(&values);
    lki_bundle_close(&b);
}

/* ---- files that lie ---- */

TEST(files_that_are_not_there)
{
    const char *prefix = folder_file(folder, "nothing");
    must_fail(prefix, LK_ENOTFOUND, "nothing.index");
    assert_int_equal(write_one(prefix, 1), LK_OK);
    remove(folder_file(folder, "nothing.data-00000-of-00001"));
    must_fail(prefix, LK_ENOTFOUND, "nothing.data-00000-of-00001");
    mkdir(folder_file(folder, "nothing.data-00000-of-00001"), 0777);
    must_fail(prefix, LK_EIO, "not a regular file");
}

/* An index of one entry and a header with these bytes, beside 8 bytes of data. */
static const char *index_of(const char *header, size_t header_size, const void *entry, size_t entry_size)
{
    const lki_table_entry e[] = {{"", 0, (const uint8_t *)header, header_size}, {"x", 1, entry, entry_size}};
    lki_sink              out = {0};
    lki_table_write(2, e, 4096, &out);
    lki_bytes index = {out.data, out.size};
    assert_int_equal(lki_file_write(folder_file(folder, "lie.index"), 1, &index), LK_OK);
    lki_bytes eight = {(uint8_t *)"12345678", 8};
    assert_int_equal(lki_file_write(folder_file(folder, "lie.data-00000-of-00001"), 1, &eight), LK_OK);
    lki_sink_free(&out);
    return folder_file(folder, "lie");
}

#define HEADER "\x08\x01\x1a\x02\x08\x01"
#define ENTRY(text) text, sizeof text - 1

TEST(lies_in_the_header)
{
    static const char good[] = "\x08\x01\x12\x00\x28\x04";
    must_fail(index_of(ENTRY(""), ENTRY(good)), LK_EFORMAT, "0 data files");
    must_fail(index_of(ENTRY("\x08\xff\xff\xff\xff\x0f"), ENTRY(good)), LK_EFORMAT, "data files: there must be");
    must_fail(index_of(ENTRY("\x08\x01\x10\x01"), ENTRY(good)), LK_EUNSUPPORTED, "big endian");
    must_fail(index_of(ENTRY("\x08\x01\x1a\x02\x10\x02"), ENTRY(good)), LK_EUNSUPPORTED, "needs a reader of version 2");
    must_fail(index_of(ENTRY("\x08"), ENTRY(good)), LK_EFORMAT, "header is malformed");
    must_fail(index_of(ENTRY("\x08\x01\x1a\x02\x10\x80"), ENTRY(good)), LK_EFORMAT, "version in the header");
    must_fail(index_of(ENTRY("\x08\x02"), ENTRY("\x08\x01\x12\x00\x18\x01\x28\x04")), LK_ENOTFOUND, "lie.data-00001-of-00002");
}

TEST(lies_in_an_entry)
{
    static const struct {
        const char *entry;
        size_t      size;
        lk_status   code;
        const char *words;
    } lies[] = {
        {ENTRY("\x08"), LK_EFORMAT, "\"x\": malformed"},
        {ENTRY("\x08\x01\x18\x01"), LK_EFORMAT, "beyond the last"},
        {ENTRY("\x08\x01\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), LK_EFORMAT, "out of range"},
        {ENTRY("\x08\x01\x12\x0b\x12\x0b\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), LK_EFORMAT, "its shape is malformed"},
        {ENTRY("\x08\x01\x12\x0d\x12\x0b\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), LK_EFORMAT, "negative or unknown"},
        {ENTRY("\x08\x01\x12\x02\x18\x01"), LK_EFORMAT, "rank is unknown"},
        {ENTRY("\x08\x01\x12\x12\x12\0\x12\0\x12\0\x12\0\x12\0\x12\0\x12\0\x12\0\x12\0"), LK_EFORMAT, "more than 8 axes"},
    };
    for (int i = 0; i < LKI_COUNT(lies); i++)
        must_fail(index_of(ENTRY(HEADER), lies[i].entry, lies[i].size), lies[i].code, lies[i].words);
}

TEST(lies_about_an_array)
{
    static const struct {
        const char *entry;
        size_t      size;
        lk_status   code;
        const char *words;
    } lies[] = {
        {ENTRY("\x08\x01\x12\x00\x28\x09"), LK_EFORMAT, "do not fit into the 8 bytes"},
        {ENTRY("\x08\x01\x12\x00\x20\x09\x28\x04"), LK_EFORMAT, "do not fit into the 8 bytes"},
        {ENTRY("\x08\x01\x12\x00\x20\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x28\x04"), LK_EFORMAT, "do not fit into the 8 bytes"},
        {ENTRY("\x08\x01\x12\x00\x20\x04\x28\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), LK_EFORMAT, "do not fit into the 8 bytes"},
        {ENTRY("\x08\x01\x12\x00\x28\x08"), LK_EFORMAT, "has 8 bytes: its shape and type need 4"},
        {ENTRY("\x08\x01\x12\x00\x28\x04"), LK_EFORMAT, "CRC-32C"},
        {ENTRY("\x08\x05\x12\x00\x28\x04"), LK_EDTYPE, "is int16"},
        {ENTRY("\x08\x63\x12\x00\x28\x04"), LK_EDTYPE, "is type 99"},
        {ENTRY("\x08\x01\x12\x00\x28\x04\x3a\x00"), LK_EUNSUPPORTED, "slices"},
        {ENTRY("\x08\x01\x12\x16\x12\x09\x08\x80\x80\x80\x80\x80\x80\x80\x40\x12\x09\x08\x80\x80\x80\x80\x80\x80\x80\x40"),
         LK_EFORMAT, "too large"},
    };
    for (int i = 0; i < LKI_COUNT(lies); i++) {
        lki_bundle b;
        lki_array  a;
        assert_int_equal(lki_bundle_open(index_of(ENTRY(HEADER), lies[i].entry, lies[i].size), &b), LK_OK);
        assert_int_equal(lki_bundle_read(&b, 0, &a), lies[i].code);
        assert_null(a.data);
        if (!strstr(lk_error(), lies[i].words) || !strstr(lk_error(), "\"x\""))
            fail_msg("%s: should say: %s", lk_error(), lies[i].words);
        lk_clear_error();
        lki_bundle_close(&b);
    }
}

TEST(damaged_data)
{
    const char *prefix = folder_file(folder, "damaged"), *file = folder_file(folder, "damaged.data-00000-of-00001");
    lki_bundle  b;
    lki_array   a;
    lki_bytes   bytes, text;
    assert_int_equal(write_one(prefix, 1), LK_OK);
    assert_int_equal(lki_file_read(file, &bytes), LK_OK);
    for (size_t i = 0; i < bytes.size; i++) { /* 4 bytes of a number, then length, checksum and 4 characters */
        bytes.data[i] ^= 0x10;
        assert_int_equal(lki_file_write(file, 1, &bytes), LK_OK);
        assert_int_equal(lki_bundle_open(prefix, &b), LK_OK);
        if (i < 4) assert_int_equal(lki_bundle_read(&b, 1, &a), LK_EFORMAT);
        else assert_int_equal(lki_bundle_read_text(&b, 0, &text), LK_EFORMAT);
        lk_clear_error();
        lki_bundle_close(&b);
        bytes.data[i] ^= 0x10;
    }
    assert_int_equal(lki_bundle_open(prefix, &b), LK_OK);
    assert_int_equal(truncate(file, 2), 0); /* while it is open */
    assert_int_equal(lki_bundle_read(&b, 1, &a), LK_EFORMAT);
    assert_non_null(strstr(lk_error(), "ends after 2 of its 4 bytes"));
    lk_clear_error();
    lki_bundle_close(&b);
    lki_bytes_free(&bytes);
}

/* ---- thousands of changes to a good file ---- */

typedef struct block {
    size_t offset, size;
} block;

/* Data block and index block of a table of one data block. */
static void find_blocks(lki_bytes b, block out[2])
{
    lki_wire w = lki_wire_of(b.data + b.size - 48, 40);
    uint64_t x[4];
    for (int i = 0; i < 4; i++)
        assert_true(lki_wire_varint(&w, &x[i]));
    out[0] = (block){0, (size_t)x[0] - 5};
    out[1] = (block){(size_t)x[2], (size_t)x[3]};
}

static void sign(lki_bytes b, block at)
{
    const uint32_t crc = lki_crc32c_mask(lki_crc32c(0, b.data + at.offset, at.size + 1));
    for (int i = 0; i < 4; i++)
        b.data[at.offset + at.size + 1 + (size_t)i] = (uint8_t)(crc >> 8 * i);
}

/* Open it and read all of it, whatever that gives; an error must have a message, and no memory may stay. */
static bool try_all(const char *prefix)
{
    lki_bundle       b;
    lki_bytes        text;
    lki_array        a;
    lki_object_graph g;
    const int64_t    before = lki_memory_in_use();
    bool             good = lki_bundle_open(prefix, &b) == LK_OK;
    for (int i = 0; good && i < b.count; i++) {
        if (lki_bundle_read(&b, i, &a) == LK_OK) lki_array_free(&a);
        if (lki_bundle_read_text(&b, i, &text) == LK_OK) {
            if (lki_object_graph_parse("test", text.data, text.size, &g) == LK_OK) lki_object_graph_free(&g);
            lki_bytes_free(&text);
        }
    }
    if (good) lki_bundle_close(&b);
    else assert_true(lk_error()[0] != 0);
    lk_clear_error();
    assert_int_equal(lki_memory_in_use(), before);
    return good;
}

static uint32_t draw(uint64_t n) { return lki_philox_block(7, n, 0).word[0]; }

TEST(thousands_of_changes)
{
    const char *prefix = folder_file(folder, "all/types"), *file = folder_file(folder, "all/types.index");
    lki_bytes   good, bad;
    block       at[2];
    int         opened = 0;
    assert_int_equal(lki_file_read(file, &good), LK_OK);
    assert_int_equal(lki_file_read(file, &bad), LK_OK);
    find_blocks(good, at);
    for (uint64_t n = 0; n < 6000; n++) {
        const block where = n % 8 < 5 ? at[0] : n % 8 < 7 ? at[1] : (block){good.size - 48, 48};
        memcpy(bad.data, good.data, good.size);
        for (uint64_t k = 0; k <= n % 3; k++) {
            const uint32_t r = draw(n * 3 + k);
            bad.data[where.offset + (r >> 8) % where.size] = r & 1 ? (uint8_t)(r >> 1) : (uint8_t[]){0, 1, 127, 128, 255}[r % 5];
        }
        if (n % 4) sign(bad, at[0]), sign(bad, at[1]); /* so that it is not all found by a checksum */
        assert_int_equal(lki_file_write(file, 1, &bad), LK_OK);
        opened += try_all(prefix);
    }
    assert_true(opened > 100);                                       /* the changes reach what comes after the checksums */
    for (size_t size = 0; size < good.size; size += 1 + size / 50) { /* cut off */
        lki_bytes cut = {good.data, size};
        assert_int_equal(lki_file_write(file, 1, &cut), LK_OK);
        assert_false(try_all(prefix));
    }
    lki_bytes_free(&bad);
    lki_bytes_free(&good);
}

/* ---- without memory ---- */

static int write_and_read(void)
{
    const char *prefix = folder_file(folder, "memory");
    return write_one(prefix, 5) == LK_OK && read_one(prefix) == 5;
}

TEST(without_memory) { assert_true(check_every_allocation(write_and_read) > 30); }

int main(int argc, char **argv)
{
    (void)argc, (void)argv;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_and_shape),     cmocka_unit_test(texts),
        cmocka_unit_test(an_older_one_is_replaced), cmocka_unit_test(writers_and_readers_at_a_time),
        cmocka_unit_test(what_crashes_left),        cmocka_unit_test(nothing_is_left_of_one_that_was_given_up),
        cmocka_unit_test(what_tensorflow_wrote),    cmocka_unit_test(files_that_are_not_there),
        cmocka_unit_test(lies_in_the_header),       cmocka_unit_test(lies_in_an_entry),
        cmocka_unit_test(lies_about_an_array),      cmocka_unit_test(damaged_data),
        cmocka_unit_test(thousands_of_changes),     cmocka_unit_test(without_memory),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
