/* Sections 13 and 14 of the specification: cross-device operations, packing, deadlines; and the extended interface. */
#include "dist/replicas.h"

/* One scalar per replica: 10^r, or what is given. */
static lk_tensor *powers(const lk_value_context *c, void *user)
{
    (void)user;
    return VECTOR(pow(10, c->replica_id_in_sync_group));
}

#define TO_0 LK_TO(.device = "CPU:0")

/* All kinds there are; each lives in the current pool. */
enum { KINDS = 8 };
static lk_cross_device_ops *kind(int i)
{
    switch (i) {
    case 0: return lk_reduction_to_one_device();
    case 1: return lk_reduction_to_one_device(.reduce_to_device = "CPU:0");
    case 2: return lk_hierarchical_copy_all_reduce();
    case 3: return lk_hierarchical_copy_all_reduce(.num_packs = LK_NUMBER(0));
    case 4: return lk_hierarchical_copy_all_reduce(.num_packs = LK_NUMBER(3));
    case 5: return lk_nccl_all_reduce();
    case 6: return lk_nccl_all_reduce(.num_packs = LK_NUMBER(2));
    default: return lk_collective_all_reduce((lk_communication_options){.bytes_per_pack = 8});
    }
}

/* ---- sums ---- */

TEST(every_kind_adds_all_devices)
{
    LK_POOL {
        for (int n = 1; n <= 8; n++)
            for (int k = 0; k < KINDS; k++) {
                lk_strategy *s = mirrored(n);
                lk_tensor   *x = lk_values_from_function(s, powers, NULL);
                double       sum = (pow(10, n) - 1) / 9; /* three devices: 111, odd or not */
                VALUES(lk_cross_reduce(s, kind(k), LK_SUM, x, TO_0), sum);
                VALUES(lk_cross_reduce(s, kind(k), LK_MEAN, x, TO_0), sum / n);
                SOUND();
            }
    }
}

REPLICA_FN(reduce_in_replica)
{
    lk_replica_context *c = lk_get_replica_context();
    lk_tensor          *x = VECTOR(pow(10, my_id()), my_id());
    lk_assign_add(user, mine(1));
    return LK_TUPLE(lk_all_reduce(c, LK_SUM, x), lk_all_reduce(c, LK_MEAN, lk_cast(x, LK_I32)));
}

/* As the operations of a strategy they serve all_reduce, reduce and assignments. */
TEST(every_kind_serves_a_strategy)
{
    LK_POOL {
        for (int n = 1; n <= 5; n++)
            for (int k = 0; k < KINDS; k++) {
                double       sum = (pow(10, n) - 1) / 9, ids = n * (n - 1) / 2.0;
                lk_strategy *s = lk_mirrored_strategy(.cpu_devices = n, .cross_device_ops = kind(k));
                lk_variable *v = MADE(s, lk_scalar(0), .aggregation = SUM);
                lk_tuple     out = lk_run(s, reduce_in_replica, .user = v);
                for (int r = 0; r < n; r++) {
                    VALUES(lk_local_results(s, out.item[0]).item[r], sum, ids);
                    VALUES(lk_local_results(s, out.item[1]).item[r], sum / n, ids / n);
                }
                VALUES(lk_reduce(s, LK_SUM, lk_values_from_function(s, powers, NULL)), sum);
                VALUES(lk_read(v), ids + n);
                SOUND();
            }
    }
}

static lk_tensor *rough(const lk_value_context *c, void *user)
{
    (void)user;
    lk_tensor *t = lk_zeros(LK_SHAPE(1000), LK_F32);
    for (int i = 0; i < 1000; i++)
        ((float *)lk_data(t))[i] = sinf((float)(i * 31 + c->replica_id_in_sync_group * 7919)) * powf(10, (float)(i % 7));
    return t;
}

/* Packing changes who adds what first, never what is added; the same packing gives the same bits every time. */
TEST(sums_repeat_to_the_bit)
{
    LK_POOL {
        lk_strategy *s = mirrored(5);
        lk_tensor   *x = lk_values_from_function(s, rough, NULL), *first[KINDS];
        for (int k = 0; k < KINDS; k++) {
            first[k] = lk_cross_reduce(s, kind(k), LK_SUM, x, TO_0);
            for (int i = 0; i < 3; i++)
                assert_memory_equal(lk_data(lk_cross_reduce(s, kind(k), LK_SUM, x, TO_0)), lk_data(first[k]), 4000);
        }
        for (int i = 0; i < 1000; i++) { /* to one device: replica 0, 1, 2, ... */
            float sum = 0;
            for (int r = 0; r < 5; r++)
                sum += ((const float *)lk_data(lk_local_results(s, x).item[r]))[i];
            assert_true(((const float *)lk_data(first[0]))[i] == sum);
            for (int k = 0; k < KINDS; k++)
                assert_true(fabsf(((const float *)lk_data(first[k]))[i] - sum) <= 1e-6f * powf(10, (float)(i % 7)) * 5);
        }
        SOUND();
    }
}

