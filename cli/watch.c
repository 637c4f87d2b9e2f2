/* Watching a training (watch.h). */
#include "watch.h"
#include "options.h"
#include "report.h"
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

/* ---- signals ---- */

static volatile sig_atomic_t interrupted;
static lk_model *volatile watched;

static void on_signal(int number)
{
    if (interrupted) _exit(128 + number);
    interrupted = 1;
    lk_model_stop_training(watched);
}

static const int caught[] = {SIGINT, SIGTERM, SIGHUP};
enum { CAUGHT = sizeof caught / sizeof *caught };
static struct sigaction before[CAUGHT];

void cli_watch_begin(const cli_watch *w)
{
    watched = w->model;
    interrupted = 0;
    struct sigaction action = {.sa_handler = on_signal};
    sigemptyset(&action.sa_mask);
    for (int i = 0; i < CAUGHT; i++) {
        sigaction(caught[i], NULL, &before[i]);
        if (before[i].sa_handler != SIG_IGN) sigaction(caught[i], &action, NULL);
    }
}

void cli_watch_end(void)
{
    for (int i = 0; i < CAUGHT; i++)
        sigaction(caught[i], &before[i], NULL);
}

bool cli_watch_interrupted(void) { return interrupted != 0; }

/* ---- events ---- */

static void stop_when_over(cli_watch *w, const lk_event *event)
{
    const bool enough = w->steps > 0 && w->done >= w->steps;
    if (enough || w->lost || interrupted) lk_model_stop_training(event->model);
}

static void tell_place(const cli_watch *w, const lk_event *event)
{
    const char *steps = cli_with_commas(w->before);
    if (event->batch)
        cli_fail(0, "%s: resumes in epoch %d, after step %" PRId64 " of it, %s in all", w->folder, event->epoch + 1, event->batch,
                 steps);
    else cli_fail(0, "%s: resumes with epoch %d, after %s steps", w->folder, event->epoch + 1, steps);
}

static void train_begin(const lk_event *event, void *user)
{
    cli_watch *w = user;
    if (w->rate > 0) lk_optimizer_set_learning_rate(lk_model_optimizer(event->model), w->rate);
    w->before = w->done = lk_optimizer_iterations(lk_model_optimizer(event->model)) - w->learnt;
    if (w->folder && event->epoch < event->epochs) tell_place(w, event);
    stop_when_over(w, event);
}

/* On a GPU logs may be slightly old or missing. */
static void look_at_loss(cli_watch *w, const lk_event *event)
{
    if (!event->logs.count) return;
    w->loss = lk_logs_get(&event->logs, "loss");
    w->lost = !isfinite(w->loss);
}

static void batch_end(const lk_event *event, void *user)
{
    cli_watch *w = user;
    if (w->first_ms <= 0) w->first_ms = cli_clock_ms();
    w->done = w->before + event->step;
    w->epoch = event->epoch + 1;
    w->step = event->batch + 1;
    look_at_loss(w, event);
    stop_when_over(w, event);
}

static void epoch_begin(const lk_event *event, void *user)
{
    cli_watch *w = user;
    (void)event;
    w->began = cli_clock_ms();
}

/* Called when validation begins, or the epoch ends. If there is no memory for a time, it is left out. */
static void steps_over(const lk_event *event, void *user)
{
    cli_watch *w = user;
    double    *more = w->began > 0 ? realloc(w->took, (size_t)(w->epochs + 1) * sizeof *more) : NULL;
    (void)event;
    if (more) {
        w->took = more;
        w->took[w->epochs++] = (cli_clock_ms() - w->began) / 1e3;
    }
    w->began = 0;
}

static void epoch_end(const lk_event *event, void *user)
{
    cli_watch *w = user;
    steps_over(event, user);
    look_at_loss(w, event);
    if (w->lost) lk_model_stop_training(event->model);
}

lk_callback *cli_watch_callback(cli_watch *w)
{
    return lk_callback_of(w, .on_train_begin = train_begin, .on_epoch_begin = epoch_begin, .on_train_batch_end = batch_end,
                          .on_test_begin = steps_over, .on_epoch_end = epoch_end, .stale_logs_ok = LK_ON);
}
