/* The works of a card, by number: which are done, and which met an index out of range.
 *
 * A kernel that meets one writes its code into the card's word `stop`, which stays set. Updates of this work and of later work read
 * the word and do nothing. At its end, a work copies the word to its own slot in memory of the host. So the first work whose slot
 * is not 0 is the one that met the error, however much later the host looks. When the error has been reported, the word is cleared.
 *
 * Invariants
 * 1. Numbers of a card go up by one. Slots are used again after LKI_GPU_UNSETTLED numbers. A thread waits for the card before it
 *    gives a slot to a new work if the host has not read what the old work left there.
 * 2. `bad` is the first work that met an error since the last one was reported. Work after it made no updates. That work is done
 *    when the error is reported, and its slots are not read.
 * 3. Linked cards stop together and resume together. The error of work that they do together is reported once, by the first call
 *    that settles any of them, which clears the words of all. */
#include "core/log.h"
#include "device/gpu/inside.h"

typedef lki_gpu_state card;

/* ---- waiting ---- */

lk_status lki_gpu_wait_for_bond(card *c)
{
    if (!__atomic_load_n(&c->bond, __ATOMIC_ACQUIRE)) return LK_OK;
    lki_mutex_take(&c->lock);
    const lki_bond bond = c->bond && c->bond->hold(c->bond->of) ? *c->bond : (lki_bond){0};
    lki_mutex_give(&c->lock);
    if (!bond.of) return LK_OK;
    const lk_status status = bond.wait(bond.of);
    bond.drop(bond.of);
    return status;
}

void lki_gpu_watch(lki_device *d, const lki_bond *bond, bool watch)
{
    card *c = lki_gpu_state_of(d);
    if (watch && __atomic_load_n(&c->bond, __ATOMIC_RELAXED) == bond) return;
    LKI_HOLD(&c->lock);
    if (watch || c->bond == bond) __atomic_store_n(&c->bond, watch ? bond : NULL, __ATOMIC_RELEASE);
}

int64_t lki_gpu_given(lki_device *d) { return __atomic_load_n(&lki_gpu_state_of(d)->given, __ATOMIC_ACQUIRE); }

static int64_t done_of(const card *c) { return __atomic_load_n(&c->done, __ATOMIC_ACQUIRE); }

bool lki_gpu_pending(lki_device *d, int64_t work)
{
    const int64_t given = lki_gpu_given(d);
    return (work < given ? work : given) > done_of(lki_gpu_state_of(d));
}

static void note_done(card *c, int64_t work)
{
    LKI_HOLD(&c->lock);
    for (int64_t w = c->done + 1; w <= work && !c->bad; w++) {
        if (!(c->code = __atomic_load_n(&c->slot[w % LKI_GPU_UNSETTLED], __ATOMIC_RELAXED))) continue;
        c->bad = w;
        c->bad_job = c->job[w % LKI_GPU_UNSETTLED];
    }
    if (work > c->done) __atomic_store_n(&c->done, work, __ATOMIC_RELEASE);
}

void lki_gpu_done(lki_device *d, int64_t work) { note_done(lki_gpu_state_of(d), work); }

lk_status lki_gpu_wait(lki_device *d)
{
    const lki_gpu_line *l = &lki_gpu_state_of(d)->line;
    const int64_t       given = lki_gpu_given(d);
    LKI_TRY(lki_gpu_wait_for_bond(lki_gpu_state_of(d)));
    LKI_TRY(lki_gpu_check(d, "work on the card failed", l->backend->sync(l->card, l->stream)));
    lki_gpu_done(d, given);
    return LK_OK;
}

/* ---- giving ---- */

/* In the turn. */
static int make_words(card *c)
{
    const lki_gpu_backend *b = c->line.backend;
    int                   *slot = NULL, *stop = NULL;
    int                    code = b->alloc_host(LKI_GPU_UNSETTLED * sizeof *slot, (void **)&slot);
    if (!code) code = b->alloc(c->line.card, sizeof *stop, (void **)&stop);
    if (!code) code = b->zero(c->line.card, c->line.stream, stop, sizeof *stop);
    if (code && slot) b->release_host(slot);
    if (code && stop) b->release(c->line.card, stop);
    LKI_HOLD(&c->lock);
    c->slot = code ? NULL : slot;
    __atomic_store_n(&c->stop, code ? NULL : stop, __ATOMIC_RELEASE);
    return code;
}

int *lki_gpu_stop(lki_device *d)
{
    card *c = lki_gpu_state_of(d);
    int   code = 0;
    if (lki_gpu_open(d) != LK_OK) return NULL;
    if (__atomic_load_n(&c->stop, __ATOMIC_ACQUIRE)) return c->stop;
    lki_turn_take(&c->turn);
    if (!c->stop) code = make_words(c);
    lki_turn_give(&c->turn);
    return lki_gpu_check(d, "no memory for a word", code) == LK_OK ? c->stop : NULL;
}

