/* Sections 2 and 17 of the specification: device names, which and how many devices a strategy gets, what it logs when it is made,
 * and the two strategies that are not mirrored. The number of devices of a process is fixed once, so those cases run in separate
 * processes: `devices CASE`. */
#include "dist/replicas.h"
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

#define FULL(n) "/job:localhost/replica:0/task:0/device:CPU:" #n

static const char *device_of(lk_strategy *s, int r) { return lk_extended_worker_devices(s).item[r]; }

/* A list that is not a literal. */
static lk_strategy *on(int count, const char *const *names)
{
    lk_set_log(quiet, NULL);
    return lk_mirrored_strategy(.devices = {count, names});
}

/* ---- names ---- */

TEST(every_form_of_a_name)
{
    static const char *const first[] = {"CPU:0",
                                        "cpu:0",
                                        "Cpu:0",
                                        "/cpu:0",
                                        "/CPU:0",
                                        "device:CPU:0",
                                        "/device:CPU:0",
                                        "/DEVICE:cpu:0",
                                        "CPU",
                                        "/cpu",
                                        "/device:CPU",
                                        FULL(0),
                                        "/job:localhost/replica:0/task:0/cpu:0",
                                        "/job:localhost/device:CPU:0",
                                        "/job:localhost",
                                        "/task:0/CPU:0",
                                        "/replica:0/task:0",
                                        "/device:CPU:0/job:localhost",
                                        "job:localhost/cpu:0",
                                        "CPU:00"};
    LK_POOL {
        lk_mirrored_strategy(.cpu_devices = 2);
        for (int i = 0; i < LKI_COUNT(first); i++) {
            lk_strategy *s = on(1, &first[i]);
            if (!s) fail_msg("\"%s\": %s", first[i], lk_error());
            assert_string_equal(device_of(s, 0), FULL(0));
            lk_strategy *one = lk_one_device_strategy(first[i]);
            assert_string_equal(device_of(one, 0), FULL(0));
        }
        assert_string_equal(device_of(on(1, (const char *const[]){"cpu:1"}), 0), FULL(1));
        assert_string_equal(device_of(on(1, (const char *const[]){lk_list_devices().item[1]}), 0), FULL(1)); /* a handle */
        SOUND();
    }
}

TEST(names_that_name_nothing)
{
    static const char *const bad[] = {"",
                                      "CPU:x",
                                      "CPU:",
                                      "CPU:-1",
                                      "CPU:1.0",
                                      "CPU:0:0",
                                      "XPU:0",
                                      "0",
                                      "C",
                                      "CPU :0",
                                      "CPU: 0",
                                      "/device:",
                                      "/device:0",
                                      "/task:a",
                                      "/task",
                                      "/job:/cpu:0",
                                      "/replica:x",
                                      "cpu0",
                                      "GPU:one",
                                      "CPU:99999999999999999999",
                                      "/job:localhost/what:0/CPU:0"};
    LK_POOL {
        for (int i = 0; i < LKI_COUNT(bad); i++) {
            char quoted[80];
            snprintf(quoted, sizeof quoted, "\"%s\"", bad[i]);
            assert_null(on(1, &bad[i]));
            if (!told(LK_EINVAL, "lk_mirrored_strategy", quoted, "not a device", "CPU:0")) fail_msg("%s", bad[i]);
            assert_null(lk_one_device_strategy(bad[i]));
            assert_true(told(LK_EINVAL, "lk_one_device_strategy", quoted, "not a device"));
        }
        char long_name[400];
        memset(long_name, 'x', sizeof long_name);
        long_name[399] = 0;
        assert_null(lk_one_device_strategy(long_name));
        assert_int_equal(lk_error_code(), LK_EINVAL);
        lk_clear_error();
        REFUSED(LK_EINVAL, lk_one_device_strategy(NULL), "lk_one_device_strategy", "not a device");
        REFUSED(LK_EINVAL, lk_mirrored_strategy(.devices = LK_DEVICES("CPU:0", NULL)), "lk_mirrored_strategy", "not a device");
    }
}

