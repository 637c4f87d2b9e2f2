/* LSTM, GRU and SimpleRNN: against Keras, dropout, first values, names, and errors. */
#define CASES_FILE "layer/recurrent_cases.inc"
#include "layer/cases.h"
#include "layer/split.h"

TEST(as_in_keras) { EACH_CASE(as_keras(c, LK_OFF, true)); }
TEST(compiled_to_the_same_bits) { EACH_CASE(compiled_alike(c, LK_OFF)); }

/* ---- gradients of what the cases leave out ---- */

enum { LSTM, GRU, GRU_BEFORE, SIMPLE };

static lk_tuple run_with_everything(lk_tuple in, void *user)
{
    const int            which = *(const int *)user;
    lk_rnn_args          a = {.x = in.item[0],
                              .kernel = in.item[1],
                              .recurrent = in.item[2],
                              .bias = in.item[3],
                              .initial_h = in.item[4],
                              .go_backwards = LK_ON,
                              .return_sequences = LK_ON,
                              .activation = LK_SOFTSIGN,
                              .dropout = 0.4,
                              .recurrent_dropout = 0.4,
                              .stream = "dropped"};
    static const uint8_t live[] = {1, 1, 0, 1, 0, 1};
    a.mask = lk_tensor_from(LK_SHAPE(2, 3), LK_BOOL, live);
    if (which != SIMPLE) a.recurrent_activation = LK_TANH;
    if (which == GRU_BEFORE) a.reset_after = LK_OFF;
    return LK_TUPLE(which == LSTM ? lk_nn_lstm_kw(a) : which == SIMPLE ? lk_nn_simple_rnn_kw(a) : lk_nn_gru_kw(a));
}

static lk_tensor *doubles(lk_shape shape, const char *stream) { return lk_cast(lk_random_normal(shape, .stream = stream), LK_F64); }

TEST(gradients_by_differences)
{
    static const int gates[] = {[LSTM] = 4, [GRU] = 3, [GRU_BEFORE] = 3, [SIMPLE] = 1};
    for (int which = LSTM; which <= SIMPLE; which++)
        LK_POOL {
            const int         width = 2 * gates[which];
            lk_gradient_check found;
            lk_tensor        *kernel = doubles(LK_SHAPE(3, width), "kernel"), *again = doubles(LK_SHAPE(2, width), "again");
            lk_tensor        *bias = doubles(which == GRU ? LK_SHAPE(2, width) : LK_SHAPE(width), "bias");
            lk_tuple          in = LK_TUPLE(doubles(LK_SHAPE(2, 3, 3), "x"), kernel, again, bias, doubles(LK_SHAPE(2, 2), "h"));
            lk_status         status = lk_check_gradient(run_with_everything, in, (void *)&which, 0, 1e-5, &found);
            if (status != LK_OK)
                fail_msg("%d: input %d is off by %g: %s", which, found.input, found.largest_difference, lk_error());
        }
}

/* ---- what is dropped ---- */

static lk_layer *identity_layer(double dropout, double recurrent_dropout, lk_initializer *again)
{
    return lk_simple_rnn(8, .activation = LK_LINEAR, .use_bias = LK_OFF, .return_sequences = LK_ON, .dropout = dropout,
                         .recurrent_dropout = recurrent_dropout, .kernel_initializer = lk_init_identity(),
                         .recurrent_initializer = again);
}

TEST(inputs_are_dropped_alike_at_all_steps)
{
    lk_layer    *l = identity_layer(0.5, 0, lk_init_zeros());
    lk_tensor   *x = lk_ones(LK_SHAPE(4, 3, 8), LK_F32);
    lk_tensor   *first = lk_layer_call(l, x, LK_ON), *second = lk_layer_call(l, x, LK_ON);
    const float *y = lk_data(first);
    int          kept = 0, differ = 0;
    for (int row = 0; row < 4; row++)
        for (int i = 0; i < 8; i++) {
            const float *step = y + row * 24 + i;
            assert_true((step[0] == 0 || step[0] == 2) && step[8] == step[0] && step[16] == step[0]);
            kept += step[0] != 0;
            differ += step[0] != y[i];
        }
    assert_true(kept > 4 && kept < 28 && differ > 0); /* rows differ */
    assert_false(same_bits(first, second));           /* so do calls */
    assert_true(same_bits(lk_layer_call(l, x), x));   /* not in training: nothing is dropped */
    FINE();
}

TEST(the_state_is_dropped_alike_at_all_steps)
{
    lk_layer    *l = identity_layer(0, 0.5, lk_init_identity());
    lk_tensor   *x = lk_concat(LK_TUPLE(lk_ones(LK_SHAPE(4, 1, 8), LK_F32), lk_zeros(LK_SHAPE(4, 2, 8), LK_F32)), 1);
    const float *y = lk_data(lk_layer_call(l, x, LK_ON));
    int          kept = 0;
    for (int i = 0; i < 32; i++) {
        const float *step = y + i / 8 * 24 + i % 8;
        assert_true(step[0] == 1 && (step[8] == 0 || step[8] == 2) && step[16] == step[8] * step[8]);
        kept += step[8] != 0;
    }
    assert_true(kept > 4 && kept < 28);
    FINE();
}

