/* Sorted tables: written and read in blocks of all sizes, and malformed files. */
#include "format/table.h"
#include "check.h"
#include "format/crc32c.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MANY = 500 };

typedef struct sample {
    lki_table_entry entry[MANY];
    char            key[MANY][64];
    int             count;
} sample;

static sample *some(int count)
{
    static sample s;
    s.count = count;
    for (int i = 0; i < count; i++) {
        if (i) snprintf(s.key[i], sizeof s.key[i], "model/layer-%03d/%s", i / 2, i % 2 ? "kernel" : "bias");
        else s.key[i][0] = 0;
        s.entry[i] = (lki_table_entry){s.key[i], strlen(s.key[i]), (const uint8_t *)s.key[i], (size_t)i % 7};
    }
    return &s;
}

static lki_bytes table_of(const sample *s, size_t block_size)
{
    lki_sink out = {0};
    lki_table_write(s->count, s->entry, block_size, &out);
    assert_false(out.failed);
    return (lki_bytes){out.data, out.size};
}

static lk_status parse(lki_bytes b, lki_table *t)
{
    uint8_t *exact = malloc(b.size + !b.size); /* so that a sanitizer sees a read past it */
    memcpy(exact, b.data, b.size);
    const lk_status status = lki_table_parse("test.index", exact, b.size, t);
    for (int i = 0; status == LK_OK && i < t->count; i++) /* values point into it: touch them before it goes */
        if (t->entry[i].size) (void)*(volatile const uint8_t *)(t->entry[i].value + t->entry[i].size - 1);
    free(exact);
    return status;
}

static void must_fail(lki_bytes b, lk_status code, const char *words)
{
    lki_table     t;
    const int64_t before = lki_memory_in_use();
    assert_int_equal(parse(b, &t), code);
    assert_int_equal(lk_error_code(), code);
    assert_non_null(strstr(lk_error(), "test.index: "));
    if (!strstr(lk_error(), words)) fail_msg("%s: should say: %s", lk_error(), words);
    assert_int_equal(lki_memory_in_use(), before);
    lk_clear_error();
}

TEST(there_and_back)
{
    static const size_t sizes[] = {1, 40, 256, 4096, 1 << 20};
    static const int    counts[] = {0, 1, 2, 16, 17, 33, MANY};
    for (int b = 0; b < LKI_COUNT(sizes); b++)
        for (int c = 0; c < LKI_COUNT(counts); c++) {
            const sample *s = some(counts[c]);
            lki_bytes     bytes = table_of(s, sizes[b]);
            lki_table     t;
            assert_int_equal(lki_table_parse("test.index", bytes.data, bytes.size, &t), LK_OK);
            assert_int_equal(t.count, s->count);
            for (int i = 0; i < s->count; i++) {
                assert_string_equal(t.entry[i].key, s->key[i]);
                assert_int_equal(t.entry[i].size, s->entry[i].size);
                assert_memory_equal(t.entry[i].value, s->entry[i].value, s->entry[i].size);
            }
            lki_table_free(&t);
            lki_bytes_free(&bytes);
        }
}

TEST(any_bytes_are_a_key)
{
    static const lki_table_entry entry[] = {
        {"a\0b", 3, (const uint8_t *)"1", 1}, {"a\0c", 3, (const uint8_t *)"2", 1}, {"a\xff", 2, NULL, 0}};
    lki_sink  out = {0};
    lki_table t;
    lki_table_write(3, entry, 1000, &out);
    assert_int_equal(lki_table_parse("test.index", out.data, out.size, &t), LK_OK);
    assert_int_equal(t.count, 3);
    assert_memory_equal(t.entry[1].key, "a\0c", 4);
    lki_table_free(&t);
    lki_sink_free(&out);
}

/* ---- files that lie ---- */

/* Make the checksum of the block of `size` bytes at `offset` right again. */
static void sign(lki_bytes b, size_t offset, size_t size)
{
    const uint32_t crc = lki_crc32c_mask(lki_crc32c(0, b.data + offset, size + 1));
    for (int i = 0; i < 4; i++)
        b.data[offset + size + 1 + (size_t)i] = (uint8_t)(crc >> 8 * i);
}

/* A table of one block with these bytes, which goes with all checksums in order. */
static lki_bytes table_with(const void *block, size_t size, int handles)
{
    lki_sink out = {0}, index = {0};
    lki_sink_bytes(&out, block, size);
    lki_sink_fixed(&out, 0, 5);
    const size_t meta = out.size;
    lki_sink_bytes(&out, "\0\0\0\0\1\0\0\0\0\0\0\0\0", 13);
    for (int i = 0; i < handles; i++) { /* "k", then "l", ... */
        lki_sink handle = {0};
        lki_sink_varint(&handle, 0);
        lki_sink_varint(&handle, size);
        lki_sink_varint(&index, 0);
        lki_sink_varint(&index, 1);
        lki_sink_varint(&index, handle.size);
        lki_sink_fixed(&index, (uint64_t)('k' + i), 1);
        lki_sink_bytes(&index, handle.data, handle.size);
        lki_sink_free(&handle);
    }
    lki_sink_bytes(&index, "\0\0\0\0\1\0\0\0", 8);
    const size_t at = out.size, index_size = index.size;
    lki_sink_bytes(&out, index.data, index.size);
    lki_sink_fixed(&out, 0, 5);
    const size_t footer = out.size;
    lki_sink_varint(&out, meta);
    lki_sink_varint(&out, 8);
    lki_sink_varint(&out, at);
    lki_sink_varint(&out, index_size);
    while (out.size < footer + 40)
        lki_sink_fixed(&out, 0, 1);
    lki_sink_fixed(&out, 0xdb4775248b80fb57, 8);
    lki_sink_free(&index);
    const lki_bytes b = {out.data, out.size};
    sign(b, 0, size);
    sign(b, meta, 8);
    sign(b, at, index_size);
    return b;
}

