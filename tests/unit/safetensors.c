/* safetensors files: every type, read and written, files of the real library, malformed files, and lack of memory.
 * tests/fault/hostile.c has more malformed ones. */
#include "format/safetensors.h"
#include "check.h"
#include "core/shape.h"
#include "folder.h"
#include "format/npy.h"

static lk_status parse(const char *header, size_t data, lki_arrays *out)
{
    const size_t n = strlen(header);
    uint8_t     *bytes = malloc(8 + n + data); /* of the exact size, so that a sanitizer sees a read past it */
    for (int i = 0; i < 8; i++)
        bytes[i] = (uint8_t)((uint64_t)n >> 8 * i);
    memcpy(bytes + 8, header, n);
    for (size_t i = 0; i < data; i++)
        bytes[8 + n + i] = (uint8_t)(0xf8 + i);
    const lk_status status = lki_safetensors_parse("test.safetensors", bytes, 8 + n + data, out);
    free(bytes);
    return status;
}

static void refuses(const char *header, size_t data, lk_status code, const char *says)
{
    lki_arrays    a;
    const int64_t before = lki_memory_in_use();
    lk_clear_error();
    assert_int_equal(parse(header, data, &a), code);
    assert_int_equal(lk_error_code(), code);
    if (!strstr(lk_error(), says)) print_error("%s: not \"%s\"\n", lk_error(), says);
    assert_non_null(strstr(lk_error(), says));
    assert_non_null(strstr(lk_error(), "test.safetensors"));
    assert_int_equal(a.count, 0);
    assert_int_equal(lki_memory_in_use(), before);
    lk_clear_error();
}

TEST(types)
{
    static const struct {
        const char *name;
        int         bytes;
        lk_dtype    dtype;
        int64_t     value; /* of f8 f9 ... */
    } types[] = {{"I8", 1, LK_I32, -8},      {"U8", 1, LK_U8, 0xf8},         {"I16", 2, LK_I32, (int16_t)0xf9f8},
                 {"U16", 2, LK_I32, 0xf9f8}, {"U32", 4, LK_I64, 0xfbfaf9f8}, {"I32", 4, LK_I32, (int32_t)0xfbfaf9f8},
                 {"BOOL", 1, LK_BOOL, 1}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        char       header[200];
        lki_arrays a;
        int64_t    value = 0;
        snprintf(header, sizeof header, "{\"x\":{\"dtype\":\"%s\",\"shape\":[1],\"data_offsets\":[0,%d]}}", types[i].name,
                 types[i].bytes);
        assert_int_equal(parse(header, (size_t)types[i].bytes, &a), LK_OK);
        assert_int_equal(a.count, 1);
        assert_int_equal(a.item[0].array.dtype, types[i].dtype);
        memcpy(&value, a.item[0].array.data, lk_dtype_bytes(types[i].dtype));
        if (types[i].dtype == LK_I32) value = (int32_t)value;
        assert_int_equal(value, types[i].value);
        lki_arrays_free(&a);
    }
    refuses("{\"x\":{\"dtype\":\"U64\",\"shape\":[1],\"data_offsets\":[0,8]}}", 8, LK_EFORMAT, "too large for i64");
}

