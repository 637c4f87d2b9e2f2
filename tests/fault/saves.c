/* Every system call of a save, and of a load, goes wrong once: it fails, is interrupted, is cut short, is the last one of the
 * process, or the last one before a power failure (shim/shim.h). Whatever happens, the older or the newer one of two generations
 * loads completely; an error names the file and the reason; nothing is held; and the next save removes leftovers.
 *
 * LOCKSTEP_SOAK=1: every call; without it about every fifth, different ones for each fault. */
#include "core/memory.h"
#include "format/h5.h"
#include "format/npy.h"
#include "format/tfrecord.h"
#include "model/checkpoints.h"
#include "shim/shim.h"
#include <errno.h>
#include <signal.h>
#include <sys/wait.h>

enum { NONE = 0, OLD = 1, NEW = 2, NEXT = 3, GENERATIONS = 4, EVERY = 1000 };

/* ---- generations: models after this many steps ---- */

static trained     generation[GENERATIONS];
static const char *place; /* the folder that is saved to */

static const char *at(const char *name) { return folder_file(place, name); }

static int which(lk_model *m)
{
    for (int g = OLD; m && g < GENERATIONS; g++)
        if (same_variables(lk_model_variables(m), lk_model_variables(generation[g].model))) return g;
    return NONE;
}

static int which_tensor(const lki_array *a)
{
    const int g = a->data && a->dtype == LK_I32 ? ((const int32_t *)a->data)[0] : NONE;
    for (int64_t i = 0; i < a->shape.dim[0]; i++)
        if (((const int32_t *)a->data)[i] != g) return NONE;
    return g;
}

/* ---- what is saved ---- */

typedef struct kind kind;
struct kind {
    const char *name; /* for the kinds that are detected by it, the ending of the path */
    lk_status (*save)(const kind *k, int g);
    int (*load)(const kind *k); /* the generation that is there; NONE and an error */
    bool h5;
};

static lk_status outcome(bool good) { return good ? LK_OK : lk_failed() ? lk_error_code() : LK_ENOMEM; }

/* Numbered, by one checkpoint that counts: its objects take the values of a generation. */
static trained counting;

static void count_on(int g)
{
    lk_variables to = lk_model_variables(counting.model), from = lk_model_variables(generation[g].model);
    for (int i = 0; i < to.count; i++)
        lk_assign(to.item[i], lk_read(from.item[i]));
}

static lk_status save_numbered(const kind *k, int g)
{
    lk_status status = LK_OK;
    (void)k;
    LK_POOL {
        count_on(g);
        status = outcome(lk_checkpoint_save(counting.checkpoint, at("ckpt")));
    }
    return status;
}

static int load_checkpoint(const char *path)
{
    int found = NONE;
    LK_POOL {
        const trained      t = made(1);
        lk_restore_status *s = path ? lk_checkpoint_read(t.checkpoint, path) : NULL;
        if (s) lk_restore_expect_partial(s);
        if (s) found = which(t.model);
    }
    return found;
}

static int load_numbered(const kind *k)
{
    (void)k;
    int found = NONE;
    LK_POOL {
        const char *latest = lk_latest_checkpoint(place);
        found = load_checkpoint(latest);
        if (!latest && !lk_failed()) lki_fail(LK_ENOTFOUND, "%s: none", place);
    }
    return found;
}

/* The newest alone is kept: the one before is removed by each save. */
static lk_status save_managed(const kind *k, int g)
{
    lk_status status = LK_OK;
    (void)k;
    LK_POOL {
        count_on(g);
        lk_checkpoint_manager *m = lk_checkpoint_manager_of(counting.checkpoint, place, .max_to_keep = 1);
        status = outcome(m && lk_checkpoint_manager_save(m));
    }
    return status;
}

/* The same name again and again; its ending determines the format. */
static const char *path_of(const kind *k)
{
    char name[32];
    snprintf(name, sizeof name, "same%s", k->name);
    return at(name);
}

