/* Moves, casts, scans, sorting, indices and random numbers: the reference against a plain restatement, element by element, and
 * split ranges against whole ones. */
#include "core/random.h"
#include "kernels.h"

static const lk_dtype floats[] = {LK_F32, LK_F64}, numbers[] = {LK_F32, LK_F64, LK_I32, LK_I64};

/* dst[i] = src[from(i)], or the element `other` where from(i) is -1. */
typedef int64_t source_fn(const lki_args *a, int64_t i);

static void check_moves(lki_slot slot, const lki_args *a, int64_t unit, source_fn *from, const lki_view *other)
{
    lki_view want = operand(a->dst[0].dtype, *a->dst[0].shape);
    check_slot(slot, a, unit);
    for (int64_t i = 0; i < size_of(&want); i++) {
        int64_t j = from(a, i);
        move_element(&want, i, j < 0 ? other : &a->src[0], j < 0 ? 0 : j);
    }
    check_bits(want.dtype, a->dst[0].data, want.data, size_of(&want), lki_slot_name(slot));
    forget_all();
}

static int64_t from_same(const lki_args *a, int64_t i) { return (void)a, i; }

static int64_t from_broadcast(const lki_args *a, int64_t i)
{
    int64_t at[LK_MAX_RANK], there[LK_MAX_RANK];
    int     added = a->dst[0].shape->rank - a->src[0].shape->rank;
    place_of(a->dst[0].shape, i, at);
    for (int axis = 0; axis < a->src[0].shape->rank; axis++)
        there[axis] = a->src[0].shape->dim[axis] == 1 ? 0 : at[axis + added];
    return index_of(a->src[0].shape, there);
}

static int64_t from_transposed(const lki_args *a, int64_t i)
{
    int64_t at[LK_MAX_RANK], there[LK_MAX_RANK];
    place_of(a->dst[0].shape, i, at);
    for (int axis = 0; axis < a->dst[0].shape->rank; axis++)
        there[a->attr->perm.axis[axis]] = at[axis];
    return index_of(a->src[0].shape, there);
}

static int64_t from_slice(const lki_args *a, int64_t i)
{
    int64_t at[LK_MAX_RANK];
    place_of(a->dst[0].shape, i, at);
    for (int axis = 0; axis < a->dst[0].shape->rank; axis++)
        at[axis] = a->attr->slice.begin[axis] + at[axis] * a->attr->slice.stride[axis];
    return index_of(a->src[0].shape, at);
}

static int64_t from_unslice(const lki_args *a, int64_t i)
{
    int64_t at[LK_MAX_RANK];
    place_of(a->dst[0].shape, i, at);
    for (int axis = 0; axis < a->dst[0].shape->rank; axis++) {
        int64_t away = at[axis] - a->attr->slice.begin[axis], stride = a->attr->slice.stride[axis];
        if (away % stride || away / stride < 0 || away / stride >= a->src[0].shape->dim[axis]) return -1;
        at[axis] = away / stride;
    }
    return index_of(a->src[0].shape, at);
}

/* Reflection walked step by step: turn round at the edges. */
static int64_t from_pad(const lki_attr *attr, const lk_shape *padded, const lk_shape *plain, int64_t i)
{
    int64_t at[LK_MAX_RANK];
    place_of(padded, i, at);
    for (int axis = 0; axis < padded->rank; axis++) {
        int64_t n = plain->dim[axis], c = at[axis] - attr->pad.before[axis], twice = attr->pad.mode == LKI_PAD_SYMMETRIC;
        if (c < 0 || c >= n) {
            if (attr->pad.mode == LKI_PAD_CONSTANT) return -1;
            if (c < 0) c = -c - twice;
            if (c >= n) c = n - 1 - (c - (n - 1)) + twice;
        }
        at[axis] = c;
    }
    return index_of(plain, at);
}

static int64_t from_padded(const lki_args *a, int64_t i) { return from_pad(a->attr, a->dst[0].shape, a->src[0].shape, i); }

