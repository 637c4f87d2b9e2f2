/* Sources: tensors, slices, ranges, generators; properties of a dataset that are known without reading it. */
#include "pipes.h"

TEST(tensors_are_one_element)
{
    LK_POOL {
        lk_dataset *d = lk_dataset_from_tensors(LK_TUPLE(lk_tensor_of(LK_SHAPE(2), 3, 4), lk_scalar(5)));
        GIVES(d, 3, 4);
        assert_int_equal(lk_dataset_cardinality(d), 1);
        lk_element_spec s = lk_dataset_element_spec(d);
        assert_int_equal(s.count, 2);
        assert_int_equal(s.shape[0].dim[0], 2);
        assert_int_equal(s.shape[1].rank, 0);
    }
}

TEST(slices_are_rows)
{
    LK_POOL {
        lk_dataset *d = rows_of(3);
        int         i = 0;
        LK_FOR_EACH(e, d) {
            assert_int_equal(e.count, 2);
            assert_int_equal(lk_dim(e.item[0], 0), 3);
            assert_int_equal(lk_rank(e.item[1]), 0);
            assert_true(((const float *)lk_data(e.item[0]))[1] == (float)(10 * i + 1));
            assert_true(lk_item(e.item[1]) == i++);
        }
        assert_int_equal(i, 3);
        assert_int_equal(lk_dataset_cardinality(d), 3);
        assert_int_equal(lk_dataset_cardinality(lk_dataset_from_tensor_slices(LK_TUPLE(lk_zeros(LK_SHAPE(0, 4), LK_F32)))), 0);
    }
    good();
}

/* A row's memory is its source's: nothing is copied, and the source may be let go. */
TEST(rows_share_memory)
{
    lk_dataset *d = NULL;
    LK_STEP
        d = rows_of(4);
    lk_iterator *it = lk_iterator_of(d);
    lk_tuple     a, b;
    assert_true(lk_next(it, &a));
    const void *first = lk_data(a.item[0]);
    assert_true(lk_next(it, &b));
    assert_ptr_equal((const char *)first + 3 * sizeof(float), lk_data(b.item[0]));
    lk_tensor *kept = lk_keep(b.item[0]);
    lk_free(it);
    lk_free(d);
    assert_true(((const float *)lk_data(kept))[0] == 10);
    lk_free(kept);
}

/* What a variable held when the dataset was made stays in it. */
TEST(a_variable_is_read_once)
{
    LK_POOL {
        lk_variable *v = lk_variable_of(lk_tensor_of(LK_SHAPE(2), 1, 2));
        lk_dataset  *d = lk_dataset_from_tensor_slices(LK_TUPLE(lk_read(v)));
        lk_assign(v, lk_tensor_of(LK_SHAPE(2), 7, 8));
        GIVES(d, 1, 2);
    }
}

TEST(ranges)
{
    LK_POOL {
        GIVES(lk_dataset_range(4), 0, 1, 2, 3);
        GIVES(lk_dataset_range(2, .stop = LK_NUMBER(10), .step = LK_NUMBER(3)), 2, 5, 8);
        GIVES(lk_dataset_range(3, .stop = LK_NUMBER(-3), .step = LK_NUMBER(-2)), 3, 1, -1);
        NOTHING(lk_dataset_range(3, .stop = LK_NUMBER(3)));
        GIVES(lk_dataset_range(3, .dtype = LK_I64), 0, 1, 2);
        assert_int_equal(lk_dataset_cardinality(lk_dataset_range(2, .stop = LK_NUMBER(10), .step = LK_NUMBER(3))), 3);
        LK_FOR_EACH(e, lk_dataset_range(1, .dtype = LK_U8))
            assert_int_equal(lk_tensor_dtype(e.item[0]), LK_U8);
        REFUSED(lk_dataset_range(4, .step = LK_NUMBER(0)), LK_EINVAL, "the step not 0");
        REFUSED(lk_dataset_range(4, .step = LK_NUMBER(0.5)), LK_EINVAL, "integers");
        REFUSED(lk_dataset_range(300, .dtype = LK_U8), LK_EINVAL, "u8 holds 0 to 255");
        REFUSED(lk_dataset_range(3, .dtype = (lk_dtype)99), LK_EDTYPE, "not an element type");
    }
}

TEST(generators)
{
    LK_POOL {
        counting    five = {.end = 5}, breaks = {.end = 9, .fail = 2}, nothing = {0};
        lk_dataset *d = lk_dataset_from_generator(count_up, &five);
        GIVES(d, 0, 1, 2, 3, 4);
        GIVES(d, 0, 1, 2, 3, 4);
        NOTHING(lk_dataset_from_generator(count_up, &nothing));
        assert_int_equal(lk_dataset_cardinality(d), LK_UNKNOWN);
        assert_int_equal(lk_dataset_element_spec(d).count, 1);

        lk_iterator *it = lk_iterator_of(lk_dataset_from_generator(count_up, &breaks));
        lk_tuple     e;
        assert_true(lk_next(it, &e) && lk_next(it, &e));
        assert_false(lk_next(it, &e));
        failed_with(LK_ESHAPE, "reshape");
        assert_false(lk_next(it, &e)); /* and it stays so */
        failed_with(LK_ESHAPE, "reshape");
        assert_int_equal(e.count, 0);
        assert_true(lk_poisoned(e.item[7]));
    }
}

static int give_poison(int64_t index, lk_tuple *element, void *user)
{
    (void)index, (void)user;
    *element = LK_TUPLE();
    return 1;
}

TEST(mistakes)
{
    LK_POOL {
        REFUSED(lk_dataset_from_tensor_slices(LK_TUPLE(lk_scalar(1))), LK_ESHAPE, "a scalar and has no slices");
        REFUSED(lk_dataset_from_tensor_slices(LK_TUPLE(lk_zeros(LK_SHAPE(2), LK_F32), lk_zeros(LK_SHAPE(3), LK_F32))), LK_ESHAPE,
                "3 slices, tensor 0 has 2");
        REFUSED(lk_dataset_from_tensors(LK_TUPLE()), LK_EINVAL, "0 tensors");
        REFUSED(lk_dataset_from_tensors(LK_TUPLE(NULL)), LK_EINVAL, "tensor 0 is NULL");
        REFUSED(lk_dataset_from_tensors(LK_TUPLE(lk_nest(LK_TUPLE(lk_scalar(1))))), LK_EINVAL, "lk_nest");
        REFUSED(lk_dataset_from_generator(NULL, NULL), LK_EINVAL, "NULL");
        GIVES(lk_dataset_from_tensors(LK_TUPLE(lk_scalar(1))), 1);
        lk_tuple     e;
        lk_iterator *it = lk_iterator_of(lk_dataset_from_generator(give_poison, NULL));
        assert_false(lk_next(it, &e));
        failed_with(LK_EINVAL, "an element of 0 tensors");
        REFUSED(lk_iterator_of(NULL), LK_EINVAL, "the dataset is NULL");
        assert_int_equal(lk_dataset_cardinality(NULL), LK_UNKNOWN);
        failed_with(LK_EINVAL, "NULL");
        assert_false(lk_next(NULL, &e));
        failed_with(LK_EINVAL, "the iterator is NULL");
    }
}

TESTS(cmocka_unit_test(tensors_are_one_element), cmocka_unit_test(slices_are_rows), cmocka_unit_test(rows_share_memory),
      cmocka_unit_test(a_variable_is_read_once), cmocka_unit_test(ranges), cmocka_unit_test(generators), cmocka_unit_test(mistakes))
