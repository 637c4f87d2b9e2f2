/* Models, losses and metrics under a strategy: the tables of the specification, and the same bits for any number of replicas. */
#include "dist/replicas.h"
#include "dist/strategy.h"
#include "lane/lanes.h"

static bool same_tensor(const lk_tensor *a, const lk_tensor *b)
{
    return !lk_poisoned(a) && !lk_poisoned(b) && lk_size(a) == lk_size(b) &&
           !memcmp(lk_data(a), lk_data(b), (size_t)lk_size(a) * lk_dtype_bytes(lk_tensor_dtype(a)));
}

/* ---- batches ---- */

/* Rows of a batch as replicas get them: each the rows of its lanes. */
static lk_tensor *spread_rows(lk_strategy *s, lk_tensor *x, int64_t global)
{
    lk_tensor *item[8];
    int64_t    total = lk_dim(x, 0);
    for (int r = 0; r < s->replicas; r++) {
        int64_t  lo = lki_min(total, lki_lane_begin(global, s->lanes, lki_lane_owner_begin(s->lanes, r, s->replicas)));
        int64_t  hi = lki_min(total, lki_lane_begin(global, s->lanes, lki_lane_owner_begin(s->lanes, r + 1, s->replicas)));
        lki_rows rows = {
            .kind = LKI_ROWS, .lanes = s->lanes, .per_row = 1, .global = global, .first = lo, .rows = hi - lo, .total = total};
        item[r] = lki_tensor_row_range(x, lo, hi - lo, &rows);
    }
    return s->replicas == 1 ? item[0] : lki_per_replica(s, s->replicas, item, lk_rows(x, global), false);
}

static lk_tensor *images(int64_t n, int number)
{
    return lk_random_normal(LK_SHAPE(n, 6, 6, 2), .stream = "images", .call = number);
}

static lk_tensor *labels_of(int64_t n, int number)
{
    return lk_cast(lk_mul(lk_random_uniform(LK_SHAPE(n), .stream = "labels", .call = number), lk_scalar(5)), LK_I32);
}

/* ---- training: the same bits for 1, 2, 3, 4 and 8 replicas ---- */

typedef struct trainer {
    lk_strategy   *strategy;
    lk_model      *model;
    lk_optimizer  *optimizer;
    lk_loss       *loss;
    lk_metric     *accuracy, *mean, *sum;
    int64_t        global;
    lk_denominator denominator;
} trainer;

static lk_tuple train_step(lk_tuple in, void *user)
{
    trainer   *t = user;
    lk_tape   *tape = lk_tape_begin();
    lk_tensor *y = lk_model_call(t->model, in.item[0], .training = LK_ON);
    lk_tensor *each = lk_loss_call(t->loss, in.item[1], y);
    lk_tensor *loss = t->denominator ? lk_compute_average_loss(each, .denominator = t->denominator)
                                     : lk_compute_average_loss(each, .global_batch_size = t->global);
    loss = lk_add(loss, lk_scale_regularization_loss(lk_add_n(lk_model_losses(t->model))));
    lk_optimizer_apply(t->optimizer, lk_tape_gradient(tape, loss, lk_model_trainable_variables(t->model)));
    lk_metric_update(t->accuracy, in.item[1], y);
    lk_metric_update(t->mean, each);
    lk_metric_update(t->sum, each, .sample_weight = lk_cast(in.item[1], LK_F32));
    return LK_TUPLE(loss);
}

static lk_tuple distributed_step(lk_tuple in, void *user)
{
    trainer *t = user;
    lk_tuple losses = lk_run(t->strategy, train_step, in, user);
    return LK_TUPLE(lk_reduce(t->strategy, LK_SUM, losses.item[0]));
}

typedef lk_model *model_fn(void);