static int64_t from_gathered(const lki_args *a, int64_t i)
{
    int     axis = a->attr->scan.axis;
    int64_t inner = lki_shape_size_from(a->src[0].shape, axis + 1), ids = size_of(&a->src[1]), n = a->src[0].shape->dim[axis];
    int64_t id = (int64_t)lki_element_get(a->src[1].dtype, a->src[1].data, i / inner % ids);
    return id < 0 || id >= n ? -1 : (i / inner / ids * n + id) * inner + i % inner;
}

static int64_t from_own_ids(const lki_args *a, int64_t i)
{
    int64_t inner = lki_shape_size_from(a->src[0].shape, 2), n = a->src[0].shape->dim[1];
    int64_t ids = lki_shape_size_from(a->src[1].shape, 1),
            id = (int64_t)lki_element_get(a->src[1].dtype, a->src[1].data, i / inner);
    return id < 0 || id >= n ? -1 : (i / inner / ids * n + id) * inner + i % inner;
}

/* ---- moves ------------------------------------------------------------------------------------------------------------------- */

static void check_one(lki_slot slot, lk_dtype t, lk_shape from, lk_shape to, const lki_attr *attr, int64_t unit, source_fn *fn,
                      double other)
{
    lki_view src = random_operand(t, from, ANY_BITS), dst = operand(t, to), fill = operand(t, LK_SHAPE());
    lki_args a = {.src = &src, .dst = &dst, .nsrc = 1, .ndst = 1, .attr = attr};
    lki_element_set(t, fill.data, 0, other);
    check_moves(slot, &a, unit, fn, &fill);
}

TEST(copies_and_broadcasts)
{
    for (int t = 0; t < LK_DTYPE_COUNT; t++) {
        lk_dtype type = (lk_dtype)t;
        for (int64_t n = 0; n < 70; n += 7) {
            check_one(LKI_K_copy, type, LK_SHAPE(n), LK_SHAPE(n), NULL, 1, from_same, 0);
            check_one(LKI_K_broadcast, type, LK_SHAPE(n), LK_SHAPE(11, n), NULL, 1, from_broadcast, 0);
            check_one(LKI_K_broadcast, type, LK_SHAPE(n, 1), LK_SHAPE(3, n, 5), NULL, 1, from_broadcast, 0);
        }
        check_one(LKI_K_broadcast, type, LK_SHAPE(), LK_SHAPE(33, 3), NULL, 1, from_broadcast, 0);
        check_one(LKI_K_broadcast, type, LK_SHAPE(2, 1, 3, 1), LK_SHAPE(2, 4, 3, 5), NULL, 1, from_broadcast, 0);
    }
}

TEST(transposes)
{
    static const struct {
        lk_shape from;
        int32_t  axis[4];
    } cases[] = {
        {{2, {7, 9}}, {1, 0}},
        {{2, {7, 9}}, {0, 1}},
        {{2, {64, 33}}, {1, 0}},
        {{2, {65, 131}}, {1, 0}}, /* around the blocks of the fast ones */
        {{2, {3, 200}}, {1, 0}},
        {{2, {200, 3}}, {1, 0}},
        {{3, {3, 24, 71}}, {0, 2, 1}},
        {{3, {3, 24, 71}}, {2, 1, 0}},
        {{3, {24, 5, 17}}, {2, 0, 1}},
        {{3, {24, 5, 17}}, {1, 0, 2}},
        {{4, {2, 9, 3, 16}}, {0, 3, 2, 1}},
        {{4, {2, 9, 1, 16}}, {3, 0, 2, 1}},
        {{3, {2, 3, 4}}, {2, 0, 1}},
        {{3, {5, 1, 4}}, {1, 2, 0}},
        {{4, {2, 3, 4, 5}}, {0, 2, 1, 3}},
        {{4, {2, 3, 4, 5}}, {3, 2, 1, 0}},
        {{2, {0, 3}}, {1, 0}},
        {{0, {0}}, {0}},
    };
    for (int c = 0; c < LKI_COUNT(cases); c++)
        for (int t = 0; t < LK_DTYPE_COUNT; t++) {
            lki_attr attr = {0};
            lk_shape to = {.rank = cases[c].from.rank};
            for (int i = 0; i < to.rank; i++) {
                attr.perm.axis[i] = cases[c].axis[i];
                to.dim[i] = cases[c].from.dim[cases[c].axis[i]];
            }
            check_one(LKI_K_transpose, (lk_dtype)t, cases[c].from, to, &attr, 1, from_transposed, 0);
        }
}

