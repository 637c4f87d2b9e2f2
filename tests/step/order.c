/* The order of calls on a card: dependencies, which calls are one launch, and memory that is shared. Over random graphs, run in
 * random orders of those that are possible, no value may be overwritten before its last reader, and no launch may need a later
 * one. */
#include "check.h"
#include "core/random.h"
#include "plan/card/join.h"
#include "plan/card/rooms.h"
#include <string.h>

enum { MOST_CALLS = 90, GRAPHS = 400, RUNS = 6 };

static uint64_t state = 1;

static int below(int n)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (int)((state >> 33) % (uint64_t)n);
}

/* Calls that need some of the few before them: chains with branches, as steps are. */
static lki_order random_order(int count)
{
    lki_order o;
    assert_true(lki_order_init(&o, count));
    for (int i = 1; i < count; i++)
        for (int k = below(4); k > 0; k--)
            lki_order_need(&o, i, i - 1 - below(i < 8 ? i : below(5) ? 8 : i));
    return o;
}

/* ---- needs ---- */

static bool reaches(const bool *needs, int count, int later, int earlier)
{
    for (int k = 0; k < count; k++)
        if (needs[later * count + k] && (k == earlier || reaches(needs, count, k, earlier))) return true;
    return false;
}

TEST(closed_orders_have_the_fewest_needs)
{
    for (int g = 0; g < GRAPHS; g++) {
        const int count = 1 + below(20);
        lki_order o = random_order(count);
        bool      needs[20 * 20] = {0};
        for (int i = 0; i < count * count; i++)
            needs[i] = lki_order_needs(&o, i / count, i % count);
        lki_order_close(&o);
        for (int i = 0; i < count; i++)
            for (int k = 0; k < count; k++) {
                bool around = false; /* there is another way */
                for (int m = 0; m < count; m++)
                    around = around || (needs[i * count + m] && m != k && reaches(needs, count, m, k));
                assert_int_equal(lki_order_after(&o, i, k), reaches(needs, count, i, k));
                assert_int_equal(lki_order_needs(&o, i, k), needs[i * count + k] && !around);
            }
        lki_order_clear(&o);
    }
}

/* More than one word of bits. */
TEST(long_chains_are_followed)
{
    enum { COUNT = 300 };
    lki_order o;
    assert_true(lki_order_init(&o, COUNT));
    for (int i = 1; i < COUNT; i++)
        for (int k = 0; k < i; k++)
            lki_order_need(&o, i, k);
    lki_order_close(&o);
    for (int i = 1; i < COUNT; i++) {
        assert_int_equal(lki_bit_next(lki_order_row(&o, o.needs, i), o.words, 0), i - 1);
        assert_int_equal(lki_bit_next(lki_order_row(&o, o.needs, i), o.words, i), -1);
        assert_true(lki_order_after(&o, i, 0));
    }
    lki_order_clear(&o);
}

static int way_of_all(const lki_order *o, const bool *nothing)
{
    int way[MOST_CALLS] = {0}, longest = 0;
    for (int i = 0; i < o->count; i++) {
        for (int k = 0; k < i; k++)
            if (lki_order_after(o, i, k) && way[k] > way[i]) way[i] = way[k];
        way[i] += !nothing[i];
        longest = way[i] > longest ? way[i] : longest;
    }
    return longest;
}

TEST(those_who_can_wait_begin_behind_the_first)
{
    for (int g = 0; g < GRAPHS; g++) {
        const int count = 1 + below(MOST_CALLS);
        lki_order o = random_order(count), led;
        bool      nothing[MOST_CALLS];
        assert_true(lki_order_init(&led, count));
        memcpy(led.needs, o.needs, (size_t)count * (size_t)o.words * sizeof *o.needs);
        for (int i = 0; i < count; i++)
            nothing[i] = !below(6);
        lki_order_close(&o);
        lki_order_close(&led);
        assert_true(lki_order_begin_with_one(&led, nothing));
        for (int i = 0; i < count * count; i++)
            if (lki_order_after(&o, i / count, i % count)) assert_true(lki_order_after(&led, i / count, i % count));
        assert_int_equal(way_of_all(&led, nothing), way_of_all(&o, nothing));
        lki_order_clear(&o);
        lki_order_clear(&led);
    }
}

