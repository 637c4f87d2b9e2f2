/* Metrics against plain loops: values, weights, ranks, lanes, compiled steps, resets. */
#include "core/dtype.h"
#include "model/refused.h"
#include "op/replica.h"

/* ---- values ---- */

TEST(mean_and_sum)
{
    LK_POOL {
        lk_metric *mean = lk_mean(), *sum = lk_sum_metric();
        assert_string_equal(lk_metric_name(mean), "mean");
        assert_string_equal(lk_metric_name(sum), "sum");
        assert_string_equal(lk_metric_name(lk_mean(.name = "test_loss")), "test_loss");
        assert_true(lk_metric_result(mean) == 0 && lk_metric_result(sum) == 0);
        lk_metric_update(mean, lk_scalar(1.25));
        lk_metric_update(mean, lk_scalar(2.25));
        assert_true(lk_metric_result(mean) == 1.75);
        lk_metric_update(mean, lk_tensor_of(LK_SHAPE(2, 2), 1, 2, 3, 4)); /* every element counts */
        assert_true(lk_metric_result(mean) == 13.5 / 6);
        lk_metric_update(sum, lk_tensor_of(LK_SHAPE(2, 2), 1, 2, 3, 4));
        lk_metric_update(sum, lk_range(4, LK_I32));
        assert_true(lk_metric_result(sum) == 16);
        lk_metric_update(mean, lk_zeros(LK_SHAPE(0), LK_F32));
        assert_true(lk_metric_result(mean) == 13.5 / 6);
        assert_int_equal(lk_metric_reset(mean), LK_OK);
        assert_true(lk_metric_result(mean) == 0);
        lk_metric_update(mean, lk_scalar(3));
        assert_true(lk_metric_result(mean) == 3);
        lk_metric_reset_states(sum);
        assert_true(lk_metric_result(sum) == 0);
        assert_false(lk_failed());
    }
}

TEST(weights)
{
    LK_POOL {
        lk_metric *m = lk_mean(), *s = lk_sum_metric();
        lk_tensor *x = lk_tensor_of(LK_SHAPE(3), 1, 2, 3), *w = lk_tensor_of(LK_SHAPE(3), 0.5, 0, 2);
        lk_metric_update(m, x, .sample_weight = w);
        lk_metric_update(s, x, .sample_weight = w);
        assert_true(lk_metric_result(m) == 6.5 / 2.5 && lk_metric_result(s) == 6.5);
        lk_metric_reset(m);
        lk_metric_update(m, lk_tensor_of(LK_SHAPE(2, 2), 1, 2, 3, 4),
                         .sample_weight = lk_tensor_of(LK_SHAPE(2), 1, 3)); /* one per row */
        assert_true(lk_metric_result(m) == 24.0 / 8);
        lk_metric_reset(m);
        lk_metric_update(m, lk_range(3, LK_I64), .sample_weight = lk_scalar(2));
        assert_true(lk_metric_result(m) == 1);
        lk_metric_reset(m);
        lk_metric_update(m, x, .sample_weight = lk_zeros(LK_SHAPE(3), LK_F32));
        assert_true(lk_metric_result(m) == 0);
        assert_false(lk_failed());
    }
}

