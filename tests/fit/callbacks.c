/* Callbacks: what each does and prints at each event, called directly. Sequences and words were compared with Keras 3.15. */
#include "fit/hooks.h"
#include "fit/weights.h"
#include "folder.h"
#include <signal.h>
#include <sys/resource.h>

/* ---- numbers, logs, paths ---------------------------------------------------------------------------------------------------- */

TEST(numbers_as_python_writes_them)
{
    char text[LKI_NUMBER_TEXT];
    assert_string_equal(lki_number_text(0.1, text), "0.1");
    assert_string_equal(lki_number_text(1, text), "1.0");
    assert_string_equal(lki_number_text(1.1540327072143555, text), "1.1540327072143555");
    assert_string_equal(lki_number_text(1e-5, text), "1e-05");
    assert_string_equal(lki_number_text(-NAN, text), "nan");
    assert_string_equal(lki_number_text(-INFINITY, text), "-inf");
    assert_string_equal(lki_rate_text((double)0.001f, text), "0.001");
    assert_string_equal(lki_rate_text((double)0.001f * 0.1, text), "0.0001");
    assert_string_equal(lki_rate_text((double)0.00001f, text), "1e-05");
}

TEST(logs_grow_and_are_found)
{
    lki_logs l = {0};
    char     name[16], text[64];
    for (int i = 0; i < 50; i++) {
        snprintf(name, sizeof name, "m%d", i);
        assert_int_equal(lki_logs_set(&l, name, i), LK_OK);
    }
    assert_int_equal(lki_logs_set(&l, "m7", 70), LK_OK);
    assert_int_equal(l.logs.count, 50);
    assert_float_equal(lk_logs_get(&l.logs, "m7"), 70, 0);
    assert_float_equal(lk_logs_get(&l.logs, "m49"), 49, 0);
    assert_true(isnan(lk_logs_get(&l.logs, "m50")) && isnan(lk_logs_get(NULL, "m1")) && isnan(lk_logs_get(&l.logs, NULL)));
    assert_false(lk_failed());
    lki_logs_clear(&l);
    assert_int_equal(l.logs.count, 0);
    lki_logs_set(&l, "loss", 1);
    lki_logs_set(&l, "accuracy", 2);
    assert_string_equal(lki_logs_text(&l.logs, text, sizeof text), "loss, accuracy");
    assert_string_equal(lki_logs_text(&l.logs, text, 12), "loss, ...");
    lki_logs_free(&l);
}

static void filled(const char *path, int64_t batch, const char *want)
{
    static const char *const name[] = {"val_loss", "accuracy"};
    static const double      value[] = {0.12345, 0.9};
    char                    *out;
    assert_int_equal(lki_template_check("test", path), LK_OK);
    assert_int_equal(lki_template_fill("test", path, 4, batch, &(lk_logs){2, name, value}, &out), LK_OK);
    assert_string_equal(out, want);
    lki_release(out);
}

static void not_filled(const char *path, const char *words)
{
    static const char *const name[] = {"val_loss"};
    static const double      value[] = {0.5};
    char                    *out;
    assert_int_equal(lki_template_fill("test", path, 0, -1, &(lk_logs){1, name, value}, &out), LK_EINVAL);
    assert_null(out);
    refused(LK_EINVAL, words);
}

TEST(paths_are_filled_as_str_format_does)
{
    filled("plain.keras", -1, "plain.keras");
    filled("{epoch}", -1, "5");
    filled("ck-{epoch:02d}-{val_loss:.2f}.keras", -1, "ck-05-0.12.keras");
    filled("{epoch:4d}|{epoch:04d}|{epoch:+d}|{epoch:.1f}", -1, "   5|0005|+5|5.0");
    filled("{val_loss}|{val_loss:8.3f}|{val_loss:08.3f}|{val_loss:.1e}|{val_loss:g}", -1,
           "0.12345|   0.123|0000.123|1.2e-01|0.12345");
    filled("{accuracy:.1%}", -1, "90.0%");
    filled("{{epoch}}-{batch}", 11, "{epoch}-12");
    not_filled("{val_acc:.2f}", "there is no value \"val_acc\"; there are epoch, val_loss");
    not_filled("{batch}", "there is no value \"batch\"");
    not_filled("{val_loss:d}", "{val_loss:d} is for whole numbers; say {val_loss:.4f}");
    not_filled("a{epoch", "\"{epoch\" is not understood; values are written {epoch:02d} or {val_loss:.2f}");
    not_filled("a}b", "\"}b\" is not understood");
    not_filled("{}", "is not understood");
    not_filled("{epoch:.2d}", "is not understood");
    not_filled("{epoch:999d}", "is not understood");
    not_filled("{epoch:x}", "is not understood");
}

