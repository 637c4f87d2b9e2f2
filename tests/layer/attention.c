/* MultiHeadAttention: against Keras, dropout, first values, places in files, terms it adds to the loss, and errors. */
#define CASES_FILE "layer/attention_cases.inc"
#include "layer/cases.h"
#include "layer/regularizer.h"
#include "layer/split.h"

TEST(as_in_keras) { EACH_CASE(as_keras(c, LK_OFF, true)); }
TEST(compiled_to_the_same_bits) { EACH_CASE(compiled_alike(c, LK_OFF)); }

static lk_tensor *attend(lk_layer *l, lk_tensor *query, lk_tensor *value, lk_switch training)
{
    return lk_layer_call(l, lk_nest(LK_TUPLE(query, value)), training);
}

/* ---- gradients of what the cases leave out ---- */

static lk_tuple with_everything(lk_tuple in, void *user)
{
    static const uint8_t mask[] = {1, 0, 1, 1, 1, 1};
    (void)user;
    return LK_TUPLE(lk_nn_multi_head_attention(in.item[0], in.item[1], .query_kernel = in.item[2], .key_kernel = in.item[3],
                                               .value_kernel = in.item[4], .output_kernel = in.item[5],
                                               .mask = lk_tensor_from(LK_SHAPE(1, 2, 3), LK_BOOL, mask), .use_causal_mask = LK_ON,
                                               .dropout = 0.3, .stream = "dropped"));
}

static lk_tensor *doubles(lk_shape shape, const char *stream) { return lk_cast(lk_random_normal(shape, .stream = stream), LK_F64); }

TEST(gradients_by_differences)
{
    lk_gradient_check found;
    lk_tuple in = LK_TUPLE(doubles(LK_SHAPE(1, 2, 3), "q"), doubles(LK_SHAPE(1, 3, 2), "v"), doubles(LK_SHAPE(3, 2, 2), "qk"),
                           doubles(LK_SHAPE(2, 2, 2), "kk"), doubles(LK_SHAPE(2, 2, 3), "vk"), doubles(LK_SHAPE(2, 3, 2), "ok"));
    assert_int_equal(lk_check_gradient(with_everything, in, NULL, 0, 1e-5, &found), LK_OK);
}

/* ---- what is dropped ---- */

/* With zeros for query and key all steps are looked at alike; the value and the output pass through. */
TEST(drops_what_is_looked_at)
{
    lk_layer  *l = lk_multi_head_attention(1, 1, .dropout = 0.5, .use_bias = LK_OFF);
    lk_tensor *q = lk_zeros(LK_SHAPE(6, 8, 1), LK_F32), *v = lk_ones(LK_SHAPE(6, 4, 1), LK_F32);
    attend(l, q, v, LK_OFF);
    for (int i = 0; i < 4; i++)
        lk_assign(lk_layer_variables(l).item[i], i < 2 ? lk_zeros(LK_SHAPE(1, 1, 1), LK_F32) : lk_ones(LK_SHAPE(1, 1, 1), LK_F32));
    lk_tensor   *once = attend(l, q, v, LK_ON), *again = attend(l, q, v, LK_ON);
    const float *y = lk_data(once);
    bool         differ = false;
    for (int i = 0; i < 48; i++) { /* of four quarters some are dropped, the others doubled */
        assert_true(y[i] * 2 == floorf(y[i] * 2) && y[i] >= 0 && y[i] <= 2);
        differ = differ || y[i] != y[0];
    }
    assert_true(differ && !same_bits(once, again));
    assert_true(same_bits(attend(l, q, v, LK_OFF), lk_ones(LK_SHAPE(6, 8, 1), LK_F32)));
    FINE();
}

TEST(only_those_that_drop_draw)
{
    assert_false(lki_layer_draws(lk_multi_head_attention(1, 1)));
    assert_true(lki_layer_draws(lk_multi_head_attention(1, 1, .dropout = 0.1)));
}

/* ---- weights ---- */

static void check_places(lk_layer *l, int count, const char *const *name, const char *const *place)
{
    attend(l, lk_zeros(LK_SHAPE(1, 2, 4), LK_F32), lk_zeros(LK_SHAPE(1, 3, 5), LK_F32), LK_OFF);
    assert_int_equal(lk_layer_variables(l).count, count);
    for (int i = 0; i < count; i++) {
        assert_string_equal(l->weight[i].name, name[i]);
        assert_string_equal(l->weight[i].place, place[i]);
    }
}

