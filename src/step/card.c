/* Making a plan on a GPU, and replaying it. */
#include "step/card.h"
#include "comm/lanes.h"
#include "core/log.h"
#include "core/memory.h"
#include "core/thread.h"
#include "core/trace.h"
#include "device/gpu/gpu.h"
#include "op/run.h"
#include "step/rooms.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct call {
    const lki_node *node;
    bool            on_host;
    int             level;
    bool            has_scratch;
    size_t          scratch; /* bytes of it, and then where it lies in the block */
    lki_args        args;    /* of the card */
    lki_gpu_call    gpu;
} call;

typedef struct part { /* calls from..end-1 on the card, captured; then, unless it is the last part, call `end` on the host */
    int   from, end;
    void *graph; /* NULL: not yet */
} part;

struct lki_card {
    lki_plan           *plan;
    lki_device         *device;
    const lki_gpu_line *line;
    lki_buffer         *block;
    size_t             *at; /* by root value: where it lies in the block, or OUTSIDE */
    call               *calls;
    int                 count, levels;
    part               *parts;
    int                 part_count, part_capacity;
    int                *stop; /* of the card */
    int64_t             replays;
    bool                checks; /* some call may meet an index out of range */
    lki_arena           arena;
};

#define OUTSIDE ((size_t)-1)

/* ---- order ---- */

typedef struct place {
    int phase, turn, task;
} place;

static int earlier(const void *a, const void *b)
{
    const place *x = a, *y = b;
    if (x->phase != y->phase) return x->phase < y->phase ? -1 : 1;
    if (x->turn != y->turn) return x->turn < y->turn ? -1 : 1;
    return x->task < y->task ? -1 : x->task > y->task;
}

/* Sums that lanes of a CPU take in two tasks are one call here, where the first of them is. */
static lk_status make_calls(lki_card *c)
{
    const lki_plan *p = c->plan;
    place          *order = lki_alloc((size_t)(p->task_count + 1) * sizeof *order);
    c->calls = lki_zalloc((size_t)(p->task_count + 1) * sizeof *c->calls);
    if (!order || !c->calls) return lki_release(order), LK_ENOMEM;
    for (int t = 0; t < p->task_count; t++)
        if (p->tasks[t].kind != LKI_TASK_COMBINE) order[c->count++] = (place){p->tasks[t].phase, p->tasks[t].turn, t};
    qsort(order, (size_t)c->count, sizeof *order, earlier);
    for (int i = 0; i < c->count; i++) {
        const lki_node *n = &p->graph->nodes[p->tasks[order[i].task].node];
        c->calls[i].node = n;
        c->calls[i].on_host = !lki_gpu_can(c->device, n->slot, n->type, n->mode == LKI_SUM ? n->rows.lanes : 0);
        if (c->calls[i].on_host)
            lki_tell(LKI_TOPIC_DISPATCH, "%s %s: %s has no kernel for it, so the CPU runs it", lki_op_name(n->op),
                     lk_dtype_name(n->type), c->device->name);
    }
    lki_release(order);
    return LK_OK;
}

/* ---- levels ---- */

static bool touches(const lki_graph *g, const int *value, int count, const lki_value *v)
{
    for (int i = 0; i < count; i++) {
        const lki_value *x = &g->values[lki_graph_root(g, value[i])];
        if (x == v || (v->kind == LKI_VALUE_VARIABLE && x->kind == LKI_VALUE_VARIABLE && x->variable == v->variable)) return true;
    }
    return false;
}

/* Must b, which comes later in the order of the schedule, wait for a? */
static bool waits_for(const lki_graph *g, const lki_node *b, const lki_node *a)
{
    for (int i = 0; i < a->ndst; i++) /* it reads or writes what a made */
        if (touches(g, b->src, b->nsrc, &g->values[a->dst[i]]) || touches(g, b->dst, b->ndst, &g->values[a->dst[i]])) return true;
    for (int i = 0; i < b->ndst && b->writes; i++) /* it writes a variable that a reads */
        if (touches(g, a->src, a->nsrc, &g->values[b->dst[i]])) return true;
    return b->writes && lki_may_fault(a);
}

