/* Cache, in memory and in a file: read once, kept completely or not at all, damaged files detected. */
#include "pipes.h"
#include <sys/stat.h>

static lk_tuple twice(lk_tuple e, void *user)
{
    ++*(int *)user;
    return LK_TUPLE(lk_fill(LK_SHAPE(), LK_F32, 2 * lk_item(e.item[0])));
}

static int exists(const char *path)
{
    struct stat s;
    return stat(path, &s) == 0;
}

TEST(in_memory)
{
    LK_POOL {
        int         calls = 0;
        lk_dataset *d = lk_dataset_cache(lk_dataset_map(lk_dataset_range(5), twice, &calls));
        LK_FOR_EACH(e, d)
            if (lk_item(e.item[0]) == 4) break; /* given up: nothing is kept */
        const int before = calls;
        GIVES(d, 0, 2, 4, 6, 8);
        assert_true(calls > before);
        calls = 0;
        GIVES(d, 0, 2, 4, 6, 8);
        GIVES(lk_dataset_repeat(d, 2), 0, 2, 4, 6, 8, 0, 2, 4, 6, 8);
        assert_int_equal(calls, 0);
        assert_int_equal(lk_dataset_cardinality(lk_dataset_cache(lk_dataset_range(5))), 5);
        lk_dataset *empty = lk_dataset_cache(lk_dataset_range(0));
        NOTHING(empty);
        NOTHING(empty);
        assert_int_equal(lk_dataset_element_spec(d).count, 1);
        REFUSED(lk_dataset_cache(lk_dataset_range(5), .file = ""), LK_EINVAL, "the name of the file is empty");
    }
}

/* The order of a shuffle below is kept; a shuffle above shuffles again. */
TEST(orders)
{
    LK_POOL {
        lk_dataset *below = lk_dataset_cache(lk_dataset_shuffle(lk_dataset_range(40), 40)),
                   *above = lk_dataset_shuffle(lk_dataset_cache(lk_dataset_range(40)), 40);
        trail *a = walk(below), *b = walk(below), *c = walk(above), *d = walk(above);
        assert_true(same_trail(a, b));
        assert_false(same_trail(c, d));
        free(a), free(b), free(c), free(d);
    }
}

/* Every kind of element: rows, mapped rows, joined ones, batches, elements of different shapes. */
static int uneven(int64_t index, lk_tuple *element, void *user)
{
    (void)user;
    *element = LK_TUPLE(lk_fill(LK_SHAPE(index % 3), LK_U8, (double)index), lk_scalar((double)index));
    return index < 9;
}

static lk_tuple half(lk_tuple e, void *user)
{
    (void)user;
    return LK_TUPLE(lk_mul(e.item[0], lk_scalar(0.5)), e.item[1]);
}

static lk_dataset *pipeline(int i)
{
    switch (i) {
    case 0: return rows_of(7);
    case 1: return lk_dataset_map(rows_of(7), half);
    case 2: return lk_dataset_zip(rows_of(7), lk_dataset_map(rows_of(7), half));
    case 3: return lk_dataset_enumerate(rows_of(7), 0);
    case 4: return lk_dataset_batch(rows_of(7), 3);
    case 5: return lk_dataset_zip(lk_dataset_batch(rows_of(7), 3), lk_dataset_batch(lk_dataset_range(7), 3));
    case 6: return lk_dataset_from_generator(uneven, NULL);
    case 7: return lk_dataset_concatenate(rows_of(3), lk_dataset_map(rows_of(4), half));
    case 8: return lk_dataset_unbatch(lk_dataset_batch(rows_of(7), 3));
    case 9: return lk_dataset_zip(lk_dataset_batch(rows_of(6), 2), lk_dataset_map(rows_of(3), half));
    }
    return NULL;
}

