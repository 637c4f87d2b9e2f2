/* Normalisations and SpatialDropout2D: rows, weights, statistics learnt from data, random numbers, and errors. Results of the
 * others are tested in keras.c. */
#include "layer/replicas.h"

/* ---- within a row ---- */

TEST(rows_and_weights)
{
    LK_POOL {
        BECOMES(lk_layer_normalization(), LK_SHAPE(-1, 4), -1, 4);
        BECOMES(lk_layer_normalization(.center = LK_OFF, .scale = LK_OFF), LK_SHAPE(3, -1), 3, -1);
        BECOMES(lk_group_normalization(2), LK_SHAPE(-1, -1, 4), -1, -1, 4);
        BECOMES(lk_normalization(), LK_SHAPE(-1, 4), -1, 4);
        BECOMES(lk_spatial_dropout2d(0.5), LK_SHAPE(-1, 3, -1), -1, 3, -1);
        lk_layer *l = lk_layer_normalization(.axis = LK_AXES(3, 2));
        lk_model_build(lk_sequential(l), LK_SHAPE(-1, 3, 4));
        assert_true(is_shape(lk_variable_shape(lk_layer_variables(l).item[0]), LK_SHAPE(3, 4)));
        assert_string_equal(lk_variable_name(lk_layer_variables(l).item[0]), "layer_normalization/gamma");
        assert_string_equal(lk_variable_name(lk_layer_variables(l).item[1]), "layer_normalization/beta");
        ROW_REFUSED(l, LK_SHAPE(2, 3, 5), "[3, 4]", "as when its weights were made");
        l = lk_group_normalization(3, .scale = LK_OFF, .beta_initializer = lk_init_constant(2));
        lk_model_build(lk_sequential(l), LK_SHAPE(6));
        assert_int_equal(lk_layer_variables(l).count, 1);
        assert_string_equal(lk_variable_name(lk_layer_variables(l).item[0]), "group_normalization/beta");
        CLOSE(lk_read(lk_layer_variables(l).item[0]), 2, 2, 2, 2, 2, 2);
        ROW_REFUSED(l, LK_SHAPE(9), "6 channels", "as when its weights were made");
        FINE();
    }
}

TEST(rows_that_do_not_fit)
{
    LK_POOL {
        ROW_REFUSED(lk_layer_normalization(), LK_SHAPE(3, -1), "\"layer_normalization\"", "fixed sizes");
        ROW_REFUSED(lk_layer_normalization(), LK_SHAPE(), "at least one axis");
        ROW_REFUSED(lk_layer_normalization(.axis = LK_AXES(1, -3)), LK_SHAPE(3, 4, 5), "axis 1 is named twice");
        ROW_REFUSED(lk_layer_normalization(.axis = LK_AXES(0)), LK_SHAPE(3), "axis 0", "batch");
        ROW_REFUSED(lk_layer_normalization(.axis = LK_AXES(-3)), LK_SHAPE(3), "axis -3", "1 to 1");
        ROW_REFUSED(lk_group_normalization(), LK_SHAPE(8), "\"group_normalization\"", "8 channels", "32 groups");
        ROW_REFUSED(lk_group_normalization(3), LK_SHAPE(8), "3 groups");
        ROW_REFUSED(lk_group_normalization(-1), LK_SHAPE(2, -1), "fixed number");
        ROW_REFUSED(lk_group_normalization(-1), LK_SHAPE(), "at least one axis");
        ROW_REFUSED(lk_normalization(), LK_SHAPE(4, -1), "\"normalization\"", "fixed number");
        ROW_REFUSED(lk_normalization(lk_zeros(LK_SHAPE(3), LK_F32), lk_ones(LK_SHAPE(3), LK_F32)), LK_SHAPE(4), "channels are [4]",
                    "for [3]");
        ROW_REFUSED(lk_spatial_dropout2d(0.5), LK_SHAPE(4, 4), "\"spatial_dropout2d\"", "[height, width, channels]");
        FINE();
    }
}

