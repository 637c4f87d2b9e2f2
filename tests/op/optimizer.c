/* Optimisers as objects: errors, values they must not change, their state, and lack of memory. Their arithmetic is compared kernel
 * by kernel in update.c and with stored results in tests/golden. */
#include "check.h"
#include "core/base.h"
#include "core/log.h"
#include <lockstep/ops.h>
#include <lockstep/optimizer.h>
#include <lockstep/step.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static char told[2000];

static void remember(const char *text, void *user)
{
    (void)user;
    snprintf(told + strlen(told), sizeof told - strlen(told), "%s\n", text);
}

static lk_variable *pair(const char *name, double a, double b)
{
    return lk_variable_of(lk_tensor_of(LK_SHAPE(2), a, b), .name = name);
}

static double item(lk_variable *v, int i) { return ((const float *)lk_data(lk_read(v)))[i]; }

static void check_refused(const lk_optimizer *o, const char *why)
{
    assert_null(o);
    assert_int_equal(lk_error_code(), LK_EINVAL);
    assert_non_null(strstr(lk_error(), why));
    lk_clear_error();
}

TEST(what_is_refused)
{
    LK_POOL {
        check_refused(lk_sgd(.clipnorm = 1, .clipvalue = 2), "at most one");
        check_refused(lk_adam(.clipnorm = 1, .global_clipnorm = 2), "at most one");
        check_refused(lk_sgd(.momentum = 1.5), "momentum is 1.5: must be from 0 to 1");
        check_refused(lk_adam(.use_ema = LK_ON, .ema_momentum = LK_NUMBER(-1)), "ema_momentum");
        check_refused(lk_adam(.gradient_accumulation_steps = -1), "gradient_accumulation_steps");
        check_refused(lk_lion(.amsgrad = LK_ON), "only adam and adamw");
        check_refused(lk_ftrl(.learning_rate_power = LK_NUMBER(0.5)), "learning_rate_power");
        check_refused(lk_sgd(.learning_rate = 1, .schedule = lk_cosine_decay(0.1, 10)), "left out");
        assert_null(lk_cosine_decay(0.1));
        assert_non_null(strstr(lk_error(), "decay_steps is 0: must be above 0"));
        lk_clear_error();
        assert_null(lk_piecewise_constant_decay(2, (double[]){4, 2}, (double[]){1, 2, 3}));
        lk_clear_error();
        assert_int_equal(lk_optimizer_apply(NULL, NULL), LK_EINVAL);
        lk_clear_error();
        assert_true(isnan(lk_optimizer_learning_rate(NULL)));
        lk_clear_error();
    }
}

TEST(gradients_that_are_missing)
{
    LK_POOL {
        lk_variable  *a = pair("a", 1, 2), *b = pair("b", 3, 4), *c = pair("c", 5, 6);
        lk_optimizer *o = lk_sgd(.learning_rate = 1);
        lk_tensor    *g = lk_tensor_of(LK_SHAPE(2), 1, 1);
        told[0] = 0;
        lk_set_log(remember, NULL);
        for (int i = 0; i < 2; i++)
            assert_int_equal(lk_optimizer_apply_gradients(o, LK_TUPLE(g, NULL), LK_VARIABLES(a, b)), LK_OK);
        lk_set_log(NULL, NULL);
        assert_string_equal(told, "WARNING:lockstep: sgd: no gradient for b: not updated\n");
        assert_true(item(a, 0) == -1 && item(b, 0) == 3);
        assert_int_equal(lk_optimizer_iterations(o), 2);
        assert_int_equal(lk_optimizer_apply_gradients(o, LK_TUPLE(NULL, NULL), LK_VARIABLES(a, b)), LK_EINVAL);
        lk_clear_error();
        assert_int_equal(lk_optimizer_apply_gradients(o, LK_TUPLE(g), LK_VARIABLES(c)), LK_EINVAL);
        assert_non_null(strstr(lk_error(), "variable c did not exist"));
        lk_clear_error();
        assert_int_equal(lk_optimizer_apply_gradients(o, LK_TUPLE(lk_tensor_of(LK_SHAPE(3), 1)), LK_VARIABLES(a)), LK_ESHAPE);
        lk_clear_error();
        assert_int_equal(lk_optimizer_apply_gradients(o, LK_TUPLE(g), LK_VARIABLES(a, b)), LK_EINVAL);
        lk_clear_error();
        assert_int_equal(lk_optimizer_iterations(o), 2);
    }
}