TEST(every_kind_of_element)
{
    LK_POOL
        for (int i = 0; i < 10; i++) {
            char name[32];
            snprintf(name, sizeof name, "kinds-%d", i);
            const char *file = temporary(name);
            lk_dataset *memory = lk_dataset_cache(pipeline(i)), *written = lk_dataset_cache(pipeline(i), .file = file);
            trail      *want = walk(pipeline(i));
            for (int k = 0; k < 3; k++) {
                trail *a = walk(memory), *b = walk(written), *c = walk(lk_dataset_prefetch(memory, 2));
                good();
                assert_true(same_trail(want, a) && same_trail(want, b) && same_trail(want, c));
                free(a), free(b), free(c);
            }
            assert_true(exists(file));
            LK_FOR_EACH(e, written)
                if (i == 4) assert_int_equal(e.item[0]->rows.global, 3);
            LK_FOR_EACH(e, memory)
                if (i == 4) assert_int_equal(e.item[0]->rows.global, 3);
            free(want);
            remove(file);
        }
}

TEST(in_a_file)
{
    LK_POOL {
        const char *file = temporary("folder/cache");
        int         calls = 0;
        lk_dataset *source = lk_dataset_map(lk_dataset_range(5), twice, &calls), *d = lk_dataset_cache(source, .file = file);
        LK_FOR_EACH(e, d)
            if (lk_item(e.item[0]) == 4) break;
        assert_false(exists(file));
        GIVES(d, 0, 2, 4, 6, 8);
        assert_true(exists(file));
        calls = 0;
        GIVES(d, 0, 2, 4, 6, 8);
        GIVES(lk_dataset_cache(source, .file = file), 0, 2, 4, 6, 8); /* another program */
        assert_int_equal(calls, 0);

        /* Two iterators at once: one writes, the other reads through. */
        lk_dataset  *two = lk_dataset_cache(source, .file = temporary("two"));
        lk_iterator *a = lk_iterator_of(two), *b = lk_iterator_of(two);
        lk_tuple     x, y;
        for (int i = 0; i < 5; i++) {
            assert_true(lk_next(a, &x));
            const double first = lk_item(x.item[0]);
            assert_true(lk_next(b, &y));
            assert_true(first == lk_item(y.item[0]));
        }
        assert_false(lk_next(a, &x));
        assert_false(lk_next(b, &y));
        GIVES(two, 0, 2, 4, 6, 8);
        lk_iterator *lost = lk_iterator_of(lk_dataset_cache(source, .file = "/proc/no/such/folder/file"));
        assert_false(lk_next(lost, &x));
        failed_with(LK_EIO, "/proc/no");
    }
}

/* ---- damage ---- */

static size_t read_all(const char *path, unsigned char *to, size_t most)
{
    FILE  *f = fopen(path, "rb");
    size_t n = fread(to, 1, most, f);
    fclose(f);
    return n;
}

/* Every byte changed, every length cut: reported, or written again; never another value, never a crash. */
TEST(damaged_files)
{
    LK_POOL {
        const char   *file = temporary("damaged");
        unsigned char bytes[2048];
        lk_dataset   *d = lk_dataset_cache(rows_of(3), .file = file);
        trail        *want = walk(d);
        const size_t  size = read_all(file, bytes, sizeof bytes);
        assert_true(size > 100 && size < sizeof bytes);
        lk_set_log(keep_log, NULL);
        for (size_t i = 0; i < 2 * size; i++) {
            if (i < size) bytes[i] ^= 0x41;
            write_file(file, bytes, i < size ? size : i - size);
            if (i < size) bytes[i] ^= 0x41;
            log_text[0] = 0;
            trail *got = walk(lk_dataset_cache(rows_of(3), .file = file));
            if (lk_failed()) failed_with(LK_EFORMAT, file);
            else {
                assert_true(same_trail(want, got));
                assert_non_null(strstr(log_text, "is written again"));
            }
            free(got);
        }
        lk_set_log(NULL, NULL);
        free(want);
    }
}

TESTS(cmocka_unit_test(in_memory), cmocka_unit_test(orders), cmocka_unit_test(every_kind_of_element), cmocka_unit_test(in_a_file),
      cmocka_unit_test(damaged_files))
