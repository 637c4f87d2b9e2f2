/* Shadows that make sums over replicas exact; see parts.h. */
#include "op/parts.h"
#include "comm/lanes.h"
#include "core/memory.h"
#include "op/gradient.h"
#include "op/record.h"
#include "op/replica.h"
#include "op/run.h"
#include <lockstep/ops.h>

static _Thread_local bool following; /* shadows have no shadows */

void lki_parts_drop(lki_parts *p)
{
    if (!p || __atomic_sub_fetch(&p->refs, 1, __ATOMIC_ACQ_REL) > 0) return;
    for (int i = 0; i < p->count; i++)
        lki_drop(p->part[i].value);
    lki_release(p);
}

static void give(lk_tensor *t, int count, const lki_part *part)
{
    lki_parts *p = lki_alloc(sizeof *p + (size_t)count * sizeof *part);
    if (!p) return; /* without shadows the value is still right */
    p->refs = 1;
    p->count = count;
    bool uniform = false;
    for (int i = 0; i < count; i++) {
        p->part[i] = part[i];
        lki_retain(part[i].value);
        uniform = uniform || !part[i].width;
    }
    lki_parts_drop(t->parts);
    t->parts = p;
    if (uniform) t->rows.kind = LKI_MIXED;
}

bool lki_is_uniform(const lk_tensor *t)
{
    if (t->rows.kind == LKI_UNIFORM) return true;
    return t->rows.kind == LKI_MIXED && t->parts && t->parts->count == 1 && !t->parts->part[0].width;
}

/* ---- what a tensor is made of ---- */

static lk_tensor *times(lk_tensor *t, int count) { return lk_mul(t, lki_like(t, count)); }

/* Are these just the rows of the replica's lanes? Else (every replica has the whole batch, say, or one it marked itself) they are a batch of its own. */
static bool has_its_lanes(const lki_rows *m, int id, int count, int *lo, int *hi)
{
    *lo = lki_lane_owner_begin(m->lanes, id, count);
    *hi = lki_lane_owner_begin(m->lanes, id + 1, count);
    if (m->own || *hi <= *lo) return false;
    int64_t first = lki_min(lki_lane_begin(m->global, m->lanes, *lo), m->total), end = lki_min(lki_lane_begin(m->global, m->lanes, *hi), m->total);
    return m->rows == end - first && (m->rows == 0 || m->first == first);
}

int lki_parts_of(lk_tensor *t, int id, int count, lki_part *out)
{
    if (t->parts) {
        for (int i = 0; i < t->parts->count; i++)
            out[i] = t->parts->part[i];
        return t->parts->count;
    }
    if (t->rows.kind == LKI_UNIFORM) {
        out[0] = (lki_part){times(t, count), 0, 0};
        return 1;
    }
    if (t->rows.kind != LKI_ROW_SUM) return 0;
    int lo, hi;
    out[0] = has_its_lanes(&t->rows, id, count, &lo, &hi) ? (lki_part){t, lo, hi - lo} : (lki_part){t, -1, 1};
    return 1;
}

/* ---- sums over rows whose lanes are no single subtree ---- */

static void roots_of_sum(const lki_infer *f, lk_tensor *dst)
{
    lki_replica *r = lki_replica_current();
    lki_subtree  tree[LKI_MOST_PARTS + 1];
    lki_part     part[LKI_MOST_PARTS + 1];
    int          lo, hi, count = has_its_lanes(&f->rows, r->id, r->count, &lo, &hi) ? lki_lane_subtrees(lo, hi, tree) : 1;
    if (count < 2 || dst->graph) return;
    for (int i = 0; i < count; i++) {
        lk_tensor *root = lki_run_lanes(f, tree[i].lane, tree[i].width);
        if (lki_bad(root)) return;
        part[i] = (lki_part){root, tree[i].lane, tree[i].width};
    }
    give(dst, count, part);
}

/* ---- linear ops ---- */

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
    case LKI_OP_broadcast_like:
    case LKI_OP_transpose:
    case LKI_OP_slice:
    case LKI_OP_unslice:
    case LKI_OP_pad:
    case LKI_OP_pad_grad:
    case LKI_OP_reduce_sum:
    case LKI_OP_relu_grad:
    case LKI_OP_leaky_relu_grad:
    case LKI_OP_sigmoid_grad:
    case LKI_OP_tanh_grad:
    case LKI_OP_div: return true;
    default: return false;
    }
}

