/* Section 3 of the specification: scopes, what the current context is, and what belongs to which strategy. */
#include "dist/replicas.h"
#include <pthread.h>

/* Exactly one of the two is true at any moment; `cross` says which. */
static bool context_is(lk_strategy *s, bool cross)
{
    bool has = lk_get_replica_context() != NULL, is_cross = lk_in_cross_replica_context();
    return has != is_cross && is_cross == cross && lk_get_strategy() == s && lk_has_strategy() == (s != lk_default_strategy());
}
#define IS_DEFAULT() assert_true(context_is(lk_default_strategy(), false))
#define IS_CROSS(s) assert_true(context_is(s, true))

/* ---- queries in every context ---- */

MERGE_FN(in_merge)
{
    EXPECT(context_is(s, true));
    return LK_TUPLE();
}

static lk_tensor *in_update(lk_variable *v, lk_tuple in, void *user)
{
    (void)in;
    EXPECT(context_is(user, true));
    return lk_read(v);
}

REPLICA_FN(in_replica)
{
    lk_replica_context *c = lk_get_replica_context();
    EXPECT(context_is(user, false));
    EXPECT(lk_context_strategy(c) == user && lk_context_num_replicas(c) == lk_num_replicas_in_sync(user));
    EXPECT(strstr(lk_context_device(c), "/device:CPU:") != NULL);
    lk_merge_call(c, in_merge, LK_TUPLE(), NULL);
    EXPECT(context_is(user, false) && lk_get_replica_context() == c);
    lk_all_reduce(c, LK_SUM, mine(1));
    EXPECT(context_is(user, false) && lk_get_replica_context() == c);
    return LK_TUPLE();
}

TEST(exactly_one_of_two)
{
    IS_DEFAULT();
    LK_POOL {
        EACH_COUNT(n)
        {
            lk_strategy *s = mirrored(n);
            lk_variable *v = NULL;
            IS_DEFAULT();
            lk_run(s, in_replica, LK_TUPLE(), s);
            IS_DEFAULT();
            LK_SCOPE(s) {
                IS_CROSS(s);
                v = lk_variable_of(lk_scalar(1));
                lk_run(s, in_replica, LK_TUPLE(), s);
                IS_CROSS(s);
                lk_extended_update(s, v, in_update, LK_TUPLE(), s, LK_ON);
                IS_CROSS(s);
            }
            IS_DEFAULT();
            lk_extended_update(s, v, in_update, LK_TUPLE(), s, LK_ON);
            IS_DEFAULT();
            SOUND();
        }
        lk_strategy *one = lk_one_device_strategy("CPU:0");
        lk_run(one, in_replica, LK_TUPLE(), one);
        LK_SCOPE(one) {
            IS_CROSS(one);
        }
        IS_DEFAULT();
        LK_SCOPE(lk_default_strategy()) {
            IS_DEFAULT();
        }
        IS_DEFAULT();
        SOUND();
    }
}

/* ---- the table of scopes ---- */

TEST(the_same_scope_again)
{
    LK_POOL {
        lk_strategy *s = mirrored(2);
        LK_SCOPE(s) {
            LK_SCOPE(s) {
                LK_SCOPE(s) {
                    IS_CROSS(s);
                }
                IS_CROSS(s);
            }
            IS_CROSS(s); /* leaving an inner one changes nothing */
            assert_int_equal(lk_scope_begin(s), LK_OK);
            assert_int_equal(lk_scope_end(s), LK_OK);
            IS_CROSS(s);
        }
        IS_DEFAULT();
        LK_SCOPE(s) { /* can be entered again */
            IS_CROSS(s);
        }
        SOUND();
    }
}

