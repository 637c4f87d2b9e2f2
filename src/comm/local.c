/* The carrier `local`: the members are in one process and each side has a thread of its own, which may copy from the memory of all.
 *
 * The sides meet in a room. Each has a seat there, with a list of what it posted. When all have posted exchange k, every side
 * carries its part of it, from all src to its own dst; of a sum it adds one slice, for all. When all have done so, exchange k is
 * complete.
 *
 *     side 0   post k ......... carry . . complete
 *     side 1   . . . . post k . carry ... complete         the carrier has no thread; post() and done() carry
 *
 * Invariants
 * 1. The room's lock guards all of it. Bytes are copied without the lock; `copying` counts the threads that do.
 * 2. A room breaks once, with the first cause, and stays broken. In a broken room no copy begins. abort() and close() return, and
 *    done() says that it failed, when none is under way any more: afterwards a side may free its buffers.
 * 3. What is complete stays so. A side that ends breaks the room for the others, which may not have seen yet that their last
 *    exchange is complete.
 * 4. A room is on the list from the first side's arrival until the last one's, or until a deadline passes: sides that come later
 *    meet in another room. The list's lock is taken before the room's.
 * 5. A sum adds the members in order, whichever thread adds: dst = ((src 0 + src 1) + src 2) + ... */
#include "comm/inside.h"
#include "core/lock.h"
#include "core/memory.h"
#include "core/names.h"
#include "core/number.h"
#include "core/rounding.h"
#include <string.h>

typedef struct posted {
    int                 count;
    const lki_transfer *transfers;
} posted;

typedef struct room room;

typedef struct seat { /* a side */
    room   *in;
    int     first, here; /* here = 0: it is free */
    int64_t posted, finished;
    posted *list; /* exchange k, which is not complete, at k % places */
    int     places;
} seat;

struct room {
    room         *next;
    const void   *meeting;
    int           members, sides, present; /* sides that have not ended; members that have come */
    seat          seat[LKI_MOST_MEMBERS];  /* of a side, by its first member */
    int           side_of[LKI_MOST_MEMBERS];
    lki_mutex     lock;
    lki_condition still; /* nothing is being copied any more */
    int           copying;
    lki_bell      bell; /* rings at whatever done() depends on */
    lk_status     broken;
    char          why[LKI_CARRIER_WHY];
};

static room *list;
LKI_MUTEX(list_lock);

/* The next side from member *m on, which is left after it; NULL: there is none. */
static seat *next_seat(room *r, int *m)
{
    while (*m < r->members && !r->seat[*m].here)
        ++*m;
    return *m < r->members ? &r->seat[(*m)++] : NULL;
}

/* ---- breaking; with the lock held ---- */

static void break_room(room *r, lk_status code, const char *why)
{
    if (r->broken == LK_OK) {
        r->broken = code;
        lki_text_print(r->why, sizeof r->why, "%s", why);
    }
    lki_bell_ring(&r->bell);
}

static void break_because_of(const seat *s, lk_status code, const char *what)
{
    char why[LKI_CARRIER_WHY];
    lki_members_text(s->first, s->here, why, sizeof why);
    lki_text_more(why, sizeof why, "%s", what);
    break_room(s->in, code, why);
}

static void wait_until_still(room *r)
{
    while (r->copying)
        lki_condition_wait(&r->still, &r->lock);
}

/* ---- do all post the same? ---- */

static const posted *exchange_of(const seat *s, int64_t k) { return &s->list[k % s->places]; }

static bool same_transfer(const lki_transfer *a, const lki_transfer *b)
{
    return a->kind == b->kind && a->bytes == b->bytes && (a->kind != LKI_CARRY_SUM || a->dtype == b->dtype);
}

/* The first transfer in which they differ; -1: none. */
static int difference(const posted *a, const posted *b)
{
    const int shorter = (int)lki_min(a->count, b->count);
    for (int i = 0; i < shorter; i++)
        if (!same_transfer(&a->transfers[i], &b->transfers[i])) return i;
    return a->count == b->count ? -1 : shorter;
}

