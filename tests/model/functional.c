/* Models as graphs and as functions: order of layers, shared weights, several inputs and outputs, models inside models, errors. */
#include "model/model.h"
#include "refusal.h"
#include <lockstep.h>
#include <stdio.h>
#include <string.h>

static lk_tensor *noise(lk_shape shape, const char *name) { return lk_rows(lk_random_normal(shape, .stream = name), 0); }

static bool same(lk_tensor *a, lk_tensor *b)
{
    return !lk_poisoned(a) && !lk_poisoned(b) && lk_size(a) == lk_size(b) &&
           !memcmp(lk_data(a), lk_data(b), (size_t)lk_size(a) * 4);
}

/* ---- graphs ---- */

TEST(a_chain_is_a_sequential_model)
{
    LK_POOL
        LK_STEP {
            lk_node  *x = lk_input(LK_SHAPE(6));
            lk_model *graph =
                lk_functional(LK_NODES(x), LK_NODES(lk_apply(lk_dense(3), lk_apply(lk_dense(4, .activation = LK_TANH), x))));
            lk_model    *row = lk_sequential(lk_dense(4, .activation = LK_TANH, .input_shape = LK_SHAPE(6)), lk_dense(3));
            lk_tensor   *in = noise(LK_SHAPE(5, 6), "in");
            lk_variables w = lk_model_weights(row);
            lk_model_set_weights(graph, LK_TUPLE(lk_read(w.item[0]), lk_read(w.item[1]), lk_read(w.item[2]), lk_read(w.item[3])));
            assert_true(same(lk_model_call(graph, in), lk_model_call(row, in)));
            assert_string_equal(lk_error(), "");
            assert_int_equal(lk_model_count_params(graph), 6 * 4 + 4 + 4 * 3 + 3);
        }
}

/* What Keras' model.layers says for the same graph: far from the outputs first, then in the order of the walk back from the
 * outputs. */
TEST(layers_are_in_the_order_of_keras)
{
    LK_POOL
        LK_STEP {
            lk_node  *a = lk_input(LK_SHAPE(4), .name = "a"), *b = lk_input(LK_SHAPE(4), .name = "b");
            lk_layer *shared = lk_dense(4, .name = "shared");
            lk_node  *left = lk_apply(shared, a), *right = lk_apply(shared, lk_apply(lk_dense(4, .name = "before"), b));
            lk_node  *sum = lk_apply(lk_add_layer(.name = "sum"), left, right);
            lk_node  *one = lk_apply(lk_dense(1, .name = "one"), sum),
                    *two = lk_apply(lk_dense(2, .name = "two"), lk_apply(lk_dense(3, .name = "deep"), sum));
            lk_model                *m = lk_functional(LK_NODES(a, b), LK_NODES(one, two));
            static const char *const WANT[] = {"b", "a", "before", "shared", "sum", "deep", "one", "two"};
            assert_string_equal(lk_error(), "");
            lk_layers l = lk_model_layers(m);
            assert_int_equal(l.count, 8);
            for (int i = 0; i < l.count; i++)
                assert_string_equal(lk_layer_name(l.item[i]), WANT[i]);
            assert_int_equal(lk_model_weights(m).count, 10); /* those of the shared layer once */
            lk_tuple out = lk_nested(lk_model_call(m, lk_nest(LK_TUPLE(noise(LK_SHAPE(3, 4), "a"), noise(LK_SHAPE(3, 4), "b")))));
            assert_int_equal(out.count, 2);
            assert_int_equal(lk_dim(out.item[0], 1), 1);
            assert_int_equal(lk_dim(out.item[1], 1), 2);
        }
}

