/* The shapes of a layer's results, found by calling it on stand-ins: tensors that have a shape and no elements. For kinds without
 * weights whose shape rule would repeat what their ops check anyway; `.output = lki_layer_infer` is all they need.
 *
 * Sizes that differ from call to call, and that of the batch, are stood in for by numbers. The layer is called twice with different
 * numbers, so a size that differs between the results is one that differs from call to call. Nothing is recorded meanwhile, and
 * variables are not read. */
#include "layer/layer.h"
#include "op/record.h"
#include <lockstep/strategy.h>

typedef struct stand_ins {
    int64_t    batch, size; /* that stand for the batch and for all other unknown sizes */
    lki_tracer tracer;
} stand_ins;

static const stand_ins FIRST = {.batch = 6, .size = 60}, SECOND = {.batch = 30, .size = 120};

static lk_status note_op(lki_tracer *t, const lki_infer *f, lk_tensor **dst)
{
    for (int i = 0; i < f->ndst; i++)
        if (lki_bad(dst[i] = lki_tensor_traced(f->dtype[i > 0], &f->shape[i > 0], &(lki_rows){0}, t, 0))) return LK_ENOMEM;
    return LK_OK;
}

static lk_status note_update(lki_tracer *t, const lki_infer *f)
{
    (void)t;
    return lki_fail(LK_ESTATE, "%s: a variable changes while shapes are inferred", lki_op_line(f->op)->name);
}

static lk_tensor *note_read(lki_tracer *t, lk_variable *v) { return lki_tensor_traced(v->dtype, &v->shape, &(lki_rows){0}, t, 0); }

static bool same(lki_tracer *t, lk_tensor *a, lk_tensor *b)
{
    (void)t;
    return a == b;
}

static lk_tensor *stand_in(stand_ins *s, const lk_shape *row, lk_dtype dtype)
{
    lk_shape shape = {.rank = row->rank + 1, .dim = {s->batch}};
    for (int i = 0; i < row->rank; i++)
        shape.dim[i + 1] = row->dim[i] < 0 ? s->size : row->dim[i];
    return lki_tensor_traced(dtype, &shape, &(lki_rows){0}, &s->tracer, 0);
}

/* The layer's results for these rows, as a list; empty and an error if it refuses them. */
static lk_tuple results_of(const lk_layer *l, const lk_shape *in, stand_ins s)
{
    lk_tensor       *x[LKI_MOST_INPUTS];
    lki_tracer      *outer = lki_tracer_current();
    lki_pass         pass = {.in = {0, x}};
    const lki_tracer tracer = {.op = note_op, .update = note_update, .read = note_read, .same = same};
    s.tracer = tracer;
    for (; in[pass.in.count].rank != -1; pass.in.count++)
        x[pass.in.count] = in[pass.in.count].rank == LKI_ABSENT ? NULL : stand_in(&s, &in[pass.in.count], LK_F32);
    lki_recording_pause();
    lki_tracer_set(&s.tracer);
    lk_tensor *y = l->kind->call((lk_layer *)l, x[0], &pass);
    lki_tracer_set(outer);
    lki_recording_resume();
    return lki_bad(y) ? (lk_tuple){0} : y->nest ? lk_nested(y) : lk_tuple_from(1, &y);
}

/* The row that gave results of these two shapes. */
static bool row_of(const lk_shape *a, const lk_shape *b, lk_shape *row)
{
    if (a->rank != b->rank || a->rank < 1 || a->dim[0] != FIRST.batch || b->dim[0] != SECOND.batch) return false;
    *row = (lk_shape){.rank = a->rank - 1};
    for (int i = 0; i < row->rank; i++)
        row->dim[i] = a->dim[i + 1] == b->dim[i + 1] ? a->dim[i + 1] : -1;
    return true;
}

/* Puts the layer's name in front of what an op said. */
static lk_status blame(const lk_layer *l, const lk_shape *in)
{
    lki_error_record e;
    lki_error_take(&e);
    if (e.code == LK_OK) return lki_layer_refuse(l, in, "they do not fit");
    return e.code == LK_ENOMEM ? lki_error_put(&e), e.code : lki_layer_refuse(l, in, "%s", e.text);
}

static lk_status infer(const lk_layer *l, const lk_shape *in, lk_shape *out)
{
    const lk_tuple a = results_of(l, in, FIRST), b = a.count ? results_of(l, in, SECOND) : (lk_tuple){0};
    if (!b.count) return blame(l, in);
    if (a.count != b.count || a.count != lki_layer_outputs(l)) return lki_layer_refuse(l, in, "it has %d results", a.count);
    for (int i = 0; i < a.count; i++)
        if (!row_of(&a.item[i]->shape, &b.item[i]->shape, &out[i]))
            return lki_layer_refuse(l, in, "result %d does not have as many rows as the batch", i);
    return LK_OK;
}

lk_status lki_layer_infer(const lk_layer *l, const lk_shape *in, lk_shape *out)
{
    LKI_SCOPE_ERRORS;
    lk_status status = LK_OK;
    LK_STEP
        status = infer(l, in, out);
    return status;
}

int lki_layer_count_results(const lk_layer *l, const lk_shape *in)
{
    LKI_SCOPE_ERRORS;
    int count = 0;
    LK_STEP {
        count = results_of(l, in, FIRST).count;
        if (!count) blame(l, in);
    }
    return count;
}
