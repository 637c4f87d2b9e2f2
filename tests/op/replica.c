/* Kernels for several replicas, against the tree over lanes written again, and plain loops: sums of subtrees, agreement, entries
 * selected by ids, sums that stay per lane. */
#include "lane/lanes.h"
#include "op/kernels.h"
#include <float.h>

static const lk_dtype numbers[] = {LK_F32, LK_F64, LK_I32, LK_I64};
static const int64_t  sizes[] = {0, 1, 3, 255, 256, 257, 700};

/* ---- sums over the replicas ---- */

/* As kernels round, which flush what is too small to zero. */
static double rounded(lk_dtype t, double x)
{
    if (t == LK_I32) return (double)(int32_t)(int64_t)x;
    if (t == LK_F32) x = (float)x;
    return fabs(x) < (t == LK_F32 ? (double)FLT_MIN : DBL_MIN) ? 0 : x;
}

/* The tree over lanes lane .. lane + width - 1 of one element. */
static double tree(lk_dtype t, const lki_view *lanes, int lane, int width, int64_t element)
{
    if (width == 1) return lki_element_get(t, lanes->data, lane * lanes->shape->dim[1] + element);
    return rounded(t, tree(t, lanes, lane, width / 2, element) + tree(t, lanes, lane + width / 2, width / 2, element));
}

/* What `replicas` of them hand over, each the roots of the subtrees it owns. */
static int hand_over(lk_dtype t, const lki_view *lanes, int replicas, lki_view *part, int32_t *table)
{
    int     count = 0, all = (int)lanes->shape->dim[0];
    int64_t n = lanes->shape->dim[1];
    for (int r = 0; r < replicas; r++) {
        lki_subtree own[32];
        int roots = lki_lane_subtrees(lki_lane_owner_begin(all, r, replicas), lki_lane_owner_begin(all, r + 1, replicas), own);
        for (int i = 0; i < roots; i++, count++) {
            part[count] = operand(t, LK_SHAPE(n));
            table[2 * count] = own[i].lane;
            table[2 * count + 1] = own[i].width;
            for (int64_t e = 0; e < n; e++)
                lki_element_set(t, part[count].data, e, tree(t, lanes, own[i].lane, own[i].width, e));
        }
    }
    return count;
}

static void check_replicas(lk_dtype t, int lanes, int replicas, int64_t n)
{
    lki_view all = random_operand(t, LK_SHAPE(lanes, n), TAME), src[64], dst = operand(t, LK_SHAPE(n));
    int32_t  table[128];
    int      count = hand_over(t, &all, replicas, src, table);
    src[count] = operand(LK_I32, LK_SHAPE(count, 2));
    memcpy(src[count].data, table, (size_t)count * 2 * sizeof *table);
    lki_args a = {.src = src, .dst = &dst, .nsrc = count + 1, .ndst = 1};
    check_slot(LKI_K_replica_sum, &a, 1);
    for (int64_t e = 0; e < n; e++)
        if (lki_element_get(t, dst.data, e) != tree(t, &all, 0, lanes, e))
            fail_msg("%d replicas on %d lanes, element %lld", replicas, lanes, (long long)e);
    forget_all();
}

TEST(sums_of_subtrees_are_the_tree)
{
    for (int t = 0; t < LKI_COUNT(numbers); t++)
        for (int lanes = 1; lanes <= 32; lanes *= 2)
            for (int replicas = 1; replicas <= lanes; replicas++)
                check_replicas(numbers[t], lanes, replicas, replicas == 3 ? 700 : 5);
    for (int n = 0; n < LKI_COUNT(sizes); n++)
        check_replicas(LK_F32, 8, 3, sizes[n]);
}

/* (lane, width) of three values, and in which order they are added. */
TEST(what_stays_open_is_added_from_the_right)
{
    static const struct {
        int32_t table[6];
        bool    left; /* (a + b) + c, else a + (b + c) */
    } cases[] = {{{0, 1, 1, 1, 2, 2}, true},     {{0, 2, 2, 1, 3, 1}, false}, {{0, 1, 2, 1, 3, 1}, false},
                 {{1, 1, 2, 1, 3, 1}, false},    {{0, 1, 2, 1, 4, 1}, false}, {{-1, 1, 0, 1, 1, 1}, false},
                 {{-1, 1, -1, 1, -1, 1}, false}, {{0, 0, 0, 0, 0, 0}, false}};
    for (int i = 0; i < LKI_COUNT(cases); i++) {
        lki_view src[4] = {operand(LK_F32, LK_SHAPE(1)), operand(LK_F32, LK_SHAPE(1)), operand(LK_F32, LK_SHAPE(1)),
                           operand(LK_I32, LK_SHAPE(3, 2))};
        lki_view dst = operand(LK_F32, LK_SHAPE(1));
        float    a = 1, b = 0x1p-24f, c = 0x1p-24f; /* 1 + b rounds to 1, b + c does not vanish */
        *(float *)src[0].data = a;
        *(float *)src[1].data = b;
        *(float *)src[2].data = c;
        memcpy(src[3].data, cases[i].table, sizeof cases[i].table);
        run_reference(LKI_K_replica_sum, &(lki_args){.src = src, .dst = &dst, .nsrc = 4, .ndst = 1});
        assert_true(*(float *)dst.data == (cases[i].left ? 1 : 1 + 0x1p-23f));
        forget_all();
    }
}

