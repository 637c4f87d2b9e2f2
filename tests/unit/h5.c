/* HDF5 files through the helper program: written and read, files of Keras and h5py, malformed files. */
#include "core/shape.h"
#include "format/json.h"
#include "format/npy.h"
#include "h5_samples.h"
#include <errno.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>

static const lki_h5_item *at(const lki_h5 *f, const char *name)
{
    const lki_h5_item *i = lki_h5_find(f, name);
    if (!i) fail_msg("no \"%s\"", name);
    return i;
}

static void array_is(const lki_h5 *f, const char *name, lki_h5_kind kind, lk_dtype dtype, lk_shape shape, const void *data)
{
    const lki_h5_item *i = at(f, name);
    char               a[LKI_SHAPE_TEXT], b[LKI_SHAPE_TEXT];
    assert_int_equal(i->kind, kind);
    assert_int_equal(i->type, LKI_H5_ARRAY);
    assert_string_equal(lk_dtype_name(i->array.dtype), lk_dtype_name(dtype));
    assert_string_equal(lki_shape_text(&i->array.shape, a), lki_shape_text(&shape, b));
    const size_t bytes = (size_t)lki_shape_size(&shape) * lk_dtype_bytes(dtype);
    if (bytes) assert_memory_equal(i->array.data, data, bytes);
}

static void texts_are(const lki_h5 *f, const char *name, lki_h5_type type, int count, const char *const *text)
{
    const lki_h5_item *i = at(f, name);
    assert_int_equal(i->type, type);
    assert_int_equal(i->texts, count);
    for (int t = 0; t < count; t++)
        assert_string_equal(i->text[t], text[t]);
}

#define TEXTS(...)                                                                                                                 \
    LKI_COUNT(((const char *[]){__VA_ARGS__})), (const char *[]) { __VA_ARGS__ }

/* ---- there and back ---------------------------------------------------------------------------------------------------------- */

static const float    F32[] = {1.5f, -2, 3e30f, 0, -0.0f, 6};
static const double   F64[] = {1.0 / 3, -1e300};
static const int32_t  I32[] = {-5, 2147483647};
static const int64_t  I64[] = {INT64_MIN, INT64_MAX};
static const uint8_t  U8[] = {0, 255, 7}, BOOL[] = {1, 0, 1};
static const uint16_t F16[] = {0x3e00, 0xc080, 0x7bff};

static lk_status add_array(lki_h5 *f, const char *name, lk_dtype dtype, lk_shape shape, const void *data)
{
    return lki_h5_add_array(f, name, dtype, &shape, data);
}

static lki_h5 sample(void)
{
    static const char *const names[] = {"conv2d", "dense_\xc3\xa9", ""};
    lki_h5                   f = {0};
    assert_int_equal(add_array(&f, "layers/dense/vars/0", LK_F32, LK_SHAPE(2, 3), F32), LK_OK);
    assert_int_equal(lki_h5_add_text(&f, "layers/dense/vars@name", "dense \xe2\x82\xac"), LK_OK);
    assert_int_equal(lki_h5_add_group(&f, "layers/flatten/vars"), LK_OK);
    assert_int_equal(add_array(&f, "f64", LK_F64, LK_SHAPE(2), F64), LK_OK);
    assert_int_equal(add_array(&f, "f16", LK_F16, LK_SHAPE(3), F16), LK_OK);
    assert_int_equal(add_array(&f, "i32", LK_I32, LK_SHAPE(2, 1), I32), LK_OK);
    assert_int_equal(add_array(&f, "i64", LK_I64, LK_SHAPE(2), I64), LK_OK);
    assert_int_equal(add_array(&f, "u8", LK_U8, LK_SHAPE(3), U8), LK_OK);
    assert_int_equal(add_array(&f, "bool", LK_BOOL, LK_SHAPE(1, 3), BOOL), LK_OK);
    assert_int_equal(add_array(&f, "scalar", LK_I64, LK_SHAPE(), I64), LK_OK);
    assert_int_equal(add_array(&f, "empty", LK_F32, LK_SHAPE(0, 4), NULL), LK_OK);
    assert_int_equal(add_array(&f, "empty@weight_names", LK_F64, LK_SHAPE(0), NULL), LK_OK);
    assert_int_equal(lki_h5_add_text(&f, "@keras_version", "3.0"), LK_OK);
    assert_int_equal(lki_h5_add_text(&f, "@empty", ""), LK_OK);
    assert_int_equal(lki_h5_add_texts(&f, "@layer_names", 3, names), LK_OK);
    assert_int_equal(lki_h5_add_texts(&f, "@no_names", 0, NULL), LK_OK);
    return f;
}

