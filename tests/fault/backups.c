/* Training with lk_backup_and_restore() when the system fails: every system call of a run that resumes from a backup and saves
 * again fails, is cut short, or is the last one (shim/shim.h); every byte of the newest backup is damaged. Training continues or
 * reports why not. Whatever happened, a later run ends with the weights of an undisturbed one, and leaves no extra files.
 *
 * LOCKSTEP_SOAK=1: every call and every bit; without it some of them. */
#include "core/memory.h"
#include "folder.h"
#include "format/file.h"
#include "model/refused.h"
#include "shim/shim.h"
#include <errno.h>
#include <signal.h>
#include <sys/wait.h>

enum { MOST_FILES = 16, EVERY = 1000 };

static char      place[128], folder[96];
static lk_digest wanted;

/* ---- the log ---- */

static int  warnings;
static char last_warning[2048];

static void listen(const char *text, void *user)
{
    (void)user;
    if (!strstr(text, "WARNING")) return;
    warnings++;
    snprintf(last_warning, sizeof last_warning, "%s", text);
}

/* ---- training ---- */

static lk_model *model_on(int replicas)
{
    lk_model    *m = NULL;
    lk_strategy *s = lk_mirrored_strategy(.cpu_devices = replicas);
    LK_SCOPE(s)
        m = lk_sequential(lk_dense(4, .activation = LK_RELU, .input_shape = LK_SHAPE(3)), lk_dropout(0.25), lk_dense(2));
    lk_model_compile(m, .loss = lk_sparse_categorical_crossentropy(.from_logits = LK_ON),
                     .optimizer = lk_adam(.learning_rate = 0.01));
    return m;
}

static lk_dataset *shuffled(void)
{
    lk_tensor *x = lk_random_normal(LK_SHAPE(24, 3), .stream = "rows");
    lk_tensor *y = lk_argmax(lk_slice(x, LK_AXES(0, 0), LK_AXES(-1, 2)), .axis = LK_AXIS(1));
    return lk_dataset_batch(lk_dataset_shuffle(lk_dataset_from_tensor_slices(LK_TUPLE(x, y)), 24), 4);
}

/* Two epochs of six steps, stopped after this many; a new model, optimiser and dataset each time, as in a new process. Errors are
 * the caller's. */
static lk_digest part(const char *backups, int64_t stop)
{
    lk_digest d = {0};
    LK_POOL
        LK_STEP {
            lk_model *m = model_on(1);
            lk_model_fit(m, shuffled(), .epochs = 2, .stop_after_steps = stop,
                         .callbacks = LK_CALLBACKS(lk_backup_and_restore(backups, .save_freq = 2)), .verbose = LK_SILENT);
            if (!lk_failed()) d = lk_variables_digest(lk_model_variables(m));
        }
    return d;
}

/* ---- the folder as it was after the first part ---- */

static struct {
    int       count;
    char      name[MOST_FILES][128];
    lki_bytes bytes[MOST_FILES];
} kept;

static void keep_folder(void)
{
    DIR *d = opendir(place);
    for (const struct dirent *e; d && (e = readdir(d));) {
        if (e->d_name[0] == '.') continue;
        assert_true(kept.count < MOST_FILES);
        snprintf(kept.name[kept.count], sizeof kept.name[0], "%.100s", e->d_name);
        assert_int_equal(lki_file_read(folder_file(place, e->d_name), &kept.bytes[kept.count++]), LK_OK);
    }
    if (d) closedir(d);
    assert_true(kept.count >= 2);
}

static void put_folder(void)
{
    folder_remove(place);
    mkdir(place, 0777);
    for (int i = 0; i < kept.count; i++)
        assert_int_equal(lki_file_write(folder_file(place, kept.name[i]), 1, &kept.bytes[i]), LK_OK);
    lk_clear_error();
    warnings = 0;
    last_warning[0] = 0;
}

/* ---- checks ---- */

static shim_fault fault;

static void show_folder(void)
{
    DIR *d = opendir(place);
    for (const struct dirent *e; d && (e = readdir(d));)
        print_error("    %s\n", e->d_name);
    if (d) closedir(d);
}

