/* Section 5 of the specification: variables that are synchronised when they are read; and what a digest includes. */
#include "dist/replicas.h"

REPLICA_FN(add_own)
{
    lk_assign_add(user, lk_cast(mine(5), lk_variable_dtype(user)));
    lk_assign_sub(user, lk_scalar(1));
    lk_assign_add(user, lk_scalar(1));
    return LK_TUPLE(lk_read(user));
}

REPLICA_FN(add_on_one_only)
{
    if (my_id() == 1) lk_assign_add(user, lk_scalar(100)); /* no meeting: no replica waits */
    return LK_TUPLE(lk_read(user));
}

TEST(on_read_in_replicas)
{
    LK_POOL {
        EACH_COUNT(n)
        {
            lk_strategy *s = mirrored(n);
            double       total = 5.0 * n + n * (n - 1) / 2.0;
            for (int i = 0; i < 4; i++) {
                lk_variable *v = ON_READ(s, ALL[i], lk_scalar(0), "v");
                lk_tuple     seen = lk_local_results(s, lk_run(s, add_own, .user = v).item[0]), each = lk_local_variables(s, v);
                for (int r = 0; r < n; r++) {
                    VALUES(seen.item[r], 5 + r);
                    VALUES(each.item[r], 5 + r);
                }
                if (ALL[i] == NONE) REFUSED(LK_EINVAL, lk_read(v), "lk_read", "\"v\"", "no aggregation", ".aggregation");
                else VALUES(lk_read(v), ALL[i] == SUM ? total : ALL[i] == MEAN ? total / n : 5);
            }
            SOUND();
        }
        lk_strategy *s = mirrored(2);
        lk_variable *v = ON_READ(s, SUM, lk_scalar(0));
        PER_REPLICA(s, lk_run(s, add_on_one_only, .user = v).item[0], 0, 100);
        VALUES(lk_read(v), 100);
        SOUND();
    }
}

TEST(on_read_assigned_outside)
{
    LK_POOL {
        lk_strategy *s = mirrored(2);
        lk_variable *sum = ON_READ(s, SUM, lk_scalar(0), "sum"), *mean = ON_READ(s, MEAN, lk_scalar(0), "mean"),
                    *first = ON_READ(s, FIRST, lk_scalar(0), "first"), *none = ON_READ(s, NONE, lk_scalar(0), "none");
        lk_assign(sum, lk_scalar(11));
        COMPONENTS(s, sum, 5.5, 5.5);
        VALUES(lk_read(sum), 11);
        lk_assign(mean, lk_scalar(11));
        COMPONENTS(s, mean, 11, 11);
        VALUES(lk_read(mean), 11);
        lk_assign(first, lk_scalar(11));
        COMPONENTS(s, first, 11, 11);
        lk_run(s, add_own, .user = mean);
        lk_run(s, add_own, .user = first);
        lk_assign_add(mean, lk_scalar(1));
        COMPONENTS(s, mean, 17, 18); /* to each component */
        lk_assign_sub(first, lk_scalar(2));
        COMPONENTS(s, first, 14, 15);
        SOUND();
        REFUSED(LK_EINVAL, lk_assign_add(sum, lk_scalar(1)), "assign_add", "\"sum\"", "LK_AGGREGATION_SUM", "assign the sum");
        REFUSED(LK_EINVAL, lk_assign_sub(sum, lk_scalar(1)), "assign_sub", "\"sum\"", "LK_AGGREGATION_SUM");
        REFUSED(LK_EINVAL, lk_assign(none, lk_scalar(1)), "assign", "\"none\"", "no aggregation");
        REFUSED(LK_EINVAL, lk_assign_add(none, lk_scalar(1)), "assign_add", "\"none\"", "no aggregation");
        VALUES(lk_read(sum), 11);
    }
}

TEST(on_read_integers_add_up)
{
    LK_POOL {
        EACH_COUNT(n) for (int x = -9; x <= 9; x++)
        {
            lk_strategy *s = mirrored(n);
            lk_variable *v = ON_READ(s, SUM, lk_fill(LK_SHAPE(), LK_I64, 0));
            lk_assign(v, lk_fill(LK_SHAPE(), LK_I64, x));
            VALUES(lk_read(v), x);
        }
        lk_strategy *s = mirrored(3);
        lk_variable *v = ON_READ(s, SUM, lk_zeros(LK_SHAPE(), LK_I32));
        lk_assign(v, lk_scalar(5));
        COMPONENTS(s, v, 2, 2, 1); /* the remainder to the first */
        SOUND();
    }
}

/* The same for types without kernels. */
TEST(on_read_of_half_precision)
{
    static const lk_dtype types[] = {LK_F16, LK_BF16};
    LK_POOL {
        for (int t = 0; t < 2; t++) {
            lk_strategy *s = mirrored(2);
            lk_variable *sum = ON_READ(s, SUM, lk_fill(LK_SHAPE(), types[t], 0), "sum"),
                        *mean = ON_READ(s, MEAN, lk_fill(LK_SHAPE(), types[t], 0), "mean");
            lk_run(s, add_own, .user = mean);
            lk_assign_add(mean, lk_scalar(1));
            COMPONENTS(s, mean, 6, 7);
            lk_assign(sum, lk_scalar(11));
            COMPONENTS(s, sum, 5.5, 5.5);
            REFUSED(LK_EINVAL, lk_assign_add(sum, lk_scalar(1)), "assign_add", "\"sum\"", "LK_AGGREGATION_SUM");
            SOUND();
        }
    }
}

REPLICA_FN(scatter_on_read)
{
    lk_scatter_add(user, VECTOR_OF(LK_I64, 0), VECTOR(1));
    return LK_TUPLE();
}

