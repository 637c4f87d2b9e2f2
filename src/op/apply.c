/* Applying an op: check, run or trace, record. The second of three stages from a public op to its kernel. */
#include "core/dtype.h"
#include "core/memory.h"
#include "core/names.h"
#include "op/infer.h"
#include "op/origin.h"
#include "op/record.h"
#include "op/replica.h"
#include "op/run.h"
#include <lockstep/ops.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Thread_local lki_recorder *recorders;
static _Thread_local int           paused;
static _Thread_local lki_tracer   *tracer;

void lki_recorder_push(lki_recorder *r)
{
    r->outer = recorders;
    recorders = r;
}

void lki_recorder_remove(lki_recorder *r)
{
    for (lki_recorder **at = &recorders; *at; at = &(*at)->outer)
        if (*at == r) {
            *at = r->outer;
            r->outer = NULL;
            return;
        }
}

lki_recorder *lki_recorders(void) { return paused ? NULL : recorders; }

void lki_recording_pause(void) { paused++; }

void lki_recording_resume(void) { paused--; }

lki_listeners lki_listeners_leave(void)
{
    lki_listeners before = {recorders, paused};
    recorders = NULL;
    paused = 0;
    return before;
}

void lki_listeners_return(const lki_listeners *before)
{
    recorders = before->recorders;
    paused = before->paused;
}

void lki_tracer_set(lki_tracer *t) { tracer = t; }

lki_tracer *lki_tracer_current(void) { return tracer; }

/* ---- the replica of this thread (replica.h) ---- */

static _Thread_local lki_replica       *replica;
static _Thread_local int                replicas = 1;
static _Thread_local void              *strategy;
static _Thread_local lki_variable_hook *variable_hook;

lki_replica *lki_replica_current(void) { return replica; }

void lki_replica_set(lki_replica *r)
{
    replica = r;
    replicas = r ? r->count : 1;
}

int lki_replica_count(void) { return replicas; }

void *lki_strategy_current(void) { return strategy; }

void lki_strategy_set(void *s) { strategy = s; }

lki_variable_hook *lki_variable_hook_current(void) { return variable_hook; }

void lki_variable_hook_set(lki_variable_hook *hook) { variable_hook = hook; }

/* ---- mistakes ---- */

lk_tensor *lki_refuse(lk_status code, const char *format, ...)
{
    char    text[LKI_ERROR_TEXT];
    va_list list;
    va_start(list, format);
    lki_text_vprint(text, sizeof text, 0, format, list);
    va_end(list);
    return lki_fail(code, "%s", text), &lki_poison;
}

bool lki_usable(const char *call, const char *name, const lk_tensor *t)
{
    if (!t) lki_fail(LK_EINVAL, "%s: %s is NULL", call, name);
    return !lki_bad(t);
}

const char *lki_why_not_plain(const lk_tensor *t)
{
    return t->nest
               ? "a tuple made by lk_nest(); take it apart with lk_nested()"
               : "a per-replica value: one tensor per replica, not a tensor; pass it to lk_run(), or make one tensor of it with "
                 "lk_reduce(), lk_gather_values() or lk_local_results()";
}

lk_status lki_poisoned_status(const char *call)
{
    if (lk_failed()) return lk_error_code();
    return lki_fail(lki_error_aside() ? lki_error_aside() : LK_EINVAL,
                    "%s: the tensor is poisoned: the op that should have made it failed, or it is past the end of its tuple", call);
}

/* ---- making operands fit ---- */

static const lki_attr no_attributes;

static lk_tensor *poison_all(lki_op op, lk_tensor **dst)
{
    for (int i = 0; dst && i < lki_op_line(op)->ndst; i++)
        dst[i] = &lki_poison;
    return &lki_poison;
}

void lki_poisoned_operand(const char *call, int operand)
{
    if (!lk_failed())
        lki_fail(LK_EINVAL,
                 "%s: operand %d is poisoned: it stands for an op that failed before, or for an item past the end of a tuple", call,
                 operand + 1);
}

static bool operands_good(lki_op op, int nsrc, lk_tensor *const *src)
{
    for (int i = 0; i < nsrc; i++)
        if (!src[i]) return lki_fail(LK_EINVAL, "%s: operand %d is NULL", lki_op_name(op), i + 1), false;
    for (int i = 0; i < nsrc; i++) {
        if (lki_bad(src[i])) return lki_poisoned_operand(lki_op_name(op), i), false;
        if (lki_stands_for(src[i]))
            return lki_fail(LK_EINVAL, "%s: operand %d is %s", lki_op_name(op), i + 1, lki_why_not_plain(src[i])), false;
        if (src[i]->graph && !tracer) {
            lki_fail(LK_ESTATE,
                     "%s: operand %d was made while a function was traced and has no value; return it from the function and use "
                     "the result of lk_call()",
                     lki_op_name(op), i + 1);
            return false;
        }
    }
    return true;
}

static lk_tensor *number_in(lk_tensor *t, lk_dtype dtype)
{
    const void *at = t->graph ? NULL : lki_host_data(t);
    double      value = at ? lki_element_get(t->dtype, at, 0) : 0;
    if (lki_is_float(dtype) || value == floor(value)) return lk_cast(t, dtype);
    lki_fail(LK_EDTYPE, "the number %g meets %s; lk_cast the other operand to a float first", value, lk_dtype_name(dtype));
    return &lki_poison;
}

/* A plain number takes the type of the other operand. */
static void adapt_numbers(int nsrc, lk_tensor **src)
{
    const lk_tensor *strong = NULL;
    for (int i = 0; i < nsrc && i < 2; i++)
        if (!src[i]->weak && !strong) strong = src[i];
    for (int i = 0; i < nsrc && i < 2; i++)
        if (src[i]->weak && strong && strong->dtype != src[i]->dtype && strong->dtype != LK_BOOL)
            src[i] = number_in(src[i], strong->dtype);
}