/* 0 and 3 are constants. All ways have three calls; then one of three and one of two. */
TEST(what_is_as_long_does_not_wait)
{
    static const int  needs[][2] = {{1, 0}, {2, 0}, {5, 1}, {5, 2}, {6, 4}, {7, 5}, {7, 6}};
    static const bool nothing[8] = {[0] = true, [3] = true};
    lki_order         o;
    assert_true(lki_order_init(&o, 8));
    for (size_t i = 0; i < sizeof needs / sizeof *needs; i++)
        lki_order_need(&o, needs[i][0], needs[i][1]);
    lki_order_need(&o, 2, 3);
    lki_order_close(&o);
    assert_true(lki_order_begin_with_one(&o, nothing));
    assert_false(lki_order_after(&o, 2, 1)); /* 2, 5, 7 is as long as 1, 5, 7 */
    assert_false(lki_order_after(&o, 4, 1));
    lki_order_clear(&o);
    assert_true(lki_order_init(&o, 4));
    lki_order_need(&o, 2, 0);
    lki_order_need(&o, 3, 1);
    lki_order_need(&o, 3, 2);
    lki_order_close(&o);
    assert_true(lki_order_begin_with_one(&o, (const bool[4]){0}));
    assert_true(lki_order_needs(&o, 1, 0));
    assert_true(lki_order_begin_with_one(&o, (const bool[4]){0})); /* once more changes nothing */
    assert_false(lki_order_needs(&o, 2, 1));
    lki_order_clear(&o);
}

/* ---- memory ---- */

enum { MOST_VALUES = 3 * MOST_CALLS };

typedef struct program { /* calls that make and read values */
    lki_order   order;
    int         values, levels;
    int         level[MOST_CALLS];
    lki_room    rooms[MOST_VALUES];
    lki_tenants tenants;
    int         maker[MOST_VALUES];
    bool        kept[MOST_VALUES];
    uint64_t    users[MOST_VALUES * 2];
} program;

static void use(program *p, int value, int call)
{
    lki_room *r = &p->rooms[value];
    lki_bit_set(lki_order_row(&p->order, p->users, value), call);
    if (p->maker[value] >= 0 && p->maker[value] != call) lki_order_need(&p->order, call, p->maker[value]);
    r->from = p->maker[value] < 0 ? -1 : r->from;
}

/* A value is made by a call, or is there from the beginning, and is read by some of those that come later. */
static void random_program(program *p)
{
    const int calls = 2 + below(MOST_CALLS - 2);
    memset(p, 0, sizeof *p);
    p->order = random_order(calls);
    p->tenants = (lki_tenants){p->users, p->maker, p->kept};
    for (int i = 0; i < calls; i++)
        for (int k = 1 + below(2); k > 0; k--) {
            const int v = p->values++;
            p->rooms[v] = (lki_room){.value = v, .segment = -1, .bytes = (size_t)(1 + below(6)) * 128};
            p->maker[v] = below(10) ? i : -1;
            p->kept[v] = !below(12);
            use(p, v, i);
            for (int n = below(4); n > 0 && i + 1 < calls; n--)
                use(p, v, i + 1 + below(below(3) ? (calls - i - 1 < 6 ? calls - i - 1 : 6) : calls - i - 1));
        }
    lki_order_close(&p->order);
    for (int i = 0; i < calls; i++)
        for (int k = 0; k < i; k++)
            if (lki_order_needs(&p->order, i, k) && p->level[i] <= p->level[k]) p->level[i] = p->level[k] + 1;
}

