/* Many replicas as one device.
 *
 * N replicas that do the same on neighbouring lanes of one batch are one device on all of it: the lane tree has one order,
 * whichever replica has the lanes. So what they recorded, N nodes for each of a single program, becomes one node each, on merged
 * operands (merge.h); and the plan, its speed and its bits are those of N = 1.
 *
 * Invariants
 * 1. All or nothing: a new graph is made beside the old one. Where one node cannot be merged, the old one stays, and one line says
 *    why.
 * 2. The k-th ops of all replicas belong together: echoes of a node with that node (echo.h). They keep the place of the first
 *    replica that recorded them, which is the order of one device.
 * 3. Nodes that all replicas recorded together (where they met) are copied. Sums over the replicas become nothing, because merged
 *    sums are already whole. A node that works on one replica's part of a sum waits: it may turn out to be one of N of a kind, or
 *    not to be needed. */
#include "core/log.h"
#include "graph/merge.h"
#include <lockstep/ops.h>
#include <string.h>

/* ---- nodes of all replicas ---- */

/* The last of the replicas' updates of a variable makes the value that the merged one makes; no node may read what
 * the others made. */
static lk_status merge_tuple(lki_merger *m, int tuple)
{
    const int      *member = m->members + tuple * m->n;
    const lki_node *first = lki_from_node(m, member[0]);
    int            *dst = lki_merge_integers(m, first->ndst), last = 0;
    if (!dst) return LK_ENOMEM;
    m->done[tuple] = true;
    LKI_TRY(lki_merge_nodes(m, member, dst));
    for (int r = 0; r < m->n; r++) {
        const lki_node *n = lki_from_node(m, member[r]);
        for (int d = 0; d < n->ndst && !n->writes; d++)
            m->whole[lki_member_dst(m, member, r, d)] = dst[d];
        if (n->writes && lki_from_value(m, n->dst[0])->version > lki_from_value(m, lki_from_node(m, member[last])->dst[0])->version)
            last = r;
    }
    if (first->writes) m->whole[lki_from_node(m, member[last])->dst[0]] = dst[0];
    return LK_OK;
}

/* ---- where replicas met ---- */

static lk_status times(lki_merger *m, int value, double factor, int *out)
{
    static const lki_attr none;
    lki_value             x = *lki_to_value(m, value);
    int                   src[2] = {value};
    *out = value;
    if (factor == 1) return LK_OK;
    LKI_TRY(lki_merge_add_constant(m, lk_fill((lk_shape){0}, x.dtype, factor), &src[1]));
    int node = lki_graph_add_node(m->to, LKI_OP_mul, &none, 2, src, 1);
    if (node < 0) return LK_ENOMEM;
    lki_infer f = {.ndst = 1, .shape = {x.shape}, .dtype = {x.dtype}};
    m->to->nodes[node].type = x.dtype;
    return lki_merge_add_results(m, node, &f, out);
}

/* What a sum over replicas, an agreement, or their rows joined comes to. `done`: nothing is left to do. */
static lk_status meet(lki_merger *m, const lki_node *n, bool *done)
{
    bool joins = n->op == LKI_OP_concat && n->attr.scan.axis == 0, sums = n->op == LKI_OP_replica_sum,
         agrees = n->op == LKI_OP_agree;
    int value;
    if ((!joins && !sums && !agrees) || n->nsrc - sums != m->n) return LK_OK;
    int *v = lki_merge_integers(m, m->n);
    if (!v) return LK_ENOMEM;
    for (int r = 0; r < m->n; r++)
        v[r] = -1;
    for (int i = 0; i < m->n; i++) { /* a sum may be taken in any order */
        int r = sums && lki_from_value(m, n->src[i])->replica >= 0 ? lki_from_value(m, n->src[i])->replica : i;
        if (r >= m->n || v[r] >= 0) return LK_OK;
        v[r] = n->src[i];
    }
    char before[sizeof m->why];
    memcpy(before, m->why, sizeof before);
    lk_status status = lki_merge_values(m, v, &value);
    if (status == LK_EUNSUPPORTED) return memcpy(m->why, before, sizeof before), LK_OK;
    LKI_TRY(status);
    lki_row_kind kind = lki_to_value(m, value)->rows.kind;
    if ((sums && kind == LKI_ROWS) || (agrees && kind != LKI_UNIFORM) || (joins && kind != LKI_ROWS)) return LK_OK;
    if (kind == LKI_UNIFORM) LKI_TRY(times(m, value, sums ? m->n : n->attr.num.a, &value));
    *done = true;
    return lki_merge_add_alias(m, value, &lki_from_value(m, n->dst[0])->shape, &(lki_rows){0}, 0, &m->whole[n->dst[0]]);
}