/* ---- batches and packs ---- */

static lk_tuple batch_of(lk_strategy *s, lk_cross_device_ops *o, lk_reduce_op op, lk_tuple values)
{
    lk_destination to[16];
    for (int i = 0; i < 16; i++)
        to[i] = TO_0;
    return lk_cross_batch_reduce(s, o, op, values, to);
}

static lk_tensor *all_of(lk_strategy *s, lk_tensor *t)
{
    lk_tensor *item[8] = {t, t, t, t, t, t, t, t};
    return lk_values_from_function(s, pick, &(lk_tuple){lk_num_replicas_in_sync(s), item});
}

static void packs_are(int line, int count, const double *one_based)
{
    lk_pack_info p = lk_last_packs();
    if (p.packs != count) GIVE_UP("line %d: %d packs, not %d", line, p.packs, count);
    for (int i = 0; i < count; i++)
        if (p.bytes[i] != (int64_t)one_based[1 + i]) GIVE_UP("line %d: pack %d has %lld bytes", line, i, (long long)p.bytes[i]);
}
#define PACKS(...) packs_are(__LINE__, LKI_LIST(double, __VA_ARGS__))

TEST(packs_of_equal_length)
{
    LK_POOL {
        lk_strategy *s = mirrored(2);
        lk_tuple values = LK_TUPLE(all_of(s, VECTOR(1, 2, 3)), all_of(s, lk_ones(LK_SHAPE(2, 2), LK_F32)), all_of(s, lk_scalar(5)),
                                   all_of(s, VECTOR(7, 8)));
        for (int packs = 0; packs <= 12; packs++) {
            lk_tuple out = batch_of(s, lk_hierarchical_copy_all_reduce(.num_packs = LK_NUMBER(packs)), LK_SUM, values);
            VALUES(out.item[0], 2, 4, 6);
            VALUES(out.item[1], 2, 2, 2, 2);
            assert_int_equal(lk_rank(out.item[1]), 2);
            VALUES(out.item[2], 10);
            assert_int_equal(lk_rank(out.item[2]), 0);
            VALUES(out.item[3], 14, 16);
            if (packs == 0) PACKS();
            if (packs == 1) PACKS(40);
            if (packs == 2) PACKS(20, 20);
            if (packs == 3) PACKS(12, 12, 16); /* the last takes the rest */
            if (packs == 4) PACKS(8, 8, 8, 16);
            if (packs >= 10) assert_int_equal(lk_last_packs().packs, 10); /* no emptier than one element */
            VALUES(batch_of(s, lk_hierarchical_copy_all_reduce(.num_packs = LK_NUMBER(packs)), LK_MEAN, values).item[3], 7, 8);
            SOUND();
        }
    }
}

TEST(packs_by_type)
{
    LK_POOL {
        lk_strategy *s = mirrored(3);
        lk_tensor   *empty = all_of(s, lk_zeros(LK_SHAPE(0, 2), LK_F32));
        lk_tuple     values = LK_TUPLE(all_of(s, VECTOR(1, 2)), all_of(s, VECTOR_OF(LK_F64, 3)), all_of(s, VECTOR_OF(LK_I64, 4, 5)),
                                       all_of(s, VECTOR_OF(LK_I32, 6)), all_of(s, VECTOR(7)), empty);
        for (int k = 0; k < KINDS; k++) {
            lk_tuple out = batch_of(s, kind(k), LK_SUM, values);
            VALUES(out.item[0], 3, 6);
            VALUES(out.item[1], 9);
            VALUES(out.item[2], 12, 15);
            VALUES(out.item[3], 18);
            VALUES(out.item[4], 21);
            assert_int_equal(lk_size(out.item[5]), 0);
            assert_int_equal(lk_tensor_dtype(out.item[2]), LK_I64);
            SOUND();
        }
        batch_of(s, lk_hierarchical_copy_all_reduce(), LK_SUM, values);
        assert_int_equal(lk_last_packs().packs, 4); /* f32 with both, f64, i32, i64 */
        lk_tuple nothing = LK_TUPLE(all_of(s, lk_zeros(LK_SHAPE(0), LK_F32)));
        for (int k = 0; k < KINDS; k++)
            assert_int_equal(lk_size(batch_of(s, kind(k), LK_MEAN, nothing).item[0]), 0);
        SOUND();
    }
}

