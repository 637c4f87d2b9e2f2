/* Errors with layers that are built from ops, and with objects that have state: variables, tapes, functions, optimisers. */
#include "op/mistakes.h"
#include "op/tensor.h"
#include <pthread.h>

static lk_tensor *f32(lk_shape s) { return lk_ones(s, LK_F32); }
static lk_tensor *i32(lk_shape s) { return lk_ones(s, LK_I32); }

#define F(...) f32(LK_SHAPE(__VA_ARGS__))
#define I(...) i32(LK_SHAPE(__VA_ARGS__))

/* ---- layers ---- */

TEST(norms)
{
    BEGIN
    lk_tensor *x = F(2, 6), *c = F(6);
    BAD(LK_EINVAL, lk_nn_batch_norm(x, .moving_mean = c).item[0], "lk_nn_batch_norm", "moving_variance", "required");
    BAD(LK_EINVAL, lk_nn_batch_norm(.moving_mean = c, .moving_variance = c).item[0], "lk_nn_batch_norm", "x");
    BAD(LK_ESHAPE, lk_nn_batch_norm(c, .moving_mean = c, .moving_variance = c, .training = LK_ON).item[2], "lk_nn_batch_norm",
        "[6]", "rows and channels");
    BAD(LK_ESHAPE, lk_nn_batch_norm(x, F(5), .moving_mean = c, .moving_variance = c).item[0], "[2, 6] f32, [5] f32");
    BAD(LK_ESHAPE, lk_nn_batch_norm(x, .moving_mean = F(5), .moving_variance = c).item[0], "[2, 6] f32, [5] f32");
    BAD(LK_EDTYPE, lk_nn_batch_norm(I(2, 6), .moving_mean = c, .moving_variance = c).item[0], "i32");
    BAD(LK_EINVAL, lk_nn_layer_norm(), "lk_nn_layer_norm", "missing");
    BAD(LK_ESHAPE, lk_nn_layer_norm(F()), "lk_nn_layer_norm", "scalar");
    BAD(LK_ESHAPE, lk_nn_layer_norm(x, F(5)), "[2, 6] f32, [5] f32");
    BAD(LK_EINVAL, lk_nn_group_norm(x, .groups = 4), "lk_nn_group_norm", "6 channels", "4 groups");
    BAD(LK_EINVAL, lk_nn_group_norm(x), "lk_nn_group_norm", "0 groups");
    BAD(LK_EINVAL, lk_nn_group_norm(c, .groups = 2), "lk_nn_group_norm");
    BAD(LK_EINVAL, lk_nn_group_norm(.groups = 2), "lk_nn_group_norm", "missing");
    BAD(LK_EINVAL, lk_nn_dropout(x, 1.0), "lk_nn_dropout", "rate is 1", "below 1");
    BAD(LK_EINVAL, lk_nn_dropout(x, NAN), "lk_nn_dropout", "rate");
    BAD(LK_ESHAPE, lk_nn_dropout(F(), 0.5), "lk_nn_dropout", "leading axis");
    BAD(LK_EINVAL, lk_nn_dropout(.rate = 0.5), "lk_nn_dropout", "missing");
    BAD(LK_EINVAL, lk_nn_embedding(I(2), NULL), "lk_nn_embedding", "table", "NULL");
    BAD(LK_EINVAL, lk_nn_embedding(NULL, F(3, 2)), "gather", "NULL");
    BAD(LK_EDTYPE, lk_nn_embedding(F(2), F(3, 2)), "gather", "ids", "i32 or i64");
    BAD(LK_EINVAL, lk_nn_embedding(I(2), F(1, 2)), "gather", "id");
    END
}

