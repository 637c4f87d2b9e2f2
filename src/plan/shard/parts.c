/* Cutting a graph into parts between exchanges of sums: first every node as early as possible, then some as late as possible. */
#include "plan/shard/parts.h"
#include "core/names.h"
#include "lane/lanes.h"
#include "plan/plan.h"
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static lk_status refuse(char *why, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    lki_text_vprint(why, LKI_PARTS_WHY, 0, format, list);
    va_end(list);
    return LK_EUNSUPPORTED;
}

void lki_parts_window(const lki_rows *rows, int from, int end, int64_t *lo, int64_t *hi)
{
    const int64_t begin = lki_lane_begin(rows->global, rows->lanes, from) - rows->first,
                  stop = end == rows->lanes ? rows->rows : lki_lane_begin(rows->global, rows->lanes, end) - rows->first;
    *lo = lki_max(0, lki_min(begin, rows->rows));
    *hi = lki_max(*lo, lki_min(stop, rows->rows));
}

/* ---- can it be cut? ---- */

/* All entries of its root, under another shape. */
static bool is_whole(const lki_graph *g, int value) { return lki_graph_offset(g, value) == 0 && !lki_graph_is_range(g, value); }

/* An operand that is cut, of which a member needs its own rows; or one that is not, of which it needs everything. */
static lk_status check_operand(const lki_graph *g, const lki_parts *p, const lki_node *n, int i, char *why)
{
    const lki_value *v = &g->values[n->src[i]];
    const bool       cut = n->mode != LKI_WHOLE && lki_is_cut(n->cut, i), rows = p->rows[lki_graph_root(g, n->src[i])];
    if (rows && !is_whole(g, n->src[i])) return refuse(why, "%s works on some of a replica's rows", lki_op_name(n->op));
    if (lki_shape_only(n, i) && !rows) return LK_OK;
    if (rows && !cut) return refuse(why, "%s needs the rows of all replicas", lki_op_name(n->op));
    if (cut && (!v->shape.rank || v->shape.dim[0] != n->rows.rows * (v->rows.kind == LKI_ROWS ? v->rows.per_row : n->rows.per_row)))
        return refuse(why, "an operand of %s has another number of rows", lki_op_name(n->op));
    return LK_OK;
}

static lk_status check_node(const lki_graph *g, const lki_parts *p, int lanes, const lki_node *n, char *why)
{
    const bool per_lane = n->op == LKI_OP_lane_add;
    for (int i = 0; i < n->nsrc; i++)
        LKI_TRY(check_operand(g, p, n, i, why));
    if (n->mode != LKI_WHOLE && n->rows.lanes != lanes)
        return refuse(why, "%s works in %d lanes, others in %d", lki_op_name(n->op), n->rows.lanes, lanes);
    if (n->mode == LKI_EACH && n->writes) return refuse(why, "%s updates rows of a variable", lki_op_name(n->op));
    if (n->mode == LKI_SUM && n->writes != per_lane) return refuse(why, "%s updates a variable by sums", lki_op_name(n->op));
    if (per_lane && g->values[n->dst[0]].shape.dim[0] != lanes) return refuse(why, "a metric has another number of lanes");
    if (n->mode == LKI_WHOLE && per_lane) return refuse(why, "a metric is updated by something that is not rows of the batch");
    for (int i = 0; i < n->ndst && n->mode == LKI_SUM && !per_lane; i++) {
        const lk_dtype d = g->values[n->dst[i]].dtype;
        if (d != LK_F32 && d != LK_F64 && d != LK_I32 && d != LK_I64)
            return refuse(why, "%s sums %s", lki_op_name(n->op), lk_dtype_name(d));
    }
    return LK_OK;
}

/* Rows are what is made row by row, and inputs that are rows. */
static void find_rows(const lki_graph *g, lki_parts *p)
{
    for (int v = 0; v < g->value_count; v++)
        if (g->values[v].kind == LKI_VALUE_INPUT && g->values[v].rows.kind == LKI_ROWS) p->rows[v] = true;
    for (int k = 0; k < p->node_count; k++) {
        const lki_node *n = &g->nodes[p->nodes[k]];
        for (int i = 0; i < n->ndst && n->mode == LKI_EACH; i++)
            p->rows[n->dst[i]] = true;
    }
}

static lk_status check(const lki_graph *g, const lki_parts *p, int lanes, char *why)
{
    for (int k = 0; k < p->node_count; k++)
        LKI_TRY(check_node(g, p, lanes, &g->nodes[p->nodes[k]], why));
    for (int i = 0; i < g->output_count; i++)
        if (p->rows[lki_graph_root(g, g->outputs[i])] && !is_whole(g, g->outputs[i]))
            return refuse(why, "a result is some of a replica's rows");
    return LK_OK;
}

