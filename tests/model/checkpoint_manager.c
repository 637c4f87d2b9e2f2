/* Checkpoint managers: which checkpoints are kept, the contents of the state file, what is restored if files are damaged. */
#include "format/checkpoint_state.h"
#include "model/checkpoints.h"
#include "model/manager.h"
#include <fcntl.h>

static double time_now;
static double test_clock(void) { return time_now; }

/* Both its files, or none; the data may be called 00000-of-00001 or, where it was written over, 00001-of-00002. */
static bool there(const char *name)
{
    char path[3][256];
    snprintf(path[0], sizeof path[0], "%s.index", name);
    snprintf(path[1], sizeof path[1], "%s.data-00000-of-00001", name);
    snprintf(path[2], sizeof path[2], "%s.data-00001-of-00002", name);
    const bool has = file_exists(IN(path[0]));
    assert_int_equal(has, file_exists(IN(path[1])) + file_exists(IN(path[2])));
    return has;
}

static void must_list(lk_checkpoint_manager *m, int count, const char *const *names)
{
    const lk_names all = lk_checkpoint_manager_checkpoints(m);
    assert_int_equal(all.count, count);
    for (int i = 0; i < count; i++)
        assert_string_equal(all.item[i], IN(names[i]));
}
#define MUST_LIST(m, ...)                                                                                                          \
    must_list(m, (int)(sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *)), (const char *const[]){__VA_ARGS__})

static void spoil(const char *name)
{
    const int file = open(IN(name), O_RDWR);
    assert_true(file >= 0 && pwrite(file, "spoilt", 6, 20) == 6);
    close(file);
}

TEST(the_latest_stay)
{
    LK_POOL {
        const trained          t = made(1);
        lk_checkpoint_manager *m = lk_checkpoint_manager_of(t.checkpoint, IN("keep"), .max_to_keep = 2);
        assert_null(lk_checkpoint_manager_latest_checkpoint(m));
        assert_int_equal(lk_checkpoint_manager_checkpoints(m).count, 0);
        assert_string_equal(lk_checkpoint_manager_save(m), IN("keep/ckpt-1"));
        assert_string_equal(lk_checkpoint_manager_save(m), IN("keep/ckpt-2"));
        assert_true(there("keep/ckpt-1"));
        assert_string_equal(lk_checkpoint_manager_save(m), IN("keep/ckpt-3"));
        assert_true(!there("keep/ckpt-1") && there("keep/ckpt-2") && there("keep/ckpt-3"));
        MUST_LIST(m, "keep/ckpt-2", "keep/ckpt-3");
        assert_string_equal(lk_latest_checkpoint(IN("keep")), IN("keep/ckpt-3"));
        lk_checkpoint_manager *next = lk_checkpoint_manager_of(t.checkpoint, IN("keep/"), .max_to_keep = 2); /* takes over */
        MUST_LIST(next, "keep/ckpt-2", "keep/ckpt-3");
        assert_string_equal(lk_checkpoint_manager_save(next), IN("keep/ckpt-4"));
        assert_true(!there("keep/ckpt-2"));
        MUST_LIST(next, "keep/ckpt-3", "keep/ckpt-4");
        assert_string_equal(lk_checkpoint_manager_save_as(next, 3), IN("keep/ckpt-3")); /* written again: now the latest */
        MUST_LIST(next, "keep/ckpt-4", "keep/ckpt-3");
        assert_string_equal(lk_checkpoint_manager_save_as(next, 0), IN("keep/ckpt-0"));
        MUST_LIST(next, "keep/ckpt-3", "keep/ckpt-0");
        assert_string_equal(lk_checkpoint_manager_save(next), IN("keep/ckpt-7")); /* every save counts */
        assert_false(lk_failed());
    }
}

