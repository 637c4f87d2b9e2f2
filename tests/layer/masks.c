/* Masks: what layers, losses and metrics make of rows that are padded must be what they make of the rows without padding. */
#include "layer/replicas.h"
#include <lockstep/fit.h>

enum { ROWS = 2, STEPS = 5, REAL = 3, WIDE = 4 };

/* The last STEPS - REAL steps are padding. */
static lk_tensor *padded(int k)
{
    lk_tensor *x = input_of(LK_SHAPE(ROWS, STEPS, WIDE), k);
    lk_tensor *real = lk_slice(x, LK_AXES(0, 0, 0), LK_AXES(-1, REAL, -1));
    return lk_concat(LK_TUPLE(real, lk_fill(LK_SHAPE(ROWS, STEPS - REAL, WIDE), LK_F32, 9)), 1);
}

static lk_tensor *first_steps(lk_tensor *x, int64_t count) { return lk_slice(x, LK_AXES(0, 0, 0), LK_AXES(-1, count, -1)); }

static lk_tensor *masked(lk_tensor *x) { return lk_layer_call(lk_masking(.mask_value = 9), x); }

#define SAME(a, b) assert_true(same_bits(a, b))

static void alike(lk_tensor *a, lk_tensor *b, double bound)
{
    assert_false(lk_failed());
    assert_int_equal(lk_size(a), lk_size(b));
    for (int64_t i = 0; i < lk_size(a); i++)
        assert_true(fabs((double)((const float *)lk_data(a))[i] - (double)((const float *)lk_data(b))[i]) <= bound);
}

/* ---- where masks come from ---- */

TEST(masking_and_embedding_make_them)
{
    LK_POOL {
        lk_tensor *y = masked(padded(0));
        assert_non_null(y->mask);
        for (int i = 0; i < ROWS * STEPS; i++)
            assert_int_equal(((const uint8_t *)lk_data(y->mask))[i], i % STEPS < REAL);
        CLOSE(lk_slice(y, LK_AXES(1, REAL, 0), LK_AXES(1, 1, -1)), 0, 0, 0, 0);
        static const int32_t id[] = {3, 0, 1, 0};
        lk_tensor           *ids = lk_tensor_from(LK_SHAPE(1, 4), LK_I32, id);
        lk_tensor           *e = lk_layer_call(lk_embedding(5, 2, .mask_zero = true), ids);
        for (int i = 0; i < 4; i++)
            assert_int_equal(((const uint8_t *)lk_data(e->mask))[i], id[i] != 0);
        assert_null(lk_layer_call(lk_embedding(5, 2), ids)->mask);
    }
}

/* ---- recurrent layers ---- */

static lk_layer *lstm(bool sequences) { return lk_lstm(3, .return_sequences = sequences, .return_state = true); }
static lk_layer *gru(bool sequences) { return lk_gru(3, .return_sequences = sequences, .return_state = true); }
static lk_layer *before(bool sequences)
{
    return lk_gru(3, .reset_after = false, .return_sequences = sequences, .return_state = true);
}
static lk_layer *simple(bool sequences) { return lk_simple_rnn(3, .return_sequences = sequences, .return_state = true); }
static lk_layer *(*const RECURRENT[])(bool) = {lstm, gru, before, simple};

TEST(padding_changes_no_state)
{
    for (int k = 0; k < LKI_COUNT(RECURRENT); k++)
        LK_POOL {
            lk_layer      *l = RECURRENT[k](false);
            const lk_tuple a = lk_nested(lk_layer_call(l, masked(padded(k)))),
                           b = lk_nested(lk_layer_call(l, first_steps(padded(k), REAL)));
            assert_int_equal(a.count, k ? 2 : 3);
            for (int i = 0; i < a.count; i++)
                SAME(a.item[i], b.item[i]);
            SAME(a.item[0], a.item[1]);
            l = RECURRENT[k](true);
            const lk_tuple all = lk_nested(lk_layer_call(l, masked(padded(k))));
            lk_tensor     *steps = all.item[0];
            assert_non_null(steps->mask);
            SAME(lk_slice(steps, LK_AXES(0, REAL - 1, 0), LK_AXES(-1, 1, -1)),
                 lk_slice(steps, LK_AXES(0, STEPS - 1, 0), LK_AXES(-1, 1, -1)));
        }
}