/* ---- parts ---- */

typedef struct times {   /* by key, in parts */
    int *key;            /* by value */
    int *ready, *read;   /* forwards: the first it can be read in, the last that reads it */
    int *need, *written; /* backwards: the first that reads or writes it, the first that writes it */
} times;

/* May it meet an index out of range on one member and not on another? */
static bool by_rows(const lki_node *n) { return n->mode != LKI_WHOLE; }

static int larger(int a, int b) { return a > b ? a : b; }
static int smaller(int a, int b) { return a < b ? a : b; }

/* As early as it can be. */
static void find_earliest(const lki_graph *g, lki_parts *p, times *t)
{
    int  after_faults = 0;
    bool lanes = false;
    p->count = 1;
    for (int k = 0; k < p->node_count; k++) {
        const lki_node *n = &g->nodes[p->nodes[k]];
        const bool      sums = n->mode == LKI_SUM;
        int             at = n->writes ? after_faults : 0;
        for (int i = 0; i < n->nsrc; i++)
            if (!lki_shape_only(n, i)) at = larger(at, t->ready[t->key[n->src[i]]]);
        for (int i = 0; i < n->ndst; i++)
            at = larger(at, larger(t->ready[t->key[n->dst[i]]], t->read[t->key[n->dst[i]]]));
        for (int i = 0; i < n->nsrc; i++)
            t->read[t->key[n->src[i]]] = larger(t->read[t->key[n->src[i]]], at);
        for (int i = 0; i < n->ndst; i++)
            t->ready[t->key[n->dst[i]]] = at + sums;
        if (lki_may_fault(n)) after_faults = larger(after_faults, at + by_rows(n));
        p->part[p->nodes[k]] = at;
        p->count = larger(p->count, at + 1 + (sums && !n->writes));
        lanes = lanes || (sums && n->writes);
    }
    p->exchanges = p->count - !lanes; /* what metrics sum is exchanged at the very end if no node reads it before */
}

/* As late as possible: updates, which then know whether any member met an index out of range, and nodes that need only sums. Also
 * the last exchange that each sum can go with. */
static void find_latest(const lki_graph *g, lki_parts *p, times *t)
{
    for (int v = 0; v < g->value_count; v++)
        t->need[v] = t->written[v] = INT_MAX;
    int first_write = INT_MAX; /* of those seen so far */
    for (int k = p->node_count - 1; k >= 0; k--) {
        const lki_node *n = &g->nodes[p->nodes[k]];
        int            *at = &p->part[p->nodes[k]], limit = p->count - 1, needed = p->count;
        for (int i = 0; i < n->nsrc; i++)
            if (!lki_shape_only(n, i)) limit = smaller(limit, t->written[t->key[n->src[i]]]);
        for (int i = 0; i < n->ndst; i++)
            needed = smaller(needed, t->need[t->key[n->dst[i]]]);
        const bool sums = n->mode == LKI_SUM, faults = lki_may_fault(n);
        if (faults) limit = smaller(limit, first_write);
        if (sums) p->exchange[p->nodes[k]] = smaller(needed, n->writes ? p->count : p->count - 1) - 1;
        if (n->writes || (!sums && *at > 0 && !(faults && by_rows(n)))) *at = smaller(limit, needed - sums);
        if (n->writes) first_write = smaller(first_write, *at);
        for (int i = 0; i < n->nsrc; i++)
            if (!lki_shape_only(n, i)) t->need[t->key[n->src[i]]] = smaller(t->need[t->key[n->src[i]]], *at);
        for (int i = 0; i < n->ndst; i++) {
            t->need[t->key[n->dst[i]]] = smaller(t->need[t->key[n->dst[i]]], *at);
            t->written[t->key[n->dst[i]]] = smaller(t->written[t->key[n->dst[i]]], *at);
        }
    }
}

/* ---- packs ---- */

static int64_t bytes_of(const lki_graph *g, const lki_node *n)
{
    int64_t bytes = 0;
    for (int i = 0; i < n->ndst; i++)
        bytes = lki_size_add(
            bytes, lki_size_mul(lki_shape_size(&g->values[n->dst[i]].shape), (int64_t)lk_dtype_bytes(g->values[n->dst[i]].dtype)));
    return bytes;
}

/* Sums of exchange e in the order they are made: those of parts before it, then of its own. A pack is full when it has more than
 * `limit` bytes; part e ends after the sum that fills it, and what is left of it is the next part. Returns how many parts that
 * makes more, and with `apply` makes them: there must be room for them (make_room). */
