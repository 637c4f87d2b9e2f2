/* Groups over the carrier `local`: what arrives, and what happens when a member is late, fails, leaves, or does something else than
 * the others. */
#include "sides.h"
#include <time.h>

static const int ONE_EACH[][MOST + 1] = {{1, 1}, {1, 1, 1}, {1, 1, 1, 1, 1}, {1, 1, 1, 1, 1, 1, 1, 1}};
static const int SEVERAL[][MOST + 1] = {{2}, {1, 2}, {2, 1, 2}, {3, 5}, {1, 4, 3}};

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
enum { ROUNDS = 60 };
#else
enum { ROUNDS = 400 };
#endif

static void all_rounds(const int *counts)
{
    one_side  s[MOST];
    const int n = make_sides(s, counts, (one_side){.body = rounds, .rounds = ROUNDS, .seconds = 60});
    run_sides(n, s);
    for (int i = 0; i < n; i++)
        if (s[i].code != LK_OK) fail_msg("member %d: %s", s[i].first, s[i].text);
}

TEST(one_member_on_each_side)
{
    for (int i = 0; i < LKI_COUNT(ONE_EACH); i++)
        all_rounds(ONE_EACH[i]);
}

TEST(several_members_on_a_side)
{
    for (int i = 0; i < LKI_COUNT(SEVERAL); i++)
        all_rounds(SEVERAL[i]);
}

TEST(all_members_here_need_no_meeting)
{
    one_side s = {.members = 3, .here = 3, .body = rounds, .rounds = ROUNDS};
    run_sides(1, &s);
    assert_int_equal(s.code, LK_OK);
}

/* ---- a small exchange ---- */

static lk_status gather_one(one_side *s, size_t bytes)
{
    char        mine[MOST] = {0}, all[MOST * MOST];
    const void *src[] = {mine};
    void       *dst[] = {all};
    return lki_comm_exchange(s->comm, 1, &(lki_transfer){.kind = LKI_CARRY_GATHER, .bytes = bytes, .src = src, .dst = dst}, false);
}

static double thread_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static pthread_barrier_t all_came, others_failed;

/* Sides that are open, before any of them can go. */
static bool came(one_side *s)
{
    s->comm = open_side(s);
    WANT(s, s->comm != NULL);
    pthread_barrier_wait(&all_came);
    return s->comm;
}

/* Three members, the last of which does something else. */
static void three(one_side s[3], void body(one_side *), double seconds)
{
    make_sides(s, ONE_EACH[1], (one_side){.body = body, .seconds = seconds});
    s[2].late = true;
    pthread_barrier_init(&all_came, NULL, 3);
    pthread_barrier_init(&others_failed, NULL, 3);
    run_sides(3, s);
    pthread_barrier_destroy(&all_came);
    pthread_barrier_destroy(&others_failed);
}

/* ---- late ---- */

static void is_late(one_side *s)
{
    const double before = thread_seconds();
    if (!came(s)) return;
    if (!s->late) gather_one(s, 4);
    WANT(s, thread_seconds() - before < 0.1);
    pthread_barrier_wait(&others_failed);
    if (s->late) gather_one(s, 4);
    WANT(s, gather_one(s, 4) == LK_EDEADLINE); /* and from now on */
    lki_comm_drop(s->comm);
}

TEST(a_member_that_is_late_is_named)
{
    one_side s[3];
    three(s, is_late, 0.5);
    for (int i = 0; i < 3; i++) {
        expect(&s[i], LK_EDEADLINE, "the deadline of 0.5 seconds passed; still at work: member 2");
        expect(&s[i], LK_EDEADLINE, "of 3, linked by memory of one process: ");
    }
}

/* ---- failing ---- */

static void fails(one_side *s)
{
    if (!came(s)) return;
    gather_one(s, 4);
    if (s->late) {
        lki_fail(LK_ESHAPE, "matmul: [2, 3] and [4]");
        lki_comm_abort(s->comm);
        WANT(s, lki_comm_wait(s->comm) == LK_ESHAPE);
    } else gather_one(s, 4);
    lki_comm_drop(s->comm);
}

TEST(a_member_that_fails_releases_all)
{
    one_side s[3];
    three(s, fails, 0);
    expect(&s[0], LK_ESHAPE, "member 0 of 3, linked by memory of one process: member 2 failed: matmul: [2, 3] and [4]");
    expect(&s[1], LK_ESHAPE, "member 2 failed: matmul: [2, 3] and [4]");
    expect(&s[2], LK_ESHAPE, "matmul: [2, 3] and [4]");
}

static void gives_up(one_side *s)
{
    if (!came(s)) return;
    if (s->late) lki_comm_abort(s->comm);
    else gather_one(s, 4);
    lki_comm_drop(s->comm);
}

TEST(a_member_may_give_up_without_an_error)
{
    one_side s[3];
    three(s, gives_up, 0);
    expect(&s[0], LK_EPEER, "member 2 failed: it gave up");
    expect(&s[2], LK_OK, "");
}

