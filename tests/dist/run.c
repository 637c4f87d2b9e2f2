/* Section 6 of the specification: what run passes in, how it runs, what it returns, and how errors are handled. */
#include "dist/replicas.h"
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- arguments ---- */

typedef struct passed {
    lk_tensor *item[8][4]; /* by replica */
} passed;

REPLICA_FN(note_arguments)
{
    passed *p = user;
    for (int i = 0; i < in.count && i < 4; i++)
        p->item[my_id()][i] = in.item[i];
    EXPECT(in.count == 4);
    return LK_TUPLE();
}

TEST(arguments_are_unwrapped)
{
    LK_POOL {
        EACH_COUNT(n)
        {
            lk_strategy *s = mirrored(n);
            lk_variable *v = MADE(s, lk_scalar(1));
            lk_tensor   *each[8], *plain = lk_scalar(9);
            passed       p = {0};
            for (int r = 0; r < 8; r++)
                each[r] = lk_scalar(r);
            lk_tensor *per_replica = lk_values_from_function(s, pick, &(lk_tuple){n, each});
            lk_tensor *same = lk_cross_broadcast(s, NULL, plain, LK_TO(.variable = v));
            lk_run(s, note_arguments, LK_TUPLE(per_replica, same, plain, NULL), &p);
            for (int r = 0; r < n; r++) {
                assert_ptr_equal(p.item[r][0], each[r]); /* element r */
                assert_ptr_equal(p.item[r][1], plain);   /* of a mirrored value too */
                assert_ptr_equal(p.item[r][2], plain);   /* anything else as it is */
                assert_null(p.item[r][3]);
            }
            SOUND();
        }
    }
}

REPLICA_FN(take_nest_apart)
{
    lk_tuple outer = lk_nested(in.item[0]), inner = lk_nested(outer.item[1]);
    EXPECT(outer.count == 3 && inner.count == 2);
    EXPECT(outer.item[2] == NULL);
    return LK_TUPLE(lk_add(outer.item[0], inner.item[0]), inner.item[1]);
}

TEST(nested_arguments)
{
    LK_POOL {
        lk_strategy *s = mirrored(2);
        lk_tensor   *a = SPREAD(s, lk_scalar(1), lk_scalar(2)), *b = SPREAD(s, lk_scalar(10), lk_scalar(20)), *plain = lk_scalar(7);
        lk_tuple     out = lk_run(s, take_nest_apart, LK_TUPLE(lk_nest(LK_TUPLE(a, lk_nest(LK_TUPLE(b, plain)), NULL))));
        PER_REPLICA(s, out.item[0], 11, 22);
        assert_ptr_equal(out.item[1], plain);
        SOUND();
    }
}

REPLICA_FN(add_all)
{
    lk_tensor *sum = in.item[0];
    for (int i = 1; i < in.count; i++)
        sum = lk_add(sum, in.item[i]);
    return LK_TUPLE(sum);
}

TEST(many_arguments)
{
    LK_POOL {
        lk_strategy *s = mirrored(3);
        lk_tensor   *item[40];
        for (int i = 0; i < 40; i++)
            item[i] = SPREAD(s, lk_scalar(i), lk_scalar(2 * i), lk_scalar(3 * i));
        PER_REPLICA(s, lk_run(s, add_all, lk_tuple_from(40, item)).item[0], 780, 1560, 2340);
        PER_REPLICA(s, lk_extended_call_for_each_replica(s, add_all, lk_tuple_from(4, item), NULL).item[0], 6, 12, 18);
        PER_REPLICA(s, lk_experimental_run_v2(s, add_all, lk_tuple_from(4, item)).item[0], 6, 12, 18);
        SOUND();
    }
}

