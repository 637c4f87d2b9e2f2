/* The files of a run that can be resumed: killed while they are written, damaged, without space on the disk, made by another
 * program. A run that resumes ends like an undisturbed one; if it cannot, that is reported. */
#include "fit/backup_files.h"
#include "fit/resume.h"
#include "format/crc32c.h"
#include "model/snapshot.h"
#include "resumed.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

enum { ROWS = 96, BATCH = 16, EPOCHS = 4, STEPS = 6 };

static char logged[1 << 14];

static void keep_log(const char *text, void *user)
{
    (void)user;
    if (!strncmp(text, "WARNING", 7) && !strstr(text, "non-GPU")) strncat(logged, text, sizeof logged - strlen(logged) - 1);
}

static int begin_test(void **state)
{
    (void)state;
    logged[0] = 0;
    lk_set_log(keep_log, NULL);
    lk_clear_error();
    return 0;
}

/* ---- one run, of many settings ----------------------------------------------------------------------------------------------- */

typedef struct setting {
    int          replicas;
    int64_t      stop, every;
    const char  *folder;
    lk_switch    stay;
    int64_t      batch; /* default BATCH */
    lk_callback *other; /* or NULL */
    int          epochs;
} setting;

static lk_model *model_on(int replicas)
{
    lk_model *m = NULL;
    LK_SCOPE(lk_mirrored_strategy(.cpu_devices = replicas ? replicas : 1))
        m = lk_sequential(lk_dense(32, .activation = LK_RELU, .input_shape = LK_SHAPE(4)), lk_dropout(0.25), lk_dense(3));
    lk_model_compile(m, .loss = lk_sparse_categorical_crossentropy(.from_logits = LK_ON),
                     .optimizer = lk_adam(.learning_rate = 0.01), .metrics = LK_METRICS(lk_accuracy()));
    return m;
}

static lk_dataset *data_of(int64_t batch)
{
    lk_tensor *x = lk_random_normal(LK_SHAPE(ROWS, 4), .stream = "rows");
    lk_tensor *y = lk_argmax(lk_slice(x, LK_AXES(0, 0), LK_AXES(-1, 3)), .axis = LK_AXIS(1));
    return lk_dataset_batch(lk_dataset_shuffle(lk_dataset_from_tensor_slices(LK_TUPLE(x, y)), ROWS), batch ? batch : BATCH);
}

/* All of zeros where training failed. */
static lk_digest train(setting s)
{
    lk_digest d = {{0}};
    LK_POOL
        LK_STEP {
            lk_model    *m = model_on(s.replicas);
            lk_callback *backup =
                lk_backup_and_restore(s.folder, .save_freq = s.every, .delete_checkpoint = s.stay ? s.stay : LK_DEFAULT);
            lk_model_fit(m, data_of(s.batch), .epochs = s.epochs ? s.epochs : EPOCHS, .verbose = LK_SILENT,
                         .stop_after_steps = s.stop, .callbacks = s.other ? LK_CALLBACKS(backup, s.other) : LK_CALLBACKS(backup));
            if (!lk_failed()) d = state_digest(m);
        }
    return d;
}

static int backups_in(const char *folder, long number[16])
{
    DIR *d = opendir(folder);
    int  count = 0;
    for (const struct dirent *e; d && (e = readdir(d));) {
        const size_t n = strlen(e->d_name);
        if (!strncmp(e->d_name, "backup-", 7) && n > 6 && !strcmp(e->d_name + n - 6, ".index") && count < 16)
            number[count++] = atol(e->d_name + 7);
    }
    if (d) closedir(d);
    for (int i = 0; i < count; i++) /* the newest first */
        for (int k = i + 1; k < count; k++)
            if (number[k] > number[i]) {
                const long t = number[i];
                number[i] = number[k];
                number[k] = t;
            }
    return count;
}

