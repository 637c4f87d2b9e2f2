/* The caller's rounding mode changes nothing: results of all calls under any of the four modes have the bits of round-to-nearest,
 * and the mode is the caller's again when a call returns. */
#include "core/sha256.h"
#include "every_layer.h"
#include "folder.h"
#include "keras/config.h"
#include "layer/replicas.h"
#include "model/model.h"
#include <fenv.h>

static const struct {
    const char *name;
    int         mode;
} MODES[] = {{"upward", FE_UPWARD}, {"downward", FE_DOWNWARD}, {"toward zero", FE_TOWARDZERO}};

/* ---- digests of anything ---- */

static lki_sha256 sum;

static void add_number(double x) { lki_sha256_add(&sum, &x, sizeof x); }
static void add_text(const char *text) { lki_sha256_add(&sum, text ? text : "", text ? strlen(text) : 0); }

static void add_tensor(lk_tensor *t)
{
    if (!lki_bad(t) && t->nest) {
        for (int i = 0; i < t->nest->count; i++)
            add_tensor(t->nest->item[i]);
        return;
    }
    const void *data = lki_bad(t) ? NULL : lk_data(t);
    if (data) lki_sha256_add(&sum, data, lki_bytes_of(lki_shape_size(&t->shape), lk_dtype_bytes(t->dtype)));
}

static void add_model(lk_model *m)
{
    const lk_digest d = lk_model_digest(m);
    lki_sha256_add(&sum, &d, sizeof d);
}

/* ---- programs ---- */

/* Numbers with all their digits, of which most do not fit a float. */
static lk_tensor *drawn(int64_t n, int64_t width, int call)
{
    return lk_random_normal(LK_SHAPE(n, width), .stream = "numbers", .call = call);
}

static lk_model *dense(void)
{
    return lk_sequential(lk_dense(7, LK_RELU, .input_shape = LK_SHAPE(5), .kernel_regularizer = lk_l2(0.1)), lk_dropout(0.3),
                         lk_batch_normalization(), lk_dense(3));
}

static lk_optimizer *adam(void) { return lk_adam(.schedule = lk_cosine_decay(0.01, 7)); }

static void fit(lk_model *m, lk_switch eagerly)
{
    lk_tensor *classes = lk_argmax(drawn(24, 3, 1), .axis = LK_AXIS(1));
    lk_model_compile(m, .optimizer = adam(), .loss = lk_loss_named("sparse_categorical_crossentropy"),
                     .metrics = LK_METRICS(lk_accuracy()), .run_eagerly = eagerly);
    lk_history *h = lk_model_fit(m, .x = drawn(24, 5, 0), .y = classes, .batch_size = 10, .epochs = 3, .verbose = LK_SILENT,
                                 .validation_split = 0.3);
    for (int i = 0; i < 3; i++)
        add_number(lk_history_value(h, "loss", i)), add_number(lk_history_value(h, "val_loss", i));
    add_model(m);
    const lk_logs logs = lk_model_evaluate(m, .x = drawn(7, 5, 2), .y = lk_zeros(LK_SHAPE(7), LK_I32), .verbose = LK_SILENT);
    add_number(lk_logs_get(&logs, "loss"));
    add_tensor(lk_model_predict(m, .x = drawn(3, 5, 3), .verbose = LK_SILENT));
}

static void fit_compiled(void) { fit(dense(), LK_OFF); }
static void fit_eagerly(void) { fit(dense(), LK_ON); }

/* Made as always; only training is under another mode. */
static void fit_alone(void)
{
    const int mode = fegetround();
    fesetround(FE_TONEAREST);
    lk_model *m = dense();
    fesetround(mode);
    fit(m, LK_OFF);
}

static void loop(int replicas, bool compiled)
{
    const lk_digest d = trained(replicas, dense, adam, LK_SHAPE(5), compiled);
    lki_sha256_add(&sum, &d, sizeof d);
}

static void loop_eager(void) { loop(1, false); }
static void loop_compiled(void) { loop(1, true); }
static void loop_on_replicas(void) { loop(2, false), loop(2, true); }

static const char *optimizer_name;

static lk_optimizer *by_name(void)
{
    if (!strcmp(optimizer_name, "LossScaleOptimizer")) return lk_loss_scale_optimizer(lk_sgd(.learning_rate = 0.013), 4, 1);
    return lk_optimizer_named(optimizer_name, 0.013);
}

