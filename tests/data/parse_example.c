/* Records of tf.train.Example as tensors: types, shapes, pictures, missing and unsuitable features, and records that TensorFlow
 * wrote. */
#include "format/png.h"
#include "format/wire.h"
#include "saved.h"

/* ---- making records ---- */

typedef struct record {
    lki_sink features;
} record;

static void add(record *r, const char *name, uint32_t kind, const lki_sink *list)
{
    lki_sink feature = {0}, entry = {0};
    if (kind) lki_sink_message(&feature, kind, list);
    lki_sink_text(&entry, 1, name);
    lki_sink_message(&entry, 2, &feature);
    lki_sink_message(&r->features, 1, &entry);
    lki_sink_free(&feature);
    lki_sink_free(&entry);
}

static void add_bytes(record *r, const char *name, int count, const void *data, size_t size)
{
    lki_sink list = {0};
    for (int i = 0; i < count; i++)
        lki_sink_field(&list, 1, data, size);
    add(r, name, 1, &list);
    lki_sink_free(&list);
}

static void add_floats(record *r, const char *name, int count, const float *x)
{
    lki_sink list = {0};
    lki_sink_field(&list, 1, x, (size_t)count * sizeof *x); /* packed */
    add(r, name, 2, &list);
    lki_sink_free(&list);
}

static void add_int64(record *r, const char *name, int64_t x)
{
    lki_sink list = {0}, packed = {0};
    lki_sink_varint(&packed, (uint64_t)x);
    lki_sink_field(&list, 1, packed.data, packed.size);
    add(r, name, 3, &list);
    lki_sink_free(&list);
    lki_sink_free(&packed);
}

static lk_tensor *finish(record *r)
{
    lki_sink example = {0};
    lki_sink_message(&example, 1, &r->features);
    lk_tensor *t = lk_tensor_from(LK_SHAPE((int64_t)example.size), LK_U8, example.data);
    lki_sink_free(&example);
    lki_sink_free(&r->features);
    return t;
}

/* Row i: x [2, 2] floats 10 i ..., label i, four bytes, a picture of 2 x 1. */
static lk_tensor *row(int i)
{
    record        r = {0};
    const float   x[] = {(float)(10 * i), (float)(10 * i + 1), (float)(10 * i + 2), (float)(10 * i + 3)};
    const uint8_t bytes[] = {(uint8_t)i, 2, 3, 4}, pixels[] = {(uint8_t)(50 + i), (uint8_t)(60 + i)};
    lki_bytes     png;
    assert_int_equal(lki_png_encode(1, 2, 1, pixels, &png), LK_OK);
    add_floats(&r, "x", 4, x);
    add_int64(&r, "label", i);
    add_bytes(&r, "bytes", 1, bytes, sizeof bytes);
    add_bytes(&r, "picture", 1, png.data, png.size);
    if (i % 2) add_int64(&r, "odd", -i);
    add(&r, "hollow", 0, NULL);
    lki_bytes_free(&png);
    return finish(&r);
}

static const char *written(int rows)
{
    static char path[256];
    snprintf(path, sizeof path, "%s", temporary("rows.tfrecord"));
    LK_STEP {
        lk_tensor *t[64];
        for (int i = 0; i < rows; i++)
            t[i] = row(i);
        assert_int_equal(lk_tfrecord_write(path, lk_tuple_from(rows, t)), LK_OK);
    }
    return path;
}

static lk_dataset *records(int rows) { return lk_tfrecord_dataset(LK_FILES(written(rows))); }

/* ---- tests ---- */

