/* Replayed steps: no allocation, faults reported, retracing, caches, variables that change while another thread reads them. */
#include "check.h"
#include "core/thread.h"
#include "step/models.h"
#include "step/replicas.h"
#include <math.h>
#include <stdio.h>

/* ---- no allocation ---- */

static int64_t mallocs; /* counted while `counting` */
static int     counting;

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t n, size_t bytes);
void *__libc_realloc(void *mem, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
static void count(void)
{
    if (__atomic_load_n(&counting, __ATOMIC_RELAXED)) __atomic_add_fetch(&mallocs, 1, __ATOMIC_RELAXED);
}

void *malloc(size_t bytes)
{
    count();
    return __libc_malloc(bytes);
}

void *calloc(size_t n, size_t bytes)
{
    count();
    return __libc_calloc(n, bytes);
}

void *realloc(void *mem, size_t bytes)
{
    count();
    return __libc_realloc(mem, bytes);
}

void *aligned_alloc(size_t alignment, size_t bytes)
{
    count();
    return __libc_memalign(alignment, bytes);
}

int posix_memalign(void **mem, size_t alignment, size_t bytes)
{
    count();
    *mem = __libc_memalign(alignment, bytes);
    return *mem ? 0 : 12;
}
#endif

static void count_allocations(int convolutions, int threads)
{
    lk_set_threads(threads);
    LK_POOL {
        model        m = model_new(convolutions, 64);
        lk_function *f = lk_function_of(model_step, &m);
        lk_tuple     batch = model_batch(&m, 64, 0);
        for (int i = 0; i < 3; i++)
            LK_STEP
                lk_call(f, batch);
        mallocs = 0;
        __atomic_store_n(&counting, 1, __ATOMIC_RELAXED);
        for (int i = 0; i < 10; i++)
            LK_STEP
                lk_call(f, batch);
        __atomic_store_n(&counting, 0, __ATOMIC_RELAXED);
        assert_int_equal(mallocs, 0);
    }
    lk_set_threads(0);
    assert_false(lk_failed());
}

TEST(replay_allocates_nothing)
{
    for (int convolutions = 1; convolutions <= 2; convolutions++)
        for (int threads = 1; threads <= 3; threads++)
            count_allocations(convolutions, threads);
}

/* Per-replica values go in and come out, among nested ones. */
static lk_tuple scores(lk_tuple in, void *user)
{
    lk_tensor *y = lk_softmax(lk_matmul(lk_nested(in.item[0]).item[0], lk_read(user)));
    return LK_TUPLE(lk_nest(LK_TUPLE(y, lk_square(lk_read(user)))), lk_reduce_sum(y, .axis = LK_AXES(0)));
}

typedef struct replicas {
    lk_strategy *strategy;
    lk_variable *w;
} replicas;

static lk_tuple scores_of_all(lk_tuple in, void *user)
{
    replicas *r = user;
    lk_tuple  out = lk_run(r->strategy, scores, in, r->w);
    return LK_TUPLE(out.item[0], lk_reduce(r->strategy, LK_SUM, out.item[1]));
}

TEST(replay_of_replicas_allocates_nothing)
{
    LK_POOL {
        replicas     r = {lk_mirrored_strategy(.cpu_devices = 4), lk_variable_of(lk_ones(LK_SHAPE(3, 2), LK_F32))};
        lk_function *f = lk_function_of(scores_of_all, &r);
        lk_tuple     in = LK_TUPLE(lk_nest(LK_TUPLE(hand_out(r.strategy, lk_random_uniform(LK_SHAPE(13, 3)), 16), NULL)));
        for (int i = 0; i < 13; i++) {
            if (i == 3) mallocs = 0;
            if (i == 3) __atomic_store_n(&counting, 1, __ATOMIC_RELAXED);
            LK_STEP
                lk_call(f, in);
        }
        __atomic_store_n(&counting, 0, __ATOMIC_RELAXED);
        assert_int_equal(mallocs, 0);
        assert_int_equal(lk_function_inspect(f).traces, 1);
    }
    assert_false(lk_failed());
}

/* ---- tracing ---- */

static int traced;

static lk_tuple doubled(lk_tuple in, void *user)
{
    (void)user;
    traced++;
    return LK_TUPLE(lk_add(in.item[0], in.item[0]));
}

TEST(one_trace_per_signature)
{
    LK_POOL {
        lk_function *f = lk_function_of(doubled);
        traced = 0;
        for (int i = 0; i < 5; i++)
            assert_int_equal((int)lk_item(lk_call(f, LK_TUPLE(lk_scalar(i))).item[0]), 2 * i);
        assert_int_equal(traced, 1);
        lk_call(f, LK_TUPLE(lk_zeros(LK_SHAPE(3), LK_F32)));
        lk_call(f, LK_TUPLE(lk_zeros(LK_SHAPE(3), LK_F64)));
        lk_call(f, LK_TUPLE(lk_rows(lk_zeros(LK_SHAPE(3), LK_F32), 0)));
        assert_int_equal(traced, 4);
        assert_int_equal(lk_function_inspect(f).traces, 4);
        assert_int_equal(lk_function_inspect(f).plans, 4);
    }
}

static char logged[512];

static void keep_log(const char *text, void *user)
{
    (void)user;
    snprintf(logged, sizeof logged, "%s", text);
}

TEST(retracing_every_call_is_told_and_plans_are_limited)
{
    LK_POOL {
        lk_function *f = lk_function_of(doubled, .name = "doubled", .max_traces = 4);
        logged[0] = 0;
        lk_set_log(keep_log, NULL);
        for (int i = 1; i <= 10; i++)
            lk_call(f, LK_TUPLE(lk_zeros(LK_SHAPE(i), LK_F32)));
        lk_set_log(NULL, NULL);
        assert_non_null(strstr(logged, "doubled was traced again"));
        assert_int_equal(lk_function_inspect(f).plans, 4);
        assert_int_equal(lk_dim(lk_call(f, LK_TUPLE(lk_zeros(LK_SHAPE(1), LK_F32))).item[0], 0), 1);
    }
}

static lk_tuple looks_inside(lk_tuple in, void *user)
{
    (void)user;
    lk_item(in.item[0]);
    return in;
}

TEST(a_traced_tensor_has_no_value)
{
    LK_POOL {
        lk_tuple out = lk_call(lk_function_of(looks_inside), LK_TUPLE(lk_scalar(1)));
        assert_true(lk_poisoned(out.item[0]));
        assert_int_equal(lk_error_code(), LK_ESTATE);
        lk_clear_error();
        assert_int_equal((int)lk_item(lk_call(lk_function_of(doubled), LK_TUPLE(lk_scalar(1))).item[0]),
                         2); /* and the thread continues */
    }
}

/* ---- variables ---- */

static lk_tuple reads_around_a_write(lk_tuple in, void *user)
{
    lk_variable *v = user;
    lk_tensor   *before = lk_read(v);
    lk_assign_add(v, in.item[0]);
    lk_tensor *after = lk_read(v);
    lk_assign(v, lk_mul(after, lk_scalar(10)));
    return LK_TUPLE(lk_add(before, lk_scalar(0)), before, after, lk_read(v));
}

TEST(reads_see_the_version_they_were_made_at)
{
    for (int compiled = 0; compiled < 2; compiled++)
        LK_POOL {
            lk_variable *v = lk_variable_of(lk_scalar(1));
            lk_function *f = lk_function_of(reads_around_a_write, v);
            lk_tuple     in = LK_TUPLE(lk_scalar(2));
            for (double value = 1; value < 1000; value = (value + 2) * 10) {
                lk_tuple out = compiled ? lk_call(f, in) : reads_around_a_write(in, v);
                assert_true(lk_item(out.item[0]) == value);
                assert_true(lk_item(out.item[1]) == value);
                assert_true(lk_item(out.item[2]) == value + 2);
                assert_true(lk_item(out.item[3]) == (value + 2) * 10);
            }
        }
    assert_false(lk_failed());
}

TEST(a_tensor_read_before_a_step_keeps_its_value)
{
    LK_POOL {
        lk_variable *v = lk_variable_of(lk_scalar(1));
        lk_tensor   *held = lk_read(v);
        lk_call(lk_function_of(reads_around_a_write, v), LK_TUPLE(lk_scalar(2)));
        assert_true(lk_item(held) == 1);
        lk_free(v);
        assert_true(lk_item(held) == 1);
    }
}

/* ---- faults ---- */

static lk_tuple cross_entropy(lk_tuple in, void *user)
{
    (void)user;
    return LK_TUPLE(lk_nn_sparse_categorical_crossentropy(in.item[0], in.item[1], .from_logits = LK_ON));
}

TEST(a_label_out_of_range_is_told)
{
    for (int compiled = 0; compiled < 2; compiled++)
        LK_POOL {
            lk_function *f = lk_function_of(cross_entropy);
            lk_tensor   *logits = lk_zeros(LK_SHAPE(2, 3), LK_F32);
            lk_tensor   *good = lk_tensor_from(LK_SHAPE(2), LK_I32, (int32_t[]){0, 2}),
                      *bad = lk_tensor_from(LK_SHAPE(2), LK_I32, (int32_t[]){0, 3});
            lk_tuple out = compiled ? lk_call(f, LK_TUPLE(bad, logits)) : cross_entropy(LK_TUPLE(bad, logits), NULL);
            assert_true(lk_poisoned(out.item[0]));
            assert_int_equal(lk_error_code(), LK_EINVAL);
            assert_non_null(strstr(lk_error(), "label"));
            lk_clear_error();
            out = compiled ? lk_call(f, LK_TUPLE(good, logits)) : cross_entropy(LK_TUPLE(good, logits), NULL);
            assert_false(lk_poisoned(out.item[0]));
        }
}

static lk_tuple trains_on_labels(lk_tuple in, void *user)
{
    struct {
        lk_variable  *w;
        lk_optimizer *o;
    } *m = user;
    lk_tape   *tape = lk_tape_begin();
    lk_tensor *each = lk_nn_sparse_categorical_crossentropy(in.item[1], lk_matmul(in.item[0], lk_read(m->w)), .from_logits = LK_ON);
    lk_tensor *loss = lk_reduce_mean(each);
    lk_optimizer_apply(m->o, lk_tape_gradient(tape, loss, LK_VARIABLES(m->w)));
    return LK_TUPLE(loss);
}

TEST(a_step_that_fails_writes_nothing)
{
    for (int threads = 1; threads <= 3; threads++)
        LK_POOL {
            struct {
                lk_variable  *w;
                lk_optimizer *o;
            } m = {lk_variable_of(lk_ones(LK_SHAPE(4, 3), LK_F32)), lk_adam()};
            lk_set_threads(threads);
            lk_function *f = lk_function_of(trains_on_labels, &m);
            lk_tensor   *x = lk_rows(lk_ones(LK_SHAPE(2, 4), LK_F32), 0);
            lk_tensor   *bad = lk_rows(lk_tensor_from(LK_SHAPE(2), LK_I32, (int32_t[]){0, 9}), 0);
            lk_digest    before = lk_variables_digest(LK_VARIABLES(m.w));
            for (int i = 0; i < 20; i++) {
                assert_true(lk_poisoned(lk_call(f, LK_TUPLE(x, bad)).item[0]));
                assert_int_equal(lk_error_code(), LK_EINVAL);
                lk_clear_error();
            }
            assert_true(lk_digest_equal(before, lk_variables_digest(LK_VARIABLES(m.w))));
            assert_int_equal(lk_optimizer_iterations(m.o), 0);
            lk_tensor *good = lk_rows(lk_tensor_from(LK_SHAPE(2), LK_I32, (int32_t[]){0, 1}), 0);
            assert_false(lk_poisoned(lk_call(f, LK_TUPLE(x, good)).item[0]));
            assert_int_equal(lk_optimizer_iterations(m.o), 1);
        }
    lk_set_threads(0);
}

/* ---- functions that meet themselves ---- */

static lk_tuple fails_on_two(lk_tuple in, void *user)
{
    (void)user;
    return LK_TUPLE(lk_dim(in.item[0], 0) == 2 ? NULL : lk_neg(in.item[0]));
}

TEST(a_failed_trace_leaves_the_plans_there_are)
{
    LK_POOL {
        lk_function *f = lk_function_of(fails_on_two, .max_traces = 1);
        lk_call(f, LK_TUPLE(lk_zeros(LK_SHAPE(3), LK_F32)));
        assert_true(lk_poisoned(lk_call(f, LK_TUPLE(lk_zeros(LK_SHAPE(2), LK_F32))).item[0]));
        lk_clear_error();
        assert_int_equal(lk_function_inspect(f).plans, 1);
        assert_true(lk_function_inspect(f).calls > 0);
        lk_call(f, LK_TUPLE(lk_zeros(LK_SHAPE(3), LK_F32)));
        assert_int_equal(lk_function_inspect(f).traces, 2);
    }
    assert_false(lk_failed());
}

static lk_function *called_by_hook;

static void hook_that_calls(const char *text, void *user)
{
    (void)text, (void)user;
    lk_function *f = called_by_hook;
    called_by_hook = NULL;
    if (f) lk_call(f, LK_TUPLE(lk_zeros(LK_SHAPE(1), LK_F32)));
}

static lk_tensor *escaped;

static lk_tuple lets_one_escape(lk_tuple in, void *user)
{
    (void)user;
    escaped = lk_keep(lk_neg(in.item[0]));
    return in;
}

static lk_tuple frees_itself(lk_tuple in, void *function)
{
    lk_free(*(lk_function **)function);
    return in;
}

TEST(no_lock_is_held_while_foreign_code_runs)
{
    LK_POOL {
        called_by_hook = lk_function_of(doubled);
        lk_function *f = called_by_hook;
        lk_set_log(hook_that_calls, NULL);
        lk_set_verbose("trace");
        lk_call(f, LK_TUPLE(lk_zeros(LK_SHAPE(2), LK_F32)));
        lk_set_verbose("");
        lk_set_log(NULL, NULL);
        lk_call(lk_function_of(lets_one_escape), LK_TUPLE(lk_scalar(1)));
        assert_true(lk_poisoned(lk_call(f, LK_TUPLE(escaped)).item[0]));
        assert_int_equal(lk_error_code(), LK_ESTATE);
        lk_clear_error();
        lk_function *self = NULL;
        self = lk_function_of(frees_itself, &self);
        lk_call(self, LK_TUPLE(lk_scalar(1)));
    }
    assert_false(lk_failed());
}

/* ---- empty batches ---- */

TEST(an_empty_batch_changes_nothing)
{
    LK_POOL {
        model m = model_new(2, 64);
        m.l2 = 0;
        m.optimizer = lk_sgd(.learning_rate = 0.1);
        lk_digest before = lk_variables_digest(model_variables(&m)), after;
        lk_tuple  out = lk_call(lk_function_of(model_step, &m), model_batch(&m, 0, 0));
        assert_true(lk_item(out.item[0]) == 0);
        after = lk_variables_digest(model_variables(&m));
        assert_memory_equal(before.byte, after.byte, sizeof before.byte);
        model_step(model_batch(&m, 0, 0), &m);
        after = lk_variables_digest(model_variables(&m));
        assert_memory_equal(before.byte, after.byte, sizeof before.byte);
    }
    if (lk_failed()) print_error("%s\n", lk_error());
    assert_false(lk_failed());
}

/* ---- memory ---- */

static int whole_life(void)
{
    int good = 0;
    LK_POOL {
        model m = model_new(1, 8);
        if (!lk_failed()) {
            lk_tuple batch = model_batch(&m, 8, 0);
            lk_tuple out = lk_call(lk_function_of(model_step, &m), batch);
            good = !lk_poisoned(out.item[0]);
        }
    }
    return good;
}

TEST(every_allocation_may_fail)
{
    lk_set_threads(2);
    whole_life(); /* threads, tables and settings are made once */
    lk_clear_error();
    for (int n = 1; n < 4000; n += n < 400 ? 1 : 37) {
        lk_clear_error();
        int64_t before = lki_memory_in_use();
        lki_memory_fail_after(n);
        int good = whole_life();
        lki_memory_fail_after(0);
        assert_int_equal(lki_memory_in_use(), before);
        if (good && !lk_failed()) break;
        if (lk_error_code() != LK_ENOMEM) print_error("allocation %d: %s\n", n, lk_error());
        assert_int_equal(lk_error_code(), LK_ENOMEM);
    }
    lk_clear_error();
    assert_true(whole_life());
    lk_set_threads(0);
}

TESTS(cmocka_unit_test(replay_allocates_nothing), cmocka_unit_test(replay_of_replicas_allocates_nothing),
      cmocka_unit_test(one_trace_per_signature), cmocka_unit_test(retracing_every_call_is_told_and_plans_are_limited),
      cmocka_unit_test(a_traced_tensor_has_no_value), cmocka_unit_test(reads_see_the_version_they_were_made_at),
      cmocka_unit_test(a_tensor_read_before_a_step_keeps_its_value), cmocka_unit_test(a_label_out_of_range_is_told),
      cmocka_unit_test(a_step_that_fails_writes_nothing), cmocka_unit_test(a_failed_trace_leaves_the_plans_there_are),
      cmocka_unit_test(no_lock_is_held_while_foreign_code_runs), cmocka_unit_test(an_empty_batch_changes_nothing),
      cmocka_unit_test(every_allocation_may_fail))