TEST(another_scope_inside)
{
    LK_POOL {
        lk_strategy *a = mirrored(2), *b = mirrored(3);
        int          inside = 0;
        LK_SCOPE(a) {
            LK_SCOPE(b) {
                inside++;
            }
            assert_int_equal(inside, 0); /* the block is not run */
            assert_true(told(LK_ESTATE, "MirroredStrategy", "inside the scope of MirroredStrategy",
                             "different strategies are being mixed"));
            IS_CROSS(a);
            REFUSED(LK_ESTATE, lk_scope_begin(b), "different strategies are being mixed");
            REFUSED(LK_ESTATE, lk_scope_begin(lk_one_device_strategy("CPU:0")), "OneDeviceStrategy",
                    "inside the scope of MirroredStrategy");
            IS_CROSS(a);
        }
        IS_DEFAULT();
    }
}

/* The two names in the message tell the two apart. */
TEST(mixed_strategies_are_both_named)
{
    LK_POOL {
        lk_strategy *a = mirrored(2), *b = mirrored(2);
        char         first[512], second[512];
        LK_SCOPE(a) {
            lk_scope_begin(b);
        }
        snprintf(first, sizeof first, "%s", lk_error());
        lk_clear_error();
        LK_SCOPE(b) {
            lk_scope_begin(a);
        }
        snprintf(second, sizeof second, "%s", lk_error());
        lk_clear_error();
        assert_string_not_equal(first, second);
    }
}

TEST(the_default_scope_does_not_nest)
{
    LK_POOL {
        lk_strategy *s = mirrored(2);
        LK_SCOPE(s) {
            REFUSED(LK_ESTATE, lk_scope_begin(lk_default_strategy()), "default strategy", "must not be nested", "MirroredStrategy");
            IS_CROSS(s);
        }
        LK_SCOPE(lk_one_device_strategy("CPU:0")) {
            REFUSED(LK_ESTATE, lk_scope_begin(lk_default_strategy()), "must not be nested");
        }
        IS_DEFAULT();
    }
}

REPLICA_FN(enter_a_scope)
{
    lk_strategy **s = user;
    int           inside = 0;
    LK_SCOPE(s[0]) {
        inside++;
    }
    EXPECT(inside == 0);
    EXPECT_TOLD(LK_ESTATE, "replica context", "cross-replica context", "lk_merge_call");
    EXPECT(lk_scope_begin(s[1]) == LK_ESTATE);
    EXPECT_TOLD(LK_ESTATE, "replica context");
    EXPECT(lk_scope_begin(lk_default_strategy()) == LK_ESTATE);
    EXPECT_TOLD(LK_ESTATE, "replica context");
    EXPECT(lk_set_strategy(s[0]) == LK_ESTATE);
    EXPECT_TOLD(LK_ESTATE, "lk_set_strategy");
    EXPECT(lk_set_strategy(NULL) == LK_ESTATE);
    EXPECT_TOLD(LK_ESTATE, "lk_set_strategy");
    EXPECT(lk_scope_end(s[0]) == LK_ESTATE); /* not even one the caller is in */
    EXPECT_TOLD(LK_ESTATE, "lk_scope_end");
    EXPECT(context_is(s[0], false));
    return LK_TUPLE();
}

TEST(no_scope_from_replica_context)
{
    LK_POOL {
        EACH_COUNT(n)
        {
            lk_strategy *s[2] = {mirrored(n), mirrored(2)};
            lk_run(s[0], enter_a_scope, .user = s);
            LK_SCOPE(s[0]) {
                lk_run(s[0], enter_a_scope, .user = s);
                IS_CROSS(s[0]);
            }
            IS_DEFAULT();
            SOUND();
        }
    }
}

MERGE_FN(scope_in_merge)
{
    LK_SCOPE(s) {
        EXPECT(context_is(s, true));
    }
    EXPECT(context_is(s, true));
    EXPECT(lk_scope_begin(user) == LK_ESTATE);
    EXPECT_TOLD(LK_ESTATE, "different strategies are being mixed");
    return LK_TUPLE();
}

REPLICA_FN(merge_scopes) { return lk_merge_call(lk_get_replica_context(), scope_in_merge, LK_TUPLE(), user); }