TEST(layers_that_cannot_be)
{
    LK_POOL {
        lk_tensor *two = lk_ones(LK_SHAPE(2), LK_F32), *three = lk_ones(LK_SHAPE(3), LK_F32);
        REFUSED(LK_EINVAL, !lk_layer_normalization(.epsilon = LK_NUMBER(-1)), "lk_layer_normalization", "epsilon is -1");
        REFUSED(LK_EINVAL, !lk_group_normalization(-2), "lk_group_normalization", "groups is -2");
        REFUSED(LK_EINVAL, !lk_group_normalization(2, .epsilon = LK_NUMBER(NAN)), "epsilon is nan");
        REFUSED(LK_EINVAL, !lk_spatial_dropout2d(1), "lk_spatial_dropout2d", "rate is 1", "below 1");
        REFUSED(LK_EINVAL, !lk_normalization(two), "lk_normalization", "mean is given without variance", "lk_normalization_adapt");
        REFUSED(LK_EINVAL, !lk_normalization(.variance = two), "variance is given without mean");
        REFUSED(LK_ESHAPE, !lk_normalization(two, three), "mean is [2]", "variance [3]");
        REFUSED(LK_ESHAPE, !lk_normalization(lk_ones(LK_SHAPE(1, 2), LK_F32), two), "mean is [1, 2]", "one per channel");
        REFUSED(LK_EINVAL, !lk_normalization(two, lk_tensor_of(LK_SHAPE(2), 1, -1)), "variance of -1", "at least 0");
        REFUSED(LK_EINVAL, !lk_normalization((lk_tensor *)lk_l2(1), two), "mean is not a tensor");
        FINE();
    }
}

/* Channels in another place give what channels at the end give. */
TEST(channels_of_any_axis)
{
    LK_POOL {
        lk_tensor *x = input_of(LK_SHAPE(4, 3, 2, 5), 0), *turned = lk_transpose(x, LK_AXES(0, 2, 3, 1));
        for (int training = 0; training < 2; training++) {
            lk_layer  *first = lk_batch_normalization(.axis = LK_AXIS(1)), *last = lk_batch_normalization();
            lk_tensor *a = lk_model_call(lk_sequential(first), x, training ? LK_ON : LK_OFF);
            lk_tensor *b = lk_model_call(lk_sequential(last), turned, training ? LK_ON : LK_OFF);
            assert_true(same_bits(a, lk_transpose(b, LK_AXES(0, 3, 1, 2))));
            for (int i = 0; i < 4; i++)
                assert_true(same_bits(lk_read(lk_layer_variables(first).item[i]), lk_read(lk_layer_variables(last).item[i])));
        }
        ROW_REFUSED(lk_batch_normalization(.axis = LK_AXIS(3)), LK_SHAPE(4, 2), "axis 3", "1 to 2");
        ROW_REFUSED(lk_batch_normalization(.axis = LK_AXIS(0)), LK_SHAPE(4, 2), "axis 0 is the batch");
        ROW_REFUSED(lk_batch_normalization(.axis = LK_AXIS(1)), LK_SHAPE(-1, 2), "fixed number");
        FINE();
    }
}

/* ---- SpatialDropout2D ---- */

/* Each channel of each row is 0 as a whole, or scaled as a whole. */
TEST(whole_channels_are_dropped)
{
    LK_POOL {
        enum { ROWS = 64, CELLS = 6, CHANNELS = 8 };
        lk_model    *m = lk_sequential(lk_spatial_dropout2d(0.25));
        lk_tensor   *x = lk_rows(lk_ones(LK_SHAPE(ROWS, 2, 3, CHANNELS), LK_F32), 0);
        lk_tensor   *first = lk_model_call(m, x, .training = LK_ON), *second = lk_model_call(m, x, .training = LK_ON);
        const float *y = lk_data(first);
        int          dropped = 0;
        for (int r = 0; r < ROWS; r++)
            for (int c = 0; c < CHANNELS; c++) {
                float of = y[r * CELLS * CHANNELS + c];
                dropped += of == 0;
                assert_true(of == 0 || of == 1 / 0.75f);
                for (int k = 0; k < CELLS; k++)
                    assert_true(y[(r * CELLS + k) * CHANNELS + c] == of);
            }
        assert_in_range(dropped, ROWS * CHANNELS / 6, ROWS * CHANNELS / 3);
        assert_false(same_bits(first, second));
        assert_true(same_bits(lk_model_call(m, x), x));
        assert_true(same_bits(lk_model_call(lk_sequential(lk_spatial_dropout2d(0)), x, .training = LK_ON), x));
        FINE();
    }
}

