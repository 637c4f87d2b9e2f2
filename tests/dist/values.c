/* Section 8 of the specification: reduce, gather, local results and values made by a function; and what a per-replica value may be
 * used for. */
#include "core/option.h"
#include "dist/replicas.h"

#define REDUCE(...) lk_reduce(__VA_ARGS__)

/* ---- what the documents print ---- */

TEST(reduce_as_printed)
{
    LK_POOL {
        lk_strategy *s = mirrored(2);
        lk_tensor   *full = SPREAD(s, VECTOR(0, 1, 2, 3), VECTOR(4, 5, 6, 7)), *last = SPREAD(s, VECTOR(0, 1, 2, 3), VECTOR(4, 5));
        PRINTS(lk_print(full), "PerReplica:{\n  0: [0, 1, 2, 3]\n  1: [4, 5, 6, 7]\n}\n");
        PRINTS(lk_print(REDUCE(s, LK_SUM, full)), "[4, 6, 8, 10]\n");
        PRINTS(lk_print(REDUCE(s, LK_SUM, full, LK_NO_AXIS)), "[4, 6, 8, 10]\n");
        PRINTS(lk_print(REDUCE(s, LK_SUM, full, LK_AXIS(0))), "28\n");
        PRINTS(lk_print(REDUCE(s, LK_SUM, last, LK_AXIS(0))), "15\n");
        PRINTS(lk_print(REDUCE(s, LK_MEAN, last, LK_AXIS(0))), "2.5\n"); /* 3 would be the mean of means */
        REFUSED(LK_ESHAPE, REDUCE(s, LK_SUM, last), "lk_reduce", "replica 0 has [4]", "replica 1 [2]", "along an axis");
        lk_tensor *ints = SPREAD(s, VECTOR_OF(LK_I64, 0, 1, 2, 3), VECTOR_OF(LK_I64, 4, 5, 6, 7));
        PRINTS(lk_print(REDUCE(s, LK_SUM, ints)), "[4, 6, 8, 10]\n");
        PRINTS(lk_print(REDUCE(s, LK_SUM, ints, LK_AXIS(0))), "28\n");
        PRINTS(lk_print(SPREAD(s, lk_scalar(3), lk_scalar(2), lk_scalar(1))), "PerReplica:{\n  0: 3\n  1: 2\n}\n");
        PRINTS(lk_print(lk_nest(LK_TUPLE(lk_scalar(1), NULL, full))),
               "(\n1\nnone\nPerReplica:{\n  0: [0, 1, 2, 3]\n  1: [4, 5, 6, 7]\n}\n)\n");
        SOUND();
    }
}

/* ---- reduce: a table over counts, shapes and axes, against plain loops ---- */

static double number_of(int r, int64_t i, bool whole) { return whole ? (double)(3 * r - i) : 0.25 * (double)(7 * r + 3 * i) - 4; }

static lk_tensor *numbers(int r, lk_shape shape, lk_dtype dtype)
{
    lk_tensor *t = lk_zeros(shape, LK_F64);
    for (int64_t i = 0; i < lk_size(t); i++)
        ((double *)lk_data(t))[i] = number_of(r, i, !lki_is_float(dtype));
    return lk_cast(t, dtype);
}

typedef struct reduction {
    lk_dtype dtype;
    lk_shape shape;
    bool     unequal; /* replica r has r rows */
    lk_axes  axes;    /* none: element by element */
} reduction;

static lk_shape shape_on(const reduction *k, int r)
{
    lk_shape shape = k->shape;
    if (k->unequal) shape.dim[0] = r;
    return shape;
}

static bool is_reduced(const reduction *k, int d)
{
    bool           found = false;
    const lki_axes axes = lki_axes_of(k->axes);
    for (int i = 0; i < axes.count; i++)
        found = found || (axes.value[i] + k->shape.rank) % k->shape.rank == d;
    return found;
}