static lk_status save_weights(const kind *k, int g) { return lk_model_save_weights(generation[g].model, path_of(k)); }
static int       load_weights(const kind *k)
{
    int found = NONE;
    LK_POOL {
        const trained t = made(1);
        if (lk_model_load_weights(t.model, path_of(k)) == LK_OK) found = which(t.model);
    }
    return found;
}

static lk_status save_model(const kind *k, int g) { return lk_model_save(generation[g].model, path_of(k)); }
static int       load_model(const kind *k)
{
    int found = NONE;
    LK_POOL
        found = which(lk_model_load(path_of(k)));
    return found;
}

/* Optimisers too. */
static lk_status save_written(const kind *k, int g) { return outcome(lk_checkpoint_write(generation[g].checkpoint, path_of(k))); }
static int       load_written(const kind *k) { return load_checkpoint(path_of(k)); }

/* Arrays of a number. */
static lki_array array_of(int g, int32_t room[static 700])
{
    for (int i = 0; i < 700; i++)
        room[i] = g;
    return (lki_array){.dtype = LK_I32, .shape = LK_SHAPE(700), .data = room};
}

static lk_status save_npy(const kind *k, int g)
{
    int32_t         room[700];
    const lki_array a = array_of(g, room);
    return lki_npy_write(path_of(k), &a);
}

static int load_npy(const kind *k)
{
    lki_array a;
    int       found = NONE;
    if (lki_npy_read(path_of(k), &a) != LK_OK) return NONE;
    found = which_tensor(&a);
    lki_array_free(&a);
    return found;
}

static lk_status save_records(const kind *k, int g)
{
    char      text[3][16];
    lki_bytes record[3];
    for (int i = 0; i < 3; i++)
        record[i] = (lki_bytes){(uint8_t *)text[i], (size_t)snprintf(text[i], sizeof text[i], "%d of %d", i, g)};
    return lki_tfrecord_write(path_of(k), 3, record);
}

static int load_records(const kind *k)
{
    lki_stream *s;
    lki_bytes   record = {0};
    int         found = NONE, i = 0, g = 0, number = 0;
    bool        ends = false;
    if (lki_stream_open(path_of(k), LK_OFF, &s) != LK_OK) return NONE;
    for (; lki_tfrecord_read(s, &record, &ends) == LK_OK && !ends; i++) {
        char text[32] = {0};
        memcpy(text, record.data, record.size < 31 ? record.size : 31);
        if (sscanf(text, "%d of %d", &number, &g) != 2 || number != i) g = NONE;
        found = !i || found == g ? g : NONE;
    }
    if (!ends || i != 3) found = NONE;
    lki_bytes_free(&record);
    lki_stream_close(s);
    return found;
}

static const kind kinds[] = {
    {"checkpoints with numbers", save_numbered, load_numbered, false},
    {"a manager's checkpoints", save_managed, load_numbered, false},
    {"-checkpoint", save_written, load_written, false},
    {".ckpt", save_weights, load_weights, false},
    {".safetensors", save_weights, load_weights, false},
    {".npz", save_weights, load_weights, false},
    {".npy", save_npy, load_npy, false},
    {".tfrecord", save_records, load_records, false},
    {".weights.h5", save_weights, load_weights, true},
    {".h5", save_weights, load_weights, true},
    {".keras", save_model, load_model, true},
};

enum { WITH_STATE_OR_TWO_FILES = 4 }; /* the first few */

/* ---- around one attempt ---- */

static bool possible(const kind *k) { return !k->h5 || lki_h5_helper(); }

static void begin(const kind *k)
{
    lk_clear_error();
    folder_remove(place);
    mkdir(place, 0777);
    lk_free(counting.checkpoint);
    counting.checkpoint = lk_checkpoint_of({"optimizer", counting.optimizer}, {"model", counting.model});
    assert_int_equal(k->save(k, OLD), LK_OK);
    assert_int_equal(k->load(k), OLD);
}

