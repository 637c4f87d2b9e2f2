/* Gathering rows (gather.h).
 *
 * A batch is written over the one before, which the threads of the step have read since: whoever writes all of it takes half of it out
 * of another core's cache, line by line, and that core fetches it back in the step. With two threads this made a batch of 200 KB five
 * times as dear in fit as alone. So the team that runs the steps gathers, each thread the rows of the lanes that are its own. */
#include "data/gather.h"
#include "core/error.h"
#include "core/thread.h"
#include <string.h>

enum { LINE = 64, ROWS_AHEAD = 2, SHORT_ROWS_AHEAD = 16, MOST_BYTES_AHEAD = 16 * LINE, WORTH_SHARING = 8 << 10 };

static _Thread_local int team_size;

void lki_gather_together(int threads) { team_size = threads; }

static const uint8_t *row_of(const lki_gathering *g, int64_t i)
{
    const lki_element *e = &g->e[i];
    const uint8_t     *base = e->set->item[g->column]->data;
    return e->row > 0 ? base + (size_t)e->row * g->bytes : base;
}

/* What the next rows begin with is on its way while this one is copied. */
static void ask_for(const lki_gathering *g, int64_t i)
{
    const uint8_t *row = row_of(g, i);
    const size_t   ahead = lki_min(g->bytes, (size_t)MOST_BYTES_AHEAD);
    for (size_t k = 0; k < ahead; k += LINE)
        __builtin_prefetch(row + k);
}

static void gather_range(const lki_gathering *g, int64_t from, int64_t to)
{
    const unsigned before = lki_fp_enter();
    const int64_t  ahead = g->bytes > LINE ? ROWS_AHEAD : SHORT_ROWS_AHEAD;
    for (int64_t i = from; i < to; i++) {
        if (i + ahead < to) ask_for(g, i + ahead);
        if (g->through) g->through->apply(g->through, (int64_t)g->bytes, row_of(g, i), (float *)g->dst + i * (int64_t)g->bytes);
        else memcpy((uint8_t *)g->dst + (size_t)i * g->bytes, row_of(g, i), g->bytes);
    }
    lki_fp_leave(before);
}

typedef struct share {
    const lki_gathering *g;
    int                  threads;
} share;

static void gather_share(void *arg, int thread)
{
    const share *s = arg;
    gather_range(s->g, s->g->n * thread / s->threads, s->g->n * (thread + 1) / s->threads);
}

/* Without threads for it the rows are gathered all the same. */
static bool gather_in_team(const lki_gathering *g)
{
    const size_t bytes = (size_t)g->n * g->bytes * (g->through ? sizeof(float) : 1);
    if (team_size < 2 || bytes < (size_t)team_size * WORTH_SHARING) return false;
    lki_team *team = lki_team_get(team_size);
    if (team && lki_team_run(team, gather_share, &(share){g, team_size}) == LK_OK) return true;
    lk_clear_error();
    return false;
}

void lki_gather(const lki_gathering *g)
{
    if (g->bytes && !gather_in_team(g)) gather_range(g, 0, g->n);
}
