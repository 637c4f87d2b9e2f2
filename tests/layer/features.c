/* Layers that make features of ids and numbers: CategoryEncoding, Discretization, IntegerLookup. Numbers are Keras'. */
#include "layer/layers.h"

static lk_tensor *ids(lk_shape s, const int64_t *values) { return lk_tensor_from(s, LK_I64, values); }
#define IDS(...) ids(LK_SHAPE(2, 3), (const int64_t[]){__VA_ARGS__})
#define TOKENS(...) lk_tensor_from(LK_SHAPE(LKI_N(int64_t, __VA_ARGS__)), LK_I64, (const int64_t[]){__VA_ARGS__})

/* Rows of ids as they are in a model, called. */
static lk_tensor *encoded(lk_layer *l, lk_tensor *x)
{
    lk_node *in = lk_input(row_of(lk_tensor_shape(x)), .dtype = lk_tensor_dtype(x));
    return lk_cast(lk_model_call(lk_functional(LK_NODES(in), LK_NODES(lk_apply(l, in))), x), LK_F32);
}

/* ---- CategoryEncoding ---- */

TEST(categories)
{
    LK_POOL {
        lk_tensor *x = IDS(0, 2, 2, 3, 1, 5), *weights = lk_tensor_of(LK_SHAPE(2, 3), 0.5, 1, 2, 1, 0.25, 3);
        CLOSE(encoded(lk_category_encoding(4, LK_OUTPUT_ONE_HOT), x), 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 1, 0, 0, 0,
              0, 0, 0);
        CLOSE(encoded(lk_category_encoding(4), x), 1, 0, 1, 0, 0, 1, 0, 1);
        CLOSE(encoded(lk_category_encoding(4, LK_OUTPUT_COUNT), x), 1, 0, 2, 0, 0, 1, 0, 1);
        CLOSE(lk_layer_call(lk_category_encoding(4, LK_OUTPUT_COUNT), lk_nest(LK_TUPLE(x, weights))), 0.5, 0, 3, 0, 0, 0.25, 0, 1);
        CLOSE(encoded(lk_category_encoding(3, LK_OUTPUT_ONE_HOT), ids(LK_SHAPE(2, 1), (const int64_t[]){2, 0})), 0, 0, 1, 1, 0, 0);
        BECOMES(lk_category_encoding(3, LK_OUTPUT_ONE_HOT), LK_SHAPE(), 3);
        BECOMES(lk_category_encoding(3, LK_OUTPUT_ONE_HOT), LK_SHAPE(-1), -1, 3);
        BECOMES(lk_category_encoding(3), LK_SHAPE(-1), 3);
        BECOMES(lk_category_encoding(3), LK_SHAPE(2, 5), 5, 3);
        ROW_REFUSED(lk_category_encoding(3), LK_SHAPE(), "\"category_encoding\"", "one_hot");
        REFUSED(LK_EINVAL, !lk_category_encoding(0), "lk_category_encoding", "num_tokens is 0");
        REFUSED(LK_EINVAL, !lk_category_encoding(3, LK_OUTPUT_INT), "output_mode is int");
        REFUSED(LK_EINVAL, !lk_category_encoding(3, LK_OUTPUT_TF_IDF), "no output_mode");
        lk_shape out;
        REFUSED(LK_ESHAPE, rows_after(lk_category_encoding(3), LK_SHAPE(2), LK_SHAPE(2), &out) != LK_OK, "count_weights are for");
        FINE();
    }
}

/* ---- Discretization ---- */

TEST(bins)
{
    LK_POOL {
        lk_tensor *x = lk_tensor_of(LK_SHAPE(2, 3), -1.5, 0, 0.5, 1, 2.5, 7), *at = lk_tensor_of(LK_SHAPE(3), 0, 1, 2.5);
        CLOSE(encoded(lk_discretization(at), x), 0, 1, 1, 2, 3, 3);
        CLOSE(encoded(lk_discretization(at, .output_mode = LK_OUTPUT_MULTI_HOT), x), 1, 1, 0, 0, 0, 0, 1, 1);
        CLOSE(encoded(lk_discretization(at, .output_mode = LK_OUTPUT_COUNT), x), 1, 2, 0, 0, 0, 0, 1, 2);
        BECOMES(lk_discretization(at), LK_SHAPE(-1, 2), -1, 2);
        BECOMES(lk_discretization(.num_bins = 5, .output_mode = LK_OUTPUT_ONE_HOT), LK_SHAPE(1), 5);
        assert_int_equal(lk_tensor_dtype(lk_model_call(lk_sequential(lk_discretization(at)), x)), LK_I32);
        REFUSED(LK_EINVAL, !lk_discretization(), "lk_discretization", "neither bin_boundaries nor num_bins");
        REFUSED(LK_EINVAL, !lk_discretization(at, 3), "both bin_boundaries and num_bins");
        REFUSED(LK_EINVAL, !lk_discretization(lk_tensor_of(LK_SHAPE(2), 1, 0)), "0 after 1", "ascend");
        REFUSED(LK_ESHAPE, !lk_discretization(lk_ones(LK_SHAPE(2, 1), LK_F32)), "bin_boundaries is [2, 1]");
        REFUSED(LK_EINVAL, !lk_discretization(at, .epsilon = LK_NUMBER(0)), "epsilon is 0");
        REFUSED(LK_ESTATE, lk_poisoned(through(lk_discretization(.num_bins = 3), x)), "no bin_boundaries yet",
                "lk_discretization_adapt");
        FINE();
    }
}

