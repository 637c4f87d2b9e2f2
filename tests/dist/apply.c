/* Section 11 of the specification: optimisers under a strategy. Gradients are summed over the replicas; slots and counters are
 * mirrored; everything happens once. */
#include "dist/replicas.h"

typedef struct trainer {
    lk_optimizer *optimizer;
    lk_variables  variables;
    bool          combined;
    int           times;
} trainer;

/* Replica r brings in.item[i] for variable i. */
REPLICA_FN(apply)
{
    trainer *t = user;
    for (int i = 0; i < (t->times ? t->times : 1); i++)
        if (t->combined) lk_optimizer_apply_combined_gradients(t->optimizer, in, t->variables);
        else lk_optimizer_apply_gradients(t->optimizer, in, t->variables);
    return LK_TUPLE();
}

static lk_variable *vector(lk_strategy *s, const char *name) { return MADE(s, VECTOR(1, 2, 3, 4), name); }

static void apply_in_run(lk_strategy *s, lk_optimizer *o, lk_variable *v, lk_tensor *g)
{
    lk_run(s, apply, LK_TUPLE(g), &(trainer){o, LK_VARIABLES(v), .combined = false});
}

/* ---- sums ---- */

TEST(gradients_are_summed)
{
    LK_POOL {
        lk_strategy *s = mirrored(2);
        lk_variable *v = vector(s, "v");
        apply_in_run(s, lk_sgd(.learning_rate = 0.5, .momentum = 0.06), v, SPREAD(s, VECTOR(1, 6, 7, 2), VECTOR(1, 6, 7, 2)));
        VALUES(lk_read(v), 0, -4, -4, 2);
        lk_variable  *w = MADE(s, VECTOR(1, 2), "w");
        lk_optimizer *o = lk_sgd(.learning_rate = 1);
        apply_in_run(s, o, w, SPREAD(s, VECTOR(1, 0), VECTOR(0, 2)));
        VALUES(lk_read(w), 0, 0);
        assert_int_equal(lk_optimizer_iterations(o), 1);
        SOUND();
    }
}

typedef lk_optimizer *maker(void);
static lk_optimizer  *sgd(void) { return lk_sgd(.learning_rate = 0.1, .momentum = 0.9, .nesterov = LK_ON); }
static lk_optimizer  *adam(void) { return lk_adam(.learning_rate = 0.1, .weight_decay = 0.01, .amsgrad = LK_ON); }
static lk_optimizer  *clipped(void) { return lk_sgd(.learning_rate = 1, .clipnorm = 1); }
static lk_optimizer  *clipped_all(void) { return lk_sgd(.learning_rate = 1, .global_clipnorm = 1); }
static lk_optimizer  *clipped_values(void) { return lk_sgd(.learning_rate = 1, .clipvalue = 1.5); }
static lk_optimizer  *averaged(void)
{
    return lk_adam(.learning_rate = 0.1, .use_ema = LK_ON, .ema_momentum = LK_NUMBER(0.5), .ema_overwrite_frequency = 2);
}
static lk_optimizer *accumulated(void) { return lk_sgd(.learning_rate = 1, .gradient_accumulation_steps = 2, .clipnorm = 1); }
static lk_optimizer *lamb(void) { return lk_lamb(.learning_rate = 0.1); }
static lk_optimizer *nadam(void) { return lk_nadam(.learning_rate = 0.1); }
static lk_optimizer *adafactor(void) { return lk_adafactor(.learning_rate = 0.1, .weight_decay = 0.01); }
static lk_optimizer *schedule_free(void) { return lk_schedule_free_adamw(.learning_rate = 0.1); }
static lk_optimizer *muon(void) { return lk_muon(.learning_rate = 0.1, .gradient_accumulation_steps = 2); }
static lk_optimizer *loss_scale(void) { return lk_loss_scale_optimizer(lk_adam(.learning_rate = 0.1), 4, 2); }
static lk_optimizer *multi(void)
{
    return lk_multi_optimizer(lk_sgd(.learning_rate = 0.1), 1, (const char *[]){"a"}, (lk_optimizer *[]){lk_adam()});
}
static maker *const MAKERS[] = {sgd,  adam,  clipped,   clipped_all,   clipped_values, averaged,   accumulated,
                                lamb, nadam, adafactor, schedule_free, muon,           loss_scale, multi};