static lk_tensor *mask(lk_layer *l, int64_t width, int call)
{
    return lk_nn_dropout(lk_ones(LK_SHAPE(2, width), LK_F32), 0.5, .stream = lki_layer_stream(l),
                         .iteration = lk_fill(LK_SHAPE(), LK_I64, 0), .call = call);
}

static lk_tensor *gate_columns(lk_tensor *t, int gate) { return lk_slice(t, LK_AXES(0, 3 * gate), LK_AXES(-1, 3)); }

/* One step of an LSTM by hand, each gate with masks of its own. */
TEST(gates_drop_by_themselves)
{
    lk_layer  *l = lk_lstm(3, .dropout = 0.5, .recurrent_dropout = 0.5, .use_bias = LK_OFF, .seed = LK_NUMBER(7));
    lk_tensor *x = input_of(LK_SHAPE(2, 2, 4), 0), *y = lk_layer_call(l, x, LK_ON), *h = lk_zeros(LK_SHAPE(2, 3), LK_F32), *c = h;
    lk_tensor *kernel = lk_layer_weight(l, "kernel"), *again = lk_layer_weight(l, "recurrent_kernel");
    assert_string_equal(lki_layer_stream(l), "seed/7");
    for (int t = 0; t < 2; t++) {
        lk_tensor *z[4], *step = lk_unstack(x, 1).item[t];
        for (int g = 0; g < 4; g++)
            z[g] = lk_add(lk_matmul(lk_mul(step, mask(l, 4, g)), gate_columns(kernel, g)),
                          lk_matmul(lk_mul(h, mask(l, 3, 4 + g)), gate_columns(again, g)));
        c = lk_add(lk_mul(lk_sigmoid(z[1]), c), lk_mul(lk_sigmoid(z[0]), lk_tanh(z[2])));
        h = lk_mul(lk_sigmoid(z[3]), lk_tanh(c));
    }
    const float *want = lk_data(h);
    CLOSE(y, want[0], want[1], want[2], want[3], want[4], want[5]);
    FINE();
}

/* ---- first values, names, places ---- */

TEST(an_lstm_remembers_at_first)
{
    lk_tensor *x = lk_zeros(LK_SHAPE(1, 1, 1), LK_F32);
    lk_layer  *plain = lk_lstm(2), *half = lk_lstm(2, .bias_initializer = lk_init_constant(0.5)),
             *off = lk_lstm(2, .unit_forget_bias = LK_OFF);
    lk_layer_call(plain, x);
    lk_layer_call(half, x);
    lk_layer_call(off, x);
    CLOSE(lk_layer_weight(plain, "bias"), 0, 0, 1, 1, 0, 0, 0, 0);
    CLOSE(lk_layer_weight(half, "bias"), 0.5, 0.5, 1, 1, 0.5, 0.5, 0.5, 0.5);
    CLOSE(lk_layer_weight(off, "bias"), 0, 0, 0, 0, 0, 0, 0, 0);
    lk_layer *drawn = lk_lstm(2, .bias_initializer = lk_init_random_normal());
    lk_layer_call(drawn, x);
    const float *b = lk_data(lk_layer_weight(drawn, "bias"));
    assert_true(b[2] == 1 && b[3] == 1 && b[0] != b[4]);
    lk_tensor *r = lk_layer_weight(plain, "recurrent_kernel"); /* orthogonal */
    CLOSE(lk_matmul(r, r, .transpose_b = LK_ON), 1, 0, 0, 1);
    FINE();
}

TEST(weights_as_keras_has_them)
{
    lk_layer *l = lk_gru(3, .name = "memory"), *before = lk_gru(3, .reset_after = LK_OFF);
    lk_layer_call(l, lk_zeros(LK_SHAPE(1, 2, 5), LK_F32));
    lk_layer_call(before, lk_zeros(LK_SHAPE(1, 2, 5), LK_F32));
    static const char *const names[] = {"memory/kernel", "memory/recurrent_kernel", "memory/bias"};
    static const char *const places[] = {"cell/vars/0", "cell/vars/1", "cell/vars/2"};
    const lk_shape           shapes[] = {LK_SHAPE(5, 9), LK_SHAPE(3, 9), LK_SHAPE(2, 9)};
    lk_variables             w = lk_layer_variables(l);
    assert_int_equal(w.count, 3);
    for (int i = 0; i < 3; i++) {
        assert_string_equal(lk_variable_name(w.item[i]), names[i]);
        assert_string_equal(l->weight[i].place, places[i]);
        assert_true(is_shape(lk_variable_shape(w.item[i]), shapes[i]));
    }
    assert_true(is_shape(lk_variable_shape(lk_layer_variables(before).item[2]), LK_SHAPE(9)));
    FINE();
}