TEST(more_or_less_is_better_by_the_name)
{
    static const struct {
        const char *name;
        int         sign;
    } cases[] = {{"val_loss", -1},
                 {"accuracy", 1},
                 {"val_sparse_categorical_accuracy", 1},
                 {"dense_1_accuracy", 1},
                 {"acc", 1},
                 {"val_auc", 1},
                 {"auc_1", 1},
                 {"precision", 1},
                 {"val_recall", 1},
                 {"f1_score", 1},
                 {"true_positives", 1},
                 {"false_positives", -1},
                 {"mean_absolute_error", -1},
                 {"accuracy_loss", -1},
                 {"launch", -1},
                 {"cosine_similarity", 1},
                 {"perplexity", -1}};
    for (int i = 0; i < LKI_COUNT(cases); i++) {
        lki_monitor m = {0};
        assert_int_equal(lki_monitor_begin("test", &m, cases[i].name, LK_MODE_AUTO, 0), LK_OK);
        if (m.sign != cases[i].sign) fail_msg("%s: %d", cases[i].name, m.sign);
        assert_true(lki_monitor_better(&m, 0, m.best));
        assert_false(lki_monitor_better(&m, NAN, m.best));
        lki_monitor_end(&m);
    }
    lki_monitor m = {0};
    assert_int_equal(lki_monitor_begin("test", &m, "loss", LK_MODE_MAX, -0.1), LK_OK);
    assert_true(m.sign == 1 && lki_monitor_better(&m, 1.2, 1) && !lki_monitor_better(&m, 1.05, 1));
    lki_monitor_end(&m);
    assert_int_equal(lki_monitor_begin("test", &m, "loss", (lk_monitor_mode)7, 0), LK_EINVAL);
    refused(LK_EINVAL, "test: mode 7; it should be LK_MODE_AUTO, LK_MODE_MIN or LK_MODE_MAX");
}

TEST(every_so_many_steps)
{
    lki_every e = {.steps = 3};
    int       due = 0;
    lki_every_begin(&e);
    for (int epoch = 0; epoch < 3; epoch++)
        for (int64_t batch = 0; batch < 4; batch++)
            due = due * 2 + lki_every_due(&e, batch);
    assert_int_equal(due, 0x249); /* 0010 0100 1001 */
    lki_every_begin(&e);          /* two steps are one execution */
    assert_false(lki_every_due(&e, 1));
    assert_true(lki_every_due(&e, 3));
    assert_false(lki_every_due(&e, 1));
}

/* ---- EarlyStopping ----------------------------------------------------------------------------------------------------------- */

static int epochs_until_stop(lk_callback *c, int count, const double *value)
{
    stage     s = {0};
    lk_model *m = small_model(NULL);
    fresh(c, &s, m);
    int epoch = 0;
    while (epoch < count && !was_stopped(m))
        assert_int_equal(END_EPOCH(c, &s, epoch, {"val_loss", value[epoch]}), LK_OK), epoch++;
    assert_int_equal(TELL(c, train_end, &s), LK_OK);
    stage_free(&s);
    return was_stopped(m) ? epoch : -1;
}
#define STOPS_AFTER(c, ...) epochs_until_stop(c, (int)(sizeof((double[]){__VA_ARGS__}) / sizeof(double)), (double[]){__VA_ARGS__})

TEST(early_stopping_counts_like_keras)
{
    assert_int_equal(STOPS_AFTER(lk_early_stopping(), 5, 4, 4, 3), 3);
    assert_int_equal(STOPS_AFTER(lk_early_stopping(), 5, 6), 2);
    assert_int_equal(STOPS_AFTER(lk_early_stopping(.patience = 2), 5, 6, 4, 5, 5, 5), 5);
    assert_int_equal(STOPS_AFTER(lk_early_stopping(.patience = 2), 5, 6, 4, 5, 3, 4), -1);
    assert_int_equal(STOPS_AFTER(lk_early_stopping(.min_delta = 0.5), 5, 4.8, 4), 2);
    assert_int_equal(STOPS_AFTER(lk_early_stopping(.mode = LK_MODE_MAX), 1, 2, 3, 2), 4);
    assert_int_equal(STOPS_AFTER(lk_early_stopping(.start_from_epoch = 2), 1, 2, 3, 4), 4);
    assert_int_equal(STOPS_AFTER(lk_early_stopping(.patience = 3), NAN, NAN, NAN, NAN),
                     3); /* Keras takes the first one for the best */
    /* better every time, but never than the baseline: patience is over when it stops getting better */
    assert_int_equal(STOPS_AFTER(lk_early_stopping(.patience = 2, .baseline = LK_NUMBER(1)), 5, 4, 3, 3, 2), 4);
    assert_int_equal(STOPS_AFTER(lk_early_stopping(.patience = 1, .baseline = LK_NUMBER(1)), 5, 0.5, 0.6), 3);
}

