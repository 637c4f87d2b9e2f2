/* Packing: zlib unpacks what was packed, repetition shrinks, noise does not grow. */
#include "format/deflate.h"
#include "check.h"
#include <stdlib.h>
#include <string.h>

static void noise(uint8_t *to, size_t size, unsigned letters)
{
    uint32_t seed = 1;
    for (size_t i = 0; i < size; i++) {
        seed = seed * 1664525 + 1013904223;
        to[i] = (uint8_t)((seed >> 24) % letters);
    }
}

/* Packs, unpacks, compares; how many bytes it was packed to. */
static size_t there_and_back(lki_frame frame, const uint8_t *data, size_t size)
{
    lki_bytes packed, back;
    assert_int_equal(lki_deflate(frame, data, size, &packed), LK_OK);
    if (lki_unpack("test", frame == LKI_FRAME_ZLIB ? LKI_ZLIB : LKI_DEFLATE, packed.data, packed.size, size, &back) != LK_OK)
        fail_msg("%s", lk_error());
    if (size) assert_memory_equal(back.data, data, size);
    const size_t result = packed.size;
    lki_bytes_free(&packed);
    lki_bytes_free(&back);
    return result;
}

/* Worked out by hand from RFC 1950 and 1951. */
TEST(known_bytes)
{
    static const struct {
        const char *data, *packed;
        size_t      size;
        lki_frame   frame;
    } cases[] = {
        {"", "\x03\x00", 2, LKI_FRAME_NONE},
        {"a", "\x4b\x04\x00", 3, LKI_FRAME_NONE},
        {"abababababababababababab", "\x4b\x4c\xc2\x0e\x01", 5, LKI_FRAME_NONE},
        {"hello", "\x78\x01\xcb\x48\xcd\xc9\xc9\x07\x00\x06\x2c\x02\x15", 13, LKI_FRAME_ZLIB},
        {"", "\x78\x01\x03\x00\x00\x00\x00\x01", 8, LKI_FRAME_ZLIB},
    };
    for (int i = 0; i < LKI_COUNT(cases); i++) {
        lki_bytes packed;
        assert_int_equal(lki_deflate(cases[i].frame, cases[i].data, strlen(cases[i].data), &packed), LK_OK);
        assert_int_equal(packed.size, cases[i].size);
        assert_memory_equal(packed.data, cases[i].packed, packed.size);
        lki_bytes_free(&packed);
    }
}

TEST(sizes_and_frames)
{
    static const size_t sizes[] = {0, 1, 2, 3, 4, 257, 258, 259, 260, 1000, 32767, 32768, 32769, 65535, 65536, 70000, 200000};
    static uint8_t      data[200000];
    for (int letters = 1; letters <= 256; letters *= 4) {
        noise(data, sizeof data, (unsigned)letters);
        for (int i = 0; i < LKI_COUNT(sizes); i++)
            for (int frame = LKI_FRAME_NONE; frame <= LKI_FRAME_ZLIB; frame++)
                there_and_back(frame, data, sizes[i]);
    }
}

/* Every length of a match, at distances around each border of the classes. */
TEST(lengths_and_distances)
{
    static uint8_t data[70000];
    for (int length = 3; length <= 260; length++)
        for (int power = 0; power <= 15; power++)
            for (int near = -1; near <= 1; near++) {
                const int distance = (1 << power) + near;
                if (distance < 1 || distance > 32768 || (power % 5 && length % 37)) continue;
                noise(data, (size_t)distance, 256);
                for (int i = 0; i < length; i++)
                    data[distance + i] = data[i];
                there_and_back(LKI_FRAME_NONE, data, (size_t)(distance + length));
            }
}

TEST(repetition_shrinks_and_noise_does_not_grow)
{
    static uint8_t data[200000];
    assert_in_range(there_and_back(LKI_FRAME_NONE, data, sizeof data), 1, 2000);
    noise(data, sizeof data, 256);
    assert_in_range(there_and_back(LKI_FRAME_NONE, data, sizeof data), sizeof data, sizeof data + 5 * 4);
    noise(data, 32768, 256); /* the same again at the largest distance */
    memcpy(data + 32768, data, 32768);
    assert_in_range(there_and_back(LKI_FRAME_NONE, data, 65536), 32768, 40000);
}

TEST(damage_is_noticed)
{
    uint8_t   data[500];
    lki_bytes packed, back;
    noise(data, sizeof data, 4);
    assert_int_equal(lki_deflate(LKI_FRAME_ZLIB, data, sizeof data, &packed), LK_OK);
    packed.data[packed.size - 1] ^= 1; /* the checksum */
    assert_int_equal(lki_unpack("test", LKI_ZLIB, packed.data, packed.size, sizeof data, &back), LK_EFORMAT);
    assert_non_null(strstr(lk_error(), "test: compressed data is damaged"));
    lk_clear_error();
    lki_bytes_free(&packed);
}

static int attempt(void)
{
    lki_bytes packed;
    if (lki_deflate(LKI_FRAME_ZLIB, "abcabcabc", 9, &packed) != LK_OK) {
        assert_null(packed.data);
        return 0;
    }
    lki_bytes_free(&packed);
    return 1;
}

TEST(without_memory) { assert_int_equal(check_every_allocation(attempt), 2); }

TESTS(cmocka_unit_test(known_bytes), cmocka_unit_test(sizes_and_frames), cmocka_unit_test(lengths_and_distances),
      cmocka_unit_test(repetition_shrinks_and_noise_does_not_grow), cmocka_unit_test(damage_is_noticed),
      cmocka_unit_test(without_memory))
