/* Layers and models made of them: shapes, names, first values, when variables are made, and that a model computes, and compiles to,
 * the same as these functions written by hand. */
#include "core/shape.h"
#include "model/refused.h"
#include "step/models.h"

static void shape_is(lk_shape s, lk_shape want)
{
    assert_int_equal(s.rank, want.rank);
    for (int i = 0; i < s.rank; i++)
        assert_int_equal(s.dim[i], want.dim[i]);
}

/* ---- the models of the documents ---- */

static lk_model *basic_model(lk_shape input)
{
    return lk_sequential(lk_conv2d(32, 3, .activation = LK_RELU, .input_shape = input), lk_max_pooling2d(), lk_flatten(),
                         lk_dense(64, .activation = LK_RELU), lk_dense(10));
}

static lk_model *custom_model(lk_shape input)
{
    lk_regularizer *l2 = lk_l2(1e-5);
    return lk_sequential(lk_conv2d(32, 3, .activation = LK_RELU, .kernel_regularizer = l2, .input_shape = input),
                         lk_max_pooling2d(), lk_conv2d(64, 3, .activation = LK_RELU, .kernel_regularizer = l2), lk_max_pooling2d(),
                         lk_flatten(), lk_dense(64, .activation = LK_RELU, .kernel_regularizer = l2),
                         lk_dense(10, .kernel_regularizer = l2));
}

static lk_model *knowledge_model(void)
{
    return lk_sequential(lk_dense(64, .activation = LK_RELU, .input_shape = LK_SHAPE(784)), lk_dense(10, .activation = LK_SOFTMAX));
}

#define IMAGE LK_SHAPE(28, 28, 1)

TEST(parameters_and_shapes)
{
    LK_POOL {
        lk_model *basic = basic_model(IMAGE), *custom = custom_model(IMAGE), *plain = knowledge_model();
        assert_int_equal(lk_model_count_params(basic), 347146);
        assert_int_equal(lk_model_count_params(custom), 121930);
        assert_int_equal(lk_model_count_params(plain), 50890);
        static const int64_t each[] = {288, 32, 18432, 64, 102400, 64, 640, 10};
        lk_variables         w = lk_model_weights(custom);
        assert_int_equal(w.count, 8);
        for (int i = 0; i < w.count; i++) {
            lk_shape s = lk_variable_shape(w.item[i]);
            assert_int_equal(lki_shape_size(&s), each[i]);
        }
        shape_is(lk_variable_shape(w.item[2]), LK_SHAPE(3, 3, 32, 64));
        shape_is(lk_variable_shape(w.item[4]), LK_SHAPE(1600, 64));
        shape_is(lk_variable_shape(lk_model_weights(basic).item[2]), LK_SHAPE(5408, 64));
        shape_is(lk_tensor_shape(lk_model_call(basic, lk_zeros(LK_SHAPE(3, 28, 28, 1), LK_F32))), LK_SHAPE(3, 10));
        shape_is(lk_tensor_shape(lk_model_call(plain, lk_zeros(LK_SHAPE(2, 784), LK_F32))), LK_SHAPE(2, 10));
        assert_false(lk_failed());
    }
}

