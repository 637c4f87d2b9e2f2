/* JSON: valid and invalid text, what is written and how, and that reading and writing are inverse. */
#include "format/json.h"
#include "check.h"
#include <float.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static lk_status parse_size(const char *text, size_t size, const lki_json **out)
{
    char *exact = malloc(size + !size); /* of the exact size, so that a sanitizer sees a read past it */
    memcpy(exact, text, size);
    const lk_status status = lki_json_parse("test.json", exact, size, out);
    free(exact);
    return status;
}

static lk_status parse(const char *text, const lki_json **out) { return parse_size(text, strlen(text), out); }

static const lki_json *good(const char *text)
{
    const lki_json *v;
    if (parse(text, &v) != LK_OK) fail_msg("%s: %s", text, lk_error());
    return v;
}

static void refused(const char *text, const char *words)
{
    const lki_json *v;
    lk_clear_error();
    assert_int_equal(parse(text, &v), LK_EFORMAT);
    assert_null(v);
    if (strncmp(lk_error(), "test.json: ", 11) != 0 || !strstr(lk_error(), words))
        fail_msg("%s: \"%s\" does not say \"%s\"", text, lk_error(), words);
    lk_clear_error();
}

/* ---- reading ----------------------------------------------------------------------------------------------------------------- */

TEST(values)
{
    const lki_json *v = good(" {\"a\": [1, -2.5, \"x\\ny\", null, true, false, {}, []], \"b\": {\"c\": \"\"}}\n");
    assert_int_equal(v->type, LKI_JSON_OBJECT);
    assert_int_equal(v->count, 2);
    const lki_json *a = lki_json_get(v, "a");
    assert_string_equal(a->key, "a");
    assert_int_equal(a->type, LKI_JSON_ARRAY);
    assert_int_equal(a->count, 8);
    static const lki_json_type type[] = {LKI_JSON_NUMBER, LKI_JSON_NUMBER, LKI_JSON_STRING, LKI_JSON_NULL,
                                         LKI_JSON_BOOL,   LKI_JSON_BOOL,   LKI_JSON_OBJECT, LKI_JSON_ARRAY};
    static const char *const   kind[] = {"a number",  "a number",  "a string",  "null",
                                         "a boolean", "a boolean", "an object", "an array"};
    for (int i = 0; i < a->count; i++) {
        assert_int_equal(a->item[i].type, type[i]);
        assert_string_equal(lki_json_kind(&a->item[i]), kind[i]);
        assert_null(a->item[i].key);
    }
    assert_true(a->item[0].whole && a->item[0].integer == 1 && a->item[0].number == 1);
    assert_true(!a->item[1].whole && a->item[1].number == -2.5);
    assert_string_equal(a->item[2].text, "x\ny");
    assert_true(a->item[4].boolean && !a->item[5].boolean);
    assert_int_equal(a->item[6].count + a->item[7].count, 0);
    assert_string_equal(lki_json_get(lki_json_get(v, "b"), "c")->text, "");
    assert_null(lki_json_get(v, "c"));
    assert_null(lki_json_get(a, "c"));
    assert_null(lki_json_get(NULL, "c"));
    lki_json_free(v);
    lki_json_free(NULL);
}

TEST(numbers)
{
    static const struct {
        const char *text;
        double      number;
        bool        whole;
    } cases[] = {
        {"0", 0, true},
        {"-0", 0, true},
        {"-0.0", -0.0, false},
        {"9223372036854775807", 9223372036854775807.0, true},
        {"-9223372036854775808", -9223372036854775808.0, true},
        {"9223372036854775808", 9223372036854775808.0, false},
        {"123456789012345678901234567890", 123456789012345678901234567890.0, false},
        {"1e3", 1000, false},
        {"1E+3", 1000, false},
        {"12.5e-1", 1.25, false},
        {"0.1", 0.1, false},
        {"1.7976931348623157e308", DBL_MAX, false},
        {"5e-324", 5e-324, false},
        {"1e-400", 0, false},
        {"0e999999999999999999999999", 0, false},
        {"NaN", NAN, false},
        {"Infinity", INFINITY, false},
        {"-Infinity", -INFINITY, false},
    };
    for (int i = 0; i < LKI_COUNT(cases); i++) {
        const lki_json *v = good(cases[i].text);
        assert_int_equal(v->type, LKI_JSON_NUMBER);
        if (isnan(cases[i].number)) assert_true(isnan(v->number));
        else assert_true(v->number == cases[i].number);
        assert_int_equal(v->whole, cases[i].whole);
        lki_json_free(v);
    }
    const lki_json *v = good("-9223372036854775808");
    assert_true(v->integer == INT64_MIN);
    lki_json_free(v);
}

