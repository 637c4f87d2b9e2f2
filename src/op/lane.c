/* Lane rules: what the rows of the batch become in an op, and how the op may be divided (infer.h). Each rule is one function, named
 * in ops.inc. If rows can no longer be tracked, the result is LOCAL, and LOCKSTEP_VERBOSE=lanes reports it. */
#include "core/log.h"
#include "op/infer.h"
#include "op/origin.h"
#include "op/replica.h"
#include "op/user.h"

#define RULE(name) void lki_lane_##name(lki_infer *f)
#define LKI_OP(name, nsrc, ndst, shape, lane, grad, slot, text) lki_lane_fn lki_lane_##lane;
#include "op/ops.inc"
#undef LKI_OP

static bool is_rows(const lk_tensor *t) { return t->rows.kind == LKI_ROWS; }

static bool same_batch(const lki_rows *a, const lki_rows *b)
{
    return a->lanes == b->lanes && a->global == b->global && a->first == b->first && a->rows == b->rows &&
           a->per_row == b->per_row && a->own == b->own;
}

static void each(lki_infer *f, const lki_rows *rows, uint64_t cut)
{
    f->mode = LKI_EACH;
    f->rows = *rows;
    f->cut = cut;
}

static void sum(lki_infer *f, const lki_rows *rows, uint64_t cut)
{
    f->mode = LKI_SUM;
    f->rows = *rows;
    f->rows.kind = LKI_ROW_SUM;
    f->cut = cut;
}

/* No operand has rows, or they cannot be tracked: one run over everything. `linear`: a sum over rows stays one. */
static void whole(lki_infer *f, bool linear)
{
    lki_row_kind kind = LKI_UNIFORM;
    bool         lost = false;
    f->mode = LKI_WHOLE;
    f->cut = 0;
    f->rows = (lki_rows){0};
    for (int i = 0; i < f->nsrc; i++) {
        const lki_rows *r = &f->src[i]->rows;
        lost = lost || r->kind == LKI_ROWS;
        if (r->kind == LKI_LOCAL || r->kind == LKI_MIXED || r->kind == LKI_ROWS || (r->kind == LKI_ROW_SUM && !linear))
            kind = LKI_LOCAL;
        else if (r->kind == LKI_ROW_SUM && kind == LKI_UNIFORM) {
            kind = LKI_ROW_SUM;
            f->rows = *r;
        }
    }
    f->rows.kind = kind;
    if (lost)
        lki_tell(LKI_TOPIC_LANES,
                 "%s: rows of the batch cannot be tracked through this op; values computed from it are repeatable for a given "
                 "split only",
                 lki_op_name(f->op));
}

/* Element-wise with broadcasting: rows stay rows if they are the leading axis of the result. */
static void elementwise(lki_infer *f, bool linear)
{
    const lk_shape *out = &f->shape[0];
    const lki_rows *rows = NULL;
    uint64_t        cut = 0;
    for (int i = 0; i < f->nsrc; i++) {
        const lk_tensor *t = f->src[i];
        bool             leads = out->rank && t->shape.rank == out->rank && t->shape.dim[0] == out->dim[0];
        if (is_rows(t)) {
            if (!leads || (rows && !same_batch(rows, &t->rows))) {
                whole(f, linear);
                return;
            }
            rows = &t->rows;
        }
        if (leads && (is_rows(t) || out->dim[0] != 1)) cut |= 1ull << i;
    }
    if (rows) each(f, rows, cut);
    else whole(f, linear);
}

RULE(each) { elementwise(f, false); }

RULE(linear) /* f(a + b) = f(a) + f(b) in all operands together: a sum over rows stays one if every operand is */
{
    bool all = f->op != LKI_OP_cast || lki_is_float(f->dtype[0]) ||
               !lki_is_float(f->src[0]->dtype); /* rounding to integers is not linear */
    for (int i = 0; i < f->nsrc; i++)
        all = all && f->src[i]->rows.kind == LKI_ROW_SUM;
    elementwise(f, all);
}

RULE(scale) /* a product or quotient: linear in the first operand, and in the second of a product, if the other is uniform */
{
    bool first = f->src[1]->rows.kind == LKI_UNIFORM;
    bool second = f->op == LKI_OP_mul && f->src[0]->rows.kind == LKI_UNIFORM;
    elementwise(f, first || second);
}

RULE(whole) { whole(f, false); }