TEST(headers)
{
    lki_arrays a;
    assert_int_equal(parse("{}", 0, &a), LK_OK);
    assert_int_equal(a.count, 0);
    lki_arrays_free(&a);
    assert_int_equal(parse("{ \"__metadata__\": {\"b\": \"2\", \"a\": \"\xc3\xa4\"} }   ", 0, &a), LK_OK);
    assert_int_equal(a.notes, 2);
    assert_string_equal(a.note[0].key, "b");
    assert_string_equal(a.note[1].value, "\xc3\xa4");
    lki_arrays_free(&a);
    refuses(" {}", 0, LK_EFORMAT, "does not begin with '{'");
    refuses("", 0, LK_EFORMAT, "does not begin with '{'");
    refuses("{", 0, LK_EFORMAT, "line 1");
    refuses("{\"x\": 3}", 0, LK_EFORMAT, "\"x\": it should be");
    refuses("{\"x\": {}}", 0, LK_EFORMAT, "no \"dtype\"");
    refuses("{\"x\": {\"dtype\": \"U8\"}}", 0, LK_EFORMAT, "no \"shape\"");
    refuses("{\"x\": {\"dtype\": \"U8\", \"shape\": []}}", 0, LK_EFORMAT, "\"data_offsets\": [begin, end]");
    refuses("{\"x\": {\"dtype\": \"U8\", \"shape\": [1.5], \"data_offsets\": [0, 1]}}", 1, LK_EFORMAT, "sizes, 0 and more");
    refuses("{\"x\": {\"dtype\": \"U8\", \"shape\": [], \"data_offsets\": [0, 1, 2]}}", 1, LK_EFORMAT, "[begin, end]");
    refuses("{\"x\": {\"dtype\": \"F32\", \"shape\": [3], \"data_offsets\": [0, 8]}}", 8, LK_EFORMAT,
            "has 8 bytes; shape [3] of F32 has 12");
    refuses("{\"__metadata__\": []}", 0, LK_EFORMAT, "should be an object");
    refuses("{\"__metadata__\": {\"a\": 1}}", 0, LK_EFORMAT, "should be texts");
    refuses("{\"x\": {\"dtype\": \"F4\", \"shape\": [2], \"data_offsets\": [0, 1]}}", 1, LK_EUNSUPPORTED, "F4");
}

/* ---- the way back ---- */

static void fill(lki_arrays *a)
{
    static const lk_dtype types[] = {LK_U8, LK_F64, LK_BF16, LK_BOOL, LK_F32, LK_I64, LK_F16, LK_I32};
    *a = (lki_arrays){0};
    for (int i = 0; i < 8; i++) {
        char     name[32];
        uint8_t  bytes[2 * 3 * 8];
        lk_shape shape = i == 3   ? (lk_shape){1, {6}}
                         : i == 5 ? (lk_shape){0, {0}}
                         : i == 6 ? (lk_shape){2, {0, 4}}
                                  : (lk_shape){2, {2, 3}};
        for (size_t b = 0; b < sizeof bytes; b++)
            bytes[b] = types[i] == LK_BOOL ? b & 1 : (uint8_t)(b * 37 + (size_t)i); /* NaNs among them */
        snprintf(name, sizeof name, "layer \"%d\"/%s", i, lk_dtype_name(types[i]));
        lki_arrays_copy(a, name, types[i], &shape, bytes);
    }
    lki_arrays_note(a, "format", "pt");
    lki_arrays_close("test", a);
}

static void assert_same(const lki_arrays *a, const lki_arrays *b)
{
    assert_int_equal(a->count, b->count);
    assert_int_equal(a->notes, b->notes);
    for (int i = 0; i < a->count; i++) {
        const lki_array *x = &a->item[i].array, *y = &b->item[i].array;
        assert_string_equal(a->item[i].name, b->item[i].name);
        assert_int_equal(x->dtype, y->dtype);
        assert_true(lki_shape_equal(&x->shape, &y->shape));
        assert_memory_equal(x->data, y->data, (size_t)lki_array_bytes(x));
    }
}

TEST(there_and_back)
{
    lki_arrays a, b;
    char       folder[64];
    snprintf(folder, sizeof folder, "%s", folder_new());
    const char *path = folder_file(folder, "a.safetensors");
    fill(&a);
    assert_int_equal(lki_safetensors_write(path, &a), LK_OK);
    assert_int_equal(lki_safetensors_read(path, &b), LK_OK);
    assert_same(&a, &b);
    lki_bytes bytes;
    assert_int_equal(lki_file_read(path, &bytes), LK_OK);
    assert_int_equal(lki_get_le(bytes.data, 8) % 8, 0); /* every array lies where its type may be read */
    lki_arrays cut;
    for (size_t n = 0; n < bytes.size; n++) { /* none of its beginnings is one */
        assert_true(lki_safetensors_parse("cut", bytes.data, n, &cut) != LK_OK);
        lk_clear_error();
    }
    lki_bytes_free(&bytes);
    lki_arrays_free(&b);
    /* the other formats of arrays, of what they can hold */
    path = folder_file(folder, "a.npz");
    assert_int_equal(lki_npz_write_all(path, &a), LK_OK);
    assert_int_equal(lki_npz_read_all(path, &b), LK_OK);
    b.notes = a.notes;
    assert_same(&a, &b);
    b.notes = 0;
    lki_arrays_free(&b);
    path = folder_file(folder, "a.ckpt");
    assert_int_equal(lki_bundle_write_all(path, &a), LK_OK);
    assert_int_equal(lki_bundle_read_all(path, &b), LK_OK);
    b.notes = a.notes;
    assert_same(&a, &b);
    b.notes = 0;
    lki_arrays_free(&b);
    lki_arrays_free(&a);
    folder_remove(folder);
}