TEST(early_stopping_says_so_and_brings_the_best_weights_back)
{
    stage        s = {0};
    lk_model    *m = small_model(NULL);
    lk_callback *c = fresh(lk_early_stopping(.patience = 1, .restore_best_weights = LK_ON, .verbose = 1), &s, m);
    const double loss[] = {3, 1, 2}, weight[] = {10, 11, 12};
    for (int i = 0; i < 3; i++) {
        set_weight(m, weight[i]);
        assert_int_equal(END_EPOCH(c, &s, i, {"loss", 0}, {"val_loss", loss[i]}), LK_OK);
    }
    assert_true(was_stopped(m));
    set_weight(m, 99);
    assert_int_equal(TELL(c, train_end, &s), LK_OK);
    heard("Epoch 3: early stopping\nRestoring model weights from the end of the best epoch: 2.\n");
    assert_float_equal(weight_of(m), 11, 0);
    stage_free(&s);
}

TEST(early_stopping_restores_without_stopping_but_not_after_a_failure)
{
    stage        s = {0};
    lk_model    *m = small_model(NULL);
    lk_callback *c = fresh(lk_early_stopping(.patience = 5, .restore_best_weights = LK_ON), &s, m);
    for (int failed = 0; failed < 2; failed++) {
        set_weight(m, 1);
        END_EPOCH(c, &s, 0, {"val_loss", 1});
        set_weight(m, 2);
        END_EPOCH(c, &s, 1, {"val_loss", 2});
        s.h.failed = failed;
        assert_int_equal(TELL(c, train_end, &s), LK_OK);
        assert_float_equal(weight_of(m), failed ? 2 : 1, 0);
        assert_int_equal(TELL(c, train_begin, &s), LK_OK);
    }
    heard("");
    stage_free(&s);
}

TEST(early_stopping_warns_once_about_a_value_that_is_not_there)
{
    stage        s = {0};
    lk_model    *m = small_model(NULL);
    lk_callback *c = fresh(lk_early_stopping(), &s, m);
    for (int i = 0; i < 4; i++)
        assert_int_equal(END_EPOCH(c, &s, i, {"loss", 1}, {"accuracy", 0}), LK_OK);
    assert_false(was_stopped(m));
    assert_string_equal(logged,
                        "WARNING:lockstep: Early stopping conditioned on metric `val_loss` which is not available. Available "
                        "metrics are: loss, accuracy");
    stage_free(&s);
    assert_null(lk_early_stopping(.patience = -1));
    refused(LK_EINVAL, "lk_early_stopping: patience -1; it should be at least 0");
    assert_null(lk_early_stopping(.start_from_epoch = -2));
    refused(LK_EINVAL, "start_from_epoch -2");
    assert_null(lk_early_stopping(.min_delta = NAN));
    refused(LK_EINVAL, "min_delta nan");
}

/* ---- learning rates ---------------------------------------------------------------------------------------------------------- */

static double rate_of(lk_model *m) { return lk_optimizer_learning_rate(lk_model_optimizer(m)); }

TEST(plateaus_lower_the_rate)
{
    stage        s = {0};
    lk_model    *m = small_model(lk_sgd(.learning_rate = 0.1));
    lk_callback *c = fresh(
        lk_reduce_lr_on_plateau(.patience = LK_NUMBER(2), .factor = LK_NUMBER(0.5), .cooldown = 1, .min_lr = 0.03, .verbose = 1),
        &s, m);
    const double loss[] = {1, 1, 1, 1, 1, 1, 1, 1, 1}, rate[] = {0.1, 0.1, 0.05, 0.05, 0.03, 0.03, 0.03, 0.03, 0.03};
    for (int i = 0; i < 9; i++) {
        assert_int_equal(END_EPOCH(c, &s, i, {"val_loss", loss[i]}), LK_OK);
        assert_float_equal(rate_of(m), rate[i], 1e-8);
        assert_float_equal(lk_logs_get(&s.logs.logs, "learning_rate"), i ? rate[i - 1] : 0.1, 1e-8);
    }
    heard("\nEpoch 3: ReduceLROnPlateau reducing learning rate to 0.05.\n\nEpoch 5: ReduceLROnPlateau reducing learning rate to "
          "0.03.\n");
    stage_free(&s);
}

