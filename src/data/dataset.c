/* Nodes: making them, and their properties that are known without reading elements. */
#include "core/memory.h"
#include "core/random.h"
#include "data/data.h"
#include "dist/device.h"

static void destroy(void *object)
{
    lk_dataset *d = object;
    if (d->ops->destroy) d->ops->destroy(d);
    for (int i = 0; i < d->inputs; i++)
        lki_drop(d->input[i]);
    lki_release(d->input);
    lki_names_drop(d->classes);
}

static void follow_first_input(lk_dataset *d)
{
    const lk_dataset *first = d->input[0];
    d->batching = first->batching;
    d->global = first->global;
    d->exact = first->exact;
}

void *lki_dataset_new(const lki_dataset_ops *ops, size_t bytes, int inputs, lk_dataset *const *input)
{
    lk_dataset *d = lki_object_new(bytes, LKI_KIND_OTHER, LKI_LIVES_IN_POOL, destroy);
    if (!d) return NULL;
    d->ops = ops;
    d->input = inputs ? lki_alloc_array(inputs, sizeof *input) : NULL;
    if (inputs && !d->input) return lk_free(d), NULL;
    for (; d->inputs < inputs; d->inputs++)
        d->input[d->inputs] = lki_retain(input[d->inputs]);
    if (inputs) follow_first_input(d);
    return d;
}

bool lki_is_dataset(const void *object)
{
    const lki_object *o = object;
    return lki_is_kind(object, LKI_KIND_OTHER) && o->destroy == destroy;
}

bool lki_dataset_usable(const char *call, const lk_dataset *d)
{
    if (!d) lki_fail(LK_EINVAL, "%s: the dataset is NULL", call);
    else if (!lki_is_dataset(d)) lki_fail(LK_EINVAL, "%s: not a dataset", call);
    else if (d->distributed)
        lki_fail(LK_EINVAL, "%s: a distributed dataset can only be iterated; apply operations before lk_distribute_dataset()",
                 call);
    else return true;
    return false;
}

uint64_t lki_mix(uint64_t a, uint64_t b)
{
    lki_philox r = lki_philox_block(a, b, 0x6461746173657473);
    return (uint64_t)r.word[1] << 32 | r.word[0];
}

/* ---- cardinality ---- */

int64_t lk_dataset_cardinality(const lk_dataset *d)
{
    if (!lki_is_dataset(d))
        return lki_fail(LK_EINVAL, "lk_dataset_cardinality: %s", d ? "not a dataset" : "the dataset is NULL"), LK_UNKNOWN;
    return d->ops->cardinality ? d->ops->cardinality(d) : lk_dataset_cardinality(d->input[0]);
}

/* ---- classes ---- */

lk_names lk_class_names(const lk_dataset *d)
{
    if (!lki_is_dataset(d))
        return lki_fail(LK_EINVAL, "lk_class_names: %s", d ? "not a dataset" : "the dataset is NULL"), (lk_names){0};
    while (!d->classes.count && d->inputs)
        d = d->input[0];
    return d->classes;
}

/* ---- types and shapes of an element ---- */

static void describe(const lki_element *e, lk_element_spec *out)
{
    out->count = e->set->count;
    for (int i = 0; i < out->count && i < LKI_COUNT(out->dtype); i++) {
        lki_column column = lki_element_column(e, i);
        out->dtype[i] = column.dtype;
        out->shape[i] = column.shape;
    }
}

static lk_status look(lk_dataset *d, lk_element_spec *out)
{
    lki_pipeline p = {.looking = true, .lanes = lk_lanes()};
    lki_cursor  *c = NULL;
    lki_element  e;
    int64_t      got = 0;
    LKI_TRY(lki_pipeline_open(&p, d, &c));
    lk_status status = lki_cursor_begin(c, 0);
    if (status == LK_OK) status = lki_cursor_next(c, 1, &e, &got);
    if (got) {
        describe(&e, out);
        lki_elements_drop(1, &e);
    }
    lki_pipeline_close(&p, c);
    return status;
}

static lk_status spec_of(lk_dataset *d, lk_element_spec *out)
{
    *out = (lk_element_spec){0};
    return d->ops->spec ? d->ops->spec(d, out) : look(d, out);
}

lk_element_spec lk_dataset_element_spec(lk_dataset *d)
{
    LKI_SCOPE_ERRORS;
    lk_element_spec spec = {0};
    if (!lki_is_dataset(d))
        return lki_fail(LK_EINVAL, "lk_dataset_element_spec: %s", d ? "not a dataset" : "the dataset is NULL"), spec;
    if (spec_of(d, &spec) != LK_OK) spec = (lk_element_spec){0};
    return spec;
}