TEST(all_stay)
{
    LK_POOL {
        lk_checkpoint_manager *m = lk_checkpoint_manager_of(made(1).checkpoint, IN("all"), .checkpoint_name = "mine");
        for (int i = 0; i < 4; i++)
            lk_checkpoint_manager_save(m);
        MUST_LIST(m, "all/mine-1", "all/mine-2", "all/mine-3", "all/mine-4");
        assert_false(lk_failed());
    }
}

/* Every hour a save, one of every three hours is kept: as TensorFlow's manager decides, those that are due when they would go. */
TEST(one_of_every_few_hours)
{
    lki_manager_clock = test_clock;
    time_now = 1.7e9;
    LK_POOL {
        const trained          t = made(1);
        lk_checkpoint_manager *m =
            lk_checkpoint_manager_of(t.checkpoint, IN("hours"), .max_to_keep = 2, .keep_checkpoint_every_n_hours = 3);
        for (int i = 0; i < 10; i++, time_now += 3600) {
            if (i == 5)
                m = lk_checkpoint_manager_of(t.checkpoint, IN("hours"), .max_to_keep = 2, .keep_checkpoint_every_n_hours = 3);
            assert_non_null(lk_checkpoint_manager_save(m));
        }
        static const bool stays[] = {false, false, false, true, false, false, true, false, true, true}; /* 4 and 7 for their age */
        for (int i = 0; i < 10; i++) {
            char name[32];
            snprintf(name, sizeof name, "hours/ckpt-%d", i + 1);
            if (there(name) != stays[i]) fail_msg("%s should%s be there", name, stays[i] ? "" : " not");
        }
        MUST_LIST(m, "hours/ckpt-9", "hours/ckpt-10");
        assert_false(lk_failed());
    }
    time_now = 0;
}

TEST(the_state_file_as_tensorflow_has_it)
{
    lki_manager_clock = test_clock;
    time_now = 1700000000.25;
    LK_POOL {
        static const char      text[] = "model_checkpoint_path: \"ckpt-2\"\n"
                                        "all_model_checkpoint_paths: \"ckpt-1\"\n"
                                        "all_model_checkpoint_paths: \"ckpt-2\"\n"
                                        "all_model_checkpoint_timestamps: 1700000000.250000\n"
                                        "all_model_checkpoint_timestamps: 1700000001.250000\n"
                                        "last_preserved_timestamp: 1699999999.250000\n"
                                        "# crc32c ";
        lk_checkpoint_manager *m = lk_checkpoint_manager_of(made(1).checkpoint, IN("text"));
        lki_bytes              bytes;
        lk_checkpoint_manager_save(m);
        time_now++;
        lk_checkpoint_manager_save(m);
        assert_int_equal(lki_file_read(IN("text/checkpoint"), &bytes), LK_OK);
        assert_int_equal(bytes.size, sizeof text - 1 + 9);
        assert_memory_equal(bytes.data, text, sizeof text - 1);
        lki_bytes_free(&bytes);
        static const char theirs[] = "model_checkpoint_path: \"ckpt-2\"\nall_model_checkpoint_paths: \"/old/ckpt-0\"\n"
                                     "all_model_checkpoint_paths: \"ckpt-1\"\nall_model_checkpoint_paths: \"ckpt-2\"\n"
                                     "all_model_checkpoint_timestamps: 1600000000.5\nall_model_checkpoint_timestamps: 1.7e+09\n"
                                     "all_model_checkpoint_timestamps: 1700000001.25\nlast_preserved_timestamp: 1650000000.0\n";
        lki_bytes         part = {(uint8_t *)theirs, sizeof theirs - 1};
        assert_int_equal(lki_file_write(IN("text/checkpoint"), 1, &part), LK_OK);
        warnings = 0;
        m = lk_checkpoint_manager_of(made(1).checkpoint, IN("text"), .max_to_keep = 2);
        MUST_LIST(m, "text/ckpt-1", "text/ckpt-2");
        assert_string_equal(lk_checkpoint_manager_latest_checkpoint(m), IN("text/ckpt-2"));
        assert_int_equal(warnings, 0);
        assert_false(lk_failed());
    }
    time_now = 0;
}