static int by_level(const void *a, const void *b)
{
    const call *x = a, *y = b;
    if (x->level != y->level) return x->level < y->level ? -1 : 1;
    return x->node->order < y->node->order ? -1 : x->node->order > y->node->order;
}

/* A call on the host has a level of its own: everything before is done, nothing after has begun. */
static void find_levels(lki_card *c)
{
    int base = 0, highest = -1;
    for (int i = 0; i < c->count; i++) {
        call *k = &c->calls[i];
        k->level = k->on_host ? highest + 1 : base;
        for (int j = 0; j < i && !k->on_host; j++)
            if (c->calls[j].level >= k->level && waits_for(c->plan->graph, k->node, c->calls[j].node))
                k->level = c->calls[j].level + 1;
        if (k->level > highest) highest = k->level;
        if (k->on_host) base = highest + 1;
    }
    c->levels = highest + 1;
    qsort(c->calls, (size_t)c->count, sizeof *c->calls, by_level);
}

/* ---- memory ---- */

static size_t bytes_of(const lki_value *v) { return (size_t)lki_shape_size(&v->shape) * lk_dtype_bytes(v->dtype); }

static bool on_card(const lki_card *c, const lki_value *v) { return lki_same_memory(v->variable->buffer->device, c->device); }

/* Does this root value need room in the block? Variables of another memory have a copy there, one for all their versions: that of version 0. */
static bool needs_room(const lki_card *c, const lki_value *v)
{
    if (v->alias_of >= 0) return false;
    if (v->kind == LKI_VALUE_VARIABLE) return !on_card(c, v) && v->version == 0;
    return v->kind == LKI_VALUE_INPUT || v->kind == LKI_VALUE_MADE;
}

static void use(lki_room *life, int at)
{
    if (at < life->from) life->from = at;
    if (at > life->to) life->to = at;
}

/* When each root value lives, in levels; -1: before all of them, `levels`: after. */
static void find_lives(const lki_card *c, lki_room *life)
{
    const lki_graph *g = c->plan->graph;
    for (int i = 0; i < c->count; i++) {
        const lki_node *n = c->calls[i].node;
        for (int k = 0; k < n->nsrc; k++)
            if (!lki_shape_only(n, k)) use(&life[lki_graph_root(g, n->src[k])], c->calls[i].level);
        for (int k = 0; k < n->ndst; k++)
            use(&life[n->dst[k]], c->calls[i].level);
    }
    for (int i = 0; i < g->output_count; i++)
        use(&life[lki_graph_root(g, g->outputs[i])], c->levels);
    for (int v = 0; v < g->value_count; v++) {
        const lki_value *x = &g->values[v];
        if (x->kind == LKI_VALUE_INPUT && life[v].to >= 0) use(&life[v], -1);
        if (x->kind == LKI_VALUE_VARIABLE) life[v].from = -1, life[v].to = c->levels;
    }
}

static double mebibytes(size_t bytes) { return (double)bytes / 0x1p20; }

/* Rows of a batch whose step would fit in `room`. What does not grow with the batch, gradients and most scratch, is subtracted from both; blocks of a card are up to a quarter larger than
 * what is asked for (device/gpu/gpu.c). */
static int64_t rows_that_fit(const lki_card *c, const lki_room *spans, int count, size_t total, size_t room, int64_t rows)
{
    const lki_graph *g = c->plan->graph;
    double           fixed = 0;
    for (int i = 0; i < count; i++)
        if (spans[i].value < 0 || g->values[spans[i].value].rows.kind != LKI_ROWS) fixed += (double)spans[i].bytes;
    fixed = fmin(fixed, (double)total * 0.75);
    const double share = ((double)room * 0.75 - fixed) / ((double)total - fixed);
    return lki_max(1, (int64_t)((double)rows * fmin(share, 0.9)));
}