RULE(mark)
{
    int64_t count = f->shape[0].rank ? f->shape[0].dim[0] : 0;
    int64_t global = (int64_t)f->attr->num.a;
    each(f,
         &(lki_rows){.kind = LKI_ROWS,
                     .own = lki_replica_count() > 1, /* the others may mark something else */
                     .lanes = lk_lanes(),
                     .per_row = 1,
                     .global = global ? global : count,
                     .rows = count,
                     .total = count},
         1);
}

/* Operand 0 is divided, the others (weights) are not. */
RULE(first)
{
    for (int i = 1; i < f->nsrc; i++)
        if (is_rows(f->src[i])) {
            whole(f, false);
            return;
        }
    if (is_rows(f->src[0])) each(f, &f->src[0]->rows, 1);
    else whole(f, false);
}

/* All operands have the same leading axis and are divided together. */
RULE(together)
{
    const lki_rows *rows = NULL;
    for (int i = 0; i < f->nsrc; i++) {
        if (!is_rows(f->src[i])) continue;
        if (f->src[i]->shape.dim[0] != f->src[0]->shape.dim[0] || f->shape[0].rank == 0 ||
            (rows && !same_batch(rows, &f->src[i]->rows))) {
            whole(f, false);
            return;
        }
        rows = &f->src[i]->rows;
    }
    if (rows) each(f, rows, (1ull << f->nsrc) - 1);
    else whole(f, false);
}

/* Operands 0 and 1 have the same leading axis and are divided together, the others (weights) are not. */
RULE(pair)
{
    const lki_rows *rows = NULL;
    bool            fits = f->src[0]->shape.dim[0] == f->src[1]->shape.dim[0];
    for (int i = 0; i < f->nsrc; i++) {
        if (!is_rows(f->src[i])) continue;
        fits = fits && i < 2 && (!rows || same_batch(rows, &f->src[i]->rows));
        rows = &f->src[i]->rows;
    }
    if (rows && fits) each(f, rows, 3);
    else whole(f, false);
}

/* A sum over the rows of the first operand and of at least one other; all have the same leading axis. */
RULE(rowsum)
{
    bool fits = is_rows(f->src[0]), met = false;
    for (int i = 1; i < f->nsrc; i++) {
        if (!is_rows(f->src[i])) continue;
        fits = fits && same_batch(&f->src[0]->rows, &f->src[i]->rows);
        met = true;
    }
    if (fits && met) sum(f, &f->src[0]->rows, (1ull << f->nsrc) - 1);
    else whole(f, false);
}

/* A sum over the rows of all operands but the last, a matrix. */
RULE(dense_rows)
{
    const int last = f->nsrc - 1;
    bool      fits = is_rows(f->src[0]) && !is_rows(f->src[last]);
    for (int i = 1; i < last; i++)
        fits = fits && is_rows(f->src[i]) && same_batch(&f->src[0]->rows, &f->src[i]->rows);
    if (fits) sum(f, &f->src[0]->rows, (1ull << last) - 1);
    else whole(f, false);
}

RULE(sum)
{
    if (!is_rows(f->src[0])) whole(f, true);
    else if (f->attr->reduce.first == 0) sum(f, &f->src[0]->rows, 1);
    else each(f, &f->src[0]->rows, 1);
}

/* `linear`: a sum over rows stays one. */
static void along(lki_infer *f, bool keeps_leading_axis, bool linear)
{
    if (is_rows(f->src[0]) && keeps_leading_axis) each(f, &f->src[0]->rows, 1);
    else whole(f, linear);
}

RULE(reduce) { along(f, f->attr->reduce.first > 0, false); }

RULE(scan) { along(f, f->attr->scan.axis > 0, true); }

RULE(unstack) { along(f, f->attr->scan.axis > 0, true); }

RULE(last) { along(f, f->src[0]->shape.rank > 1, false); }

/* Two operands of one shape, along the last axis; linear in the first. */
RULE(last_two)
{
    if (f->src[0]->shape.rank > 1 && (is_rows(f->src[0]) || is_rows(f->src[1]))) lki_lane_together(f);
    else whole(f, f->src[1]->rows.kind == LKI_UNIFORM);
}

/* The operands of a gradient of layer_norm: all except gamma have the leading axis of dy. `gamma`: its index, or -1. */
static bool norm_rows(const lki_infer *f, int gamma, const lki_rows **rows)
{
    *rows = NULL;
    for (int i = 0; i < f->nsrc; i++) {
        if (!is_rows(f->src[i])) continue;
        if (i == gamma || f->src[0]->shape.rank < 2 || (*rows && !same_batch(*rows, &f->src[i]->rows))) return false;
        *rows = &f->src[i]->rows;
    }
    return *rows != NULL;
}

