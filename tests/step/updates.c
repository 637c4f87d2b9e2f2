/* Updates that select entries, by ids or by lanes, in compiled functions: as op by op, in the order they were written, and not at
 * all in a step that fails. */
#include "check.h"
#include "core/dtype.h"
#include "step/replicas.h"
#include <stdio.h>
#include <string.h>

enum { LANES = 8 };

typedef struct state {
    lk_variable *table, *other, *counts;
    int          mode;
    lk_strategy *strategy;
} state;

static state state_new(void)
{
    state s = {.table = lk_variable_of(lk_reshape(lk_range(15, LK_F32), LK_SHAPE(5, 3)), .name = "table"),
               .other = lk_variable_of(lk_ones(LK_SHAPE(3), LK_F32), .name = "other"),
               .counts = lk_variable_of(lk_zeros(LK_SHAPE(LANES, 2), LK_F64), .name = "counts", .trainable = LK_OFF)};
    return s;
}

static lk_digest digest_of(const state *s) { return lk_variables_digest(LK_VARIABLES(s->table, s->other, s->counts)); }

static void assert_alike(const state *a, const state *b)
{
    lk_digest x = digest_of(a), y = digest_of(b);
    if (lk_failed()) print_error("%s\n", lk_error());
    assert_false(lk_failed());
    assert_memory_equal(x.byte, y.byte, sizeof x.byte);
}

static void compare(lk_fn fn, lk_tuple in, int mode)
{
    for (int threads = 1; threads <= 3; threads++)
        LK_POOL {
            state a = state_new(), b = state_new();
            a.mode = b.mode = mode;
            lk_set_threads(threads);
            lk_function *f = lk_function_of(fn, &b);
            for (int i = 0; i < 3; i++) {
                lk_tuple x = fn(in, &a), y = lk_call(f, in);
                for (int k = 0; k < x.count; k++)
                    assert_memory_equal(lk_data(x.item[k]), lk_data(y.item[k]),
                                        (size_t)lk_size(x.item[k]) * lk_dtype_bytes(lk_tensor_dtype(x.item[k])));
                assert_alike(&a, &b);
            }
            lk_set_threads(0);
        }
}

/* ---- by ids ---- */

static lk_tuple scatters(lk_tuple in, void *user)
{
    static lk_status (*const ways[])(lk_variable *, lk_tensor *, lk_tensor *) = {
        lk_scatter_add, lk_scatter_sub, lk_scatter_mul, lk_scatter_div, lk_scatter_min, lk_scatter_max, lk_scatter_update};
    state     *s = user;
    lk_tensor *before = lk_read(s->table);
    ways[s->mode](s->table, in.item[0], in.item[1]);
    lk_tensor *between = lk_read(s->table);
    ways[(s->mode + 1) % 7](s->table, in.item[0], lk_add(in.item[1], lk_scalar(2)));
    lk_assign_add(s->other, lk_reduce_sum(lk_read(s->table), .axis = LK_AXES(0)));
    return LK_TUPLE(lk_identity(before), lk_identity(between), lk_mul(lk_read(s->table), lk_scalar(2)));
}

TEST(scatter_is_the_same_compiled)
{
    int32_t ids[] = {4, 0, 4, 2};
    LK_POOL {
        lk_tensor *at = lk_tensor_from(LK_SHAPE(4), LK_I32, ids),
                  *rows = lk_random_uniform(LK_SHAPE(4, 3), .low = 1, .high = LK_NUMBER(3));
        for (int mode = 0; mode < 7; mode++) {
            compare(scatters, LK_TUPLE(at, rows), mode);
            compare(scatters, LK_TUPLE(lk_cast(at, LK_I64), rows), mode);
        }
    }
}

static lk_tuple writes_around_a_scatter(lk_tuple in, void *user)
{
    state *s = user;
    lk_assign_add(s->other, lk_reduce_sum(in.item[1], .axis = LK_AXES(0)));
    lk_scatter_add(s->table, in.item[0], in.item[1]);
    lki_update(LKI_OP_lane_add, NULL, 1, (lk_tensor *const[]){in.item[2]}, 1, &s->counts);
    return LK_TUPLE(lk_identity(lk_read(s->other)));
}

TEST(an_id_out_of_range_leaves_all_as_it_was)
{
    int32_t ids[] = {4, 0, -1, 5, 2};
    for (int threads = 1; threads <= 3; threads++)
        LK_POOL {
            lk_set_threads(threads);
            state        s = state_new();
            lk_function *f = lk_function_of(writes_around_a_scatter, &s);
            lk_tensor   *rows = lk_ones(LK_SHAPE(2, 3), LK_F32), *seen = lk_rows(lk_ones(LK_SHAPE(7, 2), LK_F32), 16);
            lk_digest    before = digest_of(&s);
            for (int bad = 1; bad < 4; bad++) {
                lk_tuple out = lk_call(f, LK_TUPLE(lk_tensor_from(LK_SHAPE(2), LK_I32, ids + bad), rows, seen));
                assert_true(lk_poisoned(out.item[0]));
                assert_int_equal(lk_error_code(), LK_EINVAL);
                assert_non_null(strstr(lk_error(), "scatter"));
                lk_clear_error();
                assert_true(lk_digest_equal(before, digest_of(&s)));
            }
            lk_call(f, LK_TUPLE(lk_tensor_from(LK_SHAPE(2), LK_I32, ids), rows, seen));
            assert_false(lk_failed());
            assert_false(lk_digest_equal(before, digest_of(&s)));
        }
    lk_set_threads(0);
}

