/* SHA-256 against the examples of FIPS 180-4 and of NIST, whole and in pieces of every length. */
#include "core/sha256.h"
#include "check.h"
#include <stdio.h>
#include <string.h>

static const char *hex_of(const uint8_t digest[32])
{
    static char text[65];
    for (int i = 0; i < 32; i++)
        sprintf(text + 2 * i, "%02x", digest[i]);
    return text;
}

static const char *digest_of(const void *data, size_t bytes, size_t piece)
{
    lki_sha256 s;
    uint8_t    digest[32];
    lki_sha256_begin(&s);
    for (size_t at = 0; at < bytes; at += piece)
        lki_sha256_add(&s, (const char *)data + at, bytes - at < piece ? bytes - at : piece);
    lki_sha256_end(&s, digest);
    return hex_of(digest);
}

TEST(known_digests)
{
    static const char *const known[][2] = {
        {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
        {"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu",
         "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1"},
    };
    for (int i = 0; i < LKI_COUNT(known); i++)
        assert_string_equal(digest_of(known[i][0], strlen(known[i][0]), 1000), known[i][1]);
}

TEST(a_million_times_a)
{
    static char text[1000000];
    memset(text, 'a', sizeof text);
    assert_string_equal(digest_of(text, sizeof text, sizeof text),
                        "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(pieces_do_not_matter)
{
    char text[300], whole[65];
    for (int i = 0; i < LKI_COUNT(text); i++)
        text[i] = (char)(i * 7);
    for (size_t bytes = 0; bytes <= sizeof text; bytes++) {
        strcpy(whole, digest_of(text, bytes, sizeof text));
        const size_t pieces[] = {1, 3, 55, 63, 64, 65};
        for (int i = 0; i < LKI_COUNT(pieces); i++)
            assert_string_equal(digest_of(text, bytes, pieces[i]), whole);
    }
}

TESTS(cmocka_unit_test(known_digests), cmocka_unit_test(a_million_times_a), cmocka_unit_test(pieces_do_not_matter))
