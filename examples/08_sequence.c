/* Sequences: an embedding and an LSTM. A sequence of letters holds one marker; the class is the letter after it, to be remembered
 * until the end. The sequences have different lengths: a mask says which steps count. */
#include <lockstep.h>
#include <stdio.h>

enum { BATCH = 64, STEPS = 12, LETTERS = 6, MARKER = LETTERS, SYMBOLS, WIDTH = 12, UNITS = 24, TRAIN = 250 };

static lk_variable  *weight[6]; /* table, kernel, recurrent, bias, output kernel, output bias */
static lk_optimizer *optimizer;

static lk_variable *drawn(const char *name, int rows, int columns)
{
    return lk_variable_of(lk_glorot_uniform(LK_SHAPE(rows, columns), name), .name = name);
}

static void make_model(void)
{
    weight[0] = drawn("embedding", SYMBOLS, WIDTH);
    weight[1] = drawn("lstm/kernel", WIDTH, 4 * UNITS);
    weight[2] = drawn("lstm/recurrent", UNITS, 4 * UNITS);
    weight[3] = lk_variable_of(lk_zeros(LK_SHAPE(4 * UNITS), LK_F32), .name = "lstm/bias");
    weight[4] = drawn("scores/kernel", UNITS, LETTERS);
    weight[5] = lk_variable_of(lk_zeros(LK_SHAPE(LETTERS), LK_F32), .name = "scores/bias");
    optimizer = lk_adam(.learning_rate = 0.01, .clipnorm = 1);
}

/* in: symbols [n, steps] i32, how many of them count [n, 1] i32, class [n] i32; out: loss, hits. */
static lk_tuple train_step(lk_tuple in, void *user)
{
    (void)user;
    lk_tape   *tape = lk_tape_begin();
    lk_tensor *mask = lk_less(lk_broadcast_to(lk_range(STEPS, LK_I32), LK_SHAPE(1, STEPS)), in.item[1]);
    lk_tensor *x = lk_nn_embedding(in.item[0], lk_read(weight[0]));
    lk_tensor *h = lk_nn_lstm(x, lk_read(weight[1]), lk_read(weight[2]), lk_read(weight[3]), .mask = mask);
    lk_tensor *scores = lk_nn_dense(h, lk_read(weight[4]), lk_read(weight[5]), LK_LINEAR);
    lk_tensor *each = lk_nn_sparse_categorical_crossentropy(in.item[2], scores, .from_logits = LK_ON);
    lk_tensor *loss = lk_compute_average_loss(each, .global_batch_size = BATCH);
    lk_optimizer_apply(optimizer, lk_tape_gradient(tape, loss, lk_variables_from(6, weight)));
    lk_tensor *hit = lk_equal(lk_cast(lk_argmax(scores, .axis = LK_AXIS(1)), LK_I32), in.item[2]);
    return LK_TUPLE(loss, lk_reduce_sum(lk_cast(hit, LK_F32)));
}

/* Numbers from 0 to 1 for batch `number`. */
static const float *draw(const char *stream, int number, int count)
{
    return lk_data(lk_random_uniform(LK_SHAPE(count), .stream = stream, .call = number));
}

static lk_tuple batch_of(int number)
{
    static int32_t symbols[BATCH][STEPS], length[BATCH], wanted[BATCH];
    const float   *letter = draw("letters", number, BATCH * STEPS), *place = draw("places", number, BATCH),
                *end = draw("ends", number, BATCH);
    for (int i = 0; i < BATCH; i++) {
        int marker = (int)(place[i] * (STEPS - 4));
        for (int t = 0; t < STEPS; t++)
            symbols[i][t] = (int32_t)(letter[i * STEPS + t] * LETTERS);
        symbols[i][marker] = MARKER;
        wanted[i] = symbols[i][marker + 1];
        length[i] = marker + 2 + (int)(end[i] * (float)(STEPS - marker - 1));
    }
    lk_tensor *x = lk_tensor_from(LK_SHAPE(BATCH, STEPS), LK_I32, symbols), *n = lk_tensor_from(LK_SHAPE(BATCH, 1), LK_I32, length);
    return LK_TUPLE(lk_rows(x, 0), lk_rows(n, 0), lk_rows(lk_tensor_from(LK_SHAPE(BATCH), LK_I32, wanted), 0));
}

int main(void)
{
    double hits = 0;
    make_model();
    lk_function *step = lk_function_of(train_step);
    for (int i = 1; i <= TRAIN && !lk_failed(); i++)
        LK_STEP {
            lk_tuple result = lk_call(step, batch_of(i)); /* every batch is new */
            hits = 0.9 * hits + 0.1 * lk_item(result.item[1]);
            if (i % 50 == 0) printf("step %3d  loss %.4f  accuracy about %.3f\n", i, lk_item(result.item[0]), hits / BATCH);
        }
    if (lk_failed()) fprintf(stderr, "%s\n", lk_error());
    return lk_failed() || hits / BATCH < 0.95;
}
