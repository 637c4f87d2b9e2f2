/* The weight gradient of a first convolution through a max pool and a dense layer on a GPU (kernel/gpu/conv/dense_pool_w.cu): near
 * the reference's, as near as rounded factors allow; and the same bits however lanes are divided over cards. */
#include "kernel/dense_pool.h"
#include "slots.h"

typedef struct shape {
    int64_t images, IH, IW, O, K, pad, more; /* more: cells after the image beyond pad */
} shape;

static lk_shape pooled_of(const shape *s)
{
    const int64_t more = 2 * s->pad + s->more - 2;
    return (lk_shape){4, {s->images, (s->IH + more) / 2, (s->IW + more) / 2, s->O}};
}

static slot_case case_of(const shape *s, int relu, lki_precision precision)
{
    const lk_shape x = {4, {s->images, s->IH, s->IW, 1}}, p = pooled_of(s), g = {2, {s->images, s->K}},
                   w = {2, {p.dim[1] * p.dim[2] * p.dim[3], s->K}}, conv = {4, {3, 3, 1, s->O}}, bias = {1, {s->O}};
    slot_case c = {.slot = LKI_K_dense_pool_grad_w, .dtype = LK_F32, .precision = precision};
    c.attr.window = (lki_window){{3, 3}, {1, 1}, {1, 1}, {s->pad, s->pad}};
    c.attr.epilogue = (lki_epilogue){.relu = relu, .marks = relu, .bias = 1};
    slot_source(&c, LK_F32, x, slot_numbers(LK_F32, &x, false));
    slot_source(&c, LK_F32, g, slot_numbers(LK_F32, &g, false));
    slot_source(&c, LK_U8, p, slot_integers(LK_U8, &p, 0, relu ? 2 * LKI_CELL_DEAD : LKI_CELL_DEAD));
    slot_source(&c, LK_F32, w, slot_numbers(LK_F32, &w, false));
    slot_result(&c, LK_F32, conv, NULL);
    slot_result(&c, LK_F32, bias, NULL);
    assert_true(lki_is_dense_pool(&c.attr.window, &x, &p, &conv, &g, &w));
    return c;
}

static void check(const shape *s, int lanes, int relu, lki_precision precision)
{
    slot_case c = case_of(s, relu, precision);
    if (lanes) slot_lanes(&c, lanes, s->images);
    c.tolerance = precision == LKI_PRECISION_BF16 ? 1.5e-2 : 2e-3;
    if (s->images % 2) c.attr.epilogue.bias = 0, c.ndst = 1;
    slot_check(&c);
}

static const shape shapes[] = {
    {10, 28, 28, 32, 64, 0, 0},                             /* as networks have them */
    {24, 14, 14, 32, 16, 0, 0}, {6, 16, 13, 64, 20, 1, 0},  /* padded; channels of two blocks, units that are not whole groups */
    {2, 15, 17, 32, 128, 0, 0}, {70, 15, 17, 32, 68, 1, 1}, /* many units */
    {90, 14, 15, 32, 8, 0, 0},  {40, 13, 28, 32, 4, 0, 0},  /* many images; wide */
    {0, 14, 14, 32, 64, 0, 0},  {1, 4, 14, 32, 64, 0, 0},   /* none; one row of windows */
};
enum { SHAPES = sizeof shapes / sizeof shapes[0] };

TEST(test_near_the_reference)
{
    static const int lanes[] = {0, 8, 1, 4, 64, 2};
    for (int i = 0; i < SHAPES; i++)
        for (int p = LKI_PRECISION_TF32; p <= LKI_PRECISION_BF16; p++)
            check(&shapes[i], lanes[(i + 3 * (p - LKI_PRECISION_TF32)) % 6], (i + p) % 2, (lki_precision)p);
}

/* More than a block has at a time. */
TEST(test_many_images) { check(&(shape){2060, 4, 14, 32, 4, 0, 0}, 1, 1, LKI_PRECISION_TF32); }

static void check_shares(const shape *s)
{
    slot_case whole = case_of(s, 1, LKI_PRECISION_TF32);
    slot_check_shares(&whole, 3, s->images);
}

TEST(test_shares)
{
    check_shares(&(shape){24, 14, 14, 32, 16, 0, 0});
    check_shares(&(shape){150, 6, 14, 32, 64, 1, 0});
}

TESTS(cmocka_unit_test(test_near_the_reference), cmocka_unit_test(test_many_images), cmocka_unit_test(test_shares))