static lk_status copy_results(lki_merger *m, const lki_node *n, int node)
{
    for (int d = 0; d < n->ndst; d++) {
        lki_value v = *lki_from_value(m, n->dst[d]);
        int       at;
        if (n->writes) {
            if ((at = lki_graph_write(m->to, v.variable, node)) < 0) return LK_ENOMEM;
        } else {
            v.rows = lki_common_rows(&v.rows);
            v.maker = node;
            if (lki_is_alias(n)) v.alias_of = m->to->nodes[node].src[0];
            LKI_TRY(lki_merge_add_value(m, &v, &at));
        }
        m->to->nodes[node].dst[d] = m->whole[n->dst[d]] = at;
    }
    return LK_OK;
}

/* A node that all replicas recorded together, on values by themselves. One that needs a replica's part of a sum waits. */
static lk_status copy_node(lki_merger *m, const lki_node *n)
{
    bool done = false;
    int *src = lki_merge_integers(m, n->nsrc);
    if (!src) return LK_ENOMEM;
    LKI_TRY(meet(m, n, &done));
    if (done) return LK_OK;
    for (int j = 0; j < n->nsrc; j++) {
        const lki_value *x = lki_from_value(m, n->src[j]);
        lk_status        status = lki_is_unread(n, j) ? lki_merge_add_shape(m, x->dtype, &x->shape, &x->rows, &src[j])
                                                      : lki_merge_alone(m, n->src[j], &src[j]);
        if (status == LK_EUNSUPPORTED && !n->writes) return LK_OK;
        LKI_TRY(status);
    }
    int node = lki_merge_add_node(m, n, &n->attr, src);
    return node < 0 ? LK_ENOMEM : copy_results(m, n, node);
}

/* ---- results ---- */

static int add_output(lki_merger *m, int value)
{
    m->to->outputs[m->to->output_count] = value;
    return m->to->output_count++;
}

static lk_status leave_by_itself(lki_merger *m, lki_form *f)
{
    int value;
    LKI_TRY(lki_merge_alone(m, m->from->outputs[f->output], &value));
    f->output = add_output(m, value);
    return LK_OK;
}

/* A per-replica result: its form, that of its whole and those of its items. Rows are ranges of one output, something uniform is one
 * output for all. `done`: it was one of these. */
static lk_status leave_together(lki_merger *m, lki_form *f, bool *done)
{
    int *v = lki_merge_integers(m, m->n), value;
    if (!v) return LK_ENOMEM;
    for (int r = 0; r < m->n; r++) {
        if (f->count != m->n || f[2 + r].kind != LKI_FORM_TENSOR) return LK_OK;
        v[r] = m->from->outputs[f[2 + r].output];
    }
    lk_status status = lki_merge_values(m, v, &value);
    if (status == LK_EUNSUPPORTED) return LK_OK; /* perhaps one by one */
    LKI_TRY(status);
    const lki_value *x = lki_to_value(m, value);
    if (x->rows.kind == LKI_ROW_SUM) return lki_merge_refuse(m, "a per-replica result is a part of a sum");
    int     output = add_output(m, value);
    int64_t first = 0;
    bool    rows = x->rows.kind == LKI_ROWS;
    if (rows)
        f[1] = (lki_form){
            .kind = LKI_FORM_TENSOR, .dtype = x->dtype, .shape = x->shape, .rows = x->rows, .output = output, .first = -1};
    for (int r = 0; r < m->n; r++) {
        f[2 + r].output = output;
        f[2 + r].first = rows ? first : -1;
        first += rows ? f[2 + r].shape.dim[0] : 0;
    }
    *done = true;
    return LK_OK;
}

/* Its items lie in its whole already. */
static lk_status leave_whole(lki_merger *m, lki_form *f)
{
    LKI_TRY(leave_by_itself(m, &f[1]));
    for (int r = 0; r < f->count; r++)
        f[2 + r].output = f[1].output;
    return LK_OK;
}