TEST(slices_and_back)
{
    static const struct {
        lk_shape whole, part;
        int64_t  begin[3], stride[3];
    } cases[] = {
        {{1, {20}}, {1, {5}}, {3}, {2}},
        {{1, {20}}, {1, {7}}, {19}, {-3}},
        {{2, {6, 9}}, {2, {6, 4}}, {0, 5}, {1, 1}},
        {{2, {6, 9}}, {2, {3, 9}}, {2, 0}, {1, 1}},
        {{3, {4, 5, 6}}, {3, {2, 5, 3}}, {3, 4, 0}, {-2, -1, 2}},
        {{3, {4, 5, 6}}, {3, {1, 1, 1}}, {3, 2, 5}, {1, 1, 1}},
        {{2, {6, 9}}, {2, {0, 9}}, {2, 0}, {1, 1}},
    };
    for (int c = 0; c < LKI_COUNT(cases); c++)
        for (int t = 0; t < LK_DTYPE_COUNT; t++) {
            lki_attr attr = {0};
            memcpy(attr.slice.begin, cases[c].begin, sizeof cases[c].begin);
            memcpy(attr.slice.stride, cases[c].stride, sizeof cases[c].stride);
            check_one(LKI_K_slice, (lk_dtype)t, cases[c].whole, cases[c].part, &attr, 1, from_slice, 0);
            check_one(LKI_K_unslice, (lk_dtype)t, cases[c].part, cases[c].whole, &attr, 0, from_unslice, 0);
        }
}

TEST(pads)
{
    static const struct {
        lk_shape plain, padded;
        int64_t  before[3];
    } cases[] = {
        {{1, {5}}, {1, {12}}, {3}},
        {{2, {4, 6}}, {2, {8, 13}}, {2, 5}},
        {{3, {2, 3, 4}}, {3, {3, 5, 4}}, {1, 0, 0}},
        {{2, {4, 6}}, {2, {4, 6}}, {0, 0}},
        {{3, {2, 3, 4}}, {3, {2, 6, 4}}, {0, 2, 0}}, /* whole rows stay together */
        {{3, {5, 3, 20}}, {3, {9, 4, 20}}, {3, 1, 0}},
    };
    for (int c = 0; c < LKI_COUNT(cases); c++)
        for (int mode = LKI_PAD_CONSTANT; mode <= LKI_PAD_SYMMETRIC; mode++) {
            lki_attr attr = {.pad = {.mode = mode, .value = 1}};
            memcpy(attr.pad.before, cases[c].before, sizeof cases[c].before);
            for (int t = 0; t < LK_DTYPE_COUNT; t++)
                check_one(LKI_K_pad, (lk_dtype)t, cases[c].plain, cases[c].padded, &attr, 1, from_padded, 1);
            for (int t = 0; t < 2; t++) {
                lki_view dy = random_operand(floats[t], cases[c].padded, TAME), dx = operand(floats[t], cases[c].plain);
                lki_view want = operand(floats[t], cases[c].plain);
                lki_args a = {.src = &dy, .dst = &dx, .nsrc = 1, .ndst = 1, .attr = &attr};
                check_slot(LKI_K_pad_grad, &a, 0);
                for (int64_t i = 0; i < size_of(&dy); i++) {
                    int64_t j = from_pad(&attr, dy.shape, dx.shape, i);
                    if (j < 0) continue;
                    lki_element_set(floats[t], want.data, j,
                                    lki_element_get(floats[t], want.data, j) + lki_element_get(floats[t], dy.data, i));
                }
                check_bits(floats[t], dx.data, want.data, size_of(&dx), "pad_grad");
                forget_all();
            }
        }
}