static lk_model *plain_model(void)
{
    lk_regularizer *l2 = lk_l2(1e-3);
    return lk_sequential(lk_conv2d(4, 3, .activation = LK_RELU, .kernel_regularizer = l2), lk_max_pooling2d(), lk_flatten(),
                         lk_dropout(0.25), lk_dense(8, .activation = LK_TANH, .kernel_regularizer = l2),
                         lk_dense(5, .bias_regularizer = lk_l1(1e-3)));
}

static lk_model *normalised_model(void)
{
    return lk_sequential(lk_conv2d(4, 3, .kernel_regularizer = lk_l2(1e-3)), lk_batch_normalization(),
                         lk_conv2d(6, 2, .activation = LK_RELU), lk_batch_normalization(.momentum = LK_NUMBER(0.5)), lk_flatten(),
                         lk_dense(5));
}

typedef struct outcome {
    lk_digest weights;
    double    loss[5], accuracy, mean, sum;
    int       calls; /* kernel calls of the compiled step */
} outcome;

enum { GLOBAL = 24 };

static outcome train(int replicas, model_fn *make, bool compiled, lk_denominator denominator)
{
    outcome o = {0};
    LK_POOL {
        trainer t = {.strategy = mirrored(replicas), .global = GLOBAL, .denominator = denominator};
        LK_SCOPE(t.strategy) {
            t.model = make();
            t.optimizer = lk_adam(.learning_rate = 0.01);
            t.loss = lk_sparse_categorical_crossentropy(.from_logits = LK_ON, .reduction = LK_REDUCTION_NONE);
            t.accuracy = lk_sparse_categorical_accuracy();
            t.mean = lk_mean();
            t.sum = lk_sum_metric();
        }
        lk_function *f = lk_function_of(distributed_step, &t);
        for (int i = 0; i < 5; i++) {
            int64_t  rows = i == 3 ? 5 : GLOBAL; /* one short batch, which leaves replicas without rows */
            lk_tuple in =
                LK_TUPLE(spread_rows(t.strategy, images(rows, i), GLOBAL), spread_rows(t.strategy, labels_of(rows, i), GLOBAL));
            o.loss[i] = lk_item((compiled ? lk_call(f, in) : distributed_step(in, &t)).item[0]);
        }
        SOUND();
        o.weights = lk_model_digest(t.model);
        o.accuracy = lk_metric_result(t.accuracy);
        o.mean = lk_metric_result(t.mean);
        o.sum = lk_metric_result(t.sum);
        o.calls = lk_function_inspect(f).calls;
    }
    return o;
}

static void same_outcome(const outcome *a, const outcome *b)
{
    for (int i = 0; i < 5; i++)
        if (a->loss[i] != b->loss[i]) fail_msg("step %d: %.17g and %.17g", i, a->loss[i], b->loss[i]);
    assert_true(a->accuracy == b->accuracy);
    assert_true(a->mean == b->mean);
    assert_true(a->sum == b->sum);
    assert_true(lk_digest_equal(a->weights, b->weights));
}

static void same_for_all(model_fn *make, bool compiled, lk_denominator denominator)
{
    outcome one = train(1, make, false, denominator), planned = train(1, make, compiled, denominator);
    assert_true(one.accuracy > 0 && one.mean > 0.5 && one.loss[0] > 0.5);
    EACH_COUNT(n)
    {
        outcome other = train(n, make, compiled, denominator);
        same_outcome(&one, &other);
        assert_true(other.calls <= planned.calls &&
                    other.calls >= planned.calls - 2); /* planned as one device; a constant of the loss may be known sooner */
    }
}

TEST(plain_model_at_once) { same_for_all(plain_model, false, LK_DENOMINATOR_DEFAULT); }
TEST(plain_model_exact) { same_for_all(plain_model, false, LK_EXACT); }
TEST(plain_model_compiled) { same_for_all(plain_model, true, LK_EXACT); }
TEST(normalised_model_at_once) { same_for_all(normalised_model, false, LK_EXACT); }
TEST(normalised_model_compiled) { same_for_all(normalised_model, true, LK_EXACT); }