TEST(state)
{
    static const char *names[] = {"mine/iteration",        "mine/learning_rate", "mine/x_a_average", "mine/b_average",
                                  "mine/x_a_momentum",     "mine/x_a_velocity",  "mine/b_momentum",  "mine/b_velocity",
                                  "mine/x_a_velocity_hat", "mine/b_velocity_hat"};
    LK_POOL {
        lk_variable  *a = pair("x/a", 1, 2), *b = pair("b", 3, 4);
        lk_optimizer *o = lk_adam(.amsgrad = LK_ON, .use_ema = LK_ON, .name = "mine");
        assert_int_equal(lk_optimizer_variables(o).count, 2);
        assert_int_equal(lk_optimizer_build(o, LK_VARIABLES(a, b)), LK_OK);
        const lk_variables state = lk_optimizer_variables(o);
        assert_int_equal(state.count, LKI_COUNT(names));
        for (int i = 0; i < state.count; i++) {
            assert_string_equal(lk_variable_name(state.item[i]), names[i]);
            assert_false(lk_variable_trainable(state.item[i]));
        }
    }
}

TEST(learning_rate)
{
    LK_POOL {
        lk_optimizer *o = lk_sgd(), *s = lk_sgd(.schedule = lk_polynomial_decay(1, 4, .end_learning_rate = LK_NUMBER(0)));
        lk_variable  *v = pair("v", 10, 20);
        lk_tensor    *g = lk_tensor_of(LK_SHAPE(2), 1, 1);
        assert_true(lk_optimizer_learning_rate(o) == 0.01f);
        assert_int_equal(lk_optimizer_set_learning_rate(o, 0.5), LK_OK);
        assert_true(lk_optimizer_learning_rate(o) == 0.5);
        lk_optimizer_apply_gradients(o, LK_TUPLE(g), LK_VARIABLES(v));
        assert_true(item(v, 0) == 9.5);
        lk_optimizer_apply_gradients(s, LK_TUPLE(g), LK_VARIABLES(v));
        lk_optimizer_apply_gradients(s, LK_TUPLE(g), LK_VARIABLES(v));
        assert_true(item(v, 0) == 9.5 - 1 - 0.75);
        assert_true(lk_optimizer_learning_rate(s) == 0.5);
        assert_int_equal(lk_optimizer_set_learning_rate(s, 1), LK_EINVAL);
        lk_clear_error();
    }
}

/* The spec's example: clipping acts on the gradient as it is given. */
TEST(clipping)
{
    LK_POOL {
        lk_variable *a = pair("a", 0, 0), *b = pair("b", 0, 0);
        lk_tensor   *g = lk_tensor_of(LK_SHAPE(2), 3, 4);
        lk_optimizer_apply_gradients(lk_sgd(.learning_rate = 1, .clipnorm = 1), LK_TUPLE(g), LK_VARIABLES(a));
        assert_float_equal(item(a, 0), -0.6, 1e-7);
        assert_float_equal(item(a, 1), -0.8, 1e-7);
        lk_optimizer_apply_gradients(lk_sgd(.learning_rate = 1, .global_clipnorm = 1), LK_TUPLE(g, g), LK_VARIABLES(a, b));
        assert_float_equal(item(b, 1), -4 / sqrt(50), 1e-7);
        lk_optimizer_apply_gradients(lk_sgd(.learning_rate = 1, .clipvalue = 3.5), LK_TUPLE(lk_neg(g)), LK_VARIABLES(b));
        assert_float_equal(item(b, 1), 3.5 - 4 / sqrt(50), 1e-6);
    }
}

/* Rows that meet in one entry: their sum moves it, and the sum of their squares is remembered. */
TEST(rows)
{
    LK_POOL {
        lk_variable  *table = lk_variable_of(lk_zeros(LK_SHAPE(3, 1), LK_F32), .name = "table");
        lk_optimizer *o = lk_adagrad(.learning_rate = 1, .initial_accumulator_value = LK_NUMBER(0));
        lk_tape      *tape = lk_tape_begin();
        lk_tensor    *ids = lk_cast(lk_tensor_of(LK_SHAPE(3), 1, 2, 1), LK_I32);
        lk_tensor    *sum = lk_reduce_sum(lk_mul(lk_gather(lk_read(table), ids, 0), lk_tensor_of(LK_SHAPE(3, 1), 3, 1, 4)));
        assert_int_equal(lk_optimizer_apply(o, lk_tape_gradient(tape, sum, LK_VARIABLES(table))), LK_OK);
        assert_float_equal(item(lk_optimizer_variables(o).item[2], 1), 25, 1e-6);
        assert_float_equal(item(table, 1), -7 / 5.0, 1e-6);
        assert_float_equal(item(table, 2), -1, 1e-6);
        assert_float_equal(item(table, 0), 0, 1e-6);
    }
}

