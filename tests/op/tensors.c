/* Tensors: making, reading, printing, converting, plain numbers, lists, lifetimes; variables and their digest. */
#include "check.h"
#include "core/dtype.h"
#include "op/tensor.h"
#include <lockstep.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void no_error(void)
{
    if (lk_failed()) print_error("%s\n", lk_error());
    assert_false(lk_failed());
}

static double at(const lk_tensor *t, int64_t i) { return lki_element_get(lk_tensor_dtype(t), lk_data(t), i); }

/* ---- making ---- */

TEST(from_values)
{
    LK_POOL {
        lk_tensor *x = lk_tensor_of(LK_SHAPE(2, 3), 1, 2, 3, 4);
        assert_int_equal(lk_rank(x), 2);
        assert_int_equal(lk_dim(x, 0), 2);
        assert_int_equal(lk_dim(x, -1), 3);
        assert_int_equal(lk_size(x), 6);
        assert_int_equal(lk_tensor_dtype(x), LK_F32);
        const double want[] = {1, 2, 3, 4, 4, 4}; /* the last one repeats */
        for (int i = 0; i < 6; i++)
            assert_true(at(x, i) == want[i]);
        assert_true(lk_item(lk_tensor_of(LK_SHAPE(1, 1), 7)) == 7);
        assert_true(lk_item(lk_tensor_of(LK_SHAPE(), 7)) == 7);
        assert_int_equal(lk_size(lk_tensor_of_values(LK_SHAPE(0, 3), 0, (double[]){0})), 0);
        assert_int_equal(lk_size(lk_tensor_of(LK_SHAPE(1, 1, 1, 1, 1, 1, 1, 2), 1)), 2);
    }
    no_error();
}

TEST(of_every_type)
{
    LK_POOL
        for (int t = 0; t < LK_DTYPE_COUNT; t++) {
            lk_dtype   dtype = (lk_dtype)t;
            lk_tensor *zero = lk_zeros(LK_SHAPE(3), dtype), *one = lk_ones(LK_SHAPE(3, 2), dtype),
                      *fill = lk_fill(LK_SHAPE(5), dtype, 3), *range = lk_range(4, dtype);
            for (int i = 0; i < 3; i++)
                assert_true(at(zero, i) == 0);
            for (int i = 0; i < 6; i++)
                assert_true(at(one, i) == 1);
            for (int i = 0; i < 5; i++)
                assert_true(at(fill, i) == (dtype == LK_BOOL ? 1 : 3));
            for (int i = 0; i < 4; i++)
                assert_true(at(range, i) == (dtype == LK_BOOL ? i > 0 : i));
            lk_tensor *copy = lk_tensor_from(LK_SHAPE(4), dtype, lk_data(range));
            assert_memory_equal(lk_data(copy), lk_data(range), 4 * lk_dtype_bytes(dtype));
            assert_int_equal(lk_size(lk_range(0, dtype)), 0);
            assert_true(lk_item(lk_fill(LK_SHAPE(), dtype, 1)) == 1);
        }
    no_error();
}

TEST(data_is_copied_and_aligned)
{
    float m[3] = {1, 2, 3};
    LK_POOL {
        lk_tensor *x = lk_tensor_from(LK_SHAPE(3), LK_F32, m);
        m[0] = 9;
        assert_true(at(x, 0) == 1);
        assert_int_equal((uintptr_t)lk_data(x) % 64, 0);
    }
    no_error();
}

/* ---- printing ---- */

static char   printed[1 << 16];
static size_t printed_length;

static void collect(const char *text, void *user)
{
    (void)user;
    printed_length += (size_t)snprintf(printed + printed_length, sizeof printed - printed_length, "%s", text);
}

static const char *print(const lk_tensor *t)
{
    printed_length = 0;
    printed[0] = 0;
    lk_set_output(collect, NULL);
    lk_print(t);
    lk_set_output(NULL, NULL);
    return printed;
}