TEST(only_those_that_drop_draw)
{
    assert_false(lki_layer_draws(lk_lstm(2)));
    assert_true(lki_layer_draws(lk_gru(2, .dropout = 0.1)));
    assert_true(lki_layer_draws(lk_simple_rnn(2, .recurrent_dropout = 0.1)));
}

TEST(shapes_of_rows)
{
    lk_shape out;
    assert_int_equal(row_after(lk_lstm(4), (lk_shape){2, {-1, 3}}, &out), LK_OK); /* any number of steps */
    assert_true(is_shape(out, LK_SHAPE(4)));
    assert_int_equal(row_after(lk_lstm(4, .return_sequences = LK_ON), (lk_shape){2, {-1, 3}}, &out), LK_OK);
    assert_true(out.rank == 2 && out.dim[0] == -1 && out.dim[1] == 4);
    BECOMES(lk_gru(4, .return_sequences = LK_ON), LK_SHAPE(7, 3), 7, 4);
}

/* ---- any split ---- */

static lk_model *dropping_model(void)
{
    return lk_sequential(lk_lstm(5, .return_sequences = LK_ON, .dropout = 0.25, .kernel_regularizer = lk_l2(0.01)),
                         lk_gru(4, .return_sequences = LK_ON, .recurrent_dropout = 0.25),
                         lk_simple_rnn(3, .dropout = 0.1, .recurrent_dropout = 0.1));
}

TEST(same_bits_on_any_split)
{
    LK_POOL {
        same_on_any_split(dropping_model, input_of(LK_SHAPE(13, 3, 2), 0));
    }
}

/* ---- refusals ---- */

TEST(refusals)
{
    lk_shape out;
    REFUSED(LK_EINVAL, !lk_lstm(0), "lk_lstm", "units is 0", "at least 1");
    REFUSED(LK_EINVAL, !lk_gru(-2), "lk_gru", "units is -2");
    REFUSED(LK_EINVAL, !lk_simple_rnn(2, .dropout = 1), "lk_simple_rnn", "dropout is 1", "below 1");
    REFUSED(LK_EINVAL, !lk_lstm(2, .recurrent_dropout = -0.1), "recurrent_dropout is -0.1");
    REFUSED(LK_EINVAL, !lk_lstm(2, .activation = (lk_activation)99), "lk_lstm", "no activation 99");
    REFUSED(LK_EINVAL, !lk_lstm(2, .reset_after = LK_ON), "lk_lstm", "reset_after is for lk_gru");
    REFUSED(LK_EINVAL, !lk_gru(2, .unit_forget_bias = LK_OFF), "lk_gru", "unit_forget_bias is for lk_lstm");
    REFUSED(LK_EINVAL, !lk_simple_rnn(2, .recurrent_activation = LK_TANH), "recurrent_activation is for lk_lstm and lk_gru");
    REFUSED(LK_ESHAPE, row_after(lk_lstm(2), LK_SHAPE(3), &out) != LK_OK, "layer \"lstm\"", "[3]", "[steps, features]");
    REFUSED(LK_ESHAPE, row_after(lk_lstm(2), LK_SHAPE(0, 3), &out) != LK_OK, "at least one step");
    REFUSED(LK_ESHAPE, row_after(lk_gru(2), (lk_shape){2, {4, -1}}, &out) != LK_OK, "features need a fixed number");
    lk_layer *l = lk_lstm(2);
    lk_layer_call(l, lk_zeros(LK_SHAPE(1, 2, 3), LK_F32));
    REFUSED_TENSOR(LK_ESHAPE, lk_layer_call(l, lk_zeros(LK_SHAPE(1, 2, 4), LK_F32)), "3 features", "when its kernel was made");
    lk_tensor *x = lk_zeros(LK_SHAPE(1, 2, 3), LK_F32), *k = lk_zeros(LK_SHAPE(3, 2), LK_F32),
              *r = lk_zeros(LK_SHAPE(2, 2), LK_F32);
    REFUSED_TENSOR(LK_EINVAL, lk_nn_simple_rnn(x, k, r, .recurrent_activation = LK_RELU), "lk_nn_simple_rnn",
                   "lk_nn_lstm and lk_nn_gru");
    REFUSED_TENSOR(LK_EINVAL, lk_nn_simple_rnn(x, k, r, .dropout = 2), "lk_nn_simple_rnn", "dropout is 2");
}

TESTS(cmocka_unit_test(as_in_keras), cmocka_unit_test(compiled_to_the_same_bits), cmocka_unit_test(gradients_by_differences),
      cmocka_unit_test(inputs_are_dropped_alike_at_all_steps), cmocka_unit_test(the_state_is_dropped_alike_at_all_steps),
      cmocka_unit_test(gates_drop_by_themselves), cmocka_unit_test(an_lstm_remembers_at_first),
      cmocka_unit_test(weights_as_keras_has_them), cmocka_unit_test(only_those_that_drop_draw), cmocka_unit_test(shapes_of_rows),
      cmocka_unit_test(same_bits_on_any_split), cmocka_unit_test(refusals))
