/* An earlier error of the thread changes nothing that a call does: every step of a program gives the same results with one, and
 * lk_error() still returns that first one at the end. */
#include "check.h"
#include "folder.h"
#include "refusal.h"
#include <lockstep.h>
#include <stdio.h>
#include <string.h>

enum { ROWS = 96, FEATURES = 12 };

static void quiet(const char *text, void *user) { (void)text, (void)user; }

static void fail_before(void)
{
    lk_clear_error();
    lk_matmul(lk_ones(LK_SHAPE(2, 3), LK_F32), lk_ones(LK_SHAPE(4, 5), LK_F32));
    assert_true(lk_failed());
}

static lk_dataset *data(void)
{
    lk_tensor *x = lk_random_normal(LK_SHAPE(ROWS, FEATURES), .stream = "x");
    lk_tensor *y = lk_cast(lk_mul(lk_random_uniform(LK_SHAPE(ROWS), .stream = "y"), lk_scalar(2.99)), LK_I32);
    return lk_dataset_batch(lk_dataset_from_tensor_slices(LK_TUPLE(x, y)), 16);
}

static lk_tuple scaled(lk_tuple in, void *user)
{
    (void)user;
    return LK_TUPLE(lk_mul(in.item[0], lk_scalar(0.5)), in.item[1]);
}

static lk_tuple count(lk_tuple state, lk_tuple element, void *user)
{
    (void)user;
    return LK_TUPLE(lk_add(state.item[0], lk_reduce_sum(lk_cast(element.item[1], LK_F32))));
}

static lk_tuple twice(lk_tuple in, void *user)
{
    (void)user;
    return LK_TUPLE(lk_add(in.item[0], in.item[0]));
}

typedef struct results {
    lk_digest trained, on_batches, loaded, restored;
    double    loss, accuracy, first, sum, doubled;
} results;

static lk_model *model(void)
{
    return lk_sequential(lk_dense(16, .activation = LK_RELU, .input_shape = LK_SHAPE(FEATURES)), lk_dropout(0.2), lk_dense(3));
}

static void use(lk_model *m, results *r, const char *folder)
{
    lk_dataset *d = lk_dataset_map(data(), scaled);
    lk_history *h = lk_model_fit(m, d, .validation_data = d, .epochs = 2, .verbose = LK_SILENT);
    r->trained = lk_model_digest(m);
    r->first = lk_history_value(h, "loss", 0);
    lk_logs logs = lk_model_evaluate(m, d, .verbose = LK_SILENT);
    r->loss = lk_logs_get(&logs, "loss");
    r->accuracy = lk_logs_get(&logs, "accuracy");
    LK_FOR_EACH(batch, d)
        lk_model_train_on_batch(m, batch);
    r->on_batches = lk_model_digest(m);
    r->sum = lk_item(lk_dataset_reduce(d, LK_TUPLE(lk_scalar(0)), count).item[0]);
    r->doubled = lk_item(lk_call(lk_function_of(twice), LK_TUPLE(lk_scalar(21))).item[0]);
    lk_model_save(m, folder_file(folder, "model.keras"));
    lk_model *again = lk_model_load(folder_file(folder, "model.keras"));
    if (again) r->loaded = lk_model_digest(again);
    lk_checkpoint_save(lk_checkpoint_of({"model", m}), folder_file(folder, "c"));
    lk_model *fresh = model();
    lk_checkpoint_restore(lk_checkpoint_of({"model", fresh}), lk_latest_checkpoint(folder));
    r->restored = lk_model_digest(fresh);
}

static results results_of(bool stale)
{
    results r = {0};
    char    folder[64];
    snprintf(folder, sizeof folder, "%s", folder_new());
    if (stale) fail_before();
    LK_POOL {
        lk_model *m = model();
        assert_int_equal(lk_model_compile(m, .loss = lk_sparse_categorical_crossentropy(.from_logits = true),
                                          .metrics = LK_METRICS(lk_accuracy())),
                         LK_OK);
        use(m, &r, folder);
    }
    folder_remove(folder);
    if (!stale) return r;
    assert_int_equal(lk_error_code(), LK_ESHAPE);
    assert_non_null(strstr(lk_error(), "matmul"));
    lk_clear_error();
    return r;
}

TEST(a_program_does_the_same_after_an_error)
{
    const results right = results_of(false), ours = results_of(true);
    assert_false(lk_failed());
    assert_true(lk_digest_equal(right.trained, ours.trained));
    assert_true(lk_digest_equal(right.on_batches, ours.on_batches));
    assert_false(lk_digest_equal(right.trained, right.on_batches));
    assert_true(lk_digest_equal(right.loaded, ours.loaded) && lk_digest_equal(ours.loaded, ours.on_batches));
    assert_true(lk_digest_equal(right.restored, ours.restored) && lk_digest_equal(ours.restored, ours.on_batches));
    assert_true(right.loss == ours.loss && right.accuracy == ours.accuracy && right.first == ours.first);
    assert_true(right.sum == ours.sum && right.sum > 0 && ours.doubled == 42);
}

TEST(what_could_not_be_made_is_not_what_was_left_out)
{
    lk_model *m = model();
    assert_int_equal(lk_model_compile(m, .optimizer = lk_adam(.learning_rate = -1)), LK_EINVAL);
    assert_non_null(strstr(lk_error(), "learning_rate"));
    assert_int_equal(lk_model_compile(m, .loss = lk_loss_named("none such")), LK_EINVAL);
    assert_int_equal(lk_model_compile(m, .loss = lk_mean_squared_error()), LK_OK); /* with the default optimiser */
    assert_non_null(strstr(lk_error(), "learning_rate"));
    assert_non_null(lk_model_optimizer(m));
    lk_clear_error();
    lk_free(m);
}

TEST(a_second_error_is_returned_and_the_first_is_told)
{
    fail_before();
    assert_null(lk_model_fit(NULL, NULL));
    assert_int_equal(lk_model_compile(NULL), LK_EINVAL);
    assert_null(lk_model_load("/there/is/none.keras"));
    assert_int_equal(lk_error_code(), LK_ESHAPE);
    lk_clear_error();
}

static int begin(void **state)
{
    (void)state;
    lk_set_log(quiet, NULL);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_program_does_the_same_after_an_error),
                                       cmocka_unit_test(what_could_not_be_made_is_not_what_was_left_out),
                                       cmocka_unit_test(a_second_error_is_returned_and_the_first_is_told)};
    return cmocka_run_group_tests(tests, begin, NULL);
}
