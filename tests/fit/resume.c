/* A run that was stopped after any step, and resumes with a fresh model, optimiser and dataset on another number of replicas, ends
 * like an uninterrupted one: the same weights and slots, and the same history to the last bit. For everything fit can do. */
#include "resumed.h"
#include <stdlib.h>

enum { ROWS = 76, BATCH = 16, STEPS = 5, EPOCHS = 3 }; /* the last batch is short */

static lk_tensor *rows(void) { return lk_random_normal(LK_SHAPE(ROWS, 4), .stream = "rows"); }
static lk_tensor *labels(void) { return lk_argmax(lk_slice(rows(), LK_AXES(0, 0), LK_AXES(-1, 3)), .axis = LK_AXIS(1)); }

static lk_dataset *elements(void) { return lk_dataset_from_tensor_slices(LK_TUPLE(rows(), labels())); }
static lk_dataset *shuffled(void) { return lk_dataset_batch(lk_dataset_shuffle(elements(), ROWS), BATCH); }

static lk_loss *loss(void) { return lk_sparse_categorical_crossentropy(.from_logits = LK_ON); }

#define MADE(p, ...)                                                                                                               \
    lk_model *m = NULL;                                                                                                            \
    if ((p)->replicas)                                                                                                             \
        LK_SCOPE(lk_mirrored_strategy(.cpu_devices = (p)->replicas))                                                               \
            m = __VA_ARGS__;                                                                                                       \
    else m = __VA_ARGS__

static lk_model *dense_model(void)
{
    return lk_sequential(lk_dense(8, .activation = LK_RELU, .input_shape = LK_SHAPE(4)), lk_dense(3));
}

/* ---- what fit can do --------------------------------------------------------------------------------------------------------- */

static void dropout_and_norm(const part *p, outcome *out)
{
    MADE(p, lk_sequential(lk_dense(8, .activation = LK_RELU, .input_shape = LK_SHAPE(4)), lk_batch_normalization(),
                          lk_dropout(0.25), lk_dense(3)));
    lk_model_compile(m, .loss = loss(), .optimizer = lk_adam(.learning_rate = 0.01), .metrics = LK_METRICS(lk_accuracy()));
    fit_part(p, (lk_fit_args){.model = m, .data = shuffled(), .epochs = EPOCHS}, out);
}

static void validation(const part *p, outcome *out)
{
    MADE(p, dense_model());
    lk_model_compile(m, .loss = loss(), .optimizer = lk_adam(.learning_rate = 0.01), .metrics = LK_METRICS(lk_accuracy()));
    lk_dataset *check = lk_dataset_batch(lk_dataset_shuffle(elements(), 30), 24);
    fit_part(p,
             (lk_fit_args){.model = m,
                           .data = shuffled(),
                           .epochs = EPOCHS,
                           .validation_data = check,
                           .validation_steps = 2,
                           .validation_freq = 2},
             out);
}

/* One shuffle serves both. */
static void shared_shuffle(const part *p, outcome *out)
{
    MADE(p, dense_model());
    lk_model_compile(m, .loss = loss(), .optimizer = lk_sgd(.learning_rate = 0.1, .momentum = 0.9));
    lk_dataset *all = lk_dataset_shuffle(elements(), ROWS);
    fit_part(p,
             (lk_fit_args){.model = m,
                           .data = lk_dataset_batch(lk_dataset_take(all, 70), BATCH),
                           .epochs = EPOCHS,
                           .validation_data = lk_dataset_batch(lk_dataset_skip(all, 70), BATCH)},
             out);
}

static void arrays_and_class_weights(const part *p, outcome *out)
{
    MADE(p, dense_model());
    lk_model_compile(m, .loss = loss(), .optimizer = lk_rmsprop(), .metrics = LK_METRICS(lk_accuracy()));
    fit_part(p,
             (lk_fit_args){.model = m,
                           .x = rows(),
                           .y = labels(),
                           .batch_size = 13,
                           .epochs = EPOCHS,
                           .class_weight = LK_NUMBERS(1, 2, 0.5),
                           .validation_split = 0.2},
             out);
}

static void sample_weights(const part *p, outcome *out)
{
    MADE(p, dense_model());
    lk_model_compile(m, .loss = loss(), .optimizer = lk_adam(), .weighted_metrics = LK_METRICS(lk_accuracy()));
    lk_tensor *weight = lk_random_uniform(LK_SHAPE(ROWS), .stream = "weights");
    fit_part(p,
             (lk_fit_args){.model = m, .x = rows(), .y = labels(), .sample_weight = weight, .batch_size = BATCH, .epochs = EPOCHS},
             out);
}

