/* A digit classifier: conv 32 - pool - dense 64 - dense 10, trained by Adam in compiled steps of 64 rows.
 *
 *     digits [epochs [threads]]          default: 4 epochs on all cores
 *
 * The digits are drawn on the fly (strokes.h). The weights come out the same, bit for bit, on any number of threads. */
#include "strokes.h"
#include <lockstep.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { TRAIN_ROWS = 12000, TEST_ROWS = 2000, BATCH = 64, EPOCHS = 4 };

/* ---- the model ---- */

static lk_variable  *weight[6]; /* kernel, bias, kernel, bias, ... */
static lk_optimizer *optimizer;

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
    optimizer = lk_adam(.learning_rate = 0.002);
}

/* The mean loss, and how many rows were recognised. */
static lk_tuple judge(lk_tuple batch)
{
    lk_tensor *w[6], *labels = batch.item[1];
    for (int i = 0; i < 6; i++)
        w[i] = lk_read(weight[i]);
    lk_tensor *x = lk_mul(lk_cast(batch.item[0], LK_F32), lk_scalar(1.0 / 255));
    x = lk_nn_max_pool2d(lk_nn_conv2d(x, w[0], w[1], .activation = LK_RELU));
    x = lk_nn_dense(lk_flatten_rows(x), w[2], w[3], LK_RELU);
    x = lk_nn_dense(x, w[4], w[5], LK_LINEAR);
    lk_tensor *each = lk_nn_sparse_categorical_crossentropy(labels, x, .from_logits = LK_ON);
    lk_tensor *hit = lk_equal(lk_argmax(x, .axis = LK_AXIS(1)), lk_cast(labels, LK_I64));
    return LK_TUPLE(lk_compute_average_loss(each, .global_batch_size = BATCH), lk_reduce_sum(lk_cast(hit, LK_F32)));
}

/* Traced once per shape, planned, then replayed. */
static lk_tuple train_step(lk_tuple batch, void *user)
{
    (void)user;
    lk_tape *tape = lk_tape_begin();
    lk_tuple result = judge(batch);
    lk_optimizer_apply(optimizer, lk_tape_gradient(tape, result.item[0], lk_variables_from(6, weight)));
    return result;
}

static lk_tuple test_step(lk_tuple batch, void *user)
{
    (void)user;
    return judge(batch);
}

/* ---- the data ---- */

typedef struct examples {
    int rows;
    uint8_t (*image)[STROKES_PIXELS];
    uint8_t *label;
    int     *order;
} examples;

static uint8_t  image[TRAIN_ROWS + TEST_ROWS][STROKES_PIXELS], label[TRAIN_ROWS + TEST_ROWS];
static int      order[TRAIN_ROWS + TEST_ROWS];
static examples train = {TRAIN_ROWS, image, label, order};
static examples test = {TEST_ROWS, image + TRAIN_ROWS, label + TRAIN_ROWS, order + TRAIN_ROWS};

static void draw(examples *e, uint64_t seed)
{
    for (int i = 0; i < e->rows; i++) {
        e->label[i] = (uint8_t)strokes_draw(seed, (uint64_t)i, e->image[i]);
        e->order[i] = i;
    }
}

static void shuffle(examples *e, int epoch)
{
    strokes_random r = {strokes_mix((uint64_t)epoch), 0};
    for (int i = e->rows - 1; i > 0; i--) {
        int j = (int)strokes_uniform(&r, 0, (float)(i + 1)), other = e->order[j];
        e->order[j] = e->order[i];
        e->order[i] = other;
    }
}

/* The rows from `first` on; the last batch may be short, and says of how large a batch it is the beginning. */
static lk_tuple batch_at(const examples *e, int first)
{
    static uint8_t pixels[BATCH][STROKES_PIXELS], labels[BATCH];
    int            rows = e->rows - first < BATCH ? e->rows - first : BATCH;
    for (int i = 0; i < rows; i++) {
        memcpy(pixels[i], e->image[e->order[first + i]], STROKES_PIXELS);
        labels[i] = e->label[e->order[first + i]];
    }
    lk_tensor *x = lk_tensor_from(LK_SHAPE(rows, STROKES_SIDE, STROKES_SIDE, 1), LK_U8, pixels);
    return lk_rows_all(LK_TUPLE(x, lk_tensor_from(LK_SHAPE(rows), LK_U8, labels)), BATCH);
}

/* ---- the loop ---- */

typedef struct score {
    double loss, accuracy, rows_per_second;
} score;

static double now(void)
{
    struct timespec t;
    timespec_get(&t, TIME_UTC);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static const char *with_comma(int n)
{
    static char text[32];
    if (n < 1000) snprintf(text, sizeof text, "%d", n);
    else snprintf(text, sizeof text, "%d,%03d", n / 1000, n % 1000);
    return text;
}

static score run(lk_function *step, const examples *e)
{
    score  s = {0};
    double begin = now();
    for (int first = 0; first < e->rows && !lk_failed(); first += BATCH)
        LK_STEP {
            lk_tuple result = lk_call(step, batch_at(e, first));
            s.loss += lk_item(result.item[0]) * BATCH / e->rows;
            s.accuracy += lk_item(result.item[1]) / e->rows;
        }
    s.rows_per_second = e->rows / (now() - begin);
    return s;
}

int main(int argc, char **argv)
{
    int epochs = argc > 1 ? atoi(argv[1]) : EPOCHS;
    if (argc > 2) lk_set_threads(atoi(argv[2]));
    draw(&train, 1);
    draw(&test, 2);
    make_model();
    lk_function *train_fn = lk_function_of(train_step), *test_fn = lk_function_of(test_step);
    score        tested = {0};
    for (int epoch = 1; epoch <= epochs && !lk_failed(); epoch++) {
        shuffle(&train, epoch);
        score trained = run(train_fn, &train);
        tested = run(test_fn, &test);
        printf("Epoch %d/%d  loss %.4f  accuracy %.4f  test accuracy %.4f  %s rows/s\n", epoch, epochs, trained.loss,
               trained.accuracy, tested.accuracy, with_comma((int)trained.rows_per_second));
        fflush(stdout);
    }
    lk_digest digest = lk_variables_digest(lk_variables_from(6, weight));
    char      text[65];
    printf("Weights %s\n%d thread%s; any other number gives the same weights\n", lk_digest_text(digest, text), lk_threads(),
           lk_threads() == 1 ? "" : "s");
    if (lk_failed()) fprintf(stderr, "%s\n", lk_error());
    return lk_failed() || tested.accuracy < 0.95;
}
