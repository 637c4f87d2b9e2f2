/* The same bits on any number of threads: one model, trained with 1, 2, 3, 4 and 8 of them, ends with one digest. The rows of a
 * batch are split into lanes, not among threads, and sums over rows are added along one fixed tree of lanes; threads only decide
 * where a lane is computed. */
#include <lockstep.h>
#include <stdio.h>

enum { BATCH = 64, STEPS = 60, IN = 32, HIDDEN = 48, CLASSES = 7 };

typedef struct model {
    lk_variable  *weight[4];
    lk_optimizer *optimizer;
} model;

static lk_variables variables(const model *m) { return lk_variables_from(4, m->weight); }

static lk_tuple train_step(lk_tuple batch, void *user)
{
    model     *m = user;
    lk_tape   *tape = lk_tape_begin();
    lk_tensor *h = lk_nn_dense(batch.item[0], lk_read(m->weight[0]), lk_read(m->weight[1]), LK_GELU);
    lk_tensor *scores = lk_nn_dense(h, lk_read(m->weight[2]), lk_read(m->weight[3]), LK_LINEAR);
    lk_tensor *each = lk_nn_sparse_categorical_crossentropy(batch.item[1], scores, .from_logits = LK_ON);
    lk_tensor *loss = lk_compute_average_loss(each, .global_batch_size = BATCH);
    lk_optimizer_apply(m->optimizer, lk_tape_gradient(tape, loss, variables(m)));
    return LK_TUPLE(loss);
}

static lk_tuple batch_of(int rows, int number)
{
    lk_tensor *x = lk_random_normal(LK_SHAPE(rows, IN), .stream = "x", .call = number);
    lk_tensor *label = lk_argmax(lk_slice(x, LK_AXES(0, 0), LK_AXES(rows, CLASSES)), .axis = LK_AXIS(1));
    return lk_rows_all(LK_TUPLE(x, label), BATCH);
}

static lk_digest train_with(int threads, double *loss)
{
    lk_digest digest = {{0}};
    lk_set_threads(threads);
    LK_POOL { /* everything made in here goes at the end */
        model        m = {{lk_variable_of(lk_glorot_uniform(LK_SHAPE(IN, HIDDEN), "hidden"), .name = "hidden/kernel"),
                           lk_variable_of(lk_zeros(LK_SHAPE(HIDDEN), LK_F32), .name = "hidden/bias"),
                           lk_variable_of(lk_glorot_uniform(LK_SHAPE(HIDDEN, CLASSES), "scores"), .name = "scores/kernel"),
                           lk_variable_of(lk_zeros(LK_SHAPE(CLASSES), LK_F32), .name = "scores/bias")},
                          lk_adam(.learning_rate = 0.005)};
        lk_function *step = lk_function_of(train_step, &m);
        for (int i = 0; i < STEPS && !lk_failed(); i++)
            LK_STEP {
                int rows = i % 6 == 5 ? 13 : BATCH; /* the last batch of an epoch is short: later lanes are empty */
                *loss = lk_item(lk_call(step, batch_of(rows, i)).item[0]);
            }
        digest = lk_variables_digest(variables(&m));
    }
    lk_set_threads(0);
    return digest;
}

int main(void)
{
    static const int threads[] = {1, 2, 3, 4, 8};
    lk_digest        first = {{0}};
    int              different = 0;
    for (int i = 0; i < 5; i++) {
        double    loss = 0;
        lk_digest digest = train_with(threads[i], &loss);
        if (i == 0) first = digest;
        different += !lk_digest_equal(first, digest);
        char text[65];
        printf("%d thread%s  loss %.6f  weights %.16s...\n", threads[i], threads[i] == 1 ? " " : "s", loss,
               lk_digest_text(digest, text));
    }
    printf("%s\n", different ? "DIFFERENT" : "the same bits");
    if (lk_failed()) fprintf(stderr, "%s\n", lk_error());
    return lk_failed() || different;
}