TEST(plateaus_know_what_an_improvement_is)
{
    stage        s = {0};
    lk_model    *m = small_model(lk_adam());
    lk_callback *c = fresh(lk_reduce_lr_on_plateau(.monitor = "loss", .patience = LK_NUMBER(1)), &s, m);
    END_EPOCH(c, &s, 0, {"loss", 1});
    END_EPOCH(c, &s, 1, {"loss", 0.9});
    assert_float_equal(rate_of(m), 0.001, 1e-9);
    END_EPOCH(c, &s, 2, {"loss", 0.89995}); /* by less than min_delta */
    assert_float_equal(rate_of(m), 0.0001, 1e-9);
    heard("");
    END_EPOCH(c, &s, 3, {"other", 1});
    assert_non_null(strstr(logged,
                           "Learning rate reduction is conditioned on metric `loss` which is not available. Available metrics are: "
                           "other, learning_rate"));
    stage_free(&s);
    assert_null(lk_reduce_lr_on_plateau(.factor = LK_NUMBER(1)));
    refused(LK_EINVAL, "lk_reduce_lr_on_plateau: factor 1; it should be between 0 and 1");
    assert_null(lk_reduce_lr_on_plateau(.patience = LK_NUMBER(-1)));
    refused(LK_EINVAL, "patience -1");
    assert_null(lk_reduce_lr_on_plateau(.cooldown = -1));
    refused(LK_EINVAL, "cooldown -1");
    assert_null(lk_reduce_lr_on_plateau(.min_lr = -1));
    refused(LK_EINVAL, "min_lr -1");
}

TEST(schedules_of_ones_own)
{
    stage        s = {0};
    int          calls = 0;
    lk_model    *m = small_model(NULL);
    lk_callback *c = fresh(lk_learning_rate_scheduler(halved, .user = &calls, .verbose = 1), &s, m);
    for (int i = 0; i < 3; i++) {
        s.h.event.epoch = i;
        assert_int_equal(TELL(c, epoch_begin, &s), LK_OK);
        assert_int_equal(END_EPOCH(c, &s, i, {"loss", 1}), LK_OK);
        assert_float_equal(lk_logs_get(&s.logs.logs, "learning_rate"), i == 0 ? 0.5 : i == 1 ? 0.25 : 0.125, 0);
    }
    assert_int_equal(calls, 3);
    heard(
        "\nEpoch 1: LearningRateScheduler setting learning rate to 0.5.\n\nEpoch 2: LearningRateScheduler setting learning rate to "
        "0.25.\n\nEpoch 3: LearningRateScheduler setting learning rate to 0.125.\n");
    s.h.event.epoch = 3;
    assert_int_equal(TELL(c, epoch_begin, &s), LK_EINVAL);
    refused(LK_EINVAL, "lk_learning_rate_scheduler: epoch 3: the schedule gave nan; it should be a finite number");
    stage_free(&s);
    assert_null(lk_learning_rate_scheduler());
    refused(LK_EINVAL, "schedule is NULL");
}

TEST(rates_that_follow_a_schedule_cannot_be_set)
{
    stage        s = {0};
    int          calls = 0;
    lk_schedule *decay = lk_exponential_decay(.initial_learning_rate = 0.1, .decay_steps = 10, .decay_rate = 0.5);
    lk_model    *m = small_model(lk_sgd(.schedule = decay));
    stage_set(&s, m);
    assert_int_equal(TELL(lk_learning_rate_scheduler(halved, .user = &calls), train_begin, &s), LK_EINVAL);
    refused(LK_EINVAL, "lk_learning_rate_scheduler: the learning rate of the optimiser follows a schedule and cannot be set");
    assert_int_equal(TELL(lk_reduce_lr_on_plateau(), train_begin, &s), LK_EINVAL);
    refused(LK_EINVAL, "lk_reduce_lr_on_plateau: the learning rate of the optimiser follows a schedule");
    stage_set(&s, lk_sequential(lk_dense(1)));
    assert_int_equal(TELL(lk_reduce_lr_on_plateau(), train_begin, &s), LK_ESTATE);
    refused(LK_ESTATE, "the model is not compiled");
}

/* ---- TerminateOnNaN ---------------------------------------------------------------------------------------------------------- */

TEST(a_loss_that_is_no_number_ends_training)
{
    const double bad[] = {NAN, INFINITY, -INFINITY};
    for (int i = 0; i < 3; i++) {
        stage        s = {0};
        lk_model    *m = small_model(NULL);
        lk_callback *c = fresh(lk_terminate_on_nan(), &s, m);
        assert_int_equal(end_batch(c, &s, 0, 2, 1e30), LK_OK);
        assert_false(was_stopped(m));
        assert_int_equal(end_batch(c, &s, 0, 3, bad[i]), LK_OK);
        assert_true(was_stopped(m));
        heard("Batch 3: Invalid loss, terminating training\n");
    }
}