RULE(norm)
{
    if (f->src[0]->shape.rank > 1) lki_lane_first(f);
    else whole(f, false);
}

/* Linear in dy if the others are uniform. */
static void whole_norm(lki_infer *f)
{
    bool linear = true;
    for (int i = 1; i < f->nsrc; i++)
        linear = linear && f->src[i]->rows.kind == LKI_UNIFORM;
    whole(f, linear);
}

RULE(norm_x)
{
    const lki_rows *rows;
    if (norm_rows(f, 2, &rows)) each(f, rows, 1 | 2 | 8 | 16);
    else whole_norm(f);
}

RULE(norm_gamma)
{
    const lki_rows *rows;
    if (norm_rows(f, -1, &rows)) sum(f, rows, 15);
    else whole_norm(f);
}

/* Sums over the rows of x, and over those of dy and x. */
RULE(batch_sums)
{
    if (is_rows(f->src[0])) sum(f, &f->src[0]->rows, 1);
    else whole(f, false);
}

RULE(batch_grad_sums)
{
    const lk_tensor *dy = f->src[0], *x = f->src[1];
    bool             free = true;
    for (int i = 2; i < f->nsrc; i++)
        free = free && !is_rows(f->src[i]);
    if (is_rows(dy) && is_rows(x) && same_batch(&dy->rows, &x->rows) && free) sum(f, &x->rows, 3);
    else whole(f, false);
}

RULE(batch_grad_x)
{
    const lk_tensor *dy = f->src[0], *x = f->src[2];
    if (is_rows(dy) && is_rows(x) && same_batch(&dy->rows, &x->rows)) each(f, &x->rows, 5);
    else whole(f, false);
}

/* Statistics are those of the whole batch, the same on every replica; attr num.a: separate for each replica. */
RULE(moments)
{
    lki_lane_met(f);
    if (f->attr->num.a != 0 && lki_replica_count() > 1) f->rows.kind = LKI_LOCAL;
}

RULE(transpose) { along(f, f->attr->perm.axis[0] == 0, true); }

static bool keeps_leading(const lki_infer *f) { return f->shape[0].rank > 0 && f->shape[0].dim[0] == f->src[0]->shape.dim[0]; }

RULE(slice) { along(f, keeps_leading(f) && f->attr->slice.begin[0] == 0 && f->attr->slice.stride[0] == 1, true); }

RULE(unslice) { along(f, keeps_leading(f) && f->attr->slice.begin[0] == 0 && f->attr->slice.stride[0] == 1, true); }

RULE(pad)
{
    bool linear = f->op == LKI_OP_pad_grad || f->attr->pad.mode != LKI_PAD_CONSTANT || f->attr->pad.value == 0;
    along(f, keeps_leading(f) && f->attr->pad.before[0] == 0, linear);
}

RULE(expand)
{
    bool leads = f->shape[0].rank == f->src[0]->shape.rank && keeps_leading(f);
    if (is_rows(f->src[0]) && leads) each(f, &f->src[0]->rows, 1);
    else whole(f, true);
}

RULE(like)
{
    const lk_tensor *x = f->src[0], *like = f->src[1];
    bool             leads = x->shape.rank && x->shape.rank == like->shape.rank && x->shape.dim[0] == like->shape.dim[0] &&
                 (is_rows(x) || x->shape.dim[0] != 1);
    if (!is_rows(like) && !is_rows(x)) { /* of the other only the shape counts */
        f->mode = LKI_WHOLE;
        f->cut = 0;
        f->rows = x->rows;
        if (x->rows.kind == LKI_MIXED) f->rows.kind = LKI_LOCAL;
        return;
    }
    if (!is_rows(like) || (is_rows(x) && !(leads && same_batch(&x->rows, &like->rows)))) {
        whole(f, false);
        return;
    }
    each(f, &like->rows, leads ? 3 : 2);
}

RULE(reshape)
{
    const lk_tensor *x = f->src[0];
    if (!is_rows(x) || !f->shape[0].rank || (x->rows.rows ? f->shape[0].dim[0] % x->rows.rows : f->shape[0].dim[0])) {
        whole(f, true);
        return;
    }
    lki_rows rows = x->rows;
    rows.per_row = x->rows.rows ? f->shape[0].dim[0] / x->rows.rows : 1;
    each(f, &rows, 1);
}

RULE(concat)
{
    const lki_rows *rows = NULL;
    bool            fits = f->attr->scan.axis > 0;
    for (int i = 0; i < f->nsrc; i++)
        if (is_rows(f->src[i])) {
            fits = fits && (!rows || same_batch(rows, &f->src[i]->rows));
            rows = &f->src[i]->rows;
        }
    if (rows && fits) each(f, rows, ~0ull);
    else whole(f, false);
}

