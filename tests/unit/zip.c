/* Zip files: stored and deflated members, checksums, and malformed files. */
#include "format/zip.h"
#include "check.h"
#include "format/npy.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- a small writer ---------------------------------------------------------------------------------------------------------- */

typedef struct writer {
    uint8_t data[2048];
    size_t  size;
} writer;

static void put(writer *w, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++)
        w->data[w->size++] = (uint8_t)(value >> 8 * i);
}

static void put_text(writer *w, const char *text, size_t size)
{
    memcpy(w->data + w->size, text, size);
    w->size += size;
}

typedef struct entry {
    const char *name, *packed;
    size_t      packed_size, size;
    uint32_t    crc;
    int         method;
} entry;

/* "hello" stored, and twelve times "ab" deflated. */
static const entry ENTRIES[] = {
    {"one.txt", "hello", 5, 5, 0x3610a686u, 0},
    {"two.txt", "\x4b\x4c\x4a\xc4\x0a\x01", 6, 24, 0xfaeacfaau, 8},
};

static void put_local(writer *w, const entry *e)
{
    put(w, 0x04034b50, 4);
    put(w, 20, 2);
    put(w, 0, 2);
    put(w, (uint64_t)e->method, 2);
    put(w, 0, 4);
    put(w, e->crc, 4);
    put(w, e->packed_size, 4);
    put(w, e->size, 4);
    put(w, strlen(e->name), 2);
    put(w, 0, 2);
    put_text(w, e->name, strlen(e->name));
    put_text(w, e->packed, e->packed_size);
}

/* `wide`: sizes and offset in the 64-bit extra part. */
static void put_central(writer *w, const entry *e, uint64_t offset, int wide)
{
    put(w, 0x02014b50, 4);
    put(w, 20, 2);
    put(w, 20, 2);
    put(w, 0, 2);
    put(w, (uint64_t)e->method, 2);
    put(w, 0, 4);
    put(w, e->crc, 4);
    put(w, wide ? UINT32_MAX : e->packed_size, 4);
    put(w, wide ? UINT32_MAX : e->size, 4);
    put(w, strlen(e->name), 2);
    put(w, wide ? 4 + 4 + 24 : 0, 2);
    put(w, 0, 2);
    put(w, 0, 8);
    put(w, wide ? UINT32_MAX : offset, 4);
    put_text(w, e->name, strlen(e->name));
    if (!wide) return;
    put(w, 0x7777, 2); /* a field of another kind, without contents */
    put(w, 0, 2);
    put(w, 1, 2);
    put(w, 24, 2);
    put(w, e->size, 8);
    put(w, e->packed_size, 8);
    put(w, offset, 8);
}

static void put_end64(writer *w, uint64_t members, uint64_t start, uint64_t size)
{
    const uint64_t here = w->size;
    put(w, 0x06064b50, 4);
    put(w, 44, 8);
    put(w, 45, 4);
    put(w, 0, 8);
    put(w, members, 8);
    put(w, members, 8);
    put(w, size, 8);
    put(w, start, 8);
    put(w, 0x07064b50, 4);
    put(w, 0, 4);
    put(w, here, 8);
    put(w, 1, 4);
}

static writer archive(int wide)
{
    writer   w = {.size = 0};
    uint64_t offset[LKI_COUNT(ENTRIES)];
    for (int i = 0; i < LKI_COUNT(ENTRIES); i++) {
        offset[i] = w.size;
        put_local(&w, &ENTRIES[i]);
    }
    const uint64_t start = w.size;
    for (int i = 0; i < LKI_COUNT(ENTRIES); i++)
        put_central(&w, &ENTRIES[i], offset[i], wide);
    const uint64_t size = w.size - start;
    if (wide) put_end64(&w, LKI_COUNT(ENTRIES), start, size);
    put(&w, 0x06054b50, 4);
    put(&w, 0, 4);
    put(&w, wide ? UINT16_MAX : LKI_COUNT(ENTRIES), 2);
    put(&w, wide ? UINT16_MAX : LKI_COUNT(ENTRIES), 2);
    put(&w, wide ? UINT32_MAX : size, 4);
    put(&w, wide ? UINT32_MAX : start, 4);
    put(&w, 3, 2);
    put_text(&w, "end", 3);
    return w;
}

/* ---- reading it -------------------------------------------------------------------------------------------------------------- */

static lk_status parse(const uint8_t *data, size_t size, lki_zip *z)
{
    uint8_t *exact = malloc(size + !size); /* of the exact size, so that a sanitizer sees a read past it */
    memcpy(exact, data, size);
    const lk_status status = lki_zip_parse("test.zip", exact, size, z);
    free(exact);
    return status;
}

/* Read all there is; what comes out is not looked at. Returns whether all of it could be read. */
static int read_all(const uint8_t *data, size_t size)
{
    lki_zip z;
    int     good = parse(data, size, &z) == LK_OK;
    for (int i = 0; i < z.count; i++) {
        lki_bytes b;
        if (lki_zip_read(&z, i, &b) == LK_OK) lki_bytes_free(&b);
        else good = 0;
    }
    lki_zip_close(&z);
    return good;
}

static void check_member(const lki_zip *z, const char *name, const char *contents)
{
    lki_bytes b;
    assert_int_equal(lki_zip_read(z, lki_zip_find(z, name), &b), LK_OK);
    assert_int_equal(b.size, strlen(contents));
    assert_memory_equal(b.data, contents, b.size);
    lki_bytes_free(&b);
}