/* Element of the result that element i of a value of this shape goes to. */
static int64_t goes_to(const reduction *k, const lk_shape *shape, int64_t i)
{
    int64_t at[LK_MAX_RANK] = {0}, to = 0;
    for (int d = shape->rank - 1; d >= 0; d--) {
        at[d] = i % shape->dim[d];
        i /= shape->dim[d];
    }
    for (int d = 0; d < shape->rank; d++)
        if (!is_reduced(k, d)) to = to * shape->dim[d] + at[d];
    return to;
}

static void check_reduction(int n, const reduction *k, lk_reduce_op op)
{
    enum { MOST = 64 };
    lk_strategy *s = mirrored(n);
    lk_tensor   *item[8];
    double       wanted[MOST] = {0}, rows = k->axes ? 0 : n;
    for (int r = 0; r < n; r++) {
        lk_shape shape = shape_on(k, r);
        item[r] = numbers(r, shape, k->dtype);
        double each = 1;
        for (int d = 0; d < shape.rank && k->axes; d++)
            each *= is_reduced(k, d) ? (double)shape.dim[d] : 1;
        rows += k->axes ? each : 0;
        for (int64_t i = 0; i < lk_size(item[r]); i++)
            wanted[goes_to(k, &shape, i)] += number_of(r, i, !lki_is_float(k->dtype));
    }
    lk_tensor *got =
        lk_reduce(s, op, lk_values_from_function(s, pick, &(lk_tuple){n, item}), .axes = k->axes ? k->axes : LK_AXES());
    if (lk_failed() || lk_size(got) > MOST) GIVE_UP("%s", lk_error());
    for (int64_t i = 0; i < lk_size(got); i++) {
        double x = lki_element_get(lk_tensor_dtype(got), lk_data(got), i),
               y = op == LK_MEAN && rows > 0 ? wanted[i] / rows : wanted[i];
        if (!(fabs(x - y) <= 1e-5 * fmax(1, fabs(y)))) GIVE_UP("%d replicas, element %d: %g, not %g", n, (int)i, x, y);
    }
    if (op == LK_MEAN && !lki_is_float(k->dtype) && n > 1) assert_int_equal(lk_tensor_dtype(got), LK_F64);
    if (op == LK_SUM) assert_int_equal(lk_tensor_dtype(got), k->dtype);
    SOUND();
}

TEST(reduce_against_plain_loops)
{
    const reduction table[] = {
        {LK_F32, LK_SHAPE(), false, 0},
        {LK_F32, LK_SHAPE(5), false, 0},
        {LK_F64, LK_SHAPE(2, 3), false, 0},
        {LK_I32, LK_SHAPE(2, 3), false, 0},
        {LK_I64, LK_SHAPE(4), false, 0},
        {LK_F16, LK_SHAPE(4), false, 0},
        {LK_BF16, LK_SHAPE(4), false, 0},
        {LK_F32, LK_SHAPE(0, 2), false, 0},
        {LK_F32, LK_SHAPE(5), false, LK_AXES(0)},
        {LK_F32, LK_SHAPE(5), false, LK_AXES(-1)},
        {LK_F32, LK_SHAPE(2, 3), false, LK_AXES(0)},
        {LK_F32, LK_SHAPE(2, 3), false, LK_AXES(1)},
        {LK_F32, LK_SHAPE(2, 3), false, LK_AXES(-2)},
        {LK_F32, LK_SHAPE(2, 3), false, LK_AXES(0, 1)},
        {LK_F64, LK_SHAPE(2, 3, 4), false, LK_AXES(-1, 0)},
        {LK_F64, LK_SHAPE(2, 3, 4), false, LK_AXES(1)},
        {LK_I32, LK_SHAPE(2, 3), false, LK_AXES(0)},
        {LK_I64, LK_SHAPE(2, 3), false, LK_AXES(0, 1)},
        {LK_F32, LK_SHAPE(1), true, LK_AXES(0)},
        {LK_F32, LK_SHAPE(1, 3), true, LK_AXES(0)},
        {LK_I64, LK_SHAPE(1, 2), true, LK_AXES(0)},
        {LK_F32, LK_SHAPE(1, 2), true, LK_AXES(-2, -1)},
    };
    LK_POOL {
        EACH_COUNT(n)
        for (int i = 0; i < LKI_COUNT(table); i++)
            for (int op = LK_SUM; op <= LK_MEAN; op++)
                LK_STEP {
                    check_reduction(n, &table[i], (lk_reduce_op)op);
                }
    }
}