TEST(a_seed_decides)
{
    LK_POOL {
        lk_tensor *x = lk_ones(LK_SHAPE(8, 2, 2, 4), LK_F32);
        lk_model  *a = lk_sequential(lk_spatial_dropout2d(0.5, LK_NUMBER(3), .name = "a")),
                 *b = lk_sequential(lk_spatial_dropout2d(0.5, LK_NUMBER(3), .name = "b")),
                 *c = lk_sequential(lk_spatial_dropout2d(0.5, .name = "c"));
        lk_tensor *drawn = lk_model_call(a, x, .training = LK_ON);
        assert_true(same_bits(drawn, lk_model_call(b, x, .training = LK_ON)));
        assert_false(same_bits(drawn, lk_model_call(c, x, .training = LK_ON)));
        FINE();
    }
}

/* ---- Normalization ---- */

static lk_tensor *sample(void) { return lk_tensor_of(LK_SHAPE(4, 3), 0, 7, 4, 2, 9, 6, 0, 7, 4, 2, 9, 9); }

static void normalises(lk_layer *l, lk_model *m)
{
    lk_variables w = lk_layer_variables(l);
    assert_int_equal(w.count, 3);
    assert_string_equal(lk_variable_name(w.item[0]), "normalization/mean");
    assert_string_equal(lk_variable_name(w.item[1]), "normalization/variance");
    assert_string_equal(lk_variable_name(w.item[2]), "normalization/count");
    CLOSE(lk_read(w.item[0]), 1, 8, 5.75);
    CLOSE(lk_read(w.item[1]), 1, 1, 4.1875);
    assert_int_equal(lk_variable_dtype(w.item[2]), LK_I64);
    assert_int_equal((int)lk_item(lk_read(w.item[2])), 0);
    assert_int_equal(lk_model_trainable_variables(m).count, 0);
    CLOSE(lk_model_call(m, lk_tensor_of(LK_SHAPE(1, 3), 0, 9, 5.75)), -1, 1, 0);
    FINE();
}

/* However the rows are cut, and whether the layer is alone, in a model, built, or used before. */
TEST(learnt_from_a_dataset)
{
    LK_POOL {
        lk_dataset *rows = lk_dataset_from_tensor_slices(LK_TUPLE(sample()));
        lk_dataset *each[] = {rows, lk_dataset_batch(rows, 3), lk_dataset_from_tensors(LK_TUPLE(sample(), lk_scalar(1)))};
        for (int i = 0; i < LKI_COUNT(each); i++)
            for (int when = 0; when < 4; when++) {
                lk_layer *l = lk_normalization();
                if (when == 0) assert_int_equal(lk_normalization_adapt(l, each[i]), LK_OK);
                lk_model *m = lk_sequential(l);
                if (when == 1) lk_normalization_adapt(l, each[i]);
                if (when < 3) lk_model_build(m, LK_SHAPE(3));
                if (when == 3) CLOSE(lk_model_call(m, lk_tensor_of(LK_SHAPE(1, 3), 1, 2, 3)), 1, 2, 3); /* by 0 and 1 at first */
                if (when >= 2) lk_normalization_adapt(l, each[i]);
                normalises(l, m);
            }
    }
}

