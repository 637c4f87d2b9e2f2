/* Snapshots: the files of a save, written later, elsewhere; extra entries; what a check of the files finds. */
#include "model/snapshot.h"
#include "kernel/kernel.h"
#include "model/checkpoints.h"
#include <pthread.h>

static bool same_file(const char *a, const char *b)
{
    lki_bytes  x, y;
    const bool read = lki_file_read(a, &x) == LK_OK && lki_file_read(b, &y) == LK_OK;
    const bool same = read && x.size == y.size && memcmp(x.data, y.data, x.size) == 0;
    if (read) lki_bytes_free(&x), lki_bytes_free(&y);
    return same;
}

static bool same_files(const char *a, const char *b)
{
    static const char *const end[] = {".index", ".data-00000-of-00001"};
    char                     x[512], y[512];
    bool                     same = true;
    for (int i = 0; i < 2; i++) {
        snprintf(x, sizeof x, "%s%s", a, end[i]);
        snprintf(y, sizeof y, "%s%s", b, end[i]);
        same = same && same_file(x, y);
    }
    return same;
}

typedef struct job {
    const lki_snapshot *snapshot;
    const char         *prefix;
    lk_status           status;
} job;

static void *write_it(void *arg)
{
    job *j = arg;
    j->status = lki_snapshot_write(j->snapshot, j->prefix);
    return NULL;
}

/* The values are those of the moment it was taken, on whatever thread it is written and whatever happens to the objects. */
TEST(as_it_was)
{
    lki_snapshot *s = NULL;
    LK_POOL {
        const trained t = made(2);
        assert_non_null(lk_checkpoint_write(t.checkpoint, IN("direct")));
        assert_int_equal(lki_snapshot_take(t.checkpoint, &s), LK_OK);
        train(&t, 2);
        assert_non_null(lk_checkpoint_write(t.checkpoint, IN("later")));
    }
    pthread_t thread;
    job       j = {s, IN("taken"), LK_EIO};
    assert_int_equal(pthread_create(&thread, NULL, write_it, &j), 0);
    pthread_join(thread, NULL);
    assert_int_equal(j.status, LK_OK);
    assert_true(same_files(IN("direct"), IN("taken")));
    assert_false(same_files(IN("later"), IN("taken")));
    lki_snapshot_free(s);
    assert_false(lk_failed());
}

/* Taken again: the same memory, new values, no extra entries. */
TEST(taken_again)
{
    lki_snapshot *s = NULL;
    lki_bytes     text;
    LK_POOL {
        const trained t = made(1);
        assert_int_equal(lki_snapshot_take(t.checkpoint, &s), LK_OK);
        const lki_snapshot *first = s;
        assert_int_equal(lki_snapshot_put(s, "_EXTRA", "one", 3), LK_OK);
        train(&t, 1);
        const int64_t before = lki_memory_in_use();
        assert_int_equal(lki_snapshot_take(t.checkpoint, &s), LK_OK);
        assert_true(s == first && lki_memory_in_use() == before);
        assert_non_null(lk_checkpoint_write(t.checkpoint, IN("again")));
        assert_int_equal(lki_snapshot_write(s, IN("taken again")), LK_OK);
        assert_true(same_files(IN("again"), IN("taken again")));
        assert_int_equal(lki_checkpoint_extra(IN("again"), "_EXTRA", &text), LK_ENOTFOUND);
    }
    lki_snapshot_free(s);
    assert_false(lk_failed());
}

TEST(extra_entries)
{
    lki_snapshot *s = NULL;
    lki_bytes     text;
    LK_POOL {
        const trained a = made(2), b = made(1);
        assert_int_equal(lki_snapshot_take(a.checkpoint, &s), LK_OK);
        assert_int_equal(lki_snapshot_put(s, "_EXTRA", "one", 3), LK_OK);
        assert_int_equal(lki_snapshot_put(s, "_OTHER", "", 0), LK_OK);
        assert_int_equal(lki_snapshot_put(s, "_EXTRA", "the second\0with a zero", 22), LK_OK);
        assert_int_equal(lki_snapshot_write(s, IN("extra")), LK_OK);
        assert_int_equal(lki_checkpoint_verify(IN("extra")), LK_OK);
        assert_int_equal(lki_checkpoint_extra(IN("extra"), "_EXTRA", &text), LK_OK);
        assert_true(text.size == 22 && memcmp(text.data, "the second\0with a zero", 22) == 0);
        lki_bytes_free(&text);
        assert_int_equal(lki_checkpoint_extra(IN("extra"), "_OTHER", &text), LK_OK);
        assert_int_equal(text.size, 0);
        lki_bytes_free(&text);
        assert_int_equal(lki_checkpoint_extra(IN("extra"), "_NONE", &text), LK_ENOTFOUND);
        assert_int_equal(lki_checkpoint_extra(IN("no/such"), "_EXTRA", &text), LK_ENOTFOUND);
        lk_restore_status *r = lk_checkpoint_read(b.checkpoint, IN("extra"));
        assert_int_equal(lk_restore_assert_consumed(r), LK_OK); /* no graph names them */
        assert_true(same_objects(&a, &b));
    }
    lki_snapshot_free(s);
    assert_false(lk_failed());
}