TEST(integers_wrap)
{
    lki_view src[3] = {operand(LK_I32, LK_SHAPE(2)), operand(LK_I32, LK_SHAPE(2)), operand(LK_I32, LK_SHAPE(2, 2))},
             dst = operand(LK_I32, LK_SHAPE(2));
    memcpy(src[0].data, (int32_t[]){INT32_MAX, INT32_MIN}, 8);
    memcpy(src[1].data, (int32_t[]){1, -1}, 8);
    memcpy(src[2].data, (int32_t[]){0, 1, 1, 1}, 16);
    run_reference(LKI_K_replica_sum, &(lki_args){.src = src, .dst = &dst, .nsrc = 3, .ndst = 1});
    assert_int_equal(((int32_t *)dst.data)[0], INT32_MIN);
    assert_int_equal(((int32_t *)dst.data)[1], INT32_MAX);
    forget_all();
}

/* More of them than the tree ever has open at once. */
TEST(many_that_never_meet)
{
    enum { MANY = 60 };
    lki_view src[MANY + 1], dst = operand(LK_I64, LK_SHAPE(1));
    for (int i = 0; i < MANY; i++) {
        src[i] = operand(LK_I64, LK_SHAPE(1));
        *(int64_t *)src[i].data = INT64_C(1) << i;
    }
    src[MANY] = operand(LK_I32, LK_SHAPE(MANY, 2));
    for (int i = 0; i < MANY; i++)
        memcpy((int32_t *)src[MANY].data + 2 * i, (int32_t[]){2 * i, 1}, 8);
    run_reference(LKI_K_replica_sum, &(lki_args){.src = src, .dst = &dst, .nsrc = MANY + 1, .ndst = 1});
    assert_true(*(int64_t *)dst.data == (INT64_C(1) << MANY) - 1);
    forget_all();
}

/* ---- agreement ---- */

TEST(agreement)
{
    static const double pairs[][2] = {{3, 1}, {1, 1.0 / 3}, {1, NAN}};
    for (int t = 0; t < 2; t++)
        for (int p = 0; p < LKI_COUNT(pairs); p++)
            for (int replicas = 1; replicas <= 4; replicas++)
                for (int n = 0; n < LKI_COUNT(sizes); n++) {
                    lk_dtype type = numbers[t];
                    lki_view src[4], dst = operand(type, LK_SHAPE(sizes[n]));
                    lki_attr attr = {.num = {pairs[p][0], pairs[p][1]}};
                    for (int r = 0; r < replicas; r++) {
                        src[r] = random_operand(type, LK_SHAPE(sizes[n]), WILD);
                        for (int64_t i = 0; r && i < sizes[n]; i++) /* most agree, NaNs of one pattern too */
                            if (random_word() % 8) move_element(&src[r], i, &src[0], i);
                    }
                    lki_args a = {.src = src, .dst = &dst, .nsrc = replicas, .ndst = 1, .attr = &attr};
                    check_slot(LKI_K_agree, &a, 1);
                    for (int64_t i = 0; i < sizes[n]; i++) {
                        size_t bytes = lk_dtype_bytes(type);
                        double sum = lki_element_get(type, src[0].data, i), want, got = lki_element_get(type, dst.data, i);
                        bool   same = true;
                        for (int r = 1; r < replicas; r++) {
                            same = same &&
                                   !memcmp((char *)src[r].data + (size_t)i * bytes, (char *)src[0].data + (size_t)i * bytes, bytes);
                            sum = rounded(type, sum + lki_element_get(type, src[r].data, i));
                        }
                        want = same ? rounded(type, rounded(type, pairs[p][0]) * lki_element_get(type, src[0].data, i))
                                    : rounded(type, rounded(type, pairs[p][1]) * sum);
                        assert_true(got == want || (isnan(got) && isnan(want)));
                    }
                    forget_all();
                }
}

