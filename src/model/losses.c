/* The terms that a model adds to the loss: regularisation of its weights, and the terms of its last call on this thread.
 *
 * Each thread has its own entry in the model's list; entries are only ever added, at the front, so no thread waits. */
#include "core/dtype.h"
#include "core/memory.h"
#include "model/model.h"
#include "op/gradient.h"
#include "op/record.h"

const void *lki_this_thread(void)
{
    static _Thread_local char place;
    return &place;
}

static lki_added *entry_of(const lk_model *m)
{
    lki_added *a = __atomic_load_n(&m->added, __ATOMIC_ACQUIRE);
    while (a && a->thread != lki_this_thread())
        a = a->next;
    return a;
}

static lki_added *enter(lk_model *m)
{
    lki_added *a = entry_of(m);
    if (a) return a;
    a = lki_zalloc(sizeof *a);
    if (!a) return NULL;
    a->thread = lki_this_thread();
    a->next = __atomic_load_n(&m->added, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(&m->added, &a->next, a, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
        ;
    return a;
}

static void clear(lki_added *a)
{
    while (a->count)
        lki_drop(a->item[--a->count]);
}

void lki_model_clear_added(lk_model *m)
{
    lki_added *a = entry_of(m);
    if (a) clear(a);
}

void lki_model_free_added(lk_model *m)
{
    for (lki_added *a = m->added, *next; a; a = next) {
        next = a->next;
        clear(a);
        lki_release(a->item);
        lki_release(a->share);
        lki_release(a);
    }
}

/* ---- adding ---- */

static _Thread_local bool exact_rows;

void lki_model_exact_rows(bool exact) { exact_rows = exact; }

/* One value per row, whatever the shape of a row is. */
static lk_tensor *row_sums(lk_tensor *values)
{
    lki_axes behind = {0};
    for (int i = 1; i < values->shape.rank; i++)
        behind.value[behind.count++] = i;
    return behind.count ? lk_reduce_sum(values, .axis = lki_axes_list(&behind)) : values;
}

/* Each row is divided before it is summed, so that the sum over replicas has the order of one device. */
static lk_tensor *mean_over_rows(lk_tensor *values)
{
    if (exact_rows) return lk_compute_average_loss(row_sums(values), .denominator = LK_EXACT);
    return lk_reduce_sum(lk_div(values, lki_like(values, (double)lki_max(1, values->shape.dim[0]))));
}

lk_status lk_model_add_loss(lk_model *m, lk_tensor *loss)
{
    if (!lki_is_model("lk_model_add_loss", m)) return LK_EINVAL;
    if (!loss) return lki_fail(LK_EINVAL, "lk_model_add_loss: the loss is NULL");
    if (lki_bad(loss)) return lki_poisoned_status("lk_model_add_loss");
    if (lki_stands_for(loss)) return lki_fail(LK_EINVAL, "lk_model_add_loss: the loss is %s", lki_why_not_plain(loss));
    if (!lki_is_float(loss->dtype))
        return lki_fail(LK_EDTYPE, "lk_model_add_loss: the loss is %s; it must be a float", lk_dtype_name(loss->dtype));
    lk_tensor *term = loss->shape.rank ? mean_over_rows(loss) : loss;
    if (lki_bad(term)) return lki_poisoned_status("lk_model_add_loss");
    lki_added *a = enter(m);
    if (!a || !lki_grow((void **)&a->item, &a->room, a->count + 1, sizeof *a->item)) return LK_ENOMEM;
    if (!lki_grow((void **)&a->share, &a->share_room, a->count + 1, sizeof *a->share)) return LK_ENOMEM;
    a->share[a->count] = exact_rows && loss->shape.rank;
    a->item[a->count++] = lki_retain(term);
    return LK_OK;
}

/* ---- all of them ---- */

/* A term from tracing that has ended must not be used. */
static bool means_something(const lk_tensor *t) { return !t->graph || lki_tracer_current(); }

/* One term per regularised weight. */
static int add_regularisation(const lk_model *m, lki_weight *const *weight, int count, lk_tensor **term)
{
    int terms = 0;
    for (int i = 0; i < count && lki_model_built(m); i++)
        if (weight[i]->regularizer) term[terms++] = lk_regularizer_call(weight[i]->regularizer, lk_read(weight[i]->variable));
    return terms;
}

lk_tuple lk_model_losses(lk_model *m)
{
    int count, terms;
    if (!lki_is_model("lk_model_losses", m)) return lki_tuple_new(0, NULL);
    const lki_added *a = entry_of(m);
    lki_weight     **weight LKI_RELEASED = lki_model_weight_list(m, &count);
    lk_tensor      **term LKI_RELEASED = weight ? lki_alloc_array(count + (a ? a->count : 0) + 1, sizeof *term) : NULL;
    if (!term) return lki_tuple_new(0, NULL);
    terms = add_regularisation(m, weight, count, term);
    for (int i = 0; a && i < a->count; i++)
        if (means_something(a->item[i])) term[terms++] = a->item[i];
    return lki_tuple_new(terms, term);
}

lk_tensor *lki_model_share_of_losses(lk_model *m)
{
    const lki_added *a = entry_of(m);
    lk_tuple         terms = lk_model_losses(m);
    lk_tensor       *sum = NULL;
    int              regularising = terms.count;
    for (int i = 0; a && i < a->count; i++)
        regularising -= means_something(a->item[i]);
    for (int i = 0, k = 0; i < terms.count; i++) {
        while (i >= regularising && !means_something(a->item[k]))
            k++;
        bool       share = i >= regularising && a->share[k++];
        lk_tensor *term = share ? terms.item[i] : lk_scale_regularization_loss(terms.item[i]);
        sum = sum ? lk_add(sum, term) : term;
    }
    return sum;
}
