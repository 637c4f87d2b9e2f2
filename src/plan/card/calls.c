/* Calls of a plan on a card: in the order of the plan's nodes, with the calls each must wait for, joined into launches. */
#include "core/log.h"
#include "core/names.h"
#include "kernel/run.h"
#include "op/run.h"
#include "plan/card/inside.h"
#include "plan/card/join.h"
#include "plan/card/passes.h"
#include "plan/card/rooms.h"
#include "plan/needs.h"
#include <stdlib.h>
#include <string.h>

static lk_status make_calls(lki_card *c, const int *order, int count)
{
    c->calls = lki_zalloc_array(count + 1, sizeof *c->calls);
    if (!c->calls) return LK_ENOMEM;
    for (int i = 0; i < count; i++) {
        const lki_node *n = &c->graph->nodes[order[i]];
        c->calls[i].node = n;
        c->calls[i].on_host = !lki_slot_can(c->device, n->slot, n->type, n->mode == LKI_SUM ? n->rows.lanes : 0);
        if (c->calls[i].on_host && n->slot != LKI_K_none)
            lki_tell(LKI_TOPIC_DISPATCH, "%s %s: %s has no kernel for it, so the CPU runs it", lki_op_name(n->op),
                     lk_dtype_name(n->type), c->device->name);
    }
    c->count = count;
    return LK_OK;
}

/* ---- counters ---- */

static bool is_counter(const lki_graph *g, int value, const lk_variable *counter)
{
    const lki_value *v = &g->values[lki_graph_root(g, value)];
    return v->kind == LKI_VALUE_VARIABLE && v->variable == counter;
}

/* Does a call use the counter? *only: it does so as an update of a group, whose argument `behind` can say that the counter was
 * incremented early. */
static bool uses_counter(const lki_card *c, const lki_card_call *k, const lk_variable *counter, bool *only)
{
    const lki_graph *g = c->graph;
    const lki_node  *n = k->node;
    bool             reads = false, writes = false;
    for (int i = 0; i < n->nsrc; i++)
        reads = reads || is_counter(g, n->src[i], counter);
    for (int i = 0; i < n->ndst; i++)
        writes = writes || is_counter(g, n->dst[i], counter);
    *only = !writes && !k->on_host && c->grouping && c->grouping->of(n->slot, n->type, &k->args) == LKI_GROUP_UPDATES;
    return reads || writes;
}

/* Call `at` increments a counter. The first of the updates before it that read the counter; -1: there is none, or a call of another
 * kind uses it, or a call between them may fail. */
static int first_to_count(const lki_card *c, int at)
{
    const lki_graph   *g = c->graph;
    const lk_variable *counter = g->values[c->calls[at].node->dst[0]].variable;
    int                first = -1;
    bool               only;
    for (int i = 0; i < g->output_count; i++)
        if (is_counter(g, g->outputs[i], counter)) return -1;
    for (int i = 0; i < c->count; i++) {
        if (i == at) continue;
        if (uses_counter(c, &c->calls[i], counter, &only)) {
            if (!only || i > at) return -1;
            if (first < 0) first = i;
        }
        if (first >= 0 && i < at && (c->calls[i].on_host || lki_may_fault(c->calls[i].node))) return -1;
    }
    return first;
}

/* The increment of a counter moves before the updates that read it, whose argument `behind` says so. After them the increment would
 * need a separate launch. */
static void count_first(lki_card *c)
{
    bool only;
    for (int at = 0; at < c->count; at++) {
        const lki_card_call k = c->calls[at];
        const int           first = k.node->slot == LKI_K_increment && !k.on_host ? first_to_count(c, at) : -1;
        if (first < 0) continue;
        const lk_variable *counter = c->graph->values[k.node->dst[0]].variable;
        for (int i = first; i < at; i++)
            if (uses_counter(c, &c->calls[i], counter, &only)) c->calls[i].gpu.behind++;
        memmove(&c->calls[first + 1], &c->calls[first], (size_t)(at - first) * sizeof *c->calls);
        c->calls[first] = k;
    }
}

/* ---- constants ---- */