/* "no room for a step: it needs 12000.0 MiB and 9000.0 are free; the largest are conv2d [8192, 26, 26, 32] ..." */
static lk_status too_large(const lki_card *c, const lki_room *largest, int count, size_t total)
{
    const lki_graph     *g = c->plan->graph;
    const lki_gpu_memory m = lki_gpu_memory_of(c->device);
    const size_t         room = m.limit ? (m.limit > m.used ? m.limit - m.used : 0) : m.available + m.kept;
    char                 text[LKI_SHAPE_TEXT], words[600] = "", fits[120] = "";
    size_t               used = 0;
    int64_t              rows = 0;
    for (int i = 0, told = 0; i < count && told < 3 && used < sizeof words; i++) {
        if (largest[i].value < 0) continue; /* scratch */
        told++;
        const lki_value *v = &g->values[largest[i].value];
        used += (size_t)snprintf(words + used, sizeof words - used, "%s%s %s (%.1f MiB)", i ? ", " : "",
                                 v->maker >= 0 ? lki_op_name(g->nodes[v->maker].op) : "an input", lki_shape_text(&v->shape, text),
                                 mebibytes(largest[i].bytes));
    }
    for (int i = 0; i < g->node_count; i++)
        if (!g->nodes[i].dead && g->nodes[i].mode != LKI_WHOLE) rows = lki_max(rows, g->nodes[i].rows.rows);
    if (rows > 1)
        snprintf(fits, sizeof fits, "; a batch of about %lld rows instead of %lld would fit",
                 (long long)rows_that_fit(c, largest, count, total, room, rows), (long long)rows);
    lk_clear_error(); /* that of the block: this says more */
    return lki_fail(LK_ENOMEM, "%s: out of memory: no room for a step: it needs %.1f MiB and %.1f are free; the largest are %s%s",
                    c->device->name, mebibytes(total), mebibytes(room), words, fits);
}

static lk_status make_block(lki_card *c)
{
    const lki_graph *g = c->plan->graph;
    lki_room        *life = lki_alloc((size_t)(g->value_count + 1) * sizeof *life),
             *spans = lki_alloc((size_t)(g->value_count + c->count + 1) * sizeof *spans);
    int       count = 0;
    size_t    total = 2 * LKI_CACHE_LINE;
    lk_status status = life && spans ? LK_OK : LK_ENOMEM;
    c->at = lki_alloc((size_t)(g->value_count + 1) * sizeof *c->at);
    if (!c->at) status = LK_ENOMEM;
    for (int v = 0; v < g->value_count && status == LK_OK; v++) {
        life[v] = (lki_room){.from = c->levels, .to = -1};
        c->at[v] = OUTSIDE;
    }
    if (status == LK_OK) find_lives(c, life);
    for (int v = 0; v < g->value_count && status == LK_OK; v++)
        if (needs_room(c, &g->values[v]) && life[v].to >= life[v].from)
            spans[count++] = (lki_room){v, -1, life[v].from, life[v].to, bytes_of(&g->values[v]) + 1, 0};
    for (int i = 0; i < c->count && status == LK_OK; i++)
        if (c->calls[i].scratch)
            spans[count++] = (lki_room){-1 - i, -1, c->calls[i].level, c->calls[i].level, c->calls[i].scratch, 0};
    if (status == LK_OK) {
        lki_rooms_place(spans, count);
        for (int i = 0; i < count; i++) {
            *(spans[i].value < 0 ? &c->calls[-1 - spans[i].value].scratch : &c->at[spans[i].value]) = spans[i].at;
            total = (size_t)lki_max((int64_t)total, (int64_t)(spans[i].at + spans[i].bytes));
        }
        c->block = lki_buffer_new(c->device, total);
        if (!c->block) status = lk_error_code() == LK_ENOMEM ? too_large(c, spans, count, total) : lk_error_code();
    }
    lki_release(life);
    lki_release(spans);
    return status;
}

/* ---- calls ---- */

/* Version 0 of a variable: where its copy lies, if it has one. */
static int first_version(const lki_graph *g, int root)
{
    const lki_value *v = &g->values[root];
    for (int i = 0; v->kind == LKI_VALUE_VARIABLE && v->version > 0 && i < root; i++)
        if (g->values[i].kind == LKI_VALUE_VARIABLE && g->values[i].variable == v->variable && g->values[i].version == 0) return i;
    return root;
}

