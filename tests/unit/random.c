/* Philox against the vectors of the Random123 distribution (kat_vectors, philox4x32-10), and the numbers made from its words. */
#include "core/random.h"
#include "check.h"
#include "core/thread.h"
#include <math.h>
#include <string.h>

TEST(philox_gives_the_known_vectors)
{
    static const struct {
        uint64_t   key, low, high;
        lki_philox expected;
    } known[] = {
        {0, 0, 0, {{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}}},
        {UINT64_MAX, UINT64_MAX, UINT64_MAX, {{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}}},
        {0x299f31d0a4093822, 0x85a308d3243f6a88, 0x0370734413198a2e, {{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}}},
    };
    for (int i = 0; i < LKI_COUNT(known); i++) {
        lki_philox got = lki_philox_block(known[i].key, known[i].low, known[i].high);
        assert_memory_equal(&got, &known[i].expected, sizeof got);
    }
}

TEST(streams_have_keys_of_their_own)
{
    uint64_t a = lki_stream_key(1, "dense/kernel");
    assert_true(a == lki_stream_key(1, "dense/kernel"));
    assert_true(a != lki_stream_key(2, "dense/kernel"));
    assert_true(a != lki_stream_key(1, "dense/bias"));
    assert_true(lki_stream_key(1, "") != lki_stream_key(2, ""));
    /* FNV-1a of "a" is af63dc4c8601ec8c. */
    lki_philox block = lki_philox_block(7, 0xaf63dc4c8601ec8c, 0);
    assert_true(lki_stream_key(7, "a") == ((uint64_t)block.word[1] << 32 | block.word[0]));
}

TEST(uniforms_are_below_one)
{
    assert_true(lki_uniform_of(0) == 0);
    assert_true(lki_uniform_of(UINT32_MAX) == 1 - 0x1p-24f);
    assert_true(lki_uniform_of(0x80000000) == 0.5f);
}

/* Against the mathematical library, in the float that comes out: equal up to its last bit. */
TEST(normals_are_box_muller)
{
    for (uint32_t i = 0; i < 200000; i++) {
        lki_philox r = lki_philox_block(42, i, 0);
        uint32_t   a = i == 0 ? 0 : i == 1 ? UINT32_MAX : r.word[0], b = i < 16 ? i << 28 : r.word[1];
        float      got[2];
        lki_normal_pair(a, b, got);
        double radius = sqrt(-2 * log((a + 0.5) / 4294967296.0)), angle = 2 * acos(-1) * (b / 4294967296.0);
        assert_true(fabs(got[0] - radius * cos(angle)) <= 6e-8 * (fabs(radius * cos(angle)) + 1e-8));
        assert_true(fabs(got[1] - radius * sin(angle)) <= 6e-8 * (fabs(radius * sin(angle)) + 1e-8));
    }
}

TEST(normals_have_the_right_moments)
{
    enum { COUNT = 1 << 19 };
    double sum[4] = {0};
    for (uint32_t i = 0; i < COUNT / 2; i++) {
        lki_philox r = lki_philox_block(7, i, 1);
        float      pair[2];
        lki_normal_pair(r.word[0], r.word[1], pair);
        for (int k = 0; k < 2; k++)
            for (int power = 0; power < 4; power++)
                sum[power] += pow(pair[k], power + 1);
    }
    assert_true(fabs(sum[0] / COUNT) < 0.01);
    assert_true(fabs(sum[1] / COUNT - 1) < 0.01);
    assert_true(fabs(sum[2] / COUNT) < 0.02);
    assert_true(fabs(sum[3] / COUNT - 3) < 0.05);
}

TEST(normals_do_not_depend_on_the_environment)
{
    for (uint32_t i = 0; i < 10000; i++) {
        lki_philox r = lki_philox_block(3, i, 2);
        float      outside[2], inside[2];
        lki_normal_pair(r.word[2], r.word[3], outside);
        unsigned before = lki_fp_enter();
        lki_normal_pair(r.word[2], r.word[3], inside);
        lki_fp_leave(before);
        assert_memory_equal(outside, inside, sizeof inside);
    }
}

TESTS(cmocka_unit_test(philox_gives_the_known_vectors), cmocka_unit_test(streams_have_keys_of_their_own),
      cmocka_unit_test(uniforms_are_below_one), cmocka_unit_test(normals_are_box_muller),
      cmocka_unit_test(normals_have_the_right_moments), cmocka_unit_test(normals_do_not_depend_on_the_environment))