TEST(arguments_that_do_not_fit)
{
    LK_POOL {
        lk_strategy *two = mirrored(2), *three = mirrored(3);
        lk_tensor   *of_two = SPREAD(two, lk_scalar(1), lk_scalar(2));
        REFUSED(LK_EINVAL, lk_run(three, add_all, LK_TUPLE(of_two)), "lk_run", "argument 0", "2 replicas", "has 3");
        REFUSED(LK_EINVAL, lk_run(three, add_all, LK_TUPLE(lk_scalar(1), lk_nest(LK_TUPLE(lk_scalar(1), of_two)))), "lk_run",
                "argument 1", "2 replicas", "has 3");
        REFUSED(LK_EINVAL, lk_run(mirrored(1), add_all, LK_TUPLE(of_two)), "2 replicas", "has 1");
        REFUSED(LK_EINVAL, lk_run(two, NULL), "lk_run", "function");
        REFUSED(LK_EINVAL, lk_run(NULL, add_all), "lk_run", "strategy", "NULL");
        REFUSED(LK_EINVAL, lk_run((lk_strategy *)lk_scalar(1), add_all), "lk_run", "strategy");
        REFUSED(LK_EINVAL, lk_run(two, add_all, {.count = 3}), "lk_run", "not a tuple", "LK_TUPLE");
        REFUSED(LK_ESHAPE, lk_run(two, add_all, LK_TUPLE(lk_add(VECTOR(1, 2), VECTOR(1, 2, 3)))), "add");
        PER_REPLICA(two, lk_run(two, add_all, LK_TUPLE(of_two)).item[0], 1, 2);
        SOUND();
    }
}

/* ---- results ---- */

static lk_tensor *seven;

REPLICA_FN(reference_examples)
{
    return LK_TUPLE(lk_mul(in.item[0], lk_scalar(2)), seven, mine(0), NULL,
                    lk_nest(LK_TUPLE(seven, mine(1), NULL, lk_nest(LK_TUPLE(mine(2))))));
}

TEST(results_are_regrouped)
{
    LK_POOL {
        lk_strategy *s = mirrored(2);
        seven = lk_scalar(7);
        lk_tuple out = lk_run(s, reference_examples, LK_TUPLE(lk_scalar(3)));
        assert_int_equal(out.count, 5);
        PRINTS(lk_print(out.item[0]), "PerReplica:{\n  0: 6\n  1: 6\n}\n");
        assert_ptr_equal(out.item[1], seven); /* the very same object */
        PRINTS(lk_print(out.item[2]), "PerReplica:{\n  0: 0\n  1: 1\n}\n");
        assert_null(out.item[3]);
        lk_tuple nest = lk_nested(out.item[4]);
        assert_int_equal(nest.count, 4);
        assert_ptr_equal(nest.item[0], seven);
        PER_REPLICA(s, nest.item[1], 1, 2);
        assert_null(nest.item[2]);
        PER_REPLICA(s, lk_nested(nest.item[3]).item[0], 2, 3);
        SOUND();
    }
}

REPLICA_FN(pass_on) { return in; }

TEST(one_replica_wraps_nothing)
{
    LK_POOL {
        lk_strategy *s = mirrored(1);
        seven = lk_scalar(7);
        lk_tuple out = lk_run(s, reference_examples, LK_TUPLE(lk_scalar(3)));
        VALUES(out.item[0], 6);
        assert_ptr_equal(out.item[1], seven);
        VALUES(out.item[2], 0);
        assert_null(out.item[3]);
        lk_tensor *x = lk_scalar(1);
        assert_ptr_equal(lk_run(s, pass_on, LK_TUPLE(x)).item[0], x);
        assert_ptr_equal(lk_run(s, pass_on, LK_TUPLE(SPREAD(s, x))).item[0], x); /* a per-replica value of one */
        SOUND();
    }
}

/* Replicas may return other shapes and types. */
REPLICA_FN(other_shapes) { return LK_TUPLE(lk_zeros(LK_SHAPE(my_id(), 2), my_id() ? LK_F32 : LK_I32)); }

