/* Every operation on small datasets, its cardinality and its errors. */
#include "pipes.h"

static lk_dataset *numbers(int64_t n) { return lk_dataset_range(n); }

TEST(batches)
{
    LK_POOL {
        lk_dataset *d = lk_dataset_batch(numbers(7), 3);
        GIVES(d, 0, 1, 2, 3, 4, 5, 6);
        SIZES(d, 3, 3, 1);
        SIZES(lk_dataset_batch(numbers(7), 3, .drop_remainder = LK_ON), 3, 3);
        SIZES(lk_dataset_batch(numbers(6), 3), 3, 3);
        NOTHING(lk_dataset_batch(numbers(0), 3));
        SIZES(lk_dataset_batch(numbers(2), 1000000), 2);
        SIZES(lk_dataset_batch(lk_dataset_batch(numbers(7), 2, .drop_remainder = LK_ON), 2), 2, 1);
        assert_int_equal(lk_dataset_cardinality(d), 3);
        assert_int_equal(lk_dataset_cardinality(lk_dataset_batch(numbers(7), 3, .drop_remainder = LK_ON)), 2);
        assert_int_equal(lk_dataset_cardinality(lk_dataset_batch(lk_dataset_repeat(numbers(7)), 3)), LK_INFINITE);
        assert_int_equal(lk_dataset_element_spec(d).shape[0].dim[0], -1);
        assert_int_equal(lk_dataset_element_spec(lk_dataset_batch(numbers(7), 3, .drop_remainder = LK_ON)).shape[0].dim[0], 3);
        REFUSED(lk_dataset_batch(numbers(7), 0), LK_EINVAL, "batches of 0 rows");
        REFUSED(lk_dataset_batch(NULL, 3), LK_EINVAL, "the dataset is NULL");
        REFUSED(lk_dataset_batch(numbers(7), 3, .padding = LK_NUMBER(1)), LK_EINVAL, "lk_dataset_padded_batch");
    }
}

TEST(batches_know_their_rows)
{
    LK_POOL
        LK_FOR_EACH(e, lk_dataset_batch(rows_of(7), 4))
            for (int i = 0; i < e.count; i++) {
                const lki_rows *r = &e.item[i]->rows;
                assert_int_equal(r->kind, LKI_ROWS);
                assert_int_equal(r->lanes, lk_lanes());
                assert_int_equal(r->per_row, 1);
                assert_int_equal(r->global, 4);
                assert_int_equal(r->first, 0);
                assert_int_equal(r->rows, lk_dim(e.item[i], 0));
                assert_int_equal(r->total, r->rows);
                assert_false(r->own);
            }
    good();
}

/* Slices of a tensor in order are its own memory; out of order they are copied. */
TEST(batches_copy_only_what_they_must)
{
    LK_POOL {
        lk_tensor   *x = lk_range(8, LK_F32);
        lk_dataset  *d = lk_dataset_from_tensor_slices(LK_TUPLE(x));
        lk_iterator *it = lk_iterator_of(lk_dataset_batch(lk_dataset_skip(d, 1), 3));
        lk_tuple     e;
        assert_true(lk_next(it, &e));
        assert_ptr_equal(lk_data(e.item[0]), (const float *)lk_data(x) + 1);
        GIVES(lk_dataset_batch(lk_dataset_shard(d, 2, 1), 3), 1, 3, 5, 7);
    }
}

static int growing(int64_t index, lk_tuple *element, void *user)
{
    (void)user;
    *element =
        LK_TUPLE(lk_fill(LK_SHAPE(index + 1), LK_I32, (double)index + 1), lk_fill(LK_SHAPE(2, index), LK_F32, (double)index));
    return index < 4;
}