/* The default collective: last value first, a pack is closed when it exceeds the limit. */
TEST(packs_by_bytes)
{
    LK_POOL {
        lk_strategy *s = mirrored(2);
        lk_tuple     values = LK_TUPLE(all_of(s, lk_ones(LK_SHAPE(1), LK_F32)), all_of(s, lk_ones(LK_SHAPE(2), LK_F32)),
                                       all_of(s, lk_ones(LK_SHAPE(3), LK_F32)), all_of(s, lk_ones(LK_SHAPE(4), LK_F32)));
        batch_of(s, lk_collective_all_reduce((lk_communication_options){0}), LK_SUM, values);
        PACKS(40);
        batch_of(s, lk_collective_all_reduce((lk_communication_options){.bytes_per_pack = 1}), LK_SUM, values);
        PACKS(16, 12, 8, 4);
        batch_of(s, lk_collective_all_reduce((lk_communication_options){.bytes_per_pack = 15}), LK_SUM, values);
        PACKS(16, 20, 4);
        batch_of(s, lk_collective_all_reduce((lk_communication_options){.bytes_per_pack = 16}), LK_SUM, values);
        PACKS(28, 12); /* 16 does not exceed 16 */
        batch_of(s, lk_collective_all_reduce((lk_communication_options){.bytes_per_pack = 100}), LK_SUM, values);
        PACKS(40);
        lk_strategy *small = lk_mirrored_strategy(.cpu_devices = 2, .communication.bytes_per_pack = 15);
        batch_of(small, NULL, LK_SUM, values);
        PACKS(16, 20, 4);
        batch_of(small, lk_collective_all_reduce((lk_communication_options){.bytes_per_pack = 1}), LK_SUM, values);
        PACKS(16, 12, 8, 4);
        SOUND();
    }
}

REPLICA_FN(reduce_in_packs)
{
    lk_communication_options *o = user;
    lk_tuple values = LK_TUPLE(lk_ones(LK_SHAPE(1), LK_F32), lk_ones(LK_SHAPE(2), LK_F32), lk_ones(LK_SHAPE(3), LK_F32),
                               lk_ones(LK_SHAPE(4), LK_F32));
    return lk_all_reduce_all(lk_get_replica_context(), LK_SUM, values, *o);
}

TEST(options_of_a_call)
{
    LK_POOL {
        lk_strategy *s = lk_mirrored_strategy(.cpu_devices = 2, .communication.bytes_per_pack = 15);
        lk_run(s, reduce_in_packs, .user = &(lk_communication_options){0});
        PACKS(16, 20, 4); /* the strategy's */
        lk_tuple out = lk_run(s, reduce_in_packs,
                              .user = &(lk_communication_options){.bytes_per_pack = 1, .implementation = LK_COMMUNICATION_RING});
        PACKS(16, 12, 8, 4); /* the call's */
        VALUES(lk_local_results(s, out.item[1]).item[1], 2, 2);
        SOUND();
        lk_communication_options bad[] = {
            {.bytes_per_pack = -1}, {.timeout_seconds = -1}, {.timeout_seconds = NAN}, {.implementation = (lk_communication)3}};
        const char *words[] = {"bytes_per_pack is -1", "timeout_seconds is -1", "timeout_seconds", "implementation 3"};
        for (int i = 0; i < 4; i++) {
            REFUSED(LK_EINVAL, lk_collective_all_reduce(bad[i]), "lk_collective_all_reduce", words[i]);
            REFUSED(LK_EINVAL, lk_run(s, reduce_in_packs, .user = &bad[i]), "lk_all_reduce", words[i]);
            REFUSED(LK_EINVAL, lk_mirrored_strategy(.communication = bad[i]), "lk_mirrored_strategy", words[i]);
        }
    }
}

/* ---- gradients made of rows ---- */

