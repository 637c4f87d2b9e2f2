/* f16 and bf16 are storage: an op on them is the op in f32, its result rounded once; sums run in f32; gradients come in their type;
 * compiled and op by op agree. */
#include "check.h"
#include "core/dtype.h"
#include "op/programs.h"
#include "op/tensor.h"
#include <math.h>
#include <stdio.h>

static const lk_dtype halves[] = {LK_F16, LK_BF16};

static double at(const lk_tensor *t, int64_t i) { return lki_element_get(lk_tensor_dtype(t), lk_data(t), i); }

/* Equal elements, any NaN as good as another. */
static bool same(const lk_tensor *a, const lk_tensor *b)
{
    if (lk_poisoned(a) || lk_poisoned(b) || lk_tensor_dtype(a) != lk_tensor_dtype(b) || lk_size(a) != lk_size(b)) return false;
    for (int64_t i = 0; i < lk_size(a); i++)
        if (at(a, i) != at(b, i) && !(isnan(at(a, i)) && isnan(at(b, i)))) return false;
    return true;
}

static lk_tuple cast_floats(lk_tuple t, lk_dtype to)
{
    lk_tensor *item[8];
    for (int i = 0; i < t.count; i++)
        item[i] = lki_is_float(lk_tensor_dtype(t.item[i])) ? lk_cast(t.item[i], to) : t.item[i];
    return lk_tuple_from(t.count, item);
}

static int rounds_once(const program *p, lk_dtype half)
{
    int bad = 0;
    LK_POOL {
        lk_tuple in = program_inputs(p, half, 5, true, 0, 0), out = p->fn(in, NULL), wide = p->fn(cast_floats(in, LK_F32), NULL);
        for (int i = 0; i < out.count && !bad; i++) {
            lk_tensor *want = lk_tensor_dtype(wide.item[i]) == LK_F32 ? lk_cast(wide.item[i], half) : wide.item[i];
            bad = !same(out.item[i], want);
            if (bad)
                print_error("%s in %s: result %d: %s\n", p->name, lk_dtype_name(half), i,
                            lk_failed() ? lk_error() : "differs from f32 rounded");
        }
        bad = bad || lk_failed();
        lk_clear_error();
    }
    return bad;
}

TEST(one_op_is_the_f32_op_rounded)
{
    int bad = 0;
    for (int h = 0; h < LKI_COUNT(halves); h++)
        for (int i = 0; i < LKI_COUNT(programs); i++)
            if (programs[i].flags & P) bad += rounds_once(&programs[i], halves[h]);
    assert_int_equal(bad, 0);
}

static int compiles(const program *p, lk_dtype half)
{
    int bad = 0;
    LK_POOL {
        lk_tuple in = program_inputs(p, half, 5, true, 0, 0), eager = program_with_gradient(in, (void *)p),
                 compiled = lk_call(lk_function_of(program_with_gradient, (void *)p), in);
        bad = lk_failed() || eager.count != compiled.count;
        for (int i = 0; i < eager.count && !bad; i++)
            bad = !same(eager.item[i], compiled.item[i]);
        if (bad) print_error("%s in %s: %s\n", p->name, lk_dtype_name(half), lk_failed() ? lk_error() : "compiled differs");
        lk_clear_error();
    }
    return bad;
}

TEST(every_program_compiled_equals_op_by_op)
{
    int bad = 0;
    lk_set_threads(2);
    for (int h = 0; h < LKI_COUNT(halves); h++)
        for (int i = 0; i < LKI_COUNT(programs); i++)
            bad += compiles(&programs[i], halves[h]);
    lk_set_threads(0);
    assert_int_equal(bad, 0);
}

TEST(sums_run_in_f32)
{
    LK_POOL
        for (int h = 0; h < LKI_COUNT(halves); h++) {
            lk_tensor *ones = lk_ones(LK_SHAPE(4096), halves[h]), *row = lk_reshape(ones, LK_SHAPE(1, 4096));
            assert_true(lk_item(lk_reduce_sum(ones)) == 4096); /* f16 alone would stop at 2048, bf16 at 256 */
            assert_true(lk_item(lk_matmul(row, row, .transpose_b = LK_ON)) == 4096);
            assert_true(lk_item(lk_reduce_mean(ones)) == 1);
            assert_int_equal(lk_tensor_dtype(lk_reduce_sum(ones)), halves[h]);
        }
    assert_false(lk_failed());
}

TEST(gradients_have_the_type_of_their_variable)
{
    LK_POOL
        for (int h = 0; h < LKI_COUNT(halves); h++) {
            lk_variable *w = lk_variable_of(lk_ones(LK_SHAPE(3, 2), halves[h]));
            lk_tape     *tape = lk_tape_begin();
            lk_tensor   *y = lk_matmul(lk_ones(LK_SHAPE(4, 3), halves[h]), lk_read(w));
            lk_tensor   *wide = lk_reduce_sum(lk_square(lk_cast(y, LK_F32))); /* a loss in f32 above layers in 16 bits */
            lk_tensor   *d = lk_grads_item(lk_tape_gradient(tape, wide, LK_VARIABLES(w)), 0);
            assert_int_equal(lk_tensor_dtype(d), halves[h]);
            for (int i = 0; i < 6; i++)
                assert_true(at(d, i) == 24);
        }
    assert_false(lk_failed());
}

TEST(a_row_with_nothing_to_attend_to_stays_finite)
{
    LK_POOL
        for (int h = 0; h < LKI_COUNT(halves); h++) {
            lk_tensor *x = program_floats(LK_SHAPE(1, 2, 3), halves[h], -1, 1, 0);
            lk_tensor *y = lk_nn_attention(x, x, x, lk_tensor_from(LK_SHAPE(2, 2), LK_BOOL, (uint8_t[]){0, 0, 1, 0}));
            for (int64_t i = 0; i < lk_size(y); i++)
                assert_true(isfinite(at(y, i)));
        }
    assert_false(lk_failed());
}

TESTS(cmocka_unit_test(one_op_is_the_f32_op_rounded), cmocka_unit_test(every_program_compiled_equals_op_by_op),
      cmocka_unit_test(sums_run_in_f32), cmocka_unit_test(gradients_have_the_type_of_their_variable),
      cmocka_unit_test(a_row_with_nothing_to_attend_to_stays_finite))
