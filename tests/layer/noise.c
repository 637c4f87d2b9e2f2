/* Layers that drop or disturb values while training, SpectralNormalization, and others without a test of their own: numbers,
 * options, random numbers and errors. */
#include "layer/replicas.h"

static lk_tensor *trained_on(lk_layer *l, lk_tensor *x)
{
    return lk_model_call(lk_sequential(l), lk_rows(x, 0), .training = LK_ON);
}

typedef struct moments {
    double mean, variance;
    int    zeros;
} moments;

static moments moments_of(lk_tensor *t)
{
    const float *y = lk_data(t);
    const double n = (double)lk_size(t);
    moments      m = {0};
    for (int64_t i = 0; i < lk_size(t); i++) {
        m.mean += y[i] / n;
        m.zeros += y[i] == 0;
    }
    for (int64_t i = 0; i < lk_size(t); i++)
        m.variance += (y[i] - m.mean) * (y[i] - m.mean) / n;
    return m;
}

static bool is_near(double x, double want, double within)
{
    if (fabs(x - want) <= within) return true;
    return print_error("%g, not %g\n", x, want), false;
}

/* ---- what each does ---- */

TEST(nothing_happens_outside_training)
{
    LK_POOL {
        lk_tensor *x = input_of(LK_SHAPE(4, 3, 2), 0);
        lk_layer  *all[] = {lk_dropout(0.5),           lk_alpha_dropout(0.5),  lk_gaussian_dropout(0.5),
                            lk_spatial_dropout1d(0.5), lk_gaussian_noise(0.5), lk_activity_regularization(1, 1),
                            lk_identity_layer()};
        for (int i = 0; i < LKI_COUNT(all); i++)
            assert_true(same_bits(through(all[i], x), x));
        FINE();
    }
}

TEST(mean_and_variance)
{
    LK_POOL {
        lk_tensor *normal = lk_random_normal(LK_SHAPE(64, 256), .stream = "x"), *ones = lk_ones(LK_SHAPE(64, 256), LK_F32);
        moments    m = moments_of(trained_on(lk_gaussian_noise(0.5), ones));
        assert_true(is_near(m.mean, 1, 0.02) && is_near(m.variance, 0.25, 0.02));
        m = moments_of(trained_on(lk_gaussian_dropout(0.2), ones));
        assert_true(is_near(m.mean, 1, 0.02) && is_near(m.variance, 0.25, 0.02));
        m = moments_of(trained_on(lk_alpha_dropout(0.3), normal)); /* kept as they are */
        assert_true(is_near(m.mean, 0, 0.03) && is_near(m.variance, 1, 0.03));
        m = moments_of(trained_on(lk_dropout(0.25), ones));
        assert_true(is_near(m.mean, 1, 0.02) && is_near(m.zeros / (64.0 * 256), 0.25, 0.02));
        FINE();
    }
}

/* One draw for a whole axis where noise_shape is 1. */
TEST(noise_shapes)
{
    LK_POOL {
        enum { ROWS = 16, A = 3, B = 4 };
        lk_tensor   *x = lk_ones(LK_SHAPE(ROWS, A, B), LK_F32);
        const float *row = lk_data(trained_on(lk_dropout(0.5, .noise_shape = LK_SHAPE(-1, 1, 1)), x));
        const float *column = lk_data(trained_on(lk_dropout(0.5, .noise_shape = LK_SHAPE(-1, 1, B)), x));
        const float *batch = lk_data(trained_on(lk_dropout(0.5, .noise_shape = LK_SHAPE(1, A, -1)), x));
        const float *steps = lk_data(trained_on(lk_spatial_dropout1d(0.5), x));
        int          seen = 0;
        for (int n = 0; n < ROWS; n++)
            for (int i = 0; i < A * B; i++) {
                const int at = n * A * B + i;
                assert_true(row[at] == row[n * A * B]);
                assert_true(column[at] == column[n * A * B + i % B]);
                assert_true(steps[at] == steps[n * A * B + i % B]);
                assert_true(batch[at] == batch[i]);
                seen |= 1 << (row[at] != 0) | 4 << (batch[at] != 0);
            }
        assert_int_equal(seen, 15);
        ROW_REFUSED(lk_dropout(0.5, .noise_shape = LK_SHAPE(-1, 1)), LK_SHAPE(3, 4), "\"dropout\"", "noise_shape [-1, 1]");
        ROW_REFUSED(lk_dropout(0.5, .noise_shape = LK_SHAPE(-1, 2, 1)), LK_SHAPE(3, 4), "its size, 1 or -1");
        REFUSED(LK_EINVAL, !lk_dropout(0.5, .noise_shape = LK_SHAPE(8, 1)), "lk_dropout", "noise_shape is [8, 1]", "the batch");
        REFUSED(LK_EINVAL, !lk_gaussian_dropout(0.5, .noise_shape = LK_SHAPE(-1, 1)), "has no such option");
        REFUSED(LK_EINVAL, !lk_spatial_dropout1d(0.5, .noise_shape = LK_SHAPE(-1, 1, 1)), "has no such option");
        FINE();
    }
}