/* ---- kinds of values ---- */

TEST(reduce_of_plain_values)
{
    LK_POOL {
        lk_strategy *one = mirrored(1), *s = mirrored(2);
        lk_tensor   *x = VECTOR(1, 3);
        assert_ptr_equal(REDUCE(s, LK_MEAN, x), x);
        assert_ptr_equal(REDUCE(one, LK_SUM, x), x);
        REFUSED(LK_EINVAL, REDUCE(s, LK_SUM, x), "lk_reduce", "LK_SUM", "plain value", "2 replicas", "LK_MEAN");
        VALUES(REDUCE(s, LK_SUM, x, LK_AXIS(0)), 8); /* counted once per replica */
        VALUES(REDUCE(s, LK_MEAN, x, LK_AXIS(0)), 2);
        VALUES(REDUCE(mirrored(3), LK_SUM, x, LK_AXIS(0)), 12);
        VALUES(REDUCE(one, LK_SUM, x, LK_AXIS(0)), 4);
        VALUES(REDUCE(s, LK_SUM, lk_scalar(0)), 0);
        VALUES(REDUCE(s, LK_MEAN, lk_scalar(0)), 0);
        VALUES(REDUCE(s, LK_SUM, lk_zeros(LK_SHAPE(3), LK_I32)), 0, 0, 0);
        SOUND();
    }
}

TEST(reduce_of_mirrored_values)
{
    LK_POOL {
        lk_strategy *s = mirrored(3);
        lk_tensor   *same = lk_cross_broadcast(s, NULL, VECTOR(1, 3), LK_TO(.variable = MADE(s, lk_scalar(1))));
        PRINTS(lk_print(same), "Mirrored:{\n  0: [1, 3]\n  1: [1, 3]\n  2: [1, 3]\n}\n");
        VALUES(REDUCE(s, LK_MEAN, same), 1, 3);
        REFUSED(LK_EINVAL, REDUCE(s, LK_SUM, same), "lk_reduce", "LK_SUM", "mirrored value", "LK_MEAN");
        VALUES(lk_gather_values(s, same), 1, 3);
        assert_int_equal(lk_local_results(s, same).count, 3);
        VALUES(lk_add(same, lk_scalar(1)), 2, 4); /* what is the same everywhere can be used as a plain value */
        VALUES(lk_reduce_sum(lk_mul(same, same)), 10);
        VALUES(lk_concat(LK_TUPLE(same, VECTOR(5), same), 0), 1, 3, 5, 1, 3);
        VALUES(same, 1, 3);
        SOUND();
    }
}

TEST(reduce_of_nests)
{
    LK_POOL {
        lk_strategy *s = mirrored(2);
        lk_tensor   *a = SPREAD(s, lk_scalar(1), lk_scalar(2)), *b = SPREAD(s, VECTOR(1, 2), VECTOR(3, 4));
        lk_tuple     out = lk_nested(REDUCE(s, LK_SUM, lk_nest(LK_TUPLE(a, lk_nest(LK_TUPLE(b, lk_scalar(0))), NULL))));
        VALUES(out.item[0], 3);
        VALUES(lk_nested(out.item[1]).item[0], 4, 6);
        VALUES(lk_nested(out.item[1]).item[1], 0);
        assert_null(out.item[2]);
        VALUES(lk_nested(REDUCE(s, LK_MEAN, lk_nest(LK_TUPLE(b)))).item[0], 2, 3);
        SOUND();
        REFUSED(LK_EINVAL, REDUCE(s, LK_SUM, lk_nest(LK_TUPLE(a)), LK_AXIS(0)), "lk_reduce", "tuple", "axis");
        lk_tensor *part = REDUCE(s, LK_SUM, lk_nest(LK_TUPLE(a, lk_scalar(5))));
        (void)part;
        assert_true(told(LK_EINVAL, "lk_reduce", "LK_SUM", "plain value"));
    }
}