TEST(where_the_bits_come_from)
{
    LK_POOL {
        lki_provenance o;
        lk_strategy   *s = lk_mirrored_strategy(.cpu_devices = 2, .lanes = 4);
        lk_model      *m = NULL;
        LK_SCOPE(s)
            m = small_model();
        lk_model_build(m, LK_SHAPE(4));
        lk_checkpoint_write(lk_checkpoint_of({"model", m}), IN("four"));
        assert_int_equal(lki_checkpoint_provenance(IN("four"), &o), LK_OK);
        assert_int_equal(o.lanes, 4);
        assert_string_equal(o.device, "CPU");
        assert_string_equal(o.precision, "f32");
        assert_int_equal(o.kernels, LKI_KERNEL_VERSION);
        lk_checkpoint_write(made(1).checkpoint, IN("none"));
        assert_int_equal(lki_checkpoint_provenance(IN("none"), &o), LK_OK);
        assert_int_equal(o.lanes, lk_lanes());
        assert_int_equal(lki_checkpoint_provenance(IN("no/such"), &o), LK_ENOTFOUND);
        assert_false(lk_failed());
    }
}

/* They name an instruction set, and neither device nor precision. */
TEST(notes_of_earlier_versions)
{
    static const char old[] = "lanes 16\nisa avx512\nkernels 1\n", bad[] = "lanes 16\nprecision\n";
    LK_POOL {
        lki_snapshot  *s = NULL;
        lki_provenance o;
        assert_int_equal(lki_snapshot_take(made(1).checkpoint, &s), LK_OK);
        assert_int_equal(lki_snapshot_put(s, LKI_PROVENANCE_KEY, old, sizeof old - 1), LK_OK);
        assert_int_equal(lki_snapshot_write(s, IN("old")), LK_OK);
        assert_int_equal(lki_checkpoint_provenance(IN("old"), &o), LK_OK);
        assert_true(o.lanes == 16 && o.kernels == 1 && !o.device[0] && !o.precision[0]);
        assert_int_equal(lki_snapshot_put(s, LKI_PROVENANCE_KEY, bad, sizeof bad - 1), LK_OK);
        assert_int_equal(lki_snapshot_write(s, IN("old")), LK_OK);
        REFUSED(LK_EFORMAT, lki_checkpoint_provenance(IN("old"), &o) == LK_EFORMAT, "precision");
        lki_snapshot_free(s);
    }
}

/* What TensorFlow wrote is whole, and says nothing about our numbers. */
TEST(the_files_of_others)
{
    const char    *golden = folder_or_skip("LOCKSTEP_GOLDEN");
    char           prefix[512];
    lki_provenance o;
    snprintf(prefix, sizeof prefix, "%s/files/checkpoint/ckpt-1", golden);
    assert_int_equal(lki_checkpoint_verify(prefix), LK_OK);
    assert_int_equal(lki_checkpoint_provenance(prefix, &o), LK_ENOTFOUND);
    assert_false(lk_failed());
}

TEST(not_everywhere)
{
    LK_POOL {
        lki_snapshot *s = NULL;
        REFUSED(LK_EINVAL, lki_snapshot_take(NULL, &s) == LK_EINVAL, "the checkpoint is NULL");
        assert_null(s);
        REFUSED(LK_EIO, (lki_snapshot_take(made(1).checkpoint, &s), lki_snapshot_write(s, "/proc/no/such")) == LK_EIO, "/proc/no");
        lki_snapshot_free(s);
        lki_snapshot_free(NULL);
        REFUSED(LK_ENOTFOUND, lki_checkpoint_verify(IN("no/such")) == LK_ENOTFOUND, "no/such.index");
    }
}

int main(int argc, char **argv)
{
    (void)argc, (void)argv;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_it_was),
        cmocka_unit_test(taken_again),
        cmocka_unit_test(extra_entries),
        cmocka_unit_test(where_the_bits_come_from),
        cmocka_unit_test(notes_of_earlier_versions),
        cmocka_unit_test(the_files_of_others),
        cmocka_unit_test(not_everywhere),
    };
    return cmocka_run_group_tests(tests, folder_begin, folder_end);
}
