/* Arguments of calls: views, lanes and scratch. */
#include "lane/lanes.h"
#include "op/run.h"
#include "plan/card/inside.h"

char *lki_card_home(lki_card *c, int root)
{
    const lki_graph *g = c->graph;
    const lki_value *v = &g->values[root];
    if (lki_card_placed(c, root)) return lki_card_placed(c, root);
    if (v->kind == LKI_VALUE_CONSTANT) return lki_data_on(v->constant, c->device);
    if (v->kind == LKI_VALUE_VARIABLE && lki_card_has(c, v)) return v->variable->buffer->data;
    /* All versions of a variable lie where version 0 does. */
    const size_t at = c->at[lki_graph_key(g, root)];
    return at == LKI_CARD_OUTSIDE ? NULL : (char *)c->block->data + at;
}

static lk_status make_view(lki_card *c, lki_view *view, int value, bool shape_only)
{
    const lki_graph *g = c->graph;
    const lki_value *v = &g->values[value];
    char            *home = shape_only ? NULL : lki_card_home(c, lki_graph_root(g, value));
    *view = (lki_view){home ? home + (size_t)lki_graph_offset(g, value) * lk_dtype_bytes(v->dtype) : NULL, &v->shape, v->dtype};
    return !home && !shape_only && lk_failed() ? lk_error_code() : LK_OK;
}

static lk_status give_lanes(lki_card *c, lki_args *a, const lki_node *n)
{
    const lki_rows    *rows = &n->rows;
    const lki_subtree *own = c->share.trees ? &c->share.trees[n - c->graph->nodes] : NULL;
    lki_lanes         *lanes = lki_arena_alloc(&c->arena, sizeof *lanes);
    int64_t           *bound = lki_arena_array(&c->arena, rows->lanes + 1, sizeof *bound);
    if (!lanes || !bound) return LK_ENOMEM;
    lki_lane_bounds(rows->global, rows->lanes, rows->first, rows->rows, rows->per_row, bound);
    *lanes = own ? (lki_lanes){own->width, bound + own->lane} : (lki_lanes){rows->lanes, bound};
    a->longest = lki_lane_longest(rows->global, rows->lanes) * rows->per_row;
    a->lanes = lanes;
    return LK_OK;
}

lk_status lki_card_describe(lki_card *c, lki_card_call *k)
{
    const lki_node *n = k->node;
    lki_view       *views = lki_arena_array(&c->arena, n->nsrc + n->ndst + 1, sizeof *views);
    if (!views) return LK_ENOMEM;
    for (int i = 0; i < n->nsrc + n->ndst; i++)
        LKI_TRY(make_view(c, &views[i], i < n->nsrc ? n->src[i] : n->dst[i - n->nsrc], true));
    k->args = (lki_args){.src = views, .dst = views + n->nsrc, .nsrc = n->nsrc, .ndst = n->ndst, .attr = &n->attr, .gpu = &k->gpu};
    k->gpu.precision = c->graph->precision;
    k->args.hi = n->ndst ? lki_shape_size(views[n->nsrc].shape) : 0;
    k->args.first = n->mode == LKI_EACH ? n->rows.first * n->rows.per_row : 0;
    if (n->mode == LKI_SUM) LKI_TRY(give_lanes(c, &k->args, n));
    lki_scratch_fn *needs = k->on_host ? NULL : c->line->kernels->scratch[n->slot][n->type];
    k->scratch = needs ? needs(&k->args) : 0;
    k->has_scratch = k->scratch > 0;
    return LK_OK;
}

/* A member's part of a value with an entry for each lane begins at its own lanes; nodes that read the value read all of it. */
static void shift_to_lanes(const lki_card *c, const lki_node *n, lki_view *written)
{
    const lki_graph *g = c->graph;
    const size_t     each = lki_value_bytes(&g->values[n->dst[0]]) / (size_t)n->rows.lanes;
    written->data = (char *)written->data + (size_t)c->share.trees[n - g->nodes].lane * each;
}

/* Once the block exists: where the call's operands and results lie. */
static lk_status place_call(lki_card *c, lki_card_call *k)
{
    const lki_node *n = k->node;
    const bool      checks = lki_may_fault(n);
    lki_view       *views = (lki_view *)k->args.src;
    for (int i = 0; i < n->nsrc; i++)
        LKI_TRY(make_view(c, &views[i], n->src[i], lki_shape_only(n, i)));
    for (int i = 0; i < n->ndst; i++)
        LKI_TRY(make_view(c, &views[n->nsrc + i], n->dst[i], false));
    if (c->share.trees && n->mode == LKI_SUM && n->writes) shift_to_lanes(c, n, &views[n->nsrc]);
    k->gpu.stop = checks || n->writes ? c->stop : NULL;
    k->args.scratch = k->has_scratch ? (char *)c->block->data + k->scratch : NULL;
    if (k->on_host) return LK_OK;
    c->checks = c->checks || checks;
    if (checks) k->gpu.fault = lki_card_fault(c, k);
    return LK_OK;
}

lk_status lki_card_place(lki_card *c)
{
    c->members = lki_zalloc_array(c->count + 1, sizeof *c->members);
    if (!c->members) return LK_ENOMEM;
    for (int i = 0; i < c->count; i++) {
        LKI_TRY(place_call(c, &c->calls[i]));
        c->members[i] = (lki_member){c->calls[i].node->slot, c->calls[i].node->type, &c->calls[i].args};
    }
    return LK_OK;
}