static void steps_per_epoch_of_repeated_data(const part *p, outcome *out)
{
    MADE(p, dense_model());
    lk_model_compile(m, .loss = loss(), .optimizer = lk_adam(.learning_rate = 0.01), .metrics = LK_METRICS(lk_accuracy()));
    lk_dataset *d = lk_dataset_batch(lk_dataset_repeat(lk_dataset_shuffle(elements(), 40)), BATCH);
    fit_part(p, (lk_fit_args){.model = m, .data = d, .epochs = EPOCHS, .steps_per_epoch = STEPS - 1}, out);
}

/* The third epoch starts the data again. */
static void steps_per_epoch_of_data_that_ends(const part *p, outcome *out)
{
    MADE(p, dense_model());
    lk_model_compile(m, .loss = loss(), .optimizer = lk_adam(.learning_rate = 0.01));
    lk_dataset *d = lk_dataset_batch(lk_dataset_repeat(lk_dataset_shuffle(elements(), ROWS), 2), BATCH);
    fit_part(p, (lk_fit_args){.model = m, .data = d, .epochs = EPOCHS, .steps_per_epoch = STEPS}, out);
}

static void steps_per_execution(const part *p, outcome *out)
{
    MADE(p, dense_model());
    lk_model_compile(m, .loss = loss(), .optimizer = lk_adam(.learning_rate = 0.01), .steps_per_execution = 2);
    fit_part(p, (lk_fit_args){.model = m, .data = shuffled(), .epochs = EPOCHS}, out);
}

static void averages(const part *p, outcome *out)
{
    MADE(p, dense_model());
    lk_model_compile(m, .loss = loss(),
                     .optimizer = lk_adam(.learning_rate = 0.01, .use_ema = LK_ON, .ema_momentum = LK_NUMBER(0.9),
                                          .ema_overwrite_frequency = 7));
    fit_part(p, (lk_fit_args){.model = m, .data = shuffled(), .epochs = EPOCHS, .validation_data = shuffled()}, out);
}

static void averages_swapped(const part *p, outcome *out)
{
    MADE(p, dense_model());
    lk_model_compile(m, .loss = loss(), .optimizer = lk_sgd(.learning_rate = 0.1, .use_ema = LK_ON));
    fit_part(p,
             (lk_fit_args){.model = m,
                           .data = shuffled(),
                           .epochs = EPOCHS,
                           .validation_data = shuffled(),
                           .callbacks = LK_CALLBACKS(lk_swap_ema_weights(.swap_on_epoch = LK_ON))},
             out);
}

static void accumulation(const part *p, outcome *out)
{
    MADE(p, dense_model());
    lk_model_compile(m, .loss = loss(), .optimizer = lk_adam(.learning_rate = 0.01, .gradient_accumulation_steps = 3));
    fit_part(p, (lk_fit_args){.model = m, .data = shuffled(), .epochs = EPOCHS}, out);
}

static void schedule(const part *p, outcome *out)
{
    MADE(p, dense_model());
    lk_model_compile(m, .loss = loss(),
                     .optimizer =
                         lk_sgd(.schedule = lk_exponential_decay(0.1, .decay_steps = 4, .decay_rate = 0.5), .momentum = 0.9));
    fit_part(p, (lk_fit_args){.model = m, .data = shuffled(), .epochs = EPOCHS}, out);
}

/* Of the rate before: called twice for one epoch it would give another one. */
static double less(int epoch, double rate, void *user)
{
    (void)user;
    return epoch ? rate * 0.7 : rate;
}

static void rates_by_callbacks(const part *p, outcome *out)
{
    MADE(p, dense_model());
    lk_model_compile(m, .loss = loss(), .optimizer = lk_adam(.learning_rate = 0.03));
    fit_part(p,
             (lk_fit_args){.model = m,
                           .data = shuffled(),
                           .epochs = EPOCHS,
                           .callbacks = LK_CALLBACKS(lk_reduce_lr_on_plateau("loss", .factor = LK_NUMBER(0.5),
                                                                             .patience = LK_NUMBER(1), .min_delta = LK_NUMBER(0.5)),
                                                     lk_learning_rate_scheduler(less))},
             out);
}