/* More digits than are kept: the last ones still decide a tie, and zeros in front do not use the room up. */
TEST(long_numbers)
{
    char text[4096];
    strcpy(text, "1.00000000000000011102230246251565404236316680908203125"); /* halfway between 1 and the next double: even wins */
    const lki_json *v = good(text);
    assert_true(v->number == 1.0);
    lki_json_free(v);
    size_t n = strlen(text);
    memset(text + n, '0', 2000);
    strcpy(text + n + 2000, "1");
    v = good(text);
    assert_true(v->number == 1.0 + DBL_EPSILON);
    lki_json_free(v);
    memset(text, '0', 2000);
    text[1] = '.';
    strcpy(text + 2000, "15e1999");
    v = good(text);
    assert_true(v->number == 1.5);
    lki_json_free(v);
}

TEST(strings)
{
    static const struct {
        const char *text, *value;
    } cases[] = {
        {"\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "\"\\/\b\f\n\r\t"},
        {"\"\\u0041\\u00e9\\u20AC\\uD83D\\ude00\"", "A\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"},
        {"\"\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80 \x7f\"", "\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80 \x7f"},
        {"\"\\\\\"", "\\"},
    };
    for (int i = 0; i < LKI_COUNT(cases); i++) {
        const lki_json *v = good(cases[i].text);
        assert_string_equal(v->text, cases[i].value);
        lki_json_free(v);
    }
}

TEST(refusals)
{
    static const struct {
        const char *text, *words;
    } cases[] = {
        {"", "line 1, column 1: expected a value, but the text ends"},
        {"  \n ", "line 2, column 2: expected a value, but the text ends"},
        {"{\"a\": 1,\n \"b\" 2}", "line 2, column 6: expected ':' after the key, found '2'"},
        {"[1 2]", "line 1, column 4: expected ',' or ']', found '2'"},
        {"{\"a\":1;}", "expected ',' or '}', found ';'"},
        {"[1,]", "expected a value, found ']'"},
        {"{\"a\":1,}", "expected a key in quotes, found '}'"},
        {"{a:1}", "expected a key in quotes, found 'a'"},
        {"[", "but the text ends"},
        {"{\"a\"", "but the text ends"},
        {"[1}", "expected ',' or ']', found '}'"},
        {"1 1", "column 3: expected the end of the text, found '1'"},
        {"\xef\xbb\xbf{}", "expected a value, found byte 0xef"},
        {"tru", "expected a value"},
        {"True", "expected a value"},
        {"nul", "expected a value"},
        {"'a'", "expected a value"},
        {"01", "a number with a zero in front"},
        {"-", "expected a digit, but the text ends"},
        {"+1", "expected a value"},
        {".5", "expected a value"},
        {"1.", "expected a digit"},
        {"1e", "expected a digit of the exponent"},
        {"1e+", "expected a digit of the exponent"},
        {"1e309", "beyond the range of a double"},
        {"-1e99999999999999999999999999", "beyond the range of a double"},
        {"-Inf", "expected a digit, found 'I'"},
        {"\"abc", "column 1: a string that does not end"},
        {"\"abc\\", "a string that does not end"},
        {"\"abc\\\"", "a string that does not end"},
        {"\"\\x\"", "after a backslash, found 'x'"},
        {"\"\\u12\"", "four hexadecimal digits"},
        {"\"\\u12g4\"", "four hexadecimal digits after \\u, found 'g'"},
        {"\"\\u0000\"", "a zero character"},
        {"\"\\ud800\"", "half of a surrogate pair"},
        {"\"\\ud800\\u0041\"", "half of a surrogate pair"},
        {"\"\\ud800x\"", "half of a surrogate pair"},
        {"\"\\udc00\"", "second half of a surrogate pair"},
        {"\"a\nb\"", "a control character in a string"},
        {"\"\xe9\"", "column 2: bytes that are not UTF-8"},
        {"\"\xc0\x80\"", "not UTF-8"},
        {"\"\xe0\x80\x80\"", "not UTF-8"},
        {"\"\xed\xa0\x80\"", "not UTF-8"},
        {"\"\xf0\x80\x80\x80\"", "not UTF-8"},
        {"\"\xf4\x90\x80\x80\"", "not UTF-8"},
        {"\"\xf8\x88\x80\x80\x80\"", "not UTF-8"},
        {"\"\xe2\x82\"", "not UTF-8"},
        {"{\"a\": 1, \"b\": 2, \"a\": 3}", "column 1: the object that begins here has the key \"a\" twice"},
        {"[\"\xe2\x82\xac\", x]", "line 1, column 7: expected a value, found 'x'"},
    };
    for (int i = 0; i < LKI_COUNT(cases); i++)
        refused(cases[i].text, cases[i].words);
    const lki_json *v;
    assert_int_equal(parse_size("\0", 1, &v), LK_EFORMAT);
    assert_non_null(strstr(lk_error(), "found byte 0x00"));
    lk_clear_error();
}

