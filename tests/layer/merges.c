/* Layers of several inputs: shapes that broadcast, errors, and a graph of them over replicas. Their results are tested in
 * keras.c. */
#include "layer/replicas.h"

#define MEET(layer, a, b, ...)                                                                                                     \
    do {                                                                                                                           \
        lk_shape after_ = {0};                                                                                                     \
        assert_int_equal(rows_after(layer, a, b, &after_), LK_OK);                                                                 \
        assert_true(is_shape(after_, LK_SHAPE(__VA_ARGS__)));                                                                      \
    } while (0)
#define APART(code, layer, a, b, ...)                                                                                              \
    do {                                                                                                                           \
        lk_shape out_;                                                                                                             \
        REFUSED(code, rows_after(layer, a, b, &out_) != LK_OK, __VA_ARGS__);                                                       \
    } while (0)

TEST(rows_that_meet)
{
    LK_POOL {
        MEET(lk_add_layer(), LK_SHAPE(3, 4), LK_SHAPE(3, 4), 3, 4);
        MEET(lk_subtract_layer(), LK_SHAPE(3, 4), LK_SHAPE(4), 3, 4);
        MEET(lk_multiply_layer(), LK_SHAPE(4), LK_SHAPE(3, 1), 3, 4);
        MEET(lk_average_layer(), LK_SHAPE(-1, 4), LK_SHAPE(3, 4), 3, 4);
        MEET(lk_maximum_layer(), LK_SHAPE(-1, 4), LK_SHAPE(1, 4), -1, 4);
        MEET(lk_minimum_layer(), LK_SHAPE(-1), LK_SHAPE(-1), -1);
        MEET(lk_add_layer(), LK_SHAPE(), LK_SHAPE(2), 2);
        MEET(lk_concatenate(), LK_SHAPE(3, 4), LK_SHAPE(3, 2), 3, 6);
        MEET(lk_concatenate(LK_AXIS(1)), LK_SHAPE(3, 4), LK_SHAPE(2, 4), 5, 4);
        MEET(lk_concatenate(LK_AXIS(-2)), LK_SHAPE(-1, 4), LK_SHAPE(2, 4), -1, 4);
        MEET(lk_concatenate(), LK_SHAPE(-1, 4), LK_SHAPE(5, 2), 5, 6);
        MEET(lk_dot_layer(LK_AXES(1)), LK_SHAPE(4), LK_SHAPE(4), 1);
        MEET(lk_dot_layer(LK_AXES(1, 2)), LK_SHAPE(3, 2), LK_SHAPE(5, 3), 2, 5);
        MEET(lk_dot_layer(LK_AXES(2, 1)), LK_SHAPE(-1, 3), LK_SHAPE(3), -1);
        MEET(lk_dot_layer(LK_AXES(-1)), LK_SHAPE(2, 3), LK_SHAPE(4, 5, 3), 2, 4, 5);
        FINE();
    }
}

TEST(rows_that_do_not_meet)
{
    LK_POOL {
        APART(LK_ESHAPE, lk_add_layer(), LK_SHAPE(3, 4), LK_SHAPE(3, 5), "\"add\"", "[3, 4]", "input 1", "[3, 5]", "broadcast");
        APART(LK_ESHAPE, lk_minimum_layer(), LK_SHAPE(3), LK_SHAPE(2, 2), "\"minimum\"", "[2, 2]");
        APART(LK_ESHAPE, lk_concatenate(), LK_SHAPE(3, 4), LK_SHAPE(2, 4), "\"concatenate\"", "input 1", "[2, 4]", "axis 2");
        APART(LK_ESHAPE, lk_concatenate(), LK_SHAPE(3, 4), LK_SHAPE(4), "\"concatenate\"", "[4]");
        APART(LK_ESHAPE, lk_concatenate(LK_AXIS(3)), LK_SHAPE(3, 4), LK_SHAPE(3, 4), "axis 3", "1 to 2", "batch");
        APART(LK_ESHAPE, lk_concatenate(LK_AXIS(-3)), LK_SHAPE(3, 4), LK_SHAPE(3, 4), "axis -3");
        APART(LK_ESHAPE, lk_dot_layer(LK_AXES(1)), LK_SHAPE(4), LK_SHAPE(5), "\"dot\"", "4 entries", "[5]", "has 5");
        APART(LK_ESHAPE, lk_dot_layer(LK_AXES(2)), LK_SHAPE(4), LK_SHAPE(4), "axis 2", "input 0", "1 to 1");
        APART(LK_ESHAPE, lk_dot_layer(LK_AXES(1, 3)), LK_SHAPE(4), LK_SHAPE(4), "axis 3", "input 1");
        APART(LK_ESHAPE, lk_dot_layer(LK_AXES(1)), LK_SHAPE(2, 1, 1, 1, 1), LK_SHAPE(2, 1, 1, 1, 1), "too many axes");
        FINE();
    }
}