TEST(reduce_refused)
{
    LK_POOL {
        lk_strategy *s = mirrored(2);
        lk_tensor   *x = SPREAD(s, VECTOR(1, 2), VECTOR(3, 4)),
                  *of_three = SPREAD(mirrored(3), lk_scalar(1), lk_scalar(2), lk_scalar(3));
        BEGIN
        BAD(LK_EINVAL, REDUCE(s, (lk_reduce_op)0, x), "lk_reduce", "no reduction 0", "LK_SUM or LK_MEAN");
        BAD(LK_EINVAL, REDUCE(s, (lk_reduce_op)5, x), "no reduction 5");
        BAD(LK_EINVAL, REDUCE(s, LK_SUM), "lk_reduce", "value", "NULL");
        BAD(LK_EINVAL, REDUCE(NULL, LK_SUM, x), "lk_reduce", "strategy", "NULL");
        BAD(LK_EINVAL, REDUCE(s, LK_SUM, x, LK_AXIS(1)), "lk_reduce", "axis 1", "rank 1");
        BAD(LK_EINVAL, REDUCE(s, LK_SUM, x, LK_AXIS(-2)), "axis -2", "rank 1");
        BAD(LK_EINVAL, REDUCE(s, LK_SUM, x, .axes = LK_AXES(0, 3)), "axis 3", "rank 1");
        BAD(LK_EINVAL, REDUCE(s, LK_SUM, x, .axes = LK_AXES((int64_t)1 << 32)), "axis 4294967296", "rank 1");
        BAD(LK_EINVAL, REDUCE(s, LK_SUM, x, .axes = LK_AXES(0, -1)), "axis");
        BAD(LK_EINVAL, REDUCE(s, LK_SUM, x, LK_AXIS(0), LK_AXES(0)), ".axis or .axes");
        BAD(LK_EINVAL, REDUCE(s, LK_SUM, of_three), "lk_reduce", "3 replicas", "has 2");
        BAD(LK_EINVAL, REDUCE(s, LK_SUM, lk_nest(LK_TUPLE(of_three))), "lk_reduce", "3 replicas", "has 2");
        BAD(LK_ESHAPE, REDUCE(s, LK_MEAN, SPREAD(s, VECTOR(1), VECTOR(1, 2))), "lk_reduce", "replica 0 has [1]", "replica 1 [2]");
        BAD(LK_EDTYPE, REDUCE(s, LK_SUM, SPREAD(s, VECTOR(1), VECTOR_OF(LK_I32, 1))), "lk_reduce", "replica 0 has f32",
            "replica 1 i32");
        END VALUES(REDUCE(s, LK_SUM, x), 4, 6);
    }
}

/* ---- gather ---- */

