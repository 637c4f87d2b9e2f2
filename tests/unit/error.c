/* The sticky error: the first cause wins, one line, per thread, never too long. */
#include "core/error.h"
#include "check.h"
#include <pthread.h>
#include <stdio.h>
#include <string.h>

TEST(starts_clear)
{
    assert_false(lk_failed());
    assert_string_equal(lk_error(), "");
    assert_int_equal(lk_error_code(), LK_OK);
}

TEST(first_cause_wins)
{
    assert_int_equal(lki_fail(LK_ESHAPE, "matmul: a [%d, %d]", 7, 9), LK_ESHAPE);
    assert_int_equal(lki_fail(LK_EINVAL, "later"), LK_EINVAL);
    assert_true(lk_failed());
    assert_string_equal(lk_error(), "matmul: a [7, 9]");
    assert_int_equal(lk_error_code(), LK_ESHAPE);
    lk_clear_error();
    starts_clear(NULL);
}

TEST(ok_is_not_an_error)
{
    assert_int_equal(lki_fail(LK_OK, "nothing"), LK_OK);
    assert_false(lk_failed());
}

TEST(messages_are_one_line)
{
    lki_fail(LK_EINVAL, "name \"%s\"", "a\nb\tc\r");
    assert_string_equal(lk_error(), "name \"a b c \"");
    lk_clear_error();
}

TEST(long_messages_are_cut)
{
    char longer[3 * LKI_ERROR_TEXT];
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = 0;
    lki_error_context(longer);
    lki_fail(LK_EINVAL, "%s", longer);
    assert_int_equal(strlen(lk_error()), LKI_ERROR_TEXT - 1);
    lk_clear_error();
    lki_error_context(NULL);
}

TEST(context_goes_before)
{
    lki_error_context("replica 3 on CPU:1: ");
    lki_fail(LK_EPEER, "stopped");
    assert_string_equal(lk_error(), "replica 3 on CPU:1: stopped");
    lk_clear_error();
    lki_error_context(NULL);
    lki_fail(LK_EPEER, "stopped");
    assert_string_equal(lk_error(), "stopped");
    lk_clear_error();
}

static void *fail_elsewhere(void *record)
{
    lki_fail(LK_EIO, "over there");
    lki_error_take(record);
    return lk_failed() ? record : NULL;
}

TEST(an_error_moves_between_threads)
{
    lki_error_record record;
    pthread_t        thread;
    void            *still_failed;
    assert_int_equal(pthread_create(&thread, NULL, fail_elsewhere, &record), 0);
    pthread_join(thread, &still_failed);
    assert_null(still_failed);
    assert_false(lk_failed());
    lki_error_put(&record);
    assert_string_equal(lk_error(), "over there");
    assert_int_equal(lk_error_code(), LK_EIO);
    lki_error_record later = {LK_EINVAL, "later"};
    lki_error_put(&later);
    assert_int_equal(lk_error_code(), LK_EIO);
    lk_clear_error();
    lki_error_put(&(lki_error_record){0});
    assert_false(lk_failed());
}

TEST(recording_does_not_allocate)
{
    int64_t before = lki_memory_requests();
    lki_fail(LK_ENOMEM, "out of memory");
    assert_int_equal(lki_memory_requests(), before);
    lk_clear_error();
}

TEST(statuses_have_names)
{
    assert_string_equal(lk_status_name(LK_ESHAPE), "LK_ESHAPE");
    assert_string_equal(lk_status_text(LK_ESHAPE), "shapes do not fit");
    assert_string_equal(lk_status_name(LK_OK), "LK_OK");
    assert_string_equal(lk_status_name(LK_EDEADLINE), "LK_EDEADLINE");
    assert_string_equal(lk_status_name((lk_status)-999), "LK_UNKNOWN");
    assert_string_equal(lk_status_text((lk_status)1), "unknown status");
}

TEST(version_is_that_of_the_header)
{
    char text[32];
    snprintf(text, sizeof text, "%d.%d.%d", LK_VERSION_MAJOR, LK_VERSION_MINOR, LK_VERSION_PATCH);
    assert_string_equal(lk_version(), text);
}

TESTS(cmocka_unit_test(starts_clear), cmocka_unit_test(first_cause_wins), cmocka_unit_test(ok_is_not_an_error),
      cmocka_unit_test(messages_are_one_line), cmocka_unit_test(long_messages_are_cut), cmocka_unit_test(context_goes_before),
      cmocka_unit_test(an_error_moves_between_threads), cmocka_unit_test(recording_does_not_allocate),
      cmocka_unit_test(statuses_have_names), cmocka_unit_test(version_is_that_of_the_header))
