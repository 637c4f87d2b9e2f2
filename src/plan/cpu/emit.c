/* Turning tasks into kernel calls: views of operands and results, restricted to a lane, a thread's rows or a piece; one flat list
 * per thread, barriers between phases. */
#include "core/log.h"
#include "lane/lanes.h"
#include "plan/cpu/cpu.h"
#include <string.h>

typedef struct
    range { /* the range of a call: entries of the leading axis (rows), elements of the result (a piece), both, or everything */
    bool    rows, piece;
    int64_t lo, hi;     /* rows */
    int64_t from, to;   /* piece */
    int64_t base;       /* piece: where values that hold one begin */
    int     lane;       /* rows: the lane of the first one */
    int64_t columns[2]; /* both 0: all */
} range;

enum { COLUMN_BLOCK = 64 }; /* columns of a product that stay with one thread: whole cache lines, and enough for the widest tiles */

static range rows_of_lanes(const lki_rows *rows, int lane, int end)
{
    return (range){.rows = true, .lo = lki_cpu_bound(rows, lane), .hi = lki_cpu_bound(rows, end), .lane = lane};
}

static const lki_kernels *kernels(void) { return lki_kernels_here(); }

/* ---- views ---- */

static char *home_of(const lki_cpu_plan *p, int root, int thread)
{
    const lki_storage *s = &p->storage[root];
    const bool         own = s->home == LKI_HOME_LANE || s->home == LKI_HOME_PIECE;
    return own ? p->thread_block + (size_t)thread * p->thread_stride + s->at : lki_cpu_home(p, root, NULL);
}

static const lk_shape *shape_with(lki_cpu_plan *p, const lk_shape *shape, int64_t leading)
{
    lk_shape *s = lki_arena_alloc(&p->arena, sizeof *s);
    if (!s) return NULL;
    *s = *shape;
    if (leading >= 0) s->dim[0] = leading;
    return s;
}

/* A value as a kernel sees it: `cut` along its leading axis to r, or the whole. Elements of a piece are addressed as if the whole
 * were stored: the pointer is moved back by the elements before the piece. */
static bool make_view(lki_cpu_plan *p, lki_view *view, int value, int thread, bool cut, range r)
{
    const lki_value *v = &p->graph->values[value];
    int              root = lki_graph_root(p->graph, value);
    int64_t          entry = v->shape.rank && v->shape.dim[0] ? lki_shape_size(&v->shape) / v->shape.dim[0] : 0;
    lki_home         home = p->graph->values[root].kind == LKI_VALUE_MADE ? p->storage[root].home : LKI_HOME_OUTSIDE;
    int64_t          skip = home == LKI_HOME_PIECE ? -r.base : cut && r.rows && home != LKI_HOME_LANE ? r.lo * entry : 0;
    int64_t          offset = (skip + lki_graph_offset(p->graph, value)) * (int64_t)lk_dtype_bytes(v->dtype);
    view->dtype = v->dtype;
    view->shape = shape_with(p, &v->shape, cut && r.rows ? r.hi - r.lo : -1);
    if (!view->shape) return false;
    if (p->graph->values[root].kind != LKI_VALUE_INPUT) {
        view->data = (void *)((uintptr_t)home_of(p, root, thread) + (uintptr_t)offset);
        return true;
    }
    if (!lki_grow((void **)&p->patches, &p->patch_capacity, p->patch_count + 1, sizeof *p->patches)) return false;
    offset += p->graph->values[root].offset * (int64_t)lk_dtype_bytes(v->dtype);
    p->patches[p->patch_count++] = (lki_patch){view, p->graph->values[root].input, (size_t)offset};
    return true;
}

/* ---- calls ---- */

static lki_call *add_call(lki_cpu_plan *p, int thread)
{
    if (!lki_grow((void **)&p->calls[thread], &p->call_capacity[thread], p->call_count[thread] + 1, sizeof(lki_call))) return NULL;
    lki_call *c = &p->calls[thread][p->call_count[thread]++];
    memset(c, 0, sizeof *c);
    c->lane = -1;
    return c;
}

