/* Custom ops: a line of ops.inc that calls the caller's functions. */
#include "op/user.h"
#include "core/memory.h"
#include <lockstep/ops.h>
#include <string.h>

enum { MOST_INPUTS = 16 };

struct lk_op {
    lki_object object;
    lk_op_args set; /* its name is a copy */
};

static bool is_op(const char *call, const lk_op *op)
{
    if (lki_is_kind(op, LKI_KIND_OP)) return true;
    return lki_fail(LK_EINVAL, "%s: %s", call, op ? "not an op" : "the op is NULL"), false;
}

lk_op *lk_op_of_kw(lk_op_args a)
{
    if (!a.name || !*a.name) return lki_fail(LK_EINVAL, "lk_op_of: the name is missing"), NULL;
    if (!a.compute) return lki_fail(LK_EINVAL, "lk_op_of: \"%s\": compute is NULL", a.name), NULL;
    const int64_t inputs = lki_integer_or(a.inputs, 1);
    if (inputs < 1 || inputs > MOST_INPUTS)
        return lki_fail(LK_EINVAL, "lk_op_of: \"%s\": %lld inputs; there must be 1 to %d", a.name, (long long)inputs, MOST_INPUTS),
               NULL;
    lk_op *op = lki_object_new(sizeof *op, LKI_KIND_OP, LKI_LIVES_IN_POOL, NULL);
    char  *name = lki_strdup(a.name);
    if (!op || !name) return lki_release(name), lk_free(op), NULL;
    lki_retain(op); /* for ever */
    op->set = a;
    op->set.name = name;
    op->set.inputs = inputs;
    return op;
}

/* ---- running ---- */

/* What the kernel calls: the views of one call, as the public struct. */
static void run(const void *args, void *object)
{
    const lki_args *a = args;
    const lk_op    *op = object;
    const void     *in[MOST_INPUTS];
    lk_shape        shape[MOST_INPUTS];
    lk_dtype        dtype[MOST_INPUTS];
    for (int i = 0; i < a->nsrc; i++) {
        in[i] = a->src[i].data;
        shape[i] = *a->src[i].shape;
        dtype[i] = a->src[i].dtype;
    }
    lk_op_view view = {a->nsrc, in, shape, dtype, a->dst[0].data, *a->dst[0].shape, a->dst[0].dtype};
    op->set.compute(&view, op->set.user);
}

static lk_status shape_of(const lk_op *op, lk_tuple in, lk_shape *out)
{
    lk_shape shape[MOST_INPUTS];
    char     text[LKI_SHAPE_TEXT];
    for (int i = 0; i < in.count; i++)
        shape[i] = in.item[i]->shape;
    *out = shape[0];
    if (!op->set.shape) return LK_OK;
    lk_status status = op->set.shape(in.count, shape, out, op->set.user);
    if (status != LK_OK)
        return lk_failed()
                   ? status
                   : lki_fail(status, "op \"%s\" does not take inputs of %s", op->set.name, lki_shape_text(&shape[0], text));
    return lki_shape_valid(out)
               ? LK_OK
               : lki_fail(LK_ESHAPE, "op \"%s\": its shape function returned %s", op->set.name, lki_shape_text(out, text));
}

lk_tensor *lk_op_apply(lk_op *op, lk_tuple in)
{
    lki_attr attr;
    memset(&attr, 0, sizeof attr);
    if (!is_op("lk_op_call", op)) return &lki_poison;
    if (in.count != op->set.inputs)
        return lki_refuse(LK_EINVAL, "lk_op_call: op \"%s\" takes %d input%s, not %d", op->set.name, (int)op->set.inputs,
                          op->set.inputs == 1 ? "" : "s", in.count);
    for (int i = 0; i < in.count; i++) {
        if (!lki_usable(op->set.name, "an input", in.item[i])) return &lki_poison;
        if (lki_stands_for(in.item[i]))
            return lki_refuse(LK_EINVAL, "lk_op_call: op \"%s\": input %d is %s", op->set.name, i, lki_why_not_plain(in.item[i]));
    }
    if (shape_of(op, in, &attr.shape) != LK_OK) return &lki_poison;
    attr.dtype = in.item[0]->dtype;
    attr.user.run = run;
    attr.user.op = op;
    return lki_apply(LKI_OP_user, &attr, in.count, in.item, (lk_tensor *[1]){NULL});
}

/* ---- rules ---- */

bool lki_user_by_rows(const void *op) { return ((const lk_op *)op)->set.by_rows == LK_ON; }

void lki_user_gradient(lki_backward *b)
{
    const lk_op *op = b->attr->user.op;
    char         text[2][LKI_SHAPE_TEXT];
    if (!op->set.gradient || !b->dy[0]) return;
    lk_tuple dx = op->set.gradient((lk_tuple){b->nsrc, (lk_tensor **)b->src}, b->dst[0], b->dy[0], op->set.user);
    if (dx.count != b->nsrc) {
        if (!lk_failed())
            lki_fail(LK_EINVAL, "op \"%s\": its gradient function returned %d tensors for %d inputs", op->set.name, dx.count,
                     b->nsrc);
        return;
    }
    for (int i = 0; i < b->nsrc; i++) {
        if (!dx.item[i] || !b->need[i]) continue;
        if (!lki_bad(dx.item[i]) && !lki_shape_equal(&dx.item[i]->shape, &b->src[i]->shape)) {
            lki_fail(LK_ESHAPE, "op \"%s\": the gradient of input %d is %s; it should be %s", op->set.name, i,
                     lki_shape_text(&dx.item[i]->shape, text[0]), lki_shape_text(&b->src[i]->shape, text[1]));
            return;
        }
        b->dx[i] = dx.item[i];
    }
}
