/* Callbacks through fit: stopping, rates, files, moving averages, backups. What each prints by itself is in callbacks.c. */
#include "fit/hooks.h"
#include "fit/weights.h"
#include "folder.h"

#define FIT(m, ...)                                                                                                                \
    lk_model_fit(m, .x = rows_x(), .y = rows_y(), .batch_size = 4, .shuffle = LK_OFF, .verbose = LK_SILENT, __VA_ARGS__)
#define VALIDATED .validation_x = rows_x(), .validation_y = rows_y()

TEST(fit_stops_early_and_restores)
{
    LK_POOL {
        lk_model   *m = small_model(lk_sgd(.learning_rate = 0.2)); /* too much: it gets worse */
        lk_history *h =
            FIT(m, .epochs = 5,
                .callbacks = LK_CALLBACKS(lk_early_stopping(.monitor = "loss", .restore_best_weights = LK_ON, .verbose = 1)));
        assert_string_equal(lk_error(), "");
        assert_int_equal(lk_history_epochs(h), 2);
        heard("Epoch 2: early stopping\nRestoring model weights from the end of the best epoch: 1.\n");
        lk_model *once = small_model(lk_sgd(.learning_rate = 0.2));
        FIT(once, .epochs = 1);
        assert_true(weight_of(m) == weight_of(once));
    }
}

TEST(fit_logs_rates_for_those_behind)
{
    const char *folder = folder_new(), *path = folder_file(folder, "log.csv");
    char        text[1024];
    LK_POOL {
        int         calls = 0;
        lk_model   *m = small_model(NULL);
        lk_history *h =
            FIT(m, .epochs = 2, .callbacks = LK_CALLBACKS(lk_learning_rate_scheduler(halved, .user = &calls), lk_csv_logger(path)));
        assert_string_equal(lk_error(), "");
        assert_int_equal(calls, 2);
        assert_float_equal(lk_history_value(h, "learning_rate", 1), 0.25, 0);
        read_text(path, text, sizeof text);
        assert_ptr_equal(strstr(text, "epoch,learning_rate,loss,val_learning_rate,val_loss\r\n0,0.5,"), text);
    }
    folder_remove(folder);
}

TEST(fit_ends_where_the_loss_is_no_number)
{
    LK_POOL {
        lk_model   *m = small_model(lk_sgd(.learning_rate = 1e30));
        lk_history *h = FIT(m, .epochs = 3, .callbacks = LK_CALLBACKS(lk_terminate_on_nan()));
        assert_false(lk_failed());
        assert_non_null(h);
        assert_true(lk_history_epochs(h) <= 1);
        assert_non_null(strstr(said, ": Invalid loss, terminating training\n"));
        said[0] = 0;
    }
}

TEST(fit_saves_the_best_model_whole)
{
    NEEDS_HELPER();
    const char *folder = folder_new(), *path = folder_file(folder, "best.keras");
    LK_POOL {
        lk_model *m = small_model(NULL);
        FIT(m, .epochs = 2, VALIDATED, .callbacks = LK_CALLBACKS(lk_model_checkpoint(path, .save_best_only = LK_ON)));
        assert_string_equal(lk_error(), "");
        lk_model *again = lk_model_load(path);
        assert_non_null(again);
        assert_true(weight_of(again) == weight_of(m));
    }
    folder_remove(folder);
}

/* ---- moving averages ---- */

static void keep_weight(const lk_event *e, void *user) { *(double *)user = weight_of(e->model); }

TEST(averages_are_shown_while_the_model_is_evaluated)
{
    LK_POOL {
        double    tested = 0, trained = 0;
        lk_model *m = small_model(lk_sgd(.learning_rate = 0.001, .use_ema = LK_ON, .ema_momentum = LK_NUMBER(0.5)));
        FIT(m, .epochs = 1, VALIDATED,
            .callbacks = LK_CALLBACKS(lk_swap_ema_weights(), lk_callback_of(.user = &tested, .on_test_batch_end = keep_weight),
                                      lk_callback_of(.user = &trained, .on_epoch_end = keep_weight)));
        assert_string_equal(lk_error(), "");
        assert_true(tested > trained && trained < 1); /* the average follows a falling weight with a delay */
        assert_float_equal(weight_of(m), tested, 0);  /* at the end it is in the variables */

        lk_model *plain = small_model(NULL);
        FIT(plain, .epochs = 1);
        assert_float_equal(trained, weight_of(plain), 0); /* in training nothing changed */
    }
}