REPLICA_FN(gradient_of_table)
{
    lk_tape   *tape = lk_tape_begin();
    lk_tensor *ids = my_id() ? VECTOR_OF(LK_I64, 1, 1) : VECTOR_OF(LK_I64, 3, 1, 0);
    lk_tensor *loss = lk_reduce_sum(lk_mul(lk_nn_embedding(ids, lk_read(user)), mine(1)));
    lk_tensor *g = lk_grads_item(lk_tape_gradient(tape, loss, LK_VARIABLES(user)), 0);
    lk_tuple   both = lk_all_reduce_all(lk_get_replica_context(), LK_SUM, LK_TUPLE(g, VECTOR(1)), (lk_communication_options){0});
    return LK_TUPLE(both.item[0], both.item[1], lk_all_reduce(lk_get_replica_context(), LK_MEAN, g));
}

/* Rows of a table and dense values in one batch. */
TEST(sparse_and_dense)
{
    LK_POOL {
        for (int k = 0; k < KINDS; k++) {
            lk_strategy *s = lk_mirrored_strategy(.cpu_devices = 2, .cross_device_ops = kind(k));
            lk_tuple     out = lk_run(s, gradient_of_table, .user = MADE(s, lk_ones(LK_SHAPE(4, 1), LK_F32)));
            for (int r = 0; r < 2; r++) {
                VALUES(lk_local_results(s, out.item[0]).item[r], 1, 5, 0, 1);
                VALUES(lk_local_results(s, out.item[1]).item[r], 2);
                VALUES(lk_local_results(s, out.item[2]).item[r], 0.5, 2.5, 0, 0.5);
            }
            SOUND();
        }
    }
}

/* ---- destinations ---- */