TEST(devices_that_are_not_there)
{
    LK_POOL {
        lk_mirrored_strategy(.cpu_devices = 2);
        REFUSED(LK_EINVAL, lk_mirrored_strategy(.devices = LK_DEVICES("CPU:0", "CPU:999")), "no device", "device:CPU:999",
                "there are CPU:0, CPU:1");
        REFUSED(LK_EINVAL, lk_mirrored_strategy(.devices = LK_DEVICES("GPU:0")), "no device", "device:GPU:0",
                "there are CPU:0, CPU:1");
        REFUSED(LK_EINVAL, lk_mirrored_strategy(.devices = LK_DEVICES("CPU:0", "GPU:0")), "no device", "device:GPU:0");
        REFUSED(LK_EINVAL, lk_one_device_strategy("gpu:1"), "lk_one_device_strategy", "no device", "device:GPU:1");
        REFUSED(LK_EINVAL, lk_one_device_strategy("CPU:500"), "no device", "CPU:500");
        REFUSED(LK_EINVAL, lk_one_device_strategy("/job:localhost/task:1/cpu:0"), "no device", "task:1");
        REFUSED(LK_EINVAL, lk_one_device_strategy("/job:localhost/replica:2/cpu:0"), "no device", "replica:2");
        REFUSED(LK_EINVAL, lk_one_device_strategy("/job:worker/task:0/cpu:0"), "no device", "/job:worker");
        assert_int_equal(lk_list_devices().count, 2); /* refused ones had no effect */
    }
}

TEST(duplicates_mixes_and_workers)
{
    LK_POOL {
        REFUSED(LK_EINVAL, lk_mirrored_strategy(.devices = LK_DEVICES("CPU:0", "/cpu:0")), "lk_mirrored_strategy",
                "duplicates are not allowed", FULL(0));
        REFUSED(LK_EINVAL, lk_mirrored_strategy(.devices = LK_DEVICES("CPU:1", "CPU:0", FULL(1))), "duplicates are not allowed",
                FULL(1), "0 and 2");
        REFUSED(LK_EINVAL, lk_mirrored_strategy(.devices = LK_DEVICES("CPU:0", "/job:worker/task:0/cpu:0")), "local and remote",
                "cannot be mixed");
        REFUSED(LK_EINVAL, lk_mirrored_strategy(.devices = LK_DEVICES("/job:worker/task:0/cpu:0", "/job:worker/task:1/cpu:0")),
                "more than one worker", "multi-worker strategy");
        REFUSED(LK_EINVAL, lk_mirrored_strategy(.devices = LK_DEVICES("/job:chief/task:0/cpu:0", "/job:worker/task:0/cpu:0")),
                "more than one worker");
        REFUSED(LK_EINVAL, lk_mirrored_strategy(.devices = LK_DEVICES("/job:worker/cpu:0")), "/job:worker/cpu:0", "no task number",
                "/job:worker/task:0");
    }
}

REPLICA_FN(device_as_number)
{
    const char *name = lk_context_device(lk_get_replica_context());
    return LK_TUPLE(lk_scalar(name[strlen(name) - 1] - '0'));
}

TEST(order_gives_the_replica_ids)
{
    LK_POOL {
        lk_strategy *s = lk_mirrored_strategy(.devices = LK_DEVICES("CPU:2", "CPU:0", "CPU:1"));
        assert_int_equal(lk_num_replicas_in_sync(s), 3);
        assert_string_equal(device_of(s, 0), FULL(2));
        assert_string_equal(device_of(s, 1), FULL(0));
        PER_REPLICA(s, lk_run(s, device_as_number).item[0], 2, 0, 1);
        assert_int_equal(lk_extended_parameter_devices(s).count, 3);
        assert_string_equal(lk_extended_parameter_devices(s).item[0], FULL(2));
        assert_string_equal(lk_extended_non_slot_devices(s, LK_VARIABLES()).item[2], FULL(1));
        SOUND();
    }
}

TEST(without_devices_all_of_them)
{
    LK_POOL {
        lk_mirrored_strategy(.cpu_devices = 3);
        int          there = lk_list_devices().count;
        lk_strategy *s = lk_mirrored_strategy(), *empty = lk_mirrored_strategy(.devices = LK_DEVICES());
        assert_true(there >= 3);
        for (int i = 0; i < there; i++) {
            assert_string_equal(device_of(s, i), lk_list_devices().item[i]);
            assert_string_equal(device_of(empty, i), lk_list_devices().item[i]);
        }
        assert_int_equal(lk_num_replicas_in_sync(s), there);
        assert_int_equal(lk_num_replicas_in_sync(empty), there);
        assert_int_equal(lk_num_replicas_in_sync(NULL), 1);
        SOUND();
    }
}