TEST(depth)
{
    char text[4096] = {0};
    memset(text, '[', 64);
    memset(text + 64, ']', 64);
    lki_json_free(good(text));
    memset(text, '[', 65);
    memset(text + 65, ']', 65);
    refused(text, "column 65: more than 64 levels of brackets");
    memset(text, '[', sizeof text - 1);
    refused(text, "more than 64 levels");
    for (int i = 0; i < 100; i++)
        memcpy(text + 5 * i, "{\"a\":", 5);
    refused(text, "more than 64 levels");
}

/* A hundred thousand keys: looking for twins must not compare each with each. */
TEST(many_keys)
{
    lki_json_out o = {0};
    lki_json_open(&o, '{');
    for (int i = 0; i < 100000; i++) {
        char key[32];
        snprintf(key, sizeof key, "key %d", i);
        lki_json_key(&o, key);
        lki_json_int(&o, i);
    }
    lki_json_close(&o, '}');
    const lki_json *v = good(o.text);
    assert_int_equal(v->count, 100000);
    assert_int_equal(lki_json_get(v, "key 99999")->integer, 99999);
    lki_json_free(v);
    o.size--; /* open it again */
    o.depth++;
    lki_json_key(&o, "key 77");
    lki_json_null(&o);
    lki_json_close(&o, '}');
    refused(o.text, "has the key \"key 77\" twice");
    lki_json_out_free(&o);
}

/* ---- writing ----------------------------------------------------------------------------------------------------------------- */

static void write_sample(lki_json_out *o)
{
    lki_json_open(o, '{');
    lki_json_key(o, "name");
    lki_json_text(o, "a \"b\"\n\xc3\xa9\xf0\x9f\x98\x80\x7f\x01\\");
    lki_json_key(o, "list");
    lki_json_open(o, '[');
    lki_json_int(o, -7);
    lki_json_real(o, 1);
    lki_json_bool(o, true);
    lki_json_null(o);
    lki_json_text(o, NULL);
    lki_json_open(o, '[');
    lki_json_close(o, ']');
    lki_json_open(o, '{');
    lki_json_close(o, '}');
    lki_json_close(o, ']');
    lki_json_key(o, "more");
    lki_json_literal(o, "{\"x\": 1}");
    lki_json_close(o, '}');
}

/* Compared with json.dumps() and json.dumps(indent=2) of Python. */
TEST(writing)
{
    lki_json_out o = {0};
    write_sample(&o);
    assert_string_equal(o.text, "{\"name\": \"a \\\"b\\\"\\n\\u00e9\\ud83d\\ude00\\u007f\\u0001\\\\\", "
                                "\"list\": [-7, 1.0, true, null, null, [], {}], \"more\": {\"x\": 1}}");
    assert_int_equal(o.size, strlen(o.text));
    lki_json_out_free(&o);
    o.pretty = true;
    write_sample(&o);
    assert_string_equal(o.text, "{\n  \"name\": \"a \\\"b\\\"\\n\\u00e9\\ud83d\\ude00\\u007f\\u0001\\\\\",\n"
                                "  \"list\": [\n    -7,\n    1.0,\n    true,\n    null,\n    null,\n    [],\n    {}\n  ],\n"
                                "  \"more\": {\"x\": 1}\n}");
    lki_json_out_free(&o);
    assert_null(o.text);
}