TEST(sparse_categorical_accuracy)
{
    LK_POOL {
        lk_tensor *p =
            lk_tensor_of(LK_SHAPE(4, 3), 0, 1, 0, 2, 1, 0, 0.1, 0.2, 0.3, 5, 5, 1); /* 1, 0, 2, and the first of equals: 0 */
        int32_t               label[] = {1, 0, 0, 0};
        lk_tensor            *labels = lk_tensor_from(LK_SHAPE(4), LK_I32, label);
        static const lk_dtype types[] = {LK_I32, LK_I64, LK_U8, LK_F32, LK_F64, LK_F16};
        for (int i = 0; i < LKI_COUNT(types); i++)
            for (int column = 0; column < 2; column++) {
                lk_metric *m = lk_sparse_categorical_accuracy();
                lk_tensor *l = lk_cast(column ? lk_reshape(labels, LK_SHAPE(4, 1)) : labels, types[i]);
                assert_int_equal(lk_metric_update(m, l, p), LK_OK);
                assert_true(lk_metric_result(m) == 0.75);
                lk_metric_update(m, l, p, .sample_weight = lk_tensor_of(LK_SHAPE(4), 0, 0, 4, 0));
                assert_true(lk_metric_result(m) == 3.0 / 8);
            }
        lk_metric *deep = lk_sparse_categorical_accuracy();
        lk_metric_update(deep, lk_reshape(labels, LK_SHAPE(2, 2)), lk_reshape(p, LK_SHAPE(2, 2, 3)));
        assert_true(lk_metric_result(deep) == 0.75);
        lk_metric_update(deep, lk_tensor_of(LK_SHAPE(1), 0.5), lk_tensor_of(LK_SHAPE(1, 2), 1, 0)); /* no class is 0.5 */
        assert_true(lk_metric_result(deep) == 3.0 / 5);
        assert_string_equal(lk_metric_name(deep), "sparse_categorical_accuracy");
        assert_false(lk_failed());
    }
}

/* ---- lanes ---- */

/* State as a plain loop keeps it: rows of lane s in order, then the tree. */
static void check_lanes(int64_t rows, int64_t global)
{
    lk_metric   *m = lk_mean();
    lk_tensor   *x = lk_random_normal(LK_SHAPE(rows, 2));
    const float *v = lk_data(x);
    double       lane[8] = {0}, seen = 0;
    assert_int_equal(lk_metric_update(m, lk_rows(x, global)), LK_OK);
    for (int s = 0; s < 8; s++)
        for (int64_t k = 2 * ((s * global + 7) / 8); k < 2 * (((s + 1) * global + 7) / 8) && k < 2 * rows; k++)
            lane[s] += (double)v[k];
    const double *total = lk_data(lk_read(lk_metric_variables(m).item[0])),
                 *count = lk_data(lk_read(lk_metric_variables(m).item[1]));
    for (int s = 0; s < 8; s++) {
        assert_true(total[s] == lane[s]);
        seen += count[s];
    }
    double all = ((lane[0] + lane[1]) + (lane[2] + lane[3])) + ((lane[4] + lane[5]) + (lane[6] + lane[7]));
    assert_true(seen == (double)(2 * rows));
    assert_true(lk_metric_result(m) == all / (double)(2 * rows));
    assert_false(lk_failed());
}

TEST(rows_go_to_their_lanes)
{
    static const int64_t rows[] = {1, 3, 7, 8, 13, 64};
    for (int i = 0; i < LKI_COUNT(rows); i++)
        LK_POOL {
            check_lanes(rows[i], rows[i]);
            check_lanes(rows[i], 64);
        }
}

TEST(state_is_one_number_per_lane)
{
    LK_POOL {
        lk_set_lanes(16);
        lk_metric *m = lk_sparse_categorical_accuracy(.name = "acc");
        lk_set_lanes(8);
        lk_variables v = lk_metric_variables(m);
        assert_int_equal(v.count, 2);
        assert_int_equal(lk_variable_shape(v.item[0]).dim[0], 16);
        assert_int_equal(lk_variable_dtype(v.item[0]), LK_F64);
        assert_false(lk_variable_trainable(v.item[0]));
        assert_string_equal(lk_variable_name(v.item[0]), "acc/total");
        assert_string_equal(lk_variable_name(v.item[1]), "acc/count");
        assert_int_equal(lk_metric_variables(lk_sum_metric()).count, 1);
        lk_tensor *x = lk_rows(lk_ones(LK_SHAPE(4, 2), LK_F32), 0), *y = lk_rows(lk_zeros(LK_SHAPE(4), LK_I32), 0);
        REFUSED(LK_ESHAPE, lk_metric_update(m, y, x) != LK_OK, "8 lanes", "acc/total", "16");
    }
}

