/* Which task runs where and in which phase.
 *
 * Invariants
 * 1. If task b needs what task a made, or must write a variable after a has read it, then either a's phase is earlier, or both are
 *    in one phase and each thread runs its part of b after the very part of a that it needs (`together`).
 * 2. Tasks of one TILES group have results of the same size and the same pieces.
 * 3. Uniform element-wise tasks sink to the phase of their first reader, where they join its group. */
#include "core/log.h"
#include "plan/cpu/cpu.h"
#include "plan/needs.h"
#include <string.h>

enum {
    WIDE_WEIGHTS = 128 * 1024, /* bytes of a matmul's second operand from which it runs per thread rather than per lane */
    MANY_WEIGHTS = 4,          /* from this many times the bytes of the first operand and the result, it runs by columns */
    WIDE_SUM = 8192,           /* elements of a matmul's result from which it sums over all rows by tiles, not lane by lane, ... */
    MANY_ENTRIES = 64,         /* ... unless a lane has this many entries, so that operands still in its cache matter more, ... */
    LARGEST_PARTIAL = 65536,   /* ... and the result has at most this many elements */
    COARSE_PIECE = 65536, /* the most elements of a piece of a matrix product, so that the piece stays in the second-level cache */
    COARSE_ROWS = 8,      /* and its rows, at least */
    SMALL = 4096,         /* elements below which a uniform task is not worth sharing out */
};

typedef struct edge {
    int  from, to; /* tasks */
    bool strict;   /* never in one phase */
} edge;

typedef struct edges {
    edge *list;
    int   count, capacity;
} edges;

/* ---- tasks and places ---- */

static int64_t size_of(const lki_cpu_plan *p, const lki_node *n, int result)
{
    return lki_shape_size(&p->graph->values[n->dst[result]].shape);
}

static int64_t result_size(const lki_cpu_plan *p, const lki_node *n) { return size_of(p, n, 0); }

static bool follows_lanes(const lki_cpu_plan *p, const lki_node *n) { return n->rows.lanes == p->lanes && p->lanes > 0; }

static size_t operand_bytes(const lki_cpu_plan *p, const lki_node *n, int i)
{
    const lki_value *v = &p->graph->values[n->src[i]];
    return lki_bytes_of(lki_shape_size(&v->shape), lk_dtype_bytes(v->dtype));
}

/* Element-wise, or a sum over replicas: any piece of the result needs just the same piece of the operands. */
static bool goes_by_pieces(const lki_node *n)
{
    return lki_is_elementwise(n->op) || n->op == LKI_OP_replica_sum || n->op == LKI_OP_agree;
}

static lki_task place_whole(const lki_cpu_plan *p, int node)
{
    const lki_node *n = &p->graph->nodes[node];
    int64_t         size = n->ndst ? result_size(p, n) : 0;
    lki_task        t = {.kind = LKI_TASK_RUN, .place = LKI_SOLO, .node = node, .size = size, .unit = 1};
    if (size >= SMALL && goes_by_pieces(n)) t.place = LKI_TILES;
    if (n->op == LKI_OP_matmul && (n->mode == LKI_SUM || size >= SMALL)) {
        const lk_shape *s = &p->graph->values[n->dst[0]].shape;
        t.place = LKI_TILES;
        t.coarse = true;
        t.unit = lki_max(1, s->dim[s->rank - 1]);
    }
    return t;
}

static bool add_task(lki_cpu_plan *p, lki_task t)
{
    if (!lki_grow((void **)&p->tasks, &p->task_capacity, p->task_count + 1, sizeof t)) return false;
    p->tasks[p->task_count++] = t;
    return true;
}

static int64_t lane_entries(const lki_node *n) { return n->rows.global * n->rows.per_row / n->rows.lanes; }

/* Summed over all lanes at once, tile by tile, rather than lane by lane. */
static bool is_whole_sum(const lki_cpu_plan *p, const lki_node *n)
{
    int64_t size = result_size(p, n);
    if (n->op == LKI_OP_gather_grad) return true;
    return n->op == LKI_OP_matmul && size >= WIDE_SUM && (size > LARGEST_PARTIAL || lane_entries(n) < MANY_ENTRIES);
}

/* The place of a matrix product whose rows follow the lanes. Weights that all rows share are read once per thread, or, if they are
 * by far the largest operand, once in all. */