TEST(recurrent_layers)
{
    BEGIN
    lk_tensor *x = F(2, 3, 4), *k = F(4, 20), *r = F(5, 20);
    BAD(LK_EINVAL, lk_nn_lstm(x, k), "lk_nn_lstm", "recurrent", "required");
    BAD(LK_EINVAL, lk_nn_gru(), "lk_nn_gru", "required");
    BAD(LK_ESHAPE, lk_nn_lstm(F(3, 4), k, r), "lk_nn_lstm", "x [3, 4]", "kernel [4, 20]", "recurrent [5, 20]", "[n, steps, in]",
        "4*units");
    BAD(LK_ESHAPE, lk_nn_lstm(x, F(3, 20), r), "lk_nn_lstm", "kernel [3, 20]");
    BAD(LK_ESHAPE, lk_nn_gru(x, k, r), "lk_nn_gru", "3*units");
    BAD(LK_ESHAPE, lk_nn_simple_rnn(x, k, r), "lk_nn_simple_rnn", "1*units");
    BAD(LK_ESHAPE, lk_nn_lstm(F(2, 0, 4), k, r), "lk_nn_lstm", "x [2, 0, 4]");
    BAD(LK_ESHAPE, lk_nn_lstm(x, k, r, F(19)), "bias of [19] cannot be added to [2, 3, 20]");
    BAD(LK_ESHAPE, lk_nn_gru(x, F(4, 15), F(5, 15), F(15)), "lk_nn_gru", "reset_after", "[2, 3*units]");
    BAD(LK_EDTYPE, lk_nn_lstm(x, k, r, .mask = F(2, 3)), "lk_nn_lstm", "mask [2, 3] f32", "bool");
    BAD(LK_ESHAPE, lk_nn_lstm(x, k, r, .mask = lk_ones(LK_SHAPE(2, 2), LK_BOOL)), "lk_nn_lstm", "mask [2, 2]", "[2, 3]");
    BAD(LK_ESHAPE, lk_nn_simple_rnn(x, F(4, 5), F(5, 5), .mask = lk_ones(LK_SHAPE(3), LK_BOOL)), "lk_nn_simple_rnn", "mask [3]");
    BAD(LK_ESHAPE, lk_nn_lstm(x, k, r, .initial_h = F(2, 4)), "lk_nn_lstm", "initial_h [2, 4]", "[2, 5]");
    BAD(LK_ESHAPE, lk_nn_lstm(x, k, r, .initial_c = F(3, 5)), "lk_nn_lstm", "initial_c [3, 5]", "[2, 5]");
    END
}

TEST(attention)
{
    BEGIN
    lk_tensor *q = F(2, 3, 4), *k = F(2, 5, 4), *w = F(4, 2, 3);
    BAD(LK_EINVAL, lk_nn_attention(NULL, k, k, NULL), "lk_nn_attention", "query", "NULL");
    BAD(LK_EINVAL, lk_nn_attention(q, k, NULL, NULL), "lk_nn_attention", "value", "NULL");
    BAD(LK_ESHAPE, lk_nn_attention(q, F(2, 5, 3), k, NULL), "[2, 3, 4] f32, [2, 5, 3] f32", "inner sizes 4 and 3");
    BAD(LK_ESHAPE, lk_nn_attention(q, k, F(2, 6, 4), NULL), "[2, 3, 5] f32, [2, 6, 4] f32", "inner sizes 5 and 6");
    BAD(LK_EDTYPE, lk_nn_attention(q, k, k, F(3, 5)), "condition", "bool");
    BAD(LK_ESHAPE, lk_nn_attention(q, k, k, lk_ones(LK_SHAPE(3, 4), LK_BOOL)), "condition", "[3, 4] bool");
    BAD(LK_EINVAL, lk_nn_multi_head_attention(q, k), "lk_nn_multi_head_attention", "four kernels");
    BAD(LK_ESHAPE,
        lk_nn_multi_head_attention(F(3, 4), k, .query_kernel = w, .key_kernel = w, .value_kernel = w, .output_kernel = F(2, 3, 4)),
        "lk_nn_multi_head_attention", "input [3, 4]", "[n, steps, width]");
    BAD(LK_ESHAPE,
        lk_nn_multi_head_attention(q, k, .query_kernel = F(5, 2, 3), .key_kernel = w, .value_kernel = w,
                                   .output_kernel = F(2, 3, 4)),
        "lk_nn_multi_head_attention", "kernel [5, 2, 3]");
    BAD(LK_ESHAPE,
        lk_nn_multi_head_attention(q, k, .query_kernel = w, .key_kernel = w, .value_kernel = w, .output_kernel = F(6, 4)),
        "lk_nn_multi_head_attention", "output kernel is [6, 4]", "[2, 3, out]");
    END
}

