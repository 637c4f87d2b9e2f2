/* The data of fit, evaluate and predict: datasets unchanged, arrays as batches of their rows, both distributed over the
 * replicas. */
#include "data/data.h"
#include "core/memory.h"
#include "fit/engine.h"
#include "op/gradient.h"
#include <math.h>

/* ---- arrays ---- */

static lk_tuple parts_of(lk_tensor *t) { return t->nest ? lk_nested(t) : LK_TUPLE(t); }

static lk_status rows_of(const lki_data_request *r, const char *name, lk_tensor *t, int64_t *rows)
{
    if (lki_bad(t)) return lki_poisoned_status(r->call);
    if (lki_stands_for(t)) return lki_fail(LK_EINVAL, "%s: %s is %s", r->call, name, lki_why_not_plain(t));
    if (t->shape.rank < 1) return lki_fail(LK_ESHAPE, "%s: %s is a scalar; it should be rows", r->call, name);
    if (*rows >= 0 && t->shape.dim[0] != *rows)
        return lki_fail(LK_ESHAPE, "%s: %s has %lld rows, x has %lld", r->call, name, (long long)t->shape.dim[0], (long long)*rows);
    *rows = t->shape.dim[0];
    return LK_OK;
}

typedef struct arrays {
    int        count;
    lk_tensor *item[2 * LKI_MOST_INPUTS + 1];
    int64_t    rows;
} arrays;

static lk_status add_arrays(const lki_data_request *r, const char *name, lk_tensor *t, int want, const char *what, arrays *a)
{
    lk_tuple part = parts_of(t);
    if (part.count != want)
        return lki_fail(LK_EINVAL, "%s: %s is %d tensor%s; the model has %d %s", r->call, name, part.count,
                        part.count == 1 ? "" : "s", want, what);
    for (int i = 0; i < part.count; i++) {
        LKI_TRY(rows_of(r, name, part.item[i], &a->rows));
        a->item[a->count++] = part.item[i];
    }
    return LK_OK;
}

/* Add the sample weights: one tensor for all outputs, or one for each. */
static lk_status add_weights(const lki_engine *e, const lki_data_request *r, arrays *a)
{
    const int count = parts_of(r->weight).count, outputs = e->model->outputs;
    if (count == 1 || count == outputs) return add_arrays(r, "sample_weight", r->weight, count, "outputs", a);
    return lki_fail(LK_EINVAL, "%s: sample_weight is %d tensors; give one, or one for each of the %d outputs", r->call, count,
                    outputs);
}

/* Keep the part first..last (0 to 1) of the rows of every array. */
static void cut(arrays *a, double first, double last)
{
    int64_t from = (int64_t)floor((double)a->rows * first), to = (int64_t)floor((double)a->rows * last);
    if (from == 0 && to == a->rows) return;
    for (int i = 0; i < a->count; i++) {
        lki_axes begin = {.count = a->item[i]->shape.rank}, size = {.count = a->item[i]->shape.rank};
        for (int k = 0; k < begin.count; k++)
            size.value[k] = -1;
        begin.value[0] = from;
        size.value[0] = to - from;
        a->item[i] = lki_slice(a->item[i], &begin, &size);
    }
    a->rows = to - from;
}

static bool has_labels(const lki_data_request *r) { return r->step != LKI_FIT_PREDICT; }

static lk_dataset *dataset_of_arrays(lki_engine *e, const lki_data_request *r)
{
    arrays  a = {.rows = -1};
    int64_t batch = r->batch_size;
    if (r->batch_size < 1)
        return lki_fail(LK_EINVAL, "%s: batch_size is %lld; it must be at least 1", r->call, (long long)r->batch_size), NULL;
    if (add_arrays(r, "x", r->x, e->model->inputs, "inputs", &a) != LK_OK) return NULL;
    if (has_labels(r) && !r->y) return lki_fail(LK_EINVAL, "%s: x is given without y", r->call), NULL;
    if (has_labels(r) && add_arrays(r, "y", r->y, e->model->outputs, "outputs", &a) != LK_OK) return NULL;
    if (r->weight && add_weights(e, r, &a) != LK_OK) return NULL;
    cut(&a, r->first, r->last);
    if (a.rows < 1) return lki_fail(LK_EINVAL, "%s: there are no rows", r->call), NULL;
    lk_dataset *d = lk_dataset_from_tensor_slices(lk_tuple_from(a.count, a.item));
    if (d && r->shuffle) d = lk_dataset_shuffle(d, a.rows);
    return d ? lk_dataset_batch(d, batch) : NULL;
}