static int count_equal(room *r, int64_t k, const seat *to)
{
    int   count = 0;
    seat *s;
    for (int at = 0; (s = next_seat(r, &at));)
        count += difference(exchange_of(s, k), exchange_of(to, k)) < 0;
    return count;
}

/* What most sides posted; the first ones where as many posted something else. */
static const seat *usual(room *r, int64_t k)
{
    const seat *best = NULL;
    seat       *s;
    int         most = 0;
    for (int at = 0; (s = next_seat(r, &at));)
        if (count_equal(r, k, s) > most) {
            most = count_equal(r, k, s);
            best = s;
        }
    return best;
}

static const char *describe(const posted *p, int i, char text[96])
{
    static const char *const names[] = {"gather", "swap", "sum"};
    if (i >= p->count) return "none";
    const lki_transfer *t = &p->transfers[i];
    lki_text_print(text, 96, "a %s of %zu bytes", names[t->kind], t->bytes);
    if (t->kind == LKI_CARRY_SUM) lki_text_more(text, 96, " of %s", lk_dtype_name(t->dtype));
    return text;
}

static void break_because_different(const seat *s, const seat *others, int64_t k)
{
    const posted *a = exchange_of(s, k), *b = exchange_of(others, k);
    const int     i = difference(a, b);
    char          what[LKI_CARRIER_WHY], own[96], usual_one[96], name[48];
    lki_members_text(others->first, others->here, name, sizeof name);
    lki_text_print(what, sizeof what, " posted %s as transfer %d of an exchange, and %s posted %s; all must post the same",
                   describe(a, i, own), i, name, describe(b, i, usual_one));
    break_because_of(s, LK_ESTATE, what);
}

/* Exchange k was posted by all. */
static void compare(room *r, int64_t k)
{
    seat *s, *first = NULL;
    bool  same = true;
    for (int at = 0; (s = next_seat(r, &at));) {
        if (!first) first = s;
        same = same && difference(exchange_of(s, k), exchange_of(first, k)) < 0;
    }
    const seat *as_usual = same ? NULL : usual(r, k);
    for (int at = 0; (s = next_seat(r, &at));)
        if (!same && difference(exchange_of(s, k), exchange_of(as_usual, k)) >= 0) {
            break_because_different(s, as_usual, k);
            return;
        }
}

/* ---- carrying; without the lock ---- */

typedef struct crossing { /* an exchange that all have posted */
    const room         *in;
    const seat         *by;                      /* the side that carries its part */
    const lki_transfer *all[LKI_MOST_MEMBERS];   /* by member: the transfers of its side */
    int                 first[LKI_MOST_MEMBERS]; /* of its side */
    int                 count;
} crossing;

static const char *src_of(const crossing *x, int t, int m) { return x->all[m][t].src[m - x->first[m]]; }
static char       *dst_of(const crossing *x, int t, int m) { return x->all[m][t].dst[m - x->first[m]]; }

/* `skip`: the distance of the pieces for two neighbours. */
static void copy_pieces(const crossing *x, int t, size_t bytes, size_t skip)
{
    for (int to = x->by->first; to < x->by->first + x->by->here && bytes; to++)
        for (int from = 0; from < x->in->members; from++) {
            const char *src = src_of(x, t, from) + skip * (size_t)to;
            char       *dst = dst_of(x, t, to) + bytes * (size_t)from;
            if (src != dst) memcpy(dst, src, bytes);
        }
}

static void gather(const crossing *x, int t, const lki_transfer *of) { copy_pieces(x, t, of->bytes, 0); }
static void swap(const crossing *x, int t, const lki_transfer *of) { copy_pieces(x, t, of->bytes, of->bytes); }