TEST(there_and_back)
{
    NEEDS_HELPER();
    lki_h5    f = sample(), back;
    lki_bytes b;
    if (lki_h5_write("test.h5", &f, &b) != LK_OK) fail_msg("%s", lk_error());
    if (lki_h5_read("test.h5", b.data, b.size, &back) != LK_OK) fail_msg("%s", lk_error());
    array_is(&back, "layers/dense/vars/0", LKI_H5_DATASET, LK_F32, LK_SHAPE(2, 3), F32);
    array_is(&back, "f64", LKI_H5_DATASET, LK_F64, LK_SHAPE(2), F64);
    array_is(&back, "f16", LKI_H5_DATASET, LK_F16, LK_SHAPE(3), F16);
    array_is(&back, "i32", LKI_H5_DATASET, LK_I32, LK_SHAPE(2, 1), I32);
    array_is(&back, "i64", LKI_H5_DATASET, LK_I64, LK_SHAPE(2), I64);
    array_is(&back, "u8", LKI_H5_DATASET, LK_U8, LK_SHAPE(3), U8);
    array_is(&back, "bool", LKI_H5_DATASET, LK_BOOL, LK_SHAPE(1, 3), BOOL);
    array_is(&back, "scalar", LKI_H5_DATASET, LK_I64, LK_SHAPE(), I64);
    array_is(&back, "empty", LKI_H5_DATASET, LK_F32, LK_SHAPE(0, 4), NULL);
    array_is(&back, "empty@weight_names", LKI_H5_ATTRIBUTE, LK_F64, LK_SHAPE(0), NULL);
    texts_are(&back, "layers/dense/vars@name", LKI_H5_TEXT, TEXTS("dense \xe2\x82\xac"));
    texts_are(&back, "@keras_version", LKI_H5_TEXT, TEXTS("3.0"));
    texts_are(&back, "@empty", LKI_H5_TEXT, TEXTS(""));
    texts_are(&back, "@layer_names", LKI_H5_TEXTS, TEXTS("conv2d", "dense_\xc3\xa9", ""));
    texts_are(&back, "@no_names", LKI_H5_TEXTS, 0, NULL);
    static const char *const groups[] = {"layers", "layers/dense", "layers/dense/vars", "layers/flatten", "layers/flatten/vars"};
    for (int i = 0; i < LKI_COUNT(groups); i++)
        assert_int_equal(at(&back, groups[i])->kind, LKI_H5_GROUP);
    assert_int_equal(back.count, f.count + 4); /* the groups on the way */
    for (int i = 1; i < back.count; i++)
        assert_true(strcmp(back.item[i - 1].name, back.item[i].name) < 0);
    lki_h5_free(&back);
    lki_h5_free(&f);
    lki_bytes_free(&b);
}

static void wait_for_the_next_second(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    t = (struct timespec){0, 1000000000 - t.tv_nsec};
    nanosleep(&t, NULL);
}

TEST(the_same_bytes_every_time)
{
    NEEDS_HELPER();
    lki_h5    f = sample();
    lki_bytes a, b;
    assert_int_equal(lki_h5_write("test.h5", &f, &a), LK_OK);
    wait_for_the_next_second(); /* times are stored in seconds, where they are stored */
    assert_int_equal(lki_h5_write("test.h5", &f, &b), LK_OK);
    assert_int_equal(a.size, b.size);
    assert_memory_equal(a.data, b.data, a.size);
    lki_bytes_free(&b);
    lki_bytes_free(&a);
    lki_bytes_free(&b);
    lki_h5_free(&f);
}