/* Sums run in f32: if a slot has no kernel for f16 and bf16, operands are widened and results rounded. Both casts are ops, so
 * gradients pass through them. */
static bool wants_widening(lki_op op, int nsrc, lk_tensor *const *src)
{
    lki_slot slot = lki_op_line(op)->slot;
    return nsrc && lki_is_half(src[0]->dtype) && slot != LKI_K_none && !lki_kernels_here()->fn[slot][src[0]->dtype];
}

static lk_tensor *apply_widened(lki_op op, const lki_attr *attr, int nsrc, lk_tensor *const *src, lk_tensor **dst)
{
    lk_dtype    narrow = src[0]->dtype;
    lk_tensor **wide LKI_RELEASED = lki_alloc_array(nsrc, sizeof *wide);
    if (!wide) return poison_all(op, dst);
    for (int i = 0; i < nsrc; i++)
        wide[i] = src[i]->dtype == narrow ? lk_cast(src[i], LK_F32) : src[i];
    lk_tensor *out[LKI_MAX_DST] = {0};
    lki_apply(op, attr, nsrc, wide, out);
    for (int i = 0; i < lki_op_line(op)->ndst; i++) {
        if (!lki_bad(out[i]) && out[i]->dtype == LK_F32) out[i] = lk_cast(out[i], narrow);
        if (dst) dst[i] = out[i];
    }
    return out[0];
}

/* A mirrored value is replaced by its first copy. */
static bool any_mirrored(int nsrc, lk_tensor *const *src)
{
    for (int i = 0; i < nsrc; i++)
        if (src[i] != lki_plain(src[i])) return true;
    return false;
}

static lk_tensor *apply_plain(lki_op op, const lki_attr *attr, int nsrc, lk_tensor *const *src, lk_tensor **dst)
{
    lk_tensor **plain LKI_RELEASED = lki_alloc_array(nsrc, sizeof *plain);
    if (!plain) return poison_all(op, dst);
    for (int i = 0; i < nsrc; i++)
        plain[i] = lki_plain(src[i]);
    return lki_apply(op, attr, nsrc, plain, dst);
}

/* ---- to tensors ---- */

/* While tracing, an op whose operands are all constants runs at once: its result is a constant of the graph. */
static bool is_traced(int nsrc, lk_tensor *const *src)
{
    for (int i = 0; i < nsrc; i++)
        if (src[i]->graph) return true;
    return false;
}

lk_tensor *lki_apply(lki_op op, const lki_attr *attr, int nsrc, lk_tensor *const *src, lk_tensor **dst)
{
    lk_tensor *out[LKI_MAX_DST] = {0}, *pair[4];
    if (!attr) attr = &no_attributes;
    if (any_mirrored(nsrc, src)) return apply_plain(op, attr, nsrc, src, dst);
    if (!operands_good(op, nsrc, src)) return poison_all(op, dst);
    if (nsrc >= 2 && nsrc <= 4 && (src[0]->weak || src[1]->weak)) {
        memcpy(pair, src, (size_t)nsrc * sizeof *pair);
        adapt_numbers(nsrc, pair);
        if (!operands_good(op, nsrc, pair)) return poison_all(op, dst);
        src = pair;
    }
    if (wants_widening(op, nsrc, src)) return apply_widened(op, attr, nsrc, src, dst);

    lki_infer f = {.op = op, .attr = attr, .nsrc = nsrc, .src = src};
    if (lki_infer_op(&f) != LK_OK) return poison_all(op, dst);
    lk_status status = tracer && is_traced(nsrc, src) ? tracer->op(tracer, &f, out) : lki_run(&f, out);
    if (status != LK_OK) return poison_all(op, dst);
    if (lki_replica_count() > 1) lki_origin_note(&f, out);
    for (lki_recorder *r = lki_recorders(); r; r = r->outer)
        r->op(r, &f, out);
    for (int i = 0; dst && i < f.ndst; i++)
        dst[i] = out[i];
    return out[0];
}

lk_tensor *lki_apply1(lki_op op, const lki_attr *attr, lk_tensor *a)
{
    return lki_apply(op, attr, 1, (lk_tensor *const[]){a}, NULL);
}

lk_tensor *lki_apply2(lki_op op, const lki_attr *attr, lk_tensor *a, lk_tensor *b)
{
    return lki_apply(op, attr, 2, (lk_tensor *const[]){a, b}, NULL);
}

lk_tensor *lki_apply3(lki_op op, const lki_attr *attr, lk_tensor *a, lk_tensor *b, lk_tensor *c)
{
    return lki_apply(op, attr, 3, (lk_tensor *const[]){a, b, c}, NULL);
}

/* ---- to variables ---- */

lk_status lki_update(lki_op op, const lki_attr *attr, int nsrc, lk_tensor *const *src, int nvar, lk_variable *const *var)
{
    lki_infer f = {.op = op, .attr = attr ? attr : &no_attributes, .nsrc = nsrc, .src = src, .nvar = nvar, .var = var};
    if (!operands_good(op, nsrc, src)) return lki_poisoned_status(lki_op_name(op));
    for (int i = 0; i < nvar; i++)
        if (!var[i]) return lki_fail(LK_EINVAL, "%s: variable %d is NULL", lki_op_name(op), i + 1);
    LKI_TRY(lki_infer_op(&f));
    for (int i = 0; i < nvar && tracer; i++)
        LKI_TRY(lki_variable_settle(var[i])); /* plans point into its storage */
    return tracer ? tracer->update(tracer, &f) : lki_run_update(&f);
}