/* ---- CSVLogger --------------------------------------------------------------------------------------------------------------- */

TEST(csv_files_have_keras_columns_and_line_ends)
{
    const char  *folder = folder_new(), *path = folder_file(folder, "runs/log.csv");
    char         text[1024];
    stage        s = {0};
    lk_callback *c = fresh(lk_csv_logger(path), &s, NULL);
    END_EPOCH(c, &s, 0, {"loss", 1.1540327072143555}, {"accuracy", 0.4375}, {"val_loss", 1e-05}, {"val_accuracy", 1});
    read_text(path, text, sizeof text); /* on the disk at once */
    assert_string_equal(text, "epoch,accuracy,loss,val_accuracy,val_loss\r\n0,0.4375,1.1540327072143555,1.0,1e-05\r\n");
    END_EPOCH(c, &s, 1, {"loss", NAN}, {"extra", 3}, {"val_loss", INFINITY});
    assert_int_equal(TELL(c, train_end, &s), LK_OK);
    read_text(path, text, sizeof text);
    assert_non_null(strstr(text, "\r\n1,NA,nan,NA,inf\r\n"));

    c = fresh(lk_csv_logger(path, .append = LK_ON), &s, NULL);
    END_EPOCH(c, &s, 2, {"loss", 0.5}, {"val_loss", 0.25});
    TELL(c, train_end, &s);
    read_text(path, text, sizeof text);
    assert_non_null(strstr(text, "1,NA,nan,NA,inf\r\n2,0.5,0.25\r\n"));

    c = fresh(lk_csv_logger(path, .separator = ";"), &s, NULL); /* no validation: columns for it all the same */
    END_EPOCH(c, &s, 0, {"loss", 0.5}, {"a;\"b\"", 2});
    TELL(c, train_end, &s);
    read_text(path, text, sizeof text);
    assert_string_equal(text, "epoch;\"a;\"\"b\"\"\";loss;\"val_a;\"\"b\"\"\";val_loss\r\n0;2.0;0.5;NA;NA\r\n");
    stage_free(&s);
    folder_remove(folder);
}

/* Files may grow to this many bytes, or to any size. */
static void limit_files(rlim_t bytes)
{
    struct rlimit r;
    getrlimit(RLIMIT_FSIZE, &r);
    r.rlim_cur = bytes;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &r), 0);
}

TEST(a_disk_that_is_full_for_a_while_leaves_a_whole_csv_file_and_one_warning)
{
    const char *folder = folder_new(), *path = folder_file(folder, "log.csv");
    char        text[1024];
    stage       s = {0};
    signal(SIGXFSZ, SIG_IGN);
    lk_callback *c = fresh(lk_csv_logger(path), &s, NULL);
    END_EPOCH(c, &s, 0, {"loss", 0.5}, {"val_loss", 1});
    limit_files(30);
    END_EPOCH(c, &s, 1, {"loss", 0.25}, {"val_loss", 2});
    END_EPOCH(c, &s, 2, {"loss", 0.125}, {"val_loss", 3});
    limit_files(RLIM_INFINITY);
    assert_false(lk_failed());
    const char *first = strstr(logged, "log.csv is incomplete: File too large; training continues");
    assert_non_null(first);
    assert_null(strstr(first + strlen("log.csv is incomplete"), "incomplete"));
    END_EPOCH(c, &s, 3, {"loss", 0.5}, {"val_loss", 4});
    assert_int_equal(TELL(c, train_end, &s), LK_OK);
    read_text(path, text, sizeof text);
    assert_string_equal(text, "epoch,loss,val_loss\r\n0,0.5,1.0\r\n1,0.25,2.0\r\n2,0.125,3.0\r\n3,0.5,4.0\r\n");
    stage_free(&s);
    folder_remove(folder);
}

TEST(a_csv_file_that_is_removed_is_made_again)
{
    const char  *folder = folder_new(), *path = folder_file(folder, "log.csv");
    char         text[1024];
    stage        s = {0};
    lk_callback *c = fresh(lk_csv_logger(path), &s, NULL);
    END_EPOCH(c, &s, 0, {"loss", 0.5}, {"val_loss", 1});
    unlink(path);
    rmdir(folder);
    assert_int_equal(TELL(c, train_end, &s), LK_OK);
    read_text(path, text, sizeof text);
    assert_string_equal(text, "epoch,loss,val_loss\r\n0,0.5,1.0\r\n");
    stage_free(&s);
    folder_remove(folder);
}