TEST(gather)
{
    LK_POOL {
        lk_strategy *s = mirrored(3);
        lk_tensor   *a = lk_tensor_of(LK_SHAPE(1, 2), 0, 1), *b = lk_zeros(LK_SHAPE(0, 2), LK_F32),
                  *c = lk_tensor_of(LK_SHAPE(2, 2), 2, 3, 4, 5);
        lk_tensor *rows = SPREAD(s, a, b, c), *wide = SPREAD(s, a, a, lk_tensor_of(LK_SHAPE(1, 3), 7, 8, 9));
        lk_tensor *joined = lk_gather_values(s, rows);
        VALUES(joined, 0, 1, 2, 3, 4, 5);
        assert_int_equal(lk_dim(joined, 0), 3);
        VALUES(lk_gather_values(s, rows, LK_AXIS(-2)), 0, 1, 2, 3, 4, 5);
        VALUES(lk_gather_values(s, wide, LK_AXIS(1)), 0, 1, 0, 1, 7, 8, 9);
        VALUES(lk_gather_values(s, SPREAD(s, VECTOR_OF(LK_I32, 3), VECTOR_OF(LK_I32, 1), VECTOR_OF(LK_I32, 2))), 3, 1, 2);
        assert_ptr_equal(lk_gather_values(s, a), a); /* a plain value */
        lk_strategy *one = mirrored(1);
        VALUES(lk_gather_values(one, SPREAD(one, VECTOR(1, 2))), 1, 2);
        SOUND();
        BEGIN
        BAD(LK_EINVAL, lk_gather_values(s, SPREAD(s, lk_scalar(1), lk_scalar(2), lk_scalar(3))), "lk_gather_values", "replica 0",
            "scalar", "lk_reshape");
        BAD(LK_EINVAL, lk_gather_values(s, wide), "lk_gather_values", "replica 0 has [1, 2]", "replica 2 [1, 3]", "axis 0");
        BAD(LK_EINVAL, lk_gather_values(s, SPREAD(s, a, a, VECTOR(1))), "replica 0 has rank 2", "replica 2 rank 1");
        BAD(LK_EINVAL, lk_gather_values(s, rows, LK_AXIS(2)), "axis 2", "rank 2");
        BAD(LK_EINVAL, lk_gather_values(s, lk_nest(LK_TUPLE(rows))), "lk_gather_values", "tuple");
        BAD(LK_EINVAL, lk_gather_values(s), "lk_gather_values", "NULL");
        BAD(LK_EINVAL, lk_gather_values(one, rows), "lk_gather_values", "3 replicas", "has 1");
        END
    }
}

/* ---- local results ---- */

TEST(local_results)
{
    LK_POOL {
        lk_strategy *s = mirrored(3);
        lk_tensor   *x = SPREAD(s, lk_scalar(3), lk_scalar(2), lk_scalar(1)), *plain = lk_scalar(7);
        PER_REPLICA(s, x, 3, 2, 1);
        lk_tuple one = lk_local_results(s, plain);
        assert_true(one.count == 1 && one.item[0] == plain);
        lk_tensor *only_plain = lk_nest(LK_TUPLE(plain, plain));
        one = lk_local_results(s, only_plain);
        assert_true(one.count == 1 && one.item[0] == only_plain);
        lk_tuple each = lk_local_results(
            s, lk_nest(LK_TUPLE(plain, lk_nest(LK_TUPLE(NULL, x))))); /* one structure per replica, plain leaves repeated */
        assert_int_equal(each.count, 3);
        for (int r = 0; r < 3; r++) {
            lk_tuple nest = lk_nested(each.item[r]);
            assert_ptr_equal(nest.item[0], plain);
            assert_null(lk_nested(nest.item[1]).item[0]);
            VALUES(lk_nested(nest.item[1]).item[1], 3 - r);
        }
        COMPONENTS(s, MADE(s, lk_scalar(4)), 4, 4, 4);
        SOUND();
        REFUSED(LK_EINVAL, lk_local_results(s, NULL), "lk_local_results", "NULL");
        REFUSED(LK_EINVAL, lk_local_results(mirrored(4), x), "lk_local_results", "3 replicas", "has 4");
        REFUSED(LK_EINVAL, lk_local_results(mirrored(4), lk_nest(LK_TUPLE(x))), "lk_local_results", "3 replicas", "has 4");
        REFUSED(LK_EINVAL, lk_local_variables(s, NULL), "lk_local_variables", "NULL");
    }
}

/* ---- values from a function ---- */

static lk_tensor *describe(const lk_value_context *c, void *user)
{
    if (user && c->replica_id_in_sync_group == 1) return *(lk_tensor **)user;
    return VECTOR(c->replica_id_in_sync_group, c->num_replicas_in_sync);
}

