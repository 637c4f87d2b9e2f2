/* Finding the backend, cards as devices, and their memory. */
#include "device/gpu/gpu.h"
#include "core/beside.h"
#include "core/lock.h"
#include "core/log.h"
#include "core/memory.h"
#include "device/gpu/linked.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_DEVICES = 256, CLASSES = 256, SMALLEST = 256 };

typedef struct kept { /* freed blocks of one size class */
    void **block;
    int    count, capacity;
} kept;

enum { FAULTS = 4096 };

typedef struct fault {      /* of one word */
    lki_gpu_fault_fn *tell; /* NULL: not in use */
    int               what;
    const lki_linked *with; /* links of the work it belongs to; NULL: the card's alone */
} fault;

typedef struct card {
    lki_gpu_line  line;
    lki_gpu_card  what;
    lki_mutex     lock; /* of opening and of memory */
    bool          open;
    kept         *free; /* CLASSES of them; tables are made when the card is opened */
    size_t        used, kept;
    int          *stop;                     /* in its own memory; made at first need */
    int          *words;                    /* FAULTS of them, where the host and the card can reach them; made at first need */
    fault        *faults;                   /* FAULTS of them */
    int           fault_count;              /* those in use lie before it */
    lki_linked   *linked;                   /* atomic; watched by whoever waits for the card, or NULL */
    unsigned char peer[LKI_GPU_MOST_CARDS]; /* atomic, by card: do copies from it arrive? */
    bool          lost;                     /* atomic; what follows is written once, before it */
    int           lost_code;
    char          lost_at[96];
} card;

enum { PEER_UNKNOWN, PEER_GOOD, PEER_BROKEN };

typedef struct logical { /* beside its device: what a logical GPU may take of its card */
    lki_device device;
    char       name[16];
    size_t     used, limit;
} logical;

static card           cards[LKI_GPU_MOST_CARDS];
static int            card_count;
static logical        gpus[MOST_DEVICES];
static int            gpu_count;
static bool           in_use; /* atomic: a card was opened */
static char           why[512];
static pthread_once_t once = PTHREAD_ONCE_INIT;
LKI_MUTEX(split_lock);

static card *card_of(const lki_device *d) { return d->card; }

/* ---- lost cards ---- */

LKI_MUTEX(losing);

static void lose(card *c, const char *what, int code)
{
    lki_mutex_take(&losing);
    if (!c->lost) {
        c->lost_code = code;
        snprintf(c->lost_at, sizeof c->lost_at, "%s", what);
        __atomic_store_n(&c->lost, true, __ATOMIC_RELEASE);
    }
    lki_mutex_give(&losing);
}

static bool is_lost(const card *c) { return __atomic_load_n(&c->lost, __ATOMIC_ACQUIRE); }

/* Work is done after it was given, so that what found the error need not be what caused it. */
static void lost_words(const lki_device *d, char text[LKI_GPU_WORDS])
{
    const card            *c = card_of(d);
    const lki_gpu_backend *b = c->line.backend;
    snprintf(text, LKI_GPU_WORDS,
             "%s (%s): %s: %s (%s), here or in work given to the card before; the card is lost to this process, which must be "
             "restarted to use it again",
             d->name, c->what.name, c->lost_at, b->text(c->lost_code), b->lost(c->lost_code));
}

static lk_status tell_lost(const lki_device *d)
{
    char text[LKI_GPU_WORDS];
    lost_words(d, text);
    return lki_fail(LK_EDEVICE, "%s", text);
}

void lki_gpu_words(const lki_device *d, const char *what, int code, char text[LKI_GPU_WORDS])
{
    card                  *c = card_of(d);
    const lki_gpu_backend *b = c->line.backend;
    if (b->lost(code)) lose(c, what, code);
    if (is_lost(c)) lost_words(d, text);
    else snprintf(text, LKI_GPU_WORDS, "%s: %s: %s (%s error %d)", d->name, what, b->text(code), b->name, code);
}

lk_status lki_gpu_check(const lki_device *d, const char *what, int code)
{
    char text[LKI_GPU_WORDS];
    if (!code) return LK_OK;
    lki_gpu_words(d, what, code, text);
    return lki_fail(LK_EDEVICE, "%s", text);
}

/* ---- memory ---- */