static const char *file_of(const char *folder, long number, const char *end)
{
    char name[64];
    snprintf(name, sizeof name, "backup-%ld%s", number, end);
    return folder_file(folder, name);
}
static const char INDEX[] = ".index", DATA[] = ".data-00000-of-00001";

/* ---- killed ------------------------------------------------------------------------------------------------------------------ */

/* In a process of its own; its digest is in `path` when it came to its end. */
static pid_t train_apart(setting s, const char *path)
{
    const pid_t child = fork();
    if (child) return child;
    const lk_digest d = train(s);
    const int       file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    const bool      fine = !lk_failed() && write(file, &d, sizeof d) == (ssize_t)sizeof d;
    if (lk_failed()) fprintf(stderr, "%s\n", lk_error());
    _exit(fine && close(file) == 0 ? 0 : 1);
}

static lk_digest digest_in(const char *path)
{
    lk_digest d = {{0}};
    FILE     *f = fopen(path, "rb");
    assert_non_null(f);
    assert_int_equal(fread(&d, 1, sizeof d, f), sizeof d);
    fclose(f);
    return d;
}

static void pause_for(long microseconds)
{
    nanosleep(&(struct timespec){microseconds / 1000000, microseconds % 1000000 * 1000}, NULL);
}

/* Saved after every step, killed at any moment, and again, until one comes to its end. */
TEST(killed_while_it_saves)
{
    const int        longer = 1000; /* epochs, of six steps each */
    static const int counts[] = {1, 2, 4, 8, 3};
    const char      *folder = folder_new();
    char             saved[600], straight[600], ended[600];
    int              killed = 0, status;
    snprintf(saved, sizeof saved, "%s/backup", folder);
    snprintf(straight, sizeof straight, "%s/straight", folder);
    snprintf(ended, sizeof ended, "%s/ended", folder);
    pid_t child = train_apart((setting){.epochs = longer}, straight);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    srand(7);
    for (int cycle = 0; cycle < 400; cycle++) {
        child = train_apart((setting){.replicas = counts[rand() % 5], .every = 1, .folder = saved, .epochs = longer}, ended);
        pause_for(2000 + rand() % 30000);
        if (cycle < (longer > 50 ? 300 : 30)) kill(child, SIGKILL);
        assert_int_equal(waitpid(child, &status, 0), child);
        if (WIFSIGNALED(status)) {
            killed++;
            continue;
        }
        assert_int_equal(status, 0);
        break;
    }
    assert_int_equal(status, 0);
    print_message("killed %d times\n", killed);
    assert_true(killed > 0);
    const lk_digest a = digest_in(straight), b = digest_in(ended);
    assert_true(lk_digest_equal(a, b));
    assert_false(file_exists(saved)); /* with what the killed ones left */
    folder_remove(folder);
}

/* ---- damaged ----------------------------------------------------------------------------------------------------------------- */

static void flip(const char *path, long at)
{
    FILE *f = fopen(path, "r+b");
    assert_non_null(f);
    if (at < 0) fseek(f, at, SEEK_END);
    else fseek(f, at, SEEK_SET);
    const int byte = fgetc(f);
    fseek(f, -1, SEEK_CUR);
    fputc(byte ^ 16, f);
    fclose(f);
}

static void damage_data(const char *folder, long n) { flip(file_of(folder, n, DATA), file_size(file_of(folder, n, DATA)) / 2); }
static void damage_index(const char *folder, long n) { flip(file_of(folder, n, INDEX), file_size(file_of(folder, n, INDEX)) / 2); }
static void cut_data(const char *folder, long n) { assert_int_equal(truncate(file_of(folder, n, DATA), 100), 0); }
static void empty_index(const char *folder, long n) { assert_int_equal(truncate(file_of(folder, n, INDEX), 0), 0); }
static void lose_data(const char *folder, long n) { assert_int_equal(unlink(file_of(folder, n, DATA)), 0); }

