/* Constraints: Keras' numbers, and that optimisers apply them, at once, compiled and over replicas. */
#include "layer/constraint.h"
#include "layer/fields.h"
#include "layer/replicas.h"

/* ---- the formulas; the numbers are Keras' ---- */

TEST(numbers_of_keras)
{
    LK_POOL {
        lk_tensor *w = numbers(LK_SHAPE(3, 4), 5, 0, 9, 2), *k = numbers(LK_SHAPE(2, 1, 2, 2), 5, 1, 9, 2);
        CLOSE(lk_constraint_call(lk_max_norm(), w), -1.78885436, 0.392232269, -1.49999988, 0.742781341, -0.89442718, 1.17669678,
              -0.49999997, 1.48556268, 0, -1.56892908, 0.49999997, -1.11417198);
        CLOSE(lk_constraint_call(lk_max_norm(LK_NUMBER(1.5), .axis = LK_AXES(1)), w), -1.09544504, 0.273861259, -0.821583748,
              0.547722518, -0.547722518, 0.821583748, -0.273861259, 1.09544504, 0, -1.17669678, 0.294174194, -0.882522583);
        CLOSE(lk_constraint_call(lk_max_norm(LK_NUMBER(1), .axis = LK_AXES(0, 1, 2)), k), -0.801783621, 0.298142403, -0.534522414,
              0.44721359, -0.267261207, 0.596284807, 0, -0.596284807);
        CLOSE(lk_constraint_call(lk_min_max_norm(), w), -0.89442718, 0.196116135, -0.904533982, 0.371390671, -0.44721359,
              0.588348389, -0.301511317, 0.742781341, 0, -0.784464538, 0.301511317, -0.557085991);
        CLOSE(lk_constraint_call(lk_min_max_norm(LK_NUMBER(4), .min_value = 3.5, .rate = LK_NUMBER(0.25), .axis = LK_AXES(1)), w),
              -2.13900948, 0.534752369, -1.60425711, 1.06950474, -1.06950474, 1.60425711, -0.534752369, 2.13900948, 0, -2.18640637,
              0.546601593, -1.63980484);
        CLOSE(lk_constraint_call(lk_non_neg(), w), 0, 0.5, 0, 1, 0, 1.5, 0, 2, 0, 0, 0.5, 0);
        CLOSE(lk_constraint_call(lk_unit_norm(), w), -0.89442718, 0.196116135, -0.904533923, 0.371390671, -0.44721359, 0.588348389,
              -0.301511317, 0.742781341, 0, -0.784464538, 0.301511317, -0.557086051);
        CLOSE(lk_constraint_call(lk_unit_norm(.axis = LK_AXES(0, 1, 2)), k), -0.801783681, 0.298142403, -0.534522414, 0.44721359,
              -0.267261207, 0.596284807, 0, -0.596284807);
        CLOSE(lk_constraint_call(lk_unit_norm(), lk_zeros(LK_SHAPE(2, 1), LK_F32)), 0, 0);
        assert_int_equal(lk_tensor_dtype(lk_constraint_call(lk_max_norm(), lk_zeros(LK_SHAPE(2, 1), LK_F64))), LK_F64);
        FINE();
    }
}

TEST(what_a_file_says)
{
    LK_POOL {
        static const char *const text[] = {"max_value=2 axis=[0]", "min_value=0 max_value=1 rate=1 axis=[0]", "", "axis=[0]"};
        static const char *const name[] = {"MaxNorm", "MinMaxNorm", "NonNeg", "UnitNorm"};
        lk_constraint           *all[] = {lk_max_norm(), lk_min_max_norm(), lk_non_neg(), lk_unit_norm()};
        for (int i = 0; i < 4; i++) {
            assert_string_equal(all[i]->class->name, name[i]);
            assert_true(says(all[i]->class, &all[i]->set, text[i]));
            assert_ptr_equal(((lk_constraint *)all[i]->class->make(&all[i]->set))->class, all[i]->class);
        }
        assert_null(lki_constraint_classes[4].name);
        FINE();
    }
}

TEST(mistakes)
{
    LK_POOL {
        lk_tensor *w = lk_ones(LK_SHAPE(2, 2), LK_F32);
        REFUSED(LK_EINVAL, !lk_max_norm(LK_NUMBER(-1)), "lk_max_norm", "max_value is -1");
        REFUSED(LK_EINVAL, !lk_max_norm(.rate = LK_NUMBER(1)), "lk_max_norm", "rate", "MaxNorm");
        REFUSED(LK_EINVAL, !lk_max_norm(.min_value = 1), "min_value", "MaxNorm");
        REFUSED(LK_EINVAL, !lk_unit_norm(LK_NUMBER(1)), "lk_unit_norm", "max_value", "UnitNorm");
        REFUSED(LK_EINVAL, !lk_min_max_norm(.min_value = 2), "min_value 2 is above max_value 1");
        REFUSED(LK_EINVAL, !lk_min_max_norm(.min_value = -2), "min_value is -2");
        REFUSED(LK_EINVAL, !lk_min_max_norm(.rate = LK_NUMBER(1.5)), "rate is 1.5", "from 0 to 1");
        REFUSED_TENSOR(LK_EINVAL, lk_constraint_call(lk_max_norm(.axis = LK_AXES(2)), w), "MaxNorm", "axis 2", "[2, 2]");
        REFUSED_TENSOR(LK_EINVAL, lk_constraint_call(NULL, w), "the constraint is NULL");
        REFUSED_TENSOR(LK_EINVAL, lk_constraint_call((lk_constraint *)w, w), "not a constraint");
        REFUSED_TENSOR(LK_EINVAL, lk_constraint_call(lk_non_neg(), NULL), "lk_constraint_call", "weight");
        REFUSED(LK_EINVAL, !lk_dense(1, .kernel_constraint = (lk_constraint *)lk_l2(1)), "kernel_constraint", "not a constraint");
        FINE();
    }
}

