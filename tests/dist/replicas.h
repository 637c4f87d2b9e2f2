/* What the tests of strategies share.
 *
 *     lk_strategy *s = mirrored(2);
 *     lk_tensor   *ids = lk_run(s, id_of_each, LK_TUPLE()).item[0];
 *     PER_REPLICA(s, ids, 0, 1);                               one scalar per replica
 *     PRINTS(lk_print(ids), "PerReplica:{\n  0: 0\n  1: 1\n}\n");
 *     REFUSED(LK_EINVAL, lk_add(ids, ids), "add", "per-replica value");
 *
 * Functions given to lk_run() run on threads that cmocka does not know: there EXPECT() counts, and SOUND() outside asserts. */
#ifndef LK_TESTS_DIST_REPLICAS_H
#define LK_TESTS_DIST_REPLICAS_H

#include "core/dtype.h"
#include "op/mistakes.h"
#include <stdlib.h>
#include <time.h>

/* Replicas test themselves with 1, 2, 3, 4 and 8 of them. */
static const int COUNTS[] = {1, 2, 3, 4, 8};
#define EACH_COUNT(n) for (int i_ = 0, n = COUNTS[0]; i_ < 5; n = COUNTS[++i_ < 5 ? i_ : 0])

static inline void quiet(const char *text, void *user) { (void)text, (void)user; }

static inline lk_strategy *mirrored(int n)
{
    lk_set_log(quiet, NULL);
    return lk_mirrored_strategy(.cpu_devices = n, .lanes = n > 8 ? 64 : 8);
}

/* ---- on any thread ---- */

static int unexpected; /* atomic */

static inline bool expect(bool good, const char *what, int line)
{
    if (good) return true;
    print_error("line %d: %s%s%s\n", line, what, lk_failed() ? ": " : "", lk_failed() ? lk_error() : "");
    __atomic_fetch_add(&unexpected, 1, __ATOMIC_RELAXED);
    return false;
}
#define EXPECT(condition) expect(condition, #condition, __LINE__)
#define EXPECT_TOLD(code, ...)                                                                                                     \
    expect(mistake_told(__func__, code, (const char *const[]){__VA_ARGS__, NULL}), "the error above", __LINE__)

#define REPLICA_FN(name) static lk_tuple name(lk_tuple in __attribute__((unused)), void *user __attribute__((unused)))
#define MERGE_FN(name)                                                                                                             \
    static lk_tuple name(lk_strategy *s __attribute__((unused)), lk_tuple in __attribute__((unused)),                              \
                         void *user __attribute__((unused)))

static inline int my_id(void) { return lk_replica_id_in_sync_group(lk_get_replica_context()); }

/* A number of this replica's own: id + x. */
static inline lk_tensor *mine(double x) { return lk_fill(LK_SHAPE(), LK_F32, my_id() + x); }

static inline double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static inline void sleep_for(double s) { nanosleep(&(struct timespec){(time_t)s, (long)((s - (double)(time_t)s) * 1e9)}, NULL); }

/* ---- on the test's thread ---- */

/* The next test starts clean. */
#define GIVE_UP(...)                                                                                                               \
    do {                                                                                                                           \
        char text_[1200];                                                                                                          \
        snprintf(text_, sizeof text_, __VA_ARGS__);                                                                                \
        lk_clear_error();                                                                                                          \
        fail_msg("%s", text_);                                                                                                     \
    } while (0)

static inline void sound(int line)
{
    if (lk_failed()) GIVE_UP("line %d: %s", line, lk_error());
    assert_int_equal(__atomic_exchange_n(&unexpected, 0, __ATOMIC_RELAXED), 0);
}
#define SOUND() sound(__LINE__)

