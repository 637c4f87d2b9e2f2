/* Opening, trying, watching and closing links between cards. */
#include "device/gpu/linked.h"
#include "core/lock.h"
#include "core/log.h"
#include "core/memory.h"
#include "core/number.h"
#include "core/thread.h"
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { TEST_BYTES = 4096, TIME_TO_OPEN = 30 };

struct lki_linked {
    int                  refs; /* atomic, and the last one goes under list_lock; one is the owner's */
    lki_linked          *next;
    const void          *owner; /* NULL: forgotten */
    int                  count;
    lki_device          *device[LKI_GPU_MOST_CARDS];
    const lki_gpu_line  *line[LKI_GPU_MOST_CARDS];
    const lki_gpu_links *way_of; /* the backend's functions */
    bool                 no_nccl;
    double               seconds;
    lki_mutex            lock;  /* of what follows, and of every call of the backend with `links` */
    void                *links; /* NULL: given up */
    lki_gpu_way          way;
    int64_t              given, waited; /* exchanges; those before which somebody has waited */
    lki_error_record     why;           /* they were given up */
};

static lki_linked *list;
LKI_TURN(list_lock);

static const char *const way_names[LKI_WAYS] = {"NCCL", "copies between them", "copies through the host"};

/* ---- giving up ---- */

static void names_of(const lki_linked *l, char *text, size_t room)
{
    size_t used = 0;
    for (int i = 0; i < l->count && used < room; i++)
        used += (size_t)snprintf(text + used, room - used, "%s%s", i ? ", " : "", l->device[i]->name);
}

/* With the lock held: everybody is released, and told this from now on. */
static lk_status give_up(lki_linked *l, lk_status code, const char *what)
{
    char names[256];
    names_of(l, names, sizeof names);
    if (l->links) l->way_of->close(l->links, 1);
    l->links = NULL;
    l->why.code = code;
    snprintf(l->why.text, sizeof l->why.text, "%s, linked by %s: %s", names, way_names[l->way], what);
    lki_error_put(&l->why);
    return code;
}

static lk_status told_before(const lki_linked *l)
{
    lki_error_put(&l->why);
    return l->why.code;
}

/* With the lock held: the card's own words for it are what everybody is told. */
static lk_status work_failed(lki_linked *l, int i, int code)
{
    char text[LKI_GPU_WORDS];
    lki_gpu_words(l->device[i], "an exchange", code, text);
    return give_up(l, LK_EDEVICE, text);
}

/* With the lock held: links failed. Because a card did? */
static lk_status links_failed(lki_linked *l, const char *what)
{
    for (int i = 0; i < l->count; i++) {
        const int state = l->way_of->idle(l->links, i);
        if (state < 0) return work_failed(l, i, -state);
    }
    return give_up(l, LK_EDEVICE, what);
}

/* With the lock held: did anything go wrong meanwhile? */
static lk_status check(lki_linked *l)
{
    char why[LKI_LINKS_WHY] = "";
    if (!l->links) return told_before(l);
    return l->way_of->check(l->links, why) ? links_failed(l, why) : LK_OK;
}

/* ---- waiting ---- */

/* With the lock held: the first card that is at work from card i on; l->count: none. All of them are asked: one that is at work may
 * wait for one that failed. */
static lk_status first_busy(lki_linked *l, int *i)
{
    int busy = l->count;
    for (int k = l->count - 1; k >= *i; k--) {
        const int state = l->way_of->idle(l->links, k);
        if (state == 0) busy = k;
        if (state < 0) return work_failed(l, k, -state);
    }
    *i = busy;
    return LK_OK;
}

static lk_status too_late(lki_linked *l, int first, double seconds)
{
    char   text[400];
    size_t used = (size_t)lki_format(text, sizeof text, "the deadline of %g seconds passed; still at work:", seconds);
    for (int i = first; i < l->count && used < sizeof text; i++)
        if (l->way_of->idle(l->links, i) == 0) used += (size_t)snprintf(text + used, sizeof text - used, " %s", l->device[i]->name);
    return give_up(l, LK_EDEADLINE, text);
}

/* Spins for a while, then naps: whoever waits that long does not mind. */
static void rest(int64_t began)
{
    const int64_t passed = lki_nanoseconds() - began;
    if (passed < 200 * 1000) return;
    if (passed < 20 * 1000 * 1000) sched_yield();
    else nanosleep(&(struct timespec){.tv_nsec = 100 * 1000}, NULL);
}

