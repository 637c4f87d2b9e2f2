/* The progress of fit, evaluate and predict, as Keras shows it.
 *
 *     938/938 [==============================] - 33s 35ms/step - loss: 0.2154 - accuracy: 0.9368              when it is over
 *     512/938 [===============>..............] - ETA: 3s - 28,431 rows/s - loss: 0.2381 - accuracy: 0.9282    meanwhile, a terminal
 *     938/938 - 33s - 35ms/step - loss: 0.2154 - accuracy: 0.9368                                             verbose 2
 *
 * Invariants
 * 1. If output is not a terminal, one line is printed at the end, and nothing is computed before it.
 * 2. On a terminal the line is redrawn at most every 50 ms and never wraps: first the bar becomes shorter, then the last values are
 *    left out. The final line is complete. No escape codes are used: a shorter line is padded with blanks.
 * 3. A callback that prints while a line is being drawn ends the line first (lki_say), and so does the end of training, whatever
 *    the reason. */
#include "core/log.h"
#include "core/number.h"
#include "core/thread.h"
#include "fit/callback.h"
#include <math.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>

enum { BAR = 30, SHORTEST_BAR = 8, LINE = 2048 };
static const double REDRAW = 0.05;

typedef struct progress {
    lk_callback base;
    bool        in_fit;      /* evaluation in fit has no bar */
    bool        live;        /* output is a terminal */
    int64_t     seen, first; /* steps so far; steps of the first execution, which is slower than the others */
    int64_t     first_rows;
    double      start, after_first, drawn;
} progress;

static double seconds(void) { return (double)lki_nanoseconds() * 1e-9; }
double (*lki_progress_clock)(void) = seconds;

/* ---- the line on the terminal ------------------------------------------------------------------------------------------------ */

static atomic_int open_columns; /* of the line that is being drawn; 0: none. There is one terminal */

void lki_progress_end_line(void)
{
    if (atomic_exchange(&open_columns, 0)) lki_output("\n");
}

static int columns_of(const char *text)
{
    int columns = 0;
    for (; *text; text++)
        columns += ((unsigned char)*text & 0xc0) != 0x80; /* skip the continuation bytes of UTF-8 */
    return columns;
}

static void draw(const char *text)
{
    const int columns = columns_of(text), before = atomic_exchange(&open_columns, columns);
    lki_output("\r%s%*s", text, before > columns ? before - columns : 0, "");
    lki_output_flush();
}

/* Draw the final line. */
static void draw_last(const char *text)
{
    const int columns = columns_of(text), before = atomic_exchange(&open_columns, 0);
    lki_output("%s%s%*s\n", before ? "\r" : "", text, before > columns ? before - columns : 0, "");
}

/* ---- its parts --------------------------------------------------------------------------------------------------------------- */

typedef struct line {
    char text[LINE];
    int  size;
} line;

static void put(line *l, const char *format, ...) LKI_PRINTF(2, 3);
static void put(line *l, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const int n = lki_vformat(l->text + l->size, sizeof l->text - (size_t)l->size, format, args);
    va_end(args);
    l->size = n < LINE - l->size ? l->size + n : LINE - 1;
}

static int digits_of(int64_t n)
{
    int digits = 1;
    for (; n >= 10; n /= 10)
        digits++;
    return digits;
}

static void put_count(line *l, int64_t seen, int64_t target)
{
    if (target > 0) put(l, "%*lld/%lld", digits_of(target), (long long)seen, (long long)target);
    else put(l, "%7lld/Unknown", (long long)seen);
}

static void put_bar(line *l, int64_t seen, int64_t target, int width)
{
    const int done = seen >= target ? width : (int)((double)width * (double)seen / (double)target);
    put(l, " [");
    for (int i = 0; i < width; i++)
        put(l, "%c", i >= done ? '.' : i == done - 1 && seen < target ? '>' : '=');
    put(l, "]");
}

static void put_per_step(line *l, double time)
{
    if (time >= 1 || time <= 0) put(l, " %.0fs/step", fmax(time, 0));
    else if (time >= 1e-3) put(l, " %.0fms/step", time * 1e3);
    else put(l, " %.0fus/step", time * 1e6);
}