/* ---- variables of a model ---- */

REPLICA_FN(call_model) { return LK_TUPLE(lk_model_call(user, in.item[0])); }

TEST(made_inside_run)
{
    EACH_COUNT(n)
    LK_POOL {
        lk_strategy *s = mirrored(n);
        lk_model    *lazy = NULL, *eager = NULL, *outside = plain_model();
        LK_SCOPE(s) {
            lazy = plain_model();
            eager = plain_model();
            lk_model_build(eager, LK_SHAPE(6, 6, 2));
        }
        lk_tensor *x = images(GLOBAL, 0), *spread = spread_rows(s, x, GLOBAL);
        lk_tensor *y = lk_run(s, call_model, LK_TUPLE(spread), lazy).item[0];
        lk_run(s, call_model, LK_TUPLE(spread), outside);
        SOUND();
        assert_true(same_tensor(lk_gather_values(s, y), lk_model_call(eager, x)));
        assert_true(lk_digest_equal(lk_model_digest(lazy), lk_model_digest(eager)));
        assert_true(lk_digest_equal(lk_model_digest(outside), lk_model_digest(eager)));
        for (int i = 0; i < lk_model_variables(lazy).count; i++) {
            assert_true(lk_extended_variable_created_in_scope(s, lk_model_variables(lazy).item[i]));
            assert_true(lk_extended_variable_created_in_scope(s, lk_model_variables(outside).item[i]));
        }
        SOUND();
    }
}

TEST(made_under_the_strategy_of_the_model)
{
    LK_POOL {
        lk_strategy *s = mirrored(2), *other = mirrored(3);
        lk_model    *m = NULL, *n = NULL;
        LK_SCOPE(s) {
            m = plain_model();
            n = plain_model();
        }
        lk_model_call(m, images(2, 0)); /* outside any scope */
        assert_false(lk_has_strategy());
        assert_true(lk_extended_variable_created_in_scope(s, lk_model_weights(m).item[0]));
        SOUND();
        LK_SCOPE(other)
            REFUSED(LK_ESTATE, lk_model_call(n, images(2, 0)), "strategies are mixed");
        assert_int_equal(lk_model_weights(n).count, 0);
        REFUSED(LK_ESTATE, lk_run(other, call_model, LK_TUPLE(images(2, 0)), n), "strategies are mixed");
        lk_run(lk_default_strategy(), call_model, LK_TUPLE(images(2, 0)), n); /* the default strategy is none */
        assert_true(lk_extended_variable_created_in_scope(s, lk_model_weights(n).item[0]));
        SOUND();
    }
}

static lk_tensor *other_row(const lk_value_context *c, void *user)
{
    (void)user;
    return lk_zeros(LK_SHAPE(2, 6 + c->replica_id_in_sync_group, 6, 2), LK_F32);
}

TEST(replicas_must_build_the_same)
{
    LK_POOL {
        lk_strategy *s = mirrored(2);
        lk_model    *m = NULL;
        LK_SCOPE(s)
            m = plain_model();
        REFUSED(LK_ESTATE, lk_run(s, call_model, LK_TUPLE(lk_values_from_function(s, other_row, NULL)), m), "lk_model_build",
                "[6, 6, 2]", "[7, 6, 2]");
        assert_int_equal(lk_model_weights(m).count, 0);
        lk_run(s, call_model, LK_TUPLE(images(2, 0)), m);
        SOUND();
    }
}

/* Every replica sees what its own call added. */
REPLICA_FN(activity)
{
    lk_model_call(user, in.item[0], .training = LK_ON);
    lk_model_add_loss(user, mine(10));
    return LK_TUPLE(lk_model_losses(user).item[1], lk_model_losses(user).item[2],
                    lk_scale_regularization_loss(lk_add_n(lk_model_losses(user))));
}