TEST(averages_on_epochs_stay_for_callbacks_behind)
{
    LK_POOL {
        double    behind = 0, begun = 0, plain_end = 0;
        lk_model *m = small_model(lk_sgd(.learning_rate = 0.001, .use_ema = LK_ON, .ema_momentum = LK_NUMBER(0.5)));
        FIT(m, .epochs = 2,
            .callbacks = LK_CALLBACKS(lk_swap_ema_weights(.swap_on_epoch = LK_ON),
                                      lk_callback_of(.user = &behind, .on_epoch_end = keep_weight),
                                      lk_callback_of(.user = &begun, .on_epoch_begin = keep_weight)));
        assert_string_equal(lk_error(), "");
        assert_float_equal(weight_of(m), behind, 0);
        lk_model *plain = small_model(NULL);
        FIT(plain, .epochs = 1, .callbacks = LK_CALLBACKS(lk_callback_of(.user = &plain_end, .on_epoch_end = keep_weight)));
        assert_float_equal(begun, plain_end, 0); /* the second epoch continued with the weights in training */
    }
}

TEST(averages_need_an_optimizer_that_keeps_them)
{
    LK_POOL {
        lk_model *m = small_model(NULL);
        FIT(m, .epochs = 1, .callbacks = LK_CALLBACKS(lk_swap_ema_weights()));
        refused(LK_EINVAL, "lk_swap_ema_weights: the optimiser has no moving averages; make it with .use_ema = LK_ON");
        lk_model_evaluate(small_model(lk_sgd(.use_ema = LK_ON)), .x = rows_x(), .y = rows_y(), .verbose = LK_SILENT,
                          .callbacks = LK_CALLBACKS(lk_swap_ema_weights()));
        refused(LK_EINVAL, "and train before evaluating");
    }
}

/* ---- backup ---- */

static void fail_in_epoch_2(const lk_event *e, void *user)
{
    (void)user;
    if (e->epoch == 2) lk_reshape(lk_zeros(LK_SHAPE(3), LK_F32), LK_SHAPE(2));
}

static void stop_at_step(const lk_event *e, void *user)
{
    if (e->step == *(int *)user) lk_model_stop_training(e->model);
}

static void count_steps(const lk_event *e, void *user)
{
    (void)e;
    ++*(int *)user;
}

static bool has_backup(const char *folder)
{
    DIR *d = opendir(folder);
    bool found = false;
    for (const struct dirent *e; d && (e = readdir(d));)
        found = found || strncmp(e->d_name, "backup-", 7) == 0;
    if (d) closedir(d);
    return found;
}

static double trained_weight(int epochs, int64_t batch)
{
    lk_model *m = small_model(lk_adam(.learning_rate = 0.01));
    lk_model_fit(m, .x = rows_x(), .y = rows_y(), .batch_size = batch, .shuffle = LK_OFF, .verbose = LK_SILENT, .epochs = epochs);
    return weight_of(m);
}

TEST(a_run_that_failed_goes_on)
{
    const char *folder = folder_new();
    char        dir[512];
    snprintf(dir, sizeof dir, "%s/backup", folder);
    LK_POOL {
        FIT(small_model(lk_adam(.learning_rate = 0.01)), .epochs = 4,
            .callbacks = LK_CALLBACKS(lk_backup_and_restore(dir), lk_callback_of(.on_epoch_begin = fail_in_epoch_2)));
        assert_true(lk_failed());
        lk_clear_error();
        assert_true(has_backup(dir));
        assert_int_equal(folder_leftovers(dir), 0);

        lk_model   *m = small_model(lk_adam(.learning_rate = 0.01));
        lk_history *h = FIT(m, .epochs = 4, .callbacks = LK_CALLBACKS(lk_backup_and_restore(dir)));
        assert_string_equal(lk_error(), "");
        assert_int_equal(lk_history_epochs(h), 4); /* with those of the run before */
        assert_true(lk_history_times(h).steps >= 4 &&
                    lk_history_times(h).steps < 8); /* the first or the second of its epochs was saved last */
        assert_true(weight_of(m) == trained_weight(4, 4));
        assert_false(file_exists(dir));
    }
    folder_remove(folder);
}