TEST(on_read_is_not_scattered_to)
{
    LK_POOL {
        lk_strategy *s = mirrored(2);
        for (int i = 0; i < 4; i++) {
            lk_variable *v = ON_READ(s, ALL[i], VECTOR(1, 2), "v");
            for (int which = 0; which < 7; which++)
                REFUSED(LK_EINVAL, SCATTER[which](v, VECTOR_OF(LK_I64, 0), VECTOR(1)), "scatter", "\"v\"", "sync-on-read");
            REFUSED(LK_EINVAL, lk_run(s, scatter_on_read, .user = v), "scatter", "\"v\"", "sync-on-read", "replica");
        }
    }
}

REPLICA_FN(read_the_whole)
{
    lk_assign(user, mine(5));
    return LK_TUPLE(lk_read_aggregated(user), lk_read(user));
}

REPLICA_FN(read_the_whole_on_one) { return LK_TUPLE(my_id() ? lk_read(user) : lk_read_aggregated(user)); }

TEST(aggregated_in_replicas)
{
    LK_POOL {
        lk_strategy *s = mirrored(3);
        for (int i = 1; i < 4; i++) {
            lk_variable *v = ON_READ(s, ALL[i], lk_scalar(0), "v");
            lk_tuple     out = lk_run(s, read_the_whole, .user = v);
            double       x = ALL[i] == SUM ? 18 : ALL[i] == MEAN ? 6 : 5;
            PER_REPLICA(s, out.item[0], x, x, x);
            PER_REPLICA(s, out.item[1], 5, 6, 7);
            VALUES(lk_read_aggregated(v), x);
            SOUND();
            REFUSED(LK_ESTATE, lk_run(s, read_the_whole_on_one, .user = v), "replica 0 waits in lk_all_reduce",
                    "replica 1 returned");
        }
        lk_variable *none = ON_READ(s, NONE, lk_scalar(0), "none");
        REFUSED(LK_EINVAL, lk_run(s, read_the_whole, .user = none), "lk_read_aggregated", "\"none\"", "no aggregation");
        REFUSED(LK_EINVAL, lk_read_aggregated(none), "\"none\"", "no aggregation");
        VALUES(lk_read_aggregated(MADE(s, lk_scalar(2))), 2);
        VALUES(lk_read_aggregated(lk_variable_of(lk_scalar(2))), 2);
        REFUSED(LK_EINVAL, lk_read_aggregated(NULL), "lk_read_aggregated", "NULL");
    }
}

TEST(reduced_like_a_value)
{
    LK_POOL {
        lk_strategy *s = mirrored(2);
        lk_variable *v = ON_READ(s, NONE, lk_scalar(0)), *m = MADE(s, lk_scalar(4));
        lk_run(s, add_own, .user = v);
        VALUES(lk_reduce_variable(s, LK_SUM, v), 11);
        VALUES(lk_reduce_variable(s, LK_MEAN, v), 5.5);
        VALUES(lk_reduce_variable(s, LK_MEAN, m), 4);
        REFUSED(LK_EINVAL, lk_reduce_variable(s, LK_SUM, m), "LK_SUM", "same everywhere");
        REFUSED(LK_EINVAL, lk_reduce_variable(s, LK_SUM, NULL), "lk_reduce_variable", "NULL");
        SOUND();
    }
}

/* ---- digests ---- */

TEST(digests)
{
    LK_POOL {
        lk_strategy *s = mirrored(2);
        lk_variable *a = MADE(s, lk_scalar(3), "v"), *b = lk_variable_of(lk_scalar(3), .name = "v"),
                    *r = ON_READ(s, SUM, lk_scalar(0), "v"), *none = ON_READ(s, NONE, lk_scalar(0), "v");
        assert_true(lk_digest_equal(lk_variables_digest(LK_VARIABLES(a)), lk_variables_digest(LK_VARIABLES(b))));
        lk_digest before = lk_variables_digest(LK_VARIABLES(a)), zero = lk_variables_digest(LK_VARIABLES(r)),
                  none_before = lk_variables_digest(LK_VARIABLES(none));
        lk_assign(a, lk_scalar(4));
        assert_false(lk_digest_equal(lk_variables_digest(LK_VARIABLES(a)), before));
        lk_assign(r, lk_scalar(3));
        assert_false(lk_digest_equal(lk_variables_digest(LK_VARIABLES(r)), zero)); /* its value is what it reads as */
        assert_true(lk_digest_equal(lk_variables_digest(LK_VARIABLES(r)), before));
        lk_run(s, add_own, .user = none);
        assert_false(lk_digest_equal(lk_variables_digest(LK_VARIABLES(none)), none_before));
        SOUND();
    }
}

/* ---- lifetimes ---- */

TEST(freed_with_their_components)
{
    LK_POOL {
        lk_strategy *s = mirrored(8);
        int64_t      before = lki_memory_in_use();
        lk_variable *v = ON_READ(s, SUM, lk_zeros(LK_SHAPE(1000), LK_F32));
        assert_true(lki_memory_in_use() > before + 8 * 4000);
        lk_free(v);
        assert_true(lki_memory_in_use() < before + 8000); /* the initial tensor may still be there */
        SOUND();
    }
}

TESTS(cmocka_unit_test(on_read_in_replicas), cmocka_unit_test(on_read_assigned_outside), cmocka_unit_test(on_read_integers_add_up),
      cmocka_unit_test(on_read_of_half_precision), cmocka_unit_test(on_read_is_not_scattered_to),
      cmocka_unit_test(aggregated_in_replicas), cmocka_unit_test(reduced_like_a_value), cmocka_unit_test(digests),
      cmocka_unit_test(freed_with_their_components))
