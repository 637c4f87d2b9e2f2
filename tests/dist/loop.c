/* Section 16 of the specification: the training loop of the tutorial in its three styles, its counts of steps, and every row once
 * per epoch; exactly the same numbers on any number of replicas. */
#include "dist/replicas.h"

/* ---- how many steps ---- */

TEST(steps_and_last_batches)
{
    static const struct {
        int n, train_steps, train_last, test_steps, test_last;
    } table[] = {{1, 938, 32, 157, 16}, {2, 469, 96, 79, 16}, {4, 235, 96, 40, 16}, {8, 118, 96, 20, 272}};
    LK_POOL {
        for (int i = 0; i < LKI_COUNT(table); i++)
            for (int test = 0; test < 2; test++) {
                lk_strategy *s = mirrored(table[i].n);
                lk_dataset *d = lk_distribute_dataset(s, lk_dataset_batch(lk_dataset_range(test ? 10000 : 60000), 64 * table[i].n));
                int         steps = 0;
                int64_t     last = 0, rows = 0;
                assert_int_equal(lk_dataset_cardinality(d), test ? table[i].test_steps : table[i].train_steps);
                LK_FOR_EACH(batch, d) {
                    lk_tuple each = lk_local_results(s, batch.item[0]);
                    last = 0;
                    for (int r = 0; r < each.count; r++)
                        last += lk_size(each.item[r]);
                    rows += last;
                    steps++;
                }
                assert_int_equal(steps, test ? table[i].test_steps : table[i].train_steps);
                assert_int_equal(last, test ? table[i].test_last : table[i].train_last);
                assert_int_equal(rows, test ? 10000 : 60000);
                SOUND();
            }
    }
}

/* ---- a small problem: 45 rows of 3 numbers, shuffled, in batches of 16 ---- */

enum { ROWS = 45, BATCH = 16, EPOCHS = 3, STEPS = 3 };

typedef struct loop {
    lk_strategy  *strategy;
    lk_variable  *w;
    lk_optimizer *optimizer;
    lk_metric    *accuracy, *test_loss;
    lk_function  *step;
    int           seen[ROWS];
} loop;

REPLICA_FN(train_step)
{
    loop      *l = user;
    lk_tape   *tape = lk_tape_begin();
    lk_tensor *logits = lk_matmul(in.item[0], lk_read(l->w));
    lk_tensor *each = lk_nn_sparse_categorical_crossentropy(in.item[1], logits, .from_logits = LK_ON);
    lk_tensor *loss = lk_compute_average_loss(each, .global_batch_size = BATCH);
    loss = lk_add(loss, lk_scale_regularization_loss(lk_nn_l2(lk_read(l->w), 0.01)));
    lk_optimizer_apply(l->optimizer, lk_tape_gradient(tape, loss, LK_VARIABLES(l->w)));
    lk_metric_update(l->accuracy, in.item[1], logits);
    lk_metric_update(l->test_loss, each);
    return LK_TUPLE(loss);
}

static lk_tuple distributed_step(lk_tuple in, void *user)
{
    loop *l = user;
    return LK_TUPLE(lk_reduce(l->strategy, LK_SUM, lk_run(l->strategy, train_step, in, l).item[0]));
}

static lk_dataset *data_for(lk_strategy *s)
{
    lk_tensor *x = lk_zeros(LK_SHAPE(ROWS, 3), LK_F32), *y = lk_zeros(LK_SHAPE(ROWS), LK_I64);
    for (int i = 0; i < ROWS; i++) {
        for (int k = 0; k < 3; k++)
            ((float *)lk_data(x))[3 * i + k] = (float)((i * 37 + k * 11) % 19) / 10 - 1;
        ((int64_t *)lk_data(y))[i] = i % 2;
    }
    lk_dataset *rows = lk_dataset_from_tensor_slices(LK_TUPLE(x, y, lk_range(ROWS, LK_I64)));
    return lk_distribute_dataset(s, lk_dataset_batch(lk_dataset_shuffle(rows, ROWS), BATCH));
}

static loop loop_new(lk_strategy *s)
{
    loop l = {.strategy = s};
    LK_SCOPE(s) {
        l.w = lk_variable_of(lk_glorot_uniform(LK_SHAPE(3, 2), "w"), .name = "w");
        l.optimizer = lk_adam(.learning_rate = 0.05);
        l.accuracy = lk_sparse_categorical_accuracy(.name = "accuracy");
        l.test_loss = lk_mean(.name = "test_loss");
    }
    return l;
}

static void note_rows(loop *l, lk_tensor *ids)
{
    lk_tensor *all = lk_gather_values(l->strategy, ids);
    for (int64_t i = 0; i < lk_size(all); i++)
        l->seen[((const int64_t *)lk_data(all))[i]]++;
}

typedef struct outcome {
    double    loss[EPOCHS], accuracy[EPOCHS];
    lk_digest digest;
} outcome;

static void end_epoch(loop *l, outcome *o, int epoch, double total)
{
    o->loss[epoch] = total / STEPS;
    o->accuracy[epoch] = lk_metric_result(l->accuracy);
    assert_true(lk_metric_result(l->test_loss) > 0);
    lk_metric_reset_states(l->accuracy);
    lk_metric_reset(l->test_loss);
    assert_true(lk_metric_result(l->accuracy) == 0);
    for (int i = 0; i < ROWS; i++)
        assert_int_equal(l->seen[i], epoch + 1); /* every row once per epoch */
    SOUND();
}

