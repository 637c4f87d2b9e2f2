/* Joining calls. While it works, a group is known by its first member, and `before` of each call is that of its group: all calls
 * outside of it that end before it begins.
 *
 * Why there is no circle
 * 1. Calls along rows are joined one by one, each with a group it comes after, where no call lies between. Updates are joined one
 *    by one, and only with a group of which no member comes before or after; and where no way becomes longer. Groups joined so far
 *    are taken into account by both.
 * 2. Let `tail` of a call be the number of calls, not counting small ones, on the longest way from it to the end. Along a need it
 *    never grows, and it shrinks where the later call is not small. A circle would have the same tail all around, so small calls of
 *    one tail alone; and these are cut into groups in an order in which they may run. */
#include "plan/card/join.h"
#include "core/memory.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { FEW = 4 }; /* small calls, which are not worth a launch of their own */

typedef struct joining {
    const lki_order *calls;
    lki_joinable    *what;
    const int       *most;
    int              count, words;
    uint64_t        *before;       /* by call, a row */
    int             *group;        /* by call: the first member of its group */
    int             *size;         /* by first member */
    int             *head, *tail;  /* by first member: others, not counting small ones, on the longest way to it, and from it */
    int             *sorted;       /* calls, in an order in which they may run */
    int             *rank;         /* by call: how many end before it begins */
    int             *begin;        /* by rank */
    int             *need, *needs; /* by call: it needs calls needs[need[i]] to needs[need[i + 1] - 1] */
    int              longest;
} joining;

static uint64_t *before(const joining *j, int call) { return j->before + (size_t)call * (size_t)j->words; }

static bool is(const joining *j, int call, lki_group kind) { return j->what[call].kind == kind; }

/* ---- how long ways are ---- */

static int larger(int a, int b) { return a > b ? a : b; }

static void find_rank(joining *j, int call)
{
    j->rank[call] = 0;
    for (int w = 0; w < j->words; w++)
        j->rank[call] += __builtin_popcountll(before(j, call)[w]);
}

/* What comes after another has more before it. */
static void sort_calls(joining *j)
{
    int *begin = j->begin;
    memset(begin, 0, ((size_t)j->count + 1) * sizeof *begin);
    for (int i = 0; i < j->count; i++)
        begin[j->rank[i] + 1]++; /* less than count end before it */
    for (int r = 1; r <= j->count; r++)
        begin[r] += begin[r - 1];
    for (int i = 0; i < j->count; i++)
        j->sorted[begin[j->rank[i]]++] = i;
}

static int weight(const joining *j, int call) { return is(j, call, LKI_GROUP_SMALL) ? 0 : 1; }

/* Of a group all that it needs comes before its first member in the sorted order, and all that need it after its last one: what is
 * noted of its first member is of all of them. */
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

/* Two groups become one: what comes after one of them comes after both, and after all that either came after. */
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

/* Nothing that comes after the group comes before the call; and its rows need rows of the group alone. */
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

/* Those of one number that have the longest way before them: others can be made while the last gradients are still on their way. */
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

/* Those that can run first come first, so that where there are several groups one of them need not wait for all gradients. */
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

/* Those that cannot wait are joined with no others; of the others no two whose times differ more than twice are joined, so that
 * each keeps half of its time at least. Along a need between small calls of one tail, time only shrinks: that makes no circle
 * either. */
static int haste(const joining *j, int call)
{
    int twice = 0;
    for (int left = slack(j, call); left; left /= 2)
        twice++;
    return twice;
}

static bool wanted_together(const joining *j, int a, int b) { return j->tail[a] == j->tail[b] && haste(j, a) == haste(j, b); }

/* Give each small call the number of its piece: urgent ones that need each other, and all others that are wanted at the same time.
 * A piece is known by its first call. */
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

/* Small pieces join the piece before them, if it is wanted at the same time. */
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

/* One level after the last it needs. `level` is by first member; groups do not lie in the order of their first members. */
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