TEST(losses_of_a_call_are_the_replicas_own)
{
    LK_POOL {
        lk_strategy *s = mirrored(2);
        lk_model    *m = NULL;
        LK_SCOPE(s) {
            m = lk_sequential(
                lk_dense(1, .activity_regularizer = lk_l2(0.5), .kernel_regularizer = lk_l1(1), .input_shape = LK_SHAPE(1)));
            lk_assign(lk_model_weights(m).item[0], lk_fill(LK_SHAPE(1, 1), LK_F32, 2));
        }
        lk_tensor *x = lk_tensor_of(LK_SHAPE(4, 1), 1, 2, 3, 4);
        lk_tuple   y = lk_run(s, activity, LK_TUPLE(spread_rows(s, x, 4)), m);
        PER_REPLICA(s, y.item[0], 0.5 * (4 + 16) / 2, 0.5 * (36 + 64) / 2); /* over the rows of this replica */
        PER_REPLICA(s, y.item[1], 10, 11);
        PER_REPLICA(s, y.item[2], (2 + 5 + 10) / 2.0, (2 + 25 + 11) / 2.0);
        SOUND();
    }
}

/* ---- batch normalisation: the table of strategy.json ---- */

static const double held[4][2] = {{1, 3}, {10, 20}, {-4, 6}, {2, 2}};

static lk_tensor *two_rows(const lk_value_context *c, void *user)
{
    (void)user;
    return lk_tensor_of(LK_SHAPE(2, 1), held[c->replica_id_in_sync_group][0], held[c->replica_id_in_sync_group][1]);
}

static lk_tensor *maybe_none(const lk_value_context *c, void *user)
{
    return c->replica_id_in_sync_group == 1 ? lk_zeros(LK_SHAPE(0, 1), LK_F32) : two_rows(c, user);
}

REPLICA_FN(train_call) { return LK_TUPLE(lk_model_call(user, in.item[0], .training = LK_ON)); }

static lk_model *normaliser(lk_strategy *s, lk_switch synchronized)
{
    lk_model *m = NULL;
    LK_SCOPE(s)
        m = lk_sequential(lk_batch_normalization(.momentum = LK_NUMBER(0), .synchronized = synchronized));
    return m;
}

static lk_variable *moving(lk_model *m, int i) { return lk_model_weights(m).item[2 + i]; }

TEST(synchronised_statistics)
{
    static const double mean[] = {0, 2, 8.5, 6, 5}, variance[] = {0, 1, 55.25, 57.666666666, 46.25};
    static const double first[] = {0, -0.9995003938674927, -1.0090000629425049, -0.6584212183952332, -0.5881653428077698};
    for (int n = 1; n <= 4; n++)
        LK_POOL {
            lk_strategy *s = mirrored(n);
            lk_model    *m = normaliser(s, LK_ON);
            lk_tensor   *y = lk_run(s, train_call, LK_TUPLE(lk_values_from_function(s, two_rows, NULL)), m).item[0];
            SOUND();
            VALUES(lk_read(moving(m, 0)), mean[n]);
            VALUES(lk_read(moving(m, 1)), variance[n]);
            lk_tensor *y0 = lk_local_results(s, y).item[0];
            assert_true(fabs((double)((const float *)lk_data(y0))[0] - first[n]) < 1e-5);
            assert_int_equal(lk_variable_synchronization(moving(m, 0)), LK_SYNC_ON_WRITE);
        }
}

TEST(own_statistics)
{
    static const double mean[] = {0, 2, 8.5, 6, 5}, variance[] = {0, 1, 13, 17, 12.75};
    for (int n = 1; n <= 4; n++)
        LK_POOL {
            lk_strategy *s = mirrored(n);
            lk_model    *m = normaliser(s, LK_OFF);
            lk_run(s, train_call, LK_TUPLE(lk_values_from_function(s, two_rows, NULL)), m);
            SOUND();
            VALUES(lk_read(moving(m, 0)), mean[n]); /* the mean of the replicas' */
            VALUES(lk_read(moving(m, 1)), variance[n]);
            for (int r = 0; r < n; r++)
                VALUES(lk_local_variables(s, moving(m, 0)).item[r], (held[r][0] + held[r][1]) / 2);
            assert_int_equal(lk_variable_synchronization(moving(m, 0)), LK_SYNC_ON_READ);
            assert_int_equal(lk_variable_aggregation(moving(m, 0)), LK_AGGREGATION_MEAN);
        }
}