TEST(a_damaged_backup_falls_back_to_the_one_before)
{
    static void (*const ways[])(const char *, long) = {damage_data, damage_index, cut_data, empty_index, lose_data};
    const lk_digest straight = train((setting){0});
    for (int i = 0; i < 5; i++) {
        const char *folder = folder_new();
        long        number[16];
        train((setting){.stop = 8, .every = 2, .folder = folder, .replicas = 2});
        assert_int_equal(backups_in(folder, number), 2);
        ways[i](folder, number[0]);
        logged[0] = 0;
        assert_true(lk_digest_equal(train((setting){.folder = folder, .replicas = 4, .stay = LK_OFF}), straight));
        assert_string_equal(lk_error(), "");
        assert_non_null(strstr(logged, file_of("", number[0], "") + 1));
        assert_non_null(strstr(logged, "the backup before it is used"));
        assert_int_equal(backups_in(folder, number), 2);
        ways[i](folder, number[0]);
        ways[i](folder, number[1]); /* no files are left: training starts again only if the user says so */
        train((setting){.folder = folder});
        assert_true(lk_failed());
        assert_non_null(strstr(lk_error(), "remove it to start again"));
        lk_clear_error();
        folder_remove(folder);
    }
}

TEST(leftovers_are_removed_and_other_files_stay)
{
    static const char *const        gone[] = {"backup-9.index.4194000.0.tmp", "backup-9.data-00000-of-00001.4194000.1.tmp",
                                              "backup-5.data-00000-of-00001"},
                             *const stay[] = {"notes.txt",
                                              "backup-notes.txt",
                                              "backup-0.index",
                                              "other.tmp",
                                              "backup-2024.data-photos.tar",
                                              "backup-7.plans.tmp"};
    const char                     *folder = folder_new();
    for (int i = 0; i < 9; i++)
        fclose(fopen(folder_file(folder, i < 3 ? gone[i] : stay[i - 3]), "w"));
    train((setting){.folder = folder, .stop = 3});
    assert_string_equal(lk_error(), "");
    for (int i = 0; i < 3; i++)
        assert_false(file_exists(folder_file(folder, gone[i])));
    for (int i = 0; i < 6; i++)
        assert_true(file_exists(folder_file(folder, stay[i])));
    folder_remove(folder);
}

/* ---- no room ----------------------------------------------------------------------------------------------------------------- */

static void set_limit(rlim_t bytes)
{
    struct rlimit l;
    getrlimit(RLIMIT_FSIZE, &l);
    l.rlim_cur = bytes;
    setrlimit(RLIMIT_FSIZE, &l);
}

static void room_again(const lk_event *e, void *user)
{
    (void)user, (void)e;
    if (logged[0]) set_limit(RLIM_INFINITY);
}

static int occurrences(const char *text, const char *of)
{
    int count = 0;
    for (const char *at = text; (at = strstr(at, of)); at++)
        count++;
    return count;
}

TEST(without_room_training_goes_on)
{
    const int       longer = 500;
    const lk_digest straight = train((setting){.epochs = longer});
    const char     *folder = folder_new();
    long            number[16];
    signal(SIGXFSZ, SIG_IGN);
    for (int relief = 0; relief < 2; relief++) {
        char saved[600];
        snprintf(saved, sizeof saved, "%s/backup-%d", folder, relief);
        logged[0] = 0;
        set_limit(512);
        LK_POOL {
            lk_callback *c = relief ? lk_callback_of(.on_epoch_begin = room_again) : NULL;
            assert_true(lk_digest_equal(train((setting){.epochs = longer, .every = 1, .folder = saved, .stay = LK_OFF, .other = c}),
                                        straight));
        }
        set_limit(RLIM_INFINITY);
        assert_string_equal(lk_error(), "");
        assert_non_null(strstr(logged, "a backup could not be saved"));
        assert_non_null(strstr(logged, strerror(EFBIG)));
        assert_true(occurrences(logged, "could not be saved") == 1); /* the same warning is given once */
        assert_int_equal(folder_leftovers(saved), 0);
        assert_int_equal(backups_in(saved, number), relief ? 2 : 0); /* the next one was tried */
    }
    folder_remove(folder);
}