static lk_tensor *sample(void)
{
    float x[300];
    for (int i = 0; i < 300; i++)
        x[i] = (float)((7 * i % 101) * (7 * i % 101)) / 64;
    return lk_tensor_from(LK_SHAPE(300, 1), LK_F32, x);
}

static const lk_tensor *boundaries_of(lk_layer *l)
{
    return *(lk_tensor *const *)((const char *)l + l->kind->set + sizeof(char *));
}

TEST(bins_learnt_from_data)
{
    LK_POOL {
        lk_layer   *l = lk_discretization(.num_bins = 4, .epsilon = 0.05), *few = lk_discretization(.num_bins = 4);
        lk_dataset *d = lk_dataset_batch(lk_dataset_from_tensor_slices(LK_TUPLE(sample())), 100);
        assert_int_equal(lk_discretization_adapt(l, d), LK_OK);
        CLOSE(lk_cast((lk_tensor *)boundaries_of(l), LK_F32), 9.00000286, 37.5156364, 85.5625);
        CLOSE(encoded(l, lk_tensor_of(LK_SHAPE(4, 1), 1, 10, 60, 99)), 0, 1, 2, 3);
        d = lk_dataset_from_tensors(LK_TUPLE(lk_tensor_of(LK_SHAPE(5), 3, 1, 2, 5, 4)));
        assert_int_equal(lk_discretization_adapt(few, d), LK_OK);
        CLOSE(lk_cast((lk_tensor *)boundaries_of(few), LK_F32), 1.25, 2.5, 3.75);
        REFUSED(LK_EINVAL, lk_discretization_adapt(NULL, d) != LK_OK, "lk_discretization_adapt", "NULL");
        REFUSED(LK_EINVAL, lk_discretization_adapt(lk_flatten(), d) != LK_OK, "not a Discretization layer");
        REFUSED(LK_EINVAL, lk_discretization_adapt(lk_discretization(lk_ones(LK_SHAPE(1), LK_F32)), d) != LK_OK, "was given");
        REFUSED(LK_EINVAL, lk_discretization_adapt(l, lk_dataset_take(d, 0)) != LK_OK, "no numbers");
        FINE();
    }
}

/* ---- IntegerLookup ---- */

TEST(places_in_a_vocabulary)
{
    LK_POOL {
        lk_tensor *x = IDS(5, 7, -3, 9, 5, 100), *words = TOKENS(9, 5, 7);
        CLOSE(encoded(lk_integer_lookup(words), x), 2, 3, 0, 1, 2, 0);
        CLOSE(encoded(lk_integer_lookup(TOKENS(9, 7), .mask_token = 5), x), 0, 3, 1, 2, 0, 1);
        CLOSE(encoded(lk_integer_lookup(words, .num_oov_indices = 3), x), 4, 5, 0, 3, 4, 1);
        CLOSE(encoded(lk_integer_lookup(TOKENS(9, 5, 7, -3), .num_oov_indices = 0, .mask_token = 100), x), 2, 3, 4, 1, 2, 0);
        CLOSE(encoded(lk_integer_lookup(words, .output_mode = LK_OUTPUT_MULTI_HOT), x), 1, 0, 1, 1, 1, 1, 1, 0);
        CLOSE(encoded(lk_integer_lookup(words, .output_mode = LK_OUTPUT_COUNT, .num_oov_indices = 2), x), 0, 1, 0, 1, 1, 1, 0, 1, 1,
              0);
        CLOSE(encoded(lk_integer_lookup(TOKENS(9, 7), .output_mode = LK_OUTPUT_COUNT, .mask_token = 5), x), 1, 0, 1, 1, 1, 0);
        CLOSE(encoded(lk_integer_lookup(words, .output_mode = LK_OUTPUT_COUNT, .max_tokens = 6, .pad_to_max_tokens = true), x), 1,
              0, 1, 1, 0, 0, 1, 1, 1, 0, 0, 0);
        CLOSE(encoded(lk_integer_lookup(words, lk_tensor_of(LK_SHAPE(3), 1, 2, 4), LK_OUTPUT_TF_IDF), x), 2.33333325, 0, 2, 4,
              2.33333325, 1, 2, 0);
        CLOSE(encoded(lk_integer_lookup(TOKENS(-1, 9, 5, 7), lk_tensor_of(LK_SHAPE(4), 0.5, 1, 2, 4), LK_OUTPUT_TF_IDF), x), 0.5, 0,
              2, 4, 0.5, 1, 2, 0);
        CLOSE(encoded(lk_integer_lookup(words, .invert = true, .mask_token = 0), IDS(0, 1, 2, 3, 4, 5)), 0, -1, 9, 5, 7, -1);
        lk_tensor *ends = ids(LK_SHAPE(1, 3), (const int64_t[]){INT64_MIN, INT64_MAX, 9});
        CLOSE(encoded(lk_integer_lookup(words), ends), 0, 0, 1);
        FINE();
    }
}