TEST(csv_files_that_cannot_be_written)
{
    stage s = {0};
    stage_set(&s, NULL);
    assert_int_equal(TELL(lk_csv_logger("/proc/none/log.csv"), train_begin, &s), LK_EIO);
    refused(LK_EIO, "/proc/none");
    assert_null(lk_csv_logger());
    refused(LK_EINVAL, "lk_csv_logger: filename is missing");
    assert_null(lk_csv_logger("x", .separator = "::"));
    refused(LK_EINVAL, "lk_csv_logger: separator \"::\"; it should be one character");
    assert_null(lk_csv_logger("x", .separator = "\""));
    refused(LK_EINVAL, "separator");
}

/* ---- ModelCheckpoint --------------------------------------------------------------------------------------------------------- */

TEST(checkpoints_by_the_end_of_their_names)
{
    NEEDS_HELPER();
    const char *folder = folder_new();
    stage       s = {0};
    lk_model   *m = small_model(NULL);
    END_EPOCH(fresh(lk_model_checkpoint(folder_file(folder, "a/{epoch:02d}-{loss:.1f}.keras")), &s, m), &s, 0, {"loss", 0.25});
    END_EPOCH(fresh(lk_model_checkpoint(folder_file(folder, "b.weights.h5"), .save_weights_only = LK_ON), &s, m), &s, 0,
              {"loss", 1});
    assert_string_equal(lk_error(), "");
    assert_true(file_exists(folder_file(folder, "a/01-0.2.keras")));
    set_weight(m, 5);
    assert_int_equal(lk_model_load_weights(m, folder_file(folder, "b.weights.h5")), LK_OK);
    assert_float_equal(weight_of(m), 1, 0);
    stage_free(&s);
    folder_remove(folder);
}

static double weight_in(const char *path, bool optimizer)
{
    double w = 0;
    LK_POOL {
        lk_model      *m = small_model(NULL);
        lk_checkpoint *c =
            optimizer ? lk_checkpoint_of({"model", m}, {"optimizer", lk_model_optimizer(m)}) : lk_checkpoint_of({"model", m});
        lk_restore_status *r = lk_checkpoint_read(c, path);
        assert_int_equal(lk_restore_assert_consumed(r), LK_OK);
        w = weight_of(m);
    }
    return w;
}

TEST(other_names_are_checkpoints_of_tensorflow)
{
    const char *folder = folder_new();
    stage       s = {0};
    lk_model   *m = small_model(NULL);
    set_weight(m, 7);
    END_EPOCH(fresh(lk_model_checkpoint(folder_file(folder, "all/ckpt_{epoch}")), &s, m), &s, 6, {"loss", 1});
    END_EPOCH(fresh(lk_model_checkpoint(folder_file(folder, "weights/ckpt"), .save_weights_only = LK_ON), &s, m), &s, 6,
              {"loss", 1});
    assert_string_equal(lk_error(), "");
    assert_string_equal(lk_latest_checkpoint(folder_file(folder, "all")), folder_file(folder, "all/ckpt_7"));
    assert_float_equal(weight_in(folder_file(folder, "all/ckpt_7"), true), 7, 0);
    assert_float_equal(weight_in(folder_file(folder, "weights/ckpt"), false), 7, 0);
    heard("");
    stage_free(&s);
    folder_remove(folder);
}

TEST(only_the_best_is_kept)
{
    const char  *folder = folder_new();
    char         path[600], want[4096];
    stage        s = {0};
    lk_model    *m = small_model(NULL);
    const double loss[] = {0.2, 0.3, 0.1};
    snprintf(path, sizeof path, "%s/best", folder);
    lk_callback *c = fresh(lk_model_checkpoint(path, .save_best_only = LK_ON, .save_weights_only = LK_ON, .verbose = 1), &s, m);
    for (int i = 0; i < 3; i++) {
        set_weight(m, i + 1);
        assert_int_equal(END_EPOCH(c, &s, i, {"val_loss", loss[i]}), LK_OK);
        assert_float_equal(weight_in(path, false), i < 2 ? 1 : 3, 0);
    }
    snprintf(want, sizeof want,
             "\nEpoch 1: val_loss improved from inf to 0.20000, saving model to %s\n\nEpoch 1: finished saving model to %s\n"
             "\nEpoch 2: val_loss did not improve from 0.20000\n"
             "\nEpoch 3: val_loss improved from 0.20000 to 0.10000, saving model to %s\n\nEpoch 3: finished saving model to %s\n",
             path, path, path, path);
    heard(want);
    stage_free(&s);
    folder_remove(folder);
}