#define ADD(T)                                                                                                                     \
    static void add_##T(const crossing *x, int t, size_t from, size_t end)                                                         \
    {                                                                                                                              \
        for (size_t k = from; k < end; k++) {                                                                                      \
            T sum = ((const T *)(const void *)src_of(x, t, 0))[k];                                                                 \
            for (int m = 1; m < x->in->members; m++)                                                                               \
                sum += ((const T *)(const void *)src_of(x, t, m))[k];                                                              \
            for (int m = 0; m < x->in->members; m++)                                                                               \
                ((T *)(void *)dst_of(x, t, m))[k] = sum;                                                                           \
        }                                                                                                                          \
    }
ADD(float)
ADD(double)

/* A dst may be a src: so one side reads and writes a slice of everything, which no other side touches. */
static void sum(const crossing *x, int t, const lki_transfer *of)
{
    const bool   wide = of->dtype == LK_F64;
    const size_t count = of->bytes / (wide ? sizeof(double) : sizeof(float)), n = (size_t)x->in->members;
    const size_t before = (size_t)x->by->first, after = before + (size_t)x->by->here;
    LKI_NEAREST;
    (wide ? add_double : add_float)(x, t, count * before / n, count * after / n);
}

static void (*const CARRY[])(const crossing *, int,
                             const lki_transfer *) = {[LKI_CARRY_GATHER] = gather, [LKI_CARRY_SWAP] = swap, [LKI_CARRY_SUM] = sum};

static void carry(const crossing *x)
{
    for (int t = 0; t < x->count; t++)
        CARRY[x->all[x->by->first][t].kind](x, t, &x->all[x->by->first][t]);
}

/* ---- exchanges; with the lock held ---- */

static crossing crossing_of(seat *s, int64_t k)
{
    crossing x = {.in = s->in, .by = s, .count = exchange_of(s, k)->count};
    for (int m = 0; m < s->in->members; m++) {
        const seat *of = &s->in->seat[s->in->side_of[m]];
        x.all[m] = exchange_of(of, k)->transfers;
        x.first[m] = of->first;
    }
    return x;
}

/* Exchanges that all have posted, and that all have finished. */
static int64_t posted_by_all(room *r)
{
    int64_t least = INT64_MAX;
    seat   *s;
    for (int at = 0; (s = next_seat(r, &at));)
        least = lki_min(least, s->posted);
    return least;
}

static int64_t complete(room *r)
{
    int64_t least = INT64_MAX;
    seat   *s;
    for (int at = 0; (s = next_seat(r, &at));)
        least = lki_min(least, s->finished);
    return least;
}

/* The lock is given back while bytes are copied. */
static void carry_all(seat *s)
{
    room *r = s->in;
    while (r->broken == LK_OK && s->finished < posted_by_all(r)) {
        const crossing x = crossing_of(s, s->finished);
        r->copying++;
        lki_mutex_give(&r->lock);
        carry(&x);
        lki_mutex_take(&r->lock);
        s->finished++;
        if (!--r->copying) lki_condition_tell_all(&r->still);
        lki_bell_ring(&r->bell);
    }
}

/* Room for one more exchange that is not complete. */
static bool make_place(seat *s)
{
    const int64_t begin = complete(s->in);
    if (s->posted - begin < s->places) return true;
    const int places = 2 * s->places;
    posted   *more = lki_alloc_array(places, sizeof *more);
    if (!more) return false;
    for (int64_t k = begin; k < s->posted; k++)
        more[k % places] = *exchange_of(s, k);
    lki_release(s->list);
    s->list = more;
    s->places = places;
    return true;
}

static lk_status post_here(seat *s, int count, const lki_transfer *transfers)
{
    room *r = s->in;
    if (r->broken != LK_OK) return r->broken;
    if (!make_place(s)) return LK_ENOMEM;
    s->list[s->posted % s->places] = (posted){count, transfers};
    s->posted++;
    if (posted_by_all(r) == s->posted) compare(r, s->posted - 1);
    lki_bell_ring(&r->bell);
    carry_all(s);
    return LK_OK;
}