/* It gets worse from the first epoch on, and ends after two more with the weights of the first. */
static void early_stopping(const part *p, outcome *out)
{
    MADE(p, dense_model());
    lk_model_compile(m, .loss = loss(), .optimizer = lk_sgd(.learning_rate = 0.01), .metrics = LK_METRICS(lk_accuracy()));
    fit_part(p,
             (lk_fit_args){.model = m,
                           .data = shuffled(),
                           .epochs = 9,
                           .callbacks = LK_CALLBACKS(
                               lk_early_stopping("loss", .patience = 2, .mode = LK_MODE_MAX, .restore_best_weights = LK_ON))},
             out);
}

static lk_tensor *sequences(void) { return lk_random_normal(LK_SHAPE(ROWS, 6, 3), .stream = "rows"); }

static void lstm(const part *p, outcome *out)
{
    MADE(p, lk_sequential(lk_lstm(5, .dropout = 0.2, .recurrent_dropout = 0.1, .input_shape = LK_SHAPE(6, 3)), lk_dense(3)));
    lk_model_compile(m, .loss = loss(), .optimizer = lk_adam(.learning_rate = 0.01), .metrics = LK_METRICS(lk_accuracy()));
    fit_part(p, (lk_fit_args){.model = m, .x = sequences(), .y = labels(), .batch_size = BATCH, .epochs = EPOCHS}, out);
}

static void convolution_and_norm(const part *p, outcome *out)
{
    MADE(p, lk_sequential(lk_conv2d(3, 3, .activation = LK_RELU, .input_shape = LK_SHAPE(6, 6, 1)), lk_batch_normalization(),
                          lk_max_pooling2d(), lk_flatten(), lk_dense(3)));
    lk_model_compile(m, .loss = loss(), .optimizer = lk_adam(.learning_rate = 0.01), .metrics = LK_METRICS(lk_accuracy()));
    lk_tensor *x = lk_random_normal(LK_SHAPE(ROWS, 6, 6, 1), .stream = "rows");
    fit_part(p, (lk_fit_args){.model = m, .x = x, .y = labels(), .batch_size = BATCH, .epochs = EPOCHS}, out);
}

/* Layers that draw random numbers inside a model that is a layer. */
static void model_in_a_model(const part *p, outcome *out)
{
    MADE(p, lk_sequential(
                lk_model_layer(lk_sequential(lk_dense(8, .activation = LK_RELU, .input_shape = LK_SHAPE(4)), lk_dropout(0.3))),
                lk_dropout(0.1), lk_dense(3)));
    lk_model_compile(m, .loss = loss(), .optimizer = lk_adam(.learning_rate = 0.01));
    fit_part(p, (lk_fit_args){.model = m, .data = shuffled(), .epochs = EPOCHS}, out);
}

/* Built by its first batch, with the optimiser's slots and the sums of the metrics. */
static void built_by_the_data(const part *p, outcome *out)
{
    MADE(p, lk_sequential(lk_dense(8, .activation = LK_RELU), lk_dropout(0.2), lk_dense(3, .activation = LK_SOFTMAX)));
    lk_model_compile(m, .loss = lk_categorical_crossentropy(), .optimizer = lk_adamw(.learning_rate = 0.01),
                     .metrics = LK_METRICS(lk_f1_score(), lk_auc(), lk_precision(), lk_categorical_accuracy()));
    lk_tensor *y = lk_cast(lk_one_hot(labels(), 3), LK_F32);
    fit_part(p, (lk_fit_args){.model = m, .x = rows(), .y = y, .batch_size = BATCH, .epochs = EPOCHS}, out);
}

/* ---- data of many kinds ------------------------------------------------------------------------------------------------------ */

static lk_tuple twice(lk_tuple e, void *user)
{
    (void)user;
    return LK_TUPLE(lk_mul(e.item[0], lk_scalar(2)), e.item[1]);
}

static int not_first_class(lk_tuple e, void *user)
{
    (void)user;
    return lk_item(e.item[1]) != 0;
}

static int numbered(int64_t index, lk_tuple *e, void *user)
{
    (void)user;
    if (index >= 40) return 0;
    *e = LK_TUPLE(lk_fill(LK_SHAPE(4), LK_F32, (double)index / 40), lk_fill(LK_SHAPE(), LK_I64, (double)(index % 3)));
    return 1;
}

static void on_data(const part *p, lk_dataset *d, outcome *out)
{
    MADE(p, dense_model());
    lk_model_compile(m, .loss = loss(), .optimizer = lk_adam(.learning_rate = 0.01), .metrics = LK_METRICS(lk_accuracy()));
    fit_part(p, (lk_fit_args){.model = m, .data = d, .epochs = EPOCHS}, out);
}