/* Larger than any buffer on the way, and texts that no attribute of fixed length would hold. */
TEST(large_values)
{
    NEEDS_HELPER();
    enum { MANY = 1 << 20, NAMES = 700 };
    lki_h5      f = {0}, back;
    lki_bytes   b;
    float      *values = malloc(MANY * sizeof *values);
    char       *config = malloc(300001), name[NAMES][120];
    const char *names[NAMES];
    for (int i = 0; i < MANY; i++)
        values[i] = (float)i * 0.25f;
    memset(config, 'c', 300000);
    config[300000] = 0;
    for (int i = 0; i < NAMES; i++) {
        snprintf(name[i], sizeof name[i], "%0*d", 119, i);
        names[i] = name[i];
    }
    assert_int_equal(add_array(&f, "w", LK_F32, LK_SHAPE(1024, 1024), values), LK_OK);
    assert_int_equal(lki_h5_add_text(&f, "@model_config", config), LK_OK);
    assert_int_equal(lki_h5_add_texts(&f, "@layer_names", NAMES, names), LK_OK);
    if (lki_h5_write("large.h5", &f, &b) != LK_OK) fail_msg("%s", lk_error());
    assert_int_equal(lki_h5_read("large.h5", b.data, b.size, &back), LK_OK);
    array_is(&back, "w", LKI_H5_DATASET, LK_F32, LK_SHAPE(1024, 1024), values);
    texts_are(&back, "@model_config", LKI_H5_TEXT, TEXTS(config));
    texts_are(&back, "@layer_names", LKI_H5_TEXTS, NAMES, names);
    free(values);
    free(config);
    lki_h5_free(&f);
    lki_h5_free(&back);
    lki_bytes_free(&b);
}

TEST(no_items)
{
    NEEDS_HELPER();
    lki_h5    f = {0}, back;
    lki_bytes b;
    assert_int_equal(lki_h5_write("none.h5", &f, &b), LK_OK);
    assert_int_equal(lki_h5_read("none.h5", b.data, b.size, &back), LK_OK);
    assert_int_equal(back.count, 0);
    lki_bytes_free(&b);
    lki_h5_free(&back);
}

TEST(what_cannot_be_added)
{
    lki_h5 f = {0};
    assert_int_equal(add_array(&f, "a", LK_F32, LK_SHAPE(1), F32), LK_OK);
    static const char *const bad[] = {"", "/a", "a/", "a//b", "\xff", "a/@"};
    for (int i = 0; i < LKI_COUNT(bad); i++) {
        assert_int_equal(add_array(&f, bad[i], LK_F32, LK_SHAPE(1), F32), LK_EINVAL);
        assert_non_null(strstr(lk_error(), "HDF5: \""));
        lk_clear_error();
    }
    assert_int_equal(lki_h5_add_text(&f, "a", "x"), LK_EINVAL);
    assert_string_equal(lk_error(), "HDF5: \"a\" is not a valid name of an attribute: should be PATH@NAME");
    lk_clear_error();
    assert_int_equal(lki_h5_add_group(&f, "a@b"), LK_EINVAL);
    lk_clear_error();
    assert_int_equal(lki_h5_add_text(&f, "@a", "\xff"), LK_EINVAL);
    assert_string_equal(lk_error(), "HDF5: text 0 of \"@a\" is not UTF-8");
    lk_clear_error();
    assert_int_equal(add_array(&f, "a", LK_F32, LK_SHAPE(1), F32), LK_EINVAL);
    assert_string_equal(lk_error(), "HDF5: \"a\" is there already");
    lk_clear_error();
    assert_int_equal(add_array(&f, "b", LK_BF16, LK_SHAPE(1), F16), LK_EDTYPE);
    assert_string_equal(lk_error(), "HDF5: \"b\" is bf16, which HDF5 files do not have: cast it");
    lk_clear_error();
    assert_int_equal(add_array(&f, "b", LK_F32, LK_SHAPE(-1), F32), LK_ESHAPE);
    lk_clear_error();
    assert_int_equal(f.count, 1);
    assert_null(lki_h5_find(&f, "b"));
    lki_h5_free(&f);
}