static int split_exchange(const lki_graph *g, lki_parts *p, int e, int64_t limit, bool apply)
{
    int64_t bytes = 0, left = 0;
    int     more = 0;
    for (int k = 0; k < p->node_count; k++) {
        const int node = p->nodes[k];
        if (p->exchange[node] != e || g->nodes[node].writes) continue;
        if (p->part[node] < e) bytes += bytes_of(g, &g->nodes[node]);
        else left += bytes_of(g, &g->nodes[node]);
    }
    for (int k = 0; k < p->node_count; k++) {
        const int  node = p->nodes[k];
        const bool sums = p->exchange[node] == e && !g->nodes[node].writes;
        if (p->part[node] != e) continue;
        if (apply) p->part[node] = e + more;
        if (!sums) continue;
        if (apply) p->exchange[node] = e + more;
        bytes += bytes_of(g, &g->nodes[node]);
        left -= bytes_of(g, &g->nodes[node]);
        if (bytes <= limit || !left) continue;
        bytes = 0;
        more++;
    }
    return more;
}

/* Everything after exchange e, and variables written with it, move on by `more` parts. */
static void make_room(const lki_graph *g, lki_parts *p, int e, int more)
{
    for (int k = 0; k < p->node_count; k++) {
        const int node = p->nodes[k];
        if (p->part[node] > e) p->part[node] += more;
        if (p->exchange[node] > e || (p->exchange[node] == e && g->nodes[node].writes)) p->exchange[node] += more;
    }
    memmove(p->beside + e + more, p->beside + e, (size_t)(p->exchanges - e) * sizeof *p->beside);
    memset(p->beside + e, true, (size_t)more * sizeof *p->beside);
    p->count += more;
    p->exchanges += more;
}

static void split_exchanges(const lki_graph *g, lki_parts *p, int64_t limit)
{
    for (int e = p->exchanges - 1; e >= 0; e--) {
        make_room(g, p, e, split_exchange(g, p, e, limit, false));
        split_exchange(g, p, e, limit, true);
    }
}

/* The words `stop` go with the next exchange that members wait for. */
static void find_stops(const lki_graph *g, lki_parts *p)
{
    for (int k = 0; k < p->node_count; k++) {
        const lki_node *n = &g->nodes[p->nodes[k]];
        int             e = p->part[p->nodes[k]];
        if (!lki_may_fault(n) || !by_rows(n)) continue;
        while (e < p->exchanges && p->beside[e])
            e++;
        if (e < p->exchanges) p->stops[e] = true;
    }
}

/* ---- all of it ---- */

static void list_nodes(const lki_graph *g, lki_parts *p)
{
    p->node_count = lki_plan_recorded(g, p->nodes);
    for (int i = 0; i < g->node_count; i++)
        p->part[i] = p->exchange[i] = -1;
}

lk_status lki_parts_find(const lki_graph *g, int lanes, int64_t pack, lki_parts *p, char why[LKI_PARTS_WHY])
{
    const size_t nodes = (size_t)g->node_count + 1, values = (size_t)g->value_count + 1;
    int         *room = lki_zalloc_array(values, 5 * sizeof *room);
    *p = (lki_parts){.nodes = lki_alloc_array(nodes, sizeof *p->nodes),
                     .part = lki_alloc_array(nodes, sizeof *p->part),
                     .exchange = lki_alloc_array(nodes, sizeof *p->exchange),
                     .rows = lki_zalloc(values)};
    lk_status status = room && p->nodes && p->part && p->exchange && p->rows ? LK_OK : LK_ENOMEM;
    times     t = {room, room + values, room + 2 * values, room + 3 * values, room + 4 * values};
    if (status == LK_OK) {
        list_nodes(g, p);
        find_rows(g, p);
        status = check(g, p, lanes, why);
    }
    if (status == LK_OK) {
        for (int v = 0; v < g->value_count; v++)
            t.key[v] = lki_graph_key(g, v);
        find_earliest(g, p, &t);
        find_latest(g, p, &t);
        const size_t most = (size_t)p->exchanges + nodes; /* with at most one more for each node */
        p->stops = lki_zalloc(most);
        p->beside = lki_zalloc(most);
        if (!p->stops || !p->beside) status = LK_ENOMEM;
        if (status == LK_OK && pack > 0) split_exchanges(g, p, pack);
        if (status == LK_OK) find_stops(g, p);
    }
    lki_release(room);
    if (status != LK_OK) lki_parts_clear(p);
    return status;
}

void lki_parts_clear(lki_parts *p)
{
    lki_release(p->nodes);
    lki_release(p->part);
    lki_release(p->exchange);
    lki_release(p->stops);
    lki_release(p->beside);
    lki_release(p->rows);
    *p = (lki_parts){0};
}