/* The expression fails, with this code and these words; afterwards the thread is clean. */
#define REFUSED(code, expression, ...)                                                                                             \
    do {                                                                                                                           \
        (void)(expression);                                                                                                        \
        if (!mistake_told(#expression, code, (const char *const[]){__VA_ARGS__, NULL})) fail_msg("not refused as it should be");   \
    } while (0)

static inline void check_values(int line, lk_tensor *t, int count, const double *one_based)
{
    if (lk_poisoned(t) || lk_failed()) GIVE_UP("line %d: %s", line, lk_error());
    const void *data = lk_data(t);
    if (lk_size(t) != count || lk_failed())
        GIVE_UP("line %d: %lld elements, not %d %s", line, (long long)lk_size(t), count, lk_error());
    for (int i = 0; i < count; i++) {
        const double x = lki_element_get(lk_tensor_dtype(t), data, i), y = one_based[1 + i];
        if (!(fabs(x - y) <= 1e-6 * fmax(1, fabs(y)))) GIVE_UP("line %d: element %d is %.9g, not %.9g", line, i, x, y);
    }
}
#define VALUES(t, ...) check_values(__LINE__, t, LKI_LIST(double, __VA_ARGS__))

static inline void check_per_replica(int line, lk_strategy *s, lk_tensor *t, int count, const double *one_based)
{
    lk_tuple each = lk_local_results(s, t);
    if (each.count != count) GIVE_UP("line %d: %d values, not %d: %s", line, each.count, count, lk_error());
    for (int r = 0; r < count; r++)
        check_values(line, each.item[r], 1, (const double[]){0, one_based[1 + r]});
}
#define PER_REPLICA(s, t, ...) check_per_replica(__LINE__, s, t, LKI_LIST(double, __VA_ARGS__))

/* ---- variables ---- */

typedef lk_aggregation aggregation;
#define NONE LK_AGGREGATION_NONE
#define SUM LK_AGGREGATION_SUM
#define MEAN LK_AGGREGATION_MEAN
#define FIRST LK_AGGREGATION_ONLY_FIRST_REPLICA
static const aggregation ALL[] = {NONE, SUM, MEAN, FIRST};

static inline lk_variable *made(lk_strategy *s, lk_variable_args a)
{
    lk_variable *v = NULL;
    LK_SCOPE(s) {
        v = lk_variable_kw(a);
    }
    return v;
}
#define MADE(s, ...) made(s, LKI_KW(lk_variable_args, __VA_ARGS__))
#define ON_READ(s, aggregation_, ...) MADE(s, __VA_ARGS__, .synchronization = LK_SYNC_ON_READ, .aggregation = aggregation_)

typedef lk_status       scatterer(lk_variable *v, lk_tensor *ids, lk_tensor *rows);
static scatterer *const SCATTER[] = {lk_scatter_add, lk_scatter_sub, lk_scatter_mul,   lk_scatter_div,
                                     lk_scatter_min, lk_scatter_max, lk_scatter_update};

/* One scalar per component of a variable. */
static inline void check_components(int line, lk_strategy *s, lk_variable *v, int count, const double *one_based)
{
    lk_tuple each = lk_local_variables(s, v);
    if (each.count != count) GIVE_UP("line %d: %d components, not %d: %s", line, each.count, count, lk_error());
    for (int r = 0; r < count; r++)
        check_values(line, each.item[r], 1, (const double[]){0, one_based[1 + r]});
}
#define COMPONENTS(s, v, ...) check_components(__LINE__, s, v, LKI_LIST(double, __VA_ARGS__))

static struct {
    char   text[16384];
    size_t used;
} heard;

static inline void hear(const char *text, void *user)
{
    heard.used += (size_t)snprintf(heard.text + heard.used, sizeof heard.text - heard.used, "%s%s", text, user ? "\n" : "");
    if (heard.used >= sizeof heard.text) heard.used = sizeof heard.text - 1;
}

static inline void listen(void)
{
    heard.used = 0;
    heard.text[0] = 0;
}

#define PRINTS(call, wanted)                                                                                                       \
    do {                                                                                                                           \
        listen();                                                                                                                  \
        lk_set_output(hear, NULL);                                                                                                 \
        (void)(call);                                                                                                              \
        lk_set_output(NULL, NULL);                                                                                                 \
        assert_string_equal(heard.text, wanted);                                                                                   \
    } while (0)

#define LOGS(call, wanted)                                                                                                         \
    do {                                                                                                                           \
        listen();                                                                                                                  \
        lk_set_log(hear, &heard);                                                                                                  \
        (void)(call);                                                                                                              \
        lk_set_log(quiet, NULL);                                                                                                   \
        assert_string_equal(heard.text, wanted);                                                                                   \
    } while (0)

static inline lk_tensor *vector_of(lk_dtype dtype, int count, const double *one_based)
{
    return lk_cast(lk_tensor_of_values(LK_SHAPE(count), count, one_based), dtype);
}
#define VECTOR(...) vector_of(LK_F32, LKI_LIST(double, __VA_ARGS__))
#define VECTOR_OF(dtype, ...) vector_of(dtype, LKI_LIST(double, __VA_ARGS__))

/* A per-replica value out of tensors. */
static inline lk_tensor *pick(const lk_value_context *c, void *user)
{
    return ((lk_tuple *)user)->item[c->replica_id_in_sync_group];
}
#define SPREAD(s, ...) lk_values_from_function(s, pick, &(lk_tuple){0, LK_TUPLE(__VA_ARGS__).item})

#endif