/* A dataset cannot be a group too; the helper says so. */
TEST(what_cannot_be_written)
{
    NEEDS_HELPER();
    lki_h5    f = {0};
    lki_bytes b;
    assert_int_equal(add_array(&f, "a", LK_F32, LK_SHAPE(1), F32), LK_OK);
    assert_int_equal(add_array(&f, "a/b", LK_F32, LK_SHAPE(1), F32), LK_OK);
    assert_int_equal(lki_h5_write("test.h5", &f, &b), LK_EINVAL);
    assert_non_null(strstr(lk_error(), "test.h5: a/b: cannot be made"));
    assert_null(b.data);
    lk_clear_error();
    lki_h5_free(&f);
}

/* ---- files of h5py ----------------------------------------------------------------------------------------------------------- */

static void read_sample(h5_sample s, lki_h5 *out)
{
    lki_bytes b = unpack(s);
    if (lki_h5_read("sample.h5", b.data, b.size, out) != LK_OK) fail_msg("%s", lk_error());
    lki_bytes_free(&b);
}

TEST(every_kind_of_value)
{
    NEEDS_HELPER();
    lki_h5  f;
    float   ramp[600];
    int32_t count[64];
    for (int i = 0; i < 600; i++)
        ramp[i] = (float)i;
    for (int i = 0; i < 64; i++)
        count[i] = i;
    read_sample(H5_SAMPLE(kinds), &f);
    array_is(&f, "packed", LKI_H5_DATASET, LK_F32, LK_SHAPE(20, 30), ramp);
    array_is(&f, "checked", LKI_H5_DATASET, LK_I32, LK_SHAPE(64), count);
    array_is(&f, "big_f64", LKI_H5_DATASET, LK_F64, LK_SHAPE(2), (double[]){1.5, -2.25});
    array_is(&f, "f16", LKI_H5_DATASET, LK_F16, LK_SHAPE(3), F16);
    array_is(&f, "big_f16", LKI_H5_DATASET, LK_F16, LK_SHAPE(2), F16);
    array_is(&f, "i8", LKI_H5_DATASET, LK_I64, LK_SHAPE(2), (int64_t[]){-128, 127});
    array_is(&f, "u8", LKI_H5_DATASET, LK_U8, LK_SHAPE(2), (uint8_t[]){0, 255});
    array_is(&f, "i16", LKI_H5_DATASET, LK_I64, LK_SHAPE(2), (int64_t[]){-32768, 32767});
    array_is(&f, "u32", LKI_H5_DATASET, LK_I64, LK_SHAPE(2), (int64_t[]){0, 4294967295});
    array_is(&f, "i64", LKI_H5_DATASET, LK_I64, LK_SHAPE(2), I64);
    array_is(&f, "u64", LKI_H5_DATASET, LK_I64, LK_SHAPE(2), (int64_t[]){0, INT64_MAX});
    array_is(&f, "bool", LKI_H5_DATASET, LK_BOOL, LK_SHAPE(3), BOOL);
    array_is(&f, "enum", LKI_H5_DATASET, LK_I64, LK_SHAPE(2), (int64_t[]){0, 7});
    array_is(&f, "scalar", LKI_H5_DATASET, LK_F32, LK_SHAPE(), (float[]){0.5f});
    array_is(&f, "empty", LKI_H5_DATASET, LK_F32, LK_SHAPE(0, 3), NULL);
    array_is(&f, "never_written", LKI_H5_DATASET, LK_F32, LK_SHAPE(2, 2), (float[]){7, 7, 7, 7});
    array_is(&f, "@number", LKI_H5_ATTRIBUTE, LK_I64, LK_SHAPE(), (int64_t[]){42});
    array_is(&f, "@nothing", LKI_H5_ATTRIBUTE, LK_F32, LK_SHAPE(0), NULL);
    texts_are(&f, "texts", LKI_H5_TEXTS, TEXTS("one", "zwei \xc3\xa4", ""));
    texts_are(&f, "fixed", LKI_H5_TEXTS, TEXTS("abc", "d"));
    texts_are(&f, "@text", LKI_H5_TEXT, TEXTS("a \xc3\xa9"));
    texts_are(&f, "@bytes", LKI_H5_TEXT, TEXTS("raw"));
    texts_are(&f, "@names", LKI_H5_TEXTS, TEXTS("a", "bc"));
    texts_are(&f, "@padded", LKI_H5_TEXT, TEXTS("ab"));
    lki_h5_free(&f);
}