TEST(destinations)
{
    LK_POOL {
        lk_strategy *s = mirrored(2), *other = mirrored(2);
        lk_tensor   *x = SPREAD(s, lk_scalar(1), lk_scalar(2)), *plain = lk_scalar(4);
        lk_variable *v = MADE(s, lk_scalar(9), "v"), *foreign = MADE(other, lk_scalar(9), "foreign"),
                    *outside = lk_variable_of(lk_scalar(9));
        for (int k = -1; k < KINDS; k++) {
            lk_cross_device_ops *o = k < 0 ? NULL : kind(k);
            PRINTS(lk_print(lk_cross_reduce(s, o, LK_SUM, x, TO_0)), "3\n");
            PRINTS(lk_print(lk_cross_reduce(s, o, LK_SUM, x, LK_TO(.device = "/job:localhost/replica:0/task:0/device:CPU:1"))),
                   "3\n");
            PRINTS(lk_print(lk_cross_reduce(s, o, LK_SUM, x, LK_TO(.value = x))), "Mirrored:{\n  0: 3\n  1: 3\n}\n");
            PRINTS(lk_print(lk_cross_reduce(s, o, LK_MEAN, x, LK_TO(.variable = v))), "Mirrored:{\n  0: 1.5\n  1: 1.5\n}\n");
            PRINTS(lk_print(lk_cross_reduce(s, o, LK_SUM, x, LK_TO(.variable = outside))), "3\n");
            PRINTS(lk_print(lk_cross_reduce(s, o, LK_SUM, x, LK_TO(.value = plain))), "3\n");
            VALUES(lk_cross_reduce(s, o, LK_SUM, plain, TO_0), 4); /* one value on one device */
            PRINTS(lk_print(lk_cross_broadcast(s, o, plain, LK_TO(.variable = v))), "Mirrored:{\n  0: 4\n  1: 4\n}\n");
            PRINTS(lk_print(lk_cross_broadcast(s, o, plain, LK_TO(.value = x))), "Mirrored:{\n  0: 4\n  1: 4\n}\n");
            PRINTS(lk_print(lk_cross_broadcast(s, o, plain, TO_0)), "4\n");
            lk_tensor *rows = SPREAD(s, VECTOR(1, 2), VECTOR(3));
            VALUES(lk_cross_gather(s, o, rows, TO_0, 0), 1, 2, 3);
            PRINTS(lk_print(lk_cross_gather(s, o, rows, LK_TO(.value = x), -1)), "Mirrored:{\n  0: [1, 2, 3]\n  1: [1, 2, 3]\n}\n");
        }
        VALUES(lk_read(v), 9); /* reducing "to a variable" does not assign */
        lk_tuple plains = batch_of(s, NULL, LK_SUM, LK_TUPLE(lk_scalar(4), lk_scalar(5), lk_scalar(6)));
        VALUES(plains.item[0], 4);
        VALUES(plains.item[1], 5);
        VALUES(plains.item[2], 6);
        SOUND();
        REFUSED(LK_EINVAL, lk_cross_reduce(s, NULL, LK_SUM, x, LK_TO()), "lk_cross_reduce", "destination is empty", ".device");
        REFUSED(LK_EINVAL, lk_cross_reduce(s, NULL, LK_SUM, x, LK_TO(.device = "CPU:0", .value = x)), "lk_cross_reduce",
                "2 things");
        REFUSED(LK_EINVAL, lk_cross_reduce(s, NULL, LK_SUM, x, LK_TO(.device = "nowhere")), "lk_cross_reduce", "\"nowhere\"",
                "not a device");
        REFUSED(LK_EINVAL, lk_cross_reduce(s, NULL, LK_SUM, x, LK_TO(.device = "GPU:0")), "lk_cross_reduce", "no device", "GPU:0");
        REFUSED(LK_EINVAL, lk_cross_broadcast(s, NULL, plain, LK_TO(.device = "CPU:700")), "lk_cross_broadcast", "no device",
                "CPU:700");
        REFUSED(LK_EINVAL, lk_cross_gather(s, NULL, x, LK_TO(), 0), "lk_cross_gather", "empty");
        REFUSED(LK_EINVAL, lk_cross_reduce(s, NULL, LK_SUM, x, LK_TO(.variable = foreign)), "lk_cross_reduce", "\"foreign\"",
                "another strategy");
        REFUSED(LK_EINVAL, lk_cross_broadcast(s, NULL, x, TO_0), "lk_cross_broadcast", "per-replica value");
        REFUSED(LK_EINVAL, lk_cross_gather(s, NULL, x, TO_0, 0), "lk_cross_gather", "scalar");
        REFUSED(LK_EINVAL, batch_of(s, NULL, LK_SUM, LK_TUPLE(x, plain)), "lk_cross_batch_reduce", "1 of 2 values",
                "host and on the devices", "mixed");
        REFUSED(LK_EINVAL, lk_cross_batch_reduce(s, NULL, LK_SUM, LK_TUPLE(x), NULL), "lk_cross_batch_reduce", "destinations");
        REFUSED(LK_EINVAL, lk_cross_reduce(s, NULL, (lk_reduce_op)7, x, TO_0), "lk_cross_reduce", "no reduction 7");
        REFUSED(LK_EINVAL, lk_cross_reduce(s, (lk_cross_device_ops *)plain, LK_SUM, x, TO_0), "lk_cross_reduce",
                "not cross-device operations");
        REFUSED(LK_EINVAL, lk_cross_reduce(s, NULL, LK_SUM, NULL, TO_0), "lk_cross_reduce", "NULL");
        REFUSED(LK_EINVAL, lk_cross_reduce(mirrored(3), NULL, LK_SUM, x, TO_0), "lk_cross_reduce", "2 replicas", "has 3");
        REFUSED(LK_ESHAPE, lk_cross_reduce(s, NULL, LK_SUM, SPREAD(s, VECTOR(1), VECTOR(1, 2)), TO_0), "lk_cross_reduce", "[1]",
                "[2]", "replica 1");
        assert_int_equal(batch_of(s, NULL, LK_SUM, LK_TUPLE()).count, 0);
        SOUND();
    }
}

TEST(made_wrongly)
{
    LK_POOL {
        REFUSED(LK_EINVAL, lk_hierarchical_copy_all_reduce(.num_packs = LK_NUMBER(-1)), "lk_hierarchical_copy_all_reduce",
                "num_packs", "-1");
        REFUSED(LK_EINVAL, lk_nccl_all_reduce(.num_packs = LK_NUMBER(-3)), "lk_nccl_all_reduce", "num_packs", "-3");
        REFUSED(LK_EINVAL, lk_nccl_all_reduce(.num_packs = LK_NUMBER(NAN)), "num_packs");
        REFUSED(LK_EINVAL, lk_nccl_all_reduce(.num_packs = LK_NUMBER(1.5)), "num_packs", "1.5");
        REFUSED(LK_EINVAL, lk_reduction_to_one_device(.reduce_to_device = "there"), "lk_reduction_to_one_device", "\"there\"");
        REFUSED(LK_EINVAL, lk_reduction_to_one_device(.reduce_to_device = "GPU:0"), "lk_reduction_to_one_device", "no device",
                "GPU:0");
    }
}

/* ---- deadlines ---- */