TEST(rows_and_options_that_do_not_fit)
{
    LK_POOL {
        ROW_REFUSED(lk_spatial_dropout1d(0.5), LK_SHAPE(4), "\"spatial_dropout1d\"", "[steps, channels]");
        ROW_REFUSED(lk_spatial_dropout3d(0.5), LK_SHAPE(4, 4, 2), "[depth, height, width, channels]");
        ROW_REFUSED(lk_repeat_vector(2), LK_SHAPE(4, 4), "\"repeat_vector\"", "[width]");
        ROW_REFUSED(lk_prelu(), LK_SHAPE(4, -1), "\"p_re_lu\"", "axis 2 needs a fixed size");
        ROW_REFUSED(lk_prelu(LK_AXES(3)), LK_SHAPE(4), "shared_axes: 3", "1 to 1");
        ROW_REFUSED(lk_rms_normalization(.axis = LK_AXES(1)), LK_SHAPE(4, 3), "its scale, [4]", "broadcast");
        ROW_REFUSED(lk_unit_normalization(LK_AXES(0)), LK_SHAPE(4), "axis 0 is the batch");
        ROW_REFUSED(lk_activation_layer(LK_GLU), LK_SHAPE(3), "glu", "even");
        ROW_REFUSED(lk_layer_scale(1, 3), LK_SHAPE(4), "should be 3");
        ROW_REFUSED(lk_einsum_dense("abc,cd->abd", LK_SHAPE(2)), LK_SHAPE(3, 4), "output_shape [2]");
        ROW_REFUSED(lk_einsum_dense("abc,cd->abd", LK_SHAPE(2, 5)), LK_SHAPE(3, 4), "axis 'b' is 3, and 2 in output_shape");
        ROW_REFUSED(lk_einsum_dense("ab,bc->ca", LK_SHAPE(2)), LK_SHAPE(3), "the first label is the batch");
        ROW_REFUSED(lk_einsum_dense("abc,cd->abd", LK_SHAPE(2)), LK_SHAPE(3), "fewer axes");
        ROW_REFUSED(lk_einsum_dense("ab,bc", LK_SHAPE(2)), LK_SHAPE(3), "equations are");
        ROW_REFUSED(lk_einsum_dense("ab,bc->ac", LK_SHAPE(2), .bias_axes = "x"), LK_SHAPE(3), "bias_axes has 'x'");
        REFUSED(LK_EINVAL, !lk_dense(2, LK_GLU), "lk_dense", "glu halves the last axis", "lk_activation_layer");
        REFUSED(LK_EINVAL, !lk_gaussian_noise(2), "lk_gaussian_noise", "stddev is 2");
        REFUSED(LK_EINVAL, !lk_alpha_dropout(1), "lk_alpha_dropout", "rate is 1");
        REFUSED(LK_EINVAL, !lk_repeat_vector(0), "n is 0");
        REFUSED(LK_EINVAL, !lk_activity_regularization(-1), "l1 is -1");
        REFUSED(LK_EINVAL, !lk_einsum_dense(.output_shape = LK_SHAPE(2)), "the equation is missing");
        REFUSED(LK_EINVAL, !lk_spectral_normalization(NULL), "lk_spectral_normalization", "NULL");
        REFUSED(LK_EINVAL, !lk_spectral_normalization(lk_dense(1), .power_iterations = 0), "power_iterations is 0");
        REFUSED(LK_EINVAL, !lk_rescaling(1, .scales = lk_ones(LK_SHAPE(2), LK_F32)), "both scale and scales");
        ROW_REFUSED(lk_rescaling(.scales = lk_ones(LK_SHAPE(2), LK_F32)), LK_SHAPE(3), "scale [2]");
        FINE();
    }
}

TEST(a_penalty_for_activity)
{
    LK_POOL {
        lk_model *m = lk_sequential(lk_activity_regularization(0.5, 0.25));
        lk_model_call(m, lk_tensor_of(LK_SHAPE(2, 2), 1, -2, 0, 4), .training = LK_ON);
        const lk_tuple losses = lk_model_losses(m);
        assert_int_equal(losses.count, 1);
        CLOSE(lk_reduce_sum(losses.item[0]), (0.5 * 7 + 0.25 * 21) / 2);
        FINE();
    }
}