TEST(printing)
{
    LK_POOL {
        assert_string_equal(print(lk_tensor_of(LK_SHAPE(2, 2), 1, 2, 3, 4)), "[[1, 2], [3, 4]]\n");
        assert_string_equal(print(lk_scalar(0.1)), "0.1\n");
        assert_string_equal(print(lk_tensor_of(LK_SHAPE(3), 1e10, -1.5, 1.0 / 3)), "[1e+10, -1.5, 0.3333333]\n");
        assert_string_equal(print(lk_fill(LK_SHAPE(1), LK_F64, 1.0 / 3)), "[0.333333333333333]\n");
        assert_string_equal(print(lk_tensor_of(LK_SHAPE(2, 1, 2), 1, 2, 3, 4)), "[[[1, 2]], [[3, 4]]]\n");
        assert_string_equal(print(lk_zeros(LK_SHAPE(0), LK_F32)), "[]\n");
        assert_string_equal(print(lk_zeros(LK_SHAPE(2, 0), LK_F32)), "[[], []]\n");
        assert_string_equal(print(lk_tensor_from(LK_SHAPE(2), LK_BOOL, (uint8_t[]){1, 0})), "[true, false]\n");
        assert_string_equal(print(lk_tensor_from(LK_SHAPE(2), LK_I64, (int64_t[]){INT64_MAX, INT64_MIN})),
                            "[9223372036854775807, -9223372036854775808]\n");
        assert_string_equal(print(lk_tensor_from(LK_SHAPE(2), LK_I32, (int32_t[]){123456789, -2147483647})),
                            "[123456789, -2147483647]\n");
        assert_string_equal(print(lk_tensor_from(LK_SHAPE(2), LK_U8, (uint8_t[]){255, 0})), "[255, 0]\n");
        assert_string_equal(print(lk_fill(LK_SHAPE(1), LK_F16, 0.5)), "[0.5]\n");
        assert_string_equal(print(lk_fill(LK_SHAPE(1), LK_BF16, -3)), "[-3]\n");
        assert_string_equal(print(lk_tensor_of(LK_SHAPE(3), INFINITY, -INFINITY, NAN)), "[inf, -inf, nan]\n");
        assert_string_equal(print(lk_div(lk_zeros(LK_SHAPE(1), LK_F32), lk_zeros(LK_SHAPE(1), LK_F32))), "[nan]\n");
    }
    no_error();
}

TEST(long_tensors_are_shortened)
{
    LK_POOL {
        assert_string_equal(print(lk_range(1001, LK_I32)), "[0, 1, 2, ..., 998, 999, 1000]\n");
        assert_non_null(strstr(print(lk_range(1000, LK_I32)), "499, 500, 501"));
        assert_string_equal(
            print(lk_reshape(lk_range(1400, LK_I32), LK_SHAPE(7, 200))),
            "[[0, 1, 2, ..., 197, 198, 199], [200, 201, 202, ..., 397, 398, 399], [400, 401, 402, ..., 597, 598, 599], ..., "
            "[800, 801, 802, ..., 997, 998, 999], [1000, 1001, 1002, ..., 1197, 1198, 1199], [1200, 1201, 1202, ..., 1397, 1398, "
            "1399]]\n");
        assert_string_equal(print(lk_reshape(lk_range(1200, LK_I32), LK_SHAPE(600, 2))),
                            "[[0, 1], [2, 3], [4, 5], ..., [1194, 1195], [1196, 1197], [1198, 1199]]\n");
    }
    no_error();
}

static lk_tuple prints_inside(lk_tuple in, void *user)
{
    (void)user;
    print(in.item[0]);
    return in;
}

TEST(printing_what_has_no_value)
{
    LK_POOL {
        assert_string_equal(print(lk_exp(NULL)), "poisoned: exp: operand 1 is NULL\n");
        assert_int_equal(lk_error_code(), LK_EINVAL);
        lk_clear_error();
        lk_call(lk_function_of(prints_inside), LK_TUPLE(lk_zeros(LK_SHAPE(2, 3), LK_F32)));
        assert_string_equal(printed, "traced f32 [2, 3]\n");
    }
    no_error();
}

/* ---- types ---- */

