/* Checkpoints when things go wrong: full disks, processes that die, damaged files, no memory. The previous checkpoint stays usable,
 * and objects have all of the new values or none. */
#include "core/random.h"
#include "format/bundle.h"
#include "format/crc32c.h"
#include "format/object_graph.h"
#include "model/checkpoints.h"
#include <errno.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

static uint32_t draw(uint64_t n, uint64_t k) { return lki_philox_block(11, n, k).word[0]; }

/* Whether the latest one of a folder can be restored, into objects that are made then. */
static bool loads(const char *path)
{
    bool good = false;
    LK_POOL {
        const trained      t = untrained();
        lk_restore_status *s = lk_checkpoint_restore(t.checkpoint, lk_latest_checkpoint(path));
        build(&t);
        good = s && lk_restore_assert_consumed(s) == LK_OK;
    }
    if (!good) print_error("%s\n", lk_error());
    return good && !lk_failed();
}

static bool leftovers(const char *path)
{
    DIR *d = opendir(path);
    bool found = false;
    for (const struct dirent *e; d && (e = readdir(d));)
        found = found || strstr(e->d_name, ".tmp");
    if (d) closedir(d);
    return found;
}

/* ---- disks ---- */

/* No file may grow beyond `bytes`, as on a disk that is full. */
static const char *save_with(const trained *t, const char *prefix, rlim_t bytes)
{
    struct rlimit before, small;
    getrlimit(RLIMIT_FSIZE, &before);
    small = before;
    small.rlim_cur = bytes;
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &small);
    const char *path = lk_checkpoint_save(t->checkpoint, prefix);
    setrlimit(RLIMIT_FSIZE, &before);
    return path;
}

TEST(a_full_disk)
{
    LK_POOL {
        const trained t = made(2);
        int           failed = 0;
        assert_string_equal(lk_checkpoint_save(t.checkpoint, IN("full/ckpt")), IN("full/ckpt-1"));
        for (rlim_t bytes = 0; !save_with(&t, IN("full/ckpt"), bytes); bytes += 1 + bytes / 3, failed++) {
            assert_int_equal(lk_error_code(), LK_EIO);
            assert_non_null(strstr(lk_error(), IN("full/")));
            assert_non_null(strstr(lk_error(), strerror(EFBIG)));
            lk_clear_error();
            assert_false(leftovers(IN("full")));
            assert_string_equal(lk_latest_checkpoint(IN("full")), IN("full/ckpt-1"));
            assert_true(loads(IN("full")));
        }
        assert_true(failed > 10);
        assert_string_equal(lk_latest_checkpoint(IN("full")), IN("full/ckpt-2")); /* failures are not counted */
        assert_true(loads(IN("full")));
    }
}

TEST(folders_that_cannot_be_written)
{
    LK_POOL {
        const trained t = made(1);
        lki_file_write(IN("file"), 0, NULL);
        REFUSED(LK_EIO, !lk_checkpoint_save(t.checkpoint, IN("file/ckpt")), IN("file"), strerror(EEXIST));
        REFUSED(LK_EIO, !lk_checkpoint_save(t.checkpoint, "/proc/no/such/ckpt"), "/proc/no", strerror(ENOENT));
        REFUSED(LK_EIO, !lk_checkpoint_write(t.checkpoint, "/dev/full/ckpt"), "/dev/full");
        mkdir(IN("taken"), 0777);
        mkdir(IN("taken/checkpoint"), 0777); /* where the state file should go */
        REFUSED(LK_EIO, !lk_checkpoint_save(t.checkpoint, IN("taken/ckpt")), "taken/checkpoint");
        assert_string_equal(lk_checkpoint_save(t.checkpoint, IN("good/ckpt")), IN("good/ckpt-1"));
    }
}

/* ---- processes that die ---- */

static void save_for_ever(const char *prefix)
{
    const trained t = made(1);
    lk_checkpoint_restore(t.checkpoint, lk_latest_checkpoint(IN("dies")));
    for (;;)
        if (!lk_checkpoint_save(t.checkpoint, prefix)) _exit(1);
}

TEST(killed_while_saving)
{
    LK_POOL
        assert_non_null(lk_checkpoint_save(made(1).checkpoint, IN("dies/ckpt")));
    for (uint64_t n = 0; n < 30; n++) {
        const pid_t child = fork();
        int         status;
        assert_true(child >= 0);
        if (!child) save_for_ever(IN("dies/ckpt"));
        nanosleep(&(struct timespec){.tv_nsec = (long)(draw(n, 0) % 20000000)}, NULL);
        kill(child, SIGKILL);
        waitpid(child, &status, 0);
        assert_true(WIFSIGNALED(status));
        assert_true(loads(IN("dies")));
    }
    LK_POOL { /* what the last one left is removed by the next */
        const trained t = made(1);
        lk_checkpoint_restore(t.checkpoint, lk_latest_checkpoint(IN("dies")));
        assert_non_null(lk_checkpoint_save(t.checkpoint, IN("dies/ckpt")));
        assert_false(leftovers(IN("dies")));
    }
}