/* repr() of Python. */
static const struct {
    double      value;
    const char *text;
} REALS[] = {
    {0.0, "0.0"},
    {-0.0, "-0.0"},
    {1.0, "1.0"},
    {-1.5, "-1.5"},
    {0.1, "0.1"},
    {0.001, "0.001"},
    {0.0001, "0.0001"},
    {0.00012, "0.00012"},
    {1e-5, "1e-05"},
    {1.25e-7, "1.25e-07"},
    {1e-7, "1e-07"},
    {100.0, "100.0"},
    {123456.789, "123456.789"},
    {1e15, "1000000000000000.0"},
    {9999999999999998.0, "9999999999999998.0"},
    {1e16, "1e+16"},
    {1.5e16, "1.5e+16"},
    {1e22, "1e+22"},
    {1e100, "1e+100"},
    {1e-100, "1e-100"},
    {1.0 / 3, "0.3333333333333333"},
    {2.0 / 3, "0.6666666666666666"},
    {0.1 + 0.2, "0.30000000000000004"},
    {(double)0.1f, "0.10000000149011612"},
    {(double)0.99f, "0.9900000095367432"},
    {DBL_MAX, "1.7976931348623157e+308"},
    {DBL_MIN, "2.2250738585072014e-308"},
    {5e-324, "5e-324"},
    {2251799813685248.5, "2251799813685248.5"},
    {0x1p-489, "6.256509672447191e-148"},
    {NAN, "NaN"},
    {INFINITY, "Infinity"},
    {-INFINITY, "-Infinity"},
};

static void check_reals(void)
{
    for (int i = 0; i < LKI_COUNT(REALS); i++) {
        lki_json_out o = {0};
        lki_json_real(&o, REALS[i].value);
        assert_string_equal(o.text, REALS[i].text);
        const lki_json *v = good(o.text);
        assert_true(isnan(v->number) ? isnan(REALS[i].value) : memcmp(&v->number, &REALS[i].value, sizeof(double)) == 0);
        lki_json_free(v);
        lki_json_out_free(&o);
    }
}

TEST(reals) { check_reals(); }

/* A program may have set another decimal point. */
TEST(reals_in_another_locale)
{
    static const char *const names[] = {"de_DE.UTF-8", "de_DE.utf8", "de_DE", "fr_FR.UTF-8", "nl_NL.UTF-8"};
    const char              *found = NULL;
    for (int i = 0; i < LKI_COUNT(names) && !found; i++)
        found = setlocale(LC_NUMERIC, names[i]);
    if (!found) {
        print_message("no locale with another decimal point is installed here\n");
        skip();
    }
    check_reals();
    setlocale(LC_NUMERIC, "C");
}

TEST(reals_there_and_back)
{
    uint64_t seed = 1;
    for (int i = 0; i < 20000; i++) {
        double       value;
        lki_json_out o = {0};
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        memcpy(&value, &seed, sizeof value);
        if (!isfinite(value)) continue;
        lki_json_real(&o, value);
        const lki_json *v = good(o.text);
        assert_memory_equal(&v->number, &value, sizeof value);
        lki_json_free(v);
        lki_json_out_free(&o);
    }
}

/* Whatever bytes a text has, what is written can be read. */
TEST(texts_that_are_not_utf8)
{
    static const struct {
        const char *text, *written;
    } cases[] = {
        {"a\xff"
         "b",
         "\"a\\ufffdb\""},
        {"\xe2\x82", "\"\\ufffd\\ufffd\""},
        {"\xed\xa0\x80", "\"\\ufffd\\ufffd\\ufffd\""},
        {"\xc3", "\"\\ufffd\""},
    };
    for (int i = 0; i < LKI_COUNT(cases); i++) {
        lki_json_out o = {0};
        lki_json_text(&o, cases[i].text);
        assert_string_equal(o.text, cases[i].written);
        lki_json_free(good(o.text));
        lki_json_out_free(&o);
    }
}

