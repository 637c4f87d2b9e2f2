/* Every allocation of fit, evaluate, predict, save and load fails once: alone, and with all after it. Each time there is an error,
 * LK_ENOMEM, or exactly the right result; nothing is leaked; and nothing crashes. */
#include "check.h"
#include "folder.h"
#include "format/h5.h"
#include <lockstep.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char folder[96];

static const char *in(const char *name) { return folder_file(folder, name); }

/* ---- what is trained ---- */

static lk_model *model_on(int replicas)
{
    lk_model    *m = NULL;
    lk_strategy *s = lk_mirrored_strategy(.cpu_devices = replicas);
    if (!s) return NULL;
    LK_SCOPE(s)
        m = lk_sequential(lk_dense(4, .activation = LK_RELU, .input_shape = LK_SHAPE(3)), lk_batch_normalization(),
                          lk_dropout(0.25), lk_dense(2));
    if (!m || lk_model_compile(m, .loss = lk_sparse_categorical_crossentropy(.from_logits = LK_ON),
                               .optimizer = lk_adam(.learning_rate = 0.01),
                               .metrics = LK_METRICS(lk_sparse_categorical_accuracy())) != LK_OK)
        return NULL;
    return m;
}

static lk_dataset *rows(void)
{
    lk_tensor *x = lk_random_normal(LK_SHAPE(12, 3), .stream = "rows");
    lk_tensor *y = lk_argmax(lk_slice(x, LK_AXES(0, 0), LK_AXES(-1, 2)), .axis = LK_AXIS(1));
    return lk_dataset_batch(lk_dataset_shuffle(lk_dataset_from_tensor_slices(LK_TUPLE(x, y)), 12), 4);
}

static lk_digest digest_of(lk_model *m)
{
    const lk_digest none = {0};
    if (!m) return none;
    return lk_variables_digest(lk_model_variables(m));
}

/* ---- attempts: the digest of what came out; all zero, or an error, where nothing did ---- */

typedef lk_digest attempt_fn(void);

static lk_digest fit_on(int replicas, const char *backups, int64_t stop)
{
    lk_digest d = {0};
    LK_POOL {
        lk_model   *m = model_on(replicas);
        lk_dataset *train = rows(), *check = rows();
        if (m && train && check) {
            lk_callback *stopping = lk_early_stopping(.monitor = "val_loss", .patience = 5, .restore_best_weights = LK_ON);
            lk_callback *log = lk_csv_logger(in("log.csv"));
            lk_callback *backup = lk_backup_and_restore(backups, .save_freq = 2);
            if (stopping && log && backup)
                lk_model_fit(m, train, .epochs = 2, .validation_data = check, .callbacks = LK_CALLBACKS(stopping, log, backup),
                             .verbose = LK_SILENT, .stop_after_steps = stop);
            if (!lk_failed()) d = digest_of(m);
        }
    }
    return d;
}

static lk_digest fits(void) { return fit_on(1, NULL, 0); }
static lk_digest fits_on_two(void) { return fit_on(2, NULL, 0); }

/* Whatever an attempt before it left in the folder is gone first; what it leaves is whole, which the next test is about. */
static lk_digest fits_with_backups(void)
{
    folder_remove(in("backups"));
    return fit_on(1, in("backups"), 0);
}

/* Stopped without a fault; resumes with one. */
static bool armed_later;
static void arm_now(void);

static lk_digest goes_on(void)
{
    folder_remove(in("stopped"));
    fit_on(1, in("stopped"), 3);
    arm_now();
    return fit_on(1, in("stopped"), 0);
}

static lk_digest predicts(void)
{
    lk_digest d = {0};
    LK_POOL {
        lk_model  *m = model_on(2);
        lk_tensor *x = lk_random_normal(LK_SHAPE(9, 3), .stream = "rows"),
                  *y = m ? lk_model_predict(m, .x = x, .batch_size = 4, .verbose = LK_SILENT) : NULL;
        lk_variable *v = y && !lk_failed() ? lk_variable_of(y) : NULL;
        if (v && !lk_failed()) d = lk_variables_digest(LK_VARIABLES(v));
    }
    return d;
}

static lk_digest evaluates(void)
{
    lk_digest d = {0};
    LK_POOL {
        lk_model   *m = model_on(2);
        lk_dataset *data = rows();
        lk_logs     logs = m && data ? lk_model_evaluate(m, data, .verbose = LK_SILENT) : (lk_logs){0};
        if (logs.count == 2 && !lk_failed()) memcpy(&d, logs.value, 2 * sizeof(double));
    }
    return d;
}

static lk_digest there_and_back(lk_status (*save)(lk_model *m, const char *path), lk_model *(*load)(const char *path),
                                const char *path)
{
    lk_digest d = {0};
    LK_POOL {
        lk_model *m = model_on(1);
        if (m && save(m, path) == LK_OK) {
            lk_model *again = load(path);
            if (again && !lk_failed()) d = digest_of(again);
        }
    }
    return d;
}

static lk_model *load_weights(const char *path)
{
    lk_model *m = model_on(1);
    return m && lk_model_load_weights(m, path) == LK_OK ? m : NULL;
}

static lk_status save_checkpoint(lk_model *m, const char *path)
{
    lk_checkpoint *c = lk_checkpoint_of({"model", m}, {"optimizer", lk_model_optimizer(m)});
    return c && lk_checkpoint_save(c, path) ? LK_OK : LK_ENOMEM;
}