/* Four classes for each power of two, from SMALLEST on: at most a quarter is wasted. */
static int class_of(size_t bytes, size_t *size)
{
    size_t base = SMALLEST;
    int class = 0;
    while (2 * base <= bytes) {
        base *= 2;
        class += 4;
    }
    for (int quarter = 0; quarter < 4; quarter++)
        if (bytes <= base + base / 4 * (size_t)quarter) {
            *size = base + base / 4 * (size_t)quarter;
            return class + quarter;
        }
    *size = 2 * base;
    return class + 4;
}

/* With the lock held. */
static lk_status make_tables(card *c)
{
    if (!c->free) c->free = lki_zalloc_array(CLASSES, sizeof *c->free);
    if (!c->faults) c->faults = lki_zalloc_array(FAULTS, sizeof *c->faults);
    return c->free && c->faults ? LK_OK : LK_ENOMEM;
}

static lk_status open_card(lki_device *d)
{
    card *c = card_of(d);
    int   code = 0;
    if (is_lost(c)) return tell_lost(d);
    if (__atomic_load_n(&c->open, __ATOMIC_ACQUIRE)) return LK_OK;
    lki_mutex_take(&c->lock);
    const lk_status status = make_tables(c);
    if (status == LK_OK && !c->open) code = c->line.backend->open(c->line.card, &c->line.stream);
    if (status == LK_OK && !code) __atomic_store_n(&c->open, true, __ATOMIC_RELEASE);
    lki_mutex_give(&c->lock);
    LKI_TRY(status);
    if (!code) __atomic_store_n(&in_use, true, __ATOMIC_RELAXED);
    return lki_gpu_check(d, "the card cannot be opened", code);
}

/* With the lock held: give back what waits for use, so that a block of another size may fit. */
static void trim(card *c)
{
    c->line.backend->sync(c->line.card, c->line.stream);
    for (int k = 0; k < CLASSES; k++)
        while (c->free[k].count > 0)
            c->line.backend->release(c->line.card, c->free[k].block[--c->free[k].count]);
    c->kept = 0;
}

/* With the lock held: what is made at need goes, until it is needed again. */
static void clear_tables(card *c)
{
    const lki_gpu_backend *b = c->line.backend;
    if (c->stop) b->release(c->line.card, c->stop);
    if (c->words) b->release_host(c->words);
    c->stop = c->words = NULL;
    for (int k = 0; k < CLASSES; k++) {
        lki_release(c->free[k].block);
        c->free[k] = (kept){0};
    }
}

int64_t lki_gpu_trim(bool all)
{
    int64_t bytes = 0;
    for (card *c = cards; c < cards + card_count; c++) {
        if (!__atomic_load_n(&c->open, __ATOMIC_ACQUIRE) || is_lost(c)) continue;
        lki_mutex_take(&c->lock);
        bytes += (int64_t)c->kept;
        trim(c);
        if (all && !c->used && !c->fault_count) clear_tables(c);
        lki_mutex_give(&c->lock);
    }
    return bytes;
}

/* `code` is what the card said; 0: it was not asked. */
static lk_status no_room(const lki_device *d, size_t bytes, int code)
{
    const lki_gpu_backend *b = card_of(d)->line.backend;
    const lki_gpu_memory   m = lki_gpu_memory_of((lki_device *)d);
    if (m.limit && !code)
        return lki_fail(LK_ENOMEM,
                        "%s: out of memory: no room for %zu bytes: its limit is %zu and %zu are in use; a smaller batch needs "
                        "less, or raise .gpu_memory_limit",
                        d->name, bytes, m.limit, m.used);
    return lki_fail(LK_ENOMEM,
                    "%s: out of memory: no room for %zu bytes: %zu are in use and %zu are free on the card (%s%s%s); a smaller "
                    "batch needs less",
                    d->name, bytes, m.used, m.available, card_of(d)->what.name, code ? ": " : "", code ? b->text(code) : "");
}

