/* Bidirectional and TimeDistributed: against Keras, names and places of inner layers, random numbers, and errors. */
#define CASES_FILE "layer/wrappers_cases.inc"
#include "layer/cases.h"
#include "layer/split.h"

TEST(as_in_keras) { EACH_CASE(as_keras(c, LK_OFF, true)); }
TEST(compiled_to_the_same_bits) { EACH_CASE(compiled_alike(c, LK_OFF)); }

/* ---- Bidirectional ---- */

typedef struct both_args { /* as bidirectional.c has them */
    lk_bidirectional_args ask;
    lk_layer             *backward_layer;
} both_args;

static lk_layer *both(lk_layer *forward, lk_layer *backward, lk_merge_mode mode)
{
    return lki_bidirectional_kind.class.make(&(both_args){{.layer = forward, .merge_mode = mode}, backward});
}

static void check_inner(const lk_layer *l, int i, const char *name, const char *place)
{
    assert_string_equal(lk_layer_name(l->inner[i]), name);
    assert_string_equal(l->kind->inner_place[i], place);
}

TEST(names_of_both_ways)
{
    LK_POOL {
        lk_layer *plain = lk_bidirectional(lk_lstm(2)), *named = lk_bidirectional(lk_gru(2, .name = "memory"), .name = "both"),
                 *read = both(lk_gru(2, .name = "forward_gru"), lk_gru(2, .name = "backward_gru", .go_backwards = LK_ON),
                              LK_MERGE_CONCAT);
        check_inner(plain, 0, "forward_lstm", "forward_layer");
        check_inner(plain, 1, "backward_lstm", "backward_layer");
        check_inner(named, 0, "forward_memory", "forward_layer");
        check_inner(named, 1, "backward_memory", "backward_layer");
        check_inner(read, 0, "forward_gru", "forward_layer");
        check_inner(read, 1, "backward_gru", "backward_layer");
        lk_model *m = lk_sequential_named("m", plain, lk_reshape_layer(LK_SHAPE(1, 4)), named);
        lk_model_build(m, LK_SHAPE(3, 2));
        assert_string_equal(plain->inner[1]->path, "m/bidirectional/backward_lstm");
        lk_variables w = lk_model_weights(m);
        assert_int_equal(w.count, 12);
        assert_string_equal(lk_variable_name(w.item[0]), "forward_lstm/kernel");
        assert_string_equal(lk_variable_name(w.item[5]), "backward_lstm/bias");
        assert_string_equal(plain->inner[0]->weight[2].place, "cell/vars/2");
        assert_false(same_bits(lk_read(w.item[0]), lk_read(w.item[3]))); /* first values of their own */
        FINE();
    }
}

TEST(the_second_runs_the_other_way)
{
    LK_POOL {
        lk_layer  *back = lk_lstm(2, .go_backwards = LK_ON), *l = lk_bidirectional(lk_lstm(2, .go_backwards = LK_ON));
        lk_tensor *x = input_of(LK_SHAPE(2, 4, 3), 0), *y = lk_layer_call(l, x);
        lk_layer_call(back, x);
        for (int i = 0; i < 3; i++)
            lk_assign(lk_layer_variables(back).item[i], lk_read(lk_layer_variables(l).item[i]));
        lk_tensor *half = lk_slice(y, LK_AXES(0, 0), LK_AXES(-1, 2));
        assert_true(same_bits(half, lk_layer_call(back, x)));
        FINE();
    }
}