TEST(losses)
{
    BEGIN
    lk_tensor *p = F(2, 3);
    BAD(LK_EINVAL, lk_nn_sparse_categorical_crossentropy(I(2)), "lk_nn_sparse_categorical_crossentropy", "predictions are missing");
    BAD(LK_EINVAL, lk_nn_mean_squared_error(.predictions = p), "lk_nn_mean_squared_error", "labels are missing");
    BAD(LK_EINVAL, lk_nn_huber(), "lk_nn_huber", "missing");
    BAD(LK_ESHAPE, lk_nn_sparse_categorical_crossentropy(I(3), p), "sparse_xent of [2, 3] f32, [3] i32", "labels should be [2]");
    BAD(LK_EDTYPE, lk_nn_sparse_categorical_crossentropy(lk_ones(LK_SHAPE(2), LK_BOOL), p), "sparse_xent", "[2] bool",
        "i32, i64 or u8");
    BAD(LK_EINVAL, lk_nn_sparse_categorical_crossentropy(lk_fill(LK_SHAPE(2), LK_I32, 3), p), "sparse_xent", "label",
        "number of classes");
    BAD(LK_EINVAL, lk_nn_sparse_categorical_crossentropy(lk_fill(LK_SHAPE(2), LK_I64, -1), p, .from_logits = LK_ON), "label");
    BAD(LK_EDTYPE, lk_nn_sparse_categorical_crossentropy(I(2), I(2, 3), .from_logits = LK_ON), "sparse_xent", "does not take i32");
    BAD(LK_ESHAPE, lk_nn_categorical_crossentropy(F(), F()), "lk_nn_categorical_crossentropy", "last axis");
    BAD(LK_ESHAPE, lk_nn_categorical_crossentropy(F(2, 4), p), "[2, 4] f32, [2, 3] f32");
    BAD(LK_ESHAPE, lk_nn_binary_crossentropy(F(2, 4), p), "[2, 4] f32");
    BAD(LK_ESHAPE, lk_nn_mean_squared_error(F(4, 3), p), "[2, 3] f32, [4, 3] f32");
    BAD(LK_ESHAPE, lk_nn_mean_absolute_error(F(), F()), "lk_nn_mean_absolute_error", "last axis");
    BAD(LK_ESHAPE, lk_nn_kl_divergence(F(2, 2), p), "[2, 2] f32");
    BAD(LK_ESHAPE, lk_nn_hinge(F(5), p), "[5] f32");
    BAD(LK_EINVAL, lk_nn_reduce_loss(NULL, NULL, LK_REDUCTION_SUM), "lk_nn_reduce_loss", "NULL");
    BAD(LK_EINVAL, lk_nn_reduce_loss(F(2), NULL, (lk_reduction)0), "lk_nn_reduce_loss", "no reduction 0");
    BAD(LK_EINVAL, lk_nn_reduce_loss(F(2), NULL, (lk_reduction)99), "lk_nn_reduce_loss", "no reduction 99");
    BAD(LK_ESHAPE, lk_nn_reduce_loss(F(2), F(3), LK_REDUCTION_SUM), "mul of [2] f32, [3] f32");
    BAD(LK_EINVAL, lk_compute_average_loss(), "lk_compute_average_loss", "missing");
    BAD(LK_ESHAPE, lk_compute_average_loss(F()), "lk_compute_average_loss", "one value per example");
    BAD(LK_EINVAL, lk_compute_average_loss(F(2), .global_batch_size = -1), "lk_compute_average_loss", "-1");
    BAD(LK_EINVAL, lk_nn_l1(NULL, 1), "lk_nn_l1", "NULL");
    BAD(LK_EINVAL, lk_nn_l2(NULL, 1), "lk_nn_l2", "NULL");
    END
}

/* ---- variables ---- */

