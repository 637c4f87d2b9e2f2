/* Running a function once to record it: stand-ins for what goes in, forms for what comes out.
 *
 * Invariants
 * 1. A per-replica value whose items lie in one whole is one input, and its items are ranges of that; so what all replicas do to
 *    their rows can become one op on all rows. Without a whole it is an input for each replica.
 * 2. The same object given twice has the same stand-in.
 * 3. What comes out has the structure the function returned. */
#include "core/memory.h"
#include "graph/graph.h"
#include <lockstep/strategy.h>

/* ---- what goes in ---- */

typedef struct entrance {
    lki_graph            *graph;
    const lki_value_list *list;
    lk_tensor           **stand_in; /* by place in the list */
    int                   at;       /* the place that comes next */
} entrance;

static lk_tensor *traced_value(entrance *e, const lk_tensor *t, const lki_value *v)
{
    int at = lki_graph_add_value(e->graph, v);
    if (at < 0) return &lki_poison;
    lk_tensor *made = lki_tensor_traced(t->dtype, &t->shape, &t->rows, e->graph->token, at);
    if (!lki_bad(made)) made->weak = t->weak;
    return made;
}

static lk_tensor *enter_tensor(entrance *e, int i)
{
    const lk_tensor *t = e->list->item[i];
    return traced_value(e, t,
                        &(lki_value){.kind = LKI_VALUE_INPUT,
                                     .dtype = t->dtype,
                                     .shape = t->shape,
                                     .rows = t->rows,
                                     .maker = -1,
                                     .alias_of = -1,
                                     .replica = -1,
                                     .input = i});
}

/* Item r of a per-replica value: a range of its whole. */
static lk_tensor *enter_range(entrance *e, const lk_tensor *whole, int r, int64_t offset)
{
    int              i = e->at++, same = lki_value_list_same(e->list, i);
    const lk_tensor *t = e->list->item[i];
    if (same < i) return e->stand_in[i] = e->stand_in[same];
    return e->stand_in[i] = traced_value(e, t,
                                         &(lki_value){.kind = LKI_VALUE_MADE,
                                                      .dtype = t->dtype,
                                                      .shape = t->shape,
                                                      .rows = t->rows,
                                                      .maker = -1,
                                                      .alias_of = whole->value,
                                                      .offset = offset,
                                                      .replica = r});
}

static lk_tensor *enter_one(entrance *e);

/* The items of a mirrored value are known to be equal: one value serves for all, each with a stand-in of its own. */
static lk_tensor *enter_mirrored(entrance *e, const lk_tensor *first)
{
    int        i = e->at++, same = lki_value_list_same(e->list, i);
    lk_tensor *t = e->list->item[i];
    if (same == i) return e->stand_in[i] = lki_tensor_traced(t->dtype, &t->shape, &t->rows, e->graph->token, first->value);
    return e->stand_in[i] = e->stand_in[same];
}

static bool equals_first(const lki_replicas *p, int r)
{
    const lk_tensor *a = p->item[0], *b = p->item[r];
    return r && p->mirrored && !lki_stands_for(a) && !lki_stands_for(b) && a->dtype == b->dtype &&
           lki_shape_equal(&a->shape, &b->shape);
}

static lk_tensor *enter_replicas(entrance *e, const lki_replicas *p, lk_tensor **item)
{
    lk_tensor *whole = enter_one(e);
    int64_t    offset = 0;
    if (whole && lki_bad(whole)) return whole;
    for (int r = 0; r < p->count; r++) {
        if (whole) item[r] = enter_range(e, whole, r, offset);
        else item[r] = equals_first(p, r) ? enter_mirrored(e, item[0]) : enter_one(e);
        if (item[r] == &lki_poison) return item[r];
        if (whole) offset += lki_shape_size(&p->item[r]->shape);
    }
    return lki_per_replica(p->strategy, p->count, item, whole, p->mirrored);
}

static lk_tensor *enter_nest(entrance *e, const lk_tuple *nest, lk_tensor **item)
{
    for (int i = 0; i < nest->count; i++)
        if ((item[i] = enter_one(e)) == &lki_poison) return item[i];
    return lk_nest((lk_tuple){nest->count, item});
}

static lk_tensor *enter_several(entrance *e, const lk_tensor *t)
{
    int         count = t->nest ? t->nest->count : t->replicas->count;
    lk_tensor **item = lki_alloc_array(count + 1, sizeof *item), *made;
    if (!item) return &lki_poison;
    made = t->nest ? enter_nest(e, t->nest, item) : enter_replicas(e, t->replicas, item);
    lki_release(item);
    return made;
}

/* The stand-in for the next of the list: the same one where the same object was given before, because a tape inside the function
 * cannot tell them apart. */
