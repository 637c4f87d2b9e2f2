/* evaluate, predict, and single batches. */
#include "core/memory.h"
#include "core/rounding.h"
#include "fit/engine.h"
#include "op/op.h"
#include <string.h>

lk_status lki_verbose_of(lk_integer option, int *verbose)
{
    const int64_t given = lki_integer_or(option, 1);
    if (given < LK_SILENT || given > 2) return lki_fail(LK_EINVAL, "verbose is %lld; it must be 0, 1 or 2", (long long)given);
    *verbose = given == LK_SILENT ? 0 : (int)given;
    return LK_OK;
}

static lk_status callbacks_of(const lk_callbacks *own, lk_integer verbose, lki_callback_list *list, lki_happening *h)
{
    list->item = lki_alloc_array(own->count + 1, sizeof *list->item);
    if (!list->item) return LK_ENOMEM;
    LKI_TRY(lki_verbose_of(verbose, &h->verbose));
    if (h->verbose && !(list->item[list->count++] = lki_callback_new(&lki_progress_kind))) return LK_ENOMEM;
    for (int i = 0; i < own->count; i++) {
        if (!lki_is_kind(own->item[i], LKI_KIND_CALLBACK)) return lki_fail(LK_EINVAL, "callback %d is not a callback", i);
        list->item[list->count++] = own->item[i];
    }
    return LK_OK;
}

/* ---- evaluate ---- */

static lk_logs evaluate(lki_engine *e, const lk_evaluate_args *a, void *pool)
{
    lki_fit_data      data;
    lki_callback_list list = {0};
    lki_happening     h = {.event = {.model = e->model}, .pool = pool};
    lki_data_request  r = {.call = "lk_model_evaluate",
                           .dataset = a->data,
                           .x = a->x,
                           .y = a->y,
                           .weight = a->sample_weight,
                           .batch_size = lki_integer_or(a->batch_size, LKI_BATCH_SIZE),
                           .step = LKI_FIT_TEST,
                           .limit = a->steps,
                           .limit_name = "steps",
                           .last = 1};
    bool good = lki_fit_data_of(e, &r, &data) == LK_OK && callbacks_of(&a->callbacks, a->verbose, &list, &h) == LK_OK &&
                lki_evaluate(e, &data, a->steps, &list, &h) == LK_OK;
    lki_release(list.item);
    return good && !lk_failed() ? e->evaluated : (lk_logs){0};
}

static bool steps_fit(const char *call, int64_t steps)
{
    if (steps >= 0) return true;
    lki_fail(LK_EINVAL, "%s: steps is %lld; it must be at least 1", call, (long long)steps);
    return false;
}

/* When a callback calls this, the counts of training are put aside meanwhile. */
lk_logs lk_model_evaluate_kw(lk_evaluate_args a)
{
    LKI_NEAREST;
    LKI_SCOPE_ERRORS;
    lk_logs     out = {0};
    lki_count   counted;
    void       *pool = lki_pool_current();
    lki_engine *e =
        steps_fit("lk_model_evaluate", a.steps)
            ? lki_engine_of(a.model, (lki_engine_request){.call = "lk_model_evaluate", .needs_loss = true, .inside = true})
            : NULL;
    if (!e) return out;
    const bool inside = e->model->uses_open > 1;
    if (!inside || lki_count_keep(e, &counted))
        LK_POOL
            out = evaluate(e, &a, pool);
    if (inside) lki_count_put_back(e, &counted);
    lki_engine_done(e);
    return out;
}

/* ---- predict ---- */

typedef struct pile { /* the rows of one output, collected batch by batch */
    lk_dtype dtype;
    lk_shape shape; /* dim[0]: rows so far */
    uint8_t *bytes;
    size_t   size, room;
} pile;