TEST(scopes_in_a_merge_function)
{
    LK_POOL {
        lk_strategy *s = mirrored(3), *other = mirrored(2);
        lk_run(s, merge_scopes, .user = other);
        SOUND();
    }
}

TEST(scopes_left_out_of_order)
{
    LK_POOL {
        lk_strategy *a = mirrored(2), *b = mirrored(2);
        REFUSED(LK_ESTATE, lk_scope_end(a), "lk_scope_end", "no scope is open");
        assert_int_equal(lk_scope_begin(a), LK_OK);
        REFUSED(LK_ESTATE, lk_scope_end(b), "lk_scope_end", "innermost open scope", "reverse order");
        IS_CROSS(a);
        assert_int_equal(lk_scope_end(a), LK_OK);
        REFUSED(LK_ESTATE, lk_scope_end(a), "no scope is open");
        REFUSED(LK_EINVAL, lk_scope_end(NULL), "lk_scope_end", "not a strategy");
        REFUSED(LK_EINVAL, lk_scope_begin(NULL), "not a strategy");
        REFUSED(LK_EINVAL, lk_scope_begin((lk_strategy *)lk_scalar(1)), "not a strategy");
        LK_SCOPE(a) {
            lk_scope_begin(a); /* not left */
        }
        assert_true(told(LK_ESTATE, "LK_SCOPE", "lk_scope_begin", "not left", "reverse order"));
        IS_DEFAULT();
        LK_SCOPE(a) {
            lk_scope_end(a); /* the block's own */
            IS_DEFAULT();
        }
        assert_true(told(LK_ESTATE, "LK_SCOPE", "left before"));
        IS_DEFAULT();
    }
}

static void leave_by_return(lk_strategy *s)
{
    LK_SCOPE(s) {
        return;
    }
}

TEST(a_block_is_left_in_every_way)
{
    LK_POOL {
        lk_strategy *s = mirrored(2);
        leave_by_return(s);
        IS_DEFAULT();
        LK_SCOPE(s) {
            break;
        }
        IS_DEFAULT();
        SOUND();
    }
}

/* ---- threads ---- */

static void *fresh_thread(void *user)
{
    EXPECT(context_is(lk_default_strategy(), false));
    EXPECT(lk_replica_id_in_sync_group(lk_get_replica_context()) == 0);
    LK_SCOPE(user) { /* one of its own */
        EXPECT(context_is(user, true));
    }
    EXPECT(context_is(lk_default_strategy(), false));
    return NULL;
}

static void run_thread(lk_strategy *s)
{
    pthread_t t;
    assert_int_equal(pthread_create(&t, NULL, fresh_thread, s), 0);
    pthread_join(t, NULL);
}

REPLICA_FN(thread_in_replica)
{
    pthread_t t;
    if (EXPECT(pthread_create(&t, NULL, fresh_thread, user) == 0)) pthread_join(t, NULL);
    return LK_TUPLE();
}

TEST(a_thread_starts_with_none)
{
    LK_POOL {
        lk_strategy *a = mirrored(2), *b = mirrored(3);
        LK_SCOPE(a) {
            run_thread(a);
            run_thread(b); /* another thread may be in another scope */
            IS_CROSS(a);
        }
        lk_set_strategy(a);
        run_thread(b);
        lk_set_strategy(NULL);
        lk_run(a, thread_in_replica, .user = b);
        SOUND();
    }
}

/* ---- set_strategy ---- */