/* A file may have another layer for the way back. */
TEST(another_layer_for_the_way_back)
{
    LK_POOL {
        lk_layer *l = both(lk_gru(2), lk_gru(3, .go_backwards = LK_ON, .activation = LK_RELU), LK_MERGE_CONCAT);
        BECOMES(l, LK_SHAPE(4, 1), 5);
        REFUSED(LK_EINVAL, !both(lk_gru(2), lk_gru(3, .go_backwards = LK_ON), LK_MERGE_SUM), "lk_bidirectional", "differ in units");
        REFUSED(LK_EINVAL, !both(lk_gru(2), lk_gru(2), LK_MERGE_SUM), "run the same way");
        REFUSED(LK_EINVAL, !both(lk_gru(2), lk_gru(2, .go_backwards = LK_ON, .return_sequences = LK_ON), LK_MERGE_SUM),
                "differ in return_sequences");
        REFUSED(LK_EINVAL, !both(lk_gru(2), lk_dense(2), LK_MERGE_SUM), "backward_layer is dense",
                "lk_lstm, lk_gru or lk_simple_rnn");
    }
}

/* ---- TimeDistributed ---- */

TEST(steps_are_dropped_apart)
{
    LK_POOL {
        lk_layer    *l = lk_time_distributed(lk_dropout(0.5));
        lk_tensor   *x = lk_ones(LK_SHAPE(2, 3, 16), LK_F32), *y = lk_layer_call(l, x, LK_ON);
        const float *v = lk_data(y);
        assert_true(lki_layer_draws(l));
        assert_true(memcmp(v, v + 16, 64) && memcmp(v, v + 32, 64) && memcmp(v, v + 48, 64));
        assert_true(same_bits(lk_layer_call(l, x), x));
        FINE();
    }
}

TEST(ids_of_each_step)
{
    LK_POOL {
        static const int32_t id[] = {0, 1, 2, 0};
        lk_layer            *l = lk_time_distributed(lk_embedding(3, 2, .embeddings_initializer = lk_init_ones()));
        lk_tensor           *y = lk_layer_call(l, lk_tensor_from(LK_SHAPE(1, 2, 2), LK_I32, id));
        assert_true(is_shape(lk_tensor_shape(y), LK_SHAPE(1, 2, 2, 2)));
        CLOSE(y, 1, 1, 1, 1, 1, 1, 1, 1);
        FINE();
    }
}

TEST(names_of_each_step)
{
    LK_POOL {
        lk_layer *l = lk_time_distributed(lk_dense(2));
        lk_model *m = lk_sequential_named("m", l);
        lk_model_build(m, LK_SHAPE(3, 4));
        check_inner(l, 0, "dense", "layer");
        assert_string_equal(l->inner[0]->path, "m/time_distributed/dense");
        assert_int_equal(lk_model_count_params(m), 10);
        FINE();
    }
}

/* ---- both ---- */

/* What is inside may add to the loss, all but the activity of the steps, as in Keras; and it is trained or not with what is
 * around. */
TEST(what_is_inside_counts)
{
    LK_POOL {
        lk_model *m = lk_sequential(lk_time_distributed(
            lk_dense(1, .activity_regularizer = lk_l1(1), .kernel_regularizer = lk_l2(1), .kernel_initializer = lk_init_ones())));
        lk_model_call(m, lk_tensor_of(LK_SHAPE(2, 2, 1), 1, 2, 3, 4));
        lk_tuple added = lk_model_losses(m);
        assert_int_equal(added.count, 1);
        assert_true(near(added.item[0], 1));
        lk_layer *still = lk_bidirectional(lk_lstm(2), .trainable = LK_OFF);
        lk_layer_call(still, lk_zeros(LK_SHAPE(1, 2, 3), LK_F32));
        for (int i = 0; i < 6; i++)
            assert_false(lk_variable_trainable(lk_layer_variables(still).item[i]));
        FINE();
    }
}

static lk_model *wrapped_model(void)
{
    return lk_sequential(lk_time_distributed(lk_dense(4, .activation = LK_TANH)), lk_time_distributed(lk_dropout(0.25)),
                         lk_bidirectional(lk_lstm(3, .return_sequences = LK_ON, .dropout = 0.2)),
                         lk_time_distributed(lk_batch_normalization()), lk_bidirectional(lk_gru(2), LK_MERGE_AVE));
}