TEST(padded_batches)
{
    LK_POOL {
        lk_dataset *rows = lk_dataset_from_generator(growing, NULL),
                   *d = lk_dataset_padded_batch(rows, 3, .padding = LK_NUMBER(-1));
        GIVES(d, 1, -1, -1, 2, 2, -1, 3, 3, 3, 4, 4, 4, 4);
        SIZES(d, 3, 1);
        lk_iterator *it = lk_iterator_of(d);
        lk_tuple     e;
        assert_true(lk_next(it, &e));
        lk_shape s = lk_tensor_shape(e.item[1]);
        assert_true(s.rank == 3 && s.dim[0] == 3 && s.dim[1] == 2 && s.dim[2] == 2);
        const float want[] = {-1, -1, -1, -1, 1, -1, 1, -1, 2, 2, 2, 2};
        assert_memory_equal(lk_data(e.item[1]), want, sizeof want);
        assert_int_equal(e.item[0]->rows.kind, LKI_ROWS);
        GIVES(lk_dataset_padded_batch(rows, 2), 1, 0, 2, 2, 3, 3, 3, 0, 4, 4, 4, 4);

        it = lk_iterator_of(lk_dataset_batch(rows, 3));
        assert_false(lk_next(it, &e));
        failed_with(LK_ESHAPE, "tensor 0 of element 1 is i32 [2], that of the first one of the batch i32 [1]");
    }
}

TEST(unbatch)
{
    LK_POOL {
        lk_dataset *d = lk_dataset_unbatch(lk_dataset_batch(rows_of(5), 2));
        trail      *a = walk(d), *b = walk(rows_of(5));
        assert_true(same_trail(a, b));
        free(a);
        free(b);
        assert_int_equal(lk_dataset_cardinality(d), LK_UNKNOWN);
        assert_int_equal(lk_dataset_cardinality(lk_dataset_unbatch(lk_dataset_batch(numbers(5), 2, .drop_remainder = LK_ON))), 4);
        GIVES(lk_dataset_batch(lk_dataset_unbatch(lk_dataset_batch(numbers(5), 2)), 3), 0, 1, 2, 3, 4);
        SIZES(lk_dataset_batch(lk_dataset_unbatch(lk_dataset_batch(numbers(5), 2)), 3), 3, 2);
        lk_tuple     e;
        lk_iterator *it = lk_iterator_of(lk_dataset_unbatch(numbers(2)));
        assert_false(lk_next(it, &e));
        failed_with(LK_ESHAPE, "a scalar and has no rows");
    }
}

TEST(cuts)
{
    LK_POOL {
        GIVES(lk_dataset_take(numbers(5), 3), 0, 1, 2);
        GIVES(lk_dataset_take(numbers(2), 3), 0, 1);
        NOTHING(lk_dataset_take(numbers(2), 0));
        GIVES(lk_dataset_skip(numbers(5), 3), 3, 4);
        GIVES(lk_dataset_skip(numbers(5), 0), 0, 1, 2, 3, 4);
        NOTHING(lk_dataset_skip(numbers(5), 9));
        GIVES(lk_dataset_shard(numbers(8), 3, 0), 0, 3, 6);
        GIVES(lk_dataset_shard(numbers(8), 3, 2), 2, 5);
        NOTHING(lk_dataset_shard(numbers(2), 3, 2));
        GIVES(lk_dataset_shard(numbers(3), 1, 0), 0, 1, 2);
        GIVES(lk_dataset_repeat(numbers(2), 3), 0, 1, 0, 1, 0, 1);
        GIVES(lk_dataset_take(lk_dataset_repeat(numbers(3)), 7), 0, 1, 2, 0, 1, 2, 0);
        NOTHING(lk_dataset_repeat(numbers(0)));
        SIZES(lk_dataset_batch(lk_dataset_repeat(numbers(3), 3), 4), 4, 4, 1); /* batches span repetitions */
        SIZES(lk_dataset_repeat(lk_dataset_batch(numbers(3), 2), 2), 2, 1, 2, 1);
        assert_int_equal(lk_dataset_cardinality(lk_dataset_take(lk_dataset_repeat(numbers(3)), 7)), 7);
        assert_int_equal(lk_dataset_cardinality(lk_dataset_skip(numbers(5), 9)), 0);
        assert_int_equal(lk_dataset_cardinality(lk_dataset_shard(numbers(8), 3, 2)), 2);
        assert_int_equal(lk_dataset_cardinality(lk_dataset_repeat(numbers(2), 3)), 6);
        assert_int_equal(lk_dataset_cardinality(lk_dataset_repeat(numbers(2))), LK_INFINITE);
        assert_int_equal(lk_dataset_cardinality(lk_dataset_repeat(numbers(0))), 0);
        REFUSED(lk_dataset_take(numbers(2), -1), LK_EINVAL, "0 or more");
        REFUSED(lk_dataset_skip(numbers(2), -1), LK_EINVAL, "0 or more");
        REFUSED(lk_dataset_shard(numbers(2), 2, 2), LK_EINVAL, "part 2 of 2");
        REFUSED(lk_dataset_repeat(numbers(2), -1), LK_EINVAL, "1 or more");
        GIVES(lk_dataset_shard(numbers(3), LK_SHARD_HINTED, LK_SHARD_HINTED), 0, 1, 2);
    }
}

