/* Running an op at once, on the calling thread, over the whole of its operands. Sums over rows still run lane by lane and up the
 * tree, so the bits are those of a compiled step.
 *
 * An op runs on this thread's device, an update on the device of its variables; operands in other memories are copied there. If a
 * device has no kernel, and for functions of the user, the op runs on the CPU. */
#include "op/run.h"
#include "core/log.h"
#include "core/memory.h"
#include "kernel/run.h"
#include "lane/lanes.h"

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

/* The device an op of this thread runs on. */
static lki_device *place(const lki_infer *f, lki_device *wanted)
{
    lki_slot slot = lki_op_line(f->op)->slot;
    if (lki_slot_can(wanted, slot, lki_kernel_type(f), f->mode == LKI_SUM ? f->rows.lanes : 0)) return wanted;
    lki_tell(LKI_TOPIC_DISPATCH, "%s %s: %s has no kernel for it, so the CPU runs it", lki_op_name(f->op),
             lk_dtype_name(lki_kernel_type(f)), wanted->name);
    return lki_device_cpu();
}

/* ---- kernels ---- */

/* `tree`: only the lanes of one subtree. */
static lk_status call_kernel(const lki_infer *f, lki_device *d, lki_args *a, const lki_subtree *tree)
{
    int64_t   bound[LKI_MAX_LANES + 1];
    lki_lanes lanes = {f->rows.lanes, bound};
    if (f->mode == LKI_SUM) {
        lki_lane_bounds(f->rows.global, f->rows.lanes, f->rows.first, f->rows.rows, f->rows.per_row, bound);
        if (tree) lanes = (lki_lanes){tree->width, bound + tree->lane};
        a->lanes = &lanes;
        a->longest = lki_lane_longest(f->rows.global, f->rows.lanes) * f->rows.per_row;
    }
    a->first = f->mode == LKI_EACH ? f->rows.first * f->rows.per_row : 0;
    a->attr = f->attr;
    lki_slot_call c = {lki_op_line(f->op)->slot, lki_kernel_type(f), lki_op_name(f->op), a, false};
    LKI_TRY(lki_slot_run(d, &c));
    return c.fault ? lki_fail_fault(f->op) : LK_OK;
}

/* ---- operands ---- */

/* A result computed from something pending is pending too. */
static int64_t work_of(const lki_infer *f, lki_device *d)
{
    int64_t work = 0;
    for (int i = 0; d->ops->given && i < f->nsrc; i++)
        if (lki_same_memory(f->src[i]->buffer->device, d)) work = lki_max(work, f->src[i]->buffer->work);
    return work == LKI_ALL_WORK ? d->ops->given(d) : work;
}

static bool view_on(lki_view *v, const lk_tensor *t, lki_device *d)
{
    *v = (lki_view){lki_data_on(t, d), &t->shape, t->dtype};
    return v->data != NULL;
}

static lk_status run_into(const lki_infer *f, lki_view *src, lk_tensor **dst, const lki_subtree *tree)
{
    lki_view    out[LKI_MAX_DST];
    lki_device *d = place(f, lki_device_current());
    for (int i = 0; i < f->nsrc; i++)
        if (!view_on(&src[i], f->src[i], d)) return lk_error_code();
    const int64_t work = work_of(f, d);
    for (int i = 0; i < f->ndst; i++) {
        dst[i] = lki_tensor_on(d, f->dtype[i > 0], &f->shape[i > 0]);
        if (lki_bad(dst[i])) return LK_ENOMEM;
        dst[i]->rows = f->rows;
        dst[i]->buffer->work = work;
        out[i] = (lki_view){dst[i]->data, &dst[i]->shape, dst[i]->dtype};
    }
    lki_args a = {.src = src, .dst = out, .nsrc = f->nsrc, .ndst = f->ndst, .lo = 0, .hi = lki_shape_size(&f->shape[0])};
    return call_kernel(f, d, &a, tree);
}

lk_status lki_run(const lki_infer *f, lk_tensor **dst)
{
    if (lki_op_line(f->op)->slot == LKI_K_none) { /* the same elements with another shape or meaning */
        dst[0] = lki_tensor_view(f->src[0], &f->shape[0]);
        if (lki_bad(dst[0])) return LK_ENOMEM;
        dst[0]->rows = f->rows;
        return LK_OK;
    }
    lki_view few[FEW], *src = f->nsrc <= FEW ? few : lki_alloc_array(f->nsrc, sizeof *src);
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

/* ---- updates ---- */

static lk_status update_on(const lki_infer *f, lki_device *d, const lki_view *var)
{
    lki_view src[FEW];
    int      reads = lki_reads_own_variable(f->op);
    if (reads) src[0] = var[0];
    for (int i = 0; i < f->nsrc; i++)
        if (!view_on(&src[i + reads], f->src[i], d)) return lk_error_code();
    lki_args a = {
        .src = src, .dst = var, .nsrc = f->nsrc + reads, .ndst = f->nvar, .lo = 0, .hi = lki_shape_size(&f->var[0]->shape)};
    return call_kernel(f, d, &a, NULL);
}

/* For variables on a card that has no kernel, or in several memories: updates copies, which are written back. Replicas may write
 * parts of one variable, so threads take turns. A variable's slots are written in its turn. */
static lk_status update_on_host(const lki_infer *f)
{
    lki_view  var[FEW] = {0};
    lk_status status = LK_OK;
    lki_turn_take(&f->var[0]->turn);
    for (int i = 0; i < f->nvar && status == LK_OK; i++) {
        lki_buffer *b = f->var[i]->buffer;
        var[i] = (lki_view){lki_alloc(b->bytes), &f->var[i]->shape, f->var[i]->dtype};
        status = var[i].data ? lki_buffer_read(b, var[i].data) : LK_ENOMEM;
    }
    if (status == LK_OK) status = update_on(f, lki_device_cpu(), var);
    for (int i = 0; i < f->nvar; i++) {
        if (status == LK_OK) status = lki_variable_fill(f->var[i], var[i].data);
        lki_release(var[i].data);
    }
    lki_turn_give(&f->var[0]->turn);
    return status;
}

/* All variables have storage, with their values in it if those are read. */
static lk_status have_storage(const lki_infer *f)
{
    for (int i = 0; i < f->nvar; i++)
        LKI_TRY(f->op == LKI_OP_assign ? lki_variable_room(f->var[i]) : lki_variable_settle(f->var[i]));
    return LK_OK;
}

static lk_status update(const lki_infer *f)
{
    lki_view    var[FEW];
    lki_device *home = f->var[0]->buffer->device,
               *null = lki_device_current()->kind == LKI_DEVICE_NULL ? lki_device_current() : NULL;
    bool together = true;
    LKI_TRY(have_storage(f));
    for (int i = 1; i < f->nvar; i++)
        together = together && lki_same_memory(home, f->var[i]->buffer->device);
    if (!together || place(f, home) != home) return update_on_host(f);
    for (int i = 0; i < f->nvar; i++) {
        void *storage = lki_variable_storage(f->var[i]);
        if (!storage) return LK_ENOMEM;
        var[i] = (lki_view){storage, &f->var[i]->shape, f->var[i]->dtype};
    }
    return update_on(f, null ? null : home, var);
}

lk_status lki_run_update(const lki_infer *f)
{
    const bool      waited = f->op == LKI_OP_assign && f->var[0]->waits;
    const lk_status status = update(f);
    if (status != LK_OK && waited) lki_variable_renew(f->var[0]);
    return status;
}