/* ---- leaving ---- */

static void leaves(one_side *s)
{
    if (!came(s)) return;
    WANT(s, gather_one(s, 4) == LK_OK);
    if (!s->late) gather_one(s, 4);
    lki_comm_drop(s->comm);
}

TEST(a_member_that_leaves_releases_all)
{
    one_side s[3];
    three(s, leaves, 0);
    expect(&s[0], LK_EPEER, "member 2 ended");
    expect(&s[1], LK_EPEER, "member 2 ended");
    expect(&s[2], LK_OK, "");
}

/* Which of them ends first is left to chance. What was complete for all is complete for each. */
static void one_exchange(one_side *s)
{
    s->comm = open_side(s);
    WANT(s, s->comm && gather_one(s, 4) == LK_OK && lki_comm_wait(s->comm) == LK_OK);
    lki_comm_drop(s->comm);
}

TEST(members_may_leave_in_any_order)
{
    for (int i = 0; i < ROUNDS / 2; i++) {
        one_side  s[MOST];
        const int n = make_sides(s, ONE_EACH[2], (one_side){.body = one_exchange});
        run_sides(n, s);
    }
}

/* ---- doing something else ---- */

static lki_transfer usual, other;
static int          usual_count, other_count;

static void differs(one_side *s)
{
    char         memory[4 * MOST * MOST] = {0};
    const void  *src[] = {memory};
    void        *dst[] = {memory + sizeof memory / 2};
    lki_transfer t[2] = {s->late ? other : usual, usual};
    if (!came(s)) return;
    for (int i = 0; i < 2; i++) {
        t[i].src = src;
        t[i].dst = dst;
    }
    lki_comm_exchange(s->comm, s->late ? other_count : usual_count, t, false);
    lki_comm_drop(s->comm);
}

static void expect_difference(lki_transfer a, int a_count, lki_transfer b, int b_count, const char *words)
{
    one_side s[3];
    usual = a;
    other = b;
    usual_count = a_count;
    other_count = b_count;
    three(s, differs, 0);
    for (int i = 0; i < 3; i++)
        expect(&s[i], LK_ESTATE, words);
}

TEST(a_member_that_posts_something_else_is_named)
{
    const lki_transfer gather = {.kind = LKI_CARRY_GATHER, .bytes = 16}, more = {.kind = LKI_CARRY_GATHER, .bytes = 20};
    const lki_transfer swap = {.kind = LKI_CARRY_SWAP, .bytes = 16};
    const lki_transfer sum = {.kind = LKI_CARRY_SUM, .dtype = LK_F32, .bytes = 16};
    const lki_transfer wide = {.kind = LKI_CARRY_SUM, .dtype = LK_F64, .bytes = 16};
    expect_difference(gather, 1, more, 1,
                      "member 2 posted a gather of 20 bytes as transfer 0 of an exchange, and member 0 posted a "
                      "gather of 16 bytes; all must post the same");
    expect_difference(gather, 1, swap, 1, "member 2 posted a swap of 16 bytes");
    expect_difference(sum, 1, wide, 1, "member 2 posted a sum of 16 bytes of f64");
    expect_difference(gather, 1, gather, 2,
                      "member 2 posted a gather of 16 bytes as transfer 1 of an exchange, and member 0 posted none");
    expect_difference(gather, 2, gather, 1, "member 2 posted none as transfer 1");
}

/* ---- opening ---- */

static void opens(one_side *s)
{
    lki_comm *comm = open_side(s);
    lki_comm_drop(comm);
}

TEST(a_member_that_does_not_come_is_named)
{
    one_side s[3];
    make_sides(s, ONE_EACH[1], (one_side){.body = opens, .seconds = 0.2});
    run_sides(2, s);
    expect(&s[0], LK_EDEADLINE, "3 members could not be linked: not by memory of one process: member 2 did not come within 0.2 s");
    expect(&s[1], LK_EDEADLINE, "member 2 did not come within 0.2 seconds");
    all_rounds(ONE_EACH[1]); /* at the same meeting */
}

TEST(a_member_comes_once)
{
    one_side s[3];
    make_sides(s, ONE_EACH[1], (one_side){.body = opens, .seconds = 0.3});
    s[1].first = 0;
    run_sides(2, s);
    const int second = s[0].code == LK_EINVAL ? 0 : 1;
    expect(&s[second], LK_EINVAL, "member 0 has come already");
    expect(&s[1 - second], LK_EDEADLINE, "member 1, member 2 did not come");
}