static void mapped_and_read_ahead(const part *p, outcome *out)
{
    lk_dataset *d = lk_dataset_map(lk_dataset_shuffle(elements(), 30), twice, .parallel = 2);
    on_data(p, lk_dataset_prefetch(lk_dataset_batch(d, BATCH), 3), out);
}

static void cached(const part *p, outcome *out)
{
    on_data(p, lk_dataset_batch(lk_dataset_shuffle(lk_dataset_cache(lk_dataset_map(elements(), twice)), 50), BATCH), out);
}

static void filtered(const part *p, outcome *out) /* how many steps an epoch has is not known */
{
    on_data(p, lk_dataset_batch(lk_dataset_shuffle(lk_dataset_filter(elements(), not_first_class, NULL), 20), 12), out);
}

static void generated(const part *p, outcome *out)
{
    on_data(p, lk_dataset_batch(lk_dataset_shuffle(lk_dataset_from_generator(numbered, NULL), 16), 9), out);
}

/* ---- callbacks --------------------------------------------------------------------------------------------------------------- */

/* Its state decides the rate. */
typedef struct counter {
    int64_t steps, epochs;
} counter;

static void count_step(const lk_event *e, void *user)
{
    counter *c = user;
    c->steps++;
    lk_optimizer_set_learning_rate(lk_model_optimizer(e->model), 0.1 / (double)(1 + c->steps % 4));
}

static void count_epoch(const lk_event *e, void *user)
{
    (void)e;
    ((counter *)user)->epochs++;
}

static void own_callback(const part *p, outcome *out)
{
    counter c = {0};
    MADE(p, dense_model());
    lk_model_compile(m, .loss = loss(), .optimizer = lk_sgd(.learning_rate = 0.1));
    lk_callback *own =
        lk_callback_of(&c, .on_train_batch_end = count_step, .on_epoch_end = count_epoch, .state = &c, .state_bytes = sizeof c);
    fit_part(p, (lk_fit_args){.model = m, .data = shuffled(), .epochs = EPOCHS, .callbacks = LK_CALLBACKS(own)}, out);
    if (!p->stop) snprintf(out->history + strlen(out->history), 64, "%lld %lld\n", (long long)c.steps, (long long)c.epochs);
}

static void read_file(const char *path, char *text, size_t room)
{
    FILE *f = fopen(path, "rb");
    text[f ? fread(text, 1, room - 1, f) : 0] = 0;
    if (f) fclose(f);
}

/* What is in the file is part of the outcome. */
static void csv_and_best(const part *p, outcome *out)
{
    char best[600];
    snprintf(best, sizeof best, "%s-best-{epoch}", p->file);
    MADE(p, dense_model());
    lk_model_compile(m, .loss = loss(), .optimizer = lk_adam(.learning_rate = 0.01), .metrics = LK_METRICS(lk_accuracy()));
    fit_part(p,
             (lk_fit_args){.model = m,
                           .data = shuffled(),
                           .epochs = EPOCHS,
                           .validation_data = shuffled(),
                           .validation_freq = 2,
                           .callbacks = LK_CALLBACKS(lk_csv_logger(p->file),
                                                     lk_model_checkpoint(best, .monitor = "loss", .save_best_only = LK_ON))},
             out);
    const size_t at = strlen(out->history);
    if (!p->stop) read_file(p->file, out->history + at, sizeof out->history - at);
}

/* ---- all of them ------------------------------------------------------------------------------------------------------------- */

/* Stopped after every step once, on one number of replicas; stopped once more on another one; ended on a third. */
static void check(feature_fn *feature)
{
    static const int counts[] = {1, 2, 4, 8, 3, 0};
    static outcome   straight, ended;
    const char      *folder = folder_new();
    char             saved[600], file[600];
    snprintf(saved, sizeof saved, "%s/backup", folder);
    snprintf(file, sizeof file, "%s/log.csv", folder);
    run_part(feature, (part){.replicas = 1, .file = file}, &straight);
    for (int64_t stop = 1, turn = 0; stop < straight.steps; stop++, turn++) {
        const int a = counts[turn % 6], b = counts[(turn + 1) % 6], c = counts[(turn / 2 + 3) % 6];
        remove(file);
        lk_set_threads((int)(turn % 4)); /* 0: all */
        run_part(feature, (part){a, stop, saved, file}, &ended);
        assert_int_equal(ended.steps, stop);
        const int64_t more = straight.steps - stop > 3 && turn % 3 == 0 ? 2 : 0;
        if (more) run_part(feature, (part){b, more, saved, file}, &ended);
        lk_set_threads((int)((turn + 1) % 3));
        run_part(feature, (part){c, 0, saved, file}, &ended);
        assert_int_equal(ended.steps, straight.steps - stop - more);
        if (!lk_digest_equal(ended.digest, straight.digest))
            fail_msg("stopped after %lld steps on %d, ended on %d: other weights", (long long)stop, a, c);
        assert_string_equal(ended.history, straight.history);
        assert_false(file_exists(saved));
    }
    folder_remove(folder);
}