/* Every object under each of its names; the ways back to a group that one is in are none. */
TEST(links_and_cycles)
{
    NEEDS_HELPER();
    static const char *const wanted[] = {"a", "a/b", "a/b/x", "again", "again/x", "soft", "to_y", "z", "z/y"};
    lki_h5                   f;
    read_sample(H5_SAMPLE(links), &f);
    assert_int_equal(f.count, LKI_COUNT(wanted));
    for (int i = 0; i < f.count; i++)
        assert_string_equal(f.item[i].name, wanted[i]);
    array_is(&f, "to_y", LKI_H5_DATASET, LK_F32, LK_SHAPE(), (float[]){2});
    lki_h5_free(&f);
    read_sample(H5_SAMPLE(deepest), &f);
    assert_int_equal(f.count, 64);
    lki_h5_free(&f);
}

TEST(two_names_of_one_dataset_are_both_there)
{
    NEEDS_HELPER();
    lki_h5 f;
    read_sample(H5_SAMPLE(alias), &f);
    assert_int_equal(f.count, 2);
    assert_memory_equal(at(&f, "x")->array.data, at(&f, "y")->array.data, 24);
    lki_h5_free(&f);
}

TEST(what_is_refused)
{
    NEEDS_HELPER();
    static const struct {
        h5_sample   sample;
        lk_status   code;
        const char *words;
    } cases[] = {
        {{H5_external_size, sizeof H5_external, H5_external}, LK_EFORMAT, "away: a link to another file, which is not followed"},
        {{H5_soft_external_size, sizeof H5_soft_external, H5_soft_external}, LK_EFORMAT, "a: cannot be opened"},
        {{H5_dangling_size, sizeof H5_dangling, H5_dangling}, LK_EFORMAT, "nowhere: cannot be opened"},
        {{H5_elsewhere_size, sizeof H5_elsewhere, H5_elsewhere},
         LK_EFORMAT,
         "x: its data is in another file, which is not followed"},
        {{H5_virtual_size, sizeof H5_virtual, H5_virtual}, LK_EFORMAT, "x: a virtual dataset"},
        {{H5_compound_size, sizeof H5_compound, H5_compound}, LK_EUNSUPPORTED, "pairs: values that are neither numbers nor texts"},
        {{H5_reference_size, sizeof H5_reference, H5_reference}, LK_EUNSUPPORTED, "@to: values that are neither numbers nor texts"},
        {{H5_opaque_size, sizeof H5_opaque, H5_opaque},
         LK_EUNSUPPORTED,
         "vars/0: values of 2 bytes without a type: save them as float32"},
        {{H5_too_large_size, sizeof H5_too_large, H5_too_large}, LK_EUNSUPPORTED, "u64: has the number 9223372036854775808"},
        {{H5_claims_size, sizeof H5_claims, H5_claims}, LK_EFORMAT, "x: 1099511627776 elements of 4 bytes: too much"},
        {{H5_claims_overflow_size, sizeof H5_claims_overflow, H5_claims_overflow},
         LK_EFORMAT,
         "x: 1125899906842624 elements of 4 bytes"},
        {{H5_latin_size, sizeof H5_latin, H5_latin}, LK_EFORMAT, "a text of @text is not UTF-8"},
        {{H5_named_type_size, sizeof H5_named_type, H5_named_type}, LK_EUNSUPPORTED, "type: neither a group nor a dataset"},
        {{H5_deep_size, sizeof H5_deep, H5_deep}, LK_EFORMAT, "more than 64 groups inside each other"},
        {{H5_wide_size, sizeof H5_wide, H5_wide},
         LK_EUNSUPPORTED,
         "x: numbers of 80 bits, as long double has, which float64 would"},
        {{H5_one_text_size, sizeof H5_one_text, H5_one_text}, LK_EFORMAT, "x: texts of more than 274548736 bytes: too much"},
    };
    for (int i = 0; i < LKI_COUNT(cases); i++) {
        lki_bytes       b = unpack(cases[i].sample);
        lki_h5          f;
        const lk_status status = lki_h5_read("sample.h5", b.data, b.size, &f);
        if (status != cases[i].code || strncmp(lk_error(), "sample.h5: ", 11) != 0 || !strstr(lk_error(), cases[i].words))
            fail_msg("status %d, \"%s\" does not say \"%s\"", (int)status, lk_error(), cases[i].words);
        assert_int_equal(f.count, 0);
        lk_clear_error();
        lki_bytes_free(&b);
    }
}

