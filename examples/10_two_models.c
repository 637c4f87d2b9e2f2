/* Two models in two threads at the same time. Each thread has a runtime of its own: settings, seed and threads that compute.
 * Neither waits for the other, and each model ends with the bits it has when it is trained alone. */
#include <lockstep.h>
#include <stdio.h>
#include <threads.h>

typedef struct job {
    int       seed, units;
    lk_digest digest;
    double    accuracy;
    bool      failed;
} job;

static void train(job *j)
{
    lk_dataset *rows = lk_dataset_batch(lk_dataset_take(lk_digits(.scaled = true), 4000), 50);
    lk_model   *model =
        lk_sequential(lk_flatten(.input_shape = LK_SHAPE(28, 28, 1)), lk_dense(j->units, .activation = LK_RELU), lk_dense(10));
    lk_model_compile(model, .loss = lk_sparse_categorical_crossentropy(.from_logits = true), .optimizer = lk_adam(),
                     .metrics = LK_METRICS(lk_accuracy()));
    lk_history *history = lk_model_fit(model, rows, .epochs = 2, .verbose = 0);
    j->accuracy = lk_history_value(history, "accuracy", lk_history_epochs(history) - 1);
    j->digest = lk_model_digest(model);
}

/* An error belongs to its thread, so the thread looks for it before it ends. */
static int train_in_thread(void *arg)
{
    job *j = arg;
    LK_POOL {
        lk_runtime *runtime = lk_runtime_of(.threads = 1, .seed = j->seed);
        LK_WITH_RUNTIME(runtime) train(j);
    }
    j->failed = lk_failed();
    if (j->failed) fprintf(stderr, "%s\n", lk_error());
    return 0;
}

static void show(const char *when, const job *j)
{
    char text[65];
    printf("%-8s  %3d units  accuracy %.3f  weights %.16s...\n", when, j->units, j->accuracy, lk_digest_text(j->digest, text));
}

int main(void)
{
    job    together[2] = {{.seed = 1, .units = 32}, {.seed = 2, .units = 64}}, alone[2] = {together[0], together[1]};
    thrd_t thread[2];
    bool   good = true;
    for (int i = 0; i < 2; i++)
        if (thrd_create(&thread[i], train_in_thread, &together[i]) != thrd_success) return 1;
    for (int i = 0; i < 2; i++)
        thrd_join(thread[i], NULL);
    for (int i = 0; i < 2; i++) {
        train_in_thread(&alone[i]);
        show("together", &together[i]);
        show("alone", &alone[i]);
        good = good && !together[i].failed && !alone[i].failed && lk_digest_equal(together[i].digest, alone[i].digest);
    }
    printf("%s\n", good ? "the same bits" : "DIFFERENT");
    return !good;
}