TEST(variables)
{
    LK_POOL {
        lk_variable *v = lk_variable_of(F(2, 3), .name = "w"), *n = lk_variable_of(I(2));
        assert_null(lk_variable_of());
        assert_true(told(LK_EINVAL, "lk_variable_of", "initial"));
        assert_null(lk_variable_of(lk_matmul(F(2), F(2))));
        assert_true(told(LK_ESHAPE, "matmul"));
        assert_int_equal(lk_assign(v, F(3, 2)), LK_ESHAPE);
        assert_true(told(LK_ESHAPE, "assign of [3, 2] f32", "variable \"w\" is [2, 3]"));
        assert_int_equal(lk_assign_add(v, F(3)), LK_ESHAPE);
        assert_true(told(LK_ESHAPE, "assign_add of [3] f32"));
        assert_int_equal(lk_assign_sub(v, I(2, 3)), LK_EDTYPE);
        assert_true(told(LK_EDTYPE, "assign_sub of [2, 3] i32", "\"w\" is f32", "lk_cast"));
        assert_int_equal(lk_assign(v, NULL), LK_EINVAL);
        assert_true(told(LK_EINVAL, "lk_assign", "value is NULL"));
        assert_int_equal(lk_assign(NULL, F(2)), LK_EINVAL);
        assert_true(told(LK_EINVAL, "lk_assign", "variable is NULL"));
        assert_true(lk_poisoned(lk_read(NULL)));
        assert_true(told(LK_EINVAL, "lk_read", "NULL"));
        assert_int_equal(lk_assign(v, lk_exp(NULL)), LK_EINVAL);
        assert_true(told(LK_EINVAL, "exp"));
        lk_tensor *poison = lk_exp(NULL);
        lk_clear_error();
        assert_int_equal(lk_assign(v, poison), LK_EINVAL); /* not silently nothing, although the cause was cleared */
        assert_true(told(LK_EINVAL, "lk_assign", "poisoned"));
        assert_int_equal(lk_assign(n, lk_scalar(7)), LK_ESHAPE);
        assert_true(told(LK_ESHAPE, "assign of [] i32", "[2]"));
        assert_true(lk_item(lk_reduce_sum(lk_read(v))) == 6);
        assert_string_equal(lk_variable_name(NULL), "");
        assert_false(lk_variable_trainable(NULL));
        assert_false(lk_variable_trainable(n)); /* integers have no gradient */
        assert_int_equal(lk_variables_from(-1, NULL).count, 0);
        assert_true(told(LK_EINVAL, "lk_variables_from", "-1"));
        assert_int_equal(lk_variables_from(2, NULL).count, 0);
        assert_true(told(LK_EINVAL, "lk_variables_from", "NULL"));
    }
    assert_false(lk_failed());
}

/* ---- tapes ---- */

static void *end_elsewhere(void *tape)
{
    lk_status status = lk_tape_end(tape);
    bool      good = told(LK_ESTATE, "lk_tape_end", "thread") && status == LK_ESTATE;
    lk_tuple  d = lk_tape_gradient_of(tape, lk_scalar(1), LK_TUPLE(lk_scalar(1)), NULL);
    good = told(LK_ESTATE, "lk_tape_gradient", "thread") && lk_poisoned(d.item[0]) && good;
    return good ? tape : NULL;
}