static lk_status wait_within(lki_linked *l, double seconds)
{
    const int64_t began = lki_nanoseconds(), deadline = seconds > 0 && seconds < 1e9 ? began + (int64_t)(seconds * 1e9) : INT64_MAX;
    lk_status     status = LK_OK;
    for (int at = 0;;) {
        lki_mutex_take(&l->lock);
        const int64_t given = l->given;
        if (status == LK_OK) status = check(l);
        if (status == LK_OK) status = first_busy(l, &at);
        const bool done = status != LK_OK || at == l->count;
        if (done && status == LK_OK) l->waited = given;
        if (!done && lki_nanoseconds() > deadline) status = too_late(l, at, seconds);
        lki_mutex_give(&l->lock);
        if (done || status != LK_OK) return status;
        rest(began);
    }
}

lk_status lki_linked_wait(lki_linked *l)
{
    lki_mutex_take(&l->lock);
    const bool      nothing = l->links && l->given == l->waited;
    const lk_status status = l->links ? LK_OK : told_before(l);
    lki_mutex_give(&l->lock);
    return nothing || status != LK_OK ? status : wait_within(l, l->seconds);
}

/* ---- the self-test ---- */

static unsigned char pattern(int card, int k) { return (unsigned char)(card * 89 + k * 7 + k / 256 * 31 + 1); }

/* Memory of each card: what it gives, room for all that everybody gives, and for a piece of it. */
typedef struct trial {
    void *src[LKI_GPU_MOST_CARDS], *all[LKI_GPU_MOST_CARDS], *pieces[LKI_GPU_MOST_CARDS];
} trial;

static int trial_begin(const lki_linked *l, trial *t, size_t bytes)
{
    unsigned char given[TEST_BYTES];
    int           code = 0;
    memset(t, 0, sizeof *t);
    for (int i = 0; i < l->count && !code; i++) {
        const lki_gpu_line    *at = l->line[i];
        const lki_gpu_backend *b = at->backend;
        for (int k = 0; k < TEST_BYTES; k++)
            given[k] = pattern(i, k);
        code = b->alloc(at->card, bytes, &t->src[i]);
        if (!code) code = b->alloc(at->card, bytes * (size_t)l->count, &t->all[i]);
        if (!code) code = b->alloc(at->card, bytes, &t->pieces[i]);
        if (!code) code = b->zero(at->card, at->stream, t->all[i], bytes * (size_t)l->count);
        if (!code) code = b->zero(at->card, at->stream, t->pieces[i], bytes);
        if (!code) code = b->write(at->card, at->stream, t->src[i], given, bytes);
    }
    return code;
}

static void trial_end(const lki_linked *l, trial *t)
{
    for (int i = 0; i < l->count; i++) {
        void *const mem[] = {t->src[i], t->all[i], t->pieces[i]};
        for (int k = 0; k < LKI_COUNT(mem); k++)
            if (mem[k]) l->line[i]->backend->release(l->line[i]->card, mem[k]);
    }
}

/* Does card `to` have, at dst, `bytes` of each card from byte `to` * step on? */
static int compare(const lki_linked *l, const void *dst, int to, size_t step, size_t bytes, char *why)
{
    unsigned char       got[TEST_BYTES];
    const lki_gpu_line *at = l->line[to];
    for (int from = 0; from < l->count; from++) {
        const int code = at->backend->read(at->card, at->stream, got, (const char *)dst + bytes * (size_t)from, bytes);
        if (code) snprintf(why, LKI_LINKS_WHY, "%.150s", at->backend->text(code));
        if (code) return code;
        for (size_t k = 0; k < bytes; k++)
            if (got[k] != pattern(from, (int)(k + step * (size_t)to))) {
                snprintf(why, LKI_LINKS_WHY, "in a self-test what %s sent did not arrive on %s", l->device[from]->name,
                         l->device[to]->name);
                return -1;
            }
    }
    return 0;
}

