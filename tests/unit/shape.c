/* Shapes: text, validity, sizes without overflow, broadcasting, axes. */
#include "core/shape.h"
#include "check.h"
#include <string.h>

static const char *text_of(lk_shape s)
{
    static char text[LKI_SHAPE_TEXT];
    return lki_shape_text(&s, text);
}

TEST(shapes_as_text)
{
    assert_string_equal(text_of(LK_SHAPE()), "[]");
    assert_string_equal(text_of(LK_SHAPE(5)), "[5]");
    assert_string_equal(text_of(LK_SHAPE(64, 28, 28, 1)), "[64, 28, 28, 1]");
    assert_string_equal(text_of(LK_SHAPE(1, 2, 3, 4, 5, 6, 7, 8, 9)), "[more than 8 sizes]");
    int64_t  m = INT64_MIN;
    lk_shape longest = LK_SHAPE(m, m, m, m, m, m, m, m);
    assert_int_equal(strlen(text_of(longest)), 2 + 8 * 20 + 7 * 2);
}

TEST(what_is_a_shape)
{
    lk_shape good[] = {LK_SHAPE(), LK_SHAPE(0), LK_SHAPE(1, 2, 3, 4, 5, 6, 7, 8), LK_SHAPE((int64_t)1 << 59)};
    lk_shape bad[] = {LK_SHAPE(-1),
                      LK_SHAPE(3, -2),
                      LK_SHAPE(1, 2, 3, 4, 5, 6, 7, 8, 9),
                      LK_SHAPE((int64_t)1 << 60),
                      LK_SHAPE((int64_t)1 << 30, (int64_t)1 << 30),
                      LK_SHAPE(0, (int64_t)1 << 40, (int64_t)1 << 40),
                      {.rank = LK_MAX_RANK + 1},
                      {.rank = -3}};
    for (int i = 0; i < LKI_COUNT(good); i++)
        assert_true(lki_shape_valid(&good[i]));
    for (int i = 0; i < LKI_COUNT(bad); i++)
        assert_false(lki_shape_valid(&bad[i]));
}

TEST(what_is_a_row)
{
    lk_shape good[] = {LK_SHAPE(), LK_SHAPE(-1), LK_SHAPE(0, 3), LK_SHAPE(1, 2, 3, 4, 5, 6, 7),
                       LK_SHAPE((int64_t)1 << 40, -1, 256)};
    lk_shape bad[] = {LK_SHAPE(-2),
                      LK_SHAPE(1, 2, 3, 4, 5, 6, 7, 8),
                      LK_SHAPE(0, (int64_t)1 << 49),
                      LK_SHAPE((int64_t)1 << 40, -1, 257),
                      LK_SHAPE(INT64_MAX, INT64_MAX),
                      {.rank = -1}};
    for (int i = 0; i < LKI_COUNT(good); i++)
        assert_true(lki_row_valid(&good[i]));
    for (int i = 0; i < LKI_COUNT(bad); i++)
        assert_false(lki_row_valid(&bad[i]));
}

TEST(sizes)
{
    lk_shape s = LK_SHAPE(2, 3, 5), scalar = LK_SHAPE(), empty = LK_SHAPE(4, 0, 7);
    lk_shape vast = LK_SHAPE((int64_t)1 << 40, (int64_t)1 << 40), negative = LK_SHAPE(-2, -3);
    assert_int_equal(lki_shape_size(&s), 30);
    assert_int_equal(lki_shape_size_from(&s, 1), 15);
    assert_int_equal(lki_shape_size_from(&s, 3), 1);
    assert_int_equal(lki_shape_size(&scalar), 1);
    assert_int_equal(lki_shape_size(&empty), 0);
    assert_int_equal(lki_shape_size(&vast), -1);
    assert_int_equal(lki_shape_size(&negative), -1);
}

TEST(equality)
{
    lk_shape a = LK_SHAPE(2, 3), b = LK_SHAPE(2, 3), c = LK_SHAPE(3, 2), d = LK_SHAPE(2, 3, 1);
    assert_true(lki_shape_equal(&a, &b));
    assert_false(lki_shape_equal(&a, &c));
    assert_false(lki_shape_equal(&a, &d));
}

static void check_broadcast(lk_shape a, lk_shape b, const char *expected)
{
    lk_shape out = LK_SHAPE(99);
    for (int swap = 0; swap < 2; swap++) {
        bool fits = lki_shape_broadcast(swap ? &b : &a, swap ? &a : &b, &out);
        assert_int_equal(fits, expected != NULL);
        assert_string_equal(text_of(out), expected ? expected : "[99]");
    }
}

TEST(broadcasting)
{
    check_broadcast(LK_SHAPE(), LK_SHAPE(), "[]");
    check_broadcast(LK_SHAPE(), LK_SHAPE(3, 4), "[3, 4]");
    check_broadcast(LK_SHAPE(3, 4), LK_SHAPE(4), "[3, 4]");
    check_broadcast(LK_SHAPE(3, 1), LK_SHAPE(1, 4), "[3, 4]");
    check_broadcast(LK_SHAPE(2, 1, 5), LK_SHAPE(7, 1), "[2, 7, 5]");
    check_broadcast(LK_SHAPE(0), LK_SHAPE(1), "[0]");
    check_broadcast(LK_SHAPE(3, 0), LK_SHAPE(), "[3, 0]");
    check_broadcast(LK_SHAPE(0), LK_SHAPE(2), NULL);
    check_broadcast(LK_SHAPE(3), LK_SHAPE(4), NULL);
    check_broadcast(LK_SHAPE(3, 4), LK_SHAPE(3), NULL);
}

TEST(broadcasting_in_place)
{
    lk_shape a = LK_SHAPE(5, 1), b = LK_SHAPE(3);
    assert_true(lki_shape_broadcast(&a, &b, &a));
    assert_string_equal(text_of(a), "[5, 3]");
}

TEST(axes_from_either_end)
{
    assert_int_equal(lki_axis_normal(0, 3), 0);
    assert_int_equal(lki_axis_normal(-1, 3), 2);
    assert_int_equal(lki_axis_normal(-3, 3), 0);
    assert_int_equal(lki_axis_normal(3, 3), -1);
    assert_int_equal(lki_axis_normal(-4, 3), -1);
    assert_int_equal(lki_axis_normal(0, 0), -1);
    assert_int_equal(lki_axis_normal(INT64_MIN, 3), -1);
    assert_int_equal(lki_axis_normal((int64_t)1 << 32, 3), -1);
}

TEST(lists_of_axes)
{
    const lki_axes none = lki_axes_of(LK_AXES()), two = lki_axes_of(LK_AXES(1, -2));
    assert_int_equal(none.count, 0);
    assert_int_equal(two.count, 2);
    assert_int_equal(two.value[1], -2);
    const lki_axes many = lki_axes_of(LK_AXES(0, 1, 2, 3, 4, 5, 6, 7, 8));
    assert_int_equal(many.count, -1);
    assert_int_equal(lk_error_code(), LK_EINVAL);
    lk_clear_error();
}

TESTS(cmocka_unit_test(shapes_as_text), cmocka_unit_test(what_is_a_shape), cmocka_unit_test(what_is_a_row), cmocka_unit_test(sizes),
      cmocka_unit_test(equality), cmocka_unit_test(broadcasting), cmocka_unit_test(broadcasting_in_place),
      cmocka_unit_test(axes_from_either_end), cmocka_unit_test(lists_of_axes))