typedef struct lateness {
    int                      late; /* replica */
    double                   seconds;
    lk_communication_options options;
    double                   waited; /* by the others */
    int                      what;
} lateness;

MERGE_FN(pass) { return in; }

REPLICA_FN(one_is_late)
{
    lateness           *l = user;
    lk_replica_context *c = lk_get_replica_context();
    if (my_id() == l->late) sleep_for(l->seconds);
    double     begin = seconds();
    lk_tensor *x = VECTOR(1, 2);
    switch (l->what) {
    case 0: x = lk_all_reduce_all(c, LK_SUM, LK_TUPLE(x), l->options).item[0]; break;
    case 1: x = lk_all_gather(c, x, 0); break;
    case 2: x = lk_merge_call(c, pass, LK_TUPLE(x), NULL).item[0]; break;
    default: break;
    }
    if (my_id() != l->late && my_id() == 1 - l->late) l->waited = seconds() - begin;
    return LK_TUPLE(x);
}

MERGE_FN(slow)
{
    sleep_for(0.7);
    return in;
}

REPLICA_FN(merge_slowly)
{
    lk_tensor *x = mine(1); /* made here, used while the meeting is held */
    return lk_merge_call(lk_get_replica_context(), slow, LK_TUPLE(x), NULL);
}

/* A deadline is for coming together; what takes long then may take long. */
TEST(deadlines_end_when_all_are_there)
{
    LK_POOL {
        lk_strategy *s = lk_mirrored_strategy(.cpu_devices = 3, .communication.timeout_seconds = 0.5);
        PER_REPLICA(s, lk_run(s, merge_slowly).item[0], 1, 2, 3);
        SOUND();
    }
}

TEST(deadlines)
{
    static const char *const calls[] = {"lk_all_reduce", "lk_all_gather", "lk_merge_call"};
    LK_POOL {
        lk_communication_options soon = {.timeout_seconds = 0.02}, later = {.timeout_seconds = 20};
        lk_strategy             *none = mirrored(2), *has = lk_mirrored_strategy(.cpu_devices = 2, .communication = soon),
                    *cross = lk_mirrored_strategy(.cpu_devices = 2, .cross_device_ops = lk_collective_all_reduce(soon));
        for (int late = 0; late < 2; late++)
            for (int what = 0; what < 3; what++) {
                lateness l = {.late = late, .seconds = 0.12, .what = what};
                char     who[32];
                snprintf(who, sizeof who, "missing: replica %d", late);
                REFUSED(LK_EDEADLINE, lk_run(has, one_is_late, .user = &l), calls[what], "deadline of 0.02 seconds", who);
                assert_true(l.waited >= 0.015 && l.waited < 0.12); /* the others do not wait for the late one */
            }
        lateness l = {.late = 1, .seconds = 0.12, .options = soon};
        REFUSED(LK_EDEADLINE, lk_run(none, one_is_late, .user = &l), "lk_all_reduce", "deadline of 0.02 seconds"); /* of the call */
        l.options = (lk_communication_options){0};
        REFUSED(LK_EDEADLINE, lk_run(cross, one_is_late, .user = &l), "lk_all_reduce", "deadline"); /* of the operations */
        l.options = later;
        lk_run(has, one_is_late, .user = &l); /* the call's own goes before */
        SOUND();
        l = (lateness){.late = 1, .seconds = 0.01};
        lk_run(none, one_is_late, .user = &l);
        lk_run(mirrored(2), one_is_late, .user = &(lateness){.late = -9});
        lk_run(has, one_is_late, .user = &(lateness){.late = -9}); /* usable afterwards */
        SOUND();
    }
}

/* ---- extended ---- */

typedef struct updating {
    int          calls;
    lk_variable *v;
} updating;

static lk_tensor *add_to(lk_variable *component, lk_tuple in, void *user)
{
    updating *u = user;
    __atomic_fetch_add(&u->calls, 1, __ATOMIC_RELAXED);
    lk_assign_add(component, in.item[0]);
    return lk_read(component);
}

static lk_tensor *no_result(lk_variable *component, lk_tuple in, void *user)
{
    (void)component, (void)in, (void)user;
    return NULL;
}

static lk_tensor *failing(lk_variable *component, lk_tuple in, void *user)
{
    (void)in, (void)user;
    return lk_add(lk_read(component), VECTOR(1, 2, 3));
}