TEST(weights_as_keras_has_them)
{
    static const char *const names[] = {
        "query/kernel",         "query/bias", "key/kernel", "key/bias", "value/kernel", "value/bias", "attention_output/kernel",
        "attention_output/bias"};
    static const char *const places[] = {"query_dense/vars/0", "query_dense/vars/1", "key_dense/vars/0",    "key_dense/vars/1",
                                         "value_dense/vars/0", "value_dense/vars/1", "output_dense/vars/0", "output_dense/vars/1"};
    static const char *const kernels[] = {"query/kernel", "key/kernel", "value/kernel", "attention_output/kernel"};
    static const char *const kernel_places[] = {"query_dense/vars/0", "key_dense/vars/0", "value_dense/vars/0",
                                                "output_dense/vars/0"};
    lk_layer                *l = lk_multi_head_attention(2, 3, .value_dim = 6);
    check_places(l, 8, names, places);
    check_places(lk_multi_head_attention(2, 3, .use_bias = LK_OFF), 4, kernels, kernel_places);
    const lk_shape shapes[] = {LK_SHAPE(4, 2, 3), LK_SHAPE(2, 3), LK_SHAPE(5, 2, 3), LK_SHAPE(2, 3),
                               LK_SHAPE(5, 2, 6), LK_SHAPE(2, 6), LK_SHAPE(2, 6, 4), LK_SHAPE(4)};
    for (int i = 0; i < 8; i++)
        assert_true(is_shape(lk_variable_shape(lk_layer_variables(l).item[i]), shapes[i]));
    FINE();
}

static double largest(lk_tensor *t) { return lk_item(lk_reduce_max(lk_abs(t))); }

/* A kernel is a matrix from all inputs to all outputs, whatever its axes: sqrt(6 / (in + out)). */
TEST(first_values_go_by_the_matrix)
{
    lk_layer  *l = lk_multi_head_attention(4, 25), *he = lk_multi_head_attention(4, 25, .kernel_initializer = lk_init_he_uniform());
    lk_tensor *x = lk_zeros(LK_SHAPE(1, 2, 30), LK_F32);
    attend(l, x, x, LK_OFF);
    attend(he, x, x, LK_OFF);
    const double limit = sqrt(6.0 / (30 + 100)), in = largest(lk_layer_weight(l, "query/kernel")),
                 out = largest(lk_layer_weight(l, "attention_output/kernel"));
    assert_true(in <= limit && in > 0.97 * limit && out <= limit && out > 0.97 * limit);
    const double of_30 = sqrt(6.0 / 30), of_100 = sqrt(6.0 / 100), he_in = largest(lk_layer_weight(he, "key/kernel")),
                 he_out = largest(lk_layer_weight(he, "attention_output/kernel"));
    assert_true(he_in <= of_30 && he_in > 0.97 * of_30 && he_out <= of_100 && he_out > 0.97 * of_100);
    lk_layer *orthogonal = lk_multi_head_attention(2, 2, .kernel_initializer = lk_init_orthogonal());
    attend(orthogonal, x, x, LK_OFF);
    lk_tensor *k = lk_reshape(lk_layer_weight(orthogonal, "query/kernel"), LK_SHAPE(60, 2)); /* as for any weight of three axes */
    CLOSE(lk_matmul(k, k, .transpose_a = LK_ON), 1, 0, 0, 1);
    FINE();
}

/* ---- what it adds to the loss: that of all four projections ---- */

TEST(activity_of_all_projections)
{
    LK_POOL {
        lk_tensor *x = input_of(LK_SHAPE(2, 3, 4), 0);
        lk_model  *m = merging(lk_multi_head_attention(2, 3, .activity_regularizer = lk_l2(0.5), .use_bias = LK_OFF), 2,
                               (const lk_shape[]){LK_SHAPE(3, 4), LK_SHAPE(3, 4)});
        lk_tensor *y = lk_model_call(m, lk_nest(LK_TUPLE(x, x)));
        lk_tuple   added = lk_model_losses(m);
        double     sum = 0, want = lk_item(lk_reduce_sum(lk_square(y)));
        for (int i = 0; i < 3; i++) {
            lk_tensor *kernel = lk_reshape(lk_read(lk_model_weights(m).item[i]), LK_SHAPE(4, 6));
            want += lk_item(lk_reduce_sum(lk_square(lk_nn_dense(x, kernel, NULL, LK_LINEAR))));
        }
        for (int i = 0; i < added.count; i++)
            sum += lk_item(added.item[i]);
        assert_int_equal(added.count, 4);
        assert_true(fabs(sum - 0.5 * want / 2) <= 1e-5 * want); /* over two rows */
        FINE();
    }
}

