/* CRC-32C: known values, both implementations, pieces, the mask. */
#include "format/crc32c.h"
#include "check.h"
#include <string.h>

/* RFC 3720, B.4, and the usual check value. */
TEST(known_values)
{
    uint8_t bytes[32] = {0};
    assert_int_equal(lki_crc32c(0, "123456789", 9), 0xe3069283);
    assert_int_equal(lki_crc32c(0, "", 0), 0);
    assert_int_equal(lki_crc32c(0, bytes, 32), 0x8a9136aa);
    memset(bytes, 0xff, 32);
    assert_int_equal(lki_crc32c(0, bytes, 32), 0x62a8ab43);
    for (int i = 0; i < 32; i++)
        bytes[i] = (uint8_t)i;
    assert_int_equal(lki_crc32c(0, bytes, 32), 0x46dd794e);
}

TEST(tables_say_the_same)
{
    uint8_t bytes[300];
    for (int i = 0; i < 300; i++)
        bytes[i] = (uint8_t)(i * i * 31 + 7);
    for (size_t from = 0; from < 9; from++)
        for (size_t size = 0; from + size <= 300; size += 1 + size / 16)
            assert_int_equal(lki_crc32c(0, bytes + from, size), lki_crc32c_table(0, bytes + from, size));
    assert_int_equal(lki_crc32c_table(0, "123456789", 9), 0xe3069283);
}

/* Long enough for three blocks at a time, of either size, and what is left of them. */
TEST(long_ones)
{
    enum { MOST = 60000 };
    uint8_t *bytes = lki_alloc(MOST + 16);
    for (int i = 0; i < MOST + 16; i++)
        bytes[i] = (uint8_t)(i * 2654435761u >> 13);
    for (size_t size = 700; size <= MOST; size += 1 + size / 40)
        for (size_t from = 0; from < 3; from++)
            assert_int_equal(lki_crc32c((uint32_t)size, bytes + 5 * from, size),
                             lki_crc32c_table((uint32_t)size, bytes + 5 * from, size));
    lki_release(bytes);
}

TEST(pieces_add_up)
{
    const char    *text = "the checksum of a file is that of its pieces, one after the other";
    const size_t   n = strlen(text);
    const uint32_t whole = lki_crc32c(0, text, n);
    for (size_t cut = 0; cut <= n; cut++) {
        assert_int_equal(lki_crc32c(lki_crc32c(0, text, cut), text + cut, n - cut), whole);
        assert_int_equal(lki_crc32c_table(lki_crc32c_table(0, text, cut), text + cut, n - cut), whole);
    }
}

TEST(the_mask)
{
    const uint32_t crc = lki_crc32c(0, "foo", 3);
    assert_int_not_equal(crc, lki_crc32c_mask(crc));
    assert_int_not_equal(crc, lki_crc32c_mask(lki_crc32c_mask(crc)));
    assert_int_equal(crc, lki_crc32c_unmask(lki_crc32c_mask(crc)));
    assert_int_equal(lki_crc32c_mask(0), 0xa282ead8);
    for (uint32_t x = 1; x; x <<= 1)
        assert_int_equal(lki_crc32c_unmask(lki_crc32c_mask(x)), x);
}

TESTS(cmocka_unit_test(known_values), cmocka_unit_test(tables_say_the_same), cmocka_unit_test(long_ones),
      cmocka_unit_test(pieces_add_up), cmocka_unit_test(the_mask))
