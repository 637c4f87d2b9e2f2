/* Running an op at once, on the calling thread, over the whole of its operands. Sums over rows still go lane by lane and up the tree, so the
 * bits are those of a compiled step. */
#include "op/run.h"
#include "comm/lanes.h"
#include "core/log.h"
#include "core/memory.h"
#include "core/thread.h"

enum { FEW = 16 };

lk_dtype lki_kernel_type(const lki_infer *f)
{
    bool drawn = f->op == LKI_OP_random_uniform || f->op == LKI_OP_random_normal;
    return drawn ? f->dtype[0] : f->nsrc ? f->src[0]->dtype : f->var[0]->dtype;
}

lk_status lki_fail_fault(lki_op op)
{
    static const struct {
        lki_op      op;
        const char *what;
    } faults[] = {
        {LKI_OP_sparse_xent, "a label is outside 0 to the number of classes - 1"},
        {LKI_OP_sparse_xent_grad, "a label is outside 0 to the number of classes - 1"},
        {LKI_OP_gather, "an id is outside the axis it picks from"},
        {LKI_OP_gather_grad, "an id is outside the axis it picks from"},
        {LKI_OP_row_gather, "an id is outside the entries of a row"},
        {LKI_OP_row_gather_grad, "an id is outside the entries of a row"},
        {LKI_OP_scatter, "an id is outside the variable's leading axis, or an integer was divided by zero"},
    };
    const char *what = "an integer was divided by zero";
    for (int i = 0; i < LKI_COUNT(faults); i++)
        if (faults[i].op == op) what = faults[i].what;
    return lki_fail(LK_EINVAL, "%s: %s", lki_op_name(op), what);
}

/* `tree`: only the lanes of one subtree. */
static lk_status call_kernel(const lki_infer *f, lki_args *a, const lki_subtree *tree)
{
    lki_slot           slot = lki_op_line(f->op)->slot;
    lk_dtype           dtype = lki_kernel_type(f);
    const lki_kernels *k = lki_kernels_here();
    int                fault = 0;
    int64_t            bound[LKI_MAX_LANES + 1];
    lki_lanes          lanes = {f->rows.lanes, bound};
    if (lki_device_current()->kind == LKI_DEVICE_NULL) return LK_OK;
    if (f->mode == LKI_SUM) {
        lki_lane_bounds(f->rows.global, f->rows.lanes, f->rows.first, f->rows.rows, f->rows.per_row, bound);
        if (tree) lanes = (lki_lanes){tree->width, bound + tree->lane};
        a->lanes = &lanes;
    }
    a->first = f->mode == LKI_EACH ? f->rows.first * f->rows.per_row : 0;
    a->attr = f->attr;
    a->fault = &fault;
    size_t scratch = k->scratch[slot][dtype] ? k->scratch[slot][dtype](a) : 0;
    if (scratch && !(a->scratch = lki_alloc(scratch))) return LK_ENOMEM;
    lki_tell(LKI_TOPIC_DISPATCH, "%s %s: %s", lki_op_name(f->op), lk_dtype_name(dtype), k->variant[slot][dtype]);
    unsigned before = lki_fp_enter();
    k->fn[slot][dtype](a);
    lki_fp_leave(before);
    lki_release(a->scratch);
    return fault ? lki_fail_fault(f->op) : LK_OK;
}

static lki_view view_of(const lk_tensor *t) { return (lki_view){t->data, &t->shape, t->dtype}; }

static lk_status run_into(const lki_infer *f, lki_view *src, lk_tensor **dst, const lki_subtree *tree)
{
    lki_view out[LKI_MAX_DST];
    for (int i = 0; i < f->nsrc; i++)
        src[i] = view_of(f->src[i]);
    for (int i = 0; i < f->ndst; i++) {
        dst[i] = lki_tensor_new(f->dtype[i > 0], &f->shape[i > 0]);
        if (lki_bad(dst[i])) return LK_ENOMEM;
        dst[i]->rows = f->rows;
        out[i] = view_of(dst[i]);
    }
    lki_args a = {.src = src, .dst = out, .nsrc = f->nsrc, .ndst = f->ndst, .lo = 0, .hi = lki_shape_size(&f->shape[0])};
    return call_kernel(f, &a, tree);
}

lk_status lki_run(const lki_infer *f, lk_tensor **dst)
{
    if (lki_op_line(f->op)->slot == LKI_K_none) { /* the same elements under another shape or meaning */
        dst[0] = lki_tensor_view(f->src[0], &f->shape[0]);
        if (lki_bad(dst[0])) return LK_ENOMEM;
        dst[0]->rows = f->rows;
        return LK_OK;
    }
    lki_view few[FEW], *src = f->nsrc <= FEW ? few : lki_alloc((size_t)f->nsrc * sizeof *src);
    if (!src) return LK_ENOMEM;
    lk_status status = run_into(f, src, dst, NULL);
    if (src != few) lki_release(src);
    return status;
}

lk_tensor *lki_run_lanes(const lki_infer *f, int lane, int width)
{
    lki_view   src[FEW];
    lk_tensor *dst[LKI_MAX_DST];
    if (f->nsrc > FEW) return &lki_poison;
    return run_into(f, src, dst, &(lki_subtree){lane, width}) == LK_OK ? dst[0] : &lki_poison;
}

lk_status lki_run_update(const lki_infer *f)
{
    lki_view src[FEW], dst[FEW];
    int      reads = lki_reads_own_variable(f->op);
    for (int i = 0; i < f->nvar; i++) {
        void *storage = lki_variable_storage(f->var[i]);
        if (!storage) return LK_ENOMEM;
        dst[i] = (lki_view){storage, &f->var[i]->shape, f->var[i]->dtype};
    }
    if (reads) src[0] = dst[0];
    for (int i = 0; i < f->nsrc; i++)
        src[i + reads] = view_of(f->src[i]);
    lki_args a = {
        .src = src, .dst = dst, .nsrc = f->nsrc + reads, .ndst = f->nvar, .lo = 0, .hi = lki_shape_size(&f->var[0]->shape)};
    return call_kernel(f, &a, NULL);
}