static bool is_constant(const lki_card *c, int value, int before)
{
    const lki_graph *g = c->graph;
    const int        root = lki_graph_root(g, value);
    if (g->values[root].kind == LKI_VALUE_CONSTANT) return true;
    for (int i = 0; i < before; i++)
        for (int k = 0; k < c->calls[i].node->ndst && c->calls[i].once; k++)
            if (c->calls[i].node->dst[k] == root) return true;
    return false;
}

/* Only small calls are computed once, because their results keep their bytes of the block. */
static void find_constants(lki_card *c)
{
    for (int i = 0; i < c->count; i++) {
        lki_card_call  *k = &c->calls[i];
        const lki_node *n = k->node;
        k->once = !k->on_host && !n->writes && !lki_may_fault(n) && !k->scratch && c->grouping &&
                  c->grouping->of(n->slot, n->type, &k->args) == LKI_GROUP_SMALL;
        for (int s = 0; s < n->nsrc && k->once; s++)
            k->once = lki_shape_only(n, s) || is_constant(c, n->src[s], i);
    }
}

/* ---- what comes after what ---- */

static bool need(void *order, int later, int earlier)
{
    lki_order_need(order, later, earlier);
    return true;
}

/* A writer also waits for all earlier calls that may meet an index out of range. While a call runs on the host no other runs:
 * earlier ones have ended, later ones have not begun. */
static bool find_needs(const lki_card *c, lki_order *o)
{
    lki_needs n;
    int       host = -1; /* the last one */
    bool      good = lki_needs_init(&n, c->graph);
    for (int i = 0; i < c->count && good; i++) {
        const lki_card_call *k = &c->calls[i];
        if (host >= 0) lki_order_need(o, i, host);
        for (int j = i - 1; j > host; j--)
            if (k->on_host || (k->node->writes && lki_may_fault(c->calls[j].node))) lki_order_need(o, i, j);
        good = lki_needs_reads(&n, k->node, i, need, o) && lki_needs_writes(&n, k->node, 0, k->node->ndst, i, need, o);
        if (k->on_host) host = i;
    }
    lki_needs_clear(&n);
    return good;
}

static bool find_order(const lki_card *c, lki_order *o)
{
    bool *once = lki_zalloc((size_t)c->count + 1);
    bool  found = once && find_needs(c, o);
    for (int i = 0; i < c->count && found; i++)
        once[i] = c->calls[i].once;
    if (found) lki_order_close(o);
    found = found && lki_order_begin_with_one(o, once);
    lki_release(once);
    return found;
}

/* ---- launches ---- */

typedef struct row_calls {
    const lki_card     *card;
    const lki_joinable *what;
} row_calls;

/* Are the results of an earlier call, wherever this one reads them, whole operands of which each row needs the same row only? */
static bool goes_along(const void *user, int call, int earlier)
{
    const row_calls *r = user;
    const lki_graph *g = r->card->graph;
    const lki_node  *n = r->card->calls[call].node, *made = r->card->calls[earlier].node;
    for (int i = 0; i < made->ndst; i++)
        for (int k = 0; k < n->nsrc + n->ndst; k++) {
            const int v = k < n->nsrc ? n->src[k] : n->dst[k - n->nsrc];
            if (lki_graph_root(g, v) != lki_graph_root(g, made->dst[i])) continue;
            if (k >= n->nsrc || !(r->what[call].row.along >> k & 1) || lki_graph_is_range(g, v)) return false;
        }
    return true;
}

static int find_launches(lki_card *c, const lki_order *o, int *launch)
{
    static const int alone[LKI_GROUPS] = {1, 1, 1, 1};
    lki_joinable    *what = lki_zalloc_array(c->count + 1, sizeof *what);
    const row_calls  rows = {c, what};
    if (!what) return -1;
    for (int i = 0; i < c->count && c->grouping; i++) {
        const lki_node *n = c->calls[i].node;
        if (!c->calls[i].on_host && !c->calls[i].once)
            what[i] =
                (lki_joinable){c->grouping->of(n->slot, n->type, &c->calls[i].args), (int)n->slot * LK_DTYPE_COUNT + (int)n->type,
                               c->grouping->rows(n->slot, n->type, &c->calls[i].args)};
    }
    const int count =
        lki_join_calls(o, what, &(lki_join_rules){c->grouping ? c->grouping->most : alone, goes_along, &rows}, launch);
    for (int i = 0; i < c->count && count >= 0; i++) {
        c->launches[launch[i]].kind = what[i].kind;
        c->launches[launch[i]].once = c->calls[i].once;
    }
    lki_release(what);
    return count;
}