/* ---- files of Keras ---------------------------------------------------------------------------------------------------------- */

typedef struct stored {
    lki_zip         values;
    const lki_json *table;
} stored;

static stored stored_values(const char *folder, const char *model)
{
    stored    s;
    char      path[512];
    lki_bytes b;
    snprintf(path, sizeof path, "%s/files/%s_values.npz", folder, model);
    assert_int_equal(lki_zip_open(path, &s.values), LK_OK);
    snprintf(path, sizeof path, "%s/files/%s_values.json", folder, model);
    assert_int_equal(lki_file_read(path, &b), LK_OK);
    assert_int_equal(lki_json_parse(path, (const char *)b.data, b.size, &s.table), LK_OK);
    lki_bytes_free(&b);
    return s;
}

static void stored_free(stored *s)
{
    lki_zip_close(&s->values);
    lki_json_free(s->table);
}

/* Weight `key` of the stored values is what the file has under `name`. */
static void weight_is(const stored *s, const char *key, const lki_h5 *f, const char *name)
{
    char      member[64];
    lki_bytes b;
    lki_array a;
    snprintf(member, sizeof member, "%s.npy", key);
    assert_int_equal(lki_zip_read(&s->values, lki_zip_find(&s->values, member), &b), LK_OK);
    assert_int_equal(lki_npy_parse(member, b.data, b.size, &a), LK_OK);
    array_is(f, name, LKI_H5_DATASET, a.dtype, a.shape, a.data);
    lki_array_free(&a);
    lki_bytes_free(&b);
}

static void check_weights_file(const stored *s, const lki_h5 *f)
{
    static const char *const places[] = {"layers/conv2d/vars/0",   "layers/conv2d/vars/1", "layers/conv2d_1/vars/0",
                                         "layers/conv2d_1/vars/1", "layers/dense/vars/0",  "layers/dense/vars/1",
                                         "layers/dense_1/vars/0",  "layers/dense_1/vars/1"};
    const lki_json          *weights = lki_json_get(s->table, "weights");
    assert_int_equal(weights->count, LKI_COUNT(places));
    for (int i = 0; i < weights->count; i++)
        weight_is(s, lki_json_get(&weights->item[i], "key")->text, f, places[i]);
    texts_are(f, "layers/conv2d/vars@name", LKI_H5_TEXT, TEXTS("conv2d_4"));
    array_is(f, "optimizer/vars/0", LKI_H5_DATASET, LK_I64, LK_SHAPE(), (int64_t[]){lki_json_get(s->table, "iterations")->integer});
    assert_int_equal(at(f, "layers/flatten/vars")->kind, LKI_H5_GROUP);
}