static lk_status finish_call(lki_cpu_plan *p, lki_call *c, lki_slot slot, lk_dtype type)
{
    const lki_kernels *k = kernels();
    c->fn = k->fn[slot][type];
    lki_tell(LKI_TOPIC_DISPATCH, "%s %s: %s", lki_slot_name(slot), lk_dtype_name(type), k->variant[slot][type]);
    size_t scratch = k->scratch[slot][type] ? k->scratch[slot][type](&c->args) : 0;
    if (scratch > p->scratch_bytes) p->scratch_bytes = scratch;
    c->args.scratch = scratch ? (void *)1 : NULL; /* the real place is filled in when all calls are known */
    return LK_OK;
}

/* The lanes that a node sums over here: all, or those of a subtree. A value with an entry for each lane has an entry for all. */
static lki_subtree tree_of(const lki_cpu_plan *p, const lki_node *n)
{
    return p->is.trees && !n->writes ? p->is.trees[n - p->graph->nodes] : (lki_subtree){0, n->rows.lanes};
}

/* Those lanes, or, for a partial sum, the one lane of the call. */
static const lki_lanes *lanes_of(lki_cpu_plan *p, const lki_node *n, range r)
{
    const lki_rows   *rows = &n->rows;
    const lki_subtree tree = tree_of(p, n);
    lki_lanes        *lanes = lki_arena_alloc(&p->arena, sizeof *lanes);
    int64_t          *bound = lki_arena_array(&p->arena, (r.rows ? 1 : rows->lanes) + 1, sizeof *bound);
    if (!lanes || !bound) return NULL;
    if (r.rows) bound[1] = r.hi - r.lo;
    else lki_lane_bounds(rows->global, rows->lanes, rows->first, rows->rows, rows->per_row, bound);
    *lanes = r.rows ? (lki_lanes){1, bound} : (lki_lanes){tree.width, bound + tree.lane};
    return lanes;
}

/* Results go one after the other from `into` on. */
static void put_results(lki_view *dst, int count, char *into)
{
    for (int i = 0; i < count; i++) {
        dst[i].data = into;
        into += lki_bytes_of(lki_shape_size(dst[i].shape), lk_dtype_bytes(dst[i].dtype));
    }
}

/* One call of a node's kernel. `into`: where the results go instead (partial sums). */
static lk_status call_node(lki_cpu_plan *p, int thread, const lki_task *t, range r, void *into)
{
    const lki_node *n = &p->graph->nodes[t->node];
    lki_view       *views = lki_arena_array(&p->arena, n->nsrc + n->ndst + 1, sizeof *views);
    lki_call       *c = add_call(p, thread);
    if (!views || !c) return LK_ENOMEM;
    for (int i = 0; i < n->nsrc; i++)
        if (!make_view(p, &views[i], n->src[i], thread, r.rows && lki_is_cut(n->cut, i), r)) return LK_ENOMEM;
    for (int i = 0; i < n->ndst; i++)
        if (!make_view(p, &views[n->nsrc + i], n->dst[i], thread, r.rows && n->mode == LKI_EACH, r)) return LK_ENOMEM;
    if (into) put_results(views + n->nsrc, n->ndst, into);
    lki_args *a = &c->args;
    *a = (lki_args){
        .src = views, .dst = views + n->nsrc, .nsrc = n->nsrc, .ndst = n->ndst, .attr = &n->attr, .fault = &p->faults[t->node]};
    a->lo = r.piece ? r.from : 0;
    a->hi = r.piece ? r.to : n->ndst ? lki_shape_size(views[n->nsrc].shape) : 0;
    memcpy(a->columns, r.columns, sizeof a->columns);
    a->first = n->mode == LKI_EACH ? n->rows.first * n->rows.per_row + (r.rows ? r.lo : 0) : 0;
    if (n->mode == LKI_SUM && !(a->lanes = lanes_of(p, n, r))) return LK_ENOMEM;
    a->past = p->threads > 1 && n->ndst && n->writes && t->place == LKI_TILES;
    c->name = lki_op_name(n->op);
    c->lane = (int16_t)(r.rows ? r.lane : -1);
    c->shared = !r.rows && (n->mode == LKI_SUM || n->writes);
    return finish_call(p, c, n->slot, n->type);
}