TEST(casts_between_all_types)
{
    const double values[] = {0,   1,   -1,   2.5,  -2.5,  3.999, 127,     255,      256,       -129, 65504,
                             1e6, 3e9, -3e9, 1e19, -1e19, 0.1,   1.0 / 3, INFINITY, -INFINITY, NAN};
    LK_POOL
        for (int from = 0; from < LK_DTYPE_COUNT; from++)
            for (int to = 0; to < LK_DTYPE_COUNT; to++) {
                lk_tensor *x = lk_zeros(LK_SHAPE(LKI_COUNT(values)), (lk_dtype)from),
                          *want = lk_zeros(LK_SHAPE(LKI_COUNT(values)), (lk_dtype)to);
                for (int i = 0; i < LKI_COUNT(values); i++)
                    lki_element_set((lk_dtype)from, x->data, i, values[i]);
                for (int i = 0; i < LKI_COUNT(values); i++) {
                    int64_t whole = from == LK_I64   ? ((int64_t *)x->data)[i]
                                    : from == LK_I32 ? ((int32_t *)x->data)[i]
                                    : from == LK_U8  ? ((uint8_t *)x->data)[i]
                                                     : 0;
                    if (lki_is_int((lk_dtype)from) && lki_is_int((lk_dtype)to)) /* wraps, as in C */
                        memcpy((char *)want->data + (size_t)i * lk_dtype_bytes((lk_dtype)to), &whole, lk_dtype_bytes((lk_dtype)to));
                    else /* floats saturate */ lki_element_set((lk_dtype)to, want->data, i, at(x, i));
                }
                lk_tensor *y = lk_cast(x, (lk_dtype)to);
                assert_int_equal(lk_tensor_dtype(y), to);
                for (int i = 0; i < LKI_COUNT(values); i++) {
                    bool nan = isnan(at(y, i)) && isnan(at(want, i));
                    if (!nan && memcmp((char *)y->data + (size_t)i * lk_dtype_bytes((lk_dtype)to),
                                       (char *)want->data + (size_t)i * lk_dtype_bytes((lk_dtype)to), lk_dtype_bytes((lk_dtype)to)))
                        fail_msg("%s to %s: %g became %g, not %g", lk_dtype_name((lk_dtype)from), lk_dtype_name((lk_dtype)to),
                                 at(x, i), at(y, i), at(want, i));
                }
            }
    no_error();
}

/* A plain number takes the type of what it meets; two of them are f32. */
TEST(plain_numbers)
{
    static const lk_dtype takes[] = {LK_F32, LK_F64, LK_F16, LK_BF16, LK_I32, LK_I64};
    LK_POOL {
        for (int i = 0; i < LKI_COUNT(takes); i++) {
            lk_tensor *x = lk_fill(LK_SHAPE(2), takes[i], 5);
            lk_tensor *sum = lk_add(x, lk_scalar(2)), *difference = lk_sub(lk_scalar(2), x);
            assert_int_equal(lk_tensor_dtype(sum), takes[i]);
            assert_int_equal(lk_tensor_dtype(difference), takes[i]);
            assert_true(at(sum, 1) == 7);
            assert_true(at(difference, 0) == -3);
            assert_int_equal(lk_tensor_dtype(lk_where(lk_greater(x, lk_scalar(1)), x, lk_scalar(0))), takes[i]);
        }
        assert_int_equal(lk_tensor_dtype(lk_mul(lk_scalar(2), lk_scalar(3))), LK_F32);
        lk_tensor *sum = lk_add(lk_scalar(1), lk_scalar(1)); /* no plain number any more */
        assert_true(lk_poisoned(lk_add(sum, lk_ones(LK_SHAPE(2), LK_F64))));
        assert_int_equal(lk_error_code(), LK_EDTYPE);
        lk_clear_error();
        lk_variable *v = lk_variable_of(lk_fill(LK_SHAPE(), LK_I64, 5));
        assert_int_equal(lk_assign_add(v, lk_scalar(3)), LK_OK);
        assert_true(lk_item(lk_read(v)) == 8);
    }
    no_error();
}

TEST(a_plain_number_keeps_its_gradient)
{
    LK_POOL {
        lk_tensor *k = lk_scalar(3), *x = lk_fill(LK_SHAPE(2), LK_F64, 5);
        lk_tape   *tape = lk_tape_begin();
        lk_tape_watch(tape, k);
        lk_tensor *d = lk_tape_gradient_of(tape, lk_reduce_sum(lk_mul(x, k)), LK_TUPLE(k), NULL).item[0];
        assert_non_null(d);
        assert_true(lk_item(d) == 10);
        assert_int_equal(lk_tensor_dtype(d), LK_F32);
    }
    no_error();
}

/* ---- lists ---- */

TEST(lists)
{
    LK_POOL {
        lk_tensor *x = lk_scalar(1), *many[20];
        lk_tuple   t = LK_TUPLE(x, NULL, x);
        assert_int_equal(t.count, 3);
        assert_ptr_equal(t.item[0], x);
        assert_null(t.item[1]);
        for (int i = 3; i < 8; i++)
            assert_true(lk_poisoned(t.item[i]));
        assert_int_equal(LK_TUPLE().count, 0);
        for (int i = 0; i < 20; i++)
            many[i] = lk_scalar(i);
        t = lk_tuple_from(20, many);
        assert_true(lk_item(t.item[19]) == 19);
        assert_int_equal(lk_tuple_from(-1, NULL).count, 0);
        assert_true(lk_poisoned(lk_tuple_from(3, NULL).item[0]));
        assert_int_equal(lk_error_code(), LK_EINVAL);
        lk_clear_error();
    }
    no_error();
}