TEST(joins)
{
    for (int t = 0; t < LK_DTYPE_COUNT; t++)
        for (int axis = 0; axis < 3; axis++) {
            static const int64_t part[4] = {2, 0, 5, 1};
            lki_view             src[4];
            lk_shape             shape = LK_SHAPE(3, 4, 2);
            lki_attr             attr = {.scan = {.axis = axis}};
            for (int s = 0; s < 4; s++) {
                shape.dim[axis] = part[s];
                src[s] = random_operand((lk_dtype)t, shape, ANY_BITS);
            }
            shape.dim[axis] = 8;
            lki_view dst = operand((lk_dtype)t, shape), want = operand((lk_dtype)t, shape);
            lki_args a = {.src = src, .dst = &dst, .nsrc = 4, .ndst = 1, .attr = &attr};
            check_slot(LKI_K_concat, &a, 1);
            for (int64_t i = 0; i < size_of(&dst); i++) {
                int64_t at[LK_MAX_RANK];
                int     s = 0;
                place_of(&shape, i, at);
                for (; at[axis] >= part[s]; s++)
                    at[axis] -= part[s];
                move_element(&want, i, &src[s], index_of(src[s].shape, at));
            }
            check_bits((lk_dtype)t, dst.data, want.data, size_of(&dst), "concat");
            forget_all();
        }
}

TEST(fills_and_ranges)
{
    for (int t = 0; t < LK_DTYPE_COUNT; t++) {
        lki_attr attr = {.num = {.a = 3}};
        lki_view dst = operand((lk_dtype)t, LK_SHAPE(77));
        lki_args a = {.dst = &dst, .ndst = 1, .attr = &attr};
        check_slot(LKI_K_fill, &a, 1);
        for (int64_t i = 0; i < 77; i++)
            assert_true(lki_element_get(dst.dtype, dst.data, i) == (t == LK_BOOL ? 1 : 3));
        if (!tables[0].fn[LKI_K_range][t]) continue;
        check_slot(LKI_K_range, &a, 1);
        for (int64_t i = 0; i < 77; i++)
            assert_true(lki_element_get(dst.dtype, dst.data, i) == (double)i);
    }
    forget_all();
}

/* ---- cast -------------------------------------------------------------------------------------------------------------------- */

TEST(casts)
{
    for (int s = 0; s < LK_DTYPE_COUNT; s++)
        for (int d = 0; d < LK_DTYPE_COUNT; d++) {
            lki_view src = random_operand((lk_dtype)s, LK_SHAPE(1000), WILD), dst = operand((lk_dtype)d, LK_SHAPE(1000)),
                     want = operand((lk_dtype)d, LK_SHAPE(1000));
            lki_args a = {.src = &src, .dst = &dst, .nsrc = 1, .ndst = 1};
            check_slot(LKI_K_cast, &a, 1);
            for (int64_t i = 0; i < 1000; i++) {
                if (lki_is_float(src.dtype) || lki_is_float(dst.dtype) || d == LK_BOOL) {
                    lki_element_set(dst.dtype, want.data, i, lki_element_get(src.dtype, src.data, i));
                    if (s == LK_I64 && d == LK_F32) ((float *)want.data)[i] = (float)((int64_t *)src.data)[i];
                    continue;
                }
                int64_t whole = s == LK_I64 ? ((int64_t *)src.data)[i] : (int64_t)lki_element_get(src.dtype, src.data, i);
                memcpy((char *)want.data + (size_t)i * lk_dtype_bytes(dst.dtype), &whole,
                       lk_dtype_bytes(dst.dtype)); /* little end */
            }
            char what[64];
            snprintf(what, sizeof what, "cast %s to %s", lk_dtype_name(src.dtype), lk_dtype_name(dst.dtype));
            check_bits(dst.dtype, dst.data, want.data, 1000, what);
            fill_values(&src, ANY_BITS); /* subnormals and all kinds of NaN: the same for every variant */
            check_slot(LKI_K_cast, &a, 1);
            forget_all();
        }
}

