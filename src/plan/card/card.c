/* A plan's life on a GPU. A replay neither allocates nor walks over all values. */
#include "plan/card/card.h"
#include "core/memory.h"
#include "op/run.h"
#include "plan/card/inside.h"

/* ---- making one ---- */

/* What is copied to the card before each replay, and which of it is copied back. */
static lk_status find_arrivals(lki_card *c)
{
    const lki_graph *g = c->graph;
    const size_t     n = (size_t)g->value_count + 1;
    c->inputs = lki_arena_array(&c->arena, n, sizeof *c->inputs);
    c->guests = lki_arena_array(&c->arena, n, sizeof *c->guests);
    if (!c->inputs || !c->guests) return LK_ENOMEM;
    for (int v = 0; v < g->value_count; v++) {
        const lki_value *x = &g->values[v];
        const size_t     bytes = lki_value_bytes(x);
        if (c->at[v] == LKI_CARD_OUTSIDE || !bytes) continue;
        if (x->kind == LKI_VALUE_INPUT)
            c->inputs[c->input_count++] =
                (lki_card_input){x->input, v, c->at[v], bytes, (size_t)x->offset * lk_dtype_bytes(x->dtype)};
        if (x->kind == LKI_VALUE_VARIABLE)
            c->guests[c->guest_count++] = (lki_card_guest){x->variable, c->at[v], bytes, false, NULL};
    }
    for (int i = 0; i < c->guest_count; i++) {
        lki_card_guest *guest = &c->guests[i];
        for (int k = 0; k < g->variable_count; k++)
            if (g->variables[k].variable == guest->variable) guest->written = g->variables[k].version > 0;
        if (guest->written && !(guest->host = lki_arena_alloc(&c->arena, guest->bytes))) return LK_ENOMEM;
    }
    return LK_OK;
}

static lk_status find_outputs(lki_card *c)
{
    const lki_graph *g = c->graph;
    c->outputs = lki_arena_array(&c->arena, (size_t)g->output_count + 1, sizeof *c->outputs);
    if (!c->outputs) return LK_ENOMEM;
    for (int i = 0; i < g->output_count; i++) {
        const lki_value *v = &g->values[g->outputs[i]];
        const size_t     bytes = lki_value_bytes(v), before = (size_t)lki_graph_offset(g, g->outputs[i]) * lk_dtype_bytes(v->dtype);
        char            *home = bytes ? lki_card_home(c, lki_graph_root(g, g->outputs[i])) : NULL;
        if (!home && bytes)
            return lk_failed() ? lk_error_code()
                               : lki_fail(LK_ESTATE, "an output of %s has no place on %s", g->name, c->device->name);
        if (bytes) c->outputs[c->output_count++] = (lki_card_output){i, home + before, bytes};
    }
    return LK_OK;
}

static bool makes_output(const lki_card *c, const lki_node *n)
{
    const lki_graph *g = c->graph;
    for (int i = 0; i < n->ndst; i++)
        for (int k = 0; k < g->output_count; k++)
            if (lki_graph_root(g, n->dst[i]) == lki_graph_root(g, g->outputs[k])) return true;
    return false;
}

static bool checks_indices(const lki_card *c, const lki_card_launch *l)
{
    for (int i = l->from; i < l->end; i++)
        if (c->calls[i].gpu.fault) return true;
    return false;
}

/* If a plan has one part, and its outputs are results of calls, the captured graph copies the outputs, after the calls that make
 * them. With them it copies the word `stop`, so it also waits for calls that check indices. */