/* Style 1: for over the dataset. Compiled, or op by op. */
static outcome with_for(lk_strategy *s, bool compiled)
{
    loop         l = loop_new(s);
    lk_dataset  *d = data_for(s);
    outcome      o = {0};
    lk_function *f = compiled ? lk_function_of(distributed_step, &l) : NULL;
    for (int epoch = 0; epoch < EPOCHS; epoch++) {
        double total = 0;
        LK_FOR_EACH(batch, d) {
            note_rows(&l, batch.item[2]);
            lk_tuple in = LK_TUPLE(batch.item[0], batch.item[1]);
            total += lk_item((f ? lk_call(f, in) : distributed_step(in, &l)).item[0]);
        }
        end_epoch(&l, &o, epoch, total);
    }
    o.digest = lk_variables_digest(LK_VARIABLES(l.w));
    return o;
}

/* Style 2: an iterator and next, a fixed number of steps per epoch. */
static outcome with_iterator(lk_strategy *s)
{
    loop        l = loop_new(s);
    lk_dataset *d = data_for(s);
    outcome     o = {0};
    for (int epoch = 0; epoch < EPOCHS; epoch++) {
        lk_iterator *it = lk_iterator_of(d);
        double       total = 0;
        lk_tuple     batch;
        for (int i = 0; i < STEPS; i++) {
            assert_true(lk_next(it, &batch));
            note_rows(&l, batch.item[2]);
            total += lk_item(distributed_step(LK_TUPLE(batch.item[0], batch.item[1]), &l).item[0]);
        }
        assert_false(lk_next(it, &batch));
        end_epoch(&l, &o, epoch, total);
    }
    o.digest = lk_variables_digest(LK_VARIABLES(l.w));
    return o;
}

/* Style 3: the whole epoch in one compiled function. */
static lk_tuple one_more(lk_tuple state, lk_tuple batch, void *user)
{
    lk_tuple loss = distributed_step(LK_TUPLE(batch.item[0], batch.item[1]), user);
    return LK_TUPLE(lk_add(state.item[0], loss.item[0]), lk_add(state.item[1], lk_scalar(1)));
}

static outcome with_reduce(lk_strategy *s)
{
    loop        l = loop_new(s);
    lk_dataset *d = data_for(s);
    outcome     o = {0};
    for (int epoch = 0; epoch < EPOCHS; epoch++) {
        lk_tuple end = lk_dataset_reduce(d, LK_TUPLE(lk_fill(LK_SHAPE(), LK_F32, 0), lk_fill(LK_SHAPE(), LK_F32, 0)), one_more, &l);
        SOUND();
        for (int i = 0; i < ROWS; i++)
            l.seen[i]++;
        assert_true(lk_item(end.item[1]) == STEPS);
        end_epoch(&l, &o, epoch, lk_item(end.item[0]));
    }
    o.digest = lk_variables_digest(LK_VARIABLES(l.w));
    return o;
}

static void same_outcome(const outcome *a, const outcome *b, bool exact)
{
    for (int i = 0; i < EPOCHS; i++) {
        assert_true(fabs(a->loss[i] - b->loss[i]) <= (exact ? 0 : 1e-6));
        assert_true(a->accuracy[i] == b->accuracy[i]);
    }
    assert_true(lk_digest_equal(a->digest, b->digest));
}

TEST(three_styles_any_number_of_replicas)
{
    LK_POOL {
        outcome first = with_for(mirrored(1), false);
        assert_true(first.loss[EPOCHS - 1] < first.loss[0]);
        EACH_COUNT(n)
        {
            lk_strategy *s = mirrored(n);
            outcome      o = with_for(s, false);
            same_outcome(&o, &first,
                         n != 3); /* what a user sums by hand is exact where n divides the lanes; what is applied always */
            o = with_for(s, true);
            same_outcome(&o, &first, n != 3);
            o = with_iterator(s);
            same_outcome(&o, &first, n != 3);
            o = with_reduce(s);
            same_outcome(&o, &first, false); /* its total is kept in f32 */
        }
    }
}

/* ---- the first form of run ---- */

REPLICA_FN(sum_rows) { return LK_TUPLE(lk_reduce_sum(in.item[0])); }

TEST(experimental_run)
{
    LK_POOL {
        lk_strategy *s = mirrored(2);
        lk_iterator *it = lk_iterator_of(lk_distribute_dataset(s, lk_dataset_batch(lk_dataset_range(8), 4)));
        PER_REPLICA(s, lk_experimental_run(s, sum_rows, it, NULL).item[0], 1, 5);
        PER_REPLICA(s, lk_experimental_run(s, sum_rows, it, NULL).item[0], 9, 13);
        assert_int_equal(lk_experimental_run(s, sum_rows, it, NULL).count, 0);
        SOUND();
    }
}

/* Section 17: without a strategy, and on one device. */
TEST(the_other_strategies)
{
    LK_POOL {
        lk_dataset *d = lk_dataset_batch(lk_dataset_range(10), 2);
        assert_ptr_equal(lk_distribute_dataset(lk_default_strategy(), d), d);
        lk_strategy *one = lk_one_device_strategy("CPU:0");
        int          step = 0;
        LK_FOR_EACH(batch, lk_distribute_dataset(one, d)) {
            VALUES(batch.item[0], 2 * step, 2 * step + 1);
            step++;
        }
        assert_int_equal(step, 5);
        SOUND();
    }
}

TESTS(cmocka_unit_test(steps_and_last_batches), cmocka_unit_test(three_styles_any_number_of_replicas),
      cmocka_unit_test(experimental_run), cmocka_unit_test(the_other_strategies))