/* ---- scans and sorting ------------------------------------------------------------------------------------------------------- */

TEST(running_sums)
{
    for (int t = 0; t < LKI_COUNT(numbers); t++)
        for (int form = 0; form < 12; form++) {
            int      axis = form / 4, exclusive = form & 1, reverse = form >> 1 & 1;
            lk_shape shape = LK_SHAPE(3, 5, 7);
            lki_attr attr = {.scan = {.axis = axis, .exclusive = exclusive, .reverse = reverse}};
            lki_view src = random_operand(numbers[t], shape, TAME), dst = operand(numbers[t], shape);
            lki_args a = {.src = &src, .dst = &dst, .nsrc = 1, .ndst = 1, .attr = &attr};
            check_slot(LKI_K_cumsum, &a, 1);
            for (int64_t i = 0; i < size_of(&dst); i++) {
                int64_t at[LK_MAX_RANK], n = shape.dim[axis];
                double  sum = 0;
                place_of(&shape, i, at);
                int64_t steps = (reverse ? n - 1 - at[axis] : at[axis]) + !exclusive;
                for (int64_t k = 0; k < steps; k++) {
                    at[axis] = reverse ? n - 1 - k : k;
                    sum += lki_element_get(numbers[t], src.data, index_of(&shape, at));
                    if (t == 0) sum = (float)sum;
                }
                assert_true(lki_element_get(numbers[t], dst.data, i) == sum);
            }
            forget_all();
        }
}

TEST(largest_of_a_row)
{
    for (int t = 0; t < LKI_COUNT(numbers); t++)
        for (int64_t k = 1; k <= 11; k += 5) {
            lki_attr attr = {.top = {k}};
            lki_view src = random_operand(numbers[t], LK_SHAPE(6, 11), k == 6 ? WILD : TAME);
            lki_view dst[2] = {operand(numbers[t], LK_SHAPE(6, k)), operand(LK_I32, LK_SHAPE(6, k))};
            lki_args a = {.src = &src, .dst = dst, .nsrc = 1, .ndst = 2, .attr = &attr};
            check_slot(LKI_K_top_k, &a, 1);
            for (int64_t i = 0; i < 6 * k; i++) {
                int32_t found = ((int32_t *)dst[1].data)[i], before = 0;
                double  x = lki_element_get(numbers[t], src.data, i / k * 11 + found);
                for (int32_t j = 0; j < 11; j++) {
                    double y = lki_element_get(numbers[t], src.data, i / k * 11 + j);
                    bool   equal = x == y || (isnan(x) && isnan(y));
                    before += equal ? j < found : isnan(y) || y > x;
                }
                assert_int_equal(before, i % k);
                double value = lki_element_get(numbers[t], dst[0].data, i);
                assert_true(value == x || (isnan(value) && isnan(x)));
            }
            forget_all();
        }
}

/* ---- indices ----------------------------------------------------------------------------------------------------------------- */

static lki_view random_ids(lk_dtype t, lk_shape shape, int64_t low, int64_t high)
{
    lki_view ids = operand(t, shape);
    for (int64_t i = 0; i < size_of(&ids); i++)
        lki_element_set(t, ids.data, i, (double)(low + (int64_t)(random_word() % (uint32_t)(high - low))));
    return ids;
}

