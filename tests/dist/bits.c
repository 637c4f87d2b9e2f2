/* The same bits on any number of replicas: the loop of examples/custom_training.c over real Fashion-MNIST (LOCKSTEP_DATA), with a
 * seed, a global batch of 512 and the replica count as arguments. Two epochs, the last batch of each with 96 rows, L2 included: one
 * digest of the weights for 1, 2, 4 and 8 replicas, and for 3, whose lanes are not aligned halves; losses and accuracies are equal
 * too. With LK_FREE digests differ, which shows that the equality is not an accident.
 *
 *     bits [REPLICAS [EPOCHS [G [SEED]]]]      prints one digest; without arguments it is the test. LOCKSTEP_SOAK=1: two epochs for
 *                                              all; else one over part of the rows */
#include "check.h"
#include <lockstep.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct run {
    int           replicas, epochs;
    int64_t       batch, rows; /* rows 0: all */
    uint64_t      seed;
    lk_order      order;
    bool          eager;
    lk_strategy  *strategy;
    lk_model     *model;
    lk_optimizer *optimizer;
    lk_loss      *loss;
    lk_metric    *accuracy;
    lk_digest     digest; /* what came out */
    double        last_loss, last_accuracy;
} run;

static lk_tuple train_step(lk_tuple batch, void *user)
{
    run       *r = user;
    lk_tape   *tape = lk_tape_begin();
    lk_tensor *predictions = lk_model_call(r->model, batch.item[0], .training = LK_ON);
    lk_tensor *loss = lk_compute_average_loss(lk_loss_call(r->loss, batch.item[1], predictions), .global_batch_size = r->batch);
    loss = lk_add(loss, lk_scale_regularization_loss(lk_add_n(lk_model_losses(r->model))));
    lk_optimizer_apply(r->optimizer, lk_tape_gradient(tape, loss, lk_model_trainable_variables(r->model)));
    lk_metric_update(r->accuracy, batch.item[1], predictions);
    return LK_TUPLE(loss);
}

static lk_tuple distributed(lk_tuple batch, void *user)
{
    run *r = user;
    return LK_TUPLE(lk_reduce(r->strategy, LK_SUM, lk_run(r->strategy, train_step, batch, r).item[0]));
}

static void make(run *r)
{
    lk_regularizer *l2 = lk_l2(1e-5);
    r->loss = lk_sparse_categorical_crossentropy(.from_logits = LK_ON, .reduction = LK_REDUCTION_NONE);
    r->accuracy = lk_sparse_categorical_accuracy();
    r->model = lk_sequential(lk_conv2d(32, 3, .activation = LK_RELU, .kernel_regularizer = l2), lk_max_pooling2d(),
                             lk_conv2d(64, 3, .activation = LK_RELU, .kernel_regularizer = l2), lk_max_pooling2d(), lk_flatten(),
                             lk_dense(64, .activation = LK_RELU, .kernel_regularizer = l2), lk_dense(10, .kernel_regularizer = l2));
    r->optimizer = lk_adam(.learning_rate = 0.001);
}

static void train(run *r)
{
    lk_set_random_seed(r->seed);
    r->strategy = lk_mirrored_strategy(.cpu_devices = r->replicas, .order = r->order);
    lk_dataset *rows = lk_fashion_mnist(.split = LK_TRAIN, .scaled = LK_ON);
    if (r->rows) rows = lk_dataset_take(rows, r->rows);
    lk_dataset *data = lk_distribute_dataset(r->strategy, lk_dataset_batch(lk_dataset_shuffle(rows, 60000), r->batch));
    LK_SCOPE(r->strategy)
        make(r);
    lk_function *step = lk_function_of(distributed, r);
    for (int epoch = 0; epoch < r->epochs; epoch++)
        LK_FOR_EACH(batch, data)
            r->last_loss = lk_item((r->eager ? distributed(batch, r) : lk_call(step, batch)).item[0]);
    r->last_accuracy = lk_metric_result(r->accuracy);
    r->digest = lk_model_digest(r->model);
    if (lk_failed()) fail_msg("%d replicas: %s", r->replicas, lk_error());
}