TEST(vocabularies_that_cannot_be)
{
    LK_POOL {
        lk_tensor *words = TOKENS(9, 5, 7), *x = IDS(1, 2, 3, 4, 5, 6);
        ROW_REFUSED(lk_integer_lookup(), LK_SHAPE(3), "\"integer_lookup\"", "no vocabulary", "lk_integer_lookup_adapt");
        REFUSED(LK_EINVAL, !lk_integer_lookup(TOKENS(9, 5, 9)), "lk_integer_lookup", "9 twice");
        REFUSED(LK_EINVAL, !lk_integer_lookup(words, .max_tokens = 3), "4 entries", "max_tokens is 3");
        REFUSED(LK_EINVAL, !lk_integer_lookup(words, .output_mode = LK_OUTPUT_TF_IDF), "needs idf_weights");
        REFUSED(LK_EINVAL, !lk_integer_lookup(words, .invert = true, .output_mode = LK_OUTPUT_COUNT), "invert");
        REFUSED(LK_EINVAL, !lk_integer_lookup(words, .pad_to_max_tokens = true), "needs max_tokens");
        REFUSED(LK_ESHAPE, !lk_integer_lookup(words, lk_ones(LK_SHAPE(2), LK_F32), LK_OUTPUT_TF_IDF), "2 idf_weights", "of 3");
        lk_tensor *y = encoded(lk_integer_lookup(words, .num_oov_indices = 0), x);
        assert_true(lk_poisoned(y) || !lk_data(y));
        assert_true(lk_failed());
        lk_clear_error();
    }
}

TEST(vocabularies_learnt_from_data)
{
    LK_POOL {
        lk_tensor  *x = ids(LK_SHAPE(3, 3), (const int64_t[]){4, 4, 2, 2, -1, 9, 9, 4, 4});
        lk_dataset *d = lk_dataset_batch(lk_dataset_from_tensor_slices(LK_TUPLE(x)), 2);
        lk_layer   *l = lk_integer_lookup(.max_tokens = 3), *idf = lk_integer_lookup(.output_mode = LK_OUTPUT_TF_IDF);
        assert_int_equal(lk_integer_lookup_adapt(l, d), LK_OK);
        CLOSE(encoded(l, IDS(-1, 4, 9, 2, 4, 0)), 0, 1, 2, 0, 1, 0);
        assert_int_equal(lk_integer_lookup_adapt(idf, d), LK_OK);
        CLOSE(encoded(idf, IDS(4, 2, 9, 4, 4, 1)), 0, 0.693147182, 0.693147182, 0.693147182, 0.693147182, 1.38629436, 0, 0);
        assert_int_equal(lk_integer_lookup_adapt(idf, d), LK_OK); /* again, with weights */
        REFUSED(LK_EINVAL, lk_integer_lookup_adapt(lk_integer_lookup(TOKENS(1)), d) != LK_OK, "was given its vocabulary");
        REFUSED(LK_EINVAL, lk_integer_lookup_adapt(lk_flatten(), d) != LK_OK, "not an IntegerLookup layer");
        REFUSED(LK_EINVAL, lk_integer_lookup_adapt(lk_integer_lookup(), lk_dataset_take(d, 0)) != LK_OK, "no tokens");
        FINE();
    }
}

TESTS(cmocka_unit_test(categories), cmocka_unit_test(bins), cmocka_unit_test(bins_learnt_from_data),
      cmocka_unit_test(places_in_a_vocabulary), cmocka_unit_test(vocabularies_that_cannot_be),
      cmocka_unit_test(vocabularies_learnt_from_data))
