/* A custom training loop with what larger models need: batch normalisation with moving statistics, dropout, a learning rate that
 * follows the steps, and clipped gradients. Two spirals are distinguished. */
#include <lockstep.h>
#include <stdio.h>

enum { ROWS = 128, STEPS = 400, WIDTH = 48, HIDDEN = 2 };

typedef struct layer {
    const char  *name;
    lk_variable *kernel, *scale, *offset, *mean, *variance; /* the last two, moving statistics, are not trained but assigned */
} layer;

static layer         hidden[HIDDEN] = {{.name = "hidden0"}, {.name = "hidden1"}};
static lk_variable  *trained[3 * HIDDEN + 2]; /* of the hidden layers, then the last kernel and bias */
static int           trained_count;
static lk_optimizer *optimizer;

static lk_variable *train(lk_tensor *initial, const char *name)
{
    return trained[trained_count++] = lk_variable_of(initial, .name = name);
}

static void make_model(void)
{
    lk_tensor *zeros = lk_zeros(LK_SHAPE(WIDTH), LK_F32), *ones = lk_ones(LK_SHAPE(WIDTH), LK_F32);
    for (int i = 0; i < HIDDEN; i++) {
        layer *l = &hidden[i];
        l->kernel = train(lk_he_normal(LK_SHAPE(i ? WIDTH : 2, WIDTH), l->name), l->name);
        l->scale = train(ones, "scale");
        l->offset = train(zeros, "offset");
        l->mean = lk_variable_of(zeros, .name = "mean", .trainable = LK_OFF);
        l->variance = lk_variable_of(ones, .name = "variance", .trainable = LK_OFF);
    }
    train(lk_he_normal(LK_SHAPE(WIDTH, 1), "score"), "score");
    train(lk_zeros(LK_SHAPE(1), LK_F32), "bias");
    optimizer = lk_adam(.schedule = lk_cosine_decay(0.001, STEPS - 40, .warmup_target = LK_NUMBER(0.02), .warmup_steps = 40),
                        .global_clipnorm = 1);
}

/* In training, statistics are those of the batch. Dropout draws from iteration, name and row, so a row gets the same numbers on any
 * thread. */
static lk_tensor *run_layer(layer *l, lk_tensor *x, lk_switch training)
{
    lk_tuple y =
        lk_nn_batch_norm(lk_matmul(x, lk_read(l->kernel)), lk_read(l->scale), lk_read(l->offset), .training = training,
                         .moving_mean = lk_read(l->mean), .moving_variance = lk_read(l->variance), .momentum = LK_NUMBER(0.9));
    if (training == LK_OFF) return lk_relu(y.item[0]);
    lk_assign(l->mean, y.item[1]);
    lk_assign(l->variance, y.item[2]);
    lk_tensor *iteration = lk_optimizer_iteration(optimizer);
    return lk_nn_dropout(lk_relu(y.item[0]), .rate = 0.05, .stream = l->name, .iteration = iteration);
}

static lk_tensor *score_of(lk_tensor *x, lk_switch training)
{
    x = run_layer(&hidden[1], run_layer(&hidden[0], x, training), training);
    return lk_nn_dense(x, lk_read(trained[3 * HIDDEN]), lk_read(trained[3 * HIDDEN + 1]), LK_LINEAR);
}

static lk_tuple train_step(lk_tuple batch, void *user)
{
    (void)user;
    lk_tape   *tape = lk_tape_begin();
    lk_tensor *each = lk_nn_binary_crossentropy(batch.item[1], score_of(batch.item[0], LK_ON), .from_logits = LK_ON);
    lk_tensor *loss = lk_compute_average_loss(each, .global_batch_size = ROWS);
    lk_optimizer_apply(optimizer, lk_tape_gradient(tape, loss, lk_variables_from(trained_count, trained)));
    return LK_TUPLE(loss);
}

static lk_tuple test_step(lk_tuple batch, void *user)
{
    (void)user;
    lk_tensor *guess = lk_cast(lk_greater(score_of(batch.item[0], LK_OFF), lk_scalar(0)), LK_F32);
    return LK_TUPLE(lk_reduce_mean(lk_cast(lk_equal(guess, batch.item[1]), LK_F32)));
}

/* Points at radius r and angle 4 r, those of label 1 on the other side. */
static lk_tuple spirals(int number)
{
    lk_tensor *r = lk_random_uniform(LK_SHAPE(ROWS, 1), .stream = "radius", .call = number, .low = 0.1, .high = LK_NUMBER(2));
    lk_tensor *side = lk_round(lk_random_uniform(LK_SHAPE(ROWS, 1), .stream = "side", .call = number));
    lk_tensor *angle = lk_add(lk_mul(r, lk_scalar(4)), lk_mul(side, lk_scalar(3.14159265)));
    lk_tensor *point = lk_concat(LK_TUPLE(lk_mul(r, lk_cos(angle)), lk_mul(r, lk_sin(angle))), 1);
    return lk_rows_all(LK_TUPLE(point, side), ROWS);
}

int main(void)
{
    double accuracy = 0;
    make_model();
    lk_function *train_fn = lk_function_of(train_step), *test_fn = lk_function_of(test_step);
    for (int i = 1; i <= STEPS && !lk_failed(); i++)
        LK_STEP {
            double loss = lk_item(lk_call(train_fn, spirals(i)).item[0]), rate = lk_optimizer_learning_rate(optimizer);
            if (i % 50 == 0) accuracy = lk_item(lk_call(test_fn, spirals(STEPS + i)).item[0]);
            if (i % 50 == 0) printf("step %3d  rate %.5f  loss %.4f  accuracy on new points %.3f\n", i, rate, loss, accuracy);
        }
    if (lk_failed()) fprintf(stderr, "%s\n", lk_error());
    return lk_failed() || accuracy < 0.95;
}