/* Calls in the order of their levels, as they are on a card. */
static void by_levels(program *p)
{
    const int       calls = p->order.count;
    int             now[MOST_CALLS], count = 0;
    lki_order       sorted;
    static uint64_t users[MOST_VALUES * 2];
    assert_true(lki_order_init(&sorted, calls));
    memset(users, 0, sizeof users);
    for (int level = 0; count < calls; level++)
        for (int i = 0; i < calls; i++)
            if (p->level[i] == level) now[i] = count++;
    for (int i = 0; i < calls; i++) {
        for (int k = 0; k < i; k++)
            if (lki_order_needs(&p->order, i, k)) lki_order_need(&sorted, now[i], now[k]);
        for (int v = 0; v < p->values; v++)
            if (lki_bit(lki_order_row(&p->order, p->users, v), i)) lki_bit_set(lki_order_row(&sorted, users, v), now[i]);
    }
    for (int v = 0; v < p->values; v++) {
        lki_room *r = &p->rooms[v];
        r->from = 1 << 20, r->to = -1;
        for (int i = 0; i < calls; i++) {
            if (!lki_bit(lki_order_row(&p->order, p->users, v), i)) continue;
            r->from = p->level[i] < r->from ? p->level[i] : r->from;
            r->to = p->level[i] > r->to ? p->level[i] : r->to;
        }
        if (p->maker[v] >= 0) p->maker[v] = now[p->maker[v]];
        else r->from = -1;
        if (p->kept[v]) r->to = 1 << 20;
    }
    lki_order_close(&sorted);
    lki_order_clear(&p->order);
    memcpy(p->users, users, sizeof users);
    p->order = sorted;
}

/* Whose is each piece of 128 bytes now? */
typedef struct world {
    int owner[6 * MOST_VALUES];
} world;

static void fill(world *w, const lki_room *r, int value)
{
    for (size_t i = r->at / 128; i < (r->at + r->bytes) / 128; i++)
        w->owner[i] = value;
}

static bool holds(const world *w, const lki_room *r)
{
    for (size_t i = r->at / 128; i < (r->at + r->bytes) / 128; i++)
        if (w->owner[i] != r->value) return false;
    return true;
}

static void run_call(const program *p, world *w, int call)
{
    for (int i = 0; i < p->values; i++)
        if (p->maker[p->rooms[i].value] == call) fill(w, &p->rooms[i], p->rooms[i].value);
    for (int i = 0; i < p->values; i++)
        if (lki_bit(lki_order_row(&p->order, p->tenants.users, p->rooms[i].value), call)) assert_true(holds(w, &p->rooms[i]));
}

static void run_in_some_order(const program *p)
{
    static world w;
    bool         done[MOST_CALLS] = {0};
    memset(&w, 0xff, sizeof w);
    for (int i = 0; i < p->values; i++)
        if (p->maker[p->rooms[i].value] < 0) fill(&w, &p->rooms[i], p->rooms[i].value);
    for (int n = 0; n < p->order.count; n++) {
        int ready[MOST_CALLS], count = 0;
        for (int i = 0; i < p->order.count; i++) {
            bool can = !done[i];
            for (int k = 0; k < i && can; k++)
                can = done[k] || !lki_order_needs(&p->order, i, k);
            if (can) ready[count++] = i;
        }
        assert_true(count > 0);
        const int now = ready[below(count)];
        run_call(p, &w, now);
        done[now] = true;
    }
    for (int i = 0; i < p->values; i++)
        if (p->kept[p->rooms[i].value]) assert_true(holds(&w, &p->rooms[i]));
}

static size_t bytes_of_all(const program *p)
{
    size_t all = 0;
    for (int i = 0; i < p->values; i++)
        all += p->rooms[i].bytes;
    return all;
}

/* No two that may be in use at the same time lie in the same bytes, also where calls run side by side. */
static void nobody_in_the_way(const program *p)
{
    const lki_order *o = &p->order;
    for (int i = 0; i < p->values; i++)
        for (int k = 0; k < i; k++) {
            const lki_room *a = &p->rooms[i], *b = &p->rooms[k];
            if (a->at >= b->at + b->bytes || b->at >= a->at + a->bytes) continue;
            const int  x = a->value, y = b->value;
            const bool x_first =
                !p->kept[x] && p->maker[y] >= 0 &&
                lki_bits_within(lki_order_row(o, p->tenants.users, x), lki_order_row(o, o->before, p->maker[y]), o->words);
            const bool y_first =
                !p->kept[y] && p->maker[x] >= 0 &&
                lki_bits_within(lki_order_row(o, p->tenants.users, y), lki_order_row(o, o->before, p->maker[x]), o->words);
            assert_true(x_first || y_first);
        }
}