TEST(replicas_without_rows_leave_statistics_alone)
{
    for (int n = 2; n <= 4; n++)
        LK_POOL {
            lk_strategy *s = mirrored(n);
            lk_model    *own = normaliser(s, LK_OFF), *all = normaliser(s, LK_ON);
            lk_tensor   *x = lk_values_from_function(s, maybe_none, NULL), *none = lk_zeros(LK_SHAPE(0, 1), LK_F32);
            lk_tuple     y = lk_run(s, train_call, LK_TUPLE(x), all);
            lk_run(s, train_call, LK_TUPLE(x), own);
            SOUND();
            VALUES(lk_local_variables(s, moving(own, 0)).item[0], 2);
            VALUES(lk_local_variables(s, moving(own, 0)).item[1], 0);
            VALUES(lk_local_variables(s, moving(own, 1)).item[1], 1);
            double sum = 0;
            for (int r = 0; r < n; r++)
                sum += r == 1 ? 0 : held[r][0] + held[r][1];
            VALUES(lk_read(moving(all, 0)), sum / (2 * n - 2));
            assert_int_equal(lk_size(lk_local_results(s, y.item[0]).item[1]), 0);
            lk_run(s, train_call, LK_TUPLE(none), all);
            SOUND();
            VALUES(lk_read(moving(all, 0)), sum / (2 * n - 2)); /* no replica had rows */
        }
}

/* ---- losses ---- */

typedef struct average_case {
    int64_t rows[4];
    double  size; /* -1: not given */
    bool    weighted;
    double  result[5][4]; /* by the number of replicas; golden/strategy.json */
} average_case;

static const average_case averages[] = {
    {{2, 2, 2, 2}, -1, false, {{0}, {2.5}, {1.25, 2.25}, {5 / 6.0, 1.5, 13 / 6.0}, {0.625, 1.125, 1.625, 2.125}}},
    {{2, 2, 2, 2}, 4, false, {{0}, {1.25}, {1.25, 2.25}, {1.25, 2.25, 3.25}, {1.25, 2.25, 3.25, 4.25}}},
    {{2, 2, 2, 2}, -1, true, {{0}, {0.5}, {0.25, 0.5}, {1 / 6.0, 1 / 3.0, 0.5}, {0.125, 0.25, 0.375, 0.5}}},
    {{3, 1, 0, 2}, -1, false, {{0}, {2}, {1, 2}, {2 / 3.0, 4 / 3.0, 0}, {0.5, 1, 0, 1.375}}},
    {{3, 1, 0, 2}, 8, false, {{0}, {0.75}, {0.75, 0.5}, {0.75, 0.5, 0}, {0.75, 0.5, 0, 1.375}}},
    {{2, 2, 2, 2}, 0, false, {{0}, {0}, {0, 0}, {0, 0, 0}, {0, 0, 0, 0}}},
};

static const average_case *now;

/* 2, 3 on the first, 4, 5 on the second, ...; or 1, 2, 3 and 4 and none and 5, 6. */
static lk_tensor *losses_here(const lk_value_context *c, void *user)
{
    (void)user;
    int     r = c->replica_id_in_sync_group;
    int64_t before = now->rows[0] == 2 ? 2 : 1;
    for (int i = 0; i < r; i++)
        before += now->rows[i];
    return lk_add(lk_range(now->rows[r], LK_F32), lk_scalar((double)before));
}

