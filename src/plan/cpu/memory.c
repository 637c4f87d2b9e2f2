/* One memory plan for a step: where every value lies, and which values may share memory because they never live at the same time.
 *
 * Invariants
 * 1. A value made and read only within one turn of LANE tasks holds one lane, in the thread's own block; one made and read only
 *    within one chain or one TILES group holds one piece, likewise. A thread runs these one after the other, so two of them share
 *    memory when their tasks, in order, do not overlap. Tasks of a chain alternate piece by piece, so what enters or leaves a chain
 *    lives as long as all of it.
 * 2. Everything else lives in the shared block, whole. Threads meet only at the ends of phases, so two of them share memory only
 *    when their phases do not overlap. */
#include "lane/lanes.h"
#include "plan/cpu/cpu.h"
#include "plan/rooms.h"
#include <string.h>

typedef struct readers {
    int  first, last, last_phase;
    bool one_turn, one_group, one_chain;
} readers;

int lki_cpu_lane_begin(const lki_cpu_plan *p, int thread)
{
    return p->is.from + lki_lane_owner_begin(p->is.end - p->is.from, thread, p->threads);
}

int64_t lki_cpu_bound(const lki_rows *r, int lane)
{
    if (lane == r->lanes) return r->rows * r->per_row;
    int64_t row = lki_lane_begin(r->global, r->lanes, lane) - r->first;
    return lki_max(0, lki_min(row, r->rows)) * r->per_row;
}

static readers made_by(const lki_cpu_plan *p, int maker)
{
    const lki_task *made = &p->tasks[maker];
    bool            lane = made->place == LKI_LANE && made->kind == LKI_TASK_RUN;
    return (readers){maker, maker, made->phase, lane, made->place == LKI_TILES, lane && made->chain >= 0};
}

/* `range`: only some of it is read. A value that holds one lane or one piece is read as a whole. */
static void read_by(const lki_cpu_plan *p, readers *r, int task, bool range)
{
    const lki_task *t = &p->tasks[task], *made = &p->tasks[r->first];
    bool            here = t->phase == made->phase && !range;
    r->last = task > r->last ? task : r->last;
    r->last_phase = t->phase > r->last_phase ? t->phase : r->last_phase;
    r->one_turn = r->one_turn && here && t->place == LKI_LANE && t->turn == made->turn;
    r->one_group = r->one_group && here && t->place == LKI_TILES && t->group == made->group;
    r->one_chain = r->one_chain && r->one_turn && t->chain == made->chain;
}

/* By root value: the task that makes it and those that read it; NULL without memory. Values that are not made here are left
 * zero. */
static readers *find_readers(const lki_cpu_plan *p)
{
    const lki_graph *g = p->graph;
    readers         *r = lki_zalloc_array(g->value_count + 1, sizeof *r);
    for (int v = 0; r && v < g->value_count; v++)
        if (p->maker[v] >= 0) r[v] = made_by(p, p->maker[v]);
    for (int t = 0; r && t < p->task_count; t++) {
        const lki_node *n = &g->nodes[p->tasks[t].node];
        for (int i = 0; i < n->nsrc && p->tasks[t].kind != LKI_TASK_COMBINE; i++) {
            int root = lki_graph_root(g, n->src[i]);
            if (!lki_shape_only(n, i) && p->maker[root] >= 0) read_by(p, &r[root], t, lki_graph_is_range(g, n->src[i]));
        }
    }
    for (int i = 0; r && i < g->output_count; i++) {
        readers *out = &r[lki_graph_root(g, g->outputs[i])];
        out->one_turn = out->one_group = out->one_chain = false;
        out->last_phase = p->phases;
    }
    return r;
}

static size_t lane_bytes(const lki_cpu_plan *p, const lki_value *v, const lki_rows *rows)
{
    int64_t most = 0, entries = v->shape.dim[0];
    for (int s = 0; s < p->lanes; s++)
        most = lki_max(most, lki_cpu_bound(rows, s + 1) - lki_cpu_bound(rows, s));
    return entries ? lki_bytes_of(lki_size_mul(lki_shape_size(&v->shape) / entries, most), lk_dtype_bytes(v->dtype)) : 0;
}

static int chain_end(const lki_cpu_plan *p, int task)
{
    int end = task;
    for (int t = task; t < p->task_count; t++)
        if (p->tasks[t].place == LKI_LANE && p->tasks[t].chain == p->tasks[task].chain) end = t;
    return end;
}

