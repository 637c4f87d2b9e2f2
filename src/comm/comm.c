/* Opening, testing, waiting for and closing groups.
 *
 *     OPENING --self-test passed--> OPEN --failure, abort, deadline--> GIVEN UP     `why` is the cause from then on
 *          \____ no carrier ____> GIVEN UP, and forgotten: the next request tries again
 *
 * Invariants, beside those of comm.h
 * 1. A carrier is called with the group's lock held, except while one thread alone has the group: the thread that opens it, or the
 *    thread that gives it up. Other threads wait until that thread has finished. No thread waits with the lock held: abort() may
 *    wait until other sides have stopped copying, so it is called without the lock. Of the other functions of a carrier only open()
 *    and close() wait.
 * 2. The list's lock is never held while a carrier works: opening waits for members whose threads open groups too. */
#include "comm/comm.h"
#include "comm/inside.h"
#include "core/lock.h"
#include "core/log.h"
#include "core/memory.h"
#include "core/names.h"
#include "core/number.h"
#include <sched.h>
#include <string.h>
#include <time.h>

enum { SECONDS_TO_OPEN = 30 };

static const lki_carrier *const table[] = {&lki_nccl_carrier, &lki_peer_carrier, &lki_host_carrier, &lki_local_carrier};

struct lki_comm {
    int                refs; /* atomic; the last one goes under list_lock. One is the owner's */
    lki_comm          *next;
    const void        *owner; /* NULL: forgotten */
    lki_carrier_args   is;
    lki_device        *device[LKI_MOST_MEMBERS];
    bool               no_nccl;
    double             seconds;
    lki_bond           bond;
    lki_mutex          lock; /* of what follows */
    lki_condition      finished;
    bool               opening, aborting;
    const lki_carrier *by;
    void              *side;          /* NULL: no carrier could be had */
    int64_t            given, waited; /* exchanges; those that are known to be done */
    lki_error_record   why;           /* it was given up; LK_OK: it was not */
};

static lki_comm          *list;
static const lki_carrier *first_carrier; /* atomic */
LKI_MUTEX(list_lock);

const lki_carrier *lki_carrier_first(const lki_carrier *c) { return __atomic_exchange_n(&first_carrier, c, __ATOMIC_ACQ_REL); }

static bool all_are_here(const lki_comm *g) { return g->is.here == g->is.members; }

/* ---- giving up; with the lock held ---- */

void lki_members_text(int first, int count, char *text, size_t room)
{
    if (count == 1) lki_text_print(text, room, "member %d", first);
    else lki_text_print(text, room, "members %d to %d", first, first + count - 1);
}

static void name_of(const lki_comm *g, int member, char *text, size_t room)
{
    const int i = member - g->is.first;
    if (all_are_here(g)) lki_text_print(text, room, "%s", g->device[i]->name);
    else lki_text_print(text, room, "member %d", member);
}

/* "GPU:0, GPU:1", or "member 2 of 5". */
static void names_of(const lki_comm *g, char *text, size_t room)
{
    const int first = g->is.first, here = g->is.here;
    text[0] = 0;
    for (int i = 0; i < here && all_are_here(g); i++)
        lki_names_add(text, room, g->device[i]->name);
    if (all_are_here(g)) return;
    lki_members_text(first, here, text, room);
    lki_text_more(text, room, " of %d", g->is.members);
}

/* When this returns, no other side reads or writes a buffer of the members here. */
static void wait_for_abort(lki_comm *g)
{
    while (g->aborting)
        lki_condition_wait(&g->finished, &g->lock);
}

static lk_status known_failure(lki_comm *g)
{
    wait_for_abort(g);
    lki_error_put(&g->why);
    return g->why.code;
}

/* `why` is set, so no other thread calls the carrier. */
static void abort_side(lki_comm *g, lk_status code, const char *what)
{
    g->aborting = true;
    lki_mutex_give(&g->lock);
    g->by->abort(g->side, code, what);
    lki_mutex_take(&g->lock);
    g->aborting = false;
    lki_condition_tell_all(&g->finished);
}

static lk_status give_up(lki_comm *g, lk_status code, const char *what)
{
    char names[256];
    names_of(g, names, sizeof names);
    g->why.code = code;
    lki_text_print(g->why.text, sizeof g->why.text, "%s, linked by %s: %s", names, g->by->words, what);
    abort_side(g, code, what);
    return known_failure(g);
}

/* Has anything gone wrong on any side? */
static lk_status check(lki_comm *g)
{
    char why[LKI_CARRIER_WHY] = "";
    if (g->why.code != LK_OK) return known_failure(g);
    const lk_status code = g->by->check(g->side, why);
    return code == LK_OK ? LK_OK : give_up(g, code, why);
}

