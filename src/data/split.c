/* Splits (split.h).
 *
 *   LANES    part i gets the rows of its lanes
 *   FILL     parts of G rows, the larger first, filled from the front
 *   STREAM   the same, over rows taken off the stream
 *   EVEN     chunks of ceil(rows / N) */
#include "data/split.h"
#include "lane/lanes.h"

static int parts_of(const lki_split *s) { return s->replicas * s->workers; }

static int64_t global_of(const lki_split *s, int64_t rows) { return lki_max(s->global, rows); }

/* Where the first rows of a batch that belong to part i begin; i = N gives the end of a full one. */
static int64_t lanes_begin(const lki_split *s, int64_t global, int i)
{
    return lki_lane_begin(global, s->lanes, lki_lane_owner_begin(s->lanes, i, parts_of(s)));
}

static int64_t fill_begin(int64_t global, int n, int i) { return global / n * i + lki_min(i, global % n); }

static int64_t part_begin(const lki_split *s, int64_t rows, int i)
{
    const int     n = parts_of(s);
    const int64_t global = global_of(s, rows);
    if (i == n) return rows;
    const int64_t begin = s->rule == LK_SPLIT_LANES  ? lanes_begin(s, global, i)
                          : s->rule == LK_SPLIT_EVEN ? lki_ceil_div(rows, n) * i
                                                     : fill_begin(global, n, i);
    return lki_min(rows, begin);
}

/* Workers that share a batch alternate in it; a replica's number determines its lanes. */
static int part_number(const lki_split *s, int j)
{
    return s->rule == LK_SPLIT_LANES ? s->worker * s->replicas + j : j * s->workers + s->worker;
}

/* Rows of replica j in a full step of a stream. */
static int64_t stream_size(const lki_split *s, int64_t step, int j)
{
    const int n = parts_of(s), first = s->worker * s->replicas;
    if (s->rule == LK_SPLIT_LANES) return lanes_begin(s, s->global, first + j + 1) - lanes_begin(s, s->global, first + j);
    return lki_fill_size(s->global, n, (int)((first + step * s->replicas + j) % n));
}

static void split_shared(const lki_split *s, int64_t rows, lki_cut *cut)
{
    for (int j = 0; j < s->replicas; j++) {
        const int     i = part_number(s, j);
        const int64_t first = part_begin(s, rows, i);
        cut[j] = (lki_cut){first, part_begin(s, rows, i + 1) - first, first};
    }
}

static void split_own(const lki_split *s, int64_t rows, int64_t tag, lki_cut *cut)
{
    const int64_t offset = s->rule == LK_SPLIT_LANES ? lanes_begin(s, s->global, s->worker * s->replicas) : 0;
    for (int64_t j = 0, first = 0; j < s->replicas; first += cut[j++].rows) {
        const int64_t size = s->rule == LK_SPLIT_EVEN ? tag : stream_size(s, tag, (int)j);
        cut[j] = (lki_cut){first, lki_min(size, rows - first), offset + first};
    }
}

void lki_split_rows(const lki_split *s, int64_t rows, int64_t tag, lki_cut *cut)
{
    if (s->shared) split_shared(s, rows, cut);
    else split_own(s, rows, tag, cut);
}

bool lki_split_is_lanes(const lki_split *s, int64_t rows, const lki_cut *cut)
{
    lki_split lanes = *s;
    lanes.rule = LK_SPLIT_LANES;
    if (s->rule == LK_SPLIT_LANES) return true;
    if (!s->shared || s->workers > 1) return false;
    for (int j = 0; j < s->replicas; j++)
        if (cut[j].first != part_begin(&lanes, rows, j) || cut[j].first + cut[j].rows != part_begin(&lanes, rows, j + 1))
            return false;
    return true;
}

int lki_split_steps(const lki_split *s) { return s->rule == LK_SPLIT_LANES || s->shared ? 1 : s->workers; }

int64_t lki_split_step_rows(const lki_split *s, int64_t step)
{
    int64_t rows = 0;
    if (s->shared) return s->global;
    for (int j = 0; j < s->replicas; j++)
        rows += stream_size(s, step, j);
    return rows;
}
