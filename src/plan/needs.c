/* One walk over nodes in their order (needs.h). */
#include "plan/needs.h"
#include "core/memory.h"

bool lki_needs_init(lki_needs *n, const lki_graph *g)
{
    const size_t values = (size_t)g->value_count + 1;
    *n = (lki_needs){.graph = g};
    n->writer = lki_alloc_array(values, 2 * sizeof *n->writer);
    if (!n->writer) return false;
    n->reader = n->writer + values;
    for (size_t i = 0; i < 2 * values; i++)
        n->writer[i] = -1;
    return true;
}

void lki_needs_clear(lki_needs *n)
{
    lki_release(n->writer);
    lki_release(n->readers);
}

static bool add_reader(lki_needs *n, int key, int who)
{
    if (!lki_grow((void **)&n->readers, &n->capacity, n->count + 1, sizeof *n->readers)) return false;
    n->readers[n->count] = (lki_needs_reader){who, n->reader[key]};
    n->reader[key] = n->count++;
    return true;
}

bool lki_needs_reads(lki_needs *n, const lki_node *node, int who, lki_needs_fn *each, void *user)
{
    for (int i = 0; i < node->nsrc; i++) {
        const int key = lki_graph_key(n->graph, node->src[i]);
        if (lki_shape_only(node, i)) continue;
        if (n->writer[key] >= 0 && n->writer[key] != who && !each(user, who, n->writer[key])) return false;
        if (!add_reader(n, key, who)) return false;
    }
    return true;
}

bool lki_needs_writes(lki_needs *n, const lki_node *node, int from, int end, int who, lki_needs_fn *each, void *user)
{
    for (int i = from; i < end; i++) {
        const int key = lki_graph_key(n->graph, node->dst[i]);
        if (n->writer[key] >= 0 && n->writer[key] != who && !each(user, who, n->writer[key])) return false;
        for (int r = n->reader[key]; r >= 0; r = n->readers[r].before)
            if (n->readers[r].who != who && !each(user, who, n->readers[r].who)) return false;
        n->writer[key] = who;
        n->reader[key] = -1;
    }
    return true;
}