TEST(other_shapes_are_one_value)
{
    LK_POOL {
        lk_strategy *s = mirrored(2);
        lk_tensor   *t = lk_run(s, other_shapes).item[0];
        assert_int_equal(lk_size(lk_local_results(s, t).item[0]), 0);
        assert_int_equal(lk_size(lk_local_results(s, t).item[1]), 2);
        PRINTS(lk_print(t), "PerReplica:{\n  0: []\n  1: [[0, 0]]\n}\n");
        SOUND();
    }
}

typedef enum odd { LONGER, NEST, LONGER_NEST, NONE_THERE, DEEPER } odd;

REPLICA_FN(odd_one)
{
    bool       here = my_id() == 2;
    lk_tensor *x = mine(0);
    switch (*(odd *)user) {
    case LONGER: return here ? LK_TUPLE(x, x) : LK_TUPLE(x);
    case NEST: return LK_TUPLE(here ? lk_nest(LK_TUPLE(x)) : x);
    case LONGER_NEST: return LK_TUPLE(lk_nest(here ? LK_TUPLE(x, x) : LK_TUPLE(x)));
    case NONE_THERE: return LK_TUPLE(x, here ? NULL : x);
    default: return LK_TUPLE(lk_nest(LK_TUPLE(here ? x : lk_nest(LK_TUPLE(x)))));
    }
}

TEST(different_structures)
{
    LK_POOL {
        lk_strategy *s = mirrored(4);
        for (odd which = LONGER; which <= DEEPER; which++)
            REFUSED(LK_EINVAL, lk_run(s, odd_one, .user = &which), "lk_run", "replica 2", "same structure");
        PER_REPLICA(s, lk_run(s, pass_on, LK_TUPLE(lk_scalar(1))).item[0], 1);
    }
}

REPLICA_FN(nothing) { return (lk_tuple){0}; }

TEST(results_that_are_none)
{
    LK_POOL {
        EACH_COUNT(n)
        {
            assert_int_equal(lk_run(mirrored(n), nothing).count, 0);
            SOUND();
        }
    }
}

/* Results live in the caller's step or pool, whatever the replicas' were. */
TEST(results_outlive_the_run)
{
    LK_POOL {
        lk_strategy *s = mirrored(4);
        lk_tensor   *kept = NULL;
        seven = lk_scalar(7);
        LK_STEP {
            kept = lk_keep(lk_run(s, reference_examples, LK_TUPLE(lk_scalar(3))).item[2]);
        }
        for (int i = 0; i < 10; i++)
            LK_STEP {
                lk_run(s, reference_examples, LK_TUPLE(lk_scalar(i)));
            }
        PER_REPLICA(s, kept, 0, 1, 2, 3);
        SOUND();
    }
}

/* ---- at the same time ---- */

typedef struct rendezvous {
    pthread_barrier_t barrier;
    int               calls, ids; /* atomic */
} rendezvous;

REPLICA_FN(wait_for_all)
{
    rendezvous *m = user;
    __atomic_fetch_add(&m->calls, 1, __ATOMIC_RELAXED);
    __atomic_fetch_or(&m->ids, 1 << my_id(), __ATOMIC_RELAXED);
    for (int i = 0; i < 3; i++)
        pthread_barrier_wait(&m->barrier); /* returns only if all replicas run at once */
    return LK_TUPLE(mine(0));
}

TEST(replicas_run_at_the_same_time)
{
    LK_POOL {
        EACH_COUNT(n)
        {
            lk_strategy *s = mirrored(n);
            rendezvous   m = {0};
            pthread_barrier_init(&m.barrier, NULL, (unsigned)n);
            for (int i = 0; i < 5; i++)
                lk_run(s, wait_for_all, .user = &m);
            assert_int_equal(m.calls, 5 * n); /* once per replica */
            assert_int_equal(m.ids, (1 << n) - 1);
            pthread_barrier_destroy(&m.barrier);
            SOUND();
        }
    }
}

