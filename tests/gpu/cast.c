/* cast on a GPU against the reference: all pairs of types, edges of each included. */
#include "slots.h"

/* What rounds up, saturates, wraps or is just representable somewhere. */
static const double edges[] = {
    0,
    -0.0,
    1,
    -1,
    0.5,
    -0.5,
    1.5,
    0.99999,
    -0.99999,
    254.5,
    255,
    255.5,
    256,
    -256,
    2147483647,
    2147483648.0,
    -2147483648.0,
    -2147483649.0,
    0x1p53,
    0x1p53 + 2,
    0x1p62,
    0x1p63,
    -0x1p63,
    0x1p64,
    INFINITY,
    -INFINITY,
    NAN,
    65504,
    65519.99,
    65520,
    65536,
    0x1p-14,
    0x1p-15,
    0x1.8p-24,
    0x1p-24,
    0x1p-25,
    0x1.0001p-25,
    0x1.004p0,
    0x1.002p0,
    0x1.00200001p0,
    0x1.006p0,
    0x1.01p0,
    0x1.0100001p0,
    0x1.03p0,
    0x1p-126,
    0x1.fep127,
    0x1.ffp127,
    0x1.fffffep127,
    0x1.ffffffp127,
    0x1p128,
    0x1.00000100000001p0,
    1e300,
    3.4e38,
    1e-30,
    -1e-30,
    16777217,
    -16777219,
    33554435,
    9007199254740993.0,
    1e18,
    -1e18,
    127.99999,
    -127.5,
    0x1.000001p0,
};

static void *values_of(lk_dtype t, const lk_shape *s)
{
    void *p = slot_numbers(t, s, true);
    for (int64_t i = 0; i < lki_shape_size(s) && i < LKI_COUNT(edges); i++)
        lki_element_set(t, p, i, edges[i]);
    for (int64_t i = LKI_COUNT(edges); i < lki_shape_size(s) && lki_is_half(t) && lki_shape_size(s) == 65536 + LKI_COUNT(edges);
         i++)
        ((uint16_t *)p)[i] = (uint16_t)(i - LKI_COUNT(edges)); /* all of them */
    return p;
}

TEST(test_all_pairs)
{
    static const int64_t sizes[] = {0, 1, 3, 4, 131, 1000};
    for (int from = 0; from < LK_DTYPE_COUNT; from++)
        for (int to = 0; to < LK_DTYPE_COUNT; to++)
            for (int i = 0; i < LKI_COUNT(sizes); i++) {
                const lk_shape s = {1, {sizes[i]}};
                slot_case      c = {.slot = LKI_K_cast, .dtype = (lk_dtype)from};
                slot_source(&c, (lk_dtype)from, s, values_of((lk_dtype)from, &s));
                slot_result(&c, (lk_dtype)to, s, NULL);
                slot_check(&c);
            }
}

/* Every number of the 16-bit floats, subnormal ones too. */
TEST(test_all_halves)
{
    const lk_shape s = {1, {65536 + LKI_COUNT(edges)}};
    for (int from = 0; from < LK_DTYPE_COUNT; from++)
        for (int to = 0; to < LK_DTYPE_COUNT && lki_is_half((lk_dtype)from); to++) {
            slot_case c = {.slot = LKI_K_cast, .dtype = (lk_dtype)from};
            slot_source(&c, (lk_dtype)from, s, values_of((lk_dtype)from, &s));
            slot_result(&c, (lk_dtype)to, s, NULL);
            slot_check(&c);
        }
}

/* Doubles and floats of any bits to 16 bits. */
TEST(test_any_bits)
{
    static const lk_dtype from[] = {LK_F32, LK_F64, LK_I64};
    const lk_shape        s = {1, {20001}};
    for (int f = 0; f < LKI_COUNT(from); f++)
        for (int to = 0; to < LK_DTYPE_COUNT; to++) {
            slot_case c = {.slot = LKI_K_cast, .dtype = from[f]};
            void     *p = slot_room(from[f], &s);
            for (int64_t i = 0; i < s.dim[0]; i++) {
                const uint64_t word = slot_word();
                memcpy((char *)p + (size_t)i * lk_dtype_bytes(from[f]), &word, lk_dtype_bytes(from[f]));
                if (from[f] != LK_I64 && fpclassify(lki_element_get(from[f], p, i)) == FP_SUBNORMAL)
                    lki_element_set(from[f], p, i, 1);
                if (from[f] == LK_F64 && i % 2) ((double *)p)[i] = ldexp((double)(int64_t)word, -63 + (int)(i % 300) - 150);
                if (from[f] == LK_F64 && i % 2 && fabs(((double *)p)[i]) < 0x1p-126)
                    ((double *)p)[i] = 0x1p-120; /* no subnormal floats */
            }
            slot_source(&c, from[f], s, p);
            slot_result(&c, (lk_dtype)to, s, NULL);
            slot_check(&c);
        }
}

TESTS(cmocka_unit_test(test_all_pairs), cmocka_unit_test(test_all_halves), cmocka_unit_test(test_any_bits))