#define HERE(condition)                                                                                                            \
    if (!(condition)) {                                                                                                            \
        show_folder();                                                                                                             \
        fail_msg("%s: action %d (%s) at call %d (%s): %s; error \"%s\", warning \"%s\"", __func__, (int)fault.action,              \
                 strerror(fault.error), fault.at, shim_where(), #condition, lk_error(), last_warning);                             \
    }

static int stride(void)
{
    if (getenv("LOCKSTEP_SOAK")) return 1;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return 37;
#else
    return 7;
#endif
}

static int first(void)
{
    static int turn;
    return 1 + turn++ % stride();
}

static void goes_on(void)
{
    const lk_digest d = part(place, 0);
    HERE(!lk_failed());
    HERE(lk_digest_equal(d, wanted));
    HERE(!file_exists(place)); /* all of it went, the folder too */
}

static bool says(const char *text, const char *reason) { return strstr(text, place) && strstr(text, reason); }

static bool is_call(const char *name) { return !strncmp(shim_where(), name, strlen(name)); }

/* ---- calls that fail ---- */

static void one_failure(void)
{
    put_folder();
    const int64_t memory = lki_memory_in_use();
    const int     descriptors = shim_descriptors();
    shim_arm(place, fault);
    part(place, 5);
    shim_disarm();
    HERE(lki_memory_in_use() == memory);
    HERE(shim_descriptors() == descriptors);
    if (lk_failed()) {
        HERE(fault.action == SHIM_FAIL && (fault.error != EINTR || !shim_made_again()));
        HERE(lk_error_code() == LK_EIO && says(lk_error(), strerror(fault.error)));
        lk_clear_error();
    } else if (fault.action == SHIM_FAIL && fault.error != EINTR && (is_call("write") || is_call("fsync") || is_call("rename")))
        HERE(warnings && says(last_warning, strerror(fault.error)));
    if (fault.action == SHIM_SHORT) HERE(!warnings);
    goes_on();
}

TEST(every_call_fails)
{
    static const shim_fault faults[] = {
        {.action = SHIM_FAIL, .error = EIO},
        {.action = SHIM_FAIL, .error = ENOSPC},
        {.action = SHIM_FAIL, .error = EINTR},
        {.action = SHIM_FAIL, .error = EIO, .lasting = true},
        {.action = SHIM_FAIL, .error = ENOSPC, .lasting = true},
        {.action = SHIM_SHORT},
    };
    for (int f = 0; f < LKI_COUNT(faults); f++)
        for (int n = first(), more = 1; more; n += stride()) {
            fault = faults[f];
            fault.at = n;
            one_failure();
            more = shim_happened();
        }
}

/* ---- calls that are the last ---- */

static bool dies(void)
{
    const pid_t child = fork();
    int         status = 0;
    assert_true(child >= 0);
    if (!child) {
        shim_arm(place, fault);
        part(place, 5);
        _exit(lk_failed());
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    HERE(WIFSIGNALED(status) ? WTERMSIG(status) == SIGKILL : WEXITSTATUS(status) == 0);
    return WIFSIGNALED(status);
}

TEST(every_call_is_the_last)
{
    static const shim_fault faults[] = {{.action = SHIM_DIE_BEFORE},
                                        {.action = SHIM_DIE_AFTER},
                                        {.action = SHIM_POWER_CUT, .kept = 0},
                                        {.action = SHIM_POWER_CUT, .kept = 1},
                                        {.action = SHIM_POWER_CUT, .kept = EVERY}};
    for (int f = 0; f < LKI_COUNT(faults); f++)
        for (int n = first(), died = 1; died; n += stride()) {
            fault = faults[f];
            fault.at = n;
            put_folder();
            died = dies();
            goes_on();
            HERE(!warnings); /* nothing was found damaged */
        }
}

/* ---- damage ---- */

/* Training resumes from another backup, or from the start, and ends the same. Or it reports what is damaged. */
static void one_damage(int file, const uint8_t *data, size_t size)
{
    put_folder();
    const lki_bytes damaged = {(uint8_t *)(uintptr_t)data, size};
    assert_int_equal(lki_file_write(folder_file(place, kept.name[file]), 1, &damaged), LK_OK);
    const lk_digest d = part(place, 0);
    if (lk_failed()) {
        HERE(strstr(lk_error(), place));
        lk_clear_error();
    } else HERE(lk_digest_equal(d, wanted));
}

TEST(every_byte_is_damaged)
{
    fault = (shim_fault){.action = SHIM_COUNT};
    for (int f = 0; f < kept.count; f++) {
        const size_t all = kept.bytes[f].size * 9;
        const size_t step = getenv("LOCKSTEP_SOAK") ? all / 4000 + 1 : all / (size_t)(300 / stride()) + 1;
        for (size_t n = step / 2; n < all; n += step) {
            const size_t bit = n - kept.bytes[f].size;
            const bool   cut = n < kept.bytes[f].size;
            if (!cut) kept.bytes[f].data[bit / 8] ^= (uint8_t)(1 << bit % 8);
            uint8_t *copy = malloc(kept.bytes[f].size);
            memcpy(copy, kept.bytes[f].data, kept.bytes[f].size);
            if (!cut) kept.bytes[f].data[bit / 8] ^= (uint8_t)(1 << bit % 8);
            one_damage(f, copy, cut ? n : kept.bytes[f].size);
            free(copy);
        }
    }
}

/* ---- all of them ---- */

static int begin(void **state)
{
    (void)state;
    lk_set_log(listen, NULL);
    const char *made = folder_new();
    if (!made) return -1;
    snprintf(folder, sizeof folder, "%s", made);
    snprintf(place, sizeof place, "%s/backups", folder);
    wanted = part(NULL, 0);
    part(place, 5);
    if (lk_failed()) print_error("%s\n", lk_error());
    keep_folder();
    return lk_failed();
}

static int end(void **state)
{
    (void)state;
    for (int i = 0; i < kept.count; i++)
        lki_bytes_free(&kept.bytes[i]);
    folder_remove(folder);
    return 0;
}

int main(int argc, char **argv)
{
    (void)argc, (void)argv;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_call_fails),
        cmocka_unit_test(every_call_is_the_last),
        cmocka_unit_test(every_byte_is_damaged),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