TEST(same_bits_on_any_split)
{
    LK_POOL {
        same_on_any_split(wrapped_model, input_of(LK_SHAPE(13, 3, 2), 0));
        same_on_any_split(wrapped_model, input_of(LK_SHAPE(2, 3, 2), 0)); /* replicas without rows */
    }
}

TEST(refusals)
{
    LK_POOL {
        lk_shape  out;
        lk_layer *used = lk_lstm(2), *inside = lk_dense(2);
        REFUSED(LK_EINVAL, !lk_bidirectional(NULL), "lk_bidirectional", "the layer is NULL");
        REFUSED(LK_EINVAL, !lk_bidirectional(lk_dense(2, .name = "d")), "dense \"d\"", "lk_lstm, lk_gru or lk_simple_rnn");
        REFUSED(LK_EINVAL, !lk_bidirectional(lk_lstm(2), (lk_merge_mode)7), "no merge_mode 7");
        REFUSED(LK_EINVAL, !lk_bidirectional((lk_layer *)lk_l1(1)), "not a layer");
        REFUSED(LK_EINVAL, !lk_time_distributed(NULL), "lk_time_distributed", "the layer is NULL");
        assert_non_null(lk_bidirectional(used));
        REFUSED(LK_EINVAL, !lk_bidirectional(used), "\"forward_lstm\" is in a model or another layer already");
        lk_layer *l = lk_time_distributed(inside);
        REFUSED(LK_EINVAL, !lk_sequential(inside), "\"dense\", is in a model already");
        REFUSED(LK_ESHAPE, row_after(l, LK_SHAPE(3), &out) != LK_OK, "layer \"time_distributed\"", "[steps, ...]");
        REFUSED(LK_EINVAL, row_after(lk_time_distributed(lk_add_layer()), LK_SHAPE(3, 2), &out) != LK_OK, "1 input");
        REFUSED(LK_ESHAPE, row_after(lk_bidirectional(lk_lstm(2)), LK_SHAPE(3), &out) != LK_OK, "forward_lstm",
                "[steps, features]");
    }
}

/* ---- memory ---- */

static int make_and_call(void)
{
    int ok = 0;
    LK_POOL {
        lk_model *m = lk_sequential(lk_embedding(3, 2), lk_bidirectional(lk_lstm(2, .return_sequences = LK_ON, .dropout = 0.5)),
                                    lk_time_distributed(lk_dense(2)), lk_bidirectional(lk_gru(2), LK_MERGE_SUM));
        ok = m && !lk_poisoned(lk_model_call(m, lk_zeros(LK_SHAPE(1, 2), LK_I32), .training = LK_ON));
    }
    return ok;
}

TEST(every_allocation_may_fail)
{
    make_and_call(); /* what is made once in a process */
    assert_true(check_every_allocation(make_and_call) > 10);
}

/* A layer that left a model is still inside the one around it. */
TEST(inside_stays_inside)
{
    LK_POOL {
        lk_layer *inside = lk_dense(2), *l = lk_time_distributed(inside);
        lk_model *m = lk_sequential(l);
        lk_free(m);
        REFUSED(LK_EINVAL, !lk_sequential(inside), "is in a model already");
        assert_non_null(lk_sequential(l));
        FINE();
    }
}

TESTS(cmocka_unit_test(as_in_keras), cmocka_unit_test(compiled_to_the_same_bits), cmocka_unit_test(names_of_both_ways),
      cmocka_unit_test(the_second_runs_the_other_way), cmocka_unit_test(another_layer_for_the_way_back),
      cmocka_unit_test(steps_are_dropped_apart), cmocka_unit_test(ids_of_each_step), cmocka_unit_test(names_of_each_step),
      cmocka_unit_test(what_is_inside_counts), cmocka_unit_test(same_bits_on_any_split), cmocka_unit_test(refusals),
      cmocka_unit_test(inside_stays_inside), cmocka_unit_test(every_allocation_may_fail))