/* dst = a + b, or dst = a, or dst = 0, over partial sums of all results (PARTIAL), or those of one or a piece of them (COMBINE). */
static lk_status call_add(lki_cpu_plan *p, int thread, const lki_task *t, void *dst, void *a, void *b, int64_t lo, int64_t hi)
{
    const lk_dtype  dtype = p->graph->values[p->graph->nodes[t->node].dst[0]].dtype;
    const lk_shape *shape = shape_with(p, &(lk_shape){1, {0}}, t->size);
    lki_view       *views = lki_arena_array(&p->arena, 3, sizeof *views);
    lki_attr       *attr = lki_arena_alloc(&p->arena, sizeof *attr);
    lki_call       *c = add_call(p, thread);
    if (!shape || !views || !attr || !c) return LK_ENOMEM;
    void *place[3] = {a, b, dst};
    int   nsrc = (a != NULL) + (b != NULL);
    place[nsrc] = dst;
    for (int i = 0; i <= nsrc; i++)
        views[i] = (lki_view){place[i], shape, dtype};
    c->args = (lki_args){.src = views, .dst = views + nsrc, .nsrc = nsrc, .ndst = 1, .attr = attr, .lo = lo, .hi = hi};
    static const lki_slot slots[3] = {LKI_K_fill, LKI_K_copy, LKI_K_add};
    c->name = "sum over lanes";
    c->shared = true;
    return finish_call(p, c, slots[nsrc], dtype);
}

/* ---- the lane tree ---- */

typedef struct node_sum { /* an open subtree: its lanes and where its sum is; NULL: all its lanes are empty */
    int   lane, width;
    void *sum;
} node_sum;

static bool siblings(const node_sum *left, const node_sum *right)
{
    return left->width == right->width && left->lane % (2 * left->width) == 0;
}

/* Push a subtree and join siblings. The sum of two goes where the left one is; `last`, when given, is where the sum of all lanes
 * of the node goes. */
static lk_status push(lki_cpu_plan *p, int thread, const lki_task *t, node_sum *open, int *count, node_sum sum, int64_t lo,
                      int64_t hi, void *last)
{
    open[(*count)++] = sum;
    while (*count > 1 && siblings(&open[*count - 2], &open[*count - 1])) {
        node_sum *left = &open[*count - 2], *right = &open[*count - 1];
        bool      all = 2 * left->width == tree_of(p, &p->graph->nodes[t->node]).width;
        if (left->sum && right->sum) {
            void *dst = all && last ? last : left->sum;
            LKI_TRY(call_add(p, thread, t, dst, left->sum, right->sum, lo, hi));
            left->sum = dst;
        } else if (!left->sum) left->sum = right->sum;
        left->width *= 2;
        (*count)--;
    }
    return LK_OK;
}

static char *buffer_of(const lki_cpu_plan *p, const lki_task *partial, int thread, int i)
{
    return p->shared + partial->at + partial->bytes * (size_t)(thread * partial->stack + i);
}

typedef struct stack { /* of one PARTIAL task on one thread, kept from lane to lane */
    node_sum open[64];
    int      count;
    uint64_t used; /* bit i: buffer i holds an open sum */
} stack;

static int free_buffer(const stack *s)
{
    int i = 0;
    while (s->used >> i & 1)
        i++;
    return i;
}

static lk_status partial_sum(lki_cpu_plan *p, int thread, int task, stack *s, int lane)
{
    const lki_task   *t = &p->tasks[task];
    const lki_node   *n = &p->graph->nodes[t->node];
    const lki_subtree tree = tree_of(p, n);
    range             r = rows_of_lanes(&n->rows, lane, lane + 1);
    node_sum          sum = {lane, 1, NULL};
    if (lane < tree.lane || lane >= tree.lane + tree.width) return LK_OK;
    if (r.hi > r.lo) {
        sum.sum = buffer_of(p, t, thread, free_buffer(s));
        LKI_TRY(call_node(p, thread, t, r, sum.sum));
    }
    LKI_TRY(push(p, thread, t, s->open, &s->count, sum, 0, t->size, NULL));
    s->used = 0;
    for (int i = 0; i < s->count; i++)
        for (int b = 0; b < t->stack; b++)
            if (s->open[i].sum == buffer_of(p, t, thread, b)) s->used |= 1ull << b;
    return LK_OK;
}