TEST(names_and_order)
{
    static const char *const want[] = {"conv2d/kernel", "conv2d/bias", "conv2d_1/kernel", "conv2d_1/bias",
                                       "dense/kernel",  "dense/bias",  "dense_1/kernel",  "dense_1/bias"};
    LK_POOL {
        lk_layer *late = lk_dense(3), *early = lk_dense(2); /* made in another order than used: the position counts */
        lk_model *m = custom_model(IMAGE), *two = lk_sequential(early, lk_dense(5, .name = "middle"), late);
        for (int i = 0; i < 8; i++)
            assert_string_equal(lk_variable_name(lk_model_weights(m).item[i]), want[i]);
        assert_int_equal(lk_model_variables(m).count, 8);
        assert_int_equal(lk_model_build(two, LK_SHAPE(4)), LK_OK);
        lk_variables v = lk_model_weights(two);
        assert_string_equal(lk_variable_name(v.item[0]), "dense/kernel");
        assert_string_equal(lk_variable_name(v.item[2]), "middle/kernel");
        assert_string_equal(lk_variable_name(v.item[4]), "dense_1/kernel");
        shape_is(lk_variable_shape(v.item[4]), LK_SHAPE(5, 3));
        lk_model *bn = lk_sequential(lk_batch_normalization(.input_shape = LK_SHAPE(3)), lk_dense(2), lk_dropout(0.5),
                                     lk_batch_normalization(.scale = LK_OFF));
        v = lk_model_weights(bn);
        static const char *const layer_by_layer[] = {"batch_normalization/gamma",
                                                     "batch_normalization/beta",
                                                     "batch_normalization/moving_mean",
                                                     "batch_normalization/moving_variance",
                                                     "dense/kernel",
                                                     "dense/bias",
                                                     "batch_normalization_1/beta",
                                                     "batch_normalization_1/moving_mean",
                                                     "batch_normalization_1/moving_variance"};
        assert_int_equal(v.count, LKI_COUNT(layer_by_layer));
        for (int i = 0; i < v.count; i++)
            assert_string_equal(lk_variable_name(v.item[i]), layer_by_layer[i]);
        static const int order[] = {0, 1, 4, 5, 6, 2, 3, 7, 8}; /* trainable ones first */
        lk_variables     all = lk_model_variables(bn), trained = lk_model_trainable_variables(bn);
        assert_int_equal(all.count, 10);
        assert_int_equal(trained.count, 5);
        for (int i = 0; i < 9; i++)
            assert_ptr_equal(all.item[i], v.item[order[i]]);
        for (int i = 0; i < 5; i++)
            assert_ptr_equal(trained.item[i], all.item[i]);
        assert_string_equal(lk_variable_name(all.item[9]), "sequential/seed_generator_state");
        assert_false(lk_failed());
    }
}

/* ---- values ---- */

static lk_tensor *by_hand(lk_variables w, lk_tensor *x)
{
    lk_tensor *r[8];
    for (int i = 0; i < w.count; i++)
        r[i] = lk_read(w.item[i]);
    x = lk_nn_max_pool2d(lk_nn_conv2d(x, r[0], r[1], .activation = LK_RELU));
    x = lk_nn_max_pool2d(lk_nn_conv2d(x, r[2], r[3], .activation = LK_RELU));
    x = lk_nn_dense(lk_flatten_rows(x), r[4], r[5], LK_RELU);
    return lk_nn_dense(x, r[6], r[7], LK_LINEAR);
}

TEST(values_and_gradients_are_those_of_the_functions)
{
    LK_POOL {
        lk_model    *m = custom_model(IMAGE);
        lk_variables w = lk_model_weights(m);
        lk_tensor   *x = lk_rows(lk_random_uniform(LK_SHAPE(5, 28, 28, 1)), 0);
        lk_tape     *tape = lk_tape_begin(), *other;
        lk_tensor   *y = lk_model_call(m, x, .training = LK_ON);
        lk_grads    *g = lk_tape_gradient(tape, lk_reduce_sum(lk_square(y)), w);
        other = lk_tape_begin();
        lk_tensor *z = by_hand(w, x);
        lk_grads  *h = lk_tape_gradient(other, lk_reduce_sum(lk_square(z)), w);
        assert_true(same_bits(y, z));
        for (int i = 0; i < 8; i++)
            assert_true(same_bits(lk_grads_item(g, i), lk_grads_item(h, i)));
        assert_true(same_bits(lk_read(w.item[2]), lk_glorot_uniform(LK_SHAPE(3, 3, 32, 64), "sequential/conv2d_1/kernel")));
        assert_true(same_bits(lk_read(w.item[3]), lk_zeros(LK_SHAPE(64), LK_F32)));
        assert_false(lk_failed());
    }
}

/* Weights are f32, so the differences are coarse. */
static lk_tuple model_of_inputs(lk_tuple in, void *user) { return LK_TUPLE(lk_cast(lk_model_call(user, in.item[0]), LK_F64)); }

TEST(gradients_of_the_input)
{
    LK_POOL {
        lk_model         *m = lk_sequential(lk_conv2d(3, 2, .activation = LK_TANH), lk_batch_normalization(), lk_flatten(),
                                            lk_dense(4, .activation = LK_SIGMOID));
        lk_tensor        *x = lk_cast(lk_random_normal(LK_SHAPE(2, 4, 3, 2)), LK_F64);
        lk_gradient_check worst;
        lk_status         status = lk_check_gradient(model_of_inputs, LK_TUPLE(x), m, 1e-2, 2e-3, &worst);
        if (status != LK_OK) print_error("%s\n", lk_error());
        assert_int_equal(status, LK_OK);
    }
}

/* ---- options of layers ---- */

