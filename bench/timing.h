/* What the benches share: the clock, the best and the median of several measurements, memory in pages of its own. */
#ifndef LK_BENCH_TIMING_H
#define LK_BENCH_TIMING_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static inline double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static inline void pause_for(double seconds)
{
    const struct timespec t = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
    nanosleep(&t, NULL);
}

enum { MOST_ROUNDS = 64 };

/* Measurements of one thing, in the order they were made. */
typedef struct series {
    int    count;
    double value[MOST_ROUNDS];
} series;

static inline void series_add(series *s, double value)
{
    if (s->count < MOST_ROUNDS) s->value[s->count++] = value;
}

static inline int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static inline double series_median(series s)
{
    qsort(s.value, (size_t)s.count, sizeof *s.value, by_value);
    return s.count ? (s.value[(s.count - 1) / 2] + s.value[s.count / 2]) / 2 : 0;
}

static inline double series_largest(const series *s)
{
    double largest = 0;
    for (int i = 0; i < s->count; i++)
        largest = s->value[i] > largest ? s->value[i] : largest;
    return largest;
}

/* Seconds of one call: the shortest of several runs, each of as many calls as fill a slice of the time allowed. The first run,
 * which warms up, counts only when it uses up all the time. */
typedef void timed(void *arg);

static inline double seconds_of(timed *fn, void *arg, double allowed)
{
    enum { RUNS = 6 };
    double start = now();
    fn(arg);
    const double first = now() - start, slice = allowed / RUNS;
    double       best = first, used = first;
    long         calls = first > slice ? 1 : (long)(slice / first);
    for (int run = 0; run < RUNS && used < allowed; run++) {
        start = now();
        for (long i = 0; i < calls; i++)
            fn(arg);
        const double all = now() - start, each = all / (double)calls;
        best = run == 0 || each < best ? each : best;
        used += all;
        calls = each > slice ? 1 : (long)(slice / each) + 1;
    }
    return best;
}

static inline void *pages(size_t bytes)
{
    void *p = aligned_alloc(4096, (bytes + 4096) / 4096 * 4096);
    if (!p) {
        fprintf(stderr, "out of memory: %zu bytes\n", bytes);
        exit(1);
    }
    return p;
}

#endif