static lk_status find_givers(lki_card *c)
{
    const lki_graph *g = c->graph;
    const int        most = LKI_GPU_MOST_PIECES - c->checks;
    if (c->part_count != 1 || c->share.placed || !c->output_count || c->output_count > most) return LK_OK;
    for (int i = 0; i < g->output_count; i++)
        if (g->values[lki_graph_root(g, g->outputs[i])].kind != LKI_VALUE_MADE) return LK_OK;
    c->given = c->after_count;
    for (int l = 0; l < c->launch_count; l++) {
        bool gives = checks_indices(c, &c->launches[l]);
        for (int i = c->launches[l].from; i < c->launches[l].end; i++)
            gives = gives || makes_output(c, c->calls[i].node);
        if (!gives) continue;
        if (!lki_grow((void **)&c->after, &c->after_capacity, c->after_count + 1, sizeof *c->after)) return LK_ENOMEM;
        c->after[c->after_count++] = l;
    }
    c->given_count = c->after_count - c->given;
    c->gives = c->given_count > 0;
    return LK_OK;
}

static lk_status make(lki_card *c, const lki_card_args *a)
{
    LKI_TRY(lki_card_order(c, a->order, a->order_count));
    LKI_TRY(lki_card_memory(c));
    LKI_TRY(lki_card_place(c));
    LKI_TRY(lki_card_parts(c));
    LKI_TRY(find_arrivals(c));
    LKI_TRY(find_outputs(c));
    LKI_TRY(find_givers(c));
    LKI_TRY(lki_card_find_ways(c));
    c->arrivals = lki_arena_array(&c->arena, c->input_count + 1, sizeof *c->arrivals);
    c->results = lki_arena_array(&c->arena, c->output_count + 2, sizeof *c->results);
    return c->arrivals && c->results ? LK_OK : LK_ENOMEM;
}

lki_card *lki_card_new(const lki_card_args *a)
{
    lki_card *c = lki_zalloc(sizeof *c);
    if (!c) return NULL;
    c->graph = a->graph;
    c->device = a->device;
    if (a->share) c->share = *a->share;
    c->line = lki_gpu_line_of(a->device);
    c->grouping = c->line && c->line->backend->groups ? c->line->backend->groups() : NULL;
    c->stop = c->line ? lki_gpu_stop(a->device) : NULL;
    if (c->stop && make(c, a) == LK_OK) return c;
    lki_card_free(c);
    return NULL;
}

void lki_card_free(lki_card *c)
{
    if (!c) return;
    if (c->line) lki_gpu_forget(c->device, c);
    for (int i = 0; i < c->part_count; i++)
        if (c->parts[i].graph) c->line->backend->release_graph(c->parts[i].graph);
    for (int i = 0; i < LKI_CARD_WAYS; i++)
        if (c->ways[i].variant) c->line->backend->release_variant(c->ways[i].variant);
    lki_buffer_drop(c->block);
    lki_order_clear(&c->order);
    lki_release(c->at);
    lki_release(c->calls);
    lki_release(c->members);
    lki_release(c->launches);
    lki_release(c->after);
    lki_release(c->parts);
    lki_arena_clear(&c->arena);
    lki_release(c);
}

size_t lki_card_bytes(const lki_card *c) { return c->block->bytes; }

int lki_card_calls(const lki_card *c) { return c->launch_count; }

/* ---- replay ---- */

static char *place_of(const lki_card *c, size_t at) { return (char *)c->block->data + at; }

lk_status lki_card_copy_all(const lki_card *c, int count, const lki_gpu_piece *pieces)
{
    const lki_gpu_line *l = c->line;
    for (int i = 0; i < count; i += LKI_GPU_MOST_PIECES)
        LKI_TRY(lki_gpu_check(c->device, "a copy failed",
                              l->backend->copies(l->card, l->stream, (int)lki_min(count - i, LKI_GPU_MOST_PIECES), pieces + i)));
    return LK_OK;
}