TEST(a_penalty_for_directions)
{
    LK_POOL {
        lk_tensor *w = numbers(LK_SHAPE(3, 4), 5, 0, 9, 8);
        CLOSE(lk_regularizer_call(lk_orthogonal_rows(0.5), w), 0.348991901);
        CLOSE(lk_regularizer_call(lk_orthogonal_columns(0.01), w), 0.00718801608);
        REFUSED(LK_ESHAPE, lk_poisoned(lk_regularizer_call(lk_orthogonal_rows(1), lk_ones(LK_SHAPE(3), LK_F32))), "[3]",
                "a matrix");
        REFUSED(LK_EINVAL, !lk_orthogonal_rows(-1), "lk_orthogonal_rows", "the factor is -1");
        lk_layer *l = lk_dense(2, .activity_regularizer = lk_orthogonal_rows(1));
        REFUSED(LK_EUNSUPPORTED, lk_poisoned(lk_model_call(lk_sequential(l), w, .training = LK_ON)), "for weights");
        FINE();
    }
}

/* ---- SpectralNormalization ---- */

static void set_first(lk_layer *l)
{
    const lk_variables w = lk_layer_variables(l);
    assert_int_equal(w.count, 3);
    for (int i = 0; i < w.count; i++)
        assert_int_equal(lk_assign(w.item[i], numbers(lk_variable_shape(w.item[i]), 5, i, 9, 8)), LK_OK);
}

/* Two training calls, as Keras makes them; outside training the kernel is used as it is. */
TEST(the_kernel_is_divided_by_its_norm)
{
    LK_POOL {
        lk_layer  *l = lk_spectral_normalization(lk_dense(3), 2);
        lk_model  *m = lk_sequential(l);
        lk_tensor *x = input_of(LK_SHAPE(2, 4), 0);
        lk_model_build(m, LK_SHAPE(4));
        set_first(l);
        assert_string_equal(lk_variable_name(lk_layer_variables(l).item[0]), "spectral_normalization/vector_u");
        assert_int_equal(lk_model_trainable_variables(m).count, 2);
        CLOSE(lk_model_call(m, x, .training = LK_ON), 0.223620981, 0.722321987, 0.0960230976, 0.0341725945, 0.659172595,
              0.159172565);
        lk_tensor *second = lk_model_call(m, x, .training = LK_ON);
        CLOSE(second, 0.223440677, 0.722189784, 0.0959389508, 0.0340644121, 0.659064412, 0.159064412);
        CLOSE(lk_read(lk_layer_variables(l).item[0]), -0.617631912, 0.50167495, -0.605683923);
        assert_true(same_bits(lk_model_call(m, x), second));
        assert_int_equal(lk_assign(lk_layer_variables(l).item[1], lk_zeros(LK_SHAPE(4, 3), LK_F32)), LK_OK);
        CLOSE(lk_model_call(m, x, .training = LK_ON), -0.25, 0.375, -0.125, -0.25, 0.375, -0.125);
        lk_layer *none = lk_spectral_normalization(lk_flatten());
        REFUSED(LK_EINVAL, lk_model_build(lk_sequential(none), LK_SHAPE(3)) != LK_OK, "neither a kernel nor embeddings");
        FINE();
    }
}

/* ---- over replicas ---- */

static lk_model *noisy(void)
{
    return lk_sequential(lk_gaussian_noise(0.1), lk_spectral_normalization(lk_dense(4, LK_HARD_SILU)), lk_alpha_dropout(0.2),
                         lk_prelu(LK_AXES(1)), lk_gaussian_dropout(0.2), lk_dropout(0.2, .noise_shape = LK_SHAPE(1, -1, 1)),
                         lk_spatial_dropout1d(0.2), lk_batch_normalization(.axis = LK_AXIS(1)), lk_unit_normalization(),
                         lk_einsum_dense("abc,cde->abde", LK_SHAPE(-1, 2, 3), .bias_axes = "de"),
                         lk_layer_normalization(.axis = LK_AXES(1, 3)), lk_einsum_dense("abcd,cde->ace", LK_SHAPE(2, 5)),
                         lk_rms_normalization(), lk_layer_scale(0.5, 5), lk_activation_layer(LK_SPARSEMAX), lk_flatten(),
                         lk_dense(3), lk_repeat_vector(2), lk_dropout(0.3, .noise_shape = LK_SHAPE(-1, 1, 3)));
}

TEST(the_same_bits_on_replicas) { same_on_replicas("noise", noisy, plain_sgd, LK_SHAPE(5, 3)); }

TESTS(cmocka_unit_test(nothing_happens_outside_training), cmocka_unit_test(mean_and_variance), cmocka_unit_test(noise_shapes),
      cmocka_unit_test(rows_and_options_that_do_not_fit), cmocka_unit_test(a_penalty_for_activity),
      cmocka_unit_test(a_penalty_for_directions), cmocka_unit_test(the_kernel_is_divided_by_its_norm),
      cmocka_unit_test(the_same_bits_on_replicas))