TEST(gathers)
{
    for (int t = 0; t < LK_DTYPE_COUNT; t++)
        for (int form = 0; form < 6; form++) {
            int      axis = form / 2, fault = 0;
            lk_shape shape = LK_SHAPE(4, 6, 3), to = {.rank = 4};
            lki_view src[2] = {random_operand((lk_dtype)t, shape, ANY_BITS),
                               random_ids(form & 1 ? LK_I32 : LK_I64, LK_SHAPE(2, 5), form == 5 ? -1 : 0, shape.dim[axis])};
            for (int i = 0, j = 0; i < 3; i++) {
                if (i == axis) to.dim[j++] = 2;
                to.dim[j++] = i == axis ? 5 : shape.dim[i];
            }
            lki_attr attr = {.scan = {.axis = axis}};
            lki_view dst = operand((lk_dtype)t, to), zero = operand((lk_dtype)t, LK_SHAPE());
            lki_args a = {.src = src, .dst = &dst, .nsrc = 2, .ndst = 1, .attr = &attr, .fault = &fault};
            if (form == 5) lki_element_set(LK_I32, src[1].data, 3, 99);
            check_moves(LKI_K_gather, &a, 1, from_gathered, &zero);
            assert_int_equal(fault, form == 5);
        }
}

/* The sum over the rows of equal id, lanes s..t of them: first the tree, at its leaves a chain. */
static double oracle_rows(const lki_args *a, int64_t column, int64_t id, const int64_t *bound, int lanes)
{
    lk_dtype t = a->dst[0].dtype;
    if (lanes > 1) {
        double sum = oracle_rows(a, column, id, bound, lanes / 2) + oracle_rows(a, column, id, bound + lanes / 2, lanes / 2);
        return t == LK_F32 ? (double)(float)sum : sum;
    }
    int64_t inner = a->dst[0].shape->dim[1], entry = a->src[1].shape->dim[1];
    double  sum = 0;
    for (int64_t p = bound[0] * entry; p < bound[1] * entry; p++)
        if (lki_element_get(a->src[1].dtype, a->src[1].data, p) == (double)id) {
            sum += lki_element_get(t, a->src[0].data, p * inner + column);
            if (t == LK_F32) sum = (float)sum;
        }
    return sum;
}

TEST(gradients_of_gathers)
{
    for (int t = 0; t < 2; t++)
        for (int lanes = 0; lanes <= 16; lanes = lanes ? lanes * 2 : 1)
            for (int64_t inner = 1; inner < 200; inner += 71) {
                enum { ENTRIES = 12, BATCH = 21, LENGTH = 3 };
                int       fault = 0;
                int64_t   bound[17] = {0, BATCH};
                lki_lanes lane = {lanes, bound};
                lki_attr  attr = {.scan = {.axis = 0}};
                lki_view  src[2] = {random_operand(floats[t], LK_SHAPE(BATCH, LENGTH, inner), TAME),
                                    random_ids(LK_I64, LK_SHAPE(BATCH, LENGTH), 0, ENTRIES)};
                lki_view  dst = operand(floats[t], LK_SHAPE(ENTRIES, inner));
                lki_args  a = {
                     .src = src, .dst = &dst, .nsrc = 2, .ndst = 1, .attr = &attr, .lanes = lanes ? &lane : NULL, .fault = &fault};
                for (int s = 0; lanes && s <= lanes; s++)
                    bound[s] = (s * BATCH + lanes - 1) / lanes;
                ((int64_t *)src[1].data)[BATCH] = ENTRIES; /* out of range: left out, and told */
                check_slot(LKI_K_gather_grad, &a, 0);
                assert_int_equal(fault, 1);
                for (int64_t i = 0; i < size_of(&dst); i++)
                    assert_true(lki_element_get(floats[t], dst.data, i) ==
                                oracle_rows(&a, i % inner, i / inner, bound, lanes ? lanes : 1));
                forget_all();
            }
}

