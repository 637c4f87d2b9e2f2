/* Finding the backend, cards as devices, and their memory. */
#include "device/gpu/gpu.h"
#include "core/beside.h"
#include "core/error.h"
#include "core/freelist.h"
#include "core/lock.h"
#include "core/log.h"
#include "core/memory.h"
#include "core/precision.h"
#include "device/gpu/inside.h"
#include "device/pick.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_DEVICES = 256, SMALLEST = 256 };
#define LARGEST ((size_t)1 << 46)
enum { PEER_UNKNOWN, PEER_GOOD, PEER_BROKEN };

typedef lki_gpu_state card;

typedef struct logical { /* beside its device: how much of its card's memory a logical GPU may use */
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

lki_gpu_state *lki_gpu_state_at(int i) { return i < card_count ? &cards[i] : NULL; }

/* ---- lost cards ---- */

LKI_MUTEX(losing);

static void lose(card *c, const char *what, int code)
{
    LKI_HOLD(&losing);
    if (c->lost) return;
    c->lost_code = code;
    snprintf(c->lost_at, sizeof c->lost_at, "%s", what);
    __atomic_store_n(&c->lost, true, __ATOMIC_RELEASE);
}

static bool is_lost(const card *c) { return __atomic_load_n(&c->lost, __ATOMIC_ACQUIRE); }

/* Work runs after the call that submitted it, so the call that sees an error need not be the one that caused it. */
void lki_gpu_words(const lki_device *d, const char *what, int code, char text[LKI_GPU_WORDS])
{
    card                  *c = card_of(d);
    const lki_gpu_backend *b = c->line.backend;
    if (b->lost(code)) lose(c, what, code);
    if (!is_lost(c)) snprintf(text, LKI_GPU_WORDS, "%s: %s: %s (%s error %d)", d->name, what, b->text(code), b->name, code);
    else
        snprintf(text, LKI_GPU_WORDS,
                 "%s (%s): %s: %s (%s), here or in work given to the card before; the card is lost to this process, which must be "
                 "restarted to use it again",
                 d->name, c->what.name, c->lost_at, b->text(c->lost_code), b->lost(c->lost_code));
}

lk_status lki_gpu_check(const lki_device *d, const char *what, int code)
{
    char text[LKI_GPU_WORDS];
    if (!code) return LK_OK;
    lki_gpu_words(d, what, code, text);
    return lki_fail(LK_EDEVICE, "%s", text);
}

/* ---- memory ---- */

static bool is_open(const card *c) { return __atomic_load_n(&c->open, __ATOMIC_ACQUIRE); }

/* In the turn. */
static lk_status open_card(const lki_device *d, card *c)
{
    if (!c->job) c->job = lki_zalloc_array(LKI_GPU_UNSETTLED, sizeof *c->job);
    if (!c->job) return LK_ENOMEM;
    LKI_TRY(lki_gpu_check(d, "the card cannot be opened", c->line.backend->open(c->line.card, &c->line.stream)));
    __atomic_store_n(&c->open, true, __ATOMIC_RELEASE);
    __atomic_store_n(&in_use, true, __ATOMIC_RELAXED);
    return LK_OK;
}

lk_status lki_gpu_open(lki_device *d)
{
    card *c = card_of(d);
    if (is_lost(c)) return lki_gpu_check(d, c->lost_at, c->lost_code);
    if (is_open(c)) return LK_OK;
    lki_turn_take(&c->turn);
    const lk_status status = is_open(c) ? LK_OK : open_card(d, c);
    lki_turn_give(&c->turn);
    return status;
}

/* The host cannot write to a block, so this stands in the lists for it. Each block has one; those of blocks in use are spare. */
typedef struct token {
    lki_free_block block;
    void          *mem;
} token;

static void return_block(lki_free_block *b, void *of)
{
    const card *c = of;
    c->line.backend->release(c->line.card, ((token *)b)->mem);
    lki_release(b);
}

/* In the turn: return kept blocks to the card, after the work that was given before they were freed. */
static int64_t trim(card *c)
{
    LKI_SCOPE_ERRORS;
    lki_mutex_take(&c->lock);
    const lki_free_lists kept = c->kept;
    c->kept = (lki_free_lists){0};
    lki_mutex_give(&c->lock);
    lki_gpu_wait_for_bond(c);
    lk_clear_error(); /* the owner of the failed work reports it */
    c->line.backend->sync(c->line.card, c->line.stream);
    lki_free_lists_empty(&kept, return_block, c);
    return kept.bytes;
}

/* After trim(): if no block is in use, release the words of works; the next use makes them again. No error can be lost: plans and
 * tensors of the remaining work are gone. */
static void release_words(card *c)
{
    const lki_gpu_backend *b = c->line.backend;
    int                   *stop = NULL, *slot = NULL;
    lki_mutex_take(&c->lock);
    if (!c->used && !c->bad) {
        stop = c->stop;
        slot = c->slot;
        c->stop = c->slot = NULL;
        __atomic_store_n(&c->done, c->given, __ATOMIC_RELEASE);
    }
    lki_mutex_give(&c->lock);
    if (stop) b->release(c->line.card, stop);
    if (slot) b->release_host(slot);
}

int64_t lki_gpu_trim(bool all)
{
    int64_t bytes = 0;
    for (card *c = cards; c < cards + card_count; c++) {
        if (!is_open(c) || is_lost(c)) continue;
        lki_turn_take(&c->turn);
        bytes += trim(c);
        if (all) release_words(c);
        lki_turn_give(&c->turn);
    }
    return bytes;
}

/* `code` is the card's answer; 0: the card was not asked. */
static lk_status no_room(const lki_device *d, size_t bytes, int code)
{
    const lki_gpu_backend *b = card_of(d)->line.backend;
    const lki_gpu_memory   m = lki_gpu_memory_of((lki_device *)d);
    if (code && b->lost(code)) return lki_gpu_check(d, "an allocation", code);
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

static void count_used(logical *l, int64_t bytes)
{
    l->used += (size_t)bytes;
    card_of(&l->device)->used += (size_t)bytes;
}

static void add_spare(card *c, token *t)
{
    t->block.next = c->spare;
    c->spare = &t->block;
}

/* False: the limit does not allow it. Else the bytes are counted as used; *mem: a kept block, or NULL. */
static bool take_kept(logical *l, const lki_free_block *want, void **mem)
{
    card *c = card_of(&l->device);
    LKI_HOLD(&c->lock);
    if (l->limit && l->used + want->size > l->limit) return false;
    token *t = (token *)lki_free_lists_take(&c->kept, want->size_class);
    *mem = t ? t->mem : NULL;
    if (t) add_spare(c, t);
    count_used(l, (int64_t)want->size);
    return true;
}

/* If there is no room, kept blocks are returned to the card first. A thread that waits for its turn finds what others returned. */
static int ask_card(card *c, size_t size, void **mem)
{
    const lki_gpu_backend *b = c->line.backend;
    int                    code = b->alloc(c->line.card, size, mem);
    if (!code || b->lost(code)) return code;
    lki_turn_take(&c->turn);
    trim(c);
    code = b->alloc(c->line.card, size, mem);
    lki_turn_give(&c->turn);
    return code;
}

/* A new block, whose bytes are counted as used already. */
static void *new_block(logical *l, size_t size, size_t bytes)
{
    card     *c = card_of(&l->device);
    token    *t = lki_alloc(sizeof *t);
    void     *mem = NULL;
    const int code = t ? ask_card(c, size, &mem) : 0;
    lki_mutex_take(&c->lock);
    if (t && !code) add_spare(c, t);
    else count_used(l, -(int64_t)size);
    lki_mutex_give(&c->lock);
    if (t && !code) return mem;
    if (code) no_room(&l->device, bytes, code);
    lki_release(t);
    return NULL;
}

static void *gpu_alloc(lki_device *d, size_t bytes)
{
    const lki_free_block want = lki_free_block_for(bytes, SMALLEST, LARGEST);
    void                *mem;
    if (lki_gpu_open(d) != LK_OK) return NULL;
    if (want.size_class == LKI_NO_CLASS || !take_kept((logical *)d, &want, &mem)) return no_room(d, bytes, 0), NULL;
    return mem ? mem : new_block((logical *)d, want.size, bytes);
}

static void gpu_release(lki_device *d, void *mem, size_t bytes)
{
    card *c = card_of(d);
    LKI_HOLD(&c->lock);
    token *t = (token *)c->spare;
    c->spare = t->block.next;
    *t = (token){lki_free_block_for(bytes, SMALLEST, LARGEST), mem};
    count_used((logical *)d, -(int64_t)t->block.size);
    lki_free_lists_put(&c->kept, &t->block, SIZE_MAX);
}

lki_gpu_memory lki_gpu_memory_of(lki_device *d)
{
    card          *c = card_of(d);
    lki_gpu_memory m = {.limit = ((logical *)d)->limit};
    if (lki_gpu_open(d) != LK_OK) return m;
    c->line.backend->available(c->line.card, &m.available);
    LKI_HOLD(&c->lock);
    m.used = m.limit ? ((logical *)d)->used : c->used;
    m.kept = (size_t)c->kept.bytes;
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

static lk_status gpu_read(lki_device *d, void *host, const void *src, size_t bytes)
{
    const lki_gpu_line *l = &card_of(d)->line;
    const int64_t       given = lki_gpu_given(d);
    LKI_TRY(lki_gpu_wait_for_bond(card_of(d)));
    LKI_TRY(
        lki_gpu_check(d, "a copy from the card failed, or work before it", l->backend->read(l->card, l->stream, host, src, bytes)));
    lki_gpu_done(d, given);
    return LK_OK;
}

/* Try once, with a few bytes, whether copies from that card arrive. */
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

static bool peer_works(lki_device *d, lki_device *from)
{
    unsigned char *state = &card_of(d)->peer[card_of(from)->line.card];
    if (__atomic_load_n(state, __ATOMIC_ACQUIRE) == PEER_UNKNOWN) {
        lki_turn_take(&card_of(d)->turn);
        bool       good = true;
        const bool unknown = *state == PEER_UNKNOWN;
        const int  code = unknown ? try_peer(&card_of(d)->line, &card_of(from)->line, &good) : 0;
        if (unknown) __atomic_store_n(state, good ? PEER_GOOD : PEER_BROKEN, __ATOMIC_RELEASE);
        lki_turn_give(&card_of(d)->turn);
        if (!good)
            lki_warn("copies from %s to %s %s; they go through the host instead", from->name, d->name,
                     code ? card_of(d)->line.backend->text(code) : "do not carry what they should");
    }
    return __atomic_load_n(state, __ATOMIC_ACQUIRE) == PEER_GOOD;
}

/* Find out which of two cards failed: on a lost card any call reports the loss. */
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
    LKI_TRY(lki_gpu_wait_for_bond(card_of(from)));
    if (peer_works(d, from)) return check_peer(d, from, l->backend->peer(l->card, l->stream, dst, f->card, f->stream, src, bytes));
    void *host = lki_alloc(bytes);
    if (!host) return LK_ENOMEM;
    lk_status status = from->ops->read(from, host, src, bytes);
    if (status == LK_OK) status = d->ops->write(d, dst, host, bytes);
    lki_release(host);
    return status;
}

/* ---- optional functions ---- */

static size_t gpu_room(lki_device *d)
{
    const lki_gpu_memory m = lki_gpu_memory_of(d);
    const size_t         allowed = m.limit > m.used ? m.limit - m.used : 0;
    return m.limit && allowed < m.available ? allowed : m.available;
}

static lk_status gpu_limit(lki_device *d, size_t bytes)
{
    LKI_HOLD(&card_of(d)->lock);
    ((logical *)d)->limit = bytes;
    return LK_OK;
}

static lk_status gpu_gather(lki_device *d, const lki_pick *rows)
{
    const lki_gpu_line *l = lki_gpu_line_of(d);
    return l ? lki_gpu_check(d, "rows cannot be gathered", l->backend->gather(l->card, l->stream, rows)) : lk_error_code();
}

static void gpu_words(lki_device *d, char *text, size_t size)
{
    const lki_gpu_card *c = &card_of(d)->what;
    snprintf(text, size, "%s, %zu MiB, %d multiprocessors, compute capability %d.%d", c->name, c->memory >> 20, c->processors,
             c->major, c->minor);
}

static const lki_device_ops gpu_ops = {.alloc = gpu_alloc,
                                       .release = gpu_release,
                                       .copy = gpu_copy,
                                       .write = gpu_write,
                                       .read = gpu_read,
                                       .peer = gpu_peer,
                                       .room = gpu_room,
                                       .limit = gpu_limit,
                                       .gather = gpu_gather,
                                       .words = gpu_words,
                                       .given = lki_gpu_given,
                                       .pending = lki_gpu_pending,
                                       .settle = lki_gpu_settle,
                                       .watch = lki_gpu_watch};

const lki_gpu_links *lki_gpu_links_here(const lki_device *d) { return card_of(d)->line.links; }

const char *lki_gpu_nccl(bool *found)
{
    const lki_device    *first = lki_device_gpu_at(0);
    const lki_gpu_links *links = first ? lki_gpu_links_here(first) : NULL;
    int                  is = 0;
    const char          *text = links ? links->nccl(&is) : "";
    *found = is;
    return text;
}

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

int         lki_gpu_cards(void) { return ready(), card_count; }
const char *lki_gpu_why(void) { return ready(), why; }

lki_device *lki_device_gpu_at(int index) { return index >= 0 && index < lki_gpu_devices() ? &gpus[index].device : NULL; }

lk_status lki_gpu_split(int per_card, size_t limit)
{
    ready();
    if (__atomic_load_n(&in_use, __ATOMIC_RELAXED))
        return lki_fail(LK_ESTATE, "GPUs cannot be cut into logical ones once one of them is in use");
    if (per_card < 1 || per_card > MOST_DEVICES)
        return lki_fail(LK_EINVAL, "%d logical GPUs on a card; 1 to %d are possible", per_card, MOST_DEVICES);
    LKI_HOLD(&split_lock);
    make_logical(per_card, limit);
    return LK_OK;
}

const lki_gpu_line *lki_gpu_line_of(lki_device *d) { return lki_gpu_open(d) == LK_OK ? &card_of(d)->line : NULL; }

const lki_gpu_card *lki_gpu_card_of(lki_device *d) { return &card_of(d)->what; }