TEST(a_folder_that_cannot_be_made)
{
    const char *folder = folder_new();
    fclose(fopen(folder_file(folder, "file"), "w"));
    const lk_digest d = train((setting){.every = 1, .folder = folder_file(folder, "file/backup")});
    if (lk_failed()) { /* told before training begins, or a warning while it runs */
        assert_int_equal(lk_error_code(), LK_EIO);
        lk_clear_error();
    } else assert_true(lk_digest_equal(d, train((setting){0})));
    folder_remove(folder);
}

/* ---- often ------------------------------------------------------------------------------------------------------------------- */

TEST(saved_after_every_step)
{
    const char     *folder = folder_new();
    long            number[16];
    const lk_digest straight = train((setting){.epochs = 60});
    assert_true(
        lk_digest_equal(train((setting){.epochs = 60, .every = 1, .folder = folder, .stay = LK_OFF, .replicas = 2}), straight));
    assert_int_equal(backups_in(folder, number), 2);
    assert_int_equal(folder_leftovers(folder), 0);
    /* All of it is done: nothing is trained, and the weights are there. */
    assert_true(lk_digest_equal(train((setting){.epochs = 60, .folder = folder, .stay = LK_OFF, .replicas = 4}), straight));
    /* More epochs continue from there. */
    assert_true(lk_digest_equal(train((setting){.epochs = 62, .folder = folder}), train((setting){.epochs = 62})));
    assert_string_equal(logged, "");
    folder_remove(folder);
}

TEST(saved_by_time)
{
    const char *folder = folder_new();
    long        number[16];
    LK_POOL {
        lk_model *m = model_on(1);
        lk_model_fit(m, data_of(0), .epochs = 2000, .verbose = LK_SILENT, /* on a busy machine a save takes long */
                     .callbacks = LK_CALLBACKS(lk_backup_and_restore(folder, .save_seconds = 1e-3, .delete_checkpoint = LK_OFF)));
    }
    assert_string_equal(lk_error(), "");
    assert_int_equal(backups_in(folder, number), 2);
    assert_true(number[0] > 2);
    folder_remove(folder);
}

/* ---- other circumstances ----------------------------------------------------------------------------------------------------- */

TEST(another_seed_is_told)
{
    const char     *folder = folder_new();
    const uint64_t  seed = lk_random_seed();
    const lk_digest straight = train((setting){0});
    train((setting){.stop = 8, .folder = folder});
    /* The rows are drawn by the seed too: what matters here is what is drawn later. */
    lk_tensor *x = lk_random_normal(LK_SHAPE(ROWS, 4), .stream = "rows");
    lk_tensor *y = lk_argmax(lk_slice(x, LK_AXES(0, 0), LK_AXES(-1, 3)), .axis = LK_AXIS(1));
    lk_set_random_seed(seed + 1);
    lk_model *m = model_on(2);
    lk_model_fit(m, lk_dataset_batch(lk_dataset_shuffle(lk_dataset_from_tensor_slices(LK_TUPLE(x, y)), ROWS), BATCH),
                 .epochs = EPOCHS, .verbose = LK_SILENT, .callbacks = LK_CALLBACKS(lk_backup_and_restore(folder)));
    assert_string_equal(lk_error(), "");
    assert_true(lk_digest_equal(state_digest(m), straight));
    assert_non_null(strstr(logged, "random seed"));
    assert_int_equal(lk_random_seed(), seed + 1); /* that of the process is not touched */
    lk_set_random_seed(seed);
    folder_remove(folder);
}

