/* Gathering rows (gather.h).
 *
 * A batch is written over the previous one, which the threads of the step have read since. If one thread wrote all of it, it would
 * take half of it out of another core's cache, line by line, and that core would fetch it back in the step. With two threads this
 * made gathering a 200 KB batch five times slower inside fit than in isolation. So the team that runs the steps gathers: each
 * thread gathers the rows of its own lanes. */
#include "data/gather.h"
#include "core/error.h"
#include <string.h>

enum { LINE = 64, LINES_AHEAD = 512, MOST_OF_A_ROW = 64, WORTH_SHARING = 8 << 10 };

static _Thread_local int team_size;

void lki_gather_together(int threads) { team_size = threads; }
int  lki_gather_team(void) { return team_size; }

static const uint8_t *row_of(const lki_gathering *g, int64_t i)
{
    const lki_element *e = &g->e[i];
    const uint8_t     *base = e->set->item[g->column]->data;
    return e->row > 0 ? base + (size_t)e->row * g->bytes : base;
}

/* Rows are anywhere in memory, and a core that reads them one by one waits for each. So a block of rows is prefetched at once, into
 * the second level of cache, which allows more outstanding requests than the first. Of a long row only the beginning is prefetched:
 * the rest is read sequentially, and the hardware prefetches it. (32 rows of 784 bytes, new to the caches: 12 us without, 8 us with
 * two rows ahead, 4 us like this.)
 *
 * The loop that prefetches has to be in a function that also writes: compilers drop calls of a function that does nothing else. */
static int64_t rows_of_a_block(size_t bytes)
{
    const size_t lines = lki_min(bytes / LINE + 2, (size_t)MOST_OF_A_ROW);
    return (int64_t)(LINES_AHEAD / lines);
}

static void gather_block(const lki_gathering *g, int64_t from, int64_t to)
{
    const size_t most = lki_min(g->bytes + LINE - 1, (size_t)MOST_OF_A_ROW * LINE);
    for (int64_t i = from; i < to; i++) {
        const uint8_t *row = row_of(g, i);
        for (size_t k = 0; k < most; k += LINE)
            __builtin_prefetch(row + k, 0, 2);
    }
    for (int64_t i = from; i < to; i++)
        if (g->through) g->through->apply(g->through, (int64_t)g->bytes, row_of(g, i), (float *)g->dst + i * (int64_t)g->bytes);
        else memcpy((uint8_t *)g->dst + (size_t)i * g->bytes, row_of(g, i), g->bytes);
}

static void gather_range(void *arg, int64_t from, int64_t to)
{
    const lki_gathering *g = arg;
    const unsigned       before = lki_fp_enter();
    const int64_t        block = rows_of_a_block(g->bytes);
    for (int64_t i = from; i < to; i += block)
        gather_block(g, i, lki_min(i + block, to));
    lki_fp_leave(before);
}

typedef struct share {
    int64_t      n;
    int          threads;
    lki_rows_fn *fn;
    void        *arg;
} share;

static void run_share(void *arg, int thread)
{
    const share *s = arg;
    s->fn(s->arg, s->n * thread / s->threads, s->n * (thread + 1) / s->threads);
}

/* If there are no threads for it, or in a team run, this thread makes all rows. */
void lki_gather_rows(int64_t n, lki_rows_fn *fn, void *arg)
{
    const bool shares = team_size > 1 && n > 1 && !lki_team_runs_this();
    if (shares && lki_team_run(team_size, run_share, &(share){n, team_size, fn, arg}) == LK_OK) return;
    if (shares) lk_clear_error();
    fn(arg, 0, n);
}

void lki_gather(const lki_gathering *g)
{
    lki_gathering all = *g;
    const size_t  bytes = (size_t)g->n * g->bytes * (g->through ? sizeof(float) : 1);
    if (!g->bytes) return;
    if (bytes < (size_t)lki_max(team_size, 1) * WORTH_SHARING) gather_range(&all, 0, g->n);
    else lki_gather_rows(g->n, gather_range, &all);
}
