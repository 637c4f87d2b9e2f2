/* Where values of a replica come from; see origin.h. */
#include "op/origin.h"
#include "core/memory.h"
#include "lane/lanes.h"
#include "op/gradient.h"
#include "op/record.h"
#include "op/replica.h"
#include "op/run.h"
#include <lockstep/ops.h>

enum {
    DEEPEST = 4096,
    MOST_ROOTS = 24,
    MOST_SUMMED = 4
}; /* a value that is carried from step to step must not keep all of them; operands of a sum over rows */

void lki_origin_free(lki_origin *o)
{
    if (!o) return;
    for (int i = 0; i < o->nsrc; i++)
        lki_drop(o->src[i]);
    for (int i = 0; i < o->roots; i++)
        lki_drop(o->root[i].value);
    lki_release(o);
}

bool lki_is_uniform(const lk_tensor *t) { return t->rows.kind == LKI_UNIFORM || (t->origin && t->origin->uniform); }

/* ---- lanes ---- */

bool lki_has_its_lanes(const lki_rows *m, int id, int count, int *lo, int *hi)
{
    *lo = lki_lane_owner_begin(m->lanes, id, count);
    *hi = lki_lane_owner_begin(m->lanes, id + 1, count);
    if (m->own || *hi <= *lo) return false;
    int64_t first = lki_min(lki_lane_begin(m->global, m->lanes, *lo), m->total),
            end = lki_min(lki_lane_begin(m->global, m->lanes, *hi), m->total);
    return m->rows == end - first && (m->rows == 0 || m->first == first);
}

bool lki_in_own_lanes(const lki_rows *m)
{
    const lki_replica *r = lki_replica_current();
    int                lo, hi;
    return !r || r->count < 2 || lki_has_its_lanes(m, r->id, r->count, &lo, &hi);
}

/* ---- noting ---- */

static lki_origin *origin_new(int roots)
{
    lki_origin *o = lki_zalloc(lki_bytes_add(sizeof *o, lki_bytes_of(roots, sizeof o->root[0])));
    if (o) o->roots = roots;
    return o; /* without an origin the value is still right */
}

/* Rows begin .. begin + rows - 1 of an operand; an operand without rows has as many entries as the rows it is combined with. */
static lk_tensor *rows_of(lk_tensor *t, const lki_rows *met, int64_t begin, int64_t rows)
{
    const bool    own = t->rows.kind == LKI_ROWS;
    const int64_t per_row = own ? t->rows.per_row : met->rows ? t->shape.dim[0] / met->rows : 0;
    lki_axes      from = {t->shape.rank, {begin * per_row}}, size = {t->shape.rank, {rows * per_row}};
    for (int i = 1; i < t->shape.rank; i++)
        size.value[i] = t->shape.dim[i];
    lk_tensor *part = lki_slice(t, &from, &size);
    if (lki_bad(part) || !own) return part;
    part->rows = t->rows;
    part->rows.first += begin;
    part->rows.rows = rows;
    return part;
}

/* The sum over the lanes of one subtree: while traced, the same op on those rows alone. */
static lk_tensor *root_of(const lki_infer *f, const lki_subtree *tree)
{
    if (!lki_tracer_current()) return lki_run_lanes(f, tree->lane, tree->width);
    const lki_rows *m = &f->rows;
    lk_tensor      *src[MOST_SUMMED];
    int64_t         begin = lki_min(lki_lane_begin(m->global, m->lanes, tree->lane), m->total) - m->first;
    int64_t         end = lki_min(lki_lane_begin(m->global, m->lanes, tree->lane + tree->width), m->total) - m->first;
    for (int i = 0; i < f->nsrc; i++)
        src[i] = lki_is_cut(f->cut, i) ? rows_of(f->src[i], m, m->rows ? begin : 0, end - begin) : f->src[i];
    return lki_apply(f->op, f->attr, f->nsrc, src, NULL);
}

/* A sum over rows whose lanes are not a single subtree: one root for each. Not needed in a step whose replicas become one
 * device. */