static lk_tensor *part(int r, int i, int step) { return VECTOR(r + i, 1 - r * 0.5, step + r, -3); }

static lk_tensor *part_of(const lk_value_context *c, void *user)
{
    int *k = user;
    return part(c->replica_id_in_sync_group, k[0], k[1]);
}

/* As one device would with the sum; copies equal; counted once. */
static void check_maker(lk_strategy *s, int n, maker *make)
{
    lk_optimizer *o = NULL, *alone = make();
    lk_variable  *v[2] = {vector(s, "a"), vector(s, "b")},
                *w[2] = {lk_variable_of(VECTOR(1, 2, 3, 4), .name = "a"), lk_variable_of(VECTOR(1, 2, 3, 4), .name = "b")};
    LK_SCOPE(s) {
        o = make();
    }
    trainer t = {o, lk_variables_from(2, v), false, 0};
    for (int step = 0; step < 4; step++) {
        lk_tensor *sum[2];
        for (int i = 0; i < 2; i++) {
            sum[i] = part(0, i, step);
            for (int r = 1; r < n; r++)
                sum[i] = lk_add(sum[i], part(r, i, step));
        }
        lk_run(
            s, apply,
            LK_TUPLE(lk_values_from_function(s, part_of, (int[]){0, step}), lk_values_from_function(s, part_of, (int[]){1, step})),
            &t);
        lk_optimizer_apply_gradients(alone, lk_tuple_from(2, sum), lk_variables_from(2, w));
        SOUND();
        for (int i = 0; i < 2; i++) {
            const float *x = lk_data(lk_read(v[i])), *y = lk_data(lk_read(w[i]));
            for (int k = 0; k < 4; k++)
                assert_true(fabsf(x[k] - y[k]) <= 1e-5f * fmaxf(1, fabsf(y[k])));
        }
    }
    assert_int_equal(lk_optimizer_iterations(o), lk_optimizer_iterations(alone));
    lk_variables state = lk_optimizer_variables(o);
    for (int i = 0; i < state.count; i++) {
        assert_true(lk_extended_variable_created_in_scope(s, state.item[i])); /* slots, counters and the rate are mirrored */
        assert_int_equal(lk_local_variables(s, state.item[i]).count, n);
    }
    SOUND();
}

TEST(every_optimizer_as_on_one_device)
{
    LK_POOL {
        EACH_COUNT(n)
        for (int i = 0; i < LKI_COUNT(MAKERS); i++)
            check_maker(mirrored(n), n, MAKERS[i]);
    }
}

TEST(clipping_acts_on_the_sum)
{
    LK_POOL {
        lk_strategy *s = mirrored(2);
        lk_variable *v = MADE(s, VECTOR(10), "v");
        apply_in_run(s, lk_sgd(.learning_rate = 1, .clipnorm = 1), v, SPREAD(s, VECTOR(3), VECTOR(4)));
        VALUES(lk_read(v), 9); /* a step of 1, not of 2 */
        SOUND();
    }
}

/* ---- where it is called ---- */