TEST(copies)
{
    static const char text[] =
        "{\"a\": [1, 1.5, \"\\u00e9\", null, true, {\"b\": []}, NaN, 1e+20, -9223372036854775808], \"c\": {}}";
    const lki_json *v = good(text);
    lki_json_out    o = {0};
    lki_json_copy(&o, v);
    assert_string_equal(o.text, text);
    lki_json_free(v);
    lki_json_out_free(&o);
}

/* ---- hostile texts ----------------------------------------------------------------------------------------------------------- */

static const char SAMPLE[] =
    "{\"a\": [1, -2.5e3, \"x\\u00e9\\ud83d\\ude00\", null, true], \"b\": {\"c\": \"\xc3\xa9\"}, \"d\": NaN}";

TEST(cut_off_anywhere)
{
    for (size_t n = 0; n < sizeof SAMPLE - 1; n++) {
        const lki_json *v;
        assert_int_equal(parse_size(SAMPLE, n, &v), LK_EFORMAT);
        assert_null(v);
        lk_clear_error();
    }
    lki_json_free(good(SAMPLE));
}

TEST(any_byte_changed)
{
    char          text[sizeof SAMPLE];
    const int64_t before = lki_memory_in_use();
    for (size_t i = 0; i < sizeof SAMPLE - 1; i++)
        for (int value = 0; value < 256; value++) {
            const lki_json *v;
            memcpy(text, SAMPLE, sizeof SAMPLE);
            text[i] = (char)value;
            if (parse_size(text, sizeof SAMPLE - 1, &v) == LK_OK) lki_json_free(v);
            lk_clear_error();
        }
    assert_int_equal(lki_memory_in_use(), before);
}

static int attempt(void)
{
    const lki_json *v;
    lki_json_out    o = {0};
    if (parse(SAMPLE, &v) != LK_OK) return 0;
    lki_json_copy(&o, v);
    const int good_out = !o.failed;
    lki_json_out_free(&o);
    lki_json_free(v);
    return good_out;
}

TEST(without_memory) { assert_true(check_every_allocation(attempt) >= 4); }

/* ---- stored files ------------------------------------------------------------------------------------------------------------ */

/* What TensorFlow wrote is read, and written again it reads the same. */
TEST(stored_files)
{
    static const char *const names[] = {"basic", "bn_cnn", "branches", "embedding_lstm", "fashion", "mlp_softmax"};
    const char              *folder = folder_or_skip("LOCKSTEP_GOLDEN");
    for (int i = 0; i < LKI_COUNT(names); i++) {
        char            path[512];
        lki_bytes       b;
        const lki_json *v;
        lki_json_out    once = {0}, twice = {0};
        snprintf(path, sizeof path, "%s/files/json/%s.json", folder, names[i]);
        assert_int_equal(lki_file_read(path, &b), LK_OK);
        assert_int_equal(lki_json_parse(path, (const char *)b.data, b.size, &v), LK_OK);
        assert_non_null(lki_json_get(v, "class_name"));
        lki_json_copy(&once, v);
        lki_json_free(v);
        v = good(once.text);
        lki_json_copy(&twice, v);
        assert_string_equal(once.text, twice.text);
        lki_json_free(v);
        lki_json_out_free(&once);
        lki_json_out_free(&twice);
        lki_bytes_free(&b);
    }
}

TESTS(cmocka_unit_test(values), cmocka_unit_test(numbers), cmocka_unit_test(long_numbers), cmocka_unit_test(strings),
      cmocka_unit_test(refusals), cmocka_unit_test(depth), cmocka_unit_test(many_keys), cmocka_unit_test(writing),
      cmocka_unit_test(reals), cmocka_unit_test(reals_in_another_locale), cmocka_unit_test(reals_there_and_back),
      cmocka_unit_test(texts_that_are_not_utf8), cmocka_unit_test(copies), cmocka_unit_test(cut_off_anywhere),
      cmocka_unit_test(any_byte_changed), cmocka_unit_test(without_memory), cmocka_unit_test(stored_files))