/* One half of the steps, then the other from the state of the first. */
TEST(a_state_goes_on)
{
    for (int k = 0; k < LKI_COUNT(RECURRENT); k++)
        LK_POOL {
            lk_tensor     *x = input_of(LK_SHAPE(ROWS, 4, WIDE), k), *back = lk_slice(x, LK_AXES(0, 2, 0), LK_AXES(-1, 2, -1));
            lk_layer      *l = RECURRENT[k](false);
            const lk_tuple whole = lk_nested(lk_layer_call(l, x)), half = lk_nested(lk_layer_call(l, first_steps(x, 2)));
            lk_tensor     *in[4] = {back, NULL, half.item[1], k ? NULL : half.item[2]};
            const lki_pass pass = {0};
            const lk_tuple rest = lk_nested(lki_layer_run(l, (lk_tuple){k ? 3 : 4, in}, &pass));
            for (int i = 0; i < whole.count; i++)
                SAME(whole.item[i], rest.item[i]);
        }
}

TEST(both_directions)
{
    LK_POOL {
        lk_layer      *b = lk_bidirectional(lk_gru(3, .return_sequences = true, .return_state = true), LK_MERGE_NONE);
        const lk_tuple y = lk_nested(lk_layer_call(b, masked(padded(0))));
        assert_int_equal(y.count, 4);
        assert_non_null(y.item[0]->mask);
        assert_non_null(y.item[1]->mask);
        assert_null(y.item[2]->mask);
        const lk_tuple shorter = lk_nested(lk_layer_call(b, first_steps(padded(0), REAL)));
        for (int i = 0; i < 2; i++) {
            SAME(first_steps(y.item[i], REAL), shorter.item[i]);
            alike(lk_slice(y.item[i], LK_AXES(0, REAL, 0), LK_AXES(-1, -1, -1)), lk_zeros(LK_SHAPE(ROWS, STEPS - REAL, 3), LK_F32),
                  0);
        }
        SAME(y.item[2], shorter.item[2]);
        SAME(y.item[3], shorter.item[3]);
    }
}

/* ---- cells ---- */

static void take_weights(lk_layer *to, const lk_layer *from)
{
    for (int i = 0; i < lki_layer_weights(to); i++)
        lk_assign(lki_layer_weight_at(to, i)->variable, lk_read(lki_layer_weight_at((lk_layer *)from, i)->variable));
}

TEST(a_cell_over_steps_is_its_layer)
{
    LK_POOL {
        lk_layer *layer[] = {lk_lstm(3, .return_sequences = true, .return_state = true, .go_backwards = true),
                             lk_gru(3, .return_sequences = true, .return_state = true, .go_backwards = true),
                             lk_simple_rnn(3, .return_sequences = true, .return_state = true, .go_backwards = true)};
        lk_layer *cell[] = {lk_lstm_cell(3), lk_gru_cell(3), lk_simple_rnn_cell(3)};
        for (int i = 0; i < 3; i++) {
            lk_layer *rnn = lk_rnn_layer(cell[i], .return_sequences = true, .return_state = true, .go_backwards = true);
            lk_layer_call(rnn, masked(padded(0)));
            const lk_tuple a = lk_nested(lk_layer_call(layer[i], masked(padded(0))));
            take_weights(rnn, layer[i]);
            const lk_tuple b = lk_nested(lk_layer_call(rnn, masked(padded(0))));
            assert_int_equal(a.count, b.count);
            for (int k = 0; k < a.count; k++)
                SAME(a.item[k], b.item[k]);
        }
    }
}