TEST(names_are_given_by_position)
{
    LK_POOL
        LK_STEP {
            lk_layer *second = lk_dense(3), *first = lk_dense(3); /* made in the other order */
            lk_node  *x = lk_input(LK_SHAPE(3));
            lk_model *m = lk_functional(LK_NODES(x), LK_NODES(lk_apply(second, lk_apply(first, x))));
            assert_non_null(m);
            assert_string_equal(lk_layer_name(first), "dense");
            assert_string_equal(lk_layer_name(second), "dense_1");
            assert_string_equal(lk_model_name(m), "functional");
            assert_ptr_equal(lk_model_layer_named(m, "dense_1"), second);
            REFUSED(LK_ENOTFOUND, lk_model_layer_named(m, "dense_2"), "\"functional\" has no layer \"dense_2\"");
        }
}

TEST(a_deep_graph)
{
    LK_POOL
        LK_STEP {
            lk_node *x = lk_input(LK_SHAPE(2)), *h = x;
            for (int i = 0; i < 300; i++)
                h = lk_apply(lk_add_layer(), h, lk_apply(lk_activation_layer(LK_TANH), h));
            lk_model *m = lk_functional(LK_NODES(x), LK_NODES(h));
            assert_string_equal(lk_error(), "");
            assert_int_equal(lk_model_layers(m).count, 601);
            assert_false(lk_poisoned(lk_model_call(m, noise(LK_SHAPE(2, 2), "x"))));
        }
}

TEST(inputs_of_any_size)
{
    LK_POOL
        LK_STEP {
            lk_node  *x = lk_input(LK_SHAPE(-1), .dtype = LK_I32);
            lk_model *m =
                lk_functional(LK_NODES(x), LK_NODES(lk_apply(lk_dense(2), lk_apply(lk_lstm(3), lk_apply(lk_embedding(10, 4), x)))));
            assert_string_equal(lk_error(), "");
            for (int64_t steps = 1; steps < 4; steps++)
                assert_int_equal(lk_dim(lk_model_call(m, lk_zeros(LK_SHAPE(5, steps), LK_I64)), 1), 2);
            assert_string_equal(lk_error(), "");
        }
}

/* ---- models inside models ---- */

TEST(models_inside_models)
{
    LK_POOL
        LK_STEP {
            lk_model *inner = lk_sequential_named("encoder", lk_dense(4, .activation = LK_RELU, .input_shape = LK_SHAPE(6)),
                                                  lk_dropout(0.5), lk_dense(3));
            lk_layer *as_layer = lk_model_layer(inner);
            lk_node  *a = lk_input(LK_SHAPE(6)), *b = lk_input(LK_SHAPE(6));
            lk_model *m = lk_functional(
                LK_NODES(a, b),
                LK_NODES(lk_apply(lk_dense(1), lk_apply(lk_subtract_layer(), lk_apply(as_layer, a), lk_apply(as_layer, b)))));
            assert_string_equal(lk_error(), "");
            assert_int_equal(lk_model_weights(m).count, 6);
            lk_tensor *x = noise(LK_SHAPE(4, 6), "x"), *bias = lk_read(lk_model_weights(m).item[5]);
            lk_tensor *y = lk_model_call(m, lk_nest(LK_TUPLE(x, x))); /* the same on both sides: nothing is left */
            for (int i = 0; i < 4; i++)
                assert_true(((const float *)lk_data(y))[i] == ((const float *)lk_data(bias))[0]);
            lk_tensor *t = lk_model_call(m, lk_nest(LK_TUPLE(x, x)), .training = LK_ON);
            assert_false(lk_poisoned(t));
            assert_string_equal(lk_layer_name(as_layer), "encoder");
        }
}

/* ---- functions ---- */

typedef struct pair {
    lk_layer *a, *b;
    int       calls;
} pair;

static lk_tuple twice(lk_model *m, lk_tuple in, int training, void *user)
{
    pair      *p = user;
    lk_tensor *h = lk_layer_call(p->a, in.item[0]);
    p->calls++;
    if (training) lk_model_add_loss(m, lk_reduce_sum(lk_square(h), .axis = LK_AXES(1)));
    return LK_TUPLE(lk_layer_call(p->b, lk_layer_call(p->b, h)));
}