static lk_tuple asks_too_early(lk_tuple in, void *user)
{
    assert_int_equal(lk_optimizer_iterations(user), -1);
    assert_int_equal(lk_error_code(), LK_ESTATE);
    lk_clear_error();
    return LK_TUPLE(lk_neg(in.item[0]));
}

TEST(while_traced)
{
    LK_POOL {
        lk_call(lk_function_of(asks_too_early, .user = lk_sgd()), LK_TUPLE(lk_scalar(1)));
    }
}

/* ---- wrappers, and who is spared ---- */

TEST(spared_weight_decay)
{
    LK_POOL {
        lk_variable  *a = pair("x/kernel", 1, 2), *b = pair("x/bias", 1, 2), *c = pair("y/kernel", 1, 2);
        lk_tensor    *g = lk_tensor_of(LK_SHAPE(2), 0, 0);
        lk_optimizer *o = lk_sgd(.learning_rate = 1, .weight_decay = 0.5);
        assert_int_equal(lk_optimizer_exclude_from_weight_decay(o, LK_VARIABLES(c), "bi.s|gamma"), LK_OK);
        assert_int_equal(lk_optimizer_apply_gradients(o, LK_TUPLE(g, g, g), LK_VARIABLES(a, b, c)), LK_OK);
        assert_true(item(a, 0) == 0.5 && item(b, 0) == 1 && item(c, 1) == 2);
        assert_int_equal(lk_optimizer_exclude_from_weight_decay(o, LK_VARIABLES(a), NULL), LK_ESTATE);
        lk_clear_error();
        assert_int_equal(lk_optimizer_exclude_from_weight_decay(lk_sgd(), (lk_variables){0}, "("), LK_EINVAL);
        assert_non_null(strstr(lk_error(), "\"(\" is not a regular expression"));
        lk_clear_error();
    }
}

/* A gradient that is not finite changes the scale and nothing else, the moving average included. */
TEST(a_scale_that_is_too_large)
{
    LK_POOL {
        lk_variable  *v = pair("v", 1, 2);
        lk_optimizer *inner =
                         lk_sgd(.learning_rate = 1, .use_ema = LK_ON, .gradient_accumulation_steps = 1, .loss_scale_factor = 3),
                     *o = lk_loss_scale_optimizer(inner, 8, 2);
        const double good[] = {1, 1, INFINITY, 1, NAN, 1}, scale[] = {8, 16, 8, 8, 4, 4};
        double       value = 1;
        assert_true(lk_optimizer_scale_loss(o, lk_scalar(2)) && lk_item(lk_optimizer_scale_loss(o, lk_scalar(2))) == 16);
        for (int i = 0; i < 6; i++) {
            const double by = lk_item(lk_optimizer_scale_loss(o, lk_scalar(1)));
            lk_tensor   *g = lk_tensor_of(LK_SHAPE(2), good[i] * by, 0.25 * by);
            assert_int_equal(lk_optimizer_apply_gradients(o, LK_TUPLE(g), LK_VARIABLES(v)), LK_OK);
            value -= isfinite(good[i]) ? 1 : 0;
            assert_true(item(v, 0) == value);
            assert_true(lk_item(lk_optimizer_scale_loss(o, lk_scalar(1))) == scale[i]);
        }
        assert_int_equal(lk_optimizer_iterations(o), 4);
        const lk_variables state = lk_optimizer_variables(o);
        assert_int_equal(state.count, 7);
        assert_string_equal(lk_variable_name(state.item[2]), "loss_scale_optimizer/step_counter");
        assert_string_equal(lk_variable_name(state.item[4]), "sgd/iteration");
        assert_true(isfinite(item(state.item[6], 0)));
        assert_int_equal(lk_optimizer_set_learning_rate(o, 0.5), LK_OK);
        assert_true(lk_optimizer_learning_rate(inner) == 0.5 && lk_optimizer_learning_rate(o) == 0.5);
        check_refused(lk_loss_scale_optimizer(o), "wraps optimisers itself");
        check_refused(lk_loss_scale_optimizer(), "is missing");
    }
}