#define ENTRY_A "\0\1\1aA"
#define ENTRY_B "\0\1\1bB"
#define RESTARTS "\0\0\0\0\1\0\0\0"

TEST(lies_about_entries)
{
    static const struct {
        const char *block;
        size_t      size;
        const char *words;
    } lies[] = {
        {ENTRY_A ENTRY_B RESTARTS, 18, NULL},
        {ENTRY_B ENTRY_A RESTARTS, 18, "does not come after"},
        {ENTRY_A ENTRY_A RESTARTS, 18, "does not come after"},
        {"\1\1\1aA" RESTARTS, 13, "shares more"},
        {"\0\x7f\1aA" RESTARTS, 13, "longer than its block"},
        {"\0\1\x7f"
         "aA" RESTARTS,
         13, "longer than its block"},
        {"\0\1\xff\xff\xff\xff\xff\xff\xff\xff\xff\1"
         "aA" RESTARTS,
         22, "longer than its block"},
        {"\0\xff\xff\xff\xff\xff\xff\xff\xff\xff\1\1"
         "aA" RESTARTS,
         22, "longer than its block"},
        {"\0\xff" RESTARTS, 10, "cut off"},
        {"\0\0\0\0\2\0\0\0", 8, "more restarts"},
        {"\0\0\0\0\xff\xff\xff\xff", 8, "more restarts"},
        {"\0\0\0", 3, "without room"},
    };
    for (int i = 0; i < LKI_COUNT(lies); i++) {
        lki_bytes b = table_with(lies[i].block, lies[i].size, 1);
        lki_table t;
        if (lies[i].words) {
            must_fail(b, LK_EFORMAT, lies[i].words);
        } else {
            assert_int_equal(parse(b, &t), LK_OK);
            assert_int_equal(t.count, 2);
            lki_table_free(&t);
        }
        lki_bytes_free(&b);
    }
    lki_bytes twice = table_with(RESTARTS, 8, 2); /* an empty block, listed twice: time would grow with the square of the size */
    must_fail(twice, LK_EFORMAT, "before the end of the one before");
    lki_bytes_free(&twice);
}

/* Each entry shares all of the key before and adds one byte: keys grow with the square of the file. */
TEST(keys_that_grow_without_end)
{
    lki_sink block = {0};
    for (int i = 0; i < 5000; i++) {
        lki_sink_varint(&block, (uint64_t)i);
        lki_sink_varint(&block, 1);
        lki_sink_varint(&block, 0);
        lki_sink_bytes(&block, "x", 1);
    }
    lki_sink_bytes(&block, RESTARTS, 8);
    lki_bytes b = table_with(block.data, block.size, 1);
    must_fail(b, LK_EFORMAT, "times the size of the file");
    lki_bytes_free(&b);
    lki_sink_free(&block);
}

TEST(lies_about_blocks)
{
    lki_bytes b = table_with(ENTRY_A RESTARTS, 13, 1);
    b.data[13] = 1; /* snappy */
    sign(b, 0, 13);
    must_fail(b, LK_EUNSUPPORTED, "snappy");
    b.data[13] = 0;
    must_fail(b, LK_EFORMAT, "CRC-32C");
    sign(b, 0, 13);
    b.data[0] ^= 1;
    must_fail(b, LK_EFORMAT, "CRC-32C");
    b.data[0] ^= 1;
    const size_t footer = b.size - 48;
    b.data[footer + 2] = 0x7f; /* where the index block is */
    must_fail(b, LK_EFORMAT, "does not fit");
    memset(b.data + footer, 0xff, 40);
    must_fail(b, LK_EFORMAT, "cut off");
    b.data[b.size - 1] ^= 1;
    must_fail(b, LK_EFORMAT, "not those of a table");
    must_fail((lki_bytes){b.data, 47}, LK_EFORMAT, "too short");
    must_fail((lki_bytes){b.data, 0}, LK_EFORMAT, "too short");
    lki_bytes_free(&b);
}

static int write_and_parse(void)
{
    lki_sink      out = {0};
    lki_table     t = {0};
    const sample *s = some(40);
    lki_table_write(s->count, s->entry, 100, &out);
    const int good = !out.failed && lki_table_parse("test.index", out.data, out.size, &t) == LK_OK && t.count == 40;
    lki_table_free(&t);
    lki_sink_free(&out);
    return good;
}

TEST(without_memory) { assert_true(check_every_allocation(write_and_parse) > 10); }

TESTS(cmocka_unit_test(there_and_back), cmocka_unit_test(any_bytes_are_a_key), cmocka_unit_test(lies_about_entries),
      cmocka_unit_test(keys_that_grow_without_end), cmocka_unit_test(lies_about_blocks), cmocka_unit_test(without_memory))
