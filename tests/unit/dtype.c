/* The table of types, the 16-bit floats (all of them, against the processor if it can convert them), single elements. */
#include "core/dtype.h"
#include "check.h"
#include "core/cpu.h"
#include <math.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#define HAVE_F16C 1
__attribute__((target("f16c"))) static uint16_t processor_f16(float x) { return _cvtss_sh(x, _MM_FROUND_TO_NEAREST_INT); }
__attribute__((target("f16c"))) static float    processor_float(uint16_t h) { return _cvtsh_ss(h); }
#endif

static uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

TEST(types_have_names_and_sizes)
{
    assert_string_equal(lk_dtype_name(LK_F32), "f32");
    assert_string_equal(lk_dtype_name(LK_BOOL), "bool");
    assert_string_equal(lk_dtype_name(LK_DTYPE_COUNT), "unknown");
    assert_string_equal(lk_dtype_name((lk_dtype)-1), "unknown");
    assert_int_equal(lk_dtype_bytes(LK_F64), 8);
    assert_int_equal(lk_dtype_bytes(LK_BF16), 2);
    assert_int_equal(lk_dtype_bytes((lk_dtype)99), 0);
}

/* What a half is worth, from its definition. */
static double half_value(uint16_t h)
{
    int    exponent = h >> 10 & 31, fraction = h & 0x3ff;
    double size = exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24);
    return h & 0x8000 ? -size : size;
}

TEST(every_half_has_its_value)
{
    for (uint32_t h = 0; h < 0x10000; h++) {
        float x = lki_f16_to_float((uint16_t)h);
        if ((h & 0x7fff) > 0x7c00) assert_true(isnan(x));
        else if ((h & 0x7fff) == 0x7c00) assert_true(isinf(x) && !!signbit(x) == (int)(h >> 15));
        else assert_true((double)x == half_value((uint16_t)h) && !!signbit(x) == (int)(h >> 15));
    }
}

TEST(every_half_survives_a_round_trip)
{
    for (uint32_t h = 0; h < 0x10000; h++) {
        uint32_t quiet = (h & 0x7fff) > 0x7c00 ? 0x200 : 0;
        assert_int_equal(lki_f16_of(lki_f16_to_float((uint16_t)h)), h | quiet);
    }
}

/* Between two neighbours of equal sign the nearer one is taken, the even one in the middle. */
TEST(halves_round_to_nearest_even)
{
    for (uint32_t h = 0; h < 0x7bff; h++) {
        double   low = half_value((uint16_t)h), high = half_value((uint16_t)(h + 1));
        float    middle = (float)((low + high) / 2);
        uint32_t even = h + (h & 1);
        assert_int_equal(lki_f16_of(middle), even);
        assert_int_equal(lki_f16_of(nextafterf(middle, 0)), h);
        assert_int_equal(lki_f16_of(nextafterf(middle, 1e9f)), h + 1);
        assert_int_equal(lki_f16_of(-middle), even | 0x8000);
    }
    assert_int_equal(lki_f16_of(65519.996f), 0x7bff);
    assert_int_equal(lki_f16_of(65520), 0x7c00);
    assert_int_equal(lki_f16_of(-1e30f), 0xfc00);
    assert_int_equal(lki_f16_of(0x1p-25f), 0);
    assert_int_equal(lki_f16_of(0x1.000002p-25f), 1);
    assert_int_equal(lki_f16_of(float_of(1)), 0);
}

TEST(halves_agree_with_the_processor)
{
#ifdef HAVE_F16C
    if (lki_cpu_isa_machine() < LKI_ISA_AVX2) skip();
    for (uint32_t h = 0; h < 0x10000; h++)
        assert_int_equal(bits_of(lki_f16_to_float((uint16_t)h)), bits_of(processor_float((uint16_t)h)));
    for (uint64_t bits = 0; bits < (uint64_t)1 << 32; bits += 251) /* a prime: visits all low bits */
        if (lki_f16_of(float_of((uint32_t)bits)) != processor_f16(float_of((uint32_t)bits)))
            fail_msg("float %08x: %04x, processor %04x", (unsigned)bits, lki_f16_of(float_of((uint32_t)bits)),
                     processor_f16(float_of((uint32_t)bits)));
#else
    skip();
#endif
}

TEST(every_bf16_survives_a_round_trip)
{
    for (uint32_t h = 0; h < 0x10000; h++) {
        float x = lki_bf16_to_float((uint16_t)h);
        assert_int_equal(bits_of(x), h << 16);
        uint32_t quiet = (h & 0x7fff) > 0x7f80 ? 0x40 : 0;
        assert_int_equal(lki_bf16_of(x), h | quiet);
    }
}