REPLICA_FN(average)
{
    lk_tensor *weights = now->weighted ? lk_tensor_of(LK_SHAPE(2), 0.5, 0) : NULL;
    if (now->size < 0) return LK_TUPLE(lk_compute_average_loss(in.item[0], weights));
    return LK_TUPLE(lk_compute_average_loss(in.item[0], weights, .batch_size = LK_NUMBER(now->size)));
}

TEST(average_loss_table)
{
    for (int i = 0; i < LKI_COUNT(averages); i++)
        for (int n = 1; n <= 4; n++)
            LK_POOL {
                now = &averages[i];
                lk_strategy *s = mirrored(n);
                lk_tuple     y =
                    lk_local_results(s, lk_run(s, average, LK_TUPLE(lk_values_from_function(s, losses_here, NULL))).item[0]);
                for (int r = 0; r < n; r++)
                    VALUES(y.item[r], now->result[n][r]);
                SOUND();
            }
}

REPLICA_FN(average_exact)
{
    lk_tensor *wide = lk_reshape(in.item[0], LK_SHAPE(lk_size(in.item[0]), 1));
    return LK_TUPLE(lk_compute_average_loss(in.item[0], .denominator = LK_EXACT),
                    lk_compute_average_loss(lk_mul(wide, lk_ones(LK_SHAPE(1, 2), LK_F32))));
}

/* Rows that know the batch, and rows that do not: the replicas count them together. */
TEST(average_loss_over_the_rows_there_are)
{
    LK_POOL {
        lk_strategy *s = mirrored(3);
        now = &averages[3];
        lk_tuple y = lk_run(s, average_exact, LK_TUPLE(lk_values_from_function(s, losses_here, NULL)));
        PER_REPLICA(s, y.item[0], 6 / 4.0, 4 / 4.0, 0);
        PER_REPLICA(s, y.item[1], 12 / 9.0, 8 / 3.0, 0);
        y = lk_run(s, average_exact, LK_TUPLE(spread_rows(s, lk_tensor_of(LK_SHAPE(5), 1, 2, 3, 4, 5), 8)));
        PER_REPLICA(s, y.item[0], 3 / 5.0, 12 / 5.0, 0);
        SOUND();
    }
}

REPLICA_FN(share) { return LK_TUPLE(lk_scale_regularization_loss(lk_tensor_of(LK_SHAPE(2), 2, 4))); }

TEST(shares_of_regularisation)
{
    for (int n = 1; n <= 4; n++)
        LK_POOL {
            lk_strategy *s = mirrored(n);
            lk_tuple     y = lk_run(s, share, LK_TUPLE());
            for (int r = 0; r < n; r++)
                VALUES(lk_local_results(s, y.item[0]).item[r], 6.0 / n);
            VALUES(lk_reduce(s, LK_SUM, y.item[0]), 6);
            SOUND();
        }
}

TEST(in_cross_replica_context)
{
    LK_POOL {
        lk_strategy *s = mirrored(2);
        lk_tensor   *x = lk_ones(LK_SHAPE(4), LK_F32);
        LK_SCOPE(s) {
            REFUSED(LK_ESTATE, lk_compute_average_loss(x), "lk_compute_average_loss", "cross-replica", "global_batch_size");
            REFUSED(LK_ESTATE, lk_compute_average_loss(x, .denominator = LK_EXACT), "cross-replica");
            REFUSED(LK_ESTATE, lk_scale_regularization_loss(x), "lk_scale_regularization_loss", "cross-replica", "lk_run");
            VALUES(lk_compute_average_loss(x, .global_batch_size = 8), 0.5);
        }
        SOUND();
    }
}

REPLICA_FN(loss_call)
{
    double     r = my_id();
    lk_tensor *x = lk_tensor_of(LK_SHAPE(2, 1), 2 * r + 1, 2 * r + 2);
    return LK_TUPLE(lk_loss_call(user, lk_zeros(LK_SHAPE(2, 1), LK_F32), x));
}