/* ---- datasets ---- */

/* Check the components of elements: x.., y.., and weights, if any. */
static lk_status elements_fit(lki_engine *e, const lki_data_request *r, lk_dataset *d)
{
    const int       inputs = e->model->inputs, outputs = e->model->outputs;
    lk_element_spec spec = lk_dataset_element_spec(d);
    if (lk_failed()) return lk_error_code();
    if (!spec.count && !lk_failed()) return lki_fail(LK_EINVAL, "%s: the dataset is empty", r->call);
    int extra = spec.count - inputs - outputs;
    if (!has_labels(r) && spec.count >= inputs) return LK_OK;
    if (has_labels(r) && (extra == 0 || extra == 1 || (extra == outputs && outputs > 1))) {
        e->step[r->step].weights = extra;
        return LK_OK;
    }
    return lki_fail(
        LK_EINVAL,
        "%s: elements of the dataset have %d tensors; model \"%s\" wants %d input%s and %d label%s, and sample weights may follow",
        r->call, spec.count, e->model->name, inputs, inputs == 1 ? "" : "s", outputs, outputs == 1 ? "" : "s");
}

static lk_status batched(const lki_engine *e, const lki_data_request *r, lk_dataset *d)
{
    if (!e->model->shaped || e->model->form == LKI_OWN_MODEL) return LK_OK;
    lk_element_spec spec = lk_dataset_element_spec(d);
    if (spec.count < 1 || spec.shape[0].rank != e->model->input[0].row.rank) return LK_OK;
    return lki_fail(LK_ESHAPE, "%s: elements of the dataset are single rows; put them into batches with lk_dataset_batch()",
                    r->call);
}

static lk_dataset *dataset_of(lki_engine *e, const lki_data_request *r)
{
    if (r->dataset && (r->x || r->y || r->weight))
        return lki_fail(LK_EINVAL, "%s: a dataset brings its own labels and weights; x, y and sample_weight go with arrays only",
                        r->call),
               NULL;
    if (!r->dataset && !r->x && r->y) return lki_fail(LK_EINVAL, "%s: y is given without x", r->call), NULL;
    if (!r->dataset && !r->x)
        return lk_failed() ? NULL : (lki_fail(LK_EINVAL, "%s: no data is given: neither a dataset nor x", r->call), NULL);
    return r->dataset ? r->dataset : dataset_of_arrays(e, r);
}

lk_status lki_fit_data_of(lki_engine *e, const lki_data_request *r, lki_fit_data *out)
{
    lk_dataset *d = dataset_of(e, r);
    if (!d) return lk_failed() ? lk_error_code() : LK_ENOMEM;
    lk_strategy *over = lki_dataset_strategy(d);
    if (over && over != e->strategy)
        return lki_fail(LK_ESTATE, "%s: the dataset is distributed over %s, the model was made under %s", r->call, over->text,
                        e->strategy->text);
    LKI_TRY(elements_fit(e, r, d));
    if (!over) LKI_TRY(batched(e, r, d));
    out->dataset = over ? d : lk_distribute_dataset(e->strategy, d, .split = e->compiled->split);
    if (!out->dataset) return lk_failed() ? lk_error_code() : LK_ENOMEM;
    out->steps = lk_dataset_cardinality(out->dataset);
    if (out->steps == LK_INFINITE && r->limit <= 0)
        return lki_fail(LK_EINVAL, "%s: the dataset never ends; say how many steps with .%s", r->call, r->limit_name);
    return LK_OK;
}

int64_t lki_batch_rows(lk_tuple batch)
{
    const lk_tensor *t = batch.item[0];
    int64_t          rows = 0;
    if (!t->replicas) return t->shape.rank ? t->shape.dim[0] : 1;
    for (int i = 0; i < t->replicas->count; i++)
        rows += t->replicas->item[i]->shape.rank ? t->replicas->item[i]->shape.dim[0] : 1;
    return rows;
}