lk_status lki_card_bring(lki_card *c, const lki_value_list *in)
{
    lki_device *d = c->device;
    int         here = 0; /* inputs that are on the card already */
    for (int i = 0; i < c->input_count; i++) {
        const lki_card_input *x = &c->inputs[i];
        const lk_tensor      *t = in->item[x->input];
        lki_device           *home = t->buffer->device;
        const char           *from = (const char *)t->data + x->before;
        char                 *to = place_of(c, x->at);
        if (lki_on_host(home)) LKI_TRY(d->ops->write(d, to, from, x->bytes));
        else if (!lki_same_memory(home, d)) {
            LKI_TRY(lki_buffer_settle(t->buffer));
            LKI_TRY(d->ops->peer(d, to, home, from, x->bytes));
        } else c->arrivals[here++] = (lki_gpu_piece){to, from, x->bytes};
    }
    return lki_card_copy_all(c, here, c->arrivals);
}

static lk_status bring_guests(lki_card *c)
{
    for (int i = 0; i < c->guest_count; i++) {
        const lki_card_guest *x = &c->guests[i];
        const void           *from = lki_variable_values(x->variable);
        if (!from) return lk_error_code();
        LKI_TRY(c->device->ops->write(c->device, place_of(c, x->at), from, x->bytes));
    }
    return LK_OK;
}

/* Copy the values of variables of other memories back, if the replay wrote them. This waits for the card. */
static lk_status return_guests(lki_card *c)
{
    for (int i = 0; i < c->guest_count; i++) {
        const lki_card_guest *x = &c->guests[i];
        if (!x->written) continue;
        LKI_TRY(c->device->ops->settle(c->device, LKI_ALL_WORK));
        LKI_TRY(c->device->ops->read(c->device, x->host, place_of(c, x->at), x->bytes));
        LKI_TRY(lki_variable_fill(x->variable, x->host));
    }
    return LK_OK;
}

/* Outputs are pending from here on. */
static void list_results(lki_card *c, lk_tensor *const *out, int64_t work)
{
    c->result_count = 0;
    for (int i = 0; i < c->output_count; i++) {
        lk_tensor *t = out[c->outputs[i].output];
        t->buffer->work = work;
        c->results[c->result_count++] = (lki_gpu_piece){t->data, c->outputs[i].from, c->outputs[i].bytes};
    }
    if (c->checks) c->results[c->result_count++] = lki_gpu_report(c->device, work, c->device);
}

static lk_status tell(const void *of, int code, int64_t call)
{
    const char      *name = ((const lki_card *)of)->graph->name;
    lki_error_record cause;
    lki_fail_fault((lki_op)(code & 1023));
    lki_error_take(&cause);
    return lki_fail(cause.code, "%s (call %lld of %s)", cause.text, (long long)call, name ? name : "a function");
}

lk_status lki_card_give(const lki_card *c, int64_t call, int count, int64_t *work)
{
    const lki_gpu_job job = {tell, c, call, c->share.bond};
    return lki_gpu_give(c->device, &job, count, work);
}

static lk_status run(lki_card *c, const lki_value_list *in)
{
    void *variant;
    LKI_TRY(lki_card_way_for(c, in, &variant));
    if (!variant) LKI_TRY(lki_card_bring(c, in));
    LKI_TRY(bring_guests(c));
    for (int i = 0; i < c->part_count; i++) {
        LKI_TRY(lki_card_run_part(c, &c->parts[i], variant));
        if (i + 1 < c->part_count) LKI_TRY(lki_card_run_on_host(c, &c->calls[c->launches[c->parts[i].end].from]));
    }
    c->replays++;
    return c->gives ? LK_OK : lki_card_copy_all(c, c->result_count, c->results);
}

lk_status lki_card_replay(lki_card *c, int64_t call, const lki_value_list *in, lk_tensor *const *out)
{
    int64_t work;
    LKI_TRY(lki_card_give(c, call, 1, &work));
    list_results(c, out, work);
    const lk_status status = run(c, in);
    if (status != LK_OK && c->checks)
        lki_card_copy_all(c, 1, &c->results[c->result_count - 1]); /* a launched kernel may have met one too */
    LKI_TRY(status);
    return return_guests(c);
}