/* Where a root value lies; NULL: nowhere, nobody reads or writes its elements, or its constant could not be brought to the card. */
static char *home_of(lki_card *c, int root)
{
    const lki_graph *g = c->plan->graph;
    const lki_value *v = &g->values[root];
    if (v->kind == LKI_VALUE_CONSTANT) return lki_data_on(v->constant, c->device);
    if (v->kind == LKI_VALUE_VARIABLE && on_card(c, v)) return v->variable->buffer->data;
    const size_t at = c->at[first_version(g, root)];
    return at == OUTSIDE ? NULL : (char *)c->block->data + at;
}

static lk_status make_view(lki_card *c, lki_view *view, int value, bool shape_only)
{
    const lki_graph *g = c->plan->graph;
    const lki_value *v = &g->values[value];
    char            *home = shape_only ? NULL : home_of(c, lki_graph_root(g, value));
    *view = (lki_view){home ? home + (size_t)lki_graph_offset(g, value) * lk_dtype_bytes(v->dtype) : NULL, &v->shape, v->dtype};
    return !home && !shape_only && lk_failed() ? lk_error_code() : LK_OK;
}

static lk_status give_lanes(lki_card *c, lki_args *a, const lki_rows *rows)
{
    lki_lanes *lanes = lki_arena_alloc(&c->arena, sizeof *lanes);
    int64_t   *bound = lki_arena_alloc(&c->arena, (size_t)(rows->lanes + 1) * sizeof *bound);
    if (!lanes || !bound) return LK_ENOMEM;
    lki_lane_bounds(rows->global, rows->lanes, rows->first, rows->rows, rows->per_row, bound);
    *lanes = (lki_lanes){rows->lanes, bound};
    a->lanes = lanes;
    return LK_OK;
}

/* Everything of a call but addresses, and what scratch it needs: a question of shapes alone. */
static lk_status describe_call(lki_card *c, call *k)
{
    const lki_node *n = k->node;
    lki_view       *views = lki_arena_alloc(&c->arena, (size_t)(n->nsrc + n->ndst + 1) * sizeof *views);
    if (!views) return LK_ENOMEM;
    for (int i = 0; i < n->nsrc + n->ndst; i++)
        LKI_TRY(make_view(c, &views[i], i < n->nsrc ? n->src[i] : n->dst[i - n->nsrc], true));
    k->args = (lki_args){.src = views, .dst = views + n->nsrc, .nsrc = n->nsrc, .ndst = n->ndst, .attr = &n->attr, .gpu = &k->gpu};
    k->args.hi = n->ndst ? lki_shape_size(views[n->nsrc].shape) : 0;
    k->args.first = n->mode == LKI_EACH ? n->rows.first * n->rows.per_row : 0;
    if (n->mode == LKI_SUM) LKI_TRY(give_lanes(c, &k->args, &n->rows));
    lki_scratch_fn *needs = k->on_host ? NULL : c->line->kernels->scratch[n->slot][n->type];
    k->scratch = needs ? needs(&k->args) : 0;
    k->has_scratch = k->scratch > 0;
    return LK_OK;
}

/* When there is a block: where its operands and results lie. */
static lk_status place_call(lki_card *c, call *k)
{
    const lki_node *n = k->node;
    const bool      checks = lki_may_fault(n);
    lki_view       *views = (lki_view *)k->args.src;
    for (int i = 0; i < n->nsrc; i++)
        LKI_TRY(make_view(c, &views[i], n->src[i], lki_shape_only(n, i)));
    for (int i = 0; i < n->ndst; i++)
        LKI_TRY(make_view(c, &views[n->nsrc + i], n->dst[i], false));
    k->gpu.stop = checks || n->writes ? c->stop : NULL;
    k->args.scratch = k->has_scratch ? (char *)c->block->data + k->scratch : NULL;
    if (k->on_host) return LK_OK;
    c->checks = c->checks || checks;
    return checks && !(k->gpu.told = lki_gpu_fault_new(c->device, lki_tell_fault, (int)n->op)) ? lk_error_code() : LK_OK;
}

