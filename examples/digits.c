/* A digit classifier: conv 32 - pool - dense 64 - dense 10, trained by Adam in compiled steps of 64 rows.
 *
 *     digits [epochs [threads]]          default 4, and all cores
 *
 * The digits are drawn on the fly (strokes.h). The last line is a digest of all weights: it does not depend on the number of threads. */
#include "strokes.h"
#include <lockstep.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { TRAIN = 12000, TEST = 2000, BATCH = 64, EPOCHS = 4 };

static uint8_t train_image[TRAIN][STROKES_PIXELS], train_label[TRAIN];
static uint8_t test_image[TEST][STROKES_PIXELS], test_label[TEST];

static lk_variable  *weight[6]; /* kernel, bias, kernel, bias, ... */
static lk_optimizer *optimizer;

/* ---- the model ---- */

static lk_variable *kernel(const char *name, lk_shape shape)
{
    return lk_variable_of(lk_glorot_uniform(shape, name), .name = name);
}
static lk_variable *bias(const char *name, int units) { return lk_variable_of(lk_zeros(LK_SHAPE(units), LK_F32), .name = name); }

static void make_model(void)
{
    weight[0] = kernel("conv/kernel", LK_SHAPE(3, 3, 1, 32));
    weight[1] = bias("conv/bias", 32);
    weight[2] = kernel("hidden/kernel", LK_SHAPE(13 * 13 * 32, 64));
    weight[3] = bias("hidden/bias", 64);
    weight[4] = kernel("scores/kernel", LK_SHAPE(64, 10));
    weight[5] = bias("scores/bias", 10);
    optimizer = lk_adam(.learning_rate = 0.001);
}

static lk_tensor *scores_of(lk_tensor *pixels)
{
    lk_tensor *w[6];
    for (int i = 0; i < 6; i++)
        w[i] = lk_read(weight[i]);
    lk_tensor *x = lk_mul(lk_cast(pixels, LK_F32), lk_scalar(1.0 / 255));
    x = lk_nn_max_pool2d(lk_nn_conv2d(x, w[0], w[1], .activation = LK_RELU));
    x = lk_nn_dense(lk_flatten_rows(x), w[2], w[3], LK_RELU);
    return lk_nn_dense(x, w[4], w[5], LK_LINEAR);
}

static lk_tensor *hits_of(lk_tensor *scores, lk_tensor *labels)
{
    lk_tensor *hit = lk_equal(lk_argmax(scores, .axis = LK_AXIS(1)), lk_cast(labels, LK_I64));
    return lk_reduce_sum(lk_cast(hit, LK_F32));
}

/* The loss of the whole batch, and how many rows were recognised. Traced once per shape, then replayed. */
static lk_tuple train_step(lk_tuple batch, void *user)
{
    (void)user;
    lk_tape   *tape = lk_tape_begin();
    lk_tensor *scores = scores_of(batch.item[0]);
    lk_tensor *each = lk_nn_sparse_categorical_crossentropy(batch.item[1], scores, .from_logits = LK_ON);
    lk_tensor *loss = lk_compute_average_loss(each, .global_batch_size = BATCH);
    lk_optimizer_apply(optimizer, lk_tape_gradient(tape, loss, lk_variables_from(6, weight)));
    return LK_TUPLE(loss, hits_of(scores, batch.item[1]));
}

static lk_tuple test_step(lk_tuple batch, void *user)
{
    (void)user;
    return LK_TUPLE(hits_of(scores_of(batch.item[0]), batch.item[1]));
}

/* ---- the data ---- */

static void draw_digits(void)
{
    for (int i = 0; i < TRAIN; i++)
        train_label[i] = (uint8_t)strokes_draw(1, (uint64_t)i, train_image[i]);
    for (int i = 0; i < TEST; i++)
        test_label[i] = (uint8_t)strokes_draw(2, (uint64_t)i, test_image[i]);
}

static void shuffle(int *order, int epoch)
{
    strokes_random r = {strokes_mix(3 + (uint64_t)epoch), 0};
    for (int i = 0; i < TRAIN; i++)
        order[i] = i;
    for (int i = TRAIN - 1; i > 0; i--) {
        int j = (int)strokes_uniform(&r, 0, (float)(i + 1)), other = order[j];
        order[j] = order[i];
        order[i] = other;
    }
}

/* `rows` rows of a batch of BATCH: the last batch may be short. */
static lk_tuple batch_of(int rows, const uint8_t *pixels, const uint8_t *labels)
{
    lk_tensor *x = lk_tensor_from(LK_SHAPE(rows, STROKES_SIDE, STROKES_SIDE, 1), LK_U8, pixels);
    lk_tensor *y = lk_tensor_from(LK_SHAPE(rows), LK_U8, labels);
    return LK_TUPLE(lk_rows(x, BATCH), lk_rows(y, BATCH));
}

/* ---- the loop ---- */

static double now(void)
{
    struct timespec t;
    timespec_get(&t, TIME_UTC);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void train_epoch(lk_function *step, int epoch, double *loss, double *hits)
{
    static int     order[TRAIN];
    static uint8_t pixels[BATCH][STROKES_PIXELS], labels[BATCH];
    shuffle(order, epoch);
    *loss = *hits = 0;
    for (int first = 0; first < TRAIN && !lk_failed(); first += BATCH)
        LK_STEP {
            int rows = TRAIN - first < BATCH ? TRAIN - first : BATCH;
            for (int i = 0; i < rows; i++) {
                memcpy(pixels[i], train_image[order[first + i]], STROKES_PIXELS);
                labels[i] = train_label[order[first + i]];
            }
            lk_tuple result = lk_call(step, batch_of(rows, pixels[0], labels));
            *loss += lk_item(result.item[0]) * BATCH / TRAIN;
            *hits += lk_item(result.item[1]);
        }
}

static double test_accuracy(lk_function *step)
{
    double hits = 0;
    for (int first = 0; first < TEST && !lk_failed(); first += BATCH)
        LK_STEP {
            int rows = TEST - first < BATCH ? TEST - first : BATCH;
            hits += lk_item(lk_call(step, batch_of(rows, test_image[first], test_label + first)).item[0]);
        }
    return hits / TEST;
}

int main(int argc, char **argv)
{
    int epochs = argc > 1 ? atoi(argv[1]) : EPOCHS;
    if (argc > 2) lk_set_threads(atoi(argv[2]));
    draw_digits();
    make_model();
    lk_function *train = lk_function_of(train_step, .name = "train_step"), *test = lk_function_of(test_step, .name = "test_step");
    double       accuracy = 0;
    for (int epoch = 1; epoch <= epochs && !lk_failed(); epoch++) {
        double loss, hits, begin = now();
        train_epoch(train, epoch, &loss, &hits);
        int speed = (int)(TRAIN / (now() - begin));
        accuracy = test_accuracy(test);
        printf("Epoch %d/%d  loss %.4f  accuracy %.4f  test accuracy %.4f  %d,%03d rows/s\n", epoch, epochs, loss, hits / TRAIN,
               accuracy, speed / 1000, speed % 1000);
        fflush(stdout);
    }
    lk_digest digest = lk_variables_digest(lk_variables_from(6, weight));
    printf("weights ");
    for (int i = 0; i < 32; i++)
        printf("%02x", digest.byte[i]);
    printf("\n%d thread%s; any other number gives the same digest\n", lk_threads(), lk_threads() == 1 ? "" : "s");
    if (lk_failed()) fprintf(stderr, "%s\n", lk_error());
    return lk_failed() || accuracy < 0.95;
}
