/* lk_model_output_activation(): the activation that computes the values of an output, by the graph and not by the last layer with
 * an activation. */
#include "refusal.h"
#include <lockstep.h>

static lk_activation of(lk_model *m)
{
    const lk_activation a = lk_model_output_activation(m, 0);
    assert_string_equal(lk_error(), "");
    return a;
}

#define HEAD(a) lk_dense(3, .activation = a, .input_shape = LK_SHAPE(4))
#define ROWS(a) lk_dense(3, .activation = a, .input_shape = LK_SHAPE(5, 4))
#define ENDS_IN(a, ...) assert_int_equal(of(lk_sequential(__VA_ARGS__)), a)

TEST(the_last_layer_decides)
{
    LK_POOL {
        ENDS_IN(LK_LINEAR, HEAD(LK_LINEAR));
        ENDS_IN(LK_LINEAR, HEAD(LK_ACTIVATION_DEFAULT));
        ENDS_IN(LK_SOFTMAX, HEAD(LK_SOFTMAX));
        ENDS_IN(LK_RELU, HEAD(LK_SIGMOID), lk_dense(1, .activation = LK_RELU));
        ENDS_IN(LK_SOFTMAX, HEAD(LK_LINEAR), lk_softmax_layer());
        ENDS_IN(LK_SIGMOID, HEAD(LK_SOFTMAX), lk_activation_layer(LK_SIGMOID));
        ENDS_IN(LK_RELU, HEAD(LK_SOFTMAX), lk_relu_layer());
        ENDS_IN(LK_TANH, lk_simple_rnn(3, .input_shape = LK_SHAPE(5, 4)));
        ENDS_IN(LK_LINEAR, lk_lstm(3, .activation = LK_SIGMOID, .input_shape = LK_SHAPE(5, 4))); /* o * activation(c) */
        ENDS_IN(LK_LINEAR, HEAD(LK_SOFTMAX), lk_batch_normalization());
    }
}

TEST(layers_that_keep_values_are_looked_through)
{
    LK_POOL {
        ENDS_IN(LK_SOFTMAX, HEAD(LK_SOFTMAX), lk_activation_layer(LK_LINEAR));
        ENDS_IN(LK_SOFTMAX, HEAD(LK_SOFTMAX), lk_dropout(0.5), lk_activation_layer(LK_LINEAR), lk_reshape_layer(LK_SHAPE(1, 3)));
        ENDS_IN(LK_SIGMOID, ROWS(LK_SIGMOID), lk_flatten());
        ENDS_IN(LK_TANH, ROWS(LK_TANH), lk_flatten());
        ENDS_IN(LK_SOFTMAX, ROWS(LK_SOFTMAX), lk_global_average_pooling1d());
        ENDS_IN(LK_LINEAR, HEAD(LK_TANH), lk_rescaling(2));
        ENDS_IN(LK_SOFTMAX, lk_time_distributed(HEAD(LK_SOFTMAX), .input_shape = LK_SHAPE(5, 4)));
    }
}

/* A softmax is one for losses where it is along the last axis. */
TEST(a_softmax_along_another_axis_is_none)
{
    LK_POOL {
        ENDS_IN(LK_LINEAR, ROWS(LK_SOFTMAX), lk_flatten());
        ENDS_IN(LK_LINEAR, ROWS(LK_SOFTMAX), lk_permute(LK_AXES(2, 1)));
        ENDS_IN(LK_LINEAR, ROWS(LK_LINEAR), lk_softmax_layer(.axis = LK_AXIS(1)));
        ENDS_IN(LK_SOFTMAX, ROWS(LK_LINEAR), lk_softmax_layer(.axis = LK_AXIS(2)));
        ENDS_IN(LK_LINEAR, ROWS(LK_SOFTMAX), lk_global_max_pooling1d());
    }
}

TEST(models_inside_models_are_looked_into)
{
    LK_POOL {
        lk_model *inner = lk_sequential(HEAD(LK_SOFTMAX), lk_dropout(0.5));
        ENDS_IN(LK_SOFTMAX, lk_dense(4, .input_shape = LK_SHAPE(2)), lk_model_layer(inner));
        lk_node  *x = lk_input(LK_SHAPE(3));
        lk_model *nothing = lk_functional(LK_NODES(x), LK_NODES(lk_apply(lk_dropout(0.5), x)));
        ENDS_IN(LK_SIGMOID, HEAD(LK_SIGMOID), lk_model_layer(nothing));
        lk_model *each = lk_sequential(HEAD(LK_LINEAR), lk_softmax_layer(.axis = LK_AXIS(1)));
        ENDS_IN(LK_SOFTMAX, lk_time_distributed(lk_model_layer(each), .input_shape = LK_SHAPE(5, 4)));
    }
}

TEST(every_output_has_its_own)
{
    LK_POOL {
        lk_node *x = lk_input(LK_SHAPE(4)), *gate = lk_apply(lk_dense(2, .activation = LK_SOFTMAX), x);
        lk_node *p = lk_apply(lk_dense(3, .activation = LK_SOFTMAX), x),
                *other = lk_apply(lk_dense(3, .activation = LK_SOFTMAX), x);
        lk_node            *q = lk_apply(lk_dense(1, .activation = LK_SIGMOID), x);
        lk_node            *experts = lk_apply(lk_reshape_layer(LK_SHAPE(2, 3)), lk_apply(lk_dense(6), x));
        lk_node            *mixed = lk_apply(lk_dot_layer(.axes = LK_AXES(1, 1)), gate, experts);
        lk_node            *mean = lk_apply(lk_average_layer(), p, other), *sum = lk_apply(lk_add_layer(), p, other);
        lk_model           *m = lk_functional(LK_NODES(x), LK_NODES(q, p, mixed, mean, sum));
        const lk_activation want[] = {LK_SIGMOID, LK_SOFTMAX, LK_LINEAR, LK_SOFTMAX, LK_LINEAR};
        assert_string_equal(lk_error(), "");
        for (int i = 0; i < 5; i++)
            assert_int_equal(lk_model_output_activation(m, i), want[i]);
        REFUSED(LK_EINVAL, lk_model_output_activation(m, 5), "output 5 of model", "it has 5");
    }
}

TEST(what_is_not_known_is_said)
{
    LK_POOL {
        lk_model *m = lk_sequential(lk_dense(3, .activation = LK_SOFTMAX));
        assert_int_equal(of(m), LK_ACTIVATION_DEFAULT);
        lk_model_build(m, LK_SHAPE(4));
        assert_int_equal(of(m), LK_SOFTMAX);
    }
}

TESTS(cmocka_unit_test(the_last_layer_decides), cmocka_unit_test(layers_that_keep_values_are_looked_through),
      cmocka_unit_test(a_softmax_along_another_axis_is_none), cmocka_unit_test(models_inside_models_are_looked_into),
      cmocka_unit_test(every_output_has_its_own), cmocka_unit_test(what_is_not_known_is_said))