TEST(options_reach_the_functions)
{
    LK_POOL {
        lk_model    *m = lk_sequential(lk_conv2d(4, .kernel_shape = LK_AXES(3, 2), .strides = LK_AXES(2, 1), .padding = LK_SAME,
                                                 .use_bias = LK_OFF, .input_shape = LK_SHAPE(9, 7, 2)),
                                       lk_max_pooling2d(.pool_size = LK_AXES(3, 2), .strides = LK_AXES(1), .padding = LK_SAME),
                                       lk_conv2d(2, 2, .dilation = LK_AXES(2), .activation = LK_ELU),
                                       lk_dense(3, .use_bias = LK_OFF, .activation = LK_TANH));
        lk_variables w = lk_model_weights(m);
        assert_int_equal(w.count, 4);
        lk_tensor *x = lk_random_normal(LK_SHAPE(2, 9, 7, 2)), *y = x;
        y = lk_nn_conv2d(y, lk_read(w.item[0]), .strides = LK_AXES(2, 1), .padding = LK_SAME);
        y = lk_nn_max_pool2d(y, LK_AXES(3, 2), LK_AXES(1), LK_SAME);
        y = lk_nn_conv2d(y, lk_read(w.item[1]), lk_read(w.item[2]), .dilation = LK_AXES(2), .activation = LK_ELU);
        y = lk_nn_dense(y, lk_read(w.item[3]), NULL, LK_TANH);
        assert_true(same_bits(lk_model_call(m, x), y));
        assert_false(lk_failed());
    }
}

TEST(rows_of_another_size_where_no_layer_minds)
{
    LK_POOL {
        lk_model *m = lk_sequential(lk_conv2d(4, 3, .input_shape = LK_SHAPE(8, 8, 1)), lk_max_pooling2d());
        shape_is(lk_tensor_shape(lk_model_call(m, lk_zeros(LK_SHAPE(2, 12, 10, 1), LK_F32))), LK_SHAPE(2, 5, 4, 4));
        REFUSED_TENSOR(LK_ESHAPE, lk_model_call(m, lk_zeros(LK_SHAPE(2, 8, 8, 2), LK_F32)), "layer \"conv2d\"", "[8, 8, 2]",
                       "1 channels");
        REFUSED_TENSOR(LK_ESHAPE, lk_model_call(m, lk_zeros(LK_SHAPE(2, 8, 8), LK_F32)), "conv2d", "[8, 8]",
                       "[height, width, channels]");
        REFUSED_TENSOR(LK_ESHAPE, lk_model_call(m, lk_zeros(LK_SHAPE(2, 2, 2, 1), LK_F32)), "3 x 3", "does not fit");
        lk_model *flat = lk_sequential(lk_flatten(.input_shape = LK_SHAPE(4, 4)), lk_dense(2));
        REFUSED_TENSOR(LK_ESHAPE, lk_model_call(flat, lk_zeros(LK_SHAPE(2, 4, 5), LK_F32)), "layer \"dense\"", "[20]", "16");
        assert_false(lk_poisoned(lk_model_call(flat, lk_zeros(LK_SHAPE(2, 2, 8), LK_F32))));
    }
}

TEST(other_types_of_float_are_cast)
{
    LK_POOL {
        lk_model  *m = lk_sequential(lk_dense(3, .input_shape = LK_SHAPE(2)));
        lk_tensor *x = lk_random_normal(LK_SHAPE(4, 2));
        assert_true(same_bits(lk_model_call(m, lk_cast(x, LK_F64)), lk_model_call(m, x)));
        assert_int_equal(lk_tensor_dtype(lk_model_call(m, lk_cast(x, LK_F16))), LK_F32);
        lk_tensor *whole = lk_cast(x, LK_I32); /* integers too, as Keras does */
        assert_true(same_bits(lk_model_call(m, whole), lk_model_call(m, lk_cast(whole, LK_F32))));
    }
}

TEST(no_rows)
{
    LK_POOL {
        lk_model  *m = lk_sequential(lk_conv2d(3, 2, .activity_regularizer = lk_l2(0.1)), lk_batch_normalization(), lk_dropout(0.5),
                                     lk_flatten(), lk_dense(2));
        lk_tensor *y = lk_model_call(m, lk_rows(lk_zeros(LK_SHAPE(0, 3, 3, 1), LK_F32), 4), .training = LK_ON);
        shape_is(lk_tensor_shape(y), LK_SHAPE(0, 2));
        assert_true(lk_item(lk_model_losses(m).item[0]) == 0);
        lk_variables w = lk_model_weights(m);
        assert_true(same_bits(lk_read(w.item[4]), lk_zeros(LK_SHAPE(3), LK_F32)));
        assert_true(same_bits(lk_read(w.item[5]), lk_ones(LK_SHAPE(3), LK_F32)));
        assert_false(lk_failed());
    }
}