/* As a crash between any two steps of saving would leave it. */
TEST(half_of_a_save)
{
    static const char *const left[] = {"half/ckpt-2.data-00000-of-00001.7.0.tmp", "half/ckpt-2.index.7.1.tmp",
                                       "half/ckpt-2.data-00000-of-00001", "half/checkpoint.7.2.tmp"};
    lki_bytes                half = {(uint8_t *)"half of", 7};
    LK_POOL {
        const trained t = made(1);
        lk_checkpoint_save(t.checkpoint, IN("half/ckpt"));
        for (int i = 0; i < LKI_COUNT(left); i++) {
            assert_int_equal(lki_file_write(IN(left[i]), 1, &half), LK_OK);
            assert_string_equal(lk_latest_checkpoint(IN("half")), IN("half/ckpt-1"));
            assert_true(loads(IN("half")));
        }
        assert_string_equal(lk_checkpoint_save(t.checkpoint, IN("half/ckpt")), IN("half/ckpt-2"));
        assert_true(loads(IN("half")));
        assert_false(leftovers(IN("half")));
    }
}

TEST(a_state_file_that_is_wrong)
{
    LK_POOL {
        const trained t = made(1);
        lki_bytes     nonsense = {(uint8_t *)"nonsense", 8};
        lk_checkpoint_save(t.checkpoint, IN("state/ckpt"));
        warnings = 0;
        remove(IN("state/ckpt-1.data-00000-of-00001"));
        assert_null(lk_latest_checkpoint(IN("state")));
        assert_int_equal(warnings, 1);
        assert_non_null(strstr(last_warning, "ckpt-1"));
        lki_file_write(IN("state/ckpt-1.data-00001-of-00002"), 1, &nonsense);
        assert_non_null(lk_latest_checkpoint(IN("state"))); /* data in several files, named otherwise */
        remove(IN("state/ckpt-1.index"));
        assert_null(lk_latest_checkpoint(IN("state")));
        assert_int_equal(warnings, 2);
        lki_file_write(IN("state/checkpoint"), 1, &nonsense);
        assert_null(lk_latest_checkpoint(IN("state")));
        assert_int_equal(warnings, 3);
        assert_false(lk_failed());
    }
}

/* ---- files that are damaged ---- */

/* Everything else a restore may meet is tried in tests/unit/bundle.c; here it must also leave objects as they were. */
TEST(damaged_files)
{
    LK_POOL {
        const trained a = made(3), b = made(1), same = made(1);
        int           found = 0;
        lki_bytes     file[2];
        char          name[2][128];
        strcpy(name[0], IN("damaged.index"));
        strcpy(name[1], IN("damaged.data-00000-of-00001"));
        lk_checkpoint_write(a.checkpoint, IN("damaged"));
        lk_checkpoint_write(b.checkpoint, IN("whole"));
        for (int f = 0; f < 2; f++)
            assert_int_equal(lki_file_read(name[f], &file[f]), LK_OK);
        for (uint64_t n = 0; n < 1500; n++) {
            lki_bytes     *one = &file[n % 2];
            const uint32_t r = draw(n, 1);
            uint8_t       *p = &one->data[(r >> 8) % one->size], old = *p;
            *p = (uint8_t)r;
            lki_file_write(name[n % 2], 1, one);
            LK_POOL
                if (lk_checkpoint_read(b.checkpoint, IN("damaged"))) { /* it was a byte that says nothing */
                    assert_true(same_objects(&b, &a));
                    assert_non_null(lk_checkpoint_read(b.checkpoint, IN("whole")));
                } else {
                    assert_true(lk_error_code() == LK_EFORMAT || lk_error_code() == LK_ENOTFOUND ||
                                lk_error_code() == LK_EUNSUPPORTED);
                    lk_clear_error();
                    assert_true(same_objects(&b, &same));
                    found++;
                }
            assert_false(lk_failed());
            *p = old;
            lki_file_write(name[n % 2], 1, one);
        }
        assert_true(found > 1300);
        assert_non_null(lk_checkpoint_read(b.checkpoint, IN("damaged")));
        assert_true(same_objects(&b, &a));
        for (int f = 0; f < 2; f++)
            lki_bytes_free(&file[f]);
    }
}