static int is_odd(lk_tuple e, void *user)
{
    (void)user;
    return (int)lk_item(e.item[0]) % 2;
}

static int fails(lk_tuple e, void *user)
{
    (void)user;
    return lk_item(e.item[0]) == 3 ? lk_reshape(e.item[0], LK_SHAPE(2)) != NULL : 1;
}

TEST(filters)
{
    LK_POOL {
        GIVES(lk_dataset_filter(numbers(200), is_odd, NULL) ? lk_dataset_take(lk_dataset_filter(numbers(200), is_odd, NULL), 3)
                                                            : NULL,
              1, 3, 5);
        GIVES(lk_dataset_filter(numbers(5), is_odd, NULL), 1, 3);
        assert_int_equal(lk_dataset_cardinality(lk_dataset_filter(numbers(5), is_odd, NULL)), LK_UNKNOWN);
        REFUSED(lk_dataset_filter(numbers(5), NULL, NULL), LK_EINVAL, "the function is missing");
        lk_tuple     e;
        lk_iterator *it = lk_iterator_of(lk_dataset_filter(numbers(5), fails, NULL));
        for (int i = 0; i < 3; i++)
            assert_true(lk_next(it, &e));
        assert_false(lk_next(it, &e));
        failed_with(LK_ESHAPE, "reshape");
    }
}

TEST(zips)
{
    LK_POOL {
        lk_dataset *d = lk_dataset_zip(numbers(5), rows_of(3), lk_dataset_range(10, .stop = LK_NUMBER(20)));
        int         i = 0;
        LK_FOR_EACH(e, d) {
            assert_int_equal(e.count, 4);
            assert_true(lk_item(e.item[0]) == i && lk_item(e.item[2]) == i && lk_item(e.item[3]) == 10 + i);
            i++;
        }
        assert_int_equal(i, 3);
        assert_int_equal(lk_dataset_cardinality(d), 3);
        assert_int_equal(lk_dataset_element_spec(d).count, 4);
        GIVES(lk_dataset_batch(lk_dataset_zip(rows_of(3), numbers(3)), 2), 0, 1, 2, 10, 11, 12, 20, 21, 22);
        GIVES(lk_dataset_enumerate(lk_dataset_range(3, .stop = LK_NUMBER(5)), 7), 7, 8);
        LK_FOR_EACH(e, lk_dataset_enumerate(rows_of(2), 7))
            assert_true(lk_item(e.item[0]) == 7 + lk_item(e.item[2]));
        SIZES(lk_dataset_zip(lk_dataset_batch(numbers(5), 2), lk_dataset_batch(numbers(5), 2)), 2, 2, 1);
        LK_FOR_EACH(e, lk_dataset_zip(lk_dataset_batch(numbers(5), 2), lk_dataset_batch(numbers(5), 2)))
            assert_int_equal(e.item[1]->rows.global, 2);
        REFUSED(lk_dataset_zip(numbers(2), NULL), LK_EINVAL, "the dataset is NULL");
        REFUSED(lk_dataset_zip(), LK_EINVAL, "0 datasets");
        good();
    }
}