static lki_task_place place_product(const lki_cpu_plan *p, const lki_node *n)
{
    const size_t a = operand_bytes(p, n, 0), b = operand_bytes(p, n, 1), c = (size_t)result_size(p, n) * lk_dtype_bytes(n->type);
    if (lki_is_cut(n->cut, 1) || b < WIDE_WEIGHTS || lane_entries(n) >= MANY_ENTRIES) return LKI_LANE;
    return p->threads > 1 && !n->attr.matmul.heads && b >= MANY_WEIGHTS * (a + c) ? LKI_COLUMNS : LKI_THREAD;
}

/* All results have one type. */
static bool add_lane_sums(lki_cpu_plan *p, int node)
{
    const lki_node *n = &p->graph->nodes[node];
    const int       partial = p->task_count;
    int64_t         before = 0;
    if (!add_task(p, (lki_task){.kind = LKI_TASK_PARTIAL, .place = LKI_LANE, .node = node})) return false;
    for (int i = 0; i < n->ndst; i++) {
        const int64_t size = size_of(p, n, i);
        if (!add_task(p, (lki_task){.kind = LKI_TASK_COMBINE,
                                    .place = size >= SMALL ? LKI_TILES : LKI_SOLO,
                                    .node = node,
                                    .partial = partial,
                                    .result = i,
                                    .before = before,
                                    .size = size,
                                    .unit = 1}))
            return false;
        before += size;
    }
    p->tasks[partial].size = before;
    return true;
}

static bool add_tasks_for(lki_cpu_plan *p, int node)
{
    const lki_node *n = &p->graph->nodes[node];
    if (n->slot == LKI_K_none) return add_task(p, (lki_task){.kind = LKI_TASK_EXCHANGE, .place = LKI_SOLO, .node = node});
    if (n->mode == LKI_EACH && follows_lanes(p, n)) {
        lki_task_place place = n->op == LKI_OP_matmul ? place_product(p, n) : LKI_LANE;
        return add_task(p, (lki_task){.kind = LKI_TASK_RUN, .place = place, .node = node});
    }
    if (n->mode == LKI_SUM && follows_lanes(p, n) && !is_whole_sum(p, n) && !n->writes) return add_lane_sums(p, node);
    return add_task(p, place_whole(p, node));
}

static bool make_tasks_for(lki_cpu_plan *p, int count, const int *nodes)
{
    bool good = count >= 0;
    for (int i = 0; i < count && good; i++)
        good = add_tasks_for(p, nodes[i]);
    return good;
}

static lk_status make_tasks(lki_cpu_plan *p)
{
    if (p->is.order) return make_tasks_for(p, p->is.order_count, p->is.order) ? LK_OK : LK_ENOMEM;
    int       *nodes = lki_alloc_array(p->graph->node_count + 1, sizeof *nodes);
    const bool good = nodes && make_tasks_for(p, lki_plan_sequence(p->graph, nodes), nodes);
    lki_release(nodes);
    return good ? LK_OK : LK_ENOMEM;
}

/* ---- which tasks wait for which ---- */

static bool add_edge(void *list, int to, int from)
{
    edges *e = list;
    if (!lki_grow((void **)&e->list, &e->capacity, e->count + 1, sizeof *e->list)) return false;
    e->list[e->count++] = (edge){from, to, false};
    return true;
}

static bool reads_operands(const lki_task *t) { return t->kind != LKI_TASK_COMBINE; }

static bool edges_of_task(lki_cpu_plan *p, edges *e, lki_needs *needs, int task)
{
    const lki_task *t = &p->tasks[task];
    const lki_node *n = &p->graph->nodes[t->node];
    const bool      combines = t->kind == LKI_TASK_COMBINE;
    const int       first = combines ? t->result : 0, end = combines ? first + 1 : t->kind == LKI_TASK_PARTIAL ? 0 : n->ndst;
    if (combines ? !add_edge(e, task, t->partial) : !lki_needs_reads(needs, n, task, add_edge, e)) return false;
    for (int i = first; i < end; i++)
        p->maker[n->dst[i]] = task;
    return lki_needs_writes(needs, n, first, end, task, add_edge, e);
}