static lk_status make_parts(lki_card *c)
{
    for (int i = 0, from = 0; i <= c->count; i++) {
        if (i < c->count && !c->calls[i].on_host) continue;
        if (!lki_grow((void **)&c->parts, &c->part_capacity, c->part_count + 1, sizeof *c->parts)) return LK_ENOMEM;
        c->parts[c->part_count++] = (part){from, i, NULL};
        from = i + 1;
    }
    return LK_OK;
}

static lk_status on_each_call(lki_card *c, lk_status (*fn)(lki_card *c, call *k))
{
    for (int i = 0; i < c->count; i++)
        LKI_TRY(fn(c, &c->calls[i]));
    return LK_OK;
}

lki_card *lki_card_new(lki_plan *p, lki_device *device)
{
    lki_card *c = lki_zalloc(sizeof *c);
    if (!c) return NULL;
    c->plan = p;
    c->device = device;
    c->line = lki_gpu_line_of(device);
    c->stop = c->line ? lki_gpu_stop(device) : NULL;
    lk_status status = c->stop ? make_calls(c) : lk_error_code();
    if (status == LK_OK) find_levels(c);
    if (status == LK_OK) status = on_each_call(c, describe_call);
    if (status == LK_OK) status = make_block(c);
    if (status == LK_OK) status = on_each_call(c, place_call);
    if (status == LK_OK) status = make_parts(c);
    if (status == LK_OK) return c;
    lki_card_free(c);
    return NULL;
}

void lki_card_free(lki_card *c)
{
    if (!c) return;
    if (c->line) c->line->backend->sync(c->line->card, c->line->stream); /* it may still be at work */
    for (int i = 0; i < c->count && c->calls; i++)
        lki_gpu_fault_free(c->device, c->calls[i].gpu.told);
    for (int i = 0; i < c->part_count; i++)
        if (c->parts[i].graph) c->line->backend->release_graph(c->parts[i].graph);
    lki_buffer_drop(c->block);
    lki_release(c->at);
    lki_release(c->calls);
    lki_release(c->parts);
    lki_arena_clear(&c->arena);
    lki_release(c);
}

size_t lki_card_bytes(const lki_card *c) { return c->block->bytes; }

int lki_card_calls(const lki_card *c) { return c->count; }

/* ---- replay ---- */

static lk_status launch_call(lki_card *c, call *k, void *stream)
{
    k->gpu.stream = stream;
    c->line->kernels->fn[k->node->slot][k->node->type](&k->args);
    return lki_gpu_check(c->device, lki_op_name(k->node->op), c->line->backend->failure(c->line->card));
}

static lk_status launch_calls(lki_card *c, const part *p, void *stream)
{
    for (int i = p->from; i < p->end; i++)
        LKI_TRY(launch_call(c, &c->calls[i], stream));
    return LK_OK;
}

/* Calls from..end-1 are of one level: one on the stream, the others beside it. */
static lk_status launch_level(lki_card *c, int from, int end, void *stream)
{
    enum { MOST = 32 };
    const lki_gpu_backend *b = c->line->backend;
    void                  *side[MOST];
    const int              beside = (int)lki_min(end - from - 1, MOST);
    lk_status              status = LK_OK;
    if (beside > 0) LKI_TRY(lki_gpu_check(c->device, "a step cannot be captured", b->fork(c->line->card, stream, beside, side)));
    for (int i = from; i < end && status == LK_OK; i++)
        status = launch_call(c, &c->calls[i], i == from ? stream : side[(i - from - 1) % MOST]);
    if (beside > 0) {
        const int code = b->join(c->line->card, stream, beside, side);
        if (status == LK_OK) status = lki_gpu_check(c->device, "a step cannot be captured", code);
    }
    return status;
}

