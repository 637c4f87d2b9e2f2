/* Nothing hangs: failures of three kinds, on a random replica at a random point of a program that meets in every possible way. run
 * returns the cause in time, all replicas are released, and the next run is right. The same while a function is traced. */
#include "check.h"
#include <lockstep.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#if defined(__SANITIZE_THREAD__)
enum { LIMIT_SECONDS = 10, CASES = 300, TRACED_CASES = 60 };
#else
enum { LIMIT_SECONDS = 1, CASES = 1000, TRACED_CASES = 200 };
#endif

enum { STAGES = 8 };
typedef enum stage { COMPUTE, ALL_REDUCE, ALL_GATHER, MERGE, APPLY, ASSIGN, CREATE, STAGE_KINDS } stage;
typedef enum failure { NONE, ERROR, OTHER_CALL, EARLY, FAILURES } failure;

typedef struct program {
    lk_strategy  *strategy;
    stage         stages[STAGES];
    failure       failure;
    int           at, replica;
    lk_variable  *w, *sum;
    lk_optimizer *optimizer;
} program;

static uint64_t state = 88172645463325252u;

static int pick(int below)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (int)(state % (uint64_t)below);
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- the program ---- */

static lk_tuple add_up(lk_strategy *s, lk_tuple args, void *user)
{
    (void)user;
    return LK_TUPLE(lk_reduce(s, LK_SUM, args.item[0]));
}

static lk_tensor *one_of(int id) { return lk_fill(LK_SHAPE(2), LK_F32, 1 + id); }

static lk_tensor *meet(program *p, stage kind, lk_tensor *x, int id)
{
    lk_replica_context *c = lk_get_replica_context();
    switch (kind) {
    case COMPUTE: return lk_add(x, lk_scalar(1));
    case ALL_REDUCE: return lk_add(x, lk_all_reduce(c, LK_SUM, one_of(id)));
    case ALL_GATHER: return lk_add(x, lk_reduce_sum(lk_all_gather(c, one_of(id), 0)));
    case MERGE: return lk_add(x, lk_merge_call(c, add_up, LK_TUPLE(one_of(id)), NULL).item[0]);
    case APPLY: lk_optimizer_apply_gradients(p->optimizer, LK_TUPLE(one_of(id)), LK_VARIABLES(p->w)); return x;
    case ASSIGN: lk_assign_add(p->sum, one_of(id)); return x;
    default: lk_variable_of(one_of(0), .name = "made"); return x;
    }
}

static bool meets(stage s) { return s != COMPUTE; }

/* Another way to meet than the one the others come for. */
static stage another(stage s) { return s == ALL_REDUCE ? MERGE : ALL_REDUCE; }

static lk_tuple body(lk_tuple in, void *user)
{
    (void)in;
    program   *p = user;
    int        id = lk_replica_id_in_sync_group(lk_get_replica_context());
    lk_tensor *x = lk_fill(LK_SHAPE(2), LK_F32, 0);
    for (int i = 0; i < STAGES; i++) {
        bool here = id == p->replica && i == p->at;
        if (here && p->failure == ERROR) lk_matmul(lk_ones(LK_SHAPE(2, 3), LK_F32), lk_ones(LK_SHAPE(2, 3), LK_F32));
        if (here && p->failure == EARLY) return LK_TUPLE();
        x = meet(p, here && p->failure == OTHER_CALL ? another(p->stages[i]) : p->stages[i], x, id);
    }
    return LK_TUPLE(x);
}

static lk_tuple distributed(lk_tuple in, void *user)
{
    program *p = user;
    return LK_TUPLE(lk_local_results(p->strategy, lk_run(p->strategy, body, in, user).item[0]).item[0]);
}

/* ---- what it should give ---- */

static double expected(const program *p, int n)
{
    double total = n * (n + 1) / 2.0, x = 0;
    for (int i = 0; i < STAGES; i++)
        x += p->stages[i] == COMPUTE                               ? 1
             : p->stages[i] == ALL_GATHER                          ? 2 * total
             : p->stages[i] == ALL_REDUCE || p->stages[i] == MERGE ? total
                                                                   : 0;
    return x;
}

