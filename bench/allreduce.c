/* How fast values of all replicas are summed, compared with how fast memory is.
 *
 *     allreduce [REPLICAS]          default 2; a table, and as the last line JSON of it
 *
 * Every replica passes in a tensor of n bytes and gets the sum. In comparison n bytes are copied by each of as many threads, at the
 * same time: reading N tensors and writing N results cannot be faster than that copy, unless one result is used by all. Both
 * alternate, the best round counts. Bandwidth is bytes passed in by all replicas over the time of lk_run(). */
#include "timing.h"
#include <lockstep.h>
#include <threads.h>

enum { MOST = 8, ROUNDS = 7 };

static int replicas = 2;

/* ---- the sum ---------------------------------------------------------------------------------------------------------------- */

typedef struct sum {
    lk_strategy *strategy;
    lk_tensor   *each; /* a per-replica value */
} sum;

static lk_tuple on_replica(lk_tuple in, void *user)
{
    (void)user;
    return LK_TUPLE(lk_all_reduce(lk_get_replica_context(), LK_SUM, in.item[0]));
}

static lk_tensor *own_value(const lk_value_context *c, void *user)
{
    const int64_t *count = user;
    return lk_fill(LK_SHAPE(*count), LK_F32, c->replica_id_in_sync_group + 1);
}

static double sum_once(sum *s)
{
    double seconds = 0;
    LK_STEP {
        const double start = now();
        lk_run(s->strategy, on_replica, LK_TUPLE(s->each));
        seconds = now() - start;
    }
    return seconds;
}

/* ---- the copy --------------------------------------------------------------------------------------------------------------- */

typedef struct copy {
    size_t bytes;
    char  *from, *to;
    double seconds;
} copy;

static int copy_once(void *arg)
{
    copy        *c = arg;
    const double start = now();
    memcpy(c->to, c->from, c->bytes);
    c->seconds = now() - start;
    return 0;
}

static double copy_all(copy *each)
{
    thrd_t thread[MOST];
    double slowest = 0;
    for (int i = 0; i < replicas; i++)
        thrd_create(&thread[i], copy_once, &each[i]);
    for (int i = 0; i < replicas; i++) {
        thrd_join(thread[i], NULL);
        slowest = each[i].seconds > slowest ? each[i].seconds : slowest;
    }
    return slowest;
}

/* ---- one line --------------------------------------------------------------------------------------------------------------- */

typedef struct pair {
    double sum, copy; /* seconds */
} pair;

static pair measure(lk_strategy *strategy, int64_t bytes)
{
    int64_t count = bytes / 4;
    sum     s = {strategy, lk_keep(lk_values_from_function(strategy, own_value, &count))};
    copy    each[MOST];
    pair    best = {1e9, 1e9};
    for (int i = 0; i < replicas; i++) {
        each[i] = (copy){(size_t)bytes, pages((size_t)bytes), pages((size_t)bytes), 0};
        memset(each[i].from, 1, (size_t)bytes);
        memset(each[i].to, 2, (size_t)bytes);
    }
    for (int round = 0; round < ROUNDS; round++)
        for (int again = 0; again < (bytes < 1 << 20 ? 50 : 2); again++) {
            const double a = sum_once(&s), b = copy_all(each);
            best.sum = a < best.sum ? a : best.sum;
            best.copy = b < best.copy ? b : best.copy;
        }
    for (int i = 0; i < replicas; i++) {
        free(each[i].from);
        free(each[i].to);
    }
    lk_free(s.each);
    return best;
}

static void quiet(const char *text, void *user) { (void)text, (void)user; }

int main(int argc, char **argv)
{
    static const int64_t sizes[] = {4 << 10, 64 << 10, 1 << 20, 16 << 20, 64 << 20};
    enum { SIZES = sizeof sizes / sizeof *sizes };
    pair p[SIZES];
    if (argc > 1) replicas = atoi(argv[1]);
    if (replicas < 1 || replicas > MOST) return 2;
    lk_set_log(quiet, NULL);
    lk_strategy *s = lk_mirrored_strategy(.cpu_devices = replicas);
    printf("%d replicas %12s %12s %12s %12s\n", replicas, "bytes each", "sum us", "sum GB/s", "copy GB/s");
    for (int i = 0; i < SIZES; i++) {
        p[i] = measure(s, sizes[i]);
        const double all = 1e-9 * (double)(sizes[i] * replicas);
        printf("           %12lld %12.1f %12.1f %12.1f\n", (long long)sizes[i], 1e6 * p[i].sum, all / p[i].sum, all / p[i].copy);
        fflush(stdout);
    }
    printf("{\"replicas\": %d, \"sizes\": [", replicas);
    for (int i = 0; i < SIZES; i++) {
        const double all = 1e-9 * (double)(sizes[i] * replicas);
        printf("%s{\"bytes\": %lld, \"sum_gb_s\": %.2f, \"copy_gb_s\": %.2f}", i ? ", " : "", (long long)sizes[i], all / p[i].sum,
               all / p[i].copy);
    }
    printf("]}\n");
    if (lk_failed()) fprintf(stderr, "%s\n", lk_error());
    return lk_failed();
}