static void note_roots(const lki_infer *f, lk_tensor *dst)
{
    lki_replica *r = lki_replica_current();
    lki_tracer  *tracer = lki_tracer_current();
    lki_subtree  tree[MOST_ROOTS + 1];
    int          lo, hi, count = lki_has_its_lanes(&f->rows, r->id, r->count, &lo, &hi) ? lki_lane_subtrees(lo, hi, tree) : 1;
    static _Thread_local bool inside; /* roots have no roots */
    bool        wanted = count > 1 && !inside && f->nsrc <= MOST_SUMMED && (dst->graph ? tracer && tracer->roots : !tracer);
    lki_origin *o = wanted ? origin_new(count) : NULL;
    if (!o) return;
    inside = true;
    lki_recording_pause();
    for (int i = 0; i < count; i++)
        o->root[i] = (lki_root){lki_retain(root_of(f, &tree[i])), tree[i].lane, tree[i].width};
    lki_recording_resume();
    inside = false;
    dst->origin = o;
}

/* Ops that are linear in their first operand when the others are uniform. */
static bool linear_in_first(lki_op op)
{
    switch (op) {
    case LKI_OP_neg:
    case LKI_OP_cast:
    case LKI_OP_identity:
    case LKI_OP_copy:
    case LKI_OP_stop_gradient:
    case LKI_OP_reshape:
    case LKI_OP_broadcast:
    case LKI_OP_transpose:
    case LKI_OP_slice:
    case LKI_OP_unslice:
    case LKI_OP_pad:
    case LKI_OP_pad_grad:
    case LKI_OP_reduce_sum:
    case LKI_OP_cumsum:
    case LKI_OP_relu_grad:
    case LKI_OP_leaky_relu_grad:
    case LKI_OP_sigmoid_grad:
    case LKI_OP_tanh_grad:
    case LKI_OP_softmax_grad:
    case LKI_OP_matmul:
    case LKI_OP_mul:
    case LKI_OP_div: return true;
    default: return false;
    }
}

static bool is_sum(lki_op op) { return op == LKI_OP_add || op == LKI_OP_sub; }

static bool linear_in_either(lki_op op) { return op == LKI_OP_mul || op == LKI_OP_matmul; }

/* True if the result is linear in what the tracked operands were computed from. */
static bool is_linear(const lki_infer *f)
{
    bool a = lki_is_tracked(f->src[0]), b = f->nsrc == 2 && lki_is_tracked(f->src[1]);
    if (f->op == LKI_OP_broadcast_like) return a; /* only the shape of the other is used */
    for (int i = 0; i < f->nsrc; i++)
        if (!lki_is_tracked(f->src[i]) && f->src[i]->rows.kind != LKI_UNIFORM) return false;
    if (is_sum(f->op)) return a || b;
    if (a && b) return false;
    if (f->op == LKI_OP_pad && f->attr->pad.mode == LKI_PAD_CONSTANT && f->attr->pad.value != 0) return false;
    return a ? linear_in_first(f->op) : b && linear_in_either(f->op);
}

static void note_op(const lki_infer *f, lk_tensor *dst)
{
    int depth = 1;
    for (int i = 0; i < f->nsrc; i++)
        if (f->src[i]->origin) depth = (int)lki_max(depth, f->src[i]->origin->depth + 1);
    lki_origin *o = depth <= DEEPEST ? origin_new(0) : NULL;
    if (!o) return;
    o->op = f->op;
    o->attr = *f->attr;
    o->nsrc = f->nsrc;
    if (f->op == LKI_OP_broadcast_like) { /* the same, without the tensor that only determined the shape */
        o->op = LKI_OP_broadcast;
        o->attr.shape = dst->shape;
        o->nsrc = 1;
    }
    o->uniform = true;
    o->depth = depth;
    for (int i = 0; i < o->nsrc; i++) {
        o->src[i] = lki_retain(f->src[i]);
        o->uniform = o->uniform && lki_is_uniform(f->src[i]);
    }
    dst->origin = o;
    if (dst->rows.kind != LKI_ROW_SUM) dst->rows.kind = LKI_MIXED;
}

void lki_origin_note(const lki_infer *f, lk_tensor *const *dst)
{
    if (!lki_replica_current() || !lki_is_float(f->dtype[0]) || f->nsrc < 1 || dst[0]->rows.kind == LKI_ROWS) return;
    if (f->mode == LKI_SUM) note_roots(f, dst[0]);
    else if (f->nsrc <= 2 && f->ndst == 1 && (dst[0]->rows.kind == LKI_MIXED || is_linear(f))) note_op(f, dst[0]);
}

lk_tensor *lki_share_of(lk_tensor *x, int count)
{
    if (lki_bad(x) || count == 1) return x;
    lk_tensor *n = lki_like(x, count);
    return x->rows.kind == LKI_UNIFORM ? lki_apply2(LKI_OP_share, NULL, x, n) : lk_div(x, n);
}