TEST(a_function_over_layers)
{
    LK_POOL
        LK_STEP {
            pair      p = {lk_dense(4), lk_dense(4), 0};
            lk_model *m = lk_model_of(twice, LK_LAYERS(p.a, p.b), .user = &p);
            assert_int_equal(lk_model_weights(m).count, 0);
            lk_tensor *x = noise(LK_SHAPE(6, 3), "x"), *y = lk_model_call(m, x, .training = LK_ON);
            assert_string_equal(lk_error(), "");
            assert_int_equal(lk_dim(y, 1), 4);
            assert_int_equal(lk_model_weights(m).count, 4);
            assert_int_equal(lk_model_losses(m).count, 1);
            assert_string_equal(lk_layer_name(p.b), "dense_1");
            assert_true(same(y, lk_model_call(m, x)));
            assert_int_equal(lk_model_losses(m).count, 0);
        }
}

static lk_digest train_pair(int replicas)
{
    lk_digest d = {0};
    LK_POOL
        LK_STEP {
            lk_strategy *s = replicas ? lk_mirrored_strategy(.cpu_devices = replicas) : NULL;
            pair         p = {lk_dense(4), lk_dense(4), 0};
            lk_model    *m = NULL;
            if (s)
                LK_SCOPE(s)
                    m = lk_model_of(twice, LK_LAYERS(p.a, p.b), .user = &p);
            else m = lk_model_of(twice, LK_LAYERS(p.a, p.b), .user = &p);
            lk_model_compile(m, .loss = lk_mean_squared_error(), .optimizer = lk_adam());
            lk_model_fit(m, .x = noise(LK_SHAPE(30, 3), "x"), .y = noise(LK_SHAPE(30, 4), "y"), .batch_size = 8, .epochs = 2,
                         .verbose = LK_SILENT);
            assert_string_equal(lk_error(), "");
            d = lk_model_digest(m);
        }
    return d;
}

TEST(a_function_gives_the_same_bits_on_replicas)
{
    lk_digest alone = train_pair(0);
    for (int n = 1; n <= 4; n++)
        assert_true(lk_digest_equal(train_pair(n), alone));
}

/* ---- trainable or not ---- */

TEST(layers_that_are_not_trained)
{
    LK_POOL
        LK_STEP {
            lk_layer *frozen = lk_dense(4, .trainable = LK_OFF), *last = lk_dense(1);
            lk_model *m = lk_sequential(lk_dense(4, .input_shape = LK_SHAPE(3)), frozen, last);
            lk_model_compile(m, .loss = lk_mean_squared_error(), .optimizer = lk_sgd());
            assert_int_equal(lk_model_trainable_variables(m).count, 4);
            lk_digest  before = lk_variables_digest(lk_layer_variables(frozen));
            lk_tensor *x = noise(LK_SHAPE(8, 3), "x"), *y = noise(LK_SHAPE(8, 1), "y");
            lk_model_fit(m, .x = x, .y = y, .verbose = LK_SILENT);
            assert_true(lk_digest_equal(before, lk_variables_digest(lk_layer_variables(frozen))));
            lk_layer_set_trainable(frozen, 1);
            lk_layer_set_trainable(last, 0);
            assert_int_equal(lk_model_trainable_variables(m).count, 4);
            lk_model_compile(m, .loss = lk_mean_squared_error(), .optimizer = lk_sgd());
            lk_model_fit(m, .x = x, .y = y, .verbose = LK_SILENT);
            assert_string_equal(lk_error(), "");
            assert_false(lk_digest_equal(before, lk_variables_digest(lk_layer_variables(frozen))));
            lk_model_set_trainable(m, 0);
            assert_int_equal(lk_model_trainable_variables(m).count, 0);
            assert_int_equal(lk_model_weights(m).count, 6);
        }
}

/* ---- what is refused ---- */

static lk_tuple nothing(lk_model *m, lk_tuple in, int training, void *user)
{
    (void)m, (void)in, (void)training, (void)user;
    return LK_TUPLE();
}