static run trained(run r)
{
    LK_POOL
        train(&r);
    return r;
}

static void assert_same(const run *a, const run *b, const char *what)
{
    if (lk_digest_equal(a->digest, b->digest) && a->last_loss == b->last_loss && a->last_accuracy == b->last_accuracy) return;
    fail_msg("%s: 1 replica and %d replicas differ: loss %.9g and %.9g, accuracy %.9g and %.9g", what, b->replicas, a->last_loss,
             b->last_loss, a->last_accuracy, b->last_accuracy);
}

static void quiet(const char *text, void *user) { (void)text, (void)user; }

static bool has_data(void)
{
    lk_set_log(quiet, NULL);
    if (!getenv("LOCKSTEP_DATA")) printf("skipped: LOCKSTEP_DATA is not set, and the runs over Fashion-MNIST want it\n");
    return getenv("LOCKSTEP_DATA") != NULL;
}

static run usual(int replicas)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return (run){.replicas = replicas, .epochs = 1, .batch = 512, .rows = 608, .seed = 7};
#else
    const char *soak = getenv("LOCKSTEP_SOAK");
    bool        all = soak && *soak == '1';
    return (run){.replicas = replicas, .epochs = all ? 2 : 1, .batch = 512, .rows = all ? 0 : 512 * 6 + 96, .seed = 7};
#endif
}

TEST(one_digest_for_any_number_of_replicas)
{
    static const int counts[] = {2, 4, 8, 3};
    if (!has_data()) skip();
    run one = trained(usual(1));
    for (int i = 0; i < 4; i++) {
        run many = trained(usual(counts[i]));
        assert_same(&one, &many, "compiled");
    }
}

TEST(eager_equals_compiled)
{
    if (!has_data()) skip();
    run one = usual(1);
    one.rows = 608;
    one.epochs = 1;
    run eager = one, many = one;
    eager.eager = many.eager = true;
    one = trained(one);
    eager = trained(eager);
    assert_same(&one, &eager, "eager");
    for (int n = 2; n <= 8; n = n == 2 ? 3 : n == 3 ? 8 : 9) {
        run other = many;
        other.replicas = n;
        other = trained(other);
        assert_same(&one, &other, "eager");
    }
}

TEST(without_order_digests_differ)
{
    int different = 0;
    if (!has_data()) skip();
    run first = usual(1);
    first.order = LK_FREE;
    first = trained(first);
    for (int n = 2; n <= 8; n *= 2) {
        run other = usual(n);
        other.order = LK_FREE;
        other = trained(other);
        different += !lk_digest_equal(first.digest, other.digest);
        assert_true(other.last_loss < 1.5 * first.last_loss + 1e-3); /* it trains all the same */
    }
    assert_true(different > 0);
}

static int print_digest(int argc, char **argv)
{
    char text[65];
    run  r = {.replicas = atoi(argv[1]),
              .epochs = argc > 2 ? atoi(argv[2]) : 2,
              .batch = argc > 3 ? atoi(argv[3]) : 512,
              .seed = argc > 4 ? strtoull(argv[4], NULL, 10) : 7,
              .order = getenv("FREE") ? LK_FREE : LK_ORDERED};
    lk_set_log(quiet, NULL);
    train(&r);
    printf("%d replicas: %s  loss %.9g, accuracy %.9g\n", r.replicas, lk_digest_text(r.digest, text), r.last_loss, r.last_accuracy);
    return 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(one_digest_for_any_number_of_replicas),
                                       cmocka_unit_test(eager_equals_compiled), cmocka_unit_test(without_order_digests_differ)};
    return argc > 1 ? print_digest(argc, argv) : cmocka_run_group_tests(tests, NULL, NULL);
}
