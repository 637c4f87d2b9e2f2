/* How fast a whole training step is: rows per second of forward, loss, gradients and Adam of the two models of
 * tests/step/models.h, compiled by lockstep, beside the same step written directly on oneDNN (onednn_step.h).
 *
 *     step [--quick] [basic | custom]
 *
 * Each configuration has two processes of its own, one per library, which never run at the same time and take turns, round by
 * round: what disturbs the machine disturbs both, and the threads of one never spin beside the other's. Before the rounds both make
 * the same three steps from the same weights; losses that differ by more than 1e-4 (relative) fail the bench, for then they do not
 * do the same work.
 *
 * Columns: the best and the median round of each, and the ratio of lockstep's to oneDNN's: of the bests, and the median over the
 * rounds. */
#include "../tests/step/models.h"
#include "timing.h"
#include <math.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(LK_HAVE_ONEDNN)
#include <oneapi/dnnl/dnnl_version.h>
#if DNNL_VERSION_MAJOR == 2
#include "onednn_step.h"
#define WITH_ONEDNN 1
#endif
#endif

enum { BATCHES = 8, CHECKED = 3 };

typedef struct config {
    const char *model;
    int         convolutions, threads;
    int64_t     batch;
} config;

/* One side of the comparison: a state, and a step on batch number `i`. */
typedef struct side {
    config   c;
    model    m;
    lk_tuple batch[BATCHES];
    void    *state;
    double (*step)(struct side *s, int i);
} side;

/* ---- the two steps ---------------------------------------------------------------------------------------------------------- */

static double lockstep_step(side *s, int i)
{
    double loss = 0;
    LK_STEP {
        loss = lk_item(lk_call(s->state, s->batch[i]).item[0]);
    }
    return loss;
}

static int lockstep_start(side *s)
{
    lk_set_threads(s->c.threads);
    s->state = lk_function_of(model_step, &s->m);
    s->step = lockstep_step;
    return 1;
}

#if defined(WITH_ONEDNN)
static double onednn_step(side *s, int i)
{
    return onednn_net_step(s->state, lk_data(s->batch[i].item[0]), lk_data(s->batch[i].item[1]));
}

static int onednn_start(side *s)
{
    const float *values[8];
    if (!onednn_set_threads(s->c.threads)) return 0;
    for (int i = 0; i < s->m.count; i++)
        values[i] = lk_data(lk_read(s->m.weight[i]));
    const onednn_model m = {s->c.convolutions, s->c.batch, s->m.l2, values};
    s->state = onednn_net_best(&m, lk_data(s->batch[0].item[0]), lk_data(s->batch[0].item[1]));
    s->step = onednn_step;
    return 1;
}
#endif

/* ---- a process per side ----------------------------------------------------------------------------------------------------- */

/* What goes through the pipes: the seconds to run for (0: the steps to be checked; negative: end), and what came of it. */
typedef struct reply {
    int    works;
    double rate;
    double loss[CHECKED];
} reply;

typedef struct child {
    pid_t pid;
    int   to, from;
} child;

static reply check(side *s)
{
    reply r = {.works = 1};
    for (int i = 0; i < CHECKED; i++)
        r.loss[i] = s->step(s, i);
    return r;
}

static reply round_of(side *s, double seconds)
{
    const double start = now();
    double       end;
    long         steps = 0;
    do {
        for (int i = 0; i < BATCHES; i++)
            s->step(s, i);
        steps += BATCHES;
        end = now();
    } while (end - start < seconds);
    return (reply){.works = 1, .rate = (double)(steps * s->c.batch) / (end - start)};
}

static void serve(config c, int (*start)(side *), int in, int out)
{
    side   s = {.c = c, .m = model_new(c.convolutions, c.batch)};
    double seconds;
    for (int i = 0; i < BATCHES; i++)
        s.batch[i] = model_batch(&s.m, c.batch, i);
    const int works = start(&s);
    while (read(in, &seconds, sizeof seconds) == sizeof seconds && seconds >= 0) {
        reply r = !works ? (reply){0} : seconds > 0 ? round_of(&s, seconds) : check(&s);
        if (lk_failed()) fprintf(stderr, "%s\n", lk_error());
        r.works = r.works && !lk_failed();
        if (write(out, &r, sizeof r) != sizeof r) break;
    }
}

static child child_start(config c, int (*start)(side *))
{
    int   to[2], from[2];
    child k = {.pid = -1};
    if (pipe(to) || pipe(from)) return k;
    fflush(stdout);
    k.pid = fork();
    if (k.pid == 0) {
        close(to[1]);
        close(from[0]);
        serve(c, start, to[0], from[1]);
        _exit(0);
    }
    close(to[0]);
    close(from[1]);
    k.to = to[1];
    k.from = from[0];
    return k;
}