static int count_needs(const lki_order *o)
{
    int count = 0;
    for (int i = 0; i < o->count * o->count; i++)
        count += lki_order_needs(o, i / o->count, i % o->count);
    return count;
}

/* plenty: no call waits for more than before; else memory is shared as if levels ran one after the other. */
static void memory_is_shared_safely(bool plenty)
{
    static program p;
    size_t         all = 0, used = 0;
    for (int g = 0; g < GRAPHS; g++) {
        random_program(&p);
        by_levels(&p);
        const int    before = count_needs(&p.order);
        const size_t bytes = lki_card_rooms_place(&p.order, p.rooms, p.values, &p.tenants, plenty ? SIZE_MAX : 0);
        assert_true(bytes <= bytes_of_all(&p));
        if (plenty) assert_int_equal(count_needs(&p.order), before);
        all += bytes_of_all(&p);
        used += bytes;
        nobody_in_the_way(&p);
        for (int r = 0; r < RUNS; r++)
            run_in_some_order(&p);
        lki_order_clear(&p.order);
    }
    assert_true(used < (plenty ? all * 9 / 10 : all * 7 / 10));
}

TEST(small_blocks_make_nobody_wait) { memory_is_shared_safely(true); }
TEST(large_blocks_are_shared) { memory_is_shared_safely(false); }

/* ---- launches ---- */

typedef struct joined {
    lki_joinable what[MOST_CALLS];
    int          most[LKI_GROUPS], launch[MOST_CALLS], count;
    int          across; /* if not 0: calls of numbers that differ by it need more than rows of each other */
} joined;

static bool goes_along(const void *user, int call, int earlier)
{
    const joined *j = user;
    return !j->across || call - earlier != j->across;
}

static void join(const lki_order *o, joined *j, int updates, int small)
{
    j->most[LKI_GROUP_NONE] = 1, j->most[LKI_GROUP_UPDATES] = updates, j->most[LKI_GROUP_SMALL] = small;
    if (!j->most[LKI_GROUP_ROWS]) j->most[LKI_GROUP_ROWS] = 1;
    j->count = lki_join_calls(o, j->what, &(lki_join_rules){j->most, goes_along, j}, j->launch);
    assert_true(j->count > 0 && j->count <= o->count);
}

static void check_launches(const lki_order *o, const joined *j)
{
    for (int i = 0; i < o->count; i++) {
        assert_in_range(j->launch[i], 0, j->count - 1);
        for (int k = 0; k < o->count; k++) {
            if (k < i && lki_order_after(o, i, k)) assert_true(j->launch[k] <= j->launch[i]);
            if (k == i || j->launch[k] != j->launch[i]) continue;
            assert_int_equal(j->what[k].kind, j->what[i].kind);
            assert_true(j->what[i].kind != LKI_GROUP_NONE);
            if (j->what[i].kind == LKI_GROUP_SMALL) continue;
            if (j->what[i].kind == LKI_GROUP_ROWS) {
                assert_int_equal(j->what[k].row.rows, j->what[i].row.rows);
                if (lki_order_after(o, i, k)) assert_true(goes_along(j, i, k) && !j->what[i].row.leads);
                continue;
            }
            assert_int_equal(j->what[k].like, j->what[i].like);
            assert_false(lki_order_after(o, i, k));
        }
    }
    for (int l = 0; l < j->count; l++) {
        int members = 0, kind = 0;
        for (int i = 0; i < o->count; i++)
            if (j->launch[i] == l) members++, kind = (int)j->what[i].kind;
        assert_in_range(members, 1, j->most[kind]);
    }
}