/* ---- when variables are made ---- */

TEST(made_at_the_first_call)
{
    LK_POOL {
        lk_model *lazy = custom_model(LK_SHAPE()), *eager = custom_model(IMAGE);
        assert_int_equal(lk_model_weights(lazy).count, 0);
        assert_int_equal(lk_model_count_params(lazy), 0);
        assert_int_equal(lk_model_losses(lazy).count, 0);
        lk_tensor *x = lk_random_uniform(LK_SHAPE(2, 28, 28, 1));
        lk_tape   *tape = lk_tape_begin(); /* first values are not recorded */
        lk_tensor *y = lk_model_call(lazy, x);
        lk_grads  *g = lk_tape_gradient(tape, lk_reduce_sum(y), lk_model_trainable_variables(lazy));
        assert_non_null(lk_grads_item(g, 0));
        assert_true(same_bits(y, lk_model_call(eager, x)));
        assert_true(lk_digest_equal(lk_model_digest(lazy), lk_model_digest(eager)));
        assert_int_equal(lk_model_build(eager, IMAGE), LK_OK);
        REFUSED(LK_ESTATE, lk_model_build(eager, LK_SHAPE(27, 28, 1)) != LK_OK, "[27, 28, 1]", "[28, 28, 1]", "before");
        lk_assign_add(lk_model_weights(lazy).item[7], lk_ones(LK_SHAPE(10), LK_F32));
        assert_false(lk_digest_equal(lk_model_digest(lazy), lk_model_digest(eager)));
        assert_false(lk_failed());
    }
}

static lk_tuple forward(lk_tuple in, void *user) { return LK_TUPLE(lk_model_call(user, in.item[0], .training = LK_ON)); }

TEST(made_while_a_function_is_traced)
{
    LK_POOL {
        lk_model    *traced = custom_model(LK_SHAPE()), *eager = custom_model(IMAGE);
        lk_tensor   *x = lk_rows(lk_random_uniform(LK_SHAPE(6, 28, 28, 1)), 0);
        lk_function *f = lk_function_of(forward, traced);
        lk_tensor   *y = lk_call(f, LK_TUPLE(x)).item[0];
        assert_true(same_bits(y, lk_model_call(eager, x)));
        assert_true(lk_digest_equal(lk_model_digest(traced), lk_model_digest(eager)));
        assert_true(same_bits(lk_call(f, LK_TUPLE(x)).item[0], y));
        assert_int_equal(lk_function_inspect(f).traces, 1);
        assert_false(lk_failed());
    }
}

TEST(variables_outlive_the_pool_they_were_made_in)
{
    LK_POOL {
        lk_model  *m = custom_model(LK_SHAPE());
        lk_tensor *x = lk_random_uniform(LK_SHAPE(2, 28, 28, 1));
        LK_POOL
            LK_STEP
                lk_model_call(m, x);
        assert_true(same_bits(lk_model_call(m, x), lk_model_call(custom_model(IMAGE), x)));
        assert_false(lk_failed());
    }
}

/* ---- compiled, as fast as by hand ---- */

typedef struct trainer {
    lk_model     *model;
    lk_optimizer *optimizer;
    lk_loss      *loss;
    int64_t       global_batch;
} trainer;

static lk_tuple train(lk_tuple in, void *user)
{
    trainer   *t = user;
    lk_tape   *tape = lk_tape_begin();
    lk_tensor *y = lk_model_call(t->model, in.item[0], .training = LK_ON);
    lk_tensor *loss = lk_compute_average_loss(lk_loss_call(t->loss, in.item[1], y), .global_batch_size = t->global_batch);
    lk_tuple   reg = lk_model_losses(t->model);
    if (reg.count) loss = lk_add(loss, lk_scale_regularization_loss(lk_add_n(reg)));
    lk_optimizer_apply(t->optimizer, lk_tape_gradient(tape, loss, lk_model_trainable_variables(t->model)));
    lk_tensor *hit = lk_cast(lk_equal(lk_argmax(y, .axis = LK_AXIS(1)), lk_cast(in.item[1], LK_I64)), LK_F32);
    return LK_TUPLE(loss, lk_reduce_sum(hit));
}