/* ---- by lanes ---- */

static lk_tuple counts_twice(lk_tuple in, void *user)
{
    state     *s = user;
    lk_tensor *x = in.item[0], *before = lk_read(s->counts);
    lki_update(LKI_OP_lane_add, NULL, 1, &x, 1, &s->counts);
    lk_tensor *between = lk_read(s->counts), *y = lk_square(x);
    lki_update(LKI_OP_lane_add, NULL, 1, &y, 1, &s->counts);
    return LK_TUPLE(lk_identity(before), lk_identity(between), lk_reduce_sum(lk_read(s->counts), .axis = LK_AXES(0)));
}

TEST(sums_by_lanes_are_the_same_compiled)
{
    static const int rows[] = {0, 1, 5, 16, 29};
    for (int i = 0; i < LKI_COUNT(rows); i++)
        LK_POOL {
            lk_tensor *x = lk_random_uniform(LK_SHAPE(rows[i], 2), .low = -1);
            compare(counts_twice, LK_TUPLE(lk_rows(x, 32)), 0);
            compare(counts_twice, LK_TUPLE(lk_cast(lk_rows(x, 32), LK_BF16)), 0);
            compare(counts_twice, LK_TUPLE(x), 0); /* no rows: all into the first lane */
        }
}

/* ---- by replicas ---- */

static lk_tuple counts_and_looks_up(lk_tuple in, void *user)
{
    state     *s = user;
    lk_tensor *x = in.item[0], *ids = in.item[1], *picked = lk_gather(lk_read(s->table), ids, 0);
    lki_update(LKI_OP_lane_add, NULL, 1, &x, 1, &s->counts);
    lki_update(LKI_OP_lane_add, NULL, 1, (lk_tensor *const[]){lk_square(x)}, 1, &s->counts);
    return LK_TUPLE(lk_reduce_sum(picked, .axis = LK_AXES(0)));
}

static lk_tuple by_replicas(lk_tuple in, void *user)
{
    state   *s = user;
    lk_tuple out = lk_run(s->strategy, counts_and_looks_up, in, s);
    return s->mode ? out : LK_TUPLE(lk_reduce(s->strategy, LK_SUM, out.item[0])); /* sums of their own keep replicas apart */
}

static lk_tuple batch_for(const state *s, const int32_t *ids)
{
    lk_tensor *x = lk_random_uniform(LK_SHAPE(13, 2), .stream = "by replicas", .low = -1);
    return LK_TUPLE(hand_out(s->strategy, x, 16), hand_out(s->strategy, lk_tensor_from(LK_SHAPE(13), LK_I32, ids), 16));
}

TEST(replicas_add_to_their_lanes)
{
    static const int counts[] = {1, 2, 3, 4, 8};
    int32_t          ids[13] = {0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0, 1, 2};
    lk_digest        one = {{0}};
    for (int apart = 0; apart < 2; apart++)
        for (int n = 0; n < LKI_COUNT(counts); n++)
            LK_POOL {
                state s = state_new();
                s.strategy = lk_mirrored_strategy(.cpu_devices = counts[n]);
                s.mode = apart;
                lk_set_threads(1 + n % 3);
                lk_function *f = lk_function_of(by_replicas, &s);
                for (int i = 0; i < 3; i++)
                    lk_call(f, batch_for(&s, ids));
                if (!apart && !n) one = digest_of(&s);
                assert_false(lk_failed());
                assert_true(lk_digest_equal(one, digest_of(&s)));
            }
    lk_set_threads(0);
}

/* An id that only the last replica meets: the others' lanes stay as well. */
TEST(one_replicas_fault_leaves_all_as_it_was)
{
    int32_t ids[13] = {0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0, 1, 5};
    for (int apart = 0; apart < 2; apart++)
        for (int threads = 1; threads <= 3; threads++)
            LK_POOL {
                state s = state_new();
                s.strategy = lk_mirrored_strategy(.cpu_devices = 4);
                s.mode = apart;
                lk_set_threads(threads);
                lk_digest before = digest_of(&s);
                lk_tuple  out = lk_call(lk_function_of(by_replicas, &s), batch_for(&s, ids));
                assert_true(lk_poisoned(out.item[0]));
                assert_int_equal(lk_error_code(), LK_EINVAL);
                lk_clear_error();
                assert_true(lk_digest_equal(before, digest_of(&s)));
            }
    lk_set_threads(0);
}

TESTS(cmocka_unit_test(scatter_is_the_same_compiled), cmocka_unit_test(an_id_out_of_range_leaves_all_as_it_was),
      cmocka_unit_test(sums_by_lanes_are_the_same_compiled), cmocka_unit_test(replicas_add_to_their_lanes),
      cmocka_unit_test(one_replicas_fault_leaves_all_as_it_was))