TEST(steps_between)
{
    LK_POOL {
        lk_variable           *step = lk_variable_of(lk_tensor_from(LK_SHAPE(), LK_I64, (int64_t[]){0}));
        lk_checkpoint         *c = lk_checkpoint_of({"step", step});
        lk_checkpoint_manager *m = lk_checkpoint_manager_of(c, IN("steps"), .step_counter = step, .checkpoint_interval = 10);
        int                    saved = 0;
        for (int64_t i = 0; i < 35; i++) {
            lk_assign(step, lk_tensor_from(LK_SHAPE(), LK_I64, &i));
            saved += lk_checkpoint_manager_save(m) != NULL;
        }
        assert_int_equal(saved, 4); /* 0, 10, 20, 30 */
        m = lk_checkpoint_manager_of(c, IN("steps"), .step_counter = step, .checkpoint_interval = 10);
        assert_string_equal(lk_checkpoint_manager_restore_or_initialize(m), IN("steps/ckpt-4"));
        assert_null(lk_checkpoint_manager_save(m)); /* counted from the one that was restored */
        assert_false(lk_failed());
    }
}

/* ---- restoring ---- */

static int       initialised;
static lk_status initialise(void *user)
{
    initialised += *(int *)user;
    return LK_OK;
}

TEST(restored_or_initialised)
{
    LK_POOL {
        const trained          a = made(3), b = made(1);
        int                    one = 1;
        lk_checkpoint_manager *m = lk_checkpoint_manager_of(b.checkpoint, IN("init"), .init_fn = initialise, .user = &one);
        assert_null(lk_checkpoint_manager_restore_or_initialize(m));
        assert_int_equal(initialised, 1);
        lk_checkpoint_manager_save(lk_checkpoint_manager_of(a.checkpoint, IN("init")));
        m = lk_checkpoint_manager_of(b.checkpoint, IN("init"), .init_fn = initialise, .user = &one);
        assert_string_equal(lk_checkpoint_manager_restore_or_initialize(m), IN("init/ckpt-1"));
        assert_int_equal(initialised, 1);
        assert_true(same_objects(&a, &b));
        assert_string_equal(lk_checkpoint_manager_save(m), IN("init/ckpt-2"));
        const trained later = untrained(); /* built after it */
        m = lk_checkpoint_manager_of(later.checkpoint, IN("init"));
        assert_non_null(lk_checkpoint_manager_restore_or_initialize(m));
        build(&later);
        assert_true(same_objects(&a, &later));
        assert_false(lk_failed());
    }
}

TEST(a_damaged_one_gives_way_to_the_one_before)
{
    LK_POOL {
        const trained          a = made(1);
        lk_checkpoint_manager *m = lk_checkpoint_manager_of(a.checkpoint, IN("damaged"), .max_to_keep = 3);
        for (int i = 0; i < 3; i++)
            train(&a, 1), lk_checkpoint_manager_save(m);
        spoil("damaged/ckpt-3.data-00000-of-00001");
        assert_string_equal(lk_latest_checkpoint(IN("damaged")), IN("damaged/ckpt-3")); /* goes by the state file */
        const trained b = made(1), right = made(3);
        warnings = 0;
        m = lk_checkpoint_manager_of(b.checkpoint, IN("damaged"), .max_to_keep = 3);
        assert_string_equal(lk_checkpoint_manager_restore_or_initialize(m), IN("damaged/ckpt-2"));
        assert_int_equal(warnings, 1);
        assert_non_null(strstr(last_warning, "ckpt-3.data"));
        assert_non_null(strstr(last_warning, "ckpt-2, is tried"));
        assert_true(same_objects(&b, &right));
        assert_string_equal(lk_checkpoint_manager_latest_checkpoint(m), IN("damaged/ckpt-2"));
        assert_string_equal(lk_checkpoint_manager_save(m), IN("damaged/ckpt-3")); /* in its place */
        MUST_LIST(m, "damaged/ckpt-1", "damaged/ckpt-2", "damaged/ckpt-3");
        unlink(IN("damaged/ckpt-3.index"));
        spoil("damaged/ckpt-2.index");
        m = lk_checkpoint_manager_of(b.checkpoint, IN("damaged"));
        assert_string_equal(lk_checkpoint_manager_restore_or_initialize(m), IN("damaged/ckpt-1"));
        spoil("damaged/ckpt-1.index");
        m = lk_checkpoint_manager_of(b.checkpoint, IN("damaged"));
        REFUSED(LK_ENOTFOUND, !lk_checkpoint_manager_restore_or_initialize(m), "ckpt-3.index", "before it are damaged too");
    }
}