/* ---- tasks ---- */

typedef struct emitter {
    lki_cpu_plan *plan;
    stack       **stacks; /* by PARTIAL task, then thread; filled while LANE tasks are emitted, read by COMBINE */
} emitter;

static lk_status emit_combine(emitter *e, int thread, const lki_task *t, int64_t lo, int64_t hi, int64_t base)
{
    lki_cpu_plan *p = e->plan;
    node_sum      open[80];
    int           count = 0;
    lki_view      dst;
    if (!make_view(p, &dst, p->graph->nodes[t->node].dst[t->result], thread, false,
                   (range){.piece = true, .from = lo, .to = hi, .base = base}))
        return LK_ENOMEM;
    for (int from = 0; from < p->threads; from++) {
        const stack *s = &e->stacks[t->partial][from];
        for (int i = 0; i < s->count; i++) {
            node_sum sum = s->open[i];
            if (sum.sum) sum.sum = (char *)sum.sum + (size_t)t->before * lk_dtype_bytes(dst.dtype);
            LKI_TRY(push(p, thread, t, open, &count, sum, lo, hi, dst.data));
        }
    }
    void *sum = count ? open[0].sum : NULL;
    return sum == dst.data ? LK_OK : call_add(p, thread, t, dst.data, sum, NULL, lo, hi);
}

static lk_status emit_task(emitter *e, int thread, int task, range r)
{
    const lki_task *t = &e->plan->tasks[task];
    if (t->kind == LKI_TASK_EXCHANGE) return LK_OK;
    if (t->kind == LKI_TASK_COMBINE) return emit_combine(e, thread, t, r.piece ? r.from : 0, r.piece ? r.to : t->size, r.base);
    return call_node(e->plan, thread, t, r, NULL);
}

/* All tasks of a chain on one lane, piece after piece. */
static lk_status emit_chain(emitter *e, int thread, int chain, int lane)
{
    lki_cpu_plan    *p = e->plan;
    const lki_node  *n = &p->graph->nodes[p->tasks[chain].node];
    const lki_value *v = &p->graph->values[n->dst[0]];
    range            r = rows_of_lanes(&n->rows, lane, lane + 1);
    int64_t          size = r.hi > r.lo ? lki_size_mul(lki_shape_size(&v->shape) / v->shape.dim[0], r.hi - r.lo) : 0;
    r.piece = true;
    for (r.from = 0; r.from < size; r.from = r.to) {
        r.to = lki_min(r.from + LKI_PIECE, size);
        r.base = r.from;
        for (int i = chain; i < p->task_count; i++)
            if (p->tasks[i].place == LKI_LANE && p->tasks[i].chain == chain) LKI_TRY(emit_task(e, thread, i, r));
    }
    return LK_OK;
}

static lk_status emit_lanes(emitter *e, int thread, int phase, int turn)
{
    lki_cpu_plan *p = e->plan;
    for (int lane = lki_cpu_lane_begin(p, thread); lane < lki_cpu_lane_begin(p, thread + 1); lane++)
        for (int i = 0; i < p->task_count; i++) {
            const lki_task *t = &p->tasks[i];
            if (t->phase != phase || t->turn != turn || t->place != LKI_LANE) continue;
            range r = rows_of_lanes(&p->graph->nodes[t->node].rows, lane, lane + 1);
            if (t->kind == LKI_TASK_PARTIAL) LKI_TRY(partial_sum(p, thread, i, &e->stacks[i][thread], lane));
            else if (t->chain == i) LKI_TRY(emit_chain(e, thread, i, lane));
            else if (t->chain < 0 && r.hi > r.lo) LKI_TRY(emit_task(e, thread, i, r));
        }
    return LK_OK;
}

