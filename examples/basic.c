/* Train a digit classifier with fit() on every device of this machine.
 *
 *     basic [EPOCHS]        12 without it; MNIST is read from $LOCKSTEP_DATA or the cache folder, where it is fetched to */
#include <lockstep.h>
#include <stdio.h>
#include <stdlib.h>

enum { EPOCHS = 12 };

static lk_tuple scale(lk_tuple example, void *user)
{
    (void)user;
    lk_tensor *image = example.item[0], *label = example.item[1];
    return LK_TUPLE(lk_div(lk_cast(image, LK_F32), lk_scalar(255)), label);
}

int main(int argc, char **argv)
{
    int          epochs = argc > 1 ? atoi(argv[1]) : EPOCHS;
    lk_strategy *strategy = lk_mirrored_strategy(); /* all GPUs, else the CPU */
    int          replicas = lk_num_replicas_in_sync(strategy);
    printf("Number of devices: %d\n", replicas);

    lk_dataset *train = lk_dataset_map(lk_mnist(.split = LK_TRAIN), scale);
    train = lk_dataset_cache(train);
    train = lk_dataset_shuffle(train, 10000);
    train = lk_dataset_batch(train, 64 * replicas);

    lk_dataset *eval = lk_dataset_map(lk_mnist(.split = LK_TEST), scale);
    eval = lk_dataset_batch(eval, 64 * replicas);

    lk_model *model = NULL;
    LK_SCOPE(strategy) {
        model = lk_sequential(lk_conv2d(32, 3, .activation = LK_RELU, .input_shape = LK_SHAPE(28, 28, 1)), lk_max_pooling2d(),
                              lk_flatten(), lk_dense(64, .activation = LK_RELU), lk_dense(10));
    }
    lk_model_compile(model, .loss = lk_sparse_categorical_crossentropy(.from_logits = LK_ON), .optimizer = lk_adam(),
                     .metrics = LK_METRICS(lk_accuracy()));
    lk_model_summary(model);

    lk_history *history = lk_model_fit(model, train, .epochs = epochs, .validation_data = eval);
    lk_history_plot(history, "basic.svg");

    if (lk_failed()) {
        fprintf(stderr, "%s\n", lk_error());
        return 1;
    }
    return 0;
}