/* One that is whole but of other objects is not passed over. */
TEST(one_that_does_not_fit)
{
    LK_POOL {
        lk_variable *v = lk_variable_of(lk_zeros(LK_SHAPE(2), LK_F32)), *w = lk_variable_of(lk_zeros(LK_SHAPE(3), LK_F32));
        lk_checkpoint_manager *m = lk_checkpoint_manager_of(lk_checkpoint_of({"v", v}), IN("other"));
        lk_checkpoint_manager_save(m);
        lk_checkpoint_manager_save(m);
        m = lk_checkpoint_manager_of(lk_checkpoint_of({"v", w}), IN("other"));
        REFUSED(LK_ESHAPE, !lk_checkpoint_manager_restore_or_initialize(m), "ckpt-2", "[2]", "[3]");
    }
}

TEST(a_state_file_that_is_no_use)
{
    LK_POOL {
        const trained          t = made(1);
        lk_checkpoint_manager *m = lk_checkpoint_manager_of(t.checkpoint, IN("lost"));
        lki_bytes              nonsense = {(uint8_t *)"nonsense", 8};
        for (int i = 0; i < 11; i++)
            lk_checkpoint_manager_save(m);
        lki_file_write(IN("lost/ckpt-12.data-00000-of-00001"), 1, &nonsense); /* of a crash */
        lki_file_write(IN("lost/ckpt-12.index.1.2.tmp"), 1, &nonsense);
        lki_file_write(IN("lost/checkpoint"), 1, &nonsense);
        warnings = 0;
        m = lk_checkpoint_manager_of(t.checkpoint, IN("lost"));
        assert_int_equal(warnings, 1);
        assert_int_equal(lk_checkpoint_manager_checkpoints(m).count, 11);
        assert_string_equal(lk_checkpoint_manager_restore_or_initialize(m), IN("lost/ckpt-11"));
        assert_false(file_exists(IN("lost/ckpt-12.data-00000-of-00001")));
        assert_int_equal(folder_leftovers(IN("lost")), 0);
        assert_false(lk_failed());
    }
}

/* Nothing is removed before the new one is listed. */
TEST(what_cannot_be_written_costs_nothing)
{
    LK_POOL {
        const trained          t = made(1);
        lk_checkpoint_manager *m = lk_checkpoint_manager_of(t.checkpoint, IN("stuck"), .max_to_keep = 1);
        assert_non_null(lk_checkpoint_manager_save(m));
        unlink(IN("stuck/checkpoint"));
        mkdir(IN("stuck/checkpoint"), 0777);
        REFUSED(LK_EIO, !lk_checkpoint_manager_save(m), "stuck/checkpoint");
        assert_true(there("stuck/ckpt-1"));
        MUST_LIST(m, "stuck/ckpt-1");
        REFUSED(LK_EIO, !lk_checkpoint_manager_save_as(m, 1), "stuck/checkpoint"); /* nor when a listed one is written again */
        MUST_LIST(m, "stuck/ckpt-1");
        assert_string_equal(lk_checkpoint_manager_latest_checkpoint(m), IN("stuck/ckpt-1"));
        rmdir(IN("stuck/checkpoint"));
        assert_string_equal(lk_checkpoint_manager_save(m), IN("stuck/ckpt-2")); /* failures are not counted */
        assert_true(!there("stuck/ckpt-1") && there("stuck/ckpt-2"));
        assert_false(lk_failed());
    }
}