REPLICA_FN(gradient_step)
{
    lk_tape   *tape = lk_tape_begin();
    lk_tensor *loss = lk_mul(lk_square(lk_read(user)), mine(1));
    lk_grads  *g = lk_tape_gradient(tape, loss, LK_VARIABLES(user));
    return LK_TUPLE(lk_grads_item(g, 0), lk_all_reduce(lk_get_replica_context(), LK_SUM, lk_grads_item(g, 0)));
}

typedef struct user_thread {
    lk_strategy *strategy;
    double       sum;
    int          turns;
} user_thread;

static void *use_strategy(void *arg)
{
    user_thread *t = arg;
    LK_POOL {
        lk_variable *w = MADE(t->strategy, lk_scalar(3));
        for (int i = 0; i < t->turns; i++)
            LK_STEP {
                lk_tuple out = lk_run(t->strategy, gradient_step, .user = w);
                EXPECT(lk_item(lk_reduce(t->strategy, LK_SUM, out.item[0])) == t->sum);
                EXPECT(lk_item(lk_local_results(t->strategy, out.item[1]).item[0]) == t->sum);
                EXPECT(!lk_failed());
            }
    }
    return NULL;
}

static void check_threads(int count, user_thread *t)
{
    pthread_t thread[4];
    for (int i = 0; i < count; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, use_strategy, &t[i]), 0);
    for (int i = 0; i < count; i++)
        pthread_join(thread[i], NULL);
    SOUND();
}

TEST(threads_of_the_user)
{
    LK_POOL {
        lk_strategy *two = mirrored(2), *three = mirrored(3), *one = mirrored(1);
        check_threads(3, (user_thread[]){{two, 18, 100}, {three, 36, 100}, {one, 6, 100}});
        check_threads(3, (user_thread[]){{two, 18, 100}, {two, 18, 100}, {two, 18, 100}}); /* the same one */
    }
}

TEST(after_a_fork)
{
    LK_POOL {
        lk_strategy *s = mirrored(3);
        rendezvous   m = {0};
        pthread_barrier_init(&m.barrier, NULL, 3);
        lk_run(s, wait_for_all, .user = &m); /* workers are there */
        pid_t child = fork();
        if (child == 0) {
            alarm(20);
            _exit(!(lk_item(lk_reduce(s, LK_SUM, lk_run(s, wait_for_all, .user = &m).item[0])) == 3));
        }
        int status = -1;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
        PER_REPLICA(s, lk_run(s, wait_for_all, .user = &m).item[0], 0, 1, 2);
        SOUND();
    }
}

/* ---- errors ---- */

typedef struct failing {
    int  replica, others_went_on; /* atomic */
    bool before, quietly;
} failing;

REPLICA_FN(fail_on_one)
{
    failing            *f = user;
    lk_replica_context *c = lk_get_replica_context();
    if (f->before) lk_all_reduce(c, LK_SUM, mine(1));
    if (my_id() == f->replica) {
        lk_tensor *bad = lk_matmul(lk_ones(LK_SHAPE(2, 3), LK_F32), lk_ones(LK_SHAPE(2, 3), LK_F32));
        if (f->quietly) return LK_TUPLE(lk_scalar(1)); /* looks away */
        return LK_TUPLE(bad);
    }
    lk_tensor *y = lk_all_reduce(c, LK_SUM, mine(1));
    if (f->replica < 0) return LK_TUPLE(y);
    if (!lk_poisoned(y) && !lk_failed()) __atomic_fetch_add(&f->others_went_on, 1, __ATOMIC_RELAXED);
    EXPECT(lk_poisoned(lk_all_reduce(c, LK_SUM, mine(1)))); /* every later meeting fails at once */
    return LK_TUPLE(y);
}

