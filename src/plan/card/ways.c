/* Ways: variants of a plan's graph that read inputs where these lie, so that nothing is copied into the block before a replay.
 *
 * A captured graph has addresses in it, and a batch lies elsewhere than the one before. But memory comes from lists of freed
 * blocks, so a loop over batches sees the same few addresses again and again: a combination that is seen for the second time is
 * noted, as long as there is room for one more. Others go through the block. A replay sets the arguments of the few kernels that
 * read inputs, which the card does not notice; to go from one graph to another would take it some microseconds.
 *
 * All inputs must lie on the card, each on a cache line as rooms of the block do. Plans that return an input as it is, or have
 * calls on the host, have no ways; nor has anybody while a trace is written. */
#include "core/log.h"
#include "plan/card/inside.h"
#include <string.h>

/* ---- which addresses ---- */

static bool is_input(const lki_card *c, int root)
{
    for (int i = 0; i < c->input_count; i++)
        if (c->inputs[i].value == root) return true;
    return false;
}

static void find_arrivals(lki_card *c)
{
    for (int i = 0; i < c->count; i++)
        for (int k = 0; k < c->calls[i].node->nsrc; k++)
            if (is_input(c, lki_graph_root(c->graph, c->calls[i].node->src[k]))) c->calls[i].arrives = true;
}

lk_status lki_card_find_ways(lki_card *c)
{
    const lki_graph *g = c->graph;
    if (c->part_count != 1 || c->parts[0].from == c->parts[0].end || !c->input_count) return LK_OK;
    for (int i = 0; i < g->output_count; i++)
        if (g->values[lki_graph_root(g, g->outputs[i])].kind == LKI_VALUE_INPUT) return LK_OK;
    for (int w = 0; w < LKI_CARD_WAYS; w++)
        if (!(c->ways[w].at = lki_arena_array(&c->arena, c->input_count, sizeof *c->ways[w].at))) return LK_ENOMEM;
    find_arrivals(c);
    c->here = lki_arena_array(&c->arena, c->input_count, sizeof *c->here);
    return c->here ? LK_OK : LK_ENOMEM;
}

/* To c->here. */
static bool find_addresses(lki_card *c, const lki_value_list *in)
{
    for (int i = 0; i < c->input_count; i++) {
        const lk_tensor *t = in->item[c->inputs[i].input];
        c->here[i] = (char *)t->data + c->inputs[i].before;
        if (!lki_same_memory(t->buffer->device, c->device) || (uintptr_t)c->here[i] % LKI_CACHE_LINE) return false;
    }
    return true;
}

/* ---- capturing ---- */

static char *address_of(const lki_card *c, int root)
{
    for (int i = 0; i < c->input_count; i++)
        if (c->inputs[i].value == root) return c->here[i];
    return NULL;
}

/* Operands of all calls that are inputs: where these lie now, or back in the block. */
static void move_calls(lki_card *c, bool back)
{
    const lki_graph *g = c->graph;
    for (int i = 0; i < c->count; i++) {
        const lki_node *n = c->calls[i].node;
        lki_view       *views = (lki_view *)c->calls[i].args.src;
        for (int k = 0; k < n->nsrc; k++) {
            const int root = lki_graph_root(g, n->src[k]);
            char     *to = views[k].data ? address_of(c, root) : NULL;
            if (!to) continue;
            if (back) to = lki_card_home(c, root);
            views[k].data = to + (size_t)lki_graph_offset(g, n->src[k]) * lk_dtype_bytes(g->values[n->src[k]].dtype);
        }
    }
}

static lk_status capture_way(lki_card *c, lki_card_way *way)
{
    move_calls(c, false);
    lk_status status = lki_card_capture_variant(c, &way->variant);
    move_calls(c, true);
    return status;
}

/* ---- finding one ---- */

/* The way of c->here; else a free one, which is its from now on; NULL: there is none. */
static lki_card_way *way_of(lki_card *c)
{
    const size_t  bytes = (size_t)c->input_count * sizeof *c->here;
    lki_card_way *free = NULL;
    for (int w = 0; w < LKI_CARD_WAYS; w++) {
        lki_card_way *way = &c->ways[w];
        if (way->seen && !memcmp(way->at, c->here, bytes)) return way;
        if (!way->variant && (!free || way->seen < free->seen)) free = way;
    }
    if (!free) return NULL;
    memcpy(free->at, c->here, bytes);
    free->seen = 0;
    return free;
}

/* There may be no room for one more, or kernels that take other addresses only; the block is there. */
static lk_status do_without(lki_card *c)
{
    lki_error_record e;
    lki_error_take(&e);
    lki_info("%s: %s; inputs of %s are copied from now on", c->device->name, e.text,
             c->graph->name ? c->graph->name : "a function");
    c->here = NULL;
    return LK_OK;
}

lk_status lki_card_way_for(lki_card *c, const lki_value_list *in, void **variant)
{
    *variant = NULL;
    if (!c->here || !lki_card_is_captured(c) || !find_addresses(c, in)) return LK_OK;
    lki_card_way *way = way_of(c);
    if (!way) return LK_OK;
    if (!way->variant && ++way->seen > 1 && capture_way(c, way) != LK_OK) return do_without(c);
    *variant = way->variant;
    return LK_OK;
}