TEST(outside_replicas_gradients_are_combined)
{
    LK_POOL {
        lk_strategy  *s = mirrored(3);
        lk_variable  *v = vector(s, "v");
        lk_optimizer *o = lk_sgd(.learning_rate = 1); /* made outside: its state follows the variables */
        LK_SCOPE(s) {
            assert_int_equal(lk_optimizer_apply_gradients(o, LK_TUPLE(VECTOR(1, 1, 1, 1)), LK_VARIABLES(v)), LK_OK);
        }
        lk_optimizer_apply_gradients(o, LK_TUPLE(VECTOR(1, 1, 1, 1)), LK_VARIABLES(v));
        VALUES(lk_read(v), -1, 0, 1, 2);
        apply_in_run(s, o, v, SPREAD(s, VECTOR(1, 0, 0, 0), VECTOR(0, 1, 0, 0), VECTOR(0, 0, 1, 0)));
        VALUES(lk_read(v), -2, -1, 0, 2);
        assert_int_equal(lk_optimizer_iterations(o), 3);
        lk_optimizer *slots = lk_adam();
        lk_optimizer_build(slots, LK_VARIABLES(v));
        lk_variables state = lk_optimizer_variables(slots);
        assert_true(lk_extended_variable_created_in_scope(s, state.item[state.count - 1]));
        REFUSED(LK_EINVAL,
                lk_optimizer_apply_gradients(o, LK_TUPLE(SPREAD(s, VECTOR(1, 1, 1, 1), VECTOR(1, 1, 1, 1), VECTOR(1, 1, 1, 1))),
                                             LK_VARIABLES(v)),
                "per-replica value");
        SOUND();
    }
}

TEST(gradients_combined_by_the_replicas)
{
    LK_POOL {
        lk_strategy *s = mirrored(2);
        lk_variable *v = vector(s, "v");
        trainer      t = {lk_sgd(.learning_rate = 1), LK_VARIABLES(v), true, 0};
        lk_run(s, apply, LK_TUPLE(SPREAD(s, VECTOR(1, 1, 1, 1), VECTOR(1, 1, 1, 1))), &t);
        VALUES(lk_read(v), 0, 1, 2, 3); /* once, not summed */
        lk_run(s, apply, LK_TUPLE(VECTOR(1, 1, 1, 1)), &t);
        VALUES(lk_read(v), -1, 0, 1, 2);
        SOUND();
        REFUSED(LK_EINVAL, lk_run(s, apply, LK_TUPLE(SPREAD(s, VECTOR(1, 1, 1, 1), VECTOR(1, 1, 1, 2))), &t), "lk_optimizer_apply",
                "replica 1", "\"v\"", "equal");
        VALUES(lk_read(v), -1, 0, 1, 2);
    }
}

/* ---- counters and rates ---- */

REPLICA_FN(set_rate)
{
    lk_optimizer_set_learning_rate(user, 0.25);
    return LK_TUPLE(lk_optimizer_iteration(user));
}

TEST(counted_once)
{
    LK_POOL {
        lk_strategy  *s = mirrored(4);
        lk_variable  *v = vector(s, "v");
        lk_optimizer *o = lk_sgd(.learning_rate = 0.5);
        lk_run(s, apply, LK_TUPLE(SPREAD(s, VECTOR(0, 0, 0, 0), VECTOR(0, 0, 0, 0), VECTOR(0, 0, 0, 0), VECTOR(0, 0, 0, 0))),
               &(trainer){o, LK_VARIABLES(v), false, 5});
        assert_int_equal(lk_optimizer_iterations(o), 5);
        lk_tuple it = lk_local_results(s, lk_run(s, set_rate, .user = o).item[0]);
        for (int r = 0; r < 4; r++)
            VALUES(it.item[r], 5);
        assert_true(lk_optimizer_learning_rate(o) == 0.25);
        SOUND();
    }
}

/* ---- missing and mismatching gradients ---- */

REPLICA_FN(apply_some)
{
    trainer *t = user;
    lk_optimizer_apply_gradients(t->optimizer, LK_TUPLE(VECTOR(1, 1, 1, 1), NULL), t->variables);
    return LK_TUPLE();
}

REPLICA_FN(apply_on_one)
{
    trainer *t = user;
    lk_optimizer_apply_gradients(t->optimizer, LK_TUPLE(VECTOR(1, 1, 1, 1), my_id() ? NULL : VECTOR(1, 1, 1, 1)), t->variables);
    return LK_TUPLE();
}

