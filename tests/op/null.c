/* The null device has memory and no arithmetic: everything above the kernels (checks, shapes, tapes, tracing, planning, replay,
 * updates) runs on it, and results are the zeros that memory is initialised with. */
#include "check.h"
#include "device/device.h"
#include "op/programs.h"
#include "op/tensor.h"
#include "step/models.h"
#include <stdio.h>

static int on_null(void **state)
{
    (void)state;
    lki_device_set_current(lki_device_null());
    return 0;
}

static int on_cpu(void **state)
{
    (void)state;
    lki_device_set_current(NULL);
    lk_set_threads(0);
    return 0;
}

static bool all_zero(const lk_tensor *t)
{
    const char *data = lk_data(t);
    for (size_t i = 0; i < (size_t)lk_size(t) * lk_dtype_bytes(lk_tensor_dtype(t)); i++)
        if (data[i]) return false;
    return true;
}

TEST(ops_check_and_compute_nothing)
{
    LK_POOL {
        lk_tensor *x = lk_ones(LK_SHAPE(2, 3), LK_F32); /* filling is not an op */
        lk_tensor *y = lk_matmul(lk_exp(x), x, .transpose_b = LK_ON);
        assert_ptr_equal(y->buffer->device, lki_device_null());
        assert_int_equal(lk_dim(y, 1), 2);
        assert_true(all_zero(y));
        assert_true(lk_poisoned(lk_matmul(x, x)));
        assert_int_equal(lk_error_code(), LK_ESHAPE);
        lk_clear_error();
    }
    assert_false(lk_failed());
}

TEST(every_program_runs)
{
    for (int i = 0; i < LKI_COUNT(programs); i++)
        LK_POOL {
            lk_tuple in = program_inputs(&programs[i], LK_F32, 4, true, 0, 0), eager = programs[i].fn(in, NULL),
                     compiled = lk_call(lk_function_of(programs[i].fn), in);
            if (lk_failed()) print_error("%s: %s\n", programs[i].name, lk_error());
            assert_false(lk_failed());
            assert_int_equal(eager.count, compiled.count);
            for (int k = 0; k < eager.count; k++)
                assert_int_equal(lk_size(eager.item[k]), lk_size(compiled.item[k]));
        }
}

static void train(int threads, bool compiled)
{
    lk_set_threads(threads);
    LK_POOL {
        model        m = model_new(2, 64);
        lk_digest    before = lk_variables_digest(model_variables(&m));
        lk_function *f = lk_function_of(model_step, &m);
        for (int step = 0; step < 3; step++)
            LK_STEP {
                lk_tuple batch = model_batch(&m, 64, 0), out = compiled ? lk_call(f, batch) : model_step(batch, &m);
                if (lk_failed()) print_error("%s\n", lk_error());
                assert_false(lk_failed());
                assert_int_equal(out.count, 2);
                assert_true(lk_item(out.item[0]) == 0);
            }
        lk_function_info info = lk_function_inspect(f);
        if (compiled) {
            assert_int_equal(info.traces, 1);
            assert_true(info.calls > 50);
            assert_true(info.memory > 0);
        }
        lk_digest after = lk_variables_digest(model_variables(&m));
        assert_memory_equal(before.byte, after.byte, sizeof before.byte); /* nothing was added to them */
    }
}

TEST(a_whole_step)
{
    train(1, false);
    for (int threads = 1; threads <= 3; threads++)
        train(threads, true);
}

TEST(plans_of_the_cpu_are_not_used_here)
{
    LK_POOL {
        lk_tensor *x = lk_rows(lk_ones(LK_SHAPE(4, 3), LK_F32), 0);
        for (int i = 0; i < LKI_COUNT(programs); i++) {
            if (strcmp(programs[i].name, "exp") != 0) continue;
            lk_function *f = lk_function_of(programs[i].fn);
            lki_device_set_current(NULL);
            assert_false(all_zero(lk_call(f, LK_TUPLE(x)).item[0]));
            lki_device_set_current(lki_device_null());
            assert_true(all_zero(lk_call(f, LK_TUPLE(x)).item[0]));
            assert_int_equal(lk_function_inspect(f).plans, 2);
        }
    }
    assert_false(lk_failed());
}

#define ON_NULL(test) cmocka_unit_test_setup_teardown(test, on_null, on_cpu)
TESTS(ON_NULL(ops_check_and_compute_nothing), ON_NULL(every_program_runs), ON_NULL(a_whole_step),
      ON_NULL(plans_of_the_cpu_are_not_used_here))