TEST(set_strategy)
{
    LK_POOL {
        lk_strategy *a = mirrored(2), *b = mirrored(3);
        assert_int_equal(lk_set_strategy(a), LK_OK);
        IS_CROSS(a);
        lk_variable *v = lk_variable_of(lk_scalar(1), .name = "v");
        assert_true(lk_extended_variable_created_in_scope(a, v));
        LK_SCOPE(a) {
            IS_CROSS(a);
            REFUSED(LK_ESTATE, lk_set_strategy(b), "lk_set_strategy", "inside the scope of MirroredStrategy");
            REFUSED(LK_ESTATE, lk_set_strategy(NULL), "lk_set_strategy", "inside the scope");
        }
        IS_CROSS(a);
        REFUSED(LK_ESTATE, lk_scope_begin(b), "different strategies are being mixed");
        assert_int_equal(lk_set_strategy(b), LK_OK); /* without a block it may be changed */
        IS_CROSS(b);
        assert_int_equal(lk_set_strategy(lk_default_strategy()), LK_OK);
        IS_DEFAULT();
        assert_int_equal(lk_set_strategy(b), LK_OK);
        assert_int_equal(lk_set_strategy(NULL), LK_OK);
        IS_DEFAULT();
        REFUSED(LK_EINVAL, lk_set_strategy((lk_strategy *)lk_scalar(1)), "lk_set_strategy", "not a strategy");
        LK_SCOPE(a) {
            REFUSED(LK_ESTATE, lk_set_strategy(a), "lk_set_strategy");
        }
        SOUND();
    }
}

/* ---- whose is it ---- */

static lk_variable *foreign;

REPLICA_FN(use_foreign)
{
    EXPECT(lk_poisoned(lk_read(foreign)));
    EXPECT_TOLD(LK_ESTATE, "lk_read", "\"foreign\"", "belongs to another strategy");
    EXPECT(lk_assign(foreign, lk_scalar(1)) == LK_ESTATE);
    EXPECT_TOLD(LK_ESTATE, "lk_assign", "\"foreign\"", "mixed");
    EXPECT(lk_scatter_add(foreign, lk_scalar(0), lk_scalar(1)) == LK_ESTATE);
    EXPECT_TOLD(LK_ESTATE, "lk_scatter_add", "\"foreign\"");
    EXPECT(lk_poisoned(lk_read_aggregated(foreign)));
    EXPECT_TOLD(LK_ESTATE, "\"foreign\"", "another strategy");
    EXPECT(lk_variable_data(foreign) == NULL);
    EXPECT_TOLD(LK_ESTATE, "lk_variable_data", "\"foreign\"", "another strategy");
    return LK_TUPLE();
}

static void check_foreign(lk_strategy *b)
{
    LK_SCOPE(b) {
        REFUSED(LK_ESTATE, lk_read(foreign), "lk_read", "\"foreign\"", "belongs to another strategy", "mixed");
        REFUSED(LK_ESTATE, lk_assign(foreign, lk_scalar(1)), "lk_assign", "\"foreign\"");
        REFUSED(LK_ESTATE, lk_assign_add(foreign, lk_scalar(1)), "lk_assign_add", "\"foreign\"");
        REFUSED(LK_ESTATE, lk_assign_sub(foreign, lk_scalar(1)), "lk_assign_sub", "\"foreign\"");
        REFUSED(LK_ESTATE, lk_scatter_update(foreign, lk_scalar(0), lk_scalar(1)), "lk_scatter_update", "\"foreign\"");
        REFUSED(LK_ESTATE, lk_read_aggregated(foreign), "\"foreign\"");
        REFUSED(LK_ESTATE, lk_local_variables(b, foreign), "lk_local_variables", "\"foreign\"", "another strategy");
        REFUSED(LK_ESTATE, lk_reduce_variable(b, LK_MEAN, foreign), "\"foreign\"", "another strategy");
    }
    lk_run(b, use_foreign);
    SOUND();
}

TEST(a_variable_of_another_strategy)
{
    LK_POOL {
        EACH_COUNT(n)
        {
            lk_strategy *a = mirrored(2), *b = mirrored(n);
            LK_SCOPE(a) {
                foreign = lk_variable_of(lk_ones(LK_SHAPE(2), LK_F32), .name = "foreign");
            }
            check_foreign(b);
            VALUES(lk_read(foreign), 1, 1);
            assert_int_equal(lk_assign_add(foreign, lk_ones(LK_SHAPE(2), LK_F32)), LK_OK); /* outside any scope it works */
            VALUES(lk_read(foreign), 2, 2);
            LK_SCOPE(a) {
                foreign = lk_variable_of(lk_ones(LK_SHAPE(2), LK_F32), .name = "foreign", .synchronization = LK_SYNC_ON_READ,
                                         .aggregation = LK_AGGREGATION_SUM);
            }
            check_foreign(b);
            VALUES(lk_read(foreign), 2, 2);
            SOUND();
        }
    }
}

