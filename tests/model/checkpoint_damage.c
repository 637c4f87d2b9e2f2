/* Checkpoints that were cut off or changed by a single bit, at every place: this is reported, or it has no effect. And one that is
 * overwritten: the old one can be read until the new one is complete. */
#include "core/random.h"
#include "format/bundle.h"
#include "model/checkpoints.h"
#include "model/manager.h"
#include "model/snapshot.h"
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>

/* ---- what a file should hold ---- */

typedef struct small {
    lk_variable   *a, *b;
    lk_metric     *mean; /* with its lanes: values that only lockstep reads */
    lk_checkpoint *checkpoint;
} small;

static small small_new(double first)
{
    small s = {.a = lk_variable_of(lk_tensor_of(LK_SHAPE(2), first, 2)),
               .b = lk_variable_of(lk_tensor_from(LK_SHAPE(), LK_I64, (int64_t[]){(int64_t)first}))};
    s.mean = lk_mean();
    lk_metric_update(s.mean, lk_rows(lk_tensor_of(LK_SHAPE(2), first, 3), 0));
    s.checkpoint = lk_checkpoint_of({"a", s.a}, {"b", s.b}, {"mean", s.mean});
    return s;
}

/* Its values are `right`'s, in both forms. */
static bool is_like(const small *s, const small *right)
{
    return same_bits(lk_read(s->a), lk_read(right->a)) && same_bits(lk_read(s->b), lk_read(right->b)) &&
           same_variables(lk_metric_variables(s->mean), lk_metric_variables(right->mean));
}

static bool extra_is(const char *prefix, const char *text)
{
    lki_bytes  bytes;
    const bool there = lki_checkpoint_extra(prefix, "_EXTRA", &bytes) == LK_OK;
    const bool same = there && bytes.size == strlen(text) && memcmp(bytes.data, text, bytes.size) == 0;
    if (there) lki_bytes_free(&bytes);
    return same;
}

static const char EXTRA[] = "what a run needs to go on";

static void write_small(const small *s, const char *prefix)
{
    lki_snapshot *snapshot = NULL;
    assert_int_equal(lki_snapshot_take(s->checkpoint, &snapshot), LK_OK);
    assert_int_equal(lki_snapshot_put(snapshot, "_EXTRA", EXTRA, sizeof EXTRA - 1), LK_OK);
    assert_int_equal(lki_snapshot_write(snapshot, prefix), LK_OK);
    lki_snapshot_free(snapshot);
}

/* A checkpoint that was changed: either the check tells, or all of it is as it was. Whatever was assigned is right. */
static int  told;
static void try(const char *prefix, const small *right, const char *what, size_t at)
{
    LK_POOL {
        small      s = small_new(100), fresh = small_new(100);
        const bool whole = lki_checkpoint_verify(prefix) == LK_OK;
        if (whole == lk_failed()) fail_msg("%s %zu: the check says %d and the error \"%s\"", what, at, whole, lk_error());
        lk_clear_error();
        lk_restore_status *status = lk_checkpoint_read(s.checkpoint, prefix);
        const bool         assigned = status && is_like(&s, right), untouched = is_like(&s, &fresh);
        const bool         consumed = status && lk_restore_assert_consumed(status) == LK_OK;
        if (status) lk_restore_expect_partial(status);
        if (!status && !untouched) fail_msg("%s %zu: refused, but something was assigned", what, at);
        if (!status && whole) fail_msg("%s %zu: not found by the check, but refused: %s", what, at, lk_error());
        if (status && consumed && !assigned) fail_msg("%s %zu: restored, but other values", what, at);
        lk_clear_error();
        if (whole && !(consumed && assigned && extra_is(prefix, EXTRA))) fail_msg("%s %zu: not found, and not harmless", what, at);
        lk_clear_error();
        told += !whole;
    }
}

static void change_byte(const char *path, size_t at, uint8_t by)
{
    uint8_t   byte;
    const int file = open(path, O_RDWR);
    assert_true(file >= 0 && pread(file, &byte, 1, (off_t)at) == 1);
    byte ^= by;
    assert_int_equal(pwrite(file, &byte, 1, (off_t)at), 1);
    close(file);
}

static const char *const ENDS[] = {".index", ".data-00000-of-00001"};

TEST(every_bit)
{
    LK_POOL {
        const small right = small_new(1);
        char        prefix[256], path[300];
        snprintf(prefix, sizeof prefix, "%s", IN("bits"));
        write_small(&right, prefix);
        for (int e = 0; e < 2; e++) {
            snprintf(path, sizeof path, "%s%s", prefix, ENDS[e]);
            const size_t size = (size_t)file_size(path);
            assert_true(size > 100);
            told = 0;
            for (size_t bit = 0; bit < 8 * size; bit++) {
                change_byte(path, bit / 8, (uint8_t)(1 << bit % 8));
                try(prefix, &right, path, bit);
                change_byte(path, bit / 8, (uint8_t)(1 << bit % 8));
            }
            assert_true((size_t)told > 7 * size); /* nearly all */
        }
        assert_int_equal(lki_checkpoint_verify(prefix), LK_OK);
    }
}

TEST(every_length)
{
    LK_POOL {
        const small right = small_new(1);
        char        prefix[256], path[300];
        snprintf(prefix, sizeof prefix, "%s", IN("cut"));
        for (int e = 0; e < 2; e++) {
            snprintf(path, sizeof path, "%s%s", prefix, ENDS[e]);
            write_small(&right, prefix); /* under whatever name the data has now */
            lki_bundle_remove(prefix);
            write_small(&right, prefix);
            const long size = file_size(path);
            for (long n = size - 1; n >= 0; n--) {
                assert_int_equal(truncate(path, n), 0);
                told = 0;
                try(prefix, &right, path, (size_t)n);
                assert_int_equal(told, 1);
            }
        }
    }
}