/* ---- lifetimes ---- */

TEST(a_step_takes_its_tensors_with_it)
{
    int64_t before = lki_memory_in_use();
    LK_POOL {
        lk_tensor *kept = NULL;
        int64_t    outside = lki_memory_in_use();
        LK_STEP {
            lk_tensor *x = lk_ones(LK_SHAPE(1000), LK_F32);
            kept = lk_keep(lk_add(x, lk_scalar(1)));
            lk_keep(lk_matmul(x, x)); /* poison may be kept, and need not */
            lk_clear_error();
        }
        assert_true(at(kept, 999) == 2);
        assert_true(lki_memory_in_use() > outside);
        assert_true(lki_memory_in_use() < outside + 8000); /* one tensor, not three */
        lk_free(kept);
        assert_int_equal(lki_memory_in_use(), outside);
    }
    assert_int_equal(lki_memory_in_use(), before);
    no_error();
}

TEST(a_view_keeps_its_elements)
{
    LK_POOL {
        lk_tensor *x = lk_range(6, LK_F32), *y = lk_reshape(x, LK_SHAPE(2, 3)), *z = lk_rows(y, 0);
        assert_ptr_equal(lk_data(x), lk_data(z)); /* the same ones */
        lk_free(x);
        lk_free(y);
        assert_true(at(z, 5) == 5);
    }
    no_error();
}

static lk_tensor *left_by_return(void)
{
    LK_STEP
        return lk_keep(lk_ones(LK_SHAPE(3), LK_F32));
    return NULL;
}

TEST(leaving_a_step_by_return)
{
    int64_t before = lki_memory_in_use();
    LK_POOL {
        lk_tensor *x = left_by_return();
        assert_true(at(x, 2) == 1);
        for (int i = 0; i < 5; i++)
            LK_STEP {
                lk_ones(LK_SHAPE(100), LK_F32);
                if (i == 2) continue;
                if (i == 3) break;
            }
        lk_free(NULL);
    }
    assert_int_equal(lki_memory_in_use(), before);
    no_error();
}

/* ---- variables ---- */

TEST(readers_keep_the_value_they_saw)
{
    LK_POOL {
        lk_variable *v = lk_variable_of(lk_tensor_of(LK_SHAPE(3), 1, 2, 3), .name = "v");
        lk_tensor   *old = lk_read(v), *view = lk_reshape(old, LK_SHAPE(3, 1)), *other = lk_read(v);
        const void  *storage = lk_data(lk_read(v));
        lk_free(other);
        assert_int_equal(lk_assign(v, lk_mul(old, lk_scalar(10))), LK_OK);
        assert_true(at(old, 2) == 3);
        assert_true(at(view, 2) == 3);
        assert_ptr_equal(lk_data(lk_read(v)), storage); /* storage never moves */
        assert_true(at(lk_read(v), 2) == 30);
        assert_int_equal(lk_assign_sub(v, lk_read(v)), LK_OK);
        assert_true(at(lk_read(v), 2) == 0);
        lk_tensor *last = lk_read(v);
        lk_free(v);
        assert_true(at(last, 0) == 0);
        assert_true(at(view, 0) == 1);
    }
    no_error();
}

TEST(variables_of_every_type)
{
    LK_POOL
        for (int t = 0; t < LK_DTYPE_COUNT; t++) {
            lk_variable *v = lk_variable_of(lk_ones(LK_SHAPE(3), (lk_dtype)t));
            assert_int_equal(lk_variable_trainable(v), lki_is_float((lk_dtype)t));
            assert_int_equal(lk_variable_dtype(v), t);
            assert_string_equal(lk_variable_name(v), "Variable");
            assert_int_equal(lk_assign(v, lk_zeros(LK_SHAPE(3), (lk_dtype)t)), LK_OK);
            assert_true(at(lk_read(v), 1) == 0);
            if (t == LK_BOOL || t == LK_U8) continue;
            assert_int_equal(lk_assign_add(v, lk_fill(LK_SHAPE(3), (lk_dtype)t, 4)), LK_OK);
            assert_int_equal(lk_assign_sub(v, lk_ones(LK_SHAPE(3), (lk_dtype)t)), LK_OK);
            assert_true(at(lk_read(v), 1) == 3);
        }
    no_error();
}

