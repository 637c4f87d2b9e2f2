/* Writing zip archives: what is written is read again, aligned, the same bytes every time. */
#include "check.h"
#include "format/npy.h"
#include "format/zip.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name, *data;
} MEMBERS[] = {
    {"metadata.json", "{\"keras_version\": \"3.0\"}"},
    {"config.json", "{}"},
    {"empty", ""},
    {"folder/n\xc3\xa4me.bin", "0123456789"},
    {"a", "x"},
};

static lki_bytes archive(void)
{
    lki_zip_out *z;
    lki_bytes    bytes;
    assert_int_equal(lki_zip_out_new(&z), LK_OK);
    for (int i = 0; i < LKI_COUNT(MEMBERS); i++)
        assert_int_equal(lki_zip_out_add(z, MEMBERS[i].name, MEMBERS[i].data, strlen(MEMBERS[i].data)), LK_OK);
    assert_int_equal(lki_zip_out_finish(z, &bytes), LK_OK);
    return bytes;
}

TEST(there_and_back)
{
    lki_bytes b = archive(), content;
    lki_zip   z;
    assert_int_equal(lki_zip_parse("test.zip", b.data, b.size, &z), LK_OK);
    assert_int_equal(z.count, LKI_COUNT(MEMBERS));
    for (int i = 0; i < z.count; i++) {
        assert_string_equal(z.member[i].name, MEMBERS[i].name);
        assert_int_equal(lki_zip_read(&z, i, &content), LK_OK);
        assert_int_equal(content.size, strlen(MEMBERS[i].data));
        assert_memory_equal(content.data, MEMBERS[i].data, content.size);
        lki_bytes_free(&content);
    }
    lki_zip_close(&z);
    lki_bytes_free(&b);
}

/* The archive with one member "a" holding "x", byte by byte: 1980-01-01, stored, no 64-bit parts, data at 64. */
TEST(every_byte)
{
    static const uint8_t local[] = {0x50, 0x4b, 3, 4, 20, 0, 0, 0, 0, 0, 0,  0, 0x21, 0,    0x83, 0x16, 0xdc, 0x8c,
                                    1,    0,    0, 0, 1,  0, 0, 0, 1, 0, 33, 0, 'a',  0x35, 0xd9, 29,   0};
    static const uint8_t rest[] = {0x78, 0x50, 0x4b, 1, 2, 0x14, 3,    0x14, 0, 0, 0,    0,    0,    0,    0, 0x21, 0, 0x83,
                                   0x16, 0xdc, 0x8c, 1, 0, 0,    0,    1,    0, 0, 0,    1,    0,    0,    0, 0,    0, 0,
                                   0,    0,    0,    0, 0, 0xa4, 0x81, 0,    0, 0, 0,    0x61, 0x50, 0x4b, 5, 6,    0, 0,
                                   0,    0,    1,    0, 1, 0,    0x2f, 0,    0, 0, 0x41, 0,    0,    0,    0, 0};
    lki_zip_out         *z;
    lki_bytes            b;
    assert_int_equal(lki_zip_out_new(&z), LK_OK);
    assert_int_equal(lki_zip_out_add(z, "a", "x", 1), LK_OK);
    assert_int_equal(lki_zip_out_finish(z, &b), LK_OK);
    assert_int_equal(b.size, 64 + sizeof rest);
    assert_memory_equal(b.data, local, sizeof local);
    for (size_t i = sizeof local; i < 64; i++)
        assert_int_equal(b.data[i], 0);
    assert_memory_equal(b.data + 64, rest, sizeof rest);
    lki_bytes_free(&b);
}

TEST(data_is_aligned_whatever_the_names)
{
    for (int length = 1; length < 140; length++) {
        char         name[200] = {0};
        lki_zip_out *z;
        lki_bytes    b;
        lki_zip      back;
        memset(name, 'n', (size_t)length);
        assert_int_equal(lki_zip_out_new(&z), LK_OK);
        assert_int_equal(lki_zip_out_add(z, "first", name, (size_t)length), LK_OK);
        assert_int_equal(lki_zip_out_add(z, name, "data", 4), LK_OK);
        assert_int_equal(lki_zip_out_finish(z, &b), LK_OK);
        assert_int_equal(lki_zip_parse("test.zip", b.data, b.size, &back), LK_OK);
        for (int i = 0; i < 2; i++) {
            const uint8_t *p = b.data + back.member[i].offset;
            assert_int_equal((back.member[i].offset + 30 + lki_get_le(p + 26, 2) + lki_get_le(p + 28, 2)) % 64, 0);
        }
        lki_zip_close(&back);
        lki_bytes_free(&b);
    }
}

