/* Joining calls. Meanwhile the number of a group is that of its first member, and `before` of each call is that of its group: all
 * calls outside of it that end before it begins.
 *
 * Why there is no circle
 * 1. Calls along rows are joined one by one, each with a group that it comes after, if no call lies between. Updates are joined one
 *    by one, and only with a group of which no member comes before or after it, and if the longest path does not grow. Both checks
 *    see the groups that were joined before.
 * 2. `tail` of a call is the number of calls, not counting small ones, on the longest path from it to the end. The later of two
 *    calls, of which one needs the other, never has the larger tail, and has a smaller one if it is not small. So all calls of a
 *    circle would have the same tail, and all would be small; but small calls of one tail are cut into groups in an order in which
 *    they may run. */
#include "plan/card/join.h"
#include "core/memory.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { FEW = 4 }; /* this many small calls are not worth a separate launch */

typedef struct joining {
    const lki_order *calls;
    lki_joinable    *what;
    const int       *most;
    int              count, words;
    uint64_t        *before;       /* by call, a row */
    int             *group;        /* by call: the first member of its group */
    int             *size;         /* by first member */
    int             *head, *tail;  /* by first member: other calls on the longest path to it, and from it, except small ones */
    int             *sorted;       /* calls, in an order in which they may run */
    int             *rank;         /* by call: the number of calls that end before it begins */
    int             *begin;        /* by rank */
    int             *need, *needs; /* by call: it needs calls needs[need[i]] to needs[need[i + 1] - 1] */
    int              longest;
} joining;

static uint64_t *before(const joining *j, int call) { return j->before + (size_t)call * (size_t)j->words; }

static bool is(const joining *j, int call, lki_group kind) { return j->what[call].kind == kind; }

/* ---- lengths of paths ---- */

static int larger(int a, int b) { return a > b ? a : b; }

static void find_rank(joining *j, int call)
{
    j->rank[call] = 0;
    for (int w = 0; w < j->words; w++)
        j->rank[call] += __builtin_popcountll(before(j, call)[w]);
}

/* By rank: a call has a higher rank than the calls it comes after. */
static void sort_calls(joining *j)
{
    int *begin = j->begin;
    memset(begin, 0, ((size_t)j->count + 1) * sizeof *begin);
    for (int i = 0; i < j->count; i++)
        begin[j->rank[i] + 1]++; /* ranks are less than count */
    for (int r = 1; r <= j->count; r++)
        begin[r] += begin[r - 1];
    for (int i = 0; i < j->count; i++)
        j->sorted[begin[j->rank[i]]++] = i;
}

static int weight(const joining *j, int call) { return is(j, call, LKI_GROUP_SMALL) ? 0 : 1; }

/* In the sorted order all calls that a group needs come before its first member, and all calls that need it after its last one. So
 * one pass is enough, and head and tail of the first member are those of the group. */
static void measure(joining *j)
{
    int *head = j->head, *tail = j->tail;
    sort_calls(j);
    memset(head, 0, (size_t)j->count * sizeof *head);
    memset(tail, 0, (size_t)j->count * sizeof *tail);
    j->longest = 0;
    for (int n = 0; n < j->count; n++) {
        const int i = j->sorted[n], g = j->group[i];
        for (int m = j->need[i]; m < j->need[i + 1]; m++) {
            const int k = j->needs[m], of = j->group[k];
            if (of != g) head[g] = larger(head[g], head[of] + weight(j, k));
        }
        j->longest = larger(j->longest, head[g] + weight(j, i));
    }
    for (int n = j->count - 1; n >= 0; n--) {
        const int i = j->sorted[n], g = j->group[i];
        for (int m = j->need[i]; m < j->need[i + 1]; m++) {
            const int of = j->group[j->needs[m]];
            if (of != g) tail[of] = larger(tail[of], tail[g] + weight(j, i));
        }
    }
}

/* Two groups become one: calls that came after one of them now come after both, and after all calls before either. */
static void merge(joining *j, int into, int from, uint64_t *all)
{
    memcpy(all, before(j, into), (size_t)j->words * sizeof *all);
    lki_bits_add(all, before(j, from), j->words);
    for (int i = 0; i < j->count; i++) {
        if (j->group[i] == from) j->group[i] = into;
        if (j->group[i] == into) lki_bit_clear(all, i);
    }
    j->size[into] += j->size[from];
    for (int i = 0; i < j->count; i++)
        if (j->group[i] == into) memcpy(before(j, i), all, (size_t)j->words * sizeof *all);
    for (int i = 0; i < j->count; i++)
        if (j->group[i] == into) lki_bit_set(all, i);
    for (int i = 0; i < j->count; i++)
        if (j->group[i] != into && (lki_bit(before(j, i), into) || lki_bit(before(j, i), from)))
            lki_bits_add(before(j, i), all, j->words);
    for (int i = 0; i < j->count; i++)
        if (j->group[i] == into || lki_bit(before(j, i), into)) find_rank(j, i);
    measure(j);
}