static lk_status emit_own_rows(emitter *e, int thread, int phase, int turn)
{
    lki_cpu_plan *p = e->plan;
    for (int i = 0; i < p->task_count; i++) {
        const lki_task *t = &p->tasks[i];
        if (t->phase != phase || t->turn != turn || t->place != LKI_THREAD) continue;
        range r = rows_of_lanes(&p->graph->nodes[t->node].rows, lki_cpu_lane_begin(p, thread), lki_cpu_lane_begin(p, thread + 1));
        if (r.hi > r.lo) LKI_TRY(emit_task(e, thread, i, r));
    }
    return LK_OK;
}

static lk_status emit_columns(emitter *e, int thread, int phase)
{
    lki_cpu_plan *p = e->plan;
    for (int i = 0; i < p->task_count; i++) {
        const lki_task *t = &p->tasks[i];
        if (t->phase != phase || t->place != LKI_COLUMNS) continue;
        const lk_shape *s = &p->graph->values[p->graph->nodes[t->node].dst[0]].shape;
        const int64_t   N = s->dim[s->rank - 1], blocks = lki_ceil_div(N, COLUMN_BLOCK);
        const range     r = {.columns = {COLUMN_BLOCK * lki_share(blocks, thread, p->threads),
                                         lki_min(N, COLUMN_BLOCK * lki_share(blocks, thread + 1, p->threads))}};
        if (r.columns[1] > r.columns[0]) LKI_TRY(emit_task(e, thread, i, r));
    }
    return LK_OK;
}

/* The next task of a group, from i on; task_count: none. */
static int next_of_group(const lki_cpu_plan *p, int i, int phase, int group)
{
    while (i < p->task_count && !(p->tasks[i].phase == phase && p->tasks[i].place == LKI_TILES && p->tasks[i].group == group))
        i++;
    return i;
}

/* The tasks from i up to `end` over the piece r, one small piece after the other. */
static lk_status emit_walk(emitter *e, int thread, int i, int end, int phase, int group, range r)
{
    for (range small = r; small.from < r.to; small.from = small.to) {
        small.to = lki_min(small.from + LKI_PIECE, r.to);
        for (int t = i; t < end; t = next_of_group(e->plan, t + 1, phase, group))
            LKI_TRY(emit_task(e, thread, t, small));
    }
    return LK_OK;
}

static lk_status emit_piece(emitter *e, int thread, int phase, int group, range r)
{
    const lki_cpu_plan *p = e->plan;
    for (int i = group, end; i < p->task_count; i = end) {
        end = next_of_group(p, i + 1, phase, group);
        if (p->tasks[i].coarse) {
            LKI_TRY(emit_task(e, thread, i, r));
            continue;
        }
        while (end < p->task_count && !p->tasks[end].coarse)
            end = next_of_group(p, end + 1, phase, group);
        LKI_TRY(emit_walk(e, thread, i, end, phase, group, r));
    }
    return LK_OK;
}

static lk_status emit_group(emitter *e, int thread, int phase, int group)
{
    lki_cpu_plan *p = e->plan;
    const int64_t size = p->tasks[group].size, piece = p->tasks[group].piece, pieces = lki_ceil_div(size, piece);
    for (int64_t k = lki_share(pieces, thread, p->threads); k < lki_share(pieces, thread + 1, p->threads); k++) {
        const int64_t from = k * piece;
        LKI_TRY(emit_piece(e, thread, phase, group,
                           (range){.piece = true, .from = from, .to = lki_min(from + piece, size), .base = from}));
    }
    return LK_OK;
}

static lk_status emit_phase(emitter *e, int thread, int phase)
{
    lki_cpu_plan *p = e->plan;
    int           turns = 0;
    for (int i = 0; i < p->task_count; i++) {
        const lki_task *t = &p->tasks[i];
        if (t->phase != phase) continue;
        if (t->turn >= turns) turns = t->turn + 1;
        if (t->place == LKI_SOLO && t->thread == thread) LKI_TRY(emit_task(e, thread, i, (range){0}));
    }
    for (int turn = 0; turn < turns; turn++) {
        LKI_TRY(emit_lanes(e, thread, phase, turn));
        LKI_TRY(emit_own_rows(e, thread, phase, turn));
    }
    LKI_TRY(emit_columns(e, thread, phase));
    for (int i = 0; i < p->task_count; i++)
        if (p->tasks[i].phase == phase && p->tasks[i].place == LKI_TILES && p->tasks[i].group == i)
            LKI_TRY(emit_group(e, thread, phase, i));
    return LK_OK;
}

