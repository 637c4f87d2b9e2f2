/* Variables: values that can be assigned. Storage never moves; tensors read from it move away before it is written (tensor.h). */
#include "core/dtype.h"
#include "core/memory.h"
#include "core/sha256.h"
#include "op/op.h"
#include "op/record.h"
#include <lockstep/ops.h>
#include <string.h>

lk_tensor *lki_variable_reader(lk_variable *v); /* tensor.c */

static void variable_destroy(void *object)
{
    lk_variable *v = object;
    if (v->buffer) lki_variable_storage(v); /* readers keep their value */
    lki_buffer_drop(v->buffer);
    lki_release(v->name);
}

static lk_variable *variable_object(const char *name, const lk_shape *shape, lk_dtype dtype, bool trainable)
{
    lk_variable *v = lki_object_new(sizeof *v, LKI_KIND_VARIABLE, LKI_LIVES_IN_POOL, variable_destroy);
    if (!v) return NULL;
    v->dtype = dtype;
    v->shape = *shape;
    v->trainable = trainable;
    v->name = lki_strdup(name);
    v->buffer = lki_buffer_new(lki_device_current(), (size_t)lki_shape_size(shape) * lk_dtype_bytes(dtype));
    if (v->name && v->buffer) return v;
    lk_free(v);
    return NULL;
}

lk_variable *lki_variable_new(const char *name, const lk_shape *shape, lk_dtype dtype, double fill, bool trainable)
{
    lk_variable *v = variable_object(name, shape, dtype, trainable);
    for (int64_t i = 0; v && i < lki_shape_size(shape); i++)
        lki_element_set(dtype, v->buffer->data, i, fill);
    return v;
}

lk_variable *lk_variable_kw(lk_variable_args args)
{
    if (!args.initial) lki_fail(LK_EINVAL, "lk_variable_of: the initial value is missing");
    if (lki_bad(args.initial)) return NULL;
    const void *data = lk_data(args.initial);
    if (!data) return NULL;
    bool         trainable = args.trainable != LK_OFF && lki_is_float(args.initial->dtype);
    lk_variable *v = variable_object(args.name ? args.name : "Variable", &args.initial->shape, args.initial->dtype, trainable);
    if (v) memcpy(v->buffer->data, data, v->buffer->bytes);
    return v;
}

lk_tensor *lk_read(lk_variable *v)
{
    if (!v) {
        lki_fail(LK_EINVAL, "lk_read: the variable is NULL");
        return &lki_poison;
    }
    lki_tracer *tracer = lki_tracer_current();
    lk_tensor  *t = tracer ? tracer->read(tracer, v) : lki_variable_reader(v);
    if (!lki_bad(t))
        for (lki_recorder *r = lki_recorders(); r; r = r->outer)
            r->read(r, v, t);
    return t;
}

static lk_status assign(lki_op op, lk_variable *v, lk_tensor *value)
{
    if (!v || !value) return lki_fail(LK_EINVAL, "lk_%s: the %s is NULL", lki_op_name(op), v ? "value" : "variable");
    if (lki_bad(value))
        return lki_poisoned_status(op == LKI_OP_assign ? "lk_assign" : op == LKI_OP_assign_add ? "lk_assign_add" : "lk_assign_sub");
    if (value->weak && value->dtype != v->dtype) value = lk_cast(value, v->dtype);
    if (lki_is_half(v->dtype) && op != LKI_OP_assign && !lki_bad(value) &&
        lki_shape_equal(&v->shape, &value->shape)) { /* no kernel adds them in place */
        value = op == LKI_OP_assign_add ? lk_add(lk_read(v), value) : lk_sub(lk_read(v), value);
        op = LKI_OP_assign;
    }
    return lki_update(op, NULL, 1, &value, 1, &v);
}

lk_status lk_assign(lk_variable *v, lk_tensor *value) { return assign(LKI_OP_assign, v, value); }

lk_status lk_assign_add(lk_variable *v, lk_tensor *value) { return assign(LKI_OP_assign_add, v, value); }

lk_status lk_assign_sub(lk_variable *v, lk_tensor *value) { return assign(LKI_OP_assign_sub, v, value); }

const char *lk_variable_name(const lk_variable *v) { return v ? v->name : ""; }

lk_shape lk_variable_shape(const lk_variable *v) { return v ? v->shape : (lk_shape){0}; }

lk_dtype lk_variable_dtype(const lk_variable *v) { return v ? v->dtype : LK_F32; }

int lk_variable_trainable(const lk_variable *v) { return v && v->trainable; }

/* ---- lists of variables ---- */

typedef struct list_object {
    lki_object   object;
    int          count;
    lk_variable *item[];
} list_object;

static void list_destroy(void *object)
{
    list_object *l = object;
    for (int i = 0; i < l->count; i++)
        lki_drop(l->item[i]);
}

lk_variables lk_variables_of(int count, lk_variable *const *one_based) { return lk_variables_from(count, one_based + 1); }

lk_variables lk_variables_from(int count, lk_variable *const *items)
{
    list_object *l = lki_object_new(sizeof *l + (size_t)(count > 0 ? count : 0) * sizeof l->item[0], LKI_KIND_TUPLE,
                                    LKI_LIVES_IN_STEP, list_destroy);
    if (l && (count < 0 || (count && !items)))
        lki_fail(LK_EINVAL, "lk_variables_from: %d variables from %s", count, items ? "a list" : "NULL");
    if (!l || count < 0 || (count && !items)) return (lk_variables){0};
    l->count = count;
    for (int i = 0; i < count; i++)
        l->item[i] = lki_retain(items[i]);
    return (lk_variables){count, l->item};
}

lk_digest lk_variables_digest(lk_variables v)
{
    lk_digest  digest;
    lki_sha256 sha;
    lki_sha256_begin(&sha);
    for (int i = 0; i < v.count; i++) {
        const lk_variable *x = v.item[i];
        if (!x) continue;
        int64_t head[2 + LK_MAX_RANK] = {x->dtype, x->shape.rank};
        for (int d = 0; d < x->shape.rank; d++)
            head[2 + d] = x->shape.dim[d];
        lki_sha256_add(&sha, x->name, strlen(x->name) + 1);
        lki_sha256_add(&sha, head, sizeof head);
        lki_sha256_add(&sha, x->buffer->data, x->buffer->bytes);
    }
    lki_sha256_end(&sha, digest.byte);
    return digest;
}

int lk_digest_equal(lk_digest a, lk_digest b) { return memcmp(a.byte, b.byte, sizeof a.byte) == 0; }

const char *lk_digest_text(lk_digest d, char text[65])
{
    static const char digit[] = "0123456789abcdef";
    for (int i = 0; i < 32; i++) {
        text[2 * i] = digit[d.byte[i] >> 4];
        text[2 * i + 1] = digit[d.byte[i] & 15];
    }
    text[64] = 0;
    return text;
}