/* Images: over their cells, in double. */
TEST(learnt_from_many_cells)
{
    LK_POOL {
        lk_layer   *l = lk_normalization(.invert = LK_ON);
        lk_tensor  *x = lk_add(lk_random_normal(LK_SHAPE(50, 8, 8, 2), .stream = "cells"), lk_scalar(1000));
        lk_dataset *d = lk_dataset_batch(lk_dataset_from_tensor_slices(LK_TUPLE(x)), 7);
        assert_int_equal(lk_normalization_adapt(l, d), LK_OK);
        lk_model    *m = lk_sequential(l);
        lk_tensor   *y = lk_model_call(m, lk_zeros(LK_SHAPE(1, 8, 8, 2), LK_F32)); /* the mean */
        double       mean[2] = {0}, variance[2] = {0};
        const float *data = lk_data(x);
        for (int i = 0; i < 50 * 128; i++)
            mean[i % 2] += data[i] / 3200.0;
        for (int i = 0; i < 50 * 128; i++)
            variance[i % 2] += (data[i] - mean[i % 2]) * (data[i] - mean[i % 2]) / 3200.0;
        CLOSE(lk_slice(y, LK_AXES(0, 0, 0, 0), LK_AXES(1, 1, 1, 2)), mean[0], mean[1]);
        CLOSE(lk_read(lk_layer_variables(l).item[1]), variance[0], variance[1]);
        FINE();
    }
}

TEST(learning_again_replaces)
{
    LK_POOL {
        lk_layer *l = lk_normalization();
        lk_normalization_adapt(l, lk_dataset_from_tensors(LK_TUPLE(lk_ones(LK_SHAPE(4, 3), LK_F32))));
        lk_normalization_adapt(l, lk_dataset_from_tensors(LK_TUPLE(sample())));
        lk_model *m = lk_sequential(l);
        lk_model_build(m, LK_SHAPE(3));
        normalises(l, m);
    }
}

TEST(mistakes_in_learning)
{
    LK_POOL {
        lk_dataset *d = lk_dataset_from_tensors(LK_TUPLE(sample()));
        lk_layer   *l = lk_normalization(), *given = lk_normalization(lk_scalar(1), lk_scalar(1));
        REFUSED(LK_EINVAL, lk_normalization_adapt(NULL, d) != LK_OK, "lk_normalization_adapt", "NULL");
        REFUSED(LK_EINVAL, lk_normalization_adapt(lk_flatten(), d) != LK_OK, "\"flatten\"", "not a Normalization layer");
        REFUSED(LK_EINVAL, lk_normalization_adapt(given, d) != LK_OK, "was given its mean and variance");
        REFUSED(LK_EINVAL, lk_normalization_adapt(l, NULL) != LK_OK, "NULL");
        REFUSED(LK_EINVAL, lk_normalization_adapt(l, lk_dataset_take(d, 0)) != LK_OK, "no rows");
        REFUSED(LK_ESHAPE, lk_normalization_adapt(l, lk_dataset_range(3)) != LK_OK, "element of []", "no channels");
        assert_int_equal(lk_normalization_adapt(l, d), LK_OK);
        ROW_REFUSED(l, LK_SHAPE(4), "channels are [4]", "for [3]");
        lk_model_build(lk_sequential(l), LK_SHAPE(3));
        REFUSED(LK_ESHAPE, lk_normalization_adapt(l, lk_dataset_from_tensors(LK_TUPLE(lk_ones(LK_SHAPE(2, 5), LK_F32)))) != LK_OK,
                "[2, 5]", "channels [3]");
        CLOSE(lk_read(lk_layer_variables(l).item[0]), 1, 8, 5.75);
        FINE();
    }
}