static bool is_exchange(const lki_cpu_plan *p, int phase)
{
    bool found = false;
    for (int i = 0; i < p->task_count; i++)
        found = found || (p->tasks[i].phase == phase && p->tasks[i].kind == LKI_TASK_EXCHANGE);
    return found;
}

static void end_part(lki_cpu_plan *p, int next_phase)
{
    for (int t = 0; t < p->threads; t++)
        p->part_end[p->parts * p->threads + t] = p->call_count[t];
    p->part_phase[++p->parts] = next_phase;
}

/* Barriers lie between the phases of a part. */
static lk_status emit_all(emitter *e)
{
    lki_cpu_plan *p = e->plan;
    for (int phase = 0; phase < p->phases; phase++) {
        const bool meets = phase > p->part_phase[p->parts] && !is_exchange(p, phase);
        for (int t = 0; t < p->threads; t++) {
            if (meets && !add_call(p, t)) return LK_ENOMEM; /* fn NULL: a barrier */
            LKI_TRY(emit_phase(e, t, phase));
        }
        if (is_exchange(p, phase)) end_part(p, phase + 1);
    }
    end_part(p, p->phases);
    return LK_OK;
}

/* Two numbers for each part: one more than there are exchanges, and the end of the last. */
static bool make_parts(lki_cpu_plan *p)
{
    int parts = 2;
    for (int i = 0; i < p->task_count; i++)
        parts += p->tasks[i].kind == LKI_TASK_EXCHANGE;
    p->part_phase = lki_zalloc_array(lki_size_mul(parts, p->threads + 1), sizeof *p->part_phase);
    if (p->part_phase) p->part_end = p->part_phase + parts;
    return p->part_phase;
}

/* Views of calls do not move any more, so scratch can be filled in: one block per thread, after its values. */
static lk_status give_scratch(lki_cpu_plan *p)
{
    size_t stride = lki_bytes_round_up(p->scratch_bytes, 4096);
    if (!stride) return LK_OK;
    p->scratch = lki_alloc_array(p->threads, stride);
    if (!p->scratch) return LK_ENOMEM;
    for (int t = 0; t < p->threads; t++)
        for (int i = 0; i < p->call_count[t]; i++)
            if (p->calls[t][i].args.scratch) p->calls[t][i].args.scratch = p->scratch + (size_t)t * stride;
    return LK_OK;
}

lk_status lki_cpu_emit(lki_cpu_plan *p)
{
    size_t    n = (size_t)p->threads;
    emitter   e = {p, lki_zalloc_array(p->task_count + 1, sizeof(stack *))};
    lk_status status = LK_OK;
    p->calls = lki_zalloc_array(n, sizeof *p->calls);
    p->call_count = lki_zalloc_array(n, 2 * sizeof *p->call_count);
    p->faults = lki_zalloc_array(p->graph->node_count + 1, sizeof *p->faults);
    if (!e.stacks || !p->calls || !p->call_count || !p->faults || !make_parts(p)) status = LK_ENOMEM;
    if (status == LK_OK) p->call_capacity = p->call_count + n;
    for (int t = 0; t < p->task_count && status == LK_OK; t++) {
        if (!lki_may_fault(&p->graph->nodes[p->tasks[t].node])) continue;
        if (!lki_grow((void **)&p->suspects, &p->suspect_capacity, p->suspect_count + 1, sizeof *p->suspects)) status = LK_ENOMEM;
        else p->suspects[p->suspect_count++] = (lki_suspect){p->tasks[t].node, p->tasks[t].phase};
    }
    for (int t = 0; t < p->task_count && status == LK_OK; t++)
        if (p->tasks[t].kind == LKI_TASK_PARTIAL && !(e.stacks[t] = lki_zalloc_array(n, sizeof(stack)))) status = LK_ENOMEM;
    if (status == LK_OK) status = emit_all(&e);
    if (status == LK_OK) status = give_scratch(p);
    for (int t = 0; t < p->task_count && e.stacks; t++)
        lki_release(e.stacks[t]);
    lki_release(e.stacks);
    return status;
}