TEST(other_data_is_refused_within_an_epoch)
{
    const char *folder = folder_new();
    train((setting){.stop = 8, .folder = folder});
    train((setting){.folder = folder, .batch = 24});
    assert_true(lk_failed());
    assert_non_null(strstr(lk_error(), "saved from another pipeline"));
    assert_non_null(strstr(lk_error(), "in the middle of an epoch"));
    lk_clear_error();
    folder_remove(folder);
}

TEST(other_data_is_told_between_epochs)
{
    const char *folder = folder_new();
    train((setting){.folder = folder, .epochs = 2, .stay = LK_OFF});
    logged[0] = 0;
    train((setting){.folder = folder, .epochs = 3, .batch = 24});
    assert_string_equal(lk_error(), "");
    assert_non_null(strstr(logged, "was saved with another dataset"));
    folder_remove(folder);
}

TEST(other_lanes_are_refused)
{
    const char *folder = folder_new();
    const int   lanes = lk_lanes();
    train((setting){.stop = 8, .folder = folder});
    lk_set_lanes(2 * lanes);
    train((setting){.folder = folder});
    assert_true(lk_failed());
    assert_non_null(strstr(lk_error(), "was saved with 8 lanes, here are 16"));
    lk_clear_error();
    lk_set_lanes(lanes);
    folder_remove(folder);
}

/* The strategy's own, before there are weights that would tell. */
TEST(lanes_of_a_model_that_is_not_built)
{
    const char *folder = folder_new();
    for (int half = 0; half < 2; half++)
        LK_POOL {
            lk_model *m = NULL;
            LK_SCOPE(lk_mirrored_strategy(.cpu_devices = 2 * half + 2, .lanes = 4))
                m = lk_sequential(lk_dense(8, .activation = LK_RELU), lk_dense(3));
            lk_model_compile(m, .loss = lk_sparse_categorical_crossentropy(.from_logits = LK_ON), .optimizer = lk_adam());
            lk_model_fit(m, data_of(0), .epochs = EPOCHS, .verbose = LK_SILENT, .stop_after_steps = half ? 0 : 8,
                         .callbacks = LK_CALLBACKS(lk_backup_and_restore(folder)));
            assert_string_equal(lk_error(), "");
        }
    folder_remove(folder);
}

/* ---- the end ---- */

static void end_early(const lk_event *e, void *user)
{
    (void)user;
    pause_for(30000); /* for the writer */
    if (e->epoch == 1) lki_model_done_training(e->model);
}

TEST(an_end_that_a_callback_chose_is_one)
{
    const char *folder = folder_new();
    lk_digest   ends[2];
    for (int i = 0; i < 2; i++)
        LK_POOL
            ends[i] =
                train((setting){.folder = folder, .stay = LK_OFF, .other = i ? NULL : lk_callback_of(.on_epoch_end = end_early)});
    assert_string_equal(lk_error(), "");
    assert_true(lk_digest_equal(ends[0], ends[1]));
    folder_remove(folder);
}

/* ---- two runs ---- */

TEST(two_runs_do_not_share_a_folder)
{
    const char *folder = folder_new();
    int         lock = -1;
    train((setting){.stop = 8, .folder = folder});
    assert_int_equal(lki_backup_lock(folder, false, &lock), LK_OK);
    train((setting){.folder = folder});
    assert_non_null(strstr(lk_error(), "another training keeps its backups in"));
    lk_clear_error();
    lki_backup_unlock(&lock);
    const lk_digest d = train((setting){.folder = folder}), straight = train((setting){0});
    assert_true(lk_digest_equal(d, straight));
    folder_remove(folder);
}

TEST(a_pipe_is_not_waited_for)
{
    const char *folder = folder_new();
    assert_int_equal(mkfifo(folder_file(folder, "backup-9.index"), 0666), 0);
    train((setting){.folder = folder});
    assert_non_null(strstr(lk_error(), "not a regular file"));
    lk_clear_error();
    folder_remove(folder);
}

