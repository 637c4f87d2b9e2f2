/* Moves on a GPU against the reference: all element sizes, shapes that can be moved in wide units and shapes that cannot, squares
 * and their edges, empty arrays. */
#include "slots.h"

static const lk_dtype all_types[] = {LK_F32, LK_F64, LK_F16, LK_BF16, LK_I32, LK_I64, LK_U8, LK_BOOL};

#define EACH_TYPE(t) for (int t##_ = 0, t = LK_F32; t##_ < LKI_COUNT(all_types) && ((t = (int)all_types[t##_]), true); t##_++)

static slot_case case_of(lki_slot slot, int t) { return (slot_case){.slot = slot, .dtype = (lk_dtype)t}; }

static lk_shape shape_of(int rank, const int64_t *dim)
{
    lk_shape s = {.rank = rank};
    for (int d = 0; d < rank; d++)
        s.dim[d] = dim[d];
    return s;
}

static void one_to_one(slot_case *c, lk_shape from, lk_shape to)
{
    slot_source(c, c->dtype, from, slot_numbers(c->dtype, &from, true));
    slot_result(c, c->dtype, to, NULL);
    slot_check(c);
}

TEST(test_copy)
{
    EACH_TYPE(t)
    {
        for (int64_t n = 0; n < 5000; n += 1 + n / 3) {
            slot_case c = case_of(LKI_K_copy, t);
            one_to_one(&c, (lk_shape){1, {n}}, (lk_shape){1, {n}});
        }
        slot_case c = case_of(LKI_K_copy, t);
        one_to_one(&c, (lk_shape){0}, (lk_shape){0});
    }
}

TEST(test_fill)
{
    static const double values[] = {
        0,         -0.0,   1,      -1,   3.75,  1.0009765625, 1.00048828126, 65519.9,          65520,
        1e-5,      6.1e-5, 2.9e-8, 3e-8, 1e-42, -1e-42,       1e300,         -1e300,           INFINITY,
        -INFINITY, NAN,    0.1,    300,  4e9,   1e19,         0x1.01p0,      0x1.0100000001p0, 0x1.fefffffffp127};
    EACH_TYPE(t)
    {
        for (int i = 0; i < LKI_COUNT(values); i++) {
            const lk_shape s = {2, {i % 5, 23}};
            slot_case      c = case_of(LKI_K_fill, t);
            c.attr.num.a = values[i];
            slot_result(&c, c.dtype, s, NULL);
            slot_check(&c);
        }
        for (int i = 0; i < 100; i++) {
            const lk_shape s = {1, {i}};
            slot_case      c = case_of(LKI_K_fill, t);
            c.attr.num.a = slot_number(true) * exp2((double)(slot_below(60) - 30));
            slot_result(&c, c.dtype, s, NULL);
            slot_check(&c);
        }
    }
}

TEST(test_range)
{
    static const lk_dtype types[] = {LK_F32, LK_F64, LK_I32, LK_I64};
    for (int t = 0; t < LKI_COUNT(types); t++)
        for (int64_t n = 0; n < 3000; n += 1 + n / 2) {
            slot_case c = case_of(LKI_K_range, types[t]);
            slot_result(&c, c.dtype, (lk_shape){1, {n}}, NULL);
            slot_check(&c);
        }
}

TEST(test_broadcast)
{
    static const lk_shape cases[][2] = {{{0, {0}}, {0, {0}}},
                                        {{0, {0}}, {3, {4, 5, 7}}},
                                        {{1, {1}}, {1, {1000}}},
                                        {{1, {7}}, {3, {4, 5, 7}}},
                                        {{1, {64}}, {2, {40, 64}}},
                                        {{2, {5, 1}}, {3, {4, 5, 7}}},
                                        {{3, {4, 1, 8}}, {3, {4, 5, 8}}},
                                        {{4, {1, 5, 1, 6}}, {4, {3, 5, 4, 6}}},
                                        {{2, {1, 3}}, {2, {0, 3}}},
                                        {{2, {0, 1}}, {2, {0, 9}}},
                                        {{4, {3, 1, 2, 1}}, {5, {2, 3, 4, 2, 16}}},
                                        {{3, {4, 5, 7}}, {3, {4, 5, 7}}},
                                        {{2, {300, 1}}, {2, {300, 17}}}};
    EACH_TYPE(t)
    {
        for (int i = 0; i < LKI_COUNT(cases); i++) {
            slot_case c = case_of(LKI_K_broadcast, t);
            one_to_one(&c, cases[i][0], cases[i][1]);
        }
    }
}

static void check_transpose(int t, lk_shape from, const int *axis)
{
    slot_case c = case_of(LKI_K_transpose, t);
    lk_shape  to = {.rank = from.rank};
    for (int d = 0; d < from.rank; d++) {
        c.attr.perm.axis[d] = axis[d];
        to.dim[d] = from.dim[axis[d]];
    }
    one_to_one(&c, from, to);
}