static lk_status pile_up(pile *p, const lk_tensor *t)
{
    char     a[LKI_SHAPE_TEXT], b[LKI_SHAPE_TEXT];
    lk_shape shape = t->shape;
    if (p->shape.rank && shape.rank == p->shape.rank) shape.dim[0] = p->shape.dim[0];
    if (p->shape.rank && !lki_shape_equal(&shape, &p->shape))
        return lki_fail(LK_ESHAPE,
                        "lk_model_predict: a batch gives %s, those before gave %s; rows of different sizes cannot be joined",
                        lki_shape_text(&t->shape, a), lki_shape_text(&p->shape, b));
    if (!p->shape.rank) {
        if (!t->shape.rank) return lki_fail(LK_ESHAPE, "lk_model_predict: the model gives a scalar, not rows");
        p->dtype = t->dtype;
        p->shape = t->shape;
        p->shape.dim[0] = 0;
    }
    size_t      bytes = lki_bytes_of(lki_shape_size(&t->shape), lk_dtype_bytes(t->dtype));
    const void *from = lk_data(t);
    if (!from) return lk_error_code();
    if (p->size + bytes > p->room) {
        size_t   room = 2 * p->room > p->size + bytes ? 2 * p->room : p->size + bytes;
        uint8_t *more = lki_alloc(room);
        if (!more) return LK_ENOMEM;
        if (p->size) memcpy(more, p->bytes, p->size);
        lki_release(p->bytes);
        p->bytes = more;
        p->room = room;
    }
    if (bytes) memcpy(p->bytes + p->size, from, bytes);
    p->size += bytes;
    p->shape.dim[0] += t->shape.dim[0];
    return LK_OK;
}

static lk_status pile_outputs(lki_engine *e, lk_tuple out, pile *p)
{
    for (int i = 0; i < e->model->outputs; i++) {
        lk_tuple part = lk_local_results(e->strategy, out.item[i]);
        for (int r = 0; r < part.count; r++) {
            if (lki_bad(part.item[r])) return lki_poisoned_status("lk_model_predict");
            LKI_TRY(pile_up(&p[i], part.item[r]));
        }
    }
    return LK_OK;
}

static lk_status predict_batches(lki_engine *e, lk_iterator *it, int64_t steps, const lki_callback_list *list, lki_happening *h,
                                 pile *p)
{
    for (h->event.batch = 0; steps <= 0 || h->event.batch < steps; h->event.batch++) {
        lk_tuple batch, out;
        if (!lk_next(it, &batch)) break;
        LKI_TRY(lki_callbacks_tell(list, LKI_HOOK_predict_batch_begin, h));
        LKI_TRY(lki_engine_step(e, LKI_FIT_PREDICT, (lk_tuple){e->model->inputs, batch.item}, &out));
        LKI_TRY(pile_outputs(e, out, p));
        h->rows += lki_batch_rows(batch);
        LKI_TRY(lki_callbacks_tell(list, LKI_HOOK_predict_batch_end, h));
    }
    h->event.batches = h->event.batch;
    return lk_failed() ? lk_error_code() : LK_OK;
}

static lk_status predict(lki_engine *e, const lk_predict_args *a, pile *p, void *pool)
{
    lki_fit_data      data;
    lki_callback_list list = {0};
    lki_happening     h = {.event = {.model = e->model}, .pool = pool};
    lki_data_request  r = {.call = "lk_model_predict",
                           .dataset = a->data,
                           .x = a->x,
                           .batch_size = lki_integer_or(a->batch_size, LKI_BATCH_SIZE),
                           .step = LKI_FIT_PREDICT,
                           .limit = a->steps,
                           .limit_name = "steps",
                           .last = 1};
    lk_status         status = lki_fit_data_of(e, &r, &data);
    if (status == LK_OK) status = callbacks_of(&a->callbacks, a->verbose, &list, &h);
    if (status == LK_OK) {
        h.event.batches = a->steps > 0 ? a->steps : data.steps;
        lk_iterator *it = lk_iterator_of(data.dataset);
        status = it ? lki_callbacks_tell(&list, LKI_HOOK_predict_begin, &h) : lk_error_code();
        if (status == LK_OK) status = predict_batches(e, it, a->steps, &list, &h, p);
        status = lki_callbacks_end(&list, LKI_HOOK_predict_end, &h, status);
    }
    lki_release(list.item);
    return status;
}

static lk_tensor *joined(const lki_engine *e, const pile *p)
{
    lk_tensor *out[LKI_MOST_INPUTS];
    for (int i = 0; i < e->model->outputs; i++) {
        if (!p[i].shape.rank) return lki_refuse(LK_EINVAL, "lk_model_predict: there are no rows");
        out[i] = lk_tensor_from(p[i].shape, p[i].dtype, p[i].bytes ? (const void *)p[i].bytes : "");
    }
    return e->model->outputs == 1 ? out[0] : lk_nest(lk_tuple_from(e->model->outputs, out));
}

