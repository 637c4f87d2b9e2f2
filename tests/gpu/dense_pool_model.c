/* A step whose first convolution is followed by a pool and a dense layer, in precisions that round factors: the dense layer's
 * gradient becomes part of the convolution's (passes_pool.c), near the results of single ops, and with the same bits on any number
 * of cards and logical GPUs. */
#include "kernel/dense_pool.h"
#include "small.h"

enum { LANES = 4, MANY = 2 * LANES * LKI_DENSE_POOL_IMAGES }; /* rows: two steps */

static int times; /* plans named the op */

static void listen(const char *text, void *user)
{
    (void)user;
    times += strstr(text, "dense_pool_grad_w") != NULL;
}

typedef struct training {
    int          batch;
    lk_precision precision;
    bool         eagerly, fused;
} training;

static lk_dataset *data(int batch)
{
    lk_tensor *rows = lk_random_normal(LK_SHAPE(MANY, 14, 14, 1), .stream = "rows");
    lk_tensor *first = lk_slice(lk_reshape(rows, LK_SHAPE(MANY, 196)), LK_AXES(0, 0), LK_AXES(-1, CLASSES));
    return lk_dataset_batch(lk_dataset_from_tensor_slices(LK_TUPLE(rows, lk_argmax(first, .axis = LK_AXIS(1)))), batch);
}

/* The convolution's weights and bias, some of them; what they were is known to all. */
static void put_weights(lk_model *m, outcome *out)
{
    const lk_variables v = lk_model_variables(m);
    for (int i = 0; i < 2; i++)
        for (int64_t k = 0; k < lk_size(lk_read(v.item[i])); k += i ? 1 : 3)
            child_put(out, ((const float *)lk_data(lk_read(v.item[i])))[k]);
}

static void train(const void *arg, outcome *out)
{
    const training *t = arg;
    lk_strategy    *s = lk_mirrored_strategy(.precision = t->precision, .lanes = LANES);
    lk_model       *m = NULL;
    lk_set_log(listen, NULL);
    LK_SCOPE(s) {
        m = lk_sequential(lk_conv2d(32, 3, .activation = LK_RELU, .input_shape = LK_SHAPE(14, 14, 1)), lk_max_pooling2d(),
                          lk_flatten(), lk_dense(16, .activation = LK_RELU), lk_dense(CLASSES));
        lk_model_compile(m, .loss = lk_sparse_categorical_crossentropy(.from_logits = LK_ON),
                         .optimizer = lk_sgd(.learning_rate = 1), .run_eagerly = t->eagerly ? LK_ON : LK_OFF);
    }
    lk_history *h = lk_model_fit(m, data(t->batch), .epochs = 1, .verbose = LK_SILENT);
    SOUND();
    NEED(lki_gpu_cards() > 1 || t->fused == (times > 0)); /* plans of several cards name no ops */
    small_history(h, out);
    put_weights(m, out);
    out->digest = small_state(m);
}

static void near_op_by_op(lk_precision p, double tolerance)
{
    outcome fused, single;
    setenv("LOCKSTEP_VERBOSE", "plan", 1);
    CHILD(train, (&(training){MANY / 2, p, false, true}), &fused, .cards = 1);
    CHILD(train, (&(training){MANY / 2, p, true, false}), &single, .cards = 1);
    close_outcome(&single, &fused, tolerance, "op by op and compiled");
    assert_false(lk_digest_equal(single.digest, fused.digest));
}

TEST(near_in_tf32) { near_op_by_op(LK_PRECISION_TF32, 2e-3); }
TEST(near_in_bf16) { near_op_by_op(LK_PRECISION_BF16, 1e-2); }

/* Factors of f32 are not rounded, and in short lanes it does not pay: the gradient is made as it is. */
TEST(not_everywhere)
{
    setenv("LOCKSTEP_VERBOSE", "plan", 1);
    CHILD(train, (&(training){MANY / 4, LK_PRECISION_TF32, false, false}), NULL, .cards = 1);
    CHILD(train, (&(training){MANY / 2, LK_PRECISION_F32, false, false}), NULL, .cards = 1);
}

TEST(the_same_on_any_number)
{
    const training t = {MANY / 2, LK_PRECISION_TF32, false, true};
    outcome        one, other;
    setenv("LOCKSTEP_VERBOSE", "plan", 1);
    CHILD(train, &t, &one, .cards = 1);
    CHILD(train, &t, &other, .cards = 1);
    same_outcome(&one, &other, "a second run");
    CHILD(train, &t, &other, .logical = 4);
    same_outcome(&one, &other, "one and 4 logical GPUs");
    for (int cards = 2; cards <= 4; cards *= 2)
        if (CHILD(train, &t, &other, .cards = cards))
            same_outcome(&one, &other, cards == 2 ? "one and 2 cards" : "one and 4 cards");
}

TESTS(cmocka_unit_test(near_in_tf32), cmocka_unit_test(near_in_bf16), cmocka_unit_test(not_everywhere),
      cmocka_unit_test(the_same_on_any_number))