/* Stacked cells, one step after the other with their states, are the layer over them. */
TEST(stacked_cells_step_by_step)
{
    LK_POOL {
        lk_layer      *stack = lk_stacked_rnn_cells(LK_LAYERS(lk_lstm_cell(3), lk_lstm_cell(2), lk_gru_cell(4)));
        lk_layer      *rnn = lk_rnn_layer(stack, .return_state = true);
        lk_tensor     *x = input_of(LK_SHAPE(ROWS, 3, WIDE), 0), *in[6];
        const lk_tuple all = lk_nested(lk_layer_call(rnn, x));
        const lki_pass pass = {0};
        lk_tuple       y = {0};
        assert_int_equal(all.count, 6);
        for (int t = 0; t < 3; t++) {
            in[0] = lk_squeeze(lk_slice(x, LK_AXES(0, t, 0), LK_AXES(-1, 1, -1)), LK_AXES(1));
            for (int i = 1; t && i < 6; i++)
                in[i] = y.item[i];
            y = lk_nested(lki_layer_run(stack, (lk_tuple){t ? 6 : 1, in}, &pass));
        }
        for (int i = 0; i < 6; i++)
            SAME(all.item[i], y.item[i]);
        assert_string_equal(lki_layer_weight_at(rnn, 3)->variable->name, "lstm_cell_1/kernel");
    }
}

TEST(what_is_no_cell)
{
    REFUSED(LK_EINVAL, !lk_rnn_layer(lk_dense(3)), "lk_rnn_layer: a cell is dense \"dense\"", "lk_lstm_cell");
    REFUSED(LK_EINVAL, !lk_lstm_cell(3, .return_sequences = true), "lk_lstm_cell: return_sequences is for lk_rnn_layer");
    REFUSED(LK_EINVAL, !lk_stacked_rnn_cells(), "0 cells");
}

TEST(states_that_do_not_fit)
{
    lk_shape  out[4];
    lk_layer *l = lk_lstm(3);
    REFUSED(LK_ESHAPE,
            lki_layer_output(l, (const lk_shape[]){LK_SHAPE(5, 4), {.rank = LKI_ABSENT}, LK_SHAPE(3), {.rank = -1}}, out) != LK_OK,
            "an initial state of 1 tensors; it should be h and c");
    REFUSED(LK_ESHAPE,
            lki_layer_output(lk_gru(3), (const lk_shape[]){LK_SHAPE(5, 4), {.rank = LKI_ABSENT}, LK_SHAPE(2), {.rank = -1}}, out) !=
                LK_OK,
            "its initial state [2] should be [3]");
}

/* ---- attention and pooling ---- */

TEST(nothing_attends_to_padding)
{
    LK_POOL {
        lk_tensor *query = input_of(LK_SHAPE(ROWS, 2, WIDE), 3), *x = padded(0);
        lk_layer  *l[] = {lk_multi_head_attention(2, 3),
                          lk_multi_head_attention(2, 3, .use_gate = true, .output_shape = LK_AXES(2, 3)),
                          lk_multi_head_attention(2, 3, .return_attention_scores = true),
                          lk_group_query_attention(3, 4, 2),
                          lk_attention_layer(.use_scale = true),
                          lk_attention_layer(.score_mode = LK_SCORE_CONCAT),
                          lk_additive_attention()};
        for (int i = 0; i < LKI_COUNT(l); i++) {
            lk_tensor *a = lk_layer_call(l[i], lk_nest(LK_TUPLE(query, masked(x))));
            lk_tensor *b = lk_layer_call(l[i], lk_nest(LK_TUPLE(query, first_steps(x, REAL))));
            if (a->nest) {
                CLOSE(lk_slice(lk_nested(a).item[1], LK_AXES(0, 0, 0, REAL), LK_AXES(1, 1, 1, -1)), 0, 0);
                a = lk_nested(a).item[0], b = lk_nested(b).item[0];
            }
            alike(a, b, 1e-6);
        }
    }
}