/* ---- rows ---- */

/* May the call join the group? No call may lie between them, and of the group its rows may need the same rows only. */
static bool may_follow(const joining *j, const lki_join_rules *rules, int group, int call)
{
    bool needs = false;
    for (int i = 0; i < j->count; i++) {
        if (j->group[i] == group && lki_bit(before(j, call), i)) {
            if (!rules->along(rules->user, call, i)) return false;
            needs = true;
        } else if (lki_bit(before(j, call), i) && lki_bit(before(j, i), group)) return false;
    }
    return needs;
}

static void join_rows(joining *j, const lki_join_rules *rules, uint64_t *space, int *turns)
{
    memcpy(turns, j->sorted, (size_t)j->count * sizeof *turns);
    for (int n = 0; n < j->count; n++) {
        const int i = turns[n];
        for (int m = 0; m < n && j->what[i].row.rows && !j->what[i].row.leads && j->group[i] == i; m++) {
            const int g = turns[m];
            if (j->group[g] != g || j->what[g].row.rows != j->what[i].row.rows || j->size[g] == j->most[LKI_GROUP_ROWS] ||
                !may_follow(j, rules, g, i))
                continue;
            j->what[g].kind = j->what[i].kind = LKI_GROUP_ROWS;
            merge(j, g, i, space);
        }
    }
}

/* ---- updates ---- */

/* Of updates of one number, those with the longest path before them: the others can run while the last gradients are computed. */
static void find_last(const joining *j, bool *last)
{
    for (int i = 0; i < j->count; i++) {
        last[i] = is(j, i, LKI_GROUP_UPDATES);
        for (int k = 0; k < j->count && last[i]; k++)
            last[i] = !is(j, k, LKI_GROUP_UPDATES) || j->what[k].like != j->what[i].like || j->head[k] <= j->head[i];
    }
}

static bool may_join(const joining *j, const bool *last, int group, int update)
{
    return j->group[group] == group && is(j, group, LKI_GROUP_UPDATES) && j->what[group].like == j->what[update].like &&
           last[group] == last[update] && j->size[group] < j->most[LKI_GROUP_UPDATES] && !lki_bit(before(j, update), group) &&
           !lki_bit(before(j, group), update) &&
           larger(j->head[group], j->head[update]) + 1 + larger(j->tail[group], j->tail[update]) <= j->longest;
}

/* Updates that can run first are joined first. So if there are several groups, the first need not wait for all gradients. */
static void join_updates(joining *j, uint64_t *space, int *turns, bool *last)
{
    int count = 0;
    find_last(j, last);
    for (int n = 0; n < j->count; n++)
        if (is(j, j->sorted[n], LKI_GROUP_UPDATES)) turns[count++] = j->sorted[n];
    for (int n = 0; n < count; n++)
        for (int m = 0; m < n && j->group[turns[n]] == turns[n]; m++)
            if (may_join(j, last, turns[m], turns[n])) merge(j, turns[m], turns[n], space);
}

/* ---- small calls ---- */

static int slack(const joining *j, int call) { return j->longest - j->head[call] - j->tail[call]; }

/* The logarithm of a call's slack. Only calls of equal haste are joined: calls without slack with each other only, and any other
 * keeps at least half of its slack. Of two small calls of one tail, the one that needs the other has no more slack than
 * that: this makes no circle either. */
static int haste(const joining *j, int call)
{
    int twice = 0;
    for (int left = slack(j, call); left; left /= 2)
        twice++;
    return twice;
}

static bool wanted_together(const joining *j, int a, int b) { return j->tail[a] == j->tail[b] && haste(j, a) == haste(j, b); }

/* Give each small call the number of its piece, which is that of the piece's first call. The calls of a piece have equal depth and
 * haste; calls without slack must also need each other. */
static void find_pieces(const joining *j, int *piece)
{
    for (int i = 0; i < j->count; i++) {
        piece[i] = i;
        for (int k = 0; k < i && is(j, i, LKI_GROUP_SMALL); k++) {
            if (!is(j, k, LKI_GROUP_SMALL) || piece[k] == piece[i] || !wanted_together(j, i, k)) continue;
            if (!slack(j, i) && !lki_order_needs(j->calls, i, k)) continue;
            const int low = piece[k] < piece[i] ? piece[k] : piece[i], high = piece[k] < piece[i] ? piece[i] : piece[k];
            for (int m = 0; m <= i; m++)
                if (piece[m] == high) piece[m] = low;
        }
    }
}

