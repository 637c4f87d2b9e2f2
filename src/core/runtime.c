/* Runtimes (runtime.h): the default one and its environment, those that programs make, and the one each thread has selected. */
#include "core/runtime.h"
#include "core/error.h"
#include "core/log.h"
#include "core/option.h"
#include "core/settings.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { DEFAULT_LANES = 8 };
#define DEFAULT_SEED 20240229

static lk_runtime standard = {.object = {.kind = LKI_KIND_RUNTIME}, .lanes = DEFAULT_LANES, .seed = DEFAULT_SEED};

static _Thread_local lk_runtime   *selected;                       /* NULL: the default one */
static _Thread_local lki_precision own_precision = LKI_PRECISIONS; /* that of the strategy */

static _Thread_local lki_own_seed own_seed;

static lki_turn list_turn; /* to walk or change the list of runtimes */

__attribute__((constructor)) static void make_crew(void) { lki_crew_init(&standard.crew); }

lk_runtime *lki_runtime_now(void) { return selected ? selected : &standard; }

void lki_runtime_select(lk_runtime *r)
{
    selected = r == &standard ? NULL : r;
    lki_account_select(r ? r->account : NULL);
}

/* ---- the environment ------------------------------------------------------------------------------------------------------- */

static bool lanes_valid(int64_t lanes) { return lanes >= 1 && lanes <= LKI_MAX_LANES && (lanes & (lanes - 1)) == 0; }

/* A whole number of at most 64 bits, without a sign. */
static bool read_number(const char *name, uint64_t *value)
{
    const char *text = getenv(name);
    char       *end;
    if (!text || !*text) return false;
    errno = 0;
    *value = strtoull(text, &end, 10);
    if (*text >= '0' && *text <= '9' && *end == 0 && errno == 0) return true;
    lki_warn("%s=%s is not a number of 64 bits and is ignored", name, text);
    return false;
}

static void read_precision(void)
{
    static const char *const names[] = LKI_PRECISION_NAMES;
    const char              *text = getenv("LOCKSTEP_PRECISION");
    if (!text || !*text) return;
    for (int i = 0; i < LKI_COUNT(names); i++)
        if (!strcmp(text, names[i])) {
            standard.precision = i;
            return;
        }
    lki_warn("LOCKSTEP_PRECISION=%s is not f32, tf32 or bf16 and is ignored", text);
}

static void read_environment(void)
{
    uint64_t value;
    if (read_number("LOCKSTEP_LANES", &value)) {
        if (lanes_valid((int64_t)value)) standard.lanes = (int)value;
        else
            lki_warn("LOCKSTEP_LANES=%llu is not a power of two from 1 to %d and is ignored", (unsigned long long)value,
                     LKI_MAX_LANES);
    }
    if (read_number("LOCKSTEP_THREADS", &value)) {
        if (value <= LKI_MAX_THREADS) standard.threads = (int)value;
        else lki_warn("LOCKSTEP_THREADS=%llu is outside 0 to %d and is ignored", (unsigned long long)value, LKI_MAX_THREADS);
    }
    if (read_number("LOCKSTEP_SEED", &value)) standard.seed = value;
    read_precision();
}

/* The runtime of this thread, with its settings initialised from the environment. */
static lk_runtime *ready(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, read_environment);
    return lki_runtime_now();
}

/* ---- settings of the current one ------------------------------------------------------------------------------------------- */

static lk_status check_lanes(const char *call, int lanes)
{
    return lanes_valid(lanes)
               ? LK_OK
               : lki_fail(LK_EINVAL, "%s(%d): lanes must be a power of two from 1 to %d", call, lanes, LKI_MAX_LANES);
}

static lk_status check_threads(const char *call, int threads)
{
    return threads >= 0 && threads <= LKI_MAX_THREADS
               ? LK_OK
               : lki_fail(LK_EINVAL, "%s(%d): threads must be 0 (all cores) to %d", call, threads, LKI_MAX_THREADS);
}

lk_status lk_set_lanes(int lanes)
{
    LKI_TRY(check_lanes("lk_set_lanes", lanes));
    __atomic_store_n(&ready()->lanes, lanes, __ATOMIC_RELAXED);
    return LK_OK;
}

int lk_lanes(void) { return __atomic_load_n(&ready()->lanes, __ATOMIC_RELAXED); }

lk_status lk_set_threads(int threads)
{
    LKI_TRY(check_threads("lk_set_threads", threads));
    __atomic_store_n(&ready()->threads, threads, __ATOMIC_RELAXED);
    return LK_OK;
}

int lk_threads(void)
{
    const int threads = __atomic_load_n(&ready()->threads, __ATOMIC_RELAXED);
    return threads ? threads : lki_cores();
}

/* The process's cores are counted once: every step asks, and the system call is slow. */
int lki_cores(void)
{
    static int        known;
    const lk_runtime *r = lki_runtime_now();
    if (r->core_count) return r->core_count;
    int cores = __atomic_load_n(&known, __ATOMIC_RELAXED);
    if (cores) return cores;
    const lki_core_set all = lki_process_cores();
    __atomic_store_n(&known, cores = lki_core_count(&all), __ATOMIC_RELAXED);
    return cores;
}

void lk_set_random_seed(uint64_t seed)
{
    __atomic_store_n(&ready()->seed, seed, __ATOMIC_RELAXED);
    own_seed.seed = seed;
}

uint64_t lk_random_seed(void) { return own_seed.on ? own_seed.seed : __atomic_load_n(&ready()->seed, __ATOMIC_RELAXED); }

lki_own_seed lki_seed_own(void) { return own_seed; }
void         lki_seed_set_own(lki_own_seed s) { own_seed = s; }

