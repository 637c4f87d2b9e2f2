/* Attention: a model of one attention layer learns to write a word backwards. Where to look is a matter of places alone, what to
 * write of what stands there; so queries and keys come to hold places, and values letters. */
#include <lockstep.h>
#include <stdio.h>

enum { BATCH = 64, LENGTH = 8, LETTERS = 26, WIDTH = 32, HEADS = 2, DEPTH = 16, TRAIN = 250 };

static lk_variable  *weight[9];
static lk_optimizer *optimizer;

static lk_variable *drawn(const char *name, lk_shape shape) { return lk_variable_of(lk_glorot_uniform(shape, name), .name = name); }

static void make_model(void)
{
    weight[0] = drawn("letters", LK_SHAPE(LETTERS, WIDTH));
    weight[1] = drawn("places", LK_SHAPE(LENGTH, WIDTH));
    weight[2] = drawn("query", LK_SHAPE(WIDTH, HEADS, DEPTH));
    weight[3] = drawn("key", LK_SHAPE(WIDTH, HEADS, DEPTH));
    weight[4] = drawn("value", LK_SHAPE(WIDTH, HEADS, DEPTH));
    weight[5] = drawn("output", LK_SHAPE(HEADS, DEPTH, WIDTH));
    weight[6] = lk_variable_of(lk_ones(LK_SHAPE(WIDTH), LK_F32), .name = "gamma");
    weight[7] = lk_variable_of(lk_zeros(LK_SHAPE(WIDTH), LK_F32), .name = "beta");
    weight[8] = drawn("scores", LK_SHAPE(WIDTH, LETTERS));
    optimizer = lk_adam(.learning_rate = 0.01);
}

static lk_tensor *scores_of(lk_tensor *words) /* [n, length] to [n, length, letters] */
{
    lk_tensor *w[9];
    for (int i = 0; i < 9; i++)
        w[i] = lk_read(weight[i]);
    lk_tensor *x = lk_add(lk_nn_embedding(words, w[0]), w[1]);
    lk_tensor *y = lk_nn_multi_head_attention(.query = x, .value = x, .query_kernel = w[2], .key_kernel = w[3],
                                              .value_kernel = w[4], .output_kernel = w[5]);
    return lk_nn_dense(lk_nn_layer_norm(y, w[6], w[7]), w[8], NULL, LK_LINEAR);
}

static lk_tuple train_step(lk_tuple in, void *user)
{
    (void)user;
    lk_tape   *tape = lk_tape_begin();
    lk_tensor *backwards = lk_reverse(in.item[0], LK_AXES(1));
    lk_tensor *each = lk_nn_sparse_categorical_crossentropy(backwards, scores_of(in.item[0]), .from_logits = LK_ON);
    lk_tensor *loss = lk_compute_average_loss(lk_reduce_mean(each, .axis = LK_AXES(1)), .global_batch_size = BATCH);
    lk_optimizer_apply(optimizer, lk_tape_gradient(tape, loss, lk_variables_from(9, weight)));
    return LK_TUPLE(loss);
}

static lk_tuple write_backwards(lk_tuple in, void *user)
{
    (void)user;
    return LK_TUPLE(lk_argmax(scores_of(in.item[0]), .axis = LK_AXIS(2)));
}

int main(void)
{
    make_model();
    lk_function *step = lk_function_of(train_step), *write = lk_function_of(write_backwards);
    for (int i = 1; i <= TRAIN && !lk_failed(); i++)
        LK_STEP {
            lk_tensor *drawn = lk_random_uniform(LK_SHAPE(BATCH, LENGTH), .stream = "words", .call = i, .high = LK_NUMBER(LETTERS));
            lk_tuple   result = lk_call(step, LK_TUPLE(lk_rows(lk_cast(drawn, LK_I32), BATCH)));
            if (i % 50 == 0) printf("step %3d  loss %.4f\n", i, lk_item(result.item[0]));
        }

    static const char words[4][LENGTH + 1] = {"lockstep", "gradient", "training", "backward"};
    int32_t           in[4][LENGTH];
    int               wrong = 0;
    for (int i = 0; i < 4 * LENGTH; i++)
        in[i / LENGTH][i % LENGTH] = words[i / LENGTH][i % LENGTH] - 'a';
    lk_tensor     *out = lk_call(write, LK_TUPLE(lk_tensor_from(LK_SHAPE(4, LENGTH), LK_I32, in))).item[0];
    const int64_t *letter = lk_data(out);
    for (int i = 0; letter && i < 4; i++, letter += LENGTH) {
        printf("%s  ", words[i]);
        for (int t = 0; t < LENGTH; t++) {
            putchar((int)('a' + letter[t]));
            wrong += letter[t] != in[i][LENGTH - 1 - t];
        }
        putchar('\n');
    }
    if (lk_failed()) fprintf(stderr, "%s\n", lk_error());
    return lk_failed() || wrong;
}