/* The carrier said that it failed. */
static lk_status failed(lki_comm *g, lk_status code)
{
    const lk_status status = check(g);
    return status != LK_OK ? status : give_up(g, code, "an exchange failed");
}

/* ---- waiting ---- */

typedef struct waiting {
    double   seconds;
    int64_t  began, deadline; /* of lki_nanoseconds(); 0: none */
    int64_t  given;           /* exchanges that are waited for */
    uint64_t late;            /* members, as bits */
} waiting;

static lk_status too_late(lki_comm *g, const waiting *w)
{
    char text[400], late[300] = "", name[64];
    for (int m = 0; m < g->is.members; m++)
        if (w->late >> m & 1) {
            name_of(g, m, name, sizeof name);
            lki_names_add(late, sizeof late, name);
        }
    lki_format(text, sizeof text, "the deadline of %g seconds passed; still at work: %s", w->seconds, late);
    return give_up(g, LK_EDEADLINE, text);
}

/* With the lock held: LK_OK and *done, or an error. */
static lk_status look(lki_comm *g, waiting *w, bool *done)
{
    *done = g->waited >= w->given;
    if (g->why.code != LK_OK) return known_failure(g);
    if (*done) return LK_OK;
    const int state = g->by->done(g->side, &w->late);
    if (state < 0) return failed(g, LK_EDEVICE);
    *done = state;
    if (*done) g->waited = lki_max(g->waited, w->given);
    if (*done || !w->deadline || lki_nanoseconds() <= w->deadline) return LK_OK;
    LKI_TRY(check(g));
    return too_late(g, w);
}

/* Spins for a while, then sleeps for moments, which matter little to a thread that waits for so long. */
static void nap(int64_t began)
{
    const int64_t passed = lki_nanoseconds() - began;
    if (passed < 200 * 1000) return;
    if (passed < 20 * 1000 * 1000) sched_yield();
    else nanosleep(&(struct timespec){.tv_nsec = 100 * 1000}, NULL);
}

static waiting waiting_for(const lki_comm *g, double seconds)
{
    const int64_t now = lki_nanoseconds();
    const bool    ends = seconds > 0 && seconds < 1e9;
    return (waiting){seconds, now, ends ? now + (int64_t)(seconds * 1e9) : 0, g->given, UINT64_MAX};
}

static lk_status wait_within(lki_comm *g, double seconds)
{
    lki_mutex_take(&g->lock);
    waiting         w = waiting_for(g, seconds);
    lki_bell *const bell = g->by->bell ? g->by->bell(g->side) : NULL;
    for (bool done = false;;) {
        const unsigned  rings = bell ? __atomic_load_n(&bell->rings, __ATOMIC_SEQ_CST) : 0;
        const lk_status status = look(g, &w, &done);
        lki_mutex_give(&g->lock);
        if (status != LK_OK || done) return status;
        if (bell) lki_wait_while(&bell->rings, rings, &bell->sleepers, lki_spins_for(g->is.members), w.deadline);
        else nap(w.began);
        lki_mutex_take(&g->lock);
    }
}

lk_status lki_comm_wait(lki_comm *g) { return wait_within(g, g->seconds); }

void lki_comm_gave(lki_comm *g)
{
    LKI_HOLD(&g->lock);
    g->given++;
}

/* ---- exchanges ---- */

static lk_status post(lki_comm *g, int count, const lki_transfer *transfers, bool beside)
{
    LKI_HOLD(&g->lock);
    LKI_TRY(check(g));
    g->given++;
    const lk_status status =
        g->by->post ? g->by->post(g->side, count, transfers, beside) : lki_messages_post(g->by, g->side, &g->is, count, transfers);
    return status == LK_OK ? LK_OK : failed(g, status);
}

/* Threads that wait for a device of the group wait for its bond first. */
static void watch(const lki_comm *g, bool yes)
{
    for (int i = 0; i < g->is.here; i++)
        if (g->device[i]->ops->watch) g->device[i]->ops->watch(g->device[i], &g->bond, yes);
}

/* What is to be sent is made before a carrier reads it that knows nothing of the order of work. */
static lk_status settle(const lki_comm *g)
{
    for (int i = 0; i < g->is.here; i++)
        if (g->device[i]->ops->settle) LKI_TRY(g->device[i]->ops->settle(g->device[i], LKI_ALL_WORK));
    return LK_OK;
}

lk_status lki_comm_exchange(lki_comm *g, int count, const lki_transfer *transfers, bool beside)
{
    const bool ordered = g->by->ordered;
    if (ordered) watch(g, true);
    else LKI_TRY(settle(g));
    LKI_TRY(post(g, count, transfers, beside));
    return ordered || beside ? LK_OK : wait_within(g, g->seconds);
}