/* Patterns are sent around all cards and compared. What goes wrong is a reason, not an error. */
static bool self_test(lki_linked *l, char *why)
{
    const size_t piece = TEST_BYTES / (size_t)l->count, bytes = piece * (size_t)l->count;
    trial        t;
    int          code = trial_begin(l, &t, bytes);
    if (code) snprintf(why, LKI_LINKS_WHY, "%.150s", l->line[0]->backend->text(code));
    if (!code) {
        const lki_gpu_transfer both[] = {
            {.kind = LKI_SEND_GATHER, .bytes = bytes, .src = (const void *const *)t.src, .dst = t.all},
            {.kind = LKI_SEND_SWAP, .bytes = piece, .src = (const void *const *)t.src, .dst = t.pieces},
        };
        code = l->way_of->exchange(l->links, LKI_COUNT(both), both);
        if (code) snprintf(why, LKI_LINKS_WHY, "%.150s", l->way_of->text(code));
    }
    if (!code && wait_within(l, TIME_TO_OPEN) != LK_OK) {
        snprintf(why, LKI_LINKS_WHY, "%.190s", l->why.text);
        code = -1;
    }
    for (int to = 0; to < l->count && !code; to++)
        code = compare(l, t.all[to], to, 0, bytes, why);
    for (int to = 0; to < l->count && !code; to++)
        code = compare(l, t.pieces[to], to, piece, piece, why);
    trial_end(l, &t);
    return !code;
}

/* ---- opening ---- */

static bool open_way(lki_linked *l, lki_gpu_way way, char *why)
{
    int   cards[LKI_GPU_MOST_CARDS];
    void *stream[LKI_GPU_MOST_CARDS];
    for (int i = 0; i < l->count; i++) {
        cards[i] = l->line[i]->card;
        stream[i] = l->line[i]->stream;
    }
    l->way = way;
    if (l->way_of->open(way, l->count, cards, stream, l->seconds > 0 ? l->seconds : TIME_TO_OPEN, &l->links, why)) return false;
    if (self_test(l, why)) return true;
    lki_warn("%s between %d cards do not work, and are not used: %s", way_names[way], l->count, why);
    if (l->links) l->way_of->close(l->links, 1);
    l->links = NULL;
    return false;
}

/* The first way that works. What went wrong with others is told, but no error of the thread's. */
static lk_status open_links(lki_linked *l)
{
    char             why[LKI_LINKS_WHY] = "", words[600] = "";
    size_t           used = 0;
    lki_error_record before;
    lki_error_take(&before);
    for (int w = l->no_nccl ? LKI_WAY_PEER : LKI_WAY_NCCL; w < LKI_WAYS; w++) {
        const bool good = open_way(l, (lki_gpu_way)w, why);
        lk_clear_error();
        lki_error_put(&before);
        if (good) {
            if (w == LKI_WAY_NCCL) lki_tell(LKI_TOPIC_PLAN, "%d cards are linked by %s", l->count, lki_nccl_words(NULL));
            else if (used) lki_info("%d cards are linked by %s; %s", l->count, way_names[w], words);
            l->why = (lki_error_record){0};
            return LK_OK;
        }
        if (used < sizeof words)
            used += (size_t)snprintf(words + used, sizeof words - used, "%snot by %s: %s", used ? "; " : "", way_names[w], why);
    }
    return lki_fail(LK_EDEVICE, "%d cards could not be linked: %s", l->count, words);
}

static void linked_free(lki_linked *l)
{
    for (int i = 0; i < l->count; i++)
        lki_gpu_watch(l->device[i], l, false);
    if (l->links) l->way_of->close(l->links, 0);
    lki_mutex_destroy(&l->lock);
    lki_release(l);
}

static lki_linked *linked_new(const lki_linked_args *a)
{
    lki_linked *l = lki_zalloc(sizeof *l);
    if (!l) return NULL;
    lki_mutex_init(&l->lock);
    l->refs = 2; /* the owner's and the caller's */
    l->owner = a->owner;
    l->seconds = a->seconds;
    l->no_nccl = a->no_nccl;
    lk_status status = LK_OK;
    for (int i = 0; i < a->count && status == LK_OK; i++) {
        l->device[i] = a->device[i];
        l->line[i] = lki_gpu_line_of(a->device[i]);
        status = l->line[i] ? LK_OK : lk_error_code();
        l->count++;
    }
    if (status == LK_OK) {
        l->way_of = l->line[0]->links;
        status = l->way_of ? open_links(l) : lki_fail(LK_EUNSUPPORTED, "this backend links no cards");
    }
    if (status != LK_OK) {
        linked_free(l);
        return NULL;
    }
    return l;
}