static void *gpu_alloc(lki_device *d, size_t bytes)
{
    logical *l = (logical *)d;
    card    *c = card_of(d);
    void    *mem = NULL;
    size_t   size;
    int class = class_of(bytes, &size), code = 0;
    if (open_card(d) != LK_OK) return NULL;
    if (class >= CLASSES) return no_room(d, bytes, 0), NULL;
    lki_mutex_take(&c->lock);
    bool allowed = !l->limit || l->used + size <= l->limit;
    if (allowed && c->free[class].count) {
        mem = c->free[class].block[--c->free[class].count];
        c->kept -= size;
    } else if (allowed) {
        code = c->line.backend->alloc(c->line.card, size, &mem);
        if (code && c->kept) {
            trim(c);
            code = c->line.backend->alloc(c->line.card, size, &mem);
        }
        if (code) mem = NULL;
    }
    if (mem) {
        l->used += size;
        c->used += size;
    }
    lki_mutex_give(&c->lock);
    if (!mem && code && c->line.backend->lost(code)) lki_gpu_check(d, "an allocation", code);
    else if (!mem) no_room(d, bytes, code);
    return mem;
}

static void gpu_release(lki_device *d, void *mem, size_t bytes)
{
    card  *c = card_of(d);
    size_t size;
    int class = class_of(bytes, &size);
    lki_error_record before;
    lki_error_take(&before);
    lki_mutex_take(&c->lock);
    kept *k = &c->free[class];
    ((logical *)d)->used -= size;
    c->used -= size;
    if (lki_grow((void **)&k->block, &k->capacity, k->count + 1, sizeof *k->block)) {
        k->block[k->count++] = mem;
        c->kept += size;
    } else {
        c->line.backend->release(c->line.card, mem); /* the list could not grow */
    }
    lki_mutex_give(&c->lock);
    lk_clear_error(); /* that of the list */
    if (before.code != LK_OK) lki_error_put(&before);
}

lki_gpu_memory lki_gpu_memory_of(lki_device *d)
{
    card          *c = card_of(d);
    lki_gpu_memory m = {.limit = ((logical *)d)->limit};
    if (open_card(d) != LK_OK) return m;
    c->line.backend->available(c->line.card, &m.available);
    lki_mutex_take(&c->lock);
    m.used = m.limit ? ((logical *)d)->used : c->used;
    m.kept = c->kept;
    lki_mutex_give(&c->lock);
    return m;
}

/* ---- copies ---- */

static lk_status gpu_copy(lki_device *d, void *dst, const void *src, size_t bytes)
{
    const lki_gpu_line *l = &card_of(d)->line;
    return lki_gpu_check(d, "a copy failed", l->backend->copy(l->card, l->stream, dst, src, bytes));
}

static lk_status gpu_write(lki_device *d, void *dst, const void *host, size_t bytes)
{
    const lki_gpu_line *l = &card_of(d)->line;
    return lki_gpu_check(d, "a copy to the card failed", l->backend->write(l->card, l->stream, dst, host, bytes));
}

/* Whoever waits for a card that others send to waits here first: watched, so not for ever when one of them fails. */
static lk_status wait_for_links(card *c)
{
    if (!__atomic_load_n(&c->linked, __ATOMIC_ACQUIRE)) return LK_OK;
    lki_mutex_take(&c->lock);
    lki_linked *l = c->linked && lki_linked_hold(c->linked) ? c->linked : NULL;
    lki_mutex_give(&c->lock);
    lk_status status = l ? lki_linked_wait(l) : LK_OK;
    lki_linked_drop(l);
    return status;
}

static lk_status gpu_read(lki_device *d, void *host, const void *src, size_t bytes)
{
    const lki_gpu_line *l = &card_of(d)->line;
    LKI_TRY(wait_for_links(card_of(d)));
    LKI_TRY(
        lki_gpu_check(d, "a copy from the card failed, or work before it", l->backend->read(l->card, l->stream, host, src, bytes)));
    return lki_gpu_faults(d);
}

/* Do copies from that card really carry bytes? Tried once, with a few. */
static int try_peer(const lki_gpu_line *to, const lki_gpu_line *from, bool *good)
{
    const lki_gpu_backend *b = to->backend;
    unsigned char          given[SMALLEST], got[SMALLEST] = {0};
    void                  *src = NULL, *dst = NULL;
    for (int i = 0; i < SMALLEST; i++)
        given[i] = (unsigned char)(i * 7 + 1);
    int code = b->alloc(from->card, SMALLEST, &src);
    if (!code) code = b->alloc(to->card, SMALLEST, &dst);
    if (!code) code = b->zero(to->card, to->stream, dst, SMALLEST);
    if (!code) code = b->write(from->card, from->stream, src, given, SMALLEST);
    if (!code) code = b->peer(to->card, to->stream, dst, from->card, from->stream, src, SMALLEST);
    if (!code) code = b->read(to->card, to->stream, got, dst, SMALLEST);
    if (src) b->release(from->card, src);
    if (dst) b->release(to->card, dst);
    *good = !code && !memcmp(given, got, SMALLEST);
    return code;
}

