/* Waiting, the barrier, cores and the floating-point environment; see thread.h for the invariants. */
#if defined(__linux__) && !defined(_GNU_SOURCE)
#define _GNU_SOURCE 1 /* affinity, sched_getcpu */
#endif
#include "core/thread.h"
#include "core/error.h"
#include "core/lock.h"
#include "core/open.h"
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#ifdef __linux__
#include <linux/futex.h>
#include <sys/syscall.h>
#endif

/* ---- waiting --------------------------------------------------------------------------------------------------------------- */

#ifdef __linux__
static void word_sleep_for(unsigned *word, unsigned value, int64_t nanoseconds)
{
    struct timespec limit = {nanoseconds / 1000000000, nanoseconds % 1000000000};
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, nanoseconds > 0 ? &limit : NULL, NULL, 0);
}
static void word_sleep(unsigned *word, unsigned value) { word_sleep_for(word, value, 0); }
static void word_wake(unsigned *word) { syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0); }
#else
static void word_sleep(unsigned *word, unsigned value)
{
    if (__atomic_load_n(word, __ATOMIC_SEQ_CST) == value) sched_yield();
}
static void word_sleep_for(unsigned *word, unsigned value, int64_t nanoseconds)
{
    (void)nanoseconds;
    word_sleep(word, value);
}
static void word_wake(unsigned *word) { (void)word; }
#endif