/* ---- arguments ---- */

TEST(arguments)
{
    LK_POOL {
        int before = lk_list_devices().count;
        REFUSED(LK_EINVAL, lk_mirrored_strategy(.cpu_devices = -1), "lk_mirrored_strategy", "cpu_devices", "-1");
        REFUSED(LK_EINVAL, lk_mirrored_strategy(.cpu_devices = 100000), "cpu_devices", "100000");
        REFUSED(LK_EINVAL, lk_mirrored_strategy(.devices = LK_DEVICES("CPU:0"), .cpu_devices = 2), ".devices", ".cpu_devices",
                "not both");
        REFUSED(LK_EINVAL, lk_mirrored_strategy(.cpu_devices = 2, .lanes = 3), "lanes", "3", "power of two");
        REFUSED(LK_EINVAL, lk_mirrored_strategy(.cpu_devices = 2, .lanes = -8), "lanes", "-8");
        REFUSED(LK_EINVAL, lk_mirrored_strategy(.cpu_devices = 2, .lanes = 4096), "lanes", "4096", "1024");
        REFUSED(LK_EINVAL, lk_mirrored_strategy(.cpu_devices = 2, .order = (lk_order)7), ".order", "7", "LK_ORDERED", "LK_FREE");
        REFUSED(LK_EINVAL, lk_mirrored_strategy(.cross_device_ops = (lk_cross_device_ops *)lk_scalar(1)), "cross_device_ops",
                "lk_reduction_to_one_device");
        REFUSED(LK_EINVAL, lk_mirrored_strategy(.communication.bytes_per_pack = -1), "bytes_per_pack", "-1");
        REFUSED(LK_EINVAL, lk_mirrored_strategy(.communication.timeout_seconds = -1), "timeout_seconds", "-1");
        REFUSED(LK_EINVAL, lk_mirrored_strategy(.communication.implementation = (lk_communication)9), "implementation", "9",
                "LK_COMMUNICATION_AUTO");
        assert_int_equal(lk_list_devices().count, before);
    }
}

/* A replica needs a lane of its own. */
TEST(more_replicas_than_lanes)
{
    LK_POOL {
        int before = lk_list_devices().count;
        REFUSED(LK_EINVAL, lk_mirrored_strategy(.cpu_devices = 40), "40 replicas", "8 lanes", ".lanes = 64");
        REFUSED(LK_EINVAL, lk_mirrored_strategy(.cpu_devices = 4, .lanes = 2), "4 replicas", "2 lanes", ".lanes = 4");
        assert_int_equal(lk_list_devices().count, before); /* a strategy that was not made makes no devices */
        lk_strategy *many = lk_mirrored_strategy(.cpu_devices = 16, .lanes = 16),
                    *free_order = lk_mirrored_strategy(.cpu_devices = 9, .order = LK_FREE);
        assert_int_equal(lk_num_replicas_in_sync(many), 16);
        assert_int_equal(lk_num_replicas_in_sync(free_order), 9);
        lk_tensor *sum = lk_reduce(many, LK_SUM, lk_run(many, device_as_number).item[0]);
        VALUES(sum, 45 + 15);
        SOUND();
    }
}

TEST(many_devices)
{
    LK_POOL {
        lk_strategy *s = mirrored(64);
        assert_int_equal(lk_num_replicas_in_sync(s), 64);
        assert_string_equal(device_of(s, 63), FULL(63));
        VALUES(lk_reduce(s, LK_SUM, lk_run(s, device_as_number).item[0]), 6 * 45 + 6);
        SOUND();
    }
}

/* ---- several ---- */

REPLICA_FN(number_of_replicas) { return LK_TUPLE(lk_add(mine(0), lk_scalar(lk_context_num_replicas(lk_get_replica_context())))); }