static void follow_one(const lki_infer *f, int which, lk_tensor *dst)
{
    lki_replica *r = lki_replica_current();
    lki_part     part[LKI_MOST_PARTS];
    lk_tensor   *src[2] = {f->src[0], f->nsrc > 1 ? f->src[1] : NULL};
    for (int i = 0; i < f->nsrc; i++)
        if (i != which && (f->src[i]->rows.kind != LKI_UNIFORM || f->src[i]->parts)) return;
    int count = lki_parts_of(f->src[which], r->id, r->count, part);
    for (int i = 0; i < count; i++) {
        src[which] = part[i].value;
        part[i].value = lki_apply(f->op, f->attr, f->nsrc, src, NULL);
        if (lki_bad(part[i].value)) return;
    }
    if (count) give(dst, count, part);
}

static lk_tensor *widened(lk_tensor *t, const lk_shape *shape)
{
    return lki_shape_equal(&t->shape, shape) ? t : lk_broadcast_to(t, *shape);
}

/* a + b or a - b: parts of the same subtree, and uniform parts, meet. */
static void follow_sum(const lki_infer *f, lk_tensor *dst)
{
    lki_replica *r = lki_replica_current();
    lki_part     a[LKI_MOST_PARTS], b[LKI_MOST_PARTS], out[2 * LKI_MOST_PARTS];
    int          na = lki_parts_of(f->src[0], r->id, r->count, a), nb = lki_parts_of(f->src[1], r->id, r->count, b), n = 0;
    if (!na || !nb) return;
    for (int i = 0; i < na; i++) {
        out[n] = a[i];
        int j = 0;
        while (j < nb && (b[j].lane != a[i].lane || b[j].width != a[i].width))
            j++;
        if (j < nb) {
            out[n].value = lki_apply2(f->op, f->attr, a[i].value, b[j].value);
            b[j] = b[--nb];
        }
        out[n].value = widened(out[n].value, &f->shape[0]);
        n++;
    }
    for (int j = 0; j < nb; j++) {
        out[n] = b[j];
        out[n].value = widened(f->op == LKI_OP_sub ? lk_neg(b[j].value) : b[j].value, &f->shape[0]);
        n++;
    }
    for (int i = 0; i < n; i++)
        if (lki_bad(out[i].value)) return;
    if (n <= LKI_MOST_PARTS) give(dst, n, out);
}

static bool sums_with_uniform(const lki_infer *f)
{
    lki_row_kind a = f->src[0]->rows.kind, b = f->src[1]->rows.kind;
    bool         row_a = a == LKI_ROW_SUM || a == LKI_MIXED, row_b = b == LKI_ROW_SUM || b == LKI_MIXED;
    return (row_a && b == LKI_UNIFORM) || (row_b && a == LKI_UNIFORM);
}

void lki_parts_follow(const lki_infer *f, lk_tensor *const *dst)
{
    bool any = false;
    if (following || !lki_replica_current() || !lki_is_float(f->dtype[0])) return;
    for (int i = 0; i < f->nsrc && i < 2; i++)
        any = any || f->src[i]->parts;
    if (!any && f->mode != LKI_SUM && f->op != LKI_OP_share && f->op != LKI_OP_add && f->op != LKI_OP_sub) return;
    following = true;
    lki_recording_pause();
    if (f->op == LKI_OP_share) {
        if (dst[0]->rows.kind == LKI_MIXED) give(dst[0], 1, &(lki_part){f->src[0], 0, 0});
    } else if (f->mode == LKI_SUM) roots_of_sum(f, dst[0]);
    else if (f->nsrc == 2 && (f->op == LKI_OP_add || f->op == LKI_OP_sub)) {
        if (any || sums_with_uniform(f)) follow_sum(f, dst[0]);
    } else if (any && f->op == LKI_OP_mul) follow_one(f, f->src[0]->parts ? 0 : 1, dst[0]);
    else if (any && f->nsrc <= 2 && linear_in_first(f->op) && f->src[0]->parts && f->mode == LKI_WHOLE) follow_one(f, 0, dst[0]);
    lki_recording_resume();
    following = false;
}

lk_tensor *lki_share_of(lk_tensor *x, int count)
{
    if (lki_bad(x) || count == 1) return x;
    lk_tensor *n = lki_like(x, count);
    return x->rows.kind == LKI_UNIFORM ? lki_apply2(LKI_OP_share, NULL, x, n) : lk_div(x, n);
}
