/* What a strategy costs: the compiled step of the custom training model without one, under a strategy of one device, and of two and
 * four; and a run of nothing at all.
 *
 *     strategy                        the table
 *     strategy count KIND STEPS       only so many steps, KIND being plain or mirrored: for counting instructions (tools/overhead)
 *
 * The sides take turns, round by round, in one process; columns are the best and the median round in microseconds, and the median
 * of the ratios to the plain step. */
#include "../tests/step/models.h"
#include "timing.h"

enum { BATCHES = 4, ROUNDS = 15, STEPS = 40, EMPTY_RUNS = 100000 };

static int64_t batch_size = 64;

typedef struct side {
    const char  *name;
    int          devices; /* 0: no strategy */
    lk_strategy *strategy;
    model        m;
    lk_function *step;
    lk_dataset  *data;
    lk_tuple     batch[BATCHES];
    series       seconds;
} side;

static lk_tuple distributed_step(lk_tuple in, void *user)
{
    side    *s = user;
    lk_tuple out = lk_run(s->strategy, model_step, in, &s->m);
    return LK_TUPLE(lk_reduce(s->strategy, LK_SUM, out.item[0]), lk_reduce(s->strategy, LK_SUM, out.item[1]));
}

static lk_tuple kept(lk_tuple in)
{
    for (int i = 0; i < in.count; i++)
        lk_keep(in.item[i]);
    return in;
}

static void batches_of(side *s)
{
    lk_tensor *rows[2];
    for (int i = 0; i < BATCHES; i++) {
        lk_tuple whole = kept(model_batch(&s->m, batch_size, i));
        s->batch[i] = whole;
        if (s->devices < 2) continue;
        lk_dataset  *d = lk_distribute_dataset(s->strategy, lk_dataset_batch(lk_dataset_from_tensor_slices(whole), batch_size),
                                               .prefetch = LK_NUMBER(0));
        lk_iterator *it = lk_iterator_of(d);
        lk_tuple     part;
        if (!lk_next(it, &part)) exit(1);
        rows[0] = lk_keep(part.item[0]);
        rows[1] = lk_keep(part.item[1]);
        s->batch[i] = kept(lk_tuple_from(2, rows));
    }
}

static void start(side *s)
{
    if (s->devices) s->strategy = lk_mirrored_strategy(.cpu_devices = s->devices);
    if (s->strategy)
        LK_SCOPE(s->strategy)
            s->m = model_new(2, batch_size);
    else s->m = model_new(2, batch_size);
    batches_of(s);
    s->step = s->devices ? lk_function_of(distributed_step, s) : lk_function_of(model_step, &s->m);
}

static void steps(side *s, int count)
{
    for (int i = 0; i < count; i++)
        LK_STEP
            lk_call(s->step, s->batch[i % BATCHES]);
}

static void quiet(const char *text, void *user) { (void)text, (void)user; }

static int count_steps(const char *kind, int count)
{
    side s = {.devices = strcmp(kind, "plain") != 0};
    lk_set_threads(1);
    batch_size = 8; /* valgrind takes seconds for a step of even these */
    start(&s);
    steps(&s, count);
    return lk_failed();
}

static void compare(void)
{
    side   sides[] = {{.name = "no strategy"},
                      {.name = "1 device", .devices = 1},
                      {.name = "2 devices", .devices = 2},
                      {.name = "4 devices", .devices = 4}};
    series ratio[4] = {{0}};
    for (int i = 0; i < 4; i++) {
        start(&sides[i]);
        steps(&sides[i], STEPS);
    }
    for (int round = 0; round < ROUNDS; round++)
        for (int i = 0; i < 4; i++) {
            const double begin = now();
            steps(&sides[i], STEPS);
            series_add(&sides[i].seconds, (now() - begin) / STEPS);
            series_add(&ratio[i], sides[i].seconds.value[round] / sides[0].seconds.value[round]);
        }
    printf("%-14s %10s %10s %10s %14s\n", "custom, G = 64", "best us", "median us", "ratio", "kernel calls");
    for (int i = 0; i < 4; i++) {
        double best = 1e9;
        for (int k = 0; k < ROUNDS; k++)
            best = sides[i].seconds.value[k] < best ? sides[i].seconds.value[k] : best;
        printf("%-14s %10.1f %10.1f %10.3f %14d\n", sides[i].name, 1e6 * best, 1e6 * series_median(sides[i].seconds),
               series_median(ratio[i]), lk_function_inspect(sides[i].step).calls);
    }
}

static lk_tuple nothing(lk_tuple in, void *user) { return (void)user, in; }

static void empty_runs(int devices)
{
    lk_strategy *s = lk_mirrored_strategy(.cpu_devices = devices);
    double      *each = malloc(EMPTY_RUNS * sizeof *each);
    for (int i = 0; each && i < EMPTY_RUNS; i++)
        LK_STEP {
            const double begin = now();
            lk_run(s, nothing, LK_TUPLE());
            each[i] = now() - begin;
        }
    if (each) {
        qsort(each, EMPTY_RUNS, sizeof *each, by_value);
        printf("an empty run on %d: median %.2f us, best %.2f us, 99 of 100 below %.2f us (%d runs)\n", devices,
               1e6 * each[EMPTY_RUNS / 2], 1e6 * each[0], 1e6 * each[EMPTY_RUNS / 100 * 99], EMPTY_RUNS);
    }
    free(each);
}

int main(int argc, char **argv)
{
    lk_set_log(quiet, NULL);
    if (argc == 4 && !strcmp(argv[1], "count")) return count_steps(argv[2], atoi(argv[3]));
    compare();
    empty_runs(1);
    empty_runs(2);
    if (lk_failed()) fprintf(stderr, "%s\n", lk_error());
    return lk_failed();
}