TEST(mistakes)
{
    LK_POOL {
        lk_checkpoint *c = made(1).checkpoint;
        lk_variable   *v = lk_variable_of(lk_zeros(LK_SHAPE(2), LK_F32));
        REFUSED(LK_EINVAL, !lk_checkpoint_manager_of(NULL, "x"), "the checkpoint is NULL");
        REFUSED(LK_EINVAL, !lk_checkpoint_manager_of(c), "directory is NULL");
        REFUSED(LK_EINVAL, !lk_checkpoint_manager_of(c, ""), "directory is \"\"");
        REFUSED(LK_EINVAL, !lk_checkpoint_manager_of(c, "x", .max_to_keep = -1), "max_to_keep -1");
        REFUSED(LK_EINVAL, !lk_checkpoint_manager_of(c, "x", .keep_checkpoint_every_n_hours = -2), "-2");
        REFUSED(LK_EINVAL, !lk_checkpoint_manager_of(c, "x", .checkpoint_name = "a/b"), "a/b");
        REFUSED(LK_EINVAL, !lk_checkpoint_manager_of(c, "x", .checkpoint_interval = 2), "without a step_counter");
        REFUSED(LK_EINVAL, !lk_checkpoint_manager_of(c, "x", .step_counter = v), "checkpoint_interval 0");
        REFUSED(LK_EINVAL, !lk_checkpoint_manager_of(c, "x", .step_counter = v, .checkpoint_interval = 1), "one element");
        REFUSED(LK_EINVAL, !lk_checkpoint_manager_save(NULL), "the manager is NULL");
        REFUSED(LK_EINVAL, !lk_checkpoint_manager_save_as(lk_checkpoint_manager_of(c, IN("m")), -1), "number -1");
        REFUSED(LK_EINVAL, !lk_checkpoint_manager_save((lk_checkpoint_manager *)c), "not a checkpoint manager");
    }
}

/* ---- memory ---- */

static lk_checkpoint *scarce;
static int            save_and_restore(void)
{
    bool good = false;
    LK_POOL {
        lk_checkpoint_manager *m = lk_checkpoint_manager_of(scarce, IN("scarce"), .max_to_keep = 1);
        good = m && lk_checkpoint_manager_save(m) && lk_checkpoint_manager_restore_or_initialize(m);
    }
    return good;
}

TEST(every_allocation_fails_once)
{
    LK_POOL {
        scarce = lk_checkpoint_of({"v", lk_variable_of(lk_zeros(LK_SHAPE(2), LK_F32))});
        save_and_restore();
        assert_true(check_every_allocation(save_and_restore) > 20);
    }
}

static int begin(void **state)
{
    lki_manager_clock = test_clock;
    time_now = 1.7e9;
    return folder_begin(state);
}

static int tick(void **state)
{
    (void)state;
    time_now = time_now > 0 ? time_now + 1 : 1.7e9;
    return 0;
}

int main(int argc, char **argv)
{
    (void)argc, (void)argv;
#define EACH(name) cmocka_unit_test_setup(name, tick)
    const struct CMUnitTest tests[] = {
        EACH(the_latest_stay),
        EACH(all_stay),
        EACH(one_of_every_few_hours),
        EACH(the_state_file_as_tensorflow_has_it),
        EACH(steps_between),
        EACH(restored_or_initialised),
        EACH(a_damaged_one_gives_way_to_the_one_before),
        EACH(one_that_does_not_fit),
        EACH(a_state_file_that_is_no_use),
        EACH(what_cannot_be_written_costs_nothing),
        EACH(mistakes),
        EACH(every_allocation_fails_once),
    };
    return cmocka_run_group_tests(tests, begin, folder_end);
}