TEST(test_transpose)
{
    static const struct {
        lk_shape from;
        int      axis[LK_MAX_RANK];
    } cases[] = {{{0, {0}}, {0}},
                 {{1, {9}}, {0}},
                 {{2, {64, 96}}, {1, 0}},
                 {{2, {33, 31}}, {1, 0}},
                 {{2, {1, 50}}, {1, 0}},
                 {{2, {7, 100}}, {1, 0}},
                 {{2, {100, 7}}, {1, 0}},
                 {{2, {8, 8}}, {1, 0}},
                 {{2, {0, 8}}, {1, 0}},
                 {{3, {5, 33, 40}}, {0, 2, 1}},
                 {{4, {3, 10, 12, 20}}, {0, 3, 1, 2}}, /* blocks of axes change places */
                 {{4, {3, 20, 10, 12}}, {0, 2, 3, 1}},
                 {{4, {2, 6, 5, 16}}, {0, 2, 1, 3}}, /* heads: the last axis stays */
                 {{4, {2, 6, 5, 7}}, {0, 2, 1, 3}},
                 {{3, {35, 3, 36}}, {2, 1, 0}},
                 {{4, {9, 10, 11, 12}}, {3, 2, 1, 0}},
                 {{4, {12, 2, 33, 3}}, {2, 1, 0, 3}}};
    EACH_TYPE(t)
    {
        for (int i = 0; i < LKI_COUNT(cases); i++)
            check_transpose(t, cases[i].from, cases[i].axis);
        for (int i = 0; i < 30; i++) {
            lk_shape from = {.rank = 1 + (int)slot_below(6)};
            int      axis[LK_MAX_RANK];
            for (int d = 0; d < from.rank; d++) {
                from.dim[d] = slot_below(8) ? 1 + slot_below(9) : slot_below(2) ? 1 : 33;
                axis[d] = d;
            }
            for (int d = from.rank - 1; d > 0; d--) {
                const int j = (int)slot_below(d + 1), other = axis[j];
                axis[j] = axis[d];
                axis[d] = other;
            }
            if (lki_shape_size(&from) <= 40000) check_transpose(t, from, axis);
        }
    }
}

/* A random slice of a random shape; which is the other array of both slots. */
static lk_shape random_slice(slot_case *c, lk_shape *whole, bool plain)
{
    lk_shape part = {.rank = whole->rank = 1 + (int)slot_below(5)};
    for (int d = 0; d < whole->rank; d++) {
        const int64_t n = whole->dim[d] = slot_below(20) ? 1 + slot_below(12) : 0;
        int64_t       step = plain ? 1 : 1 + slot_below(3), count = n ? slot_below((n - 1) / step + 2) : 0;
        int64_t       begin = count ? slot_below(n - (count - 1) * step) : 0;
        if (!plain && slot_below(3) == 0 && count) {
            begin += (count - 1) * step;
            step = -step;
        }
        c->attr.slice.begin[d] = begin;
        c->attr.slice.stride[d] = step;
        part.dim[d] = count;
    }
    return part;
}

TEST(test_slice_unslice)
{
    EACH_TYPE(t)
    {
        for (int i = 0; i < 80; i++) {
            slot_case c = case_of(i % 2 ? LKI_K_slice : LKI_K_unslice, t);
            lk_shape  whole, part = random_slice(&c, &whole, i % 3 == 0);
            one_to_one(&c, i % 2 ? whole : part, i % 2 ? part : whole);
        }
        for (int64_t rows = 0; rows < 3; rows++) { /* rows that stay whole: wide units, or not, by where they begin */
            slot_case c = case_of(LKI_K_slice, t);
            for (int d = 0; d < 2; d++)
                c.attr.slice.stride[d] = 1;
            c.attr.slice.begin[0] = rows;
            c.attr.slice.begin[1] = rows == 2 ? 16 : 0;
            one_to_one(&c, (lk_shape){2, {9, 48}}, (lk_shape){2, {5, 32}});
        }
        slot_case c = case_of(LKI_K_unslice, t); /* all of it */
        c.attr.slice.stride[0] = -1;
        c.attr.slice.begin[0] = 32;
        one_to_one(&c, (lk_shape){1, {33}}, (lk_shape){1, {33}});
    }
}

static void check_pad(int t, lki_slot slot, int rank, const int64_t *plain, const int64_t *before, const int64_t *after, int mode)
{
    slot_case      c = case_of(slot, t);
    const lk_shape x = shape_of(rank, plain);
    lk_shape       y = x;
    for (int d = 0; d < rank; d++) {
        c.attr.pad.before[d] = before[d];
        y.dim[d] += before[d] + after[d];
    }
    c.attr.pad.mode = mode;
    c.attr.pad.value = -2.5;
    one_to_one(&c, slot == LKI_K_pad ? x : y, slot == LKI_K_pad ? y : x);
}