/* A step that meets an index out of range must not have written a variable. So writers run in a later phase than all earlier tasks
 * that may meet one. */
static bool edges_of_suspects(lki_cpu_plan *p, edges *e)
{
    for (int t = 0; t < p->task_count; t++)
        for (int w = t + 1; w < p->task_count && lki_may_fault(&p->graph->nodes[p->tasks[t].node]); w++) {
            if (!p->graph->nodes[p->tasks[w].node].writes) continue;
            if (!add_edge(e, w, t)) return false;
            e->list[e->count - 1].strict = true;
        }
    return true;
}

/* An exchange comes after all tasks before it, and before all tasks after it. */
static bool edges_of_exchanges(const lki_cpu_plan *p, edges *e)
{
    int last = -1;
    for (int t = 0; t < p->task_count; t++) {
        const bool exchange = p->tasks[t].kind == LKI_TASK_EXCHANGE;
        if (last >= 0 && !add_edge(e, t, last)) return false;
        for (int k = last + 1; k < t && exchange; k++)
            if (!add_edge(e, t, k)) return false;
        if (exchange) last = t;
    }
    return true;
}

static lk_status find_edges(lki_cpu_plan *p, edges *e)
{
    const lki_graph *g = p->graph;
    lki_needs        needs;
    p->maker = lki_alloc_array(g->value_count + 1, sizeof *p->maker);
    bool good = lki_needs_init(&needs, g) && p->maker;
    for (int v = 0; v < g->value_count && good; v++)
        p->maker[v] = -1;
    for (int t = 0; t < p->task_count && good; t++)
        good = edges_of_task(p, e, &needs, t);
    lki_needs_clear(&needs);
    return good && edges_of_suspects(p, e) && edges_of_exchanges(p, e) ? LK_OK : LK_ENOMEM;
}

/* ---- phases ---- */

static bool is_row_task(const lki_task *t) { return t->place == LKI_LANE || t->place == LKI_THREAD; }

static bool makes_operand(const lki_cpu_plan *p, int a, const lki_task *b)
{
    const lki_node *n = &p->graph->nodes[b->node];
    for (int i = 0; i < n->nsrc; i++)
        if (p->maker[lki_graph_root(p->graph, n->src[i])] == a) return true;
    return false;
}

/* Does a read a variable that b overwrites? */
static bool reads_what_it_writes(const lki_cpu_plan *p, const lki_task *a, const lki_task *b)
{
    const lki_graph *g = p->graph;
    const lki_node  *n = &g->nodes[a->node];
    for (int i = 0; i < n->nsrc && reads_operands(a); i++)
        if (!lki_shape_only(n, i) && lki_graph_writer_after(g, lki_graph_root(g, n->src[i])) == b->node) return true;
    return false;
}

static bool reads_a_range(const lki_cpu_plan *p, int a, const lki_task *b)
{
    const lki_node *n = &p->graph->nodes[b->node];
    for (int i = 0; i < n->nsrc; i++)
        if (p->maker[lki_graph_root(p->graph, n->src[i])] == a && lki_graph_is_range(p->graph, n->src[i])) return true;
    return false;
}

/* True if a piece of b needs just the same piece of a: the sizes are equal, b is element-wise and reads no range of a's result; and
 * a is element-wise too, or it makes an operand of b and reads no variable that b overwrites. */
static bool piecewise(const lki_cpu_plan *p, int a, const lki_task *b)
{
    const lki_task *from = &p->tasks[a];
    if (from->size != b->size || b->kind == LKI_TASK_COMBINE || !goes_by_pieces(&p->graph->nodes[b->node])) return false;
    if (reads_a_range(p, a, b)) return false;
    return goes_by_pieces(&p->graph->nodes[from->node]) || (makes_operand(p, a, b) && !reads_what_it_writes(p, from, b));
}

/* Lane s of one is lane s of the other. */
static bool same_lanes(const lki_cpu_plan *p, const lki_task *a, const lki_task *b)
{
    const lki_rows *r = &p->graph->nodes[a->node].rows, *q = &p->graph->nodes[b->node].rows;
    return r->lanes == q->lanes && r->global == q->global && r->first == q->first && r->rows == q->rows;
}