TEST(refusals)
{
    LK_POOL
        LK_STEP {
            lk_node *x = lk_input(LK_SHAPE(3), .name = "x"), *y = lk_input(LK_SHAPE(4), .name = "y"), *h = lk_apply(lk_dense(2), x);
            REFUSED(LK_ESHAPE, lk_apply(lk_conv2d(2, 3), x), "layer \"conv2d\"", "[3]", "[height, width, channels]");
            REFUSED(LK_EINVAL, lk_apply(lk_dense(2), x, y), "2 inputs", "takes 1");
            REFUSED(LK_EINVAL, lk_apply(lk_add_layer(), x), "1 input", "at least 2");
            REFUSED(LK_EINVAL, lk_apply(NULL, x), "lk_apply: the layer is NULL");
            REFUSED(LK_EINVAL, lk_apply(lk_dense(1), NULL), "input 0 is NULL");
            REFUSED(LK_EINVAL, lk_functional(LK_NODES(x), LK_NODES()), "0 outputs");
            REFUSED(LK_EINVAL, lk_functional(LK_NODES(y), LK_NODES(h)), "need \"x\"", "not among the inputs");
            REFUSED(LK_EINVAL, lk_functional(LK_NODES(x, x), LK_NODES(h)), "inputs 0 and 1 are the same");
            REFUSED(LK_EINVAL, lk_functional(LK_NODES(h), LK_NODES(lk_apply(lk_dense(1), h))), "inputs are made by lk_input()");
            lk_model *m = lk_functional(LK_NODES(x), LK_NODES(h));
            REFUSED(LK_EINVAL, lk_functional(LK_NODES(x), LK_NODES(h)), "is in a model already");
            REFUSED(LK_ESHAPE, lk_model_call(m, noise(LK_SHAPE(2, 4), "bad")), "rows of [4]", "input \"x\"", "takes [3]");
            REFUSED(LK_EINVAL, lk_model_call(m, lk_nest(LK_TUPLE(noise(LK_SHAPE(2, 3), "a"), noise(LK_SHAPE(2, 3), "b")))),
                    "2 inputs", "takes 1");
            REFUSED(LK_ESHAPE, lk_model_set_weights(m, LK_TUPLE(lk_zeros(LK_SHAPE(2, 3), LK_F32), lk_zeros(LK_SHAPE(2), LK_F32))),
                    "\"dense/kernel\"", "[3, 2]");
            REFUSED(LK_EINVAL, lk_model_set_weights(m, LK_TUPLE()), "0 values for the 2 weights");
            lk_model *own = lk_model_of(nothing);
            REFUSED(LK_EINVAL, lk_model_call(own, noise(LK_SHAPE(2, 3), "x")), "returned 0 tensors", ".outputs says 1");
            REFUSED(LK_EINVAL, lk_model_of(.name = "x"), "fn is NULL");
            REFUSED(LK_EUNSUPPORTED, lk_model_layer(own), "lk_layer_of");
            lk_node *z = lk_input(LK_SHAPE(2));
            lk_node *same_name = lk_apply(lk_dense(1, .name = "d"), lk_apply(lk_dense(1, .name = "d"), z));
            REFUSED(LK_EINVAL, lk_functional(LK_NODES(z), LK_NODES(same_name)), "both named \"d\"");
        }
}

/* ---- several results, and arguments by name ---- */