static int files_in_folder(void)
{
    int  count = 0;
    DIR *d = opendir(place);
    while (d && readdir(d))
        count++;
    if (d) closedir(d);
    return count;
}

static void show_folder(void)
{
    DIR *d = opendir(place);
    for (const struct dirent *e; d && (e = readdir(d));)
        print_error("    %s\n", e->d_name);
    if (d) closedir(d);
}

static const kind *tried;
static shim_fault  fault;

#define HERE(condition)                                                                                                            \
    if (!(condition)) {                                                                                                            \
        show_folder();                                                                                                             \
        fail_msg("%s, %s: %s at call %d (%s): %s; \"%s\"", tried->name, __func__, ACTION[fault.action], fault.at, shim_where(),    \
                 #condition, lk_error());                                                                                          \
    }

static const char *const ACTION[] = {"nothing", "fails", "is short", "dies before", "dies after", "power cut"};

/* As many as one save leaves, or two that have numbers. */
static int files_after(const kind *k, bool two)
{
    begin(k);
    if (two) k->save(k, NEW);
    return files_in_folder();
}

/* Which calls are tried: every one, or every few of them, other ones for each kind of fault. */
static int stride(const kind *k)
{
    if (getenv("LOCKSTEP_SOAK")) return 1;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return k->h5 ? 41 : 19;
#else
    return k->h5 ? 17 : 5;
#endif
}

static int first_of(const kind *k)
{
    static int turn;
    return 1 + turn++ % stride(k);
}

/* ---- calls that fail ---- */

static void check_error(void)
{
    HERE(lk_failed());
    HERE(lk_error_code() == LK_EIO || lk_error_code() == LK_EUNSUPPORTED || lk_error_code() == LK_EFORMAT);
    HERE(strstr(lk_error(), place));
    if (fault.action == SHIM_FAIL && strncmp(shim_where(), "send", 4) && strncmp(shim_where(), "recv", 4))
        HERE(strstr(lk_error(), strerror(fault.error)));
    lk_clear_error();
}

static void one_failure(const kind *k)
{
    begin(k);
    const int64_t memory = lki_memory_in_use();
    const int     descriptors = shim_descriptors();
    shim_arm(place, fault);
    const lk_status status = k->save(k, NEW);
    shim_disarm();
    if (status != LK_OK) {
        HERE(shim_happened());
        HERE(fault.action != SHIM_SHORT);
        HERE(fault.error != EINTR || !shim_made_again());
        check_error();
    }
    HERE(!lk_failed());
    HERE(lki_memory_in_use() <= memory + 256); /* the path of a numbered one is kept */
    HERE(shim_descriptors() == descriptors);
    const int found = k->load(k);
    HERE(found == NEW || (status != LK_OK && found == OLD));
    HERE(k->save(k, NEXT) == LK_OK);
    HERE(k->load(k) == NEXT);
    HERE(!folder_leftovers(place));
}

static int failures_of(const kind *k, shim_fault f)
{
    tried = k;
    for (int n = first_of(k);; n += stride(k)) {
        fault = f;
        fault.at = n;
        one_failure(k);
        if (!shim_happened()) return n;
    }
}

TEST(every_call_of_a_save_fails)
{
    static const shim_fault faults[] = {
        {.action = SHIM_FAIL, .error = EIO},
        {.action = SHIM_FAIL, .error = ENOSPC},
        {.action = SHIM_FAIL, .error = EINTR},
        {.action = SHIM_FAIL, .error = EIO, .lasting = true},
        {.action = SHIM_FAIL, .error = ENOSPC, .lasting = true},
        {.action = SHIM_SHORT},
    };
    for (int i = 0; i < LKI_COUNT(kinds); i++)
        for (int f = 0; f < LKI_COUNT(faults) && possible(&kinds[i]); f++) {
            const int calls = failures_of(&kinds[i], faults[f]); /* this many or a few fewer */
            if (calls < (faults[f].action == SHIM_SHORT ? 2 : 8)) fail_msg("%s: only %d calls", kinds[i].name, calls);
        }
}

static void one_bad_load(const kind *k)
{
    const int64_t memory = lki_memory_in_use();
    const int     descriptors = shim_descriptors();
    shim_arm(place, fault);
    const int found = k->load(k);
    shim_disarm();
    if (found == NONE) {
        HERE(shim_happened());
        HERE(fault.action != SHIM_SHORT);
        HERE(fault.error != EINTR || !shim_made_again());
        HERE(lk_failed());
        if (lk_error_code() != LK_ENOTFOUND) check_error(); /* a state file that cannot be read is reported in a warning */
        lk_clear_error();
    }
    HERE(!lk_failed());
    HERE(found == NONE || found == OLD);
    HERE(lki_memory_in_use() == memory);
    HERE(shim_descriptors() == descriptors);
}

TEST(every_call_of_a_load_fails)
{
    static const shim_fault faults[] = {
        {.action = SHIM_FAIL, .error = EIO}, {.action = SHIM_FAIL, .error = EINTR}, {.action = SHIM_SHORT}};
    for (int i = 0; i < LKI_COUNT(kinds); i++)
        for (int f = 0; f < LKI_COUNT(faults) && possible(&kinds[i]); f++) {
            tried = &kinds[i];
            begin(tried);
            for (int n = first_of(tried), more = 1; more; n += stride(tried)) {
                fault = faults[f];
                fault.at = n;
                one_bad_load(tried);
                more = shim_happened();
            }
        }
}

/* ---- processes that end ---- */

/* Whether the child was killed by the fault. */
static bool save_in_child(const kind *k)
{
    const pid_t child = fork();
    int         status = 0;
    assert_true(child >= 0);
    if (!child) {
        shim_arm(place, fault);
        k->save(k, NEW);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    HERE(WIFSIGNALED(status) ? WTERMSIG(status) == SIGKILL : WEXITSTATUS(status) == 0);
    return WIFSIGNALED(status);
}

/* By another process, which begins to count again: it continues from the files it finds. */
static bool goes_on(const kind *k, int files[static 4], int found)
{
    if (k->load == load_numbered) {
        const char        *latest = lk_latest_checkpoint(place);
        lk_restore_status *s = latest ? lk_checkpoint_restore(counting.checkpoint, latest) : NULL;
        if (s) lk_restore_expect_partial(s);
        if (!s) return false;
    }
    return k->save(k, NEXT) == LK_OK && k->load(k) == NEXT && !folder_leftovers(place) && files_in_folder() == files[found];
}

static int deaths_of(const kind *k, shim_fault f)
{
    int       files[4] = {0, files_after(k, true), 0, 0}; /* after OLD and NEXT; after OLD, NEW and NEXT */
    const int each = files[OLD] - files_after(k, false);
    files[NEW] = files[OLD] + each;
    tried = k;
    for (int n = first_of(k);; n += stride(k)) {
        fault = f;
        fault.at = n;
        begin(k);
        const bool died = save_in_child(k);
        const int  found = k->load(k);
        HERE(!lk_failed());
        HERE(found == NEW || (died && found == OLD));
        LK_POOL
            HERE(goes_on(k, files, found));
        if (!died) return n;
    }
}

TEST(every_call_of_a_save_is_the_last)
{
    static const shim_fault faults[] = {{.action = SHIM_DIE_BEFORE},           {.action = SHIM_DIE_AFTER},
                                        {.action = SHIM_POWER_CUT, .kept = 0}, {.action = SHIM_POWER_CUT, .kept = 1},
                                        {.action = SHIM_POWER_CUT, .kept = 2}, {.action = SHIM_POWER_CUT, .kept = EVERY}};
    for (int i = 0; i < LKI_COUNT(kinds); i++)
        for (int f = 0; f < LKI_COUNT(faults) && possible(&kinds[i]); f++)
            assert_true(deaths_of(&kinds[i], faults[f]) >= 8);
}

/* ---- a death after a failure ---- */

/* A save that failed may have come as far as to be the latest; the one after it must not break that one. */
static void die_after_failure(const kind *k, int failing)
{
    for (int n = first_of(k), died = 1; died; n += stride(k)) {
        begin(k);
        fault = (shim_fault){.action = SHIM_FAIL, .at = failing, .error = EIO};
        shim_arm(place, fault);
        k->save(k, NEW);
        shim_disarm();
        lk_clear_error();
        fault = (shim_fault){.action = SHIM_DIE_AFTER, .at = n};
        died = save_in_child(k);
        const int found = k->load(k);
        HERE(found == OLD || found == NEW);
    }
}

TEST(a_death_after_a_failure)
{
    for (int i = 0; i < WITH_STATE_OR_TWO_FILES; i++)
        for (int failing = 1; failing; failing++) {
            begin(&kinds[i]);
            tried = &kinds[i];
            fault = (shim_fault){.action = SHIM_FAIL, .at = failing, .error = EIO};
            shim_arm(place, fault);
            kinds[i].save(&kinds[i], NEW);
            shim_disarm();
            lk_clear_error();
            if (!shim_happened()) break;
            if (strncmp(shim_where(), "fsync", 5) && strncmp(shim_where(), "rename", 6) && !getenv("LOCKSTEP_SOAK")) continue;
            die_after_failure(&kinds[i], failing);
        }
}

/* ---- folders that a save makes ---- */

/* The n-th call of a save into folders that are not there yet, such as "fsync DIR"; "": it makes fewer. */
static const char *call_of_a_save(int n)
{
    char path[160];
    folder_remove(place);
    mkdir(place, 0777);
    snprintf(path, sizeof path, "%s/a/b/model", place);
    shim_arm(place, (shim_fault){.action = SHIM_COUNT, .at = n});
    const char *made = lk_checkpoint_write(counting.checkpoint, path);
    const int   calls = shim_disarm();
    assert_non_null(made);
    return n <= calls ? shim_where() : "";
}

/* As "mkdir DIR/a" and "fsync DIR": a slash at the end does not count. */
static bool call_is(const char *call, const char *name, const char *below_place)
{
    char wanted[256];
    snprintf(wanted, sizeof wanted, "%s %s%s", name, place, below_place);
    const size_t n = strlen(wanted);
    return !strncmp(call, wanted, n) && (!call[n] || !strcmp(call + n, "/"));
}

/* The name of a new folder is in the folder above it, which is synced before anything is written into the new one: or a power cut
 * takes all of it. */
TEST(new_folders_are_synced_into_those_above)
{
    static const char *const made[] = {"/a", "/a/b"}, *const above[] = {"", "/a"};
    for (int i = 0; i < LKI_COUNT(made); i++) {
        int n = 1;
        while (!call_is(call_of_a_save(n), "mkdir", made[i]) && n < 1000)
            n++;
        assert_true(n < 1000);
        do
            n++;
        while (*call_of_a_save(n) && !call_is(shim_where(), "fsync", above[i]) && strncmp(shim_where(), "write", 5));
        if (!call_is(shim_where(), "fsync", above[i]))
            fail_msg("%s%s is made, and %s%s is not synced: %s", place, made[i], place, above[i], shim_where());
    }
}

static char below[128];

static int all_begin(void **state)
{
    if (folder_begin(state) != 0) return -1;
    snprintf(below, sizeof below, "%s/saves", folder);
    place = below;
    for (int g = OLD; g < GENERATIONS; g++)
        generation[g] = made(g);
    counting = made(1);
    return lk_failed();
}

int main(int argc, char **argv)
{
    (void)argc, (void)argv;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_call_of_a_save_fails),
        cmocka_unit_test(every_call_of_a_load_fails),
        cmocka_unit_test(every_call_of_a_save_is_the_last),
        cmocka_unit_test(a_death_after_a_failure),
        cmocka_unit_test(new_folders_are_synced_into_those_above),
    };
    return cmocka_run_group_tests(tests, all_begin, folder_end);
}