TEST(stored_weights)
{
    NEEDS_HELPER();
    const char *folder = folder_or_skip("LOCKSTEP_GOLDEN");
    stored      s = stored_values(folder, "fashion");
    char        path[512];
    lki_bytes   b;
    lki_h5      f;
    snprintf(path, sizeof path, "%s/files/fashion.weights.h5", folder);
    assert_int_equal(lki_file_read(path, &b), LK_OK);
    if (lki_h5_read(path, b.data, b.size, &f) != LK_OK) fail_msg("%s", lk_error());
    check_weights_file(&s, &f);
    lki_h5_free(&f);
    lki_bytes_free(&b);
    stored_free(&s);
}

TEST(stored_keras)
{
    NEEDS_HELPER();
    const char *folder = folder_or_skip("LOCKSTEP_GOLDEN");
    stored      s = stored_values(folder, "fashion");
    char        path[512];
    lki_zip     z;
    lki_bytes   b;
    lki_h5      f;
    snprintf(path, sizeof path, "%s/files/fashion.keras", folder);
    assert_int_equal(lki_zip_open(path, &z), LK_OK);
    assert_int_equal(lki_zip_read(&z, lki_zip_find(&z, "model.weights.h5"), &b), LK_OK);
    if (lki_h5_read(path, b.data, b.size, &f) != LK_OK) fail_msg("%s", lk_error());
    check_weights_file(&s, &f);
    lki_h5_free(&f);
    lki_bytes_free(&b);
    lki_zip_close(&z);
    stored_free(&s);
}

/* The older form: names of layers and weights are attributes, the configuration too. */
TEST(stored_legacy)
{
    NEEDS_HELPER();
    const char *folder = folder_or_skip("LOCKSTEP_GOLDEN");
    stored      s = stored_values(folder, "fashion");
    char        path[512];
    lki_bytes   b;
    lki_h5      f;
    snprintf(path, sizeof path, "%s/files/fashion.h5", folder);
    assert_int_equal(lki_file_read(path, &b), LK_OK);
    if (lki_h5_read(path, b.data, b.size, &f) != LK_OK) fail_msg("%s", lk_error());
    const lki_h5_item *layers = at(&f, "model_weights@layer_names");
    const lki_json    *weights = lki_json_get(s.table, "weights"), *config;
    int                seen = 0;
    texts_are(&f, "model_weights@layer_names", LKI_H5_TEXTS,
              TEXTS("conv2d_4", "max_pooling2d_4", "conv2d_5", "max_pooling2d_5", "flatten_2", "dense_4", "dense_5"));
    for (int l = 0; l < layers->texts; l++) {
        char name[256];
        snprintf(name, sizeof name, "model_weights/%s@weight_names", layers->text[l]);
        const lki_h5_item *names = at(&f, name);
        for (int w = 0; w < names->texts; w++, seen++) {
            snprintf(name, sizeof name, "model_weights/%s/%s", layers->text[l], names->text[w]);
            assert_string_equal(names->text[w], lki_json_get(&weights->item[seen], "name")->text);
            weight_is(&s, lki_json_get(&weights->item[seen], "key")->text, &f, name);
        }
    }
    assert_int_equal(seen, weights->count);
    texts_are(&f, "@backend", LKI_H5_TEXT, TEXTS("tensorflow"));
    const lki_h5_item *text = at(&f, "@model_config");
    assert_int_equal(lki_json_parse("model_config", text->text[0], strlen(text->text[0]), &config), LK_OK);
    assert_string_equal(lki_json_get(config, "class_name")->text, "Sequential");
    lki_json_free(config);
    lki_h5_free(&f);
    lki_bytes_free(&b);
    stored_free(&s);
}

/* ---- damaged files ----------------------------------------------------------------------------------------------------------- */

static void any_end(const uint8_t *data, size_t size)
{
    lki_h5          f;
    const lk_status status = lki_h5_read("damaged.h5", data, size, &f);
    if (status == LK_OK) lki_h5_free(&f);
    else if (status != LK_EFORMAT && status != LK_EUNSUPPORTED && status != LK_ENOMEM && status != LK_EDEADLINE)
        fail_msg("%s", lk_error());
    lk_clear_error();
}