void lki_comm_abort(lki_comm *g)
{
    lki_error_record cause;
    lki_error_take(&cause);
    if (cause.code == LK_OK) cause = (lki_error_record){LK_EPEER, "it gave up"};
    else lki_error_put(&cause);
    LKI_HOLD(&g->lock);
    wait_for_abort(g);
    if (g->why.code != LK_OK) return;
    g->why = cause;
    abort_side(g, cause.code, cause.text);
}

bool            lki_comm_sums(const lki_comm *g) { return g->by->sums; }
const char     *lki_comm_words(const lki_comm *g) { return g->by->words; }
const lki_bond *lki_comm_token(const lki_comm *g) { return &g->bond; }

/* ---- opening ---- */

static bool suits(const lki_comm *g, const lki_carrier *c)
{
    bool fits = (c->apart || all_are_here(g)) && !(g->no_nccl && c == &lki_nccl_carrier);
    for (int i = 0; i < g->is.here; i++)
        fits = fits && (c->memory & (lki_on_host(g->device[i]) ? LKI_CARRIES_HOST : LKI_CARRIES_CARDS));
    return fits;
}

static lk_status carry(void *of, int count, const lki_transfer *transfers)
{
    LKI_TRY(post(of, count, transfers, false));
    return wait_within(of, SECONDS_TO_OPEN);
}

static void close_side(lki_comm *g)
{
    if (g->side) g->by->close(g->side);
    g->side = NULL;
}

static lk_status try_carrier(lki_comm *g, const lki_carrier *c, char why[LKI_CARRIER_WHY])
{
    g->by = c;
    g->why = (lki_error_record){0};
    why[0] = 0;
    lk_status status = c->open(&g->is, &g->side, why);
    if (status != LK_OK && !why[0]) lki_text_print(why, LKI_CARRIER_WHY, "%s", lk_error());
    LKI_TRY(status);
    if ((status = lki_carrier_test(&g->is, carry, g, why)) == LK_OK) return LK_OK;
    if (status != LK_ENOMEM)
        lki_warn("%d members are not linked by %s, which failed a self-test: %s", g->is.members, c->words, why);
    c->abort(g->side, status, why);
    close_side(g);
    return status;
}

/* "not by NCCL: simulated cards have none; nor by ..." */
static void add_reason(char *words, size_t room, const lki_carrier *c, const char *why, bool same_as_before)
{
    if (same_as_before) lki_text_more(words, room, "; nor by %s", c->words);
    else lki_text_more(words, room, "%snot by %s: %s", words[0] ? "; " : "", c->words, why);
}

/* The first carrier that works. `words`: why others do not. */
static lk_status try_all(lki_comm *g, char *words, size_t room)
{
    const lki_carrier *const first = __atomic_load_n(&first_carrier, __ATOMIC_ACQUIRE);
    lk_status                status = LK_EUNSUPPORTED;
    char                     why[LKI_CARRIER_WHY] = "", before[LKI_CARRIER_WHY] = "";
    words[0] = 0;
    for (int i = -1; i < LKI_COUNT(table); i++) {
        const lki_carrier *c = i < 0 ? first : table[i];
        if (!c || !suits(g, c)) continue;
        status = try_carrier(g, c, why);
        lk_clear_error();
        if (status == LK_OK) return LK_OK;
        add_reason(words, room, c, why, words[0] && !strcmp(why, before));
        memcpy(before, why, sizeof before);
    }
    if (!words[0]) lki_text_print(words, room, "no carrier reaches them and their memory");
    return status;
}

static lk_status open_comm(lki_comm *g)
{
    char             words[900];
    lki_error_record before;
    lki_error_take(&before);
    const lk_status status = try_all(g, words, sizeof words);
    const char     *by = g->by ? g->by->words : "";
    if (status == LK_OK && words[0]) lki_info("%d members are linked by %s; %s", g->is.members, by, words);
    else if (status == LK_OK) lki_tell(LKI_TOPIC_PLAN, "%d members are linked by %s", g->is.members, by);
    else {
        lki_fail(status, "%d members could not be linked: %s", g->is.members, words);
        lki_error_take(&g->why);
    }
    if (before.code != LK_OK) lki_error_put(&before);
    if (status != LK_OK) lki_error_put(&g->why);
    return status;
}

/* ---- the list ---- */