/* May b run in a's phase, after it? */
static bool together(const lki_cpu_plan *p, int from, const lki_task *b)
{
    const lki_task *a = &p->tasks[from];
    if (a->kind == LKI_TASK_EXCHANGE || b->kind == LKI_TASK_EXCHANGE) return false;
    if (is_row_task(a) && is_row_task(b)) return same_lanes(p, a, b);
    if (a->place == LKI_TILES && b->place == LKI_TILES)
        return piecewise(p, from, b) && (a->unit == b->unit || a->unit == 1 || b->unit == 1);
    return a->place == LKI_SOLO && b->place == LKI_SOLO && a->thread == b->thread;
}

static void choose_thread(lki_cpu_plan *p, lki_task *t, int *next)
{
    bool heavy = t->place == LKI_SOLO && t->kind == LKI_TASK_RUN && p->graph->nodes[t->node].nsrc &&
                 operand_bytes(p, &p->graph->nodes[t->node], 0) >= 4 * SMALL;
    t->thread = heavy ? (*next)++ % p->threads : 0;
}

/* As early as the edges allow. Only edges to writers may point backward, so a few rounds are enough. */
static void assign_phases(lki_cpu_plan *p, const edges *e)
{
    for (bool again = true; again;) {
        again = false;
        for (int i = 0; i < e->count; i++) {
            lki_task *a = &p->tasks[e->list[i].from], *b = &p->tasks[e->list[i].to];
            bool      same = !e->list[i].strict && together(p, e->list[i].from, b);
            int       phase = a->phase + !same;
            int       turn = same && is_row_task(a) ? a->turn + (a->place != b->place) : 0;
            if (b->phase < phase) {
                b->phase = phase;
                b->turn = 0;
                again = true;
            }
            if (b->phase == phase && same && b->turn < turn) {
                b->turn = turn;
                again = true;
            }
        }
    }
}

static void sink(lki_cpu_plan *p, const edges *e)
{
    for (int t = p->task_count - 1; t >= 0; t--) {
        lki_task *a = &p->tasks[t];
        int       latest = -1;
        bool      output = false;
        if (a->place != LKI_TILES || a->unit != 1 || a->kind != LKI_TASK_RUN || p->graph->nodes[a->node].writes) continue;
        for (int i = 0; i < p->graph->output_count; i++)
            output = output || p->maker[lki_graph_root(p->graph, p->graph->outputs[i])] == t;
        for (int i = 0; i < e->count; i++)
            if (e->list[i].from == t) {
                const lki_task *b = &p->tasks[e->list[i].to];
                int             limit = b->phase - (e->list[i].strict || !together(p, t, b));
                latest = latest < 0 || limit < latest ? limit : latest;
            }
        if (!output && latest > a->phase) a->phase = latest;
    }
}

static int64_t common_multiple(int64_t a, int64_t b)
{
    int64_t x = a, y = b;
    while (y) {
        int64_t rest = x % y;
        x = y;
        y = rest;
    }
    return x ? a / x * b : 1;
}

/* Tasks of one phase that must run piece by piece together get one group and one unit. */
static void make_groups(lki_cpu_plan *p, const edges *e)
{
    for (int t = 0; t < p->task_count; t++) {
        p->tasks[t].group = t;
        p->tasks[t].chain = -1;
    }
    for (bool again = true; again;) {
        again = false;
        for (int i = 0; i < e->count; i++) {
            lki_task *a = &p->tasks[e->list[i].from], *b = &p->tasks[e->list[i].to];
            if (a->place != LKI_TILES || b->place != LKI_TILES || a->phase != b->phase) continue;
            int     group = a->group < b->group ? a->group : b->group;
            int64_t unit = common_multiple(a->unit, b->unit);
            if (a->group == group && b->group == group && a->unit == unit && b->unit == unit) continue;
            a->group = b->group = group;
            a->unit = b->unit = unit;
            again = true;
        }
    }
}

/* The elements of a piece: few; but if one task is a matrix product, enough for it, and about as many pieces for each thread. */
static int64_t piece_of(const lki_cpu_plan *p, const lki_task *t, bool coarse)
{
    if (!coarse) return lki_max(t->unit, LKI_PIECE / t->unit * t->unit);
    const int64_t units = lki_ceil_div(t->size, t->unit),
                  most = lki_min(lki_max(1, COARSE_PIECE / t->unit), lki_ceil_div(units, 4 * p->threads));
    const int64_t pieces = lki_round_up(lki_ceil_div(units, lki_max(most, COARSE_ROWS)), p->threads);
    return lki_round_up(lki_ceil_div(units, pieces), COARSE_ROWS) * t->unit;
}