TEST(several_optimisers)
{
    LK_POOL {
        lk_variable  *a = pair("encoder/a", 1, 2), *b = pair("encoder/b", 1, 2), *c = pair("decoder/a", 1, 2);
        lk_tensor    *g = lk_tensor_of(LK_SHAPE(2), 1, 1);
        lk_optimizer *fast = lk_sgd(.learning_rate = 0.5, .name = "fast"), *slow = lk_sgd(.learning_rate = 0.25, .name = "slow"),
                     *still = lk_sgd(.learning_rate = LK_NUMBER(0), .name = "still");
        const char   *pattern[] = {"encoder/.*", "encoder/b"};
        lk_optimizer *o = lk_multi_optimizer(still, 2, pattern, (lk_optimizer *[]){fast, slow});
        assert_int_equal(lk_optimizer_apply_gradients(o, LK_TUPLE(g, g, g), LK_VARIABLES(a, b, c)), LK_OK);
        assert_true(item(a, 0) == 0.5 && item(b, 0) == 0.75 && item(c, 0) == 1);
        assert_int_equal(lk_optimizer_iterations(o), 1);
        assert_true(isnan(lk_optimizer_learning_rate(o)));
        lk_clear_error();
        pattern[1] = "encod.*b";
        o = lk_multi_optimizer(still, 2, pattern, (lk_optimizer *[]){lk_sgd(), lk_adam()});
        assert_int_equal(lk_optimizer_build(o, LK_VARIABLES(b)), LK_EINVAL);
        assert_non_null(strstr(lk_error(), "both match variable encoder/b"));
        lk_clear_error();
        check_refused(lk_multi_optimizer(NULL), "is missing");
    }
}

/* More boundaries than the op has room for. */
TEST(many_boundaries)
{
    LK_POOL {
        double at[20], rates[21];
        for (int i = 0; i <= 20; i++) {
            if (i < 20) at[i] = 2 * i;
            rates[i] = i + 1;
        }
        lk_schedule  *s = lk_piecewise_constant_decay(20, at, rates);
        lk_variable  *v = pair("v", 0, 0);
        lk_tensor    *g = lk_tensor_of(LK_SHAPE(2), 1, 1);
        lk_optimizer *o = lk_sgd(.schedule = s);
        double        sum = 0;
        for (int i = 0; i < 50; i++) {
            const double right = i > 38 ? 21 : (i + 1) / 2 + 1;
            assert_true(lk_schedule_at(s, i) == right && lk_optimizer_learning_rate(o) == right);
            lk_optimizer_apply_gradients(o, LK_TUPLE(g), LK_VARIABLES(v));
            assert_true(item(v, 0) == (sum -= right));
        }
    }
}

static int attempt(void)
{
    int good = 0;
    LK_POOL {
        lk_variable  *a = pair("a", 1, 2), *b = pair("b", 3, 4);
        lk_optimizer *o = lk_nadam(.use_ema = LK_ON, .gradient_accumulation_steps = 2, .global_clipnorm = 1,
                                   .schedule = lk_exponential_decay(0.1, 10, .decay_rate = 0.5));
        lk_tensor    *g = lk_tensor_of(LK_SHAPE(2), 1, 2);
        if (a && b && o)
            good = lk_optimizer_apply_gradients(o, LK_TUPLE(g, g), LK_VARIABLES(a, b)) == LK_OK &&
                   lk_optimizer_apply_gradients(o, LK_TUPLE(g, g), LK_VARIABLES(a, b)) == LK_OK &&
                   lk_optimizer_finalize(o) == LK_OK;
    }
    return good;
}

TEST(without_memory) { assert_true(check_every_allocation(attempt) > 20); }

TESTS(cmocka_unit_test(what_is_refused), cmocka_unit_test(gradients_that_are_missing), cmocka_unit_test(state),
      cmocka_unit_test(learning_rate), cmocka_unit_test(clipping), cmocka_unit_test(rows), cmocka_unit_test(while_traced),
      cmocka_unit_test(spared_weight_decay), cmocka_unit_test(a_scale_that_is_too_large), cmocka_unit_test(several_optimisers),
      cmocka_unit_test(many_boundaries), cmocka_unit_test(without_memory))