/* Launches on the longest way, small ones not counted. */
static int longest_way(const lki_order *o, const joined *j)
{
    int at[MOST_CALLS] = {0}, longest = 0;
    for (int l = 0; l < j->count; l++) {
        int weight = 0;
        for (int i = 0; i < o->count; i++) {
            if (j->launch[i] != l) continue;
            weight = j->what[i].kind != LKI_GROUP_SMALL;
            for (int k = 0; k < i; k++)
                if (lki_order_needs(o, i, k) && j->launch[k] != l && at[j->launch[k]] > at[l]) at[l] = at[j->launch[k]];
        }
        at[l] += weight;
        longest = at[l] > longest ? at[l] : longest;
    }
    return longest;
}

TEST(launches_are_sound)
{
    static joined j;
    int           calls = 0, launches = 0;
    for (int g = 0; g < 3 * GRAPHS; g++) {
        lki_order o = random_order(2 + below(MOST_CALLS - 2));
        lki_order_close(&o);
        const int mostly = below(3);
        for (int i = 0; i < o.count; i++)
            j.what[i] = (lki_joinable){(lki_group)(below(3) ? mostly : below(3)), below(2), {0}};
        join(&o, &j, 1, 1);
        assert_int_equal(j.count, o.count);
        check_launches(&o, &j);
        const int way = longest_way(&o, &j);
        join(&o, &j, 1 + below(8), 1);
        check_launches(&o, &j);
        assert_int_equal(longest_way(&o, &j), way);
        join(&o, &j, j.most[LKI_GROUP_UPDATES], 1 + below(20));
        check_launches(&o, &j);
        assert_int_equal(longest_way(&o, &j), way);
        calls += o.count;
        launches += j.count;
        lki_order_clear(&o);
    }
    assert_true(launches < calls * 3 / 4);
}

TEST(launches_along_rows_are_sound)
{
    static joined j;
    int           calls = 0, launches = 0;
    for (int g = 0; g < 3 * GRAPHS; g++) {
        lki_order o = random_order(2 + below(MOST_CALLS - 2));
        lki_order_close(&o);
        memset(&j, 0, sizeof j);
        j.most[LKI_GROUP_ROWS] = 1 + below(6);
        j.across = below(4);
        for (int i = 0; i < o.count; i++)
            j.what[i] = (lki_joinable){(lki_group)below(3), below(2), {below(4) ? 1 + below(2) : 0, !below(5), 1}};
        join(&o, &j, 1 + below(8), 1 + below(20));
        check_launches(&o, &j);
        calls += o.count;
        launches += j.count;
        lki_order_clear(&o);
    }
    assert_true(launches < calls * 3 / 4);
}

/* A head: product, product, loss, gradient, product. What lies between two of them keeps them apart; so does what needs all rows,
 * and another number of rows. */
TEST(a_head_is_one_launch)
{
    enum { HEAD, ACROSS, OTHER_ROWS, LEADER, FORMS };
    static joined j;
    for (int form = 0; form < FORMS; form++) {
        lki_order o;
        assert_true(lki_order_init(&o, 7));
        memset(&j, 0, sizeof j);
        j.most[LKI_GROUP_ROWS] = 6;
        for (int i = 1; i < 6; i++)
            j.what[i].row = (lki_row_member){form == OTHER_ROWS && i == 5 ? 32 : 64, i == 1 || (form == LEADER && i == 5), 1};
        j.what[3].kind = LKI_GROUP_SMALL;
        lki_order_need(&o, 1, 0);
        lki_order_need(&o, 2, 1);
        lki_order_need(&o, 3, 2); /* the loss */
        lki_order_need(&o, 4, 2);
        lki_order_need(&o, 5, 4);
        lki_order_need(&o, 5, 1); /* a mask */
        lki_order_need(&o, 6, 3);
        if (form == ACROSS) j.across = 4;
        lki_order_close(&o);
        join(&o, &j, 8, 8);
        check_launches(&o, &j);
        const int *l = j.launch;
        assert_true(l[1] == l[2] && l[2] == l[3] && l[3] == l[4]);
        assert_true((l[5] == l[4]) == (form == HEAD));
        assert_int_equal(j.what[3].kind, LKI_GROUP_ROWS);
        lki_order_clear(&o);
    }
}