/* The same weights as the model written by hand. */
static trainer trainer_like(const model *m)
{
    trainer t = {.model = m->convolutions == 2 ? custom_model(IMAGE) : basic_model(IMAGE),
                 .optimizer = lk_adam(),
                 .loss = lk_sparse_categorical_crossentropy(.from_logits = LK_ON, .reduction = LK_REDUCTION_NONE),
                 .global_batch = m->global_batch};
    for (int i = 0; i < m->count; i++)
        lk_assign(lk_model_weights(t.model).item[i], lk_read(m->weight[i]));
    return t;
}

TEST(compiles_to_what_the_functions_do)
{
    for (int convolutions = 1; convolutions <= 2; convolutions++)
        LK_POOL {
            model            m = model_new(convolutions, 64);
            trainer          t = trainer_like(&m);
            lk_function     *hand = lk_function_of(model_step, &m), *object = lk_function_of(train, &t);
            lk_function_info a, b;
            for (int step = 0; step < 3; step++) {
                lk_tuple in = model_batch(&m, 64, step), x = lk_call(hand, in), y = lk_call(object, in);
                assert_true(fabs(lk_item(x.item[0]) - lk_item(y.item[0])) < 1e-5);
                assert_true(lk_item(x.item[1]) == lk_item(y.item[1]));
            }
            for (int i = 0; i < m.count; i++)
                assert_true(same_bits(lk_read(m.weight[i]), lk_read(lk_model_weights(t.model).item[i])));
            a = lk_function_inspect(hand);
            b = lk_function_inspect(object);
            assert_int_equal(a.calls, b.calls);
            assert_int_equal(a.fused, b.fused);
            assert_int_equal(a.barriers, b.barriers);
            assert_int_equal(b.traces, 1);
            assert_false(lk_failed());
        }
}

/* ---- dropout and batch normalisation as layers ---- */

TEST(dropout_draws_anew_at_every_call)
{
    LK_POOL {
        lk_model  *m = lk_sequential(lk_dropout(0.5, .input_shape = LK_SHAPE(50)), lk_dropout(0.5));
        lk_tensor *x = lk_rows(lk_ones(LK_SHAPE(8, 50), LK_F32), 0);
        assert_true(same_bits(lk_model_call(m, x), x));
        lk_tensor *first = lk_model_call(m, x, .training = LK_ON), *second = lk_model_call(m, x, .training = LK_ON);
        assert_false(same_bits(first, second));
        lk_tensor *t = lk_fill(LK_SHAPE(), LK_I64, 0), *y = x;
        y = lk_nn_dropout(x, 0.5, .stream = "sequential/dropout", .iteration = t);
        y = lk_nn_dropout(y, 0.5, .stream = "sequential/dropout_1", .iteration = t);
        assert_true(same_bits(first, y));
        lk_model    *again = lk_sequential(lk_dropout(0.5, .input_shape = LK_SHAPE(50)), lk_dropout(0.5));
        lk_function *f = lk_function_of(forward, again); /* the count is a variable, so a compiled step draws new numbers too */
        assert_true(same_bits(lk_call(f, LK_TUPLE(x)).item[0], first));
        assert_true(same_bits(lk_call(f, LK_TUPLE(x)).item[0], second));
        assert_int_equal(lk_model_weights(m).count, 0);
        assert_int_equal(lk_model_variables(m).count, 1);
        assert_true(lk_item(lk_read(lk_model_variables(m).item[0])) == 2);
        assert_false(lk_failed());
    }
}