LKI_TURN(trying_peers);

static bool peer_works(lki_device *d, lki_device *from)
{
    unsigned char *state = &card_of(d)->peer[card_of(from)->line.card];
    if (__atomic_load_n(state, __ATOMIC_ACQUIRE) == PEER_UNKNOWN) {
        lki_mutex_take(&trying_peers);
        bool good = *state == PEER_GOOD;
        int  code = *state == PEER_UNKNOWN ? try_peer(&card_of(d)->line, &card_of(from)->line, &good) : 0;
        if (*state == PEER_UNKNOWN && !good)
            lki_warn("copies from %s to %s %s; they go through the host instead", from->name, d->name,
                     code ? card_of(d)->line.backend->text(code) : "do not carry what they should");
        __atomic_store_n(state, good ? PEER_GOOD : PEER_BROKEN, __ATOMIC_RELEASE);
        lki_mutex_give(&trying_peers);
    }
    return __atomic_load_n(state, __ATOMIC_ACQUIRE) == PEER_GOOD;
}

/* Which of two cards failed? Where one is lost, whoever asks it anything hears of it. */
static lk_status check_peer(lki_device *d, lki_device *from, int code)
{
    const lki_gpu_line *f = &card_of(from)->line;
    size_t              bytes;
    if (!code) return LK_OK;
    if (f->backend->lost(code) && f->backend->lost(f->backend->available(f->card, &bytes))) d = from;
    return lki_gpu_check(d, "a copy between cards failed", code);
}

static lk_status gpu_peer(lki_device *d, void *dst, lki_device *from, const void *src, size_t bytes)
{
    const lki_gpu_line *l = &card_of(d)->line, *f = &card_of(from)->line;
    LKI_TRY(wait_for_links(card_of(from)));
    if (peer_works(d, from)) {
        LKI_TRY(check_peer(d, from, l->backend->peer(l->card, l->stream, dst, f->card, f->stream, src, bytes)));
        return lki_gpu_faults(from); /* its work before has ended */
    }
    void *host = lki_alloc(bytes);
    if (!host) return LK_ENOMEM;
    lk_status status = from->ops->read(from, host, src, bytes);
    if (status == LK_OK) status = d->ops->write(d, dst, host, bytes);
    lki_release(host);
    return status;
}

static const lki_device_ops gpu_ops = {gpu_alloc, gpu_release, gpu_copy, gpu_write, gpu_read, gpu_peer};

/* ---- faults ---- */

static bool works_with(const card *c, const card *other)
{
    const lki_linked *with = __atomic_load_n(&c->linked, __ATOMIC_ACQUIRE);
    return c == other || (with && __atomic_load_n(&other->linked, __ATOMIC_ACQUIRE) == with);
}

/* Steps write again. */
static void go_on(card *c)
{
    if (c->stop) c->line.backend->zero(c->line.card, c->line.stream, c->stop, sizeof *c->stop);
}

int *lki_gpu_fault_new(lki_device *d, lki_gpu_fault_fn *tell, int what, const lki_linked *with)
{
    card *c = card_of(d);
    int   code = 0, i = 0;
    if (open_card(d) != LK_OK) return NULL;
    lki_mutex_take(&c->lock);
    if (!c->words) code = c->line.backend->alloc_host(FAULTS * sizeof *c->words, (void **)&c->words);
    while (!code && i < FAULTS && c->faults[i].tell)
        i++;
    if (!code && i < FAULTS) {
        c->faults[i] = (fault){tell, what, with};
        c->words[i] = 0;
        if (i >= c->fault_count) __atomic_store_n(&c->fault_count, i + 1, __ATOMIC_RELEASE);
    }
    lki_mutex_give(&c->lock);
    if (lki_gpu_check(d, "no memory that card and host both reach", code) != LK_OK) return NULL;
    if (i < FAULTS) return &c->words[i];
    lki_fail(LK_ENOMEM, "%s: %d ops that check indices are in use, and no more can be", d->name, FAULTS);
    return NULL;
}