TEST(other_metrics_are_refused_within_an_epoch)
{
    const char *folder = folder_new();
    train((setting){.stop = 8, .folder = folder});
    LK_POOL {
        lk_model *m = model_on(1);
        lk_model_compile(m, .loss = lk_sparse_categorical_crossentropy(.from_logits = LK_ON), .optimizer = lk_adam());
        lk_model_fit(m, data_of(0), .epochs = EPOCHS, .verbose = LK_SILENT,
                     .callbacks = LK_CALLBACKS(lk_backup_and_restore(folder)));
    }
    assert_true(lk_failed());
    assert_non_null(strstr(lk_error(), "other losses or metrics"));
    lk_clear_error();
    folder_remove(folder);
}

/* Callbacks that were not there, and some that are not there any more. */
TEST(other_callbacks_are_no_obstacle)
{
    const lk_digest straight = train((setting){0});
    const char     *folder = folder_new();
    LK_POOL {
        train((setting){.stop = 8, .folder = folder, .other = lk_early_stopping("loss", .patience = 50)});
        const lk_digest d = train((setting){.folder = folder, .other = lk_reduce_lr_on_plateau("loss", .patience = LK_NUMBER(50))});
        assert_string_equal(lk_error(), "");
        assert_true(lk_digest_equal(d, straight));
    }
    folder_remove(folder);
}

/* ---- records that lie -------------------------------------------------------------------------------------------------------- */

static void read_record(const char *folder, long number, lki_bytes *out)
{
    char prefix[600];
    snprintf(prefix, sizeof prefix, "%s", file_of(folder, number, ""));
    assert_int_equal(lki_checkpoint_extra(prefix, LKI_RESUME_KEY, out), LK_OK);
}

TEST(every_flaw_of_a_record_is_found)
{
    const char *folder = folder_new();
    long        number[16];
    lki_bytes   good = {0};
    train((setting){.stop = 8, .folder = folder});
    assert_true(backups_in(folder, number) >= 1);
    read_record(folder, number[0], &good);
    for (size_t i = 0; i < 9 * good.size; i++) { /* every bit, and every length */
        lki_resume r = {0};
        lki_bytes  bad = {lki_alloc(good.size), good.size};
        memcpy(bad.data, good.data, good.size);
        if (i < 8 * good.size) bad.data[i / 8] ^= (uint8_t)(1 << i % 8);
        else bad.size = i - 8 * good.size;
        assert_int_equal(lki_resume_open("it", &bad, &r), LK_EFORMAT);
        lk_clear_error();
        lki_bytes_free(&bad);
    }
    lki_bytes_free(&good);
    folder_remove(folder);
}

/* With a checksum that is right for what is wrong: an error or a training, never a crash. */
TEST(a_record_that_lies_does_no_harm)
{
    const char *folder = folder_new();
    char        prefix[600];
    long        number[16];
    lki_bytes   good = {0};
    train((setting){.stop = 8, .folder = folder});
    backups_in(folder, number);
    read_record(folder, number[0], &good);
    srand(11);
    for (int i = 0; i < 150; i++)
        LK_POOL
            LK_STEP {
                lki_snapshot  *s = NULL;
                uint8_t       *bad = malloc(good.size);
                lk_model      *m = model_on(1);
                lk_checkpoint *c = lk_checkpoint_of({"model", m}, {"optimizer", lk_model_optimizer(m)});
                memcpy(bad, good.data, good.size);
                for (int k = rand() % 3; k >= 0; k--)
                    bad[12 + (size_t)rand() % (good.size - 12)] = (uint8_t)(rand() % 4 ? rand() : rand() % 2 ? 255 : 0);
                const uint32_t sum = lki_crc32c_mask(lki_crc32c(0, bad + 12, good.size - 12));
                for (int k = 0; k < 4; k++)
                    bad[8 + k] = (uint8_t)(sum >> 8 * k);
                assert_int_equal(lki_snapshot_take(c, &s), LK_OK);
                assert_int_equal(lki_snapshot_put(s, LKI_RESUME_KEY, bad, good.size), LK_OK);
                snprintf(prefix, sizeof prefix, "%s", file_of(folder, 1000 + i, ""));
                assert_int_equal(lki_snapshot_write(s, prefix), LK_OK);
                lki_snapshot_free(s);
                free(bad);
                lk_model_fit(m, data_of(0), .epochs = 2, .verbose = LK_SILENT, .stop_after_steps = 4,
                             .callbacks = LK_CALLBACKS(lk_backup_and_restore(folder, .save_freq = INT64_MAX)));
                lk_clear_error();
                folder_remove(folder);
            }
    lki_bytes_free(&good);
    folder_remove(folder);
}