TEST(values_from_a_function)
{
    LK_POOL {
        EACH_COUNT(n)
        {
            lk_strategy *s = mirrored(n);
            lk_tuple     each = lk_local_results(s, lk_values_from_function(s, describe, NULL));
            assert_int_equal(each.count, n);
            for (int r = 0; r < n; r++)
                VALUES(each.item[r], r, n);
        }
        lk_strategy *one = mirrored(1), *s = mirrored(2);
        PRINTS(lk_print(lk_values_from_function(one, describe, NULL)), "PerReplica:{\n  0: [0, 1]\n}\n"); /* even for one */
        VALUES(lk_values_from_function(lk_default_strategy(), describe, NULL), 0, 1);                     /* these two never wrap */
        VALUES(lk_values_from_function(lk_one_device_strategy("CPU:0"), describe, NULL), 0, 1);
        REFUSED(LK_EINVAL, lk_values_from_function(s, NULL, NULL), "lk_values_from_function", "function");
        lk_tensor *bad = NULL;
        REFUSED(LK_EINVAL, lk_values_from_function(s, describe, &bad), "lk_values_from_function", "NULL", "replica 1");
        bad = lk_add(VECTOR(1), VECTOR(1, 2, 3, 4));
        lk_clear_error();
        bad = lk_matmul(VECTOR(1), VECTOR(1));
        assert_true(lk_poisoned(lk_values_from_function(s, describe, &bad)));
        assert_true(told(LK_ESHAPE, "matmul"));
        SOUND();
    }
}

/* ---- a per-replica value is not a tensor ---- */

TEST(not_a_tensor)
{
    LK_POOL {
        lk_strategy *s = mirrored(2);
        lk_tensor   *x = SPREAD(s, VECTOR(1, 2), VECTOR(3, 4)), *y = VECTOR(1, 1), *nest = lk_nest(LK_TUPLE(y));
        BEGIN
        BAD(LK_EINVAL, lk_add(x, y), "add", "operand 1", "per-replica value", "lk_run", "lk_reduce", "lk_gather_values",
            "lk_local_results");
        BAD(LK_EINVAL, lk_add(y, x), "add", "operand 2", "per-replica value");
        BAD(LK_EINVAL, lk_neg(x), "neg", "per-replica value");
        BAD(LK_EINVAL, lk_reduce_sum(x), "per-replica value");
        BAD(LK_EINVAL, lk_concat(LK_TUPLE(y, y, x), 0), "concat", "per-replica value");
        BAD(LK_EINVAL, lk_cast(x, LK_F64), "per-replica value");
        BAD(LK_EINVAL, lk_reshape(x, LK_SHAPE(2, 1)), "per-replica value");
        BAD(LK_EINVAL, lk_rows(x, 0), "per-replica value");
        BAD(LK_EINVAL, lk_add(nest, y), "add", "operand 1", "tuple", "lk_nested");
        END REFUSED(LK_EINVAL, lk_item(x), "per-replica value");
        REFUSED(LK_EINVAL, lk_data(x), "lk_data", "per-replica value");
        REFUSED(LK_EINVAL, lk_data(nest), "lk_data", "tuple");
        REFUSED(LK_EINVAL, lk_nested(x), "lk_nested", "lk_nest()");
        REFUSED(LK_EINVAL, lk_nested(NULL), "lk_nested");
        REFUSED(LK_EINVAL, lk_optimizer_apply_gradients(lk_sgd(), LK_TUPLE(x), LK_VARIABLES(lk_variable_of(y))),
                "per-replica value");
        lk_tape *tape = lk_tape_begin();
        REFUSED(LK_EINVAL, lk_tape_watch(tape, x), "per-replica value");
        lk_tape_end(tape);
    }
}

TESTS(cmocka_unit_test(reduce_as_printed), cmocka_unit_test(reduce_against_plain_loops), cmocka_unit_test(reduce_of_plain_values),
      cmocka_unit_test(reduce_of_mirrored_values), cmocka_unit_test(reduce_of_nests), cmocka_unit_test(reduce_refused),
      cmocka_unit_test(gather), cmocka_unit_test(local_results), cmocka_unit_test(values_from_a_function),
      cmocka_unit_test(not_a_tensor))