TEST(what_cannot_be_opened)
{
    lki_device *cpu[MOST] = {lki_device_cpu(), lki_device_cpu()};
    const struct {
        lki_comm_args args;
        lk_status     code;
        const char   *words;
    } cases[] = {{{.members = 1, .here = 1, .device = cpu}, LK_EINVAL, "2 to 64"},
                 {{.members = 65, .here = 1, .device = cpu}, LK_EINVAL, "2 to 64"},
                 {{.members = 3, .first = 2, .here = 2, .device = cpu}, LK_EINVAL, "members 2 to 3 of 3"},
                 {{.members = 3, .first = -1, .here = 2, .device = cpu}, LK_EINVAL, "members -1 to 0 of 3"},
                 {{.members = 3, .here = 0, .device = cpu}, LK_EINVAL, "of 3"},
                 {{.members = 3, .here = 1, .device = cpu}, LK_EINVAL, "have no meeting"}};
    for (int i = 0; i < LKI_COUNT(cases); i++) {
        assert_null(lki_comm_open(&cases[i].args));
        assert_int_equal(lk_error_code(), cases[i].code);
        if (!strstr(lk_error(), cases[i].words)) fail_msg("%s", lk_error());
        lk_clear_error();
    }
}

/* ---- owners ---- */

static void same_again(one_side *s)
{
    static const int other_owner;
    one_side         changed = *s;
    s->comm = open_side(s);
    lki_comm *again = open_side(s);
    WANT(s, s->comm && again == s->comm);
    changed.owner = &other_owner;
    lki_comm *another = open_side(&changed);
    WANT(s, another && another != s->comm);
    do_rounds(s);
    lki_comm_drop(again);
    lki_comm_drop(another);
    do_rounds(s);
    lki_comm_drop(s->comm);
    lki_comm *kept = open_side(s); /* its owner is still there */
    WANT(s, kept == s->comm);
    lki_comm_drop(kept);
    pthread_barrier_wait(&all_came); /* the owners are those of all sides */
    if (!s->first) lki_comms_forget(&other_owner);
}

TEST(groups_belong_to_an_owner)
{
    static int owner;
    one_side   s[3];
    const int  n = make_sides(s, ONE_EACH[1], (one_side){.body = same_again, .owner = &owner, .rounds = 5});
    pthread_barrier_init(&all_came, NULL, 3);
    run_sides(n, s);
    pthread_barrier_destroy(&all_came);
    for (int i = 0; i < n; i++)
        expect(&s[i], LK_OK, "");
    const int64_t before = lki_memory_in_use();
    lki_comms_forget(&owner);
    lki_comms_forget(NULL);
    assert_true(lki_memory_in_use() < before);
}

/* Both threads ask for the same side: one opens it, the other waits for it. */
static void ask_and_drop(one_side *s)
{
    s->comm = open_side(s);
    WANT(s, s->comm != NULL);
    pthread_barrier_wait(&all_came);
    lki_comm_drop(s->comm);
}

TEST(two_threads_open_one_side)
{
    static int owner;
    one_side   s[3];
    make_sides(s, ONE_EACH[0], (one_side){.body = ask_and_drop, .owner = &owner});
    s[2] = s[1];
    pthread_barrier_init(&all_came, NULL, 3);
    run_sides(3, s);
    pthread_barrier_destroy(&all_came);
    assert_true(s[1].comm == s[2].comm && s[0].comm != s[1].comm);
    lki_comms_forget(&owner);
}

/* ---- memory ---- */

static int open_and_exchange(void)
{
    lki_device *device[] = {lki_device_cpu(), lki_device_cpu()};
    lki_comm   *g = lki_comm_open(&(lki_comm_args){.members = 2, .here = 2, .device = device});
    if (!g) return 0;
    char         a[2] = "ab", all[2][2];
    const void  *src[] = {&a[0], &a[1]};
    void        *dst[] = {all[0], all[1]};
    lki_transfer t = {.kind = LKI_CARRY_GATHER, .bytes = 1, .src = src, .dst = dst};
    for (int i = 0; i < 6 && !lk_failed(); i++) /* more than there is place for at first */
        lki_comm_exchange(g, 1, &t, true);
    const bool good = lki_comm_exchange(g, 0, NULL, false) == LK_OK && !memcmp(all, "abab", 4);
    lki_comm_drop(g);
    return good;
}

TEST(every_allocation_may_fail) { assert_true(check_every_allocation(open_and_exchange) > 3); }

TESTS(cmocka_unit_test(one_member_on_each_side), cmocka_unit_test(several_members_on_a_side),
      cmocka_unit_test(all_members_here_need_no_meeting), cmocka_unit_test(a_member_that_is_late_is_named),
      cmocka_unit_test(a_member_that_fails_releases_all), cmocka_unit_test(a_member_may_give_up_without_an_error),
      cmocka_unit_test(a_member_that_leaves_releases_all), cmocka_unit_test(members_may_leave_in_any_order),
      cmocka_unit_test(a_member_that_posts_something_else_is_named), cmocka_unit_test(a_member_that_does_not_come_is_named),
      cmocka_unit_test(a_member_comes_once), cmocka_unit_test(what_cannot_be_opened), cmocka_unit_test(groups_belong_to_an_owner),
      cmocka_unit_test(two_threads_open_one_side), cmocka_unit_test(every_allocation_may_fail))