static lk_status launch_levels(lki_card *c, const part *p, void *stream)
{
    for (int i = p->from, end; i < p->end; i = end) {
        for (end = i + 1; end < p->end && c->calls[end].level == c->calls[i].level;)
            end++;
        LKI_TRY(launch_level(c, i, end, stream));
    }
    return LK_OK;
}

static lk_status capture(lki_card *c, part *p)
{
    const lki_gpu_backend *b = c->line->backend;
    void                  *stream = NULL;
    LKI_TRY(lki_gpu_check(c->device, "a step cannot be captured", b->capture_begin(c->line->card, &stream)));
    lk_status status = launch_levels(c, p, stream);
    int       code = b->capture_end(c->line->card, stream, &p->graph);
    if (code) p->graph = NULL;
    if (status != LK_OK && p->graph) { /* only a part of it */
        b->release_graph(p->graph);
        p->graph = NULL;
    }
    return status == LK_OK ? lki_gpu_check(c->device, "a step could not be captured", code) : status;
}

/* Call by call, each waited for, noting what takes how long; launching and waiting are part of it. */
static lk_status run_traced(lki_card *c, const part *p)
{
    LKI_TRY(lki_gpu_wait(c->device));
    for (int i = p->from; i < p->end; i++) {
        const lki_node *n = c->calls[i].node;
        const int64_t   began = lki_span_begin();
        LKI_TRY(launch_calls(c, &(part){.from = i, .end = i + 1}, c->line->stream));
        LKI_TRY(lki_gpu_wait(c->device));
        lki_span_end(began, n->writes ? LKI_SPAN_COMMUNICATION : LKI_SPAN_COMPUTE, lki_op_name(n->op), -1);
    }
    return LK_OK;
}

static lk_status run_part(lki_card *c, part *p)
{
    const lki_gpu_backend *b = c->line->backend;
    if (__atomic_load_n(&lki_tracing, __ATOMIC_RELAXED)) return run_traced(c, p);
    if (c->replays == 0) return launch_calls(c, p, c->line->stream);
    if (!p->graph) LKI_TRY(capture(c, p));
    return lki_gpu_check(c->device, "a step cannot be launched", b->launch(c->line->card, c->line->stream, p->graph));
}

/* A call of the host: operands come from the card, results go to it. After a fault updates are left out. */
static lk_status run_on_host(lki_card *c, const call *k)
{
    enum { MOST = 256 };
    const lki_node    *n = k->node;
    lki_device        *d = c->device;
    const lki_kernels *host = lki_kernels_here();
    lki_view           view[MOST];
    lki_args           a = k->args;
    int                fault = 0, stopped = 0;
    lk_status          status = n->nsrc + n->ndst <= MOST
                                    ? LK_OK
                                    : lki_fail(LK_EUNSUPPORTED, "%s: %d operands are too many", lki_op_name(n->op), n->nsrc + n->ndst);
    if (status == LK_OK) status = d->ops->read(d, &stopped, c->stop, sizeof stopped);
    memset(view, 0, sizeof view);
    for (int i = 0; i < n->nsrc + n->ndst && status == LK_OK; i++) {
        const lki_view *v = &k->args.src[i]; /* dst lies behind src */
        const size_t    bytes = (size_t)lki_shape_size(v->shape) * lk_dtype_bytes(v->dtype);
        view[i] = (lki_view){lki_alloc(bytes), v->shape, v->dtype};
        if (!view[i].data) status = LK_ENOMEM;
        else if (v->data && (i < n->nsrc || n->writes)) status = d->ops->read(d, view[i].data, v->data, bytes);
    }
    a.src = view;
    a.dst = view + n->nsrc;
    a.fault = &fault;
    a.gpu = NULL;
    a.scratch = NULL;
    size_t scratch = status == LK_OK && host->scratch[n->slot][n->type] ? host->scratch[n->slot][n->type](&a) : 0;
    if (scratch && !(a.scratch = lki_alloc(scratch))) status = LK_ENOMEM;
    if (status == LK_OK && !(stopped && n->writes)) {
        unsigned before = lki_fp_enter();
        host->fn[n->slot][n->type](&a);
        lki_fp_leave(before);
        for (int i = 0; i < n->ndst && status == LK_OK; i++)
            status = d->ops->write(d, k->args.dst[i].data, a.dst[i].data,
                                   (size_t)lki_shape_size(a.dst[i].shape) * lk_dtype_bytes(a.dst[i].dtype));
        if (status == LK_OK && fault) status = lki_fail_fault(n->op);
    }
    for (int i = 0; i < n->nsrc + n->ndst; i++)
        lki_release(view[i].data);
    lki_release(a.scratch);
    return status;
}

