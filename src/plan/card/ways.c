/* Ways: variants of a plan's graph that read inputs where these lie, so that no input is copied into the block before a replay.
 *
 * A captured graph contains addresses, and every batch lies at another address than the one before. But memory comes from lists of
 * freed blocks, so a loop over batches uses the same few addresses again and again. When a combination of addresses is seen for the
 * second time, and there is a free entry, a variant for it is recorded. Inputs at other addresses are copied into the block. A
 * replay sets the arguments of the few kernels that read inputs, which costs the card no time; changing from one graph to another
 * would cost it some microseconds.
 *
 * All inputs must lie on the card, each at the beginning of a cache line, as in the block. Plans that return an input unchanged,
 * or have calls on the host, have no ways, and none are used while a trace is written. */
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

/* Writes the addresses of the inputs to c->here; false: no way can read them. */
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

/* Set the operands that are inputs: to where these lie now, or back to the block. */
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

/* The way for the addresses c->here; else a free one, which now belongs to them; NULL: there is none. */
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

/* A variant cannot be recorded, for lack of memory or because a kernel cannot read these addresses: inputs go through the block. */
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