TEST(reductions_under_a_strategy)
{
    LK_POOL {
        lk_loss *automatic = lk_mean_squared_error(), *mean = lk_mean_squared_error(.reduction = LK_REDUCTION_MEAN);
        lk_loss *sum = lk_mean_squared_error(.reduction = LK_REDUCTION_SUM),
                *none = lk_mean_squared_error(.reduction = LK_REDUCTION_NONE);
        lk_loss   *weighted = lk_mean_squared_error(.reduction = LK_REDUCTION_MEAN_WITH_SAMPLE_WEIGHT);
        lk_tensor *x = lk_ones(LK_SHAPE(2, 1), LK_F32), *zero = lk_zeros(LK_SHAPE(2, 1), LK_F32);
        for (int n = 1; n <= 2; n++) {
            lk_strategy *s = mirrored(n);
            lk_loss     *each[] = {automatic, mean};
            for (int i = 0; i < 2; i++) {
                REFUSED(LK_EINVAL, lk_run(s, loss_call, LK_TUPLE(), each[i]), i ? "SUM_OVER_BATCH_SIZE" : "AUTO",
                        "LK_REDUCTION_NONE", "LK_REDUCTION_SUM", "lk_compute_average_loss");
                LK_SCOPE(s)
                    REFUSED(LK_EINVAL, lk_loss_call(each[i], zero, x), "LK_REDUCTION_NONE", "LK_REDUCTION_SUM",
                            "lk_compute_average_loss");
            }
        }
        lk_strategy *s = mirrored(2);
        PER_REPLICA(s, lk_run(s, loss_call, LK_TUPLE(), sum).item[0], 5, 25);
        PER_REPLICA(s, lk_run(s, loss_call, LK_TUPLE(), weighted).item[0], 1.25, 6.25);
        lk_tuple y = lk_local_results(s, lk_run(s, loss_call, LK_TUPLE(), none).item[0]);
        VALUES(y.item[0], 1, 4);
        VALUES(y.item[1], 9, 16);
        VALUES(lk_loss_call(automatic, zero, x), 1); /* without a strategy */
        LK_SCOPE(lk_one_device_strategy("CPU:0"))
            VALUES(lk_loss_call(automatic, zero, x), 1);
        SOUND();
    }
}

/* ---- metrics ---- */

REPLICA_FN(count_scalar)
{
    lk_metric_update(user, lk_scalar(1.25 + my_id()));
    EXPECT(lk_metric_result(user) == 1.25 + my_id()); /* inside, of this replica */
    return LK_TUPLE();
}

TEST(a_mean_of_scaled_losses)
{
    LK_POOL {
        lk_strategy *s = mirrored(2);
        lk_metric   *m = NULL;
        LK_SCOPE(s)
            m = lk_mean();
        lk_run(s, count_scalar, LK_TUPLE(), m);
        SOUND();
        assert_true(lk_metric_result(m) == 1.75);
        VALUES(lk_reduce_sum(lk_read(lk_metric_variables(m).item[0])), 3.5);
        VALUES(lk_reduce_sum(lk_read(lk_metric_variables(m).item[1])), 2);
        lk_metric_reset(m);
        assert_true(lk_metric_result(m) == 0);
        LK_SCOPE(s) {
            lk_run(s, count_scalar, LK_TUPLE(), m);
            assert_true(lk_metric_result(m) == 1.75);
            REFUSED(LK_EINVAL, lk_metric_update(m, SPREAD(s, lk_scalar(1), lk_scalar(2))), "\"mean\"", "per-replica value");
        }
        SOUND();
    }
}