RULE(gather)
{
    const lk_tensor *x = f->src[0], *ids = f->src[1];
    if (f->attr->scan.axis == 0 && is_rows(ids) && !is_rows(x)) each(f, &ids->rows, 2);
    else if (f->attr->scan.axis > 0 && is_rows(x) && !is_rows(ids)) each(f, &x->rows, 1);
    else whole(f, false);
}

RULE(gather_grad)
{
    const lk_tensor *dy = f->src[0], *ids = f->src[1];
    if (f->attr->scan.axis == 0 && is_rows(dy) && is_rows(ids) && same_batch(&dy->rows, &ids->rows)) sum(f, &ids->rows, 3);
    else if (f->attr->scan.axis > 0 && is_rows(dy) && !is_rows(ids)) each(f, &dy->rows, 1);
    else whole(f, false);
}

/* Rows in, rows out, if the op declares that it works row by row; operands with another number of rows are passed to every call. */
RULE(user)
{
    const lki_rows *rows = NULL;
    uint64_t        cut = 0;
    bool            fits = f->shape[0].rank > 0 && lki_user_by_rows(f->attr->user.op);
    for (int i = 0; i < f->nsrc && fits; i++) {
        const lk_tensor *t = f->src[i];
        if (!is_rows(t)) continue;
        fits = t->shape.dim[0] == f->shape[0].dim[0] && (!rows || same_batch(rows, &t->rows));
        rows = &t->rows;
        cut |= 1ull << i;
    }
    if (rows && fits) each(f, rows, cut);
    else whole(f, false);
}

RULE(each_of_ids) { along(f, true, false); }

RULE(draw)
{
    if (f->nsrc == 2 && is_rows(f->src[1])) each(f, &f->src[1]->rows, 2);
    else whole(f, false);
}

/* [rows, k] . [k, n], batches of products whose first axis is rows, and the sum over rows a^T . b. */
RULE(matmul)
{
    const lk_tensor *a = f->src[0], *b = f->src[1];
    int              rank = f->shape[0].rank;
    bool             a_leads = a->shape.rank == rank && is_rows(a), b_leads = b->shape.rank == rank && is_rows(b);
    if (rank == 2) {
        if (a_leads && b_leads && f->attr->matmul.ta && !f->attr->matmul.tb && same_batch(&a->rows, &b->rows)) sum(f, &a->rows, 3);
        else if (a_leads && !is_rows(b) && !f->attr->matmul.ta) each(f, &a->rows, 1);
        else whole(f, false);
        return;
    }
    bool a_fits = a_leads ? a->shape.dim[0] == f->shape[0].dim[0] : !is_rows(a);
    bool b_fits = b_leads ? b->shape.dim[0] == f->shape[0].dim[0] : !is_rows(b);
    if ((!a_leads && !b_leads) || !a_fits || !b_fits || (a_leads && b_leads && !same_batch(&a->rows, &b->rows))) {
        whole(f, false);
        return;
    }
    bool cut_a = a->shape.rank == rank && a->shape.dim[0] == f->shape[0].dim[0] && (a_leads || a->shape.dim[0] != 1);
    bool cut_b = b->shape.rank == rank && b->shape.dim[0] == f->shape[0].dim[0] && (b_leads || b->shape.dim[0] != 1);
    each(f, a_leads ? &a->rows : &b->rows, (cut_a ? 1u : 0u) | (cut_b ? 2u : 0u));
}

RULE(update)
{
    f->mode = LKI_WHOLE;
    f->cut = 0;
    f->rows = (lki_rows){0};
}

/* A replica's share of a uniform value; for other values a quotient. */
RULE(share)
{
    lki_lane_scale(f);
    if (f->rows.kind == LKI_UNIFORM && f->mode == LKI_WHOLE) f->rows.kind = LKI_MIXED;
}

/* A value that replicas computed together is the same on all of them. */
RULE(met)
{
    f->mode = LKI_WHOLE;
    f->cut = 0;
    f->rows = (lki_rows){0};
}

/* Rows that are not the replica's lanes are one sum: otherwise several replicas would write one lane. */
RULE(lane_add)
{
    lki_lane_update(f);
    if (!is_rows(f->src[0]) || !lki_in_own_lanes(&f->src[0]->rows)) return;
    f->mode = LKI_SUM;
    f->rows = f->src[0]->rows;
    f->cut = 1;
}