TEST(every_result_is_a_node)
{
    LK_POOL
        LK_STEP {
            lk_node  *x = lk_input(LK_SHAPE(4)), *i = lk_input(LK_SHAPE(4));
            lk_model *two = lk_functional(LK_NODES(i), LK_NODES(lk_apply(lk_dense(3), i), lk_apply(lk_dense(2), i)), .name = "two");
            lk_node  *first = lk_apply(lk_model_layer(two), x), *second = lk_node_result(first, 1);
            assert_string_equal(lk_error(), "");
            assert_int_equal(lk_node_shape(first).dim[0], 3);
            assert_int_equal(lk_node_shape(second).dim[0], 2);
            assert_ptr_equal(lk_node_result(second, 1), second);
            assert_ptr_equal(lk_node_result(second, 0), first);
            lk_model  *m = lk_functional(LK_NODES(x), LK_NODES(lk_apply(lk_concatenate(), second, first), second));
            lk_tensor *in = noise(LK_SHAPE(5, 4), "in");
            lk_tuple   out = lk_nested(lk_model_call(m, in)), parts = lk_nested(lk_model_call(two, in));
            assert_string_equal(lk_error(), "");
            assert_true(same(out.item[0], lk_concat(LK_TUPLE(parts.item[1], parts.item[0]), 1)));
            assert_true(same(out.item[1], parts.item[1]));
            REFUSED(LK_EINVAL, lk_node_result(first, 2), "result 2 of layer \"two\"; it has 2");
            REFUSED(LK_EINVAL, lk_node_result(NULL, 0), "the node is NULL");
        }
}

TEST(arguments_by_name)
{
    LK_POOL
        LK_STEP {
            lk_node  *q = lk_input(LK_SHAPE(3, 4)), *v = lk_input(LK_SHAPE(5, 4)), *k = lk_input(LK_SHAPE(5, 4));
            lk_layer *attention = lk_multi_head_attention(2, 3), *lstm = lk_lstm(4, .return_state = LK_ON);
            lk_node  *a = lk_apply_with(attention, LK_ARGUMENT("key", k), LK_ARGUMENT("query", q), LK_ARGUMENT("value", v));
            lk_node  *b = lk_apply(attention, q, v, k), *s = lk_apply(lstm, v);
            lk_node  *t = lk_apply_with(lstm, LK_ARGUMENT("initial_state", lk_node_result(s, 1)), LK_ARGUMENT("sequences", q),
                                        LK_ARGUMENT("initial_state", lk_node_result(s, 2)));
            lk_model *m = lk_functional(LK_NODES(q, v, k), LK_NODES(a, b, t));
            assert_string_equal(lk_error(), "");
            lk_tuple out = lk_nested(lk_model_call(
                m, lk_nest(LK_TUPLE(noise(LK_SHAPE(2, 3, 4), "q"), noise(LK_SHAPE(2, 5, 4), "v"), noise(LK_SHAPE(2, 5, 4), "k")))));
            assert_true(same(out.item[0], out.item[1]));
            REFUSED(LK_EINVAL, lk_apply_with(attention, LK_ARGUMENT("query", q), LK_ARGUMENT("mask", v)),
                    "layer \"multi_head_attention\" has no argument \"mask\"; there are query, value, key");
            REFUSED(LK_EINVAL, lk_apply_with(attention, LK_ARGUMENT("query", q), LK_ARGUMENT("query", v)),
                    "argument \"query\" is given twice; it is one tensor");
            REFUSED(LK_EINVAL, lk_apply_with(attention, LK_ARGUMENT("value", v)), "argument \"query\" is missing");
            REFUSED(LK_EINVAL, lk_apply_with(attention, LK_ARGUMENT("query", NULL)), "argument \"query\" is NULL");
            REFUSED(LK_EINVAL, lk_apply_with(lk_dense(3), LK_ARGUMENT("inputs", q)), "has no arguments with names; use lk_apply()");
        }
}

TESTS(cmocka_unit_test(every_result_is_a_node), cmocka_unit_test(arguments_by_name),
      cmocka_unit_test(a_chain_is_a_sequential_model), cmocka_unit_test(layers_are_in_the_order_of_keras),
      cmocka_unit_test(names_are_given_by_position), cmocka_unit_test(a_deep_graph), cmocka_unit_test(inputs_of_any_size),
      cmocka_unit_test(models_inside_models), cmocka_unit_test(a_function_over_layers),
      cmocka_unit_test(a_function_gives_the_same_bits_on_replicas), cmocka_unit_test(layers_that_are_not_trained),
      cmocka_unit_test(refusals))