TEST(batch_normalization_is_the_function)
{
    LK_POOL {
        lk_model  *m = lk_sequential(lk_batch_normalization(.momentum = LK_NUMBER(0.9), .epsilon = LK_NUMBER(0.01)));
        lk_tensor *x = lk_rows(lk_random_normal(LK_SHAPE(6, 3, 2, 4)), 0);
        lk_tensor *mean = lk_zeros(LK_SHAPE(4), LK_F32), *variance = lk_ones(LK_SHAPE(4), LK_F32), *one = variance, *zero = mean;
        lk_tuple   y;
        for (int i = 0; i < 2; i++) {
            y = lk_nn_batch_norm(x, one, zero, .epsilon = LK_NUMBER(0.01), .momentum = LK_NUMBER(0.9), .moving_mean = mean,
                                 .moving_variance = variance, .training = LK_ON);
            assert_true(same_bits(lk_model_call(m, x, .training = LK_ON), y.item[0]));
            mean = y.item[1];
            variance = y.item[2];
        }
        lk_variables w = lk_model_weights(m);
        assert_true(same_bits(lk_read(w.item[2]), mean));
        assert_true(same_bits(lk_read(w.item[3]), variance));
        y = lk_nn_batch_norm(x, one, zero, .epsilon = LK_NUMBER(0.01), .moving_mean = mean, .moving_variance = variance);
        assert_true(same_bits(lk_model_call(m, x), y.item[0]));
        lk_model *compiled = lk_sequential(lk_batch_normalization(.momentum = LK_NUMBER(0.9), .epsilon = LK_NUMBER(0.01)));
        for (int i = 0; i < 2; i++)
            lk_call(lk_function_of(forward, compiled), LK_TUPLE(x));
        assert_true(lk_digest_equal(lk_model_digest(m), lk_model_digest(compiled)));
        lk_model *bare = lk_sequential(lk_batch_normalization(.center = LK_OFF, .scale = LK_OFF, .momentum = LK_NUMBER(0)));
        lk_model_call(bare, lk_tensor_of(LK_SHAPE(2, 1), 1, 3), .training = LK_ON);
        assert_int_equal(lk_model_weights(bare).count, 2);
        assert_true(lk_item(lk_read(lk_model_weights(bare).item[0])) == 2);
        assert_true(lk_item(lk_read(lk_model_weights(bare).item[1])) == 1);
        assert_false(lk_failed());
    }
}

/* ---- losses of a model ---- */

TEST(regularisers_by_numbers)
{
    LK_POOL {
        lk_tensor *x = lk_tensor_of(LK_SHAPE(2, 2), 1, -2, 3, -4);
        assert_true(fabs(lk_item(lk_regularizer_call(lk_l1(0.1), x)) - 1) < 1e-6);
        assert_true(fabs(lk_item(lk_regularizer_call(lk_l2(0.1), x)) - 3) < 1e-6);
        assert_true(fabs(lk_item(lk_regularizer_call(lk_l1_l2(0.1, 0.01), x)) - 1.3) < 1e-6);
        assert_true(lk_item(lk_regularizer_call(lk_l1_l2(0, 0), x)) == 0);
        REFUSED(LK_EINVAL, !lk_l2(-1), "lk_l2", "-1", "at least 0");
        REFUSED(LK_EINVAL, !lk_l1(NAN), "lk_l1");
        REFUSED(LK_EINVAL, !lk_l1_l2(1, INFINITY), "l2", "inf");
        REFUSED_TENSOR(LK_EINVAL, lk_regularizer_call(NULL, x), "NULL");
    }
}

TEST(losses_of_weights_and_activities)
{
    LK_POOL {
        lk_model  *m = lk_sequential(lk_dense(2, .kernel_regularizer = lk_l2(0.5), .bias_regularizer = lk_l1(1),
                                              .activity_regularizer = lk_l1_l2(0.25, 0.5)),
                                     lk_dense(1, .kernel_regularizer = lk_l1(2)));
        lk_tensor *x = lk_tensor_of(LK_SHAPE(4, 2), 1, 0, 0, 1, 2, -1, 0, 0);
        assert_int_equal(lk_model_build(m, LK_SHAPE(2)), LK_OK);
        lk_variables w = lk_model_weights(m);
        lk_assign(w.item[0], lk_tensor_of(LK_SHAPE(2, 2), 1, 2, -1, 0));
        lk_assign(w.item[1], lk_tensor_of(LK_SHAPE(2), 1, -1));
        lk_assign(w.item[2], lk_tensor_of(LK_SHAPE(2, 1), 3, -5));
        assert_int_equal(lk_model_losses(m).count, 3);
        lk_tape *tape = lk_tape_begin();
        lk_model_call(m, x, .training = LK_ON);
        lk_tuple losses = lk_model_losses(m);
        assert_int_equal(losses.count, 4);
        assert_true(lk_item(losses.item[0]) == 3);  /* 0.5 * (1 + 4 + 1) */
        assert_true(lk_item(losses.item[1]) == 2);  /* |1| + |-1| */
        assert_true(lk_item(losses.item[2]) == 16); /* 2 * 8 */
        /* outputs [2, 1], [0, -1], [4, 3], [1, -1]: sum of sizes 13, of squares 33; over 4 rows */
        assert_true(lk_item(losses.item[3]) == (0.25 * 13 + 0.5 * 33) / 4);
        lk_grads *g = lk_tape_gradient(tape, lk_add_n(losses), w);
        /* bias of the first: sign(b), and the mean over rows of 0.25 * sign(y) + y */
        const float *db = lk_data(lk_grads_item(g, 1));
        assert_true(db[0] == 1 + (0.25f * 3 + 7) / 4 && db[1] == -1 + (0.25f * 0 + 2) / 4);
        assert_int_equal(lk_model_add_loss(m, lk_scalar(7)), LK_OK);
        assert_int_equal(lk_model_add_loss(m, lk_tensor_of(LK_SHAPE(4), 1, 2, 3, 6)), LK_OK);
        losses = lk_model_losses(m);
        assert_int_equal(losses.count, 6);
        assert_true(lk_item(losses.item[4]) == 7 && lk_item(losses.item[5]) == 3);
        lk_model_call(m, x);
        assert_int_equal(lk_model_losses(m).count, 4);
        assert_false(lk_failed());
        REFUSED(LK_EDTYPE, lk_model_add_loss(m, lk_range(3, LK_I32)) != LK_OK, "i32", "float");
        REFUSED(LK_EINVAL, lk_model_add_loss(m, NULL) != LK_OK, "NULL");
    }
}