/* Put the calls in the order of their launches. */
static lk_status sort_calls(lki_card *c, const int *launch)
{
    lki_card_call *sorted = lki_zalloc_array(c->count + 1, sizeof *sorted);
    int            at = 0;
    if (!sorted) return LK_ENOMEM;
    for (int l = 0; l < c->launch_count; l++) {
        c->launches[l].from = at;
        for (int i = 0; i < c->count; i++)
            if (launch[i] == l) sorted[at++] = c->calls[i];
        c->launches[l].end = at;
    }
    lki_release(c->calls);
    c->calls = sorted;
    for (int i = 0; i < c->count; i++)
        c->calls[i].args.gpu = &c->calls[i].gpu;
    return LK_OK;
}

static void order_launches(lki_card *c, const lki_order *calls, const int *launch)
{
    for (int i = 0; i < c->count; i++) {
        const uint64_t *needs = lki_order_row(calls, calls->needs, i);
        for (int j = lki_bit_next(needs, calls->words, 0); j >= 0; j = lki_bit_next(needs, calls->words, j + 1))
            if (launch[i] != launch[j]) lki_order_need(&c->order, launch[i], launch[j]);
    }
    lki_order_close(&c->order);
    for (int l = 0; l < c->launch_count; l++) {
        const uint64_t *needs = lki_order_row(&c->order, c->order.needs, l);
        for (int k = lki_bit_next(needs, c->order.words, 0); k >= 0; k = lki_bit_next(needs, c->order.words, k + 1))
            if (c->launches[l].level <= c->launches[k].level) c->launches[l].level = c->launches[k].level + 1;
        if (c->levels <= c->launches[l].level) c->levels = c->launches[l].level + 1;
    }
}

/* ---- gradients in parts ---- */

/* The update whose gradient is this value, if all of the value is read there, and nowhere else; else NULL. */
static lki_card_call *only_update_of(const lki_card *c, int root)
{
    const lki_graph *g = c->graph;
    lki_card_call   *found = NULL;
    for (int i = 0; i < g->output_count; i++)
        if (lki_graph_root(g, g->outputs[i]) == root) return NULL;
    for (int i = 0; i < c->count; i++) {
        lki_card_call  *k = &c->calls[i];
        const lki_node *n = k->node;
        for (int s = 0; s < n->nsrc; s++) {
            if (lki_graph_root(g, n->src[s]) != root) continue;
            if (found || s || k->on_host || n->type != LK_F32 || lki_graph_is_range(g, n->src[s]) || !lki_takes_gradient(n))
                return NULL;
            found = k;
        }
    }
    return found;
}

/* May the call leave partial sums instead of gradients, by its kind and their size? */
static bool is_in_parts(const lki_card_call *k)
{
    const lki_node *n = k->node;
    int64_t         results = 0;
    const bool      weights =
        n->slot == LKI_K_conv2d_grad_w || n->slot == LKI_K_conv2d_pool_grad_w || n->slot == LKI_K_dense_pool_grad_w;
    if (!weights || n->mode != LKI_SUM || n->type != LK_F32 || k->on_host || n->ndst > 2) return false;
    for (int d = 0; d < n->ndst; d++)
        results += lki_shape_size(k->args.dst[d].shape);
    return k->scratch && results <= LKI_ROW_PART_RESULTS && k->scratch <= (size_t)results * LKI_ROW_PARTS * sizeof(float);
}

/* A weight gradient that only updates read need not be stored: the updates can add up its partial sums themselves. On several cards
 * this is not done, because each has only some of the partial sums. They live until the updates, many of which run last, so in all
 * they may have no more than PARTS_KEPT bytes. */