TEST(bf16_rounds_to_nearest_even)
{
    for (uint32_t h = 0; h < 0x7f80; h++) {
        uint32_t middle = h << 16 | 0x8000;
        assert_int_equal(lki_bf16_of(float_of(middle)), h + (h & 1));
        assert_int_equal(lki_bf16_of(float_of(middle - 1)), h);
        assert_int_equal(lki_bf16_of(float_of(middle + 1)), h + 1);
    }
    assert_int_equal(lki_bf16_of(float_of(0x7f800001)) & 0x7fff, 0x7fc0); /* a NaN whose payload would be cut off */
    assert_int_equal(lki_bf16_of(INFINITY), 0x7f80);
}

TEST(elements_come_and_go)
{
    const double values[] = {0, 1, 3, 100};
    for (int t = 0; t < LK_DTYPE_COUNT; t++) {
        uint64_t memory[4] = {0};
        for (int i = 0; i < 4; i++)
            lki_element_set((lk_dtype)t, memory, i, values[i]);
        for (int i = 0; i < 4; i++)
            assert_true(lki_element_get((lk_dtype)t, memory, i) == (t == LK_BOOL ? values[i] != 0 : values[i]));
    }
}

static double stored_as(lk_dtype dtype, double value)
{
    uint64_t memory = 0;
    lki_element_set(dtype, &memory, 0, value);
    return lki_element_get(dtype, &memory, 0);
}

TEST(integers_saturate)
{
    assert_true(stored_as(LK_I32, 1e30) == INT32_MAX && stored_as(LK_I32, -1e30) == INT32_MIN);
    assert_true(stored_as(LK_I64, 1e30) == (double)INT64_MAX && stored_as(LK_I64, -INFINITY) == (double)INT64_MIN);
    assert_true(stored_as(LK_I64, 0x1p63) == (double)INT64_MAX);
    assert_true(stored_as(LK_U8, 256) == 255 && stored_as(LK_U8, -1) == 0 && stored_as(LK_U8, 255.9) == 255);
    assert_true(stored_as(LK_I32, NAN) == 0 && stored_as(LK_U8, NAN) == 0 && stored_as(LK_I64, NAN) == 0);
    assert_true(stored_as(LK_I32, -1.9) == -1);
    assert_true(stored_as(LK_BOOL, NAN) == 1 && stored_as(LK_BOOL, 0.25) == 1 && stored_as(LK_BOOL, -0.0) == 0);
}

/* Rounding to float first and then to a half would give 1 in the first line, and infinity for the number below 65520. */
TEST(doubles_are_rounded_once)
{
    assert_true(stored_as(LK_F16, 1 + 0x1p-11 + 0x1p-40) == 1 + 0x1p-10);
    assert_true(stored_as(LK_F16, 1 + 0x1p-11 - 0x1p-40) == 1);
    assert_true(stored_as(LK_BF16, 1 + 0x1p-8 + 0x1p-40) == 1 + 0x1p-7);
    assert_true(stored_as(LK_BF16, -(1 + 0x1p-8 - 0x1p-40)) == -1);
    assert_true(stored_as(LK_F16, 65520 - 0x1p-20) == 65504);
    assert_true(isinf(stored_as(LK_F16, 1e300)) && isnan(stored_as(LK_F16, NAN)) && isinf(stored_as(LK_BF16, INFINITY)));
    assert_true(isinf(stored_as(LK_BF16, -1e300)) && stored_as(LK_F16, 1e-300) == 0);
}

TEST(classes_of_types)
{
    assert_true(lki_is_float(LK_BF16) && lki_is_half(LK_F16) && !lki_is_half(LK_F32) && lki_is_int(LK_U8));
    assert_false(lki_is_int(LK_BOOL) || lki_is_float(LK_BOOL) || lki_is_float(LK_I64));
}

TESTS(cmocka_unit_test(types_have_names_and_sizes), cmocka_unit_test(every_half_has_its_value),
      cmocka_unit_test(every_half_survives_a_round_trip), cmocka_unit_test(halves_round_to_nearest_even),
      cmocka_unit_test(halves_agree_with_the_processor), cmocka_unit_test(every_bf16_survives_a_round_trip),
      cmocka_unit_test(bf16_rounds_to_nearest_even), cmocka_unit_test(elements_come_and_go), cmocka_unit_test(integers_saturate),
      cmocka_unit_test(doubles_are_rounded_once), cmocka_unit_test(classes_of_types))