TEST(a_run_that_was_stopped_goes_on_in_its_epoch)
{
    const char *folder = folder_new();
    char        dir[512];
    snprintf(dir, sizeof dir, "%s/backup", folder);
    for (int64_t every = 0; every < 3; every += 2)
        LK_POOL {
            int at = 10, steps = 0; /* of 4 steps an epoch: in the third */
            lk_model_fit(small_model(lk_adam(.learning_rate = 0.01)), .x = rows_x(), .y = rows_y(), .batch_size = 2,
                         .shuffle = LK_OFF, .verbose = LK_SILENT, .epochs = 4,
                         .callbacks = LK_CALLBACKS(lk_backup_and_restore(dir, .save_freq = every),
                                                   lk_callback_of(.user = &at, .on_train_batch_end = stop_at_step)));
            assert_string_equal(lk_error(), "");
            lk_model   *m = small_model(lk_adam(.learning_rate = 0.01));
            lk_history *h =
                lk_model_fit(m, .x = rows_x(), .y = rows_y(), .batch_size = 2, .shuffle = LK_OFF, .verbose = LK_SILENT, .epochs = 4,
                             .callbacks = LK_CALLBACKS(lk_backup_and_restore(dir, .save_freq = every, .delete_checkpoint = LK_OFF),
                                                       lk_callback_of(.user = &steps, .on_train_batch_end = count_steps)));
            assert_string_equal(lk_error(), "");
            assert_int_equal(steps, 6);
            assert_int_equal(lk_history_epochs(h), 4);
            assert_true(weight_of(m) == trained_weight(4, 2));
            assert_true(has_backup(dir));
            folder_remove(dir);
        }
    folder_remove(folder);
}

TEST(spoilt_weights_do_not_replace_a_backup)
{
    const char *folder = folder_new();
    char        dir[512];
    snprintf(dir, sizeof dir, "%s/backup", folder);
    LK_POOL {
        lk_model *m = small_model(lk_sgd(.learning_rate = 1e30));
        FIT(m, .epochs = 3, .callbacks = LK_CALLBACKS(lk_terminate_on_nan(), lk_backup_and_restore(dir)));
        assert_string_equal(lk_error(), "");
        assert_false(isfinite(weight_of(m)) && fabs(weight_of(m)) < 1e6);
    }
    assert_false(has_backup(dir));
    folder_remove(folder);
}

static void put_text(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

TEST(backups_that_cannot_be_used)
{
    const char *folder = folder_new();
    stage       s = {0};
    stage_set(&s, small_model(NULL));
    put_text(folder_file(folder, "backup-3.index"), "{");
    FIT(small_model(NULL), .callbacks = LK_CALLBACKS(lk_backup_and_restore(folder)));
    assert_true(strstr(lk_error(), "there is no other one: remove it to start again") != NULL);
    refused(LK_EFORMAT, "backup-3");
    assert_null(lk_backup_and_restore(folder, .save_freq = -5));
    refused(LK_EINVAL, "save_freq -5");
    assert_null(lk_backup_and_restore(folder, .save_seconds = NAN));
    refused(LK_EINVAL, "save_seconds nan");
    assert_null(lk_backup_and_restore(""));
    refused(LK_EINVAL, "backup_dir is \"\"");
    for (int i = 0; i < LKI_HOOKS; i++) /* no folder: nothing */
        assert_int_equal(tell(lk_backup_and_restore(.save_freq = 1), (lki_hook)i, &s), LK_OK);
    folder_remove(folder);
}

TEST(a_whole_run_leaves_other_files_alone)
{
    const char *folder = folder_new();
    put_text(folder_file(folder, "mine.txt"), "x");
    LK_POOL {
        FIT(small_model(NULL), .epochs = 2, .callbacks = LK_CALLBACKS(lk_backup_and_restore(folder)));
    }
    assert_string_equal(lk_error(), "");
    assert_true(file_exists(folder_file(folder, "mine.txt")));
    assert_false(has_backup(folder));
    folder_remove(folder);
}

TESTS(HOOK_TEST(fit_stops_early_and_restores), HOOK_TEST(fit_logs_rates_for_those_behind),
      HOOK_TEST(fit_ends_where_the_loss_is_no_number), HOOK_TEST(fit_saves_the_best_model_whole),
      HOOK_TEST(averages_are_shown_while_the_model_is_evaluated), HOOK_TEST(averages_on_epochs_stay_for_callbacks_behind),
      HOOK_TEST(averages_need_an_optimizer_that_keeps_them), HOOK_TEST(a_run_that_failed_goes_on),
      HOOK_TEST(a_run_that_was_stopped_goes_on_in_its_epoch), HOOK_TEST(spoilt_weights_do_not_replace_a_backup),
      HOOK_TEST(backups_that_cannot_be_used), HOOK_TEST(a_whole_run_leaves_other_files_alone))