/* Steps of pictures' columns: as attention on each row of the picture by itself. */
TEST(attention_along_one_of_two_axes)
{
    LK_POOL {
        lk_tensor *x = input_of(LK_SHAPE(2, 3, 4, 5), 0);
        lk_layer  *l = lk_multi_head_attention(2, 3, .attention_axes = LK_AXES(2)), *flat = lk_multi_head_attention(2, 3);
        lk_tensor *y = lk_layer_call(l, lk_nest(LK_TUPLE(x, x))), *rows = lk_reshape(x, LK_SHAPE(6, 4, 5));
        lk_layer_call(flat, lk_nest(LK_TUPLE(rows, rows)));
        for (int i = 0; i < lki_layer_weights(l); i++)
            lk_assign(lki_layer_weight_at(flat, i)->variable, lk_read(lki_layer_weight_at(l, i)->variable));
        alike(lk_reshape(y, LK_SHAPE(6, 4, 5)), lk_layer_call(flat, lk_nest(LK_TUPLE(rows, rows))), 0);
        lk_tensor *whole = lk_layer_call(lk_multi_head_attention(2, 3), lk_nest(LK_TUPLE(x, x)));
        assert_true(is_shape(lk_tensor_shape(whole), LK_SHAPE(2, 3, 4, 5)));
    }
}

TEST(the_mean_of_real_steps)
{
    LK_POOL {
        lk_layer *l = lk_global_average_pooling1d();
        alike(lk_layer_call(l, masked(padded(0))), lk_layer_call(l, first_steps(padded(0), REAL)), 1e-6);
    }
}

/* ---- normalisation ---- */

static lk_tensor *trained_once(lk_model *m, lk_tensor *x) { return lk_model_call(m, x, .training = LK_ON); }

TEST(statistics_of_real_steps)
{
    LK_POOL {
        lk_model *a = lk_sequential(lk_masking(9, .input_shape = LK_SHAPE(-1, WIDE)), lk_batch_normalization()),
                 *b = lk_sequential(lk_batch_normalization(.input_shape = LK_SHAPE(-1, WIDE)));
        alike(first_steps(trained_once(a, padded(0)), REAL), trained_once(b, first_steps(padded(0), REAL)), 1e-5);
        for (int i = 0; i < 4; i++)
            alike(lk_read(lk_model_weights(a).item[i]), lk_read(lk_model_weights(b).item[i]), 1e-6);
    }
}

/* ---- merging ---- */

TEST(merged_masks)
{
    LK_POOL {
        lk_tensor *a = masked(padded(0)), *b = lk_layer_call(lk_masking(5), input_of(LK_SHAPE(ROWS, STEPS, WIDE), 1));
        lk_layer  *l[] = {lk_add_layer(),     lk_subtract_layer(), lk_multiply_layer(), lk_average_layer(),
                          lk_maximum_layer(), lk_minimum_layer(),  lk_concatenate()};
        for (int i = 0; i < LKI_COUNT(l); i++) {
            lk_tensor *both = lk_layer_call(l[i], lk_nest(LK_TUPLE(a, b))),
                      *one = lk_layer_call(l[i], lk_nest(LK_TUPLE(a, padded(2))));
            assert_non_null(both->mask);
            for (int k = 0; k < ROWS * STEPS; k++) /* b's mask counts all */
                assert_int_equal(((const uint8_t *)lk_data(both->mask))[k], 1);
            assert_true((one->mask != NULL) == (i == LKI_COUNT(l) - 1));
        }
        SAME(first_steps(lk_layer_call(lk_multiply_layer(), lk_nest(LK_TUPLE(a, b))), REAL), first_steps(lk_mul(a, b), REAL));
        lk_tensor *most = lk_layer_call(lk_maximum_layer(), lk_nest(LK_TUPLE(a, b)));
        SAME(lk_slice(most, LK_AXES(0, REAL, 0), LK_AXES(-1, -1, -1)), lk_slice(b, LK_AXES(0, REAL, 0), LK_AXES(-1, -1, -1)));
    }
}