static void leave_gradients(lki_card *c)
{
    enum { PARTS_KEPT = LKI_CARD_PLENTY / 2 };
    const lki_graph *g = c->graph;
    size_t           kept = 0;
    for (int i = 0; i < c->count && !c->share.trees; i++) {
        lki_card_call  *k = &c->calls[i], *taker[2] = {NULL, NULL};
        const lki_node *n = k->node;
        bool            taken = is_in_parts(k) && kept + k->scratch <= PARTS_KEPT;
        for (int d = 0; d < n->ndst && taken; d++)
            taken = (taker[d] = only_update_of(c, lki_graph_root(g, n->dst[d]))) != NULL;
        if (taken) kept += k->scratch;
        for (int d = 0; d < n->ndst && taken; d++) {
            taker[d]->gpu.takes = &k->parts;
            taker[d]->gpu.taken = d;
            k->gpu.leaves = &k->parts;
        }
    }
}

lk_status lki_card_order(lki_card *c, const int *nodes, int count)
{
    lki_order calls = {0};
    int      *launch = NULL;
    LKI_TRY(make_calls(c, nodes, count));
    for (int i = 0; i < c->count; i++)
        LKI_TRY(lki_card_describe(c, &c->calls[i]));
    count_first(c);
    find_constants(c);
    launch = lki_alloc_array(c->count + 1, sizeof *launch);
    c->launches = lki_zalloc_array(c->count + 1, sizeof *c->launches);
    lk_status status = launch && c->launches && lki_order_init(&calls, c->count) && find_order(c, &calls) ? LK_OK : LK_ENOMEM;
    if (status == LK_OK) {
        c->launch_count = find_launches(c, &calls, launch);
        if (c->launch_count < 0 || !lki_order_init(&c->order, c->launch_count)) c->launch_count = 0, status = LK_ENOMEM;
    }
    if (status == LK_OK) status = sort_calls(c, launch);
    if (status == LK_OK) order_launches(c, &calls, launch);
    if (status == LK_OK) leave_gradients(c);
    lki_order_clear(&calls);
    lki_release(launch);
    return status;
}

/* ---- parts ---- */

/* The launches of its part that a launch waits for; earlier parts have ended. */
static lk_status note_needs(lki_card *c, lki_card_launch *l, int number, int first)
{
    const uint64_t *needs = lki_order_row(&c->order, c->order.needs, number);
    l->after = c->after_count;
    for (int k = lki_bit_next(needs, c->order.words, first); k >= 0; k = lki_bit_next(needs, c->order.words, k + 1)) {
        if (!lki_grow((void **)&c->after, &c->after_capacity, c->after_count + 1, sizeof *c->after)) return LK_ENOMEM;
        c->after[c->after_count++] = k - first;
    }
    l->after_count = c->after_count - l->after;
    return LK_OK;
}

/* A line for each call: its launch, the launches that this one waits for, the number and name of the node, and its shape. */
static void tell(const lki_card *c)
{
    for (int l = 0; l < c->launch_count && lki_verbose(LKI_TOPIC_PLAN); l++) {
        const uint64_t *needs = lki_order_row(&c->order, c->order.needs, l);
        char            after[LKI_LOG_TEXT] = "", shape[LKI_SHAPE_TEXT], op[LKI_NODE_TEXT];
        for (int k = lki_bit_next(needs, c->order.words, 0); k >= 0; k = lki_bit_next(needs, c->order.words, k + 1))
            lki_text_more(after, sizeof after / 2, " %d", k);
        for (int i = c->launches[l].from; i < c->launches[l].end; i++) {
            const lki_node *n = c->calls[i].node;
            lki_tell(LKI_TOPIC_PLAN, "launch %d%s after%s: node %d, %s %s", l, c->launches[l].once ? " once" : "", after,
                     (int)(n - c->graph->nodes), lki_node_text(n, op),
                     n->ndst ? lki_shape_text(&c->graph->values[n->dst[0]].shape, shape) : "");
        }
    }
}

lk_status lki_card_parts(lki_card *c)
{
    tell(c);
    for (int l = 0, from = 0; l <= c->launch_count; l++) {
        if (l < c->launch_count && !c->calls[c->launches[l].from].on_host) {
            LKI_TRY(note_needs(c, &c->launches[l], l, from));
            continue;
        }
        if (!lki_grow((void **)&c->parts, &c->part_capacity, c->part_count + 1, sizeof *c->parts)) return LK_ENOMEM;
        c->parts[c->part_count++] = (lki_card_part){from, l, NULL};
        from = l + 1;
    }
    lki_order_clear(&c->order);
    return LK_OK;
}