static lk_status post(void *side, int count, const lki_transfer *transfers, bool beside)
{
    seat *s = side;
    (void)beside;
    LKI_HOLD(&s->in->lock);
    return post_here(s, count, transfers);
}

/* The sides that have not posted what this side waits for; else those that have not finished it. */
static uint64_t members_late(const seat *s)
{
    const bool all_posted = posted_by_all(s->in) >= s->posted;
    uint64_t   late = 0;
    seat      *other;
    for (int at = 0; (other = next_seat(s->in, &at));)
        for (int m = other->first; m < other->first + other->here; m++)
            if ((all_posted ? other->finished : other->posted) < s->posted) late |= (uint64_t)1 << m;
    return late;
}

static int done(void *side, uint64_t *late)
{
    seat *s = side;
    room *r = s->in;
    LKI_HOLD(&r->lock);
    carry_all(s);
    const bool finished = complete(r) >= s->posted;
    const int  state = finished ? 1 : r->broken != LK_OK && !r->copying ? -1 : 0;
    *late = finished ? 0 : members_late(s);
    return state;
}

static lki_bell *bell(void *side) { return &((seat *)side)->in->bell; }

static lk_status check(void *side, char why[LKI_CARRIER_WHY])
{
    room *r = ((seat *)side)->in;
    LKI_HOLD(&r->lock);
    if (r->broken != LK_OK) lki_text_print(why, LKI_CARRIER_WHY, "%s", r->why);
    return r->broken;
}

/* ---- ending ---- */

static void abort_side(void *side, lk_status code, const char *why)
{
    seat *s = side;
    char  what[LKI_CARRIER_WHY];
    lki_text_print(what, sizeof what, " failed: %s", why);
    LKI_HOLD(&s->in->lock);
    break_because_of(s, code, what);
    wait_until_still(s->in);
}

static void room_free(room *r)
{
    for (int m = 0; m < r->members; m++)
        lki_release(r->seat[m].list);
    lki_condition_destroy(&r->still);
    lki_mutex_destroy(&r->lock);
    lki_release(r);
}

static void close_side(void *side)
{
    seat *s = side;
    room *r = s->in;
    lki_mutex_take(&r->lock);
    break_because_of(s, LK_EPEER, " ended");
    wait_until_still(r);
    const bool last = --r->sides == 0;
    lki_mutex_give(&r->lock);
    if (last) room_free(r);
}

/* ---- opening ---- */

static room *room_new(const lki_carrier_args *a)
{
    room *r = lki_zalloc(sizeof *r);
    if (!r) return NULL;
    r->meeting = a->meeting;
    r->members = a->members;
    lki_mutex_init(&r->lock);
    lki_condition_init(&r->still);
    return r;
}

static lk_status take_seat(room *r, const lki_carrier_args *a, seat **side)
{
    seat *s = &r->seat[a->first];
    s->places = 4;
    if (!(s->list = lki_alloc_array(s->places, sizeof *s->list))) return LK_ENOMEM;
    s->in = r;
    s->first = a->first;
    s->here = a->here;
    for (int m = a->first; m < a->first + a->here; m++)
        r->side_of[m] = a->first;
    r->sides++;
    r->present += a->here;
    *side = s;
    return LK_OK;
}

/* The first of these members that has come already; -1: none. */
static int there_already(room *r, const lki_carrier_args *a)
{
    seat *s;
    for (int at = 0; (s = next_seat(r, &at));)
        if (s->first < a->first + a->here && a->first < s->first + s->here) return (int)lki_max(s->first, a->first);
    return -1;
}

/* ---- the list; with its lock and the room's held ---- */

static void off_list(room *r)
{
    room **at = &list;
    while (*at && *at != r)
        at = &(*at)->next;
    if (*at) *at = r->next;
}

