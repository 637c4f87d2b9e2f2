/* The settings of the process that decide how work is cut: lanes, threads, and the seed of all random numbers. Each has an
 * environment variable (LOCKSTEP_LANES, LOCKSTEP_THREADS, LOCKSTEP_SEED), read once, and a call that does the same. */
#include "core/settings.h"
#include "core/error.h"
#include "core/log.h"
#include "core/thread.h"
#include <errno.h>
#include <lockstep/tensor.h>
#include <pthread.h>
#include <stdlib.h>

enum { DEFAULT_LANES = 8 };
#define DEFAULT_SEED 20240229

static struct {
    int      lanes, threads;
    uint64_t seed;
} settings = {DEFAULT_LANES, 0, DEFAULT_SEED};

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

static void read_environment(void)
{
    uint64_t value;
    if (read_number("LOCKSTEP_LANES", &value)) {
        if (lanes_valid((int64_t)value)) settings.lanes = (int)value;
        else
            lki_warn("LOCKSTEP_LANES=%llu is not a power of two from 1 to %d and is ignored", (unsigned long long)value,
                     LKI_MAX_LANES);
    }
    if (read_number("LOCKSTEP_THREADS", &value)) {
        if (value <= LKI_MAX_THREADS) settings.threads = (int)value;
        else lki_warn("LOCKSTEP_THREADS=%llu is outside 0 to %d and is ignored", (unsigned long long)value, LKI_MAX_THREADS);
    }
    if (read_number("LOCKSTEP_SEED", &value)) settings.seed = value;
}

static void ready(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, read_environment);
}

lk_status lk_set_lanes(int lanes)
{
    ready();
    if (!lanes_valid(lanes))
        return lki_fail(LK_EINVAL, "lk_set_lanes(%d): lanes must be a power of two from 1 to %d", lanes, LKI_MAX_LANES);
    __atomic_store_n(&settings.lanes, lanes, __ATOMIC_RELAXED);
    return LK_OK;
}

int lk_lanes(void)
{
    ready();
    return __atomic_load_n(&settings.lanes, __ATOMIC_RELAXED);
}

lk_status lk_set_threads(int threads)
{
    ready();
    if (threads < 0 || threads > LKI_MAX_THREADS)
        return lki_fail(LK_EINVAL, "lk_set_threads(%d): threads must be 0 (all cores) to %d", threads, LKI_MAX_THREADS);
    __atomic_store_n(&settings.threads, threads, __ATOMIC_RELAXED);
    return LK_OK;
}

int lk_threads(void)
{
    ready();
    int threads = __atomic_load_n(&settings.threads, __ATOMIC_RELAXED);
    return threads ? threads : lki_cores();
}

void lk_set_random_seed(uint64_t seed)
{
    ready();
    __atomic_store_n(&settings.seed, seed, __ATOMIC_RELAXED);
}

uint64_t lk_random_seed(void)
{
    ready();
    return __atomic_load_n(&settings.seed, __ATOMIC_RELAXED);
}