TEST(the_same_bytes_every_time)
{
    lki_bytes a = archive(), b = archive();
    assert_int_equal(a.size, b.size);
    assert_memory_equal(a.data, b.data, a.size);
    lki_bytes_free(&a);
    lki_bytes_free(&b);
}

/* More members than 16 bits count: the 64-bit end record. */
TEST(many_members)
{
    enum { MANY = 70000 };
    lki_zip_out *z;
    lki_bytes    b, content;
    lki_zip      back;
    char         name[32];
    assert_int_equal(lki_zip_out_new(&z), LK_OK);
    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof name, "member %d", i);
        assert_int_equal(lki_zip_out_add(z, name, &i, sizeof i), LK_OK);
    }
    assert_int_equal(lki_zip_out_finish(z, &b), LK_OK);
    assert_int_equal(lki_zip_parse("test.zip", b.data, b.size, &back), LK_OK);
    assert_int_equal(back.count, MANY);
    for (int i = 0; i < MANY; i += 6999) {
        snprintf(name, sizeof name, "member %d", i);
        assert_string_equal(back.member[i].name, name);
        assert_int_equal(lki_zip_read(&back, i, &content), LK_OK);
        assert_memory_equal(content.data, &i, sizeof i);
        lki_bytes_free(&content);
    }
    lki_zip_close(&back);
    lki_bytes_free(&b);
}

TEST(no_members)
{
    lki_zip_out *z;
    lki_bytes    b;
    lki_zip      back;
    assert_int_equal(lki_zip_out_new(&z), LK_OK);
    assert_int_equal(lki_zip_out_finish(z, &b), LK_OK);
    assert_int_equal(b.size, 22);
    assert_int_equal(lki_zip_parse("test.zip", b.data, b.size, &back), LK_OK);
    assert_int_equal(back.count, 0);
    lki_zip_close(&back);
    lki_bytes_free(&b);
    lki_zip_out_free(NULL);
}

TEST(names_that_are_refused)
{
    lki_zip_out *z;
    static char  name[65537];
    memset(name, 'n', sizeof name - 1);
    static const struct {
        const char *name, *words;
    } cases[] = {
        {"", "zip: a member's name of 0 bytes: should have 1 to 65535"},
        {name, "zip: a member's name of 65536 bytes"},
        {"\xff", "zip: a member's name is not UTF-8"},
    };
    assert_int_equal(lki_zip_out_new(&z), LK_OK);
    for (int i = 0; i < LKI_COUNT(cases); i++) {
        assert_int_equal(lki_zip_out_add(z, cases[i].name, "", 0), LK_EINVAL);
        assert_non_null(strstr(lk_error(), cases[i].words));
        lk_clear_error();
    }
    lki_zip_out_free(z);
}

static int attempt(void)
{
    lki_zip_out *z;
    lki_bytes    b;
    char         data[600] = {0};
    if (lki_zip_out_new(&z) != LK_OK) return 0;
    const lk_status first = lki_zip_out_add(z, "one", data, sizeof data), second = lki_zip_out_add(z, "two", data, sizeof data);
    const lk_status last = lki_zip_out_finish(z, &b);
    lki_bytes_free(&b);
    return first == LK_OK && second == LK_OK && last == LK_OK;
}

TEST(without_memory) { assert_true(check_every_allocation(attempt) >= 4); }

TESTS(cmocka_unit_test(there_and_back), cmocka_unit_test(every_byte), cmocka_unit_test(data_is_aligned_whatever_the_names),
      cmocka_unit_test(the_same_bytes_every_time), cmocka_unit_test(many_members), cmocka_unit_test(no_members),
      cmocka_unit_test(names_that_are_refused), cmocka_unit_test(without_memory))