static lki_room span_of(lki_cpu_plan *p, int value, readers r)
{
    const lki_value *v = &p->graph->values[value];
    const lki_task  *t = &p->tasks[r.first];
    if (r.one_chain) {
        p->storage[value].home = LKI_HOME_PIECE;
        return (lki_room){value, t->phase * 4096 + t->turn, r.first, r.last, LKI_PIECE * lk_dtype_bytes(v->dtype), 0};
    }
    if (r.one_turn) {
        p->storage[value].home = LKI_HOME_LANE;
        if (p->tasks[r.first].chain >= 0) r.first = p->tasks[r.first].chain;
        if (p->tasks[r.last].chain >= 0) r.last = chain_end(p, r.last);
        return (lki_room){value, t->phase * 4096 + t->turn, r.first, r.last, lane_bytes(p, v, &p->graph->nodes[t->node].rows), 0};
    }
    if (r.one_group) {
        p->storage[value].home = LKI_HOME_PIECE;
        return (lki_room){value, (1 << 24) + t->group, r.first, r.last, lki_bytes_of(t->piece, lk_dtype_bytes(v->dtype)), 0};
    }
    p->storage[value].home = LKI_HOME_SHARED;
    return (lki_room){value, -1, t->phase, r.last_phase, lki_bytes_of(lki_shape_size(&v->shape), lk_dtype_bytes(v->dtype)), 0};
}

/* Buffers a thread needs to add up its lanes: one per subtree that can be open at once. */
static int stack_depth(const lki_cpu_plan *p)
{
    lki_subtree tree[64];
    int         deepest = 1;
    for (int t = 0; t < p->threads; t++)
        for (int lo = lki_cpu_lane_begin(p, t), hi = lo + 1; hi <= lki_cpu_lane_begin(p, t + 1); hi++) {
            int open = lki_lane_subtrees(lo, hi, tree);
            deepest = open + 1 > deepest ? open + 1 : deepest;
        }
    return deepest;
}

static lki_room span_of_partial(lki_cpu_plan *p, int task)
{
    lki_task        *t = &p->tasks[task];
    const lki_value *v = &p->graph->values[p->graph->nodes[t->node].dst[0]];
    int              last = t->phase;
    for (int i = task; i < p->task_count; i++)
        if (p->tasks[i].kind == LKI_TASK_COMBINE && p->tasks[i].partial == task && p->tasks[i].phase > last)
            last = p->tasks[i].phase;
    t->stack = stack_depth(p);
    t->bytes = (size_t)lki_round_up(lki_size_mul(t->size, (int64_t)lk_dtype_bytes(v->dtype)), 2 * LKI_CACHE_LINE);
    return (lki_room){-1 - task, -1, t->phase, last, lki_bytes_of(t->stack * p->threads, t->bytes), 0};
}

static bool is_placed(const lki_cpu_plan *p, int value) { return p->is.placed && p->is.placed[value]; }

lk_status lki_cpu_memory(lki_cpu_plan *p)
{
    const lki_graph *g = p->graph;
    lki_room        *spans = lki_zalloc_array(g->value_count + p->task_count + 1, sizeof *spans);
    readers         *r = find_readers(p);
    int              count = 0;
    p->storage = lki_zalloc_array(g->value_count + 1, sizeof *p->storage);
    if (!spans || !r || !p->storage) {
        lki_release(spans);
        lki_release(r);
        return LK_ENOMEM;
    }
    for (int v = 0; v < g->value_count; v++)
        if (g->values[v].kind == LKI_VALUE_MADE && g->values[v].alias_of < 0 && p->maker[v] >= 0 && !is_placed(p, v))
            spans[count++] = span_of(p, v, r[v]);
    for (int t = 0; t < p->task_count; t++)
        if (p->tasks[t].kind == LKI_TASK_PARTIAL) spans[count++] = span_of_partial(p, t);
    lki_rooms_place(spans, count, NULL, NULL);
    for (int i = 0; i < count; i++) {
        size_t *total = spans[i].segment < 0 ? &p->shared_bytes : &p->thread_bytes,
               end = lki_bytes_add(spans[i].at, spans[i].bytes);
        if (end > *total) *total = end;
        if (spans[i].value < 0) p->tasks[-1 - spans[i].value].at = spans[i].at;
        else p->storage[spans[i].value].at = spans[i].at;
    }
    lki_release(spans);
    lki_release(r);
    p->thread_stride = lki_bytes_round_up(lki_bytes_add(p->thread_bytes, 1), 4096);
    bool null = lki_device_current()->kind == LKI_DEVICE_NULL; /* no kernel will write there, and results are copied from it */
    p->shared = null ? lki_zalloc(lki_bytes_add(p->shared_bytes, 1)) : lki_alloc(lki_bytes_add(p->shared_bytes, 1));
    p->thread_block = lki_alloc_array(p->threads, p->thread_stride);
    return p->shared && p->thread_block ? LK_OK : LK_ENOMEM;
}