static lk_tensor *enter_one(entrance *e)
{
    int        i = e->at++, same = lki_value_list_same(e->list, i);
    lk_tensor *t = e->list->item[i], *made = NULL;
    if (!t) return NULL;
    if (lki_stands_for(t)) made = enter_several(e, t);
    else if (same == i) made = enter_tensor(e, i);
    if (made == &lki_poison) return made;
    return e->stand_in[i] = same < i ? e->stand_in[same] : made;
}

/* ---- what comes out ---- */

static int add_output(lki_graph *g, int value)
{
    g->outputs[g->output_count] = value;
    return g->output_count++;
}

/* Do the items of the per-replica value at place i lie in its whole, one after the other? */
static bool lie_in_whole(lki_graph *g, const lki_value_list *out, int i)
{
    const lk_tensor *whole = out->item[i + 1];
    int64_t          offset = 0;
    if (!whole || whole->graph != g->token) return false;
    for (int r = 0; r < out->item[i]->replicas->count; r++) {
        const lk_tensor *t = out->item[i + 2 + r];
        const lki_value *v = t->graph == g->token ? &g->values[t->value] : NULL;
        if (!v || v->alias_of != whole->value || v->offset != offset) return false;
        offset += lki_shape_size(&v->shape);
    }
    return true;
}

static lk_status leave_tensor(lki_graph *g, const lki_value_list *out, int i)
{
    lk_tensor *t = out->item[i];
    if (lki_bad(t)) return lki_poisoned_operand("a traced function's result", i), lk_error_code();
    int value = lki_graph_value_of(g, t);
    if (value < 0) return lk_error_code();
    g->results[i].output = add_output(g, value);
    return LK_OK;
}

/* The whole is one output, the items are ranges of it. */
static lk_status leave_whole(lki_graph *g, const lki_value_list *out, int i)
{
    LKI_TRY(leave_tensor(g, out, i + 1));
    int64_t first = 0;
    for (int r = 0; r < g->results[i].count; r++) {
        lki_form *f = &g->results[i + 2 + r];
        f->output = g->results[i + 1].output;
        f->first = first;
        first += f->shape.dim[0];
    }
    return LK_OK;
}

static lk_status trace_outputs(lki_graph *g, lk_tuple out, lki_value_list *list)
{
    for (int i = 0; i < out.count; i++) {
        if (!out.item[i]) return lki_fail(LK_EINVAL, "result %d of a traced function is NULL", i);
        LKI_TRY(lki_value_list_add(list, out.item[i]));
    }
    g->results = lki_zalloc_array(list->count + 1, sizeof *g->results);
    g->outputs = lki_alloc_array(list->count + 1, sizeof *g->outputs);
    if (!g->results || !g->outputs) return LK_ENOMEM;
    g->result_items = out.count;
    g->result_count = list->count;
    for (int i = 0; i < list->count; i++)
        if (list->item[i] != &lki_poison) g->results[i] = lki_form_of(list, i);
    for (int i = 0; i < list->count; i++) {
        lk_tensor *t = list->item[i];
        if (t && t->replicas && lie_in_whole(g, list, i)) {
            LKI_TRY(leave_whole(g, list, i));
            i += 1 + t->replicas->count;
        } else if (t && t->replicas) g->results[++i].kind = LKI_FORM_NONE;
        else if (t && !t->nest) LKI_TRY(leave_tensor(g, list, i));
    }
    return LK_OK;
}

/* ---- the whole of it ---- */

static lk_status trace_inside(entrance *e, int items, lk_tensor **inside, lk_fn fn, void *user)
{
    lki_graph     *g = e->graph;
    lki_value_list out;
    for (int i = 0; i < items; i++)
        if ((inside[i] = enter_one(e)) == &lki_poison) return LK_ENOMEM;
    g->input_count = e->list->count;
    lk_tuple in = lki_tuple_new(items, inside);
    lki_value_list_begin(&out);
    lki_tracer_set(&g->tracer);
    lk_tuple  result = fn(in, user);
    lk_status status = lk_failed() ? lk_error_code() : trace_outputs(g, result, &out);
    lki_tracer_set(NULL);
    lki_value_list_end(&out);
    g->recorded = g->node_count;
    return status;
}

lk_status lki_graph_trace(lki_graph *g, lk_fn fn, const lki_value_list *in, int items, void *user)
{
    lk_status   status = LK_ENOMEM;
    lk_tensor **room = lki_zalloc_array(in->count + items + 1, sizeof *room);
    if (!room) return status;
    LK_STEP /* the stand-ins go when tracing ends */
        status = trace_inside(&(entrance){.graph = g, .list = in, .stand_in = room}, items, room + in->count, fn, user);
    if (status == LK_OK && g->two_precisions)
        status = lki_fail(LK_EUNSUPPORTED, "%s: strategies of two precisions run in one compiled step; compile a step for each",
                          g->name);
    lki_release(room);
    return status;
}