/* ---- losses and metrics ---- */

TEST(padding_counts_in_no_loss_and_no_metric)
{
    LK_POOL {
        lk_model *a = lk_sequential(lk_masking(9, .input_shape = LK_SHAPE(-1, WIDE)), lk_dense(1)),
                 *b = lk_sequential(lk_dense(1, .input_shape = LK_SHAPE(-1, WIDE)));
        lk_tensor *x = padded(0), *y = input_of(LK_SHAPE(ROWS, STEPS, 1), 4);
        for (int i = 0; i < 2; i++)
            lk_assign(lk_model_weights(b).item[i], lk_read(lk_model_weights(a).item[i]));
        lk_model *const both[] = {a, b};
        for (int i = 0; i < 2; i++)
            lk_model_compile(both[i], .optimizer = lk_sgd(.learning_rate = 0.1), .loss = lk_mean_squared_error(),
                             .metrics = LK_METRICS(lk_mean_absolute_error_metric()));
        const lk_logs p = lk_model_train_on_batch(a, LK_TUPLE(x, y)),
                      q = lk_model_train_on_batch(b, LK_TUPLE(first_steps(x, REAL), first_steps(y, REAL)));
        assert_true(fabs(lk_logs_get(&p, "loss") - lk_logs_get(&q, "loss")) < 1e-5);
        assert_true(fabs(lk_logs_get(&p, "mean_absolute_error") - lk_logs_get(&q, "mean_absolute_error")) < 1e-5);
        for (int i = 0; i < 2; i++)
            alike(lk_read(lk_model_weights(a).item[i]), lk_read(lk_model_weights(b).item[i]), 1e-5);
    }
}

/* ---- bits ---- */

/* Rows of normal numbers: the steps whose first number is below 0 are padding. */
static lk_tuple with_masks(lk_model *m, lk_tuple in, int training, void *user)
{
    lk_layer **l = user;
    (void)m, (void)training;
    lk_tensor *first = lk_slice(in.item[0], LK_AXES(0, 0, 0), LK_AXES(-1, -1, 1));
    lk_tensor *x = lk_layer_call(l[0], lk_where(lk_greater(first, lk_scalar(0)), in.item[0], lk_scalar(9)));
    x = lk_layer_call(l[1], x);
    x = lk_layer_call(l[2], x);
    return LK_TUPLE(lk_layer_call(l[4], lk_layer_call(l[3], lk_nest(LK_TUPLE(x, x)))));
}

static lk_model *masking_model(void)
{
    static lk_layer *l[5];
    l[0] = lk_masking(9);
    l[1] = lk_bidirectional(lk_lstm(2, .return_sequences = true));
    l[2] = lk_batch_normalization();
    l[3] = lk_multi_head_attention(2, 2, .dropout = 0.25);
    l[4] = lk_dense(2);
    return lk_model_of(with_masks, LK_LAYERS(l[0], l[1], l[2], l[3], l[4]), l);
}

TEST(same_bits_with_masks) { same_on_replicas("masks", masking_model, plain_sgd, LK_SHAPE(4, 3)); }

TESTS(cmocka_unit_test(masking_and_embedding_make_them), cmocka_unit_test(padding_changes_no_state),
      cmocka_unit_test(a_state_goes_on), cmocka_unit_test(both_directions), cmocka_unit_test(a_cell_over_steps_is_its_layer),
      cmocka_unit_test(stacked_cells_step_by_step), cmocka_unit_test(what_is_no_cell), cmocka_unit_test(states_that_do_not_fit),
      cmocka_unit_test(nothing_attends_to_padding), cmocka_unit_test(attention_along_one_of_two_axes),
      cmocka_unit_test(the_mean_of_real_steps), cmocka_unit_test(statistics_of_real_steps), cmocka_unit_test(merged_masks),
      cmocka_unit_test(padding_counts_in_no_loss_and_no_metric), cmocka_unit_test(same_bits_with_masks))