/* ---- optimisers ---- */

static lk_model *constrained(void)
{
    return lk_sequential(lk_dense(6, .activation = LK_TANH, .kernel_constraint = lk_max_norm(LK_NUMBER(0.8)), .name = "a"),
                         lk_dense(3, .kernel_constraint = lk_unit_norm(), .bias_constraint = lk_non_neg(), .name = "b"));
}

static lk_model *unconstrained(void)
{
    return lk_sequential(lk_dense(6, .activation = LK_TANH, .name = "a"), lk_dense(3, .name = "b"));
}

static lk_optimizer *sgd(void) { return lk_sgd(.learning_rate = 0.5, .momentum = 0.5); }
static lk_optimizer *averaging(void)
{
    return lk_adam(.learning_rate = 0.1, .use_ema = LK_ON, .ema_momentum = LK_NUMBER(0.5), .ema_overwrite_frequency = 2);
}
static lk_optimizer *accumulating(void) { return lk_sgd(.learning_rate = 0.5, .gradient_accumulation_steps = 2); }

/* What the constraints say, by hand, after each step of a model that has none. */
static void constrain_by_hand(lk_model *m)
{
    lk_constraint *each[4] = {lk_max_norm(LK_NUMBER(0.8)), NULL, lk_unit_norm(), lk_non_neg()};
    lk_variables   w = lk_model_weights(m);
    for (int i = 0; i < 4; i++)
        if (each[i]) lk_assign(w.item[i], lk_constraint_call(each[i], lk_read(w.item[i])));
}

static void follows_each_update(lk_optimizer *(*optimizer)(void))
{
    LK_POOL {
        trainer    free = {.model = unconstrained(), .optimizer = optimizer()};
        trainer    bound = {.model = constrained(), .optimizer = optimizer()};
        lk_tensor *x = lk_random_normal(LK_SHAPE(GLOBAL_ROWS, 5), .stream = "x");
        for (int i = 0; i < 5; i++) {
            train_step(LK_TUPLE(x), &free);
            constrain_by_hand(free.model);
            train_step(LK_TUPLE(x), &bound);
            FINE();
            for (int k = 0; k < 4; k++)
                assert_true(
                    same_bits(lk_read(lk_model_weights(free.model).item[k]), lk_read(lk_model_weights(bound.model).item[k])));
        }
        lk_variables a = lk_optimizer_variables(free.optimizer), b = lk_optimizer_variables(bound.optimizer);
        assert_int_equal(a.count, b.count);
        for (int k = 0; k < a.count; k++) /* averages too, which Keras takes before */
            assert_true(same_bits(lk_read(a.item[k]), lk_read(b.item[k])));
        const float *bias = lk_data(lk_read(lk_model_weights(bound.model).item[3]));
        for (int k = 0; k < 3; k++)
            assert_true(bias[k] >= 0);
        FINE();
    }
}

TEST(after_each_update) { follows_each_update(sgd); }
TEST(after_the_averages) { follows_each_update(averaging); }
TEST(on_every_call_that_accumulates) { follows_each_update(accumulating); }

TEST(compiled_and_over_replicas)
{
    same_on_replicas("sgd", constrained, sgd, LK_SHAPE(5));
    same_on_replicas("adam with averages", constrained, averaging, LK_SHAPE(5));
}

/* A variable without a gradient is left as it is. */
TEST(only_what_was_updated)
{
    LK_POOL {
        lk_model *m = constrained();
        lk_model_build(m, LK_SHAPE(5));
        lk_variables  w = lk_model_weights(m);
        lk_tensor    *before = lk_identity(lk_read(w.item[2]));
        lk_optimizer *o = sgd();
        lk_optimizer_apply_gradients(o, LK_TUPLE(lk_ones(LK_SHAPE(5, 6), LK_F32)), LK_VARIABLES(w.item[0]));
        assert_true(same_bits(before, lk_read(w.item[2])));
        const float *k = lk_data(lk_read(w.item[0]));
        for (int c = 0; c < 6; c++) {
            double norm = 0;
            for (int r = 0; r < 5; r++)
                norm += (double)k[r * 6 + c] * k[r * 6 + c];
            assert_true(sqrt(norm) <= 0.8 + 1e-6);
        }
        FINE();
    }
}

TESTS(cmocka_unit_test(numbers_of_keras), cmocka_unit_test(what_a_file_says), cmocka_unit_test(mistakes),
      cmocka_unit_test(after_each_update), cmocka_unit_test(after_the_averages), cmocka_unit_test(on_every_call_that_accumulates),
      cmocka_unit_test(compiled_and_over_replicas), cmocka_unit_test(only_what_was_updated))