/* Means of other axes, and of everything. */
TEST(learnt_for_other_axes)
{
    LK_POOL {
        lk_dataset *d = lk_dataset_batch(lk_dataset_from_tensor_slices(LK_TUPLE(sample())), 2);
        lk_layer   *all = lk_normalization(.axis = LK_AXES()), *pairs = lk_normalization(.axis = LK_AXES(1, 2));
        assert_int_equal(lk_normalization_adapt(all, d), LK_OK);
        lk_model_build(lk_sequential(all), LK_SHAPE(3));
        CLOSE(lk_read(lk_layer_variables(all).item[0]), 59 / 12.0);
        CLOSE(lk_read(lk_layer_variables(all).item[1]), 417 / 12.0 - 59 / 12.0 * 59 / 12);
        assert_int_equal(lk_rank(lk_read(lk_layer_variables(all).item[0])), 0);
        lk_tensor *x = lk_tensor_of(LK_SHAPE(2, 2, 2), 1, 2, 3, 4, 5, 6, 7, 16);
        assert_int_equal(lk_normalization_adapt(pairs, lk_dataset_from_tensors(LK_TUPLE(x))), LK_OK);
        CLOSE(through(pairs, x), -1, -1, -1, -1, 1, 1, 1, 1);
        assert_true(is_shape(lk_variable_shape(lk_layer_variables(pairs).item[0]), LK_SHAPE(2, 2)));
        ROW_REFUSED(pairs, LK_SHAPE(2, 3), "channels are [2, 3]", "for [2, 2]");
        FINE();
    }
}

/* ---- over replicas ---- */

TEST(learnt_under_a_strategy)
{
    for (int built = 0; built < 2; built++)
        LK_POOL {
            lk_set_log(say_nothing, NULL);
            lk_strategy *s = lk_mirrored_strategy(.cpu_devices = 2);
            lk_dataset  *d = lk_dataset_from_tensors(LK_TUPLE(sample()));
            lk_layer    *l = lk_normalization();
            LK_SCOPE(s) {
                lk_model *m = lk_sequential(l);
                if (built) lk_model_build(m, LK_SHAPE(3));
                assert_int_equal(lk_normalization_adapt(l, d), LK_OK);
                if (!built) lk_model_build(m, LK_SHAPE(3));
                normalises(l, m);
                assert_true(lk_extended_variable_created_in_scope(s, lk_layer_variables(l).item[0]));
            }
        }
}

static lk_model *normalised(void)
{
    lk_layer *learnt = lk_normalization();
    lk_normalization_adapt(learnt, lk_dataset_from_tensors(LK_TUPLE(lk_random_normal(LK_SHAPE(20, 2), .stream = "seen"))));
    return lk_sequential(learnt, lk_conv2d(6, 2), lk_group_normalization(3), lk_spatial_dropout2d(0.3), lk_conv2d(4, 2),
                         lk_layer_normalization(), lk_spatial_dropout2d(0.3, .seed = LK_NUMBER(5)),
                         lk_layer_normalization(.axis = LK_AXES(1, 2, 3)), lk_flatten(), lk_dense(3));
}

TEST(the_same_bits_on_replicas) { same_on_replicas("norms", normalised, plain_sgd, LK_SHAPE(5, 4, 2)); }

/* ---- memory ---- */

static lk_dataset *learn_from;

static int attempt(void)
{
    int good = 0;
    LK_POOL {
        lk_layer *l = lk_normalization();
        good = l && lk_normalization_adapt(l, learn_from) == LK_OK;
        lk_model *m = good ? lk_sequential(l) : NULL;
        good = m && lk_model_build(m, LK_SHAPE(3)) == LK_OK && lk_normalization_adapt(l, learn_from) == LK_OK;
    }
    return good;
}

TEST(every_allocation_fails_once)
{
    LK_POOL {
        learn_from = lk_dataset_from_tensors(LK_TUPLE(sample()));
        attempt();
        assert_true(check_every_allocation(attempt) > 10);
    }
}

TESTS(cmocka_unit_test(rows_and_weights), cmocka_unit_test(rows_that_do_not_fit), cmocka_unit_test(layers_that_cannot_be),
      cmocka_unit_test(whole_channels_are_dropped), cmocka_unit_test(a_seed_decides), cmocka_unit_test(learnt_from_a_dataset),
      cmocka_unit_test(learnt_from_many_cells), cmocka_unit_test(learnt_for_other_axes), cmocka_unit_test(channels_of_any_axis),
      cmocka_unit_test(learning_again_replaces), cmocka_unit_test(mistakes_in_learning), cmocka_unit_test(learnt_under_a_strategy),
      cmocka_unit_test(the_same_bits_on_replicas), cmocka_unit_test(every_allocation_fails_once))