TEST(zeros_of_either_sign_differ)
{
    lki_view src[2] = {operand(LK_F32, LK_SHAPE(1)), operand(LK_F32, LK_SHAPE(1))}, dst = operand(LK_F32, LK_SHAPE(1));
    lki_attr attr = {.num = {1, NAN}};
    *(float *)src[0].data = 0.0f;
    *(float *)src[1].data = -0.0f;
    run_reference(LKI_K_agree, &(lki_args){.src = src, .dst = &dst, .nsrc = 2, .ndst = 1, .attr = &attr});
    assert_true(isnan(*(float *)dst.data));
    forget_all();
}

/* ---- entries picked by ids ---- */

enum { ADD, SUB, MUL, DIV, MIN, MAX, UPDATE, MODES };

static double changed(lk_dtype t, int mode, double to, double x)
{
    bool nan = isnan(to) || isnan(x);
    switch (mode) {
    case ADD: return rounded(t, to + x);
    case SUB: return rounded(t, to - x);
    case MUL: return rounded(t, to * x);
    case DIV: return lki_is_float(t) ? rounded(t, to / x) : trunc(to / x);
    case MIN: return nan ? NAN : x < to ? x : to;
    case MAX: return nan ? NAN : x > to ? x : to;
    default: return x;
    }
}

static void check_scatter(lk_dtype t, lk_dtype id_type, int mode, lk_shape shape, int64_t count)
{
    int64_t  entry = lki_shape_size_from(&shape, 1);
    lki_view v = random_operand(t, shape, TAME),
             src[2] = {random_operand(t, LK_SHAPE(count, entry), TAME), operand(id_type, LK_SHAPE(count))};
    lki_attr attr = {.num = {mode, 0}};
    int      fault = 0;
    double  *want = malloc((size_t)(shape.dim[0] * entry + 1) * sizeof *want);
    if (lki_is_float(t)) fill_values(&src[0], WILD);
    for (int64_t i = 0; i < count * entry && mode == DIV; i++)
        if (lki_element_get(t, src[0].data, i) == 0) lki_element_set(t, src[0].data, i, -1);
    for (int64_t i = 0; i < shape.dim[0] * entry; i++)
        want[i] = lki_element_get(t, v.data, i);
    for (int64_t i = 0; i < count; i++) {
        int64_t id = (int64_t)(random_word() % (uint32_t)shape.dim[0]);
        lki_element_set(id_type, src[1].data, i, (double)id);
        for (int64_t k = 0; k < entry; k++)
            want[id * entry + k] = changed(t, mode, want[id * entry + k], lki_element_get(t, src[0].data, i * entry + k));
    }
    lki_args a = {.src = src, .dst = &v, .nsrc = 2, .ndst = 1, .attr = &attr, .fault = &fault};
    run_reference(LKI_K_scatter, &a);
    assert_int_equal(fault, 0);
    for (int64_t i = 0; i < shape.dim[0] * entry; i++) {
        double got = lki_element_get(t, v.data, i);
        if (got != want[i] && !(isnan(got) && isnan(want[i])))
            fail_msg("scatter mode %d of %s: %g, not %g", mode, lk_dtype_name(t), got, want[i]);
    }
    free(want);
    forget_all();
}

TEST(scatter)
{
    for (int t = 0; t < LKI_COUNT(numbers); t++)
        for (int mode = 0; mode < MODES; mode++) {
            check_scatter(numbers[t], LK_I32, mode, LK_SHAPE(5), 3);
            check_scatter(numbers[t], LK_I64, mode, LK_SHAPE(3, 7), 20); /* ids that repeat: one after the other */
            check_scatter(numbers[t], LK_I32, mode, LK_SHAPE(4, 2, 3), 0);
            check_scatter(numbers[t], LK_I64, mode, LK_SHAPE(2, 0), 4);
        }
}

static int scatter_two(lk_dtype t, int mode, const void *to, const void *rows, const int64_t *ids, void *out)
{
    lki_view v = operand(t, LK_SHAPE(2)), src[2] = {operand(t, LK_SHAPE(2)), operand(LK_I64, LK_SHAPE(2))};
    lki_attr attr = {.num = {mode, 0}};
    int      fault = 0;
    size_t   bytes = 2 * lk_dtype_bytes(t);
    memcpy(v.data, to, bytes);
    memcpy(src[0].data, rows, bytes);
    memcpy(src[1].data, ids, 2 * sizeof *ids);
    run_reference(LKI_K_scatter, &(lki_args){.src = src, .dst = &v, .nsrc = 2, .ndst = 1, .attr = &attr, .fault = &fault});
    memcpy(out, v.data, bytes);
    forget_all();
    return fault;
}

