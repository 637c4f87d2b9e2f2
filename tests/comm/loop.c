/* A new carrier is one file and one line: loop_carrier.h, and the line in main() that puts it before the others. */
#include "loop_carrier.h"

/* ---- tests ---- */

static const int LAYOUTS[][MOST + 1] = {{1, 1}, {1, 1, 1}, {2, 1, 2}, {1, 1, 1, 1, 1, 1, 1, 1}, {3}};

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
enum { ROUNDS = 15 };
#else
enum { ROUNDS = 60 };
#endif

static void run_all(const int *counts, one_side *s, int *n, int loses)
{
    net.loses = loses;
    *n = make_sides(s, counts, (one_side){.body = rounds, .rounds = ROUNDS, .seconds = loses ? 0.4 : 60});
    run_sides(*n, s);
}

TEST(delays_change_nothing)
{
    one_side s[MOST];
    int      n;
    for (int i = 0; i < LKI_COUNT(LAYOUTS); i++) {
        run_all(LAYOUTS[i], s, &n, 0);
        for (int k = 0; k < n; k++)
            expect(&s[k], LK_OK, "");
    }
}

/* After the self-test. One member misses a message and passes the deadline; its failure releases the others, unless their own
 * deadline came first. */
TEST(a_message_that_is_lost_ends_in_the_deadline)
{
    one_side s[MOST];
    int      n;
    for (int lost = 1; lost < 40; lost += 13) {
        run_all(LAYOUTS[2], s, &n, 3 * 5 * 4 + lost);
        for (int k = 0; k < n; k++)
            expect(&s[k], LK_EDEADLINE, "the deadline of 0.4 seconds passed; still at work: member ");
    }
}

/* A carrier that changes bytes is found out before it is used, by one member; all members then use the next carrier. */
static void opens_another(one_side *s)
{
    s->comm = open_side(s);
    WANT(s, s->comm && !strcmp(lki_comm_words(s->comm), "memory of one process"));
    if (!s->comm) return;
    do_rounds(s);
    lki_comm_drop(s->comm);
}

TEST(a_carrier_that_changes_bytes_is_not_used)
{
    one_side s[MOST];
    net.loses = 0;
    for (int i = 0; i < LKI_COUNT(LAYOUTS); i++) {
        net.changes = 3 + i;
        const int n = make_sides(s, LAYOUTS[i], (one_side){.body = opens_another, .rounds = 3, .seconds = 60});
        run_sides(n, s);
        for (int k = 0; k < n; k++)
            expect(&s[k], LK_OK, "");
    }
    net.changes = 0;
}

TEST(messages_do_not_sum)
{
    lki_device *device[] = {lki_device_cpu(), lki_device_cpu()};
    net.loses = 0;
    lki_comm   *g = lki_comm_open(&(lki_comm_args){.members = 2, .here = 2, .device = device});
    float       x[2] = {1, 2};
    const void *src[] = {&x[0], &x[1]};
    void       *dst[] = {&x[0], &x[1]};
    assert_true(g && !lki_comm_sums(g));
    assert_string_equal(lki_comm_words(g), "a loop with delays");
    const lki_transfer t = {.kind = LKI_CARRY_SUM, .dtype = LK_F32, .bytes = sizeof *x, .src = src, .dst = dst};
    assert_int_equal(lki_comm_exchange(g, 1, &t, false), LK_EUNSUPPORTED);
    lk_clear_error();
    lki_comm_drop(g);
}

static void be_quiet(const char *text, void *user) { (void)text, (void)user; }

int main(int argc, char **argv)
{
    (void)argc, (void)argv;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(delays_change_nothing), cmocka_unit_test(a_message_that_is_lost_ends_in_the_deadline),
        cmocka_unit_test(a_carrier_that_changes_bytes_is_not_used), cmocka_unit_test(messages_do_not_sum)};
    lk_set_log(be_quiet, NULL);
    lki_carrier_first(&loop);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