/* 0 -> 1 -> 2 and 0 -> 2, where 1 is not a call along rows: 0 and 2 would be one before and after it. */
TEST(nothing_lies_between_rows)
{
    static joined j;
    lki_order     o;
    assert_true(lki_order_init(&o, 3));
    memset(&j, 0, sizeof j);
    j.most[LKI_GROUP_ROWS] = 6;
    j.what[0].row = j.what[2].row = (lki_row_member){64, false, 3};
    lki_order_need(&o, 1, 0);
    lki_order_need(&o, 2, 1);
    lki_order_need(&o, 2, 0);
    lki_order_close(&o);
    join(&o, &j, 8, 8);
    assert_int_equal(j.count, 3);
    lki_order_clear(&o);
}

/* Two groups that would each be before the other. */
TEST(no_circles_of_updates)
{
    static joined j;
    lki_order     o;
    assert_true(lki_order_init(&o, 10));
    lki_order_need(&o, 2, 0); /* a1 -> b1 */
    lki_order_need(&o, 3, 1); /* b2 -> a2 */
    for (int i = 5; i < 8; i++)
        lki_order_need(&o, i, i - 1); /* a longer way */
    lki_order_need(&o, 8, 6);         /* the last of each */
    lki_order_need(&o, 9, 6);
    lki_order_close(&o);
    const int call[] = {0, 1, 2, 3, 8, 9}, like[] = {0, 1, 1, 0, 0, 1};
    memset(&j, 0, sizeof j);
    for (int i = 0; i < LKI_COUNT(call); i++)
        j.what[call[i]] = (lki_joinable){LKI_GROUP_UPDATES, like[i], {0}};
    join(&o, &j, 8, 8);
    check_launches(&o, &j);
    assert_int_equal(j.count, 9);
    lki_order_clear(&o);
}

/* Two gradients that are there early, and two that are not: updates of the first need not wait for the others. */
TEST(early_updates_do_not_wait)
{
    static joined j;
    lki_order     o;
    assert_true(lki_order_init(&o, 8));
    for (int i = 1; i < 4; i++)
        lki_order_need(&o, i, i - 1);
    lki_order_need(&o, 4, 0);
    lki_order_need(&o, 5, 3);
    lki_order_need(&o, 6, 1);
    lki_order_need(&o, 7, 3);
    lki_order_close(&o);
    memset(&j, 0, sizeof j);
    for (int i = 4; i < 8; i++)
        j.what[i].kind = LKI_GROUP_UPDATES;
    join(&o, &j, 8, 8);
    check_launches(&o, &j);
    assert_true(j.launch[4] == j.launch[6] && j.launch[5] == j.launch[7] && j.launch[4] != j.launch[5]);
    lki_order_clear(&o);
}

/* Normalisation: sums -> arithmetic of channels -> applied, twice; its moving averages are wanted at the end only; then updates and
 * the count of steps. */
