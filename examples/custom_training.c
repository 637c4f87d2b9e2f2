/* The same training, with the loop in your own hands: tape, losses, metrics, checkpoints.
 *
 *     custom_training [EPOCHS]        10 without it; Fashion-MNIST is read from $LOCKSTEP_DATA or the cache folder */
#include <lockstep.h>
#include <stdio.h>
#include <stdlib.h>

enum { BATCH_PER_REPLICA = 64, EPOCHS = 10 };

static lk_strategy  *strategy;
static lk_model     *model;
static lk_optimizer *optimizer;
static lk_loss      *loss_object;
static lk_metric    *train_accuracy, *test_accuracy, *test_loss;
static int           global_batch;

static lk_model *create_model(void)
{
    lk_regularizer *l2 = lk_l2(1e-5);
    return lk_sequential(lk_conv2d(32, 3, .activation = LK_RELU, .kernel_regularizer = l2), lk_max_pooling2d(),
                         lk_conv2d(64, 3, .activation = LK_RELU, .kernel_regularizer = l2), lk_max_pooling2d(), lk_flatten(),
                         lk_dense(64, .activation = LK_RELU, .kernel_regularizer = l2), lk_dense(10, .kernel_regularizer = l2));
}

static lk_tensor *compute_loss(lk_tensor *labels, lk_tensor *predictions)
{
    lk_tensor *per_example = lk_loss_call(loss_object, labels, predictions);
    lk_tensor *loss = lk_compute_average_loss(per_example, .global_batch_size = global_batch);
    lk_tuple   reg = lk_model_losses(model);
    return reg.count ? lk_add(loss, lk_scale_regularization_loss(lk_add_n(reg))) : loss;
}

/* Runs on every replica at once, on that replica's rows. */
static lk_tuple train_step(lk_tuple batch, void *user)
{
    (void)user;
    lk_tensor *images = batch.item[0], *labels = batch.item[1], *predictions, *loss;
    lk_tape   *tape = lk_tape_begin();
    predictions = lk_model_call(model, images, .training = LK_ON);
    loss = compute_loss(labels, predictions);
    lk_grads *grads = lk_tape_gradient(tape, loss, lk_model_trainable_variables(model));
    lk_optimizer_apply(optimizer, grads); /* summed over the replicas, then applied */
    lk_metric_update(train_accuracy, labels, predictions);
    return LK_TUPLE(loss);
}

static lk_tuple test_step(lk_tuple batch, void *user)
{
    (void)user;
    lk_tensor *predictions = lk_model_call(model, batch.item[0], .training = LK_OFF);
    lk_metric_update(test_loss, lk_loss_call(loss_object, batch.item[1], predictions));
    lk_metric_update(test_accuracy, batch.item[1], predictions);
    return LK_TUPLE();
}

static lk_tuple distributed_train_step(lk_tuple batch, void *user)
{
    lk_tuple losses = lk_run(strategy, train_step, batch, user);
    return LK_TUPLE(lk_reduce(strategy, LK_SUM, losses.item[0], .axis = LK_NO_AXIS));
}

static lk_tuple distributed_test_step(lk_tuple batch, void *user) { return lk_run(strategy, test_step, batch, user); }

/* A whole epoch as one compiled call: total is carried from step to step. */
static lk_tuple add_step(lk_tuple total, lk_tuple batch, void *user)
{
    lk_tuple loss = distributed_train_step(batch, user);
    return LK_TUPLE(lk_add(total.item[0], loss.item[0]), lk_add(total.item[1], lk_scalar(1)));
}

int main(int argc, char **argv)
{
    int epochs = argc > 1 ? atoi(argv[1]) : EPOCHS;
    strategy = lk_mirrored_strategy(.devices = LK_DEVICES("CPU:0", "CPU:1"));
    global_batch = BATCH_PER_REPLICA * lk_num_replicas_in_sync(strategy);
    printf("Number of devices: %d\n", lk_num_replicas_in_sync(strategy));

    lk_dataset *train =
        lk_dataset_batch(lk_dataset_shuffle(lk_fashion_mnist(.split = LK_TRAIN, .scaled = LK_ON), 60000), global_batch);
    lk_dataset *test = lk_dataset_batch(lk_fashion_mnist(.split = LK_TEST, .scaled = LK_ON), global_batch);
    lk_dataset *train_dist = lk_distribute_dataset(strategy, train);
    lk_dataset *test_dist = lk_distribute_dataset(strategy, test);

    lk_checkpoint *checkpoint = NULL;
    LK_SCOPE(strategy) {
        loss_object = lk_sparse_categorical_crossentropy(.from_logits = LK_ON, .reduction = LK_REDUCTION_NONE);
        test_loss = lk_mean(.name = "test_loss");
        train_accuracy = lk_sparse_categorical_accuracy(.name = "train_accuracy");
        test_accuracy = lk_sparse_categorical_accuracy(.name = "test_accuracy");
        model = create_model();
        optimizer = lk_adam(.learning_rate = 0.001);
        checkpoint = lk_checkpoint_of({"optimizer", optimizer}, {"model", model});
    }

    /* Traced once per shape, planned, then replayed. */
    lk_function *train_fn = lk_function_of(distributed_train_step);
    lk_function *test_fn = lk_function_of(distributed_test_step);

    for (int epoch = 0; epoch < epochs && !lk_failed(); epoch++) {
        double total = 0;
        int    steps = 0;
        LK_FOR_EACH(batch, train_dist) {
            total += lk_item(lk_call(train_fn, batch).item[0]);
            steps++;
        }
        LK_FOR_EACH(batch, test_dist)
            lk_call(test_fn, batch);
        if (epoch % 2 == 0) lk_checkpoint_save(checkpoint, "training_checkpoints/ckpt");
        printf("Epoch %d, Loss: %g, Accuracy: %g, Test Loss: %g, Test Accuracy: %g\n", epoch + 1, total / steps,
               lk_metric_result(train_accuracy) * 100, lk_metric_result(test_loss), lk_metric_result(test_accuracy) * 100);
        lk_metric_reset(test_loss);
        lk_metric_reset(train_accuracy);
        lk_metric_reset(test_accuracy);
    }

    /* Ten steps at a time, with an explicit iterator. */
    lk_iterator *it = lk_iterator_of(train_dist);
    lk_tuple     batch;
    double       ten = 0;
    for (int i = 0; i < 10 && lk_next(it, &batch); i++)
        ten += lk_item(lk_call(train_fn, batch).item[0]);
    printf("ten steps, Loss: %g\n", ten / 10);

    /* A whole epoch inside one compiled call. */
    lk_tuple sums = lk_dataset_reduce(train_dist, LK_TUPLE(lk_scalar(0), lk_scalar(0)), add_step);
    printf("one epoch, Loss: %g\n", lk_item(sums.item[0]) / lk_item(sums.item[1]));

    /* The saved weights, restored without any strategy. */
    lk_model  *plain = create_model();
    lk_metric *plain_accuracy = lk_sparse_categorical_accuracy();
    lk_checkpoint_restore(lk_checkpoint_of({"model", plain}), lk_latest_checkpoint("training_checkpoints"));
    LK_FOR_EACH(rows, test)
        lk_metric_update(plain_accuracy, rows.item[1], lk_model_call(plain, rows.item[0], .training = LK_OFF));
    printf("Accuracy after restoring the saved model without strategy: %g\n", lk_metric_result(plain_accuracy) * 100);

    if (lk_failed()) fprintf(stderr, "%s\n", lk_error());
    return lk_failed();
}