TEST(several_strategies_alternate)
{
    LK_POOL {
        lk_strategy *a = mirrored(2), *b = mirrored(3), *c = mirrored(2);
        for (int i = 0; i < 20; i++) {
            PER_REPLICA(a, lk_run(a, number_of_replicas).item[0], 2, 3);
            PER_REPLICA(b, lk_run(b, number_of_replicas).item[0], 3, 4, 5);
            PER_REPLICA(c, lk_run(c, number_of_replicas).item[0], 2, 3);
            VALUES(lk_reduce(b, LK_SUM, lk_run(b, number_of_replicas).item[0]), 12);
            VALUES(lk_reduce(a, LK_SUM, lk_run(a, number_of_replicas).item[0]), 5);
        }
        lk_free(b);
        PER_REPLICA(a, lk_run(a, number_of_replicas).item[0], 2, 3);
        SOUND();
    }
}

/* ---- the others ---- */

static lk_tuple twice(lk_tuple in, void *user)
{
    *(int *)user += 1;
    EXPECT(my_id() == 0);
    EXPECT(lk_context_num_replicas(lk_get_replica_context()) == 1);
    return LK_TUPLE(lk_mul(in.item[0], lk_scalar(2)));
}

static lk_tensor *same_or_id(const lk_value_context *c, void *user)
{
    (void)user;
    return lk_scalar(7 + c->replica_id_in_sync_group);
}

static void check_one_replica(lk_strategy *s)
{
    double total = 0;
    int    calls = 0;
    for (int i = 0; i < 10; i++)
        total += lk_item(lk_run(s, twice, LK_TUPLE(lk_scalar(i)), .user = &calls).item[0]);
    assert_int_equal(calls, 10);
    assert_float_equal(total, 90, 0);
    lk_tensor *r = lk_range(10, LK_F32);
    assert_ptr_equal(lk_reduce(s, LK_SUM, r), r);
    assert_ptr_equal(lk_reduce(s, LK_MEAN, r), r);
    VALUES(lk_reduce(s, LK_SUM, r, LK_AXIS(0)), 45);
    VALUES(lk_reduce(s, LK_MEAN, r, LK_AXIS(0)), 4.5);
    VALUES(lk_values_from_function(s, same_or_id, NULL), 7); /* bare */
    assert_ptr_equal(lk_local_results(s, r).item[0], r);
    assert_int_equal(lk_num_replicas_in_sync(s), 1);
    SOUND();
}

TEST(the_default_strategy)
{
    LK_POOL {
        lk_strategy *s = lk_default_strategy();
        assert_ptr_equal(lk_get_strategy(), s);
        check_one_replica(s);
        REFUSED(LK_ESTATE, lk_extended_worker_devices(s), "lk_extended_worker_devices", "default strategy");
        assert_int_equal(lk_replica_id_in_sync_group(lk_get_replica_context()), 0);
        assert_ptr_equal(lk_context_strategy(lk_get_replica_context()), s);
        SOUND();
    }
}

static lk_variable *made_inside;

REPLICA_FN(make_inside)
{
    made_inside = lk_variable_of(lk_scalar(1), .name = "inside");
    return LK_TUPLE(lk_read(made_inside));
}

TEST(one_device)
{
    LK_POOL {
        lk_variable *v = NULL;
        mirrored(2);
        lk_strategy *s = lk_one_device_strategy("CPU:1");
        assert_string_equal(device_of(s, 0), FULL(1));
        check_one_replica(s);
        PER_REPLICA(s, lk_run(s, device_as_number).item[0], 1);
        LK_SCOPE(s) {
            assert_true(lk_in_cross_replica_context() && lk_has_strategy() && lk_get_strategy() == s);
            v = lk_variable_of(lk_scalar(3), .name = "v");
        }
        PRINTS(lk_print_variable(v), "3\n"); /* an ordinary one */
        VALUES(lk_run(s, make_inside).item[0], 1);
        PRINTS(lk_print_variable(made_inside), "1\n");
        SOUND();
    }
}

/* ---- in processes of their own ---- */

#define NON_GPU "WARNING:lockstep: There are non-GPU devices in `tf.distribute.Strategy`, not using nccl allreduce.\n"
#define USING "INFO:lockstep: Using MirroredStrategy with devices "