TEST(arithmetic_of_channels_is_one_launch)
{
    enum { LARGE = LKI_GROUP_NONE, SMALL = LKI_GROUP_SMALL, UPDATE = LKI_GROUP_UPDATES };
    static const struct {
        int kind, need[3]; /* -1: none */
    } calls[] = {
        {LARGE, {-1, -1, -1}}, /* 0 sums */
        {SMALL, {0, -1, -1}},   {SMALL, {1, -1, -1}},   {SMALL, {1, 2, -1}},
        {SMALL, {3, -1, -1}},                         /* 1..4 mean, square, variance, scale */
        {SMALL, {1, -1, -1}},   {SMALL, {5, -1, -1}}, /* 5, 6 the moving average of the mean */
        {LARGE, {4, 0, -1}},                          /* 7 applied */
        {LARGE, {7, -1, -1}},                         /* 8 sums */
        {SMALL, {8, -1, -1}},   {SMALL, {9, -1, -1}},   {SMALL, {9, -1, -1}},
        {SMALL, {10, -1, -1}},                                                 /* 9, 10 mean, scale; 11 the average; 12 for later */
        {LARGE, {10, 8, -1}},                                                  /* 13 applied */
        {LARGE, {13, -1, -1}},  {LARGE, {13, 12, -1}},                         /* 14, 15 gradients */
        {UPDATE, {14, -1, -1}}, {UPDATE, {15, -1, -1}}, {SMALL, {16, 17, -1}}, /* 18 one more step */
    };
    static joined j;
    lki_order     o;
    assert_true(lki_order_init(&o, LKI_COUNT(calls)));
    for (int i = 0; i < LKI_COUNT(calls); i++) {
        j.what[i] = (lki_joinable){(lki_group)calls[i].kind, 0, {0}};
        for (int k = 0; k < 3; k++)
            if (calls[i].need[k] >= 0) lki_order_need(&o, i, calls[i].need[k]);
    }
    lki_order_close(&o);
    join(&o, &j, 8, 40);
    check_launches(&o, &j);
    const int *l = j.launch;
    assert_true(l[1] == l[2] && l[2] == l[3] && l[3] == l[4]);
    assert_true(l[5] == l[6] && l[5] != l[1]);   /* no call waits for it */
    assert_true(l[11] != l[5] && l[11] != l[9]); /* there is less time for it */
    assert_true(l[9] == l[10] && l[9] != l[12]);
    assert_true(l[16] == l[17]);
    assert_true(l[18] != l[5]);
    assert_int_equal(j.count, 13);
    lki_order_clear(&o);
}

/* Two long branches at the same time stay two launches, which can run side by side; a few calls more are worth none of their
 * own. */
TEST(branches_stay_side_by_side)
{
    enum { LONG = 10 };
    static joined j;
    for (int few = 0; few < 2; few++) {
        const int length = few ? 2 : LONG, count = 2 + LONG + length;
        lki_order o;
        assert_true(lki_order_init(&o, count));
        memset(&j, 0, sizeof j);
        for (int i = 1; i < count - 1; i++) {
            j.what[i].kind = LKI_GROUP_SMALL;
            lki_order_need(&o, i, i == 1 + LONG ? 0 : i - 1);
        }
        lki_order_need(&o, count - 1, LONG);
        lki_order_need(&o, count - 1, count - 2);
        lki_order_close(&o);
        join(&o, &j, 8, 40);
        check_launches(&o, &j);
        assert_int_equal(j.count, few ? 3 : 4);
        join(&o, &j, 8, 4);
        check_launches(&o, &j);
        lki_order_clear(&o);
    }
}

static int join_once(void)
{
    lki_order    o = {0};
    lki_joinable what[3] = {{LKI_GROUP_SMALL, 0, {0}}, {LKI_GROUP_SMALL, 0, {0}}, {LKI_GROUP_NONE, 0, {0}}};
    const int    most[LKI_GROUPS] = {1, 4, 4, 4};
    int          launch[3], good = 0;
    if (lki_order_init(&o, 3)) {
        lki_order_need(&o, 2, 1);
        lki_order_close(&o);
        good = lki_join_calls(&o, what, &(lki_join_rules){most, NULL, NULL}, launch) > 0;
    }
    lki_order_clear(&o);
    return good;
}

TEST(no_memory_is_told) { assert_true(check_every_allocation(join_once) > 0); }

TESTS(cmocka_unit_test(closed_orders_have_the_fewest_needs), cmocka_unit_test(long_chains_are_followed),
      cmocka_unit_test(those_who_can_wait_begin_behind_the_first), cmocka_unit_test(what_is_as_long_does_not_wait),
      cmocka_unit_test(small_blocks_make_nobody_wait), cmocka_unit_test(large_blocks_are_shared),
      cmocka_unit_test(launches_are_sound), cmocka_unit_test(launches_along_rows_are_sound), cmocka_unit_test(a_head_is_one_launch),
      cmocka_unit_test(nothing_lies_between_rows), cmocka_unit_test(no_circles_of_updates),
      cmocka_unit_test(early_updates_do_not_wait), cmocka_unit_test(arithmetic_of_channels_is_one_launch),
      cmocka_unit_test(branches_stay_side_by_side), cmocka_unit_test(no_memory_is_told))