static lk_status leave(lki_merger *m)
{
    lki_graph *to = m->to, *from = m->from;
    to->outputs = lki_alloc_array(from->result_count + 1, sizeof *to->outputs);
    to->results = lki_alloc_array(from->result_count + 1, sizeof *to->results);
    if (!to->outputs || !to->results) return LK_ENOMEM;
    memcpy(to->results, from->results, (size_t)from->result_count * sizeof *to->results);
    to->result_count = from->result_count;
    to->result_items = from->result_items;
    for (int i = 0; i < to->result_count; i++) {
        lki_form *f = &to->results[i];
        bool      done = f->kind == LKI_FORM_REPLICAS && f[1].kind == LKI_FORM_TENSOR;
        if (f->kind == LKI_FORM_TENSOR) LKI_TRY(leave_by_itself(m, f));
        if (f->kind != LKI_FORM_REPLICAS) continue;
        if (done) LKI_TRY(leave_whole(m, f));
        else LKI_TRY(leave_together(m, f, &done));
        if (done) i += 1 + f->count;
    }
    return LK_OK;
}

/* ---- lining up ---- */

/* If a result of what replica r did in node i is needed, its operands are. */
static void sweep(lki_merger *m, bool *needed, int i, int r)
{
    const lki_node *n = lki_from_node(m, i);
    bool            live = n->writes;
    for (int d = 0; d < n->ndst; d++)
        live = live || needed[lki_echo_dst(m->from, i, r, d)];
    for (int j = 0; j < n->nsrc && live; j++)
        if (!lki_is_unread(n, j)) needed[lki_echo_src(m->from, i, r, j)] = true;
    m->live[i] = m->live[i] || live;
}

/* What is needed: results, updates, and what they are made of. Operands come before the ops that read them, so one sweep from the
 * back is enough. */
static lk_status find_live(lki_merger *m)
{
    lki_graph       *g = m->from;
    lki_recorded_op *events;
    bool            *needed = lki_arena_alloc(&m->arena, (size_t)g->value_count + 1);
    m->live = lki_arena_alloc(&m->arena, (size_t)g->node_count + 1);
    const int count = needed && m->live ? lki_echo_events(g, &events) : -1;
    if (count < 0) return LK_ENOMEM;
    for (int i = 0; i < g->output_count; i++)
        needed[g->outputs[i]] = true;
    for (int i = count - 1; i >= 0; i--)
        sweep(m, needed, events[i].node, events[i].replica);
    lki_release(events);
    return LK_OK;
}

/* With echoes the k-th ops of all replicas are tuple k. */
static lk_status line_up_echoes(lki_merger *m)
{
    const lki_graph *g = m->from;
    m->tuples = g->ops_of[0].count;
    if (!(m->members = lki_merge_integers(m, (int)lki_min((int64_t)m->tuples * m->n, INT32_MAX - 1)))) return LK_ENOMEM;
    for (int i = 0; i < g->node_count; i++)
        m->tuple_of[i] = g->nodes[i].replica < 0 ? -1 : g->nodes[i].place;
    for (int k = 0; k < m->tuples; k++)
        for (int r = 0; r < m->n; r++)
            m->members[k * m->n + r] = g->ops_of[r].place[k].node;
    return LK_OK;
}

/* The k-th nodes of all replicas are tuple k; `all`: of all they recorded, else of those that are needed. */
static lk_status line_up(lki_merger *m, bool all)
{
    const lki_graph *g = m->from;
    int             *count = lki_merge_integers(m, m->n);
    if (!count) return LK_ENOMEM;
    for (int pass = 0; pass < 2; pass++) {
        memset(count, 0, (size_t)m->n * sizeof *count);
        for (int i = 0; i < g->node_count; i++) {
            m->tuple_of[i] = -1;
            int r = g->nodes[i].replica;
            if (r < 0 || !(all || m->live[i])) continue;
            int k = count[r]++;
            if (!pass) continue;
            m->tuple_of[i] = k;
            m->members[k * m->n + r] = i;
        }
        for (int r = 1; r < m->n; r++)
            if (count[r] != count[0]) return lki_merge_refuse(m, "replica 0 does %d ops, replica %d %d", count[0], r, count[r]);
        m->tuples = count[0];
    }
    for (int k = 0; k < m->tuples; k++)
        for (int r = 1; r < m->n; r++)
            if (lki_from_node(m, m->members[k * m->n + r])->op != lki_from_node(m, m->members[k * m->n])->op)
                return lki_merge_refuse(m, "replica %d does %s where replica 0 does %s", r,
                                        lki_op_name(lki_from_node(m, m->members[k * m->n + r])->op),
                                        lki_op_name(lki_from_node(m, m->members[k * m->n])->op));
    return LK_OK;
}