static lk_status enter(room *r, const lki_carrier_args *a, seat **side, char why[LKI_CARRIER_WHY])
{
    const int twice = there_already(r, a);
    if (twice >= 0) {
        lki_text_print(why, LKI_CARRIER_WHY, "member %d has come already", twice);
        return LK_EINVAL;
    }
    LKI_TRY(take_seat(r, a, side));
    if (r->present == r->members) off_list(r);
    lki_bell_ring(&r->bell);
    return LK_OK;
}

/* With the list's lock held: where its sides meet; NULL: there is no memory. *fresh: no side knows it yet. */
static room *find_room(const lki_carrier_args *a, bool *fresh)
{
    room *r = a->meeting ? list : NULL;
    while (r && (r->meeting != a->meeting || r->members != a->members))
        r = r->next;
    *fresh = !r;
    if (r || !(r = room_new(a))) return r;
    r->next = list;
    list = r;
    return r;
}

static lk_status join(const lki_carrier_args *a, seat **side, char why[LKI_CARRIER_WHY])
{
    bool fresh;
    lki_mutex_take(&list_lock);
    room     *r = find_room(a, &fresh);
    lk_status status = LK_ENOMEM;
    if (r) {
        lki_mutex_take(&r->lock);
        status = enter(r, a, side, why);
        if (status != LK_OK && fresh) off_list(r);
        lki_mutex_give(&r->lock);
        if (status != LK_OK && fresh) room_free(r);
    }
    lki_mutex_give(&list_lock);
    return status;
}

/* The deadline passed. */
static void give_up(room *r, double seconds)
{
    char why[LKI_CARRIER_WHY] = "";
    lki_mutex_take(&list_lock);
    lki_mutex_take(&r->lock);
    for (int m = 0, n = 0; m < r->members; m++) {
        const seat *s = &r->seat[r->side_of[m]];
        if (m < s->first + s->here && s->here) continue;
        lki_text_more(why, sizeof why, "%smember %d", n++ ? ", " : "", m);
    }
    char within[64];
    lki_format(within, sizeof within, " did not come within %g seconds", seconds);
    lki_text_more(why, sizeof why, "%s", within);
    if (r->present < r->members && r->broken == LK_OK) {
        off_list(r);
        break_room(r, LK_EDEADLINE, why);
    }
    lki_mutex_give(&r->lock);
    lki_mutex_give(&list_lock);
}

/* Have all come? 1: yes; 0: no; -1: the room is broken. */
static int all_came(room *r)
{
    LKI_HOLD(&r->lock);
    return r->broken != LK_OK ? -1 : r->present == r->members;
}

static int wait_for_all(room *r, double seconds)
{
    const int64_t deadline = seconds > 0 && seconds < 1e9 ? lki_nanoseconds() + (int64_t)(seconds * 1e9) : 0;
    for (;;) {
        const unsigned rings = __atomic_load_n(&r->bell.rings, __ATOMIC_SEQ_CST);
        const int      state = all_came(r);
        if (state) return state;
        if (!lki_wait_while(&r->bell.rings, rings, &r->bell.sleepers, 0, deadline)) give_up(r, seconds);
    }
}

static lk_status open_local(const lki_carrier_args *a, void **side, char why[LKI_CARRIER_WHY])
{
    seat *s = NULL;
    if (!a->meeting && a->here < a->members) {
        lki_text_print(why, LKI_CARRIER_WHY, "its sides have no meeting, by which they find each other");
        return LK_EINVAL;
    }
    LKI_TRY(join(a, &s, why));
    if (wait_for_all(s->in, a->seconds) > 0) {
        *side = s;
        return LK_OK;
    }
    const lk_status code = check(s, why);
    close_side(s);
    return code;
}

const lki_carrier lki_local_carrier = {.name = "local",
                                       .words = "memory of one process",
                                       .memory = LKI_CARRIES_HOST,
                                       .apart = true,
                                       .sums = true,
                                       .open = open_local,
                                       .post = post,
                                       .done = done,
                                       .bell = bell,
                                       .check = check,
                                       .abort = abort_side,
                                       .close = close_side};
