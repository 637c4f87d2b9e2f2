/* npy files: every type, order and version, read and written, and malformed files. */
#include "format/npy.h"
#include "check.h"
#include "core/memory.h"
#include "core/shape.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A version-1 file with this header and `data` bytes 0, 1, 2, ... after it. */
static lki_bytes file_of(const char *header, size_t data)
{
    static uint8_t bytes[4096];
    const size_t   n = strlen(header);
    memcpy(bytes, "\x93NUMPY\x01\x00", 8);
    bytes[8] = (uint8_t)n;
    bytes[9] = (uint8_t)(n >> 8);
    memcpy(bytes + 10, header, n);
    for (size_t i = 0; i < data; i++)
        bytes[10 + n + i] = (uint8_t)i;
    return (lki_bytes){bytes, 10 + n + data};
}

static lk_status parse(lki_bytes b, lki_array *a)
{
    uint8_t *exact = malloc(b.size + !b.size); /* of the exact size, so that a sanitizer sees a read past it */
    memcpy(exact, b.data, b.size);
    const lk_status status = lki_npy_parse("test.npy", exact, b.size, a);
    free(exact);
    return status;
}

static void must_fail(lki_bytes b, lk_status code)
{
    lki_array     a;
    const int64_t before = lki_memory_in_use();
    lk_clear_error();
    assert_int_equal(parse(b, &a), code);
    assert_int_equal(lk_error_code(), code);
    assert_non_null(strstr(lk_error(), "test.npy: "));
    assert_null(a.data);
    assert_int_equal(lki_memory_in_use(), before);
    lk_clear_error();
}

TEST(orders_and_bytes)
{
    lki_array a;
    assert_int_equal(parse(file_of("{'descr': '<u2', 'fortran_order': False, 'shape': (2, 3), }\n", 12), &a), LK_OK);
    assert_int_equal(a.dtype, LK_I32);
    const int32_t plain[] = {0x0100, 0x0302, 0x0504, 0x0706, 0x0908, 0x0b0a};
    assert_memory_equal(a.data, plain, sizeof plain);
    lki_array_free(&a);
    assert_int_equal(parse(file_of("{\"shape\":(2L,3L),'fortran_order':True,'descr':'>u2'}", 12), &a), LK_OK);
    const int32_t turned[] = {0x0001, 0x0405, 0x0809, 0x0203, 0x0607, 0x0a0b};
    assert_memory_equal(a.data, turned, sizeof turned);
    lki_array_free(&a);
    assert_int_equal(parse(file_of("{'descr': '|b1', 'fortran_order': False, 'shape': (3,), }", 3), &a), LK_OK);
    assert_memory_equal(a.data, "\0\1\1", 3);
    lki_array_free(&a);
    assert_int_equal(parse(file_of("{'descr': '<f8', 'fortran_order': True, 'shape': (), }", 8), &a), LK_OK);
    assert_int_equal(a.shape.rank, 0);
    lki_array_free(&a);
}

TEST(there_and_back)
{
    char      path[] = "/tmp/lockstep-npy-XXXXXX";
    const int fd = mkstemp(path);
    uint8_t   data[8 * 24];
    assert_true(fd >= 0);
    close(fd);
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (uint8_t)(37 * i);
    const lk_shape shapes[] = {LK_SHAPE(), LK_SHAPE(24), LK_SHAPE(2, 0, 3), LK_SHAPE(2, 3, 4), LK_SHAPE(1, 2, 1, 2, 1, 2, 1, 3)};
    for (int dtype = 0; dtype < LK_DTYPE_COUNT; dtype++)
        for (int s = 0; s < LKI_COUNT(shapes); s++) {
            if (dtype == LK_BOOL)
                for (size_t i = 0; i < sizeof data; i++)
                    data[i] &= 1;
            lki_array in, out = {(lk_dtype)dtype, shapes[s], data};
            assert_int_equal(lki_npy_write(path, &out), LK_OK);
            assert_int_equal(lki_npy_read(path, &in), LK_OK);
            assert_int_equal(in.dtype, dtype);
            assert_true(lki_shape_equal(&in.shape, &shapes[s]));
            const size_t size = (size_t)lki_shape_size(&in.shape) * lk_dtype_bytes(in.dtype);
            if (size) assert_memory_equal(in.data, data, size);
            lki_array_free(&in);
        }
    remove(path);
    lki_array gone;
    assert_int_equal(lki_npy_read(path, &gone), LK_ENOTFOUND);
    lk_clear_error();
    lki_array nowhere = {LK_F32, LK_SHAPE(1), data};
    assert_int_equal(lki_npy_write("/nonexistent/x.npy", &nowhere), LK_EIO);
    lk_clear_error();
}

TEST(cut_off_anywhere)
{
    const lki_bytes whole = file_of("{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }   \n", 48);
    for (size_t n = 0; n < whole.size; n++)
        must_fail((lki_bytes){whole.data, n}, LK_EFORMAT);
    must_fail((lki_bytes){whole.data, whole.size + 1}, LK_EFORMAT);
    lki_array a;
    assert_int_equal(parse(whole, &a), LK_OK);
    lki_array_free(&a);
}