static reply child_ask(child *k, double seconds)
{
    reply r = {0};
    if (write(k->to, &seconds, sizeof seconds) != sizeof seconds || read(k->from, &r, sizeof r) != sizeof r) r = (reply){0};
    if (seconds > 0) pause_for(0.01); /* until the threads that still spin have gone to sleep */
    return r;
}

static void child_end(child *k)
{
    const double end = -1;
    if (write(k->to, &end, sizeof end) < 0) perror("step");
    close(k->to);
    close(k->from);
    waitpid(k->pid, NULL, 0);
}

/* ---- one line --------------------------------------------------------------------------------------------------------------- */

static int same_losses(const reply *a, const reply *b)
{
    for (int i = 0; i < CHECKED; i++)
        if (!(fabs(a->loss[i] - b->loss[i]) <= 1e-4 * fabs(b->loss[i]))) {
            printf("step %d: the loss is %.9g with lockstep and %.9g with oneDNN: not the same work\n", i + 1, a->loss[i],
                   b->loss[i]);
            return 0;
        }
    return 1;
}

static int measure(config c, int rounds, double seconds)
{
    int (*const starts[2])(side *) = {
        lockstep_start,
#if defined(WITH_ONEDNN)
        onednn_start,
#endif
    };
    child  k[2];
    reply  r[2];
    series rate[2] = {{0}}, ratio = {0};
    int    count = starts[1] ? 2 : 1, ok;
    for (int i = 0; i < count; i++) {
        k[i] = child_start(c, starts[i]);
        r[i] = child_ask(&k[i], 0);
    }
    const int both = count == 2 && r[1].works;
    ok = r[0].works && (!both || same_losses(&r[0], &r[1]));
    for (int round = -1; ok && round < rounds; round++) { /* round -1 warms up */
        for (int i = 0; i <= both; i++) {
            r[i] = child_ask(&k[i], round < 0 ? seconds / 4 : seconds);
            ok = ok && r[i].works;
            if (round >= 0) series_add(&rate[i], r[i].rate);
        }
        if (both && round >= 0) series_add(&ratio, r[0].rate / r[1].rate);
    }
    for (int i = 0; i < count; i++)
        child_end(&k[i]);
    if (!ok) {
        printf("%-8s %6lld %8d failed\n", c.model, (long long)c.batch, c.threads);
        return 0;
    }
    const double best = series_largest(&rate[0]), other = series_largest(&rate[1]);
    printf("%-8s %6lld %8d %12.0f %8.0f", c.model, (long long)c.batch, c.threads, best, series_median(rate[0]));
    if (both) printf(" %12.0f %8.0f %9.2f %7.2f", other, series_median(rate[1]), best / other, series_median(ratio));
    else if (count == 2) printf(" (the number of oneDNN's threads cannot be set)");
    printf("\n");
    return 1;
}

int main(int argc, char **argv)
{
    static const char *const names[] = {"basic", "custom"};
    const int                cores = (int)sysconf(_SC_NPROCESSORS_ONLN);
    const int                threads[] = {1, 2, cores}, kinds = cores > 2 ? 3 : cores > 1 ? 2 : 1;
    int                      quick = 0, bad = 0;
    const char              *only = NULL;
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--quick") == 0) quick = 1;
        else only = argv[i];

    signal(SIGPIPE, SIG_IGN); /* a process that died is reported as a line that failed */
#if defined(WITH_ONEDNN)
    const dnnl_version_t *v = dnnl_version();
    printf("rows/s of a training step, beside oneDNN %d.%d.%d\n", v->major, v->minor, v->patch);
    printf("%-8s %6s %8s %12s %8s %12s %8s %9s %7s\n", "model", "batch", "threads", "lockstep", "median", "oneDNN", "median",
           "ratio", "median");
#else
    printf("rows/s of a training step; built without oneDNN 2, so there is nothing to compare with\n");
    printf("%-8s %6s %8s %12s %8s\n", "model", "batch", "threads", "lockstep", "median");
#endif
    for (int m = 0; m < 2; m++)
        for (int64_t batch = 64; batch <= 256; batch *= 4)
            for (int t = 0; t < kinds; t++) {
                if (only && strcmp(only, names[m]) != 0) continue;
                bad += !measure((config){names[m], m + 1, threads[t], batch}, quick ? 3 : 9, quick ? 0.1 : 0.2);
                fflush(stdout);
            }
    return bad > 0;
}