TEST(tapes)
{
    LK_POOL {
        lk_variable *v = lk_variable_of(F(2));
        lk_tensor   *x = F(2);
        assert_int_equal(lk_tape_watch(NULL, x), LK_EINVAL);
        assert_true(told(LK_EINVAL, "lk_tape_watch", "tape is NULL"));
        assert_int_equal(lk_tape_end(NULL), LK_EINVAL);
        assert_true(told(LK_EINVAL, "lk_tape_end", "NULL"));
        assert_null(lk_tape_gradient(NULL, x, LK_VARIABLES(v)));
        assert_true(told(LK_EINVAL, "lk_tape_gradient", "tape is NULL"));

        lk_tape *tape = lk_tape_begin(.persistent = LK_ON);
        assert_int_equal(lk_tape_watch(tape, NULL), LK_EINVAL);
        assert_true(told(LK_EINVAL, "lk_tape_watch", "NULL"));
        assert_int_equal(lk_tape_watch(tape, I(2)), LK_EDTYPE);
        assert_true(told(LK_EDTYPE, "lk_tape_watch", "i32", "floats"));
        lk_tensor *y = lk_square(lk_read(v));
        assert_null(lk_tape_gradient(tape, lk_cast(y, LK_I32), LK_VARIABLES(v)));
        assert_true(told(LK_EDTYPE, "lk_tape_gradient", "target is i32"));
        assert_null(lk_tape_gradient(tape, NULL, LK_VARIABLES(v)));
        assert_true(told(LK_EINVAL, "lk_tape_gradient", "target is NULL"));
        lk_tape_watch(tape, x);
        y = lk_square(x);
        assert_true(lk_poisoned(lk_tape_gradient_of(tape, y, LK_TUPLE(x), F(3)).item[0]));
        assert_true(told(LK_ESHAPE, "lk_tape_gradient", "upstream is [3]", "target [2]"));
        assert_true(lk_poisoned(lk_tape_gradient_of(tape, y, LK_TUPLE(x), lk_ones(LK_SHAPE(2), LK_F64)).item[0]));
        assert_true(told(LK_EDTYPE, "lk_tape_gradient", "upstream is f64", "f32"));
        assert_true(lk_poisoned(lk_tape_gradient_of(tape, y, LK_TUPLE(NULL), NULL).item[0]));
        assert_true(told(LK_EINVAL, "lk_tape_gradient", "source", "NULL"));
        assert_null(lk_tape_gradient_of(tape, F(2), LK_TUPLE(x), NULL).item[0]); /* foreign to the tape: none, and no mistake */
        assert_int_equal(lk_tape_end(tape), LK_OK);
        assert_int_equal(lk_tape_end(tape), LK_OK);
        assert_non_null(lk_tape_gradient_of(tape, y, LK_TUPLE(x), NULL).item[0]);
    }
    if (lk_failed()) print_error("%s\n", lk_error());
    assert_false(lk_failed());
}

TEST(a_tape_that_is_not_persistent_gives_one_gradient)
{
    LK_POOL {
        lk_variable *v = lk_variable_of(F(2));
        lk_tape     *tape = lk_tape_begin();
        lk_tensor   *y = lk_square(lk_read(v));
        lk_tape_end(tape); /* it may be ended before */
        assert_non_null(lk_grads_item(lk_tape_gradient(tape, y, LK_VARIABLES(v)), 0));
        assert_null(lk_tape_gradient(tape, y, LK_VARIABLES(v)));
        assert_true(told(LK_ESTATE, "lk_tape_gradient", "persistent"));
        assert_true(lk_poisoned(lk_tape_gradient_of(tape, y, LK_TUPLE(y), NULL).item[0]));
        assert_true(told(LK_ESTATE, "lk_tape_gradient", "persistent"));
        assert_int_equal(lk_tape_end(tape), LK_OK);
    }
    assert_false(lk_failed());
}

TEST(a_tape_belongs_to_its_thread)
{
    LK_POOL {
        lk_variable *v = lk_variable_of(F(2));
        lk_tape     *tape = lk_tape_begin();
        pthread_t    other;
        void        *result = NULL;
        assert_int_equal(pthread_create(&other, NULL, end_elsewhere, tape), 0);
        pthread_join(other, &result);
        assert_non_null(result);
        assert_non_null(lk_grads_item(lk_tape_gradient(tape, lk_square(lk_read(v)), LK_VARIABLES(v)), 0));
    }
    assert_false(lk_failed());
}

/* ---- functions ---- */

static lk_tuple gives_null(lk_tuple in, void *user)
{
    (void)user;
    return LK_TUPLE(in.item[0], NULL);
}

static lk_tuple gives_nothing_good(lk_tuple in, void *user)
{
    (void)user;
    return LK_TUPLE(lk_matmul(in.item[0], in.item[0]));
}