TEST(an_error_on_any_replica)
{
    LK_POOL {
        for (int n = 2; n <= 4; n++) {
            lk_strategy *s = mirrored(n);
            for (int i = 0; i < 4 * n; i++) {
                failing f = {.replica = i % n, .before = i / n % 2, .quietly = i / n > 1};
                char    who[64];
                snprintf(who, sizeof who, "replica %d of %d on CPU:%d: ", f.replica, n, f.replica);
                double begin = seconds();
                REFUSED(LK_ESHAPE, lk_run(s, fail_on_one, .user = &f), who, "matmul", "[2, 3]");
                assert_true(seconds() - begin < 1);
                assert_int_equal(f.others_went_on, 0);
                lk_tensor *total = lk_run(s, fail_on_one, .user = &(failing){.replica = -1}).item[0];
                VALUES(lk_local_results(s, total).item[n - 1], n * (n + 1) / 2); /* the next run is right */
                SOUND();
            }
        }
    }
}

REPLICA_FN(return_poison)
{
    lk_tensor *t = lk_tuple_from(0, NULL).item[3]; /* poisoned, without an error of its own */
    return LK_TUPLE(my_id() ? t : mine(0));
}

TEST(a_poisoned_result)
{
    LK_POOL {
        lk_strategy *s = mirrored(2);
        lk_tuple     out = lk_run(s, return_poison);
        assert_true(lk_poisoned(out.item[0]));
        assert_true(told(LK_EINVAL, "replica 1", "poisoned"));
    }
}

REPLICA_FN(clean_start)
{
    EXPECT(!lk_failed());
    return LK_TUPLE(mine(0));
}

TEST(an_older_error_is_not_the_replicas)
{
    LK_POOL {
        lk_strategy *s = mirrored(2);
        lk_add(VECTOR(1, 2), VECTOR(1, 2, 3));
        lk_tuple out = lk_run(s, clean_start);
        assert_int_equal(out.count, 1);
        assert_true(told(LK_ESHAPE, "add"));
        PER_REPLICA(s, out.item[0], 0, 1);
        lk_matmul(VECTOR(1), VECTOR(1));
        lk_run(s, return_poison);
        assert_true(told(LK_ESHAPE, "matmul")); /* the first cause stays */
        SOUND();
    }
}

/* ---- tapes ---- */

REPLICA_FN(open_ended)
{
    lk_tape_begin(); /* and never ended, as when a function returns early */
    lk_tape_begin();
    return LK_TUPLE(lk_square(lk_read(user)));
}

REPLICA_FN(gather_square)
{
    return LK_TUPLE(lk_reduce_sum(lk_all_gather(lk_get_replica_context(), lk_reshape(lk_square(lk_read(user)), LK_SHAPE(1)), 0)));
}

MERGE_FN(run_gradients) { return LK_TUPLE(lk_reduce(s, LK_SUM, lk_run(s, gradient_step, .user = user).item[0])); }

REPLICA_FN(gradients_in_merge) { return lk_merge_call(lk_get_replica_context(), run_gradients, LK_TUPLE(), user); }

/* Tapes are a replica's own: one that a replica leaves open is gone with the run, and one that is open outside sees all replicas
 * or none of them. */
TEST(tapes_and_replicas)
{
    LK_POOL {
        lk_strategy *s = mirrored(3);
        lk_variable *w = MADE(s, lk_scalar(3));
        for (int i = 0; i < 5; i++)
            LK_POOL {
                LK_STEP {
                    lk_run(s, open_ended, .user = w);
                }
            }
        lk_run(s, gradient_step, .user = w);
        SOUND();
        lk_tape   *tape = lk_tape_begin();
        lk_tensor *y = lk_local_results(s, lk_run(s, gather_square, .user = w).item[0]).item[0];
        VALUES(y, 27);
        assert_null(lk_grads_item(lk_tape_gradient(tape, y, LK_VARIABLES(w)), 0)); /* not the third that replica 0 made */
        tape = lk_tape_begin();
        lk_tensor *before = lk_square(lk_read(w));
        lk_run(s, gather_square, .user = w);
        lk_tensor *z = lk_add(before, lk_square(lk_read(w))); /* what is outside is recorded as ever */
        VALUES(lk_grads_item(lk_tape_gradient(tape, z, LK_VARIABLES(w)), 0), 12);
        VALUES(lk_local_results(s, lk_run(s, gradients_in_merge, .user = w).item[0]).item[0], 36);
        SOUND();
    }
}