/* Two replicas by hand: each writes lanes of its own, and inside sees only those. */
TEST(replicas_have_lanes_of_their_own)
{
    LK_POOL {
        lk_metric *m = lk_mean();
        for (int r = 0; r < 2; r++) {
            lki_replica replica = {.id = r, .count = 2};
            lki_replica_set(&replica);
            lk_metric_update(m, lk_scalar(1.25 + r));
            assert_true(lk_metric_result(m) == 1.25 + r);
            lk_metric_update(m, lk_rows(lk_fill(LK_SHAPE(2), LK_F32, 8), 0)); /* marked here: a batch of its own */
            lki_replica_set(NULL);
        }
        const double *total = lk_data(lk_read(lk_metric_variables(m).item[0])),
                     *count = lk_data(lk_read(lk_metric_variables(m).item[1]));
        for (int s = 0; s < 8; s++) {
            assert_true(total[s] == (s == 0 ? 17.25 : s == 4 ? 18.25 : 0));
            assert_true(count[s] == (s % 4 ? 0 : 3));
        }
        assert_true(lk_metric_result(m) == 35.5 / 6);
        assert_false(lk_failed());
    }
}

/* ---- compiled ---- */

typedef struct metrics {
    lk_metric *mean, *sum, *accuracy;
} metrics;

static lk_tuple update_all(lk_tuple in, void *user)
{
    metrics   *m = user;
    lk_tensor *x = in.item[0], *labels = in.item[1];
    lk_metric_update(m->mean, lk_reduce_sum(lk_square(x), .axis = LK_AXES(1)));
    lk_metric_update(m->mean, lk_reduce_sum(x));
    lk_metric_update(m->sum, x, .sample_weight = lk_cast(labels, LK_F32));
    lk_metric_update(m->accuracy, labels, x);
    return LK_TUPLE(lk_reduce_sum(x));
}

static metrics metrics_new(void) { return (metrics){lk_mean(), lk_sum_metric(), lk_sparse_categorical_accuracy()}; }

static bool same_state(lk_metric *a, lk_metric *b)
{
    bool same = true;
    for (int i = 0; i < lk_metric_variables(a).count; i++)
        same = same && same_bits(lk_read(lk_metric_variables(a).item[i]), lk_read(lk_metric_variables(b).item[i]));
    return same;
}

TEST(compiled_is_the_same)
{
    for (int threads = 1; threads <= 3; threads++)
        LK_POOL {
            lk_set_threads(threads);
            metrics      a = metrics_new(), b = metrics_new();
            lk_function *f = lk_function_of(update_all, &a);
            for (int i = 0; i < 4; i++) {
                int64_t    n = i == 3 ? 5 : 24;
                lk_tensor *x = lk_rows(lk_random_normal(LK_SHAPE(n, 5), .call = i), 24);
                lk_tensor *labels = lk_rows(lk_cast(lk_mul(lk_random_uniform(LK_SHAPE(n), .call = i), lk_scalar(5)), LK_I32), 24);
                lk_call(f, LK_TUPLE(x, labels));
                update_all(LK_TUPLE(x, labels), &b);
            }
            assert_int_equal(lk_function_inspect(f).traces, 2);
            assert_true(same_state(a.mean, b.mean) && same_state(a.sum, b.sum) && same_state(a.accuracy, b.accuracy));
            assert_true(lk_metric_result(a.accuracy) > 0);
            assert_false(lk_failed());
        }
    lk_set_threads(0);
}

static lk_tuple reset_then_count(lk_tuple in, void *user)
{
    lk_metric_reset(user);
    lk_metric_update(user, in.item[0]);
    return LK_TUPLE(in.item[0]);
}

static lk_tuple ask(lk_tuple in, void *user)
{
    lk_metric_result(user);
    return in;
}