/* ---- any split ---- */

static lk_tuple twice(lk_model *m, lk_tuple in, int training, void *user)
{
    lk_layer **l = user;
    (void)m, (void)training;
    lk_tensor *x = lk_layer_call(l[0], lk_nest(LK_TUPLE(in.item[0], in.item[0])));
    return LK_TUPLE(lk_layer_call(l[1], x));
}

static lk_model *dropping_model(void)
{
    static lk_layer *l[2];
    l[0] = lk_multi_head_attention(2, 3, .dropout = 0.3, .use_causal_mask = LK_ON);
    l[1] = lk_dense(2);
    return lk_model_of(twice, LK_LAYERS(l[0], l[1]), l);
}

TEST(same_bits_on_any_split)
{
    LK_POOL {
        same_on_any_split(dropping_model, input_of(LK_SHAPE(13, 3, 2), 0));
    }
}

/* ---- memory ---- */

static int make_and_call(void)
{
    int ok = 0;
    LK_POOL {
        lk_layer  *l = lk_multi_head_attention(1, 2, .dropout = 0.5);
        lk_tensor *x = lk_zeros(LK_SHAPE(1, 2, 2), LK_F32);
        ok = l && !lk_poisoned(attend(l, x, x, LK_ON));
    }
    return ok;
}

TEST(every_allocation_may_fail)
{
    make_and_call(); /* what is made once in a process */
    assert_true(check_every_allocation(make_and_call) > 10);
}

/* ---- refusals ---- */

TEST(refusals)
{
    lk_shape out;
    REFUSED(LK_EINVAL, !lk_multi_head_attention(0, 4), "lk_multi_head_attention", "num_heads is 0", "at least 1");
    REFUSED(LK_EINVAL, !lk_multi_head_attention(2, 2, -1), "value_dim -1");
    REFUSED(LK_EINVAL, !lk_multi_head_attention(2, 2, .dropout = 1.5), "dropout is 1.5", "below 1");
    lk_layer *l = lk_multi_head_attention(2, 2);
    REFUSED(LK_EINVAL, row_after(l, LK_SHAPE(3, 4), &out) != LK_OK, "1 input", "at least 2");
    REFUSED(LK_ESHAPE, rows_after(l, LK_SHAPE(3, 4), LK_SHAPE(4), &out) != LK_OK, "value should be [steps, width]");
    REFUSED(LK_ESHAPE, rows_after(l, (lk_shape){2, {3, -1}}, LK_SHAPE(3, 4), &out) != LK_OK,
            "width of the query needs a fixed size");
    REFUSED(LK_ESHAPE,
            lki_layer_output(l, (const lk_shape[]){LK_SHAPE(3, 4), LK_SHAPE(5, 4), LK_SHAPE(6, 4), {.rank = -1}}, &out) != LK_OK,
            "key has 6 steps and the value 5");
    attend(l, lk_zeros(LK_SHAPE(1, 2, 4), LK_F32), lk_zeros(LK_SHAPE(1, 3, 5), LK_F32), LK_OFF);
    REFUSED_TENSOR(LK_ESHAPE, attend(l, lk_zeros(LK_SHAPE(1, 2, 4), LK_F32), lk_zeros(LK_SHAPE(1, 3, 4), LK_F32), LK_OFF),
                   "should be 5 wide", "when its kernel was made");
}

TESTS(cmocka_unit_test(as_in_keras), cmocka_unit_test(compiled_to_the_same_bits), cmocka_unit_test(gradients_by_differences),
      cmocka_unit_test(drops_what_is_looked_at), cmocka_unit_test(only_those_that_drop_draw),
      cmocka_unit_test(weights_as_keras_has_them), cmocka_unit_test(first_values_go_by_the_matrix),
      cmocka_unit_test(activity_of_all_projections), cmocka_unit_test(same_bits_on_any_split),
      cmocka_unit_test(every_allocation_may_fail), cmocka_unit_test(refusals))
