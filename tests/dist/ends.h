/* A replica's function that ends its thread, in every way and at every place, and the required result: on CPUs (tests/dist/ends.c)
 * and on cards (tests/gpu/ends.c).
 *
 *     ending e = {.strategy = s, .replica = 1, .at = IN_MERGE, .how = AFTER_ERROR};
 *     end_one(&e);                 lk_run() returns in time, its error names the replica and what would be right, the next run is
 *                                  right
 *
 * The including file defines NEEDS(condition): what to do if a condition is not met, on the thread of the test. */
#ifndef LK_TESTS_DIST_ENDS_H
#define LK_TESTS_DIST_ENDS_H

#include <lockstep.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

typedef enum place { AT_ONCE, OTHERS_WAIT, BETWEEN, IN_BLOCKS, IN_MERGE, AT_LAST, PLACES } place;
typedef enum manner { BY_EXIT, AFTER_ERROR, MANNERS } manner;

typedef struct ending {
    lk_strategy *strategy;
    int          replica;
    place        at;
    manner       how;
    bool         traced;
    bool         ends;      /* else the same program, to its end */
    bool         was_there; /* atomic: code after the end was reached */
} ending;

enum { RELEASED_WITHIN = 5 };

static inline double ending_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static inline void end_thread(ending *e)
{
    if (e->how == AFTER_ERROR) lk_matmul(lk_ones(LK_SHAPE(2, 3), LK_F32), lk_ones(LK_SHAPE(2, 3), LK_F32));
    pthread_exit(NULL);
}

static inline lk_tuple ending_merge(lk_strategy *s, lk_tuple args, void *user)
{
    ending *e = user;
    if (e->ends && e->at == IN_MERGE) end_thread(e);
    return LK_TUPLE(lk_reduce(s, LK_SUM, args.item[0]));
}

/* 1 + 2 + .. + n, twice, and once more by a merge call. */
static inline lk_tuple ending_body(lk_tuple in, void *user)
{
    ending             *e = user;
    lk_replica_context *c = lk_get_replica_context();
    const int           id = lk_replica_id_in_sync_group(c);
    const bool          mine = e->ends && id == e->replica;
    lk_tensor          *one = lk_fill(LK_SHAPE(3), LK_F32, 1 + id);
    (void)in;
    if (mine && e->at == AT_ONCE) end_thread(e);
    if (mine && e->at == OTHERS_WAIT) {
        nanosleep(&(struct timespec){0, 50000000}, NULL); /* by then they do */
        end_thread(e);
    }
    lk_tensor *sum = lk_all_reduce(c, LK_SUM, one);
    if (mine && e->at == BETWEEN) end_thread(e);
    if (mine && e->at == IN_BLOCKS)
        LK_POOL
            LK_STEP {
                lk_tape *tape = lk_tape_begin();
                lk_tape_watch(tape, one);
                lk_keep(lk_square(lk_add(one, sum)));
                end_thread(e);
            }
    sum = lk_add(sum, lk_all_reduce(c, LK_SUM, one));
    sum = lk_add(sum, lk_merge_call(c, ending_merge, LK_TUPLE(one), e).item[0]);
    if (mine && e->at == AT_LAST) end_thread(e);
    return LK_TUPLE(sum);
}

static inline lk_tuple ending_distributed(lk_tuple in, void *user)
{
    ending *e = user;
    return LK_TUPLE(lk_local_results(e->strategy, lk_run(e->strategy, ending_body, in, e).item[0]).item[0]);
}

static inline lk_tensor *ending_result(ending *e)
{
    return e->traced ? lk_call(lk_function_of(ending_distributed, e), LK_TUPLE()).item[0]
                     : ending_distributed(LK_TUPLE(), e).item[0];
}

static inline bool ending_says(const char *said, const ending *e)
{
    char      who[48];
    const int n = lk_num_replicas_in_sync(e->strategy);
    snprintf(who, sizeof who, "replica %d of %d on ", e->replica, n);
    return strstr(said, who) && strstr(said, e->at == IN_MERGE ? "lk_merge_call: " : "lk_run: ") &&
           strstr(said, "ended its thread") && strstr(said, "it must return instead") &&
           (e->how != AFTER_ERROR || strstr(said, "matmul"));
}

/* The strategy is as good as new. */
static inline void ending_after(ending e)
{
    const int n = lk_num_replicas_in_sync(e.strategy);
    e.ends = false;
    lk_tensor *sum = ending_result(&e);
    NEEDS(!lk_failed());
    NEEDS(((const float *)lk_data(sum))[2] == (float)(3 * n * (n + 1) / 2));
}

typedef struct ending_caller { /* a thread that calls lk_run() and is replica 0 */
    ending *e;
    char    logged[2048];
} ending_caller;

static inline void ending_log(const char *text, void *user)
{
    ending_caller *c = user;
    snprintf(c->logged, sizeof c->logged, "%s", text);
}

static inline void *ending_call(void *arg)
{
    ending_caller *c = arg;
    ending_result(c->e);
    __atomic_store_n(&c->e->was_there, true, __ATOMIC_RELAXED);
    return NULL;
}

static inline void end_caller(ending *e)
{
    ending_caller c = {.e = e};
    pthread_t     thread;
    lk_set_log(ending_log, &c);
    NEEDS(pthread_create(&thread, NULL, ending_call, &c) == 0);
    NEEDS(pthread_join(thread, NULL) == 0);
    lk_set_log(NULL, NULL);
    NEEDS(ending_says(c.logged, e));
    NEEDS(strstr(c.logged, "this was the calling thread"));
}

static inline void end_one(ending *e)
{
    const double begin = ending_seconds();
    e->ends = true;
    e->was_there = false;
    if (e->replica == 0) end_caller(e);
    else {
        LK_STEP
            ending_result(e);
        NEEDS(lk_error_code() == LK_ESTATE && ending_says(lk_error(), e));
        lk_clear_error();
    }
    NEEDS(ending_seconds() - begin < RELEASED_WITHIN);
    NEEDS(!__atomic_load_n(&e->was_there, __ATOMIC_RELAXED));
    LK_STEP
        ending_after(*e);
}

#endif