/* ---- no memory --------------------------------------------------------------------------------------------------------------- */

/* Whether it came to its end; stopped, saved and gone on with, on the way. */
static bool in_two_parts(const char *folder, lk_digest *out)
{
    train((setting){.stop = 4, .every = 2, .folder = folder, .epochs = 2});
    if (!lk_failed()) *out = train((setting){.folder = folder, .epochs = 2});
    return !lk_failed();
}

/* A request that fails, alone or with all after it, is an error or a warning: nothing is leaked, and weights are right if there are
 * any. */
TEST(every_allocation_fails)
{
    const char     *folder = folder_new();
    const lk_digest straight = train((setting){.epochs = 2});
    lk_digest       d = {{0}};
    in_two_parts(folder, &d);
    const int64_t first = lki_memory_requests();
    in_two_parts(folder, &d);
    const int64_t requests = lki_memory_requests() - first, jump = requests / 400 + 1;
    for (int64_t n = 1; n <= requests; n += jump)
        for (int alone = 0; alone < 2; alone++) {
            const int64_t before = lki_memory_in_use();
            bool          ended = false;
            lk_clear_error();
            LK_POOL
                LK_STEP { /* for what is made where no pool or step could be */
                    if (alone) lki_memory_fail_at(n);
                    else lki_memory_fail_after(n);
                    ended = in_two_parts(folder, &d);
                    lki_memory_fail_after(0);
                }
            if (ended && !lk_digest_equal(d, straight)) fail_msg("request %lld: other weights", (long long)n);
            lk_clear_error();
            if (lki_memory_in_use() != before) fail_msg("request %lld, %d: memory is left behind", (long long)n, alone);
            d = train((setting){.folder = folder, .epochs = 2}); /* the files it left can be resumed from */
            assert_string_equal(lk_error(), "");
            assert_true(lk_digest_equal(d, straight));
        }
    folder_remove(folder);
}

#define BEGUN(name) cmocka_unit_test_setup(name, begin_test)
TESTS(BEGUN(killed_while_it_saves), BEGUN(a_damaged_backup_falls_back_to_the_one_before),
      BEGUN(leftovers_are_removed_and_other_files_stay), BEGUN(without_room_training_goes_on), BEGUN(a_folder_that_cannot_be_made),
      BEGUN(saved_after_every_step), BEGUN(saved_by_time), BEGUN(another_seed_is_told),
      BEGUN(other_data_is_refused_within_an_epoch), BEGUN(other_data_is_told_between_epochs), BEGUN(other_lanes_are_refused),
      BEGUN(lanes_of_a_model_that_is_not_built), BEGUN(an_end_that_a_callback_chose_is_one), BEGUN(two_runs_do_not_share_a_folder),
      BEGUN(a_pipe_is_not_waited_for), BEGUN(other_metrics_are_refused_within_an_epoch), BEGUN(other_callbacks_are_no_obstacle),
      BEGUN(every_flaw_of_a_record_is_found), BEGUN(a_record_that_lies_does_no_harm), BEGUN(every_allocation_fails))