TEST(members)
{
    for (int wide = 0; wide < 2; wide++) {
        const writer w = archive(wide);
        lki_zip      z;
        assert_int_equal(parse(w.data, w.size, &z), LK_OK);
        assert_int_equal(z.count, 2);
        check_member(&z, "one.txt", "hello");
        check_member(&z, "two.txt", "abababababababababababab");
        assert_int_equal(lki_zip_find(&z, "three.txt"), -1);
        lki_bytes b;
        assert_int_equal(lki_zip_read(&z, -1, &b), LK_ENOTFOUND);
        lki_array a;
        lk_clear_error();
        assert_int_equal(lki_npz_read(&z, "one", &a), LK_ENOTFOUND);
        assert_string_equal(lk_error(), "test.zip: no array one in it");
        lk_clear_error();
        lki_zip_close(&z);
    }
}

TEST(cut_off_anywhere)
{
    for (int wide = 0; wide < 2; wide++) {
        const writer  w = archive(wide);
        const int64_t before = lki_memory_in_use();
        for (size_t n = 0; n < w.size; n++) {
            lki_zip z;
            lk_clear_error();
            assert_int_equal(parse(w.data, n, &z), LK_EFORMAT);
            assert_null(z.member);
        }
        assert_int_equal(lki_memory_in_use(), before);
        lk_clear_error();
    }
}

TEST(any_byte_changed)
{
    for (int wide = 0; wide < 2; wide++) {
        writer        w = archive(wide);
        const int64_t before = lki_memory_in_use();
        for (size_t i = 0; i < w.size; i++)
            for (int value = 0; value < 256; value += 3) {
                const uint8_t kept = w.data[i];
                w.data[i] = (uint8_t)value;
                read_all(w.data, w.size);
                w.data[i] = kept;
                lk_clear_error();
            }
        assert_int_equal(lki_memory_in_use(), before);
        assert_true(read_all(w.data, w.size));
    }
}

static void check_refused(writer w, size_t at, int bytes, uint64_t value, const char *why)
{
    for (int i = 0; i < bytes; i++)
        w.data[at + (size_t)i] = (uint8_t)(value >> 8 * i);
    lk_clear_error();
    assert_false(read_all(w.data, w.size));
    assert_non_null(strstr(lk_error(), why));
    lk_clear_error();
}

TEST(fields_that_lie)
{
    const writer w = archive(0), big = archive(1);
    const size_t local = 30 + 7 + 5, start = local + 30 + 7 + 6, second = start + 46 + 7, end = w.size - 25;
    check_refused(w, 30 + 7, 1, 'H', "CRC-32");
    check_refused(w, start + 8, 2, 1, "encrypted");
    check_refused(w, start + 10, 2, 14, "compression method 14");
    check_refused(w, start + 20, 4, 6, "stored as 6 bytes");
    check_refused(w, start + 20, 4, 0x7fffffff, "does not fit");
    check_refused(w, start + 42, 4, 0xfffffff0, "no member at offset");
    check_refused(w, start + 28, 2, 60000, "does not fit");
    check_refused(w, second + 24, 4, 23, "unpacks to");
    check_refused(w, second + 24, 4, 25, "unpacks to 24 bytes: should be 25");
    check_refused(w, second + 24, 4, 0xfffffffe, "cannot unpack to");
    check_refused(w, second + 20, 4, 3, "cut off");
    check_refused(w, local + 37, 1, 0xff, "damaged");
    check_refused(w, end + 10, 2, 300, "300 members");
    check_refused(w, end + 16, 4, 0xfffffff0, "does not fit");
    check_refused(w, end + 12, 4, 0xfffffff0, "does not fit");
    check_refused(big, big.size - 25 - 20 + 8, 8, UINT64_MAX - 3, "64-bit end record");
    check_refused(big, big.size - 25 - 20 - 56 + 48, 8, UINT64_MAX - 3, "does not fit");
    check_refused(big, big.size - 25 - 20 - 56 + 32, 8, UINT64_MAX - 3, "members in a directory");
    check_refused(big, start + 46 + 7 + 4 + 2, 2, 16, "is malformed");
    check_refused(big, start + 46 + 7 + 4 + 2, 2, 60000, "is malformed");
}

static int attempt(void)
{
    const writer w = archive(1);
    return read_all(w.data, w.size);
}

TEST(without_memory) { assert_true(check_every_allocation(attempt) >= 5); }

TEST(stored_files)
{
    static const char *files[] = {"arrays.npz", "arrays_compressed.npz"};
    const char        *folder = folder_or_skip("LOCKSTEP_GOLDEN");
    lki_zip            z[2];
    for (int f = 0; f < 2; f++) {
        char path[512];
        snprintf(path, sizeof path, "%s/files/%s", folder, files[f]);
        assert_int_equal(lki_zip_open(path, &z[f]), LK_OK);
    }
    assert_true(z[0].count > 0);
    assert_int_equal(z[0].count, z[1].count);
    for (int i = 0; i < z[0].count; i++) {
        lki_bytes a, b;
        assert_int_equal(lki_zip_read(&z[0], i, &a), LK_OK);
        assert_int_equal(lki_zip_read(&z[1], lki_zip_find(&z[1], z[0].member[i].name), &b), LK_OK);
        assert_int_equal(a.size, b.size);
        assert_memory_equal(a.data, b.data, a.size);
        lki_bytes_free(&a);
        lki_bytes_free(&b);
    }
    for (int f = 0; f < 2; f++)
        lki_zip_close(&z[f]);
}

TESTS(cmocka_unit_test(members), cmocka_unit_test(cut_off_anywhere), cmocka_unit_test(any_byte_changed),
      cmocka_unit_test(fields_that_lie), cmocka_unit_test(without_memory), cmocka_unit_test(stored_files))