static bool is_needed(const lki_merger *m, int tuple)
{
    bool live = false;
    for (int r = 0; r < m->n; r++)
        live = live || m->live[m->members[tuple * m->n + r]];
    return live;
}

/* ---- all of it ---- */

static lk_status make_room(lki_merger *m)
{
    const lki_graph *g = m->from;
    int              most = 1;
    for (int i = 0; i < g->node_count; i++)
        most = g->nodes[i].nsrc > most ? g->nodes[i].nsrc : most;
    m->to = lki_graph_new();
    m->members = lki_merge_integers(m, g->node_count);
    m->tuple_of = lki_merge_integers(m, g->node_count);
    m->done = lki_arena_alloc(&m->arena, (size_t)g->node_count + 1);
    m->whole = lki_merge_integers(m, g->value_count);
    m->alone = lki_merge_integers(m, g->value_count);
    m->stand_in = lki_arena_array(&m->arena, most, sizeof *m->stand_in);
    m->operand = lki_arena_array(&m->arena, most, sizeof *m->operand);
    if (!m->to || !m->members || !m->tuple_of || !m->done || !m->whole || !m->alone || !m->stand_in || !m->operand)
        return LK_ENOMEM;
    for (int v = 0; v < g->value_count; v++)
        m->whole[v] = m->alone[v] = -1;
    m->to->input_count = g->input_count;
    m->to->recorded = g->recorded;
    m->to->name = g->name;
    m->to->device = g->device;
    m->to->precision = g->precision;
    m->to->scattered = g->scattered;
    return LK_OK;
}

static lk_status enter_variables(lki_merger *m)
{
    for (int v = 0; v < m->from->value_count; v++) {
        const lki_value *x = lki_from_value(m, v);
        if (x->kind != LKI_VALUE_VARIABLE || x->version) continue;
        const lki_graph_variable *entry = lki_graph_enter(m->to, x->variable);
        if (!entry) return LK_ENOMEM;
        m->whole[v] = entry->value;
    }
    return LK_OK;
}

static lk_status collapse(lki_merger *m)
{
    if (m->from->several_numbers) return lki_merge_refuse(m, "strategies of different size take part");
    LKI_TRY(make_room(m));
    LKI_TRY(find_live(m));
    lk_status status = m->from->ops_of ? line_up_echoes(m) : line_up(m, true);
    if (status == LK_EUNSUPPORTED) status = line_up(m, false); /* one may have done more that is not needed */
    LKI_TRY(status);
    LKI_TRY(enter_variables(m));
    m->why[0] = 0;
    for (int i = 0; i < m->from->node_count; i++) {
        int tuple = m->tuple_of[i];
        if (tuple < 0 && m->live[i]) LKI_TRY(copy_node(m, lki_from_node(m, i)));
        if (tuple >= 0 && !m->done[tuple] && is_needed(m, tuple)) LKI_TRY(merge_tuple(m, tuple));
    }
    return leave(m);
}

lk_status lki_graph_collapse(lki_graph **g)
{
    if ((*g)->replicas < 2 || (*g)->tracer.roots) return LK_OK;
    LKI_TRY(lki_echo_check(*g));
    lki_merger m = {.from = *g, .n = (*g)->replicas};
    lk_status  status = LK_OK;
    LK_STEP /* constants made on the way are held by the new graph */
        status = collapse(&m);
    if (status == LK_OK) {
        *g = m.to;
        m.to->where = m.from->where;
        m.from->where.device = NULL;
    }
    if (status == LK_EUNSUPPORTED) {
        lki_tell(LKI_TOPIC_LANES, "%s: its %d replicas are planned one beside the other, not as one device: %s", m.from->name, m.n,
                 m.why);
        m.from->apart = true;
        status = lki_echo_expand(m.from);
    }
    lki_graph_free(*g == m.to ? m.from : m.to);
    lki_arena_clear(&m.arena);
    lki_release(m.joins);
    return status;
}