TEST(checkpoints_know_a_threshold_and_what_is_missing)
{
    const char  *folder = folder_new();
    stage        s = {0};
    lk_model    *m = small_model(NULL);
    lk_callback *c = fresh(lk_model_checkpoint(folder_file(folder, "m"), .monitor = "val_accuracy", .save_best_only = LK_ON,
                                               .initial_value_threshold = LK_NUMBER(0.9), .verbose = 1),
                           &s, m);
    END_EPOCH(c, &s, 0, {"val_accuracy", 0.85});
    heard("\nEpoch 1: val_accuracy did not improve from 0.90000\n");
    assert_false(file_exists(folder_file(folder, "m.index")));
    END_EPOCH(c, &s, 1, {"loss", 1}); /* without the value everything is saved */
    assert_true(file_exists(folder_file(folder, "m.index")));
    assert_non_null(strstr(logged, "Saving the best model only is conditioned on metric `val_accuracy` which is not available"));
    assert_int_equal(END_EPOCH(fresh(lk_model_checkpoint(folder_file(folder, "{nothing:.2f}.keras")), &s, m), &s, 0, {"loss", 1}),
                     LK_EINVAL);
    refused(LK_EINVAL, "there is no value \"nothing\"; there are epoch, loss");
    stage_free(&s);
    folder_remove(folder);
}

TEST(checkpoints_every_so_many_steps)
{
    const char  *folder = folder_new();
    stage        s = {0};
    lk_model    *m = small_model(NULL);
    lk_callback *c = fresh(lk_model_checkpoint(folder_file(folder, "{epoch}-{batch}"), .save_freq = 2), &s, m);
    for (int epoch = 0; epoch < 2; epoch++) {
        for (int64_t batch = 0; batch < 3; batch++)
            assert_int_equal(end_batch(c, &s, epoch, batch, 1), LK_OK);
        assert_int_equal(END_EPOCH(c, &s, epoch, {"loss", 1}), LK_OK);
    }
    const char *const there[] = {"1-2.index", "2-1.index", "2-3.index"};
    for (int i = 0; i < 3; i++)
        assert_true(file_exists(folder_file(folder, there[i])));
    assert_false(file_exists(folder_file(folder, "1-3.index")));
    stage_free(&s);
    folder_remove(folder);
}

TEST(checkpoints_that_are_refused)
{
    stage s = {0};
    assert_null(lk_model_checkpoint());
    refused(LK_EINVAL, "lk_model_checkpoint: filepath is missing");
    assert_null(lk_model_checkpoint("x.keras", .save_weights_only = LK_ON));
    refused(LK_EINVAL, "with save_weights_only it should end in .weights.h5, or be the prefix of a checkpoint");
    assert_null(lk_model_checkpoint("x.h5"));
    refused(LK_EINVAL, "a whole model is saved as .keras, weights as .weights.h5");
    assert_null(lk_model_checkpoint("x.keras", .save_freq = -1));
    refused(LK_EINVAL, "save_freq -1");
    assert_null(lk_model_checkpoint("{epoch.keras"));
    refused(LK_EINVAL, "is not understood");
    lk_callback *c = fresh(lk_model_checkpoint("/proc/none/x.keras"), &s, small_model(NULL));
    assert_int_equal(END_EPOCH(c, &s, 0, {"loss", 1}), LK_EIO);
    refused(LK_EIO, "/proc/none");
    stage_free(&s);
}

/* ---- custom callbacks ---- */

static char order[2048];

static void note(const char *what, const lk_event *e, void *user)
{
    char text[64];
    snprintf(text, sizeof text, "%s%d.%lld ", what, e->epoch, (long long)e->batch);
    strncat(order, text, sizeof order - strlen(order) - 1);
    if (user && strcmp(what, user) == 0) lk_reshape(lk_zeros(LK_SHAPE(3), LK_F32), LK_SHAPE(2)); /* an error */
}
#define NOTE(hook)                                                                                                                 \
    static void note_##hook(const lk_event *e, void *user) { note(#hook, e, user); }
LKI_HOOK_LIST(NOTE)
#define ON(hook) .on_##hook = note_##hook,

TEST(own_callbacks_hear_each_event_with_all_logs)
{
    stage        s = {0};
    lk_model    *m = small_model(NULL);
    lk_callback *c = fresh(lk_callback_of(LKI_HOOK_LIST(ON).user = NULL), &s, m);
    order[0] = 0;
    for (int i = 0; i < LKI_HOOKS; i++)
        assert_int_equal(tell(c, (lki_hook)i, &s), LK_OK);
#define NAME(hook) #hook "0.0 "
    assert_string_equal(order, LKI_HOOK_LIST(NAME));
    assert_int_equal(tell(lk_callback_of(.user = NULL), LKI_HOOK_epoch_end, &s), LK_OK); /* nothing given, nothing done */
}

static void see_rate(const lk_event *e, void *user) { *(double *)user = lk_logs_get(&e->logs, "learning_rate"); }