static void put_remaining(line *l, double time)
{
    const long long s = (long long)fmin(fmax(time, 0), 1e15);
    if (time > 3600) put(l, " - ETA: %lld:%02lld:%02lld", s / 3600, s % 3600 / 60, s % 60);
    else if (time > 60) put(l, " - ETA: %lld:%02lld", s / 60, s % 60);
    else put(l, " - ETA: %llds", s);
}

static void put_rows(line *l, double per_second)
{
    char      plain[32];
    const int size = lki_format(plain, sizeof plain, "%.0f", fmin(per_second, 1e15));
    put(l, " - ");
    for (int i = 0; i < size; i++)
        put(l, "%s%c", i && (size - i) % 3 == 0 ? "," : "", plain[i]);
    put(l, " rows/s");
}

static void put_value(line *l, const char *name, double value)
{
    if (isnan(value)) put(l, " - %s: nan", name);
    else put(l, fabs(value) > 1e-3 ? " - %s: %.4f" : " - %s: %.4e", name, value);
}

static void put_values(line *l, const lk_logs *logs)
{
    for (int i = 0; i < logs->count; i++)
        put_value(l, logs->name[i], logs->value[i]);
}

/* ---- drawing it -------------------------------------------------------------------------------------------------------------- */

/* The first execution is not counted once there is another one. */
static double time_per_step(const progress *p, double now)
{
    if (p->seen > p->first) return (now - p->after_first) / (double)(p->seen - p->first);
    return p->seen ? (now - p->start) / (double)p->seen : 0;
}

static double rows_per_second(const progress *p, const lki_happening *h, double now)
{
    if (p->seen > p->first && now > p->after_first) return (double)(h->rows - p->first_rows) / (now - p->after_first);
    return now > p->start ? (double)h->rows / (now - p->start) : 0;
}

static void put_front(line *l, const progress *p, const lki_happening *h, double now, int bar)
{
    const int64_t target = h->event.batches;
    const double  step = time_per_step(p, now);
    put_count(l, p->seen, target);
    if (target > 0 && bar) put_bar(l, p->seen, target, bar);
    if (target > 0) put_remaining(l, step * (double)(target - p->seen));
    else {
        put(l, " - %.0fs", now - p->start);
        put_per_step(l, step);
    }
    if (h->rows > 0) put_rows(l, rows_per_second(p, h, now));
}

/* Append the values that still fit. */
static void put_fitting(line *l, const lk_logs *logs, int columns)
{
    for (int i = 0; i < logs->count; i++) {
        const int before = l->size;
        put_value(l, logs->name[i], logs->value[i]);
        if (columns_of(l->text) <= columns) continue;
        l->text[l->size = before] = 0;
        return;
    }
}

static void draw_live(progress *p, const lki_happening *h, double now)
{
    const int columns = lki_output_columns() - 1; /* the last one would wrap in some terminals */
    line      l = {.size = 0}, values = {.size = 0};
    if (columns <= 0) return;
    put_values(&values, &h->event.logs);
    put_front(&l, p, h, now, BAR);
    const int over = columns_of(l.text) + columns_of(values.text) - columns;
    if (over > 0) {
        l = (line){.size = 0};
        put_front(&l, p, h, now, over <= BAR - SHORTEST_BAR ? BAR - over : 0);
    }
    if (l.size > columns) l.text[columns] = 0;
    else put_fitting(&l, &h->event.logs, columns);
    draw(l.text);
    p->drawn = now;
}

/* If training ended early, the line shows fewer steps than there are. */
static void put_last(line *l, const progress *p, const lki_happening *h, const lk_logs *logs)
{
    const double  now = lki_progress_clock(), step = time_per_step(p, now);
    const int64_t target = h->event.batches > p->seen ? h->event.batches : p->seen;
    put_count(l, p->seen, target);
    if (h->verbose == 1) {
        put_bar(l, p->seen, target, BAR);
        put(l, " - %.0fs", now - p->start);
        put_per_step(l, step);
    } else {
        put(l, " - %.0fs -", now - p->start);
        put_per_step(l, step);
    }
    put_values(l, logs);
}