REPLICA_FN(metric_inside)
{
    int        n = lk_context_num_replicas(lk_get_replica_context());
    lk_metric *m = lk_mean(.name = "inside");
    lk_metric_update(m, mine(1));
    EXPECT(lk_metric_result(m) == my_id() + 1);
    lk_all_reduce(lk_get_replica_context(), LK_SUM, mine(0)); /* all have counted */
    const double *total = lk_variable_data(lk_metric_variables(m).item[0]);
    double        sum = 0;
    for (int lane = 0; lane < 8; lane++)
        sum += total[lane];
    EXPECT(sum == n * (n + 1) / 2);
    return LK_TUPLE();
}

TEST(made_inside_run_a_metric_is_one)
{
    EACH_COUNT(n)
    LK_POOL {
        lk_run(mirrored(n), metric_inside, LK_TUPLE());
        SOUND();
    }
}

REPLICA_FN(reset_inside)
{
    lk_metric_update(user, lk_scalar(5));
    lk_metric_reset(user);
    lk_metric_update(user, mine(1));
    return LK_TUPLE();
}

TEST(resets_inside_run)
{
    EACH_COUNT(n)
    LK_POOL {
        lk_strategy *s = mirrored(n);
        lk_metric   *m = NULL;
        LK_SCOPE(s)
            m = lk_sum_metric();
        lk_run(s, reset_inside, LK_TUPLE(), m);
        SOUND();
        assert_true(lk_metric_result(m) == n * (n + 1) / 2);
    }
}

REPLICA_FN(count_rows)
{
    lk_metric_update(user, in.item[0]);
    return LK_TUPLE();
}

/* Rows in lanes, every replica the whole batch, rows marked inside, and scalars: nothing is lost, whichever replica counts. */
REPLICA_FN(count_in_every_way)
{
    lk_metric_update(user, in.item[0]);
    lk_metric_update(user, in.item[1]);
    lk_metric_update(user, lk_rows(lk_ones(LK_SHAPE(7), LK_F32), 0));
    lk_metric_update(user, lk_scalar(1));
    return LK_TUPLE();
}

TEST(nothing_is_lost)
{
    EACH_COUNT(n)
    LK_POOL {
        lk_strategy *s = mirrored(n);
        lk_metric   *m = NULL, *outside = lk_mean();
        LK_SCOPE(s)
            m = lk_sum_metric();
        lk_tensor *x = lk_ones(LK_SHAPE(29), LK_F32), *whole = lk_rows(lk_ones(LK_SHAPE(11), LK_F32), 0);
        for (int i = 0; i < 20; i++)
            lk_run(s, count_in_every_way, LK_TUPLE(spread_rows(s, x, 32), whole), m);
        SOUND();
        assert_true(lk_metric_result(m) == 20 * (29 + 19 * n));
        lk_run(s, count_rows, LK_TUPLE(spread_rows(s, x, 32)), outside); /* a metric of no strategy */
        assert_true(lk_metric_result(outside) == 1);
        SOUND();
    }
}

TESTS(cmocka_unit_test(plain_model_at_once), cmocka_unit_test(plain_model_exact), cmocka_unit_test(plain_model_compiled),
      cmocka_unit_test(normalised_model_at_once), cmocka_unit_test(normalised_model_compiled), cmocka_unit_test(made_inside_run),
      cmocka_unit_test(made_under_the_strategy_of_the_model), cmocka_unit_test(replicas_must_build_the_same),
      cmocka_unit_test(losses_of_a_call_are_the_replicas_own), cmocka_unit_test(synchronised_statistics),
      cmocka_unit_test(own_statistics), cmocka_unit_test(replicas_without_rows_leave_statistics_alone),
      cmocka_unit_test(average_loss_table), cmocka_unit_test(average_loss_over_the_rows_there_are),
      cmocka_unit_test(shares_of_regularisation), cmocka_unit_test(in_cross_replica_context),
      cmocka_unit_test(reductions_under_a_strategy), cmocka_unit_test(a_mean_of_scaled_losses),
      cmocka_unit_test(made_inside_run_a_metric_is_one), cmocka_unit_test(resets_inside_run), cmocka_unit_test(nothing_is_lost))