static void loop_with_every_optimizer(void)
{
    const lki_family *f = lki_family_of(LKI_KIND_OPTIMIZER);
    for (int i = 0; f->at(i); i++)
        if ((optimizer_name = f->at(i)->name)) {
            const lk_digest d = trained(1, dense, by_name, LK_SHAPE(5), true);
            lki_sha256_add(&sum, &d, sizeof d);
        }
}

static void files(void)
{
    char        folder[64];
    const char *path;
    lk_model   *m = dense();
    snprintf(folder, sizeof folder, "%s", folder_new());
    path = folder_file(folder, "weights.safetensors");
    add_text(lk_model_to_json(m));
    lk_model_save_weights(m, path);
    lk_model *again = lk_model_from_json(lk_model_to_json(m));
    lk_model_load_weights(again, path);
    fit(again, LK_OFF);
    folder_remove(folder);
}

static void all_layers(void)
{
    for (int i = 0; i < EVERY_LAYER_MODELS; i++) {
        lk_model  *m = EVERY_LAYER[i]();
        lk_tensor *x[2] = {0};
        for (int k = 0; k < m->inputs; k++) {
            lk_shape s = {.rank = m->input[k].row.rank + 1, .dim = {3}};
            memcpy(&s.dim[1], m->input[k].row.dim, sizeof(int64_t) * (LK_MAX_RANK - 1));
            x[k] = lk_mul(lk_random_uniform(s, .stream = "x", .call = k), lk_scalar(6.9));
        }
        lk_tensor *in = m->inputs == 1 ? x[0] : lk_nest((lk_tuple){m->inputs, x});
        add_text(lk_model_to_json(m));
        add_model(m);
        add_tensor(lk_model_call(m, in));
        add_tensor(lk_model_call(m, in, LK_ON));
        for (int k = 0; k < lk_model_losses(m).count; k++)
            add_tensor(lk_model_losses(m).item[k]);
    }
}

static void first_values(void)
{
#define FIRST(name, class) add_tensor(lk_initializer_call(lk_initializer_named(#name), LK_SHAPE(6, 7), #name));
    LK_INITIALIZER_LIST(FIRST)
    add_tensor(lk_he_normal(LK_SHAPE(3, 3, 2, 5), "kernel"));
    add_tensor(lk_glorot_uniform(LK_SHAPE(3, 5), "kernel"));
}

static void schedules(void)
{
    lk_schedule *s[] = {lk_exponential_decay(0.1, 7, 0.9), lk_inverse_time_decay(0.1, 7, 0.9), lk_polynomial_decay(0.1, 7),
                        lk_cosine_decay(0.1, 7), lk_cosine_decay_restarts(0.1, 3)};
    for (int i = 0; i < LKI_COUNT(s); i++)
        for (int64_t k = 0; k < 9; k++)
            add_number(lk_schedule_at(s[i], k));
}

static lk_tensor *labels_of(const char *loss, lk_tensor *y)
{
    if (!strcmp(loss, "ctc")) return lk_ones(LK_SHAPE(11, 2), LK_I32);
    const bool classes = !strncmp(loss, "sparse", 6) || !strcmp(loss, "circle") || strstr(loss, "generalized");
    return classes ? lk_zeros(LK_SHAPE(11), LK_I32) : y;
}