TEST(headers_that_lie)
{
    static const struct {
        const char *header;
        lk_status   code;
    } cases[] = {
        {"", LK_EFORMAT},
        {"{", LK_EFORMAT},
        {"{}", LK_EFORMAT},
        {"{'descr': '<f4'}", LK_EFORMAT},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (3)", LK_EFORMAT},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (3,)} x", LK_EFORMAT},
        {"{'descr': '<f4', 'fortran_order': Maybe, 'shape': (3,)}", LK_EFORMAT},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': 3}", LK_EFORMAT},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (-3,)}", LK_EFORMAT},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1 2)}", LK_EFORMAT},
        {"{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (3,)}", LK_EFORMAT},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (3,), 'more': 1}", LK_EFORMAT},
        {"{'descr': '<f4, 'fortran_order': False, 'shape': (3,)}", LK_EUNSUPPORTED},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296)}", LK_EFORMAT},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 4)}", LK_EFORMAT},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999999,)}", LK_EFORMAT},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (18446744073709551615,)}", LK_EFORMAT},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (0, 9223372036854775807, 9223372036854775807)}", LK_EFORMAT},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1, 1, 1, 1, 1, 1, 1, 3)}", LK_EUNSUPPORTED},
        {"{'descr': '<c8', 'fortran_order': False, 'shape': (1,)}", LK_EUNSUPPORTED},
        {"{'descr': '<U4', 'fortran_order': False, 'shape': (1,)}", LK_EUNSUPPORTED},
        {"{'descr': '|O', 'fortran_order': False, 'shape': (1,)}", LK_EUNSUPPORTED},
        {"{'descr': '', 'fortran_order': False, 'shape': (1,)}", LK_EUNSUPPORTED},
        {"{'descr': '<f99999999999999999999', 'fortran_order': False, 'shape': (1,)}", LK_EUNSUPPORTED},
        {"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}", LK_EUNSUPPORTED},
        {"{'descr': '<f4444444444444444444444444444444444444444', 'fortran_order': False, 'shape': (1,)}", LK_EFORMAT},
    };
    for (int i = 0; i < LKI_COUNT(cases); i++)
        must_fail(file_of(cases[i].header, 12), cases[i].code);
    lki_bytes b = file_of("{'descr': '<u8', 'fortran_order': False, 'shape': (1,)}", 8);
    b.data[b.size - 1] = 0x80;
    must_fail(b, LK_EFORMAT);
    b = file_of("{'descr': '<u1', 'fortran_order': False, 'shape': (1,)}", 1);
    b.data[6] = 4;
    must_fail(b, LK_EFORMAT);
    b.data[6] = 2; /* a header length of four bytes, two of them text */
    must_fail(b, LK_EFORMAT);
}

/* No byte, however it is changed, may do more than make the file refused. */
TEST(any_byte_changed)
{
    lki_bytes     b = file_of("{'descr': '<i2', 'fortran_order': True, 'shape': (3, 4), }\n", 24);
    const int64_t before = lki_memory_in_use();
    for (size_t i = 0; i < b.size; i++)
        for (int value = 0; value < 256; value++) {
            const uint8_t kept = b.data[i];
            lki_array     a;
            b.data[i] = (uint8_t)value;
            if (parse(b, &a) == LK_OK) lki_array_free(&a);
            b.data[i] = kept;
            lk_clear_error();
        }
    assert_int_equal(lki_memory_in_use(), before);
}

static int attempt(void)
{
    lki_array a;
    if (parse(file_of("{'descr': '<f4', 'fortran_order': True, 'shape': (3, 4), }\n", 48), &a) != LK_OK) return 0;
    lki_array_free(&a);
    return 1;
}

TEST(without_memory) { assert_true(check_every_allocation(attempt) >= 1); }

/* The three forms of one array in the stored files hold the same values. */
TEST(stored_files)
{
    static const char *types[] = {"int8",   "int16",  "int32",   "int64",   "uint8",   "uint16",
                                  "uint32", "uint64", "float16", "float32", "float64", "bool"};
    static const char *forms[] = {"_fortran", "_big_endian"};
    const char        *folder = folder_or_skip("LOCKSTEP_GOLDEN");
    for (int t = 0; t < LKI_COUNT(types); t++) {
        char      path[512];
        lki_array a, b;
        snprintf(path, sizeof path, "%s/files/npy/%s.npy", folder, types[t]);
        assert_int_equal(lki_npy_read(path, &a), LK_OK);
        for (int f = 0; f < LKI_COUNT(forms); f++) {
            snprintf(path, sizeof path, "%s/files/npy/%s%s.npy", folder, types[t], forms[f]);
            if (access(path, R_OK) != 0) continue;
            assert_int_equal(lki_npy_read(path, &b), LK_OK);
            assert_int_equal(a.dtype, b.dtype);
            assert_true(lki_shape_equal(&a.shape, &b.shape));
            assert_memory_equal(a.data, b.data, (size_t)lki_shape_size(&a.shape) * lk_dtype_bytes(a.dtype));
            lki_array_free(&b);
        }
        lki_array_free(&a);
    }
}

TESTS(cmocka_unit_test(orders_and_bytes), cmocka_unit_test(there_and_back), cmocka_unit_test(cut_off_anywhere),
      cmocka_unit_test(headers_that_lie), cmocka_unit_test(any_byte_changed), cmocka_unit_test(without_memory),
      cmocka_unit_test(stored_files))