REPLICA_FN(apply_in_other_order)
{
    trainer *t = user;
    lk_optimizer_apply_gradients(t->optimizer, LK_TUPLE(VECTOR(1, 1, 1, 1)), LK_VARIABLES(t->variables.item[my_id()]));
    return LK_TUPLE();
}

TEST(missing_gradients)
{
    LK_POOL {
        lk_strategy  *s = mirrored(2);
        lk_variable  *v[] = {vector(s, "kernel"), vector(s, "bias")};
        lk_optimizer *o = lk_sgd(.learning_rate = 1);
        trainer       t = {o, lk_variables_from(2, v), false, 0};
        LOGS(lk_run(s, apply_some, .user = &t),
             "WARNING:lockstep: sgd: no gradient for bias: not updated\n"); /* once, not per replica */
        LOGS(lk_run(s, apply_some, .user = &t), "");
        VALUES(lk_read(v[0]), -3, -2, -1, 0);
        VALUES(lk_read(v[1]), 1, 2, 3, 4);
        SOUND();
        REFUSED(LK_EINVAL, lk_run(s, apply, LK_TUPLE(NULL, NULL), &t), "sgd", "no gradients for any variable");
        REFUSED(LK_ESTATE, lk_run(s, apply_on_one, .user = &t), "lk_optimizer_apply", "replica 1", "same variables as replica 0");
        REFUSED(LK_ESTATE, lk_run(s, apply_in_other_order, .user = &t), "lk_optimizer_apply", "replica 1", "same variables");
        lk_run(s, apply_some, .user = &t);
        REFUSED(LK_ESHAPE, lk_run(s, apply, LK_TUPLE(SPREAD(s, VECTOR(1, 1, 1, 1), VECTOR(1, 1)), NULL), &t), "lk_optimizer_apply",
                "replica 0 has [4]", "replica 1 [2]");
        VALUES(lk_read(v[0]), -5, -4, -3, -2);
    }
}

/* ---- gradients made of rows ---- */

typedef struct table_training {
    lk_optimizer *optimizer;
    lk_variable  *table;
} table_training;

/* loss = sum of the rows picked, each times its weight */
static lk_tuple train_table(lk_tuple in, void *user)
{
    table_training *k = user;
    lk_tape        *tape = lk_tape_begin();
    lk_tensor      *loss = lk_reduce_sum(lk_mul(lk_nn_embedding(in.item[0], lk_read(k->table)), in.item[1]));
    lk_optimizer_apply(k->optimizer, lk_tape_gradient(tape, loss, LK_VARIABLES(k->table)));
    return LK_TUPLE();
}

static lk_optimizer *plain(void) { return lk_sgd(.learning_rate = 1); }
static lk_optimizer *adagrad(void) { return lk_adagrad(.learning_rate = 0.5); }
static lk_optimizer *rmsprop(void) { return lk_rmsprop(.learning_rate = 0.5); }
static lk_optimizer *ftrl(void) { return lk_ftrl(.learning_rate = 0.5); }
static lk_optimizer *lion(void) { return lk_lion(.learning_rate = 0.5); }

static lk_tensor *column(lk_tensor *x) { return lk_reshape(x, LK_SHAPE(-1, 1)); }