void lki_gpu_fault_free(lki_device *d, int *word)
{
    card *c = card_of(d);
    if (!word) return;
    lki_mutex_take(&c->lock);
    const bool untold = __atomic_exchange_n(word, 0, __ATOMIC_RELAXED) != 0;
    c->faults[word - c->words].tell = NULL;
    while (c->fault_count > 0 && !c->faults[c->fault_count - 1].tell)
        c->fault_count--;
    lki_mutex_give(&c->lock);
    if (!untold) return;
    lki_warn("%s: a step met an index out of range, and was dropped before anybody asked", d->name);
    for (int i = 0; i < card_count; i++)
        if (works_with(c, &cards[i])) go_on(&cards[i]);
}

/* Those that are set are told, or just cleared: all of them, or those of work with these links. */
static lk_status take_faults(card *c, bool tell, const lki_linked *with)
{
    lk_status status = LK_OK;
    int       count = __atomic_load_n(&c->fault_count, __ATOMIC_ACQUIRE);
    for (int i = 0; i < count; i++) {
        if (!__atomic_load_n(&c->words[i], __ATOMIC_RELAXED)) continue;
        lki_mutex_take(&c->lock);
        const bool  own = !with || c->faults[i].with == with;
        const fault f = own && __atomic_exchange_n(&c->words[i], 0, __ATOMIC_RELAXED) ? c->faults[i] : (fault){0};
        lki_mutex_give(&c->lock);
        if (f.tell && tell) status = f.tell(f.what);
    }
    return status;
}

static void clear_faults(card *c)
{
    if (!__atomic_load_n(&c->open, __ATOMIC_ACQUIRE)) return;
    c->line.backend->sync(c->line.card, c->line.stream);
    take_faults(c, false, NULL);
    go_on(c);
}

/* The step that met one may still be at work, and steps behind it: what they set is part of what was told, and must not be told to
 * somebody later. Linked cards stop together, and go on together; who reads from one of them is told what another met in their work
 * together, and in no other. */
lk_status lki_gpu_faults(lki_device *d)
{
    card             *c = card_of(d);
    const lki_linked *with = __atomic_load_n(&c->linked, __ATOMIC_ACQUIRE);
    lk_status         status = take_faults(c, true, NULL);
    for (int i = 0; i < card_count && status == LK_OK && with; i++)
        if (&cards[i] != c && works_with(c, &cards[i])) status = take_faults(&cards[i], true, with);
    if (status == LK_OK) return LK_OK;
    wait_for_links(c);
    for (int i = 0; i < card_count; i++)
        if (works_with(c, &cards[i])) clear_faults(&cards[i]);
    return status;
}

int *lki_gpu_stop(lki_device *d)
{
    card *c = card_of(d);
    int   code = 0;
    if (open_card(d) != LK_OK) return NULL;
    lki_mutex_take(&c->lock);
    if (!c->stop) {
        code = c->line.backend->alloc(c->line.card, sizeof *c->stop, (void **)&c->stop);
        if (!code) code = c->line.backend->zero(c->line.card, c->line.stream, c->stop, sizeof *c->stop);
        else c->stop = NULL;
    }
    lki_mutex_give(&c->lock);
    return lki_gpu_check(d, "no memory for a word", code) == LK_OK ? c->stop : NULL;
}

lk_status lki_gpu_wait(lki_device *d)
{
    const lki_gpu_line *l = &card_of(d)->line;
    LKI_TRY(wait_for_links(card_of(d)));
    LKI_TRY(lki_gpu_check(d, "work on the card failed", l->backend->sync(l->card, l->stream)));
    return lki_gpu_faults(d);
}

void lki_gpu_watch(lki_device *d, lki_linked *links, bool watch)
{
    card *c = card_of(d);
    if (watch && __atomic_load_n(&c->linked, __ATOMIC_RELAXED) == links) return;
    lki_mutex_take(&c->lock);
    if (watch || c->linked == links) __atomic_store_n(&c->linked, watch ? links : NULL, __ATOMIC_RELEASE);
    lki_mutex_give(&c->lock);
}

const lki_gpu_links *lki_gpu_links_here(const lki_device *d) { return card_of(d)->line.links; }

/* ---- finding them ---- */