static int times(const program *p, stage s)
{
    int count = 0;
    for (int i = 0; i < STAGES; i++)
        count += p->stages[i] == s;
    return count;
}

static double first_of(lk_variable *v)
{
    float x = ((const float *)lk_data(lk_read(v)))[0];
    return (double)x;
}

static void check_clean(program *p, int n, bool traced)
{
    double total = n * (n + 1) / 2.0, w = first_of(p->w), sum = first_of(p->sum);
    p->failure = NONE;
    lk_tensor *x = traced ? lk_call(lk_function_of(distributed, p), LK_TUPLE()).item[0]
                          : lk_local_results(p->strategy, lk_run(p->strategy, body, LK_TUPLE(), p).item[0]).item[0];
    if (lk_failed()) fail_msg("the run after a failure: %s", lk_error());
    assert_float_equal(((const float *)lk_data(x))[0], expected(p, n), 1e-3);
    assert_float_equal(first_of(p->w), w - total * times(p, APPLY), 1e-3);
    assert_float_equal(first_of(p->sum), sum + total * times(p, ASSIGN), 1e-3);
}

static void check_cause(const program *p)
{
    const char *said = lk_error();
    char        who[32];
    snprintf(who, sizeof who, "replica %d", p->replica);
    if (p->failure == ERROR) {
        assert_int_equal(lk_error_code(), LK_ESHAPE);
        assert_non_null(strstr(said, who));
        assert_non_null(strstr(said, "matmul"));
        return;
    }
    bool later = false; /* does anybody still wait for the one that left? */
    for (int i = p->at; i < STAGES; i++)
        later = later || meets(p->stages[i]);
    assert_int_equal(lk_error_code(), later || p->failure == OTHER_CALL ? LK_ESTATE : LK_EINVAL);
    assert_non_null(strstr(said, who));
}

static void one_case(bool traced)
{
    static const int counts[] = {2, 3, 4, 8};
    LK_POOL {
        program p = {0};
        int     n = counts[pick(4)];
        p.strategy = lk_mirrored_strategy(.cpu_devices = n);
        for (int i = 0; i < STAGES; i++)
            p.stages[i] = (stage)pick(traced ? CREATE : STAGE_KINDS);
        p.failure = (failure)(1 + pick(FAILURES - 1));
        p.at = pick(STAGES);
        p.replica = pick(n);
        LK_SCOPE(p.strategy) {
            p.w = lk_variable_of(lk_fill(LK_SHAPE(2), LK_F32, 5), .name = "w");
            p.sum = lk_variable_of(lk_fill(LK_SHAPE(2), LK_F32, 0), .name = "sum", .aggregation = LK_AGGREGATION_SUM);
            p.optimizer = lk_sgd(.learning_rate = 1);
        }
        LK_STEP {
            double begin = seconds();
            if (traced) lk_call(lk_function_of(distributed, &p), LK_TUPLE());
            else lk_run(p.strategy, body, LK_TUPLE(), &p);
            assert_true(seconds() - begin < LIMIT_SECONDS);
            assert_true(lk_failed());
            check_cause(&p);
            lk_clear_error();
            check_clean(&p, n, traced);
        }
    }
}

static void quiet(const char *text, void *user) { (void)text, (void)user; }

TEST(a_thousand_failures)
{
    lk_set_log(quiet, NULL);
    for (int i = 0; i < CASES; i++)
        one_case(false);
    lk_set_log(NULL, NULL);
}

TEST(failures_while_traced)
{
    lk_set_log(quiet, NULL);
    for (int i = 0; i < TRACED_CASES; i++)
        one_case(true);
    lk_set_log(NULL, NULL);
}

TESTS(cmocka_unit_test(a_thousand_failures), cmocka_unit_test(failures_while_traced))