TEST(how_many_inputs)
{
    LK_POOL {
        lk_shape out, three[] = {LK_SHAPE(2), LK_SHAPE(2), LK_SHAPE(2), {.rank = -1}};
        REFUSED(LK_EINVAL, row_after(lk_add_layer(), LK_SHAPE(2), &out) != LK_OK, "\"add\"", "1 input;", "at least 2");
        REFUSED(LK_EINVAL, row_after(lk_concatenate(), LK_SHAPE(2), &out) != LK_OK, "\"concatenate\"", "at least 2");
        REFUSED(LK_EINVAL, row_after(lk_dot_layer(LK_AXES(1)), LK_SHAPE(2), &out) != LK_OK, "\"dot\"", "takes 2");
        REFUSED(LK_EINVAL, lki_layer_output(lk_subtract_layer(), three, &out) != LK_OK, "\"subtract\"", "3 inputs", "takes 2");
        REFUSED(LK_EINVAL, lki_layer_output(lk_dot_layer(LK_AXES(1)), three, &out) != LK_OK, "\"dot\"", "3 inputs");
        assert_int_equal(lki_layer_output(lk_maximum_layer(), three, &out), LK_OK);
        FINE();
    }
}

TEST(layers_that_cannot_be)
{
    LK_POOL {
        REFUSED(LK_EINVAL, !lk_concatenate(LK_AXIS(0)), "lk_concatenate", "axis 0", "batch");
        REFUSED(LK_EINVAL, !lk_dot_layer(), "lk_dot_layer", "0 axes");
        REFUSED(LK_EINVAL, !lk_dot_layer(LK_AXES(1, 2, 3)), "3 axes");
        REFUSED(LK_EINVAL, !lk_dot_layer(LK_AXES(0)), "axis 0", "batch");
        REFUSED(LK_EINVAL, !lk_dot_layer(LK_AXES(1, 0)), "axis 0");
        REFUSED(LK_EINVAL, !lk_add_layer(.name = ""), "lk_add_layer", "name is empty");
        FINE();
    }
}

/* Left to right: (a + b) + c, in f32. */
TEST(terms_from_left_to_right)
{
    LK_POOL {
        lk_shape   row[] = {LK_SHAPE(1), LK_SHAPE(1), LK_SHAPE(1)};
        lk_tensor *a = lk_tensor_of(LK_SHAPE(1, 1), 1e8), *b = lk_tensor_of(LK_SHAPE(1, 1), -1e8),
                  *c = lk_tensor_of(LK_SHAPE(1, 1), 1);
        CLOSE(lk_model_call(merging(lk_add_layer(), 3, row), lk_nest(LK_TUPLE(a, b, c))), 1);
        CLOSE(lk_model_call(merging(lk_add_layer(), 3, row), lk_nest(LK_TUPLE(c, a, b))), 0);
        CLOSE(lk_model_call(merging(lk_average_layer(), 3, row), lk_nest(LK_TUPLE(a, b, c))), 1.0 / 3);
        FINE();
    }
}

/* Rows of nothing stay rows of nothing. */
TEST(a_sum_over_nothing)
{
    LK_POOL {
        lk_shape   row[] = {LK_SHAPE(2, 0), LK_SHAPE(3, 0)};
        lk_tensor *y = lk_model_call(merging(lk_dot_layer(LK_AXES(2)), 2, row),
                                     lk_nest(LK_TUPLE(lk_zeros(LK_SHAPE(1, 2, 0), LK_F32), lk_zeros(LK_SHAPE(1, 3, 0), LK_F32))));
        CLOSE(y, 0, 0, 0, 0, 0, 0);
        FINE();
    }
}

static lk_model *graph(void)
{
    lk_node *x = lk_input(LK_SHAPE(6)), *a = lk_apply(lk_dense(6, .activation = LK_TANH), x), *b = lk_apply(lk_dense(6), x);
    lk_node *sum = lk_apply(lk_add_layer(), x, a, b), *less = lk_apply(lk_subtract_layer(), sum, a);
    lk_node *most = lk_apply(lk_maximum_layer(), less, b), *least = lk_apply(lk_minimum_layer(), less, b);
    lk_node *mean = lk_apply(lk_average_layer(), most, least, a), *product = lk_apply(lk_multiply_layer(), mean, b);
    lk_node *cosine = lk_apply(lk_dot_layer(LK_AXES(1), .normalize = LK_ON), product, a);
    lk_node *square = lk_apply(lk_reshape_layer(LK_SHAPE(2, 3)), product), *other = lk_apply(lk_reshape_layer(LK_SHAPE(3, 2)), a);
    lk_node *matrix = lk_apply(lk_flatten(), lk_apply(lk_dot_layer(LK_AXES(2, 1)), square, other));
    return lk_functional(LK_NODES(x), LK_NODES(lk_apply(lk_concatenate(), cosine, matrix, mean)));
}

TEST(the_same_bits_on_replicas) { same_on_replicas("graph", graph, plain_sgd, LK_SHAPE(6)); }

TESTS(cmocka_unit_test(rows_that_meet), cmocka_unit_test(rows_that_do_not_meet), cmocka_unit_test(how_many_inputs),
      cmocka_unit_test(layers_that_cannot_be), cmocka_unit_test(terms_from_left_to_right), cmocka_unit_test(a_sum_over_nothing),
      cmocka_unit_test(the_same_bits_on_replicas))