TEST(concatenates)
{
    LK_POOL {
        lk_dataset *d = lk_dataset_concatenate(numbers(2), lk_dataset_range(7, .stop = LK_NUMBER(9)));
        GIVES(d, 0, 1, 7, 8);
        assert_int_equal(lk_dataset_cardinality(d), 4);
        GIVES(lk_dataset_batch(d, 3), 0, 1, 7, 8);
        GIVES(lk_dataset_concatenate(numbers(0), numbers(1)), 0);
        SIZES(lk_dataset_concatenate(lk_dataset_batch(numbers(3), 2), lk_dataset_batch(numbers(3), 2)), 2, 1, 2, 1);
    }
}

/* n, n times over; or as often as `user` says */
static lk_dataset *repeated(lk_tuple e, void *user)
{
    const double n = lk_item(e.item[0]);
    return lk_dataset_take(lk_dataset_repeat(lk_dataset_from_tensors(LK_TUPLE(lk_scalar(n)))), user ? *(int *)user : (int64_t)n);
}

static lk_dataset *no_dataset(lk_tuple e, void *user)
{
    (void)user;
    return lk_item(e.item[0]) == 2 ? NULL : lk_dataset_range(1);
}

TEST(interleaves)
{
    LK_POOL {
        lk_dataset *n = lk_dataset_range(1, .stop = LK_NUMBER(6));
        int         six = 6; /* the example of TensorFlow's documentation */
        GIVES(lk_dataset_interleave(n, repeated, &six, .cycle_length = 2, .block_length = 4), 1, 1, 1, 1, 2, 2, 2, 2, 1, 1, 2, 2, 3,
              3, 3, 3, 4, 4, 4, 4, 3, 3, 4, 4, 5, 5, 5, 5, 5, 5);
        GIVES(lk_dataset_interleave(n, repeated, .cycle_length = 2), 1, 2, 2, 3, 3, 4, 3, 4, 4, 5, 4, 5, 5, 5, 5);
        GIVES(lk_dataset_interleave(n, repeated, .cycle_length = 2, .block_length = 2), 1, 2, 2, 3, 3, 3, 4, 4, 5, 5, 4, 4, 5, 5,
              5);
        GIVES(lk_dataset_interleave(n, repeated, .cycle_length = 1), 1, 2, 2, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 5);
        GIVES(lk_dataset_interleave(lk_dataset_range(3), repeated), 1, 2, 2);
        NOTHING(lk_dataset_interleave(lk_dataset_range(0), repeated));
        REFUSED(lk_dataset_interleave(n, NULL), LK_EINVAL, "the function is missing");
        REFUSED(lk_dataset_interleave(n, repeated, .cycle_length = -1), LK_EINVAL, "1 or more");
        lk_tuple     e;
        lk_iterator *it = lk_iterator_of(lk_dataset_interleave(n, no_dataset, .cycle_length = 1));
        assert_true(lk_next(it, &e));
        assert_false(lk_next(it, &e));
        failed_with(LK_EINVAL, "what the function returned: the dataset is NULL");
    }
}

/* What interleave's function makes goes with what it returned. */
TEST(interleave_leaves_nothing_behind)
{
    LK_POOL {
        lk_dataset *d = lk_dataset_interleave(lk_dataset_range(1, .stop = LK_NUMBER(40)), repeated, .cycle_length = 3);
        free(walk(d));
        const int64_t before = lki_memory_in_use();
        for (int i = 0; i < 3; i++)
            free(walk(d));
        assert_int_equal(lki_memory_in_use(), before);
    }
}

TESTS(cmocka_unit_test(batches), cmocka_unit_test(batches_know_their_rows), cmocka_unit_test(batches_copy_only_what_they_must),
      cmocka_unit_test(padded_batches), cmocka_unit_test(unbatch), cmocka_unit_test(cuts), cmocka_unit_test(filters),
      cmocka_unit_test(zips), cmocka_unit_test(concatenates), cmocka_unit_test(interleaves),
      cmocka_unit_test(interleave_leaves_nothing_behind))