TEST(cut_off)
{
    NEEDS_HELPER();
    lki_bytes b = unpack(H5_SAMPLE(kinds));
    lki_h5    f;
    for (size_t n = 0; n < b.size; n += 1 + b.size / 15) {
        assert_int_equal(lki_h5_read("damaged.h5", b.data, n, &f), LK_EFORMAT);
        assert_non_null(strstr(lk_error(), "damaged.h5: "));
        lk_clear_error();
    }
    assert_int_equal(lki_h5_read("damaged.h5", (const uint8_t *)"no HDF5", 7, &f), LK_EFORMAT);
    assert_non_null(strstr(lk_error(), "damaged.h5: not an HDF5 file, or damaged"));
    lk_clear_error();
    lki_bytes_free(&b);
}

/* Whatever happens to the helper, this process continues, holds no memory and leaves no child process. Some damage makes libhdf5
 * run for ever. LOCKSTEP_SOAK=1: two thousand files. */
TEST(random_damage)
{
    NEEDS_HELPER();
    lki_bytes     b = unpack(H5_SAMPLE(kinds));
    uint8_t      *copy = malloc(b.size);
    const int64_t before = lki_memory_in_use();
    uint32_t      seed = 1;
    lki_h5_set_deadline(200);
    const int runs = getenv("LOCKSTEP_SOAK") ? 2000 : 70;
    for (int run = 0; run < runs; run++) {
        memcpy(copy, b.data, b.size);
        for (int change = 0; change <= run % 8; change++) {
            seed = seed * 1664525 + 1013904223;
            const size_t where = (seed >> 7) % (run % 3 ? b.size : 2048); /* the front has the headers */
            copy[where] = (uint8_t)(run % 2 ? copy[where] ^ 1u << (seed >> 29) : seed >> 3);
        }
        any_end(copy, b.size);
    }
    lki_h5_set_deadline(0);
    assert_int_equal(lki_memory_in_use(), before);
    assert_true(waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD);
    free(copy);
    lki_bytes_free(&b);
}

/* ---- without memory ---------------------------------------------------------------------------------------------------------- */

static lki_bytes attempt_file;
static int       attempt(void)
{
    lki_h5    f;
    lki_bytes b;
    if (lki_h5_read("test.h5", attempt_file.data, attempt_file.size, &f) != LK_OK) return 0;
    const lk_status status = lki_h5_write("test.h5", &f, &b);
    lki_h5_free(&f);
    lki_bytes_free(&b);
    return status == LK_OK;
}

TEST(without_memory)
{
    NEEDS_HELPER();
    lki_h5                   f = {0};
    static const char *const names[] = {"a", "b"};
    assert_int_equal(add_array(&f, "x", LK_F32, LK_SHAPE(2), F32), LK_OK);
    assert_int_equal(lki_h5_add_texts(&f, "x@names", 2, names), LK_OK);
    assert_int_equal(lki_h5_write("test.h5", &f, &attempt_file), LK_OK);
    assert_true(check_every_allocation(attempt) > 8);
    lki_bytes_free(&attempt_file);
    lki_h5_free(&f);
}

TESTS(cmocka_unit_test(there_and_back), cmocka_unit_test(the_same_bytes_every_time), cmocka_unit_test(large_values),
      cmocka_unit_test(no_items), cmocka_unit_test(what_cannot_be_added), cmocka_unit_test(what_cannot_be_written),
      cmocka_unit_test(every_kind_of_value), cmocka_unit_test(links_and_cycles),
      cmocka_unit_test(two_names_of_one_dataset_are_both_there), cmocka_unit_test(what_is_refused),
      cmocka_unit_test(stored_weights), cmocka_unit_test(stored_keras), cmocka_unit_test(stored_legacy), cmocka_unit_test(cut_off),
      cmocka_unit_test(random_damage), cmocka_unit_test(without_memory))