static bool bond_holds(void *of)
{
    lki_comm *g = of;
    int       refs = __atomic_load_n(&g->refs, __ATOMIC_RELAXED);
    while (refs && !__atomic_compare_exchange_n(&g->refs, &refs, refs + 1, true, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {}
    return refs > 0;
}

static lk_status bond_wait(void *of) { return lki_comm_wait(of); }
static void      bond_drop(void *of) { lki_comm_drop(of); }

static lki_comm *comm_new(const lki_comm_args *a)
{
    lki_comm *g = lki_zalloc(sizeof *g);
    if (!g) return NULL;
    g->refs = 1 + (a->owner != NULL);
    g->owner = a->owner;
    memcpy(g->device, a->device, (size_t)a->here * sizeof *a->device);
    g->is = (lki_carrier_args){a->members, a->first, a->here, g->device, a->meeting, a->seconds > 0 ? a->seconds : SECONDS_TO_OPEN};
    g->seconds = a->seconds;
    g->no_nccl = a->no_nccl;
    g->bond = (lki_bond){g, bond_holds, bond_wait, bond_drop};
    g->opening = true;
    lki_mutex_init(&g->lock);
    lki_condition_init(&g->finished);
    return g;
}

static void comm_free(lki_comm *g)
{
    watch(g, false);
    close_side(g);
    lki_condition_destroy(&g->finished);
    lki_mutex_destroy(&g->lock);
    lki_release(g);
}

static bool is_of(const lki_comm *g, const lki_comm_args *a)
{
    bool same = g->owner == a->owner && g->is.members == a->members && g->is.first == a->first && g->is.here == a->here &&
                g->is.meeting == a->meeting && g->no_nccl == a->no_nccl && g->seconds == a->seconds;
    for (int i = 0; i < a->here && same; i++)
        same = lki_same_memory(g->device[i], a->device[i]);
    return same && a->owner;
}

/* With the list's lock held: out of the list, if that was the last reference. Then it is to be freed without the lock. */
static bool was_last(lki_comm *g)
{
    if (__atomic_sub_fetch(&g->refs, 1, __ATOMIC_ACQ_REL)) return false;
    lki_comm **at = &list;
    while (*at != g)
        at = &(*at)->next;
    *at = g->next;
    return true;
}

/* With the list's lock held. *mine: it is new, and the caller opens it. NULL and an error. */
static lki_comm *find(const lki_comm_args *a, bool *mine)
{
    lki_comm *g = list;
    while (g && !is_of(g, a))
        g = g->next;
    *mine = !g;
    if (g) __atomic_add_fetch(&g->refs, 1, __ATOMIC_RELAXED);
    else if ((g = comm_new(a))) {
        g->next = list;
        list = g;
    }
    return g;
}

void lki_comm_drop(lki_comm *g)
{
    if (!g) return;
    lki_mutex_take(&list_lock);
    const bool last = was_last(g);
    lki_mutex_give(&list_lock);
    if (last) comm_free(g);
}

/* The owner's reference to the first of its groups, or to this one; false: there is none. */
static bool forget(const void *owner, const lki_comm *only)
{
    lki_mutex_take(&list_lock);
    lki_comm *g = list;
    while (g && (g->owner != owner || (only && g != only)))
        g = g->next;
    if (g) g->owner = NULL;
    const bool last = g && was_last(g);
    lki_mutex_give(&list_lock);
    if (last) comm_free(g);
    return g;
}

void lki_comms_forget(const void *owner)
{
    while (owner && forget(owner, NULL)) {}
}

static lk_status open_first(lki_comm *g, const void *owner)
{
    const lk_status status = open_comm(g);
    lki_mutex_take(&g->lock);
    g->opening = false;
    lki_condition_tell_all(&g->finished);
    lki_mutex_give(&g->lock);
    if (status != LK_OK && owner) forget(owner, g);
    return status;
}

/* Another thread opens it. */
static lk_status wait_until_open(lki_comm *g)
{
    LKI_HOLD(&g->lock);
    while (g->opening)
        lki_condition_wait(&g->finished, &g->lock);
    return g->side ? LK_OK : known_failure(g);
}

static lk_status check_args(const lki_comm_args *a)
{
    if (a->members < 2 || a->members > LKI_MOST_MEMBERS)
        return lki_fail(LK_EINVAL, "%d cards or processes to be linked; 2 to %d are possible", a->members, LKI_MOST_MEMBERS);
    if (a->first < 0 || a->here < 1 || a->here > a->members - a->first)
        return lki_fail(LK_EINVAL, "members %d to %d of %d to be linked here; they are numbered from 0", a->first,
                        a->first + a->here - 1, a->members);
    return LK_OK;
}

lki_comm *lki_comm_open(const lki_comm_args *a)
{
    bool mine;
    if (check_args(a) != LK_OK) return NULL;
    lki_mutex_take(&list_lock);
    lki_comm *g = find(a, &mine);
    lki_mutex_give(&list_lock);
    if (g && (mine ? open_first(g, a->owner) : wait_until_open(g)) == LK_OK) return g;
    lki_comm_drop(g);
    return NULL;
}
