/* Nodes in an order in which they may run one by one (plan.h).
 *
 * A suspect is a node that may meet an index out of range. A writer waits for every suspect, except those that need what it writes,
 * directly or not; and one that is a suspect itself does not wait for suspects recorded after it. Suspects are visited in the
 * order in which they were recorded, and the waits that an earlier one adds count as needs for later ones. So there is no
 * circle. */
#include "core/memory.h"
#include "plan/needs.h"
#include "plan/plan.h"

typedef struct sequence { /* nodes are known by their place in the recorded order */
    const lki_graph *graph;
    const int       *nodes;
    int              count;
    int             *begin, *needs; /* by node: needs[begin[i]] to needs[begin[i + 1] - 1] */
    int              need_count, need_capacity;
    int             *suspects; /* in their order; */
    int              suspect_count;
    uint64_t        *before; /* by suspect, a row of bits: what ends before it begins, and itself */
    int              words;
    int             *stack; /* room for all */
    bool            *done;
} sequence;

int lki_plan_recorded(const lki_graph *g, int *nodes)
{
    int count = 0;
    for (int i = 0; i < g->node_count; i++) {
        if (g->nodes[i].dead) continue;
        int at = count++;
        for (; at > 0 && g->nodes[nodes[at - 1]].order > g->nodes[i].order; at--)
            nodes[at] = nodes[at - 1];
        nodes[at] = i;
    }
    return count;
}

static const lki_node *node_at(const sequence *s, int i) { return &s->graph->nodes[s->nodes[i]]; }

static bool is_suspect(const sequence *s, int i) { return lki_may_fault(node_at(s, i)); }

/* ---- what nodes need ---- */

static bool add_need(void *user, int later, int earlier)
{
    sequence *s = user;
    (void)later; /* the one at work */
    if (!lki_grow((void **)&s->needs, &s->need_capacity, s->need_count + 1, sizeof *s->needs)) return false;
    s->needs[s->need_count++] = earlier;
    return true;
}

static bool find_needs(sequence *s)
{
    lki_needs n;
    bool      good = lki_needs_init(&n, s->graph);
    for (int i = 0; i < s->count && good; i++) {
        const lki_node *node = node_at(s, i);
        s->begin[i] = s->need_count;
        good = lki_needs_reads(&n, node, i, add_need, s) && lki_needs_writes(&n, node, 0, node->ndst, i, add_need, s);
    }
    s->begin[s->count] = s->need_count;
    lki_needs_clear(&n);
    return good;
}

/* ---- what suspects come after ---- */

static uint64_t *row(const sequence *s, int suspect) { return s->before + (size_t)suspect * (size_t)s->words; }

static bool is_before(const sequence *s, int i, int suspect) { return row(s, suspect)[i / 64] >> i % 64 & 1; }

/* Does the writer i wait for a suspect that was already visited? */
static bool waits(const sequence *s, int i, int suspect)
{
    return s->suspects[suspect] < i || (s->suspects[suspect] > i && !is_suspect(s, i) && !is_before(s, i, suspect));
}

static void visit(sequence *s, int i, int suspect, int *open)
{
    if (is_before(s, i, suspect)) return;
    row(s, suspect)[i / 64] |= (uint64_t)1 << i % 64;
    s->stack[(*open)++] = i;
}

static void find_before(sequence *s, int suspect)
{
    int open = 0;
    visit(s, s->suspects[suspect], suspect, &open);
    while (open) {
        const int i = s->stack[--open];
        for (int k = s->begin[i]; k < s->begin[i + 1]; k++)
            visit(s, s->needs[k], suspect, &open);
        for (int t = 0; t < suspect && node_at(s, i)->writes; t++)
            if (waits(s, i, t)) visit(s, s->suspects[t], suspect, &open);
    }
}

static bool list_suspects(sequence *s)
{
    for (int i = 0; i < s->count; i++)
        if (is_suspect(s, i)) s->suspects[s->suspect_count++] = i;
    s->words = (int)lki_ceil_div(s->count, 64);
    s->before = lki_zalloc_array(lki_size_mul(s->suspect_count, s->words) + 1, sizeof *s->before);
    for (int t = 0; t < s->suspect_count && s->before; t++)
        find_before(s, t);
    return s->before != NULL;
}

/* ---- in turn ---- */

static bool may_run(const sequence *s, int i)
{
    for (int k = s->begin[i]; k < s->begin[i + 1]; k++)
        if (!s->done[s->needs[k]]) return false;
    for (int t = 0; t < s->suspect_count && node_at(s, i)->writes; t++)
        if (!s->done[s->suspects[t]] && waits(s, i, t)) return false;
    return true;
}

/* In the recorded order, as far as they may run; then those that had to wait. */
static void run_in_turn(sequence *s, int *out)
{
    for (int ran = 0; ran < s->count;)
        for (int i = 0; i < s->count; i++)
            if (!s->done[i] && may_run(s, i)) {
                s->done[i] = true;
                out[ran++] = s->nodes[i];
            }
}

int lki_plan_sequence(const lki_graph *g, int *nodes)
{
    const size_t n = (size_t)g->node_count + 1;
    int         *room = lki_alloc_array(n, 4 * sizeof *room), count = -1;
    sequence     s = {.graph = g, .nodes = room, .done = lki_zalloc(n)};
    if (room && s.done) {
        s.count = lki_plan_recorded(g, room);
        s.begin = room + n, s.suspects = room + 2 * n, s.stack = room + 3 * n;
        if (find_needs(&s) && list_suspects(&s)) {
            run_in_turn(&s, nodes);
            count = s.count;
        }
    }
    lki_release(room);
    lki_release(s.done);
    lki_release(s.needs);
    lki_release(s.before);
    return count;
}