static lk_status check_precision(const char *call, lk_precision p)
{
    return (unsigned)p <= LK_PRECISION_BF16
               ? LK_OK
               : lki_fail(LK_EINVAL, "%s: precision %d; it must be LK_PRECISION_F32, LK_PRECISION_TF32 or LK_PRECISION_BF16", call,
                          (int)p);
}

/* LK_PRECISION_DEFAULT is the environment's setting. */
lk_status lk_set_precision(lk_precision p)
{
    LKI_TRY(check_precision("lk_set_precision", p));
    lk_runtime *r = ready();
    if (p) __atomic_store_n(&r->precision, (int)p - LK_PRECISION_F32, __ATOMIC_RELAXED);
    else if (r == &standard) read_precision();
    else __atomic_store_n(&r->precision, standard.precision, __ATOMIC_RELAXED);
    return LK_OK;
}

lk_precision lk_current_precision(void)
{
    return (lk_precision)(LK_PRECISION_F32 + __atomic_load_n(&ready()->precision, __ATOMIC_RELAXED));
}

lki_precision lki_precision_now(void)
{
    if (own_precision != LKI_PRECISIONS) return own_precision;
    return (lki_precision)__atomic_load_n(&ready()->precision, __ATOMIC_RELAXED);
}

void          lki_precision_of_strategy(lki_precision p) { own_precision = p; }
lki_precision lki_precision_own(void) { return own_precision; }

/* ---- making them ----------------------------------------------------------------------------------------------------------- */

static void leave_list(lk_runtime *r)
{
    lki_turn_take(&list_turn);
    if (r->next) r->next->previous = r->previous;
    if (r->previous) r->previous->next = r->next;
    lki_turn_give(&list_turn);
}

static void join_list(lk_runtime *r)
{
    lki_turn_take(&list_turn);
    r->previous = &standard;
    r->next = standard.next;
    if (r->next) r->next->previous = r;
    standard.next = r;
    lki_turn_give(&list_turn);
}

void lki_runtimes_rest(void)
{
    lki_turn_take(&list_turn);
    for (lk_runtime *r = &standard; r; r = r->next)
        lki_crew_end(&r->crew);
    lki_turn_give(&list_turn);
}

static void destroy(void *object)
{
    lk_runtime *r = object;
    leave_list(r);
    lki_crew_end(&r->crew);
    lki_mutex_destroy(&r->crew.lock);
    lki_account_drop(r->account);
}

static lk_status check(const lk_runtime_args *a, lki_core_set *cores)
{
    const char *call = "lk_runtime_of";
    if (a->lanes) LKI_TRY(check_lanes(call, a->lanes));
    LKI_TRY(check_threads(call, a->threads));
    LKI_TRY(check_precision(call, a->precision));
    if (lki_integer_given(a->memory_limit) && lki_integer(a->memory_limit) <= 0)
        return lki_fail(LK_EINVAL, "%s: .memory_limit = %lld bytes; it must be more than 0", call,
                        (long long)lki_integer(a->memory_limit));
    if (a->run && !a->threads)
        return lki_fail(LK_EINVAL, "%s: .run without .threads; say how many pieces it can run at the same time", call);
    return a->cores ? lki_cores_read(call, a->cores, cores) : LK_OK;
}

lk_runtime *lk_runtime_kw(lk_runtime_args a)
{
    const lk_runtime *from = ready();
    lki_core_set      cores = {0};
    if (check(&a, &cores) != LK_OK) return NULL;
    lki_account *account = lki_integer_given(a.memory_limit) ? lki_account_new(lki_integer(a.memory_limit)) : NULL;
    if (lki_integer_given(a.memory_limit) && !account) return NULL;
    lk_runtime *r = lki_object_new(sizeof *r, LKI_KIND_RUNTIME, LKI_LIVES_IN_POOL, destroy);
    if (!r) return lki_account_drop(account), NULL;
    lki_crew_init(&r->crew);
    r->account = account;
    r->lanes = a.lanes ? a.lanes : lk_lanes();
    r->threads = a.threads;
    r->seed = (uint64_t)lki_integer_or(a.seed, (int64_t)lk_random_seed());
    r->precision = (int)(a.precision ? a.precision : lk_current_precision()) - LK_PRECISION_F32;
    r->output = a.output ? (lki_text_hook){a.output, a.user} : lki_hook_of(&from->output);
    r->log = a.log ? (lki_text_hook){a.log, a.user} : lki_hook_of(&from->log);
    r->cores = cores;
    r->core_count = a.cores ? lki_core_count(&cores) : 0;
    r->run = a.run;
    r->user = a.user;
    join_list(r);
    return r;
}

/* ---- selecting them -------------------------------------------------------------------------------------------------------- */

lk_runtime *lk_runtime_current(void) { return ready(); }
lk_runtime *lk_runtime_default(void) { return &standard; }

/* The block stores the runtime that was selected before; the thread stores the new one. */
lki_block lki_runtime_enter(lk_runtime *r)
{
    if (!lki_is_kind(r, LKI_KIND_RUNTIME)) return lki_fail(LK_EINVAL, "LK_WITH_RUNTIME: not a runtime"), (lki_block){0};
    const lki_block block = {.open = 1, .owner = lki_runtime_now()};
    lki_runtime_select(lki_retain(r));
    return block;
}

void lki_runtime_leave(lki_block *block)
{
    if (!block->owner) return;
    lk_runtime *inside = lki_runtime_now();
    lki_runtime_select(block->owner);
    lki_drop(inside);
    *block = (lki_block){0};
}
