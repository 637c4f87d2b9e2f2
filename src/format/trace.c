/* Recording traces (trace.h). */
#include "format/trace.h"
#include "core/error.h"
#include "core/lock.h"
#include "core/memory.h"
#include "core/thread.h"
#include <lockstep/step.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST_SPANS = 1 << 21, NO_REPLICA = -1 };

typedef struct track { /* of one thread */
    struct track *next;
    int           number, count, room;
    int64_t       dropped;
    unsigned      round; /* the trace that its spans belong to */
    char          name[32];
    lki_span     *item;
} track;

int lki_tracing;

LKI_MUTEX(lock);
static track               *tracks;
static int                  track_count, replicas = 1, lanes = 8;
static unsigned             rounds;
static int64_t              zero; /* when tracing began */
static _Thread_local track *mine;
static _Thread_local char   my_name[32];

/* ---- environment ---- */

static void write_at_exit(void) { lk_trace_end(getenv("LOCKSTEP_TRACE")); }

static void look_at_environment(void)
{
    const char *path = getenv("LOCKSTEP_TRACE");
    if (path && *path && lk_trace_begin() == LK_OK) atexit(write_at_exit);
}

/* ---- recording ---- */

int64_t lki_span_begin(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, look_at_environment);
    return __atomic_load_n(&lki_tracing, __ATOMIC_ACQUIRE) ? lki_nanoseconds() : 0;
}

static track *track_of_thread(void)
{
    if (!mine) {
        track *t = lki_zalloc(sizeof *t);
        if (!t) return NULL;
        lki_mutex_take(&lock);
        t->next = tracks;
        t->number = track_count++;
        tracks = t;
        lki_mutex_give(&lock);
        snprintf(t->name, sizeof t->name, "%s", my_name);
        mine = t;
    }
    if (mine->round != __atomic_load_n(&rounds, __ATOMIC_ACQUIRE)) {
        mine->count = 0;
        mine->dropped = 0;
        mine->round = __atomic_load_n(&rounds, __ATOMIC_ACQUIRE);
    }
    return mine;
}

void lki_trace_thread(const char *name)
{
    snprintf(my_name, sizeof my_name, "%s", name);
    if (mine) snprintf(mine->name, sizeof mine->name, "%s", name);
}

void lki_trace_replicas(int count, int over)
{
    __atomic_store_n(&replicas, count, __ATOMIC_RELAXED);
    __atomic_store_n(&lanes, over, __ATOMIC_RELAXED);
}

/* Replica r owns the lanes from floor(V*r/N) on. */
static int owner(int lane)
{
    int n = __atomic_load_n(&replicas, __ATOMIC_RELAXED), v = __atomic_load_n(&lanes, __ATOMIC_RELAXED), r = 0;
    while (r + 1 < n && v * (r + 1) / n <= lane)
        r++;
    return r;
}

void lki_span_end(int64_t began, lki_span_kind kind, const char *name, int lane)
{
    if (!began) return;
    int64_t ended = lki_nanoseconds();
    track  *t = track_of_thread();
    if (!t) return;
    if (t->count == MOST_SPANS || !lki_grow((void **)&t->item, &t->room, t->count + 1, sizeof *t->item)) t->dropped++;
    else
        t->item[t->count++] =
            (lki_span){began, ended, name, (int16_t)lane, (int16_t)(lane < 0 ? NO_REPLICA : owner(lane)), (uint8_t)kind};
}

/* ---- from beginning to end ---- */

lk_status lk_trace_begin(void)
{
    int before = 0;
    if (__atomic_load_n(&lki_tracing, __ATOMIC_ACQUIRE))
        return lki_fail(LK_ESTATE, "lk_trace_begin: a trace is being recorded already");
    __atomic_fetch_add(&rounds, 1, __ATOMIC_RELEASE);
    zero = lki_nanoseconds();
    __atomic_compare_exchange_n(&lki_tracing, &before, 1, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED);
    return LK_OK;
}

lk_status lki_trace_stop(void)
{
    if (__atomic_exchange_n(&lki_tracing, 0, __ATOMIC_ACQ_REL)) return LK_OK;
    return lki_fail(LK_ESTATE, "lk_trace_end: no trace is being recorded");
}

void lki_trace_go_on(void) { __atomic_store_n(&lki_tracing, 1, __ATOMIC_RELEASE); }

int64_t lki_trace_each(lki_span_fn *fn, void *user)
{
    int64_t dropped = 0;
    LKI_HOLD(&lock);
    for (const track *t = tracks; t; t = t->next) {
        if (t->round != rounds) continue;
        for (int i = 0; i < t->count; i++)
            fn(&t->item[i], t->number, t->name, user);
        dropped += t->dropped;
    }
    return dropped;
}

int     lki_trace_replica_count(void) { return __atomic_load_n(&replicas, __ATOMIC_RELAXED); }
int64_t lki_trace_zero(void) { return zero; }