TEST(gradients_of_gathers_on_a_later_axis)
{
    lki_attr attr = {.scan = {.axis = 1}};
    lki_view src[2] = {random_operand(LK_F32, LK_SHAPE(3, 8, 2), TAME), random_ids(LK_I32, LK_SHAPE(8), 0, 5)};
    lki_view dst = operand(LK_F32, LK_SHAPE(3, 5, 2)), want = operand(LK_F32, LK_SHAPE(3, 5, 2));
    lki_args a = {.src = src, .dst = &dst, .nsrc = 2, .ndst = 1, .attr = &attr};
    check_slot(LKI_K_gather_grad, &a, 0);
    for (int64_t i = 0; i < size_of(&src[0]); i++) {
        int64_t id = ((int32_t *)src[1].data)[i / 2 % 8];
        ((float *)want.data)[(i / 16 * 5 + id) * 2 + i % 2] += ((float *)src[0].data)[i];
    }
    check_bits(LK_F32, dst.data, want.data, size_of(&dst), "gather_grad");
    forget_all();
}

TEST(gathers_of_each_row)
{
    for (int t = 0; t < LK_DTYPE_COUNT; t++)
        for (int form = 0; form < 3; form++) {
            int      fault = 0;
            lki_view src[2] = {random_operand((lk_dtype)t, form == 2 ? LK_SHAPE(4, 6) : LK_SHAPE(4, 6, 3), ANY_BITS),
                               random_ids(form ? LK_I32 : LK_I64, LK_SHAPE(4, 2, 5), form == 1 ? -1 : 0, 6)};
            lki_view dst = operand((lk_dtype)t, form == 2 ? LK_SHAPE(4, 2, 5) : LK_SHAPE(4, 2, 5, 3)),
                     zero = operand((lk_dtype)t, LK_SHAPE());
            lki_args a = {.src = src, .dst = &dst, .nsrc = 2, .ndst = 1, .fault = &fault};
            if (form == 1) lki_element_set(LK_I32, src[1].data, 3, 99);
            check_moves(LKI_K_row_gather, &a, 1, from_own_ids, &zero);
            assert_int_equal(fault, form == 1);
        }
}

/* Any range of the result, also one that cuts rows and entries. */
TEST(gradients_of_gathers_of_each_row)
{
    for (int t = 0; t < 2; t++)
        for (int64_t inner = 0; inner < 5; inner += 2) {
            int      fault = 0;
            lki_view src[2] = {random_operand(floats[t], LK_SHAPE(3, 8, inner), TAME), random_ids(LK_I32, LK_SHAPE(3, 8), 0, 5)};
            lki_view dst = operand(floats[t], LK_SHAPE(3, 5, inner)), want = operand(floats[t], LK_SHAPE(3, 5, inner));
            lki_args a = {.src = src, .dst = &dst, .nsrc = 2, .ndst = 1, .fault = &fault};
            ((int32_t *)src[1].data)[9] = 5; /* out of range: left out, and told */
            check_slot(LKI_K_row_gather_grad, &a, 1);
            assert_int_equal(fault, inner > 0);
            for (int64_t i = 0; i < size_of(&src[0]); i++) {
                int64_t id = ((int32_t *)src[1].data)[i / inner], at = (i / inner / 8 * 5 + id) * inner + i % inner;
                double  x = lki_element_get(floats[t], src[0].data, i);
                if (id < 5) lki_element_set(floats[t], want.data, at, lki_element_get(floats[t], want.data, at) + x);
            }
            check_bits(floats[t], dst.data, want.data, size_of(&dst), "row_gather_grad");
            forget_all();
        }
}

TEST(one_hot_rows)
{
    static const lk_dtype ids[] = {LK_I32, LK_I64, LK_U8};
    for (int s = 0; s < 3; s++)
        for (int d = 0; d < LK_DTYPE_COUNT; d++) {
            lki_attr attr = {.num = {.a = 1, .b = 0}};
            lki_view src = random_ids(ids[s], LK_SHAPE(3, 4), 0, 9), dst = operand((lk_dtype)d, LK_SHAPE(3, 4, 7));
            lki_args a = {.src = &src, .dst = &dst, .nsrc = 1, .ndst = 1, .attr = &attr};
            check_slot(LKI_K_one_hot, &a, 1);
            for (int64_t i = 0; i < size_of(&dst); i++)
                assert_true(lki_element_get(dst.dtype, dst.data, i) ==
                            (lki_element_get(src.dtype, src.data, i / 7) == (double)(i % 7)));
            forget_all();
        }
}

