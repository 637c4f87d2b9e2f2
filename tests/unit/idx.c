/* IDX files: every type, gzip, large ones, and malformed files. */
#include "format/idx.h"
#include "check.h"
#include "core/shape.h"
#include "folder.h"
#include "format/crc32.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char path_of_test[64];

static lk_status parse(const void *data, size_t size, lki_array *a)
{
    FILE *file = fopen(path_of_test, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
    return lki_idx_read(path_of_test, a);
}

static void must_fail(const void *data, size_t size, lk_status code)
{
    lki_array     a;
    const int64_t before = lki_memory_in_use();
    lk_clear_error();
    assert_int_equal(parse(data, size, &a), code);
    assert_non_null(strstr(lk_error(), "test.idx: "));
    assert_null(a.data);
    assert_int_equal(lki_memory_in_use(), before);
    lk_clear_error();
}

#define BYTES(...) (const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__})

TEST(types)
{
    static const struct {
        uint8_t  code;
        uint8_t  bytes[8];
        size_t   size;
        lk_dtype dtype;
        double   value;
    } cases[] = {
        {0x08, {200}, 1, LK_U8, 200},
        {0x09, {0xfe}, 1, LK_I32, -2},
        {0x0b, {0xff, 0x38}, 2, LK_I32, -200},
        {0x0c, {0, 1, 0, 2}, 4, LK_I32, 65538},
        {0x0d, {0xc0, 0x20, 0, 0}, 4, LK_F32, -2.5},
        {0x0e, {0x3f, 0xe0, 0, 0, 0, 0, 0, 0}, 8, LK_F64, 0.5},
    };
    for (int i = 0; i < LKI_COUNT(cases); i++) {
        uint8_t   file[16] = {0, 0, cases[i].code, 1, 0, 0, 0, 1};
        lki_array a;
        memcpy(file + 8, cases[i].bytes, cases[i].size);
        assert_int_equal(parse(file, 8 + cases[i].size, &a), LK_OK);
        assert_int_equal(a.dtype, cases[i].dtype);
        const double value = a.dtype == LK_U8    ? *(uint8_t *)a.data
                             : a.dtype == LK_I32 ? *(int32_t *)a.data
                             : a.dtype == LK_F32 ? *(float *)a.data
                                                 : *(double *)a.data;
        assert_true(value == cases[i].value);
        lki_array_free(&a);
    }
}

static const uint8_t IMAGES[] = {0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 3, 1, 2, 3, 4, 5, 6};

/* The same, by gzip. */
static const uint8_t PACKED[] = {0x1f, 0x8b, 0x08, 0, 0, 0, 0, 0,    0,    0xff, 0x01, 0x16, 0x00, 0xe9, 0xff,
                                 0,    0,    8,    3, 0, 0, 0, 2,    0,    0,    0,    1,    0,    0,    0,
                                 3,    1,    2,    3, 4, 5, 6, 0xb0, 0x43, 0x70, 0xfe, 0x16, 0,    0,    0};

TEST(cut_off_anywhere)
{
    lki_array a;
    for (size_t n = 0; n < sizeof IMAGES; n++)
        must_fail(IMAGES, n, LK_EFORMAT);
    for (size_t n = 0; n < sizeof PACKED; n++)
        must_fail(PACKED, n, LK_EFORMAT);
    assert_int_equal(parse(IMAGES, sizeof IMAGES, &a), LK_OK);
    const lk_shape shape = LK_SHAPE(2, 1, 3);
    assert_true(lki_shape_equal(&a.shape, &shape));
    assert_memory_equal(a.data, IMAGES + 16, 6);
    lki_array_free(&a);
    assert_int_equal(parse(PACKED, sizeof PACKED, &a), LK_OK);
    assert_memory_equal(a.data, IMAGES + 16, 6);
    lki_array_free(&a);
}

/* Elements that are read past the buffer of the stream, turned round and widened where they lie. */
enum { MANY = 150001, MANY_HEADER = 8, STORED = 65535 };

static uint8_t value_of(int i) { return (uint8_t)(i * 7 + i / 256); }

static size_t many_bytes(uint8_t *file, uint8_t code, int bytes)
{
    const uint8_t header[MANY_HEADER] = {0, 0, code, 1, 0, (uint8_t)(MANY >> 16), (uint8_t)(MANY >> 8), (uint8_t)MANY};
    memcpy(file, header, MANY_HEADER);
    for (int i = 0; i < MANY * bytes; i++)
        file[MANY_HEADER + i] = value_of(i);
    return MANY_HEADER + (size_t)MANY * (size_t)bytes;
}

TEST(many_elements)
{
    static uint8_t file[MANY_HEADER + 4 * MANY];
    static const struct {
        uint8_t code;
        int     bytes;
    } cases[] = {{0x09, 1}, {0x0b, 2}, {0x0c, 4}};
    for (int k = 0; k < LKI_COUNT(cases); k++) {
        lki_array    a;
        const size_t size = many_bytes(file, cases[k].code, cases[k].bytes);
        assert_int_equal(parse(file, size, &a), LK_OK);
        for (int i = 0; i < MANY; i++) {
            const uint8_t *p = file + MANY_HEADER + i * cases[k].bytes;
            const int32_t  want = cases[k].bytes == 1 ? (int8_t)p[0]
                                  : cases[k].bytes == 2
                                      ? (int16_t)(p[0] << 8 | p[1])
                                      : (int32_t)((uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3]);
            assert_int_equal(((const int32_t *)a.data)[i], want);
        }
        lki_array_free(&a);
        must_fail(file, size - 1, LK_EFORMAT);
    }
}

/* By gzip, without packing it: blocks of a byte, a length and its complement, then the bytes. */
static size_t stored(const uint8_t *src, size_t size, uint8_t *dst)
{
    static const uint8_t begin[10] = {0x1f, 0x8b, 8, [9] = 0xff};
    uint8_t             *p = memcpy(dst, begin, sizeof begin);
    p += sizeof begin;
    for (size_t at = 0, piece; at < size; at += piece, p += piece) {
        piece = size - at < STORED ? size - at : STORED;
        *p++ = at + piece == size;
        for (int i = 0; i < 4; i++)
            *p++ = (uint8_t)((i < 2 ? piece : ~piece) >> 8 * (i & 1));
        memcpy(p, src + at, piece);
    }
    const uint64_t tail = lki_crc32(0, src, size) | (uint64_t)size << 32;
    for (int i = 0; i < 8; i++)
        *p++ = (uint8_t)(tail >> 8 * i);
    return (size_t)(p - dst);
}

TEST(many_packed)
{
    static uint8_t plain[MANY_HEADER + MANY], packed[2 * sizeof plain];
    const size_t   half = sizeof plain / 2, size = many_bytes(plain, 0x08, 1), one = stored(plain, size, packed);
    lki_array      a;
    assert_int_equal(parse(packed, one, &a), LK_OK);
    assert_memory_equal(a.data, plain + MANY_HEADER, MANY);
    lki_array_free(&a);
    must_fail(packed, one - 1, LK_EFORMAT);
    packed[one - 8] ^= 1; /* of the checksum */
    must_fail(packed, one, LK_EFORMAT);
    const size_t first = stored(plain, half, packed), two = first + stored(plain + half, size - half, packed + first);
    assert_int_equal(parse(packed, two, &a), LK_OK); /* two parts, one after the other */
    assert_memory_equal(a.data, plain + MANY_HEADER, MANY);
    lki_array_free(&a);
}

TEST(fields_that_lie)
{
    must_fail(BYTES(0, 0, 8, 1, 0, 0, 0, 2, 1, 2, 3), LK_EFORMAT); /* one byte too many */
    must_fail(BYTES(1, 0, 8, 1, 0, 0, 0, 1, 1), LK_EFORMAT);
    must_fail(BYTES(0, 0, 7, 1, 0, 0, 0, 1, 1), LK_EFORMAT);
    must_fail(BYTES(0, 0, 8, 9, 0, 0, 0, 1, 1), LK_EUNSUPPORTED);
    must_fail(BYTES(0, 0, 8, 1, 0xff, 0xff, 0xff, 0xff), LK_EFORMAT);
    must_fail(BYTES(0, 0, 14, 3, 0x80, 0, 0, 0, 0x80, 0, 0, 0, 0x80, 0, 0, 0), LK_EFORMAT);
    must_fail(BYTES(0, 0, 14, 3, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff), LK_EFORMAT);
    lki_array a;
    assert_int_equal(parse(BYTES(0, 0, 8, 0, 7), &a), LK_OK); /* no axis: one element */
    lki_array_free(&a);
    assert_int_equal(parse(BYTES(0, 0, 8, 2, 0, 0, 0, 0, 0, 0, 0, 5), &a), LK_OK);
    assert_int_equal(lki_shape_size(&a.shape), 0);
    lki_array_free(&a);
}

TEST(any_byte_changed)
{
    uint8_t       file[sizeof PACKED];
    const int64_t before = lki_memory_in_use();
    for (size_t i = 0; i < sizeof PACKED; i++)
        for (int value = 0; value < 256; value++) {
            lki_array a;
            memcpy(file, PACKED, sizeof file);
            file[i] = (uint8_t)value;
            if (parse(file, sizeof file, &a) == LK_OK) lki_array_free(&a);
            lk_clear_error();
        }
    assert_int_equal(lki_memory_in_use(), before);
}

static int attempt(void)
{
    lki_array a;
    if (parse(PACKED, sizeof PACKED, &a) != LK_OK) return 0;
    lki_array_free(&a);
    return 1;
}

TEST(without_memory) { assert_true(check_every_allocation(attempt) >= 2); }

TEST(data_set)
{
    const char *folder = folder_or_skip("LOCKSTEP_DATA");
    char        path[512];
    lki_array   images, labels;
    snprintf(path, sizeof path, "%s/mnist/t10k-images-idx3-ubyte.gz", folder);
    assert_int_equal(lki_idx_read(path, &images), LK_OK);
    snprintf(path, sizeof path, "%s/mnist/t10k-labels-idx1-ubyte.gz", folder);
    assert_int_equal(lki_idx_read(path, &labels), LK_OK);
    const lk_shape shape = LK_SHAPE(10000, 28, 28);
    assert_true(lki_shape_equal(&images.shape, &shape));
    assert_int_equal(((uint8_t *)labels.data)[0], 7);
    assert_int_equal(((uint8_t *)labels.data)[9999], 6);
    lki_array_free(&images);
    lki_array_free(&labels);
}

static int begin(void **state)
{
    (void)state;
    const char *folder = folder_new();
    if (!folder) return -1;
    snprintf(path_of_test, sizeof path_of_test, "%s/test.idx", folder);
    return 0;
}

static int end(void **state)
{
    (void)state;
    *strrchr(path_of_test, '/') = 0;
    folder_remove(path_of_test);
    return 0;
}

int main(int argc, char **argv)
{
    (void)argc, (void)argv;
    const struct CMUnitTest tests[] = {cmocka_unit_test(types),           cmocka_unit_test(cut_off_anywhere),
                                       cmocka_unit_test(many_elements),   cmocka_unit_test(many_packed),
                                       cmocka_unit_test(fields_that_lie), cmocka_unit_test(any_byte_changed),
                                       cmocka_unit_test(without_memory),  cmocka_unit_test(data_set)};
    return cmocka_run_group_tests(tests, begin, end);
}