static lk_tuple makes_variable(lk_tuple in, void *user)
{
    (void)user;
    lk_variable_of(in.item[0]);
    return in;
}

TEST(functions)
{
    LK_POOL {
        assert_null(lk_function_of());
        assert_true(told(LK_EINVAL, "lk_function_of", "missing"));
        assert_null(lk_function_of(gives_null, .max_traces = -1));
        assert_true(told(LK_EINVAL, "max_traces is -1"));
        assert_true(lk_poisoned(lk_call(NULL, LK_TUPLE()).item[0]));
        assert_true(told(LK_EINVAL, "lk_call", "NULL"));
        lk_function *f = lk_function_of(gives_null, .name = "mine");
        assert_true(lk_poisoned(lk_call(f, LK_TUPLE(NULL)).item[0]));
        assert_true(told(LK_EINVAL, "lk_call of mine", "input 0 is NULL"));
        assert_true(lk_poisoned(lk_call(f, LK_TUPLE(lk_exp(NULL))).item[0]));
        assert_true(told(LK_EINVAL, "exp"));
        assert_true(lk_poisoned(lk_call(f, LK_TUPLE(F(2))).item[0]));
        assert_true(told(LK_EINVAL, "result 1", "NULL"));
        f = lk_function_of(gives_nothing_good);
        assert_true(lk_poisoned(lk_call(f, LK_TUPLE(F(2))).item[0]));
        assert_true(told(LK_ESHAPE, "matmul of [2] f32, [2] f32"));
        assert_int_equal(lk_function_inspect(f).plans, 0);
        assert_int_equal(lk_size(lk_call(f, LK_TUPLE(F(2, 2))).item[0]), 4); /* another signature is fine */
        lk_call(lk_function_of(makes_variable), LK_TUPLE(F(2)));
        assert_true(told(LK_ESTATE, "no value yet"));
        assert_int_equal(lk_function_inspect(NULL).traces, 0);
    }
    assert_false(lk_failed());
}

/* ---- optimisers ---- */

TEST(optimizers)
{
    LK_POOL {
        lk_variable *v = lk_variable_of(F(2), .name = "v"), *w = lk_variable_of(F(2), .name = "w"),
                    *h = lk_variable_of(lk_ones(LK_SHAPE(2), LK_F16));
        lk_optimizer *o = lk_sgd();
        assert_int_equal(lk_optimizer_apply(o, NULL), LK_EINVAL);
        assert_true(told(LK_EINVAL, "gradients"));
        assert_int_equal(lk_optimizer_apply(NULL, NULL), LK_EINVAL);
        lk_clear_error();
        assert_int_equal(lk_optimizer_apply_gradients(o, LK_TUPLE(F(2)), LK_VARIABLES(v, w)), LK_EINVAL);
        assert_true(told(LK_EINVAL, "sgd", "1 gradients for 2 variables"));
        assert_int_equal(lk_optimizer_apply_gradients(o, LK_TUPLE(F(3)), LK_VARIABLES(v)), LK_ESHAPE);
        assert_true(told(LK_ESHAPE, "update_sgd of [3] f32", "\"v\" is [2]"));
        assert_int_equal(lk_optimizer_apply_gradients(o, LK_TUPLE(F(2)), LK_VARIABLES(w)), LK_EINVAL);
        assert_true(told(LK_EINVAL, "variable w", "first apply"));
        assert_int_equal(lk_optimizer_apply_gradients(o, LK_TUPLE(NULL), LK_VARIABLES(v)), LK_EINVAL);
        assert_true(told(LK_EINVAL, "no gradients"));
        lk_tensor *poison = lk_exp(NULL);
        lk_clear_error();
        assert_int_equal(lk_optimizer_apply_gradients(o, LK_TUPLE(poison), LK_VARIABLES(v)), LK_EINVAL);
        assert_true(told(LK_EINVAL, "poisoned"));
        assert_int_equal(lk_optimizer_build(lk_adam(), LK_VARIABLES(h)), LK_EDTYPE);
        assert_true(told(LK_EDTYPE, "adam", "f32 or f64"));
        assert_null(lk_adam(.clipnorm = 1, .clipvalue = 1));
        assert_true(told(LK_EINVAL, "at most one"));
        assert_int_equal(lk_optimizer_apply_gradients(o, LK_TUPLE(F(2)), LK_VARIABLES(v)), LK_OK);
    }
    assert_false(lk_failed());
}