TEST(scatter_faults_change_nothing)
{
    static const int64_t outside[][2] = {{0, 2}, {-1, 0}, {1, INT64_MAX}, {INT64_MIN, 1}}, inside[2] = {1, 0};
    const int32_t        to[2] = {6, 7}, rows[2] = {2, 3}, none[2] = {2, 0};
    int32_t              out[2];
    for (int i = 0; i < LKI_COUNT(outside); i++)
        for (int mode = 0; mode < MODES; mode++) {
            assert_int_equal(scatter_two(LK_I32, mode, to, rows, outside[i], out), 1);
            assert_memory_equal(out, to, sizeof to);
        }
    assert_int_equal(scatter_two(LK_I32, DIV, to, none, inside, out), 1);
    assert_memory_equal(out, to, sizeof to);
    assert_int_equal(scatter_two(LK_I32, MUL, to, none, inside, out), 0);
    assert_true(out[0] == 0 && out[1] == 14);
}

TEST(scatter_corners_of_integers)
{
    static const int64_t ids[2] = {0, 1};
    const int32_t        low[2] = {INT32_MIN, INT32_MAX}, minus[2] = {-1, -1}, two[2] = {2, 2};
    const int64_t        low64[2] = {INT64_MIN, INT64_MAX}, minus64[2] = {-1, -1};
    int32_t              out[2];
    int64_t              out64[2];
    scatter_two(LK_I32, DIV, low, minus, ids, out);
    assert_true(out[0] == INT32_MIN && out[1] == -INT32_MAX);
    scatter_two(LK_I64, DIV, low64, minus64, ids, out64);
    assert_true(out64[0] == INT64_MIN && out64[1] == -INT64_MAX);
    scatter_two(LK_I32, MUL, low, two, ids, out);
    assert_true(out[0] == 0 && out[1] == -2);
    scatter_two(LK_I32, ADD, low, minus, ids, out);
    assert_true(out[0] == INT32_MAX && out[1] == INT32_MAX - 1);
    scatter_two(LK_I32, SUB, low, minus, ids, out);
    assert_true(out[0] == INT32_MIN + 1 && out[1] == INT32_MIN);
}

/* ---- sums that stay per lane ---- */

static void check_lane_add(lk_dtype t, lk_shape shape, int lanes, bool by_lanes)
{
    int64_t  entry = lki_shape_size_from(&shape, 1), bound[65];
    lk_shape state = shape;
    state.dim[0] = lanes;
    lki_view  x = random_operand(t, shape, TAME), v = random_operand(LK_F64, state, TAME);
    lki_lanes lane = {lanes, bound};
    lki_attr  attr = {.num = {lanes - 1, 0}};
    double   *want = malloc((size_t)(lanes * entry + 1) * sizeof *want);
    memcpy(want, v.data, (size_t)(lanes * entry) * sizeof *want);
    lki_lane_bounds(2 * shape.dim[0], lanes, 1, shape.dim[0], 1, bound); /* the middle of a batch: outer lanes are empty */
    for (int s = 0; s < lanes; s++) {
        int64_t from = by_lanes ? bound[s] : 0, to = by_lanes ? bound[s + 1] : s == lanes - 1 ? shape.dim[0] : 0;
        for (int64_t k = 0; k < entry && from < to; k++) {
            double sum = 0;
            for (int64_t i = from; i < to; i++)
                sum += lki_element_get(t, x.data, i * entry + k);
            want[s * entry + k] += sum;
        }
    }
    lki_args a = {.src = &x, .dst = &v, .nsrc = 1, .ndst = 1, .attr = &attr, .lanes = by_lanes ? &lane : NULL};
    run_reference(LKI_K_lane_add, &a);
    check_bits(LK_F64, v.data, want, lanes * entry, "lane_add");
    free(want);
    forget_all();
}

TEST(lane_add)
{
    for (int t = 0; t < LK_DTYPE_COUNT; t++)
        for (int lanes = 1; lanes <= 64; lanes *= 4)
            for (int by_lanes = 0; by_lanes < 2; by_lanes++) {
                check_lane_add((lk_dtype)t, LK_SHAPE(37), lanes, by_lanes);
                check_lane_add((lk_dtype)t, LK_SHAPE(5, 3), lanes, by_lanes);
                check_lane_add((lk_dtype)t, LK_SHAPE(0), lanes, by_lanes);
                check_lane_add((lk_dtype)t, LK_SHAPE(1, 2, 2), lanes, by_lanes);
            }
}

int main(int argc, char **argv)
{
    (void)argc, (void)argv;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_of_subtrees_are_the_tree),
        cmocka_unit_test(what_stays_open_is_added_from_the_right),
        cmocka_unit_test(integers_wrap),
        cmocka_unit_test(many_that_never_meet),
        cmocka_unit_test(agreement),
        cmocka_unit_test(zeros_of_either_sign_differ),
        cmocka_unit_test(scatter),
        cmocka_unit_test(scatter_faults_change_nothing),
        cmocka_unit_test(scatter_corners_of_integers),
        cmocka_unit_test(lane_add),
    };
    return cmocka_run_group_tests(tests, make_tables, NULL);
}