TEST(own_callbacks_see_what_others_added)
{
    stage        s = {0};
    double       rate = 0;
    lk_model    *m = small_model(NULL);
    lk_callback *c = lk_callback_of(.user = &rate, .on_epoch_end = see_rate);
    stage_set(&s, m);
    lki_logs_set(&s.logs, "loss", 1);
    s.h.event.logs = s.logs.logs;
    s.h.more = &s.logs;
    assert_int_equal(lki_log_add(&s.h, "learning_rate", 0.25), LK_OK);
    assert_int_equal(TELL(c, epoch_end, &s), LK_OK);
    assert_float_equal(rate, 0.25, 0);
    s.h.more = NULL;
    assert_int_equal(lki_log_add(&s.h, "learning_rate", 0.25), LK_OK); /* nowhere to put it */
    stage_free(&s);
}

TEST(errors_of_own_callbacks_end_training)
{
    stage        s = {0};
    lk_callback *c = lk_callback_of(LKI_HOOK_LIST(ON).user = "epoch_end");
    stage_set(&s, NULL);
    assert_int_equal(TELL(c, epoch_begin, &s), LK_OK);
    assert_int_equal(TELL(c, epoch_end, &s), LK_ESHAPE);
    assert_int_equal(TELL(c, epoch_begin, &s), LK_OK); /* not its error */
    refused(LK_ESHAPE, "reshape");
}

/* ---- memory ------------------------------------------------------------------------------------------------------------------ */

static int make_them(void)
{
    int made = 1;
    LK_POOL {
        lk_callback *all[] = {lk_early_stopping(),
                              lk_reduce_lr_on_plateau(),
                              lk_terminate_on_nan(),
                              lk_csv_logger("x"),
                              lk_model_checkpoint("{epoch}.keras"),
                              lk_backup_and_restore("x"),
                              lk_tensorboard(),
                              lk_swap_ema_weights(),
                              lk_callback_of(.user = NULL)};
        for (int i = 0; i < LKI_COUNT(all); i++)
            made = made && all[i];
        made = made && LK_CALLBACKS(all[0], all[1]).count == 2;
    }
    return made;
}

TEST(without_memory_there_are_none) { assert_true(check_every_allocation(make_them) > 10); }

static int fill_logs(void)
{
    lki_logs l = {0};
    int      filled_all = 1;
    for (int i = 0; i < 20; i++)
        filled_all = filled_all && lki_logs_set(&l, (char[]){(char)('a' + i), 0}, i) == LK_OK;
    lki_logs_free(&l);
    return filled_all;
}

TEST(logs_without_memory) { assert_true(check_every_allocation(fill_logs) > 20); }

TESTS(HOOK_TEST(numbers_as_python_writes_them), HOOK_TEST(logs_grow_and_are_found), HOOK_TEST(paths_are_filled_as_str_format_does),
      HOOK_TEST(more_or_less_is_better_by_the_name), HOOK_TEST(every_so_many_steps), HOOK_TEST(early_stopping_counts_like_keras),
      HOOK_TEST(early_stopping_says_so_and_brings_the_best_weights_back),
      HOOK_TEST(early_stopping_restores_without_stopping_but_not_after_a_failure),
      HOOK_TEST(early_stopping_warns_once_about_a_value_that_is_not_there), HOOK_TEST(plateaus_lower_the_rate),
      HOOK_TEST(plateaus_know_what_an_improvement_is), HOOK_TEST(schedules_of_ones_own),
      HOOK_TEST(rates_that_follow_a_schedule_cannot_be_set), HOOK_TEST(a_loss_that_is_no_number_ends_training),
      HOOK_TEST(csv_files_have_keras_columns_and_line_ends),
      HOOK_TEST(a_disk_that_is_full_for_a_while_leaves_a_whole_csv_file_and_one_warning),
      HOOK_TEST(a_csv_file_that_is_removed_is_made_again), HOOK_TEST(csv_files_that_cannot_be_written),
      HOOK_TEST(checkpoints_by_the_end_of_their_names), HOOK_TEST(other_names_are_checkpoints_of_tensorflow),
      HOOK_TEST(only_the_best_is_kept), HOOK_TEST(checkpoints_know_a_threshold_and_what_is_missing),
      HOOK_TEST(checkpoints_every_so_many_steps), HOOK_TEST(checkpoints_that_are_refused),
      HOOK_TEST(own_callbacks_hear_each_event_with_all_logs), HOOK_TEST(own_callbacks_see_what_others_added),
      HOOK_TEST(errors_of_own_callbacks_end_training), HOOK_TEST(without_memory_there_are_none), HOOK_TEST(logs_without_memory))