static void tutorial(void) { EXPECT(lk_num_replicas_in_sync(lk_mirrored_strategy()) == 1); }

static void two_strategies(void)
{
    lk_mirrored_strategy(.cpu_devices = 2);
    lk_mirrored_strategy(.devices = LK_DEVICES("cpu:1"));
    EXPECT(!lk_failed());
}

static void four(void)
{
    EXPECT(lk_list_devices().count == 4);
    EXPECT(lk_num_replicas_in_sync(lk_mirrored_strategy()) == 4);
    EXPECT(!lk_mirrored_strategy(.devices = LK_DEVICES("CPU:0", "CPU:1", "CPU:2", "CPU:3", "CPU:4"))); /* the user said how many */
    EXPECT_TOLD(LK_EINVAL, "no device", "CPU:4", "CPU:0, CPU:1, CPU:2, CPU:3");
}

static void ignored_number(void) { EXPECT(lk_list_devices().count == 1); }

static void set_first(void)
{
    EXPECT(lk_set_cpu_devices(0) == LK_EINVAL);
    EXPECT_TOLD(LK_EINVAL, "lk_set_cpu_devices(0)", "1 to");
    EXPECT(lk_set_cpu_devices(-4) == LK_EINVAL);
    EXPECT_TOLD(LK_EINVAL, "lk_set_cpu_devices(-4)");
    EXPECT(lk_set_cpu_devices(1 << 20) == LK_EINVAL);
    EXPECT_TOLD(LK_EINVAL, "1048576");
    EXPECT(lk_set_cpu_devices(2) == LK_OK && lk_list_devices().count == 2);
    EXPECT(lk_set_cpu_devices(3) == LK_OK && lk_list_devices().count == 3);
    EXPECT(lk_set_cpu_devices(2) == LK_ESTATE);
    EXPECT_TOLD(LK_ESTATE, "lk_set_cpu_devices(2)", "3 already");
    EXPECT(!lk_mirrored_strategy(.devices = LK_DEVICES("nonsense")) && !lk_one_device_strategy("CPU:7"));
    lk_clear_error();
    EXPECT(lk_set_cpu_devices(4) == LK_OK); /* a strategy that was not made uses no device */
    EXPECT(lk_item(lk_add(lk_scalar(1), lk_read(lk_variable_of(lk_scalar(1))))) == 2 && lk_get_strategy());
    EXPECT(lk_set_cpu_devices(4) == LK_OK); /* nor does what runs without one */
    EXPECT(!lk_mirrored_strategy(.devices = LK_DEVICES("CPU:4")));
    lk_clear_error();
    EXPECT(lk_num_replicas_in_sync(lk_mirrored_strategy()) == 4);
    EXPECT(lk_set_cpu_devices(5) == LK_ESTATE);
    EXPECT_TOLD(LK_ESTATE, "lk_set_cpu_devices(5)", "in use", "before the first strategy");
}

static void one_device_uses_them(void)
{
    EXPECT(lk_one_device_strategy("CPU:0") != NULL);
    EXPECT(lk_set_cpu_devices(2) == LK_ESTATE);
    EXPECT_TOLD(LK_ESTATE, "in use");
}

static void named_ones_are_made(void)
{
    EXPECT(lk_list_devices().count == 1);
    EXPECT(!lk_mirrored_strategy(.devices = LK_DEVICES("CPU:0", "CPU:2"))); /* not with gaps */
    EXPECT_TOLD(LK_EINVAL, "no device", "CPU:2", "there are CPU:0", ".cpu_devices", "LOCKSTEP_CPU_DEVICES");
    EXPECT(lk_list_devices().count == 1);
    EXPECT(lk_num_replicas_in_sync(lk_mirrored_strategy(.devices = LK_DEVICES("CPU:0", "CPU:1", "CPU:2"))) == 3);
    EXPECT(lk_list_devices().count == 3);
}

