/* Protocol buffers on the wire: written and read, and malformed messages. */
#include "format/wire.h"
#include "check.h"
#include <string.h>

TEST(no_bytes)
{
    lki_wire       w = lki_wire_of(NULL, 0);
    lki_wire_field f;
    assert_int_equal(lki_wire_left(&w), 0);
    assert_false(lki_wire_next(&w, &f));
    assert_false(w.bad);
}

TEST(varints)
{
    static const uint64_t some[] = {0, 1, 127, 128, 300, 16383, 16384, UINT32_MAX, INT64_MAX, UINT64_MAX};
    for (int i = 0; i < LKI_COUNT(some); i++) {
        lki_sink s = {0};
        uint64_t back = 0;
        lki_sink_varint(&s, some[i]);
        lki_wire w = lki_wire_of(s.data, s.size);
        assert_true(lki_wire_varint(&w, &back));
        assert_true(back == some[i] && lki_wire_left(&w) == 0 && !w.bad);
        w = lki_wire_of(s.data, s.size - 1); /* one byte short */
        assert_false(lki_wire_varint(&w, &back));
        assert_true(w.bad);
        lki_sink_free(&s);
    }
    static const uint8_t too_long[] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02};
    lki_wire             w = lki_wire_of(too_long, sizeof too_long);
    uint64_t             x;
    assert_false(lki_wire_varint(&w, &x));
    w = lki_wire_of("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11);
    assert_false(lki_wire_varint(&w, &x));
}

TEST(fields)
{
    lki_sink       inner = {0}, s = {0};
    lki_wire_field f;
    lki_sink_text(&inner, 1, "text");
    lki_sink_number(&s, 1, 150);
    lki_sink_number(&s, 2, 0); /* left out */
    lki_sink_message(&s, 3, &inner);
    lki_sink_fixed32(&s, 1000, 0xdeadbeef);
    lki_sink_varint(&s, 7 << 3 | 1);
    lki_sink_fixed(&s, 0x0102030405060708, 8);
    assert_memory_equal(s.data, "\x08\x96\x01\x1a\x06\x0a\x04text", 11);
    lki_wire w = lki_wire_of(s.data, s.size);
    assert_true(lki_wire_next(&w, &f) && f.number == 1 && f.value == 150 && !f.is_bytes);
    assert_true(lki_wire_next(&w, &f) && f.number == 3 && f.is_bytes && lki_wire_left(&f.bytes) == 6);
    assert_true(lki_wire_next(&w, &f) && f.number == 1000 && f.value == 0xdeadbeef);
    assert_true(lki_wire_next(&w, &f) && f.number == 7 && f.value == 0x0102030405060708);
    assert_false(lki_wire_next(&w, &f));
    assert_false(w.bad);
    for (size_t cut = 1; cut < s.size; cut++) { /* every beginning is whole fields, or bad */
        w = lki_wire_of(s.data, cut);
        while (lki_wire_next(&w, &f))
            assert_true(lki_wire_left(&f.bytes) <= cut);
        assert_int_equal(w.bad, cut != 3 && cut != 11 && cut != 17);
    }
    lki_sink_free(&s);
    lki_sink_free(&inner);
}

TEST(what_is_refused)
{
    static const struct {
        const char *bytes;
        size_t      size;
    } bad[] = {{"\x00\x01", 2},         {"\x0b", 1},    {"\x0c", 1}, {"\x0e\x01", 2}, {"\x0a\x05text", 6},
               {"\x0d\x01\x02\x03", 4}, {"\x09\x01", 2}};
    for (int i = 0; i < LKI_COUNT(bad); i++) {
        lki_wire       w = lki_wire_of(bad[i].bytes, bad[i].size);
        lki_wire_field f;
        assert_false(lki_wire_next(&w, &f));
        assert_true(w.bad);
        assert_false(lki_wire_next(&w, &f));
    }
}

static int write_much(void)
{
    lki_sink s = {0};
    for (int i = 0; i < 1000; i++)
        lki_sink_text(&s, 1, "some text");
    const int good = !s.failed && s.size == 11000;
    lki_sink_free(&s);
    return good;
}

TEST(without_memory) { assert_true(check_every_allocation(write_much) > 3); }

TESTS(cmocka_unit_test(no_bytes), cmocka_unit_test(varints), cmocka_unit_test(fields), cmocka_unit_test(what_is_refused),
      cmocka_unit_test(without_memory))