static void random_pad(int t, lki_slot slot)
{
    int64_t   plain[LK_MAX_RANK], before[LK_MAX_RANK], after[LK_MAX_RANK];
    const int rank = (int)slot_below(5), mode = (int)slot_below(3);
    for (int d = 0; d < rank; d++) {
        plain[d] = 1 + slot_below(7);
        const int64_t most = mode == LKI_PAD_CONSTANT  ? 4
                             : mode == LKI_PAD_REFLECT ? plain[d]
                                                       : plain[d] + 1; /* one more than the widest */
        before[d] = slot_below(2) ? slot_below(most) : 0;
        after[d] = slot_below(2) ? slot_below(most) : 0;
    }
    check_pad(t, slot, rank, plain, before, after, mode);
}

TEST(test_pad)
{
    EACH_TYPE(t)
    {
        for (int i = 0; i < 60; i++)
            random_pad(t, LKI_K_pad);
        check_pad(t, LKI_K_pad, 2, (int64_t[]){0, 3}, (int64_t[]){2, 0}, (int64_t[]){1, 0}, LKI_PAD_CONSTANT);
        check_pad(t, LKI_K_pad, 2, (int64_t[]){4, 0}, (int64_t[]){2, 0}, (int64_t[]){1, 0}, LKI_PAD_CONSTANT);
        check_pad(t, LKI_K_pad, 4, (int64_t[]){2, 9, 9, 16}, (int64_t[]){0, 2, 1, 0}, (int64_t[]){0, 1, 2, 0}, LKI_PAD_CONSTANT);
    }
}

TEST(test_pad_grad)
{
    for (int t = LK_F32, n = 0; n < 2; t = LK_F64, n++) {
        for (int i = 0; i < 200; i++)
            random_pad(t, LKI_K_pad_grad);
        check_pad(t, LKI_K_pad_grad, 2, (int64_t[]){0, 3}, (int64_t[]){2, 0}, (int64_t[]){1, 0}, LKI_PAD_CONSTANT);
        check_pad(t, LKI_K_pad_grad, 4, (int64_t[]){2, 5, 6, 3}, (int64_t[]){0, 4, 5, 0}, (int64_t[]){0, 4, 5, 0}, LKI_PAD_REFLECT);
        check_pad(t, LKI_K_pad_grad, 4, (int64_t[]){2, 5, 6, 3}, (int64_t[]){2, 5, 6, 0}, (int64_t[]){1, 5, 6, 3},
                  LKI_PAD_SYMMETRIC);
    }
}

/* Parts of random sizes, some empty, along one axis. */
TEST(test_concat)
{
    EACH_TYPE(t)
    {
        for (int i = 0; i < 40; i++) {
            slot_case c = case_of(LKI_K_concat, t);
            lk_shape  all = {.rank = 1 + (int)slot_below(4)};
            const int axis = (int)slot_below(all.rank), parts = 1 + (int)slot_below(MOST);
            for (int d = 0; d < all.rank; d++)
                all.dim[d] = i % 4 ? 1 + slot_below(9) : 4 * slot_below(4);
            all.dim[axis] = 0;
            c.attr.scan.axis = axis;
            for (int p = 0; p < parts; p++) {
                lk_shape part = all;
                part.dim[axis] = i % 4 ? slot_below(6) : 8 * slot_below(3);
                slot_source(&c, c.dtype, part, slot_numbers(c.dtype, &part, true));
            }
            for (int p = 0; p < parts; p++)
                all.dim[axis] += c.src[p].dim[axis];
            slot_result(&c, c.dtype, all, NULL);
            slot_check(&c);
        }
    }
}

TEST(test_unstack)
{
    EACH_TYPE(t)
    {
        for (int i = 0; i < 40; i++) {
            slot_case c = case_of(LKI_K_unstack, t);
            lk_shape  all = {.rank = 1 + (int)slot_below(4)}, part = {0};
            const int axis = (int)slot_below(all.rank);
            for (int d = 0; d < all.rank; d++)
                all.dim[d] = i % 3 ? 1 + slot_below(9) : 4 * slot_below(4);
            all.dim[axis] = 1 + slot_below(MOST);
            c.attr.scan.axis = axis;
            for (int d = 0; d < all.rank; d++)
                if (d != axis) part.dim[part.rank++] = all.dim[d];
            slot_source(&c, c.dtype, all, slot_numbers(c.dtype, &all, true));
            for (int64_t p = 0; p < all.dim[axis]; p++)
                slot_result(&c, c.dtype, part, NULL);
            slot_check(&c);
        }
    }
}

TESTS(cmocka_unit_test(test_copy), cmocka_unit_test(test_fill), cmocka_unit_test(test_range), cmocka_unit_test(test_broadcast),
      cmocka_unit_test(test_transpose), cmocka_unit_test(test_slice_unslice), cmocka_unit_test(test_pad),
      cmocka_unit_test(test_pad_grad), cmocka_unit_test(test_concat), cmocka_unit_test(test_unstack))