lk_tensor *lk_model_predict_kw(lk_predict_args a)
{
    LKI_NEAREST;
    LKI_SCOPE_ERRORS;
    pile        p[LKI_MOST_INPUTS] = {0};
    lk_status   status = LK_OK;
    void       *pool = lki_pool_current();
    lki_engine *e = steps_fit("lk_model_predict", a.steps)
                        ? lki_engine_of(a.model, (lki_engine_request){.call = "lk_model_predict", .inside = true})
                        : NULL;
    if (!e) return &lki_poison;
    LK_POOL
        status = predict(e, &a, p, pool);
    lk_tensor *out = status == LK_OK && !lk_failed() ? joined(e, p) : &lki_poison;
    for (int i = 0; i < LKI_MOST_INPUTS; i++)
        lki_release(p[i].bytes);
    lki_engine_done(e);
    return out;
}

/* ---- single batches ---- */

/* Run one step on the batch, distributed over the replicas as a dataset of one element. */
static lk_status one_batch(lki_engine *e, const char *call, lk_tuple batch, lki_fit_step which, lk_tuple *out)
{
    lki_data_request r = {.call = call, .step = which, .last = 1};
    lki_fit_data     data;
    lk_tuple         element, result;
    if (batch.count < 1) return lki_fail(LK_EINVAL, "%s: the batch is empty; it should be x and y", call);
    for (int i = 0; i < batch.count; i++) {
        if (lki_bad(batch.item[i])) return lki_poisoned_status(call);
        if (!batch.item[i]->replicas && !batch.item[i]->shape.rank)
            return lki_fail(LK_ESHAPE, "%s: tensor %d of the batch is a scalar; it should be rows", call, i);
    }
    r.dataset = lk_dataset_from_tensors(batch.count && !batch.item[0]->replicas && batch.item[0]->shape.rank ? lk_rows_all(batch, 0)
                                                                                                             : batch);
    if (!r.dataset) return lk_error_code();
    LKI_TRY(lki_fit_data_of(e, &r, &data));
    lk_iterator *it = lk_iterator_of(data.dataset);
    if (!it || !lk_next(it, &element))
        return lk_failed() ? lk_error_code() : lki_fail(LK_EINVAL, "%s: the batch has no rows", call);
    if (which == LKI_FIT_PREDICT) element.count = e->model->inputs;
    if (lki_engine_step(e, which, element, &result) != LK_OK) return lki_explain_labels(e, element, NULL);
    if (out) *out = result;
    else if (lki_count_losses(e, result, lki_batch_rows(element), 0) != LK_OK || lki_count_settle(e) != LK_OK)
        return lki_explain_labels(e, element, NULL);
    return LK_OK;
}

static lk_logs on_batch(const char *call, lk_model *m, lk_tuple batch, lki_fit_step which)
{
    LKI_NEAREST;
    LKI_SCOPE_ERRORS;
    lk_status   status = LK_OK;
    lki_engine *e = lki_engine_of(m, (lki_engine_request){.call = call, .needs_loss = true, .trains = which == LKI_FIT_TRAIN});
    if (!e) return (lk_logs){0};
    LK_POOL {
        status = lki_count_reset(e);
        if (status == LK_OK) status = one_batch(e, call, batch, which, NULL);
        if (status == LK_OK) e->evaluated = lki_count_logs(e, true);
    }
    lki_engine_done(e);
    return status == LK_OK && !lk_failed() ? e->evaluated : (lk_logs){0};
}

lk_logs lk_model_train_on_batch(lk_model *m, lk_tuple batch)
{
    return on_batch("lk_model_train_on_batch", m, batch, LKI_FIT_TRAIN);
}
lk_logs lk_model_test_on_batch(lk_model *m, lk_tuple batch) { return on_batch("lk_model_test_on_batch", m, batch, LKI_FIT_TEST); }

lk_tensor *lk_model_predict_on_batch(lk_model *m, lk_tensor *x)
{
    LKI_SCOPE_ERRORS;
    if (!lki_usable("lk_model_predict_on_batch", "x", x)) return &lki_poison;
    if (!x->nest && !x->shape.rank) return lki_refuse(LK_ESHAPE, "lk_model_predict_on_batch: x is a scalar; it should be rows");
    int64_t rows = x->nest ? lk_dim(x->nest->item[0], 0) : lk_dim(x, 0);
    return lk_model_predict(m, .x = x, .batch_size = rows > 0 ? rows : 1, .verbose = LK_SILENT);
}