static void losses_and_metrics(void)
{
    lk_tensor *y = lk_sigmoid(drawn(11, 3, 4)), *p = lk_sigmoid(drawn(11, 3, 5));
#define LOSS(name)                                                                                                                 \
    add_tensor(lk_loss_call(lk_loss_named(#name), labels_of(#name, y),                                                             \
                            strcmp(#name, "ctc") ? p : lk_reshape(drawn(11, 20, 6), LK_SHAPE(11, 5, 4))));
    LK_LOSS_LIST(LOSS)
    add_tensor(lk_nn_binary_crossentropy(y, p, .label_smoothing = 0.1));
    add_tensor(lk_nn_categorical_crossentropy(y, p, .label_smoothing = 0.1));
    lk_metric *m[] = {lk_auc(),
                      lk_precision(),
                      lk_f1_score(),
                      lk_root_mean_squared_error_metric(),
                      lk_categorical_accuracy(),
                      lk_mean_absolute_error_metric(),
                      lk_cosine_similarity_metric()};
    lk_tensor *binary = lk_cast(lk_greater(y, lk_scalar(0.5)), LK_F32);
    for (int i = 0; i < LKI_COUNT(m); i++) {
        lk_metric_update(m[i], i < 3 ? binary : y, p);
        add_number(lk_metric_result(m[i]));
        add_tensor(lk_metric_results(m[i]));
    }
}

static void ops(void)
{
    lk_tensor *x = drawn(7, 3, 6);
    add_tensor(lk_scalar(0.1));
    add_tensor(lk_fill(LK_SHAPE(2), LK_F32, 1.0000000001));
    add_tensor(lk_fill(LK_SHAPE(2), LK_BF16, 0.3));
    add_tensor(lk_range(3, LK_F32));
    add_tensor(lk_tensor_of(LK_SHAPE(3), 0.1, 0.2, 0.3));
    add_tensor(lk_reduce_mean(x));
    add_tensor(lk_reduce_variance(x));
    add_tensor(lk_clip(x, -0.1, 0.3));
    add_tensor(lk_nn_dropout(x, .rate = 0.3, .stream = "s"));
    add_tensor(lk_nn_attention(lk_reshape(x, LK_SHAPE(1, 7, 3)), lk_reshape(x, LK_SHAPE(1, 7, 3)), lk_reshape(x, LK_SHAPE(1, 7, 3)),
                               NULL));
    add_tensor(lk_elu(x, 0.7));
    add_tensor(lk_leaky_relu(x, 0.3));
    add_tensor(lk_gelu(x, LK_ON));
}

static void add_rows(lk_dataset *d)
{
    lk_iterator *it = lk_iterator_of(d);
    for (lk_tuple e; lk_next(it, &e);)
        for (int i = 0; i < e.count; i++)
            add_tensor(e.item[i]);
}

static void data(void)
{
    char  folder[64];
    FILE *f;
    snprintf(folder, sizeof folder, "%s", folder_new());
    const char *path = folder_file(folder, "rows.csv");
    if (!(f = fopen(path, "w"))) return;
    fputs("a,b\n0.1,0.2\n1e-7,3.3333333333333333\n16777217,0.30000001192092896\n", f);
    fclose(f);
    add_rows(lk_csv_dataset(LK_FILES(path)));
    add_rows(lk_digits(.rows = 20));
    add_rows(lk_dataset_prefetch(lk_dataset_batch(lk_digits(.rows = 20), 7), 2));
    lk_layer *l = lk_normalization();
    lk_normalization_adapt(l, lk_dataset_batch(lk_dataset_from_tensor_slices(LK_TUPLE(drawn(20, 3, 7))), 6));
    add_tensor(lk_layer_call(l, drawn(4, 3, 8)));
    folder_remove(folder);
}

/* ---- under every mode ---- */

static const struct {
    const char *name;
    void (*run)(void);
} PROGRAMS[] = {{"fit", fit_compiled},
                {"fit, eagerly", fit_eagerly},
                {"fit of a model made before", fit_alone},
                {"a loop, op by op", loop_eager},
                {"a loop, compiled", loop_compiled},
                {"a loop on replicas", loop_on_replicas},
                {"a loop with every optimiser", loop_with_every_optimizer},
                {"files", files},
                {"all layers", all_layers},
                {"first values", first_values},
                {"schedules", schedules},
                {"losses and metrics", losses_and_metrics},
                {"ops", ops},
                {"data", data}};

static lk_digest digest_of(int program, int mode)
{
    lk_digest d;
    lki_sha256_begin(&sum);
    fesetround(mode);
    LK_POOL
        PROGRAMS[program].run();
    const int left = fegetround();
    fesetround(FE_TONEAREST);
    assert_string_equal(lk_error(), "");
    if (left != mode) fail_msg("%s: the caller's mode %d was left as %d", PROGRAMS[program].name, mode, left);
    lki_sha256_end(&sum, (uint8_t *)&d);
    return d;
}

TEST(the_same_bits_under_every_rounding_mode)
{
    int others = 0;
    for (int i = 0; i < LKI_COUNT(PROGRAMS); i++) {
        const lk_digest nearest = digest_of(i, FE_TONEAREST);
        for (int m = 0; m < LKI_COUNT(MODES); m++)
            if (!lk_digest_equal(nearest, digest_of(i, MODES[m].mode)))
                others++, print_error("%s: other bits when rounding %s\n", PROGRAMS[i].name, MODES[m].name);
    }
    assert_int_equal(others, 0);
}

TESTS(cmocka_unit_test(the_same_bits_under_every_rounding_mode))