/* ---- calls that do not come together ---- */

typedef enum manner { ONE_RETURNS, ONE_MORE, OTHER_CALL, OTHER_ORDER } manner;

REPLICA_FN(not_together)
{
    lk_replica_context *c = lk_get_replica_context();
    bool                first = my_id() == 0;
    switch (*(manner *)user) {
    case ONE_RETURNS: return LK_TUPLE(first ? lk_scalar(0) : lk_all_reduce(c, LK_SUM, mine(1)));
    case ONE_MORE: lk_all_reduce(c, LK_SUM, mine(1)); return LK_TUPLE(first ? lk_all_gather(c, VECTOR(1), 0) : lk_scalar(0));
    case OTHER_CALL: return LK_TUPLE(first ? lk_all_reduce(c, LK_SUM, VECTOR(1)) : lk_all_gather(c, VECTOR(1), 0));
    default:
        if (first) lk_all_reduce(c, LK_SUM, VECTOR(1));
        lk_all_gather(c, VECTOR(1), 0);
        if (!first) lk_all_reduce(c, LK_SUM, VECTOR(1));
        return LK_TUPLE();
    }
}

TEST(calls_that_do_not_come_together)
{
    LK_POOL {
        for (int n = 2; n <= 4; n++) {
            lk_strategy *s = mirrored(n);
            manner       way;
            REFUSED(LK_ESTATE, (way = ONE_RETURNS, lk_run(s, not_together, .user = &way)), "do not make the same calls",
                    "replica 0 returned", "replica 1 waits in lk_all_reduce", "in the same order");
            REFUSED(LK_ESTATE, (way = ONE_MORE, lk_run(s, not_together, .user = &way)), "replica 0 waits in lk_all_gather",
                    "replica 1 returned");
            REFUSED(LK_ESTATE, (way = OTHER_CALL, lk_run(s, not_together, .user = &way)), "replica 0 waits in lk_all_reduce",
                    "replica 1 waits in lk_all_gather");
            REFUSED(LK_ESTATE, (way = OTHER_ORDER, lk_run(s, not_together, .user = &way)), "replica 0 waits in lk_all_reduce",
                    "replica 1 waits in lk_all_gather");
            lk_run(s, clean_start);
            SOUND();
        }
    }
}

/* ---- what belongs outside ---- */

static lk_variable *some_variable;