static lk_model *load_checkpoint(const char *path)
{
    (void)path;
    lk_model          *m = model_on(2);
    lk_checkpoint     *c = m ? lk_checkpoint_of({"model", m}, {"optimizer", lk_model_optimizer(m)}) : NULL;
    const char        *latest = c ? lk_latest_checkpoint(in("saved")) : NULL;
    lk_restore_status *s = latest ? lk_checkpoint_restore(c, latest) : NULL;
    if (s) lk_restore_expect_partial(s);
    return s ? m : NULL;
}

static lk_digest keeps_model(void) { return there_and_back(lk_model_save, lk_model_load, in("m.keras")); }
static lk_digest keeps_weights(void) { return there_and_back(lk_model_save_weights, load_weights, in("m.weights.h5")); }
static lk_digest keeps_checkpoint(void)
{
    folder_remove(in("saved"));
    return there_and_back(save_checkpoint, load_checkpoint, in("saved/ckpt"));
}

/* ---- each allocation ---- */

typedef struct mode {
    const char *name;
    void (*begin)(int64_t request);
} mode;

static const mode modes[] = {{"alone", lki_memory_fail_at}, {"and all after it", lki_memory_fail_after}};

static const mode *mode_now;
static int64_t     request_now;

static int64_t begun; /* requests before the first that may fail */

static void arm_now(void)
{
    begun = lki_memory_requests();
    if (armed_later && mode_now) mode_now->begin(request_now);
}

static bool is_none(lk_digest d)
{
    const lk_digest none = {0};
    return lk_digest_equal(d, none);
}

static int64_t count_requests(attempt_fn *attempt)
{
    begun = lki_memory_requests();
    attempt();
    return lki_memory_requests() - begun;
}

typedef struct counts {
    int tried, failed;
} counts;

static void one(const char *name, attempt_fn *attempt, lk_digest wanted, counts *c)
{
    const int64_t before = lki_memory_in_use();
    lk_clear_error();
    lk_digest d;
    LK_POOL { /* for what a pool that could not be made should have had */
        if (!armed_later) mode_now->begin(request_now);
        d = attempt();
        lki_memory_fail_after(0);
    }
    const bool failed = lk_failed();
    const char where[] = "allocation";
    if (failed && lk_error_code() != LK_ENOMEM)
        fail_msg("%s: %s %lld fails %s: told as \"%s\"", name, where, (long long)request_now, mode_now->name, lk_error());
    if (!failed && !lk_digest_equal(d, wanted))
        fail_msg("%s: %s %lld fails %s: %s, and no error", name, where, (long long)request_now, mode_now->name,
                 is_none(d) ? "nothing came out" : "other bits");
    lk_clear_error();
    if (lki_memory_in_use() != before)
        fail_msg("%s: %s %lld fails %s: %lld bytes are left behind", name, where, (long long)request_now, mode_now->name,
                 (long long)(lki_memory_in_use() - before));
    c->tried++;
    c->failed += failed;
}

static int64_t tries(void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return 25;
#else
    return 120;
#endif
}

static void check_all(const char *name, attempt_fn *attempt, bool later, int slower)
{
    armed_later = later;
    mode_now = NULL;
    const lk_digest wanted = attempt();
    if (lk_failed()) fail_msg("%s: %s", name, lk_error());
    assert_false(is_none(wanted));
    attempt(); /* what is made once is made now */
    const int64_t all = count_requests(attempt), step = getenv("LOCKSTEP_SOAK") ? 1 : all / (tries() / slower) + 1;
    counts        c = {0};
    for (int i = 0; i < LKI_COUNT(modes); i++)
        for (request_now = 1 + i * step / 2; request_now <= all + 10; request_now += step) { /* threads: more or less */
            mode_now = &modes[i];
            one(name, attempt, wanted, &c);
        }
    print_message("%s: %lld allocations, %d tried, %d told, the others right\n", name, (long long)all, c.tried, c.failed);
    assert_true(c.failed > c.tried / 4);
}

TEST(training)
{
    check_all("fit", fits, false, 1);
    check_all("fit on two replicas", fits_on_two, false, 1);
}

TEST(training_with_backups)
{
    check_all("fit with backups", fits_with_backups, false, 2);
    check_all("fit that goes on", goes_on, true, 2);
}

TEST(using)
{
    check_all("predict", predicts, false, 1);
    check_all("evaluate", evaluates, false, 1);
}

TEST(saving_and_loading)
{
    check_all("checkpoint", keeps_checkpoint, false, 1);
    if (!lki_h5_helper()) skip();
    check_all(".keras", keeps_model, false, 4);
    check_all(".weights.h5", keeps_weights, false, 4);
}

static void silence(const char *text, void *user) { (void)text, (void)user; }

static int begin(void **state)
{
    (void)state;
    lk_set_log(silence, NULL);
    const char *made = folder_new();
    if (made) snprintf(folder, sizeof folder, "%s", made);
    return made ? 0 : -1;
}

static int end(void **state)
{
    (void)state;
    folder_remove(folder);
    return 0;
}

int main(int argc, char **argv)
{
    (void)argc, (void)argv;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(training),
        cmocka_unit_test(training_with_backups),
        cmocka_unit_test(using),
        cmocka_unit_test(saving_and_loading),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