static bool is_of(const lki_linked *l, const lki_linked_args *a)
{
    bool same = l->owner == a->owner && l->count == a->count && l->no_nccl == a->no_nccl && l->seconds == a->seconds;
    for (int i = 0; i < a->count && same; i++)
        same = lki_same_memory(l->device[i], a->device[i]);
    return same;
}

lki_linked *lki_linked_open(lki_linked_args a)
{
    if (a.count < 2 || a.count > LKI_GPU_MOST_CARDS)
        return lki_fail(LK_EINVAL, "%d cards to be linked; 2 to %d are possible", a.count, LKI_GPU_MOST_CARDS), NULL;
    lki_mutex_take(&list_lock);
    lki_linked *l = list;
    while (l && !is_of(l, &a))
        l = l->next;
    if (l) __atomic_add_fetch(&l->refs, 1, __ATOMIC_RELAXED);
    else if ((l = linked_new(&a))) {
        l->next = list;
        list = l;
    }
    lki_mutex_give(&list_lock);
    return l;
}

/* With the list's lock held. */
static void let_go(lki_linked *l)
{
    if (__atomic_sub_fetch(&l->refs, 1, __ATOMIC_ACQ_REL)) return;
    lki_linked **at = &list;
    while (*at != l)
        at = &(*at)->next;
    *at = l->next;
    linked_free(l);
}

bool lki_linked_hold(lki_linked *l)
{
    int refs = __atomic_load_n(&l->refs, __ATOMIC_RELAXED);
    while (refs && !__atomic_compare_exchange_n(&l->refs, &refs, refs + 1, true, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {}
    return refs > 0;
}

void lki_linked_drop(lki_linked *l)
{
    if (!l) return;
    lki_mutex_take(&list_lock);
    let_go(l);
    lki_mutex_give(&list_lock);
}

void lki_linked_forget(const void *owner)
{
    if (!owner) return;
    lki_mutex_take(&list_lock);
    for (lki_linked *l = list, *next; l; l = next) {
        next = l->next;
        if (l->owner != owner) continue;
        l->owner = NULL;
        let_go(l);
    }
    lki_mutex_give(&list_lock);
}

/* ---- exchanges ---- */

typedef int exchange_fn(void *links, int count, const lki_gpu_transfer *transfers);

static lk_status exchange_by(lki_linked *l, exchange_fn *fn, int count, const lki_gpu_transfer *transfers)
{
    lki_mutex_take(&l->lock);
    lk_status status = check(l);
    const int code = status == LK_OK ? fn(l->links, count, transfers) : 0;
    if (status == LK_OK && l->given++ == l->waited)
        for (int i = 0; i < l->count; i++)
            lki_gpu_watch(l->device[i], l, true);
    if (code) {
        char why[LKI_LINKS_WHY] = "", text[LKI_LINKS_WHY + 40];
        if (!l->way_of->check(l->links, why)) snprintf(why, sizeof why, "%.150s", l->way_of->text(code));
        snprintf(text, sizeof text, "an exchange failed: %s", why);
        status = links_failed(l, text);
    }
    lki_mutex_give(&l->lock);
    return status;
}

void lki_linked_gave(lki_linked *l)
{
    lki_mutex_take(&l->lock);
    l->given++;
    lki_mutex_give(&l->lock);
}

lk_status lki_linked_exchange(lki_linked *l, int count, const lki_gpu_transfer *transfers)
{
    return exchange_by(l, l->way_of->exchange, count, transfers);
}

lk_status lki_linked_begin(lki_linked *l, int count, const lki_gpu_transfer *transfers)
{
    return exchange_by(l, l->way_of->begin, count, transfers);
}

bool lki_linked_sums(const lki_linked *l) { return l->way == LKI_WAY_NCCL; }

lki_gpu_way lki_linked_way(const lki_linked *l) { return l->way; }

const char *lki_nccl_words(bool *found)
{
    const lki_device    *first = lki_device_gpu_at(0);
    const lki_gpu_links *links = first ? lki_gpu_links_here(first) : NULL;
    int                  is = 0;
    const char          *text = links ? links->nccl(&is) : "";
    if (found) *found = is;
    return text;
}