static inline void pause_core(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

int64_t lki_nanoseconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* How long a thread watches a word before it sleeps. Sleeping and waking up takes 5 to 20 microseconds. With a shorter time,
 * threads would fall asleep at every barrier only because the others were still waking up (measured with two threads, spins of 1, 4
 * and 20 microseconds: a barrier takes 900-6000, 80-400 and 40-80 nanoseconds). */
enum { SPIN_NANOSECONDS = 20000, MOST_SPINS = 1 << 16 };

/* A pause takes 4 to 140 cycles, depending on the processor; measured once, the shortest of a few measurements. */
static unsigned spins_measured;

static void measure_spins(void)
{
    enum { PAUSES = 64, TRIES = 8 };
    int64_t shortest = INT64_MAX;
    for (int i = 0; i < TRIES; i++) {
        int64_t before = lki_nanoseconds();
        for (int k = 0; k < PAUSES; k++)
            pause_core();
        shortest = lki_min(shortest, lki_nanoseconds() - before);
    }
    spins_measured = (unsigned)lki_min((int64_t)SPIN_NANOSECONDS * PAUSES / lki_max(shortest, 1), MOST_SPINS);
}

/* Spinning helps only if the thread that is waited for has its own core. */
static unsigned spins_for(int threads)
{
    static pthread_once_t measured = PTHREAD_ONCE_INIT;
    pthread_once(&measured, measure_spins);
    return threads <= lki_cores() ? spins_measured : 0;
}

/* Has the word changed while it was watched? */
static bool changes_soon(const unsigned *word, unsigned old, unsigned spins)
{
    for (unsigned i = 0; i < spins; i++) {
        if (__atomic_load_n(word, __ATOMIC_ACQUIRE) != old) return true;
        pause_core();
    }
    return false;
}

/* Return when *word is no longer `old`. */
static void wait_while(unsigned *word, unsigned old, unsigned *sleepers, unsigned spins)
{
    if (changes_soon(word, old, spins)) return;
    __atomic_fetch_add(sleepers, 1, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(word, __ATOMIC_SEQ_CST) == old)
        word_sleep(word, old);
    __atomic_fetch_sub(sleepers, 1, __ATOMIC_SEQ_CST);
}

bool lki_wait_while(unsigned *word, unsigned old, unsigned *sleepers, unsigned spins, int64_t deadline)
{
    if (!deadline) {
        wait_while(word, old, sleepers, spins);
        return true;
    }
    if (changes_soon(word, old, spins)) return true;
    __atomic_fetch_add(sleepers, 1, __ATOMIC_SEQ_CST);
    int64_t left;
    while (__atomic_load_n(word, __ATOMIC_SEQ_CST) == old && (left = deadline - lki_nanoseconds()) > 0)
        word_sleep_for(word, old, left);
    __atomic_fetch_sub(sleepers, 1, __ATOMIC_SEQ_CST);
    return __atomic_load_n(word, __ATOMIC_SEQ_CST) != old;
}

/* To be called after *word was changed. */
static void wake(unsigned *word, unsigned *sleepers)
{
    if (__atomic_load_n(sleepers, __ATOMIC_SEQ_CST)) word_wake(word);
}

void lki_wake(unsigned *word, unsigned *sleepers) { wake(word, sleepers); }

unsigned lki_spins_for(int threads) { return spins_for(threads); }

/* ---- barrier --------------------------------------------------------------------------------------------------------------- */

void lki_barrier_init(lki_barrier *b, int size)
{
    *b = (lki_barrier){.size = (unsigned)size, .spins = spins_for(size), .process = lki_process()};
}

void lki_barrier_renew(lki_barrier *b)
{
    if (b->process != lki_process()) lki_barrier_init(b, (int)b->size);
}

void lki_barrier_wait(lki_barrier *b)
{
    unsigned generation = __atomic_load_n(&b->generation, __ATOMIC_ACQUIRE);
    if (__atomic_add_fetch(&b->arrived, 1, __ATOMIC_ACQ_REL) < b->size) {
        wait_while(&b->generation, generation, &b->sleepers, b->spins);
        return;
    }
    __atomic_store_n(&b->arrived, 0, __ATOMIC_RELAXED);
    __atomic_fetch_add(&b->generation, 1, __ATOMIC_SEQ_CST);
    wake(&b->generation, &b->sleepers);
}

/* ---- cores ----------------------------------------------------------------------------------------------------------------- */

#ifdef __linux__
static lki_core_set set_of(const cpu_set_t *units)
{
    lki_core_set s = {0};
    for (int i = 0; i < LKI_MOST_UNITS && i < CPU_SETSIZE; i++)
        if (CPU_ISSET((size_t)i, units)) s.bits[i / 64] |= (uint64_t)1 << i % 64;
    return s;
}

/* The processing units of the first thread of the process: a worker that asks is itself bound to some. */
lki_core_set lki_process_cores(void)
{
    cpu_set_t units;
    return sched_getaffinity(getpid(), sizeof units, &units) == 0 ? set_of(&units) : (lki_core_set){0};
}
#else
lki_core_set lki_process_cores(void) { return (lki_core_set){0}; }
#endif

bool lki_core_in(const lki_core_set *s, int unit)
{
    return unit >= 0 && unit < LKI_MOST_UNITS && (s->bits[unit / 64] >> unit % 64 & 1);
}

int lki_core_count(const lki_core_set *s)
{
    int count = 0;
    for (int i = 0; i < LKI_COUNT(s->bits); i++)
        count += __builtin_popcountll(s->bits[i]);
    if (count) return count;
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    return cores > 0 ? (int)cores : 1;
}

/* One number or range at *at, which is moved after it. False: there is none. */
static bool read_range(const char **at, long *from, long *to)
{
    char *end;
    if (**at < '0' || **at > '9') return false;
    *from = *to = strtol(*at, &end, 10);
    if (*end == '-') {
        if (end[1] < '0' || end[1] > '9') return false;
        *to = strtol(end + 1, &end, 10);
    }
    *at = end + (*end == ',' && end[1]);
    return *from <= *to && (*end == 0 || *end == ',');
}

lk_status lki_cores_read(const char *call, const char *text, lki_core_set *out)
{
    const lki_core_set here = lki_process_cores();
    bool               any = false;
    long               from, to;
    *out = (lki_core_set){0};
    for (const char *at = text; *at || at == text;) {
        if (!read_range(&at, &from, &to))
            return lki_fail(LK_EINVAL, "%s: .cores = \"%s\"; it must be a list of numbers and ranges, as \"0-3,8\"", call, text);
        for (long i = from; i <= to && i < LKI_MOST_UNITS; i++)
            if (lki_core_in(&here, (int)i)) any = true, out->bits[i / 64] |= (uint64_t)1 << i % 64;
    }
    return any ? LK_OK : lki_fail(LK_EINVAL, "%s: .cores = \"%s\": this process may use none of them", call, text);
}

#ifdef __linux__
/* The first of the processing units in `s` that share a core with `unit`, from the kernel's list of them, as "0,8-9"; -1: it has
 * none. */
static int first_of_core(int unit, const lki_core_set *s)
{
    char path[96], text[1024] = "", *at = text;
    int  first = -1;
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", unit);
    const int file = lki_open(path, O_RDONLY);
    if (file < 0) return -1;
    if (read(file, text, sizeof text - 1) < 0) text[0] = 0;
    close(file);
    while (first < 0 && *at >= '0' && *at <= '9') {
        long from = strtol(at, &at, 10), to = *at == '-' ? strtol(at + 1, &at, 10) : from;
        for (; from <= to && from < LKI_MOST_UNITS && first < 0; from++)
            if (lki_core_in(s, (int)from)) first = (int)from;
        at += *at == ',';
    }
    return first;
}

int lki_physical_cores(const lki_core_set *s, int *core, int room)
{
    int       count = 0, unit = sched_getcpu();
    const int own = lki_core_in(s, unit) ? first_of_core(unit, s) : -1;
    if (own >= 0) core[count++] = own;
    for (unit = 0; unit < LKI_MOST_UNITS && count < room; unit++) {
        if (!lki_core_in(s, unit)) continue;
        const int first = first_of_core(unit, s);
        if (first < 0) return 0;
        if (first == unit && first != own) core[count++] = unit;
    }
    return count;
}

void lki_cores_bind(pthread_attr_t *attr, const lki_core_set *s)
{
    cpu_set_t units;
    CPU_ZERO(&units);
    for (int i = 0; i < LKI_MOST_UNITS && i < CPU_SETSIZE; i++)
        if (lki_core_in(s, i)) CPU_SET((size_t)i, &units);
    pthread_attr_setaffinity_np(attr, sizeof units, &units);
}
#else
int          lki_physical_cores(const lki_core_set *s, int *core, int room)
{
    (void)s, (void)core, (void)room;
    return 0;
}

void     lki_cores_bind(pthread_attr_t *attr, const lki_core_set *s) { (void)attr, (void)s; }
#endif

/* ---- floating-point environment -------------------------------------------------------------------------------------------- */

#if defined(__SSE__)
#include <xmmintrin.h>

enum {
    CSR_FLAGS = 0x003f,  /* flags that record events; the other bits are settings */
    CSR_KERNEL = 0x9fc0, /* flush to zero, denormals are zero, round to nearest, all exceptions masked */
};

unsigned lki_fp_enter(void)
{
    unsigned before = _mm_getcsr();
    if ((before & ~(unsigned)CSR_FLAGS) != CSR_KERNEL) _mm_setcsr(CSR_KERNEL);
    return before;
}

void lki_fp_leave(unsigned before)
{
    if ((before & ~(unsigned)CSR_FLAGS) != CSR_KERNEL) _mm_setcsr(before);
}
#else
unsigned lki_fp_enter(void) { return 0; }
void     lki_fp_leave(unsigned before) { (void)before; }
#endif