static const struct child {
    const char *name, *setting;
    void (*run)(void);
    const char *says;
} CHILDREN[] = {
    {"tutorial", NULL, tutorial, NON_GPU USING "('" FULL(0) "',)\n"},
    {"two", NULL, two_strategies, NON_GPU USING "('" FULL(0) "', '" FULL(1) "')\n" USING "('" FULL(1) "',)\n"},
    {"cluster", "TF_CONFIG={}", tutorial,
     NON_GPU USING
     "('" FULL(0) "',)\nINFO:lockstep: MirroredStrategy ignores TF_CONFIG; the multi-worker strategy is the one that reads it\n"},
    {"four", "LOCKSTEP_CPU_DEVICES=4", four, NON_GPU USING "('" FULL(0) "', '" FULL(1) "', '" FULL(2) "', '" FULL(3) "')\n"},
    {"word", "LOCKSTEP_CPU_DEVICES=four", ignored_number,
     "WARNING:lockstep: LOCKSTEP_CPU_DEVICES=four is not a number from 1 to 1024 and is ignored\n"},
    {"zero", "LOCKSTEP_CPU_DEVICES=0", ignored_number,
     "WARNING:lockstep: LOCKSTEP_CPU_DEVICES=0 is not a number from 1 to 1024 and is ignored\n"},
    {"tail", "LOCKSTEP_CPU_DEVICES=2x", ignored_number,
     "WARNING:lockstep: LOCKSTEP_CPU_DEVICES=2x is not a number from 1 to 1024 and is ignored\n"},
    {"empty", "LOCKSTEP_CPU_DEVICES=", ignored_number, ""},
    {"set", NULL, set_first, NON_GPU USING "('" FULL(0) "', '" FULL(1) "', '" FULL(2) "', '" FULL(3) "')\n"},
    {"one", NULL, one_device_uses_them, ""},
    {"named", NULL, named_ones_are_made, NON_GPU USING "('" FULL(0) "', '" FULL(1) "', '" FULL(2) "')\n"},
};

/* What the child said on stderr, and how it ended. */
static int run_child(const struct child *c, char *text, size_t size)
{
    int                        end[2], status = -1;
    pid_t                      pid;
    posix_spawn_file_actions_t actions;
    char                      *argv[] = {"devices", (char *)c->name, NULL}, *settings[512];
    int                        count = 0;
    for (char **e = environ; *e && count < 500; e++)
        if (strncmp(*e, "LOCKSTEP_CPU_DEVICES=", 21) && strncmp(*e, "TF_CONFIG=", 10)) settings[count++] = *e;
    settings[count++] = (char *)c->setting;
    settings[count] = NULL;
    assert_int_equal(pipe(end), 0);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, end[1], 2);
    posix_spawn_file_actions_addclose(&actions, end[0]);
    assert_int_equal(posix_spawn(&pid, "/proc/self/exe", &actions, NULL, argv, settings), 0);
    posix_spawn_file_actions_destroy(&actions);
    close(end[1]);
    size_t used = 0;
    for (ssize_t got; (got = read(end[0], text + used, size - 1 - used)) > 0;)
        used += (size_t)got;
    text[used] = 0;
    close(end[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

TEST(settings_and_what_is_said)
{
    for (int i = 0; i < LKI_COUNT(CHILDREN); i++) {
        char text[8192];
        int  status = run_child(&CHILDREN[i], text, sizeof text);
        if (status || strcmp(text, CHILDREN[i].says))
            fail_msg("%s: status %d\n%s\nwanted\n%s", CHILDREN[i].name, status, text, CHILDREN[i].says);
    }
}

int main(int argc, char **argv)
{
    for (int i = 0; argc > 1 && i < LKI_COUNT(CHILDREN); i++)
        if (!strcmp(argv[1], CHILDREN[i].name)) {
            CHILDREN[i].run();
            return unexpected != 0;
        }
    lk_set_log(quiet, NULL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_form_of_a_name),
        cmocka_unit_test(names_that_name_nothing),
        cmocka_unit_test(devices_that_are_not_there),
        cmocka_unit_test(duplicates_mixes_and_workers),
        cmocka_unit_test(order_gives_the_replica_ids),
        cmocka_unit_test(without_devices_all_of_them),
        cmocka_unit_test(arguments),
        cmocka_unit_test(several_strategies_alternate),
        cmocka_unit_test(the_default_strategy),
        cmocka_unit_test(one_device),
        cmocka_unit_test(more_replicas_than_lanes),
        cmocka_unit_test(many_devices),
        cmocka_unit_test(settings_and_what_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