/* ---- random numbers ---------------------------------------------------------------------------------------------------------- */

static void check_draw(lk_dtype t, int64_t first, double low, double high)
{
    enum { ROWS = 40, WIDTH = 13 };
    int64_t  iteration = 5;
    lk_shape scalar = LK_SHAPE();
    lki_view src = {&iteration, &scalar, LK_I64}, dst = operand(t, LK_SHAPE(ROWS, WIDTH));
    lki_attr attr = {.random = {.key = 0x123456789abcdef, .call = 3, .low = low, .high = high}};
    lki_args a = {.src = &src, .dst = &dst, .nsrc = 1, .ndst = 1, .attr = &attr, .first = first};
    for (int normal = 0; normal < 2; normal++) {
        check_slot(normal ? LKI_K_random_normal : LKI_K_random_uniform, &a, 1);
        for (int64_t i = 0; i < size_of(&dst); i++) {
            uint64_t   e = (uint64_t)(first * WIDTH + i);
            lki_philox p = lki_philox_block(attr.random.key, e / 4, (uint64_t)iteration * 65536 + 3);
            float      z[2];
            lki_normal_pair(p.word[e % 4 & 2], p.word[(e % 4 & 2) + 1], z);
            double want = normal ? low + high * (double)z[e % 2] : low + (high - low) * (double)lki_uniform_of(p.word[e % 4]);
            assert_true(lki_element_get(t, dst.data, i) == (t == LK_F64 ? want : (double)(float)want));
        }
    }
    forget_all();
}

TEST(draws)
{
    for (int t = 0; t < 2; t++) {
        check_draw(floats[t], 0, 0, 1);
        check_draw(floats[t], 7, -2, 6);
        check_draw(floats[t], ((int64_t)1 << 34) / 13 - 20, 0, 1); /* the low half of the counter overflows on the way */
    }
}

TEST(draws_stay_below_their_end)
{
    int64_t  iteration = 0;
    lk_shape scalar = LK_SHAPE();
    lki_view src = {&iteration, &scalar, LK_I64}, dst = operand(LK_F32, LK_SHAPE(1000));
    lki_attr attr = {.random = {.low = 1, .high = 1 + 0x1p-23}}; /* neighbours: half of the sums round up */
    lki_args a = {.src = &src, .dst = &dst, .nsrc = 1, .ndst = 1, .attr = &attr};
    check_slot(LKI_K_random_uniform, &a, 1);
    for (int i = 0; i < 1000; i++)
        assert_true(((float *)dst.data)[i] == 1);
    forget_all();
}

int main(int argc, char **argv)
{
    (void)argc, (void)argv;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_and_broadcasts),
        cmocka_unit_test(transposes),
        cmocka_unit_test(slices_and_back),
        cmocka_unit_test(pads),
        cmocka_unit_test(joins),
        cmocka_unit_test(fills_and_ranges),
        cmocka_unit_test(casts),
        cmocka_unit_test(running_sums),
        cmocka_unit_test(largest_of_a_row),
        cmocka_unit_test(gathers),
        cmocka_unit_test(gradients_of_gathers),
        cmocka_unit_test(gradients_of_gathers_on_a_later_axis),
        cmocka_unit_test(gathers_of_each_row),
        cmocka_unit_test(gradients_of_gathers_of_each_row),
        cmocka_unit_test(one_hot_rows),
        cmocka_unit_test(draws),
        cmocka_unit_test(draws_stay_below_their_end),
    };
    return cmocka_run_group_tests(tests, make_tables, NULL);
}