TEST(features)
{
    for (int parallel = 0; parallel < 4; parallel++)
        LK_POOL {
            lk_dataset *d = lk_dataset_parse_example(
                records(20), parallel,
                LK_FEATURES(LK_FEATURE("label", LK_I64), LK_FEATURE("x", .shape = LK_SHAPE(2, 2)),
                            LK_FEATURE("bytes", LK_U8, LK_SHAPE(4)), LK_FEATURE("picture", LK_U8, LK_SHAPE(2, 1), .picture = 1),
                            LK_FEATURE("picture", LK_U8, LK_SHAPE(2, 1, 3), .picture = 1),
                            LK_FEATURE("odd", LK_I64, .missing = LK_NUMBER(7)),
                            LK_FEATURE("hollow", LK_F32, LK_SHAPE(3), .missing = LK_NUMBER(0.5))));
            good();
            lk_element_spec s = lk_dataset_element_spec(d);
            assert_int_equal(s.count, 7);
            assert_true(s.dtype[1] == LK_F32 && s.shape[1].rank == 2 && s.shape[4].rank == 3 && s.shape[4].dim[2] == 3);
            int n = 0;
            LK_FOR_EACH(e, lk_dataset_batch(d, 3))
                for (int64_t i = 0; i < lk_dim(e.item[0], 0); i++, n++) {
                    const uint8_t *colour = (const uint8_t *)lk_data(e.item[4]) + 6 * i;
                    assert_true(((const int64_t *)lk_data(e.item[0]))[i] == n);
                    for (int k = 0; k < 4; k++)
                        assert_true(((const float *)lk_data(e.item[1]))[4 * i + k] == (float)(10 * n + k));
                    assert_true(((const uint8_t *)lk_data(e.item[2]))[4 * i] == n);
                    assert_true(((const uint8_t *)lk_data(e.item[3]))[2 * i + 1] == 60 + n);
                    assert_true(colour[0] == 50 + n && colour[1] == 50 + n && colour[5] == 60 + n);
                    assert_true(((const int64_t *)lk_data(e.item[5]))[i] == (n % 2 ? -n : 7));
                    assert_true(((const float *)lk_data(e.item[6]))[3 * i + 2] == 0.5f);
                }
            good();
            assert_int_equal(n, 20);
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

#define PARSE(d, ...) lk_dataset_parse_example(d, 0, LK_FEATURES(__VA_ARGS__))

TEST(what_does_not_fit)
{
    LK_POOL {
        lk_dataset *d = records(4);
        fails(PARSE(d, LK_FEATURE("label", LK_I64, LK_SHAPE(2))), LK_ESHAPE,
              "lk_dataset_parse_example: record 0, feature \"label\": it has 1 int64s; i64 [2] is wanted");
        fails(PARSE(d, LK_FEATURE("x", LK_F32)), LK_ESHAPE, "record 0, feature \"x\": it has 4 floats; f32 [] is wanted");
        fails(PARSE(d, LK_FEATURE("x", LK_I64, LK_SHAPE(4))), LK_EDTYPE, "feature \"x\": it has 4 floats; i64 [4] is wanted");
        fails(PARSE(d, LK_FEATURE("bytes", LK_U8, LK_SHAPE(5))), LK_ESHAPE, "feature \"bytes\": it has 4 bytes; u8 [5] is wanted");
        fails(PARSE(d, LK_FEATURE("picture", LK_U8, LK_SHAPE(1, 2), .picture = 1)), LK_ESHAPE,
              "feature \"picture\": its picture is 2 x 1; a picture of u8 [1, 2] is wanted");
        fails(PARSE(d, LK_FEATURE("bytes", LK_U8, LK_SHAPE(1, 2), .picture = 1)), LK_EFORMAT,
              "lk_dataset_parse_example: record 0, feature \"bytes\": neither a PNG nor a JPEG image");
        fails(PARSE(d, LK_FEATURE("label", LK_I64), LK_FEATURE("nowhere", LK_I64)), LK_ENOTFOUND,
              "record 0, feature \"nowhere\": the record does not have it; i64 [] is wanted");
        fails(PARSE(d, LK_FEATURE("hollow", LK_I64)), LK_ENOTFOUND, "feature \"hollow\": it is empty");
        fails(PARSE(lk_dataset_skip(d, 1), LK_FEATURE("odd", LK_I64)), LK_ENOTFOUND, "record 1, feature \"odd\"");
        for (int parallel = 1; parallel < 4; parallel++) { /* the part before the record is given; its number is reported */
            lk_tuple     e;
            lk_iterator *it = lk_iterator_of(lk_dataset_parse_example(lk_dataset_concatenate(lk_dataset_shard(d, 2, 1), d),
                                                                      parallel, LK_FEATURES(LK_FEATURE("odd", LK_I64))));
            assert_true(lk_next(it, &e) && lk_next(it, &e) && !lk_next(it, &e));
            failed_with(LK_ENOTFOUND, "record 2, feature \"odd\"");
        }
        record two = {0};
        add_bytes(&two, "s", 2, "ab", 2);
        fails(PARSE(lk_dataset_from_tensors(LK_TUPLE(finish(&two))), LK_FEATURE("s", LK_U8, LK_SHAPE(2))), LK_ESHAPE,
              "feature \"s\": it has 2 byte strings");
        fails(PARSE(lk_dataset_from_tensors(LK_TUPLE(lk_ones(LK_SHAPE(9), LK_U8))), LK_FEATURE("s", LK_U8, LK_SHAPE(2))),
              LK_EFORMAT, "record 0, feature \"s\": the record is not a tf.train.Example, or damaged");
        fails(PARSE(lk_dataset_range(3), LK_FEATURE("s")), LK_EDTYPE,
              "an element is 1 tensors, the first f32; records are one tensor each, u8");
        fails(PARSE(lk_dataset_zip(d, d), LK_FEATURE("s")), LK_EDTYPE, "an element is 2 tensors");
    }
}

TEST(mistakes)
{
    LK_POOL {
        lk_dataset *d = records(1);
        REFUSED(PARSE(NULL, LK_FEATURE("x")), LK_EINVAL, "lk_dataset_parse_example: the dataset is NULL");
        REFUSED(lk_dataset_parse_example(d, 0, 0, NULL), LK_EINVAL, "0 features; give 1 to 64");
        REFUSED(lk_dataset_parse_example(d, -1, LK_FEATURES(LK_FEATURE("x"))), LK_EINVAL, "on -1 threads");
        REFUSED(PARSE(d, LK_FEATURE()), LK_EINVAL, "feature 0 has no name");
        REFUSED(PARSE(d, LK_FEATURE("x"), LK_FEATURE("y", LK_F64)), LK_EDTYPE,
                "feature \"y\" is f64; it must be LK_F32, LK_I64 or LK_U8");
        REFUSED(PARSE(d, LK_FEATURE("x", .shape = LK_SHAPE(-1))), LK_ESHAPE, "feature \"x\" has no valid shape");
        REFUSED(PARSE(d, LK_FEATURE("x", LK_F32, LK_SHAPE(2, 2), .picture = 1)), LK_EINVAL,
                "feature \"x\" is a picture, but f32 [2, 2]");
        REFUSED(PARSE(d, LK_FEATURE("x", LK_U8, LK_SHAPE(2, 2, 2), .picture = 1)), LK_EINVAL, "is a picture, but u8 [2, 2, 2]");
        REFUSED(PARSE(d, LK_FEATURE("x", LK_U8, .missing = LK_NUMBER(256))), LK_EINVAL, ".missing = 256 is not a value of u8");
        REFUSED(PARSE(d, LK_FEATURE("x", LK_I64, .missing = LK_NUMBER(0.5))), LK_EINVAL, ".missing = 0.5 is not a value of i64");
    }
}

TEST(golden_rows)
{
    const char *golden = folder_or_skip("LOCKSTEP_GOLDEN"), *names[] = {"rows.tfrecord", "rows.tfrecord.gz"};
    for (int k = 0; k < 4; k++)
        LK_POOL {
            char path[1024], values[1024];
            snprintf(path, sizeof path, "%s/files/%s", golden, names[k % 2]);
            snprintf(values, sizeof values, "%s/files/rows_values.npz", golden);
            lk_dataset *want = lk_npz_dataset(values, .names = LK_NAMES("image", "label", "weight"));
            lk_dataset *got =
                lk_dataset_parse_example(lk_tfrecord_dataset(LK_FILES(path)), k,
                                         LK_FEATURES(LK_FEATURE("image", LK_U8, LK_SHAPE(28, 28)), LK_FEATURE("label", LK_I64),
                                                     LK_FEATURE("weight", LK_F32, LK_SHAPE(3))));
            good();
            int n = 0;
            LK_FOR_EACH(e, lk_dataset_zip(want, got)) {
                n++;
                for (int i = 0; i < 3; i++) {
                    const lk_tensor *a = e.item[i], *b = e.item[3 + i];
                    assert_true(lk_size(a) == lk_size(b) && lk_tensor_dtype(a) == lk_tensor_dtype(b));
                    assert_memory_equal(lk_data(a), lk_data(b), (size_t)lk_size(a) * lk_dtype_bytes(lk_tensor_dtype(a)));
                }
            }
            good();
            assert_int_equal(n, 64);
        }
}

static lk_dataset *parsed(void) { return PARSE(records(9), LK_FEATURE("x", .shape = LK_SHAPE(4)), LK_FEATURE("label", LK_I64)); }
static lk_dataset *shuffled(void)
{
    return lk_dataset_shuffle(
        lk_dataset_parse_example(lk_dataset_shuffle(records(9), 3), 2, LK_FEATURES(LK_FEATURE("label", LK_I64))), 4);
}

TEST(saved)
{
    goes_on_anywhere(parsed, 10);
    goes_on_anywhere(shuffled, 10);
    LK_POOL {
        void  *bytes;
        size_t size;
        assert_int_equal(lk_iterator_save(lk_iterator_of(parsed()), &bytes, &size), LK_OK);
        assert_int_equal(lk_iterator_restore(lk_iterator_of(PARSE(records(9), LK_FEATURE("x", .shape = LK_SHAPE(4)))), bytes, size),
                         LK_EINVAL);
        failed_with(LK_EINVAL, "another pipeline");
        lk_free_bytes(bytes);
    }
}

static char path_of_rows[256];
static int  threads;

static int reads_it_all(void)
{
    int rows = 0;
    LK_POOL {
        lk_dataset *d = lk_tfrecord_dataset(LK_FILES(path_of_rows));
        if (d)
            d = lk_dataset_parse_example(
                d, threads,
                LK_FEATURES(LK_FEATURE("x", .shape = LK_SHAPE(4)), LK_FEATURE("picture", LK_U8, LK_SHAPE(2, 1), .picture = 1)));
        if (d)
            LK_FOR_EACH(e, lk_dataset_batch(d, 2))
                rows += (int)lk_dim(e.item[0], 0);
    }
    return rows == 3 && !lk_failed();
}

TEST(every_allocation)
{
    snprintf(path_of_rows, sizeof path_of_rows, "%s", written(3));
    for (threads = 0; threads < 4; threads += 3) {
        assert_true(reads_it_all());
        assert_true(check_every_allocation(reads_it_all) > 10);
    }
}

TESTS(cmocka_unit_test(features), cmocka_unit_test(what_does_not_fit), cmocka_unit_test(mistakes), cmocka_unit_test(golden_rows),
      cmocka_unit_test(saved), cmocka_unit_test(every_allocation))