REPLICA_FN(update_in_replica)
{
    updating *u = user;
    return lk_extended_update(lk_get_strategy(), u->v, add_to, LK_TUPLE(mine(1)), u, LK_ON);
}

TEST(update)
{
    LK_POOL {
        lk_strategy *s = mirrored(3);
        lk_variable *v = MADE(s, lk_scalar(10), "v"), *r = ON_READ(s, SUM, lk_scalar(0), "r");
        lk_tensor   *same = lk_cross_broadcast(s, NULL, lk_scalar(2), LK_TO(.variable = v));
        updating     u = {0};
        lk_tuple     out = lk_extended_update(s, v, add_to, LK_TUPLE(same), &u, LK_ON);
        assert_int_equal(out.count, 1);
        PRINTS(lk_print(out.item[0]), "Mirrored:{\n  0: 12\n  1: 12\n  2: 12\n}\n");
        COMPONENTS(s, v, 12, 12, 12); /* once, however many components */
        out = lk_extended_update(s, v, add_to, LK_TUPLE(lk_scalar(1)), &u, LK_OFF);
        assert_int_equal(out.count, 3);
        VALUES(out.item[2], 13);
        out = lk_extended_update(s, r, add_to, LK_TUPLE(SPREAD(s, lk_scalar(1), lk_scalar(2), lk_scalar(3))), &u, LK_OFF);
        COMPONENTS(s, r, 1, 2, 3);
        VALUES(out.item[1], 2);
        LK_SCOPE(s) {
            lk_extended_update(s, v, add_to, LK_TUPLE(lk_scalar(1)), &u, LK_ON);
        }
        COMPONENTS(s, v, 14, 14, 14);
        assert_null(lk_extended_update(s, v, no_result, LK_TUPLE(), NULL, LK_ON).item[0]);
        SOUND();
        u = (updating){0, r};
        PER_REPLICA(s, lk_run(s, update_in_replica, .user = &u).item[0], 2, 4, 6); /* each component gets its replica's arguments */
        COMPONENTS(s, r, 2, 4, 6);
        assert_int_equal(u.calls, 3);
        for (int i = 0; i < 100; i++) /* what replica 0 made is still there when the others look at it */
            LK_STEP {
                lk_run(s, update_in_replica, .user = &u);
            }
        COMPONENTS(s, r, 102, 204, 306);
        lk_variable *outside = lk_variable_of(lk_scalar(1), .name = "outside");
        VALUES(lk_extended_update(s, outside, add_to, LK_TUPLE(lk_scalar(1)), &u, LK_ON).item[0], 2);
        SOUND();
        REFUSED(LK_ESHAPE, lk_extended_update(s, MADE(s, VECTOR(1, 2)), failing, LK_TUPLE(), NULL, LK_ON), "add");
        REFUSED(LK_EINVAL, lk_extended_update(s, NULL, add_to, LK_TUPLE(), NULL, LK_ON), "lk_extended_update", "variable");
        REFUSED(LK_EINVAL, lk_extended_update(s, v, NULL, LK_TUPLE(), NULL, LK_ON), "lk_extended_update", "function");
        REFUSED(LK_EINVAL, lk_extended_update(NULL, v, add_to, LK_TUPLE(), NULL, LK_ON), "lk_extended_update", "strategy");
        REFUSED(LK_ESTATE, lk_extended_update(mirrored(2), v, add_to, LK_TUPLE(), NULL, LK_ON), "lk_extended_update", "\"v\"",
                "another strategy");
        REFUSED(LK_EINVAL, lk_extended_update(s, v, add_to, LK_TUPLE(SPREAD(mirrored(2), lk_scalar(1), lk_scalar(2))), NULL, LK_ON),
                "2 replicas", "has 3");
    }
}

static lk_variable *seen_component;

static lk_tensor *see(lk_variable *component, lk_tuple in, void *user)
{
    (void)in, (void)user;
    seen_component = component;
    return NULL;
}

