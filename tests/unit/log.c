/* The two hooks and the topics of LOCKSTEP_VERBOSE. */
#include "core/log.h"
#include "check.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct heard {
    int  calls;
    char text[3 * LKI_LOG_TEXT];
} heard;

static heard said;

static void listen(const char *text, void *user)
{
    heard *h = user;
    h->calls++;
    snprintf(h->text, sizeof h->text, "%s", text);
}

static int listen_to_both(void **state)
{
    (void)state;
    said = (heard){0};
    lk_set_log(listen, &said);
    lk_set_output(listen, &said);
    return 0;
}

static int stop_listening(void **state)
{
    (void)state;
    lk_set_log(NULL, NULL);
    lk_set_output(NULL, NULL);
    return 0;
}

TEST(warnings_and_information)
{
    lki_warn("rate %d", 3);
    assert_string_equal(said.text, "WARNING:lockstep: rate 3");
    lki_info("ready");
    assert_string_equal(said.text, "INFO:lockstep: ready");
    assert_int_equal(said.calls, 2);
}

TEST(output_is_exactly_as_given)
{
    lki_output("%s\n%5.2f\n", "loss", 0.25);
    assert_string_equal(said.text, "loss\n 0.25\n");
}

TEST(long_output_is_whole)
{
    char longer[2 * LKI_LOG_TEXT];
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = 0;
    int64_t before = lki_memory_in_use();
    lki_output("%s", longer);
    assert_string_equal(said.text, longer);
    assert_int_equal(said.calls, 1);
    assert_int_equal(lki_memory_in_use(), before);
}

TEST(long_output_without_memory_is_cut)
{
    char longer[2 * LKI_LOG_TEXT];
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = 0;
    lki_memory_fail_after(1);
    lki_output("%s", longer);
    lki_memory_fail_after(0);
    assert_int_equal(strlen(said.text), LKI_LOG_TEXT - 1);
    assert_int_equal(lk_error_code(), LK_ENOMEM);
    lk_clear_error();
}

TEST(long_lines_of_the_log_are_cut)
{
    char longer[2 * LKI_LOG_TEXT];
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = 0;
    lki_warn("%s", longer);
    assert_int_equal(strlen(said.text), LKI_LOG_TEXT - 1);
}

static void replace_itself(const char *text, void *user)
{
    (void)user;
    lk_set_log(listen, &said);
    lki_info("again: %s", text);
}

TEST(a_hook_may_call_the_library)
{
    lk_set_log(replace_itself, NULL);
    lki_warn("x");
    assert_string_equal(said.text, "INFO:lockstep: again: WARNING:lockstep: x");
}

/* The environment is read once, at the first question: main() sets it before anybody asks. */
TEST(topics_come_from_the_environment)
{
    assert_true(lki_verbose(LKI_TOPIC_LANES));
    assert_false(lki_verbose(LKI_TOPIC_DISPATCH));
    assert_true(lki_verbose(LKI_TOPIC_PLAN));
    assert_false(lki_verbose(LKI_TOPIC_TRACE));
    assert_string_equal(said.text,
                        "WARNING:lockstep: LOCKSTEP_VERBOSE: no topic \"weather\"; there are lanes, dispatch, plan, trace");
    assert_int_equal(said.calls, 1);
    lki_tell(LKI_TOPIC_DISPATCH, "unwanted");
    assert_int_equal(said.calls, 1);
    lki_tell(LKI_TOPIC_PLAN, "%d buffers", 4);
    assert_string_equal(said.text, "INFO:lockstep: plan: 4 buffers");
}

#define HEARD(name) cmocka_unit_test_setup_teardown(name, listen_to_both, stop_listening)

int main(int argc, char **argv)
{
    (void)argc, (void)argv;
    setenv("LOCKSTEP_VERBOSE", "lanes,,weather,plan,", 1);
    const struct CMUnitTest tests[] = {
        HEARD(topics_come_from_the_environment),  HEARD(warnings_and_information),
        HEARD(output_is_exactly_as_given),        HEARD(long_output_is_whole),
        HEARD(long_output_without_memory_is_cut), HEARD(long_lines_of_the_log_are_cut),
        HEARD(a_hook_may_call_the_library),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