/* ---- hooks ------------------------------------------------------------------------------------------------------------------- */

static lk_status start(progress *p, const lki_happening *h)
{
    p->seen = p->first = p->first_rows = 0;
    p->start = h->verbose ? lki_progress_clock() : 0;
    p->drawn = -1;
    p->live = h->verbose == 1 && lki_output_columns() > 0;
    return LK_OK;
}

static lk_status advance(progress *p, const lki_happening *h)
{
    p->seen = h->event.batch + 1;
    if (!h->verbose) return LK_OK;
    const bool first = p->first == 0;
    if (!first && !p->live) return LK_OK;
    const double now = lki_progress_clock();
    if (first) {
        p->first = p->seen;
        p->first_rows = h->rows;
        p->after_first = now;
    }
    if (p->live && (p->drawn < 0 || now - p->drawn >= REDRAW)) draw_live(p, h, now);
    return LK_OK;
}

static lk_status finish(progress *p, const lki_happening *h, const lk_logs *logs)
{
    line l = {.size = 0};
    if (h->failed) lki_progress_end_line();
    if (!h->verbose || h->failed || !p->seen) return LK_OK;
    put_last(&l, p, h, logs);
    draw_last(l.text);
    return LK_OK;
}

static lk_status train_begin(lk_callback *c, const lki_happening *h)
{
    (void)h;
    ((progress *)c)->in_fit = true;
    return LK_OK;
}

static lk_status train_end(lk_callback *c, const lki_happening *h)
{
    (void)h;
    ((progress *)c)->in_fit = false;
    lki_progress_end_line();
    return LK_OK;
}

static lk_status epoch_begin(lk_callback *c, const lki_happening *h)
{
    if (h->verbose && h->event.epochs > 1) lki_say("Epoch %d/%d\n", h->event.epoch + 1, h->event.epochs);
    return start((progress *)c, h);
}

static lk_status epoch_end(lk_callback *c, const lki_happening *h)
{
    const lk_logs logs = lki_logs_of(h);
    return finish((progress *)c, h, &logs);
}

static lk_status train_batch_end(lk_callback *c, const lki_happening *h) { return advance((progress *)c, h); }

static lk_status test_begin(lk_callback *c, const lki_happening *h)
{
    return ((progress *)c)->in_fit ? LK_OK : start((progress *)c, h);
}

static lk_status test_batch_end(lk_callback *c, const lki_happening *h)
{
    return ((progress *)c)->in_fit ? LK_OK : advance((progress *)c, h);
}

static lk_status test_end(lk_callback *c, const lki_happening *h)
{
    return ((progress *)c)->in_fit ? LK_OK : finish((progress *)c, h, &h->event.logs);
}

static lk_status predict_begin(lk_callback *c, const lki_happening *h) { return start((progress *)c, h); }
static lk_status predict_batch_end(lk_callback *c, const lki_happening *h) { return advance((progress *)c, h); }
static lk_status predict_end(lk_callback *c, const lki_happening *h) { return finish((progress *)c, h, &(lk_logs){0}); }

const lki_callback_kind lki_progress_kind = {
    .stale_logs_ok = true,
    .name = "ProgbarLogger",
    .bytes = sizeof(progress),
    .on = {[LKI_HOOK_train_begin] = train_begin,
           [LKI_HOOK_train_end] = train_end,
           [LKI_HOOK_epoch_begin] = epoch_begin,
           [LKI_HOOK_epoch_end] = epoch_end,
           [LKI_HOOK_train_batch_end] = train_batch_end,
           [LKI_HOOK_test_begin] = test_begin,
           [LKI_HOOK_test_batch_end] = test_batch_end,
           [LKI_HOOK_test_end] = test_end,
           [LKI_HOOK_predict_begin] = predict_begin,
           [LKI_HOOK_predict_batch_end] = predict_batch_end,
           [LKI_HOOK_predict_end] = predict_end},
};