/* Duplicates add up, over replicas too, and rows that were not selected are treated as on one device. */
TEST(rows_of_a_table)
{
    static maker *const makers[] = {plain, sgd, adam, adagrad, rmsprop, ftrl, lion};
    LK_POOL {
        for (int m = 0; m < LKI_COUNT(makers); m++) {
            lk_strategy   *s = mirrored(2);
            table_training many = {makers[m](), MADE(s, lk_ones(LK_SHAPE(4, 1), LK_F32), "table")};
            table_training one = {makers[m](), lk_variable_of(lk_ones(LK_SHAPE(4, 1), LK_F32), .name = "table")};
            for (int step = 0; step < 3; step++) {
                lk_tensor *ids = SPREAD(s, VECTOR_OF(LK_I64, 3, 1), VECTOR_OF(LK_I64, 1, 1, 2)),
                          *weights = SPREAD(s, column(VECTOR(1, step)), column(VECTOR(2, 3, 4)));
                lk_run(s, train_table, LK_TUPLE(ids, weights), &many);
                train_table(LK_TUPLE(VECTOR_OF(LK_I64, 3, 1, 1, 1, 2), column(VECTOR(1, step, 2, 3, 4))), &one);
                SOUND();
                const float *x = lk_data(lk_read(many.table)), *y = lk_data(lk_read(one.table));
                for (int i = 0; i < 4; i++)
                    if (!(fabsf(x[i] - y[i]) <= 1e-5f))
                        GIVE_UP("optimiser %d, step %d, row %d: %g, not %g", m, step, i, (double)x[i], (double)y[i]);
            }
            if (m == 0) VALUES(lk_read(many.table), 1, 1 - 3 * 5 - 3, 1 - 12, 1 - 3);
        }
    }
}

typedef struct distributed_table {
    table_training k;
    lk_strategy   *strategy;
} distributed_table;

static lk_tuple train_everywhere(lk_tuple in, void *user)
{
    distributed_table *d = user;
    return lk_run(d->strategy, train_table, in, &d->k);
}

static lk_digest trained_table(int n, maker *make, bool compiled)
{
    enum { ROWS = 21 };
    distributed_table d = {.strategy = mirrored(n)};
    lk_tensor        *ids = lk_zeros(LK_SHAPE(ROWS), LK_I64), *weights = lk_zeros(LK_SHAPE(ROWS, 1), LK_F32);
    for (int i = 0; i < ROWS; i++) {
        ((int64_t *)lk_data(ids))[i] = i * i % 5;
        ((float *)lk_data(weights))[i] = 0.1f * (float)(i % 7) - 0.23f;
    }
    LK_SCOPE(d.strategy) {
        d.k = (table_training){make(), lk_variable_of(lk_glorot_uniform(LK_SHAPE(6, 2), "table"), .name = "table")};
    }
    lk_function *f = lk_function_of(train_everywhere, &d);
    lk_dataset  *data = lk_dataset_repeat(lk_dataset_batch(lk_dataset_from_tensor_slices(LK_TUPLE(ids, weights)), 8), 2);
    LK_FOR_EACH(batch, lk_distribute_dataset(d.strategy, data)) {
        if (compiled) lk_call(f, batch);
        else train_everywhere(batch, &d);
    }
    SOUND();
    return lk_variables_digest(LK_VARIABLES(d.k.table));
}

/* In lanes: the same bits on any number of replicas, op by op and compiled. */
TEST(rows_of_a_table_in_lanes)
{
    static maker *const makers[] = {sgd, adam, adagrad};
    LK_POOL {
        for (int m = 0; m < LKI_COUNT(makers); m++) {
            lk_digest first = trained_table(1, makers[m], false);
            EACH_COUNT(n)
            {
                if (!lk_digest_equal(trained_table(n, makers[m], false), first)) GIVE_UP("optimiser %d on %d replicas", m, n);
                if (!lk_digest_equal(trained_table(n, makers[m], true), first))
                    GIVE_UP("optimiser %d on %d replicas, compiled", m, n);
            }
        }
    }
}

TESTS(cmocka_unit_test(gradients_are_summed), cmocka_unit_test(every_optimizer_as_on_one_device),
      cmocka_unit_test(clipping_acts_on_the_sum), cmocka_unit_test(outside_replicas_gradients_are_combined),
      cmocka_unit_test(gradients_combined_by_the_replicas), cmocka_unit_test(counted_once), cmocka_unit_test(missing_gradients),
      cmocka_unit_test(rows_of_a_table), cmocka_unit_test(rows_of_a_table_in_lanes))