/* The shared object of the backend; it stays open. */
static void *open_backend(void)
{
    const char *chosen = getenv("LOCKSTEP_GPU_BACKEND"), *simulated = getenv("LOCKSTEP_GPU_SIM");
    const char *name = simulated && *simulated ? "lockstep-sim.so" : "lockstep-cuda.so";
    char        path[LKI_LONGEST_PATH];
    const char *file = chosen && *chosen ? chosen : lki_find_beside(name, R_OK, path) ? path : name;
    void       *object = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (!object) snprintf(why, sizeof why, "no GPUs: %.200s was not found or cannot be opened (%.240s)", file, dlerror());
    return object;
}

static void make_logical(int per_card, size_t limit)
{
    int n = 0;
    for (int c = 0; c < card_count; c++)
        for (int i = 0; i < per_card && n < MOST_DEVICES; i++, n++) {
            snprintf(gpus[n].name, sizeof gpus[n].name, "GPU:%d", n);
            gpus[n].device = (lki_device){LKI_DEVICE_GPU, gpus[n].name, &gpu_ops, &cards[c], &cards[c]};
            gpus[n].limit = limit;
        }
    __atomic_store_n(&gpu_count, n, __ATOMIC_RELEASE);
}

static void find_cards(void)
{
    void *object = open_backend();
    if (!object) return;
    lki_gpu_backend_fn    *of = (lki_gpu_backend_fn *)(uintptr_t)dlsym(object, LKI_GPU_BACKEND_SYMBOL);
    lki_gpu_links_fn      *links = (lki_gpu_links_fn *)(uintptr_t)dlsym(object, LKI_GPU_LINKS_SYMBOL);
    const lki_gpu_backend *b = of ? of() : NULL;
    const char            *reason = "";
    if (!b || b->version != LKI_GPU_BACKEND_VERSION) {
        snprintf(why, sizeof why, "no GPUs: the backend found is not of this version of the library");
        return;
    }
    int    n = b->cards(&reason);
    size_t used = n ? (size_t)snprintf(why, sizeof why, "%d card%s (%s):", n, n == 1 ? "" : "s", b->name)
                    : (size_t)snprintf(why, sizeof why, "no GPUs: %s", reason);
    for (int i = 0; i < n; i++) {
        card *c = &cards[card_count];
        if (b->card(i, &c->what)) continue;
        c->line = (lki_gpu_line){.backend = b, .kernels = b->kernels(), .card = i, .links = links ? links() : NULL};
        lki_mutex_init(&c->lock);
        card_count++;
        if (used < sizeof why)
            used +=
                (size_t)snprintf(why + used, sizeof why - used, "%s %s, %zu MiB", i ? "," : "", c->what.name, c->what.memory >> 20);
    }
    const char *text = getenv("LOCKSTEP_LOGICAL_GPUS");
    const int   asked = text && *text ? atoi(text) : 1;
    make_logical(asked >= 1 && asked <= MOST_DEVICES ? asked : 1, 0);
}

static void ready(void) { pthread_once(&once, find_cards); }

int lki_gpu_devices(void)
{
    ready();
    return __atomic_load_n(&gpu_count, __ATOMIC_ACQUIRE);
}

int lki_gpu_cards(void)
{
    ready();
    return card_count;
}

const char *lki_gpu_why(void)
{
    ready();
    return why;
}

lki_device *lki_device_gpu_at(int index) { return index >= 0 && index < lki_gpu_devices() ? &gpus[index].device : NULL; }

lk_status lki_gpu_split(int per_card, size_t limit)
{
    ready();
    if (__atomic_load_n(&in_use, __ATOMIC_RELAXED))
        return lki_fail(LK_ESTATE, "GPUs cannot be cut into logical ones once one of them is in use");
    if (per_card < 1 || per_card > MOST_DEVICES)
        return lki_fail(LK_EINVAL, "%d logical GPUs on a card; 1 to %d are possible", per_card, MOST_DEVICES);
    lki_mutex_take(&split_lock);
    make_logical(per_card, limit);
    lki_mutex_give(&split_lock);
    return LK_OK;
}

lk_status lki_gpu_limit(lki_device *d, size_t limit)
{
    card *c = card_of(d);
    lki_mutex_take(&c->lock);
    ((logical *)d)->limit = limit;
    lki_mutex_give(&c->lock);
    return LK_OK;
}

const lki_gpu_line *lki_gpu_line_of(lki_device *d) { return open_card(d) == LK_OK ? &card_of(d)->line : NULL; }

const lki_gpu_card *lki_gpu_card_of(lki_device *d) { return &card_of(d)->what; }