/* A file whose checksums are right, and whose graph of objects is changed at random: children that lead anywhere, circles. */
static lk_status with_graph(const char *from, const char *to, uint64_t n)
{
    lki_bundle        b;
    lki_bundle_writer w;
    lki_bytes         text;
    LKI_TRY(lki_bundle_open(from, &b));
    LKI_TRY(lki_bundle_begin(to, &w));
    for (int i = 0; i < b.count; i++) {
        lki_array a;
        if (b.entry[i].type == 7) {
            LKI_TRY(lki_bundle_read_text(&b, i, &text));
            for (uint64_t k = 0; k <= n % 5; k++)
                text.data[(draw(n, k) >> 8) % text.size] = (uint8_t)draw(n, k);
            LKI_TRY(lki_bundle_add_text(&w, b.entry[i].key, text.data, text.size));
            lki_bytes_free(&text);
            continue;
        }
        LKI_TRY(lki_bundle_read(&b, i, &a));
        LKI_TRY(lki_bundle_add(&w, b.entry[i].key, a.dtype, &a.shape, a.data));
        lki_array_free(&a);
    }
    LKI_TRY(lki_bundle_commit(&w));
    lki_bundle_end(&w);
    lki_bundle_close(&b);
    return LK_OK;
}

TEST(strange_graphs)
{
    int restored = 0;
    LK_POOL {
        const trained a = made(3);
        lk_checkpoint_write(a.checkpoint, IN("graph"));
        for (uint64_t n = 0; n < 600; n++) {
            assert_int_equal(with_graph(IN("graph"), IN("strange"), n), LK_OK);
            LK_POOL {
                const trained      b = n % 2 ? made(1) : untrained();
                lk_restore_status *s = lk_checkpoint_restore(b.checkpoint, IN("strange"));
                restored += s != NULL;
                if (s) lk_restore_expect_partial(s);
                if (s) build(&b);
                if (s) lk_restore_assert_consumed(s);
                if (!s) assert_true(lk_error()[0] != 0);
                lk_clear_error();
            }
        }
    }
    assert_true(restored > 50 && restored < 600);
}

/* ---- without memory ---- */

static int save_and_restore(void)
{
    int good = 0;
    LK_POOL {
        const trained a = made(1);
        if (a.checkpoint && lk_checkpoint_save(a.checkpoint, IN("memory/ckpt"))) {
            const char        *latest = lk_latest_checkpoint(IN("memory"));
            const trained      b = untrained();
            lk_restore_status *s = latest && b.checkpoint ? lk_checkpoint_restore(b.checkpoint, latest) : NULL;
            if (s) build(&b);
            good = s && lk_restore_assert_consumed(s) == LK_OK && same_objects(&a, &b);
            if (s) lk_restore_expect_partial(s);
        }
    }
    return good && !lk_failed();
}

TEST(without_memory)
{
    assert_true(save_and_restore());
    assert_true(check_every_allocation(save_and_restore) > 100);
    assert_false(leftovers(IN("memory")));
    assert_true(loads(IN("memory")));
}

/* Objects that exist have the old values or the new ones after a restore that ran out of memory. */
static trained old_one;

static int restore_only(void)
{
    int good = 0;
    LK_POOL {
        lk_restore_status *s = lk_checkpoint_restore(old_one.checkpoint, IN("only"));
        good = s != NULL;
        if (s) lk_restore_expect_partial(s);
    }
    return good && !lk_failed();
}

TEST(restore_without_memory)
{
    LK_POOL {
        lk_checkpoint_write(made(3).checkpoint, IN("only"));
        old_one = untrained();
        lk_optimizer_iterations(old_one.optimizer); /* values that are computed when they are read get their memory now */
        lk_optimizer_learning_rate(old_one.optimizer);
        for (int n = 1; !lk_failed(); n++) {
            const int64_t before = lki_memory_in_use();
            lki_memory_fail_after(n);
            const int good = restore_only();
            lki_memory_fail_after(0);
            if (good) break;
            assert_int_equal(lk_error_code(), LK_ENOMEM);
            assert_int_equal(lki_memory_in_use(), before); /* no note is left either */
            lk_clear_error();
        }
        build(&old_one);
        const trained a = made(3);
        assert_true(same_objects(&a, &old_one));
    }
}

int main(int argc, char **argv)
{
    (void)argc, (void)argv;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_full_disk),
        cmocka_unit_test(folders_that_cannot_be_written),
        cmocka_unit_test(killed_while_saving),
        cmocka_unit_test(half_of_a_save),
        cmocka_unit_test(a_state_file_that_is_wrong),
        cmocka_unit_test(damaged_files),
        cmocka_unit_test(strange_graphs),
        cmocka_unit_test(without_memory),
        cmocka_unit_test(restore_without_memory),
    };
    return cmocka_run_group_tests(tests, folder_begin, folder_end);
}