static lk_tuple losses_of(lk_tuple in, void *user)
{
    lk_model_call(user, in.item[0], .training = LK_ON);
    return LK_TUPLE(lk_add_n(lk_model_losses(user)));
}

TEST(losses_of_a_traced_call_end_with_it)
{
    LK_POOL {
        lk_model    *m = lk_sequential(lk_dense(2, .activity_regularizer = lk_l2(0.5)));
        lk_tensor   *x = lk_rows(lk_random_normal(LK_SHAPE(5, 3)), 0);
        lk_function *f = lk_function_of(losses_of, m);
        lk_tensor   *traced = lk_call(f, LK_TUPLE(x)).item[0], *plain = losses_of(LK_TUPLE(x), m).item[0];
        assert_true(same_bits(traced, plain));
        lk_call(lk_function_of(losses_of, m), LK_TUPLE(x));
        assert_int_equal(lk_model_losses(m).count, 0); /* what was traced last has no value */
        assert_false(lk_failed());
    }
}

/* ---- misuse ---- */

TEST(layers_refuse_what_they_cannot_be)
{
    LK_POOL {
        REFUSED(LK_EINVAL, !lk_dense(), "lk_dense", "units", "0", "at least 1");
        REFUSED(LK_EINVAL, !lk_dense(3, .activation = (lk_activation)99), "lk_dense", "99");
        REFUSED(LK_EINVAL, !lk_dense(3, .kernel_regularizer = (lk_regularizer *)lk_adam()), "kernel_regularizer",
                "not a regulariser");
        REFUSED(LK_ESHAPE, !lk_dense(3, .input_shape = LK_SHAPE(-2)), "input_shape");
        REFUSED(LK_ESHAPE, !lk_dense(3, .input_shape = LK_SHAPE(1, 1, 1, 1, 1, 1, 1, 1)), "input_shape");
        REFUSED(LK_EINVAL, !lk_dense(3, .name = ""), "name");
        REFUSED(LK_EINVAL, !lk_conv2d(0, 3), "filters");
        REFUSED(LK_EINVAL, !lk_conv2d(3), "kernel_size");
        REFUSED(LK_EINVAL, !lk_conv2d(3, 3, .kernel_shape = LK_AXES(3, 3)), "not both");
        REFUSED(LK_EINVAL, !lk_conv2d(3, .kernel_shape = LK_AXES(3)), "two");
        REFUSED(LK_EINVAL, !lk_conv2d(3, -3), "lk_conv2d", "-3");
        REFUSED(LK_EINVAL, !lk_conv2d(3, 3, .strides = LK_AXES(0)), "lk_conv2d", "strides");
        REFUSED(LK_EINVAL, !lk_conv2d(3, 3, .padding = LK_CAUSAL), "lk_conv2d");
        REFUSED(LK_EINVAL, !lk_max_pooling2d(.pool_size = LK_AXES(-1)), "lk_max_pooling2d");
        REFUSED(LK_EINVAL, !lk_dropout(1), "lk_dropout", "1", "below 1");
        REFUSED(LK_EINVAL, !lk_dropout(-0.1), "lk_dropout");
        REFUSED(LK_EINVAL, !lk_batch_normalization(.momentum = LK_NUMBER(2)), "momentum", "2", "0 to 1");
        REFUSED(LK_EINVAL, !lk_batch_normalization(.epsilon = LK_NUMBER(-1)), "epsilon", "at least 0");
    }
}