static lk_status bring_inputs(lki_card *c, const lki_line *in)
{
    const lki_graph *g = c->plan->graph;
    for (int v = 0; v < g->value_count; v++) {
        const lki_value *x = &g->values[v];
        if (c->at[v] == OUTSIDE || (x->kind != LKI_VALUE_INPUT && x->kind != LKI_VALUE_VARIABLE)) continue;
        char        *to = (char *)c->block->data + c->at[v];
        const size_t bytes = bytes_of(x);
        if (x->kind == LKI_VALUE_INPUT && bytes) {
            const lk_tensor *t = in->item[x->input];
            if (lki_on_host(t->buffer->device)) LKI_TRY(c->device->ops->write(c->device, to, t->data, bytes));
            else {
                const void *from = lki_data_on(t, c->device);
                if (!from) return lk_error_code();
                LKI_TRY(c->device->ops->copy(c->device, to, from, bytes));
            }
        } else if (bytes) {
            const void *from = lki_variable_values(x->variable);
            if (!from) return lk_error_code();
            LKI_TRY(c->device->ops->write(c->device, to, from, bytes));
        }
    }
    return LK_OK;
}

/* Variables of other memories that were written get their values. */
static lk_status return_variables(lki_card *c)
{
    const lki_graph *g = c->plan->graph;
    for (int i = 0; i < g->variable_count; i++) {
        lk_variable *v = g->variables[i].variable;
        if (!g->variables[i].version || lki_same_memory(v->buffer->device, c->device)) continue;
        void     *host = lki_alloc(v->buffer->bytes);
        char     *from = home_of(c, first_version(g, g->variables[i].value));
        lk_status status = host && from ? c->device->ops->read(c->device, host, from, v->buffer->bytes) : LK_ENOMEM;
        if (status == LK_OK) status = lki_variable_fill(v, host);
        lki_release(host);
        LKI_TRY(status);
    }
    return LK_OK;
}

static lk_status take_outputs(lki_card *c, lk_tensor *const *out)
{
    const lki_graph *g = c->plan->graph;
    for (int i = 0; i < g->output_count; i++) {
        const int    value = g->outputs[i], root = lki_graph_root(g, value);
        const size_t bytes = bytes_of(&g->values[value]);
        char        *from = home_of(c, root);
        if (!bytes) continue;
        if (!from)
            return lk_failed() ? lk_error_code()
                               : lki_fail(LK_ESTATE, "an output of %s has no place on %s", g->name, c->device->name);
        LKI_TRY(c->device->ops->copy(c->device, out[i]->data,
                                     from + (size_t)lki_graph_offset(g, value) * lk_dtype_bytes(g->values[value].dtype), bytes));
    }
    return LK_OK;
}

static _Thread_local bool unwaited;

bool lki_card_wait_for_faults(bool wait)
{
    bool before = !unwaited;
    unwaited = !wait;
    return before;
}

lk_status lki_card_replay(lki_card *c, const lki_line *in, lk_tensor *const *out)
{
    LKI_TRY(lki_gpu_faults(c->device)); /* of steps before */
    LKI_TRY(bring_inputs(c, in));
    for (int i = 0; i < c->part_count; i++) {
        LKI_TRY(run_part(c, &c->parts[i]));
        if (i + 1 < c->part_count) LKI_TRY(run_on_host(c, &c->calls[c->parts[i].end]));
    }
    c->replays++;
    if (c->checks && !unwaited) LKI_TRY(lki_gpu_wait(c->device));
    LKI_TRY(return_variables(c));
    return take_outputs(c, out);
}