REPLICA_FN(cross_calls)
{
    lk_strategy *s = lk_get_strategy();
    lk_tensor   *x = lk_scalar(1);
    char         who[32];
    snprintf(who, sizeof who, "replica %d", my_id());
#define HERE(expression, name)                                                                                                     \
    (void)(expression);                                                                                                            \
    EXPECT_TOLD(LK_ESTATE, name, "in replica context", who, "lk_merge_call")
    HERE(lk_run(s, nothing), "lk_run");
    HERE(lk_run(user, nothing), "lk_run");
    HERE(lk_reduce(s, LK_SUM, x), "lk_reduce");
    HERE(lk_gather_values(s, x), "lk_gather_values");
    HERE(lk_local_results(s, x), "lk_local_results");
    HERE(lk_local_variables(s, some_variable), "lk_local_variables");
    HERE(lk_reduce_variable(s, LK_SUM, some_variable), "lk_reduce_variable");
    HERE(lk_values_from_function(s, pick, NULL), "lk_values_from_function");
    HERE(lk_cross_reduce(s, NULL, LK_SUM, x, LK_TO(.device = "CPU:0")), "lk_cross_reduce");
    HERE(lk_cross_batch_reduce(s, NULL, LK_SUM, LK_TUPLE(x), &LK_TO(.device = "CPU:0")), "lk_cross_batch_reduce");
    HERE(lk_cross_broadcast(s, NULL, x, LK_TO(.device = "CPU:0")), "lk_cross_broadcast");
    HERE(lk_cross_gather(s, NULL, x, LK_TO(.device = "CPU:0"), 0), "lk_cross_gather");
    HERE(lk_extended_worker_devices(s), "lk_extended_worker_devices");
    HERE(lk_extended_parameter_devices(s), "lk_extended_parameter_devices");
    HERE(lk_extended_non_slot_devices(s, LK_VARIABLES()), "lk_extended_non_slot_devices");
    HERE(lk_extended_reduce_to(s, LK_SUM, x, LK_TO(.device = "CPU:0")), "lk_extended_reduce_to");
    HERE(lk_extended_batch_reduce_to(s, LK_SUM, LK_TUPLE(x), &LK_TO(.device = "CPU:0")), "lk_extended_batch_reduce_to");
    HERE(lk_extended_broadcast_to(s, x, LK_TO(.device = "CPU:0")), "lk_extended_broadcast_to");
    HERE(lk_extended_value_container(s, some_variable), "lk_extended_value_container");
    HERE(lk_extended_read_var(s, some_variable), "lk_extended_read_var");
    HERE(lk_extended_call_for_each_replica(s, nothing, LK_TUPLE(), NULL), "lk_run");
    int inside = 0;
    LK_COLOCATE(s, some_variable) {
        inside++;
    }
    EXPECT(!inside);
    EXPECT_TOLD(LK_ESTATE, "LK_COLOCATE", "in replica context");
    return LK_TUPLE();
}

TEST(calls_that_speak_for_all)
{
    LK_POOL {
        for (int n = 1; n <= 3; n++) {
            lk_strategy *s = mirrored(n);
            some_variable = MADE(s, lk_scalar(1), "some");
            lk_run(s, cross_calls, .user = mirrored(2));
            SOUND();
        }
        lk_strategy *one = lk_one_device_strategy("CPU:0");
        some_variable = lk_variable_of(lk_scalar(1));
        lk_run(one, cross_calls, .user = mirrored(2));
        SOUND();
    }
}

MERGE_FN(run_again) { return LK_TUPLE(lk_reduce(s, LK_SUM, lk_run(s, clean_start).item[0])); }

REPLICA_FN(run_in_merge) { return lk_merge_call(lk_get_replica_context(), run_again, LK_TUPLE(), NULL); }

/* A merge function is where a run can be made from inside a run. */
TEST(run_in_a_merge_function)
{
    LK_POOL {
        lk_strategy *s = mirrored(3);
        for (int i = 0; i < 5; i++)
            PER_REPLICA(s, lk_run(s, run_in_merge).item[0], 3);
        SOUND();
    }
}

TESTS(cmocka_unit_test(arguments_are_unwrapped), cmocka_unit_test(nested_arguments), cmocka_unit_test(many_arguments),
      cmocka_unit_test(arguments_that_do_not_fit), cmocka_unit_test(results_are_regrouped),
      cmocka_unit_test(one_replica_wraps_nothing), cmocka_unit_test(other_shapes_are_one_value),
      cmocka_unit_test(different_structures), cmocka_unit_test(results_that_are_none), cmocka_unit_test(results_outlive_the_run),
      cmocka_unit_test(replicas_run_at_the_same_time), cmocka_unit_test(threads_of_the_user), cmocka_unit_test(after_a_fork),
      cmocka_unit_test(an_error_on_any_replica), cmocka_unit_test(a_poisoned_result),
      cmocka_unit_test(an_older_error_is_not_the_replicas), cmocka_unit_test(tapes_and_replicas),
      cmocka_unit_test(calls_that_do_not_come_together), cmocka_unit_test(calls_that_speak_for_all),
      cmocka_unit_test(run_in_a_merge_function))
