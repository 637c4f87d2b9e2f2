/* Watching a training (watch.h). */
#include "watch.h"
#include "report.h"
#include <ctype.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
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

/* ---- a run that is resumed ---- */

/* Cut a history off before the first line of epoch `first` or a later one: that one is seen again. */
static void drop_epochs(const char *path, int first)
{
    char  *line = NULL;
    size_t room = 0;
    long   keep = -1, at = 0;
    FILE  *file = fopen(path, "r");
    for (ssize_t size; file && keep < 0 && (size = getline(&line, &room, file)) > 0; at += size)
        if (isdigit((unsigned char)line[0]) && atoi(line) >= first) keep = at;
    if (file) fclose(file);
    free(line);
    if (keep >= 0 && truncate(path, keep) != 0) perror(path);
}

/* ---- events ---- */

static void stop_when_over(cli_watch *w, const lk_event *event)
{
    const bool enough = w->steps > 0 && w->done >= w->steps;
    if (enough || w->lost || interrupted) lk_model_stop_training(event->model);
}

static void train_begin(const lk_event *event, void *user)
{
    cli_watch *w = user;
    if (w->rate > 0) lk_optimizer_set_learning_rate(lk_model_optimizer(event->model), w->rate);
    w->before = w->done = lk_optimizer_iterations(lk_model_optimizer(event->model)) - w->learnt;
    stop_when_over(w, event);
}

static void epoch_begin(const lk_event *event, void *user)
{
    cli_watch *w = user;
    if (w->begun) return;
    w->begun = true;
    if (w->csv) drop_epochs(w->csv, event->epoch);
}

static void batch_end(const lk_event *event, void *user)
{
    cli_watch *w = user;
    if (w->first_ms <= 0) w->first_ms = cli_clock_ms();
    w->done = w->before + event->step;
    w->epoch = event->epoch + 1;
    w->step = event->batch + 1;
    w->loss = lk_logs_get(&event->logs, "loss");
    w->lost = !isfinite(w->loss);
    stop_when_over(w, event);
}

lk_callback *cli_watch_callback(cli_watch *w)
{
    return lk_callback_of(w, .on_train_begin = train_begin, .on_epoch_begin = epoch_begin, .on_train_batch_end = batch_end);
}