static void stop_before_epoch(const lk_event *e, void *user)
{
    if (e->epoch == *(int *)user) lk_model_stop_training(e->model);
}

/* Told to stop between the beginning of an epoch and its first step. */
static void before_the_first_step(bool repeated)
{
    static outcome straight, ended;
    const char    *folder = folder_new();
    feature_fn    *whole = repeated ? steps_per_epoch_of_repeated_data : dropout_and_norm;
    run_part(whole, (part){.replicas = 1}, &straight);
    for (int epoch = 0; epoch < EPOCHS; epoch++) {
        LK_POOL {
            const part  p = {.replicas = 2, .folder = folder};
            lk_dataset *d = repeated ? lk_dataset_batch(lk_dataset_repeat(lk_dataset_shuffle(elements(), 40)), BATCH) : shuffled();
            MADE(&p, repeated ? dense_model()
                              : lk_sequential(lk_dense(8, .activation = LK_RELU, .input_shape = LK_SHAPE(4)),
                                              lk_batch_normalization(), lk_dropout(0.25), lk_dense(3)));
            lk_model_compile(m, .loss = loss(), .optimizer = lk_adam(.learning_rate = 0.01), .metrics = LK_METRICS(lk_accuracy()));
            fit_part(&p,
                     (lk_fit_args){.model = m,
                                   .data = d,
                                   .epochs = EPOCHS,
                                   .steps_per_epoch = repeated ? STEPS - 1 : 0,
                                   .callbacks = LK_CALLBACKS(lk_callback_of(&epoch, .on_epoch_begin = stop_before_epoch))},
                     &ended);
        }
        assert_int_equal(ended.steps, epoch * (repeated ? STEPS - 1 : STEPS));
        run_part(whole, (part){.replicas = 4, .folder = folder}, &ended);
        assert_true(lk_digest_equal(ended.digest, straight.digest));
        assert_string_equal(ended.history, straight.history);
    }
    folder_remove(folder);
}

TEST(goes_on_before_the_first_step_of_an_epoch) { before_the_first_step(false); }
TEST(goes_on_before_the_first_step_of_repeated_data) { before_the_first_step(true); }

#define FEATURES(X)                                                                                                                \
    X(dropout_and_norm)                                                                                                            \
    X(validation)                                                                                                                  \
    X(shared_shuffle)                                                                                                              \
    X(arrays_and_class_weights)                                                                                                    \
    X(sample_weights)                                                                                                              \
    X(steps_per_epoch_of_repeated_data)                                                                                            \
    X(steps_per_epoch_of_data_that_ends)                                                                                           \
    X(steps_per_execution)                                                                                                         \
    X(averages)                                                                                                                    \
    X(averages_swapped)                                                                                                            \
    X(accumulation)                                                                                                                \
    X(schedule)                                                                                                                    \
    X(rates_by_callbacks)                                                                                                          \
    X(early_stopping)                                                                                                              \
    X(lstm)                                                                                                                        \
    X(convolution_and_norm)                                                                                                        \
    X(model_in_a_model)                                                                                                            \
    X(built_by_the_data)                                                                                                           \
    X(mapped_and_read_ahead)                                                                                                       \
    X(cached)                                                                                                                      \
    X(filtered)                                                                                                                    \
    X(generated)                                                                                                                   \
    X(own_callback)                                                                                                                \
    X(csv_and_best)

#define DEFINE(name)                                                                                                               \
    TEST(goes_on_with_##name) { check(name); }
FEATURES(DEFINE)

static void ignore(const char *text, void *user) { (void)text, (void)user; }

#define ENTRY(name) cmocka_unit_test(goes_on_with_##name),
int main(int argc, char **argv)
{
    (void)argc, (void)argv;
    const struct CMUnitTest tests[] = {FEATURES(ENTRY) cmocka_unit_test(goes_on_before_the_first_step_of_an_epoch),
                                       cmocka_unit_test(goes_on_before_the_first_step_of_repeated_data)};
    lk_set_log(ignore, NULL); /* which devices each strategy has */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