TEST(models_refuse_what_they_cannot_be)
{
    LK_POOL {
        lk_layer *used = lk_dense(2), *twice = lk_dense(2), *kept = lk_dense(3);
        assert_non_null(lk_sequential(used));
        REFUSED(LK_EINVAL, !lk_sequential(), "no layers");
        REFUSED(LK_EINVAL, !lk_sequential(lk_dense(2), NULL), "layer 1", "NULL");
        REFUSED(LK_EINVAL, !lk_sequential(lk_dense(0)), "units"); /* the first cause */
        REFUSED(LK_EINVAL, !lk_sequential(used), "dense", "in a model already");
        REFUSED(LK_EINVAL, !lk_sequential(twice, lk_dense(2), twice), "0", "2", "same");
        REFUSED(LK_EINVAL, !lk_sequential((lk_layer *)lk_adam()), "not a layer");
        REFUSED(LK_EINVAL, !lk_sequential(kept, lk_dense(2, .name = "dense")), "both named \"dense\"");
        REFUSED(LK_ESHAPE, !lk_sequential(lk_conv2d(2, 3, .input_shape = LK_SHAPE(2, 2, 1))), "layer \"conv2d\"", "does not fit");
        lk_layer *small = lk_dense(2, .input_shape = LK_SHAPE(4)), *wrong = lk_dense(3, .input_shape = LK_SHAPE(5));
        REFUSED(LK_ESHAPE, !lk_sequential(small, wrong), "dense_1", "[2]", "input_shape", "[5]");
        lk_model *m = lk_sequential(kept, twice, small), *n = lk_sequential(wrong); /* what failed before left them free */
        REFUSED(LK_ESHAPE, lk_model_build(m, LK_SHAPE(3)) != LK_OK, "dense_2", "[2]", "[4]");
        assert_int_equal(lk_model_weights(m).count, 0);
        lk_free(m);
        lk_free(n);
        m = lk_sequential(twice, wrong, kept); /* and so did models that are gone */
        REFUSED(LK_ESHAPE, lk_model_build(m, LK_SHAPE(3)) != LK_OK, "dense_1");
        lk_free(m);
        m = lk_sequential(kept, twice);
        assert_non_null(m);
        REFUSED_TENSOR(LK_ESHAPE, lk_model_call(m, lk_scalar(1)), "scalar");
        REFUSED_TENSOR(LK_ESHAPE, lk_model_call(m, lk_zeros(LK_SHAPE(3), LK_F32)), "dense", "at least one axis");
        REFUSED_TENSOR(LK_EINVAL, lk_model_call(m, NULL), "x is NULL");
        REFUSED_TENSOR(LK_EINVAL, lk_model_call(NULL, lk_scalar(1)), "model is NULL");
        REFUSED_TENSOR(LK_EINVAL, lk_model_call((lk_model *)used, lk_scalar(1)), "not a model");
        REFUSED(LK_EINVAL, lk_model_weights(NULL).count == 0, "lk_model_weights", "the model is NULL");
        REFUSED(LK_ESHAPE, lk_model_build(m, LK_SHAPE(-2)) != LK_OK, "lk_model_build");
        assert_false(lk_poisoned(lk_model_call(m, lk_zeros(LK_SHAPE(3, 2), LK_F32))));
        assert_false(lk_failed());
    }
}

TESTS(cmocka_unit_test(parameters_and_shapes), cmocka_unit_test(names_and_order),
      cmocka_unit_test(values_and_gradients_are_those_of_the_functions), cmocka_unit_test(gradients_of_the_input),
      cmocka_unit_test(options_reach_the_functions), cmocka_unit_test(rows_of_another_size_where_no_layer_minds),
      cmocka_unit_test(other_types_of_float_are_cast), cmocka_unit_test(no_rows), cmocka_unit_test(made_at_the_first_call),
      cmocka_unit_test(made_while_a_function_is_traced), cmocka_unit_test(variables_outlive_the_pool_they_were_made_in),
      cmocka_unit_test(compiles_to_what_the_functions_do), cmocka_unit_test(dropout_draws_anew_at_every_call),
      cmocka_unit_test(batch_normalization_is_the_function), cmocka_unit_test(regularisers_by_numbers),
      cmocka_unit_test(losses_of_weights_and_activities), cmocka_unit_test(losses_of_a_traced_call_end_with_it),
      cmocka_unit_test(layers_refuse_what_they_cannot_be), cmocka_unit_test(models_refuse_what_they_cannot_be))