TEST(resets_and_results_while_traced)
{
    LK_POOL {
        lk_metric   *m = lk_mean();
        lk_function *f = lk_function_of(reset_then_count, m);
        for (int i = 0; i < 3; i++) {
            lk_call(f, LK_TUPLE(lk_rows(lk_fill(LK_SHAPE(9), LK_F32, i), 0)));
            assert_true(lk_metric_result(m) == i);
        }
        REFUSED_TENSOR(LK_ESTATE, lk_call(lk_function_of(ask, m), LK_TUPLE(lk_scalar(1))).item[0], "lk_metric_result", "traced",
                       "lk_call");
    }
}

/* Counting under a tape records nothing, and a tape is not disturbed. */
TEST(counting_is_not_recorded)
{
    LK_POOL {
        lk_variable *w = lk_variable_of(lk_fill(LK_SHAPE(3), LK_F32, 2));
        lk_metric   *m = lk_mean();
        lk_tape     *tape = lk_tape_begin();
        lk_tensor   *y = lk_square(lk_read(w));
        lk_metric_update(m, y, .sample_weight = lk_read(w));
        const float *g = lk_data(lk_grads_item(lk_tape_gradient(tape, lk_reduce_sum(y), LK_VARIABLES(w)), 0));
        assert_true(g[0] == 4 && lk_metric_result(m) == 4);
        assert_false(lk_failed());
    }
}

/* ---- misuse ---- */

TEST(misuse)
{
    LK_POOL {
        lk_metric *mean = lk_mean(), *accuracy = lk_sparse_categorical_accuracy();
        lk_tensor *x = lk_ones(LK_SHAPE(4, 3), LK_F32), *labels = lk_zeros(LK_SHAPE(4), LK_I32);
        REFUSED(LK_EINVAL, lk_metric_update(NULL, x) != LK_OK, "metric is NULL");
        REFUSED(LK_EINVAL, lk_metric_update((lk_metric *)x, x) != LK_OK, "not a metric");
        REFUSED(LK_EINVAL, lk_metric_update(mean) != LK_OK, "\"mean\"", "values are NULL");
        REFUSED(LK_EINVAL, lk_metric_update(mean, x, x) != LK_OK, "\"mean\"", "values only");
        REFUSED(LK_EINVAL, lk_metric_update(accuracy, labels) != LK_OK, "predictions are NULL");
        REFUSED(LK_EINVAL, lk_metric_update(accuracy, .b = x) != LK_OK, "labels are NULL");
        REFUSED(LK_ESHAPE, lk_metric_update(accuracy, lk_zeros(LK_SHAPE(3), LK_I32), x) != LK_OK, "labels [3]", "[4]");
        REFUSED(LK_ESHAPE, lk_metric_update(accuracy, lk_zeros(LK_SHAPE(4, 3), LK_I32), x) != LK_OK, "labels [4, 3]", "[4]");
        REFUSED(LK_ESHAPE, lk_metric_update(accuracy, labels, lk_scalar(1)) != LK_OK, "scalar", "classes");
        REFUSED(LK_ESHAPE, lk_metric_update(mean, x, .sample_weight = lk_ones(LK_SHAPE(2), LK_F32)) != LK_OK, "[4, 3]", "[2, 1]");
        REFUSED(LK_EINVAL, isnan(lk_metric_result(NULL)), "lk_metric_result", "NULL");
        REFUSED(LK_EINVAL, lk_metric_reset(NULL) != LK_OK, "lk_metric_reset");
        REFUSED(LK_EINVAL, lk_metric_variables(NULL).count == 0, "lk_metric_variables");
        assert_true(lk_metric_result(mean) == 0 && lk_metric_result(accuracy) == 0);
        assert_false(lk_failed());
    }
}

TESTS(cmocka_unit_test(mean_and_sum), cmocka_unit_test(weights), cmocka_unit_test(sparse_categorical_accuracy),
      cmocka_unit_test(rows_go_to_their_lanes), cmocka_unit_test(state_is_one_number_per_lane),
      cmocka_unit_test(replicas_have_lanes_of_their_own), cmocka_unit_test(compiled_is_the_same),
      cmocka_unit_test(resets_and_results_while_traced), cmocka_unit_test(counting_is_not_recorded), cmocka_unit_test(misuse))