TEST(options_that_do_not_apply)
{
    BEGIN
    lk_tensor *x = F(2, 4);
    BAD(LK_EINVAL, lk_softmax(x, .reverse = LK_ON), "lk_softmax", "lk_cumsum");
    BAD(LK_EINVAL, lk_argmax(x, .exclusive = LK_ON), "lk_argmax", "lk_cumsum");
    BAD(LK_EINVAL, lk_softmax(x, .axis = LK_NO_AXIS), "lk_softmax", "LK_NO_AXIS");
    BAD(LK_EINVAL, lk_reduce_sum(x, LK_AXES(1, -1)), "lk_reduce_sum", "twice");
    BAD(LK_EINVAL, lk_nn_layer_norm(x, .groups = 2), "lk_nn_layer_norm", "groups");
    BAD(LK_EINVAL, lk_nn_layer_norm(x, .training = LK_ON), "lk_nn_layer_norm", "training");
    BAD(LK_EINVAL, lk_nn_group_norm(x, .groups = 2, .momentum = LK_NUMBER(0.5)), "lk_nn_group_norm", "momentum");
    BAD(LK_EINVAL, lk_nn_layer_norm(x, .epsilon = LK_NUMBER(-1)), "epsilon", "-1");
    BAD(LK_EINVAL, lk_random_uniform(LK_SHAPE(2), .low = 2), "low 2", "high 1");
    BAD(LK_EDTYPE, lk_add(I(2), lk_scalar(0.5)), "0.5", "i32");
    assert_null(lk_cosine_decay(0.1, 10, .staircase = LK_ON));
    assert_true(told(LK_EINVAL, "cosine_decay", "staircase"));
    assert_null(lk_exponential_decay(0.1, 10, 0.5, .alpha = 0.3));
    assert_true(told(LK_EINVAL, "exponential_decay", "alpha"));
    assert_null(lk_lion(.epsilon = LK_NUMBER(0.1)));
    assert_true(told(LK_EINVAL, "lion", "epsilon"));
    END
}

TEST(settings)
{
    assert_int_equal(lk_set_lanes(3), LK_EINVAL);
    assert_true(told(LK_EINVAL, "lk_set_lanes(3)", "power of two"));
    assert_int_equal(lk_set_threads(-1), LK_EINVAL);
    assert_true(told(LK_EINVAL, "lk_set_threads(-1)", "0"));
}

/* ---- many at once ---- */

TEST(the_first_cause_stays)
{
    LK_POOL {
        lk_tensor *bad = lk_matmul(F(2, 3), F(2, 3));
        lk_exp(NULL);
        lk_add(bad, I(2));
        lk_variable_of(bad);
        lk_nn_lstm(bad, bad, bad);
        lk_call(lk_function_of(gives_null), LK_TUPLE(bad));
        assert_true(told(LK_ESHAPE, "matmul of [2, 3] f32, [2, 3] f32"));
        assert_true(lk_poisoned(lk_exp(bad))); /* the cause was cleared: that there was one is still told */
        assert_true(told(LK_EINVAL, "exp", "poisoned"));
    }
}

TESTS(cmocka_unit_test(norms), cmocka_unit_test(recurrent_layers), cmocka_unit_test(attention), cmocka_unit_test(losses),
      cmocka_unit_test(variables), cmocka_unit_test(tapes), cmocka_unit_test(a_tape_that_is_not_persistent_gives_one_gradient),
      cmocka_unit_test(a_tape_belongs_to_its_thread), cmocka_unit_test(functions), cmocka_unit_test(optimizers),
      cmocka_unit_test(options_that_do_not_apply), cmocka_unit_test(settings), cmocka_unit_test(the_first_cause_stays))