/* A piece of few calls joins an earlier piece of equal depth and haste, and an earlier one of few calls is joined. */
static void join_few(const joining *j, int *piece, int *members)
{
    memset(members, 0, (size_t)j->count * sizeof *members);
    for (int i = 0; i < j->count; i++)
        members[piece[i]]++;
    for (int i = 0; i < j->count; i++)
        for (int k = 0; k < i && piece[i] == i && is(j, i, LKI_GROUP_SMALL); k++) {
            if (piece[k] != k || !is(j, k, LKI_GROUP_SMALL) || !wanted_together(j, i, k)) continue;
            if (members[i] > FEW && members[k] > FEW) continue;
            members[k] += members[i];
            for (int m = i; m < j->count; m++)
                if (piece[m] == i) piece[m] = k;
        }
}

/* Cut pieces into groups in the order of calls. */
static void join_small(joining *j, const int *piece, int *open)
{
    for (int i = 0; i < j->count; i++)
        open[i] = -1;
    for (int i = 0; i < j->count; i++) {
        if (!is(j, i, LKI_GROUP_SMALL)) continue;
        int *o = &open[piece[i]];
        if (*o >= 0 && j->size[*o] < j->most[LKI_GROUP_SMALL]) {
            j->group[i] = *o;
            j->size[*o]++;
        } else *o = i;
    }
}

/* ---- numbers ---- */

typedef struct turn {
    int group, level, tail;
} turn;

static int first(const void *a, const void *b)
{
    const turn *x = a, *y = b;
    if (x->level != y->level) return x->level < y->level ? -1 : 1;
    if (x->tail != y->tail) return x->tail > y->tail ? -1 : 1;
    return x->group < y->group ? -1 : x->group > y->group;
}

/* One level above the highest that it needs. `level` is by first member. The order of first members need not be that of groups, so
 * levels are raised until none changes. */
static void find_levels(const joining *j, int *level)
{
    memset(level, 0, (size_t)j->count * sizeof *level);
    for (bool moved = true; moved;) {
        moved = false;
        for (int i = 0; i < j->count; i++) {
            for (int m = j->need[i]; m < j->need[i + 1]; m++) {
                const int a = j->group[j->needs[m]], b = j->group[i];
                if (a == b || level[b] > level[a]) continue;
                level[b] = level[a] + 1;
                assert(level[b] < j->count); /* no circle */
                moved = true;
            }
        }
    }
}

static int number(const joining *j, turn *turns, const int *level, int *launch)
{
    int count = 0;
    for (int i = 0; i < j->count; i++)
        if (j->group[i] == i) turns[count++] = (turn){i, level[i], j->tail[i]};
    qsort(turns, (size_t)count, sizeof *turns, first);
    for (int n = 0; n < count; n++)
        for (int i = 0; i < j->count; i++)
            if (j->group[i] == turns[n].group) launch[i] = n;
    return count;
}

/* The rows of needs as lists; false without memory. */
static bool list_needs(joining *j)
{
    int capacity = 0, count = 0;
    for (int i = 0; i < j->count; i++) {
        const uint64_t *row = lki_order_row(j->calls, j->calls->needs, i);
        j->need[i] = count;
        for (int k = lki_bit_next(row, j->words, 0); k >= 0; k = lki_bit_next(row, j->words, k + 1)) {
            if (!lki_grow((void **)&j->needs, &capacity, count + 1, sizeof *j->needs)) return false;
            j->needs[count++] = k;
        }
    }
    j->need[j->count] = count;
    return true;
}

int lki_join_calls(const lki_order *calls, lki_joinable *what, const lki_join_rules *rules, int *launch)
{
    const size_t n = (size_t)calls->count + 1;
    joining      j = {.calls = calls, .what = what, .most = rules->most, .count = calls->count, .words = calls->words};
    int         *space = lki_zalloc_array(n, 10 * sizeof *space);
    turn        *turns = lki_alloc_array(n, sizeof *turns);
    uint64_t    *row = lki_alloc_array((size_t)j.words + 1, sizeof *row);
    bool        *last = lki_alloc_array(n, sizeof *last);
    j.before = lki_alloc_array(lki_size_mul(n, j.words + 1), sizeof *j.before);
    int count = -1;
    j.need = space ? space + 9 * n : NULL;
    if (space && turns && row && last && j.before && list_needs(&j)) {
        int *piece = space + 6 * n, *other = space + 7 * n;
        j.group = space, j.size = space + n, j.head = space + 2 * n, j.tail = space + 3 * n, j.sorted = space + 4 * n,
        j.rank = space + 5 * n;
        j.begin = space + 8 * n;
        memcpy(j.before, calls->before, (size_t)j.count * (size_t)j.words * sizeof *j.before);
        for (int i = 0; i < j.count; i++)
            j.group[i] = i, j.size[i] = 1, find_rank(&j, i);
        measure(&j);
        join_rows(&j, rules, row, other);
        join_updates(&j, row, other, last);
        find_pieces(&j, piece);
        join_few(&j, piece, other);
        join_small(&j, piece, other);
        find_levels(&j, other);
        count = number(&j, turns, other, launch);
    }
    lki_release(space);
    lki_release(turns);
    lki_release(row);
    lki_release(last);
    lki_release(j.before);
    lki_release(j.needs);
    return count;
}