static void choose_pieces(lki_cpu_plan *p)
{
    for (int group = 0; group < p->task_count; group++) {
        bool coarse = false;
        if (p->tasks[group].place != LKI_TILES || p->tasks[group].group != group) continue;
        for (int t = group; t < p->task_count; t++)
            coarse = coarse || (p->tasks[t].group == group && p->tasks[t].coarse);
        for (int t = group; t < p->task_count; t++)
            if (p->tasks[t].group == group) p->tasks[t].piece = piece_of(p, &p->tasks[t], coarse);
    }
}

static int lane_task_before(const lki_cpu_plan *p, int t)
{
    for (int i = t - 1; i >= 0; i--)
        if (p->tasks[i].place == LKI_LANE && p->tasks[i].phase == p->tasks[t].phase && p->tasks[i].turn == p->tasks[t].turn)
            return i;
    return -1;
}

static bool chainable(const lki_cpu_plan *p, const lki_task *a, const lki_task *b)
{
    const lki_node *n = &p->graph->nodes[a->node], *m = &p->graph->nodes[b->node];
    return a->kind == LKI_TASK_RUN && b->kind == LKI_TASK_RUN && lki_is_elementwise(n->op) && lki_is_elementwise(m->op) &&
           lki_shape_equal(&p->graph->values[n->dst[0]].shape, &p->graph->values[m->dst[0]].shape) &&
           n->rows.per_row == m->rows.per_row && n->rows.global == m->rows.global && n->rows.first == m->rows.first;
}

/* Neighbouring element-wise LANE tasks of one turn with results of one shape are a chain. An operand that another task of the
 * chain makes has that shape too, so a piece of the result needs just the same piece of the operand. */
static void make_chains(lki_cpu_plan *p)
{
    for (int t = 0; t < p->task_count; t++) {
        int before = p->tasks[t].place == LKI_LANE ? lane_task_before(p, t) : -1;
        if (before < 0 || !chainable(p, &p->tasks[before], &p->tasks[t])) continue;
        if (p->tasks[before].chain < 0) p->tasks[before].chain = before;
        p->tasks[t].chain = p->tasks[before].chain;
    }
}

static void tell(const lki_cpu_plan *p)
{
    static const char *const places[] = {"solo", "lane", "thread", "columns", "tiles"}, *const kinds[] = {"", " partial",
                                                                                                          " combine", " exchange"};
    if (!lki_verbose(LKI_TOPIC_PLAN)) return;
    for (int phase = 0; phase < p->phases; phase++)
        for (int t = 0; t < p->task_count; t++) {
            const lki_task *a = &p->tasks[t];
            const lki_node *n = &p->graph->nodes[a->node];
            char            shape[LKI_SHAPE_TEXT] = "", op[LKI_NODE_TEXT];
            if (a->phase != phase) continue;
            if (n->ndst) lki_shape_text(&p->graph->values[n->dst[a->result]].shape, shape);
            lki_tell(LKI_TOPIC_PLAN, "phase %d turn %d %s %d: %s%s %s", phase, a->turn, places[a->place],
                     a->place == LKI_TILES  ? a->group
                     : a->place == LKI_LANE ? a->chain
                                            : a->thread,
                     lki_node_text(n, op), kinds[a->kind], shape);
        }
}

lk_status lki_cpu_schedule(lki_cpu_plan *p)
{
    edges     e = {0};
    int       next = 1;
    lk_status status = make_tasks(p);
    if (status == LK_OK) status = find_edges(p, &e);
    if (status == LK_OK) {
        for (int t = 0; t < p->task_count; t++)
            choose_thread(p, &p->tasks[t], &next);
        assign_phases(p, &e);
        sink(p, &e);
        make_groups(p, &e);
        choose_pieces(p);
        for (int t = 0; t < p->task_count; t++)
            if (p->tasks[t].phase >= p->phases) p->phases = p->tasks[t].phase + 1;
        make_chains(p);
        tell(p);
    }
    lki_release(e.list);
    return status;
}