static bool same_digest(lk_variables a, lk_variables b)
{
    lk_digest x = lk_variables_digest(a), y = lk_variables_digest(b);
    return memcmp(x.byte, y.byte, sizeof x.byte) == 0;
}

TEST(digests)
{
    LK_POOL {
        lk_tensor   *value = lk_tensor_of(LK_SHAPE(2), 1, 2);
        lk_variable *v = lk_variable_of(value, .name = "w"), *twin = lk_variable_of(value, .name = "w"),
                    *other = lk_variable_of(value, .name = "u");
        lk_variable *shaped = lk_variable_of(lk_reshape(value, LK_SHAPE(2, 1)), .name = "w"),
                    *typed = lk_variable_of(lk_zeros(LK_SHAPE(2), LK_F32), .name = "w");
        char      text[65] = "";
        lk_digest d = lk_variables_digest(LK_VARIABLES(v));
        for (int i = 0; i < 32; i++)
            snprintf(text + 2 * i, 3, "%02x", d.byte[i]);
        /* name, 0, type and rank and 8 sizes as i64, elements */
        assert_string_equal(text, "45d13e7d39539830bf1327e96380b3d5f33f5ebe515d885c6efc07733e894b60");
        assert_true(same_digest(LK_VARIABLES(v), LK_VARIABLES(twin)));
        assert_false(same_digest(LK_VARIABLES(v), LK_VARIABLES(other)));
        assert_false(same_digest(LK_VARIABLES(v), LK_VARIABLES(shaped)));
        assert_false(same_digest(LK_VARIABLES(v), LK_VARIABLES(typed)));
        assert_false(same_digest(LK_VARIABLES(v, other), LK_VARIABLES(other, v)));
        assert_false(same_digest(LK_VARIABLES(v), LK_VARIABLES(v, v)));
        lk_assign(twin, lk_tensor_of(LK_SHAPE(2), 1, -2));
        assert_false(same_digest(LK_VARIABLES(v), LK_VARIABLES(twin)));
        typed = lk_variable_of(lk_zeros(LK_SHAPE(2), LK_I32), .name = "w");
        assert_false(same_digest(LK_VARIABLES(typed), LK_VARIABLES(lk_variable_of(lk_zeros(LK_SHAPE(2), LK_F32), .name = "w"))));
    }
    no_error();
}

/* ---- rows ---- */

TEST(rows_are_marked)
{
    LK_POOL {
        lk_tensor *x = lk_rows(lk_ones(LK_SHAPE(5, 2), LK_F32), 0);
        assert_int_equal(x->rows.kind, LKI_ROWS);
        assert_int_equal(x->rows.global, 5);
        assert_int_equal(x->rows.lanes, lk_lanes());
        assert_int_equal(lk_rows(x, 64)->rows.global, 64); /* can be marked again */
        assert_int_equal(lk_reduce_sum(x, LK_AXES(1))->rows.kind, LKI_ROWS);
        assert_int_equal(lk_reduce_sum(x, LK_AXES(0))->rows.kind, LKI_ROW_SUM);
        assert_int_equal(lk_transpose(x, (lk_axes){0})->rows.kind, LKI_LOCAL);
        assert_int_equal(lk_reshape(x, LK_SHAPE(10))->rows.per_row, 2);
        assert_int_equal(lk_ones(LK_SHAPE(5), LK_F32)->rows.kind, LKI_UNIFORM);
        lk_tuple both = lk_rows_all(LK_TUPLE(lk_ones(LK_SHAPE(4), LK_F32), lk_ones(LK_SHAPE(4, 3), LK_I32)), 8);
        assert_int_equal(both.count, 2);
        for (int i = 0; i < 2; i++)
            assert_int_equal(both.item[i]->rows.global, 8);
    }
    no_error();
}

TESTS(cmocka_unit_test(from_values), cmocka_unit_test(of_every_type), cmocka_unit_test(data_is_copied_and_aligned),
      cmocka_unit_test(printing), cmocka_unit_test(long_tensors_are_shortened), cmocka_unit_test(printing_what_has_no_value),
      cmocka_unit_test(casts_between_all_types), cmocka_unit_test(plain_numbers),
      cmocka_unit_test(a_plain_number_keeps_its_gradient), cmocka_unit_test(lists),
      cmocka_unit_test(a_step_takes_its_tensors_with_it), cmocka_unit_test(a_view_keeps_its_elements),
      cmocka_unit_test(leaving_a_step_by_return), cmocka_unit_test(readers_keep_the_value_they_saw),
      cmocka_unit_test(variables_of_every_type), cmocka_unit_test(digests), cmocka_unit_test(rows_are_marked))