TEST(names)
{
    lki_arrays a = {0};
    char       folder[64];
    snprintf(folder, sizeof folder, "%s", folder_new());
    const char *path = folder_file(folder, "a.safetensors");
    assert_int_equal(lki_arrays_copy(&a, "__metadata__", LK_U8, &(lk_shape){0}, "x"), LK_OK);
    assert_int_equal(lki_safetensors_write(path, &a), LK_EINVAL);
    assert_non_null(strstr(lk_error(), "__metadata__"));
    lk_clear_error();
    a.item[0].name[0] = '\xff';
    assert_int_equal(lki_safetensors_write(path, &a), LK_EINVAL);
    assert_non_null(strstr(lk_error(), "not UTF-8"));
    lk_clear_error();
    assert_int_not_equal(access(path, F_OK), 0);
    assert_int_equal(lki_arrays_copy(&a, "b", LK_U8, &(lk_shape){0}, "x"), LK_OK);
    assert_int_equal(lki_arrays_copy(&a, "b", LK_U8, &(lk_shape){0}, "y"), LK_OK);
    assert_int_equal(lki_arrays_close("list", &a), LK_EFORMAT);
    assert_non_null(strstr(lk_error(), "two arrays are called \"b\""));
    lk_clear_error();
    lki_arrays_free(&a);
    assert_int_equal(lki_safetensors_read(folder_file(folder, "none"), &a), LK_ENOTFOUND);
    lk_clear_error();
    folder_remove(folder);
}

/* ---- memory ends ---- */

static char path_of_all[128];

static int read_all(void)
{
    lki_arrays a;
    const bool good = lki_safetensors_read(path_of_all, &a) == LK_OK;
    if (good) lki_arrays_free(&a);
    return good;
}

static lki_arrays to_write;
static int        write_all(void) { return lki_safetensors_write(path_of_all, &to_write) == LK_OK; }

TEST(every_allocation_fails_once)
{
    char folder[64];
    snprintf(folder, sizeof folder, "%s", folder_new());
    snprintf(path_of_all, sizeof path_of_all, "%s", folder_file(folder, "a.safetensors"));
    fill(&to_write);
    assert_true(check_every_allocation(write_all) > 1);
    assert_true(check_every_allocation(read_all) > 10);
    lki_arrays_free(&to_write);
    folder_remove(folder);
}

/* ---- the real ones ---- */

TEST(golden)
{
    const char *golden = folder_or_skip("LOCKSTEP_GOLDEN");
    char        path[512];
    lki_arrays  theirs, values;
    snprintf(path, sizeof path, "%s/files/arrays.safetensors", golden);
    assert_int_equal(lki_safetensors_read(path, &theirs), LK_OK);
    snprintf(path, sizeof path, "%s/files/safetensors_values.npz", golden);
    assert_int_equal(lki_npz_read_all(path, &values), LK_OK);
    assert_int_equal(theirs.notes, 2);
    theirs.notes = 0;
    assert_same(&values, &theirs);
    theirs.notes = 2;
    lki_arrays_free(&theirs);
    lki_arrays_free(&values);
    static const char *const FILES[] = {"arrays.npz", "arrays_compressed.npz"};
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/files/%s", golden, FILES[i]);
        assert_int_equal(lki_npz_read_all(path, i ? &theirs : &values), LK_OK);
    }
    assert_same(&values, &theirs);
    lki_arrays_free(&theirs);
    lki_arrays_free(&values);
}

TESTS(cmocka_unit_test(types), cmocka_unit_test(headers), cmocka_unit_test(there_and_back), cmocka_unit_test(names),
      cmocka_unit_test(every_allocation_fails_once), cmocka_unit_test(golden))