/* ---- the state file ---- */

/* The latest of the folder is the right one, or there was a warning; a manager finds one to resume from. */
static void try_state(const char *path, size_t at)
{
    LK_POOL {
        warnings = 0;
        const char *latest = lk_latest_checkpoint(path);
        const bool  right = latest && strcmp(latest, IN("state/ckpt-3")) == 0;
        if (!right && !warnings)
            fail_msg("bit or length %zu of the state file: %s, and nobody is told", at, latest ? latest : "none");
        small                  s = small_new(100);
        lk_checkpoint_manager *m = lk_checkpoint_manager_of(s.checkpoint, path);
        if (!m || !lk_checkpoint_manager_restore_or_initialize(m))
            fail_msg("bit or length %zu of the state file: nothing to go on with: %s", at, lk_error());
        assert_false(lk_failed());
    }
}

TEST(the_state_file)
{
    LK_POOL {
        const small            s = small_new(1);
        lk_checkpoint_manager *m = lk_checkpoint_manager_of(s.checkpoint, IN("state"));
        char                   folder_path[256], path[300];
        for (int i = 0; i < 3; i++)
            assert_non_null(lk_checkpoint_manager_save(m));
        snprintf(folder_path, sizeof folder_path, "%s", IN("state"));
        snprintf(path, sizeof path, "%s/checkpoint", folder_path);
        lki_bytes whole;
        assert_int_equal(lki_file_read(path, &whole), LK_OK);
        for (size_t bit = 0; bit < 8 * whole.size; bit++) {
            change_byte(path, bit / 8, (uint8_t)(1 << bit % 8));
            try_state(folder_path, bit);
            change_byte(path, bit / 8, (uint8_t)(1 << bit % 8));
        }
        for (size_t n = whole.size; n-- > 0;) {
            assert_int_equal(truncate(path, (off_t)n), 0);
            try_state(folder_path, n);
        }
        lki_bytes_free(&whole);
    }
}

/* ---- written over ---- */

static int data_files(const char *path, const char *name)
{
    DIR *d = opendir(path);
    int  count = 0;
    for (const struct dirent *e; d && (e = readdir(d));)
        count += strncmp(e->d_name, name, strlen(name)) == 0 && strstr(e->d_name, ".data-");
    if (d) closedir(d);
    return count;
}

TEST(the_old_one_until_the_new_one_is_there)
{
    LK_POOL {
        const small one = small_new(1), two = small_new(2);
        char        prefix[256];
        snprintf(prefix, sizeof prefix, "%s", IN("over/one"));
        for (int i = 0; i < 5; i++) {
            const small      *next = i % 2 ? &two : &one, *before = i % 2 ? &one : &two;
            lki_bundle_writer w;
            assert_int_equal(lki_bundle_begin(prefix, &w), LK_OK); /* another writer, which gives up */
            lki_bundle_add(&w, "x", LK_F32, &(lk_shape){1, {1}}, &(float){1});
            small s = small_new(100);
            if (i) {
                assert_non_null(lk_checkpoint_read(s.checkpoint, prefix));
                assert_true(is_like(&s, before));
            }
            write_small(next, prefix);
            lki_bundle_end(&w);
            assert_non_null(lk_checkpoint_read(s.checkpoint, prefix));
            assert_true(is_like(&s, next));
            assert_int_equal(data_files(IN("over"), "one"), 1); /* the old data is gone */
            assert_int_equal(folder_leftovers(IN("over")), 0);
        }
        assert_false(lk_failed());
    }
}

static void write_for_ever(const char *prefix)
{
    const small one = small_new(1), two = small_new(2);
    for (int i = 0;; i++)
        if (!lk_checkpoint_write(i % 2 ? one.checkpoint : two.checkpoint, prefix)) _exit(1);
}

TEST(killed_while_writing_over)
{
    char prefix[256];
    snprintf(prefix, sizeof prefix, "%s", IN("killed/one"));
    LK_POOL {
        const small one = small_new(1), two = small_new(2);
        assert_non_null(lk_checkpoint_write(one.checkpoint, prefix));
        for (uint64_t n = 0; n < 40; n++) {
            const pid_t child = fork();
            int         status;
            assert_true(child >= 0);
            if (!child) write_for_ever(prefix);
            nanosleep(&(struct timespec){.tv_nsec = (long)(lki_philox_block(7, n, 0).word[0] % 20000000)}, NULL);
            kill(child, SIGKILL);
            waitpid(child, &status, 0);
            assert_true(WIFSIGNALED(status));
            small s = small_new(100);
            assert_int_equal(lki_checkpoint_verify(prefix), LK_OK);
            assert_non_null(lk_checkpoint_read(s.checkpoint, prefix));
            assert_true(is_like(&s, &one) || is_like(&s, &two));
        }
        assert_non_null(lk_checkpoint_write(one.checkpoint, prefix)); /* what was left is removed */
        assert_int_equal(data_files(IN("killed"), "one"), 1);
        assert_int_equal(folder_leftovers(IN("killed")), 0);
    }
}

int main(int argc, char **argv)
{
    (void)argc, (void)argv;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_bit),
        cmocka_unit_test(every_length),
        cmocka_unit_test(the_state_file),
        cmocka_unit_test(the_old_one_until_the_new_one_is_there),
        cmocka_unit_test(killed_while_writing_over),
    };
    return cmocka_run_group_tests(tests, folder_begin, folder_end);
}