/* The numbers for `count` works, the last of which is returned; 0: their slots are not free. */
static int64_t take_numbers(card *c, const lki_gpu_job *job, int count)
{
    LKI_HOLD(&c->lock);
    const int64_t last = c->given + count <= c->done + LKI_GPU_UNSETTLED ? c->given + count : 0;
    for (int64_t w = c->given + 1; w <= last; w++) {
        c->slot[w % LKI_GPU_UNSETTLED] = 0;
        c->job[w % LKI_GPU_UNSETTLED] = *job;
    }
    if (last) __atomic_store_n(&c->given, last, __ATOMIC_RELEASE);
    return last;
}

lk_status lki_gpu_give(lki_device *d, const lki_gpu_job *job, int count, int64_t *work)
{
    card *c = lki_gpu_state_of(d);
    while (!(*work = take_numbers(c, job, count)))
        LKI_TRY(lki_gpu_wait(d));
    return LK_OK;
}

lki_gpu_piece lki_gpu_report(lki_device *d, int64_t work, const lki_device *of)
{
    int *slot = &lki_gpu_state_of(d)->slot[work % LKI_GPU_UNSETTLED];
    return (lki_gpu_piece){slot, lki_gpu_state_of(of)->stop, sizeof *slot};
}

/* ---- errors ---- */

static bool works_with(const card *c, const card *other)
{
    const lki_bond *with = __atomic_load_n(&c->bond, __ATOMIC_ACQUIRE);
    return c == other || (with && __atomic_load_n(&other->bond, __ATOMIC_ACQUIRE) == with);
}

/* After an error: all work given so far is done, and later work makes updates again. */
static void clear(card *c)
{
    if (!c->stop) return;
    c->line.backend->sync(c->line.card, c->line.stream);
    c->line.backend->zero(c->line.card, c->line.stream, c->stop, sizeof *c->stop);
    LKI_HOLD(&c->lock);
    c->bad = 0;
    __atomic_store_n(&c->done, c->given, __ATOMIC_RELEASE);
}

static void clear_all(lki_device *d)
{
    card *c = lki_gpu_state_of(d), *other;
    lki_gpu_wait_for_bond(c);
    for (int i = 0; (other = lki_gpu_state_at(i)); i++)
        if (works_with(c, other)) clear(other);
}

/* Report the error that work up to this number met; `with`: only of work with this bond, or NULL. */
static lk_status tell(card *c, int64_t work, const lki_bond *with)
{
    lki_mutex_take(&c->lock);
    const bool        has = c->bad && c->bad <= work && (!with || c->bad_job.with == with);
    const lki_gpu_job job = c->bad_job;
    const int         code = c->code;
    if (has) c->bad = 0;
    lki_mutex_give(&c->lock);
    return has ? job.tell(job.of, code, job.call) : LK_OK;
}

/* A call that settles all work of a linked card also reports the errors that the other cards met in their work together. */
static lk_status tell_all(card *c, int64_t work)
{
    const lki_bond *with = work == LKI_ALL_WORK ? __atomic_load_n(&c->bond, __ATOMIC_ACQUIRE) : NULL;
    card           *other;
    LKI_TRY(tell(c, work, NULL));
    for (int i = 0; with && (other = lki_gpu_state_at(i)); i++) {
        if (other == c || !works_with(c, other)) continue;
        note_done(other, __atomic_load_n(&other->given, __ATOMIC_ACQUIRE)); /* the caller has waited for the bond */
        LKI_TRY(tell(other, work, with));
    }
    return LK_OK;
}

lk_status lki_gpu_settle(lki_device *d, int64_t work)
{
    card      *c = lki_gpu_state_of(d);
    const bool bound = work == LKI_ALL_WORK && __atomic_load_n(&c->bond, __ATOMIC_ACQUIRE);
    if (bound || lki_gpu_pending(d, work)) LKI_TRY(lki_gpu_wait(d));
    const lk_status status = tell_all(c, work);
    if (status != LK_OK) clear_all(d);
    return status;
}

void lki_gpu_forget(lki_device *d, const void *of)
{
    card *c = lki_gpu_state_of(d);
    c->line.backend->sync(c->line.card, c->line.stream); /* it may still be working */
    if (!c->slot) return;
    note_done(c, lki_gpu_given(d));
    lki_mutex_take(&c->lock);
    const bool untold = c->bad && c->bad_job.of == of;
    lki_mutex_give(&c->lock);
    if (!untold) return;
    lki_warn("%s: an index out of range in an earlier step was never reported, because its plan was freed first", d->name);
    clear_all(d);
}