TEST(methods_of_another_strategy)
{
    LK_POOL {
        lk_strategy *a = mirrored(2), *b = mirrored(2);
        lk_tensor   *x = lk_scalar(1);
        LK_SCOPE(a) {
            REFUSED(LK_ESTATE, lk_run(b, in_replica, LK_TUPLE(), b), "lk_run", "inside the scope of", "mixed");
            REFUSED(LK_ESTATE, lk_reduce(b, LK_MEAN, x), "lk_reduce", "inside the scope of");
            REFUSED(LK_ESTATE, lk_gather_values(b, x), "lk_gather_values", "inside the scope of");
            REFUSED(LK_ESTATE, lk_local_results(b, x), "lk_local_results", "inside the scope of");
            REFUSED(LK_ESTATE, lk_values_from_function(b, pick, NULL), "lk_values_from_function");
            REFUSED(LK_ESTATE, lk_extended_worker_devices(b), "lk_extended_worker_devices");
            lk_run(a, in_replica, LK_TUPLE(), a);
            SOUND();
        }
        lk_set_strategy(b);
        REFUSED(LK_ESTATE, lk_run(a, in_replica, LK_TUPLE(), a), "lk_run", "inside the scope of");
        lk_set_strategy(NULL);
    }
}

TEST(who_made_a_variable)
{
    LK_POOL {
        lk_strategy *a = mirrored(2), *b = mirrored(2);
        lk_variable *inside = NULL, *outside = lk_variable_of(lk_scalar(1));
        LK_SCOPE(a) {
            inside = lk_variable_of(lk_scalar(1));
        }
        assert_true(lk_extended_variable_created_in_scope(a, inside));
        assert_false(lk_extended_variable_created_in_scope(b, inside));
        assert_false(lk_extended_variable_created_in_scope(a, outside));
        assert_false(lk_extended_variable_created_in_scope(NULL, inside));
        assert_false(lk_extended_variable_created_in_scope(a, NULL));
        SOUND();
    }
}

/* A strategy lives as long as something of it is in use. */
TEST(a_strategy_freed_early)
{
    LK_POOL {
        lk_variable *v = NULL;
        lk_strategy *s = mirrored(2);
        LK_SCOPE(s) {
            lk_free(s);
            IS_CROSS(s);
            v = lk_variable_of(lk_scalar(4), .name = "v");
        }
        IS_DEFAULT();
        VALUES(lk_read(v), 4);
        PRINTS(lk_print_variable(v), "MirroredVariable:{\n  0: 4\n  1: 4\n}\n");
        lk_strategy *t = mirrored(2);
        lk_set_strategy(t);
        lk_free(t);
        IS_CROSS(t);
        lk_set_strategy(NULL);
        SOUND();
    }
}

TESTS(cmocka_unit_test(exactly_one_of_two), cmocka_unit_test(the_same_scope_again), cmocka_unit_test(another_scope_inside),
      cmocka_unit_test(mixed_strategies_are_both_named), cmocka_unit_test(the_default_scope_does_not_nest),
      cmocka_unit_test(no_scope_from_replica_context), cmocka_unit_test(scopes_in_a_merge_function),
      cmocka_unit_test(scopes_left_out_of_order), cmocka_unit_test(a_block_is_left_in_every_way),
      cmocka_unit_test(a_thread_starts_with_none), cmocka_unit_test(set_strategy), cmocka_unit_test(a_variable_of_another_strategy),
      cmocka_unit_test(methods_of_another_strategy), cmocka_unit_test(who_made_a_variable),
      cmocka_unit_test(a_strategy_freed_early))