TEST(containers_and_places)
{
    LK_POOL {
        lk_strategy *s = mirrored(2), *other = mirrored(2);
        lk_variable *v = MADE(s, lk_scalar(1), "v"), *r = ON_READ(s, SUM, lk_scalar(1), "r"),
                    *foreign = MADE(other, lk_scalar(1), "foreign"), *outside = lk_variable_of(lk_scalar(1), .name = "outside");
        lk_extended_update(s, r, see, LK_TUPLE(), NULL, LK_OFF);
        assert_ptr_not_equal(seen_component, r);
        assert_string_equal(lk_variable_name(seen_component), "r/replica_1");
        assert_ptr_equal(lk_extended_value_container(s, seen_component), r);
        assert_ptr_equal(lk_extended_value_container(s, v), v);
        assert_true(lk_extended_variable_created_in_scope(s, seen_component));
        assert_true(lk_extended_should_checkpoint(s) && lk_extended_should_save_summary(s));
        int inside = 0;
        LK_COLOCATE(s, v) {
            inside++;
        }
        assert_true(told(LK_ESTATE, "LK_COLOCATE", "needs the scope", "LK_SCOPE"));
        LK_SCOPE(s) {
            LK_COLOCATE(s, v) {
                inside += 10;
                lk_variable *slot = lk_variable_of(lk_scalar(0), .name = "slot");
                assert_true(lk_extended_variable_created_in_scope(s, slot));
            }
            LK_COLOCATE(s, foreign) {
                inside++;
            }
            assert_true(told(LK_EINVAL, "LK_COLOCATE", "\"foreign\"", "not made in the scope"));
            LK_COLOCATE(s, outside) {
                inside++;
            }
            assert_true(told(LK_EINVAL, "LK_COLOCATE", "\"outside\""));
            LK_COLOCATE(s, NULL) {
                inside++;
            }
            assert_true(told(LK_EINVAL, "LK_COLOCATE"));
        }
        assert_int_equal(inside, 10);
        SOUND();
        REFUSED(LK_EINVAL, lk_extended_value_container(s, NULL), "lk_extended_value_container", "NULL");
        lk_tensor     *x = SPREAD(s, lk_scalar(1), lk_scalar(2));
        lk_destination to[] = {LK_TO(.variable = v), TO_0};
        PRINTS(lk_print(lk_extended_reduce_to(s, LK_SUM, x, to[0])), "Mirrored:{\n  0: 3\n  1: 3\n}\n");
        lk_tuple out = lk_extended_batch_reduce_to(s, LK_MEAN, LK_TUPLE(x, x), to);
        VALUES(out.item[0], 1.5);
        VALUES(out.item[1], 1.5);
        PRINTS(lk_print(lk_extended_broadcast_to(s, lk_scalar(4), to[0])), "Mirrored:{\n  0: 4\n  1: 4\n}\n");
        REFUSED(LK_EINVAL, lk_extended_batch_reduce_to(s, LK_SUM, LK_TUPLE(x, lk_scalar(1)), to), "lk_extended_batch_reduce_to",
                "mixed");
        REFUSED(LK_EINVAL, lk_extended_reduce_to(s, LK_SUM, x, LK_TO()), "lk_extended_reduce_to", "empty");
        SOUND();
    }
}

/* What a merge function does with gradients: reduce them to their variables, then apply what is combined. */
MERGE_FN(apply_merged)
{
    lk_variable *w = user;
    lk_tensor   *g = lk_extended_reduce_to(s, LK_SUM, in.item[0], LK_TO(.variable = w));
    EXPECT(lk_optimizer_apply_gradients(lk_sgd(.learning_rate = 1), LK_TUPLE(g), LK_VARIABLES(w)) == LK_OK);
    return LK_TUPLE();
}

REPLICA_FN(merge_gradients) { return lk_merge_call(lk_get_replica_context(), apply_merged, LK_TUPLE(mine(1)), user); }

TEST(gradients_reduced_to_their_variables)
{
    LK_POOL {
        lk_strategy *s = mirrored(2);
        lk_variable *w = MADE(s, lk_scalar(10), "w");
        lk_run(s, merge_gradients, .user = w);
        COMPONENTS(s, w, 7, 7);
        SOUND();
    }
}

TESTS(cmocka_unit_test(every_kind_adds_all_devices), cmocka_unit_test(every_kind_serves_a_strategy),
      cmocka_unit_test(sums_repeat_to_the_bit), cmocka_unit_test(packs_of_equal_length), cmocka_unit_test(packs_by_type),
      cmocka_unit_test(packs_by_bytes), cmocka_unit_test(options_of_a_call), cmocka_unit_test(sparse_and_dense),
      cmocka_unit_test(destinations), cmocka_unit_test(made_wrongly), cmocka_unit_test(deadlines),
      cmocka_unit_test(deadlines_end_when_all_are_there), cmocka_unit_test(update), cmocka_unit_test(containers_and_places),
      cmocka_unit_test(gradients_reduced_to_their_variables))
