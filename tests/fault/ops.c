/* Every allocation of every public op and layer fails in turn, with its gradient, run at once and compiled: reported as LK_ENOMEM,
 * nothing is leaked, and the same works again when there is memory. */
#include "check.h"
#include "op/programs.h"
#include <stdio.h>

#if defined(__SANITIZE_THREAD__)
enum { EVERY = 5 };
#elif defined(__SANITIZE_ADDRESS__)
enum { EVERY = 2 };
#else
enum { EVERY = 1 }; /* one program in this many */
#endif

static const program *now;

static int all_good(lk_tuple out)
{
    for (int i = 0; i < out.count; i++)
        if (lk_poisoned(out.item[i])) return 0;
    return out.count > 0 && !lk_failed();
}

static int at_once(void)
{
    int good = 0;
    LK_POOL
        good = all_good(program_with_gradient(program_inputs(now, LK_F32, 3, true, 0, 0), (void *)now));
    return good;
}

static int compiled(void)
{
    int good = 0;
    LK_POOL {
        lk_tuple in = program_inputs(now, LK_F32, 3, true, 0, 0);
        good = all_good(lk_call(lk_function_of(program_with_gradient, (void *)now), in));
    }
    return good;
}

static void every_program(int (*attempt)(void))
{
    for (int i = 0; i < LKI_COUNT(programs); i += EVERY) {
        now = &programs[i];
        if (!attempt()) fail_msg("%s: %s", now->name, lk_error()); /* also makes what is made once in a process */
        int count = check_every_allocation(attempt);
        if (count < 3) fail_msg("%s: only %d allocations", now->name, count);
    }
    assert_false(lk_failed());
}

TEST(ops_at_once) { every_program(at_once); }

TEST(ops_compiled)
{
    lk_set_threads(2);
    every_program(compiled);
    lk_set_threads(0);
}

/* ---- functions that are not ops ---- */

static int making_tensors(void)
{
    int good = 0;
    LK_POOL {
        lk_tensor *made[] = {lk_tensor_of(LK_SHAPE(2, 2), 1),
                             lk_scalar(1),
                             lk_range(5, LK_I64),
                             lk_fill(LK_SHAPE(3), LK_F16, 2),
                             lk_zeros(LK_SHAPE(0), LK_U8),
                             lk_tensor_from_strided(LK_SHAPE(2), LK_F32, (float[]){1, 2}, (int64_t[]){1}),
                             lk_glorot_uniform(LK_SHAPE(2, 3), "w"),
                             lk_he_normal(LK_SHAPE(2, 3), "w")};
        good = all_good(lk_tuple_from(LKI_COUNT(made), made));
    }
    return good;
}

static int variables(void)
{
    int good = 0;
    LK_POOL {
        lk_variable *v = lk_variable_of(lk_ones(LK_SHAPE(3), LK_F32), .name = "v"),
                    *h = lk_variable_of(lk_ones(LK_SHAPE(3), LK_F16));
        lk_tensor *held = lk_read(v), *view = lk_reshape(held, LK_SHAPE(3, 1)); /* writing moves them away */
        good = lk_assign_add(v, lk_ones(LK_SHAPE(3), LK_F32)) == LK_OK && lk_assign(v, lk_mul(lk_read(v), lk_scalar(2))) == LK_OK &&
               lk_assign_sub(h, lk_ones(LK_SHAPE(3), LK_F16)) == LK_OK && !lk_poisoned(view);
        good = good && lk_item(lk_reduce_sum(held)) == 3 && lk_item(lk_reduce_sum(lk_read(v))) == 12;
        lk_variables_digest(LK_VARIABLES(v, h));
    }
    return good && !lk_failed();
}

static int lists(void)
{
    int good = 0;
    LK_POOL {
        lk_tensor *x = lk_ones(LK_SHAPE(6), LK_F32), *many[40];
        for (int i = 0; i < 40; i++)
            many[i] = lk_neg(x);
        lk_tuple parts = lk_split(x, LK_AXES(1, 2, 3), 0), all = lk_tuple_from(40, many);
        good = all_good(parts) && all_good(all) && !lk_poisoned(lk_add_n(all)) && !lk_poisoned(lk_concat(all, 0));
    }
    return good && !lk_failed();
}

TEST(what_is_no_op)
{
    assert_true(making_tensors() && variables() && lists());
    check_every_allocation(making_tensors);
    check_every_allocation(variables);
    check_every_allocation(lists);
}

TESTS(cmocka_unit_test(ops_at_once), cmocka_unit_test(ops_compiled), cmocka_unit_test(what_is_no_op))
